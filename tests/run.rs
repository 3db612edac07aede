//! What the engine promises to whoever drives it.
#![allow(clippy::unwrap_used, reason = "a test that finds something else has failed")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fuseloop::batch::{Batch, RowsMut, TensorSpec};
use fuseloop::run::{
    Engine, EngineOptions, EpochRun, FillError, LastBatch, Pass, RunError, Schedule, Stage,
};
use fuseloop::sample::{Epoch, SampleId, Visit};
use fuseloop_ops::DType;

const WORKERS: [usize; 3] = [1, 2, 8];

fn n(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// What happens at a sample.
#[derive(Clone, Copy)]
enum At {
    Panic(u64),
    Error(u64),
    Nothing,
}

/// Writes numbers that depend on the epoch and the sample, and misbehaves where told.
struct Numbers {
    tensors: Vec<TensorSpec>,
    chunk: usize,
    at: At,
    nap: fn(u64) -> Duration,
    filled: AtomicU64,
    workers_made: AtomicUsize,
}

impl Numbers {
    fn new(chunk: usize) -> Self {
        let tensor = |name: &str, dtype, shape: Vec<usize>| TensorSpec::new(name, dtype, shape);
        Self {
            tensors: vec![tensor("x", DType::U8, vec![13]), tensor("id", DType::I64, vec![1])],
            chunk,
            at: At::Nothing,
            nap: |_| Duration::ZERO,
            filled: AtomicU64::new(0),
            workers_made: AtomicUsize::new(0),
        }
    }

    fn at(self, at: At) -> Self {
        Self { at, ..self }
    }

    fn nap(self, nap: fn(u64) -> Duration) -> Self {
        Self { nap, ..self }
    }

    fn one(&self, epoch: Epoch, sample: SampleId, row: &mut [u8]) -> Result<(), FillError> {
        match self.at {
            At::Panic(at) if at == sample.0 => panic!("no {at}"),
            At::Error(at) if at == sample.0 => {
                return Err(FillError { sample, source: "it is bad".into() });
            }
            _ => {}
        }
        let nap = (self.nap)(sample.0);
        if !nap.is_zero() {
            thread::sleep(nap);
        }
        for (i, byte) in row.iter_mut().enumerate() {
            *byte = pixel(epoch, sample, i);
        }
        self.filled.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn pixel(epoch: Epoch, sample: SampleId, i: usize) -> u8 {
    let mixed = (sample.0 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(epoch.0) << 17;
    (mixed >> (i % 8 * 8)) as u8 ^ i as u8
}

impl Stage for Numbers {
    type Worker = Vec<u8>;

    fn outputs(&self) -> &[TensorSpec] {
        &self.tensors
    }

    fn chunk(&self) -> NonZeroUsize {
        n(self.chunk)
    }

    fn worker(&self) -> Vec<u8> {
        self.workers_made.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    }

    fn fill(
        &self,
        _scratch: &mut Vec<u8>,
        epoch: Epoch,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError> {
        for (visit, row) in visits.iter().zip(rows.output(0).chunks_exact_mut(13)) {
            self.one(epoch, visit.sample, row)?;
        }
        for (visit, row) in visits.iter().zip(rows.output(1).chunks_exact_mut(8)) {
            row.copy_from_slice(&visit.sample.0.to_ne_bytes());
        }
        Ok(())
    }
}

fn engine(workers: usize) -> Engine<Numbers> {
    Engine::new(EngineOptions { workers: n(workers), ..EngineOptions::default() }).unwrap()
}

/// Sample `i * 7 mod samples` at place `i`: not in order, so that order is seen.
fn ids(samples: u64) -> Vec<SampleId> {
    (0..samples).map(|i| SampleId(i * 7 % samples)).collect()
}

fn pass(stage: &Arc<Numbers>, samples: u64, batch_size: usize) -> Pass<Numbers> {
    Pass {
        stage: Arc::clone(stage),
        epoch: Epoch(1),
        schedule: Box::new(ids(samples)),
        batch_size: n(batch_size),
        last: LastBatch::Keep,
    }
}

fn run(engine: &Engine<Numbers>, stage: Numbers, samples: u64, size: usize) -> EpochRun<Numbers> {
    engine.start(pass(&Arc::new(stage), samples, size)).unwrap()
}

fn bytes(batch: &Batch) -> (Vec<SampleId>, Vec<u8>, Vec<u8>) {
    let tensor = |name| batch.bytes(name).unwrap().to_vec();
    (batch.ids().to_vec(), tensor("x"), tensor("id"))
}

/// The rows are those of the batch's ids, and these are the ones of its place.
fn assert_right(batch: &Batch, samples: u64, batch_size: usize) {
    let first = batch.index() as usize * batch_size;
    let expected = ids(samples);
    let expected = &expected[first..expected.len().min(first + batch_size)];
    assert_eq!(batch.ids(), expected, "batch {}", batch.index());
    let x = batch.tensor::<u8>("x").unwrap();
    let id = batch.tensor::<i64>("id").unwrap();
    assert_eq!(x.shape(), [expected.len(), 13]);
    for (i, &sample) in expected.iter().enumerate() {
        assert_eq!(id.as_slice()[i] as u64, sample.0);
        let row = x.row(i).unwrap();
        assert!(row.iter().enumerate().all(|(j, &b)| b == pixel(batch.epoch(), sample, j)));
    }
}

#[test]
fn all_workers_fill_the_first_batch_first() {
    let engine = Engine::new(EngineOptions { workers: n(4), ..EngineOptions::default() }).unwrap();
    let stage = Arc::new(Numbers::new(1).nap(|_| Duration::from_millis(30)));
    let run = engine.start(Pass {
        stage: Arc::clone(&stage),
        epoch: Epoch(0),
        schedule: Box::new((0..64).map(SampleId).collect::<Vec<_>>()),
        batch_size: n(16),
        last: LastBatch::Keep,
    });
    let mut run = run.unwrap();
    assert_eq!(run.next().unwrap().unwrap().len(), 16);
    // Four may have begun another batch before they saw this one, and four go on after it.
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
fn a_held_batch_is_never_overwritten() {
    let engine = engine(2);
    let held = run(&engine, Numbers::new(2), 64, 8).next().unwrap().unwrap();
    let before = bytes(&held);
    for epoch in 2..30 {
        let stage = Arc::new(Numbers::new(2));
        let pass = Pass { epoch: Epoch(epoch), ..pass(&stage, 64, 8) };
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

/// Every batch before `bad` arrives, then the error of `bad` with its sample, then the end; and
/// the engine ends within a second.
fn assert_told_at_its_batch(workers: usize, bad: u64, at: At, message: &str) {
    let engine = engine(workers);
    let mut batches = run(&engine, Numbers::new(3).at(at), 50, 7);
    let place = ids(50).iter().position(|id| id.0 == bad).unwrap() as u64;
    for _ in 0..place / 7 {
        assert_right(&batches.next().unwrap().unwrap(), 50, 7);
    }
    let error = batches.next().unwrap().unwrap_err();
    assert_eq!(error.sample(), Some(SampleId(bad)));
    assert_eq!(error.to_string(), format!("batch {}: sample {bad}: {message}", place / 7));
    assert!(batches.next().is_none() && batches.next().is_none());
    assert_eq!(run(&engine, Numbers::new(1), 20, 5).map(Result::unwrap).count(), 4, "reuse");
    let begun = Instant::now();
    drop(engine);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_panic_at_any_sample_arrives_at_its_batch() {
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let ours = thread::current().name().is_some_and(|name| name.starts_with("fuseloop-"));
        if !ours {
            silent(info);
        }
    }));
    for workers in WORKERS {
        for bad in 0..50 {
            assert_told_at_its_batch(workers, bad, At::Panic(bad), &format!("panic: no {bad}"));
        }
    }
}

#[test]
fn an_error_at_any_sample_arrives_at_its_batch() {
    for workers in WORKERS {
        for bad in 0..50 {
            assert_told_at_its_batch(workers, bad, At::Error(bad), "it is bad");
        }
    }
}

/// Refuses odd samples; even ones are slow, so that later errors are made first.
struct ManyBad(Vec<TensorSpec>);

impl Stage for ManyBad {
    type Worker = ();

    fn outputs(&self) -> &[TensorSpec] {
        &self.0
    }

    fn worker(&self) {}

    fn fill(
        &self,
        (): &mut (),
        _epoch: Epoch,
        visits: &[Visit],
        _rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError> {
        let sample = visits[0].sample;
        if sample.0 < 3 {
            return Ok(());
        }
        thread::sleep(Duration::from_micros(1000_u64.saturating_sub(sample.0 * 50)));
        Err(FillError { sample, source: "odd".into() })
    }
}

#[test]
fn of_many_errors_always_the_first_is_told() {
    let options = EngineOptions { workers: n(8), ..EngineOptions::default() };
    let engine = Engine::new(options).unwrap();
    for _ in 0..20 {
        let pass = Pass {
            stage: Arc::new(ManyBad(Vec::new())),
            epoch: Epoch(0),
            schedule: Box::new((0..64).map(SampleId).collect::<Vec<_>>()),
            batch_size: n(16),
            last: LastBatch::Keep,
        };
        let error = engine.start(pass).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.sample(), Some(SampleId(3)));
    }
}

#[test]
fn an_early_drop_at_any_batch_leaves_the_engine_usable() {
    for workers in WORKERS {
        let engine = engine(workers);
        for taken in 0..=20 {
            let mut batches = run(&engine, Numbers::new(2), 100, 5);
            let first = batches.by_ref().take(taken).map(Result::unwrap).collect::<Vec<_>>();
            assert_eq!(first.len(), taken);
            drop(batches);
        }
        assert_eq!(run(&engine, Numbers::new(2), 100, 5).map(Result::unwrap).count(), 20);
    }
}

#[test]
fn an_early_drop_is_prompt() {
    let engine = engine(2);
    let stage = Arc::new(Numbers::new(1).nap(|_| Duration::from_millis(2)));
    let begun = Instant::now();
    drop(engine.start(pass(&stage, 1_000_000, 1000)).unwrap());
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    assert!(stage.filled.load(Ordering::Relaxed) < 200);
    let batches = engine.start(pass(&stage, 1_000_000, 1000)).unwrap();
    let begun = Instant::now();
    drop(engine);
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    let last = batches.last().unwrap();
    assert!(matches!(last, Err(RunError::Stopped)));
}

#[test]
fn slots_and_workers_are_reused_over_batches_and_epochs() {
    let engine = engine(2);
    let stage = Arc::new(Numbers::new(4));
    for epoch in 0..20 {
        let pass = Pass { epoch: Epoch(epoch), ..pass(&stage, 200, 8) };
        assert_eq!(engine.start(pass).unwrap().map(Result::unwrap).count(), 25);
    }
    let headroom = engine.headroom();
    let (ring, kept_by_the_loop) = (3, 1);
    assert!(headroom.slots_allocated <= ring + kept_by_the_loop, "{headroom:?}");
    assert_eq!((headroom.batches, headroom.samples), (500, 4000));
    assert!(stage.workers_made.load(Ordering::Relaxed) <= 2);
}

#[test]
fn hoarded_slots_are_given_back() {
    let engine = engine(2);
    drop(run(&engine, Numbers::new(4), 1000, 10).map(Result::unwrap).collect::<Vec<_>>());
    let headroom = engine.headroom();
    assert!(headroom.slots_allocated >= 100 && headroom.slots <= 5, "{headroom:?}");
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
            let batches = engine.start(Pass { last, ..pass(&stage, samples, 8) }).unwrap();
            assert_eq!(batches.remaining(), lengths.len() as u64);
            let found = batches.map(|b| b.unwrap().len()).collect::<Vec<_>>();
            assert_eq!(found, lengths, "{samples} samples, {last:?}");
        }
    }
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
    assert!(engine.headroom().slots_allocated <= 4);
    assert!(engine.headroom().waited_for_room > Duration::ZERO);
}

#[test]
fn at_the_cap_a_call_waits_and_then_says_so() {
    let options = EngineOptions {
        workers: n(2),
        max_slots: Some(n(2)),
        slot_timeout: Duration::from_millis(50),
        ..EngineOptions::default()
    };
    let engine = Engine::new(options).unwrap();
    let mut batches = run(&engine, Numbers::new(1), 100, 5);
    let first = batches.next().unwrap().unwrap();
    let second = batches.next().unwrap().unwrap();
    // Another thread drops one in time.
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
    assert_eq!(engine.headroom().slots_allocated, 2);
}

static HANGS: AtomicBool = AtomicBool::new(false);
static RELEASED: AtomicBool = AtomicBool::new(false);

#[test]
fn a_stage_that_hangs_is_named() {
    let options = EngineOptions {
        workers: n(2),
        stall_timeout: Some(Duration::from_millis(50)),
        ..EngineOptions::default()
    };
    let engine = Engine::new(options).unwrap();
    let nap = |sample: u64| {
        while sample == 7 && !RELEASED.load(Ordering::Relaxed) {
            HANGS.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        Duration::ZERO
    };
    let mut batches = run(&engine, Numbers::new(1).nap(nap), 20, 20);
    while !HANGS.load(Ordering::Relaxed) {
        thread::yield_now();
    }
    let error = batches.next().unwrap().unwrap_err();
    RELEASED.store(true, Ordering::Relaxed);
    let text = error.to_string();
    assert!(
        text.starts_with("batch 0 is not ready after ") && text.ends_with("sample 7"),
        "{text}"
    );
}

/// Gives one sample too few, or panics.
struct Liar(bool);

impl Schedule for Liar {
    fn samples(&self) -> u64 {
        20
    }

    fn visits(&self, places: std::ops::Range<u64>, visits: &mut Vec<Visit>) {
        assert!(places.start < 10 || !self.0, "no order");
        visits.extend((places.start..places.end).map(|id| Visit::once(SampleId(id))));
        if places.start >= 10 {
            visits.pop();
        }
    }
}

#[test]
fn a_wrong_schedule_is_an_error_at_its_batch() {
    let engine = engine(2);
    for (panics, message) in [(true, "no order"), (false, "gave 4 of 5 samples")] {
        let stage = Arc::new(Numbers::new(1));
        let pass = Pass { schedule: Box::new(Liar(panics)), ..pass(&stage, 0, 5) };
        let mut batches = engine.start(pass).unwrap();
        assert!(batches.next().unwrap().is_ok() && batches.next().unwrap().is_ok());
        let error = batches.next().unwrap().unwrap_err().to_string();
        assert_eq!(error, format!("batch 2: the order of samples: {message}"));
        assert!(batches.next().is_none());
    }
}

#[test]
fn outputs_that_cannot_be_are_refused_at_the_start() {
    let engine = engine(1);
    let mut stage = Numbers::new(1);
    stage.tensors[1].shape = vec![1 << 40, 1 << 40];
    let error = engine.start(pass(&Arc::new(stage), 10, 2)).err().unwrap();
    assert_eq!(error.to_string(), "output 'id' is too large for a batch of 2");
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
    shared::<Batch>();
    shared::<Engine<Numbers>>();
    let engine = engine(2);
    let (send, receive) = mpsc::sync_channel::<Batch>(2);
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
    let mut dice = 1_u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
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
            let pass = Pass { epoch: Epoch(epoch), ..pass(&stage, samples, size) };
            let batches = engine.start(pass).unwrap();
            let most = if roll(3) == 0 { roll(10) as usize } else { usize::MAX };
            let mut held = Vec::new();
            for batch in batches.take(most) {
                held.push(batch.unwrap());
                if held.len() > roll(3) as usize {
                    let batch: Batch = held.swap_remove(roll(held.len() as u64) as usize);
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

/// Adds its batch's number to every byte of "x" of a whole batch, and misbehaves where told.
struct Finishing {
    numbers: Numbers,
    /// The batch at which it fails, and whether it panics.
    fails: Option<(u64, bool)>,
    finished: AtomicU64,
}

impl Finishing {
    fn new(numbers: Numbers, fails: Option<(u64, bool)>) -> Self {
        Self { numbers, fails, finished: AtomicU64::new(0) }
    }
}

impl Stage for Finishing {
    type Worker = Vec<u8>;

    fn outputs(&self) -> &[TensorSpec] {
        self.numbers.outputs()
    }

    fn chunk(&self) -> NonZeroUsize {
        self.numbers.chunk()
    }

    fn worker(&self) -> Vec<u8> {
        self.numbers.worker()
    }

    fn fill(
        &self,
        scratch: &mut Vec<u8>,
        epoch: Epoch,
        visits: &[Visit],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError> {
        self.numbers.fill(scratch, epoch, visits, rows)
    }

    fn finish(
        &self,
        _scratch: &mut Vec<u8>,
        epoch: Epoch,
        batch: u64,
        rows: &mut RowsMut<'_>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.finished.fetch_add(1, Ordering::Relaxed);
        match self.fails {
            Some((at, true)) if at == batch => panic!("no {at}"),
            Some((at, false)) if at == batch => return Err("it is bad".into()),
            _ => {}
        }
        let first = batch as usize * 7;
        let samples = &ids(50)[first..first + rows.len()];
        for (&sample, row) in samples.iter().zip(rows.output(0).chunks_exact_mut(13)) {
            for (i, byte) in row.iter_mut().enumerate() {
                assert_eq!(*byte, pixel(epoch, sample, i), "batch {batch} is not filled");
                *byte = byte.wrapping_add(batch as u8 + 1);
            }
        }
        Ok(())
    }
}

fn finishing_pass(stage: &Arc<Finishing>) -> Pass<Finishing> {
    Pass {
        stage: Arc::clone(stage),
        epoch: Epoch(1),
        schedule: Box::new(ids(50)),
        batch_size: n(7),
        last: LastBatch::Keep,
    }
}

#[test]
fn every_batch_is_finished_once_and_whole() {
    for workers in WORKERS {
        for chunk in [1, 3, 7] {
            let options = EngineOptions { workers: n(workers), ..EngineOptions::default() };
            let engine = Engine::new(options).unwrap();
            let stage = Arc::new(Finishing::new(Numbers::new(chunk), None));
            for batch in engine.start(finishing_pass(&stage)).unwrap() {
                let batch = batch.unwrap();
                let x = batch.tensor::<u8>("x").unwrap();
                for (row, &sample) in batch.ids().iter().enumerate() {
                    let added = batch.index() as u8 + 1;
                    let expected = (0..13).map(|i| pixel(Epoch(1), sample, i).wrapping_add(added));
                    assert!(x.row(row).unwrap().iter().copied().eq(expected));
                }
            }
            assert_eq!(stage.finished.load(Ordering::Relaxed), 8, "{workers} {chunk}");
        }
    }
}

#[test]
fn what_goes_wrong_in_finishing_arrives_at_its_batch() {
    for workers in WORKERS {
        for bad in 0..8 {
            for panics in [false, true] {
                let options = EngineOptions { workers: n(workers), ..EngineOptions::default() };
                let engine = Engine::new(options).unwrap();
                let stage = Arc::new(Finishing::new(Numbers::new(2), Some((bad, panics))));
                let mut batches = engine.start(finishing_pass(&stage)).unwrap();
                for _ in 0..bad {
                    batches.next().unwrap().unwrap();
                }
                let error = batches.next().unwrap().unwrap_err().to_string();
                let message = if panics {
                    format!("batch {bad}: panic after its last sample: no {bad}")
                } else {
                    format!("batch {bad}: it is bad")
                };
                assert_eq!(error, message);
                assert!(batches.next().is_none());
                let good = Arc::new(Finishing::new(Numbers::new(2), None));
                assert_eq!(engine.start(finishing_pass(&good)).unwrap().count(), 8, "reuse");
            }
        }
    }
}

#[test]
fn a_batch_with_a_bad_sample_is_not_finished() {
    for at in [At::Error(0), At::Panic(0)] {
        let engine = Engine::new(EngineOptions { workers: n(1), ..Default::default() }).unwrap();
        let stage = Arc::new(Finishing::new(Numbers::new(1).at(at), None));
        let error = engine.start(finishing_pass(&stage)).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.sample(), Some(SampleId(0)));
        drop(engine);
        assert_eq!(stage.finished.load(Ordering::Relaxed), 0);
    }
}
