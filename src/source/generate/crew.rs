//! The threads of a queue, and how they and those who take items wait for each other.
//!
//! | condition | who waits                      | who tells                                  |
//! |-----------|--------------------------------|--------------------------------------------|
//! | `room`    | producers                      | an item taken or asked for; the stream over |
//! | `news`    | those who take items, and drop | an item made; a thread gone                 |
//!
//! What is made and taken is in the [`Books`]: no thread and no waiting there. No code of the user's
//! runs under the lock: not his function, and no `drop` of his items.

use super::flow::{Busy, Flow, Gauge};
use super::{GenerateError, Generator};
use crate::panicked::message;
use crate::source::BoxError;
use crate::threads::{Process, ThreadsError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What a producer is given to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Its place in the stream, from 0.
    pub(super) place: u64,
    /// What the user's function is called with.
    pub(super) ticket: u64,
}

/// What the user's function made of a ticket: `None` ends the stream.
pub(super) type Product<T> = Result<Option<T>, GenerateError>;

/// What a producer finds when it looks for work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// A ticket.
    Job(Job),
    /// Nothing now, for want of room.
    Full,
    /// Nothing any more.
    Over,
}

/// Which tickets are begun, made, taken.
pub(super) trait Books: Send + 'static {
    /// What is made.
    type Item: Send + 'static;

    /// The next ticket, entered as begun.
    fn claim(&mut self) -> Claim;

    /// How many times `claim` would give something other than [`Claim::Full`] now. More is no harm.
    fn openings(&self) -> usize;

    /// Enters what was made. What is of no use is given back, to be dropped after the lock.
    fn enter(&mut self, job: Job, product: Product<Self::Item>) -> Vec<Product<Self::Item>>;

    /// Items made and not taken.
    fn depth(&self) -> usize;

    /// All that is made and not taken: nobody will take it.
    fn clear(&mut self) -> Vec<Product<Self::Item>>;
}

/// How the items of a queue are made.
pub(super) type Make<T> = Arc<dyn Fn(Job) -> Result<Option<T>, BoxError> + Send + Sync>;

/// Producers at work. Dropping it ends them.
pub(super) struct Crew<B: Books> {
    monitor: Arc<Monitor<B>>,
    make: Make<B::Item>,
    threads: Vec<JoinHandle<()>>,
    patience: Duration,
    /// The process that has the threads.
    process: Process,
}

/// What all threads share.
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
    /// What each producer is at, and since when.
    desks: Vec<Option<(u64, Instant)>>,
    /// Producers that have not ended.
    alive: usize,
    stopping: bool,
    produced: u64,
    delivered: u64,
    producing: Gauge,
    producers_waiting: Gauge,
    consumers_waiting: Gauge,
    /// Threads in `news` for another reason.
    watching: usize,
    over: Option<Instant>,
}

/// What one who takes items finds in the books.
pub(super) enum Taken<R> {
    /// An item.
    Item(R),
    /// That there will be none for him.
    None(R),
    /// Nothing yet.
    Wait,
}

/// Why one who waited got nothing.
pub(super) enum Vain {
    /// Nothing came in time.
    TimedOut,
    /// Nobody is left who could make something.
    Deserted,
    /// The producers are in the process that this one was forked from.
    Forked(ThreadsError),
}

impl<B: Books> Crew<B> {
    /// Starts the producers.
    ///
    /// # Errors
    ///
    /// If the settings are none, or the system gives no thread: those already started are ended.
    pub(super) fn start(
        generator: &Generator,
        books: B,
        make: Make<B::Item>,
    ) -> Result<Self, GenerateError> {
        let Generator { name, producers, capacity, patience, .. } = generator;
        let state = State {
            books,
            desks: vec![],
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
        let mut crew = Self { monitor, make, threads: vec![], patience, process };
        for index in 0..*producers {
            crew.spawn(index)?;
        }
        Ok(crew)
    }

    fn spawn(&mut self, index: usize) -> Result<(), GenerateError> {
        let (monitor, make) = (Arc::clone(&self.monitor), Arc::clone(&self.make));
        monitor.enlist();
        // Not the queue's name: a thread's name must not hold every character.
        let thread = thread::Builder::new()
            .name(format!("producer-{index}"))
            .spawn(move || produce(&monitor, index, &make));
        match thread {
            Ok(thread) => self.threads.push(thread),
            Err(source) => {
                self.monitor.discharge();
                let queue = self.monitor.name.clone();
                return Err(GenerateError::Spawn { queue, producer: index, source });
            }
        }
        Ok(())
    }

    /// Calls the user's function on this thread.
    pub(super) fn make(&self, job: Job) -> Product<B::Item> {
        make(&self.monitor.name, &self.make, job)
    }

    /// Looks into the books, and wakes those for whom there is more to do; `None` in a forked process.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut B) -> R) -> Option<R> {
        if self.process.is_forked() {
            return None;
        }
        let mut state = self.monitor.lock();
        let found = look(&mut state.books);
        self.monitor.wake(&state);
        Some(found)
    }

