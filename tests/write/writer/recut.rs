//! Re-cut JPEGs: no pixel changes, JPEGs that can't be re-cut stay unchanged, and nothing depends on the
//! number of threads.

use super::*;
use crate::common::dataset::{self, write_folder};
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::recut::{Recutter, Tile};
use fuseloop::source::OpenOptions;
use fuseloop::source::OwnedImage;
use fuseloop::source::Source as _;
use fuseloop::write::{RecutFolderReport, UnchangedCause, WriteOptions, recut_folder};
use std::collections::BTreeMap;

/// Options that store all images as JPEGs.
fn jpegs() -> ImageOptions {
    ImageOptions { write_mode: WriteMode::Jpg, ..ImageOptions::default() }
}

fn tiled(tile: Tile) -> ImageOptions {
    ImageOptions { tile: Some(tile), ..jpegs() }
}

fn recut(jpeg: &[u8], tile: Tile) -> Vec<u8> {
    Recutter::new(tile, Limits::DEFAULT).recut(jpeg).unwrap()
}

/// The pixels of an image as the loader decodes it; `None` if it is damaged.
fn pixels(image: &OwnedImage) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(DecodeOptions::default());
    let value = OwnedValue::Image(image.clone());
    let Value::Image(image) = value.borrowed() else { panic!("an image") };
    let size = decoder.size(&image).ok()?;
    let decoded = decoder.decode(&image, size.full()).ok()?;
    let view = decoded.window(size.full()).unwrap();
    Some((0..size.height).flat_map(|y| view.row(y).to_vec()).collect())
}

fn interval(jpeg: &[u8]) -> Option<u16> {
    let at = jpeg.windows(4).position(|bytes| bytes == [0xff, 0xdd, 0, 4])?;
    Some(u16::from_be_bytes([jpeg[at + 4], jpeg[at + 5]]))
}

/// Asserts that every value of `again` equals that of `file`, except for the coding of JPEGs. Returns
/// the number of JPEGs that are coded differently.
fn assert_same_values(file: &Beton, again: &Beton) -> u64 {
    assert_eq!(
        (&file.facts().fields, file.facts().samples),
        (&again.facts().fields, again.facts().samples)
    );
    let mut differing = 0;
    for id in file.samples() {
        for (index, field) in file.facts().fields.iter().enumerate() {
            let [a, b] = [file, again].map(|beton| beton.owned(id, index).unwrap());
            if let (OwnedValue::Image(a), OwnedValue::Image(b)) = (&a, &b)
                && a.mode == ImageMode::Jpeg
            {
                assert_eq!((a.mode, a.width, a.height), (b.mode, b.width, b.height), "{id}");
                assert!(pixels(a) == pixels(b), "sample {id} ({})", field.name);
                differing += u64::from(a.bytes != b.bytes);
            } else if let (OwnedValue::Float(a), OwnedValue::Float(b)) = (&a, &b) {
                assert_eq!(a.to_bits(), b.to_bits(), "sample {id} ({})", field.name);
            } else {
                assert!(a == b, "sample {id} ({})", field.name);
            }
        }
    }
    differing
}

fn golden() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/beton");
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ext| ext == "beton")).collect();
    files.sort();
    files
}

/// JPEGs of all kinds, some of which can't be re-cut.
fn mixed(dir: &Path) -> Vec<Row> {
    let whole = jpeg(90, 70, ColorType::Rgb);
    fs::write(dir.join("whole.jpg"), &whole).unwrap();
    fs::write(dir.join("cut.jpg"), &whole[..whole.len() / 2]).unwrap();
    let images = [
        ImageInput::Path(dir.join("whole.jpg")),
        ImageInput::JpegBytes(jpeg(65, 40, ColorType::Luma)),
        rgb(80, 50, 3),
        ImageInput::Path(dir.join("cut.jpg")),
        ImageInput::JpegBytes(jpeg(7, 5, ColorType::Rgb)),
    ];
    images.into_iter().cycle().take(40).map(|image| vec![FieldValue::Image(image)]).collect()
}

