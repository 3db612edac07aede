//! Maps: the input position that each output pixel of a warp is read from.
//!
//! An affine map is an inverse matrix `M` of two rows: with pixels counted from the middle of
//! each image, `(sx, sy) = M · (X, Y, 1)`. A perspective map has 8 coefficients `a..h`: with pixels
//! counted from the corner, `sx = (a x + b y + c) / (g x + h y + 1)`, and `sy` likewise with `d, e, f`.
//! Both are computed in f32 exactly as torchvision does on tensors (for an input of `W` and an
//! output of `w` columns; rows are computed likewise with `H`, `h` and the second row of `M`):
//!
//! ```text
//! affine:       X = x - (w-1)/2,  gx = M00' X + M01' Y + M02'        M0j' = f32(M0j) / f32(W/2)
//! perspective:  X = x + 1/2,      gx = (a' X + b' Y + c') / (g X + h Y + 1) - 1   a' = a / f32(W/2)
//! p X + q Y + r:  fma(q, Y, p * X) + r
//! source column: (gx + 1) * f32(W/2) - 1/2, clamped to +-2^21; NaN is -2^21
//! ```
//!
//! Sources: `_get_inverse_affine_matrix`, `_affine_grid`, `_perspective_grid`,
//! `_compute_affine_output_size` and `_get_perspective_coeffs` of torchvision's
//! `transforms.functional`, and `grid_sample` of torch with `align_corners=False`.

use super::{Displacement, clamp};
use crate::Size;
use std::sync::Arc;

/// The number of positions that are computed together.
pub const BLOCK: usize = 32;

/// The columns and the rows of a block of positions.
pub type Coordinates = [[f32; BLOCK]; 2];

/// The source positions of the pixels of a warped image. See the formulas of [`Map::affine`] and
/// [`Map::perspective`].
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    x: Plane,
    y: Plane,
    /// The divisor of both, if the map is a perspective.
    depth: Option<Plane>,
    /// Half the input's width and height.
    half: [f32; 2],
    /// The offsets that are added to an output pixel's column and row.
    origin: [f32; 2],
    /// The rows of the same map in f64, in pixels from the corner of each image.
    exact: [f64; 9],
    /// The displacement of each pixel's position, in units of `half`.
    displacement: Option<Arc<Displacement>>,
    /// The shear along y that the matrix was computed from, in degrees.
    shear_y: f64,
}

impl Map {
    /// Returns the map of an inverse matrix `[m00, m01, m02, m10, m11, m12]`, as returned by
    /// [`affine_matrix`]. The matrix maps an output pixel to its input position, both counted from
    /// the middle of their image.
    ///
    /// A matrix with numbers that are not finite maps every pixel outside the input.
    #[must_use]
    pub fn affine(matrix: [f64; 6], input: Size, output: Size) -> Self {
        let half = halves(input);
        let exact = from_corners(matrix, input, output);
        let [m00, m01, m02, m10, m11, m12] = matrix.map(|m| m as f32);
        let origin = [output.width, output.height].map(|side| 0.5 - side as f32 / 2.0);
        let plane = |p, q, r, half| Plane::new([p / half, q / half, r / half], origin, output);
        let (x, y) = (plane(m00, m01, m02, half[0]), plane(m10, m11, m12, half[1]));
        Self { x, y, depth: None, half, origin, exact, displacement: None, shear_y: 0.0 }
    }

    /// Returns the map of perspective coefficients `[a, b, c, d, e, f, g, h]`, as returned by
    /// [`perspective_coefficients`].
    ///
    /// Coefficients that are not finite map every pixel outside the input.
    #[must_use]
    pub fn perspective(coefficients: [f32; 8], input: Size, output: Size) -> Self {
        let half = halves(input);
        let [a, b, c, d, e, f, g, h] = coefficients;
        let origin = [0.5; 2];
        let plane = |p: f32, q: f32, r: f32, half: f32| {
            Plane::new([p / half, q / half, r / half], origin, output)
        };
        let (x, y) = (plane(a, b, c, half[0]), plane(d, e, f, half[1]));
        let exact = [a, b, c, d, e, f, g, h, 1.0].map(f64::from);
        let depth = Some(plane(g, h, 1.0, 1.0));
        Self { x, y, depth, half, origin, exact, displacement: None, shear_y: 0.0 }
    }

