//! Batches that mix samples: they equal a plain mix of the unmixed batches, for any number of threads,
//! and an image and its label are mixed alike.

use crate::common::dataset::{self, varied};
use fuseloop::batch::Batch;
use fuseloop::ops::Partner;
use fuseloop::ops::author::{BatchOp, Layout, Op, RowMix};
use fuseloop::ops::internals::{BatchKey, cut_mix, mix_up, mixed_label};
use fuseloop::source::{FieldKind, FieldSpec, NdType};
use fuseloop::write::{FieldValue, ImageInput, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, LoaderBuilder, Order, ops::*};
use half::{bf16, f16};
use std::path::{Path, PathBuf};

const SEED: u64 = 11;
const SIDE: u32 = 24;
const CLASSES: u32 = 10;

fn file(samples: u64) -> (tempfile::TempDir, PathBuf) {
    dataset::write(samples, WriteMode::Raw, varied)
}

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(7).seed(SEED).order(Order::Random).drop_last(false)
}

/// The ops of an image without the mixing, with one of the element types and layouts.
fn image_ops(dtype: DType, layout: Layout) -> Ops {
    let mut ops = ops![
        RandomResizedCrop::new(SIDE).unwrap().scale(0.3..=1.0).unwrap().ratio(1.0..=1.0).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
    ];
    if dtype != DType::U8 {
        ops.extend(ops![Normalize::imagenet(), Convert::to(dtype)]);
    }
    if layout == Layout::ChannelsFirst {
        ops.extend(ops![ToChannelsFirst]);
    }
    ops
}

/// A loader whose image and one-hot label end with the ops that `mixers` builds.
fn loader(
    path: &Path,
    (dtype, layout): (DType, Layout),
    mixers: impl Fn() -> Ops + Clone + Send + Sync + 'static,
) -> LoaderBuilder {
    let of_label = mixers.clone();
    builder(path)
        .pipeline("image", image_ops(dtype, layout).into_iter().chain(mixers()).collect::<Ops>())
        .pipeline(
            "label",
            ops![OneHot::new(CLASSES).unwrap()].into_iter().chain(of_label()).collect::<Ops>(),
        )
}

fn batches(builder: LoaderBuilder, epoch: u32) -> Vec<Batch> {
    builder.build().unwrap().epoch(epoch).unwrap().map(Result::unwrap).collect()
}

fn rows(batch: &Batch, name: &str) -> Vec<Vec<u8>> {
    let bytes = batch.bytes(name).unwrap();
    bytes.chunks(bytes.len() / batch.len()).map(<[u8]>::to_vec).collect()
}

/// The draws for a batch, by the op itself.
fn drawn(op: &dyn BatchOp, name: &str, batch: &Batch) -> Vec<RowMix> {
    let mut rng = BatchKey::new(SEED, batch.epoch().0, batch.index()).op(name, 0);
    op.draw(&mut rng, batch.len(), Size::new(SIDE, SIDE))
}

/// One element, mixed as MixUp defines it.
fn blended(dtype: DType, own: &[u8], partner: &[u8], share: f64) -> Vec<u8> {
    let f32_of = |bytes: &[u8]| match dtype {
        DType::F16 => f16::from_ne_bytes(bytes.try_into().unwrap()).to_f32(),
        DType::Bf16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f32(),
        _ => f32::from_ne_bytes(bytes.try_into().unwrap()),
    };
    let mixed = || mix_up::eval(f32_of(own), f32_of(partner), share);
    match dtype {
        DType::U8 => vec![mix_up::eval_u8(own[0], partner[0], share)],
        DType::F16 => f16::from_f32(mixed()).to_ne_bytes().to_vec(),
        DType::Bf16 => bf16::from_f32(mixed()).to_ne_bytes().to_vec(),
        _ => mixed().to_ne_bytes().to_vec(),
    }
}

