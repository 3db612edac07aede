//! `fuseloop info`: shows what a dataset contains, from its tables alone.

use super::folder::{InFolder, add_folder};
use super::gpu;
use super::print::{bytes, count, counted, json_text, say, say_json};
use super::problem::Problem;
use fuseloop::SampleId;
use fuseloop::internals::ErrorExt as _;
use fuseloop::internals::decode::bit_plane_form;
use fuseloop::internals::source::BetonExt as _;
use fuseloop::internals::source::FieldKindExt as _;
use fuseloop::internals::source::FolderExt as _;
use fuseloop::internals::source::beton::{BetonHead, FieldStats};
use fuseloop::internals::source::beton::{FieldError, OpenError, SourceCause, SourceError};
use fuseloop::internals::source::{ClassCounts, Escaped, ObjectFields, has_labels_apart};
use fuseloop::source::{
    Beton, BoxError, ClassNames, CustomRow, Dataset, FieldKind, FieldSpec, Folder, Ignored,
    ImageStats, OpenOptions, Source, Stream,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Show the samples, fields and classes of a dataset
///
/// For a .beton file, also shows image sizes and label ranges.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop info train.beton
  fuseloop info train.beton --json | jq .fields
  fuseloop info photos/       # one folder per class
  fuseloop info mnist/        # the files of MNIST or CIFAR: their training split
  fuseloop info coco/annotations/instances_val2017.json
  fuseloop info voc/
  fuseloop info coco128/images/train2017                     # YOLO's format
  fuseloop info 'train-{000..255}.tar'
  fuseloop info own.beton --custom vector=24:8
  fuseloop info --gpu         # the GPUs of this machine")]
pub(super) struct Args {
    /// Dataset: .beton file, folder, table, tar, TFRecord, MNIST, CIFAR or annotations
    #[arg(value_name = "DATASET", required_unless_present = "gpu", conflicts_with = "gpu")]
    file: Option<PathBuf>,
    /// Size and alignment of a user-defined .beton field, such as vector=24:8 (repeatable). Take them from
    /// its NumPy type.
    #[arg(long, value_name = "NAME=BYTES:ALIGN", value_parser = custom, conflicts_with = "gpu")]
    custom: Vec<(String, CustomRow)>,
    /// Show the GPUs that ToDevice finds, instead of a dataset
    #[arg(long)]
    gpu: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: InFolder,
}

/// Parses the size and alignment of a user-defined field: `vector=24:8`.
fn custom(text: &str) -> Result<(String, CustomRow), String> {
    let expected = "expected NAME=BYTES:ALIGN, such as vector=24:8";
    let (name, row) = text.rsplit_once('=').ok_or(expected)?;
    let (row_size, align) = row.split_once(':').ok_or(expected)?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?}: {expected}"));
    Ok((name.to_owned(), CustomRow { row_size: number(row_size)?, align: number(align)? }))
}

/// Opens the dataset, or only the head of a `.beton` file whose user-defined fields have unknown sizes.
fn open(args: &Args, file: &Path) -> Result<Result<Dataset, BetonHead>, Problem> {
    let options =
        OpenOptions { custom_fields: args.custom.iter().cloned().collect(), ..Default::default() };
    let opened = if args.custom.is_empty() {
        args.folder.open(file)
    } else {
        Ok(Dataset::Beton(Beton::open(file, &options)?.into()))
    };
    let opened = match opened {
        Err(Problem::Library(error)) if has_unknown_field(&error) => {
            Err(BetonHead::open(file, &options).map_err(fuseloop::Error::from)?)
        }
        opened => Ok(opened?),
    };
    check_custom(args, file, &opened)?;
    Ok(opened)
}

/// Refuses the size of a field that the file does not have.
fn check_custom(
    args: &Args,
    file: &Path,
    opened: &Result<Dataset, BetonHead>,
) -> Result<(), Problem> {
    let known: Vec<&str> = match opened {
        Ok(Dataset::Beton(beton)) => {
            beton.facts().fields.iter().map(|field| &*field.name).collect()
        }
        Err(head) => head.fields.iter().map(|(name, _)| &**name).collect(),
        _ => return Ok(()),
    };
    let unknown = args.custom.iter().find(|(name, _)| !known.contains(&&**name));
    let Some((name, _)) = unknown else { return Ok(()) };
    let (file, known) = (file.display(), known.join(", "));
    Err(Problem::Refused {
        message: format!("{file}: no field named {name}; available: {known}"),
        help: "`--custom` gives the size and alignment of a user-defined field of the file",
    })
}

