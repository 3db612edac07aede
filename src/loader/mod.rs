//! The loader: a dataset and its pipelines, as batches.
//!
//! ```text
//! Source ─▶ order ─▶ for each sample of a batch, on any worker:
//!                     read ─▶ draw ─▶ decode what the draws want ─▶ compiled loop ─▶ a row of the batch
//!                   for each finished batch: mix its rows (MixUp, CutMix), on one worker;
//!                     send what stands after ToDevice on its way to a GPU, if it has one
//! ```
//!
//! [`Loader::open`] gives a [`LoaderBuilder`]; [`build`](LoaderBuilder::build) checks everything
//! there is to check and compiles; [`epoch`](Loader::epoch) gives the batches of one pass, in
//! order, the same bits for any number of workers, and [`resume`](Loader::resume) the rest of one. A field can have several outputs
//! ([`view`](LoaderBuilder::view), [`branch`](LoaderBuilder::branch)): it is decoded once for all.

mod builder;
pub mod cache;
mod choose;
mod collate;
mod cursor;
mod damaged;
mod device;
mod epoch;
mod error;
mod inspect;
mod mixing;
mod outputs;
mod parts;
mod stage;
mod stats;
mod works;

pub use builder::LoaderBuilder;
pub use cache::{Cache, CacheError, CacheStats};
pub use collate::{Collate, CollateCause, CollateError};
pub use cursor::{Cursor, CursorError};
pub use damaged::{OnDamaged, Quarantine, Quarantined};
pub use device::Placement;
pub use epoch::Batches;
pub use error::{LoadError, SampleCause, SampleError};
pub use inspect::{Inspected, Inspector, Phases};
pub use stats::{Bottleneck, Stats, remedy};

use crate::batch::TensorSpec;
use crate::decode::DecodeOptions;
use crate::jit::KernelCache;
use crate::order::{EpochOrder, Prepared, Ranks};
use crate::run::{Delivery, Engine, Headroom, LastBatch, Pass};
use crate::sample::{Epoch, Limits, UNKNOWN};
use crate::source::{Beton, Dataset, PageStats, PagedBeton, RunPlan, Source, Stream, Upcoming};
use epoch::{Place, Rest};
use fuseloop_ops::{Ops, ParamError};
use outputs::Output;
use stage::LoaderStage;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A dataset and its pipelines, ready to give batches.
pub struct Loader {
    source: Arc<dyn Source>,
    /// The source, where it is read by pages.
    pages: Option<Arc<PagedBeton>>,
    /// What tells the dataset from others.
    dataset: u64,
    order: Prepared,
    ranks: Option<Ranks>,
    batch_size: NonZeroUsize,
    last: LastBatch,
    delivery: Delivery,
    recompile: bool,
    /// The stream that the source is, if it is one: a sample is a place in a pass then, and means
    /// nothing without its epoch.
    stream: Option<Stream>,
    setup: works::Setup,
    compiled: Mutex<Compiled>,
    shared: stage::Shared,
    /// Where the run begun last is.
    place: Mutex<Option<Arc<Place>>>,
    engine: Engine<LoaderStage>,
}

/// The outputs as they are now, and what the last epoch ran.
struct Compiled {
    outputs: Vec<Output>,
    stage: Arc<LoaderStage>,
    cache: KernelCache,
}

impl Loader {
    /// Opens a dataset, to be set up by the builder's methods: a `.beton` file, a folder of images, a
    /// table of their labels, tar or TFRecord shards, here or at an address. Its name says which:
    ///
    /// ```no_run
    /// # use fuseloop::{LoadError, Loader};
    /// Loader::open("train.beton")?;
    /// Loader::open("imagenet/train")?; // a folder a class
    /// Loader::open("shards/train-{000..255}.tar")?; // WebDataset's
    /// Loader::open("train-*.tfrecord")?;
    /// # Ok::<(), LoadError>(())
    /// ```
    ///
    /// Compressed shards can only be read in sequence: [`from_stream`](Self::from_stream) says what
    /// that means. For what can be chosen in opening one kind, open it yourself:
    /// [`from_source`](Self::from_source).
    ///
    /// # Errors
    ///
    /// If it can't be opened, or is not what its name says.
    pub fn open(path: impl AsRef<Path>) -> Result<LoaderBuilder, LoadError> {
        Ok(LoaderBuilder::of_dataset(Dataset::open(path)?))
    }

