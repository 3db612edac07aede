//! The jump into compiled code, and the row functions it calls back.

#![allow(unsafe_code, reason = "the one call of compiled code, and the functions it calls")]

use super::code::Code;
use super::record::Record;
use crate::plan::{Draws, ImagePlan};
use fuseloop_ops::area::AreaRows;
use fuseloop_ops::rows::FilterRows;
use fuseloop_ops::{Histogram, Table};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code` on one record.
///
/// # Safety
///
/// `code` must be a block compiled by [`compile`](super::compile::compile), `constants` its
/// constants, and `record` a record of its layout in which every address is good for what the
/// block reads and writes there, as [`Shot`](super::shot::Shot) fills it.
pub(super) unsafe fn run(code: &Code, record: &mut Record, constants: &[u128]) {
    // SAFETY: `entry` is the address of a function of exactly this signature, finished by
    // `compile`; `code` keeps its pages mapped.
    let entry: unsafe extern "C" fn(*mut u8, u64, *const u8) =
        unsafe { std::mem::transmute(code.entry()) };
    clear_upper_halves();
    // SAFETY: the caller's promise; `record` and `constants` are borrowed until the call returns,
    // are aligned to 16 bytes, and one record is what the count says.
    unsafe { entry(record.as_mut_ptr(), 1, constants.as_ptr().cast()) };
}

/// Code with 128-bit vectors runs many times slower after code that left the upper halves of the
/// 256-bit registers dirty. rustc's code never does; a C library's might have.
fn clear_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the CPU has AVX.
        unsafe { std::arch::x86_64::_mm256_zeroupper() };
    }
}

/// What makes rows, one at a time.
pub(super) enum Maker<'a> {
    /// OpenCV's area resize.
    Area(AreaRows<'a>),
    /// Any other filter.
    Filter(FilterRows<'a>),
}

impl Maker<'_> {
    fn row(&mut self, y: u32, out: &mut [u8]) {
        match self {
            Self::Area(rows) => rows.row(y, out),
            Self::Filter(rows) => fuseloop_kernels::filter_row(rows, y, out),
        }
    }
}

/// What the row function that makes rows needs: lives on the stack around [`run`].
pub(super) struct MakerState<'a> {
    pub(super) maker: Maker<'a>,
    pub(super) window: MadeWindow,
    /// What a row's panic said: it may not cross compiled code.
    pub(super) panic: Panic,
}

/// Which part of the made picture is wanted.
#[derive(Clone, Copy)]
pub(super) struct MadeWindow {
    /// Rows of the made picture.
    pub(super) height: u32,
    /// The row that is the pass's row 0.
    pub(super) top: i64,
    /// Bytes to leave free at the start of a row: columns left of the made picture.
    pub(super) lead: usize,
    /// Bytes of the columns wanted.
    pub(super) bytes: usize,
}

/// A panic caught in a row function, to be gone on with after compiled code has ended.
pub(super) type Panic = Option<Box<dyn Any + Send>>;

/// Row function: row `row` of the made picture, to `to`.
///
/// # Safety
///
/// `state` must be a [`MakerState`] that nobody else uses during the call, and `to` good for
/// `lead + bytes` bytes that nothing else refers to.
pub(super) unsafe extern "C" fn make_row(state: *mut MakerState<'_>, row: i64, to: *mut u8) {
    // SAFETY: the caller's promise.
    let state = unsafe { &mut *state };
    // SAFETY: the caller's promise: `lead + bytes` bytes from `to` are good.
    let out =
        unsafe { std::slice::from_raw_parts_mut(to.add(state.window.lead), state.window.bytes) };
    let MadeWindow { top, height, .. } = state.window;
    let made = catch_unwind(AssertUnwindSafe(|| {
        let y = (top + row).clamp(0, i64::from(height) - 1) as u32;
        state.maker.row(y, out);
    }));
    state.panic = state.panic.take().or(made.err());
}

/// What the row functions that count levels need: lives on the stack around [`run`].
pub(super) struct LevelsState<'a> {
    pub(super) plan: &'a ImagePlan,
    pub(super) draws: &'a Draws,
    /// Counts of four groups of pixels, so that equal neighbours don't wait for each other.
    pub(super) counts: &'a mut [Histogram; 4],
    pub(super) tables: &'a mut [Table],
    /// For each table, the leaf that makes it.
    pub(super) leaves: &'a [usize],
    /// As in [`MakerState`].
    pub(super) panic: Panic,
}

impl LevelsState<'_> {
    fn count(&mut self, row: &[u8]) {
        let (quads, rest) = row.as_chunks::<12>();
        for quad in quads {
            for (pixel, counts) in quad.as_chunks::<3>().0.iter().zip(self.counts.iter_mut()) {
                for (value, counts) in pixel.iter().zip(counts) {
                    counts[usize::from(*value)] += 1;
                }
            }
        }
        for pixel in rest.as_chunks::<3>().0 {
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
        self.plan.table(&[self.leaves[table]], self.draws, levels, &mut self.tables[table]);
        *levels = [[0; 256]; 3];
    }
}

/// Row function: counts the levels of the `columns` pixels at `row`.
///
/// # Safety
///
/// `state` must be a [`LevelsState`] that nobody else uses during the call, and `row` good for
/// reading `3 * columns` bytes.
pub(super) unsafe extern "C" fn count_levels(
    state: *mut LevelsState<'_>,
    row: *const u8,
    columns: u64,
) {
    // SAFETY: the caller's promise.
    let (state, row) =
        unsafe { (&mut *state, std::slice::from_raw_parts(row, 3 * columns as usize)) };
    let counted = catch_unwind(AssertUnwindSafe(|| state.count(row)));
    state.panic = state.panic.take().or(counted.err());
}

/// Row function: makes table number `table` of what was counted, and begins counting anew.
///
/// # Safety
///
/// `state` must be a [`LevelsState`] that nobody else uses during the call.
pub(super) unsafe extern "C" fn make_table(state: *mut LevelsState<'_>, table: u64, _: u64) {
    // SAFETY: the caller's promise.
    let state = unsafe { &mut *state };
    let made = catch_unwind(AssertUnwindSafe(|| state.make(table as usize)));
    state.panic = state.panic.take().or(made.err());
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::area::{AreaScratch, AreaTables};
    use fuseloop_ops::{ImageView, Size};

    /// Through compiled code nothing may unwind, whatever the window says.
    #[test]
    fn a_panic_before_the_first_row_is_kept_for_after_the_call() {
        let (size, pixels) = (Size::new(2, 2), [7; 12]);
        let view = ImageView::packed(&pixels, size).unwrap();
        let tables = AreaTables::new(size, size).unwrap();
        let mut scratch = AreaScratch::default();
        let maker = Maker::Area(AreaRows::new(&tables, view, 0..2, &mut scratch).unwrap());
        let window = MadeWindow { height: 0, top: 0, lead: 0, bytes: 6 };
        let mut state = MakerState { maker, window, panic: None };
        let mut row = [0; 6];
        // SAFETY: `state` is used by this call alone, and `row` has the 6 bytes of the window.
        unsafe { make_row(&raw mut state, 0, row.as_mut_ptr()) };
        assert!(state.panic.is_some());
    }
}
