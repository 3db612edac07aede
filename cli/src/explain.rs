//! `fuseloop explain`: shows the plan of a workload or a pipeline on a file, its cost, and the generated
//! code.

use super::number;
use super::pick::{image_fields, spread};
use super::print::{device_line, say, say_json};
use super::problem::Problem;
use super::source::{OnDevice, Pipeline, Setup};
use super::storage::{self, StorageCosts};
use super::tree;
use fuseloop::internals::jit::{BlockCosts, Costs, KernelTimer, predict, unsupported};
use fuseloop::internals::loader::{Inspector, Phases, of_number};
use fuseloop::internals::plan::Description;
use fuseloop::loader::{Phase, Placement};
use fuseloop::ops::author::{ImageType, Layout, Type};
use fuseloop::{Error, Loader};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Show the plan of a workload or pipeline and its costs
///
/// The plan lists the blocks, the ops fused into each block and why it ends, and the work pushed into
/// decoding. The cost of each op is predicted and measured.
///
/// Ops are measured on a few samples, by compiling each block with one more op at a time. Of clips, costs are those of a
/// frame: the mean of the frames of a few clips, and of one frame for each op. To compare the cost
/// of decoding, the same samples are also stored in memory as JPEG, as re-cut JPEG and as bit planes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop explain train.beton --workload W3
  fuseloop explain train.beton --pipeline imagenet.toml --epoch 5 --json
  fuseloop explain train.beton --device auto     # the part that runs on a GPU, if available
  fuseloop explain train.beton --clif | less
  fuseloop explain train.beton --asm | less
  FUSELOOP_PERF=1 perf record fuseloop bench train.beton    # perf report then names the loops")]
pub(super) struct Args {
    /// Dataset: any kind that `fuseloop info` shows
    #[arg(value_name = "DATASET")]
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    #[command(flatten)]
    on: OnDevice,
    /// Epoch whose ops and draws to show
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// Number of samples to measure, spread over the dataset; 0 measures nothing
    #[arg(long, short = 'n', default_value_t = 8, value_parser = number::whole::<u64>)]
    samples: u64,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["clif", "asm"])]
    json: bool,
    /// Also print the intermediate code (Cranelift IR) of every block
    #[arg(long, visible_alias = "ir")]
    clif: bool,
    /// Also print the native code of every block
    #[arg(long)]
    asm: bool,
}

/// The number of runs of a sample for the times of its phases.
const ROUNDS: usize = 5;

/// The report on one image field.
pub(super) struct FieldReport {
    pub(super) name: String,
    /// True if a sample has frames of this field. Costs are those of one frame then.
    pub(super) has_frames: bool,
    /// The advice if most of the time is spent on reading, and if it is on decoding.
    pub(super) remedies: [&'static str; 2],
    /// A description of the target, if the field is a mask that follows an image.
    pub(super) target: Option<String>,
    pub(super) plan: Description,
    /// The numbers of images stored as JPEG, raw, and as bit planes.
    pub(super) stored: [u64; 3],
    /// The number of loop bodies, the time to compile them, and the size of their code in bytes.
    pub(super) code: (usize, Duration, usize),
    /// The measurements, if there are any.
    pub(super) measured: Option<Measured>,
    /// The cost of decoding for each way to store JPEGs, if it was measured.
    pub(super) storage: Option<StorageCosts>,
}

impl FieldReport {
    /// Returns the noun for what the costs are of.
    pub(super) fn noun(&self) -> &'static str {
        if self.has_frames { "frame" } else { "sample" }
    }
}

/// The means over the measured samples, or over their frames.
pub(super) struct Measured {
    pub(super) samples: u64,
    pub(super) phases: PhaseMeans,
    pub(super) predicted: Vec<BlockCosts>,
    /// `None` if nothing can be compiled.
    pub(super) costs: Option<Costs>,
}

/// Nanoseconds, bytes and pixels per sample, or per frame.
#[derive(Clone, Copy, Default)]
pub(super) struct PhaseMeans {
    pub(super) read: f64,
    pub(super) headers: f64,
    pub(super) draw: f64,
    pub(super) decode: f64,
    pub(super) compiled: f64,
    pub(super) stored_bytes: f64,
    pub(super) picture_pixels: f64,
    pub(super) decoded_pixels: f64,
    /// The share of the images that are decoded at a smaller scale.
    pub(super) scaled: f64,
}

