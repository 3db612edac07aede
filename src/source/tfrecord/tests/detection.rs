//! Objects in the features of TensorFlow's detection datasets.

use super::*;
use crate::source::FieldKind;
use Numbers::{Bytes as B, Floats as F, Ints as I};

const XMIN: &str = "image/object/bbox/xmin";
const XMAX: &str = "image/object/bbox/xmax";
const YMIN: &str = "image/object/bbox/ymin";
const YMAX: &str = "image/object/bbox/ymax";

/// Returns a PNG of this colour type.
fn png(color: png::ColorType, depth: png::BitDepth, size: (u32, u32), data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        encoder.set_palette([0, 0, 0, 9, 0, 0].as_slice());
    }
    encoder.write_header().unwrap().write_image_data(data).unwrap();
    bytes
}

fn gray(size: (u32, u32), data: &[u8]) -> Vec<u8> {
    png(png::ColorType::Grayscale, png::BitDepth::Eight, size, data)
}

/// Returns the features of an image of 4 x 2 pixels with two objects.
fn two() -> Vec<(&'static str, Numbers)> {
    let mask = gray((4, 2), &[0, 1, 1, 0, 0, 0, 255, 0]);
    vec![
        ("image/encoded", B(vec![gray((4, 2), &[7; 8])])),
        ("image/width", I(vec![4])),
        ("image/height", I(vec![2])),
        ("image/source_id", B(vec![b"77".to_vec()])),
        (XMIN, F(vec![0.25, 0.0])),
        (YMIN, F(vec![0.5, 0.0])),
        (XMAX, F(vec![0.75, 1.0])),
        (YMAX, F(vec![1.0, 1.0])),
        ("image/object/class/label", I(vec![3, 90])),
        ("image/object/class/text", B(vec![b"cat".to_vec(), b"dog".to_vec()])),
        ("image/object/is_crowd", I(vec![0, 1])),
        ("image/object/area", F(vec![2.5, 8.0])),
        ("image/object/weight", F(vec![0.5, 1.5])),
        ("image/object/mask", B(vec![mask, gray((4, 2), &[0; 8])])),
    ]
}

