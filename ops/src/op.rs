//! What an op is: a name, the type it gives, and a class that says how it is compiled.
//!
//! | class    | examples                          | drawn for a sample   | in the compiled loop            |
//! |----------|-----------------------------------|----------------------|---------------------------------|
//! | geometry | crop, resize, flip, translate     | [`Motion`]s          | where pixels are loaded from    |
//! | pixel    | brightness, saturation, normalize | numbers, in slots    | arithmetic on vectors of pixels |
//! | shuffled | colour jitter                     | an order and numbers | one loop body for each order    |
//! | table    | equalize, gamma, a user's table   | numbers, in slots    | a look-up for each value        |
//! | region   | cutout                            | a rectangle          | a mask                          |
//! | choice   | random apply, policies            | which ops run        | a loop body for what ran        |
//! | cast     | convert                           |                      | the final store                 |
//! | view     | view                              |                      | nothing: another name           |
//! | layout   | channels first                    |                      | the final store                 |
//! | device   | to device                         |                      | none: what follows may run there |
//! | host     | poison                            |                      | none: it ends the loop          |
//! | mix      | AugMix                            | weights, and chains  | loops of their own, and sums    |
//! | label    | one-hot                           |                      | scalar code                     |
//! | batch    | mixup                             | for a batch: shares  | none: mixes finished batches    |

