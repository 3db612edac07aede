//! Ops that compute a pixel from the pixels around it.

use super::{OpInfo, ParamKind, ParamValue, built, required, with_default};
use crate::{BoxBlur, GaussianBlur, RandomAdjustSharpness};

const NEIGHBOURHOOD: &str = "neighbourhood";

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "GaussianBlur",
        class: NEIGHBOURHOOD,
        summary: "blurs an image by a random amount",
        params: &[
            required("kernel_size", ParamKind::Kernel, ParamValue::Int(5), "odd numbers"),
            with_default(
                "sigma",
                ParamKind::NumberOrRange,
                ParamValue::Floats(&[0.1, 2.0]),
                "standard deviation in pixels, or its range",
            ),
        ],
        aliases: &[],
        build: |args| {
            let sigma = args.range_or("sigma", |sigma| sigma..=sigma)?;
            Ok(built(GaussianBlur::with_kernel(args.kernel("kernel_size")?, sigma)?))
        },
    },
    OpInfo {
        name: "BoxBlur",
        class: NEIGHBOURHOOD,
        summary: "makes every pixel the mean of those around it",
        params: &[required(
            "kernel_size",
            ParamKind::Kernel,
            ParamValue::Int(3),
            "how many pixels",
        )],
        aliases: &[],
        build: |args| Ok(built(BoxBlur::with_kernel(args.kernel("kernel_size")?)?)),
    },
    OpInfo {
        name: "RandomAdjustSharpness",
        class: NEIGHBOURHOOD,
        summary: "sharpens or blurs a share p of the images",
        params: &[
            required(
                "sharpness_factor",
                ParamKind::Number,
                ParamValue::Float(2.0),
                "0 blurs, 1 changes nothing, 2 sharpens",
            ),
            with_default("p", ParamKind::Number, ParamValue::Float(0.5), "share of the images"),
        ],
        aliases: &[],
        build: |args| {
            let (factor, p) = (args.float("sharpness_factor")?, args.float("p")?);
            Ok(built(RandomAdjustSharpness::new(factor, p)?))
        },
    },
];
