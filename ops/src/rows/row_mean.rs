//! The mean of all rows: an image becomes one row.
//!
//! ```text
//! out[0, x] = (in[0, x] + in[1, x] + .. + in[H - 1, x]) / H
//! ```
//!
//! | | |
//! |--------|---------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart |
//! | output | u8 `[1, W, C]`, rounded half to even              |
//! | random | nothing                                           |
//! | cost   | one addition per value                            |

use super::byte;
use crate::shape::ImageView;
use std::ops::Range;

/// Returns the mean of the rows at byte `at` of a row.
#[inline(always)]
fn mean(input: &ImageView<'_>, at: usize) -> u8 {
    let height = input.size().height;
    let sum: u64 = (0..height).map(|y| u64::from(input.row(y)[at])).sum();
    byte(sum as f32 / height as f32)
}

pub(super) fn eval(input: &ImageView<'_>) -> Vec<u8> {
    (0..input.size().width as usize * input.channels()).map(|at| mean(input, at)).collect()
}

/// The row of means of one image.
#[derive(Debug)]
pub(super) struct MeanRow<'a> {
    input: ImageView<'a>,
    columns: Range<u32>,
}

impl<'a> MeanRow<'a> {
    pub(super) fn new(input: ImageView<'a>, columns: Range<u32>) -> Self {
        Self { input, columns }
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&self, out: &mut [u8]) {
        for (out, at) in out.iter_mut().zip(self.columns.start as usize * C..) {
            *out = mean(&self.input, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Size;
    use crate::rows::RowFilter;
    use crate::shape::ImageView;

    #[test]
    fn a_column_becomes_its_mean_rounded_half_to_even() {
        let pixels = [0, 1, 255, 9, 1, 2, 255, 9, 0, 0, 255, 3, 1, 7, 255, 1];
        let columns = ImageView::packed_channels(&pixels, Size::new(4, 4), 1).unwrap();
        assert_eq!(RowFilter::RowMean.eval(&columns), [0, 2, 255, 6]);
        assert_eq!(RowFilter::RowMean.output(columns.size()), Size::new(1, 4));
    }
}
