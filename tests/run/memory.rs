//! Slots: they are held, reused, given back, and never more than allowed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use fuseloop::internals::run::{Engine, EngineOptions, Phase, RunError, RunRequest};
use fuseloop::sample::Epoch;

use crate::support::{Numbers, assert_right, bytes, engine, n, options, pass, run};

#[test]
fn a_held_batch_is_never_overwritten() {
    let engine = engine(2);
    let held = run(&engine, Numbers::new(2), 64, 8).next().unwrap().unwrap();
    let before = bytes(&held);
    for epoch in 2..30 {
        let stage = Arc::new(Numbers::new(2));
        let pass = RunRequest { epoch: Epoch(epoch), ..pass(&stage, 64, 8) };
        for batch in engine.start(pass).unwrap() {
            batch.unwrap();
            assert_eq!(bytes(&held), before);
        }
    }
    drop(engine);
    assert_eq!(bytes(&held), before);
    assert_right(&held, 64, 8);
}

#[test]
fn an_epoch_can_be_collected_whole() {
    let engine = engine(2);
    let batches = run(&engine, Numbers::new(4), 1000, 10).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(batches.len(), 100);
    drop(engine);
    batches.iter().for_each(|batch| assert_right(batch, 1000, 10));
    let starts = batches.iter().map(|b| b.bytes("x").unwrap().as_ptr() as usize);
    let mut starts = starts.collect::<Vec<_>>();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), 100, "two batches share memory");
}

#[test]
fn slots_and_workers_are_reused_over_batches_and_epochs() {
    let engine = engine(2);
    let stage = Arc::new(Numbers::new(4));
    for epoch in 0..20 {
        let pass = RunRequest { epoch: Epoch(epoch), ..pass(&stage, 200, 8) };
        assert_eq!(engine.start(pass).unwrap().map(Result::unwrap).count(), 25);
    }
    let headroom = engine.utilization();
    let (ring, kept_by_the_loop) = (3, 1);
    assert!(headroom.slots_allocated <= ring + kept_by_the_loop, "{headroom:?}");
    assert_eq!((headroom.batches, headroom.samples), (500, 4000));
    assert!(stage.workers_made.load(Ordering::Relaxed) <= 2);
}

#[test]
fn hoarded_slots_are_given_back() {
    let engine = engine(2);
    drop(run(&engine, Numbers::new(4), 1000, 10).map(Result::unwrap).collect::<Vec<_>>());
    let headroom = engine.utilization();
    assert!(headroom.slots_allocated >= 100 && headroom.slots <= 5, "{headroom:?}");
}

#[test]
fn a_slow_consumer_keeps_memory_flat() {
    let engine = engine(2);
    let stage = Arc::new(Numbers::new(1));
    let mut taken = 0_u64;
    for batch in engine.start(pass(&stage, 4000, 10)).unwrap() {
        batch.unwrap();
        taken += 10;
        if taken.is_multiple_of(1000) {
            thread::sleep(Duration::from_millis(20));
            let ahead = stage.filled.load(Ordering::Relaxed) - taken;
            assert!(ahead <= 30, "{ahead} samples ahead");
        }
    }
    assert!(engine.utilization().slots_allocated <= 4);
    assert!(engine.utilization().time(Phase::Room) > Duration::ZERO);
}

#[test]
fn at_the_cap_a_call_waits_and_then_says_so() {
    let slot_timeout = Duration::from_millis(50);
    let options = EngineOptions { max_slots: Some(n(2)), slot_timeout, ..options(2) };
    let engine = Engine::new(options).unwrap();
    let mut batches = run(&engine, Numbers::new(1), 100, 5);
    let first = batches.next().unwrap().unwrap();
    let second = batches.next().unwrap().unwrap();
    // Another thread drops a batch in time.
    let dropper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(5));
        drop(first);
    });
    let third = batches.next().unwrap().unwrap();
    dropper.join().unwrap();
    let error = batches.next().unwrap().unwrap_err();
    assert!(matches!(error, RunError::SlotsHeld { batch: 3, max_slots: 2, .. }), "{error}");
    assert!(batches.next().is_none());
    assert_right(&second, 100, 5);
    assert_right(&third, 100, 5);
    drop((second, third));
    assert_eq!(run(&engine, Numbers::new(1), 100, 5).map(Result::unwrap).count(), 20);
    assert_eq!(engine.utilization().slots_allocated, 2);
}

