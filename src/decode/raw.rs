//! Raw images: the file's own bytes are the pixels, and nothing is copied.

use super::{DecodeError, Decoded, ImageReadMode};
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
    /// bytes of a pixel: 3, or the channels of `mode`.
    pub(super) fn size(
        &self,
        image: &EncodedImage<'_>,
        mode: ImageReadMode,
    ) -> Result<(Size, usize), DecodeError> {
        let size = Size::new(image.height, image.width);
        if size.pixels() == 0 {
            return Err(DecodeError::Empty { size });
        }
        if size.pixels() > self.limits.max_pixels {
            return Err(DecodeError::Pixels { size, max: self.limits.max_pixels });
        }
        let found = image.bytes.len() as u64;
        let bytes = |channels: usize| size.pixels().checked_mul(channels as u64);
        let mut known = [RGB, mode.channels().into()].into_iter();
        match known.find(|channels| bytes(*channels) == Some(found)) {
            Some(channels) => Ok((size, channels)),
            None => {
                let expected = bytes(RGB).unwrap_or(u64::MAX);
                Err(DecodeError::RawLength { size, expected, found })
            }
        }
    }
}

/// Returns a view of the bytes of a whole raw image of this size and these pixels, which were checked.
pub(super) fn view(bytes: &[u8], size: Size, format: PixelFormat) -> Decoded<'_> {
    let view = ImageView::packed_format(bytes, size, format).expect("the length was compared");
    Decoded { view, top: 0, left: 0 }
}
