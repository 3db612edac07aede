//! Any source, written in any of the forms that loaders read; a conversion that was stopped goes on.
//!
//! | DST                                   | becomes                                              |
//! |---------------------------------------|------------------------------------------------------|
//! | `x.beton`                             | one `.beton` file                                    |
//! | `x-{000000}.tar`, `x.tar`             | WebDataset's shards, or one                          |
//! | `x-{00000}.tfrecord`, `x.tfrecord`, `.tfrecords` | TFRecord shards of `tf.train.Example`, or one |
//! | any other name                        | a folder of images: a folder a class, or `metadata.jsonl` |
//!
//! ```text
//! source --units of consecutive samples--> each whole at its place, or not there
//!                                           └ noted in DST.fuseloop-convert.json (journal.rs)
//! ```
//!
//! A unit is a shard, a part of a `.beton` (put together in the end), or so many files of a folder.
//! What a unit holds depends on nothing before it but where it begins, so that a conversion that goes
//! on behind the last whole unit writes the same bytes as one that was never stopped.

mod bar;
mod beton;
mod classes;
mod cutter;
mod error;
mod folder;
mod journal;
mod layout;
mod leaf;
mod origin;
mod pictures;
mod rename;
mod report;
#[cfg(test)]
mod tests;

pub use error::ConvertError;
pub use report::ConvertReport;

use super::WriteError;
use super::mode::ImageOptions;
use super::options::{Damaged, thread_count};
use super::step::{Watcher, unwatched};
use super::value::SampleError;
use crate::sample::SampleId;
use crate::source::{ClassNames, FieldSpec, Fingerprint, Source};
use bar::Bar;
use journal::{Journal, Print, delete, folder_of, make_dirs};
use pictures::Pictures;
use rename::{changes, renamed};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// How a dataset is converted.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertOptions {
    /// Most samples of a shard, damaged ones counted. Of a `.beton` or a folder, which have no shards:
    /// samples after which it is noted how far the work has come, 10,000 if not given.
    pub max_samples: Option<u64>,
    /// Most bytes of a shard: it ends before the sample that would make it longer, and has one sample
    /// at least.
    pub max_bytes: Option<u64>,
    /// How many shards, of as many samples each, give or take one. Never more than samples.
    pub shards: Option<u64>,
    /// How images are stored. By default nothing is lost: a JPEG stays the bytes it is, and so does a PNG
    /// where the destination holds files; all others are raw pixels in a `.beton`, and PNGs in files.
    /// With a mode or a size asked for, images of a `.beton` are stored anew like any others.
    pub image: ImageOptions,
    /// What fields are called instead: from, to. Names that do not fit the destination are shortened:
    /// TensorFlow's `image/encoded` and `image/class/label` to `image` and `label`, others to what
    /// follows their last slash; [`ConvertReport::renamed`] lists them. What still does not fit a `.beton`
    /// (16 ASCII characters) is refused, unless it is renamed here.
    pub rename: Vec<(String, String)>,
    /// Bytes of a page of a `.beton`: see [`WriteOptions::page_size`](super::WriteOptions).
    pub page_size: u32,
    /// Threads that read and encode, at most 1024; `None` is one a core. What is written does not
    /// depend on it.
    pub threads: Option<NonZeroUsize>,
    /// What to do with samples that can't be read.
    pub damaged: Damaged,
    /// Replace what lies at the destination, and begin anew where a conversion of something else was
    /// stopped. Shards of the same template that are not written anew are deleted in the end.
    pub overwrite: bool,
    /// Draws a bar on stderr, if that is a terminal.
    pub progress: bool,
}

impl Default for ConvertOptions {
    /// No limits on shards, images without loss, FFCV's page size, a thread a core, nothing overwritten,
    /// no bar.
    fn default() -> Self {
        Self {
            max_samples: None,
            max_bytes: None,
            shards: None,
            image: ImageOptions::default(),
            rename: vec![],
            page_size: 1 << 23,
            threads: None,
            damaged: Damaged::default(),
            overwrite: false,
            progress: false,
        }
    }
}

/// Samples of a unit of what has no shards.
const UNIT: u64 = 10_000;

/// What is written, by the name of the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Beton,
    Tar,
    TfRecord,
    Folder,
}

