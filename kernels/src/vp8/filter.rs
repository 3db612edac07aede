//! The loop filter of a row of macroblocks.
//!
//! An edge has eight pixels across it, four on each side: `p3 p2 p1 p0 | q0 q1 q2 q3`. A pixel of the edge is filtered where
//! the two sides are alike: where all differences of neighbours are at most the interior limit, and
//! `2 |p0 - q0| + |p1 - q1| / 2` is at most that of the edge. The edges of a macroblock, 16 pixels of luma and 8 of each
//! chroma, are filtered from left to right and then from top to bottom, and macroblocks row by row, because each filter
//! reads what the ones before it wrote.
//!
//! | | |
//! |--------|--------------------------------------------------------------------|
//! | input  | three planes that begin some rows above the row of macroblocks         |
//! | output | the same, changed up to 3 pixels above and left of each macroblock     |
//! | cost   | 16 pixels of an edge at a time; edges from top to bottom are transposed  |

use crate::cpu::{CpuWork, for_cpu, interleaved};

/// The limits of the loop filter in a macroblock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterStrength {
    /// The limit of the difference across an edge inside the macroblock; that of its own edges is 4 more. 0 means that
    /// nothing is filtered.
    pub edge: u8,
    /// The limit of the differences of neighbours on one side.
    pub interior: u8,
    /// The limit above which pixels next to an edge are of high variance: then only two pixels are changed.
    pub variance: u8,
}

impl FilterStrength {
    /// The strength of no filter.
    pub const NONE: Self = Self { edge: 0, interior: 0, variance: 0 };
}

/// A macroblock for the loop filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// The strength.
    pub strength: FilterStrength,
    /// True if the edges inside the macroblock are filtered, too.
    pub has_inner: bool,
}

/// The planes of a row of macroblocks, and of some rows of pixels above it.
#[derive(Debug)]
pub struct FilterPlanes<'a> {
    /// Luma: at least 4 rows, and the 16 of the macroblocks.
    pub y: &'a mut [u8],
    /// The two planes of chroma: at least 4 rows, and the 8 of the macroblocks.
    pub uv: [&'a mut [u8]; 2],
    /// The bytes of a row of luma, twice those of chroma.
    pub stride: usize,
    /// The rows of luma above the macroblocks, twice those of chroma.
    pub above: usize,
}

/// The columns, or rows, across an edge, from p3 to q3.
type Across = [[u8; 16]; 8];

/// The pixels on both sides of an edge, at one of its places.
#[derive(Clone, Copy)]
struct Sides {
    p: [i16; 4],
    q: [i16; 4],
}

/// Returns `value` within the numbers of a byte with a sign.
#[inline(always)]
fn clamped(value: i16) -> i16 {
    value.clamp(-128, 127)
}

impl Sides {
    #[inline(always)]
    fn is_alike(&self, edge: i16) -> bool {
        let (p, q) = (self.p, self.q);
        2 * (p[0] - q[0]).abs() + ((p[1] - q[1]).abs() >> 1) <= edge
    }

    #[inline(always)]
    fn is_flat(&self, interior: i16) -> bool {
        let most = |[a, b, c, d]: [i16; 4]| (a - b).abs().max((b - c).abs()).max((c - d).abs());
        most(self.p).max(most(self.q)) <= interior
    }

    #[inline(always)]
    fn has_high_variance(&self, limit: i16) -> bool {
        (self.p[1] - self.p[0]).abs().max((self.q[1] - self.q[0]).abs()) > limit
    }

    /// Returns three times the difference across the edge, and that of the next pixels if `has_outer`.
    #[inline(always)]
    fn difference(&self, has_outer: bool) -> i16 {
        let outer = if has_outer { clamped(self.p[1] - self.q[1]) } else { 0 };
        clamped(outer + 3 * (self.q[0] - self.p[0]))
    }

    /// Changes the pixels at the edge by an eighth. Returns the change of q0.
    #[inline(always)]
    fn move_inner(&mut self, difference: i16) -> i16 {
        let (up, down) = (clamped(difference + 4) >> 3, clamped(difference + 3) >> 3);
        self.q[0] -= up;
        self.p[0] += down;
        up
    }
}

/// Filters an edge between 4x4 blocks.
#[inline(always)]
fn inner_edge(mut sides: Sides, edge: i16, limits: FilterStrength) -> Sides {
    let old = sides;
    let is_filtered = sides.is_alike(edge) & sides.is_flat(limits.interior.into());
    let is_high = sides.has_high_variance(limits.variance.into());
    let difference = if is_filtered { sides.difference(is_high) } else { 0 };
    let change = (sides.move_inner(difference) + 1) >> 1;
    let change = if is_high | !is_filtered { 0 } else { change };
    sides.q[1] = old.q[1] - change;
    sides.p[1] = old.p[1] + change;
    sides
}

