//! Tests conversions: read back by readers that share no code with the writer, interrupted at every
//! step, and given hostile keys.

#[path = "../../../tests/common/files.rs"]
mod files;

use super::*;
use crate::error::ErrorKind;
use crate::order::{Ranks, Uneven};
use crate::recut::Tile;
use crate::sample::{Limits, SampleId};
use crate::source::{
    Beton, BoxError, ClassNames, Column, Facts, FieldKind, FieldSpec, Folder, FolderOptions,
    InMemory, OpenOptions, OwnedImage, OwnedValue, Record, SampleLocation, Tar, TarOptions,
    TfOptions,
};
use crate::write::step::FileStep;
use crate::write::{CancelFlag, ProgressFn};
use files::files;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A source of samples of every kind, generated from their number; some are damaged, some have keys.
struct Drawn {
    facts: OnceLock<Facts>,
    fields: Vec<FieldSpec>,
    samples: u64,
    damaged: Vec<u64>,
    keys: fn(u64) -> Option<String>,
    names: Option<ClassNames>,
}

fn field(name: &str, kind: FieldKind) -> FieldSpec {
    FieldSpec { name: name.to_owned(), kind }
}

fn array(dtype: &str, shape: &[u64]) -> FieldKind {
    FieldKind::NdArray { dtype: dtype.parse().unwrap(), shape: shape.to_vec() }
}

fn no_key(_: u64) -> Option<String> {
    None
}

/// All kinds of fields.
fn drawn(samples: u64) -> Drawn {
    let fields = vec![
        field("image", FieldKind::RgbImage),
        field("label", FieldKind::Int),
        field("seg", FieldKind::RgbImage),
        field("n", FieldKind::Int),
        field("x", FieldKind::Float),
        field("b", FieldKind::Bytes),
        field("meta", FieldKind::Json),
        field("depth", array("<f4", &[2, 3])),
        field("wide", array("<f8", &[2])),
    ];
    let facts = OnceLock::new();
    Drawn { facts, fields, samples, damaged: vec![], keys: no_key, names: None }
}

/// An image and its class.
fn classes(samples: u64) -> Drawn {
    let fields = vec![field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    Drawn { fields, ..drawn(samples) }
}

/// An image and its class; all classes have names, in another order than their numbers.
fn named(samples: u64) -> Drawn {
    let names = (0..10).map(|number| (number, format!("class {}", 9 - number))).collect();
    Drawn { names: Some(names), ..classes(samples) }
}

/// Bytes that begin like a JPEG but can't be decoded: conversions store them without decoding.
fn jpeg(n: u64) -> Vec<u8> {
    let len = n * 7919 % 3000;
    let body = (0..len).map(|i| (i * 31 + n) as u8);
    [0xff, 0xd8, 0xff, 0xe0].into_iter().chain(body).collect()
}

impl Drawn {
    fn value(&self, field: &FieldSpec, n: u64) -> OwnedValue {
        match (&*field.name, &field.kind) {
            ("image", _) => OwnedValue::Image(OwnedImage {
                width: 1 + n as u32 % 50,
                height: 7,
                ..OwnedImage::jpeg(jpeg(n))
            }),
            (_, FieldKind::RgbImage) => {
                let pixels = (0..5 * 3 * 3).map(|i| (i * n) as u8).collect();
                OwnedValue::Image(OwnedImage::rgb((5, 3), pixels))
            }
            (name, FieldKind::Int) if name.ends_with("label") => OwnedValue::Int((n % 10) as i64),
            (_, FieldKind::Int) => OwnedValue::Int(i64::MIN + n as i64),
            (_, FieldKind::Float) => OwnedValue::Float(n as f64 / 7.0),
            // Some have no bytes at all.
            (_, FieldKind::Bytes) => OwnedValue::Bytes(vec![b'a' + n as u8 % 26; n as usize % 3]),
            (_, FieldKind::Json) => OwnedValue::Json(format!("{{\"n\": {n}}}\0").into_bytes()),
            (_, kind) => {
                let len = kind.array_bytes().unwrap();
                OwnedValue::NdArray((0..len).map(|i| (i + n) as u8 % 64).collect())
            }
        }
    }
}

impl Source for Drawn {
    fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| {
            let names = self.names.clone();
            Facts::new(self.fields.clone(), self.samples)
                .with_class_names(move || Ok(names.clone()))
        })
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        if self.damaged.contains(&sample.0) {
            return Err("it is torn".into());
        }
        Ok(self.fields.iter().map(|field| self.value(field, sample.0)).collect())
    }

    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        (self.keys)(sample.0).map(SampleLocation::of_key)
    }
}

/// Returns the files that a conversion writes into an empty folder.
fn converted(source: &Drawn, dst: &str, options: &WriteOptions) -> BTreeMap<String, Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    convert(source, dir.path().join(dst), options).unwrap();
    files(dir.path())
}

/// Returns the members of shards, in order, as the `tar` crate reads them.
fn members(shards: &BTreeMap<String, Vec<u8>>) -> Vec<(String, Vec<u8>)> {
    let mut members = vec![];
    for shard in shards.values() {
        let mut archive = tar::Archive::new(&shard[..]);
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut bytes = vec![];
            entry.read_to_end(&mut bytes).unwrap();
            members.push((name, bytes));
        }
    }
    members
}

fn limits(samples: u64, bytes: u64, shards: u64) -> WriteOptions {
    let some = |n| (n > 0).then_some(n);
    WriteOptions {
        max_samples: some(samples),
        max_bytes: some(bytes),
        shards: some(shards),
        threads: NonZeroUsize::new(2),
        page_size: Some(1 << 13),
        ..WriteOptions::default()
    }
}

/// Fields that a folder's table can hold.
fn table(samples: u64) -> Drawn {
    let mut source = drawn(samples);
    source.fields.retain(|field| field.name != "n");
    source
}

/// A dataset without values in pages.
fn ints(samples: u64) -> Drawn {
    Drawn { fields: vec![field("n", FieldKind::Int)], ..classes(samples) }
}

/// Every format, with limits that produce several chunks of it.
fn forms() -> Vec<(&'static str, Drawn, WriteOptions)> {
    let mut forms = vec![
        ("x-{000}.tar", drawn(30), limits(0, 40_000, 0)),
        ("x-{00000}-of-{N}.tfrecord", drawn(20), limits(0, 0, 3)),
        ("x.tar", classes(10), limits(0, 0, 0)),
        ("x.beton", drawn(20), limits(8, 0, 0)),
        ("ints.beton", ints(20), limits(8, 0, 0)),
        ("x", classes(9), limits(4, 0, 0)),
        ("table", table(9), limits(4, 0, 0)),
        ("named.beton", named(9), limits(0, 0, 0)),
        ("several-{0}.beton", named(12), limits(0, 0, 3)),
        ("named-{00}.tar", named(12), limits(4, 0, 0)),
        ("named", named(9), limits(4, 0, 0)),
        ("mds/index.json", drawn(30), limits(0, 40_000, 0)),
        ("named-mds/index.json", named(9), limits(0, 0, 3)),
    ];
    if cfg!(feature = "parquet") {
        forms.push(("x-{000}.parquet", drawn(30), limits(0, 20_000, 0)));
        forms.push(("named-{00}-of-{N}.parquet", named(12), limits(4, 0, 0)));
    }
    forms
}

#[test]
fn tar_shards_have_all_members_in_order() {
    let source = drawn(70);
    let shards = converted(&source, "x-{000}.tar", &limits(0, 30_000, 0));
    assert!(shards.len() > 4 && shards.keys().all(|name| name.starts_with("x-0")));
    assert!(shards.values().all(|shard| shard.len() <= 30_000 && shard.len() % 512 == 0));
    let members = members(&shards);
    assert_eq!(members.len(), 70 * 9);
    let names: Vec<&str> = members[9..18].iter().map(|(name, _)| &**name).collect();
    let want = "jpg cls seg.png n.cls x.txt b.bin meta.json depth.npy wide.npy";
    let want: Vec<String> = want.split(' ').map(|end| format!("00000001.{end}")).collect();
    assert_eq!(names, want);
    for (n, sample) in (0..).zip(members.chunks(9)) {
        let bytes = |member: usize| sample[member].1.clone();
        assert_eq!(bytes(0), jpeg(n));
        assert_eq!(String::from_utf8(bytes(1)).unwrap(), (n % 10).to_string());
        let x: f64 = String::from_utf8(bytes(4)).unwrap().parse().unwrap();
        assert_eq!(x.to_bits(), (n as f64 / 7.0).to_bits());
        assert_eq!(bytes(5).len(), n as usize % 3);
        assert_eq!(bytes(6), format!("{{\"n\": {n}}}").into_bytes());
        let depth: Vec<f32> = npyz::NpyFile::new(&bytes(7)[..]).unwrap().into_vec().unwrap();
        let OwnedValue::NdArray(want) = source.value(&source.fields[7], n) else { panic!() };
        assert_eq!(depth.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>(), want);
    }
}

