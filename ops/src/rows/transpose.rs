//! Transpose: swaps rows and columns.
//!
//! ```text
//! out[y, x] = in[x, y]
//! ```
//!
//! | | |
//! |--------|--------------------------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart                  |
//! | output | u8 `[W, H, C]`                                                     |
//! | random | nothing                                                            |
//! | cost   | a copy of each pixel; successive rows read the same cache lines      |
//!
//! A transpose and a flip are a rotation by 90 or 270 degrees: a counter-clockwise quarter turn is
//! a transpose, then a vertical flip.

use crate::shape::ImageView;
use std::ops::Range;

pub(super) fn eval(input: &ImageView<'_>) -> Vec<u8> {
    let channels = input.channels();
    let pixel = |y: u32, x: u32| &input.row(y)[x as usize * channels..][..channels];
    let size = input.size();
    (0..size.width).flat_map(|x| (0..size.height).flat_map(move |y| pixel(y, x))).copied().collect()
}

/// The rows of one transposed image.
#[derive(Debug)]
pub(super) struct TransposeRows<'a> {
    input: ImageView<'a>,
    columns: Range<u32>,
}

impl<'a> TransposeRows<'a> {
    pub(super) fn new(input: ImageView<'a>, columns: Range<u32>) -> Self {
        Self { input, columns }
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&self, y: u32, out: &mut [u8]) {
        let first = self.columns.start as usize * self.input.stride() + y as usize * C;
        let column = self.input.data()[first..].chunks(self.input.stride());
        for (out, pixel) in out.as_chunks_mut::<C>().0.iter_mut().zip(column) {
            out.copy_from_slice(&pixel[..C]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Size;
    use crate::rows::RowFilter;
    use crate::shape::ImageView;

    #[test]
    fn a_row_becomes_a_column() {
        let pixels = [1, 2, 3, 4, 5, 6];
        let row = ImageView::packed(&pixels, Size::new(1, 2)).unwrap();
        assert_eq!(RowFilter::Transpose.eval(&row), pixels);
        assert_eq!(RowFilter::Transpose.output(row.size()), Size::new(2, 1));
    }
}
