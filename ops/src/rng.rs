//! Random parameters: each op draws them from its own generator for each sample.
//!
//! The generator is Xoshiro256++ (Blackman and Vigna, arXiv:1805.01407). Its seed depends on the
//! identity of the sample, never on the worker that processes it:
//!
//! ```text
//! state = SplitMix64( mix(mix(mix(mix(seed) ^ epoch) ^ sample) ^ field) ^ stream of the op )
//! ```
//!
//! So the same sample in the same epoch gets the same pixels for any number of threads, any batch
//! size, on any rank, and after any resume.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The key that determines a sample's draws, together with the op's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleKey {
    word: u64,
    sample: u64,
    epoch: u32,
}

impl SampleKey {
    /// Returns the key of `sample` in `epoch` of a loader with `seed`.
    #[must_use]
    pub fn new(seed: u64, epoch: u32, sample: u64) -> Self {
        Self { word: mix(mix(mix(seed) ^ u64::from(epoch)) ^ sample), sample, epoch }
    }

    /// Returns the key of a repetition of the sample in the same epoch: `copy` is the number of
    /// earlier occurrences.
    #[must_use]
    pub fn copy(self, copy: u32) -> Self {
        match copy {
            0 => self,
            // Inverted, so that no repetition has the word of a field.
            _ => Self { word: mix(self.word ^ !u64::from(copy)), ..self },
        }
    }

    /// Returns the key of one field of the sample: the same op on two fields draws independently.
    #[must_use]
    pub fn field(self, field: usize) -> Self {
        Self { word: mix(self.word ^ field as u64), ..self }
    }

    /// Returns the generator of the op with this stream: see [`stream`].
    #[must_use]
    pub fn op(self, stream: u64) -> Rng {
        Rng::new(self.word ^ stream)
    }

    /// Returns the sample, for ops that depend on its index.
    #[must_use]
    pub fn sample(self) -> u64 {
        self.sample
    }

    /// Returns the epoch, for ops that depend on it.
    #[must_use]
    pub fn epoch(self) -> u32 {
        self.epoch
    }
}

/// Returns the stream of the op called `name`, which is number `occurrence` of this name in its
/// list, from 0. Adding or removing an op does not change the draws of ops with other names, and
/// two lists that share some ops can share their draws.
#[must_use]
pub fn stream(name: &str, occurrence: usize) -> u64 {
    name.bytes().fold(mix(occurrence as u64), |word, byte| mix(word ^ u64::from(byte)))
}

/// The key that determines the draws of ops on whole batches.
///
/// ```text
/// state = SplitMix64( mix(mix(mix(mix(seed) ^ epoch) ^ !batch) ^ name of the op) ^ occurrence )
/// ```
///
/// The key does not depend on the output that lists the op: the op draws the same for an image and
/// its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchKey {
    word: u64,
}

impl BatchKey {
    /// Returns the key of batch number `batch` of `epoch` of a loader with `seed`.
    #[must_use]
    pub fn new(seed: u64, epoch: u32, batch: u64) -> Self {
        // Inverted, so that no batch has the word of a sample.
        Self { word: mix(mix(mix(seed) ^ u64::from(epoch)) ^ !batch) }
    }

