//! The memory of one batch, and how several threads write to it at the same time.
//!
//! ```text
//!                 FillingSlot::new          claim, claim, ...           FillingSlot::into_slot
//!   Slot (owned) ------------> FillingSlot (shared, rows handed out) -----------> Slot (owned)
//!
//!   next ->  0      1      2      3   = chunks: nothing left
//!         +------+------+------+---+
//!         | rows | rows | rows |   |   a chunk is handed out once: `next` only grows
//!         +------+------+------+---+
//! ```
//!
//! The types enforce the rules:
//! - A [`Slot`] owns its memory, so through a shared reference the memory can be read and nothing writes
//!   it.
//! - A shared [`FillingSlot`] only allows [`claim`](FillingSlot::claim), which hands each row to one
//!   caller, and allows no reads. It owns its slot: there is no other access.
//! - The slot is returned by value, so the last [`RowsMut`], which borrows the `FillingSlot`, is gone.
//!   The owner of the slot may then write to [all rows](Slot::rows_mut).

#![allow(unsafe_code, reason = "workers write disjoint rows of one allocation at the same time")]

use std::any::Any;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;

use fuseloop_ops::DType;
use half::{bf16, f16};
use memmap2::MmapMut;

use super::{BatchSpec, SlotError};
use crate::sample::{SampleId, SampleRef};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

mod sealed {
    pub trait Sealed {}
}

/// A type that the elements of a tensor may be read as.
///
/// Sealed: each type has no padding, no invalid bit pattern and at most 64-byte alignment.
///
/// ```
/// # use fuseloop_engine::batch::Element;
/// # use fuseloop_ops::DType;
/// assert_eq!((<f32 as Element>::DTYPE, <i64 as Element>::DTYPE), (DType::F32, DType::I64));
/// ```
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The element type at run time.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($element:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $element {}
        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}

elements!(
    u8 => U8, u16 => U16, i16 => I16, i32 => I32, i64 => I64, f16 => F16, bf16 => Bf16, f32 => F32, f64 => F64
);

/// Returns the elements that bytes are; `None` if the bytes are not whole elements, or not aligned to them.
#[must_use]
pub fn elements_of<T: Element>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: `Element` is implemented in this file only, for numbers without padding of
    // which every bit pattern is a value.
    let (before, elements, after) = unsafe { bytes.align_to::<T>() };
    (before.is_empty() && after.is_empty()).then_some(elements)
}

/// Returns the bytes of elements, in native byte order.
#[must_use]
pub fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: as in `elements_of`: an element has no padding, and bytes need no alignment.
    unsafe { slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// Returns the bytes of elements, to write to.
#[must_use]
pub fn bytes_of_mut<T: Element>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; every bit pattern that is written is a value, and the elements stay borrowed.
    unsafe { slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), size_of_val(elements)) }
}

/// Every tensor starts at a multiple of this: a cache line, and the width of the widest vector.
const ALIGN: usize = 64;

/// A tensor of at least this many bytes asks for 2 MiB memory pages: filling a new batch of 38 MB then
/// causes 19 page faults instead of 9,400, and its rows cause fewer TLB misses.
#[cfg(target_os = "linux")]
const HUGE: usize = 2 << 20;

/// One tensor's memory: initialised bytes, owned.
struct TensorBuffer {
    /// The start of `memory`, which is accessed in no other way while the buffer lives.
    start: NonNull<u8>,
    memory: MmapMut,
    row_bytes: usize,
}

// SAFETY: a `TensorBuffer` owns its bytes as a `Box<[u8]>` does; any thread may free it.
unsafe impl Send for TensorBuffer {}
// SAFETY: through a shared `TensorBuffer` this file reads only in `Slot::bytes`, where no `FillingSlot`
// owns the slot, and writes only in `RowsMut`, whose rows are handed to one caller.
unsafe impl Sync for TensorBuffer {}