/// Returns the data of TFRecord's frames; the writer's own tests check the checksums.
fn records(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut records = vec![];
    while let Some((length, rest)) = file.split_first_chunk::<8>() {
        let length = u64::from_le_bytes(*length) as usize;
        records.push(rest[4..4 + length].to_vec());
        file = &rest[4 + length + 4..];
    }
    records
}

/// Returns the fields of a protobuf message that have bytes (wire type 2).
fn wire(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut fields = vec![];
    while !message.is_empty() {
        let tag = varint(&mut message);
        assert_eq!(tag & 7, 2, "another wire type");
        let len = varint(&mut message) as usize;
        let (bytes, rest) = message.split_at(len);
        fields.push((tag >> 3, bytes.to_vec()));
        message = rest;
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

/// Returns an Example's features: the number of the list (1 bytes, 2 floats, 3 ints), and its `value`.
fn features(example: &[u8]) -> BTreeMap<String, (u64, Vec<u8>)> {
    let map = &wire(example)[0].1;
    let entry = |(_, entry): (u64, Vec<u8>)| {
        let pair = wire(&entry);
        let name = String::from_utf8(pair[0].1.clone()).unwrap();
        let (kind, list) = wire(&pair[1].1).remove(0);
        let value = wire(&list).into_iter().next().map_or(vec![], |(_, value)| value);
        (name, (kind, value))
    };
    wire(map).into_iter().map(entry).collect()
}

#[test]
fn tfrecord_shards_hold_the_samples() {
    let source = drawn(20);
    let shards = converted(&source, "x-{00000}-of-{N}.tfrecord", &limits(0, 0, 3));
    let names = (0..3).map(|k| format!("x-{k:05}-of-00003.tfrecord"));
    assert!(shards.keys().eq(names.collect::<Vec<_>>().iter()));
    let records: Vec<Vec<u8>> = shards.values().flat_map(|file| records(file)).collect();
    assert_eq!(records.len(), 20);
    for (n, record) in (0..).zip(&records) {
        let found = features(record);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let mut want: Vec<&str> =
            "b depth depth/dtype depth/shape fuseloop/fields image label meta \
            meta/dtype n seg wide wide/dtype wide/shape x x/float64"
                .split_whitespace()
                .collect();
        if n % 7 == 0 {
            // A whole number is exact in 32 bits.
            want.pop();
        }
        assert_eq!(names, want);
        assert_eq!(found["image"], (1, jpeg(n)));
        assert!(found["seg"].1.starts_with(b"\x89PNG"));
        assert_eq!(found["label"], (3, vec![(n % 10) as u8]));
        assert_eq!(varint(&mut &found["n"].1[..]), (i64::MIN + n as i64).cast_unsigned());
        assert_eq!(found["x"], (2, ((n as f64 / 7.0) as f32).to_le_bytes().to_vec()));
        assert_eq!((found["b"].0, found["b"].1.len()), (1, n as usize % 3));
        assert_eq!(found["meta"], (1, format!("{{\"n\": {n}}}").into_bytes()));
        let stored = |field: usize| match source.value(&source.fields[field], n) {
            OwnedValue::NdArray(elements) => elements,
            other => panic!("{other:?}"),
        };
        assert_eq!((&found["depth"].1, &found["depth/shape"].1), (&stored(7), &vec![2, 3]));
        assert_eq!(
            (found["wide"].clone(), &found["wide/dtype"].1[..]),
            ((1, stored(8)), &b"<f8"[..])
        );
    }
}

#[cfg(any(feature = "mds", feature = "parquet"))]
fn opened(path: &Path) -> std::sync::Arc<dyn Source> {
    crate::source::Dataset::open(path).unwrap().source().unwrap()
}

/// Pixels become a PNG, and the size of an image is in its file.
#[cfg(any(feature = "mds", feature = "parquet"))]
fn assert_same_values(read: &dyn Source, source: &dyn Source, id: SampleId) {
    let (found, expected) = (read.read(id).unwrap(), source.read(id).unwrap());
    for (index, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        match (found, expected) {
            (OwnedValue::Image(found), OwnedValue::Image(expected)) => match expected.mode {
                crate::source::ImageMode::Raw => assert!(found.bytes.starts_with(b"\x89PNG")),
                _ => assert_eq!(found.bytes, expected.bytes),
            },
            (found, expected) => assert_eq!(found, expected, "sample {id}, field {index}"),
        }
    }
}

#[cfg(feature = "mds")]
#[test]
fn mds_shards_hold_the_samples() {
    let dir = tempfile::tempdir().unwrap();
    let source = Drawn { names: named(1).names, ..drawn(250) };
    let report = convert(&source, dir.path().join("x/index.json"), &limits(0, 100_000, 0)).unwrap();
    let written = files(&dir.path().join("x"));
    let sizes: Vec<usize> = written.values().map(Vec::len).collect();
    assert!(written.len() > 3 && written.contains_key("shard.00002.mds"), "{:?}", written.keys());
    assert!(sizes.iter().all(|&bytes| bytes <= 100_000), "{sizes:?}");
    assert_eq!(report.files, written.len() as u64, "nothing lies beside them");
    assert_eq!(report.bytes, sizes.iter().sum::<usize>() as u64);
    for name in ["x", "x/index.json"] {
        let read = opened(&dir.path().join(name));
        assert_eq!(*read.facts().fields, *source.fields);
        assert_eq!(read.class_names().unwrap(), source.names);
        for n in 0..250 {
            assert_same_values(&*read, &source, SampleId(n));
        }
    }
}

#[cfg(feature = "mds")]
#[test]
fn numbers_of_every_type_are_read_from_mds_as_they_were() {
    let dtypes = ["|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"];
    for shape in [&[][..], &[3], &[2, 0, 2], &[1, 2, 3], &[300, 1]] {
        let fields = dtypes.map(|dtype| field(dtype, array(dtype, shape)));
        let source = Drawn { fields: fields.to_vec(), ..drawn(5) };
        let dir = tempfile::tempdir().unwrap();
        convert(&source, dir.path().join("index.json"), &limits(0, 0, 0)).unwrap();
        let read = opened(dir.path());
        assert_eq!(*read.facts().fields, *source.fields);
        for n in (0..5).map(SampleId) {
            assert_eq!(read.read(n).unwrap(), source.read(n).unwrap(), "{shape:?}");
        }
    }
    let big = Drawn { fields: vec![field("big", array(">i4", &[2]))], ..drawn(2) };
    let dir = tempfile::tempdir().unwrap();
    convert(&big, dir.path().join("index.json"), &limits(0, 0, 0)).unwrap();
    let read = opened(dir.path()).read(SampleId(1)).unwrap();
    assert_eq!(read, [OwnedValue::NdArray(vec![4, 3, 2, 1, 8, 7, 6, 5])]);
}

/// The reader takes bytes that begin as images for images, unless the index lists their column.
#[cfg(feature = "mds")]
#[test]
fn bytes_that_begin_as_images_stay_bytes_in_mds() {
    let dir = tempfile::tempdir().unwrap();
    let facts = Facts::new([("thumb", FieldKind::Bytes)], 20);
    let source = InMemory::from_fn(facts, |sample| Ok(vec![OwnedValue::Bytes(jpeg(sample.0))]));
    convert(&source, dir.path().join("index.json"), &limits(0, 0, 0)).unwrap();
    let read = opened(dir.path());
    assert_eq!(*read.facts().fields, *source.facts().fields);
    assert_eq!(read.read(SampleId(9)).unwrap(), [OwnedValue::Bytes(jpeg(9))]);
}

#[cfg(feature = "mds")]
#[test]
fn an_index_of_mds_shards_is_there_only_when_all_of_them_are() {
    let dir = tempfile::tempdir().unwrap();
    let (out, index) = (dir.path().join("out"), dir.path().join("out/index.json"));
    let names = || files(&out).into_keys().collect::<Vec<_>>().join(" ");
    convert(&classes(40), &index, &limits(8, 0, 0)).unwrap();
    assert_eq!(names().split(' ').count(), 6);
    let again = convert(&classes(40), &index, &limits(8, 0, 0)).unwrap_err();
    assert_eq!(again.kind(), crate::error::ErrorKind::AlreadyExists, "{again}");
    let overwrite = WriteOptions { overwrite: true, ..limits(8, 0, 0) };

    // A dataset whose first sample fails leaves the one that is there; a later one has replaced some of its shards.
    let of = |odd: u64| {
        InMemory::from_fn(Facts::new([("n", FieldKind::Int)], 20), move |sample| match sample.0 {
            n if n == odd => Err("torn".into()),
            n => Ok(vec![OwnedValue::Int(n as i64)]),
        })
    };
    convert(&of(0), &index, &overwrite).unwrap_err();
    assert_eq!(opened(&out).facts().samples, 40);
    convert(&of(19), &index, &overwrite).unwrap_err();
    assert!(!index.exists() && crate::source::Mds::open(&out, &Default::default()).is_err());

    let report = convert(&of(99), &index, &overwrite).unwrap();
    assert_eq!((opened(&out).facts().samples, report.samples), (20, 20));
    let note = report.notes.join(" ");
    assert!(note.contains("2 files such as") && note.contains("shard.00003.mds"), "{note}");
}

#[test]
fn what_can_not_become_mds_shards_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let said = |name: &str, options: &WriteOptions| {
        convert(&drawn(4), dir.path().join(name), options).unwrap_err().to_string()
    };
    for name in ["x.mds", "x.mds/", "x/shard.{00000}.mds"] {
        assert!(said(name, &limits(0, 0, 0)).contains("use a name such as out/index.json"));
    }
    let ranks = Some(Ranks::new(0, 2, Uneven::Pad).unwrap());
    let ranks = WriteOptions { ranks, ..limits(0, 0, 2) };
    assert!(said("x/index.json", &ranks).contains("several ranks can't write MDS shards"));
    let image = ImageOptions { bit_planes: true, ..ImageOptions::default() };
    let planes = WriteOptions { image, ..limits(0, 0, 0) };
    assert!(said("x/index.json", &planes).contains("bit planes are stored in .beton files"));
    let bool = Drawn { fields: vec![field("b", array("|b1", &[2]))], ..drawn(2) };
    let error = convert(&bool, dir.path().join("x/index.json"), &limits(0, 0, 0)).unwrap_err();
    assert!(error.to_string().contains("an array of |b1, which MDS does not have"), "{error}");
}

#[cfg(feature = "mds")]
#[test]
fn a_folder_of_mds_shards_has_any_name() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["p%05d", "p{000}"] {
        let folder = dir.path().join(name);
        convert(&drawn(4), folder.join("index.json"), &limits(0, 0, 2)).unwrap();
        let written = crate::source::Mds::open(&folder, &crate::source::MdsOptions::default());
        assert_eq!(written.unwrap().facts().samples, 4, "{name}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_hold_the_samples() {
    let dir = tempfile::tempdir().unwrap();
    let source =
        Drawn { names: named(1).names, keys: |n| Some(format!("a/key {n}")), ..drawn(250) };
    convert(&source, dir.path().join("x-{0}.parquet"), &limits(120, 0, 0)).unwrap();
    assert_eq!(files(dir.path()).len(), 3, "nothing lies beside the files");
    let read = opened(&dir.path().join("x-*.parquet"));
    assert_eq!(*read.facts().fields, *source.fields);
    assert_eq!(read.class_names().unwrap(), source.names);
    for n in 0..250 {
        assert_same_values(&*read, &source, SampleId(n));
        // One read of its bytes.
        let place = read.locate(SampleId(n), 0).unwrap();
        let file = fs::read(place.file.as_deref().unwrap()).unwrap();
        let bytes = place.bytes.unwrap();
        assert_eq!(file[bytes.start as usize..bytes.end as usize], jpeg(n));
    }
    let groups = (0..250).map(|n| read.locality_group(SampleId(n)).unwrap());
    let expected = [vec![0; 100], vec![1; 20], vec![2; 100], vec![3; 20], vec![4; 10]].concat();
    assert_eq!(groups.collect::<Vec<_>>(), expected);
}

#[cfg(feature = "parquet")]
#[test]
fn numbers_of_every_type_are_read_from_parquet_as_they_were() {
    let dtypes = ["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<f2", "<f4", "<f8"];
    for shape in [&[3][..], &[2, 2], &[1, 2, 3], &[1, 2, 1, 2, 1], &[1, 1, 2, 1, 1, 2]] {
        let fields = dtypes.map(|dtype| field(dtype, array(dtype, shape)));
        let source = Drawn { fields: fields.to_vec(), ..drawn(5) };
        let dir = tempfile::tempdir().unwrap();
        convert(&source, dir.path().join("x.parquet"), &limits(0, 0, 0)).unwrap();
        let read = opened(&dir.path().join("x.parquet"));
        assert_eq!(*read.facts().fields, *source.fields);
        for n in (0..5).map(SampleId) {
            let bool = |record: Record| {
                let first = record.into_iter().next();
                let Some(OwnedValue::NdArray(bytes)) = first else { panic!() };
                bytes.into_iter().map(|byte| byte != 0).collect::<Vec<_>>()
            };
            let (found, expected) = (read.read(n).unwrap(), source.read(n).unwrap());
            assert_eq!(found[1..], expected[1..]);
            assert_eq!(bool(found), bool(expected));
        }
    }
    let big = Drawn { fields: vec![field("big", array(">i4", &[2]))], ..drawn(2) };
    let dir = tempfile::tempdir().unwrap();
    convert(&big, dir.path().join("x.parquet"), &limits(0, 0, 0)).unwrap();
    let read = opened(&dir.path().join("x.parquet")).read(SampleId(1)).unwrap();
    assert_eq!(read, [OwnedValue::NdArray(vec![4, 3, 2, 1, 8, 7, 6, 5])]);
    let complex = Drawn { fields: vec![field("c", array("<c8", &[2]))], ..drawn(2) };
    let error = convert(&complex, dir.path().join("c.parquet"), &limits(0, 0, 0)).unwrap_err();
    assert!(error.to_string().contains("an array of <c8, which Parquet does not have"), "{error}");
}

#[cfg(feature = "parquet")]
#[test]
fn the_number_of_parquet_files_in_their_names_follows_from_the_first_samples() {
    let count = |name: &str, options: &WriteOptions| {
        converted(&classes(10), name, options).into_keys().collect::<Vec<_>>().join(" ")
    };
    let name = "train-{00000}-of-{N}.parquet";
    assert_eq!(count(name, &limits(0, 0, 0)), "train-00000-of-00001.parquet");
    assert_eq!(
        count(name, &limits(0, 0, 2)),
        "train-00000-of-00002.parquet train-00001-of-00002.parquet"
    );
    assert_eq!(count("x.parquet", &limits(0, 0, 0)), "x.parquet");
}

#[cfg(feature = "parquet")]
#[test]
fn objects_in_parquet_are_those_of_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let mut jpeg = vec![];
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
    encoder.encode(&[7; 16 * 16], 16, 16, jpeg_encoder::ColorType::Luma).unwrap();
    let (mut images, mut annotations) = (vec![], vec![]);
    for image in 0..3 {
        fs::write(dir.path().join(format!("{image}.jpg")), &jpeg).unwrap();
        images.push(serde_json::json!({"id": image, "file_name": format!("{image}.jpg"), "width": 16, "height": 16}));
        for object in 0..(image + 1) % 3 {
            annotations.push(serde_json::json!({
                "id": annotations.len(), "image_id": image, "category_id": 5 + object,
                "bbox": [1, 2.5, 3, 4 + object], "area": 12.5, "iscrowd": 0,
                "segmentation": [[1, 1, 9, 1, 9, 9]],
            }));
        }
    }
    let categories = serde_json::json!([{"id": 5, "name": "cat"}, {"id": 6, "name": "dog"}]);
    let text =
        serde_json::json!({"images": images, "annotations": annotations, "categories": categories});
    let json = dir.path().join("instances.json");
    fs::write(&json, text.to_string()).unwrap();
    let source = crate::source::Annotated::coco(dir.path(), &json, &Default::default()).unwrap();
    convert(&source, dir.path().join("a.parquet"), &limits(0, 0, 0)).unwrap();
    let read = opened(&dir.path().join("a.parquet"));
    convert(&*read, dir.path().join("b.parquet"), &limits(0, 0, 0)).unwrap();
    for name in ["a.parquet", "b.parquet"] {
        let read = opened(&dir.path().join(name));
        let described = |source: &dyn Source| {
            let objects = source.object_fields().unwrap().unwrap();
            let all = objects.iter().map(|(name, field)| (name.to_owned(), field.to_string()));
            all.collect::<BTreeMap<_, _>>()
        };
        assert_eq!(described(&*read), described(&source));
        assert_eq!(read.class_names().unwrap(), source.facts().class_names().unwrap());
        for id in (0..3).map(SampleId) {
            let named = |source: &dyn Source| {
                let names = source.fields().iter().map(|field| field.name.clone());
                names.zip(source.read(id).unwrap()).collect::<BTreeMap<_, _>>()
            };
            let (mut found, mut expected) = (named(&*read), named(&source));
            found.remove("image");
            expected.remove("image");
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name}, {id}");
        }
    }
}

