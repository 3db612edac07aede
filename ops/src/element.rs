//! One element as its type and its bits. This module defines the results of [`Convert`](crate::Convert)
//! and [`View`](crate::View).
//!
//! | to                     | from an integer                  | from a float                 |
//! |------------------------|----------------------------------|------------------------------|
//! | u8, u16, i16, i32, i64 | to the nearest value of the type | to the nearest, ties to even, then as an integer; NaN becomes 0 |
//! | f32, f64               | to the nearest, ties to even     | to the nearest, ties to even |
//! | f16, bf16              | through f64                      | to the nearest, ties to even |
//!
//! A plain cast in C, NumPy or PyTorch truncates fractions and wraps values that are too large. Here a
//! conversion to any integer type rounds, as u8 results are always rounded, so an image that is
//! converted to integers does not get darker by half a level.

use crate::DType;
use half::{bf16, f16};

/// One element of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementValue {
    dtype: DType,
    /// The bits as an integer, in the low bytes.
    bits: u64,
}

/// The value of an element. One of the two variants can hold any value of any type.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    Real(f64),
}

impl From<i64> for ElementValue {
    fn from(value: i64) -> Self {
        Self { dtype: DType::I64, bits: value as u64 }
    }
}

impl From<f32> for ElementValue {
    fn from(value: f32) -> Self {
        Self { dtype: DType::F32, bits: value.to_bits().into() }
    }
}

impl From<f64> for ElementValue {
    fn from(value: f64) -> Self {
        Self { dtype: DType::F64, bits: value.to_bits() }
    }
}

impl ElementValue {
    /// Returns the type.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// Returns the nearest value of type `to`.
    #[must_use]
    pub fn converted(self, to: DType) -> Self {
        if to == self.dtype {
            return self; // a NaN keeps its bits
        }
        let number = self.number();
        let bits = match to {
            DType::U8 => number.clamped(0, u8::MAX.into()) as u64,
            DType::U16 => number.clamped(0, u16::MAX.into()) as u64,
            DType::I16 => number.clamped(i16::MIN.into(), i16::MAX.into()) as u64,
            DType::I32 => number.clamped(i32::MIN.into(), i32::MAX.into()) as u64,
            DType::I64 => number.clamped(i64::MIN, i64::MAX) as u64,
            DType::F16 => f16::from_f32(round_to_odd(number.real())).to_bits().into(),
            DType::Bf16 => bf16::from_f32(round_to_odd(number.real())).to_bits().into(),
            DType::F32 => number.single().to_bits().into(),
            DType::F64 => number.real().to_bits(),
        };
        Self { dtype: to, bits }
    }

    /// Returns the same bits as another type of the same size.
    #[must_use]
    pub fn viewed(self, as_type: DType) -> Self {
        debug_assert_eq!(self.dtype.bytes(), as_type.bytes(), "the type check allows no other");
        Self { dtype: as_type, ..self }
    }

