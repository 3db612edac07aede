//! Promises of the JPEG decoder's core: it returns zune-jpeg's pixels to the bit in any window, or
//! nothing. `edges.rs` covers the last column and row, which differ.
//!
//! `FUSELOOP_JPEGS` is the number of noise images generated and of damaged ones tried; 300 by default.

use crate::SAMPLINGS;
use crate::common::jpegs::Edges;
use crate::common::photographs::photographs;
use fuseloop::Error;
use fuseloop::ImageReadMode;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend, tile_interval};
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_counts::rounds;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use libjpeg_turbo_rs::{JpegCoefficients, read_coefficients, write_coefficients_optimized};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::path::{Path, PathBuf};

/// The goldens that the core accepts.
const TAKEN: [&str; 15] = [
    "420",
    "420_restart",
    "422",
    "440",
    "440_restart",
    "444",
    "ffcv_all_fields_0",
    "ffcv_all_fields_1",
    "ffcv_all_fields_2",
    "ffcv_images_proportion_4",
    "ffcv_images_smart_0",
    "ffcv_images_smart_1",
    "ffcv_images_smart_5",
    "gray",
    "gray_2x2",
];

/// The number of images to try.
fn pictures() -> u64 {
    rounds("FUSELOOP_JPEGS")
}

/// Both decoders.
struct Both {
    core: Decoder,
    zune: Decoder,
}

impl Both {
    fn new() -> Self {
        let options = DecodeOptions::default();
        Self {
            core: Decoder::with_backend(JpegBackend::Core, options),
            zune: Decoder::with_backend(JpegBackend::Zune, options),
        }
    }

    fn size(&mut self, jpeg: &[u8]) -> Result<Size, Error> {
        self.core.size(&image(jpeg))
    }

    /// Returns true if the core accepts the file. Then both decoders
    /// must return the same pixels of the window.
    fn agree(&mut self, jpeg: &[u8], window: Window, name: &str) -> bool {
        if !self.core.open(&image(jpeg)).is_ok_and(|opened| opened.decodes_windows()) {
            return false;
        }
        let Ok(found) = pixels(&mut self.core, jpeg, window) else { return false };
        match pixels(&mut self.zune, jpeg, window) {
            Ok(expected) => {
                let [luma, expected_luma] = [&mut self.core, &mut self.zune]
                    .map(|decoder| read(decoder, jpeg, ImageReadMode::Gray, window).unwrap());
                assert!(luma == expected_luma, "luma of {name}, {window:?}");
                let edges = Edges::of(jpeg, self.size(jpeg).unwrap());
                let position = |byte: usize| {
                    let (row, column) = ((byte / 3) as u32 / window.width, (byte / 3) as u32);
                    (window.top + row, window.left + column % window.width)
                };
                let differs =
                    |byte: &usize| found[*byte] != expected[*byte] && !edges.has(position(*byte));
                let first = (0..expected.len()).find(differs);
                assert_eq!((first, found.len()), (None, expected.len()), "{name}, {window:?}");
            }
            // Where an interval does not divide a row, zune-jpeg also reads segments beside the window,
            // and may find damage there. The core must find that damage when it reads those segments.
            Err(error) => {
                let (width, height) = (self.size(jpeg).unwrap().width, window.top + window.height);
                let all = pixels(&mut self.core, jpeg, Window { top: 0, left: 0, height, width });
                assert!(all.is_err(), "{name}, {window:?}: zune-jpeg says {error}");
            }
        }
        true
    }

    /// The whole image and `windows` random windows.
    fn agree_all(&mut self, jpeg: &[u8], windows: u32, rng: &mut impl Rng, name: &str) {
        let size = self.size(jpeg).unwrap();
        assert!(self.agree(jpeg, size.full(), name), "{name}: left to zune-jpeg");
        for _ in 0..windows {
            let window = random_window(size, rng);
            assert!(self.agree(jpeg, window, name), "{name}, {window:?}: left to zune-jpeg");
        }
    }
}

fn image(bytes: &[u8]) -> EncodedImage<'_> {
    EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes }
}

