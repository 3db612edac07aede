//! Promises of decoding at a smaller scale: windows are those of the smaller image, bit planes have the JPEG's pixels,
//! and the smaller image is the stored one, averaged.
//!
//! `FUSELOOP_SCALED` is the number of images generated.

use crate::SAMPLINGS;
use crate::common::jpegs::{below, progressive, random, random_window};
use crate::common::photographs::photographs;
use fuseloop::ImageReadMode;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend, ScaledImage};
use fuseloop::recut::{BitPlaneCodec, Tile};
use fuseloop::sample::Limits;
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_counts::rounds;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

const FACTORS: [u32; 3] = [2, 4, 8];

/// Encodes a smooth image with some noise.
fn drawn(size: Size, sampling: Option<SamplingFactor>, noise: usize, seed: u64) -> Vec<u8> {
    let mut rng = random(seed);
    let mut pixels = vec![];
    for (y, x) in (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x))) {
        for c in 0..sampling.map_or(1, |_| 3) {
            let wave = ((y * (c + 1)) as f32 / 37.0).sin() + (x as f32 / (23.0 + c as f32)).cos();
            pixels.push((128.0 + 50.0 * wave) as u8 + below(&mut rng, noise) as u8);
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 90);
    encoder.set_sampling_factor(sampling.unwrap_or(SamplingFactor::R_4_4_4));
    let color = sampling.map_or(ColorType::Luma, |_| ColorType::Rgb);
    encoder.encode(&pixels, size.width as u16, size.height as u16, color).unwrap();
    bytes
}

/// Decodes a window of the image at 1 / `factor` of its size, or of all of it.
fn scaled(
    decoder: &mut Decoder,
    (mode, bytes): (ImageMode, &[u8]),
    read: ImageReadMode,
    factor: u32,
    window: Option<Window>,
) -> (ScaledImage, Vec<u8>) {
    let image = EncodedImage { mode, width: 0, height: 0, bytes };
    let mut opened = decoder.open_as(&image, read).unwrap();
    let scaled = opened.scaled(factor).unwrap();
    opened.set_scale(&scaled);
    assert_eq!(opened.size(), scaled.size);
    let window = window.unwrap_or(scaled.size.full());
    let view = opened.decode(window).unwrap().window(window).unwrap();
    (scaled, (0..window.height).flat_map(|y| view.row(y).to_vec()).collect())
}

fn whole(decoder: &mut Decoder, bytes: &[u8]) -> (Size, Vec<u8>) {
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes };
    let mut opened = decoder.open(&image).unwrap();
    let size = opened.size();
    let view = opened.decode(size.full()).unwrap().view;
    (size, (0..size.height).flat_map(|y| view.row(y).to_vec()).collect())
}

fn core() -> Decoder {
    Decoder::with_backend(JpegBackend::Core, DecodeOptions::default())
}

fn crop(pixels: &[u8], size: Size, window: Window) -> Vec<u8> {
    let row = |y: u32| {
        let at = 3 * (y as usize * size.width as usize + window.left as usize);
        &pixels[at..at + 3 * window.width as usize]
    };
    (window.top..window.top + window.height).flat_map(|y| row(y).to_vec()).collect()
}

/// Returns the means of `factor` x `factor` pixels.
fn means(pixels: &[u8], size: Size, factor: u32) -> Vec<f64> {
    let mut out = vec![];
    for top in (0..size.height).step_by(factor as usize) {
        for left in (0..size.width).step_by(factor as usize) {
            let (height, width) =
                ((size.height - top).min(factor), (size.width - left).min(factor));
            let window = Window { top, left, height, width };
            let part = crop(pixels, size, window);
            for c in 0..3 {
                let sum: f64 = part.iter().skip(c).step_by(3).map(|&v| f64::from(v)).sum();
                out.push(sum / f64::from(height * width));
            }
        }
    }
    out
}

fn mean_difference(a: &[u8], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(&a, b)| (f64::from(a) - b).abs()).sum::<f64>() / a.len() as f64
}

