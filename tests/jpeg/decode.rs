//! Promises of the decoder: the right pixels or an error, for any window and any bytes.

use crate::common::jpegs::{Plain, oriented, progressive};
use crate::common::photographs::photographs;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop::sample::Limits;
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop::{Error, ErrorKind};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::ImageView;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::path::Path;

/// The size of the goldens that are not FFCV's.
const GOLDEN: Size = Size::new(37, 45);

/// Goldens decoded by libjpeg-turbo's accurate IDCT.
const ACCURATE: &[&str] = &[
    "444",
    "440",
    "441",
    "422",
    "420",
    "421",
    "411",
    "410",
    "440_doubled",
    "rgb",
    "gray",
    "gray_2x2",
    "cmyk",
    "ycck",
    "ycck_420",
    "440_restart",
    "420_restart",
    "444_progressive",
    "420_progressive",
    "444_separate",
    "422_separate",
    "411_separate",
];

/// The accurate goldens that have a single scan: windows of them are decoded in part.
fn single_scans() -> impl Iterator<Item = &'static str> {
    ACCURATE.iter().copied().filter(|n| !n.ends_with("_separate") && !n.ends_with("_progressive"))
}

/// Goldens decoded by FFCV, with the sizes that its file records.
const FFCV: &[(&str, Size)] = &[
    ("ffcv_all_fields_0", Size::new(32, 48)),
    ("ffcv_all_fields_1", Size::new(40, 40)),
    ("ffcv_all_fields_2", Size::new(48, 32)),
    ("ffcv_images_proportion_4", Size::new(33, 77)),
    ("ffcv_images_smart_0", Size::new(40, 60)),
    ("ffcv_images_smart_1", Size::new(64, 64)),
    ("ffcv_images_smart_5", Size::new(32, 64)),
];

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/jpeg");
    std::fs::read(folder.join(name)).unwrap()
}

fn jpeg(bytes: &[u8], size: Size) -> EncodedImage<'_> {
    EncodedImage { mode: ImageMode::Jpeg, width: size.width, height: size.height, bytes }
}

/// A JPEG whose size the source does not know.
fn unmeasured(bytes: &[u8]) -> EncodedImage<'_> {
    jpeg(bytes, Size::new(0, 0))
}

/// The pixels of `window`, packed.
fn pixels(
    decoder: &mut Decoder,
    image: &EncodedImage<'_>,
    window: Window,
) -> Result<Vec<u8>, Error> {
    let decoded = decoder.decode(image, window)?;
    let view = decoded.window(window).expect("at least the window");
    Ok((0..window.height).flat_map(|y| view.row(y).to_vec()).collect())
}

fn whole(decoder: &mut Decoder, image: &EncodedImage<'_>) -> Result<Vec<u8>, Error> {
    let size = decoder.size(image)?;
    pixels(decoder, image, size.full())
}

fn part(whole: &[u8], size: Size, window: Window) -> Vec<u8> {
    let view = ImageView::packed(whole, size).unwrap().crop(window).unwrap();
    (0..window.height).flat_map(|y| view.row(y).to_vec()).collect()
}

/// The largest and the mean difference.
fn difference(a: &[u8], b: &[u8]) -> (u8, f64) {
    assert_eq!(a.len(), b.len());
    let differences = || a.iter().zip(b).map(|(a, b)| a.abs_diff(*b));
    let sum: f64 = differences().map(f64::from).sum();
    (differences().max().unwrap_or(0), sum / a.len() as f64)
}

/// The pixels that zune-jpeg decodes from the unchanged file.
fn undisturbed(bytes: &[u8]) -> Vec<u8> {
    let options = zune_core::options::DecoderOptions::new_fast();
    let options = options.jpeg_set_out_colorspace(zune_core::colorspace::ColorSpace::RGB);
    let cursor = zune_core::bytestream::ZCursor::new(bytes);
    zune_jpeg::JpegDecoder::new_with_options(cursor, options).decode().unwrap()
}

fn random_window(size: Size, rng: &mut impl Rng) -> Window {
    let height = 1 + rng.next_u32() % size.height;
    let width = 1 + rng.next_u32() % size.width;
    let top = rng.next_u32() % (size.height - height + 1);
    let left = rng.next_u32() % (size.width - width + 1);
    Window { top, left, height, width }
}