#[test]
fn jpegs_are_re_cut_whether_given_or_encoded_here_and_others_are_kept_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let rows = &mixed(dir.path())[..5];
    let fields = [field("x", FieldKind::RgbImage)];
    let (plain, _) = write_rows(rows, &fields, &with_images(jpegs()));
    let (bytes, report) = write_rows(rows, &fields, &with_images(tiled(Tile::Pixels(32))));
    assert_eq!((report.samples, report.recut, report.unchanged.count), (5, 4, 1));
    assert_eq!(report.passed_through, 1, "the one that is kept");
    let unchanged = &report.unchanged.first[0];
    assert_eq!((unchanged.sample, &*unchanged.field), (SampleId(3), "x"));
    assert_eq!(unchanged.path, Some(dir.path().join("cut.jpg")));
    assert!(matches!(unchanged.cause, UnchangedCause::Jpeg(_)), "{:?}", unchanged.cause);

    let [plain, beton] =
        [plain, bytes].map(|bytes| Beton::from_bytes(bytes, &OpenOptions::default()).unwrap());
    let image = |id: u64| match beton.owned(SampleId(id), 0).unwrap() {
        OwnedValue::Image(image) => image.bytes,
        other => panic!("{other:?}"),
    };
    assert_eq!(assert_same_values(&plain, &beton), 4);
    assert!(image(3) == fs::read(dir.path().join("cut.jpg")).unwrap());
    assert!(image(0) == recut(&fs::read(dir.path().join("whole.jpg")).unwrap(), Tile::default()));
    assert!([0, 1, 2, 4].iter().all(|&id| interval(&image(id)).is_some()));
    let after: usize = [0, 1, 2, 4].iter().map(|&id| image(id).len()).sum();
    assert_eq!(report.recut_bytes.after, after as u64);
}

#[test]
fn a_damaged_jpeg_is_damage_if_verified_and_cmyk_becomes_rgb() {
    let dir = tempfile::tempdir().unwrap();
    let rows = mixed(dir.path());
    let fields = [field("x", FieldKind::RgbImage)];
    let verified = ImageOptions { verify: true, ..tiled(Tile::default()) };
    let message = error_of(&rows, &fields, &with_images(verified.clone()));
    assert!(message.starts_with("sample 3 (") && message.contains("cut.jpg"), "{message}");
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..with_images(verified) };
    let (_, report) = write_rows(&rows, &fields, &skip);
    assert_eq!((report.recut, report.unchanged.count, report.skipped.count), (32, 0, 8));

    let cmyk = vec![FieldValue::Image(ImageInput::JpegBytes(jpeg(8, 8, ColorType::Cmyk)))];
    let (_, report) = write_rows(&[cmyk], &fields, &with_images(tiled(Tile::default())));
    assert_eq!((report.reencoded[0].images, report.reencoded[0].is_lossy), (1, true));
}

#[test]
fn the_tiled_file_is_the_same_for_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let rows = mixed(dir.path());
    let fields = [field("x", FieldKind::RgbImage)];
    let written = |threads| {
        let image = ImageOptions {
            write_mode: WriteMode::Proportion { compress_probability: 0.7 },
            ..tiled(Tile::Pixels(16))
        };
        // The truncated JPEG can be copied, but not be stored as pixels.
        let on_damaged = OnUnreadable::Skip;
        let threads = NonZeroUsize::new(threads);
        let options = WriteOptions { threads, on_damaged, ..with_images(image) };
        let (bytes, report) = write_rows(&rows, &fields, &options);
        (bytes, report.recut, report.unchanged, report.skipped.count)
    };
    let one = written(1);
    assert!(one.1 > 0 && one.2.count > 0);
    assert!([2, 8].iter().all(|&threads| written(threads) == one));
}

#[test]
fn each_mode_stores_the_same_pixels_with_tiles_and_without() {
    let rows: Vec<Row> = (0..30)
        .map(|n| vec![FieldValue::Image(ImageInput::JpegBytes(jpeg(40 + n, 30, ColorType::Rgb)))])
        .collect();
    let fields = [field("x", FieldKind::RgbImage)];
    for mode in [
        WriteMode::Raw,
        WriteMode::Jpg,
        WriteMode::Smart { smart_threshold: Some(55 * 30 * 3) },
        WriteMode::Proportion { compress_probability: 0.5 },
    ] {
        for (max_resolution, quality) in [(None, None), (Some(48), None), (None, Some(70))] {
            let plain = ImageOptions {
                write_mode: mode,
                max_resolution,
                jpeg_quality: quality,
                ..ImageOptions::default()
            };
            let cut = ImageOptions { tile: Some(Tile::Pixels(16)), ..plain.clone() };
            let [plain, cut] = [plain, cut].map(|image| {
                let (bytes, report) = write_rows(&rows, &fields, &with_images(image));
                (Beton::from_bytes(bytes, &OpenOptions::default()).unwrap(), report)
            });
            assert_eq!(assert_same_values(&plain.0, &cut.0), cut.1.recut, "{mode:?}");
            assert_eq!((plain.1.recut, cut.1.unchanged.count), (0, 0), "{mode:?}");
            match mode {
                WriteMode::Raw => assert_eq!(cut.1.recut, 0),
                WriteMode::Jpg => assert_eq!(cut.1.recut, 30),
                _ => {}
            }
        }
    }
}

