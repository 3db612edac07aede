//! The plan of a field of one number a sample: labels, targets.

use super::{MAX_OPS, PlanError, batch_ops};
use fuseloop_ops::{Class, DType, Ops, Type, TypeError};
use half::{bf16, f16};

/// A checked list of ops on a label.
#[derive(Debug)]
pub struct LabelPlan {
    ops: Ops,
    input: DType,
    dtype: DType,
    shape: Vec<usize>,
    /// Length of the one-hot vector, and its elements off and on the class.
    one_hot: Option<OneHotVector>,
    mixes_classes: bool,
}

#[derive(Debug, Clone, Copy)]
struct OneHotVector {
    classes: u32,
    off: f32,
    on: f32,
}

/// A label outside the classes of a one-hot vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("label {label}, but OneHot has classes 0..{classes}")]
pub struct LabelError {
    /// The label.
    pub label: i64,
    /// The number of classes.
    pub classes: u32,
}

/// The value of a scalar field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// An Int field's.
    Int(i64),
    /// A Float field's.
    Float(f64),
}

impl LabelPlan {
    /// Checks `ops` for a field of one `input` a sample: `i64` or `f64`.
    ///
    /// # Errors
    ///
    /// See [`PlanError`].
    pub fn new(ops: Ops, input: DType) -> Result<Self, PlanError> {
        if ops.len() > MAX_OPS {
            return Err(PlanError::TooLong { found: ops.len() });
        }
        let mut current = Type::Tensor { dtype: input, shape: vec![1] };
        let mut mixes_classes = false;
        for (place, op) in ops.iter().enumerate() {
            batch_ops::check_last(&ops, place)?;
            let refused = |error| PlanError::Type { place, error };
            if mixes_classes {
                return Err(refused(mixed_twice(op.name())));
            }
            let after = op.output(&current).map_err(refused)?;
            mixes_classes = matches!(op.class(), Class::Batch(_)) && after != current;
            current = after;
        }
        let one_hot = one_hot(&ops);
        match current {
            Type::Tensor { dtype, shape } => {
                Ok(Self { ops, input, dtype, shape, one_hot, mixes_classes })
            }
            Type::Image(_) => unreachable!("no op makes an image of a label"),
        }
    }

    /// Whether an op on whole batches makes `[class, class of the partner, share]` of the label,
    /// instead of mixing floats.
    #[must_use]
    pub fn mixes_classes(&self) -> bool {
        self.mixes_classes
    }

    /// Elements along each axis of one sample.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Type of an element.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Type of the field.
    #[must_use]
    pub fn input(&self) -> DType {
        self.input
    }

    /// The ops, in order.
    #[must_use]
    pub fn ops(&self) -> &Ops {
        &self.ops
    }

    /// Bytes of one sample's output.
    #[must_use]
    pub fn sample_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bytes()
    }

    /// Writes the label of `sample` as the ops make it, before a batch is mixed: the class twice
    /// and a share of 1, where [`mixes_classes`](Self::mixes_classes).
    ///
    /// # Errors
    ///
    /// If a one-hot vector has no such class.
    ///
    /// # Panics
    ///
    /// If `out` is not of [`sample_bytes`](Self::sample_bytes).
    pub fn run(&self, sample: u64, value: Scalar, out: &mut [u8]) -> Result<(), LabelError> {
        assert_eq!(out.len(), self.sample_bytes(), "bytes of a label");
        let value = match value {
            Scalar::Int(label) => Scalar::Int(self.label(sample, label)),
            float @ Scalar::Float(_) => float,
        };
        match (self.one_hot, value) {
            (Some(vector), Scalar::Int(label)) => return self.store_one_hot(label, vector, out),
            _ if self.mixes_classes => {
                let width = self.dtype.bytes();
                let elements = [value, value, Scalar::Float(1.0)];
                for (element, out) in elements.into_iter().zip(out.chunks_exact_mut(width)) {
                    store(element, self.dtype, out);
                }
            }
            _ => store(value, self.dtype, out),
        }
        Ok(())
    }

    fn label(&self, sample: u64, label: i64) -> i64 {
        self.ops.iter().fold(label, |label, op| match op.class() {
            Class::Label(op) => op.eval(sample, label),
            _ => label,
        })
    }

    fn store_one_hot(
        &self,
        label: i64,
        vector: OneHotVector,
        out: &mut [u8],
    ) -> Result<(), LabelError> {
        let OneHotVector { classes, off, on } = vector;
        if !(0..i64::from(classes)).contains(&label) {
            return Err(LabelError { label, classes });
        }
        let width = self.dtype.bytes();
        if off == 0.0 {
            out.fill(0);
        } else {
            let (first, rest) = out.split_at_mut(width);
            store(Scalar::Float(off.into()), self.dtype, first);
            rest.chunks_exact_mut(width).for_each(|element| element.copy_from_slice(first));
        }
        store(Scalar::Float(on.into()), self.dtype, &mut out[label as usize * width..][..width]);
        Ok(())
    }
}

/// What an op makes a vector of, and what those after it make of its elements.
fn one_hot(ops: &Ops) -> Option<OneHotVector> {
    let mut vector: Option<OneHotVector> = None;
    for op in ops {
        let Class::Label(op) = op.class() else { continue };
        vector = match vector {
            None => op.classes().map(|classes| OneHotVector { classes, off: 0.0, on: 1.0 }),
            Some(OneHotVector { classes, off, on }) => {
                let element = |value| op.element(value, classes as usize);
                Some(OneHotVector { classes, off: element(off), on: element(on) })
            }
        };
    }
    vector
}

fn mixed_twice(op: &'static str) -> TypeError {
    TypeError {
        op,
        expected: "a one-hot vector (put OneHot before the first op that mixes)",
        found: "two classes and a share".to_owned(),
    }
}

