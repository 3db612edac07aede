//! Writes Parquet files that `datasets.load_dataset` and pyarrow read, as `datasets` itself writes them.
//!
//! ```text
//! "PAR1"  row groups: a chunk for each column  ...  metadata: the schema, the features, Arrow's schema  "PAR1"
//! ```
//!
//! | field                        | column                                                             |
//! |------------------------------|--------------------------------------------------------------------|
//! | image                        | `struct<bytes, path>`, of the feature `Image`                      |
//! | bytes that are known to be audio files | the same, of the feature `Audio`                         |
//! | the label                    | int64; a `ClassLabel` if the classes have names                    |
//! | other ints, floats           | int64, float64                                                     |
//! | other bytes                  | a text if those of the first samples are, else binary              |
//! | JSON                         | the text, of the feature `Json`                                    |
//! | array, tensor                | a list, or `Array2D` to `Array5D`                                  |
//! | rows of objects              | `objects`: a list with a structure for each object                 |
//! | user-defined                 | refused                                                            |
//!
//! Columns of images, of audio and of binary values are neither compressed nor coded, so that a value is one read of its bytes; all
//! others are compressed by snappy. A row group has 100 rows if it has such a column, otherwise 1,000, and unless one row has
//! more, at most [`GROUP_BYTES`] and [`GROUP_VALUES`]. Upright boxes become `xywh`, as COCO and the datasets of the Hub have them. The metadata `fuseloop`
//! says what the fields of objects are (`source/object_fields.rs`).

mod arrow;
mod column_type;

use super::Member;
use super::bytes::{
    audio_extension, count_of_rows, extension, file_bytes, json_bytes, rows_of, text_bytes,
    to_little_endian, word, wrong,
};
use super::column::{ObjectRow, custom_field, same_name};
use crate::decode::object_rows::{floats, integers};
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::parquet::FEATURES;
use crate::source::{
    ClassNames, FieldKind, FieldSpec, NdType, OBJECTS_KEY, ObjectField, ObjectFields, OwnedValue,
    Record,
};
use crate::write::beside::Beside;
use crate::write::value::WriteSampleError;
use bytes::Bytes;
use column_type::ColumnType;
use fuseloop_ops::BoxFormat;
use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use serde_json::{Map, json};
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, LazyLock};

/// The most rows of a row group with images or binary values, as in the files of `datasets`.
const ROWS: usize = 100;

/// The most rows of other row groups, as in the files of `datasets`.
const ROWS_OF_NUMBERS: usize = 1000;

/// The most bytes of values of a row group, unless one row has more.
const GROUP_BYTES: usize = 64 << 20;

/// The most values of one column in a row group, unless one row has more: half as many as the reader takes.
const GROUP_VALUES: u64 = 16 << 20;

/// The most bytes that the reader takes for a page, and for the values of a list column in a row group.
const MOST_UNPACKED: u64 = Limits::DEFAULT.max_unpacked_bytes;

/// The most bytes of a value: its page has a length of 31 bits.
const MOST_BYTES: usize = 1 << 30;

/// The most bytes of a text, whose page is compressed and has the text's length and levels, too.
const MOST_TEXT: usize = MOST_UNPACKED as usize - 1024;

/// The largest number of a class that a list of all names may end with.
const MOST_CLASSES: i64 = 100_000;

/// The column of the objects.
const OBJECTS: &str = "objects";

/// How the samples of a dataset become rows.
pub(in crate::write) struct ParquetLayout {
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    /// How the value of each field is stored.
    cells: Vec<Cell>,
    /// The columns of values, in the order of the schema.
    leaves: Vec<Leaf>,
    most_rows: usize,
    /// What readers should know.
    pub(in crate::write) notes: Vec<String>,
}

/// How a value is stored.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Image,
    Audio,
    /// An int, less than this if it is the number of a class.
    Int(Option<i64>),
    Float,
    Text,
    Json,
    Binary,
    /// An array of this type.
    Array(NdType),
    /// A row for each object: boxes in this format, or classes less than this number.
    Rows(ObjectRow, Option<BoxFormat>, Option<i64>),
}

/// A column of values.
struct Leaf {
    field: usize,
    of: Values,
}