use crate::{
    DType, Device, Emit, Layout, Mixed, Motion, Ops, Pixels, Rng, Size, TypeError, Window,
};
use std::fmt;
use std::sync::Arc;

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
    /// As `Fused`, but colour ops in a row that are matrices (brightness, saturation, channel
    /// order, a user's matrix) are multiplied into one, clamped once at its end. Differs from
    /// `Fused` where a value in between would have left 0..=255.
    Relaxed,
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

    /// Whether it leaves every such input as it is, whatever is drawn (`p` of 0, a factor that is
    /// always 1): the planner takes it out.
    fn does_nothing(&self, input: &Type) -> bool {
        let _ = input;
        false
    }

    /// The op that stands in its place for such an input, if what it computes depends on the type:
    /// noise in levels on u8, in the image's own units on floats. Its name, what it gives and the
    /// order of its draws must be the same.
    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let _ = input;
        None
    }
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
    /// Looks every value up in a table of its channel.
    Table(&'a dyn TableOp),
    /// Overwrites a rectangle.
    Region(&'a dyn RegionOp),
    /// Runs some of its members, drawn for each sample.
    Choice(&'a dyn ChoiceOp),
    /// Changes some samples' pictures in plain Rust, between two loops.
    Host(&'a dyn HostOp),
    /// Mixes a picture with others that a list of ops makes of it.
    Mix(&'a dyn MixOp),
    /// Changes the type of the elements.
    Cast(DType),
    /// Reads the stored elements as another type of as many bytes.
    View(DType),
    /// Changes where the channels lie.
    Layout(Layout),
    /// What follows runs on a device, if the loader has one.
    Device(Device),
    /// Works on a label.
    Label(&'a dyn LabelOp),
    /// Mixes the samples of a finished batch.
    Batch(&'a dyn BatchOp),
}

/// An op that moves pixels: crops, resizes, flips, warps, blurs.
pub trait GeometryOp: fmt::Debug + Send + Sync {
    /// Draws for a sample of `size`: what is to be done, in order, into `out`.
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<Motion>);

    /// Whether the op makes rows of its own, and how: then it reads a whole picture of bytes.
    fn makes_rows(&self) -> Option<RowMaker> {
        None
    }

    /// The colour of what may come into the picture from outside, given the smallest input;
    /// `None` if nothing ever does, or if the op makes rows.
    fn fills(&self, input: &ImageType) -> Option<[u8; 3]> {
        let _ = input;
        None
    }
}

/// Who makes the rows of an op that makes some.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowMaker {
    /// Compiled code, for every sample: the antialiased bilinear resize.
    Compiled,
    /// A row function, called once a row where the sample's draws ask for it.
    Called,
}

/// What the meaning of a pixel op may ask for.
#[derive(Clone, Copy, Debug)]
pub struct Eval<'a> {
    /// How values are rounded between ops.
    pub rule: NumberRule,
    /// The op's own slots.
    pub slots: &'a [f32],
    /// The pixel's row and column in the picture that the op gets.
    pub at: [i32; 2],
}

impl<'a> Eval<'a> {
    /// For ops that don't ask where the pixel is.
    #[must_use]
    pub const fn new(rule: NumberRule, slots: &'a [f32]) -> Self {
        Self { rule, slots, at: [0; 2] }
    }
}

/// An op that changes the values of a pixel, by the pixel's own values and, if it says so, place.
pub trait PixelOp: fmt::Debug + Send + Sync {
    /// How many numbers a sample needs.
    fn slots(&self) -> usize {
        0
    }

    /// What the numbers are called where draws are shown to people, in order: only those with a
    /// name are shown, unless none has. An empty name is one whose number the op's name explains.
    fn slot_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Draws these numbers for a picture of `size`. Gives whether the op runs for this sample:
    /// `false` only if [`may_skip`](Self::may_skip).
    fn draw(&self, rng: &mut Rng, size: Size, slots: &mut [f32]) -> bool {
        let _ = (rng, size, slots);
        true
    }

    /// Whether the op is left out for samples whose draw says so: they run a loop body without it.
    /// For ops that cost much. Others give such samples numbers that change nothing.
    fn may_skip(&self) -> bool {
        false
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

    /// Whether the result depends on where the pixel is: see [`Eval::at`] and [`Emit::place`].
    fn uses_place(&self) -> bool {
        false
    }

    /// Whether each channel's result depends on that channel's value alone (and the slots), so
    /// that it may become part of a table of 256 values.
    fn is_per_channel(&self) -> bool {
        false
    }

    /// The rows of a matrix, each with its constant last, if the op is `clamp(matrix * pixel)` but
    /// for rounding: such ops in a row may become one under [`NumberRule::Relaxed`].
    fn matrix(&self, slots: &[f32]) -> Option<[[f32; 4]; 3]> {
        let _ = slots;
        None
    }

    /// The meaning: one pixel in, one pixel out. Of a u8 image, values are whole under
    /// [`NumberRule::Exact`]: see [`settle`](crate::settle).
    fn eval(&self, cx: &Eval<'_>, pixel: [f32; 3]) -> [f32; 3];

    /// The same for four pixels at a time, recorded as instructions. It is called once, when a list
    /// is planned, and kernels are shared by what it recorded: what differs from sample to sample
    /// belongs into slots.
    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels;
}

/// The value each level becomes, for each channel.
pub type Table = [[f32; 256]; 3];

/// How often each level occurs in each channel of a picture.
pub type Histogram = [[u32; 256]; 3];

/// An op that looks values up: each channel's value, rounded half to even to a level, becomes what
/// the channel's table has for it.
pub trait TableOp: fmt::Debug + Send + Sync {
    /// How many numbers a sample needs.
    fn slots(&self) -> usize {
        0
    }

    /// What the numbers are called where draws are shown to people, in order: only those with a
    /// name are shown, unless none has. An empty name is one whose number the op's name explains.
    fn slot_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Draws these numbers. Gives whether the op runs for this sample: `false` only if
    /// [`may_skip`](Self::may_skip).
    fn draw(&self, rng: &mut Rng, slots: &mut [f32]) -> bool {
        let _ = (rng, slots);
        true
    }

    /// Whether a draw may say that the op does not run.
    fn may_skip(&self) -> bool {
        false
    }

    /// Whether the table depends on the picture, so that its levels must be counted first.
    fn needs_histogram(&self) -> bool {
        false
    }

    /// The meaning: the table. `histogram` is all zeros unless asked for. Values lie in
    /// `0.0..=255.0`, and are whole under [`NumberRule::Exact`].
    fn table(&self, rule: NumberRule, slots: &[f32], histogram: &Histogram, out: &mut Table);
}

/// An op made of others, some of which run for a sample.
pub trait ChoiceOp: fmt::Debug + Send + Sync {
    /// How many outcomes a draw has: `1..=128`.
    fn outcomes(&self) -> usize;

    /// What may run, in order.
    fn members(&self) -> &[Member];

    /// Draws an outcome.
    fn draw(&self, rng: &mut Rng) -> usize;
}

/// Ops of a choice that run together.
#[derive(Clone, Debug)]
pub struct Member {
    /// The ops, in order.
    pub ops: Ops,
    /// Bit `k` is set if they run for outcome `k`.
    pub when: u128,
}

/// An op that overwrites a rectangle with one colour.
pub trait RegionOp: fmt::Debug + Send + Sync {
    /// Draws the rectangle, inside `size` or empty.
    fn draw(&self, rng: &mut Rng, size: Size) -> Window;

    /// Whether a sample whose rectangle is empty runs a loop body without the op. For ops that
    /// leave many samples as they are.
    fn may_skip(&self) -> bool {
        false
    }

    /// The colour, in the units of the values it is painted over.
    fn fill(&self) -> [f32; 3];
}

/// An op in plain Rust on the whole picture of some samples. It ends a block: what is before it is
/// stored as u8 (rounded half to even), channels last, and what is after reads that; so for all
/// samples, changed or not.
pub trait HostOp: fmt::Debug + Send + Sync {
    /// Whether it changes `sample`.
    fn applies_to(&self, sample: u64) -> bool {
        let _ = sample;
        true
    }

    /// Changes the picture in place: `[height, width, 3]`.
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]);
}

/// What an op in plain Rust may ask for.
#[derive(Debug)]
pub struct HostSample<'a> {
    /// The sample's place in its dataset.
    pub sample: u64,
    /// The picture's size.
    pub size: Size,
    /// The op's own generator for this sample: the only source of randomness it should have.
    pub rng: &'a mut Rng,
}

/// An op that mixes a picture with what chains of other ops make of it. It ends a block, as a
/// [`HostOp`] does:
///
/// ```text
/// out = keep * in + sum of weight_k * chain_k(in)         each term rounded to f32, then the sum
/// ```
///
/// truncated to a level under [`NumberRule::Exact`], as torchvision's `AugMix` does, else rounded
/// half to even.
pub trait MixOp: fmt::Debug + Send + Sync {
    /// One step of a chain: a list that leaves the picture's type as it is.
    fn step(&self) -> &Ops;

    /// Draws the weights, and how many steps each chain has.
    fn draw(&self, rng: &mut Rng) -> Mixture;
}

/// How a picture is mixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// The weight of the picture itself.
    pub keep: f32,
    /// For each chain its weight and the number of its steps.
    pub chains: Vec<(f32, u32)>,
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

    /// Whether the op moves no number and changes none, so that arrays may have it too.
    fn keeps_elements(&self) -> bool {
        false
    }

    /// The meaning: one element of a one-hot vector of `classes`.
    fn element(&self, value: f32, classes: usize) -> f32 {
        let _ = classes;
        value
    }
}

/// An op that mixes the samples of a finished batch, in place. Only others of its kind may follow.
pub trait BatchOp: fmt::Debug + Send + Sync {
    /// Draws what is done to each of `rows` samples, whose images are of `size`: the same for
    /// every output of the batch that lists an equal op. Partners are a permutation of the rows.
    fn draw(&self, rng: &mut Rng, rows: usize, size: Size) -> Vec<Mixed>;

    /// Whether a row's share depends on the size of its image.
    fn needs_size(&self) -> bool {
        false
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
