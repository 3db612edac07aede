//! Files that are cut, replaced, deleted or overwritten at random moments while
//! they are read. Each read returns the old bytes or an error that names the file;
//! there is never a panic, a signal or a hang. A file that is overwritten in place
//! may also give new bytes or a mixture, which only checksums can detect.
//!
//! `FUSELOOP_MOMENTS` is the number of moments for each combination of a reading method and a change: 8
//! by default, which makes 224.

use fuseloop::source::stream::Pass;
use fuseloop::source::{
    BoxError, Dataset, Facts, FieldKind, InMemory, OwnedValue, Record, Source, Stream, TarOptions,
    TarStream, TfOptions, TfRecordStream,
};
use fuseloop::write::{WriteOptions, convert};
use fuseloop::{Epoch, SampleId};
use fuseloop_counts::rounds;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const SAMPLES: u64 = 60;
const PASS: Pass = Pass { seed: 1, epoch: Epoch(0), turn: 0 };

/// Returns records that show their version and sample number. Records have the same sizes in all versions.
fn made(version: u64) -> InMemory {
    let facts = Facts::new([("bin", FieldKind::Bytes)], SAMPLES);
    InMemory::from_fn(facts, move |SampleId(sample)| Ok(record(version, sample)))
}

fn record(version: u64, sample: u64) -> Record {
    let len = 300 + sample * 37 % 900 + 40_000 * u64::from(sample % 17 == 3);
    let byte = |at: u64| (version * 101 + sample * 31 + at * 7 + (at >> 8)) as u8;
    vec![OwnedValue::Bytes((0..len).map(byte).collect())]
}

/// A method of reading a file.
#[derive(Clone, Copy, Debug)]
struct Way {
    file: &'static str,
    in_sequence: bool,
    /// True if checksums detect bytes that differ from those written.
    has_checksums: bool,
}

const WAYS: [Way; 7] = [
    Way { file: "a.beton", in_sequence: false, has_checksums: false },
    Way { file: "a.tar", in_sequence: false, has_checksums: false },
    Way { file: "a.tar", in_sequence: true, has_checksums: false },
    Way { file: "a.tar.gz", in_sequence: true, has_checksums: false },
    Way { file: "a.tfrecord", in_sequence: false, has_checksums: true },
    Way { file: "a.tfrecord", in_sequence: true, has_checksums: true },
    Way { file: "a.tfrecord.gz", in_sequence: true, has_checksums: true },
];

enum Reader {
    Source(Arc<dyn Source>),
    Stream(Stream),
}

impl Way {
    fn open(&self, path: &Path) -> Reader {
        let text = path.to_str().unwrap();
        match Dataset::open(path).unwrap() {
            Dataset::Stream(stream) => Reader::Stream(stream),
            _ if self.in_sequence && self.has_checksums => {
                Reader::Stream(TfRecordStream::open(text, &TfOptions::default()).unwrap().into())
            }
            _ if self.in_sequence => {
                Reader::Stream(TarStream::open(text, &TarOptions::default()).unwrap().into())
            }
            dataset => Reader::Source(dataset.source().unwrap()),
        }
    }

    /// The bytes of a version's file.
    fn bytes(&self, version: u64) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let plain = self.file.trim_end_matches(".gz");
        let path = dir.path().join(plain);
        convert(&made(version), &path, &WriteOptions::default()).unwrap();
        let bytes = fs::read(path).unwrap();
        if plain == self.file {
            return bytes;
        }
        // Stored without compression, so that all versions have the same size.
        let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::none());
        gz.write_all(&bytes).unwrap();
        gz.finish().unwrap()
    }

    /// The offsets at which the records of a TFRecord file end; none for other files.
    fn record_ends(&self, bytes: &[u8]) -> Vec<u64> {
        let mut ends = vec![];
        let mut end = 0;
        while self.file == "a.tfrecord" && end < bytes.len() {
            let len = u64::from_le_bytes(bytes[end..end + 8].try_into().unwrap());
            end += 16 + len as usize;
            ends.push(end as u64);
        }
        ends
    }
}

