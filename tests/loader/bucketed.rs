//! Aspect ratio buckets: each batch has images of one size, for any number of workers and ranks, and after a resume.

use crate::common::dataset::{self, picture};
use crate::common::jpegs::oriented;
use fuseloop::loader::Collate;
use fuseloop::order::{Ranks, Uneven};
use fuseloop::source::{
    BoxError, Dataset, Facts, FieldKind, InMemory, OwnedImage, OwnedValue, Record,
};
use fuseloop::write::{WriteMode, WriteOptions};
use fuseloop::{
    Batch, Batches, Cursor, Epoch, Loader, LoaderBuilder, OnDamaged, Order, SampleId, ops::*,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const SIZES: [(u32, u32); 3] = [(16, 16), (12, 20), (20, 12)];

/// The size of a stored image: a square, a landscape, a portrait, or between two of them.
fn stored(sample: u64) -> Size {
    const STORED: [(u32, u32); 8] =
        [(30, 30), (20, 40), (44, 21), (33, 39), (61, 50), (24, 30), (30, 24), (40, 66)];
    STORED[(sample * 5 % 8) as usize].into()
}

/// The bucket of an image, by the logarithms of the ratios.
fn bucket(size: Size) -> (u32, u32) {
    let ratio = |height: u32, width: u32| (f64::from(width) / f64::from(height)).ln();
    let away = |(height, width)| (ratio(height, width) - ratio(size.height, size.width)).abs();
    SIZES.into_iter().min_by(|a, b| away(*a).total_cmp(&away(*b))).unwrap()
}

fn pictures(count: u64) -> (tempfile::TempDir, PathBuf) {
    dataset::write(count, WriteMode::Raw, stored)
}

fn list() -> Ops {
    let resize = ResizeToBucket::new(SIZES).unwrap().random_crop(true);
    ops![resize, RandomHorizontalFlip::new(0.5).unwrap(), ToChannelsFirst]
}

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path)
        .unwrap()
        .seed(7)
        .batch_size(4)
        .workers(2)
        .order(Order::Bucketed)
        .pipeline("image", list())
}

/// The shape of the images of a batch, and for each row the sample, whether it counts, and the bytes of its image.
type Rows = ([usize; 3], Vec<(SampleId, bool, Vec<u8>)>);

fn rows(batch: &Batch) -> Rows {
    let images = batch.tensor::<u8>("image").unwrap();
    let [_, channels, height, width] = *images.shape() else { panic!("{:?}", images.shape()) };
    let mask: Vec<bool> = batch.mask().collect();
    let row = |index: usize| (batch.ids()[index], mask[index], images.row(index).unwrap().to_vec());
    ([channels, height, width], (0..batch.len()).map(row).collect())
}

fn all(batches: Batches) -> Vec<Rows> {
    batches.map(|batch| rows(&batch.unwrap())).collect()
}

fn ids(batches: &[Rows]) -> Vec<u64> {
    batches.iter().flat_map(|(_, rows)| rows).map(|(id, ..)| id.0).collect()
}

/// The number of samples of each bucket.
fn counts(samples: u64) -> BTreeMap<(u32, u32), usize> {
    let mut counts = BTreeMap::new();
    (0..samples).for_each(|sample| *counts.entry(bucket(stored(sample))).or_default() += 1);
    counts
}

fn shape((height, width): (u32, u32)) -> [usize; 3] {
    [3, height as usize, width as usize]
}

#[test]
fn each_batch_has_images_of_one_bucket_and_each_sample_comes_once() {
    let (_dir, path) = pictures(61);
    let loader = builder(&path).build().unwrap();
    let counts = counts(61);
    assert_eq!(counts.len(), 3);
    let batches: usize = counts.values().map(|count| count.div_ceil(4)).sum();
    assert_eq!((loader.samples(), loader.len()), (61, batches as u64));
    let mut orders = BTreeSet::new();
    for epoch in 0..3 {
        let batches = all(loader.epoch(epoch).unwrap());
        assert_eq!(batches.len() as u64, loader.len());
        for (found, rows) in &batches {
            assert!(rows.iter().all(|(id, ..)| shape(bucket(stored(id.0))) == *found));
        }
        let short = batches.iter().filter(|(_, rows)| rows.len() < 4).count();
        assert_eq!(short, counts.values().filter(|count| *count % 4 > 0).count());
        let mut once = ids(&batches);
        orders.insert(once.clone());
        once.sort_unstable();
        assert_eq!(once, (0..61).collect::<Vec<_>>());
    }
    assert_eq!(orders.len(), 3, "each epoch has another order");
}

