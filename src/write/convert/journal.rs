//! How far a conversion has come: a line of JSON for each unit that is whole, beside the destination.
//!
//! ```text
//! DST.fuseloop-convert.json      locked while its writer lives
//! {"fuseloop":"convert","version":2,"source":"<fingerprint>","options":"<words>"}
//! {"crc":"<8 hex digits>","unit":{"first":0,"end":1000,"samples":998,"files":1,"bytes":123,"skipped":2,
//!  "damaged":[[17,"why"],..],"reencoded":[["png","raw",false,12],..]}}   on one line
//! ...
//! {"done":true}                  all is at its place, only leftovers are to be deleted
//! ```
//!
//! A line is written, and synced, when its unit is durable. The CRC-32C is that of the unit's JSON. A
//! line that is torn or changed, does not follow the one before, or counts samples that the source does
//! not have ends the list: its unit and those behind it are made again, as the same bytes. The file is
//! deleted when all is done.

use super::{ConvertError, ConvertOptions};
use crate::source::ImageMode;
use crate::write::options::Damaged;
use crate::write::report::{Listed, Reencoded, word};
use crate::write::step::{Step, Watched, Watcher};
use crate::write::target::{TargetError, open_own, sync_dir};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".fuseloop-convert.json";

const VERSION: u64 = 2;

/// What a conversion must have in common with the one that it goes on with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Print {
    pub(super) source: String,
    pub(super) options: String,
    /// Samples of the source.
    pub(super) samples: u64,
}

/// A shard, a part or some files that are whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// Samples of the source: from here
    pub(super) first: u64,
    /// to here.
    pub(super) end: u64,
    /// Those of them that were written.
    pub(super) samples: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) skipped_count: u64,
    /// The first of those left out, and why.
    pub(super) skipped: Vec<(u64, String)>,
    /// Images that are not as they were, by kind.
    pub(super) reencoded: Vec<Reencoded>,
}

impl Unit {
    /// Notes samples that are left out.
    pub(super) fn skip(&mut self, left_out: &Listed<(u64, String)>) {
        self.skipped_count = left_out.count;
        self.skipped.clone_from(&left_out.first);
    }

    fn to_line(&self) -> String {
        let Self { first, end, samples, files, bytes, skipped_count, skipped, reencoded } = self;
        let image = |one: &Reencoded| (word(one.from), word(one.to), one.is_lossy, one.images);
        let reencoded: Vec<_> = reencoded.iter().map(image).collect();
        let unit = json!({
            "first": first, "end": end, "samples": samples, "files": files, "bytes": bytes,
            "skipped": skipped_count, "damaged": skipped, "reencoded": reencoded,
        });
        format!("{}\n", json!({"crc": crc(&unit), "unit": unit}))
    }

    /// The unit of a line; `None` of one that is not as it was written.
    fn of_line(line: &Value) -> Option<Self> {
        let unit = line.get("unit")?;
        Self::of(unit).filter(|_| line["crc"] == crc(unit))
    }

    /// Whether all its samples are of a source of so many, behind the first `first`.
    fn follows(&self, first: u64, samples: u64) -> bool {
        let dealt_with = self.samples.checked_add(self.skipped_count);
        self.first == first
            && self.end <= samples
            && dealt_with.is_some_and(|count| Some(count) == self.end.checked_sub(first))
    }

    fn of(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_u64();
        let pair = |pair: &Value| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_str()?.to_owned()));
        let skipped = value.get("damaged")?.as_array()?.iter().map(pair).collect::<Option<_>>()?;
        let reencoded = value.get("reencoded")?.as_array()?.iter();
        let reencoded = reencoded.map(reencoded_of).collect::<Option<_>>()?;
        Some(Self {
            first: number("first")?,
            end: number("end")?,
            samples: number("samples")?,
            files: number("files")?,
            bytes: number("bytes")?,
            skipped_count: number("skipped")?,
            skipped,
            reencoded,
        })
    }
}

/// An entry of `reencoded`.
fn reencoded_of(entry: &Value) -> Option<Reencoded> {
    let mode = |place: usize| {
        let all = [ImageMode::Jpeg, ImageMode::Raw, ImageMode::Png];
        all.into_iter().find(|&mode| entry[place] == word(mode))
    };
    let (from, to) = (mode(0)?, mode(1)?);
    Some(Reencoded { from, to, is_lossy: entry[2].as_bool()?, images: entry[3].as_u64()? })
}

/// What a line says of its unit to be believed.
fn crc(unit: &Value) -> String {
    format!("{:08x}", crc32c::crc32c(unit.to_string().as_bytes()))
}

