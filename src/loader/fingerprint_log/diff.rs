//! The first batch in which two logs of fingerprints differ, and why.
//!
//! Both files are read side by side, a line of at most 8 MiB at a time, so that logs may be of any length. The batches
//! of a log come in the order of (epoch, batch). A resumed run repeats batches that its log already has: their lines are
//! compared with those before them. Where one log begins later, as that of a resumed run, the batches that only the
//! other has before it are left out.

use super::super::cursor::changed_clips;
use super::{MAX_LINE, VERSION};
use crate::error::{Error, fail};
use crate::source::Escaped;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// The result of comparing two logs.
#[derive(Debug)]
pub struct LogComparison {
    /// The number of batches at the beginning that are the same.
    pub equal: u64,
    /// The number of batches of each log before the first of the other, which are compared with nothing.
    pub before: [u64; 2],
    /// The batches of each log that come again after it was resumed.
    pub repeated: [RepeatedLines; 2],
    /// The first difference, if there is one.
    pub difference: Option<LogDifference>,
}

/// The lines of a log that repeat a batch before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepeatedLines {
    /// Their number.
    pub count: u64,
    /// The line and the batch (epoch, index) of the first whose fingerprint is not that of the batch before it.
    pub changed: Option<(u64, (u32, u64))>,
}

/// The first batch that differs.
#[derive(Debug, PartialEq, Eq)]
pub struct LogDifference {
    /// The epoch of the batch.
    pub epoch: u32,
    /// The index of the batch in its epoch.
    pub batch: u64,
    /// The line of the batch in each log, from 1; of a log that does not have the batch, that of its next batch or `None`
    /// at its end.
    pub lines: [Option<u64>; 2],
    /// The causes, the first of which explains those after it.
    pub causes: Vec<String>,
}

/// Compares two logs up to the first batch that differs.
///
/// # Errors
///
/// If a file can't be read, or a line up to there is none of a log; the error names the line.
pub fn diff(a: &Path, b: &Path) -> Result<LogComparison, Error> {
    let mut logs = [LogReader::open(a)?, LogReader::open(b)?];
    let (mut equal, mut before) = (0, [0; 2]);
    let difference = loop {
        let [a, b] = &mut logs;
        let (mut first, mut second) = (a.next()?, b.next()?);
        if equal == 0 {
            before[0] += a.skip_to(&mut first, second.as_ref())?;
            before[1] += b.skip_to(&mut second, first.as_ref())?;
        }
        let causes = match (&first, &second) {
            (None, None) => break None,
            (Some(_), None) | (None, Some(_)) if equal == 0 && before != [0; 2] => {
                vec!["no batch is in both logs".to_owned()]
            }
            (Some(_), None) => vec![format!("the second log ends after {equal} equal batches")],
            (None, Some(_)) => vec![format!("the first log ends after {equal} equal batches")],
            (Some(first), Some(second)) if first.key() != second.key() => {
                let (first, second) = (first.key(), second.key());
                vec![format!(
                    "the first log goes on with {}, the second with {}",
                    in_words(first),
                    in_words(second)
                )]
            }
            (Some(first), Some(second)) if first.fingerprint == second.fingerprint => {
                equal += 1;
                continue;
            }
            (Some(first), Some(second)) => different_ids(first, second),
        };
        let mut all = match (&a.header, &b.header) {
            (Some(a), Some(b)) => a.different_parts(b),
            _ => vec![],
        };
        all.extend(causes);
        if all.is_empty() {
            all.push("the samples of the batch, which logs with ids name".to_owned());
        }
        let found = [&first, &second];
        let key = found.iter().filter_map(|line| line.as_ref().map(BatchLine::key)).min();
        let (epoch, batch) = key.unwrap_or_default();
        let lines = found.map(|line| line.as_ref().map(|line| line.line));
        break Some(LogDifference { epoch, batch, lines, causes: all });
    };
    Ok(LogComparison { equal, before, repeated: logs.map(|log| log.repeated), difference })
}

fn in_words((epoch, batch): (u32, u64)) -> String {
    format!("epoch {epoch}, batch {batch}")
}

/// Describes the first sample that differs, if both lines have their samples.
fn different_ids(first: &BatchLine, second: &BatchLine) -> Vec<String> {
    let (Some(a), Some(b)) = (&first.ids, &second.ids) else { return vec![] };
    let equal = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let sample =
        |ids: &[u64]| ids.get(equal).map_or("none".to_owned(), |id| format!("sample {id}"));
    let (first, second) = (sample(a), sample(b));
    if first == second {
        return vec![];
    }
    vec![format!("the samples: row {equal} is {first} in the first log and {second} in the second")]
}

