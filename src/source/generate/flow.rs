//! Counters of a queue: how long producers and consumer wait for each other.
//!
//! ```text
//! consumer waited / elapsed                  large: the producers are too slow
//! producers waited / (producers * elapsed)   large: the consumer is
//! ```

use std::time::{Duration, Instant};

/// Where the time of a queue was spent so far. All times are wall-clock times and include waits that
/// have not ended.
///
/// ```
/// use fuseloop::source::{BoxError, Generator};
///
/// let mut queue = Generator::new(2, 4).start(|ticket| Ok::<_, BoxError>(Some(ticket)))?;
/// queue.next().transpose()?;
/// let stats = queue.stats();
/// assert_eq!((stats.producers, stats.capacity, stats.delivered), (2, 4, 1));
/// println!("{}", stats.bottleneck());
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct QueueStats {
    /// The number of threads that call the user's function.
    pub producers: usize,
    /// The capacity in items. Each producer also works on one item beyond the capacity.
    pub capacity: usize,
    /// The number of items generated.
    pub produced: u64,
    /// The number of items delivered to the consumer.
    pub delivered: u64,
    /// The number of items generated and not yet delivered.
    pub depth: usize,
    /// The time spent inside the user's function, summed over all producers.
    pub producing: Duration,
    /// The time spent waiting because the queue was full, summed over all producers.
    pub producers_waited: Duration,
    /// The time that the consumer spent waiting because the queue was empty, summed over all consumers.
    pub consumer_waited: Duration,
    /// The time since the start; after the end, the time from start to end.
    pub elapsed: Duration,
}

/// A smaller share of waiting is not reported: starting and ending alone cause some.
const NOTABLE: f64 = 0.05;

impl QueueStats {
    /// Describes which side holds up the other.
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
pub(super) struct Busy {
    /// The argument of the function.
    pub ticket: u64,
    /// How long the function has been running.
    pub elapsed: Duration,
}

/// The time that threads spend in an activity, summed while it lasts. `count` threads are in the
/// activity now.
pub(super) struct Gauge {
    count: u32,
    total: Duration,
    since: Instant,
}

impl Gauge {
    pub(super) fn new() -> Self {
        Self { count: 0, total: Duration::ZERO, since: Instant::now() }
    }

    /// Sets the number of threads in the activity.
    pub(super) fn set(&mut self, count: usize) {
        if self.count != count as u32 {
            let now = Instant::now();
            self.total += (now - self.since) * self.count;
            (self.since, self.count) = (now, count as u32);
        }
    }

    pub(super) fn total(&self) -> Duration {
        self.total + self.since.elapsed() * self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn flow(producers_waited: u64, consumer_waited: u64) -> QueueStats {
        QueueStats {
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
        let assert_bottleneck = |flow: QueueStats, start: &str| {
            assert!(flow.bottleneck().starts_with(start), "{}", flow.bottleneck());
        };
        assert_bottleneck(flow(0, 60), "the producers (the consumer waited 60 % of the time)");
        assert_bottleneck(flow(300, 6), "the consumer (the producers waited 75 % of their time)");
        assert_bottleneck(flow(10, 1), "none:");
        assert_bottleneck(QueueStats { elapsed: Duration::ZERO, ..flow(0, 0) }, "none:");
    }

    #[test]
    fn a_gauge_adds_up_the_time_of_every_thread_while_it_passes() {
        let mut gauge = Gauge::new();
        gauge.set(1);
        gauge.set(2);
        thread::sleep(Duration::from_millis(5));
        assert!(gauge.total() >= Duration::from_millis(10));
        gauge.set(1);
        gauge.set(0);
        let total = gauge.total();
        thread::sleep(Duration::from_millis(2));
        assert_eq!((gauge.total(), gauge.count), (total, 0));
    }
}
