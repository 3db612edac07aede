//! Predictions of a row: pixels from their differences.
//!
//! ```text
//! pixel = difference + prediction     each byte modulo 256           TL T TR     of the row above
//!                                                                    L  x
//!
//!  0  opaque black   4  TL               8  avg(TL, T)                       12  clamp(L + T - TL)
//!  1  L              5  avg(avg(L, TR), T)  9  avg(T, TR)                    13  clamp(m + (m - TL) / 2), m = avg(L, T)
//!  2  T              6  avg(L, TL)      10  avg(avg(L, TL), avg(T, TR))      14, 15  as 0
//!  3  TR             7  avg(L, T)       11  L or T, see below
//! ```
//!
//! `avg(a, b)` is `(a + b) / 2`, rounded down; the quotient of 13 is rounded towards zero. 11 is L if the sum of `|T - TL|` over
//! the four bytes is less than that of `|L - TL|`, else T.
//!
//! A pixel without a row above it is predicted by L, the first one of the image by 0; a first pixel of any other row by T. TR of
//! the last pixel of a row is the first pixel of its own row.
//!
//! Modes without L are vectors of many pixels. In the others a pixel waits for the one before it, so that the steps between
//! them are few. Averages are of complements, since CPUs round averages up: with `~` as complement and `up` as that average,
//! `~avg(a, b) = up(~a, ~b)`, and `~(difference + p) = ~p - difference`. In the steps below, L is a complement where a
//! mode averages it.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

use super::Bgra;
use crate::cpu::{CpuWork, for_cpu};
use std::ops::Range;

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A row of differences, and what it is predicted from.
#[derive(Debug)]
pub struct PredictedRow<'a> {
    /// The modes of the row, one for `1 << bits` pixels, in the lower four bits of green.
    pub modes: &'a [Bgra],
    /// The logarithm of the number of pixels of a mode: at least 2.
    pub bits: u32,
    /// The row above in the whole width of the image, and room for one more pixel. `None` above the first row.
    pub above: Option<&'a mut [Bgra]>,
    /// The differences, which become pixels: those of the whole row or of its first pixels.
    pub row: &'a mut [Bgra],
}

/// Replaces a row of differences, from the first pixel of the image on, by pixels.
///
/// # Panics
///
/// If there are fewer modes or pixels above than the row needs.
pub fn add_predictions(row: PredictedRow<'_>) {
    for_cpu(row);
}

impl CpuWork for PredictedRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { modes, bits, above, row } = self;
        let Some(first) = row.first_mut() else { return };
        let Some(above) = above else {
            *first = sum(*first, [0, 0, 0, 255]);
            chain::<Native, false>(&[], row, |l, [..], difference| l.plus(difference));
            return;
        };
        *first = sum(*first, above[0]);
        let (first, len) = (*first, row.len());
        if above.len() == len + 1 {
            above[len] = first;
        }
        let mut from = 1;
        for (tile, [_, mode, ..]) in modes.iter().enumerate() {
            let to = ((tile + 1) << bits).min(len);
            if from < to {
                add_span(*mode & 15, above, row, from..to);
                from = to;
            }
        }
        assert!(from == len.max(1), "modes of a row");
    }
}

/// Returns the sum of two pixels.
#[inline(always)]
fn sum(a: Bgra, b: Bgra) -> Bgra {
    std::array::from_fn(|i| a[i].wrapping_add(b[i]))
}

