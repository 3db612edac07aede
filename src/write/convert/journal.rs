//! The journal of a conversion: a line of JSON for each complete chunk, in a file beside the
//! destination.
//!
//! ```text
//! DST.fuseloop-convert.json      locked while its writer is alive
//! {"fuseloop":"convert","version":6,"source":"<fingerprint>","options":{"<setting>":"<value>"}}
//! {"crc":"<8 hex digits>","unit":{"first":0,"end":1000,"samples":998,"files":1,"bytes":123,"pages":0,
//!  "skipped":2,"damaged":[[17,"why"],..],"reencoded":[["png","raw",false,12,0],..],"jpegs":[900,80,7000,7100,6],
//!  "bytes_reencoded":[9000,9900],"checkpoint":[8388608,2000,77]}}   on one line
//! ...
//! {"done":true}                  all files are in place, only leftovers remain to be deleted
//! ```
//!
//! A line is written and synced when its chunk is durable. The CRC-32C is that of the chunk's JSON. The
//! journal ends at the first line that is torn or changed, does not follow the line before, or counts
//! samples that the source does not have: this chunk and those behind it are written again, as the same
//! bytes. The file is deleted when the conversion is finished.

use super::WriteOptions;
use crate::error::{Error, fail};
use crate::sample::SampleId;
use crate::source::{Escaped, FORMATS, ImageMode};
use crate::write::atomic_file::{busy, not_a_file, open_own, sync_dir};
use crate::write::error::{io_error, write_error};
use crate::write::options::OnUnreadable;
use crate::write::report::{
    CountedList, ImageCounts, Reencoded, SizeChange, SkippedSample, WriteReport,
};
use crate::write::step::{FileStep, ObservedFile, StepFile, StepObserver};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".fuseloop-convert.json";

const VERSION: u64 = 6;

/// The identity of a conversion: a journal can be resumed only with the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConversionId {
    pub(super) source: String,
    /// The settings that decide what is written, by name.
    pub(super) options: BTreeMap<String, String>,
    /// The samples of the source that are converted.
    pub(super) samples: Range<u64>,
}

/// A complete shard, group of samples of a `.beton`, or group of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OutputChunk {
    /// The first sample of the source in the chunk.
    pub(super) first: u64,
    /// The end of the samples in the chunk.
    pub(super) end: u64,
    /// The number of these samples that were written.
    pub(super) samples: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// The number of pages of finished `.beton` files.
    pub(super) pages: u64,
    /// The samples that were left out, and the reasons.
    pub(super) skipped: CountedList<(u64, String)>,
    /// How images were stored. Of JPEGs that could not be re-cut, the journal has only the number.
    pub(super) images: ImageCounts,
    /// The state of an unfinished `.beton` behind the chunk.
    pub(super) checkpoint: Option<ChunkCheckpoint>,
}

/// The state that continues an unfinished `.beton` behind a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkCheckpoint {
    /// The size of a page.
    pub(super) page_size: u32,
    /// The number of values in pages, of this and all earlier chunks.
    pub(super) allocations: u64,
    /// The CRC-32C of the chunk's rows and allocations.
    pub(super) crc: u32,
}

