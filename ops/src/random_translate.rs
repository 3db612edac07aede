//! Random translate: shifts an image by a few pixels.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, Type};
use crate::op::{ImageType, on_image};
use crate::registry::{
    FILL, GEOMETRY, Golden, OpInfo, ParamKind, ParamValue, Recipe, Recipes, built, recipe, required,
};
use crate::{ParamError, Size, TypeError};

/// Shifts an image by up to `padding` pixels in each direction.
///
/// FFCV's `RandomTranslate(padding, fill)`: the image is padded by `padding` pixels of `fill`, and
/// a window of the image's own size is cut at a row, then a column, both uniform in
/// `0..=2 * padding`.
///
/// ```text
/// out[y, x] = in[y + dy, x + dx], or fill outside      dy, dx = U{-padding..=padding}
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------|
/// | input  | image of any element type                              |
/// | output | as the input                                           |
/// | random | the row, then the column                               |
/// | cost   | a copy of the image if nothing changed it before, else a mask |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomTranslate {
    padding: u32,
    fill: [u8; 3],
}

impl RandomTranslate {
    /// Shifts by `-padding..=padding` rows and columns; the area outside the image is black.
    ///
    /// # Errors
    ///
    /// If `padding` is above 65535.
    pub fn new(padding: u32) -> Result<Self, ParamError> {
        if padding > 65_535 {
            return Err(ParamError::new("RandomTranslate", "padding", padding, "0..=65535"));
        }
        Ok(Self { padding, fill: [0; 3] })
    }

    /// Sets the colour of the area outside the image. Default black.
    #[must_use]
    pub const fn fill(self, fill: [u8; 3]) -> Self {
        Self { fill, ..self }
    }
}

impl Op for RandomTranslate {
    fn name(&self) -> &'static str {
        "RandomTranslate"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for RandomTranslate {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let mut shift = || rng.below(2 * self.padding + 1) as i32 - self.padding as i32;
        let (top, left) = (shift(), shift());
        out.push(GeometryStep::CropPad { top, left, size, fill: self.fill });
    }

    fn fill_color(&self, _: &ImageType) -> Option<[u8; 3]> {
        (self.padding > 0).then_some(self.fill)
    }
}

impl RandomTranslate {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomTranslate",
        class: GEOMETRY,
        summary: "shifts an image by a few pixels",
        params: &[
            required(
                "padding",
                ParamKind::Whole,
                ParamValue::Int(4),
                "most pixels in each direction",
            ),
            FILL,
        ],
        aliases: &[],
        build: |args| {
            Ok(built(RandomTranslate::new(args.u32("padding")?)?.fill(args.color("fill")?)))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomTranslate",
            draw: |rng, _| Ok(built(RandomTranslate::new(rng.below(12))?.fill(recipe::color(rng)))),
        }]),
        golden: Golden::None("FFCV draws inside its compiled code, from a generator of its own"),
    };
}