impl TensorBuffer {
    /// Allocates zeroed memory for `rows` rows.
    ///
    /// The memory is an anonymous mapping. The allocator would clear memory aligned to 64 bytes by
    /// writing to it, on one thread and before the first row of an epoch; a mapping is cleared by the
    /// system, page by page, when a worker first touches it. A mapping starts at a memory page, so at a
    /// multiple of [`ALIGN`].
    fn new(rows: usize, row_bytes: usize) -> Result<Self, SlotError> {
        let bytes = rows.saturating_mul(row_bytes);
        // A mapping of 0 bytes is an error.
        let mut memory =
            MmapMut::map_anon(bytes.max(1)).map_err(|_| SlotError::NoMemory { bytes })?;
        #[cfg(target_os = "linux")]
        if bytes >= HUGE {
            // This is only advice: without it the result is the same, but slower.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        let start = NonNull::new(memory.as_mut_ptr()).ok_or(SlotError::NoMemory { bytes })?;
        Ok(Self { start, memory, row_bytes })
    }

    /// Returns the address of `count` rows from row `first` on, and their length in bytes.
    ///
    /// # Panics
    ///
    /// If the rows are not all inside the memory.
    #[inline]
    fn rows(&self, first: usize, count: usize) -> (NonNull<u8>, usize) {
        let span = first.checked_add(count).and_then(|end| end.checked_mul(self.row_bytes));
        assert!(span.is_some_and(|end| end <= self.memory.len()), "rows {first}+{count}");
        // SAFETY: `first * row_bytes` is at most `end`, which was compared with the length of
        // the mapping just above.
        let start = unsafe { self.start.add(first * self.row_bytes) };
        (start, count * self.row_bytes)
    }
}

/// State that a stage stores with the memory of a batch: its device memory and its transfers.
pub trait SlotExtension: Any + Send + Sync {
    /// Called on the thread that drops the last owner of the batch's memory. Must not wait.
    fn batch_dropped(&mut self);

    /// Waits until only the owner reads the memory, which is about to be written again.
    fn reclaim(&mut self);
}

/// The memory of one batch: a buffer for each tensor, and the sample of each row.
pub struct Slot {
    /// Declared before the memory, so that it is dropped first.
    extension: Option<Box<dyn SlotExtension>>,
    tensors: Vec<TensorBuffer>,
    visits: Vec<SampleRef>,
    /// The sample ids of the rows, as of the last `update_ids`.
    ids: Vec<SampleId>,
}

impl Slot {
    /// The maximum size of one allocation.
    pub(crate) const MAX_TENSOR_BYTES: usize = isize::MAX as usize - ALIGN;

    /// Allocates zeroed memory for a batch of `spec`, without samples.
    ///
    /// # Errors
    ///
    /// If the memory can't be allocated.
    pub fn new(spec: &BatchSpec) -> Result<Self, SlotError> {
        let tensors = spec.row_bytes().iter().map(|&bytes| TensorBuffer::new(spec.rows(), bytes));
        let tensors = tensors.collect::<Result<_, _>>()?;
        let rows = spec.rows().min(1 << 16);
        let (visits, ids) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        Ok(Self { extension: None, tensors, visits, ids })
    }

    /// Returns the sample of each row in use.
    pub(crate) fn visits(&self) -> &[SampleRef] {
        &self.visits
    }

    /// Returns the list of samples, to set the rows that are filled next.
    pub fn visits_mut(&mut self) -> &mut Vec<SampleRef> {
        &mut self.visits
    }

    /// Sets [`ids`](Self::ids) to the samples of the current rows.
    pub(crate) fn update_ids(&mut self) {
        self.ids.clear();
        self.ids.extend(self.visits.iter().map(|visit| visit.sample));
    }

    /// Returns the sample id of each row, as of the last `update_ids`.
    pub(crate) fn ids(&self) -> &[SampleId] {
        &self.ids
    }

    /// Returns all rows in use.
    pub fn rows_mut(&mut self) -> RowsMut<'_> {
        let Self { tensors, visits, extension, .. } = self;
        RowsMut { tensors, visits, first: 0, extension: Some(extension) }
    }

    /// Returns what the stage stores with the slot.
    pub(crate) fn extension(&self) -> Option<&dyn SlotExtension> {
        self.extension.as_deref()
    }

    /// Returns what the stage stores with the slot, mutably.
    pub(crate) fn extension_mut(&mut self) -> Option<&mut (dyn SlotExtension + 'static)> {
        self.extension.as_deref_mut()
    }

    /// Removes the rows `gone`, which are ascending and distinct; the later rows move up.
    pub(crate) fn remove_rows(&mut self, gone: &[usize]) {
        let is_left = |row: &usize| gone.binary_search(row).is_err();
        let count = self.visits.len();
        for tensor in 0..self.tensors.len() {
            let row_bytes = self.tensors[tensor].row_bytes;
            let mut rows = self.rows_mut();
            let bytes = rows.output(tensor);
            for (to, from) in
                (0..count).filter(is_left).enumerate().skip_while(|(to, from)| to == from)
            {
                bytes.copy_within(from * row_bytes..(from + 1) * row_bytes, to * row_bytes);
            }
        }
        let mut row = 0..;
        self.visits.retain(|_| row.next().is_some_and(|row| is_left(&row)));
    }

