//! A cached value of one field.

use super::disk::FileExtent;
use crate::source::{EncodedImage, OwnedValue, Value};

/// A cached value of one field. Its bytes are in the cache file if `extent` is set.
pub(super) struct CachedField {
    pub(super) field: usize,
    pub(super) value: OwnedValue,
    pub(super) extent: Option<FileExtent>,
}

impl CachedField {
    /// Creates an entry with its value in memory.
    pub(super) fn held(field: usize, value: OwnedValue) -> Self {
        Self { field, value, extent: None }
    }

    /// Returns the value, with its bytes replaced by `bytes`.
    pub(super) fn with_bytes<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        match &self.value {
            OwnedValue::Float(value) => Value::Float(*value),
            OwnedValue::Int(value) => Value::Int(*value),
            OwnedValue::Image(image) => {
                let (mode, width, height) = (image.mode, image.width, image.height);
                Value::Image(EncodedImage { mode, width, height, bytes })
            }
            OwnedValue::Bytes(_) => Value::Bytes(bytes),
            OwnedValue::NdArray(_) => Value::NdArray(bytes),
            OwnedValue::Json(_) => Value::Json(bytes),
            OwnedValue::Custom(_) => Value::Custom(bytes),
        }
    }

    /// Returns the bytes of the value; a number has none.
    pub(super) fn bytes_mut(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.value {
            OwnedValue::Float(_) | OwnedValue::Int(_) => None,
            OwnedValue::Image(image) => Some(&mut image.bytes),
            OwnedValue::Bytes(bytes)
            | OwnedValue::NdArray(bytes)
            | OwnedValue::Json(bytes)
            | OwnedValue::Custom(bytes) => Some(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::OwnedImage;

    #[test]
    fn a_value_whose_bytes_lie_elsewhere_is_the_same_value() {
        let values = [
            OwnedValue::Int(-4),
            OwnedValue::Float(0.5),
            OwnedValue::Image(OwnedImage::rgb((1, 2), vec![1, 2, 3, 4, 5, 6])),
            OwnedValue::Image(OwnedImage::jpeg(vec![7])),
            OwnedValue::Bytes(vec![]),
            OwnedValue::NdArray(vec![8; 9]),
            OwnedValue::Json(b"{}\0".to_vec()),
            OwnedValue::Custom(vec![1]),
        ];
        for value in values {
            let mut cached = CachedField::held(3, value.clone());
            let bytes = cached.bytes_mut().map(std::mem::take).unwrap_or_default();
            assert_eq!(cached.with_bytes(&bytes), value.borrowed());
            assert_eq!(value.borrowed().bytes().len(), bytes.len());
        }
    }
}
