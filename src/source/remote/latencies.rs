//! How long recent reads of one host took, by their size, and after how long a read is slow.
//!
//! A read is slow if it takes longer than 95 % of the last 128 reads of about the same size, and longer than 50 ms
//! (Dean and Barroso, "The Tail at Scale", 2013, section "Hedged requests"). Sizes are about the same if they lie
//! between the same two powers of 4, so that a read of 8 MiB is not compared with one of 64 KiB.

use std::collections::VecDeque;
use std::time::Duration;

/// The number of reads remembered per size.
const REMEMBERED: usize = 128;

/// The fewest reads that tell what is slow.
const FEWEST: usize = 20;

/// A shorter read is never slow: a second request would not be faster.
pub(super) const FLOOR: Duration = Duration::from_millis(50);

/// The durations of recent reads.
#[derive(Default)]
pub(super) struct Latencies {
    /// The durations of reads between two powers of 4, the oldest first.
    recent: Vec<VecDeque<Duration>>,
}

impl Latencies {
    /// Remembers the duration of a read of `bytes` bytes.
    pub(super) fn add(&mut self, bytes: u64, duration: Duration) {
        let size = size(bytes);
        if self.recent.len() <= size {
            self.recent.resize_with(size + 1, VecDeque::new);
        }
        let recent = &mut self.recent[size];
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(duration);
    }

    /// Returns the duration after which a read of `bytes` bytes is slow; `None` if too few reads are known.
    pub(super) fn slow(&self, bytes: u64) -> Option<Duration> {
        let recent = self.recent.get(size(bytes))?;
        if recent.len() < FEWEST {
            return None;
        }
        let mut sorted: Vec<Duration> = recent.iter().copied().collect();
        let (_, slow, _) = sorted.select_nth_unstable(recent.len() * 95 / 100);
        Some((*slow).max(FLOOR))
    }
}

/// The number of the two powers of 4 that a size lies between.
fn size(bytes: u64) -> usize {
    (bytes.max(1).ilog2() / 2) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_slow_that_takes_longer_than_most_of_its_size() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.slow(1 << 20), None);
        for k in 1..=100 {
            latencies.add(1 << 20, Duration::from_millis(k));
            latencies.add(100, Duration::from_millis(1));
        }
        assert_eq!(latencies.slow(1 << 20), Some(Duration::from_millis(96)));
        assert_eq!(latencies.slow((4 << 20) - 1), Some(Duration::from_millis(96)));
        assert_eq!(latencies.slow(4 << 20), None);
        assert_eq!(latencies.slow(64), Some(FLOOR));
        assert_eq!(latencies.slow(0), None);
        assert_eq!(latencies.slow(u64::MAX), None);
    }

    #[test]
    fn old_reads_are_forgotten() {
        let mut latencies = Latencies::default();
        for _ in 0..1000 {
            latencies.add(1, Duration::from_secs(10));
        }
        for _ in 0..REMEMBERED {
            latencies.add(1, Duration::from_millis(70));
        }
        assert_eq!(latencies.slow(1), Some(Duration::from_millis(70)));
        assert_eq!(latencies.recent[0].len(), REMEMBERED);
    }
}
