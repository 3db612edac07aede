//! Large bit planes and re-cut JPEGs in local files are read only as far as a sample needs them.

use crate::common::counted::{Counted, Reads};
use crate::common::dataset;
use fuseloop::internals::source::StoredValues;
use fuseloop::loader::{Cache, Collate, Targets};
use fuseloop::prelude::*;
use fuseloop::sample::SampleId;
use fuseloop::source::{
    Beton, BoxError, Buffer, Facts, FieldKind, FieldSpec, OpenOptions, Record, Source, Value,
};
use fuseloop::verify::{VerifyOptions, verify};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop_ops::internals::SampleKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

const SAMPLES: u64 = 4;
const SIZE: Size = Size::new(1100, 1400);

/// Writes large photographs as they are, re-cut, and as bit planes: once for all tests.
fn written() -> &'static (tempfile::TempDir, [PathBuf; 3]) {
    static WRITTEN: OnceLock<(tempfile::TempDir, [PathBuf; 3])> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let all = ["jpegs.beton", "recut.beton", "planes.beton"].map(|name| dir.path().join(name));
        let fields = [FieldSpec { name: "image".to_owned(), kind: FieldKind::RgbImage }];
        let Size { height, width } = SIZE;
        let rows = (0..SAMPLES).map(|sample| {
            let mut rng = SampleKey::new(7, 0, sample).op(0);
            let level = |at| (at / 4000 % 100) as u8 + rng.below(150) as u8;
            let pixels = (0..3 * SIZE.pixels()).map(level).collect();
            vec![FieldValue::Image(ImageInput::Rgb { pixels, width, height })]
        });
        let image = ImageOptions { write_mode: WriteMode::Jpg, ..ImageOptions::default() };
        let options = WriteOptions { image, ..WriteOptions::default() };
        write_iter(rows, &fields, &all[0], &options).unwrap();
        for (path, bit_planes) in [(&all[1], false), (&all[2], true)] {
            let options = WriteOptions {
                image: ImageOptions { bit_planes, ..ImageOptions::default() },
                ..WriteOptions::default()
            };
            assert_eq!(dataset::recut(&all[0], path, &options).unwrap().unchanged.first.len(), 0);
        }
        (dir, all)
    })
}

/// Returns copies of the files, for one test.
fn files() -> (tempfile::TempDir, [PathBuf; 3]) {
    let dir = tempfile::tempdir().unwrap();
    let copies = written().1.clone().map(|path| {
        let copy = dir.path().join(path.file_name().unwrap());
        std::fs::copy(path, &copy).unwrap();
        copy
    });
    (dir, copies)
}

fn beton(path: &Path) -> Arc<dyn Source> {
    Arc::new(Beton::open(path, &OpenOptions::default()).unwrap())
}

/// Returns the rows of an epoch or its error, and what was read.
fn epoch(
    source: &Arc<dyn Source>,
    in_parts: bool,
    list: &Ops,
    change: impl FnOnce(LoaderBuilder) -> LoaderBuilder,
) -> (Result<Vec<u8>, String>, [u64; 3]) {
    let reads = Arc::new(Reads::default());
    let source = Counted::new(Arc::clone(source), in_parts, &reads);
    let builder = Loader::from_source(source).batch_size(2).workers(1).drop_last(false);
    let builder = change(builder.in_memory(false).pipeline("image", list.clone()));
    let batches = builder.build().unwrap().epoch(1).unwrap();
    let rows: Result<Vec<_>, _> =
        batches.map(|batch| batch.map(|batch| batch.bytes("image").unwrap().to_vec())).collect();
    (rows.map(|rows| rows.concat()).map_err(|error| error.to_string()), reads.counts())
}

/// Asserts that a dataset has the same rows, or the same error, in parts and whole. Returns what was read in parts.
fn assert_same(source: &Arc<dyn Source>, list: &Ops, what: &str) -> [u64; 3] {
    let (expected, [_, parts, _]) = epoch(source, false, list, |builder| builder);
    assert_eq!(parts, 0, "{what}");
    let (found, reads) = epoch(source, true, list, |builder| builder);
    match (&found, &expected) {
        (Err(found), Err(expected)) => assert_eq!(found, expected, "{what}"),
        _ => assert!(found == expected, "{what}: {:?}, {:?}", found.err(), expected.err()),
    }
    reads
}

