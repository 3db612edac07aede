//! One box, upright or rotated.

use super::rotated;
use super::{BoxFormat, ClampingMode, PointMap};
use crate::Size;

/// One box in f64, in continuous coordinates.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let found = BoundingBox::read(BoxFormat::Xywh, &[10.0, 20.0, 30.0, 40.0]);
/// assert_eq!((found.width(), found.height(), found.center()), (30.0, 40.0, [25.0, 40.0]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BoundingBox {
    /// An upright box: its left, top, right and bottom edge.
    Edges([f64; 4]),
    /// A rotated box: its corners `[x, y]`, in the order top left, top right, bottom right, bottom left before the
    /// rotation.
    Corners([[f64; 2]; 4]),
}

impl BoundingBox {
    /// Reads a box.
    ///
    /// # Panics
    ///
    /// If the number of values is not [`BoxFormat::columns`].
    #[must_use]
    pub fn read(format: BoxFormat, values: &[f32]) -> Self {
        assert_eq!(
            values.len(),
            format.columns(),
            "numbers of a box of the format {}",
            format.name()
        );
        let at = |column: usize| f64::from(values[column]);
        let [a, b, c, d] = [0, 1, 2, 3].map(at);
        match format {
            BoxFormat::Xyxy => Self::Edges([a, b, c, d]),
            BoxFormat::Xywh => Self::Edges([a, b, a + c, b + d]),
            BoxFormat::Cxcywh => Self::Edges([a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0]),
            BoxFormat::Xywhr => {
                let [across, down] = sides([c, d], at(4));
                Self::Corners(rotated::spanned([a, b], across, down))
            }
            BoxFormat::Cxcywhr => {
                let [across, down] = sides([c, d], at(4));
                let corner = [0, 1].map(|i| [a, b][i] - (across[i] + down[i]) / 2.0);
                Self::Corners(rotated::spanned(corner, across, down))
            }
            BoxFormat::Xyxyxyxy => {
                Self::Corners([0, 1, 2, 3].map(|corner| [at(2 * corner), at(2 * corner + 1)]))
            }
        }
    }

    /// Writes the box, with one rounding for each number. The angle is in `-180.0..=180.0`.
    ///
    /// # Panics
    ///
    /// If the number of values is not [`BoxFormat::columns`], or if one of the box and the format is rotated and the
    /// other is not.
    pub fn write(self, format: BoxFormat, values: &mut [f32]) {
        assert_eq!(
            values.len(),
            format.columns(),
            "numbers of a box of the format {}",
            format.name()
        );
        let [width, height] = [self.width(), self.height()];
        let mut numbers = [0.0; 8];
        match (self, format) {
            (Self::Edges(edges), BoxFormat::Xyxy) => numbers[..4].copy_from_slice(&edges),
            (Self::Edges([x, y, ..]), BoxFormat::Xywh) => {
                numbers[..4].copy_from_slice(&[x, y, width, height]);
            }
            (Self::Edges(_), BoxFormat::Cxcywh) => {
                let [x, y] = self.center();
                numbers[..4].copy_from_slice(&[x, y, width, height]);
            }
            (Self::Corners(corners), BoxFormat::Xywhr | BoxFormat::Cxcywhr) => {
                let [x, y] = if format == BoxFormat::Xywhr { corners[0] } else { self.center() };
                let angle = rotated::angle(corners);
                numbers[..5].copy_from_slice(&[x, y, width, height, angle]);
            }
            (Self::Corners(corners), BoxFormat::Xyxyxyxy) => {
                numbers.copy_from_slice(corners.as_flattened());
            }
            (Self::Edges(_), _) => panic!("an upright box has no rotated format"),
            (Self::Corners(_), _) => panic!("a rotated box has no upright format"),
        }
        for (value, number) in values.iter_mut().zip(numbers) {
            *value = number as f32;
        }
    }

    /// Returns the box after a step: the smallest upright box around the moved corners, or, of a rotated box, the
    /// rectangle with the middle and the longer side of the moved corners.
    #[must_use]
    pub fn mapped(self, map: &PointMap) -> Self {
        match self {
            Self::Edges(edges) => Self::Edges(mapped_edges(edges, map)),
            Self::Corners(corners) => Self::Corners(mapped_corners(corners, map)),
        }
    }

