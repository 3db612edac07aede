//! A cache of fetched bytes in a folder, for the next epoch and for other processes.
//!
//! ```text
//! folder/3f/3f9a..e1    "FLBLOCK2" | key | SHA-256 of the key and the bytes | bytes
//!        |   └ key: SHA-256 of (address, length, date, ETag) and the block's number: no name is a path
//!        └ 256 folders
//! folder/3f/part-x1y2   being written: renamed when whole; an hour old, it is somebody's who was killed
//! ```
//!
//! | | |
//! |--------|-------------------------------------------------------------------------------------|
//! | block  | 256 KiB of an object; the last block of an object may be shorter                      |
//! | use    | a read sets the file's date; the oldest files are deleted first, until a sixteenth of the limit is free |
//! | limit  | the files are counted again each time a sixteenth of the limit was written, so each of several processes may exceed the limit by that much |
//! | damage | a file that is too short, or has another key or checksum, is deleted and its block fetched again |
//! | kind   | a block is a regular file: a link, a FIFO or a device at its path is not read but replaced |
//! | owner  | the folder and its files belong to the user of this process, and no other user may write to them: otherwise the folder is refused, and a file is replaced |
//! | full disk | the block is not stored; reading continues                                        |
//!
//! Nothing is written outside of the folder, and only files named as above are deleted. Nothing is
//! synced: a file that a power cut left half written fails its checksum. The checksum contains no
//! secret: it detects damage, and a block stored under another block's name. The owner and the mode of
//! the folder keep other users out.

use super::cause::Cause;
use super::fetch::{FetchError, Fetcher};
use crate::source::{BoxError, private};
use ring::digest::{Context, Digest, SHA256, SHA256_OUTPUT_LEN};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

/// The size of a block: two and a half images of 100 KB. A read fetches at most one extra block at each
/// of its ends.
pub(super) const BLOCK: u64 = 256 << 10;

const MAGIC: &[u8; 8] = b"FLBLOCK2";

/// The number of bytes in a file before those of its block.
const HEAD: usize = MAGIC.len() + 32 + 32;

/// A temporary file older than this belongs to a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

const PART: &str = "part-";

/// The cache in one folder.
pub(super) struct DiskCache {
    folder: PathBuf,
    limit: u64,
    state: Mutex<DiskState>,
}

#[derive(Default)]
struct DiskState {
    /// The size of all files when they were last counted, plus the bytes written since.
    total: u64,
    /// The number of bytes written since the files were last counted.
    since: u64,
    /// The size of the files that are being written: a count of the files does not see them yet.
    being_written: u64,
}

/// Space reserved for a file until the file has its final name.
struct ReservedSpace<'disk> {
    disk: &'disk DiskCache,
    size: u64,
}

impl Drop for ReservedSpace<'_> {
    fn drop(&mut self) {
        self.disk.state().being_written -= self.size;
    }
}

/// The object's contribution to the keys of its blocks.
#[derive(Clone)]
pub(super) struct ObjectKey(Context);

impl ObjectKey {
    pub(super) fn new(identity: &str) -> Self {
        let mut hash = Context::new(&SHA256);
        hash.update(identity.as_bytes());
        Self(hash)
    }

    fn block(&self, number: u64) -> [u8; 32] {
        let mut hash = self.0.clone();
        hash.update(&number.to_le_bytes());
        bytes_of(hash.finish())
    }
}

/// Opens the folder that the environment names, if it names one.
///
/// # Errors
///
/// If the folder can't be created, or no size is set.
pub(super) fn of_environment() -> Result<Option<Arc<DiskCache>>, BoxError> {
    static DISK: OnceLock<Result<Option<Arc<DiskCache>>, String>> = OnceLock::new();
    let of_words = || {
        let Some(folder) = std::env::var_os("FUSELOOP_CACHE_DIR").filter(|dir| !dir.is_empty())
        else {
            return Ok(None);
        };
        let limit = std::env::var("FUSELOOP_CACHE_BYTES").unwrap_or_default();
        let limit = limit.parse().map_err(|_| {
            format!("FUSELOOP_CACHE_BYTES is {limit:?}, expected a number of bytes")
        })?;
        let disk = DiskCache::open(Path::new(&folder), limit);
        let disk = disk.map_err(|error| format!("FUSELOOP_CACHE_DIR {folder:?}: {error}"))?;
        Ok(Some(Arc::new(disk)))
    };
    DISK.get_or_init(of_words).clone().map_err(Into::into)
}

