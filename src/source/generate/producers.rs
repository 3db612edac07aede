//! The producer threads of a queue, and how producers and consumers wait for each other.
//!
//! | condition | waiting threads                | notified when                               |
//! |-----------|--------------------------------|---------------------------------------------|
//! | `room`    | producers                      | an item is taken or asked for; the stream is over |
//! | `news`    | consumers, and `drop`          | an item is generated; a thread ends         |
//!
//! The [`QueueState`] records which items are generated and taken; it has no threads and does not wait.
//! No user code runs under the lock: neither the user's function nor the `drop` of an item.

use super::error::GenerateErrorKind;
use super::flow::{Busy, Gauge, QueueStats};
use super::{GenerateError, Generator};
use crate::panicked::message;
use crate::source::BoxError;
use crate::threads::{Process, ThreadsError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A task of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProducerTask {
    /// The task's position in the stream, from 0.
    pub(super) place: u64,
    /// The argument of the user's function.
    pub(super) ticket: u64,
}

/// The result of the user's function for a ticket; `None` ends the stream.
pub(super) type Product<T> = Result<Option<T>, GenerateError>;

/// The answer to a producer that asks for a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// A task.
    Job(ProducerTask),
    /// No task now: the queue is full.
    Full,
    /// No more tasks.
    Over,
}

/// Records which tickets are begun, generated and taken.
pub(super) trait QueueState: Send + 'static {
    /// The type of the items.
    type Item: Send + 'static;

    /// Returns the next task and records it as begun.
    fn claim(&mut self) -> Claim;

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
    monitor: Arc<Monitor<B>>,
    make: Make<B::Item>,
    threads: Vec<JoinHandle<()>>,
    patience: Duration,
    /// The process that the threads run in.
    process: Process,
}

/// The state that all threads share.
struct Monitor<B> {
    state: Mutex<State<B>>,
    room: Condvar,
    news: Condvar,
    name: String,
    capacity: usize,
    started: Instant,
}

struct State<B> {
    books: B,
    /// For each producer: the ticket it works on, and since when.
    tasks: Vec<Option<(u64, Instant)>>,
    /// The number of producers that have not ended.
    alive: usize,
    stopping: bool,
    produced: u64,
    delivered: u64,
    producing: Gauge,
    producers_waiting: Gauge,
    consumers_waiting: Gauge,
    /// The number of threads that wait for `news` but are not consumers.
    watching: usize,
    over: Option<Instant>,
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

/// The reason why a consumer that waited got no item.
pub(super) enum WaitFailure {
    /// No item was ready in time.
    TimedOut,
    /// All producers have ended.
    ProducersEnded,
    /// The producers run in the process that this one was forked from.
    Forked(ThreadsError),
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
    ) -> Result<Self, GenerateError> {
        let Generator { name, producers, capacity, patience, .. } = generator;
        let state = State {
            books,
            tasks: vec![],
            alive: 0,
            stopping: false,
            produced: 0,
            delivered: 0,
            producing: Gauge::new(),
            producers_waiting: Gauge::new(),
            consumers_waiting: Gauge::new(),
            watching: 0,
            over: None,
        };
        let monitor = Monitor {
            state: Mutex::new(state),
            room: Condvar::new(),
            news: Condvar::new(),
            name: name.clone(),
            capacity: *capacity,
            started: Instant::now(),
        };
        let (monitor, patience) = (Arc::new(monitor), *patience);
        let process = Process::current();
        let mut running = Self { monitor, make, threads: vec![], patience, process };
        for index in 0..*producers {
            running.spawn(index)?;
        }
        Ok(running)
    }

