//! Permuted: each sample once, shuffled by a function of the position instead of a list.
//!
//! ```text
//! grid     a = ceil(sqrt n) rows, b = ceil(n / a) columns: n <= a b < n + a; number x is in row x / b, column x mod b
//! round k  row = (row + F(k, column)) mod a if k is even, column = (column + F(k, row)) mod b if it is odd
//! F        the finalizer of MurmurHash3 of the number and a 64-bit key, which is drawn for each round
//! walk     12 rounds; again, while the number that results is n or above
//! small n  up to 65,536: a shuffled list
//! ```
//!
//! Each round only adds to one coordinate what the other one says, so that it can be undone: it permutes the grid. Of
//! a permutation of the grid, walking from a number below n to the next number below n permutes these numbers: the walk
//! ends, since it would otherwise come back to where it began, which is below n. The grid has fewer than a numbers above,
//! so that about one walk in a takes a second turn. This is a Feistel network on two numbers of any range (Black and
//! Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
//!
//! | | |
//! |---|---|
//! | input | the number of samples |
//! | output | each row once |
//! | random | seed and epoch; its statistics are those of a shuffle, but it is not cryptography |
//! | cost | 152 bytes, and 256 KB for lists of small datasets; nanoseconds a sample; any position at once |

use super::memory::counted;
use super::random::{generator, shuffle};
use crate::error::Error;
use crate::sample::Epoch;
use fuseloop_ops::author::Rng;

pub(super) const NAME: &str = "permuted";

/// The most samples that are shuffled as a list: in the order of a smaller grid, statistics could see its rows.
const LISTED: u64 = 1 << 16;

const ROUNDS: usize = 12;

/// A permutation of the numbers below n.
#[derive(Debug)]
pub(super) enum Permutation {
    Listed(Vec<u32>),
    Grid { samples: u64, rows: u64, columns: u64, keys: [u64; ROUNDS] },
}

impl Permutation {
    pub(super) fn new(seed: u64, epoch: Epoch, samples: u64) -> Result<Self, Error> {
        Self::drawn(&mut generator(seed, epoch, NAME), samples)
    }

    /// Returns a permutation that a generator draws.
    pub(super) fn drawn(rng: &mut Rng, samples: u64) -> Result<Self, Error> {
        if samples <= LISTED {
            let mut list = counted(samples as u32)?;
            shuffle(rng, &mut list);
            return Ok(Self::Listed(list));
        }
        let rows = samples.isqrt() + u64::from(samples.isqrt().pow(2) < samples);
        let keys = std::array::from_fn(|_| u64::from(rng.word()) << 32 | u64::from(rng.word()));
        Ok(Self::Grid { samples, rows, columns: samples.div_ceil(rows), keys })
    }

    /// Returns the number at a position below n.
    pub(super) fn at(&self, position: u64) -> u64 {
        let (samples, rows, columns, keys) = match self {
            Self::Listed(list) => return u64::from(list[position as usize]),
            Self::Grid { samples, rows, columns, keys } => (*samples, *rows, *columns, keys),
        };
        let mut number = position;
        loop {
            let (mut row, mut column) = (number / columns, number % columns);
            for pair in keys.chunks_exact(2) {
                row = (row + below(column, pair[0], rows)) % rows;
                column = (column + below(row, pair[1], columns)) % columns;
            }
            number = row * columns + column;
            if number < samples {
                return number;
            }
        }
    }

    /// Returns the bytes held beside the value itself.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Listed(list) => list.capacity() * size_of::<u32>(),
            Self::Grid { .. } => 0,
        }
    }
}

