//! Streams: the outputs of their combinators compared with plain lists, and a loader over them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that finds something else has failed"
)]

mod compositions;
mod concat;
mod golden;
mod loader;
mod model;
mod parts;
mod support;
mod threads;
