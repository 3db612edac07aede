//! The engine: owns the threads and the slots, which are reused across runs.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::epoch::{EpochRun, RunRequest};
use super::job::RunContext;
use super::shared::{EngineShared, WaitLimits};
use super::spans::EpochSpan;
use super::stage::Stage;
use super::worker;
use super::{Activity, RunError, Trace, Utilization, WaitHistogram};
use crate::batch::{BatchSpec, SlotPool};
use crate::sample::UNKNOWN;
use crate::sync::atomic::AtomicU64;
use crate::sync::counter::Ordering;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Mutex, PoisonError, Weak};
use crate::threads::{self, Process};

/// The options of an [`Engine`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// The number of threads that fill rows, at most 1024. Default: the available parallelism of the
    /// process.
    pub workers: NonZeroUsize,
    /// The number of batches started before they are requested: bounds memory, and absorbs slow samples.
    /// Default 3.
    pub batches_ahead: NonZeroUsize,
    /// The maximum number of slots of one batch shape, including those held by the user. `None`, the
    /// default: as many as the user holds, plus `batches_ahead`.
    pub max_slots: Option<NonZeroUsize>,
    /// The maximum number of bytes of all slots of one batch shape, including those held by the user;
    /// the smaller of this and `max_slots` applies. At least two slots must fit, or one if
    /// `batches_ahead` is 1; otherwise starting a run, and [`check_batches`](Self::check_batches), is
    /// [an error](RunError::Budget). Default `None`.
    pub max_bytes: Option<u64>,
    /// How long a call waits while all allowed slots are held, before it returns [an
    /// error](RunError::SlotsHeld). Default 30 s.
    pub slot_timeout: Duration,
    /// How long a call waits for a batch being filled, before it returns [an error](RunError::Stalled).
    /// Default `None`: forever.
    pub stall_timeout: Option<Duration>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        const AHEAD: NonZeroUsize = NonZeroUsize::new(3).expect("3 is not 0");
        Self {
            workers: thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            batches_ahead: AHEAD,
            max_slots: None,
            max_bytes: None,
            slot_timeout: Duration::from_secs(30),
            stall_timeout: None,
        }
    }
}

impl EngineOptions {
    /// Refuses more workers than the maximum.
    pub fn check(&self) -> Result<(), RunError> {
        Ok(threads::check("workers", self.workers.get())?)
    }

    /// Refuses a stage whose batches don't fit into [`max_bytes`](Self::max_bytes), as starting a run does.
    pub fn check_batches<S: Stage>(
        &self,
        stage: &S,
        batch_size: NonZeroUsize,
    ) -> Result<(), RunError> {
        self.slots(&BatchSpec::new(stage.outputs(), batch_size)?).map(drop)
    }

    /// Returns the maximum number of slots for batches of `spec`.
    fn slots(&self, spec: &BatchSpec) -> Result<Option<usize>, RunError> {
        let Self { max_slots, max_bytes, batches_ahead, .. } = *self;
        let max_slots = max_slots.map(NonZeroUsize::get);
        let slot_bytes = spec.bytes();
        let Some(max_bytes) = max_bytes.filter(|_| slot_bytes > 0) else { return Ok(max_slots) };
        let (fitting, needed) = (max_bytes / slot_bytes, batches_ahead.get().min(2) as u64);
        if fitting < needed {
            return Err(RunError::Budget { slot_bytes, needed, max_bytes });
        }
        let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
        Ok(Some(max_slots.map_or(fitting, |most| most.min(fitting))))
    }
}

/// Worker threads and slots, reused by every run.
///
/// Runs may overlap: the run started first has priority, and each run has its own batches ahead.
/// Dropping the engine ends its threads. Batches that the user holds stay valid. In a process forked
/// from the engine's, the engine and its runs only return [an error](RunError::Threads).
pub struct Engine<S: Stage> {
    /// The process that the threads belong to.
    process: Process,
    shared: Arc<EngineShared<S>>,
    threads: Vec<JoinHandle<()>>,
    options: EngineOptions,
    /// The slots of the last run, for the next run of the same shape.
    pool: Mutex<Option<Arc<SlotPool>>>,
}

/// How long dropping an engine waits for a stage that does not return. The thread is then detached, and
/// ends when the stage returns.
const JOIN: Duration = Duration::from_secs(5);

/// The number of unused slots kept in addition to `batches_ahead`: the batch that the user has, and the
/// previous one, if the user takes the next batch before dropping it.
const HELD_USUALLY: usize = 2;

impl<S: Stage> Engine<S> {
    /// Starts the threads, which sleep until a run starts.
    ///
    /// # Errors
    ///
    /// If there are too many workers, or the system can't create a thread; the threads already started
    /// are ended.
    pub fn new(options: EngineOptions) -> Result<Self, RunError> {
        options.check()?;
        let process = Process::current();
        let patience = WaitLimits { slot: options.slot_timeout, stall: options.stall_timeout };
        let workers = options.workers.get();
        let shared =
            Arc::new(EngineShared::new(workers, options.batches_ahead.get() as u64, patience));
        let mut engine = Self { process, shared, threads: vec![], options, pool: Mutex::new(None) };
        for index in 0..workers {
            engine.spawn(index)?;
        }
        Ok(engine)
    }

    fn spawn(&mut self, index: usize) -> Result<(), RunError> {
        let shared = Arc::clone(&self.shared);
        shared.thread_started();
        let builder = thread::Builder::new().name(format!("fuseloop-{index}"));
        let thread = threads::check_memory(1)
            .and_then(|()| builder.spawn(move || worker::work(&shared, index)));
        match thread {
            Ok(thread) => {
                self.threads.push(thread);
                self.shared.wait_for_workers(self.threads.len());
            }
            Err(source) => {
                self.shared.thread_exited();
                return Err(RunError::Spawn { worker: index, source });
            }
        }
        Ok(())
    }