/// The values of a column.
enum Values {
    /// The file, text or bytes of a cell, at this level of definition.
    Bytes(i16),
    /// The name of an image's file.
    Path,
    /// Numbers of this type and shape; in the list of objects, a row for each.
    Numbers { dtype: NdType, shape: Vec<u64>, is_of_objects: bool },
}

impl ParquetLayout {
    /// Returns the layout of samples of these fields. `is_text` says of each field whether its bytes are texts, `is_audio`
    /// whether they are audio files, `label` is the field with the number of a sample's class.
    ///
    /// # Errors
    ///
    /// Fails if a field can't be a column.
    pub(in crate::write) fn new(
        fields: &[FieldSpec],
        beside: &Beside,
        (is_text, is_audio): (&[bool], &[bool]),
        label: Option<usize>,
    ) -> Result<Self, Error> {
        let none = ObjectFields::default();
        let objects = beside.objects.as_ref().unwrap_or(&none);
        let mut notes = vec![];
        let mut classes = Classes::new(beside.classes.as_ref(), objects, &mut notes);
        let (mut cells, mut columns, mut of_objects) = (vec![], vec![], vec![]);
        for (index, field) in fields.iter().enumerate() {
            let object = objects.get(&field.name);
            let names = match object {
                Some(ObjectField::Classes) => classes.of_objects(),
                None if label == Some(index) => classes.of_label(),
                _ => None,
            };
            let count = names.as_ref().map(|names| names.len() as i64);
            if let Some((dtype, shape)) = object.and_then(ObjectField::row) {
                let format = boxes(object, field)?;
                let of = match names {
                    Some(names) => ColumnType::Class(names),
                    None => ColumnType::nested(dtype, &shape),
                };
                cells.push(Cell::Rows((dtype, shape), format, count));
                of_objects.push((index, of));
                continue;
            }
            let (cell, of) = match &field.kind {
                FieldKind::RgbImage | FieldKind::BitPlaneImage => (Cell::Image, ColumnType::Image),
                FieldKind::Int => (
                    Cell::Int(count),
                    names.map_or(ColumnType::Number(NdType::I64), ColumnType::Class),
                ),
                FieldKind::Float => (Cell::Float, ColumnType::Number(NdType::F64)),
                FieldKind::Json => (Cell::Json, ColumnType::Json),
                FieldKind::Bytes if is_audio.get(index) == Some(&true) => {
                    (Cell::Audio, ColumnType::Audio)
                }
                FieldKind::Bytes if is_text.get(index) == Some(&true) => {
                    (Cell::Text, ColumnType::Text)
                }
                FieldKind::Bytes => (Cell::Binary, ColumnType::Binary),
                FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
                    let of = ColumnType::of_array(*dtype, shape).ok_or_else(|| {
                        fail!(
                            Field,
                            "field {:?} is an array of {dtype}, which Parquet does not have: convert to .beton or .tar, or \
                             leave the field out",
                            field.name
                        )
                        .of_field(&field.name)
                    })?;
                    (Cell::Array(*dtype), of)
                }
                FieldKind::Custom { .. } => return Err(custom_field(&field.name)),
            };
            cells.push(cell);
            columns.push((field.name.clone(), vec![index], of));
        }
        if let Some((first, _)) = of_objects.first() {
            if let Some(field) = fields.iter().find(|field| field.name == OBJECTS) {
                return Err(same_name(&fields[*first].name, &field.name, OBJECTS));
            }
            let indexes = of_objects.iter().map(|(index, _)| *index).collect();
            let of = of_objects.into_iter().map(|(index, of)| (fields[index].name.clone(), of));
            let of = ColumnType::List(Box::new(ColumnType::Struct(of.collect())), None);
            columns.push((OBJECTS.to_owned(), indexes, of));
        }
        let is_stored_plain =
            |cell: &Cell| matches!(cell, Cell::Image | Cell::Audio | Cell::Binary);
        let most_rows = if cells.iter().any(is_stored_plain) { ROWS } else { ROWS_OF_NUMBERS };
        let leaves = columns.iter().flat_map(|(_, indexes, _)| indexes);
        let leaves = leaves.flat_map(|index| leaves_of(*index, &cells[*index], &fields[*index]));
        let leaves = leaves.collect::<Vec<_>>();
        let built = schema(&columns).map(|schema| {
            let properties = properties(&schema, &leaves, metadata(&columns, objects));
            (schema, Arc::new(properties))
        });
        let (schema, properties) =
            built.map_err(|error| fail!(Field, "the fields are no columns of Parquet: {error}"))?;
        Ok(Self { schema, properties, cells, leaves, most_rows, notes })
    }

    /// Returns the values of a row. `stem` is the name of the files of its images.
    ///
    /// # Errors
    ///
    /// If a value is not of its field's kind, or can't be stored.
    pub(in crate::write) fn row(
        &self,
        record: Record,
        fields: &[FieldSpec],
        stem: Option<&str>,
    ) -> Result<Vec<Member>, WriteSampleError> {
        let mut objects = None;
        let values = record.into_iter().zip(fields).zip(&self.cells);
        let row = values.map(|((value, field), cell)| {
            let bytes = cell.bytes(value, field)?;
            let (len, most) = (bytes.len(), cell.most_bytes());
            if len > most {
                let reason =
                    format_args!("{len} bytes, this value in a Parquet file has at most {most}");
                return Err(wrong(field, reason));
            }
            if let Cell::Rows((dtype, shape), ..) = cell {
                let found = count_of_rows(&bytes, *dtype, shape);
                let expected = *objects.get_or_insert(found);
                if found != expected {
                    let reason = format_args!("{found} for {expected} objects: each needs one");
                    return Err(wrong(field, reason));
                }
            }
            let extension = match cell {
                Cell::Image => Some(extension(&bytes)),
                Cell::Audio => Some(audio_extension(&bytes).unwrap_or("bin")),
                _ => None,
            };
            let path = stem.zip(extension).map(|(stem, extension)| format!("{stem}.{extension}"));
            Ok(Member { extension: path.unwrap_or_default(), bytes })
        });
        let row: Vec<Member> = row.collect::<Result<_, _>>()?;
        self.leaves.iter().try_for_each(|leaf| leaf.check(&row, fields))?;
        Ok(row)
    }
}

