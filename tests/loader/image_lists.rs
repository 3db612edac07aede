//! Lists of images: each image of a sample is the image that a loader of images makes of it by the same draws, rows behind
//! the last one are zeros, and nothing depends on threads or where a run began.

use fuseloop::loader::{BoundingBoxes, Cache, Clips, Collate, ImageList, Targets};
use fuseloop::source::{
    BoxError, Column, Facts, FieldKind, InMemory, OwnedImage, OwnedValue, ProcessCache, Record,
    Source,
};
use fuseloop::{
    Batch, Cursor, ErrorKind, Loader, LoaderBuilder, OnDamaged, Order, SampleId, ops::*,
};
use jpeg_encoder::{ColorType, Encoder};

const SEED: u64 = 5;

/// The number of images of each sample.
const COUNTS: [usize; 5] = [2, 0, 3, 1, 2];

/// Returns an image: of sample 4 they differ in size.
fn jpeg(sample: usize, image: usize) -> Vec<u8> {
    let (height, width) = if sample == 4 { (36 + image * 8, 50) } else { (40, 56) };
    let level =
        |y: usize, x: usize, c: usize| (y * 3 + x * (2 + image) + c * 9 + sample * 31) as u8;
    let pixels: Vec<u8> = (0..height)
        .flat_map(|y| (0..width).flat_map(move |x| [0, 1, 2].map(|c| level(y, x, c))))
        .collect();
    let mut bytes = vec![];
    let encoder = Encoder::new(&mut bytes, 90);
    encoder.encode(&pixels, width as u16, height as u16, ColorType::Rgb).unwrap();
    bytes
}

struct Lists(Facts);

impl Lists {
    fn new() -> Self {
        let fields =
            [("images", FieldKind::Bytes), ("label", FieldKind::Int), ("boxes", FieldKind::Bytes)];
        let longest = |field| (field == 2).then_some(16);
        Self(Facts::new(fields, COUNTS.len() as u64).with_longest(longest))
    }
}

impl Source for Lists {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let sample = sample.0 as usize;
        let files: Vec<Vec<u8>> = (0..COUNTS[sample]).map(|image| jpeg(sample, image)).collect();
        let boxes = OwnedValue::Bytes(vec![0; 16]);
        Ok(vec![OwnedValue::images(&files), OwnedValue::Int(sample as i64), boxes])
    }
}

fn augmented() -> Ops {
    ops![
        RandomResizedCrop::new(16).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        ToChannelsFirst,
    ]
}

fn builder(list: ImageList) -> LoaderBuilder {
    let loader = Loader::from_source(Lists::new()).batch_size(2).seed(SEED);
    loader.image_lists("images", list).pipeline("images", augmented())
}

