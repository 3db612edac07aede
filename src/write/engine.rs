//! From jobs to a file: encoding in parallel, placing in order.
//!
//! ```text
//! jobs -> chunk -> [encode on the pool, in parallel] -> chunk of outcomes
//!                                    -> [place, one thread, in order] -> Builder
//! ```
//!
//! Only the placing decides where bytes lie, so the file is the same for any number of
//! threads. One chunk is encoded while one is placed and one waits: memory is bounded by three
//! chunks, each of about [`CHUNK_BYTES`], whatever the length of the dataset.
//!
//! A fatal error ends the work on samples after it at once; those before it are still encoded,
//! since one of them may fail as well and the first in order is the one reported.

use super::file::{Builder, Finished};
use super::image::StoredImage;
use super::pixels::Pixels;
use super::report::{Skipped, SkippedSample};
use super::value::{Encoding, Failed, FieldValue, SampleError, Stored, first_path};
use super::{Damaged, WriteError};
use crate::sample::SampleId;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::io::{self, Read, Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Bytes that a chunk's samples should take: enough work for many threads, little memory.
const CHUNK_BYTES: usize = 64 << 20;

/// Most samples of a chunk: small ones cost more in bookkeeping than in bytes.
const CHUNK_SAMPLES: usize = 1 << 14;

/// Samples of the first chunk, for each thread: their sizes are not known yet.
const FIRST_CHUNK: usize = 8;

/// What encodes samples.
pub(super) struct Engine<'a> {
    pub(super) encoding: &'a Encoding<'a>,
    pub(super) pool: &'a rayon::ThreadPool,
    pub(super) damaged: Damaged,
}

/// What was placed.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) skipped: Skipped,
    pub(super) passed_through: u64,
}

/// A chunk's samples in order; `None` for those after a fatal error.
type Outcomes = Vec<Option<Result<Vec<Stored>, Failed>>>;

