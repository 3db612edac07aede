//! WebP and TIFF against Pillow's pixels (`scripts/webp_tiff_goldens.py`), and against damage.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use super::test_images::{cut, folder, image, read};
use super::{DecodeOptions, Decoder, ImageReadMode};
use crate::error::Damage;
use crate::sample::Limits;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use std::path::Path;

fn golden(kind: &str, name: &str) -> Vec<u8> {
    std::fs::read(folder(kind).join(name)).unwrap()
}

/// Returns the names of goldens of pictures, without their extension.
fn names(kind: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder(kind)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".pixels").map(str::to_owned)).collect();
    names.sort();
    assert!(names.len() > 5, "{kind}: {names:?}");
    names
}

/// Returns the whole image and twenty random windows.
fn windows(size: Size, seed: u64) -> Vec<Window> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |most: u32| (rng.next_u64() % u64::from(most)) as u32;
    let mut all = vec![size.full()];
    for _ in 0..20 {
        let (top, left) = (below(size.height), below(size.width));
        let (height, width) = (1 + below(size.height - top), 1 + below(size.width - left));
        all.push(Window { top, left, height, width });
    }
    all
}

/// Lossless formats have Pillow's pixels, and so does lossy WebP, whose chroma is enlarged by libwebp's rule.
#[test]
fn pixels_are_those_of_pillow_in_every_window() {
    let mut decoder = Decoder::default();
    for (kind, ending) in [("webp", "webp"), ("tiff", "tif")] {
        for name in names(kind) {
            let bytes = golden(kind, &format!("{name}.{ending}"));
            let (size, pixels) = {
                let pixels = golden(kind, &format!("{name}.pixels"));
                let side = |at: usize| u32::from_le_bytes(pixels[at..at + 4].try_into().unwrap());
                (Size::new(side(0), side(4)), pixels[8..].to_vec())
            };
            let (rgba, gray) = pixels.split_at(size.pixels() as usize * 4);
            let rgb: Vec<u8> =
                rgba.chunks_exact(4).flat_map(|pixel| &pixel[..3]).copied().collect();
            assert_eq!(decoder.size(&image(&bytes)).unwrap(), size, "{name}");
            for (mode, want) in [
                (ImageReadMode::Rgb, &rgb[..]),
                (ImageReadMode::Gray, gray),
                (ImageReadMode::RgbAlpha, rgba),
            ] {
                for window in windows(size, 7) {
                    let found = read(&mut decoder, &bytes, mode, window).unwrap();
                    let want = cut(want, size, usize::from(mode.channels()), window);
                    let most = found.iter().zip(&want).map(|(a, b)| a.abs_diff(*b)).max();
                    assert!(found == want, "{window:?} of {name}, {mode:?}: off by {most:?}");
                }
            }
        }
    }
}

/// Returns a lossless WebP of one pixel whose first Huffman code has twice as many codes as there can be: their number modulo
/// 2^16 is right.
fn overfull_webp() -> Vec<u8> {
    let mut bits = Vec::new();
    let mut put = |value: u32, count: u32| {
        bits.extend((0..count).map(|bit| value.unbounded_shr(bit) & 1 != 0));
    };
    // A width and a height of 1, no alpha, version 0; no transform, no colour cache, one set of codes.
    put(0, 14 + 14 + 1 + 3);
    put(0, 1 + 1 + 1);
    // The code of the lengths: all 19 are listed, and those from 0 to 15 have four bits each.
    put(0, 1);
    put(15, 4);
    for length in [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
        put(if length < 16 { 4 } else { 0 }, 3);
    }
    // The lengths of 18 symbols, of which three take one and a half times the codes, the others the other half.
    put(1, 1);
    put(2, 3);
    put(16, 6);
    for length in [1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15_u32] {
        put(length.reverse_bits() >> 28, 4);
    }
    put(0, 64);
    let mut stream = vec![0x2f];
    stream.extend(bits.chunks(8).map(|byte| {
        byte.iter().enumerate().fold(0, |byte, (at, &bit)| byte | u8::from(bit) << at)
    }));
    stream.resize(stream.len().next_multiple_of(2), 0);
    let length = stream.len() as u32;
    let header = [b"RIFF", &(12 + length).to_le_bytes()[..], b"WEBPVP8L", &length.to_le_bytes()];
    [&header.concat()[..], &stream].concat()
}

#[test]
fn more_codewords_than_there_can_be_are_refused() {
    let mut decoder = Decoder::default();
    let bytes = overfull_webp();
    assert_eq!(decoder.size(&image(&bytes)), Ok(Size::new(1, 1)));
    let error = read(&mut decoder, &bytes, ImageReadMode::Rgb, Size::new(1, 1).full()).unwrap_err();
    let reason = "the codewords of a prefix code are more or fewer than their lengths allow";
    assert!(error.to_string().ends_with(reason), "{error}");
}

