//! The element type of an array field, as numpy writes it: byte order, kind, item size.
//!
//! ```text
//! |u1  |b1  |i1          one byte: no order
//! <i2 <i4 <i8  <u2 ...   little-endian signed and unsigned integers
//! <f2 <f4 <f8 <f16       little-endian floats
//! <c8 <c16 <c32          little-endian complex: two floats
//! >i4 ...                the same, big-endian
//! ```
//!
//! The texts are those of numpy's array interface, version 3 (`typestr`). Text, dates, objects and
//! structures are refused: no tensor holds them.

use crate::error::{Error, fail};
use fuseloop_ops::DType;
use std::fmt;
use std::str::FromStr;

/// A numpy element type, parsed from numpy's text for it: `"<f4".parse()`.
///
/// ```
/// use fuseloop::source::NdType;
///
/// let floats: NdType = "<f4".parse().unwrap();
/// assert_eq!(floats.to_string(), "<f4");
/// assert!("<x4".parse::<NdType>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NdType {
    pub(crate) kind: NdKind,
    item_size: u8,
    pub(crate) order: ByteOrder,
}

/// The kind of an element's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub(crate) enum NdKind {
    /// `b`: one byte, 0 or 1.
    Bool,
    /// `i`: two's complement.
    Int,
    /// `u`: unsigned.
    UInt,
    /// `f`: IEEE; 16 bytes are the platform's long double.
    Float,
    /// `c`: a real and an imaginary float.
    Complex,
}

/// Which byte of an element comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ByteOrder {
    /// `|`: elements of one byte.
    Single,
    /// `<`: the lowest.
    Little,
    /// `>`: the highest.
    Big,
}

impl NdType {
    /// Bytes from 0 to 255.
    pub(crate) const BYTE: Self =
        Self { kind: NdKind::UInt, item_size: 1, order: ByteOrder::Single };
    /// Little-endian floats of 32 bits.
    pub(crate) const F32: Self =
        Self { kind: NdKind::Float, item_size: 4, order: ByteOrder::Little };
    /// Little-endian floats of 64 bits.
    pub(crate) const F64: Self =
        Self { kind: NdKind::Float, item_size: 8, order: ByteOrder::Little };
    /// Little-endian signed integers of 64 bits.
    pub(crate) const I64: Self = Self { kind: NdKind::Int, item_size: 8, order: ByteOrder::Little };

    /// Returns the type with elements of `item_size` bytes; `order` does not matter for a single byte.
    ///
    /// Returns `None` if numpy has no such type, or if more than one byte is combined with
    /// [`ByteOrder::Single`].
    pub(crate) fn new(kind: NdKind, item_size: u8, order: ByteOrder) -> Option<Self> {
        let sizes: &[u8] = match kind {
            NdKind::Bool => &[1],
            NdKind::Int | NdKind::UInt => &[1, 2, 4, 8],
            NdKind::Float => &[2, 4, 8, 16],
            NdKind::Complex => &[8, 16, 32],
        };
        let order = if item_size == 1 { ByteOrder::Single } else { order };
        let ordered = item_size == 1 || order != ByteOrder::Single;
        (sizes.contains(&item_size) && ordered).then_some(Self { kind, item_size, order })
    }

    /// Returns the type of such elements in tensors; `None` if no op takes them.
    pub(crate) fn element_type(self) -> Option<DType> {
        Some(match self.to_string().as_str() {
            "|u1" | "|b1" => DType::U8,
            "<u2" => DType::U16,
            "<i2" => DType::I16,
            "<i4" => DType::I32,
            "<i8" => DType::I64,
            "<f2" => DType::F16,
            "<f4" => DType::F32,
            "<f8" => DType::F64,
            _ => return None,
        })
    }

    /// Returns the same type whose elements have their lowest byte first.
    pub(crate) fn little_endian(self) -> Self {
        let order = if self.item_size == 1 { ByteOrder::Single } else { ByteOrder::Little };
        Self { order, ..self }
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn item_size(self) -> u64 {
        u64::from(self.item_size)
    }
}

/// Shows numpy's text for the type: `<f4`.
impl fmt::Display for NdType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            ByteOrder::Single => '|',
            ByteOrder::Little => '<',
            ByteOrder::Big => '>',
        };
        let kind = match self.kind {
            NdKind::Bool => 'b',
            NdKind::Int => 'i',
            NdKind::UInt => 'u',
            NdKind::Float => 'f',
            NdKind::Complex => 'c',
        };
        write!(f, "{order}{kind}{}", self.item_size)
    }
}

/// Returns the error for a text that is not one of numpy's names for a type of numbers.
fn unknown() -> Error {
    fail!(
        Parameter,
        "expected an order (<, > or |), a kind (b, i, u, f or c) and a size in bytes, such as <f4"
    )
}

impl FromStr for NdType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut chars = text.chars();
        let order = match chars.next() {
            Some('|') => ByteOrder::Single,
            Some('<') => ByteOrder::Little,
            Some('>') => ByteOrder::Big,
            _ => return Err(unknown()),
        };
        let kind = match chars.next() {
            Some('b') => NdKind::Bool,
            Some('i') => NdKind::Int,
            Some('u') => NdKind::UInt,
            Some('f') => NdKind::Float,
            Some('c') => NdKind::Complex,
            _ => return Err(unknown()),
        };
        let size = chars.as_str();
        let parsed = size.parse().ok().and_then(|size| Self::new(kind, size, order));
        // `parse` also takes "+4" and "04", which numpy never writes.
        parsed.filter(|_| size.starts_with(|c: char| ('1'..='9').contains(&c))).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpys_names_come_back_as_they_were() {
        let names = "|u1 |b1 |i1 <f2 <f4 <f8 <f16 <i2 <i4 <i8 <u2 <u4 <u8 <c8 <c16 >i4 >f8 >c8";
        for name in names.split(' ') {
            let dtype: NdType = name.parse().unwrap();
            assert_eq!(dtype.to_string(), name);
            assert_eq!(dtype.item_size().to_string(), name[2..]);
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in
            ["", "<", "<f", "f4", "<f3", "|f4", "<f+4", "<f04", "<f4 ", "<U4", "|O", "<M8[ns]"]
        {
            assert!(name.parse::<NdType>().is_err(), "{name}");
        }
    }
}
