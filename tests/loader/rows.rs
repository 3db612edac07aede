//! The loader's promises: every row is what the ops define, for any number of threads; each epoch may
//! have a new plan; errors say what to do.

use crate::common::dataset::{self, varied};
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::internals::jit;
use fuseloop::internals::order::SampleCount;
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop::internals::workload::jitter;
use fuseloop::loader::Pipeline;
use fuseloop::ops::author::{Dim, ImageType, Rng};
use fuseloop::ops::internals::{SampleKey, stream};
use fuseloop::order::Subset;
use fuseloop::source::{Beton, Buffer, OpenOptions, OwnedValue, Source, Value};
use fuseloop::write::WriteMode;
use fuseloop::{Batch, Batches, Epoch, Loader, LoaderBuilder, Order, SampleId, ops::*};
use std::path::Path;
use std::time::{Duration, Instant};

const SEED: u64 = 42;

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path)
        .unwrap()
        .batch_size(7)
        .seed(SEED)
        .order(Order::Random)
        .drop_last(false)
        .pipeline("image", jitter(48).unwrap())
}

/// The output that the ops define for one sample, computed from its whole image.
fn meant(source: &dyn Source, sample: SampleId, epoch: u32) -> Vec<u8> {
    let mut buffer = Buffer::default();
    let Value::Image(image) = source.value(sample, 0, &mut buffer).unwrap() else {
        panic!("an image field")
    };
    let mut decoder = Decoder::new(DecodeOptions::default());
    let size = decoder.size(&image).unwrap();
    let view = decoder.decode(&image, size.full()).unwrap().view;
    let input = ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width));
    let plan = ImagePlan::new(jitter(48).unwrap(), input, NumberRule::Fused).unwrap();
    let mut draws = Draws::default();
    plan.draw(SampleKey::new(SEED, epoch, sample.0).field(0), size, &mut draws);
    jit::evaluate(&plan, &view, &draws)
}

#[test]
fn any_samples_are_a_batch_with_the_rows_of_the_epoch() {
    let (_dir, path) = dataset::write(20, WriteMode::Jpg, varied);
    let loader = builder(&path).build().unwrap();
    let mut running = loader.epoch(2).unwrap();
    let first = running.next().unwrap().unwrap();
    let batch = loader.get(&[11, 0, 11], 2).unwrap();
    assert_eq!(batch.ids(), [11, 0, 11].map(SampleId));
    let row = batch.bytes("image").unwrap().len() / 3;
    for (bytes, &sample) in batch.bytes("image").unwrap().chunks(row).zip(batch.ids()) {
        assert!(bytes == meant(loader.source(), sample, 2), "{sample}");
    }
    // The epoch goes on, and so does its position.
    assert_eq!(running.map(|batch| batch.unwrap().len()).sum::<usize>() + first.len(), 20);
    assert_eq!(loader.cursor().unwrap().position, 20);

    let text = |samples: &[u64]| loader.get(samples, 0).unwrap_err().to_string();
    assert!(text(&[3, 20]).contains("20"), "{}", text(&[3, 20]));
    assert!(!text(&[]).is_empty());
}

#[test]
fn every_row_is_what_the_ops_mean_in_the_order_of_the_epoch() {
    for mode in [WriteMode::Jpg, WriteMode::Raw] {
        let (_dir, path) = dataset::write(20, mode, varied);
        let loader = builder(&path).workers(2).build().unwrap();
        let mut seen = vec![];
        for batch in loader.epoch(3).unwrap() {
            let batch = batch.unwrap();
            let images = batch.tensor::<f32>("image").unwrap();
            assert_eq!(images.shape()[1..], [3, 48, 48]);
            let labels = batch.tensor::<i64>("label").unwrap();
            for (row, &sample) in batch.ids().iter().enumerate() {
                let want = meant(loader.source(), sample, 3);
                let bytes = batch.bytes("image").unwrap();
                assert!(bytes[row * want.len()..][..want.len()] == want, "{mode:?} {sample}");
                assert_eq!(labels.as_slice()[row], sample.0 as i64 % 10);
            }
            seen.extend_from_slice(batch.ids());
        }
        let order = Order::Random.prepare(&SampleCount(20), Subset::All(20)).unwrap();
        let visits = order.epoch(SEED, Epoch(3), None).unwrap().visits_vec();
        assert_eq!(seen, visits.iter().map(|visit| visit.sample).collect::<Vec<_>>());
    }
}

