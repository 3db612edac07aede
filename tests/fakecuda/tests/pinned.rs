//! Batches that stay on the host, in page-locked memory.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

mod common;

use common::training::file;
use fuseloop::ops::{Resize, ToDevice, ops};
use fuseloop::{Batch, Loader, LoaderBuilder};
use fuseloop_fakecuda::{Report, calls, on_fake_gpu};
use std::path::Path;

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path)
        .unwrap()
        .batch_size(4)
        .pipeline("image", ops![Resize::new((32, 32)).unwrap()])
}

fn images(batch: &Batch) -> Vec<u8> {
    batch.bytes("image").unwrap().to_vec()
}

#[test]
fn batches_are_locked_while_they_live_and_hold_the_same_values() {
    on_fake_gpu("batches_are_locked_while_they_live_and_hold_the_same_values", &[], || {
        let (_dir, path) = file(18);
        let plain = builder(&path).build().unwrap();
        let loader = builder(&path).pin_memory(0).build().unwrap();
        assert_eq!(Report::now(), Report::default(), "no context before the first batch");
        assert_eq!(loader.pin_failure(), None);
        for epoch in 0..2 {
            let both = loader.epoch(epoch).unwrap().zip(plain.epoch(epoch).unwrap());
            for (pinned, plain) in both {
                let (pinned, plain) = (pinned.unwrap(), plain.unwrap());
                assert!(images(&pinned) == images(&plain));
                assert_eq!(pinned.device(), None, "it is on the host");
            }
        }
        assert_eq!(loader.pin_failure(), None);
        let report = Report::now();
        assert!(report.registered >= 2, "the image and the label of a batch: {report:?}");
        assert_eq!((report.allocations, report.contexts), (0, 1), "{report:?}");
        // A batch that outlives its loader stays locked.
        let held = loader.epoch(2).unwrap().next().unwrap().unwrap();
        drop(loader);
        assert_eq!(Report::now().registered, 2);
        drop(held);
        assert_eq!(Report::now(), Report::default(), "all is given back");
    });
}

/// A slot is locked once, and again only for a batch with more rows.
#[test]
fn a_slot_is_locked_once() {
    on_fake_gpu("a_slot_is_locked_once", &[("FAKE_CUDA_LOG", "1")], || {
        let (_dir, path) = file(40);
        let loader = builder(&path).pin_memory(0).batches_ahead(1).build().unwrap();
        for epoch in 0..5 {
            loader.epoch(epoch).unwrap().for_each(|batch| drop(batch.unwrap()));
        }
        let locked = calls().iter().filter(|call| call.starts_with("cuMemHostRegister")).count();
        assert!((2..=12).contains(&locked), "{locked} locks for 50 batches");
    });
}

#[test]
fn outputs_on_a_device_are_locked_beside_those_on_the_host() {
    let settings = [("FUSELOOP_KERNEL_CACHE", "off")];
    on_fake_gpu("outputs_on_a_device_are_locked_beside_those_on_the_host", &settings, || {
        let (_dir, path) = file(18);
        let list = || ops![Resize::new((32, 32)).unwrap(), ToDevice::new("cuda:0").unwrap()];
        let loader = builder(&path).pipeline("image", list()).pin_memory(0).build().unwrap();
        for batch in loader.epoch(0).unwrap() {
            assert_eq!(batch.unwrap().device(), Some(0));
        }
        assert!(Report::now().registered >= 2, "{:?}", Report::now());
        drop(loader);
        assert_eq!(Report::now(), Report::default(), "all is given back");
    });
}

#[test]
fn without_locks_batches_are_the_same_and_the_reason_is_known() {
    let name = "without_locks_batches_are_the_same_and_the_reason_is_known";
    for (settings, reason) in [
        (("FAKE_CUDA_DEVICES", "0"), "device"),
        (("FAKE_CUDA_FAIL", "cuMemHostRegister_v2:*:2"), "ulimit -l"),
    ] {
        on_fake_gpu(name, &[settings], || {
            let (_dir, path) = file(18);
            let loader = builder(&path).pin_memory(0).build().unwrap();
            let plain = builder(&path).build().unwrap();
            let both = loader.epoch(0).unwrap().zip(plain.epoch(0).unwrap());
            let same = both.map(|(a, b)| images(&a.unwrap()) == images(&b.unwrap()));
            assert!(same.inspect(|same| assert!(same)).count() == 5);
            let failure = loader.pin_failure().unwrap();
            assert!(failure.contains(reason), "{failure}");
        });
    }
}
