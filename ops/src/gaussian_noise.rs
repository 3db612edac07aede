//! Gaussian noise: a normally distributed number added to every value.

use crate::author::{Emit, Eval, F32x4, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, clamp};
use crate::noise::{self, SEEDS};
use crate::op::{Op, class, on_image};
use crate::{Size, TypeError};
use std::sync::Arc;

/// Adds a normally distributed number to every value.
///
#[cfg_attr(doc, doc = include_str!("../pictures/GaussianNoise.md"))]
///
/// ```text
/// on levels         out = clamp(in + z)        z = 255 mean + 255 sigma * n
/// on other values   out = in + z               z = mean + sigma * n
/// ```
///
/// where `n` is normal and independent for each channel of each pixel.
///
/// | | |
/// |--------|----------------------------------------------------------------------------------------|
/// | input  | image of any element type                                                              |
/// | output | as the input                                                                           |
/// | random | two words per sample; `n` is a hash of them and of the pixel's row, column and channel |
/// | cost   | about forty operations per value: a third for the hash, the rest for the normal distribution |
///
/// This is torchvision's `GaussianNoise`, whose `mean` and `sigma` are shares of 255 on u8, and here on all levels. Under the
/// Exact rule `z` is first truncated to an integer, as in torchvision: the same `n` yields the same
/// values. Without `clip`, levels wrap around (256 becomes 0), as in torchvision. On floats
/// torchvision clips to 0..=1; here floats mostly come from Normalize, where clipping would cut off
/// signal and not only noise, so values that are no levels are never clipped.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![GaussianNoise::new().sigma(0.05)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    OVERWRITE,
    "adds normal noise to every value",
    new = "Builds noise with torchvision's defaults: a mean of 0, a standard deviation of 0.1, clipped.",
    golden = "noise from this crate's generator: its distribution is tested"
)]
pub struct GaussianNoise {
    /// Sets the mean: a share of 255 on levels, and in the image's own units on other values.
    #[param("of the noise: a share of 255 on u8, in units of the values on floats", -1e6..=1e6, default = 0.0,
        draw = -0.2..=0.2)]
    mean: f64,
    /// Sets the standard deviation, in the units of the mean.
    #[param("its deviation, in the same units", 0.0..=1e6, default = 0.1, draw = recipe::number(rng, -0.1, 0.6).max(0.0))]
    sigma: f64,
    /// Sets whether u8 values outside 0..=255 are clamped; if not, they wrap around.
    #[param("whether u8 values stay in 0..255, or wrap around", default = true, draw = rng.coin(0.7))]
    clip: bool,
    #[init(Units::Levels)]
    units: Units,
    /// True for arrays with a longer side than images have, where the hash of images would repeat.
    #[init(false)]
    is_long: bool,
}

/// The units of the values that the noise is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    /// Levels of u8.
    Levels,
    /// Numbers of any range.
    Numbers,
}

/// The indices of the drawn parameters after the seeds.
const MEAN: usize = SEEDS;
const SIGMA: usize = SEEDS + 1;

#[class(Pixel)]
impl Op for GaussianNoise {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.mean == 0.0 && self.sigma == 0.0
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let Type::Image(image) = input else { return None };
        let units = if image.is_levels { Units::Levels } else { Units::Numbers };
        let is_long = noise::is_long(image);
        let is_other = is_long || units != Units::Levels;
        is_other.then(|| Arc::new(Self { units, is_long, ..*self }) as _)
    }
}