/// Returns the format of boxes; `None` for other rows.
fn boxes(object: Option<ObjectField>, field: &FieldSpec) -> Result<Option<BoxFormat>, Error> {
    match object {
        Some(ObjectField::Boxes(format)) if format.is_rotated() => Err(fail!(
            Field,
            "field {:?} has rotated boxes, for which the features of `datasets` have no form: convert to .tar, .tfrecord or \
             .beton",
            field.name
        )
        .of_field(&field.name)),
        Some(ObjectField::Boxes(format)) => Ok(Some(format)),
        _ => Ok(None),
    }
}

/// The names of classes as lists.
struct Classes<'a> {
    of_label: Option<&'a ClassNames>,
    of_objects: Option<&'a ClassNames>,
    notes: &'a mut Vec<String>,
}

impl<'a> Classes<'a> {
    fn new(
        classes: Option<&'a ClassNames>,
        objects: &'a ObjectFields,
        notes: &'a mut Vec<String>,
    ) -> Self {
        let own = objects.class_names();
        Self { of_label: classes.filter(|_| own != classes), of_objects: own.or(classes), notes }
    }

    fn of_label(&mut self) -> Option<Vec<String>> {
        self.list(self.of_label?)
    }

    fn of_objects(&mut self) -> Option<Vec<String>> {
        self.list(self.of_objects?)
    }

    /// Returns the names from class 0 to the last; a class without a name is called by its number. `None` if there are
    /// none, or the numbers or names are no such list.
    fn list(&mut self, names: &ClassNames) -> Option<Vec<String>> {
        let (first, last) = (names.iter().next()?.0, names.iter().last()?.0);
        let mut list = vec![];
        if first >= 0 && last < MOST_CLASSES {
            list = (0..=last).map(|number| number.to_string()).collect();
            names.iter().for_each(|(number, name)| name.clone_into(&mut list[number as usize]));
        }
        let is_list = !list.is_empty() && list.iter().collect::<HashSet<_>>().len() == list.len();
        let note = "the classes are stored as numbers without their names: a `ClassLabel` has classes from 0 to 99,999 with \
                    names that differ";
        if !is_list && !self.notes.iter().any(|other| other == note) {
            self.notes.push(note.to_owned());
        }
        is_list.then_some(list)
    }
}

