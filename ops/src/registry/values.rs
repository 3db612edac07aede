//! Ops that decide how values are stored: their scale, type, layout and device.

use super::{OpInfo, ParamKind, ParamValue, built, required};
use crate::{Convert, Normalize, ToChannelsFirst, ToChannelsLast, ToDevice, View};

const VALUES: &str = "values";

/// The devices that a list can name; a loader accepts any other as well.
const DEVICES: &[&str] = &[
    "auto", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6",
    "cuda:7",
];

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "Normalize",
        class: VALUES,
        summary: "subtracts a mean and divides by a standard deviation; gives f32",
        params: &[
            required(
                "mean",
                ParamKind::Channels,
                ParamValue::Floats(&[123.675, 116.28, 103.53]),
                "in units of the values, so 0 to 255; the example is ImageNet's",
            ),
            required(
                "std",
                ParamKind::Channels,
                ParamValue::Floats(&[58.395, 57.12, 57.375]),
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
        params: &[required("to", ParamKind::DType, ParamValue::Word("f16"), "the type")],
        aliases: &[],
        build: |args| Ok(built(Convert::to(args.dtype("to")?))),
    },
    OpInfo {
        name: "View",
        class: VALUES,
        summary: "reads the elements, of images and labels, as another type of as many bytes",
        params: &[required("to", ParamKind::DType, ParamValue::Word("i16"), "the type")],
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
    OpInfo {
        name: "ToDevice",
        class: VALUES,
        summary: "runs the ops after it, on images and labels, on a device",
        params: &[required(
            "device",
            ParamKind::Word(DEVICES),
            ParamValue::Word("auto"),
            "auto takes the first GPU if there is one, and the CPU if not",
        )],
        aliases: &[],
        build: |args| Ok(built(ToDevice::new(&args.text("device")?)?)),
    },
];