/// All bytes of an epoch's images, in sample order.
fn epoch_bytes(loader: &Loader, epoch: u32) -> Vec<(SampleId, Vec<u8>)> {
    let mut rows = vec![];
    for batch in loader.epoch(epoch).unwrap() {
        let batch = batch.unwrap();
        let bytes = batch.bytes("image").unwrap();
        let row = bytes.len() / batch.len();
        rows.extend(batch.ids().iter().copied().zip(bytes.chunks(row).map(<[u8]>::to_vec)));
    }
    rows
}

#[test]
fn the_bits_do_not_depend_on_workers_or_batches() {
    let (_dir, path) = dataset::write(33, WriteMode::Jpg, varied);
    let plain = epoch_bytes(&builder(&path).workers(1).build().unwrap(), 1);
    for (workers, batch_size, ahead) in [(2, 7, 1), (8, 1, 3), (3, 33, 2)] {
        let loader = builder(&path).workers(workers).batch_size(batch_size).batches_ahead(ahead);
        assert!(epoch_bytes(&loader.build().unwrap(), 1) == plain, "{workers} {batch_size}");
    }
    let other_epoch = epoch_bytes(&builder(&path).workers(1).build().unwrap(), 2);
    assert!(other_epoch != plain, "epochs differ");
    let subset = builder(&path).indices([5, 9, 30]).order(Order::Sequential).build().unwrap();
    for (sample, row) in epoch_bytes(&subset, 1) {
        assert!(plain.contains(&(sample, row)), "a subset's samples are the same: {sample}");
    }
}

#[test]
fn a_list_by_epoch_gives_each_epoch_its_own() {
    let (_dir, path) = dataset::write(10, WriteMode::Jpg, varied);
    let loader = builder(&path)
        .pipeline_by_epoch("image", |epoch| jitter(32 + 8 * epoch.index()))
        .build()
        .unwrap();
    for epoch in [0, 1, 2, 0] {
        let side = 32 + 8 * epoch as usize;
        for batch in loader.epoch(epoch).unwrap() {
            let batch = batch.unwrap();
            let images = batch.tensor::<f32>("image").unwrap();
            assert_eq!(images.shape()[1..], [3, side, side]);
        }
    }
    let fixed = builder(&path).build().unwrap();
    let same_size = builder(&path).recompile(true).build().unwrap();
    assert!(epoch_bytes(&fixed, 4) == epoch_bytes(&same_size, 4), "recompiling changes nothing");
}

#[test]
fn a_list_by_epoch_that_may_not_be_compiled_again_is_refused() {
    let (_dir, path) = dataset::write(3, WriteMode::Jpg, varied);
    let by_epoch = || Pipeline::by_epoch(|epoch: Epoch| jitter(32 + epoch.index()));
    let cure = "remove that setting, or give one fixed list";
    for builder in [
        builder(&path).pipeline("image", by_epoch()),
        builder(&path).view("other", "image", by_epoch()),
        builder(&path).branch("other", "image", 1, by_epoch()),
    ] {
        let error = builder.recompile(false).build().err().unwrap().to_string();
        assert!(error.contains("is by epoch") && error.ends_with(cure), "{error}");
    }
    let loader = builder(&path).recompile(false).build().unwrap();
    let error = loader.set_pipeline("image", by_epoch()).unwrap_err().to_string();
    assert!(error.ends_with(cure), "{error}");
    // Without the setting, a list by epoch may replace a fixed one.
    let loader = builder(&path).build().unwrap();
    loader.set_pipeline("image", by_epoch()).unwrap();
    let shape = loader.epoch(3).unwrap().next().unwrap().unwrap();
    assert_eq!(shape.tensor::<f32>("image").unwrap().shape()[1..], [3, 35, 35]);
}

