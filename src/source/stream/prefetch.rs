//! Prefetch: a thread reads items ahead.
//!
//! One thread reads in order: the time of its reads is hidden behind other work. For parallel reads, see
//! [`interleave`](super::Stream::interleave).

use super::read_ahead::{ReadAhead, ReadAheadPass};
use super::{Items, Pass, Stream, Streamed};
use crate::source::{BoxError, FieldSpec};

impl Stream {
    /// Starts a thread that reads up to `items` items before they are asked for. With 0, the stream is
    /// unchanged.
    #[must_use]
    pub fn prefetch(self, items: usize) -> Self {
        if items == 0 { self } else { Self::new(Prefetch { from: [self], items }) }
    }
}

struct Prefetch {
    from: [Stream; 1],
    items: usize,
}

impl Streamed for Prefetch {
    fn fields(&self) -> &[FieldSpec] {
        self.from[0].fields()
    }

    fn components(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let lanes = ReadAhead::new(1, self.items);
        Ok(Box::new(ReadAheadPass::new(&lanes, self.from[0].open(pass)?)))
    }

    fn known_len(&self) -> Option<u64> {
        self.from[0].known_len()
    }

    /// Reading ahead does not change the items.
    fn fingerprint(&self) -> u64 {
        self.from[0].fingerprint()
    }
}
