//! Encodes pixels as a PNG or JPEG file.

use fuseloop_ops::Size;
use std::io::Write;

/// Writes packed pixels as a PNG: gray, gray and alpha, RGB, or RGB and alpha, by the bytes of a pixel.
///
/// # Errors
///
/// If `out` returns one.
pub fn png(out: impl Write, pixels: &[u8], size: Size) -> Result<(), png::EncodingError> {
    let mut encoder = png::Encoder::new(out, size.width, size.height);
    encoder.set_color(match pixels.len() as u64 / size.pixels().max(1) {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        4 => png::ColorType::Rgba,
        _ => png::ColorType::Rgb,
    });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()
}

/// The quality of a sheet that is saved as a JPEG.
#[cfg(feature = "write")]
const JPEG_QUALITY: u8 = 92;

/// Writes packed RGB pixels as a JPEG.
///
/// # Errors
///
/// If `out` returns one, or a side is longer than 65535 pixels, which a JPEG can't have.
#[cfg(feature = "write")]
pub fn jpeg(out: impl Write, pixels: &[u8], size: Size) -> Result<(), jpeg_encoder::EncodingError> {
    // With a side that is cut off, the encoder finds another number of pixels, which is its error.
    let [width, height] = [size.width, size.height].map(|side| side.try_into().unwrap_or(u16::MAX));
    let encoder = jpeg_encoder::Encoder::new(out, JPEG_QUALITY);
    encoder.encode(pixels, width, height, jpeg_encoder::ColorType::Rgb)
}
