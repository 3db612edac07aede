//! A pool of many files, of which a few are open.
//!
//! A process is often limited to 1,024 open files, and datasets have more shards. If there are many, a
//! file is opened when it is read. When too many are open, the file that was opened first is closed,
//! unless it was read since the pool last looked at it; then the next file has its turn. A file that was
//! replaced or changed while it was closed is an error.

use crate::source::ReadAt;
use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The most shards of a dataset that are open at a time.
pub(super) const MOST: usize = 256;

/// The open files of a pool, in the order in which they were opened.
pub(super) struct FilePool {
    open: Mutex<VecDeque<Weak<PooledFile>>>,
    most: usize,
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

impl FilePool {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), most })
    }

    /// Adds a regular file, which is not opened yet.
    ///
    /// # Errors
    ///
    /// Fails with the system's error, or if the path is a folder, a FIFO or a device.
    pub(super) fn file(self: &Arc<Self>, path: &Path) -> io::Result<Arc<PooledFile>> {
        let found = std::fs::metadata(path)?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new_cyclic(|this| PooledFile {
            path: path.to_owned(),
            found,
            file: Mutex::default(),
            is_used: AtomicBool::new(false),
            pool: Arc::clone(self),
            this: Weak::clone(this),
        }))
    }

    /// Notes a file that was opened, and closes another if too many are open.
    fn add_open(&self, opened: &Weak<PooledFile>) {
        let mut open = lock(&self.open);
        open.push_back(Weak::clone(opened));
        // If all files are still in use after two rounds, any of them is closed.
        let mut chances = 2 * open.len();
        while open.len() > self.most {
            let Some(first) = open.pop_front().and_then(|first| first.upgrade()) else { continue };
            chances = chances.saturating_sub(1);
            if first.is_used.swap(false, Ordering::Relaxed) && chances > 0 {
                open.push_back(Weak::clone(&first.this));
            } else {
                lock(&first.file).take();
            }
        }
    }
}

impl PooledFile {
    /// Returns an error if the file was replaced or changed since it was found.
    fn check(&self, now: &Metadata) -> io::Result<()> {
        let changed = || io::Error::other("the file was changed or replaced since it was opened");
        is_same(now, &self.found).then_some(()).ok_or_else(changed)
    }

    fn file(&self) -> io::Result<Arc<File>> {
        self.is_used.store(true, Ordering::Relaxed);
        let mut file = lock(&self.file);
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        // The check comes before the file is opened: opening a FIFO waits for its writer.
        self.check(&std::fs::metadata(&self.path)?)?;
        let opened = Arc::new(File::open(&self.path)?);
        self.check(&opened.metadata()?)?;
        *file = Some(Arc::clone(&opened));
        // `add_open` locks the files that it closes while it holds the pool's lock, so this file must be
        // unlocked.
        drop(file);
        self.pool.add_open(&self.this);
        Ok(opened)
    }
}

impl ReadAt for PooledFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.found.len())
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        self.file()?.read_at(bytes, start)
    }

    fn append_at(&self, bytes: &mut Vec<u8>, most: usize, start: u64) -> io::Result<usize> {
        self.file()?.append_at(bytes, most, start)
    }
}

fn is_same(a: &Metadata, b: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if (a.dev(), a.ino()) != (b.dev(), b.ino()) {
            return false;
        }
    }
    a.len() == b.len() && a.modified().ok() == b.modified().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread;

    #[test]
    fn few_of_many_files_are_open_and_all_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let pool = FilePool::new(3);
        let files: Vec<_> = (0..20_u8)
            .map(|k| {
                let path = dir.path().join(k.to_string());
                fs::write(&path, [k, k + 1]).unwrap();
                pool.file(&path).unwrap()
            })
            .collect();
        let open = || files.iter().filter(|file| lock(&file.file).is_some()).count();
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
        let pool = FilePool::new(1);
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
}
