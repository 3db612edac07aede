//! A log of the fingerprints of all batches of a run: one JSON object a line.
//!
//! ```json
//! {"fuseloop_log":1,"dataset":"9c1f...","order":"03ab...","order_name":"random of all 50000 samples","plan":"77e0...","ops":[["1f2e","output image"],["77aa","op 0 of output image, D4"]],"clips":"","seed":42,"batch_size":64,"rank":0,"world_size":8}
//! {"epoch":0,"batch":0,"position":0,"rank":0,"fingerprint":"5d0c3a8e1b7f2469","ids":[17,3,40]}
//! {"epoch":0,"batch":1,"position":512,"rank":0,"fingerprint":"b1d29c64e0a7f358","ids":[9,22,5]}
//! ```
//!
//! | line | name | meaning |
//! |---|---|---|
//! | header | `fuseloop_log` | the version of the format, 1 |
//! | | `dataset` `order` `plan` `clips` `seed` | those of the [cursor](super::Cursor) |
//! | | `order_name` | the order and its samples, in words |
//! | | `ops` | a short fingerprint of each output and op of the plan, and its name |
//! | | `batch_size` | the number of rows of a batch, on one rank |
//! | | `rank` `world_size` | the rank that wrote the log, and the number of ranks |
//! | batch | `epoch` `batch` | the epoch, and the index of the batch in it |
//! | | `position` | the number of rows of the epoch before this batch, over all ranks: that of a cursor |
//! | | `rank` | that of the header |
//! | | `fingerprint` | the [fingerprint](fuseloop_engine::batch::HostBatch::fingerprint): 16 hexadecimal digits |
//! | | `ids` | the samples of the rows, if the log has them |
//!
//! A header stands before the first line of a batch, and again wherever what it says changes: a resumed run appends
//! its own, and lists that change with the epoch have another plan. A line is written by one call of the system, when the
//! batch is delivered. Batches that a resumed run delivers again have another line.
//!
//! [`diff`] compares two logs.

pub(crate) mod diff;

use super::cursor::{Cursor, PlanPrint};
use crate::batch::Batch;
use crate::error::{Error, fail};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The version of the format.
const VERSION: u64 = 1;

/// The first bytes of every log.
const BEGIN: &[u8] = b"{\"fuseloop_log\":";

/// The maximum number of bytes of a line.
const MAX_LINE: usize = 8 << 20;

/// The maximum number of ids of a line: each has at most 20 digits and a comma.
const MAX_IDS: usize = 1 << 18;

/// A file that gets a line for each batch that a loader delivers: see
/// [`Loader::log_fingerprints`](super::Loader::log_fingerprints).
///
/// `fuseloop diff A.jsonl B.jsonl` names the first batch in which two logs differ, and the cause. Each rank writes a file
/// of its own. A line has about 100 bytes without the ids of its samples.
///
/// ```
/// use fuseloop::loader::FingerprintLog;
/// use fuseloop::prelude::*;
///
/// # let dir = tempfile::tempdir().unwrap();
/// # std::fs::create_dir(dir.path().join("cat")).unwrap();
/// # let jpeg = jpeg_encoder::Encoder::new_file(dir.path().join("cat/0.jpg"), 90).unwrap();
/// # jpeg.encode(&[200; 40 * 30 * 3], 40, 30, jpeg_encoder::ColorType::Rgb).unwrap();
/// # let (photos, log) = (dir.path(), dir.path().join("run.jsonl"));
/// let loader = Loader::open(photos)?.pipeline("image", ops![CenterCrop::new(24)?]).build()?;
/// loader.log_fingerprints(FingerprintLog::open(&log)?.with_ids());
/// for batch in loader.epoch(0)? {
///     let batch = batch?;
///     // Train.
/// }
/// let lines = std::fs::read_to_string(&log)?;
/// assert!(lines.lines().last().unwrap().ends_with("\"ids\":[0]}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FingerprintLog {
    path: PathBuf,
    file: File,
    has_ids: bool,
    /// The order of the loader, in words.
    order: String,
    /// The contents of the last header.
    header: Option<(Cursor, [u64; 3])>,
}

