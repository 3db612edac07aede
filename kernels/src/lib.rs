//! Precompiled row functions that compiled loops call.
//!
//! They do work for which Cranelift has no instruction, or only a 128-bit one: converting rows of `f32`
//! to other types, normalizing rows of bytes on the way, and storing around the caches.
//! [`ROW_FUNCTIONS`] lists the functions. Each has two implementations that produce the same bits: a
//! portable one, which is the reference, and a fast one for CPUs with the required features.
//!
//! | file      |                                                                     |
//! |-----------|---------------------------------------------------------------------|
//! | `rows`    | conversions of a value to another type                              |
//! | `source`  | sources of the values                                               |
//! | `entry`   | source and conversion combined into functions on row addresses, with ordinary or streaming stores |
//! | `filter`  | row filters of `fuseloop_ops::internals::rows`, compiled for the CPU's vectors |
//! | `warp`    | the rows of warps, eight pixels at a time                            |
//! | `mix`     | mixing of two rows of a batch, in place                             |
//! | `bytes`   | copies, inversions and look-ups of bytes                              |
//! | `convert` | conversions of labels and arrays between any two types              |
//! | `cpu`     | any integer code, compiled for the CPU's features                   |
//! | `bit_planes` | coefficients of a JPEG's blocks as bit planes                    |
//! | `idct`    | the inverse DCT of a JPEG's blocks                                  |
//! | `idct_scaled` | the same at 1/2, 1/4 or 1/8 of a block's size                   |
//! | `color`   | colour conversion of a JPEG's rows                                  |
//! | `yuv`     | colour conversion of video: rows of any subsampling to RGB          |
//! | `planes`  | copies between adjacent channels and planes                         |
//! | `vp8`     | transforms, loop filter and colour conversion of lossy WebP images  |
//! | `vp8l`    | inverse transforms of lossless WebP images                           |
//! | `shipped` | GPU kernels that are shipped precompiled: needs the feature `cuda`     |
//!
//! `cuda/` contains the prelude of GPU kernels, [`CUDA_PRELUDE`], and a header by which a host compiler builds them for
//! tests. `ptx/` contains the kernels that are shipped precompiled.

pub mod bit_planes;
pub mod bytes;
mod color;
pub mod convert;
mod cpu;
mod entry;
mod filter;
mod idct;
mod idct_scaled;
#[cfg(all(windows, target_env = "gnu"))]
mod mingw;
pub mod mix;
pub mod planes;
mod rows;
#[cfg(feature = "cuda")]
mod shipped;
mod source;
pub mod vp8;
pub mod vp8l;
#[cfg(target_arch = "x86_64")]
mod warp;
mod yuv;

pub use color::{gray_row, ycbcr_row};
pub use cpu::{CpuWork, Deposit, DepositWork, for_cpu, for_cpu_deposit};
pub use entry::{RowEntry, end_streams};
pub use filter::{filter_row, float_row};
pub use idct::{ORDER, POSITIONS, idct, idct_flat, idct_pair, store_block};
pub use idct_scaled::idct_scaled;
#[cfg(feature = "cuda")]
pub use shipped::{SHIPPED_PTX, shipped_ptx};
pub use source::Numbers;
pub use yuv::{YuvPicture, YuvRows, YuvToRgb, yuv_window};

/// The text at the start of every generated GPU kernel: loads, stores and roundings, in CUDA C without
/// headers.
pub const CUDA_PRELUDE: &str = include_str!("../cuda/fuseloop.cuh");

#[cfg(target_arch = "aarch64")]
use entry::by_blocks;
use entry::portable;
#[cfg(target_arch = "x86_64")]
use entry::{stored, streamed};
use rows::{ToBf16, ToF16, ToF32, ToF64, ToI16, ToI32, ToI64, ToU16};
use source::{Floats, Interleaved, Plane};

/// A precompiled function that converts one row, and that compiled code calls.
#[derive(Clone, Copy, Debug)]
pub struct RowFunction {
    /// The name that compiled code uses.
    pub name: &'static str,
    /// A description of the input and the output.
    pub description: &'static str,
    fast: RowEntry,
    portable: RowEntry,
}

impl RowFunction {
    /// The CPU features that the fast implementations need on x86-64.
    pub const REQUIRED_FEATURES: &'static str = "AVX2, FMA and F16C";

    /// Returns the row function called `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ROW_FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// Returns true if this CPU has the features that the fast implementations need.
    #[must_use]
    pub fn has_required_features() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c");
        #[cfg(not(target_arch = "x86_64"))]
        return cfg!(target_arch = "aarch64");
    }

    /// Returns the implementation for this CPU.
    #[must_use]
    pub fn entry(&self) -> RowEntry {
        if Self::has_required_features() { self.fast } else { self.portable }
    }

    /// Returns the implementation for any CPU, which produces the same bits.
    #[must_use]
    pub const fn portable(&self) -> RowEntry {
        self.portable
    }
}

/// Lists the row functions from one source to one type, with ordinary and with streaming stores.
macro_rules! row_functions {
    ($($source:ty, $to:ty: $stored:literal, $streamed:literal, $does:literal;)*) => {
        [$(
            RowFunction {
                name: $stored,
                description: $does,
                #[cfg(target_arch = "x86_64")]
                fast: stored::<$source, $to>,
                #[cfg(target_arch = "aarch64")]
                fast: by_blocks::<$source, $to>,
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                fast: portable::<$source, $to>,
                portable: portable::<$source, $to>,
            },
            RowFunction {
                name: $streamed,
                description: concat!($does, ", around the caches"),
                #[cfg(target_arch = "x86_64")]
                fast: streamed::<$source, $to>,
                #[cfg(target_arch = "aarch64")]
                fast: by_blocks::<$source, $to>,
                #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
                fast: portable::<$source, $to>,
                portable: portable::<$source, $to>,
            },
        )*]
    };
}

/// All row functions.
pub static ROW_FUNCTIONS: [RowFunction; 28] = row_functions! {
    Floats, ToF32: "floats_f32", "floats_f32_streamed", "f32 to f32";
    Floats, ToF16: "floats_f16", "floats_f16_streamed", "f32 to f16";
    Floats, ToBf16: "floats_bf16", "floats_bf16_streamed", "f32 to bf16";
    Floats, ToU16: "floats_u16", "floats_u16_streamed", "f32 to u16";
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
