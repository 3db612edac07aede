//! A work queue: threads claim tasks and enter results, consumers take results, in the order that the
//! queue's state defines.
//!
//! ```text
//!   submit            claim                       enter             take
//!  ────────▶ state ─────────▶ worker: the task ─────────▶ state ─────────▶ consumer
//! ```
//!
//! | condition | waiting threads                 | notified when                                      |
//! |-----------|---------------------------------|----------------------------------------------------|
//! | `room`    | workers                         | the state has tasks again; the queue stops         |
//! | `news`    | consumers, and who waits for the workers | a result is entered; a worker ends; the queue stops |
//! | `space`   | submitters                      | a task is claimed or a result is entered, and the state has space; the queue stops |
//!
//! A [`WorkState`] records which tasks are claimed and which results are entered and taken; it has no
//! threads and does not wait. No user code runs under the lock: neither a task nor the drop of a result.
//! A wake-up is a system call, so it is made only if a thread sleeps.
//!
//! A worker that panics ends the queue: a consumer that waits for the lost result gets
//! [an error](WaitError::WorkersEnded).

mod in_order;
mod streams;

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

pub use self::in_order::{InOrder, NumberedTask, Taken, TaskResult};
pub use self::streams::{NumberedStream, StreamQueue, StreamRead, Streams};
use crate::sync::{Condvar, Instant, Mutex, MutexGuard, PoisonError};
use crate::threads::{Process, ThreadsError};

/// Records which tasks are claimed, and which results are entered and taken.
pub trait WorkState {
    /// The work that one worker claims.
    type Task;
    /// The result of a task.
    type Product;
    /// Results that no consumer will take. They are dropped after the lock is released.
    type Surplus;

    /// Returns the next task and records it as claimed.
    fn claim(&mut self) -> Claim<Self::Task>;

    /// Returns the number of calls of [`claim`](Self::claim) that would not return [`Claim::Full`] now. A
    /// larger number is harmless.
    fn openings(&self) -> usize;

    /// Stores a result.
    fn enter(&mut self, product: Self::Product) -> Self::Surplus;

    /// Removes all results that are entered and not taken: the queue stops, and no consumer will take
    /// them.
    fn clear(&mut self) -> Self::Surplus;

    /// Returns true if a submitter that waited would find space now.
    fn has_space(&self) -> bool {
        false
    }

    /// Records how many workers and consumers are waiting now.
    fn waiting(&mut self, workers: usize, consumers: usize) {
        let _ = (workers, consumers);
    }
}

/// The answer to a worker that asks for a task.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim<T> {
    /// A task.
    Task(T),
    /// No task now.
    Full,
    /// No more tasks.
    Over,
}

/// Why a thread that waited got nothing.
#[derive(Debug)]
pub enum WaitError {
    /// Nothing came in time.
    TimedOut,
    /// The queue was stopped.
    Stopped,
    /// All workers have ended, or one of them has panicked.
    WorkersEnded,
    /// The workers run in the process that this one was forked from.
    Forked(ThreadsError),
}

/// A queue that threads work on. See the top of the file.
pub struct WorkQueue<S> {
    shared: Mutex<Shared<S>>,
    room: Condvar,
    news: Condvar,
    space: Condvar,
    /// The process that the workers run in.
    process: Process,
}

struct Shared<S> {
    state: S,
    /// The number of workers that have not ended.
    workers: usize,
    workers_waiting: usize,
    consumers_waiting: usize,
    submitters_waiting: usize,
    /// The number of threads that wait until all workers have ended.
    watching: usize,
    /// The workers get no more tasks.
    is_stopped: bool,
    /// A worker has panicked in a task, whose result will not come.
    is_broken: bool,
}

impl<S: WorkState> WorkQueue<S> {
    /// Creates a queue without workers.
    pub fn new(state: S) -> Self {
        let shared = Shared {
            state,
            workers: 0,
            workers_waiting: 0,
            consumers_waiting: 0,
            submitters_waiting: 0,
            watching: 0,
            is_stopped: false,
            is_broken: false,
        };
        let (room, news, space) = (Condvar::new(), Condvar::new(), Condvar::new());
        Self { shared: Mutex::new(shared), room, news, space, process: Process::current() }
    }

