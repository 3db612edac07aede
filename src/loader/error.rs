//! Errors of building a loader and of loading a sample.

use super::collate::CollateCause;
use super::cursor::CursorError;
use super::targets::TargetCause;
use crate::decode::DecodeError;
use crate::device::DeviceError;
use crate::error::{Cause, Details, Error, ErrorKind};
use crate::jit::CompileError;
use crate::plan::label::LabelError;
use crate::plan::{FunctionError, PlanError, RunOpsError, TooManyPixels};
use crate::run::RunError;
use crate::sample::{Epoch, SampleId};
use crate::source::stream::StreamEnd;
use crate::source::{BoxError, Escaped, NdType, ReadCause, SampleLocation, Source, SourceError};
use crate::threads::ThreadsError;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::{Device, ParamError, Size};
use std::fmt;

/// Names the output that an error is about.
pub(super) fn of_output(error: Error, output: &str) -> Error {
    error.context(format_args!("output {output}")).of_field(output)
}

/// Names the field that an error is about.
pub(super) fn of_field(error: Error, field: &str) -> LoadCause {
    LoadCause::Other(error.context(format_args!("field {field}")).of_field(field))
}

/// Why a loader could not be built, or why an epoch could not be started or ended early.
#[derive(Debug, thiserror::Error)]
pub enum LoadCause {
    /// The dataset could not be opened, or a setting is invalid by itself.
    #[error(transparent)]
    Other(#[from] Error),
    /// A `.beton` file could not be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A pipeline or a setting names a field that the dataset does not have.
    #[error("no field named {}; available: {known}", Escaped(name))]
    NoSuchField {
        /// The name given.
        name: String,
        /// The names of all fields.
        known: String,
    },
    /// Two pipelines name the same field by two names.
    #[error(
        "pipelines for {} and {}, which are names of one field: keep one of them",
        Escaped(first),
        Escaped(second)
    )]
    OneField {
        /// The first name.
        first: String,
        /// The second name.
        second: String,
    },
    /// A view, a branch or shared draws name an output that does not exist.
    #[error("no output named {}; available: {known}", Escaped(name))]
    NoSuchOutput {
        /// The name given.
        name: String,
        /// The names of all outputs.
        known: String,
    },
    /// Images are to be decoded at a smaller scale, and another setting needs their own pixels.
    #[error("scaled_decode changes pixel values, but {with}: use only one of the two")]
    ScaledDecode {
        /// The other setting.
        with: &'static str,
    },
    /// An image output was asked for, and this one has other values.
    #[error("output {} has no images; available: {known}", Escaped(name))]
    NotAnImage {
        /// The name given.
        name: String,
        /// The names of the outputs with images.
        known: String,
    },
    /// An image output was asked for, and there is none.
    #[error("no output has images; the outputs are {known}")]
    NoImageOutput {
        /// The names of all outputs.
        known: String,
    },
    /// Two outputs have the same name.
    #[error("output {}: a field or another output has this name", Escaped(name))]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A branch starts beyond the end of a list of ops.
    #[error("output {}: it branches after {keep} ops, but the list has {found}", Escaped(output))]
    Branch {
        /// The branch.
        output: String,
        /// The number of ops that should come before the branch.
        keep: usize,
        /// The number of ops in the list.
        found: usize,
    },
    /// The draws of an output can't be shared.
    #[error("output {} can't share the draws of {}: {reason}", Escaped(output), Escaped(with))]
    SharedDraws {
        /// The output that should draw as the other does.
        output: String,
        /// The other output.
        with: String,
        /// The reason.
        reason: &'static str,
    },
    /// A label is mixed, but no image is mixed by the same ops.
    #[error(
        "output {}: no image has the same mixing ops as this label: put {ops}, with the same parameters, last in an image's list",
        Escaped(output)
    )]
    MixedAlone {
        /// The label.
        output: String,
        /// The ops that mix it.
        ops: String,
    },
    /// Features are mixed without an image, but nothing beside them is mixed by the same ops.
    #[error(
        "output {}: {ops} mixes this output, but no other output has the same ops: put {ops}, with the same parameters, last in the list of one of {others}, or leave these out (`without`)",
        Escaped(output)
    )]
    UnmixedOthers {
        /// The features, or the label.
        output: String,
        /// The ops that mix it.
        ops: String,
        /// The outputs that are not mixed.
        others: String,
    },
    /// A rectangle is pasted, but there are no pictures.
    #[error(
        "output {}: {ops} pastes a rectangle of an image, but no output has images: use MixUp, or name the axes of an array of images with `axes`, for example \"HWC\"",
        Escaped(output)
    )]
    NothingToPaste {
        /// The label, or the features.
        output: String,
        /// The ops that mix it.
        ops: String,
    },
    /// A rectangle is pasted into arrays that may be no pictures.
    #[error(
        "output {}: {ops} pastes a rectangle into arrays of several axes: {error}; an array that is a label has one axis",
        Escaped(output)
    )]
    PastedArray {
        /// The output.
        output: String,
        /// The ops that mix it.
        ops: String,
        /// The reason why its axes are not known.
        error: Error,
    },
    /// An image is mixed, but no label is mixed by the same ops.
    #[error(
        "output {}: {ops} mixes the images, but no label has the same ops: put {ops}, with the same parameters, last in the list of one of {labels}, or leave these out (`without`)",
        Escaped(output)
    )]
    UnmixedLabel {
        /// The image.
        output: String,
        /// The ops that mix it.
        ops: String,
        /// The labels that are not mixed.
        labels: String,
    },
    /// An image is mixed beside a mask.
    #[error(
        "output {}: {ops} mixes the images, but not the class numbers of the mask {}: leave out {ops}, or the mask \
         (`without`)",
        Escaped(output),
        Escaped(mask)
    )]
    UnmixedMask {
        /// The image.
        output: String,
        /// The ops that mix it.
        ops: String,
        /// The mask.
        mask: String,
    },
    /// A label's share depends on the size of an image, and the images have different sizes.
    #[error(
        "output {}: the mixing share of {ops} depends on the image size, but the mixed images have two sizes, {} and {}",
        Escaped(output), sizes[0], sizes[1]
    )]
    MixedSizes {
        /// The label.
        output: String,
        /// The ops that mix it.
        ops: String,
        /// Two of the image sizes.
        sizes: [Size; 2],
    },
    /// The function of a list by epoch returned an error.
    #[error("output {}: its list for epoch {}: {error}", Escaped(output), epoch.index())]
    ByEpoch {
        /// The output.
        output: String,
        /// The epoch.
        epoch: Epoch,
        /// The reason.
        error: BoxError,
    },
    /// A list is by epoch, but the lists may not be compiled again.
    #[error(
        "output {}: its list is by epoch, but `recompile` is false: remove that setting, or give one fixed list",
        Escaped(output)
    )]
    Recompile {
        /// The output.
        output: String,
    },
    /// A pipeline does not fit its field.
    #[error("output {}: {error}", Escaped(output))]
    Plan {
        /// The output.
        output: String,
        /// The reason.
        error: PlanError,
    },
    /// An op of a pipeline file does not fit.
    #[error("{position}: {error}")]
    InFile {
        /// The file, the line and the column of the op.
        position: String,
        /// The error.
        error: Box<Self>,
    },
    /// A pipeline was set for a field that takes no ops.
    #[error("field {} is {kind}: only images, ints, floats and arrays take ops", Escaped(field))]
    NoPipeline {
        /// The field.
        field: String,
        /// The kind of the field.
        kind: &'static str,
    },
    /// A pipeline was set for an array whose elements no op takes.
    #[error(
        "field {}: its elements are {dtype}, but ops take |u1, |b1, <u2, <i2, <i4, <i8, <f2, <f4 and <f8: store it as one of these, or remove its ops to get its values",
        Escaped(field)
    )]
    NoElementType {
        /// The field.
        field: String,
        /// The type of its elements.
        dtype: NdType,
    },
    /// An array with elements whose values no type of tensors has.
    #[error(
        "field {}: its elements are {dtype}, which no tensor can hold: store it as another type, or leave the field out of the batches (`without`; in Python `{}=None`)",
        Escaped(field),
        Escaped(field)
    )]
    NoTensor {
        /// The field.
        field: String,
        /// The type of its elements.
        dtype: NdType,
    },
    /// A field that is not an image can't be a mask.
    #[error("field {}: only a field of images can be a mask", Escaped(field))]
    MaskKind {
        /// The field.
        field: String,
    },
    /// A field that is not an image can't be read in a mode.
    #[error("field {}: only a field of images has a read mode", Escaped(field))]
    ReadModeKind {
        /// The field.
        field: String,
    },
    /// Masks are stored as JPEGs.
    #[error(
        "field {}: {jpegs} of its masks are JPEGs, which blend the class numbers of neighbours: write the masks as PNG files, or with `WriteMode::Mask`",
        Escaped(field)
    )]
    MaskJpegs {
        /// The field.
        field: String,
        /// The number of JPEGs.
        jpegs: u64,
    },
    /// The ops of a component of the dataset don't fit those of the output.
    #[error("output {}: ops of component {component}: {reason}", Escaped(output))]
    Component {
        /// The output.
        output: String,
        /// The component.
        component: usize,
        /// The reason.
        reason: String,
    },
    /// An image field has no readable image.
    #[error("field {} has no readable image, so its size is unknown", Escaped(field))]
    NoPictures {
        /// The field.
        field: String,
    },
    /// The length of the longest value of a field is unknown: `Source::longest` returns `None`.
    #[error(
        "field {}: the length of its longest value is unknown: leave the field out (`without`), or set its `collate`, such as `ragged`, with the largest length (`to`)",
        Escaped(field)
    )]
    NoLongest {
        /// The field.
        field: String,
    },
    /// The largest value of a field is too large for a batch.
    #[error("field {}: a value of {bytes} bytes is over the limit of {max}", Escaped(field))]
    TooLarge {
        /// The field.
        field: String,
        /// The bytes of the largest value.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The batches exceed the memory limit.
    #[error(
        "{batches} batches of {batch_size} samples take {bytes} bytes, {row_bytes} a sample; the limit is {max}: use smaller batches, fewer batches ahead or smaller images, or set `memory_limit`"
    )]
    BatchBytes {
        /// The bytes of all batches.
        bytes: u64,
        /// The number of batches: those ahead, and the one in use.
        batches: u64,
        /// The number of samples of a batch.
        batch_size: usize,
        /// The bytes of a sample, over all outputs.
        row_bytes: u64,
        /// [`Limits::max_batch_bytes`](crate::sample::Limits::max_batch_bytes).
        max: u64,
    },
    /// A pipeline could not be compiled.
    #[error("output {}: {error}", Escaped(output))]
    Compile {
        /// The output.
        output: String,
        /// The cause.
        error: CompileError,
    },
    /// The batch size is 0.
    #[error("a batch size of 0: give 1 or more")]
    BatchSize,
    /// The number of workers or of batches ahead is 0.
    #[error("0 workers or 0 batches ahead: give 1 or more")]
    Workers,
    /// An index is not below the number of samples.
    #[error("index {index}: the dataset has {samples} samples")]
    Index {
        /// The index.
        index: u64,
        /// The number of samples.
        samples: u64,
    },
    /// A stream of unknown length ended before its first batch.
    #[error(
        "epoch {} has no batch: the stream has no samples, or with `drop_last` fewer than {rows}",
        epoch.0
    )]
    NoBatch {
        /// The epoch.
        epoch: Epoch,
        /// The rows of a batch over all ranks.
        rows: u64,
    },
    /// All samples of an epoch are damaged, and were skipped.
    #[error(
        "epoch {}: all {skipped} samples that were read are damaged and were skipped, so there is no batch. The first of them: {first}",
        epoch.0
    )]
    AllSkipped {
        /// The epoch.
        epoch: Epoch,
        /// The number of samples.
        skipped: u64,
        /// The error of one of them.
        first: String,
    },
    /// The names of the classes can't be read.
    #[error("{}: {error}", Escaped(dataset))]
    Classes {
        /// The dataset.
        dataset: String,
        /// The reason.
        error: Error,
    },
    /// Classes were expected by an empty list.
    #[error(
        "{}: `expect_classes` got no names: the dataset that they were taken from has none (`Loader::classes`)",
        Escaped(dataset)
    )]
    NoClassesExpected {
        /// The dataset.
        dataset: String,
    },
    /// The names of the classes are not known.
    #[error(
        "{0}: the names of its classes are not known, so they can't be compared: put `{0}.classes.json` next to it, or convert it again",
        Escaped(dataset)
    )]
    NoClasses {
        /// The dataset.
        dataset: String,
    },
    /// The classes are not those expected.
    #[error(
        "{}: its classes differ from the expected ones: {differences}; use the same classes in both, or number them in a `classes.json`",
        Escaped(dataset)
    )]
    OtherClasses {
        /// The dataset.
        dataset: String,
        /// The first differences.
        differences: String,
    },
    /// No sample is left for an epoch.
    #[error("{}", no_samples(dataset, [*samples, *chosen], order, *world))]
    NoSamples {
        /// The dataset.
        dataset: String,
        /// The number of its samples.
        samples: u64,
        /// The number of samples that indices and filters leave.
        chosen: u64,
        /// The name of the order.
        order: String,
        /// The number of ranks.
        world: u32,
    },
    /// The only batch of an epoch would be dropped.
    #[error(
        "{}: an epoch of {rows} samples has no batch of {batch_size}, and `drop_last` drops the short one: take a smaller batch size, or `drop_last(false)`",
        Escaped(dataset)
    )]
    NoWholeBatch {
        /// The dataset.
        dataset: String,
        /// The number of rows of an epoch on this rank.
        rows: u64,
        /// The number of samples of a batch.
        batch_size: usize,
    },
    /// The field of a filter can't be read.
    #[error("filter: sample {sample}: {error}")]
    Filter {
        /// The sample.
        sample: SampleId,
        /// The field and the reason.
        error: Box<LoadSampleError>,
    },
    /// A sample that was asked for by its number can't be loaded.
    #[error("sample {sample}: {error}")]
    Sample {
        /// The sample.
        sample: SampleId,
        /// The reason.
        error: Box<LoadSampleError>,
    },
    /// A cursor could not be created, or can't be resumed from.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// A dataset that can't be read into memory.
    #[error("{dataset} can't be read into memory, which only .beton files can: remove `in_memory`")]
    NotHeld {
        /// The dataset.
        dataset: String,
    },
    /// A process cache was set for a source without pages.
    #[error(
        "{}: only a single .beton file has pages for a process cache: join several by `fuseloop concat`, or remove `process_cache`",
        Escaped(dataset)
    )]
    NoPages {
        /// The dataset.
        dataset: String,
    },
    /// The source can't start a run.
    #[error("{}: {error}", Escaped(dataset))]
    Begin {
        /// The dataset.
        dataset: String,
        /// The reason.
        error: Error,
    },
    /// Damaged samples can't be skipped with several ranks, which must have the same number of rows.
    #[error(
        "damaged samples can't be skipped on {world} ranks, whose batches would differ in length: take OnDamaged::Substitute"
    )]
    SkipOnRanks {
        /// The number of ranks.
        world: u32,
    },
    /// A setting is not available for streams.
    #[error("a stream has no {what}: {cure}")]
    Stream {
        /// The setting.
        what: String,
        /// The alternative.
        cure: &'static str,
    },
    /// Every field was left out.
    #[error("no field is left to load")]
    NoOutputs,
    /// The dataset does not say what its fields are.
    #[error(
        "the dataset marks no field as boxes, keypoints, masks or classes of objects: declare them in `targets`"
    )]
    NoKnownTargets,
    /// The name of a device is invalid.
    #[error("device: {0}")]
    DeviceName(ParamError),
    /// A device could not be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A device can't run a list of ops.
    #[error("output {}: {error}", Escaped(output))]
    OnDevice {
        /// The output.
        output: String,
        /// The reason.
        error: DeviceError,
    },
    /// The lists name several devices.
    #[error(
        "lists name both {} and {} in ToDevice: a loader has only one device: set it with `device`",
        devices[0], devices[1]
    )]
    TwoDevices {
        /// Two of the devices.
        devices: [Device; 2],
    },
    /// A device was requested, but no list uses it.
    #[error(
        "{device} was asked for, but no list of ops has ToDevice: put it into the image's list, before Normalize"
    )]
    NothingForDevice {
        /// The device.
        device: Device,
    },
    /// The number of batches on the device is 0.
    #[error("0 batches on the device: give 1 or more (`device_batches`)")]
    DeviceBatches,
    /// There are too many threads, the system has none, or they belong to a process that this one was
    /// forked from.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The engine failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Says what left no sample: the dataset, the choice of its samples, or the order.
