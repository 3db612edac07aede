//! Types and shapes of fields in a `tf.train.Example`. A feature's list does not hold them, so they are
//! stored in additional features beside it, which other readers of TFRecord can ignore.
//!
//! | field               | `NAME`                                   | additional feature                  |
//! |---------------------|------------------------------------------|-------------------------------------|
//! | array               | a list of its elements, or their bytes   | `NAME/dtype`: `<f4`; `NAME/shape`   |
//! | tensor              | the same                                 | `NAME/dtype`: `tensor <f4`; `NAME/shape` |
//! | JSON                | the text                                 | `NAME/dtype`: `json`                |
//! | bytes that begin like an image file | the bytes                | `NAME/dtype`: `bytes`               |
//! | image that begins otherwise        | its bytes                 | `NAME/dtype`: `image`               |
//! | float               | rounded to 32 bits                       | `NAME/float64`: its 8 bytes, if rounding changed it |
//! | fields that are not in the order of their names |              | `fuseloop/fields`: all names in order |
//! | fields of objects   |                                          | `fuseloop/objects`: what each is, see `source/object_fields.rs`; `fuseloop/fields` then lists all fields, and other features are none |
//!
//! | dtype                                | list          |
//! |--------------------------------------|---------------|
//! | bool, i1 to i8, u1 to u4             | `int64_list`  |
//! | f2, f4                               | `float_list`  |
//! | u8 (64 bits), f8, f16, complex       | `bytes_list`: one value, the elements in C order and in the byte order of `dtype` |
//!
//! `shape` is an `int64_list`, the others are `bytes_list`s. A field that is in none of these rows has
//! no additional feature. Written by `write/shards/example.rs`, read by `features.rs`.

use super::example::{BytesList, ExampleFeature, FloatList, Int64List, Kind};
use crate::source::dtype::{ByteOrder, NdKind};
use crate::source::{FieldKind, NdType};
use half::f16;
use std::collections::BTreeMap;

/// The features of an example by name.
pub(crate) type NamedFeatures = BTreeMap<String, ExampleFeature>;

/// The feature that lists the names of all fields, if they are not in the order of their names.
pub(crate) const ORDER: &str = "fuseloop/fields";

/// The feature that says what the fields of objects are.
pub(crate) const OBJECTS: &str = "fuseloop/objects";

/// Returns the name `NAME/dtype`.
pub(crate) fn dtype_name(name: &str) -> String {
    format!("{name}/dtype")
}

/// Returns the name `NAME/shape`.
pub(crate) fn shape_name(name: &str) -> String {
    format!("{name}/shape")
}

/// Returns the name `NAME/float64`.
pub(crate) fn exact_name(name: &str) -> String {
    format!("{name}/float64")
}

/// The value of `NAME/dtype` for a kind; `None` if the kind needs no such feature.
pub(crate) fn dtype_of(kind: &FieldKind) -> Option<String> {
    match kind {
        FieldKind::NdArray { dtype, .. } => Some(dtype.to_string()),
        FieldKind::TorchTensor { dtype, .. } => Some(format!("tensor {dtype}")),
        FieldKind::Json => Some("json".to_owned()),
        FieldKind::Bytes => Some("bytes".to_owned()),
        FieldKind::RgbImage | FieldKind::BitPlaneImage => Some("image".to_owned()),
        _ => None,
    }
}

/// The kind that is marked beside a feature; `None` if there is no valid mark.
pub(crate) fn marked(name: &str, features: &NamedFeatures) -> Option<FieldKind> {
    let text = std::str::from_utf8(one_value(features.get(&dtype_name(name))?)?).ok()?;
    let kind = match text {
        "json" => FieldKind::Json,
        "bytes" => FieldKind::Bytes,
        "image" => FieldKind::RgbImage,
        text => {
            let tensor = text.strip_prefix("tensor ");
            let dtype: NdType = tensor.unwrap_or(text).parse().ok()?;
            let shape = shape(features.get(&shape_name(name))?)?;
            match tensor {
                None => FieldKind::NdArray { dtype, shape },
                Some(_) => FieldKind::TorchTensor { dtype, shape },
            }
        }
    };
    fits(features.get(name)?, &kind).then_some(kind)
}

/// The only value of a `bytes_list`.
pub(crate) fn one_value(feature: &ExampleFeature) -> Option<&[u8]> {
    match feature.kind.as_ref()? {
        Kind::Bytes(list) if list.value.len() == 1 => Some(&list.value[0]),
        _ => None,
    }
}

