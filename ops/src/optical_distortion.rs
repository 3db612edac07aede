//! Optical distortion: an image seen through a lens.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::number_or_range::around_zero;
use crate::op::{ImageType, Op, check_fill, class, on_numbers};
use crate::registry::{BuiltOp, Given, OpArgs, ParamKind, SpecError, built, recipe};
use crate::rows::{Displacement, DisplacementField, Lens, Map, WarpInterpolation};
use crate::warping;
use crate::{NumberOrRange, ParamError, Size, TypeError};

/// Bends a share `p` of the images as a lens does, with a random strength.
///
#[cfg_attr(doc, doc = include_str!("../pictures/OpticalDistortion.md"))]
///
/// ```text
/// out[p] = in[p * (1 + s)]        p from the middle of the image, k uniform in distort_limit
/// camera    s = k r + k r^2       r = (x / width)^2 + (y / height)^2
/// fisheye   s = k r               r = (x^2 + y^2) / ((width / 2)^2 + (height / 2)^2)
/// ```
///
/// A strength above 0 makes the image smaller towards its corners, and one below 0 larger. [`WarpInterpolation`] describes
/// how a pixel is computed. Boxes, points and masks follow the image.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input                                                                |
/// | random | a coin `p`, then k                                                          |
/// | cost   | a pixel: 8 bytes for its displacement, then as a warp                       |
///
/// Albumentations' `OpticalDistortion`, whose middle is half a pixel beside that of the image, so that even a strength of 0
/// moves it; here it stays. OpenCV rounds positions to 1/32 of a pixel before it interpolates. Other borders than a fill
/// colour are left out.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![OpticalDistortion::new().distort_limit(0.3)?.mode(Lens::Fisheye)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "bends a share p of the images as a lens does", draw = random, new = "Builds the op with Albumentations' defaults: a strength of -0.05 to 0.05, a camera's lens, bilinear, black outside the input, for half of the images.")]
pub struct OpticalDistortion {
    /// Sets the range of the strength. A number k is `-k..=k`.
    #[param("range of the strength; a number k is -k..k", given = NumberOrRange, check = around_zero, default = -0.05..=0.05,
        errors = "If the range is empty or not finite")]
    distort_limit: (f32, f32),
    /// Sets the lens.
    #[param("the lens", default = Lens::Camera)]
    mode: Lens,
    #[param(warp_interpolation, default = WarpInterpolation::Bilinear)]
    interpolation: WarpInterpolation,
    #[param(warp_fill)]
    fill: Option<[u8; 3]>,
    #[param(share)]
    p: f64,
}

/// Every lens, by the name a user writes.
const LENSES: [(&str, Lens); 2] = [("camera", Lens::Camera), ("fisheye", Lens::Fisheye)];

impl Lens {
    /// Returns the name that a user writes.
    pub(crate) const fn word(self) -> &'static str {
        LENSES[self as usize].0
    }
}

impl Given for Lens {
    const KIND: ParamKind = ParamKind::Word(&[LENSES[0].0, LENSES[1].0]);

    fn read(args: &OpArgs<'_>, name: &str) -> Result<Self, SpecError> {
        args.choice(name, &LENSES)
    }
}

#[class(Geometry)]
impl Op for OpticalDistortion {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.distort_limit == (0.0, 0.0)
    }
}

impl GeometryOp for OpticalDistortion {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let k = rng.uniform(self.distort_limit.0, self.distort_limit.1);
        if runs {
            let map =
                Map::elastic(Displacement::of(DisplacementField::Lens(self.mode, k), size), size);
            out.push(warping::warp(map, size, self.interpolation, self.fill));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let op = OpticalDistortion::new().distort_limit(recipe::range(rng, -0.4, 0.2, 0.4))?;
    let op = op.mode(recipe::pick(rng, LENSES).1);
    let op = op.interpolation(recipe::warp_interpolation(rng)).fill(warping::random_fill(rng));
    Ok(built(op.p(recipe::share(rng))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_stays_and_the_corner_moves_outwards() {
        for lens in [Lens::Camera, Lens::Fisheye] {
            let bent = Displacement::of(DisplacementField::Lens(lens, 0.5), Size::new(41, 61));
            let moved = bent.at([30.5, 20.5]);
            assert!(moved.iter().all(|by| by.abs() < 1e-9), "{lens:?}: {moved:?}");
            let moved = bent.at([60.5, 40.5]);
            assert!(moved.iter().all(|by| *by > 3.0), "{lens:?}: {moved:?}");
            let q = bent.inverse([50.0, 30.0]);
            let moved = bent.at(q);
            assert!((q[0] + moved[0] - 50.0).abs() < 1e-3, "{lens:?}: {q:?}");
        }
    }
}
