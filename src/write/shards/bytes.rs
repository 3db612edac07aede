//! Converts a value to the bytes of a file.
//!
//! | value        | bytes                                                                        |
//! |--------------|------------------------------------------------------------------------------|
//! | image        | the file unchanged; raw pixels as a PNG                                |
//! | int          | decimal                                                                      |
//! | float        | the shortest decimal that reads back unchanged: `0.1`, `1e300`, `NaN`, `inf` |
//! | bytes        | unchanged                                                                    |
//! | JSON         | the text up to the NUL that FFCV stores                                      |
//! | array        | NumPy's format 1.0: a header of a multiple of 64 bytes, then the elements    |

use super::column::ObjectRow;
use crate::decode::object_rows;
use crate::source::npy;
use crate::source::{AudioFormat, FieldKind, FieldSpec, ImageMode, NdType, OwnedImage, OwnedValue};
use crate::write::value::WriteSampleError;
use fuseloop_ops::Size;
use std::fmt::Display;

/// One file of a sample.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::write) struct Member {
    /// The part of the file name after the key and a dot.
    pub(in crate::write) extension: String,
    pub(in crate::write) bytes: Vec<u8>,
}

/// Returns the file bytes of a value of `field`.
///
/// # Errors
///
/// If the value is not of the field's kind, or a raw image has no pixels.
pub(in crate::write) fn file_bytes(
    value: OwnedValue,
    field: &FieldSpec,
) -> Result<Vec<u8>, WriteSampleError> {
    if !value.fits(&field.kind) {
        let (expected, found) = (field.kind.word(), word(&value));
        return Err(WriteSampleError::Kind { field: field.name.clone(), expected, found });
    }
    match (value, &field.kind) {
        (OwnedValue::Int(value), _) => Ok(value.to_string().into_bytes()),
        (OwnedValue::Float(value), _) => Ok(format!("{value:?}").into_bytes()),
        (OwnedValue::Image(image), _) => picture(image).map_err(|error| wrong(field, error)),
        (OwnedValue::Json(text), _) => Ok(json_text(text)),
        (
            OwnedValue::NdArray(elements),
            FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape },
        ) => Ok(npy::file(*dtype, shape, &elements)),
        (OwnedValue::Bytes(bytes) | OwnedValue::NdArray(bytes) | OwnedValue::Custom(bytes), _) => {
            Ok(bytes)
        }
    }
}

/// Returns the name of a value's kind, for messages.
pub(in crate::write) fn word(value: &OwnedValue) -> &'static str {
    match value {
        OwnedValue::Float(_) => "float",
        OwnedValue::Int(_) => "int",
        OwnedValue::Image(_) => "image",
        OwnedValue::Bytes(_) => "bytes",
        OwnedValue::NdArray(_) => "array",
        OwnedValue::Json(_) => "json",
        OwnedValue::Custom(_) => "custom",
    }
}

/// Returns the rows of objects as NumPy saves them.
///
/// # Errors
///
/// If the bytes are not whole rows.
pub(in crate::write) fn rows_file(
    bytes: &[u8],
    (dtype, row): &ObjectRow,
    field: &FieldSpec,
) -> Result<Vec<u8>, WriteSampleError> {
    let elements = rows_of(bytes, *dtype, row, field)?;
    let count = count_of_rows(elements, *dtype, row);
    Ok(npy::file(*dtype, &[&[count], &row[..]].concat(), elements))
}

/// Returns the number of rows of this type and shape that bytes are.
pub(in crate::write) fn count_of_rows(bytes: &[u8], dtype: NdType, row: &[u64]) -> u64 {
    bytes.len() as u64 / (row.iter().product::<u64>() * dtype.item_size())
}

/// Returns the rows of objects in the bytes of a field.
///
/// # Errors
///
/// If the bytes are not whole rows of this type and shape.
pub(in crate::write) fn rows_of<'a>(
    bytes: &'a [u8],
    dtype: NdType,
    row: &[u64],
    field: &FieldSpec,
) -> Result<&'a [u8], WriteSampleError> {
    let width = row.iter().product::<u64>() as usize;
    let element = dtype.element_type();
    let element = element.ok_or_else(|| wrong(field, format_args!("no tensor has {dtype}")))?;
    object_rows::rows_of(bytes, element, width).map_err(|error| wrong(field, error))
}

/// Returns the bytes of a text.
///
/// # Errors
///
/// If the value is not of the field's kind, or its bytes are not UTF-8.
pub(in crate::write) fn text_bytes(
    value: OwnedValue,
    field: &FieldSpec,
) -> Result<Vec<u8>, WriteSampleError> {
    let bytes = file_bytes(value, field)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.into_bytes()),
        Err(_) => Err(wrong(field, "it is no text in UTF-8, and those of the first samples are")),
    }
}

/// Returns the text of JSON that is read by any parser.
///
/// # Errors
///
/// If the value is not of the field's kind, or not JSON.
pub(in crate::write) fn json_bytes(
    value: OwnedValue,
    field: &FieldSpec,
) -> Result<Vec<u8>, WriteSampleError> {
    let text = file_bytes(value, field)?;
    match serde_json::from_slice::<serde_json::Value>(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(wrong(field, format_args!("no JSON: {error}"))),
    }
}

