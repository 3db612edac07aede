//! The op traits: an op has a name, an output type, and a class that decides how it is compiled.
//!
//! | class    | examples                          | drawn for a sample      | in the compiled loop              |
//! |----------|-----------------------------------|-------------------------|-----------------------------------|
//! | geometry | crop, resize, flip, translate     | [`GeometryStep`]s       | the addresses pixels are read from |
//! | pixel    | brightness, saturation, normalize | parameters              | arithmetic on vectors of pixels   |
//! | shuffled | colour jitter                     | an order and parameters | one loop body for each order      |
//! | table    | equalize, gamma, a user's table   | parameters              | a look-up for each value          |
//! | region   | cutout                            | a rectangle             | a mask                            |
//! | choice   | random apply, policies            | which ops run           | a loop body for each outcome      |
//! | cast     | convert                           |                         | the final store                   |
//! | view     | view                              |                         | nothing: only the type changes    |
//! | layout   | channels first                    |                         | the final store                   |
//! | device   | to device                         |                         | none: later ops may run there     |
//! | host     | poison                            |                         | none: it ends the loop            |
//! | mix      | AugMix                            | weights and chains      | separate loops, then sums         |
//! | label    | one-hot                           |                         | precompiled loops over samples    |
//! | batch    | mixup                             | shares, once a batch    | none: mixes finished batches      |
//! | images   | mosaic, copy-paste                | parts, once a batch     | none: mixes finished batches      |
//! | batch    | `Lambda::batch`                   |                         | none: changes finished batches    |

use crate::author::{BoxError, Emit, GeometryStep, ImageMix, Objects, Pixels, Rng, RowMix};
use crate::shape::{Layout, MAX_CHANNELS, Window};
use crate::{DType, Device, Ops, Size, TypeError};
use std::fmt;
use std::sync::Arc;

/// The rounding of values between ops.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// // Between ops, values keep their fractions, unless torchvision's results are asked for.
/// assert_eq!(apply_rule(NumberRule::Fused, 12.75), 12.75);
/// assert_eq!(apply_rule(NumberRule::Exact, 12.75), 12.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum NumberRule {
    /// Clamps values to 0..=255 after each op, but keeps fractions until the final store, which
    /// rounds half to even. This is closer to real arithmetic than any library that stores u8
    /// between ops.
    #[default]
    Fused,
    /// Truncates values to whole numbers after each op, as `torchvision.transforms.v2` does on u8
    /// tensors: the same values, op for op.
    Exact,
    /// Like `Fused`, but consecutive colour ops that are matrices (brightness, saturation, channel
    /// order, a user's matrix) are multiplied into one matrix and clamped once at its end. The
    /// result differs from `Fused` where an intermediate value would have left 0..=255.
    Relaxed,
}

/// The range of an image side that is known before any sample is read.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let side = Dim { min: 32, max: 512 };
/// assert_ne!(side, Dim::fixed(32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim {
    /// The smallest number of pixels.
    pub min: u32,
    /// The largest number of pixels.
    pub max: u32,
}

impl Dim {
    /// A side that is the same for all samples.
    #[must_use]
    pub const fn fixed(side: u32) -> Self {
        Self { min: side, max: side }
    }

    /// Returns the side, if it is the same for all samples.
    #[must_use]
    pub(crate) const fn get(self) -> Option<u32> {
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

/// An image between two ops: `[height, width, channels]` or `[channels, height, width]`.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let photo = ImageType::decoded(Dim { min: 1, max: 4096 }, Dim { min: 1, max: 4096 });
/// assert_eq!((photo.channels, photo.size()), (3, None));
/// let depth = ImageType::array(Size::new(480, 640), 1, DType::U16);
/// assert_eq!((depth.is_levels, depth.size()), (false, Some(Size::new(480, 640))));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageType {
    /// Rows.
    pub height: Dim,
    /// Columns.
    pub width: Dim,
    /// Channels: 1 (gray, or the class numbers of a mask), 2 (gray and alpha), 3 (red, green and blue),
    /// 4 (and alpha), or more (bands).
    pub channels: u16,
    /// Type of an element.
    pub dtype: DType,
    /// The axes and their order.
    pub layout: Layout,
    /// True if the values are levels of light: 0 is black and 255 is white. Stored bytes are, and stay so when
    /// they are converted to another type; the values of other arrays, and normalized values, are not. Ops that
    /// change brightness or colour take levels only.
    pub is_levels: bool,
}

impl ImageType {
    /// A decoded image: RGB, u8, channels last.
    #[must_use]
    pub const fn decoded(height: Dim, width: Dim) -> Self {
        Self {
            height,
            width,
            channels: 3,
            dtype: DType::U8,
            layout: Layout::ChannelsLast,
            is_levels: true,
        }
    }

    /// An array of numbers, `[height, width, channels]`: an image whose values are levels only if they are
    /// bytes.
    #[must_use]
    pub fn array(size: Size, channels: u16, dtype: DType) -> Self {
        let image = Self::from(size).with_channels(channels);
        Self { dtype, is_levels: dtype == DType::U8, ..image }
    }

