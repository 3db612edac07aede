//! Ops that change colours.

use super::{
    OpArgs, OpInfo, ParamInfo, ParamKind, ParamValue, SpecError, built, required, single,
    with_default,
};
use crate::{
    ColorJitter, ColorMatrix, Gamma, Grayscale, Lighting, Lut, ParamError, PermuteChannels,
    RandomAutocontrast, RandomBrightness, RandomChannelPermutation, RandomContrast, RandomEqualize,
    RandomGamma, RandomGrayscale, RandomHue, RandomInvert, RandomPhotometricDistort,
    RandomPosterize, RandomSaturation, RandomSolarize, SolarizeAdd,
};

const COLOR: &str = "color";

const P: ParamInfo =
    with_default("p", ParamKind::Number, ParamValue::Float(0.5), "share of the images");

/// FFCV's parameters.
const MAGNITUDE_AND_P: &[ParamInfo] = &[
    required(
        "magnitude",
        ParamKind::NumberOrRange,
        ParamValue::Float(0.4),
        "the factor is in max(0, 1 - magnitude)..1 + magnitude, or in low..high",
    ),
    P,
];

/// A factor of the jitter: off by default.
const fn part(name: &'static str) -> ParamInfo {
    const DOC: &str = "the factor is in max(0, 1 - value)..1 + value, or in low..high; 0 is off";
    with_default(name, ParamKind::NumberOrRange, ParamValue::Float(0.0), DOC)
}

/// A factor of the distortion.
const fn distortion(name: &'static str, range: &'static [f64]) -> ParamInfo {
    with_default(name, ParamKind::Range, ParamValue::Floats(range), "range of the factor")
}

