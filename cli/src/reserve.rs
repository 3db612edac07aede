//! An allocator that keeps some memory back for small allocations.
//!
//! Rust ends a process with a signal where a `Vec` or a `Box` gets no memory. The library reserves its
//! large buffers in a way that can fail, and reports a failure as an error; but such an error, and
//! everything that runs until it is shown, needs small allocations. Under a limit on addresses
//! (`ulimit -v`, a job of a cluster) these fail as well, and take memory from here.
#![allow(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::io::Write as _;
use std::process;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of bytes that are kept back. They take addresses, and no memory until they are used.
const LEN: usize = 4 << 20;

/// The largest allocation that is taken from what is kept back.
const LARGEST: usize = 64 << 10;

/// Prepares the process for a limit on addresses, if it has one. Threads then share the arenas of their allocations:
/// glibc reserves 64 MiB of addresses for the arena of each thread, which would leave none for anything else. The
/// stack of this thread grows now: if it grew later and found no addresses, a signal would end the process.
pub(super) fn prepare() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
        // SAFETY: the function writes to `limit` only.
        unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
        if limit.rlim_cur < 8 << 30 {
            // An eighth of the addresses.
            let arenas = (limit.rlim_cur >> 29).max(1);
            // SAFETY: the function takes two numbers, and no other thread runs yet.
            unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas as libc::c_int) };
            grow_stack();
        }
    }
}

/// Uses 512 KiB of the stack, which the system never takes back. Commands were seen to use up to 288 KiB.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[inline(never)]
fn grow_stack() {
    std::hint::black_box([0_u8; 512 << 10]);
}

/// Allocates from the system, and small allocations that the system refuses from `bytes`.
struct Reserve {
    bytes: UnsafeCell<[u8; LEN]>,
    /// The number of `bytes` that are taken. None is given back: the process is about to end.
    taken: AtomicUsize,
}

// SAFETY: `bytes` is only used through pointers of `take`, each of which has a range of its own.
unsafe impl Sync for Reserve {}

#[global_allocator]
static RESERVE: Reserve = Reserve { bytes: UnsafeCell::new([0; LEN]), taken: AtomicUsize::new(0) };

impl Reserve {
    /// Returns memory of zeros for what the system refused; null for a large layout. Ends the process
    /// where nothing is left, since its caller would do so with a signal.
    fn take(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST || layout.align() > LARGEST {
            return null_mut();
        }
        let start = self.bytes.get().addr();
        let mut offset = 0;
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            offset = (start + taken).next_multiple_of(layout.align()) - start;
            Some(offset + layout.size()).filter(|end| *end <= LEN)
        });
        if taken.is_err() {
            // Not `eprintln!`, which panics where stderr is closed.
            let _ = std::io::stderr().write_all(b"error: out of memory\n");
            process::exit(1);
        }
        self.bytes.get().cast::<u8>().wrapping_add(offset)
    }

    fn has(&self, ptr: *mut u8) -> bool {
        (0..LEN).contains(&ptr.addr().wrapping_sub(self.bytes.get().addr()))
    }
}

// SAFETY: a block is one of `System`, which receives its own blocks only, or a range of `bytes` that is
// aligned, as long as its layout and never handed out again. No call unwinds.
unsafe impl GlobalAlloc for Reserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract, which is `System`'s.
        let ptr = unsafe { System.alloc(layout) };
        if ptr.is_null() { self.take(layout) } else { ptr }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract, which is `System`'s.
        let ptr = unsafe { System.alloc_zeroed(layout) };
        if ptr.is_null() { self.take(layout) } else { ptr }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if !self.has(ptr) {
            // SAFETY: the caller upholds the contract, which is `System`'s, and `ptr` came from `System`.
            unsafe { System.dealloc(ptr, layout) }
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.has(ptr) {
            // SAFETY: the caller upholds the contract, which is `System`'s, and `ptr` came from `System`.
            let new = unsafe { System.realloc(ptr, layout, size) };
            if !new.is_null() {
                return new;
            }
        }
        // SAFETY: the caller states that `size` is valid for this alignment.
        let new = self.take(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        if !new.is_null() {
            // SAFETY: both blocks are this long, and `new` was not handed out before.
            unsafe { ptr.copy_to_nonoverlapping(new, layout.size().min(size)) };
            // SAFETY: the caller hands `ptr` over, whose layout this is.
            unsafe { self.dealloc(ptr, layout) };
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    #[test]
    fn what_the_system_refuses_is_aligned_and_a_range_of_its_own() {
        static OWN: Reserve =
            Reserve { bytes: UnsafeCell::new([0; LEN]), taken: AtomicUsize::new(0) };
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let mut end = OWN.bytes.get().addr();
        for (size, align) in [(1, 1), (3, 8), (100, 64), (LARGEST, 4096), (8, 8)] {
            let ptr = OWN.take(layout(size, align));
            assert!(OWN.has(ptr) && ptr.addr().is_multiple_of(align) && ptr.addr() >= end);
            end = ptr.addr() + size;
        }
        assert!(OWN.take(layout(LARGEST + 1, 1)).is_null(), "the caller can handle it");
        let mut outside = 0;
        assert!(!OWN.has(&raw mut outside) && !RESERVE.has(OWN.bytes.get().cast()));

        let ptr = OWN.take(layout(4, 4));
        // SAFETY: the block has four bytes, and all calls state its layout.
        unsafe {
            ptr.copy_from_nonoverlapping([1, 2, 3, 4].as_ptr(), 4);
            let grown = OWN.realloc(ptr, layout(4, 4), 9);
            assert_eq!(slice::from_raw_parts(grown, 9), [1, 2, 3, 4, 0, 0, 0, 0, 0]);
            let shrunk = OWN.realloc(grown, layout(9, 4), 2);
            assert_eq!(slice::from_raw_parts(shrunk, 2), [1, 2]);
            OWN.dealloc(shrunk, layout(2, 4));
            let other = OWN.alloc(layout(5, 1));
            assert!(!OWN.has(other), "the system has memory");
            OWN.dealloc(other, layout(5, 1));
        }
    }
}
