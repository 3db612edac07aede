//! Mixtures: the shares of components, exact at any position, on all ranks, and after weights have changed.

use fuseloop::internals::order::{DatasetInfo, PreparedOrder, Steps};
use fuseloop::order::{DataMixture, Order, Ranks, Stopping, Subset, Uneven};
use fuseloop::sample::{Epoch, SampleId};
use fuseloop::source::{BoxError, Concat, Facts, FieldKind, OwnedValue, Record, Source};
use fuseloop::{Batch, Cursor, Error, Loader};
use std::collections::HashMap;
use std::sync::Arc;

const SEED: u64 = 42;

/// A dataset of components with these numbers of samples, one after another.
struct Parts(Vec<u64>);

impl DatasetInfo for Parts {
    fn samples(&self) -> u64 {
        self.0.iter().sum()
    }

    fn class(&self, _: &str, _: SampleId) -> Result<i64, BoxError> {
        Err("no class".into())
    }

    fn components(&self) -> usize {
        self.0.len()
    }

    fn component(&self, sample: SampleId) -> Result<usize, BoxError> {
        let ends = self.0.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        Ok(ends.take_while(|&end| end <= sample.0).count())
    }
}

/// A mixture prepared for a dataset.
struct Prepared {
    parts: Parts,
    order: PreparedOrder,
}

impl Prepared {
    fn new(mixture: DataMixture, sizes: &[u64]) -> Self {
        Self::try_new(mixture, sizes, Steps::SINGLE).unwrap()
    }

    fn try_new(mixture: DataMixture, sizes: &[u64], steps: Steps) -> Result<Self, Error> {
        let parts = Parts(sizes.to_vec());
        let all = Subset::All(parts.samples());
        let order = Order::Mixture(mixture).prepare_steps(&parts, all, steps)?;
        Ok(Self { parts, order })
    }

    fn ids(&self, epoch: u32) -> Vec<u64> {
        let order = self.order.epoch(SEED, Epoch(epoch), None).unwrap();
        assert_eq!(order.samples(), self.order.len(None));
        order.visits_vec().iter().map(|visit| visit.sample.0).collect()
    }

    /// The component of each row of an epoch.
    fn components(&self, epoch: u32) -> Vec<usize> {
        let of = |id: u64| self.parts.component(SampleId(id)).unwrap();
        self.ids(epoch).into_iter().map(of).collect()
    }

    /// The number of samples of each component among these rows.
    fn counts(&self, components: &[usize]) -> Vec<usize> {
        let of = |part| components.iter().filter(|&&component| component == part).count();
        (0..self.parts.0.len()).map(of).collect()
    }
}

fn refusal(mixture: DataMixture, sizes: &[u64]) -> String {
    Prepared::try_new(mixture, sizes, Steps::SINGLE).map(drop).unwrap_err().to_string()
}

// Shares

#[test]
fn each_component_has_its_share_in_each_part_of_an_epoch() {
    let mixture = DataMixture::new([7.0, 2.0, 1.0]).stopping(Stopping::Samples(5000));
    let prepared = Prepared::new(mixture, &[1000, 500, 100]);
    for epoch in 0..3 {
        let components = prepared.components(epoch);
        assert_eq!(prepared.counts(&components), [3500, 1000, 500]);
        for rows in (64..5000).step_by(64) {
            let counts = prepared.counts(&components[..rows]);
            for (count, share) in counts.iter().zip([0.7, 0.2, 0.1]) {
                assert!((*count as f64 - share * rows as f64).abs() < 1.0, "{counts:?} of {rows}");
            }
        }
    }
}

#[test]
fn an_order_is_the_same_in_every_release() {
    let mixture = DataMixture::new([0.5, 0.3, 0.2]);
    let prepared = Prepared::new(mixture, &[100, 10, 50]);
    assert_eq!([&prepared.ids(0)[..12], &prepared.ids(3)[148..]], [FIRST, LAST]);
}

const FIRST: [u64; 12] = [51, 81, 146, 11, 94, 43, 136, 104, 33, 67, 82, 100];
const LAST: [u64; 12] = [64, 5, 104, 105, 28, 100, 39, 117, 152, 40, 92, 88];

