//! A batch that comes late is reported while the program waits for it, with the sample and the phase of its worker.

use fuseloop::internals::recorded_warnings;
use fuseloop::ops::{CenterCrop, Lambda, ops};
use fuseloop::source::{
    BoxError, Buffer, Column, Facts, InMemory, OwnedImage, Record, SampleLocation, Source, Value,
};
use fuseloop::{Loader, SampleId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// The sample that is late, of batch 14.
const LATE: u64 = 29;

/// The number of stalls that a worker waits for at the late sample, and the number that were found.
#[derive(Default)]
struct Gate {
    awaited: AtomicU64,
    found: AtomicU64,
}

impl Gate {
    /// Waits at the late sample until the stall is found.
    fn pass(&self, sample: u64) {
        let begun = Instant::now();
        let is_closed = || {
            self.found.load(Ordering::Relaxed) < self.awaited.load(Ordering::Relaxed)
                && begun.elapsed() < Duration::from_secs(60)
        };
        while sample == LATE && is_closed() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs `epoch`, whose late batch is the loader's next stall, and returns the warnings of late batches.
    fn late(&self, loader: &Loader, epoch: impl FnOnce()) -> Vec<String> {
        let awaited = self.awaited.fetch_add(1, Ordering::Relaxed) + 1;
        let is_over = AtomicU64::new(0);
        let ((), mut warnings) = recorded_warnings(|| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let begun = Instant::now();
                    while is_over.load(Ordering::Relaxed) == 0
                        && begun.elapsed() < Duration::from_secs(120)
                    {
                        self.found.store(loader.stats().stalls, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(5));
                    }
                });
                epoch();
                is_over.store(1, Ordering::Relaxed);
            });
        });
        assert_eq!(loader.stats().stalls, awaited);
        // Other tests may warn meanwhile.
        warnings.retain(|warning| warning.contains(&format!("sample {LATE}")));
        warnings
    }
}

/// 32 images, of which one takes long to read.
struct Slow(InMemory, Arc<Gate>);

impl Source for Slow {
    fn facts(&self) -> &Facts {
        self.0.facts()
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.0.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.1.pass(sample.0);
        self.0.value(sample, field, buffer)
    }

    fn locate(&self, SampleId(sample): SampleId, _: usize) -> Option<SampleLocation> {
        Some(SampleLocation::of_key(format!("drawer-{sample}")))
    }
}

fn images() -> InMemory {
    let images = vec![OwnedImage::rgb(8, vec![7; 8 * 8 * 3]); 32];
    InMemory::new([("image", Column::images(images))]).unwrap()
}

/// Returns a loader of 16 batches with a late one.
fn slow() -> (Loader, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let source = Slow(images(), Arc::clone(&gate));
    (Loader::from_source(source).batch_size(2).workers(2).build().unwrap(), gate)
}

#[test]
fn a_late_batch_is_reported_with_its_cause() {
    let (loader, gate) = slow();
    let epoch = |number| {
        assert_eq!(loader.epoch(number).unwrap().map(Result::unwrap).count(), 16);
    };
    let warnings = gate.late(&loader, || epoch(0));
    let [warning] = &*warnings else { panic!("one warning: {warnings:?}") };
    assert!(warning.contains("epoch 0, batch 14: the program has waited "), "{warning}");
    assert!(warning.contains(" for it, where at most "), "{warning}");
    assert!(warning.contains("has been reading sample 29 (drawer-29) for "), "{warning}");
    assert!(warning.contains(": the disk is slow, or the code that"), "{warning}");

    // Within the minute, the next one is only counted.
    let before = loader.stats();
    let warnings = gate.late(&loader, || epoch(1));
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(loader.stats().since(&before).stalls, 1);
}

#[test]
fn a_wait_in_steps_is_one_wait() {
    let (loader, gate) = slow();
    let warnings = gate.late(&loader, || {
        let mut batches = loader.epoch(0).unwrap();
        let (mut delivered, mut pending) = (0, 0);
        let step = Duration::from_millis(50);
        loop {
            let begun = Instant::now();
            match batches.next_within(step) {
                Poll::Ready(None) => break,
                Poll::Ready(Some(batch)) => delivered += usize::from(batch.is_ok()),
                Poll::Pending => {
                    assert!(begun.elapsed() >= step, "a stall ends no wait early");
                    pending += 1;
                }
            }
        }
        assert!(delivered == 16 && pending > 1, "{delivered} {pending}");
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn a_function_that_waits_is_the_cause() {
    let gate = Arc::new(Gate::default());
    let of_function = Arc::clone(&gate);
    let nap = Lambda::new("Nap", move |cx, _| of_function.pass(cx.sample));
    let loader = Loader::from_source(images()).batch_size(2).workers(2);
    let loader = loader.pipeline("image", ops![CenterCrop::new(8).unwrap(), nap]).build().unwrap();
    let warnings = gate.late(&loader, || {
        loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
    });
    let [warning] = &*warnings else { panic!("one warning: {warnings:?}") };
    assert!(warning.contains("has been running the ops on sample 29"), "{warning}");
    assert!(warning.contains("a function in the list of ops may wait"), "{warning}");
}