impl Form {
    fn of(dst: &Path) -> Self {
        let extension = dst.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("beton") => Self::Beton,
            Some("tar") => Self::Tar,
            Some("tfrecord" | "tfrecords") => Self::TfRecord,
            _ => Self::Folder,
        }
    }
}

/// Whether the name asks for what is not written, and would be a strange one for a folder.
fn is_compressed(dst: &Path) -> bool {
    let extension = dst.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("gz" | "tgz" | "zst" | "bz2" | "xz" | "zip"))
}

/// Writes a dataset in another form, which the name of `dst` says: `x.beton`, `x-{000000}.tar`,
/// `x-{00000}-of-{N}.tfrecord`, or a folder of images.
///
/// A conversion that was stopped, at whatever moment, goes on when it is asked for again: what is
/// whole is kept, and in the end every byte is as if it had never been stopped. Until then a file
/// `DST.fuseloop-convert.json` lies beside.
///
/// - **tar**: WebDataset's shards. The first image is `jpg` or `png`, the int `label` is `cls`, other
///   fields are `NAME.jpg`, `.cls`, `.txt` (floats), `.bin`, `.json`, `.npy`; names that are such
///   already stay. Keys are the source's own with what could lead a reader astray replaced, or the
///   sample's number.
///   all images in `DST` and their other fields in `DST/metadata.jsonl`, which must then be numbers,
///   text or JSON.
///
/// ```no_run
/// use fuseloop::source::Beton;
/// use fuseloop::write::{ConvertOptions, convert};
///
/// let source = Beton::open("train.beton", &fuseloop::Limits::DEFAULT)?;
/// let options = ConvertOptions { max_bytes: Some(1 << 30), ..ConvertOptions::default() };
/// let report = convert(&source, "shards/train-{000000}.tar", &options)?;
/// println!("{} samples in {} shards", report.samples, report.files);
/// # Ok::<(), fuseloop::source::BoxError>(())
/// ```
///
/// # Errors
///
/// See [`ConvertError`]. What is whole by then stays, and is kept by the next attempt.
pub fn convert(
    source: &dyn Source,
    dst: impl AsRef<Path>,
    options: &ConvertOptions,
) -> Result<ConvertReport, ConvertError> {
    let dst = dst.as_ref();
    Job::new(source, dst, options, &unwatched, Form::of(dst))?.run()
}

/// [`convert`] to WebDataset's tar shards, whatever the template's name ends in.
///
/// # Errors
///
/// See [`ConvertError`].
pub fn write_tar(
    source: &dyn Source,
    template: impl AsRef<Path>,
    options: &ConvertOptions,
) -> Result<ConvertReport, ConvertError> {
    Job::new(source, template.as_ref(), options, &unwatched, Form::Tar)?.run()
}

/// [`convert`] to TFRecord shards, whatever the template's name ends in.
///
/// # Errors
///
/// See [`ConvertError`].
pub fn write_tfrecord(
    source: &dyn Source,
    template: impl AsRef<Path>,
    options: &ConvertOptions,
) -> Result<ConvertReport, ConvertError> {
    Job::new(source, template.as_ref(), options, &unwatched, Form::TfRecord)?.run()
}

/// One conversion.
struct Job<'a> {
    source: &'a dyn Source,
    dst: PathBuf,
    options: &'a ConvertOptions,
    watch: Watcher<'a>,
    form: Form,
    /// The source's, as they are called in what is written.
    fields: Vec<FieldSpec>,
    /// Names of the source's classes.
    names: Option<ClassNames>,
}

impl<'a> Job<'a> {
    fn new(
        source: &'a dyn Source,
        dst: &Path,
        options: &'a ConvertOptions,
        watch: Watcher<'a>,
        form: Form,
    ) -> Result<Self, ConvertError> {
        let fields = renamed(source.fields(), form, &options.rename)?;
        // `x/` and `x` are one place: what lies beside it is named by its name.
        Ok(Self {
            source,
            dst: dst.components().collect(),
            options,
            watch,
            form,
            fields,
            names: None,
        })
    }

    fn run(mut self) -> Result<ConvertReport, ConvertError> {
        let form = self.form;
        self.check_options(form)?;
        self.threads()?;
        let unread = |message| WriteError::Classes { message };
        self.names = self.source.class_names().map_err(unread)?;
        let print = self.print(form)?;
        let report = match form {
            Form::Beton => self.beton(&print),
            Form::Tar | Form::TfRecord => self.shards(form, &print),
            Form::Folder => self.folder(&print),
        }?;
        Ok(ConvertReport { renamed: changes(self.source.fields(), &self.fields), ..report })
    }