/// Drawn parameters: two seeds, the mean, the standard deviation.
impl PixelOp for GaussianNoise {
    fn param_count(&self) -> usize {
        SEEDS + 2
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-", "mean", "sigma"]
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let scale = match self.units {
            Units::Levels => 255.0,
            Units::Numbers => 1.0,
        };
        params[..SEEDS].copy_from_slice(&noise::seeds(rng));
        params[MEAN] = (self.mean * scale) as f32;
        params[SIGMA] = (self.sigma * scale) as f32;
        true
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let seeds = [cx.params[0], cx.params[1]];
        let normals = match self.is_long {
            true => noise::normals_of_array(seeds, cx.at),
            false => noise::normals(seeds, cx.at),
        };
        for (v, normal) in pixel.iter_mut().zip(normals) {
            let z = cx.params[MEAN] + normal * cx.params[SIGMA];
            *v = match self.units {
                Units::Numbers => *v + z,
                Units::Levels => {
                    let v = *v + apply_rule(cx.rule, z);
                    clamp(if self.clip { v } else { wrapped(v) })
                }
            };
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let normals = match self.is_long {
            true => noise::emit_normals_of_array(e, 0, pixels),
            false => noise::emit_normals(e, 0, pixels),
        };
        e.each(pixels, |e, c, v| {
            let (mean, sigma) = (e.param(MEAN), e.param(SIGMA));
            let z = e.mul(normals.channels()[c], sigma);
            let z = e.add(mean, z);
            match self.units {
                Units::Numbers => e.add(v, z),
                Units::Levels => {
                    let z = e.apply_rule(z);
                    let v = e.add(v, z);
                    let v = if self.clip { v } else { emit_wrapped(e, v) };
                    e.clamp(v)
                }
            }
        })
    }
}

/// Reduces a value modulo 256, as storing it in eight bits does.
fn wrapped(v: f32) -> f32 {
    (v * (1.0 / 256.0)).floor().mul_add(-256.0, v)
}

fn emit_wrapped(e: &mut Emit, v: F32x4) -> F32x4 {
    let (share, back) = (e.splat(1.0 / 256.0), e.splat(-256.0));
    let turns = e.mul(v, share);
    let turns = e.floor(turns);
    e.fma(turns, back, v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::author::OpClass;
    use crate::op::evaluated;
    use crate::op::{Dim, ImageType};
    use crate::rng::SampleKey;
    use crate::{DType, NumberRule};

    /// Returns the drawn parameters of a sample, and the normal numbers of the pixel at row 2, column
    /// 3.
    fn drawn(op: &GaussianNoise) -> (Vec<f32>, [f32; 3]) {
        let mut params = vec![0.0; op.param_count()];
        assert!(op.draw(&mut SampleKey::new(1, 2, 3).op(4), Size::new(9, 9), &mut params));
        let normals = noise::normals([params[0], params[1]], [2, 3]);
        (params, [normals[0], normals[1], normals[2]])
    }

    /// Audio of two channels: by the hash of images, the second one would get the noise of the first.
    #[test]
    fn the_channels_of_long_audio_get_noise_of_their_own() {
        let of_size = |size| {
            let audio = Type::Image(ImageType::array(size, 1, DType::F32));
            GaussianNoise::new().for_input(&audio).unwrap()
        };
        let noise_at = |op: &Arc<dyn Op>, at| {
            let OpClass::Pixel(op) = op.class() else { panic!("a pixel op") };
            let params = [1.5, 2.5, 0.0, 1.0];
            evaluated(op, &Eval { rule: NumberRule::Fused, params: &params, at }, [0.0; 1])
        };
        let (short, long) = (of_size(Size::new(2, 65_536)), of_size(Size::new(2, 65_537)));
        assert_eq!(noise_at(&short, [1, 7]), noise_at(&short, [0, 65_543]));
        assert_ne!(noise_at(&long, [1, 7]), noise_at(&long, [0, 65_543]));
    }

    fn on_floats() -> Type {
        Type::Image(ImageType::array(Size::new(9, 9), 3, DType::F32))
    }

    #[test]
    fn as_torchvision_adds_noise_given_the_normal_numbers() {
        for (mean, sigma) in [(0.0, 0.1), (0.2, 0.5), (-0.3, 2.0)] {
            for clip in [true, false] {
                let op = GaussianNoise::new().mean(mean).unwrap().sigma(sigma).unwrap();
                let op = op.clip(clip);
                let (params, normals) = drawn(&op);
                let cx = Eval { rule: NumberRule::Exact, params: &params, at: [2, 3] };
                let found = evaluated(&op, &cx, [0.0, 130.0, 255.0]);
                for (c, before) in [0i16, 130, 255].into_iter().enumerate() {
                    let noise = normals[c] * (sigma * 255.0) as f32;
                    let sum = before + ((mean * 255.0) as f32 + noise) as i16;
                    let want = if clip { sum.clamp(0, 255) } else { sum.rem_euclid(256) };
                    assert_eq!(found[c], f32::from(want), "{op:?}, channel {c}");
                }
            }
        }
    }

    #[test]
    fn fractions_are_kept_unless_the_rule_is_exact() {
        let op = GaussianNoise::new();
        let (params, normals) = drawn(&op);
        let cx = Eval { rule: NumberRule::Fused, params: &params, at: [2, 3] };
        let found = evaluated(&op, &cx, [120.0; 3]);
        assert_eq!(found, normals.map(|n| 120.0 + n * 25.5));
        assert!(found.iter().all(|v| v.fract() != 0.0), "{found:?}");
    }

    #[test]
    fn floats_get_noise_in_their_own_units_and_are_not_clipped() {
        let op = GaussianNoise::new().mean(0.5).unwrap().sigma(2.0).unwrap();
        let op = GaussianNoise { units: Units::Numbers, ..op };
        let (params, normals) = drawn(&op);
        let cx = Eval { rule: NumberRule::Exact, params: &params, at: [2, 3] };
        assert_eq!(evaluated(&op, &cx, [-3.0; 3]), normals.map(|n| -3.0 + (0.5 + n * 2.0)));
    }

    #[test]
    fn the_type_it_gets_decides_the_units() {
        let op = GaussianNoise::new();
        let on_u8 = Type::Image(ImageType::decoded(Dim::fixed(9), Dim::fixed(9)));
        assert!(op.for_input(&on_u8).is_none());
        let counterpart = op.for_input(&on_floats()).unwrap();
        assert_eq!(
            format!("{counterpart:?}"),
            format!("{:?}", GaussianNoise { units: Units::Numbers, ..op })
        );
    }

    #[test]
    fn samples_get_noise_of_their_own() {
        let op = GaussianNoise::new();
        let seeds = |sample| {
            let mut params = [0.0; 4];
            op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(9, 9), &mut params);
            params
        };
        assert_eq!(seeds(5), seeds(5));
        assert_ne!(seeds(5), seeds(6));
    }
}
