//! The cost of an image: as given, as measured on a dataset, or that of workload W1.
//!
//! | figure    | measured as                                                                            |
//! |-----------|----------------------------------------------------------------------------------------|
//! | CPU-ms    | processor time of all threads between two batches of an epoch, by the images in between |
//! | stored    | mean size of the values of at most 256 samples, evenly spaced in the dataset           |
//! | delivered | mean size of the tensors of the batches                                                |
//!
//! An image may be a clip of a video, whose size is given: it depends on the frames, which are chosen when it is loaded.
//!
//! At both of the two batches the loader has prepared equally many ahead, so that these cancel out. An epoch too short
//! for it is run as a whole, after one to warm up.

use super::super::measure;
use super::super::problem::Problem;
use super::super::process;
use super::super::source::Setup;
use super::Args;
use fuseloop::internals::workload::Workload;
use fuseloop::source::{Buffer, Source, Value};
use fuseloop::{Loader, SampleId};
use std::path::Path;
use std::time::Duration;

/// The processor time of an image in W1: two threads load 2,911 images/s (docs/peers.md).
const W1_CPU_MS: f64 = 2e3 / 2911.0;

/// The mean size of the JPEGs of W1 (docs/performance.md).
const W1_STORED: f64 = 106.5e3;

/// The bytes of an image in a batch of W1: f32 `[3, 224, 224]`, and a label of i64.
const W1_DELIVERED: f64 = 4.0 * 3.0 * 224.0 * 224.0 + 8.0;

/// The number of samples whose size is read.
const SIZED_SAMPLES: u64 = 256;

/// A number, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) value: f64,
    pub(super) origin: &'static str,
}

/// The cost of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) cpu_ms: Figure,
    pub(super) stored: Figure,
    pub(super) delivered: Figure,
    /// The size of the dataset that was measured.
    pub(super) dataset_size: Option<f64>,
    pub(super) batch_size: usize,
    /// True if each image is a clip of a video.
    pub(super) is_clips: bool,
}

impl Figure {
    /// Returns the number that was given, or else the one that `other` computes.
    fn of(
        given: Option<f64>,
        other: impl FnOnce() -> Result<Self, Problem>,
    ) -> Result<Self, Problem> {
        given.map_or_else(other, |value| Ok(Self { value, origin: "given" }))
    }

    fn measured(value: f64) -> Self {
        Self { value, origin: "measured" }
    }
}

impl Figures {
    /// Returns the figures of the arguments; those that are not given are measured.
    pub(super) fn of(args: &Args) -> Result<Self, Problem> {
        let setup = args.pipeline.setup()?;
        match &args.dataset {
            Some(path) => Self::measured(args, &setup, path),
            None => Self::of_w1(args, &setup),
        }
    }

    fn of_w1(args: &Args, setup: &Setup) -> Result<Self, Problem> {
        let is_known = [args.cpu_ms, args.delivered].iter().all(Option::is_some);
        if setup.ops.workload() != Some(Workload::ImageNet.id()) && !is_known {
            return Err(Problem::Refused {
                message: format!("{}: no dataset to measure it on", setup.ops),
                help: "name a dataset, or set `--cpu-ms` and `--delivered`",
            });
        }
        let of = |given, value| {
            Figure::of(given, || Ok(Figure { value, origin: "W1 on photographs of ImageNet" }))
        };
        Ok(Self {
            cpu_ms: of(args.cpu_ms, W1_CPU_MS)?,
            stored: of(args.stored, W1_STORED)?,
            delivered: of(args.delivered, W1_DELIVERED)?,
            dataset_size: None,
            batch_size: setup.batch_size(),
            is_clips: false,
        })
    }

    fn measured(args: &Args, setup: &Setup, path: &Path) -> Result<Self, Problem> {
        let builder = setup.builder(path)?;
        let is_stream = builder.is_stream();
        let loader = builder.build()?;
        let is_clips = loader.stats().noun() == "clip";
        let stored = Figure::of(args.stored, || {
            if is_stream {
                return Err(Problem::Refused {
                    message: format!("{}: a dataset in sequence has no sizes", path.display()),
                    help: "set `--stored` to the mean size of an image, such as 110kB",
                });
            }
            if is_clips {
                return Err(Problem::Refused {
                    message: format!(
                        "{}: the bytes that a clip reads are not measured",
                        path.display()
                    ),
                    help: "set `--stored` to their mean, such as to the size of a short video file; the rest is measured",
                });
            }
            stored_bytes(loader.source()).map(Figure::measured)
        })?;
        let batches = if args.cpu_ms.is_some() { 1 } else { args.batches.get() };
        let run = Run::of(&loader, batches)?;
        let delivered = Figure::of(args.delivered, || {
            let bytes = run.delivered.ok_or_else(|| Problem::Refused {
                message: format!("{}: images that differ in size form no tensor", path.display()),
                help: "set `--delivered` to the mean size of an image in a batch, such as 600kB",
            })?;
            Ok(Figure::measured(bytes))
        })?;
        let cpu_ms = Figure::of(args.cpu_ms, || {
            let ms = cpu_ms(&loader, &run)?.ok_or_else(|| Problem::Refused {
                message: "this system does not report processor time".to_owned(),
                help: "set `--cpu-ms` to the processor time of an image",
            })?;
            Ok(Figure::measured(ms))
        })?;
        #[expect(clippy::cast_precision_loss, reason = "shown rounded")]
        let dataset_size = (!is_stream).then(|| stored.value * loader.source().len() as f64);
        let batch_size = loader.batch_size();
        Ok(Self { cpu_ms, stored, delivered, dataset_size, batch_size, is_clips })
    }
}

