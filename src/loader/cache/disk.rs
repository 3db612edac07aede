//! The file of a cache on disk: pieces are appended, and read back by position.
//!
//! The file has no name where the system supports that, otherwise a random name that is removed at once.
//! No other process can open it by accident, and it is deleted with its last handle, however the process
//! ends.
//!
//! Every piece is verified by its checksum: if the file was truncated, overwritten or damaged by its
//! disk, this is detected before a pixel is used. Any change within one 8-byte word is always detected;
//! other changes are missed with probability 2^-64.

use crate::source::check_destination;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// See the top of the module.
pub(super) struct CacheFile {
    file: File,
    /// The offset of the next piece.
    end: AtomicU64,
    /// True if no more pieces are written.
    is_full: AtomicBool,
    /// True if no more pieces are read.
    is_closed: AtomicBool,
    failures: AtomicU64,
    /// The first failure.
    trouble: Mutex<Option<String>>,
}

/// The position and the checksum of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileExtent {
    start: u64,
    len: usize,
    checksum: u64,
}

impl CacheFile {
    /// Creates an empty file in `folder`.
    ///
    /// # Errors
    ///
    /// The system's error, or if `folder` is an address or not a folder.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        check_destination(folder)?;
        if !folder.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder"));
        }
        Ok(Self::of(tempfile::tempfile_in(folder)?))
    }

    pub(super) fn of(file: File) -> Self {
        Self {
            file,
            end: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            trouble: Mutex::new(None),
        }
    }

    /// Returns true if pieces can't be read any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a piece. Returns `None` on failure, and from then on always, without another try.
    pub(super) fn write(&self, bytes: &[u8]) -> Option<FileExtent> {
        if self.is_full.load(Ordering::Relaxed) {
            return None;
        }
        let len = bytes.len();
        let start = self.end.fetch_add(len as u64, Ordering::Relaxed);
        match write_all_at(&self.file, bytes, start) {
            Ok(()) => Some(FileExtent { start, len, checksum: checksum(bytes) }),
            Err(error) => {
                self.is_full.store(true, Ordering::Relaxed);
                self.fail(&format!("writing {len} bytes at {start}: {error}"));
                None
            }
        }
    }

    /// Reads a piece into `buffer`, which grows to the largest piece and never shrinks. Returns `None`
    /// if the piece is not as it was written, and from then on for every piece.
    pub(super) fn read<'a>(
        &self,
        extent: &FileExtent,
        buffer: &'a mut Vec<u8>,
    ) -> Option<&'a [u8]> {
        let FileExtent { start, len, .. } = *extent;
        if self.is_closed() {
            return None;
        }
        if buffer.len() < len {
            buffer.try_reserve_exact(len - buffer.len()).ok()?;
            buffer.resize(len, 0);
        }
        let bytes = &mut buffer[..len];
        let problem = match read_exact_at(&self.file, bytes, start) {
            Err(error) => error.to_string(),
            Ok(()) if checksum(bytes) != extent.checksum => "not what was written".to_owned(),
            Ok(()) => return Some(bytes),
        };
        self.is_closed.store(true, Ordering::Relaxed);
        self.is_full.store(true, Ordering::Relaxed);
        self.fail(&format!("reading {len} bytes at {start}: {problem}"));
        None
    }

    fn fail(&self, message: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.get_or_insert_with(|| message.to_owned());
    }
}

/// The number of independent sums, so that the CPU does not wait for its multiplier.
const LANES: usize = 8;

