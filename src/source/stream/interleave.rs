//! Interleave: a few streams at a time, a block of items from each in turn.
//!
//! ```text
//! streams [a a a] [b] [c c]   cycle_length 2, block_length 1
//!
//! slot 0   a     a     a
//! slot 1      b     .  c  c           b has ended: c takes its slot when the turn comes again
//!      ─▶  a  b  a     a  c  c
//! ```
//!
//! The order is that of tf.data: the turn passes on after a block and at a stream's end, and a free
//! entry of the cycle is filled when the turn comes to it.
//!
//! With `reads`, that many threads read the open streams ahead, a block or two of each: the time of one
//! read is hidden behind the others. If `deterministic` is set, the order does not change. If it is not,
//! the next item comes from any stream that has one ready, so a slow stream does not hold up the others;
//! a pass over such a stream can't be resumed from the middle.

use super::error::check_equal;
use super::read_ahead::{ReadAhead, ReadAheadPass};
use super::shards_of_rank;
use super::{Item, Items, Pass, Stream, Streamed, facts_of, labelled, sum};
use crate::error::{Error, fail};
use crate::source::{BoxError, Facts};
use crate::threads::MOST;
use std::sync::Arc;

/// The options of [`Stream::interleave`].
///
/// ```
/// use fuseloop::source::stream::{Interleave, Stream};
///
/// fn shuffled(shards: Vec<Stream>) -> fuseloop::Result<Stream> {
///     let how = Interleave { cycle_length: 16, ..Interleave::default() };
///     Ok(Stream::interleave(shards, how)?.shuffle(10_000))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interleave {
    /// The number of streams that are open at a time.
    pub cycle_length: usize,
    /// The number of items taken from one stream before the next has its turn.
    pub block_length: usize,
    /// The number of threads that read ahead, at most 1024; 0 for none.
    pub reads: usize,
    /// True if the order is independent of the threads. Without `reads` it always is.
    pub deterministic: bool,
    /// True if every pass takes the streams in a random order, drawn from the loader's seed and the
    /// epoch, so that different shards are read together each time.
    pub shuffle: bool,
}

/// Four streams at a time, one item of each in turn, read by the caller's thread.
impl Default for Interleave {
    fn default() -> Self {
        Self { cycle_length: 4, block_length: 1, reads: 0, deterministic: true, shuffle: false }
    }
}

/// The largest number of items of a stream that are read ahead, however long a block is.
const MOST_AHEAD: usize = 32;

impl Stream {
    /// Combines streams, several at a time, in turn. With one stream per shard, items from all shards of
    /// a dataset come close together.
    ///
    /// # Errors
    ///
    /// If there is no stream, their fields differ, one number means different classes in two of them, a length is 0, or
    /// too many threads are asked for.
    pub fn interleave(
        streams: impl IntoIterator<Item = Self>,
        how: Interleave,
    ) -> Result<Self, Error> {
        let parts: Arc<[Self]> = streams.into_iter().collect();
        check_equal("interleave", &parts)?;
        for (param, length) in
            [("cycle_length", how.cycle_length), ("block_length", how.block_length)]
        {
            if length == 0 {
                return Err(fail!(Parameter, "interleave: {param} is 0: give 1 or more"));
            }
        }
        if how.reads > MOST {
            return Err(fail!(
                Parameter,
                "interleave: {found} threads that read ahead, the limit is {MOST}",
                found = how.reads
            ));
        }
        // The fingerprint is the same for any number of threads.
        let parameters = [how.cycle_length as u64, how.block_length as u64, u64::from(how.shuffle)];
        let mut facts = facts_of("interleave", &parameters, &parts);
        facts.is_exact &= how.deterministic || how.reads == 0;
        Ok(Self::new(Interleaved { facts, parts, how }))
    }
}

struct Interleaved {
    facts: Facts,
    parts: Arc<[Stream]>,
    how: Interleave,
}

impl Streamed for Interleaved {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let (how, parts, pass) = (self.how, Arc::clone(&self.parts), *pass);
        let lanes = (how.reads > 0).then(|| {
            let room = how.block_length.saturating_mul(2).min(MOST_AHEAD);
            ReadAhead::new(how.reads.min(how.cycle_length), room)
        });
        let open = Cycle {
            slots: (0..how.cycle_length.min(parts.len())).map(|_| None).collect(),
            order: shards_of_rank(parts.len(), &pass, how.shuffle, (0, 1)),
            parts,
            pass,
            lanes,
            next: 0,
        };
        Ok(match how.deterministic || how.reads == 0 {
            true => Box::new(Woven { open, block: how.block_length as u64, slot: 0, given: 0 }),
            false => Box::new(Loose(open)),
        })
    }

    fn known_len(&self) -> Option<u64> {
        sum(self.parts.iter().map(Stream::known_len))
    }
}

/// The open streams.
struct Cycle {
    parts: Arc<[Stream]>,
    pass: Pass,
    lanes: Option<Arc<ReadAhead>>,
    slots: Vec<Option<OpenStream>>,
    /// The order in which the streams are opened, and the index in it of the next one.
    order: Vec<usize>,
    next: usize,
}

/// An open stream and its index among all streams.
struct OpenStream {
    part: usize,
    mode: ReadMode,
}

