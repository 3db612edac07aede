//! Writes jobs to a file: many threads encode samples, one thread places them in order.
//!
//! ```text
//! caller: jobs --groups--> workers: encode --outcomes--> placer: place --> BetonBuilder
//!                     (one queue, InOrder, holds both)
//! ```
//!
//! Only the placer decides where bytes go, and it takes samples in order, so the file is the same for
//! any number of threads. [`InOrder`] bounds the bytes that wait for the placer.
//!
//! After a fatal error, no later sample is encoded. Earlier samples are still encoded, because one of
//! them may fail as well, and the error of the first sample in order is the one reported.

use super::OnUnreadable;
use super::cancel;
use super::error::{sample_error, write_error};
use super::file::BetonBuilder;
use super::pixels::PixelReader;
use super::report::{ImageCounts, Reencoded, SizeChange, Skipped, SkippedSample};
use super::value::{Encoding, FailedSample, FieldValue, StoredValue, WriteSampleError, first_path};
use crate::cancel::CancelFlag;
use crate::error::Error;
use crate::panicked::caught;
use crate::sample::SampleId;
use crate::threads::{self, ThreadsError};
use fuseloop_engine::work_queue::{
    InOrder, NumberedTask, Taken, TaskResult, WaitError, WorkQueue, Worker,
};
use std::io::{self, Read, Seek, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
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
    /// The number of the first sample.
    pub(super) first: u64,
    pub(super) threads: usize,
    pub(super) on_damaged: OnUnreadable,
    pub(super) cancel: &'a CancelFlag,
    /// The file that is written, for errors.
    pub(super) out: &'a Path,
    /// Returns the file that has a sample, for errors.
    pub(super) path_of: &'a (dyn Fn(SampleId) -> Option<PathBuf> + Sync),
}

/// The counts of a write, kept by the placer.
#[derive(Debug, Default)]
pub(super) struct PlacedValue {
    pub(super) skipped: Skipped,
    pub(super) images: ImageCounts,
}

/// A sample's stored values, or its error.
type EncodeOutcome = Result<Vec<StoredValue>, FailedSample>;

/// The queue between the caller, the workers and the placer. Groups of jobs are submitted. A job has consecutive samples.
type EncodeQueue<J> = WorkQueue<InOrder<std::vec::IntoIter<J>, Vec<EncodeOutcome>>>;

/// A function that encodes the next sample of a job. It returns false if the job need not go on.
pub(super) type TakeRow<'a> = &'a mut dyn FnMut(Result<Vec<FieldValue>, WriteSampleError>) -> bool;

/// A job of several samples.
pub(super) trait Rows: Send {
    /// Returns the first sample of the job.
    fn first(&self) -> SampleId;
}