fn no_samples(dataset: &str, [samples, chosen]: [u64; 2], order: &str, world: u32) -> String {
    let dataset = Escaped(dataset);
    if samples == 0 {
        return format!("{dataset}: the dataset has no samples");
    }
    if chosen == 0 {
        return format!("{dataset}: `indices` and `filter` leave none of {samples} samples");
    }
    let ranks = if world > 1 { format!(" on each of {world} ranks") } else { String::new() };
    format!("{dataset}: the {order} order makes an epoch of 0 out of {chosen} samples{ranks}")
}

impl LoadCause {
    /// Adds the position of the op that the error is about, if the pipeline is from a file.
    pub(super) fn in_file(self, positions: &[(String, Vec<String>)]) -> Self {
        let op = match &self {
            Self::Plan { output, error } => error.op_index().map(|index| (output, index)),
            Self::OnDevice { output, error: DeviceError::CannotRun { op_index, .. } } => {
                Some((output, *op_index))
            }
            _ => None,
        };
        let position = op.and_then(|(output, index)| {
            let (_, ops) = positions.iter().find(|(name, _)| name == output)?;
            ops.get(index)
        });
        match position.cloned() {
            Some(position) => Self::InFile { position, error: Box::new(self) },
            None => self,
        }
    }

    /// Returns the error of a sample that was asked for by its number.
    #[must_use]
    pub fn sample(sample: u64, error: LoadSampleError) -> Self {
        Self::Sample { sample: SampleId(sample), error: Box::new(error) }
    }

