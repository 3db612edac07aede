//! What was found: counts, the first of the damaged values, and which samples are good.

use crate::decode::DecodeError;
use crate::sample::SampleId;
use crate::source::{BoxError, Escaped, ReadErrorKind, SampleLocation};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong with a value, in kinds that call for different remedies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Trouble {
    /// The cell in the sample table makes no sense.
    Cell,
    /// The cell's pointer leads outside the data, or to where nothing begins.
    Pointer,
    /// The file ends before the value does.
    FileCut,
    /// The system could not read it.
    Unreadable,
    /// A picture whose bytes end before its pixels do.
    PictureCut,
    /// A picture that can't be decoded, or is not the one that the sample table says.
    PictureDamaged,
    /// A picture, maybe whole, of a kind that is not decoded.
    PictureUnsupported,
    /// More pixels or bytes than the limits allow.
    OverLimit,
    /// Text that is not JSON.
    Json,
    /// The dataset's own reader gave an error.
    Source,
    /// Reading or decoding panicked.
    Panicked,
}

impl Trouble {
    /// A word for machines: `picture_cut`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Pointer => "pointer",
            Self::FileCut => "file_cut",
            Self::Unreadable => "unreadable",
            Self::PictureCut => "picture_cut",
            Self::PictureDamaged => "picture_damaged",
            Self::PictureUnsupported => "picture_unsupported",
            Self::OverLimit => "over_limit",
            Self::Json => "json",
            Self::Source => "source",
            Self::Panicked => "panicked",
        }
    }
}

/// What such values are, for people: `pictures cut short`.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cell => "entries of the sample table that make no sense",
            Self::Pointer => "pointers that lead to no value",
            Self::FileCut => "values that the file ends in",
            Self::Unreadable => "values that the system could not read",
            Self::PictureCut => "pictures cut short",
            Self::PictureDamaged => "pictures that can't be decoded",
            Self::PictureUnsupported => "pictures of a kind that is not supported",
            Self::OverLimit => "values over the limits",
            Self::Json => "texts that are not JSON",
            Self::Source => "values that the source could not give",
            Self::Panicked => "values that a panic was met in (a bug: please report it)",
        })
    }
}

/// What is wrong with one value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It can't be read from its file.
    #[error(transparent)]
    Read(#[from] ReadErrorKind),
    /// It is a picture that can't be decoded.
    #[error(transparent)]
    Picture(#[from] DecodeError),
    /// It is no JSON.
    #[error("not JSON: {what} at byte {at} of {len}")]
    Json {
        /// What is wrong.
        what: &'static str,
        /// Where, from the value's first byte.
        at: usize,
        /// Bytes of the value.
        len: usize,
    },
    /// The dataset's own reader gave this error.
    #[error("{0}")]
    Source(String),
    /// Reading or decoding it panicked: a bug.
    #[error("panicked: {0}")]
    Panicked(String),
}

impl ValueError {
    /// The error of a source, typed where it is a file's.
    pub(super) fn of_source(error: BoxError) -> Self {
        match error.downcast::<ReadErrorKind>() {
            Ok(kind) => Self::Read(*kind),
            Err(other) => Self::Source(Escaped(&other.to_string()).to_string()),
        }
    }

    /// What kind of trouble it is.
    #[must_use]
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::Read(kind) => of_read(kind),
            Self::Picture(error) => of_decode(error),
            Self::Json { .. } => Trouble::Json,
            Self::Source(_) => Trouble::Source,
            Self::Panicked(_) => Trouble::Panicked,
        }
    }

    /// Where in the file it was met, if the error itself says.
    pub(super) fn offset(&self) -> Option<u64> {
        use ReadErrorKind as E;
        match self {
            Self::Read(E::Cell { at, .. } | E::EmptyImage { at, .. }) => Some(*at),
            Self::Read(
                E::NoAllocation { ptr }
                | E::OutOfBounds { ptr, .. }
                | E::Short { ptr, .. }
                | E::Io { ptr, .. }
                | E::RawSize { ptr, .. },
            ) => Some(*ptr),
            _ => None,
        }
    }
}

fn of_read(kind: &ReadErrorKind) -> Trouble {
    use ReadErrorKind as E;
    match kind {
        E::Cell { .. } | E::EmptyImage { .. } => Trouble::Cell,
        E::NoAllocation { .. } | E::OutOfBounds { .. } => Trouble::Pointer,
        E::Short { .. } => Trouble::FileCut,
        E::Pixels { .. } | E::Bytes { .. } => Trouble::OverLimit,
        E::RawSize { .. } => Trouble::PictureDamaged,
        // An error of the system, no memory, or one that a file has only if it changes.
        _ => Trouble::Unreadable,
    }
}

fn of_decode(error: &DecodeError) -> Trouble {
    use DecodeError as E;
    match error {
        E::HeaderTruncated { .. } | E::Truncated { .. } | E::TooShort { .. } => Trouble::PictureCut,
        E::Pixels { .. } | E::Bytes { .. } => Trouble::OverLimit,
        E::Process { .. }
        | E::Depth { .. }
        | E::Components { .. }
        | E::OpenHeight
        | E::Sampling { .. }
        | E::SequentialScans { .. } => Trouble::PictureUnsupported,
        E::Memory { .. } => Trouble::Unreadable,
        _ => Trouble::PictureDamaged,
    }
}

