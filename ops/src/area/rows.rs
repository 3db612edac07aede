//! The area resize, one row at a time: produces the same bytes as [`resize`](super::resize), faster.
//!
//! A source row is widened to f32 and resized along x once, into one of four line buffers selected by
//! the source row; an output row blends the lines that it needs. Rows may therefore be requested in any
//! order, and are cheapest in consecutive order, upwards or downwards.
//!
//! Every output column has the same number of taps, padded with weights of 0: adding a product with 0
//! to a sum that is not negative changes no bit, and a loop of fixed length has no branch to
//! mispredict. Two-tap rows go through the same loop: products of a byte and a weight of at most 2048
//! are exact in f32. Each number of channels, `C`, has its own code. A pixel is computed in `L` lanes: one
//! for one channel, and otherwise four; the lanes behind the pixel's are of the next pixel, which overwrites
//! them.

use super::{AreaError, Axis, Rule, block_mean, fixed_weights};
use crate::Size;
use crate::shape::ImageView;
use std::ops::Range;

/// The number of line buffers; a source row uses the buffer with its index modulo this number. An
/// output row that blends three lines never evicts one of its own.
const LINES: usize = 4;

/// The taps along x for one pair of source size and output size. Rebuilding for another pair does not
/// allocate once the buffers have grown.
#[derive(Clone, Debug)]
pub struct AreaTables {
    source: Size,
    out: Size,
    rule: Rule,
    /// The number of taps of every output column, including taps of weight 0.
    taps: usize,
    /// The first source column of each output column.
    first: Vec<u32>,
    /// `taps` weights for each output column, each repeated four times, once per lane.
    weights: Vec<[f32; 4]>,
    /// The taps of the column that is being built.
    column: Vec<(u32, f32)>,
}

impl AreaTables {
    /// Builds the tables to resize images of size `source` to `out`.
    ///
    /// # Errors
    ///
    /// If either size has no pixels.
    pub fn new(source: Size, out: Size) -> Result<Self, AreaError> {
        let empty = Self {
            source,
            out,
            rule: Rule::Copy,
            taps: 0,
            first: Vec::new(),
            weights: Vec::new(),
            column: Vec::new(),
        };
        let mut tables = empty;
        tables.rebuild(source, out)?;
        Ok(tables)
    }

    /// Rebuilds the tables for another pair of sizes. This takes a few microseconds, and nothing if the
    /// sizes are the same.
    ///
    /// # Errors
    ///
    /// If either size has no pixels. The tables then stay unchanged.
    pub fn rebuild(&mut self, source: Size, out: Size) -> Result<(), AreaError> {
        let rule = Rule::of(source, out)?;
        let built = self.taps > 0 || !matches!(self.rule, Rule::Area | Rule::TwoTaps);
        if built && (self.source, self.out, self.rule) == (source, out, rule) {
            return Ok(());
        }
        (self.source, self.out, self.rule) = (source, out, rule);
        self.first.clear();
        self.weights.clear();
        let axis = Axis::new(source.width, out.width);
        match rule {
            Rule::Copy | Rule::Block { .. } => self.taps = 0,
            Rule::Area => self.build_area(axis),
            Rule::TwoTaps => self.build_two_taps(axis),
        }
        Ok(())
    }

    /// The size of the source images.
    #[must_use]
    pub fn source(&self) -> Size {
        self.source
    }

    /// The size of the output.
    #[must_use]
    pub fn out(&self) -> Size {
        self.out
    }

    fn build_area(&mut self, axis: Axis) {
        // An interval of this length touches at most this many pixels, wherever it begins.
        self.taps =
            axis.integer_scale().map_or_else(|| axis.scale as usize + 2, |whole| whole as usize);
        for x in 0..self.out.width {
            self.column.clear();
            axis.area(x, &mut self.column);
            debug_assert!(self.column.len() <= self.taps);
            self.first.push(self.column.first().map_or(0, |tap| tap.0));
            self.column.resize(self.taps, (0, 0.0));
            self.weights.extend(self.column.iter().map(|tap| [tap.1; 4]));
        }
    }

    fn build_two_taps(&mut self, axis: Axis) {
        self.taps = 2;
        for x in 0..self.out.width {
            let (first, share) = axis.two_taps_inside(x);
            self.first.push(first);
            self.weights.extend(fixed_weights(share).map(|weight| [f32::from(weight); 4]));
        }
    }
}

