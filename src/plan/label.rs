//! The plan of a field that is not an image: labels, numbers, arrays.

use super::{MAX_OPS, PlanError};
use fuseloop_ops::{Class, DType, Element, Ops, Type};

/// A checked list of ops on a label.
#[derive(Debug)]
pub struct LabelPlan {
    ops: Ops,
    input: DType,
    dtype: DType,
    shape: Vec<usize>,
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
        for (place, op) in ops.iter().enumerate() {
            current = op.output(&current).map_err(|error| PlanError::Type { place, error })?;
        }
        match current {
            Type::Tensor { dtype, shape } => Ok(Self { ops, input, dtype, shape }),
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
        let mut elements = Elements::One(match value {
            Scalar::Int(label) => label.into(),
            Scalar::Float(number) => number.into(),
        });
        for op in &self.ops {
            elements = elements.after(op.class(), sample)?;
        }
        elements.store(out);
        Ok(())
    }
}

/// A field's value between two ops.
#[derive(Clone, Copy)]
enum Elements {
    /// A number.
    One(Element),
    /// A vector: the first everywhere, but the second at the place.
    Hot([Element; 2], usize),
}

impl Elements {
    fn after(self, class: Class<'_>, sample: u64) -> Result<Self, LabelError> {
        Ok(match (class, self) {
            (Class::Cast(to), elements) => elements.each(|element| element.converted(to)),
            (Class::View(to), elements) => elements.each(|element| element.viewed(to)),
            (Class::Label(op), Self::One(element)) => {
                let Some(label) = element.as_i64() else { return Ok(self) };
                match op.classes() {
                    Some(classes) => one_hot(label, classes)?,
                    None => Self::One(op.eval(sample, label).into()),
                }
            }
            (_, elements) => elements,
        })
    }

    fn each(self, f: impl Fn(Element) -> Element) -> Self {
        match self {
            Self::One(element) => Self::One(f(element)),
            Self::Hot(elements, place) => Self::Hot(elements.map(f), place),
        }
    }

    fn store(self, out: &mut [u8]) {
        let (element, hot) = match self {
            Self::One(element) => (element, None),
            Self::Hot([cold, hot], place) => (cold, Some((hot, place))),
        };
        let width = element.bytes().count();
        for to in out.chunks_exact_mut(width) {
            write(element, to);
        }
        if let Some((hot, place)) = hot {
            write(hot, &mut out[place * width..][..width]);
        }
    }
}

fn write(element: Element, to: &mut [u8]) {
    to.iter_mut().zip(element.bytes()).for_each(|(to, byte)| *to = byte);
}

fn one_hot(label: i64, classes: u32) -> Result<Elements, LabelError> {
    if !(0..i64::from(classes)).contains(&label) {
        return Err(LabelError { label, classes });
    }
    Ok(Elements::Hot([0.0f32.into(), 1.0f32.into()], label as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::{Convert, OneHot, ReplaceLabel, Squeeze, View, ops};
    use half::f16;

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
    fn conversions_are_taken_one_after_the_other() {
        let ops = || ops![Convert::to(DType::I16), Convert::to(DType::F16)];
        assert_eq!(run(ops(), DType::F64, Scalar::Float(2.5)), f16::from_f32(2.0).to_le_bytes());
        let hot = ops![OneHot::new(2).unwrap(), Convert::to(DType::Bf16), View::new(DType::I16)];
        assert_eq!(run(hot, DType::I64, Scalar::Int(1)), [0, 0, 0x80, 0x3f]);
    }

    #[test]
    fn a_viewed_label_keeps_its_bits() {
        let bits = 0x7ff0_0000_0000_0001; // a signalling NaN
        let out = run(ops![View::new(DType::F64)], DType::I64, Scalar::Int(bits));
        assert_eq!(out, bits.to_le_bytes());
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
