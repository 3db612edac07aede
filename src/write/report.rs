//! The reports that a write returns.

use super::cut::{RecutResult, StoredImage};
use crate::recut;
use crate::sample::SampleId;
use crate::source::ImageMode;
use std::path::PathBuf;

/// The number of entries that a list stores. All entries are counted.
pub(super) const KEPT: usize = 100;

/// What was written, by any function that writes a dataset.
///
/// ```
/// use fuseloop::write::{WriteOptions, convert};
///
/// # use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue};
/// # let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
/// # let number = |_, sample| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
/// # let source = Generator::new(1, 8).source(fields, 16, number)?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.beton");
/// let report = convert(&source, path, &WriteOptions::default())?;
/// assert_eq!((report.samples, report.files, report.skipped.count), (16, 1, 0));
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Debug, Default)]
pub struct WriteReport {
    /// The number of samples written, including those of earlier attempts.
    pub samples: u64,
    /// The number of samples of the source that earlier attempts had processed.
    pub resumed: u64,
    /// The samples that were left out because they are damaged.
    pub skipped: Skipped,
    /// The number of images stored as the JPEG that was given, byte for byte.
    pub passed_through: u64,
    /// The images that are not stored as given, by kind.
    pub reencoded: Vec<Reencoded>,
    /// The bytes of these images, before and after.
    pub reencoded_bytes: SizeChange,
    /// The number of JPEGs that are re-cut or stored as bit planes: see
    /// [`ImageOptions::tile`](super::ImageOptions::tile).
    pub recut: u64,
    /// The bytes of these JPEGs, before and after.
    pub recut_bytes: SizeChange,
    /// The JPEGs that should have been re-cut, or stored as bit planes, but can't be. Those of earlier attempts are
    /// counted, and not listed.
    pub unchanged: CountedList<UnchangedJpeg>,
    /// The fields with another name than in the source: from, to.
    pub renamed: Vec<(String, String)>,
    /// The number of files written: shards, or the files of a folder; a `.beton` is one.
    pub files: u64,
    /// The number of pages of `.beton` files.
    pub pages: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
    /// Notes for readers of the new dataset, a sentence each.
    pub notes: Vec<String>,
}

impl WriteReport {
    /// Returns a report of samples whose images were stored as counted.
    pub(super) fn of(samples: u64, skipped: Skipped, images: ImageCounts) -> Self {
        let ImageCounts {
            passed_through,
            reencoded,
            reencoded_bytes,
            recut,
            recut_bytes,
            unchanged,
        } = images;
        let notes = note_of_orientations(&reencoded).into_iter().collect();
        Self {
            samples,
            skipped,
            passed_through,
            reencoded,
            reencoded_bytes,
            recut,
            recut_bytes,
            unchanged,
            notes,
            ..Self::default()
        }
    }
}

/// How images were stored: the counts of a [`WriteReport`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ImageCounts {
    pub(super) passed_through: u64,
    pub(super) reencoded: Vec<Reencoded>,
    pub(super) reencoded_bytes: SizeChange,
    pub(super) recut: u64,
    pub(super) recut_bytes: SizeChange,
    pub(super) unchanged: CountedList<UnchangedJpeg>,
}

impl ImageCounts {
    /// Counts an image as a given JPEG, as one that was re-cut, or as one that should have been.
    pub(super) fn count(&mut self, sample: SampleId, field: &str, image: &StoredImage) {
        self.passed_through += u64::from(image.is_passed_through());
        match &image.cut {
            RecutResult::NotRequested => {}
            RecutResult::Done { before, .. } => {
                self.recut += 1;
                let (before, after) = (*before as u64, image.bytes.len() as u64);
                self.recut_bytes.add(SizeChange { before, after });
            }
            RecutResult::Unchanged(cause) => self.unchanged.add(UnchangedJpeg {
                sample,
                field: field.to_owned(),
                path: image.path.clone(),
                cause: cause.clone(),
            }),
        }
    }

    /// Adds the counts of later samples.
    pub(super) fn add(&mut self, more: &Self) {
        self.passed_through += more.passed_through;
        Reencoded::count(&mut self.reencoded, more.reencoded.iter().copied());
        self.reencoded_bytes.add(more.reencoded_bytes);
        self.recut += more.recut;
        self.recut_bytes.add(more.recut_bytes);
        self.unchanged.extend(&more.unchanged);
    }
}

/// The samples left out: their number, and the first of them.
pub(crate) type Skipped = CountedList<SkippedSample>;

/// A sample that was left out.
///
/// ```no_run
/// use fuseloop::write::WriteReport;
///
/// fn print(report: &WriteReport) {
///     for skipped in &report.skipped.first {
///         println!("sample {}: {}", skipped.sample.0, skipped.cause);
///     }
/// }
/// ```
#[derive(Debug)]
pub struct SkippedSample {
    /// The sample's index in the input, not in the file.
    pub sample: SampleId,
    /// The sample's image file, if it has one.
    pub path: Option<PathBuf>,
    /// Why the sample can't be written.
    pub cause: String,
}

/// A group of images that are not stored as given.
///
/// ```no_run
/// use fuseloop::write::WriteReport;
///
/// fn print(report: &WriteReport) {
///     for group in report.reencoded.iter().filter(|group| group.is_lossy) {
///         println!("{} images from {:?} to {:?}", group.images, group.from, group.to);
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reencoded {
    /// The mode of the images as given.
    pub from: ImageMode,
    /// The mode of the images as stored: the same mode if they were only made smaller, or encoded as a
    /// JPEG of another quality.
    pub to: ImageMode,
    /// True if something was lost: the images were encoded as JPEG or made smaller, or they had alpha or samples of
    /// more than 8 bits and were stored as RGB pixels.
    pub is_lossy: bool,
    /// The number of images.
    pub images: u64,
    /// The number of these images that had an EXIF orientation other than upright, which their new form has no place
    /// for. Their pixels are not turned.
    pub lost_orientations: u64,
}

