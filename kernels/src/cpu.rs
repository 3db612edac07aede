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

/// Returns a vector with the same two factors in every pair of words.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn pair(first: i16, second: i16) -> std::arch::x86_64::__m256i {
    std::arch::x86_64::_mm256_set1_epi32(i32::from(second) << 16 | i32::from(first as u16))
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
}
