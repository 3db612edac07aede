//! What a writer can be asked for.

use super::WriteError;
use super::mode::ImageOptions;
use crate::recut::Tile;
use crate::sample::Limits;
use crate::source::{FieldKind, FieldSpec, Links};
use crate::threads::{self, ThreadsError};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::thread;

/// The smallest page. FFCV's own writer begins at 2 MiB, its reader takes any size.
pub const MIN_PAGE_SIZE: u32 = 1 << 12;

/// The largest page: the header has 32 bits for its size, a power of two.
pub const MAX_PAGE_SIZE: u32 = 1 << 31;

/// What to do with a sample that can't be read: a missing file, a broken JPEG, an error of the
/// source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Damaged {
    /// Write nothing, and say which sample it was.
    #[default]
    Fail,
    /// Leave it out and list it: [`WriteReport::skipped`](super::WriteReport::skipped). The
    /// samples after it move up. Values of a wrong kind, samples too large for a page and
    /// panics are errors all the same.
    Skip,
}

/// How a file is written.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// Bytes of a page, a power of two from 4 KiB to 2 GiB. No sample can be larger.
    pub page_size: u32,
    /// Threads that encode, at most 1024; `None` is one a core. The file does not depend on it.
    pub threads: Option<NonZeroUsize>,
    /// What to do with samples that can't be read.
    pub damaged: Damaged,
    /// Draws a bar on stderr, if that is a terminal.
    pub progress: bool,
    /// How images are stored.
    pub image: ImageOptions,
    /// How the images of some fields are stored instead, by the fields' names.
    pub images: BTreeMap<String, ImageOptions>,
    /// How large an image file may be, and how many pixels may be decoded.
    pub limits: Limits,
    /// What becomes of symbolic links, where a folder is written.
    pub links: Links,
}

impl Default for WriteOptions {
    /// FFCV's page size of 8 MiB, a thread a core, no bar, and JPEGs as they are.
    fn default() -> Self {
        Self {
            page_size: 1 << 23,
            threads: None,
            damaged: Damaged::default(),
            progress: false,
            image: ImageOptions::default(),
            images: BTreeMap::new(),
            limits: Limits::DEFAULT,
            links: Links::default(),
        }
    }
}

impl WriteOptions {
    pub(super) fn checked_page_size(&self) -> Result<u32, WriteError> {
        let found = self.page_size;
        if !found.is_power_of_two() || !(MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(&found) {
            return Err(WriteError::PageSize { found });
        }
        Ok(found)
    }

    /// The options of each field's images, in the order of the fields.
    pub(super) fn checked_images(
        &self,
        fields: &[FieldSpec],
    ) -> Result<Vec<ImageOptions>, WriteError> {
        let is_image = |name: &str| {
            fields.iter().any(|field| field.kind == FieldKind::RgbImage && field.name == name)
        };
        if let Some(name) = self.images.keys().find(|name| !is_image(name)) {
            return Err(WriteError::NoSuchImageField { name: name.clone() });
        }
        let checked = |field: &FieldSpec| {
            let options = self.images.get(&field.name).unwrap_or(&self.image);
            options
                .check()
                .map(|()| options.clone())
                .map_err(|cause| WriteError::Options { field: field.name.clone(), cause })
        };
        fields.iter().map(checked).collect()
    }

    /// How many threads encode.
    pub(super) fn thread_count(&self) -> Result<usize, ThreadsError> {
        thread_count(self.threads)
    }
}

/// As many threads as asked for, or one a core.
///
/// # Errors
///
/// If more are asked for than may be.
pub(super) fn thread_count(asked: Option<NonZeroUsize>) -> Result<usize, ThreadsError> {
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let count = asked.unwrap_or_else(cores).get();
    threads::check("threads", count)?;
    Ok(count)
}

/// How a dataset is re-cut.
#[derive(Debug, Clone, PartialEq)]
pub struct RecutOptions {
    /// How far apart restart markers stand.
    pub tile: Tile,
    /// Threads that re-cut, at most 1024; `None` is one a core. What is written does not depend on
    /// it.
    pub threads: Option<NonZeroUsize>,
    /// What to do with samples or files that can't be read. A JPEG that can be read and not be
    /// decoded is none of them: it is kept as it is.
    pub damaged: Damaged,
    /// Draws a bar on stderr, if that is a terminal.
    pub progress: bool,
    /// How large a value may be, and how many pixels may be decoded.
    pub limits: Limits,
    /// What becomes of symbolic links, where a folder is copied.
    pub links: Links,
}

impl Default for RecutOptions {
    /// Tiles of 32 pixels, a thread a core, no bar.
    fn default() -> Self {
        Self {
            tile: Tile::default(),
            threads: None,
            damaged: Damaged::default(),
            progress: false,
            limits: Limits::DEFAULT,
            links: Links::default(),
        }
    }
}

impl RecutOptions {
    /// How many threads re-cut.
    pub(super) fn thread_count(&self) -> Result<usize, ThreadsError> {
        thread_count(self.threads)
    }
}
