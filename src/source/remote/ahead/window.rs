//! The state of one run's blocks: which have arrived, which to fetch next, which can be dropped. No
//! threads, no I/O.
//!
//! ```text
//! add ─▶ waiting ──start: fewer than 16, and room──▶ coming ──▶ here ─▶ gone: last use, or passed
//!                                                    └ failed: gone, read directly
//! ```
//!
//! The reads show how far the run is, because the position of each planned range is known. A range that
//! is never read, because its sample is damaged or cached elsewhere, is dropped once the run is further
//! beyond it than the batches that may be in flight at once.
//!
//! A read never waits for room that other blocks occupy: if its block can't be started, the read
//! bypasses the window. Every order of reads therefore ends.

use super::plan::{RangeRequest, WantedRange, merge};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// The number of blocks searched for a range: blocks overlap only where two plans meet.
const LOOKED_AT: usize = 4;

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct AheadLimits {
    /// The largest number of bytes of blocks that have arrived or are in flight.
    pub(super) room: u64,
    /// The number of requests in flight.
    pub(super) requests: usize,
    /// The number of positions planned ahead.
    pub(super) horizon: u64,
    /// A range this number of positions behind will not be read any more.
    pub(super) lag: u64,
    /// The number of consecutive reads outside the plan after which the plan is considered to be behind.
    pub(super) misses: u64,
}

/// The shard, the first byte, and a number that distinguishes blocks that begin at the same byte.
pub(super) type Key = (usize, u64, u64);

pub(super) struct BlockWindow {
    bounds: AheadLimits,
    blocks: BTreeMap<Key, BlockEntry>,
    /// The waiting blocks, by the first position that needs them.
    queue: BTreeSet<(u64, Key)>,
    coming: usize,
    /// The number of bytes of blocks that have arrived or are in flight.
    held: u64,
    peak: u64,
    /// The run has reached all positions before this one, as far as is known.
    reached: u64,
    /// All positions before this one are planned.
    planned: u64,
    misses: u64,
    numbers: u64,
}

struct BlockEntry {
    end: u64,
    first: u64,
    last: u64,
    /// The remaining uses, as (end of the range, position).
    uses: BTreeSet<(u64, u64)>,
    state: State,
}

enum State {
    Waiting,
    Coming,
    Here(Arc<Vec<u8>>),
}

/// The answer to a read.
pub(super) enum ReadOutcome {
    /// The range is not planned.
    Nothing,
    /// The range is planned, but there is no room for its block now.
    NoRoom(Key),
    /// The block is not started: the caller starts it.
    Start(Key),
    Coming,
    Here(Key, Arc<Vec<u8>>),
}

impl BlockWindow {
    pub(super) fn new(bounds: AheadLimits) -> Self {
        Self {
            bounds,
            blocks: BTreeMap::new(),
            queue: BTreeSet::new(),
            coming: 0,
            held: 0,
            peak: 0,
            reached: 0,
            planned: 0,
            misses: 0,
            numbers: 0,
        }
    }

    /// The number of positions to plan now; 0 if enough are planned.
    pub(super) fn lacks(&self) -> u64 {
        // One stroke is half of the horizon: enough positions at once for long requests, while the other
        // half always has blocks that have arrived.
        let stroke = (self.bounds.horizon / 2).max(1);
        let reached = if self.blocks.is_empty() { self.planned } else { self.reached };
        let is_short = self.planned + stroke <= reached.saturating_add(self.bounds.horizon);
        if is_short { stroke } else { 0 }
    }

    /// Adds the ranges that the positions before `planned` need.
    pub(super) fn add(&mut self, wanted: Vec<WantedRange>, planned: u64) {
        self.drop_passed();
        self.planned = planned;
        let mut rest = vec![];
        for part in wanted {
            match self.covering(part.shard, &(part.start..part.end)) {
                Some(key) => self.blocks.entry(key).and_modify(|block| block.add(&part)),
                None => {
                    rest.push(part);
                    continue;
                }
            };
        }
        for request in merge(rest) {
            self.insert(&request);
        }
    }

    fn insert(&mut self, request: &RangeRequest) {
        // A block that can never fit is read directly.
        if request.bytes.end - request.bytes.start > self.bounds.room {
            return;
        }
        self.numbers += 1;
        let key = (request.shard, request.bytes.start, self.numbers);
        let first = request.first();
        let (uses, state) = (BTreeSet::new(), State::Waiting);
        let mut block = BlockEntry { end: request.bytes.end, first, last: first, uses, state };
        request.wanted.iter().for_each(|part| block.add(part));
        self.blocks.insert(key, block);
        self.queue.insert((first, key));
    }