impl DiskCache {
    /// Opens the cache in `folder`.
    ///
    /// # Errors
    ///
    /// If the folder can't be created or listed, or if another user owns it or may write to it.
    pub(super) fn open(folder: &Path, limit: u64) -> io::Result<Self> {
        private::create_folder(folder)?;
        private::check_folder(folder)?;
        let folder = folder.canonicalize()?;
        let disk = Self { folder, limit, state: Mutex::default() };
        let total = disk.shrink_to(limit)?;
        disk.state().total = total;
        Ok(disk)
    }

    /// Reads a range of an object: from the folder, or by a request for blocks that are not there.
    pub(super) async fn get(
        self: &Arc<Self>,
        fetcher: &Fetcher,
        key: &ObjectKey,
        range: Range<u64>,
    ) -> Result<Vec<u8>, FetchError> {
        if range.is_empty() {
            return Ok(vec![]);
        }
        let size = fetcher.version().len;
        let first = range.start / BLOCK;
        let numbers = first..range.end.div_ceil(BLOCK);
        let found = {
            let (disk, key) = (Arc::clone(self), key.clone());
            let load = move || numbers.map(|number| disk.load(&key, number, size)).collect();
            let found: Vec<_> = elsewhere(load).await.map_err(|e| fetcher.failed(&range, &e))?;
            found
        };
        let mut all = vec![];
        let memory = all.try_reserve_exact((range.end - range.start) as usize);
        memory.map_err(|_| fetcher.failed(&range, &Cause::no_memory()))?;
        let mut number = first;
        for run in found.chunk_by(|a, b| a.is_none() && b.is_none()) {
            let next = number + run.len() as u64;
            let bytes = number * BLOCK..(next * BLOCK).min(size);
            let wanted = range.start.max(bytes.start)..range.end.min(bytes.end);
            let part = (wanted.start - bytes.start) as usize..(wanted.end - bytes.start) as usize;
            if let [Some(block)] = run {
                all.extend_from_slice(&block[part]);
            } else {
                let fetched = fetcher.get(bytes).await?;
                all.extend_from_slice(&fetched[part]);
                let (disk, key) = (Arc::clone(self), key.clone());
                let saved = elsewhere(move || disk.save_all(&key, number, &fetched)).await;
                saved.map_err(|e| fetcher.failed(&range, &e))?;
            }
            number = next;
        }
        Ok(all)
    }

    /// Reads a block, if its file is complete.
    fn load(&self, key: &ObjectKey, number: u64, size: u64) -> Option<Vec<u8>> {
        let key = key.block(number);
        let len = (size - number * BLOCK).min(BLOCK) as usize;
        let path = self.path(&key);
        // Anything else at this path is replaced when the block is saved.
        let mut file = private::open_file(&path).ok()?;
        let mut bytes = Vec::with_capacity(HEAD + len + 1);
        let read = (&mut file).take((HEAD + len + 1) as u64).read_to_end(&mut bytes);
        if read.is_err() || bytes.len() != HEAD + len || bytes[..HEAD] != head(&key, &bytes[HEAD..])
        {
            // The file is written again after the block is fetched.
            let _ = fs::remove_file(&path);
            return None;
        }
        // If the date can't be set, the file is deleted earlier.
        let _ = file.set_modified(SystemTime::now());
        bytes.drain(..HEAD);
        Some(bytes)
    }

    /// Stores blocks while there is space. A block that is not stored is fetched again later.
    fn save_all(&self, key: &ObjectKey, first: u64, bytes: &[u8]) {
        for (number, block) in (first..).zip(bytes.chunks(BLOCK as usize)) {
            if self.save(&key.block(number), block).is_err() {
                return;
            }
        }
    }

