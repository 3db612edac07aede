//! The plan of a field of arrays: other element types, dropped axes, and mixing.
//!
//! ```text
//! stored elements ──Convert, View, each for itself──▶ a row of the batch        (Squeeze moves nothing)
//! ```
//!
//! [`run`](ArrayPlan::run) takes many samples through the steps of [`element_steps`](super::element_steps);
//! [`evaluate`](ArrayPlan::evaluate) takes one sample through the list op by op, and is the definition.
//!
//! An op that [takes vectors](fuseloop_ops::author::LabelOp::takes_vector) gets all elements. Other ops are
//! refused: an op on labels works on one number, and an image has its own plan.

use super::element_rows::ElementRows;
use super::element_steps::{ElementForm, RowError, StepScratch};
use super::label::{Elements, streams};
use super::{batch_ops, check_length, of_type};
use crate::error::Error;
use fuseloop_ops::author::{OpClass, Type};
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::{ElementValue, SampleKey};
use fuseloop_ops::{DType, Ops, TypeError};

/// A checked list of ops on an array.
#[derive(Debug)]
pub struct ArrayPlan {
    ops: Ops,
    /// The stream of random numbers of each op.
    streams: Vec<u64>,
    input: DType,
    dtype: DType,
    shape: Vec<usize>,
    rows: ElementRows,
}

