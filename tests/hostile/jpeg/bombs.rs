//! Headers that claim large images: refused at once and without allocating memory.

use super::whole;
use crate::common::jpegs::*;
use crate::counting::asked_for;
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::sample::Limits;
use fuseloop_ops::Size;
use libjpeg_turbo_rs::{Encoder, PixelFormat};
use std::time::{Duration, Instant};

const SMALL: Size = Size::new(37, 45);

fn cost(bytes: &[u8]) -> (bool, u64, Duration) {
    cost_with(DecodeOptions::default(), bytes)
}

/// Decodes a file three times. Returns whether it was refused, the largest number of bytes allocated,
/// and the shortest time, because a busy machine may preempt this thread for longer.
fn cost_with(options: DecodeOptions, bytes: &[u8]) -> (bool, u64, Duration) {
    let (mut most, mut shortest, mut is_refused) = (0, Duration::MAX, false);
    for _ in 0..3 {
        let (before, start) = (asked_for(), Instant::now());
        is_refused = whole(&mut Decoder::new(options), bytes).is_err();
        shortest = shortest.min(start.elapsed());
        most = most.max(asked_for() - before);
    }
    (is_refused, most, shortest)
}

fn assert_refused_cheaply(what: &str, bytes: &[u8]) {
    let (is_refused, asked, time) = cost(bytes);
    assert!(is_refused, "{what} was decoded");
    assert!(asked < 1 << 20, "{what}: {asked} bytes of memory");
    assert!(time < Duration::from_millis(10), "{what}: {time:?}");
}

/// Small files, one for each decoding path.
fn kinds() -> Vec<(&'static str, Vec<u8>)> {
    let gray = drawn(SMALL, Colour::ALL[0]);
    let colour = drawn(SMALL, Colour::ALL[3]);
    let tiles = with_index(&with_markers(&colour, 2));
    vec![
        ("progressive", progressive(&colour)),
        ("gray", gray),
        ("tiles with an index", tiles),
        ("plain", colour),
    ]
}

/// The offset of a marker's second byte.
fn marker(bytes: &[u8], found: impl Fn(u8) -> bool) -> usize {
    bytes.windows(2).position(|pair| pair[0] == 0xff && found(pair[1])).unwrap() + 1
}

/// A file with another size in its frame header.
fn sized(bytes: &[u8], size: [u16; 2]) -> Vec<u8> {
    let frame = marker(bytes, |code| matches!(code, 0xc0 | 0xc2));
    let mut bytes = bytes.to_vec();
    bytes[frame + 4..frame + 8].copy_from_slice(size.map(u16::to_be_bytes).as_flattened());
    bytes
}

#[test]
fn a_picture_larger_than_its_bytes_can_be_is_refused_at_once() {
    for (name, bytes) in kinds() {
        for size in [[65535, 65535], [1, 65535], [65535, 1], [13377, 13377], [0, 45], [37, 0]] {
            let [height, width] = size;
            // An image whose claimed size is small is not hostile.
            let is_small = u64::from(height) * u64::from(width) < 1 << 16;
            let what = format!("{name} that says {height}x{width}");
            let bytes = sized(&bytes, size);
            match cost(&bytes) {
                (false, asked, _) if is_small => assert!(asked < 1 << 20, "{what}: {asked}"),
                _ => assert_refused_cheaply(&what, &bytes),
            }
        }
    }
}

/// A progressive file with `scans` additional copies of its last scan.
fn scans(bytes: &[u8], scans: usize) -> Vec<u8> {
    let last = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
    let (body, end) = bytes.split_at(bytes.len() - 2);
    [body, &body[last..].repeat(scans), end].concat()
}

/// A progressive image of one colour: its scans are short, but each one makes the decoder visit all blocks.
fn flat(size: Size) -> Vec<u8> {
    let pixels = vec![90; size.pixels() as usize];
    let (width, height) = (size.width as usize, size.height as usize);
    let encoder = Encoder::new(&pixels, width, height, PixelFormat::Grayscale);
    encoder.progressive(true).encode().unwrap()
}

#[test]
fn a_file_of_many_scans_is_refused_at_once() {
    for size in [SMALL, Size::new(2000, 2000)] {
        let bytes = flat(size);
        assert!(whole(&mut Decoder::default(), &bytes).is_ok());
        for count in [100, 1000, 10_000] {
            assert_refused_cheaply(&format!("{size} in {count} scans"), &scans(&bytes, count));
        }
    }
}

/// A file with `count` segments of 64 KiB each before its frame.
fn with_exif(bytes: &[u8], count: usize, tiff: impl Fn(usize) -> u8) -> Vec<u8> {
    let tiff: Vec<u8> = (0..65535 - 8).map(tiff).collect();
    let segment = [b"\xff\xe1\xff\xffExif\0\0", &*tiff].concat();
    [&bytes[..2], &segment.repeat(count), &bytes[2..]].concat()
}

#[test]
fn exif_of_any_kind_costs_nothing() {
    // A directory of 65,535 entries that points at itself, and noise.
    let directory: fn(usize) -> u8 = |at| *b"MM\0\x2a\0\0\0\x08\xff\xff".get(at).unwrap_or(&8);
    let noise: fn(usize) -> u8 = |at| (at * at / 7) as u8;
    let endless: fn(usize) -> u8 =
        |at| *b"II\x2a\0\x08\0\0\0\xff\xff\x12\x01".get(at).unwrap_or(&0);
    let tiffs = [directory, noise, endless];
    for (name, bytes) in kinds() {
        let (_, usual, _) = cost(&bytes);
        for (count, tiff) in [1, 30].into_iter().flat_map(|n| tiffs.map(|tiff| (n, tiff))) {
            let bytes = with_exif(&bytes, count, tiff);
            let (_, asked, time) = cost(&bytes);
            // The decoder works on a copy of the file, and copies the segment once more.
            let copies = 4 * bytes.len() as u64;
            assert!(asked < usual + copies + (1 << 16), "{name}: {asked} bytes of memory");
            assert!(time < Duration::from_millis(10), "{name}: {time:?}");

            let turned = DecodeOptions { exif_orientation: true, limits: Limits::DEFAULT };
            let (_, asked, time) = cost_with(turned, &bytes);
            assert!(asked < usual + copies + (4 << 20), "{name}, turned: {asked} bytes");
            assert!(time < Duration::from_millis(10), "{name}, turned: {time:?}");
        }
    }
}
