//! Normalize: subtracts the channel's mean from every value and divides by the channel's standard deviation.

use crate::author::Rng;
use crate::author::{Emit, Eval, F32x4, ImageType, OpClass, PixelOp, Pixels, Type};
use crate::default_floats::DefaultFloats;
use crate::op::{Op, class, on_numbers};
use crate::registry::{BuiltOp, OpArgs, SpecError};
use crate::registry::{ParamKind, built};
use crate::shape::MAX_CHANNELS;
use crate::{DType, ParamError, TypeError};
use std::sync::Arc;

/// Subtracts the channel's mean from every value and divides by the channel's standard deviation.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Normalize.md"))]
///
/// ```text
/// out = round_f32((in - mean) / std)       for a u8 value, correctly rounded
/// ```
///
/// Pixels are 0..=255 here, and so are `mean` and `std`; [`new`](Self::new) takes torchvision's constants, of
/// pixels in 0..=1, and multiplies them by 255. For arrays whose values are no levels of light, such as depths
/// or spectrograms, [`values`](Self::values) takes constants in the units of the values.
///
/// | | |
/// |--------|----------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32 that no other `Normalize` has changed; of levels, except for [`values`](Self::values) |
/// | output | f32                                                            |
/// | random | nothing                                                        |
/// | cost   | one subtraction and two fmas per value                         |
///
/// FFCV's `NormalizeImage` is a table of `((f64) value - mean) / std`. `f32` arithmetic yields the same
/// numbers if the constants are split in two: let `m = m1 + m0` and `1 / std = s1 + s0`, where `m1` is
/// the mean rounded to a multiple of 2^-16, or to fewer bits if a value and the mean are more than 256
/// apart, so that `in - m1` is exact for a u8. Then
///
/// ```text
/// d = in - m1;     out = fma(d, s1, fma(d, s0, -m0 * (s1 + s0)))
/// ```
///
/// Only the rounding of the outer fma matters: the sum that it rounds is within 2^-40 of the exact one.
/// The tests compare all 256 values of a channel with the table. They are equal for the usual
/// constants; for other constants, including negative means, all but a few in a million are equal, and
/// those differ by one unit in the last place. torchvision works on values of 0..=1 and rounds three
/// times, `f32(v / 255)`, minus `f32(mean)`, over `f32(std)`, so its results differ in the last place.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet()];
/// let constants = ops![Normalize::new([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq)]
#[op(VALUES, "subtracts a mean and divides by a standard deviation; gives f32", constructor = new, build = build, draw = random)]
#[param(mean: Vec<f64>, "the mean of each channel, or one for all, of pixels in 0..=1; the example is ImageNet's",
    kind = ParamKind::Channels, example = [0.485, 0.456, 0.406])]
#[param(std: Vec<f64>, "the standard deviations of the same pixels", kind = ParamKind::Channels,
    example = [0.229, 0.224, 0.225])]
#[param(scale: Vec<f64>,
    "the pixels that mean and std are of: unit is 0..=1, levels is 0..=255, values is the array's own range",
    kind = ParamKind::Word(&["unit", "levels", "values"]), default = "unit")]
pub struct Normalize {
    /// The constants of each channel, or one entry for all channels.
    channels: Vec<Channel>,
    units: Units,
}

/// The units of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    /// Levels of light, 0..=255.
    Levels,
    /// The values themselves. `fractions` is true if all means and standard deviations are those of pixels in
    /// 0..=1.
    Values { fractions: bool },
}

/// The constants of one channel, named as in the documentation of the op; `bias` is the constant of the inner
/// fma.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Channel {
    m1: f32,
    s1: f32,
    s0: f32,
    bias: f32,
}

impl Normalize {
    /// Builds the op from the means and standard deviations that torchvision's `Normalize` takes: those of
    /// pixels in 0..=1. The pixels that the op gets are 0..=255 all the same, because it divides them by 255
    /// itself. This is [`unit`](Self::unit).
    ///
    /// There is a mean and a standard deviation for each channel, or one of each for all channels:
    /// `Normalize::new([0.1307], [0.3081])` is that of MNIST's gray images.
    ///
    /// ```
    /// use fuseloop_ops::Normalize;
    ///
    /// let imagenet = Normalize::new([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])?;
    /// assert_eq!(imagenet, Normalize::imagenet());
    /// assert!(Normalize::new([123.675, 116.28, 103.53], [58.395, 57.12, 57.375]).is_err());
    /// # Ok::<(), fuseloop_ops::ParamError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a mean is not in `-1.0..=1.0`, or a standard deviation is not in `1e-6..=1.0`: constants of pixels
    /// in 0..=255 are those of [`levels`](Self::levels). If there is no mean, or not a standard deviation for
    /// each mean.
    pub fn new(mean: impl AsRef<[f64]>, std: impl AsRef<[f64]>) -> Result<Self, ParamError> {
        Self::unit(mean, std)
    }