impl OutputChunk {
    /// Returns consecutive chunks as one, without a checkpoint.
    pub(super) fn joined<'a>(chunks: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut chunks = chunks.into_iter();
        let mut all = Self { checkpoint: None, ..chunks.next().cloned().unwrap_or_default() };
        for chunk in chunks {
            all.end = chunk.end;
            all.samples += chunk.samples;
            all.files += chunk.files;
            all.bytes += chunk.bytes;
            all.pages += chunk.pages;
            all.skipped.extend(&chunk.skipped);
            all.images.add(&chunk.images);
        }
        all
    }

    /// Returns the report of the chunk's samples.
    pub(super) fn report(self) -> WriteReport {
        let entry = |(sample, cause)| SkippedSample { sample: SampleId(sample), path: None, cause };
        let CountedList { count, first } = self.skipped;
        let skipped = CountedList { count, first: first.into_iter().map(entry).collect() };
        let Self { files, pages, bytes, .. } = self;
        WriteReport { files, pages, bytes, ..WriteReport::of(self.samples, skipped, self.images) }
    }

    fn to_line(&self) -> String {
        let Self { first, end, samples, files, bytes, pages, skipped, images, .. } = self;
        let state = |at: ChunkCheckpoint| (at.page_size, at.allocations, at.crc);
        let checkpoint = self.checkpoint.map(state);
        let image = |one: &Reencoded| {
            (one.from.name(), one.to.name(), one.is_lossy, one.images, one.lost_orientations)
        };
        let reencoded: Vec<_> = images.reencoded.iter().map(image).collect();
        let ImageCounts { passed_through, reencoded_bytes, recut, recut_bytes, unchanged, .. } =
            images;
        let SizeChange { before, after } = recut_bytes;
        let unit = json!({
            "first": first, "end": end, "samples": samples, "files": files, "bytes": bytes,
            "pages": pages, "skipped": skipped.count, "damaged": skipped.first, "reencoded": reencoded,
            "jpegs": [*passed_through, *recut, *before, *after, unchanged.count],
            "bytes_reencoded": [reencoded_bytes.before, reencoded_bytes.after],
            "checkpoint": checkpoint,
        });
        format!("{}\n", json!({"crc": crc(&unit), "unit": unit}))
    }

    /// Parses the chunk of a line; returns `None` if the line is not as it was written.
    fn of_line(line: &Value) -> Option<Self> {
        let unit = line.get("unit")?;
        Self::of(unit).filter(|_| line["crc"] == crc(unit))
    }

    /// Returns true if the chunk begins at sample `first`, accounts for all of its range, and ends
    /// within a source of `samples` samples.
    fn follows(&self, first: u64, samples: u64) -> bool {
        let dealt_with = self.samples.checked_add(self.skipped.count);
        self.first == first
            && self.end <= samples
            && dealt_with.is_some_and(|count| Some(count) == self.end.checked_sub(first))
    }

    fn of(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_u64();
        let pair = |pair: &Value| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_str()?.to_owned()));
        let first = value.get("damaged")?.as_array()?.iter().map(pair).collect::<Option<_>>()?;
        let reencoded = value.get("reencoded")?.as_array()?.iter();
        let reencoded = reencoded.map(reencoded_of).collect::<Option<_>>()?;
        let jpegs = |index: usize| value.get("jpegs")?.get(index)?.as_u64();
        let reencoded_bytes = |index: usize| value.get("bytes_reencoded")?.get(index)?.as_u64();
        Some(Self {
            first: number("first")?,
            end: number("end")?,
            samples: number("samples")?,
            files: number("files")?,
            bytes: number("bytes")?,
            pages: number("pages")?,
            skipped: CountedList { count: number("skipped")?, first },
            images: ImageCounts {
                passed_through: jpegs(0)?,
                reencoded,
                reencoded_bytes: SizeChange {
                    before: reencoded_bytes(0)?,
                    after: reencoded_bytes(1)?,
                },
                recut: jpegs(1)?,
                recut_bytes: SizeChange { before: jpegs(2)?, after: jpegs(3)? },
                unchanged: CountedList { count: jpegs(4)?, first: vec![] },
            },
            checkpoint: match value.get("checkpoint")? {
                Value::Null => None,
                state => Some(checkpoint_of(state)?),
            },
        })
    }
}

/// Parses a checkpoint.
fn checkpoint_of(state: &Value) -> Option<ChunkCheckpoint> {
    let number = |index: usize| state.get(index)?.as_u64();
    let small = |index| u32::try_from(number(index)?).ok();
    Some(ChunkCheckpoint { page_size: small(0)?, allocations: number(1)?, crc: small(2)? })
}

/// Parses an entry of `reencoded`.
fn reencoded_of(entry: &Value) -> Option<Reencoded> {
    let mode = |index: usize| {
        let others = [ImageMode::Raw, ImageMode::BitPlanes].into_iter();
        let mut all = FORMATS.iter().map(|format| format.mode).chain(others);
        all.find(|mode| entry[index] == mode.name())
    };
    let (from, to) = (mode(0)?, mode(1)?);
    let (is_lossy, images) = (entry[2].as_bool()?, entry[3].as_u64()?);
    let lost_orientations = entry[4].as_u64()?;
    Some(Reencoded { from, to, is_lossy, images, lost_orientations })
}

