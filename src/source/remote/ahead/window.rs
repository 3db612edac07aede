//! The blocks of one run: which are here, which is fetched next, which may go. No threads, no I/O.
//!
//! ```text
//! add ─▶ waiting ──start: fewer than 16, and room──▶ coming ──▶ here ─▶ gone: last use, or passed
//!                                                    └ failed: gone, read directly
//! ```
//!
//! How far the run is, is told by its reads: of a planned part the place is known. A part whose
//! sample was never asked for, as it was damaged or is kept elsewhere, is passed when the run is as
//! far beyond it as batches may be begun at once.
//!
//! Nobody waits for room that somebody else holds: a block that is asked for and can't be started is
//! read directly. So any order of asking ends.

use super::plan::{Request, Wanted, merge};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Blocks looked at for a part: others may overlap the one before it only at the seams of two plans.
const LOOKED_AT: usize = 4;

/// What holds for a whole run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most bytes of blocks that are here or coming.
    pub(super) room: u64,
    /// Requests at a time.
    pub(super) requests: usize,
    /// Places that are planned ahead.
    pub(super) horizon: u64,
    /// Parts so many places behind won't be asked for any more.
    pub(super) lag: u64,
    /// Reads of what is not planned, one after another, that say that the plan fell behind.
    pub(super) misses: u64,
}

/// Shard, first byte, and a number that tells it from others that begin there.
pub(super) type Key = (usize, u64, u64);

pub(super) struct Window {
    bounds: Bounds,
    blocks: BTreeMap<Key, Block>,
    /// Waiting blocks, by the place that wants them first.
    queue: BTreeSet<(u64, Key)>,
    coming: usize,
    /// Bytes of those that are here or coming.
    held: u64,
    peak: u64,
    /// Places before this one were reached, as far as is known.
    reached: u64,
    /// Places before this one were planned.
    planned: u64,
    misses: u64,
    numbers: u64,
}

struct Block {
    end: u64,
    first: u64,
    last: u64,
    /// Uses that have not come, as (end of the part, place).
    uses: BTreeSet<(u64, u64)>,
    state: State,
}

enum State {
    Waiting,
    Coming,
    Here(Arc<Vec<u8>>),
}

/// What becomes of a read.
pub(super) enum Found {
    /// Not planned.
    Nothing,
    /// Planned, and there is no room for it now.
    NoRoom(Key),
    /// Not asked for so far: it is to be started.
    Start(Key),
    Coming,
    Here(Key, Arc<Vec<u8>>),
}

