//! Checks a whole dataset: reads every value of every sample, and decodes every image to its last row, every audio file to
//! its last sample and every video file to its last frame.
//!
//! | value         | what is checked                                                          |
//! |---------------|--------------------------------------------------------------------------|
//! | any           | its cell in the sample table; that it is inside the data; that it can be read |
//! | image         | its header agrees with its cell, and all of its pixels can be decoded    |
//! | mask          | the same, and each pixel is the number of a class                        |
//! | JSON          | it is JSON that Python can read, and ends with the NUL at which FFCV cuts it |
//! | audio         | all of its samples can be decoded, and are those of the MD5 that a FLAC has |
//! | video         | all of its frames can be decoded, or those of its part, which has at least one |
//! | other bytes, arrays | nothing more: there is no checksum, so any bytes are valid         |
//! | objects       | boxes, classes, keypoints and masks of an image belong together; degenerate ones are listed |
//!
//! Bytes are audio where the dataset says so (a folder of audio files, a column with the feature `Audio`), where the name of
//! the field is that of a member of tar shards (`flac`), and where the options name the field. Bytes are video files where the
//! dataset says so, where at least half of the first eight values of the field begin as video files do, as for clips, and where
//! the options name the field. All values of such a field must be video files. Where fewer do, the values are other bytes, and
//! the report counts those that begin as video files do.
//!
//! Several threads check the samples, 64 at a time. The report does not depend on the number of threads,
//! because its pieces are joined in the order of the samples. It lists the first
//! thousand damaged values and counts the rest, and has one bit for each sample.
//!
//! The tables of a `.beton` file are compared with each other by `layout`, and the files of MDS shards with the hashes
//! that their index lists: a file that differs is damage of its first sample.

mod json;
pub(crate) mod layout;
mod objects;
mod report;
mod value;
pub(crate) mod words;

pub use report::{DamageKind, DamagedValue, DegenerateKind, DegenerateObject, VerifyReport};

use crate::cancel::CancelFlag;
use crate::decode::UnreadParts;
use crate::error::{Error, ErrorKind, fail};
use crate::parallel;
use crate::sample::{Limits, SampleId};
use crate::source::{
    BoxError, Escaped, FieldKind, PartFields, Source, StoredValues, check_part_field,
    fields_of_videos,
};
use crate::threads::{self, ThreadsError};
use objects::ObjectChecker;
use rayon::prelude::*;
use report::{IntactSamples, Tally};
use std::num::NonZeroUsize;
use std::thread;
use value::Checker;

/// Samples that a thread checks at once: those of one word of [`IntactSamples`].
const GROUP: u64 = IntactSamples::BITS;

/// Options for checking a dataset.
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions};
/// use fuseloop::verify::{VerifyOptions, verify};
///
/// let beton = Beton::open("train.beton", &OpenOptions::default())?;
/// // The first thousand samples.
/// let options = VerifyOptions { limit: Some(1000), ..VerifyOptions::default() };
/// assert!(verify(&beton, &options, &|_| ())?.is_whole());
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// The number of checking threads, at most 1024; one a core by default.
    pub threads: Option<NonZeroUsize>,
    /// The number of samples to check, from the first on; all by default.
    pub limit: Option<u64>,
    /// Limits on what an image may ask for.
    pub limits: Limits,
    /// Further fields of bytes that are audio files. Those that the dataset knows are decoded anyway.
    pub audio: Vec<String>,
    /// Further fields of bytes that are video files. Those that the dataset knows, and those of which at least half of the
    /// first eight values begin as video files do, are decoded anyway.
    pub video: Vec<String>,
    /// The field with the second from which on frames of each video are checked; its first frame by default. See
    /// [`Clips::start_field`](crate::loader::Clips::start_field).
    pub start_field: Option<String>,
    /// The field with the second before which frames of each video are checked; its end by default. See
    /// [`Clips::end_field`](crate::loader::Clips::end_field).
    pub end_field: Option<String>,
    /// Ends the check from another thread, with an error.
    pub cancel: CancelFlag,
}

/// A check of the values of a field, besides that they can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldCheck {
    /// The values are of the field's kind.
    OfKind,
    /// Images whose pixels are numbers of classes.
    Mask,
    /// Bytes that are audio files.
    Audio,
    /// Bytes that are video files.
    Video,
}

/// The checks of a dataset.
struct Checks {
    /// The check of each field.
    fields: Vec<FieldCheck>,
    /// The fields with the seconds of the part of each video that is checked.
    #[cfg_attr(not(feature = "video"), expect(dead_code, reason = "no video is decoded"))]
    part: PartFields,
}

/// Returns a field that a setting names.
fn named_field(source: &dyn Source, name: &str, setting: &str) -> Result<usize, Error> {
    source.field_index(name).ok_or_else(|| {
        let known: Vec<&str> = source.fields().iter().map(|field| &*field.name).collect();
        fail!(Field, "no field named {name} for `{setting}`; available: {}", known.join(", "))
    })
}

