//! The way of batches to a GPU.
//!
//! ```text
//!             wait(drained of 3 batches ago)       wait(released)
//! copy queue  ──▶ staged tensors ──▶ ring ──────▶ ──▶ copied tensors ──▶ memory of the batch ──▶ record(copied)
//!             wait(copied), wait(released)
//! compute     ──▶ scratch = 0 ──▶ kernels: ring ──▶ memory of the batch ──▶ record(drained), record(ready)
//! ```
//!
//! Workers submit one at a time; nobody waits for the device here. What orders one batch with
//! the others:
//!
//! | memory | is written after | |
//! |---|---|---|
//! | a place of the ring | the kernels that read it have run | `drained` |
//! | memory of a batch | its last readers are done | `released`, see [`held`](super::held) |
//! | scratch | the kernels before have run | one queue |
//! | the host's slot | it was copied | `copied`, see [`freight`](super::freight) |

#![allow(unsafe_code, reason = "copies and kernels that run later")]

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::context::Context;
use super::freight::{Cargo, Freight, Place};
use super::gpu::Gpu;
use super::handles::{Event, Memory, Queue};
use super::held::{Buffer, Buffers};
use super::kernels::{self, Kernels};
use crate::batch::{Companion, RowsMut};
use crate::device::program::{Addresses, Made, Program};
use crate::device::{DeviceError, DeviceStats};

/// Batches whose staged bytes are on the device at a time.
const RING: usize = 3;
/// Every tensor begins at a multiple of this.
const ALIGN: usize = 256;
/// Kernels read whole words, up to seven bytes past the last pixel.
const SLACK: usize = 256;

/// The way of batches to a GPU.
pub(crate) struct Lane {
    gpu: Arc<Gpu>,
    program: Program,
    rows: usize,
    kernels: Kernels,
    copy: Queue,
    compute: Queue,
    ring: Vec<Stage>,
    /// Where each tensor is staged in a place of the ring.
    staged: Vec<usize>,
    scratch: Memory,
    buffers: Arc<Buffers>,
    /// Where each tensor lies in the memory of a batch.
    places: Arc<[Place]>,
    /// The place of the ring that comes next. Who has it may submit.
    turn: Mutex<usize>,
    counted: Counted,
}

/// A place of the ring.
struct Stage {
    memory: Memory,
    /// The kernels that read it have run.
    drained: Event,
}

#[derive(Default)]
struct Counted {
    batches: AtomicU64,
    bytes: AtomicU64,
    pageable: AtomicU64,
}

/// Offsets of pieces that lie one after the other, and the end; `None` if there is no such memory.
fn lay_out(pieces: impl Iterator<Item = Option<usize>>) -> Option<(Vec<usize>, usize)> {
    let (mut offsets, mut end) = (vec![], 0usize);
    for bytes in pieces {
        offsets.push(end);
        end = end.checked_add(bytes?)?.checked_next_multiple_of(ALIGN)?;
    }
    Some((offsets, end))
}

