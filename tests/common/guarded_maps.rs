//! A process whose larger pieces of memory all end where a page without access begins, and begin where one
//! ends: those of the allocator, and those that are mapped, as the batches of a loader are. A read or a
//! write past the end of one kills the process on the spot.
//!
//! | memory                             | guarded from | to the byte                         |
//! |------------------------------------|--------------|-------------------------------------|
//! | the allocator's, from 1 KiB on     | both ends    | at the end, as far as it is aligned |
//! | anonymous mappings by `mmap64`     | both ends    | if it is whole pages long           |

#![allow(unsafe_code, reason = "an allocator, and a function of the C library in place of its own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_long, c_void};

const PAGE: usize = 4096;

/// From so many bytes on an allocation has pages of its own.
const LARGE: usize = 1024;

/// Maps whole pages between two that can't be touched; null if there are none.
fn between_guards(bytes: usize) -> *mut u8 {
    let mapped = bytes + 2 * PAGE;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for a fresh mapping, at any place, of no file.
    let map = unsafe { libc::syscall(libc::SYS_mmap, 0, mapped, access, kind, -1, 0) };
    if map < 0 {
        return std::ptr::null_mut();
    }
    let map = std::ptr::with_exposed_provenance_mut::<u8>(map as usize);
    for page in [0, PAGE + bytes] {
        // SAFETY: both pages lie in the mapping made above.
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
    /// Whole pages for an allocation.
    fn pages(layout: &Layout) -> usize {
        layout.size().next_multiple_of(PAGE)
    }

    fn is_guarded(layout: &Layout) -> bool {
        layout.size() >= LARGE && layout.align() <= PAGE
    }
}

// SAFETY: small allocations are `System`'s. A large one lies in whole pages that `between_guards` mapped
// for it alone, as near to their end as its alignment allows, which is a power of two of at most a page;
// they are unmapped when it is given back.
unsafe impl GlobalAlloc for Guarding {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::is_guarded(&layout) {
            // SAFETY: our caller's promise is `System`'s.
            return unsafe { System.alloc(layout) };
        }
        let pages = Self::pages(&layout);
        let start = between_guards(pages);
        if start.is_null() {
            return start;
        }
        // SAFETY: at most `pages`, less the size, bytes into the mapping.
        unsafe { start.add((pages - layout.size()) & !(layout.align() - 1)) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        if !Self::is_guarded(&layout) {
            // SAFETY: our caller's promise is `System`'s, from which `ptr` came.
            unsafe { System.dealloc(ptr, layout) };
            return;
        }
        let into_page = ptr.addr() % PAGE;
        // SAFETY: `alloc` left `ptr` in the first of the allocation's pages; the guard lies before it, and
        // all of it was one mapping.
        unsafe { libc::munmap(ptr.sub(into_page + PAGE).cast(), Self::pages(&layout) + 2 * PAGE) };
    }
}

#[global_allocator]
static GUARDING: Guarding = Guarding;

/// The C library's function, which the executable's own calls find here: anonymous memory that can be
/// written has guards. They stay when it is unmapped.
///
/// # Safety
///
/// As `mmap64`.
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
    // SAFETY: our caller's promise is the system's.
    let map = unsafe { libc::syscall(libc::SYS_mmap, at, bytes, access, kind, file, offset) };
    if map < 0 {
        return libc::MAP_FAILED;
    }
    std::ptr::with_exposed_provenance_mut(map as usize)
}

/// Reads the byte behind the end of `bytes`, which nobody may: where a guard is, this ends the process.
pub(crate) fn read_behind(bytes: &[u8]) -> u8 {
    // SAFETY: none. The process is to be killed by it, and is a child made for that.
    unsafe { std::ptr::read_volatile(bytes.as_ptr().add(bytes.len())) }
}
