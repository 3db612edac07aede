//! The writer's promises: FFCV's format to the byte, the same file for any number of threads, every
//! value read back, and a clear error for values that can't be written.
//!
//! The helpers that the tests share are here; `plain.rs` reads files by the specification alone.

mod damage;
mod datasets;
mod folders;
mod format;
mod images;
mod lossless;
mod plain;
mod planes;
mod recut;
mod refused;

use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::OpenOptions;
use fuseloop::source::{Beton, FieldKind, FieldSpec, ImageMode, NdType, OwnedValue, Value};
use fuseloop::write::{
    FieldValue, ImageInput, ImageOptions, OnUnreadable, ProgressFn, Samples, WriteMode,
    WriteOptions, WriteReport, try_write_iter, write, write_iter,
};
use jpeg_encoder::{ColorType, Encoder};
use serde_json::json;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

type Row = Vec<FieldValue>;

const PAGE: u32 = 4096;

fn field(name: &str, kind: FieldKind) -> FieldSpec {
    FieldSpec { name: name.to_owned(), kind }
}

fn options() -> WriteOptions {
    let threads = NonZeroUsize::new(2);
    WriteOptions { page_size: Some(PAGE), threads, overwrite: true, ..WriteOptions::default() }
}

fn with_images(image: ImageOptions) -> WriteOptions {
    WriteOptions { image, page_size: Some(1 << 20), ..options() }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(byte).take(len).collect()
}

fn jpeg(width: u16, height: u16, color: ColorType) -> Vec<u8> {
    let pixels = noise(usize::from(width) * usize::from(height) * 4, u64::from(width));
    let mut out = Vec::new();
    Encoder::new(&mut out, 80).encode(&pixels, width, height, color).unwrap();
    out
}

fn rgb(width: u32, height: u32, seed: u64) -> ImageInput {
    ImageInput::Rgb { pixels: noise((width * height * 3) as usize, seed), width, height }
}

fn dtype(name: &str) -> NdType {
    name.parse().unwrap()
}

/// A field of every kind.
fn all_fields() -> Vec<FieldSpec> {
    vec![
        field("image", FieldKind::RgbImage),
        field("label", FieldKind::Int),
        field("sixteen_letters_", FieldKind::Bytes),
        field("weight", FieldKind::Float),
        field("nd", FieldKind::NdArray { dtype: dtype("<f4"), shape: vec![2, 3] }),
        field("meta", FieldKind::Json),
        field("tensor", FieldKind::TorchTensor { dtype: dtype(">i2"), shape: vec![5] }),
        field("mine", FieldKind::Custom { row_size: 3, align: 1 }),
    ]
}

fn arbitrary_row(u: &mut arbitrary::Unstructured<'_>) -> arbitrary::Result<Row> {
    let (width, height) = (u.int_in_range(1..=12)?, u.int_in_range(1..=12)?);
    let image = match u.int_in_range(0..=2)? {
        0 => ImageInput::JpegBytes(jpeg(width, height, ColorType::Rgb)),
        1 => ImageInput::JpegBytes(jpeg(width, height, ColorType::Luma)),
        _ => rgb(width.into(), height.into(), 1),
    };
    let len = u.choose(&[0usize, 0, 1, 7, 300, 2000])?;
    Ok(vec![
        FieldValue::Image(image),
        FieldValue::Int(u.arbitrary()?),
        FieldValue::Bytes(noise(*len, 3)),
        FieldValue::Float(u.arbitrary::<i32>()?.into()),
        FieldValue::NdArray { dtype: dtype("<f4"), bytes: noise(24, 4) },
        FieldValue::Json(json!({"n": u.arbitrary::<i64>()?, "t": u.arbitrary::<String>()?})),
        FieldValue::TorchTensor { dtype: dtype(">i2"), bytes: noise(10, 5) },
        FieldValue::Custom(u.arbitrary::<[u8; 3]>()?.to_vec()),
    ])
}

struct Fixed(Vec<Row>);

impl Samples for Fixed {
    fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn sample(&self, id: SampleId) -> Result<Row, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.0[usize::try_from(id.0)?].clone())
    }
}

fn temp() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.beton");
    (dir, path)
}

fn write_rows(
    rows: &[Row],
    fields: &[FieldSpec],
    options: &WriteOptions,
) -> (Vec<u8>, WriteReport) {
    let (_dir, path) = temp();
    let report = write_iter(rows.to_vec(), fields, &path, options).unwrap();
    (fs::read(path).unwrap(), report)
}

/// Writes one image and returns the stored mode, width, height and bytes.
fn stored(input: ImageInput, image: ImageOptions) -> (ImageMode, u32, u32, Vec<u8>) {
    let rows = [vec![FieldValue::Image(input)]];
    let (bytes, _) = write_rows(&rows, &[field("x", FieldKind::RgbImage)], &with_images(image));
    let beton = Beton::from_bytes(bytes, &OpenOptions::default()).unwrap();
    match beton.owned(SampleId(0), 0).unwrap() {
        OwnedValue::Image(image) => (image.mode, image.width, image.height, image.bytes),
        other => panic!("{other:?}"),
    }
}

fn error_of(rows: &[Row], fields: &[FieldSpec], options: &WriteOptions) -> String {
    let (dir, path) = temp();
    fs::write(&path, "old").unwrap();
    let error = write_iter(rows.to_vec(), fields, &path, options).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
    error.to_string()
}

fn shared() -> Option<PathBuf> {
    let given = std::env::var_os("FUSELOOP_SHARED").map(PathBuf::from);
    let dir = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let found = dir.join("data/imagenet").is_dir();
    if !found {
        println!("skipped: no shared data");
    }
    found.then_some(dir)
}
