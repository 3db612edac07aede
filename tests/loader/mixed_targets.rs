//! Ops on samples that follow ops that mix images: a list gives what two loaders give, of which the second reads the
//! batches of the first as its dataset.

use crate::targets::{FIELDS, Scenes, build_error, random_list, rng, targets};
use fuseloop::batch::Batch;
use fuseloop::loader::{BoundingBoxes, Cache, Collate, KeyPoints, Targets};
use fuseloop::ops::author::BatchOp as _;
use fuseloop::ops::internals::{BatchKey, mixed_label};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{Facts, InMemory, OwnedImage, OwnedValue};
use fuseloop::{Loader, LoaderBuilder, Order, SampleId, ops::*};
use fuseloop_counts::numbers;
use std::sync::Arc;

const COUNT: u64 = 22;
const EPOCH: u32 = 2;
const NAMES: [&str; 8] =
    ["image", "mask", "bbox", "label", "points", "segmentation", "bbox.length", "label.length"];

/// Returns the bytes of all outputs of batches, with their samples.
type Bytes = Vec<(Vec<SampleId>, Vec<Vec<u8>>)>;

fn all_bytes(batches: impl Iterator<Item = Batch>) -> Bytes {
    let bytes = |batch: Batch| {
        let of = NAMES.map(|name| batch.bytes(name).unwrap_or_default().to_vec());
        (batch.ids().to_vec(), of.into())
    };
    batches.map(bytes).collect()
}

fn epoch(loader: LoaderBuilder) -> Bytes {
    all_bytes(loader.build().unwrap().epoch(EPOCH).unwrap().map(Result::unwrap))
}

