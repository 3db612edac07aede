//! The loader: turns a dataset and its pipelines into batches.
//!
//! ```text
//! Source ─▶ order ─▶ for each sample of a batch, on any worker:
//!                     read ─▶ draw ─▶ decode the window drawn ─▶ compiled loop ─▶ a row of the batch
//!                   for each finished batch: mix its rows (MixUp, CutMix), on one worker;
//!                     start the upload of the outputs after ToDevice to a GPU, if one is used
//! ```
//!
//! [`Loader::open`] returns a [`LoaderBuilder`]; [`build`](LoaderBuilder::build) checks the whole setup
//! and compiles the pipelines; [`epoch`](Loader::epoch) returns the batches of one pass, in order and
//! bit for bit the same for any number of workers; [`resume`](Loader::resume) returns the rest of a
//! pass. A field can have several outputs ([`view`](LoaderBuilder::view),
//! [`branch`](LoaderBuilder::branch)): the field is decoded once for all of them.

// The order in which these modules may import each other is in `tests/repository/layers.rs`.

mod array_images;
mod buckets;
mod build;
mod builder;
pub(crate) mod cache;
mod checks;
mod choose;
mod classes;
pub(crate) mod clips;
mod collate;
mod columns;
mod compile;
mod compile_context;
mod component_ops;
pub(crate) mod cursor;
mod damaged;
mod decoded_forms;
mod device;
mod elements;
mod epoch;
pub(crate) mod error;
pub(crate) mod fingerprint_log;
mod headroom;
mod image_lists;
mod image_run;
mod in_memory;
pub(crate) mod inspect;
pub(crate) mod inspected_targets;
mod metrics;
mod mix_plan;
mod mixing;
mod open;
mod opened_image;
mod outputs;
mod pipeline;
mod stage;
mod stalls;
pub(crate) mod stats;
mod target_mixing;
mod target_plan;
mod target_rows;
mod targets;
pub(crate) mod transform;
mod work;

use crate::error::{Error, fail};
#[doc(inline)]
pub use crate::run::Phase;
pub use builder::LoaderBuilder;
pub use cache::{Cache, CacheStats};
pub use clips::{ClipLayout, Clips, OnShort};
pub use collate::Collate;
pub use cursor::Cursor;
use cursor::{ClipSettings, PlanPrint};
pub use damaged::{OnDamaged, Quarantine, Quarantined};
pub use device::Placement;
pub use epoch::Batches;
use error::{all_skipped, no_rows};
pub use fingerprint_log::FingerprintLog;
use fingerprint_log::LogSlot;
use fuseloop_ops::internals::DefaultFloats;
pub use headroom::{Headroom, HeadroomReport};
pub use image_lists::ImageList;
pub use pipeline::Pipeline;
pub use stats::{Bottleneck, Stats};
pub use targets::{BoundingBoxes, KeyPoints, Targets};

use crate::batch::{Batch, TensorSpec};
use crate::device::DeviceStats;
use crate::jit::KernelCache;
use crate::order::{EpochOrder, PreparedOrder, Ranks};
use crate::run::{Delivery, Engine, LastBatch, RunRequest, Utilization};
use crate::sample::{Epoch, SampleId, UNKNOWN};
use crate::source::{ClassNames, Fingerprint, PageStats, PagedBeton, Source, Stream};
use epoch::{ListedOrder, RunPosition, RunStart};
use metrics::LoaderMetrics;
use outputs::OutputSpec;
use stage::LoaderStage;
use stalls::StallLog;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A dataset and its pipelines, ready to produce batches.
pub struct Loader {
    source: Arc<dyn Source>,
    /// The source as a paged file, if pages are read whole.
    pages: Option<Arc<PagedBeton>>,
    /// The bytes of the dataset, if they were read into memory.
    held_bytes: Option<u64>,
    /// The fingerprint of the dataset.
    dataset: u64,
    order: Arc<PreparedOrder>,
    ranks: Option<Ranks>,
    batch_size: NonZeroUsize,
    last: LastBatch,
    delivery: Delivery,
    /// True if all lists are compiled for each epoch; if `None`, only those by epoch are.
    recompile: Option<bool>,
    /// The stream, if the source is one. A sample of a stream is identified by its position in a pass,
    /// so the position means nothing without the epoch.
    stream: Option<Stream>,
    setup: compile_context::CompileContext,
    compiled: Mutex<CompiledOutputs>,
    shared: stage::StageShared,
    /// The position of the run that was started last.
    position: Mutex<Option<Arc<RunPosition>>>,
    /// The log of the fingerprints of all batches, if there is one.
    log: Arc<LogSlot>,
    /// The batches that were late.
    stalls: Arc<StallLog>,
    metrics: Arc<LoaderMetrics>,
    /// Its threads end with the last owner: the loader, or batches that outlive it.
    engine: Arc<Engine<LoaderStage>>,
}

