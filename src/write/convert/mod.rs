//! Converts any source to any of the formats that loaders read. An interrupted conversion can be
//! resumed.
//!
//! | DST                                   | becomes                                              |
//! |---------------------------------------|------------------------------------------------------|
//! | `x.beton`, `x-{000}.beton`            | one `.beton` file, or several                        |
//! | `x-{000000}.tar`, `x.tar`             | WebDataset's shards, or one                          |
//! | `x-{00000}.tfrecord`, `x.tfrecord`, `.tfrecords` | TFRecord shards of `tf.train.Example`, or one |
//! | `x-{00000}-of-{N}.parquet`, `x.parquet` | Parquet files, which `datasets` reads, or one       |
//! | `x/index.json`                        | MDS shards in `x`, which `StreamingDataset` reads     |
//! | any other name                        | a folder of images: a folder per class, or `metadata.jsonl` |
//!
//! ```text
//! source --chunks of consecutive samples--> each complete at its path, or absent
//!                                           └ recorded in DST.fuseloop-convert.json (journal.rs)
//! ```
//!
//! The index of MDS shards is written last: until then there is no dataset.
//!
//! A chunk is a shard, a number of samples of a `.beton`, which grows by them, or a number of files of a
//! folder. The content of a chunk depends on the source and on the sample it begins at, and
//! on nothing else. A conversion that continues behind the last complete chunk therefore writes the same
//! bytes as one that was never interrupted.

mod beton;
mod classes;
mod folder;
mod journal;
mod layout;
mod notes;
mod origin;
mod output_file;
mod pictures;
#[cfg(test)]
mod power_cut;
mod rename;
mod shard_splitter;
#[cfg(test)]
#[cfg(all(feature = "tables", feature = "tar"))]
mod tests;
mod videos;

pub use origin::real_path;
pub use videos::{VideoOptions, convert_any, convert_videos, stores_frames};

use super::atomic_file::{check_local, refuse_existing, resumed_path};
use super::beside::{Beside, written_file};
use super::error::{INPUTS, refuse_all_damaged, sample_error};
use super::mode::ImageOptions;
use super::options::{OnUnreadable, WriteOptions, masks, thread_count};
use super::progress::ProgressCounter;
use super::report::{Skipped, WriteReport};
use super::shards::Template;
use super::step::{StepObserver, unwatched};
use super::value::WriteSampleError;
use crate::error::{Error, fail};
use crate::sample::SampleId;
use crate::source::{
    ClassNames, FieldSpec, Fingerprint, MDS_INDEX, ObjectField, Source, fields_of_videos,
};
use journal::{ConversionId, Journal, delete, folder_of, make_dirs};
use output_file::{FileFields, FileKind};
use pictures::ImageFiles;
use rename::{changes, renamed};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf, is_separator};
use videos::VideoFrames;

/// The default number of samples in a chunk of a `.beton` or a folder.
const UNIT: u64 = 10_000;

/// The same for frames of videos, of which a worker takes many at once.
const UNIT_OF_FRAMES: u64 = 100_000;

/// The output format, which follows from the destination's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputFormat {
    Beton,
    Tar,
    TfRecord,
    Parquet,
    Mds,
    Folder,
}

/// The names of MDS shards, as mosaicml-streaming has them.
const MDS_SHARDS: &str = "shard.{00000}.mds";

impl OutputFormat {
    fn of(dst: &Path) -> Self {
        let extension = dst.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            _ if dst.file_name().is_some_and(|name| name == MDS_INDEX) => Self::Mds,
            Some("beton") => Self::Beton,
            Some("tar") => Self::Tar,
            Some("tfrecord" | "tfrecords") => Self::TfRecord,
            Some("parquet") => Self::Parquet,
            _ => Self::Folder,
        }
    }
}