/// Returns the columns of values of a field.
fn leaves_of(field: usize, cell: &Cell, spec: &FieldSpec) -> Vec<Leaf> {
    let numbers = |dtype: NdType, shape: &[u64], is_of_objects| Values::Numbers {
        dtype: dtype.little_endian(),
        shape: shape.to_vec(),
        is_of_objects,
    };
    let values = match (cell, &spec.kind) {
        (Cell::Image | Cell::Audio, _) => vec![Values::Bytes(2), Values::Path],
        (Cell::Text | Cell::Json | Cell::Binary, _) => vec![Values::Bytes(1)],
        (Cell::Float, _) => vec![numbers(NdType::F64, &[], false)],
        (Cell::Rows((dtype, shape), ..), _) => vec![numbers(*dtype, shape, true)],
        (
            Cell::Array(dtype),
            FieldKind::NdArray { shape, .. } | FieldKind::TorchTensor { shape, .. },
        ) => vec![numbers(*dtype, shape, false)],
        (Cell::Int(_) | Cell::Array(_), _) => vec![numbers(NdType::I64, &[], false)],
    };
    values.into_iter().map(|of| Leaf { field, of }).collect()
}

/// A column of the table: its name, the fields that it holds, and its type.
type TableColumn = (String, Vec<usize>, ColumnType);

fn schema(columns: &[TableColumn]) -> Result<TypePtr, ParquetError> {
    let nodes = columns.iter().map(|(name, _, of)| of.node(name));
    let schema = Type::group_type_builder("schema").with_fields(nodes.collect::<Result<_, _>>()?);
    Ok(Arc::new(schema.build()?))
}

/// Returns the metadata of the file: the features, what the fields of objects are, and Arrow's schema.
fn metadata(columns: &[TableColumn], objects: &ObjectFields) -> Vec<KeyValue> {
    let features = columns.iter().map(|(name, _, of)| (name.clone(), of.feature()));
    let features = json!({"info": {"features": features.collect::<Map<_, _>>()}}).to_string();
    let fields: Vec<_> = columns.iter().map(|(name, _, of)| of.arrow(name)).collect();
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let arrow = arrow::schema(&fields, &[(FEATURES, &features)]);
    let mut metadata = vec![pair(FEATURES, features), pair(arrow::KEY, arrow)];
    if objects.iter().len() > 0 {
        let objects = objects.clone().with_boxes(BoxFormat::Xywh);
        metadata.push(pair(OBJECTS_KEY, objects.to_json("")));
    }
    metadata
}

fn properties(schema: &TypePtr, leaves: &[Leaf], metadata: Vec<KeyValue>) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("fuseloop version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(metadata));
    let descriptor = SchemaDescriptor::new(Arc::clone(schema));
    for (leaf, column) in leaves.iter().zip(descriptor.columns()) {
        // Neither a text nor the name of a file.
        let is_plain = matches!(leaf.of, Values::Bytes(_)) && column.logical_type_ref().is_none();
        if is_plain {
            properties = properties
                .set_column_compression(column.path().clone(), Compression::UNCOMPRESSED)
                .set_column_dictionary_enabled(column.path().clone(), false)
                .set_column_statistics_enabled(column.path().clone(), EnabledStatistics::None);
        }
    }
    properties.build()
}

impl Cell {
    /// Returns the most bytes of a value that the reader takes.
    fn most_bytes(&self) -> usize {
        match self {
            Self::Text | Self::Json => MOST_TEXT,
            _ => MOST_BYTES,
        }
    }

    /// Returns the bytes of a value: the file, the text, or the numbers with their lowest byte first.
    fn bytes(&self, value: OwnedValue, field: &FieldSpec) -> Result<Vec<u8>, WriteSampleError> {
        let of_class = |reason: String| wrong(field, reason);
        if !value.fits(&field.kind) {
            let (expected, found) = (field.kind.word(), word(&value));
            return Err(WriteSampleError::Kind { field: field.name.clone(), expected, found });
        }
        match (self, value) {
            (Self::Int(count), OwnedValue::Int(value)) => {
                check_class(value, *count).map_err(of_class)?;
                Ok(value.to_le_bytes().to_vec())
            }
            (Self::Float, OwnedValue::Float(value)) => Ok(value.to_le_bytes().to_vec()),
            (Self::Array(dtype), OwnedValue::NdArray(mut elements)) => {
                to_little_endian(*dtype, &mut elements);
                Ok(elements)
            }
            (Self::Rows((dtype, row), format, count), OwnedValue::Bytes(bytes)) => {
                let rows = rows_of(&bytes, *dtype, row, field)?;
                if count.is_some() {
                    integers(rows)
                        .try_for_each(|class| check_class(class, *count))
                        .map_err(of_class)?;
                }
                Ok(format.map_or_else(|| rows.to_vec(), |format| xywh(rows, format)))
            }
            (Self::Text, value) => text_bytes(value, field),
            (Self::Json, value) => json_bytes(value, field),
            (_, value) => file_bytes(value, field),
        }
    }
}

