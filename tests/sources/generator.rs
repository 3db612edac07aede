//! The promises of generators: order, ends, errors and panics at their tickets, bounded memory, and a
//! clean end in all cases. A loader over a generator yields what a file of the same records yields.

use crate::common::dataset::{picture, varied};
use fuseloop::internals::workload::jitter;
use fuseloop::ops::internals::SampleKey;
use fuseloop::source::{
    BoxError, FieldKind, FieldSpec, Generated, Generator, OwnedImage, OwnedValue, Queue, Record,
    RunPlan, Source, Upcoming,
};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Epoch, Loader, LoaderBuilder, Order, SampleId};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: [usize; 3] = [1, 2, 8];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Numbers below `count`, each of which takes a pseudo-random time.
fn numbers(threads: usize, capacity: usize, count: u64) -> Queue<u64> {
    let generator = Generator::new(threads, capacity).name("numbers");
    let number = move |ticket: u64| {
        thread::sleep(Duration::from_micros(ticket * 7919 % 5 * 40));
        Ok::<_, BoxError>((ticket < count).then_some(ticket))
    };
    generator.start(number).unwrap()
}

#[test]
fn items_come_in_the_order_of_their_tickets() {
    for threads in THREADS {
        for capacity in [1, 3, 100] {
            let items: Vec<u64> = numbers(threads, capacity, 60).map(Result::unwrap).collect();
            assert_eq!(items, (0..60).collect::<Vec<_>>(), "{threads} threads, {capacity}");
        }
    }
}

