//! What must hold for any bytes: the checks that fuzz targets run, and every test run for a
//! second.

use crate::decode::{DecodeOptions, Decoder};
use crate::recut::{Kept, Recutter, Tile};
use crate::sample::{Epoch, Limits, SampleId};
use crate::source::stream::{Item, Pass, Streamed};
use crate::source::{
    Beton, Buffer, EncodedImage, Folder, FolderOptions, ImageMode, OwnedValue, Record, Source, Tar,
    TarOptions, TarStream, TfOptions, TfRecords, good_in_sequence,
};
use crate::spec::Spec;
use fuseloop_ops::{ImageView, SampleKey, Window};
use std::path::Path;

/// A `.beton` file of any bytes opens or is refused, and every value of one that opens reads
/// or is refused.
pub fn beton(bytes: &[u8]) {
    let Ok(file) = Beton::from_bytes(bytes, &Limits::SMALL) else { return };
    let mut buffer = Buffer::default();
    for field in 0..file.fields().len() {
        let _ = file.field_stats(field);
        for sample in file.samples() {
            let _ = file.image_size(sample, field);
            let _ = file.value(sample, field, &mut buffer);
        }
    }
    let _ = file.allocations();
    let _ = Source::fingerprint(&file);
}

/// A JPEG of any bytes is decoded or refused, whatever window is wanted; and a window that is
/// decoded has the pixels of the whole, where that is decoded too.
///
/// Of a damaged file a window may be refused and the whole not: where a segment has too few bits, the
/// decoder takes zeros for them, but behind the last one it finds ones.
pub fn jpeg_window(bytes: &[u8]) {
    let options = DecodeOptions { exif_orientation: true, limits: Limits::SMALL };
    let mut decoder = Decoder::new(options);
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes };
    let Ok(size) = decoder.size(&image) else { return };
    let whole = pixels(&mut decoder, &image, size.full());
    let mut rng = SampleKey::new(bytes.len() as u64, 0, fold(bytes)).op(0);
    for _ in 0..4 {
        let (height, width) = (1 + rng.below(size.height), 1 + rng.below(size.width));
        let top = rng.below(size.height - height + 1);
        let left = rng.below(size.width - width + 1);
        let window = Window { top, left, height, width };
        let part = pixels(&mut decoder, &image, window);
        if let (Some(part), Some(whole)) = (part, &whole) {
            let view = ImageView::packed(whole, size).and_then(|view| view.crop(window));
            assert!(Some(part) == view.map(packed), "{window:?} of {size}");
        }
    }
}

/// The pixels of a window, if it is not refused.
fn pixels(decoder: &mut Decoder, image: &EncodedImage<'_>, window: Window) -> Option<Vec<u8>> {
    let decoded = decoder.decode(image, window).ok()?;
    Some(packed(decoded.window(window).expect("at least what was asked for")))
}

fn packed(view: ImageView<'_>) -> Vec<u8> {
    (0..view.size().height).flat_map(|y| view.row(y)).copied().collect()
}

/// A number that any byte changes (FNV-1a), to draw windows by.
fn fold(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A tar file of any bytes opens or is refused; of one that opens every value reads or is refused, and in
/// sequence it has the same samples as in any order.
pub fn tar(bytes: &[u8]) {
    let stream = TarStream::from_bytes(bytes, &TarOptions::default().limits(Limits::SMALL));
    let streamed = stream.ok().and_then(|stream| streamed(&stream));
    let Ok(tar) = Tar::from_bytes(bytes, &Limits::SMALL) else { return };
    let mut buffer = Buffer::default();
    let mut value = |sample, field| {
        let value = tar.value(sample, field, &mut buffer);
        value.map(OwnedValue::from).map_err(|error| error.to_string())
    };
    let fields = tar.fields().len();
    let placed = (0..tar.len()).map(SampleId);
    let placed: Vec<Result<Record, String>> =
        placed.map(|sample| (0..fields).map(|field| value(sample, field)).collect()).collect();
    assert!(Some(placed) == streamed, "other samples in sequence");
    let _ = Source::fingerprint(&tar);
}

/// What a pass over a stream gives, if it comes to its end.
fn streamed(stream: &TarStream) -> Option<Vec<Result<Record, String>>> {
    let mut items = stream.open(&Pass { seed: 0, epoch: Epoch(0), turn: 0 }).ok()?;
    let mut found = vec![];
    while let Some(item) = items.next().ok()? {
        let item: Item = item;
        found.push(item.read().map_err(|error| error.to_string()));
    }
    Some(found)
}

/// A pipeline file of any bytes is understood or refused, and the ops of one that is understood
/// are made or refused in any epoch.
pub fn spec_toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(spec) = Spec::parse(text, Path::new("fuzzed.toml")) else { return };
    for field in spec.fields() {
        for epoch in [0, 7, u32::MAX] {
            let _ = spec.ops(field, Epoch(epoch));
        }
    }
}

