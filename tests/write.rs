//! What the writer promises: FFCV's format to the byte, the same file for any number of
//! threads, every value read back, and a clear error for what can't be written.

use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::{Beton, FieldKind, FieldSpec, ImageMode, NdType, Value};
use fuseloop::write::{
    Damaged, FieldValue, ImageInput, ImageOptions, SampleError, Samples, WriteError, WriteMode,
    WriteOptions, WriteReport, try_write_iter, write, write_folder, write_iter,
};
use fuseloop_ops::{ImageView, Size, area};
use jpeg_encoder::{ColorType, Encoder};
use serde_json::json;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Row = Vec<FieldValue>;

const PAGE: u32 = 4096;

// ---- a reader of our own, which shares no line with the writer ----

/// Rows and values of a file as the specification says, and checks of what FFCV relies on.
struct Plain {
    bytes: Vec<u8>,
    page_size: u64,
    samples: u64,
    /// (sample, pointer, size), in the order of the file.
    table: Vec<(u64, u64, u64)>,
    fields: Vec<(u8, String)>,
    rows_at: u64,
}

impl Plain {
    fn open(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(u16_at(0), 2);
        let num_fields = usize::from(u16_at(2));
        let page_size = u64::from(u32::from_le_bytes(bytes[4..8].try_into().unwrap()));
        let table_at = usize::try_from(u64_at(16)).unwrap();
        assert_eq!((bytes.len() - table_at) % 24, 0);
        let table = (table_at..bytes.len())
            .step_by(24)
            .map(|at| (u64_at(at), u64_at(at + 8), u64_at(at + 16)))
            .collect();
        let fields = (0..num_fields)
            .map(|field| {
                let at = 24 + 1041 * field;
                let name = bytes[at + 1..at + 17].split(|&b| b == 0).next().unwrap();
                (bytes[at], String::from_utf8(name.to_vec()).unwrap())
            })
            .collect();
        let (samples, rows_at) = (u64_at(8), 24 + 1041 * num_fields as u64);
        Self { page_size, samples, table, fields, rows_at, bytes }
    }

    /// Each field's offset in a row, and the row's size.
    fn layout(&self) -> (Vec<u64>, u64) {
        let (mut end, mut most) = (0u64, 1);
        let mut offsets = Vec::new();
        for (id, _) in &self.fields {
            let (size, align) = match id {
                2 => (13, 1),
                3 | 5 => (16, 1),
                255 => (3, 1),
                _ => (8, 8),
            };
            offsets.push(end.next_multiple_of(align));
            end = offsets[offsets.len() - 1] + size;
            most = most.max(align);
        }
        (offsets, end.next_multiple_of(most))
    }

    /// What FFCV's readers rely on, and what the format's page says.
    fn check(&self) {
        let (_, row) = self.layout();
        let rows_end = self.rows_at + self.samples * row;
        if self.table.is_empty() {
            assert_eq!(self.bytes.len() as u64, rows_end);
            return;
        }
        let start = rows_end.next_multiple_of(self.page_size);
        let pages_end = self.bytes.len() as u64 - 24 * self.table.len() as u64;
        assert_eq!((pages_end - start) % self.page_size, 0);
        assert_eq!(self.table[0].1, start, "the first value begins the first page");
        let mut used = vec![false; self.bytes.len()];
        let mut page_of = vec![None; usize::try_from(self.samples).unwrap()];
        for pair in self.table.windows(2) {
            assert!(pair[0].1 < pair[1].1, "sorted by pointer, each its own: {pair:?}");
        }
        for &(sample, ptr, size) in &self.table {
            let page = ptr / self.page_size;
            assert!(ptr + size <= pages_end && (ptr + size.max(1) - 1) / self.page_size == page);
            let known = page_of[usize::try_from(sample).unwrap()].get_or_insert(page);
            assert_eq!(*known, page, "a sample in two pages");
            used[ptr as usize..(ptr + size) as usize].fill(true);
        }
        let idle = (rows_end..pages_end).filter(|&at| !used[at as usize]);
        assert!(idle.into_iter().all(|at| self.bytes[at as usize] == 0), "garbage between values");
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes[at as usize..at as usize + 8].try_into().unwrap())
    }

    /// A field's bytes: of the pages if it has a pointer, of the row otherwise.
    fn value(&self, sample: u64, field: usize) -> Vec<u8> {
        let (offsets, row) = self.layout();
        let cell = self.rows_at + sample * row + offsets[field];
        let ptr = match self.fields[field].0 {
            0 | 1 => return self.bytes[cell as usize..][..8].to_vec(),
            255 => return self.bytes[cell as usize..][..3].to_vec(),
            2 => self.word(cell + 5),
            _ => self.word(cell),
        };
        let &(_, _, size) = self.table.iter().find(|&&(s, p, _)| (s, p) == (sample, ptr)).unwrap();
        if matches!(self.fields[field].0, 3 | 5) {
            assert_eq!(self.word(cell + 8), size);
        }
        self.bytes[ptr as usize..(ptr + size) as usize].to_vec()
    }
}

