//! Sources of samples: `.beton` files and their pages, folders, streams, generators, URLs, and sources of users.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod beton_golden;
#[cfg(feature = "write")]
mod beton_shards;
#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "write")]
mod folder;
#[cfg(feature = "write")]
mod generator;
#[cfg(all(feature = "parquet", feature = "remote"))]
mod hub;
#[cfg(all(feature = "tar", feature = "tfrecord", feature = "write"))]
mod joined;
#[cfg(feature = "mds")]
mod mds;
mod mnist_cifar;
#[cfg(feature = "write")]
mod own_source;
mod pages;
#[cfg(all(feature = "remote", feature = "tar", feature = "write"))]
mod remote;
mod stream;
