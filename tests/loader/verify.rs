//! The findings of `verify`: damage of each kind and its position, the same for any number of threads;
//! and contradictions between a file's tables.

use crate::common::dataset::{self, damage, varied};
use fuseloop::internals::source::beton::Allocation;
use fuseloop::internals::verify::layout;
use fuseloop::source::OpenOptions;
use fuseloop::source::{
    Beton, Facts, FieldKind, FieldSpec, InMemory, OwnedImage, OwnedValue, Source,
};
use fuseloop::verify::{DamageKind, VerifyOptions, VerifyReport, verify};
use fuseloop::write::{FieldValue, WriteMode, WriteOptions, write_iter};
use fuseloop::{CancelFlag, ErrorKind, SampleId};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of samples in the files here: more than one of the groups that a thread checks.
const SAMPLES: u64 = 150;

fn open(path: &Path) -> Beton {
    Beton::open(path, &OpenOptions::default()).unwrap()
}

/// Checks with one thread and with several, whose reports must agree.
fn check(source: &dyn Source) -> VerifyReport {
    let run = |threads| {
        let threads = NonZeroUsize::new(threads);
        let reported = AtomicU64::new(0);
        let progress = |samples| {
            reported.fetch_add(samples, Ordering::Relaxed);
        };
        let report =
            verify(source, &VerifyOptions { threads, ..VerifyOptions::default() }, &progress)
                .unwrap();
        assert_eq!((reported.into_inner(), report.samples), (source.len(), source.len()));
        report
    };
    let [one, two, seven] = [1, 2, 7].map(run);
    for other in [&two, &seven] {
        assert_eq!(in_parts(&one), in_parts(other));
    }
    one
}

/// All contents of a report.
fn in_parts(report: &VerifyReport) -> (String, Vec<SampleId>) {
    let good = report.good().collect();
    let VerifyReport { values, pictures, pixels, bytes, damaged_samples, troubles, first, .. } =
        report;
    let numbers = (values, pictures, pixels, bytes, damaged_samples);
    (format!("{numbers:?} {troubles:?} {first:?}"), good)
}

/// The only damaged value: its sample, field, offset, and error.
fn only(report: &VerifyReport) -> (u64, &str, Option<u64>, String) {
    assert_eq!((report.damaged_samples, report.damaged_values()), (1, 1), "{:?}", report.first);
    let damaged = &report.first[0];
    assert!(report.good().all(|sample| sample != damaged.sample));
    assert_eq!(report.good().count() as u64, report.samples - 1);
    (damaged.sample.0, &damaged.field, damaged.offset, damaged.error.to_string())
}

/// The byte range of a sample's image in the file.
fn picture(path: &Path, sample: u64) -> Range<u64> {
    open(path).locate(SampleId(sample), 0).unwrap().bytes.unwrap()
}

/// The offset of the sample table's cell for a sample's image.
fn cell(path: &Path, sample: u64) -> usize {
    let file = open(path);
    (file.header().sample_table_start() + sample * file.row_bytes() as u64) as usize
}