#[test]
fn unordered_items_come_once_each_and_a_slow_one_holds_up_none() {
    for threads in THREADS {
        let (released, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let queue = Generator::new(threads, 4).unordered().start(move |ticket| {
            if ticket == 0 && threads > 1 {
                gate.lock().unwrap().recv().unwrap();
            }
            Ok::<_, BoxError>((ticket < 60).then_some(ticket))
        });
        let mut queue = queue.unwrap();
        let mut items: Vec<u64> = queue.by_ref().take(30).map(Result::unwrap).collect();
        assert!(threads == 1 || !items.contains(&0), "it is not made yet");
        released.send(()).unwrap_or_default();
        items.extend(queue.map(Result::unwrap));
        items.sort_unstable();
        assert_eq!(items, (0..60).collect::<Vec<_>>(), "{threads} threads");
    }
}

#[test]
fn a_stream_may_end_at_once_and_stays_ended() {
    for threads in THREADS {
        let mut queue = numbers(threads, 2, 0);
        for _ in 0..3 {
            assert!(queue.next().is_none());
            assert!(queue.next_timeout(ms(1)).is_none());
        }
    }
}

/// Asserts that all items before the failing ticket arrive, then the error, then nothing, whatever later
/// tickets did.
fn assert_told_at_its_ticket(threads: usize, bad: u64, panics: bool) {
    let queue = Generator::new(threads, 4).name("train").start(move |ticket| {
        thread::sleep(Duration::from_micros(ticket % 3 * 30));
        // Later tickets fail as well, and often sooner.
        match ticket >= bad {
            true if panics => panic!("no luck with {ticket}"),
            true => Err(BoxError::from(format!("no luck with {ticket}"))),
            false => Ok(Some(ticket)),
        }
    });
    let mut queue = queue.unwrap();
    let before: Vec<u64> = queue.by_ref().take(bad as usize).map(Result::unwrap).collect();
    assert_eq!(before, (0..bad).collect::<Vec<_>>());
    let panic = if panics { "panic: " } else { "" };
    let wanted = format!("queue train: ticket {bad}: {panic}no luck with {bad}");
    assert_eq!(queue.next().unwrap().unwrap_err().to_string(), wanted);
    assert!(queue.next().is_none() && queue.next().is_none(), "{threads} threads, ticket {bad}");
    let begun = Instant::now();
    drop(queue);
    assert!(begun.elapsed() < ms(5000), "{:?}", begun.elapsed());
}

#[test]
fn an_error_at_any_ticket_comes_after_all_before_it() {
    for threads in THREADS {
        (0..50).for_each(|bad| assert_told_at_its_ticket(threads, bad, false));
    }
}

#[test]
fn a_panic_at_any_ticket_comes_after_all_before_it() {
    for threads in THREADS {
        (0..50).for_each(|bad| assert_told_at_its_ticket(threads, bad, true));
    }
}

#[test]
fn unordered_an_error_comes_after_all_tickets_before_it() {
    for threads in THREADS {
        for bad in 0..50 {
            let queue = Generator::new(threads, 4).unordered().start(move |ticket| {
                thread::sleep(Duration::from_micros((ticket * 31) % 5 * 30));
                if ticket == bad { Err("no luck") } else { Ok(Some(ticket)) }
            });
            let mut items = queue.unwrap().collect::<Vec<_>>();
            let error = items.pop().unwrap().unwrap_err();
            assert_eq!(error.to_string(), format!("queue generator: ticket {bad}: no luck"));
            let given: BTreeSet<u64> = items.into_iter().map(Result::unwrap).collect();
            assert!((0..bad).all(|ticket| given.contains(&ticket)), "{given:?} before {bad}");
        }
    }
}

#[test]
fn a_late_item_is_named_and_can_be_asked_for_again() {
    let (released, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let queue = Generator::new(2, 4).name("validation").start(move |ticket| {
        if ticket == 1 {
            gate.lock().unwrap().recv().unwrap();
        }
        Ok::<_, BoxError>(Some(ticket))
    });
    let mut queue = queue.unwrap();
    assert_eq!(queue.next_timeout(ms(5000)).unwrap().unwrap(), 0);
    // The other producer fills the queue, then waits for free space.
    while queue.stats().depth < 5 {
        thread::yield_now();
    }
    let error = queue.next_timeout(ms(30)).unwrap().unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("queue validation: ticket 1 is not ready after "), "{message}");
    assert!(
        message.contains("; 1 of 2 producers are inside the function: ticket 1 for "),
        "{message}"
    );
    assert_eq!(error.kind(), fuseloop::ErrorKind::Timeout);
    // At least the 30 ms of the call.
    let between = |start: &str, end: &str| {
        let text = message.split_once(start).unwrap().1.split_once(end).unwrap().0;
        text.parse::<f64>().unwrap()
    };
    assert!(between("is not ready after ", "ms;") >= 30.0, "{message}");
    assert!(between("function: ticket 1 for ", "ms") >= 30.0, "{message}");
    released.send(()).unwrap();
    let items: Vec<u64> = queue.take(20).map(Result::unwrap).collect();
    assert_eq!(items, (1..21).collect::<Vec<_>>());
}

#[test]
fn no_producer_or_no_room_is_refused() {
    for (threads, capacity) in [(0, 1), (1, 0)] {
        let generator = Generator::new(threads, capacity).name("test");
        let error = generator.clone().start(|_| Ok::<_, BoxError>(Some(1))).unwrap_err();
        let start = format!("queue test: {threads} producers and room for {capacity} items");
        assert!(error.to_string().starts_with(&start), "{error}");
        let error = generator.source(fields(), 4, |_, sample| Ok::<_, BoxError>(record(sample)));
        assert!(error.is_err());
    }
}

/// An item that is counted while it is alive.
struct Counted(Arc<AtomicI64>);

impl Counted {
    fn new(alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_slow_consumer_keeps_memory_flat() {
    for in_order in [true, false] {
        for (threads, capacity) in [(1, 1), (2, 5), (8, 3)] {
            let alive = Arc::new(AtomicI64::new(0));
            let generator = Generator::new(threads, capacity);
            let generator = if in_order { generator } else { generator.unordered() };
            let counted = Arc::clone(&alive);
            let mut queue =
                generator.start(move |_| Ok::<_, BoxError>(Some(Counted::new(&counted)))).unwrap();
            let bound = (threads + capacity) as i64;
            for _ in 0..50 {
                let item = queue.next().unwrap().unwrap();
                thread::sleep(Duration::from_micros(300));
                assert!(alive.load(Ordering::SeqCst) <= bound + 1, "and the one taken");
                drop(item);
            }
            // The number of live items rises to the bound, and stays there.
            while alive.load(Ordering::SeqCst) < bound {
                thread::yield_now();
            }
            thread::sleep(ms(5));
            assert_eq!(alive.load(Ordering::SeqCst), bound, "{threads} threads, {capacity}");
            let flow = queue.stats();
            assert!(flow.producers_waited > Duration::ZERO, "{flow:?}");
            assert_eq!((flow.delivered, flow.depth), (50, threads + capacity));
            // While the queue stays full, the share of time that producers spend waiting grows.
            let begun = Instant::now();
            while !queue.stats().bottleneck().starts_with("the consumer") {
                assert!(begun.elapsed() < ms(5000), "{:?}", queue.stats());
                thread::sleep(ms(1));
            }
            drop(queue);
            assert_eq!(alive.load(Ordering::SeqCst), 0, "what nobody took is dropped");
        }
    }
}

#[test]
fn slow_producers_are_the_bottleneck() {
    let queue = Generator::new(2, 4).start(|ticket| {
        thread::sleep(ms(5));
        Ok::<_, BoxError>((ticket < 10).then_some(ticket))
    });
    let mut queue = queue.unwrap();
    assert_eq!(queue.by_ref().count(), 10);
    let flow = queue.stats();
    assert_eq!((flow.produced, flow.delivered, flow.depth), (10, 10, 0));
    assert!(flow.bottleneck().starts_with("the producers"), "{flow:?}");
    assert!(flow.producing >= ms(50) && flow.elapsed >= ms(25), "{flow:?}");
    thread::sleep(ms(3));
    assert_eq!(queue.stats().elapsed, flow.elapsed, "the time of what is over stands still");
}

#[test]
fn a_full_and_an_empty_queue_are_dropped_at_once() {
    for threads in THREADS {
        let full = Generator::new(threads, 4).start(|ticket| Ok::<_, BoxError>(Some(ticket)));
        let full = full.unwrap();
        while full.stats().depth < 4 + threads {
            thread::yield_now();
        }
        let begun = Instant::now();
        drop(full);
        assert!(begun.elapsed() < ms(5000), "full: {:?}", begun.elapsed());
        let begun = Instant::now();
        drop(numbers(threads, 4, 1000));
        assert!(begun.elapsed() < ms(5000), "empty: {:?}", begun.elapsed());
    }
}

#[test]
fn a_drop_waits_for_the_function_but_not_for_ever() {
    let entered = Arc::new(Barrier::new(2));
    let inside = Arc::clone(&entered);
    let sleeping = move |nap: Duration| {
        let inside = Arc::clone(&inside);
        move |_| {
            inside.wait();
            thread::sleep(nap);
            Ok::<_, BoxError>(Some(()))
        }
    };
    let queue = Generator::new(1, 1).start(sleeping(ms(400))).unwrap();
    entered.wait();
    let begun = Instant::now();
    drop(queue);
    let took = begun.elapsed();
    assert!(took > ms(100) && took < ms(3000), "until it returns: {took:?}");

    let queue = Generator::new(1, 1).patience(ms(20)).start(sleeping(ms(4000))).unwrap();
    entered.wait();
    let begun = Instant::now();
    drop(queue);
    assert!(begun.elapsed() < ms(2000), "it is left behind: {:?}", begun.elapsed());
}

#[test]
fn queues_do_not_disturb_each_other() {
    let (released, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let stuck = Generator::new(2, 2).name("test").start(move |ticket| {
        let _ = gate.lock().unwrap().recv();
        Ok::<_, BoxError>((ticket < 2).then_some(ticket))
    });
    let broken = Generator::new(2, 2).name("validation");
    let mut broken = broken.start(|ticket| if ticket < 3 { Ok(Some(ticket)) } else { Err("gone") });
    let mut train = numbers(3, 4, 300);
    let items: Vec<u64> = train.by_ref().take(100).map(Result::unwrap).collect();
    assert_eq!(items, (0..100).collect::<Vec<_>>());
    let errors = broken.as_mut().unwrap().filter_map(Result::err).map(|error| error.to_string());
    assert_eq!(errors.collect::<Vec<_>>(), ["queue validation: ticket 3: gone"]);
    drop(broken);
    assert_eq!(train.count(), 200, "the others go on");
    drop(released);
    assert_eq!(stuck.unwrap().count(), 2, "and this one ends");
}

#[test]
fn nothing_hangs_under_stress() {
    let begun = Instant::now();
    let mut round = 0u64;
    while begun.elapsed() < ms(700) {
        round += 1;
        let (threads, capacity) = (1 + round as usize % 7, 1 + round as usize % 5);
        let generator = Generator::new(threads, capacity);
        let generator = if round.is_multiple_of(2) { generator } else { generator.unordered() };
        let (ends, fails) = (round * 13 % 90, round * 7 % 90);
        let mut queue = generator
            .start(move |ticket| match ticket {
                _ if ticket == fails => Err("bad"),
                _ if ticket >= ends => Ok(None),
                _ => Ok(Some(ticket)),
            })
            .unwrap();
        let taken = queue.by_ref().take((round * 11 % 120) as usize);
        let items = taken.filter_map(Result::ok).count() as u64;
        assert!(items <= ends.max(fails) + threads as u64);
        if !round.is_multiple_of(2) {
            assert!(queue.next_timeout(ms(20)).is_none_or(|item| item.is_ok() || item.is_err()));
        }
    }
    assert!(round > 5, "{round} rounds");
}

// Records for a loader.

fn fields() -> Vec<FieldSpec> {
    vec![("image", FieldKind::RgbImage).into(), ("label", FieldKind::Int).into()]
}

fn record(sample: u64) -> Record {
    let size = varied(sample);
    let image = OwnedImage::rgb(size, picture(sample, size));
    vec![OwnedValue::Image(image), OwnedValue::Int(sample as i64 % 10)]
}

fn pictures(threads: usize, capacity: usize, samples: u64) -> Generated {
    let generator = Generator::new(threads, capacity).name("train");
    let made = move |_, sample: u64| {
        thread::sleep(Duration::from_micros(sample * 7919 % 5 * 40));
        Ok::<_, BoxError>(record(sample))
    };
    generator.source(fields(), samples, made).unwrap()
}

fn set_up(builder: LoaderBuilder) -> LoaderBuilder {
    let builder = builder.batch_size(7).seed(42).order(Order::Random).drop_last(false);
    builder.pipeline("image", jitter(32).unwrap())
}

/// All bytes of an epoch, in the order of its rows.
fn rows(loader: &Loader, epoch: u32) -> Vec<(Vec<SampleId>, Vec<u8>, Vec<u8>)> {
    let batches = loader.epoch(epoch).unwrap().map(Result::unwrap);
    batches
        .map(|batch| {
            let bytes = |name| batch.bytes(name).unwrap().to_vec();
            (batch.ids().to_vec(), bytes("image"), bytes("label"))
        })
        .collect()
}

#[test]
fn a_loader_gives_what_a_file_of_the_same_records_gives() {
    const SAMPLES: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("same.beton");
    let written = (0..SAMPLES).map(|sample| {
        let size = varied(sample);
        let (width, height) = (size.width, size.height);
        let image = ImageInput::Rgb { pixels: picture(sample, size), width, height };
        vec![FieldValue::Image(image), FieldValue::Int(sample as i64 % 10)]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    write_iter(written, &fields(), &path, &options).unwrap();
    let file = set_up(Loader::open(&path).unwrap()).build().unwrap();
    let wanted: Vec<_> = (0..3).map(|epoch| rows(&file, epoch)).collect();
    for (threads, capacity, workers, ahead) in [(1, 1, 1, 1), (2, 1, 8, 3), (8, 100, 2, 2)] {
        let builder = set_up(Loader::from_source(pictures(threads, capacity, SAMPLES)));
        let loader = builder.workers(workers).batches_ahead(ahead).build().unwrap();
        for (epoch, wanted) in (0..).zip(&wanted) {
            // An epoch abandoned half way does not disturb the next.
            drop(loader.epoch(epoch).unwrap().take(2).collect::<Vec<_>>());
            assert!(rows(&loader, epoch) == *wanted, "{threads} {capacity} {workers} {ahead}");
        }
    }
}

#[test]
fn the_function_learns_the_epoch_and_makes_each_record_once() {
    for (threads, capacity, workers) in [(1, 1, 2), (4, 2, 2), (2, 50, 8)] {
        let calls = Arc::new(Mutex::new(vec![]));
        let log = Arc::clone(&calls);
        let made = move |epoch: Epoch, sample: u64| {
            log.lock().unwrap().push((epoch, sample));
            Ok::<_, BoxError>(vec![OwnedValue::Int(i64::from(epoch.0) * 1000 + sample as i64)])
        };
        let fields = vec![FieldSpec { name: "label".into(), kind: FieldKind::Int }];
        let source = Generator::new(threads, capacity).source(fields, 48, made).unwrap();
        let builder = Loader::from_source(source).batch_size(8).order(Order::Random);
        let loader = builder.workers(workers).build().unwrap();
        for epoch in [0, 3] {
            calls.lock().unwrap().clear();
            for batch in loader.epoch(epoch).unwrap() {
                let batch = batch.unwrap();
                let labels = batch.tensor::<i64>("label").unwrap();
                let wanted = |id: &SampleId| i64::from(epoch) * 1000 + id.0 as i64;
                let wanted: Vec<i64> = batch.ids().iter().map(wanted).collect();
                assert_eq!(labels.as_slice(), wanted);
            }
            let calls = calls.lock().unwrap();
            assert!(calls.iter().all(|&(of, _)| of == Epoch(epoch)));
            let samples: BTreeSet<u64> = calls.iter().map(|&(_, sample)| sample).collect();
            assert_eq!((calls.len(), samples.len()), (48, 48), "{threads} {capacity} {workers}");
        }
    }
}

#[test]
fn an_error_and_a_panic_of_the_function_name_batch_sample_and_queue() {
    for panics in [false, true] {
        let made = move |_, sample: u64| match sample == 11 {
            true if panics => panic!("no luck"),
            true => Err("no luck"),
            false => Ok(record(sample)),
        };
        let generator = Generator::new(3, 2).name("train");
        let source = generator.source(fields(), 40, made).unwrap();
        let builder = Loader::from_source(source).batch_size(8).workers(2);
        let loader = builder.pipeline("image", jitter(32).unwrap()).build().unwrap();
        let mut batches = loader.epoch(0).unwrap();
        assert_eq!(batches.next().unwrap().unwrap().len(), 8);
        let error = batches.next().unwrap().unwrap_err().to_string();
        let panic = if panics { "panic: " } else { "" };
        let wanted =
            format!("batch 1: sample 11: train (image): queue train: ticket 11: {panic}no luck");
        assert_eq!(error, wanted);
        assert!(batches.next().is_none());
    }
}

/// Any order of samples.
struct Rows(Vec<u64>);

impl Upcoming for Rows {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        let positions = positions.start as usize..positions.end as usize;
        samples.extend(self.0[positions].iter().map(|&sample| SampleId(sample)));
    }
}

fn plan(rows: &[u64], batch_size: usize, batches_ahead: usize) -> RunPlan {
    let upcoming = Arc::new(Rows(rows.to_vec()));
    RunPlan { seed: 0, epoch: Epoch(5), upcoming, batch_size, batches_ahead, fields: vec![0] }
}

fn int(record: &Record) -> i64 {
    match record[0] {
        OwnedValue::Int(int) => int,
        ref other => panic!("{other:?}"),
    }
}

/// A source of `5 * sample`, in epoch 5, that counts its calls.
fn fives(threads: usize, capacity: usize) -> (Arc<Generated>, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let made = move |epoch: Epoch, sample: u64| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok::<_, BoxError>(vec![OwnedValue::Int(i64::from(epoch.0) * sample as i64)])
    };
    let fields = vec![FieldSpec { name: "int".into(), kind: FieldKind::Int }];
    (Arc::new(Generator::new(threads, capacity).source(fields, 1 << 30, made).unwrap()), calls)
}

/// Every request is served, in any order and any number of times, for any number of threads.
#[test]
fn any_order_of_requests_is_served() {
    for seed in 0..300u64 {
        let mut rng = SampleKey::new(7, 0, seed).op(0);
        let (threads, capacity) = (1 + rng.below(4) as usize, 1 + rng.below(6) as usize);
        let (workers, batch, ahead) =
            (1 + rng.below(6), 1 + rng.below(9) as usize, 1 + rng.below(3) as usize);
        let (count, distinct) = (rng.below(200), 1 + rng.below(200));
        let rows: Vec<u64> = (0..count).map(|_| u64::from(rng.below(distinct))).collect();
        let (source, _) = fives(threads, capacity);
        let run = source.begin(&plan(&rows, batch, ahead)).unwrap().unwrap();
        // Some samples are never requested, some are requested twice, some are not in the plan, and the
        // requests are out of order.
        let mut asked: Vec<u64> = rows.into_iter().filter(|_| rng.below(10) > 0).collect();
        let spread = 1 + rng.below(40) as usize;
        for at in 0..asked.len() {
            let other = (at + rng.below(spread as u32) as usize).min(asked.len() - 1);
            asked.swap(at, other);
            if rng.below(20) == 0 {
                asked[at] = u64::from(rng.below(1000));
            }
        }
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(&sample) =
                        asked.get(next.fetch_add(1, Ordering::SeqCst) as usize)
                    {
                        let record = run.read(SampleId(sample)).unwrap();
                        assert_eq!(int(&record), 5 * sample as i64);
                    }
                });
            }
        });
    }
}

