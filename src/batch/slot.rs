//! The memory of one batch, and how several threads write to it at once.
//!
//! ```text
//!                 Filling::new            claim, claim, ...             Filling::into_slot
//!   Slot (owned) ------------> Filling (shared, rows handed out) ------------> Slot (owned)
//!
//!   next ->  0      1      2      3   = chunks: nothing left
//!         +------+------+------+---+
//!         | rows | rows | rows |   |   a chunk is handed out once: `next` only grows
//!         +------+------+------+---+
//! ```
//!
//! The types keep the rules:
//! - A [`Slot`] owns its memory, so a shared borrow of it may read and nobody writes.
//! - A [`Filling`] can only be shared for [`claim`](Filling::claim), which gives each row to one
//!   caller, and never lets anybody read. It owns its slot: there is no other way in.
//! - The slot comes out by value, so the last [`RowsMut`], which borrows the filling, is gone.
//!   Whoever owns it may then write to [all rows](Slot::rows_mut), alone.

#![allow(unsafe_code, reason = "workers write disjoint rows of one allocation at the same time")]

use std::any::Any;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::slice;

use fuseloop_ops::DType;
use half::{bf16, f16};
use memmap2::MmapMut;

use super::{BatchSpec, SlotError};
use crate::sample::{SampleId, Visit};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

mod sealed {
    pub trait Sealed {}
}

/// A type that the elements of a tensor may be read as.
///
/// Sealed: each has no padding, no invalid bit pattern and at most 64-byte alignment.
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Its name at run time.
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
    u8 => U8, i16 => I16, i32 => I32, i64 => I64, f16 => F16, bf16 => Bf16, f32 => F32, f64 => F64
);

/// Every tensor begins at a multiple of this: a cache line, and the widest vector.
const ALIGN: usize = 64;

/// From so many bytes on, memory in pages of 2 MiB is asked for: filling a new batch of 38 MB is
/// then 19 page faults and not 9,400, and its rows miss the TLB less often.
#[cfg(target_os = "linux")]
const HUGE: usize = 4 << 20;

/// One tensor's memory: initialised bytes, owned.
struct Buffer {
    /// Where `memory` begins. It is not used otherwise for as long as this lives.
    start: NonNull<u8>,
    memory: MmapMut,
    row_bytes: usize,
}

// SAFETY: a `Buffer` owns its bytes as a `Box<[u8]>` does; it may be freed by any thread.
unsafe impl Send for Buffer {}
// SAFETY: through a shared `Buffer` this file reads only by `Slot::bytes`, where the slot is
// owned by no `Filling`, and writes only by `RowsMut`, whose rows nobody else has.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Zeroed memory for `rows` rows.
    ///
    /// A mapping of its own, not the allocator's: that clears what is aligned to 64 by writing
    /// to it, before the first row of an epoch and on one thread. Here the system clears a page
    /// when a worker first touches it. It begins at a page, so at a multiple of [`ALIGN`].
    fn new(rows: usize, row_bytes: usize) -> Result<Self, SlotError> {
        let bytes = rows.saturating_mul(row_bytes);
        // The system may not be asked for nothing; a byte more is no matter.
        let mut memory =
            MmapMut::map_anon(bytes.max(1)).map_err(|_| SlotError::NoMemory { bytes })?;
        #[cfg(target_os = "linux")]
        if bytes >= HUGE {
            // Only advice: without it all is the same, but slower.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        let start = NonNull::new(memory.as_mut_ptr()).ok_or(SlotError::NoMemory { bytes })?;
        Ok(Self { start, memory, row_bytes })
    }

    /// The place of `count` rows from row `first` on, and their bytes.
    ///
    /// # Panics
    ///
    /// If they do not all lie inside the memory.
    fn rows(&self, first: usize, count: usize) -> (NonNull<u8>, usize) {
        let span = first.checked_add(count).and_then(|end| end.checked_mul(self.row_bytes));
        assert!(span.is_some_and(|end| end <= self.memory.len()), "rows {first}+{count}");
        // SAFETY: `first * row_bytes` is at most `end`, which was compared with the length of
        // the mapping just above.
        let start = unsafe { self.start.add(first * self.row_bytes) };
        (start, count * self.row_bytes)
    }
}

/// What a stage keeps beside the memory of a batch: what a device has of it, and knows of it.
pub(crate) trait Companion: Any + Send + Sync {
    /// The user has dropped the batch. Called where that happens: may not wait.
    fn let_go(&mut self);

    /// Waits until nothing but its owner reads the memory, which is about to be written again.
    fn reclaim(&mut self);
}

/// The memory of one batch: a buffer for each tensor, and which sample each row is.
pub(crate) struct Slot {
    /// Before the memory, so that it is gone before that is.
    companion: Option<Box<dyn Companion>>,
    tensors: Vec<Buffer>,
    visits: Vec<Visit>,
    /// The samples of `visits`, once they are noted.
    ids: Vec<SampleId>,
}

