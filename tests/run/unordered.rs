//! Batches in the order of their completion.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fuseloop::internals::run::{Delivery, EngineOptions, RunRequest};

use crate::support::{At, Numbers, WORKERS, assert_right, engine, ids, n, only, options, pass};

fn unordered(stage: &Arc<Numbers>, samples: u64, batch_size: usize) -> RunRequest<Numbers> {
    RunRequest { delivery: Delivery::Unordered, ..pass(stage, samples, batch_size) }
}

#[test]
fn every_batch_comes_once_with_the_rows_it_has_in_order() {
    for workers in WORKERS {
        let engine = engine(workers);
        let nap = |sample: u64| Duration::from_micros(sample * 131 % 7 * 40);
        let stage = Arc::new(Numbers::new(2).nap(nap));
        for first_batch in [0, 3] {
            let run =
                engine.start(RunRequest { first_batch, ..unordered(&stage, 205, 10) }).unwrap();
            let mut indices = run
                .map(|batch| {
                    let batch = batch.unwrap();
                    assert_right(&batch, 205, 10);
                    batch.index()
                })
                .collect::<Vec<_>>();
            indices.sort_unstable();
            assert!(indices.into_iter().eq(first_batch..21), "{workers}");
        }
    }
}

#[test]
fn a_slow_batch_holds_up_no_other() {
    let engine = engine(2);
    let released = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&released);
    let stage = Arc::new(Numbers::new(1).nap(move |sample| {
        while sample == 0 && !gate.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        Duration::ZERO
    }));
    let mut run = engine.start(unordered(&stage, 100, 10)).unwrap();
    // Sample 0 is in batch 0, and waits until all other batches have arrived.
    let mut others = run.by_ref().take(9).map(|b| b.unwrap().index()).collect::<Vec<_>>();
    others.sort_unstable();
    assert!(others.into_iter().eq(1..10));
    released.store(true, Ordering::Relaxed);
    assert_right(&run.next().unwrap().unwrap(), 100, 10);
    assert!(run.next().is_none());
}

#[test]
fn an_error_comes_after_all_batches_before_it() {
    for workers in WORKERS {
        let engine = engine(workers);
        for bad in 0..60 {
            let stage = Arc::new(Numbers::new(2).at(only(bad, At::Error)));
            let mut run = engine.start(unordered(&stage, 60, 6)).unwrap();
            let position = ids(60).iter().position(|id| id.0 == bad).unwrap() as u64;
            let mut before = Vec::new();
            let error = loop {
                match run.next().unwrap() {
                    Ok(batch) => before.push(batch.index()),
                    Err(error) => break error.to_string(),
                }
            };
            assert_eq!(error, format!("batch {}: sample {bad}: it is bad", position / 6));
            assert!(run.next().is_none());
            assert!((0..position / 6).all(|index| before.contains(&index)), "{before:?}");
            assert!(!before.contains(&(position / 6)));
        }
    }
}

#[test]
fn no_more_batches_are_ahead_than_in_order() {
    let options = EngineOptions { batches_ahead: n(2), ..options(4) };
    let engine = fuseloop::internals::run::Engine::new(options).unwrap();
    let stage = Arc::new(Numbers::new(1));
    let mut taken = 0;
    for batch in engine.start(unordered(&stage, 400, 10)).unwrap() {
        taken += batch.unwrap().len() as u64;
        thread::sleep(Duration::from_micros(300));
        let ahead = stage.filled.load(Ordering::Relaxed) - taken;
        assert!(ahead <= 20, "{ahead} samples ahead");
    }
    assert_eq!(taken, 400);
}
