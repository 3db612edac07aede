//! A closure on whole images, between two compiled loops.
//!
//! A closure is for work that no built-in op does and no pixel op can do: the closure sees the
//! whole image at once and changes it in plain Rust. Here it shuffles the four quarters of an image
//! (a jigsaw, as in self-supervised pretraining). All randomness comes from the generator that the
//! closure receives, so a sample looks the same for any number of threads.
//!
//! The example writes its own small file, so it runs without arguments:
//!
//! ```text
//! cargo run --release --example lambda
//! ```

use fuseloop::ops::author::Rng;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, ops::*};
use std::error::Error;
use std::path::Path;

/// Side of a stored image; the crop has half as many pixels a side.
const SIDE: usize = 32;

/// Puts the four quarters of an image in a random order.
fn jigsaw() -> Lambda {
    Lambda::new("Jigsaw", |host, pixels| {
        let (half, stride) = (host.size.height as usize / 2, host.size.width as usize * 3);
        let before = pixels.to_vec();
        for (to, from) in order(host.rng).into_iter().enumerate() {
            let corner = |quarter: usize| quarter / 2 * half * stride + quarter % 2 * stride / 2;
            for row in 0..half {
                let (to, from) = (corner(to) + row * stride, corner(from) + row * stride);
                pixels[to..to + stride / 2].copy_from_slice(&before[from..from + stride / 2]);
            }
        }
    })
}

/// A random permutation of four indices (Fisher and Yates).
fn order(rng: &mut Rng) -> [usize; 4] {
    let mut order = [0, 1, 2, 3];
    for last in (1..4).rev() {
        order.swap(last, rng.below(last as u32 + 1) as usize);
    }
    order
}

/// Writes four images, each brighter from left to right and from top to bottom.
fn write(file: &Path) -> Result<(), Box<dyn Error>> {
    let field = |name: &str, kind| FieldSpec { name: name.into(), kind };
    let rows = (0..4).map(|_| {
        let positions = (0..SIDE * SIDE).map(|index| (index / SIDE, index % SIDE));
        let pixels = positions.flat_map(|(y, x)| [(4 * (x + y)) as u8; 3]).collect();
        let image = ImageInput::Rgb { pixels, width: SIDE as u32, height: SIDE as u32 };
        vec![FieldValue::Image(image)]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    write_iter(rows, &[field("image", FieldKind::RgbImage)], file, &options)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("ramps.beton");
    write(&file)?;

    let side = SIDE as u32 / 2;
    let loader = Loader::open(&file)?
        .batch_size(4)
        .seed(7)
        // A loop that crops and brightens, then the closure, then a loop that converts.
        .pipeline(
            "image",
            ops![
                RandomCrop::new(side)?,
                RandomBrightness::new(0.3)?,
                jigsaw(),
                Convert::to(DType::F32)
            ],
        )
        .build()?;
    println!("{}", loader.explain());

    for batch in loader.epoch(0)? {
        let batch = batch?;
        let images = batch.tensor::<f32>("image")?; // [4, 16, 16, 3]
        for (row, sample) in batch.ids().iter().enumerate() {
            println!("sample {sample}:");
            let pixels = images.row(row).unwrap_or_default();
            for line in pixels.chunks_exact(3 * SIDE / 2).step_by(2) {
                let shade = |p: &[f32]| char::from(b" .:-=+*#%@"[p[0] as usize / 26]);
                println!("  {}", line.chunks_exact(3).map(shade).collect::<String>());
            }
        }
    }
    Ok(())
}
