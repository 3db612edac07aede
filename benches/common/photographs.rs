//! The photographs of benchmarks: `data/imagenet` of the folder `FUSELOOP_SHARED` or `../shared`.

use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_ops::Size;
use fuseloop_ops::internals::{ImageView, bilinear};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};

/// Returns all of them in the order of their names. If there are none, a line says so.
pub(crate) fn all() -> Vec<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let shared = std::env::var_os("FUSELOOP_SHARED").map_or_else(beside, PathBuf::from);
    let Ok(folder) = std::fs::read_dir(shared.join("data/imagenet")) else {
        println!("nothing measured: no photographs at {}", shared.display());
        return vec![];
    };
    let mut paths: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "JPEG"));
    paths.sort();
    paths
}

/// Returns the largest files.
pub(crate) fn largest(count: usize) -> Vec<PathBuf> {
    let mut paths = all();
    paths.sort_by_key(|path| Reverse(std::fs::metadata(path).map_or(0, |file| file.len())));
    paths.truncate(count);
    paths
}

/// Returns a photograph that is enlarged to about `pixels` pixels; `None` if it does not decode.
pub(crate) fn enlarged(path: &Path, pixels: f64) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &bytes };
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut opened = decoder.open(&image).ok()?;
    let size = opened.size();
    let view: ImageView<'_> = opened.decode(size.full()).ok()?.view;
    let factor = (pixels / size.pixels() as f64).sqrt();
    let side = |side: u32| (f64::from(side) * factor) as u32;
    let larger = Size::new(side(size.height), side(size.width));
    let pixels = bilinear::resize(&view, larger);
    let mut jpeg = vec![];
    let mut encoder = Encoder::new(&mut jpeg, 90);
    encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
    encoder.encode(&pixels, larger.width as u16, larger.height as u16, ColorType::Rgb).ok()?;
    Some(jpeg)
}
