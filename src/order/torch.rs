//! `torch.randperm` on a seeded generator, bit for bit: torch's `DistributedSampler` shuffles with it.
//!
//! ```text
//! seed      the low 32 bits of torch's 64
//! word      MT19937 (Matsumoto and Nishimura, 1998), tempered
//! randperm  n < (2^32 - 1) / 20   r = 0..n; for i = 0..n-1: swap r[i], r[i + word mod (n - i)]
//!           else                  for i = 0..n: z = two words, high first, mod (i + 1);
//!                                               r[i] = r[z], or i if z is i; r[z] = i
//! ```
//!
//! `word mod (n - i)` favours small values by at most one part in 20; this bias is torch's.
//!
//! Sources: ATen's `randperm` for CPUs and `CPUGeneratorImpl`; the test vectors are of torch 2.15. As in
//! numpy's shuffle, the draws of a block are computed ahead of its swaps.

use super::memory::counted;
use crate::error::Error;
use crate::sample::Epoch;

/// The number of words of the generator's state, which is also the number generated per block.
const WORDS: usize = 624;
/// The distance of the words that are mixed.
const MIDDLE: usize = 397;
/// For at least this many rows, torch uses two words per draw.
const MANY: u32 = u32::MAX / 20;

/// Returns the seed that torch's samplers use for an epoch. The sum wraps here; torch raises an error
/// for a sum beyond 64 bits.
pub(super) fn seed(seed: u64, epoch: Epoch) -> u64 {
    seed.wrapping_add(u64::from(epoch.index()))
}

/// Computes `torch.randperm(count, generator=torch.Generator().manual_seed(seed))`.
pub(super) fn permutation(seed: u64, count: u32) -> Result<Vec<u32>, Error> {
    let mut rows = counted(count)?;
    let mut words = Mt19937::new(seed as u32);
    if count < MANY {
        shuffle(&mut words, &mut rows, count);
    } else {
        shuffle_many(&mut words, &mut rows);
    }
    Ok(rows)
}

/// Shuffles `rows`, of which there are `count`, by one word per draw.
fn shuffle(words: &mut Mt19937, rows: &mut [u32], count: u32) {
    let mut index = 0;
    while index + 1 < count {
        let left = (count - 1 - index).min(WORDS as u32);
        let mut draws = words.block();
        for (index, draw) in (index..index + left).zip(&mut draws) {
            *draw = index + *draw % (count - index);
        }
        for (index, &other) in (index..index + left).zip(&draws) {
            rows.swap(index as usize, other as usize);
        }
        index += left;
    }
}

/// Shuffles many rows, inside out: the next row goes to a random index among the earlier ones, and the
/// row there goes to the end. This is a swap, because each row still is its own index when its turn
/// comes.
fn shuffle_many(words: &mut Mt19937, rows: &mut [u32]) {
    let mut halves = std::iter::from_fn(|| Some(words.block())).flatten();
    let mut half = || u64::from(halves.next().unwrap_or_default());
    for index in 0..rows.len() {
        let word = half() << 32 | half();
        rows.swap(index, (word % (index as u64 + 1)) as usize);
    }
}

/// The Mersenne Twister, generated one whole state at a time.
struct Mt19937 {
    state: [u32; WORDS],
}

impl Mt19937 {
    fn new(seed: u32) -> Self {
        let mut state = [seed; WORDS];
        for index in 1..WORDS {
            let before = state[index - 1];
            state[index] =
                1_812_433_253u32.wrapping_mul(before ^ before >> 30).wrapping_add(index as u32);
        }
        Self { state }
    }

    /// Returns the next 624 words.
    fn block(&mut self) -> [u32; WORDS] {
        // Three loops, so that no index needs a modulo: the compiler vectorizes them.
        let state = &mut self.state;
        for index in 0..WORDS - MIDDLE {
            state[index] = state[index + MIDDLE] ^ twist(state[index], state[index + 1]);
        }
        for index in WORDS - MIDDLE..WORDS - 1 {
            state[index] = state[index + MIDDLE - WORDS] ^ twist(state[index], state[index + 1]);
        }
        state[WORDS - 1] = state[MIDDLE - 1] ^ twist(state[WORDS - 1], state[0]);
        state.map(tempered)
    }
}

/// Multiplies the top bit of one word and the rest of the next by the twist matrix.
fn twist(word: u32, next: u32) -> u32 {
    let joined = (word & 0x8000_0000) | (next & 0x7fff_ffff);
    joined >> 1 ^ (next & 1).wrapping_neg() & 0x9908_b0df
}

fn tempered(word: u32) -> u32 {
    let word = word ^ word >> 11;
    let word = word ^ word << 7 & 0x9d2c_5680;
    let word = word ^ word << 15 & 0xefc6_0000;
    word ^ word >> 18
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_seed_gives_the_reference_words() {
        // The first words of mt19937ar.c, init_genrand(5489), and the 10,000th, as C++ states it.
        let mut words = Mt19937::new(5489);
        let drawn: Vec<u32> = (0..17).flat_map(|_| words.block()).collect();
        assert_eq!(drawn[..3], [3_499_211_612, 581_869_302, 3_890_346_734]);
        assert_eq!(drawn[9999], 4_123_659_995);
    }

    #[test]
    fn draws_ahead_are_the_draws_one_by_one() {
        for count in (0..1300).chain([5000, 100_000]) {
            let mut words = Mt19937::new(count);
            let mut words = std::iter::from_fn(|| Some(words.block())).flatten();
            let mut plainly = counted(count).unwrap();
            for index in 0..count.saturating_sub(1) {
                let other = index + words.next().unwrap() % (count - index);
                plainly.swap(index as usize, other as usize);
            }
            assert!(permutation(u64::from(count), count).unwrap() == plainly, "{count} rows");
        }
    }

    #[test]
    fn many_rows_take_two_words_a_draw() {
        // The seed's first words are 3499211612, 581869302, 3890346734, 3586334585, 545404204,
        // 4161255391. The expected rows are computed by hand, as described at the top of the file.
        let mut rows = vec![0, 1, 2];
        shuffle_many(&mut Mt19937::new(5489), &mut rows);
        let second = ((3_890_346_734u64 << 32 | 3_586_334_585) % 2) as usize;
        let third = ((545_404_204u64 << 32 | 4_161_255_391) % 3) as usize;
        let mut want = [0, 0, 0];
        want[1] = if second == 1 { 1 } else { want[second] };
        want[second] = 1;
        want[2] = if third == 2 { 2 } else { want[third] };
        want[third] = 2;
        assert_eq!(rows, want);
    }
}
