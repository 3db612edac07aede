//! Writes `.beton` files, which FFCV reads as its own.
//!
//! | from                                    | call                               |
//! |-----------------------------------------|------------------------------------|
//! | any source: a folder, another dataset   | [`convert()`]                      |
//! | the frames of videos                    | [`convert_videos()`]               |
//! | samples that can be read by index       | [`write()`]                        |
//! | samples from an iterator                | [`write_iter`], [`try_write_iter`] |
//!
//! [`convert()`] also re-cuts JPEGs, stores them as bit planes and restores them, as [`ImageOptions`] say, joins datasets
//! ([`Concat`](crate::source::Concat)), selects samples ([`Selected`](crate::source::Selected)) and splits them into
//! several files.
//!
//! All of these functions encode samples on several threads, and write the same bytes for any number of
//! threads. The file appears at its path complete or not at all (`atomic_file.rs`). Memory grows with
//! the number of samples only by their rows and 24 bytes per stored value; at most 64 MiB of values, and
//! a few samples per thread, are in memory at once. [`convert()`] also holds an MDS shard until it is complete.
//!
//! [`recut_folder`] writes no `.beton`: it copies a folder and re-cuts its JPEGs. [`convert()`] also
//! writes WebDataset's tar shards, TFRecord shards, Parquet files, MDS shards and folders of images.
//!
//! ```no_run
//! use fuseloop::source::{Folder, FolderOptions};
//! use fuseloop::write::{ImageOptions, WriteOptions, convert};
//!
//! let photos = Folder::open("imagenet/train", &FolderOptions::default())?;
//! let options = WriteOptions {
//!     image: ImageOptions { max_resolution: Some(500), ..ImageOptions::default() },
//!     ..WriteOptions::default()
//! };
//! let report = convert(&photos, "train.beton", &options)?;
//! println!("{} samples of {} classes", report.samples, photos.classes().len());
//! # Ok::<(), fuseloop::Error>(())
//! ```

pub(crate) mod atomic_file;
mod beside;
mod cancel;
pub(crate) mod convert;
pub(crate) mod copy_folder;
#[cfg(test)]
mod crash;
mod cut;
mod dir_tree;
mod encode_threads;
mod engine;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod image;
pub(crate) mod jpeg;
mod json;
pub(crate) mod mode;
mod options;
mod pages;
pub(crate) mod pixels;
mod progress;
pub(crate) mod report;
pub(crate) mod shards;
mod source_file;
mod staging;
mod step;
pub(crate) mod value;

pub use convert::{VideoOptions, convert, convert_videos};
pub use copy_folder::{RecutFolderReport, recut_folder};
pub use image::ImageInput;
pub use mode::{ImageOptions, WriteMode};
pub use options::{OnUnreadable, WriteOptions};
pub use progress::{ProgressFn, WriteProgress};
pub use report::{
    CountedList, Reencoded, SizeChange, SkippedSample, UnchangedCause, UnchangedFile,
    UnchangedJpeg, WriteReport,
};
pub use value::FieldValue;

#[doc(no_inline)]
pub use crate::cancel::CancelFlag;
pub use crate::source::{Ignored, LinkCounts, Links};

use crate::decode::UnreadParts;
use crate::error::{BoxError, Error};
use crate::sample::SampleId;
use crate::source::{ClassNames, ClassTable, Escaped, FieldSpec, classes_beside};
use atomic_file::{AtomicFile, check_free};
use beside::{Beside, put_classes, written_file};
use engine::EncodeEngine;
use error::{refuse_all_damaged, write_error};
use file::{BetonBuilder, Schema};
use image::ImageError;

use progress::ProgressCounter;

use std::path::Path;
use step::{ObserveStep, unwatched};
use value::Encoding;
use value::WriteSampleError;

/// Samples that any thread can read by index.
///
/// ```no_run
/// use fuseloop::SampleId;
/// use fuseloop::source::{BoxError, FieldKind, FieldSpec};
/// use fuseloop::write::{FieldValue, Samples, WriteOptions, write};
///
/// struct Squares;
///
/// impl Samples for Squares {
///     fn count(&self) -> u64 {
///         1000
///     }
///
///     fn sample(&self, id: SampleId) -> Result<Vec<FieldValue>, BoxError> {
///         Ok(vec![FieldValue::Int(i64::try_from(id.0 * id.0)?)])
///     }
/// }
///
/// let fields = [FieldSpec { name: "square".to_owned(), kind: FieldKind::Int }];
/// write(&Squares, &fields, "squares.beton", &WriteOptions::default())?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub trait Samples: Sync {
    /// Returns the number of samples.
    fn count(&self) -> u64;

    /// Returns the values of a sample, in the order of the fields.
    ///
    /// # Errors
    ///
    /// Defined by the implementor: an error means that the sample is damaged, see [`OnUnreadable`].
    fn sample(&self, id: SampleId) -> Result<Vec<FieldValue>, BoxError>;
}