/// The working memory of an [`AreaRows`]. Each worker has one and reuses it for every image.
#[derive(Clone, Debug, Default)]
pub struct AreaScratch {
    /// The pixels of a source row as f32, followed by room for taps of weight 0 beyond the row's end.
    wide: Vec<f32>,
    lines: [Line; LINES],
    /// The sums of an output row that blends many lines.
    sums: Vec<f32>,
    totals: Vec<u32>,
    /// The source rows of one output row, with their weights.
    taps: Vec<(u32, f32)>,
}

/// A source row resized along x.
#[derive(Clone, Debug, Default)]
struct Line {
    /// The source row in this buffer, or `None` before the buffer is first filled.
    row: Option<u32>,
    /// The values of the area rule; for the two-tap rule, the values before the shift.
    area: Vec<f32>,
    /// The values of the two-tap rule: `T >> 4`.
    fixed: Vec<i16>,
}

/// A resize of one image, row by row.
///
/// ```
/// use fuseloop_ops::Size;
/// use fuseloop_ops::internals::ImageView;
/// use fuseloop_ops::internals::area::{AreaRows, AreaScratch, AreaTables};
///
/// let pixels = [9; 6 * 5 * 3];
/// let source = ImageView::packed(&pixels, Size::new(6, 5)).unwrap();
/// let tables = AreaTables::new(source.size(), Size::new(2, 3))?;
/// let mut scratch = AreaScratch::default();
/// let mut rows = AreaRows::new(&tables, source, 0..3, &mut scratch)?;
/// let mut row = [0; 3 * 3];
/// rows.row(1, &mut row);
/// assert_eq!(row, [9; 9]);
/// # Ok::<(), fuseloop_ops::internals::area::AreaError>(())
/// ```
#[derive(Debug)]
pub struct AreaRows<'a> {
    tables: &'a AreaTables,
    source: ImageView<'a>,
    columns: Range<usize>,
    scratch: &'a mut AreaScratch,
}

impl<'a> AreaRows<'a> {
    /// Prepares to resize `source` and to produce only the `columns` of the output.
    ///
    /// # Errors
    ///
    /// If the image does not have the size that the tables were built for, or a column is outside the
    /// output.
    pub fn new(
        tables: &'a AreaTables,
        source: ImageView<'a>,
        columns: Range<u32>,
        scratch: &'a mut AreaScratch,
    ) -> Result<Self, AreaError> {
        if source.size() != tables.source {
            return Err(AreaError::Source { found: source.size(), expected: tables.source });
        }
        let Range { start, end } = columns;
        if start > end || end > tables.out.width {
            return Err(AreaError::Columns { start, end, width: tables.out.width });
        }
        for line in &mut scratch.lines {
            line.row = None; // holds a row of another image
        }
        Ok(Self { tables, source, columns: start as usize..end as usize, scratch })
    }

    /// Writes the requested columns of output row `y`; `dst` is `channels * columns.len()` bytes long.
    ///
    /// # Panics
    ///
    /// If `y` is not below the output's height, or `dst` has another length.
    pub fn row(&mut self, y: u32, dst: &mut [u8]) {
        match self.source.channels() {
            1 => self.row_of::<1, 1>(y, dst),
            2 => self.row_of::<2, 4>(y, dst),
            3 => self.row_of::<3, 4>(y, dst),
            _ => self.row_of::<4, 4>(y, dst),
        }
    }

    fn row_of<const C: usize, const L: usize>(&mut self, y: u32, dst: &mut [u8]) {
        assert!(y < self.tables.out.height, "row {y} is outside the output of {}", self.tables.out);
        assert_eq!(dst.len(), self.columns.len() * C, "bytes for {:?}", self.columns);
        if dst.is_empty() {
            return;
        }
        match self.tables.rule {
            Rule::Copy => {
                let bytes = self.columns.start * C..self.columns.end * C;
                dst.copy_from_slice(&self.source.row(y)[bytes]);
            }
            Rule::Block { kx: 2, ky: 2 } => self.halve::<C>(y, dst),
            Rule::Block { kx, ky } => self.block::<C>(y, kx, ky, dst),
            Rule::Area => self.area::<C, L>(y, dst),
            Rule::TwoTaps => self.two_taps::<C, L>(y, dst),
        }
    }

    fn halve<const C: usize>(&self, y: u32, dst: &mut [u8]) {
        let bytes = self.columns.start * 2 * C..self.columns.end * 2 * C;
        let top = self.source.row(2 * y)[bytes.clone()].as_chunks::<C>().0.as_chunks::<2>().0;
        let bottom = self.source.row(2 * y + 1)[bytes].as_chunks::<C>().0.as_chunks::<2>().0;
        for ((out, a), b) in dst.as_chunks_mut::<C>().0.iter_mut().zip(top).zip(bottom) {
            for c in 0..C {
                let sum = [a[0][c], a[1][c], b[0][c], b[1][c]].map(u16::from).iter().sum::<u16>();
                out[c] = ((sum + 2) >> 2) as u8;
            }
        }
    }

