//! The type of a column, in the three notations of a Parquet file: Parquet's schema, the features of `datasets`, and
//! Arrow's schema.
//!
//! | type           | Parquet                              | feature               | Arrow                 |
//! |----------------|--------------------------------------|-----------------------|-----------------------|
//! | image          | `{bytes: BYTE_ARRAY, path: String}`  | `Image`               | `struct`              |
//! | audio          | the same                             | `Audio`               | the same              |
//! | class          | `INT64`                              | `ClassLabel` of names | `int64`               |
//! | number         | the smallest that has its type       | `Value`               | its type              |
//! | text, bytes    | `BYTE_ARRAY`, of text `String`       | `Value`               | `string`, `binary`    |
//! | JSON           | `BYTE_ARRAY` `Json`                  | `Json`                | `arrow.json`          |
//! | list           | `List` of three levels               | `List`, with a length | `list`, of a fixed size |
//! | grid           | lists in lists                       | `Array2D` to `Array5D` | an extension type    |
//! | structure      | a group                              | a feature by name     | `struct`              |
//!
//! All may be null, as in the files of `datasets`: pyarrow gives columns that may not be null other types.

use super::arrow::{ArrowField, ArrowType};
use crate::source::NdType;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// The type of a column, or of something in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ColumnType {
    Image,
    Audio,
    /// The names, by the numbers of the classes from 0.
    Class(Vec<String>),
    Number(NdType),
    Text,
    Json,
    Binary,
    /// A list, of a length that is the same in all rows or not.
    List(Box<Self>, Option<u64>),
    /// An array of two to five axes.
    Grid(NdType, Vec<u64>),
    Struct(Vec<(String, Self)>),
}

/// How numbers of a type are stored.
struct Stored {
    physical: Physical,
    logical: Option<LogicalType>,
    name: &'static str,
    arrow: ArrowType,
}

/// Returns how numbers of a type are stored; `None` if Parquet has no such type.
fn stored(dtype: NdType) -> Option<Stored> {
    let int = |bits, is_signed, name| {
        let physical = if bits == 64 { Physical::INT64 } else { Physical::INT32 };
        let is_plain = is_signed && bits >= 32;
        let logical = (!is_plain).then(|| LogicalType::integer(bits, is_signed));
        let arrow = ArrowType::Int { bits: i32::from(bits), is_signed };
        Stored { physical, logical, name, arrow }
    };
    let other = |physical, logical, name, arrow| Stored { physical, logical, name, arrow };
    Some(match &*dtype.little_endian().to_string() {
        "|b1" => other(Physical::BOOLEAN, None, "bool", ArrowType::Bool),
        "|i1" => int(8, true, "int8"),
        "<i2" => int(16, true, "int16"),
        "<i4" => int(32, true, "int32"),
        "<i8" => int(64, true, "int64"),
        "|u1" => int(8, false, "uint8"),
        "<u2" => int(16, false, "uint16"),
        "<u4" => int(32, false, "uint32"),
        "<u8" => int(64, false, "uint64"),
        "<f2" => {
            let half = Some(LogicalType::Float16);
            other(Physical::FIXED_LEN_BYTE_ARRAY, half, "float16", ArrowType::Float(0))
        }
        "<f4" => other(Physical::FLOAT, None, "float32", ArrowType::Float(1)),
        "<f8" => other(Physical::DOUBLE, None, "float64", ArrowType::Float(2)),
        _ => return None,
    })
}

impl ColumnType {
    /// Returns the type of arrays; `None` if Parquet has no such numbers.
    pub(super) fn of_array(dtype: NdType, shape: &[u64]) -> Option<Self> {
        stored(dtype)?;
        let dtype = dtype.little_endian();
        Some(match shape {
            [] => Self::Number(dtype),
            [_, _] | [_, _, _] | [_, _, _, _] | [_, _, _, _, _] => {
                Self::Grid(dtype, shape.to_vec())
            }
            _ => Self::nested(dtype, shape),
        })
    }

    /// Returns the type of lists in lists of these lengths.
    pub(super) fn nested(dtype: NdType, shape: &[u64]) -> Self {
        let list = |of, len: &u64| Self::List(Box::new(of), Some(*len));
        shape.iter().rev().fold(Self::Number(dtype), list)
    }

    /// Returns the lists that a grid is stored as.
    fn lists(dtype: NdType, shape: &[u64]) -> Self {
        let list = |of, _: &u64| Self::List(Box::new(of), None);
        shape.iter().fold(Self::Number(dtype), list)
    }

