//! Skip: all but the first items.

use super::{ENDLESS, Items, Pass, Stream, Streamed, facts_of};
use crate::source::{BoxError, Facts};
use std::slice;

impl Stream {
    /// Leaves out the first `items` items.
    #[must_use]
    pub fn skip(self, items: u64) -> Self {
        let facts = facts_of("skip", &[items], slice::from_ref(&self));
        Self::new(Skip { facts, from: self, count: items })
    }
}

struct Skip {
    facts: Facts,
    from: Stream,
    count: u64,
}

impl Streamed for Skip {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let mut items = self.from.open(pass)?;
        items.skip(self.count)?;
        Ok(items)
    }

    fn known_len(&self) -> Option<u64> {
        match self.from.known_len() {
            Some(ENDLESS) => Some(ENDLESS),
            len => len.map(|len| len.saturating_sub(self.count)),
        }
    }
}