    /// Returns the element of `dtype` with these bytes, lowest first.
    ///
    /// # Panics
    ///
    /// If the number of bytes is not the size of the type.
    #[must_use]
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), dtype.bytes(), "bytes of an element of {dtype}");
        let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        Self { dtype, bits }
    }

    /// Returns the value if the element is an f32.
    #[must_use]
    pub fn as_f32(self) -> Option<f32> {
        (self.dtype == DType::F32).then(|| f32::from_bits(self.bits as u32))
    }

    /// Returns the nearest `f32`.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        if self.dtype == DType::F16 {
            return half_to_f32(self.bits as u16);
        }
        self.number().single()
    }

    /// Returns the value if the element is an f32 or f64.
    #[must_use]
    pub fn as_float(self) -> Option<f64> {
        match self.dtype {
            DType::F32 => Some(f32::from_bits(self.bits as u32).into()),
            DType::F64 => Some(f64::from_bits(self.bits)),
            _ => None,
        }
    }

    /// Returns the value if the element is an i64.
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        (self.dtype == DType::I64).then_some(self.bits as i64)
    }

    /// Returns the element's bytes, lowest first.
    pub fn bytes(self) -> impl Iterator<Item = u8> {
        self.bits.to_le_bytes().into_iter().take(self.dtype.bytes())
    }

    /// Appends the elements in `bytes`, lowest byte first, as `f32`. Only I32, I64 and F64 have values that
    /// are rounded.
    pub fn append_floats(dtype: DType, bytes: &[u8], to: &mut Vec<f32>) {
        let (pairs, quads) = (bytes.as_chunks::<2>().0.iter(), bytes.as_chunks::<4>().0.iter());
        match dtype {
            DType::U8 => to.extend(bytes.iter().map(|&byte| f32::from(byte))),
            DType::I16 => to.extend(pairs.map(|&pair| f32::from(i16::from_le_bytes(pair)))),
            DType::U16 => to.extend(pairs.map(|&pair| f32::from(u16::from_le_bytes(pair)))),
            DType::F16 => to.extend(pairs.map(|&pair| half_to_f32(u16::from_le_bytes(pair)))),
            DType::Bf16 => {
                to.extend(pairs.map(|&[low, high]| f32::from_le_bytes([0, 0, low, high])));
            }
            DType::F32 => to.extend(quads.map(|&quad| f32::from_le_bytes(quad))),
            DType::I32 | DType::I64 | DType::F64 => {
                let elements = bytes.chunks_exact(dtype.bytes());
                to.extend(elements.map(|bytes| Self::from_bytes(dtype, bytes).number().single()));
            }
        }
    }

    /// Writes the nearest elements of `dtype` to `out`, lowest byte first.
    ///
    /// # Panics
    ///
    /// If `out` has no room for as many elements.
    #[inline(always)]
    pub fn store_floats(dtype: DType, values: &[f32], out: &mut [u8]) {
        match dtype {
            // These casts saturate, and NaN becomes 0.
            DType::U8 => put(out, values, |v| (v.round_ties_even() as u8).to_le_bytes()),
            DType::U16 => put(out, values, |v| (v.round_ties_even() as u16).to_le_bytes()),
            DType::I16 => put(out, values, |v| (v.round_ties_even() as i16).to_le_bytes()),
            DType::F16 => put(out, values, |v| f16::from_f32(v).to_le_bytes()),
            DType::Bf16 => put(out, values, |v| bf16::from_f32(v).to_le_bytes()),
            DType::F32 => put(out, values, f32::to_le_bytes),
            DType::I32 => put(out, values, |v| (v.round_ties_even() as i32).to_le_bytes()),
            DType::I64 => put(out, values, |v| (v.round_ties_even() as i64).to_le_bytes()),
            DType::F64 => put(out, values, |v| f64::from(v).to_le_bytes()),
        }
    }

    fn number(self) -> Number {
        let bits = self.bits;
        match self.dtype {
            DType::U8 => Number::Whole((bits as u8).into()),
            DType::U16 => Number::Whole((bits as u16).into()),
            DType::I16 => Number::Whole((bits as i16).into()),
            DType::I32 => Number::Whole((bits as i32).into()),
            DType::I64 => Number::Whole(bits as i64),
            DType::F16 => Number::Real(f16::from_bits(bits as u16).into()),
            DType::Bf16 => Number::Real(bf16::from_bits(bits as u16).into()),
            DType::F32 => Number::Real(f32::from_bits(bits as u32).into()),
            DType::F64 => Number::Real(f64::from_bits(bits)),
        }
    }
}

impl Number {
    /// Returns the nearest integer in `low..=high`.
    fn clamped(self, low: i64, high: i64) -> i64 {
        let whole = match self {
            Self::Whole(value) => value,
            Self::Real(value) => value.round_ties_even() as i64, // this cast saturates
        };
        whole.clamp(low, high)
    }

    fn real(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }

    /// Rounds to f32 once: through f64 an i64 would be rounded twice.
    fn single(self) -> f32 {
        match self {
            Self::Whole(value) => value as f32,
            Self::Real(value) => value as f32,
        }
    }
}

/// Writes the bytes of each value, one after the other.
#[inline(always)]
fn put<const B: usize>(out: &mut [u8], values: &[f32], bytes: impl Fn(f32) -> [u8; B]) {
    let (out, rest) = out.as_chunks_mut::<B>();
    assert!(out.len() == values.len() && rest.is_empty(), "room for as many elements");
    out.iter_mut().zip(values).for_each(|(out, value)| *out = bytes(*value));
}

/// Returns the value of a half-precision float. A NaN keeps its bits, signalling or not, as in compiled code.
fn half_to_f32(bits: u16) -> f32 {
    let (sign, rest) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7FFF));
    if rest < 0x7C00 {
        return f16::from_bits(bits).to_f32();
    }
    f32::from_bits(sign | 0x7F80_0000 | rest << 13)
}