    /// Returns this type with another number of channels. An image without an axis for its one channel gets one, as
    /// its last.
    #[must_use]
    pub const fn with_channels(self, channels: u16) -> Self {
        let layout = match self.layout {
            Layout::Plane if channels != 1 => Layout::ChannelsLast,
            layout => layout,
        };
        Self { channels, layout, ..self }
    }

    /// Returns this type with another size.
    #[must_use]
    pub const fn with_size(self, size: Size) -> Self {
        Self { height: Dim::fixed(size.height), width: Dim::fixed(size.width), ..self }
    }

    /// Returns the size, if it is the same for all samples.
    #[must_use]
    pub fn size(&self) -> Option<Size> {
        Some(Size { height: self.height.get()?, width: self.width.get()? })
    }
}

/// RGB images of one size.
impl From<Size> for ImageType {
    fn from(size: Size) -> Self {
        Self::decoded(Dim::fixed(size.height), Dim::fixed(size.width))
    }
}

/// The type of a value between two ops.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let label = Type::Tensor { dtype: DType::I64, shape: vec![] };
/// let one_hot = OneHot::new(10)?.output(&label)?;
/// assert_eq!(one_hot, Type::Tensor { dtype: DType::F32, shape: vec![10] });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// An image.
    Image(ImageType),
    /// Numbers of a fixed shape: labels, arrays.
    Tensor {
        /// Type of an element.
        dtype: DType,
        /// Elements along each axis, without the batch axis.
        shape: Vec<usize>,
    },
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(i) if i.layout == Layout::ChannelsFirst => {
                write!(f, "a {} image [{}, {}, {}]", i.dtype, i.channels, i.height, i.width)
            }
            Self::Image(i) if i.layout == Layout::Plane => {
                write!(f, "a {} image [{}, {}]", i.dtype, i.height, i.width)
            }
            Self::Image(i) => {
                write!(f, "a {} image [{}, {}, {}]", i.dtype, i.height, i.width, i.channels)
            }
            Self::Tensor { dtype, shape } if shape.is_empty() => {
                write!(f, "one {dtype} per sample")
            }
            Self::Tensor { dtype, shape } => write!(f, "a {dtype} tensor {shape:?}"),
        }
    }
}

/// One augmentation or conversion, as a user lists it. An op is immutable; its parameters were
/// checked when it was built.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let flip = RandomHorizontalFlip::new(0.5)?;
/// let image = Type::Image(ImageType::decoded(Dim::fixed(8), Dim::fixed(8)));
/// assert_eq!((flip.name(), flip.output(&image).unwrap()), ("RandomHorizontalFlip", image));
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub trait Op: fmt::Debug + Send + Sync {
    /// Returns the name that users write.
    fn name(&self) -> &'static str;

    /// Returns the output type for an input type.
    ///
    /// # Errors
    ///
    /// If the op does not accept this input: the message says which input it accepts.
    fn output(&self, input: &Type) -> Result<Type, TypeError>;

    /// Returns the op's class, which decides how it is drawn and compiled.
    fn class(&self) -> OpClass<'_>;

    /// Returns true if the op leaves every input of this type unchanged, whatever is drawn (`p` of
    /// 0, a factor that is always 1). The planner removes such an op.
    fn does_nothing(&self, input: &Type) -> bool {
        let _ = input;
        false
    }

    /// Returns true if the op replaces the image's own values by normalized ones, as [`Normalize`](crate::Normalize)
    /// does. A list where one such op gets what another one has normalized is refused, unless an op between them
    /// returns levels again.
    fn normalizes_values(&self) -> bool {
        false
    }

    /// Returns the op that replaces this one for inputs of this type, if the computation depends on
    /// the type: noise is in levels on u8, and in the image's own units on floats. The replacement
    /// must have the same name, the same output type and the same order of draws.
    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let _ = input;
        None
    }
}