/// The images are those of a loader without buckets: only the batches differ.
#[test]
fn the_pixels_are_those_of_the_samples() {
    let (_dir, path) = pictures(40);
    let listed = builder(&path).order(Order::Sequential).collate("image", Collate::list());
    let mut images = vec![];
    for batch in listed.build().unwrap().epoch(1).unwrap() {
        images.extend(batch.unwrap().list::<u8>("image").unwrap().map(<[u8]>::to_vec));
    }
    for (_, rows) in all(builder(&path).build().unwrap().epoch(1).unwrap()) {
        for (id, _, bytes) in rows {
            assert!(images[id.0 as usize] == bytes, "{id}");
        }
    }
}

/// A batch of samples by their numbers has any of them, padded.
#[test]
fn samples_by_their_numbers_may_be_of_several_buckets() {
    let (_dir, path) = pictures(8);
    let loader = builder(&path).build().unwrap();
    let batch = loader.get(&[0, 1, 2, 3, 4, 5, 6, 7], 0).unwrap();
    assert_eq!(batch.tensor::<u8>("image").unwrap().shape(), [8, 3, 20, 20]);
    let sizes = batch.tensor::<i64>("image.size").unwrap();
    for id in 0..8 {
        let (height, width) = bucket(stored(id));
        assert_eq!(sizes.row(id as usize).unwrap(), [i64::from(height), i64::from(width)]);
    }
}

#[test]
fn drop_last_leaves_out_the_rest_of_each_bucket() {
    let (_dir, path) = pictures(61);
    let loader = builder(&path).drop_last(true).build().unwrap();
    let whole: usize = counts(61).values().map(|count| count / 4).sum();
    assert_eq!((loader.samples(), loader.len()), (4 * whole as u64, whole as u64));
    let mut seen = BTreeSet::new();
    for epoch in 0..20 {
        let batches = all(loader.epoch(epoch).unwrap());
        assert!(batches.len() == whole && batches.iter().all(|(_, rows)| rows.len() == 4));
        let once = ids(&batches);
        assert_eq!(once.iter().collect::<BTreeSet<_>>().len(), once.len());
        seen.extend(once);
    }
    assert_eq!(seen.len(), 61, "another epoch leaves out others");
}

#[test]
fn any_number_of_workers_makes_the_same_batches() {
    let (_dir, path) = pictures(61);
    let of = |workers| {
        let loader = builder(&path).workers(workers).build().unwrap();
        (0..2).map(|epoch| all(loader.epoch(epoch).unwrap())).collect::<Vec<_>>()
    };
    let one = of(1);
    assert!(one == of(2) && one == of(7));
    let seed = builder(&path).seed(8).build().unwrap();
    assert!(ids(&one[0]) != ids(&all(seed.epoch(0).unwrap())));
}

#[test]
fn a_run_resumes_after_every_batch_with_other_workers() {
    let (_dir, path) = pictures(39);
    for drop_last in [false, true] {
        let make = || builder(&path).drop_last(drop_last);
        let first = make().workers(7).build().unwrap();
        let others = [1, 3].map(|workers| make().workers(workers).build().unwrap());
        for epoch in 0..2 {
            let whole = all(first.epoch(epoch).unwrap());
            let mut batches = first.epoch(epoch).unwrap();
            for taken in 0..=whole.len() {
                let cursor: Cursor = batches.cursor().unwrap().to_string().parse().unwrap();
                for other in &others {
                    let rest = all(other.resume(&cursor).unwrap());
                    assert!(rest == whole[taken..], "epoch {epoch}, {taken} batches taken");
                }
                assert_eq!(batches.next().is_some(), taken < whole.len());
            }
        }
    }
}