/// Filters an edge between macroblocks.
#[inline(always)]
fn outer_edge(mut sides: Sides, edge: i16, limits: FilterStrength) -> Sides {
    let is_filtered = sides.is_alike(edge) & sides.is_flat(limits.interior.into());
    let is_high = sides.has_high_variance(limits.variance.into());
    let difference = if is_filtered { sides.difference(true) } else { 0 };
    let (few, many) = if is_high { (difference, 0) } else { (0, difference) };
    sides.move_inner(few);
    for (i, factor) in [27, 18, 9].into_iter().enumerate() {
        let change = (factor * many + 63) >> 7;
        sides.q[i] -= change;
        sides.p[i] += change;
    }
    sides
}

/// Filters an edge of luma by the simple filter.
#[inline(always)]
fn simple_edge(mut sides: Sides, edge: i16) -> Sides {
    let difference = if sides.is_alike(edge) { sides.difference(true) } else { 0 };
    sides.move_inner(difference);
    sides
}

/// The filters of an edge.
const SIMPLE: u8 = 0;
const INNER: u8 = 1;
const OUTER: u8 = 2;

/// Filters all places of an edge.
#[inline(always)]
fn filter<const FILTER: u8>(across: Across, edge: u8, limits: FilterStrength) -> Across {
    let mut out = across;
    for i in 0..16 {
        let mut sides = Sides { p: [0; 4], q: [0; 4] };
        for k in 0..4 {
            sides.p[k] = i16::from(across[3 - k][i]) - 128;
            sides.q[k] = i16::from(across[4 + k][i]) - 128;
        }
        let sides = match FILTER {
            SIMPLE => simple_edge(sides, edge.into()),
            INNER => inner_edge(sides, edge.into(), limits),
            _ => outer_edge(sides, edge.into(), limits),
        };
        for k in 0..3 {
            out[3 - k][i] = (clamped(sides.p[k]) + 128) as u8;
            out[4 + k][i] = (clamped(sides.q[k]) + 128) as u8;
        }
    }
    out
}

/// Rotates the bits of the index of each byte in `N` vectors by one to the left. The lowest bits are those of a vector's
/// bytes.
#[inline(always)]
fn rotated<const N: usize>(vectors: [[u8; 16]; N]) -> [[u8; 16]; N] {
    let mut out = vectors;
    for i in 0..N / 2 {
        let pair = interleaved::<16>(vectors[i], vectors[i + N / 2]);
        out[2 * i] = pair[0];
        out[2 * i + 1] = pair[1];
    }
    out
}

/// Reads the 8 columns across an edge from 16 rows.
#[inline(always)]
fn columns<'a>(row: impl Fn(usize) -> &'a [u8]) -> Across {
    let mut rows = [[0; 16]; 8];
    for (i, pair) in rows.iter_mut().enumerate() {
        pair[..8].copy_from_slice(&row(2 * i)[..8]);
        pair[8..].copy_from_slice(&row(2 * i + 1)[..8]);
    }
    rotated(rotated(rotated(rotated(rows))))
}

/// Returns the 16 rows of 8 columns, two in each vector.
#[inline(always)]
fn rows(across: Across) -> [[u8; 16]; 8] {
    rotated(rotated(rotated(across)))
}

/// The planes of a row of macroblocks, and the macroblocks to filter.
struct Row<'a, 'b, const IS_SIMPLE: bool> {
    planes: &'b mut FilterPlanes<'a>,
    edges: &'b [Edges],
    first: usize,
    is_top: bool,
}

impl<const IS_SIMPLE: bool> Row<'_, '_, IS_SIMPLE> {
    /// Filters the left edge of a macroblock of luma.
    #[inline(always)]
    fn luma_left(&mut self, x: usize, limits: FilterStrength) {
        let stride = self.planes.stride;
        let first = self.planes.above * stride + 16 * x - 4;
        let y = &mut self.planes.y[first..][..15 * stride + 8];
        let across = columns(|row| &y[row * stride..]);
        let across = Self::outer(across, limits);
        for (i, pair) in rows(across).iter().enumerate() {
            y[2 * i * stride..][..8].copy_from_slice(&pair[..8]);
            y[(2 * i + 1) * stride..][..8].copy_from_slice(&pair[8..]);
        }
    }

