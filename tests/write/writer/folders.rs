//! Folders of images.

use super::plain::Plain;
use super::*;
use crate::common::dataset::write_folder;
use fuseloop::source::Source as _;
use fuseloop::source::{Folder, FolderOptions, OpenOptions};

#[test]
fn a_folder_becomes_images_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    for (name, width) in [("cat/b.jpg", 9), ("cat/a.JPEG", 8), ("ant/c.jpg", 7)] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, jpeg(width, 5, ColorType::Rgb)).unwrap();
    }
    fs::write(dir.path().join("cat/readme.txt"), "").unwrap();
    let (_out, path) = temp();
    let report = write_folder(dir.path(), &path, &WriteOptions::default()).unwrap();
    let folder = Folder::open(dir.path(), &FolderOptions::default()).unwrap();
    assert_eq!(folder.classes(), ["ant", "cat"]);
    assert_eq!((report.samples, report.passed_through, folder.ignored().count), (3, 3, 1));
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let row = |id| match (beton.owned(SampleId(id), 0), beton.owned(SampleId(id), 1)) {
        (Ok(OwnedValue::Image(image)), Ok(OwnedValue::Int(label))) => (image.width, label),
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 1, 2].map(row), [(7, 0), (8, 1), (9, 1)]);
    let names: Vec<&str> = beton.facts().fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["image", "label"]);
}

#[test]
fn photographs_are_stored_byte_for_byte_and_resized_as_asked() {
    let Some(dir) = shared().map(|dir| dir.join("data/imagenet")) else { return };
    let (_out, path) = temp();
    let report = write_folder(&dir, &path, &WriteOptions::default()).unwrap();
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(report.passed_through, beton.facts().samples);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for (id, file) in beton.samples().zip(files) {
        let Ok(OwnedValue::Image(image)) = beton.owned(id, 0) else { panic!("{id}") };
        assert!(image.bytes == fs::read(&file).unwrap(), "{file:?}");
    }
    Plain::open(&path).check();

    let image = ImageOptions {
        max_resolution: Some(64),
        write_mode: WriteMode::Raw,
        ..ImageOptions::default()
    };
    write_folder(&dir, &path, &WriteOptions { image, page_size: Some(1 << 20), ..options() })
        .unwrap();
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    for id in beton.samples() {
        let Ok(OwnedValue::Image(image)) = beton.owned(id, 0) else { panic!("{id}") };
        let longest = image.width.max(image.height);
        assert!(image.mode == ImageMode::Raw && (63..=64).contains(&longest), "{id}: {longest}");
    }
}

#[test]
fn every_sample_is_reported_as_progress() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("cat")).unwrap();
    for number in 0..9 {
        let path = dir.path().join(format!("cat/{number}.jpg"));
        fs::write(path, jpeg(8, 8, ColorType::Rgb)).unwrap();
    }
    let seen = Arc::new(Mutex::new(vec![]));
    let list = Arc::clone(&seen);
    let progress = ProgressFn::new(move |progress| {
        list.lock().unwrap().push((progress.done, progress.total));
    });
    let (_out, path) = temp();
    write_folder(dir.path(), &path, &WriteOptions { progress, ..options() }).unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, (1..=9).map(|done| (done, Some(9))).collect::<Vec<_>>());
}
