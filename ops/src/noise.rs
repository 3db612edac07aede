//! Noise by position: a uniform or a normal number for each channel of each pixel, from a hash instead of
//! a generator.
//!
//! ```text
//! pixel  = mix(index ^ seed0)                            index = row * 2^16 + column, or as in [`Index`]
//! word_c = mix(pixel ^ seed1 ^ SALT[c])                  32 bits for channel c
//! x      = (2 * (word_c >> 9) + 1) / 2^23 - 1            uniform in (-1, 1), never 0
//! w      = -log2(1 - x^2)
//! n      = x * P(sqrt(8 + w) - 4)                        normal: mean 0, deviation 1
//! ```
//!
//! `mix` is Chris Wellons' `lowbias32` (Hash Prospector, 2018): two multiplications and three shifts,
//! after which each bit of the input flips each bit of the output with a probability near one half. The
//! two seeds are drawn once per sample, so a number depends only on the seed, the epoch, the sample and
//! the position of the pixel, and neither on the order of the loop nor on a later crop.
//!
//! The last two lines compute the inverse of the normal distribution function, `sqrt(2) erfinv(x)`,
//! with arithmetic that is available on vectors. The observation that `erfinv(x) / x` is a smooth
//! function of `w` is due to Mike Giles (Approximating the erfinv function, GPU Computing Gems, 2011),
//! who uses one polynomial for the middle and one for the tails. The root of `8 + w` straightens both
//! ends, so that one polynomial of degree 8 is enough. The polynomials for `P` and for the logarithm
//! are our own minimax fits. The result is within 2.5e-5 of the exact inverse, and within -5.3..5.3; 1
//! in 8 million normal numbers is outside that range.

use crate::author::{ImageType, Rng};
use crate::emit::{Emit, F32x4, I32x4, Pixels};
use crate::maths::{emit_polynomial, polynomial};
use crate::shape::MAX_CHANNELS;

/// The number of drawn parameters that hold the seeds.
pub(crate) const SEEDS: usize = 2;

/// Draws the seeds of one sample: random words, stored as the bits of `f32`. One of the 32 bits is
/// cleared; otherwise a word could be NaN, and equal draws would compare as different.
pub(crate) fn seeds(rng: &mut Rng) -> [f32; SEEDS] {
    [0; SEEDS].map(|_| f32::from_bits(rng.word() & !TOP_OF_EXPONENT))
}

const TOP_OF_EXPONENT: u32 = 1 << 30;

/// Constants that distinguish the channels: multiples of 2^32 over the golden ratio.
const SALT: [u32; MAX_CHANNELS] = [0, 0x9e37_79b9, 0x3c6e_f372, 0xdaa6_6d2b];

/// The multipliers of `mix`.
const MIX: [u32; 2] = [0x7feb_352d, 0x846c_a68b];

/// The coefficients, lowest first, of a polynomial for `-log2(m)` with m in 1..2. Its error is at most
/// 1.3e-5.
const MINUS_LOG2: [f32; 6] =
    [2.800_360_7, -5.091_699, 3.550_776_2, -1.631_137_1, 0.416_559_8, -0.044_873_09];

/// The coefficients, lowest first, of a polynomial in `sqrt(8 + w) - 4` for `sqrt(2) erfinv(x) / x`.
/// Its error is at most 1.9e-5.
const QUANTILE: [f32; 9] = [
    3.103_057_4,
    1.615_004_4,
    -0.101_738_505,
    -0.024_362_551,
    0.055_295_54,
    -0.031_013_155,
    -6.523_148_5e-5,
    0.007_264_638_3,
    -0.002_183_925,
];

/// Returns a normal number for each channel of the pixel at row and column `at`.
pub(crate) fn normals(seeds: [f32; SEEDS], at: [i32; 2]) -> [f32; MAX_CHANNELS] {
    words(seeds, Index::OfImage, at).map(normal)
}

