//! Streams: samples in sequence, as in tf.data.
//!
//! ```text
//! Stream (what is to come: cheap, shared)  --open(Pass)-->  Items (one pass over it)  --next-->  Item
//! ```
//!
//! If a source can be read in any order, an [`Item`] is only a reference to one of its samples. A
//! shuffle buffer then holds references, not images; the loader's workers read the samples in parallel;
//! and skipping a million items to resume costs milliseconds. If a source can only be read in sequence
//! (compressed shards), an item holds its record.
//!
//! The items of a pass depend only on its [`Pass`], so the number of items already taken is enough to
//! describe a position in it. A cursor stores that number.
//!
//! | method of [`Stream`] | tf.data | items | cost of skipping items |
//! |---|---|---|---|
//! | `of` | | the samples of a source, in its order | none |
//! | `concat` | `concatenate` | one stream after another | none for whole streams of known length |
//! | `interleave` | `interleave` | a few streams at a time, in turn | one step per block |
//! | `mix` | `sample_from_datasets` | several streams, drawn by weights | one draw per item |
//! | `zip` | `zip` | several streams side by side, joined into one item | as in the streams |
//! | `shuffle`, `shuffle_and_repeat` | the same | drawn from a buffer | one draw per item, if the length is known |
//! | `repeat`, `repeat_forever` | `repeat` | the stream several times | none for whole turns of known length |
//! | `with_epoch` | (WebDataset) | an exact number of items | as `repeat` |
//! | `take`, `skip` | the same | the first items; all but the first | as in the stream |
//! | `filter` | `filter` | the items that a function accepts | reading them |
//! | `map` | `map` | the results of a function, called by the thread that reads the item | as in the stream |
//! | `prefetch` | `prefetch` | read ahead by a thread | as in the stream, before the first item |
//! | `cache_in_memory`, `cache_file` | `cache` | stored for later passes | none, once the cache is filled |
//!
//! `counted` turns a stream into a [`Source`] for a caller that reads every sample once and in order: a
//! conversion. The loader builds batches: [`Loader::from_stream`](crate::Loader::from_stream).

mod cache;
mod cache_file;
mod concat;
mod draws;
mod error;
mod filter;
mod interleave;
mod map;
mod mix;
mod pass_cursor;
mod prefetch;
mod rank_shards;
mod read_ahead;
mod repeat;
mod sequential_source;
mod shuffle;
mod skip;
mod stream_source;
mod take;
mod zip;

pub(crate) use error::SharedError;
pub(in crate::source) use error::check_equal;
pub use interleave::Interleave;
pub use mix::MixEnd;
pub(in crate::source) use rank_shards::shards_of_rank;
pub use sequential_source::SequentialSource;
pub(crate) use stream_source::{StreamEnd, StreamSource};

pub use super::samples::Item;

use super::{
    BoxError, ClassNames, FieldSpec, Fingerprint, ImageStats, ObjectFields, Source, classes,
};
use crate::sample::{Epoch, SampleId, UNKNOWN};
use draws::scrambled;
use std::path::PathBuf;
use std::sync::Arc;

/// Samples in sequence. A clone shares the same stream. [`Streamed`] has the methods that describe it.
#[derive(Clone)]
pub struct Stream(Arc<dyn Streamed>);

/// The parameters of a pass over a stream. Two passes with equal parameters yield the same items.
///
/// ```
/// use fuseloop::Epoch;
/// use fuseloop::source::BoxError;
/// use fuseloop::source::stream::{Item, Pass, Stream, Streamed};
///
/// /// Returns the first item of an epoch.
/// fn first(stream: &Stream, epoch: u32) -> Result<Option<Item>, BoxError> {
///     let pass = Pass { seed: 0, epoch: Epoch(epoch), turn: 0 };
///     stream.open(&pass)?.next()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// The number of the repetition within this epoch, from 0, if the stream is repeated.
    pub turn: u64,
}

/// A pass over a stream.
///
/// ```
/// use fuseloop::source::BoxError;
/// use fuseloop::source::stream::{Item, Items};
///
/// /// Every second item of another pass.
/// struct EverySecond(Box<dyn Items>);
///
/// impl Items for EverySecond {
///     fn next(&mut self) -> Result<Option<Item>, BoxError> {
///         let item = self.0.next()?;
///         self.0.skip(1)?;
///         Ok(item)
///     }
/// }
/// ```
pub trait Items: Send {
    /// Returns the next item; `None` at the end and on every later call.
    ///
    /// # Errors
    ///
    /// If the stream can't continue. An error in a single item is reported when that item is read.
    fn next(&mut self) -> Result<Option<Item>, BoxError>;

