//! Statistical tests of the random orders: chi-square tests over many epochs.
//!
//! `FUSELOOP_EPOCHS` is the number of epochs: 10,000 by default, 100,000 in the soak. The seed is
//! fixed, so that a test always passes or always fails; of other seeds, two in a thousand fail.

use fuseloop::internals::order::{DatasetInfo, SampleCount};
use fuseloop::order::{Order, Ranks, Subset, Uneven};
use fuseloop::sample::{Epoch, SampleId};
use fuseloop::source::BoxError;
use fuseloop_counts::rounds;
use std::sync::Arc;

const SEED: u64 = 42;

fn epochs() -> u32 {
    rounds("FUSELOOP_EPOCHS")
}

/// 64 samples, 8 per page, all of one class.
struct Data;

impl DatasetInfo for Data {
    fn samples(&self) -> u64 {
        64
    }

    fn page(&self, sample: SampleId) -> Option<u64> {
        Some(sample.0 / 8)
    }

    fn class(&self, _: &str, _: SampleId) -> Result<i64, BoxError> {
        Ok(7)
    }
}

/// The orders of many epochs of 64 samples.
fn of_epochs(order: &Order, ranks: Option<Ranks>) -> Vec<Vec<usize>> {
    let prepared = order.prepare(&Data, Subset::All(64)).unwrap();
    let ids = |epoch| {
        let order = prepared.epoch(SEED, Epoch(epoch), ranks.as_ref()).unwrap();
        order.visits_vec().iter().map(|visit| visit.sample.0 as usize).collect()
    };
    (0..epochs()).map(ids).collect()
}

