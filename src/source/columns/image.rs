//! Images: the extensions that stand for an image, and the format that the first bytes tell.

use crate::source::ImageMode;
use crate::source::image_names::IMAGE_EXTENSIONS;

/// The extension of bit planes.
const BIT_PLANES: &str = "fplanes";

/// Returns the extensions of image files that can be decoded.
pub(super) fn extensions() -> impl Iterator<Item = &'static str> {
    IMAGE_EXTENSIONS.iter().copied().chain([BIT_PLANES])
}

/// Returns whether files with this extension are images that can be decoded.
pub(super) fn is_read(ext: &str) -> bool {
    extensions().any(|known| ext == known)
}

/// Returns how an image is coded, whatever its extension says; `None` if its format is not known.
pub(super) fn mode(bytes: &[u8]) -> Option<ImageMode> {
    match ImageMode::of_file(bytes) {
        ImageMode::Jpeg => bytes.starts_with(b"\xff\xd8\xff").then_some(ImageMode::Jpeg),
        other => Some(other),
    }
}