    /// Returns the part of the box inside an image. A box outside becomes an empty one; the edges of an upright box
    /// keep their order, and NaN stays NaN.
    #[must_use]
    pub fn clamped(self, size: Size, mode: ClampingMode) -> Self {
        match self {
            _ if mode == ClampingMode::None => self,
            Self::Edges([x1, y1, x2, y2]) => {
                let [width, height] = [size.width, size.height].map(f64::from);
                // `clamp` keeps NaN, and the bounds are in order.
                let [x1, x2] = [x1, x2].map(|x| x.clamp(0.0, width));
                let [y1, y2] = [y1, y2].map(|y| y.clamp(0.0, height));
                Self::Edges([x1, y1, x2, y2])
            }
            Self::Corners(_) if self.is_inside(size) || !self.is_finite() => self,
            Self::Corners(corners) => {
                Self::Corners(rotated::clamped(corners, size, mode == ClampingMode::Hard))
            }
        }
    }

    /// Returns the width: negative if the edges of an upright box are swapped.
    #[must_use]
    pub fn width(self) -> f64 {
        match self {
            Self::Edges([x1, _, x2, _]) => x2 - x1,
            Self::Corners([tl, tr, ..]) => rotated::distance(tl, tr),
        }
    }

    /// Returns the height: negative if the edges of an upright box are swapped.
    #[must_use]
    pub fn height(self) -> f64 {
        match self {
            Self::Edges([_, y1, _, y2]) => y2 - y1,
            Self::Corners([_, tr, br, _]) => rotated::distance(tr, br),
        }
    }

    /// Returns the product of width and height.
    #[must_use]
    pub fn area(self) -> f64 {
        self.width() * self.height()
    }

    /// Returns the middle, `[x, y]`.
    #[must_use]
    pub fn center(self) -> [f64; 2] {
        match self {
            Self::Edges([x1, y1, x2, y2]) => [f64::midpoint(x1, x2), f64::midpoint(y1, y2)],
            Self::Corners([tl, _, br, _]) => [0, 1].map(|i| f64::midpoint(tl[i], br[i])),
        }
    }

    /// Returns true if no coordinate is NaN or infinite.
    #[must_use]
    pub fn is_finite(self) -> bool {
        self.coordinates().iter().all(|coordinate| coordinate.is_finite())
    }

    /// Returns true if no part of the box is outside an image: false for NaN.
    #[must_use]
    pub fn is_inside(self, size: Size) -> bool {
        let sides = [size.width, size.height].map(f64::from);
        let mut coordinates = self.coordinates().iter().enumerate();
        coordinates.all(|(i, coordinate)| (0.0..=sides[i % 2]).contains(coordinate))
    }

    /// Returns the smallest upright box around the box: itself if it is upright.
    #[must_use]
    pub fn upright(self) -> Self {
        match self {
            Self::Edges(_) => self,
            Self::Corners(corners) => {
                let ends = |axis: usize| {
                    let places = corners.map(|corner| corner[axis]);
                    [f64::min, f64::max].map(|end| places.into_iter().fold(places[0], end))
                };
                let ([x1, x2], [y1, y2]) = (ends(0), ends(1));
                Self::Edges([x1, y1, x2, y2])
            }
        }
    }

    /// Returns the area of the intersection of two upright boxes divided by the area of their union, or 0 if both
    /// are empty; `None` if one is rotated.
    #[must_use]
    pub fn iou(self, other: Self) -> Option<f64> {
        let (Self::Edges(a), Self::Edges(b)) = (self, other) else {
            return None;
        };
        let shared = |low: usize| (a[low + 2].min(b[low + 2]) - a[low].max(b[low])).max(0.0);
        let intersection = shared(0) * shared(1);
        let union = self.area() + other.area() - intersection;
        Some(if union == 0.0 { 0.0 } else { intersection / union })
    }

    /// Returns the coordinates, x and y in turn.
    fn coordinates(&self) -> &[f64] {
        match self {
            Self::Edges(edges) => edges,
            Self::Corners(corners) => corners.as_flattened(),
        }
    }
}