/// Returns a normal number for each channel of the element at row and column `at` of an array.
pub(crate) fn normals_of_array(seeds: [f32; SEEDS], at: [i32; 2]) -> [f32; MAX_CHANNELS] {
    words(seeds, Index::OfArray, at).map(normal)
}

/// Returns a number that is uniform in -1..1 for each channel of the element at row and column `at` of an array.
pub(crate) fn uniforms(seeds: [f32; SEEDS], at: [i32; 2]) -> [f32; MAX_CHANNELS] {
    words(seeds, Index::OfArray, at).map(uniform)
}

/// The number that stands for a position in the hash.
#[derive(Clone, Copy, Debug)]
enum Index {
    /// `row * 2^16 + column`: positions differ if no side is longer than 65,536.
    OfImage,
    /// `row * 2654435761 + column`, modulo 2^32: positions of up to 2^29 elements differ, whether they have many
    /// rows, as point clouds do, or many columns, as audio does.
    OfArray,
}

/// Returns whether an image has positions that [`normals`] does not distinguish.
pub(crate) fn is_long(image: &ImageType) -> bool {
    image.height.max.max(image.width.max) > 1 << 16
}

/// The factor of [`Index::OfArray`]: Knuth's prime near 2^32 over the golden ratio, whose multiples keep a large
/// distance from each other.
const ROW: u32 = 2_654_435_761;

impl Index {
    fn of(self, [row, column]: [u32; 2]) -> u32 {
        let first = match self {
            Self::OfImage => row << 16,
            Self::OfArray => row.wrapping_mul(ROW),
        };
        first.wrapping_add(column)
    }

    fn emit(self, e: &mut Emit, [row, column]: [I32x4; 2]) -> I32x4 {
        let first = match self {
            Self::OfImage => e.shift_left(row, 16),
            Self::OfArray => {
                let factor = e.splat_i32(ROW as i32);
                e.mul_i32(row, factor)
            }
        };
        e.add_i32(first, column)
    }
}

/// Returns random bits for each channel of the pixel at row and column `at`.
fn words(seeds: [f32; SEEDS], index: Index, at: [i32; 2]) -> [u32; MAX_CHANNELS] {
    let [first, second] = seeds.map(f32::to_bits);
    let index = index.of(at.map(|coordinate| coordinate as u32));
    let pixel = mix(index ^ first) ^ second;
    SALT.map(|salt| mix(pixel ^ salt))
}

/// Records the computation of [`normals`] as instructions, for the position of the pixels and the seeds in two
/// consecutive drawn parameters, from index `first_param` on.
pub(crate) fn emit_normals(e: &mut Emit, first_param: usize, pixels: Pixels) -> Pixels {
    emit_words(e, first_param, pixels, Index::OfImage, emit_normal)
}

/// Records the computation of [`normals_of_array`], for the same seeds.
pub(crate) fn emit_normals_of_array(e: &mut Emit, first_param: usize, pixels: Pixels) -> Pixels {
    emit_words(e, first_param, pixels, Index::OfArray, emit_normal)
}

/// Records the computation of [`uniforms`], for the same seeds.
pub(crate) fn emit_uniforms(e: &mut Emit, first_param: usize, pixels: Pixels) -> Pixels {
    emit_words(e, first_param, pixels, Index::OfArray, emit_uniform)
}

/// Records the computation of [`words`], and of a number from the word of each channel.
fn emit_words(
    e: &mut Emit,
    first_param: usize,
    pixels: Pixels,
    index: Index,
    emit_number: impl Fn(&mut Emit, I32x4) -> F32x4,
) -> Pixels {
    let (first, second) = (e.param_bits(first_param), e.param_bits(first_param + 1));
    let at = e.position();
    let index = index.emit(e, at);
    let pixel = e.xor_i32(index, first);
    let pixel = emit_mix(e, pixel);
    let pixel = e.xor_i32(pixel, second);
    e.each(pixels, |e, c, _| {
        let salt = e.splat_i32(SALT[c] as i32);
        let word = e.xor_i32(pixel, salt);
        let word = emit_mix(e, word);
        emit_number(e, word)
    })
}

