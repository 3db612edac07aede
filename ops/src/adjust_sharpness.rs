//! Random sharpness: an image moved away from its blurred version, or towards it.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Op, class, on_levels};
use crate::rows::RowFilter;
use crate::{Size, TypeError};

/// Moves an image away from its blurred version, or towards it, in a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomAdjustSharpness.md"))]
///
/// torchvision's `RandomAdjustSharpness(sharpness_factor, p)`, to the bit:
///
/// ```text
/// blur = floor((2 * (8 neighbours + 5 * in) + 13) / 26)
/// out  = trunc(clamp(fma(blur - in, f32(1 - factor), in), 0, 255))
/// ```
///
/// for a sample whose coin is heads. The first and last rows and columns stay unchanged, and so does an
/// image of fewer than 3 rows or columns.
///
/// | | |
/// |--------|----------------------------------------------------------|
/// | input  | image of levels                                                 |
/// | output | as the input                                             |
/// | random | a coin `p`                                               |
/// | cost   | 9 additions and 2 multiplications per channel of a pixel |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomAdjustSharpness::new(2.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(NEIGHBOURHOOD, "sharpens or blurs a share p of the images")]
pub struct RandomAdjustSharpness {
    /// Builds the op from a factor (0 blurs, 1 changes nothing, 2 sharpens) that is applied to half of
    /// the images.
    #[param("0 blurs, 1 changes nothing, 2 sharpens", not_negative, example = 2.0, draw = 0.0..=3.0)]
    sharpness_factor: f64,
    #[param(share)]
    p: f64,
}

#[class(Geometry)]
impl Op for RandomAdjustSharpness {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name(), input)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.sharpness_factor == 1.0
    }
}

impl GeometryOp for RandomAdjustSharpness {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        if rng.coin(self.p) {
            out.push(GeometryStep::Rows(RowFilter::Sharpen { factor: self.sharpness_factor }));
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
    use crate::picture::FloatImage;
    use crate::rng::SampleKey;
    use crate::shape::ImageView;
    use crate::{DType, NumberRule};

    #[test]
    fn the_middle_of_nine_pixels_is_torchvisions() {
        let pixels = [1, 2, 3, 4, 100, 6, 7, 8, 9].map(|v| [v; 3]);
        let input = ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        for (factor, middle) in [(0.0, 42), (0.5, 71), (2.0, 158)] {
            let mut out = vec![];
            let op = RandomAdjustSharpness::new(factor).unwrap().p(1.0).unwrap();
            op.draw(&mut SampleKey::new(0, 0, 0).op(0), input.size(), &mut out);
            let sharpened = FloatImage::from_view(&input).unwrap();
            let sharpened =
                sharpened.moved(&out[0], NumberRule::Exact, DType::U8).unwrap().to_u8().unwrap();
            assert_eq!(sharpened[4 * 3], middle, "{factor}");
        }
    }
}