    /// Filters the three edges inside a macroblock of luma from left to right.
    #[inline(always)]
    fn luma_columns(&mut self, x: usize, limits: FilterStrength) {
        let stride = self.planes.stride;
        let first = self.planes.above * stride + 16 * x;
        let y = &mut self.planes.y[first..][..15 * stride + 16];
        let mut block = [[0; 16]; 16];
        for (row, block) in block.iter_mut().enumerate() {
            block.copy_from_slice(&y[row * stride..][..16]);
        }
        let mut columns = rotated(rotated(rotated(rotated(block))));
        Self::three(&mut columns, limits);
        let block = rotated(rotated(rotated(rotated(columns))));
        for (row, block) in block.iter().enumerate() {
            y[row * stride..][..16].copy_from_slice(block);
        }
    }

    /// Filters an edge of a macroblock of luma.
    #[inline(always)]
    fn outer(across: Across, limits: FilterStrength) -> Across {
        let edge = limits.edge + 4;
        if IS_SIMPLE {
            filter::<SIMPLE>(across, edge, limits)
        } else {
            filter::<OUTER>(across, edge, limits)
        }
    }

    /// Filters the three edges inside 16 columns, or rows.
    #[inline(always)]
    fn three(block: &mut [[u8; 16]; 16], limits: FilterStrength) {
        for at in [4, 8, 12] {
            let across = std::array::from_fn(|i| block[at - 4 + i]);
            let across = if IS_SIMPLE {
                filter::<SIMPLE>(across, limits.edge, limits)
            } else {
                filter::<INNER>(across, limits.edge, limits)
            };
            block[at - 3..at + 3].copy_from_slice(&across[1..7]);
        }
    }

    /// Filters the top edge of a macroblock of luma.
    #[inline(always)]
    fn luma_top(&mut self, x: usize, limits: FilterStrength) {
        let stride = self.planes.stride;
        let first = (self.planes.above - 4) * stride + 16 * x;
        let y = &mut self.planes.y[first..][..7 * stride + 16];
        let mut across = [[0; 16]; 8];
        for (row, across) in across.iter_mut().enumerate() {
            across.copy_from_slice(&y[row * stride..][..16]);
        }
        let across = Self::outer(across, limits);
        for row in 1..7 {
            y[row * stride..][..16].copy_from_slice(&across[row]);
        }
    }

    /// Filters the three edges inside a macroblock of luma from top to bottom.
    #[inline(always)]
    fn luma_rows(&mut self, x: usize, limits: FilterStrength) {
        let stride = self.planes.stride;
        let first = self.planes.above * stride + 16 * x;
        let y = &mut self.planes.y[first..][..15 * stride + 16];
        let mut block = [[0; 16]; 16];
        for (row, block) in block.iter_mut().enumerate() {
            block.copy_from_slice(&y[row * stride..][..16]);
        }
        Self::three(&mut block, limits);
        for (row, block) in block.iter().enumerate().take(15).skip(1) {
            y[row * stride..][..16].copy_from_slice(block);
        }
    }

    /// Filters an edge from top to bottom of both chromas: `at` is its column.
    #[inline(always)]
    fn chroma_columns<const FILTER: u8>(&mut self, at: usize, edge: u8, limits: FilterStrength) {
        let stride = self.planes.stride / 2;
        let first = self.planes.above / 2 * stride + at - 4;
        let [u, v] = &mut self.planes.uv;
        let (u, v) = (&mut u[first..][..7 * stride + 8], &mut v[first..][..7 * stride + 8]);
        let across =
            columns(|row| if row < 8 { &u[row * stride..] } else { &v[(row - 8) * stride..] });
        let rows = rows(filter::<FILTER>(across, edge, limits));
        for (i, pair) in rows.iter().enumerate() {
            let plane = if i < 4 { &mut *u } else { &mut *v };
            let row = 2 * (i % 4);
            plane[row * stride..][..8].copy_from_slice(&pair[..8]);
            plane[(row + 1) * stride..][..8].copy_from_slice(&pair[8..]);
        }
    }

    /// Filters an edge from left to right of both chromas: `at` is its row, counted from that of the macroblock.
    #[inline(always)]
    fn chroma_rows<const FILTER: u8>(
        &mut self,
        x: usize,
        at: usize,
        edge: u8,
        limits: FilterStrength,
    ) {
        let stride = self.planes.stride / 2;
        let first = (self.planes.above / 2 + at - 4) * stride + 8 * x;
        let [u, v] = &mut self.planes.uv;
        let (u, v) = (&mut u[first..][..7 * stride + 8], &mut v[first..][..7 * stride + 8]);
        let mut across = [[0; 16]; 8];
        for (row, across) in across.iter_mut().enumerate() {
            across[..8].copy_from_slice(&u[row * stride..][..8]);
            across[8..].copy_from_slice(&v[row * stride..][..8]);
        }
        let across = filter::<FILTER>(across, edge, limits);
        for row in 1..7 {
            u[row * stride..][..8].copy_from_slice(&across[row][..8]);
            v[row * stride..][..8].copy_from_slice(&across[row][8..]);
        }
    }
}

