//! A pass that is gone through by places: what lies between is passed over.

use super::{Halt, Item, Items, Pass, Stream};
use crate::panicked::message;
use crate::source::BoxError;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A pass, and how far it has come.
#[derive(Default)]
pub(super) struct Tape {
    /// `None` before it is begun.
    items: Option<Box<dyn Items>>,
    next: u64,
}

impl Tape {
    /// The place of its next item.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Lets the pass go; its place stays.
    pub(super) fn close(&mut self) {
        self.items = None;
    }

    /// The item at a place that it has not come to yet. An error stays where it is.
    pub(super) fn at(&mut self, stream: &Stream, pass: &Pass, place: u64) -> Result<Item, Halt> {
        let pulled = catch_unwind(AssertUnwindSafe(|| self.pull(stream, pass, place)));
        let said =
            pulled.unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic)).into()));
        match said {
            Ok(Some(item)) => Ok(item),
            Ok(None) => Err(self.end(stream)),
            Err(error) => Err(Halt::Broke { item: self.next, message: error.to_string() }),
        }
    }

    fn pull(&mut self, stream: &Stream, pass: &Pass, place: u64) -> Result<Option<Item>, BoxError> {
        let items = match &mut self.items {
            Some(items) => items,
            none => none.insert(stream.open(pass)?),
        };
        let wanted = place - self.next;
        if wanted > 0 {
            let passed = items.skip(wanted)?;
            self.next += passed;
            if passed < wanted {
                return Ok(None);
            }
        }
        let item = items.next()?;
        self.next += u64::from(item.is_some());
        Ok(item)
    }

    /// What its end is: an error, if more were promised.
    fn end(&self, stream: &Stream) -> Halt {
        let items = self.next;
        match stream.known_len() {
            Some(len) if items < len => {
                let message = format!("it ends here, {len} items were promised");
                Halt::Broke { item: items, message }
            }
            _ => Halt::End { items },
        }
    }
}
