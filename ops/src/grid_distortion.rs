//! Grid distortion: the cells of a grid made wider or narrower at random.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::number_or_range::around_zero;
use crate::op::{ImageType, Op, check_fill, class, on_numbers};
use crate::registry::{BuiltOp, built, recipe};
use crate::rows::{Displacement, DisplacementField, Map, WarpInterpolation};
use crate::warping;
use crate::{NumberOrRange, ParamError, Size, TypeError};

/// Makes the columns and the rows of a grid wider or narrower at random, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/GridDistortion.md"))]
///
/// ```text
/// length[i] = 1 + U(distort_limit)            for each of num_steps columns, for the rest behind them, and for rows
/// out[y, x] = in[position(y), position(x)]    a column is as wide in the input as its share of all lengths
/// ```
///
/// [`WarpInterpolation`] describes how a pixel is computed. Boxes, points and masks follow the image.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input                                                                |
/// | random | a coin `p`, then the lengths along x, then those along y                    |
/// | cost   | a pixel: 8 bytes for its displacement, then as a warp                       |
///
/// Albumentations' `GridDistortion` with `normalized=True`, its default: pixels have its positions to f32. OpenCV rounds
/// positions to 1/32 of a pixel before it interpolates. Other borders than a fill colour are left out.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![GridDistortion::new().num_steps(4)?.distort_limit(0.2)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "makes the cells of a grid wider or narrower, in a share p of the images", draw = random, new = "Builds the op with Albumentations' defaults: 5 steps that are up to 0.3 longer or shorter, bilinear, black outside the input, for half of the images.")]
pub struct GridDistortion {
    /// Sets the number of the grid's columns, and of its rows.
    #[param("number of the grid's columns, and of its rows", 1..=255, default = 5)]
    num_steps: u32,
    /// Sets the range of the change of a length. A number d is `-d..=d`.
    #[param("range of the change of a length; a number d is -d..d", given = NumberOrRange, check = limit, default = -0.3..=0.3,
        errors = "If the range is empty, or not in `-1.0..=1.0`")]
    distort_limit: (f32, f32),
    #[param(warp_interpolation, default = WarpInterpolation::Bilinear)]
    interpolation: WarpInterpolation,
    #[param(warp_fill)]
    fill: Option<[u8; 3]>,
    #[param(share)]
    p: f64,
}

/// Checks the change of a length.
fn limit(
    op: &'static str,
    param: &'static str,
    range: NumberOrRange,
) -> Result<(f32, f32), ParamError> {
    let (low, high) = around_zero(op, param, range)?;
    if -1.0 <= low && high <= 1.0 {
        Ok((low, high))
    } else {
        let expected = "-1 <= low <= high <= 1";
        Err(ParamError::new(op, param, format!("{low}..={high}"), expected))
    }
}

#[class(Geometry)]
impl Op for GridDistortion {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        // Equal lengths move the pixels inside a step, too, since both its ends are pixels.
        self.p == 0.0
    }
}

impl GeometryOp for GridDistortion {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        if !rng.coin(self.p) {
            return;
        }
        let (low, high) = self.distort_limit;
        let lengths =
            [(); 2].map(|()| (0..=self.num_steps).map(|_| 1.0 + rng.uniform(low, high)).collect());
        let map = Map::elastic(Displacement::of(DisplacementField::Grid(lengths), size), size);
        out.push(warping::warp(map, size, self.interpolation, self.fill));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let op = GridDistortion::new().num_steps(1 + rng.below(8))?;
    let op = op.distort_limit(recipe::range(rng, -0.9, 0.5, 0.4))?;
    let op = op.interpolation(recipe::warp_interpolation(rng)).fill(warping::random_fill(rng));
    Ok(built(op.p(recipe::share(rng))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_parameters_are_refused() {
        let op = GridDistortion::new();
        assert!(op.num_steps(0).is_err() && op.num_steps(256).is_err());
        assert!(op.distort_limit(1.1).is_err() && op.distort_limit(f64::NAN).is_err());
        assert!(op.distort_limit(-1.0..=0.5).is_ok());
    }

    #[test]
    fn equal_lengths_leave_every_point_where_it_is() {
        for (height, width) in [(20, 31), (3, 64), (5, 5)] {
            let size = Size::new(height, width);
            let equal =
                Displacement::of(DisplacementField::Grid([vec![1.3; 6], vec![0.7; 6]]), size);
            // The two ends of a step are positions of pixels, so that those inside are up to a pixel off.
            for (x, y) in
                [(0.5, 0.5), (12.5, 2.5), (f64::from(width) - 0.5, f64::from(height) - 0.5)]
            {
                let moved = equal.at([x, y]);
                assert!(moved.iter().all(|by| by.abs() < 1.001), "{size}: {moved:?} at {x}, {y}");
            }
        }
    }
}
