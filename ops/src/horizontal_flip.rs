//! Horizontal flip: mirrors an image left to right.

use crate::author::{GeometryOp, GeometryStep, Op, OpClass, Rng, Type};
use crate::error::probability;
use crate::op::on_image;
use crate::registry::{GEOMETRY, Golden, OpInfo, P, Recipe, Recipes, built, recipe};
use crate::{ParamError, Size, TypeError};

/// Mirrors a share `p` of the images left to right.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomHorizontalFlip.md"))]
///
/// ```text
/// out[y, x] = in[y, width - 1 - x]   for a sample whose coin is heads
/// out[y, x] = in[y, x]               otherwise
/// ```
///
/// | | |
/// |--------|----------------------------------|
/// | input  | image of any element type        |
/// | output | as the input                     |
/// | random | a coin `p` for the whole image   |
/// | cost   | nothing: rows are read backwards |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomHorizontalFlip::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomHorizontalFlip {
    p: f64,
}

impl RandomHorizontalFlip {
    /// Builds a flip of a share `p` of the samples.
    ///
    /// # Errors
    ///
    /// If `p` is not in `0.0..=1.0`.
    pub fn new(p: f64) -> Result<Self, ParamError> {
        Ok(Self { p: probability("RandomHorizontalFlip", p)? })
    }
}

impl Op for RandomHorizontalFlip {
    fn name(&self) -> &'static str {
        "RandomHorizontalFlip"
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

impl GeometryOp for RandomHorizontalFlip {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            out.push(GeometryStep::FlipHorizontal);
        }
    }
}

impl RandomHorizontalFlip {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "RandomHorizontalFlip",
        class: GEOMETRY,
        summary: "mirrors a share p of the images left to right",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomHorizontalFlip::new(args.float("p")?)?)),
        recipes: Recipes::Drawn(&[Recipe {
            name: "RandomHorizontalFlip",
            draw: |rng, _| Ok(built(RandomHorizontalFlip::new(recipe::share(rng))?)),
        }]),
        golden: Golden::Tested,
    };
}