impl Lane {
    /// A lane for batches of up to `rows` samples, of which up to `device_batches` are on the
    /// device at a time. Compiles the program's kernels.
    ///
    /// # Errors
    ///
    /// If they can't be had, or the device has no memory for it all.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        program: Program,
        rows: usize,
        device_batches: usize,
    ) -> Result<Arc<Self>, DeviceError> {
        let context = &gpu.context;
        let none = |what| DeviceError::NoMemory { bytes: u64::MAX, what };
        let computed = |made| if made == Made::Computed { rows } else { 0 };
        let tensors = &program.tensors;
        let staged = tensors.iter().map(|t| t.staged.checked_mul(computed(t.made)));
        let (staged, staged_end) = lay_out(staged).ok_or_else(|| none("staged batches"))?;
        let made = tensors.iter().map(|t| t.row_bytes().checked_mul(rows));
        let (offsets, end) = lay_out(made).ok_or_else(|| none("a batch"))?;
        let scratch = program.scratch.checked_mul(rows).ok_or_else(|| none("scratch"))?;
        let ring = (0..RING).map(|_| Stage::new(context, staged_end + SLACK));
        Ok(Arc::new(Self {
            kernels: kernels::load(gpu, &program)?,
            copy: Queue::new(context)?,
            compute: Queue::new(context)?,
            ring: ring.collect::<Result<_, _>>()?,
            staged,
            scratch: Memory::new(context, scratch, "scratch")?,
            buffers: Buffers::new(context, end, device_batches),
            places: places(&program, &offsets),
            turn: Mutex::default(),
            counted: Counted::default(),
            gpu: Arc::clone(gpu),
            program,
            rows,
        }))
    }

    /// Sends a batch: `outputs` are the tensors of `rows` that the program's are staged in, in
    /// order. Returns before it is there; what is in `rows` may be read, but not written, until the
    /// slot is reclaimed.
    ///
    /// # Errors
    ///
    /// If all memory for batches is held, or the driver fails. Nothing is under way then.
    pub(crate) fn submit(
        self: &Arc<Self>,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
    ) -> Result<(), DeviceError> {
        self.check(rows, outputs);
        let mut freight = self.freight(rows)?;
        for &output in outputs {
            // SAFETY: it is kept beside this slot, and `check` saw that the rows are all of it.
            if !unsafe { freight.lock_pages(output, rows.output(output)) } {
                self.counted.pageable.fetch_add(1, Ordering::Relaxed);
            }
        }
        let outcome = self.send(&mut freight, rows, outputs);
        if let Some(beside) = rows.companion() {
            *beside = Some(freight);
        }
        outcome
    }

    /// # Panics
    ///
    /// If the rows are not those that the program is for, all of them.
    fn check(&self, rows: &mut RowsMut<'_>, outputs: &[usize]) {
        let count = rows.len();
        assert!(count <= self.rows, "{count} rows, and room for {}", self.rows);
        assert!(rows.companion().is_some(), "some rows of a batch");
        assert_eq!(outputs.len(), self.program.tensors.len(), "outputs of a program");
        for (tensor, &output) in self.program.tensors.iter().zip(outputs) {
            assert_eq!(rows.output(output).len(), count * tensor.staged, "bytes of {output}");
        }
    }

    /// What is kept beside the slot, with nothing under way; new if nothing of this device's was.
    fn freight(&self, rows: &mut RowsMut<'_>) -> Result<Box<Freight>, DeviceError> {
        let context = &self.gpu.context;
        let kept = rows.companion().and_then(Option::take);
        let kept = kept.and_then(|kept| (kept as Box<dyn Any>).downcast::<Freight>().ok());
        if let Some(mut freight) = kept.filter(|kept| Arc::ptr_eq(&kept.context, context)) {
            freight.reclaim();
            return Ok(freight);
        }
        Ok(Box::new(Freight::new(context, self.gpu.info().ordinal)?))
    }

    /// Asks the device for everything, or for nothing.
    fn send(
        &self,
        freight: &mut Freight,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
    ) -> Result<(), DeviceError> {
        let held = self.buffers.take()?;
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (stage, buffer) = (&self.ring[*turn], held.buffer());
        let copied = self.ask_copies(freight, rows, outputs, stage, buffer);
        if let Err(error) =
            copied.and_then(|()| self.ask_kernels(freight, rows.len(), stage, buffer))
        {
            // What was asked for before that must not be under way when its memory is used again.
            self.wait();
            freight.settle(None);
            return Err(error);
        }
        *turn = (*turn + 1) % RING;
        drop(turn);
        self.counted.batches.fetch_add(1, Ordering::Relaxed);
        freight.settle(Some(Cargo {
            held,
            places: Arc::clone(&self.places),
            outputs: outputs.to_vec(),
            rows: rows.len(),
            uses: Mutex::default(),
        }));
        Ok(())
    }

    fn ask_copies(
        &self,
        freight: &mut Freight,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
        stage: &Stage,
        buffer: &Buffer,
    ) -> Result<(), DeviceError> {
        self.copy.wait(&stage.drained)?;
        freight.begin_copies();
        // Those that wait for nobody first.
        self.upload(rows, outputs, Made::Computed, &stage.memory, |k| self.staged[k])?;
        if self.program.tensors.iter().any(|tensor| tensor.made == Made::Copied) {
            buffer.wait_for_users(&self.copy)?;
            self.upload(rows, outputs, Made::Copied, &buffer.memory, |k| self.places[k].offset)?;
        }
        freight.end_copies(&self.copy)
    }

    /// Copies the tensors that are `made` so.
    fn upload(
        &self,
        rows: &mut RowsMut<'_>,
        outputs: &[usize],
        made: Made,
        to: &Memory,
        at: impl Fn(usize) -> usize,
    ) -> Result<(), DeviceError> {
        for (k, tensor) in self.program.tensors.iter().enumerate() {
            if tensor.made == made {
                let from = rows.output(outputs[k]);
                // SAFETY: the slot is written again only after `Freight::reclaim`, which waits for
                // `copied`, recorded behind this; and it drops its freight before its memory, which
                // waits too. Where `copied` can't be recorded, `send` waits for the queue.
                unsafe { self.copy.upload(from, to, at(k)) }?;
                self.counted.bytes.fetch_add(from.len() as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn ask_kernels(
        &self,
        freight: &Freight,
        rows: usize,
        stage: &Stage,
        buffer: &Buffer,
    ) -> Result<(), DeviceError> {
        self.compute.wait(freight.copied())?;
        buffer.wait_for_users(&self.compute)?;
        if self.program.scratch > 0 {
            self.compute.zero(&self.scratch, 0, self.program.scratch * rows)?;
        }
        let arguments = self.arguments(rows, stage, buffer);
        // No more than `self.rows`, which the program's maker counts in 32 bits.
        let rows = rows as u32;
        for (function, parts) in self.kernels.functions.iter().filter(|_| rows > 0) {
            let grid = (rows, *parts);
            // SAFETY: the program's kernels take its arguments, and read and write the rows of the
            // tensors there, the scratch, and no more than `SLACK` behind what is staged. All of
            // that is freed by drops that wait.
            unsafe { self.compute.launch(function, grid, Program::THREADS, &arguments) }?;
        }
        stage.drained.record(&self.compute)?;
        buffer.ready.record(&self.compute)?;
        buffer.forget_users();
        Ok(())
    }

    fn arguments(&self, rows: usize, stage: &Stage, buffer: &Buffer) -> Vec<u8> {
        let from = |start: u64, offset: usize| start + offset as u64;
        let staged = self.staged.iter().map(|&at| from(stage.memory.address(), at));
        let tensors = self.places.iter().map(|place| from(buffer.memory.address(), place.offset));
        self.program.arguments(&Addresses {
            rows: rows as u32,
            staged: &staged.collect::<Vec<_>>(),
            tensors: &tensors.collect::<Vec<_>>(),
            scratch: self.scratch.address(),
        })
    }

    /// Waits for everything asked for. In a context that is lost nothing is under way.
    fn wait(&self) {
        let _ = self.copy.synchronize();
        let _ = self.compute.synchronize();
    }

    /// What has gone this way.
    pub(crate) fn stats(&self) -> DeviceStats {
        let buffers = self.buffers.made();
        let own = self.ring.iter().map(|stage| stage.memory.bytes()).sum::<usize>();
        let bytes = own + self.scratch.bytes() + buffers * self.buffers.bytes;
        DeviceStats {
            batches: self.counted.batches.load(Ordering::Relaxed),
            bytes_copied: self.counted.bytes.load(Ordering::Relaxed),
            pageable_copies: self.counted.pageable.load(Ordering::Relaxed),
            kernels_took: self.kernels.took,
            kernels: self.kernels.origin,
            buffers,
            device_bytes: bytes as u64,
        }
    }
}

fn places(program: &Program, offsets: &[usize]) -> Arc<[Place]> {
    let places = program.tensors.iter().zip(offsets).map(|(tensor, &offset)| Place {
        offset,
        row_bytes: tensor.row_bytes(),
        dtype: tensor.dtype,
        shape: tensor.shape.clone(),
    });
    places.collect()
}

impl Stage {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, DeviceError> {
        let memory = Memory::new(context, bytes, "staged batches")?;
        Ok(Self { memory, drained: Event::new(context)? })
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.wait();
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("gpu", &self.gpu).field("stats", &self.stats()).finish()
    }
}
