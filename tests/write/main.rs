//! Writers and conversions: what they write, and what is left of one that is killed.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../common/mod.rs"]
mod common;
mod convert_kill;
mod destinations;
mod kill;
#[cfg(all(feature = "tables", feature = "tar", feature = "tfrecord"))]
mod masks;
#[cfg(feature = "mds")]
mod mds;
#[cfg(all(feature = "tables", feature = "tar", feature = "tfrecord"))]
mod notes;
#[cfg(all(feature = "tables", feature = "tar"))]
mod objects;
mod parts;
#[cfg(all(feature = "tables", feature = "tar"))]
mod writer;
