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

pub use super::samples::{Item, LazyRecord};

use super::{BoxError, Facts, FieldSpec, Fingerprint, Source};
use crate::sample::{Epoch, SampleId, UNKNOWN};
use draws::scrambled;
use std::sync::Arc;

/// Samples in sequence. A clone shares the same stream.
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
    parts.iter().for_each(|part| print.number(part.facts().fingerprint));
    print.value()
}

/// The facts of a combinator of streams with the same fields.
fn facts_of(name: &str, parameters: &[u64], parts: &[Stream]) -> Facts {
    let joined = Facts::joined(parts.iter().map(Stream::facts));
    Facts { fingerprint: fingerprint_of(name, parameters, parts), ..joined }
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

/// Labels an item with the index of its stream, if there are several.
fn labelled(item: Item, part: usize, parts: usize) -> Item {
    if parts == 1 { item } else { item.of_component(part) }
}

/// A user's own stream, or a combinator.
///
/// ```
/// use fuseloop::Loader;
/// use fuseloop::source::stream::{Item, Items, Pass, Stream, Streamed};
/// use fuseloop::source::{BoxError, Facts, FieldKind, OwnedValue, SampleLocation};
/// use std::{ops::Range, sync::Arc};
///
/// /// The numbers from 0 to 9, in sequence.
/// struct Digits(Facts);
///
/// impl Streamed for Digits {
///     fn facts(&self) -> &Facts {
///         &self.0
///     }
///
///     fn open(&self, _pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
///         Ok(Box::new(DigitsPass(0..10)))
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
/// let facts = Facts::new([("digit", FieldKind::Int)], 10);
/// let loader = Loader::from_stream(Stream::new(Digits(facts))).batch_size(5).build()?;
/// assert_eq!(loader.epoch(0)?.count(), 2);
/// # Ok::<(), BoxError>(())
/// ```
pub trait Streamed: Send + Sync + 'static {
    /// Returns what is known without reading an item. The number of samples there counts for nothing: it is
    /// [`known_len`](Self::known_len). A stream that is built from another one returns a changed clone of that stream's
    /// facts.
    fn facts(&self) -> &Facts;

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
        let mut print = Fingerprint::default();
        print.text("whole");
        print.number(source.fingerprint());
        // A stream is read in sequence, and a step back begins the pass again.
        let own = source.facts().clone();
        let facts = Facts {
            path: None,
            rereads_cheaply: false,
            stored_bytes: None,
            fingerprint: print.value(),
            ..own.clone()
        };
        Self::new(WholeSource { source, facts: facts.with_paths(move || own.paths()) })
    }

    /// Returns what is known without reading an item; see [`Streamed::facts`].
    #[must_use]
    pub fn facts(&self) -> &Facts {
        self.0.facts()
    }

    /// Returns the fields of a sample, in order.
    #[must_use]
    pub fn fields(&self) -> &[FieldSpec] {
        &self.facts().fields
    }

    /// Begins a pass.
    ///
    /// # Errors
    ///
    /// If the pass can't begin.
    pub fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        self.0.open(pass)
    }

    /// Returns the number of items of a pass, if it is known; see [`Streamed::known_len`].
    #[must_use]
    pub fn known_len(&self) -> Option<u64> {
        self.0.known_len()
    }
}

/// A source from its first sample to its last.
struct WholeSource {
    source: Arc<dyn Source>,
    facts: Facts,
}

impl Streamed for WholeSource {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(InOrder { source: Arc::clone(&self.source), next: 0 }))
    }

    fn known_len(&self) -> Option<u64> {
        Some(self.facts.samples).filter(|&len| len != UNKNOWN)
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
