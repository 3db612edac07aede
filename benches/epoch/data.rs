//! The files of the epoch benchmark.

use crate::pictures;
use fuseloop::recut::Tile;
use fuseloop::source::{FieldKind, FieldSpec, Folder, FolderOptions};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions};
use fuseloop::write::{convert, write_iter};
use jpeg_encoder::{ColorType, Encoder};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use std::path::{Path, PathBuf};

/// The kind of the images.
#[derive(Clone, Copy)]
pub(crate) enum Images {
    /// Photographs, or drawn images if there are none.
    Jpeg,
    /// The same images, re-cut losslessly with restart markers.
    Tiled,
    /// The same images, stored as bit planes.
    BitPlanes,
    /// Drawn squares with this many pixels a side.
    Raw(u32),
}

impl Images {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Jpeg => "jpeg".into(),
            Self::Tiled => "tiled jpeg".into(),
            Self::BitPlanes => "bit planes".into(),
            Self::Raw(side) => format!("raw {side}x{side}"),
        }
    }

    /// Returns the path of the file, and writes the file to `dir` if it does not exist.
    pub(crate) fn file(self, dir: &Path) -> PathBuf {
        let file = dir.join(self.name());
        if !file.exists() {
            match self {
                Self::Jpeg => write_jpegs(&file, None, false),
                Self::Tiled => write_jpegs(&file, Some(Tile::default()), false),
                Self::BitPlanes => write_jpegs(&file, Some(Tile::default()), true),
                Self::Raw(side) => write_raw(&file, side),
            }
        }
        file
    }

    /// The images that the plain loop reads: no other library uses re-cut tiles or bit planes.
    pub(crate) fn plain(self) -> Self {
        if let Self::Tiled | Self::BitPlanes = self { Self::Jpeg } else { self }
    }
}

fn write_jpegs(file: &Path, tile: Option<Tile>, bit_planes: bool) {
    let image = ImageOptions { tile, bit_planes, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    match photographs() {
        Some(folder) => {
            let folder = Folder::open(folder, &FolderOptions::default()).unwrap();
            drop(convert(&folder, file, &options).unwrap());
        }
        None => write_drawn(file, &options),
    }
}

fn photographs() -> Option<PathBuf> {
    let shared = std::env::var_os("FUSELOOP_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.unwrap_or_else(beside).join("data/imagenet");
    folder.is_dir().then_some(folder)
}

fn fields() -> [FieldSpec; 2] {
    let field = |name: &str, kind| FieldSpec { name: name.into(), kind };
    [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)]
}

fn drawn(count: u32, width: u32, height: u32) -> Vec<Vec<u8>> {
    let draw = |k| pictures::draw_at(k as usize % pictures::CLASSES.len(), k, width, height).pixels;
    (0..count).into_par_iter().map(draw).collect()
}

fn write_drawn(file: &Path, options: &WriteOptions) {
    println!("no photographs at hand: jpeg are drawn pictures of 500 x 375");
    let rows = drawn(128, 500, 375).into_iter().map(|pixels| {
        let mut jpeg = vec![];
        Encoder::new(&mut jpeg, 90).encode(&pixels, 500, 375, ColorType::Rgb).unwrap();
        vec![FieldValue::Image(ImageInput::JpegBytes(jpeg)), FieldValue::Int(0)]
    });
    let _ = write_iter(rows, &fields(), file, options).unwrap();
}

/// Writes about 50 MB: more than the caches hold.
fn write_raw(file: &Path, side: u32) {
    let pictures = drawn(32, side, side);
    let count = (50_000_000 / (3 * side * side)).min(16_384) as usize;
    let rows = (0..count).map(|k| {
        let pixels = pictures[k % pictures.len()].clone();
        let image = ImageInput::Rgb { pixels, width: side, height: side };
        vec![FieldValue::Image(image), FieldValue::Int(0)]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    let options = WriteOptions { image, ..WriteOptions::default() };
    let _ = write_iter(rows, &fields(), file, &options).unwrap();
}
