//! Random zoom out: puts an image at a random position on a larger canvas.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, Type};
use crate::default_floats::DefaultFloats;
use crate::error::{LONGEST, positive_range, probability};
use crate::op::{Dim, ImageType, on_image};
use crate::registry::{
    FILL, GEOMETRY, Golden, OpInfo, P, ParamKind, ParamValue, Recipe, Recipes, built, recipe,
    with_default,
};
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomZoomOut {
    fill: [u8; 3],
    /// The smallest scale, and the difference to the largest.
    scale: (f32, f32),
    p: f64,
}

const OP: &str = "RandomZoomOut";

impl Default for RandomZoomOut {
    fn default() -> Self {
        Self::new()
    }
}

impl RandomZoomOut {
    /// Builds the op with torchvision's defaults: black canvases, 1 to 4 times as high and wide, for half
    /// of the images.
    #[must_use]
    pub const fn new() -> Self {
        Self { fill: [0; 3], scale: (1.0, 3.0), p: 0.5 }
    }

    /// Sets the colour of the canvas. Default black.
    #[must_use]
    pub const fn fill(self, fill: [u8; 3]) -> Self {
        Self { fill, ..self }
    }

    /// Sets how many times as high and wide as the image the canvas is. Default `1.0..=4.0`.
    ///
    /// # Errors
    ///
    /// If the range is empty, not finite or begins below 1.
    pub fn side_range(self, side_range: RangeInclusive<f64>) -> Result<Self, ParamError> {
        let (low, high) = positive_range(OP, "side_range", *side_range.start(), *side_range.end())?;
        if low < 1.0 {
            return Err(ParamError::new(OP, "side_range", format!("{low}..={high}"), "1 or more"));
        }
        Ok(Self { scale: DefaultFloats::during(|| (low as f32, (high - low) as f32)), ..self })
    }

    /// Sets the share of the images that the op changes. Default 0.5.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn p(self, p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability(OP, p)?, ..self })
    }

    /// Returns the size of the canvas; `unit` is the draw for the scale, in `0.0..=1.0`.
    fn canvas(&self, size: Size, unit: f32) -> Size {
        let scale = self.scale.0 + unit * self.scale.1;
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

impl Op for RandomZoomOut {
    fn name(&self) -> &'static str {
        "RandomZoomOut"
    }

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

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
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

impl RandomZoomOut {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomZoomOut",
        class: GEOMETRY,
        summary: "places a share p of the images on a larger canvas",
        params: &[
            FILL,
            with_default(
                "side_range",
                ParamKind::Range,
                ParamValue::Floats(&[1.0, 4.0]),
                "how many times as high and wide it is",
            ),
            P,
        ],
        aliases: &[],
        build: |args| {
            let op = RandomZoomOut::new().fill(args.color("fill")?);
            Ok(built(op.side_range(args.range("side_range")?)?.p(args.float("p")?)?))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomZoomOut",
            draw: |rng, _| {
                let low = recipe::number(rng, 1.0, 1.5);
                let sides = low..=low + recipe::number(rng, 0.0, 0.5);
                let op = RandomZoomOut::new().side_range(sides)?.fill(recipe::color(rng));
                Ok(built(op.p(recipe::share(rng))?))
            },
        }]),
        golden: Golden::None("a Pad, which has goldens, with drawn sides"),
    };
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
