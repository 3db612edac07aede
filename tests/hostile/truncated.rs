//! Files that are cut short while they are open, or that are larger than they should be: each gives an
//! error that names the sample and the position. There is never a signal, and never memory allocated
//! because a number in the file asks for it.

use crate::common::paged::{Disk, Faults, Pages, run_over};
use fuseloop::internals::assert_says;
use fuseloop::internals::source::beton::Header;
use fuseloop::internals::source::beton::PagedBeton;
use fuseloop::source::{
    Beton, BoxError, Buffer, Facts, FieldKind, OpenOptions, ProcessCache, Record, Run, Source,
    Value,
};
use fuseloop::{Batch, ErrorKind, Limits, Loader, OnDamaged, SampleId};
use std::fs::{File, OpenOptions as FileOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SAMPLES: usize = 200;
const PAGE: u32 = 4096;

fn pages() -> Pages {
    let mut pages = Pages::new(PAGE);
    (0..SAMPLES).for_each(|_| pages.add([300, 100]));
    pages
}

fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.beton");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn cut(path: &Path, len: u64) {
    FileOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// Cuts a file under a loader that is at its third batch; returns the error, and the number of batches
/// before it.
fn cut_under(loader: &Loader, path: &Path, len: u64) -> (usize, String) {
    let mut batches = loader.epoch(0).unwrap();
    let good: Vec<Batch> = batches.by_ref().take(2).map(Result::unwrap).collect();
    cut(path, len);
    let mut count = good.len();
    for batch in batches {
        match batch {
            Ok(_) => count += 1,
            Err(error) => {
                let mut message = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    message.push_str(&format!(": {error}"));
                    cause = error.source();
                }
                return (count, message);
            }
        }
    }
    panic!("{count} batches of a file that was cut");
}

