//! Emits a block as Cranelift IR: one function, one loop nest, for one list of fused ops.
//!
//! ```text
//! fn(parameter blocks, count, constants):
//!     for each parameter block:
//!         [produce all rows]                                     (if a reduction needs them first)
//!         [for each reduction: rows x groups, summing greys or squares, or counting levels]
//!         for each row of the output:
//!             [produce the row: filter rows, filter columns; or call] (unless a reduction needed all)
//!             for each group of 8 pixels:
//!                 load, unpack to f32, fused ops, pack, store
//!             [all but u8 and f32: convert the row]
//! ```
//!
//! | file | what it emits |
//! |---|---|
//! | [`ir`] | loops, loads, stores, shuffles |
//! | [`accesses`] | the check of the whole function, before it is compiled |
//! | [`constants`] | the constant vectors, which code loads from memory |
//! | [`lower`] | the programs that ops recorded |
//! | [`hoist`] | the most frequent loads of a loop, moved in front of it |
//! | [`pass`] | rows and groups: from bytes to vectors of `f32`, through the fused ops |
//! | [`wide`] | the load of elements of more than a byte |
//! | [`statistic`] | a number computed from all pixels: [`grey_mean`] sums greys, [`root_mean_square`] squares |
//! | [`levels`] | counting levels, and table look-ups |
//! | [`store`] | from vectors of `f32` to the output's type and layout |
//! | [`resample`] | the antialiased resize, and the calls of other row producers |

mod accesses;
mod constants;
mod grey_mean;
mod hoist;
mod ir;
mod levels;
mod lower;
mod pass;
mod resample;
mod root_mean_square;
mod statistic;
mod store;
mod wide;

use super::param_block::HeaderWord;
use super::vector_bits::Fallback;
use crate::plan::FusedOp;
use crate::plan::block::Reduction;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{FuncRef, InstBuilder, SigRef, Value};
use cranelift_frontend::FunctionBuilder;
use fuseloop_ops::DType;
use fuseloop_ops::author::{RowProducer, Statistic};

pub(crate) use super::body::BodySpec;
pub(crate) use constants::Constants;
pub(crate) use ir::{BlockCode, Target};
pub(crate) use lower::lower;
pub(crate) use store::{PassStore, row_function};

use ir::counted_loop;

/// A pass over an image, as a loop with wider vectors stores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredPass<'a> {
    /// The number of the pass in the parameter block.
    pub(crate) pass: usize,
    /// The fused ops that it applies.
    pub(crate) links: &'a [FusedOp],
    /// The form of its stores, or the reason why only the 128-bit code has them.
    pub(crate) store: Result<PassStore, Fallback>,
}

