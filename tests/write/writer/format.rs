//! The format: FFCV's own files, every value read back, the same bytes for any number of threads.

use super::plain::Plain;
use super::*;
use fuseloop::source::OpenOptions;
use fuseloop::source::Source as _;

/// Files that FFCV wrote with one worker are read and written again.
#[test]
fn a_file_of_ffcv_written_anew_is_the_same_file() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/beton");
    for name in [
        "scalars",
        "scalars_edge",
        "nd_dtypes_p4k",
        "images_raw_resized_p16k",
        "images_smart_p16k",
        "all_fields_p16k",
    ] {
        let path = golden.join(name).with_extension("beton");
        let want = fs::read(&path).unwrap();
        let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
        let fields = beton.facts().fields.to_vec();
        let mut options = WriteOptions { page_size: Some(beton.header().page_size), ..options() };
        let rows: Vec<Row> = beton
            .samples()
            .map(|id| {
                (0..fields.len())
                    .map(|k| again(beton.owned(id, k).unwrap().borrowed(), &fields[k].kind))
                    .collect()
            })
            .collect();
        // The threshold is the size of the largest image that was stored raw.
        for (k, spec) in fields.iter().enumerate() {
            let raw = rows.iter().filter_map(|row| match &row[k] {
                FieldValue::Image(ImageInput::Rgb { pixels, .. }) => Some(pixels.len() as u64),
                _ => None,
            });
            if spec.kind == FieldKind::RgbImage {
                let mode = WriteMode::Smart { smart_threshold: Some(raw.max().unwrap_or(0)) };
                options.images.insert(
                    spec.name.clone(),
                    ImageOptions { write_mode: mode, ..ImageOptions::default() },
                );
            }
        }
        let (mut got, _) = write_rows(&rows, &fields, &options);
        let mut want = want;
        for id in beton.samples() {
            // Python keeps an object's keys in insertion order, Fuseloop sorts them.
            for (k, _) in fields.iter().enumerate().filter(|(_, f)| f.kind == FieldKind::Json) {
                let Ok(OwnedValue::Json(text)) = beton.owned(id, k) else { panic!("{id}") };
                let at = want.windows(text.len()).position(|window| window == text).unwrap();
                for file in [&mut got, &mut want] {
                    file[at..][..text.len()].sort_unstable();
                }
            }
        }
        let differs = got.iter().zip(&want).position(|(a, b)| a != b);
        assert!(
            got == want,
            "{name}: {} bytes of {}, first difference at {differs:?}",
            got.len(),
            want.len()
        );
    }
}

