//! The result of a check: counts, the first damaged values, and which samples are intact.

use super::layout::LayoutReport;
use crate::error::{Damage, Error};
use crate::sample::SampleId;
use crate::source::{BoxError, Escaped, SampleLocation, Source};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of damage to a value, one for each remedy.
///
/// ```no_run
/// use fuseloop::verify::{DamageKind, VerifyReport};
///
/// fn cut_pictures(report: &VerifyReport) -> u64 {
///     report.troubles.get(&DamageKind::PictureCut).copied().unwrap_or(0)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// The cell in the sample table has impossible contents.
    Cell,
    /// The cell's pointer leads outside the data, or to a position where no value begins.
    Pointer,
    /// The file ends before the value does.
    FileCut,
    /// The system could not read the value.
    Unreadable,
    /// The image's bytes end before its pixels do.
    PictureCut,
    /// The image can't be decoded, or is not the one that the sample table describes.
    PictureDamaged,
    /// The image may be intact, but its kind is not supported, or it is no mask although its field is one.
    PictureUnsupported,
    /// The bytes of an audio file end before its samples do.
    AudioCut,
    /// The audio file can't be decoded.
    AudioDamaged,
    /// The audio file may be intact, but its kind is not supported.
    AudioUnsupported,
    /// The video file can't be decoded.
    VideoDamaged,
    /// The video file may be intact, but its kind is not supported, or needs a library that is not installed.
    VideoUnsupported,
    /// The part of a video that the dataset lists has no frame.
    VideoPart,
    /// More pixels or bytes than the limits allow.
    OverLimit,
    /// Text that is not JSON.
    Json,
    /// The rows of an image's objects do not belong together, or a box, a class or a mask is impossible.
    Objects,
    /// The dataset's own reader returned an error.
    Source,
    /// Reading or decoding panicked.
    Panicked,
}

impl DamageKind {
    /// Returns a word for machines: `picture_cut`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Pointer => "pointer",
            Self::FileCut => "file_cut",
            Self::Unreadable => "unreadable",
            Self::PictureCut => "picture_cut",
            Self::PictureDamaged => "picture_damaged",
            Self::PictureUnsupported => "picture_unsupported",
            Self::AudioCut => "audio_cut",
            Self::AudioDamaged => "audio_damaged",
            Self::AudioUnsupported => "audio_unsupported",
            Self::VideoDamaged => "video_damaged",
            Self::VideoUnsupported => "video_unsupported",
            Self::VideoPart => "video_part",
            Self::OverLimit => "over_limit",
            Self::Json => "json",
            Self::Objects => "objects",
            Self::Source => "source",
            Self::Panicked => "panicked",
        }
    }
}

/// Describes such values for people: `pictures cut short`.
impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cell => "invalid entries of the sample table",
            Self::Pointer => "pointers that lead to no value",
            Self::FileCut => "values that the file ends in",
            Self::Unreadable => "values that the system could not read",
            Self::PictureCut => "images cut short",
            Self::PictureDamaged => "images that can't be decoded",
            Self::PictureUnsupported => "images of a kind that is not supported",
            Self::AudioCut => "audio files cut short",
            Self::AudioDamaged => "audio files that can't be decoded",
            Self::AudioUnsupported => "audio files of a kind that is not supported",
            Self::VideoDamaged => "video files that can't be decoded",
            Self::VideoUnsupported => "video files of a kind that is not supported",
            Self::VideoPart => "parts of videos without a frame",
            Self::OverLimit => "values over the limits",
            Self::Json => "texts that are not JSON",
            Self::Objects => "objects of images that a loader refuses",
            Self::Source => "values that the source could not give",
            Self::Panicked => "values that caused a panic (a bug: please report it)",
        })
    }
}

/// What is wrong with one value.
#[derive(Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct ValueError {
    pub(super) kind: DamageKind,
    pub(super) text: String,
    /// The offset in the file, if the error itself has one.
    pub(super) offset: Option<u64>,
}

impl ValueError {
    fn new(kind: DamageKind, text: String) -> Self {
        Self { kind, text, offset: None }
    }

