//! The ops of the registry, with what a control of each parameter needs.
//!
//! The registry does not list the limits of numbers: constructors check them. So the limits are found here by
//! building each op with the numbers of a ladder.

use fuseloop::ops::internals::registry::{
    self, OpInfo, ParamDefault, ParamInfo, ParamKind, ParamValue, SpecData, SpecTable, SpecValue,
};
use fuseloop::ops::{DType, Ops};
use serde_json::{Value, json};

/// Numbers that are tried, in order.
const LADDER: [f64; 19] = [
    -1000.0, -180.0, -100.0, -10.0, -1.0, -0.5, -0.1, 0.0, 0.1, 0.5, 0.999, 1.0, 2.0, 8.0, 16.0,
    100.0, 180.0, 255.0, 1000.0,
];

/// Returns all ops.
pub(super) fn all() -> Value {
    registry::registry().iter().map(op).collect()
}

fn op(info: &OpInfo) -> Value {
    json!({
        "name": info.name,
        "class": info.class,
        "summary": info.summary,
        "aliases": info.aliases,
        "params": info.params.iter().map(|param| control(info, param)).collect::<Value>(),
    })
}

fn control(info: &OpInfo, param: &ParamInfo) -> Value {
    let (need, value) = match param.need {
        ParamDefault::Required(value) => ("required", Some(value)),
        ParamDefault::Default(value) => ("default", Some(value)),
        ParamDefault::Optional => ("optional", None),
    };
    let value = value.map_or(Value::Null, |value| json_of(&value.value()));
    let limits = limits(info, param);
    json!({
        "name": param.name,
        "kind": word(param.kind),
        "takes": param.kind.to_string(),
        "words": words(param.kind),
        "need": need,
        "value": value,
        "doc": param.doc,
        "min": limits.map(|(min, _)| min),
        "max": limits.map(|(_, max)| max),
    })
}

/// Returns the name of the control.
fn word(kind: ParamKind) -> &'static str {
    match kind {
        ParamKind::Bool => "bool",
        ParamKind::Number => "number",
        ParamKind::Whole => "whole",
        ParamKind::Integer => "integer",
        ParamKind::Size | ParamKind::Kernel => "size",
        ParamKind::Pair => "pair",
        ParamKind::Range => "range",
        ParamKind::NumberOrRange => "number_or_range",
        ParamKind::Color => "color",
        ParamKind::Word(_) | ParamKind::DType => "word",
        ParamKind::Text => "text",
        ParamKind::Ops => "ops",
        _ => "value",
    }
}

fn words(kind: ParamKind) -> Value {
    match kind {
        ParamKind::Word(words) => json!(words),
        ParamKind::DType => {
            let known = [DType::U8, DType::U16, DType::I16, DType::F16, DType::Bf16, DType::F32];
            known.iter().map(ToString::to_string).collect()
        }
        _ => Value::Null,
    }
}

fn json_of(value: &SpecValue) -> Value {
    match &value.datum {
        SpecData::Bool(value) => json!(value),
        SpecData::Int(value) => json!(value),
        SpecData::Float(value) => json!(value),
        SpecData::Text(text) => json!(text),
        SpecData::List(values) => values.iter().map(json_of).collect(),
        SpecData::Table(_) | SpecData::Op(_) => Value::Null,
    }
}

/// Returns the smallest and the largest number of the ladder that the op accepts.
fn limits(info: &OpInfo, param: &ParamInfo) -> Option<(f64, f64)> {
    let numbers: Vec<f64> = match param.kind {
        ParamKind::Number | ParamKind::NumberOrRange => LADDER.to_vec(),
        ParamKind::Range => LADDER.to_vec(),
        ParamKind::Whole | ParamKind::Integer => {
            LADDER.iter().copied().filter(|number| number.fract() == 0.0).collect()
        }
        _ => return None,
    };
    let accepted: Vec<f64> =
        numbers.into_iter().filter(|number| accepts(info, param, *number)).collect();
    Some((*accepted.first()?, *accepted.last()?))
}

fn accepts(info: &OpInfo, param: &ParamInfo, number: f64) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "numbers of the ladder")]
    let value = match param.kind {
        ParamKind::Range => SpecValue::from(vec![SpecValue::from(number); 2]),
        ParamKind::Whole | ParamKind::Integer => SpecValue::from(number as i64),
        _ => SpecValue::from(number),
    };
    let mut entries = vec![("op", SpecValue::from(info.name)), (param.name, value)];
    for other in info.params.iter().filter(|other| other.name != param.name) {
        if let ParamDefault::Required(example) = other.need {
            entries.push((other.name, ParamValue::value(&example)));
        }
    }
    let op = SpecValue::from(SpecTable::from_iter(entries));
    let built: Result<Ops, _> = registry::build_ops(&SpecValue::from(vec![op]));
    built.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_from_0_to_1() {
        let info = registry::find("RandomHorizontalFlip").unwrap();
        assert_eq!(limits(info, &info.params[0]), Some((0.0, 1.0)));
    }

    #[test]
    fn every_op_has_controls() {
        let all = all();
        assert_eq!(all.as_array().unwrap().len(), registry::registry().len());
    }
}
