//! The text of a pipeline file as lists of ops that the page shows, and back.
//!
//! ```text
//! text  ->  [{ field, ops: [{ op, params, before, after, line }] }]      what the cards show
//! text, field, ops  ->  text                                             settings and comments stay
//! ```
//!
//! An op that the page did not change keeps its text to the letter; one that it changed is written on one line.

use fuseloop::internals::spec::MAX_BYTES;
use fuseloop::ops::internals::registry::{self, MAX_DEPTH, MAX_OPS, ParamKind};
use serde_json::{Map, Value, json};
use std::ops::Range;
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, TableLike};

/// Why the ops of the page can't be written to the text, and what the user can do.
#[derive(Debug)]
pub(super) struct EditError {
    pub(super) message: String,
    pub(super) cure: &'static str,
}

fn error(message: impl Into<String>, cure: &'static str) -> EditError {
    EditError { message: message.into(), cure }
}

/// A field and its ops, as the text has them.
pub(super) struct FieldOps {
    pub(super) field: String,
    pub(super) ops: Vec<OpText>,
    /// The comments after the last op, each on its line.
    closing: Vec<String>,
}

/// An op in the text.
pub(super) struct OpText {
    pub(super) name: String,
    pub(super) span: Range<usize>,
    /// The parameters in the order of the text, with the bytes of each.
    pub(super) params: Vec<(String, Value, Range<usize>)>,
    /// The ops in a container.
    pub(super) inner: Vec<OpText>,
    /// Comments on the lines before the op, and at the end of its line.
    before: Vec<String>,
    after: String,
}

impl OpText {
    fn named(name: String, span: Range<usize>) -> Self {
        let (params, inner, before, after) = (vec![], vec![], vec![], String::new());
        Self { name, span, params, inner, before, after }
    }
}

/// Reads the ops of all fields. A text that is not TOML has none: the checker says why.
pub(super) fn fields(text: &str) -> Vec<FieldOps> {
    if text.len() > MAX_BYTES {
        return vec![];
    }
    let Ok(document) = Document::parse(text) else { return vec![] };
    let Some(fields) = document.get("fields").and_then(Item::as_table_like) else {
        return vec![];
    };
    let field = |(name, item): (&str, &Item)| {
        let (ops, closing) = list_of(item, text)?;
        Some(FieldOps { field: name.to_owned(), ops, closing })
    };
    fields.iter().filter_map(field).collect()
}

/// Returns a table of the text, alone; `None` if the text has none, or is not TOML.
pub(super) fn table(text: &str, name: &str) -> Option<String> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let document: DocumentMut = text.parse().ok()?;
    let mut own = DocumentMut::new();
    own.insert(name, document.get(name)?.clone());
    Some(own.to_string())
}

fn list_of(item: &Item, text: &str) -> Option<(Vec<OpText>, Vec<String>)> {
    match item {
        Item::Value(toml_edit::Value::Array(array)) => Some(ops_of(array, text, MAX_DEPTH)),
        Item::ArrayOfTables(tables) => {
            let ops =
                tables.iter().filter_map(|table| op_of(table, table.span()?, text, MAX_DEPTH));
            Some((ops.collect(), vec![]))
        }
        _ => None,
    }
}

/// Reads a list of ops, and the comments after the last.
fn ops_of(array: &Array, text: &str, depth: usize) -> (Vec<OpText>, Vec<String>) {
    let mut end = array.span().map_or(0, |span| span.start + 1);
    let mut ops: Vec<OpText> = vec![];
    for value in array.iter().take(MAX_OPS) {
        let Some(span) = value.span() else { continue };
        let (after, before) = comments(text.get(end..span.start).unwrap_or_default());
        if let Some(last) = ops.last_mut() {
            last.after = after;
        }
        end = span.end;
        let op = match value {
            toml_edit::Value::InlineTable(table) if depth > 0 => {
                op_of(table, span.clone(), text, depth)
            }
            _ => None,
        };
        // A value that is no op has its place in the list, too: the checker says what is wrong.
        let name = value.as_str().unwrap_or_default();
        let op = op.unwrap_or_else(|| OpText::named(name.to_owned(), span));
        ops.push(OpText { before, ..op });
    }
    let closing = array.span().map_or(end, |span| span.end.saturating_sub(1));
    let (after, closing) = comments(text.get(end..closing).unwrap_or_default());
    if let Some(last) = ops.last_mut() {
        last.after = after;
    }
    (ops, closing)
}

