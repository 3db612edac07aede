//! `f32` rows to `f16` and `bf16`, rounded to nearest, ties to even.
//!
//! ```text
//! dst[i] = bits of the f16 (bf16) nearest to src[i]
//! ```
//!
//! Overflow gives infinity, f16 denormals are kept, a NaN stays a NaN: its payload is cut and
//! its quiet bit set. Bit for bit `half::f16::from_f32` and `half::bf16::from_f32`, on any CPU.
//!
//! | on x86-64 with | f16                          | bf16                       |
//! |----------------|------------------------------|----------------------------|
//! | AVX2, F16C     | 8 values an instruction      | 8 values a pass, integers  |
//! | neither        | `half`, one value at a time  | 4 values a pass, integers  |

#![allow(unsafe_code, reason = "vector intrinsics behind a CPU check; entries for compiled code")]

/// Converts a row to half precision.
///
/// # Panics
///
/// If the rows are not of one length.
pub fn f32_to_f16(src: &[f32], dst: &mut [u16]) {
    assert_eq!(src.len(), dst.len(), "values in and out");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") && std::arch::is_x86_feature_detected!("f16c") {
        // SAFETY: the CPU has AVX and F16C, asked just above.
        return unsafe { f16_f16c(src, dst) };
    }
    f16_portable(src, dst);
}

/// Converts a row to bfloat16.
///
/// # Panics
///
/// If the rows are not of one length.
pub fn f32_to_bf16(src: &[f32], dst: &mut [u16]) {
    assert_eq!(src.len(), dst.len(), "values in and out");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2, asked just above.
        return unsafe { bf16_avx2(src, dst) };
    }
    bf16_integers(src, dst);
}

/// What [`f32_to_f16`] means, one value at a time.
pub fn f16_portable(src: &[f32], dst: &mut [u16]) {
    for (out, &value) in dst.iter_mut().zip(src) {
        *out = half::f16::from_f32_const(value).to_bits();
    }
}

/// What [`f32_to_bf16`] means, one value at a time.
pub fn bf16_portable(src: &[f32], dst: &mut [u16]) {
    for (out, &value) in dst.iter_mut().zip(src) {
        *out = half::bf16::from_f32(value).to_bits();
    }
}

/// [`f32_to_f16`] for compiled code.
///
/// # Safety
///
/// `src` must be good for reading `n` values and `dst` for writing `n`, both aligned to their
/// type, and the two must not overlap. With `n` 0 neither pointer is looked at. It returns, does
/// not unwind, and keeps nothing.
pub unsafe extern "C" fn fuseloop_row_f16(src: *const f32, dst: *mut u16, n: u64) {
    if n == 0 {
        return;
    }
    // SAFETY: this function's own contract. `n` values exist, so `n` fits a `usize`.
    let (src, dst) = unsafe { rows(src, dst, n as usize) };
    f32_to_f16(src, dst);
}

/// [`f32_to_bf16`] for compiled code.
///
/// # Safety
///
/// As [`fuseloop_row_f16`].
pub unsafe extern "C" fn fuseloop_row_bf16(src: *const f32, dst: *mut u16, n: u64) {
    if n == 0 {
        return;
    }
    // SAFETY: this function's own contract. `n` values exist, so `n` fits a `usize`.
    let (src, dst) = unsafe { rows(src, dst, n as usize) };
    f32_to_bf16(src, dst);
}

/// The two rows that compiled code points at.
///
/// # Safety
///
/// As [`fuseloop_row_f16`], with `n` not 0, for as long as the rows are used.
unsafe fn rows<'a>(src: *const f32, dst: *mut u16, n: usize) -> (&'a [f32], &'a mut [u16]) {
    // SAFETY: the caller's promise: readable, writable, aligned, apart.
    unsafe { (std::slice::from_raw_parts(src, n), std::slice::from_raw_parts_mut(dst, n)) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,f16c")]
fn f16_f16c(src: &[f32], dst: &mut [u16]) {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
    };
    let (values, tail) = src.as_chunks::<8>();
    let (outs, out_tail) = dst.as_chunks_mut::<8>();
    for (out, eight) in outs.iter_mut().zip(values) {
        // SAFETY: `eight` is 32 bytes to read and `out` 16 to write; neither need be aligned.
        unsafe {
            let bits =
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(eight.as_ptr()));
            _mm_storeu_si128(out.as_mut_ptr().cast(), bits);
        }
    }
    if !tail.is_empty() {
        // The same instruction for the last few: a row's end has no path of its own.
        let (mut eight, mut out) = ([0.0; 8], [0; 8]);
        eight[..tail.len()].copy_from_slice(tail);
        // SAFETY: as above.
        unsafe {
            let bits =
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(eight.as_ptr()));
            _mm_storeu_si128(out.as_mut_ptr().cast(), bits);
        }
        out_tail.copy_from_slice(&out[..tail.len()]);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn bf16_avx2(src: &[f32], dst: &mut [u16]) {
    bf16_integers(src, dst);
}

