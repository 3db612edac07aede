//! Errors of building a loader and of loading a sample.

use crate::error::{Cause, Details, Error, ErrorKind, fail};
use crate::run::RunError;
use crate::sample::{Epoch, SampleId};
use crate::source::stream::StreamEnd;
use crate::source::{Escaped, SampleLocation, Source};

/// The advice for a damaged sample.
const DAMAGED: &str = "the sample is damaged: `fuseloop verify` with `--write-indices good.txt` lists the others, which `fuseloop \
                       convert` with `--indices good.txt` copies";

/// Names the output that an error is about.
pub(super) fn of_output(error: Error, output: &str) -> Error {
    error.context(format_args!("output {output}")).of_field(output)
}

/// Names the field that an error is about.
pub(super) fn of_field(error: Error, field: &str) -> Error {
    error.context(format_args!("field {field}")).of_field(field)
}

/// The error of an op of a pipeline file: the studio marks the op.
#[derive(Debug, thiserror::Error)]
#[error("{position}: {error}")]
pub struct InFile {
    /// The file, the line and the column of the op.
    pub position: String,
    /// The error.
    pub error: Error,
}

impl Cause for InFile {
    fn details(&self) -> Details<'_> {
        self.error.details()
    }
}

/// Adds the position of the op that an error is about, if the pipeline is from a file.
pub(super) fn in_file(error: Error, positions: &[(String, Vec<String>)]) -> Error {
    let op = error.field().zip(error.op());
    let position = op.and_then(|(output, index)| {
        let (_, ops) = positions.iter().find(|(name, _)| *name == output)?;
        ops.get(index).cloned()
    });
    match position {
        Some(position) => InFile { position, error }.into(),
        None => error,
    }
}

/// Returns the error of a batch without rows.
pub(super) fn no_rows() -> Error {
    fail!(Parameter, "a batch size of 0: give 1 or more").help("`--batch-size 64` is the default")
}

/// Returns the error of an epoch whose samples are all damaged, and were skipped; `first` is the error of one of them.
pub(super) fn all_skipped(epoch: Epoch, skipped: u64, first: &str) -> Error {
    fail!(
        Damaged,
        "epoch {}: all {skipped} samples that were read are damaged and were skipped, so there is no batch. The first \
         of them: {first}",
        epoch.0
    )
}

/// Returns the error of a loader of which no output has images.
#[must_use]
pub fn no_image_output(known: &str) -> Error {
    fail!(Field, "no output has images; the outputs are {known}")
}

/// Adds the number of a sample that was asked for by it.
#[must_use]
pub fn of_number(sample: u64, error: Error) -> Error {
    error.context(format_args!("sample {sample}")).of_sample(SampleId(sample))
}

/// Returns true if a sample lies beyond the end of its stream.
pub(crate) fn is_end(error: &Error) -> bool {
    matches!(error.cause(), Some(StreamEnd::End { .. }))
}

/// Says which sample can't be loaded, and which of its fields; the name is that of the field or of its output. The engine
/// adds the batch and the sample's number.
///
/// The message is for example `photos/cat/6.jpg (image): the JPEG is cut short`. It starts with the location, or with the
/// dataset if the source has no location or the error names the file itself; it includes the offset of the value if the
/// value is damaged.
pub(super) fn of_sample(
    source: &dyn Source,
    sample: SampleId,
    (name, index): (&str, usize),
    error: Error,
) -> Error {
    let location = source.locate(sample, index);
    let file = location.as_ref().and_then(|location| location.file.as_ref());
    let is_named = file.is_some() || source.path().is_some();
    // The message begins with the name of the field, and the engine adds the number of the sample.
    let is_shown_twice = error.shows_value() && error.sample() == Some(sample);
    let message = match is_shown_twice && (is_named || error.path().is_none()) {
        true => error.text().to_owned(),
        false => error.to_string(),
    };
    let shown = location.as_ref().filter(|location| !location.is_named_by(&message));
    let place = match shown {
        Some(location) if location.file.is_some() => location.to_string(),
        Some(SampleLocation { key: Some(key), .. }) => {
            format!("{}: sample {}", Escaped(source.name()), Escaped(key))
        }
        _ => Escaped(source.name()).to_string(),
    };
    // The error of a value that could not be read already has the position.
    let is_damaged = error.kind() == ErrorKind::Damaged && error.offset().is_none();
    let bytes = shown.and_then(|location| location.bytes.as_ref()).filter(|_| is_damaged);
    let at = bytes.map_or_else(String::new, |bytes| format!(" at byte {}", bytes.start));
    let may_be_damaged = !error.is_not_damage() && !error.lacks_memory();
    let mut error = error.reworded(format!("{place} ({}){at}: {message}", Escaped(name)));
    if let Some(location) = &location {
        if let Some(file) = &location.file {
            error = error.named_path(&**file);
        }
        if let Some(bytes) = &location.bytes {
            error = error.named_byte(bytes.start);
        }
    }
    if may_be_damaged {
        error = error.help(DAMAGED);
    }
    error.of_field(name)
}

impl Cause for RunError {
    fn details(&self) -> Details<'_> {
        match self {
            Self::Fill { sample, source, .. } => Details::of_custom(source).sample(*sample),
            Self::Finish { source, .. } => Details::of_custom(source),
            Self::Panicked { sample, .. } => Details::of(ErrorKind::Panic)
                .sample(*sample)
                .help("this is a bug: please report it with the sample"),
            Self::FinishPanicked { .. } => Details::of(ErrorKind::Panic),
            Self::Slot(_) => {
                Details::of(ErrorKind::Memory).help("a smaller `--batch-size` takes less memory")
            }
            Self::Budget { .. } => Details::of(ErrorKind::Memory),
            Self::SlotsHeld { .. } => Details::of(ErrorKind::BatchesHeld),
            Self::Stalled { .. } => Details::of(ErrorKind::Timeout),
            Self::Threads(error) => error.details(),
            Self::OwnThread => Details::of(ErrorKind::Pipeline),
            Self::Stopped | Self::Spawn { .. } => Details::of(ErrorKind::Threads),
            _ => Details::of(ErrorKind::Custom),
        }
    }
}