/// Refuses a class that the list of names does not have; -1 is a missing one.
fn check_class(class: i64, count: Option<i64>) -> Result<(), String> {
    match count {
        Some(count) if !(-1..count).contains(&class) => {
            Err(format!("class {class}, the last that has a name is {}", count - 1))
        }
        _ => Ok(()),
    }
}

/// Returns upright boxes as their left and top edge, width and height.
fn xywh(rows: &[u8], format: BoxFormat) -> Vec<u8> {
    let numbers: Vec<f32> = floats(rows).collect();
    let boxes = numbers.as_chunks().0.iter().map(|&[a, b, c, d]: &[f32; 4]| match format {
        BoxFormat::Xyxy => [a, b, c - a, d - b],
        BoxFormat::Cxcywh => [a - c / 2.0, b - d / 2.0, c, d],
        _ => [a, b, c, d],
    });
    boxes.flatten().flat_map(f32::to_le_bytes).collect()
}

/// The rows of a shard that is being written.
pub(in crate::write) struct ParquetShard<'a> {
    layout: &'a ParquetLayout,
    /// What is to be written is taken out of it.
    writer: SerializedFileWriter<Vec<u8>>,
    /// The rows of the next row group.
    rows: Vec<Vec<Member>>,
    held: usize,
    /// The number of values that each column has for these rows.
    values: Vec<u64>,
}

impl<'a> ParquetShard<'a> {
    /// # Errors
    ///
    /// Fails with the message of the crate, which it should not.
    pub(in crate::write) fn new(layout: &'a ParquetLayout) -> io::Result<Self> {
        let (schema, properties) = (Arc::clone(&layout.schema), Arc::clone(&layout.properties));
        let writer = SerializedFileWriter::new(vec![], schema, properties);
        let (writer, values) = (writer.map_err(io::Error::other)?, vec![0; layout.leaves.len()]);
        Ok(Self { layout, writer, rows: vec![], held: 0, values })
    }

    /// Returns the number of bytes of the rows that are not written yet.
    pub(in crate::write) fn held(&self) -> u64 {
        self.held as u64
    }

    /// Adds a row, and returns what is to be written.
    ///
    /// # Errors
    ///
    /// Fails with the message of the crate.
    pub(in crate::write) fn add(&mut self, row: Vec<Member>) -> io::Result<Vec<u8>> {
        let size = row.iter().map(|cell| cell.bytes.len()).sum::<usize>();
        let values: Vec<u64> = self.layout.leaves.iter().map(|leaf| leaf.values(&row)).collect();
        let is_too_many = |(held, more): (&u64, &u64)| held + more > GROUP_VALUES;
        let is_full =
            self.held + size > GROUP_BYTES || self.values.iter().zip(&values).any(is_too_many);
        let mut bytes = if is_full && !self.rows.is_empty() { self.end_group()? } else { vec![] };
        self.held += size;
        self.values.iter_mut().zip(values).for_each(|(held, more)| *held += more);
        self.rows.push(row);
        if self.rows.len() >= self.layout.most_rows || self.held >= GROUP_BYTES {
            bytes.append(&mut self.end_group()?);
        }
        Ok(bytes)
    }

    /// Returns the end of the file.
    ///
    /// # Errors
    ///
    /// Fails with the message of the crate.
    pub(in crate::write) fn finish(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = if self.rows.is_empty() { vec![] } else { self.end_group()? };
        self.writer.finish().map_err(io::Error::other)?;
        bytes.append(self.writer.inner_mut());
        Ok(bytes)
    }