/// Returns a number below `end` that a number and a key determine.
fn below(number: u64, key: u64, end: u64) -> u64 {
    let mut hash = number ^ key;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    ((u128::from(hash) * u128::from(end)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seed: u64, samples: u64) -> Permutation {
        Permutation::new(seed, Epoch(0), samples).unwrap()
    }

    /// A grid even of few samples, whose statistics would show what a large one hides.
    fn grid(seed: u64, samples: u64) -> Permutation {
        let Permutation::Grid { keys, .. } = of(seed, LISTED + 1) else { unreachable!() };
        let rows = samples.isqrt() + u64::from(samples.isqrt().pow(2) < samples);
        Permutation::Grid { samples, rows, columns: samples.div_ceil(rows), keys }
    }

    #[test]
    fn each_number_comes_once() {
        let sizes =
            (1..300).chain([LISTED - 1, LISTED, LISTED + 1, LISTED + 2, 256 * 257, 1_000_003]);
        for samples in sizes {
            for permutation in [of(samples, samples), grid(samples, samples)] {
                let mut is_seen = vec![false; samples as usize];
                (0..samples).for_each(|at| {
                    let seen = &mut is_seen[permutation.at(at) as usize];
                    assert!(!std::mem::replace(seen, true), "{samples} {at}");
                });
            }
        }
    }

    #[test]
    fn any_number_of_samples_has_a_grid() {
        for samples in [1 << 32, 1_000_000_000_000, u64::MAX - 1, u64::MAX] {
            let permutation = of(1, samples);
            let Permutation::Grid { rows, columns, .. } = permutation else { unreachable!() };
            let cells = u128::from(rows) * u128::from(columns);
            let samples_wide = u128::from(samples);
            assert!(cells >= samples_wide && cells < samples_wide + u128::from(rows));
            let positions = [0, 1, samples / 2, samples - 2, samples - 1];
            let mut found = positions.map(|at| permutation.at(at));
            assert!(found.iter().all(|&number| number < samples));
            found.sort_unstable();
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
        }
    }

    /// Returns Pearson's statistic of counts that should be alike, in standard deviations from its mean.
    fn deviation(counts: &[u32]) -> f64 {
        let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / counts.len() as f64;
        let squares = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean);
        let freedom = (counts.len() - 1) as f64;
        (squares.sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
    }

    /// Over many seeds, a position has each number equally often, and two neighbours have each pair of numbers.
    #[test]
    fn positions_and_pairs_are_uniform() {
        for samples in [70_000, 1_000_000_007, 1_000_000_000_000_u64] {
            for position in [0, 1, samples / 3, samples - 2] {
                let mut places = vec![0; 64];
                let mut pairs = vec![0; 64];
                let eighth = |number: u64| (u128::from(number) * 8 / u128::from(samples)) as usize;
                for seed in 0..20_000 {
                    let permutation = of(seed, samples);
                    let (first, second) = (permutation.at(position), permutation.at(position + 1));
                    places[(u128::from(first) * 64 / u128::from(samples)) as usize] += 1;
                    pairs[8 * eighth(first) + eighth(second)] += 1;
                }
                for counts in [&places, &pairs] {
                    let deviation = deviation(counts);
                    assert!(deviation.abs() < 4.5, "{samples} {position}: {deviation}");
                }
            }
        }
    }

    /// Within one epoch, numbers do not follow from the numbers `lag` positions before, nor their last bits from those of
    /// the positions.
    #[test]
    fn an_epoch_has_no_serial_correlation() {
        for samples in [70_000, 1_000_000, 1_000_000_000_000_u64] {
            let permutation = of(7, samples);
            let count = samples.min(200_000);
            let unit: Vec<f64> =
                (0..count).map(|at| permutation.at(at) as f64 / samples as f64 - 0.5).collect();
            let columns = samples.isqrt() as usize;
            for lag in [1, 2, 3, 8, 64, 256, 257, 1000, columns, columns + 1] {
                let Some(after) = unit.get(lag..).filter(|after| after.len() > 10_000) else {
                    continue;
                };
                let products = unit.iter().zip(after).map(|(a, b)| 12.0 * a * b);
                let deviation = products.sum::<f64>() / (after.len() as f64).sqrt();
                assert!(deviation.abs() < 4.5, "{samples} {lag}: {deviation}");
            }
            let odd = (0..count).filter(|&at| (permutation.at(at) ^ at) & 1 == 1).count() as f64;
            let deviation = (odd - count as f64 / 2.0) / (count as f64 / 4.0).sqrt();
            assert!(deviation.abs() < 4.5, "{samples}: {deviation}");
        }
    }

    /// Fixed points and ascents are as many as those of a shuffle: one, and half of the positions.
    #[test]
    fn fixed_points_and_ascents_are_those_of_shuffles() {
        let (samples, seeds) = (70_000, 60);
        let (mut fixed, mut ascents) = (0, 0);
        for seed in 0..seeds {
            let permutation = of(seed, samples);
            let numbers: Vec<u64> = (0..samples).map(|at| permutation.at(at)).collect();
            fixed += numbers.iter().zip(0..).filter(|&(&number, at)| number == at).count();
            ascents += numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        }
        let of_fixed = (fixed as f64 - seeds as f64) / (seeds as f64).sqrt();
        let pairs = (seeds * (samples - 1)) as f64;
        let of_ascents = (ascents as f64 - pairs / 2.0) / (pairs / 12.0).sqrt();
        assert!(of_fixed.abs() < 4.5 && of_ascents.abs() < 4.5, "{of_fixed} {of_ascents}");
    }

    #[test]
    fn seeds_and_epochs_differ() {
        let first = |seed, epoch| {
            let permutation = Permutation::new(seed, Epoch(epoch), 1 << 40).unwrap();
            [permutation.at(0), permutation.at(1)]
        };
        assert_eq!(first(1, 0), first(1, 0));
        assert!(first(1, 0) != first(2, 0) && first(1, 0) != first(1, 1));
    }
}
