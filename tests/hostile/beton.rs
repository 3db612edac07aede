//! Damaged and hostile `.beton` files: each one gives an error that
//! says what is wrong, or the right values. Reading them never panics,
//! and never allocates memory because a number in the file asks for it.

use crate::counting::asked_for;
use fuseloop::internals::source::Escaped;
use fuseloop::internals::source::beton::{Allocation, Cell, Header, ImageCell, RowLayout};
use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::{
    Beton, Buffer, CustomRow, FieldKind, FieldSpec, ImageMode, OpenOptions, OwnedValue, Source,
};
use fuseloop::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/beton");
    fs::read(folder.join(name)).unwrap()
}

/// The components of a file; [`bytes`](Self::bytes) lays them out, whether they are valid or not.
struct Parts {
    fields: Vec<FieldSpec>,
    page_size: u32,
    rows: Vec<Vec<Cell<'static>>>,
    data: Vec<u8>,
    allocations: Vec<Allocation>,
}

/// The offset at which the data of [`Parts::small`] starts.
const DATA: u64 = 6144;

impl Parts {
    /// Two samples of a raw image (2 x 1 pixels), a label, some bytes and an array.
    fn small() -> Self {
        let array = FieldKind::NdArray { dtype: "<u2".parse().unwrap(), shape: vec![2] };
        let row = |ptr: u64, label: i64| {
            let image = ImageCell { mode: ImageMode::Raw, width: 2, height: 1, ptr };
            let bytes = Cell::Bytes { ptr: ptr + 6, size: 3 };
            vec![Cell::Image(image), Cell::Int(label), bytes, Cell::Array { ptr: ptr + 9 }]
        };
        let records = |sample: u64, ptr: u64| {
            [(0, 6), (6, 3), (9, 4)].map(|(at, size)| Allocation { sample, ptr: ptr + at, size })
        };
        Self {
            fields: vec![
                ("image", FieldKind::RgbImage).into(),
                ("label", FieldKind::Int).into(),
                ("note", FieldKind::Bytes).into(),
                ("box", array).into(),
            ],
            page_size: 2048,
            rows: vec![row(DATA + 64, 7), row(DATA + 77, 8)],
            data: (0..128).collect(),
            allocations: [records(0, DATA + 64), records(1, DATA + 77)].concat(),
        }
    }

    fn header(&self, layout: &RowLayout) -> Header {
        let mut header = Header {
            num_fields: self.fields.len().try_into().unwrap(),
            page_size: self.page_size,
            num_samples: self.rows.len() as u64,
            alloc_table_ptr: 0,
        };
        header.alloc_table_ptr = header.data_start(layout.size()).unwrap() + self.data.len() as u64;
        header
    }

    fn bytes(&self) -> Vec<u8> {
        let layout = RowLayout::new(self.fields.iter().map(|field| &field.kind)).unwrap();
        let header = self.header(&layout);
        let mut bytes = header.to_bytes().to_vec();
        for field in &self.fields {
            bytes.extend(field.to_bytes().unwrap());
        }
        for cells in &self.rows {
            let mut row = vec![0; layout.size()];
            for (index, cell) in cells.iter().enumerate() {
                cell.put(layout.cell_mut(&mut row, index).unwrap());
            }
            bytes.extend(row);
        }
        bytes.resize(header.alloc_table_ptr as usize - self.data.len(), 0);
        bytes.extend(&self.data);
        bytes.extend(self.allocations.iter().flat_map(Allocation::to_bytes));
        bytes
    }
}

fn open(bytes: &[u8]) -> Result<Beton, Error> {
    Beton::from_bytes(bytes, &OpenOptions::default())
}

/// A value without its file, so that values of two files can be compared. Floats are compared by their bits.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Number(u64),
    Bytes(Vec<u8>),
    Image(ImageMode, u32, u32, Vec<u8>),
}

type Row = Vec<Result<Held, String>>;

fn row(beton: &Beton, sample: SampleId) -> Row {
    let held = |value| match value {
        OwnedValue::Float(value) => Held::Number(value.to_bits()),
        OwnedValue::Int(value) => Held::Number(value.cast_unsigned()),
        OwnedValue::Image(i) => Held::Image(i.mode, i.width, i.height, i.bytes),
        OwnedValue::Bytes(b)
        | OwnedValue::NdArray(b)
        | OwnedValue::Json(b)
        | OwnedValue::Custom(b) => Held::Bytes(b),
        other => panic!("{other:?}"),
    };
    let fields = 0..beton.facts().fields.len();
    fields
        .map(|field| beton.owned(sample, field).map(held).map_err(|error| error.to_string()))
        .collect()
}

