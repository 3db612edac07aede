//! The pixels of a macroblock: predictions from the pixels above and to the left, plus the transforms of coefficients
//! (RFC 6386, sections 12 and 14).
//!
//! A macroblock is made in a buffer with the pixels around it, none of which are filtered. Outside the image, those above
//! are 127 and those to the left 129.

use crate::modes::{BlockMode, Luma, Macroblock, Mode};
use crate::tokens::{Coefficients, Content};
use fuseloop_kernels::vp8::{add_dc, add_transform};

/// The bytes of a row of the buffer.
const STRIDE: usize = 32;

/// The column of the first pixel of luma, and of the first of U; that of V is 16 later.
const LEFT: usize = 8;

/// A macroblock and the pixels around it. Row 0 is the one above it.
#[derive(Debug)]
pub(crate) struct Workspace {
    luma: [u8; STRIDE * 17],
    /// U and V side by side.
    chroma: [u8; STRIDE * 9],
}

/// The last row of a macroblock, not filtered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastRow {
    luma: [u8; 16],
    chroma: [[u8; 8]; 2],
}

impl Default for Workspace {
    fn default() -> Self {
        Self { luma: [0; STRIDE * 17], chroma: [0; STRIDE * 9] }
    }
}

impl Workspace {
    /// Begins a row of macroblocks.
    #[inline(always)]
    pub(crate) fn begin_row(&mut self, is_top: bool) {
        let corner = if is_top {
            self.luma[..STRIDE].fill(127);
            self.chroma[..STRIDE].fill(127);
            127
        } else {
            129
        };
        for row in self.luma.as_chunks_mut::<STRIDE>().0 {
            row[LEFT - 1] = 129;
        }
        for row in self.chroma.as_chunks_mut::<STRIDE>().0 {
            (row[LEFT - 1], row[LEFT + 15]) = (129, 129);
        }
        self.luma[LEFT - 1] = corner;
        (self.chroma[LEFT - 1], self.chroma[LEFT + 15]) = (corner, corner);
    }

    /// Moves to the next macroblock of the row: the last column becomes that to the left.
    #[inline(always)]
    pub(crate) fn next(&mut self) {
        for row in self.luma.as_chunks_mut::<STRIDE>().0 {
            row[LEFT - 1] = row[LEFT + 15];
        }
        for row in self.chroma.as_chunks_mut::<STRIDE>().0 {
            (row[LEFT - 1], row[LEFT + 15]) = (row[LEFT + 7], row[LEFT + 23]);
        }
    }

    /// Takes the pixels above from the macroblock there, and those to the right of them from the next one, if there is one.
    #[inline(always)]
    pub(crate) fn set_above(&mut self, above: &LastRow, next: Option<&LastRow>) {
        self.luma[LEFT..LEFT + 16].copy_from_slice(&above.luma);
        let right = match next {
            Some(next) => [next.luma[0], next.luma[1], next.luma[2], next.luma[3]],
            None => [above.luma[15]; 4],
        };
        self.luma[LEFT + 16..LEFT + 20].copy_from_slice(&right);
        self.chroma[LEFT..LEFT + 8].copy_from_slice(&above.chroma[0]);
        self.chroma[LEFT + 16..LEFT + 24].copy_from_slice(&above.chroma[1]);
    }

    /// Returns the last row.
    #[inline(always)]
    pub(crate) fn last_row(&self) -> LastRow {
        let mut row = LastRow::default();
        row.luma.copy_from_slice(&self.luma[STRIDE * 16 + LEFT..][..16]);
        row.chroma[0].copy_from_slice(&self.chroma[STRIDE * 8 + LEFT..][..8]);
        row.chroma[1].copy_from_slice(&self.chroma[STRIDE * 8 + LEFT + 16..][..8]);
        row
    }

    /// Copies the pixels to a plane of luma.
    #[inline(always)]
    pub(crate) fn copy_luma(&self, plane: &mut [u8], stride: usize) {
        let plane = &mut plane[..15 * stride + 16];
        for (y, row) in self.luma.as_chunks::<STRIDE>().0.iter().skip(1).enumerate() {
            plane[y * stride..][..16].copy_from_slice(&row[LEFT..LEFT + 16]);
        }
    }

