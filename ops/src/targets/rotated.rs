//! Rotated boxes: their angle, the rectangle that replaces a parallelogram, and their part inside an image.

use crate::Size;

/// A point or a vector, `[x, y]`.
type Vector = [f64; 2];

/// The corners of a rotated box: top left, top right, bottom right, bottom left before the rotation.
type Corners = [Vector; 4];

/// The sine of the largest angle to an axis at which a box counts as upright when it is clamped.
const UPRIGHT: f64 = 1e-5;

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1]]
}

fn length(a: Vector) -> f64 {
    libm::hypot(a[0], a[1])
}

pub(super) fn distance(a: Vector, b: Vector) -> f64 {
    length(minus(a, b))
}

/// Returns the corners of the parallelogram with two sides that begin at the top left corner.
pub(super) fn spanned([x, y]: Vector, across: Vector, down: Vector) -> Corners {
    let [right, bottom] = [across, down].map(|side| [x + side[0], y + side[1]]);
    [[x, y], right, [right[0] + down[0], right[1] + down[1]], bottom]
}

/// Returns the angle of a box in degrees, counter-clockwise on the screen: that of its top side, or of its left side
/// if the top side has no length.
pub(super) fn angle([tl, tr, _, bl]: Corners) -> f64 {
    let [across, down] = [minus(tr, tl), minus(bl, tl)];
    let [x, y] = if across == [0.0; 2] { [down[1], -down[0]] } else { across };
    // `0.0 - y` is 0 for a side that is horizontal: the angle is 180 and not -180.
    libm::atan2(0.0 - y, x).to_degrees()
}

/// Returns the rectangle that replaces the parallelogram which a map has made of a box: the smallest one around it
/// with its middle and the direction of its longer side. A rectangle stays as it is.
pub(super) fn squared(corners: Corners) -> Corners {
    let [tl, tr, br, bl] = corners;
    let [across, down] = [minus(tr, tl), minus(bl, tl)];
    let [width, height] = [length(across), length(down)];
    if width.max(height) == 0.0 {
        return corners;
    }
    // The unit vectors along the new sides.
    let u = match width >= height {
        true => across.map(|side| side / width),
        false => [down[1] / height, -down[0] / height],
    };
    let v = [-u[1], u[0]];
    let reach = |axis| dot(axis, across).abs() + dot(axis, down).abs();
    let [across, down] = [u, v].map(|axis| axis.map(|part| part * reach(axis)));
    let middle = [0, 1].map(|i| f64::midpoint(tl[i], br[i]));
    spanned([0, 1].map(|i| middle[i] - (across[i] + down[i]) / 2.0), across, down)
}

/// Returns the part of a box inside an image, as a box with the same angle: see [`Clamping::cut`]. A box outside
/// becomes the empty one in the bottom left corner, as in torchvision.
pub(super) fn clamped(corners: Corners, size: Size, is_hard: bool) -> Corners {
    let [width, height] = [size.width, size.height].map(f64::from);
    let canvas = [[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]];
    let mut clamping = Clamping::new(squared(corners), is_hard);
    for side in 0..4 {
        let [start, inner, end] = [side, side + 1, side + 3].map(|corner| canvas[corner % 4]);
        let edge = Edge {
            start,
            along: unit(minus(end, start)),
            inwards: unit(minus(inner, start)),
            length: distance(start, end),
            depth: distance(start, inner),
        };
        if !clamping.cut(&edge) {
            return [canvas[3]; 4];
        }
    }
    clamping.corners()
}

fn unit(vector: Vector) -> Vector {
    let length = length(vector);
    vector.map(|part| part / length)
}

/// Limits a number to `low..=high`, or to `high` if that is below `low`.
fn limited(number: f64, low: f64, high: f64) -> f64 {
    number.max(low).min(high)
}

/// An edge of the image, with the image on its right.
struct Edge {
    start: Vector,
    /// The direction from the start to the end of the edge.
    along: Vector,
    /// The direction into the image.
    inwards: Vector,
    /// The length of the edge.
    length: f64,
    /// The length of the image's other side.
    depth: f64,
}

/// A box that is being clamped: the points `p` with `directions[i] · p <= reach[i]` for all four `i`.
struct Clamping {
    /// The unit vectors to the right, down, to the left and up, of the box before its rotation.
    directions: [Vector; 4],
    reach: [f64; 4],
    /// The reach of the box before it was clamped.
    original: [f64; 4],
    is_hard: bool,
}