/// Refuses a new folder whose name looks like that of a file, unless it ends with a slash.
fn check_extension(dst: &Path) -> Result<(), Error> {
    if dst.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mds")) {
        return Err(fail!(
            Parameter,
            "{dst:?}: MDS shards are named by the index of their folder: use a name such as out/{MDS_INDEX}"
        )
        .named_path(dst));
    }
    let is_named = dst.extension().is_none() || is_compressed(dst);
    let is_slashed =
        dst.as_os_str().as_encoded_bytes().last().is_some_and(|&b| is_separator(b.into()));
    if OutputFormat::of(dst) != OutputFormat::Folder || is_named || is_slashed || dst.is_dir() {
        return Ok(());
    }
    Err(fail!(
        Parameter,
        "{dst:?}: unknown extension: use .beton, .tar, .tfrecord, .parquet or FOLDER/{MDS_INDEX}, or end the name with / \
         for a folder"
    )
    .named_path(dst))
}

/// Returns true if the name asks for compressed shards, which are not written; it would be a strange
/// name for a folder.
fn is_compressed(dst: &Path) -> bool {
    let extension = dst.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("gz" | "tgz" | "zst" | "bz2" | "xz" | "zip"))
}

/// Writes a dataset in the format that the name of `dst` selects: `x.beton`, `x-{000000}.tar`,
/// `x-{00000}-of-{N}.tfrecord`, `x-{00000}-of-{N}.parquet`, `x/index.json`, or a folder of images: a name without an
/// extension, or with a `/` at its end.
///
/// Values are copied as the source stores them, unless the options say otherwise: the images of a `.beton` keep their
/// form. Bit planes are an exception: they become the JPEGs that they were made of, unless they are asked for.
///
/// A conversion that was interrupted, at whatever moment, resumes when the function is called again:
/// complete outputs are kept, and the result is the same to the byte as if it had never been
/// interrupted. Until then a journal `DST.fuseloop-convert.json` stays beside the destination.
///
/// - **tar**: WebDataset's shards. The first image is `jpg` or `png`, the int `label` is `cls`, other
///   fields are `NAME.jpg`, `.cls`, `.txt` (floats), `.bin`, `.json`, `.npy`; a name that already has
///   such an extension stays. Keys are the source's own, with unsafe characters and path components
///   replaced, or the sample's number.
/// - **TFRecord**: a `tf.train.Example` per sample, a feature per field. Floats have 32 bits; a second
///   feature stores a float that needs 64. Arrays are lists if lists hold every bit, otherwise bytes.
/// - **Parquet** (feature `parquet`): a row per sample, as `datasets` writes it, with its features: images as
///   `struct<bytes, path>`, the label as a `ClassLabel`, the rows of objects as a list `objects` of structures.
///   `load_dataset` reads `out/train-{00000}-of-{N}.parquet` as the split `train` of `out`.
/// - **MDS**: `index.json` and shards of 64 MiB beside it, which are as those of mosaicml-streaming: images as `jpeg` or
///   `png`, ints as `int`, floats as `float64`, bytes as `str` or `bytes`, arrays and rows of objects as `ndarray`. The index
///   also has the names of classes, and is written last. Each shard is held in memory until it is complete.
/// - **folder**: `DST/cat/00000123.jpg` if the fields are one image and one int, its class. Otherwise
///   all images in `DST` and their other fields in `DST/metadata.jsonl`, which must then be numbers,
///   text or JSON.
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions};
/// use fuseloop::write::{WriteOptions, convert};
///
/// let source = Beton::open("train.beton", &OpenOptions::default())?;
/// let options = WriteOptions { max_bytes: Some(1 << 30), ..WriteOptions::default() };
/// let report = convert(&source, "shards/train-{000000}.tar", &options)?;
/// println!("{} samples in {} shards", report.samples, report.files);
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// If the source can't be read, the destination can't be written or exists, or the options don't fit it. Outputs that were complete by then stay, and the next attempt keeps them.
pub fn convert(
    source: &dyn Source,
    dst: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    let dst = dst.as_ref();
    check_local(dst)?;
    check_extension(dst)?;
    DatasetConversion::new(source, dst, options, &unwatched, OutputFormat::of(dst))?.run()
}

