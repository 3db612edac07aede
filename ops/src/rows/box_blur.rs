//! Box blur: the mean of the pixels in a window.
//!
//! ```text
//! out[y, x] = rint((Σ + 1/4) * f32(1 / (n*m)))      Σ over rows y - floor(m/2).., columns x - floor(n/2)..
//! ```
//!
//! The image is reflected at its edges. The quarter rounds ties upwards (only kernels with an even
//! number of pixels have ties), and is too small to change anything else: for kernels of up to
//! 4096 pixels this is the mean rounded to the nearest integer, as OpenCV 5's `blur` computes it with
//! `BORDER_REFLECT_101`, also for kernels of even sides. This filter differs from OpenCV in one case: if
//! `n*m` is a power of two, OpenCV adds 1 to the sum (`ColumnSum<ushort, uchar>`), so that a flat image
//! of 100 becomes one of 101 under a kernel of 2x1. Sums are in f32, where they are exact up to 65793
//! pixels; the mean of more than 4096 pixels may be off by 1. FFCV and torchvision have no such op;
//! Albumentations calls it `Blur`.
//!
//! | | |
//! |--------|---------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart       |
//! | output | as the input                                            |
//! | random | nothing                                                 |
//! | cost   | a value: `n + m` multiplications and additions          |

use super::separable::Separable;

/// Returns the filter for a kernel of `[columns, rows]`; a side of 0 is treated as 1.
pub(super) fn separable(kernel: [u32; 2]) -> Separable {
    let mut filter = Separable::default();
    fill(&mut filter, kernel);
    filter
}

/// Sets `filter` to the filter that [`separable`] returns.
pub(super) fn fill(filter: &mut Separable, kernel: [u32; 2]) {
    let [columns, rows] = kernel.map(|side| side.max(1));
    let Separable { x, y, offset, scale } = filter;
    for (weights, count) in [(x, columns), (y, rows)] {
        weights.clear();
        weights.resize(count as usize, 1.0);
    }
    (*offset, *scale) = (0.25, (1.0 / (f64::from(columns) * f64::from(rows))) as f32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use crate::rows::byte;
    use crate::shape::ImageView;

    #[test]
    fn nine_pixels_have_the_means_of_their_reflections() {
        let pixels = [1, 2, 3, 4, 100, 6, 7, 8, 9].map(|v| [v; 3]);
        let picture = ImageView::packed(pixels.as_flattened(), Size::new(3, 3)).unwrap();
        let out = separable([3, 3]).eval(&picture);
        // The window of the corner, computed by hand: 100 4 100 / 2 1 2 / 100 4 100; the mean is
        // 413/9 = 45.9.
        assert_eq!((out[0], out[4 * 3]), (46, 16));
        // A kernel of two columns: 1 and its left neighbour, by reflection 2; the tie, 1.5, is
        // rounded up.
        assert_eq!(separable([2, 1]).eval(&picture)[0], 2);
    }

    #[test]
    fn every_mean_of_up_to_4096_pixels_is_the_nearest_integer() {
        for count in [1u32, 2, 4, 9, 15, 25, 49, 64, 225, 961, 1023, 2048, 4095, 4096] {
            let Separable { offset, scale, .. } = separable([count, 1]);
            for sum in 0..=255 * count {
                let nearest = (2 * sum + count) / (2 * count);
                assert_eq!(
                    u32::from(byte((sum as f32 + offset) * scale)),
                    nearest,
                    "{sum}/{count}"
                );
            }
        }
    }
}
