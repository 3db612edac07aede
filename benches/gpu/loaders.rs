//! Whole loaders: raw images in memory, the same list with its last ops on the GPU and on the CPU.
//!
//! | list | on the host | on the device |
//! |---|---|---|
//! | cropped on the device | a copy of the image | crop, flip, normalize, f16, channels first |
//! | resized on the host | resized crop | flip, normalize, f16, channels first |

use crate::cases::noise;
use crate::table::Table;
use crate::{Size, median};
use fuseloop::device::DeviceStream;
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedImage, OwnedValue};
use fuseloop::{Loader, ops::*};
use std::time::Instant;

/// The number of distinct images; samples use them in turn.
const PICTURES: u64 = 64;

/// The number of pixels by which an input is wider and higher than its output.
const MORE: u32 = 32;

/// Returns raw square images in memory.
fn squares(side: u32, count: u64) -> InMemory {
    let pictures: Vec<_> = (0..PICTURES.min(count)).map(|row| noise(side, row)).collect();
    let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int)];
    InMemory::from_fn(Facts::new(fields, count).named("squares in memory"), move |sample| {
        let picture = &pictures[sample.0 as usize % pictures.len()];
        let image = OwnedImage::rgb(side, picture.clone());
        Ok(vec![OwnedValue::Image(image), OwnedValue::Int(sample.0 as i64 % 10)])
    })
}

fn image(resized: bool, side: u32) -> Result<Ops, ParamError> {
    let end = ops![
        RandomHorizontalFlip::new(0.5)?,
        Normalize::imagenet(),
        Convert::to(DType::F16),
        ToChannelsFirst,
    ];
    let device = ToDevice::new("auto")?;
    let mut ops = if resized {
        ops![RandomResizedCrop::new(side)?.scale(0.35..=1.0)?.ratio(0.75..=1.3333)?, device]
    } else {
        ops![CenterCrop::new(side + MORE)?, device, RandomCrop::new(side)?]
    };
    ops.extend(end);
    Ok(ops)
}

fn loader(device: &str, resized: bool, size: &Size) -> Loader {
    let (side, batch) = (size.side, size.rows);
    let squares = squares(side + MORE, batch as u64 * u64::from(size.batches));
    Loader::from_source(squares)
        .batch_size(batch)
        .seed(1)
        .device(device)
        .pipeline("image", image(resized, side).unwrap())
        .pipeline("label", ops![Squeeze, ToDevice::new("auto").unwrap()])
        .build()
        .unwrap()
}

/// Returns the images per second of an epoch.
fn epoch(loader: &Loader, number: u32) -> f64 {
    let (began, mut images) = (Instant::now(), 0);
    let mut last = None;
    for batch in loader.epoch(number).unwrap() {
        let batch = batch.unwrap();
        images += batch.len();
        if batch.device().is_some() {
            batch.device_ptr("image", DeviceStream::Legacy).unwrap();
        }
        last = Some(batch);
    }
    // A label arrives after everything that was sent before it.
    if let Some(batch) = last.filter(|batch| batch.device().is_some()) {
        batch.to_host("label").unwrap();
    }
    images as f64 / began.elapsed().as_secs_f64()
}

pub(crate) fn compare(size: &Size, table: &mut Table) {
    for (name, resized) in [("cropped on the device", false), ("resized on the host", true)] {
        let [gpu, cpu] = ["cuda:0", "cpu"].map(|device| loader(device, resized, size));
        let (mut there, mut here, mut over) = (vec![], vec![], vec![]);
        for number in 0..=size.rounds as u32 {
            let (a, b) = (epoch(&gpu, number), epoch(&cpu, number));
            // The first epoch allocates the memory, so it is not counted.
            if number > 0 {
                there.push(a);
                here.push(b);
                over.push(a / b);
            }
        }
        let over = Some(median(over));
        table.row("loader", &format!("{name}, cuda:0"), median(there), "im/s", over, None);
        table.row("loader", &format!("{name}, cpu"), median(here), "im/s", Some(1.0), None);
    }
}
