//! Precompiled row functions that compiled loops call.
//!
//! What Cranelift has no instruction for, or only 128 bits wide: the conversions of a row of
//! `f32` to half precision, and stores that go around the caches. Each function comes three times over, with the same bits: a portable
//! twin that is the meaning, the fast form behind a check of the CPU, and a C entry for compiled
//! code. Where code pages are refused, the safe functions serve as they are.
//!
//! [`filter_row`] is the rows of `fuseloop_ops::rows`, compiled for the CPU's vectors.

mod filter;
pub mod mix;
mod rows;
mod stream;

pub use filter::filter_row;
pub use rows::{
    bf16_portable, f16_portable, f32_to_bf16, f32_to_f16, fuseloop_row_bf16, fuseloop_row_f16,
};
pub use stream::{end_streams, fuseloop_row_stream, stream_row};
