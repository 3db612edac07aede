//! The ops against torchvision, Pillow, OpenCV and timm: goldens by `scripts/ops_goldens.py`, which
//! says what lies in which file.
//!
//! Every case goes through the oracle and the compiled kernel, which must agree bit for bit, with
//! draws set by hand or ranges of one value: goldens hold no randomness.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test ends where it fails")]

mod aug_mix;
mod basic;
mod erase;
mod geometry;
mod neighbour;
mod point;
mod policies;
mod support;
mod timm;
mod warp;
