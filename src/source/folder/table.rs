//! Tables of images: each line is an image, each column a field.
//!
//! | file              | header                                | the path                     |
//! |-------------------|---------------------------------------|------------------------------|
//! | `.csv`, `.tsv`    | names of columns                      | column `path` or `file_name` (Hugging Face's `metadata.csv`), else the first |
//! | `.csv`, `.tsv`    | none: two columns, the first has a `.` | the first; the other is `label` |
//! | `.jsonl`          | the keys of the first line            | as above; all lines have the same keys |
//!
//! A folder with a `metadata.jsonl` or `metadata.csv` that has the column `file_name` is opened as this table, whatever
//! folders it has. Its paths must stay in the folder then.
//!
//! Needs the feature `tables`. Paths are relative to the table's folder. The existence of the files is not checked. A column becomes
//!
//! | all its values are                | a field of                                                |
//! |-----------------------------------|-----------------------------------------------------------|
//! | whole numbers, below 2^63         | Int                                                       |
//! | numbers                           | Float                                                     |
//! | texts, of a column called `label` | Int: the number of the class, by the order of their bytes |
//! | texts                             | Bytes                                                     |
//! | anything else that JSON has       | Json                                                      |
//!
//! In a column called `label`, an empty name is refused, and so are numbers beside names in a CSV.

use super::error::ListError;
use super::links::Links;
use super::list::number_names;
use super::names::{Names, Packed};
use super::numbers::ClassNumbers;
use crate::sample::Limits;
use crate::source::FieldKind;
#[cfg(not(feature = "tables"))]
use crate::source::feature::NeedsFeature;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

/// The content of a table.
pub(super) struct PathTable {
    pub(super) names: Names,
    pub(super) columns: Vec<(String, TableColumn)>,
    pub(super) classes: ClassNumbers,
}

/// The values of one field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TableColumn {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Bytes(Packed),
    /// JSON texts, each with a final NUL.
    Json(Packed),
}

impl TableColumn {
    pub(super) fn kind(&self) -> FieldKind {
        match self {
            Self::Int(_) => FieldKind::Int,
            Self::Float(_) => FieldKind::Float,
            Self::Bytes(_) => FieldKind::Bytes,
            Self::Json(_) => FieldKind::Json,
        }
    }
}

/// The lines of a table, with the names of its columns.
struct Cells {
    names: Vec<String>,
    /// True if numbers are written as texts, as in CSV.
    is_text: bool,
    /// The number of each line, from 1, and its cells.
    lines: Vec<(u64, Vec<Json>)>,
}

impl PathTable {
    /// Reads a table. For the table of a folder, `inside` refuses paths that lead out of it.
    pub(super) fn read(
        path: &Path,
        inside: Option<&InFolder>,
        limits: &Limits,
    ) -> Result<Self, ListError> {
        let cells = match kind_of(path) {
            Some("jsonl") => from_json_lines(path, limits)?,
            _ => from_csv(path, limits)?,
        };
        if cells.lines.is_empty() {
            return Err(empty_table(path));
        }
        if cells.lines.len() as u64 > limits.max_samples {
            let what = format!("{} lines", cells.lines.len());
            return Err(ListError::Limit { path: path.to_owned(), what, max: limits.max_samples });
        }
        Self::of(path, inside, cells)
    }

    fn of(table: &Path, inside: Option<&InFolder>, cells: Cells) -> Result<Self, ListError> {
        let bad = |line, reason: String| ListError::Table { path: table.to_owned(), line, reason };
        let Cells { names: mut heads, is_text, mut lines } = cells;
        let is_path = |name: &String| name == "file_name" || (name == "path" && inside.is_none());
        let known = heads.iter().position(is_path);
        let path_column = known.unwrap_or(0);
        heads.remove(path_column);
        for (index, name) in heads.iter().enumerate() {
            if name.is_empty() || name == "image" || heads[..index].contains(name) {
                return Err(bad(
                    1,
                    format!("column name {name:?} is empty, repeated, or reserved for the image"),
                ));
            }
        }
        let (mut names, mut dirs) = (Names::default(), HashMap::new());
        for (line, cells) in &mut lines {
            let Json::String(path) = cells.remove(path_column) else {
                return Err(bad(*line, "the path is not a text".into()));
            };
            if let Some(reason) = inside.and_then(|inside| inside.why_not(&path)) {
                return Err(bad(*line, format!("{path:?} {reason}")));
            }
            add(&mut names, &mut dirs, &path)
                .ok_or_else(|| bad(*line, format!("{path:?} is not the path of a file")))?;
        }
        let mut classes = ClassNumbers::default();
        let read = |(index, name): (usize, String)| -> Result<_, ListError> {
            if name != "label" {
                let cells: Vec<&Json> = lines.iter().map(|(_, cells)| &cells[index]).collect();
                return Ok((name, column(&cells, is_text)));
            }
            let cells: Vec<(u64, &Json)> =
                lines.iter().map(|(line, cells)| (*line, &cells[index])).collect();
            let labels = label_column(&cells, is_text);
            let (labels, names) = labels.map_err(|(line, reason)| bad(line, reason))?;
            classes = names;
            Ok((name, labels))
        };
        let columns = heads.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Self { names, columns, classes })
    }
}

