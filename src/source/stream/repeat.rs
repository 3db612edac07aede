//! Repeat: a stream again and again, each time as a turn of its own.
//!
//! ```text
//! a b c ─▶ repeat(2) ─▶ a b c a b c        what shuffles before it shuffles each turn anew
//! ```
//!
//! What turns out to have nothing can't be repeated for ever: that is an error.

use super::{ENDLESS, Item, Items, Pass, Stream, Streamed, print};
use crate::source::{BoxError, FieldSpec};

impl Stream {
    /// So many times one after the other.
    #[must_use]
    pub fn repeat(self, times: u64) -> Self {
        Self::new(Repeat { from: [self], times })
    }

    /// Again and again. Unless it is cut, as by [`take`](Self::take), an epoch never ends.
    #[must_use]
    pub fn repeat_forever(self) -> Self {
        self.repeat(ENDLESS)
    }

    /// Exactly so many items in every pass, whatever the stream has: cut if it has more, repeated if
    /// it has fewer. WebDataset's `with_epoch`. Every pass begins anew.
    #[must_use]
    pub fn with_epoch(self, items: u64) -> Self {
        self.repeat_forever().take(items)
    }
}

struct Repeat {
    from: [Stream; 1],
    times: u64,
}

impl Streamed for Repeat {
    fn fields(&self) -> &[FieldSpec] {
        self.from[0].fields()
    }

    fn parts(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let (from, len) = (self.from[0].clone(), self.from[0].known_len());
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
        match (self.from[0].known_len(), self.times) {
            (_, 0) | (Some(0), _) => Some(0),
            (_, ENDLESS) => Some(ENDLESS),
            (len, times) => len.map(|len| len.saturating_mul(times)),
        }
    }

    fn fingerprint(&self) -> u64 {
        print("repeat", &[self.times], &self.from)
    }
}

struct Turns {
    from: Stream,
    pass: Pass,
    /// Items of a turn, where that is known.
    len: Option<u64>,
    times: u64,
    turn: u64,
    /// The turn's, once it is begun.
    items: Option<Box<dyn Items>>,
    /// Whether this turn gave any.
    gave: bool,
    /// It is known to have none.
    is_empty: bool,
}

impl Turns {
    /// The turn that is in work; `None` after the last.
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
            let name = self.from.name();
            return Err(format!("{name} has no items: it can't be repeated for ever").into());
        }
        self.items = None;
        self.turn += 1;
        self.gave = false;
        Ok(())
    }

    /// Passes over whole turns that are not begun, of up to `count` items.
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
