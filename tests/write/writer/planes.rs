//! JPEGs stored as bit planes: every way into a file and back gives the same JPEGs, byte for byte, and FFCV
//! refuses the field.

use super::*;
use crate::common::dataset::{copy, recut};
use fuseloop::recut::{BitPlaneCodec, Tile};
use fuseloop::source::{Dataset, OwnedImage, Source as _};
use fuseloop::write::{UnchangedCause, WriteOptions, convert};

fn planes() -> ImageOptions {
    ImageOptions { bit_planes: true, ..ImageOptions::default() }
}

/// JPEGs of which bit planes are made, one that is cut short, a PNG's pixels, and a label.
fn rows() -> Vec<Row> {
    let whole = jpeg(90, 70, ColorType::Rgb);
    let images = [
        ImageInput::JpegBytes(whole.clone()),
        ImageInput::JpegBytes(jpeg(65, 40, ColorType::Luma)),
        rgb(20, 10, 3),
        ImageInput::JpegBytes(whole[..whole.len() / 2].to_vec()),
        ImageInput::JpegBytes(jpeg(7, 5, ColorType::Rgb)),
    ];
    let row = |(label, image)| vec![FieldValue::Image(image), FieldValue::Int(label)];
    (0..).zip(images).map(row).collect()
}

fn fields() -> [FieldSpec; 2] {
    [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)]
}

fn open(bytes: Vec<u8>) -> Beton {
    Beton::from_bytes(bytes, &OpenOptions::default()).unwrap()
}

fn image(beton: &Beton, id: u64) -> OwnedImage {
    match beton.owned(SampleId(id), 0).unwrap() {
        OwnedValue::Image(image) => image,
        other => panic!("{other:?}"),
    }
}

/// Writes the rows without the JPEG that is cut short, as they are and as bit planes.
fn both(dir: &Path) -> [PathBuf; 2] {
    let mut rows = rows();
    rows.remove(3);
    [("plain", ImageOptions::default()), ("planes", planes())].map(|(name, image)| {
        let path = dir.join(format!("{name}.beton"));
        write_iter(rows.clone(), &fields(), &path, &with_images(image)).unwrap();
        path
    })
}

#[test]
fn jpegs_become_bit_planes_and_what_can_not_is_listed() {
    let (bytes, report) = write_rows(&rows(), &fields(), &with_images(planes()));
    assert_eq!((report.samples, report.recut, report.unchanged.count), (5, 3, 1));
    assert_eq!(report.passed_through, 1);
    let unchanged = &report.unchanged.first[0];
    assert_eq!((unchanged.sample, &*unchanged.field), (SampleId(3), "image"));
    assert!(matches!(unchanged.cause, UnchangedCause::Jpeg(_)), "{:?}", unchanged.cause);

    let beton = open(bytes);
    assert_eq!(beton.facts().fields[0].kind, FieldKind::BitPlaneImage);
    let modes: Vec<ImageMode> = (0..5).map(|id| image(&beton, id).mode).collect();
    let (b, j, r) = (ImageMode::BitPlanes, ImageMode::Jpeg, ImageMode::Raw);
    assert_eq!(modes, [b, b, r, j, b]);
    let mut codec = BitPlaneCodec::new(Limits::DEFAULT);
    for id in [0, 1, 4] {
        let FieldValue::Image(ImageInput::JpegBytes(jpeg)) = &rows()[id as usize][0] else {
            panic!("a JPEG")
        };
        assert!(codec.unpack(&image(&beton, id).bytes).unwrap() == *jpeg, "{id}");
        assert!(codec.pack(jpeg, Tile::default()).unwrap() == image(&beton, id).bytes, "{id}");
    }
}

/// FFCV asks for the class of a field of type 255 and does not read the file without it. A reader that takes the
/// field for one of images, as FFCV's number 2 says, finds no mode that it knows.
#[test]
fn a_field_of_bit_planes_is_refused_by_other_readers() {
    let (mut bytes, _) = write_rows(&rows()[..1], &fields(), &with_images(planes()));
    let descriptor = 24;
    assert_eq!((bytes[descriptor], &bytes[descriptor + 1..descriptor + 6]), (255, &b"image"[..]));
    assert!(bytes[descriptor + 17..].starts_with(b"fuseloop bit planes\0"));
    bytes[descriptor] = 2;
    let beton = open(bytes.clone());
    let error = beton.owned(SampleId(0), 0).unwrap_err().to_string();
    assert!(error.contains("mode 2"), "{error}");
    (bytes[descriptor], bytes[descriptor + 17]) = (255, b'F');
    let error = Beton::from_bytes(bytes, &OpenOptions::default()).unwrap_err().to_string();
    assert!(error.contains("user-defined"), "{error}");
}