/// Writes one number as `dtype`, to the nearest.
pub(super) fn store(value: Scalar, dtype: DType, out: &mut [u8]) {
    match (dtype, value) {
        (DType::I64, Scalar::Int(v)) => out.copy_from_slice(&v.to_le_bytes()),
        (DType::F64, Scalar::Int(v)) => out.copy_from_slice(&(v as f64).to_le_bytes()),
        (DType::F64, Scalar::Float(v)) => out.copy_from_slice(&v.to_le_bytes()),
        (DType::F32, Scalar::Int(v)) => out.copy_from_slice(&(v as f32).to_le_bytes()),
        (DType::F32, Scalar::Float(v)) => out.copy_from_slice(&(v as f32).to_le_bytes()),
        (DType::F16, v) => out.copy_from_slice(&f16::from_f64(as_f64(v)).to_le_bytes()),
        (DType::Bf16, v) => out.copy_from_slice(&bf16::from_f64(as_f64(v)).to_le_bytes()),
        (dtype, v) => unreachable!("the plan has no {dtype} for {v:?}"),
    }
}

fn as_f64(value: Scalar) -> f64 {
    match value {
        Scalar::Int(v) => v as f64,
        Scalar::Float(v) => v,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::{Convert, OneHot, ReplaceLabel, Squeeze, ops};
    use fuseloop_ops::{CutMix, LabelSmoothing, MixUp};

    fn run(ops: Ops, input: DType, value: Scalar) -> Vec<u8> {
        let plan = LabelPlan::new(ops, input).unwrap();
        let mut out = vec![0xAA; plan.sample_bytes()];
        plan.run(3, value, &mut out).unwrap();
        out
    }

    #[test]
    fn labels_are_converted_and_squeezed() {
        assert_eq!(run(ops![], DType::I64, Scalar::Int(-7)), (-7i64).to_le_bytes());
        let squeezed = LabelPlan::new(ops![Squeeze], DType::I64).unwrap();
        assert_eq!(squeezed.shape(), [0usize; 0]);
        let f32s = run(ops![Convert::to(DType::F32), Squeeze], DType::F64, Scalar::Float(0.1));
        assert_eq!(f32s, 0.1f32.to_le_bytes());
    }

    #[test]
    fn one_hot_follows_replacement() {
        let ops = ops![ReplaceLabel::new([3], 2), OneHot::new(4).unwrap()];
        let want: Vec<u8> = [0.0f32, 0.0, 1.0, 0.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(run(ops, DType::I64, Scalar::Int(0)), want);
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        let (elements, []) = bytes.as_chunks::<4>() else { panic!("whole floats") };
        elements.iter().map(|element| f32::from_le_bytes(*element)).collect()
    }

    #[test]
    fn a_smoothed_vector_gives_to_every_class() {
        let smoothing = || LabelSmoothing::new(0.1).unwrap();
        let ops = ops![OneHot::new(4).unwrap(), smoothing()];
        let row = run(ops, DType::I64, Scalar::Int(2));
        assert_eq!(floats(&row), [0.025, 0.025, 0.9 + 0.025, 0.025]);
        let ops = ops![OneHot::new(4).unwrap(), smoothing(), Convert::to(DType::F16)];
        let row = run(ops, DType::I64, Scalar::Int(0));
        let halves = [0.9 + 0.025, 0.025, 0.025, 0.025].map(f16::from_f32);
        assert_eq!(row, halves.map(f16::to_le_bytes).concat());
    }

    #[test]
    fn a_class_waits_for_its_partner() {
        let plan = LabelPlan::new(ops![MixUp::new(1.0).unwrap()], DType::I64).unwrap();
        assert!(plan.mixes_classes() && plan.shape() == [3]);
        let mut out = vec![0; 12];
        plan.run(0, Scalar::Int(7), &mut out).unwrap();
        assert_eq!(floats(&out), [7.0, 7.0, 1.0]);
        let vector = ops![OneHot::new(9).unwrap(), MixUp::new(1.0).unwrap()];
        assert!(!LabelPlan::new(vector, DType::I64).unwrap().mixes_classes());
    }

    #[test]
    fn a_list_that_mixes_ends_there() {
        let (mixup, cutmix) = (|| MixUp::new(1.0).unwrap(), || CutMix::new(1.0).unwrap());
        let refused = |ops| LabelPlan::new(ops, DType::I64).unwrap_err().to_string();
        assert_eq!(
            refused(ops![mixup(), Squeeze]),
            "op 1 of the list: Squeeze takes one sample at a time (put it before the ops \
             that mix samples), but gets a mixed batch"
        );
        assert_eq!(
            refused(ops![mixup(), cutmix()]),
            "op 1 of the list: CutMix takes a one-hot vector (put OneHot before the first op \
             that mixes), but gets two classes and a share"
        );
        assert!(
            LabelPlan::new(ops![OneHot::new(4).unwrap(), mixup(), cutmix()], DType::I64).is_ok()
        );
    }

    #[test]
    fn a_label_beyond_the_classes_is_an_error() {
        let plan = LabelPlan::new(ops![OneHot::new(4).unwrap()], DType::I64).unwrap();
        let error = plan.run(0, Scalar::Int(4), &mut [0; 16]).unwrap_err();
        assert_eq!(error.to_string(), "label 4, but OneHot has classes 0..4");
    }

    #[test]
    fn an_image_op_on_a_label_is_refused() {
        let ops = ops![fuseloop_ops::Normalize::imagenet()];
        let error = LabelPlan::new(ops, DType::I64).unwrap_err().to_string();
        assert!(error.contains("Normalize takes an image"), "{error}");
    }
}
