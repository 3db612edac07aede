//! Images that tests decode, and the windows that they expect.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use super::{Decoder, ImageReadMode};
use crate::error::Error;
use crate::source::{EncodedImage, ImageMode};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use std::path::{Path, PathBuf};

/// Returns the folder of the goldens of a kind.
pub(super) fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(kind)
}

/// Returns the image of a file.
pub(super) fn image(bytes: &[u8]) -> EncodedImage<'_> {
    EncodedImage { mode: ImageMode::of_file(bytes), width: 0, height: 0, bytes }
}

/// Returns the pixels of a window, packed.
pub(super) fn read(
    decoder: &mut Decoder,
    bytes: &[u8],
    mode: ImageReadMode,
    window: Window,
) -> Result<Vec<u8>, Error> {
    let mut opened = decoder.open_as(&image(bytes), mode)?;
    let view = opened.decode(window)?.window(window).unwrap();
    assert_eq!(view.format(), mode.format());
    Ok((0..view.size().height).flat_map(|y| view.row(y)).copied().collect())
}

/// Cuts a window out of packed pixels of `pixel` bytes each.
pub(super) fn cut(whole: &[u8], size: Size, pixel: usize, window: Window) -> Vec<u8> {
    let rows = whole.chunks_exact(size.width as usize * pixel);
    let rows = rows.skip(window.top as usize).take(window.height as usize);
    let columns = window.left as usize * pixel..(window.left + window.width) as usize * pixel;
    rows.flat_map(|row| &row[columns.clone()]).copied().collect()
}