    /// Returns true if a device is not available or can't run the lists: a CPU could.
    pub(super) fn is_of_device(&self) -> bool {
        matches!(self, Self::Device(_) | Self::OnDevice { .. })
    }
}

/// Why a sample could not be loaded. The engine adds the batch and the sample's id.
#[derive(Debug, thiserror::Error)]
pub struct LoadSampleError {
    /// The dataset: its path, if it has one.
    pub dataset: Box<str>,
    /// Where the value is stored: the file, the sample's key there, the bytes; as far as the source
    /// knows.
    pub location: Option<Box<SampleLocation>>,
    /// The field, or the output computed from it.
    pub field: Box<str>,
    /// The cause.
    pub cause: SampleCause,
}

/// Writes for example `photos/cat/6.jpg (image): the JPEG is cut short`. The message starts with the
/// location, or with the dataset if the source has no location or the cause names the file itself; it
/// includes the offset of the value if the value could not be decoded.
impl fmt::Display for LoadSampleError {
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
        // The error of a value that could not be read already has the position.
        let bytes = location.and_then(|location| location.bytes.as_ref());
        if let (SampleCause::Decode(_), Some(bytes)) = (cause, bytes) {
            write!(f, " at byte {}", bytes.start)?;
        }
        write!(f, ": {message}")
    }
}