/// The contents of a header.
struct Header {
    dataset: u64,
    order: u64,
    order_name: String,
    plan: u64,
    ops: Vec<(u16, String)>,
    clips: String,
    seed: u64,
    batch_size: u64,
    rank: u64,
    world_size: u64,
}

impl Header {
    /// Describes all parts that differ, those first that explain others.
    fn different_parts(&self, other: &Self) -> Vec<String> {
        let mut parts = vec![];
        let differ = |what: &str, first: &dyn fmt::Display, second: &dyn fmt::Display| {
            format!("{what}: {first} in the first log and {second} in the second")
        };
        let word = |word: u64| format!("{word:016x}");
        if let Some(changed) = changed_clips(&self.clips, &other.clips) {
            parts.push(format!("the clips: {}", Escaped(&changed)));
        }
        if self.dataset != other.dataset {
            parts.push(differ("the dataset", &word(self.dataset), &word(other.dataset)));
        }
        if self.seed != other.seed {
            parts.push(differ("the seed", &self.seed, &other.seed));
        }
        if self.plan != other.plan {
            parts.push(self.different_op(other));
        }
        for (what, first, second) in [
            ("the batch size", self.batch_size, other.batch_size),
            ("the number of ranks", self.world_size, other.world_size),
            ("the rank", self.rank, other.rank),
        ] {
            if first != second {
                parts.push(differ(what, &first, &second));
            }
        }
        if self.order != other.order {
            let [first, second] = [self, other].map(|header| Escaped(&header.order_name));
            parts.push(match self.order_name == other.order_name {
                // Weights, a sampler's own parameters or the samples themselves differ.
                true => {
                    format!("the order: {first} in both logs, with other parameters or samples")
                }
                false => differ("the order", &first, &second),
            });
        }
        parts
    }

    /// Describes the first output or op that differs.
    fn different_op(&self, other: &Self) -> String {
        let equal = self.ops.iter().zip(&other.ops).take_while(|(a, b)| a.0 == b.0).count();
        let name =
            |ops: &[(u16, String)]| ops.get(equal).map(|(_, name)| Escaped(name).to_string());
        match (name(&self.ops), name(&other.ops)) {
            (None, None) => {
                "the plan: the number rule, the EXIF orientation or how samples are collated"
                    .to_owned()
            }
            (Some(first), Some(second)) if first == second => {
                format!("the plan: {first} has other parameters")
            }
            (first, second) => {
                let or_none = |name: Option<String>| name.unwrap_or_else(|| "nothing".to_owned());
                let (first, second) = (or_none(first), or_none(second));
                format!("the plan: {first} in the first log and {second} in the second")
            }
        }
    }
}

/// The line of a batch.
struct BatchLine {
    line: u64,
    epoch: u32,
    batch: u64,
    fingerprint: u64,
    ids: Option<Vec<u64>>,
}

impl BatchLine {
    fn key(&self) -> (u32, u64) {
        (self.epoch, self.batch)
    }
}

/// A log that is read line by line.
struct LogReader {
    path: PathBuf,
    file: BufReader<File>,
    /// The number of lines read.
    line: u64,
    text: Vec<u8>,
    header: Option<Header>,
    /// The fingerprints of the last batches, by epoch and index.
    known: BTreeMap<(u32, u64), u64>,
    repeated: RepeatedLines,
}

/// The maximum number of batches that the lines of a resumed run are compared with.
const MOST_KNOWN: usize = 1 << 16;

