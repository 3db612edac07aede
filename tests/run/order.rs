//! The batches that arrive, their order, and their contents.

use fuseloop_counts::rounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fuseloop::batch::TensorSpec;
use fuseloop::internals::run::{Engine, EngineOptions, HostBatch, LastBatch, RunOrder, RunRequest};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop_ops::DType;

use crate::support::{
    At, Dice, Numbers, WORKERS, Whole, assert_right, bytes, engine, n, only, options, pass, run,
};

#[test]
fn all_workers_fill_the_first_batch_first() {
    let engine = engine(4);
    let stage = Arc::new(Numbers::new(1).nap(|_| Duration::from_millis(30)));
    let run = engine.start(RunRequest::new(
        Arc::clone(&stage),
        Epoch(0),
        Box::new((0..64).map(SampleId).collect::<Vec<_>>()),
        n(16),
    ));
    let mut run = run.unwrap();
    assert_eq!(run.next().unwrap().unwrap().len(), 16);
    // Four workers may have started another batch before they see this one, and four continue after it.
    let filled = stage.filled.load(Ordering::Relaxed);
    assert!(filled < 32, "{filled} samples were filled before a batch of 16 was there");
}

#[test]
fn batches_come_in_order_and_right() {
    for workers in WORKERS {
        let engine = engine(workers);
        // Early samples are slow, so later batches would overtake.
        let nap =
            |s: u64| if s.is_multiple_of(50) { Duration::from_millis(3) } else { Duration::ZERO };
        let mut next = 0;
        for batch in run(&engine, Numbers::new(1).nap(nap), 505, 10) {
            let batch = batch.unwrap();
            assert_eq!(batch.index(), next);
            assert_right(&batch, 505, 10);
            next += 1;
        }
        assert_eq!(next, 51);
    }
}

#[test]
fn bytes_do_not_depend_on_workers_or_chunks() {
    let all = |workers, chunk| {
        let engine = engine(workers);
        let batches = run(&engine, Numbers::new(chunk), 300, 64);
        batches.map(|batch| bytes(&batch.unwrap())).collect::<Vec<_>>()
    };
    let alone = all(1, 1);
    for workers in WORKERS {
        for chunk in [1, 3, 32, 1000] {
            assert_eq!(all(workers, chunk), alone, "{workers} workers, chunks of {chunk}");
        }
    }
}

#[test]
fn no_samples_are_no_batches() {
    let engine = engine(2);
    assert!(run(&engine, Numbers::new(1), 0, 8).next().is_none());
}

#[test]
fn the_last_batch_is_short_or_left_out() {
    let engine = engine(2);
    let stage = Arc::new(Numbers::new(4));
    for (samples, kept, dropped) in
        [(20, vec![8, 8, 4], vec![8, 8]), (16, vec![8, 8], vec![8, 8]), (3, vec![3], vec![])]
    {
        for (last, lengths) in [(LastBatch::Keep, kept), (LastBatch::Drop, dropped)] {
            let batches = engine.start(RunRequest { last, ..pass(&stage, samples, 8) }).unwrap();
            assert_eq!(batches.remaining(), lengths.len() as u64);
            let found = batches.map(|b| b.unwrap().len()).collect::<Vec<_>>();
            assert_eq!(found, lengths, "{samples} samples, {last:?}");
        }
    }
}

/// An order that returns one sample too few from position 10 on, which may be allowed.
struct Short {
    is_allowed: bool,
    most: usize,
}

impl RunOrder for Short {
    fn samples(&self) -> u64 {
        20
    }

    fn visits(&self, positions: std::ops::Range<u64>, visits: &mut Vec<SampleRef>) {
        let most = if positions.start >= 10 { self.most } else { usize::MAX };
        visits.extend(positions.map(|id| SampleRef::once(SampleId(id))).take(most));
    }

    fn may_be_short(&self) -> bool {
        self.is_allowed
    }
}

