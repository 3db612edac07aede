//! The photographs, the windows wanted of them, and their re-cut files.

use fuseloop::internals::decode::Decoder;
use fuseloop::recut::{BitPlaneCodec, Recutter, Tile};
use fuseloop::sample::Limits;
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_ops::author::{GeometryOp as _, GeometryStep, Window};
use fuseloop_ops::internals::{SampleKey, area};
use fuseloop_ops::{RandomResizedCrop, Size};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The number of windows of each photograph.
const WINDOWS: u64 = 4;

/// A set of JPEGs and the windows wanted of them.
pub(crate) struct Photographs {
    pub(crate) name: &'static str,
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) sizes: Vec<Size>,
    /// Each window with the index of its file; every file has the same number of windows.
    pub(crate) windows: Vec<(usize, Window)>,
}

/// Returns an image whose longer side has at most 500 pixels.
fn smaller(bytes: &[u8], size: Size) -> Vec<u8> {
    let mut decoder = Decoder::default();
    let whole = decoder.decode(&encoded(bytes, size), size.full()).unwrap();
    let longer = size.height.max(size.width);
    let side = |pixels: u32| (pixels * longer.min(500) / longer).max(1);
    let out = Size::new(side(size.height), side(size.width));
    let pixels = area::resize(whole.window(size.full()).unwrap(), out).unwrap();
    let mut jpeg = vec![];
    let mut encoder = Encoder::new(&mut jpeg, 90);
    encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
    encoder.encode(&pixels, out.width as u16, out.height as u16, ColorType::Rgb).unwrap();
    jpeg
}

/// Re-cut files.
pub(crate) struct Recut {
    pub(crate) files: Vec<Vec<u8>>,
    /// The number of files that were not re-cut: `files` has their originals.
    pub(crate) unchanged: usize,
}

pub(crate) fn encoded(bytes: &[u8], size: Size) -> EncodedImage<'_> {
    let is_jpeg = bytes.starts_with(&[0xff, 0xd8]);
    let mode = if is_jpeg { ImageMode::Jpeg } else { ImageMode::BitPlanes };
    EncodedImage { mode, width: size.width, height: size.height, bytes }
}

impl Photographs {
    /// Reads the photographs as they are.
    pub(crate) fn original(paths: &[PathBuf]) -> Self {
        let files = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
        Self::new("photographs as they are", files)
    }

    /// Reduces the photographs as FFCV's writer does: at most 500 pixels a side, quality 90, 4:2:0,
    /// no markers.
    pub(crate) fn smaller(&self) -> Self {
        let both: Vec<_> = self.files.iter().zip(&self.sizes).collect();
        let files = both.par_iter().map(|&(bytes, &size)| smaller(bytes, size)).collect();
        Self::new("at most 500 pixels a side, quality 90, 4:2:0", files)
    }

    fn new(name: &'static str, files: Vec<Vec<u8>>) -> Self {
        let mut decoder = Decoder::default();
        let unmeasured = |bytes| encoded(bytes, Size::new(0, 0));
        let sizes: Vec<Size> =
            files.iter().map(|bytes| decoder.size(&unmeasured(bytes)).unwrap()).collect();
        let windows = (0..WINDOWS)
            .flat_map(|turn| sizes.iter().enumerate().map(move |(file, &size)| (turn, file, size)))
            .map(|(turn, file, size)| (file, window(turn, file as u64, size)))
            .collect();
        Self { name, files, sizes, windows }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.files.iter().map(Vec::len).sum()
    }

    /// Returns the average number of pixels of an image.
    pub(crate) fn pixels_each(&self) -> f64 {
        self.sizes.iter().map(|size| size.pixels() as f64).sum::<f64>() / self.files.len() as f64
    }

    /// Returns the average number of pixels of a window.
    pub(crate) fn wanted_each(&self) -> f64 {
        let pixels = self.windows.iter().map(|(_, window)| window.size().pixels() as f64);
        pixels.sum::<f64>() / self.windows.len() as f64
    }

