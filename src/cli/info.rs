//! `fuseloop info`: what a file holds, from its tables alone, and what this CPU runs.

use super::gpu;
use super::print::{bytes, count, counted, say};
use super::problem::Problem;
use fuseloop::LoadError;
use fuseloop::source::{Beton, Escaped, FieldKind, FieldStats, ImageStats};
use fuseloop_kernels::{ROW_FUNCTIONS, RowFunction};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Show what a .beton file holds: fields, samples, sizes of images, range of labels.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop info train.beton
  fuseloop info train.beton --json | jq .fields
  fuseloop info --gpu         # what ToDevice finds on this machine")]
pub(super) struct Args {
    /// The file.
    #[arg(required_unless_present = "gpu", conflicts_with = "gpu")]
    file: Option<PathBuf>,
    /// Show the GPUs of this machine in place of a file: what ToDevice finds.
    #[arg(long)]
    gpu: bool,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let Some(file) = &args.file else { return gpu::run(args.json) };
    let beton = Beton::open(file, &fuseloop::Limits::DEFAULT).map_err(LoadError::from)?;
    if args.json { say(&format!("{:#}\n", as_json(&beton))) } else { say(&in_words(&beton)) }
}

fn in_words(beton: &Beton) -> String {
    let path = beton.path().map_or_else(String::new, |path| path.display().to_string());
    let mut text = format!(
        "{}: {}, {}\n{}, {}, pages of {}\n",
        Escaped(&path),
        counted(beton.len(), "sample"),
        bytes(beton.file_bytes()),
        counted(beton.fields().len() as u64, "field"),
        counted(beton.stored_values(), "stored value"),
        bytes(beton.header().page_size.into()),
    );
    for (index, field) in beton.fields().iter().enumerate() {
        let stats = beton.field_stats(index).map_or_else(String::new, |stats| words(&stats));
        let kind = kind_words(&field.kind);
        let _ = writeln!(text, "  {:<16} {kind:<10} {stats}", Escaped(&field.name).to_string());
    }
    text + &row_functions()
}

/// The row functions that compiled loops call here, and in which form.
fn row_functions() -> String {
    if let Some(reason) = fuseloop::jit::unsupported() {
        return format!("row functions: none, pipelines are evaluated op by op ({reason})\n");
    }
    let wants = RowFunction::WANTS;
    let form = if RowFunction::are_fast() { "for" } else { "portable, the CPU lacks" };
    let names = ROW_FUNCTIONS.iter().map(|function| function.name);
    let names: Vec<&str> = names.filter(|name| !name.ends_with("_streamed")).collect();
    format!("row functions, {form} {wants}:\n  {}\n", names.join(", "))
}

fn kind_words(kind: &FieldKind) -> String {
    match kind {
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            format!("{} {dtype} {shape:?}", kind.word())
        }
        FieldKind::Custom { row_size, .. } => format!("{} of {row_size} bytes", kind.word()),
        _ => kind.word().to_owned(),
    }
}

fn words(stats: &FieldStats) -> String {
    match stats {
        FieldStats::Image(stats) => image_words(stats),
        FieldStats::Int { min: Some(min), max: Some(max) } => format!("{min} to {max}"),
        FieldStats::Float { min: Some(min), max: Some(max) } => format!("{min} to {max}"),
        FieldStats::Bytes { min: Some(min), max: Some(max) } => {
            format!("{} to {}", bytes(*min), bytes(*max))
        }
        _ => String::new(),
    }
}

fn image_words(stats: &ImageStats) -> String {
    let mut parts = vec![];
    if stats.jpeg > 0 {
        parts.push(format!("{} as JPEG", count(stats.jpeg)));
    }
    if stats.raw > 0 {
        parts.push(format!("{} raw", count(stats.raw)));
    }
    if stats.unreadable > 0 {
        parts.push(format!("{} unreadable", count(stats.unreadable)));
    }
    if let (Some(min), Some(max)) = (stats.min, stats.max) {
        parts.push(match stats.uniform() {
            Some(size) => format!("all {} x {} pixels", size.width, size.height),
            None => format!(
                "{} to {} wide, {} to {} high",
                min.width, max.width, min.height, max.height
            ),
        });
    }
    parts.join(", ")
}

fn as_json(beton: &Beton) -> Value {
    let fields = beton.fields().iter().enumerate();
    let fields: Vec<Value> = fields
        .map(|(index, field)| {
            let stats = beton.field_stats(index).map_or(Value::Null, |stats| stats_json(&stats));
            let (dtype, shape) = match &field.kind {
                FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
                    (json!(dtype.to_string()), json!(shape))
                }
                _ => (Value::Null, Value::Null),
            };
            let kind = field.kind.word();
            json!({ "name": field.name, "type": kind, "dtype": dtype, "shape": shape, "stats": stats })
        })
        .collect();
    json!({
        "path": beton.path().map(|path| path.to_string_lossy()),
        "samples": beton.len(),
        "bytes": beton.file_bytes(),
        "page_size": beton.header().page_size,
        "row_bytes": beton.row_bytes(),
        "stored_values": beton.stored_values(),
        "fields": fields,
    })
}

fn stats_json(stats: &FieldStats) -> Value {
    match stats {
        FieldStats::Image(s) => json!({
            "jpeg": s.jpeg,
            "raw": s.raw,
            "unreadable": s.unreadable,
            "min_width": s.min.map(|size| size.width),
            "max_width": s.max.map(|size| size.width),
            "min_height": s.min.map(|size| size.height),
            "max_height": s.max.map(|size| size.height),
            "max_pixels": s.max_pixels,
        }),
        FieldStats::Int { min, max } => json!({ "min": min, "max": max }),
        FieldStats::Float { min, max } => json!({ "min": min, "max": max }),
        FieldStats::Bytes { min, max } => json!({ "min_bytes": min, "max_bytes": max }),
        _ => Value::Null,
    }
}
