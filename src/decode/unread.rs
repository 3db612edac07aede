//! Parts of images that are stored and never read, of which a dataset warns once.
//!
//! | of a TIFF                                           | is read                |
//! |-----------------------------------------------------|------------------------|
//! | the pages after the first                           | never                  |
//! | the fourth band of RGB, if the file says no more of it than that it is there | with `rgb_alpha`, as alpha |
//!
//! The images after the first of a GIF, or of a PNM with samples in bytes, are never read.
//!
//! Alpha that is declared is dropped without a warning, as it is of all other formats.

#[cfg(feature = "tiff")]
use super::ImageReadMode;
use super::still::StillImage;
#[cfg(feature = "tiff")]
use crate::source::{Photometric, TiffFile};
use crate::warnings;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Warns of the parts of a dataset's images that are not read: of each kind once.
#[derive(Debug)]
#[cfg_attr(not(feature = "tiff"), allow(dead_code, reason = "only TIFFs have pages and bands"))]
pub(crate) struct UnreadParts {
    dataset: String,
    has_pages: AtomicBool,
    has_frames: AtomicBool,
    has_bands: AtomicBool,
}

impl UnreadParts {
    /// `dataset` begins the warnings.
    pub(crate) fn of(dataset: impl Into<String>) -> Arc<Self> {
        let [has_pages, has_frames, has_bands] = [(); 3].map(|()| AtomicBool::new(false));
        Arc::new(Self { dataset: dataset.into(), has_pages, has_frames, has_bands })
    }

    /// Takes an image of a format that may have several in a file.
    pub(super) fn still(&self, file: &StillImage, bytes: &[u8]) {
        if self.has_frames.load(Ordering::Relaxed) || !file.has_more(bytes) {
            return;
        }
        if !self.has_frames.swap(true, Ordering::Relaxed) {
            warnings::warn(format_args!(
                "{}: some {}s have several images, and only the first image of each is read: save the others as separate files if you need them",
                self.dataset,
                file.noun()
            ));
        }
    }

    /// Takes a TIFF that is read.
    #[cfg(feature = "tiff")]
    pub(super) fn tiff(&self, file: &TiffFile, mode: ImageReadMode) {
        let dataset = &self.dataset;
        let is_first = |flag: &AtomicBool| !flag.swap(true, Ordering::Relaxed);
        if file.has_more_pages && is_first(&self.has_pages) {
            warnings::warn(format_args!(
                "{dataset}: some TIFFs have several pages, and only the first page of each is read: save the other pages as separate files if you need them"
            ));
        }
        let is_band = matches!(file.extra.first(), None | Some(0));
        let has_band = file.photometric == Photometric::Rgb && file.samples == 4 && is_band;
        if has_band && mode != ImageReadMode::RgbAlpha && is_first(&self.has_bands) {
            warnings::warn(format_args!(
                "{dataset}: some TIFFs have four bands, and the fourth is not read: read_mode \"rgb_alpha\" reads it as \
                 alpha"
            ));
        }
    }
}