    /// No user code runs under the lock, so a panic in it can't poison the lock.
    fn lock(&self) -> MutexGuard<'_, Shared<S>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true in a process that was forked from that of the workers. Such a process has none of the
    /// threads, and their lock may be held.
    pub fn is_forked(&self) -> bool {
        self.process.is_forked()
    }

    /// Changes the state and wakes the workers that have more to do.
    ///
    /// # Errors
    ///
    /// In a forked process.
    pub fn with<R>(&self, change: impl FnOnce(&mut S) -> R) -> Result<R, ThreadsError> {
        self.process.check()?;
        let mut shared = self.lock();
        let found = change(&mut shared.state);
        self.wake_workers(&shared);
        Ok(found)
    }

    /// Waits until `take` returns something.
    ///
    /// # Errors
    ///
    /// If `longest` has passed, the queue was stopped, the workers have ended, or this process was forked.
    pub fn take<R>(
        &self,
        longest: Option<Duration>,
        mut take: impl FnMut(&mut S) -> Option<R>,
    ) -> Result<R, WaitError> {
        self.process.check().map_err(WaitError::Forked)?;
        let begun = Instant::now();
        let mut shared = self.lock();
        loop {
            let taken = take(&mut shared.state);
            self.wake_workers(&shared);
            if let Some(taken) = taken {
                return Ok(taken);
            }
            if shared.is_stopped {
                return Err(WaitError::Stopped);
            }
            if shared.workers == 0 || shared.is_broken {
                return Err(WaitError::WorkersEnded);
            }
            let left = longest.map(|longest| longest.saturating_sub(begun.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(WaitError::TimedOut);
            }
            shared.consumers_waiting += 1;
            shared.note_waiting();
            shared = self.wait_for_news(shared, left);
            shared.consumers_waiting -= 1;
            shared.note_waiting();
        }
    }

    /// Waits until `submit` returns something: it returns `None` while the state has no space. Returns
    /// `None` if the queue has stopped.
    pub fn submit<R>(&self, mut submit: impl FnMut(&mut S) -> Option<R>) -> Option<R> {
        let mut shared = self.lock();
        loop {
            if shared.is_stopped || shared.is_broken {
                return None;
            }
            if let Some(submitted) = submit(&mut shared.state) {
                self.wake_workers(&shared);
                return Some(submitted);
            }
            shared.submitters_waiting += 1;
            shared = self.space.wait(shared).unwrap_or_else(PoisonError::into_inner);
            shared.submitters_waiting -= 1;
        }
    }

    /// Tells the workers to end, and does not wait for them. Does nothing in a forked process.
    pub fn stop(&self) {
        if self.is_forked() {
            return;
        }
        let mut shared = self.lock();
        shared.is_stopped = true;
        let surplus = shared.state.clear();
        self.notify_all();
        drop(shared);
        drop(surplus);
    }

    /// Returns a guard that stops the queue when it is dropped.
    pub fn stop_on_drop(&self) -> impl Drop + '_ {
        StopOnDrop(self)
    }

    /// Returns true if all workers have ended or are about to. A forked process has none.
    pub fn is_over(&self) -> bool {
        self.is_forked() || self.lock().workers == 0
    }

    /// Waits, at most `longest`, until all workers have ended.
    pub fn wait_for_workers(&self, longest: Duration) {
        let begun = Instant::now();
        let mut shared = self.lock();
        shared.watching += 1;
        while shared.workers > 0 && begun.elapsed() < longest {
            let left = longest.saturating_sub(begun.elapsed());
            shared = self.wait_for_news(shared, Some(left));
        }
        shared.watching -= 1;
    }

