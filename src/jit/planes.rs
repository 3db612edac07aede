//! Planes of images of more than four channels: each runs through the compiled loops by itself.
//!
//! ```text
//! [H, W, C] ──split──▶ C planes ─┬─ loops ─▶ plane of a [C, H, W] output
//! [C, H, W] ─────────────────────┼─ loops ─▶ C planes ──join──▶ [H, W, C] output
//!     │                          └─ loops ─▶ planes ──join──▶ image of the selected planes ─ loops ─▶ output
//!     └──selected──▶ image of the selected channels ─ loops ─▶ output
//! ```
//!
//! Planes that no output needs are neither copied nor processed. Where up to four channels are selected, the loops
//! after that process them together.
//!
//! The split and the join are passes over memory of their own: the loops of a plane then read and write adjacent
//! elements, whatever the number of channels, and their code does not depend on it.

use super::DecodedPixels;
use crate::plan::Draws;
use fuseloop_kernels::planes;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::memory::NoMemory;

/// The memory of one worker for planes.
#[derive(Debug, Default)]
pub(super) struct PlaneScratch {
    /// The channel of the source that each plane is.
    pub(super) channels: Vec<usize>,
    pub(super) split: Vec<u8>,
    /// The planes of the output, or an image of selected channels.
    pub(super) image: Vec<u8>,
    pub(super) draws: Draws,
}

/// Copies the planes of `channels` of the pixels inside `wanted`, a window of the whole image.
pub(super) fn split<'a>(
    source: DecodedPixels<'_>,
    wanted: Window,
    channels: &[usize],
    to: &'a mut Vec<u8>,
) -> Result<DecodedPixels<'a>, NoMemory> {
    let DecodedPixels { view, top, left, whole } = windowed(source, wanted);
    Ok(DecodedPixels { view: planes::split(&view, channels, to)?, top, left, whole })
}

/// Copies `channels` of the pixels inside `wanted`, a window of the whole image, to an image of these channels.
pub(super) fn selected<'a>(
    source: DecodedPixels<'_>,
    wanted: Window,
    channels: &[usize],
    to: &'a mut Vec<u8>,
) -> Result<DecodedPixels<'a>, NoMemory> {
    let DecodedPixels { view, top, left, whole } = windowed(source, wanted);
    Ok(DecodedPixels { view: planes::selected(&view, channels, to)?, top, left, whole })
}

/// Returns the pixels inside `wanted`, or all of them if they lack some of its.
fn windowed(source: DecodedPixels<'_>, wanted: Window) -> DecodedPixels<'_> {
    let DecodedPixels { view, top, left, whole } = source;
    let inside = wanted.top.checked_sub(top).zip(wanted.left.checked_sub(left));
    let part = inside.and_then(|(top, left)| view.crop(Window { top, left, ..wanted }));
    match part {
        Some(view) => DecodedPixels { view, top: wanted.top, left: wanted.left, whole },
        None => source,
    }
}
