//! Why a loader could not be made, and why a sample could not be loaded.

use super::cache::CacheError;
use super::{CollateCause, CollateError, CursorError};
use crate::decode::DecodeError;
use crate::device::DeviceError;
use crate::jit::CompileError;
use crate::order::OrderError;
use crate::plan::label::LabelError;
use crate::plan::{PlanError, TooManyPixels};
use crate::run::RunError;
use crate::sample::SampleId;
use crate::source::stream::Halt;
use crate::source::{
    BoxError, DatasetError, Escaped, ReadErrorKind, SampleLocation, Source, SourceError,
};
use crate::threads::ThreadsError;
use fuseloop_ops::{Device, NoMemory, ParamError, Size};
use std::fmt;

/// Why a loader, or one of its epochs, could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The dataset.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The dataset, where it is no `.beton` file. The message begins with its name.
    #[error(transparent)]
    Dataset(BoxError),
    /// A pipeline or a setting for a field that the dataset has not.
    #[error("there is no field {}, the file has {known}", Escaped(name))]
    NoSuchField {
        /// The name given.
        name: String,
        /// The fields there are.
        known: String,
    },
    /// Two pipelines of one field, by two names of it.
    #[error(
        "pipelines for {} and {}, which are names of one field: keep one of them",
        Escaped(first),
        Escaped(second)
    )]
    OneField {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// A view or a branch of an output that there is not, or one that shares its draws.
    #[error("there is no output {}, there are {known}", Escaped(name))]
    NoSuchOutput {
        /// The name given.
        name: String,
        /// The outputs there are.
        known: String,
    },
    /// Two outputs of one name.
    #[error("output {}: a field or another output has this name", Escaped(name))]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A branch from beyond the end of a list.
    #[error("output {}: it branches after {keep} ops of a list of {found}", Escaped(output))]
    Branch {
        /// The branch.
        output: String,
        /// Ops that should come before it.
        keep: usize,
        /// Ops there are.
        found: usize,
    },
    /// Draws that can't be shared.
    #[error("output {} can't share the draws of {}: {reason}", Escaped(output), Escaped(with))]
    SharedDraws {
        /// The output that should draw as the other does.
        output: String,
        /// The other.
        with: String,
        /// Why not.
        reason: &'static str,
    },
    /// A label that is mixed in shares that no image is mixed in.
    #[error(
        "output {}: no image is mixed as this label is: put {ops}, with the same parameters, last in an image's list",
        Escaped(output)
    )]
    MixedAlone {
        /// The label.
        output: String,
        /// The ops that mix it.
        ops: String,
    },
    /// A label whose share depends on the size of an image, and images of different sizes.
    #[error(
        "output {}: its share by {ops} follows from the size of the images mixed so, but there are {} and {}",
        Escaped(output), sizes[0], sizes[1]
    )]
    MixedSizes {
        /// The label.
        output: String,
        /// The ops that mix it.
        ops: String,
        /// Two of the sizes.
        sizes: [Size; 2],
    },
    /// A parameter of an op.
    #[error("output {}: {error}", Escaped(output))]
    Param {
        /// The output whose pipeline it is in.
        output: String,
        /// What is wrong.
        error: ParamError,
    },
    /// A pipeline that does not fit.
    #[error("output {}: {error}", Escaped(output))]
    Plan {
        /// The output.
        output: String,
        /// What does not fit.
        error: PlanError,
    },
    /// A pipeline for a field that has none.
    #[error(
        "field {} is {kind}: ops are taken for images, ints, floats and arrays",
        Escaped(field)
    )]
    NoPipeline {
        /// The field.
        field: String,
        /// What it is.
        kind: &'static str,
    },
    /// Ops of a part of the dataset that can't stand beside those of the output.
    #[error("output {}: ops of part {part}: {reason}", Escaped(output))]
    Part {
        /// The output.
        output: String,
        /// The part.
        part: usize,
        /// Why not.
        reason: String,
    },
    /// A picture field without any readable picture.
    #[error("field {} has no readable picture: its size can't be known", Escaped(field))]
    NoPictures {
        /// The field.
        field: String,
    },
    /// A field of bytes from a source that does not say how long they are.
    #[error(
        "field {}: the source does not say how long its longest value is: leave the field out, collate it `to` a length, or have `longest` say it",
        Escaped(field)
    )]
    NoLongest {
        /// The field.
        field: String,
    },
    /// A field that can't be collated as asked for.
    #[error("output {}: {error}", Escaped(output))]
    Collate {
        /// The output.
        output: String,
        /// Why not.
        error: CollateError,
    },
    /// A field whose largest value is too large for a batch.
    #[error("field {}: a value of {bytes} bytes is over the limit of {max}", Escaped(field))]
    TooLarge {
        /// The field.
        field: String,
        /// Its largest value.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// Batches over the limit on memory.
    #[error(
        "{batches} batches of {batch_size} samples take {bytes} bytes, {row_bytes} a sample; the limit is {max}: take smaller batches, fewer of them ahead or smaller pictures, or give a `memory_limit` of your own"
    )]
    BatchBytes {
        /// Bytes of all batches.
        bytes: u64,
        /// Batches that are made ahead, and the one in use.
        batches: u64,
        /// Samples of a batch.
        batch_size: usize,
        /// Bytes of a sample, over all outputs.
        row_bytes: u64,
        /// [`Limits::max_batch_bytes`](crate::sample::Limits::max_batch_bytes).
        max: u64,
    },
    /// The compiler.
    #[error("output {}: {error}", Escaped(output))]
    Compile {
        /// The output.
        output: String,
        /// What went wrong.
        error: CompileError,
    },
    /// A batch size of 0.
    #[error("a batch size of 0: give 1 or more")]
    BatchSize,
    /// No worker.
    #[error("0 workers or 0 batches ahead: give 1 or more")]
    Workers,
    /// An index that the dataset has not.
    #[error("index {index}: the dataset has {samples} samples")]
    Index {
        /// The index.
        index: u64,
        /// Samples there are.
        samples: u64,
    },
    /// A filter whose field can't be read.
    #[error("filter: sample {sample}: {error}")]
    Filter {
        /// The sample.
        sample: SampleId,
        /// Its field, and why not.
        error: Box<SampleError>,
    },
    /// The order.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// A cursor that can't be had, or not be gone on from.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// A process cache for a source that has no pages.
    #[error("{}: only a .beton file has pages for a process cache", Escaped(dataset))]
    NoPages {
        /// The dataset.
        dataset: String,
    },
    /// The source can't begin a run.
    #[error("{}: {error}", Escaped(dataset))]
    Begin {
        /// The dataset.
        dataset: String,
        /// Why not.
        error: BoxError,
    },
    /// Rows left out, where several ranks must have the same number.
    #[error(
        "damaged samples can't be skipped on {world} ranks, whose batches would differ in length: take OnDamaged::Substitute"
    )]
    SkipOnRanks {
        /// Ranks.
        world: u32,
    },
    /// A setting that a stream can't have.
    #[error("a stream has no {what}: {cure}")]
    Stream {
        /// The setting.
        what: String,
        /// What to do instead.
        cure: &'static str,
    },
    /// Every field was left out.
    #[error("no field is left to load")]
    NoOutputs,
    /// The cache.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A name of no device.
    #[error("device: {0}")]
    DeviceName(ParamError),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A list that a device can't run.
    #[error("output {}: {error}", Escaped(output))]
    OnDevice {
        /// The output.
        output: String,
        /// Why not.
        error: DeviceError,
    },
    /// Lists for several devices.
    #[error(
        "lists name both {} and {} in ToDevice: a loader has one device, which `LoaderBuilder::device` names for all",
        devices[0], devices[1]
    )]
    TwoDevices {
        /// Two of them.
        devices: [Device; 2],
    },
    /// A device that would have nothing to do.
    #[error(
        "{device} was asked for, but no list of ops has ToDevice: put it into the image's list, before Normalize"
    )]
    NothingForDevice {
        /// The device.
        device: Device,
    },
    /// No batch may be on the device.
    #[error("0 batches on the device: give 1 or more (`device_batches`)")]
    DeviceBatches,
    /// The threads: too many, none to be had, or those of a process that this one was forked from.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The engine.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl LoadError {
    /// Whether it is a device that could not be had, or can't run what it should: a CPU could.
    pub(super) fn is_of_device(&self) -> bool {
        matches!(self, Self::Device(_) | Self::OnDevice { .. })
    }
}