/// A text of 100 samples may be followed by bytes that are none.
#[cfg(feature = "parquet")]
#[test]
fn bytes_that_are_no_text_like_those_before_are_damage_of_their_sample() {
    let dir = tempfile::tempdir().unwrap();
    let of = |odd: u64| {
        InMemory::from_fn(Facts::new([("b", FieldKind::Bytes)], 150), move |sample| {
            let bytes = if sample.0 == odd { vec![0xff] } else { b"a text".to_vec() };
            Ok(vec![OwnedValue::Bytes(bytes)])
        })
    };
    let at = |name: &str| dir.path().join(name);
    let error = convert(&of(120), at("a.parquet"), &limits(0, 0, 0)).unwrap_err();
    assert_eq!(error.sample(), Some(SampleId(120)));
    assert!(error.to_string().contains("field \"b\": it is no text in UTF-8"), "{error}");
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..limits(0, 0, 0) };
    assert_eq!(convert(&of(120), at("a.parquet"), &skip).unwrap().skipped.count, 1);
    assert_eq!(convert(&of(20), at("b.parquet"), &limits(0, 0, 0)).unwrap().samples, 150);
}

#[test]
fn a_shard_ends_by_samples_and_has_one_at_least() {
    let count = |options: &WriteOptions| converted(&classes(10), "x-{0}.tar", options).len();
    assert_eq!(count(&limits(3, 0, 0)), 4);
    assert_eq!(count(&limits(0, 1, 0)), 10);
    assert_eq!(count(&limits(0, 0, 3)), 3);
    assert_eq!(count(&limits(0, 0, 30)), 10);
    let nothing = converted(&classes(0), "x-{0}.tar", &limits(3, 0, 0));
    assert_eq!(nothing, BTreeMap::from([("x-0.tar".to_owned(), vec![0; 1024])]));
}

