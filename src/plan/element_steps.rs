//! The work on labels and arrays, decided when a list is planned: a few steps, each of them one loop over all
//! elements of many samples. The loops are precompiled, because one number leaves nothing to fuse.
//!
//! ```text
//! stored numbers of many samples ──step──▶ elements ──step──▶ ... ──▶ their rows, one after the other
//! ```
//!
//! | op | step |
//! |---|---|
//! | [`Convert`](fuseloop_ops::Convert) | a loop for the two types, from `fuseloop_kernels::convert` |
//! | [`View`](fuseloop_ops::View), [`Squeeze`](fuseloop_ops::Squeeze) | none |
//! | [`OneHot`](fuseloop_ops::OneHot) and what follows it | rows of two constants, which are computed here |
//! | ops in plain Rust | a call for each sample |
//!
//! A step writes to a buffer or changes one in place; the last one that writes, writes to the rows. The
//! definition of the results is `Elements`, which takes one sample through the list op by op.

use super::function;
use super::label::class_index;
use crate::error::Error;
use fuseloop_kernels::convert::{Conversion, conversion};
use fuseloop_ops::author::{BoxError, LabelOp, Op, OpClass};
use fuseloop_ops::internals::{ElementValue, SampleKey};
use fuseloop_ops::{DType, LabelSample, Ops};
use std::fmt;
use std::sync::Arc;

/// The steps from the stored numbers of samples to their rows.
#[derive(Debug)]
pub(super) struct ElementSteps {
    /// The first one writes to a buffer.
    steps: Vec<Step>,
    /// The last one that writes to a buffer: to the rows.
    last_write: usize,
    draws: bool,
}

/// The elements of a sample between two ops, as far as they are known when the list is planned.
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementForm {
    /// A number.
    One(DType),
    /// A one-hot vector of so many classes: the values of the other elements and of the label's.
    Hot([ElementValue; 2], u32),
    /// So many elements.
    Vector(DType, usize),
}

impl ElementForm {
    /// Returns the bytes of the elements.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::One(dtype) => dtype.bytes(),
            Self::Hot([element, _], classes) => classes as usize * element.dtype().bytes(),
            Self::Vector(dtype, count) => count * dtype.bytes(),
        }
    }
}

/// Buffers that are reused from call to call.
#[derive(Debug, Default)]
pub struct StepScratch {
    front: Vec<u8>,
    back: Vec<u8>,
    vector: Vec<f32>,
}

/// The row of a call that an op refused, and the reason.
#[derive(Debug)]
pub struct RowError {
    /// The index of the row, from 0.
    pub row: usize,
    /// The reason.
    pub error: Error,
}

#[derive(Debug)]
enum Step {
    Write(Write),
    Change(Change),
}

/// A step from one buffer to another.
#[derive(Debug)]
enum Write {
    /// So many bytes of a sample stay as they are.
    Copy { bytes: usize },
    /// So many elements of a sample are converted.
    Convert { from: DType, to: DType, count: usize, convert: Conversion },
    /// A label becomes a vector.
    OneHot { elements: [ElementValue; 2], classes: u32 },
    /// A label becomes `[class, class of the partner, share]`, before its batch is mixed.
    Classes { share: ElementValue },
}

/// A step that changes a buffer, by an op.
#[derive(Debug)]
struct Change {
    op: Arc<dyn Op>,
    /// The op's stream of random numbers.
    stream: u64,
    how: How,
}

/// What an op changes.
#[derive(Clone, Copy, Debug)]
enum How {
    /// A label.
    Label,
    /// One f32 or f64.
    Float(DType),
    /// So many f32 as a whole.
    Vector(usize),
    /// Each of so many f32.
    Element(usize),
}

