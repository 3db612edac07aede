//! Tests of reads that return too little, are interrupted, fail or end early, at the n-th call of a
//! reader.
//!
//! | the n-th call          | what is read                                       |
//! |------------------------|----------------------------------------------------|
//! | one byte               | the same values                                    |
//! | `EINTR`                | the same values                                    |
//! | `EIO`                  | the same values before it, then an error with the file's name and the system's words |
//! | no byte: the file ends | the same, then an error with the file's name       |
//!
//! `FUSELOOP_FAULTS=1000` tries every n from 0 to 999; by default some of them.

use super::columnar::{RecordFile, RecordFiles, Values};
use super::file::{FileBytes, ReadAt};
use super::fixed_length;
use super::shards::{Shard, Shards};
use super::tar::{Tar, TarOptions};
use super::tfrecord::{TfOptions, TfRecords};
use super::{Beton, BoxError, Location, OpenOptions, Record, Source, masked_crc32c};
use crate::sample::{Limits, SampleId};
use crate::source::example::{BytesList, Example, ExampleFeature, Features, Int64List, Kind};
use prost::Message as _;
use std::fs;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the error `EIO` on Linux.
const EIO: i32 = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Short,
    Interrupted,
    Failed,
    Ended,
}

/// A file whose n-th read has a fault.
struct Faulty {
    bytes: Arc<[u8]>,
    calls: Arc<AtomicU64>,
    nth: u64,
    fault: Fault,
}