fn indices(range: Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// The report on a file of images after `change`.
fn found_after(
    mode: WriteMode,
    change: impl FnOnce(&Path, &mut Vec<u8>),
) -> (VerifyReport, std::path::PathBuf, tempfile::TempDir) {
    let (dir, path) = dataset::write(SAMPLES, mode, varied);
    let at = path.clone();
    damage(&path, |bytes| change(&at, bytes));
    (check(&open(&path)), path, dir)
}

#[test]
fn an_undamaged_file_is_whole() {
    for mode in [WriteMode::Jpg, WriteMode::Raw] {
        let (report, path, _dir) = found_after(mode, |_, _| {});
        assert!(report.is_whole() && report.first.is_empty() && report.troubles.is_empty());
        assert_eq!((report.values, report.pictures), (2 * SAMPLES, SAMPLES));
        let pixels: u64 = (0..SAMPLES).map(|sample| varied(sample).pixels()).sum();
        assert_eq!(report.pixels, pixels);
        assert!(report.good().eq((0..SAMPLES).map(SampleId)));

        let tables = layout(&open(&path)).unwrap();
        assert!(tables.is_whole());
        assert_eq!((tables.records, tables.value_bytes), (SAMPLES, report.bytes));
        assert_eq!(tables.unreferenced.count + tables.shared.count + tables.no_sample.count, 0);
        assert_eq!(tables.across_pages.count + tables.several_pages.count, 0);
    }
}

#[test]
fn a_picture_cut_short_is_found() {
    let (report, path, _dir) = found_after(WriteMode::Jpg, |path, bytes| {
        let picture = indices(picture(path, 70));
        let half = picture.len() / 2;
        bytes[picture][half..].fill(0);
    });
    let (sample, field, offset, error) = only(&report);
    assert_eq!((sample, field, offset), (70, "image", Some(picture(&path, 70).start)));
    assert!(error.contains("cut short"), "{error}");
    assert_eq!(report.troubles[&DamageKind::PictureCut], 1);
}

#[test]
fn what_is_no_picture_is_found() {
    let (report, path, _dir) = found_after(WriteMode::Jpg, |path, bytes| {
        bytes[indices(picture(path, 149))].fill(7);
    });
    let found = only(&report);
    let error = "not an image of a known format: it begins with [07, 07, 07, 07, 07, 07, 07, 07]"
        .to_owned();
    assert_eq!(found, (149, "image", Some(picture(&path, 149).start), error));
    assert_eq!(report.troubles[&DamageKind::PictureDamaged], 1);
}

#[test]
fn a_picture_of_another_size_than_its_cell_says_is_found() {
    let (report, _, _dir) =
        found_after(WriteMode::Jpg, |path, bytes| bytes[cell(path, 5) + 1] ^= 1);
    let (sample, _, _, error) = only(&report);
    assert!(sample == 5 && error.contains("header says"), "{error}");
    let (report, path, _dir) =
        found_after(WriteMode::Raw, |path, bytes| bytes[cell(path, 5) + 1] ^= 1);
    let (_, _, offset, error) = only(&report);
    assert!(error.contains("a raw image of"), "{error}");
    assert!(offset.is_some_and(|at| at > cell(&path, SAMPLES) as u64));
}

#[test]
fn a_cell_that_makes_no_sense_is_found() {
    let (report, path, _dir) = found_after(WriteMode::Jpg, |path, bytes| bytes[cell(path, 64)] = 9);
    let at = cell(&path, 64);
    let error =
        format!("image mode 9, expected 0 (JPEG) or 1 (raw), in the sample table at byte {at}");
    assert_eq!(only(&report), (64, "image", Some(at as u64), error));
    assert_eq!(report.troubles[&DamageKind::Cell], 1);
    // The image's bytes are still in the file, but no sample refers to them.
    let tables = layout(&open(&path)).unwrap();
    assert!(tables.is_whole() && tables.unreferenced.count == 1);
    assert_eq!(tables.unreferenced.first.map(|record| record.sample), Some(64));
}

#[test]
fn a_pointer_that_leads_nowhere_is_found() {
    let (report, _, _dir) = found_after(WriteMode::Jpg, |path, bytes| {
        let at = cell(path, 63) + 5;
        bytes[at..at + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
    });
    let error = format!("no record of the allocation table begins at byte {}", 1u64 << 40);
    assert_eq!(only(&report), (63, "image", Some(1 << 40), error));
    assert_eq!(report.troubles[&DamageKind::Pointer], 1);
}

/// The record's own size extends beyond the data.
#[test]
fn a_record_that_leads_outside_the_data_is_found() {
    let (report, path, _dir) = found_after(WriteMode::Jpg, |path, bytes| {
        let table = open(path).header().alloc_table_ptr as usize;
        let size = table + 149 * Allocation::SIZE + 16;
        bytes[size..size + 8].copy_from_slice(&(1u64 << 29).to_le_bytes());
    });
    let (sample, _, _, error) = only(&report);
    assert!(sample == 149 && error.contains("lie outside the data"), "{error}");
    let tables = layout(&open(&path)).unwrap();
    assert!(!tables.is_whole());
    assert_eq!((tables.outside.count, tables.across_pages.count), (1, 1));
}

#[test]
fn a_file_cut_while_it_is_open_is_found() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    let file = open(&path);
    let middle = picture(&path, 100).start + 10;
    let cut = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    cut.set_len(middle).unwrap();
    let report = check(&file);
    assert_eq!(report.troubles, [(DamageKind::FileCut, 50)].into());
    assert!(report.good().eq((0..100).map(SampleId)));
    assert!(report.first[0].error.to_string().ends_with("the file ends after 10 of them"));
    assert!(Beton::open(&path, &OpenOptions::default()).is_err(), "opened anew, it is refused");
}

#[test]
fn damage_in_many_samples_is_counted_and_the_first_are_kept() {
    let field = FieldSpec { name: "text".to_owned(), kind: FieldKind::Json };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("texts.beton");
    let rows = (0..3000).map(|n| vec![FieldValue::Json(serde_json::json!({ "n": n }))]);
    write_iter(rows, &[field], &path, &WriteOptions::default()).unwrap();
    let file = open(&path);
    damage(&path, |bytes| {
        for sample in (0..3000).filter(|sample| sample % 2 == 1) {
            let at = indices(file.locate(SampleId(sample), 0).unwrap().bytes.unwrap());
            bytes[at][0] = b'}';
        }
    });
    let report = check(&open(&path));
    assert_eq!(report.troubles, [(DamageKind::Json, 1500)].into());
    assert_eq!((report.damaged_samples, report.damaged_values()), (1500, 1500));
    assert_eq!(report.first.len(), 1000);
    let first = report.first.iter().map(|damaged| damaged.sample.0);
    assert!(first.eq((0..1000).map(|k| 2 * k + 1)));
    assert!(report.good().eq((0..1500).map(|k| SampleId(2 * k))));
    let error = report.first[0].error.to_string();
    assert_eq!(error, "not JSON: a value was expected at byte 0 of 9");
}

#[test]
fn a_limit_checks_the_first_samples() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    let options = VerifyOptions { limit: Some(70), ..VerifyOptions::default() };
    let report = verify(&open(&path), &options, &|_| {}).unwrap();
    assert_eq!((report.samples, report.pictures), (70, 70));
    assert!(report.good().eq((0..70).map(SampleId)));
}