impl Slot {
    /// The most that the system can be asked for.
    pub(crate) const MAX_TENSOR_BYTES: usize = isize::MAX as usize - ALIGN;

    /// Memory for a batch of `spec`, zeroed, with no sample in it.
    ///
    /// # Errors
    ///
    /// If the system has no such memory.
    pub(crate) fn new(spec: &BatchSpec) -> Result<Self, SlotError> {
        let tensors = spec.row_bytes().iter().map(|&bytes| Buffer::new(spec.rows(), bytes));
        let tensors = tensors.collect::<Result<_, _>>()?;
        let rows = spec.rows().min(1 << 16);
        let (visits, ids) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        Ok(Self { companion: None, tensors, visits, ids })
    }

    /// What each row is; as many rows as visits are in use.
    pub(crate) fn visits(&self) -> &[Visit] {
        &self.visits
    }

    /// To say which rows come next.
    pub(crate) fn visits_mut(&mut self) -> &mut Vec<Visit> {
        &mut self.visits
    }

    /// Has [`ids`](Self::ids) say what the rows are now.
    pub(crate) fn note_ids(&mut self) {
        self.ids.clear();
        self.ids.extend(self.visits.iter().map(|visit| visit.sample));
    }

    /// Which sample each row is, as last noted.
    pub(crate) fn ids(&self) -> &[SampleId] {
        &self.ids
    }

    /// All rows in use.
    pub(crate) fn rows_mut(&mut self) -> RowsMut<'_> {
        let count = self.visits.len();
        RowsMut { tensors: &self.tensors, first: 0, count, companion: Some(&mut self.companion) }
    }

    /// What a stage keeps beside it.
    pub(crate) fn companion(&self) -> Option<&dyn Companion> {
        self.companion.as_deref()
    }

    /// The same, to tell it something.
    pub(crate) fn companion_mut(&mut self) -> Option<&mut (dyn Companion + 'static)> {
        self.companion.as_deref_mut()
    }

    /// Leaves out the rows `gone`, which are in order and each there once; the others move up.
    pub(crate) fn leave_out(&mut self, gone: &[usize]) {
        let kept = |row: &usize| gone.binary_search(row).is_err();
        let count = self.visits.len();
        for tensor in 0..self.tensors.len() {
            let row_bytes = self.tensors[tensor].row_bytes;
            let mut rows = self.rows_mut();
            let bytes = rows.output(tensor);
            for (to, from) in
                (0..count).filter(kept).enumerate().skip_while(|(to, from)| to == from)
            {
                bytes.copy_within(from * row_bytes..(from + 1) * row_bytes, to * row_bytes);
            }
        }
        let mut row = 0..;
        self.visits.retain(|_| row.next().is_some_and(|row| kept(&row)));
    }

    /// The rows in use of tensor `k`.
    ///
    /// # Panics
    ///
    /// If there is no tensor `k`, or there are more visits than rows.
    pub(crate) fn bytes(&self, k: usize) -> &[u8] {
        let (start, len) = self.tensors[k].rows(0, self.visits.len());
        // SAFETY: `rows` checked that the bytes lie in one live allocation, zeroed when new.
        // Only `RowsMut` writes there. It borrows a `Filling`, which owns its slot, so that whoever
        // borrows this slot got it by value after and no such `RowsMut` is left; or it borrows
        // the slot itself mutably, so that it is gone now.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The rows in use of tensor `k`, as elements.
    ///
    /// # Panics
    ///
    /// As [`bytes`](Self::bytes), and if the bytes are not whole elements.
    pub(crate) fn elements<T: Element>(&self, k: usize) -> &[T] {
        // SAFETY: `Element` is implemented in this file only, for numbers without padding of
        // which every bit pattern is a value.
        let (before, elements, after) = unsafe { self.bytes(k).align_to::<T>() };
        assert!(before.is_empty() && after.is_empty(), "tensor {k} is not of {}", T::DTYPE);
        elements
    }
}

/// A slot that workers are writing to: its rows are handed out in chunks, in order, each once.
pub(crate) struct Filling {
    /// Private, and no method lends it: see the rules on top.
    slot: Slot,
    chunk: NonZeroUsize,
    chunks: usize,
    /// The first chunk that nobody has. It only grows.
    next: AtomicUsize,
    /// Whether chunks were left when it was cancelled.
    cut: AtomicBool,
}

impl Filling {
    /// Opens `slot` for a row per visit, `chunk` rows at a time.
    ///
    /// # Panics
    ///
    /// If there are more visits than rows.
    pub(crate) fn new(slot: Slot, chunk: NonZeroUsize) -> Self {
        let chunks = slot.visits.len().div_ceil(chunk.get());
        for tensor in &slot.tensors {
            let _ = tensor.rows(0, slot.visits.len());
        }
        let (next, cut) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { slot, chunk, chunks, next, cut }
    }