#[test]
fn records_are_made_ahead_in_the_order_of_the_run_and_no_further() {
    let rows: Vec<u64> = (0..100).map(|index| index * 37 % 100).collect();
    let (source, calls) = fives(2, 6);
    let run = source.begin(&plan(&rows, 10, 2)).unwrap().unwrap();
    let settles_at = |wanted: u64| {
        let begun = Instant::now();
        while calls.load(Ordering::SeqCst) < wanted && begun.elapsed() < ms(2000) {
            thread::yield_now();
        }
        thread::sleep(ms(3));
        assert_eq!(calls.load(Ordering::SeqCst), wanted);
    };
    settles_at(8);
    for (taken, &sample) in (1..).zip(&rows) {
        assert_eq!(int(&run.read(SampleId(sample)).unwrap()), 5 * sample as i64);
        if taken % 25 == 0 {
            settles_at((taken + 8).min(100));
        }
    }
    assert_eq!(int(&run.read(SampleId(rows[3])).unwrap()), 5 * rows[3] as i64);
    settles_at(101);
}

#[test]
fn rows_that_nobody_asks_for_do_not_stop_the_rest() {
    // Only the last two of each batch of 10 are requested, as by a loader that has the others cached.
    let rows: Vec<u64> = (0..400).collect();
    let (source, calls) = fives(2, 6);
    let run = source.begin(&plan(&rows, 10, 2)).unwrap().unwrap();
    for sample in rows.iter().copied().filter(|sample| sample % 10 >= 8) {
        assert_eq!(int(&run.read(SampleId(sample)).unwrap()), 5 * sample as i64);
    }
    assert!(calls.load(Ordering::SeqCst) <= 400, "none is made twice");
}

#[test]
fn a_run_given_up_does_not_wait_for_its_producers_but_its_source_does() {
    let left = Arc::new(AtomicI64::new(0));
    let inside = Arc::clone(&left);
    let made = move |_, sample: u64| {
        let _counted = Counted::new(&inside);
        thread::sleep(ms(1000));
        Ok::<_, BoxError>(record(sample))
    };
    let source = Arc::new(Generator::new(3, 2).source(fields(), 100, made).unwrap());
    let rows: Vec<u64> = (0..100).collect();
    let run = Arc::clone(&source).begin(&plan(&rows, 10, 2)).unwrap().unwrap();
    while left.load(Ordering::SeqCst) < 3 {
        thread::yield_now();
    }
    let begun = Instant::now();
    drop(run);
    assert!(begun.elapsed() < ms(700), "{:?}", begun.elapsed());
    let next = Arc::clone(&source).begin(&plan(&rows, 10, 2)).unwrap().unwrap();
    assert!(next.read(SampleId(0)).is_ok());
    drop(next);
    drop(source);
    assert_eq!(left.load(Ordering::SeqCst), 0, "no producer is left inside");
}
