//! A sample as a `tf.train.Example` (tensorflow/core/example/{example,feature}.proto): a feature a
//! field, of the field's name.
//!
//! | field                                | feature                                             |
//! |--------------------------------------|-----------------------------------------------------|
//! | image                                | `bytes_list`: the JPEG or PNG; raw pixels as PNG    |
//! | int                                  | `int64_list`                                        |
//! | float                                | `float_list`: rounded to 32 bits, which is all it has |
//! | bytes, JSON                          | `bytes_list`; JSON without FFCV's final NUL         |
//! | array of bool, i1 to i8, u1 to u4    | `int64_list`, in C order                            |
//! | array of f2, f4                      | `float_list`, in C order: every bit of it           |
//! | array of u8 (64 bits), f8, f16, c    | `bytes_list`: the elements, little-endian: `tf.io.decode_raw` |
//! | user-defined                         | refused                                             |
//!
//! An array of several dimensions has `NAME/shape` beside it, an `int64_list`; one that is stored as
//! bytes also has `NAME/dtype`, NumPy's name. Features are sorted by name, so that the same sample is
//! the same bytes.

use super::bytes::{file_bytes, word};
use super::column::ColumnError;
use crate::source::beton::{ByteOrder, NdKind};
use crate::source::{FieldKind, FieldSpec, NdType, OwnedValue, Record};
use crate::write::value::SampleError;
use half::f16;
use prost::Message as _;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::write) struct Example {
    #[prost(message, optional, tag = "1")]
    features: Option<Features>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::write) struct Features {
    #[prost(btree_map = "string, message", tag = "1")]
    feature: BTreeMap<String, Feature>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Feature {
    #[prost(oneof = "List", tags = "1, 2, 3")]
    list: Option<List>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum List {
    #[prost(message, tag = "1")]
    Bytes(BytesList),
    #[prost(message, tag = "2")]
    Floats(FloatList),
    #[prost(message, tag = "3")]
    Ints(Int64List),
}

#[derive(Clone, PartialEq, prost::Message)]
struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FloatList {
    #[prost(float, repeated, tag = "1")]
    value: Vec<f32>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Int64List {
    #[prost(int64, repeated, tag = "1")]
    value: Vec<i64>,
}

/// Whether samples of these fields can be examples.
///
/// # Errors
///
/// See [`ColumnError`].
pub(in crate::write) fn check_fields(fields: &[FieldSpec]) -> Result<(), ColumnError> {
    let mut taken = HashMap::new();
    for field in fields {
        if let FieldKind::Custom { .. } = field.kind {
            return Err(ColumnError::Custom { field: field.name.clone() });
        }
        for name in beside(field).into_iter().chain([field.name.clone()]) {
            if let Some(first) = taken.insert(name.clone(), &field.name) {
                let (first, second) = (first.clone(), field.name.clone());
                return Err(ColumnError::Same { first, second, name });
            }
        }
    }
    Ok(())
}

/// The features beside a field's own.
fn beside(field: &FieldSpec) -> Vec<String> {
    let mut names = vec![];
    if let FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } =
        &field.kind
    {
        let is_raw = as_list(*dtype).is_none();
        if shape.len() > 1 {
            names.push(format!("{}/shape", field.name));
        }
        if is_raw {
            names.push(format!("{}/dtype", field.name));
        }
    }
    names
}

impl Features {
    /// The bytes of a sample's Example.
    ///
    /// # Errors
    ///
    /// If a value is not of its field's kind, or a raw picture has no pixels.
    pub(in crate::write) fn encode_record(
        record: Record,
        fields: &[FieldSpec],
    ) -> Result<Vec<u8>, SampleError> {
        if record.len() != fields.len() {
            return Err(SampleError::Count { found: record.len(), expected: fields.len() });
        }
        let mut feature = BTreeMap::new();
        for (value, field) in record.into_iter().zip(fields) {
            put(value, field, &mut feature)?;
        }
        Ok(Example { features: Some(Self { feature }) }.encode_to_vec())
    }
}

fn put(
    value: OwnedValue,
    field: &FieldSpec,
    features: &mut BTreeMap<String, Feature>,
) -> Result<(), SampleError> {
    if !value.fits(&field.kind) {
        let (expected, found) = (field.kind.word(), word(&value));
        return Err(SampleError::Kind { field: field.name.clone(), expected, found });
    }
    let mut add = |name: &str, list| {
        features.insert(name.to_owned(), Feature { list: Some(list) });
    };
    let list = match (value, &field.kind) {
        (OwnedValue::Int(value), _) => ints(vec![value]),
        #[expect(clippy::cast_possible_truncation, reason = "the format has 32 bits")]
        (OwnedValue::Float(value), _) => List::Floats(FloatList { value: vec![value as f32] }),
        (
            OwnedValue::NdArray(elements),
            FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape },
        ) => {
            if shape.len() > 1 {
                let sides = shape.iter().map(|&side| i64::try_from(side).unwrap_or(i64::MAX));
                add(&format!("{}/shape", field.name), ints(sides.collect()));
            }
            match as_list(*dtype) {
                Some(list) => list(*dtype, &elements),
                None => {
                    let dtype = little(*dtype, elements);
                    add(&format!("{}/dtype", field.name), bytes(dtype.0.into_bytes()));
                    bytes(dtype.1)
                }
            }
        }
        (value, _) => bytes(file_bytes(value, field)?),
    };
    add(&field.name, list);
    Ok(())
}

fn ints(value: Vec<i64>) -> List {
    List::Ints(Int64List { value })
}

fn bytes(value: Vec<u8>) -> List {
    List::Bytes(BytesList { value: vec![value] })
}

/// How elements become a list that holds every bit of them; `None` if no list does.
fn as_list(dtype: NdType) -> Option<fn(NdType, &[u8]) -> List> {
    match (dtype.kind(), dtype.item_size()) {
        (NdKind::Bool | NdKind::Int, _) | (NdKind::UInt, 1 | 2 | 4) => Some(int_list),
        (NdKind::Float, 2 | 4) => Some(float_list),
        _ => None,
    }
}

fn int_list(dtype: NdType, elements: &[u8]) -> List {
    let is_signed = dtype.kind() == NdKind::Int;
    let value = |bytes: [u8; 8], size: usize| {
        let word = u64::from_le_bytes(bytes).cast_signed();
        let above = 64 - 8 * size as u32;
        // To the top and back again: that spreads the sign.
        if is_signed { (word << above) >> above } else { word }
    };
    ints(words(dtype, elements).map(|(bytes, size)| value(bytes, size)).collect())
}

fn float_list(dtype: NdType, elements: &[u8]) -> List {
    let value = |([a, b, c, d, ..], size): ([u8; 8], usize)| match size {
        2 => f16::from_le_bytes([a, b]).to_f32(),
        _ => f32::from_le_bytes([a, b, c, d]),
    };
    List::Floats(FloatList { value: words(dtype, elements).map(value).collect() })
}

/// The elements' bytes, the lowest first, and how many each has.
fn words(dtype: NdType, elements: &[u8]) -> impl Iterator<Item = ([u8; 8], usize)> {
    let size = dtype.item_size() as usize;
    let is_big = dtype.order() == ByteOrder::Big;
    elements.chunks_exact(size).map(move |element| {
        let mut word = [0; 8];
        let end = size.min(8);
        word[..end].copy_from_slice(&element[..end]);
        if is_big {
            word[..end].reverse();
        }
        (word, size)
    })
}

/// The name of the little-endian type, and the elements so.
fn little(dtype: NdType, mut elements: Vec<u8>) -> (String, Vec<u8>) {
    if dtype.order() == ByteOrder::Big {
        // A complex number is two numbers.
        let parts = if dtype.kind() == NdKind::Complex { 2 } else { 1 };
        let size = dtype.item_size() as usize / parts;
        elements.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    (dtype.to_string().replace('>', "<"), elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(dtype: &str, shape: Vec<u64>, elements: &[u8]) -> BTreeMap<String, Feature> {
        let kind = FieldKind::NdArray { dtype: dtype.parse().unwrap(), shape };
        let fields = [FieldSpec { name: "a".to_owned(), kind }];
        check_fields(&fields).unwrap();
        let record = vec![OwnedValue::NdArray(elements.to_vec())];
        let bytes = Features::encode_record(record, &fields).unwrap();
        Example::decode(&bytes[..]).unwrap().features.unwrap().feature
    }

    fn list(features: &BTreeMap<String, Feature>, name: &str) -> List {
        features[name].list.clone().unwrap()
    }

    #[test]
    fn arrays_of_small_numbers_are_lists() {
        let of = |dtype: &str, elements: &[u8]| list(&encoded(dtype, vec![2], elements), "a");
        assert_eq!(of("|i1", &[0xff, 2]), ints(vec![-1, 2]));
        assert_eq!(of("|u1", &[0xff, 2]), ints(vec![255, 2]));
        assert_eq!(of("|b1", &[0, 1]), ints(vec![0, 1]));
        assert_eq!(of(">i2", &[0xff, 0xfe, 1, 0]), ints(vec![-2, 256]));
        assert_eq!(of("<u4", &[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]), ints(vec![4_294_967_295, 1]));
        let longs = [i64::MIN.to_le_bytes(), 5_i64.to_le_bytes()].concat();
        assert_eq!(of("<i8", &longs), ints(vec![i64::MIN, 5]));
        let floats = [1.5_f32.to_be_bytes(), (-0.25_f32).to_be_bytes()].concat();
        let want = List::Floats(FloatList { value: vec![1.5, -0.25] });
        assert_eq!(of(">f4", &floats), want);
        let halves = [f16::from_f32(1.5), f16::from_f32(-0.25)].map(f16::to_le_bytes).concat();
        assert_eq!(of("<f2", &halves), want);
    }

    #[test]
    fn arrays_that_no_list_holds_are_bytes_with_their_type() {
        let doubles = [1.1_f64.to_be_bytes(), 2.2_f64.to_be_bytes()].concat();
        let features = encoded(">f8", vec![2, 1], &doubles);
        let want = [1.1_f64.to_le_bytes(), 2.2_f64.to_le_bytes()].concat();
        assert_eq!(list(&features, "a"), bytes(want));
        assert_eq!(list(&features, "a/dtype"), bytes(b"<f8".to_vec()));
        assert_eq!(list(&features, "a/shape"), ints(vec![2, 1]));
        let pair = [1.0_f32.to_be_bytes(), 2.0_f32.to_be_bytes()].concat();
        let want = [1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat();
        assert_eq!(list(&encoded(">c8", vec![1], &pair), "a"), bytes(want));
    }

    #[test]
    fn features_that_would_share_a_name_are_refused() {
        let array = FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: vec![1, 1] };
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let fields = [field("a", array), field("a/shape", FieldKind::Int)];
        assert!(matches!(check_fields(&fields), Err(ColumnError::Same { .. })));
        let custom = [field("c", FieldKind::Custom { row_size: 1, align: 1 })];
        assert!(matches!(check_fields(&custom), Err(ColumnError::Custom { .. })));
    }
}