impl<const IS_SIMPLE: bool> CpuWork for Row<'_, '_, IS_SIMPLE> {
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        for x in self.first..self.edges.len() {
            let Edges { strength, has_inner } = self.edges[x];
            let edge = strength.edge;
            if edge == 0 {
                continue;
            }
            if x > 0 {
                self.luma_left(x, strength);
                if !IS_SIMPLE {
                    self.chroma_columns::<OUTER>(8 * x, edge + 4, strength);
                }
            }
            if has_inner {
                self.luma_columns(x, strength);
                if !IS_SIMPLE {
                    self.chroma_columns::<INNER>(8 * x + 4, edge, strength);
                }
            }
            if !self.is_top {
                self.luma_top(x, strength);
                if !IS_SIMPLE {
                    self.chroma_rows::<OUTER>(x, 0, edge + 4, strength);
                }
            }
            if has_inner {
                self.luma_rows(x, strength);
                if !IS_SIMPLE {
                    self.chroma_rows::<INNER>(x, 4, edge, strength);
                }
            }
        }
    }
}

/// Filters luma and chroma of the macroblocks of a row from `first` on. `is_top` says that no row is above it.
///
/// # Panics
///
/// If a plane has fewer rows or columns than the macroblocks and 4 rows above, or a strength is above 251.
pub fn filter_normal(planes: &mut FilterPlanes<'_>, edges: &[Edges], first: usize, is_top: bool) {
    for_cpu(Row::<false> { planes, edges, first, is_top });
}

