//! Interleave: some streams at a time, a block of items of each in turn.
//!
//! ```text
//! streams [a a a] [b] [c c]   cycle_length 2, block_length 1
//!
//! slot 0   a     a     a
//! slot 1      b     .  c  c           b has ended: c takes its slot when the turn comes again
//!      ─▶  a  b  a     a  c  c
//! ```
//!
//! The order is tf.data's: the turn passes on after a block and at a stream's end, and a slot that
//! is free is filled when the turn comes to it.
//!
//! With `reads`, so many threads read the open streams ahead, of each a block or two: what a read
//! takes is hidden behind the others. The order is the same; or, not `deterministic`, whichever is
//! ready comes next, so that a slow stream holds up none. Such a stream can't be gone on with from
//! the middle.

use super::error::{StreamError, check_equal};
use super::lanes::{Lane, Lanes};
use super::{Item, Items, Pass, Stream, Streamed, count, labelled, print, sum};
use crate::source::shards::deal;
use crate::source::{BoxError, FieldSpec};
use crate::threads;
use std::sync::Arc;

/// How streams are [interleaved](Stream::interleave).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interleave {
    /// Streams that are open at a time.
    pub cycle_length: usize,
    /// Items of one before the next has its turn.
    pub block_length: usize,
    /// Threads that read ahead, at most 1024; 0 for none.
    pub reads: usize,
    /// Whether the order is the same whatever the threads. Without `reads` it always is.
    pub deterministic: bool,
    /// Whether every pass takes the streams in an order of its own, drawn from the loader's seed and the
    /// epoch: so the shards that are read together are others each time.
    pub shuffle: bool,
}

/// Four streams at a time, an item of each in turn, read by whoever asks.
impl Default for Interleave {
    fn default() -> Self {
        Self { cycle_length: 4, block_length: 1, reads: 0, deterministic: true, shuffle: false }
    }
}

/// Most items of a stream that are read ahead, however long a block is.
const MOST_AHEAD: usize = 32;

impl Stream {
    /// The streams, several at a time, in turn: one for each shard, so that items of all parts of a
    /// dataset come near each other.
    ///
    /// # Errors
    ///
    /// If there is no stream, they are not of the same fields, a length is 0, or too many threads are
    /// asked for.
    pub fn interleave(
        streams: impl IntoIterator<Item = Self>,
        how: Interleave,
    ) -> Result<Self, StreamError> {
        let parts: Arc<[Self]> = streams.into_iter().collect();
        check_equal("interleave", &parts)?;
        for (param, length) in
            [("cycle_length", how.cycle_length), ("block_length", how.block_length)]
        {
            if length == 0 {
                return Err(StreamError::Zero { what: "interleave", param });
            }
        }
        if how.reads > threads::MOST {
            return Err(StreamError::Threads { what: "interleave", found: how.reads });
        }
        Ok(Self::new(Interleaved { parts, how }))
    }
}

struct Interleaved {
    parts: Arc<[Stream]>,
    how: Interleave,
}

impl Streamed for Interleaved {
    fn fields(&self) -> &[FieldSpec] {
        self.parts[0].fields()
    }

    fn parts(&self) -> &[Stream] {
        &self.parts
    }

