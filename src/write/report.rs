//! What a writer has done.

use super::value::SampleError;
use crate::recut;
use crate::sample::SampleId;
use crate::source::{Ignored, ImageMode, LinkCounts};
use std::path::PathBuf;

/// How many of a list are kept. All are counted.
const KEPT: usize = 100;

/// What was written.
#[derive(Debug)]
pub struct WriteReport {
    /// Samples in the file.
    pub samples: u64,
    /// Samples left out because they are damaged.
    pub skipped: Skipped,
    /// Images stored as the JPEG they were given as, byte for byte.
    pub passed_through: u64,
    /// Images that are not stored as they were given, by kind.
    pub reencoded: Vec<Reencoded>,
    /// JPEGs that were re-cut: see [`ImageOptions::tile`](super::ImageOptions::tile).
    pub recut: u64,
    /// Bytes of those JPEGs, before and after.
    pub recut_bytes: Change,
    /// JPEGs that were to be re-cut and can't be.
    pub kept: Listed<KeptJpeg>,
    /// Pages of the file.
    pub pages: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What was written of a folder or a table of images.
#[derive(Debug)]
pub struct FolderReport {
    /// What was written.
    pub written: WriteReport,
    /// Names of the classes by number, escaped; empty if a table gave numbers.
    pub classes: Vec<String>,
    /// Files that were not taken for samples.
    pub ignored: Ignored,
    /// What became of the links in the folder.
    pub links: LinkCounts,
}

/// Samples left out: how many, and the first of them.
pub type Skipped = Listed<SkippedSample>;

/// A sample left out.
#[derive(Debug)]
pub struct SkippedSample {
    /// Its place in the input, not in the file.
    pub sample: SampleId,
    /// Its image file, if it has one.
    pub path: Option<PathBuf>,
    /// What is wrong with it.
    pub cause: SampleError,
}

/// Images of one kind that are not stored as they were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reencoded {
    /// What they were given as.
    pub from: ImageMode,
    /// What they are stored as: the same if they were made smaller, or a JPEG of another quality.
    pub to: ImageMode,
    /// Whether pixels may have changed: encoded as JPEG, or made smaller.
    pub is_lossy: bool,
    /// How many.
    pub images: u64,
}

impl Reencoded {
    /// Counts some more, each kind once, in the order of the kinds.
    pub(super) fn count(all: &mut Vec<Self>, more: impl IntoIterator<Item = Self>) {
        let kind = |one: &Self| (word(one.from), word(one.to), one.is_lossy);
        for one in more {
            match all.binary_search_by_key(&kind(&one), kind) {
                Ok(known) => all[known].images += one.images,
                Err(place) => all.insert(place, one),
            }
        }
    }
}

/// What a kind of image is called in notes.
pub(super) fn word(mode: ImageMode) -> &'static str {
    match mode {
        ImageMode::Jpeg => "jpeg",
        ImageMode::Raw => "raw",
        ImageMode::Png => "png",
    }
}

/// Bytes before and after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

impl Change {
    pub(super) fn add(&mut self, more: Self) {
        self.before += more.before;
        self.after += more.after;
    }
}

/// Things of one kind: how many, and the first of them in the input's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    /// How many.
    pub count: u64,
    /// The first 100.
    pub first: Vec<T>,
}

impl<T> Default for Listed<T> {
    /// None.
    fn default() -> Self {
        Self { count: 0, first: Vec::new() }
    }
}

impl<T> Listed<T> {
    pub(super) fn add(&mut self, one: T) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(one);
        }
    }

    /// What several threads have listed, each in the order of `place`.
    pub(super) fn merge<P: Ord>(
        parts: impl Iterator<Item = Self>,
        place: impl Fn(&T) -> P,
    ) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.count += part.count;
            all.first.extend(part.first);
        }
        all.first.sort_by_key(place);
        all.first.truncate(KEPT);
        all
    }
}

/// A JPEG that is stored as it would be if none were re-cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptJpeg {
    /// Its sample's place in the input.
    pub sample: SampleId,
    /// Its field's name.
    pub field: String,
    /// Its file, if it is from one.
    pub path: Option<PathBuf>,
    /// Why.
    pub cause: KeptCause,
}

/// A JPEG file that is copied as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Its place among the files.
    pub place: u64,
    /// Its path.
    pub path: PathBuf,
    /// Why.
    pub cause: KeptCause,
}

/// Why a JPEG is not re-cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeptCause {
    /// It is damaged, or of a kind that is not re-cut.
    #[error(transparent)]
    Jpeg(#[from] recut::Kept),
    /// Markers make it longer, and its sample would not fit a page any more.
    #[error("re-cut, its sample takes {size} bytes, a page has {page_size}")]
    Page {
        /// Bytes of the sample's values with all its JPEGs re-cut.
        size: u64,
        /// Bytes of a page.
        page_size: u32,
    },
    /// More bytes than are read of one file.
    #[error("more than {max} bytes, the limit on one value")]
    TooManyBytes {
        /// [`Limits::max_sample_bytes`](crate::Limits::max_sample_bytes).
        max: u64,
    },
}