/// Returns the row of each sample of an epoch: all of its images.
fn rows(batches: impl IntoIterator<Item = Batch>) -> Vec<Vec<u8>> {
    let of_batch = |batch: Batch| {
        let images = batch.tensor::<u8>("images").unwrap();
        let row: usize = images.shape()[1..].iter().product();
        images.as_slice().chunks(row).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    batches.into_iter().flat_map(of_batch).collect()
}

fn epoch(loader: &Loader, epoch: u32) -> Vec<Batch> {
    loader.epoch(epoch).unwrap().map(Result::unwrap).collect()
}

/// Returns the row that a loader of images has for an image that is sample number `sample`.
fn image_row(sample: usize, image: usize, epoch: u32) -> Vec<u8> {
    let images = COUNTS.map(|_| OwnedImage::file(jpeg(sample, image))).into();
    let source = InMemory::new([("images", Column::images(images))]).unwrap();
    let loader = Loader::from_source(source).seed(SEED).pipeline("images", augmented());
    let batch = loader.build().unwrap().get(&[sample as u64], epoch).unwrap();
    batch.tensor::<u8>("images").unwrap().as_slice().to_vec()
}

#[test]
fn an_image_of_a_list_is_the_image_by_the_draws_of_the_sample_and_zeros_follow() {
    let loader = builder(ImageList::new(4)).build().unwrap();
    for number in [0, 3] {
        let batches = epoch(&loader, number);
        let lengths: Vec<i64> = batches
            .iter()
            .flat_map(|batch| batch.tensor::<i64>("images.length").unwrap().as_slice().to_vec())
            .collect();
        assert_eq!(lengths, COUNTS.map(|count| count as i64));
        assert_eq!(batches[0].tensor::<u8>("images").unwrap().shape(), [2, 4, 3, 16, 16]);
        assert_eq!(batches[0].tensor::<i64>("label").unwrap().as_slice(), [0, 1]);
        for (sample, row) in rows(batches).into_iter().enumerate() {
            let mut expected: Vec<u8> =
                (0..COUNTS[sample]).flat_map(|image| image_row(sample, image, number)).collect();
            expected.resize(row.len(), 0);
            assert!(row == expected, "sample {sample}, epoch {number}");
        }
    }
}

#[test]
fn the_first_image_draws_as_the_sample_and_others_by_themselves_if_asked() {
    let one = rows(epoch(&builder(ImageList::new(3)).build().unwrap(), 1));
    let each = rows(epoch(&builder(ImageList::new(3).per_image(true)).build().unwrap(), 1));
    let image = one[0].len() / 3;
    for (sample, (one, each)) in one.iter().zip(&each).enumerate() {
        assert!(one[..image] == each[..image], "sample {sample}");
        assert_eq!(one[image..] == each[image..], COUNTS[sample] < 2, "sample {sample}");
    }
}

#[test]
fn a_longer_list_is_damage_of_its_sample_or_truncated() {
    let loader = builder(ImageList::new(2)).build().unwrap();
    let refused = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    let text = refused.to_string();
    assert!(text.contains("sample 2") && text.contains("images"), "{text}");
    assert!(text.contains("a list of 3 images, rows have room for 2: raise `max`"), "{text}");
    let skipping = builder(ImageList::new(2)).on_damaged(OnDamaged::Skip).build().unwrap();
    assert_eq!(rows(epoch(&skipping, 0)).len(), 4);
    let truncated = epoch(&builder(ImageList::new(2).truncate()).build().unwrap(), 0);
    assert_eq!(truncated[1].tensor::<i64>("images.length").unwrap().as_slice(), [2, 1]);
    let all = rows(epoch(&builder(ImageList::new(3)).build().unwrap(), 0));
    let two = rows(truncated);
    assert!(two[2] == all[2][..two[2].len()]);
}

#[test]
fn the_rows_are_the_same_for_any_number_of_workers_and_after_a_resume() {
    let of = |workers, size| {
        builder(ImageList::new(3)).order(Order::Random).workers(workers).batch_size(size)
    };
    let undisturbed = rows(epoch(&of(1, 2).build().unwrap(), 2));
    for (workers, size) in [(4, 2), (3, 1), (2, 5)] {
        assert!(rows(epoch(&of(workers, size).build().unwrap(), 2)) == undisturbed);
    }
    let loader = of(3, 2).build().unwrap();
    for taken in 0..=3 {
        let mut run = loader.epoch(2).unwrap();
        (0..taken).for_each(|_| drop(run.next().unwrap().unwrap()));
        let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
        let rest = of(2, 2).build().unwrap();
        let rest = rows(rest.resume(&cursor).unwrap().map(Result::unwrap));
        assert!(rest == undisturbed[(2 * taken).min(5)..], "after {taken}");
        let other = builder(ImageList::new(4)).order(Order::Random).build().unwrap();
        assert_eq!(other.resume(&cursor).err().unwrap().kind(), ErrorKind::Cursor);
    }
}

#[test]
fn a_damaged_image_is_named() {
    struct Damaged(Facts);
    impl Source for Damaged {
        fn facts(&self) -> &Facts {
            &self.0
        }

        fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
            let files = [&jpeg(0, 0)[..], b"", b"no image"];
            Ok(vec![match sample.0 {
                0 => OwnedValue::images(&files[..2]),
                1 => OwnedValue::images(&[files[0], files[2]]),
                _ => OwnedValue::Bytes(b"no list".to_vec()),
            }])
        }
    }
    let source = Damaged(Facts::new([("images", FieldKind::Bytes)], 3));
    let loader = Loader::from_source(source).image_lists("images", ImageList::new(2));
    let loader = loader.pipeline("images", augmented()).build().unwrap();
    let says = |sample| loader.get(&[sample], 0).unwrap_err().to_string();
    assert!(says(0).contains("image 1: an image of no bytes"), "{}", says(0));
    assert!(says(1).contains("image 1: "), "{}", says(1));
    assert!(says(2).contains("7 bytes that are no list of images"), "{}", says(2));
}