    /// Returns the map that moves each pixel of an image of `size` by its displacement, which must be of this size.
    #[must_use]
    pub fn elastic(displacement: Displacement, size: Size) -> Self {
        let identity = Self::affine([1.0, 0.0, 0.0, 0.0, 1.0, 0.0], size, size);
        Self { displacement: Some(Arc::new(displacement)), ..identity }
    }

    /// Notes the shear along y, in degrees, that the matrix was [computed](affine_matrix) from, for descriptions. The
    /// positions stay the same.
    #[must_use]
    pub fn with_shear_y(self, degrees: f64) -> Self {
        Self { shear_y: degrees, ..self }
    }

    /// Returns the shear along y, in degrees. The matrix alone does not say it: a turn with a shear along x gives the
    /// same one.
    #[must_use]
    pub fn shear_y(&self) -> f64 {
        self.shear_y
    }

    /// Returns the displacements, if the map is elastic.
    #[must_use]
    pub fn displacement(&self) -> Option<&Arc<Displacement>> {
        self.displacement.as_ref()
    }

    /// Returns the rows of the matrix that maps `(x, y, 1)` of the input to the output position, which is the result
    /// divided by its third number. Both positions are continuous: in pixels from the corner of the image, with the
    /// middle of the first pixel at `(1/2, 1/2)`. The numbers are not finite if the map has no inverse.
    #[must_use]
    pub fn forward(&self) -> [f64; 9] {
        let [a, b, c, d, e, f, g, h, i] = self.exact;
        let [first, second, third] = [e * i - f * h, f * g - d * i, d * h - e * g];
        let determinant = a * first + b * second + c * third;
        let adjugate = [
            [first, c * h - b * i, b * f - c * e],
            [second, a * i - c * g, c * d - a * f],
            [third, b * g - a * h, a * e - b * d],
        ];
        let [x, y, depth] = adjugate.map(|row| row.map(|number| number / determinant));
        [x[0], x[1], x[2], y[0], y[1], y[2], depth[0], depth[1], depth[2]]
    }

    /// Returns the rows of the matrix that maps `(x, y, 1)` of the output to the input position;
    /// for a perspective, the result is divided by its third number. Pixels are counted from the
    /// middle of each image, or from the corner if the map is a perspective.
    #[must_use]
    pub fn matrix(&self) -> [[f32; 3]; 3] {
        let row = |plane: &Plane, half: f32| [plane.p, plane.q, plane.r].map(|m| m * half);
        let last = self.depth.as_ref().map_or([0.0, 0.0, 1.0], |depth| row(depth, 1.0));
        [row(&self.x, self.half[0]), row(&self.y, self.half[1]), last]
    }

    /// Returns true if the map is a perspective, and not affine.
    #[must_use]
    pub fn is_perspective(&self) -> bool {
        self.depth.is_some()
    }

    /// Returns the input position, `[column, row]`, of output pixel `(y, x)`. This is the
    /// definition.
    pub(super) fn position(&self, y: u32, x: u32) -> [f32; 2] {
        let pixel = [y, x];
        let (x, y) = (x as f32 + self.origin[0], y as f32 + self.origin[1]);
        let mut position = [self.x.at(x, y), self.y.at(x, y)];
        if let Some(depth) = self.depth {
            position = position.map(|g| g / depth.at(x, y) - 1.0);
        }
        if let Some(displacement) = &self.displacement {
            for (axis, g) in position.iter_mut().enumerate() {
                *g += displacement.row(axis, pixel[0], pixel[1]).first().unwrap_or(&0.0);
            }
        }
        [pixels(position[0], self.half[0]), pixels(position[1], self.half[1])]
    }

