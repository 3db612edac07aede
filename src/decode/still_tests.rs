//! BMP, GIF, PNM, JPEG XL and HEIC against Pillow's pixels (`scripts/still_goldens.py`), and against damage.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use super::test_images::{cut, folder, image, read};
use super::{DecodeOptions, Decoder, ImageReadMode};
use crate::error::Error;
use crate::sample::Limits;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;

/// The folders of goldens, and the most by which a level may differ from Pillow's.
const FOLDERS: &[(&str, u8)] = &[
    ("bmp", 0),
    ("gif", 0),
    ("pnm", 0),
    #[cfg(feature = "jxl")]
    ("jxl", 1),
    #[cfg(feature = "heic")]
    ("heic", 1),
];

fn golden(path: &str) -> Vec<u8> {
    std::fs::read(folder(path)).unwrap()
}

/// Returns the image files of a folder of goldens, and their names without extension.
fn files(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![];
    for entry in std::fs::read_dir(folder(kind)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !["pixels", "index", "i16"]
            .map(|end| path.extension() == Some(end.as_ref()))
            .contains(&true)
        {
            files.push((name, std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    assert!(files.len() > 5, "{kind}");
    files
}

fn whole(bytes: &[u8], mode: ImageReadMode) -> Result<Vec<u8>, Error> {
    let mut decoder = Decoder::default();
    let size = decoder.open_as(&image(bytes), mode)?.size();
    read(&mut decoder, bytes, mode, size.full())
}

#[test]
fn pixels_are_those_of_pillow_in_every_window() {
    let mut decoder = Decoder::default();
    let mut wrong = vec![];
    for &(kind, most) in FOLDERS {
        for (name, bytes) in files(kind) {
            let pixels = golden(&format!("{kind}/{name}.pixels"));
            let side = |at: usize| u32::from_le_bytes(pixels[at..at + 4].try_into().unwrap());
            let size = Size::new(side(0), side(4));
            let (rgba, gray) = pixels[8..].split_at(size.pixels() as usize * 4);
            let rgb: Vec<u8> =
                rgba.chunks_exact(4).flat_map(|pixel| &pixel[..3]).copied().collect();
            assert_eq!(decoder.size(&image(&bytes)).unwrap(), size, "{name}");
            let part = Window {
                top: size.height / 3,
                left: size.width / 4,
                height: size.height / 2,
                width: size.width / 3,
            };
            for (mode, want) in [
                (ImageReadMode::Rgb, &rgb[..]),
                (ImageReadMode::Gray, gray),
                (ImageReadMode::RgbAlpha, rgba),
            ] {
                for window in [size.full(), part] {
                    let found = read(&mut decoder, &bytes, mode, window).unwrap();
                    let want = cut(want, size, usize::from(mode.channels()), window);
                    let off = found.iter().zip(&want).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
                    if off > most || found.len() != want.len() {
                        wrong.push(format!("{kind}/{name}, {mode:?}, {window:?}: off by {off}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A space ends the header, so that the LF after a CR counts as a sample, for Pillow and OpenCV, too.
#[test]
fn a_pnm_whose_lines_end_in_cr_lf_is_read_as_text_and_refused_as_bytes() {
    let gray = |file: &[u8]| whole(file, ImageReadMode::Gray);
    let text = b"P2\r\n# a comment\r\n3 2\r\n255\r\n1 2 3\r\n4 5 6\r\n";
    assert_eq!(gray(text).unwrap(), [1, 2, 3, 4, 5, 6]);
    for file in [&b"P5\r\n3 2\r\n255\r\nabcdef"[..], b"P4\r\n8 2\r\nab"] {
        let error = gray(file).unwrap_err().to_string();
        assert!(
            error.contains("PNM that can't be decoded: its header has lines that end in CR and LF"),
            "{error}"
        );
    }
    assert_eq!(gray(b"P5\n3 2\r255\r\nabcde").unwrap(), b"\nabcde");
}

#[test]
fn indices_and_levels_are_those_stored() {
    let mut indices = 0;
    for kind in ["bmp", "gif"] {
        for (name, bytes) in files(kind) {
            if folder(kind).join(format!("{name}.index")).exists() {
                let want = golden(&format!("{kind}/{name}.index"));
                assert_eq!(whole(&bytes, ImageReadMode::Index).unwrap(), want, "{kind}/{name}");
                indices += 1;
            }
        }
    }
    assert!(indices > 10, "{indices}");
    let deep = golden("pnm/p5_gray16.pgm");
    assert_eq!(whole(&deep, ImageReadMode::Gray16).unwrap(), golden("pnm/p5_gray16.i16"));
    // Not scaled: a mask of a graymap has the numbers of its file.
    let small = golden("pnm/p5_15.pgm");
    assert_eq!(whole(&small, ImageReadMode::Index).unwrap(), small[small.len() - 77..]);
    for path in ["pnm/p1.pbm", "pnm/p4.pbm"] {
        let index = whole(&golden(path), ImageReadMode::Index).unwrap();
        let gray = whole(&golden(path), ImageReadMode::Gray).unwrap();
        assert!(index.iter().zip(&gray).all(|(bit, level)| bit * 255 == *level), "{path}");
    }
    let error = whole(&deep, ImageReadMode::Index).unwrap_err();
    assert!(error.to_string().contains("an index is at most 255"), "{error}");
    for (path, fits) in
        [("bmp/rgb24.bmp", "rgb"), ("gif/palette.gif", "index"), ("pnm/p5.pgm", "gray")]
    {
        let error = whole(&golden(path), ImageReadMode::Gray16).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("can't be read as 16-bit gray: use the read mode {fits:?}")),
            "{error}"
        );
    }
}

#[cfg(all(feature = "heic", feature = "jxl"))]
#[test]
fn a_lossy_format_is_no_mask() {
    for (path, name) in [("jxl/gray.jxl", "a JPEG XL"), ("heic/gray.heic", "a HEIC")] {
        let error = whole(&golden(path), ImageReadMode::Index).unwrap_err();
        assert_eq!(error.damage_found(), Some(crate::error::Damage::Unsupported));
        assert!(
            error.to_string().starts_with(&format!("{name} holds no exact numbers")),
            "{error}"
        );
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
    for &(kind, _) in FOLDERS {
        for (name, whole) in files(kind) {
            assert!(try_one(&whole), "{name}");
            let (mut good, step) = (0, 1 + whole.len() / 200);
            for end in (0..whole.len()).step_by(step) {
                good += usize::from(try_one(&whole[..end]));
            }
            // The first image of an animation is whole in many.
            let most = if name.contains("animated") { 200 } else { whole.len() / step / 2 + 2 };
            assert!(good < most, "{good} cuts of {name} are images");
            for at in (0..whole.len()).step_by(step).chain(0..whole.len().min(100)) {
                for change in [1, 0x80, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] ^= change;
                    try_one(&changed);
                }
            }
        }
    }
}

#[test]
fn sizes_are_checked_before_memory_is_taken() {
    let mut decoder = Decoder::default();
    let mut refused = |bytes: &[u8]| decoder.size(&image(bytes)).unwrap_err().to_string();
    let mut bmp = golden("bmp/rgb24.bmp");
    bmp[18..26].copy_from_slice(&[0xff, 0x1f, 0, 0, 0xff, 0x1f, 0, 0]);
    assert!(
        refused(&bmp).contains("cannot be an image of 8191x8191, which needs"),
        "{}",
        refused(&bmp)
    );
    bmp[18..26].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    assert!(refused(&bmp).contains("the limit is 178956970"), "{}", refused(&bmp));
    bmp[18..26].copy_from_slice(&[0xff; 8]);
    assert!(refused(&bmp).contains("its width is -1"), "{}", refused(&bmp));
    let mut gif = golden("gif/palette.gif");
    gif[6..10].fill(0xff);
    assert!(refused(&gif).contains("65535x65535 is 4294836225 pixels"), "{}", refused(&gif));
    assert!(refused(b"P6 9999 9999 255\n").contains("needs 299940003"));
    assert!(refused(b"P6 0 7 255\n").contains("it has no pixels"));
    assert!(refused(b"P6 99999999999 7 255\n").contains("its width is \"99999999999\""));
    assert!(refused(b"P5 1 1 65536\n\0").contains("not from 1 to 65535"));
    assert!(refused(b"P2 # no end").contains("it ends inside its header"));
}

#[test]
fn what_is_not_decoded_is_named() {
    let mut bmp = golden("bmp/rgb24.bmp");
    let mut refused = |at: usize, byte: u8| {
        let before = std::mem::replace(&mut bmp[at], byte);
        let error = Decoder::default().size(&image(&bmp)).unwrap_err().to_string();
        bmp[at] = before;
        error
    };
    for (at, byte, part) in [
        (30, 4, "its compression is 4 (JPEG), which is not decoded for 24 bits a pixel"),
        (28, 3, "3 bits a pixel, expected 1, 4, 8, 16, 24 or 32"),
        (14, 41, "its header has 41 bytes, which no kind of BMP has"),
        (30, 3, "the masks of its colours are"),
    ] {
        let message = refused(at, byte);
        assert!(message.contains(part), "{message}");
    }
    let error = whole(b"P2 2 1 9\n7 10\n", ImageReadMode::Rgb).unwrap_err().to_string();
    assert!(error.contains("it has a sample \"10\", expected a number from 0 to 9"), "{error}");
    let error =
        whole(b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 5\nMAXVAL 9\nENDHDR\n     ", ImageReadMode::Rgb);
    assert!(error.unwrap_err().to_string().contains("have 5 samples, expected 1 to 4"));
    let avif = b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf\0\0";
    let error = Decoder::default().size(&image(avif)).unwrap_err().to_string();
    assert!(
        error.contains("it is an AVIF, which is not read: convert it, for example by"),
        "{error}"
    );
}
