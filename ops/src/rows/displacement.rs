//! The displacements of an elastic transform, of a distorted grid, and of a lens.
//!
//! ```text
//! elastic   d[y, x, axis] = blur(U(-1, 1))[y, x] * alpha[axis] / 2
//! grid      d[y, x]       = (position(x) - x, position(y) - y)
//! lens      d[y, x]       = (X, Y) * s     with (X, Y) the position of the pixel's middle from that of the image
//!           camera  s = k r + k r^2          r = (X / width)^2 + (Y / height)^2
//!           fisheye s = k r                  r = (X^2 + Y^2) / ((width / 2)^2 + (height / 2)^2)
//! ```
//!
//! These are pixels; they are stored in units of half the side.
//!
//! Elastic: the draws of both axes are independent. The blur is a Gaussian of deviations `sigma` with a square kernel of
//! `floor(8 sigma[axis] + 1)` pixels a side, made odd; without a `sigma[axis]`, there is none. The image is reflected at
//! its edges. All is computed in f32.
//!
//! Grid: with n steps, an axis is cut into n parts of `floor(side / n)` pixels, and a rest. The positions of the pixels of a
//! part are evenly spaced from its start to its end, both included; a part is as long as its share of all n + 1 lengths,
//! where that of the rest counts as much of its length as it has pixels. An image of fewer than n pixels stays as it is, and
//! pixels behind the rest, of fewer than n^2, take the last position. This is Albumentations' `generate_grid` with its
//! `normalize_grid_distortion_steps`, in f64. Lens: Albumentations' maps, with the middle of the image between its pixels.
//!
//! The fields of a sample are computed when the first row is wanted, and not when they are drawn: the draws of a sample
//! are made before its image is known to be readable.

use super::gaussian_blur::weights;
use super::separable::tap;
use crate::author::Rng;
use crate::memory::NoMemory;
use crate::{Size, memory};
use std::fmt;
use std::sync::OnceLock;

/// The displacements of all pixels of one sample.
pub struct Displacement {
    field: DisplacementField,
    size: Size,
    /// The displacements along x, row by row, and then those along y.
    fields: OnceLock<Vec<f32>>,
}

/// The numbers that displacements are computed from.
#[derive(Clone, Debug, PartialEq)]
pub enum DisplacementField {
    /// An elastic transform.
    Elastic {
        /// The seed of the draws of all pixels.
        seed: u64,
        /// The largest displacements along x and y before the blur, in half pixels.
        alpha: [f32; 2],
        /// The deviations of the blur along x and y.
        sigma: [f32; 2],
    },
    /// A distorted grid: the lengths of its steps along x and along y, one more than there are steps.
    Grid([Vec<f32>; 2]),
    /// A lens, and the strength k of its distortion.
    Lens(Lens, f32),
}

/// The lens of [`OpticalDistortion`](crate::OpticalDistortion).
///
/// ```
/// # use fuseloop_ops::*;
/// let wide = OpticalDistortion::new().mode(Lens::Fisheye);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lens {
    /// A lens of two radial coefficients that are equal.
    #[default]
    Camera,
    /// A lens of one radial coefficient.
    Fisheye,
}

/// Writes the numbers that were drawn, and not the fields.
impl fmt::Debug for Displacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Displacement");
        out.field("field", &self.field).field("size", &self.size).finish_non_exhaustive()
    }
}

/// Displacements are equal if the numbers are that they are computed from.
impl PartialEq for Displacement {
    fn eq(&self, other: &Self) -> bool {
        self.field == other.field && self.size == other.size
    }
}

impl Displacement {
    /// Returns the displacements of an image of `size`.
    #[must_use]
    pub fn of(field: DisplacementField, size: Size) -> Self {
        Self { field, size, fields: OnceLock::new() }
    }

    /// Returns the displacements of an elastic transform.
    #[must_use]
    pub fn new(seed: u64, alpha: [f32; 2], sigma: [f32; 2], size: Size) -> Self {
        Self::of(DisplacementField::Elastic { seed, alpha, sigma }, size)
    }

    /// Returns the numbers that displacements are computed from.
    #[must_use]
    pub fn field(&self) -> &DisplacementField {
        &self.field
    }

