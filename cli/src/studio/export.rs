//! A pipeline as code: the classes of `fuseloop.ops` in Python, and in Rust a program that holds the TOML.
//!
//! The classes of Python and the parameters of the registry have the same names, so that ops are written one by one. A
//! number that follows the epoch becomes a function of the epoch. In Rust, parameters are arguments and methods that
//! the registry does not list; `Spec` takes the text, with all its settings.

use super::pipeline::{self, OpText};
use fuseloop::spec::Spec;
use serde_json::Value;
use std::fmt::Write as _;

/// Writes a program that holds the text of the pipeline.
pub(super) fn rust(text: &str, dataset: &str, spec: &Spec) -> String {
    let text = text.trim_end();
    let video = if spec.settings().clips.is_some() { ", \"video\"" } else { "" };
    // A raw text ends at a quote with as many signs as it began with.
    let signs = (1..).map(|n| "#".repeat(n)).find(|signs| !text.contains(&format!("\"{signs}")));
    let signs = signs.unwrap_or_default();
    format!(
        "// Cargo.toml: fuseloop = {{ version = \"0.1\", features = [\"spec\"{video}] }}
use fuseloop::{{Loader, Result, Spec}};

const PIPELINE: &str = r{signs}\"
{text}
\"{signs};

fn main() -> Result<()> {{
    let pipeline: Spec = PIPELINE.parse()?;
    let loader = pipeline.apply(Loader::open({dataset:?})?).build()?;
    for batch in loader.epoch(0)? {{
        let batch = batch?;
        println!(\"{{}} samples\", batch.len());
    }}
    Ok(())
}}
"
    )
}

/// Writes a call of `fl.Loader` with the ops of each field.
pub(super) fn python(text: &str, dataset: &str, spec: &Spec) -> String {
    let mut code = "import fuseloop as fl\nfrom fuseloop import ops\n\n".to_owned();
    let _ = writeln!(code, "loader = fl.Loader(\n    {},", quoted(dataset));
    if spec.settings().batch_size.is_none() {
        code.push_str("    batch_size=64,\n");
    }
    let (written, others): (Vec<_>, Vec<_>) =
        pipeline::settings(text).into_iter().partition(is_written);
    for (name, value) in written {
        let value = match &value {
            Value::Object(table) if name == "clips" => clips(table),
            Value::Object(table) => dict(table),
            value => python_value(value),
        };
        let _ = writeln!(code, "    {name}={value},");
    }
    for field in pipeline::fields(text) {
        let by_epoch = text_changes(&field.ops);
        let start = if by_epoch { "lambda epoch: [" } else { "[" };
        let ops: String = field.ops.iter().map(|op| format!("        {},\n", call(op))).collect();
        let name = &field.field;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        let list = if ops.is_empty() { "[]".to_owned() } else { format!("{start}\n{ops}    ]") };
        let _ = match is_name {
            true => writeln!(code, "    {name}={list},"),
            false => writeln!(code, "    **{{{}: {list}}},", quoted(name)),
        };
    }
    code.push_str(")\n");
    if !others.is_empty() {
        let names: Vec<String> = others.into_iter().map(|(name, _)| name).collect();
        let _ = writeln!(code, "# The pipeline file also sets: {}.", names.join(", "));
    }
    code
}

/// Returns true for a setting whose value is the same in a file and in Python.
fn is_written((name, value): &(String, Value)) -> bool {
    name != "open_pages" && (!value.is_object() || WRITTEN_TABLES.contains(&name.as_str()))
}

/// The tables that are written as dicts, and that of clips.
const WRITTEN_TABLES: [&str; 4] = ["read_mode", "axes", "share_draws", "clips"];

/// Writes the clips of videos: `fl.Clips.random(frames=16, stride=4)`.
fn clips(table: &serde_json::Map<String, Value>) -> String {
    let settings = table.iter().filter(|(name, _)| *name != "sampler");
    let settings: Vec<String> = settings
        .map(|(name, value)| match (name.as_str(), value.as_array()) {
            ("range", Some(range)) => {
                let ends: Vec<String> = range.iter().map(python_value).collect();
                format!("range=({})", ends.join(", "))
            }
            _ => format!("{name}={}", python_value(value)),
        })
        .collect();
    let sampler = table.get("sampler").and_then(Value::as_str).unwrap_or_default();
    format!("fl.Clips.{sampler}({})", settings.join(", "))
}

fn dict(table: &serde_json::Map<String, Value>) -> String {
    let items: Vec<String> = table
        .iter()
        .map(|(name, value)| format!("{}: {}", quoted(name), python_value(value)))
        .collect();
    format!("{{{}}}", items.join(", "))
}

/// Returns true if a number of a list follows the epoch.
fn text_changes(ops: &[OpText]) -> bool {
    let is_schedule = |(_, value, _): &(String, Value, _)| value.is_object();
    ops.iter().any(|op| op.params.iter().any(is_schedule) || text_changes(&op.inner))
}

fn call(op: &OpText) -> String {
    let param = |(name, value, _): &(String, Value, _)| match value {
        Value::Null => {
            let inner: Vec<String> = op.inner.iter().map(call).collect();
            format!("{name}=[{}]", inner.join(", "))
        }
        value => format!("{name}={}", python_value(value)),
    };
    let params: Vec<String> = op.params.iter().map(param).collect();
    format!("ops.{}({})", op.name, params.join(", "))
}

fn python_value(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(python_value).collect();
            format!("[{}]", list.join(", "))
        }
        Value::Object(table) => schedule(table),
    }
}

/// Writes a number that follows the epoch as an expression of `epoch`: see the module `spec::schedule`.
fn schedule(table: &serde_json::Map<String, Value>) -> String {
    let get = |name: &str| table.get(name).filter(|value| value.is_number());
    let (Some(from), Some(to), Some(epochs)) = (get("from"), get("to"), table.get("epochs")) else {
        return "None".to_owned();
    };
    let (first, length) = match epochs.as_array().map(Vec::as_slice) {
        Some([first, last]) => (first.to_string(), format!("({last} - {first})")),
        _ => ("0".to_owned(), format!("max({epochs} - 1, 1)")),
    };
    let share = format!("min(max((epoch - {first}) / {length}, 0), 1)");
    let linear = format!("{from} + ({to} - {from}) * {share}");
    let step = get("step");
    let is_whole = [Some(from), Some(to), step].into_iter().flatten().all(Value::is_i64);
    match step {
        Some(step) => format!("round(({linear}) / {step}) * {step}"),
        None if is_whole => format!("round({linear})"),
        None => linear,
    }
}

fn quoted(text: impl AsRef<str>) -> String {
    // JSON's escapes are Python's, too.
    Value::from(text.as_ref()).to_string()
}
