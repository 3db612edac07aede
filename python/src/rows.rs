//! Samples from Python: the rows that `fuseloop/_values.py` prepares, as values of the library.
//!
//! | kind | what a row has |
//! |---|---|
//! | image | the bytes of an image file, the path of one (a text), or (height, width, RGB bytes) |
//! | int, float | a number |
//! | bytes, json, array, tensor | bytes |

use crate::errors;
use fuseloop::ops::Size;
use fuseloop::source::{FieldKind, FieldSpec, NdType, OwnedImage, OwnedValue, Record};
use fuseloop::write::{FieldValue, ImageInput};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use std::path::PathBuf;

/// Reads fields: for each its name, its kind, and the dtype and shape of an array.
pub(crate) fn fields(list: &Bound<'_, PyAny>) -> PyResult<Vec<FieldSpec>> {
    let py = list.py();
    let field = |item: PyResult<Bound<'_, PyAny>>| {
        type Given = (String, String, Option<String>, Vec<u64>);
        let (name, kind, dtype, shape): Given = item?.extract()?;
        let array = || -> PyResult<(NdType, Vec<u64>)> {
            let dtype: Result<NdType, _> = dtype.as_deref().unwrap_or_default().parse();
            Ok((dtype.map_err(|error| errors::raised(py, &error))?, shape))
        };
        let kind = match kind.as_str() {
            "image" => FieldKind::RgbImage,
            "int" => FieldKind::Int,
            "float" => FieldKind::Float,
            "bytes" => FieldKind::Bytes,
            "json" => FieldKind::Json,
            "array" => array().map(|(dtype, shape)| FieldKind::NdArray { dtype, shape })?,
            "tensor" => array().map(|(dtype, shape)| FieldKind::TorchTensor { dtype, shape })?,
            other => return Err(errors::setting(py, &format!("no kind of field '{other}'"))),
        };
        Ok(FieldSpec { name, kind })
    };
    list.try_iter()?.map(field).collect()
}

/// Reads a row to be written.
pub(crate) fn values(fields: &[FieldSpec], row: &Bound<'_, PyAny>) -> PyResult<Vec<FieldValue>> {
    let row = row.cast::<PyTuple>()?;
    if row.len() != fields.len() {
        let text = format!("a row of {} values for {} fields", row.len(), fields.len());
        return Err(errors::setting(row.py(), &text));
    }
    fields.iter().zip(row).map(|(field, given)| value(&field.kind, &given)).collect()
}

/// Reads a row of a dataset.
pub(crate) fn record(fields: &[FieldSpec], row: &Bound<'_, PyAny>) -> PyResult<Record> {
    values(fields, row)?.into_iter().map(|value| owned(row.py(), value)).collect()
}

fn value(kind: &FieldKind, given: &Bound<'_, PyAny>) -> PyResult<FieldValue> {
    Ok(match kind {
        FieldKind::Int => FieldValue::Int(given.extract()?),
        FieldKind::Float => FieldValue::Float(given.extract()?),
        FieldKind::RgbImage => FieldValue::Image(image(given)?),
        FieldKind::Bytes => FieldValue::Bytes(bytes(given)?),
        FieldKind::Json => FieldValue::StoredJson(bytes(given)?),
        FieldKind::NdArray { dtype, .. } => {
            FieldValue::NdArray { dtype: *dtype, bytes: bytes(given)? }
        }
        FieldKind::TorchTensor { dtype, .. } => {
            FieldValue::TorchTensor { dtype: *dtype, bytes: bytes(given)? }
        }
        _ => FieldValue::Custom(bytes(given)?),
    })
}

fn image(given: &Bound<'_, PyAny>) -> PyResult<ImageInput> {
    if given.is_instance_of::<PyBytes>() {
        return Ok(ImageInput::JpegBytes(bytes(given)?));
    }
    if given.is_instance_of::<PyString>() {
        return Ok(ImageInput::Path(given.extract::<PathBuf>()?));
    }
    let (height, width, pixels): (u32, u32, Bound<'_, PyAny>) = given.extract()?;
    Ok(ImageInput::Rgb { pixels: bytes(&pixels)?, width, height })
}

fn bytes(given: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match given.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => PyBuffer::<u8>::get(given)?.to_vec(given.py()),
    }
}

fn owned(py: Python<'_>, value: FieldValue) -> PyResult<OwnedValue> {
    Ok(match value {
        FieldValue::Int(value) => OwnedValue::Int(value),
        FieldValue::Float(value) => OwnedValue::Float(value),
        FieldValue::Bytes(bytes) => OwnedValue::Bytes(bytes),
        FieldValue::StoredJson(bytes) => OwnedValue::Json(bytes),
        FieldValue::NdArray { bytes, .. } | FieldValue::TorchTensor { bytes, .. } => {
            OwnedValue::NdArray(bytes)
        }
        FieldValue::Custom(bytes) => OwnedValue::Custom(bytes),
        FieldValue::Image(ImageInput::Rgb { pixels, width, height }) => {
            OwnedValue::Image(OwnedImage::rgb(Size::new(height, width), pixels))
        }
        FieldValue::Image(ImageInput::JpegBytes(bytes)) => {
            OwnedValue::Image(OwnedImage::file(bytes))
        }
        _ => return Err(errors::setting(py, "a value of a kind that a dataset can't have")),
    })
}
