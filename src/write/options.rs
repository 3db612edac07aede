//! The options of a write.

use super::mode::{ImageOptions, WriteMode};
use super::progress::ProgressFn;
use crate::cancel::CancelFlag;
use crate::error::{Error, fail};
use crate::order::Ranks;
use crate::sample::Limits;
use crate::source::{FieldKind, FieldSpec, Links, ObjectField, ObjectFields};
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
/// use fuseloop::source::{Folder, FolderOptions};
/// use fuseloop::write::{OnUnreadable, WriteOptions, convert};
///
/// let options = WriteOptions { on_damaged: OnUnreadable::Skip, ..WriteOptions::default() };
/// let report = convert(&Folder::open("photos", &FolderOptions::default())?, "train.beton", &options)?;
/// println!("{} files could not be read", report.skipped.count);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnreadable {
    /// Write nothing; the error names the sample.
    #[default]
    Fail,
    /// Leave the sample out and list it in [`WriteReport::skipped`](super::WriteReport::skipped). The
    /// samples after it move up. Values of a wrong kind, samples too large for a page and panics are
    /// errors nevertheless, and so is a dataset whose samples are all damaged.
    Skip,
}

/// How a dataset is written, by any function that writes one.
///
/// | options                                                | used by                                    |
/// |--------------------------------------------------------|--------------------------------------------|
/// | `max_samples`, `max_bytes`, `shards`, `ranks`, `rename` | [`convert`](super::convert()); others refuse them |
/// | `links`                                                | [`recut_folder`](super::recut_folder())    |
/// | all others                                             | every function, as far as they apply       |
///
/// ```no_run
/// use fuseloop::source::{Folder, FolderOptions};
/// use fuseloop::write::{ImageOptions, WriteOptions, convert};
///
/// let image = ImageOptions { max_resolution: Some(512), ..ImageOptions::default() };
/// let photos = Folder::open("photos", &FolderOptions::default())?;
/// convert(&photos, "train.beton", &WriteOptions { image, ..WriteOptions::default() })?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOptions {
    /// The size of a page in bytes, a power of two from 4 KiB to 2 GiB: a sample that takes more is an error. `None` is
    /// that of a converted `.beton`, or FFCV's 8 MiB, or, if a sample takes more, the smallest power of two that fits the largest sample. The pages written
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
    /// How images are stored. By default nothing is lost but alpha and bits beyond 8 a sample, where images become
    /// pixels: a JPEG stays byte for byte, and so does a PNG where the destination stores files; other images become raw
    /// pixels in a `.beton`, and PNGs in files. If a mode or a size is set, images from a `.beton` are converted like any
    /// others.
    ///
    /// A field that a converted source knows as a mask is stored as [`WriteMode::Mask`] says, whatever these options are. A
    /// maximum resolution is refused beside boxes, keypoints and masks, whose size it does not change.
    pub image: ImageOptions,
    /// How the images of individual fields are stored, by the field's name in the input; overrides `image`.
    pub images: BTreeMap<String, ImageOptions>,
    /// The largest image file that is read, and the largest number of pixels that is decoded.
    pub limits: Limits,
    /// How symbolic links are treated when a folder is copied.
    pub links: Links,
    /// The maximum number of samples in a shard, including damaged ones. For a single `.beton` or a folder,
    /// which have no shards: the number of samples after which progress is recorded, by default 10,000.
    pub max_samples: Option<u64>,
    /// The maximum size of a shard in bytes: the shard ends before the sample that would exceed it. A
    /// shard has at least one sample.
    pub max_bytes: Option<u64>,
    /// The number of shards, but at most the number of samples. Their sample counts differ by at most
    /// one.
    pub shards: Option<u64>,
    /// Writes only the shards of one rank, for several processes that convert a dataset together, on one machine
    /// or many: rank k of n writes shards `k * shards / n` to `(k + 1) * shards / n`, and
    /// [`shards`](Self::shards) must be set. All ranks together write what one process writes. Rank 0 writes
    /// the class names. [`Uneven`](crate::order::Uneven) does not matter.
    pub ranks: Option<Ranks>,
    /// New names of fields: from, to. Names that do not fit the destination are shortened: TensorFlow's
    /// `image/encoded` and `image/class/label` to `image` and `label`, others to the text after their
    /// last slash; [`WriteReport::renamed`](super::WriteReport::renamed) lists them. A name that still does not fit a
    /// `.beton` (16 ASCII characters) is an error, unless it is renamed here.
    pub rename: Vec<(String, String)>,
    /// Replaces what is at the destination. Without it, an existing file is an error, before anything is read; so are
    /// files in a folder that is written. A conversion starts from the beginning if the interrupted one at its
    /// destination was another one. Nothing is deleted that it does not write itself, except the files of an earlier
    /// conversion in a folder: other shards that readers would take for those of the new set are an error.
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
            max_samples: None,
            max_bytes: None,
            shards: None,
            ranks: None,
            rename: vec![],
            overwrite: false,
        }
    }
}

