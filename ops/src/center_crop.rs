//! Centre crop: the middle of an image.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{ImageType, Op, class, on_image, on_numbers};
use crate::registry::ParamLimits;
use crate::registry::{Recipe, built, recipe};
use crate::shape::Window;
use crate::{Interpolation, Size, TypeError, geometry_step};

/// Cuts the centre out of an image.
///
#[cfg_attr(doc, doc = include_str!("../pictures/CenterCrop.md"))]
///
/// The op has two forms, since torchvision and FFCV mean different things by the name:
///
/// * [`CenterCrop::new`] is torchvision's: a window of `height x width` pixels around the centre, at
///   `round_half_even((in - out) / 2)`. Where the image is smaller, it is padded with black.
/// * [`CenterCrop::ratio`] is FFCV's: a square of `floor(ratio * min(height, width))` pixels a side at
///   `floor((in - side) / 2)`, scaled to the output size.
///
/// ```text
/// out[y, x] = in[y + top, x + left]           scaled, in the second form
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------|
/// | input  | image of any element type; u8 for the ratio form      |
/// | output | as the input, of the given size                       |
/// | random | nothing                                               |
/// | cost   | nothing, or the resize                                |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Resize::new(256)?, CenterCrop::new(224)?]; // torchvision's
/// let ffcv = ops![CenterCrop::new(224)?.ratio(224.0 / 256.0)?]; // FFCV's
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "cuts the middle out of an image", recipes = RECIPES)]
pub struct CenterCrop {
    /// Cuts `size` (one number of pixels for a square, or height and width) around the centre.
    #[param(size)]
    size: Size,
    /// Cuts the centre square whose side is `ratio` times the image's short side instead, and scales it
    /// to the op's size: FFCV's `CenterCropRGBImageDecoder`. FFCV's validation uses a size of 224 and a
    /// ratio of 224/256; its interpolation is [`Interpolation::Area`].
    #[param("FFCV's form: a square of this share of the short side, scaled to `size`", optional,
        limits = ParamLimits::above(0.0, 1.0, "above 0, at most 1"), errors = "If `ratio` is 0 or not in `0.0..=1.0`")]
    ratio: Option<f64>,
    /// Sets how the op scales, which it only does with a [`ratio`](Self::ratio).
    #[param("how pixels are weighed where there is a `ratio`", interpolation)]
    interpolation: Interpolation,
}

/// Returns `round_half_even((input - output) / 2)`, or, if the output is larger, torchvision's padding,
/// `-floor((output - input) / 2)`.
fn centred(input: u32, output: u32) -> i32 {
    let (input, output) = (i64::from(input), i64::from(output));
    if output > input {
        return -((output - input) / 2) as i32;
    }
    ((input - output) as f64 / 2.0).round_ties_even() as i32
}

/// Returns FFCV's square of an image, which is never empty.
fn square(size: Size, ratio: f64) -> Window {
    let side = ((ratio * f64::from(size.height.min(size.width))) as u32).max(1);
    Window {
        top: (size.height - side) / 2,
        left: (size.width - side) / 2,
        height: side,
        width: side,
    }
}

const RECIPES: [Recipe; 2] = [
    Recipe { name: "CenterCrop", draw: |rng, _| Ok(built(CenterCrop::new(recipe::size(rng))?)) },
    Recipe {
        name: "CenterCrop(ratio)",
        draw: |rng, _| {
            let op = CenterCrop::new(recipe::size(rng))?;
            let op = op.ratio(recipe::share(rng).max(0.05))?;
            Ok(built(op.interpolation(recipe::interpolation(rng))))
        },
    },
];

#[class(Geometry)]
impl Op for CenterCrop {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let cut = |image: ImageType| image.with_size(self.size);
        match self.ratio {
            Some(_) => on_numbers(self.name(), input, cut),
            None => on_image(self.name(), input, cut),
        }
    }
}

impl GeometryOp for CenterCrop {
    fn draw(&self, _: &mut Rng, input: Size, out: &mut Vec<GeometryStep>) {
        match self.ratio {
            Some(ratio) => {
                let (size, interpolation) = (self.size, self.interpolation);
                out.push(geometry_step::crop(square(input, ratio)));
                out.push(GeometryStep::Resize { size, interpolation });
            }
            None => out.push(GeometryStep::CropPad {
                top: centred(input.height, self.size.height),
                left: centred(input.width, self.size.width),
                size: self.size,
                fill: [0; 3],
            }),
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        self.ratio.map(|_| geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.ratio.is_some() && self.interpolation.blends()
    }

    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        let smaller = input.height.min < self.size.height || input.width.min < self.size.width;
        (self.ratio.is_none() && smaller).then_some([0; 3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_to_even_as_torchvision_rounds() {
        let starts = [(7, 4, 2), (7, 2, 2), (5, 4, 0), (5, 2, 2), (4, 3, 0), (7, 10, -1)];
        for (input, output, start) in starts {
            assert_eq!(centred(input, output), start, "{input} -> {output}");
        }
    }

    #[test]
    fn ffcv_takes_a_square_of_the_short_side() {
        let window = square(Size::new(375, 500), 224.0 / 256.0);
        assert_eq!(window, Window { top: 23, left: 86, height: 328, width: 328 });
        assert_eq!(square(Size::new(1, 9), 0.5).height, 1, "never empty");
    }
}
