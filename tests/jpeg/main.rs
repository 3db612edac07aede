//! The pixels of JPEGs: whole images, windows and edges, as they are and re-cut.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../common/mod.rs"]
mod common;
mod core;
mod decode;
mod edges;
#[cfg(feature = "write")]
mod parts;
#[cfg(feature = "write")]
mod planes;
#[cfg(feature = "write")]
mod recut;
#[cfg(feature = "write")]
mod scaled;
mod scans;
mod strangers;
#[cfg(feature = "write")]
mod windows;

use jpeg_encoder::SamplingFactor;

/// The factors that images are encoded with; none for gray ones.
const SAMPLINGS: [Option<SamplingFactor>; 5] = [
    None,
    Some(SamplingFactor::R_4_4_4),
    Some(SamplingFactor::R_4_4_0),
    Some(SamplingFactor::R_4_2_2),
    Some(SamplingFactor::R_4_2_0),
];
