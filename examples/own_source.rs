//! A dataset of your own: implement two methods, and a loader decodes, augments and batches it.
//!
//! The example writes its own small folder of JPEGs, so it runs without arguments:
//!
//! ```text
//! cargo run --release --example own_source
//! ```

use fuseloop::source::{BoxError, Facts, FieldKind, OwnedImage, OwnedValue, Record, Source};
use fuseloop::{Loader, Order, SampleId, ops::*};
use jpeg_encoder::{ColorType, Encoder};
use std::fs;
use std::path::{Path, PathBuf};

/// JPEG files `0.jpg`, `1.jpg`, ...; the label of a file is its number modulo 4.
struct Photographs {
    folder: PathBuf,
    facts: Facts,
}

impl Photographs {
    fn new(folder: &Path, count: u64) -> Self {
        let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int)];
        let facts = Facts::new(fields, count).named(folder.display().to_string());
        Self { folder: folder.to_owned(), facts }
    }
}

impl Source for Photographs {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Several workers call this method at the same time, in any order. An error here ends the
    /// epoch at the batch of the sample, and names the sample.
    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let bytes = fs::read(self.folder.join(format!("{sample}.jpg")))?;
        let label = i64::try_from(sample.0 % 4)?;
        Ok(vec![OwnedValue::Image(OwnedImage::jpeg(bytes)), OwnedValue::Int(label)])
    }
}

fn main() -> Result<(), BoxError> {
    let dir = tempfile::tempdir()?;
    for k in 0..16u16 {
        let (width, height) = (60 + 5 * k, 90 - 2 * k);
        let shade = u8::try_from(k * 15)?;
        let pixels = vec![shade; usize::from(width) * usize::from(height) * 3];
        let encoder = Encoder::new_file(dir.path().join(format!("{k}.jpg")), 90)?;
        encoder.encode(&pixels, width, height, ColorType::Rgb)?;
    }

    let loader = Loader::from_source(Photographs::new(dir.path(), 16))
        .batch_size(4)
        .order(Order::Random)
        .seed(42)
        .pipeline(
            "image",
            ops![
                // The sizes of the images are not known beforehand; this op brings all of them to
                // one size.
                RandomResizedCrop::new(32)?,
                RandomHorizontalFlip::new(0.5)?,
                ToChannelsFirst,
            ],
        )
        .build()?;
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let images = batch.tensor::<u8>("image")?; // [4, 3, 32, 32]
        let labels = batch.tensor::<i64>("label")?; // [4]
        println!("{:?}: samples {:?}, labels {:?}", images.shape(), batch.ids(), labels.as_slice());
    }

    // An error names the file, the sample and the reason.
    fs::remove_file(dir.path().join("3.jpg"))?;
    for batch in loader.epoch(1)? {
        if let Err(error) = batch {
            println!("{error}");
        }
    }
    Ok(())
}
