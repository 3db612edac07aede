//! Decoded values: those of a page of a plain column, or those of a row group of a column with lists.

use super::leaf::{Cells, Decoded, Leaf, RowShape};
use super::pages::Pages;
use super::tree;
use crate::source::NdType;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The values of some rows of a field.
pub(super) enum Span {
    /// A value for each row: of those that are not null, if `index` has the row's index among them.
    Cells { cells: Cells, index: Option<Box<[u32]>>, bytes: usize },
    /// Bytes for each row, one after another; rows that have no value, with the reason.
    Rows { bytes: Vec<u8>, ends: Box<[usize]>, bad: BTreeMap<usize, String> },
    /// The files of each row, one after another, up to an end; rows that have no value.
    Files { cells: Cells, ends: Box<[usize]>, bad: BTreeSet<usize>, bytes: usize },
}

/// The index of a row that is null.
const NULL: u32 = u32::MAX;

/// What is wrong with a row that has no value.
pub(super) const IS_NULL: &str = "it is null";

/// The reason why a list of images has no value.
pub(super) const IS_NULL_LIST: &str =
    "the list is null, or the bytes of one of its images are: embed the files in the dataset";

impl Span {
    /// Decodes a page of a column without lists.
    pub(super) fn of_page(leaf: &Leaf, pages: Pages) -> Result<Self, String> {
        let bytes = pages.bytes();
        let Decoded { definition, cells, rows, .. } = leaf.decode(pages)?;
        let defined = leaf.defined();
        let index = match definition.iter().all(|level| *level == defined) {
            true => None,
            false => {
                let mut next = 0;
                let of_level = |level: &i16| match *level == defined {
                    true => {
                        next += 1;
                        next - 1
                    }
                    false => NULL,
                };
                Some(definition.iter().map(of_level).collect::<Box<[u32]>>())
            }
        };
        match index.as_ref().is_none_or(|index| index.len() == rows) {
            true => Ok(Self::Cells { cells, index, bytes }),
            false => Err("levels of another number than rows".to_owned()),
        }
    }

    /// Decodes all rows of a column with lists.
    pub(super) fn of_lists(
        leaf: &Leaf,
        pages: Pages,
        (dtype, shape, is_array): (NdType, &[u64], bool),
    ) -> Result<Self, String> {
        let decoded = leaf.decode(pages)?;
        let (mut bytes, mut ends, mut bad) = (vec![], vec![], BTreeMap::new());
        decoded.rows(leaf, |row, found, range| {
            match problem(&found, shape, is_array) {
                Some(problem) => drop(bad.insert(row, problem)),
                None => {
                    for index in range {
                        decoded.cells.append(index, dtype, &mut bytes).ok_or("no numbers")?;
                    }
                }
            }
            ends.push(bytes.len());
            Ok(())
        })?;
        Ok(Self::Rows { bytes, ends: ends.into(), bad })
    }

    /// Decodes all rows of a column with lists of files.
    pub(super) fn of_files(leaf: &Leaf, pages: Pages) -> Result<Self, String> {
        let bytes = pages.bytes();
        let decoded = leaf.decode(pages)?;
        let (mut ends, mut bad) = (vec![], BTreeSet::new());
        decoded.rows(leaf, |row, found, range| {
            if found == RowShape::Null {
                bad.insert(row);
            }
            ends.push(range.end);
            Ok(())
        })?;
        match ends.last().is_none_or(|end| *end <= decoded.cells.len()) {
            true => Ok(Self::Files { cells: decoded.cells, ends: ends.into(), bad, bytes }),
            false => Err("levels of another number than values".to_owned()),
        }
    }

