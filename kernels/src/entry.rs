//! Functions on row addresses: each combines a source, a conversion, and ordinary or streaming stores.
//!
//! ```text
//! dst[i] = conversion(source(src[i], numbers))
//! ```
//!
//! Sixteen elements are processed at a time; the last few are copied to a full block of sixteen first.
//! Streamed rows bypass the caches: an ordinary store first reads the cache line that it writes to, and
//! for a batch that is far larger than the cache and not read again by this core, these reads are a
//! third of all traffic. Whole lines of 64 bytes are streamed, and the ends of the row are stored as
//! usual, since streaming half a line costs more than a whole one. Streamed stores become visible to
//! other threads in no particular order, so the code that hands the rows on must call [`end_streams`]
//! first.

#![allow(unsafe_code, reason = "rows called by address; stores around the caches")]

use crate::rows::Conversion;
use crate::source::{Numbers, RowSource};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The signature that compiled code calls: converts `n` elements from `src` to `dst`.
///
/// # Safety
///
/// `src` must be valid for reading `n` elements of the function's source and `dst` for writing `n`
/// elements of its output; both must be aligned to their type, and they must not overlap. If the source
/// has channels, `numbers` must be valid for reading the [`Numbers`] of each channel; otherwise
/// `numbers` is not read. If `n` is 0, no pointer is read. The CPU must have the features that the
/// function was compiled for. The function returns, does not unwind, and does not retain any pointer.
pub type RowEntry =
    unsafe extern "C" fn(src: *const u8, dst: *mut u8, n: u64, numbers: *const Numbers);

/// The source and destination of a row, from the arguments of a [`RowEntry`].
struct Row<'a, S: RowSource, C: Conversion> {
    src: &'a [S::From],
    dst: &'a mut [C::To],
    numbers: &'a [Numbers],
}

impl<S: RowSource, C: Conversion> Row<'_, S, C> {
    /// # Safety
    ///
    /// The same as for [`RowEntry`], with `n` not 0, for as long as the row is used.
    unsafe fn new(src: *const u8, dst: *mut u8, n: u64, numbers: *const Numbers) -> Self {
        let numbers: &[Numbers] = if S::CHANNELS == 0 {
            &[]
        } else {
            // SAFETY: the caller promises that there are numbers of each channel.
            unsafe { std::slice::from_raw_parts(numbers, S::CHANNELS) }
        };
        // SAFETY: the caller promises that `src` is readable and aligned. `n` elements exist, so `n`
        // fits a usize.
        let src = unsafe { std::slice::from_raw_parts(src.cast(), n as usize) };
        // SAFETY: the caller promises that `dst` is writable, aligned, and disjoint from all memory
        // that is read.
        let dst = unsafe { std::slice::from_raw_parts_mut(dst.cast(), n as usize) };
        Self { src, dst, numbers }
    }
}

/// Converts a row on any CPU. This is the reference implementation.
///
/// # Safety
///
/// The same as for [`RowEntry`].
pub(crate) unsafe extern "C" fn portable<S: RowSource, C: Conversion>(
    src: *const u8,
    dst: *mut u8,
    n: u64,
    numbers: *const Numbers,
) {
    if n == 0 {
        return;
    }
    // SAFETY: this function has the same contract.
    let row = unsafe { Row::<S, C>::new(src, dst, n, numbers) };
    for (i, (out, &element)) in row.dst.iter_mut().zip(row.src).enumerate() {
        *out = C::one(S::one(element, row.numbers, i));
    }
}

/// Does the same by blocks of values, in loops that become vectors of NEON. There are no stores around the caches.
///
/// # Safety
///
/// The same as for [`RowEntry`].
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe extern "C" fn by_blocks<S: RowSource, C: Conversion>(
    src: *const u8,
    dst: *mut u8,
    n: u64,
    numbers: *const Numbers,
) {
    /// The values of a block: whole pixels of three channels.
    const BLOCK: usize = 96;
    if n == 0 {
        return;
    }
    // SAFETY: this function has the same contract.
    let row = unsafe { Row::<S, C>::new(src, dst, n, numbers) };
    let mut values = [0.0; BLOCK];
    for (dst, src) in row.dst.chunks_mut(BLOCK).zip(row.src.chunks(BLOCK)) {
        let values = &mut values[..src.len()];
        for (i, (value, &element)) in values.iter_mut().zip(src).enumerate() {
            *value = S::one(element, row.numbers, i);
        }
        C::many(values, dst);
    }
}