impl Clamping {
    fn new(corners: Corners, is_hard: bool) -> Self {
        let (sin, cos) = libm::sincos(angle(corners).to_radians());
        let (u, v) = ([cos, -sin], [sin, cos]);
        let directions = [u, v, u.map(|part| -part), v.map(|part| -part)];
        let [tl, _, br, _] = corners;
        let ends = [br, br, tl, tl];
        let reach = [0, 1, 2, 3].map(|i| dot(directions[i], ends[i]));
        Self { directions, reach, original: reach, is_hard }
    }

    /// Returns the corner between two adjacent sides: corner 0 is the top left one.
    fn corner(&self, corner: usize) -> Vector {
        let [a, b] = [corner + 2, corner + 3].map(|side| side % 4);
        let (p, q) = (self.directions[a], self.directions[b]);
        [0, 1].map(|i| p[i] * self.reach[a] + q[i] * self.reach[b])
    }

    fn corners(mut self) -> Corners {
        // Sides that have passed each other meet halfway.
        for side in 0..2 {
            let overlap = (self.reach[side] + self.reach[side + 2]).min(0.0) / 2.0;
            self.reach[side] -= overlap;
            self.reach[side + 2] -= overlap;
        }
        [0, 1, 2, 3].map(|corner| self.corner(corner))
    }

    /// Cuts the box at one edge of the image, and keeps its angle. Returns false if the box is behind the edge.
    ///
    /// The box covers a piece of the edge. The two sides that meet in the corner farthest behind the edge move
    /// inwards, so that each passes through its own end of the piece: this is the smallest box around the part that
    /// is inside. In hard clamping, both pass through the middle of the piece instead, so that this corner is inside,
    /// and the two other sides move out again, as far as the image and the original box allow.
    fn cut(&mut self, edge: &Edge) -> bool {
        let Edge { start, along, inwards, length, depth } = *edge;
        let behind = [0, 1, 2, 3].map(|i| dot(inwards, minus(self.corner(i), start)));
        if behind.iter().all(|&distance| distance <= 0.0) {
            return false;
        }
        let Some(first) = (0..4).min_by(|&a, &b| behind[a].total_cmp(&behind[b])) else {
            return true;
        };
        if behind[first] >= 0.0 {
            return true;
        }
        // Clockwise, the sides are: `top` from this corner, `right`, `bottom`, and `left` back to it, if the
        // edge is the image's left one.
        let [right, bottom, left, top] = [0, 1, 2, 3].map(|i| (first + i) % 4);
        let (a, b) = (self.directions[right], self.directions[bottom]);
        let [along_a, along_b] = [a, b].map(|axis| dot(axis, along));
        if along_a.abs() < UPRIGHT || along_b.abs() < UPRIGHT {
            let outer = if along_a.abs() < UPRIGHT { left } else { top };
            let limit = dot(self.directions[outer], start);
            self.reach[outer] = self.reach[outer].min(limit);
            return true;
        }
        let crossing = |side: usize| {
            let axis = self.directions[side];
            (self.reach[side] - dot(axis, start)) / dot(axis, along)
        };
        let [y_right, y_bottom, y_left, y_top] = [right, bottom, left, top].map(crossing);
        let mut upper = limited(limited(y_right, y_top, y_bottom), 0.0, length);
        let mut lower = limited(limited(y_bottom, y_right, y_left), 0.0, length);
        if self.is_hard {
            upper = f64::midpoint(upper, lower);
            lower = upper;
        }
        let at = |y: f64| [0, 1].map(|i| start[i] + y * along[i]);
        let (low_a, low_b) = (dot(a, at(lower)), dot(b, at(upper)));
        let [mut high_a, mut high_b] = [self.reach[right], self.reach[bottom]];
        if self.is_hard {
            let [into_a, into_b] = [a, b].map(|axis| dot(axis, inwards));
            let far = dot(inwards, start) + depth;
            let (near, end) = (dot(along, start), dot(along, start) + length);
            let room = ((near - low_b * along_b) / along_a).min((far - high_b * into_b) / into_a);
            high_a = high_a.max(room);
            let room = ((end - low_a * along_a) / along_b).min((far - high_a * into_a) / into_b);
            high_b = high_b.max(room);
        }
        let within = |side: usize, value: f64| {
            limited(value, -self.original[(side + 2) % 4], self.original[side])
        };
        let reach = [(right, high_a), (bottom, high_b), (left, -low_a), (top, -low_b)];
        let reach = reach.map(|(side, value)| (side, within(side, value)));
        for (side, value) in reach {
            self.reach[side] = value;
        }
        true
    }
}
