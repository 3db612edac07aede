//! Loaders: their rows, orders, caches, outputs and pipeline files; and `verify`.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod arrays;
#[cfg(feature = "audio")]
mod audio;
#[cfg(all(feature = "audio", feature = "write"))]
mod audio_folder;
#[cfg(feature = "write")]
mod bit_planes;
#[cfg(feature = "write")]
mod bucketed;
#[cfg(feature = "write")]
mod cache;
#[cfg(all(feature = "tables", feature = "video", feature = "write"))]
mod clip_store;
#[cfg(all(feature = "spec", feature = "video", feature = "write"))]
mod clip_targets;
#[cfg(feature = "tables")]
mod clips;
#[cfg(all(feature = "spec", feature = "write"))]
mod collate;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/counting.rs"]
mod counting;
mod epoch_hash;
#[cfg(all(feature = "tables", feature = "tar", feature = "write"))]
mod errors;
#[cfg(all(feature = "spec", feature = "write", target_arch = "x86_64"))]
mod float_modes;
#[cfg(feature = "write")]
mod functions;
mod headroom;
mod image_lists;
#[cfg(feature = "write")]
mod in_memory;
#[cfg(all(feature = "parquet", feature = "video"))]
mod lerobot;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(all(feature = "spec", feature = "write"))]
mod mistakes;
mod mixed_arrays;
#[cfg(feature = "write")]
mod mixed_targets;
mod mixture;
mod multi_image;
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
mod no_code;
mod numbers;
mod order;
mod order_chance;
mod orientation;
#[cfg(feature = "write")]
mod partly_read;
#[cfg(feature = "write")]
mod preview;
#[cfg(feature = "write")]
mod preview_targets;
#[cfg(feature = "write")]
mod raw_rows;
#[cfg(feature = "write")]
mod read_modes;
#[cfg(feature = "write")]
mod rows;
#[cfg(feature = "write")]
mod runtime;
#[cfg(feature = "write")]
mod scaled_decode;
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
mod spec;
mod stalls;
mod targets;
mod thousand_ranks;
mod transform;
#[cfg(feature = "write")]
mod verify;
#[cfg(feature = "write")]
mod verify_objects;
#[cfg(feature = "video")]
mod video;
#[cfg(feature = "write")]
mod views;
#[cfg(all(feature = "tar", feature = "tiff", feature = "webp", feature = "write"))]
mod webp_tiff;
