//! A loop body: what its code is made from, and what a run of it needs.
//!
//! ```text
//! BodySpec ──▶ the compiler, or an object file ──▶ CompiledBody
//! ```

use super::call;
use super::code::Code;
use super::invocation::ByteLinks;
use super::param_block::ParamLayout;
use super::vector_bits::{Fallback, VectorBits};
use crate::plan::block::{Reduction, reduction};
use crate::plan::{Block, FlatOp, FusedOp};
use fuseloop_kernels::ROW_FUNCTIONS;
use fuseloop_ops::NumberRule;
use fuseloop_ops::author::{Emit, Pixels};

/// The input of code generation: one list of fused ops of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodySpec<'a> {
    pub(crate) leaves: &'a [FlatOp],
    pub(crate) block: &'a Block,
    pub(crate) links: &'a [FusedOp],
    pub(crate) rule: NumberRule,
    pub(crate) layout: ParamLayout,
    /// The widest vectors that its loops may have.
    pub(crate) bits: VectorBits,
}

impl<'a> BodySpec<'a> {
    pub(crate) fn new(
        leaves: &'a [FlatOp],
        block: &'a Block,
        links: &'a [FusedOp],
        rule: NumberRule,
        bits: VectorBits,
    ) -> Self {
        let readings = links.iter().filter(|link| reduction(leaves, **link).is_some()).count();
        Self { leaves, block, links, rule, layout: ParamLayout::new(block, readings, bits), bits }
    }

    /// The reductions over the whole image that run before it is stored, each with the position of the
    /// fused op that needs it.
    pub(crate) fn readings(&self) -> impl Iterator<Item = (Reduction, usize)> + use<'a> {
        let (leaves, links) = (self.leaves, self.links);
        let of_link = move |(position, link): (usize, &FusedOp)| {
            reduction(leaves, *link).map(|reading| (reading, position))
        };
        links.iter().enumerate().filter_map(of_link)
    }

    /// Returns the offset in the parameter block of an op parameter of the plan.
    pub(crate) fn param(&self, param: usize) -> i32 {
        self.layout.params() + 16 * (param - self.block.params.start) as i32
    }
}

/// The code of one list of fused ops of a block.
#[derive(Debug)]
pub(crate) struct CompiledBody {
    pub(crate) code: Code,
    pub(crate) constants: Vec<u128>,
    pub(crate) layout: ParamLayout,
    /// The reductions that run over the image first, each with the position of the fused op that needs
    /// it.
    pub(crate) readings: Vec<(Reduction, usize)>,
    /// The map of bytes that the fused ops are, if they change each byte by itself.
    pub(super) byte_links: Option<ByteLinks>,
    /// The widest vectors that were asked for.
    pub(crate) bits: VectorBits,
    /// The vectors of each pass: the widest that were asked for, or why they have 128 bits.
    pub(super) passes: Vec<Result<VectorBits, Fallback>>,
}

impl CompiledBody {
    /// The body of code that was compiled from `spec`.
    pub(super) fn new(
        spec: BodySpec<'_>,
        code: Code,
        constants: Vec<u128>,
        passes: Vec<Result<VectorBits, Fallback>>,
    ) -> Self {
        let (layout, bits) = (spec.layout, spec.bits);
        let (readings, byte_links) = (spec.readings().collect(), ByteLinks::of(spec));
        Self { code, constants, layout, readings, byte_links, bits, passes }
    }

    /// Returns true if loops over `block`'s image read masks of the pixels in view.
    pub(super) fn reads_masks(&self, block: &Block) -> bool {
        self.bits == VectorBits::V512 && block.padded_copy.is_some()
    }

    /// Returns true if no pass over `block`'s image reads pixels that are out of view.
    pub(super) fn masks_all(&self, block: &Block) -> bool {
        self.reads_masks(block) && self.passes.iter().all(Result::is_ok)
    }
}

/// The names of the row functions in this crate: they produce rows, count levels and compute tables.
pub(super) const MAKE: &str = "make_row";
pub(super) const COUNT: &str = "count_levels";
pub(super) const TABLE: &str = "make_table";

/// Returns the name and address of every function that compiled code may call.
pub(super) fn row_functions() -> impl Iterator<Item = (&'static str, *const u8)> {
    let stores = ROW_FUNCTIONS.iter().map(|row| (row.name, row.entry() as *const u8));
    stores.chain([
        (MAKE, call::make_row as *const u8),
        (COUNT, call::count_levels as *const u8),
        (TABLE, call::make_table as *const u8),
    ])
}

/// Multiplies by the matrix in twelve op parameters, whose rows hold the factors of red, green and blue
/// and a constant, and clamps, as [`multiply`](super::oracle::multiply) does.
pub(crate) fn multiply(e: &mut Emit, pixels: Pixels) -> Pixels {
    e.each(pixels, |e, c, _| {
        let mut sum = e.param(4 * c + 3);
        for k in [2, 1, 0] {
            let factor = e.param(4 * c + k);
            sum = e.fma(pixels.channels()[k], factor, sum);
        }
        e.clamp(sum)
    })
}
