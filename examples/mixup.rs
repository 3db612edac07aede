//! MixUp and CutMix of images together with their labels: put the same ops last in both lists.
//!
//! The two lists share no object: the draws depend on the seed, the epoch and the batch, so an
//! image and its label are mixed with the same partner in the same shares. The example writes its
//! own small file, so it runs without arguments:
//!
//! ```text
//! cargo run --release --example mixup
//! ```

use fuseloop::ops::Partner;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, ops::*};
use std::error::Error;

const CLASSES: u32 = 4;

/// MixUp blends half of the batches, with a share for each sample; CutMix then pastes a rectangle
/// of another sample of the batch into the samples of half of the batches.
fn mixers() -> Result<Ops, ParamError> {
    Ok(ops![
        MixUp::new(0.2)?.per_sample().p(0.5)?,
        CutMix::new(1.0)?.partner(Partner::Permuted).p(0.5)?,
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("squares.beton");

    // Eight grey squares of 8 x 8 pixels. Square k has class k mod 4, which also sets its
    // brightness.
    let field = |name: &str, kind| FieldSpec { name: name.into(), kind };
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let rows = (0..8u8).map(|k| {
        let pixels = vec![k % 4 * 80; 8 * 8 * 3];
        let image = ImageInput::Rgb { pixels, width: 8, height: 8 };
        vec![FieldValue::Image(image), FieldValue::Int(i64::from(k) % i64::from(CLASSES))]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    write_iter(rows, &fields, &file, &WriteOptions { image, ..WriteOptions::default() })?;

    // The mixing ops are last in both lists, so that a label is mixed as its image is.
    let mut images = ops![RandomHorizontalFlip::new(0.5)?, Convert::to(DType::F32)];
    let mut labels = ops![OneHot::new(CLASSES)?];
    images.extend(mixers()?);
    labels.extend(mixers()?);
    let loader = Loader::open(&file)?
        .batch_size(4)
        .seed(3)
        .pipeline("image", images)
        .pipeline("label", labels)
        .build()?;

    for epoch in 0..3 {
        for batch in loader.epoch(epoch)? {
            let batch = batch?;
            let images = batch.tensor::<f32>("image")?; // [4, 8, 8, 3]
            let labels = batch.tensor::<f32>("label")?; // [4, 4]
            for (row, sample) in batch.ids().iter().enumerate() {
                let pixels = images.row(row).unwrap_or_default();
                let brightness = pixels.iter().sum::<f32>() / pixels.len() as f32;
                let label = labels.row(row).unwrap_or_default();
                println!("epoch {epoch} sample {sample}: {label:.3?}, brightness {brightness:.1}");
            }
        }
    }
    Ok(())
}
