//! A cursor over one pass: moves forward to a position and skips the items before it.

use super::{Item, Items, Pass, Stream, StreamEnd};
use crate::panicked::caught;
use crate::source::BoxError;

/// A pass and the position in it.
#[derive(Default)]
pub(super) struct PassCursor {
    /// `None` before the pass begins.
    items: Option<Box<dyn Items>>,
    next: u64,
}

impl PassCursor {
    /// The position of the next item.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Drops the pass; its position stays.
    pub(super) fn close(&mut self) {
        self.items = None;
    }

    /// Returns the item at a position that is not behind the cursor.
    pub(super) fn at(
        &mut self,
        stream: &Stream,
        pass: &Pass,
        position: u64,
    ) -> Result<Item, StreamEnd> {
        let pulled = caught(|| self.pull(stream, pass, position));
        let said = pulled.unwrap_or_else(|message| Err(format!("panic: {message}").into()));
        match said {
            Ok(Some(item)) => Ok(item),
            Ok(None) => Err(self.end(stream)),
            Err(error) => Err(StreamEnd::Broke { item: self.next, error: error.into() }),
        }
    }

    fn pull(
        &mut self,
        stream: &Stream,
        pass: &Pass,
        position: u64,
    ) -> Result<Option<Item>, BoxError> {
        let items = match &mut self.items {
            Some(items) => items,
            none => none.insert(stream.open(pass)?),
        };
        let wanted = position - self.next;
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

    /// The end of the pass: an error if the stream promised more items.
    fn end(&self, stream: &Stream) -> StreamEnd {
        let items = self.next;
        match stream.known_len() {
            Some(len) if items < len => {
                let message = format!("the stream ends here, expected {len} items");
                StreamEnd::Broke { item: items, error: message.into() }
            }
            _ => StreamEnd::End { items },
        }
    }
}
