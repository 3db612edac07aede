//! Rows of pixels whose colours are differences from one another, and rows as RGB and RGBA.
//!
//! ```text
//! add_green:  red += green                                blue += green
//! add_color:  red += green_to_red * green / 32            blue += green_to_blue * green / 32 + red_to_blue * red / 32
//! ```
//!
//! Sums are modulo 256. In `add_color`, factors and colours are numbers from -128 to 127, the red of the second sum is that
//! of the first one, and quotients are rounded down.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

use super::Bgra;
use crate::cpu::{CpuWork, for_cpu};
use std::ops::Range;

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Adds green to red and blue.
pub fn add_green(row: &mut [Bgra]) {
    for_cpu(AddGreen(row));
}

struct AddGreen<'a>(&'a mut [Bgra]);

impl CpuWork for AddGreen<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for pixel in self.0 {
            let number = u32::from_le_bytes(*pixel);
            let green = number >> 8 & 0xff;
            let others = (number & 0x00ff_00ff).wrapping_add(green << 16 | green);
            *pixel = (number & 0xff00_ff00 | others & 0x00ff_00ff).to_le_bytes();
        }
    }
}

/// A row of colours that are differences.
#[derive(Debug)]
pub struct ColorRow<'a> {
    /// The factors of the row, one for `1 << bits` pixels: as a pixel, they are green to red, green to blue and red to blue.
    pub factors: &'a [Bgra],
    /// The logarithm of the number of pixels of a factor: at least 2.
    pub bits: u32,
    /// The pixels of the row.
    pub row: &'a mut [Bgra],
    /// The pixels that are changed.
    pub columns: Range<usize>,
}

/// Adds to red and blue their predictions from green, and to blue its prediction from red.
///
/// # Panics
///
/// If there are fewer factors or pixels than the columns need.
pub fn add_color(row: ColorRow<'_>) {
    for_cpu(row);
}

impl CpuWork for ColorRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { factors, bits, row, columns } = self;
        let mut from = columns.start;
        while from < columns.end {
            let square = from >> bits;
            let to = ((square + 1) << bits).min(columns.end);
            let [green_to_red, green_to_blue, red_to_blue, _] = factors[square];
            let factors = [green_to_red, green_to_blue, red_to_blue].map(|byte| byte as i8);
            add_factors(&mut row[from..to], factors);
            from = to;
        }
    }
}

/// Adds colours by the factors of one square.
#[inline(always)]
fn add_factors(row: &mut [Bgra], factors: [i8; 3]) {
    let [green_to_red, green_to_blue, red_to_blue] = factors.map(i32::from);
    for pixel in row {
        // Colours with their signs are the upper bytes of numbers of 32 bits, shifted down again.
        let number = u32::from_le_bytes(*pixel) as i32;
        let green = number << 16 >> 24;
        let red = (number >> 16).wrapping_add((green * green_to_red) >> 5);
        let signed_red = red << 24 >> 24;
        let changes = ((green * green_to_blue) >> 5) + ((signed_red * red_to_blue) >> 5);
        let blue = (number & 0xff) + changes;
        let kept = number as u32 & 0xff00_ff00;
        *pixel = (kept | (red as u32 & 0xff) << 16 | blue as u32 & 0xff).to_le_bytes();
    }
}

/// Writes a row of pixels as RGB.
///
/// # Panics
///
/// If `out` does not have 3 bytes for each pixel.
pub fn rgb_row(row: &[Bgra], out: &mut [u8]) {
    assert_eq!(out.len(), 3 * row.len(), "bytes of a row");
    let done = fast_rgb(row, out);
    plain_rgb(&row[done..], &mut out[3 * done..]);
}

/// Writes one pixel at a time. This is the reference implementation.
fn plain_rgb(row: &[Bgra], out: &mut [u8]) {
    for (out, &[blue, green, red, _]) in out.as_chunks_mut::<3>().0.iter_mut().zip(row) {
        *out = [red, green, blue];
    }
}

