//! The device's data of a slot: its page locks, and the batch that was uploaded from it.
//!
//! ```text
//!   slot is filled ──submit──▶ pages locked, copies enqueued, then the event `copied` ──▶ batch
//!   batch dropped  ──batch_dropped──▶ its readers' streams recorded, the device's memory released
//!   slot is taken  ──reclaim─▶ waits for `copied`: then the slot may be written again
//!   slot dropped   ──drop────▶ the same, then unlocks the pages
//! ```
//!
//! A slot whose batches stay on the host has page locks alone, if a loader has a [`PageLocker`].

#![allow(unsafe_code, reason = "pages of memory that others write to")]

use crate::error::Error;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fuseloop_ops::DType;

use super::context::Context;
use super::device_buffer::{ReaderGuard, SharedBuffer};
use super::gpu::Gpu;
use super::handles::{CudaEvent, OwnedStream, PageLock};
use crate::batch::RowsMut;
use crate::device::DeviceStream;
use fuseloop_engine::batch::SlotExtension;

/// The device's data of a slot.
pub(crate) struct PinnedSlot {
    pub(super) context: Arc<Context>,
    ordinal: u32,
    copied: CudaEvent,
    /// True if copies were enqueued that were not waited for yet.
    copying: bool,
    locks: PageLocks,
    batch: Option<DeviceBatch>,
}

/// The locked pages of a slot's tensors.
struct PageLocks {
    /// By tensor.
    locks: Vec<(usize, PageLock)>,
    /// True if the system refused to lock pages: it is not tried again.
    refused: bool,
}

impl PageLocks {
    const NONE: Self = Self { locks: Vec::new(), refused: false };

    /// Locks the pages of the slot's tensor `output`, whose rows in use are `memory`. Returns false if
    /// the system refuses: then copies from these pages are slower, but still correct.
    ///
    /// # Safety
    ///
    /// `memory` starts at the beginning of a tensor of the slot that this value is part of the extension of.
    unsafe fn lock(&mut self, context: &Arc<Context>, output: usize, memory: &[u8]) -> bool {
        if self.locks.iter().any(|(of, lock)| *of == output && lock.covers(memory)) {
            return true;
        }
        if self.refused {
            return false;
        }
        // The lock of an earlier batch with fewer rows is dropped before a longer lock is created.
        self.locks.retain(|(of, _)| *of != output);
        // SAFETY: memory of a slot starts at a page and stays mapped as long as the slot, which drops
        // its extension, and this value with it, first.
        match unsafe { PageLock::new(context, memory) } {
            Ok(lock) => self.locks.push((output, lock)),
            Err(_) => self.refused = true,
        }
        !self.refused
    }
}

/// The page locks of a slot whose batches stay on the host, for copies of the user's.
struct LockedSlot {
    context: Arc<Context>,
    locks: PageLocks,
}

impl SlotExtension for LockedSlot {
    fn batch_dropped(&mut self) {}

    /// Has nothing to wait for: whoever copies from a batch holds the batch until the copy is done.
    fn reclaim(&mut self) {}
}

/// Locks the pages of batches that stay on the host. The GPU's context is opened for the first batch.
pub(crate) struct PageLocker {
    ordinal: u32,
    gpu: OnceLock<Result<Arc<Gpu>, Error>>,
    refused: AtomicBool,
}

impl PageLocker {
    pub(crate) fn new(ordinal: u32) -> Self {
        Self { ordinal, gpu: OnceLock::new(), refused: AtomicBool::new(false) }
    }

    /// Locks the pages of the first `outputs` tensors of a whole batch. Does nothing if that is not possible.
    ///
    /// # Panics
    ///
    /// If the rows are not a whole batch.
    pub(crate) fn lock(&self, rows: &mut RowsMut<'_>, outputs: usize) {
        let Ok(gpu) = self.gpu.get_or_init(|| Gpu::open(self.ordinal)) else { return };
        assert!(rows.extension().is_some(), "some rows of a batch");
        let last = rows.extension().and_then(Option::take);
        let mut extension =
            last.unwrap_or_else(|| Box::new(LockedSlot::new(Arc::clone(&gpu.context))));
        let found: &mut dyn Any = &mut *extension;
        let (context, locks) = if found.is::<PinnedSlot>() {
            let Some(pinned) = found.downcast_mut::<PinnedSlot>() else { return };
            (&pinned.context, &mut pinned.locks)
        } else {
            let Some(locked) = found.downcast_mut::<LockedSlot>() else { return };
            (&locked.context, &mut locked.locks)
        };
        for output in 0..outputs {
            let memory = rows.output(output);
            // SAFETY: the locks belong to this slot's extension, and these are the rows of the whole batch, so
            // that they start at the beginning of the tensor.
            if !memory.is_empty() && !unsafe { locks.lock(context, output, memory) } {
                self.refused.store(true, Ordering::Relaxed);
            }
        }
        if let Some(beside) = rows.extension() {
            *beside = Some(extension);
        }
    }

    /// Returns why pages are not locked; `None` if they are, or no batch was made yet.
    pub(crate) fn failure(&self) -> Option<String> {
        match self.gpu.get()? {
            Err(error) => Some(error.to_string()),
            Ok(_) if self.refused.load(Ordering::Relaxed) => Some(
                "the system refuses to lock more pages: raise the limit of locked memory (`ulimit -l`)"
                    .to_owned(),
            ),
            Ok(_) => None,
        }
    }
}