impl Engine<'_> {
    /// Encodes all jobs and places them.
    ///
    /// `row` makes a job's values, on any thread; `held` says how much memory a job takes;
    /// `placed` is told how many samples of the input have been dealt with.
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
        progress: impl Fn(u64) + Send,
    ) -> Result<(Finished, Placed), EngineError> {
        let first_fatal = AtomicU64::new(u64::MAX);
        thread::scope(|scope| {
            let (send, receive) = sync_channel(1);
            let placer = scope.spawn(|| self.place(receive, builder, progress));
            let mut jobs = (0..).map(SampleId).zip(jobs).peekable();
            let mut most = self.pool.current_num_threads() * FIRST_CHUNK;
            while jobs.peek().is_some() {
                let chunk = take_chunk(&mut jobs, most, &held);
                let outcomes = self.encode(chunk, &row, &first_fatal);
                most = self.next_chunk(&outcomes);
                if send.send(outcomes).is_err() {
                    break; // the placer has met an error, and returns it
                }
            }
            drop(send);
            placer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Encodes a chunk on the pool.
    fn encode<J: Send>(
        &self,
        chunk: Vec<(SampleId, J)>,
        row: &(impl Fn(SampleId, J) -> Result<Vec<FieldValue>, SampleError> + Sync),
        first_fatal: &AtomicU64,
    ) -> Outcomes {
        let new_pixels = || Pixels::new(self.encoding.limits);
        let encode = |pixels: &mut Pixels, (sample, job): (SampleId, J)| {
            if sample.0 > first_fatal.load(Ordering::Relaxed) {
                return None;
            }
            let outcome = self.encode_one(sample, || row(sample, job), pixels);
            if let Err(failed) = &outcome
                && self.is_fatal(&failed.cause)
            {
                first_fatal.fetch_min(sample.0, Ordering::Relaxed);
            }
            Some(outcome)
        };
        self.pool.install(|| chunk.into_par_iter().map_init(new_pixels, encode).collect())
    }

    /// Encodes a sample. A panic becomes its error.
    fn encode_one(
        &self,
        sample: SampleId,
        row: impl FnOnce() -> Result<Vec<FieldValue>, SampleError>,
        pixels: &mut Pixels,
    ) -> Result<Vec<Stored>, Failed> {
        let mut path = None;
        let encode = || {
            let row = row()?;
            path = first_path(&row).map(ToOwned::to_owned);
            self.encoding.sample(sample, row, pixels)
        };
        let outcome = catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|panic| {
            // Whatever state the panic has left it in is not used again.
            *pixels = Pixels::new(self.encoding.limits);
            Err(SampleError::Panicked { message: message(&*panic) })
        });
        outcome.map_err(|cause| Failed { path, cause })
    }

    fn is_fatal(&self, cause: &SampleError) -> bool {
        self.damaged == Damaged::Fail || !cause.is_damage()
    }

    /// How many samples the next chunk may have if they are as large as these.
    fn next_chunk(&self, outcomes: &Outcomes) -> usize {
        let stored = outcomes.iter().flatten().flatten().flatten();
        let bytes: usize = stored.filter_map(Stored::in_pages).map(<[u8]>::len).sum();
        let most = CHUNK_BYTES / (bytes / outcomes.len().max(1)).max(1);
        most.min(CHUNK_SAMPLES).max(self.pool.current_num_threads())
    }

    /// Places chunks as they come, in order.
    fn place<F: Read + Write + Seek>(
        &self,
        chunks: Receiver<Outcomes>,
        mut builder: Builder<'_, F>,
        progress: impl Fn(u64),
    ) -> Result<(Finished, Placed), EngineError> {
        let mut placed = Placed::default();
        let mut sample = 0;
        for chunk in chunks {
            let len = chunk.len() as u64;
            for outcome in chunk.into_iter().flatten() {
                match outcome {
                    Ok(stored) => {
                        placed.passed_through += passed_through(&stored);
                        builder.push(&stored)?;
                    }
                    Err(Failed { path, cause }) if self.is_fatal(&cause) => {
                        return Err(EngineError::Sample { sample: SampleId(sample), path, cause });
                    }
                    Err(Failed { path, cause }) => {
                        let sample = SampleId(sample);
                        placed.skipped.add(SkippedSample { sample, path, cause });
                    }
                }
                sample += 1;
            }
            progress(len);
        }
        Ok((builder.finish()?, placed))
    }
}

/// Why the work ended.
pub(super) enum EngineError {
    Sample { sample: SampleId, path: Option<std::path::PathBuf>, cause: SampleError },
    Write(io::Error),
}

impl From<io::Error> for EngineError {
    fn from(source: io::Error) -> Self {
        Self::Write(source)
    }
}

impl EngineError {
    /// With the path of the file that was being written.
    pub(super) fn at(self, writing: &std::path::Path) -> WriteError {
        match self {
            Self::Sample { sample, path, cause } => WriteError::Sample { sample, path, cause },
            Self::Write(source) => WriteError::Write { path: writing.to_owned(), source },
        }
    }
}

/// The next jobs: at most `most`, and about [`CHUNK_BYTES`].
fn take_chunk<J>(
    jobs: &mut impl Iterator<Item = (SampleId, J)>,
    most: usize,
    held: &impl Fn(&J) -> usize,
) -> Vec<(SampleId, J)> {
    let mut bytes = 0;
    let mut chunk = Vec::new();
    while chunk.len() < most && bytes < CHUNK_BYTES {
        let Some(job) = jobs.next() else { break };
        bytes += held(&job.1);
        chunk.push(job);
    }
    chunk
}

fn passed_through(sample: &[Stored]) -> u64 {
    let untouched = |stored: &&Stored| {
        matches!(stored, Stored::Image(StoredImage { passed_through: true, .. }))
    };
    sample.iter().filter(untouched).count() as u64
}

/// What a panic said.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "no message".to_owned(),
    }
}
