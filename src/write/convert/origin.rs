//! The files that a conversion reads: detects changes to them, and protects them from being overwritten.
//!
//! | DST          | is refused if                                                          |
//! |--------------|------------------------------------------------------------------------|
//! | a folder     | it contains a file that is read, or is inside a folder that is read   |
//! | file, shards | one of them is a file that is read                                    |
//! | MDS shards   | the same, or their folder is inside a folder that is read             |
//!
//! Paths are compared without links and `..`. A file beside the images of a folder is not one of its
//! images, so a `.beton` or a shard may be written there.
//!
//! The fingerprint covers the size and the modification time of each file, so that a folder whose files
//! were exchanged under the same names is another source. It takes one system call per file, several at
//! a time.

use super::shard_splitter::other_shards;
use super::{DatasetConversion, INPUTS, OutputFormat, is_an_input};
use crate::error::{Error, fail};
use crate::source::Fingerprint;
use crate::threads::ThreadsError;
use crate::write::cancel;
use crate::write::encode_threads::EncodeThreads;
use crate::write::error::sample_error;
use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};

/// The number of paths in memory at once.
const AT_ONCE: usize = 1 << 16;

/// The number of paths for which one more thread is started.
const PER_THREAD: usize = 256;

impl DatasetConversion<'_> {
    /// Returns a fingerprint of all files that are read, which changes when one of them does.
    ///
    /// # Errors
    ///
    /// If the output would be inside the input, or the input inside the output.
    pub(super) fn origin(&self) -> Result<u64, Error> {
        let written = self.written()?;
        let mut print = Fingerprint::default();
        let mut parents = Parents::default();
        let mut paths = self.source.paths();
        loop {
            let some: Vec<PathBuf> = paths.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                return Ok(print.value());
            }
            let threads = self.threads()?.min(1 + some.len() / PER_THREAD);
            EncodeThreads { first: 0, end: some.len() as u64, threads }.run(
                |id| {
                    cancel::check(&self.options.cancel)?;
                    Ok(FileIdentity::at(&some[id.0 as usize]))
                },
                |_| 0,
                |id, found| {
                    let found = found.map_err(|cause| sample_error(id, None, cause))?;
                    found.add_to(&mut print);
                    let path = &some[id.0 as usize];
                    let real = found.real.unwrap_or_else(|| parents.real(path));
                    written.check(&self.dst, path, &real, found.is_dir)
                },
                |source| ThreadsError::Refused { wanted: threads, source }.into(),
            )?;
        }
    }

    fn written(&self) -> Result<DestinationPath, Error> {
        Ok(match self.template()? {
            // A folder that can't be listed has no shards, or causes an error of its own later.
            Some(template) => {
                let there = other_shards(&template, &[]).unwrap_or_default();
                let mut files: HashSet<_> = there.iter().map(|path| real_path(path)).collect();
                if self.form == OutputFormat::Mds {
                    files.insert(real_path(&self.dst));
                    let folder = real_path(self.dst.parent().unwrap_or(Path::new(".")));
                    return Ok(DestinationPath::Indexed { files, folder });
                }
                DestinationPath::Files(files)
            }
            None if self.form == OutputFormat::Folder => {
                DestinationPath::Folder(real_path(&self.dst))
            }
            None => DestinationPath::Files(HashSet::from([real_path(&self.dst)])),
        })
    }
}

/// The output paths, without links.
enum DestinationPath {
    Folder(PathBuf),
    /// The output files that exist.
    Files(HashSet<PathBuf>),
    /// The same, and the folder that has another format once it has them.
    Indexed {
        files: HashSet<PathBuf>,
        folder: PathBuf,
    },
}

impl DestinationPath {
    /// Refuses an output that would overwrite `path`, which is read; `real` is `path` without links.
    fn check(&self, dst: &Path, path: &Path, real: &Path, is_dir: bool) -> Result<(), Error> {
        let overlap = || {
            Err(fail!(
                Parameter,
                "output {dst:?} overlaps input {path:?}: choose a different output"
            )
            .named_path(dst)
            .help(INPUTS))
        };
        match self {
            Self::Files(files) | Self::Indexed { files, .. } if files.contains(real) => {
                Err(is_an_input(path))
            }
            Self::Folder(folder)
                if real.starts_with(folder) || (is_dir && folder.starts_with(real)) =>
            {
                overlap()
            }
            Self::Indexed { folder, .. } if is_dir && folder.starts_with(real) => overlap(),
            _ => Ok(()),
        }
    }
}

/// The metadata of a path.
struct FileIdentity {
    /// The path without links, if it is a link or a directory. Otherwise the folder's real path is
    /// sufficient.
    real: Option<PathBuf>,
    is_dir: bool,
    file: Option<Metadata>,
}

impl FileIdentity {
    fn at(path: &Path) -> Self {
        let found = fs::symlink_metadata(path).ok();
        let is_link = found.as_ref().is_some_and(Metadata::is_symlink);
        let found = if is_link { fs::metadata(path).ok() } else { found };
        let is_dir = found.as_ref().is_some_and(Metadata::is_dir);
        let real = (is_link || is_dir).then(|| real_path(path));
        // A folder's own modification time changes with any file that is added, so it is not used.
        Self { real, is_dir, file: found.filter(|_| !is_dir) }
    }

    fn add_to(&self, print: &mut Fingerprint) {
        if let Some(file) = &self.file {
            print.number(file.len());
            print.text(&format!("{:?}", file.modified().ok()));
        }
    }
}

/// Resolves the paths of plain files: the real path of their folder is looked up once for consecutive
/// files.
#[derive(Default)]
struct Parents {
    last: Option<(PathBuf, PathBuf)>,
}

impl Parents {
    fn real(&mut self, path: &Path) -> PathBuf {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return real_path(path);
        };
        if self.last.as_ref().is_none_or(|(known, _)| known != parent) {
            self.last = Some((parent.to_owned(), real_path(parent)));
        }
        self.last.as_ref().map_or_else(|| path.to_owned(), |(_, real)| real.join(name))
    }
}

/// Resolves links and `..` in a path whose last components need not exist.
#[must_use]
pub fn real_path(path: &Path) -> PathBuf {
    // The folder of a path without directories is the current one.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = PathBuf::new();
    for part in absolute.components() {
        if part == Component::ParentDir {
            real.pop();
        } else {
            real.push(part);
            real = fs::canonicalize(&real).unwrap_or(real);
        }
    }
    real
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_folder_is_the_same_path_as_with_it() {
        let here = real_path(Path::new("."));
        let named = Parents::default().real(Path::new("a.tar"));
        assert_eq!(named, real_path(Path::new("./a.tar")));
        assert_eq!(named, here.join("a.tar"));
    }
}