impl ElementSteps {
    /// Plans the steps of `ops`, with their streams, for samples of the form `first`; `mixes` has the type of
    /// the elements if a label is written as two classes and a share. Returns `None` if the result is not
    /// `count` elements of type `dtype`, because an op does something else than its types say.
    pub(super) fn new(
        (ops, streams): (&Ops, &[u64]),
        first: ElementForm,
        mixes: Option<DType>,
        (dtype, count): (DType, usize),
    ) -> Option<Self> {
        let mut planner = Planner { steps: vec![], form: first };
        for (op, &stream) in ops.iter().zip(streams) {
            planner.add(op, stream)?;
        }
        if let (Some(to), ElementForm::One(_)) = (mixes, planner.form) {
            planner.convert(to)?;
            let share = ElementValue::from(1.0f64).converted(to);
            planner.steps.push(Step::Write(Write::Classes { share }));
            planner.form = ElementForm::Vector(to, 3);
        }
        let found = planner.elements();
        let mut steps = planner.steps;
        if !matches!(steps.first(), Some(Step::Write(_))) {
            steps.insert(0, Step::Write(Write::Copy { bytes: first.bytes() }));
        }
        let last_write = steps.iter().rposition(|step| matches!(step, Step::Write(_)))?;
        let draws = |step: &Step| match step {
            Step::Write(_) => false,
            Step::Change(change) => !matches!(change.how, How::Element(_)),
        };
        let draws = steps.iter().any(draws);
        (found == (dtype, count)).then_some(Self { steps, last_write, draws })
    }

    /// Returns whether ops draw for each sample: calls then need the keys of the samples.
    pub(super) fn draws(&self) -> bool {
        self.draws
    }

    /// Writes the rows of `count` samples from their stored numbers. `keys` may be empty if nothing is
    /// [drawn](Self::draws).
    ///
    /// # Errors
    ///
    /// If a one-hot vector has no such class, or an op returns an error.
    ///
    /// # Panics
    ///
    /// If a slice does not have the bytes of `count` samples, or there are too few keys.
    pub(super) fn run(
        &self,
        (count, keys): (usize, &[SampleKey]),
        stored: &[u8],
        scratch: &mut StepScratch,
        rows: &mut [u8],
    ) -> Result<(), RowError> {
        let StepScratch { front, back, vector } = scratch;
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                Step::Write(write) => {
                    let from = if index == 0 { stored } else { &**front };
                    if index == self.last_write {
                        write.run(from, rows)?;
                    } else {
                        back.resize(count * write.bytes(), 0);
                        write.run(from, back)?;
                        std::mem::swap(front, back);
                    }
                }
                Step::Change(change) if index > self.last_write => {
                    change.run((count, keys), vector, rows)?;
                }
                Step::Change(change) => change.run((count, keys), vector, front)?,
            }
        }
        Ok(())
    }
}

/// The state of planning: what `Elements` is after the ops so far.
struct Planner {
    steps: Vec<Step>,
    form: ElementForm,
}

impl Planner {
    /// Adds an op, like `Elements::after`.
    fn add(&mut self, op: &Arc<dyn Op>, stream: u64) -> Option<()> {
        match op.class() {
            OpClass::Cast(to) => self.convert(to)?,
            OpClass::View(to) => match &mut self.form {
                ElementForm::One(dtype) | ElementForm::Vector(dtype, _) => *dtype = to,
                ElementForm::Hot(elements, _) => *elements = elements.map(|e| e.viewed(to)),
            },
            OpClass::Label(label) if !label.keeps_elements() => {
                if let Some(how) = self.label(label) {
                    let op = Arc::clone(op);
                    self.steps.push(Step::Change(Change { op, stream, how }));
                }
            }
            _ => {}
        }
        Some(())
    }

    fn convert(&mut self, to: DType) -> Option<()> {
        let (dtype, count) = match &mut self.form {
            ElementForm::One(dtype) => (dtype, 1),
            ElementForm::Vector(dtype, count) => (dtype, *count),
            ElementForm::Hot(elements, _) => {
                *elements = elements.map(|element| element.converted(to));
                return Some(());
            }
        };
        let from = std::mem::replace(dtype, to);
        if from != to {
            let convert = conversion(from, to)?;
            self.steps.push(Step::Write(Write::Convert { from, to, count, convert }));
        }
        Some(())
    }