    /// Computes the displacements, if no one has yet.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub(super) fn prepare(&self) -> Result<(), NoMemory> {
        if self.fields.get().is_none() {
            let fields = self.compute()?;
            // Another thread may have set the same numbers.
            let _ = self.fields.set(fields);
        }
        Ok(())
    }

    /// Returns both fields, which are empty if there is no memory: callers that can report this prepare them.
    fn fields(&self) -> &[f32] {
        self.fields.get_or_init(|| self.compute().unwrap_or_default())
    }

    /// Returns the displacements along an axis, 0 for x, of the pixels of row `y` from column `first` on.
    #[inline(always)]
    pub(super) fn row(&self, axis: usize, y: u32, first: u32) -> &[f32] {
        let Size { height, width } = self.size;
        let row = (axis * height as usize + y as usize) * width as usize;
        self.fields().get(row + first.min(width) as usize..row + width as usize).unwrap_or_default()
    }

    /// Returns the displacement at a position in pixels, continuous from the corner of the image: interpolated between the
    /// middles of pixels, and beyond the outermost ones as at the edge.
    #[must_use]
    pub fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        let Size { height, width } = self.size;
        let cell = |position: f64, side: u32| {
            let last = f64::from(side.saturating_sub(1));
            let position = (position - 0.5).max(0.0).min(last);
            (position as u32, (position + 1.0).min(last) as u32, position.fract())
        };
        let ((left, right, across), (top, bottom, down)) = (cell(x, width), cell(y, height));
        [(0, width), (1, height)].map(|(axis, side)| {
            let value = |y: u32, x: u32| {
                self.row(axis, y, x).first().map_or(0.0, |&value| f64::from(value))
            };
            let line = |y: u32| value(y, left) + (value(y, right) - value(y, left)) * across;
            (line(top) + (line(bottom) - line(top)) * down) * f64::from(side) / 2.0
        })
    }

    /// Returns the position in the output of a point of the input: the `q` with `q + at(q) = p`, to a thousandth of a
    /// pixel if displacements do not fold the image, and otherwise the best that was found.
    #[must_use]
    pub fn inverse(&self, p: [f64; 2]) -> [f64; 2] {
        const STEPS: usize = 64;
        const NEAR: f64 = 1e-4;
        let miss = |q: [f64; 2]| {
            let moved = self.at(q);
            [0, 1].map(|i| q[i] + moved[i] - p[i])
        };
        let length = |[x, y]: [f64; 2]| libm::hypot(x, y);
        let (mut q, mut by) = (p, miss(p));
        let mut step = 1.0;
        for _ in 0..STEPS {
            if length(by) < NEAR {
                break;
            }
            let next = [0, 1].map(|i| q[i] - step * by[i]);
            let missed = miss(next);
            if length(missed) < length(by) {
                (q, by) = (next, missed);
            } else {
                step /= 2.0;
            }
        }
        q
    }

    fn compute(&self) -> Result<Vec<f32>, NoMemory> {
        const WHAT: &str = "the displacements of a warp";
        let count = self.size.pixels() as usize;
        let mut fields = vec![];
        memory::resize(&mut fields, 2 * count, WHAT)?;
        let [along_x, along_y] = {
            let (x, y) = fields.split_at_mut(count);
            [x, y]
        };
        match &self.field {
            DisplacementField::Elastic { seed, alpha, sigma } => {
                let mut lines = vec![];
                memory::resize(&mut lines, count, WHAT)?;
                let mut rng = Rng::new(*seed);
                for (axis, field) in [along_x, along_y].into_iter().enumerate() {
                    field.fill_with(|| rng.unit() * 2.0 - 1.0);
                    if sigma[axis] > 0.0 {
                        let kernel = (8.0 * sigma[axis] + 1.0) as u32 | 1;
                        blur(field, &mut lines, self.size.width as usize, kernel, *sigma);
                    }
                    let side = [self.size.width, self.size.height][axis] as f32;
                    field.iter_mut().for_each(|value| *value = *value * alpha[axis] / side);
                }
            }
            DisplacementField::Grid([x, y]) => {
                let Size { height, width } = self.size;
                let (mut columns, mut rows) = (vec![], vec![]);
                memory::resize(&mut columns, width as usize, WHAT)?;
                memory::resize(&mut rows, height as usize, WHAT)?;
                displace(x, &mut columns);
                displace(y, &mut rows);
                let width = columns.len().max(1);
                let lines = along_x.chunks_exact_mut(width).zip(along_y.chunks_exact_mut(width));
                for ((along_x, along_y), row) in lines.zip(rows) {
                    along_x.copy_from_slice(&columns);
                    along_y.fill(row);
                }
            }
            DisplacementField::Lens(lens, k) => bend(*lens, *k, self.size, [along_x, along_y]),
        }
        Ok(fields)
    }
}