/// Returns the error of a file that would be replaced or taken for one of the output.
fn refused(path: &Path, reason: &str) -> Error {
    fail!(Parameter, "{path:?}: {reason}").named_path(path)
}

/// Returns the error of an output that would replace a file that is read.
pub(super) fn is_an_input(path: &Path) -> Error {
    fail!(Parameter, "{path:?} is an input of this command: choose a different output")
        .named_path(path)
        .help(INPUTS)
}

/// The conversion of one dataset.
struct DatasetConversion<'a> {
    source: &'a dyn Source,
    dst: PathBuf,
    options: &'a WriteOptions,
    watch: StepObserver<'a>,
    form: OutputFormat,
    /// The source's fields, with their names in the output.
    fields: Vec<FieldSpec>,
    /// How the images of each field are stored, in the order of the fields.
    images: Vec<ImageOptions>,
    /// The source's class names, and what the fields of objects are, under their names in the output.
    beside: Beside,
    /// True if the source has a field with positions in its image, or a value for each of its pixels.
    has_positions: bool,
    /// The samples of a `.beton` that is one of several.
    part: Option<Range<u64>>,
    /// The source, if it has the frames of videos.
    videos: Option<&'a VideoFrames>,
}

impl<'a> DatasetConversion<'a> {
    fn new(
        source: &'a dyn Source,
        dst: &Path,
        options: &'a WriteOptions,
        watch: StepObserver<'a>,
        form: OutputFormat,
    ) -> Result<Self, Error> {
        let Beside { classes, objects } = Beside::of(source)?;
        let objects = objects.unwrap_or_default();
        let mut fields = renamed((source.fields(), &objects), form, &options.rename)?;
        if form == OutputFormat::Tar {
            rename::audio_members(source, &mut fields, &options.rename);
        }
        let names = source.fields().iter().zip(&fields).map(|(old, new)| (&*old.name, &*new.name));
        let image = |field: &FieldSpec| match objects.get(&field.name) {
            Some(ObjectField::Mask) => ImageOptions::of_mask(),
            _ => options.image_options(field).clone(),
        };
        let images: Vec<_> = source.fields().iter().map(image).collect();
        let has_positions = objects.iter().any(|(_, field)| field.has_positions());
        let masks = masks(source.fields().iter().zip(&images));
        let new: Vec<_> = masks.filter(|(name, _)| objects.get(name).is_none()).collect();
        let objects = objects.with(new);
        let beside = Beside { classes, objects: objects.renamed(names) };
        // `x/` and `x` are the same destination, so a trailing slash is removed: files beside it are
        // named after it.
        let dst: PathBuf = dst.components().collect();
        // The file that a link leads to is replaced, and the files beside it belong to it.
        let dst = if form == OutputFormat::Folder { dst } else { written_file(&dst) };
        let (part, videos) = (None, None);
        Ok(Self {
            source,
            dst,
            options,
            watch,
            form,
            fields,
            images,
            beside,
            has_positions,
            part,
            videos,
        })
    }

    fn run(self) -> Result<WriteReport, Error> {
        let form = self.form;
        self.check_options(form)?;
        self.threads()?;
        let print = self.conversion_id()?;
        let mut report = match (self.template()?, form) {
            (Some(template), _) => self.shards(&template, &print),
            (None, OutputFormat::Folder) => self.folder(&print),
            (None, _) => {
                self.beton(&print).map(|(file, resumed)| WriteReport { resumed, ..file.report() })
            }
        }?;
        report.skipped = self.with_paths(report.skipped);
        for one in &mut report.unchanged.first {
            one.path = self.path_of(one.sample);
        }
        refuse_all_damaged(report.samples, &report.skipped)?;
        report.notes.splice(0..0, self.notes_on_fields());
        Ok(WriteReport { renamed: changes(self.source.fields(), &self.fields), ..report })
    }

