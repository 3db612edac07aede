//! The plan of a field with one number a sample: labels, targets.
//!
//! `Elements` is the value of a sample between two ops: the definition of what ops do to labels and arrays.

use super::element_plan::ElementPlan;
use super::element_steps::ElementForm;
use super::{batch_ops, check_length, function, of_type};
use crate::error::{Error, fail};
use fuseloop_ops::author::{Op, OpClass, Type};
use fuseloop_ops::internals::{ElementValue, SampleKey, stream};
use fuseloop_ops::{DType, LabelSample, Ops, TypeError};
use std::collections::BTreeMap;

/// A one-hot vector of any class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneHotValues {
    /// Type of an element.
    pub(crate) dtype: DType,
    /// The number of elements.
    pub(crate) classes: u32,
    /// The bits of an element for a class other than the label's.
    pub(crate) cold: u32,
    /// The bits of the element for the label's class.
    pub(crate) hot: u32,
}

/// The value of a scalar field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// The value of an Int field.
    Int(i64),
    /// The value of a Float field.
    Float(f64),
}

impl Scalar {
    /// Returns the value as it is stored: lowest byte first.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        match self {
            Self::Int(label) => label.to_le_bytes(),
            Self::Float(number) => number.to_le_bytes(),
        }
    }
}

impl ElementPlan {
    /// Checks `ops` for a field of one number of type `input` a sample: `i64` or `f64`.
    ///
    /// # Errors
    ///
    /// If the ops do not fit the number.
    pub fn of_label(ops: Ops, input: DType) -> Result<Self, Error> {
        check_length(&ops)?;
        let mut current = Type::Tensor { dtype: input, shape: vec![] };
        let mut mixes_classes = false;
        for (op_index, op) in ops.iter().enumerate() {
            batch_ops::check_order(&ops, op_index, false)?;
            let refused = |error| of_type(op_index, error);
            let mixes = matches!(op.class(), OpClass::Batch(_));
            if mixes_classes && mixes {
                return Err(refused(mixed_twice(op.name())));
            }
            let after = op.output(&current).map_err(refused)?;
            batch_ops::check_mixed(&**op, &current, &after).map_err(refused)?;
            let is_changed =
                ops[..op_index].iter().any(|op| matches!(op.class(), OpClass::HostBatch(_)));
            if mixes && after != current && is_changed {
                return Err(refused(mixed_late(op.name())));
            }
            mixes_classes |= mixes && after != current;
            current = after;
        }
        match current {
            Type::Tensor { dtype, shape } => {
                let stored = ElementForm::One(input);
                Ok(Self::of_checked(ops, stored, (dtype, shape), mixes_classes))
            }
            Type::Image(_) => unreachable!("no op makes an image of a label"),
        }
    }

    /// Returns the elements of the one-hot vector, if there is one and no op before it may change the label.
    pub(crate) fn one_hot_elements(&self) -> Option<u32> {
        let first = self.ops.iter().find_map(|op| match op.class() {
            OpClass::Label(op) => Some(op.classes()),
            _ => None,
        });
        first.flatten()
    }

    /// Returns the one-hot vector that is built after [`ToDevice`](fuseloop_ops::ToDevice), if there is
    /// one with elements of at most 32 bits.
    pub(crate) fn one_hot_on_device(&self) -> Option<OneHotValues> {
        let classes = |class: OpClass<'_>| match class {
            OpClass::Label(op) => op.classes(),
            _ => None,
        };
        let device = self.ops.iter().position(|op| matches!(op.class(), OpClass::Device(_)))?;
        let index = self.ops.iter().position(|op| classes(op.class()).is_some())?;
        let classes = classes(self.ops[index].class()).filter(|_| device < index)?;
        let first = one_hot(0, classes).ok()?;
        // The elements depend on the sample only if an op changes vectors as a whole.
        let any = (SampleKey::default(), 0);
        let last = self.ops[index + 1..].iter().try_fold(first, |hot, op| match op.class() {
            OpClass::Label(op) if op.takes_vector() => None,
            _ => hot.after(&**op, any).ok(),
        });
        let Some(Elements::Hot(elements, ..)) = last else { return None };
        let bits = |element: ElementValue| {
            let bytes = element.bytes().enumerate().take(4);
            bytes.fold(0, |word, (k, byte)| word | u32::from(byte) << (8 * k))
        };
        let [cold, hot] = elements.map(bits);
        (self.dtype.bytes() <= 4).then_some(OneHotValues { dtype: self.dtype, classes, cold, hot })
    }

    /// Returns the class that the ops turn a label into before it becomes a one-hot vector.
    ///
    /// # Errors
    ///
    /// If the vector has no such class.
    pub(crate) fn class(&self, key: SampleKey, value: Scalar) -> Result<u32, Error> {
        let mut elements = Elements::of(value);
        for (op, &stream) in self.ops.iter().zip(&self.streams) {
            elements = elements.after(&**op, (key, stream))?;
            if let Elements::Hot(_, class, _) = elements {
                return Ok(class as u32);
            }
        }
        Ok(0)
    }
}