/// Why a sample could not be loaded. The engine adds the batch and the sample's id.
#[derive(Debug, thiserror::Error)]
pub struct SampleError {
    /// The dataset: its path, where it has one.
    pub dataset: Box<str>,
    /// Where the value is stored: the file, the sample's key there, the bytes; as far as the source
    /// says.
    pub location: Option<Box<SampleLocation>>,
    /// The field, or the output that was to be made of it.
    pub field: Box<str>,
    /// What went wrong.
    pub cause: SampleCause,
}

/// `photos/cat/6.jpg (image): the JPEG is cut short`: the location, or the dataset where the source
/// gives none or the cause names the file itself; and the first byte of a value that is damaged
/// inside.
impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dataset, location, field, cause } = self;
        let message = cause.to_string();
        let location = location.as_deref().filter(|location| !location.is_named_by(&message));
        match location {
            Some(location) if location.file.is_some() => location.fmt(f)?,
            Some(SampleLocation { key: Some(key), .. }) => {
                write!(f, "{}: sample {}", Escaped(dataset), Escaped(key))?;
            }
            _ => Escaped(dataset).fmt(f)?,
        }
        write!(f, " ({})", Escaped(field))?;
        // A value that could not be read says itself where.
        let bytes = location.and_then(|location| location.bytes.as_ref());
        if let (SampleCause::Decode(_), Some(bytes)) = (cause, bytes) {
            write!(f, " at byte {}", bytes.start)?;
        }
        write!(f, ": {message}")
    }
}