impl WriteOptions {
    /// Returns the settings that decide what a conversion to `format` writes, by name. Those without a value are left
    /// out, as are those of an image that have their defaults.
    pub(super) fn settings(&self, format: &str) -> BTreeMap<String, String> {
        let Self { page_size, image, images, max_samples, max_bytes, shards, ranks, .. } = self;
        let mut all = BTreeMap::from([("format".to_owned(), format.to_owned())]);
        let numbers = [
            ("page_size", page_size.map(u64::from)),
            ("max_samples", *max_samples),
            ("max_bytes", *max_bytes),
            ("shards", *shards),
        ];
        for (name, number) in numbers {
            all.extend(number.map(|number| (name.to_owned(), number.to_string())));
        }
        let ranks = ranks.map(|ranks| format!("{} of {}", ranks.rank(), ranks.world_size()));
        all.extend(ranks.map(|ranks| ("ranks".to_owned(), ranks)));
        all.extend(image.settings().map(|(name, value)| (name.to_owned(), value)));
        for (field, image) in images {
            all.insert(format!("images.{field}"), "set".to_owned());
            let settings = image.settings();
            all.extend(settings.map(|(name, value)| (format!("images.{field}.{name}"), value)));
        }
        all
    }

    /// Returns the size of the first pages, and the largest size that they may grow to.
    /// By default the first pages are of the size that the source has.
    pub(super) fn checked_page_size(&self, source: Option<u32>) -> Result<(u32, u32), Error> {
        let is_size =
            |size: &u32| size.is_power_of_two() && (MIN_PAGE_SIZE..=MAX_PAGE_SIZE).contains(size);
        let Some(found) = self.page_size else {
            return Ok((source.filter(is_size).unwrap_or(PAGE_SIZE), MAX_PAGE_SIZE));
        };
        if !is_size(&found) {
            return Err(fail!(
                Parameter,
                "page size {found}, expected a power of two from {MIN_PAGE_SIZE} to {MAX_PAGE_SIZE}"
            )
            .help("`--page-size 8388608` is the default"));
        }
        Ok((found, found))
    }

    /// Refuses options of conversions, for the functions that would ignore them.
    pub(super) fn refuse_shards(&self) -> Result<(), Error> {
        let Self { max_samples, max_bytes, shards, ranks, rename, .. } = self;
        let is_limited = max_samples.is_some() || max_bytes.is_some() || shards.is_some();
        if is_limited || ranks.is_some() || !rename.is_empty() {
            return Err(fail!(
                Parameter,
                "max_samples, max_bytes, shards, ranks and rename are options of `convert`"
            ));
        }
        Ok(())
    }

    /// Returns the image options of a field.
    pub(super) fn image_options(&self, field: &FieldSpec) -> &ImageOptions {
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
