//! Many files, of which some are open.
//!
//! A process may often have 1,024 files open, and datasets have more shards. Where they are many, a file
//! is opened when it is read, and closed when others were read since: of two in a row, the one that was
//! not. One that is another file by then, or was changed, is an error.

use crate::source::ReadAt;
use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Shards of a dataset that may all be open at a time.
pub(super) const MOST: usize = 256;

/// Those that are open, the one opened first in front.
pub(super) struct Pool {
    open: Mutex<VecDeque<Weak<Pooled>>>,
    most: usize,
}

/// A file that is open when it must be.
pub(super) struct Pooled {
    path: PathBuf,
    found: Metadata,
    file: Mutex<Option<Arc<File>>>,
    /// Since others were last looked at for closing.
    is_used: AtomicBool,
    pool: Arc<Pool>,
    this: Weak<Self>,
}

impl Pool {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), most })
    }

    /// A regular file; it is not opened yet.
    ///
    /// # Errors
    ///
    /// As the system says; or if it is a folder, a FIFO or a device.
    pub(super) fn file(self: &Arc<Self>, path: &Path) -> io::Result<Arc<Pooled>> {
        let found = std::fs::metadata(path)?;
        if !found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new_cyclic(|this| Pooled {
            path: path.to_owned(),
            found,
            file: Mutex::default(),
            is_used: AtomicBool::new(false),
            pool: Arc::clone(self),
            this: Weak::clone(this),
        }))
    }

    /// Notes one that was opened, and closes another if there are too many.
    fn enter(&self, opened: &Weak<Pooled>) {
        let mut open = lock(&self.open);
        open.push_back(Weak::clone(opened));
        // After two rounds all are in use: then any.
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

impl Pooled {
    /// Refuses another file than was found, or one that was changed.
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
        // Asked before it is opened: opening a FIFO waits for its writer.
        self.check(&std::fs::metadata(&self.path)?)?;
        let opened = Arc::new(File::open(&self.path)?);
        self.check(&opened.metadata()?)?;
        *file = Some(Arc::clone(&opened));
        // Who closes files locks this one under the pool's lock.
        drop(file);
        self.pool.enter(&self.this);
        Ok(opened)
    }
}

impl ReadAt for Pooled {
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
        let pool = Pool::new(3);
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
        let pool = Pool::new(1);
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