fn shape(feature: &ExampleFeature) -> Option<Vec<u64>> {
    match feature.kind.as_ref()? {
        Kind::Ints(list) => list.value.iter().map(|&side| u64::try_from(side).ok()).collect(),
        _ => None,
    }
}

/// Returns true if a feature has the number of values that a kind needs, in the list of that kind.
fn fits(feature: &ExampleFeature, kind: &FieldKind) -> bool {
    let (FieldKind::NdArray { dtype, .. } | FieldKind::TorchTensor { dtype, .. }) = kind else {
        return one_value(feature).is_some();
    };
    let Some(bytes) = kind.array_bytes() else { return false };
    let count = bytes / dtype.item_size();
    match (List::of(*dtype), &feature.kind) {
        (List::Ints, Some(Kind::Ints(list))) => list.value.len() as u64 == count,
        (List::Floats, Some(Kind::Floats(list))) => list.value.len() as u64 == count,
        (List::Bytes, _) => one_value(feature).is_some_and(|value| value.len() as u64 == bytes),
        _ => false,
    }
}

/// The list that holds every bit of an array's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Ints,
    Floats,
    Bytes,
}

impl List {
    fn of(dtype: NdType) -> Self {
        match (dtype.kind, dtype.item_size()) {
            (NdKind::Bool | NdKind::Int, _) | (NdKind::UInt, 1 | 2 | 4) => Self::Ints,
            (NdKind::Float, 2 | 4) => Self::Floats,
            _ => Self::Bytes,
        }
    }
}

/// Converts an array's elements to a list.
pub(crate) fn to_list(dtype: NdType, elements: Vec<u8>) -> Kind {
    let size = dtype.item_size() as usize;
    let words = || elements.chunks_exact(size).map(|element| low_first(dtype, element));
    match List::of(dtype) {
        List::Bytes => Kind::Bytes(BytesList { value: vec![elements] }),
        List::Ints => {
            let above = 64 - 8 * size as u32;
            let is_signed = dtype.kind == NdKind::Int;
            let value = |word: [u8; 8]| {
                let word = u64::from_le_bytes(word).cast_signed();
                // Shifts the value to the top and back to extend its sign.
                if is_signed { (word << above) >> above } else { word }
            };
            Kind::Ints(Int64List { value: words().map(value).collect() })
        }
        List::Floats => {
            let value = |[a, b, c, d, ..]: [u8; 8]| match size {
                2 => widened(u16::from_le_bytes([a, b])),
                _ => f32::from_le_bytes([a, b, c, d]),
            };
            Kind::Floats(FloatList { value: words().map(value).collect() })
        }
    }
}

/// Converts a list to an array's elements; `None` if the list has another type, or a value is out of the
/// element type's range.
pub(crate) fn from_list(dtype: NdType, list: Kind) -> Option<Vec<u8>> {
    let size = dtype.item_size() as usize;
    let mut elements = vec![];
    let mut put = |word: [u8; 8]| {
        let start = elements.len();
        elements.extend_from_slice(&word[..size]);
        if dtype.order == ByteOrder::Big {
            elements[start..].reverse();
        }
    };
    match (List::of(dtype), list) {
        (List::Bytes, Kind::Bytes(mut list)) if list.value.len() == 1 => return list.value.pop(),
        (List::Ints, Kind::Ints(list)) => {
            if !list.value.iter().all(|&value| holds(dtype, value)) {
                return None;
            }
            list.value.iter().for_each(|value| put(value.to_le_bytes()));
        }
        (List::Floats, Kind::Floats(list)) => {
            for value in list.value {
                let mut word = [0; 8];
                match size {
                    2 => word[..2].copy_from_slice(&narrowed(value).to_le_bytes()),
                    _ => word[..4].copy_from_slice(&value.to_le_bytes()),
                }
                put(word);
            }
        }
        _ => return None,
    }
    Some(elements)
}

/// The element's bytes, the lowest first.
fn low_first(dtype: NdType, element: &[u8]) -> [u8; 8] {
    let mut word = [0; 8];
    let end = element.len().min(8);
    word[..end].copy_from_slice(&element[..end]);
    if dtype.order == ByteOrder::Big {
        word[..end].reverse();
    }
    word
}

/// Returns true if an integer type, or bool, can hold this value.
fn holds(dtype: NdType, value: i64) -> bool {
    let bits = 8 * dtype.item_size() as u32;
    if dtype.kind == NdKind::Int {
        let above = 64 - bits;
        (value << above) >> above == value
    } else {
        value >= 0 && value < 1 << bits
    }
}