/// Returns the same features with some others.
fn with(changes: &[(&'static str, Option<Numbers>)]) -> Vec<(&'static str, Numbers)> {
    let mut features = two();
    for (name, value) in changes {
        features.retain(|(other, _)| other != name);
        features.extend(value.clone().map(|value| (*name, value)));
    }
    features
}

fn file(records: &[Vec<(&'static str, Numbers)>]) -> Vec<u8> {
    let one = |features: &Vec<(&'static str, Numbers)>| {
        let features: Vec<_> = features.iter().map(|(name, value)| (*name, value)).collect();
        framed(&example(&features))
    };
    records.iter().flat_map(one).collect()
}

fn open(records: &[Vec<(&'static str, Numbers)>]) -> TfRecords {
    let options = TfOptions::default().limits(Limits::SMALL);
    TfRecords::from_bytes(&file(records), &options).unwrap()
}

fn value(source: &TfRecords, sample: u64, name: &str) -> OwnedValue {
    let field = source.facts().fields.iter().position(|field| field.name == name).unwrap();
    source.read(SampleId(sample)).unwrap().swap_remove(field)
}

fn floats(values: &[f32]) -> OwnedValue {
    OwnedValue::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn ints(values: &[i64]) -> OwnedValue {
    OwnedValue::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn json(text: &str) -> OwnedValue {
    OwnedValue::Json(format!("{text}\0").into_bytes())
}

#[test]
fn objects_are_fields_of_rows() {
    let names: Vec<&str> = two().iter().map(|(name, _)| *name).collect();
    let none: Vec<_> = names[4..]
        .iter()
        .map(|name| match *name {
            "image/object/class/text" | "image/object/mask" => (*name, Some(B(vec![]))),
            "image/object/class/label" => (*name, Some(I(vec![]))),
            "image/object/is_crowd" => (*name, None),
            _ => (*name, Some(F(vec![]))),
        })
        .collect();
    let source = open(&[two(), with(&none)]);
    let fields: Vec<&str> = source.facts().fields.iter().map(|field| &*field.name).collect();
    let expected = [
        "area",
        "bbox",
        "category_id",
        "image/encoded",
        "image/height",
        "image/object/weight",
        "image/source_id",
        "image/width",
        "iscrowd",
        "segmentation",
    ];
    assert_eq!(fields, expected);
    assert_eq!(value(&source, 0, "bbox"), floats(&[1.0, 1.0, 3.0, 2.0, 0.0, 0.0, 4.0, 2.0]));
    assert_eq!(value(&source, 0, "category_id"), ints(&[3, 90]));
    assert_eq!(value(&source, 0, "iscrowd"), ints(&[0, 1]));
    assert_eq!(value(&source, 0, "area"), floats(&[2.5, 8.0]));
    assert_eq!(value(&source, 0, "image/object/weight"), floats(&[0.5, 1.5]));
    let masks = r#"[{"size":[2,4],"counts":[2,1,1,2,2]},{"size":[2,4],"counts":[8]}]"#;
    assert_eq!(value(&source, 0, "segmentation"), json(masks));
    for name in ["bbox", "category_id", "iscrowd", "area", "image/object/weight"] {
        assert_eq!(value(&source, 1, name), OwnedValue::Bytes(vec![]), "{name}");
    }
    assert_eq!(value(&source, 1, "segmentation"), json("[]"));
    let objects = source.facts().object_fields().unwrap().unwrap();
    let said: Vec<String> =
        objects.iter().map(|(name, field)| format!("{name}: {field}")).collect();
    assert_eq!(said[0], "bbox: boxes, xyxy, in pixels");
    assert_eq!(said.len(), 5);
    // Declared features are read as they are stored.
    let options = TfOptions::default().feature(XMIN, Feature::RaggedFloats);
    let raw = TfRecords::from_bytes(&file(&[two()]), &options).unwrap();
    assert_eq!(value(&raw, 0, XMIN), floats(&[0.25, 0.0]));
    assert!(raw.facts().object_fields().unwrap().is_none());
}

#[test]
fn a_size_that_is_missing_is_that_of_the_image() {
    let source = open(&[with(&[("image/width", None)])]);
    assert_eq!(value(&source, 0, "bbox"), floats(&[1.0, 1.0, 3.0, 2.0, 0.0, 0.0, 4.0, 2.0]));
    let mut jpeg = vec![];
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
    encoder.encode(&[9; 16 * 8 * 3], 16, 8, jpeg_encoder::ColorType::Rgb).unwrap();
    let image = ("image/encoded", Some(B(vec![jpeg.clone()])));
    let masks = ("image/object/mask", None);
    let bare = [("image/width", None), ("image/height", None), masks];
    let source = open(&[with(&[&[image], &bare[..]].concat())]);
    assert_eq!(value(&source, 0, "bbox"), floats(&[4.0, 4.0, 12.0, 8.0, 0.0, 0.0, 16.0, 8.0]));
    let broken = B(vec![[&jpeg[..40], &[0; 40]].concat()]);
    for (image, reason) in [(Some(broken), "can't be read"), (None, "it has no image")] {
        let record = with(&[&[("image/encoded", image)], &bare[..]].concat());
        let error = error(&record);
        assert!(error.contains("no image/width") && error.contains(reason), "{error}");
    }
}

/// Returns the error of a second record.
fn error(record: &[(&'static str, Numbers)]) -> String {
    let mut first = two();
    // The fields are those of the first record.
    first.retain(|(name, _)| {
        record.iter().any(|(other, _)| other == name) || name.starts_with("image/object")
    });
    let source = open(&[first, record.to_vec()]);
    let error = source.read(SampleId(1)).unwrap_err().to_string();
    assert!(error.starts_with("held in memory: record 1 at byte "), "{error}");
    error
}

#[test]
fn lists_that_do_not_fit_are_damage_of_their_record() {
    let rgb = |size: (u32, u32)| {
        png(
            png::ColorType::Rgb,
            png::BitDepth::Eight,
            size,
            &vec![1; (size.0 * size.1 * 3) as usize],
        )
    };
    let whole = gray((4, 2), &[1; 8]);
    let masks = |masks: [&[u8]; 2]| Some(B(masks.map(<[u8]>::to_vec).to_vec()));
    for (name, list, expected) in [
        (YMAX, Some(F(vec![1.0])), "feature image/object/bbox/ymax has 1 values, expected 2"),
        (YMAX, None, "feature image/object/bbox/ymax has 0 values, expected 2"),
        (XMIN, None, "feature image/object/bbox/xmin has 0 values, expected 2"),
        (YMAX, Some(I(vec![1, 1, 1])), "feature image/object/bbox/ymax is ints, expected floats"),
        ("image/object/class/label", Some(I(vec![1])), "class/label has 1 values, expected 2"),
        ("image/object/is_crowd", None, "is_crowd has 0 values, expected 2"),
        ("image/object/area", Some(F(vec![1.0; 3])), "area has 3 values, expected 2"),
        (XMAX, Some(F(vec![0.5, 1.02])), "object 1 has the coordinate 1.02, expected 0 to 1"),
        (XMAX, Some(F(vec![f32::NAN, 1.0])), "object 0 has the coordinate NaN"),
        (YMIN, Some(F(vec![-0.5, 0.0])), "object 0 has the coordinate -0.5"),
        ("image/width", Some(I(vec![0])), "feature image/width is 0"),
        ("image/width", Some(I(vec![-4])), "feature image/width is -4"),
        ("image/width", Some(I(vec![1 << 40])), "feature image/width is 1099511627776"),
        (
            "image/width",
            Some(I(vec![8])),
            "image/width is 8 and image/height is 2, but the image has width 4 and height 2",
        ),
        ("image/object/mask", masks([&whole, &whole[..40]]), "mask: object 1: a damaged PNG"),
        ("image/object/mask", masks([b"", &whole]), "mask: object 0: a damaged PNG"),
        ("image/object/mask", Some(B(vec![whole.clone()])), "mask has 1 values, expected 2"),
        ("image/object/mask", masks([&whole, &rgb((2, 4))]), "both must have one size"),
        (
            XMIN,
            Some(F(vec![0.0; 1_000_000])),
            "1000000 values, one for each object, and the limit is 10000",
        ),
    ] {
        let error = error(&with(&[(name, list)]));
        assert!(error.contains(expected), "{error}: {expected}");
    }
    // A mask of more pixels than the limit is not decoded.
    let wide = [
        ("image/encoded", None),
        ("image/width", Some(I(vec![1 << 20]))),
        ("image/height", Some(I(vec![1 << 20]))),
    ];
    let error = error(&with(&wide));
    assert!(error.contains("1099511627776 pixels, the limit is 1048576"), "{error}");
}

#[test]
fn a_box_may_lie_outside_by_a_rounding() {
    let source = open(&[with(&[(XMAX, Some(F(vec![0.75, 1.000_000_1])))])]);
    assert!(source.read(SampleId(0)).is_ok());
}

#[test]
fn masks_of_all_kinds_of_png_are_read() {
    use png::{BitDepth, ColorType};
    let expected = r#"{"size":[2,4],"counts":[2,1,1,2,2]}"#;
    let inside = [0, 1, 1, 0, 0, 0, 1, 0];
    let of = |each: &dyn Fn(u8) -> Vec<u8>| {
        inside.iter().flat_map(|&bit| each(bit)).collect::<Vec<u8>>()
    };
    for (name, file) in [
        ("one bit", png(ColorType::Grayscale, BitDepth::One, (4, 2), &[0b0110_0000, 0b0010_0000])),
        ("16 bits", png(ColorType::Grayscale, BitDepth::Sixteen, (4, 2), &of(&|bit| vec![bit, 0]))),
        (
            "1 of 16 bits",
            png(ColorType::Grayscale, BitDepth::Sixteen, (4, 2), &of(&|bit| vec![0, bit])),
        ),
        (
            "alpha",
            png(ColorType::GrayscaleAlpha, BitDepth::Eight, (4, 2), &of(&|bit| vec![bit, 9])),
        ),
        ("palette", png(ColorType::Indexed, BitDepth::Eight, (4, 2), &inside)),
        ("colour", png(ColorType::Rgb, BitDepth::Eight, (4, 2), &of(&|bit| vec![0, 0, bit]))),
        ("rgba", png(ColorType::Rgba, BitDepth::Eight, (4, 2), &of(&|bit| vec![0, bit, 0, 9]))),
    ] {
        let masks = B(vec![file.clone(), file]);
        let source = open(&[with(&[("image/object/mask", Some(masks))])]);
        let found = value(&source, 0, "segmentation");
        assert_eq!(found, json(&format!("[{expected},{expected}]")), "{name}");
    }
}

#[test]
fn without_all_four_lists_nothing_is_recognized() {
    let source = open(&[with(&[(YMAX, None)])]);
    assert!(source.facts().object_fields().unwrap().is_none());
    let kind = |name: &str| {
        source
            .facts()
            .fields
            .iter()
            .find(|field| field.name == name)
            .map(|field| field.kind.clone())
    };
    assert!(matches!(kind(XMIN), Some(FieldKind::NdArray { .. })) && kind("bbox").is_none());
    // A feature that has the name of a field stays what it is.
    let own = B(vec![b"boxes".to_vec()]);
    let source = open(&[with(&[("bbox", Some(own))])]);
    assert_eq!(value(&source, 0, "bbox"), OwnedValue::Bytes(b"boxes".to_vec()));
}

/// Random bytes are read or refused; so are records whose lists are cut anywhere.
#[test]
fn damaged_lists_are_read_or_refused() {
    let whole = two();
    arbtest::arbtest(|u: &mut Unstructured<'_>| {
        let mut record = whole.clone();
        for _ in 0..u.int_in_range(1..=3)? {
            let index = u.choose_index(record.len())?;
            match &mut record[index].1 {
                B(files) => {
                    let file = u.choose_index(files.len().max(1))?;
                    if let Some(file) = files.get_mut(file) {
                        let at = u.choose_index(file.len().max(1))?;
                        if u.arbitrary()? {
                            file.truncate(at);
                        } else if let Some(byte) = file.get_mut(at) {
                            *byte ^= u.arbitrary::<u8>()?;
                        }
                    }
                }
                F(values) => values.push(u.arbitrary()?),
                I(values) => values.push(u.arbitrary()?),
            }
        }
        let options = TfOptions::default().limits(Limits::SMALL);
        let both = [whole.clone(), record.clone()];
        let source = TfRecords::from_bytes(&file(&both), &options).unwrap();
        let _ = source.read(SampleId(1));
        if let Ok(source) = TfRecords::from_bytes(&file(&[record]), &options) {
            let _ = source.read(SampleId(0));
        }
        Ok(())
    })
    .budget_ms(1000);
}
