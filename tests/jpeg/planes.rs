//! Promises of bit-plane images: the pixels of the JPEG in every window, the JPEG back byte for byte, and no
//! trust in the bytes.
//!
//! `FUSELOOP_PLANES` is the number of noise images generated and of damaged ones tried.

use crate::SAMPLINGS;
use crate::common::jpegs::{below, random, random_window};
use crate::common::photographs::photographs;
use fuseloop::Error;
use fuseloop::ImageReadMode;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop::recut::{BitPlaneCodec, Tile, Unchanged};
use fuseloop::sample::Limits;
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_counts::rounds;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use rand_xoshiro::rand_core::Rng;
use std::path::Path;

const TILES: [Tile; 4] = [Tile::Pixels(8), Tile::Pixels(32), Tile::Pixels(48), Tile::Row];

/// The number of images to try.
fn cases() -> u64 {
    rounds("FUSELOOP_PLANES")
}

fn codec() -> BitPlaneCodec {
    BitPlaneCodec::new(Limits::DEFAULT)
}

fn pixels(
    decoder: &mut Decoder,
    (mode, bytes): (ImageMode, &[u8]),
    read: ImageReadMode,
    window: Window,
) -> Result<Vec<u8>, Error> {
    let image = EncodedImage { mode, width: 0, height: 0, bytes };
    let mut opened = decoder.open_as(&image, read)?;
    let view = opened.decode(window)?.window(window).expect("at least the window");
    Ok((0..window.height).flat_map(|y| view.row(y).to_vec()).collect())
}

/// The core alone decodes JPEGs, so that no other decoder's pixels are compared.
fn core() -> Decoder {
    Decoder::with_backend(JpegBackend::Core, DecodeOptions::default())
}

/// Asserts that a JPEG and its bit planes have the same colours and the same luma in a window.
fn assert_same(decoder: &mut Decoder, [jpeg, planes]: [&[u8]; 2], window: Window, name: &str) {
    for read in [ImageReadMode::Rgb, ImageReadMode::Gray] {
        let expected = pixels(decoder, (ImageMode::Jpeg, jpeg), read, window).unwrap();
        let found = pixels(decoder, (ImageMode::BitPlanes, planes), read, window).unwrap();
        assert!(found == expected, "{name}, {read:?}, {window:?}");
    }
}

/// Packs a JPEG, and asserts that it comes back.
fn packed(jpeg: &[u8], tile: Tile, name: &str) -> Vec<u8> {
    let planes = codec().pack(jpeg, tile).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(codec().unpack(&planes).unwrap() == jpeg, "{name}");
    planes
}

fn noise(size: Size, sampling: Option<SamplingFactor>, interval: u16, seed: u64) -> Vec<u8> {
    let mut rng = random(seed);
    let values = size.pixels() as usize * sampling.map_or(1, |_| 3);
    let contrast = [1, 16, 64, 255][below(&mut rng, 4)];
    let pixels: Vec<u8> = (0..values)
        .map(|i| ((i / 97 % 191) as u8).wrapping_add(below(&mut rng, contrast) as u8))
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 1 + (seed % 100) as u8);
    encoder.set_sampling_factor(sampling.unwrap_or(SamplingFactor::R_4_4_4));
    if interval > 0 {
        encoder.set_restart_interval(interval);
    }
    let color = sampling.map_or(ColorType::Luma, |_| ColorType::Rgb);
    encoder.encode(&pixels, size.width as u16, size.height as u16, color).unwrap();
    bytes
}

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg");
    std::fs::read(folder.join(name)).unwrap()
}

fn windows(size: Size) -> impl Iterator<Item = Window> {
    let sides = |side: u32| (0..side).flat_map(move |at| (1..=side - at).map(move |len| (at, len)));
    sides(size.height).flat_map(move |(top, height)| {
        sides(size.width).map(move |(left, width)| Window { top, left, height, width })
    })
}

#[test]
fn every_window_of_a_small_image_has_the_jpegs_pixels() {
    let mut decoder = core();
    let is_slow = cases() > 200;
    for (n, sampling) in SAMPLINGS.into_iter().enumerate() {
        for (seed, (height, width)) in [(17, 19), (16, 18), (9, 40)].into_iter().enumerate() {
            let size = Size::new(height, width);
            let jpeg = noise(size, sampling, [0, 1, 3][seed], 60 + seed as u64);
            let name = format!("{sampling:?}, {size}");
            let planes = packed(&jpeg, TILES[(n + seed) % 4], &name);
            for (n, window) in windows(size).enumerate() {
                if n % 7 == seed || is_slow {
                    assert_same(&mut decoder, [&jpeg, &planes], window, &name);
                }
            }
        }
    }
}

