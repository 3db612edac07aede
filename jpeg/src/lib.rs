//! JPEG: decodes no more of an image than a window needs.
//!
//! [`WindowDecoder`] decodes windows of the usual files, and the rows of others; also windows of images of bit planes,
//! which hold the same coefficients. This crate knows no files, starts no thread, and has no unsafe code; the arithmetic of
//! rows and blocks is that of `fuseloop_kernels`. Which files are left to another decoder, `decode/jpeg` of the library
//! says. It is a crate of its own so that a build for size can leave it as fast as it is.
//!
//! | file       |                                                            |
//! |------------|------------------------------------------------------------|
//! | `segments` | the segments of the headers, one after the other           |
//! | `headers`  | their fields                                               |
//! | `colours`  | which colours the components are                           |
//! | `scans`    | where the coded data are, and what they must have          |
//! | `index`    | the index of a file's restart markers                      |
//! | `scale`    | the size at which an image is decoded                      |
//! | `window_cut` | a copy of a file, cut down to a window, for another decoder |
//! | `bit_planes` | the layout of an image of bit planes                     |
//! | `decoder`  | from bytes to pixels, and the files that this takes        |
//! | `error`    | the errors of all of them                                  |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![allow(missing_docs, reason = "the library alone uses this crate")]

mod bit_planes;
mod bits;
mod coefficients;
mod colours;
mod decoder;
mod entropy;
mod error;
mod frame;
mod headers;
mod huffman;
pub mod index;
mod mcu_reader;
mod mcu_row;
mod progressive;
mod progressive_scan;
mod sample_plane;
mod scale;
#[cfg(feature = "write")]
mod scan_coder;
mod scans;
mod segments;
mod sequential;
mod standard_tables;
mod tile_reader;
mod upsample;
mod window_cut;

pub use bit_planes::{BIT_PLANES_MAGIC, BitPlaneImage, BitPlaneLayout, FIXED, header_bytes};
#[cfg(feature = "write")]
pub use bit_planes::{resealed, seal_headers};
pub use colours::{Colours, gray_level};
pub use decoder::{IndexedJpeg, Wanted, WindowDecoder, needed_mcus};
pub use error::{FIRST_BYTES, JpegError};
pub use frame::is_sampled_simply;
pub use headers::{APP14, Component, DHT, DQT, DRI, Headers, Scan, Vec4, cut_short};
pub use scale::Scale;
#[cfg(feature = "write")]
pub use scan_coder::{Blocks, ScanCoder};
pub use scans::{
    Grid, MAX_SCANS, Markers, ProgressiveScan, Scans, SingleScan, coefficient_bytes, end_of_data,
    max_factors, segment_count,
};
pub use segments::{APP1, EOI, SOI, SOS, Segment, SegmentError, Segments, be16, is_frame};
pub use standard_tables::STANDARD_TABLES;
pub use window_cut::{MOST_ADDED, WindowCut, tile_interval};
