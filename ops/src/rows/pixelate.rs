//! Large pixels: an image reduced and enlarged again, by the nearest pixel both times.
//!
//! ```text
//! out[y, x] = in[source(y, H), source(x, W)]
//! source(i, n) = min(floor(j / scale), n - 1)      j = min(floor(i / (n / m)), m - 1),  m = max(1, rint(n scale))
//! ```
//!
//! OpenCV's `resize` with `INTER_NEAREST`, by factors and then to a size, to the bit: in f64, with reciprocals for `/ scale`
//! and `/ (n / m)`. A scale that is not above 0 gives one pixel.
//!
//! | | |
//! |--------|---------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart |
//! | output | as the input                                      |
//! | random | nothing                                           |
//! | cost   | a pixel: two products, and a copy                 |

use crate::shape::ImageView;
use std::ops::Range;

/// Returns the source pixel of pixel `i` of an axis of `side` pixels.
#[inline(always)]
pub(super) fn source(i: u32, side: u32, scale: f32) -> u32 {
    let (scale, length) = (f64::from(scale), f64::from(side));
    let small = ((length * scale).round_ties_even() as u32).max(1);
    let back = 1.0 / (length / f64::from(small));
    let j = ((f64::from(i) * back) as u32).min(small - 1);
    ((f64::from(j) * (1.0 / scale)) as u32).min(side - 1)
}

pub(super) fn eval(input: &ImageView<'_>, scale: f32) -> Vec<u8> {
    let (size, channels) = (input.size(), input.channels());
    let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
    for y in 0..size.height {
        let row = input.row(source(y, size.height, scale));
        for x in 0..size.width {
            let first = source(x, size.width, scale) as usize * channels;
            pixels.extend_from_slice(&row[first..first + channels]);
        }
    }
    pixels
}

/// The rows of one image of large pixels.
#[derive(Debug)]
pub(super) struct PixelateRows<'a> {
    scale: f32,
    input: ImageView<'a>,
    columns: Range<u32>,
}

impl<'a> PixelateRows<'a> {
    pub(super) const fn new(scale: f32, input: ImageView<'a>, columns: Range<u32>) -> Self {
        Self { scale, input, columns }
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&self, y: u32, out: &mut [u8]) {
        let size = self.input.size();
        let row = self.input.row(source(y, size.height, self.scale)).as_chunks::<C>().0;
        for (x, pixel) in self.columns.clone().zip(out.as_chunks_mut::<C>().0) {
            *pixel = row[source(x, size.width, self.scale) as usize];
        }
    }
}
