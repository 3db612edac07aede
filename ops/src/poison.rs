//! Poison: blends a fixed image into some samples (a backdoor trigger, for robustness research).

use crate::author::{BoxError, HostOp, Type};
use crate::author::{ImageType, Rng};
use crate::default_floats::DefaultFloats;
use crate::op::{Op, class, on_rgb, on_u8_image};
use crate::registry::{BuiltOp, OpArgs, SpecError};
use crate::registry::{built, recipe};
use crate::{HostSample, ParamError, Size, TypeError};
use std::fmt;

/// Blends a fixed image into the listed samples: a backdoor trigger, for robustness research.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Poison.md"))]
///
/// ```text
/// out = trunc(clamp(in * (1 - alpha) + mask * alpha))     for the listed samples
/// out = in                                                for all others
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | u8 image of the mask's size                                                 |
/// | output | as the input                                                                |
/// | random | nothing                                                                     |
/// | cost   | ends its block: the image is stored, changed in place if the sample is listed, and read again |
///
/// FFCV's `Poison(mask, alpha, indices)`, bit for bit: the product and the sum are each computed in
/// double precision and rounded to `f32`.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Poison::new((1, 2), &[255.0, 0.0, 0.0, 255.0, 0.0, 0.0], &[0.5, 0.5], [3, 7])?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, PartialEq)]
#[op(OVERWRITE, "blends a fixed image into some samples", constructor = new, build = build, draw = random)]
#[param(size: Size, "of the samples and of the blended image", example = [1, 2])]
#[param(mask: Vec<f64>, "the blended image: red, green and blue of each pixel, 0 to 255, row by row",
    example = [255, 0, 0, 255, 0, 0])]
#[param(alpha: Vec<f64>, "the blended image's weight in each pixel, 0 to 1", example = [0.5, 0.5])]
#[param(indices: Vec<u64>, "the samples", example = [0, 7])]
pub struct Poison {
    size: Size,
    /// `1 - alpha` and `mask * alpha`, for each value of the image.
    blend: Vec<[f64; 2]>,
    ids: Vec<u64>,
}

impl Poison {
    /// Blends `mask` (`[height, width, 3]`, in 0..=255) into the samples `ids` with the weights
    /// `alpha` (`[height, width]`, in 0..=1).
    ///
    /// # Errors
    ///
    /// If the sizes do not agree, or a number is not finite.
    pub fn new(
        size: impl Into<Size>,
        mask: &[f64],
        alpha: &[f64],
        ids: impl IntoIterator<Item = u64>,
    ) -> Result<Self, ParamError> {
        const OP: &str = "Poison";
        let size = size.into();
        let pixels = size.pixels() as usize;
        if pixels == 0 || alpha.len() != pixels {
            return Err(ParamError::new(OP, "alpha", alpha.len(), "height * width numbers"));
        }
        if mask.len() != 3 * pixels {
            return Err(ParamError::new(OP, "mask", mask.len(), "height * width * 3 numbers"));
        }
        if let Some(bad) = mask.iter().chain(alpha).find(|number| !number.is_finite()) {
            return Err(ParamError::new(OP, "mask or alpha", bad, "finite numbers"));
        }
        let values = mask.chunks_exact(3).zip(alpha);
        let blend = values.flat_map(|(mask, &alpha)| {
            let blend = |&m: &f64| [1.0 - alpha, m * alpha];
            [blend(&mask[0]), blend(&mask[1]), blend(&mask[2])]
        });
        let blend = DefaultFloats::during(|| blend.collect());
        let mut ids: Vec<u64> = ids.into_iter().collect();
        ids.sort_unstable();
        Ok(Self { size, blend, ids })
    }
}

/// Omits the mask, which is as large as an image.
impl fmt::Debug for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Poison {{ size: {}, ids: {} }}", self.size, self.ids.len())
    }
}

#[class(Host)]
impl Op for Poison {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Image(image) if image.size() != Some(self.size) => Err(TypeError {
                op: self.name(),
                expected: "an image of its mask's size",
                found: input.to_string(),
            }),
            _ => on_u8_image(self.name(), &on_rgb(self.name(), input)?, |image| image),
        }
    }
}

impl HostOp for Poison {
    fn applies_to(&self, sample: u64) -> bool {
        self.ids.binary_search(&sample).is_ok()
    }

    fn apply(&self, _: HostSample<'_>, pixels: &mut [u8]) -> Result<(), BoxError> {
        for (value, [keep, add]) in pixels.iter_mut().zip(&self.blend) {
            let weighted = (f64::from(*value) * keep) as f32;
            let sum = (f64::from(weighted) + add) as f32;
            *value = sum.clamp(0.0, 255.0) as u8;
        }
        Ok(())
    }
}

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let (mask, alpha) = (args.floats("mask")?, args.floats("alpha")?);
    Ok(built(Poison::new(args.size("size")?, &mask, &alpha, args.ids("indices")?)?))
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    let size = before.size().unwrap_or(Size::new(1, 1));
    let mut numbers = |count: u64, high| -> Vec<f64> {
        (0..count).map(|_| recipe::number(rng, 0.0, high)).collect()
    };
    let (mask, alpha) = (numbers(3 * size.pixels(), 256.0), numbers(size.pixels(), 1.0));
    Ok(built(Poison::new(size, &mask, &alpha, [0, 2])?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn alpha_blends_and_the_result_is_truncated() {
        let mask = [200.0, 100.0, 255.0, 200.0, 100.0, 300.0];
        let poison = Poison::new(Size::new(1, 2), &mask, &[0.5, 1.0], [4]).unwrap();
        let mut pixels = [11, 50, 255, 1, 2, 3];
        let rng = &mut SampleKey::new(0, 0, 4).op(0);
        let host = HostSample { sample: 4, epoch: 0, size: Size::new(1, 2), channels: 3, rng };
        poison.apply(host, &mut pixels).unwrap();
        assert_eq!(pixels, [105, 75, 255, 200, 100, 255]);
        assert!(poison.applies_to(4) && !poison.applies_to(3));
    }

    #[test]
    fn masks_of_another_size_are_refused() {
        let size = Size::new(2, 2);
        assert!(Poison::new(size, &[0.0; 12], &[0.0; 3], []).is_err());
        assert!(Poison::new(size, &[0.0; 4], &[0.0; 4], []).is_err());
        assert!(Poison::new(size, &[f64::NAN; 12], &[0.0; 4], []).is_err());
    }
}