#[test]
fn a_jpeg_is_kept_where_markers_would_push_its_sample_out_of_the_page() {
    let packed = recut(&jpeg(60, 60, ColorType::Rgb), Tile::Row);
    let grown = recut(&packed, Tile::Pixels(8));
    assert!(packed.len() < grown.len());
    let page_size = packed.len().next_power_of_two() as u32;
    let fields = [field("x", FieldKind::RgbImage), field("b", FieldKind::Bytes)];
    let options = |image| WriteOptions { page_size: Some(page_size), ..with_images(image) };
    let row = |room: usize| {
        let image = ImageInput::JpegBytes(packed.clone());
        vec![FieldValue::Image(image), FieldValue::Bytes(vec![7; page_size as usize - room])]
    };
    let (_, report) = write_rows(&[row(grown.len())], &fields, &options(tiled(Tile::Pixels(8))));
    assert_eq!((report.recut, report.unchanged.count), (1, 0));
    let rows = [row(packed.len())];
    let (bytes, report) = write_rows(&rows, &fields, &options(tiled(Tile::Pixels(8))));
    assert_eq!((report.recut, report.unchanged.count, report.passed_through), (0, 1, 1));
    let size = (page_size as usize + grown.len() - packed.len()) as u64;
    assert_eq!(report.unchanged.first[0].cause, UnchangedCause::Page { size, page_size });
    assert!(bytes == write_rows(&rows, &fields, &options(ImageOptions::default())).0);
}

#[test]
fn ffcv_s_own_files_are_re_cut_with_every_value_and_again_to_the_same_bytes() {
    let (_dir, out) = temp();
    let again = out.with_file_name("again.beton");
    let overwriting = WriteOptions { overwrite: true, ..WriteOptions::default() };
    let (mut files, mut cut) = (0, 0);
    for path in golden() {
        let Ok(beton) = Beton::open(&path, &OpenOptions::default()) else {
            let error = dataset::recut(&path, &out, &overwriting).unwrap_err();
            assert!(error.to_string().contains("is user-defined"), "{error}");
            continue;
        };
        let report = dataset::recut(&path, &out, &overwriting).unwrap();
        let written = Beton::open(&out, &OpenOptions::default()).unwrap();
        assert_eq!(assert_same_values(&beton, &written), report.recut, "{path:?}");
        assert_eq!(written.header().page_size, beton.header().page_size);
        assert_eq!(
            (report.samples, report.unchanged.count),
            (beton.facts().samples, 0),
            "{path:?}"
        );
        let second = dataset::recut(&out, &again, &overwriting).unwrap();
        assert_eq!(second.recut, report.recut);
        assert!(fs::read(&out).unwrap() == fs::read(&again).unwrap(), "{path:?}");
        (files, cut) = (files + 1, cut + report.recut);
    }
    assert!(files > 5 && cut > 5, "{files} files, {cut} JPEGs");
}

