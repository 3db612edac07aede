//! The engine: owns the threads and the slots, which live across runs.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::epoch::{EpochRun, Pass};
use super::job::Run;
use super::shared::{Patience, Shared};
use super::spans::EpochSpan;
use super::stage::Stage;
use super::worker;
use super::{Headroom, RunError, Trace};
use crate::batch::{BatchSpec, Pool};
use crate::sample::UNKNOWN;
use crate::sync::atomic::AtomicU64;
use crate::sync::counter::Ordering;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Mutex, PoisonError, Weak};
use crate::threads::{self, Process};

/// How an [`Engine`] is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Threads that fill rows, at most 1024. Default: as many as the process may use at once.
    pub workers: NonZeroUsize,
    /// Batches begun before they are asked for: bounds memory, and absorbs slow samples.
    /// Default 3.
    pub batches_ahead: NonZeroUsize,
    /// Most slots of one shape of batch, those held by the user included. `None`, the default:
    /// as many as the user holds, and `batches_ahead` besides.
    pub max_slots: Option<NonZeroUsize>,
    /// Most bytes of all slots of one shape of batch, those held by the user included: the smaller
    /// of this and `max_slots` counts. At least two slots must fit, or one where `batches_ahead` is
    /// 1: [an error](RunError::Budget) otherwise. Default `None`.
    pub max_bytes: Option<u64>,
    /// How long a call waits when all the slots there may be are held, before it is
    /// [an error](RunError::SlotsHeld). Default 30 s.
    pub slot_timeout: Duration,
    /// How long a call waits for a batch in work, before it is [an error](RunError::Stalled).
    /// Default `None`: for ever.
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
    /// Refuses more workers than may be asked for.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        Ok(threads::check("workers", self.workers.get())?)
    }
}

/// Worker threads and slots, for one run after another.
///
/// Runs may overlap; the one begun first has precedence, and each has its own batches ahead.
/// Dropping the engine ends its threads. Batches the user holds stay valid. In a process that was
/// forked from the engine's it and its runs give [an error](RunError::Threads) and nothing else.
pub struct Engine<S: Stage> {
    /// The process that has the threads.
    process: Process,
    shared: Arc<Shared<S>>,
    threads: Vec<JoinHandle<()>>,
    options: EngineOptions,
    /// The slots of the last run, for the next one of the same shape.
    pool: Mutex<Option<Arc<Pool>>>,
}

/// How long dropping an engine waits for a stage that does not return. Its thread is left behind
/// then, and ends when the stage returns.
const JOIN: Duration = Duration::from_secs(5);

/// Slots kept beside `batches_ahead` while unused: the batch the user has, and the one before it
/// when he takes the next before he drops it.
const HELD_USUALLY: usize = 2;

impl<S: Stage> Engine<S> {
    /// Starts the threads. They sleep until there is a run.
    ///
    /// # Errors
    ///
    /// If more workers are asked for than may be, or the system gives no thread: those already
    /// started are ended.
    pub fn new(options: EngineOptions) -> Result<Self, RunError> {
        options.check()?;
        let process = Process::current();
        let patience = Patience { slot: options.slot_timeout, stall: options.stall_timeout };
        let workers = options.workers.get();
        let shared = Arc::new(Shared::new(workers, options.batches_ahead.get() as u64, patience));
        let mut engine = Self { process, shared, threads: vec![], options, pool: Mutex::new(None) };
        for index in 0..workers {
            engine.spawn(index)?;
        }
        Ok(engine)
    }

    fn spawn(&mut self, index: usize) -> Result<(), RunError> {
        let shared = Arc::clone(&self.shared);
        shared.enlist();
        let thread = thread::Builder::new()
            .name(format!("fuseloop-{index}"))
            .spawn(move || worker::work(&shared, index));
        match thread {
            Ok(thread) => self.threads.push(thread),
            Err(source) => {
                self.shared.discharge();
                return Err(RunError::Spawn { worker: index, source });
            }
        }
        Ok(())
    }