    fn end_group(&mut self) -> io::Result<Vec<u8>> {
        let mut rows = std::mem::take(&mut self.rows);
        self.held = 0;
        self.values.fill(0);
        let mut write = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            for leaf in &self.layout.leaves {
                let column = group.next_column()?;
                let mut column = column.ok_or(ParquetError::EOF("a column".to_owned()))?;
                leaf.write(&mut rows, &mut column)?;
                column.close()?;
            }
            group.close().map(drop)
        };
        write().map_err(io::Error::other)?;
        self.writer.flush()?;
        Ok(std::mem::take(self.writer.inner_mut()))
    }
}

/// The levels of the values of a column.
#[derive(Debug, Default, PartialEq)]
struct Levels {
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Levels {
    /// Returns the number of levels of an array of this shape.
    fn count(shape: &[u64]) -> u64 {
        match shape {
            [] | [0, ..] => 1,
            [len, inner @ ..] => len.saturating_mul(Self::count(inner)),
        }
    }

    /// Adds an array of this shape, whose first value has the level of repetition `first`. It lies in `depth` lists, and
    /// something of the shape's first axis has the level of definition `level`.
    fn add(&mut self, shape: &[u64], first: i16, depth: i16, level: i16) {
        match shape {
            [] | [0, ..] => {
                self.definition.push(level);
                self.repetition.push(first);
            }
            [len, inner @ ..] => {
                for index in 0..*len {
                    let first = if index == 0 { first } else { depth + 1 };
                    self.add(inner, first, depth + 1, level + 2);
                }
            }
        }
    }

    /// Adds a list of objects with an array of this shape for each.
    fn add_objects(&mut self, objects: u64, shape: &[u64]) {
        if objects == 0 {
            return self.add(&[0], 0, 0, 1);
        }
        for index in 0..objects {
            self.add(shape, i16::from(index > 0), 1, 4);
        }
    }
}

impl Leaf {
    /// Returns the number of values that the column has for a row, as the reader counts them: each with its levels.
    fn values(&self, row: &[Member]) -> u64 {
        match &self.of {
            Values::Numbers { dtype, shape, is_of_objects: true } => {
                let objects = count_of_rows(&row[self.field].bytes, *dtype, shape);
                objects.saturating_mul(Levels::count(shape)).max(1)
            }
            Values::Numbers { shape, .. } => Levels::count(shape),
            Values::Bytes(_) | Values::Path => 1,
        }
    }

    /// Returns the most values of a row that the reader takes: one for 8 bytes ([`MOST_UNPACKED`]). A number of 8 bytes
    /// needs 9, since its levels have less than a byte; all others are stored in up to 4.
    fn most_values(&self) -> u64 {
        match &self.of {
            Values::Numbers { dtype, .. } if dtype.item_size() == 8 => MOST_UNPACKED / 9,
            _ => MOST_UNPACKED / 8,
        }
    }

    /// Refuses a row of more values than the reader takes.
    fn check(&self, row: &[Member], fields: &[FieldSpec]) -> Result<(), WriteSampleError> {
        let (found, most) = (self.values(row), self.most_values());
        if found <= most {
            return Ok(());
        }
        let reason = format!(
            "field {:?}: {found} values, expected at most {most} in a sample of a Parquet file: convert to .beton or .tar, \
             or leave the field out",
            fields[self.field].name
        );
        Err(WriteSampleError::Source(reason.into()))
    }

