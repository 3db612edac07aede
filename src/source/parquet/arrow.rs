//! Columns of Arrow in memory: those of a `datasets.Dataset`, in the order of its indices.
//!
//! ```text
//! an empty Parquet file with its schema ─▶ schema.rs: the fields of columns of Parquet
//! arrays in the memory of others        ─▶ array.rs: the value of a row
//! ```
//!
//! The fields, their names, kinds and values are those of the same rows in a Parquet file, except that the bytes of a file,
//! such as an image, may be null: then the file is read that its path names, as `datasets` does.

mod array;
#[cfg(any(test, all(feature = "spec", feature = "tables", feature = "tar", feature = "write")))]
mod pieces;
#[cfg(test)]
mod tests;

pub use array::{ArrowArray, Memory};

use super::classes::{self, Texts};
use super::footer::Footer;
use super::leaf::RowShape;
use super::schema::{Column, How, Plan};
use super::span::{self, IS_NULL, Shapes};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::{Limits, SampleId};
use crate::source::file::read_file;
use crate::source::image_format::begins_as_image;
use crate::source::shards::Shard;
use crate::source::starts::Starts;
use crate::source::{
    BoxError, Buffer, Facts, FieldKind, FieldSpec, Fingerprint, NdType, Record, SampleLocation,
    Source, StoredValues, Value, read_values,
};
use parquet::schema::types::{SchemaDescriptor, Type};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The number of samples whose values identify a column; of single numbers, [`MOST_NUMBERS`] do.
const MOST_IDENTIFIED: u64 = 1 << 10;
const MOST_NUMBERS: u64 = 1 << 20;

/// The samples of columns of Arrow.
pub struct ArrowTable {
    facts: Facts,
    fields: Vec<Field>,
    columns: Vec<Pieces>,
    /// The row of each sample; without them, sample `n` is row `n`.
    indices: Option<Pieces>,
    limits: Limits,
}

/// A column in several arrays.
struct Pieces {
    arrays: Vec<ArrowArray>,
    starts: Starts,
}

/// A field, and where its values are in the arrays of its column.
struct Field {
    column: Column,
    path: Vec<usize>,
    /// Where the path of a file is.
    file_path: Option<Vec<usize>>,
}

