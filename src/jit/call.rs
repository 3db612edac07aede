//! Calls compiled code, and defines the row functions that compiled code calls back.

#![allow(unsafe_code, reason = "the one call of compiled code, and the functions it calls")]

use super::body::CompiledBody;
use super::code::{BodyFn, Code};
use super::param_block::ParamBlocks;
use crate::plan::{Block, Draws, FusedOp, ImagePlan};
use fuseloop_ops::internals::area::AreaRows;
use fuseloop_ops::internals::rows::{FilterRows, FloatRows};
use fuseloop_ops::internals::{Histograms, LevelTables, MAX_CHANNELS};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One run of a loop body: its code, the filled parameter blocks of one or several samples, and what the code was made
/// from.
pub(super) struct BodyCall<'a> {
    pub(super) plan: &'a ImagePlan,
    pub(super) block: &'a Block,
    pub(super) links: &'a [FusedOp],
    pub(super) compiled: &'a CompiledBody,
    pub(super) records: &'a mut ParamBlocks,
    /// The memory that the parameter blocks' addresses point into, if the runner needs it.
    pub(super) regions: Vec<MemoryRegion>,
    pub(super) states: States,
}

/// A range of memory that the host vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    /// The name of the range, for errors.
    pub name: &'static str,
    /// The first address.
    pub address: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// True if the bytes may be written.
    pub writable: bool,
}

impl MemoryRegion {
    /// A region of a slice's bytes, read-only.
    pub(super) fn read<T>(name: &'static str, slice: &[T]) -> Self {
        let (address, bytes) = (slice.as_ptr() as u64, size_of_val(slice) as u64);
        Self { name, address, bytes, writable: false }
    }

    /// A region of a slice's bytes, readable and writable.
    pub(super) fn write<T>(name: &'static str, slice: &mut [T]) -> Self {
        let (address, bytes) = (slice.as_mut_ptr() as u64, size_of_val(slice) as u64);
        Self { name, address, bytes, writable: true }
    }
}

/// The addresses of the states of row functions.
#[derive(Debug)]
pub(super) struct States {
    /// The address of the row producer's state, and the bytes of a row.
    pub(super) maker: Option<(u64, u64)>,
    /// The address of the state of the functions that count levels.
    pub(super) levels: Option<u64>,
}

/// Runs loop bodies: [`Native`], or an interpreter in tests of the compiler.
pub(super) trait BodyRunner {
    /// True if `run` needs the call's memory regions.
    const NEEDS_REGIONS: bool;

    /// Runs a loop body.
    ///
    /// # Safety
    ///
    /// The code must be a block compiled from the body's `BodySpec`, and every address in the
    /// parameter blocks must be valid for what the block reads and writes there, as
    /// [`Invocation`](super::invocation::Invocation) fills it. The regions, if there are any, and the
    /// states must be valid, and nothing else may use them, until the call returns.
    unsafe fn run(&self, call: BodyCall<'_>);
}

/// Runs native code.
#[derive(Debug)]
pub(super) struct Native;

impl BodyRunner for Native {
    const NEEDS_REGIONS: bool = false;

    #[inline]
    unsafe fn run(&self, BodyCall { compiled, records, .. }: BodyCall<'_>) {
        // SAFETY: the caller's promise.
        unsafe { run(&compiled.code, records, &compiled.constants) }
    }
}

/// Runs `code` on parameter blocks.
///
/// # Safety
///
/// `code` must be a block compiled from a `BodySpec`, `constants` its constants,
/// and `records` parameter blocks of its layout in which every address is valid for what the block reads
/// and writes there, as [`Invocation`](super::invocation::Invocation) fills them.
unsafe fn run(code: &Code, records: &mut ParamBlocks, constants: &[u128]) {
    // SAFETY: `entry` is the address of a function of exactly this signature, finished by the
    // compiler; `code` keeps its pages mapped, or they are the program's own.
    let entry: BodyFn = unsafe { std::mem::transmute(code.entry()) };
    clear_upper_halves();
    // SAFETY: the caller's promise; `records` and `constants` are borrowed until the call returns and are
    // aligned to 16 bytes, and the count is that of the parameter blocks.
    unsafe { entry(records.as_mut_ptr(), records.count(), constants.as_ptr().cast()) };
}

/// Clears the upper halves of the 256-bit registers: while they are dirty, code with 128-bit vectors
/// runs many times slower. rustc's code always clears them; a C library's might not.
fn clear_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the CPU has AVX.
        unsafe { std::arch::x86_64::_mm256_zeroupper() };
    }
}