/// Returns the checksum of a chunk as its line states it.
fn crc(unit: &Value) -> String {
    format!("{:08x}", crc32c::crc32c(unit.to_string().as_bytes()))
}

/// The journal of a conversion.
pub(super) struct Journal<'a> {
    path: PathBuf,
    file: File,
    watch: StepObserver<'a>,
    /// The first sample that is converted.
    first: u64,
    units: Vec<OutputChunk>,
    /// The offset of the first chunk's line, and the end of each chunk's line.
    ends: Vec<u64>,
    is_new: bool,
    is_done: bool,
}

/// The word for a setting that has no value.
pub(super) const UNSET: &str = "unset";

/// Returns the settings that have other values than in the journal, with both values.
fn changed(before: &Value, now: &BTreeMap<String, String>) -> Vec<String> {
    let names = before.as_object().into_iter().flat_map(|all| all.keys());
    let names: BTreeSet<&String> = names.chain(now.keys()).collect();
    let changes = names.into_iter().filter_map(|name| {
        let was = before[name.as_str()].as_str().unwrap_or(UNSET);
        let is = now.get(name).map_or(UNSET, String::as_str);
        (was != is)
            .then(|| format!("`{}` was {} and is {}", Escaped(name), Escaped(was), Escaped(is)))
    });
    changes.collect()
}

impl<'a> Journal<'a> {
    /// Opens the journal beside `dst`. A new journal is an empty file until [`begin`](Self::begin): a
    /// process killed before that has not yet checked whether something is at the destination.
    ///
    /// # Errors
    ///
    /// If a system call fails, another process has locked the journal, or it belongs to another
    /// conversion.
    pub(super) fn open(
        dst: &Path,
        print: &ConversionId,
        options: &WriteOptions,
        watch: StepObserver<'a>,
    ) -> Result<Self, Error> {
        let path = path(dst);
        let mut file = open_locked(dst, &path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(io_error("read it", &path))?;
        let first = print.samples.start;
        let (units, ends) = (vec![], vec![0]);
        let mut journal =
            Self { path, file, watch, first, units, ends, is_new: true, is_done: false };
        if let Some(is_readable) = journal.take_header(&text, print) {
            match is_readable.and_then(|()| journal.take_units(&text, print, options.on_damaged)) {
                Ok(()) => journal.is_new = false,
                // Overwriting is allowed, and this includes the journal of another conversion.
                Err(_) if options.overwrite => {
                    journal.units.clear();
                    journal.is_done = false;
                }
                Err(reason) => {
                    let path = journal.path;
                    return Err(fail!(Format, "{path:?}: {reason}").named_path(path).help(
                        "rerun that conversion to resume it, or start over with `--overwrite`",
                    ));
                }
            }
        }
        Ok(journal)
    }

    /// Returns the path of the journal itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if nothing was recorded before.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns true if only leftovers remain to be deleted.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Returns the complete chunks.
    pub(super) fn chunks(&self) -> &[OutputChunk] {
        &self.units
    }

    /// Returns the first sample that is not in a complete chunk.
    pub(super) fn end(&self) -> u64 {
        self.units.last().map_or(self.first, |unit| unit.end)
    }

    /// Returns the size of the complete chunks in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.units.iter().map(|unit| unit.bytes).sum()
    }

    /// Returns the report of all chunks, of which earlier attempts had processed the samples before `resumed`.
    pub(super) fn report(&self, resumed: u64) -> WriteReport {
        let resumed = resumed - self.first;
        WriteReport { resumed, ..OutputChunk::joined(&self.units).report() }
    }

    /// Drops the first chunk that is not complete and all behind it.
    pub(super) fn check(
        &mut self,
        is_whole: impl Fn(usize, &OutputChunk) -> bool,
    ) -> Result<(), Error> {
        let found = self.units.iter().enumerate().take_while(|(at, unit)| is_whole(*at, unit));
        let found = found.count();
        if found == self.units.len() {
            return Ok(());
        }
        self.is_done = false;
        self.units.truncate(found);
        self.ends.truncate(found + 1);
        self.cut()?;
        self.sync()
    }