/// Images and processor time up to a batch.
#[derive(Clone, Copy, Debug)]
struct Mark {
    images: u64,
    cpu: Option<Duration>,
}

/// The number of batches from which those that are prepared ahead cancel out.
const FEW_BATCHES: u64 = 12;

/// The first batches of an epoch.
struct Run {
    batches: u64,
    /// The marks at the end of the first quarter and of the last batch, as far as the epoch goes.
    marks: Vec<Mark>,
    /// Mean bytes of an image in a batch; `None` if the outputs of a batch are no tensors.
    delivered: Option<f64>,
    /// Processor milliseconds of an image, those of batches ahead and of compilation included.
    cpu_ms: Option<f64>,
}

impl Run {
    #[expect(clippy::cast_precision_loss, reason = "shown rounded")]
    fn of(loader: &Loader, batches: u64) -> Result<Self, Problem> {
        let first = (batches / 4).max(1);
        let (mut number, mut images, mut delivered, mut marks) = (0, 0u64, Some(0u64), vec![]);
        let measured = measure::epoch(loader, 0, batches, |batch| {
            number += 1;
            images += batch.len() as u64;
            let sizes =
                batch.specs().iter().map(|spec| Some(batch.bytes(&spec.name).ok()?.len() as u64));
            delivered = delivered.zip(sizes.sum()).map(|(sum, more): (u64, u64)| sum + more);
            if number == first || number == batches {
                marks.push(Mark { images, cpu: process::cpu_time() });
            }
        })?;
        if images == 0 {
            return Err(Problem::Refused {
                message: "the epoch has no batch to measure".to_owned(),
                help: "use a smaller `--batch-size`, or set `drop_last = false` in the pipeline file",
            });
        }
        let delivered = delivered.map(|bytes| bytes as f64 / images as f64);
        Ok(Self { batches, marks, delivered, cpu_ms: measured.cpu_ms() })
    }
}

/// Returns the processor milliseconds of an image; `None` if the system does not report them.
fn cpu_ms(loader: &Loader, run: &Run) -> Result<Option<f64>, Problem> {
    if loader.len() < run.batches.saturating_mul(2) {
        return Ok(measure::epoch(loader, 1, u64::MAX, |_| ())?.cpu_ms());
    }
    // Between two marks of a short run, nothing may be prepared.
    let [from, to] = run.marks[..] else { return Ok(run.cpu_ms) };
    if run.batches < FEW_BATCHES {
        return Ok(run.cpu_ms);
    }
    let cpu = to.cpu.zip(from.cpu).map(|(to, from)| to.saturating_sub(from));
    #[expect(clippy::cast_precision_loss, reason = "shown rounded")]
    let images = (to.images - from.images) as f64;
    Ok(cpu.map(|cpu| cpu.as_secs_f64() * 1e3 / images))
}

/// Returns the mean size of the samples that can be read.
#[expect(clippy::cast_precision_loss, reason = "shown rounded")]
fn stored_bytes(source: &dyn Source) -> Result<f64, Problem> {
    let samples = source.len().min(SIZED_SAMPLES);
    let (mut sum, mut read, mut failed) = (0, 0u64, None);
    for number in 0..samples {
        match size_of(source, SampleId(number * (source.len() / samples))) {
            Ok(bytes) => (sum, read) = (sum + bytes, read + 1),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if read == 0 => Err(Problem::Beside(error)),
        _ => Ok((sum as f64 / read.max(1) as f64).max(1.0)),
    }
}

/// Returns the bytes of all fields of a sample.
fn size_of(source: &dyn Source, sample: SampleId) -> Result<u64, fuseloop::source::BoxError> {
    let mut buffer = Buffer::default();
    let sizes = (0..source.fields().len()).map(|field| {
        Ok(match source.value(sample, field, &mut buffer)? {
            Value::Image(image) => image.bytes.len() as u64,
            Value::Bytes(bytes)
            | Value::NdArray(bytes)
            | Value::Json(bytes)
            | Value::Custom(bytes) => bytes.len() as u64,
            // A number.
            _ => 8,
        })
    });
    sizes.sum()
}
