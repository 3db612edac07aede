//! Writes files into a folder one by one, each complete or not at all.
//!
//! ```text
//! DST/.fuseloop-x7Gq2k.partial/lock     locked while its writer is alive
//! DST/.fuseloop-x7Gq2k.partial/17       written, fsync -> rename to its path below DST
//! ```
//!
//! The directories themselves are synced once, by [`finish`](StagingDir::finish): a rename that a power
//! cut undoes leaves the file absent, as if it had not been written yet. The next writer of the same
//! folder deletes what a killed writer left behind. Two writers of one folder at the same time are
//! refused, as they are for a single file (`atomic_file.rs`).

use super::atomic_file::{
    SUFFIX, TRIES, check_replaceable, clean_up, not_a_file, open_own, sync_dir,
};
use super::error::io_error;
use crate::error::Error;
use crate::source::{keep_mode, note_unfinished, without_path};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) const PREFIX: &str = ".fuseloop-";

/// The file whose lock shows that the directory's writer is alive.
const LOCK: &str = "lock";

/// The directory of unfinished files. Dropping it deletes the directory and its contents.
#[derive(Debug)]
pub(super) struct StagingDir {
    /// Released before the directory is deleted: fields are dropped in order.
    _lock: File,
    dir: TempDir,
}

impl StagingDir {
    /// Creates a directory for unfinished files in `folder`, which must exist.
    ///
    /// # Errors
    ///
    /// If a system call fails, or another writer of the folder is alive.
    pub(super) fn create(folder: &Path) -> Result<Self, Error> {
        let (dir, lock) = create_locked(folder)?;
        // A writer that was killed before it created its lock file, or after the file was deleted, left
        // none: it is created here.
        let lock_of = |entry: &fs::DirEntry| {
            let is_dir = entry.file_type().is_ok_and(|found| found.is_dir());
            if is_dir { open_own(&entry.path().join(LOCK)).ok().flatten() } else { None }
        };
        let delete = |dir: &Path| fs::remove_dir_all(dir);
        clean_up(folder, PREFIX.as_ref(), dir.path(), folder, lock_of, delete)?;
        Ok(Self { _lock: lock, dir })
    }

    /// Creates an empty unfinished file and returns it with its path. Each `number` may be used once.
    pub(super) fn file(&self, number: u64) -> Result<(File, PathBuf), Error> {
        self.named(&number.to_string())
    }

    /// Like [`file`](Self::file), for several files of one number.
    pub(super) fn file_of(&self, number: u64, of: usize) -> Result<(File, PathBuf), Error> {
        self.named(&format!("{number}.{of}"))
    }

    fn named(&self, name: &str) -> Result<(File, PathBuf), Error> {
        let path = self.dir.path().join(name);
        let file = File::create(&path).map_err(io_error("create it", &path))?;
        Ok((file, path))
    }

    /// Makes a file durable and renames it to its path. A link at the path is refused and not followed:
    /// it may lead to the very file that this one is made from.
    pub(super) fn put(&self, staged: (File, PathBuf), path: &Path) -> Result<(), Error> {
        let (file, staged) = staged;
        keep_mode(&file, path)
            .map_err(io_error("keep the mode of the file that is replaced", path))?;
        file.sync_all().map_err(io_error("sync", &staged))?;
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
            return Err(not_a_file(path));
        }
        check_replaceable(path)?;
        fs::rename(&staged, path).map_err(io_error("rename into place", path))
    }

    /// Makes the renames durable. `dirs` are all directories that have new names in them.
    pub(super) fn finish<'a>(self, dirs: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
        drop(self);
        dirs.into_iter().try_for_each(|dir| sync_dir(dir).map_err(io_error("sync", dir)))
    }
}

/// Creates a directory with a locked file in it, which shows other writers that its owner is alive.
fn create_locked(folder: &Path) -> Result<(TempDir, File), Error> {
    let mut tries = TRIES;
    loop {
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .suffix(SUFFIX)
            .tempdir_in(folder)
            .map_err(without_path)
            .map_err(io_error("create a directory in it", folder))?;
        note_unfinished(dir.path());
        let path = dir.path().join(LOCK);
        let lock = match open_own(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries > 0 => {
                tries -= 1;
                continue;
            }
            opened => opened.map_err(io_error("create it", &path))?,
        };
        let lock = lock.ok_or_else(|| not_a_file(&path))?;
        match lock.try_lock() {
            // Another writer may have deleted the directory as a leftover before it was locked.
            Ok(()) if path.exists() => return Ok((dir, lock)),
            Ok(()) | Err(TryLockError::WouldBlock) if tries > 0 => tries -= 1,
            // On a file system without locks, each of two writers produces complete files.
            _ => return Ok((dir, lock)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_put_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jpg");
        fs::write(&path, "old").unwrap();
        let staging = StagingDir::create(dir.path()).unwrap();
        let mut staged = staging.file(0).unwrap();
        staged.0.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        staging.put(staged, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        staging.file(1).unwrap().0.write_all(b"unfinished").unwrap();
        staging.finish([dir.path()]).unwrap();
        assert_eq!(names(dir.path()), ["a.jpg"]);
    }

    #[test]
    fn a_dead_writers_leftover_is_deleted_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let dead = dir.path().join(".fuseloop-dead.partial");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        fs::write(dead.join("7"), "part").unwrap();
        let first = StagingDir::create(dir.path()).unwrap();
        assert!(!dead.exists());
        let error = StagingDir::create(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is being written by another process"), "{error}");
        drop(first);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_leftover_without_a_lock_is_deleted_and_what_is_not_ours_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let dead = dir.path().join(".fuseloop-dead.partial");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("7"), "part").unwrap();
        fs::write(dir.path().join(".fuseloop-file.partial"), "a file").unwrap();
        let odd = dir.path().join(".fuseloop-odd.partial");
        fs::create_dir_all(odd.join("lock")).unwrap();
        drop(StagingDir::create(dir.path()).unwrap());
        assert_eq!(names(dir.path()), [".fuseloop-file.partial", ".fuseloop-odd.partial"]);
    }

    #[test]
    fn writers_that_begin_together_do_not_share_a_place() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        match StagingDir::create(dir.path()) {
                            // No other writer may delete it, because its writer is alive.
                            Ok(staging) => drop(staging.file(1).unwrap()),
                            Err(error) if error.to_string().contains("another process") => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        assert!(names(dir.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "original").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let staging = StagingDir::create(dir.path()).unwrap();
        let staged = staging.file(0).unwrap();
        assert!(staging.put(staged, &link).is_err());
        assert_eq!(fs::read(&real).unwrap(), b"original");
    }
}