// ---- helpers ----

fn field(name: &str, kind: FieldKind) -> FieldSpec {
    FieldSpec { name: name.to_owned(), kind }
}

fn options() -> WriteOptions {
    WriteOptions { page_size: PAGE, threads: NonZeroUsize::new(2), ..WriteOptions::default() }
}

fn with_images(image: ImageOptions) -> WriteOptions {
    WriteOptions { image, page_size: 1 << 20, ..options() }
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

/// Writes one image and gives what is stored: mode, width, height, bytes.
fn stored(input: ImageInput, image: ImageOptions) -> (ImageMode, u32, u32, Vec<u8>) {
    let rows = [vec![FieldValue::Image(input)]];
    let (bytes, _) = write_rows(&rows, &[field("x", FieldKind::RgbImage)], &with_images(image));
    let beton = Beton::from_bytes(bytes, &Limits::DEFAULT).unwrap();
    match beton.value(SampleId(0), 0).unwrap() {
        Value::Image(image) => (image.mode, image.width, image.height, image.bytes.to_vec()),
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

// ---- the format ----

/// Files that FFCV wrote with one worker, read and written anew.
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
        let beton = Beton::open(&path, &Limits::DEFAULT).unwrap();
        let fields = beton.fields().to_vec();
        let mut options = WriteOptions { page_size: beton.header().page_size, ..options() };
        let rows: Vec<Row> = beton
            .samples()
            .map(|id| {
                (0..fields.len())
                    .map(|k| again(beton.value(id, k).unwrap(), &fields[k].kind))
                    .collect()
            })
            .collect();
        // The images that were stored raw are those up to the largest of them.
        for (k, spec) in fields.iter().enumerate() {
            let raw = rows.iter().filter_map(|row| match &row[k] {
                FieldValue::Image(ImageInput::Rgb { pixels, .. }) => Some(pixels.len() as u64),
                _ => None,
            });
            if spec.kind == FieldKind::RgbImage {
                let mode = WriteMode::Smart { threshold: Some(raw.max().unwrap_or(0)) };
                options
                    .images
                    .insert(spec.name.clone(), ImageOptions { mode, ..ImageOptions::default() });
            }
        }
        let (mut got, _) = write_rows(&rows, &fields, &options);
        let mut want = want;
        for id in beton.samples() {
            // Python keeps an object's keys in the order they were put in, we sort them.
            for (k, _) in fields.iter().enumerate().filter(|(_, f)| f.kind == FieldKind::Json) {
                let Ok(Value::Json(text)) = beton.value(id, k) else { panic!("{id}") };
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

/// A value that was read, to be written.
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
            ImageMode::Jpeg => ImageInput::JpegBytes(image.bytes.to_vec()),
            ImageMode::Raw => ImageInput::Rgb {
                pixels: image.bytes.to_vec(),
                width: image.width,
                height: image.height,
            },
        }),
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn every_dataset_reads_back_as_it_was_written() {
    let fields = all_fields();
    let raw =
        ImageOptions { mode: WriteMode::Smart { threshold: Some(200) }, ..ImageOptions::default() };
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
        let beton = Beton::open_with(&path, &open).unwrap();
        assert_eq!(beton.fields(), fields);
        for (sample, row) in (0..).zip(&rows) {
            for (k, value) in row.iter().enumerate() {
                let bytes = plain.value(sample, k);
                assert_stored(value, &bytes, beton.value(SampleId(sample), k).unwrap());
            }
        }
        Ok(())
    })
    .budget_ms(1_500);
}

/// `bytes` by our own reader and `read` by the library's are what is stored of `given`.
fn assert_stored(given: &FieldValue, bytes: &[u8], read: Value<'_>) {
    match (given, read) {
        (FieldValue::Float(want), Value::Float(got)) => {
            assert_eq!((*want, &want.to_le_bytes()[..]), (got, bytes))
        }
        (FieldValue::Int(want), Value::Int(got)) => {
            assert_eq!((*want, &want.to_le_bytes()[..]), (got, bytes))
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
                    assert!(got.width * got.height * 3 <= 200)
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
    assert_eq!(Beton::from_bytes(bytes, &Limits::DEFAULT).unwrap().len(), 0);
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
        mode: WriteMode::Proportion { compress_probability: 0.5 },
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
    // An iterator that does not say how long it is: the sample table outgrows its first place.
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
    let skip = WriteOptions { damaged: Damaged::Skip, ..options() };
    let message = error_of(&rows, &[field("x", FieldKind::RgbImage)], &skip);
    assert!(message.starts_with(&format!("sample 0 ({path:?}): it takes ")), "{message}");
}

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
    ] {
        assert_eq!(error_of(&[], &fields, &options()), message);
    }
}

#[test]
fn values_that_are_not_their_fields_are_refused_even_if_damage_is_skipped() {
    let skip = WriteOptions { damaged: Damaged::Skip, ..options() };
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
fn options_that_make_no_sense_are_refused() {
    let fields = [field("x", FieldKind::RgbImage), field("y", FieldKind::Int)];
    let image = |image| WriteOptions { image, ..options() };
    let base = ImageOptions::default;
    let probability = WriteMode::Proportion { compress_probability: f64::NAN };
    for (options, message) in [
        (
            WriteOptions { page_size: 5000, ..options() },
            "page size 5000, expected a power of two from 4096 to 2147483648",
        ),
        (
            WriteOptions { page_size: 0, ..options() },
            "page size 0, expected a power of two from 4096 to 2147483648",
        ),
        (
            image(ImageOptions { quality: Some(0), ..base() }),
            "images of field \"x\": quality 0, expected 1 to 100",
        ),
        (
            image(ImageOptions { max_resolution: Some(0), ..base() }),
            "images of field \"x\": max_resolution 0, expected at least 1",
        ),
        (
            image(ImageOptions { mode: probability, ..base() }),
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

// ---- images ----

#[test]
fn a_jpeg_is_stored_as_it_is_unless_something_else_is_asked_for() {
    for (color, name) in [(ColorType::Rgb, "rgb"), (ColorType::Luma, "gray")] {
        let original = jpeg(60, 40, color);
        let store = |image| stored(ImageInput::JpegBytes(original.clone()), image);
        for verify in [false, true] {
            let got = store(ImageOptions { verify, ..ImageOptions::default() });
            assert!(got == (ImageMode::Jpeg, 60, 40, original.clone()), "{name}");
        }
        let got = store(ImageOptions { max_resolution: Some(60), ..ImageOptions::default() });
        assert!(got.3 == original, "{name}: not larger than max_resolution");
        let again = store(ImageOptions { quality: Some(80), ..ImageOptions::default() });
        assert!(again.0 == ImageMode::Jpeg && again.3 != original, "{name}: encoded anew");
        let small = store(ImageOptions { max_resolution: Some(30), ..ImageOptions::default() });
        assert_eq!((small.0, small.1, small.2), (ImageMode::Jpeg, 30, 20), "{name}");
    }
}

#[test]
fn raw_pixels_are_resized_by_area() {
    let (width, height) = (97, 41);
    let pixels = noise(97 * 41 * 3, 5);
    let input = ImageInput::Rgb { pixels: pixels.clone(), width, height };
    let options =
        |max| ImageOptions { mode: WriteMode::Raw, max_resolution: max, ..ImageOptions::default() };
    assert!(stored(input.clone(), options(None)) == (ImageMode::Raw, 97, 41, pixels.clone()));
    assert!(stored(input.clone(), options(Some(97))) == (ImageMode::Raw, 97, 41, pixels.clone()));
    let source = ImageView::packed(&pixels, Size::new(height, width)).unwrap();
    // 50.0 / 97.0 * 97.0 is 49.99999999999999 in doubles, and FFCV cuts it as we do.
    let want = area::resize(source, Size::new(21, 49)).unwrap();
    assert!(stored(input.clone(), options(Some(50))) == (ImageMode::Raw, 49, 21, want));
    let got = stored(rgb(1000, 2, 1), options(Some(10)));
    assert_eq!((got.1, got.2), (10, 1), "a side is never less than a pixel");
}

#[test]
fn smart_stores_a_jpeg_above_the_threshold() {
    let mode = |threshold| ImageOptions {
        mode: WriteMode::Smart { threshold },
        ..ImageOptions::default()
    };
    let raw_bytes = 20 * 10 * 3;
    for (threshold, want) in [
        (None, ImageMode::Raw),
        (Some(raw_bytes), ImageMode::Raw),
        (Some(raw_bytes - 1), ImageMode::Jpeg),
    ] {
        assert_eq!(stored(rgb(20, 10, 1), mode(threshold)).0, want, "{threshold:?}");
        let jpeg = ImageInput::JpegBytes(jpeg(20, 10, ColorType::Rgb));
        assert_eq!(stored(jpeg, mode(threshold)).0, want, "{threshold:?}");
    }
}

#[test]
fn a_proportion_is_kept_and_depends_on_the_seed() {
    let fields = [field("x", FieldKind::RgbImage), field("y", FieldKind::RgbImage)];
    let rows: Vec<Row> = (0..2000)
        .map(|seed| vec![FieldValue::Image(rgb(2, 2, seed)), FieldValue::Image(rgb(2, 2, seed))])
        .collect();
    let modes = |seed| {
        let mode = WriteMode::Proportion { compress_probability: 0.25 };
        let (bytes, _) = write_rows(
            &rows,
            &fields,
            &with_images(ImageOptions { mode, seed, ..ImageOptions::default() }),
        );
        let beton = Beton::from_bytes(bytes, &Limits::DEFAULT).unwrap();
        let is_jpeg = |id, k| matches!(beton.value(id, k), Ok(Value::Image(image)) if image.mode == ImageMode::Jpeg);
        [0, 1].map(|k| beton.samples().map(|id| is_jpeg(id, k)).collect::<Vec<_>>())
    };
    let [x, y] = modes(1);
    let share = |modes: &[bool]| modes.iter().filter(|&&jpeg| jpeg).count();
    // 500 of 2000 in the mean, standard deviation 19.
    assert!((420..580).contains(&share(&x)) && (420..580).contains(&share(&y)));
    assert_ne!(x, y, "the fields draw apart");
    assert_ne!(x, modes(2)[0]);
    assert_eq!(x, modes(1)[0]);
}

#[test]
fn images_too_large_for_the_format_are_refused_unless_they_are_made_smaller() {
    let fields = [field("x", FieldKind::RgbImage)];
    let rows = [vec![FieldValue::Image(rgb(65_536, 1, 1))]];
    let message = error_of(&rows, &fields, &options());
    assert_eq!(
        message,
        "sample 0: field \"x\": 1x65536 pixels: a side of at most 65535 can be stored, max_resolution makes it smaller"
    );
    let small = ImageOptions { max_resolution: Some(100), ..ImageOptions::default() };
    assert_eq!(stored(rgb(65_536, 1, 1), small).1, 100);
    let wrong = ImageInput::Rgb { pixels: vec![0; 10], width: 2, height: 2 };
    let message = error_of(&[vec![FieldValue::Image(wrong)]], &fields, &options());
    assert_eq!(message, "sample 0: field \"x\": 10 bytes of pixels, 2x2 RGB pixels need 12");
    let empty = ImageInput::Rgb { pixels: vec![], width: 0, height: 2 };
    let message = error_of(&[vec![FieldValue::Image(empty)]], &fields, &options());
    assert_eq!(message, "sample 0: field \"x\": 2x0 pixels: an image needs at least one");
}

// ---- damage ----

/// Samples 0 and the last are whole, the others are not, each in its own way.
fn damaged_files(dir: &Path) -> Vec<Row> {
    let whole = jpeg(30, 20, ColorType::Rgb);
    let cut = whole[..whole.len() / 2].to_vec();
    fs::write(dir.join("0.jpg"), &whole).unwrap();
    fs::write(dir.join("2.jpg"), "not a picture").unwrap();
    fs::write(dir.join("3.jpg"), jpeg(30, 20, ColorType::Cmyk)).unwrap();
    fs::write(dir.join("4.jpg"), "").unwrap();
    fs::create_dir(dir.join("5.jpg")).unwrap();
    fs::write(dir.join("6.jpg"), &cut[..20]).unwrap();
    fs::write(dir.join("7.jpg"), cut).unwrap();
    fs::write(dir.join("8.jpg"), &whole).unwrap();
    (0..9)
        .map(|n| {
            vec![
                FieldValue::Image(ImageInput::Path(dir.join(format!("{n}.jpg")))),
                FieldValue::Int(n),
            ]
        })
        .collect()
}

#[test]
fn damaged_images_fail_or_are_skipped_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let rows = damaged_files(dir.path());
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let message = error_of(&rows, &fields, &options());
    let prefix =
        format!("sample 1 ({:?}): field \"image\": cannot read it: ", dir.path().join("1.jpg"));
    assert!(message.starts_with(&prefix), "{message}");

    let image = ImageOptions { verify: true, ..ImageOptions::default() };
    let skip = WriteOptions { damaged: Damaged::Skip, image, ..options() };
    let (bytes, report) = write_rows(&rows, &fields, &skip);
    let beton = Beton::from_bytes(bytes, &Limits::DEFAULT).unwrap();
    assert_eq!((beton.len(), report.samples, report.skipped.count), (2, 2, 7));
    assert_eq!(beton.value(SampleId(1), 1), Ok(Value::Int(8)));
    let causes: Vec<(u64, String)> =
        report.skipped.first.iter().map(|s| (s.sample.0, s.cause.to_string())).collect();
    for (found, (sample, text)) in causes.iter().zip([
        (1, "cannot read it: "),
        (2, "not a JPEG: it begins with [6e, 6f, 74, 20], not with ff d8"),
        (3, "a JPEG of 4 components, neither gray nor colour"),
        (4, "not a JPEG: it begins with []"),
        (5, "not a regular file"),
        (6, "the JPEG ends at byte 20, before its frame header"),
        (7, ""),
    ]) {
        assert_eq!(found.0, sample);
        assert!(found.1.starts_with(&format!("field \"image\": {text}")), "{found:?}");
    }
    assert_eq!(report.skipped.first[0].path, Some(dir.path().join("1.jpg")));
}

#[cfg(unix)]
#[test]
fn a_pipe_does_not_stop_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jpg");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no mkfifo");
        return;
    }
    let rows = [vec![FieldValue::Image(ImageInput::Path(path))]];
    let message = error_of(&rows, &[field("x", FieldKind::RgbImage)], &options());
    assert!(message.ends_with("not a regular file"), "{message}");
}

#[test]
fn a_file_over_the_limits_is_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jpg");
    fs::File::create(&path).unwrap().set_len(Limits::SMALL.max_sample_bytes + 1).unwrap();
    let small = WriteOptions { limits: Limits::SMALL, ..options() };
    let fields = [field("x", FieldKind::RgbImage)];
    let message = error_of(&[vec![FieldValue::Image(ImageInput::Path(path))]], &fields, &small);
    assert!(message.ends_with("more than 4194304 bytes, the limit on one value"), "{message}");

    // A header that promises 65535 x 65535 pixels.
    let mut bomb = jpeg(8, 8, ColorType::Rgb);
    let frame = bomb.windows(2).position(|m| m == [0xff, 0xc0]).unwrap();
    bomb[frame + 5..frame + 9].fill(0xff);
    let rows = [vec![FieldValue::Image(ImageInput::JpegBytes(bomb))]];
    let raw = with_images(ImageOptions { mode: WriteMode::Raw, ..ImageOptions::default() });
    let message = error_of(&rows, &fields, &raw);
    assert!(message.ends_with("65535x65535 pixels, more than the limit of 178956970"), "{message}");
}