/// A value as it is found.
enum Found<'a> {
    Value(Value<'a>),
    /// A text of JSON with its final NUL.
    Json(Vec<u8>),
    /// The path of the file that is the value.
    File(&'a str),
    /// A list of images.
    Packed(Vec<u8>),
    /// Numbers of another type than the field's.
    Numbers(&'a ArrowArray, Range<u64>, NdType),
}

impl ArrowTable {
    /// Returns the samples of columns of Arrow: of each column its arrays, and the rows that are samples. The bytes of a
    /// Parquet file without rows have the schema and the features. `files` are those that the memory is of.
    ///
    /// # Errors
    ///
    /// Fails if the schema is damaged, if the columns are not those of the schema, or if there are no samples.
    pub fn new(
        name: &str,
        schema: &[u8],
        columns: Vec<Vec<ArrowArray>>,
        indices: Option<Vec<ArrowArray>>,
        files: Vec<PathBuf>,
    ) -> Result<Self, Error> {
        let footer = Footer::read(&Shard::held("schema.parquet", schema), &Limits::DEFAULT)?;
        Self::of(name, (&footer.schema(), footer.plan()), columns, indices, files)
    }

    fn of(
        name: &str,
        (schema, mut plan): (&SchemaDescriptor, Plan),
        columns: Vec<Vec<ArrowArray>>,
        indices: Option<Vec<ArrowArray>>,
        files: Vec<PathBuf>,
    ) -> Result<Self, Error> {
        let limits = Limits::DEFAULT;
        let nodes = schema.root_schema().get_fields();
        let of_columns: Vec<Pieces> = columns.into_iter().map(Pieces::new).collect();
        let rows = of_columns.first().map_or(0, Pieces::rows);
        if nodes.len() != of_columns.len() || of_columns.iter().any(|column| column.rows() != rows)
        {
            return Err(fail!(Parameter, "{name}: columns that do not fit their schema"));
        }
        let indices = indices.map(Pieces::new);
        let samples = indices.as_ref().map_or(rows, Pieces::rows);
        super::check_count(name, samples, &limits)?;
        let leaves: Vec<_> = of_columns.iter().map(Pieces::leaves).collect();
        let starts: Starts = nodes.iter().map(|node| count_leaves(node)).collect();
        let path = |root: usize, leaf: usize| {
            // Leaves of other columns are of this one if the types of Arrow and Parquet differ.
            let is_same = leaves[root].len() as u64 == starts.len_of(root);
            let index = leaf.checked_sub(starts.first(root).0 as usize)?;
            leaves[root].get(index).filter(|_| is_same)
        };
        let left_out = &mut plan.left_out;
        plan.columns.retain(|column| {
            let array = of_columns[column.root].arrays.first();
            let path = path(column.root, column.leaf.index);
            let leaf = array.zip(path).and_then(|(array, path)| array.below(path));
            let is_read = leaf
                .is_some_and(|(leaf, lists)| leaf.is_known() && lists == column.leaf.axes.len());
            if !is_read {
                left_out.push(column.name.clone());
            }
            is_read
        });
        super::check_plan(name, &plan)?;
        let fields = plan.columns.iter().map(|column| {
            let root = column.root;
            // A structure with several leaves is one field with its name only if these are bytes and a path.
            let is_file = leaves[root].len() == 2 && column.name == nodes[root].name();
            let array = of_columns[root].arrays.first().filter(|_| is_file);
            let file_path = array.and_then(|array| array.child("path"));
            let path = path(root, column.leaf.index).cloned().unwrap_or_default();
            Field { column: column.clone(), path, file_path: file_path.map(|child| vec![child]) }
        });
        let mut table = Self {
            facts: Facts::new(Vec::<FieldSpec>::new(), samples),
            fields: fields.collect(),
            columns: of_columns,
            indices,
            limits,
        };
        table.resolve(name, &mut plan)?;
        super::check_names(&plan)?;
        let facts = Facts::new(plan.columns.iter().map(super::field_spec), samples).named(name);
        let facts = facts.with_paths(move || Box::new(files.clone().into_iter()));
        table.facts = super::with_names(Facts { rereads_cheaply: true, ..facts }, &plan);
        table.facts.fingerprint = table.fingerprint();
        Ok(table)
    }

    /// Returns the samples of columns whose buffers are pieces of bytes: see [`pieces`].
    #[cfg(any(
        test,
        all(feature = "spec", feature = "tables", feature = "tar", feature = "write")
    ))]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        pieces::table(bytes)
    }

    /// Finds out what only values tell.
    fn resolve(&mut self, name: &str, plan: &mut Plan) -> Result<(), Error> {
        for field in 0..plan.columns.len() {
            let how = match &plan.columns[field].how {
                How::Binary => {
                    let first =
                        (0..self.facts.samples).find_map(|n| match self.find(SampleId(n), field) {
                            Ok(Found::Value(Value::Bytes(bytes))) if !bytes.is_empty() => {
                                Some(begins_as_image(bytes))
                            }
                            _ => None,
                        });
                    if first == Some(true) { How::Image } else { How::Bytes }
                }
                How::Lists(dtype, lens) => {
                    super::lists(&plan.columns[field], *dtype, lens, || self.shape(field))
                }
                _ => continue,
            };
            plan.columns[field].how = how.clone();
            self.fields[field].column.how = how;
        }
        plan.find_objects();
        classes::find(plan, name, None, |column| Ok(self.texts(column)))?;
        for (field, column) in self.fields.iter_mut().zip(&plan.columns) {
            field.column = column.clone();
        }
        Ok(())
    }

    /// Returns the texts of all rows of a column, those that are no samples too: splits of one dataset have the same classes.
    fn texts(&self, column: &Column) -> Option<Vec<String>> {
        let field = self.fields.iter().find(|field| field.column.name == column.name)?;
        let pieces = &self.columns[column.root];
        let mut texts = Texts::of_rows(pieces.rows());
        for array in &pieces.arrays {
            for row in 0..array.len() {
                // A damaged row is an error when it is read.
                let Ok(array::Row { leaf, range, shape }) = array.row(&field.path, row) else {
                    continue;
                };
                if shape != RowShape::Null {
                    texts.add(leaf.bytes(range.start).ok()?)?;
                }
            }
        }
        texts.sorted()
    }

    /// Returns the shape of the arrays of a field, as `span::shape_of` does.
    fn shape(&self, field: usize) -> Option<(Vec<u64>, bool)> {
        let (mut shapes, mut has_nulls) = (Shapes::default(), false);
        for sample in (0..self.facts.samples).map(SampleId) {
            let Ok((array, row, found)) = self.cell(sample, field) else { continue };
            // A damaged row is an error when it is read.
            let Ok(row) = array.row(&found.path, row) else { continue };
            has_nulls |= row.shape == RowShape::Null;
            shapes.add(&row.shape);
        }
        shapes.found(self.fields[field].column.leaf.axes.len(), |_| !has_nulls)
    }

    /// Returns the row of a sample, which indices may name wrongly.
    fn row(&self, sample: SampleId) -> Result<u64, Error> {
        let samples = self.facts.samples;
        if sample.0 >= samples {
            return Err(super::no_sample(sample, samples));
        }
        let Some((array, at)) = self.indices.as_ref().and_then(|of| of.locate(sample.0)) else {
            return Ok(sample.0);
        };
        let row = array.int(at).map_err(|reason| fail!(Damaged, "its index: {reason}"))?;
        Ok(u64::try_from(row).unwrap_or(u64::MAX))
    }

    /// Returns where a value is.
    fn cell(&self, sample: SampleId, field: usize) -> Result<(&ArrowArray, u64, &Field), Error> {
        let row = self.row(sample)?;
        let fields = self.fields.len();
        let field = self.fields.get(field).ok_or_else(|| super::no_field(field, fields))?;
        let column = &self.columns[field.column.root];
        let (array, at) = column
            .locate(row)
            .ok_or_else(|| fail!(Damaged, "its index is {row}, of {} rows", column.rows()))?;
        Ok((array, at, field))
    }

    fn find(&self, sample: SampleId, field: usize) -> Result<Found<'_>, Error> {
        let (array, row, field) = self.cell(sample, field)?;
        let found = self.find_in(array, row, field);
        found.map_err(|reason| {
            fail!(Damaged, "row {row} of its array: {reason}").of_field(&field.column.name)
        })
    }

    fn find_in<'a>(
        &self,
        array: &'a ArrowArray,
        row: u64,
        field: &Field,
    ) -> Result<Found<'a>, String> {
        let how = &field.column.how;
        if let How::Tree(_) = how {
            let mut size = array::JsonSize::new(self.limits.max_sample_bytes);
            let json = match array.json(row, &mut size)? {
                serde_json::Value::Null => return Err(IS_NULL.to_owned()),
                json => serde_json::to_vec(&json).map_err(|error| error.to_string())?,
            };
            return Ok(Found::Json(super::json(&json)?));
        }
        let array::Row { leaf, range, shape } = array.row(&field.path, row)?;
        match how {
            How::Array(dtype, expected) | How::Rows(dtype, expected) => {
                let is_array = matches!(how, How::Array(..));
                if let Some(problem) = span::problem(&shape, expected, is_array) {
                    return Err(problem);
                }
                let bytes = (range.end - range.start).saturating_mul(dtype.item_size());
                if bytes > self.limits.max_sample_bytes {
                    let most = self.limits.max_sample_bytes;
                    return Err(format!("{bytes} bytes, the limit is {most}"));
                }
                Ok(match leaf.numbers(&range, *dtype)? {
                    Some(bytes) if is_array => Found::Value(Value::NdArray(bytes)),
                    Some(bytes) => Found::Value(Value::Bytes(bytes)),
                    None => Found::Numbers(leaf, range, *dtype),
                })
            }
            How::Images if shape == RowShape::Null => Err(span::IS_NULL_LIST.to_owned()),
            How::Images => {
                let (files, mut bytes) = (range.map(|row| leaf.bytes(row)), vec![]);
                let files = files.collect::<Result<Vec<_>, _>>()?;
                super::pack(&files, &self.limits, &mut bytes)?;
                Ok(Found::Packed(bytes))
            }
            _ if shape == RowShape::Null => match &field.file_path {
                Some(path) => {
                    let array::Row { leaf, range, shape } = array.row(path, row)?;
                    match shape {
                        RowShape::Null => Err(IS_NULL.to_owned()),
                        _ => file_name(leaf.bytes(range.start)?).map(Found::File),
                    }
                }
                None => Err(IS_NULL.to_owned()),
            },
            How::Int(_) => Ok(Found::Value(Value::Int(leaf.int(range.start)?))),
            How::Float => Ok(Found::Value(Value::Float(leaf.float(range.start)?))),
            How::Json => super::json(leaf.bytes(range.start)?).map(Found::Json),
            _ => super::value(how, leaf.bytes(range.start)?).map(Found::Value),
        }
    }

    /// Returns a number that changes with the rows that are samples, and with some of their values.
    fn fingerprint(&self) -> u64 {
        let (mut print, mut buffer) = (Fingerprint::default(), Buffer::default());
        print.text("arrow");
        print.fields(&self.facts.fields);
        let samples = self.facts.samples;
        print.number(samples);
        for (field, spec) in self.facts.fields.iter().enumerate() {
            let is_number = matches!(spec.kind, FieldKind::Int | FieldKind::Float);
            let most = if is_number { MOST_NUMBERS } else { MOST_IDENTIFIED };
            for n in (0..samples).step_by(samples.div_ceil(most).max(1) as usize) {
                print.number(match self.find(SampleId(n), field) {
                    Ok(Found::Value(Value::Int(value))) => value.cast_unsigned(),
                    Ok(Found::Value(Value::Float(value))) => value.to_bits(),
                    Ok(Found::Value(value)) => print_of(value.bytes()),
                    Ok(Found::Json(bytes) | Found::Packed(bytes)) => print_of(&bytes),
                    Ok(Found::File(path)) => print_of(path.as_bytes()),
                    Ok(Found::Numbers(..)) => {
                        let value = self.borrowed_value(SampleId(n), field, &mut buffer);
                        value.map_or(0, |value| print_of(value.bytes()))
                    }
                    Err(_) => 0,
                });
            }
        }
        if let Some(indices) = &self.indices {
            for (array, at) in (0..samples).filter_map(|n| indices.locate(n)) {
                print.number(array.int(at).unwrap_or(-1).cast_unsigned());
            }
        }
        print.value()
    }

    fn borrowed_value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, Error> {
        let bytes = &mut buffer.bytes;
        let column = || &self.fields[field].column;
        let failed = |reason: String| fail!(Damaged, "{reason}").of_field(&column().name);
        Ok(match self.find(sample, field)? {
            Found::Value(value) => value,
            Found::Json(text) => {
                *bytes = text;
                Value::Json(bytes)
            }
            Found::Packed(list) => {
                *bytes = list;
                Value::Bytes(bytes)
            }
            Found::File(path) => {
                read_file(Path::new(path), self.limits.max_sample_bytes, bytes).at(path)?;
                super::value(&column().how, bytes).map_err(failed)?
            }
            Found::Numbers(leaf, range, dtype) => {
                bytes.clear();
                for row in range {
                    leaf.append(row, dtype, bytes).map_err(failed)?;
                }
                super::value(&column().how, bytes).map_err(failed)?
            }
        })
    }
}