impl Window {
    pub(super) fn new(bounds: Bounds) -> Self {
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

    /// How many places to plan now; 0 if there are enough.
    pub(super) fn lacks(&self) -> u64 {
        // As many at once as give long requests, and half as many as are in sight: so there are
        // always some that are here.
        let stroke = (self.bounds.horizon / 2).max(1);
        let reached = if self.blocks.is_empty() { self.planned } else { self.reached };
        let is_short = self.planned + stroke <= reached.saturating_add(self.bounds.horizon);
        if is_short { stroke } else { 0 }
    }

    /// Enters what the places before `planned` want.
    pub(super) fn add(&mut self, wanted: Vec<Wanted>, planned: u64) {
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

    fn insert(&mut self, request: &Request) {
        // What never fits is read directly.
        if request.bytes.end - request.bytes.start > self.bounds.room {
            return;
        }
        self.numbers += 1;
        let key = (request.shard, request.bytes.start, self.numbers);
        let first = request.first();
        let (uses, state) = (BTreeSet::new(), State::Waiting);
        let mut block = Block { end: request.bytes.end, first, last: first, uses, state };
        request.wanted.iter().for_each(|part| block.add(part));
        self.blocks.insert(key, block);
        self.queue.insert((first, key));
    }

    /// The block that holds all of a range.
    fn covering(&self, shard: usize, range: &Range<u64>) -> Option<Key> {
        let before = self.blocks.range((shard, 0, 0)..=(shard, range.start, u64::MAX)).rev();
        let mut near = before.take(LOOKED_AT);
        near.find(|(_, block)| range.end <= block.end).map(|(key, _)| *key)
    }

    /// What there is for a read.
    pub(super) fn find(&mut self, shard: usize, range: &Range<u64>) -> Found {
        let Some(key) = self.covering(shard, range) else {
            self.missed();
            return Found::Nothing;
        };
        self.misses = 0;
        match &self.blocks[&key].state {
            State::Waiting if self.has_room(key) => Found::Start(key),
            State::Waiting => Found::NoRoom(key),
            State::Coming => Found::Coming,
            State::Here(bytes) => Found::Here(key, Arc::clone(bytes)),
        }
    }

    /// Many reads of what is not planned: the run is beyond the plan.
    fn missed(&mut self) {
        self.misses += 1;
        if self.misses >= self.bounds.misses {
            self.misses = 0;
            self.reached = self.planned;
        }
    }

    /// The next block to be fetched, if one may be.
    pub(super) fn next(&mut self) -> Option<Key> {
        let &(_, key) = self.queue.first()?;
        (self.coming < self.bounds.requests && self.has_room(key)).then_some(key)
    }

    fn has_room(&self, key: Key) -> bool {
        self.blocks.get(&key).is_some_and(|block| self.held + block.len(key) <= self.bounds.room)
    }

    /// A waiting block is fetched from now on. Gives its bytes' place.
    pub(super) fn start(&mut self, key: Key) -> Option<(usize, Range<u64>)> {
        let block = self.blocks.get_mut(&key)?;
        block.state = State::Coming;
        self.queue.remove(&(block.first, key));
        self.coming += 1;
        self.held += block.len(key);
        self.peak = self.peak.max(self.held);
        Some((key.0, key.1..block.end))
    }

    /// It is here; or it failed, and its samples are to be read one by one: they may do better.
    pub(super) fn arrive(&mut self, key: Key, bytes: Option<Vec<u8>>) {
        self.coming = self.coming.saturating_sub(1);
        let Some(block) = self.blocks.get_mut(&key) else { return };
        let is_of_use = bytes.is_some() && !block.uses.is_empty();
        block.state = State::Here(Arc::new(bytes.unwrap_or_default()));
        if !is_of_use {
            self.remove(key);
        }
    }

    /// A read of a block is over: the uses that ended in it have come.
    pub(super) fn used(&mut self, key: Key, range: &Range<u64>) {
        let Some(block) = self.blocks.get_mut(&key) else { return };
        let mut after = range.start;
        while let Some(&(end, place)) =
            block.uses.range((after + 1, 0)..=(range.end, u64::MAX)).next()
        {
            block.uses.remove(&(end, place));
            self.reached = self.reached.max(place + 1);
            after = end;
        }
        if block.uses.is_empty() {
            self.remove(key);
        }
    }

    fn drop_passed(&mut self) {
        let (lag, reached) = (self.bounds.lag, self.reached);
        let is_passed = |block: &Block| {
            block.last.saturating_add(lag) < reached && !matches!(block.state, State::Coming)
        };
        let passed = self.blocks.iter().filter(|(_, block)| is_passed(block));
        let passed: Vec<Key> = passed.map(|(key, _)| *key).collect();
        passed.into_iter().for_each(|key| self.remove(key));
    }

    fn remove(&mut self, key: Key) {
        let Some(block) = self.blocks.get(&key) else { return };
        match block.state {
            // It is removed when it arrives.
            State::Coming => return,
            State::Waiting => drop(self.queue.remove(&(block.first, key))),
            State::Here(_) => self.held -= block.len(key),
        }
        self.blocks.remove(&key);
    }

    /// Most bytes that were held so far.
    #[cfg(test)]
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Places that are planned.
    #[cfg(test)]
    pub(super) fn planned(&self) -> u64 {
        self.planned
    }

    /// Whether nothing is coming, or waits to.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.coming == 0 && self.queue.is_empty()
    }

    /// Blocks in any state.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }
}

impl Block {
    fn len(&self, key: Key) -> u64 {
        self.end - key.1
    }

    fn add(&mut self, part: &Wanted) {
        self.last = self.last.max(part.place);
        self.uses.insert((part.end, part.place));
    }
}
