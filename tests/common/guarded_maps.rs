//! A process whose larger allocations all lie between two pages without access: those of the allocator,
//! and those that are mapped, such as the batches of a loader. A read or a write past the end of an
//! allocation kills the process at once.
//!
//! | memory                             | guarded at   | exact to the byte                   |
//! |------------------------------------|--------------|-------------------------------------|
//! | allocations of 1 KiB or more       | both ends    | at the end, as far as it is aligned |
//! | anonymous mappings by `mmap64`     | both ends    | if it is whole pages long           |

#![allow(unsafe_code, reason = "an allocator, and a function of the C library in place of its own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_long, c_void};

const PAGE: usize = 4096;

/// The size in bytes from which an allocation gets pages of its own.
const LARGE: usize = 1024;

/// Maps whole pages between two that can't be accessed; returns null if that fails.
fn between_guards(bytes: usize) -> *mut u8 {
    let mapped = bytes + 2 * PAGE;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: requests a new anonymous mapping at any address.
    let map = unsafe { libc::syscall(libc::SYS_mmap, 0, mapped, access, kind, -1, 0) };
    if map < 0 {
        return std::ptr::null_mut();
    }
    let map = std::ptr::with_exposed_provenance_mut::<u8>(map as usize);
    for page in [0, PAGE + bytes] {
        // SAFETY: both pages are within the mapping created above.
        let refused = unsafe { libc::mprotect(map.add(page).cast(), PAGE, libc::PROT_NONE) };
        if refused != 0 {
            return std::ptr::null_mut();
        }
    }
    // SAFETY: the second page of the mapping.
    unsafe { map.add(PAGE) }
}

struct Guarding;

impl Guarding {
    /// The number of bytes of the whole pages that hold an allocation.
    fn pages(layout: &Layout) -> usize {
        layout.size().next_multiple_of(PAGE)
    }

    fn is_guarded(layout: &Layout) -> bool {
        layout.size() >= LARGE && layout.align() <= PAGE
    }
}

// SAFETY: small allocations are `System`'s. A large allocation is in whole pages that `between_guards`
// mapped for it alone, as near to their end as its alignment allows, which is a power of two of at most
// a page; the pages are unmapped when it is freed.
unsafe impl GlobalAlloc for Guarding {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::is_guarded(&layout) {
            // SAFETY: the caller upholds the contract, which is `System`'s.
            return unsafe { System.alloc(layout) };
        }
        let pages = Self::pages(&layout);
        let start = between_guards(pages);
        if start.is_null() {
            return start;
        }
        // SAFETY: the offset into the mapping is at most the size of the pages minus that of the
        // allocation.
        unsafe { start.add((pages - layout.size()) & !(layout.align() - 1)) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if !Self::is_guarded(&layout) {
            // SAFETY: the caller upholds the contract, which is `System`'s, and `ptr` came from `System`.
            unsafe { System.dealloc(ptr, layout) };
            return;
        }
        let into_page = ptr.addr() % PAGE;
        // SAFETY: `alloc` put `ptr` into the first of the allocation's pages; the guard is before that
        // page, and all of it was one mapping.
        unsafe { libc::munmap(ptr.sub(into_page + PAGE).cast(), Self::pages(&layout) + 2 * PAGE) };
    }
}

#[global_allocator]
static GUARDING: Guarding = Guarding;

/// Replaces the C library's function for the executable's own calls: anonymous writable memory gets
/// guards, which stay when the memory is unmapped.
///
/// # Safety
///
/// The contract is that of `mmap64`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mmap64(
    at: *mut c_void,
    bytes: usize,
    access: c_int,
    kind: c_int,
    file: c_int,
    offset: c_long,
) -> *mut c_void {
    let is_written = access == libc::PROT_READ | libc::PROT_WRITE;
    if at.is_null() && is_written && kind == libc::MAP_PRIVATE | libc::MAP_ANONYMOUS {
        let start = between_guards(bytes.next_multiple_of(PAGE));
        return if start.is_null() { libc::MAP_FAILED } else { start.cast() };
    }
    // SAFETY: the caller upholds the contract, which is the system's.
    let map = unsafe { libc::syscall(libc::SYS_mmap, at, bytes, access, kind, file, offset) };
    if map < 0 {
        return libc::MAP_FAILED;
    }
    std::ptr::with_exposed_provenance_mut(map as usize)
}

/// Reads the byte behind the end of `bytes`, which is not allowed:
/// if a guard is there, this ends the process.
pub(crate) fn read_behind(bytes: &[u8]) -> u8 {
    // SAFETY: none. The read is meant to kill the process, which is a child started for that.
    unsafe { std::ptr::read_volatile(bytes.as_ptr().add(bytes.len())) }
}