    /// Waits until `take` finds something.
    ///
    /// # Errors
    ///
    /// If `longest` is over, no producer is left that could make something, or this process was forked
    /// from theirs.
    pub(super) fn take<R>(
        &self,
        longest: Option<Duration>,
        mut take: impl FnMut(&mut B) -> Taken<R>,
    ) -> Result<R, Vain> {
        self.process.check().map_err(Vain::Forked)?;
        let begun = Instant::now();
        let mut state = self.monitor.lock();
        loop {
            match take(&mut state.books) {
                Taken::Item(item) => {
                    state.delivered += 1;
                    self.monitor.wake(&state);
                    return Ok(item);
                }
                Taken::None(why) => return Ok(why),
                Taken::Wait if state.alive == 0 => return Err(Vain::Deserted),
                Taken::Wait => {}
            }
            let left = longest.map(|longest| longest.saturating_sub(begun.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(Vain::TimedOut);
            }
            state.consumers_waiting.enter();
            state = self.monitor.wait_for_news(state, left);
            state.consumers_waiting.leave();
        }
    }

    /// The producers inside the user's function, and how many there are in all.
    pub(super) fn busy(&self) -> (Vec<Busy>, usize) {
        let state = self.monitor.lock();
        let desks = state.desks.iter().flatten();
        let busy = desks.map(|&(ticket, since)| Busy { ticket, elapsed: since.elapsed() });
        (busy.collect(), state.desks.len())
    }

    /// Whether every thread has ended, or is about to. In a forked process there is none.
    pub(super) fn is_over(&self) -> bool {
        self.process.is_forked() || self.monitor.lock().alive == 0
    }

    /// Where the time went; nothing in a forked process.
    pub(super) fn flow(&self) -> Flow {
        let Monitor { capacity, started, .. } = *self.monitor;
        if self.process.is_forked() {
            return Flow { capacity, ..Flow::default() };
        }
        let state = self.monitor.lock();
        Flow {
            producers: state.desks.len(),
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

    /// Tells the producers to end, and waits for none.
    pub(super) fn dismiss(&self) {
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

/// Producers that wait for room end at once. One inside the user's function ends when that returns;
/// it is waited for, but not for ever.
impl<B: Books> Drop for Crew<B> {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // These threads are not here: there is nobody to wait for, and their lock may be held.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.dismiss();
        self.monitor.wait_for_all(self.patience);
        let over = self.is_over();
        for thread in self.threads.drain(..) {
            if over || thread.is_finished() {
                // A panic of an item's `drop` has shown its message; nobody waits for more.
                let _ = thread.join();
            }
        }
    }
}

impl<B: Books> Monitor<B> {
    /// Nothing that can panic for a user's reason runs under the lock: it can't be poisoned.
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a thread that is about to start, so that none is forgotten in between.
    fn enlist(&self) {
        let mut state = self.lock();
        state.desks.push(None);
        state.alive += 1;
    }

    /// Notes that a thread has ended, or never began.
    fn discharge(&self) {
        self.lock().alive -= 1;
        self.news.notify_all();
    }

    /// Sleeps until something is told, or `longest` is over.
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

    /// Wakes as many waiting producers as there is work for.
    fn wake(&self, state: &State<B>) {
        let waiting = state.producers_waiting.count();
        match state.books.openings().min(waiting) {
            0 => {}
            all if all == waiting => self.room.notify_all(),
            some => (0..some).for_each(|_| self.room.notify_one()),
        }
    }

    /// Waits for a ticket; `None` when there will be none.
    fn claim(&self, index: usize) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            match state.books.claim() {
                Claim::Job(job) => {
                    state.desks[index] = Some((job.ticket, Instant::now()));
                    state.producing.enter();
                    return Some(job);
                }
                Claim::Over => {
                    // Those who wait for room have nothing to wait for either.
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

    /// Enters what a producer made.
    fn enter(&self, index: usize, job: Job, product: Product<B::Item>) {
        let mut state = self.lock();
        state.desks[index] = None;
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

/// What a producer does until the stream is over or nobody takes it.
fn produce<B: Books>(monitor: &Monitor<B>, index: usize, function: &Make<B::Item>) {
    let _discharged = Discharge(monitor);
    while let Some(job) = monitor.claim(index) {
        let product = make(&monitor.name, function, job);
        monitor.enter(index, job, product);
    }
}

/// Calls the user's function. What goes wrong names the queue and the ticket.
fn make<T>(queue: &str, function: &Make<T>, job: Job) -> Product<T> {
    let (queue, ticket) = (|| queue.to_owned(), job.ticket);
    match catch_unwind(AssertUnwindSafe(|| function(job))) {
        Ok(Ok(item)) => Ok(item),
        Ok(Err(source)) => Err(GenerateError::Failed { queue: queue(), ticket, source }),
        Err(panic) => {
            let message = message(&*panic);
            // A second panic, in its drop, says nothing new.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            Err(GenerateError::Panicked { queue: queue(), ticket, message })
        }
    }
}

/// Notes the end of a thread, however it ends.
struct Discharge<'a, B: Books>(&'a Monitor<B>);

impl<B: Books> Drop for Discharge<'_, B> {
    fn drop(&mut self) {
        self.0.discharge();
    }
}