    /// Returns the generator of the op called `name`, which is number `occurrence` of this name.
    #[must_use]
    pub fn op(self, name: &str, occurrence: usize) -> Rng {
        let name = name.bytes().fold(0, |word, byte| mix(word ^ u64::from(byte)));
        Rng::new(mix(self.word ^ name) ^ occurrence as u64)
    }
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
#[must_use]
pub fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The generator of one op for one sample.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let (mut one, mut other) = (Rng::new(7), Rng::new(7));
/// assert_eq!(one.uniform(-1.0, 1.0), other.uniform(-1.0, 1.0));
/// assert!(one.below(6) < 6);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Returns a generator with a seed: for numbers that are drawn later than an op's own, and for tests.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a uniform number in `[0, 1)`, a multiple of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 * (1.0 / 16_777_216.0)
    }

    /// Returns a uniform number in `[low, high)`; `low` if the two are equal.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        low + self.unit() * (high - low)
    }

    /// Returns a number of the normal distribution with mean 0 and deviation 1 (Box and Muller,
    /// 1958), from two uniform draws: at most 5.8 from the mean.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * libm::log(1.0 - f64::from(self.unit()))).sqrt();
        let angle = std::f64::consts::TAU * f64::from(self.unit());
        (radius * libm::cos(angle)) as f32
    }

    /// Returns true for a share `p` of the samples: never for 0, always for 1.
    pub fn coin(&mut self, p: f64) -> bool {
        f64::from(self.unit()) < p
    }

    /// Returns 32 random bits.
    pub fn word(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Returns a uniform number in `0..count`, without bias (Lemire, arXiv:1805.10941).
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn below(&mut self, count: u32) -> u32 {
        assert!(count > 0, "cannot draw from 0 values");
        loop {
            let product = u64::from(self.0.next_u32()) * u64::from(count);
            let low = product as u32;
            if low >= count || low >= count.wrapping_neg() % count {
                return (product >> 32) as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_all_four_of_seed_epoch_sample_and_place() {
        let word =
            |seed, epoch, sample, op| SampleKey::new(seed, epoch, sample).op(op).0.next_u64();
        let words = [word(1, 2, 3, 4), word(0, 2, 3, 4), word(1, 0, 3, 4), word(1, 2, 0, 4)];
        let more = [word(1, 2, 3, 0), word(2, 1, 3, 4)];
        for (i, a) in words.iter().chain(&more).enumerate() {
            for b in words.iter().chain(&more).skip(i + 1) {
                assert_ne!(a, b);
            }
        }
    }

    #[test]
    fn the_first_words_never_change() {
        let mut rng = SampleKey::new(42, 0, 0).op(0);
        let words: Vec<u32> = (0..4).map(|_| rng.0.next_u32()).collect();
        assert_eq!(words, FIRST_WORDS_OF_42);
    }

    /// A change of these words changes the epochs of every user: bump the crate's version.
    const FIRST_WORDS_OF_42: [u32; 4] =
        [1_030_839_712, 3_416_667_561, 1_324_723_985, 3_008_231_328];

    #[test]
    fn below_reaches_every_value_and_none_beyond() {
        let mut rng = SampleKey::new(7, 0, 0).op(0);
        let mut seen = [0u32; 5];
        for _ in 0..5000 {
            seen[rng.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }

    #[test]
    fn normal_draws_have_the_moments_and_the_tail_of_the_normal_distribution() {
        let mut rng = SampleKey::new(7, 0, 2).op(0);
        let draws: Vec<f64> = (0..100_000).map(|_| f64::from(rng.normal())).collect();
        let moment = |k| draws.iter().map(|x| x.powi(k)).sum::<f64>() / draws.len() as f64;
        assert!(moment(1).abs() < 0.015 && (moment(2) - 1.0).abs() < 0.02);
        assert!(moment(3).abs() < 0.05 && (moment(4) - 3.0).abs() < 0.15);
        let beyond_two = draws.iter().filter(|x| x.abs() > 2.0).count();
        assert!((4300..4800).contains(&beyond_two), "{beyond_two}, expected 4550");
    }

    #[test]
    fn coins_of_probability_0_and_1_are_sure() {
        let mut rng = SampleKey::new(7, 0, 1).op(0);
        assert!((0..1000).all(|_| !rng.coin(0.0) && rng.coin(1.0)));
    }

    /// Without rejection, two of the 2^32 words would give each multiple of 3, and one word each other number.
    #[test]
    fn numbers_below_a_large_count_are_drawn_equally_often() {
        let mut rng = SampleKey::new(4, 0, 0).op(0);
        let mut counts = [0; 3];
        (0..30_000).for_each(|_| counts[(rng.below(3 << 30) % 3) as usize] += 1);
        assert!(counts.iter().all(|count| (9_700..10_300).contains(count)), "{counts:?}");
    }
}