/// The class of an op, which decides how it is drawn and compiled.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// assert!(matches!(RandomHorizontalFlip::new(0.5)?.class(), OpClass::Geometry(_)));
/// assert!(matches!(Normalize::imagenet().class(), OpClass::Pixel(_)));
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum OpClass<'a> {
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
    /// Runs some of its branches, drawn for each sample.
    Choice(&'a dyn ChoiceOp),
    /// Changes the images of some samples in plain Rust, between two loops.
    Host(&'a dyn HostOp),
    /// Mixes an image with copies of it that a list of ops has changed.
    Mix(&'a dyn MixOp),
    /// Changes the type of the elements.
    Cast(DType),
    /// Reads the stored elements as another type of the same number of bytes.
    View(DType),
    /// Changes the axes: channels last, channels first, or no axis for the one channel.
    Layout(Layout),
    /// Makes the ops after it run on a device, if the loader has one.
    Device(Device),
    /// Works on a label.
    Label(&'a dyn LabelOp),
    /// Mixes the samples of a finished batch.
    Batch(&'a dyn BatchOp),
    /// Makes an image, with its objects, of several images of a finished batch.
    MultiImage(&'a dyn MultiImageOp),
    /// Changes a finished batch in plain Rust.
    HostBatch(&'a dyn HostBatchOp),
    /// Changes or removes the objects of an image, such as bounding boxes, and no pixel.
    Objects(&'a dyn ObjectOp),
}

/// An op that moves pixels: crops, resizes, flips, warps, blurs.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Mirrors half of the images.
/// #[derive(Clone, Copy, Debug)]
/// struct Mirror;
///
/// impl GeometryOp for Mirror {
///     fn draw(&self, rng: &mut Rng, _size: Size, out: &mut Vec<GeometryStep>) {
///         if rng.coin(0.5) {
///             out.push(GeometryStep::FlipHorizontal);
///         }
///     }
/// }
/// ```
pub trait GeometryOp: fmt::Debug + Send + Sync {
    /// Draws the steps for a sample of `size` and appends them to `out`, in order.
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>);

    /// Returns how the op produces its output rows, if it reads a whole u8 image to do so; `None`
    /// if it only changes the addresses that pixels are read from.
    fn row_producer(&self) -> Option<RowProducer> {
        None
    }

    /// Returns true if the op may compute a pixel from several others, so that a mask would get values that
    /// stand for no class. By default it may if it produces its own rows.
    fn blends(&self) -> bool {
        self.row_producer().is_some()
    }

    /// Returns the colour that fills areas outside the image, given the input type; `None` if no
    /// such area can appear, or if the op produces its own rows. For an image that is not RGB, its three
    /// numbers must be equal.
    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        let _ = input;
        None
    }

    /// Like [`draw`](Self::draw), for an image whose bounding boxes and keypoints follow it. `objects` are where they
    /// are before this op; an op that crops around boxes may remove some, and none is moved here: each step
    /// moves them. By default the same as `draw`.
    fn draw_around(
        &self,
        rng: &mut Rng,
        size: Size,
        objects: &mut Objects,
        out: &mut Vec<GeometryStep>,
    ) {
        let _ = objects;
        self.draw(rng, size, out);
    }

    /// Returns true if the op has no effect without bounding boxes.
    fn needs_boxes(&self) -> bool {
        false
    }

    /// Returns what the op does to the objects of an image. By default they follow the pixels.
    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Follow
    }
}

/// The effect of a geometry op on the bounding boxes, keypoints and masks of an image.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let blur = GaussianBlur::new(5)?;
/// assert_eq!(blur.object_motion(), ObjectMotion::Stay);
/// assert_eq!(RandomHorizontalFlip::new(0.5)?.object_motion(), ObjectMotion::Follow);
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectMotion {
    /// They follow the pixels, step by step.
    Follow,
    /// They stay, because pixels do: a blur.
    Stay,
    /// A pixel has no single place in the output, or none at all: a border that mirrors the image. Masks follow, but
    /// boxes and keypoints can't.
    Copied,
}

/// An op that changes or removes the objects of an image, and no pixel.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Removes boxes of less than 16 pixels.
/// #[derive(Clone, Copy, Debug)]
/// struct WithoutSmall;
///
/// impl ObjectOp for WithoutSmall {
///     fn apply(&self, _size: Size, objects: &mut Objects) {
///         objects.retain(|objects, k| objects.boxes()[k].area() >= 16.0);
///     }
/// }
/// ```
pub trait ObjectOp: fmt::Debug + Send + Sync {
    /// Changes the objects of an image of `size`.
    fn apply(&self, size: Size, objects: &mut Objects);

    /// Returns true if the op has no effect without bounding boxes, and false if it has none without keypoints.
    fn needs_boxes(&self) -> bool {
        true
    }
}

/// The code that produces the rows of an op such as a resize or a warp.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// assert_eq!(Resize::new(Size::new(224, 224))?.row_producer(), Some(RowProducer::Compiled));
/// assert_eq!(GaussianBlur::new(5)?.row_producer(), Some(RowProducer::Called));
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowProducer {
    /// Compiled code, for every sample: the antialiased bilinear resize.
    Compiled,
    /// A row function, called once for each row if the sample's draws need it.
    Called,
}

/// The arguments of [`PixelOp::eval`] besides the pixel.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let op = Normalize::values([10.0], [2.0])?;
/// let OpClass::Pixel(op) = op.class() else { unreachable!() };
/// let mut pixel = [14.0];
/// op.eval(&Eval::new(NumberRule::Fused, &[]), &mut pixel);
/// assert_eq!(pixel, [2.0]);
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Eval<'a> {
    /// The rounding of values between ops.
    pub rule: NumberRule,
    /// The op's parameters, as drawn for the sample.
    pub params: &'a [f32],
    /// The pixel's row and column in the op's input image.
    pub at: [i32; 2],
}

impl<'a> Eval<'a> {
    /// Arguments for an op that does not depend on the pixel's position, which is set to (0, 0).
    #[must_use]
    pub const fn new(rule: NumberRule, params: &'a [f32]) -> Self {
        Self { rule, params, at: [0; 2] }
    }
}

/// A number that is computed from all pixels of the image that an op receives.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// // The contrast changes around the mean of the image.
/// let contrast = RandomContrast::new(0.4)?;
/// let OpClass::Pixel(op) = contrast.class() else { unreachable!() };
/// assert_eq!(op.statistic(), Some(Statistic::GreyMean));
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// The mean of the pixels' [`grey`](crate::author::grey), each truncated to an integer.
    GreyMean,
    /// The root of the mean of all values' squares, which are summed as `f64`: the loudness of a signal.
    RootMeanSquare,
}

/// An op that computes the new values of a pixel from the pixel's old values and, if
/// [`uses_position`](Self::uses_position) returns true, from its position.
///
/// A pixel has as many new values as the type that [`Op::output`] returns has channels. Their number may differ from
/// that of the old values if both are at most 4, and if the op runs for every sample.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Multiplies every value by a number.
/// #[derive(Clone, Copy, Debug)]
/// struct Scale(f32);
///
/// impl Op for Scale {
///     fn name(&self) -> &'static str {
///         "Scale"
///     }
///
///     fn output(&self, input: &Type) -> Result<Type, TypeError> {
///         Ok(input.clone())
///     }
///
///     fn class(&self) -> OpClass<'_> {
///         OpClass::Pixel(self)
///     }
/// }
///
/// impl PixelOp for Scale {
///     fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
///         for v in pixel {
///             *v = apply_rule(cx.rule, *v * self.0);
///         }
///     }
///
///     fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
///         let factor = e.splat(self.0);
///         e.each(pixels, |e, _, v| {
///             let v = e.mul(v, factor);
///             e.apply_rule(v)
///         })
///     }
/// }
///
/// let list = ops![Scale(0.5), Normalize::imagenet()];
/// ```
pub trait PixelOp: fmt::Debug + Send + Sync {
    /// Returns the number of the op's parameters: `f32` numbers that are drawn for each sample.
    fn param_count(&self) -> usize {
        0
    }

    /// Returns the names of the parameters, in order, for displaying draws to people. If any
    /// parameter has a name, only those with names are displayed. An empty name marks a number that
    /// the op's name explains.
    fn param_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Draws the parameters for an image of `size`. Returns whether the op runs for this sample:
    /// `false` only if [`may_skip`](Self::may_skip).
    fn draw(&self, rng: &mut Rng, size: Size, params: &mut [f32]) -> bool {
        let _ = (rng, size, params);
        true
    }

    /// Returns true if a draw may skip the op: such samples run a loop body without it. This is for
    /// expensive ops. Other ops draw numbers that change nothing instead.
    fn may_skip(&self) -> bool {
        false
    }

    /// Returns the statistic of the whole image that the op needs, if any. The compiled code and the oracle
    /// store it in the op's last parameter.
    fn statistic(&self) -> Option<Statistic> {
        None
    }

    /// Returns true if these parameters leave every pixel unchanged, so that the statistic need not be
    /// computed.
    fn is_identity(&self, params: &[f32]) -> bool {
        let _ = params;
        false
    }

    /// Returns `m1, s1, s0, bias` for each channel, or once for all channels, if the op is
    /// `fma(d, s1, fma(d, s0, bias))` with `d = v - m1`. If it is the only op that changes the values, a
    /// row function may compute it while it stores them.
    fn normalizes(&self) -> Option<Vec<[f32; 4]>> {
        None
    }

    /// Returns true if the result depends on the pixel's position: see [`Eval::at`] and
    /// [`Emit::position`].
    fn uses_position(&self) -> bool {
        false
    }

    /// Returns true if the result for a channel depends only on that channel's value and on the
    /// parameters, so that the op may become part of a table of 256 values.
    fn is_per_channel(&self) -> bool {
        false
    }

    /// Returns the rows of a matrix for RGB images, each with its constant last, if the op is
    /// `clamp(matrix * pixel)` except for rounding. Consecutive ops of this form may be merged into
    /// one under [`NumberRule::Relaxed`].
    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        let _ = params;
        None
    }

    /// Sets the parameters of a sample to those of one channel. An image of more than four channels is processed
    /// plane by plane, so that the code of an op has no constants of a channel: it reads them from here.
    fn channel_params(&self, channel: usize, params: &mut [f32]) {
        let _ = (channel, params);
    }

    /// Returns, for each channel of the output, the channel of the input that it is a copy of, if the op does nothing
    /// but copy channels. Such an op may also change the number of channels of images of more than four, and is
    /// allowed on masks.
    fn selected_channels(&self) -> Option<&[u16]> {
        None
    }

    /// The definition of the op: replaces the values of one pixel, one for each channel. If the output has another
    /// number of channels than the input, `pixel` has room for the larger number, and the values are the first ones.
    /// The values of a u8 image are whole numbers under [`NumberRule::Exact`]: see
    /// [`apply_rule`](crate::author::apply_rule).
    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]);

    /// Records the same computation for several pixels at a time, as instructions. It is called once,
    /// when a list is planned, and kernels with equal recordings are shared: everything that
    /// differs from sample to sample must be a parameter. The result has as many channels as the op's output. For
    /// images of more than four channels, it is called with one, and the op must treat all channels alike.
    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels;
}

