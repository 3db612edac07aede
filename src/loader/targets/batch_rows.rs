//! Objects as they are stored in the rows of a batch, for ops that change a finished batch.

use super::{BoundingBoxes, KeyPoints};
use fuseloop_ops::author::{BoundingBox, Keypoint, Objects};
use fuseloop_ops::{ClampingMode, Size};

impl BoundingBoxes {
    /// Returns the box that stands in a row of a batch of images of `size`.
    pub(in crate::loader) fn read_row(&self, row: &[u8], size: Size) -> BoundingBox {
        let mut values = [0.0; 8];
        read(row, &mut values);
        match BoundingBox::read(self.output, &values[..self.output.columns()]) {
            BoundingBox::Edges(edges) if self.is_normalized => {
                BoundingBox::Edges(scaled(edges, size, |edge, side| edge * side))
            }
            bounds => bounds,
        }
    }

    /// Writes a box to a row of a batch of images of `size`. An upright box becomes a rotated one if the format is for
    /// rotated boxes.
    pub(in crate::loader) fn write_row(&self, bounds: BoundingBox, size: Size, row: &mut [u8]) {
        let bounds = match bounds {
            BoundingBox::Edges([x1, y1, x2, y2]) if self.output.is_rotated() => {
                BoundingBox::Corners([[x1, y1], [x2, y1], [x2, y2], [x1, y2]])
            }
            BoundingBox::Edges(edges) if self.is_normalized => {
                BoundingBox::Edges(scaled(edges, size, |edge, side| edge / side))
            }
            bounds => bounds,
        };
        let mut values = [0.0; 8];
        let values = &mut values[..self.output.columns()];
        bounds.write(self.output, values);
        write(values, row);
    }

    /// Returns how boxes are cut at the edges of an image.
    pub(in crate::loader) fn clamping_mode(&self) -> ClampingMode {
        self.clamping
    }
}

/// Changes each edge of a box by the side of the image that it lies along.
fn scaled(edges: [f64; 4], size: Size, change: impl Fn(f64, f64) -> f64) -> [f64; 4] {
    let sides = [size.width, size.height].map(f64::from);
    [0, 1, 2, 3].map(|i| change(edges[i], sides[i % 2]))
}

impl KeyPoints {
    /// Returns the keypoints that stand in an object's row of a batch.
    pub(in crate::loader) fn read_row(&self, row: &[u8]) -> impl Iterator<Item = Keypoint> {
        row.chunks_exact(4 * self.columns()).map(|bytes| {
            let mut values = [0.0, 0.0, 2.0];
            read(bytes, &mut values);
            self.point(values)
        })
    }

    /// Writes the keypoints of an object to its row of a batch. Without a visibility, all points stay visible.
    pub(in crate::loader) fn write_row(&self, points: &[Keypoint], row: &mut [u8]) {
        for (point, to) in points.iter().zip(row.chunks_exact_mut(4 * self.columns())) {
            let visibility = if self.has_visibility { point.visibility } else { 2.0 };
            write(&self.values(Keypoint { visibility, ..*point })[..self.columns()], to);
        }
    }

    /// Writes the keypoints of an object that its image's ops have moved to its row of a batch.
    pub(in crate::loader) fn write_object(&self, objects: &Objects, object: usize, row: &mut [u8]) {
        let first = object * self.each;
        for (index, to) in (first..).zip(row.chunks_exact_mut(4 * self.columns())) {
            write(&self.numbers(objects, index)[..self.columns()], to);
        }
    }

    /// Returns the pairs of keypoints that change places when the image is mirrored.
    pub(in crate::loader) fn pairs(&self) -> &[[usize; 2]] {
        &self.flip_pairs
    }

    /// Writes the keypoints of one object to `to`, each as `change` returns it. `from` is the object's row of a batch.
    /// Without a visibility, all points stay visible.
    pub(in crate::loader) fn change_row(
        &self,
        from: &[u8],
        to: &mut [u8],
        change: impl Fn(Keypoint) -> Keypoint,
    ) {
        let bytes = 4 * self.columns();
        for (from, to) in from.chunks_exact(bytes).zip(to.chunks_exact_mut(bytes)) {
            let mut values = [0.0, 0.0, 2.0];
            read(from, &mut values);
            let point = self.point(values);
            let mut changed = change(point);
            if !self.has_visibility {
                changed.visibility = point.visibility;
            }
            write(&self.values(changed)[..self.columns()], to);
        }
    }
}

fn read(row: &[u8], values: &mut [f32]) {
    let numbers = row.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes));
    values.iter_mut().zip(numbers).for_each(|(to, value)| *to = value);
}

fn write(values: &[f32], row: &mut [u8]) {
    let places = row.as_chunks_mut().0.iter_mut();
    places.zip(values).for_each(|(to, value)| *to = value.to_ne_bytes());
}