    /// Builds the op from the means and standard deviations of pixels in 0..=1, as [`new`](Self::new) does.
    ///
    /// # Errors
    ///
    /// See [`new`](Self::new).
    pub fn unit(mean: impl AsRef<[f64]>, std: impl AsRef<[f64]>) -> Result<Self, ParamError> {
        let (mean, std) = pairs(mean.as_ref(), std.as_ref())?;
        check("mean", mean, |mean| (-1.0..=1.0).contains(&mean), UNIT_MEAN)?;
        check("std", std, |std| (1e-6..=1.0).contains(&std), UNIT_STD)?;
        Ok(Self::of_levels(mean.iter().map(|mean| mean * 255.0), std.iter().map(|std| std * 255.0)))
    }

    /// Builds the op from the means and standard deviations that FFCV's `NormalizeImage` takes: those of
    /// pixels in 0..=255.
    ///
    /// # Errors
    ///
    /// If a mean is not in `-1e6..=1e6`, or a standard deviation is not in `1.0..=1e6`, or all means are
    /// fractions between 0 and 1: constants of pixels in 0..=1 are those of [`unit`](Self::unit). If there is
    /// no mean, or not a standard deviation for each mean.
    pub fn levels(mean: impl AsRef<[f64]>, std: impl AsRef<[f64]>) -> Result<Self, ParamError> {
        let (mean, std) = pairs(mean.as_ref(), std.as_ref())?;
        let are_fractions = mean.iter().all(|&mean| mean > 0.0 && mean < 1.0);
        let is_level = |mean| !are_fractions && (-1e6..=1e6).contains(&mean);
        check("mean", mean, is_level, LEVEL_MEAN)?;
        check("std", std, |std| (1.0..=1e6).contains(&std), LEVEL_STD)?;
        Ok(Self::of_levels(mean.iter().copied(), std.iter().copied()))
    }

    /// Builds the op from means and standard deviations in the units of the values, for arrays of any meaning:
    /// Hounsfield units, metres, decibels. The result is within two units in the last place of the exact one,
    /// where the mean is an `f32`; infinities and NaN stay what they are.
    ///
    /// ```
    /// use fuseloop_ops::Normalize;
    ///
    /// let spectrogram = Normalize::values([-4.27], [4.57])?;
    /// # Ok::<(), fuseloop_ops::ParamError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a mean is not in `-1e30..=1e30`, or a standard deviation is not in `1e-30..=1e30`. If there is no mean,
    /// or not a standard deviation for each mean. A list is refused where constants of pixels in 0..=1 get
    /// levels, which are 0..=255.
    pub fn values(mean: impl AsRef<[f64]>, std: impl AsRef<[f64]>) -> Result<Self, ParamError> {
        let (mean, std) = pairs(mean.as_ref(), std.as_ref())?;
        check("mean", mean, |mean| (-1e30..=1e30).contains(&mean), "-1e30..=1e30")?;
        check("std", std, |std| (1e-30..=1e30).contains(&std), "1e-30..=1e30")?;
        let fractions =
            mean.iter().all(|mean| (0.0..1.0).contains(mean)) && std.iter().all(|std| *std < 1.0);
        let channel = |(mean, std): (&f64, &f64)| Channel::single(*mean, *std);
        let channels = DefaultFloats::during(|| mean.iter().zip(std).map(channel).collect());
        Ok(Self { channels, units: Units::Values { fractions } })
    }

    fn of_levels(mean: impl Iterator<Item = f64>, std: impl Iterator<Item = f64>) -> Self {
        let channel = |(mean, std)| Channel::new(mean, std);
        let channels = DefaultFloats::during(|| mean.zip(std).map(channel).collect());
        Self { channels, units: Units::Levels }
    }