/// The new value of each level of one channel.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let inverted: LevelTable = std::array::from_fn(|level| 255.0 - level as f32);
/// assert_eq!(inverted[0], 255.0);
/// ```
pub type LevelTable = [f32; 256];

/// The number of times each level occurs in one channel of an image.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let mut histogram: Histogram = [0; 256];
/// [7_u8, 7, 9].iter().for_each(|&level| histogram[usize::from(level)] += 1);
/// assert_eq!(histogram[7], 2);
/// ```
pub type Histogram = [u32; 256];

/// The tables of an image's channels; those of channels that the image does not have are not used.
pub type LevelTables = [LevelTable; MAX_CHANNELS];

/// The histograms of an image's channels; those of channels that the image does not have are zeros.
pub type Histograms = [Histogram; MAX_CHANNELS];

/// An op that looks values up: each value is rounded half to even to a level and replaced by its
/// channel's table entry for that level.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Inverts every level.
/// #[derive(Clone, Copy, Debug)]
/// struct Negative;
///
/// impl TableOp for Negative {
///     fn table(&self, _: NumberRule, _: &[f32], _: &[Histogram], out: &mut [LevelTable]) {
///         out.fill(std::array::from_fn(|level| 255.0 - level as f32));
///     }
/// }
///
/// let mut out = [[0.0; 256]; 3];
/// Negative.table(NumberRule::Exact, &[], &[[0; 256]; 3], &mut out);
/// assert_eq!(out[2][255], 0.0);
/// ```
pub trait TableOp: fmt::Debug + Send + Sync {
    /// Returns the number of the op's parameters: `f32` numbers that are drawn for each sample.
    fn param_count(&self) -> usize {
        0
    }