    fn spawn(&mut self, index: usize) -> Result<(), GenerateError> {
        let (monitor, make) = (Arc::clone(&self.monitor), Arc::clone(&self.make));
        monitor.thread_started();
        // The queue's name is not used: a thread's name can't contain every character.
        let thread = thread::Builder::new()
            .name(format!("producer-{index}"))
            .spawn(move || produce(&monitor, index, &make));
        match thread {
            Ok(thread) => self.threads.push(thread),
            Err(source) => {
                self.monitor.thread_exited();
                let queue = self.monitor.name.clone();
                return Err(GenerateErrorKind::Spawn { queue, producer: index, source }.into());
            }
        }
        Ok(())
    }

    /// Calls the user's function on this thread.
    pub(super) fn make(&self, job: ProducerTask) -> Product<B::Item> {
        make(&self.monitor.name, &self.make, job)
    }

    /// Calls `look` on the queue's state and wakes the producers that have more to do; `None` in a
    /// forked process.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut B) -> R) -> Option<R> {
        if self.process.is_forked() {
            return None;
        }
        let mut state = self.monitor.lock();
        let found = look(&mut state.books);
        self.monitor.wake(&state);
        Some(found)
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
    ) -> Result<R, WaitFailure> {
        self.process.check().map_err(WaitFailure::Forked)?;
        let begun = Instant::now();
        let mut state = self.monitor.lock();
        loop {
            match take(&mut state.books) {
                TakeOutcome::Item(item) => {
                    state.delivered += 1;
                    self.monitor.wake(&state);
                    return Ok(item);
                }
                TakeOutcome::None(why) => return Ok(why),
                TakeOutcome::Wait if state.alive == 0 => return Err(WaitFailure::ProducersEnded),
                TakeOutcome::Wait => {}
            }
            let left = longest.map(|longest| longest.saturating_sub(begun.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(WaitFailure::TimedOut);
            }
            state.consumers_waiting.enter();
            state = self.monitor.wait_for_news(state, left);
            state.consumers_waiting.leave();
        }
    }

    /// The producers inside the user's function, and the number of all producers.
    pub(super) fn busy(&self) -> (Vec<Busy>, usize) {
        let state = self.monitor.lock();
        let desks = state.tasks.iter().flatten();
        let busy = desks.map(|&(ticket, since)| Busy { ticket, elapsed: since.elapsed() });
        (busy.collect(), state.tasks.len())
    }

    /// Returns true if every thread has ended or is about to. A forked process has no threads.
    pub(super) fn is_over(&self) -> bool {
        self.process.is_forked() || self.monitor.lock().alive == 0
    }

    /// The counters of the queue; all 0 in a forked process.
    pub(super) fn stats(&self) -> QueueStats {
        let Monitor { capacity, started, .. } = *self.monitor;
        if self.process.is_forked() {
            return QueueStats { capacity, ..QueueStats::default() };
        }
        let state = self.monitor.lock();
        QueueStats {
            producers: state.tasks.len(),
            capacity,
            produced: state.produced,
            delivered: state.delivered,
            depth: state.books.depth(),
            producing: state.producing.total(),
            producers_waited: state.producers_waiting.total(),
            consumer_waited: state.consumers_waiting.total(),
            elapsed: state.over.unwrap_or_else(Instant::now) - started,
        }
    }

    /// Tells the producers to end, and does not wait for them.
    pub(super) fn stop(&self) {
        if self.process.is_forked() {
            return;
        }
        let mut state = self.monitor.lock();
        state.stopping = true;
        state.over.get_or_insert_with(Instant::now);
        let left = state.books.clear();
        self.monitor.room.notify_all();
        drop(state);
        drop(left);
    }
}

/// Producers that wait for room end at once. A producer inside the user's function ends when the
/// function returns; `drop` waits for it, but only up to `patience`.
impl<B: QueueState> Drop for Producers<B> {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // A forked process has no such threads to join, and their lock may be held.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.stop();
        self.monitor.wait_for_all(self.patience);
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

impl<B: QueueState> Monitor<B> {
    /// The lock can't be poisoned: no code that can panic through a user's fault runs under it.
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a thread before it starts, so that it is counted at any time.
    fn thread_started(&self) {
        let mut state = self.lock();
        state.tasks.push(None);
        state.alive += 1;
    }

