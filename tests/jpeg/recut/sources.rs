//! JPEGs of many kinds, generated here.

use fuseloop::recut::{Recutter, Tile};
use fuseloop::sample::Limits;
use fuseloop_ops::Size;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use libjpeg_turbo_rs::{
    JpegCoefficients, read_coefficients, write_coefficients, write_coefficients_arithmetic,
    write_coefficients_progressive,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The color type and sampling of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) color: ColorType,
    pub(crate) sampling: SamplingFactor,
}

/// Gray, CMYK and YCCK, and colour in every sampling.
pub(crate) fn kinds() -> Vec<Kind> {
    use SamplingFactor as S;
    let of = |color| move |sampling| Kind { color, sampling };
    let all = [S::R_4_4_4, S::R_4_2_2, S::R_4_2_0, S::R_4_4_0, S::R_4_1_1, S::R_4_1_0, S::R_4_4_1];
    let colors = [ColorType::Luma, ColorType::Cmyk, ColorType::CmykAsYcck];
    let others = colors.map(|color| of(color)(S::R_4_4_4));
    let subsampled = of(ColorType::CmykAsYcck)(S::R_4_2_0);
    all.map(of(ColorType::Rgb)).into_iter().chain(others).chain([subsampled]).collect()
}

fn channels(color: ColorType) -> usize {
    match color {
        ColorType::Luma => 1,
        ColorType::Rgb => 3,
        _ => 4,
    }
}

/// An image of noise on a gradient, encoded.
pub(crate) fn encode(
    kind: Kind,
    size: Size,
    setup: impl FnOnce(&mut Encoder<&mut Vec<u8>>),
) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(size.pixels());
    let values = size.pixels() as usize * channels(kind.color);
    let pixels: Vec<u8> =
        (0..values).map(|i| (i / 97 % 191) as u8 + rng.next_u32() as u8 % 64).collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 80);
    encoder.set_sampling_factor(kind.sampling);
    setup(&mut encoder);
    encoder.encode(&pixels, size.width as u16, size.height as u16, kind.color).unwrap();
    bytes
}

/// A file with one interleaved scan. The encoder writes rare samplings in several scans, which
/// re-cutting merges.
pub(crate) fn baseline(kind: Kind, size: Size) -> Vec<u8> {
    let jpeg = encode(kind, size, |_| {});
    if read_coefficients(&jpeg).is_ok() {
        return jpeg;
    }
    let recut = Recutter::new(Tile::Row, Limits::SMALL).recut(&jpeg).unwrap();
    let coefficients = read_coefficients(&recut).unwrap();
    write_coefficients(&JpegCoefficients { restart_interval: 0, ..coefficients }).unwrap()
}

/// A file with a scan for each component.
pub(crate) fn separate(kind: Kind, size: Size) -> Vec<u8> {
    encode(kind, size, |encoder| encoder.set_optimized_huffman_tables(true))
}

fn coefficients(kind: Kind, size: Size) -> JpegCoefficients {
    read_coefficients(&baseline(kind, size)).unwrap()
}

/// A file with about ten scans, with refinements.
pub(crate) fn progressive(kind: Kind, size: Size) -> Vec<u8> {
    write_coefficients_progressive(&coefficients(kind, size), None).unwrap()
}

/// The same file with a restart marker every row.
pub(crate) fn progressive_rows(kind: Kind, size: Size) -> Vec<u8> {
    write_coefficients_progressive(&coefficients(kind, size), Some(1)).unwrap()
}

/// A file with a restart marker every three MCUs.
pub(crate) fn restarting(kind: Kind, size: Size) -> Vec<u8> {
    let coefficients = JpegCoefficients { restart_interval: 3, ..coefficients(kind, size) };
    write_coefficients(&coefficients).unwrap()
}

/// A file with arithmetic coding, which has no Huffman codes.
pub(crate) fn arithmetic(kind: Kind, size: Size) -> Vec<u8> {
    write_coefficients_arithmetic(&coefficients(kind, size)).unwrap()
}
