//! Take: the first items only.

use super::{Item, Items, Pass, Stream, Streamed, facts_of};
use crate::source::{BoxError, Facts};
use std::slice;

impl Stream {
    /// Yields at most the first `items` items.
    #[must_use]
    pub fn take(self, items: u64) -> Self {
        let facts = facts_of("take", &[items], slice::from_ref(&self));
        Self::new(Take { facts, from: self, count: items })
    }
}

struct Take {
    facts: Facts,
    from: Stream,
    count: u64,
}

impl Streamed for Take {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(TakePass { items: self.from.open(pass)?, left: self.count }))
    }

    fn known_len(&self) -> Option<u64> {
        match self.count {
            0 => Some(0),
            count => self.from.known_len().map(|len| len.min(count)),
        }
    }
}

struct TakePass {
    items: Box<dyn Items>,
    left: u64,
}

impl Items for TakePass {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.items.next()
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let count = count.min(self.left);
        self.left -= count;
        self.items.skip(count)
    }
}
