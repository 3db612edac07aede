//! Random sized crop: a window of a random height and a fixed aspect ratio, scaled to a fixed size.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{Op, class, on_numbers};
use crate::registry::ParamLimits;
use crate::shape::Window;
use crate::{Interpolation, Size, TypeError, geometry_step};
use std::ops::RangeInclusive;

/// Cuts a window whose height is drawn and whose aspect ratio is fixed, and scales it to a fixed size.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomSizedCrop.md"))]
///
/// ```text
/// h = U{min_max_height}          w = floor(h * w2h_ratio)      at most the image's height and width, at least 1
/// top = U{0..=height - h}        left = U{0..=width - w}
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                       |
/// | output | u8 image of the given size                                    |
/// | random | the height, then the corner                                   |
/// | cost   | the resize; the window is known before a pixel is decoded     |
///
/// Albumentations' `RandomSizedCrop`, which refuses images that are smaller than the window.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomSizedCrop::new(224, 160..=320)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq)]
#[op(
    GEOMETRY,
    "cuts a window of a random height and scales it to a fixed size",
    golden = "a crop and a Resize, which has goldens, of a window that is tested"
)]
pub struct RandomSizedCrop {
    /// An output of `size` (one number of pixels for a square, or height and width), of windows whose heights are in
    /// `min_max_height`, in pixels.
    #[param(size)]
    size: Size,
    #[param("range of the window's height in pixels", example = 64..=128, draw = random_heights(rng), limits = ParamLimits::SIDE,
        errors = "If a size is not in `1..=65535`, or the range is empty or not in it")]
    min_max_height: RangeInclusive<u32>,
    /// Sets the window's width over its height.
    #[param("the window's width over its height", positive, default = 1.0, draw = 0.3..=3.0)]
    w2h_ratio: f64,
    #[param(interpolation, antialias)]
    interpolation: Interpolation,
}

fn random_heights(rng: &mut Rng) -> RangeInclusive<u32> {
    let low = 1 + rng.below(40);
    low..=low + rng.below(40)
}

impl RandomSizedCrop {
    fn window(&self, rng: &mut Rng, size: Size) -> Window {
        let (low, high) = (*self.min_max_height.start(), *self.min_max_height.end());
        let drawn = low + rng.below(high - low + 1);
        let width = ((f64::from(drawn) * self.w2h_ratio) as u32).clamp(1, size.width.max(1));
        let height = drawn.min(size.height);
        let top = rng.below(size.height - height + 1);
        let left = rng.below(size.width.saturating_sub(width) + 1);
        Window { top, left, height, width: width.min(size.width) }
    }
}

#[class(Geometry)]
impl Op for RandomSizedCrop {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image.with_size(self.size))
    }
}

impl GeometryOp for RandomSizedCrop {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        out.push(geometry_step::crop(self.window(rng, size)));
        out.push(GeometryStep::Resize { size: self.size, interpolation: self.interpolation });
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::shape::is_inside;

    #[test]
    fn windows_have_the_heights_and_the_ratio_asked_for_and_lie_inside() {
        let op = RandomSizedCrop::new(24, 10..=13).unwrap().w2h_ratio(1.5).unwrap();
        let mut seen = [0; 14];
        for sample in 0..400 {
            let window = op.window(&mut SampleKey::new(0, 0, sample).op(0), Size::new(30, 21));
            assert!(is_inside(window, Size::new(30, 21)));
            assert_eq!(window.width, window.height * 3 / 2);
            seen[window.height as usize] += 1;
        }
        assert!(seen[10..].iter().all(|n| *n > 60), "{seen:?}");
    }

    #[test]
    fn a_small_image_is_taken_whole() {
        let op = RandomSizedCrop::new(24, 10..=13).unwrap();
        let window = op.window(&mut SampleKey::new(0, 0, 1).op(0), Size::new(4, 7));
        assert_eq!(window, Window { top: 0, left: 0, height: 4, width: 7 });
        assert!(RandomSizedCrop::new(24, 0..=13).is_err());
    }
}