/// A row mixed element by element.
fn mixed_image(
    (dtype, layout): (DType, Layout),
    own: &[u8],
    partner: &[u8],
    mixed: &RowMix,
) -> Vec<u8> {
    let elements = own.chunks(dtype.bytes()).zip(partner.chunks(dtype.bytes())).enumerate();
    let side = SIDE as usize;
    let one = |(i, (own, partner)): (usize, (&[u8], &[u8]))| {
        let pixel = if layout == Layout::ChannelsLast { i / 3 } else { i % (side * side) };
        let (y, x) = ((pixel / side) as u32, (pixel % side) as u32);
        match mixed.window {
            Some(window) => cut_mix::eval(own, partner, y, x, window).to_vec(),
            None => blended(dtype, own, partner, mixed.share),
        }
    };
    elements.flat_map(one).collect()
}

fn mixed_floats(own: &[u8], partner: &[u8], share: f64) -> Vec<u8> {
    let pairs = own.as_chunks::<4>().0.iter().zip(partner.as_chunks::<4>().0);
    let mixed = pairs.map(|(&own, &partner)| {
        mixed_label(f32::from_ne_bytes(own), f32::from_ne_bytes(partner), share)
    });
    mixed.flat_map(f32::to_ne_bytes).collect()
}

/// Asserts that mixed batches equal plain batches, mixed row by row out of place.
fn assert_mixes<O: BatchOp + Op + Clone + 'static>(path: &Path, kind: (DType, Layout), op: &O) {
    let of_loader = op.clone();
    let plain = batches(loader(path, kind, || ops![]).workers(1), 2);
    let mixed = batches(loader(path, kind, move || ops![of_loader.clone()]).workers(2), 2);
    assert_eq!(plain.len(), mixed.len());
    for (plain, mixed) in plain.iter().zip(&mixed) {
        assert_eq!(plain.ids(), mixed.ids());
        let (images, labels) = (rows(plain, "image"), rows(plain, "label"));
        let (found_images, found_labels) = (rows(mixed, "image"), rows(mixed, "label"));
        for (row, drawn) in drawn(op, op.name(), plain).iter().enumerate() {
            let RowMix { partner, share, .. } = *drawn;
            let is_kept = partner == row || share == 1.0;
            let image = mixed_image(kind, &images[row], &images[partner], drawn);
            let image = if is_kept { images[row].clone() } else { image };
            assert!(found_images[row] == image, "{op:?} {kind:?}: row {row} with {partner}");
            let label = mixed_floats(&labels[row], &labels[partner], share);
            assert_eq!(found_labels[row], label, "{op:?}: label {row} with {partner}");
        }
    }
}

#[test]
fn mixup_of_every_type_is_the_plain_mix_of_unmixed_batches() {
    let (_dir, path) = file(23);
    for dtype in [DType::U8, DType::F16, DType::Bf16, DType::F32] {
        for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
            assert_mixes(&path, (dtype, layout), &MixUp::new(0.4).unwrap());
        }
    }
    let kind = (DType::F32, Layout::ChannelsFirst);
    let mixup = || MixUp::new(1.0).unwrap();
    assert_mixes(&path, kind, &mixup().per_sample());
    assert_mixes(&path, kind, &mixup().partner(Partner::Permuted));
    assert_mixes(&path, kind, &mixup().per_sample().partner(Partner::Permuted));
    assert_mixes(&path, kind, &mixup().per_sample().p(0.5).unwrap());
}

#[test]
fn cutmix_of_every_type_is_the_plain_mix_of_unmixed_batches() {
    let (_dir, path) = file(23);
    for dtype in [DType::U8, DType::F16, DType::Bf16, DType::F32] {
        for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
            assert_mixes(&path, (dtype, layout), &CutMix::new(1.0).unwrap());
        }
    }
    let kind = (DType::U8, Layout::ChannelsLast);
    let cutmix = || CutMix::new(1.0).unwrap();
    assert_mixes(&path, kind, &cutmix().per_sample());
    assert_mixes(&path, kind, &cutmix().partner(Partner::Permuted).p(0.5).unwrap());
}

