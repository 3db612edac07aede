//! Bands of rows or columns: the masks of a spectrogram.

use crate::author::Rng;
use crate::fill_value::FillValue;
use crate::op::on_image;
use crate::shape::Window;
use crate::{TypeError, author::Type};

/// A random band along an axis, and the value that it gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AxisMask {
    /// The upper bound of the width, which no band reaches.
    pub(crate) mask_param: u32,
    /// The upper bound of the band's share of the axis.
    pub(crate) p: f64,
    pub(crate) fill: FillValue,
}

impl AxisMask {
    /// Returns the type of the output of an op that writes the band.
    pub(crate) fn output(&self, op: &'static str, input: &Type) -> Result<Type, TypeError> {
        self.fill.check(op, input)?;
        on_image(op, input, |image| image)
    }

    /// Returns this mask for images of a type, if another value is written there.
    pub(crate) fn for_input(self, input: &Type) -> Option<Self> {
        match input {
            Type::Image(image) => Some(Self { fill: self.fill.stored_as(image.dtype), ..self }),
            Type::Tensor { .. } => None,
        }
    }

    /// Returns true if every band is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.mask_param == 0 || self.p == 0.0
    }

    /// Draws the band of an axis of `len` rows or columns: its first one, and their number.
    pub(crate) fn draw(&self, rng: &mut Rng, len: u32) -> [u32; 2] {
        let draws = [rng.unit(), rng.unit()];
        let most = match self.p {
            1.0 => self.mask_param,
            p => self.mask_param.min((f64::from(len) * p) as u32),
        };
        if most == 0 { [0, 0] } else { band(most, len, draws) }
    }
}

/// torchaudio's `mask_along_axis`, in f32 as there. If the band is wider than the axis, it covers the axis.
fn band(mask_param: u32, len: u32, [width, position]: [f32; 2]) -> [u32; 2] {
    let width = width * mask_param as f32;
    let first = (position * (len as f32 - width)) as i64;
    let end = (first + width as i64).min(i64::from(len));
    let first = first.max(0);
    [first as u32, (end - first).max(0) as u32]
}

/// Returns the window of a band of rows of an image of `width` columns.
pub(crate) fn rows([top, height]: [u32; 2], width: u32) -> Window {
    match height {
        0 => NOWHERE,
        _ => Window { top, left: 0, height, width },
    }
}

/// Returns the window of a band of columns of an image of `height` rows.
pub(crate) fn columns([left, width]: [u32; 2], height: u32) -> Window {
    match width {
        0 => NOWHERE,
        _ => Window { top: 0, left, height, width },
    }
}

const NOWHERE: Window = Window { top: 0, left: 0, height: 0, width: 0 };

/// The tests of the ops that mask rows or columns.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::op::{Dim, ImageType, Op, RegionOp};
    use crate::rng::SampleKey;
    use crate::shape::is_inside;
    use crate::{DType, ParamError, Size};

    /// Checks the windows of an op: they are in the image, and `is_across` returns true for those that are not empty.
    pub(crate) fn check_windows(op: &impl RegionOp, is_across: impl Fn(Window, Size) -> bool) {
        for (height, width) in [(80, 100), (100, 80), (5, 5), (1, 1), (1, 300), (300, 1)] {
            let size = Size::new(height, width);
            let mut masked = 0;
            for sample in 0..500 {
                let window = op.draw(&mut SampleKey::new(0, 0, sample).op(0), size);
                assert!(is_inside(window, size), "{window:?} in {size}");
                if window.size().pixels() > 0 {
                    masked += 1;
                    assert!(is_across(window, size), "{window:?} in {size}");
                }
            }
            assert!(masked > 400, "{masked} of 500 have a mask");
        }
    }

    /// Checks an op for masks of fewer than 2 rows or columns, by its fill.
    pub(crate) fn check_fills<O: Op>(with_fill: impl Fn(f32) -> Result<O, ParamError>) {
        let image = ImageType::decoded(Dim::fixed(4), Dim::fixed(4));
        let floats = Type::Image(ImageType { dtype: DType::F32, ..image });
        let bytes = Type::Image(image);
        let op = with_fill(7.5).unwrap();
        let on_bytes = op.for_input(&bytes).unwrap();
        assert_eq!(format!("{on_bytes:?}"), format!("{:?}", with_fill(7.0).unwrap()));
        let on_floats = op.for_input(&floats).unwrap();
        assert_eq!(format!("{on_floats:?}"), format!("{op:?}"));
        let below = with_fill(-80.0).unwrap();
        assert!(below.output(&bytes).is_err());
        assert!(below.output(&floats).is_ok());
        assert!(with_fill(f32::INFINITY).is_err());
    }

    /// Checks an op by the upper bound of its masks.
    pub(crate) fn check_bounds<O: Op>(bounded: impl Fn(u32) -> Result<O, ParamError>) {
        let image = Type::Image(ImageType::decoded(Dim::fixed(4), Dim::fixed(4)));
        assert!(bounded(0).unwrap().does_nothing(&image));
        assert!(!bounded(1).unwrap().does_nothing(&image));
    }

    #[test]
    fn a_band_is_that_of_the_formula() {
        // v = 0.5 * 10; lo = 0.25 * (100 - 5) = 23.75; hi = 23 + 5
        assert_eq!(band(10, 100, [0.5, 0.25]), [23, 5]);
        assert_eq!(band(10, 100, [0.0, 0.999]), [99, 0]);
        // v = 7.5; lo = 0.5 * 92.5 = 46.25; hi = 46 + 7
        assert_eq!(band(10, 100, [0.75, 0.5]), [46, 7]);
    }

    #[test]
    fn a_band_lies_inside_and_one_that_is_wider_covers_the_axis() {
        let mut rng = Rng::new(3);
        for (mask_param, len) in [(1, 1), (10, 100), (100, 100), (65_535, 65_535), (65_535, 7)] {
            for _ in 0..2000 {
                let draws = [rng.unit(), rng.unit()];
                let [first, count] = band(mask_param, len, draws);
                assert!(first + count <= len && count < mask_param.max(1), "{mask_param}, {len}");
                if draws[0] * mask_param as f32 >= len as f32 {
                    assert_eq!([first, count], [0, len], "{mask_param}, {len}, {draws:?}");
                }
            }
        }
    }

    #[test]
    fn widths_are_uniform_and_bounded_by_a_share_of_the_axis() {
        let mask = AxisMask { mask_param: 8, p: 1.0, fill: FillValue::ZERO };
        let mut rng = Rng::new(4);
        let mut seen = [0u32; 8];
        for _ in 0..8000 {
            seen[mask.draw(&mut rng, 50)[1] as usize] += 1;
        }
        assert!(seen.iter().all(|n| n.abs_diff(1000) < 150), "{seen:?}");
        let share = AxisMask { p: 0.1, ..mask };
        assert!((0..1000).all(|_| share.draw(&mut rng, 50)[1] < 5));
        assert!((0..1000).all(|_| share.draw(&mut rng, 9) == [0, 0]));
    }
}
