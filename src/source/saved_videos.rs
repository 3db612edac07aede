//! The indexes of the video files of a folder in one file next to it, so that no container has to be read again.
//!
//! All numbers are little-endian; a text is its length (4 B) and its bytes.
//!
//! | field   | size | meaning                                                                                    |
//! |---------|-----:|--------------------------------------------------------------------------------------------|
//! | magic   |   16 | `fuseloop video 1`; with another number, the videos are read                               |
//! | table   |    8 | the bytes from here to the end of the check                                                |
//! | count   |    8 | how many videos follow, in the order of their paths                                        |
//! | videos  |      | each its path in the folder (text), the length of its file (8), when it was changed, in nanoseconds since 1970 (8), and the bytes of its index (4) |
//! | check   |    4 | CRC-32C of the table before it                                                             |
//! | indexes |      | one after another, each with a check of its own                                            |
//!
//! The index of a video holds as long as its file has the length and the time of change that the table says. A file that was
//! changed in the two seconds before its index was read is left out: clocks of file systems are coarse, and another change
//! must show. Whatever does not hold, or is damaged, is read from the video file.

use super::atomic_file;
use super::names::bytes_of;
use super::{Escaped, Source};
use crate::amounts::counted;
use crate::cancel::CancelFlag;
use crate::error::{AtPath as _, Error, fail};
use crate::parallel;
use crate::sample::{Limits, SampleId};
use crate::warnings::warn;
use fuseloop_video::{Packet, ReadExactAt as _, VideoIndex, VideoLimits};
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MAGIC: &[u8; 16] = b"fuseloop video 1";

/// The time within which a change of a file may not show in its time.
const COARSE: Duration = Duration::from_secs(2);

/// The folders above a video next to which indexes are looked for.
const FOLDERS: usize = 5;

/// The videos that are read at once when their indexes are saved.
const AT_ONCE: usize = 256;

/// Returns the path where the indexes of a folder's videos are looked for: beside the folder, as `FOLDER.videos.fidx`.
pub(crate) fn saved_video_indexes(folder: &Path) -> PathBuf {
    let mut path = folder.components().collect::<PathBuf>().into_os_string();
    path.push(".videos.fidx");
    path.into()
}

/// The saved indexes next to the folders of videos, which are opened when they are first needed.
pub(super) struct SavedVideos {
    folders: Mutex<HashMap<PathBuf, Option<Arc<SavedFile>>>>,
    limits: VideoLimits,
}

/// A file of saved indexes.
struct SavedFile {
    file: File,
    /// In the order of their paths.
    videos: Vec<Entry>,
}

/// The place of a saved index.
struct Entry {
    path: Box<[u8]>,
    identity: Identity,
    offset: u64,
    size: u32,
}

/// The numbers that tell a file from another one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    len: u64,
    modified: i64,
}

impl Identity {
    fn of(found: &Metadata) -> Option<Self> {
        let since = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Self { len: found.len(), modified: since.as_nanos().try_into().ok()? })
    }
}

impl SavedVideos {
    pub(super) fn new(limits: VideoLimits) -> Self {
        Self { folders: Mutex::default(), limits }
    }

    /// Returns the saved index of a video file, if there is one that holds.
    pub(super) fn index(&self, path: &Path) -> Option<VideoIndex> {
        let mut found = None;
        for folder in path.ancestors().skip(1).take(FOLDERS) {
            if folder.file_name().is_none() {
                break;
            }
            if let Some(saved) = self.folder(folder) {
                let name = bytes_of(path.strip_prefix(folder).ok()?.as_os_str());
                let identity =
                    *found.get_or_insert_with(|| Identity::of(&fs::metadata(path).ok()?));
                let place = saved.videos.binary_search_by(|entry| (*entry.path).cmp(name));
                if let Some(entry) = place.ok().map(|place| &saved.videos[place])
                    && identity == Some(entry.identity)
                {
                    return saved.read(entry, &self.limits);
                }
            }
        }
        None
    }

