//! Decoding photographs stored in each format that is read, on one thread.
//!
//! `scripts/image_formats.py` makes the files, one folder for each format, and starts this program; `FUSELOOP_IMAGES` is
//! the folder of these folders. It then asks for one turn at a time, between turns of OpenCV, by a line on the standard
//! input:
//!
//! ```text
//! tiff_lzw whole       every file of the folder tiff_lzw as a whole
//! tiff_lzw windows     the windows that RandomResizedCrop(224) takes of them, four of each
//! ```
//!
//! The answer is one line: nanoseconds of processor time, and the number of decodes. As in training, an image's size is
//! read from its header each time, and buffers are used again from image to image.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../cli/src/process.rs"]
#[allow(dead_code, unused_imports, reason = "a benchmark asks for less than the command")]
mod process;

use fuseloop::internals::decode::Decoder;
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_ops::author::{GeometryOp as _, GeometryStep, Window};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::{RandomResizedCrop, Size};
use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of windows of each photograph.
const WINDOWS: u64 = 4;

/// The least wall time of a turn. The system adds processor time up every few milliseconds.
const TURN: Duration = Duration::from_millis(300);

fn main() {
    let Some(folder) = std::env::var_os("FUSELOOP_IMAGES") else {
        println!("nothing measured: scripts/image_formats.py makes the images and measures");
        return;
    };
    let mut sets = HashMap::new();
    let mut decoder = Decoder::default();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (format, what) = line.split_once(' ').expect("a folder, and `whole` or `windows`");
        let set = sets
            .entry(format.to_owned())
            .or_insert_with(|| Set::read(&mut decoder, &Path::new(&folder).join(format)));
        let wanted = if what == "windows" { &set.windows } else { &set.whole };
        let (nanoseconds, decodes) = turn(&mut decoder, &set.files, wanted);
        println!("{nanoseconds} {decodes}");
    }
}

/// The files of one format, and what is decoded of them.
struct Set {
    files: Vec<(ImageMode, Vec<u8>)>,
    /// Each image with the index of its file.
    whole: Vec<(usize, Window)>,
    /// Each window with the index of its file.
    windows: Vec<(usize, Window)>,
}

impl Set {
    fn read(decoder: &mut Decoder, folder: &Path) -> Self {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let files: Vec<_> =
            paths.iter().map(|path| (mode(path), std::fs::read(path).unwrap())).collect();
        let sizes: Vec<Size> =
            files.iter().map(|file| decoder.size(&encoded(file)).unwrap()).collect();
        let whole = sizes.iter().map(|size| size.full()).enumerate().collect();
        let each = |turn| sizes.iter().enumerate().map(move |(file, &size)| (turn, file, size));
        let windows = (0..WINDOWS).flat_map(each);
        let windows = windows.map(|(turn, file, size)| (file, window(turn, file as u64, size)));
        Self { whole, windows: windows.collect(), files }
    }
}

/// Decodes every window, again and again for [`TURN`]. Returns the nanoseconds of processor time, or of wall time if the
/// system does not report the former, and the number of decodes.
fn turn(
    decoder: &mut Decoder,
    files: &[(ImageMode, Vec<u8>)],
    wanted: &[(usize, Window)],
) -> (u128, usize) {
    let (wall, before) = (Instant::now(), process::cpu_time());
    let mut decodes = 0;
    while wall.elapsed() < TURN {
        for &(file, window) in wanted {
            black_box(decoder.decode(&encoded(&files[file]), window).unwrap());
        }
        decodes += wanted.len();
    }
    let processor = process::cpu_time().zip(before).map(|(now, then)| now - then);
    (processor.unwrap_or_else(|| wall.elapsed()).as_nanos(), decodes)
}

fn mode(path: &Path) -> ImageMode {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("jpg") => ImageMode::Jpeg,
        Some("png") => ImageMode::Png,
        Some("tif") => ImageMode::Tiff,
        Some("webp") => ImageMode::Webp,
        Some("bmp") => ImageMode::Bmp,
        Some("gif") => ImageMode::Gif,
        Some("ppm") => ImageMode::Pnm,
        Some("jxl") => ImageMode::JpegXl,
        Some("heic") => ImageMode::Heic,
        _ => panic!("{} has no extension of a format", path.display()),
    }
}

fn encoded((mode, bytes): &(ImageMode, Vec<u8>)) -> EncodedImage<'_> {
    EncodedImage { mode: *mode, width: 0, height: 0, bytes }
}

/// Returns the window that training would take of `file` in epoch `turn`.
fn window(turn: u64, file: u64, size: Size) -> Window {
    let crop = RandomResizedCrop::new(224).unwrap();
    let mut motions = vec![];
    crop.draw(&mut SampleKey::new(turn, 0, file).op(0), size, &mut motions);
    let Some(GeometryStep::CropPad { top, left, size, .. }) = motions.first() else {
        panic!("a crop comes first: {motions:?}")
    };
    let (top, left) = (top.cast_unsigned(), left.cast_unsigned());
    Window { top, left, height: size.height, width: size.width }
}
