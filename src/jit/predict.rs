//! Predicts the cost of each op of a plan: pixels times a constant.
//!
//! The constants are nanoseconds a pixel on one core of a 2.3 GHz Sapphire Rapids, for images of 224x224
//! in cache, fitted to the results of `cargo bench --bench fused` and `--bench resize` there. Other
//! machines differ by about one factor for all constants: what matters is an op whose measured and
//! predicted costs differ by more than those of the others.

use super::invocation::DecodedPixels;
use super::measure::{BlockCosts, Costs};
use super::support::vector_bits;
use super::vector_bits::VectorBits;
use crate::plan::{Block, Draws, FusedOp, ImagePlan, OpKind, PixelKind};
use fuseloop_ops::author::{GeometryStep, RowProducer};
use fuseloop_ops::internals::geometry_step;
use fuseloop_ops::{DType, Size};

/// Loading and storing a pixel.
const LOAD_AND_STORE: f64 = 0.4;
/// Loading a pixel and storing it as 2-byte elements by a row function.
const LOAD_AND_STORE_HALF: f64 = 0.6;
/// A source pixel of a compiled resize, and a pixel of its result.
const RESIZE: [f64; 2] = [0.6, 1.0];
/// A pixel that a row function produces.
const ROW_FUNCTION: f64 = 4.0;
/// A pixel op that clamps, and a pixel op that returns floats.
const PIXEL: f64 = 0.4;
const FLOATS: f64 = 0.15;
/// Reading a pixel for a mean.
const READING: f64 = 0.6;
/// Looking a pixel up in a table.
const TABLE: f64 = 1.0;
/// Counting a pixel's levels.
const COUNT: f64 = 1.5;
/// Comparing a pixel with a rectangle.
const REGION: f64 = 0.2;

/// The times of loops over bytes with vectors of 256 and 512 bits, as parts of those with 128.
const WIDER: [f64; 2] = [0.55, 0.4];

/// Predicts the cost of each block and op for one sample, in the form that a
/// [`KernelTimer`](super::KernelTimer) measures. Ops in plain Rust and ops on a device are not
/// predicted.
#[must_use]
pub fn predict(plan: &ImagePlan, source: DecodedPixels<'_>, draws: &Draws) -> Costs {
    let mut size = source.whole;
    let blocks = plan.blocks()[..plan.host_blocks()].iter().map(|block| {
        let (mut costs, width) = (BlockCosts::default(), of_width(block));
        for leaf in block.ops.clone().filter(|leaf| draws.active[*leaf]) {
            let before = size;
            let motions = draws.geometry.iter().filter(|(of, _)| *of == leaf);
            let (row_cost, after) = moved(size, motions.map(|(_, motion)| motion));
            size = after;
            let of_values = || Some(width * value_op_cost(plan, block, leaf, before)?);
            if let Some(ns) = row_cost.or_else(of_values) {
                costs.ops.push((leaf, ns));
            }
        }
        let is_half = matches!(block.dtype, DType::F16 | DType::Bf16);
        let pixel = if is_half { LOAD_AND_STORE_HALF } else { LOAD_AND_STORE };
        costs.load_and_store = width * pixel * pixels(size);
        costs.total = costs.load_and_store + costs.ops.iter().map(|(_, ns)| ns).sum::<f64>();
        let links: Vec<FusedOp> = block.groups.iter().flat_map(|g| &g.fused_ops).copied().collect();
        let channels = block.channels_after(plan.flat_ops(), &links);
        costs.bytes_out = pixels(size) * (channels * block.dtype.bytes()) as f64;
        size = plan.after_host_ops(block.ops.clone(), draws, size);
        costs
    });
    Costs { samples: 1, blocks: blocks.collect() }
}

/// Returns the time of a block's loop as a part of its time with vectors of 128 bits.
fn of_width(block: &Block) -> f64 {
    match vector_bits() {
        Ok(VectorBits::V256) if block.source == DType::U8 => WIDER[0],
        Ok(VectorBits::V512) if block.source == DType::U8 => WIDER[1],
        _ => 1.0,
    }
}

fn pixels(size: Size) -> f64 {
    size.pixels() as f64
}

/// Returns the cost of producing rows, if a geometry step produces any, and the size after all steps.
fn moved<'a>(
    mut size: Size,
    motions: impl Iterator<Item = &'a GeometryStep>,
) -> (Option<f64>, Size) {
    let mut cost = None;
    for motion in motions {
        let after = geometry_step::output(motion, size);
        cost = cost.or(match motion {
            GeometryStep::Resize { interpolation, .. }
                if geometry_step::resize_producer(*interpolation) == RowProducer::Called =>
            {
                Some(ROW_FUNCTION * pixels(after))
            }
            GeometryStep::Resize { .. } | GeometryStep::ResizePart { .. } => {
                Some(RESIZE[0] * pixels(size) + RESIZE[1] * pixels(after))
            }
            GeometryStep::Rows(_) => Some(ROW_FUNCTION * pixels(after)),
            GeometryStep::CropPad { .. }
            | GeometryStep::FlipHorizontal
            | GeometryStep::FlipVertical => None,
        });
        size = after;
    }
    (cost, size)
}

/// Returns the cost of an op on values. Ops that were folded together count for the first of them.
fn value_op_cost(plan: &ImagePlan, block: &Block, leaf: usize, size: Size) -> Option<f64> {
    let step = block.groups.iter().find(|step| step.flat_ops.contains(&leaf))?;
    if step.flat_ops[0] != leaf {
        return None;
    }
    let pixel = match &plan.flat_ops()[leaf].kind {
        _ if step.flat_ops.len() > 1 => TABLE.min(PIXEL * step.flat_ops.len() as f64),
        OpKind::Pixel(_) if plan.flat_ops()[leaf].output.dtype != DType::U8 => FLOATS,
        OpKind::Pixel(op) => of_pixel_op(op),
        OpKind::Shuffled(parts) => parts.iter().map(of_pixel_op).sum(),
        OpKind::Table { counted, .. } => TABLE + if *counted { COUNT } else { 0.0 },
        OpKind::Region { .. } | OpKind::Geometry { .. } => REGION,
        _ => return None,
    };
    Some(pixel * pixels(size))
}

fn of_pixel_op(op: &PixelKind) -> f64 {
    PIXEL + if op.statistic.is_some() { READING } else { 0.0 }
}