    /// Makes JSON of all rows of the columns of a field.
    pub(super) fn of_tree(
        pages: Vec<Pages>,
        rows: u64,
        schema: &tree::Schema,
    ) -> Result<Self, String> {
        let (mut bytes, mut ends, mut bad) = (vec![], vec![], BTreeMap::new());
        for (row, value) in tree::rows(schema, pages, rows)?.into_iter().enumerate() {
            match value {
                Ok(serde_json::Value::Null) => drop(bad.insert(row, IS_NULL.to_owned())),
                Ok(value) => {
                    serde_json::to_writer(&mut bytes, &value).map_err(|error| error.to_string())?;
                    bytes.push(0);
                }
                Err(reason) => drop(bad.insert(row, reason)),
            }
            ends.push(bytes.len());
        }
        Ok(Self::Rows { bytes, ends: ends.into(), bad })
    }

    /// Returns the number of rows.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Cells { index: Some(index), .. } => index.len(),
            Self::Cells { cells, .. } => cells.len(),
            Self::Rows { ends, .. } | Self::Files { ends, .. } => ends.len(),
        }
    }

    /// Returns the bytes of memory that the values need.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Cells { cells, index, bytes } => {
                let pages =
                    if matches!(cells, Cells::Bytes(_) | Cells::Fixed(_)) { *bytes } else { 0 };
                pages + cells.memory() + index.as_ref().map_or(0, |index| 4 * index.len())
            }
            Self::Rows { bytes, ends, .. } => bytes.capacity() + 8 * ends.len(),
            Self::Files { cells, ends, bytes, .. } => bytes + cells.memory() + 8 * ends.len(),
        }
    }

    fn cell(&self, row: usize) -> Result<(&Cells, usize), String> {
        match self {
            Self::Cells { cells, index: None, .. } => Ok((cells, row)),
            Self::Cells { cells, index: Some(index), .. } => match index.get(row) {
                Some(&NULL) => Err(IS_NULL.to_owned()),
                Some(index) => Ok((cells, *index as usize)),
                None => Err(missing()),
            },
            Self::Rows { .. } | Self::Files { .. } => Err(missing()),
        }
    }

    /// Returns the integer of a row.
    pub(super) fn int(&self, row: usize, dtype: NdType) -> Result<i64, String> {
        let (cells, index) = self.cell(row)?;
        cells.int(index, dtype).ok_or_else(|| "an integer of 2^63 or more".to_owned())
    }

    /// Returns the float of a row.
    pub(super) fn float(&self, row: usize) -> Result<f64, String> {
        let (cells, index) = self.cell(row)?;
        cells.float(index).ok_or_else(missing)
    }

    /// Returns the files of a row.
    pub(super) fn files(&self, row: usize) -> Result<Vec<&[u8]>, String> {
        let Self::Files { cells, ends, bad, .. } = self else { return Err(missing()) };
        if bad.contains(&row) {
            return Err(IS_NULL_LIST.to_owned());
        }
        let end = *ends.get(row).ok_or_else(missing)?;
        let start = row.checked_sub(1).map_or(0, |before| ends[before]);
        (start..end).map(|index| cells.bytes(index).ok_or_else(missing)).collect()
    }

    /// Returns the bytes of a row.
    pub(super) fn bytes(&self, row: usize) -> Result<&[u8], String> {
        match self {
            Self::Cells { .. } | Self::Files { .. } => {
                let (cells, index) = self.cell(row)?;
                cells.bytes(index).ok_or_else(missing)
            }
            Self::Rows { bytes, ends, bad } => {
                if let Some(reason) = bad.get(&row) {
                    return Err(reason.clone());
                }
                let end = *ends.get(row).ok_or_else(missing)?;
                let start = row.checked_sub(1).map_or(0, |before| ends[before]);
                Ok(&bytes[start..end])
            }
        }
    }
}

