//! Decoding the windows that `RandomResizedCrop` takes of photographs, on one thread.
//!
//! A row reads `<method>  us an image  share of its pixels decoded  <- over each yardstick`:
//!
//! | method | |
//! |---|---|
//! | whole, window of the file as it is | our decoder; no markers: above and beside the window only entropy-coded bits are read |
//! | window, re-cut | restart markers every 32 or 64 pixels, or every row of MCUs |
//! | window, bit planes | tiles of 32 pixels; `FUSELOOP_ISA` selects the form of the decoder |
//! | window, progressive | the same coefficients in the scans of a progressive JPEG |
//! | the same (zune-jpeg) | unmodified zune-jpeg, on a file reduced to the window, or on the whole progressive one |
//! | libjpeg-turbo whole | accurate IDCT, smooth upsampling |
//! | libjpeg-turbo crop and skip | `jpeg_crop_scanline`, `jpeg_skip_scanlines`, no row below |
//! | libjpeg-turbo whole, re-cut | the cost of markers for a reader of the whole image |
//! | libjpeg-turbo whole, progressive | the yardstick of progressive ones |
//!
//! Photographs are `data/imagenet` of the folder `FUSELOOP_SHARED` or `../shared`, in their
//! original size and reduced as for training. Windows are drawn once, by the op itself (scale
//! 0.08..1, ratio 3/4..4/3), four of each photograph. The methods take turns, round by round;
//! ratios are medians of the rounds' ratios, so that a slow moment of the machine affects all of
//! them. Times are processor times.
//!
//! `-- nothing` runs each method once, with few photographs.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../common/mod.rs"]
mod common;
mod libjpeg;
mod pictures;
#[path = "../../cli/src/process.rs"]
#[allow(dead_code, unused_imports, reason = "a benchmark asks for less than the command")]
mod process;
mod turn;

use common::figures::record;
use common::median;
use common::photographs::all;
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop::recut::Tile;
use libjpeg::Libjpeg;
use pictures::{Photographs, Recut};
use std::path::Path;
use turn::{Turn, whole, windowed};

const WHOLE: &str = "whole (zune-jpeg)";
const RECUT: &str = "window, re-cut, tiles of 32";
const PLANES: &str = "window, bit planes, tiles of 32";
const PROGRESSIVE: &str = "window, progressive";
const LIBJPEG: &str = "libjpeg-turbo whole";
const LIBJPEG_PROGRESSIVE: &str = "libjpeg-turbo whole, progressive";
const CROP: &str = "libjpeg-turbo crop and skip";

/// The methods that [`RECUT`] is compared with, and the largest ratio of [`RECUT`]'s time to each.
const YARDSTICKS: [(&str, f64); 3] = [(LIBJPEG, 0.62), (WHOLE, 0.52), (CROP, 0.85)];

/// The largest ratio of [`PROGRESSIVE`]'s time to [`LIBJPEG_PROGRESSIVE`]'s.
const PROGRESSIVE_AIM: f64 = 0.55;

/// The largest ratio of [`PLANES`]'s time to [`RECUT`]'s.
const PLANES_AIM: f64 = 0.65;

/// A method of decoding, and the results of its turns.
struct Method<'a> {
    name: &'static str,
    run: Box<dyn FnMut() -> Turn + 'a>,
    turns: Vec<Turn>,
}

impl<'a> Method<'a> {
    fn new(name: &'static str, run: impl FnMut() -> Turn + 'a) -> Self {
        Self { name, run: Box::new(run), turns: vec![] }
    }

    /// Returns the median over the rounds of this method's time divided by another's.
    fn over(&self, other: &Self) -> f64 {
        median(self.turns.iter().zip(&other.turns).map(|(a, b)| a.micros() / b.micros()))
    }
}

fn main() {
    let is_full = std::env::args().any(|arg| arg == "--bench")
        && !std::env::args().any(|arg| arg == "nothing" || arg == "--test");
    let (rounds, photographs) = if is_full { (7, usize::MAX) } else { (1, 4) };
    let mut paths = all();
    paths.truncate(photographs);
    if paths.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = libjpeg::compile(folder.path());
    let original = Photographs::original(&paths);
    let smaller = original.smaller();
    for set in [original, smaller] {
        measure(&set, rounds, program.as_deref(), folder.path());
        if is_full {
            print_recutting(&set);
        }
        println!();
    }
}

fn measure(set: &Photographs, rounds: usize, program: Option<&Path>, folder: &Path) {
    let recut = [Tile::Pixels(32), Tile::Pixels(64), Tile::Row].map(|tile| set.recut(tile));
    let (planes, progressive) = (set.bit_planes(), set.progressive());
    print_bytes(set, &recut, &planes);
    let mut methods = ours(set, &recut, &planes, &progressive);
    let theirs = |program| theirs(set, &recut, &progressive, program, folder);
    methods.extend(program.into_iter().flat_map(theirs));
    for _ in 0..rounds {
        methods.iter_mut().for_each(|method| method.turns.push((method.run)()));
    }
    println!("{rounds} rounds in turn:");
    methods.iter().for_each(|method| print_row(method, &methods, set));
    print_aims(&methods);
}

