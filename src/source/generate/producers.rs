//! The producer threads of a queue: the engine's workers, with counters.
//!
//! The [`QueueState`] records which items are generated and taken; it has no threads and does not wait.
//! No user code runs under the queue's lock: neither the user's function nor the `drop` of an item.

use super::Generator;
use super::error;
use super::flow::{Busy, Gauge, QueueStats};
use crate::error::Error;
use crate::panicked::message;
use crate::source::BoxError;
use crate::threads;
use fuseloop_engine::work_queue::{Claim, WaitError, WorkQueue, WorkState, Worker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A task of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerTask {
    /// The task's position in the stream, from 0.
    pub(super) position: u64,
    /// The argument of the user's function.
    pub(super) ticket: u64,
}

/// The result of the user's function for a ticket; `None` ends the stream.
pub(super) type Product<T> = Result<Option<T>, Error>;

/// Records which tickets are begun, generated and taken.
pub(super) trait QueueState: Send + 'static {
    /// The type of the items.
    type Item: Send + 'static;

    /// Returns the next task and records it as begun.
    fn claim(&mut self) -> Claim<ProducerTask>;

    /// The number of calls of `claim` that would not return [`Claim::Full`] now. A larger number is
    /// harmless.
    fn openings(&self) -> usize;

    /// Stores a result. Returns results that are no longer needed, to be dropped after the lock.
    fn enter(
        &mut self,
        job: ProducerTask,
        product: Product<Self::Item>,
    ) -> Vec<Product<Self::Item>>;

    /// The number of items generated and not taken.
    fn depth(&self) -> usize;

    /// Removes all results that are generated and not taken: no consumer will take them.
    fn clear(&mut self) -> Vec<Product<Self::Item>>;
}

/// The function that generates the items of a queue.
pub(super) type Make<T> = Arc<dyn Fn(ProducerTask) -> Result<Option<T>, BoxError> + Send + Sync>;

/// The running producers. Dropping this value ends them.
pub(super) struct Producers<B: QueueState> {
    queue: Arc<WorkQueue<Metered<B>>>,
    make: Make<B::Item>,
    threads: Vec<JoinHandle<()>>,
    name: String,
    capacity: usize,
    started: Instant,
    patience: Duration,
}

/// The state of a queue, and its counters.
struct Metered<B> {
    books: B,
    /// The tasks that producers work on, and since when.
    tasks: Vec<(ProducerTask, Instant)>,
    produced: u64,
    delivered: u64,
    producing: Gauge,
    producers_waiting: Gauge,
    consumers_waiting: Gauge,
    over: Option<Instant>,
}

impl<B: QueueState> WorkState for Metered<B> {
    type Task = ProducerTask;
    type Product = (ProducerTask, Product<B::Item>);
    type Surplus = Vec<Product<B::Item>>;

    fn claim(&mut self) -> Claim<ProducerTask> {
        let claim = self.books.claim();
        if let Claim::Task(task) = claim {
            self.tasks.push((task, Instant::now()));
            self.producing.set(self.tasks.len());
        }
        claim
    }

    fn openings(&self) -> usize {
        self.books.openings()
    }

    fn enter(&mut self, (task, product): Self::Product) -> Self::Surplus {
        self.tasks.retain(|(begun, _)| *begun != task);
        self.producing.set(self.tasks.len());
        self.produced += u64::from(matches!(product, Ok(Some(_))));
        self.books.enter(task, product)
    }

    fn clear(&mut self) -> Self::Surplus {
        self.books.clear()
    }

    fn waiting(&mut self, workers: usize, consumers: usize) {
        self.producers_waiting.set(workers);
        self.consumers_waiting.set(consumers);
    }
}

/// The answer to a consumer that asks for an item.
pub(super) enum TakeOutcome<R> {
    /// An item.
    Item(R),
    /// No item: there will be none for this consumer.
    None(R),
    /// No item yet.
    Wait,
}

impl<B: QueueState> Producers<B> {
    /// Starts the producers.
    ///
    /// # Errors
    ///
    /// If the settings are invalid, or the system can't start a thread. The threads already started are
    /// then ended.
    pub(super) fn start(
        generator: &Generator,
        books: B,
        make: Make<B::Item>,
    ) -> Result<Self, Error> {
        let Generator { name, producers, capacity, patience, .. } = generator;
        let state = Metered {
            books,
            tasks: vec![],
            produced: 0,
            delivered: 0,
            producing: Gauge::new(),
            producers_waiting: Gauge::new(),
            consumers_waiting: Gauge::new(),
            over: None,
        };
        let mut running = Self {
            queue: Arc::new(WorkQueue::new(state)),
            make,
            threads: vec![],
            name: name.clone(),
            capacity: *capacity,
            started: Instant::now(),
            patience: *patience,
        };
        for index in 0..*producers {
            running.spawn(index)?;
        }
        Ok(running)
    }

