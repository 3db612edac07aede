//! Writes jobs to a file: many threads encode samples, one thread places them in order.
//!
//! ```text
//! caller: jobs --groups--> workers: encode --outcomes--> placer: sort, place --> BetonBuilder
//!                             ^------ EncodeGate: bounds the lead ---'
//! ```
//!
//! Only the placer decides where bytes go, and it takes samples in order, so the file is the same for
//! any number of threads. [`EncodeGate`] bounds the bytes that wait for the placer.
//!
//! After a fatal error, no later sample is encoded. Earlier samples are still encoded, because one of
//! them may fail as well, and the error of the first sample in order is the one reported.

use super::cut::{RecutResult, StoredImage};
use super::file::{BetonBuilder, FileSizes};
use super::flow::EncodeGate;
use super::pixels::PixelReader;
use super::report::{CountedList, Reencoded, SizeChange, Skipped, SkippedSample, UnchangedJpeg};
use super::value::{Encoding, FailedSample, FieldValue, StoredValue, WriteSampleError, first_path};
use super::{OnUnreadable, WriteErrorKind};
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

/// The most bytes that may be encoded and not yet placed: enough for several writes, and little memory.
const BUDGET: usize = 64 << 20;

/// The number of jobs handed out together: a small job takes less time than handing it out.
const GROUP_JOBS: usize = 64;

/// The number of bytes of jobs at which a group ends early.
const GROUP_BYTES: usize = 1 << 20;

/// The time after which a group ends early. Jobs that come slowly are worth handing out one by one, and
/// an error in the first should not wait for 63 more.
const GROUP_TIME: Duration = Duration::from_millis(50);

/// Encodes samples on several threads and writes them in order.
pub(super) struct EncodeEngine<'a> {
    pub(super) encoding: &'a Encoding<'a>,
    pub(super) threads: usize,
    pub(super) damaged: OnUnreadable,
}

/// The counts of a write, kept by the placer.
#[derive(Debug, Default)]
pub(super) struct PlacedValue {
    pub(super) skipped: Skipped,
    pub(super) passed_through: u64,
    pub(super) reencoded: Vec<Reencoded>,
    pub(super) recut: u64,
    pub(super) recut_bytes: SizeChange,
    pub(super) kept: CountedList<UnchangedJpeg>,
}

/// Jobs of consecutive samples.
type Group<J> = Vec<(SampleId, J)>;

/// A sample's stored values, or its error.
type EncodeOutcome = Result<Vec<StoredValue>, FailedSample>;

/// The error that ended a write.
pub(super) enum EngineError {
    Sample { sample: SampleId, path: Option<PathBuf>, cause: WriteSampleError },
    Write(io::Error),
    Threads(ThreadsError),
}

impl EngineError {
    /// Adds the path of the file that was being written.
    pub(super) fn at(self, writing: &Path) -> WriteErrorKind {
        match self {
            Self::Sample { sample, path, cause } => WriteErrorKind::Sample { sample, path, cause },
            Self::Write(source) => WriteErrorKind::Write { path: writing.to_owned(), source },
            Self::Threads(error) => WriteErrorKind::Threads(error),
        }
    }
}

