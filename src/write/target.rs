//! The file being written: whole at its path, or not there.
//!
//! ```text
//! .train.beton.fuseloop-x7Gq2k.partial    written, locked while its writer lives
//!     fsync -> rename to train.beton -> fsync of the directory
//! ```
//!
//! A reader therefore finds the old file or the complete new one, whatever moment the writer
//! is killed at. The kernel drops a dead writer's lock, so the next writer of the same path
//! knows its leftover from a live writer's file: it deletes the one and refuses to start
//! beside the other. Where the file system has no locks, leftovers stay and two writers of
//! one path each give a whole file, of which the later stays.

use super::step::{Step, Watch, Watched};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// How often a name is tried: each failure means that another writer cleaned it up.
pub(super) const TRIES: u32 = 16;

/// What the name of every unfinished file ends in.
pub(super) const SUFFIX: &str = ".partial";

/// Why a file could not be put at its path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The path has no last component, or names a directory.
    #[error("{path:?} is a directory, a file is expected")]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// A pipe, a device or the like: it can't be replaced by a rename.
    #[error("{path:?} is neither a regular file nor free")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file there has no write permission.
    #[error("{path:?} is read-only: it is left as it is")]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// Another writer of the same path is alive.
    #[error("{path:?} is being written by another process, in {partial:?}")]
    Busy {
        /// The path.
        path: PathBuf,
        /// The other's unfinished file.
        partial: PathBuf,
    },
    /// The system refused.
    #[error("{path:?}: cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl TargetError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// An unfinished file that will lie at a path. Dropped before [`commit`](Self::commit), it is
/// deleted and the path is as it was.
#[derive(Debug)]
pub(super) struct Target {
    path: PathBuf,
    dir: PathBuf,
    partial: NamedTempFile,
}

impl Target {
    /// An empty unfinished file beside `path`, on the same file system.
    ///
    /// A symbolic link is followed: the file it points to is the one replaced.
    ///
    /// # Errors
    ///
    /// See [`TargetError`]. What lies at `path` has not been touched then.
    pub(super) fn create(path: &Path) -> Result<Self, TargetError> {
        let path = resolve(path)?;
        let name = path.file_name().ok_or_else(|| TargetError::Directory { path: path.clone() })?;
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
            _ => PathBuf::from("."),
        };
        fs::metadata(&dir).map_err(TargetError::io("find the directory", &dir))?;
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(".fuseloop-");
        let partial = create_locked(&dir, &prefix)?;
        let lock = |entry: &fs::DirEntry| {
            // Opening a pipe would block: only a regular file can be a leftover.
            let is_file = entry.file_type().is_ok_and(|found| found.is_file());
            if is_file { File::open(entry.path()).ok() } else { None }
        };
        clean_up(&dir, &prefix, partial.path(), &path, lock, |file| fs::remove_file(file))?;
        Ok(Self { path, dir, partial })
    }

    /// The unfinished file, open for reading and writing. Asked for once: it begins at 0.
    pub(super) fn file<'a, W: Watch>(&'a self, watch: &'a W) -> Watched<'a, W> {
        Watched::new(self.partial.as_file(), watch)
    }

    /// The unfinished file, of which `at` bytes are written: it goes on behind them.
    pub(super) fn rest<'a, W: Watch>(&'a self, at: u64, watch: &'a W) -> Watched<'a, W> {
        Watched::behind(self.partial.as_file(), at, watch)
    }

    /// The unfinished file's path: errors of writing are about this one.
    pub(super) fn partial_path(&self) -> &Path {
        self.partial.path()
    }

    /// Makes the file durable and puts it at its path.
    ///
    /// # Errors
    ///
    /// If the system refuses. Only if syncing the directory fails is the new file in place.
    pub(super) fn commit(self, watch: &impl Watch) -> Result<(), TargetError> {
        let Self { path, dir, partial } = self;
        watch(Step::Sync)
            .and_then(|()| partial.as_file().sync_all())
            .map_err(TargetError::io("sync", partial.path()))?;
        // Asked again: the writing took hours, and a directory or a file that was
        // protected meanwhile is not ours to replace.
        check_replaceable(&path)?;
        watch(Step::Rename)
            .and_then(|()| partial.persist(&path).map_err(|e| e.error))
            .map_err(TargetError::io("rename into place", &path))?;
        watch(Step::SyncDir).and_then(|()| sync_dir(&dir)).map_err(TargetError::io("sync", &dir))
    }
}

/// Follows a link at `path`, and checks that what is there may be replaced.
fn resolve(path: &Path) -> Result<PathBuf, TargetError> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let path = if is_link {
        fs::canonicalize(path).map_err(TargetError::io("follow the link", path))?
    } else {
        path.to_owned()
    };
    check_replaceable(&path)?;
    Ok(path)
}

/// Whether what is at `path` may be replaced; it need not be there.
pub(super) fn check_replaceable(path: &Path) -> Result<(), TargetError> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(TargetError::io("look at it", path)(e)),
    };
    if found.is_dir() {
        return Err(TargetError::Directory { path: path.to_owned() });
    }
    if !found.is_file() {
        return Err(TargetError::NotAFile { path: path.to_owned() });
    }
    if found.permissions().readonly() {
        return Err(TargetError::ReadOnly { path: path.to_owned() });
    }
    Ok(())
}