    /// Records that a thread has ended, or could not be started.
    fn thread_exited(&self) {
        self.lock().alive -= 1;
        self.news.notify_all();
    }

    /// Sleeps until `news` is notified or `longest` has passed.
    fn wait_for_news<'a>(
        &'a self,
        state: MutexGuard<'a, State<B>>,
        longest: Option<Duration>,
    ) -> MutexGuard<'a, State<B>> {
        match longest {
            None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(longest) => {
                let woken = self.news.wait_timeout(state, longest);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    fn wait_for_all(&self, longest: Duration) {
        let begun = Instant::now();
        let mut state = self.lock();
        state.watching += 1;
        while state.alive > 0 && begun.elapsed() < longest {
            let left = longest.saturating_sub(begun.elapsed());
            state = self.wait_for_news(state, Some(left));
        }
        state.watching -= 1;
    }

    /// Wakes as many waiting producers as there are tasks.
    fn wake(&self, state: &State<B>) {
        let waiting = state.producers_waiting.count();
        match state.books.openings().min(waiting) {
            0 => {}
            all if all == waiting => self.room.notify_all(),
            some => (0..some).for_each(|_| self.room.notify_one()),
        }
    }

    /// Blocks until there is a task; `None` when there are no more.
    fn claim(&self, index: usize) -> Option<ProducerTask> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            match state.books.claim() {
                Claim::Job(job) => {
                    state.tasks[index] = Some((job.ticket, Instant::now()));
                    state.producing.enter();
                    return Some(job);
                }
                Claim::Over => {
                    // The other producers that wait for room will not get a task either.
                    self.room.notify_all();
                    return None;
                }
                Claim::Full => {
                    state.producers_waiting.enter();
                    state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.producers_waiting.leave();
                }
            }
        }
    }

    /// Stores the result of a producer.
    fn enter(&self, index: usize, job: ProducerTask, product: Product<B::Item>) {
        let mut state = self.lock();
        state.tasks[index] = None;
        state.producing.leave();
        state.produced += u64::from(matches!(product, Ok(Some(_))));
        let mut surplus = state.books.enter(job, product);
        if state.stopping {
            surplus.extend(state.books.clear());
        }
        self.wake(&state);
        if state.consumers_waiting.count() + state.watching > 0 {
            self.news.notify_all();
        }
        drop(state);
        drop(surplus);
    }
}

/// The body of a producer thread: works until the stream is over or its consumer is gone.
fn produce<B: QueueState>(monitor: &Monitor<B>, index: usize, function: &Make<B::Item>) {
    let _discharged = ProducerExit(monitor);
    while let Some(job) = monitor.claim(index) {
        let product = make(&monitor.name, function, job);
        monitor.enter(index, job, product);
    }
}

/// Calls the user's function. An error names the queue and the ticket.
fn make<T>(queue: &str, function: &Make<T>, job: ProducerTask) -> Product<T> {
    let (queue, ticket) = (|| queue.to_owned(), job.ticket);
    match catch_unwind(AssertUnwindSafe(|| function(job))) {
        Ok(Ok(item)) => Ok(item),
        Ok(Err(source)) => Err(GenerateErrorKind::Failed { queue: queue(), ticket, source }.into()),
        Err(panic) => {
            let message = message(&*panic);
            // A second panic, in the drop of the first one's payload, adds no information.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            Err(GenerateErrorKind::Panicked { queue: queue(), ticket, message }.into())
        }
    }
}

/// Records the end of a thread, whether it returns or panics.
struct ProducerExit<'a, B: QueueState>(&'a Monitor<B>);

impl<B: QueueState> Drop for ProducerExit<'_, B> {
    fn drop(&mut self) {
        self.0.thread_exited();
    }
}
