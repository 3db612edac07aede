//! The random numbers of Fuseloop's own orders, which promise no bits of numpy or torch.
//!
//! ```text
//! generator   the generator of the ops: SampleKey(seed, epoch, 2^64 - 1), stream "order/<name>"
//! shuffle     for i = n-1 down to 1: swap a[i], a[below(i + 1)]
//! exponential -ln(u), u = (53 random bits + 1) / 2^53
//! ```
//!
//! No dataset has a sample 2^64 - 1, so no draw of an epoch is used twice. The logarithm is a series
//! implemented here: the system's may differ in its last bit, and with it the order on the ranks of one
//! run.

use crate::sample::Epoch;
use fuseloop_ops::author::Rng;
use fuseloop_ops::internals::{SampleKey, stream};

/// Returns the generator of the order `name`.
pub(super) fn generator(seed: u64, epoch: Epoch, name: &str) -> Rng {
    let stream = stream(&format!("order/{name}"), 0);
    SampleKey::new(seed, epoch.index(), u64::MAX).op(stream)
}

/// Shuffles `items` uniformly.
pub(super) fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    for index in (1..items.len()).rev() {
        items.swap(index, rng.below(index as u32 + 1) as usize);
    }
}

/// Draws from the exponential distribution with mean 1.
pub(super) fn exponential(rng: &mut Rng) -> f64 {
    let bits = u64::from(rng.word()) << 21 | u64::from(rng.word() >> 11);
    -ln((bits + 1) as f64 / 2f64.powi(53))
}

/// Computes the logarithm of a normal number above 0, to a few units in the last place:
pub(super) fn ln(x: f64) -> f64 {
    let (exponent, mantissa) = ((x.to_bits() >> 52) as i32 - 1023, x.to_bits() << 12 >> 12);
    let m = f64::from_bits(mantissa | 1023 << 52);
    let (e, m) = if m > std::f64::consts::SQRT_2 { (exponent + 1, m / 2.0) } else { (exponent, m) };
    let s = (m - 1.0) / (m + 1.0);
    // s * s is below 0.03: the first term left out is below 2^-57 of the sum.
    let series = (0..11).rev().fold(0.0, |sum, k| sum * (s * s) + 1.0 / f64::from(2 * k + 1));
    f64::from(e) * std::f64::consts::LN_2 + 2.0 * s * series
}

/// Computes the power of e to a number of at most 0, to a few units in the last place; 0 if it is too small for a normal
/// number.
pub(super) fn exp(x: f64) -> f64 {
    let exponent = (x / std::f64::consts::LN_2).round();
    if exponent < -1022.0 {
        return 0.0;
    }
    let rest = x - exponent * std::f64::consts::LN_2;
    // The rest is at most 0.35: the first term left out is below 2^-60 of the sum.
    let series = (1..18).rev().fold(1.0, |sum, k| 1.0 + sum * rest / f64::from(k));
    series * f64::from_bits(((exponent as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_series_is_the_power_of_e() {
        for k in 0..10_000 {
            let x = -f64::from(k) / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "e to the power of {x}");
        }
        assert_eq!((exp(0.0), exp(-1e9), exp(f64::NEG_INFINITY)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn the_series_is_the_logarithm() {
        assert_eq!(ln(1.0), 0.0);
        let mut rng = generator(1, Epoch(0), "test");
        for _ in 0..10_000 {
            let x = f64::from(rng.word() + 1) / f64::from(rng.word() + 1);
            let error = (ln(x) - x.ln()).abs();
            assert!(error <= 4.0 * f64::EPSILON * x.ln().abs().max(0.01), "ln {x}");
        }
        assert!((ln(2f64.powi(-53)) + 53.0 * std::f64::consts::LN_2).abs() < 1e-14);
    }

    #[test]
    fn exponential_draws_have_mean_and_deviation_1() {
        let mut rng = generator(1, Epoch(0), "test");
        let draws: Vec<f64> = (0..100_000).map(|_| exponential(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!((mean - 1.0).abs() < 0.015 && (square - 2.0).abs() < 0.06, "{mean} {square}");
        assert!(draws.iter().all(|&x| x >= 0.0));
    }

    #[test]
    fn orders_draw_apart() {
        let word = |seed, epoch, name| generator(seed, Epoch(epoch), name).word();
        let words = [word(1, 0, "a"), word(2, 0, "a"), word(1, 1, "a"), word(1, 0, "b")];
        assert!((1..4).all(|i| !words[..i].contains(&words[i])), "{words:?}");
    }
}