    /// Builds the op with the usual constants of ImageNet: means 0.485, 0.456, 0.406 and standard
    /// deviations 0.229, 0.224, 0.225 of pixels in 0..=1.
    #[must_use]
    pub fn imagenet() -> Self {
        let of_255 = |share: [f64; 3]| share.into_iter().map(|s| s * 255.0);
        Self::of_levels(of_255([0.485, 0.456, 0.406]), of_255([0.229, 0.224, 0.225]))
    }

    /// Builds the op with the usual constants of CIFAR-10: means 0.4914, 0.4822, 0.4465 and standard
    /// deviations 0.2023, 0.1994, 0.201 of pixels in 0..=1.
    #[must_use]
    pub fn cifar10() -> Self {
        let (mean, std) = ([125.307, 122.961, 113.8575], [51.5865, 50.847, 51.255]);
        Self::of_levels(mean.into_iter(), std.into_iter())
    }
}

const UNIT_MEAN: &str =
    "-1..=1, of pixels in 0..=1 (for pixels in 0..=255: Normalize::levels, or scale = \"levels\")";
const UNIT_STD: &str = "1e-6..=1, of pixels in 0..=1 \
    (for pixels in 0..=255: Normalize::levels, or scale = \"levels\")";
const LEVEL_MEAN: &str = "that of pixels in 0..=255, at most 1e6 \
    (for pixels in 0..=1: Normalize::unit, or scale = \"unit\")";
const LEVEL_STD: &str =
    "1..=1e6, of pixels in 0..=255 (for pixels in 0..=1: Normalize::unit, or scale = \"unit\")";

/// Returns the means and the standard deviations, if there is one of each for each channel.
fn pairs<'a>(mean: &'a [f64], std: &'a [f64]) -> Result<(&'a [f64], &'a [f64]), ParamError> {
    if mean.is_empty() || mean.len() > usize::from(u16::MAX) {
        return Err(ParamError::new(
            "Normalize",
            "mean",
            format!("{mean:?}"),
            "1 to 65535 numbers",
        ));
    }
    if mean.len() != std.len() {
        let (found, expected) = (format!("{std:?}"), "as many numbers as mean");
        return Err(ParamError::new("Normalize", "std", found, expected));
    }
    Ok((mean, std))
}

/// Returns an error about the first number that is not accepted.
fn check(
    param: &'static str,
    numbers: &[f64],
    is_accepted: impl Fn(f64) -> bool,
    expected: &'static str,
) -> Result<(), ParamError> {
    match numbers.iter().find(|number| !is_accepted(**number)) {
        None => Ok(()),
        Some(found) => Err(ParamError::new("Normalize", param, found, expected)),
    }
}

impl Channel {
    fn new(mean: f64, std: f64) -> Self {
        // `in - m1` is a multiple of 1 / steps, and less than 2^24 of these.
        let reach = mean.abs().max((255.0 - mean).abs()).max(1.0);
        let steps = 2f64.powi(23 - libm::log2(reach).floor() as i32).min(65_536.0);
        Self::split(mean, std, ((mean * steps).round() / steps) as f32)
    }

    /// For values of any range, some of which may be infinite: they are multiplied by `s1` alone.
    pub(crate) fn single(mean: f64, std: f64) -> Self {
        Self { s0: 0.0, ..Self::split(mean, std, mean as f32) }
    }

    fn split(mean: f64, std: f64, m1: f32) -> Self {
        let s1 = (1.0 / std) as f32;
        let s0 = (1.0 / std - f64::from(s1)) as f32;
        let bias = (-(mean - f64::from(m1)) / std) as f32;
        Self { m1, s1, s0, bias }
    }
}

impl Channel {
    pub(crate) fn eval(self, v: f32) -> f32 {
        let d = v - self.m1;
        let low = if self.s0 == 0.0 { self.bias } else { d.mul_add(self.s0, self.bias) };
        d.mul_add(self.s1, low)
    }

    pub(crate) fn emit(self, e: &mut Emit, v: F32x4) -> F32x4 {
        let Self { m1, s1, s0, bias } = self;
        let [m1, s1, low, bias] = [m1, s1, s0, bias].map(|constant| e.splat(constant));
        let d = e.sub(v, m1);
        let low = if s0 == 0.0 { bias } else { e.fma(d, low, bias) };
        e.fma(d, s1, low)
    }
}