/// Returns why a row is no array of a shape, or no rows of one.
pub(super) fn problem(found: &RowShape, shape: &[u64], is_array: bool) -> Option<String> {
    match found {
        RowShape::Null => Some(IS_NULL.to_owned()),
        RowShape::Ragged => {
            Some(format!("its lists differ in length, expected {}", shape_text(shape, is_array)))
        }
        // A row without elements has no shape of its own.
        RowShape::Array(found) if !is_array && found.first() == Some(&0) => None,
        RowShape::Array(found) => {
            let expected = if is_array { &found[..] } else { found.get(1..).unwrap_or(&[]) };
            (expected != shape).then(|| {
                format!("a list of shape {found:?}, expected {}", shape_text(shape, is_array))
            })
        }
    }
}

fn missing() -> String {
    "its page has no such row".to_owned()
}

fn shape_text(shape: &[u64], is_array: bool) -> String {
    match is_array {
        true => format!("{shape:?}"),
        false if shape.is_empty() => "one list".to_owned(),
        false => format!("any number of rows of shape {shape:?}"),
    }
}

/// The bytes of a row, which keep the values in memory.
pub(super) struct HeldRow {
    pub(super) span: Arc<Span>,
    pub(super) row: usize,
}

impl AsRef<[u8]> for HeldRow {
    fn as_ref(&self) -> &[u8] {
        self.span.bytes(self.row).unwrap_or_default()
    }
}

/// Returns whether all rows that are not null have a shape.
pub(super) fn has_shape(leaf: &Leaf, decoded: &Decoded, shape: &[u64]) -> bool {
    let mut is_so = true;
    let read = decoded.rows(leaf, |_, found, _| {
        is_so &= match found {
            RowShape::Array(found) => found == shape,
            RowShape::Null => true,
            RowShape::Ragged => false,
        };
        Ok(())
    });
    read.is_ok() && is_so
}

/// The shapes of the rows of a column.
pub(super) struct Shapes {
    whole: Option<Vec<u64>>,
    inner: Option<Vec<u64>>,
    is_whole: bool,
    is_regular: bool,
}

impl Default for Shapes {
    fn default() -> Self {
        Self { whole: None, inner: None, is_whole: true, is_regular: true }
    }
}

impl Shapes {
    pub(super) fn add(&mut self, row: &RowShape) {
        match row {
            RowShape::Null => {}
            RowShape::Ragged => self.is_regular = false,
            RowShape::Array(shape) => {
                if let [1..=u64::MAX, axes @ ..] = &shape[..] {
                    let row = self.inner.get_or_insert_with(|| axes.to_vec());
                    self.is_regular &= *row == axes;
                }
                self.is_whole &= self.whole.get_or_insert_with(|| shape.clone()) == shape;
            }
        }
    }

    /// Returns the whole shape, if all rows have it and `fits_all` says so of the number of its values; otherwise that
    /// without the first axis. `None` if the other axes differ.
    pub(super) fn found(
        self,
        axes: usize,
        fits_all: impl Fn(u64) -> bool,
    ) -> Option<(Vec<u64>, bool)> {
        let whole = self.whole.filter(|shape| {
            let values = shape.iter().try_fold(1_u64, |all, len| all.checked_mul(*len));
            let is_whole = self.is_whole && self.is_regular;
            is_whole && values.is_some_and(|values| values > 0 && fits_all(values))
        });
        match (whole, self.inner) {
            (Some(shape), _) => Some((shape, true)),
            _ if !self.is_regular => None,
            (None, Some(row)) => Some((row, false)),
            (None, None) => (axes == 1).then_some((vec![], false)),
        }
    }
}

/// Returns the shape of the arrays of a column, whose rows `decoded` has, if `fits_all` says of the number of values of a row
/// that all row groups have as many.
pub(super) fn shape_of(
    leaf: &Leaf,
    decoded: &Decoded,
    fits_all: impl Fn(u64) -> bool,
) -> Option<(Vec<u64>, bool)> {
    let mut shapes = Shapes::default();
    let read = decoded.rows(leaf, |_, shape, _| {
        shapes.add(&shape);
        Ok(())
    });
    read.ok()?;
    shapes.found(leaf.axes.len(), fits_all)
}