/// Shows the dataset, what an epoch has, and the outputs.
impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tensors = self.tensors();
        let outputs: Vec<&str> = tensors.iter().map(|tensor| &*tensor.name).collect();
        let counted = |count| Some(count).filter(|&count| count != UNKNOWN);
        f.debug_struct("Loader")
            .field("dataset", &self.source.name())
            .field("samples", &counted(self.samples()))
            .field("batches", &counted(self.len()))
            .field("batch_size", &self.batch_size)
            .field("outputs", &outputs)
            .finish_non_exhaustive()
    }
}

/// The current outputs, and the stage that the last epoch ran.
struct CompiledOutputs {
    outputs: Vec<OutputSpec>,
    stage: Arc<LoaderStage>,
    cache: KernelCache,
}

#[expect(
    clippy::len_without_is_empty,
    reason = "a loader without batches is refused when it is built"
)]
impl Loader {
    /// Starts an epoch: returns the batches of one pass over the dataset.
    ///
    /// The order and the pixels of the batches depend on the seed and `epoch` alone. Lists by epoch
    /// ([`Pipeline::by_epoch`]) are made and compiled first; code that would be the same is reused. Runs
    /// may overlap.
    ///
    /// # Errors
    ///
    /// If a pipeline of this epoch does not fit, or could not be compiled. An error of a sample is
    /// returned with the batch that the sample belongs to.
    pub fn epoch(&self, epoch: u32) -> Result<Batches, Error> {
        self.epoch_from(epoch, 0)
    }

    /// Starts an epoch at batch `first`: returns the batches that [`epoch`](Self::epoch) would have returned
    /// from there on, without computing those before. Beyond the end, there is no batch.
    ///
    /// # Errors
    ///
    /// See [`epoch`](Self::epoch).
    pub fn epoch_from(&self, epoch: u32, first: u64) -> Result<Batches, Error> {
        let epoch = Epoch(epoch);
        let stage = self.stage(epoch)?;
        self.start_in(self.order(epoch)?, epoch, &stage, (first, None))
    }

    /// Returns the rest of an epoch: bit for bit the batches that [`epoch`](Self::epoch) would have
    /// returned after those that the cursor has passed.
    ///
    /// The number of workers may differ, and so may the number of ranks, as long as batch size times
    /// ranks is the same.
    ///
    /// # Errors
    ///
    /// If the cursor is of another dataset, order, seed or plan, or its position is inside a batch or
    /// beyond the end of the epoch; and see [`epoch`](Self::epoch). A cursor at the end is not an error:
    /// no batch is left then. For a stream of unknown length, a cursor beyond the end is reported by the
    /// first batch.
    pub fn resume(&self, cursor: &Cursor) -> Result<Batches, Error> {
        let epoch = Epoch(cursor.epoch);
        let stage = self.stage(epoch)?;
        let begin = Cursor { order: self.order_of(cursor), ..self.begin(epoch, &stage) };
        cursor.check(&begin, stage.prints(), || self.names_of_orders(cursor))?;
        let order = self.order(epoch)?;
        let first = cursor.first_batch(self.global_batch(), order.global_samples())?;
        self.start_in(order, epoch, &stage, (first.unwrap_or(u64::MAX), cursor.fingerprint))
    }