impl EncodeEngine<'_> {
    /// Encodes all jobs and places them.
    ///
    /// `row` produces a job's values, on any thread; `held` returns the bytes of memory that a job uses;
    /// `progress` is called after each sample.
    ///
    /// # Errors
    ///
    /// The error of the first failing sample, in the order of the samples.
    pub(super) fn run<J: Send, F: Read + Write + Seek + Send>(
        &self,
        jobs: impl Iterator<Item = J>,
        held: impl Fn(&J) -> usize,
        row: impl Fn(SampleId, J) -> Result<Vec<FieldValue>, WriteSampleError> + Sync,
        builder: BetonBuilder<'_, F>,
        progress: impl Fn() + Send,
    ) -> Result<(FileSizes, PlacedValue), EngineError> {
        let flow = EncodeGate::new(BUDGET);
        let first_fatal = AtomicU64::new(u64::MAX);
        let (builder, placed) = thread::scope(|scope| {
            // If `jobs` panics, this stops the threads: what was handed out need not be encoded then.
            let _stop = flow.stop_on_panic();
            // Created inside the scope, so that the threads see their channels close however the scope
            // ends.
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
                let worker = EncodeWorker {
                    engine: self,
                    take: Arc::clone(&take),
                    row: &row,
                    flow,
                    first_fatal: &first_fatal,
                    send: send.clone(),
                };
                spawn(scope, &number.to_string(), move || worker.run()).map_err(refused)?;
            }
            // Only the workers hold the channel ends now, so both sides notice when the last worker
            // ends.
            drop((take, send));
            let over = || flow.is_stopped() || first_fatal.load(Ordering::Relaxed) != u64::MAX;
            hand_out(jobs, &held, over, &give);
            drop(give);
            placer.join().unwrap_or_else(|panic| resume_unwind(panic))
        })?;
        Ok((builder.finish().map_err(EngineError::Write)?, placed))
    }

    /// Places samples in order as they arrive.
    fn place<'b, F: Read + Write + Seek>(
        &self,
        outcomes: Receiver<(SampleId, EncodeOutcome)>,
        mut builder: BetonBuilder<'b, F>,
        progress: impl Fn(),
        flow: &EncodeGate,
    ) -> Result<(BetonBuilder<'b, F>, PlacedValue), EngineError> {
        let _stop = flow.stop_on_panic();
        let mut placed = PlacedValue::default();
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
        outcome: EncodeOutcome,
        builder: &mut BetonBuilder<'_, F>,
        placed: &mut PlacedValue,
    ) -> Result<(), EngineError> {
        match outcome {
            Ok(stored) => {
                builder.push(&stored).map_err(EngineError::Write)?;
                self.count(sample, stored, placed);
            }
            Err(FailedSample { path, cause }) if self.is_fatal(&cause) => {
                return Err(EngineError::Sample { sample, path, cause });
            }
            Err(FailedSample { path, cause }) => {
                placed.skipped.add(SkippedSample { sample, path, cause: cause.to_string() });
            }
        }
        Ok(())
    }

    /// Counts how a sample's images were stored.
    fn count(&self, sample: SampleId, stored: Vec<StoredValue>, placed: &mut PlacedValue) {
        for (field, stored) in self.encoding.fields.iter().zip(stored) {
            let StoredValue::Image(image) = stored else { continue };
            placed.passed_through += u64::from(image.is_passed_through());
            Reencoded::count(&mut placed.reencoded, image.reencoded);
            let StoredImage { bytes, path, cut, .. } = image;
            match cut {
                RecutResult::NotRequested => {}
                RecutResult::Done { before, .. } => {
                    placed.recut += 1;
                    let (before, after) = (before as u64, bytes.len() as u64);
                    placed.recut_bytes.add(SizeChange { before, after });
                }
                RecutResult::Unchanged(cause) => {
                    placed.kept.add(UnchangedJpeg {
                        sample,
                        field: field.name.clone(),
                        path,
                        cause,
                    });
                }
            }
        }
    }

    fn is_fatal(&self, cause: &WriteSampleError) -> bool {
        self.damaged == OnUnreadable::Fail || !cause.is_damage()
    }
}

/// Hands out jobs in order until none are left or the write is over. The sample that ended the write was
/// handed out earlier, so none of the remaining jobs can change which error is reported.
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
    // Sending fails only after an error, which the placer returns.
    let _ = give.send(group);
}

/// An encoding thread.
struct EncodeWorker<'a, J, R> {
    engine: &'a EncodeEngine<'a>,
    take: Arc<Mutex<Receiver<Group<J>>>>,
    row: &'a R,
    flow: &'a EncodeGate,
    /// The first sample with a fatal error so far.
    first_fatal: &'a AtomicU64,
    send: Sender<(SampleId, EncodeOutcome)>,
}

impl<J, R> EncodeWorker<'_, J, R>
where
    R: Fn(SampleId, J) -> Result<Vec<FieldValue>, WriteSampleError>,
{
    /// Encodes groups of samples until none are left or the write is stopped.
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

    fn pixels(&self) -> PixelReader {
        PixelReader::new(self.engine.encoding.limits)
    }

    /// Encodes a sample. A panic becomes the sample's error.
    fn encode(&self, sample: SampleId, job: J, pixels: &mut PixelReader) -> EncodeOutcome {
        let mut path = None;
        let encode = || {
            let row = (self.row)(sample, job)?;
            path = first_path(&row).map(ToOwned::to_owned);
            self.engine.encoding.sample(sample, row, pixels)
        };
        let outcome = catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|panic| {
            // The panic may have left the decoder in any state, so it is replaced.
            *pixels = self.pixels();
            Err(WriteSampleError::Panicked { message: message(&*panic) })
        });
        outcome.map_err(|cause| {
            if self.engine.is_fatal(&cause) {
                self.first_fatal.fetch_min(sample.0, Ordering::Relaxed);
            }
            FailedSample { path, cause }
        })
    }
}

/// Starts a writer thread.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let builder = thread::Builder::new().name(format!("fuseloop-write-{name}"));
    builder.spawn_scoped(scope, work)
}

/// Returns the bytes of memory that an outcome uses until it is placed. The outcome's own size counts
/// too, because a dataset may have no values in its pages at all.
fn bytes(outcome: &EncodeOutcome) -> usize {
    let stored = outcome.iter().flatten();
    let held =
        |stored: &StoredValue| size_of::<StoredValue>() + stored.in_pages().map_or(0, <[u8]>::len);
    size_of::<(SampleId, EncodeOutcome)>() + stored.map(held).sum::<usize>()
}