/// The folder that a table lists, if the folder was opened and not the table: all files must be in it.
pub(super) struct InFolder {
    /// The folder's path without links.
    real: PathBuf,
    links: Links,
}

impl InFolder {
    /// Returns the table that lists the images of a folder as Hugging Face's `imagefolder` reads it: a `metadata.jsonl`
    /// or `metadata.csv` with the column `file_name`.
    ///
    /// # Errors
    ///
    /// Fails if there is a file of this name that can't be read, or a link that is not followed.
    pub(super) fn find(dir: &Path, links: Links) -> Result<Option<(PathBuf, Self)>, ListError> {
        for name in ["metadata.jsonl", "metadata.csv"] {
            let path = dir.join(name);
            if !fs::metadata(&path).is_ok_and(|found| found.is_file()) {
                continue;
            }
            let real = fs::canonicalize(dir).map_err(ListError::io(dir))?;
            let inside = Self { real, links };
            if let Some(reason) = inside.why_not(name) {
                let source = io::Error::new(io::ErrorKind::InvalidInput, reason);
                return Err(ListError::Io { path, source });
            }
            if has_file_name(&path).map_err(ListError::io(&path))? {
                return Ok(Some((path, inside)));
            }
        }
        Ok(None)
    }

    /// Returns why a file, relative to the folder, is not read.
    fn why_not(&self, path: &str) -> Option<&'static str> {
        let path = Path::new(path);
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !path.components().all(is_below) {
            return Some(
                "leads out of the folder: open the table itself, whose paths may lead anywhere",
            );
        }
        if self.links == Links::Follow {
            return None;
        }
        // A file that is missing is the error of its sample.
        let whole = self.real.join(path);
        let real = fs::canonicalize(&whole).ok()?;
        let (is_allowed, reason) = match self.links {
            Links::Refuse => (real == whole, "is a link or behind one, and links are refused"),
            _ => (real.starts_with(&self.real), "is a link out of the folder, or behind one"),
        };
        (!is_allowed).then_some(reason)
    }
}

/// Returns whether the first line of a table has the column `file_name`. At most 1 MiB is read.
fn has_file_name(table: &Path) -> io::Result<bool> {
    let mut file = BufReader::new(File::open(table)?.take(1 << 20));
    let mut line = vec![];
    while file.read_until(b'\n', &mut line)? > 0 && line.trim_ascii().is_empty() {
        line.clear();
    }
    let line = String::from_utf8_lossy(&line);
    Ok(match kind_of(table) {
        Some("jsonl") => line.contains("\"file_name\""),
        _ => line
            .split(',')
            .any(|name| name.trim_matches(['"', '\u{feff}', ' ', '\r', '\n']) == "file_name"),
    })
}

/// Returns `csv`, `tsv` or `jsonl` if the file has that extension.
pub(super) fn kind_of(path: &Path) -> Option<&'static str> {
    let ext = path.extension()?;
    ["csv", "tsv", "jsonl"].into_iter().find(|kind| ext.eq_ignore_ascii_case(kind))
}

/// A line of a table of two columns.
pub(super) struct PathAndLabel {
    /// The number of the line, from 1.
    pub(super) line: u64,
    pub(super) path: String,
    pub(super) label: Json,
}