/// A producer of rows, one at a time.
#[expect(
    clippy::large_enum_variant,
    reason = "one is built for an image: a box would be allocated each time"
)]
pub(super) enum RowFunctionKind<'a> {
    /// OpenCV's area resize.
    Area(AreaRows<'a>),
    /// Any other filter.
    Filter(FilterRows<'a>),
    /// Any filter of elements that are not bytes.
    Floats(FloatRows<'a>),
}

impl RowFunctionKind<'_> {
    fn row(&mut self, y: u32, out: &mut [u8]) {
        match self {
            Self::Area(rows) => rows.row(y, out),
            Self::Filter(rows) => {
                if !fuseloop_kernels::filter_row(rows, y, out) {
                    rows.row(y, out);
                }
            }
            Self::Floats(rows) => fuseloop_kernels::float_row(rows, y, out),
        }
    }
}

/// The state of the row function that produces rows. It lives on the stack around [`run`].
pub(super) struct RowFunctionState<'a> {
    pub(super) maker: RowFunctionKind<'a>,
    pub(super) window: ProducedWindow,
    /// The payload of a row's panic, which must not unwind through compiled code.
    pub(super) panic: Panic,
}

/// The window of the produced image that passes read.
#[derive(Clone, Copy)]
pub(super) struct ProducedWindow {
    /// The rows of the produced image.
    pub(super) height: u32,
    /// The row of the produced image that is row 0 of the pass.
    pub(super) top: i64,
    /// The bytes to leave unwritten at the start of a row: columns left of the produced image.
    pub(super) lead: usize,
    /// The bytes of the columns in the window.
    pub(super) bytes: usize,
}

/// A panic caught in a row function, resumed after compiled code has returned.
pub(super) type Panic = Option<Box<dyn Any + Send>>;

/// Row function: writes row `row` of the produced image to `to`.
///
/// # Safety
///
/// `state` must be a [`RowFunctionState`] that nothing else uses during the call, and `to` valid for
/// `lead + bytes` bytes that nothing else refers to.
pub(super) unsafe extern "C" fn make_row(state: *mut RowFunctionState<'_>, row: i64, to: *mut u8) {
    // SAFETY: the caller's promise.
    let state = unsafe { &mut *state };
    // SAFETY: the caller's promise: `lead + bytes` bytes from `to` are valid.
    let out =
        unsafe { std::slice::from_raw_parts_mut(to.add(state.window.lead), state.window.bytes) };
    let ProducedWindow { top, height, .. } = state.window;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let y = (top + row).clamp(0, i64::from(height) - 1) as u32;
        state.maker.row(y, out);
    }));
    state.panic = state.panic.take().or(outcome.err());
}

/// The state of the row functions that count levels. It lives on the stack around [`run`].
pub(super) struct LevelsState<'a> {
    pub(super) plan: &'a ImagePlan,
    pub(super) draws: &'a Draws,
    /// The counts of four interleaved groups of pixels, so that equal neighbours don't wait for each
    /// other.
    pub(super) counts: &'a mut [Histograms; 4],
    pub(super) tables: &'a mut [LevelTables],
    /// Each table that needs counts and the flat op that computes it, in the order in which levels are counted.
    pub(super) readings: &'a [(usize, usize)],
    /// The number of tables that are computed.
    pub(super) computed: usize,
    /// See [`RowFunctionState`].
    pub(super) panic: Panic,
}

