//! Filter: the items that a function wants.
//!
//! The record is read to know, one after the other: after [`interleave`](super::Stream::interleave)
//! with `reads` others have read it already. An item that can't be read comes through: who reads
//! it is told.

use super::{Item, Items, Pass, Stream, Streamed, print};
use crate::source::{BoxError, FieldSpec, OwnedValue};
use std::sync::Arc;

type Keep = Arc<dyn Fn(&[OwnedValue]) -> bool + Send + Sync>;

impl Stream {
    /// Only items whose values, in the order of the fields, are as `keep` wants them. It must be a
    /// function of them alone.
    ///
    /// How many there are is not known then. Two streams that differ in `keep` alone are one to a
    /// cursor.
    #[must_use]
    pub fn filter(self, keep: impl Fn(&[OwnedValue]) -> bool + Send + Sync + 'static) -> Self {
        Self::new(Filter { from: [self], keep: Arc::new(keep) })
    }
}

struct Filter {
    from: [Stream; 1],
    keep: Keep,
}

impl Streamed for Filter {
    fn fields(&self) -> &[FieldSpec] {
        self.from[0].fields()
    }

    fn parts(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Filtered { items: self.from[0].open(pass)?, keep: Arc::clone(&self.keep) }))
    }

    fn fingerprint(&self) -> u64 {
        print("filter", &[], &self.from)
    }
}

struct Filtered {
    items: Box<dyn Items>,
    keep: Keep,
}

impl Items for Filtered {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        while let Some(item) = self.items.next()? {
            let Ok(held) = item.held() else { return Ok(Some(item)) };
            if held.record().is_some_and(|record| (self.keep)(record)) {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }
}
