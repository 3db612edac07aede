//! Resampling: a signal of one sample rate becomes one of another, as torchaudio's `resample` computes it by default
//! (`sinc_interp_hann`, a filter of 6 zero crossings, a rolloff of 0.99).
//!
//! ```text
//! out[n] = sum of in[i] * h(i / orig - n / new)                              n = 0 .. ceil(new * T / orig)
//! h(t)   = base / orig * sinc(base * t) * cos(pi * base * t / 12)^2          if |base * t| < 6, otherwise 0
//! base   = 0.99 * min(orig, new)
//! ```
//!
//! `orig` and `new` are the two rates divided by their greatest common divisor, `T` is the number of samples of the input,
//! which is 0 outside of them, and `sinc(t) = sin(pi * t) / (pi * t)`. The phases are exact fractions, the values of `h` are
//! computed as f64 and stored as f32, and the products are added in an order that depends on nothing. So each sample is a
//! function of `n` and of the input near it, and a window has the bits of the whole.

use super::error::no_memory;
use crate::error::Error;
use std::f64::consts::PI;
use std::sync::{Arc, Mutex, PoisonError};

/// The zero crossings of the filter on each side.
const ZERO_CROSSINGS: f64 = 6.0;

/// The share of the lower rate's band that passes.
const ROLLOFF: f64 = 0.99;

/// The number of sums that the products of a sample are added to: the width of a vector.
const LANES: usize = 8;

/// The maximum number of values of the filters of two rates: 4 MiB. From 44,100 to 16,000, there are 6,400.
const MOST_TAPS: u64 = 1 << 20;

/// The maximum number of bytes of the filters that are stored: 8 times the largest.
const MOST_STORED: usize = 32 << 20;

/// The filters that the decoders of the process have used last.
static STORED: StoredFilters = StoredFilters::new();

/// The ratio of two sample rates, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio {
    orig: u64,
    new: u64,
    /// The number of taps before the centre of a filter, and the number of all taps: a multiple of [`LANES`].
    half: u64,
    taps: u64,
}

impl Ratio {
    /// Returns the ratio of two rates; `None` if a rate is 0, or the filters would be too large.
    pub(super) fn new(from: u32, to: u32) -> Option<Self> {
        let divisor = gcd(from.into(), to.into());
        let (orig, new) = (u64::from(from).checked_div(divisor)?, u64::from(to) / divisor);
        if orig == 0 || new == 0 {
            return None;
        }
        let half = (ZERO_CROSSINGS * orig as f64 / (ROLLOFF * orig.min(new) as f64)).ceil() as u64;
        let taps = (2 * half + 1).next_multiple_of(LANES as u64);
        (taps * new <= MOST_TAPS).then_some(Self { orig, new, half, taps })
    }

    /// Returns the number of samples that `frames` samples become.
    pub(super) fn output_frames(&self, frames: u32) -> u64 {
        (u64::from(frames) * self.new).div_ceil(self.orig)
    }

