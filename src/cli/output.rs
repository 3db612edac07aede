//! A file that a command writes: whole under its name, or not there.
//!
//! ```text
//! .fuseloop-part-x7Gq2k    beside it, while it is written     ->  renamed to its name when it is whole
//! ```
//!
//! So a full disk leaves what was there before. A link leads to the file that is replaced. What is no
//! regular file, such as `/dev/stdout`, can't be replaced by one: it is written to as it is.

use super::problem::Problem;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What becomes of a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It is replaced.
    Replace,
    /// It stays: [`Problem::Exists`].
    Keep,
}

/// What a file is written through.
pub(super) type Out<'a> = BufWriter<&'a File>;

/// Has `fill` write the file at `path`, and puts it in its place if that succeeds.
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
    let partial = partial(&real).map_err(Problem::io(path))?;
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

/// [`write`] of bytes that are there.
pub(super) fn write_bytes(path: &Path, existing: Existing, bytes: &[&[u8]]) -> Result<(), Problem> {
    write(path, existing, |out| {
        bytes.iter().try_for_each(|bytes| out.write_all(bytes)).map_err(Problem::io(path))
    })
}

/// Fills a file that is open, to its last byte.
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

/// An empty file beside the one at `path`, deleted unless it is put in its place.
fn partial(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fuseloop-part-");
    // As any new file: a temporary one would be for its owner's eyes only.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}
