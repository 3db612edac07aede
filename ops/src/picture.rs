//! A picture as the oracle sees it: one pixel after the other, as numbers.

use crate::rows::byte;
use crate::{ImageView, Interpolation, Motion, NumberRule, Size, Window, area, bilinear};

/// An image of `[f32; 3]` pixels, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    size: Size,
    pixels: Vec<[f32; 3]>,
}

impl Picture {
    /// The picture of a decoded image.
    #[must_use]
    pub fn from_view(view: &ImageView<'_>) -> Self {
        let size = view.size();
        let rows = (0..size.height).map(|y| view.row(y));
        let pixels = rows.flat_map(|row| row.chunks_exact(3));
        Self { size, pixels: pixels.map(|p| [p[0], p[1], p[2]].map(f32::from)).collect() }
    }

    /// The picture after a change of its pixels as u8.
    #[must_use]
    pub fn changed(&self, change: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = self.to_u8();
        change(&mut bytes);
        let view = ImageView::packed(&bytes, self.size).expect("to_u8 gives 3 bytes a pixel");
        Self::from_view(&view)
    }

    /// Rows and columns.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// The pixels, row by row.
    #[must_use]
    pub fn pixels(&self) -> &[[f32; 3]] {
        &self.pixels
    }

    /// The pixels, row by row.
    pub fn pixels_mut(&mut self) -> &mut [[f32; 3]] {
        &mut self.pixels
    }

    /// The picture after `motion`, under a rule.
    #[must_use]
    pub fn moved(&self, motion: &Motion, rule: NumberRule) -> Self {
        let Size { height, width } = self.size;
        match *motion {
            Motion::Frame { top, left, size, fill } => self.gathered(size, |y, x| {
                let (y, x) = (i64::from(y) + i64::from(top), i64::from(x) + i64::from(left));
                let inside =
                    (0..i64::from(height)).contains(&y) && (0..i64::from(width)).contains(&x);
                if inside { self.at(y as u32, x as u32) } else { fill.map(f32::from) }
            }),
            Motion::FlipHorizontal => self.gathered(self.size, |y, x| self.at(y, width - 1 - x)),
            Motion::FlipVertical => self.gathered(self.size, |y, x| self.at(height - 1 - y, x)),
            Motion::Resize { .. } | Motion::Rows(_) => self.made(motion, rule),
        }
    }

    /// The picture with `window` painted over.
    #[must_use]
    pub fn painted(&self, window: Window, fill: [f32; 3]) -> Self {
        let covers = |y: u32, x: u32| {
            (window.top..window.top + window.height).contains(&y)
                && (window.left..window.left + window.width).contains(&x)
        };
        self.gathered(self.size, |y, x| if covers(y, x) { fill } else { self.at(y, x) })
    }

    /// Clamps all values to 0..=255 and rounds them half to even.
    pub fn round(&mut self) {
        for pixel in &mut self.pixels {
            *pixel = pixel.map(|v| f32::from(to_u8(v)));
        }
    }

    /// The pixels as u8, channels last: clamped and rounded half to even.
    #[must_use]
    pub fn to_u8(&self) -> Vec<u8> {
        self.pixels.iter().flatten().map(|&v| to_u8(v)).collect()
    }

    fn at(&self, y: u32, x: u32) -> [f32; 3] {
        self.pixels[y as usize * self.size.width as usize + x as usize]
    }

    fn gathered(&self, size: Size, pixel: impl Fn(u32, u32) -> [f32; 3]) -> Self {
        let places = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)));
        Self { size, pixels: places.map(|(y, x)| pixel(y, x)).collect() }
    }

    /// The picture of the rows that a motion makes.
    fn made(&self, motion: &Motion, rule: NumberRule) -> Self {
        let bytes = self.to_u8();
        let view = ImageView::packed(&bytes, self.size).expect("to_u8 gives 3 bytes a pixel");
        let size = motion.output(self.size);
        let made = match *motion {
            Motion::Resize { interpolation: Interpolation::Area, .. } => {
                area::resize(view, size).expect("no side is 0")
            }
            Motion::Resize { interpolation: Interpolation::BilinearAntialias, .. }
                if rule != NumberRule::Exact =>
            {
                bilinear::resize(&view, size)
            }
            _ => motion.filter().map_or_else(Vec::new, |filter| filter.eval(&view)),
        };
        let view = ImageView::packed(&made, size).expect("3 bytes a pixel were made");
        Self::from_view(&view)
    }
}

/// A value as u8: clamped to 0..=255, then rounded half to even.
#[must_use]
pub fn to_u8(value: f32) -> u8 {
    byte(value)
}