impl ArrayPlan {
    /// Checks `ops` for a field of arrays of `shape`.
    ///
    /// # Errors
    ///
    /// If the ops do not fit the array.
    pub fn new(ops: Ops, input: DType, shape: Vec<usize>) -> Result<Self, Error> {
        check_length(&ops)?;
        let stored = shape.iter().product();
        let mut current = Type::Tensor { dtype: input, shape };
        for (op_index, op) in ops.iter().enumerate() {
            batch_ops::check_last(&ops, op_index)?;
            let refused = |error| of_type(op_index, error);
            let after = op.output(&current).map_err(refused)?;
            if !is_taken(op.class(), &current, &after) {
                return Err(refused(not_taken(op.name(), &current)));
            }
            batch_ops::check_mixed(&**op, &current, &after).map_err(refused)?;
            current = after;
        }
        match current {
            Type::Tensor { dtype, shape } => {
                let streams = streams(&ops);
                let output = (dtype, shape.iter().product());
                let form = ElementForm::Vector(input, stored);
                let rows = ElementRows::new((&ops, &streams), form, None, output);
                Ok(Self { ops, streams, input, dtype, shape, rows })
            }
            Type::Image(_) => unreachable!("no op makes an image of an array"),
        }
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

    /// Returns how rows are written.
    pub(crate) fn rows(&self) -> &ElementRows {
        &self.rows
    }

    /// Writes the arrays of `samples`, their number and their keys, to `rows`, one after the other, from their
    /// stored elements. They are those that [`evaluate`](Self::evaluate) writes. The keys may be empty if no op
    /// draws.
    ///
    /// # Errors
    ///
    /// If an op returns an error. The rows are then not complete.
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

    /// Writes the array of the sample of `key`, whose stored elements are `stored`, to `out`.
    ///
    /// This is the definition of an array, op by op.
    ///
    /// # Errors
    ///
    /// If an op returns an error.
    pub fn evaluate(&self, key: SampleKey, stored: &[u8], out: &mut [u8]) -> Result<(), Error> {
        DefaultFloats::during(|| self.evaluate_ops(key, stored, out))
    }

    fn evaluate_ops(&self, key: SampleKey, stored: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let elements = stored.chunks_exact(self.input.bytes());
        let elements = elements.map(|bytes| ElementValue::from_bytes(self.input, bytes)).collect();
        let mut ops = self.ops.iter().zip(&self.streams);
        let changed = ops.try_fold(Elements::Vector(elements), |elements, (op, &stream)| {
            elements.after(&**op, (key, stream))
        })?;
        changed.store(out);
        Ok(())
    }
}

/// Returns whether an op treats each element by itself.
fn is_taken(class: OpClass<'_>, before: &Type, after: &Type) -> bool {
    match class {
        OpClass::Cast(_) | OpClass::View(_) | OpClass::Device(_) => true,
        OpClass::Label(op) => op.keeps_elements() || (op.takes_vector() && before == after),
        OpClass::Batch(_) | OpClass::HostBatch(_) => before == after,
        _ => false,
    }
}

fn not_taken(op: &'static str, found: &Type) -> TypeError {
    let expected = "a label (an array takes Convert, View, Squeeze, and mixing of floats)";
    TypeError { op, expected, found: found.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::{Convert, LabelSmoothing, Lambda, MixUp, Normalize, OneHot, Squeeze, ops};

    fn plan(ops: Ops, dtype: DType, shape: &[usize]) -> Result<ArrayPlan, Error> {
        ArrayPlan::new(ops, dtype, shape.to_vec())
    }

    /// Runs the plan for a sample, which must be as it is evaluated.
    fn run(plan: &ArrayPlan, key: SampleKey, stored: &[u8], out: &mut [u8]) {
        plan.run((1, &[key]), stored, &mut StepScratch::default(), out).unwrap();
        let mut want = vec![0xBB; out.len()];
        plan.evaluate(key, stored, &mut want).unwrap();
        assert_eq!(out, want);
    }

    #[test]
    fn elements_are_converted_each_for_itself() {
        let ops = ops![Convert::to(DType::F32), Squeeze];
        let plan = plan(ops, DType::F64, &[3, 1]).unwrap();
        assert_eq!((plan.shape(), plan.dtype()), (&[3][..], DType::F32));
        let stored = [0.1f64, -2.0, 1e300].map(f64::to_le_bytes).concat();
        let mut out = [0xAA; 12];
        run(&plan, SampleKey::default(), &stored, &mut out);
        assert_eq!(out.to_vec(), [0.1f32, -2.0, f32::INFINITY].map(f32::to_le_bytes).concat());
    }

    #[test]
    fn a_closure_gets_all_elements() {
        let centred = Lambda::vector("Centred", |cx, vector| {
            let mean = vector.iter().sum::<f32>() / vector.len() as f32;
            vector.iter_mut().for_each(|value| *value += cx.sample as f32 - mean);
        });
        let ops = ops![Convert::to(DType::F32), centred, Convert::to(DType::I16)];
        let plan = plan(ops, DType::U8, &[2, 2]).unwrap();
        let mut out = [0xAA; 8];
        run(&plan, SampleKey::new(0, 0, 9), &[1, 2, 3, 6], &mut out);
        assert_eq!(out.to_vec(), [7i16, 8, 9, 12].map(i16::to_le_bytes).concat());
    }

    #[test]
    fn without_a_conversion_bytes_are_copied() {
        let plan = plan(ops![Squeeze, MixUp::new(1.0).unwrap()], DType::F16, &[1, 2]).unwrap();
        let mut out = [0; 4];
        run(&plan, SampleKey::default(), &[1, 2, 3, 4], &mut out);
        assert_eq!((out, plan.shape()), ([1, 2, 3, 4], &[2][..]));
    }

    #[test]
    fn what_works_on_labels_or_images_is_refused() {
        let refused =
            |ops, dtype, shape: &[usize]| plan(ops, dtype, shape).unwrap_err().to_string();
        let error = refused(ops![LabelSmoothing::new(0.1).unwrap()], DType::F32, &[5]);
        assert_eq!(
            error,
            "op 0 of the list: LabelSmoothing takes a label (an array takes Convert, View, \
             Squeeze, and mixing of floats), but gets a f32 tensor [5]"
        );
        let error = refused(ops![OneHot::new(3).unwrap()], DType::I64, &[1]);
        assert!(error.contains("OneHot takes a label"), "{error}");
        let error = refused(ops![MixUp::new(1.0).unwrap()], DType::I64, &[1]);
        assert!(error.contains("MixUp takes a label (an array"), "{error}");
        let error = refused(ops![MixUp::new(1.0).unwrap(), Squeeze], DType::F32, &[1, 4]);
        assert!(error.contains("but gets a mixed batch"), "{error}");
        assert!(refused(ops![Normalize::imagenet()], DType::F32, &[4]).contains("an image"));
    }
}
