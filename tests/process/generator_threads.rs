//! Producer threads do not stay behind. This test is alone in its process, because it counts all threads.
#![cfg(target_os = "linux")]

use crate::passed_alone;
use fuseloop::Loader;
use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// A joined thread may stay listed for a moment.
fn assert_threads_are(expected: usize) {
    let begun = Instant::now();
    while threads() != expected {
        assert!(begun.elapsed() < Duration::from_secs(5), "{} threads", threads());
        thread::yield_now();
    }
}

#[test]
fn no_producer_is_left_after_200_early_drops_nor_after_a_loader() {
    if passed_alone(
        "generator_threads::no_producer_is_left_after_200_early_drops_nor_after_a_loader",
    ) {
        return;
    }
    let before = threads();
    for round in 0..200u64 {
        let producers = [1, 2, 8][round as usize % 3];
        let generator = Generator::new(producers, 1 + round as usize % 9);
        let generator = if round.is_multiple_of(2) { generator } else { generator.unordered() };
        let mut queue = generator
            .start(move |ticket| {
                thread::sleep(Duration::from_micros(ticket % 7 * 30));
                match round % 4 {
                    0 if ticket == 15 => Err("bad"),
                    1 if ticket == 15 => Ok(None),
                    _ => Ok(Some(ticket)),
                }
            })
            .unwrap();
        // The queue is dropped when full, when empty, after its end, and after an error.
        let taken = queue.by_ref().take(round as usize % 21).filter_map(Result::ok).count();
        assert!(taken <= 20);
        let begun = Instant::now();
        drop(queue);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_threads_are(before);
    }

    let fields = vec![FieldSpec { name: "int".to_owned(), kind: FieldKind::Int }];
    let made = |_, sample: u64| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
    let source = Generator::new(3, 4).source(fields, 64, made).unwrap();
    let loader = Loader::from_source(source).batch_size(8).workers(2).build().unwrap();
    for epoch in 0..20 {
        let batches = loader.epoch(epoch).unwrap();
        assert!(batches.take(epoch as usize % 9).all(|batch| batch.is_ok()));
    }
    drop(loader);
    assert_threads_are(before);
}
