//! The order of an epoch: it is FFCV's, torch's and timm's for the same seed, and each step has the same
//! samples for any number of ranks.

use fuseloop::internals::order::{DatasetInfo, EpochOrder, PreparedOrder, SampleCount};
use fuseloop::order::{DataMixture, Order, Ranks, Sampler, Subset, Uneven};
use fuseloop::sample::{Epoch, SampleId, SampleRef};
use fuseloop::source::{BoxError, Facts, FieldKind, OwnedValue, Record, Source};
use fuseloop::{Batch, Error, Loader};
use fuseloop_counts::rounds;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A dataset with a number of samples and of samples per page. Every five samples have the classes
/// 0, 1, 2, 0 and 0, which are also their components.
struct Data {
    samples: u64,
    per_page: u64,
}

impl DatasetInfo for Data {
    fn samples(&self) -> u64 {
        self.samples
    }

    fn page(&self, sample: SampleId) -> Option<u64> {
        Some(sample.0 / self.per_page)
    }

    fn class(&self, field: &str, sample: SampleId) -> Result<i64, BoxError> {
        match field {
            "label" => Ok([0, 1, 2, 0, 0][(sample.0 % 5) as usize]),
            _ => Err("no such field".into()),
        }
    }

    fn components(&self) -> usize {
        3
    }

    fn component(&self, sample: SampleId) -> Result<usize, BoxError> {
        Ok(self.class("label", sample)? as usize)
    }
}

/// A sampler that returns the samples backwards.
struct Backwards;

impl Sampler for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn order(&self, _: u64, _: Epoch, subset: &Subset) -> Result<Vec<SampleId>, BoxError> {
        let mut order: Vec<SampleId> = subset.iter().collect();
        order.reverse();
        Ok(order)
    }
}

fn weighted(samples: u64, drawn: u64, replacement: bool) -> Order {
    let weights = (0..samples).map(|id| (id % 4) as f64).collect();
    Order::Weighted { weights, samples: drawn, replacement }
}

fn balanced(replacement: bool) -> Order {
    Order::ClassBalanced { field: "label".into(), replacement }
}

/// Every order, for a dataset of this many samples.
fn orders(samples: u64) -> Vec<Order> {
    vec![
        Order::Sequential,
        Order::Random,
        Order::Permuted,
        Order::QuasiRandom { open_pages: 3 },
        weighted(samples, samples, true),
        weighted(samples, samples / 2, false),
        balanced(true),
        balanced(false),
        Order::RepeatedAugment { repeats: 3 },
        Order::Custom(Arc::new(Backwards)),
        Order::Bucketed,
        Order::Mixture(DataMixture::new([0.5, 0.2, 0.3])),
    ]
}

fn prepared(order: &Order, samples: u64) -> PreparedOrder {
    order.prepare(&Data { samples, per_page: 5 }, Subset::All(samples)).unwrap()
}

fn ranks(rank: u32, world: u32, uneven: Uneven) -> Ranks {
    Ranks::new(rank, world, uneven).unwrap()
}

fn ids(visits: &[SampleRef]) -> Vec<u64> {
    visits.iter().map(|visit| visit.sample.0).collect()
}

/// The ids of an order without ranks.
fn alone(order: &Order, samples: u64, seed: u64, epoch: u32) -> Vec<u64> {
    ids(&prepared(order, samples).epoch(seed, Epoch(epoch), None).unwrap().visits_vec())
}

fn random(seed: u64, epoch: u32, count: u64) -> Vec<u64> {
    alone(&Order::Random, count, seed, epoch)
}

/// The ids of an order on the only rank of a world of one.
fn distributed(order: &Order, samples: u64, seed: u64, epoch: u32) -> Vec<u64> {
    let only = ranks(0, 1, Uneven::Pad);
    ids(&prepared(order, samples).epoch(seed, Epoch(epoch), Some(&only)).unwrap().visits_vec())
}

