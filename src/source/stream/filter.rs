//! Filter: the items that a function accepts.
//!
//! Each record is read before the function is called, one after another. After
//! [`interleave`](super::Stream::interleave) with `reads`, other threads have read the records already.
//! An item that can't be read passes the filter: its error is reported when it is read.

use super::{Item, Items, Pass, Stream, Streamed, facts_of};
use crate::source::{BoxError, Facts, OwnedValue};
use std::slice;
use std::sync::Arc;

type Keep = Arc<dyn Fn(&[OwnedValue]) -> Result<bool, BoxError> + Send + Sync>;

impl Stream {
    /// Yields only the items that `keep` accepts. `keep` is called with an item's values in the order of
    /// the fields, and its result must depend on them alone.
    ///
    /// The number of items is then unknown. A cursor can't distinguish two streams that differ only in
    /// `keep`.
    #[must_use]
    pub fn filter(self, keep: impl Fn(&[OwnedValue]) -> bool + Send + Sync + 'static) -> Self {
        self.try_filter(move |record| Ok(keep(record)))
    }

    /// Like [`filter`](Self::filter), with a function that may fail. Its error ends the pass.
    #[must_use]
    pub fn try_filter(
        self,
        keep: impl Fn(&[OwnedValue]) -> Result<bool, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let facts = facts_of("filter", &[], slice::from_ref(&self));
        Self::new(Filter { facts, from: self, keep: Arc::new(keep) })
    }
}

struct Filter {
    facts: Facts,
    from: Stream,
    keep: Keep,
}

impl Streamed for Filter {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Filtered { items: self.from.open(pass)?, keep: Arc::clone(&self.keep) }))
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
            if let Some(record) = held.record()
                && (self.keep)(record)?
            {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }
}
