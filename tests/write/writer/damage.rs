//! Damaged samples, hostile files, and sources that fail.

use super::*;
use fuseloop::source::OpenOptions;
use fuseloop::source::Source as _;
use std::time::{Duration, Instant};

/// Rows in which the first sample and the last are whole; the others are damaged, each in a different manner.
fn damaged_files(dir: &Path) -> Vec<Row> {
    let whole = jpeg(30, 20, ColorType::Rgb);
    let cut = whole[..whole.len() / 2].to_vec();
    fs::write(dir.join("0.jpg"), &whole).unwrap();
    fs::write(dir.join("2.jpg"), "not a picture").unwrap();
    fs::write(dir.join("3.jpg"), [0xff, 0xd8, 7]).unwrap();
    fs::write(dir.join("4.jpg"), "").unwrap();
    fs::create_dir(dir.join("5.jpg")).unwrap();
    fs::write(dir.join("6.jpg"), &cut[..20]).unwrap();
    fs::write(dir.join("7.jpg"), cut).unwrap();
    fs::write(dir.join("8.jpg"), &whole).unwrap();
    (0..9)
        .map(|n| {
            vec![
                FieldValue::Image(ImageInput::Path(dir.join(format!("{n}.jpg")))),
                FieldValue::Int(n),
            ]
        })
        .collect()
}

#[test]
fn damaged_images_fail_or_are_skipped_and_listed() {
    let dir = tempfile::tempdir().unwrap();
    let rows = damaged_files(dir.path());
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let message = error_of(&rows, &fields, &options());
    let prefix =
        format!("sample 1 ({:?}): field \"image\": cannot read it: ", dir.path().join("1.jpg"));
    assert!(message.starts_with(&prefix), "{message}");

    let image = ImageOptions { verify: true, ..ImageOptions::default() };
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, image, ..options() };
    let (bytes, report) = write_rows(&rows, &fields, &skip);
    let beton = Beton::from_bytes(bytes, &OpenOptions::default()).unwrap();
    assert_eq!((beton.facts().samples, report.samples, report.skipped.count), (2, 2, 7));
    assert_eq!(beton.owned(SampleId(1), 1).unwrap(), OwnedValue::Int(8));
    let causes: Vec<(u64, String)> =
        report.skipped.first.iter().map(|s| (s.sample.0, s.cause.clone())).collect();
    for (found, (sample, text)) in causes.iter().zip([
        (1, "cannot read it: "),
        (2, "not an image of a known format: it begins with [6e, 6f, 74, 20"),
        (3, "byte 2 of the JPEG is 0x07 where a marker is expected"),
        (4, "not an image: the file is empty"),
        (5, "not a regular file"),
        (6, "the JPEG ends at byte 20, before its frame header"),
        (7, ""),
    ]) {
        assert_eq!(found.0, sample);
        assert!(found.1.starts_with(&format!("field \"image\": {text}")), "{found:?}");
    }
    assert_eq!(report.skipped.first[0].path, Some(dir.path().join("1.jpg")));
}

#[cfg(unix)]
#[test]
fn a_pipe_does_not_stop_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jpg");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: no mkfifo");
        return;
    }
    let rows = [vec![FieldValue::Image(ImageInput::Path(path))]];
    let message = error_of(&rows, &[field("x", FieldKind::RgbImage)], &options());
    assert!(message.ends_with("not a regular file"), "{message}");
}

#[test]
fn a_file_over_the_limits_is_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jpg");
    fs::File::create(&path).unwrap().set_len(Limits::SMALL.max_sample_bytes + 1).unwrap();
    let small = WriteOptions { limits: Limits::SMALL, ..options() };
    let fields = [field("x", FieldKind::RgbImage)];
    let message = error_of(&[vec![FieldValue::Image(ImageInput::Path(path))]], &fields, &small);
    assert!(message.ends_with("more than 4194304 bytes, the limit on one value"), "{message}");

    // A header that claims 65535 x 65535 pixels.
    let mut bomb = jpeg(8, 8, ColorType::Rgb);
    let frame = bomb.windows(2).position(|m| m == [0xff, 0xc0]).unwrap();
    bomb[frame + 5..frame + 9].fill(0xff);
    let rows = [vec![FieldValue::Image(ImageInput::JpegBytes(bomb))]];
    let raw = with_images(ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() });
    let message = error_of(&rows, &fields, &raw);
    assert!(message.ends_with("65535x65535 pixels, more than the limit of 178956970"), "{message}");
}

struct Failing {
    count: u64,
    how: fn(SampleId) -> Result<Row, Box<dyn std::error::Error + Send + Sync>>,
}

