//! Random zoom out: puts an image at a random position on a larger canvas.

use crate::author::{GeometryOp, GeometryStep, Rng, Type};
use crate::default_floats::DefaultFloats;
use crate::error::LONGEST;
use crate::op::{Dim, ImageType, Op, class, on_image};
use crate::registry::BuiltOp;
use crate::registry::{Checked, ParamLimits};
use crate::registry::{built, recipe};
use crate::{ParamError, Size, TypeError};
use std::ops::RangeInclusive;

/// Places a share `p` of the images at a random position on a larger canvas.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomZoomOut.md"))]
///
/// torchvision's `RandomZoomOut(fill, side_range, p)`, for a sample whose coin is heads:
///
/// ```text
/// r      = U(side_range)
/// canvas = floor(r * height) x floor(r * width)
/// left   = floor((canvas width - width) * U(0, 1));  top = floor((canvas height - height) * U(0, 1))
/// ```
///
/// Products are computed in f32. No side of the canvas is longer than 65535 pixels.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of any element type                                                   |
/// | output | as the input, but the size differs from sample to sample: a resize or a crop must follow |
/// | random | a coin `p`, the size, the column, the row                                   |
/// | cost   | a copy of the image if nothing changed it before, else a mask               |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomZoomOut::new().side_range(1.0..=2.0)?, Resize::new((224, 224))?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "places a share p of the images on a larger canvas", golden = "a Pad, which has goldens, with drawn sides", draw = random, new = "Builds the op with torchvision's defaults: black canvases, 1 to 4 times as high and wide, for half of the images.")]
pub struct RandomZoomOut {
    /// Sets the colour of the canvas. Default black.
    #[param(fill)]
    fill: [u8; 3],
    // The field keeps the smallest scale, and the difference to the largest.
    /// Sets how many times as high and wide as the image the canvas is.
    #[param("how many times as high and wide it is", default = 1.0..=4.0, given = RangeInclusive<f64>, check = scales,
        errors = "If the range is empty, not finite or begins below 1")]
    #[init((1.0, 3.0))]
    side_range: (f32, f32),
    #[param(share)]
    p: f64,
}

impl RandomZoomOut {
    /// Returns the size of the canvas; `unit` is the draw for the scale, in `0.0..=1.0`.
    fn canvas(&self, size: Size, unit: f32) -> Size {
        let scale = self.side_range.0 + unit * self.side_range.1;
        let side = |side: u32| ((side as f32 * scale) as u32).min(LONGEST).max(side);
        Size::new(side(size.height), side(size.width))
    }

    /// Returns the step for three draws: of the scale, the column and the row.
    fn motion(&self, size: Size, [scale, left, top]: [f32; 3]) -> GeometryStep {
        let canvas = self.canvas(size, scale);
        let offset = |canvas: u32, side: u32, unit: f32| ((canvas - side) as f32 * unit) as i32;
        GeometryStep::CropPad {
            top: -offset(canvas.height, size.height, top),
            left: -offset(canvas.width, size.width, left),
            size: canvas,
            fill: self.fill,
        }
    }
}

/// Checks a range of scales, and returns the smallest and the difference to the largest.
fn scales(
    op: &'static str,
    param: &'static str,
    range: RangeInclusive<f64>,
) -> Result<(f32, f32), ParamError> {
    let (low, high): (f64, f64) = range.checked(op, param, ParamLimits::POSITIVE_RANGE)?;
    if low < 1.0 {
        return Err(ParamError::new(op, param, format!("{low}..={high}"), "1 or more"));
    }
    Ok(DefaultFloats::during(|| (low as f32, (high - low) as f32)))
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let sides = recipe::range(rng, 1.0, 1.5, 0.5);
    let op = RandomZoomOut::new().side_range(sides)?.fill(recipe::color(rng));
    Ok(built(op.p(recipe::share(rng))?))
}

#[class(Geometry)]
impl Op for RandomZoomOut {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| {
            let least = Size::new(image.height.min, image.width.min);
            let most = Size::new(image.height.max, image.width.max);
            // Images whose coin is tails keep their size; with `p` of 0 there are no others.
            let min = if self.p == 1.0 { self.canvas(least, 0.0) } else { least };
            let max = if self.p == 0.0 { most } else { self.canvas(most, 1.0) };
            let height = Dim { min: min.height, max: max.height };
            ImageType { height, width: Dim { min: min.width, max: max.width }, ..image }
        })
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for RandomZoomOut {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            out.push(self.motion(size, [rng.unit(), rng.unit(), rng.unit()]));
        }
    }

    fn fill_color(&self, _: &ImageType) -> Option<[u8; 3]> {
        Some(self.fill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(p: f64) -> RandomZoomOut {
        RandomZoomOut::new().p(p).unwrap()
    }

    #[test]
    fn a_canvas_is_torchvisions() {
        let motion = usual(0.5).motion(Size::new(100, 80), [0.49626, 0.76822, 0.08848]);
        let size = Size::new(248, 199);
        assert_eq!(motion, GeometryStep::CropPad { top: -13, left: -91, size, fill: [0; 3] });
    }

    #[test]
    fn the_type_says_how_large_a_canvas_may_be() {
        let input = Type::Image(ImageType::decoded(Dim::fixed(100), Dim { min: 50, max: 80 }));
        let output = |op: RandomZoomOut| op.output(&input).unwrap().to_string();
        assert_eq!(output(usual(0.5)), "a u8 image [100..=400, 50..=320, 3]");
        let twice = usual(1.0).side_range(2.0..=3.0).unwrap();
        assert_eq!(output(twice), "a u8 image [200..=300, 100..=240, 3]");
        assert_eq!(output(usual(0.0)), "a u8 image [100, 50..=80, 3]");
    }

    #[test]
    fn bad_ranges_are_refused() {
        for range in [0.5..=2.0, 3.0..=2.0, f64::NAN..=2.0, 1.0..=f64::INFINITY] {
            assert!(usual(0.5).side_range(range.clone()).is_err(), "{range:?}");
        }
        assert!(usual(0.5).p(1.5).is_err());
    }
}
