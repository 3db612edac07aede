//! The alpha of a lossy image: the chunk "ALPH" (RFC 9649, section 2.7.1.2).
//!
//! | bits of the first byte | meaning                                                                |
//! |------------------------|------------------------------------------------------------------------|
//! | 0..2                   | 0: a byte for each pixel follows; 1: a lossless image without its header |
//! | 2..4                   | the filter: what a value is the difference from                          |
//! | 4..6                   | 1: the encoder used fewer levels. A decoder need not know it             |
//! | 6..8                   | 0                                                                      |

use crate::lossless::is_inside;
use crate::{LosslessDecoder, LossyError};
use fuseloop_kernels::vp8l::Bgra;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::memory;

const TRUNCATED: LossyError = LossyError::Truncated { part: "its alpha" };

/// The neighbours that values of alpha are stored as differences from. In the first row it is the value to the left, at the
/// left edge the value above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AlphaFilter {
    None,
    Left,
    Above,
    /// Left plus above minus the value at the corner, clamped to a byte.
    Gradient,
}

/// The alpha of a lossy image.
///
/// ```
/// use fuseloop_ops::Size;
/// use fuseloop_webp::{AlphaChunk, LosslessDecoder};
///
/// // Six values that are not compressed, as differences from the one to the left.
/// let chunk = AlphaChunk::parse(&[0b0100, 10, 1, 1, 5, 0, 2])?;
/// let (size, mut alpha) = (Size::new(2, 3), vec![0; 6]);
/// chunk.decode(&mut LosslessDecoder::default(), size, size.full(), &mut alpha)?;
/// assert_eq!(alpha, [10, 11, 12, 15, 15, 17]);
/// # Ok::<(), fuseloop_webp::LossyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlphaChunk<'a> {
    is_lossless_image: bool,
    filter: AlphaFilter,
    /// The chunk, whose first byte is the header.
    chunk: &'a [u8],
}

impl<'a> AlphaChunk<'a> {
    /// Reads the first byte of a chunk "ALPH".
    ///
    /// # Errors
    ///
    /// If the chunk is empty, or its first byte has values that are not defined.
    pub fn parse(chunk: &'a [u8]) -> Result<Self, LossyError> {
        let header = *chunk.first().ok_or(TRUNCATED)?;
        let (method, levels, reserved) = (header & 3, header >> 4 & 3, header >> 6);
        if method > 1 || levels > 1 || reserved != 0 {
            return Err(LossyError::AlphaHeader { found: header });
        }
        let filter = match header >> 2 & 3 {
            0 => AlphaFilter::None,
            1 => AlphaFilter::Left,
            2 => AlphaFilter::Above,
            _ => AlphaFilter::Gradient,
        };
        Ok(Self { is_lossless_image: method == 1, filter, chunk })
    }

    /// Writes the alpha of a window of an image of this size. Reads no row below the window, and
    /// unpacks only the pixels that it depends on.
    ///
    /// # Errors
    ///
    /// If the alpha is damaged in what the window needs, the window is not inside the image, `out` does not have a byte for each
    /// pixel, or there is not enough memory.
    pub fn decode(
        &self,
        decoder: &mut LosslessDecoder,
        size: Size,
        window: Window,
        out: &mut [u8],
    ) -> Result<(), LossyError> {
        if !is_inside(window, size) {
            return Err(LossyError::Window);
        }
        let bytes = |size: Size| usize::try_from(size.pixels()).unwrap_or(usize::MAX);
        let expected = bytes(window.size());
        if out.len() != expected {
            return Err(LossyError::Buffer { expected, found: out.len() });
        }
        if self.filter == AlphaFilter::None {
            return self.read(decoder, size, window, out);
        }
        let all = Size::new(window.top + window.height, window.left + window.width);
        let mut values = vec![];
        memory::resize(&mut values, bytes(all), "the alpha of a WebP")
            .map_err(|error| LossyError::NoMemory { bytes: error.bytes })?;
        self.read(decoder, size, all.full(), &mut values)?;
        self.unfilter(&mut values, all.width as usize);
        let rows = values.chunks_exact(all.width as usize).skip(window.top as usize);
        for (out, row) in out.chunks_exact_mut(window.width as usize).zip(rows) {
            out.copy_from_slice(&row[window.left as usize..]);
        }
        Ok(())
    }