/// Opens a file of our own for a lock or for notes, empty if it is new. `None` if anything else lies
/// there: a FIFO would be waited for, and a link may lead anywhere.
pub(super) fn open_own(path: &Path) -> io::Result<Option<File>> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Ok(None);
    }
    File::options().read(true).write(true).create(true).truncate(false).open(path).map(Some)
}

/// Creates an unfinished file and locks it, so that other writers see that it is alive.
fn create_locked(dir: &Path, prefix: &OsStr) -> Result<NamedTempFile, TargetError> {
    let mut tries = TRIES;
    loop {
        let partial = builder(prefix)
            .tempfile_in(dir)
            .map_err(TargetError::io("create an unfinished file in it", dir))?;
        match partial.as_file().try_lock() {
            // Another writer may have taken the file for a leftover between these two lines.
            Ok(()) if partial.path().exists() => return Ok(partial),
            Ok(()) | Err(TryLockError::WouldBlock) if tries > 0 => tries -= 1,
            // Without locks the file is still written and renamed as a whole.
            _ => return Ok(partial),
        }
    }
}

fn builder(prefix: &OsStr) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX);
    // A dataset is for everyone the umask admits; a secret file's 0600 would stay after the rename.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Deletes what killed writers of the same path left in a folder: what is named as theirs is, but is not
/// `own`. `lock` gives the file that its writer would hold a lock of, if it can be a leftover.
///
/// # Errors
///
/// [`TargetError::Busy`] if one of them is alive.
pub(super) fn clean_up(
    folder: &Path,
    prefix: &OsStr,
    own: &Path,
    path: &Path,
    lock: impl Fn(&fs::DirEntry) -> Option<File>,
    delete: impl Fn(&Path) -> io::Result<()>,
) -> Result<(), TargetError> {
    let listing = fs::read_dir(folder).map_err(TargetError::io("list", folder))?;
    for entry in listing.flatten() {
        let (partial, name) = (entry.path(), entry.file_name());
        let name = name.as_encoded_bytes();
        let is_partial =
            name.starts_with(prefix.as_encoded_bytes()) && name.ends_with(SUFFIX.as_bytes());
        if !is_partial || partial.file_name() == own.file_name() {
            continue;
        }
        let Some(file) = lock(&entry) else { continue };
        let is_alive = match file.try_lock() {
            // Held until it is gone, or a writer that has just created it would go on in it.
            Ok(()) => match delete(&partial) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                // That writer has put a lock of its own in.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => true,
                Err(error) => return Err(TargetError::io("delete a leftover", &partial)(error)),
                Ok(()) => false,
            },
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => false,
        };
        if is_alive {
            return Err(TargetError::Busy { path: path.to_owned(), partial });
        }
    }
    Ok(())
}

/// Makes the rename itself durable.
#[cfg(unix)]
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Other systems have no such call, or refuse it on directories.
#[cfg(not(unix))]
pub(super) fn sync_dir(_dir: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::step::unwatched;
    use super::*;
    use std::io::Write as _;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_uncommitted_file_leaves_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        fs::write(&path, "old").unwrap();
        let target = Target::create(&path).unwrap();
        target.file(&unwatched).write_all(b"new").unwrap();
        drop(target);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a.beton"]);
    }

    #[test]
    fn a_committed_file_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        fs::write(&path, "old").unwrap();
        let target = Target::create(&path).unwrap();
        target.file(&unwatched).write_all(b"new").unwrap();
        target.commit(&unwatched).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["a.beton"]);
    }

    #[test]
    fn a_dead_writers_leftover_is_deleted_and_a_strangers_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        fs::write(dir.path().join(".a.beton.fuseloop-dead.partial"), "part").unwrap();
        fs::write(dir.path().join(".b.beton.fuseloop-dead.partial"), "part").unwrap();
        Target::create(&path).unwrap().commit(&unwatched).unwrap();
        assert_eq!(names(dir.path()), [".b.beton.fuseloop-dead.partial", "a.beton"]);
    }

    #[test]
    fn two_writers_of_one_path_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        let first = Target::create(&path).unwrap();
        let error = Target::create(&path).unwrap_err();
        assert!(matches!(error, TargetError::Busy { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("is being written by another process"), "{message}");
        first.commit(&unwatched).unwrap();
        Target::create(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_replaced_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = Target::create(dir.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{:?} is a directory, a file is expected", dir.path())
        );

        let path = dir.path().join("a.beton");
        fs::write(&path, "old").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let error = Target::create(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("{path:?} is read-only: it is left as it is"));
        assert_eq!(fs::read(&path).unwrap(), b"old");

        let error = Target::create(&dir.path().join("no/such/a.beton")).unwrap_err();
        let found = format!("{:?}: cannot find the directory: ", dir.path().join("no/such"));
        assert!(error.to_string().starts_with(&found), "{error}");
        assert!(Target::create(Path::new("")).is_err());
        assert!(Target::create(Path::new("/")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_refused_and_a_link_is_followed() {
        let error = Target::create(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.to_string(), "\"/dev/null\" is neither a regular file nor free");

        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.beton"), dir.path().join("link.beton"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let target = Target::create(&link).unwrap();
        target.file(&unwatched).write_all(b"new").unwrap();
        target.commit(&unwatched).unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn a_written_file_is_readable_by_those_the_umask_admits() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (ours, plain) = (dir.path().join("a"), dir.path().join("b"));
        Target::create(&ours).unwrap().commit(&unwatched).unwrap();
        fs::write(&plain, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
