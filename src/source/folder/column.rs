//! The columns of a table: what their cells are, and which of them are damaged.
//!
//! | all values of a column            | its field                                                 |
//! |-----------------------------------|-----------------------------------------------------------|
//! | whole numbers, below 2^63         | Int                                                       |
//! | numbers                           | Float                                                     |
//! | texts, of the labels              | Int: the number of the class, by the order of their bytes |
//! | texts                             | Bytes                                                     |
//! | anything else that JSON has       | Json                                                      |
//!
//! A missing value (an empty cell of CSV, `null`) among numbers is damage of its sample, or NaN if that is asked for; so is
//! `null` among texts. An empty text of CSV is a text.
//!
//! Labels are numbers or names by most of their cells. A name among numbers, a number among names in a CSV, and an empty label
//! are damage of their samples: a misspelled number must not turn the others into names, and number all classes anew. JSON
//! says which labels are texts: there, names such as `"7"` may stand beside others; if all are whole numbers, they are these
//! numbers.

use super::numbers::ClassNumbers;
pub(super) use crate::escape::shown;
use crate::source::ClassNames;
use crate::source::columnar::Values;
use crate::source::names::Packed;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The values of one field.
#[derive(Default)]
pub(super) struct TableColumn {
    pub(super) values: Values,
    /// The samples without a value.
    pub(super) flaws: Flaws,
}

/// What is wrong with a line of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flaw {
    pub(super) line: u64,
    pub(super) reason: String,
}

/// Flaws by the indices of their samples.
pub(super) type Flaws = BTreeMap<usize, Flaw>;

/// A cell of a column, with the number of its line.
pub(super) struct Cell {
    pub(super) line: u64,
    pub(super) value: Json,
}

impl TableColumn {
    pub(super) fn ints(values: Vec<i64>) -> Self {
        Self { values: Values::Ints(values), flaws: Flaws::new() }
    }

    /// Returns whether the values are texts, of which few differ.
    pub(super) fn seems_to_have_classes(&self) -> bool {
        let Values::Bytes(texts) = &self.values else { return false };
        let most = texts.len() / 2;
        let mut seen = BTreeSet::new();
        for index in 0..texts.len() {
            if texts.get(index).is_some_and(|text| seen.insert(text)) && seen.len() > most {
                return false;
            }
        }
        texts.len() > 1 && seen.iter().any(|text| !text.is_empty())
    }
}

/// The first whole number beyond those of 64 bits.
const I64_END: f64 = 9_223_372_036_854_775_808.0;

fn is_missing(cell: &Json, is_text: bool) -> bool {
    cell.is_null() || is_text && cell.as_str() == Some("")
}

fn int(cell: &Json, is_text: bool) -> Option<i64> {
    match cell {
        Json::String(text) if is_text => text.parse().ok(),
        Json::Bool(value) => Some((*value).into()),
        cell => cell.as_i64(),
    }
}

fn float(cell: &Json, is_text: bool) -> Option<f64> {
    match cell {
        Json::String(text) if is_text => text.parse().ok(),
        cell => cell.as_f64(),
    }
}

/// Returns whether a cell is a whole number that 64 bits can't hold: as a float it would be another number.
fn is_beyond_int(cell: &Json, is_text: bool) -> bool {
    match cell {
        Json::String(text) if is_text => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_whole && text.parse::<i64>().is_err()
        }
        Json::Number(number) if !number.is_i64() => {
            number.as_f64().is_some_and(|value| value.fract() == 0.0 && value.abs() >= I64_END)
        }
        _ => false,
    }
}

/// Returns the values of a field from its cells. Cells of samples that are damaged anyway are skipped.
pub(super) fn values(
    cells: &[Cell],
    is_text: bool,
    skip: impl Fn(usize) -> bool,
    nan: bool,
) -> TableColumn {
    let counted = cells.iter().enumerate().filter(|(index, _)| !skip(*index));
    let (missing, there): (Vec<_>, Vec<_>) =
        counted.partition(|(_, cell)| is_missing(&cell.value, is_text));
    let mut flaws = Flaws::new();
    let mut lose = |what: &str| {
        for (index, cell) in &missing {
            let reason = format!("the value is missing, expected {what}");
            flaws.insert(*index, Flaw { line: cell.line, reason });
        }
    };
    let (is_empty, has_missing) = (there.is_empty(), !missing.is_empty());
    let all = |is: &dyn Fn(&Json) -> bool| there.iter().all(|(_, cell)| is(&cell.value));
    let bools = there.iter().filter(|(_, cell)| cell.value.is_boolean()).count();
    let is_mixed = bools > 0 && bools < there.len();
    let beyond = |cell: &Json| is_beyond_int(cell, is_text);
    let are_whole =
        !is_empty && !is_mixed && all(&|cell| int(cell, is_text).is_some() || beyond(cell));
    if are_whole && !all(&beyond) && !(nan && has_missing) {
        lose("a whole number");
        for (index, cell) in there.iter().filter(|(_, cell)| beyond(&cell.value)) {
            let found = cell.value.as_str().map_or_else(|| cell.value.to_string(), str::to_owned);
            let reason = format!(
                "the value {} is a whole number of more than 64 bits, which others of its column are not",
                shown(&found)
            );
            flaws.insert(*index, Flaw { line: cell.line, reason });
        }
        let ints = cells.iter().map(|cell| int(&cell.value, is_text).unwrap_or_default());
        return TableColumn { values: Values::Ints(ints.collect()), flaws };
    }
    if !is_empty && all(&|cell| float(cell, is_text).is_some() && !beyond(cell)) {
        if !nan {
            lose("a number");
        }
        let floats = cells.iter().map(|cell| float(&cell.value, is_text).unwrap_or(f64::NAN));
        return TableColumn { values: Values::Floats(floats.collect()), flaws };
    }
    if all(&Json::is_string) && (is_text || !is_empty) {
        if !is_text {
            lose("a text");
        }
        let texts = cells.iter().map(|cell| cell.value.as_str().unwrap_or_default().as_bytes());
        return TableColumn { values: Values::Bytes(texts.collect()), flaws };
    }
    let mut packed = Packed::default();
    cells.iter().for_each(|cell| packed.push(format!("{}\0", cell.value).as_bytes()));
    TableColumn { values: Values::Json(packed), flaws }
}