    /// Writes the values of a window as they are stored.
    fn read(
        &self,
        decoder: &mut LosslessDecoder,
        size: Size,
        window: Window,
        out: &mut [u8],
    ) -> Result<(), LossyError> {
        let mut out = out.chunks_exact_mut(window.width as usize);
        if self.is_lossless_image {
            let write = |row: &[Bgra]| {
                if let Some(out) = out.next() {
                    out.iter_mut().zip(row).for_each(|(value, [_, green, ..])| *value = *green);
                }
            };
            return decoder
                .decode_rows(self.chunk, 1, size, window, write)
                .map_err(LossyError::Alpha);
        }
        let rows = self.chunk[1..].chunks(size.width as usize).skip(window.top as usize);
        let mut rows = rows.take(window.height as usize);
        for out in out {
            let columns = window.left as usize..(window.left + window.width) as usize;
            let row = rows.next().and_then(|row| row.get(columns));
            out.copy_from_slice(row.ok_or(TRUNCATED)?);
        }
        Ok(())
    }

    /// Replaces rows of values, from the first one of the image on, by alpha.
    fn unfilter(&self, values: &mut [u8], width: usize) {
        if self.filter == AlphaFilter::None || width == 0 {
            return;
        }
        let mut rows = values.chunks_exact_mut(width);
        let Some(mut above) = rows.next() else { return };
        add_left(above, 0);
        for row in rows {
            match self.filter {
                AlphaFilter::None => {}
                AlphaFilter::Left => add_left(row, above[0]),
                AlphaFilter::Above => {
                    for (value, &above) in row.iter_mut().zip(&*above) {
                        *value = value.wrapping_add(above);
                    }
                }
                AlphaFilter::Gradient => {
                    let (mut left, mut corner) = (above[0], above[0]);
                    for (value, &above) in row.iter_mut().zip(&*above) {
                        let sum = i16::from(left) + i16::from(above) - i16::from(corner);
                        left = value.wrapping_add(sum.clamp(0, 255) as u8);
                        *value = left;
                        corner = above;
                    }
                }
            }
            above = row;
        }
    }
}

/// Adds to each value of a row the one to its left, and `first` to the first.
fn add_left(row: &mut [u8], first: u8) {
    let mut left = first;
    for value in row {
        left = value.wrapping_add(left);
        *value = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filters of the standard, forward: what an encoder stores.
    fn filtered(alpha: &[u8], width: usize, filter: u8) -> Vec<u8> {
        let at = |y: usize, x: usize| i32::from(alpha[y * width + x]);
        let value = |i: usize| {
            let (y, x) = (i / width, i % width);
            let predicted = match (filter, y, x) {
                (0, ..) | (_, 0, 0) => 0,
                (_, 0, _) => at(0, x - 1),
                (_, _, 0) => at(y - 1, 0),
                (1, ..) => at(y, x - 1),
                (2, ..) => at(y - 1, x),
                _ => (at(y, x - 1) + at(y - 1, x) - at(y - 1, x - 1)).clamp(0, 255),
            };
            alpha[i].wrapping_sub(predicted as u8)
        };
        (0..alpha.len()).map(value).collect()
    }

    fn decoded(chunk: &AlphaChunk<'_>, size: Size, window: Window) -> Result<Vec<u8>, LossyError> {
        let mut alpha = vec![9; window.size().pixels() as usize];
        chunk.decode(&mut LosslessDecoder::default(), size, window, &mut alpha)?;
        Ok(alpha)
    }

    #[test]
    fn filters_are_undone_in_every_window() {
        for (height, width) in [(1, 1), (1, 7), (7, 1), (9, 13)] {
            let alpha: Vec<u8> = (0..height * width).map(|i| (i * i * 91 % 256) as u8).collect();
            let size = Size::new(height as u32, width as u32);
            for filter in 0..4 {
                let chunk = [vec![filter << 2], filtered(&alpha, width, filter)].concat();
                let chunk = AlphaChunk::parse(&chunk).unwrap();
                for (top, left) in
                    (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)))
                {
                    let (height, width) = ((size.height - top).min(5), (size.width - left).min(4));
                    let found = decoded(&chunk, size, Window { top, left, height, width }).unwrap();
                    let rows = alpha.chunks(size.width as usize).skip(top as usize);
                    let columns = left as usize..(left + width) as usize;
                    let rows = rows.take(height as usize).flat_map(|row| &row[columns.clone()]);
                    assert!(found.iter().eq(rows), "filter {filter} of {size} at {top}, {left}");
                }
                let larger = Size::new(height as u32, width as u32 + 1);
                assert_eq!(decoded(&chunk, larger, larger.full()), Err(TRUNCATED));
                assert_eq!(decoded(&chunk, size, larger.full()), Err(LossyError::Window));
            }
        }
    }

    #[test]
    fn bytes_that_are_not_defined_are_refused() {
        for header in [2, 3, 0x20, 0x40, 0x80] {
            let refused = AlphaChunk::parse(&[header, 0]).unwrap_err();
            assert_eq!(refused, LossyError::AlphaHeader { found: header });
        }
        assert_eq!(
            AlphaChunk::parse(&[]).unwrap_err().to_string(),
            "the frame ends inside its alpha"
        );
    }
}
