//! Memory of the fake devices, and all copies: the bytes at given addresses.
//!
//! ```text
//!   no access │ .. start ┌ len bytes ┐ canary to a multiple of 256 │ no access
//! ```
//!
//! Device memory consists of memory pages of the process, between pages that must not be touched.
//! Every second allocation ends at the end of a page, so that a kernel that writes past the
//! allocation crashes; the others begin at the start of a page, which catches a kernel that writes
//! before the allocation. Both start at a multiple of 256, as the driver promises. The bytes
//! between the end and the next multiple of 256 hold a pattern, which is checked after each kernel.
//! A new allocation is filled with 0xCD, a freed one with 0xDD, and freed addresses are never
//! handed out again: once nothing uses the memory, touching it is a crash.
#![allow(unsafe_code, reason = "bytes behind addresses")]

use std::ptr;
use std::sync::Arc;

const PAGE: usize = 4096;
const ALIGN: usize = 256;
const CANARY: u8 = 0xC5;

/// The memory pages of one allocation.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: u64,
    mapped: usize,
    start: u64,
    len: usize,
}

impl Mapping {
    /// Allocates `len` bytes that end at the end of a page, or start at the start of one.
    pub(crate) fn new(len: usize, at_end: bool) -> Option<Arc<Self>> {
        let padded = len.checked_next_multiple_of(ALIGN)?;
        let pages = padded.checked_next_multiple_of(PAGE)?;
        let mapped = pages.checked_add(2 * PAGE)?;
        let base = map(mapped, pages)?;
        let start = base + (PAGE + if at_end { pages - padded } else { 0 }) as u64;
        let mapping = Self { base, mapped, start, len };
        mapping.whole().fill(0xCD);
        mapping.slack().fill(CANARY);
        Some(Arc::new(mapping))
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if `len` bytes from `address` on are part of the allocation.
    pub(crate) fn holds(&self, address: u64, len: usize) -> bool {
        let Some(end) = address.checked_add(len as u64) else { return false };
        address >= self.start && end <= self.start + self.len as u64
    }

    /// Returns a range of the allocation.
    pub(crate) fn span(self: &Arc<Self>, address: u64, len: usize) -> Option<Span> {
        self.holds(address, len).then(|| Span { address, len, _keeps: Some(Arc::clone(self)) })
    }

    /// Returns all bytes that were requested.
    pub(crate) fn whole(&self) -> Span {
        Span { address: self.start, len: self.len, _keeps: None }
    }

    fn slack(&self) -> Span {
        let len = self.len.next_multiple_of(ALIGN) - self.len;
        Span { address: self.start + self.len as u64, len, _keeps: None }
    }

    /// Returns true if the pattern after the end was overwritten.
    pub(crate) fn overrun(&self) -> bool {
        self.slack().to_vec().iter().any(|&byte| byte != CANARY)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (base, len) = (self.base as *mut libc::c_void, self.mapped);
        // SAFETY: the pages are ours, mapped by `new`, and no span refers to them any more. They
        // stay reserved without memory behind them, so that no other allocation gets their
        // addresses.
        unsafe {
            libc::madvise(base, len, libc::MADV_DONTNEED);
            libc::mprotect(base, len, libc::PROT_NONE);
        }
    }
}

/// Reserves `mapped` bytes; the `pages` bytes in the middle can be used.
fn map(mapped: usize, pages: usize) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new pages, at an address that the system chooses.
    let base = unsafe { libc::mmap(ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let usable = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the middle of the pages just mapped: `mapped` is two pages more than `pages`.
    let opened = unsafe { libc::mprotect(base.byte_add(PAGE), pages, usable) };
    (opened == 0).then_some(base as u64)
}

/// Valid bytes: a range of a mapping, or memory that a caller promised.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    address: u64,
    len: usize,
    _keeps: Option<Arc<Mapping>>,
}

impl Span {
    /// # Safety
    ///
    /// `len` bytes from `address` on must be valid for reads, and for writes if the caller said so,
    /// whenever the span is used.
    pub(crate) unsafe fn of_caller(address: u64, len: usize) -> Self {
        Self { address, len, _keeps: None }
    }

    fn at(&self) -> *mut u8 {
        self.address as *mut u8
    }

    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: both have `len` bytes, and `bytes` was allocated just now.
        unsafe { ptr::copy_nonoverlapping(self.at(), bytes.as_mut_ptr(), self.len) };
        bytes
    }

    /// Writes as many of the bytes as fit, from the start of the span.
    pub(crate) fn write(&self, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        // SAFETY: `len` exceeds neither length. The ranges don't overlap: `bytes` is borrowed from
        // Rust.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(), len) };
    }

    /// Copies as many bytes as fit to the start of another span.
    pub(crate) fn copy_to(&self, to: &Self) {
        // SAFETY: the length exceeds neither span; they may overlap.
        unsafe { ptr::copy(self.at(), to.at(), self.len.min(to.len)) };
    }

    pub(crate) fn fill(&self, byte: u8) {
        // SAFETY: the span has `len` valid bytes.
        unsafe { ptr::write_bytes(self.at(), byte, self.len) };
    }
}