#[test]
fn an_order_that_may_be_short_has_shorter_batches_but_none_without_rows() {
    let engine = engine(2);
    for (is_allowed, most, lengths) in
        [(true, 1, vec![5, 5, 1, 1]), (true, 0, vec![5, 5]), (false, 1, vec![5, 5])]
    {
        let stage = Arc::new(Numbers::new(1));
        let schedule = Box::new(Short { is_allowed, most });
        let batches = engine.start(RunRequest { schedule, ..pass(&stage, 0, 5) }).unwrap();
        let batches: Vec<_> = batches.collect();
        let found: Vec<usize> = batches.iter().flatten().map(HostBatch::len).collect();
        assert_eq!(found, lengths);
        let last = batches.last().unwrap().as_ref();
        let error = last.err().map(ToString::to_string);
        let message = format!("batch 2: the order of samples: returned {most} of 5 samples");
        assert_eq!(error, (lengths.len() == 2).then_some(message));
    }
}

/// An order that returns one sample too few, or panics.
struct Liar(bool);

impl RunOrder for Liar {
    fn samples(&self) -> u64 {
        20
    }

    fn visits(&self, positions: std::ops::Range<u64>, visits: &mut Vec<SampleRef>) {
        assert!(positions.start < 10 || !self.0, "no order");
        visits.extend((positions.start..positions.end).map(|id| SampleRef::once(SampleId(id))));
        if positions.start >= 10 {
            visits.pop();
        }
    }
}

#[test]
fn a_wrong_schedule_is_an_error_at_its_batch() {
    let engine = engine(2);
    for (panics, message) in [(true, "no order"), (false, "returned 4 of 5 samples")] {
        let stage = Arc::new(Numbers::new(1));
        let pass = RunRequest { schedule: Box::new(Liar(panics)), ..pass(&stage, 0, 5) };
        let mut batches = engine.start(pass).unwrap();
        assert!(batches.next().unwrap().is_ok() && batches.next().unwrap().is_ok());
        let error = batches.next().unwrap().unwrap_err().to_string();
        assert_eq!(error, format!("batch 2: the order of samples: {message}"));
        assert!(batches.next().is_none());
    }
}

#[test]
fn runs_may_overlap_and_change_shape() {
    let engine = engine(2);
    let mut wide = Numbers::new(3);
    wide.tensors.push(TensorSpec::new("y", DType::F32, [2]));
    let (mut a, mut b) = (run(&engine, Numbers::new(2), 60, 6), run(&engine, wide, 60, 6));
    for _ in 0..10 {
        assert_right(&a.next().unwrap().unwrap(), 60, 6);
        let batch = b.next().unwrap().unwrap();
        assert_right(&batch, 60, 6);
        assert_eq!(batch.tensor::<f32>("y").unwrap().shape(), [6, 2]);
    }
    assert!(a.next().is_none() && b.next().is_none());
}

#[test]
fn batches_can_be_sent_to_and_read_by_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<HostBatch>();
    shared::<Engine<Numbers>>();
    let engine = engine(2);
    let (send, receive) = mpsc::sync_channel::<HostBatch>(2);
    let reader =
        thread::spawn(move || receive.iter().inspect(|batch| assert_right(batch, 300, 10)).count());
    for batch in run(&engine, Numbers::new(2), 300, 10) {
        send.send(batch.unwrap()).unwrap();
    }
    drop((send, engine));
    assert_eq!(reader.join().unwrap(), 30);
}

