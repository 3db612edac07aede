//! Large JPEGs are decoded at a smaller scale where their resize allows it: rows stay nearly the same, everything
//! else stays the same.

use crate::common::jpegs::oriented;
use fuseloop::loader::{Cache, Targets};
use fuseloop::prelude::*;
use fuseloop::recut::{BitPlaneCodec, Tile};
use fuseloop::sample::Limits;
use fuseloop::source::{Column, ImageMode, InMemory, OwnedImage};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

const COUNT: u64 = 9;

fn jpeg(sample: u64) -> Vec<u8> {
    let (height, width) = (240 + 17 * sample as u32, 500 - 11 * sample as u32);
    let level = |y: u32, x: u32, c: u32| {
        let wave =
            ((y + 40 * c) as f32 / 21.0).sin() + ((x + 9 * sample as u32) as f32 / 34.0).cos();
        let edge = if (x / 60 + y / 45).is_multiple_of(2) { 25.0 } else { 0.0 };
        (110.0 + 45.0 * wave + edge) as u8
    };
    let mut pixels = vec![];
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        pixels.extend([level(y, x, 0), level(y, x, 1), level(y, x, 2)]);
    }
    let mut bytes = vec![];
    let mut encoder = Encoder::new(&mut bytes, 92);
    let samplings = [SamplingFactor::R_4_2_0, SamplingFactor::R_4_4_4, SamplingFactor::R_4_2_2];
    encoder.set_sampling_factor(samplings[sample as usize % 3]);
    encoder.encode(&pixels, width as u16, height as u16, ColorType::Rgb).unwrap();
    bytes
}

/// Returns photographs of 240 to 500 pixels a side, each with a box: as bit planes or JPEGs, which may have the EXIF
/// orientations 1 to 8.
fn photographs(planes: bool, turned: bool) -> InMemory {
    let mut codec = BitPlaneCodec::new(Limits::DEFAULT);
    let mut stored = |sample: u64| {
        let (mode, bytes) = match planes {
            true => {
                let packed = codec.pack(&jpeg(sample), Tile::Pixels(32)).unwrap();
                (ImageMode::BitPlanes, packed)
            }
            false if turned => (ImageMode::Jpeg, oriented(&jpeg(sample), 1 + sample as u8 % 8)),
            false => (ImageMode::Jpeg, jpeg(sample)),
        };
        OwnedImage { mode, width: 0, height: 0, bytes }
    };
    let bbox = [30.0_f32, 20.0, 200.0, 150.0].map(f32::to_le_bytes).concat();
    let columns = [
        ("image", Column::images((0..COUNT).map(&mut stored).collect())),
        ("bbox", Column::bytes(vec![bbox; COUNT as usize])),
    ];
    InMemory::new(columns).unwrap()
}

fn builder(list: &Ops, scaled: bool) -> LoaderBuilder {
    let loader = Loader::from_source(photographs(false, false)).batch_size(4).seed(3);
    loader.order(Order::Random).pipeline("image", list.clone()).scaled_decode(scaled)
}

/// The images and the boxes of three epochs.
fn rows(builder: LoaderBuilder) -> (Vec<u8>, Vec<f32>) {
    let targets = Targets::new().boxes("bbox", BoxFormat::Xyxy);
    let loader = builder.targets("image", targets).build().unwrap();
    let (mut images, mut boxes) = (vec![], vec![]);
    for epoch in 0..3 {
        for batch in loader.epoch(epoch).unwrap() {
            let batch = batch.unwrap();
            images.extend_from_slice(batch.bytes("image").unwrap());
            boxes.extend_from_slice(batch.ragged::<f32>("bbox").unwrap().values());
        }
    }
    (images, boxes)
}

/// Lists whose resize averages what a smaller scale averages.
fn lists() -> [Ops; 5] {
    [
        ops![RandomResizedCrop::new(32).unwrap(), RandomHorizontalFlip::new(0.5).unwrap()],
        ops![
            RandomHorizontalFlip::new(0.5).unwrap(),
            RandomVerticalFlip::new(0.5).unwrap(),
            RandomCrop::new((201, 233)).unwrap(),
            RandomResizedCrop::new((24, 40)).unwrap(),
            Normalize::imagenet(),
        ],
        ops![Resize::new((24, 30)).unwrap(), RandomCrop::new(20).unwrap()],
        ops![
            Resize::new(33).unwrap(),
            CenterCrop::new(32).unwrap(),
            RandomRotation::new(9.0).unwrap()
        ],
        ops![
            CenterCrop::new((151, 203)).unwrap(),
            Resize::new((30, 30)).unwrap(),
            RandomInvert::new(0.5).unwrap()
        ],
    ]
}

#[test]
fn rows_are_nearly_those_of_the_whole_image_and_targets_are_the_same() {
    for (number, list) in lists().iter().enumerate() {
        let (whole, boxes) = rows(builder(list, false));
        let (scaled, scaled_boxes) = rows(builder(list, true));
        assert_eq!(boxes, scaled_boxes, "list {number}");
        assert!(whole != scaled, "list {number} is not decoded at a smaller scale");
        if number != 1 {
            let apart: u64 =
                whole.iter().zip(&scaled).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            let apart = apart as f64 / whole.len() as f64;
            assert!(apart < 1.0, "list {number}: {apart} levels apart");
        }
    }
}

