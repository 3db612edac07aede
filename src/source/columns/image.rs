//! Images: the extensions that stand for an image, and the format that the first bytes tell.
//!
//! This is the only file that lists the image formats for fields by extension.

use crate::source::ImageMode;

/// The extensions of image files that can be decoded.
pub(super) const EXTENSIONS: &[&str] = &[
    "jpg",
    "jpeg",
    "png",
    "jpe",
    "jfif",
    "fplanes",
    #[cfg(feature = "webp")]
    "webp",
    #[cfg(feature = "tiff")]
    "tif",
    #[cfg(feature = "tiff")]
    "tiff",
];

/// Returns whether files with this extension are images that can be decoded.
pub(super) fn is_read(ext: &str) -> bool {
    EXTENSIONS.contains(&ext)
}

/// Returns how an image is coded, whatever its extension says; `None` if its format is not known.
pub(super) fn mode(bytes: &[u8]) -> Option<ImageMode> {
    match ImageMode::of_file(bytes) {
        ImageMode::Jpeg => bytes.starts_with(b"\xff\xd8\xff").then_some(ImageMode::Jpeg),
        other => Some(other),
    }
}
