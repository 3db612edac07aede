//! Perspective: a random four-sided part of the image, drawn out to the whole.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::number_or_range::NumberOrRange;
use crate::op::{Op, check_fill, class, on_numbers};
use crate::registry::{Checked, ParamLimits};
use crate::rows::{Map, WarpInterpolation, perspective_coefficients};
use crate::warping;
use crate::{ParamError, Size, TypeError};

/// Draws a random four-sided part of a share `p` of the images out to the whole image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Perspective.md"))]
///
/// ```text
/// corner = the image's corner, moved inwards by |n| mod 0.32 of the width and of the height, n = N(0, s), s in scale
/// out    = the image warped so that these four corners become those of the output
/// ```
///
/// A pixel is computed as [`WarpInterpolation`] says; all of them are inside the image.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input                                                                |
/// | random | a coin `p`, then s, then two numbers for each corner, clockwise from the top left |
/// | cost   | a pixel: its position and two divisions, then 1, 4 or 16 pixels read        |
///
/// Albumentations' `Perspective` with `keep_size` draws the same corners; version 2.0.8 enlarges the result once more. See
/// [`RandomPerspective`](crate::RandomPerspective) for torchvision's, which shrinks the image into the corners.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Perspective::new().scale(0.05..=0.15)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    GEOMETRY,
    "draws a random four-sided part out to the whole image, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: deviations of 0.05 to 0.1 of the sides, for half of the images."
)]
pub struct Perspective {
    /// Sets the range of the standard deviation of the corners, as a share of the sides. A number n is `0.0..=n`.
    #[param("range of the deviation of the corners, in shares of the sides; a number n is 0..n", given = NumberOrRange,
        check = scales, default = 0.05..=0.1, draw = recipe::range(rng, 0.0, 0.2, 0.2),
        errors = "If the range is empty, not finite or begins below 0")]
    scale: (f32, f32),
    #[param(warp_interpolation, default = WarpInterpolation::Bilinear)]
    interpolation: WarpInterpolation,
    #[param(warp_fill)]
    fill: Option<[u8; 3]>,
    #[param(share)]
    p: f64,
}

/// Checks a deviation, one number or a range.
fn scales(
    op: &'static str,
    param: &'static str,
    scale: NumberOrRange,
) -> Result<(f32, f32), ParamError> {
    let range = match scale {
        NumberOrRange::Number(number) => 0.0..=number,
        NumberOrRange::Range(range) => range,
    };
    range.checked(op, param, ParamLimits::NOT_NEGATIVE_RANGE)
}

/// The largest share of a side that a corner moves by.
const MOST: f64 = 0.32;

impl Perspective {
    /// Draws the four corners in the input, each as `[x, y]`, clockwise from the top left.
    fn corners(&self, rng: &mut Rng, size: Size) -> [[f64; 2]; 4] {
        let scale = f64::from(rng.uniform(self.scale.0, self.scale.1));
        let sides = [size.width, size.height].map(f64::from);
        whole(size).map(|corner| {
            let mut corner = corner;
            for (at, side) in corner.iter_mut().zip(sides) {
                let share = (f64::from(rng.normal()) * scale).abs() % MOST * side;
                *at = if *at == 0.0 { share } else { side - share };
            }
            corner
        })
    }
}

/// Returns the corners of an image, each as `[x, y]`, clockwise from the top left.
fn whole(size: Size) -> [[f64; 2]; 4] {
    let [right, bottom] = [size.width, size.height].map(f64::from);
    [[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]]
}

/// Returns the step that draws a part out to the whole image. OpenCV counts from the middle of the first pixel.
fn drawn_out(
    corners: [[f64; 2]; 4],
    size: Size,
    interpolation: WarpInterpolation,
    fill: Option<[u8; 3]>,
) -> Option<GeometryStep> {
    let from_the_edge = |corners: [[f64; 2]; 4]| corners.map(|corner| corner.map(|at| at + 0.5));
    let coefficients =
        perspective_coefficients(from_the_edge(corners), from_the_edge(whole(size)))?;
    Some(warping::warp(Map::perspective(coefficients, size, size), size, interpolation, fill))
}

#[class(Geometry)]
impl Op for Perspective {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.scale == (0.0, 0.0)
    }
}

impl GeometryOp for Perspective {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let corners = self.corners(rng, size);
        if runs {
            out.extend(drawn_out(corners, size, self.interpolation, self.fill));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::shape::ImageView;

    #[test]
    fn corners_move_inwards_by_less_than_a_third() {
        let op = Perspective::new().scale(0.5..=0.5).unwrap();
        let mut rng = SampleKey::new(1, 2, 3).op(0);
        let (mut least, mut most) = ([[f64::MAX; 2]; 4], [[f64::MIN; 2]; 4]);
        for _ in 0..2000 {
            for (corner, at) in op.corners(&mut rng, Size::new(50, 100)).into_iter().enumerate() {
                for axis in 0..2 {
                    least[corner][axis] = least[corner][axis].min(at[axis]);
                    most[corner][axis] = most[corner][axis].max(at[axis]);
                }
            }
        }
        let rounded = |corners: [[f64; 2]; 4]| corners.map(|corner| corner.map(f64::round));
        assert_eq!(rounded(least), [[0.0, 0.0], [68.0, 0.0], [68.0, 34.0], [0.0, 34.0]]);
        assert_eq!(rounded(most), [[32.0, 16.0], [100.0, 16.0], [100.0, 50.0], [32.0, 50.0]]);
    }

    #[test]
    fn the_corners_of_the_part_become_those_of_the_image() {
        let size = Size::new(8, 16);
        let step = drawn_out(whole(size), size, WarpInterpolation::Bilinear, None).unwrap();
        let GeometryStep::Rows(filter) = step else { panic!() };
        let pixels: Vec<u8> = (0..128).collect();
        let input = ImageView::packed_channels(&pixels, size, 1).unwrap();
        assert_eq!(filter.eval(&input)[..7 * 16], pixels[..7 * 16]);
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(Perspective::new().scale(-0.1..=0.1).is_err());
        assert!(
            Perspective::new().scale(f64::NAN).is_err() && Perspective::new().scale(0.1).is_ok()
        );
    }
}
