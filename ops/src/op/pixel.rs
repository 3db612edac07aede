//! Ops that compute a pixel from a pixel.

use crate::Size;
use crate::author::{Emit, Pixels, Rng};
use std::fmt;

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
/// A pixel has as many new values as the type that [`Op::output`](super::Op::output) returns has channels. Their number may differ from
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
    /// the op's name explains, and the name `-` one that is not displayed, such as a seed.
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
    /// computed. Descriptions of draws ask it of ops that use a statistic or the position.
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
