//! The pixels inside a polygon, as pycocotools' `rleFrPoly` finds them.
//!
//! ```text
//! vertices on a grid five times finer: X = T(5 x + .5), Y = T(5 y + .5)      T truncates
//! an edge is walked in unit steps of its longer axis, from the lesser end; the other coordinate is T(start + slope * t + .5)
//! between two steps of X = 5 column + 2 and X + 1, the shape changes in `column` from row
//!     ceil(C((min(Y, Y') + .5) / 5 - .5, 0, height))                         C clamps
//! ```
//!
//! pycocotools does walk each edge. Here the steps at which an edge passes the middle of a column are computed,
//! so that an edge costs one division and one multiplication for each column in which it passes a row of the mask,
//! wherever its ends are: the columns in which it is above or below the mask are found by bisection. Above, all of them
//! change from row 0 on; below, nothing changes. Two steps of neighbouring edges never count: they are at the same X, where X is not
//! negative.

use super::raster::Raster;
use fuseloop_ops::Size;
use std::ops::Range;

/// Points of the finer grid in a pixel.
const SCALE: f64 = 5.0;

/// The most pixels that are held before equal ones are removed.
const MOST_HELD: usize = 1 << 16;

/// The pixels at which a polygon begins or ends, in each column downwards.
#[derive(Default)]
pub(super) struct Changes {
    /// The column and row of each, in any order.
    pixels: Vec<[u32; 2]>,
    /// The columns at which it changes whether the polygon begins or ends at row 0, too.
    top: Vec<u32>,
    /// A column and the number of rows, if an edge is below the mask: what is inside may go on to the last row.
    bottom: Option<[u32; 2]>,
}

impl Changes {
    /// Returns those of a polygon of checked coordinates, in a mask of `size`.
    pub(super) fn of(coordinates: &[f64], size: Size) -> Self {
        let mut changes = Self::default();
        let points = coordinates.as_chunks::<2>().0;
        let grid = |point: &[f64; 2]| point.map(|coordinate| (SCALE * coordinate + 0.5) as i64);
        let Some(last) = points.last() else { return changes };
        let mut start = grid(last);
        let mut most = MOST_HELD;
        for point in points {
            let end = grid(point);
            edge(start, end, size, &mut changes);
            start = end;
            if changes.pixels.len() > most {
                changes.pixels = without_pairs(changes.pixels);
                most = MOST_HELD.max(2 * changes.pixels.len());
            }
        }
        changes
    }

    /// Toggles the pixels in a mask.
    pub(super) fn toggle(self, raster: &mut Raster<'_>) {
        self.top().for_each(|column| raster.toggle(column, 0));
        self.pixels
            .iter()
            .chain(&self.bottom)
            .for_each(|[column, row]| raster.toggle(*column, *row));
    }

    /// Returns the columns in which row 0 is one of the pixels.
    fn top(&self) -> impl Iterator<Item = u32> + use<> {
        let ends = without_pairs(self.top.clone());
        let spans = ends.as_chunks::<2>().0.to_vec();
        spans.into_iter().flat_map(|[first, end]| first..end)
    }
}

/// Returns what occurs an odd number of times, in order.
fn without_pairs<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    let mut odd: Vec<T> = vec![];
    for item in items {
        if odd.last() == Some(&item) {
            odd.pop();
        } else {
            odd.push(item);
        }
    }
    odd
}

/// The union of polygons: the rows of each column that are inside one, as ranges that neither overlap nor touch.
///
/// A polygon costs its changes, whether or not its inside is large.
pub(super) struct Union {
    columns: Vec<Vec<Range<u32>>>,
    height: u32,
}

impl Union {
    pub(super) fn new(size: Size) -> Self {
        Self { columns: vec![vec![]; size.width as usize], height: size.height }
    }

    /// Adds a polygon.
    pub(super) fn add(&mut self, changes: &Changes) {
        let top = changes.top().map(|column| [column, 0]);
        let pixels = without_pairs(changes.pixels.iter().copied().chain(top).collect());
        for own in pixels.chunk_by(|a, b| a[0] == b[0]) {
            let ranges = &mut self.columns[own[0][0] as usize];
            for pair in own.chunks(2) {
                // A run that does not end in the mask goes on to its last row.
                let end = pair.get(1).map_or(self.height, |[_, end]| *end);
                insert(ranges, pair[0][1]..end);
            }
        }
    }

    /// Toggles the pixels at which the union begins or ends.
    pub(super) fn toggle(&self, raster: &mut Raster<'_>) {
        for (column, ranges) in (0..).zip(&self.columns) {
            for Range { start, end } in ranges {
                raster.toggle(column, *start);
                raster.toggle(column, *end);
            }
        }
    }
}