/// Returns the masks of objects as run-length encodings, which go down the columns.
fn encoded(masks: &[u8], Size { height, width }: Size) -> String {
    let (rows, columns) = (height as usize, width as usize);
    let each = masks.chunks(rows * columns).map(|mask| {
        let mut counts = vec![0];
        let pixels = (0..rows * columns).map(|at| mask[at % rows * columns + at / rows]);
        let mut last = 0;
        for pixel in pixels {
            if pixel != last {
                counts.push(0);
                last = pixel;
            }
            *counts.last_mut().unwrap() += 1;
        }
        format!(r#"{{"size":[{height},{width}],"counts":{counts:?}}}"#)
    });
    format!("[{}]", each.collect::<Vec<_>>().join(","))
}

/// Returns a dataset of the samples of batches of u8 images with the fields of [`Scenes`].
fn of_batches(batches: impl Iterator<Item = Batch>, size: Size) -> InMemory {
    let mut samples: Vec<Option<Vec<OwnedValue>>> = (0..COUNT).map(|_| None).collect();
    for batch in batches {
        let row = |name: &str, k: usize| {
            let bytes = batch.bytes(name).unwrap();
            bytes[k * (bytes.len() / batch.len())..][..bytes.len() / batch.len()].to_vec()
        };
        let floats = |name: &str, k: usize| {
            let values = batch.ragged::<f32>(name).unwrap().row(k).unwrap().to_vec();
            OwnedValue::Bytes(values.into_iter().flat_map(f32::to_le_bytes).collect())
        };
        for (k, id) in batch.ids().iter().enumerate() {
            let labels = batch.ragged::<i64>("label").unwrap().row(k).unwrap().to_vec();
            let masks = batch.ragged::<u8>("segmentation").unwrap().row(k).unwrap().to_vec();
            let grey = row("mask", k).into_iter().flat_map(|class| [class; 3]).collect();
            let sides = (size.height, size.width);
            samples[id.0 as usize] = Some(vec![
                OwnedValue::Image(OwnedImage::rgb(sides, row("image", k))),
                OwnedValue::Image(OwnedImage::rgb(sides, grey)),
                floats("bbox", k),
                OwnedValue::Bytes(labels.into_iter().flat_map(i64::to_le_bytes).collect()),
                floats("points", k),
                OwnedValue::Json(encoded(&masks, size).into_bytes()),
                OwnedValue::Int(id.0 as i64),
            ]);
        }
    }
    // The samples of another rank are not delivered.
    let any = samples.iter().flatten().next().unwrap().clone();
    let longest = |field| [0, 0, 64 * 16, 64 * 8, 64 * 12, 1 << 20, 0].get(field).copied();
    let facts = Facts::new(FIELDS, COUNT).with_longest(longest);
    InMemory::from_fn(facts, move |sample| {
        Ok(samples[sample.0 as usize].clone().unwrap_or_else(|| any.clone()))
    })
}

fn settings(loader: LoaderBuilder, list: Ops) -> LoaderBuilder {
    let loader = loader.batch_size(7).seed(3).order(Order::Random).drop_last(false);
    loader.targets("image", targets()).pipeline("image", list)
}

fn scenes(list: Ops) -> LoaderBuilder {
    settings(Scenes::new(COUNT).loader(), list)
}

fn joined(lists: impl IntoIterator<Item = Ops>) -> Ops {
    lists.into_iter().flatten().collect()
}

/// Asserts that a list of two passes gives what two loaders give.
fn assert_composed(size: Size, mixers: &dyn Fn() -> Ops, after: &dyn Fn() -> Ops, name: &str) {
    let first = || joined([ops![CenterCrop::new((size.height, size.width)).unwrap()], mixers()]);
    let mixed = scenes(first()).build().unwrap();
    let mixed = of_batches(mixed.epoch(EPOCH).unwrap().map(Result::unwrap), size);
    let second = settings(Loader::from_source(mixed), after());
    let composed = epoch(second.clone());
    let whole = |workers| epoch(scenes(joined([first(), after()])).workers(workers));
    let one = whole(1);
    for ((ids, found), (wanted_ids, wanted)) in one.iter().zip(&composed) {
        assert_eq!(ids, wanted_ids);
        for ((found, wanted), output) in found.iter().zip(wanted).zip(NAMES) {
            assert!(
                found == wanted,
                "{output} of {name}, {:?} of {size} and then {:?}",
                mixers(),
                after()
            );
        }
    }
    assert_eq!(one.len(), composed.len());
    assert!(one == whole(2) && one == whole(7), "workers: {name}");
    // The second loader's rows are those that the definitions of its ops give.
    if after().iter().any(|op| op.name() == "MixUp" || op.name() == "SimpleCopyPaste") {
        return;
    }
    let second = second.build().unwrap();
    for (output, index) in [("image", 0), ("mask", 1)] {
        let mut inspector = second.inspect(output, EPOCH).unwrap().unwrap();
        for (ids, bytes) in &one {
            let rows = bytes[index].chunks(bytes[index].len() / ids.len());
            for (id, row) in ids.iter().zip(rows) {
                let sample = inspector.sample(id.0).unwrap();
                assert!(inspector.agrees(&sample).unwrap(), "evaluated: {output} {id} of {name}");
                assert!(sample.row == row, "evaluated: {output} {id} of {name}");
            }
        }
    }
}

fn sizes(index: u64) -> Size {
    let (height, width) = [(45, 60), (70, 64), (24, 31)][index as usize % 3];
    Size::new(height, width)
}

#[test]
fn random_lists_after_ops_that_mix_are_composed_of_two_loaders() {
    for seed in numbers("FUSELOOP_TARGET_LISTS") {
        let mixers = || match seed % 4 {
            0 => ops![SimpleCopyPaste::new(), Mosaic::new()],
            1 => ops![Mosaic::new().p(0.6).unwrap(), SanitizeBoundingBoxes::new()],
            _ => ops![Mosaic::new()],
        };
        let after = || {
            let mut list = random_list(&mut rng(9000 + seed), true).unwrap();
            let at = rng(9100 + seed).below(list.len() as u32) as usize;
            list.insert(at, Arc::new(RandomPhotometricDistort::new()));
            if rng(9200 + seed).coin(0.3) {
                list.insert(0, Arc::new(RandomIoUCrop::new()));
            }
            list.push(Arc::new(SanitizeBoundingBoxes::new().min_size(3.0).unwrap()));
            if rng(9300 + seed).coin(0.5) {
                list.extend(ops![Normalize::imagenet(), ToChannelsFirst]);
            }
            list
        };
        assert_composed(sizes(seed), &mixers, &after, &format!("list {seed}"));
    }
}

#[test]
fn ops_that_mix_may_follow_a_later_pass() {
    let affine = || RandomAffine::new(20.0).unwrap().translate(0.1, 0.2).unwrap();
    for index in 0..3 {
        let after = || {
            let crop = RandomResizedCrop::new((40, 50)).unwrap();
            ops![affine(), crop, SimpleCopyPaste::new(), SanitizeBoundingBoxes::new()]
        };
        assert_composed(sizes(index), &|| ops![Mosaic::new()], &after, "another op that mixes");
    }
}

/// The recipe of YOLO's detectors, with another op that mixes and one more pass.
fn yolo() -> Ops {
    ops![
        CenterCrop::new((45, 60)).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        Mosaic::new().p(0.8).unwrap(),
        RandomPerspective::new().distortion_scale(0.2).unwrap(),
        RandomAffine::new(5.0).unwrap().translate(0.1, 0.1).unwrap().scale(0.5..=1.5).unwrap(),
        SanitizeBoundingBoxes::new(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        SimpleCopyPaste::new().p(0.4).unwrap(),
        RandomCrop::new((40, 44)).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        Normalize::imagenet(),
        ToChannelsFirst,
    ]
}

#[test]
fn a_run_of_later_passes_is_the_same_after_a_stop_from_a_cache_and_on_any_number_of_workers() {
    let one = epoch(scenes(yolo()).workers(1));
    assert!(one.iter().any(|(_, bytes)| !bytes[2].is_empty()));
    for workers in [2, 7] {
        assert!(epoch(scenes(yolo()).workers(workers)) == one);
    }
    assert!(epoch(scenes(yolo()).cache(Cache::memory(1 << 24))) == one);
    let loader = scenes(yolo()).workers(3).build().unwrap();
    for stop in 0..=one.len() {
        let mut run = loader.epoch(EPOCH).unwrap();
        run.by_ref().take(stop).for_each(|batch| drop(batch.unwrap()));
        let cursor = run.cursor().unwrap();
        drop(run);
        let other = scenes(yolo()).build().unwrap();
        let rest = other.resume(&cursor.to_string().parse().unwrap()).unwrap();
        assert!(all_bytes(rest.map(Result::unwrap)) == one[stop..], "stopped after {stop}");
    }
}

/// The mosaic of a rank is that of its share of a batch; the pass after it draws by the sample alone.
#[test]
fn ranks_draw_for_their_samples() {
    let list = |after: Ops| joined([ops![CenterCrop::new(40).unwrap(), Mosaic::new()], after]);
    let after = || {
        let crop = CenterCrop::new(30).unwrap();
        ops![RandomRotation::new(40.0).unwrap(), RandomHorizontalFlip::new(0.5).unwrap(), crop]
    };
    for rank in 0..2 {
        let on = |loader: LoaderBuilder| {
            loader.batch_size(4).ranks(Ranks::new(rank, 2, Uneven::Drop).unwrap())
        };
        let found = epoch(on(scenes(list(after()))));
        let mixed = on(scenes(list(ops![]))).build().unwrap();
        let ids = |bytes: &Bytes| bytes.iter().flat_map(|(ids, _)| ids.clone()).collect::<Vec<_>>();
        let mixed = of_batches(mixed.epoch(EPOCH).unwrap().map(Result::unwrap), Size::new(40, 40));
        let composed = epoch(on(settings(Loader::from_source(mixed), after())));
        assert_eq!(ids(&found), ids(&composed));
        assert!(found == composed, "rank {rank}");
    }
}

#[test]
fn images_without_targets_and_their_labels_are_mixed_at_the_size_of_each_pass() {
    let cutmix = || CutMix::new(1.0).unwrap();
    let label = || ops![OneHot::new(COUNT as u32).unwrap(), cutmix(), cutmix()];
    let build = |list: Ops| {
        let loader = Scenes::new(COUNT).loader().drop_last(false);
        let loader = loader.pipeline("image", list).pipeline("index", label());
        let unused = ["mask", "bbox", "label", "points", "segmentation"];
        unused.into_iter().fold(loader, |loader, name| loader.without(name)).build().unwrap()
    };
    let crop = || CenterCrop::new((45, 60)).unwrap();
    let resize = || Resize::new((20, 90)).unwrap();
    let loader = build(ops![crop(), cutmix(), resize(), cutmix(), Normalize::imagenet()]);
    for batch in loader.epoch(EPOCH).unwrap() {
        let batch = batch.unwrap();
        assert_eq!(batch.shape("image").unwrap(), [batch.len(), 20, 90, 3]);
        let mut rows: Vec<Vec<f32>> = batch
            .ids()
            .iter()
            .map(|id| (0..COUNT).map(|class| if class == id.0 { 1.0 } else { 0.0 }).collect())
            .collect();
        for (occurrence, size) in [(0, Size::new(45, 60)), (1, Size::new(20, 90))] {
            let mut key = BatchKey::new(3, EPOCH, batch.index()).op("CutMix", occurrence);
            let drawn = cutmix().draw(&mut key, batch.len(), size);
            let before = rows.clone();
            for (row, mix) in rows.iter_mut().zip(&drawn) {
                let partner = &before[mix.partner];
                if mix.share != 1.0 {
                    row.iter_mut().zip(partner).for_each(|(own, other)| {
                        *own = mixed_label(*own, *other, mix.share);
                    });
                }
            }
        }
        assert_eq!(batch.tensor::<f32>("index").unwrap().as_slice(), rows.concat());
    }
}

/// Boxes of every format, padded rows, and masks that need more room before the pass than after it.
#[test]
fn rows_of_every_form_follow_a_later_pass() {
    let list = || {
        let rotation = RandomRotation::new(20.0).unwrap();
        ops![
            CenterCrop::new((45, 60)).unwrap(),
            Mosaic::new(),
            rotation,
            CenterCrop::new((20, 30)).unwrap()
        ]
    };
    let plain = scenes(list()).build().unwrap();
    let plain: Vec<Batch> = plain.epoch(0).unwrap().map(Result::unwrap).collect();
    let boxes = BoundingBoxes::new(BoxFormat::Xyxy).to(BoxFormat::Cxcywh).normalized();
    let targets = Targets::new()
        .keypoints("points", KeyPoints::new(1))
        .column("label", DType::I64)
        .boxes("bbox", boxes)
        .instance_masks("segmentation");
    let loader = Scenes::new(COUNT).loader().drop_last(false).without("mask");
    let loader = loader.targets("image", targets).pipeline("image", list());
    let names = ["bbox", "label", "points", "segmentation"];
    let padded =
        |loader: LoaderBuilder, name: &str| loader.collate(name, Collate::pad().to(17).fill(7.0));
    let listed = |loader: LoaderBuilder, name: &str| loader.collate(name, Collate::list().to(17));
    let batches = |loader: LoaderBuilder| -> Vec<Batch> {
        loader.build().unwrap().epoch(0).unwrap().map(Result::unwrap).collect()
    };
    let padded = batches(names.into_iter().fold(loader.clone(), padded));
    let listed = batches(names.into_iter().fold(loader, listed));
    let mut count = 0;
    for ((plain, padded), listed) in plain.iter().zip(&padded).zip(&listed) {
        assert!(plain.bytes("image").unwrap() == padded.bytes("image").unwrap());
        let lengths = padded.tensor::<i64>("bbox.length").unwrap();
        let (boxes, all) =
            (plain.ragged::<f32>("bbox").unwrap(), padded.tensor::<f32>("bbox").unwrap());
        let (masks, all_masks) = (
            plain.ragged::<u8>("segmentation").unwrap(),
            padded.tensor::<u8>("segmentation").unwrap(),
        );
        let mut of_list = listed.list::<u8>("segmentation").unwrap();
        assert_eq!(all_masks.shape(), [plain.len(), 17, 20, 30]);
        for row in 0..plain.len() {
            let (own, objects) = (boxes.row(row).unwrap(), lengths.as_slice()[row] as usize);
            assert_eq!(own.len(), 4 * objects);
            let found = all.row(row).unwrap();
            assert!(found[4 * objects..].iter().all(|value| *value == 7.0));
            for (edges, found) in own.chunks(4).zip(found.chunks(4)) {
                let &[x1, y1, x2, y2] = edges else { panic!("four edges") };
                let wanted =
                    [(x1 + x2) / 60.0, (y1 + y2) / 40.0, (x2 - x1) / 30.0, (y2 - y1) / 20.0];
                assert!(
                    wanted.iter().zip(found).all(|(a, b)| (a - b).abs() < 1e-5),
                    "{wanted:?} {found:?}"
                );
            }
            let own = masks.row(row).unwrap();
            let found = all_masks.row(row).unwrap();
            assert!(found.starts_with(own) && found[own.len()..].iter().all(|value| *value == 7));
            assert!(of_list.next().unwrap() == own);
            count += objects;
        }
    }
    assert!(count > 40, "{count}");
}

/// A point that the warp moves out of the image is not visible, and keeps its coordinates.
#[test]
fn keypoints_that_leave_the_image_lose_their_visibility() {
    let points = |points: KeyPoints| {
        let targets = Targets::new().keypoints("points", points).boxes("bbox", BoxFormat::Xyxy);
        let list = ops![
            CenterCrop::new((45, 60)).unwrap(),
            Mosaic::new(),
            RandomRotation::new(90.0).unwrap()
        ];
        let loader = Scenes::new(COUNT).loader().without("mask").targets("image", targets);
        let batches = loader.pipeline("image", list).build().unwrap();
        let batches = batches.epoch(0).unwrap().map(Result::unwrap);
        batches
            .flat_map(|batch| batch.ragged::<f32>("points").unwrap().values().to_vec())
            .collect::<Vec<f32>>()
    };
    let (lost, kept) = (points(KeyPoints::new(1)), points(KeyPoints::new(1).keep_visibility()));
    let mut outside = 0;
    for (lost, kept) in lost.chunks(3).zip(kept.chunks(3)) {
        assert_eq!(lost[..2], kept[..2]);
        let is_outside = !(-0.5..59.5).contains(&kept[0]) || !(-0.5..44.5).contains(&kept[1]);
        assert!(!is_outside || kept[2] == 0.0 || lost[2] == 0.0, "{lost:?} {kept:?}");
        outside += usize::from(lost[2] != kept[2]);
    }
    assert!(outside > 3, "{outside}");
}

/// A function on batches gets the rows without gaps, whatever they need while the batch is filled.
#[test]
fn a_function_on_batches_may_follow_a_later_pass() {
    let list = |last: Ops| {
        let crop = CenterCrop::new((45, 60)).unwrap();
        joined([ops![crop, Mosaic::new(), CenterCrop::new((10, 11)).unwrap()], last])
    };
    let negative = Lambda::batch("Negative", |cx, rows| {
        assert_eq!(rows.len(), cx.samples.len() * 330);
        rows.iter_mut().for_each(|value| *value = 255 - *value);
        Ok(())
    });
    let (plain, changed) = (epoch(scenes(list(ops![]))), epoch(scenes(list(ops![negative]))));
    for ((_, plain), (_, changed)) in plain.iter().zip(&changed) {
        assert!(plain[0].iter().map(|value| 255 - value).eq(changed[0].iter().copied()));
        assert!(plain[1..] == changed[1..]);
    }
}

#[test]
fn the_plan_says_why_there_is_another_pass() {
    let text = scenes(yolo()).build().unwrap().explain();
    for words in [
        "pass 2 over the memory of the batch: Mosaic mixes finished samples, so the ops after it read them once more",
        "pass 3 over the memory of the batch: SimpleCopyPaste mixes finished samples",
        "RandomPerspective",
        "ToChannelsFirst",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn a_sheet_shows_the_last_pass() {
    let loader = scenes(yolo()).build().unwrap();
    for each_op in [false, true] {
        let options = PreviewOptions { samples: 4, each_op, ..PreviewOptions::default() };
        let sheet = loader.preview(&options).unwrap();
        assert!(sheet.width() > 400);
    }
}

#[test]
fn what_can_not_follow_is_refused() {
    let crop = || CenterCrop::new((45, 60)).unwrap();
    let flip = || RandomHorizontalFlip::new(0.5).unwrap();
    let copies = Pad::new(2).unwrap().padding_mode(PaddingMode::Reflect);
    for (list, wanted) in [
        (
            ops![crop(), Mosaic::new(), ToDevice::to(Device::Auto)],
            "put it before the ops that mix samples",
        ),
        (ops![crop(), Mosaic::new(), copies], "op 2 of the list: Pad repeats parts"),
        (ops![crop(), Mosaic::new(), AugMix::new()], "AugMix mixes copies"),
        (
            ops![crop(), Mosaic::new(), flip(), CutMix::new(1.0).unwrap()],
            "cuts other images into an image",
        ),
        (ops![crop(), ToChannelsFirst, Mosaic::new(), flip()], "channels last"),
        (ops![Mosaic::new(), crop()], "to the list before Mosaic, which mixes them"),
        (
            ops![
                crop(),
                Mosaic::new(),
                Resize::new(30).unwrap(),
                RandomApply::new(ops![Mosaic::new()])
            ],
            "a finished batch",
        ),
    ] {
        let error = build_error(scenes(list));
        assert!(error.contains(wanted), "{error}");
    }
    let boxes = Targets::new().boxes("bbox", BoxFormat::Xyxy).column("label", DType::I64);
    let loader = Scenes::new(3).loader().without("mask").without("bbox").targets("image", boxes);
    let list = ops![crop(), MixUp::new(1.0).unwrap(), flip()];
    let error = build_error(loader.pipeline("image", list));
    assert!(error.contains("don't leave this field out"), "{error}");
}