    /// Begins a run. Its first batches are in work when this returns.
    ///
    /// # Errors
    ///
    /// If two outputs of the stage have one name, a batch of them can't be addressed, too few fit
    /// into [`max_bytes`](EngineOptions::max_bytes), or this process was forked from the engine's.
    /// All other errors come with the batch they belong to.
    pub fn start(&self, pass: Pass<S>) -> Result<EpochRun<S>, RunError> {
        self.check_process()?;
        let spec = BatchSpec::new(pass.stage.outputs(), pass.batch_size)?;
        let pool = self.pool(spec)?;
        let samples = pass.samples();
        let batch_size = pass.batch_size.get() as u64;
        let batches = match samples {
            UNKNOWN => UNKNOWN,
            _ => samples.div_ceil(batch_size).saturating_sub(pass.first_batch),
        };
        let Pass { stage, epoch, schedule, first_batch, last, delivery, .. } = pass;
        let workers = self.threads.len();
        let id = self.shared.begin(|id| Run {
            id,
            stage,
            epoch,
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

    /// Refuses a process that was forked from the engine's, which has none of its threads.
    ///
    /// # Errors
    ///
    /// [`RunError::Threads`].
    pub(crate) fn check_process(&self) -> Result<(), RunError> {
        Ok(self.process.check()?)
    }

    /// The slots of the last run if they fit, else an empty pool.
    fn pool(&self, spec: BatchSpec) -> Result<Arc<Pool>, RunError> {
        let cap = self.cap(&spec)?;
        let mut kept = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = kept.as_ref().filter(|pool| **pool.spec() == spec) {
            return Ok(Arc::clone(pool));
        }
        let shared: Weak<Shared<S>> = Arc::downgrade(&self.shared);
        let returned = move || {
            if let Some(shared) = shared.upgrade() {
                shared.wake_all();
            }
        };
        let keep = self.options.batches_ahead.get().saturating_add(HELD_USUALLY);
        let pool = Arc::new(Pool::new(Arc::new(spec), cap, keep, Box::new(returned)));
        Ok(kept.insert(pool).clone())
    }

    /// Most slots for batches of `spec`.
    fn cap(&self, spec: &BatchSpec) -> Result<Option<usize>, RunError> {
        let EngineOptions { max_slots, max_bytes, batches_ahead, .. } = self.options;
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

    /// How it was set up.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Where the time went, since the engine was made; nothing in a process that was forked from the
    /// engine's.
    #[must_use]
    pub fn headroom(&self) -> Headroom {
        if self.process.is_forked() {
            return Headroom::default();
        }
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let (slots, slots_allocated) = pool.as_ref().map_or((0, 0), |pool| pool.slots());
        let slot_bytes = pool.as_ref().map_or(0, |pool| pool.spec().bytes());
        let shared = &self.shared;
        Headroom {
            workers: shared.meters.iter().map(|meter| meter.times()).collect(),
            consumer_waited: shared.consumer.total(),
            batches: shared.batches.load(Ordering::Relaxed),
            samples: shared.samples.load(Ordering::Relaxed),
            slots,
            slots_allocated,
            slot_bytes: slot_bytes.saturating_mul(slots as u64),
        }
    }

    /// Begins a trace of what every thread does, with place for `limit` stretches a thread; what
    /// was traced before is dropped. 0 ends it. Without a trace it costs nothing.
    pub fn trace(&self, limit: usize) {
        if self.process.is_forked() {
            return;
        }
        self.shared.meters.iter().for_each(|meter| meter.tape().start(limit));
        self.shared.consumer.tape().start(limit);
    }

    /// Time since the engine was made: the clock of [`Event`](super::Event).
    #[must_use]
    pub fn clock(&self) -> Duration {
        self.shared.consumer.clock()
    }

    /// Takes out what was traced so far; the trace goes on. Stretches that are not over yet come
    /// with the next.
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        if self.process.is_forked() {
            return Trace::default();
        }
        let (consumer, mut lost) = self.shared.consumer.tape().take();
        let workers = self.shared.meters.iter().map(|meter| {
            let (events, more) = meter.tape().take();
            lost += more;
            events
        });
        Trace { workers: workers.collect(), consumer, lost }
    }
}

impl<S: Stage> Drop for Engine<S> {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // These threads are not here: there is nobody to wait for, and their locks may be held.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.shared.stop(JOIN);
        if self.shared.is_over() {
            for thread in self.threads.drain(..) {
                // A panic that got past the engine has been told to the consumer as `Stopped`.
                let _ = thread.join();
            }
        }
    }
}
