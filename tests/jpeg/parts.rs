//! Images of which only what a window needs is read, bit planes and re-cut JPEGs: the pixels are those of the whole image,
//! what is read is checked as ever, and what is not read is not needed.
//!
//! `FUSELOOP_PARTS` is the number of noise images generated.

use crate::SAMPLINGS;
use crate::common::jpegs::{below, random, random_window};
use fuseloop::Error;
use fuseloop::ImageReadMode;
use fuseloop::internals::decode::{DecodeOptions, Decoder, window_of_parts};
use fuseloop::internals::source::StoredValues;
use fuseloop::recut::{BitPlaneCodec, Recutter, Tile};
use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::{
    BoxError, Buffer, EncodedImage, Facts, FieldKind, ImageExtent, ImageMode, Record, Source,
};
use fuseloop_counts::rounds;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use rand_xoshiro::rand_core::Rng;
use std::ops::Range;
use std::sync::Mutex;

/// One image, of which the parts that were read are listed.
struct OneImage {
    facts: Facts,
    mode: Option<ImageMode>,
    bytes: Vec<u8>,
    read: Mutex<Vec<Range<usize>>>,
}

impl OneImage {
    fn new(mode: Option<ImageMode>, bytes: Vec<u8>) -> Self {
        let facts = Facts::new([("image", FieldKind::RgbImage)], 1);
        Self { facts, mode, bytes, read: Mutex::default() }
    }

    /// Returns whether a byte was read.
    fn has_read(&self, at: usize) -> bool {
        self.read.lock().unwrap().iter().any(|part| part.contains(&at))
    }

    /// Returns the number of bytes that were read.
    fn bytes_read(&self) -> usize {
        self.read.lock().unwrap().iter().map(ExactSizeIterator::len).sum()
    }

    fn window(
        &self,
        decoder: &mut Decoder,
        how: (ImageReadMode, u32),
        wanted: Window,
    ) -> Result<Option<Vec<u8>>, BoxError> {
        self.read.lock().unwrap().clear();
        window_of_parts(decoder, (self, SampleId(0), 0), how, wanted)
    }
}

impl Source for OneImage {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        panic!("all of sample {sample} is read")
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for OneImage {
    fn image_extent(&self, _: SampleId, _: usize) -> Option<ImageExtent> {
        let bytes = self.bytes.len() as u64;
        Some(ImageExtent { mode: self.mode, size: Size::new(0, 0), start: 77, bytes })
    }

    fn image_part(
        &self,
        _: SampleId,
        _: usize,
        (at, bytes): (u64, &mut [u8]),
        _: &mut Buffer,
    ) -> Result<(), BoxError> {
        let part = at as usize..at as usize + bytes.len();
        bytes.copy_from_slice(self.bytes.get(part.clone()).ok_or("beyond the image")?);
        self.read.lock().unwrap().push(part);
        Ok(())
    }
}

fn noise(size: Size, sampling: Option<SamplingFactor>, seed: u64) -> Vec<u8> {
    let mut rng = random(seed);
    let values = size.pixels() as usize * sampling.map_or(1, |_| 3);
    let pixels: Vec<u8> = (0..values)
        .map(|i| ((i / 97 % 191) as u8).wrapping_add(below(&mut rng, 64) as u8))
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 60 + (seed % 40) as u8);
    encoder.set_sampling_factor(sampling.unwrap_or(SamplingFactor::R_4_4_4));
    let color = sampling.map_or(ColorType::Luma, |_| ColorType::Rgb);
    encoder.encode(&pixels, size.width as u16, size.height as u16, color).unwrap();
    bytes
}

/// Returns a JPEG re-cut, and as bit planes.
fn both(jpeg: &[u8], tile: Tile) -> [(ImageMode, Vec<u8>); 2] {
    let recut = Recutter::new(tile, Limits::DEFAULT).recut(jpeg).unwrap();
    let planes = BitPlaneCodec::new(Limits::DEFAULT).pack(jpeg, tile).unwrap();
    [(ImageMode::Jpeg, recut), (ImageMode::BitPlanes, planes)]
}