#[class(Pixel)]
impl Op for Normalize {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Image(image)
                if ![1, usize::from(image.channels)].contains(&self.channels.len()) =>
            {
                Err(TypeError {
                    op: self.name(),
                    expected: "an image with as many channels as mean and std have numbers (one number is for all)",
                    found: input.to_string(),
                })
            }
            Type::Image(image) if !image.is_levels && self.units == Units::Levels => {
                Err(TypeError {
                    op: self.name(),
                    expected: "levels, where 0 is black and 255 is white (for constants in the units of \
                        the values: Normalize::values, or scale = \"values\"; or put \
                        Levels::of(black, white) before it)",
                    found: input.to_string(),
                })
            }
            Type::Image(image)
                if image.is_levels && self.units == (Units::Values { fractions: true }) =>
            {
                Err(TypeError {
                    op: self.name(),
                    expected: "values that its constants fit (for constants of pixels in 0..=1: \
                        Normalize::unit, or scale = \"unit\")",
                    found: format!("levels of 0..=255, {input}"),
                })
            }
            _ => on_numbers(self.name(), input, |image| ImageType {
                dtype: DType::F32,
                is_levels: false,
                ..image
            }),
        }
    }

    fn normalizes_values(&self) -> bool {
        true
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let is_of_bands =
            matches!(input, Type::Image(image) if image.channels > MAX_CHANNELS as u16);
        (is_of_bands && self.channels.len() > 1).then(|| Arc::new(OfBands(self.clone())) as _)
    }
}

/// A `Normalize` with constants for each of more than four channels, which are parameters.
#[derive(Clone, Debug)]
struct OfBands(Normalize);

impl Op for OfBands {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.0.output(input)
    }

    fn normalizes_values(&self) -> bool {
        true
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }
}

impl PixelOp for OfBands {
    fn param_count(&self) -> usize {
        3
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-", "-"]
    }

    fn channel_params(&self, channel: usize, params: &mut [f32]) {
        let Channel { m1, s1, bias, .. } = self.0.channels[channel];
        params.copy_from_slice(&[m1, s1, bias]);
    }

    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        for (v, Channel { m1, s1, bias, .. }) in pixel.iter_mut().zip(&self.0.channels) {
            *v = (*v - m1).mul_add(*s1, *bias);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, _, v| {
            let [m1, s1, bias] = [0, 1, 2].map(|index| e.param(index));
            let d = e.sub(v, m1);
            e.fma(d, s1, bias)
        })
    }
}

impl PixelOp for Normalize {
    fn is_per_channel(&self) -> bool {
        true
    }

    fn normalizes(&self) -> Option<Vec<[f32; 4]>> {
        let numbers = |&Channel { m1, s1, s0, bias }: &Channel| [m1, s1, s0, bias];
        Some(self.channels.iter().map(numbers).collect())
    }

    fn eval(&self, _: &Eval<'_>, pixel: &mut [f32]) {
        for (v, channel) in pixel.iter_mut().zip(self.channels.iter().cycle()) {
            *v = channel.eval(*v);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        e.each(pixels, |e, c, v| self.channels[c % self.channels.len()].emit(e, v))
    }
}

/// Builds the op from constants of one scale.
type FromConstants = fn(Vec<f64>, Vec<f64>) -> Result<Normalize, ParamError>;

const SCALES: [(&str, FromConstants); 3] =
    [("unit", Normalize::unit), ("levels", Normalize::levels), ("values", Normalize::values)];

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let scale = args.choice("scale", &SCALES)?;
    Ok(built(scale(args.floats("mean")?, args.floats("std")?)?))
}

