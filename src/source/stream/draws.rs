//! Random numbers of a pass: a function of (seed, epoch, turn) and of the combinator's fingerprint.
//!
//! SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a counter
//! whose steps are scrambled, so a number costs a few instructions and the set-up costs nothing.

use super::Pass;

/// A counter whose scrambled values are the random numbers.
pub(super) struct StreamRng(u64);

/// The counter's step: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl StreamRng {
    /// The random numbers of the combinator with the fingerprint `of`, in one pass.
    pub(super) fn new(pass: &Pass, of: u64) -> Self {
        let words = [pass.seed, u64::from(pass.epoch.0), pass.turn, of];
        Self(words.into_iter().fold(0, |state, word| scrambled(state ^ word).wrapping_add(STEP)))
    }

    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scrambled(self.0)
    }

    /// Returns a number below `bound`; the probabilities are equal to within a factor of 1 ± `bound` /
    /// 2^64.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub(super) fn share(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A one-to-one function; every bit of the result depends on every bit of the word.
pub(super) fn scrambled(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_splitmix64() {
        // The first numbers of the reference implementation with seed 1234567.
        let mut draws = StreamRng(1_234_567);
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([draws.word(), draws.word()], wanted);
        assert!((0..1000).all(|_| draws.below(7) < 7 && draws.share() < 1.0));
    }
}
