//! Where a geometry step moves a point.

use crate::Size;
use crate::author::GeometryStep;
use crate::rows::{Displacement, RowFilter};
use std::sync::Arc;

/// The position in a step's output of each point of its input, in continuous coordinates.
#[derive(Clone, Debug, PartialEq)]
pub enum PointMap {
    /// Points stay where they are.
    Identity,
    /// `(x + dx, y + dy)`.
    Shift([f64; 2]),
    /// `(width - x, y)`.
    FlipX(f64),
    /// `(x, height - y)`.
    FlipY(f64),
    /// `(x * to[0] / from[0], y * to[1] / from[1])`: a point on an edge of the image stays on it, which it need not if
    /// it is multiplied by a rounded ratio.
    Scale {
        /// The width and height of the input.
        from: [f64; 2],
        /// The width and height of the output.
        to: [f64; 2],
    },
    /// `(y, x)`.
    Transpose,
    /// The rows of a matrix that maps `(x, y, 1)`: the result is divided by its third number.
    Matrix([f64; 9]),
    /// The place to which an elastic transform moves a point.
    Elastic(Arc<Displacement>),
}

impl PointMap {
    /// Returns the map of a step for an input of size `input`; `None` if the step copies pixels to several places, or
    /// none: a border of the image's own pixels, rows in a random order, the mean of all rows.
    #[must_use]
    pub fn of(step: &GeometryStep, input: Size) -> Option<Self> {
        Some(match step {
            GeometryStep::CropPad { top, left, .. } => {
                Self::Shift([-f64::from(*left), -f64::from(*top)])
            }
            GeometryStep::FlipHorizontal => Self::FlipX(f64::from(input.width)),
            GeometryStep::FlipVertical => Self::FlipY(f64::from(input.height)),
            GeometryStep::Resize { size, .. } => Self::resize(input, *size),
            GeometryStep::ResizePart { size, part: [rows, columns] } => {
                let scale = |side: u32, [start, end]: [f64; 2]| f64::from(side) / (end - start);
                let (x, y) = (scale(size.width, *columns), scale(size.height, *rows));
                let shift = [-x * columns[0], -y * rows[0]];
                Self::Matrix([x, 0.0, shift[0], 0.0, y, shift[1], 0.0, 0.0, 1.0])
            }
            GeometryStep::Rows(filter) => match filter {
                RowFilter::Warp(warp) => match warp.map.displacement() {
                    Some(displacement) => Self::Elastic(Arc::clone(displacement)),
                    None => Self::Matrix(warp.map.forward()),
                },
                RowFilter::Transpose => Self::Transpose,
                RowFilter::Pad(_)
                | RowFilter::Permute(_)
                | RowFilter::Tiles(_)
                | RowFilter::RowMean => return None,
                RowFilter::Resample { size, .. } => Self::resize(input, *size),
                RowFilter::Sharpen { .. }
                | RowFilter::GaussianBlur { .. }
                | RowFilter::BoxBlur { .. }
                | RowFilter::Convolve(_)
                | RowFilter::Median { .. }
                | RowFilter::Pixelate { .. }
                | RowFilter::Jpeg { .. } => Self::Identity,
            },
        })
    }

    /// Returns the map of a resize, which is the identity between equal sizes.
    fn resize(input: Size, output: Size) -> Self {
        if input == output {
            return Self::Identity;
        }
        let sides = |size: Size| [size.width, size.height].map(f64::from);
        Self::Scale { from: sides(input), to: sides(output) }
    }

    /// Returns the position of a point, `[x, y]`.
    #[must_use]
    pub fn point(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        match *self {
            Self::Identity => [x, y],
            Self::Shift([dx, dy]) => [x + dx, y + dy],
            Self::FlipX(width) => [width - x, y],
            Self::FlipY(height) => [x, height - y],
            Self::Scale { from, to } => [x * to[0] / from[0], y * to[1] / from[1]],
            Self::Transpose => [y, x],
            Self::Matrix([a, b, c, d, e, f, g, h, i]) => {
                let depth = g * x + h * y + i;
                [(a * x + b * y + c) / depth, (d * x + e * y + f) / depth]
            }
            Self::Elastic(ref displacement) => displacement.inverse([x, y]),
        }
    }

