//! From jobs to a file: encoding on many threads, placing in order on one.
//!
//! ```text
//! caller: jobs --groups--> workers: encode --outcomes--> placer: sort, place --> Builder
//!                             ^------ Flow: not too far ahead ------'
//! ```
//!
//! Only the placer decides where bytes lie, and it takes samples in their order, so the file is
//! the same for any number of threads. What waits for it is bounded by [`Flow`].
//!
//! A fatal error ends the work on samples after it at once; those before it are still encoded,
//! since one of them may fail as well and the first in order is the one reported.

use super::cut::{Cut, StoredImage};
use super::file::{Builder, Finished};
use super::flow::Flow;
use super::pixels::Pixels;
use super::report::{Change, KeptJpeg, Listed, Reencoded, Skipped, SkippedSample};
use super::value::{Encoding, Failed, FieldValue, SampleError, Stored, first_path};
use super::{Damaged, WriteError};
use crate::panicked::message;
use crate::sample::SampleId;
use crate::threads::ThreadsError;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Bytes that may be encoded and not yet placed: some writes' worth, little memory.
const BUDGET: usize = 64 << 20;

/// Jobs are handed out so many at a time, as small ones take less time than the handing out.
const GROUP_JOBS: usize = 64;

/// A group ends early at so many bytes of jobs.
const GROUP_BYTES: usize = 1 << 20;

/// A group ends early after so long: jobs that come slowly are worth handing out one by one, and
/// an error in the first is not to wait for 63 more.
const GROUP_TIME: Duration = Duration::from_millis(50);

/// What encodes samples.
pub(super) struct Engine<'a> {
    pub(super) encoding: &'a Encoding<'a>,
    pub(super) threads: usize,
    pub(super) damaged: Damaged,
}

/// What was placed.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) skipped: Skipped,
    pub(super) passed_through: u64,
    pub(super) reencoded: Vec<Reencoded>,
    pub(super) recut: u64,
    pub(super) recut_bytes: Change,
    pub(super) kept: Listed<KeptJpeg>,
}

/// Jobs of consecutive samples.
type Group<J> = Vec<(SampleId, J)>;

/// What became of a sample.
type Outcome = Result<Vec<Stored>, Failed>;

/// Why the work ended.
pub(super) enum EngineError {
    Sample { sample: SampleId, path: Option<PathBuf>, cause: SampleError },
    Write(io::Error),
    Threads(ThreadsError),
}

impl EngineError {
    /// With the path of the file that was being written.
    pub(super) fn at(self, writing: &Path) -> WriteError {
        match self {
            Self::Sample { sample, path, cause } => WriteError::Sample { sample, path, cause },
            Self::Write(source) => WriteError::Write { path: writing.to_owned(), source },
            Self::Threads(error) => WriteError::Threads(error),
        }
    }
}

impl Engine<'_> {
    /// Encodes all jobs and places them.
    ///
    /// `row` makes a job's values, on any thread; `held` says how much memory a job takes;
    /// `progress` is called after each sample.
    ///
    /// # Errors
    ///
    /// The first in the order of the samples.
    pub(super) fn run<J: Send, F: Read + Write + Seek + Send>(
        &self,
        jobs: impl Iterator<Item = J>,
        held: impl Fn(&J) -> usize,
        row: impl Fn(SampleId, J) -> Result<Vec<FieldValue>, SampleError> + Sync,
        builder: Builder<'_, F>,
        progress: impl Fn() + Send,
    ) -> Result<(Finished, Placed), EngineError> {
        let flow = Flow::new(BUDGET);
        let first_fatal = AtomicU64::new(u64::MAX);
        let (builder, placed) = thread::scope(|scope| {
            // A panic of `jobs` passes through here: what is handed out is then not worth encoding.
            let _stop = flow.stop_on_panic();
            // Made in here, so that whichever way this ends the threads see their channels close.
            let (give, take) = sync_channel(self.threads);
            let (send, receive) = channel();
            let take = Arc::new(Mutex::new(take));
            let flow = &flow;
            let place = move || {
                let placed = self.place(receive, builder, progress, flow);
                flow.stop();
                placed
            };
            let refused = |source| {
                EngineError::Threads(ThreadsError::Refused { wanted: self.threads + 1, source })
            };
            let placer = spawn(scope, "place", place).map_err(refused)?;
            for number in 0..self.threads {
                let worker = Worker {
                    engine: self,
                    take: Arc::clone(&take),
                    row: &row,
                    flow,
                    first_fatal: &first_fatal,
                    send: send.clone(),
                };
                spawn(scope, &number.to_string(), move || worker.run()).map_err(refused)?;
            }
            // Only the workers hold them now: the last one's end is seen on both sides.
            drop((take, send));
            let over = || flow.is_stopped() || first_fatal.load(Ordering::Relaxed) != u64::MAX;
            hand_out(jobs, &held, over, &give);
            drop(give);
            placer.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        Ok((builder.finish().map_err(EngineError::Write)?, placed))
    }

    /// Places samples in order, as they come.
    fn place<'b, F: Read + Write + Seek>(
        &self,
        outcomes: Receiver<(SampleId, Outcome)>,
        mut builder: Builder<'b, F>,
        progress: impl Fn(),
        flow: &Flow,
    ) -> Result<(Builder<'b, F>, Placed), EngineError> {
        let _stop = flow.stop_on_panic();
        let mut placed = Placed::default();
        let mut early = BTreeMap::new();
        let mut next = SampleId(0);
        for (sample, outcome) in outcomes {
            early.insert(sample, outcome);
            while let Some(outcome) = early.remove(&next) {
                let bytes = bytes(&outcome);
                self.place_one(next, outcome, &mut builder, &mut placed)?;
                flow.placed(bytes);
                next.0 += 1;
                progress();
            }
        }
        Ok((builder, placed))
    }

    fn place_one<F: Read + Write + Seek>(
        &self,
        sample: SampleId,
        outcome: Outcome,
        builder: &mut Builder<'_, F>,
        placed: &mut Placed,
    ) -> Result<(), EngineError> {
        match outcome {
            Ok(stored) => {
                builder.push(&stored).map_err(EngineError::Write)?;
                self.count(sample, stored, placed);
            }
            Err(Failed { path, cause }) if self.is_fatal(&cause) => {
                return Err(EngineError::Sample { sample, path, cause });
            }
            Err(Failed { path, cause }) => {
                placed.skipped.add(SkippedSample { sample, path, cause });
            }
        }
        Ok(())
    }

    /// Counts what became of a sample's images.
    fn count(&self, sample: SampleId, stored: Vec<Stored>, placed: &mut Placed) {
        for (field, stored) in self.encoding.fields.iter().zip(stored) {
            let Stored::Image(image) = stored else { continue };
            placed.passed_through += u64::from(image.is_passed_through());
            Reencoded::count(&mut placed.reencoded, image.reencoded);
            let StoredImage { bytes, path, cut, .. } = image;
            match cut {
                Cut::Unasked => {}
                Cut::Done { before, .. } => {
                    placed.recut += 1;
                    let (before, after) = (before as u64, bytes.len() as u64);
                    placed.recut_bytes.add(Change { before, after });
                }
                Cut::Kept(cause) => {
                    placed.kept.add(KeptJpeg { sample, field: field.name.clone(), path, cause });
                }
            }
        }
    }

    fn is_fatal(&self, cause: &SampleError) -> bool {
        self.damaged == Damaged::Fail || !cause.is_damage()
    }
}