/// A damaged value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Its sample.
    pub sample: SampleId,
    /// Its field's name.
    pub field: String,
    /// Where it is stored, as far as the source says.
    pub location: Option<SampleLocation>,
    /// Where in the file: of the cell if that is wrong, else of the value's first byte. `None`
    /// where there is no one file, or where nothing says.
    pub offset: Option<u64>,
    /// What is wrong.
    pub error: ValueError,
}

/// `sample 17: s-0.tar: sample 0017 (jpg) at byte 8112: the JPEG is cut short: ..`. The location is
/// left out where the error itself begins with it.
impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sample, field, location, offset, error } = self;
        let message = error.to_string();
        write!(f, "sample {sample}")?;
        let location = location.as_ref().filter(|location| !location.is_named_by(&message));
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

/// What was found in a part of the dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) values: u64,
    pub(super) pictures: u64,
    pub(super) pixels: u64,
    pub(super) bytes: u64,
    pub(super) damaged_samples: u64,
    troubles: BTreeMap<Trouble, u64>,
    first: Vec<Damaged>,
}

impl Tally {
    pub(super) fn damaged(&mut self, damaged: Damaged) {
        *self.troubles.entry(damaged.error.trouble()).or_default() += 1;
        if self.first.len() < VerifyReport::KEPT {
            self.first.push(damaged);
        }
    }

    /// The tally of this part and of the next.
    pub(super) fn followed_by(mut self, next: Self) -> Self {
        self.values += next.values;
        self.pictures += next.pictures;
        self.pixels += next.pixels;
        self.bytes += next.bytes;
        self.damaged_samples += next.damaged_samples;
        for (trouble, count) in next.troubles {
            *self.troubles.entry(trouble).or_default() += count;
        }
        let room = VerifyReport::KEPT - self.first.len();
        self.first.extend(next.first.into_iter().take(room));
        self
    }
}

/// A bit for each sample, set by several threads.
#[derive(Debug)]
pub(super) struct Good(Vec<AtomicU64>);

impl Good {
    /// Samples of a word.
    pub(super) const BITS: u64 = 64;

    /// Room for so many samples, none good; `None` without memory.
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

/// What [`verify`](super::verify()) found.
#[derive(Debug)]
pub struct VerifyReport {
    /// Samples that were checked: from the first on.
    pub samples: u64,
    /// Values that were checked.
    pub values: u64,
    /// Pictures that were decoded.
    pub pictures: u64,
    /// Pixels of these.
    pub pixels: u64,
    /// Bytes of the values that could be read.
    pub bytes: u64,
    /// Samples with a damaged value.
    pub damaged_samples: u64,
    /// How many damaged values there are of each kind.
    pub troubles: BTreeMap<Trouble, u64>,
    /// The first [`KEPT`](Self::KEPT) damaged values, by sample and field.
    pub first: Vec<Damaged>,
    good: Good,
}

impl VerifyReport {
    /// Damaged values that are kept. All are counted.
    pub const KEPT: usize = 1000;

    pub(super) fn new(samples: u64, tally: Tally, good: Good) -> Self {
        let Tally { values, pictures, pixels, bytes, damaged_samples, troubles, first } = tally;
        Self { samples, values, pictures, pixels, bytes, damaged_samples, troubles, first, good }
    }

    /// Whether no damage was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damaged_samples == 0
    }

    /// Damaged values.
    #[must_use]
    pub fn damaged_values(&self) -> u64 {
        self.troubles.values().sum()
    }

    /// The samples without damage, in order.
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
            let error = ValueError::Source("gone".to_owned());
            let (field, location) = ("x".to_owned(), None);
            tally.damaged(Damaged { sample, field, location, offset: None, error });
        }
        tally
    }

    #[test]
    fn parts_add_up_and_the_first_are_kept() {
        let all = part(0..600).followed_by(part(600..1200)).followed_by(part(1200..1201));
        assert_eq!((all.values, all.damaged_samples), (6, 3));
        assert_eq!(all.troubles, BTreeMap::from([(Trouble::Source, 1201)]));
        assert!(all.first.iter().map(|damaged| damaged.sample.0).eq(0..1000));
        let other = part(0..600).followed_by(part(600..1200).followed_by(part(1200..1201)));
        assert_eq!(all, other, "however they are put together");
    }

    #[test]
    fn the_good_are_listed_in_order() {
        let good = Good::new(130).unwrap();
        for sample in [129, 0, 63, 64] {
            good.insert(SampleId(sample));
        }
        assert!(good.iter().map(|sample| sample.0).eq([0, 63, 64, 129]));
    }

    #[test]
    fn a_damaged_value_says_what_where_and_why() {
        let error = ValueError::from(DecodeError::Truncated { len: 99 });
        let field = "image\n".to_owned();
        let (sample, location, offset) = (SampleId(17), None, Some(8112));
        let mut damaged = Damaged { sample, field, location, offset, error };
        assert_eq!(
            damaged.to_string(),
            "sample 17 (image\\n) at byte 8112: the JPEG is cut short: 99 bytes and no end marker"
        );
        assert_eq!(damaged.error.trouble(), Trouble::PictureCut);
        damaged.location = Some(SampleLocation::of_key("cat/17"));
        assert!(damaged.to_string().starts_with("sample 17: cat/17 (image\\n) at byte 8112: "));
        damaged.offset = None;
        damaged.error = ValueError::Json { what: "a value was expected", at: 2, len: 5 };
        let text = damaged.to_string();
        assert!(text.ends_with("): not JSON: a value was expected at byte 2 of 5"), "{text}");
    }
}
