//! Take: the first items only.

use super::{Item, Items, Pass, Stream, Streamed, fingerprint_of};
use crate::source::{BoxError, FieldSpec};

impl Stream {
    /// Yields at most the first `items` items.
    #[must_use]
    pub fn take(self, items: u64) -> Self {
        Self::new(Take { from: [self], count: items })
    }
}

struct Take {
    from: [Stream; 1],
    count: u64,
}

impl Streamed for Take {
    fn fields(&self) -> &[FieldSpec] {
        self.from[0].fields()
    }

    fn components(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(TakePass { items: self.from[0].open(pass)?, left: self.count }))
    }

    fn known_len(&self) -> Option<u64> {
        match self.count {
            0 => Some(0),
            count => self.from[0].known_len().map(|len| len.min(count)),
        }
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of("take", &[self.count], &self.from)
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
