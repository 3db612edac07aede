//! Arrays that are made by hand. The Python tests compare those of `datasets` with Parquet.

use super::pieces::of_schema;
use super::*;
use crate::source::{FieldKind, ObjectField, OwnedValue};

fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn memory(bytes: impl Into<Vec<u8>>) -> Option<Memory> {
    Some(Box::new(bytes.into()))
}

fn array(layout: &str, len: u64, buffers: Vec<Option<Memory>>) -> ArrowArray {
    ArrowArray::new(layout, (0, len), buffers, vec![])
}

fn texts(offsets: &[i32], bytes: &str) -> ArrowArray {
    array("string", offsets.len() as u64 - 1, vec![None, memory(ints(offsets)), memory(bytes)])
}

fn lists(offsets: &[i32], items: ArrowArray) -> ArrowArray {
    let (len, children) = (offsets.len() as u64 - 1, vec![(String::new(), items)]);
    ArrowArray::new("list", (0, len), vec![None, memory(ints(offsets))], children)
}

fn shown(table: &ArrowTable, sample: u64) -> String {
    match table.value(SampleId(sample), 0, &mut Buffer::default()) {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    }
}

const TEXT: &str = "message m { optional binary text (UTF8); }";
const LISTS: &str =
    "message m { optional group a (LIST) { repeated group list { optional int32 element; } } }";

#[test]
fn rows_of_several_arrays_follow_the_indices() {
    let columns = || vec![vec![texts(&[0, 1, 3], "abc"), texts(&[0, 0], ""), texts(&[1, 2], "de")]];
    let table = of_schema(TEXT, columns(), None).unwrap();
    let all = [0, 1, 2, 3, 4].map(|sample| shown(&table, sample));
    let missing = "text: sample 4 does not exist: the dataset has 4 samples";
    assert_eq!(all, ["Bytes([97])", "Bytes([98, 99])", "Bytes([])", "Bytes([101])", &missing[6..]]);
    assert_eq!([0, 1, 2, 3].map(|n| table.locality_group(SampleId(n)).unwrap()), [0, 0, 1, 2]);
    let indices = |values: &[i32]| Some(vec![array("uint32", 3, vec![None, memory(ints(values))])]);
    let some = of_schema(TEXT, columns(), indices(&[3, 0, 9])).unwrap();
    assert_eq!([shown(&some, 0), shown(&some, 1)], ["Bytes([101])", "Bytes([97])"]);
    assert!(shown(&some, 2).contains("its index is 9, of 4 rows"), "{}", shown(&some, 2));
    assert_ne!(some.facts.fingerprint, table.facts.fingerprint);
}

#[test]
fn values_lie_in_memory_unless_they_are_converted() {
    let table = of_schema(
        LISTS,
        vec![vec![lists(&[0, 1, 3], array("int32", 3, vec![None, memory(ints(&[1, 2, 3]))]))]],
        None,
    );
    let table = table.unwrap();
    assert_eq!(table.facts.fields[0].kind, FieldKind::Bytes);
    let second = Value::Bytes(&[2, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(table.value_in_memory(SampleId(1), 0), Some(second));
    let boxes = "message m { optional group bbox (LIST) { repeated group list { optional group element (LIST) {
        repeated group list { optional double element; } } } } }";
    let numbers = [1.5_f64, 2.0, 3.0, 4.0].map(f64::to_le_bytes).concat();
    let items = ArrowArray::new(
        "fixed_size_list[4]",
        (0, 1),
        [None],
        vec![(String::new(), array("double", 4, vec![None, memory(numbers)]))],
    );
    let table = of_schema(boxes, vec![vec![lists(&[0, 1, 1], items)]], None).unwrap();
    let objects = table.facts.object_fields().unwrap().unwrap();
    assert!(matches!(objects.get("bbox"), Some(ObjectField::Boxes(_))));
    let mut buffer = Buffer::default();
    let floats = [1.5_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    assert_eq!(table.value(SampleId(0), 0, &mut buffer).unwrap(), Value::Bytes(&floats));
    assert_eq!(table.value_in_memory(SampleId(0), 0), None);
    assert_eq!(table.value(SampleId(1), 0, &mut buffer).unwrap(), Value::Bytes(&[]));
}