fn op_of(table: &dyn TableLike, span: Range<usize>, text: &str, depth: usize) -> Option<OpText> {
    let mut op = OpText::named(table.get("op")?.as_str()?.to_owned(), span);
    for (key, item) in table.iter().filter(|(key, _)| *key != "op") {
        let at = item.span().unwrap_or_default();
        match item.as_array() {
            Some(list) if takes_ops(&op.name, key) => {
                op.inner = ops_of(list, text, depth - 1).0;
                op.params.push((key.to_owned(), Value::Null, at));
            }
            _ => op.params.push((key.to_owned(), json_of(item), at)),
        }
    }
    Some(op)
}

/// Returns true if a parameter is a list of ops.
fn takes_ops(op: &str, param: &str) -> bool {
    let Ok(info) = registry::find(op) else { return false };
    info.params.iter().any(|known| known.name == param && known.kind == ParamKind::Ops)
}

/// Returns the comment that ends the line of the op before, and those on lines of their own.
fn comments(between: &str) -> (String, Vec<String>) {
    let mut lines = between.split('\n');
    let comment = |line: &str| line.find('#').map(|at| line[at..].trim_end().to_owned());
    let after = lines.next().and_then(comment).unwrap_or_default();
    (after, lines.filter_map(comment).collect())
}

/// Returns the settings of the text, in its order.
pub(super) fn settings(text: &str) -> Vec<(String, Value)> {
    let Ok(document) = Document::parse(text) else { return vec![] };
    let settings = document.iter().filter(|(name, _)| *name != "fields");
    settings.map(|(name, item)| (name.to_owned(), json_of(item))).collect()
}

fn json_of(item: &Item) -> Value {
    match item {
        Item::Value(value) => value_json(value),
        Item::Table(table) => table_json(table),
        Item::ArrayOfTables(tables) => tables.iter().map(|table| table_json(table)).collect(),
        Item::None => Value::Null,
    }
}

fn table_json(table: &dyn TableLike) -> Value {
    table.iter().map(|(key, item)| (key.to_owned(), json_of(item))).collect::<Map<_, _>>().into()
}

fn value_json(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => json!(text.value()),
        toml_edit::Value::Integer(number) => json!(number.value()),
        toml_edit::Value::Float(number) => json!(number.value()),
        toml_edit::Value::Boolean(value) => json!(value.value()),
        toml_edit::Value::Datetime(date) => json!(date.value().to_string()),
        toml_edit::Value::Array(list) => list.iter().map(value_json).collect(),
        toml_edit::Value::InlineTable(table) => table_json(table),
    }
}

/// Returns the fields as the page reads them.
pub(super) fn as_json(fields: &[FieldOps], text: &str) -> Value {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let field = |FieldOps { field, ops, .. }: &FieldOps| json!({ "field": field, "ops": ops.iter().map(|op| op_json(op, &ends)).collect::<Value>() });
    fields.iter().map(field).collect()
}

/// Returns an op as the page reads it; `ends` are the bytes at which the lines of the text end.
fn op_json(op: &OpText, ends: &[usize]) -> Value {
    let mut json = plain(op);
    json["line"] = json!(ends.partition_point(|end| *end < op.span.start) + 1);
    json["ops"] = op.inner.iter().map(|op| op_json(op, ends)).collect();
    json
}

/// Returns an op as the page sends it back.
fn plain(op: &OpText) -> Value {
    let params = op.params.iter().map(|(name, value, _)| (name.clone(), value.clone()));
    json!({
        "op": op.name,
        "params": params.collect::<Map<_, _>>(),
        "ops": op.inner.iter().map(plain).collect::<Value>(),
        "before": op.before,
        "after": op.after,
    })
}

/// Returns the text in which the ops of a field are those of a list that the page sent.
pub(super) fn with_ops(text: &str, field: &str, ops: &Value) -> Result<String, EditError> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|_| error("the text is not TOML", "correct the text before the cards"))?;
    let old = fields(text);
    let old = old.iter().find(|known| known.field == field);
    let known = old.map_or(&[][..], |old| &old.ops);
    let known: Vec<(&OpText, Value)> = known.iter().map(|op| (op, plain(op))).collect();
    let mut array = Array::new();
    let mut left = MAX_OPS;
    let mut ending = String::new();
    let Value::Array(items) = ops else { return Err(bad_list()) };
    if old.is_some()
        && known.len() == items.len()
        && known.iter().zip(items).all(|((_, known), sent)| unchanged(known, sent))
    {
        return Ok(text.to_owned());
    }
    for item in items {
        let mut value = op_value(item, (&known, text), &mut left, MAX_DEPTH)?;
        let lines: String = strings(&item["before"]).map(|line| format!("    {line}\n")).collect();
        value.decor_mut().set_prefix(format!("{ending}\n{lines}    "));
        value.decor_mut().set_suffix("");
        array.push_formatted(value);
        let after = comment(item["after"].as_str().unwrap_or_default());
        ending = if after.is_empty() { String::new() } else { format!(" {after}") };
    }
    let closing = old.map_or(&[][..], |old| &old.closing).iter();
    let closing: String = closing.map(|line| format!("    {line}\n")).collect();
    if !array.is_empty() || !closing.is_empty() {
        array.set_trailing(format!("{ending}\n{closing}"));
        array.set_trailing_comma(!array.is_empty());
    }
    let list = Item::Value(toml_edit::Value::Array(array));
    let fields = document.entry("fields").or_insert_with(|| Item::Table(Table::new()));
    let fields = fields.as_table_like_mut().ok_or_else(bad_list)?;
    match fields.get_mut(field) {
        Some(Item::Value(value)) => {
            let decor = value.decor().clone();
            if let Item::Value(mut list) = list {
                *list.decor_mut() = decor;
                *value = list;
            }
        }
        Some(item) => *item = list,
        None => {
            fields.insert(field, list);
        }
    }
    let text = document.to_string();
    if text.len() > MAX_BYTES {
        return Err(error("the pipeline file would be longer than 1 MiB", "remove ops"));
    }
    Ok(text)
}

