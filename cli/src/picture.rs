//! Saves pictures as PNG and JPEG files.

use super::output::{self, Existing};
use super::problem::Problem;
use fuseloop::internals::preview::encode;
use fuseloop::ops::Size;
use std::path::Path;

/// The format of a file that a picture is saved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PictureFormat {
    Png,
    Jpeg,
}

impl PictureFormat {
    /// Returns the format that a file's extension names. A file without one, such as `/dev/stdout`, is a
    /// PNG.
    pub(super) fn of(path: &Path) -> Result<Self, Problem> {
        let extension =
            path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            None | Some("png") => Ok(Self::Png),
            Some("jpg" | "jpeg") => Ok(Self::Jpeg),
            Some(extension) => {
                let extension = extension.to_owned();
                Err(Problem::PictureExtension { path: path.to_owned(), extension })
            }
        }
    }
}

/// Saves packed RGB pixels in the [`PictureFormat`] of the path; an existing file is replaced.
pub(super) fn save(path: &Path, pixels: &[u8], size: Size) -> Result<(), Problem> {
    match PictureFormat::of(path)? {
        PictureFormat::Png => save_png(path, pixels, size),
        PictureFormat::Jpeg => output::write(path, Existing::Replace, |out| {
            let encoded = encode::jpeg(out, pixels, size);
            encoded.map_err(|error| Problem::Jpeg { path: path.to_owned(), error })
        }),
    }
}

/// Writes packed pixels of 1 to 4 channels as a PNG; an existing file is replaced.
pub(super) fn save_png(path: &Path, pixels: &[u8], size: Size) -> Result<(), Problem> {
    output::write(path, Existing::Replace, |out| {
        let encoded = encode::png(out, pixels, size);
        encoded.map_err(|error| Problem::Png { path: path.to_owned(), error })
    })
}
