//! The memory that a kernel may access.
#![allow(unsafe_code, reason = "addresses that a kernel computes")]

use std::marker::PhantomData;
use std::ptr;

/// Ranges of addresses, and whether they may be written.
#[derive(Debug, Default)]
pub struct Memory<'a> {
    ranges: Vec<Range>,
    lent: PhantomData<&'a mut [u8]>,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    writable: bool,
}

impl<'a> Memory<'a> {
    /// Grants access to bytes for reading. Returns their address.
    pub fn lend(&mut self, bytes: &'a [u8]) -> u64 {
        self.add(bytes.as_ptr() as u64, bytes.len(), false)
    }

    /// Grants access to bytes for reading and writing. Returns their address.
    pub fn lend_mut(&mut self, bytes: &'a mut [u8]) -> u64 {
        self.add(bytes.as_mut_ptr() as u64, bytes.len(), true)
    }

    /// Grants access to memory of a device.
    pub(crate) fn lend_mapping(&mut self, mapping: &'a crate::memory::Mapping) {
        self.add(mapping.start(), mapping.len(), true);
    }

    fn add(&mut self, start: u64, len: usize, writable: bool) -> u64 {
        let range = Range { start, end: start + len as u64, writable };
        let at = self.ranges.partition_point(|before| before.start < start);
        self.ranges.insert(at, range);
        start
    }

    fn allows(&self, address: u64, len: usize, write: bool) -> bool {
        let end = address.checked_add(len as u64);
        let after = self.ranges.partition_point(|range| range.start <= address);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        range.zip(end).is_some_and(|(range, end)| end <= range.end && (range.writable || !write))
    }

    /// Reads up to 8 bytes, the first lowest; `None` if they were not granted.
    pub(super) fn read(&self, address: u64, len: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        if len > bytes.len() || !self.allows(address, len, false) {
            return None;
        }
        // SAFETY: `allows` has checked that the bytes are part of a range that was granted for `'a`:
        // of a slice, or of device memory, which its mapping holds.
        unsafe { ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), len) };
        Some(u64::from_le_bytes(bytes))
    }

    /// Writes up to 8 bytes, the first lowest; `None` if they were not granted for writing.
    pub(super) fn write(&self, address: u64, len: usize, value: u64) -> Option<()> {
        if len > 8 || !self.allows(address, len, true) {
            return None;
        }
        // SAFETY: the same as in `read`; and the range was granted for writing: of a slice borrowed
        // exclusively, or of device memory, which is written through pointers only.
        unsafe {
            ptr::copy_nonoverlapping(value.to_le_bytes().as_ptr(), address as *mut u8, len);
        };
        Some(())
    }
}