/// A JPEG of any bytes is re-cut or kept, and one that is re-cut re-cuts to itself.
pub fn jpeg_recut(bytes: &[u8]) {
    let mut recutter = Recutter::new(Tile::Pixels(16), Limits::SMALL);
    match recutter.recut(bytes) {
        Ok(recut) => assert!(recutter.recut(&recut).as_ref() == Ok(&recut), "another file"),
        Err(Kept::Panicked { message }) => panic!("{message}"),
        Err(_) => {}
    }
}

/// A PNG of any bytes is decoded or refused, and a part of one has the pixels of the whole.
pub fn png(bytes: &[u8]) {
    let options = DecodeOptions { limits: Limits::SMALL, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(options);
    let image = EncodedImage { mode: ImageMode::Png, width: 0, height: 0, bytes };
    let Ok(size) = decoder.size(&image) else { return };
    let Some(whole) = pixels(&mut decoder, &image, size.full()) else { return };
    let (top, left) = (size.height / 3, size.width / 2);
    let window = Window { top, left, height: size.height - top, width: size.width - left };
    let view = ImageView::packed(&whole, size).and_then(|view| view.crop(window));
    assert!(pixels(&mut decoder, &image, window) == view.map(packed), "{window:?} of {size}");
}

/// A TFRecord file of any bytes opens or is refused; every record of one that opens is read, or is an
/// error, and as many messages are good as when they are read in sequence.
pub fn tfrecord(bytes: &[u8]) {
    let in_sequence = good_in_sequence(bytes, Limits::SMALL);
    let Ok(records) = TfRecords::from_bytes(bytes, &TfOptions::default().limits(Limits::SMALL))
    else {
        return;
    };
    let mut buffer = Buffer::default();
    let mut good = 0;
    for sample in (0..records.len()).map(SampleId) {
        let is_good = |field| records.value(sample, field, &mut buffer).is_ok();
        let all = (0..records.fields().len()).map(is_good).filter(|good| *good).count();
        assert!(all == 0 || all == records.fields().len(), "some fields of {sample}");
        good += u64::from(all > 0);
    }
    // A message may be good and not have the features of the first.
    assert!(good <= in_sequence, "{good} records, {in_sequence} in sequence");
}

/// A table of any bytes, called `.csv` or `.jsonl`, is a folder or is refused; so is a listing.
pub fn folder(bytes: &[u8]) {
    let Ok(dir) = tempfile::tempdir() else { return };
    let options = FolderOptions::default().limits(Limits::SMALL);
    for name in ["a.csv", "a.tsv", "a.jsonl"] {
        let path = dir.path().join(name);
        if std::fs::write(&path, bytes).is_err() {
            return;
        }
        let Ok(folder) = Folder::open(&path, &options) else { continue };
        for sample in (0..folder.len()).map(SampleId) {
            assert!(folder.locate(sample, 0).is_some() && folder.file(sample).is_some());
        }
        let _ = folder.read(SampleId(0));
    }
    let listed = options.listing(dir.path().join("a.csv"));
    let _ = Folder::open(dir.path(), &listed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use arbitrary::Unstructured;

    #[test]
    fn beton_smoke() {
        arbtest::arbtest(|u| {
            beton(&u.arbitrary::<Vec<u8>>()?);
            Ok(())
        })
        .budget_ms(500);
    }

    /// A pipeline file with pieces of it exchanged, doubled or cut.
    #[test]
    fn spec_toml_smoke() {
        const WHOLE: &str = include_str!("../examples/pipelines/imagenet.toml");
        let pieces: Vec<&str> = WHOLE.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        arbtest::arbtest(|u| {
            let mut pieces = pieces.clone();
            for _ in 0..u.int_in_range(0..=4)? {
                let (from, to) = (u.choose_index(pieces.len())?, u.choose_index(pieces.len())?);
                pieces[to] = pieces[from];
            }
            spec_toml(pieces.concat().as_bytes());
            spec_toml(&u.arbitrary::<Vec<u8>>()?);
            Ok(())
        })
        .budget_ms(500);
    }

    /// Shards with numbers, bits and whole blocks of them changed; sums of headers put right.
    #[test]
    fn tar_smoke() {
        const WHOLE: [&[u8]; 4] = [
            include_bytes!("../tests/golden/webdataset/tiny-1.tar"),
            include_bytes!("../tests/golden/webdataset/gnu.tar"),
            include_bytes!("../tests/golden/webdataset/pax.tar"),
            include_bytes!("../tests/golden/webdataset/tiny-0.tar.gz"),
        ];
        let (mut opened, mut tried) = (0u32, 0u32);
        arbtest::arbtest(|u| {
            let mut bytes = u.choose(&WHOLE)?.to_vec();
            for _ in 0..u.int_in_range(0..=3)? {
                let at = u.choose_index(bytes.len())?;
                match u.int_in_range(0..=2)? {
                    0 => bytes[at] = u.arbitrary()?,
                    1 => bytes.truncate(at.max(512)),
                    _ => {
                        let from = u.choose_index(bytes.len())? / 512 * 512;
                        let block = bytes[from..bytes.len().min(from + 512)].to_vec();
                        let to = at / 512 * 512;
                        bytes.splice(to..to, block);
                    }
                }
            }
            if u.ratio(1, 2)? {
                resum(&mut bytes);
            }
            opened += u32::from(Tar::from_bytes(&bytes, &Limits::SMALL).is_ok());
            tried += 1;
            tar(&bytes);
            Ok(())
        })
        .budget_ms(1000 * seconds());
        println!("{opened} of {tried} changed shards opened");
        assert!(opened >= tried / 10, "{opened} of {tried}: most inputs test nothing");
    }

    /// Puts the sums of all blocks right that look like headers.
    fn resum(bytes: &mut [u8]) {
        for block in bytes.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
            block[148..156].fill(b' ');
            let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }

    /// Bytes at random are seldom a file: these begin as one.
    #[test]
    fn beton_smoke_on_damaged_files() {
        const WHOLE: [&[u8]; 3] = [
            include_bytes!("../tests/golden/beton/scalars.beton"),
            include_bytes!("../tests/golden/beton/nd_dtypes_p4k.beton"),
            include_bytes!("../tests/golden/beton/all_fields_p16k.beton"),
        ];
        let (mut opened, mut tried) = (0u32, 0u32);
        arbtest::arbtest(|u| {
            let bytes = damaged(u.choose(&WHOLE)?, u)?;
            opened += u32::from(Beton::from_bytes(&bytes[..], &Limits::SMALL).is_ok());
            tried += 1;
            beton(&bytes);
            Ok(())
        })
        .budget_ms(500);
        println!("{opened} of {tried} damaged files opened");
        assert!(opened >= tried / 5, "{opened} of {tried}: most inputs test nothing");
    }

    /// Small JPEGs of all kinds, and themselves with restart markers and an index.
    fn jpegs() -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg");
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let jpegs = paths.filter(|path| path.extension().is_some_and(|kind| kind == "jpg"));
        let mut jpegs: Vec<_> = jpegs.map(|path| std::fs::read(path).unwrap()).collect();
        let mut recutter = Recutter::new(Tile::Pixels(16), Limits::SMALL);
        let recut: Vec<_> = jpegs.iter().filter_map(|jpeg| recutter.recut(jpeg).ok()).collect();
        jpegs.extend(recut);
        jpegs.sort();
        jpegs
    }

    #[test]
    fn jpeg_window_smoke() {
        let jpegs = jpegs();
        let (mut decoded, mut tried) = (0u32, 0u32);
        arbtest::arbtest(|u| {
            let bytes = spliced(&jpegs, u)?;
            jpeg_window(&bytes);
            let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &bytes };
            let mut decoder = Decoder::default();
            let size = decoder.size(&image);
            let whole = size.ok().and_then(|size| pixels(&mut decoder, &image, size.full()));
            decoded += u32::from(whole.is_some());
            tried += 1;
            Ok(())
        })
        .budget_ms(1000 * seconds());
        println!("{decoded} of {tried} changed JPEGs decoded");
        assert!(decoded >= tried / 5, "{decoded} of {tried}: most inputs test nothing");
    }

    #[test]
    fn png_smoke() {
        let pngs = goldens("png", "png");
        let mut decoder = Decoder::default();
        let (mut decoded, mut tried) = (0u32, 0u32);
        arbtest::arbtest(|u| {
            let bytes = spliced(&pngs, u)?;
            png(&bytes);
            let image = EncodedImage { mode: ImageMode::Png, width: 0, height: 0, bytes: &bytes };
            let size = decoder.size(&image);
            let whole = size.ok().and_then(|size| pixels(&mut decoder, &image, size.full()));
            decoded += u32::from(whole.is_some());
            tried += 1;
            Ok(())
        })
        .budget_ms(500);
        assert!(decoded >= tried / 20, "{decoded} of {tried}: most inputs test nothing");
    }

    #[test]
    fn tfrecord_smoke() {
        let files = goldens("tfrecord", "tfrecord");
        let (mut opened, mut tried) = (0u32, 0u32);
        arbtest::arbtest(|u| {
            let bytes = spliced(&files, u)?;
            tfrecord(&bytes);
            let options = TfOptions::default().limits(Limits::SMALL);
            opened += u32::from(TfRecords::from_bytes(&bytes, &options).is_ok());
            tried += 1;
            // Messages of any bytes, in a frame that is right.
            let data: Vec<u8> = u.arbitrary()?;
            tfrecord(&framed(&data));
            let inner = bytes.get(12..bytes.len().saturating_sub(4));
            tfrecord(&framed(inner.unwrap_or_default()));
            Ok(())
        })
        .budget_ms(1000 * seconds());
        assert!(opened >= tried / 20, "{opened} of {tried}: most inputs test nothing");
    }

    fn framed(data: &[u8]) -> Vec<u8> {
        let crc = |bytes: &[u8]| {
            crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
        };
        let length = (data.len() as u64).to_le_bytes();
        [&length[..], &crc(&length), data, &crc(data)].concat()
    }

    #[test]
    fn folder_smoke() {
        let tables = [
            b"file_name,label,x\na/1.jpg,dog,1\n\"b,2.png\",cat,2.5\n".to_vec(),
            b"{\"path\": \"1.jpg\", \"x\": [1]}\n{\"path\": \"2.jpg\", \"x\": null}\n".to_vec(),
            b"1.jpg\t0\n2.jpg\t1\n".to_vec(),
        ];
        arbtest::arbtest(|u| {
            folder(&spliced(&tables, u)?);
            Ok(())
        })
        .budget_ms(500);
    }

    /// The files of a folder of goldens.
    fn goldens(folder: &str, kind: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|ext| ext == kind));
        let mut files: Vec<_> = files.map(|path| std::fs::read(path).unwrap()).collect();
        files.sort();
        files
    }

    /// A file with up to 3 numbers overwritten: anywhere, or where the tables lie.
    fn damaged(whole: &[u8], u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
        let mut bytes = whole.to_vec();
        for _ in 0..u.int_in_range(0..=3)? {
            let at = match u.int_in_range(0..=3)? {
                0 => u.int_in_range(0..=23)?,
                1 => bytes.len() - 1 - u.int_in_range(0..=200)?,
                _ => u.int_in_range(24..=bytes.len() - 1)?,
            };
            let number: u64 = u.arbitrary()?;
            let width = (*u.choose(&[1, 2, 8])?).min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        Ok(bytes)
    }

    /// For how long JPEGs are changed: one second, or as many as are asked for.
    fn seconds() -> u64 {
        let asked = std::env::var("FUSELOOP_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
        asked.unwrap_or(1)
    }

    /// Pieces of real files: spliced, cut, changed.
    #[test]
    fn jpeg_recut_smoke() {
        let (jpegs, mut recut, mut tried) = (jpegs(), 0u64, 0u64);
        let mut recutter = Recutter::new(Tile::default(), Limits::SMALL);
        arbtest::arbtest(|u| {
            let bytes = spliced(&jpegs, u)?;
            recut += u64::from(recutter.recut(&bytes).is_ok());
            tried += 1;
            jpeg_recut(&bytes);
            Ok(())
        })
        .budget_ms(1000 * seconds());
        println!("{recut} of {tried} damaged files re-cut");
        assert!(recut >= tried / 10, "{recut} of {tried}: most inputs test nothing");
    }

    /// The beginning of one file and the end of another, with up to 4 pieces changed.
    fn spliced(files: &[Vec<u8>], u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
        let (head, tail) = (u.choose(files)?, u.choose(files)?);
        let at = u.choose_index(head.len())?;
        let from = if u.ratio(1, 2)? { at.min(tail.len()) } else { u.choose_index(tail.len())? };
        let mut bytes =
            if u.ratio(1, 4)? { [&head[..at], &tail[from..]].concat() } else { head.clone() };
        for _ in 0..u.int_in_range(0..=4)? {
            // Headers are a small part of a file, and the part with the most to say.
            let end = if u.ratio(1, 2)? { bytes.len() } else { bytes.len().min(700) };
            let at = u.choose_index(end)?;
            match u.int_in_range(0..=3)? {
                0 => bytes[at] = u.arbitrary()?,
                1 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
                2 => drop(bytes.drain(at..bytes.len().min(at + u.int_in_range(1..=20)?))),
                _ => {
                    let piece = bytes[at..bytes.len().min(at + u.int_in_range(1..=300)?)].to_vec();
                    let to = u.choose_index(bytes.len())?;
                    bytes.splice(to..to, piece);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        Ok(bytes)
    }
}
