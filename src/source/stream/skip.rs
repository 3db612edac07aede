//! Skip: all but the first items.

use super::{ENDLESS, Items, Pass, Stream, Streamed, fingerprint_of};
use crate::source::{BoxError, FieldSpec};

impl Stream {
    /// Leaves out the first `items` items.
    #[must_use]
    pub fn skip(self, items: u64) -> Self {
        Self::new(Skip { from: [self], count: items })
    }
}

struct Skip {
    from: [Stream; 1],
    count: u64,
}

impl Streamed for Skip {
    fn fields(&self) -> &[FieldSpec] {
        self.from[0].fields()
    }

    fn components(&self) -> &[Stream] {
        &self.from
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let mut items = self.from[0].open(pass)?;
        items.skip(self.count)?;
        Ok(items)
    }

    fn known_len(&self) -> Option<u64> {
        match self.from[0].known_len() {
            Some(ENDLESS) => Some(ENDLESS),
            len => len.map(|len| len.saturating_sub(self.count)),
        }
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of("skip", &[self.count], &self.from)
    }
}
