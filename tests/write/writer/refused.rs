//! Inputs that are refused before or while writing, and their error messages.

use super::*;

#[test]
fn fields_that_the_format_cannot_hold_are_refused() {
    let nd = |shape: &[u64]| FieldKind::NdArray { dtype: dtype("|u1"), shape: shape.to_vec() };
    for (fields, message) in [
        (vec![], "0 fields, expected 1 to 65535"),
        (vec![field("", FieldKind::Int)], "field 0 has no name"),
        (
            vec![field("seventeen_letters", FieldKind::Int)],
            "field name \"seventeen_letters\": expected at most 16 ASCII characters and no NUL",
        ),
        (
            vec![field("é", FieldKind::Int)],
            "field name \"é\": expected at most 16 ASCII characters and no NUL",
        ),
        (
            vec![field("a", FieldKind::Int), field("a", FieldKind::Float)],
            "fields 0 and 1 are both named \"a\"",
        ),
        (
            vec![field("a", nd(&[]))],
            "field \"a\" has no dimensions: give a single element the shape [1]",
        ),
        (
            vec![field("a", nd(&[2, 0]))],
            "field \"a\": shape [2, 0], expected at most 32 dimensions, the last not 0",
        ),
        (
            vec![field("a", FieldKind::Custom { row_size: 0, align: 1 })],
            "field \"a\": a user-defined row of 0 bytes",
        ),
        (
            vec![field("a", FieldKind::Custom { row_size: 2, align: 3 })],
            "field \"a\": a user-defined row of 2 bytes aligned to 3, expected at least 1 byte and a power of two",
        ),
    ] {
        assert_eq!(error_of(&[], &fields, &options()), message);
    }
}

#[test]
fn values_that_are_not_their_fields_are_refused_even_if_damage_is_skipped() {
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..options() };
    let nd = FieldKind::NdArray { dtype: dtype("<f4"), shape: vec![2] };
    let array = |name, len| FieldValue::NdArray { dtype: dtype(name), bytes: vec![0; len] };
    for (kind, row, message) in [
        (FieldKind::Int, vec![], "sample 0: 0 values for 1 fields"),
        (
            FieldKind::Int,
            vec![FieldValue::Float(1.0)],
            "sample 0: field \"a\" is int, the value is float",
        ),
        (
            nd.clone(),
            vec![array("<f8", 8)],
            "sample 0: field \"a\" is of dtype <f4, the value is of <f8",
        ),
        (nd, vec![array("<f4", 9)], "sample 0: field \"a\" takes 8 bytes, the value has 9"),
        (
            FieldKind::Custom { row_size: 3, align: 1 },
            vec![FieldValue::Custom(vec![0; 2])],
            "sample 0: field \"a\" takes 3 bytes, the value has 2",
        ),
    ] {
        assert_eq!(error_of(&[row], &[field("a", kind)], &skip), message);
    }
}

#[test]
fn json_too_deep_for_pythons_parser_is_refused() {
    let fields = [field("a", FieldKind::Json)];
    let nested = |depth| (1..depth).fold(json!([]), |inner, _| json!([inner]));
    let message = error_of(&[vec![FieldValue::Json(nested(901))]], &fields, &options());
    assert_eq!(message, "sample 0: field \"a\": JSON nested deeper than 900");
    write_rows(&[vec![FieldValue::Json(nested(900))]], &fields, &options());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let fields = [field("x", FieldKind::RgbImage), field("y", FieldKind::Int)];
    let image = |image| WriteOptions { image, ..options() };
    let base = ImageOptions::default;
    let probability = WriteMode::Proportion { compress_probability: f64::NAN };
    for (options, message) in [
        (
            WriteOptions { page_size: Some(5000), ..options() },
            "page size 5000, expected a power of two from 4096 to 2147483648",
        ),
        (
            WriteOptions { page_size: Some(0), ..options() },
            "page size 0, expected a power of two from 4096 to 2147483648",
        ),
        (
            image(ImageOptions { jpeg_quality: Some(0), ..base() }),
            "images of field \"x\": jpeg_quality 0, expected 1 to 100",
        ),
        (
            image(ImageOptions { max_resolution: Some(0), ..base() }),
            "images of field \"x\": max_resolution 0, expected at least 1",
        ),
        (
            image(ImageOptions { write_mode: probability, ..base() }),
            "images of field \"x\": compress_probability NaN, expected 0 to 1",
        ),
        (
            WriteOptions { images: [("y".to_owned(), base())].into(), ..options() },
            "image options are given for \"y\", which is not an image field",
        ),
    ] {
        assert_eq!(error_of(&[], &fields, &options), message);
    }
}