    /// Returns what an op on labels changes, if it changes anything at run time.
    fn label(&mut self, op: &dyn LabelOp) -> Option<How> {
        match self.form {
            ElementForm::One(DType::I64) if !op.takes_vector() => match op.classes() {
                Some(classes) => {
                    self.form = ElementForm::Hot([0.0f32.into(), 1.0f32.into()], classes);
                    None
                }
                None => Some(How::Label),
            },
            ElementForm::One(dtype) if !op.takes_vector() => {
                matches!(dtype, DType::F32 | DType::F64).then_some(How::Float(dtype))
            }
            _ if op.takes_vector() => {
                let (dtype, count) = self.elements();
                self.form = match (dtype, count) {
                    (DType::F32, 1) => ElementForm::One(dtype),
                    _ => ElementForm::Vector(dtype, count),
                };
                (dtype == DType::F32).then_some(How::Vector(count))
            }
            ElementForm::Hot(elements, classes) => {
                let changed = |element: ElementValue| {
                    let value = element.as_f32()?;
                    Some(op.element(value, classes as usize).into())
                };
                let elements = elements.map(|element| changed(element).unwrap_or(element));
                self.form = ElementForm::Hot(elements, classes);
                None
            }
            ElementForm::One(dtype) | ElementForm::Vector(dtype, _) => {
                let (_, count) = self.elements();
                (dtype == DType::F32).then_some(How::Element(count))
            }
        }
    }

    /// Returns the type and the number of the elements, after a step that writes them if they are those of a
    /// one-hot vector.
    fn elements(&mut self) -> (DType, usize) {
        match self.form {
            ElementForm::One(dtype) => (dtype, 1),
            ElementForm::Vector(dtype, count) => (dtype, count),
            ElementForm::Hot(elements, classes) => {
                self.steps.push(Step::Write(Write::OneHot { elements, classes }));
                let (dtype, count) = (elements[0].dtype(), classes as usize);
                self.form = ElementForm::Vector(dtype, count);
                (dtype, count)
            }
        }
    }
}

impl Write {
    /// Returns the bytes that the step writes for a sample.
    fn bytes(&self) -> usize {
        match self {
            Self::Copy { bytes } => *bytes,
            Self::Convert { to, count, .. } => count * to.bytes(),
            Self::OneHot { elements, classes } => *classes as usize * elements[0].dtype().bytes(),
            Self::Classes { share } => 3 * share.dtype().bytes(),
        }
    }

    fn run(&self, from: &[u8], to: &mut [u8]) -> Result<(), RowError> {
        match self {
            Self::Copy { .. } => to.copy_from_slice(from),
            Self::Convert { convert, .. } => convert(from, to),
            Self::OneHot { elements, classes } => {
                let write = match elements[0].dtype().bytes() {
                    1 => one_hot_rows::<1>,
                    2 => one_hot_rows::<2>,
                    4 => one_hot_rows::<4>,
                    _ => one_hot_rows::<8>,
                };
                return write(*elements, *classes, from, to);
            }
            Self::Classes { share } => match share.dtype().bytes() {
                1 => class_rows::<1>(*share, from, to),
                2 => class_rows::<2>(*share, from, to),
                4 => class_rows::<4>(*share, from, to),
                _ => class_rows::<8>(*share, from, to),
            },
        }
        Ok(())
    }
}

/// Writes the vectors of labels.
fn one_hot_rows<const BYTES: usize>(
    elements: [ElementValue; 2],
    classes: u32,
    labels: &[u8],
    rows: &mut [u8],
) -> Result<(), RowError> {
    let [cold, hot] = elements.map(bytes_of::<BYTES>);
    let (labels, _) = labels.as_chunks();
    let rows = rows.chunks_exact_mut(classes as usize * BYTES);
    assert_eq!(labels.len(), rows.len(), "rows of labels");
    for (row, (label, elements)) in labels.iter().zip(rows).enumerate() {
        let class = class_index(i64::from_le_bytes(*label), classes);
        let class = class.map_err(|error| RowError { row, error })?;
        let (elements, _) = elements.as_chunks_mut();
        elements.fill(cold);
        elements[class] = hot;
    }
    Ok(())
}

/// Writes each label twice, and the share.
fn class_rows<const BYTES: usize>(share: ElementValue, labels: &[u8], rows: &mut [u8]) {
    let share = bytes_of(share);
    let ((labels, _), (elements, _)) = (labels.as_chunks::<BYTES>(), rows.as_chunks_mut::<BYTES>());
    let (rows, _) = elements.as_chunks_mut();
    assert_eq!(labels.len(), rows.len(), "rows of labels");
    rows.iter_mut().zip(labels).for_each(|(row, label)| *row = [*label, *label, share]);
}

