//! Channels first and channels last: the order of an image's axes in memory.

use crate::TypeError;
use crate::author::{Op, OpClass, Type};
use crate::op::{ImageType, on_image};
use crate::registry::{Golden, OpInfo, Recipes, VALUES, built};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToChannelsLast;

impl Op for ToChannelsFirst {
    fn name(&self) -> &'static str {
        "ToChannelsFirst"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |i| ImageType { layout: Layout::ChannelsFirst, ..i })
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Layout(Layout::ChannelsFirst)
    }
}

impl Op for ToChannelsLast {
    fn name(&self) -> &'static str {
        "ToChannelsLast"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_image(self.name(), input, |i| ImageType { layout: Layout::ChannelsLast, ..i })
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Layout(Layout::ChannelsLast)
    }
}

impl ToChannelsFirst {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "ToChannelsFirst",
        class: VALUES,
        summary: "[height, width, channels] to [channels, height, width], as PyTorch wants it",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(ToChannelsFirst)),
        recipes: Recipes::None("every second random list ends with it"),
        golden: Golden::Tested,
    };
}

impl ToChannelsLast {
    pub(crate) const ENTRY: OpInfo = OpInfo {
        name: "ToChannelsLast",
        class: VALUES,
        summary: "[channels, height, width] to [height, width, channels], as TensorFlow and JAX want it",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(ToChannelsLast)),
        recipes: Recipes::None("every fourth random list ends with it"),
        golden: Golden::None("images are stored like this without it"),
    };
}