    /// Returns the rows in use of tensor `k`.
    ///
    /// # Panics
    ///
    /// If there is no tensor `k`, or there are more samples than rows.
    pub(crate) fn bytes(&self, k: usize) -> &[u8] {
        let (start, len) = self.tensors[k].rows(0, self.visits.len());
        // SAFETY: `rows` checked that the bytes are inside one live allocation, which was zeroed when
        // new. In Rust, only `RowsMut` writes there (for other code, see `start`). A `RowsMut` borrows either a `FillingSlot`, which owns its
        // slot (this slot was then returned by value afterwards, so no such `RowsMut` is left), or the
        // slot itself mutably (that borrow has ended).
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Returns the address of tensor `k`, for code that is not Rust. Such code may write there only while no
    /// slice of the tensor is borrowed.
    ///
    /// # Panics
    ///
    /// If there is no tensor `k`.
    pub(crate) fn start(&self, k: usize) -> *mut u8 {
        self.tensors[k].start.as_ptr()
    }

    /// Returns the rows in use of tensor `k`, as elements.
    ///
    /// # Panics
    ///
    /// See [`bytes`](Self::bytes); also if the bytes are not whole elements.
    pub(crate) fn elements<T: Element>(&self, k: usize) -> &[T] {
        let elements = elements_of(self.bytes(k));
        elements.unwrap_or_else(|| panic!("tensor {k} is not of {}", T::DTYPE))
    }
}

/// A slot that workers write to: its rows are handed out in chunks, in order, each once.
pub(crate) struct FillingSlot {
    /// No method lends this out: see the rules at the top of the file.
    slot: Slot,
    chunk: NonZeroUsize,
    chunks: usize,
    /// The first chunk that was not claimed. Only grows.
    next: AtomicUsize,
    /// True if chunks were left when filling was cancelled.
    cut: AtomicBool,
}

impl FillingSlot {
    /// Opens `slot` for one row per sample, `chunk` rows at a time.
    ///
    /// # Panics
    ///
    /// If there are more samples than rows.
    pub(crate) fn new(slot: Slot, chunk: NonZeroUsize) -> Self {
        let chunks = slot.visits.len().div_ceil(chunk.get());
        for tensor in &slot.tensors {
            let _ = tensor.rows(0, slot.visits.len());
        }
        let (next, cut) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { slot, chunk, chunks, next, cut }
    }

    /// Claims the next chunk: returns its samples and rows; `None` when all chunks are claimed.
    #[inline]
    pub(crate) fn claim(&self) -> Option<(&[SampleRef], RowsMut<'_>)> {
        // This check keeps `next` from growing after the last chunk, so that it can't wrap around.
        if self.is_exhausted() {
            return None;
        }
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        if chunk >= self.chunks {
            return None;
        }
        // `chunk < chunks`, so its first row is below the number of ids: no overflow.
        let first = chunk * self.chunk.get();
        let count = self.chunk.get().min(self.slot.visits.len() - first);
        let visits = &self.slot.visits[first..first + count];
        Some((visits, RowsMut { tensors: &self.slot.tensors, visits, first, extension: None }))
    }

    /// Hands out no more chunks. Chunks already claimed are not affected.
    pub(crate) fn cancel(&self) {
        if self.next.fetch_max(self.chunks, Ordering::Relaxed) < self.chunks {
            self.cut.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if no chunk is left to claim.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.chunks
    }

    /// Returns true if every chunk was or will be handed out, so that no row keeps old contents.
    pub(crate) fn is_whole(&self) -> bool {
        !self.cut.load(Ordering::Relaxed)
    }

    /// Returns the total number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks
    }

    /// Returns the slot, after all writers are done.
    pub(crate) fn into_slot(self) -> Slot {
        self.slot
    }
}

/// Some rows of a batch that only one worker may write: `len` rows in every output.
///
/// The rows still hold the contents of an earlier batch: write every byte.
#[doc(hidden)]
pub struct RowsMut<'a> {
    tensors: &'a [TensorBuffer],
    /// The sample of each row.
    visits: &'a [SampleRef],
    first: usize,
    /// The extension of the slot, if these are all its rows.
    extension: Option<&'a mut Option<Box<dyn SlotExtension>>>,
}

