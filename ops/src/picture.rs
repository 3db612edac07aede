//! The oracle's image: an array of pixels, each of three `f32`.

use crate::author::GeometryStep;
use crate::memory::NoMemory;
use crate::rows::byte;
use crate::shape::{ImageView, Window};
use crate::{Interpolation, NumberRule, Size, area, bilinear, geometry_step, memory};

/// An image of `[f32; 3]` pixels, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatImage {
    size: Size,
    pixels: Vec<[f32; 3]>,
}

impl FloatImage {
    /// Converts a u8 image.
    ///
    /// # Errors
    ///
    /// If there is not enough memory: 12 bytes a pixel.
    pub fn from_view(view: &ImageView<'_>) -> Result<Self, NoMemory> {
        let size = view.size();
        let rows = (0..size.height).map(|y| view.row(y));
        let pixels = rows.flat_map(|row| row.chunks_exact(3));
        Self::collect(size, pixels.map(|p| [p[0], p[1], p[2]].map(f32::from)))
    }

    /// Builds an image from pixels in row order.
    fn collect(size: Size, pixels: impl Iterator<Item = [f32; 3]>) -> Result<Self, NoMemory> {
        let mut collected = memory::with_capacity(size.pixels() as usize, "an f32 image")?;
        collected.extend(pixels);
        Ok(Self { size, pixels: collected })
    }

    /// Returns a copy of the image.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn copied(&self) -> Result<Self, NoMemory> {
        Self::collect(self.size, self.pixels.iter().copied())
    }

    /// Returns the image after `change` has run on its pixels as u8.
    ///
    /// # Errors
    ///
    /// If there is not enough memory, for the image or for `change`.
    pub fn changed<E: From<NoMemory>>(
        &self,
        change: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut bytes = self.to_u8()?;
        change(&mut bytes)?;
        let view = ImageView::packed(&bytes, self.size).expect("to_u8 gives 3 bytes a pixel");
        Ok(Self::from_view(&view)?)
    }

    /// Returns the height and width.
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

    /// Returns the image after one geometry step, under a rounding rule.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn moved(&self, motion: &GeometryStep, rule: NumberRule) -> Result<Self, NoMemory> {
        let Size { height, width } = self.size;
        match *motion {
            GeometryStep::CropPad { top, left, size, fill } => self.gathered(size, |y, x| {
                let (y, x) = (i64::from(y) + i64::from(top), i64::from(x) + i64::from(left));
                let inside =
                    (0..i64::from(height)).contains(&y) && (0..i64::from(width)).contains(&x);
                if inside { self.at(y as u32, x as u32) } else { fill.map(f32::from) }
            }),
            GeometryStep::FlipHorizontal => {
                self.gathered(self.size, |y, x| self.at(y, width - 1 - x))
            }
            GeometryStep::FlipVertical => {
                self.gathered(self.size, |y, x| self.at(height - 1 - y, x))
            }
            GeometryStep::Resize { .. } | GeometryStep::Rows(_) => {
                self.with_produced_rows(motion, rule)
            }
        }
    }

    /// Returns the image with `window` filled with one colour.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn painted(&self, window: Window, fill: [f32; 3]) -> Result<Self, NoMemory> {
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

    /// Returns the pixels as u8, channels last: clamped and rounded half to even.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn to_u8(&self) -> Result<Vec<u8>, NoMemory> {
        let mut bytes = memory::with_capacity(3 * self.pixels.len(), "a picture")?;
        bytes.extend(self.pixels.iter().flatten().map(|&v| to_u8(v)));
        Ok(bytes)
    }

    fn at(&self, y: u32, x: u32) -> [f32; 3] {
        self.pixels[y as usize * self.size.width as usize + x as usize]
    }

    fn gathered(&self, size: Size, pixel: impl Fn(u32, u32) -> [f32; 3]) -> Result<Self, NoMemory> {
        let positions = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)));
        Self::collect(size, positions.map(|(y, x)| pixel(y, x)))
    }

    /// Returns the image after a step that produces its own rows.
    fn with_produced_rows(
        &self,
        motion: &GeometryStep,
        rule: NumberRule,
    ) -> Result<Self, NoMemory> {
        let bytes = self.to_u8()?;
        let view = ImageView::packed(&bytes, self.size).expect("to_u8 gives 3 bytes a pixel");
        let size = geometry_step::output(motion, self.size);
        memory::probe((3 * size.pixels()) as usize, "a picture")?; // each arm allocates this much
        let pixels =
            match *motion {
                GeometryStep::Resize { interpolation: Interpolation::Area, .. } => {
                    area::resize(view, size).expect("no side is 0")
                }
                GeometryStep::Resize {
                    interpolation: Interpolation::BilinearAntialias, ..
                } if rule != NumberRule::Exact => bilinear::resize(&view, size),
                _ => geometry_step::row_filter(motion)
                    .map_or_else(Vec::new, |filter| filter.eval(&view)),
            };
        let view = ImageView::packed(&pixels, size).expect("3 bytes a pixel were made");
        Self::from_view(&view)
    }
}

/// Converts a value to u8: clamped to 0..=255, then rounded half to even.
#[must_use]
pub fn to_u8(value: f32) -> u8 {
    byte(value)
}
