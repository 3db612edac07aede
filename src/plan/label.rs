//! The plan of a field that is not an image: labels, numbers, arrays.

use super::{MAX_OPS, PlanError};
use fuseloop_ops::{Class, DType, Ops, Type};
use half::{bf16, f16};

/// A checked list of ops on a label.
#[derive(Debug)]
pub struct LabelPlan {
    ops: Ops,
    input: DType,
    dtype: DType,
    shape: Vec<usize>,
    classes: Option<u32>,
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
        let mut classes = None;
        for (place, op) in ops.iter().enumerate() {
            current = op.output(&current).map_err(|error| PlanError::Type { place, error })?;
            if let Class::Label(label) = op.class() {
                classes = classes.or(label.classes());
            }
        }
        match current {
            Type::Tensor { dtype, shape } => Ok(Self { ops, input, dtype, shape, classes }),
            Type::Image(_) => unreachable!("no op makes an image of a label"),
        }
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

    /// Writes the label of `sample` as the ops make it.
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
        match (self.classes, value) {
            (Some(classes), Scalar::Int(label)) => self.one_hot(label, classes, out),
            _ => {
                store(value, self.dtype, out);
                Ok(())
            }
        }
    }

    fn label(&self, sample: u64, label: i64) -> i64 {
        self.ops.iter().fold(label, |label, op| match op.class() {
            Class::Label(op) => op.eval(sample, label),
            _ => label,
        })
    }

    fn one_hot(&self, label: i64, classes: u32, out: &mut [u8]) -> Result<(), LabelError> {
        if !(0..i64::from(classes)).contains(&label) {
            return Err(LabelError { label, classes });
        }
        out.fill(0);
        let width = self.dtype.bytes();
        store(Scalar::Float(1.0), self.dtype, &mut out[label as usize * width..][..width]);
        Ok(())
    }
}

/// Writes one number as `dtype`, to the nearest.
fn store(value: Scalar, dtype: DType, out: &mut [u8]) {
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
