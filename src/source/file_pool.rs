//! The files of datasets of several files: one pool for the process, in which a few of them are open.
//!
//! A process is often limited to 1,024 open files, and datasets have more shards. The pool keeps a quarter of
//! the limit open ([`most_open`]), over all datasets; the rest is for the program. A file is opened when it is
//! read. When too many are open, the file that was opened first is closed, unless it was read since the pool
//! last looked at it; then the next file has its turn. Where the system refuses to open a file because too many
//! are open ([`open`]), the pool closes one more and tries again.
//!
//! A file that was replaced while it was closed, or whose length changed, is an error. One that was only touched
//! is the same file.
//!
//! No lock is waited for longer than [`PATIENCE`]: after a fork, the child may have locks that are held by threads
//! that it does not have. It then opens files for one read each.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, TryLockError, Weak};
use std::thread;

/// The most files that the pool keeps open, whatever the limit.
const MOST: usize = 4096;

/// How often a thread that needs a lock lets others run before it does without. They hold locks for less than that,
/// unless a file is being opened or this is the child of a fork.
const PATIENCE: usize = 200;

/// The pool of the process.
static POOL: LazyLock<Arc<FilePool>> = LazyLock::new(|| FilePool::new(None));

/// The open files of a pool, in the order in which they were opened.
struct FilePool {
    open: Mutex<VecDeque<Weak<PooledFile>>>,
    /// The most open files; `None` is [`most_open`].
    most: Option<usize>,
}

/// A file that is opened when it is read.
pub(super) struct PooledFile {
    path: PathBuf,
    found: Metadata,
    file: Mutex<Option<Arc<File>>>,
    /// True if the file was read since the pool last looked for a file to close.
    is_used: AtomicBool,
    pool: Arc<FilePool>,
    this: Weak<Self>,
}

/// Returns the most files that the pool of the process keeps open: a quarter of the files that the process may
/// open now.
pub(super) fn most_open() -> usize {
    #[cfg(unix)]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Windows limits the files of its C library, which are not used.
    #[cfg(not(unix))]
    let limit: Option<u64> = None;
    let quarter = limit.map_or(usize::MAX, |most| usize::try_from(most / 4).unwrap_or(usize::MAX));
    quarter.clamp(1, MOST)
}

/// Returns the metadata of a regular file.
///
/// # Errors
///
/// Fails with the system's error, or if the path is a folder, a FIFO or a device.
pub(super) fn regular(path: &Path) -> io::Result<Metadata> {
    let found = std::fs::metadata(path)?;
    let what = match () {
        () if found.is_file() => return Ok(found),
        () if found.is_dir() => {
            "a folder, expected a file (only files are named together, by braces, `::` or patterns)"
        }
        () => "not a regular file",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Opens a file. If too many are open, files of the pool are closed.
///
/// # Errors
///
/// Fails with the system's error.
pub(super) fn open(path: &Path) -> io::Result<File> {
    POOL.open(path)
}

/// Adds a regular file to the pool of the process. It is not opened yet.
///
/// # Errors
///
/// Fails with the system's error, or if the path is a folder, a FIFO or a device.
pub(super) fn pooled(path: &Path) -> io::Result<Arc<PooledFile>> {
    POOL.file(path)
}

impl FilePool {
    fn new(most: Option<usize>) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), most })
    }

    fn file(self: &Arc<Self>, path: &Path) -> io::Result<Arc<PooledFile>> {
        let found = regular(path)?;
        Ok(Arc::new_cyclic(|this| PooledFile {
            path: path.to_owned(),
            found,
            file: Mutex::default(),
            is_used: AtomicBool::new(false),
            pool: Arc::clone(self),
            this: Weak::clone(this),
        }))
    }

    /// Opens a file, for which other files of the pool are closed if the system has too many.
    fn open(&self, path: &Path) -> io::Result<File> {
        loop {
            match File::open(path) {
                Err(error) if is_too_many(&error) && self.close_first() => {}
                outcome => return outcome,
            }
        }
    }

    /// Closes the file that was opened first. Returns false if no file is open.
    fn close_first(&self) -> bool {
        let Some(mut open) = patient_lock(&self.open) else { return false };
        let first = std::iter::from_fn(|| open.pop_front()).find_map(|first| first.upgrade());
        drop(open);
        first.is_some_and(|first| {
            first.close();
            true
        })
    }

    /// Notes a file that was opened, and closes others if too many are open. Returns false if that can't be noted.
    fn add_open(&self, opened: &Weak<PooledFile>) -> bool {
        let most = self.most.unwrap_or_else(most_open);
        let Some(mut open) = patient_lock(&self.open) else { return false };
        open.push_back(Weak::clone(opened));
        if open.len() > most {
            // The files of datasets that were dropped are closed.
            open.retain(|file| file.strong_count() > 0);
        }
        // If all files are still in use after two rounds, any of them is closed.
        let mut chances = 2 * open.len();
        let mut too_many = vec![];
        while open.len() > most {
            let Some(first) = open.pop_front().and_then(|first| first.upgrade()) else { continue };
            chances = chances.saturating_sub(1);
            if first.is_used.swap(false, Ordering::Relaxed) && chances > 0 {
                open.push_back(Weak::clone(&first.this));
            } else {
                too_many.push(first);
            }
        }
        drop(open);
        too_many.iter().for_each(|file| file.close());
        true
    }
}

impl PooledFile {
    /// Returns an error if the file was replaced or changed since it was found.
    fn check(&self, now: &Metadata) -> io::Result<()> {
        let changed = || io::Error::other("the file was changed or replaced since it was opened");
        is_same(now, &self.found).then_some(()).ok_or_else(changed)
    }