#[test]
fn a_cursor_of_other_batches_or_buckets_is_refused() {
    let (_dir, path) = pictures(40);
    let loader = builder(&path).build().unwrap();
    let mut batches = loader.epoch(0).unwrap();
    batches.next().unwrap().unwrap();
    let cursor = batches.cursor().unwrap();
    let refused = |builder: LoaderBuilder| {
        builder.build().unwrap().resume(&cursor).err().unwrap().to_string()
    };
    for text in [
        refused(builder(&path).batch_size(2)),
        refused(builder(&path).drop_last(true)),
        refused(builder(&path).pipeline("image", ops![ResizeToBucket::new([16]).unwrap()])),
        refused(builder(&path).order(Order::Random).collate("image", Collate::pad())),
    ] {
        assert!(text.starts_with("the cursor belongs to another order: "), "{text}");
    }
    let text = refused(builder(&path).batch_size(2).drop_last(true));
    assert!(
        text.contains(
            "one with other samples or image sizes, another batch size x ranks or another `drop_last`, expected bucketed \
             of all 40 samples, 2 samples a step, without the rest of each bucket"
        ),
        "{text}"
    );
}

fn on(builder: LoaderBuilder, (rank, world): (u32, u32), uneven: Uneven) -> Loader {
    let ranks = Ranks::new(rank, world, uneven).unwrap();
    builder.batch_size(12 / world as usize).ranks(ranks).build().unwrap()
}

/// The steps of an epoch: for each, the shapes on all ranks and the rows of all ranks, sorted.
fn steps(path: &Path, world: u32, uneven: Uneven) -> Vec<Rows> {
    let runs: Vec<Vec<Rows>> = (0..world)
        .map(|rank| {
            let loader = on(builder(path), (rank, world), uneven);
            let batches = all(loader.epoch(3).unwrap());
            assert_eq!(batches.len() as u64, loader.len());
            batches
        })
        .collect();
    assert!(runs.iter().all(|run| run.len() == runs[0].len()), "as many steps on each rank");
    let step = |step: usize| {
        let shapes: BTreeSet<[usize; 3]> = runs.iter().map(|run| run[step].0).collect();
        assert_eq!(shapes.len(), 1, "step {step} has one bucket on {world} ranks");
        let mut rows: Vec<_> = runs.iter().flat_map(|run| run[step].1.clone()).collect();
        rows.sort();
        (runs[0][step].0, rows)
    };
    (0..runs[0].len()).map(step).collect()
}

#[test]
fn all_ranks_have_the_same_bucket_at_the_same_step() {
    let (_dir, path) = pictures(61);
    for uneven in [Uneven::Drop, Uneven::Pad, Uneven::Exact] {
        let two = steps(&path, 2, uneven);
        for world in [3, 4, 6, 12] {
            assert!(steps(&path, world, uneven) == two, "{uneven:?} on {world} ranks");
        }
        let rows = || two.iter().flat_map(|(_, rows)| rows);
        let counted: Vec<u64> = rows().filter(|row| row.1).map(|row| row.0.0).collect();
        let distinct: BTreeSet<u64> = counted.iter().copied().collect();
        match uneven {
            Uneven::Drop => {
                let whole: usize = counts(61).values().map(|count| count / 12).sum();
                assert!(counted.len() == 12 * whole && distinct.len() == counted.len());
            }
            Uneven::Pad => {
                let whole: usize = counts(61).values().map(|count| count.div_ceil(12)).sum();
                assert!(counted.len() == 12 * whole && distinct.len() == 61);
            }
            Uneven::Exact => assert!(counted.len() == 61 && distinct.len() == 61),
        }
        // A sample that comes again has other draws.
        let bytes: BTreeSet<_> = rows().map(|row| (row.0, &row.2)).collect();
        assert!(bytes.len() > distinct.len() || uneven == Uneven::Drop);
    }
    // On one process the rest is a shorter batch; the others are the same.
    let alone = steps(&path, 1, Uneven::Exact);
    for ((found, rows), (other, others)) in alone.iter().zip(&steps(&path, 2, Uneven::Exact)) {
        assert!(found == other && rows.iter().all(|row| others.contains(row)));
        assert_eq!(rows.len(), others.iter().filter(|row| row.1).count());
    }
}