/// Asserts that `statistic` fits the chi-square distribution: p is within 0.001..0.999, by Wilson's and
/// Hilferty's approximation.
fn assert_chi_square(what: &str, statistic: f64, freedom: f64) {
    let spread = 2.0 / (9.0 * freedom);
    let normal = ((statistic / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    println!("{what}: chi-square {statistic:.1} of {freedom} degrees, {normal:+.2} deviations");
    assert!(normal.abs() < 3.09, "{what}: {statistic} of {freedom} degrees");
}

/// The statistic of counts that should all be `expected`.
fn statistic(counts: &[u32], expected: f64) -> f64 {
    counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
}

/// The number of times that each of `ids` occurs at each position.
fn counts(orders: &[Vec<usize>], ids: usize) -> Vec<u32> {
    let mut counts = vec![0; ids * ids];
    for order in orders {
        assert_eq!(order.len(), ids);
        order.iter().enumerate().for_each(|(position, id)| counts[position * ids + id] += 1);
    }
    counts
}

/// Asserts that each id is equally likely at each position, for orders that have each id once.
fn assert_shuffled(what: &str, orders: &[Vec<usize>], ids: usize) {
    let n = ids as f64;
    let statistic = statistic(&counts(orders, ids), orders.len() as f64 / n);
    // Each row and each column of counts has a fixed sum, so (n - 1)^2 counts are free, of variance n /
    // (n - 1).
    assert_chi_square(what, statistic * (n - 1.0) / n, (n - 1.0).powi(2));
}

/// Asserts that each id is equally likely at each position, for positions that are drawn independently.
fn assert_even(what: &str, orders: &[Vec<usize>]) {
    let statistic = statistic(&counts(orders, 64), orders.len() as f64 / 64.0);
    assert_chi_square(what, statistic, 64.0 * 63.0);
}

#[test]
fn each_sample_is_as_likely_at_each_place() {
    let one = Some(Ranks::new(0, 1, Uneven::Pad).unwrap());
    let weights: Arc<[f64]> = [2.5; 64].into();
    let weighted =
        |replacement| Order::Weighted { weights: Arc::clone(&weights), samples: 64, replacement };
    let balanced = |replacement| Order::ClassBalanced { field: "label".into(), replacement };
    assert_shuffled("numpy", &of_epochs(&Order::Random, None), 64);
    assert_shuffled("torch", &of_epochs(&Order::Random, one), 64);
    assert_shuffled("permuted", &of_epochs(&Order::Permuted, None), 64);
    let all_open = Order::QuasiRandom { open_pages: 8 };
    assert_shuffled("quasi, all open", &of_epochs(&all_open, None), 64);
    assert_shuffled("weighted, each once", &of_epochs(&weighted(false), None), 64);
    assert_shuffled("balanced, each once", &of_epochs(&balanced(false), None), 64);
    assert_even("weighted", &of_epochs(&weighted(true), None));
    assert_even("balanced", &of_epochs(&balanced(true), None));
}

#[test]
fn quasi_random_shuffles_pages_and_what_is_in_them() {
    let orders = of_epochs(&Order::QuasiRandom { open_pages: 1 }, None);
    let pages: Vec<Vec<usize>> =
        orders.iter().map(|order| order.chunks(8).map(|page| page[0] / 8).collect()).collect();
    assert_shuffled("pages", &pages, 8);
    let inside: Vec<Vec<usize>> = orders
        .iter()
        .flat_map(|order| order.chunks(8).map(|page| page.iter().map(|id| id % 8).collect()))
        .collect();
    assert_shuffled("samples of a page", &inside, 8);
}

/// With some pages open, each sample is still equally likely at each position; but positions are
/// correlated, so that one position is tested at a time.
#[test]
fn quasi_random_favours_no_sample_at_any_place() {
    let orders = of_epochs(&Order::QuasiRandom { open_pages: 3 }, None);
    let counts = counts(&orders, 64);
    for position in [0, 1, 7, 20, 33, 50, 62, 63] {
        let counts = &counts[position * 64..][..64];
        let statistic = statistic(counts, orders.len() as f64 / 64.0);
        assert_chi_square(&format!("position {position}"), statistic, 63.0);
    }
}

#[test]
fn weights_are_respected() {
    let weights: Arc<[f64]> = (0..64).map(|id| f64::from(id % 8)).collect();
    let sum: f64 = weights.iter().sum();
    let order = |replacement| {
        of_epochs(
            &Order::Weighted { weights: Arc::clone(&weights), samples: 56, replacement },
            None,
        )
    };
    let of_counts = |what, counts: &[u32], drawn: f64| {
        let mut statistic = 0.0;
        for (&count, weight) in counts.iter().zip(weights.iter()) {
            let expected = drawn * weight / sum;
            assert!(expected > 0.0 || count == 0);
            if expected > 0.0 {
                statistic += (f64::from(count) - expected).powi(2) / expected;
            }
        }
        assert_chi_square(what, statistic, 55.0);
    };
    let mut all = [0; 64];
    order(true).iter().flatten().for_each(|&id| all[id] += 1);
    of_counts("with replacement", &all, 56.0 * f64::from(epochs()));
    let mut first = [0; 64];
    order(false).iter().for_each(|order| first[order[0]] += 1);
    of_counts("first of those without", &first, f64::from(epochs()));
}

/// Two of three samples of weights 1, 2 and 3, drawn without replacement: all six outcomes have the
/// right frequency.
#[test]
fn draws_without_replacement_are_drawn_one_after_the_other() {
    let weights = [1.0, 2.0, 3.0];
    let order = Order::Weighted { weights: weights.into(), samples: 2, replacement: false };
    let prepared = order.prepare(&SampleCount(3), Subset::All(3)).unwrap();
    let mut counts = [[0u32; 3]; 3];
    for epoch in 0..epochs() {
        let drawn = prepared.epoch(SEED, Epoch(epoch), None).unwrap().visits_vec();
        counts[drawn[0].sample.0 as usize][drawn[1].sample.0 as usize] += 1;
    }
    let mut statistic = 0.0;
    for (a, b) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        let chance = weights[a] / 6.0 * weights[b] / (6.0 - weights[a]);
        let expected = chance * f64::from(epochs());
        statistic += (f64::from(counts[a][b]) - expected).powi(2) / expected;
    }
    assert_chi_square("pairs", statistic, 5.0);
}

/// Nine in ten samples are of class 0, but only half of an epoch's samples are.
#[test]
fn with_replacement_classes_are_as_likely() {
    struct Uneven10;
    impl DatasetInfo for Uneven10 {
        fn samples(&self) -> u64 {
            1000
        }
        fn class(&self, _: &str, sample: SampleId) -> Result<i64, BoxError> {
            Ok(if sample.0.is_multiple_of(10) { -3 } else { 0 })
        }
    }
    let order = Order::ClassBalanced { field: "label".into(), replacement: true };
    let prepared = order.prepare(&Uneven10, Subset::All(1000)).unwrap();
    let mut rare = 0;
    for epoch in 0..100 {
        let order = prepared.epoch(SEED, Epoch(epoch), None).unwrap().visits_vec();
        assert_eq!(order.len(), 1000);
        rare += order.iter().filter(|visit| visit.sample.0.is_multiple_of(10)).count();
    }
    // The standard deviation for 100,000 draws is 158.
    assert!((49_500..50_500).contains(&rare), "{rare}");
}
