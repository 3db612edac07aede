//! Masks keep their class numbers in every format, whatever becomes of their images.

use fuseloop::internals::source::ObjectField;
use fuseloop::loader::Targets;
use fuseloop::ops::*;
use fuseloop::source::{
    Annotated, Dataset, FieldKind, FieldSpec, ImageMode, OwnedImage, OwnedValue, Source,
};
use fuseloop::verify::{DamageKind, VerifyOptions, verify};
use fuseloop::write::{
    FieldValue, ImageInput, ImageOptions, Reencoded, WriteMode, WriteOptions, convert, write_iter,
};
use fuseloop::{ErrorKind, ImageReadMode, Loader, LoaderBuilder, SampleId};
use png::{BitDepth, ColorType};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const HEIGHT: usize = 7;
const WIDTH: usize = 11;

/// The colours and the bits of a pixel of the masks.
const KINDS: [(ColorType, BitDepth); 8] = [
    (ColorType::Indexed, BitDepth::One),
    (ColorType::Indexed, BitDepth::Two),
    (ColorType::Indexed, BitDepth::Four),
    (ColorType::Indexed, BitDepth::Eight),
    (ColorType::Grayscale, BitDepth::One),
    (ColorType::Grayscale, BitDepth::Two),
    (ColorType::Grayscale, BitDepth::Four),
    (ColorType::Grayscale, BitDepth::Eight),
];

/// Returns the class of a pixel of a mask with this number of bits.
fn class(sample: usize, bits: usize, pixel: usize) -> u8 {
    ((pixel * (sample + 3) + pixel / WIDTH) % (1 << bits)) as u8
}

/// Encodes a PNG of rows of whole bytes.
fn png(width: usize, (color, depth): (ColorType, BitDepth), rows: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, HEIGHT as u32);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == ColorType::Indexed {
        // The colours have nothing to do with the classes.
        let colors =
            (0..1_usize << depth as usize).flat_map(|n| [255 - n as u8, 77, (n * 91) as u8]);
        encoder.set_palette(colors.collect::<Vec<u8>>());
    }
    encoder.write_header().unwrap().write_image_data(rows).unwrap();
    bytes
}

/// Encodes the mask of a sample.
fn mask(sample: usize, kind: (ColorType, BitDepth)) -> Vec<u8> {
    let bits = kind.1 as usize;
    let mut rows = vec![0; HEIGHT * (WIDTH * bits).div_ceil(8)];
    for pixel in 0..HEIGHT * WIDTH {
        let (y, x) = (pixel / WIDTH, pixel % WIDTH);
        let byte = y * (WIDTH * bits).div_ceil(8) + x * bits / 8;
        rows[byte] |= class(sample, bits, pixel) << (8 - bits - x * bits % 8);
    }
    png(WIDTH, kind, &rows)
}

fn image(sample: usize) -> Vec<u8> {
    let levels: Vec<u8> = (0..HEIGHT * WIDTH * 3).map(|at| (at * (sample + 5)) as u8).collect();
    png(WIDTH, (ColorType::Rgb, BitDepth::Eight), &levels)
}

/// Writes a folder of images and these masks.
fn folder(dir: &Path, masks: &[(&str, Vec<u8>)]) -> Annotated {
    for folder in ["images", "masks"] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    for (sample, (extension, mask)) in masks.iter().enumerate() {
        fs::write(dir.join(format!("images/{sample}.png")), image(sample)).unwrap();
        fs::write(dir.join(format!("masks/{sample}.{extension}")), mask).unwrap();
    }
    Annotated::masks(dir.join("images"), dir.join("masks")).unwrap()
}

/// Writes a folder with a mask of each kind, and returns their classes.
fn segmentation(dir: &Path) -> (Annotated, Vec<u8>) {
    let masks = KINDS.iter().enumerate().map(|(sample, kind)| ("png", mask(sample, *kind)));
    let source = folder(dir, &masks.collect::<Vec<_>>());
    let classes = KINDS.iter().enumerate().flat_map(|(sample, (_, depth))| {
        (0..HEIGHT * WIDTH).map(move |pixel| class(sample, *depth as usize, pixel))
    });
    (source, classes.collect())
}

fn open(path: impl AsRef<Path>) -> Arc<dyn Source> {
    Dataset::open(path).unwrap().source().unwrap()
}

/// Returns the name of the only field that a dataset knows as a mask.
fn mask_of(source: &dyn Source) -> String {
    let known = source.object_fields().unwrap().unwrap();
    let masks: Vec<(String, String)> =
        known.iter().map(|(name, field)| (name.to_owned(), field.to_string())).collect();
    let [(name, what)] = &masks[..] else { panic!("{masks:?}") };
    assert_eq!(what, "a mask: the class of each pixel");
    name.clone()
}