/// Filters luma only, by the simple filter.
///
/// # Panics
///
/// In the same cases as [`filter_normal`].
pub fn filter_simple(planes: &mut FilterPlanes<'_>, edges: &[Edges], first: usize, is_top: bool) {
    for_cpu(Row::<true> { planes, edges, first, is_top });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filters as section 15 states them, one place of an edge at a time.
    mod meaning {
        fn clamp(value: i32) -> i32 {
            value.clamp(-128, 127)
        }

        fn signed(pixel: u8) -> i32 {
            i32::from(pixel) - 128
        }

        fn pixel(value: i32) -> u8 {
            (clamp(value) + 128) as u8
        }

        fn difference(a: u8, b: u8) -> i32 {
            i32::from(a.abs_diff(b))
        }

        /// Changes p0 and q0 of `p3 p2 p1 p0 q0 q1 q2 q3`.
        fn common_adjust(use_outer: bool, line: &mut [u8; 8]) -> i32 {
            let [p1, p0, q0, q1] = [2, 3, 4, 5].map(|i| signed(line[i]));
            let a = clamp((if use_outer { clamp(p1 - q1) } else { 0 }) + 3 * (q0 - p0));
            let (b, a) = (clamp(a + 3) >> 3, clamp(a + 4) >> 3);
            line[4] = pixel(q0 - a);
            line[3] = pixel(p0 + b);
            a
        }

        fn is_alike(line: &[u8; 8], edge: i32) -> bool {
            difference(line[3], line[4]) * 2 + difference(line[2], line[5]) / 2 <= edge
        }

        pub(super) fn simple(line: &mut [u8; 8], edge: i32) {
            if is_alike(line, edge) {
                common_adjust(true, line);
            }
        }

        fn is_filtered(line: &[u8; 8], edge: i32, interior: i32) -> bool {
            let flat = |a: usize, b: usize| difference(line[a], line[b]) <= interior;
            is_alike(line, edge)
                && flat(0, 1)
                && flat(1, 2)
                && flat(2, 3)
                && flat(7, 6)
                && flat(6, 5)
                && flat(5, 4)
        }

        fn is_high(line: &[u8; 8], limit: i32) -> bool {
            difference(line[2], line[3]) > limit || difference(line[5], line[4]) > limit
        }

        pub(super) fn inner(line: &mut [u8; 8], edge: i32, interior: i32, variance: i32) {
            if is_filtered(line, edge, interior) {
                let high = is_high(line, variance);
                let a = (common_adjust(high, line) + 1) >> 1;
                if !high {
                    line[5] = pixel(signed(line[5]) - a);
                    line[2] = pixel(signed(line[2]) + a);
                }
            }
        }

        pub(super) fn outer(line: &mut [u8; 8], edge: i32, interior: i32, variance: i32) {
            if !is_filtered(line, edge, interior) {
                return;
            }
            if is_high(line, variance) {
                common_adjust(true, line);
                return;
            }
            let [p2, p1, p0, q0, q1, q2] = [1, 2, 3, 4, 5, 6].map(|i| signed(line[i]));
            let w = clamp(clamp(p1 - q1) + 3 * (q0 - p0));
            let [a, b, c] = [27, 18, 9].map(|factor| clamp((factor * w + 63) >> 7));
            (line[4], line[3]) = (pixel(q0 - a), pixel(p0 + a));
            (line[5], line[2]) = (pixel(q1 - b), pixel(p1 + b));
            (line[6], line[1]) = (pixel(q2 - c), pixel(p2 + c));
        }
    }

    fn noise(state: &mut u32, len: usize, depth: u32) -> Vec<u8> {
        let byte = |_| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (100 + ((*state >> 16) % depth)) as u8
        };
        (0..len).map(byte).collect()
    }

    /// Applies `one` to a line of 8 pixels of a plane, `step` bytes apart, of which the fifth is at `at`.
    fn line(plane: &mut [u8], at: usize, step: usize, one: impl Fn(&mut [u8; 8])) {
        let mut line = std::array::from_fn(|i| plane[at + i * step - 4 * step]);
        one(&mut line);
        for (i, pixel) in line.into_iter().enumerate() {
            plane[at + i * step - 4 * step] = pixel;
        }
    }

    /// Filters a plane of blocks of `side` pixels macroblock by macroblock, place by place.
    fn meant(
        plane: &mut [u8],
        stride: usize,
        side: usize,
        all: &[Edges],
        is_simple: bool,
        is_top: bool,
    ) {
        let above = if side == 16 { 8 } else { 4 };
        for (x, Edges { strength, has_inner }) in all.iter().enumerate() {
            let (edge, interior, variance) =
                (i32::from(strength.edge), strength.interior.into(), strength.variance.into());
            if edge == 0 {
                continue;
            }
            let corner = above * stride + side * x;
            let mut edges = |step: usize, other: usize, has_outer: bool| {
                for at in
                    (0..side).step_by(4).filter(|&at| if at == 0 { has_outer } else { *has_inner })
                {
                    for i in 0..side {
                        line(plane, corner + at * step + i * other, step, |line| match at {
                            0 if is_simple => meaning::simple(line, edge + 4),
                            _ if is_simple => meaning::simple(line, edge),
                            0 => meaning::outer(line, edge + 4, interior, variance),
                            _ => meaning::inner(line, edge, interior, variance),
                        });
                    }
                }
            };
            edges(1, stride, x > 0);
            edges(stride, 1, !is_top);
        }
    }

    #[test]
    fn rows_of_macroblocks_are_filtered_as_the_standard_states() {
        let mut state = 7;
        let (macroblocks, mut changed) = (5, 0);
        let stride = 16 * macroblocks;
        for round in 0..600 {
            let depth = [3, 12, 60, 156][round % 4];
            let mut y = noise(&mut state, stride * 24, depth);
            let mut uv = [0, 1].map(|_| noise(&mut state, stride / 2 * 12, depth));
            let (first, is_top, is_simple) = (round % 3, round % 5 == 0, round % 7 == 0);
            let edges: Vec<Edges> = noise(&mut state, 4 * macroblocks, 64)
                .chunks(4)
                .map(|bytes| Edges {
                    strength: FilterStrength {
                        edge: (bytes[0] - 100) * 3,
                        interior: bytes[1] - 99,
                        variance: (bytes[2] - 100) % 4,
                    },
                    has_inner: bytes[3] % 2 == 0,
                })
                .collect();
            let mut skipped = edges.clone();
            skipped[..first].fill(Edges::default());
            let (old, mut want, mut want_uv) = (y.clone(), y.clone(), uv.clone());
            meant(&mut want, stride, 16, &skipped, is_simple, is_top);
            let [u, v] = &mut uv;
            let mut planes = FilterPlanes { y: &mut y, uv: [u, v], stride, above: 8 };
            if is_simple {
                filter_simple(&mut planes, &edges, first, is_top);
            } else {
                filter_normal(&mut planes, &edges, first, is_top);
                for plane in &mut want_uv {
                    meant(plane, stride / 2, 8, &skipped, false, is_top);
                }
            }
            assert!(y == want, "luma of {edges:?}");
            assert!(uv == want_uv, "chroma of {edges:?}");
            changed += usize::from(old != y);
        }
        assert!(changed > 500, "{changed} of 600 are changed");
    }
}