impl Samples for Failing {
    fn count(&self) -> u64 {
        self.count
    }

    fn sample(&self, id: SampleId) -> Result<Row, Box<dyn std::error::Error + Send + Sync>> {
        (self.how)(id)
    }
}

#[test]
fn a_panic_of_the_source_is_an_error_within_a_second() {
    let (_dir, path) = temp();
    let how = |id: SampleId| {
        assert_ne!(id.0, 5000, "no sample 5000");
        std::thread::sleep(Duration::from_micros(20));
        Ok(vec![FieldValue::Int(id.0 as i64)])
    };
    let start = Instant::now();
    let error =
        write(&Failing { count: 1 << 40, how }, &[field("x", FieldKind::Int)], &path, &options())
            .unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let message = error.to_string();
    assert!(
        message.starts_with("sample 5000: panicked: ") && message.contains("no sample 5000"),
        "{message}"
    );
    assert!(!path.exists());
}

#[test]
fn the_first_failing_sample_is_reported_for_any_number_of_threads() {
    let how = |id: SampleId| {
        if id.0 % 1000 > 600 { Err("gone".into()) } else { Ok(vec![FieldValue::Int(1)]) }
    };
    for threads in [1, 7] {
        let (_dir, path) = temp();
        let options = WriteOptions { threads: NonZeroUsize::new(threads), ..options() };
        let error =
            write(&Failing { count: 5000, how }, &[field("x", FieldKind::Int)], &path, &options)
                .unwrap_err();
        assert_eq!(error.to_string(), "sample 601: gone");
        assert_eq!(error.kind(), fuseloop::ErrorKind::Custom);
        assert_eq!(error.sample(), Some(SampleId(601)));
        assert_eq!(error.get_ref().map(ToString::to_string).as_deref(), Some("gone"));
        let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..options };
        let report =
            write(&Failing { count: 5000, how }, &[field("x", FieldKind::Int)], &path, &skip)
                .unwrap();
        assert_eq!(
            (report.samples, report.skipped.count, report.skipped.first.len()),
            (3005, 1995, 100)
        );
    }
}

#[test]
fn an_iterator_may_fail_too() {
    let (_dir, path) = temp();
    let rows = || vec![Ok(vec![FieldValue::Int(1)]), Err("end of stream".into())];
    let fields = [field("x", FieldKind::Int)];
    let error = try_write_iter(rows(), &fields, &path, &options()).unwrap_err();
    assert_eq!(error.to_string(), "sample 1: end of stream");
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..options() };
    assert_eq!(try_write_iter(rows(), &fields, &path, &skip).unwrap().samples, 1);
}

/// A list of another format is a dataset whose samples are all damaged: it must not replace the file.
#[test]
fn a_dataset_of_damaged_samples_alone_is_refused_and_replaces_nothing() {
    let skip = WriteOptions { on_damaged: OnUnreadable::Skip, ..options() };
    let fields = [field("x", FieldKind::RgbImage)];
    let text = || vec![FieldValue::Image(ImageInput::JpegBytes(b"text".to_vec()))];
    let message = error_of(&[text(), text()], &fields, &skip);
    assert!(message.starts_with("all 2 samples are damaged, so that none is left to write"));
    assert!(message.contains("the first is sample 0: field \"x\": not an image"), "{message}");

    let (dir, path) = temp();
    fs::write(&path, "old").unwrap();
    let gone = || Failing { count: 3, how: |_| Err("gone".into()) };
    let error = write(&gone(), &[field("x", FieldKind::Int)], &path, &skip).unwrap_err();
    assert!(error.to_string().ends_with("the first is sample 0: gone"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    let photos = dir.path().join("photos");
    fs::create_dir_all(photos.join("cat")).unwrap();
    fs::write(photos.join("cat/1.jpg"), "text").unwrap();
    let error = crate::common::dataset::write_folder(&photos, &path, &skip).unwrap_err();
    assert!(error.to_string().starts_with("the only sample is damaged"), "{error}");
    assert_eq!(error.path(), Some(&*photos.join("cat/1.jpg")));
    assert_eq!(fs::read(&path).unwrap(), b"old");

    // No sample at all is no damage.
    assert_eq!(write_rows(&[], &fields, &skip).1.samples, 0);
}

#[test]
fn a_panic_of_the_iterator_leaves_nothing_behind() {
    let (dir, path) = temp();
    let rows = (0..1000).map(|n| {
        assert_ne!(n, 700, "on purpose");
        vec![FieldValue::Int(n)]
    });
    let fields = [field("x", FieldKind::Int)];
    let write = || write_iter(rows, &fields, &path, &options());
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
    assert!(outcome.is_err());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
