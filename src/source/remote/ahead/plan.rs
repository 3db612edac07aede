//! Plans the requests for the next samples of a run.
//!
//! ```text
//! order:    s7 s2 s9 s3 ..            the next positions of the run
//! extents:  (shard, bytes, position)  sorted by shard and byte
//! requests: ████░██  ███  ██████      merged where the gap is short, up to 8 MiB
//! ```
//!
//! Reading a gap is worthwhile if it takes less time than one more request. With 16 requests in flight
//! on a line of 1 Gbit/s, each moves 8 MB/s, so the 30 ms of a request correspond to 240 KB.

use super::super::Extents;
use crate::source::RunPlan;
use std::collections::TryReserveError;
use std::ops::Range;
use std::sync::Arc;

/// The widest gap that is read instead of split into two requests.
pub(super) const GAP: u64 = 256 << 10;

/// The longest request for several values: one second at 8 MB/s, of which the request itself takes 3%.
pub(super) const LONGEST: u64 = 8 << 20;

/// A byte range that a sample will be read from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WantedRange {
    pub(super) shard: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The sample's position in the run, from 0.
    pub(super) position: u64,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RangeRequest {
    pub(super) shard: usize,
    pub(super) bytes: Range<u64>,
    /// The ranges that the request covers, in byte order.
    pub(super) wanted: Vec<WantedRange>,
}

/// Merges ranges into requests.
pub(super) fn merge(mut wanted: Vec<WantedRange>) -> Vec<RangeRequest> {
    wanted.sort_unstable();
    let mut requests: Vec<RangeRequest> = vec![];
    for part in wanted {
        match requests.last_mut() {
            Some(last) if last.takes(&part) => {
                last.bytes.end = last.bytes.end.max(part.end);
                last.wanted.push(part);
            }
            _ => {
                let (shard, bytes) = (part.shard, part.start..part.end);
                requests.push(RangeRequest { shard, bytes, wanted: vec![part] });
            }
        }
    }
    requests
}

impl RangeRequest {
    fn takes(&self, part: &WantedRange) -> bool {
        self.shard == part.shard
            && part.start <= self.bytes.end.saturating_add(GAP)
            && (part.end <= self.bytes.end || part.end - self.bytes.start <= LONGEST)
    }

    /// The first position that needs the request.
    pub(super) fn first(&self) -> u64 {
        self.wanted.iter().map(|part| part.position).min().unwrap_or_default()
    }
}

/// Plans the positions of a run, a number of them at a time.
pub(super) struct Planner {
    run: RunPlan,
    extents: Arc<dyn Extents>,
    /// The length of each shard in bytes; `None` for a local shard.
    sizes: Vec<Option<u64>>,
    next: u64,
}

impl Planner {
    pub(super) fn new(run: RunPlan, extents: Arc<dyn Extents>, sizes: Vec<Option<u64>>) -> Self {
        Self { run, extents, sizes, next: 0 }
    }

    /// The number of positions planned.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.run.upcoming.samples()
    }

    /// Returns the byte ranges that the next `count` positions need from remote shards.
    ///
    /// # Errors
    ///
    /// If there is no memory for the list.
    pub(super) fn take(&mut self, count: u64) -> Result<Vec<WantedRange>, TryReserveError> {
        let positions = self.next..self.next.saturating_add(count).min(self.run.upcoming.samples());
        self.next = positions.end;
        let (mut samples, mut parts, mut wanted) = (vec![], vec![], vec![]);
        self.run.upcoming.at(positions.clone(), &mut samples);
        wanted.try_reserve(samples.len())?;
        for (position, sample) in positions.zip(samples) {
            parts.clear();
            self.extents.extents(sample, &self.run.fields, &mut parts);
            wanted.extend(parts.iter().filter_map(|(shard, bytes)| {
                // A range beyond an object's end is an error when it is read.
                let size = self.sizes.get(*shard).copied().flatten()?;
                let is_there = bytes.start < bytes.end && bytes.end <= size;
                let &Range { start, end } = bytes;
                is_there.then_some(WantedRange { shard: *shard, start, end, position })
            }));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(shard: usize, bytes: Range<u64>, position: u64) -> WantedRange {
        WantedRange { shard, start: bytes.start, end: bytes.end, position }
    }

    #[test]
    fn what_is_near_is_one_request() {
        let requests = merge(vec![
            wanted(1, 0..10, 0),
            wanted(0, 500..600, 1),
            wanted(0, 0..100, 2),
            wanted(0, 600 + GAP..700 + GAP, 3),
            wanted(0, 701 + 2 * GAP..800 + 2 * GAP, 4),
            wanted(0, 0..100, 5),
        ]);
        let found: Vec<_> = requests
            .iter()
            .map(|r| (r.shard, r.bytes.clone(), r.first(), r.wanted.len()))
            .collect();
        let far = 701 + 2 * GAP;
        assert_eq!(found, [(0, 0..700 + GAP, 1, 4), (0, far..far + 99, 4, 1), (1, 0..10, 0, 1)]);
    }

    #[test]
    fn a_request_is_not_longer_than_the_longest_unless_one_value_is() {
        let part = LONGEST / 4;
        let parts = (0..9).map(|k| wanted(0, k * part..(k + 1) * part, k));
        let lens: Vec<_> = merge(parts.collect()).iter().map(|r| r.wanted.len()).collect();
        assert_eq!(lens, [4, 4, 1]);
        let inside = [wanted(0, 0..3 * LONGEST, 0), wanted(0, 2 * LONGEST..2 * LONGEST + 9, 1)];
        let requests = merge(inside.to_vec());
        assert_eq!((requests.len(), requests[0].bytes.clone()), (1, 0..3 * LONGEST));
    }

    /// Every wanted range lies within a request that lists it, and gaps are short.
    #[test]
    fn any_list_is_covered() {
        arbtest::arbtest(|random| {
            let mut parts = vec![];
            for position in 0..random.int_in_range(0..=40u64)? {
                let start = random.int_in_range(0..=64u64)? * (GAP / 2);
                let len = random.int_in_range(1..=2 * GAP)?;
                parts.push(wanted(random.int_in_range(0..=2usize)?, start..start + len, position));
            }
            let requests = merge(parts.clone());
            let mut named: Vec<_> = requests.iter().flat_map(|r| r.wanted.clone()).collect();
            named.sort();
            parts.sort();
            assert_eq!(named, parts);
            for request in &requests {
                let mut end = request.bytes.start;
                assert!(request.bytes.end - request.bytes.start <= LONGEST);
                for part in &request.wanted {
                    assert!(part.shard == request.shard && part.end <= request.bytes.end);
                    assert!(part.start <= end + GAP);
                    end = end.max(part.end);
                }
                assert_eq!(end, request.bytes.end);
            }
            Ok(())
        });
    }
}