    /// Returns the names of the parameters, in order, for displaying draws to people. If any
    /// parameter has a name, only those with names are displayed. An empty name marks a number that
    /// the op's name explains.
    fn param_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// Draws the parameters. Returns whether the op runs for this sample: `false` only if
    /// [`may_skip`](Self::may_skip).
    fn draw(&self, rng: &mut Rng, params: &mut [f32]) -> bool {
        let _ = (rng, params);
        true
    }

    /// Returns true if a draw may skip the op.
    fn may_skip(&self) -> bool {
        false
    }

    /// Returns true if the table depends on the image, so that its levels must be counted first.
    fn needs_histogram(&self) -> bool {
        false
    }

    /// The definition of the op: writes the table of each channel to `out`, which has as many entries as
    /// `histograms`. These are all zeros unless [`needs_histogram`](Self::needs_histogram). Table values
    /// must be in `0.0..=255.0`, and whole under [`NumberRule::Exact`].
    fn table(
        &self,
        rule: NumberRule,
        params: &[f32],
        histograms: &[Histogram],
        out: &mut [LevelTable],
    );
}

/// An op made of other ops, some of which run for a sample.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Inverts half of the images.
/// #[derive(Debug)]
/// struct HalfInverted([ChoiceBranch; 1]);
///
/// impl ChoiceOp for HalfInverted {
///     fn outcomes(&self) -> usize {
///         2
///     }
///
///     fn branches(&self) -> &[ChoiceBranch] {
///         &self.0
///     }
///
///     fn draw(&self, rng: &mut Rng) -> usize {
///         rng.below(2) as usize
///     }
/// }
///
/// let invert = ChoiceBranch { ops: ops![RandomInvert::new(1.0)?], when: 1 << 0 };
/// let op = HalfInverted([invert]);
/// # let _ = op;
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub trait ChoiceOp: fmt::Debug + Send + Sync {
    /// Returns the number of outcomes of a draw: `1..=128`.
    fn outcomes(&self) -> usize;

    /// Returns all branches, in the order in which they run.
    fn branches(&self) -> &[ChoiceBranch];

    /// Draws an outcome.
    fn draw(&self, rng: &mut Rng) -> usize;
}

/// Ops of a choice that run together.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// // Runs for the outcomes 0 and 2 of a draw.
/// let branch = ChoiceBranch { ops: ops![RandomGrayscale::new(1.0)?], when: 1 << 0 | 1 << 2 };
/// # let _ = branch;
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChoiceBranch {
    /// The ops, in order.
    pub ops: Ops,
    /// A mask: bit `k` is set if the ops run for outcome `k`.
    pub when: u128,
}

/// An op that overwrites a rectangle with one colour.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Blackens the top row.
/// #[derive(Clone, Copy, Debug)]
/// struct TopRow;
///
/// impl RegionOp for TopRow {
///     fn draw(&self, _rng: &mut Rng, size: Size) -> Window {
///         Window { top: 0, left: 0, height: 1, width: size.width }
///     }
///
///     fn fill(&self) -> [f32; 3] {
///         [0.0; 3]
///     }
/// }
/// ```
pub trait RegionOp: fmt::Debug + Send + Sync {
    /// Draws the rectangle, which must be inside `size` or empty.
    fn draw(&self, rng: &mut Rng, size: Size) -> Window;