/// Returns the pixels of a window of an image that was read whole.
fn whole(
    decoder: &mut Decoder,
    (mode, bytes): (ImageMode, &[u8]),
    (read, factor): (ImageReadMode, u32),
    wanted: Window,
) -> Result<Vec<u8>, Error> {
    let mut opened = decoder.open_as(&EncodedImage { mode, width: 0, height: 0, bytes }, read)?;
    if let Some(scaled) = opened.scaled(factor) {
        opened.set_scale(&scaled);
    }
    let view = opened.decode(wanted)?.window(wanted).expect("at least the window");
    Ok((0..wanted.height).flat_map(|y| view.row(y).to_vec()).collect())
}

#[test]
fn windows_of_parts_have_the_pixels_of_the_whole_image() {
    let mut decoder = Decoder::default();
    let mut in_parts = 0;
    for n in 0..rounds::<u64>("FUSELOOP_PARTS") {
        let mut rng = random(500 + n);
        let size = Size::new(1 + rng.next_u32() % 400, 1 + rng.next_u32() % 400);
        let sampling = SAMPLINGS[below(&mut rng, 5)];
        let tile = [Tile::Pixels(8), Tile::Pixels(32), Tile::Pixels(48), Tile::Row];
        let tile = tile[below(&mut rng, 4)];
        for (mode, bytes) in both(&noise(size, sampling, n), tile) {
            let known = [None, Some(mode)][below(&mut rng, 2)];
            let image = OneImage::new(known, bytes);
            let name = format!("picture {n}, {size}, {sampling:?}, {tile:?}, {mode:?}");
            for round in 0..8 {
                let factor = [1, 1, 2, 4, 8][below(&mut rng, 5)];
                let scaled = Size::new(size.height.div_ceil(factor), size.width.div_ceil(factor));
                let read = [ImageReadMode::Rgb, ImageReadMode::Gray][below(&mut rng, 2)];
                let window =
                    if round == 0 { scaled.full() } else { random_window(scaled, &mut rng) };
                let stored = (mode, &image.bytes[..]);
                let expected = whole(&mut decoder, stored, (read, factor), window).unwrap();
                let found = image.window(&mut decoder, (read, factor), window);
                let found = found.unwrap_or_else(|error| panic!("{name}, {window:?}: {error}"));
                // A JPEG of one segment has no index, and a small file is read at once.
                if let Some(found) = found {
                    assert!(found == expected, "{name}, {window:?}, {read:?}, 1/{factor}");
                    in_parts += 1;
                }
            }
        }
    }
    assert!(in_parts > 8 * rounds::<u64>("FUSELOOP_PARTS"), "{in_parts} windows in parts");
}

/// A window of about a tenth of the rows.
fn band(size: Size) -> Window {
    Window { top: size.height / 2, left: size.width / 3, height: size.height / 10, width: 50 }
}

const LARGE: Size = Size::new(900, 700);
const RGB: (ImageReadMode, u32) = (ImageReadMode::Rgb, 1);

#[test]
fn bytes_that_a_window_does_not_need_are_not_read() {
    let mut decoder = Decoder::default();
    for sampling in SAMPLINGS {
        for (mode, bytes) in both(&noise(LARGE, sampling, 7), Tile::default()) {
            let image = OneImage::new(Some(mode), bytes);
            image.window(&mut decoder, RGB, band(LARGE)).unwrap().unwrap();
            let (read, all) = (image.bytes_read(), image.bytes.len());
            assert!(read < all / 4, "{sampling:?}, {mode:?}: {read} of {all} bytes");
            image.window(&mut decoder, RGB, LARGE.full()).unwrap().unwrap();
            // The first read and the last may meet the others.
            let read = image.bytes_read();
            assert!(read <= all + all / 8, "{sampling:?}, {mode:?}: {read} of {all} bytes");
        }
    }
}

#[test]
fn long_headers_are_read_to_their_end() {
    let jpeg = noise(LARGE, SAMPLINGS[4], 8);
    let comment = [&[0xff, 0xfe, 0x75, 0x32][..], &[7; 0x7530]].concat();
    for (mode, bytes) in both(&[&jpeg[..2], &comment, &jpeg[2..]].concat(), Tile::default()) {
        let image = OneImage::new(Some(mode), bytes);
        let mut decoder = Decoder::default();
        let found = image.window(&mut decoder, RGB, band(LARGE)).unwrap();
        let stored = (mode, &image.bytes[..]);
        let expected = whole(&mut decoder, stored, RGB, band(LARGE)).unwrap();
        assert!(found.is_some_and(|found| found == expected), "{mode:?}");
        assert!(image.bytes_read() < image.bytes.len() / 2, "{mode:?}");
    }
}

