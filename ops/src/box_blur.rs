//! Box blur: every pixel becomes the mean of the pixels around it.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Op, OpClass, Rng, RowProducer, Type};
use crate::op::on_numbers;
use crate::registry::{
    Golden, NEIGHBOURHOOD, OpInfo, ParamKind, ParamValue, Recipe, Recipes, built, required,
};
use crate::rows::RowFilter;
use crate::{KernelSize, ParamError, Size, TypeError};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxBlur {
    /// The numbers of columns and rows.
    kernel: [u32; 2],
}

impl BoxBlur {
    /// Builds the op with a kernel of `kernel_size`: pixels a side, or columns and rows.
    ///
    /// # Errors
    ///
    /// If a number is not in `1..=255`.
    pub fn new(kernel_size: impl Into<KernelSize>) -> Result<Self, ParamError> {
        let is_accepted = |side| (1..=255).contains(&side);
        Ok(Self { kernel: kernel_size.into().checked("BoxBlur", is_accepted, "1..=255")? })
    }
}

impl Op for BoxBlur {
    fn name(&self) -> &'static str {
        "BoxBlur"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.kernel == [1, 1]
    }
}

impl GeometryOp for BoxBlur {
    fn draw(&self, _: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        out.push(GeometryStep::Rows(RowFilter::BoxBlur { kernel: self.kernel }));
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Stay
    }
}

impl BoxBlur {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "BoxBlur",
        class: NEIGHBOURHOOD,
        summary: "makes every pixel the mean of those around it",
        params: &[required(
            "kernel_size",
            ParamKind::Kernel,
            ParamValue::Int(3),
            "how many pixels",
        )],
        aliases: &[],
        build: |args| Ok(built(BoxBlur::new(args.kernel("kernel_size")?)?)),
        recipes: Recipes::Drawn(&[Recipe {
            name: "BoxBlur",
            draw: |rng, _| Ok(built(BoxBlur::new([0; 2].map(|_| 1 + rng.below(8)))?)),
        }]),
        golden: Golden::Tested,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_without_pixels_or_too_large_are_refused() {
        for kernel in [[0, 3], [3, 0], [256, 1]] {
            assert!(BoxBlur::new(kernel).is_err(), "{kernel:?}");
        }
    }
}