#[test]
fn windows_are_those_of_the_smaller_image() {
    let (mut decoder, mut rng) = (core(), random(3));
    for case in 0..rounds("FUSELOOP_SCALED") {
        let mut side = || 1 + below(&mut rng, 150) as u32;
        let (size, sampling) = (Size::new(side(), side()), SAMPLINGS[case as usize % 5]);
        let jpeg = drawn(size, sampling, 40, case);
        let planes = BitPlaneCodec::new(Limits::DEFAULT).pack(&jpeg, Tile::Pixels(32)).unwrap();
        for factor in FACTORS {
            let (rgb, from_jpeg) = (ImageReadMode::Rgb, (ImageMode::Jpeg, &jpeg[..]));
            let (image, all) = scaled(&mut decoder, from_jpeg, rgb, factor, None);
            let expected = Size::new(size.height.div_ceil(factor), size.width.div_ceil(factor));
            assert_eq!(image.size, expected);
            for _ in 0..6 {
                let window = random_window(image.size, &mut rng);
                let what = format!("{size}, {sampling:?}, 1/{factor}, {window:?}");
                let expected = crop(&all, image.size, window);
                for (mode, bytes) in [from_jpeg, (ImageMode::BitPlanes, &planes)] {
                    let (_, found) = scaled(&mut decoder, (mode, bytes), rgb, factor, Some(window));
                    assert!(found == expected, "{what}, {mode:?}");
                }
            }
        }
    }
}

#[test]
fn a_smooth_image_becomes_its_means() {
    let mut decoder = core();
    for (case, sampling) in SAMPLINGS.into_iter().enumerate() {
        let jpeg = drawn(Size::new(203, 331), sampling, 12, case as u64);
        let (size, pixels) = whole(&mut decoder, &jpeg);
        for factor in FACTORS {
            let jpeg = (ImageMode::Jpeg, &jpeg[..]);
            let (_, found) = scaled(&mut decoder, jpeg, ImageReadMode::Rgb, factor, None);
            let off = mean_difference(&found, &means(&pixels, size, factor));
            assert!(off < 1.5, "{sampling:?}, 1/{factor}: {off} levels off");
        }
    }
}

#[test]
fn luma_alone_is_the_luma_of_the_smaller_image() {
    let mut decoder = core();
    let jpeg = drawn(Size::new(90, 121), None, 30, 7);
    for factor in FACTORS {
        let file = (ImageMode::Jpeg, &jpeg[..]);
        let (_, rgb) = scaled(&mut decoder, file, ImageReadMode::Rgb, factor, None);
        let (_, gray) = scaled(&mut decoder, file, ImageReadMode::Gray, factor, None);
        assert!(rgb.iter().step_by(3).eq(&gray));
    }
}

/// A damaged file is left to zune-jpeg at any scale, and so is every file with that backend: it is decoded whole then.
#[test]
fn the_other_decoder_averages() {
    let mut zune = Decoder::with_backend(JpegBackend::Zune, DecodeOptions::default());
    let mut rng = random(5);
    let jpeg = drawn(Size::new(75, 101), Some(SamplingFactor::R_4_2_0), 30, 7);
    let (size, pixels) = whole(&mut zune, &jpeg);
    for factor in FACTORS {
        let file = (ImageMode::Jpeg, &jpeg[..]);
        let (image, all) = scaled(&mut zune, file, ImageReadMode::Rgb, factor, None);
        let expected = means(&pixels, size, factor);
        assert!(all.iter().zip(&expected).all(|(&a, b)| (f64::from(a) - b).abs() <= 0.5));
        for _ in 0..10 {
            let window = random_window(image.size, &mut rng);
            let (_, found) = scaled(&mut zune, file, ImageReadMode::Rgb, factor, Some(window));
            assert!(found == crop(&all, image.size, window));
        }
    }
}