#[test]
fn an_error_of_a_list_by_epoch_may_have_any_type() {
    #[derive(Debug, thiserror::Error)]
    #[error("no settings for epoch {0}")]
    struct NoSettings(u32);

    let (_dir, path) = dataset::write(3, WriteMode::Jpg, varied);
    let ops = |epoch: Epoch| match epoch.index() {
        0 => Ok(jitter(32).unwrap()),
        epoch => Err(NoSettings(epoch)),
    };
    let loader = builder(&path).pipeline("image", Pipeline::by_epoch(ops)).build().unwrap();
    assert_eq!(loader.epoch(0).unwrap().count(), 1);
    let error = loader.epoch(2).err().unwrap();
    let first: Option<&dyn std::error::Error> = Some(&error);
    let chain = std::iter::successors(first, |error| error.source()).map(ToString::to_string);
    let chain = chain.collect::<Vec<_>>().join(": ");
    assert!(chain.contains("image") && chain.contains("no settings for epoch 2"), "{chain}");
    assert!(error.get_ref().unwrap().is::<NoSettings>());
    assert_eq!(loader.epoch(0).unwrap().count(), 1, "the error changes nothing");
}

#[test]
fn other_fields_and_labels_come_along() {
    let (_dir, path) = dataset::write(6, WriteMode::Raw, |_| Size::new(32, 32));
    let loader = builder(&path)
        .batch_size(6)
        .order(Order::Sequential)
        .pipeline("image", ops![])
        .pipeline("label", ops![ReplaceLabel::new([2], 9), OneHot::new(10).unwrap()])
        .build()
        .unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let images = batch.tensor::<u8>("image").unwrap();
    assert_eq!(images.shape(), [6, 32, 32, 3], "a field without ops is given as it is");
    assert_eq!(images.row(4).unwrap(), dataset::picture(4, Size::new(32, 32)));
    let labels = batch.tensor::<f32>("label").unwrap();
    let classes: Vec<usize> = (0..6)
        .map(|row| labels.row(row).unwrap().iter().position(|&v| v == 1.0).unwrap())
        .collect();
    assert_eq!(classes, [0, 1, 9, 3, 4, 5]);
    let without = builder(&path).without("label").build().unwrap();
    assert_eq!(without.tensors().len(), 1);
}

/// A closure's draws depend on seed, epoch, sample, field and name alone.
#[test]
fn closures_on_labels_and_images_draw_the_same_for_any_number_of_threads_and_after_a_resume() {
    const EPOCH: u32 = 2;
    let (_dir, path) = dataset::write(23, WriteMode::Raw, |_| Size::new(8, 8));
    let drawn = |rng: &mut Rng| i64::from(rng.below(1_000_000));
    let open = |workers| {
        let noise = move || {
            Lambda::label("Noise", move |cx, label| {
                assert_eq!((cx.sample as i64 % 10, cx.epoch), (label, EPOCH));
                drawn(cx.rng)
            })
        };
        let paint = |host: HostSample<'_>, pixels: &mut [u8]| pixels.fill(10 * host.epoch as u8);
        builder(&path)
            .workers(workers)
            .pipeline("image", ops![Lambda::new("Paint", paint)])
            .pipeline("label", ops![noise()])
            .build()
            .unwrap()
    };
    let labels = |batches: Batches| -> Vec<(SampleId, i64)> {
        let of = |batch: &Batch| {
            assert!(batch.bytes("image").unwrap().iter().all(|&v| v == 10 * EPOCH as u8));
            let labels = batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
            batch.ids().iter().copied().zip(labels).collect::<Vec<_>>()
        };
        batches.flat_map(|batch| of(&batch.unwrap())).collect()
    };
    let one = labels(open(1).epoch(EPOCH).unwrap());
    for &(sample, label) in &one {
        let key = SampleKey::new(SEED, EPOCH, sample.0).field(1);
        assert_eq!(label, drawn(&mut key.op(stream("Noise", 0))), "{sample}");
    }
    let loader = open(4);
    assert_eq!(labels(loader.epoch(EPOCH).unwrap()), one);
    let mut run = loader.epoch(EPOCH).unwrap();
    run.next().unwrap().unwrap();
    let cursor = run.cursor().unwrap();
    assert_eq!(labels(open(3).resume(&cursor).unwrap()), one[7..]);
}