#[test]
fn mixed_batches_do_not_depend_on_the_workers() {
    let (_dir, path) = file(40);
    let kind = (DType::F32, Layout::ChannelsFirst);
    let mixers = || {
        let mixup = MixUp::new(0.3).unwrap().per_sample().partner(Partner::Permuted);
        ops![mixup.p(0.5).unwrap(), CutMix::new(1.0).unwrap().per_sample()]
    };
    let bytes = |workers, ahead| {
        let loader = loader(&path, kind, mixers).workers(workers).batches_ahead(ahead);
        let batches = batches(loader, 1);
        let all = batches.iter().map(|batch| (rows(batch, "image"), rows(batch, "label")));
        all.collect::<Vec<_>>()
    };
    let one = bytes(1, 1);
    for (workers, ahead) in [(2, 3), (4, 2), (8, 5)] {
        assert!(bytes(workers, ahead) == one, "{workers} workers, {ahead} ahead");
    }
}

#[test]
fn a_class_alone_becomes_two_classes_and_the_share_of_its_image() {
    let (_dir, path) = file(23);
    let loader = builder(&path)
        .pipeline(
            "image",
            ops![Resize::new((SIDE, SIDE)).unwrap(), ImageMixup::new(0.5).unwrap().per_sample()],
        )
        .pipeline("label", ops![LabelMixup::new(0.5).unwrap().per_sample()]);
    let op = MixUp::new(0.5).unwrap().per_sample();
    for batch in batches(loader, 3) {
        let labels = batch.tensor::<f32>("label").unwrap();
        assert_eq!(labels.shape(), [batch.len(), 3]);
        let class = |row: usize| (batch.ids()[row].0 % 10) as f32;
        for (row, drawn) in drawn(&op, "MixUp", &batch).iter().enumerate() {
            let expected = [class(row), class(drawn.partner), drawn.share as f32];
            assert_eq!(labels.row(row).unwrap(), expected);
        }
    }
}

#[test]
fn the_share_of_a_cutmix_label_is_the_area_of_its_image() {
    let (_dir, path) = file(23);
    let cutmix = || CutMix::new(1.0).unwrap().per_sample();
    let kind = (DType::U8, Layout::ChannelsLast);
    let plain = batches(loader(&path, kind, || ops![]), 0);
    let mixed = batches(loader(&path, kind, move || ops![cutmix()]), 0);
    let pixels = (SIDE * SIDE) as usize;
    for (plain, mixed) in plain.iter().zip(&mixed) {
        let (own, found) = (rows(plain, "image"), rows(mixed, "image"));
        let labels = mixed.tensor::<f32>("label").unwrap();
        for row in 0..plain.len() {
            let kept = own[row].chunks(3).zip(found[row].chunks(3)).filter(|(a, b)| a == b);
            let class = plain.ids()[row].0 as usize % 10;
            let share = labels.row(row).unwrap()[class];
            // Pixels of the partner may be equal by chance, but few are.
            let kept = kept.count() as f32 / pixels as f32;
            assert!(
                (kept - share).abs() < 0.02 || share == 1.0,
                "{kept} kept, {share} in the label"
            );
        }
    }
}

#[test]
fn a_row_of_equal_classes_stays_exactly_one() {
    let (_dir, path) = dataset::write(40, WriteMode::Raw, varied);
    // Ten classes, and samples of class 3 only: partners have one class.
    let kind = (DType::U8, Layout::ChannelsLast);
    let mixup = || MixUp::new(0.2).unwrap().per_sample();
    let loader = loader(&path, kind, move || ops![mixup()]).indices([3, 13, 23, 33]).batch_size(4);
    let loader = loader.build().unwrap();
    for epoch in 0..50 {
        for batch in loader.epoch(epoch).unwrap() {
            let batch = batch.unwrap();
            let labels = batch.tensor::<f32>("label").unwrap();
            for row in 0..4 {
                let mut expected = [0.0; 10];
                expected[3] = 1.0;
                assert_eq!(labels.row(row).unwrap(), expected);
            }
        }
    }
}

