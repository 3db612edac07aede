//! Fixed size crop: a random window of one size, with a border where an image is smaller.

use crate::author::{GeometryOp, GeometryStep, Rng, Type};
use crate::op::{ImageType, Op, class, on_image};
use crate::{Size, TypeError};

/// Cuts a window of one size out of an image, and adds a border on the right and below where the image is smaller.
///
#[cfg_attr(doc, doc = include_str!("../pictures/FixedSizeCrop.md"))]
///
/// `FixedSizeCrop(size, fill)` of torchvision's detection references; with [`ScaleJitter`](crate::ScaleJitter) before
/// it, it is large scale jittering. One draw `u = U(0, 1)` decides both axes:
///
/// ```text
/// top  = floor(max(height - out height, 0) * u)     in f32
/// left = floor(max(width - out width, 0) * u)
/// out[y, x] = in[y + top, x + left]                 or fill outside the image
/// ```
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of any element type                                                   |
/// | output | as the input, of the given size                                             |
/// | random | the position of the window                                                  |
/// | cost   | nothing; a mask where images are smaller                                    |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ScaleJitter::new((640, 640))?, FixedSizeCrop::new(640)?.fill([124, 116, 104])];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    GEOMETRY,
    "cuts a random window, or adds a border on the right and below",
    golden = "a crop and a Pad, which have goldens, at an offset that is tested"
)]
pub struct FixedSizeCrop {
    /// Cuts `size` (one number of pixels for a square, or height and width); the border is black.
    #[param(size)]
    size: Size,
    /// Sets the colour of the border. Default black.
    #[param(fill)]
    fill: [u8; 3],
}

impl FixedSizeCrop {
    /// Returns the step for a draw in `0.0..1.0`.
    fn step(&self, size: Size, unit: f32) -> GeometryStep {
        let offset = |from: u32, to: u32| (from.saturating_sub(to) as f32 * unit) as i32;
        GeometryStep::CropPad {
            top: offset(size.height, self.size.height),
            left: offset(size.width, self.size.width),
            size: self.size,
            fill: self.fill,
        }
    }
}

#[class(Geometry)]
impl Op for FixedSizeCrop {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image.with_size(self.size))
    }
}

impl GeometryOp for FixedSizeCrop {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        out.push(self.step(size, rng.unit()));
    }

    fn fill_color(&self, input: &ImageType) -> Option<[u8; 3]> {
        let smaller = input.height.min < self.size.height || input.width.min < self.size.width;
        smaller.then_some(self.fill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_draw_places_both_axes_and_a_border_is_on_the_right_and_below() {
        let op = FixedSizeCrop::new((10, 40)).unwrap().fill([9; 3]);
        let placed = |height, width, unit| match op.step(Size::new(height, width), unit) {
            GeometryStep::CropPad { top, left, size, fill } => {
                assert_eq!((size, fill), (Size::new(10, 40), [9; 3]));
                [top, left]
            }
            step => panic!("{step:?}"),
        };
        assert_eq!(placed(20, 60, 0.55), [5, 11]);
        assert_eq!(placed(8, 60, 0.5), [0, 10]);
        assert_eq!(placed(8, 30, 0.9), [0, 0]);
    }

    #[test]
    fn only_smaller_images_have_a_border() {
        let op = FixedSizeCrop::new(10).unwrap().fill([9; 3]);
        let fills = |height, width| op.fill_color(&Size::new(height, width).into());
        assert_eq!([fills(10, 12), fills(9, 12), fills(12, 9)], [None, Some([9; 3]), Some([9; 3])]);
        assert!(FixedSizeCrop::new(0).is_err());
    }
}