impl LockedSlot {
    fn new(context: Arc<Context>) -> Self {
        Self { context, locks: PageLocks::NONE }
    }
}

/// A batch on the device.
pub(super) struct DeviceBatch {
    pub(super) held: Arc<SharedBuffer>,
    pub(super) ranges: Arc<[TensorRange]>,
    /// The index in the batch of each tensor in `ranges`.
    pub(super) outputs: Vec<usize>,
    pub(super) rows: usize,
    pub(super) uses: Mutex<Vec<ReaderGuard>>,
}

/// The range of one tensor in the memory of a batch.
#[derive(Debug)]
pub(super) struct TensorRange {
    pub(super) offset: usize,
    pub(super) row_bytes: usize,
    pub(super) dtype: DType,
    /// The shape of one sample.
    pub(super) shape: Vec<usize>,
}

/// A tensor on the device.
#[derive(Clone, Debug)]
pub(crate) struct LocatedTensor {
    pub(crate) address: u64,
    /// The shape, the batch first.
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    pub(crate) device: u32,
    offset: usize,
    bytes: usize,
}

impl PinnedSlot {
    /// The minimum bytes for which locked pages are faster: the driver copies less through its own.
    const WORTH_LOCKING: usize = 64 << 10;

    pub(super) fn new(context: &Arc<Context>, ordinal: u32) -> Result<Self, Error> {
        Ok(Self {
            context: Arc::clone(context),
            ordinal,
            copied: CudaEvent::new(context)?,
            copying: false,
            locks: PageLocks::NONE,
            batch: None,
        })
    }

    /// Returns the slot's extension, if it is of this type.
    pub(crate) fn of(companion: &dyn SlotExtension) -> Option<&Self> {
        (companion as &dyn Any).downcast_ref()
    }

    /// Locks the pages of the slot's tensor `output`, whose rows in use are `memory`. Returns false if
    /// the system refuses: then copies from these pages are slower, but still correct.
    ///
    /// # Safety
    ///
    /// `memory` starts at the beginning of a tensor of the slot that this value extends.
    pub(super) unsafe fn lock_pages(&mut self, output: usize, memory: &[u8]) -> bool {
        if memory.len() < Self::WORTH_LOCKING {
            return true;
        }
        // SAFETY: the caller's promise is the same.
        unsafe { self.locks.lock(&self.context, output, memory) }
    }

    /// Notes that copies from the slot begin.
    pub(super) fn begin_copies(&mut self) {
        self.copying = true;
    }

    /// Notes that all copies were enqueued on `queue`.
    pub(super) fn end_copies(&self, queue: &OwnedStream) -> Result<(), Error> {
        self.copied.record(queue)
    }

    /// Returns the event after the last copy.
    pub(super) fn copied(&self) -> &CudaEvent {
        &self.copied
    }

    /// Stores the uploaded batch; `None` if the upload failed and no copy is in flight.
    pub(super) fn set_batch(&mut self, batch: Option<DeviceBatch>) {
        self.copying = batch.is_some();
        self.batch = batch;
    }

    /// Returns the GPU's number.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Returns the address and shape of the batch's tensor number `output`; `None` if it is not on the
    /// device.
    pub(crate) fn find(&self, output: usize) -> Option<LocatedTensor> {
        let batch = self.batch.as_ref()?;
        let k = batch.outputs.iter().position(|of| *of == output)?;
        let range = &batch.ranges[k];
        Some(LocatedTensor {
            address: batch.held.buffer().memory.address() + range.offset as u64,
            shape: std::iter::once(batch.rows).chain(range.shape.iter().copied()).collect(),
            dtype: range.dtype,
            device: self.ordinal,
            offset: range.offset,
            bytes: batch.rows * range.row_bytes,
        })
    }

    /// Makes `stream` wait for the batch. Until the batch is dropped, `stream` counts as a reader of it.
    pub(crate) fn make_ready_on(&self, stream: DeviceStream) -> Result<(), Error> {
        let Some(batch) = &self.batch else { return Ok(()) };
        let mut uses = batch.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if !uses.iter().any(|begun| begun.is_of(stream)) {
            uses.push(ReaderGuard::begin(&batch.held, stream)?);
        }
        Ok(())
    }

    /// Does the same until the returned guard is dropped; `None` if nothing is on the device.
    pub(crate) fn guard_for(&self, stream: DeviceStream) -> Option<Result<ReaderGuard, Error>> {
        self.batch.as_ref().map(|batch| ReaderGuard::begin(&batch.held, stream))
    }

    /// Reads the bytes of a tensor; waits for the device.
    pub(crate) fn read(&self, found: &LocatedTensor) -> Result<Vec<u8>, Error> {
        let Some(batch) = &self.batch else { return Ok(Vec::new()) };
        let mut bytes = vec![0; found.bytes];
        let queue = OwnedStream::new(&self.context)?;
        queue.wait(&batch.held.buffer().ready)?;
        queue.download(&batch.held.buffer().memory, found.offset, &mut bytes)?;
        Ok(bytes)
    }
}

impl SlotExtension for PinnedSlot {
    fn batch_dropped(&mut self) {
        self.batch = None;
    }

    fn reclaim(&mut self) {
        self.batch = None;
        if self.copying {
            // A lost context copies nothing any more, so an error also means that no copy is in flight.
            let _ = self.copied.synchronize();
            self.copying = false;
        }
    }
}

impl Drop for PinnedSlot {
    fn drop(&mut self) {
        self.reclaim();
    }
}