    /// Wakes as many waiting workers as there are tasks.
    fn wake_workers(&self, shared: &Shared<S>) {
        let waiting = shared.workers_waiting;
        if waiting == 0 {
            return;
        }
        match shared.state.openings().min(waiting) {
            0 => {}
            all if all == waiting => self.room.notify_all(),
            some => (0..some).for_each(|_| self.room.notify_one()),
        }
    }

    fn wake_submitters(&self, shared: &Shared<S>) {
        if shared.submitters_waiting > 0 && shared.state.has_space() {
            self.space.notify_all();
        }
    }

    fn notify_all(&self) {
        self.room.notify_all();
        self.news.notify_all();
        self.space.notify_all();
    }

    /// Sleeps until there is news or `longest` has passed.
    fn wait_for_news<'a>(
        &'a self,
        shared: MutexGuard<'a, Shared<S>>,
        longest: Option<Duration>,
    ) -> MutexGuard<'a, Shared<S>> {
        match longest {
            None => self.news.wait(shared).unwrap_or_else(PoisonError::into_inner),
            Some(longest) => {
                let woken = self.news.wait_timeout(shared, longest);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Waits for a task; `None` when there are no more.
    fn claim(&self) -> Option<S::Task> {
        let mut shared = self.lock();
        loop {
            if shared.is_stopped || shared.is_broken {
                return None;
            }
            match shared.state.claim() {
                Claim::Task(task) => {
                    self.wake_submitters(&shared);
                    return Some(task);
                }
                Claim::Over => {
                    // The other workers that wait for room will not get a task either.
                    self.room.notify_all();
                    return None;
                }
                Claim::Full => {
                    shared.workers_waiting += 1;
                    shared.note_waiting();
                    shared = self.room.wait(shared).unwrap_or_else(PoisonError::into_inner);
                    shared.workers_waiting -= 1;
                    shared.note_waiting();
                }
            }
        }
    }

    /// Stores a result.
    fn enter(&self, product: S::Product) {
        let mut shared = self.lock();
        let surplus = shared.state.enter(product);
        let more = shared.is_stopped.then(|| shared.state.clear());
        self.wake_workers(&shared);
        self.wake_submitters(&shared);
        if shared.consumers_waiting + shared.watching > 0 {
            self.news.notify_all();
        }
        drop(shared);
        drop((surplus, more));
    }
}

impl<S: WorkState> Shared<S> {
    fn note_waiting(&mut self) {
        self.state.waiting(self.workers_waiting, self.consumers_waiting);
    }
}

struct StopOnDrop<'a, S: WorkState>(&'a WorkQueue<S>);

impl<S: WorkState> Drop for StopOnDrop<'_, S> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A worker of a queue, counted from its creation on, which may be before its thread starts.
pub struct Worker<S: WorkState, Q: Deref<Target = WorkQueue<S>>> {
    queue: Q,
    has_lost_task: bool,
}

impl<S: WorkState, Q: Deref<Target = WorkQueue<S>>> Worker<S, Q> {
    /// Adds a worker to `queue`.
    pub fn new(queue: Q) -> Self {
        queue.lock().workers += 1;
        Self { queue, has_lost_task: false }
    }

    /// The body of the worker's thread: works until there are no more tasks, or the queue stops. A panic in
    /// `run` ends the queue and goes on in this thread.
    pub fn work(mut self, mut run: impl FnMut(S::Task) -> S::Product) {
        while let Some(task) = self.queue.claim() {
            match catch_unwind(AssertUnwindSafe(|| run(task))) {
                Ok(product) => self.queue.enter(product),
                Err(panic) => {
                    self.has_lost_task = true;
                    drop(self);
                    resume_unwind(panic);
                }
            }
        }
    }
}

/// Records the end of the worker, also if it panicked or its thread could not be started.
impl<S: WorkState, Q: Deref<Target = WorkQueue<S>>> Drop for Worker<S, Q> {
    fn drop(&mut self) {
        let mut shared = self.queue.lock();
        shared.workers -= 1;
        shared.is_broken |= self.has_lost_task;
        self.queue.notify_all();
    }
}