    /// Returns true if samples with an empty rectangle run a loop body without the op. This is for
    /// ops that leave many samples unchanged.
    fn may_skip(&self) -> bool {
        false
    }

    /// Returns the colour, in the units of the values that it overwrites. For an image that is not RGB, its
    /// three numbers must be equal.
    fn fill(&self) -> [f32; 3];
}

/// An op in plain Rust on the whole image of some samples. It ends a block: the image before the op
/// is stored as u8 (rounded half to even), channels last, and the next block reads that buffer.
/// This applies to all samples, changed or not.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Reverses the bytes of each image.
/// #[derive(Clone, Copy, Debug)]
/// struct Reverse;
///
/// impl HostOp for Reverse {
///     fn apply(&self, _host: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError> {
///         pixels.reverse();
///         Ok(())
///     }
/// }
/// ```
pub trait HostOp: fmt::Debug + Send + Sync {
    /// Returns whether the op changes `sample`.
    fn applies_to(&self, sample: u64) -> bool {
        let _ = sample;
        true
    }

    /// Changes the image in place: `[height, width, channels]`.
    ///
    /// # Errors
    ///
    /// An error ends the epoch, whatever becomes of damaged samples.
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError>;

    /// Returns the size of the op's images, if they are of one size of their own, which
    /// [`output`](Op::output) must return, too. [`apply_sized`](Self::apply_sized) then takes the place
    /// of `apply`, for every sample.
    fn output_size(&self) -> Option<Size> {
        None
    }

    /// Writes the new image, `[height, width, channels]` of [`output_size`](Self::output_size), to `out`, which
    /// is black. `host` has the size of the old one.
    ///
    /// # Errors
    ///
    /// See [`apply`](Self::apply).
    fn apply_sized(
        &self,
        host: HostSample<'_>,
        pixels: &[u8],
        out: &mut [u8],
    ) -> Result<(), BoxError> {
        let _ = (host, pixels, out);
        Ok(())
    }
}

/// The arguments of [`HostOp::apply`] besides the pixels.
///
/// ```
/// # use fuseloop_ops::*;
/// let noise = Lambda::new("noise", |host: HostSample<'_>, pixels: &mut [u8]| {
///     for level in pixels {
///         *level = level.saturating_add(host.rng.below(8) as u8);
///     }
/// });
/// # let _ = noise;
/// ```
#[derive(Debug)]
pub struct HostSample<'a> {
    /// The sample's index in its dataset.
    pub sample: u64,
    /// The epoch, from 0.
    pub epoch: u32,
    /// The image's size.
    pub size: Size,
    /// The image's channels: 3 for RGB.
    pub channels: usize,
    /// The op's own generator for this sample: the only source of randomness it should have.
    pub rng: &'a mut Rng,
}

/// An op that mixes an image with the results of chains of other ops on it. It ends a block, like a
/// [`HostOp`]:
///
/// ```text
/// out = keep * in + sum of weight_k * chain_k(in)         each term rounded to f32, then the sum
/// ```
///
/// The result is truncated to a level under [`NumberRule::Exact`], as in torchvision's `AugMix`,
/// and rounded half to even otherwise.
pub trait MixOp: fmt::Debug + Send + Sync {
    /// Returns the ops of one chain step: a list that does not change the image's type.
    fn step(&self) -> &Ops;

    /// Draws the weights and the number of steps of each chain.
    fn draw(&self, rng: &mut Rng) -> Mixture;
}

/// How an image is mixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// The weight of the image itself.
    pub keep: f32,
    /// The weight and the number of steps of each chain.
    pub chains: Vec<(f32, u32)>,
}

/// An op on a label, which is an i64, a float or a vector of f32: in each case another method is called.
/// An error that a method returns ends the epoch, whatever becomes of damaged samples.
///
/// ```
/// # use fuseloop_ops::LabelSample;
/// # use fuseloop_ops::author::*;
/// /// Numbers classes from 0 that a dataset numbers from 1.
/// #[derive(Clone, Copy, Debug)]
/// struct FromZero;
///
/// impl LabelOp for FromZero {
///     fn eval(&self, _cx: LabelSample<'_>, label: i64) -> Result<i64, BoxError> {
///         label.checked_sub(1).ok_or_else(|| "a label is too small".into())
///     }
/// }
/// ```
pub trait LabelOp: fmt::Debug + Send + Sync {
    /// The definition of the op on an i64: returns the new label.
    ///
    /// # Errors
    ///
    /// If the op has no label for this sample.
    fn eval(&self, cx: LabelSample<'_>, label: i64) -> Result<i64, BoxError> {
        let _ = cx;
        Ok(label)
    }

    /// The definition of the op on an f32 or f64: returns the new value, which is rounded to the type of
    /// the old one.
    ///
    /// # Errors
    ///
    /// If the op has no value for this sample.
    fn eval_float(&self, cx: LabelSample<'_>, value: f64) -> Result<f64, BoxError> {
        let _ = cx;
        Ok(value)
    }