    /// Writes the positions of output pixels `(y, first..first + BLOCK)`, with columns and rows in
    /// separate arrays. The bits are those of [`position`](Self::position). `has_fma` says whether a fused operation
    /// is an instruction where this is inlined; it is a function call elsewhere.
    #[inline(always)]
    pub(super) fn positions(&self, y: u32, first: u32, has_fma: bool, out: &mut Coordinates) {
        let line = y;
        let y = y as f32 + self.origin[1];
        let mut xs = [0.0; BLOCK];
        for (i, x) in xs.iter_mut().enumerate() {
            *x = (first as i32 + i as i32) as f32 + self.origin[0];
        }
        let [out_x, out_y] = out;
        self.x.block(&xs, y, has_fma, out_x);
        self.y.block(&xs, y, has_fma, out_y);
        if let Some(plane) = &self.depth {
            let mut depth = [0.0; BLOCK];
            plane.block(&xs, y, has_fma, &mut depth);
            divide(out_x, &depth);
            divide(out_y, &depth);
        }
        if let Some(displacement) = &self.displacement {
            add(out_x, displacement.row(0, line, first));
            add(out_y, displacement.row(1, line, first));
        }
        to_pixels(out_x, self.half[0]);
        to_pixels(out_y, self.half[1]);
    }
}

#[inline(always)]
fn divide(coordinates: &mut [f32; BLOCK], depth: &[f32; BLOCK]) {
    for (g, depth) in coordinates.iter_mut().zip(depth) {
        *g = *g / depth - 1.0;
    }
}

#[inline(always)]
fn add(coordinates: &mut [f32; BLOCK], displacements: &[f32]) {
    for (g, displacement) in coordinates.iter_mut().zip(displacements) {
        *g += displacement;
    }
}

#[inline(always)]
fn to_pixels(coordinates: &mut [f32; BLOCK], half: f32) {
    for g in coordinates {
        *g = pixels(*g, half);
    }
}

/// Converts from -1..1 across an image to pixels.
#[inline(always)]
fn pixels(g: f32, half: f32) -> f32 {
    clamp((g + 1.0) * half - 0.5, -FAR, FAR)
}

/// The largest coordinate: beyond any image, and small enough for an f32 to distinguish pixels.
/// Larger coordinates are clamped to this, and NaN becomes its negative.
const FAR: f32 = 2_097_152.0;

/// Returns half the width and half the height.
fn halves(size: Size) -> [f32; 2] {
    [size.width, size.height].map(|side| side as f32 / 2.0)
}

/// Returns the rows of an affine matrix with pixels counted from the corner of each image, given the matrix with pixels
/// counted from the middle.
fn from_corners([a, b, c, d, e, f]: [f64; 6], input: Size, output: Size) -> [f64; 9] {
    let middle = |size: Size| [size.width, size.height].map(|side| f64::from(side) / 2.0);
    let ([from_x, from_y], [to_x, to_y]) = (middle(output), middle(input));
    let c = c + to_x - a * from_x - b * from_y;
    let f = f + to_y - d * from_x - e * from_y;
    [a, b, c, d, e, f, 0.0, 0.0, 1.0]
}

/// `p x + q y + r` in f32: a product, a fused multiply-add and an addition.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plane {
    p: f32,
    q: f32,
    r: f32,
    /// True if `p x + q y` is exact in f64 for all pixels, where `p x` is rounded to f32. Then f64
    /// arithmetic has the bits of the fused operation, which is a function call if the CPU is
    /// unknown.
    exact_in_f64: bool,
}

impl Plane {
    fn new([p, q, r]: [f32; 3], origin: [f32; 2], output: Size) -> Self {
        // The largest |x| and |y|, including the pixels of a block behind the last one.
        let reach = [output.width, output.height].map(|side| f64::from(side) + BLOCK as f64);
        let [x, y] = [0, 1].map(|axis| reach[axis] + f64::from(origin[axis].abs()));
        Self { p, q, r, exact_in_f64: exact_in_f64(p, q, x, y) }
    }

    #[inline(always)]
    fn at(self, x: f32, y: f32) -> f32 {
        y.mul_add(self.q, x * self.p) + self.r
    }

