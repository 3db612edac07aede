//! The time to begin an epoch, or to resume one at any position: its order is computed again.
//!
//! ```text
//! cargo bench --bench resume               a table of orders of 1,281,167 samples
//! cargo bench --bench resume -- --test     each order once, with 10,000 samples
//! ```
//!
//! The columns for each order, measured from `PreparedOrder` to the list of samples of a batch in
//! the middle of the epoch: the median of rounds in which all orders take turns, the minimum, and
//! the first round, whose memory is new; the median divided by the time to fill a list of the same
//! length with 0, 1, 2 and so on; bytes per sample, held from epoch to epoch and for one epoch.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod common;

use common::median;
use fuseloop::internals::order::{DatasetInfo, PreparedOrder};
use fuseloop::order::{Order, Ranks, Subset, Uneven};
use fuseloop::source::BoxError;
use fuseloop::{Epoch, SampleId};
use std::hint::black_box;
use std::time::Instant;

/// The number of ImageNet's training images.
const SAMPLES: u64 = 1_281_167;
const ROUNDS: u32 = 15;

/// A dataset with as many classes as ImageNet, and 80 samples a page: 8 MiB of images of 100 KB.
struct ImageNet(u64);

impl DatasetInfo for ImageNet {
    fn samples(&self) -> u64 {
        self.0
    }

    fn page(&self, sample: SampleId) -> Option<u64> {
        Some(sample.0 / 80)
    }

    fn class(&self, _: &str, sample: SampleId) -> Result<i64, BoxError> {
        Ok((sample.0 % 1000) as i64)
    }
}

/// An order, and the rank that computes it.
struct Case {
    name: String,
    prepared: PreparedOrder,
    ranks: Option<Ranks>,
}

impl Case {
    fn new(order: &Order, samples: u64, ranks: Option<Ranks>) -> Self {
        let how = match order {
            Order::Weighted { replacement: true, .. }
            | Order::ClassBalanced { replacement: true, .. } => ", with replacement",
            _ if ranks.is_some() => ", rank 3 of 8",
            _ => "",
        };
        let prepared = order.prepare(&ImageNet(samples), Subset::All(samples)).unwrap();
        Self { name: format!("{}{how}", order.name()), prepared, ranks }
    }

    /// Returns the milliseconds until a batch in the middle of an epoch is known, and the bytes of
    /// the order.
    fn resume(&self, epoch: u32) -> (f64, usize) {
        let mut visits = Vec::with_capacity(256);
        let start = Instant::now();
        let order = self.prepared.epoch(42, Epoch(epoch), self.ranks.as_ref()).unwrap();
        let middle = order.samples() / 2;
        order.visits(middle..middle + 256, &mut visits);
        black_box(&visits);
        (start.elapsed().as_secs_f64() * 1e3, order.bytes())
    }
}

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let (samples, rounds) = if is_test { (10_000, 1) } else { (SAMPLES, ROUNDS) };
    let cases = cases(samples);
    let mut times = vec![vec![]; cases.len()];
    let (mut fills, mut bytes) = (vec![], vec![0; cases.len()]);
    for round in 0..rounds {
        fills.push(fill(samples));
        for (i, case) in cases.iter().enumerate() {
            let (time, of_epoch) = case.resume(round);
            times[i].push(time);
            bytes[i] = of_epoch;
        }
    }
    let filled = median(fills.iter().copied());
    println!("{samples} samples; a list of them is filled in {filled:.2} ms");
    println!("{:<32} median ms  least  first  of a fill  bytes held  bytes an epoch", "order");
    for ((case, times), bytes) in cases.iter().zip(&times).zip(bytes) {
        let (time, least) =
            (median(times.iter().copied()), times.iter().copied().fold(f64::MAX, f64::min));
        let each = |bytes: usize| bytes as f64 / samples as f64;
        println!(
            "{:<32} {time:>9.2} {least:>6.2} {:>6.2} {:>10.1} {:>11.2} {:>15.2}",
            case.name,
            times[0],
            time / filled,
            each(case.prepared.bytes()),
            each(bytes),
        );
    }
}

fn cases(samples: u64) -> Vec<Case> {
    let weights: std::sync::Arc<[f64]> = (0..samples).map(|id| (id % 10) as f64).collect();
    let weighted = |replacement| Order::Weighted {
        weights: std::sync::Arc::clone(&weights),
        samples: samples / 2,
        replacement,
    };
    let balanced = |replacement| Order::ClassBalanced { field: "label".into(), replacement };
    let rank = Ranks::new(3, 8, Uneven::Pad).unwrap();
    let alone = |order| Case::new(&order, samples, None);
    vec![
        alone(Order::Sequential),
        alone(Order::Random),
        Case::new(&Order::Random, samples, Some(rank)),
        alone(Order::QuasiRandom { open_pages: 64 }),
        alone(weighted(true)),
        alone(weighted(false)),
        alone(balanced(true)),
        alone(balanced(false)),
        alone(Order::RepeatedAugment { repeats: 3 }),
    ]
}

/// Returns the milliseconds that it takes to write a list of the same length.
fn fill(samples: u64) -> f64 {
    let start = Instant::now();
    black_box((0..samples as u32).collect::<Vec<u32>>());
    start.elapsed().as_secs_f64() * 1e3
}
