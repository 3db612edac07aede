//! The scale at which a JPEG is decoded: whole, or at 1/2, 1/4 or 1/8 of its size.
//!
//! ```text
//! height, width -> ceil(height / factor), ceil(width / factor)          as libjpeg
//! ```
//!
//! A block of 8 x 8 samples becomes one of 8 / factor. A block of chroma with half the rows or columns of luma becomes one
//! of twice as many of them: it then has as many as luma, and is not upsampled.

use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::ImageView;

/// The side of a block of coefficients.
pub(crate) const BLOCK: u32 = 8;

/// A scale: the rows and columns that become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(u32);

impl Scale {
    pub const FULL: Self = Self(1);

    /// Returns the scale of 1 / `factor`; `None` unless it is 2, 4 or 8.
    pub fn of_factor(factor: u32) -> Option<Self> {
        matches!(factor, 2 | 4 | 8).then_some(Self(factor))
    }

    /// Returns the rows and columns that become one.
    pub fn factor(self) -> u32 {
        self.0
    }

    /// Returns the size of an image at this scale.
    pub fn of(self, size: Size) -> Size {
        Size::new(size.height.div_ceil(self.0), size.width.div_ceil(self.0))
    }

    /// Returns the pixels of an image of `whole` size that a window at this scale shows.
    pub fn in_full(self, window: Window, whole: Size) -> Window {
        let Self(factor) = self;
        let end =
            |start: u32, len: u32, side: u32| ((start + len).saturating_mul(factor)).min(side);
        let (top, left) = (factor * window.top, factor * window.left);
        let height = end(window.top, window.height, whole.height) - top;
        let width = end(window.left, window.width, whole.width) - left;
        Window { top, left, height, width }
    }

    /// Writes the means of the pixels that become one. `view` has the pixels of a window of `size` at this scale.
    pub fn shrink(self, view: ImageView<'_>, size: Size, out: &mut [u8]) {
        let (factor, channels) = (self.0 as usize, view.channels());
        let rows = out.chunks_exact_mut(size.width as usize * channels);
        for (y, out) in rows.enumerate() {
            let first = factor * y;
            let last = (first + factor).min(view.size().height as usize);
            for (x, pixel) in out.chunks_exact_mut(channels).enumerate() {
                let start = factor * x;
                let end = (start + factor).min(view.size().width as usize);
                let count = ((last - first) * (end - start)) as u32;
                for (c, mean) in pixel.iter_mut().enumerate() {
                    let row_sum = |y: usize| {
                        let row = &view.row(y as u32)[start * channels..end * channels];
                        row.iter().skip(c).step_by(channels).map(|&v| u32::from(v)).sum::<u32>()
                    };
                    let sum: u32 = (first..last).map(row_sum).sum();
                    *mean = ((sum + count / 2) / count) as u8;
                }
            }
        }
    }
}
