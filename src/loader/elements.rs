//! The elements of a stored array as those of a tensor: the same values, of a type that tensors have.
//!
//! | stored                          | tensor                                             |
//! |---------------------------------|----------------------------------------------------|
//! | `\|u1 \|b1 <u2 <i2 <i4 <i8 <f2 <f4 <f8` | the bytes, as they are                     |
//! | `>u2 >i2 >i4 >i8 >f2 >f4 >f8`   | the same type; the bytes of each element reversed  |
//! | `\|i1`                          | `i16`                                              |
//! | `<u4 >u4`                       | `i64`                                              |
//! | `<c8 >c8 <c16 >c16`             | `f32` or `f64`, with a last axis of 2: real, imaginary |
//! | `u8`, `f16`, `c32`              | refused: no tensor holds all of their values       |
//!
//! Numbers are those of NumPy's names: `u8` has 8 bytes, `|u1` has one.

use crate::source::NdType;
use fuseloop_ops::DType;

/// How elements become those of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// The bytes are the tensor's.
    Stored,
    /// Numbers of this many bytes, of which the highest comes first.
    Swapped(usize),
    /// Signed bytes become numbers of 16 bits.
    SignedBytes,
    /// Unsigned numbers of 32 bits become signed ones of 64; true if the highest byte comes first.
    Unsigned32(bool),
}

/// The element type of tensors that hold the values of a stored type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TensorElements {
    pub(super) dtype: DType,
    /// True if each stored number is a pair, its real and its imaginary part.
    pub(super) is_pair: bool,
    pub(super) elements: Elements,
}

impl TensorElements {
    /// Returns the elements of tensors with the values of a stored type, or `None` if no type has them all.
    pub(super) fn of(stored: NdType) -> Option<Self> {
        let little = stored.little_endian();
        let is_big = little != stored;
        let of_size = |size| if is_big { Elements::Swapped(size) } else { Elements::Stored };
        let (dtype, is_pair, elements) = match little.to_string().as_str() {
            "|i1" => (DType::I16, false, Elements::SignedBytes),
            "<u4" => (DType::I64, false, Elements::Unsigned32(is_big)),
            "<c8" => (DType::F32, true, of_size(4)),
            "<c16" => (DType::F64, true, of_size(8)),
            _ => {
                let dtype = little.element_type()?;
                (dtype, false, of_size(dtype.bytes()))
            }
        };
        Some(Self { dtype, is_pair, elements })
    }
}

impl Elements {
    /// Writes the elements of an array to the beginning of a row of a tensor, and zeros behind them. Returns false if
    /// the row is too short.
    pub(super) fn fill(self, stored: &[u8], row: &mut [u8]) -> bool {
        let (from, to) = match self {
            Self::Stored | Self::Swapped(_) => (1, 1),
            Self::SignedBytes => (1, 2),
            Self::Unsigned32(_) => (4, 8),
        };
        let Some((head, tail)) = row.split_at_mut_checked(stored.len() / from * to) else {
            return false;
        };
        match self {
            Self::Stored => head.copy_from_slice(stored),
            Self::Swapped(size) => {
                head.copy_from_slice(stored);
                head.chunks_exact_mut(size).for_each(<[u8]>::reverse);
            }
            Self::SignedBytes => {
                for (&byte, out) in stored.iter().zip(head.as_chunks_mut().0) {
                    *out = i16::from(byte.cast_signed()).to_le_bytes();
                }
            }
            Self::Unsigned32(is_big) => {
                for (bytes, out) in stored.as_chunks().0.iter().zip(head.as_chunks_mut().0) {
                    let value = if is_big {
                        u32::from_be_bytes(*bytes)
                    } else {
                        u32::from_le_bytes(*bytes)
                    };
                    *out = i64::from(value).to_le_bytes();
                }
            }
        }
        tail.fill(0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(name: &str, stored: &[u8], bytes: usize) -> (DType, bool, Vec<u8>) {
        let TensorElements { dtype, is_pair, elements } =
            TensorElements::of(name.parse().unwrap()).unwrap();
        let mut row = vec![9; bytes];
        assert!(elements.fill(stored, &mut row), "{name}");
        (dtype, is_pair, row)
    }

    #[test]
    fn values_are_those_that_were_stored() {
        assert_eq!(filled(">f4", &1.5f32.to_be_bytes(), 4).2, 1.5f32.to_le_bytes());
        assert_eq!(filled(">i8", &(-7i64).to_be_bytes(), 8).2, (-7i64).to_le_bytes());
        assert_eq!(filled(">u2", &[1, 2, 3, 4], 6).2, [2, 1, 4, 3, 0, 0]);
        let (dtype, _, bytes) = filled("|i1", &[0xff, 0x80], 4);
        assert_eq!(
            (dtype, bytes),
            (DType::I16, [(-1i16).to_le_bytes(), (-128i16).to_le_bytes()].concat())
        );
        for (name, stored) in [("<u4", u32::MAX.to_le_bytes()), (">u4", u32::MAX.to_be_bytes())] {
            let (dtype, _, bytes) = filled(name, &stored, 8);
            assert_eq!((dtype, bytes), (DType::I64, 4_294_967_295i64.to_le_bytes().to_vec()));
        }
        let pair = [1.5f64.to_be_bytes(), (-2f64).to_be_bytes()].concat();
        let want = [1.5f64.to_le_bytes(), (-2f64).to_le_bytes()].concat();
        assert_eq!(filled(">c16", &pair, 16), (DType::F64, true, want));
    }

    #[test]
    fn types_whose_values_no_tensor_has_are_none() {
        for name in ["<u8", ">u8", "<f16", ">f16", "<c32"] {
            assert_eq!(TensorElements::of(name.parse().unwrap()), None, "{name}");
        }
        assert!(!Elements::SignedBytes.fill(&[1, 2], &mut [0; 3]));
    }
}
