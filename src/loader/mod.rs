//! The loader: a dataset and its pipelines, as batches.
//!
//! ```text
//! Source ─▶ order ─▶ for each sample of a batch, on any worker:
//!                     read ─▶ draw ─▶ decode what the draws want ─▶ compiled loop ─▶ a row of the batch
//!                   for each finished batch: mix its rows (MixUp, CutMix), on one worker
//! ```
//!
//! [`Loader::open`] gives a [`LoaderBuilder`]; [`build`](LoaderBuilder::build) checks everything
//! there is to check and compiles; [`epoch`](Loader::epoch) gives the batches of one pass, in
//! order, the same bits for any number of workers. A field can have several outputs
//! ([`view`](LoaderBuilder::view), [`branch`](LoaderBuilder::branch)): it is decoded once for all.

mod builder;
mod error;
mod inspect;
mod mixing;
mod outputs;
mod stage;

pub use builder::LoaderBuilder;
pub use error::{LoadError, SampleCause, SampleError};
pub use inspect::{Inspected, Inspector, Phases};

use crate::batch::{Batch, TensorSpec};
use crate::decode::DecodeOptions;
use crate::jit::KernelCache;
use crate::order::{Order, epoch_order};
use crate::run::{Engine, EpochRun, Headroom, LastBatch, Pass, RunError, Schedule};
use crate::sample::{Epoch, SampleId, Visit};
use crate::source::{RunPlan, Source, Upcoming};
use outputs::Output;
use stage::LoaderStage;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A dataset and its pipelines, ready to give batches.
pub struct Loader {
    source: Arc<dyn Source>,
    outputs: Vec<Output>,
    ids: Vec<SampleId>,
    order: Order,
    batch_size: NonZeroUsize,
    last: LastBatch,
    recompile: bool,
    setup: builder::Setup,
    compiled: Mutex<Compiled>,
    decoded: Arc<AtomicU64>,
    engine: Engine<LoaderStage>,
}

/// The samples of an epoch in order, for the engine and for a source that reads ahead.
#[derive(Clone)]
struct Rows(Arc<[SampleId]>);

impl Rows {
    fn range(&self, places: Range<u64>) -> &[SampleId] {
        &self.0[places.start as usize..places.end as usize]
    }
}

impl Schedule for Rows {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn visits(&self, places: Range<u64>, visits: &mut Vec<Visit>) {
        visits.extend(self.range(places).iter().map(|&sample| Visit::once(sample)));
    }
}

impl Upcoming for Rows {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn at(&self, places: Range<u64>, samples: &mut Vec<SampleId>) {
        samples.extend_from_slice(self.range(places));
    }
}

/// What the last epoch ran.
struct Compiled {
    stage: Arc<LoaderStage>,
    cache: KernelCache,
}

impl Loader {
    /// Opens a `.beton` file, to be set up by the builder's methods.
    ///
    /// # Errors
    ///
    /// If it can't be opened or is no `.beton` file.
    pub fn open(path: impl AsRef<Path>) -> Result<LoaderBuilder, LoadError> {
        LoaderBuilder::open(path.as_ref())
    }

    /// A loader of a source of the user's own, to be set up by the builder's methods.
    #[must_use]
    pub fn from_source(source: impl Source) -> LoaderBuilder {
        LoaderBuilder::of(Arc::new(source), DecodeOptions::default())
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
        let ids = epoch_order(self.order, self.setup.seed, epoch, self.ids.clone());
        let rows = Rows(ids.into());
        let stage = self.begin(stage, epoch, &rows)?;
        let (batch_size, last) = (self.batch_size, self.last);
        let schedule = Box::new(rows);
        let run = self.engine.start(Pass { stage, epoch, schedule, batch_size, last })?;
        Ok(Batches { run })
    }

    /// The stage as one run has it: its source may read ahead.
    fn begin(
        &self,
        stage: Arc<LoaderStage>,
        epoch: Epoch,
        rows: &Rows,
    ) -> Result<Arc<LoaderStage>, LoadError> {
        let plan = RunPlan {
            epoch,
            upcoming: Arc::new(rows.clone()),
            batch_size: self.batch_size.get(),
            batches_ahead: self.engine.options().batches_ahead.get(),
            fields: stage.fields_read(),
        };
        match Arc::clone(&self.source).begin(&plan) {
            Ok(None) => Ok(stage),
            Ok(Some(source)) => Ok(Arc::new(stage.reading(source))),
            Err(error) => Err(LoadError::Begin { dataset: self.source.name(), error }),
        }
    }

    /// The stage of an epoch: the last one's, unless pipelines are made anew.
    fn stage(&self, epoch: Epoch) -> Result<Arc<LoaderStage>, LoadError> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if self.recompile && compiled.stage.epoch() != epoch {
            let stage = builder::stage(
                &self.source,
                &self.outputs,
                epoch,
                &self.setup,
                &mut compiled.cache,
                &self.decoded,
            )?;
            compiled.stage = Arc::new(stage);
        }
        Ok(Arc::clone(&compiled.stage))
    }

    /// Batches of an epoch.
    #[must_use]
    pub fn len(&self) -> u64 {
        let (samples, size) = (self.ids.len() as u64, self.batch_size.get() as u64);
        match self.last {
            LastBatch::Keep => samples.div_ceil(size),
            LastBatch::Drop => samples / size,
        }
    }

    /// Whether an epoch has no batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Samples of an epoch, before a short last batch is dropped.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.ids.len() as u64
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
        self.decoded.load(Ordering::Relaxed)
    }

    /// The dataset.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    fn current(&self) -> Arc<LoaderStage> {
        let compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&compiled.stage)
    }
}

/// The batches of one epoch, in order; see [`Loader::epoch`].
///
/// After an error it gives nothing more. Dropping it early stops its work.
pub struct Batches {
    run: EpochRun<LoaderStage>,
}

impl Batches {
    /// Batches still to come if no error ends the epoch.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.run.remaining()
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, RunError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.run.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.run.size_hint()
    }
}
