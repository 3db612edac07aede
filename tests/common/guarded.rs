//! Memory that ends where a page without access begins: a read or write past its end, also by compiled
//! code, kills the process at once.

#![allow(unsafe_code, reason = "maps pages and takes their access away")]

use region::{Allocation, Protection};
use std::ops::{Deref, DerefMut};

/// Bytes that end, or begin, at a page that can't be accessed.
pub struct Guarded {
    map: Allocation,
    start: usize,
    len: usize,
}

/// The end of the bytes at which the guard is.
#[derive(Clone, Copy, Debug)]
pub enum Guard {
    After,
    Before,
}

impl Guarded {
    /// Returns `len` bytes of `value`.
    pub fn filled(len: usize, value: u8, guard: Guard) -> Self {
        let page = region::page::size();
        let inner = len.next_multiple_of(page).max(page);
        let map = region::alloc(inner + 2 * page, Protection::READ_WRITE)
            .expect("no memory for a guarded buffer");
        for at in [0, page + inner] {
            let first = map.as_ptr::<u8>().wrapping_add(at);
            // SAFETY: both pages are within the allocation above, which nothing refers to yet.
            unsafe { region::protect(first, page, Protection::NONE) }.unwrap();
        }
        let start = match guard {
            Guard::After => page + inner - len,
            Guard::Before => page,
        };
        let mut buffer = Self { map, start, len };
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
        // SAFETY: `start..start + len` lies between the two guard pages of the allocation.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr::<u8>().add(self.start), self.len) }
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut [u8] {
        let map = self.map.as_mut_ptr::<u8>();
        // SAFETY: as in `deref`; the value is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(map.add(self.start), self.len) }
    }
}