/// Converts a value that was read to one to be written.
fn again(value: Value<'_>, kind: &FieldKind) -> FieldValue {
    match (value, kind) {
        (Value::Float(value), _) => FieldValue::Float(value),
        (Value::Int(value), _) => FieldValue::Int(value),
        (Value::Bytes(bytes), _) => FieldValue::Bytes(bytes.to_vec()),
        (Value::Json(bytes), _) => {
            FieldValue::Json(serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap())
        }
        (Value::NdArray(bytes), FieldKind::TorchTensor { dtype, .. }) => {
            FieldValue::TorchTensor { dtype: *dtype, bytes: bytes.to_vec() }
        }
        (Value::NdArray(bytes), FieldKind::NdArray { dtype, .. }) => {
            FieldValue::NdArray { dtype: *dtype, bytes: bytes.to_vec() }
        }
        (Value::Image(image), _) => FieldValue::Image(match image.mode {
            ImageMode::Raw => ImageInput::Rgb {
                pixels: image.bytes.to_vec(),
                width: image.width,
                height: image.height,
            },
            _ => ImageInput::JpegBytes(image.bytes.to_vec()),
        }),
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn every_dataset_reads_back_as_it_was_written() {
    let fields = all_fields();
    let raw = ImageOptions {
        write_mode: WriteMode::Smart { smart_threshold: Some(200) },
        ..ImageOptions::default()
    };
    arbtest::arbtest(|u| {
        let count = u.int_in_range(0..=20)?;
        let rows = (0..count).map(|_| arbitrary_row(u)).collect::<Result<Vec<_>, _>>()?;
        let (_dir, path) = temp();
        write(
            &Fixed(rows.clone()),
            &fields,
            &path,
            &WriteOptions { image: raw.clone(), ..options() },
        )
        .unwrap();
        let plain = Plain::open(&path);
        plain.check();
        assert_eq!(plain.samples, count);
        let custom = [("mine".to_owned(), fuseloop::source::CustomRow { row_size: 3, align: 1 })];
        let open =
            fuseloop::source::OpenOptions { custom_fields: custom.into(), ..Default::default() };
        let beton = Beton::open(&path, &open).unwrap();
        assert_eq!(*beton.facts().fields, *fields);
        for (sample, row) in (0..).zip(&rows) {
            for (k, value) in row.iter().enumerate() {
                let bytes = plain.value(sample, k);
                assert_stored(value, &bytes, beton.owned(SampleId(sample), k).unwrap().borrowed());
            }
        }
        Ok(())
    })
    .budget_ms(1_500);
}

/// Asserts that `bytes`, from the independent reader, and `read`, from the library, are the stored form
/// of `given`.
fn assert_stored(given: &FieldValue, bytes: &[u8], read: Value<'_>) {
    match (given, read) {
        (FieldValue::Float(want), Value::Float(got)) => {
            assert_eq!((*want, &want.to_le_bytes()[..]), (got, bytes));
        }
        (FieldValue::Int(want), Value::Int(got)) => {
            assert_eq!((*want, &want.to_le_bytes()[..]), (got, bytes));
        }
        (FieldValue::Json(want), Value::Json(got)) => {
            assert_eq!(got, bytes);
            assert!(got.is_ascii());
            assert_eq!(
                serde_json::from_slice::<serde_json::Value>(&got[..got.len() - 1]).unwrap(),
                *want
            );
        }
        (FieldValue::Bytes(want), Value::Bytes(got))
        | (FieldValue::Custom(want), Value::Custom(got))
        | (
            FieldValue::NdArray { bytes: want, .. } | FieldValue::TorchTensor { bytes: want, .. },
            Value::NdArray(got),
        ) => {
            assert_eq!((&want[..], &want[..]), (got, bytes));
        }
        (FieldValue::Image(want), Value::Image(got)) => {
            assert_eq!(got.bytes, bytes);
            match (want, got.mode) {
                (ImageInput::JpegBytes(want), ImageMode::Jpeg) => assert_eq!(want, bytes),
                (ImageInput::Rgb { pixels, .. }, ImageMode::Raw) => assert_eq!(pixels, bytes),
                (ImageInput::JpegBytes(_), ImageMode::Raw) => {
                    assert!(got.width * got.height * 3 <= 200);
                }
                (_, ImageMode::Jpeg) => assert!(got.width * got.height * 3 > 200),
                other => panic!("{other:?}"),
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dataset_of_no_samples_is_a_file() {
    let (bytes, report) = write_rows(&[], &all_fields(), &options());
    assert_eq!(bytes.len(), 24 + 8 * 1041);
    assert_eq!((report.samples, report.pages, report.bytes), (0, 0, bytes.len() as u64));
    let fields = [field("x", FieldKind::RgbImage), field("y", FieldKind::Int)];
    let (bytes, _) = write_rows(&[], &fields, &options());
    assert_eq!(Beton::from_bytes(bytes, &OpenOptions::default()).unwrap().facts().samples, 0);
}

#[test]
fn a_file_does_not_depend_on_the_threads_or_on_how_samples_come() {
    let mut rows = Vec::new();
    let mut u = arbitrary::Unstructured::new(&[]);
    for seed in 0..700 {
        let mut row = arbitrary_row(&mut u).unwrap();
        row[0] = FieldValue::Image(rgb(1 + seed % 23, 1 + seed % 17, seed.into()));
        row[2] = FieldValue::Bytes(noise((seed * 37 % 1500) as usize, seed.into()));
        rows.push(row);
    }
    let image = ImageOptions {
        write_mode: WriteMode::Proportion { compress_probability: 0.5 },
        max_resolution: Some(16),
        seed: 7,
        ..ImageOptions::default()
    };
    let with = |threads| WriteOptions {
        threads: NonZeroUsize::new(threads),
        image: image.clone(),
        ..options()
    };
    let (want, report) = write_rows(&rows, &all_fields(), &with(1));
    assert!(report.pages > 50, "{report:?}");
    for threads in [2, 7] {
        let (got, _) = write_rows(&rows, &all_fields(), &with(threads));
        assert!(got == want, "{threads} threads");
    }
    let (_dir, path) = temp();
    write(&Fixed(rows.clone()), &all_fields(), &path, &with(3)).unwrap();
    assert!(fs::read(&path).unwrap() == want, "by index");
    // The iterator does not announce its length: the sample table outgrows the space first reserved for it.
    write_iter(rows.into_iter().filter(|_| true), &all_fields(), &path, &with(3)).unwrap();
    assert!(fs::read(&path).unwrap() == want, "one by one");
    Plain::open(&path).check();
}

#[test]
fn a_sample_as_large_as_a_page_fits_and_a_larger_one_is_refused() {
    let fields = [field("b", FieldKind::Bytes), field("c", FieldKind::Bytes)];
    let row = |a, b| vec![FieldValue::Bytes(vec![1; a]), FieldValue::Bytes(vec![2; b])];
    let (_, report) = write_rows(&[row(4000, 96), row(1, 1), row(4095, 0)], &fields, &options());
    assert_eq!(report.pages, 3);
    let message = error_of(&[row(1, 1), row(4000, 97)], &fields, &options());
    assert_eq!(
        message,
        "sample 1: it takes 4097 bytes, a page has 4096: a page size of 8192 would do"
    );

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big.jpg");
    fs::write(&path, jpeg(200, 100, ColorType::Rgb)).unwrap();
    let rows = [vec![FieldValue::Image(ImageInput::Path(path.clone()))]];
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..options() };
    let message = error_of(&rows, &[field("x", FieldKind::RgbImage)], &skip);
    assert!(message.starts_with(&format!("sample 0 ({path:?}): it takes ")), "{message}");
}

/// Small samples come first, large ones at the end, slow ones in between: waiting samples are bounded by
/// bytes, and the sample that all others wait for must never wait itself.
#[test]
fn samples_of_very_different_sizes_are_written_in_order() {
    let fields = [field("b", FieldKind::Bytes)];
    let options =
        WriteOptions { page_size: Some(1 << 24), threads: NonZeroUsize::new(7), ..options() };
    let size = |n: usize| if n < 1000 || n.is_multiple_of(3) { 10 } else { 3 << 20 };
    let rows = (0..1100).map(|n| vec![FieldValue::Bytes(vec![n as u8; size(n)])]);
    let (_dir, path) = temp();
    write_iter(rows, &fields, &path, &options).unwrap();
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    for id in beton.samples() {
        let Ok(OwnedValue::Bytes(bytes)) = beton.owned(id, 0) else { panic!("{id}") };
        let n = usize::try_from(id.0).unwrap();
        assert!(bytes.len() == size(n) && bytes.iter().all(|&byte| byte == n as u8), "{id}");
    }
}

#[test]
fn pages_grow_to_the_largest_sample_unless_their_size_is_given() {
    const MIB: usize = 1 << 20;
    let fields = [field("b", FieldKind::Bytes), field("i", FieldKind::Int)];
    let written = |sizes: &[usize], page_size, threads| {
        let rows = sizes.iter().map(|&size| {
            vec![FieldValue::Bytes(vec![size as u8 | 1; size]), FieldValue::Int(size as i64)]
        });
        let (dir, path) = temp();
        let threads = NonZeroUsize::new(threads);
        let options = WriteOptions { page_size, threads, ..WriteOptions::default() };
        let report = write_iter(rows, &fields, &path, &options).map_err(|error| error.to_string());
        (dir, path, report)
    };
    // The first samples lie before any large one, and the file has room for another number of rows.
    let sizes = [5 * MIB, 4 * MIB, 100, 9 * MIB, 3 * MIB, 17 * MIB + 1, 1, 8 * MIB];
    let (_dir, path, report) = written(&sizes, None, 1);
    let report = report.unwrap();
    let plain = Plain::open(&path);
    plain.check();
    for (sample, size) in (0..).zip(sizes) {
        assert!(plain.value(sample, 0) == vec![size as u8 | 1; size], "{sample}");
    }
    let page = Beton::open(&path, &OpenOptions::default()).unwrap().header().page_size;
    assert_eq!((page, report.bytes), (32 << 20, fs::metadata(&path).unwrap().len()));
    assert_eq!(report.pages * u64::from(page) + u64::from(page) + 8 * 24, report.bytes);
    let (_dir, other, _) = written(&sizes, None, 4);
    assert!(fs::read(&path).unwrap() == fs::read(other).unwrap(), "for any number of threads");

    // Where 8 MiB are enough, the file is that of this page size.
    let small = [8 * MIB, 1, 7 * MIB];
    let (_dir, path, _) = written(&small, None, 2);
    let (_given_dir, given, _) = written(&small, Some(8 << 20), 2);
    assert!(fs::read(path).unwrap() == fs::read(given).unwrap());

    // A size that is given is a limit.
    let (_dir, _, refused) = written(&sizes, Some(8 << 20), 2);
    let expected = "takes 9437184 bytes, a page has 8388608: a page size of 16777216 would do";
    assert!(refused.unwrap_err().contains(expected));
}
