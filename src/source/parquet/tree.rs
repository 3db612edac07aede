//! Columns of any form as JSON: structures are objects, lists and maps as they are, numbers and texts.

use super::pages::Pages;
use crate::panicked::call_decoder;
use crate::source::Escaped;
use parquet::column::page::PageReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::RowGroupReader;
use parquet::record::reader::{RowIter, TreeBuilder};
use parquet::record::{Field, Row};
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// The schema of one column.
pub(super) struct Schema(SchemaDescPtr);

impl Schema {
    /// Returns the schema of one of the columns of a file.
    pub(super) fn of(schema: &SchemaDescriptor, root: usize) -> Option<Self> {
        let column = schema.root_schema().get_fields().get(root)?;
        let message = Type::group_type_builder("schema").with_fields(vec![column.clone()]).build();
        Some(Self(Arc::new(SchemaDescriptor::new(Arc::new(message.ok()?)))))
    }
}

/// Returns the value of each row, or why it is none.
///
/// # Errors
///
/// Returns the message of the decoder, of an error or of a panic.
pub(super) fn rows(
    schema: &Schema,
    pages: Vec<Pages>,
    rows: u64,
) -> Result<Vec<Result<Value, String>>, String> {
    call_decoder("parquet", || -> Result<_, ParquetError> {
        let descr = &schema.0;
        let columns = (0..descr.num_columns())
            .map(|leaf| ColumnChunkMetaData::builder(descr.column(leaf)).set_num_values(0).build());
        let metadata = RowGroupMetaData::builder(Arc::clone(descr))
            .set_num_rows(i64::try_from(rows).unwrap_or(i64::MAX))
            .set_column_metadata(columns.collect::<ParquetResult<_>>()?)
            .build()?;
        let pages = pages.into_iter().map(|pages| Mutex::new(Some(pages))).collect();
        let group = InMemory { metadata, pages };
        let rows = TreeBuilder::new().as_iter(Arc::clone(descr), &group)?;
        rows.map(|row| Ok(only_value(row?))).collect()
    })
}

fn only_value(row: Row) -> Result<Value, String> {
    debug_assert!(row.len() < 2, "a schema of one column");
    match row.into_columns().into_iter().next() {
        Some((_, field)) => json(field),
        None => Ok(Value::Null),
    }
}

fn json(field: Field) -> Result<Value, String> {
    let float = |value: f64| {
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| format!("{value} is no number of JSON"))
    };
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => value.into(),
        Field::Byte(value) => value.into(),
        Field::Short(value) => value.into(),
        Field::Int(value) | Field::Date(value) | Field::TimeMillis(value) => value.into(),
        Field::Long(value)
        | Field::TimeMicros(value)
        | Field::TimestampMillis(value)
        | Field::TimestampMicros(value) => value.into(),
        Field::UByte(value) => value.into(),
        Field::UShort(value) => value.into(),
        Field::UInt(value) => value.into(),
        Field::ULong(value) => value.into(),
        Field::Float16(value) => float(value.to_f64())?,
        Field::Float(value) => float(value.into())?,
        Field::Double(value) => float(value)?,
        Field::Str(text) => text.into(),
        Field::Decimal(_) | Field::Bytes(_) => return Err("bytes or decimals in JSON".to_owned()),
        Field::Group(row) => {
            let fields = row.into_columns().into_iter();
            let fields = fields.map(|(name, field)| Ok((name, json(field)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        Field::ListInternal(list) => {
            let items = list.elements().iter().map(|item| json(item.clone()));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Field::MapInternal(map) => {
            let mut entries = serde_json::Map::new();
            for (key, value) in map.entries() {
                let key = match json(key.clone())? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                if entries.contains_key(&key) {
                    let key = Escaped(&key).to_string();
                    return Err(format!("a map with two values of the key {key:?}, JSON has one"));
                }
                entries.insert(key, json(value.clone())?);
            }
            Value::Object(entries)
        }
    })
}

/// A row group whose pages are in memory, each to be read once.
struct InMemory {
    metadata: RowGroupMetaData,
    pages: Vec<Mutex<Option<Pages>>>,
}

impl RowGroupReader for InMemory {
    fn metadata(&self) -> &RowGroupMetaData {
        &self.metadata
    }

    fn num_columns(&self) -> usize {
        self.pages.len()
    }

    fn get_column_page_reader(&self, leaf: usize) -> ParquetResult<Box<dyn PageReader>> {
        let pages = self.pages.get(leaf);
        let pages = pages.and_then(|one| one.lock().unwrap_or_else(PoisonError::into_inner).take());
        let none = || ParquetError::General(format!("column {leaf} is read twice"));
        Ok(Box::new(pages.ok_or_else(none)?))
    }

    fn get_column_bloom_filter(&self, _: usize) -> Option<&parquet::bloom_filter::Sbbf> {
        None
    }

    fn get_row_iter(&self, _: Option<Type>) -> ParquetResult<RowIter<'_>> {
        Err(ParquetError::NYI("rows are read by a tree of readers".to_owned()))
    }
}