/// The notes of a conversion.
pub(super) struct Journal<'a> {
    path: PathBuf,
    file: File,
    watch: Watcher<'a>,
    units: Vec<Unit>,
    /// Bytes of the file up to the first unit's line, and behind each.
    ends: Vec<u64>,
    is_new: bool,
    is_done: bool,
}

impl<'a> Journal<'a> {
    /// The notes beside `dst`. Of new ones there is an empty file, until they [begin](Self::begin): who is
    /// killed before that has not looked yet whether something lies at the destination.
    ///
    /// # Errors
    ///
    /// If the system refuses, another process is at it, or they are of another conversion.
    pub(super) fn open(
        dst: &Path,
        print: &Print,
        options: &ConvertOptions,
        watch: Watcher<'a>,
    ) -> Result<Self, ConvertError> {
        let path = path(dst);
        let mut file = open_locked(dst, &path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(ConvertError::io("read it", &path))?;
        let mut journal =
            Self { path, file, watch, units: vec![], ends: vec![0], is_new: true, is_done: false };
        if let Some(is_readable) = journal.take_header(&text, print) {
            match is_readable.and_then(|()| journal.take_units(&text, print, options.damaged)) {
                Ok(()) => journal.is_new = false,
                // Asked to replace what is there: the notes of something else among it.
                Err(_) if options.overwrite => {
                    journal.units.clear();
                    journal.is_done = false;
                }
                Err(reason) => return Err(ConvertError::Journal { path: journal.path, reason }),
            }
        }
        Ok(journal)
    }

    /// Whether nothing was noted before.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether only leftovers are to be deleted.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// What is whole.
    pub(super) fn units(&self) -> &[Unit] {
        &self.units
    }

    /// The first sample that is not in a whole unit.
    pub(super) fn end(&self) -> u64 {
        self.units.last().map_or(0, |unit| unit.end)
    }

    /// Bytes of what is whole.
    pub(super) fn bytes(&self) -> u64 {
        self.units.iter().map(|unit| unit.bytes).sum()
    }

    /// Believes only the units that are found whole, up to the first that is not.
    pub(super) fn check(
        &mut self,
        is_whole: impl Fn(usize, &Unit) -> bool,
    ) -> Result<(), ConvertError> {
        let found = self.units.iter().enumerate().take_while(|(at, unit)| is_whole(*at, unit));
        let found = found.count();
        if found == self.units.len() {
            return Ok(());
        }
        self.is_done = false;
        self.units.truncate(found);
        self.ends.truncate(found + 1);
        self.cut()
    }

    /// Notes a unit that is whole and durable.
    pub(super) fn add(&mut self, unit: Unit) -> Result<(), ConvertError> {
        self.write(&unit.to_line())?;
        self.units.push(unit);
        Ok(())
    }

    /// Notes that all is at its place.
    pub(super) fn done(&mut self) -> Result<(), ConvertError> {
        if self.is_done {
            return Ok(());
        }
        self.is_done = true;
        self.write("{\"done\":true}\n")
    }

    /// Deletes the notes: there is nothing to go on with.
    pub(super) fn remove(self) -> Result<(), ConvertError> {
        fs::remove_file(&self.path).map_err(ConvertError::io("delete it", &self.path))
    }

    /// Deletes the notes after an error, which is the one to be told.
    pub(super) fn forget(self) {
        let _ = self.remove();
    }

    /// Reads the first line. `None` if there is none: nothing was begun.
    fn take_header(&mut self, text: &[u8], print: &Print) -> Option<Result<(), String>> {
        let end = text.iter().position(|&byte| byte == b'\n')?;
        self.ends = vec![end as u64 + 1];
        let header: Value = serde_json::from_slice(&text[..end]).unwrap_or_default();
        let is_ours = header["fuseloop"] == "convert" && header["version"] == VERSION;
        let differs = |name: &str, now: &str| header[name] != now;
        Some(if !is_ours {
            Err("these are not the notes of a conversion by this version".to_owned())
        } else if differs("source", &print.source) {
            Err("a conversion of another source was stopped here, or the source has changed"
                .to_owned())
        } else if differs("options", &print.options) {
            let before = header["options"].as_str().unwrap_or_default();
            let before = crate::source::Escaped(before);
            Err(format!("a conversion with other options was stopped here: {before}"))
        } else {
            Ok(())
        })
    }

    /// Reads the other lines, up to one that is not believed.
    fn take_units(&mut self, text: &[u8], print: &Print, damaged: Damaged) -> Result<(), String> {
        let mut at = self.ends[0] as usize;
        while let Some(len) = text[at..].iter().position(|&byte| byte == b'\n') {
            let Ok(line) = serde_json::from_slice::<Value>(&text[at..at + len]) else { break };
            if line["done"] == true {
                self.is_done = self.end() == print.samples;
                break;
            }
            let follows = |unit: &Unit| unit.follows(self.end(), print.samples);
            let Some(unit) = Unit::of_line(&line).filter(follows) else { break };
            if damaged == Damaged::Fail && unit.skipped_count > 0 {
                return Err("damaged samples were left out in what is written so far".to_owned());
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

    /// Writes the first line of new notes: from here on what lies at the destination is ours.
    ///
    /// # Errors
    ///
    /// As the system says; the notes are deleted then.
    pub(super) fn begin(&mut self, print: &Print) -> Result<(), ConvertError> {
        self.ends = vec![0];
        self.cut()?;
        let Print { source, options, .. } = print;
        let header = json!({"fuseloop": "convert", "version": VERSION, "source": source, "options": options});
        let outcome = self.write(&format!("{header}\n")).and_then(|()| {
            let dir = folder_of(&self.path);
            (self.watch)(Step::SyncDir)
                .and_then(|()| sync_dir(dir))
                .map_err(ConvertError::io("sync", dir))
        });
        if outcome.is_err() {
            let _ = fs::remove_file(&self.path); // the error is the one to be told
        } else {
            self.ends = vec![self.ends[1]];
        }
        outcome
    }

    /// Cuts off what is behind the last line that is believed.
    fn cut(&mut self) -> Result<(), ConvertError> {
        let end = self.ends.last().copied().unwrap_or(0);
        self.file
            .set_len(end)
            .and_then(|()| self.file.seek(SeekFrom::Start(end)))
            .map(|_| ())
            .map_err(ConvertError::io("cut it", &self.path))
    }

    fn write(&mut self, line: &str) -> Result<(), ConvertError> {
        let at = self.ends.last().copied().unwrap_or(0);
        Watched::behind(&self.file, at, &self.watch)
            .write_all(line.as_bytes())
            .map_err(ConvertError::write(&self.path))?;
        (self.watch)(Step::Sync)
            .and_then(|()| self.file.sync_all())
            .map_err(ConvertError::io("sync", &self.path))?;
        self.ends.push(at + line.len() as u64);
        Ok(())
    }
}

/// Where the notes of a conversion lie.
fn path(dst: &Path) -> PathBuf {
    let mut name = OsString::from(dst);
    name.push(SUFFIX);
    name.into()
}

/// The folder that a path lies in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a folder and those above it, as far as they are missing, and makes their names durable.
pub(super) fn make_dirs(dir: &Path) -> Result<(), ConvertError> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            // Another process has made it between these lines.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(ConvertError::io("create the folder", dir))?,
        }
        let above = folder_of(dir);
        sync_dir(above).map_err(ConvertError::io("sync", above))?;
    }
    Ok(())
}

/// The notes, open, and nobody else's.
fn open_locked(dst: &Path, path: &Path) -> Result<File, ConvertError> {
    let busy = || TargetError::Busy { path: dst.to_owned(), partial: path.to_owned() };
    let file = open_own(path)
        .map_err(ConvertError::io("write its notes", path))?
        .ok_or_else(|| TargetError::NotAFile { path: path.to_owned() })?;
    match file.try_lock() {
        // Its owner has finished between these lines, and deleted it.
        Ok(()) if !path.exists() => Err(busy().into()),
        Err(TryLockError::WouldBlock) => Err(busy().into()),
        // Where the file system has no locks, two of one place are not told apart.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Deletes a file or a folder with all in it, if it is there.
pub(super) fn delete(path: &Path) -> Result<(), ConvertError> {
    let outcome = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ConvertError::io("delete it", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(first: u64, end: u64) -> Unit {
        Unit { first, end, samples: end - first, files: 1, bytes: 7, ..Unit::default() }
    }

    #[test]
    fn a_line_comes_back_unless_a_byte_of_it_is_another() {
        let skipped = vec![(17, "it is \"torn\"\n".to_owned())];
        let (from, to) = (ImageMode::Png, ImageMode::Raw);
        let reencoded = vec![Reencoded { from, to, is_lossy: false, images: 3 }];
        let unit = Unit { skipped_count: 1, samples: 9, skipped, reencoded, ..unit(10, 20) };
        let line = unit.to_line();
        let read = |line: &str| Unit::of_line(&serde_json::from_str(line).ok()?);
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
        assert!(!Unit { samples: 9, ..unit(10, 20) }.follows(10, 20), "one is lost");
        assert!(!Unit { skipped_count: u64::MAX, ..unit(10, 20) }.follows(10, 20));
        assert!(!Unit { end: 9, ..unit(10, 20) }.follows(10, 20));
    }
}