#[test]
fn every_kind_of_jpeg_has_libjpegs_pixels() {
    let mut decoder = Decoder::default();
    for name in ACCURATE {
        let bytes = golden(&format!("{name}.jpg"));
        let found = whole(&mut decoder, &jpeg(&bytes, GOLDEN)).unwrap();
        let (max, mean) = difference(&found, &golden(&format!("{name}.rgb")));
        println!("{name}: largest difference {max}, mean {mean:.3}");
        // Both IDCTs are accurate; the filters of subsampled chroma round differently.
        assert!(max <= 3 && mean < 0.5, "{name}: {max}, mean {mean}");
    }
}

#[test]
fn ffcvs_files_have_ffcvs_pixels_but_for_its_fast_idct() {
    let mut decoder = Decoder::default();
    for &(name, size) in FFCV {
        let bytes = golden(&format!("{name}.jpg"));
        let found = whole(&mut decoder, &jpeg(&bytes, size)).unwrap();
        let (max, mean) = difference(&found, &golden(&format!("{name}.rgb")));
        println!("{name}: largest difference {max}, mean {mean:.3}");
        // libjpeg-turbo's accurate IDCT differs by 3 from its fast one here; 2 more for another
        // decoder. The mean is the fast IDCT's bias.
        assert!(max <= 5 && mean < 1.2, "{name}: {max}, mean {mean}");
    }
}

#[test]
fn any_window_has_the_pixels_of_the_whole_picture() {
    for (by, name) in
        ACCURATE.iter().flat_map(|name| [(JpegBackend::Both, name), (JpegBackend::Zune, name)])
    {
        // zune-jpeg decodes some of these wrong, and inks to other colours than Pillow.
        if by == JpegBackend::Zune && name.ends_with("_separate") {
            continue;
        }
        let mut decoder = Decoder::with_backend(by, DecodeOptions::default());
        let bytes = golden(&format!("{name}.jpg"));
        let expected = whole(&mut decoder, &jpeg(&bytes, GOLDEN)).unwrap();
        if !name.contains('k') {
            assert!(expected == undisturbed(&bytes), "{name}");
        }
        for (top, end) in
            (0..GOLDEN.height).flat_map(|top| (top + 1..=37).map(move |end| (top, end)))
        {
            let window = Window { top, left: top, height: end - top, width: GOLDEN.width - top };
            let found = pixels(&mut decoder, &jpeg(&bytes, GOLDEN), window).unwrap();
            assert!(found == part(&expected, GOLDEN, window), "{name}: rows {top}..{end}");
        }
    }
}

#[test]
fn no_more_rows_are_decoded_than_a_window_needs() {
    let mut decoder = Decoder::with_backend(JpegBackend::Zune, DecodeOptions::default());
    for (name, end, decoded) in
        [("444", 8, 8), ("444", 9, 16), ("420", 15, 16), ("420", 16, 32), ("420", 33, 37)]
    {
        let bytes = golden(&format!("{name}.jpg"));
        let window = Window { top: end - 1, left: 0, height: 1, width: 1 };
        let size = decoder.decode(&jpeg(&bytes, GOLDEN), window).unwrap().view.size();
        assert_eq!(size, Size::new(decoded, GOLDEN.width), "{name}, row {end} wanted");
    }
}

/// A JPEG of noise on a gradient, with a restart marker every `interval` MCUs.
fn restarting(size: Size, sampling: Option<SamplingFactor>, interval: u16) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(interval.into());
    let values = size.pixels() as usize * sampling.map_or(1, |_| 3);
    let pixels: Vec<u8> =
        (0..values).map(|i| (i / 97 % 191) as u8 + rng.next_u32() as u8 % 64).collect();
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 80);
    encoder.set_restart_interval(interval);
    encoder.set_sampling_factor(sampling.unwrap_or(SamplingFactor::R_4_4_4));
    let color = sampling.map_or(ColorType::Luma, |_| ColorType::Rgb);
    encoder.encode(&pixels, size.width as u16, size.height as u16, color).unwrap();
    bytes
}