    /// Starts a run. Its first batches are being filled when this returns.
    ///
    /// # Errors
    ///
    /// If two outputs of the stage have the same name, a batch is too large to address, too few batches
    /// fit into [`max_bytes`](EngineOptions::max_bytes), if this process was forked from the engine's, or if this
    /// thread is the engine's.
    /// All other errors are returned with the batch that they belong to.
    pub fn start(&self, pass: RunRequest<S>) -> Result<EpochRun<S>, RunError> {
        self.check_process()?;
        self.shared.check_thread()?;
        let spec = BatchSpec::new(pass.stage.outputs(), pass.batch_size)?;
        let pool = self.pool(spec)?;
        let samples = pass.samples();
        let batch_size = pass.batch_size.get() as u64;
        let batches = match samples {
            UNKNOWN => UNKNOWN,
            _ => samples.div_ceil(batch_size).saturating_sub(pass.first_batch),
        };
        let RunRequest { stage, epoch, origin, schedule, first_batch, last, delivery, .. } = pass;
        let workers = self.threads.len();
        let id = self.shared.begin(|id| RunContext {
            id,
            stage,
            epoch,
            origin,
            schedule,
            samples,
            batch_size,
            first_batch,
            last,
            delivery,
            pool,
            workers,
            oldest: AtomicU64::new(u64::MAX),
            span: EpochSpan::new(epoch, samples),
        });
        Ok(EpochRun::new(Arc::clone(&self.shared), self.process, id, batches))
    }

    /// Refuses a process that was forked from the engine's: such a process has none of the threads.
    ///
    /// # Errors
    ///
    /// [`RunError::Threads`].
    pub fn check_process(&self) -> Result<(), RunError> {
        Ok(self.process.check()?)
    }

    /// Returns the slots of the last run if they fit, otherwise an empty pool.
    fn pool(&self, spec: BatchSpec) -> Result<Arc<SlotPool>, RunError> {
        let cap = self.options.slots(&spec)?;
        let mut last = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = last.as_ref().filter(|pool| **pool.spec() == spec) {
            return Ok(Arc::clone(pool));
        }
        let shared: Weak<EngineShared<S>> = Arc::downgrade(&self.shared);
        let returned = move || {
            if let Some(shared) = shared.upgrade() {
                shared.wake_all();
            }
        };
        let keep = self.options.batches_ahead.get().saturating_add(HELD_USUALLY);
        let pool = Arc::new(SlotPool::new(Arc::new(spec), cap, keep, Box::new(returned)));
        Ok(last.insert(pool).clone())
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Returns where the time went since the engine was created. All times are zero in a process forked
    /// from the engine's.
    #[must_use]
    pub fn utilization(&self) -> Utilization {
        if self.process.is_forked() {
            return Utilization::default();
        }
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let (slots, slots_allocated) = pool.as_ref().map_or((0, 0), |pool| pool.slots());
        let slot_bytes = pool.as_ref().map_or(0, |pool| pool.spec().bytes());
        let shared = &self.shared;
        Utilization {
            workers: shared.meters.iter().map(|meter| meter.times()).collect(),
            consumer_waited: shared.consumer.total(),
            waits: self.waits(),
            batches: shared.batches.load(Ordering::Relaxed),
            samples: shared.samples.load(Ordering::Relaxed),
            ready: shared.ready(),
            slots,
            slots_allocated,
            slot_bytes: slot_bytes.saturating_mul(slots as u64),
        }
    }

    /// Returns how many delivered batches a consumer has waited for, by the length of the wait. Takes no lock.
    #[must_use]
    pub fn waits(&self) -> WaitHistogram {
        self.shared.consumer.waits()
    }

    /// Returns what each worker does at the moment. Takes no lock. In a process forked from the engine's there are no
    /// workers.
    #[must_use]
    pub fn activities(&self) -> Vec<Activity> {
        if self.process.is_forked() {
            return vec![];
        }
        self.shared.meters.iter().map(|meter| meter.activity()).collect()
    }

    /// Starts a trace of what every thread does, of at most `limit` events per thread. Events traced
    /// before are dropped. 0 ends the trace. There is no cost without a trace.
    pub fn trace(&self, limit: usize) {
        if self.process.is_forked() {
            return;
        }
        self.shared.meters.iter().for_each(|meter| meter.event_buffer().start(limit));
        self.shared.consumer.event_buffer().start(limit);
    }

    /// Returns the time since the engine was created: the clock of [`TraceEvent`](super::TraceEvent).
    #[must_use]
    pub fn clock(&self) -> Duration {
        self.shared.consumer.clock()
    }

    /// Takes the events traced so far; the trace continues. Events that have not ended come with the
    /// next call.
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        if self.process.is_forked() {
            return Trace::default();
        }
        let (consumer, mut lost) = self.shared.consumer.event_buffer().take();
        let workers = self.shared.meters.iter().map(|meter| {
            let (events, more) = meter.event_buffer().take();
            lost += more;
            events
        });
        Trace { workers: workers.collect(), consumer, lost }
    }
}

impl<S: Stage> Drop for Engine<S> {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // The threads belong to the parent process: there is nothing to wait for, and locks may be
            // held.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.shared.stop(JOIN);
        if self.shared.is_over() {
            for thread in self.threads.drain(..) {
                // The consumer was notified of a panic outside the stage by `Stopped`.
                let _ = thread.join();
            }
        }
    }
}