    /// Returns the indexes next to a folder.
    fn folder(&self, folder: &Path) -> Option<Arc<SavedFile>> {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(folder) {
            return known.clone();
        }
        let path = saved_video_indexes(folder);
        let opened = SavedFile::open(&path, &self.limits).unwrap_or_else(|error| {
            warn(format_args!(
                "{error}; the indexes are read from the videos: save them again (`fuseloop index`), or delete the file"
            ));
            None
        });
        let opened = opened.map(Arc::new);
        folders.insert(folder.to_owned(), opened.clone());
        opened
    }
}

impl SavedFile {
    /// Opens a file of indexes; `None` if there is none, or if it has another version.
    fn open(path: &Path, limits: &VideoLimits) -> Result<Option<Self>, Error> {
        let file = match fs::metadata(path) {
            Ok(found) if found.is_file() => File::open(path).at(path)?,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).at(path),
        };
        let damaged = || fail!(Format, "the saved indexes of videos are damaged").at(path);
        let len = file.byte_len().at(path)?;
        let mut head = [0; 24];
        if len < head.len() as u64 {
            return Err(damaged());
        }
        file.read_exact_at(0, &mut head).at(path)?;
        let (magic, table) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            let is_other = magic.starts_with(b"fuseloop video ");
            return if is_other { Ok(None) } else { Err(damaged()) };
        }
        let table = u64::from_le_bytes(table.try_into().map_err(|_| damaged())?);
        let start = head.len() as u64;
        let indexes = start.checked_add(table).filter(|end| *end <= len).ok_or_else(damaged)?;
        if table > limits.max_table_bytes {
            let max = limits.max_table_bytes;
            return Err(fail!(Format, "a table of {table} bytes: the limit is {max}").at(path));
        }
        let mut bytes = vec![];
        if bytes.try_reserve_exact(table as usize).is_err() {
            return Err(fail!(Memory, "no memory for a table of {table} bytes").out_of_memory());
        }
        bytes.resize(table as usize, 0);
        file.read_exact_at(start, &mut bytes).at(path)?;
        let (bytes, check) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if crc32c::crc32c(bytes) != u32::from_le_bytes(*check) {
            return Err(damaged());
        }
        let videos = parse(bytes, indexes, len).ok_or_else(damaged)?;
        Ok(Some(Self { file, videos }))
    }

    /// Reads an index; `None` if it is damaged.
    fn read(&self, entry: &Entry, limits: &VideoLimits) -> Option<VideoIndex> {
        let mut bytes = vec![];
        bytes.try_reserve_exact(entry.size as usize).ok()?;
        bytes.resize(entry.size as usize, 0);
        self.file.read_exact_at(entry.offset, &mut bytes).ok()?;
        VideoIndex::from_bytes(&bytes, entry.identity.len, limits).ok()
    }
}

/// Writes a table with its checksum, and indexes, to a file at `path`, and reads them: for fuzz targets. Returns whether the
/// file is one of indexes.
///
/// # Errors
///
/// If the file can't be written, or is refused.
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
pub(crate) fn read_saved_videos(
    (table, indexes): (&[u8], &[u8]),
    path: &Path,
) -> Result<bool, Error> {
    let size = (table.len() as u64 + 4).to_le_bytes();
    let check = crc32c::crc32c(table).to_le_bytes();
    fs::write(path, [&MAGIC[..], &size, table, &check, indexes].concat()).at(path)?;
    let limits = VideoLimits::SMALL;
    let Some(saved) = SavedFile::open(path, &limits)? else { return Ok(false) };
    for entry in &saved.videos {
        let _ = saved.read(entry, &limits);
    }
    Ok(true)
}