impl LoadSampleError {
    /// Returns true if the sample lies beyond the end of its stream.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.cause, SampleCause::Halt(StreamEnd::End { .. }))
    }

    /// Creates the error of a field of a sample; the name is that of the field or of its output.
    pub(super) fn of(
        source: &dyn Source,
        sample: SampleId,
        (name, index): (&str, usize),
        cause: SampleCause,
    ) -> Self {
        let location = source.locate(sample, index).map(Box::new);
        let file = location.as_ref().and_then(|location| location.file.as_ref());
        let is_named = file.is_some() || source.path().is_some();
        let cause = if is_named { cause.of_sample(sample) } else { cause };
        Self { dataset: source.name().into(), location, field: name.into(), cause }
    }
}

/// The cause of a sample's error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleCause {
    /// The bytes can't be read.
    #[error(transparent)]
    Read(#[from] ReadCause),
    /// The value is longer than the longest value that the source reported.
    #[error(
        "a value of {found} bytes is longer than the longest that the source reported, {longest}: fix `Source::longest`"
    )]
    TooLong {
        /// The bytes of the value.
        found: usize,
        /// The length that the source reported.
        longest: usize,
    },
    /// The sample is beyond the end of its stream, or the stream stopped.
    #[error(transparent)]
    Halt(#[from] StreamEnd),
    /// The source returned an error.
    #[error(transparent)]
    Source(Error),
    /// The image can't be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An op produces too large an image.
    #[error(transparent)]
    Pixels(#[from] TooManyPixels),
    /// The image is too large to be shown step by step, each with copies of all pixels.
    #[error(
        "an image of {size} has {} pixels, and the maximum for an image that is shown is {max}, because every step keeps a copy: scale the stored image down, or cut it into tiles",
        size.pixels()
    )]
    Shown {
        /// The size of the stored image.
        size: Size,
        /// The most pixels.
        max: u64,
    },
    /// There is not enough memory for the row or for an intermediate image.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The label is not one of the classes.
    #[error(transparent)]
    Label(LabelError),
    /// An op in plain Rust returned an error: the sample is not damaged.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// The sample does not fit into its row.
    #[error(transparent)]
    Collate(#[from] CollateCause),
    /// The targets of the sample are damaged.
    #[error(transparent)]
    Target(#[from] TargetCause),
}

impl SampleCause {
    /// Removes the file and the sample from the error of a `.beton` file, if it is about the sample of this
    /// number: the error of the loader has both.
    fn of_sample(self, sample: SampleId) -> Self {
        let Self::Source(error) = &self else { return self };
        let read = error.cause::<SourceError>().and_then(SourceError::read_error);
        match read.filter(|read| read.sample == sample) {
            Some(read) => Self::Read(read.kind.clone()),
            None => self,
        }
    }

    /// Returns whether the bytes could not be read or decoded.
    pub(super) fn is_of_bytes(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Source(_) | Self::Decode(_))
    }

    /// Returns whether a setting is missing or wrong, so that the sample is not damaged.
    pub(super) fn is_of_setting(&self) -> bool {
        matches!(self, Self::Target(cause) if cause.is_of_setting())
    }
}