/// Does the same on a CPU with AVX2, FMA and F16C.
///
/// # Safety
///
/// The same as for [`RowEntry`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe extern "C" fn stored<S: RowSource, C: Conversion>(
    src: *const u8,
    dst: *mut u8,
    n: u64,
    numbers: *const Numbers,
) {
    if n == 0 {
        return;
    }
    // SAFETY: this function has the same contract.
    let row = unsafe { Row::<S, C>::new(src, dst, n, numbers) };
    store::<S, C>(row.src, row.dst, row.numbers, 0);
}

/// Does the same with stores that bypass the caches.
///
/// # Safety
///
/// The same as for [`RowEntry`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe extern "C" fn streamed<S: RowSource, C: Conversion>(
    src: *const u8,
    dst: *mut u8,
    n: u64,
    numbers: *const Numbers,
) {
    if n == 0 {
        return;
    }
    // SAFETY: this function has the same contract.
    let row = unsafe { Row::<S, C>::new(src, dst, n, numbers) };
    let lead = row.dst.as_ptr().align_offset(LINE).min(row.dst.len());
    let lines = (row.dst.len() - lead) / BLOCK * BLOCK;
    let (dst_lead, dst) = row.dst.split_at_mut(lead);
    let (dst_lines, dst_tail) = dst.split_at_mut(lines);
    store::<S, C>(&row.src[..lead], dst_lead, row.numbers, 0);
    stream::<S, C>(&row.src[lead..lead + lines], dst_lines, row.numbers, lead);
    store::<S, C>(&row.src[lead + lines..], dst_tail, row.numbers, lead + lines);
}

/// Makes all rows that this thread streamed visible to any thread that it synchronises with next.
pub fn end_streams() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has SSE.
    unsafe {
        _mm_sfence();
    }
}

/// The number of elements of a vector step.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 16;

/// The number of elements that are streamed together, which are whole cache lines for every type.
#[cfg(target_arch = "x86_64")]
const BLOCK: usize = 32;

/// The number of bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

#[cfg(target_arch = "x86_64")]
fn lanes<S: RowSource, C: Conversion>(numbers: &[Numbers], at: usize) -> S::Lanes {
    if C::ALTERNATES { S::lanes::<true>(numbers, at) } else { S::lanes::<false>(numbers, at) }
}

/// Converts sixteen elements. Their index, counted from the start of the lanes, is `phase` modulo
/// three.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn step<S: RowSource, C: Conversion>(
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

/// Converts the elements of a row from index `at` on, with ordinary stores. Each iteration of the loop
/// does three steps, so that the phases are constants: the phase increases by one per step, since 16 is
/// 1 modulo three.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn store<S: RowSource, C: Conversion>(
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
        // The last few elements use the same step: there is no separate code for the end of a row.
        let mut elements = [element; STEP];
        elements[..tail.len()].copy_from_slice(tail);
        out_tail.copy_from_slice(&step::<S, C>(&elements, &lanes, rest.len())[..tail.len()]);
    }
}

/// Converts the elements of a row from index `at` on, with streaming stores. `dst` starts at a cache
/// line, and the lengths of both rows are multiples of [`BLOCK`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn stream<S: RowSource, C: Conversion>(
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
            // SAFETY: the accesses are inside `block` and `out`, which have the same size, a multiple
            // of 32. The address of `out` is a multiple of 32, since `dst` starts at a cache line and
            // blocks are whole lines.
            unsafe { _mm256_stream_si256(to.add(vector), _mm256_loadu_si256(from.add(vector))) };
        }
    }
}