    /// Returns the samples that `count` samples from `first` on are made of: how many of them lie before the first sample
    /// of the input, the first of the others, and the number of all.
    pub(super) fn input(&self, first: u64, count: usize) -> (usize, u64, usize) {
        if count == 0 {
            return (0, 0, 0);
        }
        let centre = |n: u64| n * self.orig / self.new;
        let (from, to) = (centre(first), centre(first + count as u64 - 1));
        let before = self.half.saturating_sub(from);
        (before as usize, from.saturating_sub(self.half), (to - from + self.taps) as usize)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The filters of a ratio: one for each phase.
#[derive(Debug)]
pub(super) struct Resampler {
    ratio: Ratio,
    /// The taps of phase 0, then those of phase 1, ...
    taps: Vec<f32>,
}

/// Filters that were used, up to [`MOST_STORED`] bytes: those that were used last are at the end.
struct StoredFilters(Mutex<Vec<Arc<Resampler>>>);

impl StoredFilters {
    const fn new() -> Self {
        Self(Mutex::new(vec![]))
    }

    /// Returns the filters of a ratio. They are computed outside of the lock: it is held for moments only.
    fn get(&self, ratio: Ratio) -> Result<Arc<Resampler>, Error> {
        if let Some(known) = self.used(ratio, None) {
            return Ok(known);
        }
        let new = Arc::new(Resampler::new(ratio)?);
        Ok(self.used(ratio, Some(&new)).unwrap_or(new))
    }

    /// Returns the stored filters of a ratio, which become those that were used last. If there are none, `new` ones are
    /// stored.
    fn used(&self, ratio: Ratio, new: Option<&Arc<Resampler>>) -> Option<Arc<Resampler>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(|known| known.ratio == ratio);
        let used = known.map(|known| all.remove(known)).or_else(|| new.cloned())?;
        all.push(Arc::clone(&used));
        let mut bytes: usize = all.iter().map(|one| one.bytes()).sum();
        while bytes > MOST_STORED {
            bytes -= all.remove(0).bytes();
        }
        Some(used)
    }
}

impl Resampler {
    /// Returns the filters of a ratio, which the decoders of the process share.
    pub(super) fn shared(ratio: Ratio) -> Result<Arc<Self>, Error> {
        STORED.get(ratio)
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.taps)
    }

    /// Computes the filters.
    fn new(ratio: Ratio) -> Result<Self, Error> {
        let Ratio { orig, new, half, taps: count } = ratio;
        let mut taps = vec![];
        let most = (count * new) as usize;
        taps.try_reserve_exact(most).map_err(|_| no_memory(most * size_of::<f32>()))?;
        let base = ROLLOFF * orig.min(new) as f64;
        for phase in 0..new {
            // Sample `phase` lies `late / new` behind the sample of the input at the centre of its filter.
            let late = phase * orig % new;
            taps.extend((0..count).map(|tap| {
                let distance = (tap as f64 - half as f64) * new as f64 - late as f64;
                let t = distance / (orig * new) as f64 * base;
                (value(t) * base / orig as f64) as f32
            }));
        }
        Ok(Self { ratio, taps })
    }

    /// Computes the samples from `first` on, as bytes, from the samples that [`Ratio::input`] says.
    pub(super) fn resample(&self, first: u64, input: &[f32], out: &mut [[u8; size_of::<f32>()]]) {
        let Ratio { orig, new, taps: width, .. } = self.ratio;
        let width = width as usize;
        let (mut phase, mut late, mut at) = (first % new, first * orig % new, 0);
        for out in out {
            let taps = &self.taps[phase as usize * width..][..width];
            *out = dot(taps, &input[at..at + width]).to_ne_bytes();
            late += orig;
            at += (late / new) as usize;
            late %= new;
            phase = if phase + 1 == new { 0 } else { phase + 1 };
        }
    }
}

/// Returns `sinc(t) * cos(pi * t / 12)^2`, which is 0 from the last zero crossing on.
fn value(t: f64) -> f64 {
    if t.abs() >= ZERO_CROSSINGS {
        return 0.0;
    }
    let sinc = if t == 0.0 { 1.0 } else { libm::sin(PI * t) / (PI * t) };
    sinc * libm::cos(PI * t / ZERO_CROSSINGS / 2.0).powi(2)
}