    /// Returns the names of the shards; `None` if the output is a folder or a single `.beton`.
    fn template(&self) -> Result<Option<Template>, Error> {
        Ok(match self.form {
            OutputFormat::Tar | OutputFormat::TfRecord | OutputFormat::Parquet => {
                Some(Template::parse(&self.dst)?)
            }
            // Here the signs of a template are ordinary letters of the folder's name.
            OutputFormat::Mds => {
                Some(Template::in_any_folder(&self.dst.with_file_name(MDS_SHARDS))?)
            }
            OutputFormat::Beton => Template::parse(&self.dst).ok().filter(Template::has_number),
            OutputFormat::Folder => None,
        })
    }

    /// Adds the files of the samples to a list of those that were left out.
    fn with_paths(&self, mut skipped: Skipped) -> Skipped {
        for one in &mut skipped.first {
            one.path = self.path_of(one.sample);
        }
        skipped
    }

    /// Returns the file that has a sample.
    fn path_of(&self, sample: SampleId) -> Option<PathBuf> {
        let location = self.source.locate(sample, 0)?;
        location.file.map(|file| PathBuf::from(&*file))
    }

    fn check_options(&self, form: OutputFormat) -> Result<(), Error> {
        let WriteOptions { max_samples, max_bytes, shards, image, ranks, .. } = self.options;
        image.check("image")?;
        self.options.checked_images(self.source.fields())?;
        let reason = match (max_samples, max_bytes, shards) {
            (Some(0), ..) | (_, Some(0), _) | (.., Some(0)) => {
                "max_samples, max_bytes and shards must be at least 1"
            }
            (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                "set either the number of shards or their size, not both"
            }
            _ if ranks.is_some() && self.template()?.is_none() => {
                "several ranks write shards: name the destination x-{000000}.tar"
            }
            _ if ranks.is_some() && form == OutputFormat::Mds => {
                "several ranks can't write MDS shards, because one index lists all: write .tar shards, or convert in one process"
            }
            (.., None) if ranks.is_some() => {
                "several ranks need the number of shards, so that each knows its own: set shards"
            }
            _ if self.has_positions
                && self.images.iter().any(|image| image.max_resolution.is_some()) =>
            {
                "max_resolution downscales images, but not their boxes, keypoints and masks: leave it out, and resize both by a Resize of the loader"
            }
            _ if form == OutputFormat::Folder && is_compressed(&self.dst) => {
                "compressed shards are not written: they can't be read in any order"
            }
            _ => return Ok(()),
        };
        Err(fail!(Parameter, "{reason}"))
    }

    /// Returns which fields are audio files.
    fn audio_fields(&self) -> Vec<bool> {
        let facts = self.source.facts();
        (0..self.fields.len()).map(|field| facts.is_audio(field)).collect()
    }

    /// Returns which fields are audio or video files. Bytes are video files if the dataset says so, or if the first ones begin
    /// as such.
    fn file_fields(&self) -> FileFields {
        let (facts, begin_as_videos) = (self.source.facts(), fields_of_videos(self.source));
        let kind = |field| match field {
            field if facts.is_audio(field) => Some(FileKind::Audio),
            field if facts.is_video(field) || begin_as_videos.contains(&field) => {
                Some(FileKind::Video)
            }
            _ => None,
        };
        FileFields((0..self.fields.len()).map(kind).collect())
    }

