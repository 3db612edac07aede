//! Ops that change colours.

use super::{Kind, OpInfo, ParamInfo, Preset, built, optional, required};
use crate::{ColorJitter, RandomBrightness, RandomContrast, RandomSaturation};

const COLOR: &str = "color";

/// FFCV's parameters.
const MAGNITUDE_AND_P: &[ParamInfo] = &[
    required(
        "magnitude",
        Kind::Number,
        Preset::Float(0.4),
        "the factor is in max(0, 1 - magnitude)..1 + magnitude",
    ),
    optional("p", Kind::Number, Preset::Float(0.5), "share of the images"),
];

/// A part of the jitter: off unless given.
const fn part(name: &'static str) -> ParamInfo {
    const DOC: &str = "the factor is in max(0, 1 - value)..1 + value; 0 is off";
    optional(name, Kind::Number, Preset::Float(0.0), DOC)
}

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "ColorJitter",
        class: COLOR,
        summary: "changes brightness, contrast and saturation, in random order",
        params: &[part("brightness"), part("contrast"), part("saturation")],
        aliases: &[],
        build: |args| {
            let [brightness, contrast] = [args.float("brightness")?, args.float("contrast")?];
            Ok(built(ColorJitter::new(brightness, contrast, args.float("saturation")?)?))
        },
    },
    OpInfo {
        name: "RandomBrightness",
        class: COLOR,
        summary: "makes a share p of the images brighter or darker",
        params: MAGNITUDE_AND_P,
        aliases: &[],
        build: |args| Ok(built(RandomBrightness::new(args.float("magnitude")?, args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomContrast",
        class: COLOR,
        summary: "changes the contrast of a share p of the images",
        params: MAGNITUDE_AND_P,
        aliases: &[],
        build: |args| Ok(built(RandomContrast::new(args.float("magnitude")?, args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomSaturation",
        class: COLOR,
        summary: "changes the saturation of a share p of the images",
        params: MAGNITUDE_AND_P,
        aliases: &[],
        build: |args| Ok(built(RandomSaturation::new(args.float("magnitude")?, args.float("p")?)?)),
    },
];