/// Returns the passes of a block: the one that stores the output, then each reduction.
pub(crate) fn stored_passes(spec: BodySpec<'_>) -> Vec<StoredPass<'_>> {
    let store = store::Sink::new(spec).pass_store(spec);
    let mut passes = vec![StoredPass { pass: 0, links: spec.links, store }];
    passes.extend((1..).zip(spec.readings()).map(|(pass, (reading, position))| {
        let store = match reading {
            Reduction::Levels { .. } => Ok(PassStore::Bytes),
            Reduction::Statistic { statistic: Statistic::GreyMean, .. } => Ok(PassStore::Greys),
            Reduction::Statistic { .. } => Err(Fallback::Squares),
        };
        StoredPass { pass, links: &spec.links[..position], store }
    }));
    passes
}

/// Returns the pass that stores the output around the caches where it is aligned, in place of rows that a row function
/// streams.
pub(crate) fn streamed_pass(spec: BodySpec<'_>) -> Option<StoredPass<'_>> {
    let store = store::Sink::new(spec).streamed_store(spec)?;
    Some(StoredPass { pass: 0, links: spec.links, store: Ok(store) })
}

/// A row function, as code calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    /// By its address, which is part of the code.
    Function(FuncRef),
    /// By its address among the constants, at a byte offset.
    Constant(SigRef, i32),
}

/// The row functions that a block may call, and its loops with wider vectors.
#[derive(Clone, Debug)]
pub(crate) struct Imports {
    /// Stores a row to the output, converted or streamed: `(from, to, count, numbers)`.
    pub(crate) store: Option<Callee>,
    /// Produces a row: `(state, row, to)`.
    pub(crate) maker: Option<Callee>,
    /// Counts the levels of a row of bytes: `(state, row, columns)`.
    pub(crate) count: Option<Callee>,
    /// Computes a table from the counts: `(state, table, 0)`.
    pub(crate) table: Option<Callee>,
    /// The loops of [`stored_passes`] and of [`streamed_pass`], if they have wider vectors: `(parameter block,
    /// constants, source, output, first row, number of rows)`.
    pub(crate) row_loops: Vec<Option<FuncRef>>,
}

/// Emits the function's body. Adds the constants it reads.
pub(crate) fn function(
    builder: &mut FunctionBuilder<'_>,
    spec: BodySpec<'_>,
    imports: &Imports,
    target: Target,
    constants: &mut Constants,
) {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [records, count, table] = std::array::from_fn(|i| builder.block_params(entry)[i]);
    let is_float = matches!(spec.block.source, DType::F16 | DType::Bf16 | DType::F32);
    let mut e = BlockCode { builder, constants, table, record: records, target, is_float };
    let bytes = spec.layout.bytes() as i64;
    counted_loop(&mut e, count, &[records], |e, _, carried| {
        e.record = carried[0];
        sample(e, spec, imports);
        vec![e.offset(carried[0], bytes)]
    });
    e.builder.ins().return_(&[]);
    e.builder.seal_all_blocks();
    accesses::check(&e, spec.layout);
}

/// Emits the code of one sample: its reductions, then the pass that stores the output.
fn sample(e: &mut BlockCode<'_, '_>, spec: BodySpec<'_>, imports: &Imports) {
    let readings: Vec<(Reduction, usize)> = spec.readings().collect();
    let maker = spec.block.rows;
    if let Some(maker) = maker.filter(|_| !readings.is_empty()) {
        if_rows_are_produced(e, |e| resample::all_rows(e, spec, maker, imports));
    }
    for (index, (reading, position)) in readings.iter().enumerate() {
        let before = &spec.links[..*position];
        match *reading {
            Reduction::Statistic { statistic, param, .. } => {
                let row_loop = imports.row_loops[1 + index];
                statistic::pass(e, spec, index, before, (statistic, param), row_loop);
            }
            Reduction::Levels { table } => levels::pass(e, spec, index, before, table, imports),
        }
    }
    let along = maker.filter(|_| readings.is_empty());
    pass::store(e, spec, imports, along.is_some(), |e, y: Value| {
        if let Some(maker) = along {
            if_rows_are_produced(e, |e| make_row(e, spec, maker, imports, y));
        }
    });
}

/// Emits the production of the row that row `y` of the output reads.
fn make_row(
    e: &mut BlockCode<'_, '_>,
    spec: BodySpec<'_>,
    maker: RowProducer,
    imports: &Imports,
    y: Value,
) {
    let (first, step) = (e.header(HeaderWord::FirstRow), e.header(HeaderWord::RowStep));
    let row = e.builder.ins().imul(y, step);
    let row = e.builder.ins().iadd(row, first);
    let to = e.header(HeaderWord::Resized);
    resample::row(e, spec, maker, imports, row, to);
}

/// Emits code that a sample runs only if rows are produced for it.
fn if_rows_are_produced(e: &mut BlockCode<'_, '_>, code: impl FnOnce(&mut BlockCode<'_, '_>)) {
    let (run, done) = (e.builder.create_block(), e.builder.create_block());
    let produces_rows = e.header(HeaderWord::ProducesRows);
    e.builder.ins().brif(produces_rows, run, &[], done, &[]);
    e.builder.switch_to_block(run);
    code(e);
    e.builder.ins().jump(done, &[]);
    e.builder.switch_to_block(done);
}

/// The argument types of the row functions that store rows.
pub(crate) const STORE_ROW: [cranelift_codegen::ir::Type; 4] = [I64; 4];

/// The argument types of loops with wider vectors.
pub(crate) const ROW_LOOP: [cranelift_codegen::ir::Type; 6] = [I64; 6];

/// The argument types of the other row functions.
pub(crate) const CALLED_ROW: [cranelift_codegen::ir::Type; 3] = [I64; 3];
