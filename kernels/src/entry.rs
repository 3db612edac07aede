//! Rows by address: a source, a conversion, and how the result is stored, as one function.
//!
//! ```text
//! dst[i] = conversion(source(src[i], numbers))
//! ```
//!
//! Sixteen elements at a time, the last few from a piece that overlaps the one before. Streamed
//! rows go around the caches: an ordinary store first reads the line it writes to into the cache,
//! and for a batch that is far larger than the cache and not read again by this core, that reading
//! is a third of all traffic. Whole lines of 64 bytes are streamed and the ends of the row stored
//! as usual, since half a line costs more than a whole one. Streamed stores become visible to
//! other threads in no certain order, so whoever hands the rows on calls [`end_streams`] first.

#![allow(unsafe_code, reason = "rows called by address; stores around the caches")]

use crate::rows::Conversion;
use crate::source::{Numbers, Source};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// What compiled code calls: `n` elements from `src` to `dst`.
///
/// # Safety
///
/// `src` must be good for reading `n` elements of the function's source and `dst` for writing `n`
/// of its output, both aligned to their type, and the two must not overlap. `numbers` must be good
/// for reading the [`Numbers`] of each of the source's channels, if it has any; otherwise it is not
/// looked at. With `n` 0 no pointer is. The CPU must have what the function was compiled for. It
/// returns, does not unwind, and keeps nothing.
pub type Entry =
    unsafe extern "C" fn(src: *const u8, dst: *mut u8, n: u64, numbers: *const Numbers);

/// A row's two ends, as [`Entry`] has them.
struct Row<'a, S: Source, C: Conversion> {
    src: &'a [S::From],
    dst: &'a mut [C::To],
    numbers: &'a [Numbers],
}

impl<S: Source, C: Conversion> Row<'_, S, C> {
    /// # Safety
    ///
    /// As [`Entry`], with `n` not 0, for as long as the row is used.
    unsafe fn new(src: *const u8, dst: *mut u8, n: u64, numbers: *const Numbers) -> Self {
        let numbers: &[Numbers] = if S::CHANNELS == 0 {
            &[]
        } else {
            // SAFETY: the caller's promise: numbers of each channel.
            unsafe { std::slice::from_raw_parts(numbers, S::CHANNELS) }
        };
        // SAFETY: the caller's promise: readable, aligned. `n` elements exist, so `n` fits a usize.
        let src = unsafe { std::slice::from_raw_parts(src.cast(), n as usize) };
        // SAFETY: the caller's promise: writable, aligned, apart from all that is read.
        let dst = unsafe { std::slice::from_raw_parts_mut(dst.cast(), n as usize) };
        Self { src, dst, numbers }
    }
}

/// The meaning of a row, for any CPU.
///
/// # Safety
///
/// As [`Entry`].
pub(crate) unsafe extern "C" fn portable<S: Source, C: Conversion>(
    src: *const u8,
    dst: *mut u8,
    n: u64,
    numbers: *const Numbers,
) {
    if n == 0 {
        return;
    }
    // SAFETY: this function's own contract.
    let row = unsafe { Row::<S, C>::new(src, dst, n, numbers) };
    for (i, (out, &element)) in row.dst.iter_mut().zip(row.src).enumerate() {
        *out = C::one(S::one(element, row.numbers, i));
    }
}

/// The same for a CPU with AVX2, FMA and F16C.
///
/// # Safety
///
/// As [`Entry`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe extern "C" fn stored<S: Source, C: Conversion>(
    src: *const u8,
    dst: *mut u8,
    n: u64,
    numbers: *const Numbers,
) {
    if n == 0 {
        return;
    }
    // SAFETY: this function's own contract.
    let row = unsafe { Row::<S, C>::new(src, dst, n, numbers) };
    store::<S, C>(row.src, row.dst, row.numbers, 0);
}

/// The same again, around the caches.
///
/// # Safety
///
/// As [`Entry`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe extern "C" fn streamed<S: Source, C: Conversion>(
    src: *const u8,
    dst: *mut u8,
    n: u64,
    numbers: *const Numbers,
) {
    if n == 0 {
        return;
    }
    // SAFETY: this function's own contract.
    let row = unsafe { Row::<S, C>::new(src, dst, n, numbers) };
    let lead = row.dst.as_ptr().align_offset(LINE).min(row.dst.len());
    let lines = (row.dst.len() - lead) / BLOCK * BLOCK;
    let (dst_lead, dst) = row.dst.split_at_mut(lead);
    let (dst_lines, dst_tail) = dst.split_at_mut(lines);
    store::<S, C>(&row.src[..lead], dst_lead, row.numbers, 0);
    stream::<S, C>(&row.src[lead..lead + lines], dst_lines, row.numbers, lead);
    store::<S, C>(&row.src[lead + lines..], dst_tail, row.numbers, lead + lines);
}