#[test]
fn a_cancelled_check_is_an_error() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Raw, varied);
    for threads in [1, 3] {
        let (cancel, threads) = (CancelFlag::new(), NonZeroUsize::new(threads));
        let options = VerifyOptions { threads, cancel: cancel.clone(), ..VerifyOptions::default() };
        let checked = AtomicU64::new(0);
        let progress = |samples| {
            checked.fetch_add(samples, Ordering::Relaxed);
            cancel.cancel();
        };
        let error = verify(&open(&path), &options, &progress).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::Cancelled, "the check was cancelled".into())
        );
        let checked = checked.into_inner();
        assert!(checked > 0 && (threads != NonZeroUsize::new(1) || checked == 64), "{checked}");
    }
}

/// Two samples that share one image are a note; two records that overlap are damage.
#[test]
fn tables_that_disagree_are_found() {
    let (_dir, path) = dataset::write(20, WriteMode::Jpg, varied);
    let (first, second) = (picture(&path, 3), picture(&path, 4));
    let cells = [3, 4].map(|sample| cell(&path, sample));
    damage(&path, |bytes| bytes.copy_within(cells[0]..cells[0] + 13, cells[1]));
    let report = check(&open(&path));
    assert!(report.is_whole(), "the same picture, twice");
    let tables = layout(&open(&path)).unwrap();
    assert!(tables.is_whole());
    let shared = &tables.shared;
    let both = Some([SampleId(3), SampleId(4)]);
    assert_eq!((shared.count, shared.bytes, shared.first), (1, first.end - first.start, both));
    assert_eq!(
        (tables.unreferenced.count, tables.unreferenced.bytes),
        (1, second.end - second.start)
    );

    let table = open(&path).header().alloc_table_ptr as usize;
    let size = table + 3 * Allocation::SIZE + 16;
    damage(&path, |bytes| {
        let more = first.end - first.start + 100;
        bytes[size..size + 8].copy_from_slice(&more.to_le_bytes());
        bytes[table + 7 * Allocation::SIZE] = 77; // a record of sample 77
    });
    let tables = layout(&open(&path)).unwrap();
    assert!(!tables.is_whole());
    assert_eq!((tables.overlapping.count, tables.overlapping.bytes), (1, 100));
    assert_eq!(tables.no_sample.first.map(|record| record.sample), Some(77));
}

/// The page size is halved: values and samples that were in one page now span two.
#[test]
fn what_lies_across_pages_is_noted() {
    let (_dir, path) = dataset::write(SAMPLES, WriteMode::Jpg, varied);
    damage(&path, |bytes| bytes[4..8].copy_from_slice(&4096u32.to_le_bytes()));
    let tables = layout(&open(&path)).unwrap();
    assert!(tables.is_whole());
    assert!(tables.across_pages.count > 10);
    assert_eq!(tables.several_pages.count, tables.across_pages.count, "one value a sample");
    assert!(check(&open(&path)).is_whole());
}

#[test]
fn a_source_of_the_user_s_is_checked_as_well() {
    let facts = Facts::new([("image", FieldKind::RgbImage), ("label", FieldKind::Int)], 100);
    // Some can't be read; one panics.
    let records = InMemory::from_fn(facts, |sample| match sample.0 {
        7 => Err("gone".into()),
        8 => panic!("no eighth"),
        9 => Ok(vec![OwnedValue::Int(1), OwnedValue::Int(1)]),
        n => {
            let image = OwnedImage::rgb((2, 3), vec![n as u8; 18]);
            Ok(vec![OwnedValue::Image(image), OwnedValue::Int(1)])
        }
    });
    std::panic::set_hook(Box::new(|_| {}));
    let report = check(&records);
    let _ = std::panic::take_hook();
    let found: Vec<String> = report.first.iter().map(ToString::to_string).collect();
    assert_eq!(found[0], "sample 7 (image): gone");
    assert_eq!(found[1], "sample 8 (image): panicked: no eighth");
    assert!(
        found
            .last()
            .unwrap()
            .starts_with("sample 9 (image): field image is of the kind image, the record has")
    );
    assert_eq!(report.damaged_samples, 3);
    assert_eq!(report.troubles[&DamageKind::Source], 2);
}
