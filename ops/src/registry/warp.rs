//! Ops that turn, shear and tilt images.

use super::args::WARP_INTERPOLATION;
use super::geometry::{FILL, GEOMETRY, P};
use super::{Args, Kind, OpInfo, ParamInfo, Preset, SpecError, built, maybe, optional, required};
use crate::{ParamError, RandomAffine, RandomPerspective, RandomRotation};

const fn interpolation(default: &'static str) -> ParamInfo {
    const DOC: &str = "how the picture is read between its pixels";
    optional("interpolation", WARP_INTERPOLATION, Preset::Word(default), DOC)
}

const CENTER: ParamInfo =
    maybe("center", Kind::Pair, "in pixels from the top left corner; the middle if left out");

const DEGREES: ParamInfo = required(
    "degrees",
    Kind::NumberOrRange,
    Preset::Int(15),
    "range of the angle; a number d is -d..d",
);

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "RandomAffine",
        class: GEOMETRY,
        summary: "turns, shifts, scales and shears an image at random",
        params: &[
            DEGREES,
            maybe("translate", Kind::Pair, "most that it shifts, in shares of width and height"),
            maybe("scale", Kind::Range, "range of the factor"),
            maybe("shear", Kind::Shear, "degrees; a number s is -s..s along x"),
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
            optional(
                "distortion_scale",
                Kind::Number,
                Preset::Float(0.5),
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
            optional(
                "expand",
                Kind::Bool,
                Preset::Bool(false),
                "whether the output is as large as all of the turned picture",
            ),
            CENTER,
            FILL,
        ],
        aliases: &[],
        build: |args| Ok(built(rotation(args)?)),
    },
];

fn rotation(args: &Args<'_>) -> Result<RandomRotation, SpecError> {
    let mut op = RandomRotation::new(around_zero(args, "degrees")?)?
        .interpolation(args.warp_interpolation("interpolation")?)
        .fill(args.color("fill")?);
    if args.bool("expand")? {
        op = op.expand();
    }
    if let Some((x, y)) = args.if_given("center", Args::pair)? {
        op = op.center(x, y)?;
    }
    Ok(op)
}

fn affine(args: &Args<'_>) -> Result<RandomAffine, SpecError> {
    let mut op = RandomAffine::new(around_zero(args, "degrees")?)?
        .interpolation(args.warp_interpolation("interpolation")?)
        .fill(args.color("fill")?);
    if let Some((across, down)) = args.if_given("translate", Args::pair)? {
        op = op.translate(across, down)?;
    }
    if let Some(scale) = args.if_given("scale", Args::range)? {
        op = op.scale(scale)?;
    }
    if let Some((x, y)) = args.if_given("center", Args::pair)? {
        op = op.center(x, y)?;
    }
    if args.given("shear") { sheared(args, op) } else { Ok(op) }
}

/// Along x by one number or two, along both axes by four.
fn sheared(args: &Args<'_>, op: RandomAffine) -> Result<RandomAffine, SpecError> {
    let shorn: Result<_, ParamError> = match args.array("shear") {
        Ok([x_low, x_high, y_low, y_high]) => op.shear_both(x_low..=x_high, y_low..=y_high),
        Err(_) => op.shear(around_zero(args, "shear")?),
    };
    Ok(shorn?)
}

/// A range, or a number for both sides of 0.
fn around_zero(args: &Args<'_>, name: &str) -> Result<std::ops::RangeInclusive<f64>, SpecError> {
    args.range_or(name, |most| -most..=most)
}
