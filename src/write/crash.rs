//! Tests what is at the path after a power cut at any moment, or after the disk refuses any step.
//!
//! The steps of real writes are recorded. A [`SimulatedDisk`] then holds what they may have left:
//!
//! | step      | before the next `Sync` or `SyncDir`                  | after it |
//! |-----------|------------------------------------------------------|----------|
//! | `Write`   | any of its sectors of 512 bytes, in any order among all that are not synced; one of them perhaps partly; where the file has grown, zeros or the disk's old contents | all of it |
//! | `Rename`  | done or not, whatever happened to the bytes          | done     |
//!
//! The rule: the path has the old file or the complete new one, and it has the new one once the write
//! has returned. `FUSELOOP_CRASHES=10000` simulates more disks.

use super::step::FileStep;
use super::{FieldValue, FileRequest, WriteOptions, WriteReport, write_jobs};
use crate::error::Error;
use crate::source::{Beton, FieldKind, FieldSpec, OpenOptions};
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;

/// The number of simulated disks that are enough to find a mistake.
const CRASHES: usize = 500;

/// The number of bytes that a disk writes completely or not at all.
const SECTOR: u64 = 512;

/// The file at the path before a write.
const OLD: &[u8] = b"the file that was there before";

/// A recorded step.
#[derive(Debug, Clone, PartialEq)]
enum RecordedStep {
    Write(u64, Vec<u8>),
    Sync,
    Rename,
    SyncDir,
}

impl From<FileStep<'_>> for RecordedStep {
    fn from(step: FileStep<'_>) -> Self {
        match step {
            FileStep::Write { at, bytes, .. } => Self::Write(at, bytes.to_vec()),
            FileStep::Truncate { .. } => panic!("only a conversion truncates"),
            FileStep::Sync(_) => Self::Sync,
            FileStep::Rename => Self::Rename,
            FileStep::SyncDir => Self::SyncDir,
        }
    }
}

/// A dataset to be written.
#[derive(Debug, Clone, Copy)]
struct Case {
    samples: u64,
    announced: u64,
    /// The size of a sample's bytes value; `None` if the sample has only an int.
    bytes: Option<usize>,
}

/// The cases: no samples, no pages, pages, pages that must move, and more bytes than one write takes.
const CASES: [Case; 5] = [
    Case { samples: 0, announced: 0, bytes: None },
    Case { samples: 300, announced: 0, bytes: None },
    Case { samples: 90, announced: 90, bytes: Some(700) },
    Case { samples: 300, announced: 0, bytes: Some(100) },
    Case { samples: 400, announced: 100, bytes: Some(4000) },
];

impl Case {
    fn fields(self) -> Vec<FieldSpec> {
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let bytes = self.bytes.map(|_| field("b", FieldKind::Bytes));
        [field("i", FieldKind::Int)].into_iter().chain(bytes).collect()
    }

    fn row(self, sample: u64) -> Vec<FieldValue> {
        let bytes = self.bytes.map(|len| FieldValue::Bytes(vec![1 + sample as u8 % 250; len]));
        [FieldValue::Int(sample as i64)].into_iter().chain(bytes).collect()
    }

    /// Writes the dataset; each step is shown to `watch`.
    fn write(
        self,
        out: &Path,
        watch: impl Fn(FileStep<'_>) -> io::Result<()> + Sync,
    ) -> Result<WriteReport, Error> {
        let threads = NonZeroUsize::new(2);
        let options = WriteOptions {
            page_size: Some(4096),
            threads,
            overwrite: true,
            ..WriteOptions::default()
        };
        let fields = self.fields();
        let request = FileRequest { fields: &fields, out, options: &options };
        let announced = Some(self.announced);
        write_jobs(0..self.samples, |_| 0, |_, n| Ok(self.row(n)), announced, request, &watch)
    }

    /// Returns the steps that write the dataset, and the file.
    fn steps(self) -> (Vec<RecordedStep>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        let steps = Mutex::new(Vec::new());
        let keep = |step: FileStep<'_>| {
            steps.lock().unwrap().push(RecordedStep::from(step));
            Ok(())
        };
        let report = self.write(&path, keep).unwrap();
        let file = fs::read(&path).unwrap();
        assert_eq!((report.samples, report.bytes), (self.samples, file.len() as u64));
        (steps.into_inner().unwrap(), file)
    }
}

/// A random number generator with a fixed sequence (splitmix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// The state of a disk after a crash.
struct SimulatedDisk {
    /// The unfinished file's bytes, whatever its name is.
    partial: Vec<u8>,
    is_renamed: bool,
}

