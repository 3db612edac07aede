//! Precompiled row functions that compiled loops call.
//!
//! What Cranelift has no instruction for, or only 128 bits wide: rows of `f32` to other types, rows
//! of bytes normalized on the way, and stores that go around the caches. [`ROW_FUNCTIONS`] lists
//! them. Each comes twice, with the same bits: a portable twin that is the meaning, and the fast
//! form for CPUs that have what it wants.
//!
//! | file | |
//! |---|---|
//! | `rows` | what a value becomes as another type |
//! | `source` | what the values are made from |
//! | `entry` | both put together, stored or streamed, for a row by address |
//! | `filter` | the rows of `fuseloop_ops::rows`, compiled for the CPU's vectors |
//! | `mix` | rows of a batch mixed in place |
//! | `cpu` | any work, compiled for the CPU |
//! | `idct` | blocks of a JPEG |
//! | `color` | rows of a JPEG's pixels |
//! | `shipped` | GPU kernels compiled beforehand |
//!
//! `cuda/` has what GPU kernels are written in: [`CUDA_PRELUDE`].

mod color;
mod cpu;
mod entry;
mod filter;
mod idct;
pub mod mix;
mod rows;
mod shipped;
mod source;

pub use color::{gray_row, ycbcr_row};
pub use cpu::{Work, for_cpu};
pub use entry::{Entry, end_streams};
pub use filter::filter_row;
pub use idct::{ORDER, idct, idct_flat};
pub use shipped::{SHIPPED_PTX, shipped_ptx};
pub use source::Numbers;

/// What generated GPU kernels begin with: loads, stores and roundings, in CUDA C without headers.
pub const CUDA_PRELUDE: &str = include_str!("../cuda/fuseloop.cuh");

use entry::portable;
#[cfg(target_arch = "x86_64")]
use entry::{stored, streamed};
use rows::{ToBf16, ToF16, ToF32, ToF64, ToI16, ToI32, ToI64};
use source::{Floats, Interleaved, Plane};

/// A row function.
#[derive(Clone, Copy, Debug)]
pub struct RowFunction {
    /// What compiled code calls it.
    pub name: &'static str,
    /// What it makes of what.
    pub does: &'static str,
    fast: Entry,
    portable: Entry,
}

impl RowFunction {
    /// What the CPU must have for the fast forms.
    pub const WANTS: &'static str = "AVX2, FMA and F16C";

    /// The row function called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ROW_FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// Whether this CPU has what the fast forms want.
    #[must_use]
    pub fn are_fast() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c");
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// The form for this CPU.
    #[must_use]
    pub fn entry(&self) -> Entry {
        if Self::are_fast() { self.fast } else { self.portable }
    }

    /// The form for any CPU, which gives the same bits.
    #[must_use]
    pub const fn portable(&self) -> Entry {
        self.portable
    }
}

/// Rows from one source to one type, stored and streamed.
macro_rules! row_functions {
    ($($source:ty, $to:ty: $stored:literal, $streamed:literal, $does:literal;)*) => {
        [$(
            RowFunction {
                name: $stored,
                does: $does,
                #[cfg(target_arch = "x86_64")]
                fast: stored::<$source, $to>,
                #[cfg(not(target_arch = "x86_64"))]
                fast: portable::<$source, $to>,
                portable: portable::<$source, $to>,
            },
            RowFunction {
                name: $streamed,
                does: concat!($does, ", around the caches"),
                #[cfg(target_arch = "x86_64")]
                fast: streamed::<$source, $to>,
                #[cfg(not(target_arch = "x86_64"))]
                fast: portable::<$source, $to>,
                portable: portable::<$source, $to>,
            },
        )*]
    };
}

/// All row functions.
pub static ROW_FUNCTIONS: [RowFunction; 26] = row_functions! {
    Floats, ToF32: "floats_f32", "floats_f32_streamed", "f32 to f32";
    Floats, ToF16: "floats_f16", "floats_f16_streamed", "f32 to f16";
    Floats, ToBf16: "floats_bf16", "floats_bf16_streamed", "f32 to bf16";
    Floats, ToI16: "floats_i16", "floats_i16_streamed", "f32 to i16";
    Floats, ToI32: "floats_i32", "floats_i32_streamed", "f32 to i32";
    Floats, ToI64: "floats_i64", "floats_i64_streamed", "f32 to i64";
    Floats, ToF64: "floats_f64", "floats_f64_streamed", "f32 to f64";
    Plane, ToF32: "plane_f32", "plane_f32_streamed", "u8 of a plane, normalized, to f32";
    Plane, ToF16: "plane_f16", "plane_f16_streamed", "u8 of a plane, normalized, to f16";
    Plane, ToBf16: "plane_bf16", "plane_bf16_streamed", "u8 of a plane, normalized, to bf16";
    Interleaved, ToF32: "pixels_f32", "pixels_f32_streamed", "u8 pixels, normalized, to f32";
    Interleaved, ToF16: "pixels_f16", "pixels_f16_streamed", "u8 pixels, normalized, to f16";
    Interleaved, ToBf16: "pixels_bf16", "pixels_bf16_streamed", "u8 pixels, normalized, to bf16";
};

#[cfg(test)]
mod tests;