/// Random sleeps, sizes, chunks, caps, holds and early drops for two seconds.
#[test]
fn nothing_hangs_or_mixes_under_stress() {
    let nap = |s: u64| match s.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60 {
        0 => Duration::from_micros(s % 300),
        1 => Duration::from_micros(20),
        _ => Duration::ZERO,
    };
    let begun = Instant::now();
    let mut dice = Dice(1);
    let mut roll = |sides| dice.roll(sides);
    while begun.elapsed() < Duration::from_secs(2) {
        let options = EngineOptions {
            workers: n(1 + roll(8) as usize),
            batches_ahead: n(1 + roll(5) as usize),
            max_slots: (roll(2) == 0).then(|| n(4 + roll(3) as usize)),
            ..EngineOptions::default()
        };
        let engine = Engine::new(options).unwrap();
        for epoch in 0..4 {
            let (samples, size) = (roll(400), 1 + roll(40) as usize);
            let stage = Arc::new(Numbers::new(1 + roll(9) as usize).nap(nap));
            let pass = RunRequest { epoch: Epoch(epoch), ..pass(&stage, samples, size) };
            let batches = engine.start(pass).unwrap();
            let most = if roll(3) == 0 { roll(10) as usize } else { usize::MAX };
            let mut held = Vec::new();
            for batch in batches.take(most) {
                held.push(batch.unwrap());
                if held.len() > roll(3) as usize {
                    let batch: HostBatch = held.swap_remove(roll(held.len() as u64) as usize);
                    assert_right(&batch, samples, size);
                }
                held.truncate(3);
                if roll(20) == 0 {
                    thread::sleep(Duration::from_micros(roll(500)));
                }
            }
            held.iter().for_each(|batch| assert_right(batch, samples, size));
        }
    }
}

/// The batches of three epochs.
fn stream(options: EngineOptions) -> Vec<Whole> {
    let engine = Engine::new(options).unwrap();
    let naps = AtomicU64::new(0);
    // Different samples are slow each time.
    let nap = move |_| match naps.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9) >> 7 {
        n if n.is_multiple_of(9) => Duration::from_micros(n % 400),
        _ => Duration::ZERO,
    };
    let stage = Arc::new(Numbers::new(3).nap(nap));
    let epochs = (0..3).flat_map(|epoch| {
        engine.start(RunRequest { epoch: Epoch(epoch), ..pass(&stage, 150, 8) }).unwrap()
    });
    epochs.map(|batch| bytes(&batch.unwrap())).collect()
}

/// Runs with 1, 2 and 7 threads, or with every number up to FUSELOOP_THREADS if it is set.
#[test]
fn the_stream_is_the_same_for_any_threads_depth_and_delays() {
    let most = rounds("FUSELOOP_THREADS");
    let threads = if most == 0 { vec![1, 2, 7] } else { (1..=most).collect() };
    let expected = stream(options(1));
    assert_eq!(expected.len(), 57);
    for workers in threads {
        for ahead in [1, 2, 8] {
            let options = EngineOptions { batches_ahead: n(ahead), ..options(workers) };
            assert!(stream(options) == expected, "{workers} threads, {ahead} ahead");
        }
    }
}

#[test]
fn a_run_begun_at_any_batch_gives_the_rest() {
    for workers in WORKERS {
        let engine = engine(workers);
        for (samples, last) in [(50, LastBatch::Keep), (50, LastBatch::Drop), (49, LastBatch::Keep)]
        {
            let stage = Arc::new(Numbers::new(2));
            let from = |first_batch| {
                let pass = RunRequest { first_batch, last, ..pass(&stage, samples, 7) };
                let run = engine.start(pass).unwrap();
                let left = run.remaining();
                let batches = run.map(|batch| bytes(&batch.unwrap())).collect::<Vec<_>>();
                assert_eq!(left, batches.len() as u64);
                batches
            };
            let whole = from(0);
            for first in 0..=whole.len() + 2 {
                let rest = whole.get(first..).unwrap_or_default();
                assert!(from(first as u64) == rest, "from {first}, {workers} threads");
            }
            assert!(from(u64::MAX).is_empty());
        }
    }
}

#[test]
fn an_error_after_a_later_start_has_its_number_in_the_epoch() {
    let engine = engine(2);
    let stage = Arc::new(Numbers::new(2).at(only(7 * 23 % 50, At::Error)));
    let mut run = engine.start(RunRequest { first_batch: 2, ..pass(&stage, 50, 7) }).unwrap();
    assert_eq!(run.next().unwrap().unwrap().index(), 2);
    assert_eq!(run.next().unwrap().unwrap_err().to_string(), "batch 3: sample 11: it is bad");
}
