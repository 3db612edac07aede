//! What an op is: a name, the type it gives, and a class that says how it is compiled.
//!
//! | class    | examples                          | drawn for a sample   | in the compiled loop            |
//! |----------|-----------------------------------|----------------------|---------------------------------|
//! | geometry | crop, resize, flip, translate     | [`Motion`]s          | where pixels are loaded from    |
//! | pixel    | brightness, saturation, normalize | numbers, in slots    | arithmetic on vectors of pixels |
//! | shuffled | colour jitter                     | an order and numbers | one loop body for each order    |
//! | region   | cutout                            | a rectangle          | a mask                          |
//! | cast     | convert                           |                      | the final store                 |
//! | view     | view                              |                      | nothing: another name           |
//! | layout   | channels first                    |                      | the final store                 |
//! | host     | poison                            |                      | none: it ends the loop          |
//! | label    | one-hot                           |                      | scalar code                     |

use crate::{DType, Emit, Layout, Motion, Pixels, Rng, Size, TypeError, Window};
use std::fmt;

/// How values are rounded from one op to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum NumberRule {
    /// Clamp to 0..=255 after each op, but keep fractions until the final store, which rounds
    /// half to even. Closer to the real numbers than any library that stores u8 between ops.
    #[default]
    Fused,
    /// Truncate to a whole number after each op, as `torchvision.transforms.v2` does on u8
    /// tensors: the same values, op for op.
    Exact,
}

/// A side of an image, as far as it is known before the samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim {
    /// At least so many pixels.
    pub min: u32,
    /// At most so many.
    pub max: u32,
}

impl Dim {
    /// The same for all samples.
    #[must_use]
    pub const fn fixed(side: u32) -> Self {
        Self { min: side, max: side }
    }

    /// Its value, if all samples share it.
    #[must_use]
    pub const fn get(self) -> Option<u32> {
        if self.min == self.max { Some(self.min) } else { None }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(side) => write!(f, "{side}"),
            None => write!(f, "{}..={}", self.min, self.max),
        }
    }
}

/// An image between two ops: RGB, `[height, width, 3]` or `[3, height, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageType {
    /// Rows.
    pub height: Dim,
    /// Columns.
    pub width: Dim,
    /// Type of an element.
    pub dtype: DType,
    /// Where the channels lie.
    pub layout: Layout,
}

impl ImageType {
    /// A decoded image: u8, channels last.
    #[must_use]
    pub const fn decoded(height: Dim, width: Dim) -> Self {
        Self { height, width, dtype: DType::U8, layout: Layout::ChannelsLast }
    }

    /// The same with another size.
    #[must_use]
    pub const fn with_size(self, size: Size) -> Self {
        Self { height: Dim::fixed(size.height), width: Dim::fixed(size.width), ..self }
    }

    /// Its size, if all samples share it.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        Some(Size { height: self.height.get()?, width: self.width.get()? })
    }
}

/// What flows between two ops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// An RGB image.
    Image(ImageType),
    /// Numbers of a fixed shape: labels, arrays.
    Tensor {
        /// Type of an element.
        dtype: DType,
        /// Elements along each axis, without the batch's.
        shape: Vec<usize>,
    },
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(i) if i.layout == Layout::ChannelsFirst => {
                write!(f, "a {} image [3, {}, {}]", i.dtype, i.height, i.width)
            }
            Self::Image(i) => write!(f, "a {} image [{}, {}, 3]", i.dtype, i.height, i.width),
            Self::Tensor { dtype, shape } => write!(f, "a {dtype} tensor {shape:?}"),
        }
    }
}

/// One augmentation or conversion, as a user lists it. Immutable; its parameters were checked
/// when it was made.
pub trait Op: fmt::Debug + Send + Sync {
    /// The name a user writes.
    fn name(&self) -> &'static str;

    /// What the op gives for what it gets.
    ///
    /// # Errors
    ///
    /// If it can't stand there: the message says what it takes instead.
    fn output(&self, input: &Type) -> Result<Type, TypeError>;

    /// How it is drawn and compiled.
    fn class(&self) -> Class<'_>;
}