#[test]
fn the_number_of_ranks_may_change_at_any_step() {
    let (_dir, path) = pictures(61);
    for uneven in [Uneven::Pad, Uneven::Drop] {
        let whole = steps(&path, 3, uneven);
        for taken in 0..=whole.len() {
            let first = on(builder(&path), (1, 2), uneven);
            let mut batches = first.epoch(3).unwrap();
            assert_eq!(batches.by_ref().take(taken).filter(Result::is_ok).count(), taken);
            let cursor = batches.cursor().unwrap();
            let rest: Vec<Vec<Rows>> = (0..3)
                .map(|rank| all(on(builder(&path), (rank, 3), uneven).resume(&cursor).unwrap()))
                .collect();
            for (step, (_, expected)) in whole[taken..].iter().enumerate() {
                let mut rows: Vec<_> = rest.iter().flat_map(|run| run[step].1.clone()).collect();
                rows.sort();
                assert!(rows == *expected, "step {step} after {taken}");
            }
        }
    }
}

fn write_png(path: &Path, size: Size, sample: u64) {
    let file = fs::File::create(path).unwrap();
    let mut png = png::Encoder::new(file, size.width, size.height);
    png.set_color(png::ColorType::Rgb);
    png.write_header().unwrap().write_image_data(&picture(sample, size)).unwrap();
}

/// A folder of one class with PNG files.
fn folder(count: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for sample in 0..count {
        write_png(&png_of(&dir, sample), stored(sample), sample);
    }
    dir
}

fn png_of(dir: &tempfile::TempDir, sample: u64) -> PathBuf {
    dir.path().join(format!("a/{sample:03}.png"))
}

/// Sizes come from the headers of files, or from the table of a `.beton` file.
#[test]
fn every_format_has_the_same_buckets() {
    let (dir, out) = (folder(30), tempfile::tempdir().unwrap());
    let of = |path: &Path| {
        let source = Dataset::open(path).unwrap().source().unwrap();
        let field = source.fields().iter().position(|field| field.kind.is_image()).unwrap();
        let image = source.field_name(field).to_owned();
        let loader = Loader::open(path).unwrap().seed(7).batch_size(4).order(Order::Bucketed);
        let loader = loader.pipeline(&image, list()).build().unwrap();
        let batches = loader.epoch(0).unwrap().map(|batch| {
            let batch = batch.unwrap();
            (batch.ids().to_vec(), batch.tensor::<u8>(&image).unwrap().shape().to_vec())
        });
        batches.collect::<Vec<_>>()
    };
    let expected = of(dir.path());
    assert_eq!(expected.iter().map(|(ids, _)| ids.len()).sum::<usize>(), 30);
    for name in ["out.beton", "out.tar", "out.tfrecord", "out.parquet"] {
        if name.ends_with("parquet") && cfg!(not(feature = "parquet")) {
            continue;
        }
        let path = out.path().join(name);
        dataset::write_folder(dir.path(), &path, &WriteOptions::default()).unwrap();
        assert!(of(&path) == expected, "{name}");
    }
}

/// A damaged image of a known size is replaced by one of its bucket.
#[test]
fn a_substitute_is_of_the_same_bucket() {
    let dir = folder(40);
    for sample in [3, 4, 17, 30] {
        dataset::damage(&png_of(&dir, sample), |bytes| bytes.truncate(60));
    }
    let builder = || builder(dir.path()).on_damaged(OnDamaged::Substitute);
    let loader = builder().build().unwrap();
    let batches = all(loader.epoch(0).unwrap());
    assert_eq!(ids(&batches).len(), 40);
    assert!(ids(&batches).iter().all(|id| ![3, 4, 17, 30].contains(id)));
    assert_eq!(loader.quarantine().rows, 4);
    for (found, rows) in &batches {
        assert!(rows.iter().all(|(id, ..)| shape(bucket(stored(id.0))) == *found));
    }
    assert!(batches == all(builder().workers(5).build().unwrap().epoch(0).unwrap()));
}

