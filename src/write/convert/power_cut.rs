//! Tests that a `.beton` which grows chunk by chunk is resumed to the same bytes after a power cut at any moment.
//!
//! The steps of real conversions are recorded, and a disk is drawn that they may have left, as `write/crash.rs` does it for
//! one file: of each file, what was written before its last `Sync` is there, and any sectors of what was written since, one
//! of them perhaps torn; a rename is done or not until the next `SyncDir`. Then the conversion is run again on that disk.

use super::super::crash::{Dice, put, sectors_of, shuffle};
use super::*;
use crate::source::{Facts, FieldKind, InMemory, OwnedValue};
use crate::write::step::{FileStep, StepFile};
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// A conversion: its source, and the number of disks that are drawn in the quick tier.
struct Case {
    source: InMemory,
    options: WriteOptions,
    disks: usize,
}

fn case(fields: usize, samples: u64, len: fn(u64) -> usize, disks: usize) -> Case {
    let all = [("i", FieldKind::Int), ("b", FieldKind::Bytes)];
    let facts = Facts::new(all.into_iter().take(fields), samples);
    // Ints, and bytes of these lengths.
    let source = InMemory::from_fn(facts, move |sample| {
        let bytes = vec![1 + sample.0 as u8 % 250; len(sample.0)];
        let values = [OwnedValue::Int(sample.0 as i64), OwnedValue::Bytes(bytes)];
        Ok(values.into_iter().take(fields).collect())
    });
    let options = WriteOptions {
        max_samples: Some(6),
        page_size: Some(4096),
        threads: NonZeroUsize::new(2),
        ..WriteOptions::default()
    };
    Case { source, options, disks }
}

/// Values of several pages and of none, and pages that grow and must be moved.
fn cases() -> [Case; 4] {
    let grown = case(2, 14, |n| if n == 8 { 9 << 20 } else { 1000 }, 24);
    let options = WriteOptions { page_size: None, ..grown.options };
    [
        case(2, 40, |n| (n as usize * 997) % 3000, 160),
        case(1, 40, |_| 0, 60),
        case(2, 40, |n| if n < 20 { 0 } else { 9 }, 60),
        Case { options, ..grown },
    ]
}

/// A recorded step.
enum RecordedStep {
    Write(StepFile, u64, Vec<u8>),
    Truncate(StepFile, u64),
    Sync(StepFile),
    Rename,
    SyncDir,
}

impl From<FileStep<'_>> for RecordedStep {
    fn from(step: FileStep<'_>) -> Self {
        match step {
            FileStep::Write { file, at, bytes } => Self::Write(file, at, bytes.to_vec()),
            FileStep::Truncate { file, len } => Self::Truncate(file, len),
            FileStep::Sync(file) => Self::Sync(file),
            FileStep::Rename => Self::Rename,
            FileStep::SyncDir => Self::SyncDir,
        }
    }
}

impl RecordedStep {
    fn is_of(&self, which: StepFile) -> bool {
        matches!(self, Self::Write(file, ..) | Self::Truncate(file, _) | Self::Sync(file) if *file == which)
    }
}

/// Returns a file that the steps may have left, or `None` if none of them is about it.
fn left_of(which: StepFile, steps: &[RecordedStep], dice: &mut Dice) -> Option<Vec<u8>> {
    let steps: Vec<&RecordedStep> = steps.iter().filter(|step| step.is_of(which)).collect();
    let synced = steps.iter().rposition(|step| matches!(step, RecordedStep::Sync(_)));
    let (before, since) = steps.split_at(synced.map_or(0, |at| at + 1));
    let mut file = Vec::new();
    for step in before {
        match step {
            RecordedStep::Write(_, at, bytes) => put(&mut file, *at, bytes, 0),
            RecordedStep::Truncate(_, len) => file.resize(*len as usize, 0),
            _ => {}
        }
    }
    let mut pieces = vec![];
    for step in since {
        match step {
            RecordedStep::Write(_, at, bytes) => pieces.extend(sectors_of(*at, bytes)),
            // A file system orders a change of the length with the writes before it.
            RecordedStep::Truncate(_, len) if dice.coin() => {
                for (at, bytes) in pieces.drain(..) {
                    put(&mut file, at, &bytes, 0);
                }
                file.resize(*len as usize, 0);
            }
            _ => {}
        }
    }
    shuffle(&mut pieces, dice);
    let whole = dice.below(pieces.len() as u64 + 1) as usize;
    if let Some((_, torn)) = pieces.get_mut(whole) {
        torn.truncate(dice.below(torn.len() as u64 + 1) as usize);
    }
    let stale = if dice.coin() { 0 } else { 0xa5 };
    for (at, bytes) in pieces.iter().take(whole + 1) {
        put(&mut file, *at, bytes, stale);
    }
    (!steps.is_empty()).then_some(file)
}