/// Converts the error of a source; errors of files and streams keep their type.
impl From<BoxError> for SampleCause {
    fn from(error: BoxError) -> Self {
        match error.downcast::<ReadCause>() {
            Ok(kind) => Self::Read(*kind),
            Err(error) => match error.downcast::<StreamEnd>() {
                Ok(halt) => Self::Halt(*halt),
                Err(error) => Self::Source(error.into()),
            },
        }
    }
}

impl From<LabelError> for SampleCause {
    fn from(error: LabelError) -> Self {
        match error {
            LabelError::Function(error) => Self::Function(error),
            LabelError::Class { .. } => Self::Label(error),
        }
    }
}

impl From<RunOpsError> for SampleCause {
    fn from(error: RunOpsError) -> Self {
        match error {
            RunOpsError::Memory(error) => Self::Memory(error),
            RunOpsError::Function(error) => Self::Function(error),
        }
    }
}

/// Why a finished batch could not be changed by the ops on batches of an output. The engine adds the batch.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", Escaped(output))]
pub(super) struct FinishError {
    /// The output.
    pub(super) output: Box<str>,
    /// The reason.
    pub(super) cause: FinishCause,
}

/// Why an op on batches did not run to the end.
#[derive(Debug, thiserror::Error)]
pub(super) enum FinishCause {
    /// An op in plain Rust returned an error, or there is no memory.
    #[error(transparent)]
    Ops(#[from] RunOpsError),
    /// An op that follows those that mix produces too large an image.
    #[error(transparent)]
    Pixels(#[from] TooManyPixels),
    /// An image of several has more objects than its rows have room for.
    #[error(
        "a mixed image has {found} objects, the rows of its targets have room for {max}: raise `to` in their `collate`, or use `truncate`"
    )]
    Objects {
        /// The number of objects.
        found: usize,
        /// The most that a row has room for.
        max: usize,
    },
}