/// Adds a range to ranges that are in order and don't touch, and keeps them so.
fn insert(ranges: &mut Vec<Range<u32>>, mut new: Range<u32>) {
    let first = ranges.partition_point(|range| range.end < new.start);
    let end = ranges.partition_point(|range| range.start <= new.end);
    if let Some(touched) = ranges.get(first..end).filter(|touched| !touched.is_empty()) {
        new.start = new.start.min(touched[0].start);
        new.end = new.end.max(touched[touched.len() - 1].end);
    }
    ranges.splice(first..end.max(first), [new]);
}

/// Adds a pixel for each column whose middle an edge passes.
fn edge(start: [i64; 2], end: [i64; 2], size: Size, changes: &mut Changes) {
    let [dx, dy] = [0, 1].map(|axis| (end[axis] - start[axis]).abs());
    let is_flat = dx >= dy;
    let axis = usize::from(!is_flat);
    let ([xs, ys], [xe, ye]) = if start[axis] > end[axis] { (end, start) } else { (start, end) };
    let slope = if is_flat { (ye - ys) as f64 / dx as f64 } else { (xe - xs) as f64 / dy as f64 };
    // The coordinate of the shorter axis after `t` steps of the longer one.
    let at = |from: i64, t: i64| (from as f64 + slope * t as f64 + 0.5) as i64;
    let (first, last) = if is_flat { (xs, xe) } else { (at(xs, 0), at(xs, dy)) };
    let (first, last) = (first.min(last), first.max(last));
    // Columns with `first <= 5 column + 2` and `5 column + 3 <= last`.
    let columns =
        (first + 2).div_euclid(5).max(0)..(last + 2).div_euclid(5).min(i64::from(size.width));
    let row = |column: i64| {
        let x = 5 * column + 2;
        let y = if is_flat {
            at(ys, x - xs).min(at(ys, x + 1 - xs))
        } else {
            // The first step beyond the middle of the column; the step before it is the lower one.
            let is_beyond = |t: i64| if slope > 0.0 { at(xs, t) > x } else { at(xs, t) <= x };
            let estimate = ((x + 1 - xs) as f64 - 0.5) / slope;
            let mut t = (estimate as i64).clamp(1, dy);
            while t > 1 && is_beyond(t - 1) {
                t -= 1;
            }
            while !is_beyond(t) {
                t += 1;
            }
            ys + t - 1
        };
        ((y as f64 + 0.5) / SCALE - 0.5).clamp(0.0, f64::from(size.height)).ceil() as u32
    };
    if columns.is_empty() {
        return;
    }
    // Rows grow or shrink from column to column.
    let grows = row(columns.start) <= row(columns.end - 1);
    let (above, below) = if grows {
        let above = columns.start..first_in(&columns, |column| row(column) > 0);
        (above, first_in(&columns, |column| row(column) >= size.height)..columns.end)
    } else {
        let below = columns.start..first_in(&columns, |column| row(column) < size.height);
        (first_in(&columns, |column| row(column) == 0)..columns.end, below)
    };
    if !above.is_empty() {
        changes.top.extend([above.start as u32, above.end as u32]);
    }
    if !below.is_empty() {
        changes.bottom = Some([below.start as u32, size.height]);
    }
    let within = match grows {
        true => above.end..below.start,
        false => below.end..above.start,
    };
    changes.pixels.extend(within.map(|column| [column as u32, row(column)]));
}

/// Returns the first column for which `is_past` returns true, which it then does for all after it; the end if there is
/// none.
fn first_in(columns: &Range<i64>, is_past: impl Fn(i64) -> bool) -> i64 {
    let Range { mut start, mut end } = columns.clone();
    while start < end {
        let middle = start + (end - start) / 2;
        if is_past(middle) {
            end = middle;
        } else {
            start = middle + 1;
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let of = |new: &[Range<u32>]| {
            let mut ranges = vec![];
            new.iter().for_each(|new| insert(&mut ranges, new.clone()));
            ranges
        };
        assert_eq!(of(&[4..6, 0..2, 8..9]), [0..2, 4..6, 8..9]);
        assert_eq!(of(&[4..6, 0..2, 2..4]), [Range { start: 0, end: 6 }]);
        assert_eq!(of(&[4..6, 0..2, 8..9, 1..8]), [Range { start: 0, end: 9 }]);
        assert_eq!(of(&[0..9, 3..4]), [Range { start: 0, end: 9 }]);
        assert_eq!(without_pairs(vec![3, 1, 3, 2, 3, 1]), [2, 3]);
    }
}