impl FingerprintLog {
    /// Opens a log, to append to it; creates the file if there is none. A last line that was not written to its end, as by a
    /// machine that lost its power, is removed.
    ///
    /// # Errors
    ///
    /// If the file can't be opened, or is something other than a log.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let of_system = |error: io::Error| Error::from(error).at(path);
        let mut file = opened.map_err(of_system)?;
        if !is_log(&mut file).map_err(of_system)? {
            return Err(fail!(
                Format,
                "not a log of fingerprints, so nothing is appended to it: choose another path"
            )
            .at(path));
        }
        remove_unfinished_line(&mut file).map_err(of_system)?;
        Ok(Self { path: path.to_owned(), file, has_ids: false, order: String::new(), header: None })
    }

    /// Writes the samples of each batch too, by which `fuseloop diff` names the first that differs. A batch may then have
    /// at most 262,144 rows.
    #[must_use]
    pub fn with_ids(self) -> Self {
        Self { has_ids: true, ..self }
    }

    /// Sets the order of the loader, in words.
    pub(super) fn of_order(self, order: String) -> Self {
        Self { order, ..self }
    }

    /// Appends the line of a batch, after a header if what that says has changed.
    fn write(&mut self, batch: &Batch, position: u64, run: &LoggedRun<'_>) -> Result<(), Error> {
        let mut text = String::new();
        // The epoch is that of the lines.
        let header = (Cursor { epoch: 0, ..*run.begin }, run.ranked);
        if self.header != Some(header) {
            run.write_header(&mut text, &self.order);
        }
        let (epoch, index, rank) = (batch.epoch().0, batch.index(), run.ranked[1]);
        let _ = write!(
            text,
            "{{\"epoch\":{epoch},\"batch\":{index},\"position\":{position},\"rank\":{rank},\"fingerprint\":\"{:016x}\"",
            batch.fingerprint()
        );
        if self.has_ids {
            let rows = batch.len();
            if rows > MAX_IDS {
                return Err(fail!(
                    Parameter,
                    "a batch of {rows} rows: a log has the ids of at most {MAX_IDS}; log without ids"
                )
                .at(&self.path));
            }
            let ids = batch.ids().iter().map(|id| id.0.to_string()).collect::<Vec<_>>();
            let _ = write!(text, ",\"ids\":[{}]", ids.join(","));
        }
        text.push_str("}\n");
        self.file.write_all(text.as_bytes()).map_err(|error| Error::from(error).at(&self.path))?;
        self.header = Some(header);
        Ok(())
    }
}

/// Returns true if a file begins as a log does, or is empty or cut within that.
fn is_log(file: &mut File) -> io::Result<bool> {
    let mut begin = vec![];
    file.rewind()?;
    file.take(BEGIN.len() as u64).read_to_end(&mut begin)?;
    Ok(BEGIN.starts_with(&begin))
}

/// Cuts what follows the last line feed, if a line can be that long.
fn remove_unfinished_line(file: &mut File) -> io::Result<()> {
    let len = file.seek(SeekFrom::End(0))?;
    let start = len.saturating_sub(MAX_LINE as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = vec![];
    (&mut *file).take(len - start).read_to_end(&mut tail)?;
    match tail.iter().rposition(|&byte| byte == b'\n') {
        Some(last) if last + 1 == tail.len() => Ok(()),
        Some(last) => file.set_len(start + last as u64 + 1),
        None if start == 0 => file.set_len(0),
        None => Ok(()),
    }
}

/// The run of a batch, as a header describes it.
pub(super) struct LoggedRun<'a> {
    /// The cursor of the beginning of its epoch.
    pub(super) begin: &'a Cursor,
    pub(super) ops: &'a [PlanPrint],
    /// The batch size, the rank and the number of ranks.
    pub(super) ranked: [u64; 3],
}

impl LoggedRun<'_> {
    fn write_header(&self, text: &mut String, name: &str) {
        let Cursor { dataset, order, plan, seed, .. } = self.begin;
        let [batch_size, rank, world_size] = self.ranked;
        let ops: Vec<_> = self.ops.iter().map(PlanPrint::to_json).collect();
        let (clips, name) = (self.begin.clips.text(), serde_json::json!(name));
        let _ = writeln!(
            text,
            "{{\"fuseloop_log\":{VERSION},\"dataset\":\"{dataset:016x}\",\"order\":\"{order:016x}\",\
             \"order_name\":{name},\"plan\":\"{plan:016x}\",\"ops\":[{}],\"clips\":\"{clips}\",\"seed\":{seed},\
             \"batch_size\":{batch_size},\"rank\":{rank},\"world_size\":{world_size}}}",
            ops.join(",")
        );
    }
}

/// The log of a loader, if it has one.
#[derive(Debug, Default)]
pub(super) struct LogSlot(Mutex<Option<FingerprintLog>>);

impl LogSlot {
    pub(super) fn set(&self, log: Option<FingerprintLog>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = log;
    }

    /// Writes the line of a batch, before which its epoch has `position` rows.
    pub(super) fn write(
        &self,
        batch: &Batch,
        position: u64,
        run: &LoggedRun<'_>,
    ) -> Result<(), Error> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.as_mut().map_or(Ok(()), |log| log.write(batch, position, run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_log_is_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "{\"fuseloop\":1}\n").unwrap();
        let refused = FingerprintLog::open(&path).unwrap_err().to_string();
        assert!(refused.contains("not a log of fingerprints"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"{\"fuseloop\":1}\n");
        assert!(FingerprintLog::open(dir.path()).is_err());
    }

    #[test]
    fn a_line_that_was_cut_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for (found, left) in [
            ("", ""),
            ("{\"fuseloop_log\":1}\n", "{\"fuseloop_log\":1}\n"),
            ("{\"fuseloop_log\":1}\n{\"epo", "{\"fuseloop_log\":1}\n"),
            ("{\"fuseloop_log\":1,\"data", ""),
            ("{\"fusel", ""),
        ] {
            fs::write(&path, found).unwrap();
            FingerprintLog::open(&path).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), left, "{found}");
        }
    }
}