/// Returns the class numbers of all samples, as a loader reads them.
fn classes(source: Arc<dyn Source>) -> Vec<u8> {
    let (samples, field) = (source.len() as usize, mask_of(&*source));
    let names = source.fields().iter().map(|field| field.name.clone());
    let others: Vec<String> = names.filter(|name| *name != field).collect();
    let whole = CenterCrop::new((HEIGHT as u32, WIDTH as u32)).unwrap();
    // The dataset says that the field is a mask.
    let loader = Loader::from_dataset(Dataset::Source(source)).batch_size(samples);
    let loader = loader.pipeline(&field, ops![whole, Squeeze]);
    let loader = others.iter().fold(loader, |loader, other| loader.without(other));
    let loader = loader.build().unwrap();
    let batch = loader.epoch(0).unwrap().next().unwrap().unwrap();
    let classes = batch.tensor::<u8>(&field).unwrap();
    assert_eq!(classes.shape(), [samples, HEIGHT, WIDTH]);
    classes.as_slice().to_vec()
}

/// A loader reads a field that the dataset knows as a mask as one, and does not let it stay behind when its image moves.
#[test]
fn a_loader_knows_the_masks_of_a_dataset() {
    let dir = tempfile::tempdir().unwrap();
    let (source, expected) = segmentation(dir.path());
    let path = dir.path().join("x.beton");
    convert(&source, &path, &WriteOptions::default()).unwrap();
    let load = || Loader::open(&path).unwrap().batch_size(KINDS.len());
    let read = |loader: LoaderBuilder| {
        let batch = loader.build().unwrap().epoch(0).unwrap().next().unwrap().unwrap();
        let classes = batch.tensor::<u8>("mask").unwrap();
        (classes.shape().to_vec(), classes.as_slice().to_vec())
    };
    let shape = |channels| vec![KINDS.len(), HEIGHT, WIDTH, channels];
    assert_eq!(read(load()), (shape(1), expected.clone()));
    let colours = load().read_mode("mask", ImageReadMode::Rgb);
    let threefold = expected.iter().flat_map(|class| [*class; 3]).collect();
    assert_eq!(read(colours), (shape(3), threefold));

    let flip = || ops![RandomHorizontalFlip::new(0.5).unwrap()];
    let flipped = || load().pipeline("image", flip());
    assert_eq!(
        flipped().build().unwrap_err().to_string(),
        "field mask: it holds a mask: the class of each pixel, and does not follow the ops of image: declare it in \
         `targets`, or leave it out of the batches; a view of it has the stored values"
    );
    let blended = load().pipeline("mask", ops![Resize::new((14, 22)).unwrap()]);
    let error = blended.build().unwrap_err().to_string();
    assert!(error.contains("mask") && error.contains("nearest"), "{error}");
    for good in [
        flipped().targets("image", Targets::new().mask("mask", 255)),
        flipped().pipeline("mask", flip()).share_draws("mask", "image"),
        flipped().without("mask"),
        flipped().without("mask").view("stored", "mask", ops![]),
        load().pipeline("image", ops![Normalize::imagenet()]),
    ] {
        good.build().unwrap();
    }
}

/// A loader reads a field as a mask if it was written as one.
#[test]
fn a_dataset_knows_what_was_written_as_a_mask() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.beton");
    let fields = ["image", "mask"]
        .map(|name| FieldSpec { name: name.to_owned(), kind: FieldKind::RgbImage });
    let row = |sample: usize| {
        [image(sample), mask(sample, KINDS[2])]
            .map(|png| FieldValue::Image(ImageInput::JpegBytes(png)))
    };
    let rows = || (0..3).map(|sample| row(sample).to_vec());
    let of_mask = ImageOptions { write_mode: WriteMode::Mask, ..ImageOptions::default() };
    let images = [("mask".to_owned(), of_mask.clone())].into();
    let masks = WriteOptions { images, overwrite: true, ..WriteOptions::default() };
    let read = |path: &Path| {
        let batch = Loader::open(path).unwrap().batch_size(3).build().unwrap();
        let batch = batch.epoch(0).unwrap().next().unwrap().unwrap();
        let classes = batch.tensor::<u8>("mask").unwrap();
        (classes.shape()[3], classes.as_slice().to_vec())
    };
    let expected: Vec<u8> = (0..3 * HEIGHT * WIDTH)
        .map(|at| class(at / (HEIGHT * WIDTH), 4, at % (HEIGHT * WIDTH)))
        .collect();
    write_iter(rows(), &fields, &path, &masks).unwrap();
    assert_eq!(read(&path), (1, expected.clone()));
    let error = Loader::open(&path)
        .unwrap()
        .pipeline("image", ops![RandomHorizontalFlip::new(0.5).unwrap()]);
    assert!(error.build().unwrap_err().to_string().contains("declare it in `targets`"));
    // The file that replaces it has no masks.
    let colours = WriteOptions { overwrite: true, ..WriteOptions::default() };
    write_iter(rows(), &fields, &path, &colours).unwrap();
    assert_eq!(read(&path).0, 3);

    // A dataset of masks alone, which a conversion was told of.
    let alone = [fields[1].clone()];
    write_iter(rows().map(|row| row[1..].to_vec()), &alone, &path, &masks).unwrap();
    assert_eq!(read(&path), (1, expected.clone()));
    fs::remove_file(dir.path().join("x.beton.objects.json")).unwrap();
    let source = open(&path);
    for to in ["y.beton", "y.tar", "y.tfrecord"] {
        let to = dir.path().join(to);
        convert(&*source, &to, &options(of_mask.clone())).unwrap();
        let known = open(&to).object_fields().unwrap().unwrap();
        assert!(known.iter().all(|(_, field)| field == ObjectField::Mask), "{to:?}");
    }
    assert_eq!(read(&dir.path().join("y.beton")), (1, expected));
}

