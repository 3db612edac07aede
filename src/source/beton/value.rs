//! What a field of a sample holds, borrowed from the file.

use super::ImageMode;

/// One field of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A 64-bit float.
    Float(f64),
    /// A 64-bit integer.
    Int(i64),
    /// A picture, as stored.
    Image(EncodedImage<'a>),
    /// Bytes of any length.
    Bytes(&'a [u8]),
    /// An array's elements in C order, in the field's own dtype and byte order.
    NdArray(&'a [u8]),
    /// JSON text with the final NUL that FFCV stores.
    Json(&'a [u8]),
    /// A user-defined field's part of the sample table's row.
    Custom(&'a [u8]),
}

/// A picture, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedImage<'a> {
    /// How `bytes` are coded.
    pub mode: ImageMode,
    /// Columns, as the sample table says: a JPEG's own header may say otherwise.
    pub width: u32,
    /// Rows, as the sample table says: a JPEG's own header may say otherwise.
    pub height: u32,
    /// A whole JPEG file, or exactly `height * width * 3` bytes RGB, rows top down.
    pub bytes: &'a [u8],
}