fn has_unknown_field(error: &fuseloop::Error) -> bool {
    let kind = error.cause().map(|error: &SourceError| &error.kind);
    matches!(kind, Some(SourceCause::Open(OpenError::Field(FieldError::CustomUnknown { .. }))))
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let Some(file) = &args.file else { return gpu::run(args.json) };
    let dataset = match (open(args, file)?, args.json) {
        (Ok(dataset), _) => dataset,
        (Err(head), false) => return say(&beton_head_words(file, &head)),
        (Err(head), true) => return say_json(&head_json(file, &head)),
    };
    let text = match (dataset, args.json) {
        (Dataset::Beton(beton), false) => {
            in_words(&beton)
                + &object_words(&objects(&*beton)?)
                + &class_words(&counted_classes(&*beton)?)
        }
        (Dataset::Beton(beton), true) => {
            let json = with_objects(as_json(&beton), &objects(&*beton)?);
            with_classes(json, &counted_classes(&*beton)?)
        }
        (Dataset::Folder(folder), false) => {
            folder_words(&folder) + &class_words(&counted_classes(&*folder)?)
        }
        (Dataset::Folder(folder), true) => {
            let mut json = any_json(
                &folder.facts().name,
                Some(folder.facts().samples),
                &folder.facts().fields,
            );
            json["ignored"] = ignored_json(folder.ignored());
            with_classes(json, &counted_classes(&*folder)?)
        }
        (Dataset::Source(source), false) => {
            source_words(&*source)
                + &object_words(&objects(&*source)?)
                + &class_words(&classes_of(file, &*source)?)
        }
        (Dataset::Source(source), true) => {
            let json = any_json(&source.name(), Some(source.len()), source.fields());
            let json = with_objects(json, &objects(&*source)?);
            with_classes(json, &classes_of(file, &*source)?)
        }
        (Dataset::Stream(stream), false) => {
            let objects = described(stream.facts().object_fields())?;
            stream_words(&stream)
                + &object_words(&objects)
                + &class_words(&uncounted(stream.facts().class_names())?)
        }
        (Dataset::Stream(stream), true) => {
            let json = any_json(&stream.facts().name, stream.known_len(), stream.fields());
            let json = with_objects(json, &described(stream.facts().object_fields())?);
            with_classes(json, &uncounted(stream.facts().class_names())?)
        }
    };
    say(&text)
}

/// Returns the names of a dataset's fields of objects, with a description of each.
fn objects(source: &dyn Source) -> Result<Vec<(String, String)>, Problem> {
    described(source.object_fields())
}

fn described(
    fields: Result<Option<ObjectFields>, BoxError>,
) -> Result<Vec<(String, String)>, Problem> {
    let fields = fields.map_err(Problem::Beside)?.unwrap_or_default();
    Ok(fields.iter().map(|(name, field)| (name.to_owned(), field.to_string())).collect())
}

/// Describes the fields of objects.
fn object_words(fields: &[(String, String)]) -> String {
    let line = |(name, what): &(String, String)| format!("  {}: {what}\n", Escaped(name));
    let lines: String = fields.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("objects\n{lines}") }
}

/// Adds the fields of objects to the JSON of a dataset.
fn with_objects(mut json: Value, fields: &[(String, String)]) -> Value {
    if !fields.is_empty() {
        json["objects"] = fields.iter().cloned().collect();
    }
    json
}

/// A class with a name: its number, its name and, if the dataset has labels in a table, how many samples
/// are of it. Of a dataset whose samples are images with objects, it is how many objects are.
struct NamedClass {
    number: i64,
    name: String,
    samples: Option<u64>,
    objects: Option<u64>,
}

/// The most classes that are listed in words.
const MOST_CLASSES: usize = 12;

/// Returns the named classes of a dataset that is read only for its names.
fn uncounted(names: Result<Option<ClassNames>, BoxError>) -> Result<Vec<NamedClass>, Problem> {
    let names = names.map_err(Problem::Beside)?.unwrap_or_default();
    let class = |(number, name): (i64, &str)| NamedClass {
        number,
        name: name.to_owned(),
        samples: None,
        objects: None,
    };
    Ok(names.iter().map(class).collect())
}

