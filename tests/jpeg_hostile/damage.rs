//! Files cut short and bytes changed, of photographs as they are and with restart markers.

use crate::jpegs::*;
use crate::photographs::photographs;
use crate::whole;
use fuseloop::decode::{Decoder, tile_interval};
use fuseloop_ops::Size;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Cuts of each file.
const CUTS: usize = 16;

/// Changed bytes tried of each file; a longer run sets FUSELOOP_FLIPS and takes all photographs.
const FLIPS: usize = 6;

/// A photograph takes some milliseconds; the machine may be busy with other things.
const LONGEST: Duration = Duration::from_secs(2);

/// How many were decoded and refused.
#[derive(Default)]
struct Tally {
    decoded: AtomicUsize,
    refused: AtomicUsize,
}

/// Photographs to damage.
fn some() -> Vec<PathBuf> {
    let step = if std::env::var_os("FUSELOOP_FLIPS").is_some() { 1 } else { 9 };
    photographs().into_iter().step_by(step).collect()
}

/// A photograph with tiles and an index.
fn tiled(original: &[u8]) -> Vec<u8> {
    let coefficients = libjpeg_turbo_rs::read_coefficients(original).unwrap();
    let factors = coefficients.components.iter().map(|component| component.h_sampling);
    let finest = if coefficients.components.len() == 1 { 1 } else { factors.max().unwrap() };
    let interval = tile_interval(coefficients.width, 8 * u16::from(finest), 32);
    with_index(&with_markers(original, interval))
}

/// Decodes all and a window of a damaged file, in bounded time. What decodes has its size.
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

/// Runs `check` on each photograph as it is and with tiles, some at a time, and prints the tally.
fn for_each(check: impl Fn(&Path, &[u8], &mut Xoshiro256PlusPlus, &Tally) + Sync) {
    let tally = Tally::default();
    let paths = some();
    paths.par_iter().for_each(|path| {
        let original = std::fs::read(path).unwrap();
        for bytes in [&tiled(&original), &original] {
            check(path, bytes, &mut random(bytes.len() as u64), &tally);
        }
    });
    let [decoded, refused] =
        [&tally.decoded, &tally.refused].map(|count| count.load(Ordering::Relaxed));
    println!("{} photographs: {decoded} decoded, {refused} refused", paths.len());
    assert!(paths.is_empty() || decoded > 0 && refused > 0, "one of them is never tried");
}

impl Tally {
    fn count(&self, decoded: bool) {
        let count = if decoded { &self.decoded } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// What lies behind the end of the picture may be lost: it is not needed.
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
        let (mut decoder, mut bytes) = (Decoder::default(), bytes.to_vec());
        for flip in 0..asked("FUSELOOP_FLIPS", FLIPS) {
            // Half of them in the headers, where they do more.
            let most = if flip % 2 == 0 { bytes.len() } else { 700.min(bytes.len()) };
            let (at, bit) = (below(rng, most), below(rng, 8));
            bytes[at] ^= 1 << bit;
            tally.count(outcome(&mut decoder, &bytes, rng).is_some());
            bytes[at] ^= 1 << bit;
        }
    });
}