    fn block<const C: usize>(&mut self, y: u32, kx: u32, ky: u32, dst: &mut [u8]) {
        let side = kx as usize * C;
        let bytes = self.columns.start * side..self.columns.end * side;
        let totals = &mut self.scratch.totals;
        totals.clear();
        totals.resize(bytes.len(), 0);
        for source in y * ky..(y + 1) * ky {
            for (total, &value) in totals.iter_mut().zip(&self.source.row(source)[bytes.clone()]) {
                *total += u32::from(value); // fits: an overflow needs a block of more than 2^24 rows
            }
        }
        for (out, block) in dst.as_chunks_mut::<C>().0.iter_mut().zip(totals.chunks_exact(side)) {
            let mut sum = [0i64; C];
            for pixel in block.as_chunks::<C>().0 {
                for c in 0..C {
                    sum[c] += i64::from(pixel[c]);
                }
            }
            *out = sum.map(|sum| block_mean(sum, ky, kx));
        }
    }

    fn area<const C: usize, const L: usize>(&mut self, y: u32, dst: &mut [u8]) {
        let mut taps = std::mem::take(&mut self.scratch.taps);
        taps.clear();
        Axis::new(self.tables.source.height, self.tables.out.height).area(y, &mut taps);
        match *taps.as_slice() {
            [a] => self.blend::<C, L, 1>([a], dst),
            [a, b] => self.blend::<C, L, 2>([a, b], dst),
            [a, b, c] => self.blend::<C, L, 3>([a, b, c], dst),
            _ => self.blend_many::<C, L>(&taps, dst),
        }
        self.scratch.taps = taps;
    }

    /// Blends up to [`LINES`] lines of consecutive source rows.
    fn blend<const C: usize, const L: usize, const N: usize>(
        &mut self,
        taps: [(u32, f32); N],
        dst: &mut [u8],
    ) {
        const { assert!(N > 0 && N <= LINES) };
        for (row, _) in taps {
            self.fill::<C, L>(row);
        }
        let lines = taps.map(|(row, _)| &self.scratch.lines[line_index(row)].area[..dst.len()]);
        for (i, out) in dst.iter_mut().enumerate() {
            let mut sum = taps[0].1 * lines[0][i];
            for n in 1..N {
                sum += taps[n].1 * lines[n][i];
            }
            *out = nearest(sum);
        }
    }

    fn blend_many<const C: usize, const L: usize>(&mut self, taps: &[(u32, f32)], dst: &mut [u8]) {
        self.scratch.sums.clear();
        self.scratch.sums.resize(dst.len(), 0.0);
        for &(row, weight) in taps {
            self.fill::<C, L>(row);
            let AreaScratch { sums, lines, .. } = &mut *self.scratch;
            for (sum, value) in sums.iter_mut().zip(&lines[line_index(row)].area) {
                *sum += weight * value;
            }
        }
        for (out, &sum) in dst.iter_mut().zip(&self.scratch.sums) {
            *out = nearest(sum);
        }
    }

    fn two_taps<const C: usize, const L: usize>(&mut self, y: u32, dst: &mut [u8]) {
        let axis = Axis::new(self.tables.source.height, self.tables.out.height);
        let (first, share) = axis.two_taps(y);
        let [b0, b1] = fixed_weights(share);
        let [top, bottom] = [first, first + 1].map(|row| row.min(axis.source - 1));
        self.fill::<C, L>(top);
        self.fill::<C, L>(bottom);
        let [top, bottom] =
            [top, bottom].map(|row| &self.scratch.lines[line_index(row)].fixed[..dst.len()]);
        for ((out, &t0), &t1) in dst.iter_mut().zip(top).zip(bottom) {
            *out = ((high_half(b0, t0) + high_half(b1, t1) + 2) >> 2) as u8;
        }
    }

    /// Resizes source row `row` along x into its line buffer, unless the buffer already holds the row.
    fn fill<const C: usize, const L: usize>(&mut self, row: u32) {
        let AreaScratch { wide, lines, .. } = &mut *self.scratch;
        let line = &mut lines[line_index(row)];
        if line.row == Some(row) {
            return;
        }
        let tables = self.tables;
        let (first, last) = (tables.first[self.columns.start], tables.first[self.columns.end - 1]);
        let begin = first as usize * C;
        let bytes = &self.source.row(row)[begin..];
        let needed = ((last - first) as usize + tables.taps) * C + (L - C);
        widen(&bytes[..bytes.len().min(needed)], needed, wide);

        line.row = Some(row);
        grow(&mut line.area, self.columns.len() * C + (L - C));
        let weights =
            &tables.weights[self.columns.start * tables.taps..self.columns.end * tables.taps];
        let firsts = &tables.first[self.columns.clone()];
        gather::<C, L>(tables.taps, wide, firsts, weights, &mut line.area);
        if tables.rule == Rule::TwoTaps {
            grow(&mut line.fixed, line.area.len());
            for (fixed, &value) in line.fixed.iter_mut().zip(&line.area) {
                *fixed = sixteenth(value);
            }
        }
    }
}