/// How a stream is read.
enum ReadMode {
    Plain(Box<dyn Items>),
    Ahead(ReadAheadPass),
}

impl OpenStream {
    fn items(&mut self) -> &mut dyn Items {
        match &mut self.mode {
            ReadMode::Plain(items) => &mut **items,
            ReadMode::Ahead(lane) => lane,
        }
    }

    /// Returns the stream's next item, labelled as one of `components` streams.
    fn next(&mut self, parts: usize) -> Result<Option<Item>, BoxError> {
        let part = self.part;
        Ok(self.items().next()?.map(|item| labelled(item, part, parts)))
    }

    /// Begins to read the stream ahead.
    fn begin(&mut self) -> Result<(), BoxError> {
        if let ReadMode::Ahead(lane) = &mut self.mode {
            lane.begin()?;
        }
        Ok(())
    }
}

impl Cycle {
    /// Opens the next stream in a free entry, if there is one.
    fn fill(&mut self, slot: usize) -> Result<(), BoxError> {
        let Some(&part) = self.order.get(self.next) else { return Ok(()) };
        let items = self.parts[part].open(&self.pass.for_component(part))?;
        let mode = match &self.lanes {
            None => ReadMode::Plain(items),
            Some(lanes) => ReadMode::Ahead(ReadAheadPass::new(lanes, items)),
        };
        self.slots[slot] = Some(OpenStream { part, mode });
        self.next += 1;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.next >= self.order.len() && self.slots.iter().all(Option::is_none)
    }

    /// Begins to read ahead all streams that will be asked for soon. Entries that become free are filled
    /// at their turn, which determines the order of the streams. Before the first item is asked for,
    /// entries are free only because they have not been filled yet: those are filled at once.
    fn begin(&mut self) -> Result<(), BoxError> {
        if self.lanes.is_none() {
            return Ok(());
        }
        for slot in self.next..self.slots.len() {
            self.fill(slot)?;
        }
        self.slots.iter_mut().flatten().try_for_each(OpenStream::begin)
    }
}

/// Takes items in the order of tf.data.
struct Woven {
    open: Cycle,
    block: u64,
    /// The entry whose turn it is, and the number of items taken from it in this block.
    slot: usize,
    given: u64,
}

impl Woven {
    fn pass_on(&mut self) {
        self.slot = (self.slot + 1) % self.open.slots.len();
        self.given = 0;
    }

    /// Takes from the stream whose turn it is, up to the rest of its block. `take` returns the number of
    /// items that it took. `None` at the end of all streams.
    fn take<T>(
        &mut self,
        mut take: impl FnMut(&mut OpenStream, u64) -> Result<(u64, T), BoxError>,
    ) -> Result<Option<(u64, T)>, BoxError> {
        while !self.open.is_over() {
            let Some(stream) = &mut self.open.slots[self.slot] else {
                self.open.fill(self.slot)?;
                if self.open.slots[self.slot].is_none() {
                    self.pass_on();
                }
                continue;
            };
            let (taken, what) = take(stream, self.block - self.given)?;
            if taken == 0 {
                self.open.slots[self.slot] = None;
                self.pass_on();
                continue;
            }
            self.given += taken;
            if self.given == self.block {
                self.pass_on();
            }
            return Ok(Some((taken, what)));
        }
        Ok(None)
    }
}

impl Items for Woven {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        self.open.begin()?;
        let parts = self.open.parts.len();
        let taken = self.take(|stream, _| {
            let item = stream.next(parts)?;
            Ok((u64::from(item.is_some()), item))
        })?;
        Ok(taken.and_then(|(_, item)| item))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let mut done = 0;
        while done < count {
            let most = count - done;
            let passed =
                self.take(|stream, left| Ok((stream.items().skip(left.min(most))?, ())))?;
            let Some((passed, ())) = passed else { break };
            done += passed;
        }
        Ok(done)
    }
}

/// Takes items in the order in which they become ready.
struct Loose(Cycle);

impl Items for Loose {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        loop {
            for slot in 0..self.0.slots.len() {
                if self.0.slots[slot].is_none() {
                    self.0.fill(slot)?;
                }
            }
            self.0.begin()?;
            let Some(slot) = self.ready()? else { return Ok(None) };
            let next = match &mut self.0.slots[slot] {
                Some(stream) => stream.next(self.0.parts.len())?,
                None => None,
            };
            match next {
                Some(item) => return Ok(Some(item)),
                None => self.0.slots[slot] = None,
            }
        }
    }
}

impl Loose {
    /// Returns an entry whose stream has an item ready or has ended; `None` if no stream is open.
    fn ready(&self) -> Result<Option<usize>, BoxError> {
        let lanes = self.0.slots.iter().enumerate().filter_map(|(slot, open)| match open {
            Some(OpenStream { mode: ReadMode::Ahead(lane), .. }) => Some((slot, lane)),
            _ => None,
        });
        let (slots, lanes): (Vec<usize>, Vec<&ReadAheadPass>) = lanes.unzip();
        let Some(ahead) = &self.0.lanes else { return Ok(None) };
        Ok(ahead.first_ready(&lanes)?.and_then(|ready| slots.get(ready).copied()))
    }
}
