//! Uploads batches to a GPU and runs their kernels.
//!
//! ```text
//!             wait(drained of 3 batches ago)       wait(released)
//! copy stream ──▶ staged tensors ──▶ ring ──────▶ ──▶ copied tensors ──▶ memory of the batch ──▶ record(copied)
//!             wait(copied), wait(released)
//! compute     ──▶ scratch = 0 ──▶ kernels: ring ──▶ memory of the batch ──▶ record(drained), record(ready)
//! ```
//!
//! Workers submit one at a time, and none of them waits for the device here. The order of one batch and
//! the others:
//!
//! | memory | is written after | event |
//! |---|---|---|
//! | an entry of the ring | the kernels that read it have run | `drained` |
//! | memory of a batch | its last readers are done | `released`, see [`device_buffer`](super::device_buffer) |
//! | scratch | the kernels before have run | none: one stream |
//! | the host's slot | it was copied | `copied`, see [`pinned_slot`](super::pinned_slot) |

#![allow(unsafe_code, reason = "copies and kernels that run later")]

use crate::device::error::no_memory;
use crate::error::Error;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fuseloop_engine::batch::SlotExtension;

use super::context::Context;
use super::device_buffer::{BufferPool, DeviceBuffer};
use super::gpu::Gpu;
use super::handles::{CudaEvent, DeviceMemory, OwnedStream};
use super::kernels::{self, Kernels};
use super::pinned_slot::{DeviceBatch, PinnedSlot, TensorRange};
use crate::batch::RowsMut;
use crate::device::DeviceStats;
use crate::device::program::{Addresses, DeviceProgram, TensorOrigin};

/// The number of batches whose staged bytes are on the device at a time.
const RING: usize = 3;
/// The alignment of every tensor.
const ALIGN: usize = 256;
/// The bytes after the staged tensors: kernels read whole words, up to seven bytes past the last pixel.
const SLACK: usize = 256;

/// Uploads batches to a GPU.
pub(crate) struct Uploader {
    gpu: Arc<Gpu>,
    program: DeviceProgram,
    rows: usize,
    kernels: Kernels,
    copy: OwnedStream,
    compute: OwnedStream,
    ring: Vec<RingEntry>,
    /// The offset of each staged tensor in an entry of the ring.
    staged: Vec<usize>,
    scratch: DeviceMemory,
    buffers: Arc<BufferPool>,
    /// The range of each tensor in the memory of a batch.
    ranges: Arc<[TensorRange]>,
    /// The index of the next ring entry. Only the thread that holds this lock may submit.
    next_entry: Mutex<usize>,
    counts: TransferCounts,
}

/// An entry of the ring.
struct RingEntry {
    memory: DeviceMemory,
    /// Recorded after the kernels that read the entry.
    drained: CudaEvent,
}

#[derive(Default)]
struct TransferCounts {
    batches: AtomicU64,
    bytes: AtomicU64,
    pageable: AtomicU64,
}

/// Returns the aligned offsets of consecutive pieces, and their end; `None` if a size overflows.
fn lay_out(pieces: impl Iterator<Item = Option<usize>>) -> Option<(Vec<usize>, usize)> {
    let (mut offsets, mut end) = (vec![], 0usize);
    for bytes in pieces {
        offsets.push(end);
        end = end.checked_add(bytes?)?.checked_next_multiple_of(ALIGN)?;
    }
    Some((offsets, end))
}