    /// Refuses a cursor that [`resume`](Self::resume) refuses, without compiling. Lists that are compiled for each epoch are
    /// compared when it is resumed.
    #[doc(hidden)]
    pub fn check_cursor(&self, cursor: &Cursor) -> Result<(), Error> {
        let epoch = Epoch(cursor.epoch);
        let orders = || self.names_of_orders(cursor);
        let (stage, is_final) = {
            let compiled = self.compiled();
            let is_by_epoch = compiled.outputs.iter().any(OutputSpec::is_by_epoch);
            (Arc::clone(&compiled.stage), !is_by_epoch && self.recompile != Some(true))
        };
        let own = Cursor { order: self.order_of(cursor), ..self.begin(epoch, &stage) };
        if is_final {
            cursor.check(&own, stage.prints(), orders)?;
        } else {
            cursor.check_samples(&own, orders)?;
        }
        // An order may be a function of the user, which is not called without need.
        if cursor.position.is_multiple_of(self.global_batch()) {
            return Ok(());
        }
        cursor.first_batch(self.global_batch(), self.order(epoch)?.global_samples()).map(drop)
    }

    /// Returns the cursor of the beginning of epoch 0, with the current pipelines.
    #[doc(hidden)]
    #[must_use]
    pub fn beginning(&self) -> Cursor {
        let stage = Arc::clone(&self.compiled().stage);
        self.begin(Epoch(0), &stage)
    }

    /// Refuses a cursor of the beginning of an epoch that is of another dataset, order, seed or clips. The pipelines may have
    /// changed between the epochs.
    #[doc(hidden)]
    pub fn check_beginning(&self, cursor: &Cursor) -> Result<(), Error> {
        let own = Cursor { order: self.order_of(cursor), ..self.beginning() };
        cursor.check_samples(&own, || self.names_of_orders(cursor))
    }

    /// Returns the fingerprint of the order that a cursor must have at its position.
    fn order_of(&self, cursor: &Cursor) -> u64 {
        let at = (cursor.epoch, cursor.position);
        self.order.fingerprint_at(cursor.order, at, self.ranks.as_ref())
    }

    /// Returns the names of a cursor's order and of this loader's.
    fn names_of_orders(&self, cursor: &Cursor) -> (String, String) {
        let found = (cursor.order, cursor.mixture);
        self.order.names(found, self.ranks.as_ref(), self.source.len())
    }

    /// Returns any samples as one batch, in the order of `samples`: the rows that they have in this epoch,
    /// whatever its order and wherever they are in it. For looking at samples, and for those that a training
    /// chooses itself.
    ///
    /// Ops that mix samples, such as [`MixUp`](fuseloop_ops::MixUp), mix those of this batch with each other, by the
    /// draws of the epoch's first batch: the rows are then not those of the epoch.
    ///
    /// ```no_run
    /// # use fuseloop::Loader;
    /// let loader = Loader::open("train.beton")?.build()?;
    /// let hardest = loader.get(&[17, 3, 17], 0)?;
    /// assert_eq!(hardest.len(), 3);
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no such sample, or none is asked for; if the dataset is a stream; and those of a batch and
    /// of [`epoch`](Self::epoch).
    pub fn get(&self, samples: &[u64], epoch: u32) -> Result<Batch, Error> {
        let epoch = Epoch(epoch);
        if self.stream.is_some() {
            return Err(fail!(
                Unsupported,
                "a stream has no samples by their number: iterate over an epoch, or open it by an index"
            ));
        }
        let known = self.source.len();
        if let Some(&index) = samples.iter().find(|&&index| index >= known) {
            return Err(fail!(Parameter, "index {index}: the dataset has {known} samples"));
        }
        let rows = NonZeroUsize::new(samples.len()).ok_or_else(no_rows)?;
        let stage = self.stage(epoch)?;
        let stage = if self.setup.is_bucketed { Arc::new(stage.for_any_samples()) } else { stage };
        let listed = ListedOrder(samples.iter().map(|&id| SampleId(id)).collect());
        let origin = self.origin(&stage);
        let pass = RunRequest::new(stage, epoch, Box::new(listed), rows);
        let mut run = self.engine.start(RunRequest { origin, ..pass })?;
        match run.next() {
            Some(batch) => Ok(batch?.into()),
            // All rows were skipped.
            None => {
                let (skipped, first) = (rows.get() as u64, self.shared.damage_log.first_error());
                Err(all_skipped(epoch, skipped, &first))
            }
        }
    }

    /// Returns the position of the epoch that was started last, after the batches taken so far, for
    /// [`resume`](Self::resume) in this process or another.
    ///
    /// # Errors
    ///
    /// If no epoch was started, or batches are delivered unordered.
    pub fn cursor(&self) -> Result<Cursor, Error> {
        let position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let position = position
            .as_ref()
            .ok_or_else(|| fail!(Cursor, "no epoch was started: call `epoch` first"))?;
        position.cursor()
    }

