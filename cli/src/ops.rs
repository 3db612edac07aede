//! `fuseloop ops`: lists the ops, for users who write pipelines as data.

use super::print::{say, say_json};
use super::problem::Problem;
use fuseloop::ops::internals::registry::{
    self, LABELS, OpInfo, ParamDefault, ParamInfo, ParamKind, ParamValue, SpecData,
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// List the ops and their parameters, or describe one op with a TOML example
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop ops
  fuseloop ops RandomResizedCrop
  fuseloop ops --json | jq '.[].name'
  fuseloop bench train.beton --pipeline imagenet.toml")]
pub(super) struct Args {
    /// Name of the op to describe
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let all = registry::registry();
    match (&args.name, args.json) {
        (None, false) => say(&list(all)),
        (None, true) => say_json(&all.iter().map(as_json).collect::<Value>()),
        (Some(name), false) => say(&details(registry::find(name)?)),
        (Some(name), true) => say_json(&as_json(registry::find(name)?)),
    }
}

/// Lists the ops, one per line, grouped by class:
/// `Cutout(crop_size, fill = 0): paints a random square over`.
fn list(all: &[OpInfo]) -> String {
    let mut text = String::new();
    for class in all.chunk_by(|a, b| a.class == b.class) {
        let _ = writeln!(text, "{}", class[0].class);
        for info in class {
            let params: Vec<String> = info.params.iter().map(short).collect();
            let _ = writeln!(text, "  {}({}): {}", info.name, params.join(", "), info.summary);
        }
        text.push('\n');
    }
    text.push_str(
        "`fuseloop ops NAME` describes one op, `--pipeline FILE.toml` runs a list of ops\n",
    );
    text
}

fn short(param: &ParamInfo) -> String {
    match param.need {
        ParamDefault::Required(_) => param.name.to_owned(),
        ParamDefault::Default(default) => format!("{} = {default}", param.name),
        ParamDefault::Optional => format!("[{}]", param.name),
    }
}

fn details(info: &OpInfo) -> String {
    let mut text = format!("{} ({}): {}\n", info.name, info.class, info.summary);
    if !info.aliases.is_empty() {
        let _ = writeln!(text, "also called {}", info.aliases.join(", "));
    }
    text.push('\n');
    for param in info.params {
        let need = match param.need {
            ParamDefault::Required(_) => "required".to_owned(),
            ParamDefault::Default(default) => format!("default {default}"),
            ParamDefault::Optional => "optional".to_owned(),
        };
        let _ = writeln!(text, "  {:<16} {} ({need}): {}", param.name, param.kind, param.doc);
    }
    if !info.params.is_empty() {
        text.push('\n');
    }
    let field = if info.class == LABELS { "label" } else { "image" };
    let _ = writeln!(text, "in a pipeline file:\n\n[fields]\n{field} = [{}]", example(info));
    text
}

/// Returns an example such as `{ op = "Cutout", crop_size = 8 }`, or the name alone.
fn example(info: &OpInfo) -> String {
    let needed: Vec<String> = info
        .params
        .iter()
        .filter_map(|param| match param.need {
            ParamDefault::Required(example) => {
                Some(format!(", {} = {}", param.name, toml(example)))
            }
            _ => None,
        })
        .collect();
    if needed.is_empty() {
        return format!("\"{}\"", info.name);
    }
    format!("{{ op = \"{}\"{} }}", info.name, needed.concat())
}

/// Formats a value in full; `Display` shortens long lists.
fn toml(preset: ParamValue) -> String {
    match preset.value().datum {
        SpecData::List(values) => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("[{}]", values.join(", "))
        }
        _ => preset.to_string(),
    }
}

fn as_json(info: &OpInfo) -> Value {
    let param = |param: &ParamInfo| {
        let default = match param.need {
            ParamDefault::Default(default) => preset(default),
            _ => Value::Null,
        };
        let words = match param.kind {
            ParamKind::Word(words) => json!(words),
            _ => Value::Null,
        };
        json!({
            "name": param.name,
            "takes": param.kind.to_string(),
            "words": words,
            "required": matches!(param.need, ParamDefault::Required(_)),
            "default": default,
            "doc": param.doc,
        })
    };
    json!({
        "name": info.name,
        "class": info.class,
        "summary": info.summary,
        "aliases": info.aliases,
        "params": info.params.iter().map(param).collect::<Vec<_>>(),
        "example": example(info),
    })
}

fn preset(preset: ParamValue) -> Value {
    match preset {
        ParamValue::Bool(value) => json!(value),
        ParamValue::Int(value) => json!(value),
        ParamValue::Float(value) => json!(value),
        ParamValue::Word(word) => json!(word),
        ParamValue::Ints(values) => json!(values),
        ParamValue::Floats(values) => json!(values),
        ParamValue::Words(words) => json!(words),
        ParamValue::Pairs(pairs) => json!(pairs),
    }
}