#[test]
fn the_default_epoch_is_as_long_as_the_dataset() {
    let prepared = Prepared::new(DataMixture::new([1.0, 1.0]), &[30, 10]);
    assert_eq!(prepared.order.len(None), 40);
    assert_eq!(prepared.counts(&prepared.components(0)), [20, 20]);
}

#[test]
fn a_component_of_weight_0_has_no_samples() {
    let mixture = DataMixture::new([1.0, 0.0, 2.0]).stopping(Stopping::Samples(100));
    let prepared = Prepared::new(mixture, &[30, 10, 20]);
    assert_eq!(prepared.counts(&prepared.components(0)), [33, 0, 67]);
}

#[test]
fn a_temperature_makes_small_components_larger() {
    let counts = |temperature| {
        let mixture = DataMixture::by_temperature(temperature).stopping(Stopping::Samples(9000));
        let prepared = Prepared::new(mixture, &[8000, 1000, 0]);
        prepared.counts(&prepared.components(0))
    };
    assert_eq!(counts(1.0), [8000, 1000, 0]);
    // Cube roots: 20 to 10.
    assert_eq!(counts(3.0), [6000, 3000, 0]);
    assert_eq!(counts(f64::INFINITY), [4500, 4500, 0]);
    assert_eq!(counts(1e-3), [9000, 0, 0]);
}

/// In a block each position is of a component as likely as any other.
#[test]
fn positions_in_a_block_are_random() {
    let mixture = DataMixture::new([1.0, 3.0]).stopping(Stopping::Samples(64));
    let prepared = Prepared::new(mixture, &[1000, 1000]);
    let epochs = 4000;
    let mut counts = [0_u32; 64];
    for epoch in 0..epochs {
        let components = prepared.components(epoch);
        (0..64).filter(|&at| components[at] == 0).for_each(|at| counts[at] += 1);
    }
    let expected = f64::from(epochs) / 4.0;
    let statistic: f64 =
        counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    // Each epoch has 16 of 64, so that 63 counts are free, of variance 3/4 * 64/63.
    let statistic = statistic * 4.0 / 3.0 * 63.0 / 64.0;
    assert!((32.0..105.0).contains(&statistic), "{statistic} of 63 degrees");
}

// Passes

#[test]
fn samples_of_a_component_come_equally_often() {
    let mixture = DataMixture::new([1.0, 1.0]).stopping(Stopping::Samples(150));
    let prepared = Prepared::new(mixture, &[100, 30]);
    // 75 of each component in an epoch: the passes go on in the next one.
    let mut times = vec![0; 130];
    for epoch in 0..4 {
        prepared.ids(epoch).iter().for_each(|&id| times[id as usize] += 1);
    }
    assert!(times[..100].iter().all(|&times| times == 3), "{times:?}");
    assert!(times[100..].iter().all(|&times| times == 10), "{times:?}");
    let first: Vec<u64> = prepared.ids(0).into_iter().filter(|&id| id < 100).collect();
    let mut once = first.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!((first.len(), once.len()), (75, 75));
    assert!(!first.is_sorted());
}

#[test]
fn the_times_of_a_sample_in_an_epoch_are_numbered() {
    let mixture = DataMixture::new([1.0, 1.0]).stopping(Stopping::Samples(1000));
    let prepared = Prepared::new(mixture, &[100, 7]);
    let mut seen = HashMap::new();
    for visit in prepared.order.epoch(SEED, Epoch(1), None).unwrap().visits_vec() {
        let times = seen.entry(visit.sample.0).or_insert(0);
        assert_eq!(visit.repeat, *times);
        *times += 1;
    }
}

#[test]
fn an_epoch_far_away_is_found_at_once() {
    let mixture = DataMixture::new([3.0, 1.0]).at_epoch(2.5, [1.0, 1.0]);
    let prepared = Prepared::new(mixture, &[1000, 100]);
    assert_eq!(prepared.counts(&prepared.components(u32::MAX)), [550, 550]);
    assert_eq!(prepared.order.drawn(SEED, Epoch(u32::MAX), u64::MAX), Some(vec![550, 550]));
}

