//! Any work, compiled for the vector and bit instructions of the CPU.
//!
//! ```text
//! for_cpu(work)  =  work.run()
//! ```
//!
//! The same source is compiled twice: all code that [`run`](CpuWork::run) calls and that is marked
//! `#[inline(always)]` becomes part of one function for AVX2 and BMI, and of another one for any CPU.
//! On integers both produce the same bits, however the compiler optimizes them; do not use this module
//! for work on floats.

#![allow(unsafe_code, reason = "a function compiled for the CPU's features, behind a check")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Work to be compiled for the CPU's features.
pub trait CpuWork {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations must be marked `#[inline(always)]`, otherwise nothing is gained.
    fn run(self) -> Self::Output;
}

/// Does `work` with the features that the CPU has.
pub fn for_cpu<W: CpuWork>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
    {
        // SAFETY: the CPU has AVX2, BMI1 and BMI2, as checked just above.
        return unsafe { avx2(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn avx2<W: CpuWork>(work: W) -> W::Output {
    work.run()
}

/// Interleaves the elements of two vectors of `L` elements each: `a0 b0 a1 b1 ...`.
#[inline(always)]
pub(crate) fn interleaved<const L: usize>(a: [u8; 16], b: [u8; 16]) -> [[u8; 16]; 2] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { unpacked::<L>(a, b) };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 CPU that Rust's standard library runs on has NEON.
    return unsafe { zipped::<L>(a, b) };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return plain_interleaved::<L>(a, b);
}

/// The definition of [`interleaved`].
#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn plain_interleaved<const L: usize>(a: [u8; 16], b: [u8; 16]) -> [[u8; 16]; 2] {
    [0, L / 2].map(|first| {
        std::array::from_fn(|byte| {
            let (place, byte) = (byte * L / 16, byte % (16 / L));
            let from = (first + place / 2) * (16 / L) + byte;
            if place % 2 == 0 { a[from] } else { b[from] }
        })
    })
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn unpacked<const L: usize>(a: [u8; 16], b: [u8; 16]) -> [[u8; 16]; 2] {
    // SAFETY: 16 bytes each; any bytes are a vector.
    let [a, b] = [a, b].map(|bytes| unsafe { std::mem::transmute::<[u8; 16], __m128i>(bytes) });
    let both = match L {
        16 => [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)],
        8 => [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)],
        4 => [_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)],
        2 => [_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)],
        _ => unreachable!("elements have 1, 2, 4 or 8 bytes"),
    };
    // SAFETY: 16 bytes each; any bytes are integers.
    both.map(|vector| unsafe { std::mem::transmute::<__m128i, [u8; 16]>(vector) })
}

#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
fn zipped<const L: usize>(a: [u8; 16], b: [u8; 16]) -> [[u8; 16]; 2] {
    use std::arch::aarch64::*;
    // SAFETY: 16 bytes each; any bytes are a vector.
    let [a, b] = [a, b].map(|bytes| unsafe { std::mem::transmute::<[u8; 16], uint8x16_t>(bytes) });
    let [a16, b16] = [a, b].map(|v| vreinterpretq_u16_u8(v));
    let [a32, b32] = [a, b].map(|v| vreinterpretq_u32_u8(v));
    let [a64, b64] = [a, b].map(|v| vreinterpretq_u64_u8(v));
    let both = match L {
        16 => [vzip1q_u8(a, b), vzip2q_u8(a, b)],
        8 => [vzip1q_u16(a16, b16), vzip2q_u16(a16, b16)].map(|v| vreinterpretq_u8_u16(v)),
        4 => [vzip1q_u32(a32, b32), vzip2q_u32(a32, b32)].map(|v| vreinterpretq_u8_u32(v)),
        2 => [vzip1q_u64(a64, b64), vzip2q_u64(a64, b64)].map(|v| vreinterpretq_u8_u64(v)),
        _ => unreachable!("elements have 1, 2, 4 or 8 bytes"),
    };
    // SAFETY: 16 bytes each; any bytes are integers.
    both.map(|vector| unsafe { std::mem::transmute::<uint8x16_t, [u8; 16]>(vector) })
}

/// Returns a vector with the same two factors in every pair of words.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn pair(first: i16, second: i16) -> __m256i {
    _mm256_set1_epi32(i32::from(second) << 16 | i32::from(first as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u32]);

    impl CpuWork for Sum<'_> {
        type Output = u32;

        #[inline(always)]
        fn run(self) -> u32 {
            self.0.iter().sum()
        }
    }

    #[test]
    fn work_gives_what_it_gives() {
        let numbers: Vec<u32> = (0..100).collect();
        assert_eq!(for_cpu(Sum(&numbers)), Sum(&numbers).run());
    }

    #[test]
    fn elements_of_every_size_are_interleaved() {
        let (a, b) = (std::array::from_fn(|i| i as u8), std::array::from_fn(|i| 100 + i as u8));
        assert_eq!(interleaved::<16>(a, b), plain_interleaved::<16>(a, b));
        assert_eq!(interleaved::<8>(a, b), plain_interleaved::<8>(a, b));
        assert_eq!(interleaved::<4>(a, b), plain_interleaved::<4>(a, b));
        assert_eq!(interleaved::<2>(a, b), plain_interleaved::<2>(a, b));
        assert_eq!(plain_interleaved::<8>(a, b)[1][..6], [8, 9, 108, 109, 10, 11]);
    }
}
