//! Ops that rotate, shear and tilt images.

use super::args::WARP_INTERPOLATION;
use super::geometry::{FILL, GEOMETRY, P};
use super::{
    OpArgs, OpInfo, ParamInfo, ParamKind, ParamValue, SpecError, built, optional, required,
    with_default,
};
use crate::{ParamError, RandomAffine, RandomPerspective, RandomRotation};

const fn interpolation(default: &'static str) -> ParamInfo {
    const DOC: &str = "interpolation between pixels";
    with_default("interpolation", WARP_INTERPOLATION, ParamValue::Word(default), DOC)
}

const CENTER: ParamInfo =
    optional("center", ParamKind::Pair, "in pixels from the top left corner; default: the middle");

const DEGREES: ParamInfo = required(
    "degrees",
    ParamKind::NumberOrRange,
    ParamValue::Int(15),
    "range of the angle; a number d is -d..d",
);

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "RandomAffine",
        class: GEOMETRY,
        summary: "turns, shifts, scales and shears an image at random",
        params: &[
            DEGREES,
            optional("translate", ParamKind::Pair, "largest shift, as shares of width and height"),
            optional("scale", ParamKind::Range, "range of the factor"),
            optional("shear", ParamKind::Shear, "degrees; a number s is -s..s along x"),
            interpolation("nearest"),
            FILL,
            CENTER,
        ],
        aliases: &[],
        build: |args| Ok(built(affine(args)?)),
    },
    OpInfo {
        name: "RandomPerspective",
        class: GEOMETRY,
        summary: "moves the corners of a share p of the images inwards",
        params: &[
            with_default(
                "distortion_scale",
                ParamKind::Number,
                ParamValue::Float(0.5),
                "most that corners move, in shares of the way to the middle",
            ),
            P,
            interpolation("bilinear"),
            FILL,
        ],
        aliases: &[],
        build: |args| {
            let op = RandomPerspective::new(args.float("distortion_scale")?, args.float("p")?)?;
            let op = op.interpolation(args.warp_interpolation("interpolation")?);
            Ok(built(op.fill(args.color("fill")?)))
        },
    },
    OpInfo {
        name: "RandomRotation",
        class: GEOMETRY,
        summary: "turns an image by a random angle",
        params: &[
            DEGREES,
            interpolation("nearest"),
            with_default(
                "expand",
                ParamKind::Bool,
                ParamValue::Bool(false),
                "whether the output is enlarged to hold the whole turned image",
            ),
            CENTER,
            FILL,
        ],
        aliases: &[],
        build: |args| Ok(built(rotation(args)?)),
    },
];

fn rotation(args: &OpArgs<'_>) -> Result<RandomRotation, SpecError> {
    let mut op = RandomRotation::new(around_zero(args, "degrees")?)?
        .interpolation(args.warp_interpolation("interpolation")?)
        .fill(args.color("fill")?);
    if args.bool("expand")? {
        op = op.expand();
    }
    if let Some((x, y)) = args.if_given("center", OpArgs::pair)? {
        op = op.center(x, y)?;
    }
    Ok(op)
}

fn affine(args: &OpArgs<'_>) -> Result<RandomAffine, SpecError> {
    let mut op = RandomAffine::new(around_zero(args, "degrees")?)?
        .interpolation(args.warp_interpolation("interpolation")?)
        .fill(args.color("fill")?);
    if let Some((across, down)) = args.if_given("translate", OpArgs::pair)? {
        op = op.translate(across, down)?;
    }
    if let Some(scale) = args.if_given("scale", OpArgs::range)? {
        op = op.scale(scale)?;
    }
    if let Some((x, y)) = args.if_given("center", OpArgs::pair)? {
        op = op.center(x, y)?;
    }
    if args.given("shear") { sheared(args, op) } else { Ok(op) }
}

/// Shears along x by one number or two, along both axes by four.
fn sheared(args: &OpArgs<'_>, op: RandomAffine) -> Result<RandomAffine, SpecError> {
    let shorn: Result<_, ParamError> = match args.array("shear") {
        Ok([x_low, x_high, y_low, y_high]) => op.shear_both(x_low..=x_high, y_low..=y_high),
        Err(_) => op.shear(around_zero(args, "shear")?),
    };
    Ok(shorn?)
}

/// Reads a range; one number is a range around 0.
fn around_zero(args: &OpArgs<'_>, name: &str) -> Result<std::ops::RangeInclusive<f64>, SpecError> {
    args.range_or(name, |most| -most..=most)
}