/// Returns a number for bytes: of long ones, their length and their ends.
fn print_of(bytes: &[u8]) -> u64 {
    const END: usize = 4 << 10;
    let crc = match bytes.len() {
        0..8192 => crc32c::crc32c(bytes),
        len => crc32c::crc32c_append(crc32c::crc32c(&bytes[..END]), &bytes[len - END..]),
    };
    u64::from(crc) | (bytes.len() as u64) << 32
}

/// Returns the path of a local file.
fn file_name(bytes: &[u8]) -> Result<&str, String> {
    match std::str::from_utf8(bytes) {
        Ok(path) if path.contains("::") || path.contains("://") => Err(format!(
            "its bytes are null, and its path {:?} is no local file: embed the files, with \
             `ds.with_format(\"arrow\").map(datasets.table.embed_table_storage, batched=True)`",
            crate::source::Escaped(path).to_string()
        )),
        Ok(path) if !path.is_empty() => Ok(path),
        _ => Err("its bytes are null, and its path is none".to_owned()),
    }
}

/// Returns the number of leaves of a node.
fn count_leaves(node: &Type) -> u64 {
    match node.is_group() {
        true => node.get_fields().iter().map(|child| count_leaves(child)).sum(),
        false => 1,
    }
}

impl Pieces {
    fn new(arrays: Vec<ArrowArray>) -> Self {
        let starts = arrays.iter().map(ArrowArray::len).collect();
        Self { arrays, starts }
    }