#[test]
fn any_number_of_threads_writes_the_same() {
    for (dst, source, options) in forms() {
        let with = |n| {
            let threads = NonZeroUsize::new(n);
            converted(&source, dst, &WriteOptions { threads, ..options.clone() })
        };
        let one = with(1);
        assert!(with(2) == one && with(5) == one, "{dst}");
    }
}

#[test]
fn ranks_together_write_what_one_process_writes() {
    for (name, source) in [
        ("x-{000}.tar", drawn(30)),
        ("x-{00000}-of-{N}.tfrecord", drawn(20)),
        #[cfg(feature = "parquet")]
        ("x-{00000}-of-{N}.parquet", drawn(20)),
        ("named-{00}.tar", named(12)),
        ("x-{0}.beton", drawn(30)),
        ("none-{0}.beton", classes(0)),
        ("few-{0}.tar", classes(2)),
        ("none-{0}.tar", classes(0)),
    ] {
        let whole = converted(&source, name, &limits(0, 0, 5));
        for world in [1, 2, 3, 5, 7] {
            let dir = tempfile::tempdir().unwrap();
            let mut samples = 0;
            for rank in (0..world).rev() {
                let ranks = Some(Ranks::new(rank, world, Uneven::Pad).unwrap());
                let options = WriteOptions { ranks, ..limits(0, 0, 5) };
                samples += convert(&source, dir.path().join(name), &options).unwrap().samples;
                if rank + 1 == world && source.facts().samples > 0 {
                    let again = convert(&source, dir.path().join(name), &options).unwrap_err();
                    assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
                }
            }
            assert_eq!(samples, source.facts().samples);
            assert!(files(dir.path()) == whole, "{name}: {world} ranks");
        }
    }
}

#[test]
fn a_rank_that_was_stopped_goes_on() {
    let (source, name) = (drawn(30), "x-{000}.tar");
    let whole = converted(&source, name, &limits(0, 0, 6));
    let dir = tempfile::tempdir().unwrap();
    let ranks = |rank| Some(Ranks::new(rank, 2, Uneven::Pad).unwrap());
    let cancel = CancelFlag::new();
    let flag = cancel.clone();
    // Rank 1 has samples 15 to 29, five in each shard.
    let progress = ProgressFn::new(move |progress| {
        assert_eq!(progress.total, Some(15));
        if progress.done == 7 {
            flag.cancel();
        }
    });
    let stopped = WriteOptions { ranks: ranks(1), cancel, progress, ..limits(0, 0, 6) };
    let stopped = WriteOptions { threads: NonZeroUsize::new(1), ..stopped };
    let error = convert(&source, dir.path().join(name), &stopped).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    let options = WriteOptions { ranks: ranks(0), ..limits(0, 0, 6) };
    assert_eq!(convert(&source, dir.path().join(name), &options).unwrap().samples, 15);
    let options = WriteOptions { ranks: ranks(1), ..limits(0, 0, 6) };
    let report = convert(&source, dir.path().join(name), &options).unwrap();
    assert_eq!((report.samples, report.resumed > 0), (15, true));
    assert!(files(dir.path()) == whole);
    // Two of the six shards would stay beside four.
    for rank in 0..2 {
        let fewer = WriteOptions { ranks: ranks(rank), overwrite: true, ..limits(0, 0, 4) };
        let error = convert(&source, dir.path().join(name), &fewer).unwrap_err().to_string();
        assert!(error.contains("another of the 4 new files"), "{error}");
        assert!(files(dir.path()) == whole);
    }
}

#[test]
fn ranks_need_shards_and_their_number() {
    let ranks = Some(Ranks::new(0, 2, Uneven::Pad).unwrap());
    for (name, options, said) in [
        ("x.beton", limits(0, 0, 2), "several ranks write shards"),
        ("x", limits(0, 0, 2), "several ranks write shards"),
        ("x-{0}.tar", limits(3, 0, 0), "set shards"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let options = WriteOptions { ranks, ..options };
        let error = convert(&classes(4), dir.path().join(name), &options).unwrap_err();
        assert!(error.to_string().contains(said), "{name}: {error}");
        assert!(files(dir.path()).is_empty());
    }
}

#[test]
fn a_beton_of_parts_is_the_beton_written_in_one() {
    for samples in [0, 1, 40, 50] {
        let source = drawn(samples);
        let parts = converted(&source, "x.beton", &limits(20, 0, 0));
        let whole = converted(&source, "x.beton", &limits(0, 0, 0));
        assert!(parts == whole, "{samples}");
        let beton = Beton::from_bytes(whole["x.beton"].clone(), &Limits::SMALL.into()).unwrap();
        assert_eq!(beton.len(), samples);
        for id in beton.samples() {
            assert_eq!(Source::read(&beton, id).unwrap(), source.read(id).unwrap());
        }
    }
}

/// Hostile keys, each of them twice.
fn hostile(n: u64) -> Option<String> {
    let keys = [
        "../x".to_owned(),
        "/etc/passwd".to_owned(),
        "a/../../../b".to_owned(),
        "nul\0nul".to_owned(),
        "é".repeat(150),
        "dots.in.it".to_owned(),
        "..".to_owned(),
        String::new(),
        "__meta__".to_owned(),
        "C:\\windows\\x".to_owned(),
        "same".to_owned(),
        "cat/7.jpg".to_owned(),
        "line\nfeed\x1b[2J".to_owned(),
    ];
    Some(keys[n as usize / 2 % keys.len()].clone())
}

#[test]
fn hostile_keys_stay_inside_an_archive_and_tell_samples_apart() {
    let source = Drawn { keys: hostile, ..classes(26) };
    let members = members(&converted(&source, "x.tar", &limits(0, 0, 0)));
    let mut keys = vec![];
    for pair in members.chunks(2) {
        let key = pair[0].0.strip_suffix(".jpg").unwrap();
        assert_eq!(pair[1].0, format!("{key}.cls"));
        let (folder, base) = key.rsplit_once('/').unwrap_or(("", key));
        assert!(!base.contains('.') && !base.is_empty(), "{key}");
        assert!(folder.split('/').all(|part| part != "..") && !key.starts_with('/'), "{key}");
        assert!(!key.contains(['\\', ':']) && !key.chars().any(char::is_control), "{key:?}");
        assert!(!key.starts_with("__") && pair[0].0.len() < 250, "{key}");
        keys.push(key.to_owned());
    }
    assert!(keys.contains(&"same".to_owned()) && keys.contains(&"cat/7".to_owned()));
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 26, "{keys:?}");
}

#[test]
fn a_folder_has_its_classes_and_nothing_outside() {
    let dir = tempfile::tempdir().unwrap();
    let source = Drawn { keys: hostile, ..classes(26) };
    let dst = dir.path().join("in/x/");
    fs::create_dir(dir.path().join("in")).unwrap();
    let report = convert(&source, &dst, &limits(0, 0, 0)).unwrap();
    let found = files(dir.path());
    assert_eq!((report.samples, report.files, found.len()), (26, 26, 26));
    for (n, class) in (0..26).map(|n| (n, n % 10)) {
        let begin = format!("in/x/{class:05}/{n:08}_");
        let (name, bytes) = found.range(begin.clone()..).next().unwrap();
        assert!(name.starts_with(&begin) && name.ends_with(".jpg"), "{name}");
        assert_eq!(name.matches('/').count(), 3, "{name}");
        assert!(*bytes == jpeg(n));
    }
}

#[cfg(unix)]
#[test]
fn a_link_in_a_folder_is_not_followed_out_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (dst, other) = (dir.path().join("x"), dir.path().join("other"));
    fs::create_dir(&dst).unwrap();
    fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&other, dst.join("00001")).unwrap();
    let options = WriteOptions { overwrite: true, ..limits(0, 0, 0) };
    let error = convert(&classes(5), &dst, &options).unwrap_err().to_string();
    assert!(error.contains("this file is not from a conversion"), "{error}");
    assert!(files(&other).is_empty());
}

