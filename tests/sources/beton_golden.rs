//! Files written by FFCV are read back to the values they hold, value by value.

use fuseloop::internals::source::beton::{FieldStats, RowLayout};
use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::Source as _;
use fuseloop::source::{
    Beton, Buffer, CustomRow, EncodedImage, FieldKind, ImageMode, OpenOptions, Value,
};
use fuseloop_ops::Size;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

const FILES: [&str; 11] = [
    "all_fields_2MiB",
    "all_fields_p16k",
    "bytes_empty_p4k",
    "bytes_multipage_p4k",
    "custom_field_p4k",
    "images_proportion_p16k",
    "images_raw_resized_p16k",
    "images_smart_p16k",
    "nd_dtypes_p4k",
    "scalars",
    "scalars_edge",
];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/beton").join(name)
}

/// A golden file and its expected values. An uncompressed file is memory-mapped.
fn open(name: &str) -> (Beton, Json) {
    let row = CustomRow { row_size: 8, align: 8 };
    let custom_fields = BTreeMap::from([("a_name_longer_th".to_owned(), row)]);
    let options = OpenOptions { limits: Limits::DEFAULT, custom_fields };
    let path = golden(&format!("{name}.beton"));
    let beton = if path.exists() {
        Beton::open(path, &options).unwrap()
    } else {
        let packed = fs::read(golden(&format!("{name}.beton.gz"))).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        Beton::from_bytes(bytes, &options).unwrap()
    };
    let text = fs::read_to_string(golden(&format!("{name}.json"))).unwrap();
    (beton, serde_json::from_str(&text).unwrap())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn headers_fields_and_layouts_are_as_written() {
    for name in FILES {
        let (beton, want) = open(name);
        let header = beton.header();
        assert_eq!(header.page_size, want["page_size"], "{name}");
        assert_eq!(beton.facts().samples, want["num_samples"], "{name}");
        assert_eq!(header.alloc_table_ptr, want["alloc_table_ptr"], "{name}");
        assert_eq!(beton.file_bytes(), want["file_size"], "{name}");
        assert_eq!(header.sample_table_start(), want["metadata_start"], "{name}");
        assert_eq!(beton.row_bytes(), want["row_size"], "{name}");
        assert_eq!(header.data_start(beton.row_bytes()).unwrap(), want["data_start"], "{name}");

        let layout = RowLayout::new(beton.facts().fields.iter().map(|field| &field.kind)).unwrap();
        assert_eq!(beton.facts().fields.len(), want["fields"].as_array().unwrap().len(), "{name}");
        for (index, (field, want)) in
            beton.facts().fields.iter().zip(want["fields"].as_array().unwrap()).enumerate()
        {
            assert_eq!(field.name, want["name"], "{name}");
            assert_eq!(field.kind.type_id(), want["type_id"], "{name} {}", field.name);
            assert_eq!(layout.offset(index).unwrap(), want["row_offset"], "{name} {}", field.name);
            if let FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } =
                &field.kind
            {
                assert_eq!(dtype.to_string(), want["dtype_descr"][0][1], "{name} {}", field.name);
                assert_eq!(Json::from(shape.clone()), want["shape"], "{name} {}", field.name);
            }
        }
    }
}

#[test]
fn allocation_tables_are_as_written() {
    for name in FILES {
        let (beton, want) = open(name);
        let found: Vec<Json> = beton
            .allocations()
            .unwrap()
            .iter()
            .map(|a| Json::from(vec![a.sample, a.ptr, a.size]))
            .collect();
        assert_eq!(Json::from(found), want["alloc_table"], "{name}");
    }
}

