//! Texts as classes: a column of texts that is called as a label, and has each of its texts often.
//!
//! ```text
//! label:  "dog" "cat" "dog" "bird" ...   -->   2 1 2 0 ...    names: bird, cat, dog
//! ```
//!
//! The texts are numbered in the order of their bytes, as torchvision numbers the folders of classes and as
//! `class_encode_column` of `datasets` numbers texts. All of them must be known before a sample is read, so that opening
//! reads the whole column.

use super::footer::File;
use super::leaf::Cells;
use super::schema::{Column, How, Plan};
use crate::error::{Error, fail};
use crate::parallel;
use crate::sample::Limits;
use crate::source::{ClassNames, Escaped};
use crate::warnings::warn;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The names of columns of labels: the first that a file has is taken.
const LABELS: [&str; 7] = ["label", "labels", "class", "class_name", "category", "cls", "target"];

/// The most classes.
const MOST: usize = 65_536;

/// The most bytes of the name of a class.
const MOST_BYTES: usize = 256;

/// The number of names that a warning lists.
const LISTED: usize = 5;

/// Reads the texts of the label as classes, unless a column of numbers is the label.
///
/// # Errors
///
/// Fails if the texts of a column that is called as a label can't be read: the numbers of the classes depend on all.
pub(super) fn find(
    plan: &mut Plan,
    dataset: &str,
    texts: impl Fn(&Column) -> Result<Option<Vec<String>>, Error>,
) -> Result<(), Error> {
    let is_called = |column: &Column, name: &str| column.name.eq_ignore_ascii_case(name);
    let is_label = |column: &Column| LABELS.iter().any(|name| is_called(column, name));
    let is_number = |column: &Column| matches!(column.how, How::Int(_)) && is_label(column);
    if plan.class_names().is_some() || plan.columns.iter().any(is_number) {
        return Ok(());
    }
    for name in LABELS {
        let is_text = |column: &Column| column.how == How::Bytes && column.leaf.is_text();
        let is_it = |column: &Column| is_called(column, name) && is_text(column);
        let Some(field) = plan.columns.iter().position(is_it) else { continue };
        let column = &mut plan.columns[field];
        let Some(texts) = texts(column)? else { continue };
        let first: Vec<_> = texts.iter().take(LISTED).map(String::as_str).collect();
        let more = if texts.len() > LISTED { ", .." } else { "" };
        warn(format_args!(
            "{dataset}: the texts of its column {} are read as {} classes, numbered in sorted order: {}{more}. Other files have \
             the same numbers only if they have the same texts: compare them by `expect_classes`",
            Escaped(&column.name),
            texts.len(),
            Escaped(&first.join(", "))
        ));
        let names: ClassNames = (0..).zip(texts.iter().cloned()).collect();
        (column.how, column.names) = (How::Classes(texts.into()), Some(names));
        return Ok(());
    }
    Ok(())
}

/// The texts of a column.
pub(super) struct Texts {
    found: BTreeSet<String>,
    most: usize,
}

impl Texts {
    /// Returns those of none of so many rows.
    pub(super) fn of_rows(rows: u64) -> Self {
        Self { found: BTreeSet::new(), most: MOST.min((rows / 2) as usize) }
    }

    /// Adds a text; `None` if it is not that of a class: one too many, too long, or not UTF-8.
    pub(super) fn add(&mut self, text: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(text).ok()?;
        if !self.found.contains(text) {
            if self.found.len() == self.most || text.len() > MOST_BYTES {
                return None;
            }
            self.found.insert(text.to_owned());
        }
        Some(())
    }

    /// Returns the texts in order; `None` if there are none.
    pub(super) fn sorted(self) -> Option<Vec<String>> {
        (!self.found.is_empty()).then(|| self.found.into_iter().collect())
    }
}

/// Returns the texts of a column in order; `None` if they are not those of classes.
pub(super) fn of_files(
    files: &[File],
    name: &str,
    limits: &Limits,
) -> Result<Option<Vec<String>>, Error> {
    let rows = files.iter().map(|file| file.groups.samples()).sum();
    let mut all = Texts::of_rows(rows);
    for found in parallel::map(files, |file| of_file(file, name, rows, limits))? {
        let Some(texts) = found? else { return Ok(None) };
        if texts.found.iter().try_for_each(|text| all.add(text.as_bytes())).is_none() {
            return Ok(None);
        }
    }
    Ok(all.sorted())
}

fn of_file(file: &File, name: &str, rows: u64, limits: &Limits) -> Result<Option<Texts>, Error> {
    let mut texts = Texts::of_rows(rows);
    let field = file.plan.columns.iter().position(|column| column.name == name);
    // A file of other columns is refused where the fields of all files are compared.
    let Some(field) = field.filter(|field| file.plan.columns[*field].leaf.is_text()) else {
        return Ok(None);
    };
    let column = &file.plan.columns[field];
    for group in 0..file.group_count() {
        let chunk = &file.chunks(group, field)[0];
        let pages =
            chunk.load_all(&file.shard, limits).map_err(|error| file.failed(column, error))?;
        let decoded = column.leaf.decode(pages);
        let decoded = decoded
            .map_err(|reason| file.failed(column, fail!(Damaged, "{reason}").byte(chunk.start)))?;
        let Cells::Bytes(values) = decoded.cells else { return Ok(None) };
        if values.iter().try_for_each(|value| texts.add(value.data())).is_none() {
            return Ok(None);
        }
    }
    Ok(Some(texts))
}

/// Returns the number of a text among those of the classes.
pub(super) fn number(texts: &Arc<[String]>, text: &[u8]) -> Result<i64, String> {
    let found = texts.binary_search_by(|other| other.as_bytes().cmp(text));
    let found = found.map_err(|_| "a text that is no class: the file has changed".to_owned())?;
    Ok(found as i64)
}