#[test]
fn a_batch_of_one_is_as_it_was() {
    let (_dir, path) = file(8);
    let kind = (DType::F32, Layout::ChannelsLast);
    let plain = batches(loader(&path, kind, || ops![]), 0);
    let mixed = batches(loader(&path, kind, || ops![MixUp::new(1.0).unwrap()]), 0);
    assert_eq!((mixed.len(), mixed[1].len()), (2, 1), "a last batch of one sample");
    assert_eq!(rows(&mixed[1], "image"), rows(&plain[1], "image"));
    assert_eq!(rows(&mixed[1], "label"), rows(&plain[1], "label"));
    assert_ne!(rows(&mixed[0], "image"), rows(&plain[0], "image"));
}

#[test]
fn seeds_epochs_and_batches_draw_apart() {
    let (_dir, path) = file(21);
    let kind = (DType::U8, Layout::ChannelsLast);
    let mixup = || ops![MixUp::new(1.0).unwrap()];
    let shares = |seed, epoch| {
        let loader = loader(&path, kind, mixup).seed(seed);
        let loader = loader.pipeline("label", ops![MixUp::new(1.0).unwrap()]);
        let share = |batch: &Batch| batch.tensor::<f32>("label").unwrap().as_slice()[2];
        batches(loader, epoch).iter().map(share).collect::<Vec<_>>()
    };
    let mut all = [shares(1, 0), shares(1, 1), shares(2, 0)].concat();
    assert_eq!(all.len(), 9);
    all.sort_by(f32::total_cmp);
    all.dedup();
    assert_eq!(all.len(), 9, "no two batches have one share");
    assert_eq!(shares(1, 1), shares(1, 1));
}

#[test]
fn a_label_that_follows_no_image_is_refused() {
    let (_dir, path) = file(8);
    let kind = (DType::U8, Layout::ChannelsLast);
    let refused = |builder: LoaderBuilder| builder.build().expect_err("refused").to_string();
    let with_label = |label: fn() -> Ops| {
        loader(&path, kind, || ops![MixUp::new(0.2).unwrap()]).pipeline("label", label())
    };
    let error = refused(with_label(|| ops![MixUp::new(0.4).unwrap()]));
    assert_eq!(
        error,
        "output label: no image has the same mixing ops as this label: put MixUp, with \
         the same parameters, last in an image's list"
    );
    let error = refused(with_label(|| ops![CutMix::new(0.2).unwrap()]));
    assert!(error.contains("put CutMix, with the same parameters"), "{error}");
    let cutmix = || CutMix::new(1.0).unwrap();
    let two_sizes = loader(&path, kind, move || ops![cutmix()]).view(
        "small",
        "image",
        ops![Resize::new((8, 9)).unwrap(), cutmix()],
    );
    assert_eq!(
        refused(two_sizes),
        "output label: the mixing share of CutMix depends on the image size, but the mixed images \
         have two sizes, 24x24 and 9x8"
    );
    let error = refused(builder(&path).pipeline(
        "image",
        ops![Resize::new((8, 8)).unwrap(), MixUp::new(1.0).unwrap(), ToDevice::to(Device::Auto)],
    ));
    assert!(error.contains("op 2 of the list: ToDevice takes one sample"), "{error}");
}

/// Images of one size, each with four targets in f64.
fn with_targets(samples: u64) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("targets.beton");
    let dtype: NdType = "<f8".parse().unwrap();
    let targets = FieldKind::NdArray { dtype, shape: vec![1, 4] };
    let rows = (0..samples).map(|sample| {
        let pixels = dataset::picture(sample, Size::new(SIDE, SIDE));
        let image = ImageInput::Rgb { pixels, width: SIDE, height: SIDE };
        let bytes = target(sample).map(f64::to_le_bytes).concat();
        vec![FieldValue::Image(image), FieldValue::NdArray { dtype, bytes }]
    });
    let fields = [("image", FieldKind::RgbImage), ("targets", targets)].map(FieldSpec::from);
    write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
    (dir, path)
}