#[test]
fn a_sample_whose_size_is_unknown_is_an_error_or_left_out() {
    let dir = folder(21);
    dataset::damage(&png_of(&dir, 5), |bytes| bytes.truncate(20));
    // A size of 0 x 0 pixels.
    dataset::damage(&png_of(&dir, 9), |bytes| bytes[16..24].fill(0));
    fs::write(png_of(&dir, 12), "no image").unwrap();
    let error = builder(dir.path()).build().err().unwrap();
    assert_eq!(error.sample(), Some(SampleId(5)));
    let text = error.to_string();
    assert!(text.contains("order bucketed: sample 5") && text.contains("005.png"), "{text}");
    for policy in [OnDamaged::Skip, OnDamaged::Substitute] {
        let loader = builder(dir.path()).on_damaged(policy).build().unwrap();
        let left_out: Vec<u64> =
            loader.quarantine().samples.iter().map(|bad| bad.sample.0).collect();
        assert_eq!(left_out, [5, 9, 12]);
        assert_eq!(loader.samples(), 18);
        let mut once = ids(&all(loader.epoch(0).unwrap()));
        once.sort_unstable();
        let expected: Vec<u64> = (0..21).filter(|id| !left_out.contains(id)).collect();
        assert_eq!(once, expected);
    }
}

#[test]
fn the_thinnest_images_have_a_bucket() {
    let dir = folder(3);
    write_png(&png_of(&dir, 3), Size::new(1, 65_535), 3);
    write_png(&png_of(&dir, 4), Size::new(65_535, 1), 4);
    write_png(&png_of(&dir, 5), Size::new(1, 1), 5);
    let loader = builder(dir.path()).batch_size(2).build().unwrap();
    let batches = all(loader.epoch(0).unwrap());
    let of = |sample: u64| {
        batches.iter().find(|(_, rows)| rows.iter().any(|row| row.0.0 == sample)).unwrap().0
    };
    assert_eq!([of(3), of(4), of(5)], [[3, 12, 20], [3, 20, 12], [3, 16, 16]]);
}

/// The bucket is that of the upright picture where pictures are turned.
#[test]
fn the_exif_orientation_decides_if_images_are_turned() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg/420.jpg");
    // 37 rows of 45 pixels.
    let jpeg = fs::read(golden).unwrap();
    for orientation in 1..=8 {
        let path = dir.path().join(format!("a/{orientation}.jpg"));
        fs::write(path, oriented(&jpeg, orientation)).unwrap();
    }
    let sizes = ResizeToBucket::new([(16, 20), (20, 16)]).unwrap();
    for turn in [false, true] {
        let loader = Loader::open(dir.path()).unwrap().order(Order::Bucketed).batch_size(8);
        let loader = loader.pipeline("image", ops![sizes.clone()]).exif_orientation(turn);
        let mut found = vec![];
        for batch in loader.build().unwrap().epoch(0).unwrap() {
            let batch = batch.unwrap();
            let shape = batch.tensor::<u8>("image").unwrap().shape()[1..3].to_vec();
            found.extend(batch.ids().iter().map(|id| (id.0, shape.clone())));
        }
        found.sort();
        for (sample, shape) in found {
            let is_turned = turn && sample >= 4;
            assert_eq!(shape, if is_turned { [20, 16] } else { [16, 20] }, "sample {sample}");
        }
    }
}

#[test]
fn one_bucket_is_a_shuffle_and_more_buckets_than_samples_are_single_batches() {
    let (_dir, path) = pictures(21);
    let one = ops![ResizeToBucket::new([16]).unwrap(), ToChannelsFirst];
    let loader = builder(&path).pipeline("image", one).build().unwrap();
    let batches = all(loader.epoch(0).unwrap());
    assert!(batches.iter().all(|(found, _)| *found == [3, 16, 16]));
    let mut lengths: Vec<usize> = batches.iter().map(|(_, rows)| rows.len()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [1, 4, 4, 4, 4, 4]);
    let mut once = ids(&batches);
    assert!(!once.is_sorted());
    once.sort_unstable();
    assert_eq!(once, (0..21).collect::<Vec<_>>());

    let wider = |sample: u64| Size::new(20, 20 + 4 * sample as u32);
    let (_dir, path) = dataset::write(5, WriteMode::Raw, wider);
    let many = ResizeToBucket::new((10..60).map(|width| (20, width))).unwrap();
    let loader = builder(&path).pipeline("image", ops![many, ToChannelsFirst]);
    let batches = all(loader.build().unwrap().epoch(0).unwrap());
    assert!(batches.len() == 5 && batches.iter().all(|(_, rows)| rows.len() == 1));

    let few = builder(&path).drop_last(true).batch_size(6).build().err().unwrap().to_string();
    assert!(few.contains("no bucket of the 5 samples fills a batch of 6, and"), "{few}");
    let ranks = Ranks::new(1, 2, Uneven::Drop).unwrap();
    let few = builder(&path).ranks(ranks).batch_size(3).build().err().unwrap().to_string();
    assert!(few.contains("fills a batch of 3 on each of 2 ranks, and"), "{few}");
}

