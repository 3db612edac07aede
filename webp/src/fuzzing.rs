//! The check that the fuzz target shares with the tests.

use crate::{LossyDecoder, LossyError, frame_size};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;

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
    if size.pixels() > MOST {
        return false;
    }
    let mut decoder = LossyDecoder::default();
    let mut decode = |window: Window| -> Result<Vec<u8>, LossyError> {
        let mut rgb = vec![0; 3 * window.size().pixels() as usize];
        decoder.decode(bytes, window, &mut rgb)?;
        Ok(rgb)
    };
    let whole = decode(size.full());
    // The last bytes say which window.
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
    assert!(found == Ok(cut(&whole, size, window)), "{window:?} of {size}");
    true
}

/// Returns the pixels of a window of an RGB image.
fn cut(whole: &[u8], size: Size, window: Window) -> Vec<u8> {
    let row = 3 * size.width as usize;
    let rows = whole.chunks_exact(row).skip(window.top as usize).take(window.height as usize);
    let columns = 3 * window.left as usize..3 * (window.left + window.width) as usize;
    rows.flat_map(|row| &row[columns.clone()]).copied().collect()
}