    fn spawn(&mut self, index: usize) -> Result<(), Error> {
        let worker = Worker::new(Arc::clone(&self.queue));
        let (name, function) = (self.name.clone(), Arc::clone(&self.make));
        // The queue's name is not used: a thread's name can't contain every character.
        let work = move || worker.work(|task| (task, make(&name, &function, task)));
        let thread =
            threads::builder(format!("producer-{index}")).and_then(|builder| builder.spawn(work));
        let thread = thread.map_err(|error| error::not_started(&self.name, index, &error))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Calls the user's function on this thread.
    pub(super) fn make(&self, job: ProducerTask) -> Product<B::Item> {
        make(&self.name, &self.make, job)
    }

    /// Calls `look` on the queue's state and wakes the producers that have more to do; `None` in a
    /// forked process.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut B) -> R) -> Option<R> {
        self.queue.with(|state| look(&mut state.books)).ok()
    }

    /// Blocks until `take` returns an answer.
    ///
    /// # Errors
    ///
    /// If `longest` has passed, all producers have ended, or this process was forked from that of the
    /// producers.
    pub(super) fn take<R>(
        &self,
        longest: Option<Duration>,
        mut take: impl FnMut(&mut B) -> TakeOutcome<R>,
    ) -> Result<R, WaitError> {
        self.queue.take(longest, |state| match take(&mut state.books) {
            TakeOutcome::Item(item) => {
                state.delivered += 1;
                Some(item)
            }
            TakeOutcome::None(why) => Some(why),
            TakeOutcome::Wait => None,
        })
    }

    /// The producers inside the user's function, and the number of all producers.
    pub(super) fn busy(&self) -> (Vec<Busy>, usize) {
        let busy = self.queue.with(|state| {
            let tasks = state.tasks.iter();
            tasks
                .map(|(task, since)| Busy { ticket: task.ticket, elapsed: since.elapsed() })
                .collect()
        });
        (busy.unwrap_or_default(), self.threads.len())
    }

    /// Returns true if every thread has ended or is about to. A forked process has no threads.
    pub(super) fn is_over(&self) -> bool {
        self.queue.is_over()
    }

    /// The counters of the queue; all 0 in a forked process.
    pub(super) fn stats(&self) -> QueueStats {
        let (producers, capacity, started) = (self.threads.len(), self.capacity, self.started);
        let stats = self.queue.with(|state| QueueStats {
            producers,
            capacity,
            produced: state.produced,
            delivered: state.delivered,
            depth: state.books.depth(),
            producing: state.producing.total(),
            producers_waited: state.producers_waiting.total(),
            consumer_waited: state.consumers_waiting.total(),
            elapsed: state.over.unwrap_or_else(Instant::now) - started,
        });
        stats.unwrap_or_else(|_| QueueStats { capacity, ..QueueStats::default() })
    }

    /// Tells the producers to end, and does not wait for them.
    pub(super) fn stop(&self) {
        // There is nothing to stop in a forked process.
        let _ = self.queue.with(|state| {
            state.over.get_or_insert_with(Instant::now);
        });
        self.queue.stop();
    }
}

/// Producers that wait for room end at once. A producer inside the user's function ends when the
/// function returns; `drop` waits for it, but only up to `patience`.
impl<B: QueueState> Drop for Producers<B> {
    fn drop(&mut self) {
        if self.queue.is_forked() {
            // A forked process has no such threads to join, and their lock may be held.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.stop();
        self.queue.wait_for_workers(self.patience);
        let over = self.is_over();
        for thread in self.threads.drain(..) {
            if over || thread.is_finished() {
                // If an item's `drop` panicked, its message has been printed already: the result is not
                // needed.
                let _ = thread.join();
            }
        }
    }
}

/// Calls the user's function. An error names the queue and the ticket.
fn make<T>(queue: &str, function: &Make<T>, job: ProducerTask) -> Product<T> {
    let ticket = job.ticket;
    match catch_unwind(AssertUnwindSafe(|| function(job))) {
        Ok(Ok(item)) => Ok(item),
        Ok(Err(error)) => Err(error::failed(queue, ticket, error)),
        Err(panic) => {
            let message = message(&*panic);
            // A second panic, in the drop of the first one's payload, adds no information.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            Err(error::panicked(queue, ticket, &message))
        }
    }
}
