//! Random datasets of random fields: every value is read back to the bit, and the file is the same for
//! any number of threads. A conversion through TFRecord and back gives the same file.
//! `FUSELOOP_DATASETS=1000` tries more datasets.

use super::*;
use arbitrary::Unstructured;
use fuseloop::source::{CustomRow, OpenOptions, Source, TfOptions, TfRecords};
use fuseloop::write::{SkippedSample, WriteOptions, convert};
use fuseloop_counts::numbers;
use std::time::Instant;

/// The number of random bytes that a dataset is generated from.
const CHANCE: u64 = 1 << 16;

/// A dataset: the options of a writer, and its input.
struct Dataset {
    fields: Vec<FieldSpec>,
    /// `None` for a sample whose source fails: it is left out.
    rows: Vec<Option<Row>>,
    /// True if the iterator announces its number of rows.
    is_announced: bool,
    options: WriteOptions,
}

/// A unique name of 1 to 16 ASCII characters, often of all 16.
fn arbitrary_name(u: &mut Unstructured<'_>, index: usize) -> arbitrary::Result<String> {
    let length = *u.choose(&[2, 3, 9, 15, 16])?;
    let mut name = format!("{index:02}");
    while name.len() < length {
        name.push(char::from(u.int_in_range(1..=127_u8)?));
    }
    Ok(name)
}

fn arbitrary_dtype(u: &mut Unstructured<'_>) -> arbitrary::Result<NdType> {
    u.choose(&[
        "|b1", "|u1", "|i1", "<f2", "<f4", ">f8", "<f16", ">i2", "<i8", "<u4", "<c8", ">c16",
    ])
    .map(|name| dtype(name))
}