/// Rounds `value` towards zero to f32, and makes the last bit odd if the result is not exact. The odd
/// bit marks that the value was slightly larger, so that a second rounding gives the same result as a
/// single one. (`half` truncates an f64.)
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || near.is_nan() {
        return near;
    }
    let is_beyond = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(is_beyond)) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::DTYPES;

    fn bits(element: impl Into<ElementValue>, to: DType) -> u64 {
        element.into().converted(to).bits
    }

    #[test]
    fn fractions_are_rounded_half_to_even() {
        for (value, whole) in [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-1.5, -2), (254.9, 255)] {
            assert_eq!(bits(value, DType::I64) as i64, whole, "{value}");
            assert_eq!(bits(value, DType::I32) as i32, whole as i32, "{value}");
            assert_eq!(bits(value, DType::I16) as i16, whole as i16, "{value}");
        }
    }

    #[test]
    fn what_is_too_large_becomes_the_largest_and_nan_becomes_0() {
        for (value, i16_value, i32_value, i64_value) in [
            (f64::INFINITY, i16::MAX, i32::MAX, i64::MAX),
            (-1e30, i16::MIN, i32::MIN, i64::MIN),
            (1e10, i16::MAX, i32::MAX, 10_000_000_000),
            (32_767.5, i16::MAX, 32_768, 32_768),
            (f64::NAN, 0, 0, 0),
        ] {
            assert_eq!(bits(value, DType::I16) as i16, i16_value, "{value}");
            assert_eq!(bits(value, DType::I32) as i32, i32_value, "{value}");
            assert_eq!(bits(value, DType::I64) as i64, i64_value, "{value}");
        }
        assert_eq!((bits(-3i64, DType::U8), bits(256i64, DType::U8)), (0, 255));
        for (value, u16_value) in [
            (-0.5, 0),
            (-1e30, 0),
            (f64::NAN, 0),
            (32_768.5, 32_768),
            (65_534.5, 65_534),
            (65_535.5, 65_535),
            (f64::INFINITY, 65_535),
        ] {
            assert_eq!(bits(value, DType::U16), u16_value, "{value}");
        }
        assert_eq!((bits(-1i64, DType::U16), bits(65_536i64, DType::U16)), (0, 65_535));
        assert_eq!(bits(i64::MIN, DType::I32) as i32, i32::MIN);
    }

    #[test]
    fn floats_are_the_nearest() {
        assert_eq!(bits(0.1, DType::F32), u64::from(0.1f32.to_bits()));
        assert_eq!(bits(0.1f32, DType::F64), f64::from(0.1f32).to_bits());
        assert_eq!(bits(1.0, DType::F16), 0x3c00);
        assert_eq!(bits(-2i64, DType::Bf16), 0xc000);
        assert_eq!(bits(65_520i64, DType::F16), 0x7c00, "infinity");
        // 2^54 + 2^30 + 1: a conversion to f64 loses the 1, and then the tie to f32 would round down.
        let (odd, up) = ((1i64 << 54) + (1 << 30) + 1, (1u64 << 54) + (1 << 31));
        assert_eq!(f32::from_bits(bits(odd, DType::F32) as u32), up as f32);
    }

    #[test]
    fn steps_are_taken_one_after_the_other() {
        // 1 + 2^-8 + 2^-30 is above the tie of bf16; a truncation to f32 drops the difference.
        let value = 1.0 + 2f64.powi(-8) + 2f64.powi(-30);
        assert_eq!(bits(value, DType::Bf16), 0x3f81);
        let by_f32 = ElementValue::from(value).converted(DType::F32).converted(DType::Bf16);
        assert_eq!(by_f32.bits, 0x3f80);
    }

    #[test]
    fn a_view_keeps_every_bit() {
        let signalling = ElementValue::from(0x7ff0_0000_0000_0001i64);
        let seen = signalling.viewed(DType::F64).viewed(DType::I64);
        assert_eq!(seen, signalling);
        assert_eq!(seen.as_i64(), Some(0x7ff0_0000_0000_0001));
        assert_eq!(signalling.viewed(DType::F64).as_i64(), None);
    }

    #[test]
    fn many_floats_are_stored_as_one_is() {
        let mut values = vec![f32::NAN, f32::INFINITY, -f32::INFINITY, -0.0, 1e-8, 1e30, -1e30];
        values.extend((-70_000..70_000).map(|v| v as f32 * 0.5));
        for dtype in DTYPES {
            let mut stored = vec![0; values.len() * dtype.bytes()];
            ElementValue::store_floats(dtype, &values, &mut stored);
            let one =
                |v: &f32| ElementValue::from(*v).converted(dtype).bytes().collect::<Vec<u8>>();
            assert!(stored == values.iter().flat_map(one).collect::<Vec<u8>>(), "{dtype}");
            if matches!(dtype, DType::U8 | DType::U16 | DType::I16 | DType::F16 | DType::F32) {
                let mut again = vec![];
                ElementValue::append_floats(dtype, &stored, &mut again);
                let one = |bytes: &[u8]| ElementValue::from_bytes(dtype, bytes).to_f32().to_bits();
                let want = stored.chunks(dtype.bytes()).map(one);
                assert!(again.iter().map(|v| v.to_bits()).eq(want), "{dtype}");
            }
        }
    }

    #[test]
    fn bytes_are_as_many_as_the_type_has() {
        for dtype in DTYPES {
            let bytes: Vec<u8> = ElementValue::from(1i64).converted(dtype).bytes().collect();
            assert_eq!(bytes.len(), dtype.bytes(), "{dtype}");
        }
        let largest = ElementValue::from(70_000i64).converted(DType::U16);
        assert_eq!(largest.bytes().collect::<Vec<u8>>(), [255, 255]);
        assert_eq!(largest.converted(DType::I64).as_i64(), Some(65_535), "no sign");
        assert_eq!(largest.viewed(DType::I16).converted(DType::I64).as_i64(), Some(-1));
        let bytes: Vec<u8> = ElementValue::from(-2i64).converted(DType::I16).bytes().collect();
        assert_eq!(bytes, (-2i16).to_le_bytes());
    }
}