/// Hands jobs out in their order until there are no more, or the work is over: whichever sample
/// ended it was handed out before, so that none of those still here is needed to say why.
fn hand_out<J>(
    jobs: impl Iterator<Item = J>,
    held: &impl Fn(&J) -> usize,
    over: impl Fn() -> bool,
    give: &SyncSender<Group<J>>,
) {
    let (mut group, mut bytes, mut begun) = (Vec::new(), 0, Instant::now());
    for job in (0..).map(SampleId).zip(jobs) {
        bytes += held(&job.1);
        group.push(job);
        let is_late = begun.elapsed() >= GROUP_TIME;
        if group.len() == GROUP_JOBS || bytes >= GROUP_BYTES || is_late {
            if over() || give.send(std::mem::take(&mut group)).is_err() {
                return;
            }
            (bytes, begun) = (0, Instant::now());
        }
    }
    // Nobody takes it only if there is an error, which the placer returns.
    let _ = give.send(group);
}

/// A thread that encodes.
struct Worker<'a, J, R> {
    engine: &'a Engine<'a>,
    take: Arc<Mutex<Receiver<Group<J>>>>,
    row: &'a R,
    flow: &'a Flow,
    /// The first sample known to end the work.
    first_fatal: &'a AtomicU64,
    send: Sender<(SampleId, Outcome)>,
}

impl<J, R> Worker<'_, J, R>
where
    R: Fn(SampleId, J) -> Result<Vec<FieldValue>, SampleError>,
{
    /// Encodes groups of samples until there are no more, or the work is stopped.
    fn run(self) {
        let _stop = self.flow.stop_on_panic();
        let mut pixels = self.pixels();
        while let Some(group) = self.next_group() {
            for (sample, job) in group {
                let is_late = sample.0 > self.first_fatal.load(Ordering::Relaxed);
                if is_late || !self.flow.enter(sample) {
                    return;
                }
                let outcome = self.encode(sample, job, &mut pixels);
                self.flow.encoded(bytes(&outcome));
                if self.send.send((sample, outcome)).is_err() {
                    return;
                }
            }
        }
    }

    fn next_group(&self) -> Option<Group<J>> {
        self.take.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }

    fn pixels(&self) -> Pixels {
        Pixels::new(self.engine.encoding.limits)
    }

    /// Encodes a sample. A panic becomes its error.
    fn encode(&self, sample: SampleId, job: J, pixels: &mut Pixels) -> Outcome {
        let mut path = None;
        let encode = || {
            let row = (self.row)(sample, job)?;
            path = first_path(&row).map(ToOwned::to_owned);
            self.engine.encoding.sample(sample, row, pixels)
        };
        let outcome = catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|panic| {
            // Whatever state the panic has left it in is not used again.
            *pixels = self.pixels();
            Err(SampleError::Panicked { message: message(&*panic) })
        });
        outcome.map_err(|cause| {
            if self.engine.is_fatal(&cause) {
                self.first_fatal.fetch_min(sample.0, Ordering::Relaxed);
            }
            Failed { path, cause }
        })
    }
}

/// Starts a thread of the writer.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let builder = thread::Builder::new().name(format!("fuseloop-write-{name}"));
    builder.spawn_scoped(scope, work)
}

/// Bytes of memory that an outcome holds until it is placed, its own included: a dataset may
/// have no values in its pages at all.
fn bytes(outcome: &Outcome) -> usize {
    let stored = outcome.iter().flatten();
    let held = |stored: &Stored| size_of::<Stored>() + stored.in_pages().map_or(0, <[u8]>::len);
    size_of::<(SampleId, Outcome)>() + stored.map(held).sum::<usize>()
}
