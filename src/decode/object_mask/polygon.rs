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
//! so that an edge costs one division and one multiplication for each column of the mask that it passes,
//! wherever its ends are. Two steps of neighbouring edges never count: they are at the same X, where X is not
//! negative.

use super::raster::Raster;

/// Points of the finer grid in a pixel.
const SCALE: f64 = 5.0;

/// Toggles the pixels at which a polygon of checked coordinates begins and ends.
pub(super) fn toggle(coordinates: &[f64], raster: &mut Raster<'_>) {
    let points = coordinates.as_chunks::<2>().0;
    let grid = |point: &[f64; 2]| point.map(|coordinate| (SCALE * coordinate + 0.5) as i64);
    let Some(last) = points.last() else { return };
    let mut start = grid(last);
    for point in points {
        let end = grid(point);
        edge(start, end, raster);
        start = end;
    }
}

/// Toggles a pixel for each column whose middle an edge passes.
fn edge(start: [i64; 2], end: [i64; 2], raster: &mut Raster<'_>) {
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
    let columns = (first + 2).div_euclid(5).max(0)
        ..(last + 2).div_euclid(5).min(i64::from(raster.size().width));
    for column in columns {
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
        let row =
            ((y as f64 + 0.5) / SCALE - 0.5).clamp(0.0, f64::from(raster.size().height)).ceil();
        raster.toggle(column as u32, row as u32);
    }
}