fn arbitrary_shape(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u64>> {
    let shapes: [&[u64]; 6] = [&[1], &[7], &[0, 3], &[2, 3], &[1, 1, 1, 2], &[1; 32]];
    u.choose(&shapes).map(|shape| shape.to_vec())
}

fn arbitrary_kind(u: &mut Unstructured<'_>) -> arbitrary::Result<FieldKind> {
    Ok(match u.int_in_range(0..=7)? {
        0 => FieldKind::Float,
        1 => FieldKind::Int,
        2 => FieldKind::RgbImage,
        3 => FieldKind::Bytes,
        4 => FieldKind::NdArray { dtype: arbitrary_dtype(u)?, shape: arbitrary_shape(u)? },
        5 => FieldKind::Json,
        6 => FieldKind::TorchTensor { dtype: arbitrary_dtype(u)?, shape: arbitrary_shape(u)? },
        _ => FieldKind::Custom {
            row_size: u.int_in_range(1..=40)?,
            align: *u.choose(&[1, 2, 4, 8, 16, 64])?,
        },
    })
}

fn arbitrary_json(u: &mut Unstructured<'_>, depth: u32) -> arbitrary::Result<serde_json::Value> {
    Ok(match u.int_in_range(0..=if depth == 0 { 4 } else { 6 })? {
        0 => serde_json::Value::Null,
        1 => json!(u.arbitrary::<bool>()?),
        2 => json!(u.arbitrary::<i64>()?),
        // serde_json's parser does not read other floats to the last bit.
        3 => json!(f64::from(u.arbitrary::<i32>()?) / 8.0),
        4 => json!(u.arbitrary::<String>()?),
        5 => json!([arbitrary_json(u, depth - 1)?, arbitrary_json(u, depth - 1)?]),
        _ => json!({u.arbitrary::<String>()?: arbitrary_json(u, depth - 1)?, "": {}}),
    })
}

fn arbitrary_image(u: &mut Unstructured<'_>) -> arbitrary::Result<ImageInput> {
    let (width, height) = (u.int_in_range(1..=12)?, u.int_in_range(1..=12)?);
    Ok(match u.int_in_range(0..=2)? {
        0 => ImageInput::JpegBytes(jpeg(width, height, ColorType::Rgb)),
        1 => ImageInput::JpegBytes(jpeg(width, height, ColorType::Luma)),
        _ => rgb(width.into(), height.into(), u.arbitrary()?),
    })
}

fn arbitrary_value(u: &mut Unstructured<'_>, kind: &FieldKind) -> arbitrary::Result<FieldValue> {
    let filled = |u: &mut Unstructured<'_>, len| Ok(noise(len, u.arbitrary()?));
    let array = |u: &mut _| filled(u, kind.array_bytes().unwrap() as usize);
    Ok(match kind {
        // Floats of any bits, including NaNs with all their payloads.
        FieldKind::Float => FieldValue::Float(f64::from_bits(u.arbitrary()?)),
        FieldKind::Int => FieldValue::Int(u.arbitrary()?),
        FieldKind::RgbImage => FieldValue::Image(arbitrary_image(u)?),
        FieldKind::Bytes => {
            let len = *u.choose(&[0, 0, 1, 7, 100, 512, 513])?;
            FieldValue::Bytes(filled(u, len)?)
        }
        FieldKind::NdArray { dtype, .. } => FieldValue::NdArray { dtype: *dtype, bytes: array(u)? },
        FieldKind::TorchTensor { dtype, .. } => {
            FieldValue::TorchTensor { dtype: *dtype, bytes: array(u)? }
        }
        FieldKind::Json => FieldValue::Json(match u.int_in_range(0..=3)? {
            0 => json!(f64::from_bits(u.arbitrary()?)),
            _ => arbitrary_json(u, 3)?,
        }),
        FieldKind::Custom { row_size, .. } => FieldValue::Custom(filled(u, *row_size)?),
        other => panic!("{other:?}"),
    })
}

fn arbitrary_options(u: &mut Unstructured<'_>) -> arbitrary::Result<WriteOptions> {
    let modes = [
        WriteMode::Lossless,
        WriteMode::Jpg,
        WriteMode::Raw,
        WriteMode::Smart { smart_threshold: Some(200) },
        WriteMode::Proportion { compress_probability: 0.5 },
    ];
    let mode = *u.choose(&modes)?;
    let image = ImageOptions { write_mode: mode, seed: u.arbitrary()?, ..ImageOptions::default() };
    // A sample has at most six values of about 1100 bytes.
    let page_size = *u.choose(&[1 << 13, 1 << 14, 1 << 17])?;
    Ok(WriteOptions {
        page_size: Some(page_size),
        image,
        on_damaged: OnUnreadable::Skip,
        ..WriteOptions::default()
    })
}

impl Dataset {
    fn arbitrary(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let options = arbitrary_options(u)?;
        let fields = (0..u.int_in_range(1..=6)?)
            .map(|index| Ok(field(&arbitrary_name(u, index)?, arbitrary_kind(u)?)))
            .collect::<Result<Vec<_>, _>>()?;
        // Mostly small counts, and some that give several threads work.
        let count = *u.choose(&[0, 1, 2, 20, 64, 65, 300])?;
        let row = |u: &mut _| -> arbitrary::Result<Row> {
            fields.iter().map(|spec| arbitrary_value(u, &spec.kind)).collect()
        };
        // The first row is whole: a dataset of damaged rows alone is refused.
        let rows = (0..count)
            .map(|index| {
                let is_damaged = u.int_in_range(0..=19)? == 19 && index > 0;
                Ok(if is_damaged { None } else { Some(row(u)?) })
            })
            .collect::<Result<Vec<_>, arbitrary::Error>>()?;
        Ok(Self { fields, rows, is_announced: u.arbitrary()?, options })
    }

    /// Writes the dataset with this many threads.
    fn write(&self, threads: usize) -> (Vec<u8>, WriteReport) {
        let (_dir, path) = temp();
        let options = WriteOptions { threads: NonZeroUsize::new(threads), ..self.options.clone() };
        let rows = self.rows.iter().map(|row| row.clone().ok_or_else(|| "gone".into()));
        let report = if self.is_announced {
            try_write_iter(rows, &self.fields, &path, &options)
        } else {
            try_write_iter(rows.filter(|_| true), &self.fields, &path, &options)
        };
        (fs::read(path).unwrap(), report.unwrap())
    }

    fn open(&self, file: Vec<u8>) -> Beton {
        let custom_fields = self
            .fields
            .iter()
            .filter_map(|spec| match spec.kind {
                FieldKind::Custom { row_size, align } => {
                    Some((spec.name.clone(), CustomRow { row_size, align }))
                }
                _ => None,
            })
            .collect();
        let open = OpenOptions { custom_fields, ..OpenOptions::default() };
        Beton::from_bytes(file, &open).unwrap()
    }

    /// Asserts that the samples that are not left out are read back.
    fn assert_reads_back(&self, file: Vec<u8>) {
        let beton = self.open(file);
        assert_eq!(*beton.facts().fields, *self.fields);
        let kept: Vec<&Row> = self.rows.iter().flatten().collect();
        assert_eq!(beton.facts().samples, kept.len() as u64);
        for (id, row) in beton.samples().zip(kept) {
            for (k, value) in row.iter().enumerate() {
                assert_value(value, beton.owned(id, k).unwrap().borrowed());
            }
        }
    }

    /// Asserts that a conversion through TFRecord and back gives the same file: names, types, shapes,
    /// values, and their order.
    fn assert_comes_back_through_records(&self, file: Vec<u8>) {
        let is_custom = |spec: &FieldSpec| matches!(spec.kind, FieldKind::Custom { .. });
        let beton = self.open(file);
        if self.fields.iter().any(is_custom) || beton.facts().samples == 0 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let options = WriteOptions {
            page_size: self.options.page_size,
            threads: NonZeroUsize::new(2),
            ..WriteOptions::default()
        };
        let two = WriteOptions { shards: Some(2), ..options.clone() };
        convert(&beton, at("x-{0}.tfrecord"), &two).unwrap();
        let records =
            TfRecords::open(at("x-*.tfrecord").to_str().unwrap(), &TfOptions::default()).unwrap();
        assert_eq!(*records.facts().fields, *self.fields);
        convert(&records, at("again.beton"), &options).unwrap();
        // The comparison is not with the file itself, which has unused room where rows were left out.
        convert(&beton, at("same.beton"), &options).unwrap();
        let read = |name| fs::read(at(name)).unwrap();
        assert!(read("again.beton") == read("same.beton"), "{:?}", self.fields);
    }

    fn assert_left_out(&self, report: &WriteReport) {
        let gone = (0..).zip(&self.rows).filter(|(_, row)| row.is_none());
        let gone: Vec<u64> = gone.map(|(sample, _)| sample).collect();
        let listed = |s: &SkippedSample| (s.sample.0, s.cause.clone());
        let found: Vec<_> = report.skipped.first.iter().map(listed).collect();
        assert_eq!(report.skipped.count, gone.len() as u64);
        assert!(found.into_iter().eq(gone.into_iter().map(|s| (s, "gone".to_owned()))));
    }
}

/// Asserts that `read` equals `given` to the bit; for an image that was encoded or decoded, that its
/// size does.
fn assert_value(given: &FieldValue, read: Value<'_>) {
    match (given, read) {
        (FieldValue::Float(want), Value::Float(got)) => assert_eq!(want.to_bits(), got.to_bits()),
        (FieldValue::Int(want), Value::Int(got)) => assert_eq!(*want, got),
        (FieldValue::Json(want), Value::Json(got)) => {
            let (nul, text) = got.split_last().unwrap();
            assert_eq!(*nul, 0);
            match want.as_f64() {
                Some(want) if text.iter().any(|byte| b".e".contains(byte)) => {
                    let got: f64 = std::str::from_utf8(text).unwrap().parse().unwrap();
                    assert_eq!(want.to_bits(), got.to_bits());
                }
                _ => assert_eq!(serde_json::from_slice::<serde_json::Value>(text).unwrap(), *want),
            }
        }
        (FieldValue::Bytes(want), Value::Bytes(got))
        | (FieldValue::Custom(want), Value::Custom(got))
        | (
            FieldValue::NdArray { bytes: want, .. } | FieldValue::TorchTensor { bytes: want, .. },
            Value::NdArray(got),
        ) => assert_eq!(want, got),
        (FieldValue::Image(want), Value::Image(got)) => match (want, got.mode) {
            (ImageInput::JpegBytes(want), ImageMode::Jpeg) => assert_eq!(want, got.bytes),
            (ImageInput::Rgb { pixels, .. }, ImageMode::Raw) => assert_eq!(pixels, got.bytes),
            (ImageInput::Rgb { width, height, .. }, ImageMode::Jpeg) => {
                assert_eq!((*width, *height), (got.width, got.height));
            }
            (_, ImageMode::Raw) => {
                assert_eq!(got.bytes.len(), (got.width * got.height * 3) as usize);
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn random_datasets_come_back_through_records() {
    for number in numbers("FUSELOOP_RECORD_DATASETS") {
        let dataset = |u: &mut Unstructured<'_>| {
            let dataset = Dataset::arbitrary(u)?;
            dataset.assert_comes_back_through_records(dataset.write(2).0);
            Ok(())
        };
        arbtest::arbtest(dataset).seed((number + 1_000_001) << 32 | CHANCE);
    }
}

#[test]
fn random_datasets_read_back_and_are_the_same_for_1_2_and_7_threads() {
    let numbers = numbers("FUSELOOP_DATASETS");
    let (start, mut samples, mut bytes) = (Instant::now(), 0, 0);
    for number in &numbers {
        let dataset = |u: &mut Unstructured<'_>| {
            let dataset = Dataset::arbitrary(u)?;
            let (file, report) = dataset.write(1);
            for threads in [2, 7] {
                let (again, _) = dataset.write(threads);
                assert!(again == file, "{threads} threads");
            }
            (samples, bytes) = (samples + report.samples, bytes + report.bytes);
            dataset.assert_left_out(&report);
            dataset.assert_reads_back(file);
            Ok(())
        };
        // The low half of the seed is the size, the high half is the randomness.
        arbtest::arbtest(dataset).seed((number + 1) << 32 | CHANCE);
    }
    let took = start.elapsed();
    println!(
        "{} datasets, {samples} samples and {bytes} bytes read back, in {took:?}",
        numbers.len()
    );
}
