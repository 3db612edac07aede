//! Memory that ends where a page without access begins: a read or write past its end, also by compiled
//! code, kills the process at once.

#![allow(unsafe_code, reason = "maps pages and takes their access away")]

use std::ops::{Deref, DerefMut};

/// Bytes that end, or begin, at a page that can't be accessed.
pub struct Guarded {
    map: *mut u8,
    mapped: usize,
    start: usize,
    len: usize,
}

/// The end of the bytes at which the guard is.
#[derive(Clone, Copy, Debug)]
pub enum Guard {
    After,
    Before,
}

const PAGE: usize = 4096;

impl Guarded {
    /// Returns `len` bytes of `value`.
    pub fn filled(len: usize, value: u8, guard: Guard) -> Self {
        let inner = len.next_multiple_of(PAGE).max(PAGE);
        let mapped = inner + 2 * PAGE;
        // SAFETY: a new anonymous mapping, owned by the value built here.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(map, libc::MAP_FAILED, "no memory for a guarded buffer");
        let map: *mut u8 = map.cast();
        for page in [0, PAGE + inner] {
            // SAFETY: both pages are within the mapping created above.
            let refused = unsafe { libc::mprotect(map.add(page).cast(), PAGE, libc::PROT_NONE) };
            assert_eq!(refused, 0);
        }
        let start = match guard {
            Guard::After => PAGE + inner - len,
            Guard::Before => PAGE,
        };
        let mut buffer = Self { map, mapped, start, len };
        buffer.fill(value);
        buffer
    }

    /// Returns a copy of `bytes`.
    pub fn copy_of(bytes: &[u8], guard: Guard) -> Self {
        let mut buffer = Self::filled(bytes.len(), 0, guard);
        buffer.copy_from_slice(bytes);
        buffer
    }
}

/// Returns the bytes and one more that does not belong to them: a planted bug for a memory checker to find.
pub fn plant_one_byte_more(bytes: &[u8]) -> &[u8] {
    // SAFETY: none is claimed. The one test that calls this runs under a memory checker only, and the
    // value read beyond the end is not used.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len() + 1) }
}

impl Deref for Guarded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start..start + len` lies between the two guard pages of the mapping.
        unsafe { std::slice::from_raw_parts(self.map.add(self.start), self.len) }
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the value is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(self.start), self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping created in `filled`, which nothing refers to any more.
        unsafe { libc::munmap(self.map.cast(), self.mapped) };
    }
}