/// Adds the predictions of one mode. `span` does not begin at 0.
#[inline(always)]
fn add_span(mode: u8, above: &[Bgra], row: &mut [Bgra], span: Range<usize>) {
    let above = &above[span.start - 1..span.end + 1];
    let row = &mut row[span.start - 1..span.end];
    let len = span.len();
    match mode {
        1 => chain::<Native, false>(above, row, |l, _, d| l.plus(d)),
        2 => add_bytes(row, above[1..=len].iter().copied()),
        3 => add_bytes(row, above[2..].iter().copied()),
        4 => add_bytes(row, above[..len].iter().copied()),
        5 => chain::<Native, true>(above, row, |l, [_, t, tr], d| l.mean(tr).mean(t).minus(d)),
        6 => chain::<Native, true>(above, row, |l, [tl, ..], d| l.mean(tl).minus(d)),
        7 => chain::<Native, true>(above, row, |l, [_, t, _], d| l.mean(t).minus(d)),
        8 => add_bytes(row, means(&above[..len], &above[1..=len])),
        9 => add_bytes(row, means(&above[1..=len], &above[2..])),
        10 => chain::<Native, true>(above, row, |l, [tl, t, tr], d| {
            l.mean(tl).mean(t.mean(tr)).minus(d)
        }),
        11 => chain::<Native, false>(above, row, |l, [tl, t, _], d| {
            let [left, top] = [l.plus(d), t.plus(d)];
            left.if_nearer(l.distance(tl), t.distance(tl), top)
        }),
        12 => chain::<Native, false>(above, row, |l, [tl, t, _], d| {
            l.plus_at_most(t.minus_at_least(tl)).minus_at_least(tl.minus_at_least(t)).plus(d)
        }),
        13 => chain::<Native, true>(above, row, |l, [tl, t, _], d| {
            // All complements: of the mean `m`, of TL, and so of the sum.
            let m = l.mean(t);
            let (more, less) = (m.minus_at_least(tl).half(), tl.minus_at_least(m).half());
            m.plus_at_most(more).minus_at_least(less).minus(d)
        }),
        _ => add_bytes(row, std::iter::repeat_n([0, 0, 0, 255], len)),
    }
}

/// Adds predictions that do not depend on the row. The first pixel of `row` lies before them.
#[inline(always)]
fn add_bytes(row: &mut [Bgra], predictions: impl Iterator<Item = Bgra>) {
    for (pixel, prediction) in row[1..].iter_mut().zip(predictions) {
        *pixel = sum(*pixel, prediction);
    }
}

/// Returns the averages of pixels, rounded down.
#[inline(always)]
fn means(a: &[Bgra], b: &[Bgra]) -> impl Iterator<Item = Bgra> {
    a.iter().zip(b).map(|(a, b)| std::array::from_fn(|i| (a[i] & b[i]) + ((a[i] ^ b[i]) >> 1)))
}

/// Goes along a row pixel by pixel: `step` returns a pixel from L, the pixels TL, T and TR, and the difference. The first
/// pixel of `row` is L of the next one, and the first one of `above`, if any, its T. With `IS_COMPLEMENT`, L, the
/// pixels above and the result are complements.
#[inline(always)]
fn chain<P: Pixel, const IS_COMPLEMENT: bool>(
    above: &[Bgra],
    row: &mut [Bgra],
    step: impl Fn(P, [P; 3], P) -> P,
) {
    let as_used = |pixel: P| if IS_COMPLEMENT { pixel.complement() } else { pixel };
    let Some((first, row)) = row.split_first_mut() else { return };
    let mut left = as_used(P::load(*first));
    if let [tl, t, rest @ ..] = above {
        let [mut tl, mut t] = [*tl, *t].map(|pixel| as_used(P::load(pixel)));
        for (pixel, tr) in row.iter_mut().zip(rest) {
            let tr = as_used(P::load(*tr));
            left = step(left, [tl, t, tr], P::load(*pixel));
            *pixel = as_used(left).store();
            (tl, t) = (t, tr);
        }
    } else {
        for pixel in row {
            left = step(left, [left; 3], P::load(*pixel));
            *pixel = as_used(left).store();
        }
    }
}

/// The arithmetic of the four bytes of a pixel.
trait Pixel: Copy {
    /// The distance of two pixels.
    type Distance: Copy;