    /// Converts the error of a source.
    pub(super) fn of_source(error: &BoxError) -> Self {
        match error.downcast_ref::<Error>().filter(|error| error.shows_value()) {
            Some(error) => Self {
                offset: error.offset(),
                ..Self::new(of_read(error), error.text().to_owned())
            },
            None => Self::new(DamageKind::Source, Escaped(&error.to_string()).to_string()),
        }
    }

    /// Converts the error of an image that can't be decoded.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` passes errors by value")]
    pub(super) fn of_picture(error: Error) -> Self {
        Self::new(of_decode(&error), error.to_string())
    }

    /// Converts the error of an audio file that can't be decoded.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` passes errors by value")]
    pub(super) fn of_audio(error: Error) -> Self {
        let kind = match of_decode(&error) {
            DamageKind::PictureCut => DamageKind::AudioCut,
            DamageKind::PictureUnsupported => DamageKind::AudioUnsupported,
            DamageKind::PictureDamaged => DamageKind::AudioDamaged,
            other => other,
        };
        Self::new(kind, error.to_string())
    }

    /// Converts the error of a video file that can't be decoded.
    #[cfg(feature = "video")]
    #[expect(clippy::needless_pass_by_value, reason = "the error is not used again")]
    pub(super) fn of_video(error: Error) -> Self {
        let kind = match of_decode(&error) {
            _ if error.is_not_damage() => DamageKind::VideoUnsupported,
            _ if error.damage_found() == Some(Damage::Part) => DamageKind::VideoPart,
            DamageKind::PictureUnsupported => DamageKind::VideoUnsupported,
            DamageKind::PictureCut | DamageKind::PictureDamaged => DamageKind::VideoDamaged,
            other => other,
        };
        Self::new(kind, error.to_string())
    }

    /// The value has `len` bytes and is not JSON: the error is at byte `at`.
    pub(super) fn not_json(what: &str, at: usize, len: usize) -> Self {
        Self::new(DamageKind::Json, format!("not JSON: {what} at byte {at} of {len}"))
    }

    /// A loader would refuse the objects of an image.
    pub(super) fn of_objects(text: String) -> Self {
        Self::new(DamageKind::Objects, text)
    }

    /// Reading or decoding the value panicked: a bug.
    pub(super) fn panicked(message: &str) -> Self {
        Self::new(DamageKind::Panicked, format!("panicked: {message}"))
    }
}

/// Converts the error of rows of objects.
impl From<Error> for ValueError {
    fn from(error: Error) -> Self {
        Self::of_objects(error.to_string())
    }
}

fn of_read(error: &Error) -> DamageKind {
    match error.damage_found() {
        Some(Damage::Cell) => DamageKind::Cell,
        Some(Damage::Pointer) => DamageKind::Pointer,
        Some(Damage::FileCut) => DamageKind::FileCut,
        Some(Damage::OverLimit) => DamageKind::OverLimit,
        Some(Damage::OtherSize) => DamageKind::PictureDamaged,
        // An error of the system, no memory, or an error that occurs only if the file changes.
        _ => DamageKind::Unreadable,
    }
}

fn of_decode(error: &Error) -> DamageKind {
    match error.damage_found() {
        _ if error.lacks_memory() => DamageKind::Unreadable,
        Some(Damage::Cut) => DamageKind::PictureCut,
        Some(Damage::OverLimit) => DamageKind::OverLimit,
        Some(Damage::Unsupported) => DamageKind::PictureUnsupported,
        _ => DamageKind::PictureDamaged,
    }
}

/// A damaged value.
///
/// ```no_run
/// use fuseloop::verify::VerifyReport;
///
/// fn print(report: &VerifyReport) {
///     for damaged in &report.first {
///         println!("sample {}, {}: {}", damaged.sample.0, damaged.field, damaged.error);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedValue {
    /// The value's sample.
    pub sample: SampleId,
    /// The name of the value's field.
    pub field: String,
    /// Where the value is stored, as far as the source knows.
    pub location: Option<SampleLocation>,
    /// An offset in the file: of the cell if the cell is wrong, otherwise of the value's first byte.
    /// `None` if there is no single file, or if the offset is not known.
    pub offset: Option<u64>,
    /// The kind of damage.
    pub kind: DamageKind,
    /// The description of the damage.
    pub error: String,
}