/// Returns the named classes of a dataset, counted where a label is read without the rest of its sample.
fn classes_of(name: &Path, source: &dyn Source) -> Result<Vec<NamedClass>, Problem> {
    if has_labels_apart(name) {
        return counted_classes(source);
    }
    uncounted(source.class_names())
}

/// Returns the named classes of a dataset whose labels are in a table or a file of their own, with their
/// numbers of samples or objects.
fn counted_classes(source: &dyn Source) -> Result<Vec<NamedClass>, Problem> {
    let mut classes = uncounted(source.class_names())?;
    if classes.is_empty() {
        return Ok(classes);
    }
    if let Some(counts) = ClassCounts::new(source).map_err(Problem::Beside)? {
        for class in &mut classes {
            class.samples = counts.samples(class.number);
            class.objects = counts.objects(class.number);
        }
    }
    Ok(classes)
}

/// Describes the first classes.
fn class_words(classes: &[NamedClass]) -> String {
    if classes.is_empty() {
        return String::new();
    }
    let mut text = match classes.len() {
        1 => "1 class".to_owned(),
        several => format!("{} classes", count(several as u64)),
    };
    if let Some(objects) = classes.iter().map(|class| class.objects).sum::<Option<u64>>() {
        let _ = write!(text, ", {}", counted(objects, "object"));
    }
    text.push('\n');
    for NamedClass { number, name, samples, objects } in classes.iter().take(MOST_CLASSES) {
        let samples = match (samples, objects) {
            (Some(samples), _) => counted(*samples, "sample"),
            (None, Some(objects)) => counted(*objects, "object"),
            (None, None) => String::new(),
        };
        let line = format!("  {number:<4} {:<24} {samples}", Escaped(name).to_string());
        let _ = writeln!(text, "{}", line.trim_end());
    }
    if classes.len() > MOST_CLASSES {
        let _ = writeln!(text, "  and {} more", count((classes.len() - MOST_CLASSES) as u64));
    }
    text
}

/// Adds all classes to the JSON of a dataset.
fn with_classes(mut json: Value, classes: &[NamedClass]) -> String {
    let class = |class: &NamedClass| {
        let mut json =
            json!({ "number": class.number, "name": class.name, "samples": class.samples });
        if let Some(objects) = class.objects {
            json["objects"] = objects.into();
        }
        json
    };
    json["classes"] = classes.iter().map(class).collect();
    json_text(&json)
}

/// Returns the numbers of files that are no samples, by their extensions; those without one are under "".
fn ignored_json(ignored: &Ignored) -> Value {
    ignored.extensions.iter().map(|(extension, &files)| (extension.clone(), files)).collect()
}

fn folder_words(folder: &Folder) -> String {
    let mut text = head_words(folder);
    add_folder(&mut text, &folder.links(), folder.ignored());
    text + &field_words(&folder.facts().fields)
}

fn source_words(source: &dyn Source) -> String {
    head_words(source) + &field_words(source.fields())
}

/// Describes the number of samples, and the keys of the first and the last.
fn head_words(source: &dyn Source) -> String {
    let samples = source.len();
    let mut text = format!("{}: {}\n", source.name(), counted(samples, "sample"));
    let key = |sample| source.locate(SampleId(sample), 0)?.key;
    let keys = [0, samples.saturating_sub(1)].map(key);
    if let [Some(first), Some(last)] = keys.map(|key| key.filter(|_| samples > 0)) {
        let _ = writeln!(text, "from {} to {}", Escaped(&first), Escaped(&last));
    }
    text
}

fn stream_words(stream: &Stream) -> String {
    let samples = match stream.known_len() {
        Some(samples) => counted(samples, "sample"),
        None => "sequential, number of samples unknown".to_owned(),
    };
    let fields = field_words(stream.fields());
    format!("{}: {samples}\n{fields}", stream.facts().name)
}

fn field_words(fields: &[FieldSpec]) -> String {
    let mut text = format!("{}\n", counted(fields.len() as u64, "field"));
    for FieldSpec { name, kind } in fields {
        let _ = writeln!(text, "  {:<16} {}", Escaped(name).to_string(), kind_words(kind));
    }
    text
}

