//! Ops that paint over a part of an image, or add noise to it.

use super::{Args, Kind, OpInfo, Preset, SpecError, built, optional, required, single};
use crate::{Cutout, GaussianNoise, GridMask, Poison, RandomErasing};

const OVERWRITE: &str = "overwrite";

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "Cutout",
        class: OVERWRITE,
        summary: "paints a random square over",
        params: &[
            required("crop_size", Kind::Whole, Preset::Int(8), "pixels of the square's side"),
            optional("fill", Kind::Color, Preset::Int(0), "its colour"),
        ],
        aliases: &[],
        build: |args| Ok(built(Cutout::new(args.u32("crop_size")?, args.color("fill")?)?)),
    },
    OpInfo {
        name: "RandomErasing",
        class: OVERWRITE,
        summary: "erases a random rectangle of a share p of the images",
        params: &[
            optional("p", Kind::Number, Preset::Float(0.5), "share of the images"),
            optional("scale", Kind::Range, Preset::Floats(&[0.02, 0.33]), "share of the area"),
            optional("ratio", Kind::Range, Preset::Floats(&[0.3, 3.3]), "height over width"),
            optional(
                "value",
                Kind::Paint,
                Preset::Int(0),
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
            optional(
                "period",
                Kind::Range,
                Preset::Ints(&[96, 224]),
                "range of the grid's period in pixels; defaults are the paper's for ImageNet",
            ),
            optional(
                "ratio",
                Kind::Number,
                Preset::Float(0.6),
                "share of a period that is kept between the squares",
            ),
            optional("p", Kind::Number, Preset::Float(0.8), "share of the images"),
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
            optional(
                "mean",
                Kind::Number,
                Preset::Float(0.0),
                "of the noise: a share of 255 on u8, in units of the values on floats",
            ),
            optional("sigma", Kind::Number, Preset::Float(0.1), "its deviation, in the same units"),
            optional(
                "clip",
                Kind::Bool,
                Preset::Bool(true),
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
        summary: "blends a fixed picture into some samples",
        params: &[
            required("size", Kind::Size, Preset::Ints(&[1, 2]), "of the images and the picture"),
            required(
                "mask",
                Kind::Numbers,
                Preset::Ints(&[255, 0, 0, 255, 0, 0]),
                "the picture: red, green and blue of each pixel, 0 to 255, row by row",
            ),
            required(
                "alpha",
                Kind::Numbers,
                Preset::Floats(&[0.5, 0.5]),
                "the picture's weight in each pixel, 0 to 1",
            ),
            required("indices", Kind::Ids, Preset::Ints(&[0, 7]), "the samples"),
        ],
        aliases: &[],
        build: |args| {
            let (mask, alpha) = (args.floats("mask")?, args.floats("alpha")?);
            Ok(built(Poison::new(args.size("size")?, &mask, &alpha, args.ids("indices")?)?))
        },
    },
];

fn erasing(args: &Args<'_>) -> Result<RandomErasing, SpecError> {
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