    #[inline(always)]
    fn block(&self, xs: &[f32; BLOCK], y: f32, has_fma: bool, out: &mut [f32; BLOCK]) {
        if self.exact_in_f64 && !has_fma {
            let down = f64::from(y) * f64::from(self.q);
            for (out, x) in out.iter_mut().zip(xs) {
                *out = (f64::from(x * self.p) + down) as f32 + self.r;
            }
        } else {
            for (out, &x) in out.iter_mut().zip(xs) {
                *out = self.at(x, y);
            }
        }
    }
}

/// Returns true if `f32(p x) + q y` needs no more than the 53 bits of an f64, for half-integers
/// with `|x| <= far_x`, `|y| <= far_y`.
///
/// Both terms are multiples of half the smaller of the two units in the last place, since `x` and
/// `y` are multiples of a half and a rounded `p x` is not smaller than `p / 2`.
fn exact_in_f64(p: f32, q: f32, far_x: f64, far_y: f64) -> bool {
    if p == 0.0 || q == 0.0 {
        return p.is_finite() && q.is_finite();
    }
    let unit = |value: f32| f64::from(value.abs().next_up()) - f64::from(value.abs());
    let largest = f64::from(p.abs()) * far_x + f64::from(q.abs()) * far_y;
    // NaN and infinity compare false.
    2.0 * largest < unit(p).min(unit(q)) / 2.0 * 2f64.powi(53)
}

/// Returns the inverse matrix of the affine transform
/// `translate · centre · rotate · shear · scale · centre⁻¹`, for [`Map::affine`].
///
/// `angle` is in degrees, clockwise on the screen; `translate` in pixels, to the right and down;
/// `shear` in degrees along x and along y; `center` in pixels from the middle of the image.
///
/// ```text
/// a = cos(θ-φy)/cosφy   b = -cos(θ-φy)tanφx/cosφy - sinθ
/// c = sin(θ-φy)/cosφy   d = -sin(θ-φy)tanφx/cosφy + cosθ      M = [d, -b, ·; -c, a, ·] / scale
/// ```
#[must_use]
pub fn affine_matrix(
    angle: f64,
    translate: [f64; 2],
    scale: f64,
    shear: [f64; 2],
    center: [f64; 2],
) -> [f64; 6] {
    let rotation = angle.to_radians();
    let [shear_x, shear_y] = shear.map(f64::to_radians);
    let [cx, cy] = center;
    let [tx, ty] = translate;
    let turned = rotation - shear_y;
    let (sin, cos) = libm::sincos(rotation);
    let (turned_sin, turned_cos) = libm::sincos(turned);
    let (slope_x, cos_y) = (libm::tan(shear_x), libm::cos(shear_y));
    let a = turned_cos / cos_y;
    let b = -turned_cos * slope_x / cos_y - sin;
    let c = turned_sin / cos_y;
    let d = -turned_sin * slope_x / cos_y + cos;
    let [m00, m01, m10, m11] = [d, -b, -c, a].map(|m| m / scale);
    let m02 = m00 * (-cx - tx) + m01 * (-cy - ty) + cx;
    let m12 = m10 * (-cx - tx) + m11 * (-cy - ty) + cy;
    [m00, m01, m02, m10, m11, m12]
}

/// Returns the inverse matrix of a rotation by `angle` degrees, counter-clockwise on the screen:
/// the opposite direction of [`affine_matrix`].
#[must_use]
pub fn rotation_matrix(angle: f64, center: [f64; 2]) -> [f64; 6] {
    affine_matrix(-angle.rem_euclid(360.0), [0.0; 2], 1.0, [0.0; 2], center)
}