impl SampleError {
    /// What is wrong with field `place` of a sample; `name` is the field's or its output's.
    pub(super) fn of(
        source: &dyn Source,
        sample: SampleId,
        (name, place): (&str, usize),
        cause: SampleCause,
    ) -> Self {
        let location = source.locate(sample, place).map(Box::new);
        Self { dataset: source.name().into(), location, field: name.into(), cause }
    }
}

/// What went wrong with a sample.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleCause {
    /// Its bytes can't be had.
    #[error(transparent)]
    Read(#[from] ReadErrorKind),
    /// It is longer than the source said its longest value is.
    #[error("a value of {found} bytes, where the source's longest is said to have {longest}")]
    TooLong {
        /// Bytes of the value.
        found: usize,
        /// What the source said.
        longest: usize,
    },
    /// It is beyond the end of its stream, or of what the stream can give.
    #[error(transparent)]
    Halt(#[from] Halt),
    /// The source, one of the user's own, refuses.
    #[error(transparent)]
    Source(BoxError),
    /// It can't be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An op makes too large a picture of it.
    #[error(transparent)]
    Pixels(#[from] TooManyPixels),
    /// The system has no memory for it, or for a picture on its way.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// Its label is not one of the classes.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// It does not fit into its row.
    #[error(transparent)]
    Collate(#[from] CollateCause),
}

/// What a source said: of a file, its own kind of error.
impl From<BoxError> for SampleCause {
    fn from(error: BoxError) -> Self {
        match error.downcast::<ReadErrorKind>() {
            Ok(kind) => Self::Read(*kind),
            Err(error) => match error.downcast::<Halt>() {
                Ok(halt) => Self::Halt(*halt),
                Err(error) => Self::Source(error),
            },
        }
    }
}

impl From<DatasetError> for LoadError {
    fn from(error: DatasetError) -> Self {
        match error {
            DatasetError::Beton(error) => Self::Source(error),
            DatasetError::Other(error) => Self::Dataset(error),
        }
    }
}