impl LogReader {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| Error::from(error).at(path))?;
        let (path, file) = (path.to_owned(), BufReader::new(file));
        let (known, repeated) = (BTreeMap::new(), RepeatedLines::default());
        Ok(Self { path, file, line: 0, text: vec![], header: None, known, repeated })
    }

    /// Returns the next batch that the log did not have before; `None` at the end.
    fn next(&mut self) -> Result<Option<BatchLine>, Error> {
        while self.read_line()? {
            let found = self.parse();
            match found.map_err(|reason| self.refused(&reason))? {
                None => {}
                Some(batch) if self.last().is_some_and(|last| batch.key() <= last) => {
                    self.repeated.count += 1;
                    let before = self.known.get(&batch.key());
                    if before.is_some_and(|&before| before != batch.fingerprint) {
                        self.repeated.changed.get_or_insert((batch.line, batch.key()));
                    }
                }
                Some(batch) => {
                    self.known.insert(batch.key(), batch.fingerprint);
                    if self.known.len() > MOST_KNOWN {
                        self.known.pop_first();
                    }
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }

    /// Returns the epoch and the index of the last batch.
    fn last(&self) -> Option<(u32, u64)> {
        self.known.last_key_value().map(|(key, _)| *key)
    }

    /// Replaces a batch by the first one that does not come before the other log's. Returns the number of those that do;
    /// none if this log ends before it.
    fn skip_to(
        &mut self,
        batch: &mut Option<BatchLine>,
        other: Option<&BatchLine>,
    ) -> Result<u64, Error> {
        let Some(other) = other else { return Ok(0) };
        let mut skipped = 0;
        while batch.as_ref().is_some_and(|batch| batch.key() < other.key()) {
            *batch = self.next()?;
            skipped += 1;
        }
        Ok(skipped)
    }

    /// Returns the error of the last line that was read.
    fn refused(&self, reason: &str) -> Error {
        let line = self.line;
        fail!(Format, "line {line}: {}", Escaped(reason)).at(&self.path).help(
            "a log has a header and then a line for each batch, as `log_fingerprints` of a loader writes them; remove \
             the line if a crash has cut it",
        )
    }

    /// Reads a line; false at the end of the file.
    fn read_line(&mut self) -> Result<bool, Error> {
        self.text.clear();
        let line = (&mut self.file).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.text);
        let bytes = line.map_err(|error| Error::from(error).at(&self.path))?;
        self.line += 1;
        if bytes > MAX_LINE {
            let reason = format!("more than {MAX_LINE} bytes, which no line of a log has");
            return Err(self.refused(&reason));
        }
        Ok(bytes > 0)
    }

    /// Parses the line: a batch, or a header, which is kept.
    fn parse(&mut self) -> Result<Option<BatchLine>, String> {
        let value: Value =
            serde_json::from_slice(&self.text).map_err(|error| format!("not JSON: {error}"))?;
        let number = |name: &str| {
            let found = value.get(name).and_then(Value::as_u64);
            found.ok_or_else(|| format!("the number {name} is missing"))
        };
        let text = |name: &str| {
            let found = value.get(name).and_then(Value::as_str);
            found.ok_or_else(|| format!("the text {name} is missing"))
        };
        let word = |name: &str| {
            let found = text(name)?;
            let word = u64::from_str_radix(found, 16).ok().filter(|_| found.len() == 16);
            word.ok_or_else(|| format!("{name} is not 16 hex digits"))
        };
        if value.get("fuseloop_log").is_some() {
            let version = number("fuseloop_log")?;
            if version != VERSION {
                return Err(format!("log format {version}, this release reads format {VERSION}"));
            }
            self.header = Some(Header {
                dataset: word("dataset")?,
                order: word("order")?,
                order_name: text("order_name")?.to_owned(),
                plan: word("plan")?,
                ops: ops(&value)?,
                clips: text("clips")?.to_owned(),
                seed: number("seed")?,
                batch_size: number("batch_size")?,
                rank: number("rank")?,
                world_size: number("world_size")?,
            });
            return Ok(None);
        }
        if self.header.is_none() {
            return Err("no header before the first batch: not a log of fingerprints".to_owned());
        }
        let epoch = number("epoch")?;
        let epoch = u32::try_from(epoch).map_err(|_| format!("epoch {epoch} is too large"))?;
        let ids = match value.get("ids") {
            None => None,
            Some(ids) => {
                let ids = ids.as_array().map(|ids| ids.iter().map(Value::as_u64).collect());
                Some(ids.flatten().ok_or("ids are not a list of numbers")?)
            }
        };
        let (batch, fingerprint) = (number("batch")?, word("fingerprint")?);
        Ok(Some(BatchLine { line: self.line, epoch, batch, fingerprint, ids }))
    }
}

/// Returns the ops of a header.
fn ops(header: &Value) -> Result<Vec<(u16, String)>, String> {
    let wrong = || "ops are not a list of short fingerprints and names".to_owned();
    let ops = header.get("ops").and_then(Value::as_array).ok_or_else(wrong)?;
    let op = |op: &Value| {
        let [print, name] = op.as_array()?.as_slice() else { return None };
        let print = u16::from_str_radix(print.as_str()?, 16).ok()?;
        Some((print, name.as_str()?.to_owned()))
    };
    ops.iter().map(|found| op(found).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const HEADER: &str = r#"{"fuseloop_log":1,"dataset":"0000000000000001","order":"0000000000000002","order_name":"random of all 8 samples","plan":"0000000000000003","ops":[["00aa","output image"],["00bb","op 0 of output image, D4"]],"clips":"","seed":42,"batch_size":2,"rank":0,"world_size":1}"#;

    fn line(epoch: u32, batch: u64, print: u64, more: &str) -> String {
        format!(
            "{{\"epoch\":{epoch},\"batch\":{batch},\"position\":0,\"rank\":0,\"fingerprint\":\"{print:016x}\"{more}}}"
        )
    }

    fn compared(a: &[&str], b: &[&str]) -> Result<LogComparison, Error> {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, lines: &[&str]| {
            let path = dir.path().join(name);
            fs::write(&path, lines.join("\n")).unwrap();
            path
        };
        diff(&write("a.jsonl", a), &write("b.jsonl", b))
    }

    fn found(a: &[&str], b: &[&str]) -> ((u32, u64), [Option<u64>; 2], Vec<String>) {
        let LogDifference { epoch, batch, lines, causes } =
            compared(a, b).unwrap().difference.unwrap();
        ((epoch, batch), lines, causes)
    }

    #[test]
    fn equal_logs_have_no_difference_and_resumed_lines_are_counted() {
        let lines: Vec<_> = (0..4).map(|k| line(0, k, k, "")).collect();
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| lines[k].as_str());
        let same = compared(&[HEADER, a, b, c, d], &[HEADER, a, b, c, HEADER, b, c, d]).unwrap();
        assert_eq!((same.equal, same.difference), (4, None));
        assert_eq!(same.repeated.map(|lines| (lines.count, lines.changed)), [(0, None), (2, None)]);
        assert_eq!(compared(&[], &[]).unwrap().equal, 0);
        let changed = line(0, 2, 9, "");
        let same = compared(&[HEADER, a, b, c], &[HEADER, a, b, c, b, &changed]).unwrap();
        assert_eq!((same.equal, same.difference), (3, None));
        let repeated = RepeatedLines { count: 2, changed: Some((6, (0, 2))) };
        assert_eq!(same.repeated, [RepeatedLines::default(), repeated]);
    }

    #[test]
    fn the_log_of_a_resumed_run_is_compared_from_its_first_batch() {
        let lines: Vec<_> = (0..4).map(|k| line(0, k, k, "")).collect();
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| lines[k].as_str());
        let whole = [HEADER, a, b, c, d];
        let resumed = compared(&whole, &[HEADER, c, d]).unwrap();
        assert_eq!((resumed.equal, resumed.before, resumed.difference), (2, [2, 0], None));
        let resumed = compared(&[HEADER, b, c, d], &whole).unwrap();
        assert_eq!((resumed.equal, resumed.before, resumed.difference), (3, [0, 1], None));
        let other = line(0, 2, 9, "");
        let (key, lines, _) = found(&whole, &[HEADER, &other, d]);
        assert_eq!((key, lines), ((0, 2), [Some(4), Some(2)]));
        let (key, lines, causes) = found(&[HEADER, a, b], &[HEADER, c, d]);
        assert_eq!((key, lines), ((0, 2), [None, Some(2)]));
        assert_eq!(causes, ["no batch is in both logs"]);
    }

    #[test]
    fn the_first_batch_and_its_causes_are_named() {
        let (a, b, c) = (line(0, 0, 1, ""), line(0, 1, 2, ""), line(0, 1, 3, ""));
        let other = |from: &str, to: &str| HEADER.replace(from, to);
        let cause = |header: &str| found(&[HEADER, &a, &b], &[header, &a, &c]);
        let seed = other("42", "7");
        let expected = vec!["the seed: 42 in the first log and 7 in the second".to_owned()];
        assert_eq!(cause(&seed), ((0, 1), [Some(3), Some(3)], expected));
        let first = |header: &str| cause(header).2[0].clone();
        assert!(
            first(&other("\"dataset\":\"0000", "\"dataset\":\"1000"))
                .starts_with("the dataset: 0000000000000001 in")
        );
        let plan = other("\"plan\":\"0", "\"plan\":\"1");
        assert!(first(&plan).starts_with("the plan: the number rule"));
        let parameters = plan.replace("00bb", "00bc");
        assert_eq!(first(&parameters), "the plan: op 0 of output image, D4 has other parameters");
        let op = parameters.replace("D4", "Flip");
        assert_eq!(
            first(&op),
            "the plan: op 0 of output image, D4 in the first log and op 0 of output image, Flip in the second"
        );
        let removed = plan.replace(",[\"00bb\",\"op 0 of output image, D4\"]", "");
        assert_eq!(
            first(&removed),
            "the plan: op 0 of output image, D4 in the first log and nothing in the second"
        );
        assert!(
            first(&other("\"batch_size\":2", "\"batch_size\":4"))
                .starts_with("the batch size: 2 in")
        );
        let order = other("\"order\":\"0", "\"order\":\"1");
        assert_eq!(
            first(&order),
            "the order: random of all 8 samples in both logs, with other parameters or samples"
        );
        assert_eq!(
            first(&order.replace("random of", "permuted of")),
            "the order: random of all 8 samples in the first log and permuted of all 8 samples in the second"
        );
        assert_eq!(first(HEADER), "the samples of the batch, which logs with ids name");
        let (b, c) = (line(0, 1, 2, ",\"ids\":[5,6]"), line(0, 1, 3, ",\"ids\":[5,7]"));
        let ids = found(&[HEADER, &a, &b], &[HEADER, &a, &c]).2;
        assert_eq!(
            ids,
            ["the samples: row 1 is sample 6 in the first log and sample 7 in the second"]
        );
        // A part of a header that differs and changes no batch is no difference.
        assert_eq!(compared(&[HEADER, &a], &[&seed, &a]).unwrap().difference, None);
    }

    #[test]
    fn missing_batches_are_named() {
        let lines: Vec<_> = (0..3).map(|k| line(1, k, k, "")).collect();
        let [a, b, c] = [0, 1, 2].map(|k| lines[k].as_str());
        let (key, lines, causes) = found(&[HEADER, a, b, c], &[HEADER, a, c]);
        assert_eq!((key, lines), ((1, 1), [Some(3), Some(3)]));
        assert_eq!(
            causes,
            ["the first log goes on with epoch 1, batch 1, the second with epoch 1, batch 2"]
        );
        let (key, lines, causes) = found(&[HEADER, a], &[HEADER, a, b]);
        assert_eq!((key, lines), ((1, 1), [None, Some(3)]));
        assert_eq!(causes, ["the first log ends after 1 equal batches"]);
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_line() {
        let good = line(0, 0, 1, "");
        let refused = |lines: &[&str]| {
            let error = compared(lines, &[HEADER, &good]).unwrap_err().to_string();
            error.split_once("a.jsonl: ").unwrap().1.to_owned()
        };
        assert!(refused(&["\u{1}\u{1b}"]).starts_with("line 1: not JSON: "));
        assert_eq!(
            refused(&[&good]),
            "line 1: no header before the first batch: not a log of fingerprints"
        );
        assert_eq!(
            refused(&[&HEADER.replace("log\":1", "log\":2")]),
            "line 1: log format 2, this release reads format 1"
        );
        for (part, expected) in [
            ("\"seed\":42,", "the number seed is missing"),
            ("\"clips\":\"\",", "the text clips is missing"),
            ("[\"00aa\",\"output image\"]", "ops are not a list of short fingerprints and names"),
        ] {
            let with = if part.starts_with('[') { "7" } else { "" };
            let refused = refused(&[&HEADER.replace(part, with)]);
            assert_eq!(refused, format!("line 1: {expected}"));
        }
        for (more, expected) in [
            (line(0, 0, 1, ",\"ids\":7"), "ids are not a list of numbers"),
            (line(0, 0, 1, ",\"ids\":[-1]"), "ids are not a list of numbers"),
            (good.replace("0001\"", "1\""), "fingerprint is not 16 hex digits"),
            (good.replace("\"epoch\":0", "\"epoch\":4294967296"), "epoch 4294967296 is too large"),
            ("[]".to_owned(), "the number epoch is missing"),
        ] {
            assert_eq!(refused(&[HEADER, &more]), format!("line 2: {expected}"));
        }
        let nested = "[".repeat(100_000);
        assert!(refused(&[HEADER, &nested]).starts_with("line 2: not JSON: recursion limit"));
        let long = " ".repeat(MAX_LINE + 1);
        assert!(refused(&[HEADER, &long]).starts_with("line 2: more than 8388608 bytes"));
    }
}
