//! Files cut short and bytes changed, in photographs as they are and with restart markers.
//!
//! | variable          | default                           | a longer run                              |
//! |-------------------|-----------------------------------|-------------------------------------------|
//! | `FUSELOOP_FLIPS`  | 6 flips, every 9th photograph, as it is and with tiles | this many flips, all photographs, of five kinds each: over 1,000 files |
//! | `FUSELOOP_SLICE`  | all of these files                | `2/8`: every eighth of them, from the third on |

use super::whole;
use crate::common::jpegs::*;
use crate::common::photographs::photographs;
use fuseloop::internals::decode::{Decoder, tile_interval};
use fuseloop::ops::{Resize, ops};
use fuseloop::source::{Column, InMemory, OwnedImage};
use fuseloop::{Loader, OnDamaged};
use fuseloop_counts::{is_raised, rounds, slice};
use fuseloop_ops::Size;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The number of cuts of each file.
const CUTS: usize = 16;

/// Converts a photograph to a file of one kind.
type Kind = fn(&[u8]) -> Vec<u8>;

const KINDS: [Kind; 5] = [
    <[u8]>::to_vec,
    tiled,
    progressive,
    |original| with_markers(original, 0),
    |original| with_markers(original, 7),
];

/// A photograph takes some milliseconds, in a debug build a second; the machine may be busy with other
/// tasks. A file that takes longer than this is considered hung.
const LONGEST: Duration = Duration::from_secs(60);

/// The numbers of files that were decoded and refused.
#[derive(Default)]
struct Tally {
    decoded: AtomicUsize,
    refused: AtomicUsize,
}

/// The photographs to damage, with the conversion of each.
fn files() -> Vec<(PathBuf, Kind)> {
    let is_long = is_raised("FUSELOOP_FLIPS");
    let (step, kinds) = if is_long { (1, &KINDS[..]) } else { (9, &KINDS[..2]) };
    let photographs = photographs().into_iter().step_by(step);
    let all = photographs.flat_map(|path| kinds.iter().map(move |kind| (path.clone(), *kind)));
    let (slice, slices) = slice("FUSELOOP_FLIPS");
    all.skip(slice).step_by(slices).collect()
}

/// The number of changed bytes tried for each file.
fn flips() -> usize {
    rounds("FUSELOOP_FLIPS")
}