impl From<NoMemory> for FinishCause {
    fn from(error: NoMemory) -> Self {
        Self::Ops(error.into())
    }
}

impl Cause for FinishError {
    fn details(&self) -> Details<'_> {
        let details = match &self.cause {
            FinishCause::Ops(error) => error.details(),
            FinishCause::Pixels(_) => Details::of(ErrorKind::Memory),
            FinishCause::Objects { .. } => Details::of(ErrorKind::Damaged),
        };
        details.field(&self.output)
    }
}

impl Cause for RunOpsError {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Memory(error) => error.details(),
            Self::Function(error) => Details::of_custom(&error.error),
        }
    }
}

impl Cause for LoadCause {
    fn details(&self) -> Details<'_> {
        let (pipeline, field) = (Details::of(ErrorKind::Pipeline), Details::of(ErrorKind::Field));
        let (parameter, memory) =
            (Details::of(ErrorKind::Parameter), Details::of(ErrorKind::Memory));
        let unsupported = Details::of(ErrorKind::Unsupported);
        match self {
            Self::Other(error) | Self::Begin { error, .. } | Self::Classes { error, .. } => {
                error.details()
            }
            Self::InFile { error, .. } => error.details(),
            Self::Source(error) => error.details(),
            Self::Device(error) => error.details(),
            Self::Threads(error) => error.details(),
            Self::Run(error) => run_details(error),
            Self::Filter { sample, error } | Self::Sample { sample, error } => {
                error.details().sample(*sample)
            }
            Self::Cursor(_) => Details::of(ErrorKind::Cursor),
            Self::NoSuchField { name, .. }
            | Self::OneField { first: name, .. }
            | Self::NoSuchOutput { name, .. }
            | Self::NotAnImage { name, .. }
            | Self::NameTaken { name } => field.field(name),
            Self::NoImageOutput { .. } => field,
            Self::Recompile { output } => parameter.field(output),
            Self::ByEpoch { output, error, .. } if error.is::<ParamError>() => {
                parameter.field(output)
            }
            Self::ByEpoch { output, error, .. } => Details::of_custom(error).field(output),
            Self::Branch { output, .. }
            | Self::SharedDraws { output, .. }
            | Self::MixedAlone { output, .. }
            | Self::UnmixedLabel { output, .. }
            | Self::UnmixedOthers { output, .. }
            | Self::NothingToPaste { output, .. }
            | Self::PastedArray { output, .. }
            | Self::UnmixedMask { output, .. }
            | Self::MixedSizes { output, .. }
            | Self::Plan { output, .. }
            | Self::Component { output, .. }
            | Self::Compile { output, .. }
            | Self::NoElementType { field: output, .. }
            | Self::NoTensor { field: output, .. }
            | Self::MaskKind { field: output }
            | Self::ReadModeKind { field: output }
            | Self::NoPipeline { field: output, .. } => pipeline.field(output),
            Self::OnDevice { output, .. } => Details::of(ErrorKind::Device).field(output),
            Self::MaskJpegs { field, .. } => Details::of(ErrorKind::Format).field(field),
            Self::NoPictures { field } => Details::of(ErrorKind::Damaged).field(field),
            Self::AllSkipped { .. } => Details::of(ErrorKind::Damaged),
            Self::NoLongest { field } => unsupported.field(field),
            Self::TooLarge { field, .. } => memory.field(field),
            Self::BatchBytes { .. } => memory,
            Self::NoPages { .. } | Self::NotHeld { .. } | Self::Stream { .. } => unsupported,
            Self::NoClasses { .. } | Self::OtherClasses { .. } => Details::of(ErrorKind::Format),
            Self::BatchSize
            | Self::ScaledDecode { .. }
            | Self::NoClassesExpected { .. }
            | Self::NoSamples { .. }
            | Self::NoBatch { .. }
            | Self::NoWholeBatch { .. }
            | Self::Workers
            | Self::Index { .. }
            | Self::SkipOnRanks { .. }
            | Self::NoOutputs
            | Self::NoKnownTargets
            | Self::DeviceName(_)
            | Self::TwoDevices { .. }
            | Self::NothingForDevice { .. }
            | Self::DeviceBatches => parameter,
        }
    }
}

