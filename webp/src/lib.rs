//! WebP images: windows of lossy and lossless ones, to the pixels of libwebp.
//!
//! [`LossyDecoder`] decodes a window of the frame in a file's chunk "VP8 " (a VP8 key frame, RFC 6386), [`LosslessDecoder`] one of
//! the image in a chunk "VP8L" (RFC 9649, section 3), and [`AlphaChunk`] one of the alpha in a chunk "ALPH". Rows below the
//! window are not read; where the format allows it, pixels outside of it are neither unpacked nor filtered nor converted. The
//! arithmetic of rows is that of `fuseloop_kernels::vp8` and `vp8l`. This crate knows no files, starts no thread, and has no
//! unsafe code.
//!
//! | file           |                                                                         |
//! |----------------|-------------------------------------------------------------------------|
//! | `header`       | the header of a lossy frame, and its partitions                           |
//! | `bool_decoder` | the boolean entropy decoder                                             |
//! | `modes`        | the predictions of macroblocks, as read                                   |
//! | `tokens`       | their coefficients                                                      |
//! | `predict`      | their pixels, of predictions and coefficients                             |
//! | `decoder`      | the rows that a window needs, filtered and converted                      |
//! | `alpha`        | the alpha of a lossy image, beside its frame                              |
//! | `tables`       | constants                                                               |
//! | `bits`         | the bits of a lossless image                                             |
//! | `prefix`       | its prefix codes, and their tables                                       |
//! | `entropy`      | its pixels as coded: colours, copies and the colour cache                   |
//! | `transform`    | its transforms, as read and undone                                       |
//! | `lossless`     | the rows that a window of it needs                                       |
//! | `error`        | the errors of all of them                                               |

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
