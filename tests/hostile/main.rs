//! Damaged, truncated, changing and hostile files.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[cfg(all(feature = "tar", feature = "tfrecord"))]
mod archives;
mod beton;
#[cfg(all(feature = "tar", feature = "write"))]
mod changing;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/counting.rs"]
mod counting;
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
mod jpeg;
mod truncated;
