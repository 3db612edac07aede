//! The spans that a subscriber sees of a run: its epoch, its batches, and the steps of each sample, each
//! nested in the other.

use crate::passed_alone;
use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::RowsMut;
use fuseloop::internals::run::{
    Engine, EngineOptions, FillError, Phase, Progress, RunRequest, Stage,
};
use fuseloop::ops::DType;
use fuseloop::{Epoch, SampleId, SampleRef};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit as Fields};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A span as it was created.
#[derive(Debug)]
struct Seen {
    id: u64,
    name: &'static str,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, u64>,
    /// What was recorded later, as a text.
    recorded: String,
    /// The number of times it was exited.
    exits: u64,
}

#[derive(Default)]
struct Recorder {
    last: AtomicU64,
    seen: Arc<Mutex<Vec<Seen>>>,
}

thread_local! {
    /// The spans that this thread has entered, the innermost last.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(vec![]) };
}

impl Fields for Seen {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.recorded = format!("{field}={value:?}");
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let inside = INSIDE.with_borrow(|inside| inside.last().copied());
        let parent = span.parent().map(Id::into_u64);
        let parent = parent.or(inside.filter(|_| span.is_contextual()));
        let (name, fields) = (span.metadata().name(), BTreeMap::new());
        let mut seen = Seen { id, name, parent, fields, recorded: String::new(), exits: 0 };
        span.record(&mut seen);
        self.seen.lock().unwrap().push(seen);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, fields: &Record<'_>) {
        let mut seen = self.seen.lock().unwrap();
        fields.record(seen.iter_mut().find(|span| span.id == id.into_u64()).unwrap());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        INSIDE.with_borrow_mut(|inside| inside.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        let left = INSIDE.with_borrow_mut(Vec::pop);
        assert_eq!(left, Some(id.into_u64()), "spans are left in the order they were entered");
        let mut seen = self.seen.lock().unwrap();
        seen.iter_mut().find(|span| span.id == id.into_u64()).unwrap().exits += 1;
    }
}

/// A stage that reads and works at each sample of a chunk.
struct Steps(Vec<TensorSpec>);

impl Stage for Steps {
    type Worker = Progress;
    type Error = Infallible;

    fn outputs(&self) -> &[TensorSpec] {
        &self.0
    }

    fn chunk(&self) -> NonZeroUsize {
        NonZeroUsize::new(3).unwrap()
    }

    fn worker(&self, watch: Progress) -> Progress {
        watch
    }

    fn fill(
        &self,
        watch: &mut Progress,
        _: Epoch,
        visits: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        for visit in visits {
            watch.start(visit.sample, Phase::Read);
            watch.phase(Phase::Kernel);
        }
        rows.output(0).fill(1);
        Ok(())
    }
}

#[test]
fn epochs_batches_and_phases_have_spans_inside_each_other() {
    if passed_alone("tracing::epochs_batches_and_phases_have_spans_inside_each_other") {
        return;
    }
    let recorder = Recorder::default();
    let seen = Arc::clone(&recorder.seen);
    tracing::subscriber::set_global_default(recorder).unwrap();

    let workers = NonZeroUsize::new(3).unwrap();
    let engine = Engine::new(EngineOptions { workers, ..EngineOptions::default() }).unwrap();
    let tensor = TensorSpec::new("x", DType::U8, [5]);
    let stage = Arc::new(Steps(vec![tensor]));
    let samples: Vec<SampleId> = (0..40).map(SampleId).collect();
    let size = NonZeroUsize::new(8).unwrap();
    let run = engine.start(RunRequest::new(stage, Epoch(7), Box::new(samples), size)).unwrap();
    let delivered: Vec<(usize, u64)> =
        run.map(|batch| batch.unwrap()).map(|batch| (batch.len(), batch.fingerprint())).collect();
    assert_eq!(delivered.iter().map(|(rows, _)| rows).sum::<usize>(), 40);
    drop(engine); // joins the threads: all spans have ended

    let seen = seen.lock().unwrap();
    let named = |name: &str| seen.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let parent = |span: &Seen| seen.iter().find(|other| Some(other.id) == span.parent).unwrap();

    let epochs = named("epoch");
    let [epoch] = epochs.as_slice() else { panic!("one epoch: {epochs:?}") };
    assert_eq!(epoch.fields, [("epoch", 7), ("samples", 40)].into());
    let mut batches: Vec<u64> = named("batch").iter().map(|batch| batch.fields["batch"]).collect();
    batches.sort_unstable();
    assert_eq!(batches, [0, 1, 2, 3, 4]);
    for batch in named("batch") {
        assert_eq!(batch.parent, Some(epoch.id));
        let (_, fingerprint) = delivered[batch.fields["batch"] as usize];
        assert_eq!(batch.recorded, format!("fingerprint={fingerprint:016x}"));
    }
    for name in ["read", "kernel"] {
        let mut samples: Vec<u64> = named(name).iter().map(|span| span.fields["sample"]).collect();
        samples.sort_unstable();
        assert!(samples.into_iter().eq(0..40), "{name}: each sample once");
        for span in named(name) {
            assert_eq!(span.exits, 1, "{span:?}");
            assert_eq!(
                (parent(span).name, span.fields["batch"]),
                ("batch", span.fields["sample"] / 8)
            );
            assert_eq!(parent(span).fields["batch"], span.fields["batch"]);
        }
    }
    assert_eq!(named("finish").len(), 5, "one a batch");
}
