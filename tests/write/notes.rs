//! What a conversion changes and can't keep is in its report.

use crate::common::jpegs;
use fuseloop::source::{
    BoxError, FieldKind, FieldSpec, Folder, FolderOptions, Generator, OwnedImage, OwnedValue,
};
use fuseloop::write::{ImageOptions, WriteMode, WriteOptions, convert};
use jpeg_encoder::{ColorType, Encoder};
use std::fs;

#[test]
fn a_field_that_readers_get_as_another_type_has_a_note() {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let array = |name: &str| FieldKind::NdArray { dtype: name.parse().unwrap(), shape: vec![2] };
    let fields = vec![
        field("image", FieldKind::RgbImage),
        field("label", FieldKind::Int),
        field("weight", FieldKind::Float),
        field("depth", array("<f4")),
        field("text", FieldKind::Bytes),
    ];
    let row = |_, _| {
        Ok::<_, BoxError>(vec![
            OwnedValue::Image(OwnedImage::rgb(4, vec![7; 48])),
            OwnedValue::Int(1),
            OwnedValue::Float(0.1),
            OwnedValue::NdArray(vec![0; 8]),
            OwnedValue::Bytes(b"cat".to_vec()),
        ])
    };
    let source = Generator::new(1, 8).source(fields, 3, row).unwrap();
    let notes = |dst: &str| {
        let dir = tempfile::tempdir().unwrap();
        convert(&source, dir.path().join(dst), &WriteOptions::default()).unwrap().notes
    };
    let tar = notes("x.tar");
    assert_eq!(tar.len(), 1, "{tar:?}");
    assert!(
        tar[0].starts_with("field weight: ") && tar[0].contains("members .weight.txt"),
        "{tar:?}"
    );
    let folder = notes("x/");
    assert_eq!(folder.len(), 1, "{folder:?}");
    assert!(folder[0].starts_with("field depth: an array becomes a separate file"), "{folder:?}");
    assert!(folder[0].contains("in the column depth_file_name"), "{folder:?}");
    assert_eq!(notes("x.beton"), [""; 0]);
    assert_eq!(notes("x.tfrecord"), [""; 0]);
}

#[test]
fn an_exif_orientation_that_is_lost_has_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos");
    fs::create_dir_all(photos.join("cat")).unwrap();
    let mut jpeg = vec![];
    Encoder::new(&mut jpeg, 90).encode(&[7; 16 * 8 * 3], 16, 8, ColorType::Rgb).unwrap();
    fs::write(photos.join("cat/0.jpg"), &jpeg).unwrap();
    for (number, orientation) in [(1, 6), (2, 3)] {
        let turned = jpegs::oriented(&jpeg, orientation);
        fs::write(photos.join(format!("cat/{number}.jpg")), turned).unwrap();
    }
    let raw = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let source = Folder::open(&photos, &FolderOptions::default()).unwrap();
    for name in ["x.beton", "x.tar"] {
        let to = |name: &str, image: ImageOptions| {
            let options = WriteOptions { image, overwrite: true, ..WriteOptions::default() };
            convert(&source, dir.path().join(name), &options).unwrap()
        };
        let report = to(name, raw.clone());
        assert_eq!(report.notes.len(), 1, "{name}: {:?}", report.notes);
        assert!(
            report.notes[0].starts_with("2 images have lost an EXIF orientation"),
            "{report:?}"
        );
        assert_eq!(report.reencoded.iter().map(|one| one.lost_orientations).sum::<u64>(), 2);
        assert_eq!(to(name, ImageOptions::default()).notes, [""; 0], "{name}: files stay");
    }
    let options = WriteOptions { image: raw, ..WriteOptions::default() };
    let report = convert(&source, dir.path().join("y.beton"), &options).unwrap();
    assert_eq!((report.reencoded.len(), report.reencoded[0].lost_orientations), (1, 2));
}