#[test]
fn a_file_of_every_kind_of_field_keeps_what_cannot_be_re_cut() {
    let mut fields = all_fields();
    fields.retain(|field| field.name != "mine");
    fields.push(field("second", FieldKind::RgbImage));
    let mut u = arbitrary::Unstructured::new(&[7; 4096]);
    let rows: Vec<Row> = (0..20)
        .map(|n| {
            let mut row = arbitrary_row(&mut u).unwrap();
            row.pop();
            // An image that no decoder reads, and one that is raw.
            let (mode, width, height) = (ImageMode::Jpeg, 9, 9);
            row.push(FieldValue::Image(match n % 3 {
                0 => ImageInput::Stored(OwnedImage { mode, width, height, bytes: vec![n; 5] }),
                1 => rgb(9, 9, n.into()),
                _ => ImageInput::JpegBytes(jpeg(40, 30, ColorType::Rgb)),
            }));
            row
        })
        .collect();
    let (dir, path) = temp();
    let image = ImageOptions {
        write_mode: WriteMode::Smart { smart_threshold: Some(9 * 9 * 3) },
        ..ImageOptions::default()
    };
    let images = BTreeMap::from([("second".to_owned(), image)]);
    let options = WriteOptions { images, page_size: Some(1 << 16), ..options() };
    write_iter(rows, &fields, &path, &options).unwrap();
    let cut = |threads, name: &str| {
        let out = dir.path().join(name);
        let threads = NonZeroUsize::new(threads);
        let report =
            dataset::recut(&path, &out, &WriteOptions { threads, ..WriteOptions::default() })
                .unwrap();
        (out, report)
    };
    let (out, report) = cut(3, "b.beton");
    let [file, written] =
        [&path, &out].map(|path| Beton::open(path, &OpenOptions::default()).unwrap());
    assert_eq!(assert_same_values(&file, &written), report.recut);
    assert_eq!(report.unchanged.count, 7);
    assert!(report.unchanged.first.iter().all(|jpeg| jpeg.field == "second"));
    assert!(report.unchanged.first.iter().all(|jpeg| jpeg.sample.0 % 3 == 0));
    assert!(fs::read(cut(1, "c.beton").0).unwrap() == fs::read(&out).unwrap());

    let error = dataset::recut(&path, &path, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), fuseloop::ErrorKind::Parameter, "{error}");
    assert!(error.to_string().contains("is an input of this command"), "{error}");
    assert!(error.to_string().contains("choose a different output"), "{error}");
}

#[test]
fn a_value_that_cannot_be_read_ends_it_or_is_left_out() {
    let (dir, path) = temp();
    let fields = [field("x", FieldKind::RgbImage), field("i", FieldKind::Int)];
    let row = |n| {
        let image = ImageInput::JpegBytes(jpeg(20, 20, ColorType::Rgb));
        vec![FieldValue::Image(image), FieldValue::Int(n)]
    };
    write_iter((0..3).map(row), &fields, &path, &options()).unwrap();
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[beton.header().sample_table_start() as usize + beton.row_bytes()] = 9;
    fs::write(&path, bytes).unwrap();

    let out = dir.path().join("b.beton");
    let error = dataset::recut(&path, &out, &WriteOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("sample 1 ("), "{error}");
    assert!(error.contains("sample 1 (x): image mode 9, expected 0 (JPEG) or 1 (raw)"), "{error}");
    assert!(!out.exists());
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..WriteOptions::default() };
    let report = dataset::recut(&path, &out, &skip).unwrap();
    assert_eq!((report.samples, report.recut, report.skipped.count), (2, 2, 1));
    let written = Beton::open(&out, &OpenOptions::default()).unwrap();
    assert_eq!(written.owned(SampleId(1), 1).unwrap(), OwnedValue::Int(2));
}

/// A folder with every kind of entry, of which a copy must be the same except for JPEGs.
fn folder(dir: &Path) -> PathBuf {
    let src = dir.join("src");
    let whole = jpeg(90, 70, ColorType::Rgb);
    for (name, bytes) in [
        ("a/1.jpg", whole.clone()),
        ("a/deep/er/2.JPEG", jpeg(33, 44, ColorType::Luma)),
        ("a/no_extension", jpeg(50, 50, ColorType::Rgb)),
        ("b/cut.jpg", whole[..whole.len() / 2].to_vec()),
        ("b/text.jpg", b"not a picture".to_vec()),
        ("b/empty.jpg", vec![]),
        ("b/notes.txt", noise(700_000, 1)),
        (".hidden", vec![1]),
        ("top.csv", b"a,b".to_vec()),
    ] {
        let path = src.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    fs::create_dir(src.join("c_without_any")).unwrap();
    src
}

/// The contents of a folder: files with their bytes, directories without.
fn all_below(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(next) = open.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(dir).unwrap().to_owned();
            found.insert(name, path.is_file().then(|| fs::read(&path).unwrap()));
            open.extend(path.is_dir().then_some(path));
        }
    }
    found
}

fn mirrored(src: &Path, dst: &Path, threads: usize) -> RecutFolderReport {
    let threads = NonZeroUsize::new(threads);
    let options = WriteOptions { threads, overwrite: true, ..WriteOptions::default() };
    recut_folder(src, dst, &options).unwrap()
}

