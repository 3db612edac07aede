//! Conversions of many elements from one type to another, one loop for each pair of types.
//!
//! ```text
//! to[i] = ElementValue::from_bytes(FROM, from[i]).converted(TO)
//! ```
//!
//! Elements are bytes, lowest first, at any address. The loops are safe code without branches, which the
//! compiler vectorizes wherever the CPU has the conversion; integers of 64 bits are converted one by one.
//! The results equal those of `fuseloop_ops::internals::ElementValue` bit for bit.

use fuseloop_ops::DType;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Converts the elements of the first slice to those of the second.
///
/// # Panics
///
/// If the numbers of elements differ, or a slice ends inside an element.
pub type Conversion = fn(&[u8], &mut [u8]);

/// The number of half-precision elements that are converted at a time.
const BLOCK: usize = 256;

/// Returns the conversion from one type to another; `None` if they are the same type, or one that this
/// module does not know.
#[must_use]
pub fn conversion(from: DType, to: DType) -> Option<Conversion> {
    match from {
        _ if from == to => None,
        DType::U8 => from_type::<u8>(to),
        DType::U16 => from_type::<u16>(to),
        DType::I16 => from_type::<i16>(to),
        DType::I32 => from_type::<i32>(to),
        DType::I64 => from_type::<i64>(to),
        DType::F16 => from_f16(to),
        DType::Bf16 => from_type::<bf16>(to),
        DType::F32 => from_type::<f32>(to),
        DType::F64 => from_type::<f64>(to),
        _ => None,
    }
}

fn from_type<F: FromType>(to: DType) -> Option<Conversion> {
    Some(match to {
        DType::U8 => convert::<F, u8>,
        DType::U16 => convert::<F, u16>,
        DType::I16 => convert::<F, i16>,
        DType::I32 => convert::<F, i32>,
        DType::I64 => convert::<F, i64>,
        DType::F16 => convert_to_f16::<F>,
        DType::Bf16 => convert::<F, bf16>,
        DType::F32 => convert::<F, f32>,
        DType::F64 => convert::<F, f64>,
        _ => return None,
    })
}

fn from_f16(to: DType) -> Option<Conversion> {
    Some(match to {
        DType::U8 => convert_from_f16::<u8>,
        DType::U16 => convert_from_f16::<u16>,
        DType::I16 => convert_from_f16::<i16>,
        DType::I32 => convert_from_f16::<i32>,
        DType::I64 => convert_from_f16::<i64>,
        DType::Bf16 => convert_from_f16::<bf16>,
        DType::F32 => convert_from_f16::<f32>,
        DType::F64 => convert_from_f16::<f64>,
        _ => return None,
    })
}

/// Memory that holds elements of one type, as bytes.
trait Elements {
    /// The bytes of one element.
    type Bytes: Copy;

    fn all(bytes: &[u8]) -> (&[Self::Bytes], &[u8]);
    fn all_mut(bytes: &mut [u8]) -> (&mut [Self::Bytes], &mut [u8]);
}

/// A type that elements are converted from.
trait FromType: Elements {
    /// The type that holds every value: `i64` or `f64`.
    type Number: Number;

    fn number(bytes: Self::Bytes) -> Self::Number;
}

/// A type that elements are converted to.
trait ToType: Elements {
    fn of_whole(value: i64) -> Self::Bytes;
    fn of_real(value: f64) -> Self::Bytes;
}

/// The value of an element.
trait Number: Copy {
    fn to<T: ToType>(self) -> T::Bytes;

    /// Returns the nearest `f64`.
    fn real(self) -> f64;
}

impl Number for i64 {
    #[inline(always)]
    fn to<T: ToType>(self) -> T::Bytes {
        T::of_whole(self)
    }

    #[inline(always)]
    fn real(self) -> f64 {
        self as f64
    }
}

impl Number for f64 {
    #[inline(always)]
    fn to<T: ToType>(self) -> T::Bytes {
        T::of_real(self)
    }

    #[inline(always)]
    fn real(self) -> f64 {
        self
    }
}

macro_rules! elements {
    ($($type:ty: $bytes:literal, $number:ty, $read:expr, $whole:expr, $real:expr;)*) => {$(
        impl Elements for $type {
            type Bytes = [u8; $bytes];

            fn all(bytes: &[u8]) -> (&[Self::Bytes], &[u8]) {
                bytes.as_chunks()
            }

            fn all_mut(bytes: &mut [u8]) -> (&mut [Self::Bytes], &mut [u8]) {
                bytes.as_chunks_mut()
            }
        }

        impl FromType for $type {
            type Number = $number;

            #[inline(always)]
            fn number(bytes: Self::Bytes) -> $number {
                let read: fn(Self) -> $number = $read;
                read(Self::from_le_bytes(bytes))
            }
        }

        impl ToType for $type {
            #[inline(always)]
            fn of_whole(value: i64) -> Self::Bytes {
                let whole: fn(i64) -> Self = $whole;
                whole(value).to_le_bytes()
            }

            #[inline(always)]
            fn of_real(value: f64) -> Self::Bytes {
                let real: fn(f64) -> Self = $real;
                real(value).to_le_bytes()
            }
        }
    )*};
}