/// A turned image may begin with the last stored row or column. At a smaller scale, the stored image may cover only a
/// part of that row or column.
#[test]
fn rows_of_turned_images_are_nearly_those_of_the_whole_image() {
    let list = ops![RandomCrop::new((201, 223)).unwrap(), Resize::new((50, 55)).unwrap()];
    let of = |scaled| {
        let loader = Loader::from_source(photographs(false, true)).batch_size(4).seed(3);
        let loader = loader.exif_orientation(true).pipeline("image", list.clone());
        rows(loader.scaled_decode(scaled)).0
    };
    let (whole, scaled) = (of(false), of(true));
    assert!(whole != scaled, "no image is decoded at a smaller scale");
    let apart: u64 = whole.iter().zip(&scaled).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    let apart = apart as f64 / whole.len() as f64;
    assert!(apart < 0.5, "{apart} levels apart");
}

#[test]
fn rows_are_the_same_for_any_threads_and_for_bit_planes() {
    for list in &lists() {
        let (one, _) = rows(builder(list, true).workers(1));
        let (many, _) = rows(builder(list, true).workers(3));
        assert!(one == many);
        let planes = Loader::from_source(photographs(true, false)).batch_size(4).seed(3);
        let planes = planes.order(Order::Random).pipeline("image", list.clone());
        let (planes, _) = rows(planes.scaled_decode(true));
        assert!(one == planes);
    }
}

#[test]
fn an_inspected_sample_is_the_row_of_the_batch_and_what_its_ops_give() {
    for list in &lists() {
        let loader = builder(list, true).order(Order::Sequential).build().unwrap();
        let mut inspector = loader.inspect("image", 1).unwrap().unwrap();
        let batch = loader.get(&(0..COUNT).collect::<Vec<_>>(), 1).unwrap();
        let (bytes, mut scaled) = (batch.bytes("image").unwrap(), 0);
        for (sample, row) in bytes.chunks(bytes.len() / COUNT as usize).enumerate() {
            let inspected = inspector.sample(sample as u64).unwrap();
            scaled += usize::from(inspected.scaled.is_some());
            let words = match &inspected.scaled {
                Some(scaled) => format!("{}, decoded at {}", inspected.draws.source, scaled.source),
                None => inspected.draws.source.to_string(),
            };
            assert_eq!(inspected.size_words(), words);
            assert!(inspected.row == row, "sample {sample}, {list:?}");
            assert!(inspector.agrees(&inspected).unwrap(), "sample {sample}, {list:?}");
            let steps = inspector.steps(&inspected).unwrap();
            let said: Vec<_> = steps.iter().map(|step| step.drawn.clone()).collect();
            assert_eq!(said, inspected.draws.describe(inspected.kernel.plan()), "{list:?}");
        }
        assert!(scaled > 0, "no sample is decoded at a smaller scale");
    }
}

#[test]
fn an_image_that_is_not_resized_first_is_decoded_whole() {
    let nearest = Resize::new((24, 30)).unwrap().interpolation(Interpolation::Nearest);
    for list in [
        ops![CenterCrop::new(100).unwrap()],
        ops![RandomInvert::new(1.0).unwrap(), Resize::new((24, 30)).unwrap()],
        ops![Pad::new(5).unwrap(), Resize::new((24, 30)).unwrap()],
        ops![Pad::new([9, 0, 0, 0]).unwrap(), Resize::new((24, 30)).unwrap()],
        ops![Pad::new([0, 0, 9, 9]).unwrap(), Resize::new((24, 30)).unwrap()],
        ops![Resize::new((130, 200)).unwrap()],
        ops![nearest],
    ] {
        assert!(rows(builder(&list, false)).0 == rows(builder(&list, true)).0, "{list:?}");
    }
    // Each of two outputs may need another scale.
    let two = |scaled| {
        let list = ops![Resize::new((24, 30)).unwrap()];
        rows(builder(&list, scaled).view("small", "image", ops![Resize::new((12, 12)).unwrap()])).0
    };
    assert!(two(true) == two(false));
}

#[test]
fn what_needs_the_pixels_of_the_whole_image_is_refused_beside_it() {
    let [list, ..] = lists();
    let refused = |builder: LoaderBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(
        refused(builder(&list, true).cache(Cache::memory(1 << 20))),
        "scaled_decode changes pixel values, but a cache stores whole images: use only one of the two"
    );
    let exact = refused(builder(&list, true).number_rule(NumberRule::Exact));
    assert!(exact.contains("NumberRule::Exact promises those of torchvision"), "{exact}");

    let loader = |scaled| builder(&list, scaled).build().unwrap();
    let cursor = |loader: &Loader| loader.epoch(0).unwrap().cursor().unwrap();
    let (whole, scaled) = (loader(false), loader(true));
    assert!(whole.resume(&cursor(&scaled)).is_err() && scaled.resume(&cursor(&whole)).is_err());
    assert!(scaled.resume(&cursor(&loader(true))).is_ok());
    assert!(scaled.explain().contains("scaled decode: ") && !whole.explain().contains("scaled"));
}
