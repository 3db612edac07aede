//! The plan of a field of arrays: other element types, dropped axes, and mixing.
//!
//! ```text
//! stored elements ──Convert, View, each for itself──▶ a row of the batch        (Squeeze moves nothing)
//! ```
//!
//! An op that [takes vectors](fuseloop_ops::author::LabelOp::takes_vector) gets all elements. Other ops are
//! refused: an op on labels works on one number, and an image has its own plan.

use super::label::{Elements, LabelError, streams, write};
use super::{MAX_OPS, PlanError, batch_ops};
use fuseloop_ops::author::{OpClass, Type};
use fuseloop_ops::internals::{ElementValue, SampleKey};
use fuseloop_ops::{DType, Ops, TypeError};

/// A checked list of ops on an array.
#[derive(Debug)]
pub struct ArrayPlan {
    ops: Ops,
    /// The stream of random numbers of each op.
    streams: Vec<u64>,
    takes_vectors: bool,
    input: DType,
    dtype: DType,
    shape: Vec<usize>,
}

impl ArrayPlan {
    /// Checks `ops` for a field of arrays of `shape`.
    ///
    /// # Errors
    ///
    /// See [`PlanError`].
    pub fn new(ops: Ops, input: DType, shape: Vec<usize>) -> Result<Self, PlanError> {
        if ops.len() > MAX_OPS {
            return Err(PlanError::TooLong { found: ops.len() });
        }
        let mut current = Type::Tensor { dtype: input, shape };
        for (op_index, op) in ops.iter().enumerate() {
            batch_ops::check_last(&ops, op_index)?;
            let refused = |error| PlanError::Type { op_index, error };
            let after = op.output(&current).map_err(refused)?;
            if !is_taken(op.class(), &current, &after) {
                return Err(refused(not_taken(op.name(), &current)));
            }
            current = after;
        }
        match current {
            Type::Tensor { dtype, shape } => {
                let streams = streams(&ops);
                let takes_vectors = ops.iter().any(|op| takes_vector(op.class()));
                Ok(Self { ops, streams, takes_vectors, input, dtype, shape })
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

    /// Writes the array of the sample of `key`, whose stored elements are `stored`, to `out`.
    ///
    /// # Errors
    ///
    /// If an op returns an error.
    ///
    /// # Panics
    ///
    /// If `stored` and `out` do not have the same number of elements.
    pub fn run(&self, key: SampleKey, stored: &[u8], out: &mut [u8]) -> Result<(), LabelError> {
        if self.takes_vectors {
            return self.run_on_vector(key, stored, out);
        }
        if !self.ops.iter().any(|op| matches!(op.class(), OpClass::Cast(_))) {
            out.copy_from_slice(stored);
            return Ok(());
        }
        let (from, to) = (self.input.bytes(), self.dtype.bytes());
        assert_eq!(stored.len() / from, out.len() / to, "elements of an array");
        for (element, out) in stored.chunks_exact(from).zip(out.chunks_exact_mut(to)) {
            write(self.after(ElementValue::from_bytes(self.input, element)), out);
        }
        Ok(())
    }

    fn run_on_vector(
        &self,
        key: SampleKey,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), LabelError> {
        let elements = stored.chunks_exact(self.input.bytes());
        let elements = elements.map(|bytes| ElementValue::from_bytes(self.input, bytes)).collect();
        let mut ops = self.ops.iter().zip(&self.streams);
        let changed = ops.try_fold(Elements::Vector(elements), |elements, (op, &stream)| {
            elements.after(&**op, (key, stream))
        })?;
        changed.store(out);
        Ok(())
    }

    /// Returns an element after all ops.
    fn after(&self, element: ElementValue) -> ElementValue {
        self.ops.iter().fold(element, |element, op| match op.class() {
            OpClass::Cast(to) => element.converted(to),
            OpClass::View(to) => element.viewed(to),
            _ => element,
        })
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

fn takes_vector(class: OpClass<'_>) -> bool {
    matches!(class, OpClass::Label(op) if op.takes_vector())
}

fn not_taken(op: &'static str, found: &Type) -> TypeError {
    let expected = "a label (an array takes Convert, View, Squeeze, and mixing of floats)";
    TypeError { op, expected, found: found.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::{Convert, LabelSmoothing, Lambda, MixUp, Normalize, OneHot, Squeeze, ops};

    fn plan(ops: Ops, dtype: DType, shape: &[usize]) -> Result<ArrayPlan, PlanError> {
        ArrayPlan::new(ops, dtype, shape.to_vec())
    }

    #[test]
    fn elements_are_converted_each_for_itself() {
        let ops = ops![Convert::to(DType::F32), Squeeze];
        let plan = plan(ops, DType::F64, &[3, 1]).unwrap();
        assert_eq!((plan.shape(), plan.dtype()), (&[3][..], DType::F32));
        let stored = [0.1f64, -2.0, 1e300].map(f64::to_le_bytes).concat();
        let mut out = [0xAA; 12];
        plan.run(SampleKey::default(), &stored, &mut out).unwrap();
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
        plan.run(SampleKey::new(0, 0, 9), &[1, 2, 3, 6], &mut out).unwrap();
        assert_eq!(out.to_vec(), [7i16, 8, 9, 12].map(i16::to_le_bytes).concat());
    }

    #[test]
    fn without_a_conversion_bytes_are_copied() {
        let plan = plan(ops![Squeeze, MixUp::new(1.0).unwrap()], DType::F16, &[1, 2]).unwrap();
        let mut out = [0; 4];
        plan.run(SampleKey::default(), &[1, 2, 3, 4], &mut out).unwrap();
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
