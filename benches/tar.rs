//! Tar shards against plain reads of the same bytes: 400 MB in members of 100 KB.
//!
//! ```text
//! in sequence    a pass over TarStream             against reading the file in pieces of 256 KiB
//! from disk      the same, for a file that the system is asked to drop from its cache before each pass
//! at random      value() of every sample, mixed    against reading the same ranges into one buffer
//! ```
//!
//! The two take turns, nine times; the ratio is the ratio of the medians. The aim is 95 % in
//! sequence, 90 % at random. The yardstick's buffers start at a memory page, because otherwise the
//! kernel's copy alone may take six times as long: see `skew` in `source/file.rs`.
//!
//! ```text
//! cargo bench --bench tar              all
//! cargo bench --bench tar -- --test    a small shard, once
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use fuseloop::source::stream::{Pass, Streamed};
use fuseloop::source::{As, Buffer, Source, Tar, TarOptions, TarStream, Value};
use fuseloop::{Epoch, SampleId};
use rustix::fs::Advice;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const MEMBER: usize = 100_000;
const PIECE: usize = 256 << 10;
const PASS: Pass = Pass { seed: 1, epoch: Epoch(0), turn: 0 };

fn main() {
    let once = std::env::args().any(|word| word == "--test" || word == "nothing");
    let (members, rounds) = if once { (20, 1) } else { (4000, 9) };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    write(&path, members);
    let spec = path.to_str().unwrap();
    let options = TarOptions::default().field("bin", "bin", As::Bytes);
    let stream = TarStream::open(spec, &options).unwrap();
    let (mut bare, mut ours) = (|| plain(&path), || sequence(&stream, members));
    compare("from disk", 95.0, rounds, || forget(&path), &mut bare, &mut ours);
    // The file is now in the cache as reading leaves it there, which differs from the state after
    // writing.
    compare("in sequence", 95.0, rounds, || {}, &mut bare, &mut ours);
    let tar = Tar::open(spec, &options).unwrap();
    let order = mixed(tar.facts().samples);
    let (mut bare, mut ours) = (|| ranges(&path, &tar, &order), || values(&tar, &order));
    compare("at random", 90.0, rounds, || {}, &mut bare, &mut ours);
}

/// Runs both in turn, and prints the second's speed relative to the first.
fn compare(
    what: &str,
    aim: f64,
    rounds: usize,
    before: impl Fn(),
    bare: &mut dyn FnMut() -> u64,
    ours: &mut dyn FnMut() -> u64,
) {
    let rate = |run: &mut dyn FnMut() -> u64| {
        before();
        let begun = Instant::now();
        let bytes = run();
        bytes as f64 / begun.elapsed().as_secs_f64() / 1e9
    };
    let mut rates = [vec![], vec![]];
    for _ in 0..rounds {
        rates[0].push(rate(bare));
        rates[1].push(rate(ours));
    }
    let [bare, ours] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let share = ours / bare * 100.0;
    let verdict = if share >= aim { String::new() } else { format!("  aim: {aim:.0} %") };
    println!("{what:>12}: {bare:.2} GB/s plain, {ours:.2} GB/s ours, {share:.1} %{verdict}");
}

fn write(path: &Path, members: usize) {
    let mut builder = tar::Builder::new(BufWriter::new(File::create(path).unwrap()));
    let data: Vec<u8> = (0..MEMBER).map(|at| (at * 7) as u8).collect();
    for member in 0..members {
        let mut header = tar::Header::new_ustar();
        header.set_size(MEMBER as u64);
        builder.append_data(&mut header, format!("{member:06}.bin"), &data[..]).unwrap();
    }
    builder.finish().unwrap();
    // The system can drop only bytes that have been written to the disk.
    builder.into_inner().unwrap().into_inner().unwrap().sync_all().unwrap();
}

fn forget(path: &Path) {
    rustix::fs::fadvise(File::open(path).unwrap(), 0, None, Advice::DontNeed).unwrap();
}

/// Returns memory that contains `len` bytes starting at a memory page, and their range in it.
fn pages(len: usize) -> (Vec<u8>, std::ops::Range<usize>) {
    let memory = vec![0; len + 4096];
    let start = memory.as_ptr().align_offset(4096);
    (memory, start..start + len)
}

fn plain(path: &Path) -> u64 {
    let (mut file, (mut memory, range), mut bytes) = (File::open(path).unwrap(), pages(PIECE), 0);
    let piece = &mut memory[range];
    loop {
        match file.read(piece).unwrap() {
            0 => return bytes,
            count => bytes += black_box(&piece[..count]).len() as u64,
        }
    }
}

fn sequence(stream: &TarStream, members: usize) -> u64 {
    let (mut items, mut count, mut bytes) = (stream.open(&PASS).unwrap(), 0, 0);
    while let Some(item) = items.next().unwrap() {
        black_box(&item);
        count += 1;
        // Counts the header and the padding too, as the plain read does.
        bytes += (MEMBER.next_multiple_of(512) + 512) as u64;
    }
    assert_eq!(count, members);
    bytes
}

/// Returns all samples in an order without locality.
fn mixed(samples: u64) -> Vec<SampleId> {
    let step = (samples * 5 / 8) | 1;
    let step = (step..).step_by(2).find(|step| gcd(*step, samples) == 1).unwrap();
    (0..samples).map(|index| SampleId(index * step % samples)).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn ranges(path: &Path, tar: &Tar, order: &[SampleId]) -> u64 {
    let (file, (mut memory, range), mut bytes) = (File::open(path).unwrap(), pages(MEMBER), 0);
    let buffer = &mut memory[range];
    for &sample in order {
        let range = tar.locate(sample, 0).and_then(|location| location.bytes).unwrap();
        file.read_exact_at(buffer, range.start).unwrap();
        bytes += black_box(&*buffer).len() as u64;
    }
    bytes
}

fn values(tar: &Tar, order: &[SampleId]) -> u64 {
    let (mut buffer, mut bytes) = (Buffer::default(), 0);
    for &sample in order {
        let value = tar.value(sample, 0, &mut buffer).unwrap();
        let Value::Bytes(found) = black_box(value) else { panic!("other than bytes") };
        bytes += found.len() as u64;
    }
    bytes
}