    /// Returns the node of Parquet's schema.
    ///
    /// # Errors
    ///
    /// Fails if the crate refuses the schema, which it should not.
    pub(super) fn node(&self, name: &str) -> Result<TypePtr, ParquetError> {
        let group = |logical, fields| {
            let group = Type::group_type_builder(name).with_repetition(Repetition::OPTIONAL);
            group.with_logical_type(logical).with_fields(fields).build()
        };
        let leaf = |physical, logical: Option<LogicalType>| {
            let leaf = Type::primitive_type_builder(name, physical);
            let len = if physical == Physical::FIXED_LEN_BYTE_ARRAY { 2 } else { 0 };
            leaf.with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .with_length(len)
                .build()
        };
        let node = match self {
            Self::Image | Self::Audio => {
                group(None, vec![Self::Binary.node("bytes")?, Self::Text.node("path")?])
            }
            Self::Struct(fields) => {
                let fields = fields.iter().map(|(name, of)| of.node(name));
                group(None, fields.collect::<Result<_, _>>()?)
            }
            Self::List(of, _) => {
                let repeated =
                    Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
                let repeated = repeated.with_fields(vec![of.node("element")?]).build()?;
                group(Some(LogicalType::List), vec![Arc::new(repeated)])
            }
            Self::Grid(dtype, shape) => return Self::lists(*dtype, shape).node(name),
            Self::Class(_) => leaf(Physical::INT64, None),
            Self::Number(dtype) => {
                let stored = stored(*dtype);
                leaf(
                    stored.as_ref().map_or(Physical::INT64, |stored| stored.physical),
                    stored.and_then(|stored| stored.logical),
                )
            }
            Self::Text => leaf(Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::Json => leaf(Physical::BYTE_ARRAY, Some(LogicalType::Json)),
            Self::Binary => leaf(Physical::BYTE_ARRAY, None),
        };
        Ok(Arc::new(node?))
    }

    /// Returns the feature of `datasets`.
    pub(super) fn feature(&self) -> Json {
        let value = |dtype: &str| json!({"dtype": dtype, "_type": "Value"});
        let name = |dtype: NdType| stored(dtype).map_or("int64", |stored| stored.name);
        match self {
            Self::Image => json!({"_type": "Image"}),
            Self::Audio => json!({"_type": "Audio"}),
            Self::Class(names) => json!({"names": names, "_type": "ClassLabel"}),
            Self::Number(dtype) => value(name(*dtype)),
            Self::Text => value("string"),
            Self::Json => json!({"_type": "Json"}),
            Self::Binary => value("binary"),
            Self::List(of, None) => json!({"feature": of.feature(), "_type": "List"}),
            Self::List(of, Some(len)) => {
                json!({"feature": of.feature(), "length": len, "_type": "List"})
            }
            Self::Grid(dtype, shape) => {
                let array = format!("Array{}D", shape.len());
                json!({"shape": shape, "dtype": name(*dtype), "_type": array})
            }
            Self::Struct(fields) => {
                let fields = fields.iter().map(|(name, of)| (name.clone(), of.feature()));
                Json::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// Returns the field of Arrow's schema.
    pub(super) fn arrow(&self, name: &str) -> ArrowField {
        let field =
            |of, children| ArrowField { name: name.to_owned(), of, children, extension: None };
        match self {
            Self::Image | Self::Audio => {
                let children = vec![Self::Binary.arrow("bytes"), Self::Text.arrow("path")];
                field(ArrowType::Struct, children)
            }
            Self::Struct(fields) => {
                let children = fields.iter().map(|(name, of)| of.arrow(name));
                field(ArrowType::Struct, children.collect())
            }
            Self::List(of, len) => {
                let len = len.and_then(|len| i32::try_from(len).ok());
                let list = len.map_or(ArrowType::List, ArrowType::FixedSizeList);
                field(list, vec![of.arrow("item")])
            }
            Self::Grid(dtype, shape) => {
                let axes = shape.len();
                let class = format!("datasets.features.features.Array{axes}DExtensionType");
                let of = stored(*dtype).map_or("int64", |stored| stored.name);
                let extension = Some((class, json!([shape, of]).to_string()));
                ArrowField { extension, ..Self::lists(*dtype, shape).arrow(name) }
            }
            Self::Class(_) => field(ArrowType::Int { bits: 64, is_signed: true }, vec![]),
            Self::Number(dtype) => {
                let of = stored(*dtype).map(|stored| stored.arrow);
                field(of.unwrap_or(ArrowType::Int { bits: 64, is_signed: true }), vec![])
            }
            Self::Text => field(ArrowType::Utf8, vec![]),
            Self::Json => ArrowField {
                extension: Some(("arrow.json".to_owned(), String::new())),
                ..field(ArrowType::Utf8, vec![])
            },
            Self::Binary => field(ArrowType::Binary, vec![]),
        }
    }
}
