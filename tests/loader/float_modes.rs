//! The same values whatever floating-point mode the program has set on the threads that build and iterate loaders:
//! `torch.set_flush_denormal(True)`, `fesetround`.

use crate::common::float_mode::{MODES, under};
use crate::common::{dataset, jpegs, lists};
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch, evaluate};
use fuseloop::internals::plan::Draws;
use fuseloop::ops::author::Window;
use fuseloop::ops::*;
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{Facts, FieldKind, InMemory, OwnedValue};
use fuseloop::write::WriteMode;
use fuseloop::{Epoch, Loader, LoaderBuilder, Order, SampleId, Spec, check_ops};
use fuseloop_ops::internals::SampleKey;
use std::path::Path;

/// Returns the bytes of all tensors of an epoch, each after its name.
fn epoch(loader: &Loader) -> Vec<u8> {
    let mut all = vec![];
    for batch in loader.epoch(1).unwrap() {
        let batch = batch.unwrap();
        for tensor in loader.tensors() {
            all.extend_from_slice(tensor.name.as_bytes());
            all.extend_from_slice(batch.bytes(&tensor.name).unwrap());
        }
    }
    all
}

/// Returns floats of which some are denormal.
fn denormals() -> InMemory {
    let kind = FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: vec![12, 16, 3] };
    let facts = Facts::new([("map", kind), ("price", FieldKind::Float)], 40);
    InMemory::from_fn(facts, |SampleId(sample)| {
        let value = |index: u32| {
            let third = f64::from(index % 97) / 3.0 + sample as f64;
            // Every third is smaller than the smallest normal number.
            (if index.is_multiple_of(3) { third * 1e-41 } else { third }) as f32
        };
        let values = (0..12 * 16 * 3).flat_map(|index| value(index).to_le_bytes()).collect();
        Ok(vec![OwnedValue::NdArray(values), OwnedValue::Float(sample as f64 / 7.0 * 1e-40)])
    })
}

fn floats() -> LoaderBuilder {
    Loader::from_source(denormals())
        .batch_size(8)
        .workers(2)
        .axes("map", "HWC")
        .view(
            "half",
            "map",
            ops![Normalize::values([0.1], [3e9]).unwrap(), Convert::to(DType::F16)],
        )
        .view("brain", "map", ops![Convert::to(DType::Bf16)])
        .view("scaled", "map", ops![ScaleIntensityRange::new(-0.1..=33.3, 0.1..=0.7).unwrap()])
        .view("levels", "map", ops![Levels::of(0.1, 33.3).unwrap(), Normalize::imagenet()])
        .pipeline("map", ops![Normalize::values([0.1], [1e12]).unwrap()])
        .pipeline("price", ops![Convert::to(DType::F32)])
}

fn pictures(path: &Path) -> LoaderBuilder {
    let weights = (0..24).map(|sample| f64::from(sample) / 7.0).collect();
    let crop = || RandomResizedCrop::new(32).unwrap();
    let jitter = ColorJitter::new(0.4, 0.4, 0.4).unwrap().hue(0.1).unwrap();
    let blur = GaussianBlur::new(5).unwrap().sigma(0.1..=2.0).unwrap();
    let rotation = RandomRotation::new(33.3).unwrap().interpolation(WarpInterpolation::Bilinear);
    let tiny = Normalize::unit([0.1], [1e-6]).unwrap();
    Loader::open(path)
        .unwrap()
        .batch_size(8)
        .workers(2)
        .order(Order::Weighted { weights, samples: 24, replacement: true })
        .view("blurred", "image", ops![crop(), blur, tiny, Convert::to(DType::F16)])
        .view("warped", "image", ops![crop(), rotation, Lighting::new(0.1).unwrap()])
        .pipeline("image", ops![crop(), jitter, Normalize::imagenet(), MixUp::new(0.3).unwrap()])
        .pipeline("label", ops![OneHot::new(10).unwrap(), MixUp::new(0.3).unwrap()])
}

