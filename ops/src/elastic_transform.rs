//! Elastic transform: moves each pixel by a smooth random displacement.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::default_floats::nearest_f32;
use crate::op::{ImageType, Op, check_fill, class, on_numbers};
use crate::registry::{BuiltOp, built, recipe};
use crate::rows::{Displacement, Map, WarpInterpolation};
use crate::warping;
use crate::{ParamError, Size, TypeError};

/// Moves each pixel by a smooth random displacement, as if the image were seen through water.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ElasticTransform.md"))]
///
/// torchvision's `ElasticTransform(alpha, sigma, interpolation, fill)`, for each axis with draws of its own:
///
/// ```text
/// d         = gaussian_blur(U(-1, 1) for each pixel, sigma) * alpha / 2      in pixels
/// out[y, x] = in[y + dy[y, x], x + dx[y, x]]
/// ```
///
/// The kernel of the blur has `floor(8 sigma + 1)` pixels a side, made odd. [`WarpInterpolation`] describes how a pixel is
/// computed. Boxes and points follow the image: their displacement is solved for, where torchvision takes the negated
/// one of a pixel beside them.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input                                                                |
/// | random | a seed, of which the numbers of all pixels are drawn                        |
/// | cost   | a pixel: two numbers and two blurs by `16 sigma` multiplications each, 8 bytes, then as a warp. Resize large images first |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ElasticTransform::new().alpha(120.0, 120.0)?.sigma(6.0, 6.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "moves each pixel by a smooth random displacement", draw = random, new = "Builds the op with torchvision's defaults: `alpha` 50, `sigma` 5, bilinear, black outside the input.")]
pub struct ElasticTransform {
    // Numbers along x and along y.
    #[param("strength of the displacements", by_hand, given = (f64, f64), default = [50.0, 50.0])]
    alpha: [f32; 2],
    #[param("smoothness of the displacements, in pixels", by_hand, given = (f64, f64), default = [5.0, 5.0])]
    sigma: [f32; 2],
    #[param(warp_interpolation, default = WarpInterpolation::Bilinear)]
    interpolation: WarpInterpolation,
    #[param(warp_fill)]
    fill: Option<[u8; 3]>,
}

const OP: &str = "ElasticTransform";

impl ElasticTransform {
    /// Sets the strength along x and along y. Default 50.
    ///
    /// # Errors
    ///
    /// If one is not in `0.0..=65535.0`.
    pub fn alpha(self, across: f64, down: f64) -> Result<Self, ParamError> {
        Ok(Self { alpha: pair("alpha", [across, down], 65_535.0, "0.0..=65535.0")?, ..self })
    }

    /// Sets the smoothness along x and along y: the deviations of the blur, in pixels; 0 is none. Default 5.
    ///
    /// # Errors
    ///
    /// If one is not in `0.0..=100.0`.
    pub fn sigma(self, across: f64, down: f64) -> Result<Self, ParamError> {
        Ok(Self { sigma: pair("sigma", [across, down], 100.0, "0.0..=100.0")?, ..self })
    }
}

/// Checks a number for each axis.
fn pair(
    param: &'static str,
    values: [f64; 2],
    most: f64,
    expected: &'static str,
) -> Result<[f32; 2], ParamError> {
    match values.into_iter().find(|value| !(0.0..=most).contains(value)) {
        Some(value) => Err(ParamError::new(OP, param, value, expected)),
        None => Ok(values.map(nearest_f32)),
    }
}

#[class(Geometry)]
impl Op for ElasticTransform {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.alpha == [0.0; 2]
    }
}

impl GeometryOp for ElasticTransform {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let seed = u64::from(rng.word()) << 32 | u64::from(rng.word());
        let displacement = Displacement::new(seed, self.alpha, self.sigma, size);
        out.push(warping::warp(
            Map::elastic(displacement, size),
            size,
            self.interpolation,
            self.fill,
        ));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let mut number = |most: f32| recipe::number(rng, -0.1 * most, most).max(0.0);
    let [alpha_x, alpha_y, sigma_x, sigma_y] = [80.0, 80.0, 2.0, 2.0].map(&mut number);
    let op = ElasticTransform::new().alpha(alpha_x, alpha_y)?.sigma(sigma_x, sigma_y)?;
    let op = op.interpolation(recipe::warp_interpolation(rng));
    Ok(built(op.fill(warping::random_fill(rng))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    fn displacement(op: &ElasticTransform, size: Size, sample: u64) -> Map {
        let mut steps = vec![];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), size, &mut steps);
        let [GeometryStep::Rows(crate::rows::RowFilter::Warp(warp))] = &steps[..] else {
            panic!("{steps:?}");
        };
        warp.map.clone()
    }

    #[test]
    fn displacements_depend_on_the_sample_and_have_the_deviation_of_blurred_noise() {
        let (op, size) = (ElasticTransform::new(), Size::new(120, 200));
        let map = displacement(&op, size, 1);
        assert_eq!(map, displacement(&op, size, 1));
        assert_ne!(map, displacement(&op, size, 2));
        let field = map.displacement().unwrap();
        let middles = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)));
        let [mut sum, mut count] = [0.0; 2];
        for (y, x) in middles {
            let [dx, dy] = field.at([f64::from(x) + 0.5, f64::from(y) + 0.5]);
            sum += dx * dx + dy * dy;
            count += 2.0;
        }
        // Noise of variance 1/3, blurred over 1 / (4 pi sigma^2) pixels, times alpha / 2.
        let expected = (1.0 / 3.0 / (4.0 * std::f64::consts::PI * 25.0)).sqrt() * 25.0;
        let found = f64::sqrt(sum / count);
        assert!((found / expected - 1.0).abs() < 0.1, "{found}, not {expected}");
    }

    #[test]
    fn the_inverse_is_exact_to_a_thousandth_of_a_pixel() {
        let (op, size) = (ElasticTransform::new(), Size::new(60, 80));
        for sample in 0..20 {
            let map = displacement(&op, size, sample);
            let field = map.displacement().unwrap();
            for i in 0..40 {
                let p = [f64::from(i) * 2.1 - 1.0, f64::from(i) * 1.5];
                let q = field.inverse(p);
                let moved = field.at(q);
                let miss = (q[0] + moved[0] - p[0]).hypot(q[1] + moved[1] - p[1]);
                assert!(miss < 1e-3, "{p:?} is at {q:?}, {miss} off");
            }
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = ElasticTransform::new();
        assert!(op.alpha(-1.0, 0.0).is_err() && op.alpha(0.0, f64::NAN).is_err());
        assert!(op.sigma(0.0, 101.0).is_err() && op.sigma(0.0, 100.0).is_ok());
    }
}