#[test]
fn views_have_lists_too_and_a_field_without_a_setting_is_left_out() {
    let loader = builder(ImageList::new(3)).view("second", "images", augmented()).build().unwrap();
    let batch = loader.get(&[2, 3], 0).unwrap();
    let [first, second] = ["images", "second"].map(|name| batch.tensor::<u8>(name).unwrap());
    assert_eq!((first.shape(), second.shape()), (&[2, 3, 3, 16, 16][..], &[2, 3, 3, 16, 16][..]));
    assert!(first.as_slice() != second.as_slice());
    assert!(loader.explain().contains("lists of up to 3 images, one draw for a sample"));
    let plain = Loader::from_source(Lists::new()).build().unwrap();
    let batch = plain.get(&[0], 0).unwrap();
    assert!(batch.tensor::<i64>("label").is_ok() && batch.tensor::<u8>("images").is_err());
}

#[test]
fn what_lists_do_not_go_with_is_refused_with_the_cure() {
    let list = || builder(ImageList::new(3));
    let boxes = Targets::new().boxes("boxes", BoundingBoxes::new(BoxFormat::Xywh));
    let refused: [(LoaderBuilder, &str); 10] = [
        (builder(ImageList::new(0)), "a maximum of 0 images"),
        (list().image_lists("label", ImageList::new(2)), "this field is int"),
        (list().image_lists("pictures", ImageList::new(2)), "no field named pictures"),
        (list().clips(Clips::random(2)), "load them by two loaders"),
        (list().cache(Cache::memory(1 << 20)), "remove `cache`"),
        (list().process_cache(ProcessCache::default()), "remove `process_cache`"),
        (list().order(Order::Bucketed), "images of one size"),
        (list().collate("images", Collate::pad()), "remove its `collate`"),
        (list().targets("images", boxes), "not yet the images of a list"),
        (
            list().pipeline("images", ops![Resize::new(8).unwrap(), MixUp::new(0.2).unwrap()]),
            "not yet on the images of a list",
        ),
    ];
    for (loader, says) in refused {
        let error = loader.build().err().unwrap_or_else(|| panic!("{says}")).to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn lists_of_a_file_that_datasets_wrote_are_loaded() {
    let path = "tests/golden/parquet/lists.parquet";
    let loader = Loader::open(path)
        .unwrap()
        .batch_size(10)
        .image_lists("images", ImageList::new(3))
        .pipeline("images", ops![RandomResizedCrop::new(8).unwrap(), ToChannelsFirst])
        .on_damaged(OnDamaged::Skip)
        .build()
        .unwrap();
    let batch = epoch(&loader, 0).remove(0);
    // Sample 5 has no list.
    let expected: Vec<i64> =
        (0..10).filter(|sample| *sample != 5).map(|sample| sample % 4).collect();
    assert_eq!(batch.tensor::<i64>("images.length").unwrap().as_slice(), expected);
    assert_eq!(batch.tensor::<u8>("images").unwrap().shape(), [9, 3, 3, 8, 8]);
    let is_black = |row: &[u8]| row.iter().all(|level| *level == 0);
    for (count, row) in expected.iter().zip(rows([batch])) {
        let images: Vec<bool> = row.chunks(row.len() / 3).map(is_black).collect();
        assert_eq!(images, [0, 1, 2].map(|image| image >= *count));
    }
}