/// Returns the bytes of an element that has as many.
fn bytes_of<const BYTES: usize>(element: ElementValue) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes.iter_mut().zip(element.bytes()).for_each(|(to, byte)| *to = byte);
    bytes
}

impl Change {
    fn run(
        &self,
        (count, keys): (usize, &[SampleKey]),
        vector: &mut Vec<f32>,
        elements: &mut [u8],
    ) -> Result<(), RowError> {
        let OpClass::Label(op) = self.op.class() else { return Ok(()) };
        let singles = |bytes| <[u8]>::as_chunks_mut::<4>(bytes).0;
        match self.how {
            How::Label => {
                let (labels, _) = elements.as_chunks_mut();
                self.each(count, keys, |row, cx| {
                    labels[row] = op.eval(cx, i64::from_le_bytes(labels[row]))?.to_le_bytes();
                    Ok(())
                })
            }
            How::Float(DType::F32) => {
                let values = singles(elements);
                self.each(count, keys, |row, cx| {
                    let value = op.eval_float(cx, f32::from_le_bytes(values[row]).into())?;
                    values[row] = (value as f32).to_le_bytes();
                    Ok(())
                })
            }
            How::Float(_) => {
                let (values, _) = elements.as_chunks_mut();
                self.each(count, keys, |row, cx| {
                    let value = op.eval_float(cx, f64::from_le_bytes(values[row]))?;
                    values[row] = value.to_le_bytes();
                    Ok(())
                })
            }
            How::Vector(len) => {
                let values = singles(elements);
                self.each(count, keys, |row, cx| {
                    let values = &mut values[row * len..][..len];
                    vector.clear();
                    vector.extend(values.iter().map(|value| f32::from_le_bytes(*value)));
                    op.eval_vector(cx, vector)?;
                    let changed = values.iter_mut().zip(&*vector);
                    changed.for_each(|(to, value)| *to = value.to_le_bytes());
                    Ok(())
                })
            }
            How::Element(len) => {
                for value in singles(elements) {
                    *value = op.element(f32::from_le_bytes(*value), len).to_le_bytes();
                }
                Ok(())
            }
        }
    }