/// The size of the second image of a sample.
fn edited(sample: u64) -> Size {
    stored(sample / 3)
}

/// Samples of two images.
fn pairs(count: u64) -> InMemory {
    let fields = [("image", FieldKind::RgbImage), ("edited", FieldKind::RgbImage)];
    let image = |sample: u64, size: Size| {
        OwnedValue::Image(OwnedImage::rgb((size.height, size.width), picture(sample, size)))
    };
    InMemory::from_fn(Facts::new(fields, count), move |SampleId(id)| {
        let record: Record = vec![image(id, stored(id)), image(100 + id, edited(id))];
        Ok::<_, BoxError>(record)
    })
}

/// Asserts that each batch of pairs has one size of each image.
fn assert_batches_of_pairs(builder: LoaderBuilder, [image, other]: [&str; 2]) {
    let loader = builder.batch_size(4).order(Order::Bucketed);
    let loader = loader.pipeline(image, list()).pipeline(other, list());
    let loader = loader.share_draws(other, image).build().unwrap();
    let mut samples = 0;
    for batch in loader.epoch(0).unwrap() {
        let batch = batch.unwrap();
        let shape_of = |name: &str| batch.tensor::<u8>(name).unwrap().shape()[1..].to_vec();
        for id in batch.ids() {
            assert_eq!(shape_of(image), shape(bucket(stored(id.0))));
            assert_eq!(shape_of(other), shape(bucket(edited(id.0))));
        }
        samples += batch.len();
    }
    assert_eq!(samples, 50);
}

#[test]
fn pairs_of_images_are_grouped_by_both_sizes() {
    assert_batches_of_pairs(Loader::from_source(pairs(50)), ["image", "edited"]);
}

/// Several images a sample are fields of their own in every format.
#[test]
fn pairs_of_images_are_stored_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["pairs.beton", "pairs.tar", "pairs.tfrecord", "pairs.parquet"] {
        if name.ends_with("parquet") && cfg!(not(feature = "parquet")) {
            continue;
        }
        let path = dir.path().join(name);
        fuseloop::write::convert(&pairs(50), &path, &WriteOptions::default()).unwrap();
        let source = Dataset::open(&path).unwrap().source().unwrap();
        let fields = (0..source.fields().len()).filter(|at| source.fields()[*at].kind.is_image());
        let names: Vec<&str> = fields.map(|field| source.field_name(field)).collect();
        let is_edited = |name: &&&str| name.contains("edited");
        let other = names.iter().find(is_edited).unwrap();
        let image = names.iter().find(|name| !is_edited(name)).unwrap();
        assert_eq!(names.len(), 2, "{name}: {names:?}");
        assert_batches_of_pairs(Loader::open(&path).unwrap(), [image, other]);
    }
}

#[test]
fn sizes_that_do_not_follow_from_the_images_are_refused() {
    let (_dir, path) = pictures(12);
    let refused = |builder: LoaderBuilder| builder.build().err().unwrap().to_string();
    let random = RandomShortestSize::new([16, 20]).unwrap();
    let text = refused(builder(&path).pipeline("image", ops![random]));
    assert!(
        text.starts_with("output image: order bucketed: RandomShortestSize leaves an image of "),
        "{text}"
    );
    let text = refused(builder(&path).order(Order::Random));
    assert!(text.contains("take the order `bucketed`"), "{text}");
    let text = refused(builder(&path).pipeline_by_epoch("image", |_| Ok::<_, ParamError>(list())));
    assert!(text.starts_with("output image: order bucketed: this list leaves"), "{text}");
    let mixed = ops![ResizeToBucket::new(SIZES).unwrap(), MixUp::new(0.2).unwrap()];
    let text = refused(builder(&path).pipeline("image", mixed));
    assert!(text.contains("MixUp works on batches of one size"), "{text}");
}