fn target(sample: u64) -> [f64; 4] {
    [sample as f64, 0.1, -1.5, 1.0 / (sample + 1) as f64]
}

#[test]
fn arrays_are_converted_squeezed_and_mixed_with_the_images() {
    let (_dir, path) = with_targets(10);
    let mixup = || MixUp::new(1.0).unwrap().per_sample();
    let loader = builder(&path)
        .pipeline("image", ops![mixup()])
        .pipeline("targets", ops![Convert::to(DType::F32), Squeeze, mixup()])
        .view("as they are", "targets", ops![]);
    for batch in batches(loader, 0) {
        let targets = batch.tensor::<f32>("targets").unwrap();
        let stored = batch.tensor::<f64>("as they are").unwrap();
        assert_eq!(targets.shape(), [batch.len(), 4]);
        assert_eq!(stored.shape(), [batch.len(), 1, 4]);
        for (row, drawn) in drawn(&mixup(), "MixUp", &batch).iter().enumerate() {
            let [own, partner] = [row, drawn.partner].map(|row| target(batch.ids()[row].0));
            assert_eq!(stored.row(row).unwrap(), own);
            let pairs = own.into_iter().zip(partner);
            let mixed =
                pairs.map(|(own, partner)| mixed_label(own as f32, partner as f32, drawn.share));
            assert!(targets.row(row).unwrap().iter().copied().eq(mixed), "row {row}");
        }
    }
}

/// A label of many classes, stored as bytes.
#[test]
fn vectors_of_bytes_are_labels_that_are_converted_before_they_are_mixed() {
    for dtype in ["|u1", "|b1"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("labels.beton");
        let dtype: NdType = dtype.parse().unwrap();
        let labels = FieldKind::NdArray { dtype, shape: vec![5] };
        let classes = |sample: u64| [0, 1, 2, 3, 4].map(|class| u8::from(sample % 5 == class));
        let rows = (0..10).map(|sample| {
            let pixels = dataset::picture(sample, Size::new(SIDE, SIDE));
            let image = ImageInput::Rgb { pixels, width: SIDE, height: SIDE };
            let bytes = classes(sample).to_vec();
            vec![FieldValue::Image(image), FieldValue::NdArray { dtype, bytes }]
        });
        let fields = [("image", FieldKind::RgbImage), ("labels", labels)].map(FieldSpec::from);
        write_iter(rows, &fields, &path, &WriteOptions::default()).unwrap();
        let mixup = || MixUp::new(1.0).unwrap().per_sample();
        let with =
            |list: Ops| builder(&path).pipeline("image", ops![mixup()]).pipeline("labels", list);
        let error = with(ops![mixup()]).build().unwrap_err().to_string();
        assert!(error.contains("floats (put Convert before it)"), "{error}");
        for batch in batches(with(ops![Convert::to(DType::F32), mixup()]), 0) {
            let mixed = batch.tensor::<f32>("labels").unwrap();
            for (row, drawn) in drawn(&mixup(), "MixUp", &batch).iter().enumerate() {
                let [own, partner] = [row, drawn.partner].map(|row| classes(batch.ids()[row].0));
                let expected = own.into_iter().zip(partner).map(|(own, partner)| {
                    mixed_label(f32::from(own), f32::from(partner), drawn.share)
                });
                assert!(mixed.row(row).unwrap().iter().copied().eq(expected), "row {row}");
            }
        }
    }
}

#[test]
fn the_plan_says_that_batches_are_mixed() {
    let (_dir, path) = file(3);
    let kind = (DType::U8, Layout::ChannelsLast);
    let text = loader(&path, kind, || ops![MixUp::new(1.0).unwrap()]).build().unwrap().explain();
    assert!(text.contains("on the finished batch, in place"), "{text}");
}
