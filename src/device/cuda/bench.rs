//! For tests and benchmarks: runs a [`CheckBatch`] on a real GPU, checked and timed.
//!
//! | item | what it measures | clock |
//! |---|---|---|
//! | [`Bench::upload`], [`Bench::copy`] | copies to the device and inside it, as reference values | the device |
//! | [`Resident`] | kernels alone, on a batch that is on the device already | the device |
//! | [`Bench::pipelined`] | batches one after the other through a `Uploader`, as loaders send them | this thread |
//! | [`Bench::loads`] | compiling and loading a program's code | this thread |
//!
//! A resident batch is checked with poison bytes in its tensors and guard bytes around them, so that
//! bytes that a kernel does not write, or writes outside its tensor, are found.

#![allow(unsafe_code, reason = "copies and kernels that run later")]

use crate::device::error::no_memory;
use crate::error::{Error, fail};
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use memmap2::MmapMut;

use super::clock::{Clock, HostMemory, copy_across};
use super::gpu::Gpu;
use super::handles::{DeviceMemory, OwnedStream, PageLock};
use super::kernels::{self, Kernels};
use super::module::Module;
use super::nvrtc::Nvrtc;
use super::uploader::Uploader;
use crate::batch::{Batch, TensorRows, TensorSpec};
use crate::device::check::{CheckBatch, written_outside};
use crate::device::program::{Addresses, DeviceProgram, Tensor};
use crate::device::{DeviceStats, DeviceStream, GpuInfo};
use crate::sample::{Epoch, SampleId, SampleRef};
use fuseloop_engine::batch::{BatchSpec, HostBatch, SlotPool};

/// The bytes that kernels may read after the staged rows, and the guard bytes around checked tensors.
const AROUND: usize = 256;
/// The value of the bytes around tensors.
const GUARD: u8 = 0xC7;
/// The value of the bytes that kernels have to write.
const POISON: u8 = 0xA5;
/// The number of batches in flight in a pipeline.
const IN_FLIGHT: usize = 3;

/// The kind of host memory that is copied to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPages {
    /// Pageable memory.
    Pageable,
    /// Pageable memory that was locked afterwards, like the slots of batches.
    Registered,
    /// Memory that the driver allocated and locked.
    Allocated,
}

/// Milliseconds until a program's code is loaded; `None` where there is no compiler, or no prebuilt
/// code.
#[derive(Debug, Clone, Copy, Default)]
pub struct Loads {
    /// NVRTC, from the text to a CUBIN, or to PTX where it is older than the GPU.
    pub compile: Option<f64>,
    /// Loading the compiled code.
    pub compiled: Option<f64>,
    /// Loading the prebuilt PTX, which the driver compiles.
    pub shipped: Option<f64>,
}

/// A GPU for benchmarks.
pub struct Bench {
    gpu: Arc<Gpu>,
    queue: OwnedStream,
    clock: Clock,
}

impl Bench {
    /// Opens a GPU.
    ///
    /// # Errors
    ///
    /// See [`Gpu::open`].
    pub fn open(ordinal: u32) -> Result<Self, Error> {
        let gpu = Gpu::open(ordinal)?;
        let (queue, clock) = (OwnedStream::new(&gpu.context)?, Clock::new(&gpu.context)?);
        Ok(Self { gpu, queue, clock })
    }

