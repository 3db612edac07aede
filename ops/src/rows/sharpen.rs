//! Sharpness: moves an image away from its blurred version, or towards it.
//!
//! ```text
//! blur = floor((2 * (8 neighbours + 5 * in) + 13) / 26)      the weighted mean, to nearest
//! out  = trunc(clamp(fma(blur - in, f32(1 - factor), in), 0, 255))
//! ```
//!
//! The first and last row and column stay unchanged, and so does an image of fewer than 3 rows or
//! columns. The result is that of torchvision's `adjust_sharpness` on u8 tensors, to the bit.
//!
//! | | |
//! |--------|----------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart  |
//! | output | as the input                                       |
//! | random | nothing                                            |
//! | cost   | a pixel: 9 additions and 2 multiplications a channel |
//!
//! [`SharpenRows`] avoids the fused operation, which is a function call if the CPU is unknown: the
//! weight is split into two terms whose products with a difference are exact ([`SplitWeight`]).

use super::{clamp, floor, grow, integer};
use crate::shape::ImageView;
use std::ops::Range;

pub(super) fn eval(input: &ImageView<'_>, factor: f64) -> Vec<u8> {
    let (size, channels) = (input.size(), input.channels());
    let weight = weight(factor);
    let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
    for y in 0..size.height {
        for x in 0..size.width {
            for c in 0..channels {
                let at = |y: u32, x: u32| input.row(y)[x as usize * channels + c];
                let here = at(y, x);
                pixels.push(if y == 0 || x == 0 || y + 1 >= size.height || x + 1 >= size.width {
                    here
                } else {
                    let around = (y - 1..=y + 1).flat_map(|y| (x - 1..=x + 1).map(move |x| (y, x)));
                    let sum: u16 = around.map(|(y, x)| u16::from(at(y, x))).sum();
                    blend(here, blurred(sum + 4 * u16::from(here)), weight)
                });
            }
        }
    }
    pixels
}

/// Returns the share of the blurred image.
fn weight(factor: f64) -> f32 {
    (1.0 - factor) as f32
}

/// Returns the mean of 13 values with the given sum, rounded to nearest.
#[inline(always)]
fn blurred(sum: u16) -> u8 {
    ((2 * sum + 13) / 26) as u8
}

fn blend(here: u8, blurred: u8, weight: f32) -> u8 {
    let difference = f32::from(blurred) - f32::from(here);
    trunc(difference.mul_add(weight, f32::from(here)))
}

/// Converts like `as u8`, which is many instructions without SSE4.1.
#[inline(always)]
fn trunc(value: f32) -> u8 {
    integer(floor(clamp(value, 0.0, 255.0))) as u8
}

/// A weight as the sum of two terms, such that for a difference `d` of two bytes and a byte `a`,
/// both `a + d * high` and `d * low` are exact in f32: `(a + d * high) + d * low` is rounded once,
/// like the fused operation.
#[derive(Clone, Copy, Debug)]
struct SplitWeight {
    high: f32,
    low: f32,
}

impl SplitWeight {
    /// Splits a weight. Returns `None` if the weight has too many bits, which is only possible for
    /// a magnitude below 2^-7.
    fn of(weight: f32) -> Option<Self> {
        let weight = f64::from(weight);
        // All sums are below 2^bits. Multiples of 2^(bits - 24) below this limit are representable
        // in f32.
        let bits = libm::log2(255.0 * (weight.abs() + 1.0)).floor() + 1.0;
        let unit = libm::exp2(bits - 24.0);
        let high = (weight / unit).round() * unit;
        let low = (weight - high) as f32;
        // A difference has 8 bits, so `low` may use at most 16 of its 24 bits.
        let exact = weight.is_finite() && (low == 0.0 || low.to_bits().trailing_zeros() >= 8);
        exact.then_some(Self { high: high as f32, low })
    }
}

/// The rows of one sharpened image.
#[derive(Debug)]
pub(super) struct SharpenRows<'a> {
    input: ImageView<'a>,
    columns: Range<usize>,
    weight: f32,
    parts: Option<SplitWeight>,
    /// For each column of values, the sum of three rows.
    sums: &'a mut Vec<u16>,
}

