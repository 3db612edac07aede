//! Conversions of `f32` values to other element types.
//!
//! ```text
//! dst[i] = the element nearest to src[i], ties to even
//! ```
//!
//! | to                 | overflow becomes | a NaN becomes                                   |
//! |--------------------|------------------|-------------------------------------------------|
//! | f16, bf16          | infinity         | a NaN: its payload is cut and its quiet bit set |
//! | u16, i16, i32, i64 | the type's end   | 0                                               |
//! | f64                | cannot be        | a NaN                                           |
//!
//! f16 denormals are preserved. The results equal those of `half::f16::from_f32`,
//! `half::bf16::from_f32`, and `round_ties_even` with Rust's `as`, bit for bit, on any CPU.
//!
//! Each type has two implementations: [`one`](Conversion::one) converts one value and is the reference;
//! [`sixteen`](Conversion::sixteen) converts two vectors of eight values.

#![allow(unsafe_code, reason = "vectors as the CPU has them, and as arrays of elements")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A conversion of `f32` to another type.
pub(crate) trait Conversion {
    /// An integer, a float, or the bits of a float: any bytes are valid.
    type To: Copy + Default + PartialEq + std::fmt::Debug;

    /// Converts one value. This is the reference implementation.
    fn one(value: f32) -> Self::To;

    /// Converts as many values as `to` has elements.
    #[cfg(target_arch = "aarch64")]
    #[inline]
    fn many(values: &[f32], to: &mut [Self::To]) {
        for (to, value) in to.iter_mut().zip(values) {
            *to = Self::one(*value);
        }
    }

    /// If true, the two vectors of `sixteen` hold the values of even and of odd index, instead of eight
    /// consecutive values each. The packed results then need not be reordered.
    #[cfg(target_arch = "x86_64")]
    const ALTERNATES: bool = false;

    /// Converts sixteen values.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn sixteen(values: [__m256; 2]) -> [Self::To; 16];
}

/// Converts to IEEE half precision.
pub(crate) struct ToF16;
/// Converts to bfloat16.
pub(crate) struct ToBf16;
/// Converts to 16-bit integers without a sign.
pub(crate) struct ToU16;
/// Converts to 16-bit integers.
pub(crate) struct ToI16;
/// Converts to 32-bit integers.
pub(crate) struct ToI32;
/// Converts to 64-bit integers.
pub(crate) struct ToI64;
/// Keeps the value as it is.
pub(crate) struct ToF32;
/// Converts to IEEE double precision.
pub(crate) struct ToF64;

impl Conversion for ToF16 {
    type To = u16;

    fn one(value: f32) -> u16 {
        half::f16::from_f32_const(value).to_bits()
    }

