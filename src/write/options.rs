//! The options of a write.

use super::mode::{ImageOptions, WriteMode};
use super::progress::ProgressFn;
use crate::cancel::CancelFlag;
use crate::error::{Error, fail};
use crate::recut::Tile;
use crate::sample::Limits;
use crate::source::{FieldKind, FieldSpec, FolderOptions, Links, ObjectField, ObjectFields};
use crate::threads::{self, ThreadsError};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::thread;

/// The smallest page size. FFCV's own writer uses at least 2 MiB, its reader accepts any size.
pub(super) const MIN_PAGE_SIZE: u32 = 1 << 12;

/// FFCV's own page size.
const PAGE_SIZE: u32 = 1 << 23;

/// The largest page size: the greatest power of two that fits the 32 bits which the header has for it.
pub(super) const MAX_PAGE_SIZE: u32 = 1 << 31;

/// What to do with a sample that can't be read: a missing file, a broken JPEG, an error of the
/// source.
///
/// ```no_run
/// use fuseloop::write::{OnUnreadable, WriteOptions, write_folder};
///
/// let options = WriteOptions { on_damaged: OnUnreadable::Skip, ..WriteOptions::default() };
/// let report = write_folder("photos", "train.beton", &options)?;
/// println!("{} files could not be read", report.written.skipped.count);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnreadable {
    /// Write nothing; the error names the sample.
    #[default]
    Fail,
    /// Leave the sample out and list it in [`WriteReport::skipped`](super::WriteReport::skipped). The
    /// samples after it move up. Values of a wrong kind, samples too large for a page and panics are
    /// errors nevertheless. Where a whole dataset is written to one file by `write`, `write_iter`, `write_folder` and
    /// `recut_beton`, it is also an error if all samples are damaged.
    Skip,
}

/// How a file is written.
///
/// ```no_run
/// use fuseloop::write::{ImageOptions, WriteOptions, write_folder};
///
/// let image = ImageOptions { max_resolution: Some(512), ..ImageOptions::default() };
/// write_folder("photos", "train.beton", &WriteOptions { image, ..WriteOptions::default() })?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// The size of a page in bytes, a power of two from 4 KiB to 2 GiB: a sample that takes more is an error. `None` is
    /// FFCV's 8 MiB or, if a sample takes more, the smallest power of two that fits the largest sample. The pages written
    /// by then are not encoded again, but moved in the file.
    pub page_size: Option<u32>,
    /// The number of encoding threads, at most 1024; `None` is one per core. The file does not depend on
    /// it.
    pub threads: Option<NonZeroUsize>,
    /// What to do with samples that can't be read.
    pub on_damaged: OnUnreadable,
    /// Receives the progress after each sample.
    pub progress: ProgressFn,
    /// Ends the write early.
    pub cancel: CancelFlag,
    /// How images are stored.
    pub image: ImageOptions,
    /// How the images of individual fields are stored, by field name; overrides `image`.
    pub images: BTreeMap<String, ImageOptions>,
    /// The largest image file that is read, and the largest number of pixels that is decoded.
    pub limits: Limits,
    /// How symbolic links are treated when a folder is written.
    pub links: Links,
    /// Where the labels of a folder come from, and what the columns of a table are. Links are treated as `links` says.
    pub folder: FolderOptions,
    /// Replaces an existing file. Without it, an existing file is an error, before anything is read.
    pub overwrite: bool,
}

impl Default for WriteOptions {
    /// Pages of 8 MiB that grow with the samples, one thread per core, JPEGs stored unchanged, and nothing overwritten.
    fn default() -> Self {
        Self {
            page_size: None,
            threads: None,
            on_damaged: OnUnreadable::default(),
            progress: ProgressFn::default(),
            cancel: CancelFlag::default(),
            image: ImageOptions::default(),
            images: BTreeMap::new(),
            limits: Limits::DEFAULT,
            links: Links::default(),
            folder: FolderOptions::default(),
            overwrite: false,
        }
    }
}