/// Parses a table, whose indexes lie from `offset` to `len`.
fn parse(mut rest: &[u8], mut offset: u64, len: u64) -> Option<Vec<Entry>> {
    let rest = &mut rest;
    let count = u64::from_le_bytes(take(rest)?);
    let mut videos: Vec<Entry> = vec![];
    for _ in 0..count {
        let bytes = u32::from_le_bytes(take(rest)?) as usize;
        let (path, others) = rest.split_at_checked(bytes)?;
        *rest = others;
        let identity = Identity {
            len: u64::from_le_bytes(take(rest)?),
            modified: i64::from_le_bytes(take(rest)?),
        };
        let size = u32::from_le_bytes(take(rest)?);
        if videos.last().is_some_and(|last| *last.path >= *path) {
            return None;
        }
        videos.push(Entry { path: path.into(), identity, offset, size });
        offset = offset.checked_add(size.into()).filter(|end| *end <= len)?;
    }
    rest.is_empty().then_some(videos)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

/// Returns the limits on video files.
pub(super) fn video_limits(limits: &Limits) -> VideoLimits {
    let tables = limits.max_table_bytes.min(VideoLimits::DEFAULT.max_table_bytes);
    VideoLimits {
        max_packets: VideoLimits::DEFAULT.max_packets.min(tables / size_of::<Packet>() as u64),
        max_pixels: limits.max_pixels,
        max_packet_bytes: limits.max_sample_bytes,
        max_table_bytes: tables,
    }
}

/// A report on the indexes of a folder of video files that were saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SavedVideosReport {
    /// The number of videos whose indexes were saved.
    pub videos: u64,
    /// The number of files that can't be read as videos.
    pub unreadable: u64,
    /// The number of files that were changed just now.
    pub changing: u64,
    /// The size of the file of indexes in bytes.
    pub bytes: u64,
}

