//! Box blur: every pixel becomes the mean of the pixels around it.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Op, class, on_numbers};
use crate::rows::RowFilter;
use crate::{KernelSize, Size, TypeError};

/// Blurs an image: every pixel becomes the mean of the pixels around it.
///
#[cfg_attr(doc, doc = include_str!("../pictures/BoxBlur.md"))]
///
/// The kernel starts `floor(side / 2)` pixels before the pixel, and the image is reflected at its
/// edges. The result is that of OpenCV's `blur(ksize)`, to the bit, for kernels of up to 4096 pixels
/// whose number of pixels is not a power of two. For powers of two, OpenCV rounds more than half of the
/// means up, while this op rounds to the nearest integer.
///
/// ```text
/// out[y, x] = rint((sum + 1/4) / (m * n))     the sum of m rows from y - floor(m / 2), n columns likewise
/// ```
///
/// | | |
/// |--------|----------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                       |
/// | output | as the input                                                   |
/// | random | nothing                                                        |
/// | cost   | per value as many additions as the kernel has rows and columns |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![BoxBlur::new(3)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(NEIGHBOURHOOD, "makes every pixel the mean of those around it")]
pub struct BoxBlur {
    /// Builds the op with a kernel of `kernel_size`: pixels a side, or columns and rows.
    #[param("how many pixels", given = KernelSize, 1..=255, example = 3, draw = [0; 2].map(|_| 1 + rng.below(8)))]
    kernel_size: [u32; 2],
}

#[class(Geometry)]
impl Op for BoxBlur {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.kernel_size == [1, 1]
    }
}

impl GeometryOp for BoxBlur {
    fn draw(&self, _: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        out.push(GeometryStep::Rows(RowFilter::BoxBlur { kernel: self.kernel_size }));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Stay
    }
}