/// The example table: inverts the levels.
const INVERTED: [i64; 256] = {
    let (mut levels, mut i) = ([255; 256], 0);
    while i < 256 {
        levels[i] -= i as i64;
        i += 1;
    }
    levels
};

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "ColorJitter",
        class: COLOR,
        summary: "changes brightness, contrast, saturation and hue, in random order",
        params: &[
            part("brightness"),
            part("contrast"),
            part("saturation"),
            with_default(
                "hue",
                ParamKind::NumberOrRange,
                ParamValue::Float(0.0),
                "the hue turns by -value..value, or by low..high, of a full turn; 0 is off",
            ),
        ],
        aliases: &[],
        build: |args| {
            let [brightness, contrast] = [factors(args, "brightness")?, factors(args, "contrast")?];
            let (saturation, hue) = (factors(args, "saturation")?, hues(args)?);
            Ok(built(ColorJitter::ranges(brightness, contrast, saturation, hue)?))
        },
    },
    OpInfo {
        name: "ColorMatrix",
        class: COLOR,
        summary: "multiplies every pixel by a matrix",
        params: &[required(
            "rows",
            ParamKind::Matrix,
            ParamValue::Ints(&[0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0]),
            "for red, then green, then blue: its shares of red, green and blue, and a constant",
        )],
        aliases: &[],
        build: |args| {
            let [a, b, c, d, e, f, g, h, i, j, k, l] = args.array("rows")?;
            Ok(built(ColorMatrix::new([[a, b, c, d], [e, f, g, h], [i, j, k, l]])?))
        },
    },
    OpInfo {
        name: "Gamma",
        class: COLOR,
        summary: "raises every value, of 0 to 1, to a power",
        params: &[
            required(
                "gamma",
                ParamKind::Number,
                ParamValue::Float(2.2),
                "the power; above 1 is darker",
            ),
            with_default("gain", ParamKind::Number, ParamValue::Float(1.0), "a factor after it"),
        ],
        aliases: &[],
        build: |args| Ok(built(Gamma::new(args.float("gamma")?, args.float("gain")?)?)),
    },
    OpInfo {
        name: "Grayscale",
        class: COLOR,
        summary: "makes every image grey, in three channels",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(Grayscale)),
    },
    OpInfo {
        name: "Lighting",
        class: COLOR,
        summary: "shifts the colours by a random step, as AlexNet did",
        params: &[required(
            "alpha_std",
            ParamKind::Number,
            ParamValue::Float(0.1),
            "standard deviation of the step; the example is AlexNet's",
        )],
        aliases: &[],
        build: |args| Ok(built(Lighting::new(args.float("alpha_std")?)?)),
    },
    OpInfo {
        name: "Lut",
        class: COLOR,
        summary: "looks every value up in a table",
        params: &[required(
            "table",
            ParamKind::Levels,
            ParamValue::Ints(&INVERTED),
            "what each level becomes, 0 to 255: for all channels, or red's, green's and blue's",
        )],
        aliases: &[],
        build: |args| Ok(built(lut(args)?)),
    },
    OpInfo {
        name: "PermuteChannels",
        class: COLOR,
        summary: "puts the channels in another order",
        params: &[required(
            "permutation",
            ParamKind::Permutation,
            ParamValue::Ints(&[2, 1, 0]),
            "which channel each becomes; the example makes BGR of RGB",
        )],
        aliases: &[],
        build: |args| Ok(built(PermuteChannels::new(args.permutation("permutation")?)?)),
    },
    OpInfo {
        name: "RandomAutocontrast",
        class: COLOR,
        summary: "stretches the channels of a share p of the images to 0..255",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomAutocontrast::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomBrightness",
        class: COLOR,
        summary: "makes a share p of the images brighter or darker",
        params: MAGNITUDE_AND_P,
        aliases: &[],
        build: |args| magnitude(args, RandomBrightness::new, RandomBrightness::range).map(built),
    },
    OpInfo {
        name: "RandomChannelPermutation",
        class: COLOR,
        summary: "puts the channels of a share p of the images in a random order",
        params: &[with_default(
            "p",
            ParamKind::Number,
            ParamValue::Float(1.0),
            "share of the images",
        )],
        aliases: &["ChannelShuffle"],
        build: |args| Ok(built(RandomChannelPermutation::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomContrast",
        class: COLOR,
        summary: "changes the contrast of a share p of the images",
        params: MAGNITUDE_AND_P,
        aliases: &[],
        build: |args| magnitude(args, RandomContrast::new, RandomContrast::range).map(built),
    },
    OpInfo {
        name: "RandomEqualize",
        class: COLOR,
        summary: "equalizes the histograms of a share p of the images",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomEqualize::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomGamma",
        class: COLOR,
        summary: "raises the values, of 0 to 1, of a share p of the images to a random power",
        params: &[
            required(
                "gamma",
                ParamKind::Range,
                ParamValue::Floats(&[0.8, 1.2]),
                "range of the power",
            ),
            P,
        ],
        aliases: &[],
        build: |args| {
            let (low, high) = args.pair("gamma")?;
            Ok(built(RandomGamma::new(low, high, args.float("p")?)?))
        },
    },
    OpInfo {
        name: "RandomGrayscale",
        class: COLOR,
        summary: "makes a share p of the images grey",
        params: &[with_default(
            "p",
            ParamKind::Number,
            ParamValue::Float(0.1),
            "share of the images",
        )],
        aliases: &[],
        build: |args| Ok(built(RandomGrayscale::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomHue",
        class: COLOR,
        summary: "turns the hues of a share p of the images",
        params: &[
            required(
                "hue",
                ParamKind::NumberOrRange,
                ParamValue::Float(0.1),
                "by -hue..hue, or by low..high, of a full turn",
            ),
            P,
        ],
        aliases: &[],
        build: |args| {
            let (low, high) = hues(args)?;
            Ok(built(RandomHue::new(low, high, args.float("p")?)?))
        },
    },
    OpInfo {
        name: "RandomInvert",
        class: COLOR,
        summary: "inverts a share p of the images",
        params: &[P],
        aliases: &[],
        build: |args| Ok(built(RandomInvert::new(args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomPhotometricDistort",
        class: COLOR,
        summary: "changes colours in up to five ways, each in a share p of the images",
        params: &[
            distortion("brightness", &[0.875, 1.125]),
            distortion("contrast", &[0.5, 1.5]),
            distortion("saturation", &[0.5, 1.5]),
            with_default(
                "hue",
                ParamKind::Range,
                ParamValue::Floats(&[-0.05, 0.05]),
                "range of what the hue turns by, of a full turn",
            ),
            with_default(
                "p",
                ParamKind::Number,
                ParamValue::Float(0.5),
                "share of the images, for each way",
            ),
        ],
        aliases: &[],
        build: |args| {
            Ok(built(RandomPhotometricDistort::ranges(
                args.pair("brightness")?,
                args.pair("contrast")?,
                args.pair("saturation")?,
                args.pair("hue")?,
                args.float("p")?,
            )?))
        },
    },
    OpInfo {
        name: "RandomPosterize",
        class: COLOR,
        summary: "keeps the highest bits of each value, in a share p of the images",
        params: &[required("bits", ParamKind::Whole, ParamValue::Int(4), "how many are kept"), P],
        aliases: &[],
        build: |args| Ok(built(RandomPosterize::new(args.u32("bits")?, args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomSaturation",
        class: COLOR,
        summary: "changes the saturation of a share p of the images",
        params: MAGNITUDE_AND_P,
        aliases: &[],
        build: |args| magnitude(args, RandomSaturation::new, RandomSaturation::range).map(built),
    },
    OpInfo {
        name: "RandomSolarize",
        class: COLOR,
        summary: "inverts what is bright, in a share p of the images",
        params: &[
            required(
                "threshold",
                ParamKind::Number,
                ParamValue::Int(128),
                "values from it on are inverted",
            ),
            P,
        ],
        aliases: &[],
        build: |args| Ok(built(RandomSolarize::new(args.float("threshold")?, args.float("p")?)?)),
    },
    OpInfo {
        name: "SolarizeAdd",
        class: COLOR,
        summary: "brightens what is dark",
        params: &[
            required("add", ParamKind::Number, ParamValue::Int(64), "what is added"),
            with_default(
                "threshold",
                ParamKind::Number,
                ParamValue::Int(128),
                "values below it are changed",
            ),
        ],
        aliases: &[],
        build: |args| Ok(built(SolarizeAdd::new(args.float("add")?, args.float("threshold")?)?)),
    },
];

/// Builds an op with a random factor: around 1 by a magnitude, or in a range.
fn magnitude<T>(
    args: &OpArgs<'_>,
    around: fn(f64, f64) -> Result<T, ParamError>,
    within: fn(f64, f64, f64) -> Result<T, ParamError>,
) -> Result<T, SpecError> {
    let p = args.float("p")?;
    if !args.is_list("magnitude")? {
        return Ok(around(args.float("magnitude")?, p)?);
    }
    let (low, high) = args.pair("magnitude")?;
    Ok(within(low, high, p)?)
}

/// Reads a range of factors; as in torchvision, one number is a range around 1.
fn factors(args: &OpArgs<'_>, name: &str) -> Result<(f64, f64), SpecError> {
    Ok(args.range_or(name, |value| (1.0 - value).max(0.0)..=1.0 + value)?.into_inner())
}

/// Reads a range of hues; one number is a range around 0.
fn hues(args: &OpArgs<'_>) -> Result<(f64, f64), SpecError> {
    Ok(args.range_or("hue", |value| -value..=value)?.into_inner())
}

/// Reads one table for all channels, or one for each channel.
fn lut(args: &OpArgs<'_>) -> Result<Lut, SpecError> {
    if let Ok(one) = args.array::<256>("table") {
        return Ok(Lut::same(single("Lut", "table", one)?)?);
    }
    let all = single("Lut", "table", args.array::<768>("table")?)?;
    let mut tables = [[0.0; 256]; 3];
    tables.as_flattened_mut().copy_from_slice(&all);
    Ok(Lut::new(tables)?)
}
