//! Ops that move pixels.

use super::args::INTERPOLATION;
use super::{Kind, OpInfo, ParamInfo, Preset, built, maybe, optional, required};
use crate::{
    CenterCrop, RandomCrop, RandomHorizontalFlip, RandomResizedCrop, RandomTranslate,
    RandomVerticalFlip, Resize, Size,
};

const GEOMETRY: &str = "geometry";

const SIDES: ParamInfo =
    required("size", Kind::Size, Preset::Int(224), "of the output; one number for a square");

const INTERPOLATE: ParamInfo = optional(
    "interpolation",
    INTERPOLATION,
    Preset::Word("bilinear-antialias"),
    "how pixels are weighed",
);

const P: ParamInfo = optional("p", Kind::Number, Preset::Float(0.5), "share of the images");

const FILL: ParamInfo =
    optional("fill", Kind::Color, Preset::Int(0), "colour of what comes in from outside");

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "RandomResizedCrop",
        class: GEOMETRY,
        summary: "cuts a random rectangle and scales it to a fixed size",
        params: &[
            SIDES,
            optional("scale", Kind::Range, Preset::Floats(&[0.08, 1.0]), "share of the area"),
            optional(
                "ratio",
                Kind::Range,
                Preset::Floats(&[3.0 / 4.0, 4.0 / 3.0]),
                "width over height",
            ),
            INTERPOLATE,
        ],
        aliases: &[],
        build: |args| {
            let Size { height, width } = args.size("size")?;
            let (scale, ratio) = (args.range("scale")?, args.range("ratio")?);
            let op = RandomResizedCrop::to(height, width, scale, ratio)?;
            Ok(built(op.interpolation(args.interpolation("interpolation")?)))
        },
    },
    OpInfo {
        name: "Resize",
        class: GEOMETRY,
        summary: "scales an image",
        params: &[
            required("size", Kind::Size, Preset::Int(256), "one number: of the short side"),
            INTERPOLATE,
        ],
        aliases: &[],
        build: |args| {
            let Size { height, width } = args.size("size")?;
            let exact = args.is_list("size")?;
            let op = if exact { Resize::new(height, width) } else { Resize::short_side(height) };
            Ok(built(op?.interpolation(args.interpolation("interpolation")?)))
        },
    },
    OpInfo {
        name: "CenterCrop",
        class: GEOMETRY,
        summary: "cuts the middle out of an image",
        params: &[
            SIDES,
            maybe(
                "ratio",
                Kind::Number,
                "FFCV's form: a square of this share of the short side, scaled to `size`",
            ),
            optional(
                "interpolation",
                INTERPOLATION,
                Preset::Word("bilinear-antialias"),
                "how pixels are weighed where there is a `ratio`",
            ),
        ],
        aliases: &[],
        build: |args| {
            let Size { height, width } = args.size("size")?;
            let op = match args.if_given("ratio", super::Args::float)? {
                Some(ratio) => CenterCrop::ratio(height, width, ratio)?,
                None => CenterCrop::new(height, width)?,
            };
            Ok(built(op.interpolation(args.interpolation("interpolation")?)))
        },
    },
    OpInfo {
        name: "RandomCrop",
        class: GEOMETRY,
        summary: "cuts a window of fixed size at a random place",
        params: &[
            SIDES,
            optional("padding", Kind::Whole, Preset::Int(0), "pixels first put on each side"),
            FILL,
        ],
        aliases: &[],
        build: |args| {
            let Size { height, width } = args.size("size")?;
            let op = RandomCrop::new(height, width)?;
            Ok(built(op.padding(args.u32("padding")?, args.color("fill")?)?))
        },
    },
    OpInfo {
        name: "RandomTranslate",
        class: GEOMETRY,
        summary: "shifts an image by a few pixels",
        params: &[
            required("padding", Kind::Whole, Preset::Int(4), "most pixels in each direction"),
            FILL,
        ],
        aliases: &[],
        build: |args| Ok(built(RandomTranslate::new(args.u32("padding")?, args.color("fill")?)?)),
    },
    OpInfo {
        name: "RandomHorizontalFlip",
        class: GEOMETRY,
        summary: "mirrors a share p of the images left to right",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomHorizontalFlip::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomVerticalFlip",
        class: GEOMETRY,
        summary: "mirrors a share p of the images top to bottom",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomVerticalFlip::new(args.float("p")?)?)),
    },
];
