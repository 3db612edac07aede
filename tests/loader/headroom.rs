//! A batch that is replayed shows how fast its consumer is, and leaves the positions of runs.

use fuseloop::Loader;
use fuseloop::loader::{FingerprintLog, HeadroomReport};
use fuseloop::source::{Column, InMemory};
use std::thread;
use std::time::Duration;

/// A loader of 32 numbers in batches of 4, on one worker.
fn numbers() -> Loader {
    let numbers = InMemory::new([("number", Column::ints(0..32))]).unwrap();
    Loader::from_source(numbers).batch_size(4).workers(1).build().unwrap()
}

#[test]
fn the_first_batch_is_returned_again_and_again() {
    let loader = numbers();
    let mut batches = loader.epoch(0).unwrap();
    batches.next().unwrap().unwrap();
    let position = loader.cursor().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.jsonl");
    loader.log_fingerprints(FingerprintLog::open(&log).unwrap());
    let mut replay = loader.headroom(0, 5).unwrap();
    let mut replayed = 0;
    for batch in &mut replay {
        replayed += 1;
        assert_eq!(batch.tensor::<i64>("number").unwrap().as_slice(), [0, 1, 2, 3]);
    }
    assert!(replay.next().is_none());
    assert_eq!(replayed, 5);
    let report = replay.report().unwrap();
    assert!(report.loader > 0.0 && report.consumer > 0.0);
    assert_eq!(loader.cursor().unwrap(), position, "the run that was started is still the last");
    assert_eq!(std::fs::read(&log).unwrap(), b"", "the log has the batches of runs alone");
    assert_eq!(batches.next().unwrap().unwrap().index(), 1);
}

#[test]
fn the_time_of_the_consumer_is_counted() {
    let loader = numbers();
    let mut replay = loader.headroom(0, 4).unwrap();
    for _ in replay.by_ref() {
        thread::sleep(Duration::from_millis(20));
    }
    let report = replay.report().unwrap();
    // 4 samples in at least 20 ms.
    assert!(report.consumer <= 200.0, "{report:?}");
}

#[test]
fn the_text_names_the_slower_side() {
    let report = HeadroomReport { consumer: 4000.0, loader: 2893.4 };
    assert!(report.headroom() < 1.0);
    assert_eq!(
        report.to_string(),
        "the consumer uses 4,000 samples/s, the loader prepares 2,893 samples/s: the loader is the limit (headroom 0.72)"
    );
    let report = HeadroomReport { consumer: 100.0, loader: 250.0 };
    assert!(report.to_string().contains("the consumer is the limit (headroom 2.5"), "{report}");
}

#[test]
fn a_report_needs_a_batch_that_was_timed() {
    let loader = numbers();
    assert!(loader.headroom(0, 0).unwrap_err().to_string().contains("at least 1"));
    let mut replay = loader.headroom(0, 3).unwrap();
    assert!(replay.report().unwrap_err().to_string().contains("iterate over all 3 batches"));
    // The second is the first that is timed, and the consumer is done with it at the third.
    replay.next();
    replay.next();
    assert!(replay.report().is_err());
    replay.next();
    assert!(replay.report().is_ok());
    let mut one = loader.headroom(0, 1).unwrap();
    assert_eq!(one.by_ref().count(), 1);
    assert!(one.report().is_ok());
}
