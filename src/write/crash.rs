//! What is at the path after the power went off at any moment, or the disk refused any step.
//!
//! The steps of real writes are written down. A [`Disk`] then holds what they may have left:
//!
//! | step      | before the next `Sync` or `SyncDir`                  | after it |
//! |-----------|------------------------------------------------------|----------|
//! | `Write`   | any of its sectors of 512 bytes, in any order among all that are not synced; of one of them perhaps a part; where the file has grown, zeros or what lay on the disk before | all of it |
//! | `Rename`  | made or not, whatever became of the bytes            | made     |
//!
//! The rule: the path has the old file or the complete new one, and the new one once the write has
//! returned. `FUSELOOP_CRASHES=10000` looks at more disks.

use super::step::Step;
use super::{FieldValue, Request, WriteError, WriteOptions, WriteReport, write_jobs};
use crate::sample::Limits;
use crate::source::{Beton, FieldKind, FieldSpec};
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;

/// How many disks are looked at; a longer run sets FUSELOOP_CRASHES.
const CRASHES: usize = 500;

/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// What lies at the path before a write.
const OLD: &[u8] = b"the file that was there before";

/// A step, kept.
#[derive(Debug, Clone, PartialEq)]
enum Kept {
    Write(u64, Vec<u8>),
    Sync,
    Rename,
    SyncDir,
}

impl From<Step<'_>> for Kept {
    fn from(step: Step<'_>) -> Self {
        match step {
            Step::Write { at, bytes } => Self::Write(at, bytes.to_vec()),
            Step::Sync => Self::Sync,
            Step::Rename => Self::Rename,
            Step::SyncDir => Self::SyncDir,
        }
    }
}

/// A dataset to be written.
#[derive(Debug, Clone, Copy)]
struct Case {
    samples: u64,
    announced: u64,
    /// Bytes of a sample's value; a sample without is a number alone.
    bytes: Option<usize>,
}

/// No samples, no pages, pages, pages that have to move, and more bytes than one write takes.
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

    /// Writes it, if `watch` lets it.
    fn write(
        self,
        out: &Path,
        watch: impl Fn(Step<'_>) -> io::Result<()> + Sync,
    ) -> Result<WriteReport, WriteError> {
        let threads = NonZeroUsize::new(2);
        let options = WriteOptions { page_size: 4096, threads, ..WriteOptions::default() };
        let fields = self.fields();
        let request = Request { fields: &fields, first: 0, out, options: &options };
        let announced = Some(self.announced);
        write_jobs(0..self.samples, |_| 0, |_, n| Ok(self.row(n)), announced, request, &watch)
    }

    /// The steps that write it, and the file.
    fn steps(self) -> (Vec<Kept>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.beton");
        let steps = Mutex::new(Vec::new());
        let keep = |step: Step<'_>| {
            steps.lock().unwrap().push(Kept::from(step));
            Ok(())
        };
        let report = self.write(&path, keep).unwrap();
        let file = fs::read(&path).unwrap();
        assert_eq!((report.samples, report.bytes), (self.samples, file.len() as u64));
        (steps.into_inner().unwrap(), file)
    }
}

/// A source of chance that gives the same again (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// What is there after a crash.
struct Disk {
    /// The unfinished file's bytes, under whichever name.
    partial: Vec<u8>,
    is_renamed: bool,
}

impl Disk {
    /// One of the disks that `steps` may have left.
    fn after(steps: &[Kept], dice: &mut Dice) -> Self {
        let synced = steps.iter().rposition(|step| *step == Kept::Sync).unwrap_or(0);
        let (before, since) = steps.split_at(synced);
        let mut partial = Vec::new();
        before.iter().for_each(|step| apply(&mut partial, step));

        let mut pieces = since.iter().flat_map(sectors).collect::<Vec<_>>();
        shuffle(&mut pieces, dice);
        let kept = dice.below(pieces.len() as u64 + 1) as usize;
        let torn = pieces.get(kept).map(|(at, bytes)| {
            let len = dice.below(bytes.len() as u64 + 1) as usize;
            (*at, bytes[..len].to_vec())
        });
        pieces.truncate(kept);
        let stale = if dice.coin() { 0 } else { 0xa5 };
        for (at, bytes) in pieces.into_iter().chain(torn) {
            put(&mut partial, at, &bytes, stale);
        }

        let renamed = steps.iter().position(|step| *step == Kept::Rename);
        let is_renamed =
            renamed.is_some_and(|at| steps[at..].contains(&Kept::SyncDir) || dice.coin());
        Self { partial, is_renamed }
    }

    fn at_path<'a>(&'a self, old: Option<&'a [u8]>) -> Option<&'a [u8]> {
        if self.is_renamed { Some(&self.partial) } else { old }
    }
}

/// A write that has reached the disk.
fn apply(file: &mut Vec<u8>, step: &Kept) {
    if let Kept::Write(at, bytes) = step {
        put(file, *at, bytes, 0);
    }
}

/// Writes bytes. Where the file grows before them, it has `gap`.
fn put(file: &mut Vec<u8>, at: u64, bytes: &[u8], gap: u8) {
    let (start, end) = (at as usize, at as usize + bytes.len());
    if file.len() < end {
        file.resize(end, gap);
    }
    file[start..end].copy_from_slice(bytes);
}