/// Returns the two sides of a rotated box as vectors: across, and down.
fn sides([width, height]: [f64; 2], angle: f64) -> [[f64; 2]; 2] {
    let (sin, cos) = libm::sincos(angle.to_radians());
    [[width * cos, -width * sin], [height * sin, height * cos]]
}

fn mapped_edges([x1, y1, x2, y2]: [f64; 4], map: &PointMap) -> [f64; 4] {
    if map.keeps_axes() {
        let ([x1, y1], [x2, y2]) = (map.point([x1, y1]), map.point([x2, y2]));
        return match map {
            PointMap::FlipX(_) => [x2, y1, x1, y2],
            PointMap::FlipY(_) => [x1, y2, x2, y1],
            _ => [x1, y1, x2, y2],
        };
    }
    let corners = [[x1, y1], [x2, y1], [x2, y2], [x1, y2]].map(|corner| map.point(corner));
    let least =
        |axis: usize| corners.iter().map(|corner| corner[axis]).fold(f64::INFINITY, f64::min);
    let most =
        |axis: usize| corners.iter().map(|corner| corner[axis]).fold(f64::NEG_INFINITY, f64::max);
    if corners.as_flattened().iter().any(|coordinate| coordinate.is_nan()) {
        return [f64::NAN; 4];
    }
    [least(0), least(1), most(0), most(1)]
}

fn mapped_corners(corners: [[f64; 2]; 4], map: &PointMap) -> [[f64; 2]; 4] {
    if let PointMap::Elastic(_) = map {
        // As in torchvision, an elastic transform moves the middle alone.
        let from = BoundingBox::Corners(corners).center();
        let to = map.point(from);
        return corners.map(|corner| [0, 1].map(|i| corner[i] + to[i] - from[i]));
    }
    let moved = corners.map(|corner| map.point(corner));
    // A mirrored box keeps its order on the screen.
    let moved = if map.mirrors() { [moved[1], moved[0], moved[3], moved[2]] } else { moved };
    if map.keeps_right_angles() { moved } else { rotated::squared(moved) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Displacement;
    use std::sync::Arc;

    const BOX: [f32; 5] = [20.0, 18.0, 12.0, 6.0, 30.0];

    #[test]
    fn an_elastic_transform_moves_the_centre_of_a_rotated_box() {
        let displacement = Displacement::new(3, [90.0; 2], [4.0; 2], Size::new(40, 50));
        let map = PointMap::Elastic(Arc::new(displacement));
        let own = BoundingBox::read(BoxFormat::Cxcywhr, &BOX);
        let moved = own.mapped(&map);
        let to = map.point([20.0, 18.0]);
        assert!((to[0] - 20.0).abs() > 0.1 && (to[1] - 18.0).abs() > 0.1, "{to:?}");
        let mut values = [0.0; 5];
        moved.write(BoxFormat::Cxcywhr, &mut values);
        let expected = [to[0] as f32, to[1] as f32, 12.0, 6.0, 30.0];
        let is_near = |(a, b): (&f32, f32)| (a - b).abs() < 1e-4;
        assert!(values.iter().zip(expected).all(is_near), "{values:?}, not {expected:?}");
    }

    #[test]
    fn a_rotated_box_that_is_inside_or_not_finite_is_not_clamped() {
        let own = BoundingBox::read(BoxFormat::Cxcywhr, &BOX);
        for mode in ClampingMode::ALL {
            assert_eq!(own.clamped(Size::new(40, 50), mode), own);
            let corners = [[-3.0, 2.0], [f64::INFINITY, 2.0], [8.0, 90.0], [-3.0, 90.0]];
            let infinite = BoundingBox::Corners(corners);
            assert_eq!(infinite.clamped(Size::new(40, 50), mode), infinite);
        }
    }

    /// The direction of a box without a width is that of its height.
    #[test]
    fn the_angle_of_a_rotated_box_of_zero_width_is_kept() {
        for angle in [-120.0, -30.0, 0.0, 45.0, 170.0] {
            let own = BoundingBox::read(BoxFormat::Cxcywhr, &[20.0, 18.0, 0.0, 6.0, angle]);
            let mut values = [0.0; 5];
            own.write(BoxFormat::Cxcywhr, &mut values);
            assert!((values[4] - angle).abs() < 1e-4, "{values:?}, not {angle}");
        }
    }
}