impl PhaseMeans {
    /// Returns the name and the nanoseconds of each phase, in order.
    pub(super) fn all(&self) -> [(&'static str, f64); 5] {
        [
            ("read", self.read),
            ("headers", self.headers),
            ("draw", self.draw),
            ("decode", self.decode),
            ("ops", self.compiled),
        ]
    }

    pub(super) fn total(&self) -> f64 {
        self.all().iter().map(|(_, ns)| ns).sum()
    }
}

/// A tensor that is no image.
pub(super) struct OtherField {
    pub(super) name: String,
    pub(super) output: Type,
    pub(super) ops: Vec<&'static str>,
    /// A description of the target, if the field follows an image.
    pub(super) target: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let setup = args.pipeline.setup()?.on(&args.on);
    let loader = setup.builder(&args.file)?.build()?;
    let samples = spread(args.samples, loader.source().len());
    let (mut reports, mut listings) = (vec![], String::new());
    for name in image_fields(&loader, &args.file)? {
        let Some(mut inspector) = loader.inspect(&name, args.epoch)? else { continue };
        if args.clif {
            listings.push_str(&inspector.kernel().ir());
        }
        if args.asm {
            listings.push_str(&inspector.kernel().asm());
        }
        let mut report = report(&samples, &loader, name, &mut inspector)?;
        let source = loader.source();
        report.storage = source
            .field_index(&report.name)
            .and_then(|field| storage::measure(source, field, &mut inspector, &samples));
        reports.push(report);
    }
    let others = other_fields(args, &setup, &loader)?;
    if args.json {
        return say_json(&as_json(args, &setup, &loader, &reports, &others));
    }
    let device = device_line(&loader.device());
    let title = format!("{}: {}\n{device}", setup.ops, setup.ops.summary());
    say(&(title + &tree::in_words(&reports, &others) + &listings))
}

/// Describes the plan of a field and measures it on some samples.
pub(super) fn report(
    samples: &[u64],
    loader: &Loader,
    name: String,
    inspector: &mut Inspector,
) -> Result<FieldReport, Problem> {
    let measured = if samples.is_empty() { None } else { Some(measure(inspector, samples)?) };
    let kernel = inspector.kernel();
    let code = (kernel.loop_bodies(), kernel.compile_time(), kernel.code_bytes());
    let source = loader.source();
    let stats = source.field_index(&name).and_then(|field| source.image_stats(field));
    let stored = stats.map_or([0; 3], |stats| [stats.jpeg, stats.raw, stats.bit_planes]);
    let (target, plan) = (loader.target_words(&name), kernel.plan().describe());
    let (has_frames, loads) = (inspector.has_frames(), loader.stats());
    let remedies = [Phase::Read, Phase::Decode].map(|phase| loads.remedy(phase));
    let storage = None;
    Ok(FieldReport { name, has_frames, remedies, target, plan, stored, code, measured, storage })
}

/// Measures the samples, phase by phase and op by op.
fn measure(inspector: &mut Inspector, samples: &[u64]) -> Result<Measured, Problem> {
    let kernel = inspector.kernel().clone();
    let (plan, mut meter) = (kernel.plan(), KernelTimer::new(&kernel));
    let (mut phases, mut predicted, mut failed) = (vec![], vec![], None::<Error>);
    for &sample in samples {
        let timed = inspector.time(sample, ROUNDS, |source, draws| {
            predicted.push(predict(plan, source, draws));
            if let Some(meter) = &mut meter {
                failed = meter.sample(source, draws).err().or(failed.take());
            }
        });
        phases.push(timed.map_err(|error| of_number(sample, error))?);
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    let costs = meter.map(|meter| meter.costs()).filter(|costs| costs.samples > 0);
    Ok(Measured {
        samples: samples.len() as u64,
        phases: means(&phases),
        predicted: Costs::mean(&predicted).blocks,
        costs,
    })
}

#[expect(clippy::cast_precision_loss, reason = "shown rounded")]
fn means(phases: &[Phases]) -> PhaseMeans {
    let mean = |of: &dyn Fn(&Phases) -> f64| {
        phases.iter().map(of).sum::<f64>() / phases.len().max(1) as f64
    };
    let nanos = |of: fn(&Phases) -> Duration| mean(&|phases| of(phases).as_secs_f64() * 1e9);
    PhaseMeans {
        read: nanos(|p| p.read),
        headers: nanos(|p| p.headers),
        draw: nanos(|p| p.draw),
        decode: nanos(|p| p.decode),
        compiled: nanos(|p| p.compiled),
        stored_bytes: mean(&|p| p.stored_bytes as f64),
        picture_pixels: mean(&|p| p.picture.pixels() as f64),
        decoded_pixels: mean(&|p| p.decoded.pixels() as f64),
        scaled: mean(&|p| f64::from(u8::from(p.is_scaled))),
    }
}

fn other_fields(args: &Args, setup: &Setup, loader: &Loader) -> Result<Vec<OtherField>, Problem> {
    let mut others = vec![];
    for tensor in loader.tensors() {
        if loader.inspect(&tensor.name, args.epoch)?.is_some() {
            continue;
        }
        let ops = setup.ops.of_other(loader, &tensor.name, args.epoch)?;
        let ops = ops.iter().map(|op| op.name()).collect();
        let output = Type::Tensor { dtype: tensor.dtype, shape: tensor.shape };
        let target = loader.target_words(&tensor.name);
        others.push(OtherField { name: tensor.name, output, ops, target });
    }
    Ok(others)
}

fn as_json(
    args: &Args,
    setup: &Setup,
    loader: &Loader,
    reports: &[FieldReport],
    others: &[OtherField],
) -> Value {
    let Placement { device, fallback, .. } = loader.device();
    let other = |other: &OtherField| json!({ "name": other.name, "target": other.target, "output": other.output.to_string(), "ops": other.ops });
    json!({
        "file": args.file.to_string_lossy(),
        "workload": setup.ops.workload(),
        "pipeline": setup.ops.file().map(|path| path.to_string_lossy()),
        "epoch": args.epoch,
        "device": device.to_string(),
        "device_fallback": fallback,
        "not_compiled": unsupported(),
        "images": reports.iter().map(field_json).collect::<Vec<_>>(),
        "others": others.iter().map(other).collect::<Vec<_>>(),
    })
}

/// Returns the report of a field as JSON.
pub(super) fn field_json(report: &FieldReport) -> Value {
    let FieldReport { name, target, plan, stored, code: (bodies, time, bytes), measured, .. } =
        report;
    let later = plan.later.iter().map(|(why, plan)| {
        json!({
            "why": why,
            "blocks": blocks_json(plan, None),
        })
    });
    json!({
        "name": name,
        "target": target,
        "stored": { "jpeg": stored[0], "raw": stored[1], "bit_planes": stored[2] },
        "decoded": image_json(plan.input),
        "pushed_into_decode": plan.pushed_into_decode,
        "blocks": blocks_json(plan, measured.as_ref()),
        "left_out": plan.left_out,
        "output": image_json(plan.output),
        "output_bytes": plan.output_bytes,
        "later_passes": later.collect::<Vec<_>>(),
        "code": {
            "loop_bodies": bodies,
            "bytes": bytes,
            "compile_ms": time.as_secs_f64() * 1e3,
        },
        "measured": measured.as_ref().map(|measured| measured_json(report, measured)),
        "storage": report.storage.as_ref().map(StorageCosts::to_json),
        "bottleneck": measured.as_ref().map(|measured| tree::bottleneck(report, measured)),
    })
}

/// Returns the blocks of a plan as JSON.
fn blocks_json(plan: &Description, measured: Option<&Measured>) -> Vec<Value> {
    let blocks = plan.blocks.iter().enumerate().map(|(index, block)| {
        let predicted = measured.and_then(|measured| measured.predicted.get(index));
        let costs = measured.and_then(|measured| measured.costs.as_ref()?.blocks.get(index));
        let op = |op: &fuseloop::internals::plan::describe::OpDescription| {
            json!({
                "name": op.name,
                "index": op.op_index,
                "of_image": op.is_followed,
                "output": image_json(op.output),
                "became": op.role,
                "chosen_by": op.chosen_by,
                "predicted_ns": predicted.and_then(|costs| costs.of(op.flat_op)),
                "measured_ns": costs.and_then(|costs| costs.of(op.flat_op)),
            })
        };
        json!({
            "summary": block.summary,
            "input": image_json(block.input),
            "output": image_json(block.output),
            "ops": block.ops.iter().map(op).collect::<Vec<_>>(),
            "loop_bodies_at_most": block.loop_bodies,
            "ends": block.ends,
            "load_and_store": {
                "predicted_ns": predicted.map(|costs| costs.load_and_store),
                "measured_ns": costs.map(|costs| costs.load_and_store),
            },
            "predicted_ns": predicted.map(|costs| costs.total),
            "measured_ns": costs.map(|costs| costs.total),
            "bytes_loaded": costs.map(|costs| costs.bytes_in),
            "bytes_stored": costs.map(|costs| costs.bytes_out),
        })
    });
    blocks.collect()
}

fn measured_json(report: &FieldReport, measured: &Measured) -> Value {
    let phases = measured.phases;
    let jpeg = tree::jpeg_phases(report, measured);
    let jpeg: serde_json::Map<_, _> =
        jpeg.into_iter().map(|(name, ns)| (name.to_owned(), json!(ns))).collect();
    json!({
        "samples": measured.samples,
        "of": report.noun(),
        "read_ns": phases.read,
        "headers_ns": phases.headers,
        "draw_ns": phases.draw,
        "decode_ns": phases.decode,
        "jpeg_phases_estimated_ns": jpeg,
        "compiled_ns": phases.compiled,
        "total_ns": phases.total(),
        "stored_bytes": phases.stored_bytes,
        "picture_pixels": phases.picture_pixels,
        "decoded_pixels": phases.decoded_pixels,
        "decoded_smaller": phases.scaled,
    })
}

/// `{"dtype": "u8", "layout": "HWC", "channels": 3, "height": [1, 500], "width": [1, 500]}`.
fn image_json(image: ImageType) -> Value {
    let layout = match image.layout {
        Layout::ChannelsFirst => "CHW",
        Layout::ChannelsLast => "HWC",
        Layout::Plane => "HW",
    };
    json!({
        "dtype": image.dtype.to_string(),
        "layout": layout,
        "channels": image.channels,
        "height": [image.height.min, image.height.max],
        "width": [image.width.min, image.width.max],
    })
}
