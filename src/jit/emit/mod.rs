//! A block as Cranelift IR: one function, one loop nest, for one list of links.
//!
//! ```text
//! fn(records, count, constants):
//!     for each record:
//!         [for each made row: make it]                           (if a reading needs them first)
//!         [for each reading: rows x groups, summing greys or counting levels]
//!         for each row of the output:
//!             [make the row: filter rows, filter columns; or call]   (if no reading did before)
//!             for each group of 8 pixels:
//!                 load, unpack to f32, links, pack, store
//!             [all but u8 and f32: convert the row]
//! ```
//!
//! | file | what it emits |
//! |---|---|
//! | [`ir`] | loops, loads, stores, shuffles |
//! | [`accesses`] | the check of the whole function, before it is compiled |
//! | [`constants`] | the vectors that code reads through an address |
//! | [`lower`] | what ops recorded |
//! | [`hoist`] | what a loop loads most often, loaded once before it |
//! | [`pass`] | rows and groups: from bytes to vectors of `f32`, through the links |
//! | [`mean`] | what sums greys |
//! | [`levels`] | what counts levels, and looks them up |
//! | [`store`] | from vectors of `f32` to the output's type and layout |
//! | [`resample`] | the antialiased resize, and the call of what else makes rows |

mod accesses;
mod constants;
mod hoist;
mod ir;
mod levels;
mod lower;
mod mean;
mod pass;
mod resample;
mod store;

use super::record::{Header, Layout};
use crate::plan::block::{Reading, reading};
use crate::plan::{Block, Leaf, Link};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{FuncRef, InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;
use fuseloop_ops::{NumberRule, RowMaker};

pub(crate) use constants::Constants;
pub(crate) use ir::Code;
pub(crate) use lower::lower;
pub(crate) use pass::multiply;
pub(crate) use store::row_function;

use ir::counted_loop;

/// What the code of one list of links is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec<'a> {
    pub(crate) leaves: &'a [Leaf],
    pub(crate) block: &'a Block,
    pub(crate) links: &'a [Link],
    pub(crate) rule: NumberRule,
    pub(crate) layout: Layout,
}

impl<'a> Spec<'a> {
    pub(crate) fn new(
        leaves: &'a [Leaf],
        block: &'a Block,
        links: &'a [Link],
        rule: NumberRule,
    ) -> Self {
        let readings = links.iter().filter(|link| reading(leaves, **link).is_some()).count();
        Self { leaves, block, links, rule, layout: Layout::new(block, readings) }
    }

    /// What is read of the whole picture before it is stored, and by which link.
    pub(crate) fn readings(&self) -> impl Iterator<Item = (Reading, usize)> + use<'a> {
        let (leaves, links) = (self.leaves, self.links);
        let of_link = move |(position, link): (usize, &Link)| {
            reading(leaves, *link).map(|reading| (reading, position))
        };
        links.iter().enumerate().filter_map(of_link)
    }

    /// Offset in the record of a slot of the plan.
    fn slot(&self, slot: usize) -> i32 {
        self.layout.slots() + 16 * (slot - self.block.slots.start) as i32
    }
}

/// The row functions a block may call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Imports {
    /// A row to the output, converted or streamed: `(from, to, count, numbers)`.
    pub(crate) store: Option<FuncRef>,
    /// A made row: `(state, row, to)`.
    pub(crate) maker: Option<FuncRef>,
    /// Counts the levels of a row of bytes: `(state, row, columns)`.
    pub(crate) count: Option<FuncRef>,
    /// Makes a table of what was counted: `(state, table, 0)`.
    pub(crate) table: Option<FuncRef>,
}

/// Writes the function's body. Gives the constants it reads.
pub(crate) fn function(
    builder: &mut FunctionBuilder<'_>,
    spec: Spec<'_>,
    imports: Imports,
    x86: bool,
) -> Constants {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [records, count, table] = std::array::from_fn(|i| builder.block_params(entry)[i]);
    let mut constants = Constants::default();
    let mut e = Code { builder, constants: &mut constants, table, record: records, x86 };
    let bytes = spec.layout.bytes() as i64;
    counted_loop(&mut e, count, &[records], |e, _, carried| {
        e.record = carried[0];
        sample(e, spec, imports);
        vec![e.offset(carried[0], bytes)]
    });
    e.builder.ins().return_(&[]);
    e.builder.seal_all_blocks();
    accesses::check(&e, spec.layout);
    constants
}

/// One sample: what is read first, then what is stored.
fn sample(e: &mut Code<'_, '_>, spec: Spec<'_>, imports: Imports) {
    let readings: Vec<(Reading, usize)> = spec.readings().collect();
    let maker = spec.block.rows;
    if let Some(maker) = maker.filter(|_| !readings.is_empty()) {
        if_rows_are_made(e, |e| resample::all_rows(e, maker, imports));
    }
    for (index, (reading, position)) in readings.iter().enumerate() {
        let before = &spec.links[..*position];
        match *reading {
            Reading::Mean { slot, .. } => mean::pass(e, spec, index, before, slot),
            Reading::Levels { table } => levels::pass(e, spec, index, before, table, imports),
        }
    }
    let along = maker.filter(|_| readings.is_empty());
    pass::store(e, spec, spec.links, imports, |e, y: Value| {
        if let Some(maker) = along {
            if_rows_are_made(e, |e| make_row(e, maker, imports, y));
        }
    });
}

/// Makes the row that row `y` of the output is of.
fn make_row(e: &mut Code<'_, '_>, maker: RowMaker, imports: Imports, y: Value) {
    let (first, step) = (e.header(Header::FirstRow), e.header(Header::RowStep));
    let row = e.builder.ins().imul(y, step);
    let row = e.builder.ins().iadd(row, first);
    let to = e.header(Header::Resized);
    resample::row(e, maker, imports, row, to);
}

/// Code that a sample runs only if rows are made for it.
fn if_rows_are_made(e: &mut Code<'_, '_>, code: impl FnOnce(&mut Code<'_, '_>)) {
    let (run, done) = (e.builder.create_block(), e.builder.create_block());
    let made = e.header(Header::MakesRows);
    e.builder.ins().brif(made, run, &[], done, &[]);
    e.builder.switch_to_block(run);
    code(e);
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

/// The words that the row function of the store takes.
pub(crate) const STORE_ROW: [cranelift_codegen::ir::Type; 4] = [I64; 4];

/// The words that the other row functions take.
pub(crate) const CALLED_ROW: [cranelift_codegen::ir::Type; 3] = [I64; 3];
