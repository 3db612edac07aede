//! Cutout: paints over a random square.

use crate::author::{Op, OpClass, RegionOp, Rng, Type};
use crate::error::side;
use crate::op::on_image;
use crate::registry::{
    Golden, OVERWRITE, OpInfo, ParamKind, ParamValue, Recipe, Recipes, built, recipe, required,
    with_default,
};
use crate::shape::Window;
use crate::{ParamError, Size, TypeError};

/// Paints over a random square.
///
/// DeVries and Taylor, arXiv:1708.04552.
///
/// This is FFCV's `Cutout(crop_size, fill)`: the square is entirely inside the image; its row and then
/// its column are uniform over the positions where the square fits. If the image is smaller than the
/// square along a side, the square covers that side (FFCV crashes).
///
/// ```text
/// out[y, x] = fill        for top <= y < top + crop_size and left <= x < left + crop_size
/// out[y, x] = in[y, x]    otherwise
/// ```
///
/// | | |
/// |--------|--------------------------------------------|
/// | input  | image of any element type                  |
/// | output | as the input                               |
/// | random | the row, then the column                   |
/// | cost   | a mask                                     |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutout {
    crop_size: u32,
    fill: [u8; 3],
}

impl Cutout {
    /// Builds the op with a black square of `crop_size` pixels a side.
    ///
    /// # Errors
    ///
    /// If `crop_size` is not in `1..=65535`.
    pub fn new(crop_size: u32) -> Result<Self, ParamError> {
        Ok(Self { crop_size: side("Cutout", "crop_size", crop_size)?, fill: [0; 3] })
    }

    /// Sets the colour of the square. Default black.
    #[must_use]
    pub const fn fill(self, fill: [u8; 3]) -> Self {
        Self { fill, ..self }
    }
}

impl Op for Cutout {
    fn name(&self) -> &'static str {
        "Cutout"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Region(self)
    }
}

impl RegionOp for Cutout {
    fn draw(&self, rng: &mut Rng, size: Size) -> Window {
        let height = self.crop_size.min(size.height);
        let width = self.crop_size.min(size.width);
        let top = rng.below(size.height - height + 1);
        let left = rng.below(size.width - width + 1);
        Window { top, left, height, width }
    }

    fn fill(&self) -> [f32; 3] {
        self.fill.map(f32::from)
    }
}

impl Cutout {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "Cutout",
        class: OVERWRITE,
        summary: "paints a random square over",
        params: &[
            required(
                "crop_size",
                ParamKind::Whole,
                ParamValue::Int(8),
                "pixels of the square's side",
            ),
            with_default("fill", ParamKind::Color, ParamValue::Int(0), "its colour"),
        ],
        aliases: &[],
        build: |args| Ok(built(Cutout::new(args.u32("crop_size")?)?.fill(args.color("fill")?))),
        recipes: Recipes::Drawn(&[Recipe {
            name: "Cutout",
            draw: |rng, _| Ok(built(Cutout::new(1 + rng.below(20))?.fill(recipe::color(rng)))),
        }]),
        golden: Golden::None("FFCV draws inside its compiled code, from a generator of its own"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::shape::is_inside;

    #[test]
    fn squares_lie_inside_whatever_the_image() {
        let cutout = Cutout::new(8).unwrap();
        for (height, width) in [(32, 32), (8, 8), (3, 100), (1, 1)] {
            let size = Size::new(height, width);
            for sample in 0..200 {
                let window = cutout.draw(&mut SampleKey::new(0, 0, sample).op(0), size);
                assert!(is_inside(window, size), "{window:?} in {size}");
                assert_eq!(window.size(), Size::new(height.min(8), width.min(8)));
            }
        }
    }
}
