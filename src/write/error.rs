//! Errors that several writers make.

use super::report::{Skipped, SkippedSample};
use super::value::WriteSampleError;
use crate::error::{Error, Result, fail};
use crate::sample::SampleId;
use std::io;
use std::path::Path;

/// The advice for an output inside an input.
pub(super) const INPUTS: &str = "inputs are never modified";

/// Returns a conversion from the system's error of `action` at a path.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| {
        let text = format!("{path:?}: cannot {action}: {source}");
        of_system(source, "check the path: its folder must exist").reworded(text).named_path(path)
    }
}

/// Returns a conversion from the system's error of a write to a path: most often the disk is full.
pub(super) fn write_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    io_error("write", path)
}

/// Returns the system's error with what a user can do about it; `missing` is that about a file that does not exist.
pub(super) fn of_system(source: io::Error, missing: &'static str) -> Error {
    let help = match source.kind() {
        io::ErrorKind::NotFound => missing,
        io::ErrorKind::PermissionDenied => "choose a path that you may read and write",
        io::ErrorKind::StorageFull => "the disk is full: free some space, or choose another disk",
        _ => return source.into(),
    };
    Error::from(source).help(help)
}

pub(super) fn cancelled() -> Error {
    fail!(Cancelled, "the write was cancelled")
}

/// Returns the error of a sample that can't be written, and its image file if it has one.
pub(super) fn sample_error(
    sample: SampleId,
    path: Option<&Path>,
    cause: WriteSampleError,
) -> Error {
    let text = format!("sample {sample}{}: {cause}", named(path));
    let help = match cause {
        WriteSampleError::TooLarge { .. } => Some(
            "use a larger `--page-size`, smaller images (`--max-resolution`), or lossy PNGs (`--write-mode jpg`)",
        ),
        _ if cause.is_damage() => Some("`--on-damaged skip` skips and reports such samples"),
        _ => None,
    };
    let error = Error::from(cause).reworded(text).of_sample(sample);
    let error = path.into_iter().fold(error, Error::named_path);
    help.into_iter().fold(error, Error::help)
}

/// Refuses a dataset of damaged samples alone.
///
/// # Errors
///
/// If samples were read and none of them is left.
pub(super) fn refuse_all_damaged(samples: u64, skipped: &Skipped) -> Result<()> {
    let Some(SkippedSample { sample, path, cause }) =
        skipped.first.first().filter(|_| samples == 0)
    else {
        return Ok(());
    };
    let all = match skipped.count {
        1 => "the only sample is damaged".to_owned(),
        count => format!("all {count} samples are damaged"),
    };
    let error = fail!(
        Damaged,
        "{all}, so that none is left to write; the first is sample {sample}{}: {cause}",
        named(path.as_deref())
    );
    let error = error.of_sample(*sample).help("check that it is a dataset of images");
    Err(path.iter().fold(error, Error::named_path))
}

fn named(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" ({path:?})"))
}
