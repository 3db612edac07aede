//! Shards cut at every byte, with every bit flipped, and from disks that return a few bytes at a time.

use super::build::usual;
use super::*;
use crate::source::file::FileBytes;
use crate::source::shards::Shard;
use crate::source::tar::scan;
use crate::source::{Location, ReadAt};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn every_kind_of_header_is_understood() {
    let read = both(&usual(), &small()).unwrap();
    let long = "n".repeat(120);
    let keys: Vec<_> = read.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["train/1", &format!("train/{long}"), "train/3"]);
    let record =
        |text: &[u8], label| vec![OwnedValue::Bytes(text.to_vec()), OwnedValue::Int(label)];
    let records: Vec<_> = read.into_iter().map(|(_, record)| record.unwrap()).collect();
    assert_eq!(records, [record(b"one", 1), record(b"two", 2), record(&[b'3'; 700], 3)]);
}

#[test]
fn a_shard_cut_at_any_byte_is_refused_or_ends_between_members() {
    let whole = usual();
    let all = both(&whole, &small()).unwrap();
    let mut refused = 0;
    for len in 0..whole.len() {
        match both(&whole[..len], &small()) {
            Err(_) => refused += 1,
            Ok(found) => {
                assert!(len % 512 == 0 || len > whole.len() - 512, "{len} bytes were read");
                // Members of the last sample may be missing: the archive does not say so.
                let (_, before) = found.split_last().unwrap();
                assert_eq!(before, &all[..before.len()], "{len} bytes");
            }
        }
    }
    assert!(refused > whole.len() * 9 / 10, "{refused}");
    let packed = gz(&whole);
    for len in 0..packed.len() {
        let stream = TarStream::from_bytes(&packed[..len], &small());
        let read =
            stream.map_err(|error| error.to_string()).and_then(|stream| in_sequence(&stream));
        assert!(read.is_err(), "{len} packed bytes");
    }
}

#[test]
fn a_turned_bit_in_a_header_is_seen() {
    let whole = usual();
    let all = both(&whole, &small()).unwrap();
    let is_header = |block: &[u8]| block.get(257..262) == Some(b"ustar");
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let read = both(&bytes, &small());
        let (start, offset) = (bit / 8 / 512 * 512, bit / 8 % 512);
        if is_header(&whole[start..start + 512]) {
            // In the checksum field, a leading zero may have become a space.
            let is_same = (148..156).contains(&offset) && read == Ok(all.clone());
            assert!(read.is_err() || is_same, "bit {bit}");
        }
    }
    let packed = gz(&whole);
    for bit in 0..packed.len() * 8 {
        let mut bytes = packed.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(stream) = TarStream::from_bytes(&bytes, &small()) else { continue };
        let read = in_sequence(&stream);
        assert!(read.is_err() || read == Ok(all.clone()), "packed bit {bit}");
    }
}

/// Returns a few bytes at a time, is interrupted before each read, and counts the reads.
struct Stammering(Vec<u8>, AtomicU64, u64);

impl ReadAt for Stammering {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        if self.2 > 0 && self.1.fetch_add(1, Ordering::Relaxed).is_multiple_of(self.2) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let rest = &self.0[start as usize..];
        let most = if self.2 > 0 { 100 } else { usize::MAX };
        let count = rest.len().min(bytes.len()).min(most);
        bytes[..count].copy_from_slice(&rest[..count]);
        if self.2 == 0 {
            self.1.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(count)
    }
}

fn shard(reader: Arc<Stammering>) -> Shard {
    let bytes = FileBytes::from_reader(reader).unwrap();
    Shard { location: Location::Path("slow.tar".into()), bytes: Arc::new(bytes) }
}

#[test]
fn a_disk_that_stammers_gives_the_same() {
    let whole = usual();
    let slow = shard(Arc::new(Stammering(whole.clone(), AtomicU64::new(0), 2)));
    let held = Shard::held("slow.tar", &whole);
    assert_eq!(scan(&slow, &Limits::SMALL).unwrap(), scan(&held, &Limits::SMALL).unwrap());
}

#[test]
fn of_photographs_only_headers_are_read() {
    let archive = (0..50).fold(build::Archive::default(), |archive, number| {
        archive.file(&format!("{number}.jpg"), &[7; 100_000])
    });
    let counted = Arc::new(Stammering(archive.end(), AtomicU64::new(0), 0));
    let index = scan(&shard(Arc::clone(&counted)), &Limits::SMALL).unwrap().index;
    assert_eq!(index.len(), 50);
    let read = counted.1.load(Ordering::Relaxed);
    assert!(read < 60 * 4096, "{read} bytes");
}
