//! An allocator that counts, so that a test can say how much memory something asked for.
#![allow(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that each thread asks for, given back or not.
struct Counting;

thread_local! {
    static ASKED_FOR: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to `System` unchanged, and so are its results; the counter is
// a thread's own number without a destructor, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED_FOR.set(ASKED_FOR.get() + layout.size() as u64);
        // SAFETY: our caller's promise is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: our caller's promise is `System`'s, from which `ptr` came.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that this thread has asked for so far.
pub(crate) fn asked_for() -> u64 {
    ASKED_FOR.get()
}
