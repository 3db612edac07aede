//! Permuted rows: as many rows of an image as wanted, in a random order.
//!
//! ```text
//! out[y, x] = in[p_r(y mod H), x]        r = y / H
//! ```
//!
//! where each `p_r` is a pseudo-random permutation of the `H` rows: no row occurs a second time before all have
//! occurred once. It is computed for one row at a time, so that no list of rows is stored: a Feistel network
//! permutes the numbers of `b` bits, the fewest that hold `H - 1`, and is repeated until a number is below `H`
//! (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002). That takes fewer than two turns on average.
//!
//! ```text
//! number = left * 2^(b - b / 2) + right
//! left  ^= mix(right ^ key_0) mod 2^(b / 2)
//! right ^= mix(left ^ key_1) mod 2^(b - b / 2)
//! ...                                                    six such rounds, with a key each
//! ```
//!
//! `mix` is the hash of [noise](crate::noise). `b` is at least 6: of numbers of fewer bits, six rounds reach some
//! orders more often than others.
//!
//! | | |
//! |--------|---------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart |
//! | output | u8 `[rows, W, C]`                                 |
//! | random | nothing: the keys are fields of the filter        |
//! | cost   | a copy of each row, and about 20 hashes           |

use crate::noise::mix;
use crate::shape::ImageView;
use std::ops::Range;

/// Rows of an image in a random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowPermutation {
    /// The number of rows of the output.
    pub rows: u32,
    /// Random words, which determine the order.
    pub keys: [u32; 2],
}

/// The number of rounds of the network: an even number.
const ROUNDS: usize = 6;

/// The fewest bits of a number that is permuted.
const FEWEST_BITS: u32 = 6;

/// 2^32 over the golden ratio: distinguishes the rounds.
const GOLDEN: u32 = 0x9e37_79b9;

impl RowPermutation {
    /// Returns the row of an image of `height` rows that is copied to row `y` of the output. `height` must not be
    /// 0.
    #[inline(always)]
    pub(super) fn source(self, height: u32, y: u32) -> u32 {
        let (repetition, mut row) = (y / height, y % height);
        let key = mix(self.keys[0] ^ repetition) ^ self.keys[1];
        let keys: [u32; ROUNDS] =
            std::array::from_fn(|round| mix(key.wrapping_add(GOLDEN.wrapping_mul(round as u32))));
        let bits = (u32::BITS - (height - 1).leading_zeros()).max(FEWEST_BITS);
        // The turns end: they follow a cycle of the network, which contains the first number.
        loop {
            row = permuted(row, bits, &keys);
            if row < height {
                return row;
            }
        }
    }

    pub(super) fn eval(self, input: &ImageView<'_>) -> Vec<u8> {
        let height = input.size().height;
        let row = input.size().width as usize * input.channels();
        let source = |y| &input.row(self.source(height, y))[..row];
        (0..self.rows).flat_map(source).copied().collect()
    }
}

/// Returns the number that the network makes of a number of `bits` bits.
#[inline(always)]
fn permuted(number: u32, bits: u32, keys: &[u32; ROUNDS]) -> u32 {
    let low_bits = bits - bits / 2;
    let (left_mask, right_mask) = ((1 << (bits / 2)) - 1, (1 << low_bits) - 1);
    let (mut left, mut right) = (number >> low_bits, number & right_mask);
    for [first, second] in keys.as_chunks().0 {
        left ^= mix(right ^ first) & left_mask;
        right ^= mix(left ^ second) & right_mask;
    }
    left << low_bits | right
}

/// The permuted rows of one image.
#[derive(Debug)]
pub(super) struct PermutedRows<'a> {
    permutation: RowPermutation,
    input: ImageView<'a>,
    columns: Range<u32>,
}

