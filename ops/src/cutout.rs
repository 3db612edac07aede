//! Cutout: paints over a random square.

use crate::author::{RegionOp, Rng, Type};
use crate::op::{Op, class, on_image};
use crate::shape::Window;
use crate::{Size, TypeError};

/// Paints over a random square.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Cutout.md"))]
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
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Cutout::new(8)?.fill([125, 122, 113])];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    OVERWRITE,
    "paints a random square over",
    golden = "FFCV draws inside its compiled code, from a generator of its own"
)]
pub struct Cutout {
    /// Builds the op with a black square of `crop_size` pixels a side.
    #[param("pixels of the square's side", 1..=65_535, example = 8, draw = 1..=20)]
    crop_size: u32,
    /// Sets the colour of the square. Default black.
    #[param("its colour", fill)]
    fill: [u8; 3],
}

#[class(Region)]
impl Op for Cutout {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |image| image)
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