#[test]
fn levels_of_16_bits_and_indices_are_those_stored() {
    let mut decoder = Decoder::default();
    let size = Size::new(13, 21);
    for name in ["gray16", "gray16_big_endian"] {
        let (bytes, want) =
            (golden("tiff", &format!("{name}.tif")), golden("tiff", &format!("{name}.i16")));
        for window in windows(size, 8) {
            let found = read(&mut decoder, &bytes, ImageReadMode::Gray16, window).unwrap();
            assert!(found == cut(&want, size, 2, window), "{window:?} of {name}");
        }
    }
    let path = "tests/strangers/formats/inverted16-tiff/a/xray.tif";
    let inverted = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let window = Size::new(12, 16).full();
    let found = read(&mut decoder, &inverted, ImageReadMode::Gray16, window).unwrap();
    let levels = (0..12 * 16_u32).map(|n| u16::MAX - (n * 341 % 65536) as u16);
    assert!(found == levels.flat_map(u16::to_le_bytes).collect::<Vec<u8>>(), "its white is zero");
    for name in ["palette", "palette_of_pillow"] {
        let (bytes, want) =
            (golden("tiff", &format!("{name}.tif")), golden("tiff", &format!("{name}.index")));
        let found = read(&mut decoder, &bytes, ImageReadMode::Index, size.full()).unwrap();
        assert!(found == want, "{name}");
    }
    let bits = read(&mut decoder, &golden("tiff", "gray1.tif"), ImageReadMode::Index, size.full());
    assert!(bits.unwrap().iter().all(|&bit| bit < 2));
    let gray = golden("webp", "lossless_gray.webp");
    let size = decoder.size(&image(&gray)).unwrap();
    let want = read(&mut decoder, &gray, ImageReadMode::Gray, size.full()).unwrap();
    let index = read(&mut decoder, &gray, ImageReadMode::Index, size.full()).unwrap();
    assert_eq!(index, want, "a lossless WebP is a mask");
    let lossy = golden("webp", "lossy.webp");
    let refused = read(&mut decoder, &lossy, ImageReadMode::Index, size.full());
    let refused = refused.unwrap_err();
    assert_eq!(refused.damage_found(), Some(Damage::Unsupported));
    let text = "a lossy WebP holds no exact numbers, so it can't be read as an index: store masks as PNG or lossless WebP";
    assert_eq!(refused.to_string(), text);
    for (kind, name, fits) in [
        ("webp", "lossy.webp", "gray"),
        ("tiff", "gray.tif", "gray"),
        ("tiff", "palette.tif", "index"),
    ] {
        let bytes = golden(kind, name);
        let refused = read(&mut decoder, &bytes, ImageReadMode::Gray16, size.full()).unwrap_err();
        assert!(refused.to_string().ends_with(&format!("{fits:?}")), "{name}: {refused}");
    }
}

#[cfg(feature = "tar")]
#[test]
fn arrays_are_those_of_tifffile() {
    for name in [
        "float32",
        "float32_big_endian",
        "float32_lzw",
        "bands",
        "bands_planar",
        "bands_lzw",
        "int16",
        "int16_lzw_big_endian",
    ] {
        let (bytes, want) =
            (golden("tiff", &format!("{name}.tif")), golden("tiff", &format!("{name}.array")));
        let line = want.iter().position(|&byte| byte == b'\n').unwrap();
        let (dtype, shape, elements) = crate::source::TiffFile::array(&bytes, 1 << 20).unwrap();
        assert_eq!(format!("{dtype} {shape:?}"), String::from_utf8_lossy(&want[..line]), "{name}");
        assert!(elements == want[line + 1..], "{name}");
        let most = elements.len() as u64 - 1;
        assert!(crate::source::TiffFile::array(&bytes, most).is_err(), "{name}");
        let refused = Decoder::default().size(&image(&bytes)).unwrap_err().to_string();
        assert!(refused.contains("are not an image: read it as an array"), "{name}: {refused}");
    }
}

/// Every cut and every changed byte gives an error or pixels, within small limits.
#[test]
fn a_file_cut_short_or_changed_is_refused_or_decoded() {
    let limits = DecodeOptions { limits: Limits::SMALL, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(limits);
    let mut try_one = |bytes: &[u8]| {
        let Ok(size) = decoder.size(&image(bytes)) else { return false };
        assert!(size.pixels() <= Limits::SMALL.max_pixels);
        read(&mut decoder, bytes, ImageReadMode::Rgb, size.full()).is_ok()
    };
    for (kind, ending) in [("webp", "webp"), ("tiff", "tif")] {
        for name in names(kind) {
            let whole = golden(kind, &format!("{name}.{ending}"));
            assert!(try_one(&whole), "{name}");
            let (mut good, step) = (0, 1 + whole.len() / 500);
            for end in (0..whole.len()).step_by(step) {
                good += usize::from(try_one(&whole[..end]));
            }
            assert!(good < whole.len() / step / 2 + 2, "{good} cuts of {name} are images");
            for at in (0..whole.len()).step_by(step).chain(0..whole.len().min(120)) {
                for change in [1, 0x80, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] ^= change;
                    try_one(&changed);
                }
            }
        }
    }
}

