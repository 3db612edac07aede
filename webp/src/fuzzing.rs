//! The checks that the fuzz targets share with the tests.

use crate::{
    AlphaChunk, LosslessDecoder, LosslessHeader, LosslessPixels, LossyDecoder, LossyError,
    frame_size,
};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use std::fmt::Debug;

/// The most pixels that are decoded.
const MOST: u64 = 1 << 20;

/// A frame of any bytes is decoded or refused, and the pixels of a window are those of the whole frame. Returns true if the
/// whole frame is decoded.
///
/// # Panics
///
/// If that is not so.
#[must_use]
pub fn lossy_frame(bytes: &[u8]) -> bool {
    let Ok(size) = frame_size(bytes) else { return false };
    let mut decoder = LossyDecoder::default();
    windows_are_of_the_whole(bytes, size, 3, |window, rgb| decoder.decode(bytes, window, rgb))
}

/// The same for a lossless image, as RGBA and as the alpha of a lossy image.
///
/// # Panics
///
/// If that is not so.
#[must_use]
pub fn lossless_image(bytes: &[u8]) -> bool {
    let Ok(LosslessHeader { size, .. }) = LosslessHeader::parse(bytes) else { return false };
    let mut decoder = LosslessDecoder::default();
    // All filters occur: the byte before the image is the size, and the header of the alpha.
    let alpha = [&[bytes[1] & 0b1100 | 1], &bytes[5..]].concat();
    if let Ok(alpha) = AlphaChunk::parse(&alpha) {
        let decode = |window: Window, out: &mut [u8]| -> Result<(), LossyError> {
            alpha.decode(&mut decoder, size, window, out)
        };
        windows_are_of_the_whole(bytes, size, 1, decode);
    }
    windows_are_of_the_whole(bytes, size, 4, |window, rgba| {
        decoder.decode(bytes, window, LosslessPixels::RgbAlpha, rgba)
    })
}

/// Compares a window, which the last bytes select, with the whole image. Returns true if the whole image is decoded.
fn windows_are_of_the_whole<E: Debug + PartialEq>(
    bytes: &[u8],
    size: Size,
    channels: usize,
    mut decode: impl FnMut(Window, &mut [u8]) -> Result<(), E>,
) -> bool {
    if size.pixels() > MOST {
        return false;
    }
    let mut decode = |window: Window| -> Result<Vec<u8>, E> {
        let mut pixels = vec![0; channels * window.size().pixels() as usize];
        decode(window, &mut pixels)?;
        Ok(pixels)
    };
    let whole = decode(size.full());
    let number = |at: usize| bytes.iter().rev().nth(at).map_or(0, |&byte| u32::from(byte));
    let part = |side: u32, first: u32, len: u32| {
        let first = side * first / 256;
        (first, 1 + (side - first - 1) * len / 255)
    };
    let (top, height) = part(size.height, number(0), number(1));
    let (left, width) = part(size.width, number(2), number(3));
    let window = Window { top, left, height, width };
    let found = decode(window);
    let Ok(whole) = whole else { return false };
    assert!(found == Ok(cut(&whole, size, window, channels)), "{window:?} of {size}");
    true
}

/// Returns the pixels of a window of an image.
fn cut(whole: &[u8], size: Size, window: Window, channels: usize) -> Vec<u8> {
    let row = channels * size.width as usize;
    let rows = whole.chunks_exact(row).skip(window.top as usize).take(window.height as usize);
    let columns = channels * window.left as usize..channels * (window.left + window.width) as usize;
    rows.flat_map(|row| &row[columns.clone()]).copied().collect()
}