#[test]
fn a_file_is_unpacked_to_the_bytes_of_the_file_of_jpegs() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, planes] = both(dir.path());
    let [again, back, converted] =
        ["again", "back", "converted"].map(|name| dir.path().join(format!("{name}.beton")));
    let read = |path: &Path| fs::read(path).unwrap();
    let options = WriteOptions {
        image: ImageOptions { bit_planes: true, ..ImageOptions::default() },
        ..WriteOptions::default()
    };
    let report = recut(&plain, &again, &options).unwrap();
    assert_eq!((report.recut, report.unchanged.count), (3, 0));
    assert!(read(&again) == read(&planes));
    let report = recut(&planes, &back, &options).unwrap();
    assert_eq!((report.recut, read(&back) == read(&planes)), (0, true), "bit planes are copied");

    let error = copy(&planes, &back, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), fuseloop::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("set `overwrite: true`"), "{error}");
    let overwriting = WriteOptions { overwrite: true, ..WriteOptions::default() };
    copy(&planes, &back, &overwriting).unwrap();
    assert!(read(&back) == read(&plain));
    let source = open_dataset(&planes);
    let options = WriteOptions { page_size: Some(1 << 20), ..WriteOptions::default() };
    convert(&*source, &converted, &options).unwrap();
    assert!(read(&converted) == read(&plain));
    let error = copy(&planes, &planes, &WriteOptions::default()).unwrap_err().to_string();
    assert!(error.contains("choose a different output"), "{error}");
}

fn open_dataset(path: &Path) -> Arc<dyn fuseloop::source::Source> {
    match Dataset::open(path).unwrap() {
        Dataset::Beton(beton) => beton,
        _ => panic!("a .beton"),
    }
}

#[test]
fn damaged_bit_planes_are_an_error_or_left_out_when_they_are_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let [_, planes] = both(dir.path());
    let mut bytes = fs::read(&planes).unwrap();
    let first = image(&open(bytes.clone()), 0).bytes;
    let at = bytes.windows(first.len()).position(|window| window == first).unwrap();
    bytes[at + first.len() / 2] ^= 1;
    fs::write(&planes, bytes).unwrap();
    let out = dir.path().join("out.beton");
    let error = copy(&planes, &out, &WriteOptions::default()).unwrap_err().to_string();
    assert!(error.contains("sample 0") && error.contains("damaged bit-plane image"), "{error}");
    let options = WriteOptions { on_damaged: OnUnreadable::Skip, ..WriteOptions::default() };
    let report = copy(&planes, &out, &options).unwrap();
    assert_eq!((report.samples, report.skipped.count), (3, 1));
}

#[test]
fn tar_shards_have_bit_planes_only_if_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, planes_file] = both(dir.path());
    for (options, name, member) in
        [(ImageOptions::default(), "a", ".jpg"), (planes(), "b", ".fplanes")]
    {
        let shards = dir.path().join(format!("{name}-{{000}}.tar"));
        let options = WriteOptions { image: options, ..WriteOptions::default() };
        convert(&*open_dataset(&planes_file), &shards, &options).unwrap();
        let shard = dir.path().join(format!("{name}-000.tar"));
        let bytes = fs::read(&shard).unwrap();
        let members = bytes.windows(member.len()).filter(|part| *part == member.as_bytes());
        assert_eq!(members.count(), 3, "{name}");
        // The PNG that raw pixels become in a tar is raw in a .beton again.
        let Dataset::Source(source) = Dataset::open(&shard).unwrap() else { panic!("a source") };
        let back = dir.path().join(format!("{name}.beton"));
        let options = WriteOptions { page_size: Some(1 << 20), ..WriteOptions::default() };
        convert(&*source, &back, &options).unwrap();
        let [back, plain] = [&back, &plain].map(|path| open(fs::read(path).unwrap()));
        for id in 0..4 {
            assert!(image(&back, id) == image(&plain, id), "{name}, {id}");
        }
    }
}

#[test]
fn a_sample_that_bit_planes_make_too_large_for_its_page_keeps_its_jpeg() {
    let coarse = |side: u16| {
        let (pixels, mut out) = (noise(3 * usize::from(side).pow(2), 1), Vec::new());
        Encoder::new(&mut out, 20).encode(&pixels, side, side, ColorType::Rgb).unwrap();
        out
    };
    let jpeg = (40..200)
        .map(coarse)
        .find(|jpeg| {
            let planes = BitPlaneCodec::new(Limits::DEFAULT).pack(jpeg, Tile::default()).unwrap();
            jpeg.len() <= PAGE as usize && planes.len() > PAGE as usize
        })
        .expect("a JPEG that fits a page alone");
    let rows = [vec![FieldValue::Image(ImageInput::JpegBytes(jpeg.clone()))]];
    let options = WriteOptions { image: planes(), ..options() };
    let (bytes, report) = write_rows(&rows, &[field("x", FieldKind::RgbImage)], &options);
    assert!(matches!(report.unchanged.first[0].cause, UnchangedCause::Page { .. }));
    let stored = image(&open(bytes), 0);
    assert_eq!((stored.mode, stored.bytes == jpeg), (ImageMode::Jpeg, true));
}

#[test]
fn a_folder_of_bit_planes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let [photos, out] = ["photos", "out"].map(|name| dir.path().join(name));
    std::fs::create_dir(&photos).unwrap();
    let options = WriteOptions {
        image: ImageOptions { bit_planes: true, ..ImageOptions::default() },
        ..WriteOptions::default()
    };
    let error = fuseloop::write::recut_folder(&photos, &out, &options).unwrap_err().to_string();
    assert!(error.contains("bit planes are stored in .beton files"), "{error}");
    assert!(!out.exists());
}