#[test]
fn batches_are_the_same_in_every_mode_of_the_threads_that_build_and_iterate() {
    let (_dir, path) = dataset::write(24, WriteMode::Jpg, dataset::varied);
    let builders: [&dyn Fn() -> LoaderBuilder; 2] = [&floats, &|| pictures(&path)];
    for builder in builders {
        let loader = builder().build().unwrap();
        let expected = epoch(&loader);
        for mode in MODES {
            let built = under(mode, || builder().build().unwrap());
            assert!(epoch(&built) == expected, "built while {}", mode.0);
            assert!(under(mode, || epoch(&loader)) == expected, "iterated while {}", mode.0);
            assert!(under(mode, || epoch(&built)) == expected, "both while {}", mode.0);
        }
    }
}

#[test]
fn previews_and_checks_are_the_same_in_every_mode() {
    let (_dir, path) = dataset::write(24, WriteMode::Jpg, dataset::varied);
    let loader = pictures(&path).build().unwrap();
    let options = PreviewOptions { samples: 3, each_op: true, ..PreviewOptions::default() };
    let sheet = loader.preview(&options).unwrap();
    for mode in MODES {
        assert!(
            under(mode, || loader.preview(&options).unwrap().rgb() == sheet.rgb()),
            "{}",
            mode.0
        );
        under(mode, || {
            let list =
                ops![RandomResizedCrop::new(20)?, RandomRotation::new(9.0)?, Normalize::imagenet()];
            check_ops(&list, Size::new(48, 64), 5)?;
            Ok::<(), Box<dyn std::error::Error>>(())
        })
        .unwrap();
    }
}

#[test]
fn compiled_and_evaluated_lists_are_the_same_in_every_mode() {
    let mut rng = SampleKey::new(7, 0, 0).op(0);
    for number in 0..60 {
        let size = Size::new(9 + number % 7, 11 + number % 5);
        let (list, names) = lists::List::random(&mut rng, size, 4);
        let plan = list.plan().unwrap();
        let pixels = lists::noise(&mut rng, size, &list.input);
        let run = || {
            let kernel = Kernel::compile(list.plan().unwrap()).unwrap();
            let view = lists::view(kernel.plan(), &pixels, size);
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(1, 2, u64::from(number)), size, &mut draws);
            let mut out = vec![0; kernel.plan().drawn_bytes(&draws)];
            kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut out);
            [out, evaluate(kernel.plan(), &view, &draws)]
        };
        let expected = run();
        for mode in MODES {
            let got = under(mode, run);
            for (how, (got, want)) in
                ["compiled", "evaluated"].iter().zip(got.iter().zip(&expected))
            {
                let difference = lists::first_difference(&plan, got, want);
                assert!(difference.is_none(), "{names:?} {how}, {}: {difference:?}", mode.0);
            }
        }
    }
}

#[test]
fn a_jpeg_and_a_pipeline_file_are_the_same_in_every_mode() {
    let mut jpeg = vec![];
    let pixels = dataset::picture(3, Size::new(53, 70));
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
    encoder.encode(&pixels, 70, 53, jpeg_encoder::ColorType::Rgb).unwrap();
    let decoded = || {
        let window = Window { top: 5, left: 7, height: 40, width: 51 };
        jpegs::pixels(&mut Decoder::new(DecodeOptions::default()), &jpeg, window).unwrap()
    };
    let text = "fields.image = [{op = \"RandomResizedCrop\", size = 20, scale = [0.1, 0.7]}, \
        {op = \"Normalize\", mean = [0.123456789012345678], std = [1e-6]}]";
    let parsed = || {
        let spec = Spec::parse(text, Path::new("a.toml")).unwrap();
        format!("{:?}", spec.ops("image", Epoch(0)).unwrap())
    };
    let (pixels, ops) = (decoded(), parsed());
    for mode in MODES {
        assert!(under(mode, decoded) == pixels, "{}", mode.0);
        assert_eq!(under(mode, parsed), ops, "{}", mode.0);
    }
}
