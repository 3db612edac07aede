//! Raw images: the file's own bytes are the pixels, and nothing is copied.

use super::error::{no_pixels, not_gray16, too_many_pixels};
use super::{Decoded, ImageReadMode};
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::EncodedImage;
use fuseloop_ops::Size;
use fuseloop_ops::internals::{ImageView, PixelFormat, RGB};

/// Returns views of raw images, which borrow the file's bytes.
#[derive(Debug, Default)]
pub(super) struct RawDecoder {
    limits: Limits,
}

impl RawDecoder {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Returns the size in the sample table, checked against the limits and the number of bytes, and the
    /// format of the pixels: RGB, or that of `mode`.
    pub(super) fn size(
        &self,
        image: &EncodedImage<'_>,
        mode: ImageReadMode,
    ) -> Result<(Size, PixelFormat), Error> {
        let size = Size::new(image.height, image.width);
        if size.pixels() == 0 {
            return Err(no_pixels(size));
        }
        if size.pixels() > self.limits.max_pixels {
            return Err(too_many_pixels(size, self.limits.max_pixels));
        }
        let found = image.bytes.len() as u64;
        let bytes = |format: PixelFormat| size.pixels().checked_mul(format.pixel_bytes() as u64);
        let rgb = PixelFormat::bytes(RGB);
        let mut known = [rgb, mode.format()].into_iter();
        match known.find(|format| bytes(*format) == Some(found)) {
            Some(format) if format == rgb && mode == ImageReadMode::Gray16 => {
                Err(not_gray16("an image of RGB pixels", "rgb"))
            }
            Some(format) => Ok((size, format)),
            None => {
                let expected = bytes(rgb).unwrap_or(u64::MAX);
                Err(fail!(
                    Damaged,
                    "a raw image of {size} needs {expected} bytes, {found} are stored"
                ))
            }
        }
    }
}

/// Returns a view of the bytes of a whole raw image of this size and these pixels, which were checked.
pub(super) fn view(bytes: &[u8], size: Size, format: PixelFormat) -> Decoded<'_> {
    let view = ImageView::packed_format(bytes, size, format).expect("the length was compared");
    Decoded { view, top: 0, left: 0 }
}
