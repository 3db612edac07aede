//! Ops that paint over a part of an image.

use super::{Kind, OpInfo, Preset, built, optional, required};
use crate::{Cutout, Poison};

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
