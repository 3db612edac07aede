//! An allocator that counts bytes, so that a test can state how much memory a call allocates.
#![allow(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that each thread allocates, freed or not.
struct Counting;

thread_local! {
    static ASKED_FOR: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to `System` unchanged, and so are its results; the counter is
// a thread's own number without a destructor, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED_FOR.set(ASKED_FOR.get() + layout.size() as u64);
        // SAFETY: the caller upholds the contract, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, which is `System`'s, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The number of bytes that this thread has allocated so far.
pub(crate) fn asked_for() -> u64 {
    ASKED_FOR.get()
}
