//! Lossless data stays lossless in every form, unless a lossy mode is requested by name.

use fuseloop::SampleId;
use fuseloop::source::{Dataset, ImageMode, OwnedImage, OwnedValue, Source};
use fuseloop::write::{ImageOptions, Reencoded, WriteMode, WriteOptions, WriteReport, convert};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const IMAGES: u64 = 6;

/// Pixels that no JPEG preserves.
fn pixels(n: u64) -> (u32, u32, Vec<u8>) {
    let (width, height) = (9 + n as u32, 17);
    let byte = |i: u32| (u64::from(i) * 2_654_435_761 % 251 + n * 40) as u8;
    (width, height, (0..width * height * 3).map(byte).collect())
}

fn png(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    // The settings differ from the converter's own, to show whether the bytes are copied.
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(png::Filter::Paeth);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
    bytes
}

/// A folder of PNGs in two classes.
fn folder(dir: &Path) {
    for n in 0..IMAGES {
        let class = dir.join(if n < 3 { "cat" } else { "dog" });
        fs::create_dir_all(&class).unwrap();
        let (width, height, pixels) = pixels(n);
        fs::write(class.join(format!("{n}.png")), png(width, height, &pixels)).unwrap();
    }
}

fn open(path: &Path) -> Arc<dyn Source> {
    Dataset::open(path).unwrap().source().unwrap()
}

fn image(source: &dyn Source, sample: u64) -> OwnedImage {
    let record = source.read(SampleId(sample)).unwrap();
    let found = record.into_iter().find_map(|value| match value {
        OwnedValue::Image(image) => Some(image),
        _ => None,
    });
    found.unwrap()
}

/// The pixels of a PNG, or of a raw image.
fn decoded(image: &OwnedImage) -> Vec<u8> {
    match image.mode {
        ImageMode::Raw => image.bytes.clone(),
        ImageMode::Png => {
            let mut reader =
                png::Decoder::new(std::io::Cursor::new(&image.bytes)).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            reader.next_frame(&mut pixels).unwrap();
            pixels
        }
        mode => panic!("{mode:?}"),
    }
}

fn assert_every_pixel(path: &Path, mode: ImageMode) {
    let source = open(path);
    assert_eq!(source.len(), IMAGES);
    for n in 0..IMAGES {
        let image = image(&*source, n);
        assert_eq!(image.mode, mode, "{path:?} {n}");
        assert!(decoded(&image) == pixels(n).2, "{path:?} {n}");
    }
}

fn to(src: &Path, dst: &Path, mode: WriteMode) -> WriteReport {
    let image = ImageOptions { write_mode: mode, ..ImageOptions::default() };
    let options = WriteOptions { image, max_samples: None, ..WriteOptions::default() };
    convert(&*open(src), dst, &options).unwrap()
}

fn count(from: ImageMode, to: ImageMode, is_lossy: bool) -> Vec<Reencoded> {
    vec![Reencoded { from, to, is_lossy, images: IMAGES, lost_orientations: 0 }]
}

#[test]
fn a_folder_of_pngs_keeps_every_pixel_through_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    folder(&at("photos"));
    let (raw, png) = (ImageMode::Raw, ImageMode::Png);
    let chain = [
        ("photos", "a.beton", raw, count(png, raw, false)),
        ("a.beton", "b", png, count(raw, png, false)),
        ("b", "c.tar", png, vec![]),
        ("c.tar", "d.tfrecord", png, vec![]),
        ("d.tfrecord", "e.beton", raw, count(png, raw, false)),
        ("e.beton", "f.tfrecord", png, count(raw, png, false)),
        ("e.beton", "g.beton", raw, vec![]),
        ("photos", "h.tar", png, vec![]),
        ("a.beton", "i.tfrecord", png, count(raw, png, false)),
        ("i.tfrecord", "j.beton", raw, count(png, raw, false)),
    ];
    for (src, dst, mode, reencoded) in chain {
        let report = to(&at(src), &at(dst), WriteMode::default());
        assert_eq!(report.reencoded, reencoded, "{src} to {dst}");
        assert_every_pixel(&at(dst), mode);
    }
    assert!(fs::read(at("a.beton")).unwrap() == fs::read(at("j.beton")).unwrap());
    // Where the bytes can be copied, they are: not only the pixels.
    let original = fs::read(at("photos/cat/0.png")).unwrap();
    assert!(image(&*open(&at("h.tar")), 0).bytes == original);
}