#[test]
fn bytes_outside_of_a_window_are_not_read() {
    let (_dir, [jpegs, recut, planes]) = files();
    let stored = |path: &Path| std::fs::metadata(path).unwrap().len();
    for path in [&recut, &planes] {
        let (source, name) = (beton(path), path.display());
        let crop = ops![RandomCrop::new(200).unwrap(), RandomVerticalFlip::new(0.5).unwrap()];
        let [whole, parts, bytes] = assert_same(&source, &crop, "crop");
        assert!(whole == 0 && parts >= 2 * SAMPLES, "{name}: {whole} whole, {parts} parts");
        assert!(bytes < stored(path) / 3, "{name}: {bytes} of {} bytes", stored(path));

        let list = ops![RandomResizedCrop::new(64).unwrap(), Normalize::imagenet()];
        let [whole, _, bytes] = assert_same(&source, &list, "resized crop");
        assert!(whole == 0 && bytes < stored(path), "{name}: {whole} whole, {bytes} bytes");

        // The same rows as those of the images that were re-cut, which have no index.
        let of = |path: &Path| epoch(&beton(path), true, &list, |builder| builder).0.unwrap();
        assert!(of(path) == of(&jpegs), "{name}");
        let gray = |in_parts| {
            let gray = fuseloop::ImageReadMode::Gray;
            epoch(&source, in_parts, &crop, |builder| builder.read_mode("image", gray))
        };
        assert!(gray(true).0 == gray(false).0 && gray(true).1[0] == 0, "{name}: gray");
        let scaled =
            |in_parts| epoch(&source, in_parts, &list, |builder| builder.scaled_decode(true));
        assert!(scaled(true).0 == scaled(false).0 && scaled(true).1[0] == 0, "{name}: scaled");
    }
}

#[test]
fn images_without_an_index_are_read_whole_and_the_next_ones_at_once() {
    let (_dir, [jpegs, ..]) = files();
    let crop = ops![RandomCrop::new(200).unwrap()];
    let [whole, parts, _] = assert_same(&beton(&jpegs), &crop, "no index");
    assert_eq!(whole, SAMPLES);
    assert!(parts <= 2, "{parts} parts");
}

#[test]
fn small_images_held_ones_and_those_for_a_cache_are_read_whole() {
    let (dir, [_, _, planes]) = files();
    let crop = ops![RandomCrop::new(200).unwrap()];
    let held = beton(&planes);
    held.stored().unwrap().hold_in_memory().unwrap();
    assert_eq!(assert_same(&held, &crop, "held"), [SAMPLES, 0, 0]);
    let cached = |builder: LoaderBuilder| builder.cache(Cache::memory(1 << 30));
    assert_eq!(epoch(&beton(&planes), true, &crop, cached).1, [SAMPLES, 0, 0]);
    let (_dir, jpegs) = dataset::write(4, WriteMode::Jpg, |_| Size::new(300, 300));
    let small = dir.path().join("small.beton");
    let options = WriteOptions {
        image: ImageOptions { bit_planes: true, ..ImageOptions::default() },
        ..WriteOptions::default()
    };
    dataset::recut(&jpegs, &small, &options).unwrap();
    assert_eq!(assert_same(&beton(&small), &crop, "small"), [4, 0, 0]);
}

/// Returns the bytes of an image in its file.
fn extent(path: &Path, sample: u64) -> std::ops::Range<usize> {
    let bytes = beton(path).locate(SampleId(sample), 0).unwrap().bytes.unwrap();
    bytes.start as usize..bytes.end as usize
}

#[test]
fn damage_in_the_window_is_the_error_of_the_whole_image_and_damage_beside_it_is_left_to_verify() {
    let (_dir, [_, recut, planes]) = files();
    let centre = ops![CenterCrop::new(200).unwrap()];
    for path in [&recut, &planes] {
        let image = extent(path, 3);
        let intact = epoch(&beton(path), true, &centre, |builder| builder).0.unwrap();
        let (mut errors, mut left) = (0, 0);
        for n in 0..8 {
            let at = image.start + image.len() * (2 * n + 1) / 16;
            dataset::damage(path, |bytes| bytes[at] ^= 0x40);
            let what = format!("{}, byte {at} of {image:?}", path.display());
            let [whole, ..] = assert_same(&beton(path), &centre, &what);
            match epoch(&beton(path), true, &centre, |builder| builder).0 {
                Ok(found) => {
                    // zune-jpeg decodes some of the damaged JPEGs.
                    assert!(whole == 0 || path == &recut, "{what}");
                    left += u32::from(found == intact);
                }
                Err(error) => {
                    assert!(whole == 1 && error.contains("sample 3"), "{what}: {error}");
                    errors += 1;
                }
            }
            // A JPEG has no checksums.
            if path == &planes {
                let report = verify(&*beton(path), &VerifyOptions::default(), &|_| {});
                assert_eq!(report.unwrap().damaged_samples, 1, "{what}");
            }
            dataset::damage(path, |bytes| bytes[at] ^= 0x40);
        }
        assert!(left >= 4, "{errors} errors, {left} without an effect");
        assert!(errors > 0 || path == &recut, "no error");
    }
}