    /// Copies the pixels to the planes of chroma.
    #[inline(always)]
    pub(crate) fn copy_chroma(&self, [u, v]: [&mut [u8]; 2], stride: usize) {
        let (u, v) = (&mut u[..7 * stride + 8], &mut v[..7 * stride + 8]);
        for (y, row) in self.chroma.as_chunks::<STRIDE>().0.iter().skip(1).enumerate() {
            u[y * stride..][..8].copy_from_slice(&row[LEFT..LEFT + 8]);
            v[y * stride..][..8].copy_from_slice(&row[LEFT + 16..LEFT + 24]);
        }
    }

    /// Makes a macroblock. `is_left` and `is_top` say that it is at an edge of the image.
    #[inline(always)]
    pub(crate) fn make(
        &mut self,
        macroblock: &Macroblock,
        coefficients: &Coefficients,
        is_left: bool,
        is_top: bool,
    ) {
        match &macroblock.luma {
            Luma::Whole(mode) => {
                predict::<16>(&mut self.luma, LEFT, *mode, is_left, is_top);
                for i in 0..16 {
                    let at = STRIDE * (1 + i / 4 * 4) + LEFT + i % 4 * 4;
                    add(coefficients, i, &mut self.luma[at..]);
                }
            }
            Luma::Blocks(modes) => {
                // The pixels above and to the right of the blocks at the right are those of the first row, for all rows.
                let mut right = [0; 4];
                right.copy_from_slice(&self.luma[LEFT + 16..LEFT + 20]);
                for row in [4, 8, 12] {
                    self.luma[STRIDE * row + LEFT + 16..][..4].copy_from_slice(&right);
                }
                for (i, &mode) in modes.iter().enumerate() {
                    let at = STRIDE * (1 + i / 4 * 4) + LEFT + i % 4 * 4;
                    predict_block(&mut self.luma[at - STRIDE - 1..][..4 * STRIDE + 5], mode);
                    add(coefficients, i, &mut self.luma[at..]);
                }
            }
        }
        for (left, first) in [(LEFT, 16), (LEFT + 16, 20)] {
            predict::<8>(&mut self.chroma, left, macroblock.chroma, is_left, is_top);
            for i in 0..4 {
                let at = STRIDE * (1 + i / 2 * 4) + left + i % 2 * 4;
                add(coefficients, first + i, &mut self.chroma[at..]);
            }
        }
    }
}

/// Adds the transform of a block to its prediction.
#[inline(always)]
fn add(coefficients: &Coefficients, i: usize, pixels: &mut [u8]) {
    match coefficients.contents[i] {
        Content::Nothing => {}
        Content::First => add_dc(coefficients.blocks[i][0], pixels, STRIDE),
        Content::Any => add_transform(&coefficients.blocks[i], pixels, STRIDE),
    }
}

/// Predicts `N` rows of `N` pixels from column `left` on.
#[inline(always)]
fn predict<const N: usize>(plane: &mut [u8], left: usize, mode: Mode, is_left: bool, is_top: bool) {
    let (above, rows) = plane.split_at_mut(STRIDE);
    let corner = above[left - 1];
    let mut top = [0; N];
    top.copy_from_slice(&above[left..left + N]);
    let rows = &mut rows.as_chunks_mut::<STRIDE>().0[..N];
    match mode {
        Mode::Mean => {
            let above: u32 = top.iter().map(|&pixel| u32::from(pixel)).sum();
            let beside: u32 = rows.iter().map(|row| u32::from(row[left - 1])).sum();
            let n = N as u32;
            let mean = match (is_left, is_top) {
                (false, false) => (above + beside + n) / (2 * n),
                (false, true) => (beside + n / 2) / n,
                (true, false) => (above + n / 2) / n,
                (true, true) => 128,
            };
            for row in rows {
                row[left..left + N].fill(mean as u8);
            }
        }
        Mode::Above => {
            for row in rows {
                row[left..left + N].copy_from_slice(&top);
            }
        }
        Mode::Left => {
            for row in rows {
                let pixel = row[left - 1];
                row[left..left + N].fill(pixel);
            }
        }
        Mode::TrueMotion => {
            for row in rows {
                let change = i16::from(row[left - 1]) - i16::from(corner);
                for (pixel, &above) in row[left..left + N].iter_mut().zip(&top) {
                    *pixel = (i16::from(above) + change).clamp(0, 255) as u8;
                }
            }
        }
    }
}