/// Returns the size that contains the whole image rotated by `matrix`: torchvision's `expand=True`.
///
/// The corners are rotated, truncated to 1/10000 pixel and rounded outwards. A side is at least one
/// pixel.
#[must_use]
pub fn expanded_size(matrix: [f64; 6], input: Size) -> Size {
    let [m00, m01, m02, m10, m11, m12] = matrix.map(|m| m as f32);
    let [half_width, half_height] = halves(input);
    let corners = [(-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (1.0, -1.0)];
    let side = |p: f32, q: f32, r: f32, half: f32| {
        let ends = corners
            .map(|(x, y): (f32, f32)| (y * half_height).mul_add(q, x * half_width * p) + r + half);
        let cut = |end: f32| (end * 1e4).trunc() * 1e-4;
        let high = cut(ends.into_iter().fold(f32::NEG_INFINITY, f32::max)).ceil();
        let low = cut(ends.into_iter().fold(f32::INFINITY, f32::min)).floor();
        (high - low).max(1.0) as u32
    };
    Size::new(side(m10, m11, m12, half_height), side(m00, m01, m02, half_width))
}

/// Returns the coefficients for [`Map::perspective`] that move each of four points `start` of the
/// input to the point of `end` in the output. Points are `[x, y]`.
///
/// Returns `None` if three points of `start` or of `end` are on a line, so that there is no such map, or if
/// a coefficient is not finite.
#[must_use]
pub fn perspective_coefficients(start: [[f64; 2]; 4], end: [[f64; 2]; 4]) -> Option<[f32; 8]> {
    if has_three_on_a_line(&start) || has_three_on_a_line(&end) {
        return None;
    }
    let mut rows = [[0.0; 9]; 8];
    for (i, ([x, y], [u, v])) in start.into_iter().zip(end).enumerate() {
        rows[2 * i] = [u, v, 1.0, 0.0, 0.0, 0.0, -x * u, -x * v, x];
        rows[2 * i + 1] = [0.0, 0.0, 0.0, u, v, 1.0, -y * u, -y * v, y];
    }
    let solution = solve(rows).map(|value| value as f32);
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

/// Returns true if three of the points are on one line. This is exact for coordinates that are whole numbers.
fn has_three_on_a_line(points: &[[f64; 2]; 4]) -> bool {
    [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]].iter().any(|three| {
        let [p, q, r] = three.map(|index: usize| points[index]);
        (q[0] - p[0]) * (r[1] - p[1]) == (q[1] - p[1]) * (r[0] - p[0])
    })
}

/// Solves 8 linear equations, each a row of 8 factors and a right side, by Gaussian elimination
/// with pivoting. If there is no unique solution, the result is meaningless and may not be finite.
fn solve(mut rows: [[f64; 9]; 8]) -> [f64; 8] {
    for column in 0..8 {
        let size = |row: usize| rows[row][column].abs();
        let pivot = (column..8).max_by(|&a, &b| size(a).total_cmp(&size(b))).unwrap_or(column);
        rows.swap(column, pivot);
        let top = rows[column];
        for row in &mut rows[column + 1..] {
            let factor = row[column] / top[column];
            for (value, above) in row[column..].iter_mut().zip(&top[column..]) {
                *value -= factor * above;
            }
        }
    }
    let mut solution = [0.0; 8];
    for column in (0..8).rev() {
        let row = &rows[column];
        let known: f64 = (column + 1..8).map(|i| row[i] * solution[i]).sum();
        solution[column] = (row[8] - known) / row[column];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    fn assert_blocks_are_positions(map: &Map, size: Size) {
        let mut positions = [[0.0; BLOCK]; 2];
        for y in 0..size.height {
            for first in (0..size.width).step_by(BLOCK) {
                for has_fma in [false, true] {
                    map.positions(y, first, has_fma, &mut positions);
                    let [xs, ys] = &positions;
                    for i in 0..BLOCK {
                        let expected = map.position(y, first + i as u32).map(f32::to_bits);
                        assert_eq!([xs[i], ys[i]].map(f32::to_bits), expected, "{map:?} {y} {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_block_has_the_bits_of_its_positions() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let size = Size::new(13, 70);
        let mut exact = 0;
        for _ in 0..500 {
            // Numbers of very different magnitudes: sums that f64 can't hold must be recognized.
            let mut draw = |spread: i32| {
                let sign = if rng.next_u32() % 2 == 0 { 1.0 } else { -1.0 };
                let exponent = (rng.next_u32() % (spread as u32 + 1)) as i32;
                sign * f64::from(rng.next_u32()) / 2f64.powi(32 + exponent)
            };
            let matrix = [(); 6].map(|()| draw(30));
            let map = Map::affine(matrix, Size::new(31, 90), size);
            exact += u32::from(map.x.exact_in_f64);
            assert_blocks_are_positions(&map, size);
            let coefficients = [(); 8].map(|()| draw(12) as f32);
            assert_blocks_are_positions(&Map::perspective(coefficients, size, size), size);
        }
        assert!((100..500).contains(&exact), "{exact}");
        assert_blocks_are_positions(&Map::affine([f64::NAN; 6], size, size), size);
        assert_blocks_are_positions(
            &Map::affine(rotation_matrix(90.0, [0.0; 2]), size, size),
            size,
        );
    }

    #[test]
    fn f64_is_not_trusted_with_terms_that_are_far_apart() {
        assert!(exact_in_f64(0.7, 0.3, 512.0, 512.0));
        assert!(exact_in_f64(0.7, 0.0, 512.0, 512.0));
        assert!(!exact_in_f64(0.7, 1e-16, 512.0, 512.0));
        assert!(!exact_in_f64(0.7, f32::NAN, 512.0, 512.0));
        assert!(!exact_in_f64(f32::INFINITY, 0.0, 512.0, 512.0));
    }

    #[test]
    fn a_picture_turned_by_45_degrees_needs_a_square() {
        let matrix = rotation_matrix(45.0, [0.0; 2]);
        assert_eq!(expanded_size(matrix, Size::new(100, 60)), Size::new(114, 114));
        let matrix = rotation_matrix(90.0, [0.0; 2]);
        assert_eq!(expanded_size(matrix, Size::new(100, 60)), Size::new(60, 100));
    }

    #[test]
    fn positions_of_an_identity_are_the_pixels() {
        let size = Size::new(5, 7);
        let map = Map::affine(affine_matrix(0.0, [0.0; 2], 1.0, [0.0; 2], [0.0; 2]), size, size);
        let [x, y] = map.position(3, 2);
        assert!((x - 2.0).abs() < 1e-5 && (y - 3.0).abs() < 1e-5, "{x} {y}");
    }

    #[test]
    fn a_perspective_takes_end_points_to_start_points() {
        let start = [[0.0, 0.0], [9.0, 0.0], [9.0, 7.0], [0.0, 7.0]];
        let end = [[1.0, 2.0], [8.0, 1.0], [9.0, 6.0], [0.0, 5.0]];
        let [a, b, c, d, e, f, g, h] = perspective_coefficients(start, end).unwrap();
        for ([x, y], [u, v]) in start.into_iter().zip(end) {
            let (u, v) = (u as f32, v as f32);
            let depth = g * u + h * v + 1.0;
            assert!(((a * u + b * v + c) / depth - x as f32).abs() < 1e-4);
            assert!(((d * u + e * v + f) / depth - y as f32).abs() < 1e-4);
        }
    }

    #[test]
    fn three_points_on_a_line_have_no_perspective() {
        let rectangle = [[0.0, 0.0], [100.0, 0.0], [100.0, 70.0], [0.0, 70.0]];
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let mut below = |bound: u64| (rng.next_u64() % bound) as f64;
        for round in 0..200 {
            let (from, by) = ([below(30), below(30)], [1.0 + below(13), 1.0 + below(17)]);
            let (near, far) = (1.0 + below(3), 4.0 + below(3));
            let along = |steps: f64| [from[0] + steps * by[0], from[1] + steps * by[1]];
            let mut points = [from, along(near), along(far), [from[0] + 90.0, from[1]]];
            points.swap(round % 4, 3);
            assert_eq!(perspective_coefficients(rectangle, points), None, "{points:?}");
            assert_eq!(perspective_coefficients(points, rectangle), None, "{points:?}");
        }
        assert!(perspective_coefficients(rectangle, rectangle).is_some());
    }
}
