//! Lists of ops: how they are planned, what their compiled code computes, and which bytes it accesses.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod arrays;
mod channels;
mod chunks;
#[path = "../common/mod.rs"]
mod common;
mod fused_equals_evaluated;
mod golden_ir;
mod interpreted;
mod jit_threads;
mod limits;
mod memcheck;
#[cfg(feature = "write")]
mod mix;
mod own_ops;
mod passes;
mod plans;
mod portable;
mod vectors;
