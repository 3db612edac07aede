//! Prefetch: a thread reads some items ahead.
//!
//! One thread, in order: it hides what a read takes behind what else is done meanwhile. For reads
//! side by side, [`interleave`](super::Stream::interleave).

use super::lanes::{Lane, Lanes};
use super::{Items, Pass, Stream, Streamed};
use crate::source::{BoxError, FieldSpec};

impl Stream {
    /// A thread of its own has up to so many items read before they are asked for; with 0 as it is.
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

    fn parts(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let lanes = Lanes::new(1, self.items);
        Ok(Box::new(Lane::new(&lanes, self.from[0].open(pass)?)))
    }

    fn known_len(&self) -> Option<u64> {
        self.from[0].known_len()
    }

    /// What is read ahead is the same.
    fn fingerprint(&self) -> u64 {
        self.from[0].fingerprint()
    }
}