fn mixed_twice(op: &'static str) -> TypeError {
    TypeError {
        op,
        expected: "a one-hot vector (put OneHot before the first op that mixes)",
        found: "two classes and a share".to_owned(),
    }
}

fn mixed_late(op: &'static str) -> TypeError {
    TypeError {
        op,
        expected: "labels of samples (put it before the function on batches, or OneHot before both)",
        found: "a finished batch of them".to_owned(),
    }
}

/// Returns the stream of each op: see [`stream`].
pub(super) fn streams(ops: &Ops) -> Vec<u64> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let streams = ops.iter().map(|op| {
        let occurrence = seen.entry(op.name()).or_default();
        *occurrence += 1;
        stream(op.name(), *occurrence - 1)
    });
    streams.collect()
}

/// A field's value between two ops.
pub(super) enum Elements {
    /// A number.
    One(ElementValue),
    /// A vector: the values of the other elements and of the one at the index, the index, and the
    /// length.
    Hot([ElementValue; 2], usize, u32),
    /// A vector of any elements.
    Vector(Vec<ElementValue>),
}

impl Elements {
    /// Returns the stored elements of a sample.
    pub(super) fn of_stored(form: ElementForm, stored: &[u8]) -> Self {
        match form {
            ElementForm::One(dtype) => Self::One(ElementValue::from_bytes(dtype, stored)),
            ElementForm::Vector(dtype, _) => {
                let elements = stored.chunks_exact(dtype.bytes());
                let elements = elements.map(|bytes| ElementValue::from_bytes(dtype, bytes));
                Self::Vector(elements.collect())
            }
            ElementForm::Hot(..) => unreachable!("no sample is stored as a one-hot vector"),
        }
    }

    fn of(value: Scalar) -> Self {
        Self::One(match value {
            Scalar::Int(label) => label.into(),
            Scalar::Float(number) => number.into(),
        })
    }

    /// Returns the value after an op, which draws from the stream of the key.
    pub(super) fn after(self, op: &dyn Op, (key, stream): (SampleKey, u64)) -> Result<Self, Error> {
        let failed = function::failed(op, key.epoch());
        let op = match op.class() {
            OpClass::Cast(to) => return Ok(self.each(|element| element.converted(to))),
            OpClass::View(to) => return Ok(self.each(|element| element.viewed(to))),
            OpClass::Label(op) if !op.keeps_elements() => op,
            _ => return Ok(self),
        };
        let rng = &mut key.op(stream);
        let cx = LabelSample { sample: key.sample(), epoch: key.epoch(), rng };
        Ok(match self {
            Self::One(element) if !op.takes_vector() => match (element.as_i64(), op.classes()) {
                (Some(label), Some(classes)) => one_hot(label, classes)?,
                (Some(label), None) => Self::One(op.eval(cx, label).map_err(failed)?.into()),
                (None, _) => Self::One(match element.as_float() {
                    Some(value) => {
                        let changed = op.eval_float(cx, value).map_err(failed)?;
                        ElementValue::from(changed).converted(element.dtype())
                    }
                    None => element,
                }),
            },
            vector if op.takes_vector() => {
                let elements = vector.into_vector();
                let values: Option<Vec<f32>> = elements.iter().map(|e| e.as_f32()).collect();
                let Some(mut values) = values else { return Ok(Self::Vector(elements)) };
                op.eval_vector(cx, &mut values).map_err(failed)?;
                match values[..] {
                    [one] => Self::One(one.into()),
                    _ => Self::Vector(values.into_iter().map(ElementValue::from).collect()),
                }
            }
            vector => {
                let count = vector.count();
                vector.each(|element| {
                    let changed = element.as_f32().map(|value| op.element(value, count));
                    changed.map_or(element, ElementValue::from)
                })
            }
        })
    }

    fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Hot(_, _, classes) => *classes as usize,
            Self::Vector(elements) => elements.len(),
        }
    }

    fn into_vector(self) -> Vec<ElementValue> {
        match self {
            Self::One(element) => vec![element],
            Self::Hot([cold, hot], class, classes) => {
                let mut elements = vec![cold; classes as usize];
                elements[class] = hot;
                elements
            }
            Self::Vector(elements) => elements,
        }
    }

    fn each(self, f: impl Fn(ElementValue) -> ElementValue) -> Self {
        match self {
            Self::One(element) => Self::One(f(element)),
            Self::Hot(elements, class, classes) => Self::Hot(elements.map(f), class, classes),
            Self::Vector(elements) => Self::Vector(elements.into_iter().map(f).collect()),
        }
    }

    pub(super) fn store(self, out: &mut [u8]) {
        let (element, hot) = match self {
            Self::One(element) => (element, None),
            Self::Hot([cold, hot], class, _) => (cold, Some((hot, class))),
            Self::Vector(elements) => {
                let width = out.len() / elements.len().max(1);
                let rows = elements.into_iter().zip(out.chunks_exact_mut(width.max(1)));
                return rows.for_each(|(element, to)| write(element, to));
            }
        };
        let width = element.bytes().count();
        for to in out.chunks_exact_mut(width) {
            write(element, to);
        }
        if let Some((hot, class)) = hot {
            write(hot, &mut out[class * width..][..width]);
        }
    }
}

pub(super) fn write(element: ElementValue, to: &mut [u8]) {
    to.iter_mut().zip(element.bytes()).for_each(|(to, byte)| *to = byte);
}

fn one_hot(label: i64, classes: u32) -> Result<Elements, Error> {
    let class = class_index(label, classes)?;
    Ok(Elements::Hot([0.0f32.into(), 1.0f32.into()], class, classes))
}