impl WriteOptions {
    /// Returns the size of the first pages, and the largest size that they may grow to.
    pub(super) fn checked_page_size(&self) -> Result<(u32, u32), Error> {
        let Some(found) = self.page_size else { return Ok((PAGE_SIZE, MAX_PAGE_SIZE)) };
        if !found.is_power_of_two() || !(MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(&found) {
            return Err(fail!(
                Parameter,
                "page size {found}, expected a power of two from {MIN_PAGE_SIZE} to {MAX_PAGE_SIZE}"
            )
            .help("`--page-size 8388608` is the default"));
        }
        Ok((found, found))
    }

    /// Returns the image options of a field.
    fn image_options(&self, field: &FieldSpec) -> &ImageOptions {
        self.images.get(&field.name).unwrap_or(&self.image)
    }

    /// Returns the image options of each field, in the order of the fields.
    pub(super) fn checked_images(&self, fields: &[FieldSpec]) -> Result<Vec<ImageOptions>, Error> {
        let is_image =
            |name: &str| fields.iter().any(|field| field.kind.is_image() && field.name == name);
        if let Some(name) = self.images.keys().find(|name| !is_image(name)) {
            let error =
                fail!(Field, "image options are given for {name:?}, which is not an image field");
            return Err(error.of_field(name));
        }
        let checked = |field: &FieldSpec| {
            let options = self.image_options(field);
            options.check(&field.name).map(|()| options.clone())
        };
        fields.iter().map(checked).collect()
    }

    /// Returns the fields that are stored as masks; `None` if there are none.
    pub(super) fn masks(&self, fields: &[FieldSpec]) -> Option<ObjectFields> {
        let stored = fields.iter().map(|field| (field, self.image_options(field)));
        masks(stored).collect::<ObjectFields>().among(fields)
    }

    /// Returns the fields of the file: those of images that may be stored as bit planes are
    /// [`FieldKind::BitPlaneImage`].
    pub(super) fn stored_fields(&self, fields: &[FieldSpec]) -> Vec<FieldSpec> {
        let stored = |field: &FieldSpec| match field.kind {
            FieldKind::RgbImage if self.image_options(field).bit_planes => {
                FieldSpec { kind: FieldKind::BitPlaneImage, ..field.clone() }
            }
            _ => field.clone(),
        };
        fields.iter().map(stored).collect()
    }

    /// Returns the number of encoding threads.
    pub(super) fn thread_count(&self) -> Result<usize, ThreadsError> {
        thread_count(self.threads)
    }
}

/// Returns those of some fields, with how their images are stored, that are masks.
pub(super) fn masks<'a>(
    fields: impl Iterator<Item = (&'a FieldSpec, &'a ImageOptions)>,
) -> impl Iterator<Item = (&'a str, ObjectField)> {
    fields
        .filter(|(field, image)| field.kind.is_image() && image.write_mode == WriteMode::Mask)
        .map(|(field, _)| (&*field.name, ObjectField::Mask))
}

/// Returns the requested number of threads, or one per core.
///
/// # Errors
///
/// If the number is above the limit.
pub(super) fn thread_count(asked: Option<NonZeroUsize>) -> Result<usize, ThreadsError> {
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let count = asked.unwrap_or_else(cores).get();
    threads::check("threads", count)?;
    Ok(count)
}

/// How a dataset is re-cut.
///
/// ```no_run
/// use fuseloop::write::{RecutOptions, recut_beton};
///
/// let options = RecutOptions { bit_planes: true, ..RecutOptions::default() };
/// recut_beton("train.beton", "planes.beton", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RecutOptions {
    /// The width of a tile: the distance between restart markers.
    pub tile: Tile,
    /// Stores JPEGs as bit planes instead of re-cutting them: see
    /// [`ImageOptions::bit_planes`](super::ImageOptions::bit_planes). Only in `.beton` files.
    pub bit_planes: bool,
    /// The number of re-cutting threads, at most 1024; `None` is one per core. What is written does not
    /// depend on it.
    pub threads: Option<NonZeroUsize>,
    /// What to do with samples or files that can't be read. A JPEG that can be read but not decoded does
    /// not count: it is stored unchanged.
    pub on_damaged: OnUnreadable,
    /// Receives the progress after each sample.
    pub progress: ProgressFn,
    /// Ends the re-cutting early.
    pub cancel: CancelFlag,
    /// The largest value that is read, and the largest number of pixels that is decoded.
    pub limits: Limits,
    /// How symbolic links are treated when a folder is copied.
    pub links: Links,
    /// Replaces a file that exists, or files of the same names in a folder that is not empty. Without it, both
    /// are errors.
    pub overwrite: bool,
}

impl Default for RecutOptions {
    /// Tiles of 32 pixels, one thread per core, and nothing overwritten.
    fn default() -> Self {
        Self {
            tile: Tile::default(),
            bit_planes: false,
            threads: None,
            on_damaged: OnUnreadable::default(),
            progress: ProgressFn::default(),
            cancel: CancelFlag::default(),
            limits: Limits::DEFAULT,
            links: Links::default(),
            overwrite: false,
        }
    }
}

impl RecutOptions {
    /// Returns the number of re-cutting threads.
    pub(super) fn thread_count(&self) -> Result<usize, ThreadsError> {
        thread_count(self.threads)
    }
}