#[test]
fn images_are_turned_as_their_exif_says() {
    let options = DecodeOptions { exif_orientation: true, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(options);
    let jpeg = noise(LARGE, SAMPLINGS[4], 9);
    for orientation in 1..=8 {
        let tiff = [
            b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".as_slice(),
            &[orientation, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let length = (tiff.len() as u16 + 2).to_be_bytes();
        let turned = [&jpeg[..2], &[0xff, 0xe1], &length, &tiff, &jpeg[2..]].concat();
        for (mode, bytes) in both(&turned, Tile::default()) {
            let image = OneImage::new(Some(mode), bytes);
            let window = Window { top: 20, left: 30, height: 60, width: 90 };
            let stored = (mode, &image.bytes[..]);
            let expected = whole(&mut decoder, stored, RGB, window).unwrap();
            let found = image.window(&mut decoder, RGB, window).unwrap().unwrap();
            assert!(found == expected, "{mode:?}, {orientation}");
            assert!(image.bytes_read() < image.bytes.len(), "{mode:?}, {orientation}");
        }
    }
}

#[test]
fn damage_of_what_is_read_is_found_as_in_the_whole_image() {
    let mut decoder = Decoder::default();
    for (mode, bytes) in both(&noise(LARGE, SAMPLINGS[4], 10), Tile::default()) {
        let window = band(LARGE);
        let mut image = OneImage::new(Some(mode), bytes);
        let intact = image.window(&mut decoder, RGB, window).unwrap().unwrap();
        let read = image.read.lock().unwrap().clone();
        let (mut rng, mut counts) = (random(11), [0; 3]);
        for n in 0..rounds::<u64>("FUSELOOP_PARTS") {
            // Half of the changes are in the parts that are read.
            let part = read[below(&mut rng, read.len())].clone();
            let at = match n % 2 {
                0 => below(&mut rng, image.bytes.len()),
                _ => part.start + below(&mut rng, part.len()),
            };
            let change = 1 << below(&mut rng, 8);
            image.bytes[at] ^= change;
            let found = image.window(&mut decoder, RGB, window);
            let is_read = image.has_read(at);
            match found {
                Ok(Some(found)) if is_read && found != intact => {
                    let expected = whole(&mut decoder, (mode, &image.bytes), RGB, window);
                    assert!(expected.is_ok_and(|expected| expected == found), "byte {at}");
                    counts[0] += 1;
                }
                Ok(Some(found)) => {
                    assert!(found == intact, "byte {at}");
                    counts[1] += 1;
                }
                // The caller reads the whole image.
                Ok(None) | Err(_) => {
                    assert!(is_read, "byte {at}");
                    counts[2] += 1;
                }
            }
            image.bytes[at] ^= change;
        }
        assert!(counts[1] > 0 && counts[2] > 0, "{mode:?}: {counts:?}");
    }
}

#[test]
fn an_image_that_was_cut_short_is_not_decoded_in_parts() {
    let mut decoder = Decoder::default();
    for (mode, bytes) in both(&noise(LARGE, SAMPLINGS[4], 12), Tile::default()) {
        let all = bytes.len();
        for left in [0, 1, 15, 31, 32, 700, 5000, all / 2, all - 5000, all - 17, all - 1] {
            let image = OneImage::new(Some(mode), bytes[..left].to_vec());
            let found = image.window(&mut decoder, RGB, band(LARGE));
            assert!(!matches!(found, Ok(Some(_))), "{mode:?}: {left} of {all} bytes");
        }
    }
}

#[test]
fn other_images_are_read_whole() {
    let mut decoder = Decoder::default();
    let jpeg = noise(LARGE, SAMPLINGS[4], 13);
    let [(_, recut), (_, planes)] = both(&jpeg, Tile::default());
    let of_table = [(ImageMode::Jpeg, planes), (ImageMode::BitPlanes, recut)];
    let others = [(ImageMode::Jpeg, jpeg), (ImageMode::Png, vec![0; 100_000])];
    for (mode, bytes) in of_table.into_iter().chain(others) {
        let image = OneImage::new(Some(mode), bytes);
        let found = image.window(&mut decoder, RGB, band(LARGE)).unwrap();
        assert!(found.is_none(), "{mode:?}");
    }
}