/// Returns the index of the line buffer of a source row.
const fn line_index(row: u32) -> usize {
    row as usize % LINES
}

/// Makes `buffer` at least `len` long. Its contents are unspecified.
fn grow<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, T::default());
    }
}

/// Writes the bytes to `wide` as f32. The values after them, up to `len`, are finite leftovers, which
/// are only multiplied by a weight of 0.
fn widen(bytes: &[u8], len: usize, wide: &mut Vec<f32>) {
    grow(wide, len);
    for (value, &byte) in wide.iter_mut().zip(bytes) {
        *value = f32::from(byte);
    }
}

/// Resizes a row along x with `taps` weights per column; the first tap of column `x` is
/// `firsts[x] - firsts[0]` pixels into `wide`.
fn gather<const C: usize, const L: usize>(
    taps: usize,
    wide: &[f32],
    firsts: &[u32],
    weights: &[[f32; 4]],
    out: &mut [f32],
) {
    match taps {
        1 => gather_fixed::<C, L, 1>(wide, firsts, weights, out),
        2 => gather_fixed::<C, L, 2>(wide, firsts, weights, out),
        3 => gather_fixed::<C, L, 3>(wide, firsts, weights, out),
        4 => gather_fixed::<C, L, 4>(wide, firsts, weights, out),
        5 => gather_fixed::<C, L, 5>(wide, firsts, weights, out),
        6 => gather_fixed::<C, L, 6>(wide, firsts, weights, out),
        7 => gather_fixed::<C, L, 7>(wide, firsts, weights, out),
        8 => gather_fixed::<C, L, 8>(wide, firsts, weights, out),
        _ => gather_any::<C, L>(taps, wide, firsts, weights, out),
    }
}

fn gather_fixed<const C: usize, const L: usize, const TAPS: usize>(
    wide: &[f32],
    firsts: &[u32],
    weights: &[[f32; 4]],
    out: &mut [f32],
) {
    for (x, (&first, weights)) in firsts.iter().zip(weights.as_chunks::<TAPS>().0).enumerate() {
        let at = (first - firsts[0]) as usize * C;
        let pixels = &wide[at..at + TAPS * C + (L - C)];
        let mut sum = [0.0; L];
        for (tap, weight) in weights.iter().enumerate() {
            for lane in 0..L {
                sum[lane] += pixels[tap * C + lane] * weight[lane];
            }
        }
        out[x * C..x * C + L].copy_from_slice(&sum);
    }
}

fn gather_any<const C: usize, const L: usize>(
    taps: usize,
    wide: &[f32],
    firsts: &[u32],
    weights: &[[f32; 4]],
    out: &mut [f32],
) {
    for (x, (&first, weights)) in firsts.iter().zip(weights.chunks_exact(taps)).enumerate() {
        let at = (first - firsts[0]) as usize * C;
        let pixels = &wide[at..at + taps * C + (L - C)];
        let mut sum = [0.0; L];
        for (pixel, weight) in pixels.windows(L).step_by(C).zip(weights) {
            for lane in 0..L {
                sum[lane] += pixel[lane] * weight[lane];
            }
        }
        out[x * C..x * C + L].copy_from_slice(&sum);
    }
}

/// Adding this constant to a value in `0.0..2^23` leaves the value's nearest integer (ties to even) in
/// the low bits of the sum. `round_ties_even` is a function call on x86-64 without SSE4.1; this is a
/// vector addition.
const ROUNDING: f32 = 8_388_608.0;

/// Rounds a weighted mean of bytes to the nearest byte.
fn nearest(mean: f32) -> u8 {
    // The weights may add up to slightly more than 1; the result is still at most 255.
    (mean.min(255.0) + ROUNDING).to_bits() as u8
}

/// Returns `value >> 4` for an integer value in `0..2^19`.
fn sixteenth(value: f32) -> i16 {
    (((value + ROUNDING).to_bits() & 0x7f_ffff) >> 4) as i16
}

/// Returns the upper 16 bits of the 32-bit product.
fn high_half(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b)) >> 16) as i16
}