/// Returns the sum of the products, of as many taps as samples.
fn dot(taps: &[f32], samples: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (taps, samples) in taps.as_chunks::<LANES>().0.iter().zip(samples.as_chunks::<LANES>().0) {
        for ((sum, tap), sample) in sums.iter_mut().zip(taps).zip(samples) {
            *sum += tap * sample;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula at the top, sample by sample, as f64.
    fn plain(signal: &[f32], from: u32, to: u32) -> Vec<f64> {
        let divisor = gcd(from.into(), to.into());
        let (orig, new) = (f64::from(from) / divisor as f64, f64::from(to) / divisor as f64);
        let base = ROLLOFF * orig.min(new);
        let count = (new * signal.len() as f64 / orig).ceil() as usize;
        let of = |n: usize| {
            let product = |(i, sample): (usize, &f32)| {
                let t = i as f64 / orig - n as f64 / new;
                f64::from(*sample) * base / orig * value(base * t)
            };
            signal.iter().enumerate().map(product).sum()
        };
        (0..count).map(of).collect()
    }

    fn resampled(signal: &[f32], ratio: Ratio, (first, count): (u64, usize)) -> Vec<f32> {
        let (before, from, len) = ratio.input(first, count);
        let from = from as usize;
        let mut input = vec![0.0; len];
        for (to, from) in input[before..].iter_mut().zip(signal.get(from..).unwrap_or_default()) {
            *to = *from;
        }
        let mut out = vec![[0xff; 4]; count];
        Resampler::new(ratio).unwrap().resample(first, &input, &mut out);
        out.into_iter().map(f32::from_ne_bytes).collect()
    }

    #[test]
    fn samples_are_those_of_the_formula_and_windows_have_the_bits_of_the_whole() {
        let signal: Vec<f32> = (0..500_u32).map(|n| (n * n % 97) as f32 / 48.5 - 1.0).collect();
        for (from, to) in [
            (44_100, 16_000),
            (48_000, 16_000),
            (8_000, 16_000),
            (16_000, 44_100),
            (22_050, 16_000),
            (7, 5),
            (192_000, 1_000),
        ] {
            let (ratio, want) = (Ratio::new(from, to).unwrap(), plain(&signal, from, to));
            let frames = ratio.output_frames(500);
            assert_eq!(frames, want.len() as u64);
            let whole = resampled(&signal, ratio, (0, want.len()));
            let off = whole.iter().zip(&want).map(|(found, want)| (f64::from(*found) - want).abs());
            let most = off.fold(0.0, f64::max);
            assert!(most < 1e-6, "{from} to {to}: {most}");
            for first in 0..frames.min(60) {
                let count = (frames - first).min(1 + first * 7) as usize;
                let part = resampled(&signal, ratio, (first, count));
                assert!(part == whole[first as usize..][..count], "{from} to {to}: {first}");
            }
        }
    }

    #[test]
    fn a_constant_stays_one_far_from_the_ends() {
        for (from, to) in [(44_100, 16_000), (16_000, 44_100)] {
            let ratio = Ratio::new(from, to).unwrap();
            let ones = resampled(&[1.0; 4000], ratio, (ratio.output_frames(2000), 100));
            assert!(ones.iter().all(|one| (one - 1.0).abs() < 5e-3), "{ones:?}");
        }
    }

    #[test]
    fn filters_are_shared_and_those_that_were_used_last_stay() {
        let (stored, used) = (StoredFilters::new(), Ratio::new(44_100, 16_000).unwrap());
        let first = stored.get(used).unwrap();
        // Filters of 2.5 MiB each, of which 12 have room.
        for from in (47_901..48_001).step_by(2).take(20) {
            stored.get(Ratio::new(from, 16_000).unwrap()).unwrap();
            assert!(Arc::ptr_eq(&stored.get(used).unwrap(), &first), "{from}");
        }
        let all = stored.0.into_inner().unwrap();
        let bytes: usize = all.iter().map(|one| one.bytes()).sum();
        assert!(all.len() < 20 && bytes <= MOST_STORED && bytes > MOST_STORED / 2, "{bytes}");
        assert!(Arc::ptr_eq(&Resampler::shared(used).unwrap(), &Resampler::shared(used).unwrap()));
    }

    #[test]
    fn rates_whose_filters_are_too_large_are_refused() {
        assert_eq!(Ratio::new(44_101, 47_999).map(|ratio| ratio.taps), Some(16));
        for (from, to) in
            [(0, 16_000), (16_000, 0), (u32::MAX, 16_000), (u32::MAX, 1), (1, u32::MAX)]
        {
            assert_eq!(Ratio::new(from, to), None, "{from} {to}");
        }
        assert_eq!(Ratio::new(16_000, 16_000).map(|ratio| (ratio.orig, ratio.new)), Some((1, 1)));
    }
}