#[test]
fn a_file_that_was_cut_short_is_an_error_with_the_sample_and_the_file() {
    let (_dir, [_, recut, planes]) = files();
    for path in [recut, planes] {
        let (source, last) = (beton(&path), extent(&path, SAMPLES - 1));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len((last.start + last.len() / 4) as u64).unwrap();
        let list = ops![CenterCrop::new(900).unwrap()];
        assert_same(&source, &list, "cut");
        let error = epoch(&source, true, &list, |builder| builder).0.unwrap_err();
        let expected = format!("{} bytes at byte {}", last.len(), last.start);
        let sample = format!("sample {}", SAMPLES - 1);
        assert!(error.contains(&sample) && error.contains(&expected), "{error}");
    }
}

#[test]
fn a_wrong_index_costs_a_second_read() {
    let (_dir, [_, recut, _]) = files();
    for sample in 0..SAMPLES {
        // A length in the index.
        let end = extent(&recut, sample).end;
        dataset::damage(&recut, |bytes| bytes[end - 1500] ^= 1);
    }
    let crop = ops![RandomCrop::new(200).unwrap()];
    let [whole, parts, _] = assert_same(&beton(&recut), &crop, "wrong index");
    assert!(whole == SAMPLES && parts > 0, "{whole} whole, {parts} parts");
}

/// Images with a box around all of each.
struct Boxed(Counted, Facts);

impl Source for Boxed {
    fn facts(&self) -> &Facts {
        &self.1
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.0.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        const EDGES: [[u8; 4]; 4] = [
            100_f32.to_le_bytes(),
            200_f32.to_le_bytes(),
            1400_f32.to_le_bytes(),
            1200_f32.to_le_bytes(),
        ];
        match field {
            0 => self.0.value(sample, field, buffer),
            _ => Ok(Value::Bytes(EDGES.as_flattened())),
        }
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        self.0.stored()
    }
}

#[test]
fn boxes_follow_an_image_that_is_read_in_parts_or_again() {
    let (_dir, [_, recut, planes]) = files();
    let rows = |path: &Path, in_parts| {
        let reads = Arc::new(Reads::default());
        let source = Counted::new(beton(path), in_parts, &reads);
        let fields = [("image", FieldKind::RgbImage), ("bbox", FieldKind::Bytes)];
        let facts = Facts::new(fields, source.facts().samples).with_longest(|_| Some(16));
        let loader = Loader::from_source(Boxed(source, facts))
            .batch_size(SAMPLES as usize)
            .targets("image", Targets::new().boxes("bbox", BoxFormat::Xyxy))
            .pipeline("image", ops![RandomResizedCrop::new(64).unwrap()])
            .collate("bbox", Collate::pad().to(1))
            .build()
            .unwrap();
        let batch = loader.epoch(2).unwrap().next().unwrap().unwrap();
        let rows = ["image", "bbox"].map(|name| batch.bytes(name).unwrap().to_vec());
        (rows, reads.counts()[..2].to_vec())
    };
    for path in [&recut, &planes] {
        let (found, reads) = rows(path, true);
        assert!(found == rows(path, false).0 && reads[0] == 0, "{}", path.display());
    }
    let end = extent(&recut, 2).end;
    dataset::damage(&recut, |bytes| bytes[end - 1500] ^= 1);
    let (found, reads) = rows(&recut, true);
    assert!(found == rows(&recut, false).0 && reads[0] == 1, "a wrong index");
}

#[cfg(feature = "tar")]
#[test]
fn members_of_tar_shards_are_read_in_parts() {
    use fuseloop::source::{As, Tar, TarOptions};
    let (dir, [_, recut, planes]) = files();
    for (path, ext) in [(recut, "jpg"), (planes, "fplanes")] {
        let tar = dir.path().join("large.tar");
        let mut builder = tar::Builder::new(std::fs::File::create(&tar).unwrap());
        let bytes = std::fs::read(&path).unwrap();
        for sample in 0..SAMPLES {
            let image = &bytes[extent(&path, sample)];
            let mut header = tar::Header::new_gnu();
            header.set_size(image.len() as u64);
            builder.append_data(&mut header, format!("{sample}.{ext}"), image).unwrap();
        }
        builder.finish().unwrap();
        let options = TarOptions::default().field("image", ext, As::Image);
        let source: Arc<dyn Source> = Arc::new(Tar::open(tar.to_str().unwrap(), &options).unwrap());
        let crop = ops![RandomCrop::new(200).unwrap()];
        let [whole, _, read] = assert_same(&source, &crop, ext);
        assert!(whole == 0 && read < bytes.len() as u64 / 3, "{ext}: {whole} whole, {read} bytes");
        let file = std::fs::OpenOptions::new().write(true).open(&tar).unwrap();
        file.set_len(bytes.len() as u64 / 2).unwrap();
        assert_same(&source, &crop, "cut");
    }
}