fn rows(beton: &Beton) -> Vec<Row> {
    beton.samples().map(|sample| row(beton, sample)).collect()
}

/// Opens a file and reads all of it, up to the number of samples that a damaged count could claim.
fn read_all(bytes: &[u8]) -> Option<Vec<Row>> {
    let beton = open(bytes).ok()?;
    for field in 0..beton.facts().fields.len() {
        let _ = beton.field_stats(field);
    }
    Some(rows(&beton))
}

fn message(bytes: &[u8]) -> String {
    match open(bytes) {
        Ok(_) => "it opened".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The error message of reading field `field` of sample 0.
fn read_message(bytes: &[u8], field: usize) -> String {
    match open(bytes).unwrap().owned(SampleId(0), field) {
        Ok(value) => format!("it read {value:?}"),
        Err(error) => error.to_string(),
    }
}

// --- Damage ---------------------------------------------------------------------------------

#[test]
fn a_file_cut_at_any_byte_is_refused_or_read_right() {
    let small = Parts::small().bytes();
    let goldens = ["scalars.beton", "bytes_empty_p4k.beton", "all_fields_p16k.beton"].map(golden);
    for whole in goldens.iter().chain([&small]) {
        let want = read_all(whole).unwrap();
        let mut opened = 0;
        for end in 0..whole.len() {
            let Some(found) = read_all(&whole[..end]) else { continue };
            opened += 1;
            assert_eq!(found.len(), want.len(), "cut at {end}");
            for (found, want) in found.iter().flatten().zip(want.iter().flatten()) {
                let no_record = "no record of the allocation table begins at byte";
                let lost = found.as_ref().is_err_and(|error| error.contains(no_record));
                assert!(lost || found == want, "cut at {end}: {found:?}");
            }
        }
        // A file cut short opens only if the cut falls between two records of the allocation table.
        assert_eq!(opened, open(whole).unwrap().allocations().unwrap().len());
    }
}

/// Asserts that the error of opening a file names a byte or a field, and that the error of a value names its
/// sample and its field.
fn assert_errors_say_where(bytes: &[u8], context: &str) {
    let beton = match open(bytes) {
        Ok(beton) => beton,
        Err(error) => {
            let message = error.to_string();
            let mut after =
                ["at byte ", "bytes up to "].iter().flat_map(|word| message.split(word).skip(1));
            let has_byte = after.any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            assert!(has_byte || message.contains("field"), "{context}: {message}");
            return;
        }
    };
    for sample in beton.samples() {
        for (index, field) in beton.facts().fields.iter().enumerate() {
            let Err(error) = beton.owned(sample, index) else { continue };
            let found = (error.sample(), error.field());
            assert_eq!(found, (Some(sample), Some(&*field.name)), "{context}: {error}");
            let begin = format!("sample {sample} ({}): ", Escaped(&field.name));
            assert!(error.to_string().starts_with(&begin), "{context}: {error}");
        }
    }
}

#[test]
fn any_bit_flipped_is_read_or_an_error_that_says_where() {
    for whole in [golden("all_fields_p16k.beton"), Parts::small().bytes()] {
        let beton = open(&whole).unwrap();
        let table_end = beton.header().sample_table_end(beton.row_bytes()).unwrap() as usize;
        let records = beton.header().alloc_table_ptr as usize;
        let mut damaged = whole.clone();
        for at in (0..table_end).chain(records..whole.len()) {
            for bit in 0..8 {
                damaged[at] ^= 1 << bit;
                assert_errors_say_where(&damaged, &format!("bit {bit} of byte {at}"));
                let _ = read_all(&damaged);
                damaged[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn a_bit_flipped_in_a_row_changes_no_other_sample() {
    let whole = golden("all_fields_p16k.beton");
    let beton = open(&whole).unwrap();
    let (want, row_size) = (rows(&beton), beton.row_bytes());
    let start = beton.header().sample_table_start() as usize;
    let mut damaged = whole.clone();
    for (sample, first) in (start..).step_by(row_size).take(want.len()).enumerate() {
        for (at, bit) in (first..first + row_size).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            damaged[at] ^= 1 << bit;
            assert_only_sample_changed(&damaged, &want, sample, at);
            damaged[at] ^= 1 << bit;
        }
    }
}

#[test]
fn a_byte_flipped_in_the_data_changes_only_the_sample_it_belongs_to() {
    let whole = golden("all_fields_p16k.beton");
    let beton = open(&whole).unwrap();
    let want = rows(&beton);
    let owner: Vec<(Range<u64>, u64)> =
        beton.allocations().unwrap().iter().map(|a| (a.ptr..a.ptr + a.size, a.sample)).collect();
    let mut damaged = whole.clone();
    let data = beton.header().data_start(beton.row_bytes()).unwrap();
    for at in data..beton.header().alloc_table_ptr {
        damaged[at as usize] ^= 0xff;
        match owner.iter().find(|(range, _)| range.contains(&at)) {
            Some(&(_, sample)) => {
                let found =
                    assert_only_sample_changed(&damaged, &want, sample as usize, at as usize);
                assert_ne!(found, want, "byte {at} is of no account");
            }
            None => assert_eq!(read_all(&damaged).unwrap(), want, "byte {at}"),
        }
        damaged[at as usize] ^= 0xff;
    }
}

fn assert_only_sample_changed(bytes: &[u8], want: &[Row], sample: usize, at: usize) -> Vec<Row> {
    let found = read_all(bytes).unwrap();
    for (other, (found, want)) in found.iter().zip(want).enumerate() {
        assert!(other == sample || found == want, "byte {at} of sample {sample} changed {other}");
    }
    found
}

// --- Bombs ----------------------------------------------------------------------------------

/// Asserts that a file is refused in under 10 ms, and that less than 1 MiB is allocated besides the copy
/// of its own bytes.
fn assert_refused_cheaply(bytes: Vec<u8>) {
    let bytes: std::sync::Arc<[u8]> = bytes.into();
    // The best of three runs: a busy machine may preempt this thread for longer.
    let times = [(); 3].map(|()| {
        let (before, start) = (asked_for(), Instant::now());
        assert!(Beton::from_bytes(bytes.clone(), &OpenOptions::default()).is_err());
        assert!(asked_for() - before < 1 << 20);
        start.elapsed()
    });
    assert!(times.iter().min() < Some(&Duration::from_millis(10)), "{times:?}");
}

fn patched(at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = Parts::small().bytes();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

#[test]
fn bombs_are_refused_at_once_and_without_memory() {
    for samples in [1 << 63, u64::MAX, 1 << 60, 1 << 40, 1000] {
        assert_refused_cheaply(patched(8, &samples.to_le_bytes()));
    }
    for page_size in [0u32, 3, u32::MAX] {
        assert_refused_cheaply(patched(4, &page_size.to_le_bytes()));
    }
    for pointer in [0, 1, 24, 5001, 1 << 63, u64::MAX, u64::MAX - 23] {
        assert_refused_cheaply(patched(16, &pointer.to_le_bytes()));
    }
    assert_refused_cheaply(patched(2, &u16::MAX.to_le_bytes()));
    // An array of 2^63 x 2^63 elements, then a dtype text of 2^64 - 1 bytes.
    let array = 24 + 3 * 1041 + 17;
    assert_refused_cheaply(patched(array, &[[0, 0, 0, 0, 0, 0, 0, 0x80]; 2].concat()));
    assert_refused_cheaply(patched(array + 256, &u64::MAX.to_le_bytes()));
}

#[test]
fn a_value_that_claims_much_is_refused_without_memory() {
    let mut parts = Parts::small();
    parts.rows[0][2] = Cell::Bytes { ptr: DATA, size: u64::MAX };
    parts.rows[1][2] = Cell::Bytes { ptr: u64::MAX, size: 1 << 29 };
    let beton = open(&parts.bytes()).unwrap();
    let before = asked_for();
    for sample in beton.samples() {
        assert!(beton.owned(sample, 2).is_err());
    }
    assert!(asked_for() - before < 1 << 10);
}

#[test]
fn limits_are_the_callers() {
    let bytes = Parts::small().bytes();
    let refusal = |limits: Limits, field| {
        let beton = Beton::from_bytes(&bytes[..], &limits.into()).unwrap();
        beton.owned(SampleId(0), field).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(Limits { max_pixels: 1, ..Limits::DEFAULT }, 0),
        "sample 0 (image): an image of 2 x 1 pixels, the limit is 1 pixels"
    );
    assert_eq!(
        refusal(Limits { max_sample_bytes: 2, ..Limits::DEFAULT }, 2),
        "sample 0 (note): a value of 3 bytes, the limit is 2"
    );
    let limits = Limits { max_samples: 1, ..Limits::DEFAULT };
    let error = Beton::from_bytes(&bytes[..], &limits.into()).unwrap_err();
    assert_eq!(error.to_string(), "2 samples at byte 8, the limit is 1");
}

// --- Tolerance ------------------------------------------------------------------------------

#[test]
fn what_ffcv_would_read_is_read() {
    let want = rows(&open(&Parts::small().bytes()).unwrap());
    assert!(want.iter().flatten().all(Result::is_ok));

    let mut unsorted = Parts::small();
    unsorted.allocations.reverse();
    assert_eq!(rows(&open(&unsorted.bytes()).unwrap()), want);

    let mut duplicates = Parts::small();
    let empty = |a: &Allocation| Allocation { size: 0, ..*a };
    let empties: Vec<Allocation> = duplicates.allocations.iter().map(empty).collect();
    duplicates.allocations.extend(empties);
    assert_eq!(rows(&open(&duplicates.bytes()).unwrap()), want);

    // Page sizes of 1 byte and of 2 GiB: the reader does not use the page size.
    for page_size in [1u32, 1 << 31] {
        assert_eq!(rows(&open(&patched(4, &page_size.to_le_bytes())).unwrap()), want);
    }
}

#[test]
fn a_value_of_no_bytes_is_empty_whatever_its_pointer() {
    let mut parts = Parts::small();
    parts.rows[0][2] = Cell::Bytes { ptr: 0, size: 0 };
    parts.rows[1][2] = Cell::Bytes { ptr: u64::MAX, size: 0 };
    let beton = open(&parts.bytes()).unwrap();
    for sample in beton.samples() {
        assert_eq!(beton.owned(sample, 2).unwrap(), OwnedValue::Bytes(vec![]));
    }
}

#[test]
fn a_dataset_without_samples_is_read() {
    let parts = Parts { rows: vec![], data: vec![], allocations: vec![], ..Parts::small() };
    let beton = open(&parts.bytes()).unwrap();
    assert_eq!((beton.facts().samples, beton.facts().image_stats(0).unwrap().uniform()), (0, None));
}

// --- Messages -------------------------------------------------------------------------------

#[test]
fn a_wrong_header_is_named() {
    assert_eq!(message(&[2, 0, 1]), "not a .beton file: it ends inside its header of 24 bytes");
    assert_eq!(message(&patched(0, &[3])), "not a .beton file: version 3 at byte 0, expected 2");
    assert_eq!(message(&patched(2, &[0])), "0 fields at byte 2, expected at least 1");
    assert_eq!(
        message(&patched(4, &[3, 0, 0, 0])),
        "page size 3 at byte 4, expected a power of two"
    );
    assert_eq!(
        message(&patched(16, &[0; 8])),
        "no allocation table, its offset at byte 16 is 0: the file was not finished by its writer"
    );
    assert_eq!(
        message(&patched(16, &[0xff; 4])),
        "the allocation table needs bytes up to 4294967295, the file has 6416"
    );
    assert_eq!(
        message(&patched(2, &[0, 1])),
        "the field descriptor table needs bytes up to 266520, the file has 6416"
    );
}

#[test]
fn a_wrong_field_is_named() {
    let descriptor = |field: usize| 24 + field * 1041;
    assert_eq!(
        message(&patched(descriptor(1), &[9])),
        "field \"label\": type id 9 at byte 1065, expected 0 to 6 or 255"
    );
    assert_eq!(
        message(&patched(descriptor(1), &[255])),
        "field \"label\" is user-defined (type id 255): its row size and alignment must be given"
    );
    assert_eq!(
        message(&patched(descriptor(1) + 1, b"l\xe9\x1b")),
        "field name \"l\\xe9\\x1bel\" at byte 1066 is not ASCII"
    );
    assert_eq!(
        message(&patched(descriptor(1) + 1, b"image")),
        "fields 0 and 1 are both named \"image\""
    );
    let dtype = descriptor(3) + 17 + 264;
    assert_eq!(
        message(&patched(dtype, b"[[\"\", \"<x")),
        "field \"box\": dtype \"[[\\\"\\\", \\\"<x2\\\"]]\" at byte 3428, expected one plain type like [[\"\", \"<f4\"]]"
    );
    assert_eq!(
        message(&patched(dtype - 8, &761u64.to_le_bytes())),
        "field \"box\": a dtype text of 761 bytes at byte 3420, at most 760 fit"
    );
    assert_eq!(
        message(&patched(descriptor(3) + 17, &[0xff; 8])),
        "field \"box\": an array [18446744073709551615] of <u2 is over 2^64 bytes"
    );
}

#[test]
fn structures_and_broken_json_are_no_dtype() {
    for text in
        ["[]", "[[\"a\", \"<f4\"], [\"b\", \"<f4\"]]", "[[\"\", \"<f4\", [2]]]", "[[", "\u{0}", "3"]
    {
        let mut bytes = Parts::small().bytes();
        let at = 24 + 3 * 1041 + 17 + 256;
        bytes[at..at + 8].copy_from_slice(&(text.len() as u64).to_le_bytes());
        bytes[at + 8..][..text.len()].copy_from_slice(text.as_bytes());
        assert!(message(&bytes).contains("expected one plain type"), "{text}");
    }
}

#[test]
fn a_wrong_table_is_named() {
    assert_eq!(
        message(&patched(8, &[100])),
        "a sample table of 100 rows of 48 bytes at byte 4188 does not fit before the allocation table at byte 6272"
    );
    let mut longer = Parts::small().bytes();
    longer.push(0);
    assert_eq!(
        message(&longer),
        "the allocation table at byte 6272 has 145 bytes to the end of the file, expected a multiple of 24"
    );
}

#[test]
fn a_wrong_value_is_named() {
    let with_image = |image: ImageCell| {
        let mut parts = Parts::small();
        parts.rows[0][0] = Cell::Image(image);
        read_message(&parts.bytes(), 0)
    };
    let image = ImageCell { mode: ImageMode::Raw, width: 2, height: 1, ptr: DATA + 64 };
    assert_eq!(
        with_image(ImageCell { height: 0, ..image }),
        "sample 0 (image): an image of 2 x 0 pixels, in the sample table at byte 4188"
    );
    assert_eq!(
        with_image(ImageCell { width: u16::MAX, height: u16::MAX, ..image }),
        "sample 0 (image): an image of 65535 x 65535 pixels, the limit is 178956970 pixels"
    );
    assert_eq!(
        with_image(ImageCell { width: 3, ..image }),
        "sample 0 (image): a raw image of 3 x 1 pixels has 6 bytes at byte 6208, expected 9"
    );
    assert_eq!(
        with_image(ImageCell { ptr: DATA, ..image }),
        "sample 0 (image): no record of the allocation table begins at byte 6144"
    );
    assert_eq!(
        read_message(&patched(4188, &[2]), 0),
        "sample 0 (image): image mode 2, expected 0 (JPEG) or 1 (raw), in the sample table at byte 4188"
    );
    let mut parts = Parts::small();
    parts.rows[0][3] = Cell::Array { ptr: 6269 };
    assert_eq!(
        read_message(&parts.bytes(), 3),
        "sample 0 (box): 4 bytes at byte 6269 lie outside the data, bytes 4284 to 6272"
    );
}

#[test]
fn no_value_lies_in_a_table_or_past_the_end() {
    let array_at = |ptr| {
        let mut parts = Parts::small();
        parts.rows[0][3] = Cell::Array { ptr };
        open(&parts.bytes()).unwrap().owned(SampleId(0), 3).map_err(|error| error.to_string()).err()
    };
    let (start, end) = (4188 + 2 * 48, DATA + 128);
    for ptr in [start, DATA, end - 4] {
        assert_eq!(array_at(ptr), None);
    }
    for ptr in [0, 24, start - 1, end - 3, end, end + 1000, u64::MAX - 3, u64::MAX] {
        let outside = format!(
            "sample 0 (box): 4 bytes at byte {ptr} lie outside the data, bytes {start} to {end}"
        );
        assert_eq!(array_at(ptr), Some(outside));
    }
}

#[test]
fn a_sample_or_field_that_is_not_there_is_named() {
    let beton = open(&Parts::small().bytes()).unwrap();
    let refusal = |sample, field| beton.owned(SampleId(sample), field).unwrap_err().to_string();
    assert_eq!(refusal(2, 0), "sample 2 (image): no such sample: the file has 2");
    assert_eq!(
        refusal(u64::MAX, 1),
        "sample 18446744073709551615 (label): no such sample: the file has 2"
    );
    assert_eq!(refusal(0, 4), "sample 0 (#4): no such field: the file has 4");
}

#[test]
fn a_user_defined_row_must_make_sense() {
    let mut parts = Parts::small();
    let kind = FieldKind::Custom { row_size: 8, align: 8 };
    parts.fields[1] = ("mine", kind).into();
    parts.rows.iter_mut().for_each(|row| row[1] = Cell::Custom(b"abcdefgh"));
    let bytes = parts.bytes();
    let open = |row_size, align| {
        let row = CustomRow { row_size, align };
        let custom_fields = BTreeMap::from([("mine".to_owned(), row)]);
        Beton::from_bytes(&bytes[..], &OpenOptions { custom_fields, ..Default::default() })
    };
    let beton = open(8, 8).unwrap();
    assert_eq!(beton.owned(SampleId(1), 1).unwrap(), OwnedValue::Custom(b"abcdefgh".to_vec()));
    assert_eq!(
        open(0, 1).unwrap_err().to_string(),
        "field \"mine\": a user-defined row of 0 bytes aligned to 1, expected at least 1 byte and a power of two"
    );
    assert!(open(8, 3).is_err() && open(8, 0).is_err());
    assert_eq!(
        open(usize::MAX, 1).unwrap_err().to_string(),
        "a row of the sample table is over 2^63 bytes long"
    );
}

#[test]
fn no_control_byte_of_a_name_reaches_a_message() {
    let mut parts = Parts::small();
    parts.fields[0].name = "\u{1b}[31mred\n".to_owned();
    parts.rows[0][0] =
        Cell::Image(ImageCell { mode: ImageMode::Raw, width: 0, height: 1, ptr: DATA });
    let message = read_message(&parts.bytes(), 0);
    assert!(message.starts_with("sample 0 (\\u{1b}[31mred\\n): an image of"), "{message}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a\u{1b}[2Jb.beton");
    fs::write(&path, [0; 30]).unwrap();
    let message = Beton::open(&path, &OpenOptions::default()).unwrap_err().to_string();
    assert!(
        message.ends_with("a\\u{1b}[2Jb.beton: not a .beton file: version 0 at byte 0, expected 2")
    );
}

#[test]
fn the_path_is_said_once() {
    let error = Beton::open("/no/such.beton", &OpenOptions::default()).unwrap_err();
    assert_eq!(error.to_string().matches("such.beton").count(), 1, "{error}");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

/// A caller of the source's own methods need not know the file.
#[test]
fn a_source_names_its_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.beton");
    fs::write(&path, Parts::small().bytes()).unwrap();
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let mut buffer = Buffer::default();
    let read = beton.read(SampleId(2)).unwrap_err();
    let value = Source::value(&beton, SampleId(2), 0, &mut buffer).unwrap_err();
    for error in [read, value] {
        let cause = "sample 2 (image): no such sample: the file has 2";
        assert_eq!(error.to_string(), format!("{}: {cause}", path.display()));
        let error = fuseloop::Error::from(error);
        assert_eq!((error.path(), error.sample()), (Some(&*path), Some(SampleId(2))));
        assert_eq!(error.field(), Some("image"));
    }
}

#[test]
fn folders_and_empty_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |path: &Path| {
        let error = Beton::open(path, &OpenOptions::default()).unwrap_err().to_string();
        error.split_once(": ").unwrap().1.to_owned()
    };
    assert!(refusal(folder.path()).starts_with("a folder, expected a file"));
    let empty = folder.path().join("empty.beton");
    fs::write(&empty, []).unwrap();
    assert_eq!(refusal(&empty), "not a .beton file: it ends inside its header of 24 bytes");
}

/// Opening a FIFO would block until another process opens it for writing.
#[cfg(unix)]
#[test]
fn a_fifo_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo.beton");
    if !std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|s| s.success()) {
        println!("skipped: there is no mkfifo here");
        return;
    }
    assert!(Beton::open(&fifo, &OpenOptions::default()).is_err());
}
