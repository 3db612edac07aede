//! Ops made of others: containers, and the automatic policies.

use super::args::WARP_INTERPOLATION;
use super::{
    OpArgs, OpInfo, ParamInfo, ParamKind, ParamValue, SpecError, built, optional, required,
    with_default,
};
use crate::rows::WarpInterpolation;
use crate::{
    AugMix, AutoAugment, ParamError, Policy, RandAugment, RandomApply, RandomChoice, RandomOrder,
    TrivialAugmentWide,
};

const POLICY: &str = "containers and policies";

const OPS_OF: ParamInfo = required(
    "ops",
    ParamKind::Ops,
    ParamValue::Words(&["RandomHorizontalFlip"]),
    "the ops, in order",
);

const POLICIES: [(&str, Policy); 3] =
    [("imagenet", Policy::ImageNet), ("cifar10", Policy::Cifar10), ("svhn", Policy::Svhn)];

const INTERPOLATION: ParamInfo =
    optional("interpolation", WARP_INTERPOLATION, "interpolation of warps; default: nearest");

const FILL: ParamInfo =
    optional("fill", ParamKind::Color, "fill colour outside the image; default: black");

/// The interpolation of `RandAugment`, which also accepts timm's configurations with other
/// defaults.
const TIMM_INTERPOLATION: ParamInfo = optional(
    "interpolation",
    WARP_INTERPOLATION,
    "interpolation of warps; default: nearest, or with a config one of the others at random",
);

const TIMM_FILL: ParamInfo = optional(
    "fill",
    ParamKind::Color,
    "fill colour outside the image; default: black, or 128 with a config",
);

const BINS: ParamInfo = with_default(
    "num_magnitude_bins",
    ParamKind::Whole,
    ParamValue::Int(31),
    "how many magnitudes there are",
);

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "AugMix",
        class: POLICY,
        summary: "mixes the image with the results of random chains of actions",
        params: &[
            with_default(
                "severity",
                ParamKind::Whole,
                ParamValue::Int(3),
                "magnitudes are below it, of 1..=10",
            ),
            with_default("mixture_width", ParamKind::Whole, ParamValue::Int(3), "how many chains"),
            optional("chain_depth", ParamKind::Whole, "steps of every chain; default: 1 to 3"),
            with_default(
                "alpha",
                ParamKind::Number,
                ParamValue::Float(1.0),
                "of the Dirichlet distributions",
            ),
            with_default(
                "all_ops",
                ParamKind::Bool,
                ParamValue::Bool(true),
                "whether colours are changed too",
            ),
            INTERPOLATION,
            FILL,
        ],
        aliases: &[],
        build: |args| {
            let op = AugMix::new(args.u32("severity")?)?
                .mixture_width(args.u32("mixture_width")?)?
                .alpha(args.float("alpha")?)?
                .all_ops(args.bool("all_ops")?);
            let op = match args.if_given("chain_depth", OpArgs::u32)? {
                Some(steps) => op.chain_depth(steps)?,
                None => op,
            };
            Ok(built(looking(args, op, AugMix::interpolation, AugMix::fill)?))
        },
    },
    OpInfo {
        name: "AutoAugment",
        class: POLICY,
        summary: "runs one of 25 pairs of actions, found by search for a data set",
        params: &[
            with_default(
                "policy",
                ParamKind::Word(&["imagenet", "cifar10", "svhn"]),
                ParamValue::Word("imagenet"),
                "whose pairs",
            ),
            INTERPOLATION,
            FILL,
        ],
        aliases: &[],
        build: |args| {
            let op = AutoAugment::new(args.choice("policy", &POLICIES)?);
            Ok(built(looking(args, op, AutoAugment::interpolation, AutoAugment::fill)?))
        },
    },
    OpInfo {
        name: "RandAugment",
        class: POLICY,
        summary: "runs a few random actions of one strength",
        params: &[
            with_default("num_ops", ParamKind::Whole, ParamValue::Int(2), "how many actions"),
            with_default(
                "magnitude",
                ParamKind::Whole,
                ParamValue::Int(9),
                "how strong, below the bins",
            ),
            BINS,
            optional(
                "config",
                ParamKind::Text,
                "in place of these a string as timm has it: rand-m9-mstd0.5-inc1",
            ),
            TIMM_INTERPOLATION,
            TIMM_FILL,
        ],
        aliases: &[],
        build: |args| {
            let op = rand_augment(args)?;
            Ok(built(looking(args, op, RandAugment::interpolation, RandAugment::fill)?))
        },
    },
    OpInfo {
        name: "RandomApply",
        class: POLICY,
        summary: "runs a list of ops for a share p of the images",
        params: &[
            OPS_OF,
            with_default("p", ParamKind::Number, ParamValue::Float(0.5), "share of the images"),
        ],
        aliases: &[],
        build: |args| Ok(built(RandomApply::new(args.ops("ops")?, args.float("p")?)?)),
    },
    OpInfo {
        name: "RandomChoice",
        class: POLICY,
        summary: "runs one of a list of ops",
        params: &[
            OPS_OF,
            optional("weights", ParamKind::Numbers, "relative weight of each; default: all equal"),
        ],
        aliases: &[],
        build: |args| {
            let lists = args.ops("ops")?.into_iter().map(|op| vec![op]).collect();
            Ok(built(match args.if_given("weights", OpArgs::floats)? {
                Some(weights) => RandomChoice::new(lists, &weights)?,
                None => RandomChoice::uniform(lists)?,
            }))
        },
    },
    OpInfo {
        name: "RandomOrder",
        class: POLICY,
        summary: "runs up to 5 ops in random order",
        params: &[OPS_OF],
        aliases: &[],
        build: |args| Ok(built(RandomOrder::new(args.ops("ops")?)?)),
    },
    OpInfo {
        name: "TrivialAugmentWide",
        class: POLICY,
        summary: "runs one random action of random strength",
        params: &[BINS, INTERPOLATION, FILL],
        aliases: &[],
        build: |args| {
            let op = TrivialAugmentWide::with_bins(args.u32("num_magnitude_bins")?)?;
            Ok(built(looking(
                args,
                op,
                TrivialAugmentWide::interpolation,
                TrivialAugmentWide::fill,
            )?))
        },
    },
];

/// Sets the interpolation and the fill of an op, if they were given.
fn looking<T>(
    args: &OpArgs<'_>,
    mut op: T,
    interpolation: fn(T, WarpInterpolation) -> T,
    fill: fn(T, [u8; 3]) -> T,
) -> Result<T, SpecError> {
    let given = args.if_given("interpolation", OpArgs::warp_interpolation)?;
    if let Some(given) = given {
        op = interpolation(op, given);
    }
    if let Some(given) = args.if_given("fill", OpArgs::color)? {
        op = fill(op, given);
    }
    Ok(op)
}

/// Builds a `RandAugment` from timm's string or from torchvision's numbers, but not both.
fn rand_augment(args: &OpArgs<'_>) -> Result<RandAugment, SpecError> {
    let [num_ops, magnitude, bins] = ["num_ops", "magnitude", "num_magnitude_bins"];
    let Some(config) = args.if_given("config", OpArgs::text)? else {
        let [num_ops, magnitude] = [args.u32(num_ops)?, args.u32(magnitude)?];
        return Ok(RandAugment::with_bins(num_ops, magnitude, args.u32(bins)?)?);
    };
    if let Some(other) = [num_ops, magnitude, bins].into_iter().find(|name| args.given(name)) {
        let found = format!("given beside {other}");
        return Err(ParamError::new("RandAugment", "config", found, "one of the two").into());
    }
    Ok(RandAugment::timm(&config)?)
}
