//! Embossing: an image mixed with its relief, with random strength.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Op, class, on_levels};
use crate::rows::{ConvolutionKernel, RowFilter};
use crate::{Size, TypeError};

/// Mixes an image with its relief, lit from the bottom right, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/Emboss.md"))]
///
/// ```text
///       -1-s  -s   0             0 0 0
/// alpha  -s    1   s + (1-alpha) 0 1 0        s = strength, of 3x3 pixels
///        0     s  1+s            0 0 0
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------------|
/// | input  | image of levels                                                      |
/// | output | as the input                                                         |
/// | random | a coin `p`, then `alpha` and `strength`, uniform                       |
/// | cost   | nine multiplications and additions per value                         |
///
/// Albumentations' `Emboss`. Values differ by at most 1, where the order of sums decides.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Emboss::new().alpha(0.1..=0.3)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    NEIGHBOURHOOD,
    "mixes an image with its relief, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: an alpha of 0.2 to 0.5 and a strength of 0.2 to 0.7, for half of the images."
)]
pub struct Emboss {
    /// Sets the range of the share of the embossed image: 0 changes nothing.
    #[param("range of the share of the embossed image", 0.0..=1.0, default = 0.2..=0.5, draw = recipe::range(rng, 0.0, 0.5, 0.5))]
    alpha: (f32, f32),
    /// Sets the range of the strength of the relief.
    #[param("range of the strength of the relief", not_negative, default = 0.2..=0.7, draw = recipe::range(rng, 0.0, 1.0, 1.0))]
    strength: (f32, f32),
    #[param(share)]
    p: f64,
}

#[class(Geometry)]
impl Op for Emboss {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.alpha == (0.0, 0.0)
    }
}

/// Returns the kernel for an `alpha` and a `strength`.
fn kernel(alpha: f32, strength: f32) -> ConvolutionKernel {
    let s = strength;
    let effect = [[-1.0 - s, -s, 0.0], [-s, 1.0, s], [0.0, s, 1.0 + s]];
    let mut rows = effect.map(|row| row.map(|weight: f32| alpha * weight));
    rows[1][1] += 1.0 - alpha;
    ConvolutionKernel::Square(rows)
}

impl GeometryOp for Emboss {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let [alpha, strength] =
            [self.alpha, self.strength].map(|(low, high)| rng.uniform(low, high));
        if runs {
            out.push(GeometryStep::Rows(RowFilter::Convolve(kernel(alpha, strength))));
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
    fn a_rise_to_the_right_is_brighter() {
        let pixels = [10, 10, 10, 10, 40, 10, 10, 10, 10].map(|v| [v; 3]);
        let input = ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        let middle =
            |alpha, strength| RowFilter::Convolve(kernel(alpha, strength)).eval(&input)[4 * 3];
        assert_eq!(middle(0.0, 0.7), 40);
        assert_eq!(middle(0.5, 0.7), 40);
        let rise = [0, 10, 20, 0, 10, 20, 0, 10, 20].map(|v| [v; 3]);
        let input = ImageView::packed(rise.as_flattened(), Size::new(3, 3)).unwrap();
        let out = RowFilter::Convolve(kernel(1.0, 0.5)).eval(&input);
        assert_eq!(out[4 * 3], 50); // (1 + 2 * 0.5) * (20 - 0) + 10
    }
}