struct Failing {
    count: u64,
    how: fn(SampleId) -> Result<Row, Box<dyn std::error::Error + Send + Sync>>,
}

impl Samples for Failing {
    fn count(&self) -> u64 {
        self.count
    }

    fn sample(&self, id: SampleId) -> Result<Row, Box<dyn std::error::Error + Send + Sync>> {
        (self.how)(id)
    }
}

#[test]
fn a_panic_of_the_source_is_an_error_within_a_second() {
    let (_dir, path) = temp();
    let how = |id: SampleId| {
        assert_ne!(id.0, 5000, "no sample 5000");
        std::thread::sleep(Duration::from_micros(20));
        Ok(vec![FieldValue::Int(id.0 as i64)])
    };
    let start = Instant::now();
    let error =
        write(&Failing { count: 1 << 40, how }, &[field("x", FieldKind::Int)], &path, &options())
            .unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let message = error.to_string();
    assert!(
        message.starts_with("sample 5000: panicked: ") && message.contains("no sample 5000"),
        "{message}"
    );
    assert!(!path.exists());
}

#[test]
fn the_first_failing_sample_is_reported_for_any_number_of_threads() {
    let how = |id: SampleId| {
        if id.0 % 1000 > 600 { Err("gone".into()) } else { Ok(vec![FieldValue::Int(1)]) }
    };
    for threads in [1, 7] {
        let (_dir, path) = temp();
        let options = WriteOptions { threads: NonZeroUsize::new(threads), ..options() };
        let error =
            write(&Failing { count: 5000, how }, &[field("x", FieldKind::Int)], &path, &options)
                .unwrap_err();
        assert_eq!(error.to_string(), "sample 601: gone");
        assert!(matches!(error, WriteError::Sample { cause: SampleError::Source(_), .. }));
        let skip = WriteOptions { damaged: Damaged::Skip, ..options };
        let report =
            write(&Failing { count: 5000, how }, &[field("x", FieldKind::Int)], &path, &skip)
                .unwrap();
        assert_eq!(
            (report.samples, report.skipped.count, report.skipped.first.len()),
            (3005, 1995, 100)
        );
    }
}

