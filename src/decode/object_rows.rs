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

use crate::error::{Error, fail};
use crate::source::{NdType, npy};
use fuseloop_ops::{BoxFormat, DType};

/// The largest coordinate: no image is as large, and f32 still distinguishes eighths of a pixel.
const MAX_COORDINATE: f32 = (1 << 20) as f32;

/// Returns the error of two fields with different numbers of objects.
pub(crate) fn other_count(found: usize, expected: usize) -> Error {
    fail!(Damaged, "{found} for {expected} objects: each object needs one")
}

/// Returns the rows of `width` elements of a type in stored bytes.
pub(crate) fn rows_of(bytes: &[u8], dtype: DType, width: usize) -> Result<&[u8], Error> {
    let row = width * dtype.bytes();
    let elements = if npy::is_npy(bytes) { npy_rows(bytes, dtype, width)? } else { bytes };
    if elements.len().is_multiple_of(row) {
        Ok(elements)
    } else {
        let bytes = elements.len();
        Err(fail!(Damaged, "{bytes} bytes are not whole objects of {row} bytes"))
    }
}

/// Returns the elements of a `.npy` file of rows.
fn npy_rows(bytes: &[u8], dtype: DType, width: usize) -> Result<&[u8], Error> {
    let array =
        npy::parse_stored(bytes).map_err(|error| fail!(Damaged, "{}", String::from(error)))?;
    let has_width = match &array.shape[..] {
        [] => false,
        [_, inner @ ..] => inner.iter().product::<u64>() == width as u64,
    };
    if array.dtype.element_type() == Some(dtype) && has_width {
        return Ok(array.elements);
    }
    let (found, shape): (NdType, _) = (array.dtype, array.shape);
    let wanted = if width == 1 { "one".to_owned() } else { width.to_string() };
    Err(fail!(
        Damaged,
        "a .npy file of shape {shape:?} and dtype {found}, expected {dtype} and {wanted} for each object"
    ))
}

/// Returns the boxes in stored bytes; a box has the first [`columns`](BoxFormat::columns) of eight numbers.
pub(crate) fn boxes(
    bytes: &[u8],
    format: BoxFormat,
) -> Result<impl ExactSizeIterator<Item = [f32; 8]>, Error> {
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
) -> Result<impl ExactSizeIterator<Item = [f32; 3]>, Error> {
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
fn check(row: usize, mut values: impl Iterator<Item = f32>) -> Result<(), Error> {
    match values.find(|value| !(-MAX_COORDINATE..=MAX_COORDINATE).contains(value)) {
        Some(value) => Err(fail!(
            Damaged,
            "object {row} has the coordinate {value}, expected a number from -2^20 to 2^20"
        )),
        None => Ok(()),
    }
}

/// Refuses boxes with a negative side.
fn check_sides(row: usize, values: &[f32], format: BoxFormat) -> Result<(), Error> {
    let sides = match (format, values) {
        (BoxFormat::Xyxyxyxy, _) => return Ok(()),
        (BoxFormat::Xyxy, &[x1, y1, x2, y2]) => [x2 - x1, y2 - y1],
        _ => [values[2], values[3]],
    };
    let Some(side) = sides.iter().position(|side| *side < 0.0) else { return Ok(()) };
    let (side, format) = (["width", "height"][side], format.name());
    Err(fail!(
        Damaged,
        "the box of object {row} is {values:?}, whose {side} is negative: is its format {format}? Else repair it \
         before it is stored"
    ))
}