/// Saves the indexes of the video files of a folder, field `field` of `files`, next to it. `progress` is called with the
/// number of files that were read, and that of all.
///
/// # Errors
///
/// If the file can't be written, the system starts no threads, or `cancel` is set.
pub fn save_video_indexes(
    (files, field): (&dyn Source, usize),
    folder: &Path,
    limits: &Limits,
    cancel: &CancelFlag,
    progress: &dyn Fn(u64, u64),
) -> Result<SavedVideosReport, Error> {
    let limits = video_limits(limits);
    let latest = |begun: SystemTime| {
        let since = begun.checked_sub(COARSE)?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_nanos()).ok()
    };
    let read = |sample: &u64| {
        let path = files.stored()?.value_file(SampleId(*sample), field)?;
        let name = path.strip_prefix(folder).ok()?.as_os_str().to_owned();
        let begun = SystemTime::now();
        let identity = Identity::of(&fs::metadata(&path).ok()?)?;
        let is_settled = latest(begun).is_some_and(|latest| identity.modified < latest);
        let file = File::open(&path).ok()?;
        let index = VideoIndex::read(&file, &limits).ok()?;
        let is_same = Identity::of(&file.metadata().ok()?) == Some(identity);
        Some((name, identity, (is_settled && is_same).then(|| index.to_bytes(identity.len))))
    };
    let all: Vec<u64> = (0..files.len()).collect();
    let (mut found, mut report) = (vec![], SavedVideosReport::default());
    for some in all.chunks(AT_ONCE) {
        if cancel.is_cancelled() {
            return Err(fail!(Cancelled, "the index was cancelled"));
        }
        for one in parallel::map(some, read)? {
            match one {
                None => report.unreadable += 1,
                Some((.., None)) => report.changing += 1,
                Some((name, identity, Some(index))) => found.push((name, identity, index)),
            }
        }
        progress(some.last().map_or(0, |last| last + 1), files.len());
    }
    found.sort_by(|a, b| bytes_of(&a.0).cmp(bytes_of(&b.0)));
    found.dedup_by(|a, b| a.0 == b.0);
    let mut table = (found.len() as u64).to_le_bytes().to_vec();
    for (name, identity, index) in &found {
        let name = bytes_of(name);
        table.extend((name.len() as u32).to_le_bytes());
        table.extend(name);
        table.extend(identity.len.to_le_bytes());
        table.extend(identity.modified.to_le_bytes());
        let size = u32::try_from(index.len());
        let size = size.map_err(|_| fail!(Memory, "the index of a video of more than 4 GiB"))?;
        table.extend(size.to_le_bytes());
    }
    table.extend(crc32c::crc32c(&table).to_le_bytes());
    let mut bytes = MAGIC.to_vec();
    bytes.extend((table.len() as u64).to_le_bytes());
    bytes.extend(table);
    found.iter().for_each(|(.., index)| bytes.extend(index));
    let path = saved_video_indexes(folder);
    atomic_file::write(&path, &bytes).at(&path)?;
    (report.videos, report.bytes) = (found.len() as u64, bytes.len() as u64);
    if report.changing > 0 {
        warn(format_args!(
            "{}: no index is saved of {}, changed just now: save them again in some seconds",
            Escaped(&folder.display().to_string()),
            counted(report.changing, "video file")
        ));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Folder, FolderOptions};

    /// Returns a folder of videos that were changed an hour ago.
    fn videos(root: &Path) -> PathBuf {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("video/tests/golden/frames");
        let folder = root.join("clips");
        for (class, name) in [("a", "high.mp4"), ("a", "motion_jpeg.avi"), ("b", "main.mp4")] {
            fs::create_dir_all(folder.join(class)).unwrap();
            let path = folder.join(class).join(name);
            fs::copy(golden.join(name), &path).unwrap();
            age(&path);
        }
        folder
    }

    fn age(path: &Path) {
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }

    fn save(folder: &Path) -> SavedVideosReport {
        let files = Folder::open(folder, &FolderOptions::default()).unwrap();
        let cancel = CancelFlag::default();
        save_video_indexes((&files, 0), folder, &Limits::DEFAULT, &cancel, &|_, _| ()).unwrap()
    }

    fn saved() -> SavedVideos {
        SavedVideos::new(VideoLimits::DEFAULT)
    }

    #[test]
    fn saved_indexes_are_those_of_the_files_until_a_file_changes() {
        let root = tempfile::tempdir().unwrap();
        let folder = videos(root.path());
        let report = save(&folder);
        assert_eq!((report.videos, report.unreadable, report.changing), (3, 0, 0));
        let length = fs::metadata(saved_video_indexes(&folder)).unwrap().len();
        assert_eq!(report.bytes, length);
        for name in ["a/high.mp4", "a/motion_jpeg.avi", "b/main.mp4"] {
            let path = folder.join(name);
            let file = File::open(&path).unwrap();
            let read = VideoIndex::read(&file, &VideoLimits::DEFAULT).unwrap();
            assert_eq!(saved().index(&path), Some(read), "{name}");
        }
        assert_eq!(saved().index(&folder.join("a/none.mp4")), None);
        // Other bytes of the same length, at another time.
        let path = folder.join("a/high.mp4");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(saved().index(&path), None);
        // One that was changed just now is left out, and one that is no video.
        fs::write(folder.join("a/motion_jpeg.avi"), b"no video").unwrap();
        let report = save(&folder);
        assert_eq!((report.videos, report.unreadable, report.changing), (1, 1, 1));
        age(&path);
        assert_eq!(save(&folder).videos, 2);
        assert!(saved().index(&path).is_some());
        // Another length at the same time.
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        age(&path);
        assert_eq!(saved().index(&path), None);
    }

    #[test]
    fn damaged_indexes_are_read_from_the_videos() {
        let root = tempfile::tempdir().unwrap();
        let folder = videos(root.path());
        save(&folder);
        let path = saved_video_indexes(&folder);
        let bytes = fs::read(&path).unwrap();
        let video = folder.join("b/main.mp4");
        assert!(saved().index(&video).is_some());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            fs::write(&path, changed).unwrap();
            let file = File::open(&video).unwrap();
            let read = VideoIndex::read(&file, &VideoLimits::DEFAULT).unwrap();
            let found = crate::warnings::recorded(|| saved().index(&video)).0;
            assert!(found.is_none_or(|found| found == read), "byte {at}");
        }
        for length in [0, 10, 24, 60, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).unwrap();
            let (found, warnings) = crate::warnings::recorded(|| saved().index(&video));
            assert!(found.is_none() || length == bytes.len() - 1, "{length}");
            assert!(warnings.len() <= 1 && (length > 60 || warnings.len() == 1), "{warnings:?}");
        }
    }
}