/// Writes the displacements of the pixels of an axis in a distorted grid.
fn displace(lengths: &[f32], out: &mut [f32]) {
    let (side, steps) = (out.len(), lengths.len().saturating_sub(1).max(1));
    let (part, half) = (side / steps, side as f64 / 2.0);
    if part == 0 {
        return out.fill(0.0);
    }
    let rest = side.min((steps + 1) * part) - steps * part;
    let length = |i: usize| {
        let length = f64::from(lengths.get(i).copied().unwrap_or(1.0));
        if i == steps { length * rest as f64 / part as f64 } else { length }
    };
    let all: f64 = (0..=steps).map(length).sum();
    let mut start = 0.0;
    for (i, pixels) in out.chunks_mut(part).enumerate() {
        // A part of the grid has `part` pixels if its share is that of all of them.
        let end = if i <= steps { start + side as f64 * length(i) / all } else { start };
        let last = pixels.len() - 1;
        for (j, pixel) in pixels.iter_mut().enumerate() {
            let position = match j {
                0 => start,
                _ if j == last => end,
                _ => start + j as f64 * ((end - start) / last as f64),
            };
            *pixel = ((position - (i * part + j) as f64) / half) as f32;
        }
        start = end;
    }
}

/// Writes the displacements of a lens along x and along y.
fn bend(lens: Lens, k: f32, Size { height, width }: Size, [along_x, along_y]: [&mut [f32]; 2]) {
    let k = f64::from(k);
    let [half_width, half_height] = [width, height].map(|side| f64::from(side) / 2.0);
    let pixels = along_x.iter_mut().zip(along_y);
    for (i, (along_x, along_y)) in pixels.enumerate() {
        let (row, column) = (i / width as usize, i % width as usize);
        // In units of half the sides.
        let x = (column as f64 + 0.5) / half_width - 1.0;
        let y = (row as f64 + 0.5) / half_height - 1.0;
        let scale = match lens {
            Lens::Camera => {
                let r = (x * x + y * y) / 4.0;
                k * r + k * r * r
            }
            Lens::Fisheye => {
                let (x, y) = (x * half_width, y * half_height);
                k * (x * x + y * y) / (half_width * half_width + half_height * half_height)
            }
        };
        (*along_x, *along_y) = ((x * scale) as f32, (y * scale) as f32);
    }
}

/// Blurs an image of one channel, first along x into `lines`, and then along y.
fn blur(image: &mut [f32], lines: &mut [f32], width: usize, kernel: u32, [x, y]: [f32; 2]) {
    let (mut across, mut down) = (vec![], vec![]);
    weights(&mut across, kernel, x);
    weights(&mut down, kernel, y);
    let mut padded = vec![];
    for (row, line) in image.chunks_exact(width).zip(lines.chunks_exact_mut(width)) {
        padded.clear();
        let columns = 0..width + across.len() - 1;
        padded.extend(columns.map(|i| row[tap(0, i, across.len(), width as u32) as usize]));
        weigh(line, across.iter().zip(padded.windows(width)));
    }
    let height = image.len() / width;
    for (y, row) in image.chunks_exact_mut(width).enumerate() {
        let source = |i| tap(y as u32, i, down.len(), height as u32) as usize;
        weigh(row, down.iter().enumerate().map(|(i, k)| (k, &lines[source(i) * width..][..width])));
    }
}

/// Writes the weighted sum of rows.
fn weigh<'a>(out: &mut [f32], rows: impl Iterator<Item = (&'a f32, &'a [f32])>) {
    out.fill(0.0);
    for (weight, row) in rows {
        for (sum, value) in out.iter_mut().zip(row) {
            *sum += weight * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Full steps overshoot under a strong displacement: `inverse` has to shorten them.
    #[test]
    fn strong_displacements_are_inverted() {
        // An alpha of 60 folds the image, so that some points have no exact inverse.
        for (alpha, most) in [(30.0, 0), (60.0, 250)] {
            let displacement = Displacement::new(5, [alpha; 2], [3.0; 2], Size::new(60, 80));
            displacement.prepare().unwrap();
            let mut far = 0;
            for y in 5..55 {
                for x in 5..75 {
                    let p = [x, y].map(f64::from);
                    let q = displacement.inverse(p);
                    let moved = displacement.at(q);
                    let apart = [0, 1].map(|i| q[i] + moved[i] - p[i]);
                    far += u32::from(apart[0].hypot(apart[1]) > 1e-3);
                }
            }
            assert!(far <= most, "alpha {alpha}: {far} of 3500");
        }
    }
}
