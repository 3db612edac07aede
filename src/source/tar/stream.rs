//! Tar shards as a stream: one after another, each from its start, without an index.
//!
//! ```text
//! shards ─▶ shuffled, every world-th from rank on: shards/deal.rs ─▶ walked one after another
//! ```
//!
//! All ranks shuffle the shards in the same way and then divide them: each shard is read by exactly one
//! rank. The ranks may have different numbers of samples.

use super::TarOptions;
use super::records::TarInner;
use super::scan::warn_of_open;
use super::walk::{FoundSample, SampleWalk};
use crate::error::{Error, fail};
use crate::source::shards::Shards;
use crate::source::stream::{Item, Items, Pass, Stream, Streamed, shards_of_rank};
use crate::source::{BoxError, Facts, Location, ObjectFields, classes};
use std::iter;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Samples of tar files in sequence: plain, `.gz` or `.zst`, detected by their first bytes.
///
/// There is no index and no count of samples. The fields are declared, or those of the first sample, as
/// in [`Tar`](super::Tar). An error in one sample (a missing member, a label that is not a number) is
/// reported when that sample is read. A damaged shard ends at the damage, with an error that names the
/// shard and the offset; the next call continues with the next shard.
///
/// ```no_run
/// use fuseloop::source::{As, Stream, TarOptions, TarStream};
/// let fields = TarOptions::default().field("image", "jpg", As::Image).field("label", "cls", As::Int);
/// let shards = TarStream::open("train-{000..255}.tar.gz", &fields)?.shuffle_shards();
/// let stream = Stream::from(shards.split_by_rank(0, 8)?);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone)]
pub struct TarStream {
    facts: Facts,
    inner: Arc<TarInner>,
    is_shuffled: bool,
    rank: usize,
    world: usize,
}

impl TarStream {
    /// Opens the shards that a text names: paths or addresses, with braces, `::` and `*` for several. Every shard must exist; of the first shard, the first sample is read to determine the fields.
    ///
    /// # Errors
    ///
    /// Fails if a shard can't be opened, if the first one is damaged or has no sample, or if a field can't
    /// be read as it is declared.
    pub fn open(spec: &str, options: &TarOptions) -> Result<Self, Error> {
        Self::open_shards(spec, options)
    }

    pub(in crate::source) fn open_shards(spec: &str, options: &TarOptions) -> Result<Self, Error> {
        Self::of(&Shards::open(spec)?, options, false)
    }

    /// Opens the shards of a list.
    ///
    /// # Errors
    ///
    /// Fails as [`open`](Self::open) does.
    pub(in crate::source) fn at(
        locations: &[Location],
        options: &TarOptions,
    ) -> Result<Self, Error> {
        Self::of(&Shards::at(locations)?, options, false)
    }

    /// Opens a shard that is in memory.
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(crate) fn from_bytes(bytes: &[u8], options: &TarOptions) -> Result<Self, Error> {
        let shard = crate::source::shards::Shard::held("memory.tar", bytes);
        Self::of(&Shards::new(vec![shard]), options, true)
    }

    fn of(shards: &Shards, options: &TarOptions, is_held: bool) -> Result<Self, Error> {
        classes::check_shards(shards.locations())?;
        let inner = TarInner::new(shards, options, is_held)?;
        Ok(Self::new(Arc::new(inner), false, (0, 1)))
    }

    /// Lets every pass read the shards in a random order, drawn from the loader's seed and the epoch.
    /// The order of the samples within a shard is unchanged.
    #[must_use]
    pub fn shuffle_shards(self) -> Self {
        Self::new(self.inner, true, (self.rank, self.world))
    }

