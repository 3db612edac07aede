//! Setting a loader up.

use super::cache::{Cache, SampleCache};
use super::choose::{self, FactsOf, Keep};
use super::device;
use super::outputs::{Extra, Pipeline, Wanted};
use super::stage::Shared;
use super::works::{self, Setup};
use super::{Collate, Compiled, LoadError, Loader, OnDamaged};
use crate::decode::DecodeOptions;
use crate::jit::KernelCache;
use crate::order::{Order, Ranks};
use crate::run::{Delivery, Engine, EngineOptions, LastBatch};
use crate::sample::{Epoch, Limits};
use crate::source::stream::Played;
use crate::source::{Beton, Dataset, OpenOptions, PagedBeton, ProcessCache, Source, Stream, Value};
use fuseloop_ops::{NumberRule, Ops, ParamError};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sets a [`Loader`] up. See each method for its default.
///
/// ```no_run
/// use fuseloop::{Loader, Order, ops::*};
///
/// let loader = Loader::open("train.beton")?
///     .batch_size(256)
///     .order(Order::Random)
///     .seed(42)
///     .pipeline("image", |epoch| {
///         Ok(ops![
///             RandomResizedCrop::new(
///                 192 + 2 * epoch.index(),
///                 RandomResizedCrop::SCALE,
///                 RandomResizedCrop::RATIO
///             )?,
///             RandomHorizontalFlip::new(0.5)?,
///             Normalize::imagenet(),
///             Convert::to(DType::F16),
///             ToChannelsFirst,
///         ])
///     })
///     .recompile(true)
///     .build()?;
/// for batch in loader.epoch(0)? {
///     let batch = batch?;
///     let images = batch.tensor::<half::f16>("image")?; // [256, 3, 192, 192]
///     let labels = batch.tensor::<i64>("label")?; // [256, 1]
///     assert_eq!(images.shape()[0], labels.shape()[0]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LoaderBuilder {
    source: Arc<dyn Source>,
    /// The source, if it is a file of pages.
    beton: Option<Arc<Beton>>,
    /// The stream that the source is, if it is one.
    stream: Option<Stream>,
    process_cache: Option<ProcessCache>,
    wanted: Wanted,
    indices: Option<Vec<u64>>,
    filters: Vec<(String, Keep)>,
    order: Order,
    ranks: Option<Ranks>,
    last: LastBatch,
    delivery: Delivery,
    recompile: bool,
    workers: Option<usize>,
    batches_ahead: usize,
    memory_limit: Option<u64>,
    timeout: Option<Duration>,
    cache: Option<Cache>,
    pub(super) wish: device::Wish,
    setup: Setup,
}

impl LoaderBuilder {
    pub(super) fn of_dataset(dataset: Dataset) -> Self {
        let decode = DecodeOptions::default();
        match dataset {
            Dataset::Beton(beton) => Self::of_beton(beton, decode),
            Dataset::Folder(folder) => Self::of(folder, decode),
            Dataset::Source(source) => Self::of(source, decode),
            Dataset::Stream(stream) => Self::of_stream(stream),
        }
    }

    /// Opens a `.beton` file with limits, and the row sizes of fields of a user's own type.
    ///
    /// # Errors
    ///
    /// As [`Loader::open`].
    pub fn open_with(path: &Path, options: &OpenOptions) -> Result<Self, LoadError> {
        let decode = DecodeOptions { limits: options.limits, ..DecodeOptions::default() };
        Ok(Self::of_beton(Arc::new(Beton::open_with(path, options)?), decode))
    }

    fn of_beton(beton: Arc<Beton>, decode: DecodeOptions) -> Self {
        let source: Arc<dyn Source> = Arc::clone(&beton) as _;
        Self { beton: Some(beton), ..Self::of(source, decode) }
    }

    pub(super) fn of(source: Arc<dyn Source>, decode: DecodeOptions) -> Self {
        Self {
            source,
            beton: None,
            stream: None,
            process_cache: None,
            wanted: Wanted::default(),
            indices: None,
            filters: vec![],
            order: Order::Sequential,
            ranks: None,
            last: LastBatch::Drop,
            delivery: Delivery::InOrder,
            recompile: false,
            workers: None,
            batches_ahead: 3,
            memory_limit: None,
            timeout: None,
            cache: None,
            wish: device::Wish::default(),
            setup: Setup {
                seed: 0,
                rule: NumberRule::Fused,
                batch_size: 64,
                decode,
                on_damaged: OnDamaged::Fail,
                rank: 0,
                world: 1,
                counted_batches: None,
            },
        }
    }

