//! Fused multiplications with an addition where the C library rounds twice.
//!
//! Without a target feature, `mul_add` calls `fmaf` and `fma` of the C library. Those of mingw-w64 round wrongly in one of
//! four cases, so that the evaluator and compiled loops would differ on `x86_64-pc-windows-gnu`. The linker takes these
//! functions instead, which are compiled with the program, before it looks in that library.

#![allow(unsafe_code, reason = "functions by the names of the C library's, with their signatures")]

// SAFETY: this is the signature and the meaning of C's `fmaf`.
#[unsafe(no_mangle)]
extern "C" fn fmaf(x: f32, y: f32, z: f32) -> f32 {
    libm::fmaf(x, y, z)
}

// SAFETY: this is the signature and the meaning of C's `fma`.
#[unsafe(no_mangle)]
extern "C" fn fma(x: f64, y: f64, z: f64) -> f64 {
    libm::fma(x, y, z)
}
