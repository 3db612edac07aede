//! Any window of any JPEG, with or without restart markers and an index of them, has the pixels that the
//! whole image has there: no sample differs.
//!
//! Plain zune-jpeg decodes the whole image from the file as it was before
//! markers were inserted. Where the loader's decoder is compared, the
//! last column and row are those that the core has for the whole image.

use crate::common::jpegs::*;
use crate::common::photographs::photographs;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend, tile_interval};
use fuseloop::recut::{Recutter, Tile};
use fuseloop::sample::Limits;
use fuseloop_counts::rounds;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use rand_xoshiro::rand_core::Rng;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelIterator as _};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use std::fmt::Debug;
use std::path::Path;

/// The sizes of generated images, except for the large one.
const SIZES: [Size; 9] = [
    Size::new(1, 1),
    Size::new(1, 100),
    Size::new(100, 1),
    Size::new(16, 17),
    Size::new(37, 45),
    Size::new(33, 129),
    Size::new(64, 187),
    Size::new(101, 192),
    Size::new(131, 331),
];

const LARGE: Size = Size::new(2000, 3000);

/// The restart intervals to try, in MCUs: short ones, those of a tile, and ones around the length of a
/// row and of the whole image.
fn intervals(size: Size, mcu: Size) -> Vec<u16> {
    let columns = size.width.div_ceil(mcu.width) as u16;
    let mcus = columns * size.height.div_ceil(mcu.height) as u16;
    let tile = tile_interval(size.width as u16, mcu.width as u16, 32);
    let mut all = vec![1, 2, 3, 5, 7, tile, columns, columns + 1, 2 * columns, mcus, mcus + 1];
    all.sort_unstable();
    all.dedup();
    all
}

/// A window whose sides are at a boundary (of the image, an MCU, or a segment) or one pixel beside it.
fn edge_window(size: Size, mcu: Size, interval: u16, rng: &mut impl Rng) -> Window {
    let mut side = |len: u32, steps: [u32; 2]| {
        let mut at = || {
            let step = steps[below(rng, 2)];
            let edges = len / step + 2;
            let edge = (below(rng, edges as usize) as u32 * step + below(rng, 3) as u32).max(1) - 1;
            edge.min(len)
        };
        let (a, b) = (at(), at());
        let start = a.min(b).min(len - 1);
        (start, a.max(b).max(start + 1) - start)
    };
    let (top, height) = side(size.height, [mcu.height; 2]);
    let (left, width) = side(size.width, [mcu.width, mcu.width * u32::from(interval)]);
    Window { top, left, height, width }
}

/// One pixel at each corner, and the rows and columns at the edges and in the middle.
fn corner_windows(size: Size) -> Vec<Window> {
    let Size { height, width } = size;
    let mut all = vec![size.full()];
    for top in [0, height / 2, height - 1] {
        all.push(Window { top, left: 0, height: 1, width });
        for left in [0, width / 2, width - 1] {
            all.push(Window { top, left, height: 1, width: 1 });
            all.push(Window { top: 0, left, height, width: 1 });
            all.push(Window { top, left, height: height - top, width: width - left });
        }
    }
    all
}

/// The loader's decoder, and its path for files left to zune-jpeg,
/// which decodes a file cut down to the window.
fn decoders() -> [Decoder; 2] {
    [JpegBackend::Both, JpegBackend::Zune]
        .map(|by| Decoder::with_backend(by, DecodeOptions::default()))
}

/// Asserts that `windows` of a file are those of the plain image.
fn assert_windows(
    decoders: &mut [Decoder; 2],
    plain: &[Plain; 2],
    bytes: &[u8],
    windows: impl IntoIterator<Item = Window>,
    what: &dyn Fn() -> String,
) {
    for (window, decoder) in windows.into_iter().flat_map(|w| [(w, 0), (w, 1)]) {
        let found = pixels(&mut decoders[decoder], bytes, window);
        let found = found.unwrap_or_else(|error| panic!("{}, {window:?}: {error}", what()));
        let wanted = plain[decoder].crop(window);
        let wrong = found.iter().zip(&wanted).filter(|(a, b)| a != b).count();
        assert_eq!((found.len(), wrong), (wanted.len(), 0), "{}, {window:?}", what());
    }
}