    #[cfg(target_arch = "aarch64")]
    #[inline]
    fn many(values: &[f32], to: &mut [u16]) {
        let (eights, rest) = values.as_chunks();
        let (to, to_rest) = to.as_chunks_mut();
        for (to, eight) in to.iter_mut().zip(eights) {
            *to = eight_f16(eight);
        }
        for (to, value) in to_rest.iter_mut().zip(rest) {
            *to = Self::one(*value);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [u16; 16] {
        let halves = [eight_f16(values[0]), eight_f16(values[1])];
        // SAFETY: 32 bytes each; any bytes are elements.
        unsafe { std::mem::transmute(halves) }
    }
}

impl Conversion for ToBf16 {
    type To = u16;
    #[cfg(target_arch = "x86_64")]
    const ALTERNATES: bool = true;

    fn one(value: f32) -> u16 {
        half::bf16::from_f32(value).to_bits()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [u16; 16] {
        let (mut even, mut odd) = (eight_bf16(values[0]), eight_bf16(values[1]));
        let any_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values[0], values[1]);
        if _mm256_movemask_ps(any_nan) != 0 {
            (even, odd) = (quiet_bf16(values[0], even), quiet_bf16(values[1], odd));
        }
        let both = _mm256_blend_epi16::<0b1010_1010>(_mm256_srli_epi32::<16>(even), odd);
        // SAFETY: 32 bytes each; any bytes are elements.
        unsafe { std::mem::transmute(both) }
    }
}

impl Conversion for ToU16 {
    type To = u16;

    fn one(value: f32) -> u16 {
        value.round_ties_even() as u16
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [u16; 16] {
        in_order(_mm256_packus_epi32(eight_i32(values[0]), eight_i32(values[1])))
    }
}

impl Conversion for ToI16 {
    type To = i16;

    fn one(value: f32) -> i16 {
        value.round_ties_even() as i16
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [i16; 16] {
        in_order(_mm256_packs_epi32(eight_i32(values[0]), eight_i32(values[1])))
    }
}

impl Conversion for ToI32 {
    type To = i32;

    fn one(value: f32) -> i32 {
        value.round_ties_even() as i32
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [i32; 16] {
        let whole = [eight_i32(values[0]), eight_i32(values[1])];
        // SAFETY: 64 bytes each; any bytes are elements.
        unsafe { std::mem::transmute(whole) }
    }
}

impl Conversion for ToI64 {
    type To = i64;

    fn one(value: f32) -> i64 {
        value.round_ties_even() as i64
    }

    /// Converts through i32 if it can hold all values, as it can for any image.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [i64; 16] {
        let fit = _mm256_and_ps(fit_i32(values[0]), fit_i32(values[1]));
        if _mm256_movemask_ps(fit) != 0xff {
            return one_by_one::<Self>(as_array(values));
        }
        let wide = [eight_i64(values[0]), eight_i64(values[1])];
        // SAFETY: 128 bytes each; any bytes are elements.
        unsafe { std::mem::transmute(wide) }
    }
}

impl Conversion for ToF32 {
    type To = f32;

    fn one(value: f32) -> f32 {
        value
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [f32; 16] {
        as_array(values)
    }
}

impl Conversion for ToF64 {
    type To = f64;

    fn one(value: f32) -> f64 {
        value.into()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn sixteen(values: [__m256; 2]) -> [f64; 16] {
        let wide = [eight_f64(values[0]), eight_f64(values[1])];
        // SAFETY: 128 bytes each; any bytes are elements.
        unsafe { std::mem::transmute(wide) }
    }
}

/// Converts values that no image contains, outside the hot path.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
fn one_by_one<C: Conversion + ?Sized>(values: [f32; 16]) -> [C::To; 16] {
    values.map(C::one)
}

/// 2^31, the first integer above the range of i32.
#[cfg(target_arch = "x86_64")]
const I32_END: f32 = 2_147_483_648.0;

/// Converts eight values, four at a time: Zen converts four in one cycle, and eight in more than two.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn eight_f16(values: __m256) -> __m128i {
    let low = _mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_castps256_ps128(values));
    let high = _mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_extractf128_ps::<1>(values));
    _mm_unpacklo_epi64(low, high)
}

/// Converts eight values. The intrinsics for half precision are not stable, and the instruction is in every aarch64 CPU.
#[cfg(target_arch = "aarch64")]
#[inline]
fn eight_f16(values: &[f32; 8]) -> [u16; 8] {
    use std::arch::aarch64::{float32x4_t, uint16x8_t};
    let halves: uint16x8_t;
    // SAFETY: 32 bytes each; any bytes are floats.
    let [low, high] = unsafe { std::mem::transmute::<[f32; 8], [float32x4_t; 2]>(*values) };
    // SAFETY: the two instructions read and write only these registers.
    unsafe {
        std::arch::asm!(
            "fcvtn {halves:v}.4h, {low:v}.4s",
            "fcvtn2 {halves:v}.8h, {high:v}.4s",
            halves = out(vreg) halves,
            low = in(vreg) low,
            high = in(vreg) high,
            options(pure, nomem, nostack),
        );
    }
    // SAFETY: 16 bytes each; any bytes are elements.
    unsafe { std::mem::transmute::<uint16x8_t, [u16; 8]>(halves) }
}

/// Returns the results in the high halves of eight lanes. The result for a NaN is meaningless.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn eight_bf16(values: __m256) -> __m256i {
    let bits = _mm256_castps_si256(values);
    // Adds half of the last remaining place minus one, and one more if that place is odd: at a tie, odd
    // numbers round up and even ones down.
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd)
}

/// Returns `nearest`, with quiet NaNs where `values` are NaN.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn quiet_bf16(values: __m256, nearest: __m256i) -> __m256i {
    let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
    let quiet = _mm256_or_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x40_0000));
    _mm256_blendv_epi8(nearest, quiet, is_nan)
}

/// Rounds to the nearest, ties to even, which is the CPU's default mode. A value that is out of range
/// in either direction becomes `i32::MIN` in the CPU; if it is too large, all bits are flipped, which
/// makes it `i32::MAX`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn eight_i32(values: __m256) -> __m256i {
    let too_large = _mm256_cmp_ps::<_CMP_GE_OQ>(values, _mm256_set1_ps(I32_END));
    let is_number = _mm256_cmp_ps::<_CMP_ORD_Q>(values, values);
    let whole = _mm256_xor_si256(_mm256_cvtps_epi32(values), _mm256_castps_si256(too_large));
    _mm256_and_si256(whole, _mm256_castps_si256(is_number))
}

/// Returns all ones in the lanes whose value is in the range of i32.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn fit_i32(values: __m256) -> __m256 {
    let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), values);
    _mm256_cmp_ps::<_CMP_LT_OQ>(size, _mm256_set1_ps(I32_END))
}

/// Converts through i32, which must be able to hold all values.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn eight_i64(values: __m256) -> [__m256i; 2] {
    let whole = _mm256_cvtps_epi32(values);
    let high = _mm256_extracti128_si256::<1>(whole);
    [_mm256_cvtepi32_epi64(_mm256_castsi256_si128(whole)), _mm256_cvtepi32_epi64(high)]
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn eight_f64(values: __m256) -> [__m256d; 2] {
    let high = _mm256_extractf128_ps::<1>(values);
    [_mm256_cvtps_pd(_mm256_castps256_ps128(values)), _mm256_cvtps_pd(high)]
}

/// Returns the elements of a packed vector in order: packing takes the low halves of both sources
/// first.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn in_order<T>(packed: __m256i) -> [T; 16]
where
    [T; 16]: Copy,
{
    const { assert!(size_of::<T>() == 2, "sixteen elements of two bytes") };
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    // SAFETY: 32 bytes each; the callers' elements are integers, for which any bytes are valid.
    unsafe { std::mem::transmute_copy(&packed) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn as_array(values: [__m256; 2]) -> [f32; 16] {
    // SAFETY: 64 bytes each; any bytes are floats.
    unsafe { std::mem::transmute(values) }
}
