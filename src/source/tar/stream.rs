//! Tar shards as a stream: one after another, from their beginning on, without an index.
//!
//! ```text
//! shards ─▶ shuffled, every world-th from rank on: shards/deal.rs ─▶ walked one after another
//! ```
//!
//! All ranks shuffle alike and then share: each shard is read by one of them, and by all together every
//! one. A rank may come to fewer samples than another.

use super::error::Found;
use super::records::Inner;
use super::walk::{Met, Walk};
use super::{TarError, TarOptions};
use crate::source::shards::{Shard, Shards, deal, local_paths};
use crate::source::stream::{Item, Items, Pass, Stream, Streamed};
use crate::source::{BoxError, ClassNames, FieldSpec, classes};
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;

/// Samples of tar files in sequence: plain, `.gz` or `.zst`, told by their first bytes.
///
/// Nothing is known before it is read, and nothing is kept: no index, no count. Fields are declared or
/// told by the first sample, as those of [`Tar`](super::Tar). What is wrong with one sample alone (a part it
/// has not, a label that is no number) is told when that sample is read; a damaged shard ends there,
/// with an error that names it and the byte, and asking on goes on with the next shard.
///
/// ```no_run
/// use fuseloop::source::{As, Stream, TarOptions, TarStream};
/// let fields = TarOptions::default().field("image", "jpg", As::Image).field("label", "cls", As::Int);
/// let shards = TarStream::open_with("train-{000..255}.tar.gz", &fields)?.shuffle_shards();
/// let stream = Stream::from(shards.split_by_rank(0, 8)?);
/// # Ok::<(), fuseloop::source::TarError>(())
/// ```
#[derive(Clone)]
pub struct TarStream {
    inner: Arc<Inner>,
    is_shuffled: bool,
    rank: usize,
    world: usize,
}

impl TarStream {
    /// Opens the shards that a text names: see
    /// [`Location::parse`](crate::source::Location::parse). Of each it is seen that it is there;
    /// of the first the first sample is read, to know the fields.
    ///
    /// # Errors
    ///
    /// See [`TarError`].
    pub fn open(spec: &str) -> Result<Self, TarError> {
        Self::open_with(spec, &TarOptions::default())
    }

    /// Opens shards with declared fields, or with limits of their own.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); and if a field can't be had as it is declared.
    pub fn open_with(spec: &str, options: &TarOptions) -> Result<Self, TarError> {
        Self::of(&Shards::open(spec).map_err(TarError::Open)?, options, false)
    }

    /// A shard that is in memory.
    ///
    /// # Errors
    ///
    /// As [`open_with`](Self::open_with).
    pub fn from_bytes(bytes: &[u8], options: &TarOptions) -> Result<Self, TarError> {
        Self::of(&Shards::new(vec![Shard::held("memory.tar", bytes)]), options, true)
    }

    fn of(shards: &Shards, options: &TarOptions, is_held: bool) -> Result<Self, TarError> {
        let inner = Inner::new(shards, options, is_held)?;
        Ok(Self { inner: Arc::new(inner), is_shuffled: false, rank: 0, world: 1 })
    }

    /// Has every pass go through the shards in an order of its own, drawn from the loader's seed and the
    /// epoch. The samples of a shard stay in theirs.
    #[must_use]
    pub fn shuffle_shards(self) -> Self {
        Self { is_shuffled: true, ..self }
    }

    /// Only every `world`-th shard, from the `rank`-th on: after the shuffle, which is the same on all
    /// ranks that have the loader's seed.
    ///
    /// # Errors
    ///
    /// If there is no such rank, or there are fewer shards than ranks.
    pub fn split_by_rank(self, rank: usize, world: usize) -> Result<Self, TarError> {
        if rank >= world {
            return Err(TarError::Rank { rank, world });
        }
        let shards = self.inner.shards.len();
        if shards < world {
            return Err(TarError::Ranks { shards, world });
        }
        Ok(Self { rank, world, ..self })
    }

    /// A stream of each shard of this rank, in the order of their names: to be interleaved. A rank's
    /// shards are the same in every pass; `Interleave::shuffle` gives them another order in each.
    #[must_use]
    pub fn shards(&self) -> Vec<Stream> {
        let ours = (self.rank..self.inner.shards.len()).step_by(self.world);
        ours.map(|shard| Stream::new(OneShard { inner: Arc::clone(&self.inner), shard })).collect()
    }

    /// The shards of a pass, in order.
    fn order(&self, pass: &Pass) -> Vec<usize> {
        deal(self.inner.shards.len(), pass, self.is_shuffled, (self.rank, self.world))
    }
}

impl Streamed for TarStream {
    fn fields(&self) -> &[FieldSpec] {
        &self.inner.fields
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Walking::new(&self.inner, self.order(pass))))
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        classes::of_shards(self.inner.shards.iter().map(|shard| &shard.location))
    }

    fn name(&self) -> String {
        self.inner.name.clone()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(local_paths(self.inner.shards.iter().map(|shard| &shard.location)))
    }

    fn fingerprint(&self) -> u64 {
        let mut print = self.inner.fingerprint();
        for number in [usize::from(self.is_shuffled), self.rank, self.world] {
            print.number(number as u64);
        }
        print.value()
    }
}

/// One shard alone.
struct OneShard {
    inner: Arc<Inner>,
    shard: usize,
}

impl Streamed for OneShard {
    fn fields(&self) -> &[FieldSpec] {
        &self.inner.fields
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Walking::new(&self.inner, vec![self.shard])))
    }

    fn name(&self) -> String {
        self.inner.shards[self.shard].location.to_string()
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(local_paths(iter::once(&self.inner.shards[self.shard].location)))
    }

    fn fingerprint(&self) -> u64 {
        let mut print = self.inner.fingerprint();
        print.text("one shard");
        print.number(self.shard as u64);
        print.value()
    }
}

/// A pass over some shards.
struct Walking {
    inner: Arc<Inner>,
    /// Those to come, the next one last.
    left: Vec<usize>,
    walk: Option<(usize, Walk)>,
}

impl Walking {
    fn new(inner: &Arc<Inner>, mut order: Vec<usize>) -> Self {
        order.reverse();
        Self { inner: Arc::clone(inner), left: order, walk: None }
    }

    /// The next sample and its shard, with the bytes of its parts if they are wanted.
    fn sample(&mut self, is_wanted: bool) -> Result<Option<(usize, Met)>, TarError> {
        loop {
            let (shard, mut walk) = match (self.walk.take(), self.left.last()) {
                (Some(walk), _) => walk,
                (None, None) => return Ok(None),
                (None, Some(&shard)) => {
                    self.left.pop();
                    (shard, self.inner.walk(shard)?)
                }
            };
            let inner = &self.inner;
            let met = walk.sample(|ext, size| is_wanted && inner.is_wanted(ext, size));
            if let Some(met) =
                met.map_err(|found: Found| found.of(&inner.shards[shard].location))?
            {
                self.walk = Some((shard, walk));
                return Ok(Some((shard, met)));
            }
        }
    }
}

impl Items for Walking {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let met = self.sample(true)?;
        Ok(met.map(|(shard, met)| self.inner.item(shard, met)))
    }

    /// Of a plain shard only headers are read.
    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        for done in 0..count {
            if self.sample(false)?.is_none() {
                return Ok(done);
            }
        }
        Ok(count)
    }
}

impl From<TarStream> for Stream {
    fn from(shards: TarStream) -> Self {
        Self::new(shards)
    }
}
