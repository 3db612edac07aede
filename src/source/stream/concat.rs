//! Concat: one stream after another.
//!
//! ```text
//! [a b] [c] [d e] ─▶ a b c d e          tf.data's `concatenate`, of any number
//! ```

use super::error::check_equal;
use super::{Item, Items, Pass, Stream, Streamed, facts_of, labelled, sum};
use crate::error::Error;
use crate::source::{BoxError, Facts};
use std::sync::Arc;

impl Stream {
    /// Combines streams one after another, each to its end.
    ///
    /// # Errors
    ///
    /// If there is no stream, their fields differ, or one number means different classes in two of them.
    pub fn concat(streams: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        let parts: Arc<[Self]> = streams.into_iter().collect();
        check_equal("concat", &parts)?;
        Ok(Self::new(ConcatStream { facts: facts_of("concat", &[], &parts), parts }))
    }
}

struct ConcatStream {
    facts: Facts,
    parts: Arc<[Stream]>,
}

impl Streamed for ConcatStream {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(InTurn { parts: Arc::clone(&self.parts), pass: *pass, at: 0, items: None }))
    }

    fn known_len(&self) -> Option<u64> {
        sum(self.parts.iter().map(Stream::known_len))
    }
}

struct InTurn {
    parts: Arc<[Stream]>,
    pass: Pass,
    at: usize,
    /// The items of the current stream, once it is begun.
    items: Option<Box<dyn Items>>,
}

impl InTurn {
    /// Returns the items of the current stream; `None` after the last stream.
    fn items(&mut self) -> Result<Option<&mut Box<dyn Items>>, BoxError> {
        let Some(part) = self.parts.get(self.at) else { return Ok(None) };
        if self.items.is_none() {
            self.items = Some(part.open(&self.pass.for_component(self.at))?);
        }
        Ok(self.items.as_mut())
    }

    fn end_part(&mut self) {
        self.items = None;
        self.at += 1;
    }

    /// Skips the current stream without beginning it, if it has at most `most` items.
    fn skip_part(&mut self, most: u64) -> Option<u64> {
        let part = self.parts.get(self.at).filter(|_| self.items.is_none())?;
        let len = part.known_len().filter(|&len| len <= most)?;
        self.at += 1;
        Some(len)
    }
}

impl Items for InTurn {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        while let Some(items) = self.items()? {
            if let Some(item) = items.next()? {
                return Ok(Some(labelled(item, self.at, self.parts.len())));
            }
            self.end_part();
        }
        Ok(None)
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let mut done = 0;
        while done < count {
            if let Some(passed) = self.skip_part(count - done) {
                done += passed;
                continue;
            }
            let Some(items) = self.items()? else { break };
            done += items.skip(count - done)?;
            if done < count {
                self.end_part();
            }
        }
        Ok(done)
    }
}
