//! The result of one turn of a method, and our own methods.

use crate::pictures::Photographs;
use crate::process;
use fuseloop::internals::decode::Decoder;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The result of one turn: every image or window once.
#[derive(Clone, Copy, Default)]
pub(crate) struct Turn {
    pub(crate) nanos: u64,
    pub(crate) decodes: u64,
    /// The number of decoded pixels, wanted or not.
    pub(crate) pixels: u64,
}

impl Turn {
    pub(crate) fn micros(self) -> f64 {
        self.nanos as f64 / 1e3 / self.decodes as f64
    }

    pub(crate) fn pixels_each(self) -> f64 {
        self.pixels as f64 / self.decodes as f64
    }
}

/// Decodes every image of `files` as a whole, once.
pub(crate) fn whole(decoder: &mut Decoder, set: &Photographs, files: &[Vec<u8>]) -> Turn {
    let wanted = set.sizes.iter().enumerate().map(|(file, size)| (file, size.full()));
    turn(decoder, &set.sizes, files, wanted)
}

/// Decodes every window once.
pub(crate) fn windowed(decoder: &mut Decoder, set: &Photographs, files: &[Vec<u8>]) -> Turn {
    turn(decoder, &set.sizes, files, set.windows.iter().copied())
}

fn turn(
    decoder: &mut Decoder,
    sizes: &[Size],
    files: &[Vec<u8>],
    wanted: impl Iterator<Item = (usize, Window)>,
) -> Turn {
    let mut turn = Turn::default();
    let clock = Clock::start();
    for (file, window) in wanted {
        let image = crate::pictures::encoded(&files[file], sizes[file]);
        let decoded = decoder.decode(&image, window).unwrap();
        turn.decodes += 1;
        // The stride of the view is the width of the rows that were decoded.
        let row = black_box(decoded).view.stride() as u64 / 3;
        turn.pixels += row * u64::from(decoded.view.size().height);
    }
    turn.nanos = clock.elapsed().as_nanos() as u64;
    turn
}

/// Measures processor time, so that other processes do not count; measures wall time if the system
/// does not report processor time.
struct Clock {
    wall: Instant,
    processor: Option<Duration>,
}

impl Clock {
    fn start() -> Self {
        Self { wall: Instant::now(), processor: process::cpu_time() }
    }

    fn elapsed(&self) -> Duration {
        let processor = process::cpu_time().zip(self.processor).map(|(now, then)| now - then);
        processor.unwrap_or_else(|| self.wall.elapsed())
    }
}
