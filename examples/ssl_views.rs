//! Two views of each image, as contrastive learning (SimCLR, BYOL, DINO) needs them: the same
//! image, cropped and coloured twice, and a small view that reuses the crop of the first.
//!
//! Each image is read and decoded once, regardless of the number of views. The example writes its
//! own small file unless it receives one:
//!
//! ```text
//! cargo run --release --example ssl_views [train.beton]
//! ```

use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, Order, ops::*};
use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let file = match std::env::args().nth(1) {
        Some(path) => PathBuf::from(path),
        None => gradients(dir.path())?,
    };
    let loader = Loader::open(file)?
        .batch_size(16)
        .order(Order::Random)
        .seed(42)
        .pipeline("image", view(96)?)
        // The same ops with draws of their own: another crop, another flip, other colours.
        .view("other", "image", view(96)?)
        // The first view's crop and flip (its first two ops), at a quarter of the side.
        .branch("small", "image", 2, ops![Resize::new((24, 24))?, ToChannelsFirst])
        .build()?;

    for batch in loader.epoch(0)? {
        let batch = batch?;
        let one = batch.tensor::<f32>("image")?; // [16, 3, 96, 96]
        let two = batch.tensor::<f32>("other")?; // [16, 3, 96, 96]
        let small = batch.tensor::<u8>("small")?; // [16, 3, 24, 24]
        let apart = mean_distance(one.as_slice(), two.as_slice());
        println!(
            "batch {}: views {:?} and {:?}, {apart:.2} apart; {:?}",
            batch.index(),
            one.shape(),
            two.shape(),
            small.shape()
        );
    }
    println!("{} samples, each decoded once for 3 outputs", loader.stats().samples);
    Ok(())
}

/// The ops of a view.
fn view(side: u32) -> Result<Ops, ParamError> {
    Ok(ops![
        RandomResizedCrop::new(side)?.scale(0.2..=1.0)?,
        RandomHorizontalFlip::new(0.5)?,
        ColorJitter::new(0.8, 0.8, 0.8)?,
        Normalize::imagenet(),
        ToChannelsFirst,
    ])
}

fn mean_distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f32>() / a.len() as f32
}

/// Writes a file of 64 images of 120 x 160 pixels, each with a different colour gradient.
fn gradients(dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let (width, height) = (160, 120);
    let rows = (0..64u32).map(|k| {
        let pixel = |x: u32, y: u32| [x + k, y + 2 * k, (x + y) * k / 64].map(|v| v.min(255) as u8);
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
        vec![FieldValue::Image(ImageInput::Rgb { pixels, width, height })]
    });
    let file = dir.join("gradients.beton");
    let fields = [FieldSpec { name: "image".into(), kind: FieldKind::RgbImage }];
    let image = ImageOptions { write_mode: WriteMode::Jpg, ..ImageOptions::default() };
    write_iter(rows, &fields, &file, &WriteOptions { image, ..WriteOptions::default() })?;
    Ok(file)
}
