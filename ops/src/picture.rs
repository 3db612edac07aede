//! The oracle's image: an array of pixels, each of an `f32` a channel.

use crate::author::GeometryStep;
use crate::element::ElementValue;
use crate::memory::NoMemory;
use crate::rows::{self, byte};
use crate::shape::{ImageView, MAX_CHANNELS, Window};
use crate::{DType, Interpolation, NumberRule, Size, area, bilinear, geometry_step, memory};
use std::slice::{ChunksExact, ChunksExactMut};

/// An image of `f32` values, channels last, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatImage {
    size: Size,
    channels: usize,
    values: Vec<f32>,
}

impl FloatImage {
    /// Converts an image.
    ///
    /// # Errors
    ///
    /// If there is not enough memory: 4 bytes a value.
    pub fn from_view(view: &ImageView<'_>) -> Result<Self, NoMemory> {
        let (size, dtype) = (view.size(), view.format().dtype);
        let mut image = Self::empty(size, view.channels())?;
        if view.plane(0).is_some() {
            let mut rows = vec![];
            for y in 0..size.height {
                rows.clear();
                for plane in (0..view.channels()).filter_map(|c| view.plane(c)) {
                    ElementValue::append_floats(dtype, plane.row(y), &mut rows);
                }
                let width = size.width as usize;
                let pixel = |x| rows.iter().copied().skip(x).step_by(width);
                (0..width).for_each(|x| image.values.extend(pixel(x)));
            }
            return Ok(image);
        }
        for y in 0..size.height {
            ElementValue::append_floats(dtype, view.row(y), &mut image.values);
        }
        Ok(image)
    }

    /// Returns the image of these values, channels last, row by row.
    ///
    /// # Panics
    ///
    /// If there are not as many values as the size and the channels say.
    #[must_use]
    pub fn of_values(size: Size, channels: usize, values: Vec<f32>) -> Self {
        assert_eq!(values.len(), size.pixels() as usize * channels, "the values of an image");
        Self { size, channels, values }
    }

    /// Returns an image whose values are yet to be appended.
    fn empty(size: Size, channels: usize) -> Result<Self, NoMemory> {
        let count = size.pixels() as usize * channels;
        Ok(Self { size, channels, values: memory::with_capacity(count, "an f32 image")? })
    }