    fn rows(&self) -> u64 {
        self.starts.samples()
    }

    fn leaves(&self) -> Vec<Vec<usize>> {
        self.arrays.first().map(ArrowArray::leaves).unwrap_or_default()
    }

    fn locate(&self, row: u64) -> Option<(&ArrowArray, u64)> {
        let (piece, row) = self.starts.locate(SampleId(row))?;
        Some((&self.arrays[piece], row.0))
    }
}

impl Source for ArrowTable {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        read_values(self, sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        Ok(self.borrowed_value(sample, field, buffer)?)
    }

    /// The file of an image that is not in memory.
    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        match self.find(sample, field) {
            Ok(Found::File(path)) => Some(SampleLocation::in_file(path, None)),
            _ => None,
        }
    }

    /// The number of the array that has the sample.
    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        let row = SampleId(self.row(sample).ok()?);
        let (piece, _) = self.columns.first()?.starts.locate(row)?;
        Some(piece as u64)
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for ArrowTable {
    fn value_in_memory(&self, sample: SampleId, field: usize) -> Option<Value<'_>> {
        match self.find(sample, field) {
            Ok(Found::Value(value)) => Some(value),
            _ => None,
        }
    }
}

/// Shows no values.
impl std::fmt::Debug for ArrowTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowTable").field("facts", &self.facts).finish_non_exhaustive()
    }
}