/// Reads the lines of a table of two columns, without its header.
#[cfg_attr(not(feature = "write"), allow(dead_code, reason = "only a list needs pairs"))]
pub(super) fn pairs(table: &Path) -> Result<Vec<PathAndLabel>, ListError> {
    let rows = records(table, &Limits::DEFAULT)?;
    let mut pairs = Vec::with_capacity(rows.len());
    for (index, (line, mut row)) in rows.into_iter().enumerate() {
        let found = row.len();
        let (Some(label), Some(path), 2) = (row.pop(), row.pop(), found) else {
            return Err(ListError::Columns { path: table.to_owned(), line, found });
        };
        let is_header = index == 0 && !path.contains('.');
        if !is_header {
            pairs.push(PathAndLabel { line, path, label: Json::String(label) });
        }
    }
    if pairs.is_empty() {
        return Err(empty_table(table));
    }
    Ok(pairs)
}

/// Adds a file by its path.
fn add(names: &mut Names, dirs: &mut HashMap<String, usize>, path: &str) -> Option<()> {
    let name = Path::new(path).file_name()?;
    let parent = Path::new(path).parent()?;
    let key = parent.to_str()?;
    let dir = match dirs.get(key) {
        Some(&dir) => dir,
        None => {
            let dir = names.add_dir(parent.to_owned(), i64::MIN);
            dirs.insert(key.to_owned(), dir);
            dir
        }
    };
    names.push(dir, OsStr::new(name))
}

/// Returns the values of the column `label`, and the classes if the labels are their names. They are names if all cells
/// are texts and some text is not a number. Every reader of tables calls this, so that a table has the same labels for
/// all of them. Each cell comes with the number of its line.
///
/// # Errors
///
/// Fails with the line and the reason if a name is empty, or if the texts of a CSV are numbers and names: one misspelled
/// number would make names of all others, and change the numbers of all classes.
pub(super) fn label_column(
    cells: &[(u64, &Json)],
    is_text: bool,
) -> Result<(TableColumn, ClassNumbers), (u64, String)> {
    let texts = cells.iter().map(|(line, cell)| Some((*line, cell.as_str()?)));
    let texts: Option<Vec<(u64, &str)>> = texts.collect();
    let is_name = |(_, text): &&(u64, &str)| text.parse::<f64>().is_err();
    let Some(texts) = texts.filter(|texts| texts.iter().any(|text| is_name(&text))) else {
        let cells: Vec<&Json> = cells.iter().map(|(_, cell)| *cell).collect();
        return Ok((column(&cells, is_text), ClassNumbers::default()));
    };
    if let Some((line, _)) = texts.iter().find(|(_, text)| text.trim().is_empty()) {
        return Err((*line, "the label is empty, expected a number or the name of a class".into()));
    }
    // `nan` and `inf` are numbers beside numbers, and names beside names.
    let is_number = |(_, text): &&(u64, &str)| text.parse::<f64>().is_ok_and(f64::is_finite);
    if let (true, Some(number)) = (is_text, texts.iter().find(is_number)) {
        let name = texts.iter().find(is_name).unwrap_or(number);
        let (first, second) = if name.0 < number.0 { (name, number) } else { (number, name) };
        let kind = |label: &(u64, &str)| if label == name { "a name" } else { "a number" };
        let reason = format!(
            "label {:?} is {}, but {:?} in line {} is {}: write only numbers or only names (a .jsonl table may have names \
             such as \"7\")",
            second.1,
            kind(second),
            first.1,
            first.0,
            kind(first)
        );
        return Err((second.0, reason));
    }
    let (labels, classes) = number_names(texts.iter().map(|(_, text)| *text));
    Ok((TableColumn::Int(labels), classes))
}

/// Returns the values of a field from its cells.
fn column(cells: &[&Json], is_text: bool) -> TableColumn {
    let int = |cell: &&Json| match cell {
        Json::String(text) if is_text => text.parse().ok(),
        cell => cell.as_i64(),
    };
    let float = |cell: &&Json| match cell {
        Json::String(text) if is_text => text.parse().ok(),
        cell => cell.as_f64(),
    };
    if let Some(ints) = cells.iter().map(int).collect() {
        return TableColumn::Int(ints);
    }
    if let Some(floats) = cells.iter().map(float).collect() {
        return TableColumn::Float(floats);
    }
    let mut packed = Packed::default();
    if cells.iter().all(|cell| cell.is_string()) {
        cells.iter().for_each(|cell| packed.push(cell.as_str().unwrap_or_default().as_bytes()));
        return TableColumn::Bytes(packed);
    }
    cells.iter().for_each(|cell| packed.push(format!("{cell}\0").as_bytes()));
    TableColumn::Json(packed)
}