    /// Skips up to `count` items and returns how many it skipped: fewer only at the end. The effect is
    /// the same as that of calling [`next`](Self::next), often at a much lower cost.
    ///
    /// # Errors
    ///
    /// See [`next`](Self::next).
    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        by_asking(self, count)
    }
}

/// Skips items by calling `next`: the reference for every `skip`.
fn by_asking(items: &mut (impl Items + ?Sized), count: u64) -> Result<u64, BoxError> {
    for done in 0..count {
        if items.next()?.is_none() {
            return Ok(done);
        }
    }
    Ok(count)
}

/// The number of items of a stream that never ends.
pub const ENDLESS: u64 = u64::MAX;

/// The fingerprint of a combinator: its name, its parameters and its component streams.
fn fingerprint_of(name: &str, parameters: &[u64], parts: &[Stream]) -> u64 {
    let mut print = Fingerprint::default();
    print.text(name);
    print.number(parameters.len() as u64);
    parameters.iter().for_each(|&number| print.number(number));
    parts.iter().for_each(|part| print.number(part.fingerprint()));
    print.value()
}

impl Pass {
    /// The pass of one of several combined streams. Each component draws its own random numbers.
    fn for_component(&self, part: usize) -> Self {
        Self { seed: scrambled(self.seed ^ (part as u64).wrapping_mul(TURNS)), ..*self }
    }

    /// The pass of one turn of a stream that is repeated within this pass.
    fn turn(&self, turn: u64) -> Self {
        Self { turn: self.turn.wrapping_mul(TURNS).wrapping_add(turn), ..*self }
    }
}

/// The factor that keeps nested repetitions apart: more than the number of turns ever taken.
const TURNS: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sum of the lengths of several streams, if all are known.
fn sum(mut lens: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    lens.try_fold(0u64, |sum, len| Some(sum.saturating_add(len?)))
}

/// The number of combined streams. For a single stream: the number of its own components.
fn count(parts: &[Stream]) -> usize {
    if let [one] = parts { one.component_count() } else { parts.len() }
}

/// Labels an item with the index of its stream, if there are several.
fn labelled(item: Item, part: usize, parts: usize) -> Item {
    if parts == 1 { item } else { item.of_component(part) }
}

