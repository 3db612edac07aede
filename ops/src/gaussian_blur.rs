//! Gaussian blur, with a random standard deviation.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Op, OpClass, Rng, RowProducer, Type};
use crate::default_floats::nearest_f32;
use crate::error::positive_range;
use crate::op::on_numbers;
use crate::registry::{
    Golden, NEIGHBOURHOOD, OpInfo, ParamKind, ParamValue, Recipe, Recipes, built, required,
    with_default,
};
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GaussianBlur {
    /// The numbers of columns and rows.
    kernel: [u32; 2],
    sigma: (f32, f32),
}

impl GaussianBlur {
    /// Builds the op with a kernel of `kernel_size` (pixels a side, or columns and rows), and a sigma
    /// drawn from 0.1 to 2 pixels.
    ///
    /// # Errors
    ///
    /// If a number of the kernel is even or not in `1..=1023`.
    pub fn new(kernel_size: impl Into<KernelSize>) -> Result<Self, ParamError> {
        let is_accepted = |side: u32| side % 2 == 1 && side <= 1023;
        let kernel = kernel_size.into().checked(OP, is_accepted, "an odd number in 1..=1023")?;
        Ok(Self { kernel, sigma: (0.1, 2.0) })
    }

    /// Sets the standard deviation in pixels, or the range that it is drawn from. Default `0.1..=2.0`.
    ///
    /// # Errors
    ///
    /// If the range is empty, not finite or not above 0.
    pub fn sigma(self, sigma: impl Into<NumberOrRange>) -> Result<Self, ParamError> {
        let (low, high) = sigma.into().ends();
        let (low, high) = positive_range(OP, "sigma", low, high)?;
        Ok(Self { sigma: (nearest_f32(low), nearest_f32(high)), ..self })
    }
}

const OP: &str = "GaussianBlur";

impl Op for GaussianBlur {
    fn name(&self) -> &'static str {
        "GaussianBlur"
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

impl GeometryOp for GaussianBlur {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let sigma = rng.uniform(self.sigma.0, self.sigma.1);
        out.push(GeometryStep::Rows(RowFilter::GaussianBlur {
            kernel: self.kernel,
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

impl GaussianBlur {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "GaussianBlur",
        class: NEIGHBOURHOOD,
        summary: "blurs an image by a random amount",
        params: &[
            required("kernel_size", ParamKind::Kernel, ParamValue::Int(5), "odd numbers"),
            with_default(
                "sigma",
                ParamKind::NumberOrRange,
                ParamValue::Floats(&[0.1, 2.0]),
                "standard deviation in pixels, or its range",
            ),
        ],
        aliases: &[],
        build: |args| {
            let op = GaussianBlur::new(args.kernel("kernel_size")?)?;
            Ok(built(op.sigma(args.number_or_range("sigma")?)?))
        },
        recipes: Recipes::Drawn(&[Recipe {
            name: "GaussianBlur",
            draw: |rng, _| {
                let kernel = [0; 2].map(|_| 1 + 2 * rng.below(5));
                Ok(built(GaussianBlur::new(kernel)?))
            },
        }]),
        golden: Golden::Tested,
    };
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
        for sigma in [0.0..=1.0, 2.0..=1.0, f64::NAN..=1.0, 1.0..=f64::INFINITY] {
            assert!(GaussianBlur::new(3).unwrap().sigma(sigma.clone()).is_err(), "{sigma:?}");
        }
    }
}