/// Returns the files in a folder, hidden ones too.
fn all_files(dir: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
}

impl Case {
    fn run(&self, dst: &Path, watch: StepObserver<'_>) -> Result<WriteReport, Error> {
        DatasetConversion::new(&self.source, dst, &self.options, watch, OutputFormat::Beton)?.run()
    }

    /// Draws disks after each of the steps. Returns the number of conversions that were resumed.
    fn draw(&self, disks: usize, dice: &mut Dice) -> usize {
        let dir = tempfile::tempdir().unwrap();
        let steps = Mutex::new(vec![]);
        let record = |step: FileStep<'_>| {
            steps.lock().unwrap().push(RecordedStep::from(step));
            Ok(())
        };
        self.run(&dir.path().join("x.beton"), &record).unwrap();
        let want = all_files(dir.path());
        assert_eq!(want.len(), 1);
        let steps = steps.into_inner().unwrap();
        let is_output =
            |at: usize| matches!(steps.get(at), Some(RecordedStep::Write(StepFile::Output, ..)));
        // The tables and the zeros before them are many writes, which are all alike.
        let is_alike = |at: usize| !at.is_multiple_of(256) && (at - 1..=at + 1).all(is_output);
        let cuts: Vec<usize> = (0..=steps.len()).filter(|at| !is_alike(*at)).collect();
        let mut resumed = 0;
        for disk in 0..disks {
            let cut = cuts[disk * cuts.len() / disks];
            let steps = &steps[..cut];
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.beton");
            let renamed = steps.iter().position(|step| matches!(step, RecordedStep::Rename));
            let is_durable =
                |at: usize| steps[at..].iter().any(|step| matches!(step, RecordedStep::SyncDir));
            let is_renamed = renamed.is_some_and(|at| is_durable(at) || dice.coin());
            let partial = if is_renamed { path.clone() } else { resumed_path(&path).unwrap() };
            let allocations = dir.path().join(".x.beton.fuseloop-allocations");
            let journal = dir.path().join("x.beton.fuseloop-convert.json");
            for (which, path) in [
                (StepFile::Output, partial),
                (StepFile::Allocations, allocations),
                (StepFile::Journal, journal),
            ] {
                if let Some(bytes) = left_of(which, steps, dice) {
                    fs::write(path, bytes).unwrap();
                }
            }
            if is_renamed {
                assert!(fs::read(&path).unwrap() == want["x.beton".as_ref() as &std::ffi::OsStr]);
            }
            let report = self.run(&path, &unwatched).unwrap();
            assert_eq!(report.samples, self.source.facts().samples);
            resumed += usize::from(report.resumed > 0);
            assert!(all_files(dir.path()) == want, "cut after step {cut}");
        }
        resumed
    }
}

#[test]
fn a_power_cut_at_any_moment_is_resumed_to_the_same_bytes() {
    let crashes = fuseloop_counts::rounds::<usize>("FUSELOOP_CRASHES");
    let mut dice = Dice(1);
    for (index, case) in cases().iter().enumerate() {
        // Each disk of pages that grow has 48 MB.
        let most = if case.options.page_size.is_none() { 100 } else { usize::MAX };
        let disks = (case.disks * crashes).div_ceil(500).min(most);
        let resumed = case.draw(disks, &mut dice);
        println!("case {index}: {resumed} of {disks} were resumed");
        assert!(resumed > disks / 8, "case {index}: only {resumed} of {disks} were resumed");
    }
}