/// Returns the index of a label's class.
pub(super) fn class_index(label: i64, classes: u32) -> Result<usize, Error> {
    if !(0..i64::from(classes)).contains(&label) {
        let error = fail!(
            Damaged,
            "label {label} is none of the {classes} classes of OneHot, which are 0 to {}: give OneHot more classes, or \
             correct the label",
            classes - 1
        );
        return Err(error.help("set `classes` of `OneHot` to the largest label plus 1"));
    }
    Ok(label as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::element_steps::{RowError, StepScratch};
    use fuseloop_ops::{
        Convert, CutMix, Device, LabelSmoothing, Lambda, MixUp, OneHot, ReplaceLabel, Squeeze,
        ToDevice, View, ops,
    };
    use half::f16;

    fn run(ops: Ops, input: DType, value: Scalar) -> Vec<u8> {
        let plan = ElementPlan::of_label(ops, input).unwrap();
        let mut out = vec![0xAA; plan.sample_bytes()];
        let key = SampleKey::new(0, 0, 3);
        let done = run_checked(&plan, &[(key, value)], &mut out);
        done.unwrap();
        out
    }

    /// Runs the plan for many samples; each must be as it is evaluated.
    fn run_checked(
        plan: &ElementPlan,
        samples: &[(SampleKey, Scalar)],
        rows: &mut [u8],
    ) -> Result<(), RowError> {
        let keys: Vec<SampleKey> = samples.iter().map(|(key, _)| *key).collect();
        let stored: Vec<u8> = samples.iter().flat_map(|(_, value)| value.to_bytes()).collect();
        let done = plan.run((keys.len(), &keys), &stored, &mut StepScratch::default(), rows);
        let bytes = plan.sample_bytes();
        let mut want = vec![0xBB; bytes];
        for (row, (key, value)) in samples.iter().enumerate() {
            match (plan.evaluate(*key, &value.to_bytes(), &mut want), &done) {
                (Ok(()), Ok(())) => assert_eq!(rows[row * bytes..][..bytes], want, "{plan:?}"),
                (Err(error), Err(found)) if found.row == row => {
                    assert_eq!(found.error.to_string(), error.to_string());
                }
                (Ok(()), Err(found)) => assert_ne!(found.row, row, "{plan:?}"),
                (Err(_), Err(_)) => {}
                (Err(error), Ok(())) => panic!("{error}: {plan:?}"),
            }
        }
        done
    }

    #[test]
    fn labels_are_converted_and_squeezed() {
        assert_eq!(run(ops![], DType::I64, Scalar::Int(-7)), (-7i64).to_le_bytes());
        for ops in [ops![], ops![Squeeze], ops![Convert::to(DType::I32)]] {
            assert_eq!(ElementPlan::of_label(ops, DType::I64).unwrap().shape(), [0usize; 0]);
        }
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
        let plan = ElementPlan::of_label(ops![MixUp::new(1.0).unwrap()], DType::I64).unwrap();
        assert!(plan.mixes_classes() && plan.shape() == [3]);
        let mut out = vec![0; 12];
        run_checked(&plan, &[(SampleKey::default(), Scalar::Int(7))], &mut out).unwrap();
        assert_eq!(floats(&out), [7.0, 7.0, 1.0]);
        let vector = ops![OneHot::new(9).unwrap(), MixUp::new(1.0).unwrap()];
        assert!(!ElementPlan::of_label(vector, DType::I64).unwrap().mixes_classes());
    }

    #[test]
    fn a_list_that_mixes_ends_there() {
        let (mixup, cutmix) = (|| MixUp::new(1.0).unwrap(), || CutMix::new(1.0).unwrap());
        let refused = |ops| ElementPlan::of_label(ops, DType::I64).unwrap_err().to_string();
        assert_eq!(
            refused(ops![mixup(), Squeeze]),
            "op 1 of the list: Squeeze takes one sample at a time (put it before the ops that mix samples), \
             but gets a mixed batch"
        );
        assert_eq!(
            refused(ops![mixup(), cutmix()]),
            "op 1 of the list: CutMix takes a one-hot vector (put OneHot before the first op \
             that mixes), but gets two classes and a share"
        );
        assert!(
            ElementPlan::of_label(ops![OneHot::new(4).unwrap(), mixup(), cutmix()], DType::I64)
                .is_ok()
        );
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
        let plan = ElementPlan::of_label(ops![OneHot::new(4).unwrap()], DType::I64).unwrap();
        let samples = [3, 4].map(|label| (SampleKey::default(), Scalar::Int(label)));
        let RowError { row, error } = run_checked(&plan, &samples, &mut [0; 32]).unwrap_err();
        assert_eq!(row, 1);
        assert_eq!(
            error.to_string(),
            "label 4 is none of the 4 classes of OneHot, which are 0 to 3: give OneHot more classes, or correct the label"
        );
    }

    #[test]
    fn a_closure_gets_the_sample_the_epoch_and_a_generator_of_its_own() {
        let seen = |cx: &mut LabelSample<'_>| {
            1_000 * cx.sample as i64 + 100 * i64::from(cx.epoch) + i64::from(cx.rng.below(100))
        };
        let draws = || ops![Lambda::label("Mine", move |mut cx, label| label + seen(&mut cx))];
        let plan = ElementPlan::of_label(draws(), DType::I64).unwrap();
        let value = |key| {
            let mut out = [0; 8];
            run_checked(&plan, &[(key, Scalar::Int(0))], &mut out).unwrap();
            i64::from_le_bytes(out)
        };
        let found = value(SampleKey::new(5, 2, 3));
        assert_eq!((found / 100, found), (32, value(SampleKey::new(5, 2, 3))));
        let others = (0..50).map(|seed| value(SampleKey::new(seed, 2, 3)));
        assert!(others.collect::<std::collections::BTreeSet<_>>().len() > 20);
        let twice: Ops = [draws(), draws()].concat();
        let plan = ElementPlan::of_label(twice, DType::I64).unwrap();
        let mut out = [0; 8];
        run_checked(&plan, &[(SampleKey::new(5, 2, 3), Scalar::Int(0))], &mut out).unwrap();
        assert_ne!(i64::from_le_bytes(out), 2 * found, "the second op draws other numbers");
    }

    #[test]
    fn closures_change_floats_and_vectors_and_keep_their_types() {
        let half = || Lambda::float("Half", |_, value| value / 2.0);
        assert_eq!(run(ops![half()], DType::F64, Scalar::Float(0.1)), 0.05f64.to_le_bytes());
        let single = run(ops![Convert::to(DType::F32), half()], DType::F64, Scalar::Float(0.1));
        assert_eq!(single, 0.05f32.to_le_bytes());
        let reverse = || Lambda::vector("Reverse", |_, vector| vector.reverse());
        let smoothing = || LabelSmoothing::new(0.1).unwrap();
        let hot = ops![OneHot::new(4).unwrap(), reverse(), smoothing(), Convert::to(DType::F16)];
        let halves = [0.025, 0.025, 0.9 + 0.025, 0.025].map(f16::from_f32);
        let row = run(hot, DType::I64, Scalar::Int(1));
        assert_eq!(row, halves.map(f16::to_le_bytes).concat());
        let on_device = |op: Ops| {
            let device = ops![ToDevice::to(Device::Cuda(0)), OneHot::new(4).unwrap()];
            ElementPlan::of_label([device, op].concat(), DType::I64).unwrap().one_hot_on_device()
        };
        assert!(on_device(ops![smoothing()]).is_some() && on_device(ops![reverse()]).is_none());
    }

    #[test]
    fn an_image_op_on_a_label_is_refused() {
        let ops = ops![fuseloop_ops::Normalize::imagenet()];
        let error = ElementPlan::of_label(ops, DType::I64).unwrap_err().to_string();
        assert!(error.contains("Normalize takes an image"), "{error}");
    }
}