/// A user's own stream, or a combinator.
///
/// ```
/// use fuseloop::Loader;
/// use fuseloop::source::stream::{Item, Items, Pass, Stream, Streamed};
/// use fuseloop::source::{BoxError, FieldKind, FieldSpec, OwnedValue, SampleLocation};
/// use std::{ops::Range, sync::Arc};
///
/// /// The numbers from 0 to 9, in sequence.
/// struct Digits(Vec<FieldSpec>);
///
/// impl Streamed for Digits {
///     fn fields(&self) -> &[FieldSpec] {
///         &self.0
///     }
///
///     fn open(&self, _pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
///         Ok(Box::new(DigitsPass(0..10)))
///     }
///
///     fn fingerprint(&self) -> u64 {
///         10
///     }
/// }
///
/// struct DigitsPass(Range<i64>);
///
/// impl Items for DigitsPass {
///     fn next(&mut self) -> Result<Option<Item>, BoxError> {
///         let item = |digit| Item::Held {
///             record: Arc::new(vec![OwnedValue::Int(digit)]),
///             location: Arc::new(SampleLocation::of_key(digit.to_string())),
///         };
///         Ok(self.0.next().map(item))
///     }
/// }
///
/// let field = FieldSpec { name: "digit".to_owned(), kind: FieldKind::Int };
/// let loader = Loader::from_stream(Stream::new(Digits(vec![field]))).batch_size(5).build()?;
/// assert_eq!(loader.epoch(0)?.count(), 2);
/// # Ok::<(), BoxError>(())
/// ```
pub trait Streamed: Send + Sync + 'static {
    /// The fields of a sample, in order.
    fn fields(&self) -> &[FieldSpec];

    /// Begins a pass.
    ///
    /// # Errors
    ///
    /// If the pass can't begin.
    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError>;

    /// The number of items of a pass, if it is known without reading one: the same for every pass.
    /// [`ENDLESS`] if the stream never ends.
    fn known_len(&self) -> Option<u64> {
        None
    }

    /// Returns whether two passes with the same [`Pass`] yield the same items. If not, a pass can't be
    /// resumed from the middle.
    fn is_exact(&self) -> bool {
        self.components().iter().all(Stream::is_exact)
    }

    /// The streams that this one is built from, if they have the same fields. Facts about values (image
    /// sizes, class names) are then taken from them.
    fn components(&self) -> &[Stream] {
        &[]
    }

    /// The number of streams that were combined side by side, where each item carries the
    /// [index](Item::Of) of its stream; 1 if none were. By default, the count of the only entry of
    /// [`components`](Self::components).
    fn component_count(&self) -> usize {
        if let [one] = self.components() { one.component_count() } else { 1 }
    }

    /// The image sizes of a field, if they are known; see [`Source::image_stats`].
    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        let stats = self.components().iter().map(|part| part.image_stats(field));
        stats.reduce(|a, b| a.zip(b).map(|(a, b)| a.merged(&b))).flatten()
    }

    /// The length in bytes of the longest value of a Bytes or JSON field, if it is known.
    fn longest(&self, field: usize) -> Option<u64> {
        let longest = self.components().iter().map(|part| part.longest(field));
        longest.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten()
    }

    /// The class names, if they are known; see [`Source::class_names`]. By default, those of all
    /// [`components`](Self::components), if each has names.
    ///
    /// # Errors
    ///
    /// See [`Source::class_names`].
    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        let named = self.components().iter().map(|part| Ok((part.name(), part.class_names()?)));
        Ok(classes::joined(named.collect::<Result<Vec<_>, BoxError>>()?)?)
    }

    /// What the fields of objects are; see [`Source`]. By default, what the only entry of
    /// [`components`](Self::components) says.
    #[doc(hidden)]
    fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        if let [one] = self.components() { one.object_fields() } else { Ok(None) }
    }

    /// The stream's name in error messages: by default, the name of the first of its
    /// [`components`](Self::components).
    fn name(&self) -> String {
        self.components().first().map_or_else(|| "the stream".to_owned(), Stream::name)
    }

    /// The local files and folders that the stream is read from: by default, those of its
    /// [`components`](Self::components).
    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.components().iter().flat_map(Stream::paths))
    }

    /// Identifies the stream, equally in every process. A cursor of one stream is refused by another.
    fn fingerprint(&self) -> u64;
}

impl Stream {
    /// Wraps a user's own stream.
    #[must_use]
    pub fn new(streamed: impl Streamed) -> Self {
        Self(Arc::new(streamed))
    }

    /// The samples of a source, in its order.
    #[must_use]
    pub fn of(source: Arc<dyn Source>) -> Self {
        Self::new(WholeSource(source))
    }
}

impl Streamed for Stream {
    fn fields(&self) -> &[FieldSpec] {
        self.0.fields()
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        self.0.open(pass)
    }

    fn known_len(&self) -> Option<u64> {
        self.0.known_len()
    }

    fn is_exact(&self) -> bool {
        self.0.is_exact()
    }

    fn components(&self) -> &[Stream] {
        self.0.components()
    }

    fn component_count(&self) -> usize {
        self.0.component_count()
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.0.image_stats(field)
    }

    fn longest(&self, field: usize) -> Option<u64> {
        self.0.longest(field)
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.0.class_names()
    }

    fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        self.0.object_fields()
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        self.0.paths()
    }

    fn fingerprint(&self) -> u64 {
        self.0.fingerprint()
    }
}

/// A source from its first sample to its last.
struct WholeSource(Arc<dyn Source>);

impl Streamed for WholeSource {
    fn fields(&self) -> &[FieldSpec] {
        self.0.fields()
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(InOrder { source: Arc::clone(&self.0), next: 0 }))
    }

    fn known_len(&self) -> Option<u64> {
        Some(self.0.len()).filter(|&len| len != UNKNOWN)
    }

    fn component_count(&self) -> usize {
        self.0.components()
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.0.image_stats(field)
    }

    fn longest(&self, field: usize) -> Option<u64> {
        self.0.longest(field)
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.0.class_names()
    }

    fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        self.0.object_fields()
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        self.0.paths()
    }

    fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::default();
        print.text("whole");
        print.number(self.0.fingerprint());
        print.value()
    }
}

struct InOrder {
    source: Arc<dyn Source>,
    next: u64,
}

impl Items for InOrder {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        if self.next >= self.source.len() {
            return Ok(None);
        }
        let sample = SampleId(self.next);
        self.next += 1;
        Ok(Some(Item::At { source: Arc::clone(&self.source), sample }))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        let count = count.min(self.source.len() - self.next);
        self.next += count;
        Ok(count)
    }
}
