//! Texts as classes: a column of texts that is called as a label, and has each of its texts often.
//!
//! ```text
//! label:  "dog" "cat" "dog" "bird" ...   -->   2 1 2 0 ...    names: bird, cat, dog
//! ```
//!
//! The texts are numbered in the order of their bytes, as torchvision numbers the folders of classes and as
//! `class_encode_column` of `datasets` numbers texts. All of them must be known before a sample is read, so that opening
//! reads the whole column, page by page, up to the first text that is not the name of a class.

use super::footer::File;
use super::leaf::{Cells, Leaf};
use super::pages::Chunk;
use super::schema::{Column, How, Plan};
use super::thrift::PageHeader;
use crate::error::{Error, fail};
use crate::parallel;
use crate::sample::Limits;
use crate::source::shards::Shard;
use crate::source::{ClassNames, Escaped};
use crate::warnings::warn;
use std::collections::BTreeSet;

/// The names of columns of labels: the first that a file has is taken.
const LABELS: [&str; 7] = ["label", "labels", "class", "class_name", "category", "cls", "target"];

/// The most classes.
const MOST: usize = 65_536;

/// The most bytes of the name of a class.
const MOST_BYTES: usize = 256;

/// The number of names that a warning lists.
const LISTED: usize = 5;

/// Reads the texts of the label as classes, unless a column of numbers is the label. `given` has the numbers of the classes by
/// their names; then a text that it lacks is damage of its sample, and the texts are not read here.
///
/// # Errors
///
/// Fails if the texts of a column that is called as a label can't be read: the numbers of the classes depend on all. With
/// `given`, it fails if no column of texts is called so.
pub(super) fn find(
    plan: &mut Plan,
    dataset: &str,
    given: Option<&ClassNames>,
    texts: impl Fn(&Column) -> Result<Option<Vec<String>>, Error>,
) -> Result<(), Error> {
    let is_called = |column: &Column, name: &str| column.name.eq_ignore_ascii_case(name);
    let is_label = |column: &Column| LABELS.iter().any(|name| is_called(column, name));
    let is_number = |column: &Column| matches!(column.how, How::Int(_)) && is_label(column);
    let has_label = plan.class_names().is_some() || plan.columns.iter().any(is_number);
    let is_text = |column: &Column| column.how == How::Bytes && column.leaf.is_text();
    let field_of = |name: &&str| {
        plan.columns.iter().position(|column| is_called(column, name) && is_text(column))
    };
    // The columns of texts that are called as a label, the most likely one first.
    let fields: Vec<_> = match has_label {
        true => vec![],
        false => LABELS.iter().filter_map(field_of).collect(),
    };
    if let Some(given) = given {
        let Some(field) = fields.first() else {
            return Err(fail!(
                Parameter,
                "{dataset}: no column of texts is the label, so that `classes` has nothing to number"
            ));
        };
        let mut numbers: Vec<_> =
            given.iter().map(|(number, name)| (name.to_owned(), number)).collect();
        numbers.sort_unstable();
        let column = &mut plan.columns[*field];
        (column.how, column.names) = (How::Classes(numbers.into()), Some(given.clone()));
        return Ok(());
    }
    for field in fields {
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
        let numbers = texts.into_iter().zip(0..).collect();
        (column.how, column.names) = (How::Classes(numbers), Some(names));
        break;
    }
    Ok(())
}

/// The texts of a column.
pub(super) struct Texts {
    found: BTreeSet<String>,
    most: usize,
}

impl Texts {
    /// Returns a set without texts, for a column of so many rows.
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
    let is_plain = |leaf: &Leaf| leaf.is_text() && leaf.axes.is_empty();
    let Some(field) = field.filter(|field| is_plain(&file.plan.columns[*field].leaf)) else {
        return Ok(None);
    };
    let column = &file.plan.columns[field];
    for group in 0..file.group_count() {
        let chunk = &file.chunks(group, field)[0];
        let added = add_chunk(&mut texts, &column.leaf, chunk, &file.shard, limits);
        if added.map_err(|error| file.failed(column, error))?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(texts))
}

/// Adds the texts of a chunk page by page; `None` at the first page with a text that is not that of a class.
fn add_chunk(
    texts: &mut Texts,
    leaf: &Leaf,
    chunk: &Chunk,
    shard: &Shard,
    limits: &Limits,
) -> Result<Option<()>, Error> {
    let mut dictionary = None;
    chunk.each_page(shard, |page| {
        if !may_be_of_classes(&page.header, limits) {
            return Ok(None);
        }
        let header_at = page.header_at;
        if !page.is_data() {
            dictionary = Some(header_at);
            return Ok(Some(()));
        }
        let decoded = leaf.decode(chunk.load_one(shard, dictionary, header_at, limits)?);
        let decoded = decoded.map_err(|reason| fail!(Damaged, "{reason}").byte(header_at))?;
        let Cells::Bytes(found) = decoded.cells else { return Ok(None) };
        Ok(found.iter().try_for_each(|text| texts.add(text.data())))
    })
}

/// Returns whether a page is within the limits, and not so large that one of its texts must be too long for a class.
fn may_be_of_classes(header: &PageHeader, limits: &Limits) -> bool {
    let (most, values) = (limits.max_unpacked_bytes, u64::from(header.values));
    // A text has its length and its level beside it, and a page may have headers of its encoding.
    let most_of_texts = 1024 + values * (MOST_BYTES as u64 + 8);
    // The number of values has the limit that `Chunk::load` has.
    u64::from(header.unpacked) <= most.min(most_of_texts) && values <= most / 8
}

/// Returns the number of a text among those of the classes.
pub(super) fn number(numbers: &[(String, i64)], text: &[u8]) -> Result<i64, String> {
    let found = numbers.binary_search_by(|(name, _)| name.as_bytes().cmp(text));
    let unknown = |_| format!("{:?} is none of the classes", String::from_utf8_lossy(text));
    Ok(numbers[found.map_err(unknown)?].1)
}
