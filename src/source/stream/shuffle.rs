//! Shuffle: a buffer of items; the next item is a random one of the buffer.
//!
//! ```text
//! fill the buffer to its size; draw one of it; put the next item in its place; and so on
//! ```
//!
//! This is `shuffle(buffer_size, reshuffle_each_iteration=True)` of tf.data with random numbers of our
//! own: a function of (seed, epoch, turn) and of the chain of combinators. An item can come at most
//! `size - 1` positions early, but any number of positions late. If a dataset is sorted, shuffle its
//! shards too, or interleave them.
//!
//! If the source can be read in any order, the buffer holds references, not records. Skipping items of a
//! stream of known length only repeats the random draws; then the items left in the buffer are pulled,
//! and no others.

use super::draws::StreamRng;
use super::{Item, Items, Pass, Stream, Streamed, by_asking, facts_of};
use crate::source::{BoxError, Facts};
use std::slice;

impl Stream {
    /// Shuffles the stream in a buffer of `buffer_size` items, in a different order in each pass. With a
    /// size of 0 or 1 the order is unchanged.
    #[must_use]
    pub fn shuffle(self, buffer_size: usize) -> Self {
        let size = buffer_size.max(1);
        let facts = facts_of("shuffle", &[size as u64], slice::from_ref(&self));
        Self::new(Shuffle { facts, from: self, size })
    }

    /// Repeats the stream `times` times and shuffles each turn separately: the same items in the same
    /// order as `shuffle(buffer_size).repeat(times)`, which is what tf.data's fused op is meant to
    /// yield. That op filled the buffer of the next turn while the last turn ran out; here, a buffer of
    /// references is filled at once, and where items are read in sequence [`prefetch`](Self::prefetch)
    /// reads them early. To mix the turns, use `repeat(times).shuffle(buffer_size)`.
    #[must_use]
    pub fn shuffle_and_repeat(self, buffer_size: usize, times: u64) -> Self {
        self.shuffle(buffer_size).repeat(times)
    }
}

struct Shuffle {
    facts: Facts,
    from: Stream,
    size: usize,
}

impl Streamed for Shuffle {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Shuffled {
            items: self.from.open(pass)?,
            left: self.known_len(),
            size: self.size,
            buffer: vec![],
            draws: StreamRng::new(pass, self.facts.fingerprint),
        }))
    }

    fn known_len(&self) -> Option<u64> {
        self.from.known_len()
    }
}

struct Shuffled {
    items: Box<dyn Items>,
    /// The number of items that are not pulled yet, if it is known.
    left: Option<u64>,
    size: usize,
    buffer: Vec<Item>,
    draws: StreamRng,
}

impl Items for Shuffled {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        while self.buffer.len() < self.size {
            let Some(item) = self.items.next()? else { break };
            self.left = self.left.map(|left| left.saturating_sub(1));
            self.buffer.push(item);
        }
        Ok(draw(&mut self.buffer, &mut self.draws))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let Some(left) = self.left else { return by_asking(self, count) };
        let mut slots: Vec<BufferEntry> = self.buffer.drain(..).map(BufferEntry::Pulled).collect();
        let (mut pulled, mut done) = (0, 0);
        while done < count {
            while slots.len() < self.size && pulled < left {
                slots.push(BufferEntry::Ahead(pulled));
                pulled += 1;
            }
            if draw(&mut slots, &mut self.draws).is_none() {
                break;
            }
            done += 1;
        }
        self.pull(slots, pulled)?;
        Ok(done)
    }
}

/// An item of the buffer, or the number of items that are pulled before it.
enum BufferEntry {
    Pulled(Item),
    Ahead(u64),
}

impl Shuffled {
    /// Pulls the items of the buffer entries that are not pulled yet, and skips all others of the next
    /// `count` items.
    fn pull(&mut self, slots: Vec<BufferEntry>, count: u64) -> Result<(), BoxError> {
        let ahead = |slot: &BufferEntry| {
            if let BufferEntry::Ahead(position) = slot { Some(*position) } else { None }
        };
        let mut wanted: Vec<u64> = slots.iter().filter_map(ahead).collect();
        wanted.sort_unstable();
        let mut items = Vec::with_capacity(wanted.len());
        let mut at = 0;
        for &position in &wanted {
            self.items.skip(position - at)?;
            let item = self.items.next()?;
            items.push(Some(item.ok_or("the stream ended before its known length")?));
            at = position + 1;
        }
        self.items.skip(count - at)?;
        self.left = self.left.map(|left| left - count);
        self.buffer.extend(slots.into_iter().filter_map(|slot| match slot {
            BufferEntry::Pulled(item) => Some(item),
            BufferEntry::Ahead(position) => items[wanted.binary_search(&position).ok()?].take(),
        }));
        Ok(())
    }
}

/// Removes a random entry; the last entry takes its index.
fn draw<T>(buffer: &mut Vec<T>, draws: &mut StreamRng) -> Option<T> {
    let index = draws.below(buffer.len() as u64) as usize;
    (!buffer.is_empty()).then(|| buffer.swap_remove(index))
}
