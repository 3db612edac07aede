//! Labels in another form: classes merged into another class, and one-hot vectors.
//!
//! The example writes its own small file, so it runs without arguments:
//!
//! ```text
//! cargo run --release --example custom_labels
//! ```

use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, ops::*};
use std::error::Error;

const CLASSES: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("squares.beton");

    // Eight grey squares of 8 x 8 pixels, stored raw; square k has class k mod 4.
    let field = |name: &str, kind| FieldSpec { name: name.into(), kind };
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let rows = (0..8u8).map(|k| {
        let pixels = vec![k * 30; 8 * 8 * 3];
        let image = ImageInput::Rgb { pixels, width: 8, height: 8 };
        vec![FieldValue::Image(image), FieldValue::Int(i64::from(k) % i64::from(CLASSES))]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    write_iter(rows, &fields, &file, &WriteOptions { image, ..WriteOptions::default() })?;

    let loader = Loader::open(&file)?
        .batch_size(4)
        .pipeline("image", ops![RandomHorizontalFlip::new(0.5)?, ToChannelsFirst])
        // Samples 0 and 1 become class 3 before they become one-hot vectors.
        .pipeline("label", ops![ReplaceLabel::new([0, 1], 3), OneHot::new(CLASSES)?])
        .build()?;

    for batch in loader.epoch(0)? {
        let batch = batch?;
        let labels = batch.tensor::<f32>("label")?; // [4, 4]
        for (row, sample) in batch.ids().iter().enumerate() {
            println!("sample {sample}: {:?}", labels.row(row).unwrap_or_default());
        }
    }
    Ok(())
}