fn strings(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(comment)
}

/// Returns a comment that stays one: a text from the page has no second line.
fn comment(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    if line.is_empty() || line.starts_with('#') { line } else { format!("# {line}") }
}

fn bad_list() -> EditError {
    error("a list of ops was expected", "reload the page")
}

/// Returns an op as TOML: its own text where it is unchanged.
fn op_value(
    item: &Value,
    (known, text): (&[(&OpText, Value)], &str),
    left: &mut usize,
    depth: usize,
) -> Result<toml_edit::Value, EditError> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| error(format!("more than {MAX_OPS} ops in one list"), "remove some ops"))?;
    if let Some((old, _)) = known.iter().find(|(_, old)| same(old, item))
        && let Some(Ok(value)) = text.get(old.span.clone()).map(str::parse::<toml_edit::Value>)
    {
        return Ok(value);
    }
    let name = item["op"].as_str().ok_or_else(bad_list)?;
    let none = Map::new();
    let params = item["params"].as_object().unwrap_or(&none);
    if params.is_empty() {
        return Ok(name.into());
    }
    let mut table = InlineTable::new();
    table.insert("op", name.into());
    for (key, value) in params {
        if takes_ops(name, key) {
            let inner = item["ops"].as_array().ok_or_else(bad_list)?;
            let deeper = depth.checked_sub(1).ok_or_else(|| {
                let text = format!("lists of ops nested more than {MAX_DEPTH} deep");
                error(text, "move the op out of its container")
            })?;
            let inner = inner.iter().map(|op| op_value(op, (&[], text), left, deeper));
            let inner: Array = inner.collect::<Result<_, _>>()?;
            table.insert(key, toml_edit::Value::Array(inner));
        } else if let Some(value) = toml_of(value) {
            table.insert(key, value);
        }
    }
    Ok(toml_edit::Value::InlineTable(table))
}

/// Returns true if an op is the one in the text, comments included.
fn unchanged(known: &Value, sent: &Value) -> bool {
    same(known, sent) && known["before"] == sent["before"] && known["after"] == sent["after"]
}

/// Returns true if two ops have the same names and values.
fn same(a: &Value, b: &Value) -> bool {
    let inner = |op: &Value| op["ops"].as_array().map_or(0, Vec::len);
    let same_inner = (0..inner(a)).all(|index| same(&a["ops"][index], &b["ops"][index]));
    a["op"] == b["op"] && equal(&a["params"], &b["params"]) && inner(a) == inner(b) && same_inner
}

/// Compares numbers by value: JavaScript writes 1.0 as 1.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pair = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| equal(a, b));
            a.len() == b.len() && a.iter().all(pair)
        }
        _ => a == b,
    }
}

fn toml_of(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => {
            toml_edit::Value::Array(list.iter().filter_map(toml_of).collect::<Array>())
        }
        Value::Object(table) => {
            let entries = table.iter().filter_map(|(key, value)| Some((key, toml_of(value)?)));
            let mut inline = InlineTable::new();
            entries.for_each(|(key, value)| {
                inline.insert(key, value);
            });
            toml_edit::Value::InlineTable(inline)
        }
    })
}

/// The op that a byte of the text is part of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) field: String,
    /// The index of the op in each list, from the outermost.
    pub(super) path: Vec<usize>,
    pub(super) op: String,
    pub(super) param: Option<String>,
}

/// Finds the op at a byte of the text.
pub(super) fn find(fields: &[FieldOps], at: usize) -> Option<Found> {
    fields.iter().find_map(|field| {
        let mut found =
            Found { field: field.field.clone(), path: vec![], op: String::new(), param: None };
        find_in(&field.ops, at, &mut found).then_some(found)
    })
}

