//! Streams: samples one after another, as tf.data has them.
//!
//! ```text
//! Stream (what is to come: cheap, shared)  --open(Pass)-->  Items (one pass over it)  --next-->  Item
//! ```
//!
//! An [`Item`] of a source that can be read in any order is only a place in it: a shuffle's buffer then
//! holds places and not pictures, the loader's workers read them side by side, and passing over a
//! million items to resume costs milliseconds. Items that can only be had in sequence (compressed
//! shards) carry their record.
//!
//! A pass is a pure function of its [`Pass`]: a place in it, the number of items before, says all there
//! is to say. That is what a cursor has.
//!
//! | method of [`Stream`] | tf.data | items | passing over so many costs |
//! |---|---|---|---|
//! | `of` | | those of a source, in its order | nothing |
//! | `concat` | `concatenate` | of one stream after another | nothing for whole streams of known length |
//! | `interleave` | `interleave` | of some streams at a time, in turn | a step a block |
//! | `mix` | `sample_from_datasets` | of several, drawn by weights | a draw an item |
//! | `zip` | `zip` | of several, side by side as one | as the streams |
//! | `shuffle`, `shuffle_and_repeat` | the same | drawn out of a buffer | a draw an item, if the length is known |
//! | `repeat`, `repeat_forever` | `repeat` | again | nothing for whole turns of known length |
//! | `with_epoch` | (WebDataset) | exactly so many | as `repeat` |
//! | `take`, `skip` | the same | the first; all but these | as the stream |
//! | `filter` | `filter` | those a function wants | reading them |
//! | `map` | `map` | as a function makes them, by who reads them | as the stream |
//! | `prefetch` | `prefetch` | read ahead by a thread | as the stream, before the first |
//! | `cache_in_memory`, `cache_file` | `cache` | kept for later passes | nothing, once it is filled |
//!
//! `counted` makes a [`Source`] of one, for what reads it once and in order: a conversion. Batches are the
//! loader's: [`Loader::from_stream`](crate::Loader::from_stream).

mod concat;
mod counted;
mod draws;
mod error;
mod filter;
mod interleave;
mod item;
mod keep;
mod kept_file;
mod lanes;
mod map;
mod mix;
mod played;
mod prefetch;
mod repeat;
mod shuffle;
mod skip;
mod take;
mod tape;
mod zip;

pub use counted::Counted;
pub use error::StreamError;
pub(in crate::source) use error::check_equal;
pub use interleave::Interleave;
pub use item::Item;
pub use mix::MixEnd;
pub use played::Halt;
pub(crate) use played::Played;

use super::{BoxError, ClassNames, FieldSpec, Fingerprint, ImageStats, Source};
use crate::sample::{Epoch, SampleId, UNKNOWN};
use draws::scrambled;
use std::path::PathBuf;
use std::sync::Arc;

/// Samples one after another. A clone is the same.
#[derive(Clone)]
pub struct Stream(Arc<dyn Streamed>);

/// What a pass over a stream goes by: with the same, it gives the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: Epoch,
    /// Which time it is in this epoch, where a stream is repeated: from 0.
    pub turn: u64,
}

/// A pass over a stream.
pub trait Items: Send {
    /// The next item; `None` at the end, and from then on.
    ///
    /// # Errors
    ///
    /// If the stream can't go on. What is wrong with one item alone is told when that is read.
    fn next(&mut self) -> Result<Option<Item>, BoxError>;

    /// Passes over up to `count` items; returns how many, fewer only at the end. The same as asking
    /// for them, and often much cheaper.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        by_asking(self, count)
    }
}

/// Passes over items by asking for them: what skipping is to be the same as.
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

/// What tells a combinator from others: its name, its parameters, and what it is over.
fn print(name: &str, parameters: &[u64], parts: &[Stream]) -> u64 {
    let mut print = Fingerprint::default();
    print.text(name);
    print.number(parameters.len() as u64);
    parameters.iter().for_each(|&number| print.number(number));
    parts.iter().for_each(|part| print.number(part.fingerprint()));
    print.value()
}

impl Pass {
    /// The pass of one of several streams that are put together: each draws for itself.
    fn of_part(&self, part: usize) -> Self {
        Self { seed: scrambled(self.seed ^ (part as u64).wrapping_mul(TURNS)), ..*self }
    }

    /// The pass of one turn of a stream that is repeated in this pass.
    fn turn(&self, turn: u64) -> Self {
        Self { turn: self.turn.wrapping_mul(TURNS).wrapping_add(turn), ..*self }
    }
}

/// So many turns lie between two of what is repeated within them: more than are ever taken.
const TURNS: u64 = 0x9e37_79b9_7f4a_7c15;

/// Items of several, if all are known.
fn sum(mut lens: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    lens.try_fold(0u64, |sum, len| Some(sum.saturating_add(len?)))
}

