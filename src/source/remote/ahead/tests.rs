//! Runs over objects on a test server: the bytes, the requests, the memory, the end.

use super::super::opened::Object;
use super::super::server::{Answer, Server};
use super::super::tests::{bytes, hasty, open};
use super::plan::{GAP, LONGEST};
use super::{AheadLimits, BlockWindow, ReadAheadRun, Shared};
use crate::sample::{Epoch, SampleId};
use crate::source::file::FileBytes;
use crate::source::shards::{Extents, Shard, Shards};
use crate::source::{Location, ReadAt, RunPlan, Upcoming};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the shards as a run reads them within these bounds, as [`Shards::ahead`] does.
fn ahead_within(shards: &Shards, run: &RunPlan, even: Even, bounds: AheadLimits) -> Option<Shards> {
    let views = super::ahead_within(&shards.readers(), run, Arc::new(even), bounds).unwrap();
    views.map(|views| shards.over(views).unwrap())
}

/// Samples of equal length, adjacent in several objects; every eleventh sample has two ranges.
#[derive(Clone)]
struct Even {
    shards: usize,
    each: u64,
    len: u64,
}

impl Extents for Even {
    fn extents(&self, sample: SampleId, _: &[usize], out: &mut Vec<(usize, Range<u64>)>) {
        let (shard, number) = ((sample.0 / self.each) as usize, sample.0 % self.each);
        let whole = number * self.len..(number + 1) * self.len;
        if sample.0.is_multiple_of(11) {
            let middle = whole.start + self.len / 3;
            out.extend([(shard, whole.start..middle), (shard, middle..whole.end)]);
        } else {
            out.push((shard, whole));
        }
    }
}

struct Order(Vec<u64>);

impl Upcoming for Order {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        let positions = positions.start as usize..positions.end as usize;
        samples.extend(self.0[positions].iter().copied().map(SampleId));
    }
}

struct Case {
    server: Server,
    contents: Vec<Vec<u8>>,
    shards: Shards,
    even: Even,
}

impl Case {
    fn new(shards: usize, each: u64, len: u64) -> Self {
        let server = Server::start();
        let contents: Vec<_> =
            (0..shards).map(|k| bytes((each * len) as usize, 20 + k as u64)).collect();
        let open = contents.iter().enumerate().map(|(k, content)| {
            let url = server.put(&format!("/{k}"), content.clone());
            let object = Arc::new(open(&url));
            let bytes = Arc::new(FileBytes::from_reader(object).unwrap());
            Shard { location: Location::Url(url), bytes }
        });
        let shards = Shards::new(open.collect::<Vec<_>>());
        Self { server, even: Even { shards: contents.len(), each, len }, contents, shards }
    }

    fn samples(&self) -> u64 {
        self.even.each * self.even.shards as u64
    }

    fn run(&self, order: &[u64], bounds: AheadLimits) -> Shards {
        let run = plan(order);
        ahead_within(&self.shards, &run, self.even.clone(), bounds).unwrap()
    }

    /// Reads a sample and compares it with its object.
    fn read(&self, view: &Shards, sample: u64) -> Result<(), String> {
        let (mut parts, mut buffer) = (vec![], vec![]);
        self.even.extents(SampleId(sample), &[], &mut parts);
        for (shard, range) in parts {
            let bytes = &view.all()[shard].bytes;
            let got = bytes.get(range.start, range.end - range.start, &mut buffer);
            let got = got.map_err(|e| e.to_string())?;
            let want = &self.contents[shard][range.start as usize..range.end as usize];
            assert!(got == want, "{sample}: {range:?}");
        }
        Ok(())
    }

    fn read_all(&self, view: &Shards, order: &[u64], workers: usize) -> usize {
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(sample) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let failure = usize::from(self.read(view, *sample).is_err());
                        failed.fetch_add(failure, Ordering::Relaxed);
                    }
                });
            }
        });
        failed.into_inner()
    }
}

fn plan(order: &[u64]) -> RunPlan {
    RunPlan {
        seed: 0,
        epoch: Epoch(0),
        upcoming: Arc::new(Order(order.to_vec())),
        batch_size: 16,
        batches_ahead: 2,
        fields: vec![0],
    }
}