#[test]
fn windows_cut_along_restart_markers_have_the_pixels_of_the_whole_picture() {
    use SamplingFactor as S;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut decoder = Decoder::with_backend(JpegBackend::Zune, DecodeOptions::default());
    let samplings = [S::R_4_4_4, S::R_4_4_0, S::R_4_2_2, S::R_4_2_0].map(Some);
    for size in [Size::new(101, 192), Size::new(64, 187), Size::new(37, 45), Size::new(200, 8)] {
        for sampling in samplings.into_iter().chain([None]) {
            for interval in [1, 2, 3, 4, 5, 6, 12, 23, 24, 36, 48, 1000] {
                let bytes = restarting(size, sampling, interval);
                let [loaded, zune] = Plain::both(&bytes);
                for _ in 0..25 {
                    let window = random_window(size, &mut rng);
                    let both = [(&mut decoder, &zune), (&mut Decoder::default(), &loaded)];
                    for (decoder, expected) in both {
                        let found = pixels(decoder, &jpeg(&bytes, size), window).unwrap();
                        let same = found == expected.crop(window);
                        assert!(same, "{size} {sampling:?} interval {interval}: {window:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn photographs_decode_and_their_windows_are_those_of_the_whole() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut decoder = Decoder::default();
    for (i, path) in photographs().iter().enumerate() {
        let bytes = std::fs::read(path).unwrap();
        let size = decoder.size(&unmeasured(&bytes)).unwrap();
        let image = jpeg(&bytes, size);
        let expected = Plain::loaded(&bytes).rgb;
        let found = whole(&mut decoder, &image).unwrap();
        assert!(found == expected, "{}", path.display());
        for _ in 0..if i < 50 { 4 } else { 0 } {
            let window = random_window(size, &mut rng);
            let found = pixels(&mut decoder, &image, window).unwrap();
            assert!(found == part(&expected, size, window), "{} {window:?}", path.display());
        }
    }
}

/// Small JPEGs are cut at every byte. Bytes behind the end marker do not belong to the image.
#[test]
fn a_file_cut_short_anywhere_is_refused() {
    let mut decoder = Decoder::default();
    for name in ACCURATE.iter().chain(FFCV.iter().map(|(name, _)| name)) {
        let bytes = golden(&format!("{name}.jpg"));
        for len in 0..bytes.len() - 1 {
            let found = whole(&mut decoder, &unmeasured(&bytes[..len]));
            assert!(found.is_err(), "{name} cut to {len} of {} bytes", bytes.len());
        }
    }
}

/// The worst case of an interrupted copy: the remaining file looks complete.
#[test]
fn a_file_cut_short_and_ended_anew_is_refused_or_right() {
    let mut decoder = Decoder::default();
    for name in single_scans().filter(|name| !name.ends_with("_restart")) {
        let mut bytes = golden(&format!("{name}.jpg"));
        let expected = undisturbed(&bytes);
        let data = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
        let mut wrong = 0;
        for len in (data..bytes.len() - 2).rev() {
            bytes.truncate(len);
            bytes.extend_from_slice(&[0xff, 0xd9]);
            if let Ok(found) = whole(&mut decoder, &unmeasured(&bytes)) {
                println!("{name} cut to {len}: {:?}", difference(&found, &expected));
                wrong += u32::from(found != expected);
            }
        }
        // The last code's own bits can't be distinguished from one bits.
        assert!(wrong <= 1, "{name}: wrong pixels for {wrong} lengths");
    }
}

#[test]
fn bytes_behind_the_picture_are_left_alone() {
    let mut decoder = Decoder::default();
    for name in ACCURATE {
        let mut bytes = golden(&format!("{name}.jpg"));
        let expected = whole(&mut decoder, &jpeg(&bytes, GOLDEN)).unwrap();
        bytes.extend_from_slice(b"\xff\xd8 a preview, or whatever the camera adds \xff\xda\xff");
        assert!(whole(&mut decoder, &jpeg(&bytes, GOLDEN)).unwrap() == expected, "{name}");
    }
}

/// Bytes are changed at random: the result is an image or an error,
/// and it never holds pixels of another image.
#[test]
fn a_damaged_file_never_panics_and_never_shows_another_picture() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let options = DecodeOptions { limits: Limits::SMALL, exif_orientation: true };
    let mut a = Decoder::new(options);
    let white = golden("444.jpg");
    let (mut decoded, mut refused) = (0, 0);
    for name in ACCURATE {
        let bytes = golden(&format!("{name}.jpg"));
        for _ in 0..600 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + rng.next_u32() % 3 {
                let at = rng.next_u32() as usize % bytes.len();
                bytes[at] = rng.next_u32() as u8;
            }
            whole(&mut a, &jpeg(&white, GOLDEN)).unwrap();
            let image = unmeasured(&bytes);
            let Ok(size) = a.size(&image) else {
                refused += 1;
                continue;
            };
            let window = random_window(size, &mut rng);
            let found = pixels(&mut a, &image, window);
            match &found {
                Ok(_) => decoded += 1,
                Err(_) => refused += 1,
            }
            let bare = pixels(&mut Decoder::new(options), &image, window);
            let read = |found: Result<Vec<u8>, Error>| found.map_err(|error| error.to_string());
            assert!(read(found) == read(bare), "{name}: depends on what was decoded before");
        }
    }
    println!("{decoded} decoded, {refused} refused");
    assert!(decoded > 0 && refused > 0);
}

#[test]
fn a_header_that_asks_for_too_much_is_refused_at_once() {
    let mut decoder = Decoder::default();
    let bytes = golden("420.jpg");
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    let sized = |height: u16, width: u16| {
        let mut bytes = bytes.clone();
        bytes[frame + 5..frame + 7].copy_from_slice(&height.to_be_bytes());
        bytes[frame + 7..frame + 9].copy_from_slice(&width.to_be_bytes());
        bytes
    };
    let start = std::time::Instant::now();
    let huge = whole(&mut decoder, &unmeasured(&sized(65535, 65535))).unwrap_err();
    assert_eq!(huge.kind(), ErrorKind::Damaged);
    assert_eq!(huge.to_string(), "65535x65535 is 4294836225 pixels, the limit is 178956970");
    for (height, width) in [(1, 65535), (65535, 1), (13000, 13000), (1000, 1000)] {
        let error = whole(&mut decoder, &unmeasured(&sized(height, width))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{height}x{width}: {error}");
        let expected =
            format!("bytes of pixels cannot be an image of {width}x{height}, which needs ");
        assert!(error.to_string().contains(&expected), "{height}x{width}: {error}");
    }
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());

    let error = whole(&mut decoder, &unmeasured(&sized(0, 45))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(error.to_string(), "a JPEG without a height in its header (DNL) is not supported");
    let error = whole(&mut decoder, &unmeasured(&sized(37, 0))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(error.to_string(), "the image is 0x37: it has no pixels");
    let limits = Limits { max_sample_bytes: 100, ..Limits::DEFAULT };
    let mut strict = Decoder::new(DecodeOptions { limits, ..DecodeOptions::default() });
    let error = whole(&mut strict, &unmeasured(&bytes)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let expected = format!("{} bytes are stored, the limit is 100", bytes.len());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn kinds_that_would_be_decoded_wrong_are_refused_by_name() {
    let mut decoder = Decoder::default();
    let error = whole(&mut decoder, &unmeasured(&golden("arithmetic.jpg"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a JPEG with arithmetic coding (marker ffc9) is not supported: only sequential and progressive Huffman coding is"
    );
    for (bytes, expected) in [
        (&b"\x89PNG"[..], "not a JPEG: it is a PNG"),
        (b"", "not an image: the file is empty"),
        (b"BM\x36\x0c\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0", "not a JPEG: it is a BMP"),
        (b"GIF89a", "not a JPEG: it is a GIF"),
        (
            b"\0\0\0\x1cftypavif",
            "not a JPEG: it is an AVIF, which is not read: convert it, for example by `magick in.avif out.png`",
        ),
        (b"\x01\x02", "not an image of a known format: it begins with [01, 02]"),
        (b"%PDF-1.4", "not a JPEG: it is a PDF, which is not read"),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "not a JPEG: it is a pointer of Git LFS, whose file `git lfs pull` downloads",
        ),
    ] {
        let error = whole(&mut decoder, &unmeasured(bytes)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn missing_scans_and_restart_markers_are_noticed() {
    let mut decoder = Decoder::default();
    let mut bytes = golden("444_separate.jpg");
    let last = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
    bytes.truncate(last);
    bytes.extend_from_slice(&[0xff, 0xd9]);
    let error = whole(&mut decoder, &unmeasured(&bytes)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(error.to_string(), "JPEG component 2 has no scan");

    let mut bytes = golden("440_restart.jpg");
    let marker = bytes.windows(2).position(|pair| pair == [0xff, 0xd3]).unwrap();
    bytes.drain(marker..marker + 2);
    let error = whole(&mut decoder, &unmeasured(&bytes)).unwrap_err();
    assert!(error.to_string().ends_with("is RST4, expected RST3"), "{error}");
}

/// libjpeg leaves out as many segments as a number is ahead, and reads on where the numbers meet again: other pixels, with
/// no more than a warning.
#[test]
fn restart_markers_of_other_numbers_are_damage() {
    for name in ["440_restart.jpg", "420_progressive.jpg"] {
        let bytes = golden(name);
        let mut decoder = Decoder::default();
        let first = bytes.windows(2).position(|pair| pair == [0xff, 0xd1]);
        let Some(first) = first else {
            // No restart interval: any marker is one too many.
            let scan = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
            let at = scan + 20 + bytes[scan + 20..].iter().position(|&byte| byte < 0xff).unwrap();
            let with_one = [&bytes[..at], &[0xff, 0xd0], &bytes[at..]].concat();
            let error = whole(&mut decoder, &unmeasured(&with_one)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
            let expected = "the JPEG has 1 restart markers, but its restart interval requires 0";
            assert_eq!(error.to_string(), expected);
            continue;
        };
        let mut other = bytes;
        other[first + 1] = 0xd3;
        let error = whole(&mut decoder, &unmeasured(&other)).unwrap_err();
        assert!(error.to_string().ends_with("is RST3, expected RST1"), "{error}");
    }
}

/// An additional restart marker means that bytes were changed or inserted; but some encoders also end
/// the last segment with one.
#[test]
fn a_restart_marker_too_many_is_noticed_unless_it_is_the_last() {
    let mut decoder = Decoder::default();
    let bytes = golden("440_restart.jpg");
    let expected = whole(&mut decoder, &unmeasured(&bytes)).unwrap();
    let with_one_at = |at: usize| [&bytes[..at], &[0xff, 0xd0], &bytes[at..]].concat();
    let middle = bytes.windows(2).position(|pair| pair == [0xff, 0xd3]).unwrap() + 9;
    let error = whole(&mut decoder, &unmeasured(&with_one_at(middle))).unwrap_err();
    assert!(error.to_string().ends_with("is RST0, expected RST4"), "{error}");
    let last = with_one_at(bytes.len() - 2);
    assert!(whole(&mut decoder, &unmeasured(&last)).unwrap() == expected);
}

#[test]
fn a_size_other_than_the_tables_is_an_error_that_names_both() {
    let mut decoder = Decoder::default();
    let bytes = golden("422.jpg");
    let image = jpeg(&bytes, Size::new(38, 45));
    let expected = "the JPEG's header says 45x37, the sample table 45x38";
    assert_eq!(decoder.size(&image).unwrap_err().to_string(), expected);
    assert_eq!(decoder.decode(&image, GOLDEN.full()).unwrap_err().to_string(), expected);
}

#[test]
fn a_window_outside_or_without_pixels_is_an_error() {
    let mut decoder = Decoder::default();
    let (bytes, raw) = (golden("422.jpg"), vec![0; 37 * 45 * 3]);
    for image in [
        jpeg(&bytes, GOLDEN),
        EncodedImage { mode: ImageMode::Raw, bytes: &raw, ..jpeg(&raw, GOLDEN) },
    ] {
        for window in [
            Window { top: 1, ..GOLDEN.full() },
            Window { left: u32::MAX, ..GOLDEN.full() },
            Window { width: 0, ..GOLDEN.full() },
        ] {
            let error = decoder.decode(&image, window).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{text}");
            let start = format!("window of rows {}..", window.top);
            let end = format!(" is empty or outside the image of {GOLDEN}");
            assert!(text.starts_with(&start) && text.ends_with(&end), "{text}");
        }
    }
}

#[test]
fn raw_pixels_are_the_files_own_bytes() {
    let mut decoder = Decoder::default();
    let bytes: Vec<u8> = (0..2 * 3 * 3).collect();
    let image = EncodedImage { mode: ImageMode::Raw, width: 3, height: 2, bytes: &bytes };
    let window = Window { top: 1, left: 1, height: 1, width: 2 };
    let decoded = decoder.decode(&image, window).unwrap();
    assert_eq!(decoded.view.data().as_ptr(), bytes.as_ptr());
    assert_eq!(decoded.window(window).unwrap().row(0), [12, 13, 14, 15, 16, 17]);

    let error = decoder.size(&EncodedImage { height: 3, ..image }).unwrap_err();
    assert_eq!(error.to_string(), "a raw image of 3x3 needs 27 bytes, 18 are stored");
    let error = decoder.size(&EncodedImage { height: 0, ..image }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(error.to_string(), "the image is 3x0: it has no pixels");
    let error = decoder.size(&EncodedImage { width: u32::MAX, height: u32::MAX, ..image });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains(" pixels, the limit is "), "{error}");
}

#[test]
fn pictures_are_turned_as_exif_says_if_asked_to() {
    let options = DecodeOptions { exif_orientation: true, ..DecodeOptions::default() };
    let (mut turning, mut plain) = (Decoder::new(options), Decoder::default());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let upright = undisturbed(&golden("420.jpg"));
    let stored = ImageView::packed(&upright, GOLDEN).unwrap();
    let (bottom, right) = (GOLDEN.height - 1, GOLDEN.width - 1);
    for orientation in 0..=9 {
        let bytes = oriented(&golden("420.jpg"), orientation);
        let image = jpeg(&bytes, GOLDEN);
        assert!(whole(&mut plain, &image).unwrap() == upright, "not asked to, {orientation}");

        let from = |y: u32, x: u32| match orientation {
            2 => (y, right - x),
            3 => (bottom - y, right - x),
            4 => (bottom - y, x),
            5 => (x, y),
            6 => (bottom - x, y),
            7 => (bottom - x, right - y),
            8 => (x, right - y),
            _ => (y, x),
        };
        let turned = matches!(orientation, 5..=8);
        let size = if turned { Size::new(45, 37) } else { GOLDEN };
        assert_eq!(turning.size(&image).unwrap(), size, "orientation {orientation}");
        for window in [size.full(), random_window(size, &mut rng), random_window(size, &mut rng)] {
            let decoded = turning.decode(&image, window).unwrap();
            let view = decoded.window(window).unwrap();
            for (y, x) in (0..window.height).flat_map(|y| (0..window.width).map(move |x| (y, x))) {
                let (row, column) = from(window.top + y, window.left + x);
                let expected = &stored.row(row)[column as usize * 3..][..3];
                assert_eq!(&view.row(y)[x as usize * 3..][..3], expected, "{orientation}: {y} {x}");
            }
        }
    }
}

/// zune-jpeg 0.5.15 reads beyond its components where a marker of Adobe behind the frame's header promises four: it is not
/// shown such markers.
#[test]
fn a_gray_picture_is_gray_whatever_a_marker_of_adobe_says() {
    let gray = progressive(&golden("gray.jpg"));
    let frame = gray.windows(2).position(|marker| marker == [0xff, 0xc2]).unwrap();
    let length = usize::from(u16::from_be_bytes([gray[frame + 2], gray[frame + 3]]));
    let (before, after) = gray.split_at(frame + 2 + length);
    let adobe = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x02";
    let mut decoder = Decoder::default();
    let bytes = [before, adobe, after].concat();
    let [found, expected] = [&bytes, &gray]
        .map(|bytes| pixels(&mut decoder, &unmeasured(bytes), GOLDEN.full()).unwrap());
    assert!(found == expected);
}

/// Progressive images have the colours of the same markers and ids in sequential ones.
#[test]
fn a_progressive_pictures_colours_are_those_of_a_sequential_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strangers/jpeg");
    let mut decoder = Decoder::default();
    for name in ["adobe1_ids_RGB", "adobe_short", "cmyk_adobe1", "jfif+adobe0", "jfif_ids_RGB"] {
        let path = folder.join(format!("colour-{name}/a/colour-{name}.jpg"));
        let sequential = std::fs::read(path).unwrap();
        let ended = |jpeg: &[u8], marker: u8| {
            jpeg.windows(2).position(|two| two == [0xff, marker]).unwrap()
        };
        // The markers and the ids of the sequential image before the tables of the progressive one.
        let again = progressive(&sequential);
        let frame = ended(&sequential, 0xc0);
        let mut bytes = sequential[..frame].to_vec();
        let components = usize::from(sequential[frame + 9]);
        bytes.extend([0xff, 0xc2]);
        bytes.extend(&sequential[frame + 2..frame + 10 + 3 * components]);
        let own = ended(&again, 0xc2);
        let mut rest = again[own + 10 + 3 * components..].to_vec();
        let ids: Vec<[u8; 2]> = (0..components)
            .map(|n| [again[own + 10 + 3 * n], sequential[frame + 10 + 3 * n]])
            .collect();
        let scans: Vec<usize> =
            (0..rest.len() - 4).filter(|&at| rest[at..at + 2] == [0xff, 0xda]).collect();
        for at in scans {
            for n in 0..usize::from(rest[at + 4]) {
                let id = &mut rest[at + 5 + 2 * n];
                *id = ids.iter().find(|[from, _]| from == id).unwrap()[1];
            }
        }
        bytes.extend(rest);
        let [found, expected] =
            [&bytes, &sequential].map(|bytes| whole(&mut decoder, &unmeasured(bytes)).unwrap());
        assert!(found == expected, "{name}");
    }
}