/// Returns the stored image of a field.
fn stored(source: &dyn Source, sample: u64, field: &str) -> OwnedImage {
    let record = source.read(SampleId(sample)).unwrap();
    match record.into_iter().nth(source.field_index(field).unwrap()).unwrap() {
        OwnedValue::Image(image) => image,
        other => panic!("{other:?}"),
    }
}

fn options(image: ImageOptions) -> WriteOptions {
    WriteOptions { image, ..WriteOptions::default() }
}

#[test]
fn class_numbers_are_the_same_after_any_chain_of_conversions() {
    let dir = tempfile::tempdir().unwrap();
    let (source, expected) = segmentation(dir.path());
    let first: Arc<dyn Source> = Arc::new(source);
    assert!(classes(Arc::clone(&first)) == expected);
    let mut source = first;
    let names =
        ["a.tar", "b.tar", "a.tfrecord", "a.beton", "b.beton", "c.tar", "c.beton", "b.tfrecord"];
    let parquet = ["a.parquet", "d.tar", "b.parquet"].into_iter();
    let mds = ["a/index.json", "b/index.json", "e.tar"].into_iter();
    let mds = mds.filter(|_| cfg!(feature = "mds"));
    for name in names.into_iter().chain(parquet.filter(|_| cfg!(feature = "parquet"))).chain(mds) {
        let path = dir.path().join(name);
        let report = convert(&*source, &path, &WriteOptions::default()).unwrap();
        assert!(
            report.reencoded.iter().all(|kind| !kind.is_lossy),
            "{name}: {:?}",
            report.reencoded
        );
        source = open(&path);
        let field = mask_of(&*source);
        assert_eq!(field, if name.ends_with(".tar") { "mask.png" } else { "mask" }, "{name}");
        assert!(classes(Arc::clone(&source)) == expected, "{name}");
        let checked = verify(&*source, &VerifyOptions::default(), &|_| ()).unwrap();
        assert!(checked.is_whole(), "{name}: {:?}", checked.first);
        if name == "b.tar" {
            let kept = stored(&*source, 0, &field).bytes;
            assert!(kept == mask(0, KINDS[0]), "the file of a mask stays as it is");
        }
        if name == "c.tar" {
            let file = stored(&*source, 0, &field).bytes;
            let reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
            assert_eq!(reader.info().color_type, ColorType::Grayscale, "pixels become a gray PNG");
        }
    }
}

