//! Ops on labels.

use super::{OpInfo, ParamKind, ParamValue, built, required};
use crate::{LabelSmoothing, OneHot, ReplaceLabel, Squeeze};

const LABELS: &str = "labels";

pub(super) const OPS: &[OpInfo] = &[
    OpInfo {
        name: "OneHot",
        class: LABELS,
        summary: "turns a label into a vector with a one at its class; gives f32",
        params: &[required(
            "classes",
            ParamKind::Whole,
            ParamValue::Int(1000),
            "elements of the vector",
        )],
        aliases: &[],
        build: |args| Ok(built(OneHot::new(args.u32("classes")?)?)),
    },
    OpInfo {
        name: "LabelSmoothing",
        class: LABELS,
        summary: "spreads a share of a one-hot vector evenly over all classes",
        params: &[required("epsilon", ParamKind::Number, ParamValue::Float(0.1), "the share")],
        aliases: &[],
        build: |args| Ok(built(LabelSmoothing::new(args.float("epsilon")?)?)),
    },
    OpInfo {
        name: "ReplaceLabel",
        class: LABELS,
        summary: "gives some samples another label",
        params: &[
            required("indices", ParamKind::Ids, ParamValue::Ints(&[0, 7]), "the samples"),
            required("new_label", ParamKind::Integer, ParamValue::Int(1), "their label"),
        ],
        aliases: &[],
        build: |args| Ok(built(ReplaceLabel::new(args.ids("indices")?, args.i64("new_label")?))),
    },
    OpInfo {
        name: "Squeeze",
        class: LABELS,
        summary: "drops the axes of length 1",
        params: &[],
        aliases: &[],
        build: |_| Ok(built(Squeeze)),
    },
];