/// Returns the details of an error of the engine.
fn run_details(error: &RunError) -> Details<'_> {
    match error {
        RunError::Fill { sample, source, .. } => of_stage(source).sample(*sample),
        RunError::Finish { source, .. } => of_stage(source),
        RunError::Panicked { sample, .. } => Details::of(ErrorKind::Panic).sample(*sample),
        RunError::FinishPanicked { .. } => Details::of(ErrorKind::Panic),
        RunError::Slot(_) | RunError::Budget { .. } => Details::of(ErrorKind::Memory),
        RunError::SlotsHeld { .. } => Details::of(ErrorKind::BatchesHeld),
        RunError::Stalled { .. } => Details::of(ErrorKind::Timeout),
        RunError::Threads(error) => error.details(),
        RunError::OwnThread => Details::of(ErrorKind::Pipeline),
        RunError::Stopped | RunError::Spawn { .. } => Details::of(ErrorKind::Threads),
        _ => Details::of(ErrorKind::Custom),
    }
}

/// Returns the details of an error of [`LoaderStage`](super::stage::LoaderStage).
fn of_stage(error: &BoxError) -> Details<'_> {
    let sample = error.downcast_ref::<LoadSampleError>().map(Cause::details);
    let finish = || error.downcast_ref::<FinishError>().map(Cause::details);
    let device = || error.downcast_ref::<DeviceError>().map(Cause::details);
    sample.or_else(finish).or_else(device).unwrap_or_else(|| Details::of_custom(error))
}

