//! Ops that mix the samples of a batch: the same op is written last for the images and the labels.

use super::{Args, Kind, OpInfo, ParamInfo, Preset, SpecError, built, optional};
use crate::{CutMix, MixUp, Partner};

const MIXING: &str = "mixing";

const PARTNERS: [(&str, Partner); 2] =
    [("previous", Partner::Previous), ("permuted", Partner::Permuted)];

const PARAMS: &[ParamInfo] = &[
    optional("alpha", Kind::Number, Preset::Float(1.0), "shares are drawn from Beta(alpha, alpha)"),
    optional(
        "partner",
        Kind::Word(&["previous", "permuted"]),
        Preset::Word("previous"),
        "who is mixed with whom: the sample before, or one by a random permutation",
    ),
    optional(
        "per_sample",
        Kind::Bool,
        Preset::Bool(false),
        "draws for each sample in place of the batch: FFCV's same_lambda = false",
    ),
    optional("p", Kind::Number, Preset::Float(1.0), "share of the batches, or of the samples"),
];

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "MixUp",
        class: MIXING,
        summary: "mixes each sample with another one of its batch, and their labels alike",
        params: PARAMS,
        aliases: &["ImageMixup", "LabelMixup"],
        build: |args| {
            let op = MixUp::new(args.float("alpha")?)?.partner(partner(args)?);
            let op = if args.bool("per_sample")? { op.per_sample() } else { op };
            Ok(built(op.probability(args.float("p")?)?))
        },
    },
    OpInfo {
        name: "CutMix",
        class: MIXING,
        summary: "puts a rectangle of another sample of the batch into each, and mixes their labels",
        params: PARAMS,
        aliases: &[],
        build: |args| {
            let op = CutMix::new(args.float("alpha")?)?.partner(partner(args)?);
            let op = if args.bool("per_sample")? { op.per_sample() } else { op };
            Ok(built(op.probability(args.float("p")?)?))
        },
    },
];

fn partner(args: &Args<'_>) -> Result<Partner, SpecError> {
    args.choice("partner", &PARTNERS)
}