/// Makes all rows streamed by this thread visible to whoever it synchronises with next.
pub fn end_streams() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has SSE.
    unsafe {
        _mm_sfence();
    }
}

/// Elements of a vector step.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 16;

/// Elements streamed together: whole lines, whatever the type.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 32;

/// Bytes of a line of the cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

#[cfg(target_arch = "x86_64")]
fn lanes<S: Source, C: Conversion>(numbers: &[Numbers], at: usize) -> S::Lanes {
    if C::ALTERNATES { S::lanes::<true>(numbers, at) } else { S::lanes::<false>(numbers, at) }
}

/// Sixteen elements, `phase` behind a multiple of three from where the lanes begin.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn step<S: Source, C: Conversion>(
    elements: &[S::From; STEP],
    lanes: &S::Lanes,
    phase: usize,
) -> [C::To; STEP] {
    // SAFETY: this function's CPU has AVX2, FMA and F16C.
    unsafe {
        C::sixteen(if C::ALTERNATES {
            S::sixteen::<true>(elements, lanes, phase)
        } else {
            S::sixteen::<false>(elements, lanes, phase)
        })
    }
}

/// Elements of a row from number `at` on, with ordinary stores. Three steps a turn, so that the
/// phases are constants; a step is one behind the last, since 16 is 1 behind a multiple of three.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store<S: Source, C: Conversion>(
    src: &[S::From],
    dst: &mut [C::To],
    numbers: &[Numbers],
    at: usize,
) {
    let lanes = lanes::<S, C>(numbers, at);
    let (steps, tail) = src.as_chunks::<STEP>();
    let (outs, out_tail) = dst.as_chunks_mut::<STEP>();
    let (turns, rest) = steps.as_chunks::<3>();
    let (out_turns, out_rest) = outs.as_chunks_mut::<3>();
    for (out, turn) in out_turns.iter_mut().zip(turns) {
        out[0] = step::<S, C>(&turn[0], &lanes, 0);
        out[1] = step::<S, C>(&turn[1], &lanes, 1);
        out[2] = step::<S, C>(&turn[2], &lanes, 2);
    }
    for (phase, (out, elements)) in out_rest.iter_mut().zip(rest).enumerate() {
        *out = step::<S, C>(elements, &lanes, phase);
    }
    if let Some(&element) = tail.first() {
        // The same step for the last few: a row's end has no path of its own.
        let mut elements = [element; STEP];
        elements[..tail.len()].copy_from_slice(tail);
        out_tail.copy_from_slice(&step::<S, C>(&elements, &lanes, rest.len())[..tail.len()]);
    }
}

/// Elements of a row from number `at` on, with streaming stores: `dst` begins a line, and both are
/// a multiple of [`BLOCK`] long.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn stream<S: Source, C: Conversion>(
    src: &[S::From],
    dst: &mut [C::To],
    numbers: &[Numbers],
    at: usize,
) {
    let lanes = lanes::<S, C>(numbers, at);
    let blocks = src.as_chunks::<STEP>().0.as_chunks::<2>().0;
    let mut phase = 0;
    for (out, elements) in dst.as_chunks_mut::<BLOCK>().0.iter_mut().zip(blocks) {
        let low = step::<S, C>(&elements[0], &lanes, phase);
        let block = [low, step::<S, C>(&elements[1], &lanes, (phase + 1) % 3)];
        phase = (phase + 2) % 3;
        let (from, to): (*const __m256i, *mut __m256i) =
            (block.as_ptr().cast(), out.as_mut_ptr().cast());
        for vector in 0..size_of::<[C::To; BLOCK]>() / size_of::<__m256i>() {
            // SAFETY: inside `block` and `out`, which are of one size, a multiple of 32. `out` lies
            // at a multiple of 32, since `dst` begins a line and blocks are whole lines.
            unsafe { _mm256_stream_si256(to.add(vector), _mm256_loadu_si256(from.add(vector))) };
        }
    }
}