#[test]
fn samples_are_mixed_by_their_component_wherever_they_are_listed() {
    let parts = Parts(vec![100, 100]);
    let listed: Arc<[u64]> = [150, 3, 199, 7, 42, 101].into();
    let order = Order::Mixture(DataMixture::new([1.0, 1.0]).stopping(Stopping::Samples(60)));
    let prepared = order.prepare(&parts, Subset::Listed(listed)).unwrap();
    let mut times = HashMap::new();
    for visit in prepared.epoch(SEED, Epoch(0), None).unwrap().visits_vec() {
        *times.entry(visit.sample.0).or_insert(0) += 1;
    }
    assert_eq!(times.len(), 6);
    assert!(times.values().all(|&times| times == 10), "{times:?}");
}

// The end of an epoch

#[test]
fn an_epoch_may_end_when_the_first_component_is_exhausted() {
    let of = |weights: [f64; 2], sizes: [u64; 2]| {
        let mixture = DataMixture::new(weights).stopping(Stopping::FirstExhausted);
        let prepared = Prepared::new(mixture, &sizes);
        for epoch in 0..3 {
            let mut ids = prepared.ids(epoch);
            ids.sort_unstable();
            assert!(ids.is_sorted_by(|a, b| a < b), "no sample comes twice");
        }
        assert!(sizes[0] == 1 || prepared.ids(0) != prepared.ids(1));
        prepared.counts(&prepared.components(0))
    };
    assert_eq!(of([1.0, 1.0], [100, 1000]), [100, 100]);
    assert_eq!(of([9.0, 1.0], [10_000, 500]), [4505, 500]);
    assert_eq!(of([1.0, 1.0], [1, 1]), [1, 1]);
    assert_eq!(of([1.0, 0.0], [123_457, 10]), [123_457, 0]);
}

#[test]
fn an_epoch_may_end_when_all_components_are_exhausted() {
    let of = |weights: [f64; 2], sizes: [u64; 2]| {
        let mixture = DataMixture::new(weights).stopping(Stopping::AllExhausted);
        let prepared = Prepared::new(mixture, &sizes);
        let mut ids = prepared.ids(1);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len() as u64, sizes[0] + sizes[1], "every sample comes");
        prepared.counts(&prepared.components(1))
    };
    assert_eq!(of([1.0, 1.0], [100, 1000]), [1000, 1000]);
    assert_eq!(of([9.0, 1.0], [900, 500]), [4496, 500]);
    assert_eq!(of([1.0, 3.0], [1, 1]), [1, 1]);
}

#[test]
fn the_others_may_share_what_is_left_when_a_component_is_exhausted() {
    let mixture =
        DataMixture::new([6.0, 3.0, 1.0]).stopping(Stopping::AllExhaustedWithoutReplacement);
    let prepared = Prepared::new(mixture, &[600, 3000, 1000]);
    let mut ids = prepared.ids(2);
    let components = prepared.components(2);
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..4600), "each sample comes once");
    assert_eq!(prepared.counts(&components[..960]), [576, 288, 96]);
    // After the 600 of the first component, the others go on by 3 to 1.
    let first = components.iter().rposition(|&component| component == 0).unwrap();
    assert!((960..1024).contains(&first), "{first}");
    let rest = prepared.counts(&components[1024..1024 + 640]);
    assert_eq!(rest, [0, 480, 160]);
}

// Weights by time

#[test]
fn weights_change_at_an_epoch() {
    let mixture = DataMixture::new([3.0, 1.0]).at_epoch(1.5, [1.0, 3.0]).at_epoch(4.0, [1.0, 0.0]);
    let prepared = Prepared::new(mixture, &[600, 400]);
    let counts = |epoch| prepared.counts(&prepared.components(epoch));
    assert_eq!(counts(0), [750, 250]);
    let components = prepared.components(1);
    assert_eq!(prepared.counts(&components[..500]), [375, 125]);
    assert_eq!(prepared.counts(&components[500..]), [125, 375]);
    assert_eq!([counts(2), counts(3), counts(4)], [[250, 750], [250, 750], [1000, 0]]);
}

#[test]
fn weights_change_in_a_line() {
    let mixture = DataMixture::new([1.0, 0.0]).at_epoch(2.0, [0.0, 1.0]).linear();
    let prepared = Prepared::new(mixture, &[6400, 6400]);
    let components = [prepared.components(0), prepared.components(1)].concat();
    assert_eq!(prepared.components(2), vec![1; 12_800]);
    for rows in (640..25_600).step_by(640) {
        // The integral of 1 - t / 25600.
        let rows_of_0 = rows as f64 - (rows as f64).powi(2) / 51_200.0;
        let counts = prepared.counts(&components[..rows]);
        assert!((counts[0] as f64 - rows_of_0).abs() < 2.0, "{counts:?} of {rows}");
    }
}