    /// Returns the length that the file had when it was found.
    pub(super) fn found_len(&self) -> u64 {
        self.found.len()
    }

    /// Returns the open file, which is opened if it is not.
    ///
    /// # Errors
    ///
    /// Fails with the system's error, or if the file was replaced.
    pub(super) fn file(&self) -> io::Result<Arc<File>> {
        self.is_used.store(true, Ordering::Relaxed);
        let Some(mut file) = patient_lock(&self.file) else { return self.open() };
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        // This file is locked, and is not among the open files: no thread that closes files waits for it.
        let opened = self.open()?;
        *file = Some(Arc::clone(&opened));
        drop(file);
        if !self.pool.add_open(&self.this) {
            self.close();
        }
        Ok(opened)
    }

    fn open(&self) -> io::Result<Arc<File>> {
        // The check comes before the file is opened: opening a FIFO waits for its writer.
        self.check(&std::fs::metadata(&self.path)?)?;
        let opened = self.pool.open(&self.path)?;
        self.check(&opened.metadata()?)?;
        Ok(Arc::new(opened))
    }

    fn close(&self) {
        if let Some(mut file) = patient_lock(&self.file) {
            file.take();
        }
    }
}

/// Returns whether the system refused a file because the process, or all processes, have too many open.
fn is_too_many(error: &io::Error) -> bool {
    #[cfg(unix)]
    let is_too_many = {
        use rustix::io::Errno;
        let codes = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        error.raw_os_error().is_some_and(|code| codes.contains(&code))
    };
    // ERROR_TOO_MANY_OPEN_FILES
    #[cfg(not(unix))]
    let is_too_many = error.raw_os_error() == Some(4);
    is_too_many
}

/// Returns whether this is one file. Its last change tells only where the file system does not know when the file was
/// made: files of datasets are often touched, lest they are deleted as unused.
fn is_same(a: &Metadata, b: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if (a.dev(), a.ino()) != (b.dev(), b.ino()) {
            return false;
        }
    }
    let is_as_old = match (a.created(), b.created()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a.modified().ok() == b.modified().ok(),
    };
    a.len() == b.len() && is_as_old
}

/// Locks a mutex; `None` if it is held for long.
fn patient_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..PATIENCE {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::yield_now(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ReadAt as _;
    use std::fs;

    fn is_open(file: &PooledFile) -> bool {
        file.file.lock().unwrap().is_some()
    }

    #[test]
    fn locks_that_are_held_for_ever_keep_no_file_from_being_read() {
        let dir = tempfile::tempdir().unwrap();
        let pool = FilePool::new(Some(3));
        let [a, b] = ["a", "b"].map(|name| {
            fs::write(dir.path().join(name), name).unwrap();
            pool.file(&dir.path().join(name)).unwrap()
        });
        let (_pool, _a) = (pool.open.lock().unwrap(), a.file.lock().unwrap());
        for file in [&a, &b, &b] {
            assert_eq!(file.read_at(&mut [0], 0).unwrap(), 1);
        }
        assert!(!is_open(&b), "it can't be noted as open");
    }

    #[test]
    fn few_of_many_files_are_open_and_all_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let pool = FilePool::new(Some(3));
        let files: Vec<_> = (0..20_u8)
            .map(|k| {
                let path = dir.path().join(k.to_string());
                fs::write(&path, [k, k + 1]).unwrap();
                pool.file(&path).unwrap()
            })
            .collect();
        let open = || files.iter().filter(|file| is_open(file)).count();
        thread::scope(|scope| {
            for thread in 0..4 {
                let files = &files;
                scope.spawn(move || {
                    for step in 0..2000 {
                        let k = (step * (2 * thread + 1) + thread) % 20;
                        let mut bytes = [0; 2];
                        assert_eq!(files[k].read_at(&mut bytes, 0).unwrap(), 2);
                        assert_eq!(bytes, [k as u8, k as u8 + 1]);
                    }
                });
            }
        });
        assert_eq!(open(), 3);
    }

    #[test]
    fn a_file_that_was_replaced_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let pool = FilePool::new(Some(1));
        let [a, b] = ["a", "b"].map(|name| {
            fs::write(dir.path().join(name), name).unwrap();
            pool.file(&dir.path().join(name)).unwrap()
        });
        a.read_at(&mut [0], 0).unwrap();
        fs::write(dir.path().join("c"), "c").unwrap();
        fs::rename(dir.path().join("c"), dir.path().join("a")).unwrap();
        let mut bytes = [0];
        a.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"a", "it is still open");
        b.read_at(&mut bytes, 0).unwrap();
        let error = a.read_at(&mut bytes, 0).unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
        assert!(pool.file(dir.path()).is_err());
    }

    #[test]
    fn a_file_that_was_touched_while_it_was_closed_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "a").unwrap();
        if fs::metadata(&path).unwrap().created().is_err() {
            return;
        }
        let file = FilePool::new(Some(1)).file(&path).unwrap();
        let time = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert_eq!(file.read_at(&mut [0], 0).unwrap(), 1);
    }

    #[test]
    fn files_of_dropped_datasets_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let pool = FilePool::new(Some(2));
        let [a, b, c] = ["a", "b", "c"].map(|name| {
            fs::write(dir.path().join(name), name).unwrap();
            pool.file(&dir.path().join(name)).unwrap()
        });
        a.file().unwrap();
        b.file().unwrap();
        drop(b);
        c.file().unwrap();
        assert!(is_open(&a), "two are open");
        assert!(pool.close_first() && !is_open(&a) && is_open(&c));
        assert!(pool.close_first() && !is_open(&c));
        assert!(!pool.close_first(), "none is open");
    }
}
