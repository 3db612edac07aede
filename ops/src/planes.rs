//! Planes: copies between images whose channels are adjacent and images whose channels are planes.
//!
//! ```text
//! [H, W, C] ──split──▶ [C, H, W]          [C, H, W] ──joined──▶ [H, W, C]
//! ```

use crate::memory::{self, NoMemory};
use crate::shape::{ImageView, PixelFormat};

/// Pixels whose elements are copied together from an interleaved row, so that its cache lines are used while they
/// are in the first-level cache.
const TILE: usize = 16;

/// Copies an image whose channels are adjacent to one whose channels are planes.
///
/// # Errors
///
/// If there is not enough memory.
pub fn split<'a>(view: &ImageView<'_>, to: &'a mut Vec<u8>) -> Result<ImageView<'a>, NoMemory> {
    let (size, format) = (view.size(), view.format());
    let plane = size.pixels() as usize * format.dtype.bytes();
    memory::resize(to, plane.saturating_mul(format.channels), "the planes of an image")?;
    let row = size.width as usize * format.dtype.bytes();
    for y in 0..size.height {
        let planes = to.chunks_exact_mut(plane).map(|plane| &mut plane[y as usize * row..][..row]);
        match format.dtype.bytes() {
            1 => split_row::<1>(view.row(y), planes, format),
            2 => split_row::<2>(view.row(y), planes, format),
            4 => split_row::<4>(view.row(y), planes, format),
            _ => split_row::<8>(view.row(y), planes, format),
        }
    }
    Ok(ImageView::planes(to, size, format).expect("every plane was copied"))
}

/// Copies a row of elements of `B` bytes to the rows of the planes.
fn split_row<'a, const B: usize>(
    row: &[u8],
    planes: impl Iterator<Item = &'a mut [u8]>,
    format: PixelFormat,
) {
    let mut planes: Vec<_> = planes.map(|plane| plane.as_chunks_mut::<B>().0).collect();
    let elements = row.as_chunks::<B>().0;
    for (tile, pixels) in elements.chunks(TILE * format.channels).enumerate() {
        for (c, plane) in planes.iter_mut().enumerate() {
            let to = plane[tile * TILE..].iter_mut().take(TILE);
            for (to, pixel) in to.zip(pixels.chunks_exact(format.channels)) {
                *to = pixel[c];
            }
        }
    }
}

/// Copies a plane of elements of `bytes` bytes to its places in an image whose channels are adjacent.
pub fn join(plane: &[u8], to: &mut [u8], (channel, channels): (usize, usize), bytes: usize) {
    let places = to.chunks_exact_mut(bytes).skip(channel).step_by(channels);
    places.zip(plane.chunks_exact(bytes)).for_each(|(to, from)| to.copy_from_slice(from));
}

/// Copies an image whose channels are planes to one whose channels are adjacent.
///
/// # Errors
///
/// If there is not enough memory.
pub fn joined<'a>(source: &ImageView<'_>, to: &'a mut Vec<u8>) -> Result<ImageView<'a>, NoMemory> {
    let (size, format) = (source.size(), source.format());
    let bytes = format.dtype.bytes();
    memory::resize(to, size.pixels() as usize * format.pixel_bytes(), "an image")?;
    for c in 0..format.channels {
        let Some(plane) = source.plane(c) else { continue };
        let row = size.width as usize * format.pixel_bytes();
        for (y, to) in (0..size.height).zip(to.chunks_exact_mut(row)) {
            join(plane.row(y), to, (c, format.channels), bytes);
        }
    }
    Ok(ImageView::packed_format(to, size, format).expect("every plane was copied"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Size};

    #[test]
    fn planes_of_any_number_of_channels_are_split_and_joined() {
        for channels in [1, 2, 5, 13, 300] {
            for dtype in [DType::U8, DType::U16, DType::F32, DType::F64] {
                let size = Size::new(3, 37);
                let format = PixelFormat { channels, dtype };
                let bytes: Vec<u8> =
                    (0..111 * format.pixel_bytes()).map(|i| (i * 7 % 251) as u8).collect();
                let view = ImageView::packed_format(&bytes, size, format).unwrap();
                let (mut planes, mut again) = (vec![], vec![]);
                let split = split(&view, &mut planes).unwrap();
                for c in [0, channels - 1] {
                    let element = (2 * 37 + 5) * format.pixel_bytes() + c * dtype.bytes();
                    let plane = split.plane(c).unwrap();
                    let found = &plane.row(2)[5 * dtype.bytes()..][..dtype.bytes()];
                    assert_eq!(found, &bytes[element..][..dtype.bytes()]);
                }
                joined(&split, &mut again).unwrap();
                assert!(again == bytes, "{format:?}");
            }
        }
    }
}
