//! Writing `.beton` files, which FFCV reads as its own.
//!
//! | from                          | call             |
//! |-------------------------------|------------------|
//! | a folder of images, a CSV     | [`write_folder`] |
//! | samples that are had by index | [`write()`]      |
//! | samples that come one by one  | [`write_iter`], [`try_write_iter`] |
//! | another `.beton`, its JPEGs re-cut | [`recut_beton`] |
//! | any other source              | [`convert()`]    |
//! | `.beton` files, put together or taken apart | [`concat_beton`], [`split_beton`], [`subset_beton`] |
//!
//! All encode samples on several threads and give the same bytes for any number of them.
//! The file appears at its path whole or not at all (`target.rs`). Memory grows with the
//! number of samples only by their rows and 24 bytes a stored value; of values, 64 MiB and a
//! few samples a thread are held.
//!
//! [`recut_folder`] writes no `.beton`: it is a folder's copy with its JPEGs re-cut. [`convert()`]
//! also writes WebDataset's tar shards, TFRecord shards and folders of images.
//!
//! ```no_run
//! use fuseloop::write::{ImageOptions, WriteMode, WriteOptions, write_folder};
//!
//! let options = WriteOptions {
//!     image: ImageOptions { max_resolution: Some(500), ..ImageOptions::default() },
//!     ..WriteOptions::default()
//! };
//! let report = write_folder("imagenet/train", "train.beton", &options)?;
//! println!("{} samples of {} classes", report.written.samples, report.classes.len());
//! # Ok::<(), fuseloop::write::WriteError>(())
//! ```

mod beton;
mod classes;
mod convert;
#[cfg(test)]
mod crash;
mod cut;
mod engine;
mod file;
mod flow;
mod image;
mod jpeg;
mod json;
mod mirror;
mod mode;
mod opened;
mod options;
mod ordered;
mod pages;
mod parts;
mod pixels;
mod report;
mod shards;
mod staging;
mod step;
mod target;
mod tree;
mod value;

pub use beton::recut_beton;
pub use convert::{
    ConvertError, ConvertOptions, ConvertReport, convert, write_tar, write_tfrecord,
};
pub use file::SchemaError;
pub use image::{ImageError, ImageInput};
pub use jpeg::HeadError;
pub use mirror::{MirrorReport, RecutError, recut_folder};
pub use mode::{ImageOptions, OptionsError, WriteMode};
pub use options::{Damaged, MAX_PAGE_SIZE, MIN_PAGE_SIZE, RecutOptions, WriteOptions};
pub use parts::{Split, concat_beton, split_beton, subset_beton};
pub use pixels::PixelsError;
pub use report::{
    Change, FolderReport, KeptCause, KeptFile, KeptJpeg, Listed, Reencoded, Skipped, SkippedSample,
    WriteReport,
};
pub use shards::{ColumnError, TemplateError};
pub use target::TargetError;
pub use value::{FieldValue, SampleError};

pub use crate::source::{Ignored, ImageList, Labelled, LinkCounts, Links, ListError};

use crate::sample::SampleId;
use crate::source::{BoxError, ClassNames, ClassTable, FieldKind, FieldSpec, beside};
use crate::threads::ThreadsError;
use engine::Engine;
use file::{Builder, Schema};
use indicatif::{ProgressBar, ProgressStyle};
use std::io;
use std::path::{Path, PathBuf};
use step::{Watch, unwatched};
use target::Target;
use value::Encoding;