impl<'a> SharpenRows<'a> {
    pub(super) fn new(
        factor: f64,
        input: ImageView<'a>,
        columns: Range<u32>,
        sums: &'a mut Vec<u16>,
    ) -> Self {
        let columns = columns.start as usize..columns.end as usize;
        let weight = weight(factor);
        Self { input, columns, weight, parts: SplitWeight::of(weight), sums }
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&mut self, y: u32, out: &mut [u8]) {
        let (height, width) = (self.input.size().height, self.input.size().width as usize);
        let row = self.input.row(y);
        out.copy_from_slice(&row[self.columns.start * C..self.columns.end * C]);
        // The columns that have neighbours on both sides.
        let (first, end) = (self.columns.start.max(1), self.columns.end.min(width - 1));
        if y == 0 || y + 1 >= height || first >= end {
            return;
        }
        let around = (first - 1) * C..(end + 1) * C;
        let [above, here, below] = [y - 1, y, y + 1].map(|y| &self.input.row(y)[around.clone()]);
        grow(self.sums, around.len());
        let sums = &mut self.sums[..around.len()];
        for (((sum, &a), &b), &c) in sums.iter_mut().zip(above).zip(here).zip(below) {
            *sum = u16::from(a) + u16::from(b) + u16::from(c);
        }
        let out = &mut out[(first - self.columns.start) * C..(end - self.columns.start) * C];
        let here = &here[C..];
        match self.parts {
            Some(parts) => sharpen::<C>(sums, here, out, |here, blurred| {
                let (here, blurred) = (f32::from(here), f32::from(blurred));
                let difference = blurred - here;
                trunc((here + difference * parts.high) + difference * parts.low)
            }),
            None => {
                sharpen::<C>(sums, here, out, |here, blurred| blend(here, blurred, self.weight));
            }
        }
    }
}

/// Writes a row. `sums` are the sums of three rows, from one pixel before the row's first to one
/// behind its last.
#[inline(always)]
fn sharpen<const C: usize>(
    sums: &[u16],
    here: &[u8],
    out: &mut [u8],
    blend: impl Fn(u8, u8) -> u8,
) {
    let (left, middle, right) = (sums, &sums[C..], &sums[2 * C..]);
    let sums = left.iter().zip(middle).zip(right).map(|((a, b), c)| a + b + c);
    for ((out, &here), sum) in out.iter_mut().zip(here).zip(sums) {
        *out = blend(here, blurred(sum + 4 * u16::from(here)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::shape::RGB;

    #[test]
    fn the_middle_of_nine_pixels_is_torchvisions() {
        let pixels = [1, 2, 3, 4, 100, 6, 7, 8, 9].map(|v| [v; 3]);
        let picture = ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        for (factor, middle) in [(0.0, 42), (0.5, 71), (1.0, 100), (2.0, 158)] {
            let out = eval(&picture, factor);
            assert_eq!(out[4 * RGB], middle, "{factor}");
            assert_eq!(out[..4 * RGB], pixels.as_flattened()[..4 * RGB], "{factor}");
        }
    }

    #[test]
    fn a_weight_in_parts_gives_the_fused_bits() {
        let small = 0.75f32 / 128.0;
        for weight in [1.0, -1.0, 0.3, -0.3, 0.9, -0.7, -0.990_000_1, 0.05, -9.3, 77.7, small] {
            let SplitWeight { high, low } = SplitWeight::of(weight).unwrap();
            for here in 0..=255u8 {
                for blurred in 0..=255u8 {
                    let (a, d) = (f32::from(here), f32::from(blurred) - f32::from(here));
                    let parts = (a + d * high) + d * low;
                    assert_eq!(parts, d.mul_add(weight, a), "{weight} {here} {blurred}");
                    assert_eq!(trunc(parts), parts as u8);
                }
            }
        }
        assert!(SplitWeight::of(3.1e-6).is_none() && SplitWeight::of(f32::NAN).is_none());
    }
}