    /// Returns the number of samples of each component that a [mixture](crate::order::DataMixture) has in an epoch before a
    /// position, on all ranks together; `None` for other orders. Samples that [`Uneven::Pad`](crate::order::Uneven::Pad)
    /// repeats are not counted again. A position beyond the end is the end.
    ///
    /// ```no_run
    /// # fn counted(loader: &fuseloop::Loader) -> fuseloop::Result<()> {
    /// let cursor = loader.cursor()?; // after the batches taken so far
    /// let drawn = loader.drawn(cursor.epoch, cursor.position).unwrap_or_default();
    /// println!("{} photographs, {} drawings", drawn[0], drawn[1]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn drawn(&self, epoch: u32, position: u64) -> Option<Vec<u64>> {
        self.order.drawn(self.setup.seed, Epoch(epoch), position)
    }

    /// Replaces the ops of an output for all epochs started or resumed after this call, and for the rest
    /// of a running epoch after [`renew`](Self::renew). Branches of the output follow.
    /// [`set_pipelines`](Self::set_pipelines) replaces those of several outputs that must fit each other.
    ///
    /// # Errors
    ///
    /// If there is no such output, or the new ops do not fit. Nothing is changed then.
    pub fn set_pipeline(&self, output: &str, pipeline: impl Into<Pipeline>) -> Result<(), Error> {
        self.set_pipelines([(output, pipeline)])
    }

    /// Replaces the ops of several outputs at once, as [`set_pipeline`](Self::set_pipeline) does those of one. What
    /// outputs must have in common is checked for all of them together, such as the ops that mix an image and its
    /// label: a training can leave them out of its last epochs.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, ops::*};
    ///
    /// let crop = || RandomResizedCrop::new(224);
    /// let loader = Loader::open("train.beton")?
    ///     .pipeline("image", ops![crop()?, MixUp::new(0.2)?])
    ///     .pipeline("label", ops![OneHot::new(1000)?, MixUp::new(0.2)?])
    ///     .build()?;
    /// for epoch in 0..90 {
    ///     if epoch == 80 {
    ///         let label = ops![OneHot::new(1000)?];
    ///         loader.set_pipelines([("image", ops![crop()?]), ("label", label)])?;
    ///     }
    ///     for batch in loader.epoch(epoch)? {
    ///         let batch = batch?;
    ///         // Train.
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no output of one of the names, or the new ops do not fit. Nothing is changed then.
    pub fn set_pipelines<'a, P: Into<Pipeline>>(
        &self,
        pipelines: impl IntoIterator<Item = (&'a str, P)>,
    ) -> Result<(), Error> {
        self.replace_pipelines(None, pipelines)
    }

    /// Does the same with the lists of `epoch`, for a caller who knows which epoch comes next.
    ///
    /// # Errors
    ///
    /// See [`set_pipelines`](Self::set_pipelines).
    #[doc(hidden)]
    pub fn set_pipelines_for<'a, P: Into<Pipeline>>(
        &self,
        epoch: u32,
        pipelines: impl IntoIterator<Item = (&'a str, P)>,
    ) -> Result<(), Error> {
        self.replace_pipelines(Some(Epoch(epoch)), pipelines)
    }

    /// Replaces ops, and compiles the lists of an epoch: of the one that was compiled last unless it is given.
    fn replace_pipelines<'a, P: Into<Pipeline>>(
        &self,
        epoch: Option<Epoch>,
        pipelines: impl IntoIterator<Item = (&'a str, P)>,
    ) -> Result<(), Error> {
        self.engine.check_process()?;
        let mut compiled = self.compiled();
        let epoch = epoch.unwrap_or(compiled.stage.epoch());
        let mut outputs = compiled.outputs.clone();
        for (output, pipeline) in pipelines {
            outputs = outputs::replaced(&outputs, output, pipeline.into())?;
        }
        outputs::check_recompile(&outputs, self.recompile)?;
        compiled.stage = self.compile(&outputs, epoch, &mut compiled.cache)?;
        compiled.outputs = outputs;
        Ok(())
    }

    /// Continues an epoch with the current pipelines, from the first sample that was not delivered. The
    /// plan changes at exactly that sample; batches prepared ahead by the old plan are discarded.
    ///
    /// # Errors
    ///
    /// See [`epoch`](Self::epoch).
    pub fn renew(&self, batches: Batches) -> Result<Batches, Error> {
        let (epoch, first) = (batches.epoch(), batches.next_batch());
        let fingerprint = batches.last_fingerprint();
        drop(batches);
        let stage = self.stage(epoch)?;
        self.start_in(self.order(epoch)?, epoch, &stage, (first, fingerprint))
    }

    /// Writes a line for each batch that epochs of this loader deliver from now on, with its fingerprint. It replaces the
    /// log before it; without one, nothing is written. An error of the log ends the epoch.
    ///
    /// See [`FingerprintLog`].
    pub fn log_fingerprints(&self, log: impl Into<Option<FingerprintLog>>) {
        let order = || self.order.own_name(self.ranks.as_ref(), self.source.len());
        self.log.set(log.into().map(|log| log.of_order(order())));
    }

    /// Returns the fingerprint of the batch that was delivered last in the epoch that was started last.
    #[doc(hidden)]
    #[must_use]
    pub fn last_fingerprint(&self) -> Option<u64> {
        let position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        position.as_ref().and_then(|position| position.fingerprint())
    }

    /// Returns the cursor `batches` batches after another, in the same epoch.
    ///
    /// # Errors
    ///
    /// Those of [`check_cursor`](Self::check_cursor), and if the position is inside a batch or beyond the end.
    #[doc(hidden)]
    pub fn advanced(&self, cursor: &Cursor, batches: u64) -> Result<Cursor, Error> {
        self.check_cursor(cursor)?;
        let (rows, total) =
            (self.global_batch(), self.order(Epoch(cursor.epoch))?.global_samples());
        if batches == 0 || cursor.first_batch(rows, total)?.is_none() {
            return Ok(*cursor);
        }
        let position = cursor.position.saturating_add(batches.saturating_mul(rows)).min(total);
        Ok(Cursor { position, fingerprint: None, ..*cursor })
    }

    /// Returns the rank and the number of ranks.
    #[doc(hidden)]
    pub fn rank(&self) -> [u64; 2] {
        [self.setup.rank, self.setup.world]
    }

    /// Starts an epoch at batch `first`; `fingerprint` is that of the batch before it, if it is known.
    fn start_in(
        &self,
        order: EpochOrder,
        epoch: Epoch,
        stage: &Arc<LoaderStage>,
        reached: (u64, Option<u64>),
    ) -> Result<Batches, Error> {
        let log = Arc::clone(&self.log);
        let (batches, position) = self.batches(order, (epoch, stage), reached, log)?;
        *self.position.lock().unwrap_or_else(PoisonError::into_inner) = Some(position);
        Ok(batches)
    }

    /// Starts an epoch as [`start_in`](Self::start_in) does, but leaves the loader's position as it is. Returns that of the
    /// epoch as well.
    fn batches(
        &self,
        order: EpochOrder,
        (epoch, stage): (Epoch, &Arc<LoaderStage>),
        reached: (u64, Option<u64>),
        log: Arc<LogSlot>,
    ) -> Result<(Batches, Arc<RunPosition>), Error> {
        let (rows, total) = (self.global_batch(), order.global_samples());
        let start = self.run_start(order, epoch, stage);
        let is_exact = self.stream.as_ref().is_none_or(|stream| stream.facts().is_exact);
        let (begin, delivery) = (self.begin(epoch, stage), (self.delivery, is_exact));
        let position = Arc::new(RunPosition::new(begin, delivery, (rows, total), reached));
        let logs = (Arc::clone(&self.shared.damage_log), log);
        let batches = Batches::new(start, Arc::clone(&position), logs)?;
        Ok((batches, position))
    }

    /// Returns what a run over an epoch consists of.
    fn run_start(&self, order: EpochOrder, epoch: Epoch, stage: &Arc<LoaderStage>) -> RunStart {
        RunStart {
            engine: Arc::clone(&self.engine),
            source: Arc::clone(&self.source),
            stage: Arc::clone(stage),
            order,
            seed: self.setup.seed,
            epoch,
            batch_size: self.batch_size,
            last: self.last,
            delivery: self.delivery,
            on_damaged: self.setup.on_damaged,
            rank: self.rank(),
            origin: self.origin(stage),
            stalls: Arc::clone(&self.stalls),
            metrics: Arc::clone(&self.metrics),
        }
    }

    /// Returns the part of fingerprints of batches that all batches of a run share: a hash of the dataset, the plan and the
    /// seed, and of the rank, on which the draws depend where samples are mixed.
    fn origin(&self, stage: &LoaderStage) -> u64 {
        let (seed, [rank, world]) = (self.setup.seed, self.rank());
        let mut print = Fingerprint::default();
        for number in [self.dataset, stage.fingerprint(), seed, rank, world] {
            print.number(number);
        }
        print.value()
    }

    fn order(&self, epoch: Epoch) -> Result<EpochOrder, Error> {
        self.order.epoch(self.setup.seed, epoch, self.ranks.as_ref())
    }

    /// Returns the cursor of the beginning of an epoch.
    fn begin(&self, epoch: Epoch, stage: &LoaderStage) -> Cursor {
        let order = self.order.fingerprint(self.ranks.as_ref());
        let (dataset, seed) = (self.dataset, self.setup.seed);
        let (plan, ops) = (stage.fingerprint(), PlanPrint::first(stage.prints()));
        let (clips, mixture) = (self.clips_of_cursor(), self.order.mixture_prints());
        let (epoch, position, fingerprint) = (epoch.0, 0, None);
        Cursor { dataset, order, plan, ops, clips, mixture, seed, epoch, position, fingerprint }
    }

    /// Returns the settings of the clips as a cursor has them: none if they do not fit.
    fn clips_of_cursor(&self) -> ClipSettings {
        let clips = self.setup.clips.as_ref();
        let settings = clips.and_then(|source| ClipSettings::new(&source.clips().settings()));
        settings.unwrap_or(ClipSettings::NONE)
    }

    /// Returns the number of rows of a batch over all ranks.
    fn global_batch(&self) -> u64 {
        let world = self.ranks.as_ref().map_or(1, |ranks| u64::from(ranks.world_size()));
        (self.batch_size.get() as u64).saturating_mul(world)
    }

    /// Returns the stage of an epoch: the last epoch's, unless a list is compiled for each epoch.
    fn stage(&self, epoch: Epoch) -> Result<Arc<LoaderStage>, Error> {
        self.engine.check_process()?;
        let mut compiled = self.compiled();
        let recompile = || {
            let mut outputs = compiled.outputs.iter();
            self.recompile == Some(true) || outputs.any(OutputSpec::is_by_epoch)
        };
        if compiled.stage.epoch() != epoch && recompile() {
            let CompiledOutputs { outputs, stage, cache } = &mut *compiled;
            *stage = self.compile(outputs, epoch, cache)?;
        }
        Ok(Arc::clone(&compiled.stage))
    }

    fn compile(
        &self,
        outputs: &[OutputSpec],
        epoch: Epoch,
        cache: &mut KernelCache,
    ) -> Result<Arc<LoaderStage>, Error> {
        let (source, setup, shared) = (&self.source, &self.setup, &self.shared);
        let compile = || LoaderStage::compile(source, outputs, epoch, setup, cache, shared);
        Ok(Arc::new(DefaultFloats::during(compile)?))
    }

    /// Returns why the memory of batches is not page-locked, although
    /// [`pin_memory`](LoaderBuilder::pin_memory) asks for it; `None` if it is, and before the first batch.
    #[must_use]
    pub fn pin_failure(&self) -> Option<String> {
        self.shared.page_locker.as_ref()?.failure()
    }

    /// Returns the number of samples of a batch on this rank.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        self.batch_size.get()
    }

    /// Returns the number of batches of an epoch on this rank; [`UNKNOWN`] for a stream of unknown
    /// length.
    #[must_use]
    pub fn len(&self) -> u64 {
        let batch_size = self.batch_size.get() as u64;
        match (self.order.len(self.ranks.as_ref()), self.last) {
            (UNKNOWN, _) => UNKNOWN,
            (positions, LastBatch::Keep) => positions.div_ceil(batch_size),
            (positions, LastBatch::Drop) => positions / batch_size,
        }
    }

    /// Returns the number of rows of an epoch on this rank, in all of its batches; [`UNKNOWN`] for a stream of
    /// unknown length. A short last batch counts unless it is [dropped](LoaderBuilder::drop_last). Damaged
    /// samples that are [skipped](OnDamaged::Skip) count: they are only found when they are read.
    #[must_use]
    pub fn samples(&self) -> u64 {
        let samples = self.order.samples(self.ranks.as_ref());
        match self.last {
            LastBatch::Drop if samples != UNKNOWN => {
                samples - samples % self.batch_size.get() as u64
            }
            _ => samples,
        }
    }

    /// Returns the tensors of a batch as the pipelines of the last epoch define them.
    #[must_use]
    pub fn tensors(&self) -> Vec<TensorSpec> {
        self.current().tensors().to_vec()
    }

    /// Describes the plan: for each field its blocks, which ops were fused, and the code they compiled
    /// to.
    #[must_use]
    pub fn explain(&self) -> String {
        let held = self
            .held_bytes
            .map(|bytes| format!("dataset: read into memory, {:.1} MB\n", bytes as f64 / 1e6));
        held.unwrap_or_default() + &self.current().explain()
    }

    /// Describes the output of this name, if it is a target of an image.
    #[doc(hidden)]
    pub fn target_words(&self, name: &str) -> Option<String> {
        self.current().target_words(name)
    }

    /// Returns how long the pipelines of the last epoch took to plan and compile.
    #[doc(hidden)]
    pub fn compile_time(&self) -> Duration {
        self.current().compile_time()
    }

    /// Returns where the time went so far: which threads worked, and which waited for what.
    #[doc(hidden)]
    pub fn utilization(&self) -> Utilization {
        self.engine.utilization()
    }

    /// Returns the number of images decoded so far, over all epochs: one per sample and image field,
    /// however many outputs are built from it. Work ahead of the batches taken is included.
    #[doc(hidden)]
    pub fn decoded(&self) -> u64 {
        self.shared.decoded.load(Ordering::Relaxed)
    }

    /// Returns the damaged samples found so far, if they do not end the epoch; see
    /// [`on_damaged`](LoaderBuilder::on_damaged).
    #[must_use]
    pub fn quarantine(&self) -> Quarantine {
        self.shared.damage_log.report()
    }

    /// Returns the statistics of the cache, over all epochs; `None` without a
    /// [`cache`](LoaderBuilder::cache).
    #[must_use]
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.shared.cache.as_ref().map(|cache| cache.stats())
    }

    /// Returns the statistics of page reads; `None` without a
    /// [`process_cache`](LoaderBuilder::process_cache).
    #[doc(hidden)]
    pub fn page_stats(&self) -> Option<PageStats> {
        self.pages.as_ref().map(|pages| pages.stats())
    }

    /// Reads the names of the classes, by the numbers in the field `label`; none if they are not known. A
    /// folder has them in the names of its folders; other datasets have a file `NAME.classes.json` beside
    /// them, which a conversion writes.
    ///
    /// ```no_run
    /// # use fuseloop::Loader;
    /// let loader = Loader::open("photos/train")?.build()?;
    /// let classes = loader.classes()?;
    /// println!("{} classes; 3 is {:?}", classes.iter().len(), classes.get(3));
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the file with the names is damaged.
    pub fn classes(&self) -> Result<ClassNames, Error> {
        classes::names(&*self.source)
    }

    /// Returns the dataset.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Returns the dataset, which may outlive the loader.
    #[doc(hidden)]
    #[must_use]
    pub fn shared_source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.source)
    }

    /// Returns the device that runs the ops after [`ToDevice`](fuseloop_ops::ToDevice) and holds their
    /// tensors; the CPU if no list has the op. If the CPU replaces a GPU, the result holds the reason.
    /// Chosen when the loader is built, for all epochs.
    #[must_use]
    pub fn device(&self) -> Placement {
        self.shared.device_choice.placement()
    }

    /// Returns the transfers to the device since the plan of the last epoch was first run; `None` on the
    /// CPU.
    #[must_use]
    pub fn device_stats(&self) -> Option<DeviceStats> {
        self.shared.device_choice.stats()
    }

    fn compiled(&self) -> MutexGuard<'_, CompiledOutputs> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Arc<LoaderStage> {
        Arc::clone(&self.compiled().stage)
    }
}