#[test]
fn a_dataset_that_replaces_another_is_alone_in_its_folder() {
    let again = WriteOptions { overwrite: true, ..limits(0, 0, 0) };
    // Fewer samples and classes, more fields, fewer fields.
    let sources = [classes(40), classes(5), table(20), table(7), classes(30)];
    let dir = tempfile::tempdir().unwrap();
    let dst = dir.path().join("x");
    for source in &sources {
        convert(source, &dst, &again).unwrap();
        assert!(files(dir.path()) == converted(source, "x", &limits(0, 0, 0)));
        let folders = fs::read_dir(&dst).unwrap().flatten().map(|entry| entry.path());
        let is_empty =
            |dir: &PathBuf| fs::read_dir(dir).is_ok_and(|mut found| found.next().is_none());
        assert_eq!(folders.filter(is_empty).collect::<Vec<_>>(), Vec::<PathBuf>::new());
    }
    // A file that no conversion wrote may be the only one of its kind.
    for own in ["photo.jpg", "00001/photo.jpg", "00001/00000001/x", "0000001.jpg", "1/00000001jpg"]
    {
        let own = dst.join(own);
        fs::create_dir_all(own.parent().unwrap()).unwrap();
        fs::write(&own, "mine").unwrap();
        let before = files(dir.path());
        let error = convert(&classes(5), &dst, &again).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Parameter, "{error}");
        assert!(error.to_string().contains("is not from a conversion"), "{error}");
        assert!(files(dir.path()) == before, "{own:?}");
        fs::remove_file(&own).unwrap();
        let _ = fs::remove_dir(own.parent().unwrap());
    }
}

#[test]
fn names_of_classes_beside_other_shards_are_not_taken_for_those_of_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    let new = |name: &str, source: &dyn Source| {
        let samples = if name.contains('{') { 3 } else { 0 };
        let options = WriteOptions { overwrite: true, ..limits(samples, 0, 0) };
        convert(source, dir.path().join(name), &options).map_err(|error| error.to_string())
    };
    for (first, then) in [
        ("n-{0}.tar", "n-1.tar"),
        ("n-0.tar", "n-{0}.tar"),
        ("m-{000}-of-{N}.tar", "m-000-of-003.tar"),
    ] {
        new(first, &named(9)).unwrap();
        let before = files(dir.path());
        let error = new(then, &classes(3)).unwrap_err();
        assert!(
            error.contains(".classes.json") && error.contains("choose another name"),
            "{error}"
        );
        assert!(files(dir.path()) == before, "{then}");
        fs::remove_dir_all(dir.path()).unwrap();
        fs::create_dir(dir.path()).unwrap();
    }
    // A single file with names of its own is read by these.
    new("n-{0}.tar", &named(9)).unwrap();
    new("n-1.tar", &named(3)).unwrap();
    // The names of shards are found although one of them has names of its own.
    let all = Tar::open(dir.path().join("n-{0..2}.tar").to_str().unwrap(), &TarOptions::default());
    assert_eq!(all.unwrap().facts().class_names().unwrap(), named(9).names);
}

#[test]
fn a_folder_with_more_fields_has_a_table() {
    let found = converted(&table(20), "t", &limits(6, 0, 0));
    // Each sample has three more files: the second image and two arrays.
    assert_eq!(found.len(), 20 * 4 + 1);
    let table = String::from_utf8(found["t/metadata.jsonl"].clone()).unwrap();
    assert_eq!(table.lines().count(), 20);
    for (n, line) in table.lines().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["file_name"], format!("{n:08}.jpg"));
        assert_eq!(line["seg_file_name"], format!("{n:08}.seg.png"));
        assert_eq!((&line["label"], &line["meta"]["n"]), (&(n % 10).into(), &n.into()));
        assert_eq!(line["x"].as_f64().unwrap().to_bits(), (n as f64 / 7.0).to_bits());
        assert_eq!(line["b"].as_str().unwrap().len(), n % 3);
        assert!(found[&format!("t/{n:08}.depth.npy")].starts_with(b"\x93NUMPY"));
    }
}

#[test]
fn damaged_samples_end_it_or_are_left_out() {
    for (dst, source, options) in forms() {
        let source = Drawn { damaged: vec![1, 6], ..source };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(dst);
        let error = convert(&source, &path, &options).unwrap_err();
        assert_eq!(error.sample(), Some(SampleId(1)), "{error}");
        assert_eq!(error.to_string(), "sample 1: it is torn");
        // Complete chunks are recorded; if there are none, nothing is left.
        let left = files(dir.path());
        let is_noted = left.contains_key(&format!("{dst}.fuseloop-convert.json"));
        assert!(is_noted || left.is_empty(), "{dst}: {:?}", left.keys());
        let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..options };
        let report = convert(&source, &path, &skip).unwrap();
        assert_eq!((report.samples, report.skipped.count), (source.samples - 2, 2), "{dst}");
        assert_eq!(report.skipped.first[1].sample, SampleId(6));
        let left = files(dir.path()).into_keys().find(|name| name.contains("fuseloop"));
        assert_eq!(left, None, "{dst}");
    }
}

/// Converts, and refuses step `number`; returns `None` if there are fewer steps.
fn refused_at(
    source: &dyn Source,
    dst: &Path,
    options: &WriteOptions,
    number: usize,
) -> Option<Error> {
    failed_at(source, dst, options, number, |_| Err(io::ErrorKind::StorageFull.into()))
}

/// Converts, and answers step `number` with `answer`.
fn failed_at(
    source: &dyn Source,
    dst: &Path,
    options: &WriteOptions,
    number: usize,
    answer: impl Fn(FileStep<'_>) -> io::Result<()> + Sync,
) -> Option<Error> {
    let left = Mutex::new(number);
    let refuse = |step: FileStep<'_>| {
        let mut left = left.lock().unwrap();
        let is_last = *left == 0;
        *left = left.wrapping_sub(1);
        drop(left);
        if is_last { answer(step) } else { Ok(()) }
    };
    DatasetConversion::new(source, dst, options, &refuse, OutputFormat::of(dst))
        .unwrap()
        .run()
        .err()
}

#[test]
fn a_dataset_of_damaged_samples_alone_is_an_error() {
    for (dst, source, options) in forms() {
        let samples = source.samples;
        let source = Drawn { damaged: (0..samples).collect(), ..source };
        let options = WriteOptions { on_damaged: OnUnreadable::Skip, overwrite: true, ..options };
        let dir = tempfile::tempdir().unwrap();
        let dst = dir.path().join(dst);
        if dst.extension().is_some_and(|extension| extension == "beton") {
            fs::write(&dst, "old").unwrap();
        }
        let error = convert(&source, &dst, &options).unwrap_err().to_string();
        assert!(error.starts_with(&format!("all {samples} samples are damaged")), "{error}");
        assert!(error.ends_with("the first is sample 0: it is torn"), "{error}");
        // A file is complete or not replaced.
        assert!(
            !dst.is_file()
                || fs::read(&dst).unwrap() == b"old"
                || dst.extension().unwrap() != "beton"
        );
    }
    let nothing = converted(&classes(0), "x.beton", &limits(0, 0, 0));
    assert_eq!(nothing.len(), 1, "an empty dataset is none of damaged samples");
}

/// Options that need not change an image leave its file as it is, with alpha and samples of 16 bits.
#[cfg(all(feature = "webp", feature = "tiff"))]
#[test]
fn files_without_loss_stay_where_no_option_changes_them() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let cats = dir.path().join("photos/cat");
    fs::create_dir_all(&cats).unwrap();
    for (from, to) in [("webp/lossless_alpha.webp", "a.webp"), ("tiff/rgb16.tif", "b.tif")] {
        fs::copy(golden.join(from), cats.join(to)).unwrap();
    }
    let source = folder(&dir.path().join("photos"));
    let given: Vec<Vec<u8>> = files(&cats).into_values().collect();
    for (name, image) in [
        ("verify", ImageOptions { verify: true, ..ImageOptions::default() }),
        ("tiled", ImageOptions { tile: Some(Tile::default()), ..ImageOptions::default() }),
        ("size", ImageOptions { max_resolution: Some(9999), ..ImageOptions::default() }),
    ] {
        let options = WriteOptions { image, ..WriteOptions::default() };
        let dst = dir.path().join(name);
        let report = convert(&source, &dst, &options).unwrap();
        assert!(report.reencoded.is_empty(), "{name}");
        assert_eq!(files(&dst).into_values().collect::<Vec<_>>(), given, "{name}");
    }
}