impl<'a> PermutedRows<'a> {
    pub(super) fn new(
        permutation: RowPermutation,
        input: ImageView<'a>,
        columns: Range<u32>,
    ) -> Self {
        Self { permutation, input, columns }
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&self, y: u32, out: &mut [u8]) {
        let row = self.input.row(self.permutation.source(self.input.size().height, y));
        out.copy_from_slice(&row[self.columns.start as usize * C..][..out.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn permutations(rows: u32, count: usize) -> impl Iterator<Item = RowPermutation> {
        let mut rng = Rng::new(5);
        std::iter::repeat_with(move || [rng.word(), rng.word()])
            .take(count)
            .map(move |keys| RowPermutation { rows, keys })
    }

    #[test]
    fn each_row_occurs_once_before_any_occurs_twice() {
        let heights = (1..70).chain([127, 128, 129, 1000, 4097]);
        for (height, permutation) in heights.zip(permutations(0, 100)) {
            for repetition in 0..3 {
                let first = repetition * height;
                let rows = (first..first + height).map(|y| permutation.source(height, y));
                let mut seen = vec![false; height as usize];
                for row in rows {
                    assert!(!seen[row as usize], "row {row} of {height} occurs twice");
                    seen[row as usize] = true;
                }
            }
        }
    }

    #[test]
    fn repetitions_have_orders_of_their_own() {
        for permutation in permutations(300, 50) {
            let order = |repetition: u32| -> Vec<u32> {
                (0..100).map(|y| permutation.source(100, 100 * repetition + y)).collect()
            };
            let (first, second) = (order(0), order(1));
            let same = first.iter().zip(&second).filter(|(a, b)| a == b).count();
            assert!(same < 8, "{same} of 100 rows are at the same place, expected 1");
        }
    }

    /// The statistic of `seen` numbers that should be equal, in standard deviations from its mean: chi squared
    /// with `free` degrees of freedom.
    fn excess(seen: &[u32], free: usize) -> f64 {
        let mean = seen.iter().map(|n| f64::from(*n)).sum::<f64>() / seen.len() as f64;
        let sum: f64 = seen.iter().map(|n| (f64::from(*n) - mean).powi(2) / mean).sum();
        (sum - free as f64) / (2.0 * free as f64).sqrt()
    }

    /// Chi squared is practically always within five deviations of its mean.
    #[test]
    fn every_row_is_equally_likely_everywhere_and_so_is_every_pair_of_rows() {
        for height in [2, 3, 4, 5, 6, 8, 13, 16, 33, 64, 65, 100] {
            let side = height as usize;
            let near = [(0, 1), (0, height - 1), (height / 2, height / 2 - 1)];
            let mut places = vec![0; side * side];
            let mut pairs = vec![vec![0; side * side]; near.len()];
            for permutation in permutations(height, 20_000) {
                for y in 0..height {
                    places[y as usize * side + permutation.source(height, y) as usize] += 1;
                }
                for ((a, b), seen) in near.iter().zip(&mut pairs) {
                    let [a, b] = [a, b].map(|y| permutation.source(height, *y) as usize);
                    seen[a * side + b] += 1;
                }
            }
            let found = excess(&places, (side - 1) * (side - 1));
            assert!(found < 5.0, "places of {height} rows: {found}");
            for (near, seen) in near.iter().zip(pairs) {
                let of_two = |(k, n): (usize, u32)| (k / side != k % side).then_some(n);
                let seen: Vec<u32> = seen.into_iter().enumerate().filter_map(of_two).collect();
                let found = excess(&seen, seen.len() - 1);
                assert!(found < 5.0, "{near:?} of {height} rows: {found}");
            }
        }
    }

    #[test]
    fn every_order_of_five_rows_is_equally_likely() {
        let mut seen = std::collections::BTreeMap::<Vec<u32>, u32>::new();
        for permutation in permutations(5, 20_000) {
            *seen.entry((0..5).map(|y| permutation.source(5, y)).collect()).or_default() += 1;
        }
        let seen: Vec<u32> = seen.into_values().collect();
        assert_eq!(seen.len(), 120);
        assert!(excess(&seen, 119) < 5.0, "{}", excess(&seen, 119));
    }

    /// A change of this order changes the epochs of every user: it needs a new version of the crate.
    #[test]
    fn the_first_order_never_changes() {
        let permutation = RowPermutation { rows: 10, keys: [1, 2] };
        let order: Vec<u32> = (0..10).map(|y| permutation.source(8, y)).collect();
        assert_eq!(order, [6, 4, 1, 2, 0, 3, 7, 5, 1, 3]);
    }
}