fn in_words(beton: &Beton) -> String {
    let path = &beton.facts().name;
    let mut text = format!(
        "{}: {}, {}\n{}, {}, pages of {}\n",
        Escaped(&path),
        counted(beton.facts().samples, "sample"),
        bytes(beton.file_bytes()),
        counted(beton.facts().fields.len() as u64, "field"),
        counted(beton.stored_values(), "stored value"),
        bytes(beton.header().page_size.into()),
    );
    for (index, field) in beton.facts().fields.iter().enumerate() {
        let stats = beton.field_stats(index).map_or_else(String::new, |stats| words(&stats));
        let kind = kind_words(&field.kind);
        let _ = writeln!(text, "  {:<16} {kind:<10} {stats}", Escaped(&field.name).to_string());
    }
    text
}

/// Describes a file with user-defined fields whose size was not given.
fn beton_head_words(path: &Path, head: &BetonHead) -> String {
    let mut text = format!(
        "{}: {}, {}\n{}, {}, pages of {}\n",
        Escaped(&path.display().to_string()),
        counted(head.header.num_samples, "sample"),
        bytes(head.file_bytes),
        counted(head.fields.len() as u64, "field"),
        counted(head.stored_values(), "stored value"),
        bytes(head.header.page_size.into()),
    );
    for (name, kind) in &head.fields {
        let kind = kind.as_ref().map_or_else(|| "custom".to_owned(), kind_words);
        let _ = writeln!(text, "  {:<16} {kind}", Escaped(name).to_string());
    }
    for (name, _) in head.fields.iter().filter(|(_, kind)| kind.is_none()) {
        let name = Escaped(name);
        let _ = writeln!(
            text,
            "field {name} is user-defined: give the size and alignment of its NumPy type \
             (`--custom {name}=BYTES:ALIGN`) to see the ranges of the other fields"
        );
    }
    text
}

fn head_json(path: &Path, head: &BetonHead) -> Value {
    let field = |(name, kind): &(String, Option<FieldKind>)| match kind {
        Some(kind) => field_json(&FieldSpec { name: name.clone(), kind: kind.clone() }),
        None => json!({ "name": name, "type": "custom", "dtype": null, "shape": null }),
    };
    json!({
        "path": path.to_string_lossy(),
        "samples": head.header.num_samples,
        "bytes": head.file_bytes,
        "page_size": head.header.page_size,
        "row_bytes": null,
        "stored_values": head.stored_values(),
        "fields": head.fields.iter().map(field).collect::<Vec<_>>(),
    })
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
    if stats.bit_planes > 0 {
        parts.push(format!(
            "{} as bit planes (decoded with {})",
            count(stats.bit_planes),
            bit_plane_form()
        ));
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
    let fields = beton.facts().fields.iter().enumerate();
    let fields: Vec<Value> = fields
        .map(|(index, field)| {
            let stats = beton.field_stats(index).map_or(Value::Null, |stats| stats_json(&stats));
            let mut field = field_json(field);
            field["stats"] = stats;
            field
        })
        .collect();
    json!({
        "path": beton.facts().name,
        "samples": beton.facts().samples,
        "bytes": beton.file_bytes(),
        "page_size": beton.header().page_size,
        "row_bytes": beton.row_bytes(),
        "stored_values": beton.stored_values(),
        "fields": fields,
    })
}

/// Returns the JSON that describes any dataset.
fn any_json(name: &str, samples: Option<u64>, fields: &[FieldSpec]) -> Value {
    let fields: Vec<Value> = fields.iter().map(field_json).collect();
    json!({ "path": name, "samples": samples, "fields": fields })
}

fn field_json(field: &FieldSpec) -> Value {
    let (dtype, shape) = match &field.kind {
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            (json!(dtype.to_string()), json!(shape))
        }
        _ => (Value::Null, Value::Null),
    };
    json!({ "name": field.name, "type": field.kind.word(), "dtype": dtype, "shape": shape })
}

fn stats_json(stats: &FieldStats) -> Value {
    match stats {
        FieldStats::Image(s) => json!({
            "jpeg": s.jpeg,
            "raw": s.raw,
            "bit_planes": s.bit_planes,
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