/// Why nothing was written. The path is as it was before, but for a failed
/// [`TargetError::Io`] sync of its directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The fields make no file.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The page size is not a power of two, or out of bounds.
    #[error("page size {found}, expected a power of two from {MIN_PAGE_SIZE} to {MAX_PAGE_SIZE}")]
    PageSize {
        /// The size asked for.
        found: u32,
    },
    /// Image options that make no sense.
    #[error("images of field {field:?}: {cause}")]
    Options {
        /// The field's name.
        field: String,
        /// Why.
        cause: OptionsError,
    },
    /// Image options for what is not an image field.
    #[error("image options are given for {name:?}, which is not an image field")]
    NoSuchImageField {
        /// The name.
        name: String,
    },
    /// The folder or table gives no dataset.
    #[error(transparent)]
    List(#[from] ListError),
    /// The file with the names of the classes can't be read.
    #[error("{message}")]
    Classes {
        /// The file, and what is wrong with it.
        message: BoxError,
    },
    /// The file can't be put at its path.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The threads can't be started, or too many are asked for.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// A sample can't be written.
    #[error("sample {sample}{}: {cause}", named(path.as_deref()))]
    Sample {
        /// Its place in the input.
        sample: SampleId,
        /// Its image file, if it has one.
        path: Option<PathBuf>,
        /// Why.
        cause: SampleError,
    },
    /// The system refused to write: most often the disk is full.
    #[error("{path:?}: cannot write: {source}")]
    Write {
        /// The unfinished file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn named(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" ({path:?})"))
}

/// Samples that are had by index, from any thread.
pub trait Samples: Sync {
    /// How many there are.
    fn count(&self) -> u64;

    /// The values of a sample, in the order of the fields.
    ///
    /// # Errors
    ///
    /// The implementor's own: the sample is damaged, see [`Damaged`].
    fn sample(
        &self,
        id: SampleId,
    ) -> Result<Vec<FieldValue>, Box<dyn std::error::Error + Send + Sync>>;
}

/// Writes samples that are had by index.
///
/// # Errors
///
/// See [`WriteError`]. What lay at `out` is untouched then.
pub fn write(
    samples: &impl Samples,
    fields: &[FieldSpec],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, WriteError> {
    let count = samples.count();
    let row = |id, ()| samples.sample(id).map_err(SampleError::Source);
    let jobs = (0..count).map(|_| ());
    let request = Request { fields, first: 0, out: out.as_ref(), options };
    let report = write_jobs(jobs, |()| 0, row, Some(count), request, &unwatched)?;
    name_classes(out.as_ref(), None)?;
    Ok(report)
}

/// Writes the names of the classes beside a `.beton` that was written; without names, deletes those of
/// the file that it has replaced.
fn name_classes(out: &Path, names: Option<&ClassNames>) -> Result<(), WriteError> {
    let table = names.map(ClassTable::of);
    classes::put(&beside(out), table.as_ref(), &unwatched)
}

/// Writes samples that come one by one. They are taken on the calling thread, not far ahead of
/// the writing, and encoded on others.
///
/// # Errors
///
/// See [`WriteError`]. What lay at `out` is untouched then.
pub fn write_iter(
    rows: impl IntoIterator<Item = Vec<FieldValue>>,
    fields: &[FieldSpec],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, WriteError> {
    let rows = rows.into_iter();
    try_write_iter(rows.map(Ok), fields, out, options)
}

/// As [`write_iter`], for samples of which some can't be had: see [`Damaged`].
///
/// # Errors
///
/// See [`WriteError`]. What lay at `out` is untouched then.
pub fn try_write_iter(
    rows: impl IntoIterator<Item = Result<Vec<FieldValue>, Box<dyn std::error::Error + Send + Sync>>>,
    fields: &[FieldSpec],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, WriteError> {
    let rows = rows.into_iter();
    let (least, most) = rows.size_hint();
    let announced = most.filter(|&most| most == least).map(|count| count as u64);
    let held = |row: &Result<Vec<FieldValue>, _>| match row {
        Ok(row) => row.iter().map(FieldValue::held).sum(),
        Err(_) => 0,
    };
    let row = |_, row: Result<_, _>| row.map_err(SampleError::Source);
    let request = Request { fields, first: 0, out: out.as_ref(), options };
    let report = write_jobs(rows, held, row, announced, request, &unwatched)?;
    name_classes(out.as_ref(), None)?;
    Ok(report)
}

/// Writes a folder of JPEGs and PNGs, or a `.csv` or `.tsv` table of them: see [`ImageList`].
///
/// The fields are `image` and `label`. With the default options every JPEG is stored byte for
/// byte, which FFCV can't, and every PNG as raw pixels: nothing is lost. Set
/// [`ImageOptions::max_resolution`] for a smaller file that decodes faster.
///
/// The names of the classes are written beside the file, as `OUT.classes.json`: the format has no place
/// for them.
///
/// # Errors
///
/// See [`WriteError`]. What lay at `out` is untouched then.
pub fn write_folder(
    dir: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<FolderReport, WriteError> {
    let list = ImageList::open(dir.as_ref(), options.links)?;
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let written = write(&list, &fields, &out, options)?;
    name_classes(out.as_ref(), list.class_names.as_ref())?;
    let ImageList { classes, ignored, links, .. } = list;
    Ok(FolderReport { written, classes, ignored, links })
}

impl Samples for ImageList {
    fn count(&self) -> u64 {
        self.images.len() as u64
    }

    fn sample(
        &self,
        id: SampleId,
    ) -> Result<Vec<FieldValue>, Box<dyn std::error::Error + Send + Sync>> {
        let image = usize::try_from(id.0).ok().and_then(|place| self.images.get(place));
        let Labelled { path, label } = image.ok_or("no such image in the list")?;
        Ok(vec![FieldValue::Image(ImageInput::Path(path.clone())), FieldValue::Int(*label)])
    }
}

/// The file that is asked for.
#[derive(Clone, Copy)]
struct Request<'a> {
    fields: &'a [FieldSpec],
    /// What the first sample is numbered in the whole of which the file is a part.
    first: u64,
    out: &'a Path,
    options: &'a WriteOptions,
}

/// Checks everything that can be checked before the work, then does it.
///
/// `announced` is how many jobs are to come, if that is known: for their rows room is left, so that
/// the pages need not be moved in the end. Should it be wrong, they are.
fn write_jobs<J: Send>(
    jobs: impl Iterator<Item = J>,
    held: impl Fn(&J) -> usize,
    row: impl Fn(SampleId, J) -> Result<Vec<FieldValue>, SampleError> + Sync,
    announced: Option<u64>,
    request: Request<'_>,
    watch: &impl Watch,
) -> Result<WriteReport, WriteError> {
    let Request { fields, first, out, options } = request;
    let schema = Schema::new(fields, options.checked_page_size()?)?;
    let encoding = Encoding {
        fields,
        first,
        images: options.checked_images(fields)?,
        limits: options.limits,
        page_size: options.page_size,
    };
    let threads = options.thread_count()?;
    let target = Target::create(out)?;
    let at_target = |source| WriteError::Write { path: target.partial_path().to_owned(), source };
    let builder =
        Builder::new(&schema, target.file(watch), announced.unwrap_or(0)).map_err(at_target)?;

    let bar = options.progress.then(|| bar(announced, "samples"));
    let progress = || {
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    };
    let engine = Engine { encoding: &encoding, threads, damaged: options.damaged };
    let outcome = engine.run(jobs, held, row, builder, progress);
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let (finished, placed) = outcome.map_err(|e| e.at(target.partial_path()))?;
    target.commit(watch)?;
    Ok(WriteReport {
        samples: finished.samples,
        skipped: placed.skipped,
        passed_through: placed.passed_through,
        reencoded: placed.reencoded,
        recut: placed.recut,
        recut_bytes: placed.recut_bytes,
        kept: placed.kept,
        pages: finished.pages,
        bytes: finished.bytes,
    })
}

/// A bar on stderr; indicatif draws nothing where that is not a terminal.
fn bar(announced: Option<u64>, noun: &str) -> ProgressBar {
    let (bar, template) = match announced {
        Some(count) => {
            let template = "{wide_bar} {human_pos}/{human_len} NOUN, {per_sec}, {eta} left";
            (ProgressBar::new(count), template)
        }
        None => (ProgressBar::no_length(), "{spinner} {human_pos} NOUN, {per_sec}"),
    };
    styled(bar, &template.replace("NOUN", noun))
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar, // a template that is wrong costs its looks, not the file
    }
}
