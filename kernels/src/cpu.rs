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
//!
//! Work that deposits bits ([`DepositWork`]) is compiled for the CPU's `pdep` and, where there is none or a slow one, for
//! steps a bit.

#![allow(unsafe_code, reason = "a function compiled for the CPU's features, behind a check")]

#[cfg(target_arch = "x86_64")]
use crate::bit_planes::{Form, Kind};
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
        && std::arch::is_x86_feature_detected!("lzcnt")
    {
        // SAFETY: the CPU has AVX2, BMI1, BMI2 and LZCNT, as checked just above.
        return unsafe { avx2(work) };
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn avx2<W: CpuWork>(work: W) -> W::Output {
    work.run()
}

/// Defines `fast` and `sixteens`, which convert a row of luma and two rows of chroma, whose samples have type `$chroma`, to
/// RGB, by the function `sixteen` of the module: it converts 16 pixels by AVX2 or NEON, and takes the numbers `$to` first if
/// there are some.
macro_rules! rgb_by_sixteens {
    ($chroma:ty $(, $to:ident: $numbers:ty)?) => {
        /// Writes as many pixels as the CPU's vectors can handle, and returns the number.
        fn fast(
            $($to: $numbers,)?
            y: &[u8],
            cb: &[$chroma],
            cr: &[$chroma],
            out: &mut [u8],
        ) -> usize {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU has AVX2, as checked just above.
                return unsafe { sixteens($($to,)? y, cb, cr, out) };
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: every aarch64 CPU that Rust's standard library runs on has NEON.
            return unsafe { sixteens($($to,)? y, cb, cr, out) };
            #[cfg(not(target_arch = "aarch64"))]
            {
                let _ = ($($to,)? y, cb, cr, out);
                0
            }
        }

        /// Writes all pixels except up to 15, and returns the number.
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2"))]
        #[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon"))]
        fn sixteens(
            $($to: $numbers,)?
            y: &[u8],
            cb: &[$chroma],
            cr: &[$chroma],
            out: &mut [u8],
        ) -> usize {
            let (y, cb, cr) = (y.as_chunks().0, cb.as_chunks().0, cr.as_chunks().0);
            let mut done = 0;
            for (((out, y), cb), cr) in
                out.as_chunks_mut::<48>().0.iter_mut().zip(y).zip(cb).zip(cr)
            {
                *out = sixteen($($to,)? y, cb, cr);
                done += 16;
            }
            done
        }
    };
}
pub(crate) use rgb_by_sixteens;

/// Work on masks, to be compiled for the CPU's features.
pub trait DepositWork {
    /// The result of the work.
    type Output;

    /// Does the work. Implementations must be marked `#[inline(always)]`, otherwise nothing is gained.
    fn run<D: Deposit>(self, deposit: D) -> Self::Output;
}

/// The selection of set bits of a mask.
pub trait Deposit: Copy {
    /// Returns the low bits of `bits` at the set bits of `mask`, from the lowest one on.
    fn deposit(self, bits: u64, mask: u64) -> u64;

    /// Returns set bit `n` of `mask`, counted from 0 and the lowest one; 0 if there is none. `n` is below 64.
    fn nth(self, n: usize, mask: u64) -> u64;
}

/// Does `work` with the features that the CPU has.
pub fn for_cpu_deposit<W: DepositWork>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if Form::of_cpu().0 != Kind::Portable {
        // SAFETY: the CPU has the features of a form that exists, and those other than the portable one need AVX2, BMI1,
        // BMI2, POPCNT and LZCNT.
        return unsafe { with_pdep(work) };
    }
    for_cpu(BySteps(work))
}

/// Work that deposits bits one by one.
struct BySteps<W>(W);

impl<W: DepositWork> CpuWork for BySteps<W> {
    type Output = W::Output;

    #[inline(always)]
    fn run(self) -> W::Output {
        self.0.run(Steps)
    }
}

/// A step a bit. This is the reference implementation.
#[derive(Clone, Copy, Debug)]
struct Steps;

impl Deposit for Steps {
    #[inline(always)]
    fn deposit(self, mut bits: u64, mut mask: u64) -> u64 {
        let mut deposited = 0;
        while mask != 0 {
            let lowest = mask & mask.wrapping_neg();
            deposited |= if bits & 1 == 1 { lowest } else { 0 };
            (bits, mask) = (bits >> 1, mask ^ lowest);
        }
        deposited
    }

    #[inline(always)]
    fn nth(self, n: usize, mut mask: u64) -> u64 {
        for _ in 0..n {
            mask &= mask.wrapping_sub(1);
        }
        mask & mask.wrapping_neg()
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn with_pdep<W: DepositWork>(work: W) -> W::Output {
    work.run(Pdep(()))
}

/// One instruction. A value exists only inside [`with_pdep`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Pdep(());

#[cfg(target_arch = "x86_64")]
impl Deposit for Pdep {
    #[inline(always)]
    fn deposit(self, bits: u64, mask: u64) -> u64 {
        // SAFETY: the CPU has BMI2: `with_pdep` alone makes a `Pdep`.
        unsafe { _pdep_u64(bits, mask) }
    }

    #[inline(always)]
    fn nth(self, n: usize, mask: u64) -> u64 {
        self.deposit(1 << (n & 63), mask)
    }
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

    /// Deposits and selections in a mask.
    struct Deposits(u64, u64);

    impl DepositWork for Deposits {
        type Output = [u64; 4];

        #[inline(always)]
        fn run<D: Deposit>(self, deposit: D) -> [u64; 4] {
            let Self(bits, mask) = self;
            let [few, many] = [bits % 16, bits % 64].map(|n| deposit.nth(n as usize, mask));
            [deposit.deposit(bits, mask), few, many, deposit.nth(0, mask)]
        }
    }

    #[test]
    fn bits_are_deposited_as_step_by_step() {
        assert_eq!(Deposits(0b101, 0b1101_0000).run(Steps)[0], 0b1001_0000);
        assert_eq!([0, 2, 3].map(|n| Steps.nth(n, 0b1101_0000)), [1 << 4, 1 << 7, 0]);
        let mut bits = 1_u64;
        for n in 0..1000 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(n);
            let mask = bits.rotate_left(17) & bits.wrapping_mul(3).rotate_left(n as u32);
            for mask in [mask, !mask, 0, !0] {
                let found = for_cpu_deposit(Deposits(bits, mask));
                assert_eq!(found, Deposits(bits, mask).run(Steps), "{bits:x} {mask:x}");
            }
        }
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
