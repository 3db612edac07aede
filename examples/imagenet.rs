//! Training on ImageNet: random crops that grow with the epochs, half precision, channels first.
//!
//! ```text
//! fuseloop write imagenet/train train.beton --max-resolution 500
//! cargo run --release --example imagenet train.beton
//! ```

use fuseloop::{Loader, Order, ops::*};
use half::f16;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give the path of a .beton file")?;
    let loader = Loader::open(path)?
        .batch_size(256)
        .order(Order::Random)
        .seed(42)
        .drop_last(false)
        // Called again for each epoch, because the list is by epoch.
        .pipeline_by_epoch("image", |epoch| {
            Ok::<_, ParamError>(ops![
                RandomResizedCrop::new(160 + 32 * epoch.index())?,
                RandomHorizontalFlip::new(0.5)?,
                Normalize::imagenet(),
                Convert::to(DType::F16),
                ToChannelsFirst,
            ])
        })
        .build()?;

    for epoch in 0..3 {
        let (start, mut images) = (Instant::now(), 0);
        for batch in loader.epoch(epoch)? {
            let batch = batch?;
            let pixels = batch.tensor::<f16>("image")?; // [256, 3, side, side]
            let labels = batch.tensor::<i64>("label")?; // [256]
            train_on(pixels.shape(), pixels.as_slice(), labels.as_slice());
            images += batch.len();
        }
        let speed = images as f64 / start.elapsed().as_secs_f64();
        println!("epoch {epoch}: {images} images, {speed:.0} a second");
    }
    println!("{}", loader.explain());
    Ok(())
}

/// The training step of your network. The borrowed tensors stay unchanged for as long as their
/// batch lives.
fn train_on(shape: &[usize], pixels: &[f16], labels: &[i64]) {
    assert_eq!(pixels.len(), shape.iter().product::<usize>());
    assert_eq!(shape[0], labels.len());
}
