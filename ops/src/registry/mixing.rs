//! Ops that mix the samples of a batch: the same op must come last in the lists of the images and
//! the labels.

use super::{OpArgs, OpInfo, ParamInfo, ParamKind, ParamValue, SpecError, built, with_default};
use crate::author::Partner;
use crate::{CutMix, MixUp};

const MIXING: &str = "mixing";

const PARTNERS: [(&str, Partner); 2] =
    [("previous", Partner::Previous), ("permuted", Partner::Permuted)];

const PARAMS: &[ParamInfo] = &[
    with_default(
        "alpha",
        ParamKind::Number,
        ParamValue::Float(1.0),
        "shares are drawn from Beta(alpha, alpha)",
    ),
    with_default(
        "partner",
        ParamKind::Word(&["previous", "permuted"]),
        ParamValue::Word("previous"),
        "who is mixed with whom: the sample before, or one by a random permutation",
    ),
    with_default(
        "per_sample",
        ParamKind::Bool,
        ParamValue::Bool(false),
        "draws for each sample in place of the batch: FFCV's same_lambda = false",
    ),
    with_default(
        "p",
        ParamKind::Number,
        ParamValue::Float(1.0),
        "share of the batches, or of the samples",
    ),
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

fn partner(args: &OpArgs<'_>) -> Result<Partner, SpecError> {
    args.choice("partner", &PARTNERS)
}
