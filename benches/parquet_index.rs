//! Opens 100 Parquet files of 10,000 rows, and finds the positions of all images, with and without an index.
//!
//! The files are as `datasets` writes them: images of 300 bytes in `struct<bytes, path>`, neither compressed nor coded, a
//! label, and row groups of 100 rows.
//!
//! | row    | measures                                                            |
//! |--------|---------------------------------------------------------------------|
//! | open   | `Dataset::open`: footers, and the index                             |
//! | first  | the first image of each row group, which finds those of the others  |
//! | memory | what the process has grown by after both, by its resident pages     |
//!
//! Everything runs in the page cache; the times are medians of the rounds. One thread: `taskset -c 0`.
//!
//! ```text
//! cargo bench --features parquet --bench parquet_index
//! cargo bench --features parquet --bench parquet_index -- --test     two small files, once
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use fuseloop::SampleId;
use fuseloop::source::{Buffer, Dataset, Source, index_shards};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::{self, File};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The rows of a row group.
const GROUP: u64 = 100;

/// The bytes of an image.
const IMAGE: usize = 300;

fn main() {
    let once = std::env::args().any(|word| word == "--test" || word == "nothing");
    let (files, rows, rounds) = if once { (2, 300, 1) } else { (100, 10_000, 5) };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for file in 0..files {
        write(&dir.path().join(format!("train-{file:05}-of-{files:05}.parquet")), rows);
    }
    println!("{files} files of {rows} rows, {} row groups each", rows / GROUP);
    report("without an index", dir.path(), rounds);
    let begun = Instant::now();
    let report_of = index_shards(dir.path().to_str().unwrap(), &|_, _| {}).unwrap();
    let per = report_of.bytes as f64 / report_of.samples as f64;
    println!("an index of {per:.1} bytes a sample, written in {:.2?}", begun.elapsed());
    report("with an index", dir.path(), rounds);
}

fn report(what: &str, dir: &Path, rounds: usize) {
    let (mut opens, mut firsts, mut grown) = (vec![], vec![], 0.0);
    for _ in 0..rounds {
        let before = resident();
        let (source, open) = timed(|| Dataset::open(dir).unwrap().source().unwrap());
        let ((), first) = timed(|| first_of_groups(&*source));
        grown = resident().saturating_sub(before) as f64 / source.len() as f64;
        opens.push(open);
        firsts.push(first);
        // A dataset of the first round would hide what the next one takes.
        if rounds > 1 && opens.len() == 1 {
            println!("{what}: the first round grows the process by {grown:.1} bytes a sample");
        }
    }
    let (open, first) = (median(opens), median(firsts));
    println!("{what}: open {open:.2?}, first {first:.2?}, last round {grown:.1} bytes a sample");
}

fn first_of_groups(source: &dyn Source) {
    let mut buffer = Buffer::default();
    for sample in (0..source.len()).step_by(GROUP as usize) {
        black_box(source.value(SampleId(sample), 0, &mut buffer).unwrap());
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let value = work();
    (value, begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The bytes of the process that are in memory.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

fn write(path: &Path, rows: u64) {
    let schema = "message schema { optional group image { optional binary bytes; optional binary path (UTF8); } optional \
                  int64 label; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .build();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    for first in (0..rows).step_by(GROUP as usize) {
        let mut group = writer.next_row_group().unwrap();
        let bytes = |text: Vec<u8>| ByteArray::from(text);
        let image = |row: u64| {
            let noise = (0..IMAGE as u64).map(|at| (at.wrapping_mul(row + 7) >> 3) as u8);
            bytes([0xff, 0xd8, 0xff].into_iter().chain(noise).collect())
        };
        let rows = first..first + GROUP;
        let images: Vec<_> = rows.clone().map(image).collect();
        let paths: Vec<_> =
            rows.clone().map(|row| bytes(format!("{row}.jpg").into_bytes())).collect();
        for values in [images, paths] {
            let mut column = group.next_column().unwrap().unwrap();
            column
                .typed::<ByteArrayType>()
                .write_batch(&values, Some(&[2; GROUP as usize]), None)
                .unwrap();
            column.close().unwrap();
        }
        let labels: Vec<i64> = rows.map(|row| row as i64 % 10).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&labels, Some(&[1; GROUP as usize]), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}
