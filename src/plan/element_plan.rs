//! The plan of a field with one number a sample, or one array: labels, targets, vectors.
//!
//! ```text
//! stored elements ──Convert, View, each for itself──▶ a row of the batch        (Squeeze moves nothing)
//! ```
//!
//! [`run`](ElementPlan::run) takes many samples through the steps of [`element_steps`](super::element_steps);
//! [`evaluate`](ElementPlan::evaluate) takes one sample through the list op by op, and is the definition.

use super::element_rows::ElementRows;
use super::element_steps::{ElementForm, RowError, StepScratch};
use super::label::{Elements, streams, write};
use crate::error::Error;
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::{ElementValue, SampleKey};
use fuseloop_ops::{DType, Ops};

/// A checked list of ops on a label or an array.
#[derive(Debug)]
pub struct ElementPlan {
    pub(super) ops: Ops,
    /// The stream of random numbers of each op.
    pub(super) streams: Vec<u64>,
    stored: ElementForm,
    pub(super) dtype: DType,
    shape: Vec<usize>,
    mixes_classes: bool,
    rows: ElementRows,
}

impl ElementPlan {
    /// Plans the rows of checked `ops`, which make elements of `dtype` in `shape` of the stored ones.
    pub(super) fn of_checked(
        ops: Ops,
        stored: ElementForm,
        (dtype, shape): (DType, Vec<usize>),
        mixes_classes: bool,
    ) -> Self {
        let streams = streams(&ops);
        let output = (dtype, shape.iter().product());
        let mixes = mixes_classes.then_some(dtype);
        let rows = ElementRows::new((&ops, &streams), stored, mixes, output);
        Self { ops, streams, stored, dtype, shape, mixes_classes, rows }
    }

    /// Returns whether an op on whole batches turns a label into `[class, class of the partner, share]`, instead of
    /// mixing floats.
    #[must_use]
    pub fn mixes_classes(&self) -> bool {
        self.mixes_classes
    }

    /// Returns the number of elements along each axis of one sample.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the ops, in order.
    #[must_use]
    pub fn ops(&self) -> &Ops {
        &self.ops
    }

    /// Returns the bytes of one sample's output.
    #[must_use]
    pub fn sample_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }

    /// Returns how rows are written.
    pub(crate) fn rows(&self) -> &ElementRows {
        &self.rows
    }

    /// Writes the elements of `samples`, their number and their keys, to `rows`, one after the other, from their
    /// stored elements; those of a label are the bytes of i64 or f64, lowest first. The rows are those that
    /// [`evaluate`](Self::evaluate) writes. The keys may be empty if no op draws.
    ///
    /// # Errors
    ///
    /// If a one-hot vector has no such class, or an op returns an error. The rows are then not complete.
    ///
    /// # Panics
    ///
    /// If `stored` and `rows` do not have the bytes of all samples, or there are too few keys.
    pub fn run(
        &self,
        samples: (usize, &[SampleKey]),
        stored: &[u8],
        scratch: &mut StepScratch,
        rows: &mut [u8],
    ) -> Result<(), RowError> {
        let evaluate = |key, stored: &[u8], out: &mut [u8]| self.evaluate(key, stored, out);
        DefaultFloats::during(|| self.rows.write(samples, stored, scratch, rows, evaluate))
    }

    /// Writes the elements of the sample of `key` after its own ops, before a batch is mixed. Where
    /// [`mixes_classes`](Self::mixes_classes), these are the class twice and a share of 1.
    ///
    /// This is the definition of a label and of an array, op by op.
    ///
    /// # Errors
    ///
    /// If a one-hot vector has no such class, or an op returns an error.
    ///
    /// # Panics
    ///
    /// If `out` does not have [`sample_bytes`](Self::sample_bytes) bytes.
    pub fn evaluate(&self, key: SampleKey, stored: &[u8], out: &mut [u8]) -> Result<(), Error> {
        assert_eq!(out.len(), self.sample_bytes(), "bytes of a sample");
        DefaultFloats::during(|| self.evaluate_ops(key, stored, out))
    }

    fn evaluate_ops(&self, key: SampleKey, stored: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let mut elements = Elements::of_stored(self.stored, stored);
        for (op, &stream) in self.ops.iter().zip(&self.streams) {
            elements = elements.after(&**op, (key, stream))?;
        }
        match elements {
            // The label, its partner's label (the same until the batch is mixed), and the label's share.
            Elements::One(label) if self.mixes_classes => {
                let label = label.converted(self.dtype);
                let all = [label, label, ElementValue::from(1.0f64).converted(self.dtype)];
                let width = self.dtype.bytes();
                all.into_iter().zip(out.chunks_exact_mut(width)).for_each(|(e, to)| write(e, to));
            }
            elements => elements.store(out),
        }
        Ok(())
    }
}
