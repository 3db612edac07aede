//! Lossless images against libwebp's pixels (`scripts/webp_lossless_goldens.py`), the crate image-webp, and damage.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod lossless_encoder;

use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_webp::fuzzing::lossless_image;
use fuseloop_webp::{
    AlphaChunk, LosslessDecoder, LosslessError, LosslessHeader, LosslessPixels, LossyError,
};
use image_webp::WebPDecoder;
use lossless_encoder::random_image;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;

/// The bytes before the image of a file with one chunk.
const HEADERS: usize = 20;

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lossless");
    std::fs::read(folder.join(name)).unwrap()
}

/// Returns the names of goldens and the SHA-256 of their RGBA.
fn goldens() -> Vec<(String, String)> {
    let list = String::from_utf8(golden("pixels.txt")).unwrap();
    let line = |line: &str| {
        let (name, digest) = line.split_once(' ').unwrap();
        (name.to_owned(), digest.to_owned())
    };
    list.lines().map(line).collect()
}

fn below(rng: &mut Xoshiro256PlusPlus, most: u32) -> u32 {
    (rng.next_u64() % u64::from(most)) as u32
}

fn random_window(rng: &mut Xoshiro256PlusPlus, size: Size) -> Window {
    let (top, left) = (below(rng, size.height), below(rng, size.width));
    let (height, width) = (1 + below(rng, size.height - top), 1 + below(rng, size.width - left));
    Window { top, left, height, width }
}

fn decode(
    decoder: &mut LosslessDecoder,
    image: &[u8],
    window: Window,
) -> Result<Vec<u8>, LosslessError> {
    let mut rgba = vec![7; 4 * window.size().pixels() as usize];
    decoder.decode(image, window, LosslessPixels::RgbAlpha, &mut rgba)?;
    Ok(rgba)
}

fn cut(whole: &[u8], size: Size, window: Window, channels: usize) -> Vec<u8> {
    let rows = whole.chunks(channels * size.width as usize).skip(window.top as usize);
    let columns = channels * window.left as usize..channels * (window.left + window.width) as usize;
    rows.take(window.height as usize).flat_map(|row| &row[columns.clone()]).copied().collect()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
fn pixels_are_those_of_libwebp_in_every_window() {
    let mut decoder = LosslessDecoder::default();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for (name, want) in goldens() {
        let file = golden(&name);
        let image = &file[HEADERS..];
        let size = LosslessHeader::parse(image).unwrap().size;
        let whole = decode(&mut decoder, image, size.full()).unwrap();
        assert_eq!(digest(&whole), want, "{name}");
        for _ in 0..40 {
            let window = random_window(&mut rng, size);
            let found = decode(&mut decoder, image, window).unwrap();
            assert!(found == cut(&whole, size, window, 4), "{window:?} of {name}");
            let mut rgb = vec![7; 3 * window.size().pixels() as usize];
            decoder.decode(image, window, LosslessPixels::Rgb, &mut rgb).unwrap();
            let opaque = found.chunks(4).flat_map(|pixel| &pixel[..3]);
            assert!(rgb.iter().eq(opaque), "{window:?} of {name}");
        }
    }
}

/// Returns a file with the image as its only chunk.
fn file(image: &[u8]) -> Vec<u8> {
    let len = image.len() as u32;
    let padding = vec![0; image.len() % 2];
    let riff = (12 + len + len % 2).to_le_bytes();
    [b"RIFF", &riff[..], b"WEBPVP8L", &len.to_le_bytes(), image, &padding].concat()
}

#[test]
fn random_images_are_decoded_as_by_another_decoder() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut decoder = LosslessDecoder::default();
    for round in 0..1500 {
        let (size, has_alpha, image) = random_image(&mut rng);
        let header = LosslessHeader::parse(&image);
        assert_eq!(header, Ok(LosslessHeader { size, has_alpha }));
        let found = decode(&mut decoder, &image, size.full());
        let found = found.unwrap_or_else(|error| panic!("round {round}, {size}: {error}"));
        let file = file(&image);
        let mut other = WebPDecoder::new(Cursor::new(&file[..])).unwrap();
        let mut want = vec![0; other.output_buffer_size().unwrap()];
        other.read_image(&mut want).unwrap();
        if !has_alpha {
            want = want.chunks(3).flat_map(|rgb| [rgb[0], rgb[1], rgb[2], 255]).collect();
        }
        assert!(found == want, "round {round}, {size}");
        for _ in 0..4 {
            let window = random_window(&mut rng, size);
            let part = decode(&mut decoder, &image, window).unwrap();
            assert!(part == cut(&found, size, window, 4), "round {round}: {window:?} of {size}");
        }
        // The image without its header is the alpha of a lossy image: its green.
        let chunk = [&[1], &image[5..]].concat();
        let chunk = AlphaChunk::parse(&chunk).unwrap();
        let window = random_window(&mut rng, size);
        let mut alpha = vec![7; window.size().pixels() as usize];
        chunk.decode(&mut decoder, size, window, &mut alpha).unwrap();
        let rgba = cut(&found, size, window, 4);
        assert!(alpha.iter().eq(rgba.iter().skip(1).step_by(4)), "round {round}");
    }
}

