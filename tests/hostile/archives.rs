//! Tar shards and TFRecord files whose headers claim large records: refused at once and without allocating
//! memory, whether they are indexed or read in sequence.

use crate::counting::asked_for;
use fuseloop::Epoch;
use fuseloop::source::stream::Pass;
use fuseloop::source::{
    BoxError, Stream, Tar, TarOptions, TarStream, TfOptions, TfRecordStream, TfRecords,
};
use std::fs;
use std::time::{Duration, Instant};

/// Asserts that a file is refused with this message in under 10 ms, and that less than 1 MiB is allocated.
fn assert_refused_cheaply(
    name: &str,
    bytes: &[u8],
    message: &str,
    read: fn(&str) -> Result<(), BoxError>,
) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();
    // The best of three runs: a busy machine may preempt this thread for longer.
    let times = [(); 3].map(|()| {
        let (before, start) = (asked_for(), Instant::now());
        let refused = read(path);
        let (asked, time) = (asked_for() - before, start.elapsed());
        let error = refused.expect_err(message).to_string();
        assert!(error.contains(path) && error.contains(message), "{error}");
        assert!(asked < 1 << 20, "{message}: {asked} bytes of memory");
        time
    });
    assert!(times.iter().min() < Some(&Duration::from_millis(10)), "{message}: {times:?}");
}

/// Opens an archive at a path and reads all of its samples.
type Read = fn(&str) -> Result<(), BoxError>;

/// Reads a stream to its end, or to its first error.
fn play(stream: &Stream) -> Result<(), BoxError> {
    let mut items = stream.open(&Pass { seed: 1, epoch: Epoch(0), turn: 0 })?;
    while let Some(item) = items.next()? {
        item.read()?;
    }
    Ok(())
}

// --- Tar shards -----------------------------------------------------------------------------

/// A header with its checksum.
fn header(kind: u8, name: &str, size: &[u8]) -> [u8; 512] {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[124..124 + size.len()].copy_from_slice(size);
    block[148..156].fill(b' ');
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

/// A file of 1 byte, which is read before the header that claims much.
fn first() -> Vec<u8> {
    let mut data = [0; 512];
    data[0] = b'1';
    [header(b'0', "a.cls", b"00000000001"), data].concat()
}

/// A PAX header with the size of the next member, and that member.
fn with_pax_size(size: &str) -> Vec<u8> {
    let record = format!(" size={size}\n");
    let record = format!("{}{record}", record.len() + 2);
    let mut data = [0; 512];
    data[..record.len()].copy_from_slice(record.as_bytes());
    let length = format!("{:011o}", record.len());
    let blocks = [header(b'x', "pax", length.as_bytes()), data];
    [blocks.concat(), header(b'0', "b.cls", b"00000000001").to_vec()].concat()
}

#[test]
fn a_tar_member_that_claims_much_is_refused_at_once_and_without_memory() {
    // In base 256: the first bit is set, and the number is in the last bytes.
    let base_256 = |size: u64| [&b"\x80\0\0\0"[..], &size.to_be_bytes()].concat();
    let read: [Read; 2] = [
        |path| Ok(Tar::open(path, &TarOptions::default()).map(drop)?),
        |path| play(&TarStream::open(path, &TarOptions::default())?.into()),
    ];
    for read in read {
        for size in [u64::MAX, u64::MAX - 511, 1 << 63, 1 << 40] {
            let message = format!("a member of {size} bytes");
            // Long names and PAX headers are read as a whole.
            let claim = |kind| header(kind, "b.cls", &base_256(size)).to_vec();
            let claims = [claim(b'0'), claim(b'L'), claim(b'x'), with_pax_size(&size.to_string())];
            for claim in claims {
                let bytes = [first(), claim, vec![0; 1024]].concat();
                assert_refused_cheaply("x.tar", &bytes, &message, read);
            }
        }
        let bytes = [first(), with_pax_size("18446744073709551616"), vec![0; 1024]].concat();
        assert_refused_cheaply("x.tar", &bytes, "the size in a PAX header", read);
    }
}

// --- TFRecord files -------------------------------------------------------------------------

/// A `tf.train.Example` whose feature `n` is the int 7.
const EXAMPLE: &[u8] = b"\x0a\x0c\x0a\x0a\x0a\x01n\x12\x05\x1a\x03\x0a\x01\x07";

/// The masked CRC-32C of the TFRecord format, a bit at a time.
fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    });
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// The head of a record: its length, and the CRC of the length.
fn head(length: u64) -> Vec<u8> {
    let length = length.to_le_bytes();
    [&length[..], &masked_crc(&length)].concat()
}

#[test]
fn a_tfrecord_that_claims_much_is_refused_at_once_and_without_memory() {
    let first = [&head(EXAMPLE.len() as u64)[..], EXAMPLE, &masked_crc(EXAMPLE)].concat();
    let read: [Read; 2] = [
        |path| Ok(TfRecords::open(path, &TfOptions::default()).map(drop)?),
        |path| play(&TfRecordStream::open(path, &TfOptions::default())?.into()),
    ];
    for read in read {
        for length in [u64::MAX, u64::MAX - 15, 1 << 63, 1 << 40] {
            let message = format!("its length is {length} bytes, the limit is ");
            for before in [&first[..], &[]] {
                let bytes = [before, &head(length), b"some data"].concat();
                assert_refused_cheaply("x.tfrecord", &bytes, &message, read);
            }
        }
    }
}
