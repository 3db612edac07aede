//! Padding: adds a border of the image's own pixels.
//!
//! ```text
//! out[y, x] = in[index(y - top, H), index(x - left, W)]
//! ```
//!
//! | mode      | `1 2 3 4` padded by 2 | `index(i, n)`                                      |
//! |-----------|-----------------------|----------------------------------------------------|
//! | edge      | `1 1 1 2 3 4 4 4`     | `i` clamped to `0..n`                              |
//! | reflect   | `3 2 1 2 3 4 3 2`     | mirrored at the middle of the last pixel: `-1` is 1 |
//! | symmetric | `2 1 1 2 3 4 4 3`     | mirrored behind the last pixel: `-1` is 0          |
//!
//! torchvision's `pad`, which refuses a reflection longer than the image; this filter repeats the
//! reflection as often as needed.
//!
//! | | |
//! |--------|---------------------------------------------------|
//! | input  | u8 `[H, W, C]`, C in 1..=4, rows any stride apart |
//! | output | u8 `[top + H + bottom, left + W + right, C]`      |
//! | random | nothing                                           |
//! | cost   | a copy of each row                                |

use crate::Size;
use crate::shape::ImageView;
use std::ops::Range;

/// The contents of a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PadMode {
    /// The nearest edge pixel.
    Edge,
    /// The mirrored image, without repeating the edge pixels.
    Reflect,
    /// The mirrored image, with the edge pixels repeated.
    Symmetric,
}

impl PadMode {
    /// Returns the source pixel of index `i`, which may be outside, on an axis of `side` pixels.
    /// `side` must not be 0.
    pub(crate) fn index(self, i: i64, side: u32) -> u32 {
        let side = i64::from(side);
        let inside = match self {
            Self::Edge => i.clamp(0, side - 1),
            Self::Reflect if side == 1 => 0,
            Self::Reflect => {
                let last = side - 1;
                last - (i.rem_euclid(2 * last) - last).abs()
            }
            Self::Symmetric => {
                let offset = i.rem_euclid(2 * side);
                offset.min(2 * side - 1 - offset)
            }
        };
        inside as u32
    }
}

/// A border of the image's own pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Padding {
    /// Rows above.
    pub top: u32,
    /// Columns to the left.
    pub left: u32,
    /// Rows below.
    pub bottom: u32,
    /// Columns to the right.
    pub right: u32,
    /// The contents of the border.
    pub mode: PadMode,
}

impl Padding {
    pub(super) fn output(self, input: Size) -> Size {
        let Self { top, left, bottom, right, .. } = self;
        let height = input.height.saturating_add(top).saturating_add(bottom);
        Size::new(height, input.width.saturating_add(left).saturating_add(right))
    }

    /// Returns the row and column of the input that are copied to `(y, x)` of the output.
    pub(super) fn source(self, input: Size, y: u32, x: u32) -> (u32, u32) {
        let y = self.mode.index(i64::from(y) - i64::from(self.top), input.height);
        (y, self.mode.index(i64::from(x) - i64::from(self.left), input.width))
    }

    pub(super) fn eval(self, input: &ImageView<'_>) -> Vec<u8> {
        let size = self.output(input.size());
        let channels = input.channels();
        let mut pixels = Vec::with_capacity(size.pixels() as usize * channels);
        for y in 0..size.height {
            for x in 0..size.width {
                let (y, x) = self.source(input.size(), y, x);
                pixels.extend_from_slice(&input.row(y)[x as usize * channels..][..channels]);
            }
        }
        pixels
    }
}

/// The rows of one image with a border.
#[derive(Debug)]
pub(super) struct PadRows<'a> {
    padding: Padding,
    input: ImageView<'a>,
    columns: Range<u32>,
    /// The columns inside the input.
    middle: Range<u32>,
}

impl<'a> PadRows<'a> {
    pub(super) fn new(padding: Padding, input: ImageView<'a>, columns: Range<u32>) -> Self {
        let clip = |x: u32| x.clamp(columns.start, columns.end);
        let end = padding.left.saturating_add(input.size().width);
        let middle = clip(padding.left)..clip(end);
        Self { padding, input, columns, middle }
    }

    #[inline(always)]
    pub(super) fn row<const C: usize>(&self, y: u32, out: &mut [u8]) {
        let size = self.input.size();
        let row = self.input.row(self.padding.source(size, y, 0).0);
        let Range { start, end } = self.middle;
        let (before, rest) = out.split_at_mut((start - self.columns.start) as usize * C);
        let (middle, behind) = rest.split_at_mut((end - start) as usize * C);
        if !middle.is_empty() {
            let first = (start - self.padding.left) as usize * C;
            middle.copy_from_slice(&row[first..first + middle.len()]);
        }
        for (frame, first) in [(before, self.columns.start), (behind, end)] {
            for (out, x) in frame.as_chunks_mut::<C>().0.iter_mut().zip(first..) {
                let x = self.padding.source(size, y, x).1;
                out.copy_from_slice(&row[x as usize * C..][..C]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(mode: PadMode, by: i64) -> Vec<u32> {
        (-by..4 + by).map(|i| mode.index(i, 4) + 1).collect()
    }

    #[test]
    fn four_pixels_are_framed_as_torchvision_does() {
        assert_eq!(padded(PadMode::Edge, 2), [1, 1, 1, 2, 3, 4, 4, 4]);
        assert_eq!(padded(PadMode::Reflect, 2), [3, 2, 1, 2, 3, 4, 3, 2]);
        assert_eq!(padded(PadMode::Symmetric, 2), [2, 1, 1, 2, 3, 4, 4, 3]);
    }

    #[test]
    fn a_frame_wider_than_the_picture_is_mirrored_on() {
        assert_eq!(padded(PadMode::Reflect, 5)[..6], [2, 3, 4, 3, 2, 1]);
        assert_eq!(padded(PadMode::Symmetric, 6)[..7], [3, 4, 4, 3, 2, 1, 1]);
        assert_eq!([-3, -1, 0, 1, 7].map(|i| PadMode::Reflect.index(i, 1)), [0; 5]);
    }
}