impl Cause for LoadSampleError {
    fn details(&self) -> Details<'_> {
        let damaged = Details::of(ErrorKind::Damaged);
        let mut details = match &self.cause {
            SampleCause::Read(error) => error.details(),
            SampleCause::Halt(error) => error.details(),
            SampleCause::Source(error) => error.details(),
            SampleCause::Function(error) => Details::of_custom(&error.error),
            SampleCause::Pixels(_) | SampleCause::Shown { .. } => Details::of(ErrorKind::Memory),
            SampleCause::Memory(_) | SampleCause::Decode(DecodeError::Memory { .. }) => {
                Details::no_memory()
            }
            SampleCause::TooLong { .. } => Details::of(ErrorKind::Custom),
            cause if cause.is_of_setting() => Details::of(ErrorKind::Parameter),
            SampleCause::Decode(_)
            | SampleCause::Label(_)
            | SampleCause::Collate(_)
            | SampleCause::Target(_) => damaged,
        };
        if let Some(location) = self.location.as_deref() {
            if let Some(file) = &location.file {
                details = details.path(&**file);
            }
            if let Some(bytes) = &location.bytes {
                details = details.offset(bytes.start);
            }
        }
        details.field(&self.field)
    }
}

impl Cause for CursorError {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Cursor)
    }
}
