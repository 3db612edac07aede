//! Images of which only what a sample needs is read: large ones in local files.
//!
//! | image                                  | first                 | then                                 |
//! |----------------------------------------|-----------------------|--------------------------------------|
//! | raw pixels                             | nothing               | the rows of the window               |
//! | bit planes                             | headers and index     | the rows of MCUs of the window       |
//! | re-cut JPEG                            | headers and index     | the segments of the window           |
//! | others, smaller ones, and damaged ones | all bytes             |                                      |

use crate::decode::PartlyRead;
use crate::loader::opened_image::{RawRows, StoredImage};
use crate::sample::{Limits, SampleId};
use crate::source::{Buffer, ImageExtent, ImageMode, PartialImage, Source, StoredValues};

/// The fewest pixels of the largest image of a field of which rows are read without the others: to find a smaller image
/// twice takes longer than to read all of it.
const PARTLY_READ: u64 = 128 * 128;

/// The fewest bytes of a coded image of which parts are read. Crops of 224 pixels out of photographs of 1.7 MB take 0.2 to
/// 0.5 times as long in parts, from the system's cache and from disk; out of 0.6 MB 0.7 times from the cache, but 0.9 to
/// 1.1 times from disk, where each of the three reads waits. Windows of most of an image take as long either way
/// (`cargo bench --bench partly_read`).
const PARTLY_READ_BYTES: u64 = 1 << 20;

/// How many large images are read whole after one that can't be read in parts: most datasets have one kind of images.
const READ_WHOLE: u32 = 15;

/// Which images of a field are read in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialField {
    rows: bool,
    coded: bool,
}

impl PartialField {
    /// Returns which images of a field are read in parts: none if they are read for a cache, and rows only if the pixels
    /// are RGB.
    pub(super) fn of(source: &dyn Source, field: usize, is_rgb: bool, has_cache: bool) -> Self {
        if has_cache || !source.fields()[field].kind.is_image() {
            return Self { rows: false, coded: false };
        }
        let stats = source.image_stats(field);
        let is_large = stats.is_some_and(|stats| stats.raw > 0 && stats.max_pixels >= PARTLY_READ);
        Self { rows: is_large && is_rgb, coded: true }
    }
}

/// A worker's memory of the images that it tried to read in parts.
#[derive(Debug, Default)]
pub(super) struct PartialReads {
    /// How many large images are read whole next.
    whole: u32,
}

impl PartialReads {
    /// Returns an image of which only what is needed will be read; `None` for one that is read whole.
    pub(super) fn begin<'a>(
        &mut self,
        of: PartialField,
        source: Option<&'a dyn StoredValues>,
        (sample, field): (SampleId, usize),
        limits: &Limits,
        buffer: &'a mut Buffer,
    ) -> Option<StoredImage<'a>> {
        if !of.rows && !of.coded {
            return None;
        }
        let source = source?;
        let extent = source.image_extent(sample, field)?;
        let ImageExtent { mode, size, bytes, .. } = extent;
        if mode == Some(ImageMode::Raw) {
            let is_read = of.rows && size.pixels() <= limits.max_pixels;
            let rows = RawRows { source, sample, field, extent, buffer };
            return is_read.then_some(StoredImage::Rows(rows));
        }
        if !of.coded || bytes < PARTLY_READ_BYTES || bytes > limits.max_sample_bytes {
            return None;
        }
        if let Some(less) = self.whole.checked_sub(1) {
            self.whole = less;
            return None;
        }
        let image = PartialImage::new(source, (sample, field), extent, buffer).ok();
        let begun = image.and_then(|image| PartlyRead::begin(image).ok().flatten());
        if begun.is_none() {
            self.whole = READ_WHOLE;
        }
        begun.map(StoredImage::Parts)
    }
}