fn ours<'a>(
    set: &'a Photographs,
    recut: &'a [Recut; 3],
    planes: &'a [Vec<u8>],
    progressive: &'a [Vec<u8>],
) -> Vec<Method<'a>> {
    let [tiles, wide_tiles, rows] = recut.each_ref().map(|recut| &recut.files);
    let decoder = |by| Decoder::with_backend(by, DecodeOptions::default());
    let all = |name, by| {
        let mut decoder = decoder(by);
        Method::new(name, move || whole(&mut decoder, set, &set.files))
    };
    let windows = |name, by, files: &'a [Vec<u8>]| {
        let mut decoder = decoder(by);
        Method::new(name, move || windowed(&mut decoder, set, files))
    };
    vec![
        all("whole", JpegBackend::Both),
        windows("window of the file as it is", JpegBackend::Both, &set.files),
        windows(RECUT, JpegBackend::Both, tiles),
        windows(PLANES, JpegBackend::Both, planes),
        windows("window, re-cut, tiles of 64", JpegBackend::Both, wide_tiles),
        windows("window, re-cut, rows", JpegBackend::Both, rows),
        windows(PROGRESSIVE, JpegBackend::Both, progressive),
        all(WHOLE, JpegBackend::Zune),
        windows("window as it is (zune-jpeg)", JpegBackend::Zune, &set.files),
        windows("window, tiles of 32 (zune-jpeg)", JpegBackend::Zune, tiles),
        windows("window, progressive (zune-jpeg)", JpegBackend::Zune, progressive),
    ]
}

fn theirs<'a>(
    set: &'a Photographs,
    recut: &'a [Recut; 3],
    progressive: &'a [Vec<u8>],
    program: &Path,
    folder: &Path,
) -> Vec<Method<'a>> {
    let start = |files: &[Vec<u8>]| Libjpeg::start(program, folder, files, &set.windows);
    let [mut full, mut crop, mut tiles, mut scans] =
        [&set.files[..], &set.files, &recut[0].files, progressive].map(start);
    vec![
        Method::new(LIBJPEG, move || full.turn("full")),
        Method::new(CROP, move || crop.turn("crop")),
        Method::new("libjpeg-turbo whole, re-cut", move || tiles.turn("full")),
        Method::new(LIBJPEG_PROGRESSIVE, move || scans.turn("full")),
    ]
}

fn print_bytes(set: &Photographs, recut: &[Recut; 3], planes: &[Vec<u8>]) {
    let (count, bytes) = (set.files.len(), set.bytes());
    println!(
        "{}: {count} pictures, {:.1} kpixel and {:.1} kB each, windows of {:.0} % of the area",
        set.name,
        set.pixels_each() / 1e3,
        bytes as f64 / 1e3 / count as f64,
        100.0 * set.wanted_each() / set.pixels_each(),
    );
    let more = |now: usize| 100.0 * (now as f64 / bytes as f64 - 1.0);
    for (name, recut) in ["tiles of 32", "tiles of 64", "rows"].iter().zip(recut) {
        let (with, without) = recut.bytes();
        println!(
            "  re-cut, {name:<12} {:+5.2} % bytes, {:+5.2} % with the index; {} kept as they are",
            more(without),
            more(with),
            recut.unchanged
        );
    }
    let planes = planes.iter().map(Vec::len).sum();
    println!("  bit planes, tiles of 32 {:+5.2} % bytes with the index", more(planes));
    record(set.name, "bytes, JPEG", bytes as f64 / count as f64, "bytes");
    record(set.name, "bytes, re-cut", recut[0].bytes().0 as f64 / count as f64, "bytes");
    record(set.name, "bytes, bit planes", planes as f64 / count as f64, "bytes");
}

fn print_row(method: &Method<'_>, all: &[Method<'_>], set: &Photographs) {
    let micros = median(method.turns.iter().map(|turn| turn.micros()));
    let share = 100.0 * method.turns[0].pixels_each() / set.pixels_each();
    print!("  {:<32} {micros:>8.1} us, {share:>3.0} % decoded", method.name);
    record(set.name, method.name, micros, "us");
    for (name, _) in YARDSTICKS {
        if let Some(yardstick) = all.iter().find(|other| other.name == name) {
            print!("  {:.2} x {name}", method.over(yardstick));
        }
    }
    println!();
}

fn print_aims(methods: &[Method<'_>]) {
    let named = |name| methods.iter().find(|method| method.name == name);
    let Some(recut) = named(RECUT) else { return };
    if let Some(planes) = named(PLANES) {
        let ratio = planes.over(recut);
        let verdict = if ratio <= PLANES_AIM { "reached" } else { "MISSED" };
        println!("{PLANES}, over {RECUT}: {ratio:.3}; aim: <= {PLANES_AIM:.2}: {verdict}");
    }
    if let (Some(progressive), Some(whole)) = (named(PROGRESSIVE), named(LIBJPEG_PROGRESSIVE)) {
        let ratio = progressive.over(whole);
        let verdict = if ratio <= PROGRESSIVE_AIM { "reached" } else { "MISSED" };
        println!(
            "{PROGRESSIVE}, over {LIBJPEG_PROGRESSIVE}: {ratio:.3}; aim: <= {PROGRESSIVE_AIM:.2}: {verdict}"
        );
    }
    for (name, most) in YARDSTICKS {
        if let Some(yardstick) = named(name) {
            let ratio = recut.over(yardstick);
            let verdict = if ratio <= most { "reached" } else { "MISSED" };
            println!("{RECUT}, over {name}: {ratio:.3}; aim: <= {most:.2}: {verdict}");
        }
    }
}

fn print_recutting(set: &Photographs) {
    let one = median((0..3).map(|_| set.recut_alone().as_secs_f64()));
    let each = |seconds: f64| seconds * 1e3 / set.files.len() as f64;
    let together = median((0..3).map(|_| set.recut_together(1000).as_secs_f64()));
    println!(
        "re-cutting: {:.2} ms a picture on one thread, {together:.1} s for 1000 on all cores",
        each(one)
    );
    let planes = median((0..3).map(|_| set.bit_planes_alone().as_secs_f64()));
    println!("bit planes, proved: {:.2} ms a picture on one thread", each(planes));
    record(set.name, "re-cutting", each(one), "ms");
    record(set.name, "writing bit planes", each(planes), "ms");
}