#[test]
fn progressive_files_have_the_pixels_of_baseline_ones() {
    let (mut decoder, mut rng) = (core(), random(9));
    for (case, sampling) in SAMPLINGS.into_iter().enumerate() {
        let baseline = drawn(Size::new(75, 101), sampling, 30, case as u64);
        let jpeg = progressive(&baseline);
        for factor in FACTORS {
            for mode in [ImageReadMode::Rgb, ImageReadMode::Gray] {
                let size = Size::new(75_u32.div_ceil(factor), 101_u32.div_ceil(factor));
                let window = random_window(size, &mut rng);
                let [found, expected] = [&jpeg, &baseline].map(|file| {
                    let file = (ImageMode::Jpeg, &file[..]);
                    scaled(&mut decoder, file, mode, factor, Some(window)).1
                });
                assert!(found == expected, "{sampling:?}, 1/{factor}, {window:?}");
            }
        }
    }
}

/// A turned image begins inside a pixel of the smaller one if its last stored row or column is not whole.
#[test]
fn an_image_is_turned_at_any_scale() {
    let jpeg = drawn(Size::new(45, 61), Some(SamplingFactor::R_4_2_0), 10, 7);
    let tag = |value: u8| {
        let mut app1 =
            b"\xff\xe1\0\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
        app1.extend([value, 0, 0, 0, 0, 0, 0]);
        let length = (app1.len() - 2) as u16;
        app1[2..4].copy_from_slice(&length.to_be_bytes());
        [&jpeg[..2], &app1, &jpeg[2..]].concat()
    };
    let options = DecodeOptions { exif_orientation: true, ..DecodeOptions::default() };
    let mut decoder = Decoder::with_backend(JpegBackend::Core, options);
    for (value, size, origin) in [
        (1, Size::new(12, 16), [0.0, 0.0]),
        (3, Size::new(12, 16), [0.75, 0.75]),
        (6, Size::new(16, 12), [0.0, 0.75]),
        (8, Size::new(16, 12), [0.75, 0.0]),
    ] {
        let file = tag(value);
        let rgb = ImageReadMode::Rgb;
        let (image, all) = scaled(&mut decoder, (ImageMode::Jpeg, &file), rgb, 4, None);
        assert_eq!((image.size, image.origin), (size, origin), "orientation {value}");
        let mut rng = random(value.into());
        for _ in 0..10 {
            let window = random_window(image.size, &mut rng);
            let (_, found) = scaled(&mut decoder, (ImageMode::Jpeg, &file), rgb, 4, Some(window));
            assert!(found == crop(&all, image.size, window), "orientation {value}");
        }
    }
}

/// The transform drops the upper frequencies of each block, which a mean keeps in part: so means of the smaller image
/// are compared.
#[test]
fn photographs_look_the_same() {
    let mut decoder = core();
    for path in photographs().into_iter().take(40) {
        let (name, bytes) = (path.display(), std::fs::read(&path).unwrap());
        let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &bytes };
        if decoder.open(&image).is_ok_and(|opened| opened.scaled(2).is_none()) {
            continue;
        }
        let (size, pixels) = whole(&mut decoder, &bytes);
        for factor in FACTORS {
            let jpeg = (ImageMode::Jpeg, &bytes[..]);
            let (image, found) = scaled(&mut decoder, jpeg, ImageReadMode::Rgb, factor, None);
            // Windows of whole blocks of pixels, so that both are means of the same part of the image.
            let whole_size = Size::new(size.height / 32 * 32, size.width / 32 * 32);
            let part =
                |size: Size| Window { top: 0, left: 0, height: size.height, width: size.width };
            let smaller = Size::new(whole_size.height / factor, whole_size.width / factor);
            let found = means(&crop(&found, image.size, part(smaller)), smaller, 32 / factor);
            let expected = means(&crop(&pixels, size, part(whole_size)), whole_size, 32);
            let off: f64 = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).sum();
            let off = off / expected.len() as f64;
            assert!(off < 1.0, "{name}, 1/{factor}: {off} levels off");
        }
    }
}
