//! Lossy WebP images: windows of VP8 key frames (RFC 6386), to the pixels of libwebp.
//!
//! [`LossyDecoder`] decodes a window of the frame in a file's chunk "VP8 ". Rows below the window are not read; where the
//! format allows it, pixels outside of it are neither filtered nor converted. The transforms, the loop filter and the
//! conversion to RGB are those of `fuseloop_kernels::vp8`. This crate knows no files, starts no thread, and has no
//! unsafe code.
//!
//! | file           |                                                                         |
//! |----------------|-------------------------------------------------------------------------|
//! | `header`       | the header of a frame, and its partitions                                 |
//! | `bool_decoder` | the boolean entropy decoder                                             |
//! | `modes`        | the predictions of macroblocks, as read                                   |
//! | `tokens`       | their coefficients                                                      |
//! | `predict`      | their pixels, of predictions and coefficients                             |
//! | `decoder`      | the rows that a window needs, filtered and converted                      |
//! | `alpha`        | the alpha of a lossy image, beside its frame                              |
//! | `tables`       | constants                                                               |
//! | `error`        | the error of all of them                                                |

#![forbid(unsafe_code)]

mod alpha;
mod bits;
mod bool_decoder;
mod decoder;
mod entropy;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod lossless;
mod modes;
mod predict;
mod prefix;
mod tables;
mod tokens;
mod transform;

pub use alpha::AlphaChunk;
pub use decoder::LossyDecoder;
pub use error::{LosslessError, LossyError};
pub use header::frame_size;
pub use lossless::{LosslessDecoder, LosslessHeader, LosslessPixels};
