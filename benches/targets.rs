//! An image with targets against the same image without them.
//!
//! `targets/JPEG` loads JPEGs of 500 x 375 pixels from memory with one worker, through RandomResizedCrop, a rotation by
//! up to 10 degrees, a flip and a normalization: the image alone, with 20 boxes and their classes, with 17 keypoints
//! each, and with a mask of class numbers. `targets/raw` does so with decoded images. The printed ratio is the time of
//! the image alone divided by that of the line. The aim: boxes and keypoints take at most 3 % of the image's time.
//!
//! `scripts/targets.py` runs the same work by torchvision's v2 transforms and by Albumentations.

mod common;

use common::{Contender, Work, compare, criterion};
use criterion::{Criterion, criterion_group, criterion_main};
use fuseloop::loader::{KeyPoints, Targets};
use fuseloop::source::{
    BoxError, EncodedImage, Facts, FieldKind, OwnedImage, OwnedValue, Record, Source,
};
use fuseloop::source::{Buffer, ImageStats, Value};
use fuseloop::{Loader, SampleId};
use fuseloop_ops::*;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use std::hint::black_box;

const SIZE: Size = Size::new(375, 500);
const SAMPLES: u64 = 128;
const OBJECTS: usize = 20;
const POINTS: usize = 17;

/// One image with its targets, as often as there are samples.
struct Scene {
    facts: Facts,
    image: OwnedImage,
    mask: OwnedImage,
    bbox: Vec<u8>,
    label: Vec<u8>,
    keypoints: Vec<u8>,
}

impl Scene {
    fn new(is_coded: bool) -> Self {
        let (height, width) = (SIZE.height as usize, SIZE.width as usize);
        let pixels: Vec<u8> = (0..height * width * 3)
            .map(|at| {
                ((at / 3 % width / 3 + at / (3 * width)) as u8)
                    .wrapping_add(((at * 2_654_435_761) >> 20) as u8 % 24)
            })
            .collect();
        let image = if is_coded {
            let mut jpeg = vec![];
            let mut encoder = Encoder::new(&mut jpeg, 90);
            encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
            let (width, height) = (SIZE.width as u16, SIZE.height as u16);
            encoder.encode(&pixels, width, height, ColorType::Rgb).expect("a valid size");
            OwnedImage::jpeg(jpeg)
        } else {
            OwnedImage::rgb((SIZE.height, SIZE.width), pixels)
        };
        let classes =
            (0..height * width).flat_map(|at| [(at / width / 40 + at % width / 50) as u8; 3]);
        let mask = OwnedImage::rgb((SIZE.height, SIZE.width), classes.collect());
        let floats = |values: Vec<f32>| values.into_iter().flat_map(f32::to_le_bytes).collect();
        let boxes =
            (0..OBJECTS).flat_map(|k| [k as f32 * 20.0, 40.0, k as f32 * 20.0 + 60.0, 90.0]);
        let points = (0..OBJECTS * POINTS).flat_map(|k| [(k % 490) as f32, (k % 370) as f32, 2.0]);
        let kinds = [
            ("image", FieldKind::RgbImage),
            ("mask", FieldKind::RgbImage),
            ("bbox", FieldKind::Bytes),
            ("label", FieldKind::Bytes),
            ("keypoints", FieldKind::Bytes),
        ];
        let bbox: Vec<u8> = floats(boxes.collect());
        let label: Vec<u8> = (0..OBJECTS as i64).flat_map(i64::to_le_bytes).collect();
        let keypoints: Vec<u8> = floats(points.collect());
        let longest = [0, 0, bbox.len(), label.len(), keypoints.len()];
        let facts = Facts::new(kinds, SAMPLES)
            .with_longest(move |field| longest.get(field).map(|&n| n as u64))
            .with_image_stats(move |field| {
                let is_jpeg = field == 0 && is_coded;
                Some(ImageStats {
                    jpeg: u64::from(is_jpeg),
                    raw: u64::from(!is_jpeg),
                    min: Some(SIZE),
                    max: Some(SIZE),
                    max_pixels: SIZE.pixels(),
                    ..ImageStats::default()
                })
            });
        Self { facts, image, mask, bbox, label, keypoints }
    }

    /// Returns a loader of the image and of the targets that are declared.
    fn loader(is_coded: bool, targets: Targets, fields: &[&str]) -> Loader {
        let ops = || {
            Ok::<_, ParamError>(ops![
                RandomResizedCrop::new(224)?,
                RandomRotation::new(10.0)?.interpolation(WarpInterpolation::Bilinear),
                RandomHorizontalFlip::new(0.5)?,
                Normalize::imagenet(),
                ToChannelsFirst,
            ])
        };
        let builder = Loader::from_source(Self::new(is_coded)).batch_size(64).workers(1);
        let builder = builder.pipeline("image", ops().expect("fixed parameters"));
        let mut builder = builder.targets("image", targets);
        for field in ["mask", "bbox", "label", "keypoints"] {
            if !fields.contains(&field) {
                builder = builder.without(field);
            }
        }
        builder.build().expect("a loader")
    }
}

impl Source for Scene {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, _: SampleId) -> Result<Record, BoxError> {
        Ok(vec![
            OwnedValue::Image(self.image.clone()),
            OwnedValue::Image(self.mask.clone()),
            OwnedValue::Bytes(self.bbox.clone()),
            OwnedValue::Bytes(self.label.clone()),
            OwnedValue::Bytes(self.keypoints.clone()),
        ])
    }

    fn value<'a>(
        &'a self,
        _: SampleId,
        field: usize,
        _: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let image = |OwnedImage { mode, width, height, bytes }: &'a OwnedImage| {
            Value::Image(EncodedImage { mode: *mode, width: *width, height: *height, bytes })
        };
        Ok(match field {
            0 => image(&self.image),
            1 => image(&self.mask),
            2 => Value::Bytes(&self.bbox),
            3 => Value::Bytes(&self.label),
            _ => Value::Bytes(&self.keypoints),
        })
    }
}

fn targets(c: &mut Criterion) {
    let boxes = || Targets::new().boxes("bbox", BoxFormat::Xyxy).column("label", DType::I64);
    let points = || boxes().keypoints("keypoints", KeyPoints::new(POINTS));
    for (name, is_coded) in [("JPEG", true), ("raw", false)] {
        let loaders = [
            ("image alone", Targets::new(), &[][..]),
            ("20 boxes and classes", boxes(), &["bbox", "label"]),
            ("and 17 keypoints each", points(), &["bbox", "label", "keypoints"]),
            ("and a mask", points().mask("mask", 0), &["bbox", "label", "keypoints", "mask"]),
        ]
        .map(|(how, targets, fields)| (how, Scene::loader(is_coded, targets, fields)));
        let work = Work {
            group: &format!("targets/{name}"),
            what: "500x375, one worker",
            samples: SAMPLES,
            bytes: SIZE.pixels() * 3,
            cold: false,
        };
        let mut contenders: Vec<_> = loaders
            .iter()
            .map(|(how, loader)| {
                Contender::new(how, || {
                    for batch in loader.epoch(0).expect("an epoch") {
                        drop(black_box(batch.expect("a batch")));
                    }
                })
            })
            .collect();
        compare(c, &work, &mut contenders);
    }
}

criterion_group!(name = benches; config = criterion(); targets = targets);
criterion_main!(benches);