elements! {
    u8: 1, i64, |value| value.into(),
        |value| value.clamp(0, 255) as Self, |value| nearest(value, 0.0, 255.0) as Self;
    u16: 2, i64, |value| value.into(),
        |value| value.clamp(0, 0xffff) as Self, |value| nearest(value, 0.0, 65_535.0) as Self;
    i16: 2, i64, |value| value.into(),
        |value| value.clamp(-0x8000, 0x7fff) as Self,
        |value| nearest(value, -32_768.0, 32_767.0) as Self;
    i32: 4, i64, |value| value.into(),
        |value| value.clamp(-0x8000_0000, 0x7fff_ffff) as Self,
        |value| nearest(value, -2_147_483_648.0, 2_147_483_647.0);
    i64: 8, i64, |value| value,
        |value| value, |value| rounded(value) as Self; // this cast saturates, and makes 0 of NaN
    bf16: 2, f64, |value| single_of_bf16(value).into(),
        |value| Self::from_f32(rounded_to_odd(value as f64)),
        |value| Self::from_f32(rounded_to_odd(value));
    f32: 4, f64, |value| value.into(), |value| value as Self, |value| value as Self;
    f64: 8, f64, |value| value, |value| value as Self, |value| value;
}

/// Widens a bfloat16, and makes a NaN quiet.
#[inline(always)]
fn single_of_bf16(value: bf16) -> f32 {
    let bits = u32::from(value.to_bits()) << 16;
    let quiet = if bits & 0x7fff_ffff > 0x7f80_0000 { 0x40_0000 } else { 0 };
    f32::from_bits(bits | quiet)
}

/// Returns the integer in `low..=high` nearest to `value`, ties to even; 0 for NaN.
#[inline(always)]
fn nearest(value: f64, low: f64, high: f64) -> i32 {
    // A float of this size has no fraction: the addition rounds, and the integer is in the low bits.
    const NO_FRACTION: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    let value = if value > high { high } else { value };
    let value = if value < low { low } else { value };
    let value = if value.is_nan() { 0.0 } else { value };
    (value + NO_FRACTION).to_bits() as i32
}

/// Rounds to the nearest integer, ties to even, without a call of the mathematical library on CPUs
/// without the instruction.
#[inline(always)]
fn rounded(value: f64) -> f64 {
    const NO_FRACTION: f64 = 4_503_599_627_370_496.0; // 2^52
    let size = value.abs();
    let whole = (size + NO_FRACTION) - NO_FRACTION;
    if size < NO_FRACTION { whole.copysign(value) } else { value }
}

/// Rounds towards zero to f32, and makes the last bit odd if the result is not exact, so that a second
/// rounding gives the same result as a single one.
#[inline(always)]
fn rounded_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let wide = f64::from(near);
    let is_beyond = wide.abs() > value.abs();
    let odd = f32::from_bits((near.to_bits().wrapping_sub(u32::from(is_beyond))) | 1);
    if wide == value || near.is_nan() { near } else { odd }
}

fn convert<F: FromType, T: ToType>(from: &[u8], to: &mut [u8]) {
    let ((from, []), (to, [])) = (F::all(from), T::all_mut(to)) else {
        panic!("a slice ends inside an element");
    };
    assert_eq!(from.len(), to.len(), "elements of both slices");
    for (to, from) in to.iter_mut().zip(from) {
        *to = F::number(*from).to::<T>();
    }
}

fn convert_to_f16<F: FromType>(from: &[u8], to: &mut [u8]) {
    let ((from, []), (to, [])) = (F::all(from), to.as_chunks_mut::<2>()) else {
        panic!("a slice ends inside an element");
    };
    assert_eq!(from.len(), to.len(), "elements of both slices");
    let (mut singles, mut halves) = ([0.0; BLOCK], [f16::ZERO; BLOCK]);
    for (to, from) in to.chunks_mut(BLOCK).zip(from.chunks(BLOCK)) {
        let (singles, halves) = (&mut singles[..from.len()], &mut halves[..from.len()]);
        for (single, from) in singles.iter_mut().zip(from) {
            *single = rounded_to_odd(F::number(*from).real());
        }
        halves.convert_from_f32_slice(singles);
        to.iter_mut().zip(halves).for_each(|(to, half)| *to = half.to_le_bytes());
    }
}