impl Checks {
    fn new(source: &dyn Source, options: &VerifyOptions) -> Result<Self, Error> {
        let begin_as_videos = fields_of_videos(source);
        let check = |(field, is_mask): (usize, bool)| match is_mask {
            true => FieldCheck::Mask,
            // A build without audio does not decode what nobody asked for.
            false if cfg!(feature = "audio") && source.facts().is_audio(field) => FieldCheck::Audio,
            false if source.facts().is_video(field) => FieldCheck::Video,
            false if begin_as_videos.contains(&field) => FieldCheck::Video,
            false => FieldCheck::OfKind,
        };
        #[cfg(not(feature = "audio"))]
        if !options.audio.is_empty() {
            return Err(crate::decode::no_audio());
        }
        #[cfg(not(feature = "video"))]
        if let Some(name) = options.video.first() {
            return Err(crate::source::no_video(name));
        }
        let masks = objects::mask_fields(source)?;
        let mut checks: Vec<FieldCheck> = masks.into_iter().enumerate().map(check).collect();
        let audio = options.audio.iter().map(|name| (name, "audio", FieldCheck::Audio));
        let video = options.video.iter().map(|name| (name, "video", FieldCheck::Video));
        for (name, setting, check) in audio.chain(video) {
            let field = named_field(source, name, setting)?;
            let kind = &source.fields()[field].kind;
            if *kind != FieldKind::Bytes {
                let kind = kind.word();
                let error = fail!(Field, "only bytes can be {setting} files; this is {kind}");
                return Err(error.of_field(name));
            }
            checks[field] = check;
        }
        let part = part_fields(source, options)?;
        if part != [None, None] && !checks.contains(&FieldCheck::Video) {
            return Err(fail!(
                Parameter,
                "{}: `start_field` and `end_field` are of video files, and no field has video files: name it by `video`, or \
                 leave these out",
                Escaped(source.name())
            ));
        }
        Ok(Self { fields: checks, part })
    }
}

/// Returns the fields with the seconds of the parts of videos.
fn part_fields(source: &dyn Source, options: &VerifyOptions) -> Result<PartFields, Error> {
    let VerifyOptions { start_field, end_field, .. } = options;
    let find = |name: &Option<String>, setting: &str| -> Result<Option<usize>, Error> {
        let Some(name) = name else { return Ok(None) };
        let field = named_field(source, name, setting)?;
        let checked = check_part_field(&source.fields()[field].kind);
        checked.map_err(|error| error.context(format_args!("field {name}")).of_field(name))?;
        Ok(Some(field))
    };
    Ok([find(start_field, "start_field")?, find(end_field, "end_field")?])
}

/// Converts the error of a source that can't say what its fields of objects are.
fn of_fields(error: BoxError) -> Error {
    Error::from(error).of_kind(ErrorKind::Format)
}

/// Checks every value of every sample. `progress` is called from several threads, each time with the
/// number of samples that were just checked.
///
#[cfg_attr(feature = "write", doc = "```")]
#[cfg_attr(not(feature = "write"), doc = "```ignore")]
/// use fuseloop::source::{Beton, OpenOptions};
/// use fuseloop::verify::{VerifyOptions, verify};
/// # use fuseloop::source::{FieldKind, FieldSpec};
/// # use fuseloop::write::{FieldValue, WriteOptions, write_iter};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.beton");
/// # let fields = [FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
/// # write_iter((0..7).map(|n| vec![FieldValue::Int(n)]), &fields, &path, &WriteOptions::default())?;
/// let file = Beton::open(path, &OpenOptions::default())?;
/// let report = verify(&file, &VerifyOptions::default(), &|_samples| {})?;
/// assert!(report.is_whole());
/// assert_eq!(report.good().count(), 7);
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// If a field that is named as audio or video does not exist or has no bytes, one that is named as the start or the end of
/// videos does not exist or has no numbers, too many threads are asked for, the system starts none, there is no memory for a bit for each sample, the file
/// that describes the fields of objects is damaged, or the check is cancelled. Damage is not an error: it is in the report.
pub fn verify(
    source: &dyn Source,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<VerifyReport, Error> {
    let samples = source.len().min(options.limit.unwrap_or(u64::MAX));
    let good = IntactSamples::new(samples)
        .ok_or_else(|| fail!(Memory, "no memory for a bit for each of {samples} samples"))?;
    let (objects, checks) = (ObjectChecker::new(source)?, Checks::new(source, options)?);
    // A part of the samples is checked without reading whole files.
    let stored = source.stored().filter(|_| options.limit.is_none());
    let changed = stored.map(StoredValues::changed_files).into_iter().flatten().collect();
    let (groups, unread) = (samples.div_ceil(GROUP), UnreadParts::of(source.name()));
    let pool = parallel::pool(thread_count(options.threads, groups)?, "fuseloop-verify")?;
    let check = |checker: &mut Checker<'_>, group: u64| {
        let first = group * GROUP;
        let last = samples.min(first + GROUP);
        let mut tally = Tally::default();
        for sample in (first..last).map(SampleId) {
            if options.cancel.is_cancelled() {
                return tally;
            }
            if checker.sample(sample, &mut tally) {
                good.insert(sample);
            }
        }
        progress(last - first);
        tally
    };
    let tally = pool.install(|| {
        let checker =
            || Checker::new(source, objects.as_ref(), (&checks, &changed), options.limits, &unread);
        let tallies = (0..groups).into_par_iter().map_init(checker, check);
        tallies.reduce(Tally::default, Tally::followed_by)
    });
    if options.cancel.is_cancelled() {
        return Err(fail!(Cancelled, "the check was cancelled"));
    }
    Ok(VerifyReport::new(samples, source, tally, good))
}

/// Returns the number of threads asked for, or one a core, but no more than there are groups.
fn thread_count(asked: Option<NonZeroUsize>, groups: u64) -> Result<usize, ThreadsError> {
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let count = asked.unwrap_or_else(cores).get();
    threads::check("threads to verify with", count)?;
    Ok(count.min(usize::try_from(groups).unwrap_or(count)).max(1))
}
