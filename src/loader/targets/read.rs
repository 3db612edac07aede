//! Stored bytes as the objects of a sample, and the objects as bytes of a batch.

use super::{BoundingBoxes, KeyPoints};
use crate::decode::ObjectMaskError;
use crate::loader::array_images::element_type;
use crate::source::NdType;
use crate::source::npy;
use fuseloop_ops::author::{BoundingBox, Keypoint, Objects};
use fuseloop_ops::{BoxFormat, DType, Size};

/// The largest coordinate: no image is as large, and f32 still distinguishes eighths of a pixel.
const MAX_COORDINATE: f32 = (1 << 20) as f32;

/// Why the targets of a sample are refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum TargetCause {
    /// The bytes are not whole rows.
    #[error("{bytes} bytes are not whole objects of {row} bytes")]
    NotWhole {
        /// The bytes of the sample.
        bytes: usize,
        /// The bytes of an object.
        row: usize,
    },
    /// A `.npy` file is damaged, or has another type or shape.
    #[error("{reason}")]
    Npy {
        /// The reason.
        reason: String,
    },
    /// Two fields have different numbers of objects.
    #[error("{found} for {expected} objects: each object needs one")]
    Count {
        /// The number of rows.
        found: usize,
        /// The number of objects.
        expected: usize,
    },
    /// A coordinate is not a number, or far outside every image.
    #[error("object {row} has the coordinate {value}, expected a number from -2^20 to 2^20")]
    Coordinate {
        /// The index of the object.
        row: usize,
        /// The coordinate.
        value: f32,
    },
    /// A box whose edges are swapped.
    #[error(
        "the box of object {row} is {values:?}, whose {side} is negative: is its format {format}? Else repair it before it is stored"
    )]
    Swapped {
        /// The index of the object.
        row: usize,
        /// The stored numbers.
        values: Vec<f32>,
        /// Width or height.
        side: &'static str,
        /// The declared format.
        format: &'static str,
    },
    /// A mask has another size than its image.
    #[error("a mask of {mask} for an image of {image}: both must have one size")]
    MaskSize {
        /// The size of the mask.
        mask: Size,
        /// The size of the image.
        image: Size,
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

/// Returns the rows of `width` elements of a type in stored bytes, which may be a `.npy` file.
pub(in crate::loader) fn rows_of(
    bytes: &[u8],
    dtype: DType,
    width: usize,
) -> Result<&[u8], TargetCause> {
    let row = width * dtype.bytes();
    let elements = if npy::is_npy(bytes) { npy_rows(bytes, dtype, width)? } else { bytes };
    if elements.len().is_multiple_of(row) {
        Ok(elements)
    } else {
        Err(TargetCause::NotWhole { bytes: elements.len(), row })
    }
}

/// Returns the elements of a `.npy` file of rows.
fn npy_rows(bytes: &[u8], dtype: DType, width: usize) -> Result<&[u8], TargetCause> {
    let refused = |reason: String| TargetCause::Npy { reason };
    let array = npy::parse(bytes).map_err(|reason| refused(reason.into()))?;
    let has_width = match &array.shape[..] {
        [] => false,
        [_, inner @ ..] => inner.iter().product::<u64>() == width as u64,
    };
    if element_type(array.dtype) == Some(dtype) && has_width {
        return Ok(array.elements);
    }
    let (found, shape): (NdType, _) = (array.dtype, array.shape);
    let wanted = if width == 1 { "one".to_owned() } else { width.to_string() };
    Err(refused(format!(
        "a .npy file of shape {shape:?} and dtype {found}, expected {dtype} and {wanted} for each object"
    )))
}

/// Returns the f32 numbers of rows.
fn floats(rows: &[u8]) -> impl Iterator<Item = f32> + '_ {
    rows.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

impl BoundingBoxes {
    /// Reads the boxes of a sample as its objects.
    pub(in crate::loader) fn read(
        &self,
        bytes: &[u8],
        objects: &mut Objects,
    ) -> Result<(), TargetCause> {
        let columns = self.stored.columns();
        let rows = rows_of(bytes, DType::F32, columns)?;
        objects.reset(rows.len() / (4 * columns));
        let values = |bytes: &[u8]| {
            let mut values = [0.0; 8];
            values.iter_mut().zip(floats(bytes)).for_each(|(to, value)| *to = value);
            values
        };
        for (row, bytes) in rows.chunks_exact(4 * columns).enumerate() {
            check(row, floats(bytes))?;
            self.check_sides(row, &values(bytes)[..columns])?;
        }
        let boxes = rows.chunks_exact(4 * columns);
        let boxes = boxes.map(|bytes| BoundingBox::read(self.stored, &values(bytes)[..columns]));
        objects.set_boxes(boxes, self.output, self.clamping);
        Ok(())
    }

    fn check_sides(&self, row: usize, values: &[f32]) -> Result<(), TargetCause> {
        let sides = match (self.stored, values) {
            (BoxFormat::Xyxyxyxy, _) => return Ok(()),
            (BoxFormat::Xyxy, &[x1, y1, x2, y2]) => [x2 - x1, y2 - y1],
            _ => [values[2], values[3]],
        };
        let Some(side) = sides.iter().position(|side| *side < 0.0) else { return Ok(()) };
        let (values, side) = (values.to_vec(), ["width", "height"][side]);
        Err(TargetCause::Swapped { row, values, side, format: self.stored.name() })
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
        let columns = self.columns();
        let rows = rows_of(bytes, DType::F32, self.each * columns)?;
        let count = rows.len() / (4 * self.each * columns);
        if !objects.has_boxes() {
            objects.reset(count);
        }
        if count != objects.len() {
            return Err(TargetCause::Count { found: count, expected: objects.len() });
        }
        for (row, object) in rows.chunks_exact(4 * columns * self.each).enumerate() {
            check(row, floats(object))?;
        }
        let points = rows.chunks_exact(4 * columns).map(|point| {
            let mut values = [0.0, 0.0, 2.0];
            values.iter_mut().zip(floats(point)).for_each(|(to, value)| *to = value);
            self.point(values)
        });
        objects.set_keypoints(points, self.each, &self.flip_pairs);
        Ok(())
    }

    /// Writes the keypoints of objects to `out`.
    pub(in crate::loader) fn write(&self, objects: &Objects, out: &mut Vec<u8>) {
        for point in objects.keypoints() {
            let values = &self.values(*point)[..self.columns()];
            values.iter().for_each(|value| out.extend_from_slice(&value.to_ne_bytes()));
        }
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
        return Err(TargetCause::Count { found, expected: stored });
    }
    objects.rows().iter().for_each(|&row| out.extend_from_slice(&rows[row * width..][..width]));
    Ok(())
}

/// Refuses coordinates that are not numbers, or far outside every image.
fn check(row: usize, mut values: impl Iterator<Item = f32>) -> Result<(), TargetCause> {
    match values.find(|value| !(-MAX_COORDINATE..=MAX_COORDINATE).contains(value)) {
        Some(value) => Err(TargetCause::Coordinate { row, value }),
        None => Ok(()),
    }
}