fn bounds() -> AheadLimits {
    AheadLimits { room: 64 << 20, requests: 16, horizon: 160, lag: 64, misses: 16 }
}

fn shared(view: &Shards) -> Arc<Shared> {
    let reader: &dyn std::any::Any = &**view.all()[0].bytes.reader().unwrap();
    let ReadAheadRun(shared) = &*reader.downcast_ref::<super::Planned>().unwrap().reading;
    Arc::clone(shared)
}

fn window<T>(view: &Shards, see: impl FnOnce(&BlockWindow) -> T) -> T {
    see(&shared(view).lock().window)
}

/// Pseudo-random, the same each time.
fn shuffled(mut order: Vec<u64>, seed: u64) -> Vec<u64> {
    let random = bytes(order.len() * 4, seed);
    for at in (1..order.len()).rev() {
        let word = u32::from_le_bytes(random[at * 4..at * 4 + 4].try_into().unwrap());
        order.swap(at, word as usize % (at + 1));
    }
    order
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn any_order_of_asking_gives_the_bytes() {
    let case = Case::new(3, 100, 3000);
    let straight: Vec<u64> = (0..case.samples()).collect();
    let random = shuffled(straight.clone(), 1);
    let twice: Vec<u64> = random.iter().flat_map(|&k| [k, k]).collect();
    let some: Vec<u64> = random.iter().copied().filter(|k| k % 7 == 0).collect();
    let other = shuffled(straight.clone(), 2);
    for (planned, asked) in [
        (&straight, &straight),
        (&random, &random),
        (&twice, &twice),
        (&random, &twice),
        (&random, &some),
        (&random, &other),
        (&some, &straight),
    ] {
        for (workers, room) in [(1, 64 << 20), (4, 64 << 20), (4, 20_000), (2, 0)] {
            let view = case.run(planned, AheadLimits { room, ..bounds() });
            assert_eq!(case.read_all(&view, asked, workers), 0);
            let peak = window(&view, BlockWindow::peak);
            assert!(peak <= room, "{peak} of {room}");
        }
    }
}

#[test]
fn neighbours_come_in_few_requests() {
    let case = Case::new(4, 100, 20_000);
    let straight: Vec<u64> = (0..case.samples()).collect();
    let view = case.run(&straight, bounds());
    assert_eq!(case.read_all(&view, &straight, 1), 0);
    // Strokes of 80 samples: five requests, plus one at each of three boundaries between objects.
    let log = case.server.take_log();
    assert!(log.len() <= 8, "{}", log.len());
    let asked: u64 = log.iter().map(|asked| asked.range.end - asked.range.start).sum();
    assert_eq!(asked, 8_000_000);
    assert_eq!(window(&view, BlockWindow::held), 0);
    // Blocks of 50 adjacent samples, shuffled within each block: half of a block is planned at a time,
    // and its gaps are short.
    let blocks = shuffled((0..8).collect(), 3);
    let local: Vec<u64> =
        blocks.iter().flat_map(|b| shuffled((b * 50..b * 50 + 50).collect(), b + 9)).collect();
    let view = case.run(&local, bounds());
    assert_eq!(case.read_all(&view, &local, 1), 0);
    let log = case.server.take_log();
    assert!(log.len() <= 5 * 3, "{}", log.len());
    assert!(case.server.most_at_once() <= 16);
}

#[test]
fn far_neighbours_are_asked_for_one_by_one() {
    // Samples further apart than the widest gap that is read.
    let case = Case::new(1, 40, GAP + 1000);
    let order = shuffled((0..40).step_by(3).collect(), 4);
    let view = case.run(&order, bounds());
    assert_eq!(case.read_all(&view, &order, 1), 0);
    let log = case.server.take_log();
    let parts = order.len();
    assert!(log.len() <= parts, "{} of {parts}", log.len());
    let asked: u64 = log.iter().map(|asked| asked.range.end - asked.range.start).sum();
    assert_eq!(asked, order.len() as u64 * (GAP + 1000));
    assert!(log.iter().all(|asked| asked.range.end - asked.range.start <= LONGEST));
}

#[test]
fn blocks_are_fetched_before_they_are_asked_for_and_not_all() {
    let case = Case::new(1, 4000, 100);
    let order = shuffled((0..4000).collect(), 5);
    let view = case.run(&order, AheadLimits { horizon: 40, ..bounds() });
    until("the first are here", || window(&view, BlockWindow::is_idle));
    case.server.take_log();
    // All ranges of the first 10 samples have arrived.
    assert_eq!(case.read_all(&view, &order[..10], 1), 0);
    assert_eq!(case.server.take_log(), []);
    assert!(window(&view, |w| w.planned()) <= 40);
}

#[test]
fn what_is_never_asked_for_goes() {
    let case = Case::new(1, 2000, 1000);
    let order: Vec<u64> = shuffled((0..2000).collect(), 6);
    let view = case.run(&order, bounds());
    // Every third sample is damaged, or cached elsewhere.
    let asked: Vec<u64> =
        order.iter().copied().enumerate().filter(|(k, _)| k % 3 != 0).map(|(_, s)| s).collect();
    assert_eq!(case.read_all(&view, &asked, 2), 0);
    let blocks = window(&view, BlockWindow::blocks);
    assert!(blocks < 10, "{blocks} blocks are left");
}

#[test]
fn a_run_that_skips_far_is_planned_from_there() {
    let case = Case::new(1, 4000, 1000);
    let order: Vec<u64> = (0..4000).collect();
    let view = case.run(&order, bounds());
    assert_eq!(case.read_all(&view, &order[2000..], 1), 0);
    // The planner notices after a few reads.
    assert!(window(&view, |w| w.planned()) > 3000);
}

#[test]
fn a_block_that_can_not_be_had_fails_for_its_own_samples() {
    let case = Case::new(2, 50, 10_000);
    case.server.answer(|asked| match &*asked.path {
        "/1" => Answer::Status(500),
        _ => Answer::Well,
    });
    let order: Vec<u64> = (0..100).collect();
    let view = case.run(&order, bounds());
    let failed: Vec<u64> =
        order.iter().copied().filter(|&sample| case.read(&view, sample).is_err()).collect();
    assert_eq!(failed, (50..100).collect::<Vec<_>>());
    // Asked for again, it is read.
    case.server.answer(|_| Answer::Well);
    assert_eq!(case.read_all(&view, &order, 2), 0);
}

#[test]
fn a_run_ends_at_once_when_it_is_dropped() {
    let case = Case::new(1, 400, 10_000);
    case.server.answer(|_| Answer::Hang);
    let order = shuffled((0..400).collect(), 7);
    let view = case.run(&order, bounds());
    until("a request is under way", || case.server.at_once() > 0);
    let left: Weak<Shared> = Arc::downgrade(&shared(&view));
    let begun = Instant::now();
    drop(view);
    until("no task is left", || left.strong_count() == 0);
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
}

#[test]
fn shards_that_are_here_are_left_alone() {
    let here = Shards::new(vec![Shard::held("a", &[1; 500])]);
    let even = Even { shards: 1, each: 5, len: 100 };
    let run = plan(&[0, 1, 2]);
    assert!(ahead_within(&here, &run, even.clone(), bounds()).is_none());
    // One local object, one remote.
    let server = Server::start();
    let object: Arc<dyn ReadAt> =
        Arc::new(Object::open_with(&server.put("/b", vec![2; 500]), hasty(), None).unwrap());
    let bytes = Arc::new(FileBytes::from_reader(object).unwrap());
    let there = Shard { location: Location::Url("b".into()), bytes };
    let both = Shards::new(vec![Shard::held("a", &[1; 500]), there]);
    let run = plan(&(0..10).collect::<Vec<_>>());
    let view = ahead_within(&both, &run, even, bounds()).unwrap();
    let mut buffer = vec![];
    assert_eq!(view.all()[0].bytes.get(0, 500, &mut buffer).unwrap(), [1; 500]);
    assert_eq!(view.all()[1].bytes.get(100, 100, &mut buffer).unwrap(), [2; 100]);
}
