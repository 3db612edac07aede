//! Rows of a row filter, computed with the vectors of the CPU.
//!
//! ```text
//! filter_row(rows, y, out)  =  rows.row(y, out), or nothing
//! ```
//!
//! [`FilterRows::row_of`] is inlined here into a function for each number of channels, compiled for AVX2
//! and FMA. The bits are the same: the compiler neither fuses nor reorders floating-point operations. Warps have a
//! function of their own, in `warp`.

#![allow(unsafe_code, reason = "a function compiled for the CPU's features, behind a check")]

#[cfg(target_arch = "x86_64")]
use crate::warp::warp_row;
use fuseloop_ops::internals::rows::{FilterRows, FloatRows};

/// Writes output row `y` of a row filter. This is a fast version of [`FilterRows::row`]. Returns false, and writes
/// nothing, on an x86-64 CPU without AVX2 or FMA. The caller then calls [`FilterRows::row`]: a wheel compiles the caller
/// for size, and this crate for speed.
///
/// # Panics
///
/// In the same cases as [`FilterRows::row`].
#[must_use]
pub fn filter_row(rows: &mut FilterRows<'_>, y: u32, out: &mut [u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the CPU has AVX2 and FMA, as checked just above.
        unsafe {
            if let Some(warp) = rows.warp() {
                rows.check(y, out);
                if warp_row(warp, y, out) {
                    return true;
                }
            }
            match rows.channels() {
                1 => row_avx2::<1, 1>(rows, y, out),
                2 => row_avx2::<2, 4>(rows, y, out),
                3 => row_avx2::<3, 4>(rows, y, out),
                _ => row_avx2::<4, 4>(rows, y, out),
            }
        }
        return true;
    }
    // Elsewhere, all CPUs have the vectors that this crate is compiled for.
    let is_elsewhere = cfg!(not(target_arch = "x86_64"));
    if is_elsewhere {
        rows.row(y, out);
    }
    is_elsewhere
}

/// A row of `C` channels, computed in `L` lanes a pixel: see [`FilterRows::row_of`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn row_avx2<const C: usize, const L: usize>(rows: &mut FilterRows<'_>, y: u32, out: &mut [u8]) {
    rows.row_of::<C, L>(y, out);
}

/// Writes output row `y` of a row filter of elements that are not bytes. This is a fast version of
/// [`FloatRows::row`].
///
/// # Panics
///
/// In the same cases as [`FloatRows::row`].
pub fn float_row(rows: &mut FloatRows<'_>, y: u32, out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("f16c") {
        // SAFETY: the CPU has AVX2 and F16C, as checked just above.
        return unsafe { float_row_avx2(rows, y, out) };
    }
    rows.row(y, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn float_row_avx2(rows: &mut FloatRows<'_>, y: u32, out: &mut [u8]) {
    rows.row(y, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::Size;
    use fuseloop_ops::internals::rows::{
        ConvolutionKernel, Map, MotionLine, PadMode, Padding, Resampling, RowFilter,
        RowPermutation, RowScratch, Warp, WarpInterpolation, rotation_matrix,
    };
    use fuseloop_ops::internals::{ImageView, MAX_CHANNELS};

    const SIZE: Size = Size::new(61, 83);

    fn filters() -> Vec<RowFilter> {
        let line = MotionLine { side: 9, angle: 40.0, ends: [-4.0, 3.0], shift: [0.5, -1.0] };
        let mut filters = vec![
            RowFilter::Transpose,
            RowFilter::Pad(Padding {
                top: 3,
                left: 90,
                bottom: 0,
                right: 5,
                mode: PadMode::Reflect,
            }),
            RowFilter::Permute(RowPermutation { rows: 200, keys: [5, 6] }),
            RowFilter::RowMean,
            RowFilter::GaussianBlur { kernel: [5, 3], sigma: [1.1, 0.7] },
            RowFilter::GaussianBlur { kernel: [23, 9], sigma: [4.0, 2.0] },
            RowFilter::BoxBlur { kernel: [4, 7] },
            RowFilter::Convolve(ConvolutionKernel::Square([
                [-0.2, -0.3, -0.2],
                [0.0, 1.9, -0.1],
                [0.3, 0.2, 0.1],
            ])),
            RowFilter::Convolve(ConvolutionKernel::Line(line)),
            RowFilter::Median { side: 3 },
            RowFilter::Median { side: 7 },
            RowFilter::Jpeg { quality: 60 },
        ];
        filters.extend([0.1, 0.3, 1.000_01, 1.9].map(|factor| RowFilter::Sharpen { factor }));
        for interpolation in
            [WarpInterpolation::Nearest, WarpInterpolation::Bilinear, WarpInterpolation::Bicubic]
        {
            for (angle, fill) in [(17.0, None), (45.0, Some([1, 200, 3])), (180.0, Some([0; 3]))] {
                let map = Map::affine(rotation_matrix(angle, [3.0, 0.5]), SIZE, SIZE);
                filters.push(RowFilter::Warp(Warp { size: SIZE, map, interpolation, fill }));
            }
        }
        for interpolation in [
            Resampling::Nearest,
            Resampling::Bilinear,
            Resampling::BilinearAntialias,
            Resampling::BicubicAntialias,
        ] {
            for size in [Size::new(17, 29), Size::new(90, 100), Size::new(5, 200)] {
                filters.push(RowFilter::Resample { size, interpolation });
            }
        }
        filters
    }

    #[test]
    fn the_cpus_vectors_give_the_meanings_bits() {
        let mut scratch = RowScratch::default();
        for channels in 1..=MAX_CHANNELS {
            let pixels = noise(channels);
            let picture = ImageView::packed_channels(&pixels, SIZE, channels).unwrap();
            for filter in filters() {
                let (size, expected) = (filter.output(SIZE), filter.eval(&picture));
                let mut row = vec![0; size.width as usize * channels];
                let mut rows = filter.rows(picture, 0..size.width, &mut scratch).unwrap();
                for (y, expected) in (0..size.height).zip(expected.chunks(row.len())) {
                    if !filter_row(&mut rows, y, &mut row) {
                        rows.row(y, &mut row);
                    }
                    assert_eq!(row, expected, "{filter:?}, {channels} channels, row {y}");
                }
            }
        }
    }

    fn noise(channels: usize) -> Vec<u8> {
        let values = 0..SIZE.pixels() as u32 * channels as u32;
        values.map(|i| (i.wrapping_mul(2_654_435_769) >> 24) as u8).collect()
    }
}