/// Copies of a file cut at random positions, and copies with one bit changed: half of these changes are
/// in the headers, where they have more effect.
fn damaged(bytes: &[u8], rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<u8>> {
    let cuts = (0..CUTS).map(|_| bytes[..below(rng, bytes.len())].to_vec()).collect::<Vec<_>>();
    let flips = (0..flips()).map(|flip| {
        let most = if flip % 2 == 0 { bytes.len() } else { 700.min(bytes.len()) };
        let (at, bit) = (below(rng, most), below(rng, 8));
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1 << bit;
        bytes
    });
    cuts.into_iter().chain(flips).collect()
}

/// A photograph with tiles and an index.
fn tiled(original: &[u8]) -> Vec<u8> {
    let coefficients = libjpeg_turbo_rs::read_coefficients(original).unwrap();
    let factors = coefficients.components.iter().map(|component| component.h_sampling);
    let finest = if coefficients.components.len() == 1 { 1 } else { factors.max().unwrap() };
    let interval = tile_interval(coefficients.width, 8 * u16::from(finest), 32);
    with_index(&with_markers(original, interval))
}

/// Decodes all and a window of a damaged file, in bounded time. Decoded pixels must have the right size.
fn outcome(decoder: &mut Decoder, bytes: &[u8], rng: &mut Xoshiro256PlusPlus) -> Option<Vec<u8>> {
    let start = Instant::now();
    let size = decoder.size(&unmeasured(bytes)).unwrap_or(Size::new(1, 1));
    let window = random_window(size, rng);
    if let Ok(part) = pixels(decoder, bytes, window) {
        assert_eq!(part.len() as u64, window.size().pixels() * 3);
    }
    let found = whole(decoder, bytes).ok();
    assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
    found
}

/// Runs `check` on each file, in parallel, and prints the tally.
fn for_each(check: impl Fn(&Path, &[u8], &mut Xoshiro256PlusPlus, &Tally) + Sync) {
    let tally = Tally::default();
    let files = files();
    files.par_iter().for_each(|(path, kind)| {
        let bytes = kind(&std::fs::read(path).unwrap());
        check(path, &bytes, &mut random(bytes.len() as u64), &tally);
    });
    let [decoded, refused] =
        [&tally.decoded, &tally.refused].map(|count| count.load(Ordering::Relaxed));
    println!("{} files: {decoded} decoded, {refused} refused", files.len());
    assert!(files.is_empty() || decoded > 0 && refused > 0, "one of them is never tried");
}

impl Tally {
    fn count(&self, decoded: bool) {
        let count = if decoded { &self.decoded } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Bytes behind the end of the image may be lost: they are not needed.
#[test]
fn a_photograph_cut_short_is_refused_or_right() {
    for_each(|path, bytes, rng, tally| {
        let mut decoder = Decoder::default();
        let expected = whole(&mut decoder, bytes).unwrap();
        let end = bytes.len() - index_len(bytes);
        let random = (0..CUTS).map(|_| below(rng, end)).collect::<Vec<_>>();
        for len in random.into_iter().chain([end - 2, end - 1, end, bytes.len() - 1]) {
            let found = outcome(&mut decoder, &bytes[..len], rng);
            let right = found.as_ref().is_none_or(|found| *found == expected);
            assert!(right, "{} cut to {len} of {}", path.display(), bytes.len());
            tally.count(found.is_some());
        }
    });
}

#[test]
fn a_photograph_with_a_byte_changed_is_decoded_or_refused() {
    for_each(|_, bytes, rng, tally| {
        let mut decoder = Decoder::default();
        for bytes in &damaged(bytes, rng)[CUTS..] {
            tally.count(outcome(&mut decoder, bytes, rng).is_some());
        }
    });
}

/// The samples that a loader skips are those that can't be decoded, and all others are delivered.
#[test]
fn damaged_photographs_are_skipped_and_counted() {
    for_each(|path, bytes, rng, tally| {
        let damaged = damaged(bytes, rng);
        let mut decoder = Decoder::default();
        let refused = |bytes: &Vec<u8>| whole(&mut decoder, bytes).is_err();
        let bad: Vec<bool> = damaged.iter().map(refused).collect();
        bad.iter().for_each(|&bad| tally.count(!bad));
        let (rows, listed) = loaded(damaged);
        let expected = (0..).zip(&bad).filter(|(_, bad)| **bad).map(|(sample, _)| sample);
        assert_eq!(listed, expected.collect::<Vec<u64>>(), "{}", path.display());
        assert_eq!(rows, bad.len() - listed.len(), "{}", path.display());
    });
}

/// Loads images and skips damaged ones. Returns the number of rows,
/// and the samples that are listed as damaged.
fn loaded(pictures: Vec<Vec<u8>>) -> (usize, Vec<u64>) {
    let images = Column::images(pictures.into_iter().map(OwnedImage::jpeg).collect());
    let loader = Loader::from_source(InMemory::new([("image", images)]).unwrap())
        .batch_size(8)
        .drop_last(false)
        .workers(2)
        .on_damaged(OnDamaged::Skip)
        .pipeline("image", ops![Resize::new((16, 16)).unwrap()])
        .build()
        .unwrap();
    let rows = loader.epoch(0).unwrap().map(|batch| batch.unwrap().len()).sum();
    let quarantine = loader.quarantine();
    let mut listed: Vec<u64> = quarantine.samples.iter().map(|bad| bad.sample.0).collect();
    listed.sort_unstable();
    (rows, listed)
}
