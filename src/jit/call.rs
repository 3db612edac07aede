//! The jump into compiled code, and the row functions it calls back.

#![allow(unsafe_code, reason = "the one call of compiled code, and the functions it calls")]

use super::code::Code;
use super::record::Record;
use fuseloop_ops::area::AreaRows;
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

/// What the area row function needs: lives on the stack around [`run`].
pub(super) struct AreaState<'a> {
    pub(super) rows: AreaRows<'a>,
    /// Rows of the resized picture.
    pub(super) height: u32,
    /// The table row that is resized row 0.
    pub(super) top: i64,
    /// Bytes to leave free at the start of a row: columns left of the resized picture.
    pub(super) lead: usize,
    /// Bytes of the columns wanted.
    pub(super) bytes: usize,
}

/// Row function: row `row` of the tables, through the area resize, to `to`.
///
/// # Safety
///
/// `state` must be an [`AreaState`] that nobody else uses during the call, and `to` good for
/// `lead + bytes` bytes that nothing else refers to.
pub(super) unsafe extern "C" fn area_row(state: *mut AreaState<'_>, row: i64, to: *mut u8) {
    // SAFETY: the caller's promise.
    let state = unsafe { &mut *state };
    // SAFETY: the caller's promise: `lead + bytes` bytes from `to` are good.
    let out = unsafe { std::slice::from_raw_parts_mut(to.add(state.lead), state.bytes) };
    let y = (state.top + row).clamp(0, i64::from(state.height) - 1) as u32;
    // A panic may not cross compiled code. It would be a bug of ours; the row stays as it was.
    let _ = catch_unwind(AssertUnwindSafe(|| state.rows.row(y, out)));
}
