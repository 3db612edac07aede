//! Buffers for pixels. Their sizes come from files, and decoders use them again for the next image.

use super::error::{no_memory, no_pixels, too_many_bytes, too_many_pixels};
use crate::error::Error;
use crate::sample::Limits;
use crate::source::EncodedImage;
use fuseloop_ops::Size;

/// Returns the number of bytes of an image of `size` with `pixel` bytes a pixel.
pub(super) fn image_bytes(size: Size, pixel: usize) -> Result<usize, Error> {
    let bytes = usize::try_from(size.pixels()).ok().and_then(|pixels| pixels.checked_mul(pixel));
    bytes.ok_or_else(|| no_memory(usize::MAX))
}

/// Checks the number of an image's bytes against the limits.
pub(super) fn check_bytes(image: &EncodedImage<'_>, limits: &Limits) -> Result<(), Error> {
    let (len, max) = (image.bytes.len() as u64, limits.max_sample_bytes);
    if len > max { Err(too_many_bytes(len, max)) } else { Ok(()) }
}

/// Checks the size in an image's headers against the limits, and against the sample table if that has one.
pub(super) fn check_size(
    image: &EncodedImage<'_>,
    size: Size,
    limits: &Limits,
    damaged: impl Fn(String) -> Error,
) -> Result<(), Error> {
    let table = Size::new(image.height, image.width);
    if size != table && table != Size::new(0, 0) {
        return Err(damaged(format!("its header says {size}, the sample table {table}")));
    }
    if size.pixels() == 0 {
        return Err(no_pixels(size));
    }
    if size.pixels() > limits.max_pixels {
        return Err(too_many_pixels(size, limits.max_pixels));
    }
    Ok(())
}

/// Returns the first `bytes` bytes of a buffer, which grows if it has fewer. They may hold pixels of an earlier
/// image.
pub(super) fn room(buffer: &mut Vec<u8>, bytes: usize) -> Result<&mut [u8], Error> {
    if buffer.len() < bytes {
        let more = bytes - buffer.len();
        buffer.try_reserve_exact(more).map_err(|_| no_memory(bytes))?;
        buffer.resize(bytes, 0);
    }
    Ok(&mut buffer[..bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_no_memory_has_is_an_error() {
        let huge = Size::new(u32::MAX, u32::MAX);
        assert_eq!(image_bytes(huge, 8), Err(no_memory(usize::MAX)));
        let bytes = isize::MAX as usize;
        assert_eq!(room(&mut vec![7], bytes), Err(no_memory(bytes)));
    }

    #[test]
    fn a_buffer_grows_and_never_shrinks() {
        let mut buffer = vec![7];
        assert_eq!(room(&mut buffer, 3), Ok(&mut [7, 0, 0][..]));
        assert_eq!(room(&mut buffer, 2), Ok(&mut [7, 0][..]));
        assert_eq!(buffer.len(), 3);
    }
}