    /// A loader of a dataset that is open, to be set up by the builder's methods.
    #[must_use]
    pub fn from_dataset(dataset: Dataset) -> LoaderBuilder {
        LoaderBuilder::of_dataset(dataset)
    }

    /// Opens a `.beton` file and reads the whole of it into memory: fastest for small samples, where
    /// the system's call to read one costs as much as its work. Takes as many bytes as the file has.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and if there is no memory for it.
    pub fn open_in_memory(path: impl AsRef<Path>) -> Result<LoaderBuilder, LoadError> {
        let beton = Beton::open(path, &Limits::DEFAULT)?.into_memory()?;
        Ok(LoaderBuilder::of(Arc::new(beton), DecodeOptions::default()))
    }

    /// A loader of a source of the user's own, to be set up by the builder's methods.
    #[must_use]
    pub fn from_source(source: impl Source) -> LoaderBuilder {
        LoaderBuilder::of(Arc::new(source), DecodeOptions::default())
    }

    /// A loader of samples that come one after another, to be set up by the builder's methods: see
    /// [`stream`](crate::source::stream) for what streams are made of.
    ///
    /// Each epoch is one pass. A place in it is what elsewhere is a sample's number: in errors, in
    /// cursors, and as what draws are a function of. The order is the stream's
    /// ([`Order::Sequential`](crate::Order)): it is shuffled by [`Stream::shuffle`], cut by `take`,
    /// filtered by `filter`, kept by `cache_in_memory`.
    ///
    /// The end need not be known: an epoch ends with the stream, its last batch short or left out,
    /// and [`len`](Self::len), [`samples`](Self::samples) and
    /// [`remaining`](Batches::remaining) are [`UNKNOWN`] until then. Several ranks take turns at the
    /// places of a stream whose length is known; each passes over what is the others'.
    ///
    /// ```
    /// use fuseloop::Loader;
    /// use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue, Stream};
    ///
    /// let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
    /// let numbers = Generator::new(1, 4).source(fields, 100, |_, sample| {
    ///     Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)])
    /// })?;
    /// let stream = Stream::of(std::sync::Arc::new(numbers));
    /// let loader = Loader::from_stream(stream).batch_size(32).drop_last(false).build()?;
    /// assert_eq!(loader.epoch(0)?.map(|batch| batch.map(|b| b.len())).sum::<Result<usize, _>>()?, 100);
    /// # Ok::<(), BoxError>(())
    /// ```
    #[must_use]
    pub fn from_stream(stream: Stream) -> LoaderBuilder {
        LoaderBuilder::of_stream(stream)
    }

    /// The batches of one pass over the dataset.
    ///
    /// Their order and their pixels depend on the seed and `epoch` alone. With
    /// [`recompile`](LoaderBuilder::recompile), the pipelines of the epoch are made and compiled
    /// first; code that would be the same is used again. Runs may overlap.
    ///
    /// # Errors
    ///
    /// If a pipeline of this epoch does not fit, or no code could be made for it. Errors of
    /// samples come with the batch they belong to.
    pub fn epoch(&self, epoch: u32) -> Result<Batches, LoadError> {
        let epoch = Epoch(epoch);
        let stage = self.stage(epoch)?;
        self.start(epoch, &stage, 0)
    }

    /// The rest of an epoch: what [`epoch`](Self::epoch) would have given after the batches that
    /// the cursor has behind it, bit for bit.
    ///
    /// The number of workers may be another one, and the number of ranks too, as long as batch size
    /// times ranks is as it was.
    ///
    /// # Errors
    ///
    /// If the cursor is of another dataset, order, seed or plan, stands inside a batch or beyond the
    /// end of the epoch; and as [`epoch`](Self::epoch). A cursor at the end is none of these: no batch
    /// is left then. Of a stream whose length is not known, a cursor beyond its end is the error of the
    /// first batch.
    pub fn resume(&self, cursor: &Cursor) -> Result<Batches, LoadError> {
        let epoch = Epoch(cursor.epoch);
        let stage = self.stage(epoch)?;
        cursor.check(&self.begin(epoch, &stage))?;
        let order = self.order(epoch)?;
        let first = cursor.first_batch(self.global_batch(), order.global_samples())?;
        self.start_in(order, epoch, &stage, first.unwrap_or(u64::MAX))
    }