    /// Returns what converts images to files, and checks files that stay.
    fn image_files(&self) -> ImageFiles<'_> {
        let audio = self.audio_fields();
        ImageFiles::new(&self.images, self.has_targets(), self.options.limits)
            .checking(|field| audio.get(field) == Some(&true))
    }

    /// Returns true if images have objects with positions, or other images such as masks, beside them.
    fn has_targets(&self) -> bool {
        let images = self.fields.iter().filter(|field| field.kind.is_image());
        self.has_positions || images.count() > 1
    }

    /// Returns the journal entry for a damaged sample that is left out.
    ///
    /// # Errors
    ///
    /// If the sample must not be left out.
    fn skipped_entry(
        &self,
        sample: SampleId,
        cause: WriteSampleError,
    ) -> Result<(u64, String), Error> {
        if self.options.on_damaged == OnUnreadable::Fail || !cause.is_damage() {
            return Err(sample_error(sample, self.path_of(sample).as_deref(), cause));
        }
        Ok((sample.0, cause.to_string()))
    }

    fn threads(&self) -> Result<usize, Error> {
        Ok(thread_count(self.options.threads)?)
    }

    /// Returns the number of samples in a chunk of a `.beton` or a folder.
    fn unit(&self) -> u64 {
        let unit = if self.videos.is_some() { UNIT_OF_FRAMES } else { UNIT };
        self.options.max_samples.unwrap_or(unit)
    }

    /// Runs `write` with the journal of an earlier attempt, or a new one. `taken` returns a path that
    /// exists at the destination: it is an error, unless overwriting is allowed or an earlier attempt
    /// has written it.
    fn with_journal<T>(
        &self,
        print: &ConversionId,
        taken: impl Fn() -> Result<Option<PathBuf>, Error>,
        write: impl FnOnce(&mut Journal<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        make_dirs(folder_of(&self.dst))?;
        let mut journal = Journal::open(&self.journal_dst(), print, self.options, self.watch)?;
        let is_asked = self.options.overwrite;
        if journal.is_new() {
            let free = taken().and_then(|found| refuse_existing(found.as_deref(), is_asked));
            if let Err(error) = free {
                journal.forget();
                return Err(error);
            }
            journal.begin(print)?;
        }
        let outcome = write(&mut journal);
        if outcome.is_ok() {
            journal.remove()?;
        } else if journal.chunks().is_empty() && (is_asked || matches!(taken(), Ok(None))) {
            // There is nothing to resume. The first error is returned; errors of the clean-up are
            // ignored.
            for path in [self.chunks_dir(), self.allocations_path()] {
                let _ = delete(&path);
            }
            if let Ok(path) = resumed_path(&self.dst) {
                let _ = delete(&path);
            }
            journal.forget();
        }
        outcome
    }

    /// Returns the path that the journal is named after: each rank has its own.
    fn journal_dst(&self) -> PathBuf {
        let Some(ranks) = self.options.ranks else { return self.dst.clone() };
        let mut name = self.dst.clone().into_os_string();
        name.push(format!(".rank-{}-of-{}", ranks.rank(), ranks.world_size()));
        name.into()
    }

    /// Returns the directory of the table's chunks, which are concatenated at the end.
    fn chunks_dir(&self) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(self.dst.file_name().unwrap_or_default());
        name.push(".fuseloop-parts");
        folder_of(&self.dst).join(name)
    }

    /// Returns the identity of the conversion, which a resumed conversion must share.
    ///
    /// # Errors
    ///
    /// If the conversion would write where it reads.
    fn conversion_id(&self) -> Result<ConversionId, Error> {
        let form = self.form;
        let mut print = Fingerprint::default();
        print.number(self.origin()?);
        print.number(self.source.fingerprint());
        print.number(self.source.len());
        for field in self.source.fields().iter().chain(&self.fields) {
            print.text(&field.name);
            print.text(&format!("{:?}", field.kind));
        }
        // The class names determine the names of a folder's class directories.
        for (number, name) in self.beside.classes.iter().flat_map(ClassNames::iter) {
            print.number(number.cast_unsigned());
            print.text(name);
        }
        // What the fields of objects are determines how they are stored.
        if let Some(objects) = &self.beside.objects {
            print.text(&objects.to_json(""));
        }
        let source = format!("{:016x}", print.value());
        let options = self.options.settings(&format!("{form:?}").to_ascii_lowercase());
        Ok(ConversionId { source, options, samples: self.samples() })
    }

    /// Returns the counter of the samples, which continues at those in the journal. A part continues at those before it.
    fn progress(&self, journal: &Journal<'_>) -> ProgressCounter<'_> {
        let samples = self.own_samples();
        let total = Some(samples.end - samples.start);
        let done = journal.end() - samples.start;
        ProgressCounter::resumed(&self.options.progress, total, done, journal.bytes())
    }
}