#[test]
fn an_iterator_may_fail_too() {
    let (_dir, path) = temp();
    let rows = || vec![Ok(vec![FieldValue::Int(1)]), Err("end of stream".into())];
    let fields = [field("x", FieldKind::Int)];
    let error = try_write_iter(rows(), &fields, &path, &options()).unwrap_err();
    assert_eq!(error.to_string(), "sample 1: end of stream");
    let skip = WriteOptions { damaged: Damaged::Skip, ..options() };
    assert_eq!(try_write_iter(rows(), &fields, &path, &skip).unwrap().samples, 1);
}

// ---- folders ----

#[test]
fn a_folder_becomes_images_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    for (name, width) in [("cat/b.jpg", 9), ("cat/a.JPEG", 8), ("ant/c.jpg", 7)] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, jpeg(width, 5, ColorType::Rgb)).unwrap();
    }
    fs::write(dir.path().join("cat/readme.txt"), "").unwrap();
    let (_out, path) = temp();
    let report = write_folder(dir.path(), &path, &WriteOptions::default()).unwrap();
    assert_eq!(report.classes, ["ant", "cat"]);
    assert_eq!(
        (report.written.samples, report.written.passed_through, report.ignored.count),
        (3, 3, 1)
    );
    let beton = Beton::open(&path, &Limits::DEFAULT).unwrap();
    let row = |id| match (beton.value(SampleId(id), 0), beton.value(SampleId(id), 1)) {
        (Ok(Value::Image(image)), Ok(Value::Int(label))) => (image.width, label),
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 1, 2].map(row), [(7, 0), (8, 1), (9, 1)]);
    let names: Vec<&str> = beton.fields().iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["image", "label"]);
}

