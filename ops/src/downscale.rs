//! Downscale: an image with large pixels.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Op, class, on_numbers};
use crate::rows::RowFilter;
use crate::{Size, TypeError};

/// Reduces a share `p` of the images and enlarges them again, so that their pixels are large.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Downscale.md"))]
///
/// ```text
/// small = every nearest pixel of in, scale times its size
/// out   = every nearest pixel of small, in the size of in
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                          |
/// | output | as the input                                                                     |
/// | random | a coin `p`, then the scale, uniform                                              |
/// | cost   | two products and a copy per pixel                                                |
///
/// Albumentations' `Downscale` with its default interpolations, `INTER_NEAREST` both ways, to the bit.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Downscale::new().scale_range(0.25..=0.5)?.p(0.1)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    NEIGHBOURHOOD,
    "reduces a share p of the images and enlarges them again",
    new = "Builds the op with Albumentations' defaults: a scale of 0.25, for half of the images."
)]
pub struct Downscale {
    /// Sets the range of the scale.
    #[param("range of the scale", 0.001..=1.0, default = 0.25..=0.25, draw = recipe::range(rng, 0.01, 0.7, 0.3))]
    scale_range: (f32, f32),
    #[param(share)]
    p: f64,
}

#[class(Geometry)]
impl Op for Downscale {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.scale_range == (1.0, 1.0)
    }
}

impl GeometryOp for Downscale {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let scale = rng.uniform(self.scale_range.0, self.scale_range.1);
        if runs {
            out.push(GeometryStep::Rows(RowFilter::Pixelate { scale }));
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
    use crate::shape::ImageView;

    #[test]
    fn half_the_size_has_every_other_pixel_twice() {
        let pixels = [1, 2, 3, 4, 5, 6].map(|v| [v; 3]);
        let input = ImageView::packed(pixels.as_flattened(), Size::new(1, 6)).unwrap();
        let out = RowFilter::Pixelate { scale: 0.5 }.eval(&input);
        assert_eq!(out, [1, 1, 3, 3, 5, 5].map(|v| [v; 3]).as_flattened());
    }

    #[test]
    fn bad_parameters_are_refused() {
        let op = Downscale::new();
        assert!(op.scale_range(0.0..=0.5).is_err() && op.scale_range(0.5..=1.1).is_err());
    }
}
