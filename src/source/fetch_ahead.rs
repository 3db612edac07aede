//! A hint for the processor: these bytes will be read.

#![allow(unsafe_code, reason = "an instruction without effect but on caches")]

/// The bytes of a line of the caches.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const LINE: usize = 64;

/// The most bytes that the processor is asked for: a fraction of its second cache.
const MOST: usize = 16 << 10;

/// Asks the processor to load bytes into its caches, and does not wait for them: the first of them, if they are many.
/// Does nothing on other processors than x86-64 and aarch64.
pub(crate) fn fetch_ahead(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST)];
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(target_arch = "aarch64")]
    for line in bytes.chunks(LINE) {
        // SAFETY: the instruction never faults, whatever the address, and changes no register.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line.as_ptr(), options(nostack, readonly, preserves_flags));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = bytes;
}