/// Writes `sample 17: s-0.tar: sample 0017 (jpg) at byte 8112: the JPEG is cut short: ..`. The location
/// is left out if the error itself begins with it.
impl fmt::Display for DamagedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sample, field, location, offset, error: message, .. } = self;
        write!(f, "sample {sample}")?;
        let location = location.as_ref().filter(|location| !location.is_named_by(message));
        if let Some(location) = location.filter(|l| l.file.is_some() || l.key.is_some()) {
            write!(f, ": {location}")?;
        }
        write!(f, " ({})", Escaped(field))?;
        if let Some(offset) = offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {message}")
    }
}

/// Why an object trains nothing, or something wrong. A loader delivers it.
///
/// ```no_run
/// use fuseloop::verify::{DegenerateKind, VerifyReport};
///
/// fn empty_boxes(report: &VerifyReport) -> u64 {
///     report.degenerate.get(&DegenerateKind::EmptyBox).copied().unwrap_or(0)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DegenerateKind {
    /// A side of the box is 0.
    EmptyBox,
    /// The box reaches out of its image by more than a pixel.
    BoxOutside,
    /// A keypoint that is labelled lies outside of its image.
    KeypointOutside,
    /// The mask has no pixel.
    EmptyMask,
}

impl DegenerateKind {
    /// Returns a word for machines: `empty_box`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::EmptyBox => "empty_box",
            Self::BoxOutside => "box_outside",
            Self::KeypointOutside => "keypoint_outside",
            Self::EmptyMask => "empty_mask",
        }
    }
}

/// Describes such objects for people: `boxes without an area`.
impl fmt::Display for DegenerateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EmptyBox => "boxes without an area",
            Self::BoxOutside => "boxes that reach out of their image",
            Self::KeypointOutside => "labelled keypoints outside of their image",
            Self::EmptyMask => "masks without a pixel",
        })
    }
}

/// An object that a loader delivers, although it trains nothing, or something wrong.
///
/// ```no_run
/// use fuseloop::verify::VerifyReport;
///
/// fn print(report: &VerifyReport) {
///     for object in &report.first_degenerate {
///         println!("sample {}, object {}: {}", object.sample.0, object.object, object.text);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DegenerateObject {
    /// The sample of the object.
    pub sample: SampleId,
    /// The name of the field.
    pub field: String,
    /// The index of the object in its sample.
    pub object: usize,
    /// The id that a file of annotations has for the object.
    pub annotation: Option<i64>,
    /// Where the sample is stored, as far as the source knows.
    pub location: Option<SampleLocation>,
    /// Why it is degenerate.
    pub kind: DegenerateKind,
    /// The same in words, with the numbers.
    pub text: String,
}

/// Writes `sample 3: 000000000009.jpg (bbox): object 2, annotation 771: the box [..] (xywh) has no area`.
impl fmt::Display for DegenerateObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sample, field, object, annotation, location, text, .. } = self;
        write!(f, "sample {sample}")?;
        if let Some(location) = location.as_ref().filter(|l| l.file.is_some() || l.key.is_some()) {
            write!(f, ": {location}")?;
        }
        write!(f, " ({}): object {object}", Escaped(field))?;
        if let Some(annotation) = annotation {
            write!(f, ", annotation {annotation}")?;
        }
        write!(f, ": {text}")
    }
}

/// The findings in a range of the dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) values: u64,
    pub(super) pictures: u64,
    pub(super) pixels: u64,
    pub(super) audio_files: u64,
    pub(super) video_files: u64,
    pub(super) bytes: u64,
    pub(super) damaged_samples: u64,
    /// The number of values of each field that begin as video files do and were not decoded.
    pub(super) undecoded_videos: BTreeMap<usize, u64>,
    troubles: BTreeMap<DamageKind, u64>,
    first: Vec<DamagedValue>,
    degenerate: BTreeMap<DegenerateKind, u64>,
    first_degenerate: Vec<DegenerateObject>,
}

impl Tally {
    pub(super) fn degenerate(&mut self, found: DegenerateObject) {
        *self.degenerate.entry(found.kind).or_default() += 1;
        if self.first_degenerate.len() < VerifyReport::MAX_LISTED {
            self.first_degenerate.push(found);
        }
    }