impl EncodeEngine<'_> {
    /// Encodes all jobs and places them behind those that the file has.
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
        builder: &mut BetonBuilder<'_, F>,
        progress: impl Fn() + Send,
    ) -> Result<PlacedValue, Error> {
        let row = &row;
        let rows = |number: u64, job: J| {
            let sample = SampleId(self.first.saturating_add(number));
            let rows = move |take: TakeRow<'_>| {
                take(cancel::check(self.cancel).and_then(|()| row(sample, job)));
            };
            (sample, rows)
        };
        self.run_jobs(jobs, held, &rows, builder, progress)
    }

    /// Encodes jobs of several samples each, which follow each other, and places them behind those that the file has.
    ///
    /// `rows` gives the samples of a job to its function one after another, on any thread: each is encoded before the next
    /// one is asked for.
    ///
    /// # Errors
    ///
    /// See [`run`](Self::run).
    pub(super) fn run_rows<J: Rows, F: Read + Write + Seek + Send>(
        &self,
        jobs: impl Iterator<Item = J>,
        rows: impl Fn(J, TakeRow<'_>) + Sync,
        builder: &mut BetonBuilder<'_, F>,
    ) -> Result<PlacedValue, Error> {
        let rows = &rows;
        let of_job = |_: u64, job: J| (job.first(), move |take: TakeRow<'_>| rows(job, take));
        // Each job is a group of its own.
        self.run_jobs(jobs, |_| GROUP_BYTES, &of_job, builder, || ())
    }

    /// `rows` returns the first sample of a job by its number, and the function that gives its samples.
    fn run_jobs<J: Send, F: Read + Write + Seek + Send, R: FnOnce(TakeRow<'_>)>(
        &self,
        jobs: impl Iterator<Item = J>,
        held: impl Fn(&J) -> usize,
        rows: &(impl Fn(u64, J) -> (SampleId, R) + Sync),
        builder: &mut BetonBuilder<'_, F>,
        progress: impl Fn() + Send,
    ) -> Result<PlacedValue, Error> {
        // A group that is being claimed takes space, so that there are two for each worker.
        let queue = EncodeQueue::new(InOrder::new(BUDGET, 2 * self.threads));
        thread::scope(|scope| {
            // If `jobs` panics or a thread can't be started, this ends the threads: what was handed out
            // need not be encoded then.
            let _stop = queue.stop_on_drop();
            let queue = &queue;
            let place = move || self.place(queue, builder, progress);
            let refused =
                |source| Error::from(ThreadsError::Refused { wanted: self.threads + 1, source });
            // All are counted before the placer starts: without workers it would give up.
            let workers: Vec<_> = (0..self.threads).map(|_| Worker::new(queue)).collect();
            let placer = spawn(scope, "place", place).map_err(refused)?;
            for (number, worker) in workers.into_iter().enumerate() {
                let work = move || {
                    let mut pixels = self.pixels();
                    worker.work(|task| self.encode(task, rows, &mut pixels));
                };
                spawn(scope, &number.to_string(), work).map_err(refused)?;
            }
            hand_out(jobs, &held, queue);
            placer.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Places samples in order as they arrive.
    fn place<J, F: Read + Write + Seek>(
        &self,
        queue: &EncodeQueue<J>,
        builder: &mut BetonBuilder<'_, F>,
        progress: impl Fn(),
    ) -> Result<PlacedValue, Error> {
        let _stop = queue.stop_on_drop();
        let (mut placed, mut sample) = (PlacedValue::default(), self.first);
        loop {
            match queue.take(None, InOrder::take) {
                Ok(Taken::Result(outcomes)) => {
                    for outcome in outcomes {
                        self.place_one(SampleId(sample), outcome, builder, &mut placed)?;
                        sample = sample.saturating_add(1);
                        progress();
                    }
                }
                // The caller stops the queue if it fails itself, and does not use what is returned here.
                Ok(Taken::End) | Err(WaitError::Stopped) => break,
                // An error of a sample is a result, and so is a panic.
                Err(_) => panic!("an encoding thread ended without its result"),
            }
        }
        Ok(placed)
    }

    fn place_one<F: Read + Write + Seek>(
        &self,
        sample: SampleId,
        outcome: EncodeOutcome,
        builder: &mut BetonBuilder<'_, F>,
        placed: &mut PlacedValue,
    ) -> Result<(), Error> {
        match outcome {
            Ok(stored) => {
                builder.push(&stored).map_err(write_error(self.out))?;
                self.count(sample, stored, placed);
            }
            Err(FailedSample { path, cause }) if self.is_fatal(&cause) => {
                let path = path.or_else(|| (self.path_of)(sample));
                return Err(sample_error(sample, path.as_deref(), cause));
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
            Reencoded::count(&mut placed.images.reencoded, image.reencoded);
            if image.reencoded.is_some() {
                let (before, after) = (image.given_bytes, image.bytes.len() as u64);
                placed.images.reencoded_bytes.add(SizeChange { before, after });
            }
            placed.images.count(sample, &field.name, &image);
        }
    }

    fn is_fatal(&self, cause: &WriteSampleError) -> bool {
        self.on_damaged == OnUnreadable::Fail || !cause.is_damage()
    }

    fn pixels(&self) -> PixelReader {
        PixelReader::new(self.encoding.limits).warning(&self.encoding.unread)
    }

    /// Encodes the samples of a job. A panic becomes the error of the sample at which it happens.
    fn encode<J, R: FnOnce(TakeRow<'_>)>(
        &self,
        NumberedTask { number, task: job }: NumberedTask<J>,
        rows: &impl Fn(u64, J) -> (SampleId, R),
        pixels: &mut PixelReader,
    ) -> TaskResult<Vec<EncodeOutcome>> {
        let (mut result, mut is_last, mut path) = (vec![], false, None);
        let ended = caught(|| {
            let (SampleId(first), rows) = rows(number, job);
            rows(&mut |row| {
                let sample = SampleId(first.saturating_add(result.len() as u64));
                let encoded = row.and_then(|row| {
                    path = first_path(&row).map(ToOwned::to_owned);
                    self.encoding.sample(sample, row, pixels)
                });
                is_last |= encoded.as_ref().is_err_and(|cause| self.is_fatal(cause));
                result.push(encoded.map_err(|cause| FailedSample { path: path.take(), cause }));
                !is_last
            });
        });
        if let Err(message) = ended {
            // The panic may have left the decoder in any state, so it is replaced.
            *pixels = self.pixels();
            let cause = WriteSampleError::Panicked { message };
            result.push(Err(FailedSample { path: path.take(), cause }));
            is_last = true;
        }
        let bytes = result.iter().map(bytes).sum();
        TaskResult { number, bytes, result, is_last }
    }
}

/// Hands out jobs in order until none are left or the write is over. The sample that ended the write was
/// handed out earlier, so none of the remaining jobs can change which error is reported.
fn hand_out<J>(jobs: impl Iterator<Item = J>, held: &impl Fn(&J) -> usize, queue: &EncodeQueue<J>) {
    let submit = |group: Vec<J>| {
        let mut group = Some(group.into_iter());
        queue.submit(|state| state.push(&mut group)) == Some(true)
    };
    let (mut group, mut bytes, mut begun) = (Vec::new(), 0, Instant::now());
    for job in jobs {
        bytes += held(&job);
        group.push(job);
        let is_late = begun.elapsed() >= GROUP_TIME;
        if group.len() == GROUP_JOBS || bytes >= GROUP_BYTES || is_late {
            if !submit(std::mem::take(&mut group)) {
                return;
            }
            (bytes, begun) = (0, Instant::now());
        }
    }
    // A group is refused only after an error, which the placer returns.
    let _ = submit(group);
    let _ = queue.with(InOrder::close);
}

/// Starts a writer thread.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    threads::builder(format!("fuseloop-write-{name}"))?.spawn_scoped(scope, work)
}

/// Returns the bytes of memory that an outcome uses until it is placed. The outcome's own size counts
/// too, because a dataset may have no values in its pages at all.
fn bytes(outcome: &EncodeOutcome) -> usize {
    let stored = outcome.iter().flatten();
    let held =
        |stored: &StoredValue| size_of::<StoredValue>() + stored.in_pages().map_or(0, <[u8]>::len);
    size_of::<(SampleId, EncodeOutcome)>() + stored.map(held).sum::<usize>()
}
