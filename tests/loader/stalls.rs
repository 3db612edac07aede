//! A batch that comes late is reported while the program waits for it, with the sample and the phase of its worker.

use fuseloop::internals::recorded_warnings;
use fuseloop::ops::{CenterCrop, Lambda, ops};
use fuseloop::source::{
    BoxError, Buffer, Column, Facts, InMemory, OwnedImage, Record, SampleLocation, Source, Value,
};
use fuseloop::{Loader, LoaderBuilder, SampleId};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// 32 images, of which one takes long to read.
struct Slow {
    images: InMemory,
    sample: SampleId,
    time: Duration,
}

impl Source for Slow {
    fn facts(&self) -> &Facts {
        self.images.facts()
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.images.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        if sample == self.sample {
            thread::sleep(self.time);
        }
        self.images.value(sample, field, buffer)
    }

    fn locate(&self, SampleId(sample): SampleId, _: usize) -> Option<SampleLocation> {
        Some(SampleLocation::of_key(format!("drawer-{sample}")))
    }
}

fn images() -> InMemory {
    let images = vec![OwnedImage::rgb(8, vec![7; 8 * 8 * 3]); 32];
    InMemory::new([("image", Column::images(images))]).unwrap()
}

/// Sample 29, of the 15th batch, takes `time` to read.
fn slow(time: Duration) -> LoaderBuilder {
    let source = Slow { images: images(), sample: SampleId(29), time };
    Loader::from_source(source).batch_size(2).workers(2)
}

#[test]
fn a_late_batch_is_reported_with_its_cause() {
    let loader = slow(Duration::from_millis(1600)).build().unwrap();
    let ((), warnings) = recorded_warnings(|| {
        assert_eq!(loader.epoch(0).unwrap().map(Result::unwrap).count(), 16);
    });
    let [warning] = &*warnings else { panic!("one warning: {warnings:?}") };
    let batch = "epoch 0, batch 14: the program has waited 1.0 s for it, where at most ";
    assert!(warning.contains(batch), "{warning}");
    assert!(warning.contains("has been reading sample 29 (drawer-29) for 1."), "{warning}");
    assert!(warning.contains(": the disk is slow, or the code that"), "{warning}");
    assert_eq!(loader.stats().stalls, 1);

    // Within the minute, the next one is only counted.
    let before = loader.stats();
    let ((), warnings) = recorded_warnings(|| {
        loader.epoch(1).unwrap().for_each(|batch| drop(batch.unwrap()));
    });
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(loader.stats().since(&before).stalls, 1);
}

#[test]
fn a_short_wait_is_not_reported() {
    let loader = slow(Duration::from_millis(300)).build().unwrap();
    let ((), warnings) = recorded_warnings(|| {
        loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
    });
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(loader.stats().stalls, 0);
}

#[test]
fn a_wait_in_steps_is_one_wait() {
    let loader = slow(Duration::from_millis(1600)).build().unwrap();
    let ((), warnings) = recorded_warnings(|| {
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
        assert!(delivered == 16 && pending > 10, "{delivered} {pending}");
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn a_function_that_waits_is_the_cause() {
    let nap = Lambda::new("Nap", |cx, _| {
        if cx.sample == 29 {
            thread::sleep(Duration::from_millis(1600));
        }
    });
    let loader = Loader::from_source(images()).batch_size(2).workers(2);
    let loader = loader.pipeline("image", ops![CenterCrop::new(8).unwrap(), nap]).build().unwrap();
    let ((), warnings) = recorded_warnings(|| {
        loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
    });
    let [warning] = &*warnings else { panic!("one warning: {warnings:?}") };
    assert!(warning.contains("has been running the ops on sample 29"), "{warning}");
    assert!(warning.contains("a function in the list of ops may wait"), "{warning}");
}