/// The hash function `lowbias32`.
pub(crate) fn mix(word: u32) -> u32 {
    let word = (word ^ (word >> 16)).wrapping_mul(MIX[0]);
    let word = (word ^ (word >> 15)).wrapping_mul(MIX[1]);
    word ^ (word >> 16)
}

fn emit_mix(e: &mut Emit, word: I32x4) -> I32x4 {
    let word = emit_fold(e, word, 16);
    let factor = e.splat_i32(MIX[0] as i32);
    let word = e.mul_i32(word, factor);
    let word = emit_fold(e, word, 15);
    let factor = e.splat_i32(MIX[1] as i32);
    let word = e.mul_i32(word, factor);
    emit_fold(e, word, 16)
}

/// Records `word ^ (word >> bits)`.
fn emit_fold(e: &mut Emit, word: I32x4, bits: u8) -> I32x4 {
    let high = e.shift_right(word, bits);
    e.xor_i32(word, high)
}

/// The distance of two neighbours among the 2^23 uniform numbers, which are in -1..1.
const STEP: f32 = 1.0 / 4_194_304.0;

/// The absolute value of the smallest uniform number.
const LARGEST: f32 = 1.0 - 0.5 * STEP;

/// Returns the uniform number of a word of random bits.
fn uniform(word: u32) -> f32 {
    let count = (word >> 9) as f32;
    count.mul_add(STEP, -LARGEST)
}

fn emit_uniform(e: &mut Emit, word: I32x4) -> F32x4 {
    let [step, minus_last] = [STEP, -LARGEST].map(|v| e.splat(v));
    let count = e.shift_right(word, 9);
    let count = e.to_f32(count);
    e.fma(count, step, minus_last)
}

/// Returns the normal number of a word of random bits.
fn normal(word: u32) -> f32 {
    let x = uniform(word);
    let count = (word >> 9) as f32;
    let minus_x = count.mul_add(-STEP, LARGEST);
    let bits = x.mul_add(minus_x, 1.0).to_bits();
    let mantissa = f32::from_bits((bits & 0x7f_ffff) ^ 0x3f80_0000);
    // 135 is 8 plus the bias of the exponent: the root is taken of 8 - log2(1 - x^2).
    let whole = 135.0 - (bits >> 23) as f32;
    let w = whole + polynomial(&MINUS_LOG2, mantissa);
    x * polynomial(&QUANTILE, w.sqrt() - 4.0)
}

