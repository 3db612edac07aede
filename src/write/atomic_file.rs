//! Writes a file that appears at its path complete or not at all.
//!
//! ```text
//! .train.beton.fuseloop-x7Gq2k.partial    written, locked while its writer is alive
//!     fsync -> rename to train.beton -> fsync of the directory
//! ```
//!
//! A reader therefore finds the old file or the complete new one, at whatever moment the writer is
//! killed. The kernel releases a dead writer's lock, so the next writer of the same path can tell a
//! leftover from a live writer's file: it deletes a leftover, and refuses to start beside a live writer.
//! On a file system without locks, leftovers stay, and two writers of one path each produce a complete
//! file, of which the later one stays.

use super::error::io_error;
use super::step::{FileStep, ObserveStep, ObservedFile, StepFile};
use crate::error::{Error, fail};
use crate::source::{check_destination, keep_mode, note_unfinished, without_path};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// The number of attempts to create an unfinished file: each failure means that another writer deleted
/// it.
pub(super) const TRIES: u32 = 16;

/// The suffix of the name of every unfinished file.
pub(super) const SUFFIX: &str = ".partial";

/// The part of the name of an unfinished file that is kept between attempts, instead of a random text.
const RESUMED: &str = "resumed";

/// Returns the error of something at a path that a rename must not replace: a pipe, a device or the like.
pub(super) fn not_a_file(path: &Path) -> Error {
    fail!(Io, "{path:?} exists and is not a regular file").named_path(path)
}

fn is_a_directory(path: &Path) -> Error {
    fail!(Io, "{path:?} is a directory, a file is expected")
        .named_path(path)
        .help("name a file in it, such as `train.beton`")
}

/// Refuses to write where something is, unless `overwrite` is set: the rule of everything that writes. `found` is the file
/// at the destination, or the folder if there are files in it.
pub(super) fn refuse_existing(found: Option<&Path>, overwrite: bool) -> Result<(), Error> {
    let Some(path) = found.filter(|_| !overwrite) else { return Ok(()) };
    let error = match path.is_dir() {
        true => fail!(
            AlreadyExists,
            "{path:?} is not empty: choose a new folder, or set `overwrite: true`"
        )
        .help("`--overwrite` replaces files in it"),
        false => fail!(
            AlreadyExists,
            "{path:?} already exists: choose a different output, or set `overwrite: true`"
        )
        .help("`--overwrite` replaces it"),
    };
    Err(error.named_path(path))
}

/// Returns the error of a path whose other writer is alive.
pub(super) fn busy(path: &Path, partial: &Path) -> Error {
    fail!(Io, "{path:?} is being written by another process, in {partial:?}")
        .named_path(path)
        .help("wait for that process, or end it")
}

/// An unfinished file for a path. If dropped before [`commit`](Self::commit), it is deleted and the path
/// stays as it was.
#[derive(Debug)]
pub(super) struct AtomicFile {
    path: PathBuf,
    dir: PathBuf,
    partial: NamedTempFile,
    /// True if the path must still be free at the end.
    is_new: bool,
}