/// Widens a half to a float and keeps all bits of a NaN, which a conversion would change.
fn widened(half: u16) -> f32 {
    let value = f16::from_bits(half);
    if !value.is_nan() {
        return value.to_f32();
    }
    let (sign, payload) = (u32::from(half >> 15), u32::from(half & 0x3ff));
    f32::from_bits(sign << 31 | 0xff << 23 | payload << 13)
}

/// The inverse of [`widened`].
fn narrowed(value: f32) -> u16 {
    if !value.is_nan() {
        return f16::from_f32(value).to_bits();
    }
    let bits = value.to_bits();
    // A NaN whose payload has only bits that a half lacks remains a NaN.
    let payload = ((bits >> 13) & 0x3ff).max(1);
    ((bits >> 31) << 15 | 0x1f << 10 | payload) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dtype(name: &str) -> NdType {
        name.parse().unwrap()
    }

    #[test]
    fn every_half_comes_back_to_the_bit() {
        for half in 0..=u16::MAX {
            assert_eq!(narrowed(widened(half)), half, "{half:#06x}");
        }
    }

    #[test]
    fn elements_come_back_from_their_lists() {
        for name in [
            "|b1", "|u1", "|i1", "<f2", ">f2", "<f4", ">f8", "<f16", ">i2", "<i8", "<u4", ">u8",
            "<c8", ">c16",
        ] {
            let size = dtype(name).item_size() as usize;
            let elements: Vec<u8> = (0..size * 5).map(|n| (n * 151 + 7) as u8).collect();
            let list = to_list(dtype(name), elements.clone());
            assert_eq!(from_list(dtype(name), list), Some(elements), "{name}");
        }
    }

    #[test]
    fn a_value_that_a_type_has_not_is_refused() {
        let of = |name: &str, value| {
            from_list(dtype(name), Kind::Ints(Int64List { value: vec![value] }))
        };
        for (name, least, most) in
            [("|i1", -128, 127), ("<i8", i64::MIN, i64::MAX), ("<u4", 0, (1 << 32) - 1)]
        {
            assert!(of(name, least).is_some() && of(name, most).is_some(), "{name}");
            for value in [least.wrapping_sub(1), most.wrapping_add(1)] {
                assert_eq!(of(name, value).is_some(), name == "<i8", "{name} {value}");
            }
        }
        assert_eq!(from_list(dtype("<f4"), Kind::Ints(Int64List { value: vec![1] })), None);
    }

    fn bytes(value: &str) -> ExampleFeature {
        let value = vec![value.as_bytes().to_vec()];
        ExampleFeature { kind: Some(Kind::Bytes(BytesList { value })) }
    }

    fn ints(value: Vec<i64>) -> ExampleFeature {
        ExampleFeature { kind: Some(Kind::Ints(Int64List { value })) }
    }

    /// Other writers use the same names: marks that do not match their feature are ignored.
    #[test]
    fn only_what_makes_sense_is_a_mark() {
        let of = |value: ExampleFeature, dtype: ExampleFeature, shape: ExampleFeature| {
            let all = [("a", value), ("a/dtype", dtype), ("a/shape", shape)];
            marked("a", &all.map(|(name, feature)| (name.to_owned(), feature)).into())
        };
        let six = || ints((0..6).collect());
        let array = |shape| FieldKind::NdArray { dtype: dtype("<i8"), shape };
        assert_eq!(of(six(), bytes("<i8"), ints(vec![2, 3])), Some(array(vec![2, 3])));
        let tensor = FieldKind::TorchTensor { dtype: dtype("|u1"), shape: vec![6] };
        assert_eq!(of(six(), bytes("tensor |u1"), ints(vec![6])), Some(tensor));
        assert_eq!(of(bytes("{}"), bytes("json"), six()), Some(FieldKind::Json));
        for (value, name, shape) in [
            (six(), "<i8", ints(vec![2, 2])),
            (six(), "<i8", ints(vec![-2, -3])),
            (six(), "<i8", ints(vec![1 << 40, 1 << 40])),
            (six(), "<i8", bytes("2, 3")),
            (six(), "<f4", ints(vec![6])),
            (six(), "int64", ints(vec![6])),
            (six(), "json", ints(vec![6])),
            (bytes("123"), ">f8", ints(vec![1])),
        ] {
            assert_eq!(of(value, bytes(name), shape), None, "{name}");
        }
    }
}
