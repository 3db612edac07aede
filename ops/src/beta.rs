//! Numbers from symmetric beta and Dirichlet distributions.
//!
//! ```text
//! Beta(a, a) = G1 / (G1 + G2),   G1, G2 ~ Gamma(a)          a = 1: uniform
//! Gamma(a)   = d * v,   d = a - 1/3,  v = (1 + x / sqrt(9 d))^3,  x ~ N(0, 1)
//!              accepted if v > 0 and ln u < x^2 / 2 + d - d v + d ln v,   u ~ U(0, 1]
//! Gamma(a)   = Gamma(a + 1) * u^(1/a)                        for a < 1
//! ```
//!
//! The method is by Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26
//! (2000), with normal numbers from Marsaglia's polar method. The code works on logarithms: for a small
//! `a` both gamma variables would be 0 in double precision, and their quotient NaN.

use crate::author::Rng;

/// Draws a number in `0..=1` from Beta(alpha, alpha). `alpha` must be above 0 and finite.
pub(crate) fn symmetric_beta(rng: &mut Rng, alpha: f64) -> f64 {
    if alpha == 1.0 {
        return unit(rng);
    }
    let (first, second) = (ln_gamma_draw(rng, alpha), ln_gamma_draw(rng, alpha));
    1.0 / (1.0 + libm::exp(second - first))
}

/// Draws `count` shares that sum to 1 from a Dirichlet distribution whose parameters are all `alpha`:
/// gamma variables divided by their sum.
pub(crate) fn dirichlet(rng: &mut Rng, alpha: f64, count: usize) -> Vec<f64> {
    let logarithms: Vec<f64> = (0..count).map(|_| ln_gamma_draw(rng, alpha)).collect();
    let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let gammas: Vec<f64> = logarithms.iter().map(|ln| libm::exp(ln - most)).collect();
    let sum: f64 = gammas.iter().sum();
    gammas.into_iter().map(|gamma| gamma / sum).collect()
}

/// Draws a uniform number in `[0, 1)`, a multiple of 2^-48.
fn unit(rng: &mut Rng) -> f64 {
    f64::from(rng.unit()) + f64::from(rng.unit()) * 2f64.powi(-24)
}

/// Draws a number from N(0, 1).
fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * libm::log(square) / square).sqrt();
        }
    }
}

/// Draws the logarithm of a number from Gamma(alpha).
fn ln_gamma_draw(rng: &mut Rng, alpha: f64) -> f64 {
    if alpha < 1.0 {
        let above = ln_gamma_draw(rng, alpha + 1.0);
        // The term is finite, so that the difference of two logarithms is not NaN.
        return above + (libm::log(1.0 - unit(rng)) / alpha).max(f64::MIN / 2.0);
    }
    let d = alpha - 1.0 / 3.0;
    loop {
        let x = normal(rng);
        let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
        let ln_u = libm::log(1.0 - unit(rng));
        if v > 0.0 && ln_u < x * x / 2.0 + d - d * v + d * libm::log(v) {
            return libm::log(d) + libm::log(v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::BatchKey;

    /// Returns the mean and the variance of 40,000 draws.
    fn moments(alpha: f64) -> (f64, f64) {
        let mut rng = BatchKey::new(7, 0, 0).op("beta", 0);
        let draws: Vec<f64> = (0..40_000).map(|_| symmetric_beta(&mut rng, alpha)).collect();
        assert!(draws.iter().all(|x| (0.0..=1.0).contains(x)), "alpha {alpha}");
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        (mean, square / draws.len() as f64)
    }

    #[test]
    fn mean_and_variance_are_those_of_beta() {
        for alpha in [0.1, 0.2, 0.4, 0.8, 1.0, 1.5, 8.0, 100.0] {
            let (mean, variance) = moments(alpha);
            let expected = 1.0 / (4.0 * (2.0 * alpha + 1.0));
            assert!((mean - 0.5).abs() < 0.01, "alpha {alpha}: mean {mean}");
            assert!((variance / expected - 1.0).abs() < 0.04, "alpha {alpha}: variance {variance}");
        }
    }

    #[test]
    fn the_smallest_and_largest_alphas_give_numbers() {
        for alpha in [f64::MIN_POSITIVE, 1e-9, 1e9, f64::MAX] {
            let mut rng = BatchKey::new(7, 0, 0).op("beta", 0);
            for _ in 0..100 {
                let x = symmetric_beta(&mut rng, alpha);
                assert!((0.0..=1.0).contains(&x), "alpha {alpha}: {x}");
            }
        }
    }

    #[test]
    fn a_third_of_beta_one_half_lies_outside_the_middle_half() {
        // Beta(1/2, 1/2) is the arcsine law: P(x < q) = 2/pi * asin(sqrt(q)), 1/3 at q = 1/4.
        let mut rng = BatchKey::new(9, 0, 0).op("beta", 0);
        let below = (0..30_000).filter(|_| symmetric_beta(&mut rng, 0.5) < 0.25).count();
        assert!((9_700..10_300).contains(&below), "{below}");
    }
}
