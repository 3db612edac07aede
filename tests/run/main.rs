//! The engine's promises to its callers, by theme.
#![allow(clippy::unwrap_used, reason = "a test that finds something else has failed")]

mod damage;
mod endings;
mod finish;
mod headroom;
mod memory;
mod order;
mod support;
mod unordered;
