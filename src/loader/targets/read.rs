//! Stored bytes as the objects of a sample, and the objects as bytes of a batch.

use super::{BoundingBoxes, KeyPoints};
use crate::decode::ObjectMaskError;
use crate::decode::object_rows::{self, ObjectRowsError, rows_of};
use fuseloop_ops::author::{BoundingBox, Keypoint, Objects};
use fuseloop_ops::{DType, Size};

/// Why the targets of a sample are refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum TargetCause {
    /// The bytes of a field are not the rows of its objects.
    #[error(transparent)]
    Rows(#[from] ObjectRowsError),
    /// A mask has another size than its image.
    #[error("a mask of {mask} for an image of {image}: both must have one size")]
    MaskSize {
        /// The size of the mask.
        mask: Size,
        /// The size of the image.
        image: Size,
    },
    /// An image is not stored upright, and nothing says which picture its targets are of.
    #[error(
        "the EXIF orientation of the image is {orientation}, and it has targets: set `exif_orientation` to true if they \
         refer to the upright image, as most tools show it, or to false if they refer to the stored pixels"
    )]
    Orientation {
        /// The EXIF orientation, from 2 to 8.
        orientation: u32,
    },
    /// The annotations are of the upright picture, and the image is not turned.
    #[error(
        "the EXIF orientation of the image is {orientation}, and its annotations refer to the upright image, {annotated}: set `exif_orientation` to true"
    )]
    OfUpright {
        /// The EXIF orientation, from 5 to 8.
        orientation: u32,
        /// The size that the annotations have.
        annotated: Size,
    },
    /// The annotations are of the stored pixels, and the image is turned.
    #[error(
        "the EXIF orientation of the image is {orientation}, and its annotations refer to the stored pixels, {annotated}: set `exif_orientation` to false, or remove the orientation from the file"
    )]
    OfStored {
        /// The EXIF orientation, from 5 to 8.
        orientation: u32,
        /// The size that the annotations have.
        annotated: Size,
    },
    /// The mask of an object is damaged.
    #[error("the mask of object {row}: {error}")]
    ObjectMask {
        /// The index of the object.
        row: usize,
        /// The reason.
        error: ObjectMaskError,
    },
    /// The masks of the objects are damaged.
    #[error("the masks of the objects: {error}")]
    Masks {
        /// The reason.
        error: ObjectMaskError,
    },
}

impl TargetCause {
    /// Returns true if a setting is missing or wrong, and the sample is not damaged.
    pub(in crate::loader) fn is_of_setting(&self) -> bool {
        matches!(self, Self::Orientation { .. } | Self::OfUpright { .. })
    }
}

impl BoundingBoxes {
    /// Reads the boxes of a sample as its objects.
    pub(in crate::loader) fn read(
        &self,
        bytes: &[u8],
        objects: &mut Objects,
    ) -> Result<(), TargetCause> {
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
    pub(in crate::loader) fn read(
        &self,
        bytes: &[u8],
        objects: &mut Objects,
    ) -> Result<(), TargetCause> {
        let points = object_rows::keypoints(bytes, self.each, self.columns())?;
        let count = points.len() / self.each;
        if !objects.has_boxes() {
            objects.reset(count);
        }
        if count != objects.len() {
            return Err(ObjectRowsError::Count { found: count, expected: objects.len() }.into());
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
) -> Result<(), TargetCause> {
    let rows = rows_of(bytes, dtype, 1)?;
    let (width, found) = (dtype.bytes(), rows.len() / dtype.bytes());
    if found != stored {
        return Err(ObjectRowsError::Count { found, expected: stored }.into());
    }
    objects.rows().iter().for_each(|&row| out.extend_from_slice(&rows[row * width..][..width]));
    Ok(())
}