impl AtomicFile {
    /// Creates an empty unfinished file beside `path`, on the same file system.
    ///
    /// A symbolic link is followed: the file that it points to is replaced.
    ///
    /// # Errors
    ///
    /// If the path can't be written. The file at `path` has not been touched then.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let path = resolve(path)?;
        let (dir, prefix) = place(&path)?;
        let partial = create_locked(&dir, &prefix)?;
        Self::of(path, dir, &prefix, partial)
    }

    /// Opens the unfinished file that an interrupted attempt to write `path` left, or creates it. It stays if it is
    /// dropped before [`commit`](Self::commit).
    ///
    /// # Errors
    ///
    /// If the path can't be written.
    pub(super) fn resume(path: &Path) -> Result<Self, Error> {
        let path = resolve(path)?;
        let (dir, prefix) = place(&path)?;
        let partial = resumed_path(&path)?;
        let file = open_own(&partial)
            .map_err(io_error("create an unfinished file in it", &dir))?
            .ok_or_else(|| not_a_file(&partial))?;
        match file.try_lock() {
            // Without locks, another writer is not detected.
            Ok(()) | Err(TryLockError::Error(_)) if partial.exists() => {}
            _ => return Err(busy(&path, &partial)),
        }
        let partial =
            TempPath::try_from_path(&partial).map_err(io_error("find the directory", &dir))?;
        let mut partial = NamedTempFile::from_parts(file, partial);
        partial.disable_cleanup(true);
        Self::of(path, dir, &prefix, partial)
    }

    /// Deletes what dead writers of `path` left beside the unfinished file `partial`.
    fn of(
        path: PathBuf,
        dir: PathBuf,
        prefix: &OsStr,
        partial: NamedTempFile,
    ) -> Result<Self, Error> {
        let lock = |entry: &fs::DirEntry| {
            // Opening a pipe would block: only a regular file can be a leftover.
            let is_file = entry.file_type().is_ok_and(|found| found.is_file());
            if is_file { File::open(entry.path()).ok() } else { None }
        };
        clean_up(&dir, prefix, partial.path(), &path, lock, |file| fs::remove_file(file))?;
        keep_mode(partial.as_file(), &path)
            .map_err(io_error("keep the mode of the file that is replaced", &path))?;
        Ok(Self { path, dir, partial, is_new: false })
    }

    /// Creates an unfinished file as [`create`](Self::create) does. Unless `overwrite` is set, a file at `path` is an
    /// error, now and when the file is complete.
    ///
    /// # Errors
    ///
    /// If the path can't be written.
    pub(super) fn create_new(path: &Path, overwrite: bool) -> Result<Self, Error> {
        check_free(path, overwrite)?;
        Ok(Self { is_new: !overwrite, ..Self::create(path)? })
    }

    /// Returns the unfinished file, open for reading and writing. To be called once: it assumes position
    /// 0.
    pub(super) fn file<'a, W: ObserveStep>(&'a self, watch: &'a W) -> ObservedFile<'a, W> {
        self.rest(0, watch)
    }

    /// Returns the unfinished file, of which `at` bytes are written, to continue behind them.
    pub(super) fn rest<'a, W: ObserveStep>(&'a self, at: u64, watch: &'a W) -> ObservedFile<'a, W> {
        ObservedFile::new(self.partial.as_file(), StepFile::Output, at, watch)
    }

    /// Returns the unfinished file's path, for errors of writing.
    pub(super) fn partial_path(&self) -> &Path {
        self.partial.path()
    }

    /// Returns the unfinished file itself.
    pub(super) fn as_file(&self) -> &File {
        self.partial.as_file()
    }

    /// Makes the bytes of the file durable.
    pub(super) fn sync(&self, watch: &impl ObserveStep) -> Result<(), Error> {
        watch(FileStep::Sync(StepFile::Output))
            .and_then(|()| self.partial.as_file().sync_all())
            .map_err(io_error("sync", self.partial.path()))
    }

    /// Makes the file durable and renames it to its path.
    ///
    /// # Errors
    ///
    /// If a system call fails. Only if syncing the directory fails is the new file already in place.
    pub(super) fn commit(self, watch: &impl ObserveStep) -> Result<(), Error> {
        self.sync(watch)?;
        let Self { path, dir, partial, is_new } = self;
        // Checked again, because writing may take hours: a directory, or a file protected in the
        // meantime, must not be replaced.
        check_replaceable(&path)?;
        check_free(&path, !is_new)?;
        watch(FileStep::Rename)
            .and_then(|()| partial.persist(&path).map_err(|e| e.error))
            .map_err(io_error("rename into place", &path))?;
        watch(FileStep::SyncDir).and_then(|()| sync_dir(&dir)).map_err(io_error("sync", &dir))
    }
}

