//! What each op of a plan should cost: pixels times a constant.
//!
//! The constants are nanoseconds a pixel on one core of a 2.3 GHz Sapphire Rapids, pictures of
//! 224x224 in cache: fitted to what `cargo bench --bench fused` and `--bench resize` took there.
//! Another machine's differ, by about one factor for all: what matters is where measured and
//! predicted differ by more than the others do.

use super::measure::{BlockCosts, Costs};
use super::shot::Source;
use crate::plan::{Block, Draws, ImagePlan, Kind, PixelKind};
use fuseloop_ops::{DType, Motion, RowMaker, Size};

/// A pixel loaded and stored.
const LOAD_AND_STORE: f64 = 0.4;
/// The same, stored as two bytes by a row function.
const LOAD_AND_STORE_HALF: f64 = 0.6;
/// A pixel of the source of a compiled resize, and one of what it makes.
const RESIZE: [f64; 2] = [0.6, 1.0];
/// A pixel of what a row function makes.
const ROW_FUNCTION: f64 = 4.0;
/// A pixel through a pixel op that clamps, and through one that gives floats.
const PIXEL: f64 = 0.4;
const FLOATS: f64 = 0.15;
/// A pixel read for a mean.
const READING: f64 = 0.6;
/// A pixel looked up in a table.
const TABLE: f64 = 1.0;
/// A pixel's levels counted.
const COUNT: f64 = 1.5;
/// A pixel compared with a rectangle.
const REGION: f64 = 0.2;

/// What each block and op should cost for one sample, in the words of a [`Meter`](super::Meter).
/// Ops in plain Rust are not predicted, nor what a device does.
#[must_use]
pub fn predict(plan: &ImagePlan, source: Source<'_>, draws: &Draws) -> Costs {
    let mut size = source.whole;
    let blocks = plan.blocks()[..plan.host_blocks()].iter().map(|block| {
        let mut costs = BlockCosts::default();
        for leaf in block.ops.clone().filter(|leaf| draws.active[*leaf]) {
            let before = size;
            let motions = draws.motions.iter().filter(|(of, _)| *of == leaf);
            let (made, after) = moved(size, motions.map(|(_, motion)| motion));
            size = after;
            if let Some(ns) = made.or_else(|| of_values(plan, block, leaf, before)) {
                costs.ops.push((leaf, ns));
            }
        }
        let is_half = matches!(block.dtype, DType::F16 | DType::Bf16);
        let pixel = if is_half { LOAD_AND_STORE_HALF } else { LOAD_AND_STORE };
        costs.load_and_store = pixel * pixels(size);
        costs.total = costs.load_and_store + costs.ops.iter().map(|(_, ns)| ns).sum::<f64>();
        costs.bytes_out = pixels(size) * 3.0 * block.dtype.bytes() as f64;
        costs
    });
    Costs { samples: 1, blocks: blocks.collect() }
}

fn pixels(size: Size) -> f64 {
    size.pixels() as f64
}

/// What making rows costs, if a motion does, and the size after all of them.
fn moved<'a>(mut size: Size, motions: impl Iterator<Item = &'a Motion>) -> (Option<f64>, Size) {
    let mut cost = None;
    for motion in motions {
        let after = motion.output(size);
        cost = cost.or(match motion {
            Motion::Resize { interpolation, .. } if interpolation.maker() == RowMaker::Compiled => {
                Some(RESIZE[0] * pixels(size) + RESIZE[1] * pixels(after))
            }
            Motion::Resize { .. } | Motion::Rows(_) => Some(ROW_FUNCTION * pixels(after)),
            Motion::Frame { .. } | Motion::FlipHorizontal | Motion::FlipVertical => None,
        });
        size = after;
    }
    (cost, size)
}

/// What an op on values costs. Ops folded together cost what the first of them does.
fn of_values(plan: &ImagePlan, block: &Block, leaf: usize, size: Size) -> Option<f64> {
    let step = block.steps.iter().find(|step| step.leaves.contains(&leaf))?;
    if step.leaves[0] != leaf {
        return None;
    }
    let pixel = match &plan.leaves()[leaf].kind {
        _ if step.leaves.len() > 1 => TABLE.min(PIXEL * step.leaves.len() as f64),
        Kind::Pixel(_) if plan.leaves()[leaf].output.dtype != DType::U8 => FLOATS,
        Kind::Pixel(op) => of_pixel_op(op),
        Kind::Shuffled(parts) => parts.iter().map(of_pixel_op).sum(),
        Kind::Table { counted, .. } => TABLE + if *counted { COUNT } else { 0.0 },
        Kind::Region { .. } | Kind::Geometry { .. } => REGION,
        _ => return None,
    };
    Some(pixel * pixels(size))
}

fn of_pixel_op(op: &PixelKind) -> f64 {
    PIXEL + if op.needs_mean { READING } else { 0.0 }
}
