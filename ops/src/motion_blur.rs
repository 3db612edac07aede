//! Motion blur: the mean of the pixels along a short line.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::kernel_size::{odd_range, odd_side};
use crate::op::{Op, class, on_numbers};
use crate::registry::ParamLimits;
use crate::rows::{ConvolutionKernel, MotionLine, RowFilter};
use crate::{ParamError, Size, TypeError};
use std::ops::RangeInclusive;

/// Blurs a share `p` of the images along a line of random length and direction, as if the camera had moved.
///
#[cfg_attr(doc, doc = include_str!("../pictures/MotionBlur.md"))]
///
/// ```text
/// out = mean of the pixels of a line        of an odd number of pixels n, through a square of n*n pixels
/// ```
///
/// The line begins and ends `floor(n/2)` pixels from its middle; a direction above 0 moves its beginning towards the
/// middle by this share, and one below 0 its end. With `allow_shifted`, its middle is up to a quarter of the square away
/// from the pixel.
///
/// | | |
/// |--------|----------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                          |
/// | output | as the input                                                                     |
/// | random | a coin `p`, then n, the angle, the direction, and the shifts along x and y       |
/// | cost   | a multiplication and an addition per value for each pixel of the line            |
///
/// Albumentations' `MotionBlur`, with the same pixels for the same numbers. Values differ by at most 1, where the order of
/// sums decides.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![MotionBlur::new().blur_limit(3..=11)?.allow_shifted(false)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    NEIGHBOURHOOD,
    "blurs a share p of the images along a random line",
    new = "Builds the op with Albumentations' defaults: 3 to 7 pixels in any direction, for half of the images."
)]
pub struct MotionBlur {
    /// Sets the range of the number of pixels of a side of the kernel; an even number is rounded up to an odd one.
    #[param("range of the kernel's side; an even number is the odd one above", given = RangeInclusive<u32>,
        check = sides, limits = SIDES, default = 3..=7, draw = random_sides(rng),
        errors = "If the range is empty, or not in `3..=255`")]
    blur_limit: (u32, u32),
    /// Sets whether the line may miss the pixel.
    #[param("whether the line may miss the pixel", default = true, draw = rng.coin(0.5))]
    allow_shifted: bool,
    /// Sets the range of the line's angle in degrees.
    #[param("range of the line's angle in degrees", 0.0..=360.0, default = 0.0..=360.0, draw = recipe::range(rng, 0.0, 180.0, 180.0))]
    angle_range: (f32, f32),
    /// Sets the range of the direction: 1 blurs forward, -1 backward, 0 both ways.
    #[param("range of the direction: 1 forward, -1 backward, 0 both", -1.0..=1.0, default = -1.0..=1.0, draw = recipe::range(rng, -1.0, 0.0, 1.0))]
    direction_range: (f32, f32),
    #[param(share)]
    p: f64,
}

const SIDES: ParamLimits = ParamLimits::new(3.0, 255.0, "3 <= low <= high <= 255");

fn sides(
    op: &'static str,
    param: &'static str,
    range: RangeInclusive<u32>,
) -> Result<(u32, u32), ParamError> {
    odd_range(op, param, range, SIDES)
}

fn random_sides(rng: &mut Rng) -> RangeInclusive<u32> {
    let low = 3 + rng.below(6);
    low..=low + rng.below(6)
}

#[class(Geometry)]
impl Op for MotionBlur {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for MotionBlur {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let side = odd_side(rng, self.blur_limit);
        let [angle, direction] =
            [self.angle_range, self.direction_range].map(|(low, high)| rng.uniform(low, high));
        let half = (side / 2) as f32;
        let mut shift = [0.0; 2];
        if self.allow_shifted {
            shift.fill_with(|| rng.uniform(-1.0, 1.0) * half / 2.0);
        }
        if runs {
            let ends = [-half * (1.0 - direction).min(1.0), half * (1.0 + direction).min(1.0)];
            let line = MotionLine { side, angle, ends, shift };
            out.push(GeometryStep::Rows(RowFilter::Convolve(ConvolutionKernel::Line(line))));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    fn line(op: &MotionBlur, sample: u64) -> MotionLine {
        let mut steps = vec![];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(9, 9), &mut steps);
        let [GeometryStep::Rows(RowFilter::Convolve(ConvolutionKernel::Line(line)))] = &steps[..]
        else {
            panic!("{steps:?}");
        };
        *line
    }

    #[test]
    fn sides_are_odd_and_directions_shorten_one_end() {
        let op = MotionBlur::new().blur_limit(4..=8).unwrap().p(1.0).unwrap();
        let forward = op.direction_range(1.0..=1.0).unwrap().allow_shifted(false);
        let mut seen = [0; 10];
        for sample in 0..300 {
            let (any, forward) = (line(&op, sample), line(&forward, sample));
            seen[any.side as usize] += 1;
            assert!(any.shift.iter().all(|shift| shift.abs() <= (any.side / 2) as f32 / 2.0));
            assert_eq!(forward.shift, [0.0; 2]);
            assert_eq!(forward.ends, [0.0, (forward.side / 2) as f32]);
        }
        assert!([5, 7, 9].iter().all(|side| seen[*side] > 60), "{seen:?}");
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = MotionBlur::new();
        assert!(op.blur_limit(1..=3).is_err() && op.blur_limit(3..=256).is_err());
        assert!(op.direction_range(0.0..=1.5).is_err() && op.angle_range(9.0..=3.0).is_err());
    }
}
