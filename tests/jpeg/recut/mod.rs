//! Promises of the transcoder: for any bytes, the result is the same image in a file that is cheap to
//! decode in part, or the original.

mod hostile;
mod kinds;
mod metadata;
mod photographs;
mod sources;

use crate::common::jpegs::Edges;
use fuseloop::Error;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop::recut::Recutter;
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use std::path::Path;

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg").join(name))
        .unwrap()
}

/// All JPEG goldens, by name.
fn goldens() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".jpg"));
    names.sort();
    names.into_iter().map(|name| (name.clone(), golden(&name))).collect()
}

/// The loader's pixels, or the error.
fn pixels(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    window(bytes, None)
}

/// The loader's pixels of a window, or of the whole image.
fn window(bytes: &[u8], window: Option<Window>) -> Result<Vec<u8>, Error> {
    let mut decoder = Decoder::default();
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes };
    let window = window.unwrap_or(decoder.size(&image)?.full());
    let decoded = decoder.decode(&image, window)?;
    let view = decoded.window(window).expect("at least the window");
    Ok((0..window.height).flat_map(|y| view.row(y).to_vec()).collect())
}

/// The pixels of another decoder.
fn turbo(bytes: &[u8]) -> Vec<u8> {
    libjpeg_turbo_rs::decompress(bytes).unwrap().data
}

/// A segment found in a file: its bytes with marker and length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    marker: u8,
    bytes: Vec<u8>,
}

/// The segments before the first scan's data.
fn segments(jpeg: &[u8]) -> Vec<Found> {
    let (mut at, mut found) = (2, vec![]);
    while found.last().is_none_or(|last: &Found| last.marker != 0xda) {
        let length = usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        found.push(Found { marker: jpeg[at + 1], bytes: jpeg[at..at + 2 + length].to_vec() });
        at += 2 + length;
    }
    found
}

/// Re-cuts an image, and checks every promise that is observable from outside.
fn assert_recut(recutter: &mut Recutter, jpeg: &[u8], what: &str) -> Vec<u8> {
    let recut = recutter.recut(jpeg).unwrap_or_else(|kept| panic!("{what}: {kept}"));
    let after = pixels(&recut).unwrap();
    assert_same(jpeg, &pixels(jpeg).unwrap(), &after, what);
    assert!(turbo(jpeg) == turbo(&recut), "{what}: other pixels in another decoder");
    assert!(recutter.recut(&recut).unwrap() == recut, "{what}: re-cut again it is another file");

    let of = |jpeg, wanted: fn(u8) -> bool| -> Vec<Found> {
        segments(jpeg).into_iter().filter(|found| wanted(found.marker)).collect()
    };
    let is_kept = |marker| matches!(marker, 0xdb | 0xe0..=0xef | 0xfe);
    assert_eq!(of(jpeg, is_kept), of(&recut, is_kept), "{what}");
    let is_frame = |marker| matches!(marker, 0xc0..=0xc2);
    let (before, after) = (of(jpeg, is_frame).remove(0), of(&recut, is_frame).remove(0));
    assert_eq!(after.bytes[4..], before.bytes[4..], "{what}: size, ids, factors, tables");
    let scan = segments(&recut).pop().unwrap().bytes;
    assert_eq!(scan[4], after.bytes[9], "{what}: all components in one scan");
    recut
}

/// Asserts that the loader decodes an image and the re-cut one to the same pixels. For an image that the
/// loader leaves to zune-jpeg, the last column and row may differ, because they are then zune-jpeg's.
fn assert_same(jpeg: &[u8], before: &[u8], after: &[u8], what: &str) {
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: jpeg };
    let mut core = Decoder::with_backend(JpegBackend::Core, DecodeOptions::default());
    let size = core.size(&image).unwrap();
    let is_own = core.decode(&image, size.full()).is_ok();
    let edges = Edges::of(jpeg, size);
    let may_differ = |byte: usize| {
        let pixel = byte as u32 / 3;
        !is_own && edges.has((pixel / size.width, pixel % size.width))
    };
    let differs = |byte: &usize| before[*byte] != after[*byte] && !may_differ(*byte);
    assert_eq!(before.len(), after.len(), "{what}");
    assert_eq!((0..after.len()).find(differs), None, "{what}: other pixels in the loader");
}

/// The number of MCUs between restart markers.
fn interval(jpeg: &[u8]) -> u16 {
    let found = segments(jpeg).into_iter().rfind(|found| found.marker == 0xdd);
    found.map_or(0, |found| u16::from_be_bytes([found.bytes[4], found.bytes[5]]))
}

/// The number of segments in the index behind the image, and the bytes of the index.
fn index(jpeg: &[u8]) -> (u32, usize) {
    let Some(rest) = jpeg.strip_suffix(b"FSEGIDX\x01") else { return (0, 0) };
    let (rest, segments) = rest.split_last_chunk().unwrap();
    let bytes = u32::from_le_bytes(*rest.last_chunk().unwrap());
    (u32::from_le_bytes(*segments), 16 + bytes as usize)
}

/// A size in the tests' order: columns, rows.
fn wide(width: u32, height: u32) -> Size {
    Size::new(height, width)
}