/// Writes samples that can be read by index.
///
/// # Errors
///
/// If `out` exists and [`WriteOptions::overwrite`] is not set, the options are invalid, a sample can't be written, all
/// samples are damaged, or the system can't write the file.
/// `out` is then unchanged, except after a failed sync of its directory, or if only the file of class names beside it could
/// not be written or deleted.
pub fn write(
    samples: &impl Samples,
    fields: &[FieldSpec],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    let out = out.as_ref();
    check_free(out, options.overwrite)?;
    let count = samples.count();
    let row = |id, ()| samples.sample(id).map_err(WriteSampleError::Source);
    let jobs = (0..count).map(|_| ());
    let request = FileRequest { fields, out, options };
    let report = write_jobs(jobs, |()| 0, row, Some(count), request, &unwatched)?;
    describe(fields, out, options)?;
    Ok(report)
}

/// Writes beside a `.beton` file that was just written which fields are masks, and deletes what is beside
/// it about the file that was replaced.
fn describe(fields: &[FieldSpec], out: &Path, options: &WriteOptions) -> Result<(), Error> {
    Beside { classes: None, objects: options.masks(fields) }.put(out, &unwatched)
}

/// Writes the class names beside a `.beton` file that was just written.
pub(crate) fn name_classes(out: &Path, classes: &ClassNames) -> Result<(), Error> {
    put_classes(&classes_beside(&written_file(out)), Some(&ClassTable::of(classes)), &unwatched)
}

/// Writes the samples of an iterator. The iterator is advanced on the calling thread, only a little
/// ahead of the writing; other threads encode the samples.
///
/// # Errors
///
/// See [`write()`].
pub fn write_iter(
    rows: impl IntoIterator<Item = Vec<FieldValue>>,
    fields: &[FieldSpec],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    let rows = rows.into_iter();
    try_write_iter(rows.map(Ok), fields, out, options)
}

/// Like [`write_iter`], for an iterator some of whose samples may be errors: see [`OnUnreadable`].
///
/// # Errors
///
/// See [`write()`].
pub fn try_write_iter(
    rows: impl IntoIterator<Item = Result<Vec<FieldValue>, BoxError>>,
    fields: &[FieldSpec],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    check_free(out.as_ref(), options.overwrite)?;
    let rows = rows.into_iter();
    let (least, most) = rows.size_hint();
    let announced = most.filter(|&most| most == least).map(|count| count as u64);
    let held = |row: &Result<Vec<FieldValue>, _>| match row {
        Ok(row) => row.iter().map(FieldValue::held).sum(),
        Err(_) => 0,
    };
    let row = |_, row: Result<_, _>| row.map_err(WriteSampleError::Source);
    let out = out.as_ref();
    let request = FileRequest { fields, out, options };
    let report = write_jobs(rows, held, row, announced, request, &unwatched)?;
    describe(fields, out, options)?;
    Ok(report)
}

/// The file to write, and how.
#[derive(Clone, Copy)]
struct FileRequest<'a> {
    fields: &'a [FieldSpec],
    out: &'a Path,
    options: &'a WriteOptions,
}

/// Checks everything that can be checked in advance, then writes the file.
///
/// `announced` is the expected number of jobs, if it is known. Space is reserved for their rows, so that
/// the pages need not be moved at the end. If the number is too small, they are moved.
fn write_jobs<J: Send>(
    jobs: impl Iterator<Item = J>,
    held: impl Fn(&J) -> usize,
    row: impl Fn(SampleId, J) -> Result<Vec<FieldValue>, WriteSampleError> + Sync,
    announced: Option<u64>,
    request: FileRequest<'_>,
    watch: &impl ObserveStep,
) -> Result<WriteReport, Error> {
    let FileRequest { fields, out, options } = request;
    options.refuse_shards()?;
    let fields = &options.stored_fields(fields);
    let (page_size, max_page_size) = options.checked_page_size(None)?;
    let schema = Schema::new(fields, page_size)?;
    let encoding = Encoding {
        fields,
        images: options.checked_images(fields)?,
        limits: options.limits,
        unread: UnreadParts::of(Escaped(&out.to_string_lossy()).to_string()),
        page_size: max_page_size,
    };
    let threads = options.thread_count()?;
    let target = AtomicFile::create_new(out, options.overwrite)?;
    let at_target = || write_error(target.partial_path());
    let mut builder = BetonBuilder::new(&schema, target.file(watch), announced.unwrap_or(0))
        .map_err(at_target())?;

    let progress = ProgressCounter::new(&options.progress, announced);
    let (on_damaged, cancel) = (options.on_damaged, &options.cancel);
    let engine = EncodeEngine {
        encoding: &encoding,
        first: 0,
        threads,
        on_damaged,
        cancel,
        out: target.partial_path(),
        path_of: &|_| None,
    };
    let placed = engine.run(jobs, held, row, &mut builder, || progress.add(0))?;
    let finished = builder.finish().map_err(at_target())?;
    if cancel.is_cancelled() {
        return Err(error::cancelled());
    }
    let report = WriteReport {
        files: 1,
        pages: finished.pages,
        bytes: finished.bytes,
        ..WriteReport::of(finished.samples, placed.skipped, placed.images)
    };
    refuse_all_damaged(report.samples, &report.skipped)?;
    target.commit(watch)?;
    Ok(report)
}