    /// Returns a copy of the image.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn copied(&self) -> Result<Self, NoMemory> {
        let mut copy = Self::empty(self.size, self.channels)?;
        copy.values.extend_from_slice(&self.values);
        Ok(copy)
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
        Ok(Self::from_view(&packed(&bytes, self.size, self.channels))?)
    }

    /// Returns an image of `channels` channels. `change` is called with the index and the values of each pixel, in room
    /// for the old and for the new values, and replaces them.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn with_channels(
        &self,
        channels: usize,
        mut change: impl FnMut(usize, &mut [f32]),
    ) -> Result<Self, NoMemory> {
        let mut image = Self::empty(self.size, channels)?;
        let mut pixel = vec![0.0; self.channels.max(channels)];
        for (index, old) in self.pixels().enumerate() {
            pixel[..self.channels].copy_from_slice(old);
            change(index, &mut pixel);
            image.values.extend_from_slice(&pixel[..channels]);
        }
        Ok(image)
    }

    /// Returns the height and width.
    #[must_use]
    pub const fn size(&self) -> Size {
        self.size
    }

    /// Returns the number of values of a pixel.
    #[must_use]
    pub const fn channels(&self) -> usize {
        self.channels
    }

    /// The values, pixel by pixel, row by row.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The pixels, row by row.
    pub fn pixels(&self) -> ChunksExact<'_, f32> {
        self.values.chunks_exact(self.channels)
    }

    /// The pixels, row by row.
    pub fn pixels_mut(&mut self) -> ChunksExactMut<'_, f32> {
        self.values.chunks_exact_mut(self.channels)
    }

    /// Returns the image after one geometry step, under a rounding rule. A step that produces rows reads and
    /// returns elements of type `dtype`.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn moved(
        &self,
        motion: &GeometryStep,
        rule: NumberRule,
        dtype: DType,
    ) -> Result<Self, NoMemory> {
        let Size { height, width } = self.size;
        if self.channels > MAX_CHANNELS && geometry_step::produces_rows(motion) {
            return self.each_channel(|channel| channel.moved(motion, rule, dtype));
        }
        match *motion {
            GeometryStep::CropPad { top, left, size, fill } => {
                let fill = self.filled(fill.map(f32::from));
                self.gathered(size, |y, x| {
                    let (y, x) = (i64::from(y) + i64::from(top), i64::from(x) + i64::from(left));
                    let inside =
                        (0..i64::from(height)).contains(&y) && (0..i64::from(width)).contains(&x);
                    if inside { self.at(y as u32, x as u32) } else { &fill }
                })
            }
            GeometryStep::FlipHorizontal => {
                self.gathered(self.size, |y, x| self.at(y, width - 1 - x))
            }
            GeometryStep::FlipVertical => {
                self.gathered(self.size, |y, x| self.at(height - 1 - y, x))
            }
            GeometryStep::Resize { .. } | GeometryStep::Rows(_) if dtype != DType::U8 => {
                let size = geometry_step::output(motion, self.size);
                let values = rows::eval_floats(motion, &self.values, self.size, self.channels)?;
                let mut image = Self { size, channels: self.channels, values };
                image.round(dtype);
                Ok(image)
            }
            GeometryStep::Resize { .. }
            | GeometryStep::ResizePart { .. }
            | GeometryStep::Rows(_) => self.with_produced_rows(motion, rule),
        }
    }

    /// Returns the image whose channels are what `change` makes of each, as an image of one channel.
    fn each_channel(
        &self,
        change: impl Fn(&Self) -> Result<Self, NoMemory>,
    ) -> Result<Self, NoMemory> {
        let mut changed = vec![];
        for c in 0..self.channels {
            let mut channel = Self::empty(self.size, 1)?;
            channel.values.extend(self.values.iter().skip(c).step_by(self.channels));
            changed.push(change(&channel)?);
        }
        let size = changed[0].size;
        let mut image = Self::empty(size, self.channels)?;
        for index in 0..size.pixels() as usize {
            image.values.extend(changed.iter().map(|channel| channel.values[index]));
        }
        Ok(image)
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
        let fill = self.filled(fill);
        self.gathered(self.size, |y, x| if covers(y, x) { &fill } else { self.at(y, x) })
    }

    /// Converts all values to `dtype` and back, by the rules of [`ElementValue`].
    pub fn round(&mut self, dtype: DType) {
        if dtype == DType::F32 {
            return;
        }
        for value in &mut self.values {
            *value = match dtype {
                DType::U8 => f32::from(to_u8(*value)),
                _ => ElementValue::from(*value).converted(dtype).to_f32(),
            };
        }
    }

    /// Returns the pixels as u8, channels last: clamped and rounded half to even.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn to_u8(&self) -> Result<Vec<u8>, NoMemory> {
        let mut bytes = memory::with_capacity(self.values.len(), "a picture")?;
        bytes.extend(self.values.iter().map(|&v| to_u8(v)));
        Ok(bytes)
    }

    fn at(&self, y: u32, x: u32) -> &[f32] {
        let first = (y as usize * self.size.width as usize + x as usize) * self.channels;
        &self.values[first..first + self.channels]
    }

    /// Returns a pixel of a colour.
    fn filled(&self, fill: [f32; 3]) -> Vec<f32> {
        (0..self.channels).map(|c| channel_of(fill, c)).collect()
    }

    fn gathered<'p>(
        &'p self,
        size: Size,
        pixel: impl Fn(u32, u32) -> &'p [f32],
    ) -> Result<Self, NoMemory> {
        let mut image = Self::empty(size, self.channels)?;
        for y in 0..size.height {
            (0..size.width).for_each(|x| image.values.extend_from_slice(pixel(y, x)));
        }
        Ok(image)
    }

    /// Returns the image after a step that produces its own rows.
    fn with_produced_rows(
        &self,
        motion: &GeometryStep,
        rule: NumberRule,
    ) -> Result<Self, NoMemory> {
        let bytes = self.to_u8()?;
        let view = packed(&bytes, self.size, self.channels);
        let size = geometry_step::output(motion, self.size);
        memory::probe(self.channels * size.pixels() as usize, "a picture")?; // each arm allocates this much
        let pixels = match *motion {
            GeometryStep::Resize { interpolation: Interpolation::Area, .. } => {
                area::resize(view, size).expect("no side is 0")
            }
            GeometryStep::Resize { interpolation: Interpolation::Bilinear, .. }
                if rule != NumberRule::Exact =>
            {
                bilinear::resize(&view, size)
            }
            GeometryStep::ResizePart { part, .. } => bilinear::resize_part(&view, part, size),
            _ => {
                geometry_step::row_filter(motion).map_or_else(Vec::new, |filter| filter.eval(&view))
            }
        };
        Self::from_view(&packed(&pixels, size, self.channels))
    }
}

/// Returns the view of an image that was made for this size and these channels.
fn packed(bytes: &[u8], size: Size, channels: usize) -> ImageView<'_> {
    ImageView::packed_channels(bytes, size, channels).expect("every pixel was made")
}

/// Returns the value of channel `c` in a colour of three numbers, which are equal unless the image is RGB.
#[must_use]
pub fn channel_of<T: Copy>(colour: [T; 3], c: usize) -> T {
    if c < 3 { colour[c] } else { colour[0] }
}

/// Converts a value to u8: clamped to 0..=255, then rounded half to even.
#[must_use]
pub fn to_u8(value: f32) -> u8 {
    byte(value)
}