    /// Returns true if boxes are clamped to the output after the step, as torchvision does: after crops, pads and
    /// warps; after resizes only if they are rotated; never after flips.
    #[must_use]
    pub fn clamps_boxes(&self, are_rotated: bool) -> bool {
        match self {
            Self::Shift(_) | Self::Matrix(_) | Self::Elastic(_) => true,
            Self::Scale { .. } => are_rotated,
            Self::Identity | Self::FlipX(_) | Self::FlipY(_) | Self::Transpose => false,
        }
    }

    /// Returns true if an upright box stays upright.
    pub(super) fn keeps_axes(&self) -> bool {
        !matches!(self, Self::Matrix(_) | Self::Elastic(_))
    }

    /// Returns true if a rotated box surely stays a rectangle.
    pub(super) fn keeps_right_angles(&self) -> bool {
        !matches!(self, Self::Scale { .. } | Self::Matrix(_))
    }

    /// Returns true if the step shows the image in a mirror.
    pub fn mirrors(&self) -> bool {
        match *self {
            Self::FlipX(_) | Self::FlipY(_) | Self::Transpose => true,
            Self::Matrix([a, b, c, d, e, f, g, h, i]) => {
                a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) < 0.0
            }
            Self::Identity | Self::Shift(_) | Self::Scale { .. } | Self::Elastic(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;

    #[test]
    fn a_part_of_an_image_becomes_the_whole_output() {
        let part = [[3.5, 17.25], [10.0, 90.5]];
        let step = GeometryStep::ResizePart { size: Size::new(20, 33), part };
        let map = PointMap::of(&step, Size::new(40, 100)).unwrap();
        for (y, to_y) in part[0].into_iter().zip([0.0, 20.0]) {
            for (x, to_x) in part[1].into_iter().zip([0.0, 33.0]) {
                let [found_x, found_y] = map.point([x, y]);
                assert!((found_x - to_x).abs() < 1e-9 && (found_y - to_y).abs() < 1e-9, "{map:?}");
            }
        }
    }

    /// A map is a mirror if it reverses the order of a triangle's corners.
    #[test]
    fn a_map_mirrors_if_it_turns_a_triangle_over() {
        let mut mirrors = 0;
        for sample in 0..500 {
            let mut rng = SampleKey::new(1, 0, sample).op(0);
            let mut numbers: [f64; 9] = std::array::from_fn(|_| f64::from(rng.uniform(-2.0, 2.0)));
            // The divisor stays above 0 around the triangle.
            (numbers[6], numbers[7], numbers[8]) = (numbers[6] / 9.0, numbers[7] / 9.0, 1.0);
            let map = PointMap::Matrix(numbers);
            let [p, q, r] = [[1.0, 1.0], [1.1, 1.0], [1.0, 1.1]].map(|point| map.point(point));
            let area = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
            assert_eq!(map.mirrors(), area < 0.0, "{numbers:?}");
            mirrors += u32::from(map.mirrors());
        }
        assert!((150..350).contains(&mirrors), "{mirrors}");
    }

    #[test]
    fn a_point_on_the_edge_of_an_image_is_on_the_edge_after_a_resize() {
        for from in 1..=700 {
            for to in [33, 96, 97, 100, 224, 300, 333, 640, 800, 1001] {
                let map = PointMap::resize(Size::new(from, from), Size::new(to, to));
                let edge = [f64::from(from); 2];
                assert_eq!(map.point(edge), [f64::from(to); 2], "{from} to {to}");
            }
        }
    }
}
