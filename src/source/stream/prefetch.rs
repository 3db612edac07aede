//! Prefetch: a thread reads items ahead.
//!
//! One thread reads in order: the time of its reads is hidden behind other work. For parallel reads, see
//! [`interleave`](super::Stream::interleave).

use super::read_ahead::{ReadAhead, ReadAheadPass};
use super::{Items, Pass, Stream, Streamed};
use crate::source::{BoxError, Facts};

impl Stream {
    /// Starts a thread that reads up to `items` items before they are asked for. With 0, the stream is
    /// unchanged.
    #[must_use]
    pub fn prefetch(self, items: usize) -> Self {
        // Reading ahead changes neither the items nor the fingerprint.
        if items == 0 { self } else { Self::new(Prefetch { from: self, items }) }
    }
}

struct Prefetch {
    from: Stream,
    items: usize,
}

impl Streamed for Prefetch {
    fn facts(&self) -> &Facts {
        self.from.facts()
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let lanes = ReadAhead::new(1, self.items);
        Ok(Box::new(ReadAheadPass::new(&lanes, self.from.open(pass)?)))
    }

    fn known_len(&self) -> Option<u64> {
        self.from.known_len()
    }
}