    pub(super) fn of_stream(stream: Stream) -> Self {
        let played = Arc::new(Played::new(stream.clone()));
        Self { stream: Some(stream), ..Self::of(played, DecodeOptions::default()) }
    }

    /// Samples of a batch. Default 64.
    #[must_use]
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.setup.batch_size = samples;
        self
    }

    /// The order of the samples. Default [`Order::Sequential`].
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// What random orders and draws are a function of, with the epoch and the sample. Default 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.setup.seed = seed;
        self
    }

    /// Only these samples, in this order before a random order is taken. Default: all.
    #[must_use]
    pub fn indices(mut self, indices: impl IntoIterator<Item = u64>) -> Self {
        self.indices = Some(indices.into_iter().collect());
        self
    }

    /// Only samples whose field `field` is as `keep` wants it, of all or of the
    /// [`indices`](Self::indices). Every value is read once, when the loader is built. Several
    /// filters all hold.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, source::Value};
    /// let loader = Loader::open("train.beton")?
    ///     .filter("label", |label| matches!(label, Value::Int(0..100)))
    ///     .build()?;
    /// # Ok::<(), fuseloop::LoadError>(())
    /// ```
    #[must_use]
    pub fn filter(
        mut self,
        field: &str,
        keep: impl Fn(Value<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filters.push((field.to_owned(), Arc::new(keep)));
        self
    }

    /// Whether samples are read one by one through the system's page cache: FFCV's `os_cache`.
    /// Default true, right where the file fits in memory. False is
    /// [`process_cache`](Self::process_cache) as it comes.
    #[must_use]
    pub fn os_cache(mut self, os_cache: bool) -> Self {
        self.process_cache = (!os_cache).then(ProcessCache::default);
        self
    }

    /// Pages of the file are read whole, ahead of their need, by threads of their own, and kept up
    /// to a budget: for a file that does not fit in memory, or storage that is slow to answer. Goes
    /// with [`Order::QuasiRandom`], which needs few pages at a time.
    #[must_use]
    pub fn process_cache(mut self, options: ProcessCache) -> Self {
        self.process_cache = Some(options);
        self
    }

    /// This process is one of several that share each epoch: rank `r` of `w` takes places `r`,
    /// `r + w`, `r + 2w`, ... of the global order, as PyTorch's `DistributedSampler` does, so that
    /// step for step the ranks together have the same samples for any number of ranks, as long as
    /// batch size times ranks is the same. Nothing is sent between processes. Default: one process.
    ///
    /// What becomes of samples that the ranks can't share evenly: [`Uneven`](crate::order::Uneven).
    /// [`Ranks::from_env`] reads what torchrun, Slurm and MPI set.
    #[must_use]
    pub fn distributed(mut self, ranks: impl Into<Option<Ranks>>) -> Self {
        self.ranks = ranks.into();
        self
    }

    /// What becomes of samples that can't be read or decoded. Default [`OnDamaged::Fail`].
    #[must_use]
    pub fn on_damaged(mut self, what: OnDamaged) -> Self {
        self.setup.on_damaged = what;
        self
    }

    /// Whether batches are delivered as they are finished, whatever their order, so that a slow
    /// one holds up no other. Default false.
    #[must_use]
    pub fn unordered(mut self, unordered: bool) -> Self {
        self.delivery = if unordered { Delivery::Unordered } else { Delivery::InOrder };
        self
    }

    /// Most bytes of all batches together: those in work, those that are ready and those that are
    /// held; in the host's memory, where those for a device have what is copied there. Work pauses
    /// at the limit. Default: as many as `batches_ahead` and what is held take, if that is within
    /// [`Limits::max_batch_bytes`].
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// How long a call waits for a batch before it is an error that says which samples the workers
    /// are at. Default: for ever.
    #[must_use]
    pub fn timeout(mut self, longest: Duration) -> Self {
        self.timeout = Some(longest);
        self
    }

    /// Whether a last batch of fewer samples is left out. Default true, as FFCV.
    #[must_use]
    pub fn drop_last(mut self, drop: bool) -> Self {
        self.last = if drop { LastBatch::Drop } else { LastBatch::Keep };
        self
    }

    /// Threads that read, decode and augment, at most 1024. Default: as many as the process may use.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Batches begun before they are asked for. Default 3, as FFCV.
    #[must_use]
    pub fn batches_ahead(mut self, batches: usize) -> Self {
        self.batches_ahead = batches;
        self
    }

    /// Keeps samples decoded, before any op, for the next epochs, as far as they fit. The batches
    /// stay the same, bit for bit. Default: none.
    ///
    /// It pays where decoding, or a source of the user's own, takes long and most of the pixels
    /// fit; see the [module](super::cache) for what is kept.
    ///
    /// ```no_run
    /// use fuseloop::Loader;
    /// use fuseloop::loader::Cache;
    ///
    /// let loader = Loader::open("train.beton")?.cache(Cache::memory(32 << 30)).build()?;
    /// loader.epoch(0)?.try_for_each(|batch| batch.map(drop))?;
    /// loader.epoch(1)?.try_for_each(|batch| batch.map(drop))?; // decodes nothing that is kept
    /// println!("{:?}", loader.cache_stats());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The ops of a field. Without one, an image is given as u8 `[height, width, 3]` (all must
    /// have one size), an int as i64 `[1]`, a float as f64 `[1]`, bytes and JSON as u8 padded with
    /// zeros to the longest, an array in its own type. Images of several sizes, and how long bytes
    /// are, come with [`collate`](Self::collate). An array takes
    /// [`Convert`](fuseloop_ops::Convert), [`Squeeze`](fuseloop_ops::Squeeze) and, if of floats,
    /// the ops that mix samples; bytes and JSON take none. All but what is collated take
    /// [`ToDevice`](fuseloop_ops::ToDevice).
    ///
    /// [`MixUp`](fuseloop_ops::MixUp) and [`CutMix`](fuseloop_ops::CutMix) stand last, in the
    /// image's list and, with the same parameters, in its label's.
    ///
    /// `make` is called once with epoch 0, or, with [`recompile`](Self::recompile), for each epoch.
    #[must_use]
    pub fn pipeline(
        mut self,
        field: &str,
        make: impl Fn(Epoch) -> Result<Ops, ParamError> + Send + Sync + 'static,
    ) -> Self {
        self.wanted.pipelines.retain(|(name, _)| name != field);
        self.wanted.pipelines.push((field.to_owned(), Arc::new(make)));
        self
    }

    /// The ops of an output (a field, or a view) for the samples of one part of the dataset, in
    /// place of those of its [`pipeline`](Self::pipeline): the part of this number, from 0, in the
    /// list that was given to [`Stream::mix`], [`concat`](Stream::concat),
    /// [`interleave`](Stream::interleave) or [`Concat`](crate::source::Concat). Where lists are in
    /// lists, the last that was put together counts.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*, source::{Stream, stream::MixEnd}};
    /// # fn both() -> (Stream, Stream) { unimplemented!() }
    /// # let (photos, drawings) = both();
    /// let mix = Stream::mix([(photos, 0.7), (drawings, 0.3)], MixEnd::First)?.shuffle(1000);
    /// let loader = Loader::from_stream(mix)
    ///     .pipeline("image", |_| Ok(ops![RandomResizedCrop::new(224, 0.1..=1.0, 0.75..=1.33)?]))
    ///     .pipeline_of(1, "image", |_| Ok(ops![CenterCrop::new(224, 224)?])) // drawings
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The rows must have the shape and type of the output's own. [`MixUp`](fuseloop_ops::MixUp) and
    /// the like stand in that list alone, and mix all samples; neither list may have
    /// [`ToDevice`](fuseloop_ops::ToDevice). A branch has no list for a part.
    ///
    /// `make` is called as that of [`pipeline`](Self::pipeline).
    #[must_use]
    pub fn pipeline_of(
        mut self,
        part: usize,
        output: &str,
        make: impl Fn(Epoch) -> Result<Ops, ParamError> + Send + Sync + 'static,
    ) -> Self {
        self.wanted.of_parts.retain(|(of, name, _)| (*of, &**name) != (part, output));
        self.wanted.of_parts.push((part, output.to_owned(), Arc::new(make)));
        self
    }

    /// How the samples of an output that differ in size become a batch: bytes and JSON, and images
    /// without ops. How large each is says one more tensor, `NAME.length` or `NAME.size`; see
    /// [`Collate`].
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, loader::Collate, ops::DType};
    /// let loader = Loader::open("detection.beton")?
    ///     .collate("image", Collate::pad())
    ///     .collate("boxes", Collate::ragged().of(DType::F32, &[4]))
    ///     .build()?;
    /// for batch in loader.epoch(0)? {
    ///     let batch = batch?;
    ///     let images = batch.tensor::<u8>("image")?; // [64, the batch's largest height and width, 3]
    ///     let sizes = batch.tensor::<i64>("image.size")?; // [64, 2]: height, width
    ///     let boxes = batch.ragged::<f32>("boxes")?;
    ///     let first = boxes.row(0); // four numbers a box
    /// #   let _ = (images, sizes, first);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn collate(mut self, output: &str, collate: Collate) -> Self {
        self.wanted.collates.retain(|(name, _)| name != output);
        self.wanted.collates.push((output.to_owned(), collate));
        self
    }

    /// Leaves a field out of the batches. Views and branches of it stay.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        self.wanted.without.push(field.to_owned());
        self
    }

    /// One more output `name` of the field `of`, with draws of its own: the second view of
    /// contrastive learning. A sample is read and decoded once for all its views.
    ///
    /// It comes after the fields and what was added before it. `make` is called as that of a
    /// [`pipeline`](Self::pipeline).
    #[must_use]
    pub fn view(
        self,
        name: &str,
        of: &str,
        make: impl Fn(Epoch) -> Result<Ops, ParamError> + Send + Sync + 'static,
    ) -> Self {
        self.extra(name, of, None, Arc::new(make))
    }

    /// One more output `name` that begins where the output `of` is after its first `after_ops`
    /// ops, as when FFCV branches from an operation: these draw the same numbers for both.
    ///
    /// So does any later op that both lists have, if as many of its name stand before it.
    #[must_use]
    pub fn branch(
        self,
        name: &str,
        of: &str,
        after_ops: usize,
        make: impl Fn(Epoch) -> Result<Ops, ParamError> + Send + Sync + 'static,
    ) -> Self {
        self.extra(name, of, Some(after_ops), Arc::new(make))
    }

    fn extra(mut self, name: &str, of: &str, after: Option<usize>, make: Pipeline) -> Self {
        let (name, of) = (name.to_owned(), of.to_owned());
        self.wanted.extras.push(Extra { name, of, after, make });
        self
    }

    /// Has the ops of `output` draw what those of `with` draw, op for op: the first of a name what
    /// the first of this name draws, and so on. A mask is cut and flipped as its image is:
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// # let crop = || RandomResizedCrop::new(224, 0.5..=1.0, 1.0..=1.0);
    /// let loader = Loader::open("segmentation.beton")?
    ///     .pipeline("image", move |_| Ok(ops![crop()?, RandomHorizontalFlip::new(0.5)?]))
    ///     .pipeline("mask", move |_| Ok(ops![crop()?, RandomHorizontalFlip::new(0.5)?]))
    ///     .share_draws("mask", "image")
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Where a crop lies depends on the size of its picture, so the two must be of one size.
    #[must_use]
    pub fn share_draws(mut self, output: &str, with: &str) -> Self {
        self.wanted.shares.push((output.to_owned(), with.to_owned()));
        self
    }

    /// Whether pipelines are made and compiled anew for each epoch. Default false.
    #[must_use]
    pub fn recompile(mut self, recompile: bool) -> Self {
        self.recompile = recompile;
        self
    }

    /// How values are rounded between ops. Default [`NumberRule::Fused`].
    #[must_use]
    pub fn number_rule(mut self, rule: NumberRule) -> Self {
        self.setup.rule = rule;
        self
    }

    /// Whether JPEGs are turned as their EXIF orientation says. Default false, as FFCV.
    #[must_use]
    pub fn exif_orientation(mut self, turn: bool) -> Self {
        self.setup.decode.exif_orientation = turn;
        self
    }

    /// What pictures and batches may ask for: those that are stored, those that ops make, and the
    /// rows made of them. The limits on opening a dataset are given where it is opened. Default
    /// [`Limits::DEFAULT`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.setup.decode.limits = limits;
        self
    }

    /// The dataset, before the loader is made.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// The file read by pages, if it is to be.
    fn pages(&self) -> Result<Option<Arc<PagedBeton>>, LoadError> {
        let Some(options) = self.process_cache else { return Ok(None) };
        options.check()?;
        let beton = self.beton.as_ref().ok_or_else(|| {
            let dataset = self.source.name();
            LoadError::NoPages { dataset }
        })?;
        Ok(Some(Arc::new(PagedBeton::new(Arc::clone(beton), options))))
    }

    fn engine_options(&self) -> Result<EngineOptions, LoadError> {
        let defaults = EngineOptions::default();
        let workers = self.workers.map_or(Some(defaults.workers), NonZeroUsize::new);
        let (Some(workers), Some(ahead)) = (workers, NonZeroUsize::new(self.batches_ahead)) else {
            return Err(LoadError::Workers);
        };
        let (max_bytes, stall_timeout) = (self.memory_limit, self.timeout);
        let options =
            EngineOptions { workers, batches_ahead: ahead, max_bytes, stall_timeout, ..defaults };
        options.check()?;
        Ok(options)
    }

    /// What every field's work is made with, on this rank.
    fn setup_on_ranks(&self) -> Result<Setup, LoadError> {
        let counted = || (self.batches_ahead as u64).saturating_add(1); // and the one in use
        let counted_batches = self.memory_limit.is_none().then(counted);
        let setup = Setup { counted_batches, ..self.setup };
        let Some(ranks) = &self.ranks else { return Ok(setup) };
        if ranks.world() > 1 && self.setup.on_damaged == OnDamaged::Skip {
            return Err(LoadError::SkipOnRanks { world: ranks.world() });
        }
        Ok(Setup { rank: ranks.rank().into(), world: ranks.world().into(), ..setup })
    }

    /// Whether the dataset can only be read in sequence; see [`Loader::from_stream`].
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Refuses what a stream can't have: whatever asks for a sample out of its turn.
    fn check_stream(&self) -> Result<(), LoadError> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let world = self.ranks.map_or(1, Ranks::world);
        let refused = |what: String, cure| Err(LoadError::Stream { what, cure });
        if self.order != Order::Sequential {
            let what = format!("{} order", self.order.name());
            return refused(
                what,
                "shuffle the stream itself (`Stream::shuffle`), or open it by an index",
            );
        }
        if self.indices.is_some() || !self.filters.is_empty() {
            let cure = "take `Stream::filter`, `take` or `skip`, or open it by an index";
            return refused("indices or filters".to_owned(), cure);
        }
        if self.cache.is_some() {
            let cure = "take `Stream::cache_in_memory`, before what shuffles it";
            return refused("cache of samples by their numbers".to_owned(), cure);
        }
        if self.setup.on_damaged == OnDamaged::Substitute {
            return refused("other samples to substitute".to_owned(), "take `OnDamaged::Skip`");
        }
        if world > 1 && stream.known_len().is_none() {
            let cure =
                "cut it to one (`Stream::with_epoch`, `take`), or give each rank shards of its own";
            return refused(format!("known length for {world} ranks to share"), cure);
        }
        Ok(())
    }

    /// Checks it all, compiles the pipelines and starts the workers.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn build(self) -> Result<Loader, LoadError> {
        let batch_size = NonZeroUsize::new(self.setup.batch_size).ok_or(LoadError::BatchSize)?;
        let mut options = self.engine_options()?;
        let site = self.wish.site(self.setup.batch_size, self.batches_ahead)?;
        let setup = self.setup_on_ranks()?;
        let pages = self.pages()?;
        self.check_stream()?;
        let subset = choose::subset(&*self.source, self.indices, &self.filters)?;
        let order = self.order.prepare(&FactsOf(&*self.source), subset.clone())?;
        let outputs = self.wanted.resolve(&*self.source)?;
        let cache = self.cache.map(|cache| SampleCache::open(cache, &*self.source)).transpose()?;
        let shared = Shared::new(subset, cache.map(Arc::new), site);
        let mut kernels = KernelCache::default();
        let stage = works::stage(&self.source, &outputs, Epoch(0), &setup, &mut kernels, &shared)?;
        options.max_slots = shared.site.max_slots().or(options.max_slots);
        let compiled = Compiled { outputs, stage: Arc::new(stage), cache: kernels };
        Ok(Loader {
            dataset: self.source.fingerprint(),
            source: pages.clone().map_or(self.source, |pages| pages as Arc<dyn Source>),
            pages,
            order,
            ranks: self.ranks,
            batch_size,
            last: self.last,
            delivery: self.delivery,
            recompile: self.recompile,
            stream: self.stream,
            setup,
            compiled: Mutex::new(compiled),
            shared,
            place: Mutex::new(None),
            engine: Engine::new(options)?,
        })
    }
}
