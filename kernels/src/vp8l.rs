//! The arithmetic of lossless WebP images (RFC 9649, section 3): rows of pixels through the inverse transforms.
//!
//! | file      |                                                                             |
//! |-----------|-----------------------------------------------------------------------------|
//! | `predict` | differences from a prediction to pixels (section 4.1)                       |
//! | `color`   | colours that were stored as differences of one another (sections 4.2 and 4.3), and rows as RGB and RGBA |
//!
//! A pixel is `[blue, green, red, alpha]`: the bytes of the number `alpha << 24 | red << 16 | green << 8 | blue`, the lowest
//! first.

mod color;
mod predict;

pub use color::{ColorRow, add_color, add_green, rgb_row, rgba_row};
pub use predict::{PredictedRow, add_predictions};

/// A pixel: blue, green, red and alpha.
pub type Bgra = [u8; 4];
