//! Lambda: a user-defined closure that changes an image, a label, a vector or a batch, in plain Rust.

use crate::author::{BoxError, Dim, HostBatchOp, HostOp, ImageType, LabelOp, Op, OpClass, Type};
use crate::op::{on_one_label, on_u8_image};
use crate::{DType, HostRows, HostSample, LabelSample, ParamError, Size, TypeError};
use std::fmt;

/// Calls a closure of your own on each sample or each batch, in plain Rust.
///
/// This is torchvision's `Lambda`, for changes that no op here implements. The closure is called once
/// per sample, with the sample's index, the epoch and a generator for this sample, so that the same
/// sample of the same epoch gets the same result on any worker. The image ops before and after it are
/// still compiled, into separate loops.
///
/// | built by                | input                         | output       |
/// |-------------------------|-------------------------------|--------------|
/// | [`new`](Self::new)      | u8 image                      | as the input |
/// | [`sized`](Self::sized)  | u8 image                      | u8 image of the size given |
/// | [`label`](Self::label)  | one i64 per sample            | as the input |
/// | [`float`](Self::float)  | one f32 or f64 per sample     | as the input |
/// | [`vector`](Self::vector) | one-hot vector or array of f32 | as the input |
/// | [`batch`](Self::batch)  | the rows of a finished batch, of any type | as the input |
///
/// | | |
/// |--------|----------------------------------------------------------------------------|
/// | random | the numbers that the closure draws from its generator                      |
/// | cost   | that of the closure; an image is stored before it and read again after it  |
///
/// A closure may return a `Result`, with any error. An error is not damage of the sample: it ends the epoch,
/// whatever becomes of damaged samples, and `fuseloop::Error::get_ref` returns it. The closure may be called again
/// for the same sample, for example where a sample beside it is damaged.
///
/// ```
/// use fuseloop_ops::{Lambda, ops};
///
/// let checked = Lambda::label("Checked", |cx, label| match label {
///     0..1000 => Ok(label),
///     _ => Err(format!("sample {} has no class", cx.sample))?,
/// });
/// assert_eq!(ops![checked].len(), 1);
/// ```
pub struct Lambda {
    name: &'static str,
    change: Change,
}

