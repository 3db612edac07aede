//! The alpha of a lossy image: the chunk "ALPH" (RFC 9649, section 2.7.1.2).
//!
//! | bits of the first byte | meaning                                                                |
//! |------------------------|------------------------------------------------------------------------|
//! | 0..2                   | 0: a byte for each pixel follows; 1: a lossless image without its header |
//! | 2..4                   | the filter: what a value is the difference from                          |
//! | 4..6                   | 1: the encoder used fewer levels. A decoder need not know it             |
//! | 6..8                   | 0                                                                      |

use crate::LossyError;
use fuseloop_ops::Size;

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
/// use fuseloop_webp::AlphaChunk;
///
/// // Six values that are not compressed, as differences from the one to the left.
/// let chunk = AlphaChunk::parse(&[0b0100, 10, 1, 1, 5, 0, 2])?;
/// let size = Size::new(2, 3);
/// let mut alpha = chunk.stored(size)?.unwrap().to_vec();
/// chunk.unfilter(&mut alpha, size.width as usize);
/// assert_eq!(alpha, [10, 11, 12, 15, 15, 17]);
/// # Ok::<(), fuseloop_webp::LossyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlphaChunk<'a> {
    is_lossless_image: bool,
    filter: AlphaFilter,
    data: &'a [u8],
}

impl<'a> AlphaChunk<'a> {
    /// Reads the first byte of a chunk "ALPH".
    ///
    /// # Errors
    ///
    /// If the chunk is empty, or its first byte has values that are not defined.
    pub fn parse(chunk: &'a [u8]) -> Result<Self, LossyError> {
        let truncated = LossyError::Truncated { part: "its alpha" };
        let (&header, data) = chunk.split_first().ok_or(truncated)?;
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
        Ok(Self { is_lossless_image: method == 1, filter, data })
    }

    /// Returns the values of all pixels, to be [unfiltered](Self::unfilter); `None` if they are compressed.
    ///
    /// # Errors
    ///
    /// If there are fewer values than pixels.
    pub fn stored(&self, size: Size) -> Result<Option<&'a [u8]>, LossyError> {
        if self.is_lossless_image {
            return Ok(None);
        }
        let pixels = usize::try_from(size.pixels()).unwrap_or(usize::MAX);
        let truncated = LossyError::Truncated { part: "its alpha" };
        self.data.get(..pixels).map(Some).ok_or(truncated)
    }

    /// Returns a lossless WebP file whose green values are those of all pixels, to be [unfiltered](Self::unfilter).
    #[must_use]
    pub fn lossless_file(&self, size: Size) -> Vec<u8> {
        let side = |pixels: u32| pixels.wrapping_sub(1) & 0x3fff;
        let bits = side(size.height) << 14 | side(size.width);
        // The signature and the sizes, 40 bits, and the image.
        let len = 5_u32.saturating_add(self.data.len() as u32);
        let even = len.saturating_add(len % 2);
        let mut file = Vec::with_capacity(20 + even as usize);
        file.extend(b"RIFF");
        file.extend(even.saturating_add(12).to_le_bytes());
        file.extend(b"WEBPVP8L");
        file.extend(len.to_le_bytes());
        file.push(0x2f);
        file.extend(bits.to_le_bytes());
        file.extend(self.data);
        file.resize(20 + even as usize, 0);
        file
    }

    /// Replaces rows of values, from the first one of the image on, by alpha.
    pub fn unfilter(&self, values: &mut [u8], width: usize) {
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

    #[test]
    fn filters_are_undone() {
        for (height, width) in [(1, 1), (1, 7), (7, 1), (9, 13)] {
            let alpha: Vec<u8> = (0..height * width).map(|i| (i * i * 91 % 256) as u8).collect();
            for filter in 0..4 {
                let chunk = [vec![filter << 2], filtered(&alpha, width, filter)].concat();
                let chunk = AlphaChunk::parse(&chunk).unwrap();
                let size = Size::new(height as u32, width as u32);
                let mut found = chunk.stored(size).unwrap().unwrap().to_vec();
                chunk.unfilter(&mut found, width);
                assert_eq!(found, alpha, "filter {filter} of {size}");
                assert!(chunk.stored(Size::new(height as u32, width as u32 + 1)).is_err());
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
