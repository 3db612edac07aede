//! The rows of labels and arrays, from their stored numbers: by the steps of
//! [`element_steps`](super::element_steps), or sample by sample if an op does something else than its types say.

use super::element_steps::{ElementForm, ElementSteps, RowError, StepScratch};
use crate::error::Error;
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::{DType, Ops};
use std::fmt;

/// How the rows of a plan are written.
#[derive(Debug)]
pub(crate) struct ElementRows {
    /// `None` if samples are evaluated op by op.
    steps: Option<ElementSteps>,
    stored_bytes: usize,
    row_bytes: usize,
}

impl ElementRows {
    /// Plans the rows of `ops`, with their streams, for samples of the form `first`; `mixes` has the type of the
    /// elements if a label is written as two classes and a share. A row is `count` elements of type `dtype`.
    pub(super) fn new(
        list: (&Ops, &[u64]),
        first: ElementForm,
        mixes: Option<DType>,
        (dtype, count): (DType, usize),
    ) -> Self {
        let steps = ElementSteps::new(list, first, mixes, (dtype, count));
        Self { steps, stored_bytes: first.bytes(), row_bytes: count * dtype.bytes() }
    }

    /// Returns whether ops draw for each sample: [`write`](Self::write) then needs the keys of the samples.
    pub(crate) fn draws(&self) -> bool {
        self.steps.as_ref().is_none_or(ElementSteps::draws)
    }

    /// Returns the bytes of a sample's stored numbers.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// Writes the rows of `count` samples, one after the other, from their stored numbers. `keys` may be empty if
    /// no op draws. `evaluate` writes one row, op by op.
    ///
    /// # Errors
    ///
    /// If a one-hot vector has no such class, or an op returns an error. The rows are then not complete.
    ///
    /// # Panics
    ///
    /// If `stored` and `rows` do not have the bytes of `count` samples, or there are too few keys.
    pub(super) fn write(
        &self,
        (count, keys): (usize, &[SampleKey]),
        stored: &[u8],
        scratch: &mut StepScratch,
        rows: &mut [u8],
        evaluate: impl Fn(SampleKey, &[u8], &mut [u8]) -> Result<(), Error>,
    ) -> Result<(), RowError> {
        assert_eq!(stored.len(), count * self.stored_bytes, "stored numbers of the samples");
        if let Some(steps) = &self.steps {
            return steps.run((count, keys), stored, scratch, rows);
        }
        for (row, key) in keys[..count].iter().enumerate() {
            let stored = &stored[row * self.stored_bytes..][..self.stored_bytes];
            let to = &mut rows[row * self.row_bytes..][..self.row_bytes];
            evaluate(*key, stored, to).map_err(|error| RowError { row, error })?;
        }
        Ok(())
    }
}

impl fmt::Display for ElementRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.steps {
            Some(steps) => steps.fmt(f),
            None => f.write_str("op by op"),
        }
    }
}