/// Every value of every 16-bit number of a directory is tried at its ends.
#[test]
fn directories_of_odd_numbers_are_refused_or_decoded() {
    let limits = DecodeOptions { limits: Limits::SMALL, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(limits);
    for name in ["rgb_planar_tiles", "gray16", "palette_of_pillow", "rgb_bigtiff"] {
        let whole = golden("tiff", &format!("{name}.tif"));
        for at in 0..whole.len().min(400) - 4 {
            for value in [0_u32, 1, 0x7fff, 0xffff, 0x7fff_ffff, u32::MAX] {
                for bytes in [2, 4] {
                    let mut changed = whole.clone();
                    changed[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
                    if let Ok(size) = decoder.size(&image(&changed)) {
                        let _ = read(&mut decoder, &changed, ImageReadMode::Rgb, size.full());
                    }
                    #[cfg(feature = "tar")]
                    let _ = crate::source::TiffFile::array(&changed, 1 << 20);
                }
            }
        }
    }
}

#[test]
fn sizes_are_checked_before_memory_is_taken() {
    let mut decoder = Decoder::default();
    let mut refused = |bytes: &[u8]| decoder.size(&image(bytes)).unwrap_err().to_string();
    // The smallest directory: a width and a height.
    let mut tiff = b"II*\0\x08\0\0\0\x02\0".to_vec();
    for tag in [256_u16, 257] {
        tiff.extend([tag.to_le_bytes(), 3_u16.to_le_bytes()].concat());
        tiff.extend([1_u32.to_le_bytes(), 65_535_u32.to_le_bytes()].concat());
    }
    assert!(refused(&tiff).contains("the limit is 178956970"), "{}", refused(&tiff));
    // A canvas of 2^24 a side, and frames that are not their canvas.
    let webp = |chunks: &[u8]| [b"RIFF\xff\0\0\0WEBP", chunks].concat();
    let canvas = webp(b"VP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff");
    assert!(refused(&canvas).contains("at most 16384"), "{}", refused(&canvas));
    let lossless = webp(b"VP8L\x05\0\0\0\x2f\xff\xff\xff\x0f");
    assert!(
        refused(&lossless).contains("16384x16384 is 268435456 pixels"),
        "{}",
        refused(&lossless)
    );
    let lie =
        webp(b"VP8X\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0VP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\xff\x3f\xff\x3f");
    assert!(
        refused(&lie).contains("its frame is 16383x16383, its canvas 1x1"),
        "{}",
        refused(&lie)
    );
    let frame = b"VP8X\x0a\0\0\0\x02\0\0\0\0\0\0\0\0\0ANMF\x22\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0VP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\xff\x3f\xff\x3f";
    let lie = webp(frame);
    assert!(
        refused(&lie).contains("a frame is 16383x16383, its rectangle 1x1"),
        "{}",
        refused(&lie)
    );
    assert!(refused(b"RIFF\0\0\0\0WEBPVP8 ").contains("ends before its first frame"));
    // Bytes are missing in the middle: what follows them would be read as other pixels.
    let mut cut = golden("webp", "lossy.webp");
    let stated = cut.len();
    cut.drain(stated / 2..stated / 2 + 7);
    let wanted = format!("{} bytes, and its header says {stated}", stated - 7);
    assert!(refused(&cut).contains(&wanted), "{}", refused(&cut));
    let mut tiled = golden("tiff", "rgb_tiles_deflate.tif");
    let is_width = |entry: &[u8]| entry[..2] == 322_u16.to_le_bytes() && entry[4..] == [1, 0, 0, 0];
    let at = tiled.windows(8).position(is_width).unwrap();
    tiled[at + 2] = 4;
    tiled[at + 8..at + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(refused(&tiled).contains("its tiles are"), "{}", refused(&tiled));
}

#[test]
fn what_is_not_decoded_is_named() {
    let refused = |tag: u16, value: u16| {
        let mut bytes = golden("tiff", "rgb_lzw_predictor.tif");
        let entry = [tag.to_le_bytes(), 3_u16.to_le_bytes()].concat();
        let at = bytes.windows(4).position(|four| four == entry).unwrap();
        bytes[at + 8..at + 10].copy_from_slice(&value.to_le_bytes());
        Decoder::default().size(&image(&bytes)).unwrap_err().to_string()
    };
    for (tag, value, part) in [
        (259, 7, "its compression is 7 (JPEG), which is not decoded: expected none, LZW"),
        (259, 50_000, "(Zstandard)"),
        (259, 9, "its compression is 9, which"),
        (262, 6, "its photometric interpretation is YCbCr, which is not decoded"),
        (317, 3, "its predictor is 3"),
        (284, 3, "its planar configuration is 3"),
        (277, 2000, "its number of samples is 2000"),
    ] {
        let message = refused(tag, value);
        assert!(message.contains(part), "{message}");
    }
}