/// The result of a closure of a [`Lambda`]: a value, or a `Result` with any error.
///
/// ```
/// use fuseloop_ops::{Lambda, ops};
///
/// let next = Lambda::label("next", |_, label| label + 1);
/// let number = Lambda::label("number", |cx, label| match label {
///     0.. => Ok(label),
///     _ => Err(format!("the label of sample {} is {label}", cx.sample))?,
/// });
/// assert_eq!(ops![next, number].len(), 2);
/// ```
pub trait LambdaResult<T>: sealed::Sealed {
    /// Returns the value or the error.
    ///
    /// # Errors
    ///
    /// The error that the closure returned.
    fn into_result(self) -> Result<T, BoxError>;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! results {
    ($($value:ty),*) => {$(
        impl sealed::Sealed for $value {}

        impl LambdaResult<$value> for $value {
            fn into_result(self) -> Result<$value, BoxError> {
                Ok(self)
            }
        }

        impl LambdaResult<$value> for Result<$value, BoxError> {
            fn into_result(self) -> Result<$value, BoxError> {
                self
            }
        }
    )*};
}

results!((), i64, f64);

impl<T> sealed::Sealed for Result<T, BoxError> {}

type SizedChange = dyn Fn(HostSample<'_>, &[u8], &mut [u8]) -> Result<(), BoxError> + Send + Sync;
type ImageChange = dyn Fn(HostSample<'_>, &mut [u8]) -> Result<(), BoxError> + Send + Sync;
type LabelChange = dyn Fn(LabelSample<'_>, i64) -> Result<i64, BoxError> + Send + Sync;
type FloatChange = dyn Fn(LabelSample<'_>, f64) -> Result<f64, BoxError> + Send + Sync;
type VectorChange = dyn Fn(LabelSample<'_>, &mut [f32]) -> Result<(), BoxError> + Send + Sync;
type BatchChange = dyn Fn(HostRows<'_>, &mut [u8]) -> Result<(), BoxError> + Send + Sync;

/// The closure, by what it changes.
enum Change {
    Image(Box<ImageChange>),
    Sized(Size, Box<SizedChange>),
    Label(Box<LabelChange>),
    Float(Box<FloatChange>),
    Vector(Box<VectorChange>),
    Batch(Box<BatchChange>),
}

impl Lambda {
    /// Builds the op from `change`, which gets each image as `[height, width, channels]` and changes it in
    /// place. `explain` and errors use `name` for the op.
    ///
    /// ```
    /// use fuseloop_ops::{Lambda, ops};
    ///
    /// let sepia = Lambda::new("Sepia", |_, pixels| {
    ///     for pixel in pixels.chunks_exact_mut(3) {
    ///         pixel[2] /= 2;
    ///     }
    /// });
    /// assert_eq!(ops![sepia].len(), 1);
    /// ```
    pub fn new<R: LambdaResult<()>>(
        name: &'static str,
        change: impl Fn(HostSample<'_>, &mut [u8]) -> R + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            change: Change::Image(Box::new(move |host, pixels| change(host, pixels).into_result())),
        }
    }

    /// Builds the op from `change`, which gets an image of any size as `[height, width, channels]`, and writes one of
    /// `size` to its last argument, which is black.
    ///
    /// # Errors
    ///
    /// If a side is 0.
    ///
    /// ```
    /// use fuseloop_ops::{Lambda, Size, ops};
    ///
    /// // The middle column, as an image of one column.
    /// let column = Lambda::sized("Column", Size::new(32, 1), |host, pixels, out| {
    ///     let (height, width) = (host.size.height as usize, host.size.width as usize);
    ///     for (y, to) in out.chunks_exact_mut(3).enumerate() {
    ///         let at = y * height / 32 * width + width / 2;
    ///         to.copy_from_slice(&pixels[3 * at..][..3]);
    ///     }
    /// })?;
    /// assert_eq!(ops![column].len(), 1);
    /// # Ok::<(), fuseloop_ops::ParamError>(())
    /// ```
    pub fn sized<R: LambdaResult<()>>(
        name: &'static str,
        size: impl Into<Size>,
        change: impl Fn(HostSample<'_>, &[u8], &mut [u8]) -> R + Send + Sync + 'static,
    ) -> Result<Self, ParamError> {
        let size = size.into();
        if size.pixels() == 0 {
            return Err(ParamError::new("Lambda", "size", size, "at least 1 x 1"));
        }
        let change = move |host: HostSample<'_>, pixels: &[u8], out: &mut [u8]| {
            change(host, pixels, out).into_result()
        };
        Ok(Self { name, change: Change::Sized(size, Box::new(change)) })
    }

    /// Builds the op from `change`, which returns the new label.
    ///
    /// ```
    /// use fuseloop_ops::{Lambda, OneHot, ops};
    ///
    /// // Symmetric label noise: one label in ten is drawn anew in every epoch.
    /// let noise = Lambda::label("LabelNoise", |cx, label| match cx.rng.coin(0.1) {
    ///     true => cx.rng.below(1000).into(),
    ///     false => label,
    /// });
    /// let labels = ops![noise, OneHot::new(1000)?];
    /// # Ok::<(), fuseloop_ops::ParamError>(())
    /// ```
    pub fn label<R: LambdaResult<i64>>(
        name: &'static str,
        change: impl Fn(LabelSample<'_>, i64) -> R + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            change: Change::Label(Box::new(move |cx, label| change(cx, label).into_result())),
        }
    }

    /// Builds the op from `change`, which returns the new value of a float field, or of a label after a
    /// [`Convert`](crate::Convert) to f32 or f64. The result is rounded to the type of the value.
    ///
    /// ```
    /// use fuseloop_ops::{Lambda, ops};
    ///
    /// let logarithm = Lambda::float("Log1p", |_, price| price.ln_1p());
    /// assert_eq!(ops![logarithm].len(), 1);
    /// ```
    pub fn float<R: LambdaResult<f64>>(
        name: &'static str,
        change: impl Fn(LabelSample<'_>, f64) -> R + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            change: Change::Float(Box::new(move |cx, value| change(cx, value).into_result())),
        }
    }

    /// Builds the op from `change`, which changes the elements of a [`OneHot`](crate::OneHot) vector or of
    /// an array of f32 in place.
    ///
    /// ```
    /// use fuseloop_ops::{Lambda, OneHot, ops};
    ///
    /// // Less and less smoothing in the first ten epochs.
    /// let smoothing = Lambda::vector("FadingSmoothing", |cx, vector| {
    ///     let share = 0.1 - 0.01 * cx.epoch.min(10) as f32;
    ///     let each = share / vector.len() as f32;
    ///     vector.iter_mut().for_each(|value| *value = *value * (1.0 - share) + each);
    /// });
    /// let labels = ops![OneHot::new(10)?, smoothing];
    /// # Ok::<(), fuseloop_ops::ParamError>(())
    /// ```
    pub fn vector<R: LambdaResult<()>>(
        name: &'static str,
        change: impl Fn(LabelSample<'_>, &mut [f32]) -> R + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            change: Change::Vector(Box::new(move |cx, vector| change(cx, vector).into_result())),
        }
    }

    /// Builds the op from `change`, which gets the rows of a finished batch, one after the other, and changes
    /// them in place. It is called once per batch, with the indices of the samples and the type and shape of
    /// the rows, on the worker that finished the batch. It must stand last in the list, before or after ops
    /// that mix batches.
    ///
    /// ```
    /// use fuseloop_ops::{Lambda, ToChannelsFirst, ops};
    ///
    /// // The first image of each batch is black.
    /// let black = Lambda::batch("Black", |host, rows| {
    ///     let bytes = rows.len() / host.samples.len();
    ///     rows[..bytes].fill(0);
    /// });
    /// assert_eq!(ops![ToChannelsFirst, black].len(), 2);
    /// ```
    pub fn batch<R: LambdaResult<()>>(
        name: &'static str,
        change: impl Fn(HostRows<'_>, &mut [u8]) -> R + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            change: Change::Batch(Box::new(move |host, rows| change(host, rows).into_result())),
        }
    }
}

impl fmt::Debug for Lambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lambda({})", self.name)
    }
}

impl Op for Lambda {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let expected = match (&self.change, input) {
            (Change::Image(_), _) => return on_u8_image(self.name, input, |image| image),
            (Change::Sized(Size { height, width }, _), _) => {
                let (height, width) = (Dim::fixed(*height), Dim::fixed(*width));
                let sized = |image| ImageType { height, width, ..image };
                return on_u8_image(self.name, input, sized);
            }
            (Change::Batch(_), _) => return Ok(input.clone()),
            (Change::Label(_), _) => {
                on_one_label(self.name, input)?;
                return Ok(input.clone());
            }
            (Change::Float(_), Type::Tensor { dtype: DType::F32 | DType::F64, shape })
                if shape.iter().product::<usize>() == 1 =>
            {
                return Ok(input.clone());
            }
            (Change::Vector(_), Type::Tensor { dtype: DType::F32, shape }) if !shape.is_empty() => {
                return Ok(input.clone());
            }
            (Change::Float(_), _) => "one f32 or f64 per sample",
            (Change::Vector(_), _) => "a one-hot vector or an array of f32",
        };
        Err(TypeError { op: self.name, expected, found: input.to_string() })
    }

    fn class(&self) -> OpClass<'_> {
        match self.change {
            Change::Image(_) | Change::Sized(..) => OpClass::Host(self),
            Change::Label(_) | Change::Float(_) | Change::Vector(_) => OpClass::Label(self),
            Change::Batch(_) => OpClass::HostBatch(self),
        }
    }
}

impl HostOp for Lambda {
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError> {
        if let Change::Image(change) = &self.change { change(host, pixels) } else { Ok(()) }
    }

    fn output_size(&self) -> Option<Size> {
        if let Change::Sized(size, _) = &self.change { Some(*size) } else { None }
    }

    fn apply_sized(
        &self,
        host: HostSample<'_>,
        pixels: &[u8],
        out: &mut [u8],
    ) -> Result<(), BoxError> {
        if let Change::Sized(_, change) = &self.change { change(host, pixels, out) } else { Ok(()) }
    }
}

impl LabelOp for Lambda {
    fn eval(&self, cx: LabelSample<'_>, label: i64) -> Result<i64, BoxError> {
        if let Change::Label(change) = &self.change { change(cx, label) } else { Ok(label) }
    }

    fn eval_float(&self, cx: LabelSample<'_>, value: f64) -> Result<f64, BoxError> {
        if let Change::Float(change) = &self.change { change(cx, value) } else { Ok(value) }
    }

    fn takes_vector(&self) -> bool {
        matches!(self.change, Change::Vector(_))
    }

    fn eval_vector(&self, cx: LabelSample<'_>, vector: &mut [f32]) -> Result<(), BoxError> {
        if let Change::Vector(change) = &self.change { change(cx, vector) } else { Ok(()) }
    }
}

impl HostBatchOp for Lambda {
    fn apply(&self, host: HostRows<'_>, rows: &mut [u8]) -> Result<(), BoxError> {
        if let Change::Batch(change) = &self.change { change(host, rows) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(op: &Lambda, dtype: DType, shape: &[usize]) -> String {
        op.output(&Type::Tensor { dtype, shape: shape.to_vec() }).unwrap_err().to_string()
    }

    #[test]
    fn each_kind_takes_its_own_input() {
        let label = Lambda::label("Mine", |_, label| label);
        assert!(refused(&label, DType::F64, &[1]).starts_with("Mine takes one i64 per sample"));
        let float = Lambda::float("Mine", |_, value| value);
        assert!(refused(&float, DType::I64, &[1]).starts_with("Mine takes one f32 or f64"));
        assert!(refused(&float, DType::F32, &[2]).starts_with("Mine takes one f32 or f64"));
        let vector = Lambda::vector("Mine", |_, _| ());
        assert!(refused(&vector, DType::F16, &[4]).starts_with("Mine takes a one-hot vector"));
        let image = Lambda::new("Mine", |_, _| ());
        assert!(refused(&image, DType::I64, &[1]).starts_with("Mine takes a u8 image"));
    }

    #[test]
    fn a_closure_may_return_any_error() {
        let rng = &mut crate::author::Rng::new(0);
        let number = Lambda::label("Number", |_, label| {
            let digits: i64 = "x".parse()?;
            Ok(label + digits)
        });
        let error = number.eval(LabelSample { sample: 1, epoch: 0, rng }, 3).unwrap_err();
        assert!(error.is::<std::num::ParseIntError>(), "{error}");
        let image = Lambda::new("Image", |_, _| Err(std::io::Error::other("full").into()));
        let host = HostSample { sample: 1, epoch: 0, size: Size::new(1, 1), channels: 3, rng };
        assert!(HostOp::apply(&image, host, &mut [0; 3]).unwrap_err().is::<std::io::Error>());
        let batch = Lambda::batch("Batch", |_, rows| rows.fill(7));
        let mut rows = [0; 2];
        let host = HostRows { samples: &[1, 2], epoch: 0, dtype: DType::U8, shape: &[], rng };
        HostBatchOp::apply(&batch, host, &mut rows).unwrap();
        assert_eq!(rows, [7; 2]);
    }
}
