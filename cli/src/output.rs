//! Writes a command's output file: it appears at its path complete or not at all.
//!
//! ```text
//! .fuseloop-part-x7Gq2k    beside the output file while it is written  ->  renamed to it when complete
//! ```
//!
//! So a full disk leaves the previous file in place. A link is followed, and the file that it leads to
//! is replaced. Anything but a regular file, such as `/dev/stdout`, can't be replaced and is written to
//! directly.

use super::number;
use super::problem::Problem;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use fuseloop::internals::source::{check_destination, temporary_file};
use fuseloop::internals::write::real_path;
use fuseloop::write::OnUnreadable;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// The number of files of a dataset that are compared with an output whatever their names are. Of larger
/// datasets only files with the output's name are compared, because each comparison asks the system.
const COMPARED: usize = 10_000;

/// The options of all commands that write a dataset.
#[derive(clap::Args)]
pub(super) struct OutputArgs {
    /// Number of threads [default: one per core]. Does not affect the output.
    #[arg(long, short = 'j', value_parser = number::at_least_one::<NonZeroUsize>)]
    pub(super) threads: Option<NonZeroUsize>,
    /// How to handle unreadable samples
    #[arg(long, value_name = "ACTION", default_value = "fail", value_parser = on_damaged())]
    pub(super) on_damaged: OnUnreadable,
    /// Replace existing outputs
    #[arg(long)]
    pub(super) overwrite: bool,
}

/// Parses what is done with unreadable samples.
fn on_damaged() -> impl TypedValueParser<Value = OnUnreadable> {
    let words = PossibleValuesParser::new([
        PossibleValue::new("fail").help("Stop with an error"),
        PossibleValue::new("skip").help("Skip and report them"),
    ]);
    words.map(|word| if word == "skip" { OnUnreadable::Skip } else { OnUnreadable::Fail })
}

/// Parses the path of an output. An address is refused before the command does anything.
pub(super) fn local() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| check_destination(&path).map(|()| path))
}

/// Refuses an output that the command reads: the dataset, a path in the dataset's folder, or one of the
/// other files.
pub(super) fn refuse_input(
    out: &Path,
    dataset: &Path,
    others: impl IntoIterator<Item = PathBuf>,
) -> Result<(), Problem> {
    let refused = |reason: String| Problem::Refused {
        message: format!("{}: {reason}", out.display()),
        help: "choose a different output path; inputs are never modified",
    };
    if dataset.is_dir() && real_path(out).starts_with(real_path(dataset)) {
        return Err(refused(format!("in the folder of the dataset {}", dataset.display())));
    }
    let Some(found) = identity(out) else { return Ok(()) };
    let is_read = |(number, path): (usize, PathBuf)| {
        (number < COMPARED || path.file_name() == out.file_name())
            && identity(&path).as_ref() == Some(&found)
    };
    let mut read = std::iter::once(dataset.to_owned()).chain(others).enumerate();
    if read.any(is_read) { Err(refused("the command reads this file".to_owned())) } else { Ok(()) }
}

/// Returns the device and the number of a file, which all of its names share.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Returns the path of a file without links.
#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// How an existing file is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// The file is replaced.
    Replace,
    /// The file stays, and the command fails with [`Problem::Exists`].
    Keep,
}

/// The buffered writer of an output file.
pub(super) type Out<'a> = BufWriter<&'a File>;

/// Calls `fill` to write the file at `path`, and renames the file to its path if that succeeds.
pub(super) fn write<T>(
    path: &Path,
    existing: Existing,
    fill: impl FnOnce(&mut Out<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    if existing == Existing::Keep && fs::symlink_metadata(path).is_ok() {
        return Err(Problem::Exists { path: path.to_owned() });
    }
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&real).is_ok_and(|found| !found.is_file()) {
        let file = File::options().write(true).open(&real).map_err(Problem::io(path))?;
        return filled(&file, path, fill);
    }
    let partial = temporary_file(&real).map_err(Problem::io(path))?;
    let done = filled(partial.as_file(), path, fill)?;
    let put = match existing {
        Existing::Replace => partial.persist(&real),
        Existing::Keep => partial.persist_noclobber(&real),
    };
    match put {
        Ok(_) => Ok(done),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Problem::Exists { path: path.to_owned() })
        }
        Err(error) => Err(Problem::io(path)(error.error)),
    }
}

/// Writes `bytes` with [`write`].
pub(super) fn write_bytes(path: &Path, existing: Existing, bytes: &[&[u8]]) -> Result<(), Problem> {
    write(path, existing, |out| {
        bytes.iter().try_for_each(|bytes| out.write_all(bytes)).map_err(Problem::io(path))
    })
}

/// Calls `fill` on an open file and flushes it.
fn filled<T>(
    file: &File,
    path: &Path,
    fill: impl FnOnce(&mut Out<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let mut out = BufWriter::new(file);
    let done = fill(&mut out)?;
    out.flush().map_err(Problem::io(path))?;
    Ok(done)
}