fn convert_from_f16<T: ToType>(from: &[u8], to: &mut [u8]) {
    let ((from, []), (to, [])) = (from.as_chunks::<2>(), T::all_mut(to)) else {
        panic!("a slice ends inside an element");
    };
    assert_eq!(from.len(), to.len(), "elements of both slices");
    let (mut halves, mut numbers) = ([f16::ZERO; BLOCK], [0.0; BLOCK]);
    for (to, from) in to.chunks_mut(BLOCK).zip(from.chunks(BLOCK)) {
        let (halves, numbers) = (&mut halves[..from.len()], &mut numbers[..from.len()]);
        halves.iter_mut().zip(from).for_each(|(half, from)| *half = f16::from_le_bytes(*from));
        halves.convert_to_f32_slice(numbers);
        for (to, number) in to.iter_mut().zip(numbers) {
            *to = T::of_real(f64::from(*number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::internals::{DTYPES, ElementValue, SampleKey};

    fn assert_as_defined(from: DType, to: DType, bytes: &[u8]) {
        let conversion = conversion(from, to).unwrap();
        let elements = bytes.chunks_exact(from.bytes());
        let mut found = vec![0xAA; elements.len() * to.bytes()];
        conversion(bytes, &mut found);
        for (element, found) in elements.zip(found.chunks_exact(to.bytes())) {
            let want: Vec<u8> =
                ElementValue::from_bytes(from, element).converted(to).bytes().collect();
            assert_eq!(found, want, "{from} {element:02x?} to {to}");
        }
    }

    fn pairs() -> impl Iterator<Item = (DType, DType)> {
        let all = DTYPES.into_iter().flat_map(|from| DTYPES.map(|to| (from, to)));
        all.filter(|(from, to)| from != to)
    }

    #[test]
    fn every_element_of_at_most_two_bytes_is_as_defined() {
        let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for (from, to) in pairs().filter(|(from, _)| from.bytes() <= 2) {
            assert_as_defined(from, to, &all);
        }
    }

    #[test]
    fn random_bits_and_the_edges_of_types_are_as_defined() {
        let mut rng = SampleKey::new(0, 0, 0).op(0);
        let mut words: Vec<u64> = (0..20_000)
            .map(|_| u64::from(rng.word()) << 32 | u64::from(rng.word()))
            .map(|word| word >> (word % 64))
            .flat_map(|word| [word, word.wrapping_neg()])
            .collect();
        // What lies around the ends of all types, and around ties between two neighbours.
        let ends = [0.0, 255.0, 32_767.0, 65_504.0, 65_520.0, 2f64.powi(31), 2f64.powi(63), 1e39];
        let powers = (-160..160).step_by(3).chain([51, 52, 53, 1023, -1074, -1022]);
        let near = |value: f64| {
            [-1i64, 0, 1].map(|step| f64::from_bits(value.to_bits().wrapping_add_signed(step)))
        };
        for value in ends.into_iter().chain(powers.map(|power| 2f64.powi(power))) {
            for value in [value, value + 0.5, value - 0.5, value * 1.5, value + value.powi(2)] {
                for value in near(value).into_iter().flat_map(|value| [value, -value]) {
                    let single = u64::from((value as f32).to_bits());
                    words.extend([value.to_bits(), single | single << 32, value as i64 as u64]);
                }
            }
        }
        let odd = f64::from_bits(0x7ff0_0000_0000_0001);
        words.extend([f64::NAN, -f64::NAN, odd, f64::INFINITY].map(f64::to_bits));
        words.extend([0x7f80_0001, 0xff80_0001, 0x7fc0_1234, 0x7f80_0000, 0xff80_0000]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (from, to) in pairs() {
            assert_as_defined(from, to, &bytes);
        }
    }

    #[test]
    fn elements_of_any_number_and_at_any_address_are_converted() {
        let bytes: Vec<u8> = (0..8 * 700).map(|at| (at * 37 % 251) as u8).collect();
        for (from, to) in pairs() {
            for count in [0, 1, 7, 255, 256, 257, 513] {
                assert_as_defined(from, to, &bytes[1..][..count * from.bytes()]);
            }
        }
    }

    #[test]
    fn the_same_type_needs_no_conversion() {
        assert!(DTYPES.into_iter().all(|dtype| conversion(dtype, dtype).is_none()));
    }

    #[test]
    #[should_panic(expected = "elements of both slices")]
    fn slices_of_different_lengths_are_refused() {
        conversion(DType::I64, DType::F32).unwrap()(&[0; 16], &mut [0; 4]);
    }
}