#[test]
fn the_goldens_that_the_core_decodes_have_the_same_pixels() {
    let (mut decoder, mut rng, mut taken) = (core(), random(3), 0);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg");
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "jpg") {
            continue;
        }
        let (name, jpeg) = (path.display().to_string(), std::fs::read(&path).unwrap());
        let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &jpeg };
        let size = decoder.size(&image);
        let is_known = size.as_ref().is_ok_and(|size| {
            let image = (ImageMode::Jpeg, &jpeg[..]);
            pixels(&mut decoder, image, ImageReadMode::Rgb, size.full()).is_ok()
        }) && decoder.open(&image).is_ok_and(|opened| opened.decodes_windows());
        let planes = codec().pack(&jpeg, Tile::default());
        assert_eq!(planes.is_ok(), is_known, "{name}: {:?}", planes.err());
        let (Ok(planes), Ok(size)) = (planes, size) else { continue };
        assert!(codec().unpack(&planes).unwrap() == jpeg, "{name}");
        for window in
            std::iter::once(size.full()).chain((0..20).map(|_| random_window(size, &mut rng)))
        {
            assert_same(&mut decoder, [&jpeg, &planes], window, &name);
        }
        taken += 1;
    }
    assert_eq!(taken, 15, "as in core.rs");
}

#[test]
fn noise_of_every_quality_size_and_sampling_has_the_same_pixels_and_comes_back() {
    let mut decoder = core();
    for n in 0..cases() {
        let mut rng = random(n);
        let size = Size::new(1 + rng.next_u32() % 90, 1 + rng.next_u32() % 90);
        let (sampling, tile) = (SAMPLINGS[below(&mut rng, 5)], TILES[below(&mut rng, 4)]);
        let interval = below(&mut rng, 12).saturating_sub(6) as u16;
        let jpeg = noise(size, sampling, interval, n);
        let name = format!("picture {n}, {size}, {sampling:?}");
        let planes = packed(&jpeg, tile, &name);
        assert_same(&mut decoder, [&jpeg, &planes], size.full(), &name);
        for _ in 0..5 {
            let window = random_window(size, &mut rng);
            assert_same(&mut decoder, [&jpeg, &planes], window, &name);
        }
    }
}

#[test]
fn everything_beside_the_coefficients_comes_back() {
    let jpeg = noise(Size::new(33, 47), SAMPLINGS[4], 0, 70);
    let segment = |marker: u8, body: &[u8]| {
        let [high, low] = (body.len() as u16 + 2).to_be_bytes();
        [&[0xff, marker, high, low], body].concat()
    };
    let metadata = [
        segment(0xe1, b"Exif\0\0II*\0\x08\0\0\0\0\0"),
        segment(0xe2, &[b"ICC_PROFILE\0\x01\x01".as_slice(), &[7; 3000]].concat()),
        segment(0xfe, b"a comment"),
    ]
    .concat();
    let with_metadata = [&jpeg[..2], &metadata, &jpeg[2..]].concat();
    let with_tail = [&with_metadata, b"bytes after the end, \xff\xd8\xff\xd0".as_slice()].concat();
    // Some encoders end the last segment with a restart marker, too.
    let (image, end) = jpeg.split_at(jpeg.len() - 2);
    let with_marker = [image, &[0xff, 0xd0], end].concat();
    for file in [&with_metadata, &with_tail, &with_marker] {
        let planes = packed(file, Tile::default(), "metadata");
        assert_same(&mut core(), [file, &planes], Size::new(33, 47).full(), "metadata");
    }
}

/// Returns the image with the last byte of its coded data filled up with zeros, if it is filled up at all.
fn filled_with_zeros(mut jpeg: Vec<u8>) -> Option<Vec<u8>> {
    let last = jpeg.len() - 3;
    let ones = jpeg[last].trailing_ones();
    // A code of zeros at the end would be taken for the fill bits.
    jpeg[last] = jpeg[last] >> ones << ones;
    let differs = ones > 0 && ones < 8 && jpeg[last - 1] != 0xff;
    differs.then_some(jpeg)
}