    /// Records a chunk that is complete and durable.
    pub(super) fn add(&mut self, unit: OutputChunk) -> Result<(), Error> {
        self.write(&unit.to_line())?;
        self.units.push(unit);
        Ok(())
    }

    /// Records that all files are in place.
    pub(super) fn done(&mut self) -> Result<(), Error> {
        if self.is_done {
            return Ok(());
        }
        self.is_done = true;
        self.write("{\"done\":true}\n")
    }

    /// Deletes the journal.
    pub(super) fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(io_error("delete it", &self.path))
    }

    /// Deletes the journal after an error. The earlier error is the one to report, so errors here are
    /// ignored.
    pub(super) fn forget(self) {
        let _ = self.remove();
    }

    /// Reads the first line. Returns `None` if there is none, because the conversion had not begun.
    fn take_header(&mut self, text: &[u8], print: &ConversionId) -> Option<Result<(), String>> {
        let end = text.iter().position(|&byte| byte == b'\n')?;
        self.ends = vec![end as u64 + 1];
        let header: Value = serde_json::from_slice(&text[..end]).unwrap_or_default();
        let is_ours = header["fuseloop"] == "convert" && header["version"] == VERSION;
        let changed = changed(&header["options"], &print.options);
        Some(if !is_ours {
            Err("not a conversion journal of this version".to_owned())
        } else if header["source"] != print.source.as_str() {
            Err("an interrupted conversion has another source, or the source has changed"
                .to_owned())
        } else if !changed.is_empty() {
            Err(format!("an interrupted conversion has other options: {}", changed.join(", ")))
        } else {
            Ok(())
        })
    }

    /// Reads the other lines, up to the first invalid one.
    fn take_units(
        &mut self,
        text: &[u8],
        print: &ConversionId,
        on_damaged: OnUnreadable,
    ) -> Result<(), String> {
        let mut at = self.ends[0] as usize;
        while let Some(len) = text[at..].iter().position(|&byte| byte == b'\n') {
            let Ok(line) = serde_json::from_slice::<Value>(&text[at..at + len]) else { break };
            if line["done"] == true {
                self.is_done = self.end() == print.samples.end;
                break;
            }
            let follows = |unit: &OutputChunk| unit.follows(self.end(), print.samples.end);
            let Some(unit) = OutputChunk::of_line(&line).filter(follows) else { break };
            if on_damaged == OnUnreadable::Fail && unit.skipped.count > 0 {
                return Err("the interrupted conversion skipped damaged samples: resume it with `on_damaged` set to skip".to_owned());
            }
            self.units.push(unit);
            at += len + 1;
            self.ends.push(at as u64);
        }
        let stands = if self.is_done { text.len() } else { at };
        self.file.seek(SeekFrom::Start(stands as u64)).map(|_| ()).map_err(|e| e.to_string())?;
        let is_torn = stands < text.len();
        if is_torn { self.cut().map_err(|error| error.to_string()) } else { Ok(()) }
    }

    /// Writes the first line of a new journal: from here on the files at the destination belong to this
    /// conversion.
    ///
    /// # Errors
    ///
    /// If a system call fails; the journal is deleted then.
    pub(super) fn begin(&mut self, print: &ConversionId) -> Result<(), Error> {
        self.ends = vec![0];
        self.cut()?;
        let ConversionId { source, options, .. } = print;
        let header = json!({"fuseloop": "convert", "version": VERSION, "source": source, "options": options});
        let outcome = self.write(&format!("{header}\n")).and_then(|()| {
            let dir = folder_of(&self.path);
            (self.watch)(FileStep::SyncDir)
                .and_then(|()| sync_dir(dir))
                .map_err(io_error("sync", dir))
        });
        if outcome.is_err() {
            let _ = fs::remove_file(&self.path); // the first error is the one to report
        } else {
            self.ends = vec![self.ends[1]];
        }
        outcome
    }

    /// Truncates the file behind the last valid line.
    fn cut(&mut self) -> Result<(), Error> {
        let end = self.ends.last().copied().unwrap_or(0);
        (self.watch)(FileStep::Truncate { file: StepFile::Journal, len: end })
            .and_then(|()| self.file.set_len(end))
            .and_then(|()| self.file.seek(SeekFrom::Start(end)))
            .map(|_| ())
            .map_err(io_error("cut it", &self.path))
    }

    fn write(&mut self, line: &str) -> Result<(), Error> {
        let at = self.ends.last().copied().unwrap_or(0);
        ObservedFile::new(&self.file, StepFile::Journal, at, &self.watch)
            .write_all(line.as_bytes())
            .map_err(write_error(&self.path))?;
        self.sync()?;
        self.ends.push(at + line.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        (self.watch)(FileStep::Sync(StepFile::Journal))
            .and_then(|()| self.file.sync_all())
            .map_err(io_error("sync", &self.path))
    }
}