/// Returns why a column is probably not what its writer meant: texts, most of which are numbers.
pub(super) fn doubt(
    name: &str,
    cells: &[Cell],
    column: &TableColumn,
    is_text: bool,
) -> Option<String> {
    let (Values::Bytes(_), true) = (&column.values, is_text) else { return None };
    let is_number = |cell: &&Cell| float(&cell.value, is_text).is_some();
    let numbers = cells.iter().filter(is_number).count();
    let there = cells.iter().filter(|cell| !is_missing(&cell.value, is_text)).count();
    let text = cells.iter().find(|cell| !is_number(cell) && !is_missing(&cell.value, is_text))?;
    let found = text.value.as_str().unwrap_or_default();
    (numbers > there - numbers).then(|| {
        format!(
            "the column `{name}` has {numbers} numbers, but also {:?} in line {}: all its values are read as bytes",
            shown(found),
            text.line
        )
    })
}

/// What a label is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Missing,
    /// A finite number.
    Number,
    /// A text that is `nan` or `inf`: a number beside numbers, and a name beside names.
    Either,
    Name,
    Other,
}

impl Label {
    fn of(cell: &Json, is_text: bool) -> Self {
        match cell {
            Json::Number(_) | Json::Bool(_) => Self::Number,
            Json::Null => Self::Missing,
            Json::String(text) if text.trim().is_empty() => Self::Missing,
            Json::String(text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() && is_text => Self::Number,
                Ok(_) if is_text => Self::Either,
                _ => Self::Name,
            },
            _ => Self::Other,
        }
    }
}

