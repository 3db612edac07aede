//! A dataset whose records are made by a function of the user's, ahead of the loader's workers.
//!
//! ```text
//! record(epoch, sample) = function(epoch, sample)
//! ```
//!
//! That is also the plain version: what is not of a run, or was taken before, is made by the thread
//! that asks. A run has producers that make the records of its upcoming samples in their order.

use super::crew::{Crew, Job};
use super::window::Window;
use super::{GenerateError, Generator};
use crate::sample::{Epoch, SampleId};
use crate::source::{BoxError, FieldSpec, Record, RunPlan, Source};
use crate::threads::Process;
use std::sync::{Arc, Mutex, PoisonError};

/// What a record is made with.
pub(super) type Function = Arc<dyn Fn(Epoch, u64) -> Result<Record, BoxError> + Send + Sync>;

/// A dataset of made records; see [`Generator::source`].
///
/// Read outside of a run, as [`Loader::inspect`](crate::Loader::inspect) may, it gives the records of
/// epoch 0. Dropping it waits for the producers of all its runs, as dropping a
/// [`Queue`](super::Queue) does.
pub struct Generated {
    generator: Generator,
    fields: Vec<FieldSpec>,
    samples: u64,
    function: Function,
    /// The producers of runs, also of those that are over until they have ended.
    crews: Mutex<Vec<Arc<Crew<Window>>>>,
    /// The process that has their threads.
    process: Process,
}

impl Generated {
    pub(super) fn new(
        generator: Generator,
        fields: Vec<FieldSpec>,
        samples: u64,
        function: Function,
    ) -> Self {
        let (crews, process) = (Mutex::default(), Process::current());
        Self { generator, fields, samples, function, crews, process }
    }

    fn begin_run(self: Arc<Self>, plan: &RunPlan) -> Result<Run, GenerateError> {
        let queue = || self.generator.name.clone();
        self.process.check().map_err(|error| GenerateError::Threads { queue: queue(), error })?;
        let (function, epoch) = (Arc::clone(&self.function), plan.epoch);
        let make = Arc::new(move |job: Job| function(epoch, job.ticket).map(Some));
        let books = Window::new(plan, self.generator.bound());
        let crew = Arc::new(Crew::start(&self.generator, books, make)?);
        let mut crews = self.crews.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, at_work) = crews.drain(..).partition(|crew: &Arc<_>| crew.is_over());
        *crews = at_work;
        crews.push(Arc::clone(&crew));
        drop(crews);
        drop::<Vec<_>>(ended);
        Ok(Run { source: self, crew })
    }
}

impl Source for Generated {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn len(&self) -> u64 {
        self.samples
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        (self.function)(Epoch(0), sample.0)
    }

    fn name(&self) -> String {
        self.generator.name.clone()
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Arc<dyn Source>>, BoxError> {
        Ok(Some(Arc::new(self.begin_run(run)?)))
    }
}

/// A dataset of made records, as one run reads it.
struct Run {
    source: Arc<Generated>,
    crew: Arc<Crew<Window>>,
}

impl Source for Run {
    fn fields(&self) -> &[FieldSpec] {
        &self.source.fields
    }

    fn len(&self) -> u64 {
        self.source.samples
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let mut surplus = vec![];
        // In a forked process, which has no producers, it is made here.
        let place = self.crew.with(|window| window.ask(sample, &mut surplus)).flatten();
        drop(surplus);
        let taken = place.and_then(|place| self.crew.take(None, |w| w.take(place)).ok().flatten());
        let ticket = sample.0;
        let product = taken.unwrap_or_else(|| self.crew.make(Job { place: ticket, ticket }));
        // A record is never missing: `begin_run` wraps each.
        product?.ok_or_else(|| "no record".into())
    }

    fn name(&self) -> String {
        self.source.name()
    }

    fn fingerprint(&self) -> u64 {
        self.source.fingerprint()
    }

    fn end(&self) {
        self.crew.dismiss();
    }
}

/// Nobody waits for the producers here: the next run may begin. [`Generated`] waits.
impl Drop for Run {
    fn drop(&mut self) {
        self.crew.dismiss();
    }
}