    fn load(pixel: Bgra) -> Self;
    fn store(self) -> Bgra;
    fn complement(self) -> Self;
    /// The sum modulo 256.
    fn plus(self, other: Self) -> Self;
    /// The difference modulo 256.
    fn minus(self, other: Self) -> Self;
    /// The sum, at most 255.
    fn plus_at_most(self, other: Self) -> Self;
    /// The difference, at least 0.
    fn minus_at_least(self, other: Self) -> Self;
    /// The average, rounded up.
    fn mean(self, other: Self) -> Self;
    /// The half, rounded down.
    fn half(self) -> Self;
    /// The sum of the four bytes' distances.
    fn distance(self, other: Self) -> Self::Distance;
    /// Returns `self` if the distance of L is more than that of T, else `other`.
    fn if_nearer(self, of_l: Self::Distance, of_t: Self::Distance, other: Self) -> Self;
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Native = Plain;

/// One byte after the other. This is the reference implementation.
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[derive(Clone, Copy, Debug)]
struct Plain(Bgra);

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Plain {
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(u8, u8) -> u8) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Pixel for Plain {
    type Distance = u32;

    #[inline(always)]
    fn load(pixel: Bgra) -> Self {
        Self(pixel)
    }

    #[inline(always)]
    fn store(self) -> Bgra {
        self.0
    }

    #[inline(always)]
    fn complement(self) -> Self {
        Self(self.0.map(|byte| !byte))
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.with(other, u8::wrapping_add)
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.with(other, u8::wrapping_sub)
    }

    #[inline(always)]
    fn plus_at_most(self, other: Self) -> Self {
        self.with(other, u8::saturating_add)
    }

    #[inline(always)]
    fn minus_at_least(self, other: Self) -> Self {
        self.with(other, u8::saturating_sub)
    }

    #[inline(always)]
    fn mean(self, other: Self) -> Self {
        self.with(other, |a, b| (u16::from(a) + u16::from(b)).div_ceil(2) as u8)
    }

    #[inline(always)]
    fn half(self) -> Self {
        Self(self.0.map(|byte| byte / 2))
    }

    #[inline(always)]
    fn distance(self, other: Self) -> u32 {
        self.0.iter().zip(other.0).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
    }

    #[inline(always)]
    fn if_nearer(self, of_l: u32, of_t: u32, other: Self) -> Self {
        if of_l > of_t { self } else { other }
    }
}

/// A pixel in a vector, whose other bytes do not matter as long as they are equal in all pixels.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Native(__m128i);

#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
struct Native(uint8x8_t);

#[cfg(target_arch = "x86_64")]
impl Pixel for Native {
    type Distance = __m128i;

    #[inline(always)]
    fn load(pixel: Bgra) -> Self {
        // SAFETY: SSE2 is part of x86-64.
        Self(unsafe { _mm_cvtsi32_si128(i32::from_le_bytes(pixel)) })
    }

    #[inline(always)]
    fn store(self) -> Bgra {
        // SAFETY: as in `load`.
        unsafe { _mm_cvtsi128_si32(self.0) }.to_le_bytes()
    }

