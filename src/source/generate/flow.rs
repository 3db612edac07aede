//! Who waits for whom: the counters of a queue.
//!
//! ```text
//! consumer waited / elapsed                  large: the producers are too slow
//! producers waited / (producers * elapsed)   large: the consumer is
//! ```

use std::time::{Duration, Instant};

/// Where the time of a queue went, so far. Wall-clock time, waits that still last included.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Flow {
    /// Threads that call the user's function.
    pub producers: usize,
    /// Items there is room for, besides the one each producer has in hand.
    pub capacity: usize,
    /// Items made.
    pub produced: u64,
    /// Items the consumer was given.
    pub delivered: u64,
    /// Items that are made and not yet delivered.
    pub depth: usize,
    /// Time inside the user's function, of all producers together.
    pub producing: Duration,
    /// Time the queue was full, of all producers together.
    pub producers_waited: Duration,
    /// Time the queue was empty while the consumer asked for an item; of several, all together.
    pub consumer_waited: Duration,
    /// Time since the start, or from there to the end.
    pub elapsed: Duration,
}

/// Shares of waiting below this are not worth a word: starting and ending alone make some.
const NOTABLE: f64 = 0.05;

impl Flow {
    /// Who holds the other up, in words.
    #[must_use]
    pub fn bottleneck(&self) -> String {
        let elapsed = self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let empty = self.consumer_waited.as_secs_f64() / elapsed;
        let full = self.producers_waited.as_secs_f64() / (elapsed * self.producers as f64);
        let (empty_percent, full_percent) = (empty * 100.0, full * 100.0);
        if empty.max(full) < NOTABLE {
            return "none: neither the producers nor the consumer wait to speak of".to_owned();
        }
        if empty >= full {
            return format!(
                "the producers (the consumer waited {empty_percent:.0} % of the time): more \
                 threads, or a faster function, would help"
            );
        }
        format!(
            "the consumer (the producers waited {full_percent:.0} % of their time): more threads \
             would not help"
        )
    }
}

/// A producer inside the user's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// What the function was called with.
    pub ticket: u64,
    /// For how long it has been running.
    pub elapsed: Duration,
}

/// The time that threads spend at something, added up while they do: `count` of them do now.
pub(super) struct Gauge {
    count: u32,
    total: Duration,
    since: Instant,
}

impl Gauge {
    pub(super) fn new() -> Self {
        Self { count: 0, total: Duration::ZERO, since: Instant::now() }
    }

    /// One more thread does it.
    pub(super) fn enter(&mut self) {
        self.settle();
        self.count += 1;
    }

    /// One thread less does it.
    pub(super) fn leave(&mut self) {
        self.settle();
        self.count -= 1;
    }

    fn settle(&mut self) {
        let now = Instant::now();
        self.total += (now - self.since) * self.count;
        self.since = now;
    }

    /// Threads that do it now.
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    pub(super) fn total(&self) -> Duration {
        self.total + self.since.elapsed() * self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn flow(producers_waited: u64, consumer_waited: u64) -> Flow {
        Flow {
            producers: 4,
            capacity: 8,
            produced: 100,
            delivered: 90,
            depth: 10,
            producing: Duration::from_secs(3),
            producers_waited: Duration::from_secs(producers_waited),
            consumer_waited: Duration::from_secs(consumer_waited),
            elapsed: Duration::from_secs(100),
        }
    }

    #[test]
    fn the_one_who_does_not_wait_is_the_bottleneck() {
        let told = |flow: Flow, start: &str| {
            assert!(flow.bottleneck().starts_with(start), "{}", flow.bottleneck());
        };
        told(flow(0, 60), "the producers (the consumer waited 60 % of the time)");
        told(flow(300, 6), "the consumer (the producers waited 75 % of their time)");
        told(flow(10, 1), "none:");
        told(Flow { elapsed: Duration::ZERO, ..flow(0, 0) }, "none:");
    }

    #[test]
    fn a_gauge_adds_up_the_time_of_every_thread_while_it_passes() {
        let mut gauge = Gauge::new();
        gauge.enter();
        gauge.enter();
        thread::sleep(Duration::from_millis(5));
        assert!(gauge.total() >= Duration::from_millis(10));
        gauge.leave();
        gauge.leave();
        let total = gauge.total();
        thread::sleep(Duration::from_millis(2));
        assert_eq!((gauge.total(), gauge.count()), (total, 0));
    }
}