fn pixels(decoder: &mut Decoder, jpeg: &[u8], window: Window) -> Result<Vec<u8>, Error> {
    read(decoder, jpeg, ImageReadMode::Rgb, window)
}

fn read(
    decoder: &mut Decoder,
    jpeg: &[u8],
    mode: ImageReadMode,
    window: Window,
) -> Result<Vec<u8>, Error> {
    let image = image(jpeg);
    let mut opened = decoder.open_as(&image, mode)?;
    let view = opened.decode(window)?.window(window).expect("at least the window");
    Ok((0..window.height).flat_map(|y| view.row(y).to_vec()).collect())
}

fn random_window(size: Size, rng: &mut impl Rng) -> Window {
    let height = 1 + rng.next_u32() % size.height;
    let width = 1 + rng.next_u32() % size.width;
    let top = rng.next_u32() % (size.height - height + 1);
    let left = rng.next_u32() % (size.width - width + 1);
    Window { top, left, height, width }
}

/// The goldens' files by name.
fn goldens() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jpg"));
    files.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|path| (name(path), std::fs::read(path).unwrap())).collect()
}

/// Noise on a gradient.
fn noise(size: Size, sampling: Option<SamplingFactor>, quality: u8, rng: &mut impl Rng) -> Vec<u8> {
    let values = size.pixels() as usize * sampling.map_or(1, |_| 3);
    let contrast = [1, 16, 64, 255][rng.next_u32() as usize % 4];
    let pixels: Vec<u8> = (0..values)
        .map(|i| ((i / 97 % 191) as u8).wrapping_add((rng.next_u32() % contrast) as u8))
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, quality);
    encoder.set_sampling_factor(sampling.unwrap_or(SamplingFactor::R_4_4_4));
    if rng.next_u32().is_multiple_of(2) {
        encoder.set_restart_interval(1 + rng.next_u32() as u16 % 12);
    }
    let color = sampling.map_or(ColorType::Luma, |_| ColorType::Rgb);
    encoder.encode(&pixels, size.width as u16, size.height as u16, color).unwrap();
    bytes
}

/// The same image with Huffman codes of its own and restart markers every `tile` pixels.
fn recut(coefficients: &mut JpegCoefficients, tile: u16) -> Vec<u8> {
    let components = &coefficients.components;
    let finest = components.iter().map(|component| component.h_sampling).max().unwrap();
    let mcu = if components.len() == 1 { 8 } else { 8 * u16::from(finest) };
    coefficients.restart_interval = tile_interval(coefficients.width, mcu, tile);
    write_coefficients_optimized(coefficients).unwrap()
}

#[test]
fn the_usual_goldens_are_taken_and_the_others_left() {
    let (mut both, mut taken) = (Both::new(), Vec::new());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for (name, jpeg) in goldens() {
        let Ok(size) = both.size(&jpeg) else { continue };
        if both.agree(&jpeg, size.full(), &name) {
            both.agree_all(&jpeg, 200, &mut rng, &name);
            taken.push(name);
        }
    }
    assert_eq!(taken, TAKEN);
}

#[test]
fn photographs_as_they_are_and_recut_have_the_same_pixels() {
    let (mut both, mut rng) = (Both::new(), Xoshiro256PlusPlus::seed_from_u64(2));
    for (i, path) in photographs().iter().enumerate() {
        let (name, jpeg) = (path.display().to_string(), std::fs::read(path).unwrap());
        both.agree_all(&jpeg, 2, &mut rng, &name);
        let mut coefficients = read_coefficients(&jpeg).unwrap();
        let tile = [32, 1, 64, u16::MAX, 48][i % 5];
        both.agree_all(&recut(&mut coefficients, tile), 3, &mut rng, &name);
    }
}

