//! Shuffle: a buffer of items, and always a random one of them comes next.
//!
//! ```text
//! fill the buffer to its size; draw one of it; put the next item in its place; and so on
//! ```
//!
//! tf.data's `shuffle(buffer_size, reshuffle_each_iteration=True)`, with draws of our own: a function
//! of (seed, epoch, turn) and of the chain it stands in. An item comes at most `size - 1` places
//! early, however late it may come: shuffle shards too, or interleave, where a dataset is sorted.
//!
//! The buffer holds items, which are places where the source can be read in any order. Passing over
//! items of a stream of known length goes through the draws alone; what is in the buffer then is
//! pulled, nothing else.

use super::draws::Draws;
use super::{Item, Items, Pass, Stream, Streamed, by_asking, print};
use crate::source::{BoxError, FieldSpec};

impl Stream {
    /// In random order, as far as a buffer of so many items goes; in another in each pass. With 0 or
    /// 1 as it is.
    #[must_use]
    pub fn shuffle(self, buffer_size: usize) -> Self {
        Self::new(Shuffle { from: [self], size: buffer_size.max(1) })
    }

    /// So many times, each shuffled anew: the same items in the same order as
    /// `shuffle(buffer_size).repeat(times)`, as tf.data's fused op is to give them. That filled the
    /// next turn's buffer while the last one ran out; here a buffer of places is filled at once, and
    /// where items are read in sequence [`prefetch`](Self::prefetch) does that. To mix the turns,
    /// `repeat(times).shuffle(buffer_size)`.
    #[must_use]
    pub fn shuffle_and_repeat(self, buffer_size: usize, times: u64) -> Self {
        self.shuffle(buffer_size).repeat(times)
    }
}

struct Shuffle {
    from: [Stream; 1],
    size: usize,
}

impl Streamed for Shuffle {
    fn fields(&self) -> &[FieldSpec] {
        self.from[0].fields()
    }

    fn parts(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Shuffled {
            items: self.from[0].open(pass)?,
            left: self.known_len(),
            size: self.size,
            buffer: vec![],
            draws: Draws::new(pass, self.fingerprint()),
        }))
    }

    fn known_len(&self) -> Option<u64> {
        self.from[0].known_len()
    }

    fn fingerprint(&self) -> u64 {
        print("shuffle", &[self.size as u64], &self.from)
    }
}

struct Shuffled {
    items: Box<dyn Items>,
    /// Items that were not pulled yet, if that is known.
    left: Option<u64>,
    size: usize,
    buffer: Vec<Item>,
    draws: Draws,
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
        let mut slots: Vec<Slot> = self.buffer.drain(..).map(Slot::Pulled).collect();
        let (mut pulled, mut done) = (0, 0);
        while done < count {
            while slots.len() < self.size && pulled < left {
                slots.push(Slot::Ahead(pulled));
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

/// An item of the buffer, or how many are pulled before it.
enum Slot {
    Pulled(Item),
    Ahead(u64),
}

impl Shuffled {
    /// Pulls what is in the slots, and passes over all else of the next `count` items.
    fn pull(&mut self, slots: Vec<Slot>, count: u64) -> Result<(), BoxError> {
        let ahead = |slot: &Slot| if let Slot::Ahead(place) = slot { Some(*place) } else { None };
        let mut wanted: Vec<u64> = slots.iter().filter_map(ahead).collect();
        wanted.sort_unstable();
        let mut items = Vec::with_capacity(wanted.len());
        let mut at = 0;
        for &place in &wanted {
            self.items.skip(place - at)?;
            let item = self.items.next()?;
            items.push(Some(item.ok_or("it ended before its known length")?));
            at = place + 1;
        }
        self.items.skip(count - at)?;
        self.left = self.left.map(|left| left - count);
        self.buffer.extend(slots.into_iter().filter_map(|slot| match slot {
            Slot::Pulled(item) => Some(item),
            Slot::Ahead(place) => items[wanted.binary_search(&place).ok()?].take(),
        }));
        Ok(())
    }
}

/// One of them, drawn; the last takes its place.
fn draw<T>(buffer: &mut Vec<T>, draws: &mut Draws) -> Option<T> {
    let place = draws.below(buffer.len() as u64) as usize;
    (!buffer.is_empty()).then(|| buffer.swap_remove(place))
}