/// Returns the path of a conversion's journal.
fn path(dst: &Path) -> PathBuf {
    let mut name = OsString::from(dst);
    name.push(SUFFIX);
    name.into()
}

/// Returns the folder that contains a path.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a folder and its missing parents, and makes their names durable.
pub(super) fn make_dirs(dir: &Path) -> Result<(), Error> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            // Another process has created it in the meantime.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created.map_err(io_error("create the folder", dir))?,
        }
        let above = folder_of(dir);
        sync_dir(above).map_err(io_error("sync", above))?;
    }
    Ok(())
}

/// Opens and locks the journal.
fn open_locked(dst: &Path, path: &Path) -> Result<File, Error> {
    let busy = || busy(dst, path);
    let file = open_own(path)
        .map_err(io_error("write the journal", path))?
        .ok_or_else(|| not_a_file(path))?;
    match file.try_lock() {
        // The owner has finished in the meantime and deleted the file.
        Ok(()) if !path.exists() => Err(busy()),
        Err(TryLockError::WouldBlock) => Err(busy()),
        // On a file system without locks, a second process is not detected.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Deletes a file, or a folder and its contents, if it exists.
pub(super) fn delete(path: &Path) -> Result<(), Error> {
    let outcome = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("delete it", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(first: u64, end: u64) -> OutputChunk {
        OutputChunk {
            first,
            end,
            samples: end - first,
            files: 1,
            bytes: 7,
            ..OutputChunk::default()
        }
    }

    #[test]
    fn a_line_comes_back_unless_a_byte_of_it_is_another() {
        let first = vec![(17, "it is \"torn\"\n".to_owned())];
        let skipped = CountedList { count: 1, first };
        let (from, to) = (ImageMode::Png, ImageMode::Raw);
        let reencoded =
            vec![Reencoded { from, to, is_lossy: false, images: 3, lost_orientations: 2 }];
        let checkpoint = Some(ChunkCheckpoint { page_size: 4096, allocations: 19, crc: u32::MAX });
        let recut_bytes = SizeChange { before: 70, after: 71 };
        let unchanged = CountedList { count: 3, first: vec![] };
        let reencoded_bytes = SizeChange { before: 90, after: 99 };
        let images = ImageCounts {
            passed_through: 5,
            reencoded,
            reencoded_bytes,
            recut: 4,
            recut_bytes,
            unchanged,
        };
        let unit = OutputChunk { samples: 9, pages: 2, skipped, images, ..unit(10, 20) };
        let unit = OutputChunk { checkpoint, ..unit };
        let line = unit.to_line();
        let read = |line: &str| OutputChunk::of_line(&serde_json::from_str(line).ok()?);
        assert_eq!(read(&line), Some(unit));
        for at in 0..line.len() - 1 {
            let mut other = line.clone().into_bytes();
            other[at] ^= 1;
            let other = String::from_utf8(other).unwrap();
            assert_eq!(read(&other), None, "byte {at}: {other}");
        }
    }

    #[test]
    fn a_unit_has_samples_of_the_source_and_all_of_its_range() {
        assert!(unit(10, 20).follows(10, 20) && unit(0, 0).follows(0, 0));
        assert!(!unit(10, 20).follows(9, 20), "a gap or an overlap");
        assert!(!unit(10, 20).follows(10, 19), "beyond the source");
        assert!(!OutputChunk { samples: 9, ..unit(10, 20) }.follows(10, 20), "one is lost");
        let skipped = CountedList { count: u64::MAX, first: vec![] };
        assert!(!OutputChunk { skipped, ..unit(10, 20) }.follows(10, 20));
        assert!(!OutputChunk { end: 9, ..unit(10, 20) }.follows(10, 20));
    }
}
