//! Random numbers of a pass: a function of (seed, epoch, turn) and of what draws them.
//!
//! SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a counter
//! whose steps are scrambled, so it costs a few instructions a number and nothing to set up.

use super::Pass;

/// A counter, scrambled.
pub(super) struct Draws(u64);

/// 2^64 divided by the golden ratio, made odd: the counter's step.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draws {
    /// The draws of what has this fingerprint, in a pass.
    pub(super) fn new(pass: &Pass, of: u64) -> Self {
        let words = [pass.seed, u64::from(pass.epoch.0), pass.turn, of];
        Self(words.into_iter().fold(0, |state, word| scrambled(state ^ word).wrapping_add(STEP)))
    }

    pub(super) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scrambled(self.0)
    }

    /// A number below `bound`, each as likely to one part in 2^64 / `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub(super) fn share(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One to one, and every bit of the result depends on every bit of the word.
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
        // The first numbers that the reference implementation gives for the seed 1234567.
        let mut draws = Draws(1_234_567);
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([draws.word(), draws.word()], wanted);
        assert!((0..1000).all(|_| draws.below(7) < 7 && draws.share() < 1.0));
    }
}