    pub(super) fn damaged(&mut self, damaged: DamagedValue) {
        *self.troubles.entry(damaged.kind).or_default() += 1;
        if self.first.len() < VerifyReport::MAX_LISTED {
            self.first.push(damaged);
        }
    }

    /// Returns the tally of this range and of the next one together.
    pub(super) fn followed_by(mut self, next: Self) -> Self {
        self.values += next.values;
        self.pictures += next.pictures;
        self.pixels += next.pixels;
        self.audio_files += next.audio_files;
        self.video_files += next.video_files;
        self.bytes += next.bytes;
        self.damaged_samples += next.damaged_samples;
        add(&mut self.undecoded_videos, next.undecoded_videos);
        add(&mut self.troubles, next.troubles);
        add(&mut self.degenerate, next.degenerate);
        let room = VerifyReport::MAX_LISTED - self.first.len();
        self.first.extend(next.first.into_iter().take(room));
        let room = VerifyReport::MAX_LISTED - self.first_degenerate.len();
        self.first_degenerate.extend(next.first_degenerate.into_iter().take(room));
        self
    }
}

/// Adds counts to those of the same keys.
fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, more: BTreeMap<K, u64>) {
    for (key, count) in more {
        *counts.entry(key).or_default() += count;
    }
}

/// A bit for each sample, set by several threads.
#[derive(Debug)]
pub(super) struct IntactSamples(Vec<AtomicU64>);

impl IntactSamples {
    /// The number of samples in a word.
    pub(super) const BITS: u64 = 64;

    /// Creates bits for `samples` samples, all of them not intact; `None` if there is no memory.
    pub(super) fn new(samples: u64) -> Option<Self> {
        let words = usize::try_from(samples.div_ceil(Self::BITS)).ok()?;
        let mut bits = vec![];
        bits.try_reserve_exact(words).ok()?;
        bits.resize_with(words, AtomicU64::default);
        Some(Self(bits))
    }

    pub(super) fn insert(&self, sample: SampleId) {
        let word = usize::try_from(sample.0 / Self::BITS).ok().and_then(|word| self.0.get(word));
        if let Some(word) = word {
            word.fetch_or(1 << (sample.0 % Self::BITS), Ordering::Relaxed);
        }
    }

    fn iter(&self) -> impl Iterator<Item = SampleId> + '_ {
        let words = self.0.iter().zip(0u64..);
        words.flat_map(|(word, index)| {
            let word = word.load(Ordering::Relaxed);
            let set = (0..Self::BITS).filter(move |bit| word >> bit & 1 == 1);
            set.map(move |bit| SampleId(index * Self::BITS + bit))
        })
    }
}

/// The result of [`verify`](super::verify()).
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions};
/// use fuseloop::verify::{VerifyOptions, verify};
///
/// let beton = Beton::open("train.beton", &OpenOptions::default())?;
/// let report = verify(&beton, &VerifyOptions::default(), &|_| ())?;
/// println!("{} of {} samples are damaged", report.damaged_samples, report.samples);
/// let intact: Vec<u64> = report.good().map(|sample| sample.0).collect();
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug)]
pub struct VerifyReport {
    /// How many samples were checked, from the first on.
    pub samples: u64,
    /// How many samples the dataset has.
    pub of_samples: u64,
    /// How many values were checked.
    pub values: u64,
    /// How many images were decoded.
    pub pictures: u64,
    /// How many pixels these images have.
    pub pixels: u64,
    /// How many audio files were decoded.
    pub audio_files: u64,
    /// How many video files were decoded.
    pub video_files: u64,
    /// How many bytes the readable values have.
    pub bytes: u64,
    /// How many samples have a damaged value.
    pub damaged_samples: u64,
    /// How many values of a field begin as video files do and were not decoded, because most of its first values do not, and
    /// the options do not name it. They are no damage.
    pub undecoded_videos: BTreeMap<String, u64>,
    /// How many damaged values there are of each kind.
    pub troubles: BTreeMap<DamageKind, u64>,
    /// The first thousand damaged values, by sample and field.
    pub first: Vec<DamagedValue>,
    /// How many objects there are of each degenerate kind. They are no damage.
    pub degenerate: BTreeMap<DegenerateKind, u64>,
    /// The first thousand degenerate objects, by sample.
    pub first_degenerate: Vec<DegenerateObject>,
    /// The comparison of a `.beton` file's tables, if it was made.
    pub(super) tables: Option<LayoutReport>,
    good: IntactSamples,
}