/// Tests all windows of one file that are worth testing, with an index and without.
fn assert_file(
    plain: &[Plain; 2],
    bytes: &[u8],
    mcu: Size,
    interval: u16,
    what: &dyn Fn() -> String,
) {
    let (mut decoders, mut rng) = (decoders(), random(u64::from(interval)));
    let size = plain[0].size;
    let mut windows = corner_windows(size);
    for _ in 0..rounds::<u64>("FUSELOOP_WINDOWS") / 2 {
        windows.push(edge_window(size, mcu, interval, &mut rng));
        windows.push(random_window(size, &mut rng));
    }
    let indexed = with_index(bytes);
    assert_eq!(indexed.len() - bytes.len(), index_len(&indexed), "{}", what());
    for bytes in [bytes, &indexed] {
        let windows = windows.iter().copied();
        assert_windows(&mut decoders, plain, bytes, windows, what);
    }
}

#[test]
fn windows_of_every_kind_of_file_are_those_of_the_whole_picture() {
    let kinds: Vec<_> =
        Colour::ALL.iter().flat_map(|&colour| SIZES.map(|size| (colour, size))).collect();
    kinds.into_par_iter().for_each(|(colour, size)| {
        let mcu = colour.mcu();
        let original = drawn(size, colour);
        let plain = Plain::both(&original);
        assert_file(&plain, &original, mcu, 1, &|| format!("{size} {colour:?}"));
        for interval in intervals(size, mcu) {
            let bytes = with_markers(&original, interval);
            let what = || format!("{size} {colour:?}, a marker every {interval}");
            assert_file(&plain, &bytes, mcu, interval, &what);
        }
    });
}

#[test]
fn windows_of_progressive_files_are_those_of_the_whole_picture() {
    let kinds: Vec<_> =
        Colour::ALL.iter().flat_map(|&colour| SIZES.map(|size| (colour, size))).collect();
    kinds.into_par_iter().for_each(|(colour, size)| {
        let original = progressive(&drawn(size, colour));
        let plain = Plain::both(&original);
        assert_file(&plain, &original, colour.mcu(), 1, &|| format!("{size} {colour:?}"));
        let interval = tile_interval(size.width as u16, colour.mcu().width as u16, 32);
        let bytes = with_markers(&original, interval);
        let what = || format!("{size} {colour:?}, made baseline");
        let [_, zune] = plain;
        let plain = [Plain::loaded(&bytes), zune];
        assert_file(&plain, &bytes, colour.mcu(), interval, &what);
    });
}

#[test]
fn windows_of_a_large_picture_are_those_of_the_whole() {
    let colours = [Colour::ALL[0], Colour::ALL[1], Colour::ALL[3]];
    colours.into_par_iter().for_each(|colour| {
        let mcu = colour.mcu();
        let original = drawn(LARGE, colour);
        let plain = Plain::both(&original);
        let columns = LARGE.width.div_ceil(mcu.width) as u16;
        for interval in [tile_interval(LARGE.width as u16, mcu.width as u16, 32), 7, columns + 1] {
            let bytes = with_index(&with_markers(&original, interval));
            let mut rng = random(u64::from(interval));
            let windows = (0..10).map(|_| edge_window(LARGE, mcu, interval, &mut rng));
            let what = || format!("{LARGE} {colour:?}, a marker every {interval}");
            assert_windows(&mut decoders(), &plain, &bytes, windows, &what);
        }
    });
}

/// Tests a photograph as it is, and in tiles with an index and without; `and` lists other tiles to test.
fn assert_photograph(path: &Path, and: &[Tile]) {
    let original = std::fs::read(path).unwrap();
    let plain = Plain::both(&original);
    let size = plain[0].size;
    let recut = |tile| Recutter::new(tile, Limits::DEFAULT).recut(&original).unwrap();
    let tiles = recut(Tile::default());
    let bare = tiles[..tiles.len() - index_len(&tiles)].to_vec();
    let (mut decoders, mut rng) = (decoders(), random(size.pixels()));
    let windows: Vec<Window> =
        (0..rounds::<u64>("FUSELOOP_WINDOWS")).map(|_| random_window(size, &mut rng)).collect();
    let mut assert = |name: &dyn Debug, bytes: &[u8], windows: &[Window]| {
        let what = || format!("{}, {name:?}", path.display());
        assert_windows(&mut decoders, &plain, bytes, windows.iter().copied(), &what);
    };
    assert(&"tiles with an index", &tiles, &windows);
    let few = &windows[..windows.len() / 4];
    assert(&"as it is", &original, few);
    assert(&"tiles without an index", &bare, few);
    and.iter().for_each(|&tile| assert(&tile, &recut(tile), few));
}

#[test]
fn windows_of_photographs_are_those_of_the_whole_before_and_after_re_cutting() {
    let others = [Tile::Pixels(64), Tile::Row];
    photographs().par_iter().enumerate().for_each(|(index, path)| {
        assert_photograph(path, if index % 4 == 0 { &others } else { &[] });
    });
}