#[test]
fn a_folder_is_mirrored_with_its_jpegs_re_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (src, dst) = (folder(dir.path()), dir.path().join("new/dst"));
    let report = mirrored(&src, &dst, 3);
    assert_eq!((report.recut, report.unchanged.count, report.copied), (3, 3, 2));
    let unchanged: Vec<&Path> =
        report.unchanged.first.iter().map(|file| file.path.as_path()).collect();
    assert_eq!(unchanged, ["b/cut.jpg", "b/empty.jpg", "b/text.jpg"].map(|name| src.join(name)));

    let mut want = all_below(&src);
    want.remove(Path::new(".hidden"));
    let sum = |files: &BTreeMap<_, Option<Vec<u8>>>| -> u64 {
        files.values().flatten().map(|bytes| bytes.len() as u64).sum()
    };
    assert_eq!(report.bytes.before, sum(&want));
    for name in ["a/1.jpg", "a/deep/er/2.JPEG", "a/no_extension"] {
        let bytes = want.get_mut(Path::new(name)).unwrap();
        *bytes = bytes.as_ref().map(|bytes| recut(bytes, Tile::default()));
    }
    assert_eq!(report.bytes.after, sum(&want));
    assert!(all_below(&dst) == want);

    // A second run gives the same result over existing files and over those of a killed run.
    fs::write(dst.join("a/1.jpg"), "old").unwrap();
    let left = dst.join(".fuseloop-dead.partial");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("lock"), "").unwrap();
    for threads in [1, 8] {
        let again = mirrored(&src, &dst, threads);
        assert_eq!((again.recut, &again.unchanged), (3, &report.unchanged));
        assert!(all_below(&dst) == want, "{threads}");
    }
}

#[test]
fn photographs_decode_to_the_same_pixels_from_a_tiled_file_and_a_mirrored_folder() {
    let Some(all) = shared().map(|dir| dir.join("data/imagenet")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    fs::create_dir(&src).unwrap();
    let mut files: Vec<PathBuf> =
        fs::read_dir(&all).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().step_by(files.len() / 20) {
        fs::copy(file, src.join(file.file_name().unwrap())).unwrap();
    }
    let write = |from: &Path, name: &str, image| {
        let path = dir.path().join(name);
        let options = WriteOptions { page_size: Some(1 << 23), ..with_images(image) };
        let report = write_folder(from, &path, &options).unwrap();
        (Beton::open(&path, &OpenOptions::default()).unwrap(), report)
    };
    let (plain, _) = write(&src, "plain.beton", ImageOptions::default());
    let (cut, report) = write(&src, "cut.beton", tiled(Tile::default()));
    assert_eq!(assert_same_values(&plain, &cut), report.recut);
    assert_eq!((report.recut, report.unchanged.count), (plain.facts().samples, 0));

    let mirror = mirrored(&src, &dst, 2);
    assert_eq!((mirror.recut, mirror.recut_bytes), (report.recut, report.recut_bytes));
    write(&dst, "mirror.beton", ImageOptions::default());
    let again = dir.path().join("again.beton");
    dataset::recut(plain.facts().path.as_ref().unwrap(), again, &WriteOptions::default()).unwrap();
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(read("cut.beton") == read("mirror.beton"), "three ways to the same file");
    assert!(read("cut.beton") == read("again.beton"), "three ways to the same file");
}

#[test]
fn a_copy_inside_its_original_is_refused_and_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let src = folder(dir.path());
    let before = all_below(&src);
    for dst in [src.clone(), src.join("a"), src.join("new/er"), src.join("a/../b/x")] {
        let error = recut_folder(&src, &dst, &WriteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), fuseloop::ErrorKind::Parameter, "{error}");
        assert!(error.to_string().ends_with("choose a folder outside"), "{error}");
    }
    assert!(all_below(&src) == before);
    let missing = recut_folder(src.join("no"), dir.path().join("x"), &WriteOptions::default());
    let missing = missing.unwrap_err();
    assert_eq!(missing.kind(), fuseloop::ErrorKind::NotFound, "{missing}");
    assert_eq!(missing.path(), Some(&*src.join("no")));
    assert!(!dir.path().join("x").exists());
}

