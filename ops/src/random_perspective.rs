//! Random perspective: moves the image's corners inwards at random.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{Op, check_fill, class, on_numbers};
use crate::rows::{Map, WarpInterpolation, perspective_coefficients};
use crate::warping;
use crate::{Size, TypeError};

/// Moves the corners of a share `p` of the images inwards.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomPerspective.md"))]
///
/// torchvision's `RandomPerspective(distortion_scale, p, interpolation, fill)`, for a sample whose
/// coin is heads: each corner moves towards the middle, by less than
/// `bw = floor(distortion_scale * floor(width / 2)) + 1` columns and `bh` rows alike:
///
/// ```text
/// top left      U{0..bw}, U{0..bh}                 top right     U{width-bw..width}, U{0..bh}
/// bottom right  U{width-bw..width}, U{height-bh..height}     bottom left   U{0..bw}, U{height-bh..height}
/// ```
///
/// The image is warped accordingly, by torchvision's `_get_perspective_coeffs`. If three corners end up on
/// one line (as in an image one pixel wide), there is no such warp, and the image stays unchanged.
/// [`WarpInterpolation`] describes how a pixel is computed.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                                    |
/// | output | as the input                                                                |
/// | random | a coin `p`, then the corners in the order above, each with its column first |
/// | cost   | a pixel: its position and two divisions, then 1, 4 or 16 pixels read        |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomPerspective::new().distortion_scale(0.3)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    GEOMETRY,
    "moves the corners of a share p of the images inwards",
    new = "Builds the op with torchvision's defaults: corners move by up to half of the distance to the middle, in half of the images; the area outside the input is black."
)]
pub struct RandomPerspective {
    /// Sets the largest share of the distance to the middle that a corner moves by.
    #[param("most that corners move, in shares of the way to the middle", 0.0..=1.0, default = 0.5)]
    distortion_scale: f64,
    #[param(share)]
    p: f64,
    #[param(warp_interpolation, default = WarpInterpolation::Bilinear)]
    interpolation: WarpInterpolation,
    #[param(warp_fill)]
    fill: Option<[u8; 3]>,
}

impl RandomPerspective {
    /// Draws the new positions of the four corners, each as `[x, y]`.
    fn ends(&self, rng: &mut Rng, size: Size) -> [[f64; 2]; 4] {
        let bound = |side: u32| (self.distortion_scale * f64::from(side / 2)) as u32 + 1;
        let mut near = |side: u32| f64::from(rng.below(bound(side)));
        let Size { height, width } = size;
        // The draw counts from the start of the last `bound` pixels, which is pixel `side - bound`.
        let far = |side: u32, step: f64| f64::from(side - bound(side)) + step;
        let top_left = [near(width), near(height)];
        let top_right = [far(width, near(width)), near(height)];
        let bottom_right = [far(width, near(width)), far(height, near(height))];
        let bottom_left = [near(width), far(height, near(height))];
        [top_left, top_right, bottom_right, bottom_left]
    }
}

/// Returns the pixels of the corners, each as `[x, y]`: top left, top right, bottom right, bottom
/// left.
fn corners(size: Size) -> [[f64; 2]; 4] {
    let [right, bottom] = [size.width, size.height].map(|side| f64::from(side) - 1.0);
    [[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]]
}

#[class(Geometry)]
impl Op for RandomPerspective {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        check_fill(self.name(), input, self.fill)?;
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.distortion_scale == 0.0
    }
}

impl GeometryOp for RandomPerspective {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        if !rng.coin(self.p) {
            return;
        }
        let ends = self.ends(rng, size);
        if let Some(coefficients) = perspective_coefficients(corners(size), ends) {
            let map = Map::perspective(coefficients, size, size);
            out.push(warping::warp(map, size, self.interpolation, self.fill));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn corners_move_inwards_as_far_as_they_may() {
        let op = RandomPerspective::new();
        let mut rng = SampleKey::new(1, 2, 3).op(0);
        let (mut least, mut most) = ([[f64::MAX; 2]; 4], [[f64::MIN; 2]; 4]);
        for _ in 0..2000 {
            for (corner, end) in op.ends(&mut rng, Size::new(17, 22)).into_iter().enumerate() {
                for axis in 0..2 {
                    least[corner][axis] = least[corner][axis].min(end[axis]);
                    most[corner][axis] = most[corner][axis].max(end[axis]);
                }
            }
        }
        assert_eq!(least, [[0.0, 0.0], [16.0, 0.0], [16.0, 12.0], [0.0, 12.0]]);
        assert_eq!(most, [[5.0, 4.0], [21.0, 4.0], [21.0, 16.0], [5.0, 16.0]]);
    }

    #[test]
    fn corners_on_a_line_leave_the_picture_as_it_is() {
        let op = RandomPerspective::new().p(1.0).unwrap().distortion_scale(1.0).unwrap();
        let mut rng = SampleKey::new(1, 2, 3).op(0);
        let mut out = vec![];
        for (height, width) in [(1, 1), (1, 9), (9, 1)] {
            op.draw(&mut rng, Size::new(height, width), &mut out);
        }
        assert_eq!(out, []);
    }
}