#[test]
fn a_mode_that_says_jpeg_is_lossy_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    folder(&at("photos"));
    to(&at("photos"), &at("raw.beton"), WriteMode::Raw);
    let (raw, jpeg, png) = (ImageMode::Raw, ImageMode::Jpeg, ImageMode::Png);
    for (name, src, from) in [("p", "photos", png), ("r", "raw.beton", raw)] {
        for dst in ["x.beton", "x.tar", "x.tfrecord", "x"] {
            let dst = at(&format!("{name}{dst}"));
            let report = to(&at(src), &dst, WriteMode::Jpg);
            assert_eq!(report.reencoded, count(from, jpeg, true), "{dst:?}");
            let source = open(&dst);
            assert!((0..IMAGES).all(|n| image(&*source, n).mode == jpeg), "{dst:?}");
        }
    }
    // JPEGs are copied in the mode of the same name, and decoding them to raw pixels loses nothing more.
    let report = to(&at("px"), &at("again.tar"), WriteMode::Jpg);
    assert_eq!(report.reencoded, vec![]);
    assert!(image(&*open(&at("px")), 0) == image(&*open(&at("again.tar")), 0));
    let report = to(&at("px"), &at("decoded.tar"), WriteMode::Raw);
    assert_eq!(report.reencoded, count(jpeg, png, false));
}

/// A conversion in parts draws the same random modes as one without.
#[test]
fn parts_draw_as_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    folder(&at("photos"));
    let source = open(&at("photos"));
    let mode = WriteMode::Proportion { compress_probability: 0.5 };
    let mut kinds = 0;
    for seed in 0..6 {
        let image = ImageOptions { write_mode: mode, seed, ..ImageOptions::default() };
        let options = WriteOptions { image, overwrite: true, ..WriteOptions::default() };
        let parts = WriteOptions { max_samples: Some(2), ..options.clone() };
        let whole = convert(&*source, at("whole.beton"), &options).unwrap();
        let parts = convert(&*source, at("parts.beton"), &parts).unwrap();
        assert_eq!(whole.reencoded, parts.reencoded);
        kinds = kinds.max(whole.reencoded.len());
        assert!(fs::read(at("whole.beton")).unwrap() == fs::read(at("parts.beton")).unwrap());
    }
    assert_eq!(kinds, 2, "no seed has some of both");
}

#[test]
fn a_quality_makes_jpegs_of_all_images_whose_bytes_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    folder(&at("photos"));
    let source = open(&at("photos"));
    let files: usize = (0..IMAGES).map(|n| image(&*source, n).bytes.len()).sum();
    let (plain, quality) = (ImageOptions::default(), Some(80));
    let tile = Some(fuseloop::recut::Tile::default());
    for (name, options, mode) in [
        ("a.beton", ImageOptions { jpeg_quality: quality, ..plain.clone() }, ImageMode::Jpeg),
        ("b.beton", ImageOptions { jpeg_quality: quality, tile, ..plain.clone() }, ImageMode::Jpeg),
        (
            "c.beton",
            ImageOptions { jpeg_quality: quality, bit_planes: true, ..plain.clone() },
            ImageMode::BitPlanes,
        ),
        ("d.tar", ImageOptions { jpeg_quality: quality, ..plain.clone() }, ImageMode::Jpeg),
    ] {
        let is_cut = options.tile.is_some() || options.bit_planes;
        let options = WriteOptions { image: options, ..WriteOptions::default() };
        let report = convert(&*source, at(name), &options).unwrap();
        assert_eq!(report.reencoded, count(ImageMode::Png, mode, true), "{name}");
        assert_eq!(report.recut, if is_cut { IMAGES } else { 0 }, "{name}");
        let written = open(&at(name));
        let images: Vec<_> = (0..IMAGES).map(|n| image(&*written, n)).collect();
        assert!(images.iter().all(|image| image.mode == mode), "{name}");
        let after: usize = images.iter().map(|image| image.bytes.len()).sum();
        let change = report.reencoded_bytes;
        assert_eq!((change.before, change.after), (files as u64, after as u64), "{name}");
    }
}
