//! Sharpening: an image mixed with its edges, with random strength.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Op, class, on_levels};
use crate::rows::{ConvolutionKernel, RowFilter};
use crate::{Size, TypeError};

/// Adds the edges of an image to it, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Sharpen.md"))]
///
/// ```text
///       -1 -1 -1            0 0 0
/// alpha -1  m -1 + (1-alpha) 0 1 0        m = 8 + lightness, of 3x3 pixels
///       -1 -1 -1            0 0 0
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of levels                                                      |
/// | output | as the input                                                         |
/// | random | a coin `p`, then `alpha` and `lightness`, uniform                       |
/// | cost   | nine multiplications and additions per value                         |
///
/// Albumentations' `Sharpen` with its method `kernel`; its method `gaussian` is left out. Values differ by at most 1, where
/// the order of sums decides. With a lightness of 1 a flat image stays as it is; below 1 it gets darker. See
/// [`RandomAdjustSharpness`](crate::RandomAdjustSharpness) for torchvision's.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Sharpen::new().alpha(0.1..=0.3)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    NEIGHBOURHOOD,
    "adds the edges of an image to it, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: an alpha of 0.2 to 0.5 and a lightness of 0.5 to 1, for half of the images."
)]
pub struct Sharpen {
    /// Sets the range of the share of the sharpened image: 0 changes nothing.
    #[param("range of the share of the sharpened image", 0.0..=1.0, default = 0.2..=0.5, draw = recipe::range(rng, 0.0, 0.5, 0.5))]
    alpha: (f32, f32),
    /// Sets the range of the lightness: 1 keeps the brightness, and less is darker.
    #[param("range of the lightness: 1 keeps the brightness", not_negative, default = 0.5..=1.0, draw = recipe::range(rng, 0.0, 1.0, 1.0))]
    lightness: (f32, f32),
    #[param(share)]
    p: f64,
}

#[class(Geometry)]
impl Op for Sharpen {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.alpha == (0.0, 0.0)
    }
}

/// Returns the kernel for an `alpha` and a `lightness`.
fn kernel(alpha: f32, lightness: f32) -> ConvolutionKernel {
    let mut rows = [[-alpha; 3]; 3];
    rows[1][1] = (1.0 - alpha) + alpha * (8.0 + lightness);
    ConvolutionKernel::Square(rows)
}

impl GeometryOp for Sharpen {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let [alpha, lightness] =
            [self.alpha, self.lightness].map(|(low, high)| rng.uniform(low, high));
        if runs {
            out.push(GeometryStep::Rows(RowFilter::Convolve(kernel(alpha, lightness))));
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
    fn the_edge_of_a_bright_pixel_is_added() {
        let pixels = [10, 10, 10, 10, 40, 10, 10, 10, 10].map(|v| [v; 3]);
        let input = ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        let middle =
            |alpha, lightness| RowFilter::Convolve(kernel(alpha, lightness)).eval(&input)[4 * 3];
        assert_eq!(middle(0.0, 0.7), 40);
        assert_eq!(middle(0.1, 1.0), 64); // 0.9 * 40 + 0.1 * (9 * 40 - 8 * 10)
        assert_eq!(middle(1.0, 1.0), 255);
    }
}