#[test]
fn photographs_are_stored_byte_for_byte_and_resized_as_asked() {
    let Some(dir) = shared().map(|dir| dir.join("data/imagenet")) else { return };
    let (_out, path) = temp();
    let report = write_folder(&dir, &path, &WriteOptions::default()).unwrap();
    let beton = Beton::open(&path, &Limits::DEFAULT).unwrap();
    assert_eq!(report.written.passed_through, beton.len());
    let mut files: Vec<PathBuf> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for (id, file) in beton.samples().zip(files) {
        let Ok(Value::Image(image)) = beton.value(id, 0) else { panic!("{id}") };
        assert!(image.bytes == fs::read(&file).unwrap(), "{file:?}");
    }
    Plain::open(&path).check();

    let image =
        ImageOptions { max_resolution: Some(64), mode: WriteMode::Raw, ..ImageOptions::default() };
    write_folder(&dir, &path, &WriteOptions { image, page_size: 1 << 20, ..options() }).unwrap();
    let beton = Beton::open(&path, &Limits::DEFAULT).unwrap();
    for id in beton.samples() {
        let Ok(Value::Image(image)) = beton.value(id, 0) else { panic!("{id}") };
        let longest = image.width.max(image.height);
        assert!(image.mode == ImageMode::Raw && (63..=64).contains(&longest), "{id}: {longest}");
    }
}