    /// The block that covers a whole range.
    fn covering(&self, shard: usize, range: &Range<u64>) -> Option<Key> {
        let before = self.blocks.range((shard, 0, 0)..=(shard, range.start, u64::MAX)).rev();
        let mut near = before.take(LOOKED_AT);
        near.find(|(_, block)| range.end <= block.end).map(|(key, _)| *key)
    }

    /// Looks up the block for a read.
    pub(super) fn find(&mut self, shard: usize, range: &Range<u64>) -> ReadOutcome {
        let Some(key) = self.covering(shard, range) else {
            self.missed();
            return ReadOutcome::Nothing;
        };
        self.misses = 0;
        match &self.blocks[&key].state {
            State::Waiting if self.has_room(key) => ReadOutcome::Start(key),
            State::Waiting => ReadOutcome::NoRoom(key),
            State::Coming => ReadOutcome::Coming,
            State::Here(bytes) => ReadOutcome::Here(key, Arc::clone(bytes)),
        }
    }

    /// Counts a read outside the plan: after many of them, the run must be beyond the plan.
    fn missed(&mut self) {
        self.misses += 1;
        if self.misses >= self.bounds.misses {
            self.misses = 0;
            self.reached = self.planned;
        }
    }

    /// The next block to fetch, if one can be fetched now.
    pub(super) fn next(&mut self) -> Option<Key> {
        let &(_, key) = self.queue.first()?;
        (self.coming < self.bounds.requests && self.has_room(key)).then_some(key)
    }

    fn has_room(&self, key: Key) -> bool {
        self.blocks.get(&key).is_some_and(|block| self.held + block.len(key) <= self.bounds.room)
    }

    /// Marks a waiting block as in flight. Returns its shard and byte range.
    pub(super) fn start(&mut self, key: Key) -> Option<(usize, Range<u64>)> {
        let block = self.blocks.get_mut(&key)?;
        block.state = State::Coming;
        self.queue.remove(&(block.first, key));
        self.coming += 1;
        self.held += block.len(key);
        self.peak = self.peak.max(self.held);
        Some((key.0, key.1..block.end))
    }

    /// Stores the bytes of a block. Drops a block that failed: its samples are then read one by one,
    /// which may succeed.
    pub(super) fn arrive(&mut self, key: Key, bytes: Option<Vec<u8>>) {
        self.coming = self.coming.saturating_sub(1);
        let Some(block) = self.blocks.get_mut(&key) else { return };
        let is_of_use = bytes.is_some() && !block.uses.is_empty();
        block.state = State::Here(Arc::new(bytes.unwrap_or_default()));
        if !is_of_use {
            self.remove(key);
        }
    }

    /// Called after a read of a block: removes the uses that end within the range.
    pub(super) fn used(&mut self, key: Key, range: &Range<u64>) {
        let Some(block) = self.blocks.get_mut(&key) else { return };
        let mut after = range.start;
        while after < range.end {
            let ends = (after + 1, 0)..=(range.end, u64::MAX);
            let Some(&(end, position)) = block.uses.range(ends).next() else { break };
            block.uses.remove(&(end, position));
            self.reached = self.reached.max(position + 1);
            after = end;
        }
        if block.uses.is_empty() {
            self.remove(key);
        }
    }

    fn drop_passed(&mut self) {
        let (lag, reached) = (self.bounds.lag, self.reached);
        let is_passed = |block: &BlockEntry| {
            block.last.saturating_add(lag) < reached && !matches!(block.state, State::Coming)
        };
        let passed = self.blocks.iter().filter(|(_, block)| is_passed(block));
        let passed: Vec<Key> = passed.map(|(key, _)| *key).collect();
        passed.into_iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: Key) {
        let Some(block) = self.blocks.get(&key) else { return };
        match block.state {
            // The block is removed when it arrives.
            State::Coming => return,
            State::Waiting => drop(self.queue.remove(&(block.first, key))),
            State::Here(_) => self.held -= block.len(key),
        }
        self.blocks.remove(&key);
    }

    /// The largest number of bytes held so far.
    #[cfg(test)]
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// The number of bytes held.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// The number of positions planned.
    #[cfg(test)]
    pub(super) fn planned(&self) -> u64 {
        self.planned
    }

    /// Returns true if no block is in flight or waiting.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.coming == 0 && self.queue.is_empty()
    }

    /// The number of blocks in any state.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }
}

impl BlockEntry {
    fn len(&self, key: Key) -> u64 {
        self.end - key.1
    }

    fn add(&mut self, part: &WantedRange) {
        self.last = self.last.max(part.position);
        self.uses.insert((part.end, part.position));
    }
}