    fn save(&self, key: &[u8; 32], block: &[u8]) -> io::Result<()> {
        let size = (HEAD + block.len()) as u64;
        let _room = self.make_room(size)?;
        let path = self.path(key);
        let folder = path.parent().unwrap_or(&self.folder);
        private::create_folder(folder)?;
        let mut file = tempfile::Builder::new().prefix(PART).tempfile_in(folder)?;
        file.write_all(&head(key, block))?;
        file.write_all(block)?;
        file.persist(&path)?;
        Ok(())
    }

    /// Reserves `size` bytes that are about to be written.
    fn make_room(&self, size: u64) -> io::Result<ReservedSpace<'_>> {
        let mut books = self.state();
        if books.total + size > self.limit || books.since + size > self.limit / 16 {
            let most = self.limit.saturating_sub(size + books.being_written);
            books.total = self.shrink_to(most)? + books.being_written;
            books.since = 0;
        }
        if books.total + size > self.limit {
            return Err(io::ErrorKind::StorageFull.into());
        }
        books.total += size;
        books.since += size;
        books.being_written += size;
        Ok(ReservedSpace { disk: self, size })
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes the least recently used files if there are more than `most` bytes, until only fifteen
    /// sixteenths of `most` are left. Returns the number of bytes left.
    fn shrink_to(&self, most: u64) -> io::Result<u64> {
        let mut files = self.files()?;
        let mut total = files.iter().map(|file| file.len).sum();
        if total <= most {
            return Ok(total);
        }
        files.sort_by_key(|file| file.used);
        for file in files {
            if total <= most - most / 16 {
                break;
            }
            match fs::remove_file(file.path) {
                Ok(()) => total -= file.len,
                // Another process has deleted it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => total -= file.len,
                Err(_) => {}
            }
        }
        Ok(total)
    }

    /// Returns all files of the cache; deletes temporary files that killed processes left.
    fn files(&self) -> io::Result<Vec<CachedFile>> {
        let mut files = vec![];
        for folder in fs::read_dir(&self.folder)?.flatten() {
            let is_ours = is_hex(&folder.file_name(), 2)
                && folder.file_type().is_ok_and(|kind| kind.is_dir());
            let Some(inside) = is_ours.then(|| fs::read_dir(folder.path()).ok()).flatten() else {
                continue;
            };
            files.extend(inside.flatten().filter_map(|entry| CachedFile::of(&entry)));
        }
        Ok(files)
    }

    fn path(&self, key: &[u8; 32]) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(&name[..2]).join(name)
    }
}

/// A file in the folder.
struct CachedFile {
    used: SystemTime,
    len: u64,
    path: PathBuf,
}

impl CachedFile {
    /// `None` if the file does not belong to the cache, or was left by a killed process and is deleted.
    fn of(entry: &fs::DirEntry) -> Option<Self> {
        let name = entry.file_name();
        let is_part = name.to_str().is_some_and(|name| name.starts_with(PART));
        let data = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let used = data.modified().ok()?;
        if is_part && used.elapsed().is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
            return None;
        }
        // A file that is being written is counted in `being_written` of its own process and must not be
        // deleted.
        is_hex(&name, 64).then(|| Self { used, len: data.len(), path: entry.path() })
    }
}

fn bytes_of(digest: Digest) -> [u8; SHA256_OUTPUT_LEN] {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

fn is_hex(name: &OsStr, len: usize) -> bool {
    let digits = name.as_encoded_bytes();
    digits.len() == len && digits.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
}

fn head(key: &[u8; 32], block: &[u8]) -> [u8; HEAD] {
    let mut hash = Context::new(&SHA256);
    hash.update(key);
    hash.update(block);
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..40].copy_from_slice(key);
    head[40..].copy_from_slice(hash.finish().as_ref());
    head
}

/// Runs file operations on another thread, so that they do not delay requests.
async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Cause> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Cause::lasting(io::ErrorKind::Other, format!("its cache: {error}")))
}