#[test]
fn noise_of_every_quality_size_and_sampling_has_the_same_pixels() {
    let mut both = Both::new();
    for n in 0..pictures() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(n);
        let size = Size::new(1 + rng.next_u32() % 70, 1 + rng.next_u32() % 70);
        let (quality, sampling) = (1 + (n % 100) as u8, SAMPLINGS[rng.next_u32() as usize % 5]);
        let jpeg = noise(size, sampling, quality, &mut rng);
        let name = format!("picture {n}, {size}, {sampling:?}, quality {quality}");
        both.agree_all(&jpeg, 5, &mut rng, &name);
        let mut coefficients = read_coefficients(&jpeg).unwrap();
        both.agree_all(&recut(&mut coefficients, 1 + n as u16 % 70), 5, &mut rng, &name);
    }
}

/// Coefficients and quantization steps that no encoder would write, up to the largest possible.
#[test]
fn coefficients_of_any_size_have_the_same_pixels_or_are_left() {
    let (mut both, mut taken) = (Both::new(), 0);
    for n in 0..pictures() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(n);
        let sampling = SAMPLINGS[rng.next_u32() as usize % 5];
        let size = Size::new(1 + rng.next_u32() % 40, 1 + rng.next_u32() % 40);
        let mut file = read_coefficients(&noise(size, sampling, 90, &mut rng)).unwrap();
        let mut up_to = |largest: u32| 1 + rng.next_u32() % largest;
        let largest_step = [1, 16, 255][up_to(3) as usize - 1];
        for table in &mut file.quant_tables {
            table.fill_with(|| up_to(largest_step) as u16);
        }
        let (most, largest) = ([4, 64, 64][up_to(3) as usize - 1], 1 << (up_to(10) - 1));
        for block in file.components.iter_mut().flat_map(|component| &mut component.blocks) {
            for _ in 0..up_to(most) {
                let value = up_to(2 * largest) as i16 - largest as i16;
                block[up_to(64) as usize - 1] = value.clamp(-1023, 1023);
            }
        }
        let jpeg = recut(&mut file, 32);
        taken += u64::from(both.agree(&jpeg, size.full(), &format!("picture {n}, {size}")));
    }
    println!("{taken} of {} taken", pictures());
    assert!(taken > pictures() / 2);
}

/// Bytes are changed, removed and cut off: whatever the core decodes, zune-jpeg decodes to the same pixels.
#[test]
fn damage_is_left_to_zune() {
    let (mut both, mut taken) = (Both::new(), 0);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut files: Vec<(String, Vec<u8>)> = goldens();
    files.retain(|(name, _)| TAKEN.contains(&name.as_str()));
    for i in 0..10 {
        let size = Size::new(30 + i, 90 - 5 * i);
        let jpeg = noise(size, SAMPLINGS[i as usize % 5], 70, &mut rng);
        let tile = [8, 32, u16::MAX][i as usize % 3];
        files.push((format!("noise {i}"), recut(&mut read_coefficients(&jpeg).unwrap(), tile)));
    }
    for n in 0..20 * pictures() {
        let (name, jpeg) = &files[n as usize % files.len()];
        let jpeg = damaged(jpeg, &mut rng);
        let Ok(size) = both.size(&jpeg) else { continue };
        if size.pixels() > 1 << 16 {
            continue;
        }
        let window = if n % 2 == 0 { size.full() } else { random_window(size, &mut rng) };
        taken += u64::from(both.agree(&jpeg, window, &format!("{name}, damaged, {n}")));
    }
    println!("{taken} of {} taken", 20 * pictures());
    assert!(taken > 0);
}

fn damaged(jpeg: &[u8], rng: &mut impl Rng) -> Vec<u8> {
    let mut jpeg = jpeg.to_vec();
    let mut random = |end: usize| rng.next_u32() as usize % end.max(1);
    for _ in 0..1 + random(3) {
        let at = random(jpeg.len() - 4);
        match random(8) {
            0..4 => jpeg[at] ^= 1 << random(8),
            4 => jpeg[at] = random(256) as u8,
            5 => {
                jpeg.drain(at..at + 1 + random(3));
            }
            6 => jpeg.insert(at, [0, 0xff, 0xd0, 0x55][random(4)]),
            _ => {
                jpeg.truncate(at.max(20));
                jpeg.extend_from_slice(&[0xff, 0xd9]);
            }
        }
    }
    jpeg
}