impl SimulatedDisk {
    /// Returns one of the disks that `steps` may have left.
    fn after(steps: &[RecordedStep], dice: &mut Dice) -> Self {
        let synced = steps.iter().rposition(|step| *step == RecordedStep::Sync).unwrap_or(0);
        let (before, since) = steps.split_at(synced);
        let mut partial = Vec::new();
        before.iter().for_each(|step| apply(&mut partial, step));

        let mut pieces = since.iter().flat_map(sectors).collect::<Vec<_>>();
        shuffle(&mut pieces, dice);
        let whole = dice.below(pieces.len() as u64 + 1) as usize;
        let torn = pieces.get(whole).map(|(at, bytes)| {
            let len = dice.below(bytes.len() as u64 + 1) as usize;
            (*at, bytes[..len].to_vec())
        });
        pieces.truncate(whole);
        let stale = if dice.coin() { 0 } else { 0xa5 };
        for (at, bytes) in pieces.into_iter().chain(torn) {
            put(&mut partial, at, &bytes, stale);
        }

        let renamed = steps.iter().position(|step| *step == RecordedStep::Rename);
        let is_renamed =
            renamed.is_some_and(|at| steps[at..].contains(&RecordedStep::SyncDir) || dice.coin());
        Self { partial, is_renamed }
    }

    fn at_path<'a>(&'a self, old: Option<&'a [u8]>) -> Option<&'a [u8]> {
        if self.is_renamed { Some(&self.partial) } else { old }
    }
}

/// Applies a write that has reached the disk.
fn apply(file: &mut Vec<u8>, step: &RecordedStep) {
    if let RecordedStep::Write(at, bytes) = step {
        put(file, *at, bytes, 0);
    }
}

/// Writes bytes. A gap between the file's end and `at` is filled with `gap`.
pub(super) fn put(file: &mut Vec<u8>, at: u64, bytes: &[u8], gap: u8) {
    let (start, end) = (at as usize, at as usize + bytes.len());
    if file.len() < end {
        file.resize(end, gap);
    }
    file[start..end].copy_from_slice(bytes);
}

/// Splits a step that is a write into pieces, each within one sector.
fn sectors(step: &RecordedStep) -> Vec<(u64, Vec<u8>)> {
    let RecordedStep::Write(at, bytes) = step else { return Vec::new() };
    sectors_of(*at, bytes)
}

/// Splits the bytes of a write at `at` into pieces, each within one sector.
pub(super) fn sectors_of(mut at: u64, mut rest: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let room = (SECTOR - at % SECTOR) as usize;
        let (piece, after) = rest.split_at(room.min(rest.len()));
        pieces.push((at, piece.to_vec()));
        at += piece.len() as u64;
        rest = after;
    }
    pieces
}

pub(super) fn shuffle<T>(items: &mut [T], dice: &mut Dice) {
    for last in (1..items.len()).rev() {
        items.swap(last, dice.below(last as u64 + 1) as usize);
    }
}

/// Returns true if a disk that `steps[..cut]` may have left follows the rule.
fn keeps_the_rule(
    disk: &SimulatedDisk,
    steps: &[RecordedStep],
    cut: usize,
    old: Option<&[u8]>,
    new: &[u8],
) -> bool {
    let found = disk.at_path(old);
    let has_returned = cut == steps.len();
    found == Some(new) || (found == old && !has_returned)
}

/// Reads all values. A reader must not panic, whatever the bytes are.
fn read_all(bytes: &[u8]) -> bool {
    let Ok(beton) = Beton::from_bytes(bytes.to_vec(), &OpenOptions::default()) else {
        return false;
    };
    let fields = beton.fields().len();
    beton.samples().all(|id| (0..fields).all(|field| beton.owned(id, field).is_ok()))
}