/// Returns the values of the labels, and the classes if the labels are their names. Every reader of tables calls this, so
/// that a table has the same labels for all of them.
///
/// # Errors
///
/// Fails if as many labels are numbers as are names, if a name has a line break, and if no label is good.
pub(super) fn labels(
    cells: &[Cell],
    is_text: bool,
    classes: Option<&ClassNames>,
    skip: impl Fn(usize) -> bool,
    nan: bool,
) -> Result<(TableColumn, ClassNumbers), Flaw> {
    let kinds: Vec<Label> = cells
        .iter()
        .enumerate()
        .map(
            |(index, cell)| {
                if skip(index) { Label::Missing } else { Label::of(&cell.value, is_text) }
            },
        )
        .collect();
    let first =
        |kind: Label| kinds.iter().position(|&found| found == kind).map(|index| &cells[index]);
    let count = |kind: Label| kinds.iter().filter(|&&found| found == kind).count();
    let (numbers, names) = (count(Label::Number), count(Label::Name));
    if first(Label::Other).is_some() {
        return Ok((values(cells, is_text, skip, nan), ClassNumbers::default()));
    }
    // JSON says that its texts are texts, but numbers in quotes are numbers.
    let whole = |cell: &Json| cell.as_str().and_then(|text| text.parse::<i64>().ok());
    let mut names_of = cells.iter().zip(&kinds).filter(|(_, kind)| **kind == Label::Name);
    let are_quoted =
        !is_text && names > 0 && names_of.all(|(cell, _)| whole(&cell.value).is_some());
    let are_names = !are_quoted && names > 0 && names >= numbers;
    let text = |cell: &Cell| match &cell.value {
        Json::String(text) => shown(text).into_owned(),
        other => other.to_string(),
    };
    if let (false, true, Some(number), Some(name)) =
        (are_quoted, names == numbers, first(Label::Number), first(Label::Name))
    {
        let is_name_first = name.line < number.line;
        let (one, two) = if is_name_first { (name, number) } else { (number, name) };
        let (kind_one, kind_two) =
            if is_name_first { ("a name", "a number") } else { ("a number", "a name") };
        let reason = format!(
            "label {:?} is {kind_two}, but {:?} in line {} is {kind_one}: write only numbers or only names (a .jsonl table \
             may have names such as \"7\")",
            text(two),
            text(one),
            one.line
        );
        return Err(Flaw { line: two.line, reason });
    }
    let mut of_numbers = cells.iter().zip(&kinds).filter(|(_, kind)| **kind == Label::Number);
    let are_whole = numbers > 0
        && of_numbers.all(|(cell, _)| {
            int(&cell.value, is_text).is_some() || is_beyond_int(&cell.value, is_text)
        });
    let mut flaws = Flaws::new();
    let mut plain: Vec<Cell> = vec![];
    for (index, (cell, kind)) in cells.iter().zip(&kinds).enumerate() {
        let is_lost = !skip(index);
        let reason = match (kind, are_names) {
            (Label::Missing, _) if nan && !are_names => None,
            (Label::Missing, _) => {
                Some("the label is empty, expected a number or the name of a class".to_owned())
            }
            (Label::Number, true) => Some(format!(
                "label {:?} is a number, but most labels are names (a .jsonl table may have names such as \"7\")",
                text(cell)
            )),
            (Label::Name, false) if !are_quoted => {
                Some(format!("label {:?} is a name, but most labels are numbers", text(cell)))
            }
            (Label::Either, false) if are_whole && !nan => Some(format!(
                "label {:?} is no number, but the others are whole numbers",
                text(cell)
            )),
            (Label::Name | Label::Either, true) => {
                let found = cell.value.as_str().unwrap_or_default();
                if is_text && found.contains(['\n', '\r']) {
                    let reason = format!(
                        "the label {:?} has a line break: is the quote that opens in this line not closed?",
                        shown(found)
                    );
                    return Err(Flaw { line: cell.line, reason });
                }
                None
            }
            _ => None,
        };
        let value = match (&reason, whole(&cell.value)) {
            (Some(_), _) => Json::Null,
            (None, Some(number)) if are_quoted => number.into(),
            _ => cell.value.clone(),
        };
        if let Some(reason) = reason.filter(|_| is_lost) {
            flaws.insert(index, Flaw { line: cell.line, reason });
        }
        plain.push(Cell { line: cell.line, value });
    }
    let is_gone = |index: usize| skip(index) || flaws.contains_key(&index);
    if let (true, Some(first)) = ((0..cells.len()).all(is_gone), flaws.values().next()) {
        return Err(first.clone());
    }
    let (mut column, numbered) = if are_names {
        named(&plain, classes)
    } else {
        let column = values(&plain, is_text, is_gone, nan);
        numbered(column, &plain, classes)
    };
    column.flaws.append(&mut flaws);
    if let (true, Some(first)) = (column.flaws.len() == cells.len(), column.flaws.values().next()) {
        return Err(first.clone());
    }
    Ok((column, numbered))
}

/// Numbers the names of classes: as `classes` says, or in the order of their bytes.
fn named(cells: &[Cell], classes: Option<&ClassNames>) -> (TableColumn, ClassNumbers) {
    let names = || cells.iter().filter_map(|cell| cell.value.as_str());
    let numbers: BTreeMap<&str, i64> = match classes {
        Some(classes) => classes.iter().map(|(number, name)| (name, number)).collect(),
        None => names().collect::<BTreeSet<&str>>().into_iter().zip(0..).collect(),
    };
    let (mut labels, mut flaws) = (vec![], Flaws::new());
    for (index, cell) in cells.iter().enumerate() {
        let name = cell.value.as_str();
        let number = name.and_then(|name| numbers.get(name).copied());
        if let (Some(name), None) = (name, number) {
            let reason = format!("label {:?} is not one of the classes that are set", shown(name));
            flaws.insert(index, Flaw { line: cell.line, reason });
        }
        labels.push(number.unwrap_or_default());
    }
    let numbered = match classes {
        Some(classes) => ClassNumbers::given(classes),
        None => {
            let listed: Vec<String> = numbers.into_keys().map(str::to_owned).collect();
            ClassNumbers::by_order(&listed)
        }
    };
    (TableColumn { values: Values::Ints(labels), flaws }, numbered)
}

/// Checks numbers of classes against those that are set.
fn numbered(
    mut column: TableColumn,
    cells: &[Cell],
    classes: Option<&ClassNames>,
) -> (TableColumn, ClassNumbers) {
    let Some(classes) = classes else { return (column, ClassNumbers::default()) };
    if let Values::Ints(labels) = &column.values {
        for (index, (label, cell)) in labels.iter().zip(cells).enumerate() {
            if classes.get(*label).is_none() {
                let reason = format!("label {label} is not the number of a class that is set");
                column.flaws.entry(index).or_insert(Flaw { line: cell.line, reason });
            }
        }
    }
    (column, ClassNumbers::given(classes))
}
