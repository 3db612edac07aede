//! Rows of `f32` copied around the caches.
//!
//! ```text
//! dst[i] = src[i]
//! ```
//!
//! An ordinary store first reads the line it writes to into the cache. For a batch that is far
//! larger than the cache and not read again by this core, that reading is a third of all traffic;
//! non-temporal stores leave it out. They become visible to other threads in no certain order, so
//! whoever hands the rows on calls [`end_streams`] first.
//!
//! On x86-64 with AVX whole lines of 64 bytes are streamed and the ends of the row stored as
//! usual, since half a line costs more than a whole one; elsewhere it is a plain copy.

#![allow(unsafe_code, reason = "non-temporal stores; an entry for compiled code")]

/// Copies a row around the caches; see [`end_streams`].
///
/// # Panics
///
/// If the rows are not of one length.
pub fn stream_row(src: &[f32], dst: &mut [f32]) {
    assert_eq!(src.len(), dst.len(), "values in and out");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the CPU has AVX, asked just above.
        return unsafe { stream_avx(src, dst) };
    }
    dst.copy_from_slice(src);
}

/// Makes all rows streamed by this thread visible to whoever it synchronises with next.
pub fn end_streams() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// [`stream_row`] for compiled code.
///
/// # Safety
///
/// `src` must be good for reading `n` values and `dst` for writing `n`, both aligned to 4 bytes,
/// and the two must not overlap. With `n` 0 neither pointer is looked at. It returns, does not
/// unwind, and keeps nothing.
pub unsafe extern "C" fn fuseloop_row_stream(src: *const f32, dst: *mut f32, n: u64) {
    if n == 0 {
        return;
    }
    // SAFETY: this function's own contract. `n` values exist, so `n` fits a `usize`.
    let src = unsafe { std::slice::from_raw_parts(src, n as usize) };
    // SAFETY: as above; nothing else refers to these bytes during the call.
    let dst = unsafe { std::slice::from_raw_parts_mut(dst, n as usize) };
    stream_row(src, dst);
}

/// Bytes of a line of the cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn stream_avx(src: &[f32], dst: &mut [f32]) {
    use std::arch::x86_64::{_mm256_loadu_ps, _mm256_stream_ps};
    let lead = dst.as_ptr().align_offset(LINE).min(dst.len());
    let (src_lead, src) = src.split_at(lead);
    let (dst_lead, dst) = dst.split_at_mut(lead);
    dst_lead.copy_from_slice(src_lead);
    let (lines, src_tail) = src.as_chunks::<{ LINE / 4 }>();
    let (outs, dst_tail) = dst.as_chunks_mut::<{ LINE / 4 }>();
    for (out, line) in outs.iter_mut().zip(lines) {
        for half in 0..2 {
            let (from, to) = (line[8 * half..].as_ptr(), out[8 * half..].as_mut_ptr());
            // SAFETY: 8 values to read from `from` and to write at `to`, which is a multiple of 32:
            // `lead` values were split off so that lines begin at multiples of 64.
            unsafe { _mm256_stream_ps(to, _mm256_loadu_ps(from)) };
        }
    }
    dst_tail.copy_from_slice(src_tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streamed_row_is_the_row_wherever_it_begins_and_ends() {
        let src: Vec<f32> = (0..100u8).map(f32::from).collect();
        for start in 0..9 {
            for len in 0..70 {
                let mut dst = vec![-1.0; 100];
                stream_row(&src[start..start + len], &mut dst[start..start + len]);
                end_streams();
                for (i, (got, kept)) in dst.iter().zip(&src).enumerate() {
                    let inside = (start..start + len).contains(&i);
                    assert_eq!(*got, if inside { *kept } else { -1.0 }, "{start} {len} {i}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "values in and out")]
    fn rows_of_two_lengths_are_a_mistake() {
        stream_row(&[0.0; 3], &mut [0.0; 2]);
    }
}