impl VerifyReport {
    /// Most damaged values in a report. All damaged values are counted.
    pub(super) const MAX_LISTED: usize = 1000;

    pub(super) fn new(
        samples: u64,
        source: &dyn Source,
        tally: Tally,
        good: IntactSamples,
    ) -> Self {
        let name = |(field, count): (usize, u64)| (source.fields()[field].name.clone(), count);
        let undecoded_videos = tally.undecoded_videos.into_iter().map(name).collect();
        let Tally { values, pictures, pixels, bytes, damaged_samples, .. } = tally;
        let Tally { audio_files, video_files, .. } = tally;
        let Tally { troubles, first, degenerate, first_degenerate, .. } = tally;
        Self {
            samples,
            of_samples: source.len(),
            values,
            pictures,
            pixels,
            audio_files,
            video_files,
            bytes,
            damaged_samples,
            undecoded_videos,
            troubles,
            first,
            degenerate,
            first_degenerate,
            tables: None,
            good,
        }
    }

    /// Returns whether no damage was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damaged_samples == 0 && self.tables.as_ref().is_none_or(LayoutReport::is_whole)
    }

    /// Returns the number of damaged values.
    #[must_use]
    pub fn damaged_values(&self) -> u64 {
        self.troubles.values().sum()
    }

    /// Returns the samples without damage, in order.
    pub fn good(&self) -> impl Iterator<Item = SampleId> + '_ {
        self.good.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(samples: std::ops::Range<u64>) -> Tally {
        let mut tally = Tally { values: 2, damaged_samples: 1, ..Tally::default() };
        for sample in samples.map(SampleId) {
            let (kind, error) = (DamageKind::Source, "gone".to_owned());
            let (field, location) = ("x".to_owned(), None);
            tally.damaged(DamagedValue { sample, field, location, offset: None, kind, error });
        }
        tally
    }

    #[test]
    fn parts_add_up_and_the_first_are_kept() {
        let all = part(0..600).followed_by(part(600..1200)).followed_by(part(1200..1201));
        assert_eq!((all.values, all.damaged_samples), (6, 3));
        assert_eq!(all.troubles, BTreeMap::from([(DamageKind::Source, 1201)]));
        assert!(all.first.iter().map(|damaged| damaged.sample.0).eq(0..1000));
        let other = part(0..600).followed_by(part(600..1200).followed_by(part(1200..1201)));
        assert_eq!(all, other, "however they are put together");
    }

    #[test]
    fn the_good_are_listed_in_order() {
        let good = IntactSamples::new(130).unwrap();
        for sample in [129, 0, 63, 64] {
            good.insert(SampleId(sample));
        }
        assert!(good.iter().map(|sample| sample.0).eq([0, 63, 64, 129]));
    }

    #[test]
    fn a_damaged_value_says_what_where_and_why() {
        let error = ValueError::of_picture(
            crate::error::fail!(Damaged, "the JPEG is cut short: 99 bytes and no end marker")
                .damage(Damage::Cut),
        );
        let field = "image\n".to_owned();
        let (sample, location, offset) = (SampleId(17), None, Some(8112));
        let (kind, error) = (error.kind, error.text);
        assert_eq!(kind, DamageKind::PictureCut);
        let mut damaged = DamagedValue { sample, field, location, offset, kind, error };
        assert_eq!(
            damaged.to_string(),
            "sample 17 (image\\n) at byte 8112: the JPEG is cut short: 99 bytes and no end marker"
        );
        damaged.location = Some(SampleLocation::of_key("cat/17"));
        assert!(damaged.to_string().starts_with("sample 17: cat/17 (image\\n) at byte 8112: "));
        damaged.offset = None;
        damaged.error = ValueError::not_json("a value was expected", 2, 5).text;
        let text = damaged.to_string();
        assert!(text.ends_with("): not JSON: a value was expected at byte 2 of 5"), "{text}");
    }
}