#[test]
fn weights_change_at_a_step_of_all_ranks() {
    let mixture = || DataMixture::new([1.0, 0.0]).at_step(25, [0.0, 1.0]);
    // Steps of 64 samples: 16 in an epoch, the last one with 40 samples, or 15 without it.
    for (drops_rest, changes_at) in [(false, 9), (true, 10)] {
        let steps = Steps { samples: 64, drops_rest };
        let prepared = Prepared::try_new(mixture(), &[500, 500], steps).unwrap();
        assert_eq!(prepared.components(0), vec![0; 1000]);
        let first = prepared.components(1).iter().position(|&component| component == 1);
        assert_eq!(first, Some(changes_at * 64));
    }
    let print = |samples| {
        let steps = Steps { samples, drops_rest: false };
        Prepared::try_new(mixture(), &[500, 500], steps).unwrap().order.fingerprint(None)
    };
    assert_ne!(print(64), print(128));
}

// Ranks

#[test]
fn ranks_together_have_the_order_of_one() {
    let mixture = DataMixture::new([0.8, 0.2]).at_epoch(0.5, [0.2, 0.8]).linear();
    let prepared = Prepared::new(mixture, &[700, 303]);
    let all = prepared.order.epoch(SEED, Epoch(0), None).unwrap().visits_vec();
    for world in [2, 3, 8] {
        let of_rank = |rank| {
            let ranks = Ranks::new(rank, world, Uneven::Exact).unwrap();
            prepared.order.epoch(SEED, Epoch(0), Some(&ranks)).unwrap().visits_vec()
        };
        let shares: Vec<_> = (0..world).map(of_rank).collect();
        for (position, visit) in all.iter().enumerate() {
            let (row, rank) = (position / world as usize, position % world as usize);
            assert_eq!(shares[rank][row], *visit);
        }
        // The positions of a rank are as mixed as all of them.
        let of = |id: SampleId| prepared.parts.component(id).unwrap();
        let first: Vec<usize> = shares[0].iter().map(|visit| of(visit.sample)).collect();
        let share = prepared.counts(&first)[0] as f64 / first.len() as f64;
        let whole = prepared.counts(&prepared.components(0))[0] as f64 / all.len() as f64;
        assert!((share - whole).abs() < 0.08, "{share} of {whole}");
    }
}

// What was drawn

#[test]
fn what_was_drawn_is_counted_at_each_position() {
    let stopping = [Stopping::DatasetSize, Stopping::AllExhaustedWithoutReplacement];
    for stopping in stopping {
        let mixture = DataMixture::new([0.8, 0.2]).at_epoch(0.3, [0.5, 0.5]).stopping(stopping);
        let prepared = Prepared::new(mixture, &[200, 100]);
        for epoch in 0..2 {
            let components = prepared.components(epoch);
            for position in 0..=300 {
                let drawn = prepared.order.drawn(SEED, Epoch(epoch), position as u64).unwrap();
                let counted = prepared.counts(&components[..position]);
                assert!(drawn.into_iter().eq(counted.iter().map(|&count| count as u64)));
            }
        }
    }
    let other = Order::Random.prepare(&Parts(vec![9]), Subset::All(9)).unwrap();
    assert_eq!(other.drawn(SEED, Epoch(0), 5), None);
}

// Changes after a checkpoint

#[test]
fn a_change_leaves_what_came_before_it() {
    let before = || DataMixture::new([0.9, 0.1]).at_epoch(3.0, [0.5, 0.5]);
    let old = Prepared::new(before(), &[600, 400]);
    let changed = before().changed_at(1, 300, DataMixture::new([0.0, 1.0]));
    let new = Prepared::new(changed.clone(), &[600, 400]);
    assert_eq!(old.ids(0), new.ids(0));
    assert_eq!(old.ids(1)[..300], new.ids(1)[..300]);
    assert_eq!(new.components(1)[300..], [1; 700]);
    assert_eq!(new.components(3), [1; 1000]);
    // The passes go on: 400 samples of the second component come before one comes again.
    let both = [new.ids(0), new.ids(1)].concat();
    let mut once: Vec<u64> = both.into_iter().filter(|&id| id >= 600).take(400).collect();
    once.sort_unstable();
    assert!(once.into_iter().eq(600..1000));
    let again = changed.changed_at(1, 500, DataMixture::new([1.0, 0.0]).at_epoch(2.0, [0.5, 0.5]));
    let again = Prepared::new(again, &[600, 400]);
    assert_eq!(again.ids(1)[..500], new.ids(1)[..500]);
    assert_eq!(again.components(1)[500..], [0; 500]);
    assert_eq!(again.counts(&again.components(2)), [500, 500]);
}