    fn part_count(&self) -> usize {
        count(&self.parts)
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let (how, parts, pass) = (self.how, Arc::clone(&self.parts), *pass);
        let lanes = (how.reads > 0).then(|| {
            let room = how.block_length.saturating_mul(2).min(MOST_AHEAD);
            Lanes::new(how.reads.min(how.cycle_length), room)
        });
        let open = Cycle {
            slots: (0..how.cycle_length.min(parts.len())).map(|_| None).collect(),
            order: deal(parts.len(), &pass, how.shuffle, (0, 1)),
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

    fn is_exact(&self) -> bool {
        (self.how.deterministic || self.how.reads == 0) && self.parts.iter().all(Stream::is_exact)
    }

    /// However many threads read ahead, it is the same.
    fn fingerprint(&self) -> u64 {
        let Interleave { cycle_length, block_length, shuffle, .. } = self.how;
        let parameters = [cycle_length as u64, block_length as u64, u64::from(shuffle)];
        print("interleave", &parameters, &self.parts)
    }
}

/// The streams that are open.
struct Cycle {
    parts: Arc<[Stream]>,
    pass: Pass,
    lanes: Option<Arc<Lanes>>,
    slots: Vec<Option<Open>>,
    /// The streams as they are opened, and which of these is the next.
    order: Vec<usize>,
    next: usize,
}

/// A stream of the cycle, and its place among all.
struct Open {
    part: usize,
    way: Way,
}

/// How a stream is read.
enum Way {
    Plain(Box<dyn Items>),
    Ahead(Lane),
}

impl Open {
    fn items(&mut self) -> &mut dyn Items {
        match &mut self.way {
            Way::Plain(items) => &mut **items,
            Way::Ahead(lane) => lane,
        }
    }

    /// Its next item, as one of `parts` streams.
    fn next(&mut self, parts: usize) -> Result<Option<Item>, BoxError> {
        let part = self.part;
        Ok(self.items().next()?.map(|item| labelled(item, part, parts)))
    }

    /// Has it read ahead from here on.
    fn begin(&mut self) -> Result<(), BoxError> {
        if let Way::Ahead(lane) = &mut self.way {
            lane.begin()?;
        }
        Ok(())
    }
}

impl Cycle {
    /// Opens the next stream in a slot, if there is one.
    fn fill(&mut self, slot: usize) -> Result<(), BoxError> {
        let Some(&part) = self.order.get(self.next) else { return Ok(()) };
        let items = self.parts[part].open(&self.pass.of_part(part))?;
        let way = match &self.lanes {
            None => Way::Plain(items),
            Some(lanes) => Way::Ahead(Lane::new(lanes, items)),
        };
        self.slots[slot] = Some(Open { part, way });
        self.next += 1;
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.next >= self.order.len() && self.slots.iter().all(Option::is_none)
    }

    /// Has all that will be asked for soon read ahead, as it is about to be asked for. The slots
    /// that are free are filled at their turn, which the order of the streams goes by; but before
    /// the first has ended they are free only since nothing was asked for.
    fn begin(&mut self) -> Result<(), BoxError> {
        if self.lanes.is_none() {
            return Ok(());
        }
        for slot in self.next..self.slots.len() {
            self.fill(slot)?;
        }
        self.slots.iter_mut().flatten().try_for_each(Open::begin)
    }
}

/// In tf.data's order.
struct Woven {
    open: Cycle,
    block: u64,
    /// Whose turn it is, and how many it gave.
    slot: usize,
    given: u64,
}

impl Woven {
    fn pass_on(&mut self) {
        self.slot = (self.slot + 1) % self.open.slots.len();
        self.given = 0;
    }

    /// Takes of the stream whose turn it is, up to the rest of its block: what `take` says how many
    /// of. `None` at the end of all.
    fn take<T>(
        &mut self,
        mut take: impl FnMut(&mut Open, u64) -> Result<(u64, T), BoxError>,
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

/// As they are ready.
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
    /// A slot whose stream has an item or has ended; `None` if none is open.
    fn ready(&self) -> Result<Option<usize>, BoxError> {
        let lanes = self.0.slots.iter().enumerate().filter_map(|(slot, open)| match open {
            Some(Open { way: Way::Ahead(lane), .. }) => Some((slot, lane)),
            _ => None,
        });
        let (slots, lanes): (Vec<usize>, Vec<&Lane>) = lanes.unzip();
        let Some(ahead) = &self.0.lanes else { return Ok(None) };
        Ok(ahead.first_ready(&lanes)?.and_then(|ready| slots.get(ready).copied()))
    }
}