/// Without branches, so that the compiler makes vectors of it, as wide as the caller's CPU.
#[inline(always)]
fn bf16_integers(src: &[f32], dst: &mut [u16]) {
    for (out, value) in dst.iter_mut().zip(src) {
        let bits = value.to_bits();
        // Half of the last place kept, less one: odd numbers round up at the tie, even ones down.
        let rounded = (bits + (0x7fff + ((bits >> 16) & 1)) * u32::from(!value.is_nan())) >> 16;
        let quiet = u32::from(value.is_nan()) << 6;
        *out = (rounded | quiet) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = fn(&[f32], &mut [u16]);

    fn assert_same(fast: Row, twin: Row, src: &[f32]) {
        let (mut a, mut b) = (vec![0; src.len()], vec![0; src.len()]);
        fast(src, &mut a);
        twin(src, &mut b);
        for ((a, b), value) in a.iter().zip(&b).zip(src) {
            assert_eq!(a, b, "{value} = {:#010x}", value.to_bits());
        }
    }

    /// Every sign and exponent, with mantissas around the ties of both formats.
    fn edges() -> Vec<f32> {
        let ties =
            [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000, 0x8001];
        let more = [0x17fff, 0x18000, 0x18001, 0x3f_ffff, 0x40_0000, 0x7f_efff, 0x7f_ffff];
        let mantissas = || ties.into_iter().chain(more);
        (0..512).flat_map(|top| mantissas().map(move |m| f32::from_bits(top << 23 | m))).collect()
    }

    #[test]
    fn both_forms_agree_on_ties_denormals_infinities_and_nans() {
        assert_same(f32_to_f16, f16_portable, &edges());
        assert_same(f32_to_bf16, bf16_portable, &edges());
        assert_same(bf16_integers, bf16_portable, &edges());
    }

    #[test]
    fn both_forms_agree_on_any_bits_and_length() {
        arbtest::arbtest(|u| {
            let len = u.int_in_range(0..=70)?;
            let src: Vec<f32> =
                (0..len).map(|_| u.arbitrary().map(f32::from_bits)).collect::<Result<_, _>>()?;
            assert_same(f32_to_f16, f16_portable, &src);
            assert_same(f32_to_bf16, bf16_portable, &src);
            Ok(())
        });
    }

    #[test]
    fn every_length_is_written_whole_and_nothing_else() {
        for len in 0..=70 {
            for row in [fuseloop_row_f16, fuseloop_row_bf16] {
                let (src, mut dst) = (vec![1.0f32; len], vec![0xabcd; len + 1]);
                // SAFETY: `len` values in each, of two vectors.
                unsafe { row(src.as_ptr(), dst.as_mut_ptr(), len as u64) };
                assert_eq!(dst.pop(), Some(0xabcd), "behind {len} values");
                assert!(dst.iter().all(|&bits| bits == 0x3c00 || bits == 0x3f80), "{len} values");
            }
        }
    }

    #[test]
    fn no_values_need_no_memory() {
        // SAFETY: with `n` 0 the pointers are not looked at.
        unsafe { fuseloop_row_f16(std::ptr::null(), std::ptr::null_mut(), 0) };
        // SAFETY: as above.
        unsafe { fuseloop_row_bf16(std::ptr::null(), std::ptr::null_mut(), 0) };
    }

    #[test]
    #[should_panic(expected = "values in and out")]
    fn rows_of_two_lengths_are_a_mistake() {
        f32_to_f16(&[0.0; 3], &mut [0; 2]);
    }
}