/// FNV-1a's prime: odd, so that multiplying by it loses nothing.
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a by words, in eight interleaved sums that are then combined in the same way.
///
/// A step, `(sum ^ word) * odd`, is injective in the word and in the sum: two inputs of the same length
/// that differ in one word have different sums.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(PRIME).rotate_left(29);
    let mut lanes: [u64; LANES] = std::array::from_fn(|lane| lane as u64 + 1);
    let (groups, rest) = bytes.as_chunks::<{ 8 * LANES }>();
    for group in groups {
        let (words, _) = group.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = step(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, word) in lanes.iter_mut().zip(rest.chunks(8)) {
        let mut whole = [0; 8];
        whole[..word.len()].copy_from_slice(word);
        *lane = step(*lane, u64::from_le_bytes(whole));
    }
    lanes.into_iter().fold(bytes.len() as u64, step)
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, start)
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn write_all_at(file: &File, bytes: &[u8], start: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt as _;
    let mut done = 0;
    while done < bytes.len() {
        match file.seek_write(&bytes[done..], start + done as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(windows)]
fn read_exact_at(file: &File, bytes: &mut [u8], start: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt as _;
    let mut done = 0;
    while done < bytes.len() {
        match file.seek_read(&mut bytes[done..], start + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (tempfile::TempDir, CacheFile) {
        let dir = tempfile::tempdir().unwrap();
        let disk = CacheFile::create(dir.path()).unwrap();
        (dir, disk)
    }

    #[test]
    fn pieces_come_back_as_they_were_written() {
        let (_dir, disk) = disk();
        let pieces: Vec<Vec<u8>> = (0..300).map(|n| vec![n as u8; n]).collect();
        let extents: Vec<FileExtent> =
            pieces.iter().map(|piece| disk.write(piece).unwrap()).collect();
        let mut buffer = vec![];
        for (piece, extent) in pieces.iter().zip(&extents).rev() {
            assert_eq!(disk.read(extent, &mut buffer), Some(&piece[..]));
        }
        assert_eq!((disk.failures(), disk.trouble()), (0, None));
    }

    #[test]
    fn a_file_cut_short_is_read_no_more() {
        let (_dir, disk) = disk();
        let extents = [(); 3].map(|()| disk.write(&[5; 100]).unwrap());
        disk.file.set_len(150).unwrap();
        let mut buffer = vec![];
        assert_eq!(disk.read(&extents[0], &mut buffer), Some(&[5; 100][..]));
        assert_eq!(disk.read(&extents[1], &mut buffer), None);
        assert!(disk.is_closed() && disk.read(&extents[0], &mut buffer).is_none());
        assert!(disk.write(&[1]).is_none());
        assert_eq!(disk.failures(), 1);
        let trouble = disk.trouble().unwrap();
        assert!(trouble.starts_with("reading 100 bytes at 100: "), "{trouble}");
    }

    #[test]
    fn bytes_written_over_are_found_out() {
        let (_dir, disk) = disk();
        let extent = disk.write(&[5; 1000]).unwrap();
        write_all_at(&disk.file, &[4], 700).unwrap();
        assert_eq!(disk.read(&extent, &mut vec![]), None);
        assert_eq!(disk.trouble().unwrap(), "reading 1000 bytes at 0: not what was written");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_ends_storing_but_not_reading() {
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let disk = CacheFile::of(full);
        assert!(disk.write(&[1; 10]).is_none() && disk.write(&[1; 10]).is_none());
        assert_eq!((disk.failures(), disk.is_closed()), (1, false));
        let trouble = disk.trouble().unwrap();
        assert!(trouble.starts_with("writing 10 bytes at 0: No space left"), "{trouble}");
    }

    #[test]
    fn a_change_of_any_byte_changes_the_checksum() {
        for len in [1, 7, 8, 63, 64, 65, 200] {
            let bytes: Vec<u8> = (0..len).map(|n: u32| n as u8).collect();
            let sum = checksum(&bytes);
            for offset in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[offset] ^= 1 << (offset % 8);
                assert_ne!(checksum(&changed), sum, "byte {offset} of {len}");
            }
            assert_ne!(checksum(&bytes[1..]), sum);
            assert_ne!(checksum(&[&bytes[..], &[0]].concat()), sum, "one zero more");
        }
    }

    #[test]
    fn the_file_has_no_name() {
        let (dir, disk) = disk();
        disk.write(&[1; 10]).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_is_none_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let message = |path: &Path| CacheFile::create(path).err().unwrap().to_string();
        assert_eq!(message(file.path()), "not a folder");
        assert!(message(&file.path().with_extension("gone")).contains("No such file"));
    }
}