#[test]
fn a_damaged_picture_is_named_and_the_batches_before_it_come() {
    let (_dir, path) = dataset::write(21, WriteMode::Jpg, varied);
    let source = Beton::open(&path, &OpenOptions::default()).unwrap();
    let OwnedValue::Image(image) = source.owned(SampleId(16), 0).unwrap() else {
        panic!("an image")
    };
    let cut = image.bytes[image.bytes.len() / 2..].to_vec();
    drop(source);
    dataset::damage(&path, |bytes| {
        let at = bytes.windows(cut.len()).position(|window| window == cut).unwrap();
        bytes[at..at + cut.len()].fill(0xFF);
    });
    let loader = builder(&path).order(Order::Sequential).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    assert!(batches.next().unwrap().is_ok());
    assert!(batches.next().unwrap().is_ok());
    let error = batches.next().unwrap().expect_err("sample 16 is in batch 2").to_string();
    let parts = ["batch 2", "sample 16", "pictures.beton (image) at byte "];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    assert!(batches.next().is_none());
}

#[test]
fn what_does_not_fit_is_refused_when_built() {
    let (_dir, path) = dataset::write(3, WriteMode::Jpg, varied);
    let refused = |builder: LoaderBuilder| builder.build().expect_err("refused").to_string();
    let open = || Loader::open(&path).unwrap();
    let error = refused(open());
    assert!(error.contains("can't share a batch: add RandomResizedCrop"), "{error}");
    let error = refused(open().pipeline("imgae", jitter(32).unwrap()));
    assert_eq!(error, "no field named imgae; available: image, label");
    let error = refused(open().pipeline_by_epoch("image", |_| jitter(0)));
    assert!(error.contains("RandomResizedCrop: height is 0, expected 1..=65535"), "{error}");
    let error = refused(builder(&path).indices([1, 3]));
    assert_eq!(error, "index 3: the dataset has 3 samples");
    assert!(refused(builder(&path).batch_size(0)).contains("batch size of 0"));
    assert!(refused(builder(&path).workers(0)).contains("0 workers"));
    let error = refused(builder(&path).pipeline("label", ops![Normalize::imagenet()]));
    assert!(error.contains("output label: op 0 of the list: Normalize takes an image"), "{error}");
}

#[test]
fn dropping_early_joins_quickly() {
    let (_dir, path) = dataset::write(40, WriteMode::Jpg, varied);
    for taken in 0..4 {
        let loader = builder(&path).workers(4).build().unwrap();
        let mut batches = loader.epoch(0).unwrap();
        for _ in 0..taken {
            batches.next().unwrap().unwrap();
        }
        let start = Instant::now();
        drop(batches);
        drop(loader);
        assert!(start.elapsed() < Duration::from_secs(5), "nothing hangs");
    }
}

#[test]
fn batches_outlive_their_loader() {
    let (_dir, path) = dataset::write(40, WriteMode::Jpg, varied);
    let images = |batches: Batches| -> Vec<Vec<u8>> {
        batches.map(|batch| batch.unwrap().bytes("image").unwrap().to_vec()).collect()
    };
    let loader = || builder(&path).workers(2).build().unwrap();
    let kept = loader();
    let batches = loader().epoch(0).unwrap();
    assert_eq!(images(batches), images(kept.epoch(0).unwrap()));
}

#[test]
fn the_plan_can_be_read() {
    let (_dir, path) = dataset::write(3, WriteMode::Jpg, varied);
    let text = builder(&path).build().unwrap().explain();
    for part in
        ["field image:", "rows resized", "RandomHorizontalFlip", "loop(s) in", "field label:"]
    {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