#[test]
fn shared_tensors_hold_their_slots() {
    let slot_timeout = Duration::from_millis(50);
    let options = EngineOptions { max_slots: Some(n(2)), slot_timeout, ..options(2) };
    let engine = Engine::new(options).unwrap();
    let mut batches = run(&engine, Numbers::new(1), 100, 5);
    let held: Vec<_> =
        batches.by_ref().take(2).map(|batch| batch.unwrap().share_bytes("x").unwrap()).collect();
    let before: Vec<Vec<u8>> = held.iter().map(|bytes| bytes.as_slice().to_vec()).collect();
    let error = batches.next().unwrap().unwrap_err();
    assert!(matches!(error, RunError::SlotsHeld { batch: 2, max_slots: 2, .. }), "{error}");
    drop((batches, engine));
    assert!(held.iter().zip(&before).all(|(now, before)| now.as_slice() == *before));
}

#[test]
fn outputs_that_cannot_be_are_refused_at_the_start() {
    let engine = engine(1);
    let mut stage = Numbers::new(1);
    stage.tensors[1].shape = vec![1 << 40, 1 << 40];
    let error = engine.start(pass(&Arc::new(stage), 10, 2)).err().unwrap();
    assert_eq!(error.to_string(), "output 'id' is too large for a batch of 2");
}

/// The bytes of a batch of 5 rows of `Numbers`.
const SLOT: u64 = 5 * (13 + 8);

#[test]
fn the_slots_stay_in_the_byte_budget() {
    let max_bytes = Some(3 * SLOT + SLOT - 1);
    let slot_timeout = Duration::from_millis(50);
    let options = EngineOptions { max_bytes, slot_timeout, batches_ahead: n(8), ..options(2) };
    let engine = Engine::new(options).unwrap();
    let mut batches = run(&engine, Numbers::new(1), 100, 5);
    let held = batches.by_ref().take(3).map(Result::unwrap).collect::<Vec<_>>();
    let error = batches.next().unwrap().unwrap_err();
    assert!(matches!(error, RunError::SlotsHeld { batch: 3, max_slots: 3, .. }), "{error}");
    assert_eq!((engine.utilization().slots, engine.utilization().slot_bytes), (3, 3 * SLOT));
    drop(held);
    assert_eq!(run(&engine, Numbers::new(1), 100, 5).map(Result::unwrap).count(), 20);
    assert_eq!(engine.utilization().slots_allocated, 3);
}

#[test]
fn a_budget_for_less_than_two_batches_is_refused() {
    let start = |max_bytes, ahead| {
        let batches_ahead = n(ahead);
        let options = EngineOptions { max_bytes: Some(max_bytes), batches_ahead, ..options(1) };
        let engine = Engine::new(options).unwrap();
        let run = engine.start(pass(&Arc::new(Numbers::new(1)), 20, 5))?;
        Ok::<_, RunError>(run.map(Result::unwrap).count())
    };
    assert_eq!(start(2 * SLOT, 3).unwrap(), 4);
    assert_eq!(start(SLOT, 1).unwrap(), 4);
    let message = "the budget is 209 bytes, but 2 batches of 105 bytes must fit: raise it, or use smaller batches";
    assert_eq!(start(2 * SLOT - 1, 3).unwrap_err().to_string(), message);
    let message = "the budget is 104 bytes, but 1 batches of 105 bytes must fit: raise it, or use smaller batches";
    assert_eq!(start(SLOT - 1, 1).unwrap_err().to_string(), message);
}