#[test]
fn bits_that_fill_up_the_last_byte_come_back_as_zeros_too() {
    let mut taken = 0;
    for seed in 0..60 {
        let jpeg = noise(Size::new(20, 20), SAMPLINGS[(seed % 5) as usize], 0, seed);
        let Some(file) = filled_with_zeros(jpeg) else { continue };
        // The last bits may be those of a code: then the file is another image, or none.
        if let Ok(planes) = codec().pack(&file, Tile::default()) {
            assert!(codec().unpack(&planes).unwrap() == file, "seed {seed}");
            taken += 1;
        }
    }
    assert!(taken > 10, "{taken}");
}

#[test]
fn a_jpeg_of_which_no_bit_planes_are_made_is_refused_with_its_cause() {
    for (name, cause) in [
        ("420_progressive.jpg", Unchanged::SeveralScans),
        ("420_separate.jpg", Unchanged::SeveralScans),
        ("411.jpg", Unchanged::Rare),
        ("cmyk.jpg", Unchanged::Rare),
    ] {
        assert_eq!(codec().pack(&golden(name), Tile::default()), Err(cause), "{name}");
    }
    let jpeg = noise(Size::new(40, 40), SAMPLINGS[4], 2, 80);
    // Segments that are filled up in two ways.
    let marker = jpeg.windows(2).position(|pair| pair == [0xff, 0xd0]).unwrap();
    let mixed = (0..8).find_map(|bit| {
        let mut mixed = jpeg.clone();
        mixed[marker - 1] ^= 1 << bit;
        let refused = codec().pack(&mixed, Tile::default());
        (refused == Err(Unchanged::Restored)).then_some(())
    });
    assert_eq!(mixed, Some(()), "no bit is one that fills up");
    assert_eq!(codec().pack(b"RIFF", Tile::default()), Err(Unchanged::NotJpeg));
    assert!(codec().pack(&jpeg[..jpeg.len() - 9], Tile::default()).is_err());
}

/// Every byte of a small image is changed, and it is cut off everywhere.
#[test]
fn damage_is_an_error_or_the_same_pixels() {
    let mut decoder = core();
    let size = Size::new(40, 24);
    let jpeg = noise(size, SAMPLINGS[4], 0, 75);
    let planes = packed(&jpeg, Tile::Pixels(16), "small");
    let expected =
        pixels(&mut decoder, (ImageMode::Jpeg, &jpeg), ImageReadMode::Rgb, size.full()).unwrap();
    let mut same = 0;
    for at in 0..planes.len() {
        for bit in [0, 3, 7] {
            let mut damaged = planes.clone();
            damaged[at] ^= 1 << bit;
            assert!(codec().unpack(&damaged).is_err(), "bit {bit} of byte {at}");
            let image = (ImageMode::BitPlanes, &damaged[..]);
            if let Ok(found) = pixels(&mut decoder, image, ImageReadMode::Rgb, size.full()) {
                assert!(found == expected, "bit {bit} of byte {at}");
                same += 1;
            }
        }
        let cut = (ImageMode::BitPlanes, &planes[..at]);
        assert!(pixels(&mut decoder, cut, ImageReadMode::Rgb, size.full()).is_err(), "{at}");
    }
    assert_eq!(same, 3 * 2, "only the JPEG's end marker");
}