impl ReadAt for Faulty {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        let rest = self.bytes.get(start as usize..).unwrap_or_default();
        let most = rest.len().min(bytes.len());
        let is_it = self.calls.fetch_add(1, Ordering::Relaxed) == self.nth;
        let count = match self.fault {
            _ if !is_it => most,
            Fault::Short => most.min(1),
            Fault::Interrupted => return Err(io::ErrorKind::Interrupted.into()),
            Fault::Failed => return Err(io::Error::from_raw_os_error(EIO)),
            Fault::Ended => 0,
        };
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

type Open = fn(Faulty) -> Result<Box<dyn Source>, BoxError>;

/// Returns all records or the first error, and the number of calls.
fn read(
    bytes: &Arc<[u8]>,
    open: Open,
    nth: u64,
    fault: Fault,
) -> (Result<Vec<Record>, String>, u64) {
    let calls = Arc::new(AtomicU64::new(0));
    let faulty = Faulty { bytes: Arc::clone(bytes), calls: Arc::clone(&calls), nth, fault };
    let all = || -> Result<Vec<Record>, BoxError> {
        let source = open(faulty)?;
        (0..source.len()).map(|sample| source.read(SampleId(sample))).collect()
    };
    (all().map_err(|error| error.to_string()), calls.load(Ordering::Relaxed))
}

fn assert_faults_are_met(name: &str, bytes: Vec<u8>, least_calls: u64, open: Open) {
    let bytes: Arc<[u8]> = bytes.into();
    let (clean, calls) = read(&bytes, open, u64::MAX, Fault::Ended);
    let clean = clean.unwrap();
    assert!(calls >= least_calls && !clean.is_empty(), "{name}: {calls} calls");
    let tried = fuseloop_counts::rounds::<u64>("FUSELOOP_FAULTS");
    for nth in (0..tried).map(|n| n * calls.min(1000) / tried) {
        for fault in [Fault::Short, Fault::Interrupted, Fault::Failed, Fault::Ended] {
            let (found, _) = read(&bytes, open, nth, fault);
            match (found, fault) {
                (Ok(found), Fault::Short | Fault::Interrupted) => {
                    assert!(found == clean, "{name}, call {nth}, {fault:?}");
                }
                (Err(error), Fault::Failed | Fault::Ended) => {
                    assert!(error.contains(name), "{name}, call {nth}, {fault:?}: {error}");
                    let is_io = error.contains("os error 5");
                    assert_eq!(is_io, fault == Fault::Failed, "{name}, call {nth}: {error}");
                }
                (found, _) => {
                    panic!("{name}, call {nth}, {fault:?}: {:?}", found.map(|all| all.len()))
                }
            }
        }
    }
}

fn shards(name: &str, faulty: Faulty) -> Result<Shards, BoxError> {
    let bytes = Arc::new(FileBytes::from_reader(Arc::new(faulty))?);
    Ok(Shards::new([Shard { location: Location::Path(name.into()), bytes }]))
}

#[test]
fn a_tar_shard_gives_its_values_or_an_error_with_its_name() {
    let mut archive = tar::Builder::new(vec![]);
    for n in 0..250_u32 {
        for (ext, data) in [("bin", vec![n as u8; 40 + n as usize]), ("cls", vec![b'7'])] {
            let mut header = tar::Header::new_ustar();
            header.set_size(data.len() as u64);
            archive.append_data(&mut header, format!("{n:04}.{ext}"), &data[..]).unwrap();
        }
    }
    let bytes = archive.into_inner().unwrap();
    assert_faults_are_met("x.tar", bytes, 500, |faulty| {
        Ok(Box::new(Tar::of(shards("x.tar", faulty)?, &TarOptions::default())?))
    });
}

#[test]
fn a_tfrecord_file_gives_its_values_or_an_error_with_its_name() {
    let mut bytes = vec![];
    for n in 0..500_i64 {
        let value = vec![vec![n as u8; 30 + n as usize]];
        let kinds = [
            ("b", Kind::Bytes(BytesList { value })),
            ("n", Kind::Ints(Int64List { value: vec![n] })),
        ];
        let feature =
            kinds.map(|(name, kind)| (name.to_owned(), ExampleFeature { kind: Some(kind) }));
        let context = Some(Features { feature: feature.into() });
        let data = Example { context, lists: None }.encode_to_vec();
        let length = (data.len() as u64).to_le_bytes();
        bytes.extend(length);
        bytes.extend(masked_crc32c(&length).to_le_bytes());
        bytes.extend(&data);
        bytes.extend(masked_crc32c(&data).to_le_bytes());
    }
    assert_faults_are_met("x.tfrecord", bytes, 500, |faulty| {
        let options = TfOptions::default();
        Ok(Box::new(TfRecords::of_shards(shards("x.tfrecord", faulty)?, &options)?))
    });
}

/// The images are read for each sample. The labels are held in memory since the files were opened.
#[test]
fn an_idx_file_gives_its_values_or_an_error_with_its_name() {
    // 500 images of 4 x 5 pixels.
    let mut images = vec![0, 0, 8, 3, 0, 0, 1, 0xf4, 0, 0, 0, 4, 0, 0, 0, 5];
    images.extend((0..10_000_u32).map(|n| (n % 251) as u8));
    assert_faults_are_met("train-images-idx3-ubyte", images, 500, |faulty| {
        let labels = [&[0, 0, 8, 1, 0, 0, 1, 0xf4][..], &[7; 500]].concat();
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("train-images-idx3-ubyte");
        fs::write(&path, &faulty.bytes)?;
        fs::write(dir.path().join("train-labels-idx1-ubyte"), labels)?;
        let mut source = fixed_length::open(&path, &Limits::DEFAULT)?;
        if let Values::Records(images) = &mut source.columns[0].values {
            let bytes = FileBytes::from_reader(Arc::new(faulty))?;
            let files = vec![RecordFile { path, bytes, is_packed: false }];
            images.files = Arc::new(RecordFiles { files, starts: [500].into_iter().collect() });
        }
        Ok(Box::new(source))
    });
}

#[test]
fn a_beton_gives_its_values_or_an_error() {
    let packed = include_bytes!("../../tests/golden/beton/all_fields_2MiB.beton.gz");
    let mut bytes = vec![];
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    // A source that is not a local file has no path: the error names it by the offsets of its bytes.
    assert_faults_are_met("byte", bytes, 20, |faulty| {
        Ok(Box::new(Beton::from_reader(faulty, &OpenOptions::default())?))
    });
}
