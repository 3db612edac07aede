//! Small `.beton` files, generated for each test.

use fuseloop::source::{Dataset, FieldKind, FieldSpec, Folder, FolderOptions};
use fuseloop::write::{
    FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, WriteReport, convert, write_iter,
};
use fuseloop_ops::Size;
use fuseloop_ops::internals::SampleKey;
use std::path::{Path, PathBuf};

/// Writes a folder as a dataset.
pub fn write_folder(
    dir: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> fuseloop::Result<WriteReport> {
    convert(&Folder::open(dir, &FolderOptions::default())?, out, options)
}

/// Converts the dataset of a name.
pub fn copy(
    src: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> fuseloop::Result<WriteReport> {
    convert(&*Dataset::open(src)?.source().unwrap(), out, options)
}

/// Converts the dataset of a name with its JPEGs re-cut, or as bit planes if the options say so.
pub fn recut(
    src: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> fuseloop::Result<WriteReport> {
    let tile = Some(options.image.tile.unwrap_or_default());
    let image = ImageOptions { tile, ..options.image.clone() };
    copy(src, out, &WriteOptions { image, ..options.clone() })
}

/// An image with smooth areas, edges and noise, different for each sample.
pub fn picture(sample: u64, size: Size) -> Vec<u8> {
    let mut rng = SampleKey::new(99, 0, sample).op(0);
    let mut pixels = vec![];
    for y in 0..size.height {
        for x in 0..size.width {
            let edge = if (x / 16 + y / 24) % 2 == 0 { 60 } else { 0 };
            let noise = rng.below(16);
            let red = x * 150 / size.width + edge + noise;
            let green = y * 150 / size.height + edge + noise;
            let blue = (sample as u32 * 37) % 150 + edge + noise;
            pixels.extend([red, green, blue].map(|v| v.min(255) as u8));
        }
    }
    pixels
}

/// A size that varies from sample to sample.
pub fn varied(sample: u64) -> Size {
    Size::new(60 + (sample * 13 % 50) as u32, 70 + (sample * 29 % 80) as u32)
}

/// Writes `count` images with the labels `sample % 10`, in a new folder.
pub fn write(
    count: u64,
    mode: WriteMode,
    size: impl Fn(u64) -> Size,
) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pictures.beton");
    let fields = [("image", FieldKind::RgbImage), ("label", FieldKind::Int)].map(FieldSpec::from);
    let rows = (0..count).map(|sample| {
        let size = size(sample);
        let (width, height) = (size.width, size.height);
        let pixels = picture(sample, size);
        let image = FieldValue::Image(ImageInput::Rgb { pixels, width, height });
        vec![image, FieldValue::Int(sample as i64 % 10)]
    });
    let image = ImageOptions { write_mode: mode, ..ImageOptions::default() };
    write_iter(rows, &fields, &path, &WriteOptions { image, ..WriteOptions::default() }).unwrap();
    (dir, path)
}

/// Changes the bytes of a file.
pub fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}