/// Samples that tell their component and their number.
struct Part(Facts, i64);

impl Source for Part {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        Ok(vec![OwnedValue::Int(self.1), OwnedValue::Int(i64::try_from(sample.0)?)])
    }
}

fn both() -> Concat {
    let part = |number, samples| {
        let fields = [("part", FieldKind::Int), ("number", FieldKind::Int)];
        Arc::new(Part(Facts::new(fields, samples), number)) as Arc<dyn Source>
    };
    Concat::new([part(0, 300), part(1, 100)]).unwrap()
}

fn loader(mixture: DataMixture, rank: u32, world: u32) -> Loader {
    let ranks = Ranks::new(rank, world, Uneven::Drop).unwrap();
    let builder = Loader::from_source(both()).order(Order::Mixture(mixture)).seed(SEED);
    builder.batch_size(24 / world as usize).ranks(ranks).workers(2).build().unwrap()
}

/// The component and the number of each sample.
fn rows(batches: impl Iterator<Item = Result<Batch, Error>>) -> Vec<(i64, i64)> {
    let of = |batch: Result<Batch, Error>| {
        let batch = batch.unwrap();
        let values = |name| batch.tensor::<i64>(name).unwrap().as_slice().to_vec();
        values("part").into_iter().zip(values("number")).collect::<Vec<_>>()
    };
    batches.flat_map(of).collect()
}

/// The rows of all ranks, in the order of one.
fn together(shares: &[Vec<(i64, i64)>]) -> Vec<(i64, i64)> {
    (0..shares[0].len()).flat_map(|row| shares.iter().map(move |share| share[row])).collect()
}

#[test]
fn a_loader_resumes_at_each_batch_with_other_ranks() {
    let mixture = || DataMixture::new([0.7, 0.3]).at_step(20, [0.2, 0.8]).linear();
    let whole = rows(loader(mixture(), 0, 1).epoch(1).unwrap());
    let first = loader(mixture(), 0, 1);
    let mut batches = first.epoch(1).unwrap();
    for batch in 0.. {
        let cursor: Cursor = batches.cursor().unwrap().to_string().parse().unwrap();
        let drawn = first.drawn(cursor.epoch, cursor.position).unwrap();
        let before = &whole[..(batch * 24).min(whole.len())];
        let of = |part| before.iter().filter(|(of, _)| *of == part).count() as u64;
        assert_eq!(drawn, [of(0), of(1)]);
        if batch % 5 == 2 && batch * 24 < whole.len() {
            for world in [1, 2, 3] {
                let rest = |rank| rows(loader(mixture(), rank, world).resume(&cursor).unwrap());
                let rest = together(&(0..world).map(rest).collect::<Vec<_>>());
                assert_eq!(rest, whole[batch * 24..][..rest.len()]);
                assert!(rest.len() + 3 > whole.len() - batch * 24);
            }
        }
        if batches.next().transpose().unwrap().is_none() {
            break;
        }
    }
}