fn random(_: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    Ok(built(Normalize::imagenet()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::rng::SampleKey;

    /// Returns how many of the 768 values differ from the table. Each difference is one unit in the
    /// last place.
    fn misrounded(mean: [f64; 3], std: [f64; 3]) -> usize {
        let op = Normalize::levels(mean, std).unwrap();
        let mut count = 0;
        for v in 0..=255u8 {
            let got = evaluated(&op, &Eval::new(NumberRule::Fused, &[]), [f32::from(v); 3]);
            for c in 0..3 {
                let want = ((f64::from(v) - mean[c]) / std[c]) as f32;
                let off = got[c].to_bits().abs_diff(want.to_bits());
                assert!(off <= 1, "{v} with {mean:?} {std:?}: {} {want}", got[c]);
                count += off as usize;
            }
        }
        count
    }

    #[test]
    fn every_u8_is_correctly_rounded_with_the_usual_constants() {
        let of_255 = |share: [f64; 3]| share.map(|s| s * 255.0);
        let imagenet = (of_255([0.485, 0.456, 0.406]), of_255([0.229, 0.224, 0.225]));
        let cifar10 = ([125.307, 122.961, 113.8575], [51.5865, 50.847, 51.255]);
        for (mean, std) in [imagenet, cifar10, ([127.5; 3], [127.5; 3]), ([0.0; 3], [255.0; 3])] {
            assert_eq!(misrounded(mean, std), 0, "{mean:?} {std:?}");
        }
    }

    #[test]
    fn nearly_every_u8_is_correctly_rounded_with_any_constants() {
        let mut rng = SampleKey::new(5, 0, 0).op(0);
        let mut draw = |low| [0; 3].map(|_| f64::from(rng.uniform(low, 255.0)));
        let count: usize = (0..1000).map(|_| misrounded(draw(0.0), draw(1.0))).sum();
        assert!(count < 10, "{count} of 768,000");
    }

    /// Means outside the range of a u8, as for images that were shifted: `in - mean` has more bits.
    #[test]
    fn nearly_every_u8_is_correctly_rounded_with_means_outside_its_range() {
        let mut rng = SampleKey::new(6, 0, 0).op(0);
        for (low, high) in [(-1.0, 0.0), (-255.0, 0.0), (255.0, 600.0), (-4e3, 4e3), (-1e6, 1e6)] {
            let mut draw = |low, high| [0; 3].map(|_| f64::from(rng.uniform(low, high)));
            let pairs = (0..300).map(|_| misrounded(draw(low, high), draw(1.0, 255.0)));
            let count: usize = pairs.sum();
            assert!(count < 5, "{count} of 230,400 with means in {low}..{high}");
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Normalize::unit([0.5; 3], [0.5, bad, 0.5]).is_err(), "{bad}");
            assert!(Normalize::levels([127.5; 3], [1.0, bad, 1.0]).is_err(), "{bad}");
        }
        assert!(Normalize::unit([f64::NAN, 0.0, 0.0], [1.0; 3]).is_err());
        assert!(Normalize::levels([f64::NAN, 0.0, 0.0], [1.0; 3]).is_err());
    }

    #[test]
    fn constants_of_the_other_scale_are_refused_with_the_constructor_that_takes_them() {
        let (unit, levels) = ([0.485, 0.456, 0.406], [123.675, 116.28, 103.53]);
        let (unit_std, level_std) = ([0.229, 0.224, 0.225], [58.395, 57.12, 57.375]);
        let message = |built: Result<Normalize, ParamError>| built.unwrap_err().to_string();
        let levels_cure = "(for pixels in 0..=255: Normalize::levels, or scale = \"levels\")";
        let unit_cure = "(for pixels in 0..=1: Normalize::unit, or scale = \"unit\")";
        let cures = [
            (
                message(Normalize::new(levels, level_std)),
                format!("mean is 123.675, expected -1..=1, of pixels in 0..=1 {levels_cure}"),
            ),
            (
                message(Normalize::unit([0.0; 3], level_std)),
                format!("std is 58.395, expected 1e-6..=1, of pixels in 0..=1 {levels_cure}"),
            ),
            (
                message(Normalize::levels(unit, unit_std)),
                format!(
                    "mean is 0.485, expected that of pixels in 0..=255, at most 1e6 {unit_cure}"
                ),
            ),
            (
                message(Normalize::levels([0.0; 3], unit_std)),
                format!("std is 0.229, expected 1..=1e6, of pixels in 0..=255 {unit_cure}"),
            ),
        ];
        for (message, want) in cures {
            assert_eq!(message, format!("Normalize: {want}"));
        }
        assert_eq!(Normalize::unit(unit, unit_std).unwrap(), Normalize::imagenet());
        assert_eq!(Normalize::new([0.5; 3], [0.5; 3]), Normalize::levels([127.5; 3], [127.5; 3]));
        assert!(Normalize::unit([0.0; 3], [1.0; 3]).is_ok(), "a division by 255");
        assert!(Normalize::levels([0.0; 3], [1.0; 3]).is_ok(), "floats of the same levels");
    }
}
