//! Ops that overwrite a part of an image, or add noise to it.

use super::{
    OpArgs, OpInfo, ParamKind, ParamValue, SpecError, built, required, single, with_default,
};
use crate::{Cutout, GaussianNoise, GridMask, Poison, RandomErasing};

const OVERWRITE: &str = "overwrite";

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "Cutout",
        class: OVERWRITE,
        summary: "paints a random square over",
        params: &[
            required(
                "crop_size",
                ParamKind::Whole,
                ParamValue::Int(8),
                "pixels of the square's side",
            ),
            with_default("fill", ParamKind::Color, ParamValue::Int(0), "its colour"),
        ],
        aliases: &[],
        build: |args| Ok(built(Cutout::new(args.u32("crop_size")?, args.color("fill")?)?)),
    },
    OpInfo {
        name: "RandomErasing",
        class: OVERWRITE,
        summary: "erases a random rectangle of a share p of the images",
        params: &[
            with_default("p", ParamKind::Number, ParamValue::Float(0.5), "share of the images"),
            with_default(
                "scale",
                ParamKind::Range,
                ParamValue::Floats(&[0.02, 0.33]),
                "share of the area",
            ),
            with_default(
                "ratio",
                ParamKind::Range,
                ParamValue::Floats(&[0.3, 3.3]),
                "height over width",
            ),
            with_default(
                "value",
                ParamKind::Paint,
                ParamValue::Int(0),
                "what is painted, in units of the values; random is noise",
            ),
        ],
        aliases: &[],
        build: |args| Ok(built(erasing(args)?)),
    },
    OpInfo {
        name: "GridMask",
        class: OVERWRITE,
        summary: "sets the squares of a grid to 0, in a share p of the images",
        params: &[
            with_default(
                "period",
                ParamKind::Range,
                ParamValue::Ints(&[96, 224]),
                "range of the grid's period in pixels; defaults are the paper's for ImageNet",
            ),
            with_default(
                "ratio",
                ParamKind::Number,
                ParamValue::Float(0.6),
                "share of a period that is kept between the squares",
            ),
            with_default("p", ParamKind::Number, ParamValue::Float(0.8), "share of the images"),
        ],
        aliases: &[],
        build: |args| {
            let [low, high] = args.pair_u32("period")?;
            Ok(built(GridMask::new(low..=high, args.float("ratio")?, args.float("p")?)?))
        },
    },
    OpInfo {
        name: "GaussianNoise",
        class: OVERWRITE,
        summary: "adds normal noise to every value",
        params: &[
            with_default(
                "mean",
                ParamKind::Number,
                ParamValue::Float(0.0),
                "of the noise: a share of 255 on u8, in units of the values on floats",
            ),
            with_default(
                "sigma",
                ParamKind::Number,
                ParamValue::Float(0.1),
                "its deviation, in the same units",
            ),
            with_default(
                "clip",
                ParamKind::Bool,
                ParamValue::Bool(true),
                "whether u8 values stay in 0..255, or wrap around",
            ),
        ],
        aliases: &[],
        build: |args| {
            let (mean, sigma) = (args.float("mean")?, args.float("sigma")?);
            Ok(built(GaussianNoise::new(mean, sigma, args.bool("clip")?)?))
        },
    },
    OpInfo {
        name: "Poison",
        class: OVERWRITE,
        summary: "blends a fixed image into some samples",
        params: &[
            required(
                "size",
                ParamKind::Size,
                ParamValue::Ints(&[1, 2]),
                "of the samples and of the blended image",
            ),
            required(
                "mask",
                ParamKind::Numbers,
                ParamValue::Ints(&[255, 0, 0, 255, 0, 0]),
                "the blended image: red, green and blue of each pixel, 0 to 255, row by row",
            ),
            required(
                "alpha",
                ParamKind::Numbers,
                ParamValue::Floats(&[0.5, 0.5]),
                "the blended image's weight in each pixel, 0 to 1",
            ),
            required("indices", ParamKind::Ids, ParamValue::Ints(&[0, 7]), "the samples"),
        ],
        aliases: &[],
        build: |args| {
            let (mask, alpha) = (args.floats("mask")?, args.floats("alpha")?);
            Ok(built(Poison::new(args.size("size")?, &mask, &alpha, args.ids("indices")?)?))
        },
    },
];

fn erasing(args: &OpArgs<'_>) -> Result<RandomErasing, SpecError> {
    let (scale, ratio) = (args.range("scale")?, args.range("ratio")?);
    let op = RandomErasing::new(args.float("p")?, scale, ratio)?;
    if args.is_word("value", "random")? {
        return Ok(op.random());
    }
    let values = match args.is_list("value")? {
        true => args.channels("value")?,
        false => [args.float("value")?; 3],
    };
    Ok(op.values(single("RandomErasing", "value", values)?)?)
}