impl Uploader {
    /// Creates an uploader for batches of up to `rows` samples, of which up to `device_batches` are on
    /// the device at a time. Compiles the program's kernels.
    ///
    /// # Errors
    ///
    /// If the kernels are not available, or the device has not enough memory.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        program: DeviceProgram,
        rows: usize,
        device_batches: usize,
    ) -> Result<Arc<Self>, Error> {
        let context = &gpu.context;
        let none = |what| no_memory(u64::MAX, what);
        let computed = |origin| if origin == TensorOrigin::Computed { rows } else { 0 };
        let tensors = &program.tensors;
        let staged = tensors.iter().map(|t| t.staged.checked_mul(computed(t.origin)));
        let (staged, staged_end) = lay_out(staged).ok_or_else(|| none("staged batches"))?;
        let sizes = tensors.iter().map(|t| t.row_bytes().checked_mul(rows));
        let (offsets, end) = lay_out(sizes).ok_or_else(|| none("a batch"))?;
        let scratch = program.scratch.checked_mul(rows).ok_or_else(|| none("scratch"))?;
        let ring = (0..RING).map(|_| RingEntry::new(context, staged_end + SLACK));
        Ok(Arc::new(Self {
            kernels: kernels::load(gpu, &program)?,
            copy: OwnedStream::new(context)?,
            compute: OwnedStream::new(context)?,
            ring: ring.collect::<Result<_, _>>()?,
            staged,
            scratch: DeviceMemory::new(context, scratch, "scratch")?,
            buffers: BufferPool::new(context, end, device_batches),
            ranges: ranges(&program, &offsets),
            next_entry: Mutex::default(),
            counts: TransferCounts::default(),
            gpu: Arc::clone(gpu),
            program,
            rows,
        }))
    }

    /// Returns the maximum number of rows of a batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of batches that are held.
    pub(crate) fn batches_held(&self) -> usize {
        self.buffers.held()
    }

    /// Sends a batch: `outputs` are the tensors of `rows` in which the program's tensors are staged, in
    /// order. Returns before the batch is on the device; until the slot is reclaimed, `rows` may be
    /// read, but not written.
    ///
    /// # Errors
    ///
    /// If all memory for batches is in use, or the driver fails. No copy is in flight then.
    pub(crate) fn submit(
        self: &Arc<Self>,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
    ) -> Result<(), Error> {
        self.check(rows, outputs);
        let mut pinned = self.pinned_slot(rows)?;
        for &output in outputs {
            // SAFETY: the value extends this slot, and `check` saw that the rows are the whole batch.
            if !unsafe { pinned.lock_pages(output, rows.output(output)) } {
                self.counts.pageable.fetch_add(1, Ordering::Relaxed);
            }
        }
        let outcome = self.send(&mut pinned, rows, outputs);
        if let Some(beside) = rows.extension() {
            *beside = Some(pinned);
        }
        outcome
    }

    /// # Panics
    ///
    /// If the rows are not those of the program, or not the whole batch.
    fn check(&self, rows: &mut RowsMut<'_>, outputs: &[usize]) {
        let count = rows.len();
        assert!(count <= self.rows, "{count} rows, and room for {}", self.rows);
        assert!(rows.extension().is_some(), "some rows of a batch");
        assert_eq!(outputs.len(), self.program.tensors.len(), "outputs of a program");
        for (tensor, &output) in self.program.tensors.iter().zip(outputs) {
            assert_eq!(rows.output(output).len(), count * tensor.staged, "bytes of {output}");
        }
    }

    /// Takes the slot's device data, with no copy in flight; creates it if the slot has none for this
    /// device.
    fn pinned_slot(&self, rows: &mut RowsMut<'_>) -> Result<Box<PinnedSlot>, Error> {
        let context = &self.gpu.context;
        let last = rows.extension().and_then(Option::take);
        let last = last.and_then(|last| (last as Box<dyn Any>).downcast::<PinnedSlot>().ok());
        if let Some(mut pinned) = last.filter(|last| Arc::ptr_eq(&last.context, context)) {
            pinned.reclaim();
            return Ok(pinned);
        }
        Ok(Box::new(PinnedSlot::new(context, self.gpu.info().ordinal)?))
    }

    /// Enqueues all work of a batch on the device, or none.
    fn send(
        &self,
        pinned: &mut PinnedSlot,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
    ) -> Result<(), Error> {
        let held = self.buffers.take()?;
        let mut turn = self.next_entry.lock().unwrap_or_else(PoisonError::into_inner);
        let (stage, buffer) = (&self.ring[*turn], held.buffer());
        let copied = self.enqueue_copies(pinned, rows, outputs, stage, buffer);
        if let Err(error) =
            copied.and_then(|()| self.enqueue_kernels(pinned, rows.len(), stage, buffer))
        {
            // Work that was enqueued before the error must end before its memory is used again.
            self.wait();
            pinned.set_batch(None);
            return Err(error);
        }
        *turn = (*turn + 1) % RING;
        drop(turn);
        self.counts.batches.fetch_add(1, Ordering::Relaxed);
        pinned.set_batch(Some(DeviceBatch {
            held,
            ranges: Arc::clone(&self.ranges),
            outputs: outputs.to_vec(),
            rows: rows.len(),
            uses: Mutex::default(),
        }));
        Ok(())
    }

    fn enqueue_copies(
        &self,
        pinned: &mut PinnedSlot,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
        stage: &RingEntry,
        buffer: &DeviceBuffer,
    ) -> Result<(), Error> {
        self.copy.wait(&stage.drained)?;
        pinned.begin_copies();
        // First the tensors that need not wait for readers.
        self.upload(rows, outputs, TensorOrigin::Computed, &stage.memory, |k| self.staged[k])?;
        if self.program.tensors.iter().any(|tensor| tensor.origin == TensorOrigin::Copied) {
            buffer.wait_for_users(&self.copy)?;
            self.upload(rows, outputs, TensorOrigin::Copied, &buffer.memory, |k| {
                self.ranges[k].offset
            })?;
        }
        pinned.end_copies(&self.copy)
    }

    /// Enqueues the copies of the tensors whose origin is `origin`.
    fn upload(
        &self,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
        origin: TensorOrigin,
        to: &DeviceMemory,
        at: impl Fn(usize) -> usize,
    ) -> Result<(), Error> {
        for (k, tensor) in self.program.tensors.iter().enumerate() {
            if tensor.origin == origin {
                let from = rows.output(outputs[k]);
                // SAFETY: the slot is written again only after `PinnedSlot::reclaim`, which waits for
                // `copied`, recorded after this copy; and the slot drops its `PinnedSlot`, which also
                // waits, before its memory. If `copied` can't be recorded, `send` waits for the stream.
                unsafe { self.copy.upload(from, to, at(k)) }?;
                self.counts.bytes.fetch_add(from.len() as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn enqueue_kernels(
        &self,
        pinned: &PinnedSlot,
        rows: usize,
        stage: &RingEntry,
        buffer: &DeviceBuffer,
    ) -> Result<(), Error> {
        self.compute.wait(pinned.copied())?;
        buffer.wait_for_users(&self.compute)?;
        if self.program.scratch > 0 {
            self.compute.zero(&self.scratch, 0, self.program.scratch * rows)?;
        }
        let arguments = self.arguments(rows, stage, buffer);
        // No more than `self.rows`, whose type the program's creator limits to 32 bits.
        let rows = rows as u32;
        for (function, parts) in self.kernels.functions.iter().filter(|_| rows > 0) {
            let grid = (rows, *parts);
            // SAFETY: the program's kernels take its arguments, and access only the rows of the tensors
            // there, the scratch, and at most `SLACK` bytes after the staged tensors. All of that memory
            // is freed by drops that wait.
            unsafe { self.compute.launch(function, grid, DeviceProgram::THREADS, &arguments) }?;
        }
        stage.drained.record(&self.compute)?;
        buffer.ready.record(&self.compute)?;
        buffer.forget_users();
        Ok(())
    }

    fn arguments(&self, rows: usize, stage: &RingEntry, buffer: &DeviceBuffer) -> Vec<u8> {
        let from = |start: u64, offset: usize| start + offset as u64;
        let staged = self.staged.iter().map(|&at| from(stage.memory.address(), at));
        let tensors = self.ranges.iter().map(|range| from(buffer.memory.address(), range.offset));
        self.program.arguments(&Addresses {
            rows: rows as u32,
            staged: &staged.collect::<Vec<_>>(),
            tensors: &tensors.collect::<Vec<_>>(),
            scratch: self.scratch.address(),
        })
    }

    /// Waits for all enqueued work. A lost context has no work in flight.
    fn wait(&self) {
        let _ = self.copy.synchronize();
        let _ = self.compute.synchronize();
    }

    /// Returns the statistics of this uploader.
    pub(crate) fn stats(&self) -> DeviceStats {
        let buffers = self.buffers.allocated();
        let own = self.ring.iter().map(|stage| stage.memory.bytes()).sum::<usize>();
        let bytes = own + self.scratch.bytes() + buffers * self.buffers.bytes;
        DeviceStats {
            batches: self.counts.batches.load(Ordering::Relaxed),
            bytes_copied: self.counts.bytes.load(Ordering::Relaxed),
            pageable_copies: self.counts.pageable.load(Ordering::Relaxed),
            kernels_took: self.kernels.took,
            kernels: self.kernels.origin,
            buffers,
            device_bytes: bytes as u64,
        }
    }
}

fn ranges(program: &DeviceProgram, offsets: &[usize]) -> Arc<[TensorRange]> {
    let ranges = program.tensors.iter().zip(offsets).map(|(tensor, &offset)| TensorRange {
        offset,
        row_bytes: tensor.row_bytes(),
        dtype: tensor.dtype,
        shape: tensor.shape.clone(),
    });
    ranges.collect()
}

impl RingEntry {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, Error> {
        let memory = DeviceMemory::new(context, bytes, "staged batches")?;
        Ok(Self { memory, drained: CudaEvent::new(context)? })
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.wait();
    }
}

impl fmt::Debug for Uploader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("gpu", &self.gpu).field("stats", &self.stats()).finish()
    }
}
