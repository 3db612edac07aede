//! The plan of a field of arrays: other element types, dropped axes, and mixing.
//!
//! An op that [takes vectors](fuseloop_ops::author::LabelOp::takes_vector) gets all elements. Other ops are
//! refused: an op on labels works on one number, and an image has its own plan.

use super::element_plan::ElementPlan;
use super::element_steps::ElementForm;
use super::{batch_ops, check_length, of_type};
use crate::error::Error;
use fuseloop_ops::author::{OpClass, Type};
use fuseloop_ops::{DType, Ops, TypeError};

impl ElementPlan {
    /// Checks `ops` for a field of arrays of `shape`.
    ///
    /// # Errors
    ///
    /// If the ops do not fit the array.
    pub fn of_array(ops: Ops, input: DType, shape: Vec<usize>) -> Result<Self, Error> {
        check_length(&ops)?;
        let stored = shape.iter().product();
        let mut current = Type::Tensor { dtype: input, shape };
        for (op_index, op) in ops.iter().enumerate() {
            batch_ops::check_order(&ops, op_index, false)?;
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
                let stored = ElementForm::Vector(input, stored);
                Ok(Self::of_checked(ops, stored, (dtype, shape), false))
            }
            Type::Image(_) => unreachable!("no op makes an image of an array"),
        }
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
    use crate::plan::element_steps::StepScratch;
    use fuseloop_ops::internals::SampleKey;
    use fuseloop_ops::{Convert, LabelSmoothing, Lambda, MixUp, Normalize, OneHot, Squeeze, ops};

    fn plan(ops: Ops, dtype: DType, shape: &[usize]) -> Result<ElementPlan, Error> {
        ElementPlan::of_array(ops, dtype, shape.to_vec())
    }

    /// Runs the plan for a sample, which must be as it is evaluated.
    fn run(plan: &ElementPlan, key: SampleKey, stored: &[u8], out: &mut [u8]) {
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
