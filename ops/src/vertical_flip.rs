//! Vertical flip: mirrors an image top to bottom.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, Type};
use crate::error::probability;
use crate::op::on_image;
use crate::registry::{GEOMETRY, Golden, OpInfo, P, Recipe, Recipes, built, recipe};
use crate::{ParamError, Size, TypeError};

/// Mirrors a share `p` of the images top to bottom.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomVerticalFlip.md"))]
///
/// ```text
/// out[y, x] = in[height - 1 - y, x]  for a sample whose coin is heads
/// out[y, x] = in[y, x]               otherwise
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------|
/// | input  | image of any element type                                 |
/// | output | as the input                                              |
/// | random | a coin `p`; the whole image is mirrored                   |
/// | cost   | nothing: rows are read from the last to the first         |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomVerticalFlip::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomVerticalFlip {
    p: f64,
}

impl RandomVerticalFlip {
    /// A flip of a share `p` of the samples.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn new(p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability("RandomVerticalFlip", p)? })
    }
}

impl Op for RandomVerticalFlip {
    fn name(&self) -> &'static str {
        "RandomVerticalFlip"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }
}

impl GeometryOp for RandomVerticalFlip {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            out.push(GeometryStep::FlipVertical);
        }
    }
}

impl RandomVerticalFlip {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomVerticalFlip",
        class: GEOMETRY,
        summary: "mirrors a share p of the images top to bottom",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomVerticalFlip::new(args.float("p")?)?)),
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomVerticalFlip",
            draw: |rng, _| Ok(built(RandomVerticalFlip::new(recipe::share(rng))?)),
        }]),
        golden: Golden::Tested,
    };
}
