//! Values of about 100 KB in remote objects, each response with a latency of 5 ms: with a run's
//! plan, and one by one.
//!
//! The server is on this machine, so only the latency is remote; the contenders take turns in one
//! run, and are compared by samples/s, requests and bytes. Figures are medians of the rounds.
//!
//! | order  | definition                                                                       |
//! |--------|----------------------------------------------------------------------------------|
//! | local  | quasi-random: groups of 512 neighbouring values, 4 groups open at a time         |
//! | random | all values of all objects, shuffled                                              |
//!
//! `-- --test` runs one round over few values.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod common;
#[path = "../tests/common/server.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each binary uses its own part")]
mod server;

use common::median;
use fuseloop::internals::source::remote::{Extents, ahead};
use fuseloop::ops::internals::SampleKey;
use fuseloop::sample::{Epoch, SampleId};
use fuseloop::source::{BoxError, ReadAt, RunPlan, Upcoming, remote};
use server::Server;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LATENCY: Duration = Duration::from_millis(5);
const BATCH: usize = 64;

/// Concurrent requests, for every contender.
const AT_ONCE: usize = 16;

const SHARDS: usize = 4;

struct Contender {
    how: &'static str,
    is_planned: bool,
    threads: usize,
}

const CONTENDERS: [Contender; 4] = [
    Contender { how: "one by one, 16 threads", is_planned: false, threads: AT_ONCE },
    Contender { how: "one by one, 2 threads", is_planned: false, threads: 2 },
    Contender { how: "planned, 16 threads", is_planned: true, threads: AT_ONCE },
    Contender { how: "planned, 2 threads", is_planned: true, threads: 2 },
];

/// For each sample's value: the index of its object, and its byte range.
#[derive(Clone)]
struct ObjectRanges(Vec<(usize, Range<u64>)>);

impl Extents for ObjectRanges {
    fn extents(&self, sample: SampleId, _: &[usize], out: &mut Vec<(usize, Range<u64>)>) {
        out.extend(self.0.get(sample.0 as usize).cloned());
    }
}

/// The samples of a run.
struct InOrder(Vec<u64>);

impl Upcoming for InOrder {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn at(&self, ranges: Range<u64>, samples: &mut Vec<SampleId>) {
        let ranges = ranges.start as usize..ranges.end as usize;
        samples.extend(self.0[ranges].iter().copied().map(SampleId));
    }
}

/// Remote objects that hold values.
struct Objects {
    readers: Vec<Option<Arc<dyn ReadAt>>>,
    ranges: Arc<ObjectRanges>,
}

impl Objects {
    fn open(urls: &[String], ranges: ObjectRanges) -> Result<Self, BoxError> {
        let readers = urls.iter().map(|url| remote::object(url).map(Some));
        Ok(Self { readers: readers.collect::<Result<_, _>>()?, ranges: Arc::new(ranges) })
    }

    /// Returns the same objects with read-ahead for a run over `order`.
    fn planned(&self, order: Vec<u64>) -> Result<Self, BoxError> {
        let run = RunPlan {
            seed: 0,
            epoch: Epoch(0),
            upcoming: Arc::new(InOrder(order)),
            batch_size: BATCH,
            batches_ahead: 2,
            fields: vec![0],
        };
        let ranges = Arc::clone(&self.ranges);
        let readers = ahead(&self.readers, &run, Arc::clone(&self.ranges) as _)?;
        Ok(Self { readers: readers.expect("the objects are remote"), ranges })
    }

    /// Reads a sample's value.
    fn read<'a>(&self, sample: u64, buffer: &'a mut Vec<u8>) -> Result<&'a [u8], BoxError> {
        let (object, range) = &self.ranges.0[sample as usize];
        let reader = self.readers[*object].as_ref().expect("the objects are remote");
        buffer.resize((range.end - range.start) as usize, 0);
        let mut done = 0;
        while done < buffer.len() {
            done += reader.read_at(&mut buffer[done..], range.start + done as u64)?;
        }
        Ok(buffer)
    }
}

