//! Images: passed through unchanged, resized, raw or JPEG.

use super::*;
use fuseloop::recut::Tile;
use fuseloop::source::{Dataset, Folder, FolderOptions, Labels, OpenOptions, Source};
use fuseloop::write::{Reencoded, WriteOptions, convert};
use fuseloop_ops::Size;
use fuseloop_ops::internals::{ImageView, area};

#[test]
fn a_jpeg_is_stored_as_it_is_unless_something_else_is_asked_for() {
    for (color, name) in [(ColorType::Rgb, "rgb"), (ColorType::Luma, "gray")] {
        let original = jpeg(60, 40, color);
        let store = |image| stored(ImageInput::JpegBytes(original.clone()), image);
        for verify in [false, true] {
            let got = store(ImageOptions { verify, ..ImageOptions::default() });
            assert!(got == (ImageMode::Jpeg, 60, 40, original.clone()), "{name}");
        }
        let got = store(ImageOptions { max_resolution: Some(60), ..ImageOptions::default() });
        assert!(got.3 == original, "{name}: not larger than max_resolution");
        let again = store(ImageOptions { jpeg_quality: Some(80), ..ImageOptions::default() });
        assert!(again.0 == ImageMode::Jpeg && again.3 != original, "{name}: encoded anew");
        let small = store(ImageOptions { max_resolution: Some(30), ..ImageOptions::default() });
        assert_eq!((small.0, small.1, small.2), (ImageMode::Jpeg, 30, 20), "{name}");
    }
}

/// A few pictures of ImageNet are CMYK.
#[test]
fn a_jpeg_of_cmyk_is_stored_as_its_pixels_or_as_rgb_and_counted() {
    let original = jpeg(30, 20, ColorType::Cmyk);
    let fields = [field("image", FieldKind::RgbImage)];
    let rows = [vec![FieldValue::Image(ImageInput::JpegBytes(original.clone()))]];
    let raw = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let (.., pixels) = stored(ImageInput::JpegBytes(original.clone()), raw);
    for (mode, tile, to, is_lossy) in [
        (WriteMode::Lossless, None, ImageMode::Raw, false),
        (WriteMode::Lossless, Some(Tile::default()), ImageMode::Raw, false),
        (WriteMode::Jpg, None, ImageMode::Jpeg, true),
    ] {
        let image = ImageOptions { write_mode: mode, tile, ..ImageOptions::default() };
        let (bytes, report) = write_rows(&rows, &fields, &with_images(image));
        let from = ImageMode::Jpeg;
        let want = Reencoded { from, to, is_lossy, images: 1, lost_orientations: 0 };
        assert_eq!((report.reencoded, report.passed_through), (vec![want], 0), "{mode:?}");
        let beton = Beton::from_bytes(bytes, &OpenOptions::default()).unwrap();
        let Ok(OwnedValue::Image(image)) = beton.owned(SampleId(0), 0) else { panic!("no image") };
        assert_eq!((image.mode, image.width, image.height), (to, 30, 20), "{mode:?}");
        assert!(image.bytes == pixels || to == ImageMode::Jpeg, "{mode:?}");
    }
}

#[test]
fn a_jpeg_of_cmyk_stays_in_files_and_becomes_pixels_in_a_beton() {
    let dir = tempfile::tempdir().unwrap();
    let original = jpeg(30, 20, ColorType::Cmyk);
    fs::create_dir_all(dir.path().join("photos/a")).unwrap();
    fs::write(dir.path().join("photos/a/1.jpg"), &original).unwrap();
    let options = FolderOptions::default().label(Labels::Folder);
    let photos: Arc<dyn Source> =
        Arc::new(Folder::open(dir.path().join("photos"), &options).unwrap());
    let image = |dst: &str, image: ImageOptions| {
        let dst = dir.path().join(dst);
        let options = WriteOptions { image, ..WriteOptions::default() };
        let report = convert(&*photos, &dst, &options).unwrap();
        let source = Dataset::open(&dst).unwrap().source().unwrap();
        let record = source.read(SampleId(0)).unwrap();
        let Some(OwnedValue::Image(image)) = record.into_iter().next() else { panic!("no image") };
        (report.reencoded.len(), image.mode, image.bytes)
    };
    let verified = ImageOptions { verify: true, ..ImageOptions::default() };
    assert!(image("x.tar", ImageOptions::default()) == (0, ImageMode::Jpeg, original.clone()));
    assert!(image("y.tar", verified) == (0, ImageMode::Jpeg, original.clone()));
    let (reencoded, mode, bytes) = image("x.beton", ImageOptions::default());
    assert_eq!((reencoded, mode, bytes.len()), (1, ImageMode::Raw, 30 * 20 * 3));
    let quality = ImageOptions { jpeg_quality: Some(95), ..ImageOptions::default() };
    let (reencoded, mode, bytes) = image("z.tar", quality);
    assert!(reencoded == 1 && bytes != original, "{mode:?}");
}

