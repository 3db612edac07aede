//! A cache of fetched bytes in a folder, for the next epoch and for other processes.
//!
//! ```text
//! folder/3f/3f9a..e1    "FLBLOCK2" | key | SHA-256 of the key and the bytes | bytes
//!        |   └ key: SHA-256 of (address, length, date, ETag) and the block's number: no name is a path
//!        └ 256 folders
//! folder/3f/part-x1y2   being written: renamed when whole; an hour old, it is somebody's who was killed
//! folder/3f/claim-3f9a..e1   being fetched, by the process that it names: [`claims`](super::claims)
//! ```
//!
//! | | |
//! |--------|-------------------------------------------------------------------------------------|
//! | block  | 256 KiB of an object; the last block of an object may be shorter                      |
//! | fetch  | of all processes that use the folder, one fetches a block, and the others wait until it is there, its process has ended, or a minute has passed without a block |
//! | use    | a read sets the file's date; the oldest files are deleted first, until a sixteenth of the limit is free |
//! | limit  | the files are counted again each time a sixteenth of the limit was written by all processes together, so the limit may be exceeded by that much |
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
use super::claims::{self, CLAIM, Claim, Claimed, Owner};
use super::fetch::{FetchError, Fetcher};
use crate::source::private;
use ring::digest::{Context, Digest, SHA256, SHA256_OUTPUT_LEN};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};

/// The size of a block: two and a half images of 100 KB. A read fetches at most one extra block at each
/// of its ends.
pub(super) const BLOCK: u64 = 256 << 10;

const MAGIC: &[u8; 8] = b"FLBLOCK2";

/// The number of bytes in a file before those of its block.
const HEAD: usize = MAGIC.len() + 32 + 32;

/// A temporary file older than this belongs to a process that was killed.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);

const PART: &str = "part-";

/// The first pause of a process that waits for blocks of another, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The number of bytes read from caches, and of blocks that others fetched while a read waited for them.
pub(super) static CACHED_BYTES: AtomicU64 = AtomicU64::new(0);
pub(super) static AWAITED_BLOCKS: AtomicU64 = AtomicU64::new(0);

/// The cache in one folder.
pub(super) struct DiskCache {
    folder: PathBuf,
    limit: u64,
    state: Mutex<DiskState>,
    /// The owner of this process's claims, from the first block on that is fetched.
    owner: OnceLock<Option<Owner>>,
}

#[derive(Default)]
struct DiskState {
    /// The size of all files when they were last counted, plus the bytes written since.
    total: u64,
    /// The number of bytes written since the files were last counted.
    since: u64,
    /// The size of the files that are being written: a count of the files does not see them yet.
    being_written: u64,
    /// The number of processes that write to the folder, and the bytes written since the files were counted when these
    /// processes were.
    sharers: u64,
    sharers_at: u64,
}