/// Errors, and the list of the samples that were left out, name the files.
#[test]
fn damaged_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let cats = dir.path().join("photos/cat");
    fs::create_dir_all(&cats).unwrap();
    let mut whole = vec![];
    let encoder = jpeg_encoder::Encoder::new(&mut whole, 90);
    encoder.encode(&[7; 16 * 16], 16, 16, jpeg_encoder::ColorType::Luma).unwrap();
    let torn = cats.join("1.jpg");
    for (name, bytes) in [("0.jpg", &whole[..]), ("1.jpg", &whole[..9]), ("2.jpg", &whole)] {
        fs::write(cats.join(name), bytes).unwrap();
    }
    let source = folder(&dir.path().join("photos"));
    let image = ImageOptions { max_resolution: Some(8), ..ImageOptions::default() };
    for dst in ["x.beton", "x.tar", "x.tfrecord", "x"] {
        let dst = dir.path().join(dst);
        let options = WriteOptions { image: image.clone(), ..WriteOptions::default() };
        let error = convert(&source, &dst, &options).unwrap_err().to_string();
        assert!(error.contains(&format!("{torn:?}")), "{error}");
        let options = WriteOptions { on_damaged: OnUnreadable::Skip, ..options };
        let skipped = convert(&source, &dst, &options).unwrap().skipped;
        assert_eq!(skipped.first[0].path.as_ref(), Some(&torn));
    }
}

#[test]
fn folders_above_the_destination_are_made() {
    for (dst, source, options) in forms() {
        let above = converted(&source, &format!("new/er/{dst}"), &options);
        let want = converted(&source, dst, &options).into_iter();
        let want = want.map(|(name, bytes)| (format!("new/er/{name}"), bytes));
        assert!(above == want.collect::<BTreeMap<_, _>>(), "{dst}");
    }
}

#[test]
fn a_conversion_stopped_at_any_step_goes_on_to_the_same_bytes() {
    for (dst, source, options) in forms() {
        let want = converted(&source, dst, &options);
        let mut resumed = 0;
        for number in 0.. {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(dst);
            let Some(error) = refused_at(&source, &path, &options, number) else {
                assert!(number > 4, "{dst}: {number} steps only");
                break;
            };
            let message = error.to_string();
            assert!(message.contains("no storage space"), "{dst} {number}: {message}");
            let report = convert(&source, &path, &options).unwrap();
            assert_eq!(report.samples, source.samples);
            resumed += usize::from(report.resumed > 0);
            assert!(files(dir.path()) == want, "{dst} stopped at {number}");
        }
        let is_one = ["x.tar", "named.beton"].contains(&dst);
        assert!(resumed > 1 || is_one, "{dst}: {resumed} went on");
    }
}

/// Returns the size of all files in a folder.
fn size_of(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn a_beton_takes_two_percent_more_space_at_most_while_it_is_written() {
    let fields = vec![field("depth", array("<f4", &[1024])), field("label", FieldKind::Int)];
    let source = Drawn { fields, ..classes(2000) };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.beton");
    let most = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let measure = {
        let (dir, most) = (dir.path().to_owned(), std::sync::Arc::clone(&most));
        move || most.fetch_max(size_of(&dir), std::sync::atomic::Ordering::Relaxed)
    };
    let look = measure.clone();
    let progress = ProgressFn::new(move |_| {
        look();
    });
    let options = WriteOptions { progress, ..limits(200, 0, 0) };
    let watch = |_: FileStep<'_>| {
        measure();
        Ok(())
    };
    DatasetConversion::new(&source, &path, &options, &watch, OutputFormat::Beton)
        .unwrap()
        .run()
        .unwrap();
    let (most, len) = (most.load(std::sync::atomic::Ordering::Relaxed), size_of(dir.path()));
    assert!(len > 2000 * 4096 && most as f64 <= 1.02 * len as f64, "{most} of {len}");
}

/// The file that a link leads to is replaced, and its class names are beside it.
#[cfg(unix)]
#[test]
fn a_file_is_overwritten_through_a_link() {
    let again = WriteOptions { overwrite: true, ..limits(3, 0, 0) };
    for name in ["x.beton", "x.tar"] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("real")).unwrap();
        let (link, real) = (dir.path().join(name), dir.path().join("real").join(name));
        let options = if name == "x.tar" { limits(0, 0, 0) } else { again.clone() };
        let options = WriteOptions { overwrite: true, ..options };
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        convert(&named(9), &link, &options).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let beside = format!("real/{name}.classes.json");
        let found = files(dir.path());
        let found: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(found, [&*format!("real/{name}"), &*beside, name]);
        let names = match name {
            "x.tar" => Tar::open(link.to_str().unwrap(), &TarOptions::default())
                .unwrap()
                .facts()
                .class_names()
                .unwrap(),
            _ => Beton::open(&link, &Limits::SMALL.into()).unwrap().facts().class_names().unwrap(),
        };
        assert_eq!(names, named(9).names);
    }
}

/// The chunks of a `.beton` are records of its progress only.
#[test]
fn a_beton_has_the_same_bytes_in_any_number_of_chunks() {
    for source in [drawn(40), ints(40), table(40)] {
        let want = converted(&source, "x.beton", &limits(0, 0, 0));
        for samples in [1, 7, 40] {
            assert!(converted(&source, "x.beton", &limits(samples, 0, 0)) == want, "{samples}");
        }
    }
}

#[test]
fn what_is_recorded_of_a_beton_is_checked_before_it_is_continued() {
    let (source, options) = (drawn(20), limits(4, 0, 0));
    let want = converted(&source, "x.beton", &options);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 5] = [
        (".x.beton.fuseloop-allocations", |bytes| bytes[30] ^= 1),
        (".x.beton.fuseloop-allocations", |bytes| bytes.truncate(40)),
        // The row of the first sample.
        (".x.beton.fuseloop-resumed.partial", |bytes| bytes[24 + 9 * 1041 + 3] ^= 1),
        (".x.beton.fuseloop-resumed.partial", |bytes| bytes.truncate(9 * 1041)),
        (".x.beton.fuseloop-resumed.partial", Vec::clear),
    ];
    for (name, damage) in damages {
        // The steps of three chunks.
        refused_at(&source, &at("x.beton"), &options, 24).unwrap();
        let mut bytes = fs::read(at(name)).unwrap();
        damage(&mut bytes);
        fs::write(at(name), bytes).unwrap();
        let report = convert(&source, at("x.beton"), &options).unwrap();
        assert_eq!((report.samples, report.resumed), (20, 0), "{name}");
        assert!(files(dir.path()) == want, "{name}");
        fs::remove_file(at("x.beton")).unwrap();
    }
}

#[test]
fn notes_of_something_else_are_refused_and_replaced_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x-{000}.tar");
    let stop = |options: &WriteOptions| {
        refused_at(&classes(40), &path, options, 16).unwrap();
    };
    let five = limits(5, 0, 0);
    let message = |source: &Drawn, options: &WriteOptions| {
        convert(source, &path, options).unwrap_err().to_string()
    };
    stop(&five);
    let notes = dir.path().join("x-{000}.tar.fuseloop-convert.json");
    assert!(notes.is_file());
    assert!(message(&classes(41), &five).contains("another source"));
    assert!(
        message(&classes(40), &limits(6, 0, 0))
            .ends_with("an interrupted conversion has other options: `max_samples` was 5 and is 6")
    );
    let image = ImageOptions { max_resolution: Some(9), ..ImageOptions::default() };
    let smaller = WriteOptions { image, ..five.clone() };
    assert!(message(&classes(40), &smaller).ends_with("`max_resolution` was unset and is 9"));
    // The refused attempts have changed nothing: the right conversion resumes.
    assert!(convert(&classes(40), &path, &five).unwrap().resumed > 0);
    assert!(!notes.exists());

    let error = convert(&classes(40), &path, &five).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(error.to_string().contains("set `overwrite: true`"), "{error}");
    assert!(!notes.exists(), "notes of nothing");

    let seven = WriteOptions { overwrite: true, ..limits(7, 0, 0) };
    fs::write(&notes, "{\"fuseloop\":\"convert\",\"version\":99}\n").unwrap();
    let error = message(&classes(40), &seven);
    assert!(error.contains("x-006.tar") && error.contains("another of the 6 new files"), "{error}");
    for stale in ["x-006.tar", "x-007.tar"] {
        fs::remove_file(dir.path().join(stale)).unwrap();
    }
    convert(&classes(40), &path, &seven).unwrap();
    assert_eq!(files(dir.path()), converted(&classes(40), "x-{000}.tar", &limits(7, 0, 0)));
}

/// What wrote them is not known, and readers would take them for shards of the new set.
#[test]
fn shards_that_a_conversion_does_not_write_are_refused_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    let again = |name: &str, options: WriteOptions| {
        let options = WriteOptions { overwrite: true, ..options };
        convert(&classes(40), dir.path().join(name), &options).map_err(|error| error.to_string())
    };
    for (name, mine) in [("x-{000}.tar", "x-040.tar"), ("x-{000}.beton", "x-040.beton")] {
        fs::write(dir.path().join(mine), "mine").unwrap();
        let before = files(dir.path());
        let error = again(name, limits(0, 0, 4)).unwrap_err();
        assert!(error.contains(mine) && error.contains("another of the 4 new files"), "{error}");
        assert!(files(dir.path()) == before, "nothing is written");
        fs::remove_file(dir.path().join(mine)).unwrap();
        again(name, limits(0, 0, 4)).unwrap();
    }
    // The number of shards is known at the end only: all are there, and the file that is refused too.
    fs::write(dir.path().join("x-040.tar"), "mine").unwrap();
    let error = again("x-{000}.tar", limits(0, 40_000, 0)).unwrap_err();
    assert!(error.contains("x-040.tar") && error.contains("choose another name"), "{error}");
    assert_eq!(fs::read(dir.path().join("x-040.tar")).unwrap(), b"mine");
    fs::remove_file(dir.path().join("x-040.tar")).unwrap();
    fs::remove_file(dir.path().join("x-003.tar")).unwrap();
    let report = again("x-{000}.tar", limits(0, 40_000, 0)).unwrap();
    assert_eq!((report.samples, report.resumed > 0), (40, true), "only the rest is written again");
}