#[test]
fn nothing_that_exists_is_replaced_unless_it_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let src = folder(dir.path());
    let dst = dir.path().join("dst");
    mirrored(&src, &dst, 2);
    fs::write(dst.join("a/1.jpg"), "mine").unwrap();
    let before = all_below(&dst);
    // The second folder contains the original.
    for dst in [&dst, &dir.path().to_owned()] {
        let error = recut_folder(&src, dst, &WriteOptions::default()).unwrap_err();
        assert!(error.to_string().contains("is not empty"), "{error}");
        assert_eq!(error.kind(), fuseloop::ErrorKind::AlreadyExists);
    }
    assert!(all_below(&dst) == before);
    let overwriting = WriteOptions { overwrite: true, ..WriteOptions::default() };
    recut_folder(&src, &dst, &overwriting).unwrap();
    assert!(fs::read(dst.join("a/1.jpg")).unwrap() != b"mine");

    // A folder without files, or with what a killed writer left, is as good as none.
    let empty = dir.path().join("empty");
    fs::create_dir_all(empty.join("a")).unwrap();
    fs::create_dir_all(empty.join(".fuseloop-dead.partial")).unwrap();
    recut_folder(&src, &empty, &WriteOptions::default()).unwrap();
    assert!(all_below(&empty) == all_below(&dst));

    let [beton, copy] = ["x.beton", "y.beton"].map(|name| dir.path().join(name));
    // What is damaged, and a table that could have the labels.
    fs::remove_dir_all(src.join("b")).unwrap();
    fs::remove_file(src.join("top.csv")).unwrap();
    write_folder(&src, &beton, &WriteOptions::default()).unwrap();
    fs::write(&copy, "mine").unwrap();
    let error = dataset::recut(&beton, &copy, &WriteOptions::default()).unwrap_err();
    assert_eq!(error.kind(), fuseloop::ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("set `overwrite: true`"), "{error}");
    assert_eq!(fs::read(&copy).unwrap(), b"mine");
    dataset::recut(&beton, &copy, &overwriting).unwrap();
    assert!(fs::read(&copy).unwrap() != b"mine");
}

#[cfg(unix)]
#[test]
fn links_are_followed_in_the_original_and_refused_in_the_copy() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let src = folder(dir.path());
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("x.jpg"), jpeg(20, 20, ColorType::Rgb)).unwrap();
    symlink(&other, src.join("linked")).unwrap();
    symlink(&src, src.join("loop")).unwrap();
    symlink(dir.path().join("nowhere"), src.join("dead")).unwrap();
    let before = all_below(&other);

    let dst = dir.path().join("dst");
    let report = mirrored(&src, &dst, 2);
    // The ignored entries are `.hidden`, the loop and the dead link.
    assert_eq!((report.recut, report.ignored.count), (4, 3));
    assert!(!fs::symlink_metadata(dst.join("linked")).unwrap().is_symlink());
    assert!(dst.join("linked/x.jpg").is_file() && !dst.join("loop").exists());

    // A destination with links that lead back to the original is refused.
    let links = dir.path().join("links");
    fs::create_dir(&links).unwrap();
    symlink(&other, links.join("linked")).unwrap();
    let overwriting = WriteOptions { overwrite: true, ..WriteOptions::default() };
    let error = recut_folder(&src, &links, &overwriting).unwrap_err();
    assert_eq!(error.kind(), fuseloop::ErrorKind::Parameter, "{error}");
    assert!(error.to_string().contains("is a symbolic link, expected a folder"), "{error}");
    // A link that leads anywhere else is refused, too, before anything is written.
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_file(links.join("linked")).unwrap();
    symlink(&elsewhere, links.join("linked")).unwrap();
    let error = recut_folder(&src, &links, &overwriting).unwrap_err().to_string();
    assert!(error.contains("linked\" is a symbolic link, expected a folder"), "{error}");
    assert!(all_below(&elsewhere).is_empty() && fs::read_dir(&links).unwrap().count() == 1);
    fs::remove_file(links.join("linked")).unwrap();
    fs::create_dir_all(links.join("a")).unwrap();
    symlink(src.join("a/1.jpg"), links.join("a/1.jpg")).unwrap();
    let error = recut_folder(&src, &links, &overwriting).unwrap_err().to_string();
    assert!(error.contains("1.jpg\" exists and is not a regular file"), "{error}");
    assert!(all_below(&other) == before);
}
