//! Pictures: which extensions are taken for one, and what the first bytes say.
//!
//! The one place where a format of pictures is made known to fields by extension.

use crate::source::ImageMode;

/// What files of pictures that can be decoded are called.
pub(super) const EXTENSIONS: [&str; 5] = ["jpg", "jpeg", "png", "jpe", "jfif"];

/// Whether files of this extension are pictures that can be decoded.
pub(super) fn is_read(ext: &str) -> bool {
    EXTENSIONS.contains(&ext)
}

/// How a picture is coded, whatever its extension says.
pub(super) fn mode(bytes: &[u8]) -> Option<ImageMode> {
    match ImageMode::of_file(bytes) {
        ImageMode::Jpeg => bytes.starts_with(b"\xff\xd8\xff").then_some(ImageMode::Jpeg),
        other => Some(other),
    }
}
