//! A block as Cranelift IR: one function, one loop nest.
//!
//! ```text
//! fn(records, count, constants):
//!     for each record:
//!         [for each resized row: filter rows, filter columns]    (if a mean reads them first)
//!         jump to the loop body of its order                     (shuffled ops only)
//!         [for each mean: rows x groups, summing greys]
//!         for each row of the output:
//!             [filter rows, filter columns into one row]         (if no mean did before)
//!             for each group of 8 pixels:
//!                 load, unpack to f32, links, pack, store
//!             [all but u8 and f32: convert the row]
//! ```
//!
//! | file | what it emits |
//! |---|---|
//! | [`ir`] | loops, loads, stores, shuffles |
//! | [`hoist`] | what a loop loads most often, loaded once before it |
//! | [`pass`] | rows and groups: from bytes to vectors of `f32`, through the links |
//! | [`mean`] | what sums greys |
//! | [`store`] | from vectors of `f32` to the output's type and layout |
//! | [`resample`] | the antialiased resize, and the call of the area resize |

mod hoist;
mod ir;
mod mean;
mod pass;
mod resample;
mod store;

use super::record::{Header, Layout};
use crate::plan::{Block, Link};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{FuncRef, InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;
use fuseloop_ops::{Constants, Emit, NumberRule, Ops};
pub(crate) use store::row_function;

use ir::{Scalars, counted_loop};

/// What one block's code is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec<'a> {
    pub(crate) ops: &'a Ops,
    pub(crate) block: &'a Block,
    pub(crate) rule: NumberRule,
    pub(crate) layout: Layout,
}

/// The row functions a block may call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Imports {
    /// A row to the output, converted or streamed: `(from, to, count, numbers)`.
    pub(crate) store: Option<FuncRef>,
    /// A row of the area resize: `(state, row, to)`.
    pub(crate) area: Option<FuncRef>,
}

/// Writes the function's body. Gives the constants it reads.
pub(crate) fn function(
    builder: &mut FunctionBuilder<'_>,
    spec: Spec<'_>,
    imports: Imports,
) -> Constants {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [records, count, table] = std::array::from_fn(|i| builder.block_params(entry)[i]);
    let mut constants = Constants::default();
    let (rule, slots) = (spec.rule, spec.layout.slots());
    let mut e = Emit { builder, constants: &mut constants, table, record: records, slots, rule };
    let bytes = spec.layout.bytes() as i64;
    counted_loop(&mut e, count, &[records], |e, _, carried| {
        e.record = carried[0];
        sample(e, spec, imports);
        vec![e.offset(carried[0], bytes)]
    });
    e.builder.ins().return_(&[]);
    e.builder.seal_all_blocks();
    constants
}

/// One sample: the loop body of its order. What means read is resized first, whatever the order.
fn sample(e: &mut Emit<'_, '_>, spec: Spec<'_>, imports: Imports) {
    let resizes = spec.block.resize.map(|(_, interpolation)| interpolation);
    if let Some(interpolation) = resizes.filter(|_| !spec.block.means.is_empty()) {
        resample::all_rows(e, interpolation, imports);
    }
    let variants = &spec.block.variants;
    if let [only] = variants.as_slice() {
        return body(e, spec, imports, only);
    }
    let done = e.builder.create_block();
    let chosen = e.header(Header::Variant);
    for (index, links) in variants.iter().enumerate() {
        let (this, next) = (e.builder.create_block(), e.builder.create_block());
        let is_this = e.equals(chosen, index as i64);
        e.builder.ins().brif(is_this, this, &[], next, &[]);
        e.builder.switch_to_block(this);
        body(e, spec, imports, links);
        e.builder.ins().jump(done, &[]);
        e.builder.switch_to_block(next);
    }
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

fn body(e: &mut Emit<'_, '_>, spec: Spec<'_>, imports: Imports, links: &[Link]) {
    let resizes = spec.block.resize.map(|(_, interpolation)| interpolation);
    let resize_along = resizes.filter(|_| spec.block.means.is_empty());
    for (position, link) in links.iter().enumerate() {
        if let Some(index) = mean_of(spec.block, link) {
            mean::pass(e, spec, index, &links[..position]);
        }
    }
    pass::store(e, spec, links, imports, |e, y: Value| {
        if let Some(interpolation) = resize_along {
            let (first, step) = (e.header(Header::FirstRow), e.header(Header::RowStep));
            let row = e.builder.ins().imul(y, step);
            let row = e.builder.ins().iadd(row, first);
            let to = e.header(Header::Resized);
            resample::row(e, interpolation, imports, row, to);
        }
    });
}

/// The number of the mean that a link needs.
fn mean_of(block: &Block, link: &Link) -> Option<usize> {
    let Link::Value { place, part, .. } = *link else { return None };
    block.means.iter().position(|mean| mean.place == place && mean.part == part)
}

/// The words that the row function of the store takes.
pub(crate) const STORE_ROW: [cranelift_codegen::ir::Type; 4] = [I64; 4];

/// The words that the row function of the area resize takes.
pub(crate) const AREA_ROW: [cranelift_codegen::ir::Type; 3] = [I64; 3];