/// How many streams are put together: of one alone, what that is put together of.
fn count(parts: &[Stream]) -> usize {
    if let [one] = parts { one.part_count() } else { parts.len() }
}

/// The item of the stream of this number, of `parts` that are put together.
fn labelled(item: Item, part: usize, parts: usize) -> Item {
    if parts == 1 { item } else { item.of_part(part) }
}

/// What can be streamed.
pub trait Streamed: Send + Sync + 'static {
    /// What a sample has, in order.
    fn fields(&self) -> &[FieldSpec];

    /// Begins a pass.
    ///
    /// # Errors
    ///
    /// If it can't be begun.
    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError>;

    /// How many items a pass has, where that is known without one: the same for every pass.
    /// [`ENDLESS`] if it never ends.
    fn known_len(&self) -> Option<u64> {
        None
    }

    /// Whether a pass gives the same items whenever it is begun again. If not, there is no going on
    /// from a place in it.
    fn is_exact(&self) -> bool {
        self.parts().iter().all(Stream::is_exact)
    }

    /// What it is made of, if that is other streams of the same fields. What is known of values is
    /// then taken from them.
    fn parts(&self) -> &[Stream] {
        &[]
    }

    /// How many streams were put together to this one, side by side, where each item says which it
    /// is [of](Item::of_part); 1 where none were. By default as its one [part](Self::parts) has it.
    fn part_count(&self) -> usize {
        if let [one] = self.parts() { one.part_count() } else { 1 }
    }

    /// The sizes of a field's pictures, if they are known; see [`Source::image_stats`].
    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        let stats = self.parts().iter().map(|part| part.image_stats(field));
        stats.reduce(|a, b| a.zip(b).map(|(a, b)| a.merged(&b))).flatten()
    }

    /// Bytes of the longest value of a Bytes or JSON field, if that is known.
    fn longest(&self, field: usize) -> Option<u64> {
        let longest = self.parts().iter().map(|part| part.longest(field));
        longest.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten()
    }

    /// Names of the classes, if they are known; see [`Source::class_names`]. By default those of its
    /// one [part](Self::parts).
    ///
    /// # Errors
    ///
    /// As [`Source::class_names`].
    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        if let [one] = self.parts() { one.class_names() } else { Ok(None) }
    }

    /// What it is called in errors: by default as the first of its [`parts`](Self::parts).
    fn name(&self) -> String {
        self.parts().first().map_or_else(|| "the stream".to_owned(), Stream::name)
    }

    /// The files and folders of this machine that it is read from: by default those of its
    /// [`parts`](Self::parts).
    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.parts().iter().flat_map(Stream::paths))
    }

    /// What tells it from others, the same in every process: a cursor of one is refused by another.
    fn fingerprint(&self) -> u64;
}

impl Stream {
    /// A stream of the user's own.
    #[must_use]
    pub fn new(streamed: impl Streamed) -> Self {
        Self(Arc::new(streamed))
    }

    /// The samples of a source, in its order.
    #[must_use]
    pub fn of(source: Arc<dyn Source>) -> Self {
        Self::new(Whole(source))
    }

    /// What a sample has, in order.
    #[must_use]
    pub fn fields(&self) -> &[FieldSpec] {
        self.0.fields()
    }

    /// Begins a pass.
    ///
    /// # Errors
    ///
    /// If it can't be begun.
    pub fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        self.0.open(pass)
    }

    /// How many items a pass has, where that is known without one.
    #[must_use]
    pub fn known_len(&self) -> Option<u64> {
        self.0.known_len()
    }

    /// How many streams were put together to this one last, by `mix`, `concat` or `interleave`; 1
    /// where none were.
    #[must_use]
    pub fn part_count(&self) -> usize {
        self.0.part_count()
    }

    /// The sizes of a field's pictures, if they are known.
    #[must_use]
    pub fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.0.image_stats(field)
    }

    /// Bytes of the longest value of a Bytes or JSON field, if that is known.
    #[must_use]
    pub fn longest(&self, field: usize) -> Option<u64> {
        self.0.longest(field)
    }

    /// Names of the classes, if they are known.
    ///
    /// # Errors
    ///
    /// As [`Source::class_names`].
    pub fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.0.class_names()
    }

    /// What it is called in errors.
    #[must_use]
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// Whether a pass gives the same items whenever it is begun again.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.0.is_exact()
    }

    /// The files and folders of this machine that it is read from.
    pub fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        self.0.paths()
    }

    /// What tells it from others.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.0.fingerprint()
    }
}

/// A source from its first sample to its last.
struct Whole(Arc<dyn Source>);

impl Streamed for Whole {
    fn fields(&self) -> &[FieldSpec] {
        self.0.fields()
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(InOrder { source: Arc::clone(&self.0), next: 0 }))
    }

    fn known_len(&self) -> Option<u64> {
        Some(self.0.len()).filter(|&len| len != UNKNOWN)
    }

    fn part_count(&self) -> usize {
        self.0.parts()
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