impl<'a> RowsMut<'a> {
    /// Returns the number of rows.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.visits.len()
    }

    /// Returns true if there is no row. The engine passes at least one.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// Returns the sample of each row: of a complete batch, those that are left.
    #[must_use]
    #[inline]
    pub fn visits(&self) -> &'a [SampleRef] {
        self.visits
    }

    /// Returns the index of the first row in its batch.
    #[must_use]
    #[inline]
    pub fn first_row(&self) -> usize {
        self.first
    }

    /// Returns the rows of output `k`, contiguous: `len` times the bytes of one sample.
    ///
    /// # Panics
    ///
    /// If there is no output `k`.
    #[must_use]
    #[inline]
    pub fn output(&mut self, k: usize) -> &mut [u8] {
        let (start, len) = self.tensors[k].rows(self.first, self.len());
        // SAFETY: `rows` checked the bounds. No other live reference covers these bytes: `claim` gives
        // each chunk to one caller (`next` only grows, so `fetch_add` returns a chunk once); `rows_mut`
        // borrows its slot mutably; `row` borrows the whole mutably while its rows live; the slot can be
        // read only after `self`, which borrows its `FillingSlot` or the slot, is gone; and `&mut self`
        // allows one slice at a time.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// Returns the rows of every output, in order, to write to several outputs at once.
    #[inline]
    pub fn outputs(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        let (first, count) = (self.first, self.len());
        self.tensors.iter().map(move |tensor| {
            let (start, len) = tensor.rows(first, count);
            // SAFETY: see `output`. Each tensor is an allocation of its own and is yielded once, and the
            // iterator borrows `self` mutably for as long as the slices live.
            unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
        })
    }

    /// Returns row `i` of these rows.
    ///
    /// # Panics
    ///
    /// If `i` is not below `len`.
    #[must_use]
    #[inline]
    pub fn row(&mut self, i: usize) -> RowsMut<'_> {
        let visits = self.visits.get(i..=i).unwrap_or_else(|| panic!("row {i} of {}", self.len()));
        RowsMut { tensors: self.tensors, visits, first: self.first + i, extension: None }
    }

    /// Returns what the stage stores with the slot; `None` if these are not all rows of the batch.
    #[inline]
    pub fn extension(&mut self) -> Option<&mut Option<Box<dyn SlotExtension>>> {
        self.extension.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::TensorSpec;
    use std::thread;

    fn slot(rows: usize) -> Slot {
        let tensor = |name: &str| TensorSpec::new(name, DType::U8, [3]);
        let tensors = [tensor("a"), tensor("b")];
        let spec = BatchSpec::new(&tensors, NonZeroUsize::new(rows).unwrap()).unwrap();
        let mut slot = Slot::new(&spec).unwrap();
        slot.visits_mut().extend((0..rows as u64).map(|id| SampleRef::once(SampleId(id))));
        slot
    }

    #[test]
    fn every_row_is_handed_out_once_whatever_the_chunk() {
        for (rows, chunk) in [(1, 1), (7, 2), (8, 2), (5, 32), (64, 5)] {
            let filling = FillingSlot::new(slot(rows), NonZeroUsize::new(chunk).unwrap());
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        while let Some((samples, mut rows)) = filling.claim() {
                            assert_eq!(samples.len(), rows.len());
                            assert_eq!(samples[0].sample.0 as usize, rows.first_row());
                            rows.outputs().flatten().for_each(|byte| *byte += 1);
                            for i in 0..rows.len() {
                                rows.row(i).output(1).fill(i as u8);
                            }
                        }
                    });
                }
            });
            let slot = filling.into_slot();
            assert!(slot.bytes(0).iter().all(|&b| b == 1), "{rows} by {chunk}");
            let indices = slot.bytes(1).iter().step_by(3).map(|&b| usize::from(b));
            assert!(indices.eq((0..rows).map(|i| i % chunk)), "{rows} by {chunk}");
        }
    }

    #[test]
    fn a_cancelled_filling_hands_out_nothing() {
        let filling = FillingSlot::new(slot(4), NonZeroUsize::MIN);
        assert!(filling.claim().is_some());
        assert!(filling.is_whole());
        filling.cancel();
        assert!(filling.claim().is_none() && filling.is_exhausted() && !filling.is_whole());
    }

    #[test]
    fn one_cancelled_after_its_last_chunk_is_whole() {
        let filling = FillingSlot::new(slot(4), NonZeroUsize::new(4).unwrap());
        assert!(filling.claim().is_some());
        filling.cancel();
        assert!(filling.is_whole());
    }

    #[test]
    fn the_owner_of_a_slot_may_write_to_all_rows() {
        let mut slot = slot(5);
        slot.visits_mut().truncate(3);
        let mut rows = slot.rows_mut();
        assert_eq!((rows.len(), rows.first_row()), (3, 0));
        rows.output(1).copy_from_slice(&[1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_eq!(slot.bytes(1), [1, 1, 1, 2, 2, 2, 3, 3, 3]);
    }

    #[test]
    fn rows_left_out_are_closed_up() {
        for gone in [&[][..], &[0], &[4], &[1, 3], &[0, 1, 4], &[0, 1, 2, 3, 4]] {
            let mut slot = slot(5);
            let mut rows = slot.rows_mut();
            for i in 0..5 {
                rows.row(i).outputs().for_each(|row| row.fill(i as u8));
            }
            slot.remove_rows(gone);
            let left: Vec<u8> = (0..5).filter(|i| !gone.contains(&usize::from(*i))).collect();
            let ids: Vec<u8> = slot.visits().iter().map(|visit| visit.sample.0 as u8).collect();
            assert_eq!(ids, left);
            for tensor in [0, 1] {
                assert!(slot.bytes(tensor).iter().copied().eq(left.iter().flat_map(|&i| [i; 3])));
            }
        }
    }
}
