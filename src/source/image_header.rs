//! The size of an image, from the header of its file.

use fuseloop_ops::Size;
use std::io::Cursor;
use zune_core::bytestream::ZCursor;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// Reads the size of a JPEG or PNG file.
///
/// # Errors
///
/// If the header is damaged; the error says why.
pub(super) fn size(file: &[u8]) -> Result<Size, String> {
    let (width, height) = if file.starts_with(&[0xff, 0xd8]) {
        let largest = usize::from(u16::MAX);
        let options = DecoderOptions::default().set_max_width(largest).set_max_height(largest);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
        decoder.decode_headers().map_err(|error| error.to_string())?;
        let (width, height) = decoder.dimensions().ok_or("the header has no size")?;
        (width as u32, height as u32)
    } else {
        let reader = png::Decoder::new(Cursor::new(file)).read_info();
        reader.map_err(|error| error.to_string())?.info().size()
    };
    Ok(Size { height, width })
}