    /// Returns the GPU's properties.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        self.gpu.info()
    }

    /// Returns the milliseconds of one of `times` copies of `bytes` to the device.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn upload(&self, pages: HostPages, bytes: usize, times: usize) -> Result<f64, Error> {
        let context = &self.gpu.context;
        let to = DeviceMemory::new(context, bytes, "a copy")?;
        let copy = |from: &[u8]| {
            // SAFETY: `from` outlives this call, which waits for the last copy, and nothing writes to
            // it.
            self.timed(times, |_| unsafe { self.queue.upload(from, &to, 0) })
        };
        if pages == HostPages::Allocated {
            return copy(HostMemory::new(context, bytes)?.bytes());
        }
        let none = |_| no_memory(bytes as u64, "pages of the host");
        let mut memory = MmapMut::map_anon(bytes).map_err(none)?;
        memory.fill(1); // Maps the pages.
        let locked = (pages == HostPages::Registered)
            // SAFETY: a separate mapping, which is dropped after the lock.
            .then(|| unsafe { PageLock::new(context, &memory) })
            .transpose()?;
        let millis = copy(&memory);
        drop(locked);
        millis
    }

    /// Returns the milliseconds of one of `times` copies of `bytes` inside the device.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn copy(&self, bytes: usize, times: usize) -> Result<f64, Error> {
        let new = || DeviceMemory::new(&self.gpu.context, bytes, "a copy");
        let (from, to) = (new()?, new()?);
        self.queue.zero(&from, 0, bytes)?;
        self.timed(times, |_| copy_across(&self.queue, &from, &to, bytes))
    }

    /// Returns the milliseconds of one call of `each`: the mean of `times` calls, after one warm-up
    /// call.
    fn timed(
        &self,
        times: usize,
        mut each: impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<f64, Error> {
        let times = times.max(1);
        let asked = each(0).and_then(|()| {
            self.clock.begin(&self.queue)?;
            (1..=times).try_for_each(&mut each)?;
            self.clock.end(&self.queue)
        });
        // Waits after an error too: the copied memory may be freed after this.
        let waited = self.queue.synchronize();
        asked.and(waited)?;
        Ok(self.clock.millis()? / times as f64)
    }

    /// Measures the time until the code of a trial's kernels is loaded.
    ///
    /// # Errors
    ///
    /// If the driver rejects the code.
    pub fn loads(&self, trial: &CheckBatch) -> Result<Loads, Error> {
        let (source, mut loads) = (&trial.program().source, Loads::default());
        if let Ok(nvrtc) = Nvrtc::get(self.info().driver.0) {
            let target = nvrtc.target(self.info().capability);
            let began = Instant::now();
            let image = nvrtc.compile(source, &target.options(), target)?;
            loads.compile = Some(millis(began));
            loads.compiled = Some(self.load(&image)?);
        }
        if let Some(ptx) = fuseloop_kernels::shipped_ptx(source) {
            loads.shipped = Some(self.load(ptx.as_bytes())?);
        }
        Ok(loads)
    }

    fn load(&self, image: &[u8]) -> Result<f64, Error> {
        let began = Instant::now();
        Module::load(&self.gpu.context, image)?;
        Ok(millis(began))
    }

    /// Sends `batches` batches as a loader does, three of them in flight, each made ready on the default
    /// stream. Returns the milliseconds of one batch, and the uploader's statistics. The last batch is
    /// compared.
    ///
    /// # Errors
    ///
    /// If the driver fails, or a tensor has wrong bytes.
    pub fn pipelined(&self, trial: &CheckBatch, batches: u32) -> Result<(f64, DeviceStats), Error> {
        let port = Port::new(&self.gpu, trial)?;
        let mut held = VecDeque::new();
        for number in 0..2 * IN_FLIGHT as u32 {
            port.turn(number, Some(trial), &mut held)?;
        }
        self.gpu.context.synchronize()?;
        let began = Instant::now();
        for number in 0..batches {
            port.turn(number, None, &mut held)?;
        }
        self.gpu.context.synchronize()?;
        let each = millis(began) / f64::from(batches.max(1));
        let last = held.back().ok_or_else(|| failed("no batch"))?;
        for (tensor, name) in port.names.iter().enumerate() {
            trial.compare(tensor, &last.to_host(name)?)?;
        }
        Ok((each, port.lane.stats()))
    }
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

fn failed(error: impl fmt::Display) -> Error {
    fail!(Device, "{error}")
}

/// An uploader, and the host's slots that it reads.
struct Port {
    lane: Arc<Uploader>,
    pool: Arc<SlotPool>,
    names: Vec<String>,
    rows: usize,
}

impl Port {
    fn new(gpu: &Arc<Gpu>, trial: &CheckBatch) -> Result<Self, Error> {
        let (program, rows) = (trial.program().clone(), trial.rows());
        let names: Vec<_> = (0..program.tensors.len()).map(|k| k.to_string()).collect();
        let tensor = |(tensor, name): (&Tensor, &String)| TensorSpec {
            rows: TensorRows::Device { staged: tensor.staged },
            ..TensorSpec::new(name, tensor.dtype, tensor.shape.clone())
        };
        let tensors: Vec<_> = program.tensors.iter().zip(&names).map(tensor).collect();
        let most = NonZeroUsize::new(rows).ok_or_else(|| failed("no rows"))?;
        let spec = Arc::new(BatchSpec::new(&tensors, most).map_err(failed)?);
        let lane = Uploader::new(gpu, program, rows, IN_FLIGHT + 1)?;
        let pool = Arc::new(SlotPool::new(spec, None, IN_FLIGHT + 1, Box::new(|| {})));
        Ok(Self { lane, pool, names, rows })
    }

    /// Sends a batch, and drops the oldest batch in flight. If `filled` is `None`, the rows are those of
    /// an earlier batch in the same slot.
    fn turn(
        &self,
        number: u32,
        filled: Option<&CheckBatch>,
        held: &mut VecDeque<Batch>,
    ) -> Result<(), Error> {
        if held.len() == IN_FLIGHT {
            held.pop_front();
        }
        let lease = self.pool.take().ok_or_else(|| failed("no slot"))?;
        let mut slot = self.pool.redeem(lease).map_err(failed)?;
        slot.visits_mut().extend((0..self.rows as u64).map(|id| SampleRef::once(SampleId(id))));
        let mut rows = slot.rows_mut();
        for (k, staged) in filled.into_iter().flat_map(|trial| trial.staged().enumerate()) {
            rows.output(k).copy_from_slice(staged);
        }
        let outputs: Vec<usize> = (0..self.names.len()).collect();
        let sent = self.lane.submit(&mut rows, &outputs);
        let batch = Batch::from(HostBatch::new(slot, &self.pool, Epoch(0), number.into()));
        sent?;
        for name in &self.names {
            batch.device_ptr(name, DeviceStream::Legacy)?;
        }
        held.push_back(batch);
        Ok(())
    }
}

/// Several copies of a trial's batch on the device, so that timed kernels find nothing in caches.
pub struct Resident<'a> {
    bench: &'a Bench,
    trial: &'a CheckBatch,
    kernels: Kernels,
    sets: Vec<BufferSet>,
    scratch: DeviceMemory,
}

