//! The time that workers spend in each phase.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fuseloop::internals::run::{Engine, Phase, Trace};

use crate::support::{Numbers, engine, pass};

const NAP: Duration = Duration::from_millis(1);

/// Two workers, 40 samples that each sleep while they are read.
fn run_once(engine: &Engine<Numbers>) {
    let stage = Arc::new(Numbers::new(2).nap(|_| NAP));
    assert_eq!(engine.start(pass(&stage, 40, 8)).unwrap().map(Result::unwrap).count(), 5);
}

#[test]
fn the_phases_of_each_worker_add_up_to_its_life() {
    let before = Instant::now();
    let engine = engine(2);
    let born = before.elapsed();
    run_once(&engine);
    let least = before.elapsed().saturating_sub(born);
    let headroom = engine.utilization();
    let most = before.elapsed();
    assert_eq!(headroom.workers.len(), 2);
    for times in &headroom.workers {
        // A worker's clocks do not include the time since their last update.
        let slack = Duration::from_millis(20);
        assert!(times.total() <= most && times.total() + slack >= least, "{times:?} {least:?}");
        assert_eq!(times.of(Phase::Consumer), Duration::ZERO);
    }
    assert!(headroom.time(Phase::Read) >= 40 * NAP, "{headroom:?}");
    assert!(headroom.busy() >= headroom.time(Phase::Read) + headroom.time(Phase::Kernel));
    assert!(headroom.busy_per_sample() >= NAP);
    assert!(headroom.consumer_waited > 10 * NAP && headroom.consumer_waited <= most);
    assert_eq!((headroom.batches, headroom.samples), (5, 40));
}

#[test]
fn a_worker_without_room_says_so() {
    let engine = engine(1);
    let stage = Arc::new(Numbers::new(8));
    let mut run = engine.start(pass(&stage, 400, 8)).unwrap();
    run.next().unwrap().unwrap();
    thread::sleep(50 * NAP);
    let waited = engine.utilization().time(Phase::Room);
    assert!(waited >= 25 * NAP, "{waited:?}");
    assert_eq!(engine.utilization().time(Phase::Slot), Duration::ZERO);
}

fn assert_without_gaps(trace: &Trace) {
    for events in &trace.workers {
        assert!(events.iter().all(|event| event.start <= event.end));
        assert!(events.windows(2).all(|pair| pair[0].end == pair[1].start), "{events:?}");
    }
}

#[test]
fn a_trace_tells_what_each_thread_did() {
    let engine = engine(2);
    run_once(&engine);
    assert_eq!(engine.take_trace(), Trace { workers: vec![vec![], vec![]], ..Trace::default() });
    engine.trace(10_000);
    run_once(&engine);
    let trace = engine.take_trace();
    assert_without_gaps(&trace);
    let all = || trace.workers.iter().flatten();
    let mut read = all().filter(|e| e.phase == Phase::Read).collect::<Vec<_>>();
    assert!(read.iter().all(|event| event.end - event.start >= NAP));
    read.sort_by_key(|event| event.sample);
    let samples = read.iter().map(|event| event.sample.unwrap().0);
    assert!(samples.eq(0..40), "each sample is read once");
    assert!(read.iter().all(|event| event.batch.unwrap() < 5));
    let kernel = all().filter(|event| event.phase == Phase::Kernel);
    let mut kernel = kernel.map(|event| event.sample.unwrap().0).collect::<Vec<_>>();
    kernel.sort_unstable();
    assert!(kernel.into_iter().eq(0..40), "each runs its ops once");
    assert_eq!(all().filter(|event| event.phase == Phase::Finish).count(), 5);
    assert!(all().filter(|event| event.phase.is_wait()).all(|event| event.batch.is_none()));
    assert!(!trace.consumer.is_empty() && trace.lost == 0);
    assert!(trace.consumer.iter().all(|event| event.phase == Phase::Consumer));
    engine.trace(0);
    run_once(&engine);
    assert!(engine.take_trace().workers.iter().all(Vec::is_empty));
}

#[test]
fn a_full_trace_says_how_much_it_lost() {
    let engine = engine(1);
    engine.trace(20);
    run_once(&engine);
    let trace = engine.take_trace();
    assert_eq!(trace.workers[0].len(), 20);
    assert!(trace.lost > 60, "{}", trace.lost);
    assert_without_gaps(&trace);
}
