//! Large photographs, decoded at a smaller scale: `RandomResizedCrop(224)` on one worker.
//!
//! A row reads `<size>  <stored as>  ms an image whole, scaled  <- scaled over whole  PSNR of the rows`. The yardstick is
//! the same loader without `scaled_decode`; the two take turns, epoch by epoch, so that both see every window. The
//! photographs are the largest of `data/imagenet` of the folder `FUSELOOP_SHARED` or `../shared`, enlarged: they have
//! fewer bits a pixel than those of a camera.
//!
//! `-- nothing` runs each once, with one photograph.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod common;

use common::figures::record;
use common::median;
use common::photographs::{enlarged, largest};
use fuseloop::prelude::*;
use fuseloop::recut::{BitPlaneCodec, Tile};
use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::{Facts, FieldKind, ImageMode, InMemory, OwnedImage, OwnedValue};
use std::time::Instant;

/// The largest number of pixels of the images of each set.
const SETS: [(&str, f64); 3] = [("1024 px", 0.8e6), ("2048 px", 3.1e6), ("12 Mpixel", 12.0e6)];

fn main() {
    let is_full = std::env::args().any(|arg| arg == "--bench")
        && !std::env::args().any(|arg| arg == "nothing" || arg == "--test");
    let (count, epochs) = if is_full { (16, 9) } else { (1, 1) };
    let paths = largest(count);
    if paths.is_empty() {
        return;
    }
    let mut codec = BitPlaneCodec::new(Limits::DEFAULT);
    for (name, pixels) in SETS {
        let jpegs: Vec<Vec<u8>> = paths.iter().filter_map(|path| enlarged(path, pixels)).collect();
        let planes: Vec<Vec<u8>> =
            jpegs.iter().map(|jpeg| codec.pack(jpeg, Tile::Pixels(32)).unwrap()).collect();
        for (stored, mode, images) in
            [("JPEG", ImageMode::Jpeg, jpegs), ("bit planes", ImageMode::BitPlanes, planes)]
        {
            let loader = |scaled: bool| {
                let of = |bytes: &Vec<u8>| {
                    OwnedValue::Image(OwnedImage {
                        mode,
                        width: 0,
                        height: 0,
                        bytes: bytes.clone(),
                    })
                };
                let stored: Vec<OwnedValue> = images.iter().map(of).collect();
                let facts = Facts::new([("image", FieldKind::RgbImage)], stored.len() as u64);
                let read = move |sample: SampleId| Ok(vec![stored[sample.0 as usize].clone()]);
                let source = InMemory::from_fn(facts, read);
                let loader = Loader::from_source(source).batch_size(1).workers(1).batches_ahead(1);
                let list = ops![RandomResizedCrop::new(224).unwrap()];
                loader.pipeline("image", list).scaled_decode(scaled).build().unwrap()
            };
            let loaders = [loader(false), loader(true)];
            let (mut times, mut errors) = ([vec![], vec![]], vec![]);
            for epoch in 0..=epochs {
                let rows = [0, 1].map(|way: usize| {
                    let begun = Instant::now();
                    let rows = rows(&loaders[way], epoch);
                    times[way].push(begun.elapsed().as_secs_f64());
                    rows
                });
                errors.extend(rows[0].iter().zip(&rows[1]).map(|(a, b)| psnr(a, b)));
            }
            // The first epoch compiles.
            let ratio = median(times[1][1..].iter().zip(&times[0][1..]).map(|(a, b)| a / b));
            let [whole, scaled] =
                times.map(|times| 1e3 * median(times[1..].iter().copied()) / images.len() as f64);
            errors.sort_by(f64::total_cmp);
            let work = format!("{name}, {stored}");
            record(&work, "whole", whole, "ms");
            record(&work, "scaled", scaled, "ms");
            println!(
                "{name:<10} {stored:<11} {whole:6.2} ms whole {scaled:6.2} ms scaled  <- {ratio:.2}x  PSNR {:.1} dB, least {:.1}",
                errors[errors.len() / 2],
                errors[0]
            );
        }
    }
}

fn rows(loader: &Loader, epoch: u32) -> Vec<Vec<u8>> {
    let batches = loader.epoch(epoch).unwrap().map(Result::unwrap);
    batches.map(|batch| batch.bytes("image").unwrap().to_vec()).collect()
}

fn psnr(a: &[u8], b: &[u8]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    let error = squares.sum::<f64>() / a.len() as f64;
    if error == 0.0 { 99.0 } else { 10.0 * (255.0 * 255.0 / error).log10() }
}
