//! An image in its stored form, and the result of re-cutting it or of storing it as bit planes.
//!
//! ```text
//! NotRequested -- recut --> Done { shorter } -- the sample fits its page --> Done
//!                      \                    \- it does not fit --> Unchanged
//!                       `-> Unchanged: damaged, or of another kind
//! ```

use super::image::ImageError;
use super::mode::ImageOptions;
use super::pixels::{PixelReader, PixelsError};
use super::report::{Reencoded, UnchangedCause};
use crate::recut::Unchanged;
use crate::source::ImageMode;
use std::path::PathBuf;

/// An image in its stored form.
#[derive(Debug)]
pub(super) struct StoredImage {
    pub(super) mode: ImageMode,
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) bytes: Vec<u8>,
    /// True if the bytes are those of a given JPEG, apart from re-cutting.
    pub(super) is_given: bool,
    /// The image's file, if it was read from one.
    pub(super) path: Option<PathBuf>,
    pub(super) cut: RecutResult,
    /// How the image was given, if it is not stored that way; does not count re-cutting.
    pub(super) reencoded: Option<Reencoded>,
    /// The bytes of the image as given, if it is not stored that way.
    pub(super) given_bytes: u64,
}

/// The result of re-cutting an image.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecutResult {
    /// Re-cutting was not requested, or the image is no JPEG.
    NotRequested,
    /// The JPEG is re-cut.
    Done {
        /// The size of the JPEG before re-cutting in bytes.
        before: usize,
        /// The original bytes, if they are shorter: the sample may need the space. `None` once the
        /// sample fits.
        shorter: Option<Vec<u8>>,
    },
    /// The JPEG is stored without re-cutting.
    Unchanged(UnchangedCause),
}

impl StoredImage {
    /// Returns true if the bytes are exactly those of the given JPEG.
    pub(super) fn is_passed_through(&self) -> bool {
        self.is_given && !matches!(self.cut, RecutResult::Done { .. })
    }

    /// Re-cuts a JPEG, or stores it as bit planes, if `options` ask for that.
    ///
    /// # Errors
    ///
    /// If there is no memory. With any other error the JPEG is stored as it is.
    pub(super) fn recut(
        mut self,
        options: &ImageOptions,
        pixels: &mut PixelReader,
    ) -> Result<Self, ImageError> {
        let (mode, cut) = match (self.mode, options.tile) {
            (ImageMode::Jpeg, tile) if options.bit_planes => {
                (ImageMode::BitPlanes, pixels.bit_planes(&self.bytes, tile.unwrap_or_default()))
            }
            (ImageMode::Jpeg, Some(tile)) => (ImageMode::Jpeg, pixels.recut(&self.bytes, tile)),
            _ => return Ok(self),
        };
        match cut {
            Ok(cut) => self.replace(mode, cut),
            Err(Unchanged::Memory(none)) => return Err(PixelsError::from(none).into()),
            Err(unchanged) => self.cut = RecutResult::Unchanged(unchanged.into()),
        }
        Ok(self)
    }

    fn replace(&mut self, mode: ImageMode, cut: Vec<u8>) {
        self.mode = mode;
        let uncut = std::mem::replace(&mut self.bytes, cut);
        let before = uncut.len();
        let shorter = (before < self.bytes.len()).then_some(uncut);
        self.cut = RecutResult::Done { before, shorter };
    }

    /// Undoes re-cutting if the original is shorter.
    pub(super) fn undo_if_shorter(&mut self, cause: &UnchangedCause) {
        if let RecutResult::Done { shorter: Some(bytes), .. } = &mut self.cut {
            self.bytes = std::mem::take(bytes);
            self.mode = ImageMode::Jpeg;
            self.cut = RecutResult::Unchanged(cause.clone());
        }
    }

    /// Drops the original bytes, once the sample fits its page.
    pub(super) fn drop_original(&mut self) {
        if let RecutResult::Done { shorter, .. } = &mut self.cut {
            *shorter = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(len: usize) -> StoredImage {
        StoredImage {
            mode: ImageMode::Jpeg,
            width: 1,
            height: 1,
            bytes: vec![1; len],
            is_given: true,
            path: None,
            cut: RecutResult::NotRequested,
            reencoded: None,
            given_bytes: 0,
        }
    }

    const CAUSE: UnchangedCause = UnchangedCause::Page { size: 9, page_size: 8 };

    #[test]
    fn what_grew_can_be_taken_back_until_it_is_settled() {
        let mut grown = image(3);
        grown.replace(ImageMode::BitPlanes, vec![2; 5]);
        assert!(!grown.is_passed_through());
        grown.undo_if_shorter(&CAUSE);
        assert_eq!((&grown.bytes, &grown.cut), (&vec![1; 3], &RecutResult::Unchanged(CAUSE)));
        assert_eq!(grown.mode, ImageMode::Jpeg);
        assert!(grown.is_passed_through());

        let mut settled = image(3);
        settled.replace(ImageMode::Jpeg, vec![2; 5]);
        settled.drop_original();
        settled.undo_if_shorter(&CAUSE);
        assert_eq!(
            (settled.bytes.len(), settled.cut),
            (5, RecutResult::Done { before: 3, shorter: None })
        );
    }

    #[test]
    fn what_shrank_stays_re_cut() {
        let mut shrunk = image(5);
        shrunk.replace(ImageMode::Jpeg, vec![2; 3]);
        shrunk.undo_if_shorter(&CAUSE);
        assert_eq!(shrunk.cut, RecutResult::Done { before: 5, shorter: None });
    }
}