#[test]
fn raw_pixels_are_resized_by_area() {
    let (width, height) = (97, 41);
    let pixels = noise(97 * 41 * 3, 5);
    let input = ImageInput::Rgb { pixels: pixels.clone(), width, height };
    let options = |max| ImageOptions {
        write_mode: WriteMode::Raw,
        max_resolution: max,
        ..ImageOptions::default()
    };
    assert!(stored(input.clone(), options(None)) == (ImageMode::Raw, 97, 41, pixels.clone()));
    assert!(stored(input.clone(), options(Some(97))) == (ImageMode::Raw, 97, 41, pixels.clone()));
    let source = ImageView::packed(&pixels, Size::new(height, width)).unwrap();
    // 50.0 / 97.0 * 97.0 is 49.99999999999999 in doubles, and FFCV truncates it as Fuseloop does.
    let want = area::resize(source, Size::new(21, 49)).unwrap();
    assert!(stored(input.clone(), options(Some(50))) == (ImageMode::Raw, 49, 21, want));
    let got = stored(rgb(1000, 2, 1), options(Some(10)));
    assert_eq!((got.1, got.2), (10, 1), "a side is never less than a pixel");
}

#[test]
fn smart_stores_a_jpeg_above_the_threshold() {
    let mode = |threshold| ImageOptions {
        write_mode: WriteMode::Smart { smart_threshold: threshold },
        ..ImageOptions::default()
    };
    let raw_bytes = 20 * 10 * 3;
    for (threshold, want) in [
        (None, ImageMode::Raw),
        (Some(raw_bytes), ImageMode::Raw),
        (Some(raw_bytes - 1), ImageMode::Jpeg),
    ] {
        assert_eq!(stored(rgb(20, 10, 1), mode(threshold)).0, want, "{threshold:?}");
        let jpeg = ImageInput::JpegBytes(jpeg(20, 10, ColorType::Rgb));
        assert_eq!(stored(jpeg, mode(threshold)).0, want, "{threshold:?}");
    }
}

#[test]
fn a_proportion_is_kept_and_depends_on_the_seed() {
    let fields = [field("x", FieldKind::RgbImage), field("y", FieldKind::RgbImage)];
    let rows: Vec<Row> = (0..2000)
        .map(|seed| vec![FieldValue::Image(rgb(2, 2, seed)), FieldValue::Image(rgb(2, 2, seed))])
        .collect();
    let modes = |seed| {
        let mode = WriteMode::Proportion { compress_probability: 0.25 };
        let (bytes, _) = write_rows(
            &rows,
            &fields,
            &with_images(ImageOptions { write_mode: mode, seed, ..ImageOptions::default() }),
        );
        let beton = Beton::from_bytes(bytes, &OpenOptions::default()).unwrap();
        let is_jpeg = |id, k| matches!(beton.owned(id, k), Ok(OwnedValue::Image(image)) if image.mode == ImageMode::Jpeg);
        [0, 1].map(|k| beton.samples().map(|id| is_jpeg(id, k)).collect::<Vec<_>>())
    };
    let [x, y] = modes(1);
    let share = |modes: &[bool]| modes.iter().filter(|&&jpeg| jpeg).count();
    // The expected number is 500 of 2000, with a standard deviation of 19.
    assert!((420..580).contains(&share(&x)) && (420..580).contains(&share(&y)));
    assert_ne!(x, y, "the fields draw apart");
    assert_ne!(x, modes(2)[0]);
    assert_eq!(x, modes(1)[0]);
}

#[test]
fn images_too_large_for_the_format_are_refused_unless_they_are_made_smaller() {
    let fields = [field("x", FieldKind::RgbImage)];
    let rows = [vec![FieldValue::Image(rgb(65_536, 1, 1))]];
    let message = error_of(&rows, &fields, &options());
    assert_eq!(
        message,
        "sample 0: field \"x\": 65536x1 pixels: a side of at most 65535 can be stored, max_resolution makes it smaller"
    );
    let small = ImageOptions { max_resolution: Some(100), ..ImageOptions::default() };
    assert_eq!(stored(rgb(65_536, 1, 1), small).1, 100);
    let wrong = ImageInput::Rgb { pixels: vec![0; 10], width: 2, height: 2 };
    let message = error_of(&[vec![FieldValue::Image(wrong)]], &fields, &options());
    assert_eq!(message, "sample 0: field \"x\": 10 bytes of pixels, 2x2 RGB pixels need 12");
    let empty = ImageInput::Rgb { pixels: vec![], width: 0, height: 2 };
    let message = error_of(&[vec![FieldValue::Image(empty)]], &fields, &options());
    assert_eq!(message, "sample 0: field \"x\": 0x2 pixels: an image needs at least one");
}