/// A folder of COCO's images has names of digits alone.
#[test]
fn images_that_are_named_by_long_numbers_are_not_those_of_a_conversion() {
    let again = WriteOptions { overwrite: true, ..limits(0, 0, 0) };
    for name in ["000000000139.jpg", "00000139.jpg"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), "mine").unwrap();
        let error = convert(&classes(5), dir.path(), &again).unwrap_err().to_string();
        assert!(error.contains("is not from a conversion"), "{error}");
        assert_eq!(fs::read(dir.path().join(name)).unwrap(), b"mine");
    }
}

/// A process killed before it has checked the destination does not gain the right to replace what is
/// there.
#[test]
fn what_is_there_is_kept_whenever_a_conversion_dies() {
    for (dst, source, options) in forms() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(dst);
        convert(&source, &path, &options).unwrap();
        let there = files(dir.path());
        for step in 0..6 {
            let left = Mutex::new(step);
            let die = |_: FileStep<'_>| {
                let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                *left -= 1;
                if *left < 0 { panic!("killed") } else { Ok(()) }
            };
            let job =
                DatasetConversion::new(&source, &path, &options, &die, OutputFormat::of(&path))
                    .unwrap();
            let _ = catch_unwind(AssertUnwindSafe(|| job.run()));
            let error = convert(&source, &path, &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{dst} {step}: {error}");
            assert!(files(dir.path()) == there, "{dst} {step}");
        }
        // The same if the first line was not written yet.
        let notes = dir.path().join(format!("{dst}.fuseloop-convert.json"));
        fs::write(notes, "").unwrap();
        let error = convert(&source, &path, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{dst}: {error}");
        assert!(files(dir.path()) == there, "{dst}");
    }
}

#[test]
fn torn_notes_and_missing_shards_are_made_again() {
    let (dst, source, options) = forms().into_iter().next().unwrap();
    let want = converted(&source, dst, &options);
    for cut in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(dst);
        refused_at(&source, &path, &options, 20).unwrap();
        let notes = dir.path().join(format!("{dst}.fuseloop-convert.json"));
        let mut text = fs::read(&notes).unwrap();
        match cut {
            0 => fs::remove_file(dir.path().join("x-001.tar")).unwrap(),
            1 => fs::write(dir.path().join("x-000.tar"), "short").unwrap(),
            2 => text.extend(b"{\"first\": 3}\ngarbage\n"),
            n => text.truncate(text.len() - 13 * n),
        }
        fs::write(&notes, text).unwrap();
        convert(&source, &path, &options).unwrap();
        assert!(files(dir.path()) == want, "{cut}");
    }
}

#[test]
fn two_conversions_to_one_place_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x-{0}.tar");
    let source = classes(9);
    let messages = Mutex::new(vec![]);
    let again = |step: FileStep<'_>| {
        if step == FileStep::Rename {
            let error = convert(&source, &path, &limits(3, 0, 0)).unwrap_err();
            messages.lock().unwrap().push(error.to_string());
        }
        Ok(())
    };
    let options = limits(3, 0, 0);
    DatasetConversion::new(&source, &path, &options, &again, OutputFormat::Tar)
        .unwrap()
        .run()
        .unwrap();
    let messages = messages.into_inner().unwrap();
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|message| message.contains("is being written by another process")));
    assert_eq!(files(dir.path()).len(), 3);
}

#[test]
fn options_and_fields_without_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = |source: &Drawn, dst: &str, options: &WriteOptions| {
        convert(source, dir.path().join(dst), options).unwrap_err().to_string()
    };
    assert!(message(&classes(3), "x-{0}.tar", &limits(2, 0, 2)).contains("not both"));
    let bytes = message(&classes(3), "x-{0}.beton", &limits(0, 9000, 0));
    assert!(bytes.contains("are cut by samples"), "{bytes}");
    let zero = WriteOptions { max_samples: Some(0), ..limits(0, 0, 0) };
    assert!(message(&classes(3), "x-{0}.tar", &zero).contains("at least 1"));
    assert!(message(&classes(3), "x.tar.gz", &limits(0, 0, 0)).contains("compressed"));
    let no_image = Drawn { fields: vec![field("i", FieldKind::Int)], ..classes(3) };
    assert!(message(&no_image, "x", &limits(0, 0, 0)).contains("needs a field of images"));
    let kind = FieldKind::Custom { row_size: 3, align: 1 };
    let custom = Drawn { fields: vec![field("c", kind)], ..classes(3) };
    for dst in ["x.beton", "x.tar", "x.tfrecord"] {
        assert!(message(&custom, dst, &limits(0, 0, 0)).contains("user-defined"), "{dst}");
    }
    assert!(files(dir.path()).is_empty());
}

#[test]
fn a_jpeg_without_a_size_gets_its_own_in_a_beton() {
    let mut jpeg = vec![];
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
    encoder.encode(&[7; 20 * 10 * 3], 20, 10, jpeg_encoder::ColorType::Rgb).unwrap();
    // Like a tar shard or a folder, the source has not read the JPEG's header.
    let images = Column::images(vec![OwnedImage::jpeg(jpeg.clone()); 2]);
    let source = InMemory::new([("jpg", images)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.beton");
    convert(&source, &path, &WriteOptions::default()).unwrap();
    let beton = Beton::open(&path, &Limits::SMALL.into()).unwrap();
    let OwnedValue::Image(image) = beton.owned(SampleId(1), 0).unwrap() else { panic!() };
    assert_eq!((image.width, image.height, image.bytes), (20, 10, jpeg));
}

/// Replaces the last `"end"` in the journal.
fn with_end(notes: &Path, end: u64) {
    let text = fs::read_to_string(notes).unwrap();
    let at = text.rfind("\"end\":").unwrap() + 6;
    let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
    fs::write(notes, format!("{}{end}{}", &text[..at], &text[at + digits..])).unwrap();
}

#[test]
fn notes_of_samples_that_are_not_in_the_source_lose_none() {
    let (dst, source, options) = forms().into_iter().next().unwrap();
    let want = converted(&source, dst, &options);
    for end in [source.samples - 1, source.samples, source.samples + 1000, u64::MAX] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(dst);
        refused_at(&source, &path, &options, 20).unwrap();
        with_end(&dir.path().join(format!("{dst}.fuseloop-convert.json")), end);
        let report = convert(&source, &path, &options).unwrap();
        assert_eq!(report.samples, source.samples, "{end}");
        assert!(files(dir.path()) == want, "{end}");
    }
}

/// A folder `photos` with 40 files of one class, and a table of them.
fn photos() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("photos/cat")).unwrap();
    let mut table = "path,label\n".to_owned();
    for n in 0..40 {
        let name = format!("photos/cat/{n:02}.jpg");
        fs::write(dir.path().join(&name), jpeg(n)).unwrap();
        table.push_str(&format!("{name},{n}\n"));
    }
    fs::write(dir.path().join("labels.csv"), table).unwrap();
    dir
}

fn folder(path: &Path) -> Folder {
    Folder::open(path, &FolderOptions::default()).unwrap()
}

#[test]
fn a_source_that_changed_under_the_same_names_is_another() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 3] = [
        ("photos", |dir| fs::write(dir.join("photos/cat/03.jpg"), jpeg(99)).unwrap()),
        ("photos", |dir| {
            let file = fs::File::options().write(true).open(dir.join("photos/cat/30.jpg")).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }),
        ("labels.csv", |dir| {
            let text = fs::read_to_string(dir.join("labels.csv")).unwrap();
            fs::write(dir.join("labels.csv"), text.replace(",0\n", ",41\n")).unwrap();
        }),
    ];
    for (index, (name, change)) in changes.into_iter().enumerate() {
        let dir = photos();
        let out = tempfile::tempdir().unwrap();
        let (src, dst) = (dir.path().join(name), out.path().join("x-{000}.tar"));
        refused_at(&folder(&src), &dst, &limits(5, 0, 0), 20).unwrap();
        change(dir.path());
        let error = convert(&folder(&src), &dst, &limits(5, 0, 0)).map(drop).unwrap_err();
        assert!(error.to_string().contains("the source has changed"), "{index}: {error}");
    }
}

