//! Stored bytes as the objects of a sample, and the objects as bytes of a batch.

use super::{BoundingBoxes, KeyPoints};
use crate::decode::object_rows::{self, other_count, rows_of};
use crate::error::{Error, fail};
use fuseloop_ops::author::{BoundingBox, Keypoint, Objects};
use fuseloop_ops::{DType, Size};

/// Returns the error of a mask of another size than its image.
pub(in crate::loader) fn other_size(mask: Size, image: Size) -> Error {
    fail!(Damaged, "a mask of {mask} for an image of {image}: both must have one size")
}

/// Returns the error of the mask of an object.
pub(in crate::loader) fn of_mask(row: usize, error: &Error) -> Error {
    fail!(Damaged, "the mask of object {row}: {error}")
}

impl BoundingBoxes {
    /// Reads the boxes of a sample as its objects.
    pub(in crate::loader) fn read(&self, bytes: &[u8], objects: &mut Objects) -> Result<(), Error> {
        let (stored, columns) = (self.stored, self.stored.columns());
        let boxes = object_rows::boxes(bytes, stored)?;
        objects.reset(boxes.len());
        let boxes = boxes.map(|values| BoundingBox::read(stored, &values[..columns]));
        objects.set_boxes(boxes, self.output, self.clamping);
        Ok(())
    }

    /// Writes the boxes of objects in an image of `size` to `out`.
    pub(in crate::loader) fn write(&self, objects: &Objects, size: Size, out: &mut Vec<u8>) {
        for bounds in objects.boxes() {
            let start = out.len();
            out.resize(start + 4 * self.output.columns(), 0);
            self.write_row(*bounds, size, &mut out[start..]);
        }
    }
}

impl KeyPoints {
    /// Reads the keypoints of a sample: those of the boxes that it has. Without boxes, they are objects of their own.
    pub(in crate::loader) fn read(&self, bytes: &[u8], objects: &mut Objects) -> Result<(), Error> {
        let points = object_rows::keypoints(bytes, self.each, self.columns())?;
        let count = points.len() / self.each;
        if !objects.has_boxes() {
            objects.reset(count);
        }
        if count != objects.len() {
            return Err(other_count(count, objects.len()));
        }
        let points = points.map(|values| self.point(values));
        objects.set_keypoints(points, self.each, &self.flip_pairs);
        Ok(())
    }

    /// Writes the keypoints of objects to `out`. Those that were moved out of the image are not visible.
    pub(in crate::loader) fn write(&self, objects: &Objects, out: &mut Vec<u8>) {
        for index in 0..objects.keypoints().len() {
            self.numbers(objects, index)[..self.columns()]
                .iter()
                .for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
        }
    }

    /// Returns the three numbers of a keypoint of objects that an image's ops have moved.
    pub(super) fn numbers(&self, objects: &Objects, index: usize) -> [f32; 3] {
        let mut values = self.values(objects.keypoints()[index]);
        if objects.is_moved_out(index) && !self.keeps_visibility {
            values[2] = 0.0;
        }
        values
    }

    /// Returns the point that three stored numbers stand for.
    pub(super) fn point(&self, [x, y, visibility]: [f32; 3]) -> Keypoint {
        if visibility == 0.0 {
            return Keypoint::default();
        }
        Keypoint { at: [x, y].map(|place| f64::from(place) + self.shift()), visibility }
    }

    /// Returns the three numbers that a point is stored as.
    pub(super) fn values(&self, Keypoint { at, visibility }: Keypoint) -> [f32; 3] {
        if visibility == 0.0 {
            return [0.0; 3];
        }
        let [x, y] = at.map(|place| (place - self.shift()) as f32);
        [x, y, visibility]
    }

    /// Returns what is added to a stored number to get a continuous coordinate.
    fn shift(&self) -> f64 {
        if self.is_continuous { 0.0 } else { 0.5 }
    }
}

/// Writes the elements of a column that belong to the objects that stay.
///
/// # Errors
///
/// If the column does not have one for each of the `stored` objects.
pub(in crate::loader) fn write_column(
    bytes: &[u8],
    dtype: DType,
    (objects, stored): (&Objects, usize),
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let rows = rows_of(bytes, dtype, 1)?;
    let (width, found) = (dtype.bytes(), rows.len() / dtype.bytes());
    if found != stored {
        return Err(other_count(found, stored));
    }
    objects.rows().iter().for_each(|&row| out.extend_from_slice(&rows[row * width..][..width]));
    Ok(())
}