impl LevelsState<'_> {
    /// Returns the bytes of a pixel in the rows that are counted: 1 to 4.
    pub(super) fn channels(&self) -> usize {
        let reading = self.readings.get(self.computed);
        reading.map_or(0, |(_, leaf)| self.plan.flat_ops()[*leaf].channels())
    }

    fn count(&mut self, row: &[u8]) {
        match self.channels() {
            1 => self.count_pixels::<1>(row),
            2 => self.count_pixels::<2>(row),
            3 => self.count_pixels::<3>(row),
            _ => self.count_pixels::<4>(row),
        }
    }

    fn count_pixels<const C: usize>(&mut self, row: &[u8]) {
        let (quads, rest) = row.as_chunks::<C>().0.as_chunks::<4>();
        for quad in quads {
            for (pixel, counts) in quad.iter().zip(self.counts.iter_mut()) {
                for (value, counts) in pixel.iter().zip(counts) {
                    counts[usize::from(*value)] += 1;
                }
            }
        }
        for pixel in rest {
            for (value, counts) in pixel.iter().zip(&mut self.counts[0]) {
                counts[usize::from(*value)] += 1;
            }
        }
    }

    fn make(&mut self, table: usize) {
        let [levels, others @ ..] = &mut *self.counts;
        for other in others {
            for (sum, counts) in levels.iter_mut().flatten().zip(other.iter_mut().flatten()) {
                *sum += std::mem::take(counts);
            }
        }
        let (_, leaf) = self.readings[self.computed];
        let channels = self.plan.flat_ops()[leaf].channels();
        let tables = &mut self.tables[table][..channels];
        self.plan.table(&[leaf], self.draws, &levels[..channels], tables);
        *levels = [[0; 256]; MAX_CHANNELS];
        self.computed += 1;
    }
}

/// Row function: counts the levels of the `columns` pixels at `row`.
///
/// # Safety
///
/// `state` must be a [`LevelsState`] that nothing else uses during the call, and `row` valid for reading
/// `columns` pixels.
pub(super) unsafe extern "C" fn count_levels(
    state: *mut LevelsState<'_>,
    row: *const u8,
    columns: u64,
) {
    // SAFETY: the caller's promise.
    let state = unsafe { &mut *state };
    let bytes = state.channels() * columns as usize;
    // SAFETY: the caller's promise.
    let row = unsafe { std::slice::from_raw_parts(row, bytes) };
    let counted = catch_unwind(AssertUnwindSafe(|| state.count(row)));
    state.panic = state.panic.take().or(counted.err());
}

/// Row function: computes table number `table` from the counts, and resets the counts.
///
/// # Safety
///
/// `state` must be a [`LevelsState`] that nothing else uses during the call.
pub(super) unsafe extern "C" fn make_table(state: *mut LevelsState<'_>, table: u64, _: u64) {
    // SAFETY: the caller's promise.
    let state = unsafe { &mut *state };
    let outcome = catch_unwind(AssertUnwindSafe(|| state.make(table as usize)));
    state.panic = state.panic.take().or(outcome.err());
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::Size;
    use fuseloop_ops::internals::ImageView;
    use fuseloop_ops::internals::area::{AreaScratch, AreaTables};

    /// No panic may unwind through compiled code, whatever the window is.
    #[test]
    fn a_panic_before_the_first_row_is_kept_for_after_the_call() {
        let (size, pixels) = (Size::new(2, 2), [7; 12]);
        let view = ImageView::packed(&pixels, size).unwrap();
        let tables = AreaTables::new(size, size).unwrap();
        let mut scratch = AreaScratch::default();
        let maker =
            RowFunctionKind::Area(AreaRows::new(&tables, view, 0..2, &mut scratch).unwrap());
        let window = ProducedWindow { height: 0, top: 0, lead: 0, bytes: 6 };
        let mut state = RowFunctionState { maker, window, panic: None };
        let mut row = [0; 6];
        // SAFETY: `state` is used by this call alone, and `row` has the 6 bytes of the window.
        unsafe { make_row(&raw mut state, 0, row.as_mut_ptr()) };
        assert!(state.panic.is_some());
    }
}