    /// Writes the column of some rows. The bytes of files and texts are taken out of the rows.
    fn write(
        &self,
        rows: &mut [Vec<Member>],
        column: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        match &self.of {
            Values::Bytes(level) => {
                let values = rows.iter_mut().map(|row| std::mem::take(&mut row[self.field].bytes));
                let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
                let levels = vec![*level; values.len()];
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            Values::Path => {
                let paths = || rows.iter().map(|row| &row[self.field].extension);
                let levels: Vec<i16> = paths().map(|path| 2 - i16::from(path.is_empty())).collect();
                let paths = paths().filter(|path| !path.is_empty());
                let values: Vec<ByteArray> = paths.map(|path| path.as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            Values::Numbers { dtype, shape, is_of_objects } => {
                let mut levels = Levels::default();
                for row in &*rows {
                    match is_of_objects {
                        true => {
                            let objects = count_of_rows(&row[self.field].bytes, *dtype, shape);
                            levels.add_objects(objects, shape);
                        }
                        false => levels.add(shape, 0, 0, 1),
                    }
                }
                let cells = || rows.iter().map(|row| &*row[self.field].bytes);
                self.write_numbers(*dtype, cells, &levels, column)?;
            }
        }
        Ok(())
    }

    fn write_numbers<'a, I: Iterator<Item = &'a [u8]>>(
        &self,
        dtype: NdType,
        cells: impl Fn() -> I,
        levels: &Levels,
        column: &mut SerializedColumnWriter<'_>,
    ) -> Result<(), ParquetError> {
        macro_rules! write {
            ($type:ty, $size:literal, $of:expr) => {{
                let numbers = cells().flat_map(|cell| cell.as_chunks::<$size>().0).copied();
                let values: Vec<<$type as DataType>::T> = numbers.map($of).collect();
                put::<$type>(column, &values, levels)
            }};
        }
        match &*dtype.to_string() {
            "|b1" => write!(BoolType, 1, |[byte]| byte != 0),
            "|i1" => write!(Int32Type, 1, |[byte]| i32::from(byte.cast_signed())),
            "|u1" => write!(Int32Type, 1, |[byte]| i32::from(byte)),
            "<i2" => write!(Int32Type, 2, |bytes| i32::from(i16::from_le_bytes(bytes))),
            "<u2" => write!(Int32Type, 2, |bytes| i32::from(u16::from_le_bytes(bytes))),
            "<i4" | "<u4" => write!(Int32Type, 4, i32::from_le_bytes),
            "<i8" | "<u8" => write!(Int64Type, 8, i64::from_le_bytes),
            "<f2" => write!(FixedLenByteArrayType, 2, half),
            "<f4" => write!(FloatType, 4, f32::from_le_bytes),
            "<f8" => write!(DoubleType, 8, f64::from_le_bytes),
            other => Err(ParquetError::NYI(format!("numbers of type {other}"))),
        }
    }
}

/// The bytes of all numbers of 16 bits.
static HALVES: LazyLock<Bytes> =
    LazyLock::new(|| (0..=u16::MAX).flat_map(u16::to_le_bytes).collect());

/// Returns a number of 16 bits, whose bytes are not allocated.
fn half(bytes: [u8; 2]) -> FixedLenByteArray {
    let first = 2 * usize::from(u16::from_le_bytes(bytes));
    ByteArray::from(HALVES.slice(first..first + 2)).into()
}

fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: &Levels,
) -> Result<(), ParquetError> {
    column
        .typed::<T>()
        .write_batch(values, Some(&levels.definition), Some(&levels.repetition))
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(add: impl Fn(&mut Levels)) -> (Vec<i16>, Vec<i16>) {
        let mut levels = Levels::default();
        add(&mut levels);
        (levels.definition, levels.repetition)
    }

    #[test]
    fn levels_tell_where_lists_begin() {
        assert_eq!(levels(|all| all.add(&[], 0, 0, 1)), (vec![1], vec![0]));
        assert_eq!(levels(|all| all.add(&[3], 0, 0, 1)), (vec![3; 3], vec![0, 1, 1]));
        let grid = levels(|all| all.add(&[2, 3], 0, 0, 1));
        assert_eq!(grid, (vec![5; 6], vec![0, 2, 2, 1, 2, 2]));
        assert_eq!(levels(|all| all.add(&[2, 0], 0, 0, 1)), (vec![3; 2], vec![0, 1]));
        assert_eq!(levels(|all| all.add_objects(0, &[4])), (vec![1], vec![0]));
        assert_eq!(levels(|all| all.add_objects(2, &[])), (vec![4; 2], vec![0, 1]));
        assert_eq!(levels(|all| all.add_objects(2, &[2])), (vec![6; 4], vec![0, 2, 1, 2]));
    }

    #[test]
    fn levels_are_counted_before_they_are_added() {
        for shape in [&[][..], &[3], &[2, 3], &[2, 0], &[0, 2]] {
            let (definition, _) = levels(|all| all.add(shape, 0, 0, 1));
            assert_eq!(Levels::count(shape), definition.len() as u64, "{shape:?}");
        }
        assert_eq!(Levels::count(&[u64::MAX, 2, 0]), u64::MAX);
    }

    fn layout(kind: FieldKind) -> (Vec<FieldSpec>, ParquetLayout) {
        let fields = vec![FieldSpec { name: "a".to_owned(), kind }];
        let layout =
            ParquetLayout::new(&fields, &Beside::default(), (&[false], &[false]), None).unwrap();
        (fields, layout)
    }

    fn numbers(dtype: NdType, len: u64) -> FieldKind {
        FieldKind::NdArray { dtype, shape: vec![len] }
    }

    #[test]
    fn a_row_group_ends_before_it_has_too_many_values_or_bytes() {
        let len = 9 << 20;
        let (fields, of_numbers) = layout(numbers(NdType::BYTE, len as u64));
        let row = || vec![OwnedValue::NdArray(vec![0; len])];
        let row = || of_numbers.row(row(), &fields, None).unwrap();
        let mut shard = ParquetShard::new(&of_numbers).unwrap();
        assert!(shard.add(row()).unwrap().is_empty());
        assert!(!shard.add(row()).unwrap().is_empty(), "18 Mi values");
        assert_eq!((shard.rows.len(), &*shard.values), (1, &[len as u64][..]));

        let (fields, of_bytes) = layout(FieldKind::Bytes);
        let row = || vec![OwnedValue::Bytes(vec![0; 33 << 20])];
        let row = || of_bytes.row(row(), &fields, None).unwrap();
        let mut shard = ParquetShard::new(&of_bytes).unwrap();
        assert!(shard.add(row()).unwrap().is_empty());
        assert!(shard.add(row()).unwrap().len() < 34 << 20, "66 MiB");
    }

    #[test]
    fn a_sample_of_more_values_than_are_read_is_refused() {
        let most = (MOST_UNPACKED / 8) as usize;
        let row = |len: usize| {
            let (fields, layout) = layout(numbers(NdType::BYTE, len as u64));
            let row = layout.row(vec![OwnedValue::NdArray(vec![0; len])], &fields, None);
            row.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(row(most), Ok(()));
        let error = row(most + 1).unwrap_err();
        let expected = "field \"a\": 33554433 values, expected at most 33554432 in a sample of a Parquet file: convert to";
        assert!(error.contains(expected), "{error}");
        let (_, wide) = layout(numbers(NdType::F64, 1));
        assert_eq!(wide.leaves[0].most_values(), MOST_UNPACKED / 9);
        assert!(Cell::Text.most_bytes() < MOST_UNPACKED as usize);
    }

    #[test]
    fn halves_are_not_allocated() {
        let [one, other] = [half([1, 0x3c]), half([1, 0x3c])];
        assert_eq!(one.data(), [1, 0x3c]);
        assert_eq!(one.data().as_ptr(), other.data().as_ptr());
    }

    #[test]
    fn names_of_classes_are_a_list_from_zero() {
        let list = |names: &[(i64, &str)]| {
            let names: ClassNames =
                names.iter().map(|(number, name)| (*number, (*name).to_owned())).collect();
            let (objects, mut notes) = (ObjectFields::default(), vec![]);
            let list = Classes::new(Some(&names), &objects, &mut notes).of_label();
            (list.map(|list| list.join(" ")), notes.len())
        };
        assert_eq!(list(&[(0, "a"), (1, "b")]), (Some("a b".to_owned()), 0));
        assert_eq!(list(&[(1, "person"), (3, "car")]), (Some("0 person 2 car".to_owned()), 0));
        for odd in [&[(-1, "a")][..], &[(1 << 40, "a")], &[(0, "a"), (1, "a")], &[(1, "0")]] {
            assert_eq!(list(odd), (None, 1));
        }
        assert_eq!(list(&[]), (None, 0));
    }

    #[test]
    fn boxes_become_those_of_coco() {
        let boxes = |numbers: [f32; 4], format| {
            let bytes: Vec<u8> = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
            floats(&xywh(&bytes, format)).collect::<Vec<_>>()
        };
        assert_eq!(boxes([1.0, 2.0, 4.0, 8.0], BoxFormat::Xyxy), [1.0, 2.0, 3.0, 6.0]);
        assert_eq!(boxes([1.0, 2.0, 4.0, 8.0], BoxFormat::Cxcywh), [-1.0, -2.0, 4.0, 8.0]);
        assert_eq!(boxes([1.0, 2.0, 4.0, 8.0], BoxFormat::Xywh), [1.0, 2.0, 4.0, 8.0]);
    }
}
