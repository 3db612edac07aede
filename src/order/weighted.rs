//! Weighted: samples with more weight come more often, or are more likely to come at all.
//!
//! ```text
//! with replacement      each of `samples` draws is sample i with probability w[i] / (sum of w)
//! without               the same, among the samples not drawn yet: each comes at most once
//! ```
//!
//! | | |
//! |---|---|
//! | input | a weight for each sample of the dataset, finite, at least 0; those of the subset count |
//! | output | `samples` rows |
//! | random | seed and epoch |
//! | cost | with: 8 bytes a sample held, some 10 ns a draw. Without: a sort in each epoch |
//!
//! This has the distribution of torch's `WeightedRandomSampler`, not its bits. With replacement, by
//! Walker's alias table as built by Vose (1991): every column has two samples, and a probability in
//! steps of 2^-32. Without, by Efraimidis and Spirakis (2006): the smallest of `exponential / w[i]`, in
//! order.

use super::memory::reserved;
use super::random::{exponential, generator};
use super::subset::Subset;
use crate::error::{Error, fail};
use crate::sample::{Epoch, SampleId};
use fuseloop_ops::author::Rng;
use std::sync::Arc;

pub(super) const NAME: &str = "weighted";

/// The number of rows to draw, and the table or weights they are drawn from.
#[derive(Debug)]
pub(super) struct Weighted {
    samples: u32,
    from: WeightedDraw,
}

#[derive(Debug)]
enum WeightedDraw {
    /// With replacement: the alias table, a column for each row.
    Table(Vec<AliasColumn>),
    /// Without replacement: the weights of the dataset's samples, and the largest one in the subset.
    Weights { weights: Arc<[f64]>, largest: f64 },
}

/// A column of the alias table: its own row for words below `limit`, otherwise row `other`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AliasColumn {
    limit: u32,
    other: u32,
}

impl Weighted {
    /// Prepares draws of `samples` rows of `subset` by the `weights` of the dataset's samples.
    pub(super) fn new(
        weights: &Arc<[f64]>,
        subset: &Subset,
        samples: u32,
        replacement: bool,
    ) -> Result<Self, Error> {
        if samples == 0 {
            return Err(fail!(Parameter, "order {NAME}: samples is 0, it must be at least 1"));
        }
        check(weights)?;
        let of_rows = || subset.iter().map(|sample| weights[sample.0 as usize]);
        let weighed = of_rows().filter(|&weight| weight > 0.0).count() as u64;
        let drawn = if replacement { 1 } else { u64::from(samples) };
        if weighed < drawn {
            return Err(fail!(
                Parameter,
                "order weighted: {drawn} samples to draw, but {weighed} have a weight above 0"
            ));
        }
        let largest = of_rows().fold(0.0, f64::max);
        let from = if replacement {
            // Relative to the largest weight, so that the sum is finite for any weights.
            let mut shares = reserved(subset.len())?;
            shares.extend(of_rows().map(|weight| weight / largest));
            WeightedDraw::Table(alias_table(shares)?)
        } else {
            WeightedDraw::Weights { weights: Arc::clone(weights), largest }
        };
        Ok(Self { samples, from })
    }

    pub(super) fn rows(&self, subset: &Subset, seed: u64, epoch: Epoch) -> Result<Vec<u32>, Error> {
        let mut rng = generator(seed, epoch, NAME);
        match &self.from {
            WeightedDraw::Table(table) => with_replacement(table, self.samples, &mut rng),
            WeightedDraw::Weights { weights, largest } => {
                let share = |sample: SampleId| match weights[sample.0 as usize] {
                    0.0 => 0.0,
                    // A weight above 0 keeps a nonzero probability, however small it is relative to the
                    // largest.
                    weight => (weight / largest).max(f64::MIN_POSITIVE),
                };
                let mut shares = reserved(subset.len())?;
                shares.extend(subset.iter().map(share));
                without_replacement(&shares, self.samples, &mut rng)
            }
        }
    }

    /// Returns the number of rows of an epoch.
    pub(super) fn len(&self) -> u32 {
        self.samples
    }

    /// Returns true if a row may come twice.
    pub(super) fn may_repeat(&self) -> bool {
        matches!(self.from, WeightedDraw::Table(_))
    }

    /// Returns the bytes held in addition to the order's weights.
    pub(super) fn bytes(&self) -> usize {
        match &self.from {
            WeightedDraw::Table(table) => table.capacity() * size_of::<AliasColumn>(),
            WeightedDraw::Weights { .. } => 0,
        }
    }
}

fn check(weights: &[f64]) -> Result<(), Error> {
    let is_wrong = |weight: f64| !weight.is_finite() || weight < 0.0;
    match (0..).zip(weights).find(|(_, weight)| is_wrong(**weight)) {
        None => Ok(()),
        Some((sample, &weight)) => {
            Err(fail!(
                Parameter,
                "order weighted: sample {sample} has the weight {weight}, it must be finite and at least 0"
            )
            .of_sample(SampleId(sample)))
        }
    }
}

