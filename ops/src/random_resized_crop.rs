//! Random resized crop: a random rectangle of the image, scaled to a fixed size.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::op::{Op, class, on_numbers};
use crate::shape::Window;
use crate::{Interpolation, Size, TypeError, geometry_step};

/// Cuts a random rectangle and scales it to a fixed size.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomResizedCrop.md"))]
///
/// The rectangle covers a share `scale` of the area with an aspect ratio (width / height) in
/// `ratio` (Szegedy et al., arXiv:1409.4842, section 6). It is drawn in the same way as by torchvision's
/// and FFCV's `RandomResizedCrop`:
///
/// ```text
/// up to 10 times:
///     area   = height * width * U(scale)
///     aspect = exp(U(ln ratio))
///     w = round_half_even(sqrt(area * aspect));  h = round_half_even(sqrt(area / aspect))
///     if 0 < w <= width and 0 < h <= height:  top = U{0..=height-h}; left = U{0..=width-w}; stop
/// otherwise: the largest centred rectangle within ratio
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                                      |
/// | output | u8 image of the given size                                    |
/// | random | an area and an aspect for each try, then the corner           |
/// | cost   | the resize; the rectangle is known before a pixel is decoded  |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomResizedCrop::new(224)?.scale(0.3..=1.0)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(GEOMETRY, "cuts a random rectangle and scales it to a fixed size")]
pub struct RandomResizedCrop {
    /// An output of `size` (one number of pixels for a square, or height and width), with torchvision's
    /// and FFCV's ranges: a share of 0.08 to 1 of the area, aspect ratios from 3/4 to 4/3.
    #[param(size)]
    size: Size,
    /// Sets the range of the rectangle's share of the area.
    #[param("share of the area", positive, default = 0.08..=1.0)]
    scale: (f64, f64),
    /// Sets the range of the rectangle's width over its height.
    #[param("width over height", positive, default = 3.0 / 4.0..=4.0 / 3.0, draw = 0.75..=1.33)]
    ratio: (f64, f64),
    #[param(interpolation, antialias)]
    interpolation: Interpolation,
}

impl RandomResizedCrop {
    /// Draws the rectangle of one sample.
    fn window(&self, rng: &mut Rng, size: Size) -> Window {
        for _ in 0..TRIES {
            if let Some(window) = self.attempt(rng, size) {
                return window;
            }
        }
        self.fallback(size)
    }

    fn attempt(&self, rng: &mut Rng, size: Size) -> Option<Window> {
        let (low, high) = self.scale;
        let area = size.pixels() as f64 * f64::from(rng.uniform(low as f32, high as f32));
        let (low, high) = (libm::log(self.ratio.0) as f32, libm::log(self.ratio.1) as f32);
        let aspect = f64::from(libm::exp(f64::from(rng.uniform(low, high))) as f32);
        let width = (area * aspect).sqrt().round_ties_even() as u32;
        let height = (area / aspect).sqrt().round_ties_even() as u32;
        if !(1..=size.width).contains(&width) || !(1..=size.height).contains(&height) {
            return None;
        }
        let top = rng.below(size.height - height + 1);
        let left = rng.below(size.width - width + 1);
        Some(Window { top, left, height, width })
    }

    /// Returns the largest centred rectangle within the ratios.
    fn fallback(&self, size: Size) -> Window {
        let Size { height, width } = size;
        let aspect = f64::from(width) / f64::from(height);
        let rounded = |side: f64, most: u32| (side.round_ties_even() as u32).clamp(1, most);
        let (height, width) = if aspect < self.ratio.0 {
            (rounded(f64::from(width) / self.ratio.0, height), width)
        } else if aspect > self.ratio.1 {
            (height, rounded(f64::from(height) * self.ratio.1, width))
        } else {
            (height, width)
        };
        let (top, left) = ((size.height - height) / 2, (size.width - width) / 2);
        Window { top, left, height, width }
    }
}

/// The number of attempts, as in torchvision and FFCV.
const TRIES: u32 = 10;

#[class(Geometry)]
impl Op for RandomResizedCrop {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image.with_size(self.size))
    }
}

impl GeometryOp for RandomResizedCrop {
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
    use std::ops::RangeInclusive;

    fn usual(scale: RangeInclusive<f64>) -> RandomResizedCrop {
        RandomResizedCrop::new(224).unwrap().scale(scale).unwrap()
    }

    #[test]
    fn rectangles_fit_and_keep_area_and_aspect() {
        let (crop, size) = (usual(0.08..=1.0), Size::new(375, 500));
        for sample in 0..2000 {
            let window = crop.window(&mut SampleKey::new(0, 0, sample).op(0), size);
            assert!(is_inside(window, size));
            let area = window.size().pixels() as f64 / size.pixels() as f64;
            let aspect = f64::from(window.width) / f64::from(window.height);
            assert!((0.078..=1.0).contains(&area), "{window:?}");
            assert!((0.74..=1.35).contains(&aspect), "{window:?}");
        }
    }

    #[test]
    fn a_thin_image_falls_back_to_its_centre() {
        let window =
            usual(1.0..=1.0).window(&mut SampleKey::new(0, 0, 0).op(0), Size::new(10, 900));
        assert_eq!(window, Window { top: 0, left: 443, height: 10, width: 13 });
        let window =
            usual(1.0..=1.0).window(&mut SampleKey::new(0, 0, 0).op(0), Size::new(900, 10));
        assert_eq!(window, Window { top: 443, left: 0, height: 13, width: 10 });
        let window = usual(1.0..=1.0).window(&mut SampleKey::new(0, 0, 0).op(0), Size::new(900, 1));
        assert_eq!(window.size(), Size::new(1, 1));
    }
}