fn find_in(ops: &[OpText], at: usize, found: &mut Found) -> bool {
    let Some((index, op)) = ops.iter().enumerate().find(|(_, op)| op.span.contains(&at)) else {
        return false;
    };
    found.path.push(index);
    found.op.clone_from(&op.name);
    if !find_in(&op.inner, at, found) {
        let param = op.params.iter().find(|(.., span)| span.contains(&at));
        found.param = param.map(|(name, ..)| name.clone());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine
batch_size = 64

[fields]
# the pictures
image = [
    # first
    { op = \"Resize\", size = 0x20 },  # small
    \"RandomHorizontalFlip\",
    { op = \"RandomApply\", ops = [\"Transpose\", { op = \"RandomVerticalFlip\", p = 2.0 }], p = 1.0 },
    # last
]
label = []  # kept
";

    fn sent(text: &str) -> Value {
        as_json(&fields(text), text)[0]["ops"].clone()
    }

    #[test]
    fn an_unchanged_list_leaves_the_text_to_the_letter() {
        assert_eq!(with_ops(TEXT, "image", &sent(TEXT)).unwrap(), TEXT);
    }

    #[test]
    fn a_changed_op_alone_changes() {
        let mut ops = sent(TEXT);
        ops[1]["params"]["p"] = json!(0.25);
        // Comments at the end of a line have one space before them then.
        let flip = "{ op = \"RandomHorizontalFlip\", p = 0.25 }";
        let want =
            TEXT.replace("\"RandomHorizontalFlip\"", flip).replace(",  # small", ", # small");
        assert_eq!(with_ops(TEXT, "image", &ops).unwrap(), want);
    }

    #[test]
    fn ops_are_added_where_there_was_no_list() {
        let ops = json!([{ "op": "ToChannelsFirst", "params": {}, "ops": [] }]);
        let text = with_ops("seed = 1\n", "image", &ops).unwrap();
        assert_eq!(text, "seed = 1\n\n[fields]\nimage = [\n    \"ToChannelsFirst\",\n]\n");
    }

    #[test]
    fn comments_from_the_page_stay_comments() {
        let ops = json!([{ "op": "ToChannelsFirst", "params": {}, "ops": [],
            "before": ["x\nseed = 3"], "after": "]\n[fields]" }]);
        let text = with_ops("", "image", &ops).unwrap();
        assert!(
            text.contains("# x\n") && text.contains("# ]\n") && !text.contains("seed"),
            "{text}"
        );
    }

    #[test]
    fn the_op_of_a_place_is_found_in_its_container() {
        let fields = fields(TEXT);
        let found = find(&fields, TEXT.find("2.0").unwrap()).unwrap();
        assert_eq!((found.path, found.op.as_str()), (vec![2, 1], "RandomVerticalFlip"));
        assert_eq!(found.param.as_deref(), Some("p"));
        assert_eq!(find(&fields, 3), None);
    }

    /// Twice as many fields take about twice as long: the text is read once, and not once for each op.
    #[test]
    fn many_fields_are_read_in_linear_time() {
        let text = |count: usize, end: &str| {
            let field = |k| format!("f{k} = [{{ op = \"RandomInvert\" }}]{end}");
            (0..count).map(field).collect::<String>()
        };
        let lines = format!("[fields]\n{}", text(20_000, "\n"));
        let start = std::time::Instant::now();
        let read = fields(&lines);
        let json = as_json(&read, &lines);
        assert_eq!(json[19_999]["ops"][0]["line"], 20_001);
        let ops = json!([{ "op": "Transpose", "params": {}, "ops": [] }]);
        assert!(with_ops(&lines, "f7", &ops).unwrap().contains("Transpose"));
        // All ops on one line.
        let line = format!("fields = {{ {} }}", text(20_000, ", ").trim_end_matches(", "));
        for text in [&lines, &line] {
            let spec = fuseloop::Spec::parse(text, "many.toml".as_ref()).unwrap();
            assert_eq!(spec.fields().count(), 20_000);
        }
        let took = start.elapsed();
        assert!(took < std::time::Duration::from_secs(20), "{took:?}");
    }

    #[test]
    fn hostile_lists_are_refused() {
        let op = json!({ "op": "Transpose", "params": {}, "ops": [] });
        assert!(with_ops("", "image", &json!(vec![op.clone(); MAX_OPS + 1])).is_err());
        let mut deep = op;
        for _ in 0..30 {
            deep = json!({ "op": "RandomApply", "params": { "ops": null }, "ops": [deep] });
        }
        assert!(with_ops("", "image", &json!([deep])).is_err());
        assert!(with_ops("", "image", &json!({})).is_err());
        assert!(with_ops("x", "image", &json!([])).is_err());
    }
}