/// Returns the folder of a path, and the beginning of the names of its unfinished files.
fn place(path: &Path) -> Result<(PathBuf, OsString), Error> {
    let name = path.file_name().ok_or_else(|| is_a_directory(path))?;
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    fs::metadata(&dir).map_err(io_error("find the directory", &dir))?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".fuseloop-");
    Ok((dir, prefix))
}

/// Returns the path of the unfinished file that [`AtomicFile::resume`] opens.
pub(super) fn resumed_path(path: &Path) -> Result<PathBuf, Error> {
    let (dir, mut name) = place(path)?;
    name.push(RESUMED);
    name.push(SUFFIX);
    Ok(dir.join(name))
}

/// Refuses a destination that is an address.
pub(super) fn check_local(path: &Path) -> Result<(), Error> {
    Ok(check_destination(path)?)
}

/// Checks, before anything is read, that a file may be written to `path`: not to an address and, unless `overwrite` is
/// set, not to an existing file.
pub(super) fn check_free(path: &Path, overwrite: bool) -> Result<(), Error> {
    check_local(path)?;
    let is_taken = fs::metadata(path).is_ok_and(|found| found.is_file());
    refuse_existing(is_taken.then_some(path), overwrite)
}

/// Follows a link at `path`, and checks that what is there may be replaced.
fn resolve(path: &Path) -> Result<PathBuf, Error> {
    check_local(path)?;
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let path = if is_link {
        fs::canonicalize(path).map_err(io_error("follow the link", path))?
    } else {
        path.to_owned()
    };
    check_replaceable(&path)?;
    Ok(path)
}

/// Checks that what is at `path` may be replaced. The path may also be free.
pub(super) fn check_replaceable(path: &Path) -> Result<(), Error> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io_error("look at it", path)(e)),
    };
    if found.is_dir() {
        return Err(is_a_directory(path));
    }
    if !found.is_file() {
        return Err(not_a_file(path));
    }
    if found.permissions().readonly() {
        return Err(fail!(Io, "{path:?} is read-only: it was not replaced")
            .named_path(path)
            .help("remove it, or choose another name"));
    }
    Ok(())
}

/// Opens a file of our own, for a lock or a journal; creates it empty if it is new. Returns `None` if
/// anything but a regular file is there: opening a FIFO would block, and a link may lead anywhere.
pub(super) fn open_own(path: &Path) -> io::Result<Option<File>> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Ok(None);
    }
    File::options().read(true).write(true).create(true).truncate(false).open(path).map(Some)
}

/// Creates and locks an unfinished file. The lock shows other writers that its owner is alive.
fn create_locked(dir: &Path, prefix: &OsStr) -> Result<NamedTempFile, Error> {
    let mut tries = TRIES;
    loop {
        let partial = builder(prefix)
            .tempfile_in(dir)
            .map_err(without_path)
            .map_err(io_error("create an unfinished file in it", dir))?;
        note_unfinished(partial.path());
        match partial.as_file().try_lock() {
            // Another writer may have deleted the file as a leftover before it was locked.
            Ok(()) if partial.path().exists() => return Ok(partial),
            Ok(()) | Err(TryLockError::WouldBlock) if tries > 0 => tries -= 1,
            // Without locks, the file is still written and renamed as a whole.
            _ => return Ok(partial),
        }
    }
}

fn builder(prefix: &OsStr) -> tempfile::Builder<'_, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX);
    // A dataset gets the permissions of the umask. The 0600 of a temporary file would stay after the
    // rename.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

/// Deletes the files in a folder that killed writers of the same path left: those with the writers'
/// prefix and suffix, other than `own`. `lock` opens the file on which the entry's writer would hold a
/// lock, if the entry can be a leftover.
///
/// # Errors
///
/// [`busy`] if one of the writers is alive.
pub(super) fn clean_up(
    folder: &Path,
    prefix: &OsStr,
    own: &Path,
    path: &Path,
    lock: impl Fn(&fs::DirEntry) -> Option<File>,
    delete: impl Fn(&Path) -> io::Result<()>,
) -> Result<(), Error> {
    let listing = fs::read_dir(folder).map_err(io_error("list", folder))?;
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
            // The lock is held until the entry is deleted: a writer that has just created the entry
            // might otherwise use it.
            Ok(()) => match delete(&partial) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                // A live writer has put its own lock file into the directory.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => true,
                Err(error) => return Err(io_error("delete a leftover", &partial)(error)),
                Ok(()) => false,
            },
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => false,
        };
        if is_alive {
            return Err(busy(path, &partial));
        }
    }
    Ok(())
}

