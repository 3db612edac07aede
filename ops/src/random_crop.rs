//! Random crop: a window of fixed size at a random place.
//!
//! torchvision's `RandomCrop(size, padding, fill)`: the image is first framed by `padding` pixels
//! of `fill` on each side; then `top` is uniform over the places where the window fits, then
//! `left`. An image too small even so is framed further, as with `pad_if_needed`, just enough.
//!
//! | | |
//! |--------|------------------------------------------------|
//! | input  | image of any element type                      |
//! | output | as the input, of the given size                |
//! | random | the row, then the column, of the window        |
//! | cost   | nothing: other pixels are read                 |

use crate::error::side;
use crate::op::on_image;
use crate::{Class, GeometryOp, ImageType, Motion, Op, ParamError, Rng, Size, Type, TypeError};

/// Cuts a window of fixed size at a random place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomCrop {
    size: Size,
    padding: u32,
    fill: [u8; 3],
}

impl RandomCrop {
    /// A window of `height x width` pixels, inside the image.
    ///
    /// # Errors
    ///
    /// If a side is not in `1..=65535`.
    pub fn new(height: u32, width: u32) -> Result<Self, ParamError> {
        const OP: &str = "RandomCrop";
        let size = Size::new(side(OP, "height", height)?, side(OP, "width", width)?);
        Ok(Self { size, padding: 0, fill: [0; 3] })
    }

    /// First frames the image by `padding` pixels of `fill` on each side: 4 is usual for CIFAR.
    ///
    /// # Errors
    ///
    /// If `padding` is above 65535.
    pub fn padding(mut self, padding: u32, fill: [u8; 3]) -> Result<Self, ParamError> {
        if padding > 65_535 {
            return Err(ParamError::new("RandomCrop", "padding", padding, "0..=65535"));
        }
        (self.padding, self.fill) = (padding, fill);
        Ok(self)
    }

    /// The window's start along one axis, in pixels of the image before its frame.
    fn start(&self, rng: &mut Rng, input: u32, output: u32) -> i32 {
        let framed = input + 2 * self.padding;
        if framed < output {
            return -(((output - input) / 2) as i32);
        }
        rng.below(framed - output + 1) as i32 - self.padding as i32
    }
}

impl Op for RandomCrop {
    fn name(&self) -> &'static str {
        "RandomCrop"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image.with_size(self.size))
    }

    fn class(&self) -> Class<'_> {
        Class::Geometry(self)
    }
}

impl GeometryOp for RandomCrop {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<Motion>) {
        let top = self.start(rng, size.height, self.size.height);
        let left = self.start(rng, size.width, self.size.width);
        out.push(Motion::Frame { top, left, size: self.size, fill: self.fill });
    }

    fn fills(&self, input: &ImageType) -> Option<[u8; 3]> {
        let smaller = input.height.min < self.size.height || input.width.min < self.size.width;
        (self.padding > 0 || smaller).then_some(self.fill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SampleKey;

    #[test]
    fn every_place_is_reached_and_none_beyond() {
        let crop = RandomCrop::new(32, 30).unwrap().padding(4, [0; 3]).unwrap();
        let mut rng = SampleKey::new(1, 1, 1).op(0);
        let (mut tops, mut lefts) = ([0; 9], [0; 11]);
        for _ in 0..2000 {
            let mut out = vec![];
            crop.draw(&mut rng, Size::new(32, 32), &mut out);
            let Motion::Frame { top, left, .. } = out[0] else { panic!("a crop is a frame") };
            tops[(top + 4) as usize] += 1;
            lefts[(left + 4) as usize] += 1;
        }
        assert!(tops.iter().chain(&lefts).all(|&n| n > 100), "{tops:?} {lefts:?}");
    }
}
