//! What a value of `f32` becomes as another element type.
//!
//! ```text
//! dst[i] = the element nearest to src[i], ties to even
//! ```
//!
//! | to            | overflow gives | a NaN gives                                     |
//! |---------------|----------------|-------------------------------------------------|
//! | f16, bf16     | infinity       | a NaN: its payload is cut and its quiet bit set |
//! | i16, i32, i64 | the type's end | 0                                               |
//! | f64           | cannot be      | a NaN                                           |
//!
//! f16 denormals are kept. Bit for bit `half::f16::from_f32`, `half::bf16::from_f32`, and
//! `round_ties_even` with Rust's `as`, on any CPU.
//!
//! Each type says it twice: [`one`](Conversion::one) value at a time, which is the meaning, and
//! [`sixteen`](Conversion::sixteen) in two vectors.

#![allow(unsafe_code, reason = "vectors as the CPU has them, and as arrays of elements")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A conversion of `f32` to another type.
pub(crate) trait Conversion {
    /// An integer, a float, or the bits of one: any bytes are fine.
    type To: Copy + Default + PartialEq + std::fmt::Debug;

    /// The meaning, one value at a time.
    fn one(value: f32) -> Self::To;

    /// Whether `sixteen` takes every second value in each vector, and not eight in a row: then no
    /// packed result need be put in order.
    const ALTERNATES: bool = false;

    /// The same for sixteen.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn sixteen(values: [__m256; 2]) -> [Self::To; 16];
}

/// To IEEE half precision.
pub(crate) struct ToF16;
/// To bfloat16.
pub(crate) struct ToBf16;
/// To 16-bit integers.
pub(crate) struct ToI16;
/// To 32-bit integers.
pub(crate) struct ToI32;
/// To 64-bit integers.
pub(crate) struct ToI64;
/// As it is.
pub(crate) struct ToF32;
/// To IEEE double precision.
pub(crate) struct ToF64;

impl Conversion for ToF16 {
    type To = u16;

    fn one(value: f32) -> u16 {
        half::f16::from_f32_const(value).to_bits()
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

    /// By way of i32: no picture has what that can't hold.
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

/// What no picture holds: out of the way of the rest.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
fn one_by_one<C: Conversion + ?Sized>(values: [f32; 16]) -> [C::To; 16] {
    values.map(C::one)
}

/// 2^31, the first whole number that is no i32.
#[cfg(target_arch = "x86_64")]
const I32_END: f32 = 2_147_483_648.0;

/// Four at a time: Zen converts those in a cycle, and eight in more than two.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn eight_f16(values: __m256) -> __m128i {
    let low = _mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_castps256_ps128(values));
    let high = _mm_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_extractf128_ps::<1>(values));
    _mm_unpacklo_epi64(low, high)
}

/// In the high halves of eight lanes; what it makes of a NaN means nothing.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn eight_bf16(values: __m256) -> __m256i {
    let bits = _mm256_castps_si256(values);
    // Half of the last place kept, less one: odd numbers round up at the tie, even ones down.
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd)
}

/// `nearest` with the NaNs among `values` as quiet ones.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn quiet_bf16(values: __m256, nearest: __m256i) -> __m256i {
    let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
    let quiet = _mm256_or_si256(_mm256_castps_si256(values), _mm256_set1_epi32(0x40_0000));
    _mm256_blendv_epi8(nearest, quiet, is_nan)
}

/// To the nearest, ties to even, as the CPU rounds unless told otherwise. What is too large either
/// way becomes `i32::MIN` in the CPU: all bits of that turned round are `i32::MAX`.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn eight_i32(values: __m256) -> __m256i {
    let too_large = _mm256_cmp_ps::<_CMP_GE_OQ>(values, _mm256_set1_ps(I32_END));
    let is_number = _mm256_cmp_ps::<_CMP_ORD_Q>(values, values);
    let whole = _mm256_xor_si256(_mm256_cvtps_epi32(values), _mm256_castps_si256(too_large));
    _mm256_and_si256(whole, _mm256_castps_si256(is_number))
}

/// All ones in the lanes whose value an i32 can hold.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn fit_i32(values: __m256) -> __m256 {
    let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), values);
    _mm256_cmp_ps::<_CMP_LT_OQ>(size, _mm256_set1_ps(I32_END))
}

/// By way of i32, which must hold all of them.
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

/// A packed vector's elements: packing takes the low halves of both sources first.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn in_order<T>(packed: __m256i) -> [T; 16]
where
    [T; 16]: Copy,
{
    const { assert!(size_of::<T>() == 2, "sixteen elements of two bytes") };
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    // SAFETY: 32 bytes each; the callers' elements are integers, which any bytes are.
    unsafe { std::mem::transmute_copy(&packed) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn as_array(values: [__m256; 2]) -> [f32; 16] {
    // SAFETY: 64 bytes each; any bytes are floats.
    unsafe { std::mem::transmute(values) }
}
