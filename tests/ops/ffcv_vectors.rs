//! The outputs of FFCV's decoders and transforms on its own files, reproduced bit for bit, compiled and
//! evaluated. `tests/golden/ffcv/README.md` says where the vectors come from.

use fuseloop::internals::jit::{self, DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop::sample::SampleId;
use fuseloop::source::Source as _;
use fuseloop::source::{Beton, ImageMode, OpenOptions, OwnedImage, OwnedValue};
use fuseloop_ops::author::{Dim, ImageType};
use fuseloop_ops::internals::{ImageView, SampleKey};
use fuseloop_ops::*;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

const FILES: [&str; 3] = ["images_smart_p16k", "images_raw_resized_p16k", "images_proportion_p16k"];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn json(name: &str) -> Json {
    serde_json::from_slice(&fs::read(golden("ffcv").join(name)).unwrap()).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An image: u8 `[height, width, 3]`.
struct Image {
    pixels: Vec<u8>,
    size: Size,
}

/// The images of a file, as FFCV decodes them.
fn decoded(file: &str) -> Vec<Image> {
    let beton =
        Beton::open(golden(&format!("beton/{file}.beton")), &OpenOptions::default()).unwrap();
    let field = beton.facts().fields.iter().position(|field| field.name == "image").unwrap();
    let image = |sample: SampleId| {
        let OwnedValue::Image(image) = beton.owned(sample, field).unwrap() else {
            panic!("{file}: the field is no image")
        };
        let OwnedImage { mode, width, height, bytes, .. } = image;
        let pixels = match mode {
            ImageMode::Raw => bytes.to_vec(),
            _ => fs::read(golden(&format!("ffcv/{file}__image__{sample}.rgb"))).unwrap(),
        };
        Image { pixels, size: Size::new(height, width) }
    };
    beton.samples().map(image).collect()
}

/// A batch: the outputs of `ops` for each image, one after the other, by the compiled kernel, which must
/// agree with the oracle.
fn batch(ops: Ops, images: &[Image]) -> Vec<u8> {
    let side = Dim { min: 1, max: 65_535 };
    let plan = ImagePlan::new(ops, ImageType::decoded(side, side), NumberRule::Fused).unwrap();
    let kernel = Kernel::compile(plan).unwrap();
    let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
    let mut batch = vec![];
    for (sample, image) in images.iter().enumerate() {
        kernel.plan().draw(SampleKey::new(0, 0, sample as u64), image.size, &mut draws);
        let view = ImageView::packed(&image.pixels, image.size).unwrap();
        let mut row = vec![0xAA; kernel.plan().sample_bytes()];
        kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, &mut row);
        let evaluated = jit::evaluate(kernel.plan(), &view, &draws);
        let differs = row.iter().zip(&evaluated).position(|(a, b)| a != b);
        assert_eq!(differs, None, "sample {sample}: compiled and evaluated differ");
        batch.extend(row);
    }
    batch
}

/// FFCV's `CenterCropRGBImageDecoder`.
fn center_crop(height: u32, width: u32, ratio: f64) -> CenterCrop {
    CenterCrop::new((height, width))
        .unwrap()
        .ratio(ratio)
        .unwrap()
        .interpolation(Interpolation::Area)
}

fn assert_batch(name: &str, ops: Ops, images: &[Image]) {
    let vectors = json("transform_vectors.json");
    let want = vectors[name]["sha256"].as_str().unwrap_or_else(|| panic!("no vector {name}"));
    assert_eq!(sha256(&batch(ops, images)), want, "{name}");
}

#[test]
fn centre_crops_are_ffcvs() {
    for file in FILES {
        let images = decoded(file);
        let name = |what: &str| format!("vec_{file}_centercrop{what}");
        assert_batch(&name("32"), ops![center_crop(32, 32, 224.0 / 256.0)], &images);
        assert_batch(&name("24x40_r1"), ops![center_crop(24, 40, 1.0)], &images);
    }
}

#[test]
fn flipped_crops_are_ffcvs() {
    for file in FILES {
        let flip = RandomHorizontalFlip::new(1.0).unwrap();
        let ops = ops![center_crop(32, 32, 224.0 / 256.0), flip];
        assert_batch(&format!("vec_{file}_centercrop32_flip"), ops, &decoded(file));
    }
}

/// The whole of FFCV's validation pipeline, in one compiled loop.
#[test]
fn normalized_crops_with_channels_first_are_ffcvs() {
    let images = decoded("images_smart_p16k");
    let crop = || center_crop(32, 32, 224.0 / 256.0);
    let name = "vec_images_smart_centercrop32_normalize_f32_torchimage";
    assert_batch(name, ops![crop(), Normalize::imagenet(), ToChannelsFirst], &images);
    let name = "vec_images_smart_centercrop32_normalize_f16_torchimage";
    let half = Convert::to(DType::F16);
    assert_batch(name, ops![crop(), Normalize::imagenet(), half, ToChannelsFirst], &images);
}

#[test]
fn every_value_is_normalized_as_by_ffcvs_tables() {
    let ramp: Vec<u8> = (0..=255).flat_map(|v| [v; 3]).collect();
    let images = [Image { pixels: ramp, size: Size::new(16, 16) }];
    let crop = || CenterCrop::new(16).unwrap();
    let f32s = ops![crop(), Normalize::imagenet()];
    assert_batch("vec_normalize_table_imagenet_f32", f32s, &images);
    let f16s = ops![crop(), Normalize::imagenet(), Convert::to(DType::F16)];
    assert_batch("vec_normalize_table_imagenet_f16", f16s, &images);
}

/// A red patch of 5 x 7 pixels in the corner and a green band over rows 10 to 19, blended into samples 1,
/// 3 and 5: `Poison` as FFCV runs it.
#[test]
fn poisoned_samples_are_ffcvs() {
    let patch = |at: usize| at / 32 < 5 && at % 32 < 7;
    let band = |at: usize| (10..20).contains(&(at / 32));
    let alpha: Vec<f64> = (0..32 * 32)
        .map(|at| {
            if patch(at) {
                0.6
            } else if band(at) {
                0.25
            } else {
                0.0
            }
        })
        .collect();
    let red_or_green = |at| match (patch(at), band(at)) {
        (true, _) => [200.0, 0.0, 0.0],
        (_, true) => [0.0, 90.0, 0.0],
        _ => [0.0; 3],
    };
    let mask: Vec<f64> = (0..32 * 32).flat_map(red_or_green).collect();
    let poison = Poison::new(Size::new(32, 32), &mask, &alpha, [1, 3, 5]).unwrap();
    let ops = ops![center_crop(32, 32, 224.0 / 256.0), poison];
    assert_batch("vec_images_smart_centercrop32_poison_1_3_5", ops, &decoded("images_smart_p16k"));
}

#[test]
fn area_resizes_are_opencvs() {
    let vectors = json("resize_vectors.json");
    let cases = vectors["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 24);
    for case in cases {
        let number = |key: &str| u32::try_from(case[key].as_u64().unwrap()).unwrap();
        let image = formula(Size::new(number("src_h"), number("src_w")), number("seed"));
        let resize = Resize::new((number("dst_h"), number("dst_w"))).unwrap();
        let out = batch(ops![resize.interpolation(Interpolation::Area)], &[image]);
        assert_eq!(sha256(&out), case["out_sha256"], "{case}");
    }
}

fn formula(size: Size, seed: u32) -> Image {
    let value = |y: u32, x: u32, c: u32| {
        (3 * y + 5 * x * (c + 1) + 17 * seed) ^ ((y / 7) * (x / 5) * (c + 3))
    };
    let positions = (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x)));
    let pixels = positions.flat_map(|(y, x)| [0, 1, 2].map(|c| value(y, x, c) as u8)).collect();
    Image { pixels, size }
}
