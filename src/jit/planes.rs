//! Planes of images of more than four channels: each runs through the compiled loops by itself.
//!
//! ```text
//! [H, W, C] ──split──▶ C planes ─┬─ loops ─▶ plane of a [C, H, W] output
//! [C, H, W] ─────────────────────┴─ loops ─▶ C planes ──join──▶ [H, W, C] output
//! ```
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
    pub(super) split: Vec<u8>,
    pub(super) stored: Vec<u8>,
    pub(super) draws: Draws,
}

/// Copies the planes of the pixels inside `wanted`, a window of the whole image.
pub(super) fn split<'a>(
    source: DecodedPixels<'_>,
    wanted: Window,
    to: &'a mut Vec<u8>,
) -> Result<DecodedPixels<'a>, NoMemory> {
    let DecodedPixels { view, top, left, whole } = source;
    let inside = wanted.top.checked_sub(top).zip(wanted.left.checked_sub(left));
    let part = inside.and_then(|(top, left)| view.crop(Window { top, left, ..wanted }));
    let (view, top, left) = match part {
        Some(part) => (part, wanted.top, wanted.left),
        None => (view, top, left),
    };
    Ok(DecodedPixels { view: planes::split(&view, to)?, top, left, whole })
}