/// Computes the checksums of a damaged image again, so that the decoder itself must find the damage.
fn sealed(planes: &mut [u8], rows: usize) {
    let word = |planes: &[u8], at: usize| {
        planes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word) as usize)
    };
    let [head, main, side, tail] = [12, 16, 20, 24].map(|at| word(planes, at));
    let Some(streams) = planes.len().checked_sub(main + side + tail) else { return };
    let (checksums, mut index) = (32 + head, 32 + head + 4 * (rows + 1));
    if index > streams {
        return;
    }
    // The test's images have one tile a row.
    let mut ends = [streams, streams + main];
    for row in 0..rows {
        let mut checksum = 0;
        for end in &mut ends {
            let Some(length) = planes.get(index).copied() else { return };
            let (length, size) = match length {
                0xff => (word(planes, index + 1) & 0xffff, 3),
                short => (short.into(), 1),
            };
            index += size;
            let Some(part) = planes.get(*end..*end + length) else { return };
            checksum = crc32c::crc32c_append(checksum, part);
            *end += length;
        }
        planes[checksums + 4 * row..][..4].copy_from_slice(&checksum.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&planes[12..streams]);
    planes[8..12].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn forged_images_with_right_checksums_are_decoded_or_refused() {
    let mut decoder = core();
    let (mut taken, mut refused) = (0, 0);
    for n in 0..20 * cases() {
        let mut rng = random(n);
        let size = Size::new(24 + rng.next_u32() % 20, 8 + rng.next_u32() % 60);
        let sampling = SAMPLINGS[below(&mut rng, 5)];
        let jpeg = noise(size, sampling, 0, n % 97);
        let mut planes = codec().pack(&jpeg, Tile::Row).unwrap();
        let head = u32::from_le_bytes(planes[12..16].try_into().unwrap()) as usize;
        let rows = match sampling {
            Some(SamplingFactor::R_4_4_0 | SamplingFactor::R_4_2_0) => size.height.div_ceil(16),
            _ => size.height.div_ceil(8),
        };
        // Mostly behind the headers.
        let start = if n % 4 == 0 { 12 } else { 32 + head };
        for _ in 0..1 + below(&mut rng, 3) {
            let at = start + below(&mut rng, planes.len() - start);
            planes[at] = match below(&mut rng, 3) {
                0 => 0xff,
                1 => planes[at] ^ 1 << below(&mut rng, 8),
                _ => below(&mut rng, 256) as u8,
            };
        }
        sealed(&mut planes, rows as usize);
        let window = random_window(size, &mut rng);
        let image = (ImageMode::BitPlanes, &planes[..]);
        match pixels(&mut decoder, image, ImageReadMode::Rgb, window) {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
        let _ = codec().unpack(&planes);
    }
    println!("{taken} decoded, {refused} refused");
    assert!(taken > 10 && refused > 10, "{taken}, {refused}");
}

/// Images that were written must be read for ever. `BLESS=1` writes the goldens of a new version of the format.
#[test]
fn goldens_are_written_and_read_as_ever() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (name, tile) in
        [("444", Tile::Pixels(16)), ("420_restart", Tile::Pixels(32)), ("gray", Tile::Row)]
    {
        let jpeg = std::fs::read(golden.join(format!("jpeg/{name}.jpg"))).unwrap();
        let path = golden.join(format!("bit_planes/{name}.fplanes"));
        let planes = codec().pack(&jpeg, tile).unwrap();
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &planes).unwrap();
        }
        let kept = std::fs::read(&path).unwrap();
        assert!(codec().unpack(&kept).unwrap() == jpeg, "{name}: another JPEG");
        assert!(kept == planes, "{name}: written differently");
    }
}

#[test]
fn an_image_over_the_limits_is_refused() {
    let planes = packed(&noise(Size::new(40, 40), None, 0, 5), Tile::default(), "gray");
    let refuses = |limits: Limits| {
        let options = DecodeOptions { limits, ..DecodeOptions::default() };
        let image =
            EncodedImage { mode: ImageMode::BitPlanes, width: 0, height: 0, bytes: &planes };
        let found = Decoder::new(options).size(&image);
        assert_eq!(BitPlaneCodec::new(limits).unpack(&planes).is_err(), found.is_err());
        found.is_err()
    };
    assert!(!refuses(Limits { max_pixels: 1600, ..Limits::DEFAULT }));
    assert!(refuses(Limits { max_pixels: 1599, ..Limits::DEFAULT }));
    assert!(refuses(Limits { max_sample_bytes: planes.len() as u64 - 1, ..Limits::DEFAULT }));
}

#[test]
fn photographs_have_the_same_pixels_and_come_back() {
    let (mut decoder, mut rng) = (core(), random(4));
    let [mut before, mut after] = [0, 0];
    for path in photographs() {
        let (name, jpeg) = (path.display().to_string(), std::fs::read(&path).unwrap());
        let planes = packed(&jpeg, Tile::default(), &name);
        (before, after) = (before + jpeg.len(), after + planes.len());
        let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &jpeg };
        let size = decoder.size(&image).unwrap();
        for _ in 0..4 {
            let window = random_window(size, &mut rng);
            assert_same(&mut decoder, [&jpeg, &planes], window, &name);
        }
    }
    println!("{before} bytes of JPEGs, {after} of bit planes");
    assert!(after * 100 <= before * 113, "{before} {after}");
}