    /// Returns the number of classes, if the op turns the label into a one-hot vector.
    fn classes(&self) -> Option<u32> {
        None
    }

    /// Returns true if the op neither moves nor changes any element, so that it also works on
    /// arrays.
    fn keeps_elements(&self) -> bool {
        false
    }

    /// The definition of the op on one element of a one-hot vector of `classes` elements: returns
    /// its new value.
    fn element(&self, value: f32, classes: usize) -> f32 {
        let _ = classes;
        value
    }

    /// Returns true if the op changes vectors as a whole, by [`eval_vector`](Self::eval_vector). It then
    /// works on arrays of f32, too, and vectors are computed on the host.
    fn takes_vector(&self) -> bool {
        false
    }

    /// The definition of the op on a vector: changes it in place.
    ///
    /// # Errors
    ///
    /// If the op has no vector for this sample.
    fn eval_vector(&self, cx: LabelSample<'_>, vector: &mut [f32]) -> Result<(), BoxError> {
        let _ = (cx, vector);
        Ok(())
    }
}

/// The arguments of a [`LabelOp`] besides the label.
///
/// ```
/// # use fuseloop_ops::*;
/// // One label in a hundred is wrong.
/// let wrong = Lambda::label("wrong", |cx: LabelSample<'_>, label: i64| {
///     if cx.rng.coin(0.01) { i64::from(cx.rng.below(10)) } else { label }
/// });
/// # let _ = wrong;
/// ```
#[derive(Debug)]
pub struct LabelSample<'a> {
    /// The sample's index in its dataset.
    pub sample: u64,
    /// The epoch, from 0.
    pub epoch: u32,
    /// The op's own generator for this sample: the only source of randomness it should have.
    pub rng: &'a mut Rng,
}

/// An op that mixes the samples of a finished batch, in place. Only ops on batches may follow it.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Mixes each sample with the next one, half and half.
/// #[derive(Clone, Copy, Debug)]
/// struct Halves;
///
/// impl BatchOp for Halves {
///     fn draw(&self, _rng: &mut Rng, rows: usize, _size: Size) -> Vec<RowMix> {
///         let next = |row| RowMix { partner: (row + 1) % rows, share: 0.5, window: None };
///         (0..rows).map(next).collect()
///     }
/// }
/// ```
pub trait BatchOp: fmt::Debug + Send + Sync {
    /// Draws how each of `rows` samples, with images of `size`, is mixed. All outputs of the batch
    /// that list an equal op get the same draws. Partners are a permutation of the rows.
    fn draw(&self, rng: &mut Rng, rows: usize, size: Size) -> Vec<RowMix>;

    /// Returns true if a row's share depends on the size of its image.
    fn needs_size(&self) -> bool {
        false
    }

    /// Returns true if a mixed image shows the objects of both images. The op is then allowed for images with bounding
    /// boxes and other targets: a mixed row gets the objects of its partner after its own.
    fn joins_objects(&self) -> bool {
        false
    }
}

/// An op that makes an image, with its objects, of several images of a finished batch. Only ops on batches may follow
/// it. The images have targets, and one size.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Puts each image beside and above the three that follow it in the batch.
/// #[derive(Clone, Copy, Debug)]
/// struct InFours;
///
/// impl MultiImageOp for InFours {
///     fn draw(&self, _rng: &mut Rng, objects: &[usize], size: Size) -> Vec<ImageMix> {
///         let center = [size.height / 2, size.width / 2];
///         let row = |row| [0, 1, 2, 3].map(|k| (row + k) % objects.len());
///         (0..objects.len()).map(|k| ImageMix::Mosaic { rows: row(k), center }).collect()
///     }
///
///     fn growth(&self) -> usize {
///         4
///     }
/// }
/// ```
pub trait MultiImageOp: fmt::Debug + Send + Sync {
    /// Draws how each row is made. `objects` has the number of objects of each row, and `size` is that of the images.
    fn draw(&self, rng: &mut Rng, objects: &[usize], size: Size) -> Vec<ImageMix>;

    /// Returns how many times as many objects an image may have after the op: 2 if it gets those of another one.
    fn growth(&self) -> usize;

    /// Returns true if the op needs the masks of the objects.
    fn needs_instance_masks(&self) -> bool {
        false
    }
}