/// Predicts a 4x4 block (section 12.3). `around` begins with the pixel at its corner, above and to the left.
#[inline(always)]
fn predict_block(around: &mut [u8], mode: BlockMode) {
    let around = &mut around[..4 * STRIDE + 5];
    let pixel = |at: usize| u16::from(around[at]);
    let two = |a: u16, b: u16| ((a + b + 1) >> 1) as u8;
    let three = |a: u16, b: u16, c: u16| ((a + 2 * b + c + 2) >> 2) as u8;
    // The corner, 8 pixels above, and 4 to the left.
    let x = pixel(0);
    let [a, b, c, d, e, f, g, h] = [1, 2, 3, 4, 5, 6, 7, 8].map(pixel);
    let [i, j, k, l] = [1, 2, 3, 4].map(|row| pixel(row * STRIDE));
    let rows: [[u8; 4]; 4] = match mode {
        BlockMode::Mean => [[((a + b + c + d + i + j + k + l + 4) >> 3) as u8; 4]; 4],
        BlockMode::TrueMotion => std::array::from_fn(|row| {
            let change = [i, j, k, l][row] as i16 - x as i16;
            std::array::from_fn(|column| ([a, b, c, d][column] as i16 + change).clamp(0, 255) as u8)
        }),
        BlockMode::Above => [[three(x, a, b), three(a, b, c), three(b, c, d), three(c, d, e)]; 4],
        BlockMode::Left => {
            let means = [three(x, i, j), three(i, j, k), three(j, k, l), three(k, l, l)];
            std::array::from_fn(|row| [means[row]; 4])
        }
        BlockMode::RightDown => {
            let line = [
                three(j, k, l),
                three(i, j, k),
                three(x, i, j),
                three(a, x, i),
                three(b, a, x),
                three(c, b, a),
                three(d, c, b),
            ];
            std::array::from_fn(|row| std::array::from_fn(|x| line[3 - row + x]))
        }
        BlockMode::LeftDown => {
            let line = [
                three(a, b, c),
                three(b, c, d),
                three(c, d, e),
                three(d, e, f),
                three(e, f, g),
                three(f, g, h),
                three(g, h, h),
            ];
            std::array::from_fn(|row| std::array::from_fn(|x| line[row + x]))
        }
        BlockMode::VerticalRight => {
            let even = [two(x, a), two(a, b), two(b, c), two(c, d)];
            let odd = [three(i, x, a), three(x, a, b), three(a, b, c), three(b, c, d)];
            let (second, third) = (three(j, i, x), three(k, j, i));
            [even, odd, [second, even[0], even[1], even[2]], [third, odd[0], odd[1], odd[2]]]
        }
        BlockMode::VerticalLeft => {
            let even = [two(a, b), two(b, c), two(c, d), two(d, e)];
            let odd = [three(a, b, c), three(b, c, d), three(c, d, e), three(d, e, f)];
            [
                even,
                odd,
                [even[1], even[2], even[3], three(e, f, g)],
                [odd[1], odd[2], odd[3], three(f, g, h)],
            ]
        }
        BlockMode::HorizontalDown => {
            let line = [
                two(k, l),
                three(j, k, l),
                two(j, k),
                three(i, j, k),
                two(i, j),
                three(x, i, j),
                two(i, x),
                three(i, x, a),
                three(x, a, b),
                three(a, b, c),
            ];
            std::array::from_fn(|row| std::array::from_fn(|x| line[6 - 2 * row + x]))
        }
        BlockMode::HorizontalUp => {
            let last = l as u8;
            let line = [
                two(i, j),
                three(i, j, k),
                two(j, k),
                three(j, k, l),
                two(k, l),
                three(k, l, l),
                last,
                last,
                last,
                last,
            ];
            std::array::from_fn(|row| std::array::from_fn(|x| line[2 * row + x]))
        }
    };
    for (y, row) in rows.iter().enumerate() {
        around[(y + 1) * STRIDE + 1..][..4].copy_from_slice(row);
    }
}
