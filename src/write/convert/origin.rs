//! What a conversion reads from: whether it has changed since, and whether it would be written over.
//!
//! | DST          | is refused if                                                          |
//! |--------------|------------------------------------------------------------------------|
//! | a folder     | a file that is read lies in it, or it lies in a folder that is read    |
//! | file, shards | a file that is read lies there                                         |
//!
//! Paths are compared without links and `..`. A file beside the images of a folder is no image of it,
//! so a `.beton` or a shard may lie there.
//!
//! The fingerprint has the size and the time of each file, so that a folder whose files were exchanged
//! under the same names is another source. One call to the system a file, several at a time.

use super::cutter::other_shards;
use super::{ConvertError, Form, Job};
use crate::source::Fingerprint;
use crate::threads::ThreadsError;
use crate::write::WriteError;
use crate::write::ordered::Crew;
use crate::write::shards::Template;
use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};

/// Paths that are held in memory at once.
const AT_ONCE: usize = 1 << 16;

/// Paths that are worth a thread.
const PER_THREAD: usize = 256;

impl Job<'_> {
    /// Looks at all that is read: what tells it from what it was before a change.
    ///
    /// # Errors
    ///
    /// If what is written would lie in it, or it in that.
    pub(super) fn origin(&self, form: Form) -> Result<u64, ConvertError> {
        let written = Written::new(form, &self.dst)?;
        let mut print = Fingerprint::default();
        let mut parents = Parents::default();
        let mut paths = self.source.paths();
        loop {
            let some: Vec<PathBuf> = paths.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                return Ok(print.value());
            }
            let threads = self.threads()?.min(1 + some.len() / PER_THREAD);
            Crew { first: 0, end: some.len() as u64, threads }.run(
                |id| Ok(Found::at(&some[id.0 as usize])),
                |_| 0,
                |id, found| {
                    let to_error = |cause| WriteError::Sample { sample: id, path: None, cause };
                    let found = found.map_err(to_error)?;
                    found.add_to(&mut print);
                    let path = &some[id.0 as usize];
                    let real = found.real.unwrap_or_else(|| parents.real(path));
                    written.check(&self.dst, path, &real, found.is_dir)
                },
                |source| WriteError::from(ThreadsError::Refused { wanted: threads, source }).into(),
            )?;
        }
    }
}

/// What will be written, without links in its path.
enum Written {
    Folder(PathBuf),
    /// Those that are there.
    Files(HashSet<PathBuf>),
}

impl Written {
    fn new(form: Form, dst: &Path) -> Result<Self, ConvertError> {
        Ok(match form {
            Form::Folder => Self::Folder(real(dst)),
            Form::Beton => Self::Files(HashSet::from([real(dst)])),
            Form::Tar | Form::TfRecord => {
                // A folder that can't be listed has none, or is an error of its own later.
                let there = other_shards(&Template::parse(dst)?, &[]).unwrap_or_default();
                Self::Files(there.iter().map(|path| real(path)).collect())
            }
        })
    }

    /// Refuses to write where `path` is read, which is `real` without links.
    fn check(
        &self,
        dst: &Path,
        path: &Path,
        real: &Path,
        is_dir: bool,
    ) -> Result<(), ConvertError> {
        match self {
            Self::Files(files) if files.contains(real) => {
                Err(ConvertError::Same { path: path.to_owned() })
            }
            Self::Folder(folder)
                if real.starts_with(folder) || (is_dir && folder.starts_with(real)) =>
            {
                Err(ConvertError::Inside { src: path.to_owned(), dst: dst.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

/// What the system says of a path.
struct Found {
    /// Without links, where that takes more than the real path of its folder.
    real: Option<PathBuf>,
    is_dir: bool,
    file: Option<Metadata>,
}

impl Found {
    fn at(path: &Path) -> Self {
        let found = fs::symlink_metadata(path).ok();
        let is_link = found.as_ref().is_some_and(Metadata::is_symlink);
        let found = if is_link { fs::metadata(path).ok() } else { found };
        let is_dir = found.as_ref().is_some_and(Metadata::is_dir);
        let real = (is_link || is_dir).then(|| real(path));
        // A folder's own time changes with any file that is put there.
        Self { real, is_dir, file: found.filter(|_| !is_dir) }
    }

    fn add_to(&self, print: &mut Fingerprint) {
        if let Some(file) = &self.file {
            print.number(file.len());
            print.text(&format!("{:?}", file.modified().ok()));
        }
    }
}

/// The real paths of files without one: that of their folder, which is looked up once for those in it.
#[derive(Default)]
struct Parents {
    last: Option<(PathBuf, PathBuf)>,
}

impl Parents {
    fn real(&mut self, path: &Path) -> PathBuf {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return real(path);
        };
        if self.last.as_ref().is_none_or(|(known, _)| known != parent) {
            self.last = Some((parent.to_owned(), real(parent)));
        }
        self.last.as_ref().map_or_else(|| path.to_owned(), |(_, real)| real.join(name))
    }
}

/// A path without links and `..`, of which the end need not be there.
fn real(path: &Path) -> PathBuf {
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