/// The results of reading every sample in order, until reading can't continue.
fn read(reader: &Reader) -> Vec<Result<Record, String>> {
    let message = |error: BoxError| error.to_string();
    match reader {
        Reader::Source(source) => {
            let read = |sample| source.read(SampleId(sample)).map_err(message);
            (0..SAMPLES).map(read).collect()
        }
        Reader::Stream(stream) => {
            let mut all = vec![];
            let mut items = match stream.open(&PASS) {
                Ok(items) => items,
                Err(error) => return vec![Err(message(error))],
            };
            loop {
                match items.next() {
                    Ok(None) => return all,
                    Ok(Some(item)) => all.push(item.read().map_err(message)),
                    Err(error) => all.push(Err(message(error))),
                }
                assert!(all.len() as u64 <= 2 * SAMPLES, "it does not end");
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Cut,
    Replace,
    Delete,
    WriteOver,
}

impl Change {
    fn make(self, path: &Path, new: &[u8], len: u64) {
        match self {
            Self::Cut => {
                fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
            }
            Self::Replace => {
                let beside = path.with_extension("new");
                fs::write(&beside, new).unwrap();
                fs::rename(beside, path).unwrap();
            }
            Self::Delete => fs::remove_file(path).unwrap(),
            Self::WriteOver => {
                fs::OpenOptions::new().write(true).open(path).unwrap().write_all(new).unwrap();
            }
        }
    }
}

/// Checks the results of a read and returns the number of errors among them.
fn check(way: Way, change: Change, found: &[Result<Record, String>]) -> usize {
    let versions = [0, 1];
    let mut errors = 0;
    for (sample, found) in (0..).zip(found) {
        let context = || format!("{way:?}, {change:?}, sample {sample}");
        match found {
            Ok(record) => {
                let is_of = |version: &u64| self::record(*version, sample) == *record;
                let may_be_new =
                    change == Change::WriteOver || change == Change::Replace && way.in_sequence;
                // Without checksums, nothing shows that half of a value is of another version.
                let is_told = change != Change::WriteOver || way.has_checksums;
                let is_known = is_of(&versions[0]) || may_be_new && is_of(&versions[1]);
                assert!(is_known || !is_told, "{}", context());
            }
            Err(error) => {
                errors += 1;
                assert!(change != Change::Replace && change != Change::Delete || way.in_sequence);
                assert!(error.contains(way.file), "{}: {error}", context());
            }
        }
    }
    let is_whole = found.len() as u64 == SAMPLES;
    assert!(is_whole || errors > 0 || change == Change::WriteOver, "{way:?}, {change:?}");
    errors
}

#[test]
fn what_changes_while_it_is_read_is_as_it_was_or_an_error() {
    let moments: u64 = rounds("FUSELOOP_MOMENTS");
    let dir = tempfile::tempdir().unwrap();
    let (mut state, mut errors) = (0x9e37_79b9_7f4a_7c15_u64, [0; 4]);
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for way in WAYS {
        let (old, new) = (way.bytes(0), way.bytes(1));
        assert!(old.len() == new.len() && old != new);
        let record_ends = way.record_ends(&old);
        let path = dir.path().join(way.file);
        fs::write(&path, &old).unwrap();
        let reader = way.open(&path);
        let begun = Instant::now();
        assert_eq!(check(way, Change::Cut, &read(&reader)), 0);
        let took = begun.elapsed().as_nanos() as u64;
        let changes = [Change::Cut, Change::Replace, Change::Delete, Change::WriteOver];
        for (change, errors) in changes.into_iter().zip(&mut errors) {
            for _ in 0..moments {
                fs::write(&path, &old).unwrap();
                let reader = way.open(&path);
                let wait = below(took);
                // A file that ends between two members or records counts as complete, if it is opened after the cut.
                // Members of tar files end at even offsets.
                let mut len = below(old.len() as u64) | 1;
                len -= u64::from(record_ends.contains(&len));
                let found = thread::scope(|scope| {
                    let reading = scope.spawn(|| read(&reader));
                    thread::sleep(Duration::from_nanos(wait));
                    change.make(&path, &new, len);
                    reading.join().unwrap()
                });
                *errors += check(way, change, &found);
                // A second read must not return other bytes undetected either.
                if change == Change::Cut {
                    check(way, change, &read(&reader));
                }
            }
        }
    }
    assert!(errors[0] > 0, "nothing was cut before it was read");
}