/// Builds Vose's table: the column of a row with less than the mean is filled up by a row with more,
/// which keeps the rest. `shares` are in `0.0..=1.0`, and one of them is 1.
fn alias_table(mut shares: Vec<f64>) -> Result<Vec<AliasColumn>, Error> {
    let rows = shares.len() as u64;
    let scale = rows as f64 / shares.iter().sum::<f64>();
    shares.iter_mut().for_each(|share| *share *= scale);
    let (mut less, mut more): (Vec<u32>, Vec<u32>) = (reserved(rows)?, reserved(rows)?);
    let mut heaviest = 0;
    for (row, &share) in (0..).zip(&shares) {
        if share < 1.0 {
            less.push(row);
        } else {
            more.push(row);
        }
        if share > shares[heaviest as usize] {
            heaviest = row;
        }
    }
    let mut table = reserved(rows)?;
    // A row left over at the end equals the mean: its whole column is its own.
    table.extend((0..rows as u32).map(|row| AliasColumn { limit: u32::MAX, other: row }));
    while let Some(&filler) = more.last() {
        let Some(row) = less.pop() else { break };
        let limit = (shares[row as usize] * 2f64.powi(32)) as u32;
        table[row as usize] = AliasColumn { limit, other: filler };
        let rest = shares[filler as usize] + shares[row as usize] - 1.0;
        shares[filler as usize] = rest;
        if rest < 1.0 {
            more.pop();
            less.push(filler);
        }
    }
    // Rounding must not give a nonzero probability to a row of weight 0.
    for row in less.into_iter().filter(|&row| shares[row as usize] == 0.0) {
        table[row as usize] = AliasColumn { limit: 0, other: heaviest };
    }
    Ok(table)
}

fn with_replacement(table: &[AliasColumn], samples: u32, rng: &mut Rng) -> Result<Vec<u32>, Error> {
    let mut rows = reserved(u64::from(samples))?;
    rows.extend((0..samples).map(|_| {
        let row = rng.below(table.len() as u32);
        let column = table[row as usize];
        if rng.word() < column.limit { row } else { column.other }
    }));
    Ok(rows)
}

fn without_replacement(shares: &[f64], samples: u32, rng: &mut Rng) -> Result<Vec<u32>, Error> {
    let mut arrivals: Vec<(f64, u32)> = reserved(shares.len() as u64)?;
    for (row, &share) in (0..).zip(shares).filter(|(_, share)| **share > 0.0) {
        arrivals.push((exponential(rng) / share, row));
    }
    let earlier = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let samples = samples as usize;
    if samples < arrivals.len() {
        arrivals.select_nth_unstable_by(samples, earlier);
        arrivals.truncate(samples);
    }
    arrivals.sort_unstable_by(earlier);
    Ok(arrivals.into_iter().map(|(_, row)| row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the probability of each row by a table, relative to the mean.
    fn chances(table: &[AliasColumn]) -> Vec<f64> {
        let mut chances = vec![0.0; table.len()];
        for (row, column) in table.iter().enumerate() {
            chances[row] += f64::from(column.limit) / 2f64.powi(32);
            chances[column.other as usize] += 1.0 - f64::from(column.limit) / 2f64.powi(32);
        }
        chances
    }

    #[test]
    fn a_table_has_the_chances_of_the_weights() {
        for weights in [
            &[1.0, 1.0, 1.0][..],
            &[0.25, 1.0, 0.5, 0.0],
            &[0.0, 0.0, 1.0, 0.0],
            &[1.0, 1e-12, 0.3, 0.7, 0.1, 0.9],
            &[1.0],
        ] {
            let mean = weights.iter().sum::<f64>() / weights.len() as f64;
            let table = alias_table(weights.to_vec()).unwrap();
            for (chance, weight) in chances(&table).iter().zip(weights) {
                assert!((chance - weight / mean).abs() < 1e-8, "{weights:?}: {table:?}");
            }
        }
    }

    #[test]
    fn no_weight_is_no_chance() {
        let mut rng = generator(1, Epoch(0), "test");
        let shares: Vec<f64> = (0..1000).map(|row| f64::from(row % 3) / 2.0).collect();
        let table = alias_table(shares.clone()).unwrap();
        let rows = with_replacement(&table, 100_000, &mut rng).unwrap();
        assert!(rows.iter().all(|row| row % 3 != 0));
        let rows = without_replacement(&shares, 666, &mut rng).unwrap();
        assert!(rows.iter().all(|row| row % 3 != 0) && rows.len() == 666);
    }

    #[test]
    fn weights_at_the_ends_of_their_range_are_drawn() {
        for weights in [[f64::MAX, f64::MAX, 0.0], [5e-324, 5e-324, 0.0], [f64::MAX, 5e-324, 0.0]] {
            let weights = Arc::from(weights);
            for replacement in [true, false] {
                let drawn = Weighted::new(&weights, &Subset::All(3), 2, replacement).unwrap();
                let rows = drawn.rows(&Subset::All(3), 1, Epoch(0)).unwrap();
                assert!(rows.len() == 2 && !rows.contains(&2), "{weights:?} {rows:?}");
            }
        }
    }
}
