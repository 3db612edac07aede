//! Channels first and channels last: the order of an image's axes in memory.

use crate::TypeError;
use crate::author::Type;
use crate::op::{ImageType, Op, class, on_image};
use crate::shape::Layout;

/// `[H, W, C] -> [C, H, W]`, the layout that PyTorch's convolutions expect.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ToChannelsFirst.md"))]
///
/// ```text
/// out[c, y, x] = in[y, x, c]       [H, W, C] -> [C, H, W]
/// ```
///
/// | | |
/// |--------|------------------------------------------------|
/// | input  | image of any element type, in either layout    |
/// | output | the same values                                |
/// | random | nothing                                        |
/// | cost   | part of the final store                        |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet(), ToChannelsFirst];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    VALUES,
    "[height, width, channels] to [channels, height, width], as PyTorch wants it",
    recipes = "every second random list ends with it"
)]
pub struct ToChannelsFirst;

/// `[C, H, W] -> [H, W, C]`, the layout that TensorFlow and JAX expect.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ToChannelsLast.md"))]
///
/// ```text
/// out[y, x, c] = in[c, y, x]       [C, H, W] -> [H, W, C]
/// ```
///
/// | | |
/// |--------|------------------------------------------------|
/// | input  | image of any element type, in either layout    |
/// | output | the same values                                |
/// | random | nothing                                        |
/// | cost   | part of the final store                        |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ToChannelsFirst, ToChannelsLast];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq, Eq)]
#[op(
    VALUES,
    "[channels, height, width] to [height, width, channels], as TensorFlow and JAX want it",
    recipes = "every fourth random list ends with it",
    golden = "images are stored like this without it"
)]
pub struct ToChannelsLast;

#[class(Layout(Layout::ChannelsFirst))]
impl Op for ToChannelsFirst {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |i| ImageType { layout: Layout::ChannelsFirst, ..i })
    }
}

#[class(Layout(Layout::ChannelsLast))]
impl Op for ToChannelsLast {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |i| ImageType { layout: Layout::ChannelsLast, ..i })
    }
}