/// How an op is drawn and compiled.
#[derive(Clone, Copy, Debug)]
pub enum Class<'a> {
    /// Moves pixels.
    Geometry(&'a dyn GeometryOp),
    /// Changes the values of a pixel.
    Pixel(&'a dyn PixelOp),
    /// Pixel ops applied in an order drawn for each sample.
    Shuffled(&'a [Box<dyn PixelOp>]),
    /// Overwrites a rectangle.
    Region(&'a dyn RegionOp),
    /// Changes some samples' pictures in plain Rust, between two loops.
    Host(&'a dyn HostOp),
    /// Changes the type of the elements.
    Cast(DType),
    /// Reads the stored elements as another type of as many bytes.
    View(DType),
    /// Changes where the channels lie.
    Layout(Layout),
    /// Works on a label.
    Label(&'a dyn LabelOp),
}

/// An op that moves pixels: crops, resizes, flips, shifts.
pub trait GeometryOp: fmt::Debug + Send + Sync {
    /// Draws for a sample of `size`: what is to be done, in order, into `out`.
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<Motion>);

    /// The op's resampling, if it has one: then it gives a size known beforehand, or one that
    /// follows from the input's.
    fn resamples(&self) -> Option<crate::Interpolation> {
        None
    }

    /// The colour of what may come into the picture from outside, given the smallest input;
    /// `None` if nothing ever does.
    fn fills(&self, input: &ImageType) -> Option<[u8; 3]> {
        let _ = input;
        None
    }
}

/// An op that changes the values of a pixel, the same way for all pixels of a sample.
pub trait PixelOp: fmt::Debug + Send + Sync {
    /// What the op's compiled code depends on: blocks of equal structure share one kernel. What
    /// only the draws depend on (probabilities, ranges) is left out.
    fn structure(&self) -> String {
        format!("{self:?}")
    }

    /// How many numbers a sample needs.
    fn slots(&self) -> usize {
        0
    }

    /// Draws these numbers.
    fn draw(&self, rng: &mut Rng, slots: &mut [f32]) {
        let _ = (rng, slots);
    }

    /// Whether the op needs the mean of the picture's grey, which the compiled code and the
    /// oracle put into the op's last slot. See [`grey_mean`](crate::grey_mean).
    fn needs_mean(&self) -> bool {
        false
    }

    /// Whether these draws leave every pixel as it is, so that no mean need be taken.
    fn is_identity(&self, slots: &[f32]) -> bool {
        let _ = slots;
        false
    }

    /// For each channel `m1, s1, s0, bias`, if the op is `fma(d, s1, fma(d, s0, bias))` of
    /// `d = v - m1`: where it alone changes bytes, a row function may do it while it stores them.
    fn normalizes(&self) -> Option<[[f32; 4]; 3]> {
        None
    }

    /// The meaning: one pixel in, one pixel out.
    fn eval(&self, rule: NumberRule, pixel: [f32; 3], slots: &[f32]) -> [f32; 3];

    /// The same as IR, for four pixels at a time. `slots` is the number of the first slot.
    fn emit(&self, e: &mut Emit<'_, '_>, pixels: Pixels, slots: usize) -> Pixels;
}

/// An op that overwrites a rectangle with one colour.
pub trait RegionOp: fmt::Debug + Send + Sync {
    /// Draws the rectangle, inside `size` or empty.
    fn draw(&self, rng: &mut Rng, size: Size) -> Window;

    /// The colour.
    fn fill(&self) -> [u8; 3];
}

/// An op in plain Rust on the whole picture of some samples. It ends a block: what is before it is
/// stored as u8 (rounded half to even), channels last, and what is after reads that; so for all
/// samples, changed or not.
pub trait HostOp: fmt::Debug + Send + Sync {
    /// Whether it changes `sample`.
    fn applies_to(&self, sample: u64) -> bool;

    /// Changes the picture in place: `[height, width, 3]`, of the size its type check allowed.
    fn apply(&self, pixels: &mut [u8]);
}

/// An op on a label: a whole number, or a float.
pub trait LabelOp: fmt::Debug + Send + Sync {
    /// The meaning: the label of `sample`, in place.
    fn eval(&self, sample: u64, label: i64) -> i64 {
        let _ = sample;
        label
    }

    /// The number of classes, if the op turns the label into a one-hot vector.
    fn classes(&self) -> Option<u32> {
        None
    }
}

/// Expects a u8 image and passes it on with `change` applied.
pub(crate) fn on_u8_image(
    op: &'static str,
    input: &Type,
    change: impl FnOnce(ImageType) -> ImageType,
) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) if image.dtype == DType::U8 => Ok(Type::Image(change(*image))),
        found => Err(TypeError {
            op,
            expected: "a u8 image (put it before Normalize and Convert)",
            found: found.to_string(),
        }),
    }
}

/// Expects an image of any element type and passes it on with `change` applied.
pub(crate) fn on_image(
    op: &'static str,
    input: &Type,
    change: impl FnOnce(ImageType) -> ImageType,
) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) => Ok(Type::Image(change(*image))),
        found @ Type::Tensor { .. } => {
            Err(TypeError { op, expected: "an image", found: found.to_string() })
        }
    }
}

/// Expects one i64 a sample.
pub(crate) fn on_one_label(op: &'static str, input: &Type) -> Result<(), TypeError> {
    match input {
        Type::Tensor { dtype: DType::I64, shape } if shape.iter().product::<usize>() == 1 => Ok(()),
        found => Err(TypeError { op, expected: "one i64 a sample", found: found.to_string() }),
    }
}
