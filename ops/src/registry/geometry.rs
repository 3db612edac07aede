//! Ops that move pixels.

use super::args::INTERPOLATION;
use super::{
    OpArgs, OpInfo, ParamInfo, ParamKind, ParamValue, SpecError, built, optional, required,
    with_default,
};
use crate::{
    CenterCrop, D4, Pad, PaddingMode, ParamError, RandomCrop, RandomHorizontalFlip,
    RandomResizedCrop, RandomRotate90, RandomTranslate, RandomVerticalFlip, RandomZoomOut, Resize,
    Rot90, Size, Transpose,
};

pub(super) const GEOMETRY: &str = "geometry";

const SIDES: ParamInfo = required(
    "size",
    ParamKind::Size,
    ParamValue::Int(224),
    "of the output; one number for a square",
);

const INTERPOLATE: ParamInfo = with_default(
    "interpolation",
    INTERPOLATION,
    ParamValue::Word("bilinear-antialias"),
    "how pixels are weighed",
);

pub(super) const P: ParamInfo =
    with_default("p", ParamKind::Number, ParamValue::Float(0.5), "share of the images");

pub(super) const FILL: ParamInfo =
    with_default("fill", ParamKind::Color, ParamValue::Int(0), "fill colour outside the image");

const PADDING_MODE: ParamInfo = with_default(
    "padding_mode",
    ParamKind::Word(&["constant", "edge", "reflect", "symmetric"]),
    ParamValue::Word("constant"),
    "what a frame shows: `fill`, the pixels at the edge, or the mirrored image",
);

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "RandomResizedCrop",
        class: GEOMETRY,
        summary: "cuts a random rectangle and scales it to a fixed size",
        params: &[
            SIDES,
            with_default(
                "scale",
                ParamKind::Range,
                ParamValue::Floats(&[0.08, 1.0]),
                "share of the area",
            ),
            with_default(
                "ratio",
                ParamKind::Range,
                ParamValue::Floats(&[3.0 / 4.0, 4.0 / 3.0]),
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
            required(
                "size",
                ParamKind::Size,
                ParamValue::Int(256),
                "one number: of the side named",
            ),
            with_default(
                "side",
                ParamKind::Word(&["short", "long"]),
                ParamValue::Word("short"),
                "which one number is for; long is torchvision's size = None with a max_size",
            ),
            optional("max_size", ParamKind::Whole, "most pixels of the long side, for a short one"),
            INTERPOLATE,
        ],
        aliases: &[],
        build: |args| Ok(built(resize(args)?.interpolation(args.interpolation("interpolation")?))),
    },
    OpInfo {
        name: "CenterCrop",
        class: GEOMETRY,
        summary: "cuts the middle out of an image",
        params: &[
            SIDES,
            optional(
                "ratio",
                ParamKind::Number,
                "FFCV's form: a square of this share of the short side, scaled to `size`",
            ),
            with_default(
                "interpolation",
                INTERPOLATION,
                ParamValue::Word("bilinear-antialias"),
                "how pixels are weighed where there is a `ratio`",
            ),
        ],
        aliases: &[],
        build: |args| {
            let Size { height, width } = args.size("size")?;
            let op = match args.if_given("ratio", OpArgs::float)? {
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
            with_default(
                "padding",
                ParamKind::Sides,
                ParamValue::Int(0),
                "pixels first put on each side",
            ),
            with_default(
                "pad_if_needed",
                ParamKind::Bool,
                ParamValue::Bool(false),
                "whether an image that is too small may lie anywhere in the window",
            ),
            FILL,
            PADDING_MODE,
        ],
        aliases: &[],
        build: |args| {
            let Size { height, width } = args.size("size")?;
            let op = RandomCrop::new(height, width)?;
            let op = op.padding(args.sides("padding")?, padding_mode(args)?)?;
            Ok(built(if args.bool("pad_if_needed")? { op.pad_if_needed() } else { op }))
        },
    },
    OpInfo {
        name: "Pad",
        class: GEOMETRY,
        summary: "frames an image",
        params: &[
            required("padding", ParamKind::Sides, ParamValue::Int(4), "pixels on each side"),
            FILL,
            PADDING_MODE,
        ],
        aliases: &[],
        build: |args| {
            Ok(built(Pad::new(args.sides("padding")?)?.padding_mode(padding_mode(args)?)))
        },
    },
    OpInfo {
        name: "RandomZoomOut",
        class: GEOMETRY,
        summary: "places a share p of the images on a larger canvas",
        params: &[
            FILL,
            with_default(
                "side_range",
                ParamKind::Range,
                ParamValue::Floats(&[1.0, 4.0]),
                "how many times as high and wide it is",
            ),
            P,
        ],
        aliases: &[],
        build: |args| {
            let (fill, sides) = (args.color("fill")?, args.range("side_range")?);
            Ok(built(RandomZoomOut::new(fill, sides, args.float("p")?)?))
        },
    },
    OpInfo {
        name: "RandomTranslate",
        class: GEOMETRY,
        summary: "shifts an image by a few pixels",
        params: &[
            required(
                "padding",
                ParamKind::Whole,
                ParamValue::Int(4),
                "most pixels in each direction",
            ),
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
    OpInfo {
        name: "Rot90",
        class: GEOMETRY,
        summary: "turns an image by quarters",
        params: &[with_default(
            "k",
            ParamKind::Integer,
            ParamValue::Int(1),
            "how many, counter-clockwise",
        )],
        aliases: &[],
        build: |args| Ok(built(Rot90::new(args.i32("k")?))),
    },
    OpInfo {
        name: "RandomRotate90",
        class: GEOMETRY,
        summary: "turns a share p of the images by random quarters",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomRotate90::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "Transpose",
        class: GEOMETRY,
        summary: "swaps rows and columns of a share p of the images",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(Transpose::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "D4",
        class: GEOMETRY,
        summary: "turns and mirrors an image by one of the eight ways of a square",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(D4)),
    },
];

/// The side that a single size sets.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Short,
    Long,
}

/// Builds a resize: two numbers are a size, one number is the length of a side.
fn resize(args: &OpArgs<'_>) -> Result<Resize, SpecError> {
    let Size { height, width } = args.size("size")?;
    let side = args.choice("side", &[("short", Side::Short), ("long", Side::Long)])?;
    let op = match (args.is_list("size")?, side) {
        (true, Side::Long) => {
            let error = ParamError::new("Resize", "side", "long", "a size of one number beside it");
            return Err(error.into());
        }
        (true, Side::Short) => Resize::new(height, width)?,
        (false, Side::Short) => Resize::short_side(height)?,
        (false, Side::Long) => Resize::long_side(height)?,
    };
    Ok(match args.if_given("max_size", OpArgs::u32)? {
        Some(most) => op.max_size(most)?,
        None => op,
    })
}

/// Reads the contents of a border.
fn padding_mode(args: &OpArgs<'_>) -> Result<PaddingMode, SpecError> {
    let modes = [
        ("constant", PaddingMode::Constant(args.color("fill")?)),
        ("edge", PaddingMode::Edge),
        ("reflect", PaddingMode::Reflect),
        ("symmetric", PaddingMode::Symmetric),
    ];
    args.choice("padding_mode", &modes)
}
