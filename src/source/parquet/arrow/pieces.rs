//! Columns of Arrow whose buffers are pieces of bytes, for tests and fuzzing.
//!
//! ```text
//! [rows]  for each array, before its children:  [offset] [rows of a child]  for each buffer: [size] [bytes]
//! ```
//!
//! A buffer of no bytes is not there. Bytes that end are followed by zeros.

use super::{ArrowArray, ArrowTable, Memory};
use crate::error::{Error, fail};
use crate::source::parquet::schema::Plan;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;
use std::sync::Arc;

/// A type: pyarrow's text for it, the number of its buffers, and its children by name.
struct Type(&'static str, usize, &'static [(&'static str, Type)]);

const SCHEMA: &str = "message schema {
    optional group image { optional binary bytes; optional binary path (UTF8); }
    optional int64 label;
    optional group objects (LIST) { repeated group list { optional group element {
        optional group bbox (LIST) { repeated group list { optional double element; } }
        optional int32 category;
    } } }
    optional group tags (LIST) { repeated group list { optional binary element (UTF8); } }
    optional binary text (UTF8);
}";

const COLUMNS: [Type; 5] = [
    Type("struct", 1, &[("bytes", Type("binary", 3, &[])), ("path", Type("string", 3, &[]))]),
    Type("int64", 2, &[]),
    Type(
        "list",
        2,
        &[(
            "",
            Type(
                "struct",
                1,
                &[
                    ("bbox", Type("fixed_size_list[4]", 1, &[("", Type("double", 2, &[]))])),
                    ("category", Type("int32", 2, &[])),
                ],
            ),
        )],
    ),
    Type("list", 2, &[("", Type("string_view", 3, &[]))]),
    Type("large_string", 3, &[]),
];

/// Returns the table of bytes.
pub(super) fn table(mut bytes: &[u8]) -> Result<ArrowTable, Error> {
    let rows = take(&mut bytes).into();
    let columns = COLUMNS.iter().map(|of| vec![array(of, Some(rows), &mut bytes)]).collect();
    of_schema(SCHEMA, columns, None)
}

/// Returns the table of columns of a schema of Parquet.
pub(super) fn of_schema(
    schema: &str,
    columns: Vec<Vec<ArrowArray>>,
    indices: Option<Vec<ArrowArray>>,
) -> Result<ArrowTable, Error> {
    let schema = parse_message_type(schema).map_err(|error| fail!(Format, "{error}"))?;
    let schema = SchemaDescriptor::new(Arc::new(schema));
    let plan = Plan::new(&schema, None, None);
    ArrowTable::of("memory", (&schema, plan), columns, indices, vec![])
}

fn take(bytes: &mut &[u8]) -> u8 {
    bytes.split_off_first().copied().unwrap_or(0)
}

fn array(of: &Type, rows: Option<u64>, bytes: &mut &[u8]) -> ArrowArray {
    let Type(layout, buffers, children) = of;
    let offset = take(bytes).into();
    let rows = rows.unwrap_or_else(|| take(bytes).into());
    let buffers: Vec<_> = (0..*buffers)
        .map(|_| {
            let size = usize::from(take(bytes)).min(bytes.len());
            let (piece, rest) = bytes.split_at(size);
            *bytes = rest;
            (!piece.is_empty()).then(|| Box::new(piece.to_vec()) as Memory)
        })
        .collect();
    let child = |(name, of): &(&str, Type)| ((*name).to_owned(), array(of, None, bytes));
    let children = children.iter().map(child).collect();
    ArrowArray::new(layout, (offset, rows), buffers, children)
}