    /// Calls `change` for each of `count` samples, with its row.
    fn each(
        &self,
        count: usize,
        keys: &[SampleKey],
        mut change: impl FnMut(usize, LabelSample<'_>) -> Result<(), BoxError>,
    ) -> Result<(), RowError> {
        assert_eq!(keys.len(), count, "keys of samples");
        for (row, key) in keys.iter().enumerate() {
            let rng = &mut key.op(self.stream);
            let cx = LabelSample { sample: key.sample(), epoch: key.epoch(), rng };
            change(row, cx).map_err(|error| {
                let error = function::failed(&*self.op, key.epoch())(error);
                RowError { row, error }
            })?;
        }
        Ok(())
    }
}

/// Describes the steps, in order, with commas between them.
impl fmt::Display for ElementSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A copy is named only if nothing else is done.
        let is_copy = |step: &Step| matches!(step, Step::Write(Write::Copy { .. }));
        let steps = self.steps.iter().filter(|step| self.steps.len() == 1 || !is_copy(step));
        for (index, step) in steps.enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match step {
                Step::Write(Write::Copy { .. }) => f.write_str("copied")?,
                Step::Write(Write::Convert { from, to, .. }) => write!(f, "{from} to {to}")?,
                Step::Write(Write::OneHot { elements, classes }) => {
                    write!(f, "one-hot vectors of {classes} {}", elements[0].dtype())?;
                }
                Step::Write(Write::Classes { .. }) => f.write_str("two classes and a share")?,
                Step::Change(Change { op, how: How::Element(_), .. }) => f.write_str(op.name())?,
                Step::Change(Change { op, .. }) => write!(f, "{} (not compiled)", op.name())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ElementPlan;
    use fuseloop_ops::author::{Rng, Type};
    use fuseloop_ops::internals::DTYPES;
    use fuseloop_ops::{
        Convert, LabelSmoothing, Lambda, MixUp, OneHot, ReplaceLabel, Squeeze, TypeError, View, ops,
    };

    fn any_dtype(rng: &mut Rng) -> DType {
        DTYPES[rng.below(DTYPES.len() as u32) as usize]
    }

    /// Returns an op that may or may not fit.
    fn any_op(rng: &mut Rng) -> Ops {
        match rng.below(12) {
            0..3 => ops![Convert::to(any_dtype(rng))],
            3 => ops![View::new(any_dtype(rng))],
            4 => ops![Squeeze],
            5 => ops![OneHot::new([1, 2, 5, 300][rng.below(4) as usize]).unwrap()],
            6 => ops![LabelSmoothing::new(0.1).unwrap()],
            7 => ops![ReplaceLabel::new([1, 4], 1)],
            8 => ops![Lambda::label("Label", |cx, label| {
                match (label.wrapping_add(cx.rng.below(3).into()), cx.rng.below(200)) {
                    (_, 0) => Err(format!("no label of {}", cx.sample).into()),
                    (label, _) => Ok(label),
                }
            })],
            9 => ops![Lambda::float("Float", |cx, value| {
                value / 3.0 + f64::from(cx.rng.unit()) + f64::from(cx.epoch)
            })],
            10 => ops![Lambda::vector("Vector", |cx, vector| {
                vector.reverse();
                if let Some(first) = vector.first_mut() {
                    *first += cx.rng.unit();
                }
            })],
            _ => ops![MixUp::new(1.0).unwrap()],
        }
    }

    /// Returns the longest list of at most eight ops that `plans` accepts op by op.
    fn any_ops(rng: &mut Rng, plans: impl Fn(&Ops) -> bool) -> Ops {
        let mut ops = ops![];
        for _ in 0..rng.below(9) {
            let longer = [ops.clone(), any_op(rng)].concat();
            if plans(&longer) {
                ops = longer;
            }
        }
        ops
    }

    fn any_word(rng: &mut Rng) -> u64 {
        let word = u64::from(rng.word()) << 32 | u64::from(rng.word());
        match rng.below(8) {
            0..4 => u64::from(rng.below(5)),
            4 => f64::from(rng.unit()).to_bits(),
            5 => [f64::NAN, f64::INFINITY, -1e300, -0.0][rng.below(4) as usize].to_bits(),
            6 => [i64::MIN, i64::MAX, -1, 70_000][rng.below(4) as usize] as u64,
            _ => word,
        }
    }

    /// Compares the rows of a call with those of the samples, each by itself.
    fn assert_as_evaluated(
        name: &str,
        done: &Result<(), RowError>,
        found: &[u8],
        want: &[(Result<(), Error>, Vec<u8>)],
    ) {
        match done {
            Ok(()) => {
                let bytes = found.len() / want.len().max(1);
                for (row, (evaluated, want)) in want.iter().enumerate() {
                    assert!(evaluated.is_ok(), "{name}: row {row} must be refused");
                    assert_eq!(&found[row * bytes..][..bytes], want, "{name}: row {row}");
                }
            }
            Err(RowError { row, error }) => {
                let evaluated = want[*row].0.as_ref().expect_err(name);
                assert_eq!(error.to_string(), evaluated.to_string(), "{name}");
            }
        }
    }

    #[test]
    fn random_lists_on_labels_are_as_evaluated() {
        let (mut scratch, mut planned, mut refused) = (StepScratch::default(), 0, 0);
        for list in 0..3000 {
            let rng = &mut SampleKey::new(3, 0, list).op(0);
            let input = if rng.coin(0.7) { DType::I64 } else { DType::F64 };
            let ops = any_ops(rng, |ops| ElementPlan::of_label(ops.clone(), input).is_ok());
            let name = format!("{input} {ops:?}");
            let plan = ElementPlan::of_label(ops, input).unwrap();
            planned += usize::from(plan.rows().to_string() != "op by op");
            let count = rng.below(9) as usize;
            let keys: Vec<_> = (0..count).map(|k| SampleKey::new(7, 2, k as u64 % 6)).collect();
            let words: Vec<u64> = (0..count).map(|_| any_word(rng)).collect();
            let want = keys.iter().zip(&words).map(|(key, word)| {
                let mut out = vec![0xAA; plan.sample_bytes()];
                (plan.evaluate(*key, &word.to_le_bytes(), &mut out), out)
            });
            let want: Vec<_> = want.collect();
            let stored: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let mut found = vec![0xBB; count * plan.sample_bytes()];
            let keys = if plan.rows().draws() { &keys[..] } else { &[] };
            let done = plan.run((count, keys), &stored, &mut scratch, &mut found);
            refused += usize::from(done.is_err());
            assert_as_evaluated(&name, &done, &found, &want);
        }
        // A one-hot vector of one class that is mixed as a label is evaluated.
        assert!(planned > 2990 && refused > 100, "{planned} lists, {refused} with an error");
    }

    #[test]
    fn random_lists_on_arrays_are_as_evaluated() {
        let mut scratch = StepScratch::default();
        for list in 0..3000 {
            let rng = &mut SampleKey::new(4, 0, list).op(0);
            let input = any_dtype(rng);
            let shape = [vec![3], vec![1], vec![2, 1, 2], vec![300], vec![0]]
                [rng.below(5) as usize]
                .clone();
            let ops = any_ops(rng, |ops| {
                ElementPlan::of_array(ops.clone(), input, shape.clone()).is_ok()
            });
            let name = format!("{input} {shape:?} {ops:?}");
            let plan = ElementPlan::of_array(ops, input, shape).unwrap();
            assert_ne!(plan.rows().to_string(), "op by op", "{name}");
            let count = 1 + rng.below(4) as usize;
            let keys: Vec<_> = (0..count).map(|k| SampleKey::new(7, 2, k as u64)).collect();
            let bytes = plan.rows().stored_bytes();
            let stored: Vec<u8> = (0..count * bytes / 8 + 1)
                .flat_map(|_| any_word(rng).to_le_bytes())
                .take(count * bytes)
                .collect();
            let row = plan.shape().iter().product::<usize>() * plan.dtype().bytes();
            let want = keys.iter().enumerate().map(|(at, key)| {
                let mut out = vec![0xAA; row];
                (plan.evaluate(*key, &stored[at * bytes..][..bytes], &mut out), out)
            });
            let want: Vec<_> = want.collect();
            let mut found = vec![0xBB; count * row];
            let keys = if plan.rows().draws() { &keys[..] } else { &[] };
            let done = plan.run((count, keys), &stored, &mut scratch, &mut found);
            assert_as_evaluated(&name, &done, &found, &want);
        }
    }

    /// An op whose output has another shape than its types say.
    #[derive(Debug)]
    struct Untrue;

    impl Op for Untrue {
        fn name(&self) -> &'static str {
            "Untrue"
        }

        fn output(&self, _: &Type) -> Result<Type, TypeError> {
            Ok(Type::Tensor { dtype: DType::I64, shape: vec![2] })
        }

        fn class(&self) -> OpClass<'_> {
            OpClass::Label(self)
        }
    }

    impl LabelOp for Untrue {}

    #[test]
    fn an_op_that_contradicts_its_types_is_evaluated() {
        let plan = ElementPlan::of_label(ops![Untrue], DType::I64).unwrap();
        assert_eq!(plan.rows().to_string(), "op by op");
        let (mut scratch, mut rows) = (StepScratch::default(), [0; 32]);
        let stored = [5i64, 6].map(i64::to_le_bytes).concat();
        plan.run((2, &[SampleKey::default(); 2]), &stored, &mut scratch, &mut rows).unwrap();
        assert_eq!(rows.to_vec(), [5i64, 5, 6, 6].map(i64::to_le_bytes).concat());
    }

    #[test]
    fn steps_are_said_in_words() {
        let said = |ops, input| ElementPlan::of_label(ops, input).unwrap().rows().to_string();
        assert_eq!(said(ops![Squeeze], DType::I64), "copied");
        assert_eq!(said(ops![Convert::to(DType::F32)], DType::F64), "f64 to f32");
        let hot = ops![OneHot::new(9).unwrap(), LabelSmoothing::new(0.1).unwrap()];
        assert_eq!(said(hot, DType::I64), "one-hot vectors of 9 f32");
        assert_eq!(
            said(ops![MixUp::new(1.0).unwrap()], DType::I64),
            "i64 to f32, two classes and a share"
        );
        let own = ops![Lambda::label("Own", |_, label| label), Convert::to(DType::I32)];
        assert_eq!(said(own, DType::I64), "Own (not compiled), i64 to i32");
    }
}