#[test]
fn images_cut_short_or_changed_are_refused_or_decoded() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut images: Vec<Vec<u8>> =
        goldens().iter().map(|(name, _)| golden(name)[HEADERS..].to_vec()).collect();
    images.extend((0..60).map(|_| random_image(&mut rng).2));
    for (i, image) in images.into_iter().enumerate() {
        assert!(lossless_image(&image), "image {i}");
        let step = 1 + image.len() / 60;
        // The last byte of the chunk may be padding.
        for end in (0..image.len() - 1).step_by(step) {
            assert!(!lossless_image(&image[..end]), "{end} bytes of image {i}");
        }
        for _ in 0..60 {
            let mut changed = image.clone();
            for _ in 0..1 + below(&mut rng, 4) {
                let at = below(&mut rng, image.len() as u32) as usize;
                changed[at] = rng.next_u64() as u8;
            }
            let _ = lossless_image(&changed);
        }
    }
}

#[test]
fn what_is_below_the_window_is_not_read() {
    let (name, _) = goldens().swap_remove(0);
    let file = golden(&name);
    let image = &file[HEADERS..];
    let size = LosslessHeader::parse(image).unwrap().size;
    let window = Window { height: size.height / 8, ..size.full() };
    let mut decoder = LosslessDecoder::default();
    let want = decode(&mut decoder, image, window).unwrap();
    let end = image.len() * 3 / 4;
    assert_eq!(decode(&mut decoder, &image[..end], window), Ok(want));
    let refused = decode(&mut decoder, &image[..end], size.full()).unwrap_err();
    let text = format!("the image ends after {end} bytes, inside its pixels");
    assert_eq!(refused.to_string(), text);
}

#[test]
fn what_is_asked_for_is_checked() {
    let (name, _) = goldens().swap_remove(0);
    let image = golden(&name)[HEADERS..].to_vec();
    let size = LosslessHeader::parse(&image).unwrap().size;
    let mut decoder = LosslessDecoder::default();
    for window in [
        Window { height: 0, ..size.full() },
        Window { left: size.width, width: 1, ..size.full() },
        Window { top: u32::MAX, height: u32::MAX, ..size.full() },
    ] {
        let refused = decoder.decode(&image, window, LosslessPixels::Rgb, &mut []);
        assert_eq!(refused, Err(LosslessError::Window));
    }
    let expected = 3 * size.pixels() as usize;
    let refused = decoder.decode(&image, size.full(), LosslessPixels::Rgb, &mut [0; 5]);
    assert_eq!(refused, Err(LosslessError::Buffer { expected, found: 5 }));
    let with = |at: usize, byte: u8| {
        let mut changed = image.clone();
        changed[at] = byte;
        LosslessHeader::parse(&changed).unwrap_err().to_string()
    };
    assert_eq!(with(0, 0x30), "the image begins with 30, expected 2f");
    assert_eq!(with(4, image[4] | 0x20), "the image's version is 1, expected 0");
    let refused = LosslessHeader::parse(&image[..4]).unwrap_err().to_string();
    assert_eq!(refused, "the image ends after 4 bytes, inside its header");
    let chunk = [&[1], &image[5..40]].concat();
    let refused = AlphaChunk::parse(&chunk).unwrap().decode(
        &mut decoder,
        size,
        size.full(),
        &mut vec![0; size.pixels() as usize],
    );
    assert!(matches!(refused, Err(LossyError::Alpha(LosslessError::Truncated { .. }))));
}