/// The images become JPEGs, bit planes or pixels; their masks do not follow.
#[test]
fn options_for_images_leave_masks_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (source, expected) = segmentation(dir.path());
    let of =
        |mode| ImageOptions { write_mode: mode, jpeg_quality: Some(20), ..ImageOptions::default() };
    let planes = ImageOptions { bit_planes: true, ..of(WriteMode::Jpg) };
    let smart = of(WriteMode::Smart { smart_threshold: Some(0) });
    let all = [of(WriteMode::Jpg), planes, smart, of(WriteMode::Raw), of(WriteMode::Lossless)];
    for (number, image) in all.into_iter().enumerate() {
        for end in ["beton", "tar", "tfrecord"] {
            let path = dir.path().join(format!("{number}.{end}"));
            let report = convert(&source, &path, &options(image.clone())).unwrap();
            let written = open(&path);
            assert!(classes(Arc::clone(&written)) == expected, "{path:?}");
            let is_jpeg = number != 3;
            let lossy: u64 =
                report.reencoded.iter().filter(|kind| kind.is_lossy).map(|kind| kind.images).sum();
            assert_eq!(lossy, if is_jpeg { KINDS.len() as u64 } else { 0 }, "{path:?}");
        }
    }
    let image = ImageOptions { max_resolution: Some(5), ..ImageOptions::default() };
    for end in ["beton", "tar", "tfrecord"] {
        let path = dir.path().join(format!("smaller.{end}"));
        let error = convert(&source, &path, &options(image.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Parameter);
        assert!(error.to_string().contains("by a Resize of the loader"), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn masks_without_class_numbers_are_errors_of_their_sample() {
    let gray16 = |level: u16| {
        let levels: Vec<u8> = [level; HEIGHT * WIDTH].map(u16::to_be_bytes).concat();
        png(WIDTH, (ColorType::Grayscale, BitDepth::Sixteen), &levels)
    };
    let colour = png(WIDTH, (ColorType::Rgb, BitDepth::Eight), &[1, 2, 3].repeat(HEIGHT * WIDTH));
    for (bad, is_kept) in [(gray16(256), true), (colour, true), (b"no image".to_vec(), false)] {
        let dir = tempfile::tempdir().unwrap();
        let source = folder(dir.path(), &[("png", gray16(255)), ("png", bad.clone())]);
        let error = convert(&source, dir.path().join("a.beton"), &WriteOptions::default());
        let error = error.unwrap_err();
        assert_eq!((error.sample(), error.field()), (Some(SampleId(1)), Some("mask")), "{error}");
        // A file holds what pixels do not.
        let path = dir.path().join("a.tar");
        let report = convert(&source, &path, &WriteOptions::default());
        assert_eq!(report.is_ok(), is_kept, "{report:?}");
        if is_kept {
            assert!(stored(&*open(&path), 1, "mask.png").bytes == bad);
        }
        let checked = verify(&source, &VerifyOptions::default(), &|_| ()).unwrap();
        assert_eq!(checked.damaged_samples, 1);
        assert_eq!((checked.first[0].sample, &*checked.first[0].field), (SampleId(1), "mask"));
    }
}

#[test]
fn a_mask_of_another_size_than_its_image_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let gray = (ColorType::Grayscale, BitDepth::Eight);
    let small = png(WIDTH - 1, gray, &[3; HEIGHT * (WIDTH - 1)]);
    let source = folder(dir.path(), &[("png", mask(0, gray)), ("png", small)]);
    let checked = verify(&source, &VerifyOptions::default(), &|_| ()).unwrap();
    assert_eq!(checked.troubles.get(&DamageKind::Objects), Some(&1));
    let damaged = checked.first[0].to_string();
    assert!(damaged.contains("(mask): a mask of 10x7 for an image of 11x7"), "{damaged}");
}

#[cfg(all(feature = "tiff", feature = "webp"))]
#[test]
fn files_of_other_formats_stay_masks() {
    let golden = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        fs::read(path).unwrap()
    };
    for (extension, name, from) in [
        ("tif", "tiff/palette.tif", ImageMode::Tiff),
        ("webp", "webp/lossless_gray.webp", ImageMode::Webp),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let source = folder(dir.path(), &[(extension, golden(name))]);
        let image = ImageOptions { jpeg_quality: Some(20), ..ImageOptions::default() };
        let path = dir.path().join("a.tar");
        // The image becomes a JPEG, and its mask stays.
        let report = convert(&source, &path, &options(image)).unwrap();
        assert!(report.reencoded.iter().all(|kind| kind.from == ImageMode::Png), "{report:?}");
        let tar = open(&path);
        assert_eq!(mask_of(&*tar), format!("mask.{extension}"));
        assert!(stored(&*tar, 0, &mask_of(&*tar)).bytes == golden(name));
        let path = dir.path().join("a.beton");
        let report = convert(&*tar, &path, &WriteOptions::default()).unwrap();
        let kind = |from| Reencoded {
            from,
            to: ImageMode::Raw,
            is_lossy: false,
            images: 1,
            lost_orientations: 0,
        };
        assert!(report.reencoded.contains(&kind(from)), "{:?}", report.reencoded);
        assert_eq!(mask_of(&*open(&path)), "mask");
    }
    let dir = tempfile::tempdir().unwrap();
    let source = folder(dir.path(), &[("webp", golden("webp/lossy.webp"))]);
    for name in ["a.beton", "a.tar"] {
        let error = convert(&source, dir.path().join(name), &WriteOptions::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a lossy WebP blends the class numbers of a mask"), "{error}");
    }
}