/// Writes as many pixels as the CPU's vectors can handle, and returns the number.
fn fast_rgb(row: &[Bgra], out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2, as checked just above.
        return unsafe { sixteens(row, out) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 CPU that Rust's standard library runs on has NEON.
    return unsafe { sixteens(row, out) };
    #[cfg(not(target_arch = "aarch64"))]
    {
        let _ = (row, out);
        0
    }
}

/// Writes all pixels except up to 15, and returns the number.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
fn sixteens(row: &[Bgra], out: &mut [u8]) -> usize {
    let pixels = row.as_chunks::<16>().0;
    for (out, pixels) in out.as_chunks_mut::<48>().0.iter_mut().zip(pixels) {
        *out = sixteen(pixels);
    }
    16 * pixels.len()
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(pixels: &[Bgra; 16]) -> [u8; 48] {
    // SAFETY: 64 bytes; any bytes are vectors.
    let fours = unsafe { std::mem::transmute::<[Bgra; 16], [__m128i; 4]>(*pixels) };
    let order = _mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1);
    // Twelve bytes of each, and four zeros.
    let [a, b, c, d] = fours.map(|four| _mm_shuffle_epi8(four, order));
    let thirds = [
        _mm_or_si128(a, _mm_slli_si128::<12>(b)),
        _mm_or_si128(_mm_srli_si128::<4>(b), _mm_slli_si128::<8>(c)),
        _mm_or_si128(_mm_srli_si128::<8>(c), _mm_slli_si128::<4>(d)),
    ];
    // SAFETY: 48 bytes; any bytes are integers.
    unsafe { std::mem::transmute::<[__m128i; 3], [u8; 48]>(thirds) }
}

#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn sixteen(pixels: &[Bgra; 16]) -> [u8; 48] {
    let bytes = pixels.as_flattened();
    debug_assert_eq!(bytes.len(), 64);
    // SAFETY: 64 bytes are read, from any address.
    let uint8x16x4_t(blue, green, red, _) = unsafe { vld4q_u8(bytes.as_ptr()) };
    let mut out = [0; 48];
    // SAFETY: 48 bytes are written, to any address.
    unsafe { vst3q_u8(out.as_mut_ptr(), uint8x16x3_t(red, green, blue)) };
    out
}

/// Writes a row of pixels as RGBA, with an alpha of 255 if it `is_opaque`.
///
/// # Panics
///
/// If `out` does not have 4 bytes for each pixel.
pub fn rgba_row(row: &[Bgra], is_opaque: bool, out: &mut [u8]) {
    assert_eq!(out.len(), 4 * row.len(), "bytes of a row");
    for_cpu(Rgba { row, or: if is_opaque { 0xff00_0000 } else { 0 }, out });
}

struct Rgba<'a> {
    row: &'a [Bgra],
    or: u32,
    out: &'a mut [u8],
}

impl CpuWork for Rgba<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { row, or, out } = self;
        for (out, pixel) in out.as_chunks_mut::<4>().0.iter_mut().zip(row) {
            let number = u32::from_le_bytes(*pixel) | or;
            let (red, blue) = (number >> 16 & 0xff, number & 0xff);
            *out = (number & 0xff00_ff00 | blue << 16 | red).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixels(count: usize) -> Vec<Bgra> {
        let mut state = 9_u32;
        let number = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state ^ state >> 16).to_le_bytes()
        };
        (0..count).map(number).collect()
    }

    #[test]
    fn rows_of_any_length_are_those_of_the_plain_code() {
        for len in (0..70).chain([255]) {
            let row = pixels(len);
            let (mut found, mut want) = (vec![1; 3 * len], vec![2; 3 * len]);
            rgb_row(&row, &mut found);
            plain_rgb(&row, &mut want);
            assert_eq!(found, want, "{len}");
            for is_opaque in [false, true] {
                let mut found = vec![1; 4 * len];
                rgba_row(&row, is_opaque, &mut found);
                let rgba = |&[b, g, r, a]: &Bgra| [r, g, b, if is_opaque { 255 } else { a }];
                assert_eq!(found, row.iter().flat_map(rgba).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn colours_are_added_as_by_the_formula() {
        let row = pixels(1000);
        let mut found = row.clone();
        add_green(&mut found);
        for (found, &[b, g, r, a]) in found.iter().zip(&row) {
            assert_eq!(*found, [b.wrapping_add(g), g, r.wrapping_add(g), a]);
        }
        let times = |factor: i8, color: u8| {
            (f64::from(factor) * f64::from(color as i8) / 32.0).floor() as i32
        };
        for bits in 2..6 {
            let mut factors = pixels(row.len());
            factors[0] = [128; 4];
            let columns = 5 * bits as usize..row.len() - bits as usize;
            let mut found = row.clone();
            add_color(ColorRow {
                factors: &factors,
                bits,
                row: &mut found,
                columns: columns.clone(),
            });
            for (x, (found, &[b, g, r, a])) in found.iter().zip(&row).enumerate() {
                if !columns.contains(&x) {
                    assert_eq!(*found, [b, g, r, a], "a pixel that is not changed");
                    continue;
                }
                let [green_to_red, green_to_blue, red_to_blue, _] =
                    factors[x >> bits].map(|byte| byte as i8);
                let red = (i32::from(r) + times(green_to_red, g)).rem_euclid(256) as u8;
                let blue = i32::from(b) + times(green_to_blue, g) + times(red_to_blue, red);
                assert_eq!(*found, [blue.rem_euclid(256) as u8, g, red, a]);
            }
        }
    }
}