    fn check_options(&self, form: Form) -> Result<(), ConvertError> {
        let ConvertOptions { max_samples, max_bytes, shards, image, .. } = self.options;
        image.check().map_err(|cause| WriteError::Options { field: "image".to_owned(), cause })?;
        let reason = match (max_samples, max_bytes, shards) {
            (Some(0), ..) | (_, Some(0), _) | (.., Some(0)) => "a shard of nothing, or no shard",
            (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                "how many shards, and how large they are: only one of both can be chosen"
            }
            _ if form == Form::Folder && is_compressed(&self.dst) => {
                "compressed shards are not written: they can't be read in any order"
            }
            _ => return Ok(()),
        };
        Err(ConvertError::Options { reason })
    }

    /// What is told of a damaged sample that is left out.
    ///
    /// # Errors
    ///
    /// If it is not to be left out.
    fn left_out(
        &self,
        sample: SampleId,
        cause: SampleError,
    ) -> Result<(u64, String), ConvertError> {
        if self.options.damaged == Damaged::Fail || !cause.is_damage() {
            return Err(WriteError::Sample { sample, path: None, cause }.into());
        }
        Ok((sample.0, cause.to_string()))
    }

    fn threads(&self) -> Result<usize, WriteError> {
        Ok(thread_count(self.options.threads)?)
    }

    /// Samples of a unit of what has no shards.
    fn unit(&self) -> u64 {
        self.options.max_samples.unwrap_or(UNIT)
    }

    /// Does the work of `write` with the notes of an earlier attempt, or new ones. `taken` is what lies
    /// at the destination: it may not be replaced unless that is asked for, or an attempt has put it
    /// there.
    fn noted(
        &self,
        print: &Print,
        taken: impl Fn() -> Result<Option<PathBuf>, ConvertError>,
        write: impl FnOnce(&mut Journal<'a>) -> Result<ConvertReport, ConvertError>,
    ) -> Result<ConvertReport, ConvertError> {
        make_dirs(folder_of(&self.dst))?;
        let mut journal = Journal::open(&self.dst, print, self.options, self.watch)?;
        let is_asked = self.options.overwrite;
        if journal.is_new() {
            if let Some(found) = if is_asked { None } else { taken().transpose() } {
                journal.forget();
                return Err(found.map_or_else(|error| error, |path| ConvertError::Exists { path }));
            }
            journal.begin(print)?;
        }
        let outcome = write(&mut journal);
        if outcome.is_ok() {
            journal.remove()?;
        } else if journal.units().is_empty() && (is_asked || matches!(taken(), Ok(None))) {
            // Nothing to go on with. The error is the one to be told, not one of these.
            let _ = delete(&self.parts_dir());
            journal.forget();
        }
        outcome
    }

    /// Where parts lie until they are put together.
    fn parts_dir(&self) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(self.dst.file_name().unwrap_or_default());
        name.push(".fuseloop-parts");
        folder_of(&self.dst).join(name)
    }

    /// What a conversion must have in common with the one that it goes on with.
    ///
    /// # Errors
    ///
    /// If it would write where it reads.
    fn print(&self, form: Form) -> Result<Print, ConvertError> {
        let mut print = Fingerprint::default();
        print.number(self.origin(form)?);
        print.number(self.source.fingerprint());
        print.number(self.source.len());
        for field in self.source.fields().iter().chain(&self.fields) {
            print.text(&field.name);
            print.text(&format!("{:?}", field.kind));
        }
        // A folder's classes are called by them.
        for (number, name) in self.names.iter().flat_map(ClassNames::iter) {
            print.number(number.cast_unsigned());
            print.text(name);
        }
        let ConvertOptions { max_samples, max_bytes, shards, image, page_size, .. } = self.options;
        let options = format!(
            "{form:?} of {max_samples:?} samples, {max_bytes:?} bytes, {shards:?} shards, pages of {page_size}, {image:?}"
        );
        let source = format!("{:016x}", print.value());
        Ok(Print { source, options, samples: self.source.len() })
    }

    fn bar(&self, journal: &Journal<'_>) -> Bar {
        Bar::new(self.options.progress, self.source.len(), journal.end(), journal.bytes())
    }
}