fn assert_names_the_sample(message: &str, cut: u64) {
    assert!(message.contains("the file ends after"), "{message}");
    assert!(message.contains("sample ") && message.contains("bytes at byte "), "{message}");
    let number = |after: &str| -> u64 {
        let rest = message.split(after).nth(1).unwrap();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    assert!(number("sample ") < SAMPLES as u64, "{message}");
    assert!(number("bytes at byte ") + 300 > cut, "{message}");
}

#[test]
fn a_file_cut_under_a_running_loader_is_an_error_that_names_the_sample() {
    let parts = pages();
    let lens = [0, parts.start() + 5, parts.start() + 7 * u64::from(PAGE) + 1234];
    for len in lens {
        let (_dir, path) = written(&parts.bytes());
        let plain =
            Loader::open(&path).unwrap().in_memory(false).batch_size(8).workers(2).build().unwrap();
        let (batches, message) = cut_under(&plain, &path, len);
        assert!(batches < SAMPLES / 8, "{batches}");
        assert_names_the_sample(&message, len);

        let (_dir, path) = written(&parts.bytes());
        let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
        let source = PagedBeton::new(beton, ProcessCache::default());
        let paged = Loader::from_source(source).batch_size(8).workers(2).build().unwrap();
        let (_, message) = cut_under(&paged, &path, len);
        assert_names_the_sample(&message, len);
    }
}

/// The field that is stored last in its page.
const LAST: usize = 2;

/// A file's samples in reverse order. The file is cut within its last value as soon as the first sample
/// has been read, as if the cut had happened during the read.
struct CutOnce {
    beton: Beton,
    path: PathBuf,
    len: u64,
    is_cut: AtomicBool,
}

impl Source for CutOnce {
    fn facts(&self) -> &Facts {
        self.beton.facts()
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        Source::read(&self.beton, SampleId(self.beton.facts().samples - 1 - sample.0))
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let sample = SampleId(self.beton.facts().samples - 1 - sample.0);
        let value = Source::value(&self.beton, sample, field, buffer);
        if field == LAST && !self.is_cut.swap(true, Ordering::Relaxed) {
            cut(&self.path, self.len);
        }
        value
    }
}

/// Several rows are read before the file's length is checked. The other rows are whole.
#[test]
fn a_file_cut_while_rows_are_read_costs_the_row_that_was_cut() {
    let parts = pages();
    let last = Beton::from_bytes(parts.bytes(), &OpenOptions::default()).unwrap();
    let last = Source::locate(&last, SampleId(SAMPLES as u64 - 1), LAST).unwrap().bytes.unwrap();
    let build = |on_damaged| {
        let (dir, path) = written(&parts.bytes());
        let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
        let source = CutOnce { beton, path, len: last.start + 60, is_cut: false.into() };
        let builder = Loader::from_source(source).batch_size(8).workers(1).batches_ahead(1);
        (dir, builder.on_damaged(on_damaged).build().unwrap())
    };
    let (_dir, loader) = build(OnDamaged::Fail);
    let error = loader.epoch(0).unwrap().next().unwrap().unwrap_err();
    assert_says(error, ["sample 0: ", "the file ends after 60"]);

    let (_dir, loader) = build(OnDamaged::Skip);
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    assert_eq!((batch.len(), batch.skipped().len()), (7, 1));
}

/// The same with pages that are read ahead: values read before the cut are good, values behind it give
/// the plain reader's error.
#[test]
fn a_file_cut_under_its_pages_gives_what_is_left() {
    let parts = pages();
    let (_dir, path) = written(&parts.bytes());
    let whole = Beton::from_bytes(parts.bytes(), &OpenOptions::default()).unwrap();
    let source = Arc::new(PagedBeton::new(
        Beton::open(&path, &OpenOptions::default()).unwrap(),
        ProcessCache { budget_bytes: 1 << 20, ..ProcessCache::default() },
    ));
    let all: Vec<usize> = (0..SAMPLES).collect();
    let view = Arc::clone(&source).begin(&run_over(&all, 4)).unwrap().unwrap();
    let end = parts.start() + 15 * u64::from(PAGE) + 750;
    let (mut buffer, mut failed) = (Buffer::default(), 0);
    for sample in (0..SAMPLES as u64).map(SampleId) {
        if sample.0 == 20 {
            cut(&path, end); // long before the reader gets that far
        }
        for field in [0, 2] {
            let want = whole.owned(sample, field).unwrap();
            match view.value(sample, field, &mut buffer) {
                Ok(value) => assert_eq!(value, want.borrowed()),
                Err(error) => {
                    let plainly = source.beton().owned(sample, field).unwrap_err();
                    assert!(plainly.to_string().contains(": the file ends after "), "{plainly}");
                    assert_eq!(error.to_string(), plainly.to_string());
                    failed += 1;
                }
            }
        }
    }
    // There are ten samples per page: the first and one value of the second are left of page 15.
    assert_eq!(failed, 2 * (SAMPLES - 151) - 1);
}

#[test]
fn a_file_cut_while_its_tables_are_read_is_refused() {
    let bytes = pages().bytes();
    let tables = Header::SIZE as u64 + 3 * 1041;
    for len in [0, 10, 24, 1000, tables, tables + 100, bytes.len() as u64 - 1] {
        let disk = Disk::new(bytes.clone());
        disk.set(Faults { cut: Some(len), ..Faults::default() });
        let opened = Beton::from_reader(disk, &OpenOptions::default());
        // The allocation table is not needed without images.
        assert_eq!(opened.is_ok(), len == bytes.len() as u64 - 1, "{len}");
    }
}

// --- Sizes ------------------------------------------------------------------------------------

/// A header and descriptors of these kinds, and nothing else.
fn head(kinds: &[FieldKind], num_samples: u64, alloc_table_ptr: u64) -> Vec<u8> {
    let num_fields = kinds.len() as u16;
    let header = Header { num_fields, page_size: 1 << 21, num_samples, alloc_table_ptr };
    let mut bytes = header.to_bytes().to_vec();
    for (index, kind) in kinds.iter().enumerate() {
        let name = format!("field {index}");
        let field = fuseloop::source::FieldSpec { name, kind: kind.clone() };
        bytes.extend(field.to_bytes().unwrap());
    }
    bytes
}

/// A sparse file: only the head takes room on the disk.
fn sparse(head: &[u8], len: u64) -> Option<(tempfile::TempDir, PathBuf)> {
    let (dir, path) = written(head);
    let mut file: File = FileOptions::new().append(true).open(&path).unwrap();
    file.flush().unwrap();
    if let Err(error) = file.set_len(len) {
        println!("skipped: no file of {len} bytes here: {error}");
        return None;
    }
    Some((dir, path))
}

#[test]
fn tables_of_a_terabyte_are_refused_at_once() {
    const TERABYTE: u64 = 1 << 40;
    // 2^36 rows of 16 bytes; then a table of allocation records, which is used to look up an image's size.
    let rows = head(&[FieldKind::Bytes], TERABYTE / 16, 2 * TERABYTE);
    let records = head(&[FieldKind::RgbImage], 3, 2 * TERABYTE - 24 * (TERABYTE / 24));
    for bytes in [rows, records] {
        let Some((_dir, path)) = sparse(&bytes, 2 * TERABYTE) else { return };
        let begun = Instant::now();
        let error = Beton::open(&path, &OpenOptions::default()).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let is_limit = error.to_string().contains(": tables of ");
        assert!(is_limit && error.kind() == ErrorKind::Memory, "{error}");
    }
}

#[test]
fn the_limit_of_tables_is_the_callers() {
    let bytes = pages().bytes();
    let needed = 24 + 3 * 1041 + SAMPLES as u64 * 40;
    let open = |max_table_bytes| {
        let limits = Limits { max_table_bytes, ..Limits::DEFAULT };
        Beton::from_bytes(bytes.clone(), &limits.into()).map(|beton| beton.facts().samples)
    };
    assert_eq!(open(needed).unwrap(), SAMPLES as u64);
    let message = open(needed - 1).unwrap_err().to_string();
    assert_eq!(message, format!("tables of {needed} bytes, the limit is {}", needed - 1));
}

/// The pages of a file of 2 TB are read at their offsets; no memory is allocated for the others.
#[test]
fn a_file_of_two_terabytes_is_read_by_pages() {
    const LEN: u64 = 2 << 40;
    let array = FieldKind::NdArray { dtype: "|u1".parse().unwrap(), shape: vec![1000] };
    let samples = 100u64;
    let mut bytes = head(&[array], samples, LEN);
    let ptr = |sample: u64| LEN - (1 << 21) * (1 + sample * 1000);
    bytes.extend((0..samples).flat_map(|sample| ptr(sample).to_le_bytes()));
    let Some((_dir, path)) = sparse(&bytes, LEN) else { return };
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let source = Arc::new(PagedBeton::new(beton, ProcessCache::default()));
    let run = fuseloop::source::RunPlan {
        seed: 0,
        fields: vec![0],
        ..run_over(&(0..samples as usize).collect::<Vec<_>>(), 4)
    };
    let view = Arc::clone(&source).begin(&run).unwrap().unwrap();
    let mut buffer = Buffer::default();
    for sample in (0..samples).map(SampleId) {
        let value = view.value(sample, 0, &mut buffer).unwrap();
        assert_eq!(value, Value::NdArray(&[0; 1000]));
    }
    let stats = source.stats();
    assert_eq!((stats.pages_read, stats.bytes_read), (samples, samples * 1000), "{stats:?}");
}

/// Page sizes that no writer uses: every value is in a page of its own, or in none.
#[test]
fn any_page_size_will_do() {
    let bytes = pages().bytes();
    for page_size in [1u32, 2, 256, 1 << 31] {
        let mut bytes = bytes.clone();
        bytes[4..8].copy_from_slice(&page_size.to_le_bytes());
        let disk = Disk::new(bytes);
        let Ok(beton) = Beton::from_reader(disk, &OpenOptions::default()) else { continue };
        let whole = contents_of(&beton);
        let source = Arc::new(PagedBeton::new(beton, ProcessCache::default()));
        let all: Vec<usize> = (0..SAMPLES).collect();
        let view = Arc::clone(&source).begin(&run_over(&all, 4)).unwrap();
        let view = view.unwrap_or_else(|| Run::new(Arc::clone(&source) as Arc<dyn Source>));
        let mut buffer = Buffer::default();
        for (sample, want) in whole.iter().enumerate() {
            let value = view.value(SampleId(sample as u64), 0, &mut buffer).unwrap();
            assert_eq!(value, want.borrowed(), "pages of {page_size}");
        }
    }
}

fn contents_of(beton: &Beton) -> Vec<fuseloop::source::OwnedValue> {
    beton.samples().map(|sample| beton.owned(sample, 0).unwrap()).collect()
}