    #[inline(always)]
    fn complement(self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { _mm_xor_si128(self.0, _mm_set1_epi8(-1)) })
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { _mm_add_epi8(self.0, other.0) })
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { _mm_sub_epi8(self.0, other.0) })
    }

    #[inline(always)]
    fn plus_at_most(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { _mm_adds_epu8(self.0, other.0) })
    }

    #[inline(always)]
    fn minus_at_least(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { _mm_subs_epu8(self.0, other.0) })
    }

    #[inline(always)]
    fn mean(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { _mm_avg_epu8(self.0, other.0) })
    }

    #[inline(always)]
    fn half(self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { _mm_and_si128(_mm_srli_epi16::<1>(self.0), _mm_set1_epi8(0x7f)) })
    }

    #[inline(always)]
    fn distance(self, other: Self) -> __m128i {
        // SAFETY: as in `load`.
        unsafe { _mm_sad_epu8(self.0, other.0) }
    }

    #[inline(always)]
    fn if_nearer(self, of_l: __m128i, of_t: __m128i, other: Self) -> Self {
        // The sum is in the first 4 bytes, which are those of the pixel.
        // SAFETY: as in `load`.
        unsafe {
            let is_self = _mm_cmpgt_epi32(of_l, of_t);
            let (this, other) =
                (_mm_and_si128(is_self, self.0), _mm_andnot_si128(is_self, other.0));
            Self(_mm_or_si128(this, other))
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Pixel for Native {
    type Distance = uint8x8_t;

    #[inline(always)]
    fn load(pixel: Bgra) -> Self {
        // SAFETY: every aarch64 CPU that Rust's standard library runs on has NEON.
        Self(unsafe { vreinterpret_u8_u32(vdup_n_u32(u32::from_le_bytes(pixel))) })
    }

    #[inline(always)]
    fn store(self) -> Bgra {
        // SAFETY: as in `load`.
        unsafe { vget_lane_u32::<0>(vreinterpret_u32_u8(self.0)) }.to_le_bytes()
    }

    #[inline(always)]
    fn complement(self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { vmvn_u8(self.0) })
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { vadd_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { vsub_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn plus_at_most(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { vqadd_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn minus_at_least(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { vqsub_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn mean(self, other: Self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { vrhadd_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn half(self) -> Self {
        // SAFETY: as in `load`.
        Self(unsafe { vshr_n_u8::<1>(self.0) })
    }

    #[inline(always)]
    fn distance(self, other: Self) -> uint8x8_t {
        // SAFETY: as in `load`.
        unsafe { vabd_u8(self.0, other.0) }
    }

    #[inline(always)]
    fn if_nearer(self, of_l: uint8x8_t, of_t: uint8x8_t, other: Self) -> Self {
        // Both halves of a vector are the pixel, so that sums of fours are the same in both.
        // SAFETY: as in `load`.
        unsafe {
            let sums = |bytes| vpaddl_u16(vpaddl_u8(bytes));
            let is_self = vreinterpret_u8_u32(vcgt_u32(sums(of_l), sums(of_t)));
            Self(vbsl_u8(is_self, self.0, other.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the top comment, in integers that do not wrap.
    fn prediction(mode: u8, l: Bgra, [tl, t, tr]: [Bgra; 3]) -> Bgra {
        let distance = |a: Bgra, b: Bgra| -> u32 {
            a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
        };
        let of = |i: usize| {
            let [l, tl, t, tr] = [l, tl, t, tr].map(|pixel| i32::from(pixel[i]));
            let avg = |a: i32, b: i32| (a + b) / 2;
            match mode {
                1 => l,
                2 => t,
                3 => tr,
                4 => tl,
                5 => avg(avg(l, tr), t),
                6 => avg(l, tl),
                7 => avg(l, t),
                8 => avg(tl, t),
                9 => avg(t, tr),
                10 => avg(avg(l, tl), avg(t, tr)),
                12 => l + t - tl,
                13 => avg(l, t) + (avg(l, t) - tl) / 2,
                _ => [0, 0, 0, 255][i],
            }
            .clamp(0, 255) as u8
        };
        if mode == 11 {
            return if distance(t, tl) < distance(l, tl) { l } else { t };
        }
        std::array::from_fn(of)
    }

    fn numbers() -> impl FnMut() -> u32 {
        let mut state = 3_u32;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        }
    }

    #[test]
    fn rows_are_those_of_the_table() {
        let mut number = numbers();
        for round in 0..3000 {
            let width = 1 + number() as usize % 70;
            let bits = 2 + number() % 4;
            // Colours are often near each other, so that both branches of all modes occur.
            let mask = [0xffff_ffff, 0x0707_0707, 0x0301_0003][round % 3];
            let mut pixel = || (number() << 16 ^ number()) & mask ^ 0x8000_7f02;
            let mut pixels =
                |count: usize| -> Vec<Bgra> { (0..count).map(|_| pixel().to_le_bytes()).collect() };
            let modes = pixels(width.div_ceil(1 << bits));
            let mut above = pixels(width + 1);
            let differences = pixels(width);
            let mut row = differences.clone();
            let mut wanted = differences;
            let old = above.clone();
            let is_first = round % 10 == 0;
            let at = (!is_first).then_some(&mut above[..]);
            add_predictions(PredictedRow { modes: &modes, bits, above: at, row: &mut row });
            for x in 0..width {
                let mode = modes[x >> bits][1] & 15;
                let predicted = match (x, is_first) {
                    (0, true) => [0, 0, 0, 255],
                    (_, true) => wanted[x - 1],
                    (0, false) => old[0],
                    (_, false) => {
                        let tr = if x + 1 == width { wanted[0] } else { old[x + 1] };
                        prediction(mode, wanted[x - 1], [old[x - 1], old[x], tr])
                    }
                };
                wanted[x] = sum(wanted[x], predicted);
            }
            assert_eq!(row, wanted, "{width} pixels, {modes:?}");
        }
    }

    /// Calls every function of a pixel.
    fn all<P: Pixel>([a, b, c, d]: [Bgra; 4]) -> [Bgra; 10] {
        let [a, b, c, d] = [a, b, c, d].map(P::load);
        [
            a.complement(),
            a.plus(b),
            a.minus(b),
            a.plus_at_most(b),
            a.minus_at_least(b),
            a.mean(b),
            a.half(),
            a.if_nearer(a.distance(b), c.distance(d), b),
            b.if_nearer(c.distance(d), a.distance(b), a),
            a.if_nearer(a.distance(b), b.distance(a), d),
        ]
        .map(P::store)
    }

    #[test]
    fn pixels_in_vectors_are_the_plain_ones() {
        let mut number = numbers();
        for _ in 0..10_000 {
            let four = std::array::from_fn(|_| (number() << 16 ^ number()).to_le_bytes());
            assert_eq!(all::<Native>(four), all::<Plain>(four), "{four:?}");
        }
    }
}
