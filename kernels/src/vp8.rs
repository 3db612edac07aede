//! The arithmetic of VP8's key frames, as lossy WebP images have them (RFC 6386).
//!
//! | file        |                                                                          |
//! |-------------|--------------------------------------------------------------------------|
//! | `transform` | the inverse transforms of 4x4 blocks (sections 14.3 and 14.4)              |
//! | `filter`    | the loop filter of a row of macroblocks (section 15)                       |
//! | `color`     | rows of pixels: chroma enlarged, and YUV to RGB, in the integers of libwebp  |
//!
//! All of it is in integers without calls of the CPU's own instructions, and is compiled for the CPU's vectors by
//! [`for_cpu`](crate::for_cpu), except for the last step to RGB.

mod color;
mod filter;
mod transform;

pub use color::{ChromaRows, rgb_row};
pub use filter::{Edges, FilterPlanes, FilterStrength, filter_normal, filter_simple};
pub use transform::{add_dc, add_transform, walsh_hadamard};
