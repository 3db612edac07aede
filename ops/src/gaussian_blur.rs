//! Gaussian blur, with a random standard deviation.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Op, class, on_numbers};
use crate::rows::RowFilter;
use crate::{KernelSize, NumberOrRange, ParamError, Size, TypeError};

/// Blurs an image with a random standard deviation.
///
#[cfg_attr(doc, doc = include_str!("../pictures/GaussianBlur.md"))]
///
/// This is torchvision's `GaussianBlur(kernel_size, sigma)`: one standard deviation per sample, uniform
/// in a range, is used along both axes, and the image is reflected at its edges.
///
/// ```text
/// k[i] = exp(-d^2 / (2 sigma^2)) / sum      d = i - (n - 1) / 2 pixels, a kernel for each axis
/// out  = rint(sum over i of ky[i] * (sum over j of kx[j] * in[y + i - m / 2, x + j - n / 2]))
/// ```
///
/// Values differ from torchvision's by at most 1, in fewer than one of 10000 values. torchvision rejects a
/// kernel that reaches farther than the image; here the reflection continues.
///
/// | | |
/// |--------|-------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                                      |
/// | output | as the input                                                                  |
/// | random | sigma                                                                         |
/// | cost   | per value one multiplication and one addition for each weight of both kernels |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![GaussianBlur::new(5)?, GaussianBlur::new(9)?.sigma(0.5..=1.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(NEIGHBOURHOOD, "blurs an image by a random amount")]
pub struct GaussianBlur {
    /// Builds the op with a kernel of `kernel_size` (pixels a side, or columns and rows), and a sigma
    /// drawn from 0.1 to 2 pixels.
    #[param("odd numbers", given = KernelSize, check = odd_sides, example = 5, draw = [0; 2].map(|_| 1 + 2 * rng.below(5)),
        errors = "If a number of the kernel is even or not in `1..=1023`")]
    kernel_size: [u32; 2],
    /// Sets the standard deviation in pixels, or the range that it is drawn from.
    #[param("standard deviation in pixels, or its range", given = NumberOrRange, positive, default = 0.1..=2.0)]
    sigma: (f32, f32),
}

/// Checks that the sides of a kernel are odd, and not too long.
fn odd_sides(
    op: &'static str,
    param: &'static str,
    kernel: KernelSize,
) -> Result<[u32; 2], ParamError> {
    let sides = [kernel.width, kernel.height];
    match sides.into_iter().find(|side| side.is_multiple_of(2) || *side > 1023) {
        Some(side) => Err(ParamError::new(op, param, side, "an odd number in 1..=1023")),
        None => Ok(sides),
    }
}

#[class(Geometry)]
impl Op for GaussianBlur {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.kernel_size == [1, 1]
    }
}

impl GeometryOp for GaussianBlur {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let sigma = rng.uniform(self.sigma.0, self.sigma.1);
        out.push(GeometryStep::Rows(RowFilter::GaussianBlur {
            kernel: self.kernel_size,
            sigma: [sigma; 2],
        }));
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
    use crate::picture::FloatImage;
    use crate::rng::SampleKey;
    use crate::{DType, NumberRule};

    #[test]
    fn nine_pixels_are_blurred_as_torchvision_does() {
        let pixels = [1, 2, 3, 4, 100, 6, 7, 8, 9].map(|v| [v; 3]);
        let input =
            crate::shape::ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        let mut out = vec![];
        let blur = GaussianBlur::new(3).unwrap().sigma(1.0).unwrap();
        blur.draw(&mut SampleKey::new(0, 0, 0).op(0), input.size(), &mut out);
        let blurred = FloatImage::from_view(&input).unwrap();
        let blurred =
            blurred.moved(&out[0], NumberRule::Exact, DType::U8).unwrap().to_u8().unwrap();
        assert_eq!(blurred, [32, 27, 33, 28, 24, 29, 34, 30, 35].map(|v| [v; 3]).as_flattened());
    }

    #[test]
    fn bad_parameters_are_refused() {
        for kernel in [0, 2, 1025] {
            assert!(GaussianBlur::new(kernel).is_err(), "{kernel}");
        }
    }
}