#[test]
fn other_weights_are_another_order_unless_the_change_is_named() {
    let old = loader(DataMixture::new([0.7, 0.3]), 0, 1);
    let mut batches = old.epoch(2).unwrap();
    batches.by_ref().take(5).for_each(|batch| drop(batch.unwrap()));
    let cursor: Cursor = batches.cursor().unwrap().to_string().parse().unwrap();
    let whole = rows(old.epoch(2).unwrap());
    let refused = |mixture: DataMixture| {
        loader(mixture, 0, 1).resume(&cursor).map(drop).unwrap_err().to_string()
    };
    let said = "the cursor belongs to another order: a mixture with other weights (`changed_at` continues with \
                others), expected mixture with weights 0.2 : 0.8 of all 400 samples: resume with the same order, or start the epoch again";
    assert_eq!(refused(DataMixture::new([0.2, 0.8])), said);
    let scheduled = refused(DataMixture::new([0.7, 0.3]).at_epoch(9.0, [0.5, 0.5]));
    assert!(scheduled.contains("a mixture with other schedule of weights"), "{scheduled}");
    let stopped = refused(DataMixture::new([0.7, 0.3]).stopping(Stopping::Samples(400)));
    assert!(stopped.contains("a mixture with other end of the epoch"), "{stopped}");

    let changed = |position| {
        DataMixture::new([0.7, 0.3]).changed_at(2, position, DataMixture::new([0.2, 0.8]))
    };
    // A change before the cursor is one that it has not seen.
    let earlier = refused(changed(96));
    assert!(earlier.contains("a mixture with other changes after a checkpoint"), "{earlier}");
    let new = loader(changed(cursor.position), 0, 1);
    new.check_cursor(&cursor).unwrap();
    let mut rest = new.resume(&cursor).unwrap();
    let mut found = rows(rest.by_ref().take(2));
    // A cursor of the changed order resumes it.
    let cursor = rest.cursor().unwrap();
    found.extend(rows(loader(changed(120), 0, 1).resume(&cursor).unwrap()));
    let all = rows(loader(changed(120), 0, 1).epoch(2).unwrap());
    assert_eq!(found, all[120..]);
    assert_eq!(all[..120], whole[..120]);
    let of_0 = |rows: &[(i64, i64)]| rows.iter().filter(|(part, _)| *part == 0).count();
    assert_eq!((of_0(&all[120..]), of_0(&whole)), (56, 280));
    // The end of the epoch is after this change, too.
    assert!(loader(changed(240), 0, 1).resume(&old.cursor().unwrap()).is_err());
}

// Refused mixtures

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let of = |weights: &[f64]| refusal(DataMixture::new(weights), &[5, 0, 7]);
    assert!(of(&[1.0, 1.0]).starts_with("order mixture: 2 weights for a dataset of 3 components"));
    for (weight, shown) in [(f64::NAN, "NaN"), (-1.0, "-1"), (f64::INFINITY, "inf")] {
        let said = of(&[1.0, 0.0, weight]);
        let wrong = "it must be finite and at least 0";
        assert_eq!(said, format!("order mixture: component 2 has the weight {shown}, {wrong}"));
    }
    assert!(of(&[1.0, 1.0, 1.0]).contains("component 1 has the weight 1, but no samples"));
    assert!(of(&[0.0, 0.0, 0.0]).contains("all weights are 0"));
    let refused = |mixture| refusal(mixture, &[50, 70]);
    let mixture = || DataMixture::new([1.0, 2.0]);
    for temperature in [0.0, -1.0, f64::NAN] {
        assert!(refused(DataMixture::by_temperature(temperature)).contains("must be above 0"));
    }
    assert!(refused(mixture().stopping(Stopping::Samples(0))).contains("samples is 0"));
    for epoch in [-1.0, f64::NAN, 1e10] {
        assert!(refused(mixture().at_epoch(epoch, [1.0, 1.0])).contains("it must be from 0 to"));
    }
    let twice = mixture().at_epoch(2.0, [1.0, 1.0]).at_epoch(2.0, [1.0, 3.0]);
    assert!(refused(twice).contains("name the points in the order of time"));
    for stopping in [Stopping::FirstExhausted, Stopping::AllExhausted] {
        let varies = mixture().at_epoch(2.0, [1.0, 1.0]).stopping(stopping);
        assert!(refused(varies).contains("epochs of different lengths"));
    }
    let once = Stopping::AllExhaustedWithoutReplacement;
    let zero = mixture().at_epoch(2.0, [1.0, 0.0]).stopping(once);
    assert!(refused(zero).contains("a weight is 0 at some time"));
    let beyond = mixture().changed_at(0, 121, mixture());
    assert!(refused(beyond).contains("which has 120 rows"));
    let back = mixture().changed_at(1, 5, mixture()).changed_at(0, 5, mixture());
    assert!(refused(back).contains("is before the last one"));
    let ends = mixture().changed_at(0, 5, mixture().stopping(Stopping::Samples(9)));
    assert!(refused(ends).contains("give it weights only"));
    let tiny = DataMixture::new([1.0, 1e-12]).stopping(Stopping::AllExhausted);
    assert!(refused(tiny).contains("the limit is 4294967295"));
}