fn hash(ids: impl Iterator<Item = u8>) -> String {
    let bytes: Vec<u8> = ids.collect();
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn list(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(whole).collect()
}

/// The vectors `name` in the file that scripts/order_goldens.py writes.
fn golden(name: &str) -> Vec<Value> {
    let vectors: Value = serde_json::from_str(include_str!("../golden/order/torch.json")).unwrap();
    let vectors = vectors[name].as_array().unwrap().clone();
    assert!(vectors.len() >= 3);
    vectors
}

// The shuffles of other libraries

#[test]
fn random_is_numpys_permutation() {
    let text = include_str!("../golden/beton/order_vectors.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    let vectors = vectors["numpy_generator_permutation"].as_array().unwrap();
    assert!(vectors.len() > 10);
    for vector in vectors {
        let (seed, count) = (whole(&vector["seed"]), whole(&vector["n"]));
        assert_eq!(random(seed, 0, count), list(&vector["order"]), "seed {seed}, {count} samples");
    }
}

/// The permutation of as many numbers as ImageNet has training images, as numpy shuffles them with seed 42.
#[test]
fn random_is_numpys_permutation_at_imagenets_size() {
    let order = random(42, 0, 1_281_167);
    assert_eq!(order[..5], [65762, 58882, 1_166_204, 285_108, 1_148_797]);
    let digest = hash(order.iter().flat_map(|id| id.to_le_bytes()));
    assert_eq!(digest, "1f00a502d9b39be89757145fc438e5daa56f6d19906bfe6752505d2b3ecb4e5f");
}

#[test]
fn the_epoch_is_added_to_the_seed() {
    assert_eq!(random(3, 4, 100), random(7, 0, 100));
    assert_ne!(random(3, 4, 100), random(3, 5, 100));
    let torch = |seed, epoch| distributed(&Order::Random, 100, seed, epoch);
    assert_eq!(torch(3, 4), torch(7, 0));
    assert_ne!(torch(3, 4), torch(3, 5));
}

#[test]
fn a_seed_beyond_64_bits_is_pythons_sum() {
    // default_rng(2**64 + 7).permutation(10)
    assert_eq!(random(u64::MAX, 8, 10), [8, 2, 4, 1, 3, 7, 9, 0, 6, 5]);
}

#[test]
fn random_with_ranks_is_torchs_randperm() {
    for vector in golden("randperm") {
        let (seed, count) = (whole(&vector["seed"]), whole(&vector["n"]));
        let order = distributed(&Order::Random, count, seed, 0);
        assert_eq!(order, list(&vector["order"]), "seed {seed}, {count} samples");
    }
}

/// Datasets of ImageNet's size and of three million samples; in the slow tier also of 214,748,364, where
/// torch starts to draw 64 bits at a time (2 GB, half a minute).
#[test]
fn random_with_ranks_is_torchs_randperm_at_any_size() {
    for vector in golden("randperm_hashes") {
        let (seed, count) = (whole(&vector["seed"]), whole(&vector["n"]));
        if count > 10_000_000 && !is_slow_tier() {
            continue;
        }
        let facts = SampleCount(count);
        let prepared = Order::Random.prepare(&facts, Subset::All(count)).unwrap();
        let order = prepared.epoch(seed, Epoch(0), Some(&ranks(0, 1, Uneven::Pad))).unwrap();
        let mut visits = vec![];
        order.visits(0..5, &mut visits);
        assert_eq!(ids(&visits), list(&vector["first"]));
        let mut digest = Sha256::new();
        for first in (0..count).step_by(1 << 16) {
            visits.clear();
            order.visits(first..first + (1 << 16), &mut visits);
            let bytes = visits.iter().flat_map(|visit| (visit.sample.0 as u32).to_le_bytes());
            digest.update(bytes.collect::<Vec<u8>>());
        }
        let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, vector["sha256"], "{count} samples");
    }
}

fn is_slow_tier() -> bool {
    rounds::<u64>("FUSELOOP_EPOCHS") >= 100_000
}

/// The ids of each rank.
fn shares(
    prepared: &PreparedOrder,
    seed: u64,
    epoch: u32,
    world: u32,
    uneven: Uneven,
) -> Vec<Vec<u64>> {
    let share = |rank| {
        let ranks = ranks(rank, world, uneven);
        let order = prepared.epoch(seed, Epoch(epoch), Some(&ranks)).unwrap();
        assert_eq!(order.samples(), prepared.len(Some(&ranks)));
        ids(&order.visits_vec())
    };
    (0..world).map(share).collect()
}

#[test]
fn ranks_have_what_distributed_sampler_gives_them() {
    for vector in golden("distributed_sampler") {
        let want: Vec<Vec<u64>> = vector["ranks"].as_array().unwrap().iter().map(list).collect();
        let uneven = if vector["drop_last"] == true { Uneven::Drop } else { Uneven::Pad };
        let (seed, epoch) = (whole(&vector["seed"]), whole(&vector["epoch"]) as u32);
        let prepared = prepared(&Order::Random, whole(&vector["n"]));
        let found = shares(&prepared, seed, epoch, want.len() as u32, uneven);
        assert_eq!(found, want, "{vector}");
    }
}

#[test]
fn repeated_augment_is_timms_sampler() {
    for vector in golden("repeat_aug_sampler") {
        let want: Vec<Vec<u64>> = vector["ranks"].as_array().unwrap().iter().map(list).collect();
        let (samples, repeats) = (whole(&vector["n"]), whole(&vector["repeats"]) as u32);
        let prepared = prepared(&Order::RepeatedAugment { repeats }, samples);
        let epoch = whole(&vector["epoch"]) as u32;
        let found = shares(&prepared, 0, epoch, want.len() as u32, Uneven::Drop);
        assert_eq!(found, want, "{samples} samples, {repeats} times");
    }
}

// Results that must not change without a new version of the crate

#[test]
fn the_orders_of_seed_42_and_epoch_0() {
    let literal = |order: &Order, want: [u64; 10]| {
        let found = alone(order, 30, 42, 0);
        assert_eq!(found[..10], want, "{}", order.name());
    };
    literal(&Order::Sequential, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    literal(&Order::Random, LITERAL[0]);
    literal(&Order::Permuted, LITERAL[8]);
    literal(&Order::QuasiRandom { open_pages: 3 }, LITERAL[1]);
    literal(&weighted(30, 30, true), LITERAL[2]);
    literal(&weighted(30, 15, false), LITERAL[3]);
    literal(&balanced(true), LITERAL[4]);
    literal(&balanced(false), LITERAL[5]);
    literal(&Order::RepeatedAugment { repeats: 3 }, LITERAL[6]);
    literal(&Order::Bucketed, LITERAL[9]);
    assert_eq!(distributed(&Order::Random, 30, 42, 0)[..10], LITERAL[7]);
}

const LITERAL: [[u64; 10]; 10] = [
    [29, 16, 7, 25, 24, 22, 5, 21, 26, 10],
    [14, 11, 8, 17, 5, 7, 18, 12, 13, 15],
    [10, 9, 26, 11, 19, 11, 14, 1, 19, 5],
    [3, 23, 27, 11, 22, 6, 7, 15, 26, 19],
    [26, 25, 11, 26, 2, 26, 6, 13, 0, 20],
    [1, 10, 26, 11, 6, 2, 29, 28, 17, 16],
    [12, 12, 12, 0, 0, 0, 6, 6, 6, 25],
    [12, 0, 6, 25, 8, 15, 10, 18, 16, 23],
    [12, 17, 22, 13, 5, 25, 29, 26, 15, 23],
    [15, 7, 12, 4, 29, 28, 2, 21, 5, 11],
];

/// The first samples of a trillion, which no list could hold.
#[test]
fn a_trillion_samples_are_permuted() {
    let samples = 1_000_000_000_000;
    let prepared = Order::Permuted.prepare(&SampleCount(samples), Subset::All(samples)).unwrap();
    let order = prepared.epoch(42, Epoch(0), None).unwrap();
    assert_eq!((prepared.bytes(), order.bytes(), order.samples()), (0, 0, samples));
    let mut visits = vec![];
    order.visits(0..5, &mut visits);
    order.visits(samples - 2..samples, &mut visits);
    let first = [383_309_702_992, 355_611_658_627, 75_829_359_586, 707_030_430_395, 95_117_560_884];
    assert_eq!(ids(&visits[..5]), first);
    assert_eq!(ids(&visits[5..]), [24_586_408_701, 940_651_395_454]);
}

/// Samples that are made when they are read.
struct Numbered(Facts);

impl Source for Numbered {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        Ok(vec![OwnedValue::Int(i64::try_from(sample.0)?)])
    }
}

#[test]
fn a_loader_of_a_trillion_samples_begins_and_resumes_at_once() {
    let samples = 1_000_000_000_000;
    let loader = || {
        let source = Numbered(Facts::new([("number", FieldKind::Int)], samples));
        let builder = Loader::from_source(source).batch_size(1000).order(Order::Permuted);
        builder.seed(42).workers(2).build().unwrap()
    };
    let numbers = |run: &mut dyn Iterator<Item = Result<Batch, Error>>| {
        let batch = run.next().unwrap().unwrap();
        batch.tensor::<i64>("number").unwrap().as_slice().to_vec()
    };
    let first = loader();
    let mut run = first.epoch(0).unwrap();
    assert_eq!(numbers(&mut run)[..3], [383_309_702_992, 355_611_658_627, 75_829_359_586]);
    let mut cursor = run.cursor().unwrap();
    let second = numbers(&mut run);
    assert_eq!(numbers(&mut loader().resume(&cursor).unwrap()), second);
    // The end of the epoch is as near as its beginning.
    cursor.position = samples - 1000;
    let resumed = loader();
    let mut rest = resumed.resume(&cursor).unwrap();
    assert_eq!(numbers(&mut rest)[999], 940_651_395_454);
    assert!(rest.next().is_none());
}

/// 1,024 ranks share a billion samples, and 768 go on: each position is that of the global order.
#[test]
fn ranks_share_a_permuted_order_and_others_resume_it() {
    let samples = 1_000_000_007;
    let prepared = Order::Permuted.prepare(&SampleCount(samples), Subset::All(samples)).unwrap();
    let global = prepared.epoch(3, Epoch(5), None).unwrap();
    for (world, steps) in [(1024, 0..3), (768, 4..6), (1024, 976_560..976_562)] {
        for number in [0, 1, world / 2, world - 1] {
            let rank = ranks(number, world, Uneven::Drop);
            let share = prepared.epoch(3, Epoch(5), Some(&rank)).unwrap();
            let (mut found, mut expected) = (vec![], vec![]);
            for step in steps.clone() {
                share.visits(step..step + 1, &mut found);
                let position = step * u64::from(world) + u64::from(number);
                global.visits(position..position + 1, &mut expected);
            }
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn fingerprints_never_change() {
    let found: Vec<u64> =
        orders(30).iter().map(|order| prepared(order, 30).fingerprint(None)).collect();
    assert_eq!(found, FINGERPRINTS);
}

const FINGERPRINTS: [u64; 12] = [
    1_852_730_995_632_251_784,
    7_690_384_577_558_338_556,
    16_242_232_583_634_824_349,
    6_245_729_927_724_055_041,
    757_094_933_108_582_135,
    13_233_159_770_570_011_207,
    17_943_374_290_827_813_322,
    11_868_888_144_753_758_705,
    14_386_209_239_779_339_676,
    14_422_883_505_748_353_783,
    1_441_018_112_366_379_398,
    7_428_648_213_580_670_855,
];

#[test]
fn another_order_has_another_fingerprint() {
    let mut all: Vec<Order> = orders(30);
    all.push(Order::QuasiRandom { open_pages: 4 });
    all.push(weighted(30, 14, false));
    all.push(Order::RepeatedAugment { repeats: 2 });
    let mut prints: Vec<u64> =
        all.iter().map(|order| prepared(order, 30).fingerprint(None)).collect();
    for ids in [&[0, 2][..], &[2, 0], &[0, 2, 2]] {
        let subset = Subset::Listed(ids.into());
        let prepared = Order::Random.prepare(&SampleCount(30), subset).unwrap();
        prints.push(prepared.fingerprint(None));
    }
    prints.push(prepared(&Order::Random, 29).fingerprint(None));
    let count = prints.len();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), count);
}

// Ranks

/// The visits of a step of 24 samples, divided among `world` ranks, sorted.
fn step(prepared: &PreparedOrder, world: u32, uneven: Uneven, step: u64) -> Vec<(u64, u32, bool)> {
    let share = u64::from(24 / world);
    let mut visits = vec![];
    for rank in 0..world {
        let order = prepared.epoch(42, Epoch(1), Some(&ranks(rank, world, uneven))).unwrap();
        order.visits(step * share..(step + 1) * share, &mut visits);
    }
    let key = |visit: &SampleRef| (visit.sample.0, visit.repeat, visit.is_padding);
    let mut step: Vec<_> = visits.iter().map(key).collect();
    step.sort_unstable();
    step
}

/// It follows that a run may continue with more or fewer ranks after any step.
#[test]
fn a_step_has_the_same_visits_for_any_number_of_ranks() {
    for order in orders(300) {
        let prepared = prepared(&order, 300);
        let steps = prepared.len(None) / 24;
        assert!(steps > 3, "{}", order.name());
        for uneven in [Uneven::Drop, Uneven::Pad, Uneven::Exact] {
            for s in 0..steps {
                let one = step(&prepared, 1, uneven, s);
                assert_eq!(one.len(), 24);
                for world in [2, 3, 4, 6, 8, 12, 24] {
                    let name = order.name();
                    assert_eq!(step(&prepared, world, uneven, s), one, "{name}, {world}, step {s}");
                }
            }
        }
    }
}

/// The list that `DistributedSampler` yields for a list, by its source code.
fn model(all: &[u64], rank: usize, world: usize, uneven: Uneven) -> Vec<u64> {
    let samples = match uneven {
        Uneven::Drop if !all.len().is_multiple_of(world) => {
            all.len().saturating_sub(world).div_ceil(world)
        }
        _ => all.len().div_ceil(world),
    };
    let total = samples * world;
    let mut padded = all.to_vec();
    while padded.len() < total {
        let missing = total - padded.len();
        padded.extend_from_slice(&all[..missing.min(all.len())]);
    }
    padded[..total].iter().skip(rank).step_by(world).copied().collect()
}

#[test]
fn shards_are_those_of_distributed_sampler_for_any_size_and_world() {
    let mut visits = vec![];
    for samples in 1..2000u64 {
        let all: Vec<u64> = (0..samples).collect();
        let prepared =
            Order::Sequential.prepare(&SampleCount(samples), Subset::All(samples)).unwrap();
        for world in 1..=16u32 {
            for uneven in [Uneven::Drop, Uneven::Pad, Uneven::Exact] {
                let mut once = 0;
                for rank in 0..world {
                    let ranks = ranks(rank, world, uneven);
                    let order = prepared.epoch(1, Epoch(0), Some(&ranks)).unwrap();
                    visits.clear();
                    order.visits(0..order.samples(), &mut visits);
                    once += visits.iter().filter(|visit| !visit.is_padding).count() as u64;
                    let want = model(&all, rank as usize, world as usize, uneven);
                    assert!(
                        visits.iter().map(|visit| visit.sample.0).eq(want),
                        "{samples} samples, rank {rank} of {world}, {uneven:?}"
                    );
                }
                match uneven {
                    Uneven::Drop => assert_eq!(once, samples / u64::from(world) * u64::from(world)),
                    Uneven::Pad => assert_eq!(once % u64::from(world), 0),
                    Uneven::Exact => assert_eq!(once, samples, "each counts once"),
                }
            }
        }
    }
}

#[test]
fn a_pad_draws_what_the_row_it_repeats_draws() {
    let prepared = prepared(&Order::RepeatedAugment { repeats: 3 }, 7);
    let visits = |rank| {
        let ranks = ranks(rank, 2, Uneven::Exact);
        prepared.epoch(1, Epoch(0), Some(&ranks)).unwrap().visits_vec()
    };
    let (first, pad) = (visits(0)[0], visits(1)[3]);
    assert_eq!(pad, SampleRef { is_padding: true, ..first });
}

// Positions, repeats, subsets

#[test]
fn an_order_can_be_entered_at_any_place() {
    for order in orders(300) {
        let prepared = prepared(&order, 300);
        let ranks = ranks(1, 2, Uneven::Pad);
        let all = prepared.epoch(7, Epoch(2), Some(&ranks)).unwrap().visits_vec();
        let again = prepared.epoch(7, Epoch(2), Some(&ranks)).unwrap();
        for position in 0..=all.len() {
            let mut rest = vec![];
            again.visits(position as u64..u64::MAX, &mut rest);
            assert_eq!(rest, all[position..], "{}", order.name());
        }
    }
}

/// Asserts that the visits of each sample are numbered 0, 1, 2 and so on.
fn assert_copies_count(order: &EpochOrder) {
    let mut seen = std::collections::HashMap::new();
    for visit in order.visits_vec() {
        let times = seen.entry(visit.sample.0).or_insert(0);
        assert_eq!(visit.repeat, *times, "sample {}", visit.sample);
        *times += 1;
    }
}

#[test]
fn the_times_of_a_sample_are_numbered_in_the_order_of_all() {
    for order in orders(300) {
        assert_copies_count(&prepared(&order, 300).epoch(7, Epoch(2), None).unwrap());
        let twice: Arc<[u64]> = (0..50).chain(20..70).chain([20, 20]).collect();
        let subset = Subset::Listed(twice);
        let data = Data { samples: 300, per_page: 5 };
        // The weights of `weighted` are for 300 samples, of which 60 are drawn here.
        let order = match order {
            Order::Weighted { weights, replacement, .. } => {
                Order::Weighted { weights, samples: 60, replacement }
            }
            order => order,
        };
        let order = order.prepare(&data, subset).unwrap().epoch(7, Epoch(2), None).unwrap();
        assert_copies_count(&order);
    }
}

#[test]
fn an_order_of_a_subset_has_samples_of_it_alone() {
    let data = Data { samples: 300, per_page: 5 };
    let subset: Arc<[u64]> = (0..300).rev().filter(|id| id % 3 == 1).collect();
    for order in orders(300) {
        let order = match order {
            Order::Weighted { weights, replacement, .. } => {
                Order::Weighted { weights, samples: 50, replacement }
            }
            order => order,
        };
        let prepared = order.prepare(&data, Subset::Listed(Arc::clone(&subset))).unwrap();
        let visits = prepared.epoch(1, Epoch(0), None).unwrap().visits_vec();
        assert!(!visits.is_empty());
        assert!(visits.iter().all(|visit| visit.sample.0 % 3 == 1), "{}", order.name());
    }
}

#[test]
fn random_shuffles_the_ids_it_is_given_not_their_places() {
    let evens = Subset::Listed((0..50).map(|id| id * 2).collect());
    let prepared = Order::Random.prepare(&SampleCount(99), evens).unwrap();
    let order = ids(&prepared.epoch(1, Epoch(0), None).unwrap().visits_vec());
    let doubled: Vec<u64> = random(1, 0, 50).iter().map(|id| id * 2).collect();
    assert_eq!(order, doubled);
}

#[test]
fn sequential_is_as_given_in_every_epoch() {
    for epoch in [0, 1, 9] {
        assert_eq!(alone(&Order::Sequential, 7, 5, epoch), [0, 1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn orders_that_visit_each_sample_once_do() {
    for samples in [0, 1, 2, 5, 17, 300] {
        for order in [Order::Random, Order::QuasiRandom { open_pages: 3 }] {
            for mut found in [alone(&order, samples, 3, 1), distributed(&order, samples, 3, 1)] {
                found.sort_unstable();
                assert!(found.into_iter().eq(0..samples), "{} of {samples}", order.name());
            }
        }
    }
}

// Quasi-random

#[test]
fn quasi_random_has_so_many_pages_open_and_opens_each_once() {
    let data = Data { samples: 1003, per_page: 16 };
    for open_pages in [1, 2, 7, 100] {
        let order = Order::QuasiRandom { open_pages };
        let prepared = order.prepare(&data, Subset::All(1003)).unwrap();
        for epoch in 0..5 {
            let order = ids(&prepared.epoch(1, Epoch(epoch), None).unwrap().visits_vec());
            let pages: Vec<u64> = order.iter().map(|id| id / 16).collect();
            let first = |page| pages.iter().position(|&other| other == page).unwrap();
            let last = |page| pages.iter().rposition(|&other| other == page).unwrap();
            let open_at =
                |position| (0..63).filter(|&p| first(p) <= position && position <= last(p)).count();
            let most = (0..1003).map(open_at).max().unwrap();
            assert!(most <= open_pages as usize, "{most} of {open_pages} open");
        }
    }
}

#[test]
fn samples_of_no_page_are_visited_too() {
    let order = Order::QuasiRandom { open_pages: 2 };
    let prepared = order.prepare(&SampleCount(50), Subset::All(50)).unwrap();
    let mut found = ids(&prepared.epoch(1, Epoch(0), None).unwrap().visits_vec());
    assert_ne!(found, (0..50).collect::<Vec<_>>());
    found.sort_unstable();
    assert_eq!(found, (0..50).collect::<Vec<_>>());
}

// Classes

#[test]
fn without_replacement_each_class_has_as_many_as_the_smallest() {
    let data = Data { samples: 100, per_page: 5 };
    let (mut seen, prepared) = (vec![], prepared(&balanced(false), 100));
    assert_eq!(prepared.len(None), 60);
    for epoch in 0..20 {
        let order = prepared.epoch(1, Epoch(epoch), None).unwrap().visits_vec();
        let mut classes = [0; 3];
        order.iter().for_each(|v| classes[data.class("label", v.sample).unwrap() as usize] += 1);
        assert_eq!(classes, [20, 20, 20]);
        assert!(order.iter().all(|visit| visit.repeat == 0));
        seen.extend(ids(&order));
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 100, "in the end all samples of the large classes come");
}

// Refused orders

fn refusal(order: &Order, samples: u64, subset: Subset) -> String {
    let data = Data { samples, per_page: 5 };
    order.prepare(&data, subset).map(drop).unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let refused = |order: Order| refusal(&order, 3, Subset::All(3));
    let by = |weights: &[f64], samples, replacement| {
        refused(Order::Weighted { weights: weights.into(), samples, replacement })
    };
    let wrong = "it must be finite and at least 0";
    for (weight, shown) in [(f64::NAN, "NaN"), (-1.0, "-1"), (f64::INFINITY, "inf")] {
        let said = by(&[1.0, weight, 1.0], 3, true);
        assert_eq!(said, format!("order weighted: sample 1 has the weight {shown}, {wrong}"));
    }
    assert_eq!(by(&[1.0; 2], 3, true), "order weighted: 2 weights for a dataset of 3 samples");
    let none = "order weighted: 1 samples to draw, but 0 have a weight above 0";
    assert_eq!(by(&[0.0; 3], 3, true), none);
    let few = "order weighted: 3 samples to draw, but 2 have a weight above 0";
    assert_eq!(by(&[1.0, 0.0, 1.0], 3, false), few);
    assert_eq!(by(&[1.0; 3], 0, true), "order weighted: samples is 0, it must be at least 1");
    assert_eq!(
        refused(Order::QuasiRandom { open_pages: 0 }),
        "order quasi_random: open_pages is 0, it must be at least 1"
    );
    assert_eq!(
        refused(Order::RepeatedAugment { repeats: 0 }),
        "order repeated_augment: repeats is 0, it must be at least 1"
    );
    assert_eq!(
        refused(Order::ClassBalanced { field: "colour".into(), replacement: true }),
        "order class_balanced: sample 0 has no class: no such field"
    );
    assert_eq!(
        refusal(&Order::Random, 3, Subset::Listed([0, 7].into())),
        "the subset has sample 7, but the dataset has 3 samples"
    );
}

#[test]
fn no_samples_have_an_order_unless_some_are_to_be_drawn() {
    let names = ["weighted", "mixture"];
    for order in orders(0).into_iter().filter(|order| !names.contains(&order.name())) {
        let prepared = prepared(&order, 0);
        for world in [None, Some(ranks(2, 5, Uneven::Exact))] {
            let epoch = prepared.epoch(1, Epoch(0), world.as_ref()).unwrap();
            assert_eq!((epoch.samples(), epoch.visits_vec()), (0, vec![]), "{}", order.name());
        }
    }
    assert!(refusal(&weighted(0, 5, true), 0, Subset::All(0)).contains("0 have a weight above 0"));
}

/// A sampler that announces one number of samples and returns another, or a sample that does not exist,
/// or an error.
struct Broken(Result<Vec<u64>, &'static str>);

impl Sampler for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn order(&self, _: u64, _: Epoch, _: &Subset) -> Result<Vec<SampleId>, BoxError> {
        Ok(self.0.clone()?.into_iter().map(SampleId).collect())
    }
}

#[test]
fn a_sampler_that_breaks_its_word_is_an_error() {
    let said = |gives| {
        let order = Order::Custom(Arc::new(Broken(gives)));
        let prepared = order.prepare(&SampleCount(9), Subset::Listed([4, 2].into())).unwrap();
        prepared.epoch(1, Epoch(0), None).map(drop).unwrap_err().to_string()
    };
    assert_eq!(said(Err("out of luck")), "order broken: out of luck");
    assert_eq!(said(Ok(vec![4])), "order broken: it returned 1 samples, expected 2 as announced");
    let stray = "order broken: it returned sample 3, which is not in the subset";
    assert_eq!(said(Ok(vec![4, 3])), stray);
}

// Memory

#[test]
fn a_sequential_order_of_any_size_holds_nothing() {
    let samples = 1 << 40;
    let prepared = Order::Sequential.prepare(&SampleCount(samples), Subset::All(samples)).unwrap();
    let ranks = ranks(2, 3, Uneven::Exact);
    let order = prepared.epoch(1, Epoch(0), Some(&ranks)).unwrap();
    assert_eq!((order.bytes(), prepared.bytes()), (0, 0));
    let mut visits = vec![];
    order.visits(order.samples() - 1..order.samples(), &mut visits);
    // 2^40 is 1 more than a multiple of 3.
    assert_eq!(visits, [SampleRef { is_padding: true, ..SampleRef::once(SampleId(1)) }]);
}

#[test]
fn more_samples_than_an_order_can_count_are_refused() {
    let many = 1 << 40;
    let others = [
        Order::Random,
        Order::QuasiRandom { open_pages: 3 },
        balanced(true),
        Order::RepeatedAugment { repeats: u32::MAX },
        Order::Bucketed,
        Order::Custom(Arc::new(Backwards)),
    ];
    for order in others {
        let error = order.prepare(&SampleCount(many), Subset::All(many)).map(drop).unwrap_err();
        let expected = format!(": {many} samples; the limit is ");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    let weights = Arc::from([1.0]);
    let order = Order::Weighted { weights, samples: many, replacement: true };
    let error = order.prepare(&SampleCount(1), Subset::All(1)).map(drop).unwrap_err();
    assert!(error.to_string().contains(" samples; the limit is "), "{error}");
}

/// The bytes that a million samples take: those held for all epochs, and those held for one.
#[test]
fn a_million_samples_cost_a_few_megabytes() {
    let samples = 1_000_000;
    let data = Data { samples, per_page: 100 };
    let cost = |order: Order| {
        let prepared = order.prepare(&data, Subset::All(samples)).unwrap();
        let epoch = prepared.epoch(1, Epoch(0), None).unwrap();
        (prepared.bytes() as u64, epoch.bytes() as u64)
    };
    assert_eq!(cost(Order::Random), (0, 4 * samples));
    let (held, epoch) = cost(Order::QuasiRandom { open_pages: 64 });
    assert!(held < samples / 10, "4 bytes a page, not a sample: {held}");
    assert_eq!(epoch, 4 * samples);
    assert_eq!(cost(weighted(samples, samples, true)), (8 * samples, 8 * samples));
    assert_eq!(cost(weighted(samples, samples / 2, false)).0, 0);
    let (held, epoch) = cost(balanced(true));
    assert!(held <= 4 * samples + 64 && epoch == 8 * samples, "{held}");
    let (held, epoch) = cost(Order::RepeatedAugment { repeats: 4 });
    assert!(held == 0 && epoch <= samples, "{epoch}");
}
