//! The ops against torchvision, Pillow, OpenCV, Albumentations and timm: the goldens are written by
//! `scripts/ops_goldens.py`, which describes each file, and by the scripts beside them.
//!
//! Every case runs through the oracle and the compiled kernel, which must agree bit for bit. The draws
//! are set by hand or come from ranges of one value, because goldens contain no randomness.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test ends where it fails")]

mod albumentations;
mod arrays;
mod audio;
mod aug_mix;
mod basic;
mod channels;
mod dtypes;
mod erase;
mod geometry;
mod neighbour;
mod point;
mod policies;
mod support;
mod timm;
mod warp;
