//! Repeat: a stream several times, each time as a separate turn.
//!
//! ```text
//! a b c ─▶ repeat(2) ─▶ a b c a b c        a shuffle before it differs in each turn
//! ```
//!
//! A stream without items can't be repeated forever: that is an error.

use super::{ENDLESS, Item, Items, Pass, Stream, Streamed, facts_of};
use crate::source::{BoxError, Facts};
use std::slice;

impl Stream {
    /// Repeats the stream `times` times.
    #[must_use]
    pub fn repeat(self, times: u64) -> Self {
        let facts = facts_of("repeat", &[times], slice::from_ref(&self));
        Self::new(Repeat { facts, from: self, times })
    }

    /// Repeats the stream without end. An epoch then never ends, unless the stream is cut, for example
    /// by [`take`](Self::take).
    #[must_use]
    pub fn repeat_forever(self) -> Self {
        self.repeat(ENDLESS)
    }

    /// Yields exactly `items` items in every pass: the stream is cut if it has more, and repeated if it
    /// has fewer. WebDataset's `with_epoch`. Every pass begins at the first item.
    #[must_use]
    pub fn with_epoch(self, items: u64) -> Self {
        self.repeat_forever().take(items)
    }
}

struct Repeat {
    facts: Facts,
    from: Stream,
    times: u64,
}

impl Streamed for Repeat {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let (from, len) = (self.from.clone(), self.from.known_len());
        Ok(Box::new(Turns {
            from,
            pass: *pass,
            len: len.filter(|&len| len > 0 && len != ENDLESS),
            times: self.times,
            turn: 0,
            items: None,
            gave: false,
            is_empty: len == Some(0),
        }))
    }

    fn known_len(&self) -> Option<u64> {
        match (self.from.known_len(), self.times) {
            (_, 0) | (Some(0), _) => Some(0),
            (_, ENDLESS) => Some(ENDLESS),
            (len, times) => len.map(|len| len.saturating_mul(times)),
        }
    }
}

struct Turns {
    from: Stream,
    pass: Pass,
    /// The number of items of a turn, if it is known.
    len: Option<u64>,
    times: u64,
    turn: u64,
    /// The items of the current turn, once it is begun.
    items: Option<Box<dyn Items>>,
    /// True if the current turn has yielded an item.
    gave: bool,
    /// True if the stream is known to have no items.
    is_empty: bool,
}

impl Turns {
    /// Returns the items of the current turn; `None` after the last turn.
    fn items(&mut self) -> Result<Option<&mut Box<dyn Items>>, BoxError> {
        if self.turn >= self.times || self.is_empty {
            return Ok(None);
        }
        if self.items.is_none() {
            self.items = Some(self.from.open(&self.pass.turn(self.turn))?);
        }
        Ok(self.items.as_mut())
    }

    fn end_turn(&mut self) -> Result<(), BoxError> {
        if !self.gave && self.times == ENDLESS {
            let name = &self.from.facts().name;
            return Err(format!("{name} has no items: it can't be repeated forever").into());
        }
        self.items = None;
        self.turn += 1;
        self.gave = false;
        Ok(())
    }

    /// Skips whole turns that are not begun, up to `count` items.
    fn skip_turns(&mut self, count: u64) -> u64 {
        let Some(len) = self.len.filter(|_| self.items.is_none()) else { return 0 };
        let turns = (count / len).min(self.times - self.turn);
        self.turn += turns;
        turns * len
    }
}

impl Items for Turns {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        while let Some(items) = self.items()? {
            if let Some(item) = items.next()? {
                self.gave = true;
                return Ok(Some(item));
            }
            self.end_turn()?;
        }
        Ok(None)
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let mut done = self.skip_turns(count);
        while done < count {
            let Some(items) = self.items()? else { break };
            let passed = items.skip(count - done)?;
            self.gave |= passed > 0;
            done += passed;
            if done < count {
                self.end_turn()?;
                done += self.skip_turns(count - done);
            }
        }
        Ok(done)
    }
}