/// Puts the lowest byte of each element first.
pub(in crate::write) fn to_little_endian(dtype: NdType, elements: &mut [u8]) {
    if dtype != dtype.little_endian() {
        let size = dtype.item_size() as usize;
        elements.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

/// Returns the error of a value of a field.
pub(in crate::write) fn wrong(field: &FieldSpec, reason: impl Display) -> WriteSampleError {
    WriteSampleError::Source(format!("field {:?}: {reason}", field.name).into())
}

/// Removes FFCV's final NUL from JSON text.
pub(in crate::write) fn json_text(mut text: Vec<u8>) -> Vec<u8> {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    text.truncate(end);
    text
}

/// Returns the extension of an image file.
pub(in crate::write) fn extension(picture: &[u8]) -> &'static str {
    let format = ImageMode::of_file(picture).file_format();
    format.map_or("fplanes", |format| format.extensions[0])
}

/// Returns the extension of an audio file; `None` if its format is unknown.
pub(in crate::write) fn audio_extension(file: &[u8]) -> Option<&'static str> {
    AudioFormat::of_file(file).map(|(format, _)| format.extensions[0])
}

/// Converts an image to a file.
fn picture(image: OwnedImage) -> Result<Vec<u8>, png::EncodingError> {
    if image.mode != ImageMode::Raw {
        return Ok(image.bytes);
    }
    png_file(&image)
}

/// Encodes raw pixels as a PNG.
///
/// # Errors
///
/// If there are no pixels, or their number does not match the image's size.
pub(in crate::write) fn png_file(image: &OwnedImage) -> Result<Vec<u8>, png::EncodingError> {
    png(Size::new(image.height, image.width), png::ColorType::Rgb, &image.bytes)
}

/// Encodes gray pixels as a PNG.
///
/// # Errors
///
/// If there are no pixels, or their number does not match the size.
pub(in crate::write) fn gray_png(size: Size, pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    png(size, png::ColorType::Grayscale, pixels)
}

fn png(size: Size, color: png::ColorType, pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.width, size.height);
    encoder.set_color(color);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: OwnedValue, kind: FieldKind) -> Result<Vec<u8>, WriteSampleError> {
        file_bytes(value, &FieldSpec { name: "f".to_owned(), kind })
    }

    #[test]
    fn numbers_read_back_as_they_were() {
        for value in [0.1, -0.0, 1e300, 5e-324, f64::INFINITY, 1.0 / 3.0] {
            let text = of(OwnedValue::Float(value), FieldKind::Float).unwrap();
            let back: f64 = String::from_utf8(text).unwrap().parse().unwrap();
            assert_eq!(back.to_bits(), value.to_bits());
        }
        let text = of(OwnedValue::Int(i64::MIN), FieldKind::Int).unwrap();
        assert_eq!(text, b"-9223372036854775808");
        assert_eq!(of(OwnedValue::Json(b"{}\0".to_vec()), FieldKind::Json).unwrap(), b"{}");
    }

    #[test]
    fn raw_pixels_are_a_png_of_the_same() {
        let pixels: Vec<u8> = (0..5 * 7 * 3).map(|n| (n * 37 % 251) as u8).collect();
        let image = OwnedValue::Image(OwnedImage::rgb((5, 7), pixels.clone()));
        let png = of(image, FieldKind::RgbImage).unwrap();
        assert_eq!(extension(&png), "png");
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut back = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut back).unwrap();
        assert_eq!((info.width, info.height, back), (7, 5, pixels));
        let nothing = OwnedValue::Image(OwnedImage::rgb((0, 7), vec![]));
        assert!(of(nothing, FieldKind::RgbImage).unwrap_err().is_damage());
    }

    #[test]
    fn arrays_are_numpys() {
        let dtype = ">i2".parse().unwrap();
        for shape in [vec![3], vec![], vec![2, 2]] {
            let count: u64 = shape.iter().product();
            let elements: Vec<u8> = (0..count * 2).map(|n| n as u8).collect();
            let kind = FieldKind::NdArray { dtype, shape: shape.clone() };
            let file = of(OwnedValue::NdArray(elements), kind).unwrap();
            let npy = npyz::NpyFile::new(&file[..]).unwrap();
            assert_eq!((npy.shape(), file.len() as u64), (&shape[..], 128 + count * 2));
            let back: Vec<i16> = npy.into_vec().unwrap();
            let want: Vec<i16> =
                (0..count).map(|n| i16::from_be_bytes([2 * n as u8, 2 * n as u8 + 1])).collect();
            assert_eq!(back, want);
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused_and_no_damage() {
        let error = of(OwnedValue::Int(3), FieldKind::Json).unwrap_err();
        assert_eq!(error.to_string(), r#"field "f" is json, the value is int"#);
        assert!(!error.is_damage());
    }
}