/// Reads the cells of a table whose columns are separated by commas or tabs.
fn from_csv(path: &Path, limits: &Limits) -> Result<Cells, ListError> {
    let mut rows = records(path, limits)?.into_iter().peekable();
    let first = rows.peek().map(|(_, first)| first.clone()).unwrap_or_default();
    let is_named = |cell: &String| cell == "path" || cell == "file_name";
    let has_header = first.iter().any(is_named) || first.first().is_some_and(|c| !c.contains('.'));
    let names = match has_header {
        true => rows.next().map(|(_, names)| names).unwrap_or_default(),
        false => vec!["path".to_owned(), "label".to_owned()],
    };
    let mut lines = vec![];
    for (line, row) in rows {
        if row.len() != names.len() {
            let (found, wanted, names) = (row.len(), names.len(), names.join(", "));
            let reason = format!(
                "{found} columns, expected {wanted} ({names}): quote a value that has a comma"
            );
            return Err(ListError::Table { path: path.to_owned(), line, reason });
        }
        lines.push((line, row.into_iter().map(Json::String).collect()));
    }
    Ok(Cells { names, is_text: true, lines })
}

/// Reads the lines of a table whose columns are separated by commas, or by tabs if the file is called
/// `.tsv`.
#[cfg(feature = "tables")]
fn records(table: &Path, limits: &Limits) -> Result<Vec<(u64, Vec<String>)>, ListError> {
    let delimiter = if kind_of(table) == Some("tsv") { b'\t' } else { b',' };
    let csv_error = |source| ListError::Csv { path: table.to_owned(), source };
    let text = read_table_bytes(table, limits)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(&text[..]);
    let mut rows = vec![];
    for record in reader.records() {
        let record = record.map_err(csv_error)?;
        let line = record.position().map_or(0, csv::Position::line);
        rows.push((line, record.iter().map(str::to_owned).collect()));
    }
    Ok(rows)
}

/// Reads the cells of a file of JSON objects, one on each line.
#[cfg(feature = "tables")]
fn from_json_lines(path: &Path, limits: &Limits) -> Result<Cells, ListError> {
    let text = read_table_bytes(path, limits)?;
    let (mut names, mut lines) = (Vec::<String>::new(), vec![]);
    for (line, text) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        let bad = |reason: String| ListError::Table { path: path.to_owned(), line, reason };
        if text.trim_ascii().is_empty() {
            continue;
        }
        let parsed: Json = serde_json::from_slice(text).map_err(|e| bad(e.to_string()))?;
        let Json::Object(mut object) = parsed else { return Err(bad("not a JSON object".into())) };
        if names.is_empty() {
            names = object.keys().cloned().collect();
        }
        if object.len() != names.len() || object.is_empty() {
            let (found, wanted) = (object.len(), names.len());
            return Err(bad(format!("{found} keys, expected {wanted} as in the first line")));
        }
        let cell = |name: &String| {
            object
                .remove(name)
                .ok_or_else(|| bad(format!("key {name:?} is missing; the first line has it")))
        };
        lines.push((line, names.iter().map(cell).collect::<Result<_, _>>()?));
    }
    Ok(Cells { names, is_text: false, lines })
}

/// Returns the error for a table without lines.
fn empty_table(table: &Path) -> ListError {
    ListError::EmptyTable { path: table.to_owned() }
}

#[cfg(not(feature = "tables"))]
fn records(table: &Path, _: &Limits) -> Result<Vec<(u64, Vec<String>)>, ListError> {
    Err(left_out(table))
}

#[cfg(not(feature = "tables"))]
fn from_json_lines(table: &Path, _: &Limits) -> Result<Cells, ListError> {
    Err(left_out(table))
}

/// Returns the error for a table in a build that reads none.
#[cfg(not(feature = "tables"))]
fn left_out(table: &Path) -> ListError {
    let reason = NeedsFeature { what: "tables of images", feature: "tables" };
    ListError::LeftOut { path: table.to_owned(), reason: reason.to_string() }
}

/// Reads a table's bytes.
#[cfg(feature = "tables")]
fn read_table_bytes(table: &Path, limits: &Limits) -> Result<Vec<u8>, ListError> {
    let mut bytes = vec![];
    let max = limits.max_table_bytes;
    super::read_file(table, max, &mut bytes).map_err(ListError::io(table))?;
    Ok(bytes)
}

/// Returns whether a path has the extension of a table and is not a directory.
pub(super) fn is_table(path: &Path) -> bool {
    kind_of(path).is_some() && fs::metadata(path).is_ok_and(|found| !found.is_dir())
}
