//! JPEG: an image as a JPEG encoder and a decoder leave it.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::op::{Op, class, on_colors, on_u8_image};
use crate::registry::{Checked, ParamLimits};
use crate::rows::RowFilter;
use crate::{NumberOrRange, ParamError, Size, TypeError};

/// Compresses images as JPEG and decodes them again.
///
#[cfg_attr(doc, doc = include_str!("../pictures/JPEG.md"))]
///
/// ```text
/// out = IDCT(rint(DCT(v - 128) / step) * step) + 128      of 8x8 values v of Y, and of Cb and Cr of 2x2 pixels
/// step = (table * scale + 50) / 100 in 1..=255            scale = 5000 / quality below 50, else 200 - 2 quality
/// ```
///
/// The tables are those of ITU-T T.81, annex K. Nothing is encoded to bytes: that step loses nothing.
///
/// | | |
/// |--------|----------------------------------------------------------------------------------|
/// | input  | u8 image of levels with 3 channels, or 1                                         |
/// | output | as the input                                                                     |
/// | random | the quality                                                                      |
/// | cost   | about fifty operations per value                                                 |
///
/// torchvision's `JPEG` and Albumentations' `ImageCompression`, to the bit of libjpeg-turbo with sampling 4:2:0, which
/// both use.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![JPEG::new(30.0..=95.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(NEIGHBOURHOOD, "compresses images as JPEG and decodes them again")]
pub struct JPEG {
    /// A quality of 1 to 100, or whole numbers in a range of it.
    #[param("quality of 1 to 100, or a range of it", example = 75, given = NumberOrRange, check = qualities, limits = QUALITIES,
        draw = random_qualities(rng), errors = "If a quality is not a whole number in `1..=100`, or a range is empty")]
    quality: (u32, u32),
}

const QUALITIES: ParamLimits =
    ParamLimits::new(1.0, 100.0, "whole numbers, 1 <= low <= high <= 100");

/// Checks a quality, one number or a range.
fn qualities(
    op: &'static str,
    param: &'static str,
    quality: NumberOrRange,
) -> Result<(u32, u32), ParamError> {
    let (low, high): (f64, f64) = {
        let (low, high) = quality.ends();
        (low..=high).checked(op, param, QUALITIES)?
    };
    if low.fract() != 0.0 || high.fract() != 0.0 {
        return Err(ParamError::new(op, param, format!("{low}..={high}"), QUALITIES.expected));
    }
    Ok((low as u32, high as u32))
}

fn random_qualities(rng: &mut Rng) -> NumberOrRange {
    let low = f64::from(1 + rng.below(100));
    match rng.coin(0.5) {
        true => NumberOrRange::Number(low),
        false => NumberOrRange::Range(low..=f64::from(rng.below(101)).max(low)),
    }
}

#[class(Geometry)]
impl Op for JPEG {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name(), &on_colors(self.name(), input)?, |image| image)
    }
}

impl GeometryOp for JPEG {
    fn draw(&self, rng: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        let (low, high) = self.quality;
        let quality = low + rng.below(high - low + 1);
        out.push(GeometryStep::Rows(RowFilter::Jpeg { quality }));
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
    use crate::rng::SampleKey;
    use crate::shape::ImageView;

    #[test]
    fn every_quality_of_the_range_is_drawn() {
        let op = JPEG::new(3.0..=5.0).unwrap();
        let mut seen = [0; 7];
        for sample in 0..300 {
            let mut steps = vec![];
            op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(9, 9), &mut steps);
            let [GeometryStep::Rows(RowFilter::Jpeg { quality })] = steps[..] else { panic!() };
            seen[quality as usize] += 1;
        }
        assert!(seen[3..6].iter().all(|n| *n > 60) && seen.iter().sum::<u32>() == 300, "{seen:?}");
    }

    #[test]
    fn a_flat_image_stays_and_an_edge_rings_more_at_a_lower_quality() {
        let flat = [100; 16 * 16];
        let edge: Vec<u8> = (0..256).map(|i| if i % 16 < 5 { 0 } else { 255 }).collect();
        let off = |pixels: &[u8], quality| {
            let input = ImageView::packed_channels(pixels, Size::new(16, 16), 1).unwrap();
            let out = RowFilter::Jpeg { quality }.eval(&input);
            out.iter().zip(pixels).map(|(a, b)| u32::from(a.abs_diff(*b))).sum::<u32>()
        };
        assert_eq!(off(&flat, 100), 0);
        assert!(off(&edge, 100) < off(&edge, 50) && off(&edge, 50) < off(&edge, 5));
    }

    #[test]
    fn bad_qualities_are_refused() {
        for quality in [0.0, 101.0, 50.5, f64::NAN] {
            assert!(JPEG::new(quality).is_err(), "{quality}");
        }
        assert!(JPEG::new(9.0..=3.0).is_err() && JPEG::new(1.0..=100.0).is_ok());
    }
}