#[test]
fn every_value_is_as_written() {
    let mut compared = 0;
    for name in FILES {
        let (beton, want) = open(name);
        for (id, want) in beton.samples().zip(want["samples"].as_array().unwrap()) {
            for (index, field) in beton.facts().fields.iter().enumerate() {
                let value = beton.owned(id, index).unwrap();
                assert_value(
                    &beton,
                    value.borrowed(),
                    &want[&field.name],
                    &format!("{name} {id} {}", field.name),
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 204, "values compared");
}

fn assert_value(beton: &Beton, value: Value<'_>, want: &Json, what: &str) {
    match value {
        Value::Int(value) => assert_eq!(value, *want, "{what}"),
        Value::Float(value) => {
            let want: f64 = want["repr"].as_str().unwrap().parse().unwrap();
            assert!(value.to_bits() == want.to_bits() || value.is_nan() && want.is_nan(), "{what}");
        }
        Value::Image(image) => assert_image(image, want, what),
        Value::Bytes(bytes) | Value::Json(bytes) => {
            assert_eq!(bytes.len(), want["size"], "{what}");
            assert_eq!(hex(&Sha256::digest(bytes)), want["sha256"], "{what}");
            // For long values only the digest is stored.
            assert!(want["hex"].is_null() || hex(bytes) == want["hex"], "{what}");
        }
        Value::NdArray(bytes) => assert_eq!(hex(bytes), want["hex"], "{what}"),
        Value::Custom(row) => {
            let ptr = u64::from_le_bytes(row.try_into().unwrap());
            assert_eq!(ptr, want["ptr"], "{what}");
            assert_eq!(
                hex(beton.bytes_at(ptr, &mut Buffer::default()).unwrap()),
                want["hex"],
                "{what}"
            );
        }
        other => panic!("{what}: {other:?}"),
    }
}

fn assert_image(image: EncodedImage<'_>, want: &Json, what: &str) {
    assert_eq!(image.mode == ImageMode::Raw, want["mode"] == 1, "{what}");
    assert_eq!(image.width, want["width"], "{what}");
    assert_eq!(image.height, want["height"], "{what}");
    assert_eq!(image.bytes.len(), want["stored_size"], "{what}");
    assert_eq!(hex(&Sha256::digest(image.bytes)), want["stored_sha256"], "{what}");
    match image.mode {
        ImageMode::Raw => {
            assert_eq!(hex(&Sha256::digest(image.bytes)), want["pixels_sha256"], "{what}");
            let pixels: Vec<Json> = image.bytes.chunks(3).take(4).map(Json::from).collect();
            assert_eq!(Json::from(pixels), want["first_row_first_4px"], "{what}");
        }
        ImageMode::Jpeg => assert_eq!(image.bytes[..2], [0xff, 0xd8], "{what}"),
        mode => panic!("{what}: a .beton of FFCV has no {mode:?}"),
    }
}

#[test]
fn sizes_of_pictures_are_known_from_the_table_alone() {
    for name in ["images_proportion_p16k", "images_raw_resized_p16k", "images_smart_p16k"] {
        let (beton, want) = open(name);
        let field = beton.facts().fields.iter().position(|field| field.name == "image").unwrap();
        let mut sizes = Vec::new();
        for (id, want) in beton.samples().zip(want["samples"].as_array().unwrap()) {
            let size = beton.image_size(id, field).unwrap();
            assert_eq!(size.height, want["image"]["height"], "{name} {id}");
            assert_eq!(size.width, want["image"]["width"], "{name} {id}");
            sizes.push(size);
        }
        let stats = beton.facts().image_stats(field).unwrap();
        assert_eq!(stats.jpeg + stats.raw, beton.facts().samples, "{name}");
        let most = |side: fn(&Size) -> u32| sizes.iter().map(side).max().unwrap();
        let fewest = |side: fn(&Size) -> u32| sizes.iter().map(side).min().unwrap();
        assert_eq!(stats.max, Some(Size::new(most(|s| s.height), most(|s| s.width))), "{name}");
        assert_eq!(stats.min, Some(Size::new(fewest(|s| s.height), fewest(|s| s.width))), "{name}");
        assert_eq!(stats.max_pixels, sizes.iter().map(|s| s.pixels()).max().unwrap(), "{name}");
        let uniform = sizes.iter().all(|&size| size == sizes[0]).then_some(sizes[0]);
        assert_eq!(stats.uniform(), uniform, "{name}");
    }
}

#[test]
fn what_is_no_picture_has_no_size() {
    let (beton, _) = open("images_smart_p16k");
    let label = beton.facts().fields.iter().position(|field| field.name == "label").unwrap();
    assert_eq!(beton.facts().image_stats(label), None);
    let error = beton.image_size(SampleId(0), label).unwrap_err();
    let message = "images_smart_p16k.beton: sample 0 (label): the field is int, not an image";
    assert!(error.to_string().ends_with(message), "{error}");
}

#[test]
fn a_field_is_summed_up() {
    let (beton, _) = open("scalars");
    let int = FieldStats::Int { min: Some(-7), max: Some(4_000_005) };
    assert_eq!(beton.field_stats(0), Some(int));
    assert_eq!(beton.field_stats(2), None);
    let (beton, _) = open("scalars_edge");
    let float = FieldStats::Float { min: Some(f64::NEG_INFINITY), max: Some(-0.0) };
    assert_eq!(beton.field_stats(1), Some(float));
    let (beton, _) = open("bytes_empty_p4k");
    assert_eq!(beton.field_stats(0), Some(FieldStats::Bytes { min: Some(0), max: Some(5) }));
    let (beton, _) = open("nd_dtypes_p4k");
    assert_eq!(beton.field_stats(0), Some(FieldStats::Fixed));
}