    /// Reads only every `world`-th shard, from the `rank`-th on. Shards are divided after the shuffle,
    /// which is the same on all ranks with the same loader seed.
    ///
    /// # Errors
    ///
    /// If `rank` is not below `world`, or there are fewer shards than ranks.
    pub fn split_by_rank(self, rank: usize, world: usize) -> Result<Self, Error> {
        if rank >= world {
            return Err(fail!(Parameter, "rank {rank} of {world}: ranks are 0 to world - 1"));
        }
        let shards = self.inner.shards.len();
        if shards < world {
            return Err(fail!(
                Parameter,
                "{shards} shards for {world} ranks: some would have no shard: write more shards"
            ));
        }
        Ok(Self::new(self.inner, self.is_shuffled, (rank, world)))
    }

    /// Returns a stream for each shard of this rank, in the order of their names, to be interleaved. A
    /// rank's shards are the same in every pass; `Interleave::shuffle` changes their order from pass to
    /// pass.
    #[must_use]
    pub fn shards(&self) -> Vec<Stream> {
        let ours = (self.rank..self.inner.shards.len()).step_by(self.world);
        ours.map(|shard| Stream::new(OneShard::new(&self.inner, shard))).collect()
    }

    /// The shards of a pass, in order.
    fn order(&self, pass: &Pass) -> Vec<usize> {
        shards_of_rank(self.inner.shards.len(), pass, self.is_shuffled, (self.rank, self.world))
    }
}

impl TarStream {
    fn new(inner: Arc<TarInner>, is_shuffled: bool, (rank, world): (usize, usize)) -> Self {
        let mut print = inner.fingerprint();
        for number in [usize::from(is_shuffled), rank, world] {
            print.number(number as u64);
        }
        let of_objects = Arc::clone(&inner);
        let facts =
            Facts { fingerprint: print.value(), ..inner.facts(inner.locations().collect()) };
        let facts = facts.with_object_fields(move || {
            let locations: Vec<Location> = of_objects.locations().collect();
            let objects = ObjectFields::beside_shards(locations.iter())?;
            Ok(objects.and_then(|objects| objects.among(&of_objects.fields)))
        });
        Self { facts, inner, is_shuffled, rank, world }
    }
}

impl Streamed for TarStream {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Walking::new(&self.inner, self.order(pass))))
    }
}

/// A single shard.
struct OneShard {
    facts: Facts,
    inner: Arc<TarInner>,
    shard: usize,
}

impl OneShard {
    fn new(inner: &Arc<TarInner>, shard: usize) -> Self {
        let mut print = inner.fingerprint();
        print.text("one shard");
        print.number(shard as u64);
        let facts = inner.facts([inner.shards[shard].location.clone()].into());
        let facts = Facts { fingerprint: print.value(), class_names: None, ..facts };
        Self { facts, inner: Arc::clone(inner), shard }
    }
}

impl Streamed for OneShard {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, _: &Pass) -> Result<Box<dyn Items>, BoxError> {
        Ok(Box::new(Walking::new(&self.inner, vec![self.shard])))
    }
}

/// A pass over some shards.
struct Walking {
    inner: Arc<TarInner>,
    /// The shards to come, the next one last.
    left: Vec<usize>,
    walk: Option<(usize, SampleWalk)>,
}

impl Walking {
    fn new(inner: &Arc<TarInner>, mut order: Vec<usize>) -> Self {
        order.reverse();
        Self { inner: Arc::clone(inner), left: order, walk: None }
    }

    /// Returns the next sample and its shard, with the bytes of its members if `is_wanted`.
    fn sample(&mut self, is_wanted: bool) -> Result<Option<(usize, FoundSample)>, Error> {
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
            if let Some(met) = met.map_err(|error| error.at(&inner.shards[shard].location))? {
                self.walk = Some((shard, walk));
                return Ok(Some((shard, met)));
            }
            if walk.is_open() && !inner.has_warned.swap(true, Ordering::Relaxed) {
                warn_of_open(iter::once(&inner.shards[shard].location));
            }
        }
    }
}

impl Items for Walking {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let met = self.sample(true)?;
        Ok(met.map(|(shard, met)| self.inner.item(shard, met)))
    }

    /// Reads only the headers of a plain shard.
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