    /// The next visits nobody has, and their rows; `None` when all are taken.
    pub(crate) fn claim(&self) -> Option<(&[Visit], RowsMut<'_>)> {
        // Looking first keeps `next` from growing by late comers, so it can't wrap round.
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
        Some((visits, RowsMut { tensors: &self.slot.tensors, first, count, companion: None }))
    }

    /// Hands out nothing more. What was handed out stays so.
    pub(crate) fn cancel(&self) {
        if self.next.fetch_max(self.chunks, Ordering::Relaxed) < self.chunks {
            self.cut.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there is nothing left to claim.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.chunks
    }

    /// Whether every chunk was handed out, or will be: no row is left as it was.
    pub(crate) fn is_whole(&self) -> bool {
        !self.cut.load(Ordering::Relaxed)
    }

    /// Chunks in all.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks
    }

    /// The slot, when nobody writes to it any more.
    pub(crate) fn into_slot(self) -> Slot {
        self.slot
    }
}

/// Some rows of a batch that one worker alone may write: `len` of them in every output.
///
/// What lies there before is left from an earlier batch: write every byte.
pub struct RowsMut<'a> {
    tensors: &'a [Buffer],
    first: usize,
    count: usize,
    /// Of the slot, if these are all its rows.
    companion: Option<&'a mut Option<Box<dyn Companion>>>,
}

impl RowsMut<'_> {
    /// How many rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no row. The engine gives none such.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The place of the first row in its batch.
    #[must_use]
    pub fn first_row(&self) -> usize {
        self.first
    }

    /// The rows of output `k`, side by side: `len` times the bytes of one sample.
    ///
    /// # Panics
    ///
    /// If there is no output `k`.
    #[must_use]
    pub fn output(&mut self, k: usize) -> &mut [u8] {
        let (start, len) = self.tensors[k].rows(self.first, self.count);
        // SAFETY: `rows` checked the bounds. No other live reference covers these bytes:
        // `claim` gives each chunk to one caller (`next` only grows, so `fetch_add` returns a
        // chunk once), `rows_mut` borrows its slot mutably, `row` lends a part only while it
        // borrows the whole mutably, the slot can be read only after `self`, which borrows its
        // `Filling` or the slot, is gone, and `&mut self` allows one slice at a time.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    /// The rows of every output, in order, for writing to several of them at once.
    pub fn outputs(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        let (first, count) = (self.first, self.count);
        self.tensors.iter().map(move |tensor| {
            let (start, len) = tensor.rows(first, count);
            // SAFETY: as in `output`; each tensor is an allocation of its own and comes up once,
            // and the iterator borrows `self` mutably for as long as the slices live.
            unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
        })
    }

    /// Row `i` of these alone.
    ///
    /// # Panics
    ///
    /// If `i` is not below `len`.
    #[must_use]
    pub fn row(&mut self, i: usize) -> RowsMut<'_> {
        assert!(i < self.count, "row {i} of {}", self.count);
        RowsMut { tensors: self.tensors, first: self.first + i, count: 1, companion: None }
    }

    /// What a stage keeps beside the memory of the batch; `None` for some of its rows.
    pub(crate) fn companion(&mut self) -> Option<&mut Option<Box<dyn Companion>>> {
        self.companion.as_deref_mut()
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
        slot.visits_mut().extend((0..rows as u64).map(|id| Visit::once(SampleId(id))));
        slot
    }

    #[test]
    fn every_row_is_handed_out_once_whatever_the_chunk() {
        for (rows, chunk) in [(1, 1), (7, 2), (8, 2), (5, 32), (64, 5)] {
            let filling = Filling::new(slot(rows), NonZeroUsize::new(chunk).unwrap());
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
            let place = slot.bytes(1).iter().step_by(3).map(|&b| usize::from(b));
            assert!(place.eq((0..rows).map(|i| i % chunk)), "{rows} by {chunk}");
        }
    }

    #[test]
    fn a_cancelled_filling_hands_out_nothing() {
        let filling = Filling::new(slot(4), NonZeroUsize::MIN);
        assert!(filling.claim().is_some());
        assert!(filling.is_whole());
        filling.cancel();
        assert!(filling.claim().is_none() && filling.is_exhausted() && !filling.is_whole());
    }

    #[test]
    fn one_cancelled_after_its_last_chunk_is_whole() {
        let filling = Filling::new(slot(4), NonZeroUsize::new(4).unwrap());
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
            slot.leave_out(gone);
            let kept: Vec<u8> = (0..5).filter(|i| !gone.contains(&usize::from(*i))).collect();
            let ids: Vec<u8> = slot.visits().iter().map(|visit| visit.sample.0 as u8).collect();
            assert_eq!(ids, kept);
            for tensor in [0, 1] {
                assert!(slot.bytes(tensor).iter().copied().eq(kept.iter().flat_map(|&i| [i; 3])));
            }
        }
    }
}