/// Makes a rename in `dir` durable.
#[cfg(unix)]
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Does nothing: other systems have no such call, or refuse it on directories.
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
        let target = AtomicFile::create(&path).unwrap();
        target.file(&unwatched).write_all(b"new").unwrap();
        drop(target);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a.beton"]);
    }

    #[test]
    fn an_error_has_not_the_path_of_the_unfinished_file() {
        let dir = tempfile::tempdir().unwrap();
        // The name fits, but not that of the unfinished file.
        let error = AtomicFile::create(&dir.path().join("a".repeat(250))).err().unwrap();
        assert!(error.to_string().contains("create an unfinished file in it"), "{error}");
        assert!(!error.to_string().contains(".partial"), "{error}");
    }

    #[test]
    fn a_committed_file_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        fs::write(&path, "old").unwrap();
        let target = AtomicFile::create(&path).unwrap();
        target.file(&unwatched).write_all(b"new").unwrap();
        target.commit(&unwatched).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["a.beton"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_only_its_owner_may_read_stays_so() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for of_old in [0o600, 0o640, 0o664] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(of_old)).unwrap();
            let target = AtomicFile::create(&path).unwrap();
            assert_eq!(mode(target.partial_path()), of_old, "while it is written, too");
            target.commit(&unwatched).unwrap();
            assert_eq!(mode(&path), of_old);
        }
    }

    #[test]
    fn a_dead_writers_leftover_is_deleted_and_a_strangers_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        fs::write(dir.path().join(".a.beton.fuseloop-dead.partial"), "part").unwrap();
        fs::write(dir.path().join(".b.beton.fuseloop-dead.partial"), "part").unwrap();
        AtomicFile::create(&path).unwrap().commit(&unwatched).unwrap();
        assert_eq!(names(dir.path()), [".b.beton.fuseloop-dead.partial", "a.beton"]);
    }

    #[test]
    fn two_writers_of_one_path_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        let first = AtomicFile::create(&path).unwrap();
        let error = AtomicFile::create(&path).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Io, "{error}");
        let message = error.to_string();
        assert!(message.contains("is being written by another process"), "{message}");
        first.commit(&unwatched).unwrap();
        AtomicFile::create(&path).unwrap();
    }

    #[test]
    fn what_cannot_be_replaced_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = AtomicFile::create(dir.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{:?} is a directory, a file is expected", dir.path())
        );

        let path = dir.path().join("a.beton");
        fs::write(&path, "old").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let error = AtomicFile::create(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("{path:?} is read-only: it was not replaced"));
        assert_eq!(fs::read(&path).unwrap(), b"old");

        let error = AtomicFile::create(&dir.path().join("no/such/a.beton")).unwrap_err();
        let found = format!("{:?}: cannot find the directory: ", dir.path().join("no/such"));
        assert!(error.to_string().starts_with(&found), "{error}");
        assert!(AtomicFile::create(Path::new("")).is_err());
        assert!(AtomicFile::create(Path::new("/")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_refused_and_a_link_is_followed() {
        let error = AtomicFile::create(Path::new("/dev/null")).unwrap_err();
        assert_eq!(error.to_string(), "\"/dev/null\" exists and is not a regular file");

        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.beton"), dir.path().join("link.beton"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let target = AtomicFile::create(&link).unwrap();
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
        AtomicFile::create(&ours).unwrap().commit(&unwatched).unwrap();
        fs::write(&plain, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
