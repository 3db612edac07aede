//! Ops that say how values are stored: their scale, type and layout.

use super::{Kind, OpInfo, Preset, built, required};
use crate::{Convert, Normalize, ToChannelsFirst, ToChannelsLast, View};

const VALUES: &str = "values";

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "Normalize",
        class: VALUES,
        summary: "subtracts a mean and divides by a standard deviation; gives f32",
        params: &[
            required(
                "mean",
                Kind::Channels,
                Preset::Floats(&[123.675, 116.28, 103.53]),
                "in units of the values, so 0 to 255; the example is ImageNet's",
            ),
            required(
                "std",
                Kind::Channels,
                Preset::Floats(&[58.395, 57.12, 57.375]),
                "in the same units",
            ),
        ],
        aliases: &[],
        build: |args| Ok(built(Normalize::new(args.channels("mean")?, args.channels("std")?)?)),
    },
    OpInfo {
        name: "Convert",
        class: VALUES,
        summary: "changes the type of the elements, of images and labels; values are not scaled",
        params: &[required("to", Kind::DType, Preset::Word("f16"), "the type")],
        aliases: &[],
        build: |args| Ok(built(Convert::to(args.dtype("to")?))),
    },
    OpInfo {
        name: "View",
        class: VALUES,
        summary: "reads the elements, of images and labels, as another type of as many bytes",
        params: &[required("to", Kind::DType, Preset::Word("i16"), "the type")],
        aliases: &[],
        build: |args| Ok(built(View::new(args.dtype("to")?))),
    },
    OpInfo {
        name: "ToChannelsFirst",
        class: VALUES,
        summary: "[height, width, 3] to [3, height, width], as PyTorch wants it",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(ToChannelsFirst)),
    },
    OpInfo {
        name: "ToChannelsLast",
        class: VALUES,
        summary: "[3, height, width] to [height, width, 3], as TensorFlow and JAX want it",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(ToChannelsLast)),
    },
];