fn main() {
    let is_quick = std::env::args().skip(1).any(|word| word == "--test" || !word.starts_with('-'));
    let (rounds, each) = if is_quick { (1, 64) } else { (5, 1024) };
    let server = Server::start();
    server.latency(LATENCY);
    let (urls, ranges) = objects(&server, each);
    let trial = Objects::open(&urls, ranges.clone()).unwrap();
    for (name, order) in [("local", local(ranges.0.len())), ("random", shuffle(ranges.0.len(), 1))]
    {
        compare(name, &server, &trial, &ranges, &order, rounds);
    }
}

/// Creates objects with `each` values of 80 to 120 KB.
fn objects(server: &Server, each: usize) -> (Vec<String>, ObjectRanges) {
    let (mut urls, mut ranges) = (vec![], vec![]);
    for shard in 0..SHARDS {
        let mut rng = SampleKey::new(7, 0, shard as u64).op(0);
        let mut end = 0;
        for _ in 0..each {
            let start = end;
            end += 80_000 + u64::from(rng.below(40_000));
            ranges.push((shard, start..end));
        }
        urls.push(server.put(&format!("/{shard}"), vec![shard as u8; end as usize]));
    }
    (urls, ObjectRanges(ranges))
}

fn shuffle(count: usize, seed: u64) -> Vec<u64> {
    let mut rng = SampleKey::new(seed, 0, count as u64).op(0);
    let mut order: Vec<u64> = (0..count as u64).collect();
    for at in (1..count).rev() {
        order.swap(at, rng.below(at as u32 + 1) as usize);
    }
    order
}

/// Returns an order that mixes groups of 512 neighbours, 4 at a time, with the groups in random
/// order.
fn local(count: usize) -> Vec<u64> {
    let groups = shuffle(count.div_ceil(512), 2);
    let mut order = vec![];
    for open in groups.chunks(4) {
        let members: Vec<u64> =
            open.iter().flat_map(|g| g * 512..((g + 1) * 512).min(count as u64)).collect();
        let mixed = shuffle(members.len(), 3);
        order.extend(mixed.iter().map(|&at| members[at as usize]));
    }
    order
}

/// Returns the samples/s of an epoch.
fn read_all(trial: &Objects, order: &[u64], threads: usize) -> f64 {
    let (begun, next) = (Instant::now(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut buffer = vec![];
                while let Some(&sample) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    black_box(trial.read(sample, &mut buffer).unwrap());
                }
            });
        }
    });
    order.len() as f64 / begun.elapsed().as_secs_f64()
}

fn compare(
    name: &str,
    server: &Server,
    trial: &Objects,
    ranges: &ObjectRanges,
    order: &[u64],
    rounds: usize,
) {
    let needed: u64 = ranges.0.iter().map(|(_, bytes)| bytes.end - bytes.start).sum();
    let mut rates = CONTENDERS.map(|_| vec![]);
    let mut asked = CONTENDERS.map(|_| (0, 0));
    for _ in 0..rounds {
        for (index, Contender { is_planned, threads, .. }) in CONTENDERS.iter().enumerate() {
            server.take_log();
            let rate = if *is_planned {
                read_all(&trial.planned(order.to_vec()).unwrap(), order, *threads)
            } else {
                read_all(trial, order, *threads)
            };
            rates[index].push(rate);
            let log = server.take_log();
            let bytes = log.iter().map(|asked| asked.range.end - asked.range.start).sum::<u64>();
            asked[index] = (log.len(), bytes);
        }
    }
    let rates = rates.map(|rates| median(rates.into_iter()));
    for ((contender, rate), (requests, bytes)) in CONTENDERS.iter().zip(rates).zip(asked) {
        println!(
            "remote/{name}/{:<23} {rate:>6.0} samples/s, {:.2} times the first, {requests:>5} \
             requests for {} samples, {:.2} bytes read a byte needed",
            contender.how,
            rate / rates[0],
            order.len(),
            bytes as f64 / needed as f64
        );
    }
}