#[test]
fn a_list_of_binary_is_a_list_of_images() {
    let schema = "message m { optional group images (LIST) { repeated group list { optional binary element; } } }";
    let files = array("binary", 3, vec![None, memory(ints(&[0, 2, 2, 3])), memory("abc")]);
    let table = of_schema(schema, vec![vec![lists(&[0, 2, 2, 3], files)]], None).unwrap();
    let mut buffer = Buffer::default();
    for (sample, expected) in [&[&b"ab"[..], b""][..], &[], &[b"c"]].into_iter().enumerate() {
        let value = table.value(SampleId(sample as u64), 0, &mut buffer).unwrap();
        assert_eq!(OwnedValue::from(value), OwnedValue::images(expected));
    }
    let nulls = array("binary", 2, vec![memory([1_u8]), memory(ints(&[0, 1, 1])), memory("a")]);
    let table = of_schema(schema, vec![vec![lists(&[0, 2], nulls)]], None).unwrap();
    assert!(shown(&table, 0).contains("of one of its images are"), "{}", shown(&table, 0));
}

#[test]
fn offsets_and_lengths_that_lie_are_errors_of_their_row() {
    let mut says = vec![];
    for offsets in [[0, 9], [-1, 2], [2, 1], [i32::MAX - 1, i32::MAX]] {
        says.push(shown(&of_schema(TEXT, vec![vec![texts(&offsets, "abc")]], None).unwrap(), 0));
    }
    let short = array("string", 4, vec![None, memory(ints(&[0, 1])), memory("abc")]);
    says.push(shown(&of_schema(TEXT, vec![vec![short]], None).unwrap(), 3));
    let nulls = array("string", 99, vec![memory([0_u8]), memory(ints(&[0; 100])), memory("")]);
    let nulls = of_schema(TEXT, vec![vec![nulls]], None).unwrap();
    says.extend([shown(&nulls, 5), shown(&nulls, 60)]);
    let view = [ints(&[13, 0, 4, -1]), vec![]].concat();
    let view = array("string_view", 1, vec![None, memory(view), memory("abc")]);
    says.push(shown(&of_schema(TEXT, vec![vec![view]], None).unwrap(), 0));
    let far = ArrowArray::new("string", (u64::MAX, 1), [None, memory(ints(&[0, 0]))], vec![]);
    says.push(shown(&of_schema(TEXT, vec![vec![far]], None).unwrap(), 0));
    let items = || array("int32", 3, vec![None, memory(ints(&[1, 2]))]);
    for offsets in [[0, 9], [0, 3]] {
        says.push(shown(&of_schema(LISTS, vec![vec![lists(&offsets, items())]], None).unwrap(), 0));
    }
    let expected = [
        "9 bytes from byte 0 on of a buffer of 3",
        "an offset of -1",
        "bytes from 2 to 1",
        "1 bytes from byte 2147483646 on of a buffer of 3",
        "4 bytes from byte 12 on of a buffer of 8",
        "it is null",
        "bit 60 of a buffer of 1 bytes",
        "a view with a negative length or offset",
        "an array has 1 rows",
        "a list of items 0 to 9 of 3",
        "12 bytes from byte 0 on of a buffer of 8",
    ];
    for (found, expected) in says.iter().zip(expected) {
        assert!(found.contains(expected), "{found}, expected {expected}");
    }
    assert_eq!(says.len(), expected.len());
}

/// The items of a list may all be the same piece.
#[test]
fn texts_of_json_have_the_limit_of_a_sample() {
    let schema = "message m { optional group a (LIST) { repeated group list { optional binary element (UTF8); } } }";
    let views = ints(&[13, 0, 0, 0].repeat(4));
    let items = array("string_view", 4, vec![None, memory(views), memory("thirteen byte")]);
    let mut table = of_schema(schema, vec![vec![lists(&[0, 4], items)]], None).unwrap();
    assert!(shown(&table, 0).starts_with("Json("), "{}", shown(&table, 0));
    table.limits.max_sample_bytes = 4 * 13 - 1;
    assert!(shown(&table, 0).contains("more than 51 bytes of text"), "{}", shown(&table, 0));
}

#[test]
fn columns_that_do_not_fit_their_schema_are_refused() {
    let refused = |schema, columns| of_schema(schema, columns, None).unwrap_err().to_string();
    assert_eq!(refused(TEXT, vec![]), "memory: columns that do not fit their schema");
    assert!(refused(TEXT, vec![vec![]]).contains("no rows"));
    // A list where the schema has a text, and a type that is not known.
    for array in [lists(&[0, 1], texts(&[0, 1], "a")), array("decimal128(9, 2)", 1, vec![])] {
        assert!(refused(TEXT, vec![vec![array]]).contains("none of its columns can be read"));
    }
}
