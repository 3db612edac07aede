//! Compiles the loops over rows and groups of pixels to AVX2 or AVX-512, where Cranelift has vectors of 128 bits.
//!
//! ```text
//! fused ops ──▶ group (steps) ──▶ registers ──▶ row, stores (loops) ──▶ encode ──▶ bytes
//!                                                                                          │
//! Cranelift's code of the block: passes, produced rows, row functions ── calls ────────────┘
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | [`group`] | the fused ops on one group of pixels, as steps |
//! | [`registers`] | a register for each value, and the instructions of the steps |
//! | [`row`] | the loops and the loads |
//! | [`stores`] | the stores |
//! | [`encode`] | the bytes and the text of instructions |
//!
//! It reads the same programs as the 128-bit code, and each step is the same operation, so the bits are the same.
//! Passes over an image that it can't compile are left to the 128-bit code: those that read elements of more than a
//! byte, move bytes without an op, sum squares, or need more registers than there are.

mod encode;
mod group;
mod registers;
mod row;
mod stores;

use super::emit::{self, BodySpec, Constants, StoredPass};
use super::param_block::PassWord;
use super::vector_bits::{Fallback, VectorBits};
use encode::{Bits, Inst};

/// A loop over the rows of a pass, which [`row`] describes.
#[derive(Debug)]
pub(super) struct RowLoop(Vec<Inst>);

impl RowLoop {
    /// Returns the machine code.
    pub(super) fn code(&self) -> Vec<u8> {
        encode::encode(&self.0)
    }

    /// Returns the code as text.
    pub(super) fn text(&self) -> String {
        self.0.iter().map(|inst| format!("{inst}\n")).collect()
    }
}

/// Compiles the loops of a block's passes: the pass that stores the output, then each reduction, and last the pass that
/// stores around the caches. `None` is a pass for which 128 bits were asked, or no pass.
pub(super) fn row_loops(
    spec: BodySpec<'_>,
    constants: &mut Constants,
) -> Vec<Result<Option<RowLoop>, Fallback>> {
    let bits = match spec.bits {
        VectorBits::V128 => None,
        VectorBits::V256 => Some(Bits::B256),
        VectorBits::V512 => Some(Bits::B512),
    };
    let mut compile = |StoredPass { pass, links, store }: StoredPass<'_>| {
        let Some(bits) = bits else { return Ok(None) };
        row::build(spec, pass, links, store?, bits, constants).map(|insts| Some(RowLoop(insts)))
    };
    let mut loops: Vec<_> = emit::stored_passes(spec).into_iter().map(&mut compile).collect();
    loops.push(emit::streamed_pass(spec).map_or(Ok(None), compile));
    loops
}

/// The offset of a word of a pass in the parameter block.
fn pass_word(spec: BodySpec<'_>, pass: usize, word: PassWord) -> i32 {
    spec.layout.pass(pass) + 8 * word as i32
}