/// An op in plain Rust on all rows of a finished batch, in place. Only ops on batches may follow it. It must
/// keep the [type](Op::output) of the rows, and it can't run on a device.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Sets the bytes of a batch to those of its first row.
/// #[derive(Clone, Copy, Debug)]
/// struct FirstRow;
///
/// impl HostBatchOp for FirstRow {
///     fn apply(&self, host: HostRows<'_>, rows: &mut [u8]) -> Result<(), BoxError> {
///         let row = rows.len() / host.samples.len().max(1);
///         (1..host.samples.len()).for_each(|k| rows.copy_within(..row, k * row));
///         Ok(())
///     }
/// }
/// ```
pub trait HostBatchOp: fmt::Debug + Send + Sync {
    /// Changes the rows, one after the other in `rows`.
    ///
    /// # Errors
    ///
    /// An error ends the epoch.
    fn apply(&self, host: HostRows<'_>, rows: &mut [u8]) -> Result<(), BoxError>;
}

/// The arguments of [`HostBatchOp::apply`] besides the rows.
///
/// ```
/// # use fuseloop_ops::*;
/// let darker = Lambda::batch("darker", |host: HostRows<'_>, rows: &mut [u8]| {
///     assert_eq!((host.dtype, rows.len() % host.samples.len()), (DType::U8, 0));
///     rows.iter_mut().for_each(|level| *level /= 2);
/// });
/// # let _ = darker;
/// ```
#[derive(Debug)]
pub struct HostRows<'a> {
    /// For each row, the sample's index in its dataset.
    pub samples: &'a [u64],
    /// The epoch, from 0.
    pub epoch: u32,
    /// The type of an element.
    pub dtype: DType,
    /// The number of elements along each axis of a row.
    pub shape: &'a [usize],
    /// The op's own generator for this batch: the only source of randomness it should have.
    pub rng: &'a mut Rng,
}

/// Returns what an op makes of a pixel.
#[cfg(test)]
pub(crate) fn evaluated<const C: usize>(
    op: &dyn PixelOp,
    cx: &Eval<'_>,
    mut pixel: [f32; C],
) -> [f32; C] {
    op.eval(cx, &mut pixel);
    pixel
}

/// Returns the type of an image of levels, which is a u8 image or another one of 0..=255, and an error for any
/// other input.
pub(crate) fn on_levels(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) if image.is_levels && is_loaded(image.dtype) => Ok(input.clone()),
        found => Err(TypeError {
            op,
            expected: "an image of levels, where 0 is black and 255 is white (put it before Normalize and \
                Convert; for other values, put Levels::of(black, white) before it)",
            found: found.to_string(),
        }),
    }
}

/// Returns whether compiled loops read elements of this type: those whose values are all `f32`.
#[must_use]
pub const fn is_loaded(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::I16 | DType::F16 | DType::Bf16 | DType::F32)
}

/// Returns the type of an image that compiled loops compute with after `change`, and an error for any other
/// input.
pub(crate) fn on_numbers(
    op: &'static str,
    input: &Type,
    change: impl FnOnce(ImageType) -> ImageType,
) -> Result<Type, TypeError> {
    match input {
        Type::Image(image) if is_loaded(image.dtype) => Ok(Type::Image(change(*image))),
        found => Err(TypeError {
            op,
            expected: "an image of u8, u16, i16, f16, bf16 or f32 (put it before Convert)",
            found: found.to_string(),
        }),
    }
}

/// Returns the type of a u8 image after `change`, and an error for any other input.
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

/// Refuses an image that is not RGB, if an op fills with a colour whose three numbers differ.
pub(crate) fn check_fill(
    op: &'static str,
    input: &Type,
    fill: Option<[u8; 3]>,
) -> Result<(), TypeError> {
    match (input, fill) {
        (Type::Image(image), Some([r, g, b])) if image.channels != 3 && (r != g || g != b) => {
            let expected = "an image of 3 channels, or one number as its fill";
            Err(TypeError { op, expected, found: input.to_string() })
        }
        _ => Ok(()),
    }
}

/// Returns the type of an image of levels whose colours an op changes, and an error for any other input. An image of
/// one channel has no colours, and stays as it is.
pub(crate) fn on_colors(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match on_levels(op, input)? {
        Type::Image(ImageType { channels: 1 | 3, .. }) => Ok(input.clone()),
        found => Err(TypeError {
            op,
            expected: "an image of 3 channels, or of 1",
            found: found.to_string(),
        }),
    }
}

/// Returns true for an image without colours: one of one channel.
pub(crate) fn is_gray(input: &Type) -> bool {
    matches!(input, Type::Image(ImageType { channels: 1, .. }))
}

/// Returns the type of an RGB image of levels, and an error for any other input.
pub(crate) fn on_rgb(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match on_levels(op, input)? {
        Type::Image(ImageType { channels: 3, .. }) => Ok(input.clone()),
        found => {
            Err(TypeError { op, expected: "an image of 3 channels", found: found.to_string() })
        }
    }
}

/// Returns whether the values of an image are those of an integer type, so that results may have to be rounded.
pub(crate) fn is_whole(input: &Type) -> bool {
    matches!(input, Type::Image(image) if image.dtype.integer_range().is_some())
}

/// Returns the type of an image of any element type after `change`, and an error for a tensor.
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

/// Returns an error unless the input is one i64 per sample.
pub(crate) fn on_one_label(op: &'static str, input: &Type) -> Result<(), TypeError> {
    match input {
        Type::Tensor { dtype: DType::I64, shape } if shape.iter().product::<usize>() == 1 => Ok(()),
        found => Err(TypeError { op, expected: "one i64 per sample", found: found.to_string() }),
    }
}