/// Asserts that the next writer on such a disk succeeds, and that nothing else is left.
fn assert_recovers(case: Case, disk: &SimulatedDisk, old: Option<&[u8]>, new: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    if let Some(bytes) = disk.at_path(old) {
        fs::write(&path, bytes).unwrap();
    }
    if !disk.is_renamed {
        fs::write(dir.path().join(".a.beton.fuseloop-dead00.partial"), &disk.partial).unwrap();
    }
    case.write(&path, super::unwatched).unwrap();
    assert!(fs::read(&path).unwrap() == new, "{case:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "a leftover");
}

/// Simulates `count` disks, the cases in turn, and returns the number of disks that break the rule.
fn broken(cases: &[(Case, Vec<RecordedStep>, Vec<u8>)], count: usize) -> usize {
    let mut dice = Dice(1);
    let (mut broken, mut renamed, mut readable) = (0, 0, 0);
    for number in 0..count {
        let (case, steps, new) = &cases[number % cases.len()];
        let cut = number / cases.len() % (steps.len() + 1);
        let old = dice.coin().then_some(OLD);
        let disk = SimulatedDisk::after(&steps[..cut], &mut dice);
        renamed += usize::from(disk.is_renamed);
        let is_kept = keeps_the_rule(&disk, steps, cut, old, new);
        broken += usize::from(!is_kept);
        let is_readable = read_all(&disk.partial);
        assert!(is_readable || disk.partial != *new, "{case:?}: the whole file is refused");
        readable += usize::from(is_readable);
        // Each check is a write with its syncs, so only every eighth disk is checked.
        if is_kept && number % 8 == 0 {
            assert_recovers(*case, &disk, old, new);
        }
    }
    println!("{count} disks: {renamed} renamed, {readable} with a readable file, {broken} broken");
    broken
}

fn cases() -> Vec<(Case, Vec<RecordedStep>, Vec<u8>)> {
    CASES.map(|case| case.steps()).into_iter().zip(CASES).map(|((s, f), c)| (c, s, f)).collect()
}

#[test]
fn the_steps_written_down_are_the_file() {
    for (case, steps, file) in cases() {
        let mut again = Vec::new();
        steps.iter().for_each(|step| apply(&mut again, step));
        assert!(again == file, "{case:?}");
        let writes =
            steps.iter().take_while(|step| matches!(step, RecordedStep::Write(..))).count();
        assert!(writes > 0, "{case:?}");
        assert_eq!(
            steps[writes..],
            [RecordedStep::Sync, RecordedStep::Rename, RecordedStep::SyncDir],
            "{case:?}"
        );
    }
}

#[test]
fn a_power_cut_at_any_moment_leaves_the_old_file_or_the_complete_new_one() {
    let crashes = fuseloop_counts::rounds("FUSELOOP_CRASHES");
    assert_eq!(broken(&cases(), crashes), 0);
}

/// The simulation is strict enough to find each mistake a writer can make in the order of its steps.
#[test]
fn a_writer_that_forgets_a_sync_or_renames_too_early_is_found() {
    use RecordedStep::{Rename, Sync, SyncDir};
    for mistake in [&[Rename, SyncDir][..], &[Sync, Rename], &[Rename, Sync, SyncDir]] {
        let mut cases = cases();
        for (_, steps, _) in &mut cases {
            steps.retain(|step| matches!(step, RecordedStep::Write(..)));
            steps.extend_from_slice(mistake);
        }
        assert!(broken(&cases, CRASHES) > 0, "{mistake:?}");
    }
}

#[test]
fn a_step_refused_is_an_error_and_the_old_file_stays() {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let mut refused = 0;
    for case in CASES {
        let steps = case.steps().0;
        for (number, kind) in (0..steps.len())
            .flat_map(|n| [StorageFull, QuotaExceeded, ReadOnlyFilesystem].map(|k| (n, k)))
        {
            assert_refused(case, number, &steps[number], kind);
            refused += 1;
        }
    }
    println!("{refused} refused");
}

fn assert_refused(case: Case, number: usize, step: &RecordedStep, kind: io::ErrorKind) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    fs::write(&path, OLD).unwrap();
    let left = Mutex::new(number);
    let refuse = |_: FileStep<'_>| {
        let mut left = left.lock().unwrap();
        let is_last = *left == 0;
        *left = left.wrapping_sub(1);
        if is_last { Err(kind.into()) } else { Ok(()) }
    };
    let message = case.write(&path, refuse).unwrap_err().to_string();
    let doing = match step {
        RecordedStep::Write(..) => "cannot write",
        RecordedStep::Sync | RecordedStep::SyncDir => "cannot sync",
        RecordedStep::Rename => "cannot rename into place",
    };
    assert!(message.contains(doing) && message.ends_with(&kind.to_string()), "{message}");
    assert!(message.contains(dir.path().to_str().unwrap()), "{message}");
    // Only the last step comes after the new file is in place.
    let is_old = fs::read(&path).unwrap() == OLD;
    assert_eq!(is_old, *step != RecordedStep::SyncDir, "{case:?}, step {number}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{case:?}, step {number}: a leftover");
}