    pub(crate) fn recut(&self, tile: Tile) -> Recut {
        let recut = |bytes: &Vec<u8>| recutter(tile).recut(bytes).ok();
        let files: Vec<Option<Vec<u8>>> = self.files.par_iter().map(recut).collect();
        let unchanged = files.iter().filter(|file| file.is_none()).count();
        let both = files.into_iter().zip(&self.files);
        let files = both.map(|(recut, file)| recut.unwrap_or_else(|| file.clone())).collect();
        Recut { files, unchanged }
    }

    /// Returns the bit-plane images of the files, which must be of a usual kind.
    pub(crate) fn bit_planes(&self) -> Vec<Vec<u8>> {
        let pack = |codec: &mut BitPlaneCodec, bytes: &Vec<u8>| {
            codec.pack(bytes, Tile::default()).unwrap()
        };
        self.files.par_iter().map_init(|| BitPlaneCodec::new(Limits::DEFAULT), pack).collect()
    }

    /// Returns the same coefficients as progressive files, in libjpeg's default scans.
    pub(crate) fn progressive(&self) -> Vec<Vec<u8>> {
        let scans = |bytes: &Vec<u8>| {
            let coefficients = libjpeg_turbo_rs::read_coefficients(bytes).unwrap();
            libjpeg_turbo_rs::write_coefficients_progressive(&coefficients, None).unwrap()
        };
        self.files.par_iter().map(scans).collect()
    }

    /// Returns the time that storing all files as bit planes takes on this thread, with the proof.
    pub(crate) fn bit_planes_alone(&self) -> Duration {
        let mut codec = BitPlaneCodec::new(Limits::DEFAULT);
        let start = Instant::now();
        self.files.iter().for_each(|bytes| drop(codec.pack(bytes, Tile::default())));
        start.elapsed()
    }

    /// Returns the time that re-cutting all files takes on this thread.
    pub(crate) fn recut_alone(&self) -> Duration {
        let mut recutter = recutter(Tile::default());
        let start = Instant::now();
        self.files.iter().for_each(|bytes| drop(recutter.recut(bytes)));
        start.elapsed()
    }

    /// Returns the time that re-cutting `count` files takes on all cores, repeating these files.
    pub(crate) fn recut_together(&self, count: usize) -> Duration {
        let files: Vec<&Vec<u8>> = self.files.iter().cycle().take(count).collect();
        let start = Instant::now();
        files.par_iter().for_each_init(
            || recutter(Tile::default()),
            |recutter, bytes| drop(recutter.recut(bytes)),
        );
        start.elapsed()
    }
}

impl Recut {
    /// Returns the bytes of all files, and the bytes without the indexes after the ends of the
    /// images.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let all = self.files.iter().map(Vec::len).sum();
        (all, all - self.files.iter().map(|bytes| index_bytes(bytes)).sum::<usize>())
    }
}

/// Returns the bytes of a file's index of segments: a length for each, their number, a mark.
fn index_bytes(bytes: &[u8]) -> usize {
    let Some((rest, b"FSEGIDX\x01")) = bytes.split_last_chunk() else { return 0 };
    let count = rest.last_chunk().map_or(0, |count| u32::from_le_bytes(*count));
    2 * count as usize + 4 + 8
}

fn recutter(tile: Tile) -> Recutter {
    Recutter::new(tile, Limits::DEFAULT)
}

/// Returns the window that training would take of `file` in epoch `turn`.
fn window(turn: u64, file: u64, size: Size) -> Window {
    let crop = RandomResizedCrop::new(224);
    let mut rng = SampleKey::new(turn, 0, file).op(0);
    let mut motions = vec![];
    crop.unwrap().draw(&mut rng, size, &mut motions);
    let Some(GeometryStep::CropPad { top, left, size, .. }) = motions.first() else {
        panic!("a crop comes first: {motions:?}")
    };
    let (top, left) = (top.cast_unsigned(), left.cast_unsigned());
    Window { top, left, height: size.height, width: size.width }
}
