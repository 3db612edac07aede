//! Boxes and points that follow an image through its geometry steps.
//!
//! ```text
//! GeometryStep + input size ──▶ PointMap ──▶ where a point, and so a box, is in the output
//! ```
//!
//! Coordinates are continuous: pixel `(x, y)` covers `[x, x+1) x [y, y+1)`, and an image covers
//! `[0, width] x [0, height]`. A box is its edges, so the box of a whole image is `[0, 0, width, height]`, and the
//! middle of pixel `(x, y)` is the point `(x + 1/2, y + 1/2)`. All arithmetic is in f64; a number is rounded once,
//! when it is stored as f32.
//!
//! The rules are those of `torchvision.transforms.v2`, except where torchvision contradicts its own pixels:
//!
//! | case | torchvision | here |
//! |------|-------------|------|
//! | a flip of a point | `width - 1 - x`: the index of a pixel | `width - x`; the index of a pixel is the point plus 1/2 |
//! | a centre crop that is larger than the image | boxes move by another number of pixels than the image | the image's |
//! | a rotation with `expand` | the least turned corner is 0, on a canvas of another size | the image's middle and size |
//! | an elastic transform of a point | minus the displacement of one pixel beside it | the exact inverse of the image's |
//! | the height of a rotated box | the distance of corners 2 and 4 along swapped axes | the distance of corners 2 and 3 |
//! | squaring up a box whose first angle passes 180 degrees | its lengths shrink | the same as at any other angle |
//! | clamping a rotated box within about a degree of an axis | slopes lose its sides: it may become empty, or thousands of pixels long | as at any other angle |

mod bounding_box;
mod box_format;
mod objects;
mod point_map;
mod rotated;

pub use bounding_box::BoundingBox;
pub use box_format::{BoxFormat, ClampingMode};
pub use objects::{Keypoint, Objects};
pub use point_map::PointMap;