/// A block that a read needs.
enum Needed {
    Here(Vec<u8>),
    /// The caller fetches it, under this claim if claims are possible.
    Mine(Option<Claim>),
    /// Another process, or another thread, fetches it.
    Taken,
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
        let disk = Self { folder, limit, state: Mutex::default(), owner: OnceLock::new() };
        let total = disk.shrink_to(limit)?;
        disk.state().total = total;
        Ok(disk)
    }

    /// Reads a range of an object: from the folder, or by a request for blocks that are not there. Blocks that another
    /// process fetches are waited for.
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
        let (mut all, len) = (vec![], (range.end - range.start) as usize);
        let memory = all.try_reserve_exact(len);
        memory.map_err(|_| fetcher.failed(&range, &Cause::no_memory()))?;
        all.resize(len, 0);
        let mut missing: Vec<u64> = (range.start / BLOCK..range.end.div_ceil(BLOCK)).collect();
        let (mut waits_since, mut pause) = (Instant::now(), PAUSES.0);
        let mut is_waiting = false;
        loop {
            // A process that makes no progress, although it is alive, is not waited for any longer.
            let may_wait = waits_since.elapsed() < fetcher.patience();
            let (disk, key_, numbers) = (Arc::clone(self), key.clone(), missing);
            let find = move || disk.find(&key_, &numbers, size, may_wait);
            let found = elsewhere(find).await.map_err(|e| fetcher.failed(&range, &e))?;
            let before = found.len();
            missing = self.take(fetcher, key, found, &range, &mut all, is_waiting).await?;
            if missing.is_empty() {
                return Ok(all);
            }
            if missing.len() < before {
                (waits_since, pause) = (Instant::now(), PAUSES.0);
            }
            is_waiting = true;
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Copies the blocks that are here, and fetches those that the caller claimed, neighbours in one request. Returns the
    /// numbers of the others.
    async fn take(
        self: &Arc<Self>,
        fetcher: &Fetcher,
        key: &ObjectKey,
        found: Vec<(u64, Needed)>,
        range: &Range<u64>,
        all: &mut [u8],
        is_waiting: bool,
    ) -> Result<Vec<u64>, FetchError> {
        let size = fetcher.version().len;
        let mut copy = |bytes: &[u8], start: u64| {
            let wanted = range.start.max(start)..range.end.min(start + bytes.len() as u64);
            let len = (wanted.end - wanted.start) as usize;
            let (from, to) =
                ((wanted.start - start) as usize, (wanted.start - range.start) as usize);
            all[to..to + len].copy_from_slice(&bytes[from..from + len]);
            len as u64
        };
        let (mut taken, mut runs) = (vec![], Vec::<(Range<u64>, Vec<Claim>)>::new());
        for (number, needed) in found {
            match needed {
                Needed::Taken => taken.push(number),
                Needed::Here(block) => {
                    CACHED_BYTES.fetch_add(copy(&block, number * BLOCK), Ordering::Relaxed);
                    AWAITED_BLOCKS.fetch_add(u64::from(is_waiting), Ordering::Relaxed);
                }
                Needed::Mine(claim) => match runs.last_mut() {
                    Some((run, claims)) if run.end == number => {
                        run.end += 1;
                        claims.extend(claim);
                    }
                    _ => runs.push((number..number + 1, claim.into_iter().collect())),
                },
            }
        }
        for (run, claims) in runs {
            let bytes = run.start * BLOCK..(run.end * BLOCK).min(size);
            let fetched = fetcher.get(bytes).await?;
            copy(&fetched, run.start * BLOCK);
            let (disk, key) = (Arc::clone(self), key.clone());
            let save = move || {
                disk.save_all(&key, run.start, &fetched);
                drop(claims);
            };
            elsewhere(save).await.map_err(|e| fetcher.failed(range, &e))?;
        }
        Ok(taken)
    }

    /// Reads the blocks that are here, and claims the others.
    fn find(
        &self,
        key: &ObjectKey,
        numbers: &[u64],
        size: u64,
        may_wait: bool,
    ) -> Vec<(u64, Needed)> {
        let find = |number| match self.load(key, number, size) {
            Some(block) => Needed::Here(block),
            None => self.claim(key, number, size, may_wait),
        };
        numbers.iter().map(|&number| (number, find(number))).collect()
    }

    fn claim(&self, key: &ObjectKey, number: u64, size: u64, may_wait: bool) -> Needed {
        let path = self.path(&key.block(number));
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Needed::Mine(None);
        };
        let Some(owner) = self.owner.get_or_init(|| Owner::new(&self.folder)) else {
            return Needed::Mine(None);
        };
        // A folder that can't be created is the cause of a claim that is not possible.
        let _ = private::create_folder(folder);
        match owner.claim(folder, &name.to_string_lossy()) {
            Claimed::Taken if may_wait => Needed::Taken,
            Claimed::Taken => Needed::Mine(None),
            // Its last owner may have stored the block after this caller looked for it.
            Claimed::Mine(claim) => match self.load(key, number, size) {
                Some(block) => Needed::Here(block),
                None => Needed::Mine(claim),
            },
        }
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
        if books.sharers == 0 || books.since > books.sharers_at + self.limit / 256 {
            (books.sharers, books.sharers_at) = (Owner::count(&self.folder), books.since);
        }
        let share = self.limit / 16 / books.sharers;
        if books.total + size > self.limit || books.since + size > share {
            let most = self.limit.saturating_sub(size + books.being_written);
            books.total = self.shrink_to(most)? + books.being_written;
            (books.since, books.sharers_at) = (0, 0);
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
        files.sort_unstable_by_key(|file| file.used);
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
        let begins = |with| name.to_str().is_some_and(|name| name.starts_with(with));
        let is_part = begins(PART);
        if begins(CLAIM) && claims::is_old(&entry.path()) {
            let _ = fs::remove_file(entry.path());
            return None;
        }
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
