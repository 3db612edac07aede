//! How much work one call may ask for, in pixels.
//!
//! A picture in the page has at most some hundred pixels a side, so larger ones are work for nothing. An image that an op
//! makes counts with all its pixels, whether or not they are shown.

use super::fault::{Fault, TOO_LARGE};
use fuseloop::internals::plan::{Draws, ImagePlan};

/// The most pixels of an image that an op makes, unless the stored image has more: 4096 x 4096.
pub(super) const MOST_PIXELS: u64 = 1 << 24;
/// The most pixels of the images of all cells of a grid, each counted at its largest.
pub(super) const MOST_GRID: u64 = 1 << 27;
/// The most pixels of the images after each op of a sample.
const MOST_STEPS: u64 = 1 << 26;
/// The maximum number of bytes that the threads of a grid hold.
const MOST_BYTES: u64 = 1 << 30;

/// The most pixels of the pictures of all cells of a grid: those of 128 cells of 512 x 512, which are 128 MiB.
const MOST_SHOWN: u64 = 1 << 25;

/// Returns the largest side of each of a number of pictures in a grid, at most `side`.
pub(super) fn side(pictures: usize, side: u32) -> u32 {
    let most = (MOST_SHOWN / pictures.max(1) as u64).isqrt();
    side.min(u32::try_from(most).unwrap_or(side)).max(16)
}

/// Returns the pixels of the largest image that the ops make of a sample; 0 if the stored one is as large.
pub(super) fn made(plan: &ImagePlan, draws: &Draws) -> u64 {
    let largest = plan.largest_pixels(draws);
    if largest > draws.source.pixels() { largest } else { 0 }
}

/// Refuses the images after each op of a sample if they are too many pixels.
pub(super) fn check_steps(plan: &ImagePlan, draws: &Draws) -> Result<(), Fault> {
    let images = plan.flat_ops().len() as u64 + 1;
    let found = made(plan, draws).saturating_mul(images);
    if found <= MOST_STEPS {
        return Ok(());
    }
    let found = format!(
        "{images} images of {} pixels, one after each op: the studio shows at most {MOST_STEPS} pixels of one sample",
        made(plan, draws)
    );
    Err(Fault::plain(&found, TOO_LARGE))
}

/// Returns the error of a grid with too many pixels.
pub(super) fn grid_too_large(cells: usize) -> Fault {
    let found = format!(
        "the ops make more than {MOST_GRID} pixels for the {cells} images of this page of samples"
    );
    Fault::plain(&found, "show fewer samples or draws, or use smaller sizes")
}

/// Returns on how many threads a grid is computed: on as many as have room for their images.
pub(super) fn threads(plan: &ImagePlan, cells: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (pixels, output) = match plan.output().size() {
        Some(size) => (size.pixels(), plan.sample_bytes() as u64),
        None => (MOST_PIXELS, 4 * MOST_PIXELS),
    };
    // The row, the image that is shown of it, and an image between two loops.
    let bytes = output.saturating_mul(2).saturating_add(pixels * 6).max(1);
    let most = usize::try_from(MOST_BYTES / bytes).unwrap_or(usize::MAX);
    cores.min(cells).min(16).min(most).max(1)
}

/// Returns how many samples are measured: fewer of large images.
pub(super) fn measured(plan: &ImagePlan, most: usize) -> usize {
    let pixels = plan.output().size().map_or(0, |size| size.pixels());
    if pixels > MOST_PIXELS / 8 { 1 } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pictures_are_smaller() {
        assert_eq!([24, 24 * 16, 128 * 16].map(|pictures| side(pictures, 224)), [224, 224, 128]);
    }
}