/// A write in pieces, each within one sector.
fn sectors(step: &Kept) -> Vec<(u64, Vec<u8>)> {
    let Kept::Write(at, bytes) = step else { return Vec::new() };
    let (mut at, mut rest) = (*at, &bytes[..]);
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

fn shuffle<T>(items: &mut [T], dice: &mut Dice) {
    for last in (1..items.len()).rev() {
        items.swap(last, dice.below(last as u64 + 1) as usize);
    }
}

/// Whether a disk that `steps[..cut]` may have left keeps the rule.
fn keeps_the_rule(disk: &Disk, steps: &[Kept], cut: usize, old: Option<&[u8]>, new: &[u8]) -> bool {
    let found = disk.at_path(old);
    let has_returned = cut == steps.len();
    found == Some(new) || (found == old && !has_returned)
}

/// A reader may be given any bytes, and must not panic at them.
fn read_all(bytes: &[u8]) -> bool {
    let Ok(beton) = Beton::from_bytes(bytes.to_vec(), &Limits::DEFAULT) else { return false };
    let fields = beton.fields().len();
    beton.samples().all(|id| (0..fields).all(|field| beton.owned(id, field).is_ok()))
}

/// The next writer on such a disk: it succeeds, and nothing else is left.
fn assert_recovers(case: Case, disk: &Disk, old: Option<&[u8]>, new: &[u8]) {
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

/// Looks at `count` disks, the cases in turn, and returns how many break the rule.
fn broken(cases: &[(Case, Vec<Kept>, Vec<u8>)], count: usize) -> usize {
    let mut dice = Dice(1);
    let (mut broken, mut renamed, mut readable) = (0, 0, 0);
    for number in 0..count {
        let (case, steps, new) = &cases[number % cases.len()];
        let cut = number / cases.len() % (steps.len() + 1);
        let old = dice.coin().then_some(OLD);
        let disk = Disk::after(&steps[..cut], &mut dice);
        renamed += usize::from(disk.is_renamed);
        let is_kept = keeps_the_rule(&disk, steps, cut, old, new);
        broken += usize::from(!is_kept);
        let is_readable = read_all(&disk.partial);
        assert!(is_readable || disk.partial != *new, "{case:?}: the whole file is refused");
        readable += usize::from(is_readable);
        // Each is a write with its syncs: a share of the disks will do.
        if is_kept && number % 8 == 0 {
            assert_recovers(*case, &disk, old, new);
        }
    }
    println!("{count} disks: {renamed} renamed, {readable} with a readable file, {broken} broken");
    broken
}

fn cases() -> Vec<(Case, Vec<Kept>, Vec<u8>)> {
    CASES.map(|case| case.steps()).into_iter().zip(CASES).map(|((s, f), c)| (c, s, f)).collect()
}

#[test]
fn the_steps_written_down_are_the_file() {
    for (case, steps, file) in cases() {
        let mut again = Vec::new();
        steps.iter().for_each(|step| apply(&mut again, step));
        assert!(again == file, "{case:?}");
        let writes = steps.iter().take_while(|step| matches!(step, Kept::Write(..))).count();
        assert!(writes > 0, "{case:?}");
        assert_eq!(steps[writes..], [Kept::Sync, Kept::Rename, Kept::SyncDir], "{case:?}");
    }
}

#[test]
fn a_power_cut_at_any_moment_leaves_the_old_file_or_the_complete_new_one() {
    let crashes = std::env::var("FUSELOOP_CRASHES").map_or(CRASHES, |n| n.parse().unwrap());
    assert_eq!(broken(&cases(), crashes), 0);
}

/// The disks are hard enough to find each mistake a writer can make in the order of its steps.
#[test]
fn a_writer_that_forgets_a_sync_or_renames_too_early_is_found() {
    use Kept::{Rename, Sync, SyncDir};
    for mistake in [&[Rename, SyncDir][..], &[Sync, Rename], &[Rename, Sync, SyncDir]] {
        let mut cases = cases();
        for (_, steps, _) in &mut cases {
            steps.retain(|step| matches!(step, Kept::Write(..)));
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

fn assert_refused(case: Case, number: usize, step: &Kept, kind: io::ErrorKind) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    fs::write(&path, OLD).unwrap();
    let left = Mutex::new(number);
    let refuse = |_: Step<'_>| {
        let mut left = left.lock().unwrap();
        let is_last = *left == 0;
        *left = left.wrapping_sub(1);
        if is_last { Err(kind.into()) } else { Ok(()) }
    };
    let message = case.write(&path, refuse).unwrap_err().to_string();
    let doing = match step {
        Kept::Write(..) => "cannot write",
        Kept::Sync | Kept::SyncDir => "cannot sync",
        Kept::Rename => "cannot rename into place",
    };
    assert!(message.contains(doing) && message.ends_with(&kind.to_string()), "{message}");
    assert!(message.contains(dir.path().to_str().unwrap()), "{message}");
    // Only the last step comes when the new file is in place.
    let is_old = fs::read(&path).unwrap() == OLD;
    assert_eq!(is_old, *step != Kept::SyncDir, "{case:?}, step {number}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{case:?}, step {number}: a leftover");
}
