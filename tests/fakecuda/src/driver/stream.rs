//! Streams and events: work that is done in order, and late.
//!
//! A stream is a thread with a queue. Before each piece of work the stream waits for a random time,
//! so work whose order no event and no wait of the host guarantees runs in the wrong order sooner
//! or later. No stream is ordered with another, including the default stream: like real streams
//! created with `CU_STREAM_NON_BLOCKING`, and stricter than those created without.
//!
//! An event counts how often it was recorded and which record has been reached. A wait for an event
//! waits for the last record that was requested before the wait.

use super::code::Code;
use super::settings::Settings;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: usize,
    /// The number of the stream, from 1, in order of creation.
    pub(crate) number: u64,
    queue: Sender<Job>,
    /// The number of pieces of work that were queued and are not done.
    open: Arc<AtomicU64>,
}

impl Stream {
    /// Starts a stream. `panicked` is called if a piece of work panics.
    pub(crate) fn start(
        device: usize,
        number: u64,
        settings: &Settings,
        panicked: fn(usize),
    ) -> Arc<Self> {
        let (queue, work) = channel();
        let (seed, delay_us) = (settings.seed.wrapping_mul(1000) + number, settings.delay_us);
        let open = Arc::new(AtomicU64::new(0));
        let left = Arc::clone(&open);
        thread::spawn(move || run(&work, &left, seed, delay_us, || panicked(device)));
        Arc::new(Self { device, number, queue, open })
    }

    pub(crate) fn push(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Code> {
        self.open.fetch_add(1, Ordering::SeqCst);
        self.queue.send(Box::new(job)).map_err(|_| Code::INVALID_HANDLE)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }

    /// Returns a receiver that gets a message when everything pushed so far is done.
    pub(crate) fn end(&self) -> Result<Receiver<()>, Code> {
        let (done, wait) = channel();
        self.push(move || {
            let _ = done.send(());
        })?;
        Ok(wait)
    }
}

fn run(work: &Receiver<Job>, open: &AtomicU64, seed: u64, delay_us: u64, panicked: impl Fn()) {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for job in work {
        if delay_us > 0 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            thread::sleep(Duration::from_micros(random % delay_us));
        }
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            panicked();
        }
        open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) device: usize,
    pub(crate) timed: bool,
    marks: Mutex<Marks>,
    reached: Condvar,
}

#[derive(Debug, Default)]
struct Marks {
    recorded: u64,
    reached: u64,
    /// The number of the stream on which the event was last recorded.
    by: u64,
    when: Option<Instant>,
}

impl Event {
    pub(crate) fn new(device: usize, timed: bool) -> Arc<Self> {
        Arc::new(Self { device, timed, marks: Mutex::default(), reached: Condvar::new() })
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the event after everything that the stream has been given so far.
    pub(crate) fn record(self: &Arc<Self>, stream: &Stream) -> Result<(), Code> {
        let event = Arc::clone(self);
        let mut marks = self.marks();
        marks.recorded += 1;
        marks.by = stream.number;
        let number = marks.recorded;
        stream.push(move || {
            let mut marks = event.marks();
            marks.reached = marks.reached.max(number);
            marks.when = Some(Instant::now());
            event.reached.notify_all();
        })
    }

    /// Returns the number of the last record requested: the one that a wait that begins now waits
    /// for.
    pub(crate) fn recorded(&self) -> u64 {
        self.marks().recorded
    }

    /// Returns the number of the stream on which the event was last recorded.
    pub(crate) fn by(&self) -> u64 {
        self.marks().by
    }

    pub(crate) fn wait(&self, number: u64) {
        let mut marks = self.marks();
        while marks.reached < number {
            marks = self.reached.wait(marks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn is_reached(&self) -> bool {
        let marks = self.marks();
        marks.reached >= marks.recorded
    }

    /// Returns the time at which the last record was reached; `None` if none was requested or
    /// reached.
    pub(crate) fn when(&self) -> Option<Instant> {
        let marks = self.marks();
        if marks.reached >= marks.recorded { marks.when } else { None }
    }
}
