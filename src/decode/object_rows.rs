//! The objects of a sample as they are stored: rows of numbers, one for each object.
//!
//! | field | a row |
//! |---|---|
//! | boxes | 4 f32, 5 or 8 if they may be rotated |
//! | keypoints | x, y and possibly the visibility of each, f32 |
//! | column | one number |
//!
//! Bytes are little-endian, or a `.npy` file of that type and shape. What is returned is checked: coordinates are
//! numbers, and the edges of boxes are in order.

use crate::source::{NdType, npy};
use fuseloop_ops::{BoxFormat, DType};

/// The largest coordinate: no image is as large, and f32 still distinguishes eighths of a pixel.
const MAX_COORDINATE: f32 = (1 << 20) as f32;

/// Why bytes are not the rows of objects.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum ObjectRowsError {
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
}

/// Returns the rows of `width` elements of a type in stored bytes.
pub(crate) fn rows_of(bytes: &[u8], dtype: DType, width: usize) -> Result<&[u8], ObjectRowsError> {
    let row = width * dtype.bytes();
    let elements = if npy::is_npy(bytes) { npy_rows(bytes, dtype, width)? } else { bytes };
    if elements.len().is_multiple_of(row) {
        Ok(elements)
    } else {
        Err(ObjectRowsError::NotWhole { bytes: elements.len(), row })
    }
}

/// Returns the elements of a `.npy` file of rows.
fn npy_rows(bytes: &[u8], dtype: DType, width: usize) -> Result<&[u8], ObjectRowsError> {
    let refused = |reason: String| ObjectRowsError::Npy { reason };
    let array = npy::parse_stored(bytes).map_err(|reason| refused(reason.into()))?;
    let has_width = match &array.shape[..] {
        [] => false,
        [_, inner @ ..] => inner.iter().product::<u64>() == width as u64,
    };
    if array.dtype.element_type() == Some(dtype) && has_width {
        return Ok(array.elements);
    }
    let (found, shape): (NdType, _) = (array.dtype, array.shape);
    let wanted = if width == 1 { "one".to_owned() } else { width.to_string() };
    Err(refused(format!(
        "a .npy file of shape {shape:?} and dtype {found}, expected {dtype} and {wanted} for each object"
    )))
}

/// Returns the boxes in stored bytes; a box has the first [`columns`](BoxFormat::columns) of eight numbers.
pub(crate) fn boxes(
    bytes: &[u8],
    format: BoxFormat,
) -> Result<impl ExactSizeIterator<Item = [f32; 8]>, ObjectRowsError> {
    let columns = format.columns();
    let boxes = rows_of(bytes, DType::F32, columns)?.chunks_exact(4 * columns);
    let values = |bytes: &[u8]| {
        let mut values = [0.0; 8];
        values.iter_mut().zip(floats(bytes)).for_each(|(to, value)| *to = value);
        values
    };
    for (row, bytes) in boxes.clone().enumerate() {
        check(row, floats(bytes))?;
        check_sides(row, &values(bytes)[..columns], format)?;
    }
    Ok(boxes.map(values))
}

/// Returns the keypoints in stored bytes, `each` of them for each object, of 2 numbers or 3. A point without visibility
/// is visible.
pub(crate) fn keypoints(
    bytes: &[u8],
    each: usize,
    columns: usize,
) -> Result<impl ExactSizeIterator<Item = [f32; 3]>, ObjectRowsError> {
    let rows = rows_of(bytes, DType::F32, each * columns)?;
    for (row, object) in rows.chunks_exact(4 * columns * each).enumerate() {
        check(row, floats(object))?;
    }
    Ok(rows.chunks_exact(4 * columns).map(|point| {
        let mut values = [0.0, 0.0, 2.0];
        values.iter_mut().zip(floats(point)).for_each(|(to, value)| *to = value);
        values
    }))
}

/// Returns the f32 numbers of rows.
pub(crate) fn floats(rows: &[u8]) -> impl Iterator<Item = f32> + '_ {
    rows.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Returns the i64 numbers of rows.
pub(crate) fn integers(rows: &[u8]) -> impl Iterator<Item = i64> + '_ {
    rows.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes))
}

/// Refuses coordinates that are not numbers, or far outside every image.
fn check(row: usize, mut values: impl Iterator<Item = f32>) -> Result<(), ObjectRowsError> {
    match values.find(|value| !(-MAX_COORDINATE..=MAX_COORDINATE).contains(value)) {
        Some(value) => Err(ObjectRowsError::Coordinate { row, value }),
        None => Ok(()),
    }
}

/// Refuses boxes with a negative side.
fn check_sides(row: usize, values: &[f32], format: BoxFormat) -> Result<(), ObjectRowsError> {
    let sides = match (format, values) {
        (BoxFormat::Xyxyxyxy, _) => return Ok(()),
        (BoxFormat::Xyxy, &[x1, y1, x2, y2]) => [x2 - x1, y2 - y1],
        _ => [values[2], values[3]],
    };
    let Some(side) = sides.iter().position(|side| *side < 0.0) else { return Ok(()) };
    let (values, side) = (values.to_vec(), ["width", "height"][side]);
    Err(ObjectRowsError::Swapped { row, values, side, format: format.name() })
}