/// No conversion writes where it reads, whatever path names the destination.
#[test]
fn a_destination_that_is_the_source_or_lies_one_in_the_other_is_refused() {
    let dir = photos();
    let path = dir.path();
    fs::create_dir(path.join("shards")).unwrap();
    convert(&classes(9), path.join("shards/x-{000}.tar"), &limits(3, 0, 0)).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("photos/cat", path.join("link")).unwrap();
    let before = files(path);
    let tar =
        Tar::open(path.join("shards/x-{000..002}.tar").to_str().unwrap(), &TarOptions::default())
            .unwrap();
    let photos = folder(&path.join("photos"));
    let options = WriteOptions { overwrite: true, ..limits(0, 0, 0) };
    let refused = |source: &dyn Source, dst: &str| {
        let message = convert(source, path.join(dst), &options).map(drop).unwrap_err().to_string();
        assert!(message.contains("choose a different output"), "{dst}: {message}");
        assert!(files(path) == before, "{dst}");
    };
    let mut same = vec!["photos", "photos/", "photos/cat/..", "photos/cat", "photos/new/x", "./"];
    same.extend(["none/../photos/new", "photos/index.json", "photos/new/index.json"]);
    if cfg!(unix) {
        same.extend(["link", "link/new", "link/.."]);
    }
    for dst in same {
        refused(&photos, dst);
    }
    for dst in ["shards/x-{000}.tar", "photos/../shards/x-%03d.tar", "shards/x-001.tar", "shards"] {
        refused(&tar, dst);
    }
    refused(&folder(&path.join("labels.csv")), "photos/cat");
    // Destinations beside the source are allowed.
    for dst in ["photos.tar", "cats", "photos/x-{000}.tar", "shards/photos-{000}.tfrecord"] {
        convert(&photos, path.join(dst), &WriteOptions::default()).unwrap();
    }
    convert(&tar, path.join("shards/y-{000}.tar"), &WriteOptions::default()).unwrap();
}

#[test]
fn every_row_of_a_beton_is_in_its_fingerprint() {
    let source = Drawn { fields: vec![field("n", FieldKind::Int)], ..classes(3000) };
    let bytes = converted(&source, "x.beton", &limits(0, 0, 0)).remove("x.beton").unwrap();
    let open = |bytes: Vec<u8>| Beton::from_bytes(bytes, &OpenOptions::default()).unwrap();
    let beton = open(bytes.clone());
    let rows = beton.header().sample_table_start() as usize;
    for row in [0, 1, 2, 1499, 2999] {
        let mut other = bytes.clone();
        other[rows + row * beton.row_bytes()] ^= 1;
        assert_ne!(open(other).facts().fingerprint, beton.facts().fingerprint, "row {row}");
    }
}

#[test]
fn tensorflow_s_names_are_shortened_and_said() {
    let fields = vec![
        field("image/encoded", FieldKind::RgbImage),
        field("image/class/label", FieldKind::Int),
    ];
    let source = Drawn { fields, ..classes(4) };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let none = convert(&source, at("x.tfrecord"), &limits(0, 0, 0)).unwrap();
    assert_eq!(none.renamed, vec![]);
    let records =
        crate::source::TfRecords::open(at("x.tfrecord").to_str().unwrap(), &TfOptions::default())
            .unwrap();
    assert_eq!(*records.facts().fields, *source.fields, "in their order");
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    for dst in ["x.beton", "x.tar", "x"] {
        let report = convert(&records, at(dst), &limits(0, 0, 0)).unwrap();
        let want = vec![pair("image/encoded", "image"), pair("image/class/label", "label")];
        assert_eq!(report.renamed, want, "{dst}");
    }
    let beton = Beton::open(at("x.beton"), &Limits::SMALL.into()).unwrap();
    assert_eq!(beton.fields().iter().map(|f| &*f.name).collect::<Vec<_>>(), ["image", "label"]);
    let rename = vec![pair("image/class/label", "y")];
    let options = WriteOptions { rename, ..limits(0, 0, 0) };
    let report = convert(&records, at("y.beton"), &options).unwrap();
    assert_eq!(report.renamed, vec![pair("image/class/label", "y")], "all others fit");
}

/// The number of a video is no class, and what a tar does not keep of a clip store is said.
#[test]
fn the_frames_of_a_clip_store_do_not_become_classes() {
    let frame = [field("image", FieldKind::RgbImage), field("video_index", FieldKind::Int)];
    let store = |more: &[FieldSpec]| Drawn { fields: [&frame, more].concat(), ..classes(4) };
    let has = |files: &BTreeMap<String, Vec<u8>>, end: &str| {
        members(files).iter().filter(|(name, _)| name.ends_with(end)).count()
    };
    let options = limits(0, 0, 0);
    let plain = converted(&store(&[]), "x.tar", &options);
    assert_eq!((has(&plain, ".cls"), has(&plain, ".video_index.id")), (0, 4));
    let labelled = converted(&store(&[field("label", FieldKind::Int)]), "x.tar", &options);
    assert_eq!((has(&labelled, ".cls"), has(&labelled, ".video_index.id")), (4, 4));
    let files = converted(&store(&[]), "x", &options);
    assert!(files.keys().any(|name| name.ends_with("metadata.jsonl")), "{:?}", files.keys());

    let dir = tempfile::tempdir().unwrap();
    let notes = |source: &Drawn, name: &str| {
        convert(source, dir.path().join(name), &options).unwrap().notes.join("\n")
    };
    let said = notes(&store(&[]), "x.tar");
    assert!(said.contains("keep the .beton to read clips") && said.contains("--videos files"));
    assert_eq!(notes(&classes(4), "y.tar"), "");
    let tar = crate::source::Dataset::open(dir.path().join("x.tar")).unwrap().source().unwrap();
    assert_eq!(tar.field_index("label"), None);
    assert_eq!(
        tar.field_index("video_index"),
        tar.fields().iter().position(|f| f.kind == FieldKind::Int)
    );
}

/// `FUSELOOP_STEP_FAULTS=1000` makes every step from 0 to 999 fail.
#[test]
fn the_nth_step_that_fails_is_an_error_with_its_path_and_an_interrupted_one_is_none() {
    each_step_may_fail("x-{000}.tar");
    each_step_may_fail("index.json");
    if cfg!(feature = "parquet") {
        each_step_may_fail("x-{000}.parquet");
    }
}

fn each_step_may_fail(name: &str) {
    let (source, options) = (classes(200), limits(1, 0, 0));
    let want = converted(&source, name, &options);
    let tried = fuseloop_counts::rounds::<u64>("FUSELOOP_STEP_FAULTS");
    for number in fuseloop_counts::numbers("FUSELOOP_STEP_FAULTS") {
        let number = (number * 1000 / tried) as usize;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("io")).unwrap();
        let failed = |_: FileStep<'_>| Err(io::Error::from_raw_os_error(5));
        let failure = failed_at(&source, &at("io").join(name), &options, number, failed);
        let message = failure.unwrap().to_string();
        assert!(message.contains(at("io").to_str().unwrap()), "{number}: {message}");
        assert!(message.contains("os error 5"), "{number}: {message}");

        fs::create_dir(at("cut")).unwrap();
        let interrupted = |step: FileStep<'_>| match step {
            FileStep::Write { .. } => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        };
        let failure = failed_at(&source, &at("cut").join(name), &options, number, interrupted);
        assert!(failure.is_none() && files(&at("cut")) == want, "{number}: {failure:?}");
    }
}

#[test]
fn a_record_of_another_shape_than_the_first_is_an_error_of_its_own() {
    let of =
        |shape: &[u64]| Drawn { fields: vec![field("depth", array("<f4", shape))], ..classes(2) };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    convert(&of(&[2, 3]), at("a.tfrecord"), &limits(0, 0, 0)).unwrap();
    convert(&of(&[3, 2]), at("b.tfrecord"), &limits(0, 0, 0)).unwrap();
    let records = crate::source::TfRecords::open(
        at("{a,b}.tfrecord").to_str().unwrap(),
        &TfOptions::default(),
    )
    .unwrap();
    assert_eq!(*records.facts().fields, *of(&[2, 3]).fields);
    assert!(records.read(SampleId(1)).is_ok());
    let message = records.read(SampleId(2)).unwrap_err().to_string();
    assert!(
        message.contains("b.tfrecord") && message.ends_with("as in the first record"),
        "{message}"
    );
}

#[test]
fn progress_counts_on_from_chunk_to_chunk() {
    let seen = std::sync::Arc::new(Mutex::new(vec![]));
    let list = std::sync::Arc::clone(&seen);
    let progress = ProgressFn::new(move |progress| list.lock().unwrap().push(progress));
    converted(&classes(7), "x.beton", &WriteOptions { progress, ..limits(3, 0, 0) });
    let mut counts: Vec<_> =
        seen.lock().unwrap().iter().map(|p| (p.done, p.resumed, p.total)).collect();
    counts.sort_unstable();
    assert_eq!(counts, (1..=7).map(|done| (done, 0, Some(7))).collect::<Vec<_>>());
}