impl Reencoded {
    /// Adds the counts of `more` to `all`, which has each kind once, sorted by kind.
    pub(super) fn count(all: &mut Vec<Self>, more: impl IntoIterator<Item = Self>) {
        let kind = |one: &Self| (one.from.name(), one.to.name(), one.is_lossy);
        for one in more {
            match all.binary_search_by_key(&kind(&one), kind) {
                Ok(known) => {
                    all[known].images += one.images;
                    all[known].lost_orientations += one.lost_orientations;
                }
                Err(index) => all.insert(index, one),
            }
        }
    }
}

/// Returns a note on images that have lost their EXIF orientation, if there are any.
pub(super) fn note_of_orientations(reencoded: &[Reencoded]) -> Option<String> {
    let lost: u64 = reencoded.iter().map(|one| one.lost_orientations).sum();
    let images = if lost == 1 { "1 image has" } else { &format!("{lost} images have") };
    (lost > 0).then(|| {
        format!(
            "{images} lost an EXIF orientation, which only unchanged image files keep: the pixels are not turned, and exif_orientation of a loader no longer turns them"
        )
    })
}

/// A number of bytes before and after a change.
///
/// ```
/// use fuseloop::write::SizeChange;
///
/// let change = SizeChange { before: 1000, after: 1014 };
/// assert_eq!(change.after as f64 / change.before as f64, 1.014);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SizeChange {
    /// The bytes before.
    pub before: u64,
    /// The bytes after.
    pub after: u64,
}

impl SizeChange {
    pub(super) fn add(&mut self, more: Self) {
        self.before += more.before;
        self.after += more.after;
    }
}

/// A count of entries, and the first of them in the input's order.
///
/// ```no_run
/// use fuseloop::write::WriteReport;
///
/// fn print(report: &WriteReport) {
///     println!("{} samples were left out:", report.skipped.count);
///     report.skipped.first.iter().for_each(|skipped| println!("{}", skipped.cause));
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedList<T> {
    /// The number of entries.
    pub count: u64,
    /// The first 100 entries.
    pub first: Vec<T>,
}

impl<T> Default for CountedList<T> {
    /// An empty list.
    fn default() -> Self {
        Self { count: 0, first: Vec::new() }
    }
}

impl<T> CountedList<T> {
    pub(super) fn add(&mut self, one: T) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(one);
        }
    }

    /// Appends a list of later entries.
    pub(super) fn extend(&mut self, more: &Self)
    where
        T: Clone,
    {
        self.count += more.count;
        let left = KEPT.saturating_sub(self.first.len());
        self.first.extend(more.first.iter().take(left).cloned());
    }

    /// Merges the lists of several threads, each sorted by `key`.
    pub(super) fn merge<P: Ord>(parts: impl Iterator<Item = Self>, key: impl Fn(&T) -> P) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.count += part.count;
            all.first.extend(part.first);
        }
        all.first.sort_by_key(key);
        all.first.truncate(KEPT);
        all
    }
}

/// A JPEG that could not be re-cut, and is stored as it would be without re-cutting.
///
/// ```no_run
/// use fuseloop::write::WriteReport;
///
/// fn print(report: &WriteReport) {
///     for jpeg in &report.unchanged.first {
///         println!("{} of sample {} is not re-cut: {}", jpeg.field, jpeg.sample.0, jpeg.cause);
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnchangedJpeg {
    /// The sample's index in the input.
    pub sample: SampleId,
    /// The field's name.
    pub field: String,
    /// The JPEG's file, if it was read from one.
    pub path: Option<PathBuf>,
    /// The cause.
    pub cause: UnchangedCause,
}

/// A JPEG file that could not be re-cut, and is copied unchanged.
///
/// ```no_run
/// use fuseloop::write::RecutFolderReport;
///
/// fn print(report: &RecutFolderReport) {
///     for file in &report.unchanged.first {
///         println!("{} is copied as it is: {}", file.path.display(), file.cause);
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnchangedFile {
    /// The file's index in the list of files.
    pub index: u64,
    /// The file's path.
    pub path: PathBuf,
    /// The cause.
    pub cause: UnchangedCause,
}

/// Why a JPEG is not re-cut.
///
/// ```no_run
/// use fuseloop::recut::Unchanged;
/// use fuseloop::write::{UnchangedCause, WriteReport};
///
/// fn is_arithmetic(report: &WriteReport) -> bool {
///     let mut jpegs = report.unchanged.first.iter();
///     jpegs.any(|jpeg| jpeg.cause == UnchangedCause::Jpeg(Unchanged::Arithmetic))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnchangedCause {
    /// The JPEG is damaged, or of a kind that can't be re-cut.
    #[error(transparent)]
    Jpeg(#[from] recut::Unchanged),
    /// The JPEG becomes longer, and the sample would no longer fit a page.
    #[error("rewritten, its sample takes {size} bytes, a page has {page_size}")]
    Page {
        /// The size of the sample's values in bytes if all its JPEGs were re-cut.
        size: u64,
        /// The size of a page in bytes.
        page_size: u32,
    },
    /// The file is larger than the limit on one value.
    #[error("more than {max} bytes, the limit on one value")]
    TooManyBytes {
        /// [`Limits::max_sample_bytes`](crate::Limits::max_sample_bytes).
        max: u64,
    },
}