/// The memory that kernels read, and the memory that they write.
struct BufferSet {
    staged: Vec<DeviceMemory>,
    outputs: Vec<DeviceMemory>,
}

impl<'a> Resident<'a> {
    /// Copies the batch to the device, `copies` times.
    ///
    /// # Errors
    ///
    /// If the device has not enough memory, or there is no code for the kernels.
    pub fn new(bench: &'a Bench, trial: &'a CheckBatch, copies: usize) -> Result<Self, Error> {
        let scratch = (trial.program().scratch * trial.rows()).max(1);
        Ok(Self {
            kernels: kernels::load(&bench.gpu, trial.program())?,
            sets: (0..copies.max(1))
                .map(|_| BufferSet::new(bench, trial))
                .collect::<Result<_, _>>()?,
            scratch: DeviceMemory::new(&bench.gpu.context, scratch, "scratch")?,
            bench,
            trial,
        })
    }

    /// Runs the kernels once and checks all tensors and the guard bytes around them.
    ///
    /// # Errors
    ///
    /// If a kernel fails, computes other bytes than the oracle, or writes around a tensor.
    pub fn check(&self) -> Result<(), Error> {
        self.sets[0].poison(&self.bench.queue)?;
        self.run(0)?;
        for (tensor, output) in self.sets[0].outputs.iter().enumerate() {
            let mut bytes = vec![0; output.bytes()];
            self.bench.queue.download(output, 0, &mut bytes)?;
            let (before, rest) = bytes.split_at(AROUND);
            let (own, after) = rest.split_at(rest.len() - AROUND);
            if before.iter().chain(after).any(|byte| *byte != GUARD) {
                return Err(written_outside(tensor));
            }
            self.trial.compare(tensor, own)?;
        }
        Ok(())
    }

    /// Returns the milliseconds of the kernels of one batch, the mean of `times` runs in a row.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn time(&self, times: usize) -> Result<f64, Error> {
        self.bench.timed(times, |turn| self.run(turn))
    }

    /// Enqueues the kernels of one batch.
    fn run(&self, turn: usize) -> Result<(), Error> {
        let (queue, program, rows) = (&self.bench.queue, self.trial.program(), self.trial.rows());
        if program.scratch > 0 {
            queue.zero(&self.scratch, 0, program.scratch * rows)?;
        }
        let set = &self.sets[turn % self.sets.len()];
        let staged: Vec<u64> = set.staged.iter().map(DeviceMemory::address).collect();
        let tensors: Vec<u64> = set.outputs.iter().map(|m| m.address() + AROUND as u64).collect();
        let scratch = self.scratch.address();
        let at = Addresses { rows: rows as u32, staged: &staged, tensors: &tensors, scratch };
        let arguments = program.arguments(&at);
        for (function, parts) in &self.kernels.functions {
            let grid = (rows as u32, *parts);
            // SAFETY: the program's kernels take its arguments, and access only the rows of its tensors,
            // the scratch, and at most `AROUND` bytes after the staged rows. All of that memory is freed
            // by drops that wait.
            unsafe { queue.launch(function, grid, DeviceProgram::THREADS, &arguments) }?;
        }
        Ok(())
    }
}

impl BufferSet {
    fn new(bench: &Bench, trial: &CheckBatch) -> Result<Self, Error> {
        let context = &bench.gpu.context;
        let staged = trial.staged().map(|bytes| {
            let memory = DeviceMemory::new(context, bytes.len() + AROUND, "staged rows")?;
            put(&bench.queue, bytes, &memory, 0)?;
            bench.queue.zero(&memory, bytes.len(), AROUND)?;
            Ok::<_, Error>(memory)
        });
        let outputs = trial.program().tensors.iter().map(|tensor| {
            DeviceMemory::new(context, trial.rows() * tensor.row_bytes() + 2 * AROUND, "a tensor")
        });
        let set = Self {
            staged: staged.collect::<Result<_, _>>()?,
            outputs: outputs.collect::<Result<_, _>>()?,
        };
        bench.queue.synchronize()?;
        Ok(set)
    }

    /// Fills the tensors with poison bytes, and the memory around them with guard bytes.
    fn poison(&self, queue: &OwnedStream) -> Result<(), Error> {
        for output in &self.outputs {
            let mut bytes = vec![GUARD; output.bytes()];
            bytes[AROUND..output.bytes() - AROUND].fill(POISON);
            put(queue, &bytes, output, 0)?;
        }
        Ok(())
    }
}

/// Copies `bytes` to the device, and waits for the copy.
fn put(queue: &OwnedStream, bytes: &[u8], to: &DeviceMemory, at: usize) -> Result<(), Error> {
    // SAFETY: `bytes` is borrowed until the copy is done: the next call waits for it.
    let copied = unsafe { queue.upload(bytes, to, at) };
    queue.synchronize()?;
    copied
}