    /// Where the epoch begun last is: after the batches taken of it so far. For
    /// [`resume`](Self::resume), in this process or another.
    ///
    /// # Errors
    ///
    /// If no epoch was begun, or batches are delivered unordered.
    pub fn cursor(&self) -> Result<Cursor, LoadError> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_ref().ok_or(CursorError::NotBegun)?.cursor()
    }

    /// Replaces an output's ops from here on: for epochs begun or resumed after this, and for the
    /// rest of one by [`renew`](Self::renew). Branches of it follow.
    ///
    /// # Errors
    ///
    /// If there is no such output, or the new ops do not fit; then all stays as it was.
    pub fn set_pipeline(
        &self,
        output: &str,
        make: impl Fn(Epoch) -> Result<Ops, ParamError> + Send + Sync + 'static,
    ) -> Result<(), LoadError> {
        self.engine.check_process()?;
        let mut compiled = self.compiled();
        let epoch = compiled.stage.epoch();
        let outputs = outputs::replaced(&compiled.outputs, output, Arc::new(make))?;
        compiled.stage = self.compile(&outputs, epoch, &mut compiled.cache)?;
        compiled.outputs = outputs;
        Ok(())
    }

    /// Goes on with an epoch, from the first sample that was not delivered, as the pipelines are
    /// now: a plan exchanged at an exact sample. What was made ahead by the old one is thrown away.
    ///
    /// # Errors
    ///
    /// As [`epoch`](Self::epoch).
    pub fn renew(&self, batches: Batches) -> Result<Batches, LoadError> {
        let (epoch, first) = (batches.epoch(), batches.next_batch());
        drop(batches);
        let stage = self.stage(epoch)?;
        self.start(epoch, &stage, first)
    }

    fn start(
        &self,
        epoch: Epoch,
        stage: &Arc<LoaderStage>,
        first_batch: u64,
    ) -> Result<Batches, LoadError> {
        self.start_in(self.order(epoch)?, epoch, stage, first_batch)
    }

    fn start_in(
        &self,
        order: EpochOrder,
        epoch: Epoch,
        stage: &Arc<LoaderStage>,
        first_batch: u64,
    ) -> Result<Batches, LoadError> {
        let (rows, total) = (self.global_batch(), order.global_samples());
        let begin = self.begin(epoch, stage);
        let first = first_batch.saturating_mul(self.batch_size.get() as u64);
        let rest = Arc::new(Rest { order: order.clone(), first });
        let view = self.reading_ahead(stage, epoch, rest)?;
        let stage = match &view {
            None => Arc::clone(stage),
            Some(view) => Arc::new(stage.over(Arc::clone(view))),
        };
        let mut pass = Pass::new(stage, epoch, Box::new(order), self.batch_size);
        (pass.last, pass.first_batch, pass.delivery) = (self.last, first_batch, self.delivery);
        let run = self.engine.start(pass)?;
        let is_exact = self.stream.as_ref().is_none_or(Stream::is_exact);
        let place = Arc::new(Place::new(begin, self.delivery, is_exact, rows, total, first_batch));
        let mut last = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Arc::clone(&place));
        Ok(Batches::new(run, place, view))
    }

    /// The source as a run of what is upcoming reads it, where that is another.
    fn reading_ahead(
        &self,
        stage: &LoaderStage,
        epoch: Epoch,
        upcoming: Arc<dyn Upcoming>,
    ) -> Result<Option<Arc<dyn Source>>, LoadError> {
        let run = RunPlan {
            seed: self.setup.seed,
            epoch,
            upcoming,
            batch_size: self.batch_size.get(),
            batches_ahead: self.engine.options().batches_ahead.get(),
            fields: stage.fields().collect(),
        };
        let begun = Arc::clone(&self.source).begin(&run);
        begun.map_err(|error| LoadError::Begin { dataset: self.source.name(), error })
    }

    fn order(&self, epoch: Epoch) -> Result<EpochOrder, LoadError> {
        Ok(self.order.epoch(self.setup.seed, epoch, self.ranks.as_ref())?)
    }

    /// The cursor at the beginning of an epoch.
    fn begin(&self, epoch: Epoch, stage: &LoaderStage) -> Cursor {
        let order = self.order.fingerprint(self.ranks.as_ref());
        let (dataset, seed) = (self.dataset, self.setup.seed);
        Cursor { dataset, order, plan: stage.fingerprint(), seed, epoch: epoch.0, position: 0 }
    }

    /// Rows of a batch on all ranks together.
    fn global_batch(&self) -> u64 {
        let world = self.ranks.as_ref().map_or(1, |ranks| u64::from(ranks.world()));
        (self.batch_size.get() as u64).saturating_mul(world)
    }

    /// The stage of an epoch: the last one's, unless pipelines are made anew.
    fn stage(&self, epoch: Epoch) -> Result<Arc<LoaderStage>, LoadError> {
        self.engine.check_process()?;
        let mut compiled = self.compiled();
        if self.recompile && compiled.stage.epoch() != epoch {
            let Compiled { outputs, stage, cache } = &mut *compiled;
            *stage = self.compile(outputs, epoch, cache)?;
        }
        Ok(Arc::clone(&compiled.stage))
    }

    fn compile(
        &self,
        outputs: &[Output],
        epoch: Epoch,
        cache: &mut KernelCache,
    ) -> Result<Arc<LoaderStage>, LoadError> {
        let stage = works::stage(&self.source, outputs, epoch, &self.setup, cache, &self.shared)?;
        Ok(Arc::new(stage))
    }

    /// Batches of an epoch on this rank; [`UNKNOWN`] of a stream whose end is not known.
    #[must_use]
    pub fn len(&self) -> u64 {
        let (samples, size) = (self.samples(), self.batch_size.get() as u64);
        match self.last {
            _ if samples == UNKNOWN => UNKNOWN,
            LastBatch::Keep => samples.div_ceil(size),
            LastBatch::Drop => samples / size,
        }
    }

    /// Whether an epoch has no batch, as far as that is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows of an epoch on this rank, before a short last batch is dropped; [`UNKNOWN`] of a stream
    /// whose end is not known.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.order.len(self.ranks.as_ref())
    }

    /// The tensors of a batch, as the pipelines of the last epoch make them.
    #[must_use]
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.current().tensors().to_vec()
    }

    /// The plan in words: for each field its blocks, what was fused and what that compiled to.
    #[must_use]
    pub fn explain(&self) -> String {
        self.current().explain()
    }

    /// How long the pipelines of the last epoch took to plan and compile.
    #[must_use]
    pub fn compile_time(&self) -> Duration {
        self.current().compile_time()
    }

    /// Where the time went so far: who waits for whom.
    #[must_use]
    pub fn headroom(&self) -> Headroom {
        self.engine.headroom()
    }

    /// Pictures decoded so far, over all epochs: one a sample and image field, however many
    /// outputs are made of it. Work ahead of the batches taken counts as well.
    #[must_use]
    pub fn decoded(&self) -> u64 {
        self.shared.decoded.load(Ordering::Relaxed)
    }

    /// The damaged samples met so far, where they do not end the epoch:
    /// [`on_damaged`](LoaderBuilder::on_damaged).
    #[must_use]
    pub fn quarantine(&self) -> Quarantine {
        self.shared.ward.report()
    }

    /// What its cache did so far, over all epochs; `None` without a
    /// [`cache`](LoaderBuilder::cache).
    #[must_use]
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.shared.cache.as_ref().map(|cache| cache.stats())
    }

    /// What was read by pages so far; `None` without a
    /// [`process_cache`](LoaderBuilder::process_cache).
    #[must_use]
    pub fn page_stats(&self) -> Option<PageStats> {
        self.pages.as_ref().map(|pages| pages.stats())
    }

    /// The dataset.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    fn compiled(&self) -> MutexGuard<'_, Compiled> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Arc<LoaderStage> {
        Arc::clone(&self.compiled().stage)
    }
}