fn emit_normal(e: &mut Emit, word: I32x4) -> F32x4 {
    let [step, minus_step, last, minus_last] = [STEP, -STEP, LARGEST, -LARGEST].map(|v| e.splat(v));
    let [one, four, bias] = [1.0, 4.0, 135.0].map(|v| e.splat(v));
    let [low, unit] = [0x7f_ffff, 0x3f80_0000].map(|bits| e.splat_i32(bits));
    let count = e.shift_right(word, 9);
    let count = e.to_f32(count);
    let x = e.fma(count, step, minus_last);
    let minus_x = e.fma(count, minus_step, last);
    let rest = e.fma(x, minus_x, one);
    let bits = e.bits(rest);
    let mantissa = e.and_i32(bits, low);
    let mantissa = e.xor_i32(mantissa, unit);
    let mantissa = e.from_bits(mantissa);
    let exponent = e.shift_right(bits, 23);
    let exponent = e.to_f32(exponent);
    let whole = e.sub(bias, exponent);
    let logarithm = emit_polynomial(e, &MINUS_LOG2, mantissa);
    let w = e.add(whole, logarithm);
    let root = e.sqrt(w);
    let from_four = e.sub(root, four);
    let factor = emit_polynomial(e, &QUANTILE, from_four);
    e.mul(x, factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    /// Returns the density of the normal distribution.
    fn density(x: f64) -> f64 {
        (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
    }

    /// Returns the normal distribution function minus one half (Marsaglia, Evaluating the Normal
    /// Distribution, Journal of Statistical Software 11(4), 2004), to 1e-15 below 7.
    fn centred_distribution(x: f64) -> f64 {
        let (mut sum, mut term, mut k) = (x, x, 1.0);
        while term.abs() > 1e-18 * sum.abs() {
            k += 2.0;
            term *= x * x / k;
            sum += term;
        }
        sum * density(x)
    }

    #[test]
    fn a_word_becomes_the_number_that_its_share_of_the_distribution_lies_below() {
        let tails = (0..20_000).chain((1 << 23) - 20_000..1 << 23);
        for k in tails.chain((0..1 << 23).step_by(37)) {
            let n = f64::from(normal(k << 9));
            let below = f64::from(2 * k + 1) / f64::from(1 << 24) - 0.5;
            let error = (centred_distribution(n) - below) / density(n);
            assert!(error.abs() < 2.5e-5, "word {k} gives {n}, which is {error} off");
        }
    }

    #[test]
    fn the_numbers_are_as_symmetric_as_the_words() {
        for k in (0..1 << 22).step_by(101) {
            assert_eq!(normal(k << 9), -normal(((1 << 23) - 1 - k) << 9), "{k}");
        }
        assert!((5.29..5.31).contains(&normal(u32::MAX)), "{}", normal(u32::MAX));
    }

    /// The side of the square of pixels that the tests examine, for 4 * 2^20 numbers.
    const SIDE: i32 = 1024;

    /// Returns the numbers of one sample's square, row by row.
    fn field(sample: u64) -> Vec<[f32; MAX_CHANNELS]> {
        let seeds = seeds(&mut SampleKey::new(3, 1, sample).op(7));
        let positions = (0..SIDE).flat_map(|y| (0..SIDE).map(move |x| [y, x]));
        positions.map(|at| normals(seeds, at)).collect()
    }

    fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
        values.clone().sum::<f64>() / values.count() as f64
    }

    /// The bounds are five standard deviations of a million independent numbers.
    #[test]
    fn mean_variance_skew_and_kurtosis_of_a_million_are_those_of_the_normal_distribution() {
        let field = field(0);
        for c in 0..3 {
            let power = |k| mean(field.iter().map(move |p| f64::from(p[c]).powi(k)));
            for (k, want, deviation) in
                [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0), (6, 15.0, 10_170.0)]
            {
                let bound = 5.0 * f64::sqrt(deviation / field.len() as f64);
                let found = power(k);
                assert!((found - want).abs() < bound, "channel {c}, power {k}: {found}");
            }
        }
    }

    /// The bound is on the largest distance of the two distribution functions (Kolmogorov and Smirnov),
    /// which exceeds 2 / sqrt(count) in 7 of 10,000 tests.
    #[test]
    fn the_whole_distribution_of_a_million_is_the_normal_one() {
        let field = field(1);
        for c in 0..3 {
            let mut values: Vec<f32> = field.iter().map(|p| p[c]).collect();
            values.sort_unstable_by(f32::total_cmp);
            let count = values.len() as f64;
            let distance = values.iter().enumerate().map(|(k, &v)| {
                let below = centred_distribution(f64::from(v)) + 0.5;
                (below - k as f64 / count).abs().max((below - (k + 1) as f64 / count).abs())
            });
            let distance = distance.fold(0.0, f64::max) * count.sqrt();
            assert!(distance < 2.0, "channel {c}: {distance}");
        }
    }

    #[test]
    fn uniform_numbers_are_evenly_spaced_and_as_symmetric_as_the_words() {
        for k in (0..1 << 23).step_by(1013) {
            let x = f64::from(uniform(k << 9));
            assert_eq!(x, f64::from(2 * k + 1) / f64::from(1 << 23) - 1.0, "{k}");
            assert_eq!(-x, f64::from(uniform(((1 << 23) - 1 - k) << 9)), "{k}");
        }
        assert!(uniform(0) > -1.0 && uniform(u32::MAX) < 1.0);
        let seeds = seeds(&mut SampleKey::new(42, 0, 0).op(0));
        let signs = |numbers: [f32; MAX_CHANNELS]| numbers.map(f32::is_sign_negative);
        let (uniforms, normals) = (uniforms(seeds, [0, 9]), normals(seeds, [0, 9]));
        assert_eq!(signs(uniforms), signs(normals), "both are made of the same words");
    }

    /// Two rows whose numbers are `apart` share none if an array has at most `apart` columns.
    #[test]
    fn positions_of_an_array_of_2_to_the_29_elements_have_numbers_of_their_own() {
        for rows in 1..1 << 20 {
            let difference = Index::OfArray.of([rows, 0]);
            let apart = difference.min(difference.wrapping_neg());
            assert!(u64::from(apart) * u64::from(rows + 1) >= 1 << 29, "{rows} rows: {apart}");
        }
    }

    #[test]
    fn tails_are_as_rare_as_they_should_be() {
        let field = field(2);
        let values = || field.iter().flatten().map(|v| f64::from(v.abs()));
        for beyond in [2.0, 3.0, 4.0] {
            let share = 2.0 * (0.5 - centred_distribution(beyond));
            let expected = share * values().count() as f64;
            let found = values().filter(|&v| v > beyond).count() as f64;
            let bound = 5.0 * expected.sqrt();
            assert!((found - expected).abs() < bound, "beyond {beyond}: {found} for {expected}");
        }
    }

    /// The correlation of a million pairs of independent numbers is practically always below 0.005.
    #[test]
    fn neighbours_channels_and_samples_do_not_correlate() {
        let (one, other) = (field(3), field(4));
        let near = [(0, 1), (1, 0), (1, 1), (2, 0), (0, 2), (0, 64), (64, 0), (0, 4), (1, -1)];
        for (rows, columns) in near {
            for (c, d) in [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 0)] {
                let step = (rows * SIDE + columns) as usize;
                let pairs = one.iter().zip(&one[step..]);
                let found = mean(pairs.map(|(a, b)| f64::from(a[c]) * f64::from(b[d])));
                assert!(found.abs() < 0.005, "{rows}, {columns}, channels {c} and {d}: {found}");
            }
        }
        for (c, d) in [(0, 1), (1, 2), (0, 2)] {
            let found = mean(one.iter().map(|p| f64::from(p[c]) * f64::from(p[d])));
            assert!(found.abs() < 0.005, "channels {c} and {d}: {found}");
            let squares = mean(one.iter().map(|p| f64::from(p[c] * p[d]).powi(2)));
            assert!((squares - 1.0).abs() < 0.015, "squares of channels {c} and {d}: {squares}");
        }
        for c in 0..3 {
            let pairs = one.iter().zip(&other);
            let found = mean(pairs.map(|(a, b)| f64::from(a[c]) * f64::from(b[c])));
            assert!(found.abs() < 0.005, "two samples, channel {c}: {found}");
        }
    }

    #[test]
    fn seeds_are_numbers() {
        let mut rng = SampleKey::new(0, 0, 0).op(0);
        assert!((0..10_000).all(|_| seeds(&mut rng).iter().all(|seed| seed.is_finite())));
    }

    /// A change of these numbers changes the noise of every user's epoch: it needs a new version of the
    /// crate.
    #[test]
    fn the_first_numbers_never_change() {
        let seeds = seeds(&mut SampleKey::new(42, 0, 0).op(0));
        assert_eq!(normals(seeds, [0, 0])[..3], [0.9310784, 0.073859155, -0.9405798]);
        assert_eq!(normals(seeds, [300, 65_535])[..3], [1.7371001, -1.406509, 0.08931651]);
    }
}