#[test]
fn lists_that_are_replaced_must_leave_the_sizes() {
    let (_dir, path) = pictures(30);
    let loader = builder(&path).build().unwrap();
    let flip = RandomVerticalFlip::new(0.5).unwrap();
    let flipped = ops![ResizeToBucket::new(SIZES).unwrap(), flip, ToChannelsFirst];
    loader.set_pipeline("image", flipped).unwrap();
    assert!(loader.epoch(0).unwrap().all(|batch| batch.is_ok()));
    let others = ResizeToBucket::new([(16, 17), (17, 16)]).unwrap();
    loader.set_pipeline("image", ops![others, ToChannelsFirst]).unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("order bucketed: its ops leave sample "), "{error}");
}

/// A list that turns images at random is a mistake of the user, which no image is left out for.
#[test]
fn a_list_of_random_sizes_is_no_damage() {
    let turn = || Transpose::new(0.5).unwrap();
    let dir = folder(8);
    let squares = tempfile::tempdir().unwrap();
    fs::create_dir(squares.path().join("a")).unwrap();
    (0..4)
        .for_each(|k| write_png(&png_of(&squares, k), Size::new(20 + k as u32, 20 + k as u32), k));
    for path in [dir.path(), squares.path()] {
        for policy in [OnDamaged::Fail, OnDamaged::Skip, OnDamaged::Substitute] {
            let list = ops![turn(), ResizeToBucket::new(SIZES).unwrap()];
            let error = builder(path).on_damaged(policy).pipeline("image", list).build().err();
            let text = error.unwrap().to_string();
            assert!(text.contains("order bucketed: Transpose leaves an image of "), "{text}");
            assert_eq!(text.matches("bucketed").count(), 1, "{text}");
        }
    }
}

#[test]
fn only_damaged_samples_are_an_error_that_says_so() {
    let dir = folder(3);
    (0..3).for_each(|sample| fs::write(png_of(&dir, sample), "no image").unwrap());
    let error = builder(dir.path()).on_damaged(OnDamaged::Skip).build().err().unwrap().to_string();
    assert!(error.contains("all 3 samples are damaged. The first of them: "), "{error}");
    assert!(error.contains("000.png"), "{error}");
}

/// Mistakes are told before all images are read.
#[test]
fn the_lists_are_checked_before_images_are_measured() {
    let facts = Facts::new([("image", FieldKind::RgbImage)], 1000);
    let unread = InMemory::from_fn(facts, |SampleId(id)| -> Result<Record, BoxError> {
        panic!("sample {id} was read")
    });
    let mixed = ops![ResizeToBucket::new(SIZES).unwrap(), MixUp::new(0.2).unwrap()];
    let loader = Loader::from_source(unread).order(Order::Bucketed).pipeline("image", mixed);
    let text = loader.build().err().unwrap().to_string();
    assert!(text.contains("MixUp works on batches of one size"), "{text}");
}

/// A list by epoch that leaves one size at first, and a list that is replaced, have no buckets.
#[test]
fn sizes_that_were_not_measured_are_refused() {
    let (_dir, path) = pictures(12);
    let by_epoch = |epoch: Epoch| {
        Ok::<_, ParamError>(if epoch.index() == 0 { ops![Resize::new((16, 16))?] } else { list() })
    };
    let loader = builder(&path).pipeline_by_epoch("image", by_epoch).build().unwrap();
    assert!(loader.epoch(0).is_ok());
    let text = loader.epoch(1).err().unwrap().to_string();
    assert!(
        text.contains("the order `bucketed` has batches of images whose list, one for all epochs"),
        "{text}"
    );
    assert!(!text.contains("take the order"), "{text}");
}
