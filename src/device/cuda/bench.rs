//! For tests and benchmarks: a [`Trial`]'s batch on a real GPU, checked and timed.
//!
//! | | what it does | time |
//! |---|---|---|
//! | [`Bench::upload`], [`Bench::copy`] | bytes to the device, and inside it: the yardsticks | of the device |
//! | [`Resident`] | a batch that lies there already: kernels alone | of the device |
//! | [`Bench::pipelined`] | batches one after the other through a `Lane`, as loaders send them | of this thread |
//! | [`Bench::loads`] | code of a program: compiled, loaded | of this thread |
//!
//! A resident batch is checked with bytes of another value in its tensors and around them, so that
//! what a kernel leaves out, or writes where it should not, is seen.

#![allow(unsafe_code, reason = "copies and kernels that run later")]

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use memmap2::MmapMut;

use super::clock::{Clock, HostMemory, copy_across};
use super::gpu::Gpu;
use super::handles::{Memory, PageLock, Queue};
use super::kernels::{self, Kernels};
use super::lane::Lane;
use super::module::Module;
use super::nvrtc::Nvrtc;
use crate::batch::{Batch, BatchSpec, Pool, Rows, TensorSpec};
use crate::device::check::{Failure, Trial};
use crate::device::program::{Addresses, Program, Tensor};
use crate::device::{DeviceError, DeviceStats, GpuInfo, Stream};
use crate::sample::{Epoch, SampleId, Visit};

/// What kernels may read behind what is staged, and what lies around tensors that are checked.
const AROUND: usize = 256;
/// The value of the bytes around tensors.
const GUARD: u8 = 0xC7;
/// The value of the bytes that kernels have to write.
const POISON: u8 = 0xA5;
/// Batches of a pipeline that nobody has let go of yet.
const IN_FLIGHT: usize = 3;

/// Where bytes lie that are copied to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// As the system gives them.
    Pageable,
    /// The same, locked after: as the slots of batches are.
    Registered,
    /// Made and locked by the driver.
    Allocated,
}

/// Milliseconds until a program's code is there; `None` where there is no compiler, or no such
/// code is shipped.
#[derive(Debug, Clone, Copy, Default)]
pub struct Loads {
    /// NVRTC, from the text to a CUBIN, or to PTX where it is older than the GPU.
    pub compile: Option<f64>,
    /// Loading that.
    pub compiled: Option<f64>,
    /// Loading what is shipped: the driver compiles it.
    pub shipped: Option<f64>,
}

/// A GPU for benchmarks.
pub struct Bench {
    gpu: Arc<Gpu>,
    queue: Queue,
    clock: Clock,
}

impl Bench {
    /// Opens a GPU.
    ///
    /// # Errors
    ///
    /// As [`Gpu::open`].
    pub fn open(ordinal: u32) -> Result<Self, DeviceError> {
        let gpu = Gpu::open(ordinal)?;
        let (queue, clock) = (Queue::new(&gpu.context)?, Clock::new(&gpu.context)?);
        Ok(Self { gpu, queue, clock })
    }

    /// What is known of the GPU.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        self.gpu.info()
    }

    /// Milliseconds that one of `times` copies of `bytes` to the device takes.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn upload(&self, pages: Pages, bytes: usize, times: usize) -> Result<f64, DeviceError> {
        let context = &self.gpu.context;
        let to = Memory::new(context, bytes, "a copy")?;
        let copy = |from: &[u8]| {
            // SAFETY: `from` outlives this, which waits for the last copy, and nobody writes to it.
            self.timed(times, |_| unsafe { self.queue.upload(from, &to, 0) })
        };
        if pages == Pages::Allocated {
            return copy(HostMemory::new(context, bytes)?.bytes());
        }
        let none = |_| DeviceError::NoMemory { bytes: bytes as u64, what: "pages of the host" };
        let mut memory = MmapMut::map_anon(bytes).map_err(none)?;
        memory.fill(1); // So that there are pages.
        let locked = (pages == Pages::Registered)
            // SAFETY: a mapping of its own, which is dropped after the lock.
            .then(|| unsafe { PageLock::new(context, &memory) })
            .transpose()?;
        let millis = copy(&memory);
        drop(locked);
        millis
    }

    /// Milliseconds that one of `times` copies of `bytes` inside the device takes.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn copy(&self, bytes: usize, times: usize) -> Result<f64, DeviceError> {
        let new = || Memory::new(&self.gpu.context, bytes, "a copy");
        let (from, to) = (new()?, new()?);
        self.queue.zero(&from, 0, bytes)?;
        self.timed(times, |_| copy_across(&self.queue, &from, &to, bytes))
    }

    /// Milliseconds of one `each`, of which there are `times` in a row, and one before.
    fn timed(
        &self,
        times: usize,
        mut each: impl FnMut(usize) -> Result<(), DeviceError>,
    ) -> Result<f64, DeviceError> {
        let times = times.max(1);
        let asked = each(0).and_then(|()| {
            self.clock.begin(&self.queue)?;
            (1..=times).try_for_each(&mut each)?;
            self.clock.end(&self.queue)
        });
        // An error too leaves nothing under way: what is copied may be freed after.
        let waited = self.queue.synchronize();
        asked.and(waited)?;
        Ok(self.clock.millis()? / times as f64)
    }

    /// How long it takes until the code of a trial's kernels is there.
    ///
    /// # Errors
    ///
    /// If the driver refuses it.
    pub fn loads(&self, trial: &Trial) -> Result<Loads, DeviceError> {
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

    fn load(&self, image: &[u8]) -> Result<f64, DeviceError> {
        let began = Instant::now();
        Module::load(&self.gpu.context, image)?;
        Ok(millis(began))
    }

    /// Milliseconds of one of `batches` that go the way of a loader's, three of them under way,
    /// each handed to the default stream; and what the lane has counted. The last is compared.
    ///
    /// # Errors
    ///
    /// If the driver fails, or a tensor is not what it should be.
    pub fn pipelined(&self, trial: &Trial, batches: u32) -> Result<(f64, DeviceStats), Failure> {
        let port = Port::new(&self.gpu, trial)?;
        let mut held = VecDeque::new();
        for number in 0..2 * IN_FLIGHT as u32 {
            port.turn(number, Some(trial), &mut held)?;
        }
        self.gpu.context.synchronize().map_err(failed)?;
        let began = Instant::now();
        for number in 0..batches {
            port.turn(number, None, &mut held)?;
        }
        self.gpu.context.synchronize().map_err(failed)?;
        let each = millis(began) / f64::from(batches.max(1));
        let last = held.back().ok_or_else(|| failed("no batch"))?;
        for (tensor, name) in port.names.iter().enumerate() {
            trial.compare(tensor, &last.to_host(name).map_err(failed)?)?;
        }
        Ok((each, port.lane.stats()))
    }
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` gives it")]
fn failed(error: impl ToString) -> Failure {
    Failure::Launch(error.to_string())
}

/// A lane, and the host's slots before it.
struct Port {
    lane: Arc<Lane>,
    pool: Arc<Pool>,
    names: Vec<String>,
    rows: usize,
}

impl Port {
    fn new(gpu: &Arc<Gpu>, trial: &Trial) -> Result<Self, Failure> {
        let (program, rows) = (trial.program().clone(), trial.rows());
        let names: Vec<_> = (0..program.tensors.len()).map(|k| k.to_string()).collect();
        let tensor = |(tensor, name): (&Tensor, &String)| TensorSpec {
            rows: Rows::Device { staged: tensor.staged },
            ..TensorSpec::new(name, tensor.dtype, tensor.shape.clone())
        };
        let tensors: Vec<_> = program.tensors.iter().zip(&names).map(tensor).collect();
        let most = NonZeroUsize::new(rows).ok_or_else(|| failed("no rows"))?;
        let spec = Arc::new(BatchSpec::new(&tensors, most).map_err(failed)?);
        let lane = Lane::new(gpu, program, rows, IN_FLIGHT + 1).map_err(failed)?;
        let pool = Arc::new(Pool::new(spec, None, IN_FLIGHT + 1, Box::new(|| {})));
        Ok(Self { lane, pool, names, rows })
    }

    /// Sends a batch, and lets go of the oldest that is held. Without a trial its rows are what a
    /// batch before left in its slot.
    fn turn(
        &self,
        number: u32,
        filled: Option<&Trial>,
        held: &mut VecDeque<Batch>,
    ) -> Result<(), Failure> {
        if held.len() == IN_FLIGHT {
            held.pop_front();
        }
        let lease = self.pool.take().ok_or_else(|| failed("no slot"))?;
        let mut slot = self.pool.redeem(lease).map_err(failed)?;
        slot.visits_mut().extend((0..self.rows as u64).map(|id| Visit::once(SampleId(id))));
        let mut rows = slot.rows_mut();
        for (k, staged) in filled.into_iter().flat_map(|trial| trial.staged().enumerate()) {
            rows.output(k).copy_from_slice(staged);
        }
        let outputs: Vec<usize> = (0..self.names.len()).collect();
        let sent = self.lane.submit(&mut rows, &outputs);
        let batch = Batch::new(slot, &self.pool, Epoch(0), number.into());
        sent.map_err(failed)?;
        for name in &self.names {
            batch.device_ptr(name, Stream::Legacy).map_err(failed)?;
        }
        held.push_back(batch);
        Ok(())
    }
}

/// A trial's batch on the device, several times over, so that what is timed finds nothing in caches.
pub struct Resident<'a> {
    bench: &'a Bench,
    trial: &'a Trial,
    kernels: Kernels,
    sets: Vec<Set>,
    scratch: Memory,
}

/// What kernels read, and what they write.
struct Set {
    staged: Vec<Memory>,
    made: Vec<Memory>,
}

impl<'a> Resident<'a> {
    /// Brings the batch there, `copies` times.
    ///
    /// # Errors
    ///
    /// If the device has no memory for that, or no code for the kernels.
    pub fn new(bench: &'a Bench, trial: &'a Trial, copies: usize) -> Result<Self, DeviceError> {
        let scratch = (trial.program().scratch * trial.rows()).max(1);
        Ok(Self {
            kernels: kernels::load(&bench.gpu, trial.program())?,
            sets: (0..copies.max(1)).map(|_| Set::new(bench, trial)).collect::<Result<_, _>>()?,
            scratch: Memory::new(&bench.gpu.context, scratch, "scratch")?,
            bench,
            trial,
        })
    }

    /// Runs the kernels once and compares all that they made, and what lies around it.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub fn check(&self) -> Result<(), Failure> {
        self.sets[0].poison(&self.bench.queue).map_err(failed)?;
        self.run(0).map_err(failed)?;
        for (tensor, made) in self.sets[0].made.iter().enumerate() {
            let mut bytes = vec![0; made.bytes()];
            self.bench.queue.download(made, 0, &mut bytes).map_err(failed)?;
            let (before, rest) = bytes.split_at(AROUND);
            let (own, after) = rest.split_at(rest.len() - AROUND);
            if before.iter().chain(after).any(|byte| *byte != GUARD) {
                return Err(Failure::Outside(tensor));
            }
            self.trial.compare(tensor, own)?;
        }
        Ok(())
    }

    /// Milliseconds of the kernels of one batch, of which there are `times` in a row.
    ///
    /// # Errors
    ///
    /// If the driver fails.
    pub fn time(&self, times: usize) -> Result<f64, DeviceError> {
        self.bench.timed(times, |turn| self.run(turn))
    }

    /// Asks for the kernels of one batch.
    fn run(&self, turn: usize) -> Result<(), DeviceError> {
        let (queue, program, rows) = (&self.bench.queue, self.trial.program(), self.trial.rows());
        if program.scratch > 0 {
            queue.zero(&self.scratch, 0, program.scratch * rows)?;
        }
        let set = &self.sets[turn % self.sets.len()];
        let staged: Vec<u64> = set.staged.iter().map(Memory::address).collect();
        let tensors: Vec<u64> = set.made.iter().map(|m| m.address() + AROUND as u64).collect();
        let scratch = self.scratch.address();
        let at = Addresses { rows: rows as u32, staged: &staged, tensors: &tensors, scratch };
        let arguments = program.arguments(&at);
        for (function, parts) in &self.kernels.functions {
            let grid = (rows as u32, *parts);
            // SAFETY: the program's kernels take its arguments, and read and write the rows of its
            // tensors, the scratch, and no more than `AROUND` behind what is staged. All of that
            // is freed by drops that wait.
            unsafe { queue.launch(function, grid, Program::THREADS, &arguments) }?;
        }
        Ok(())
    }
}

impl Set {
    fn new(bench: &Bench, trial: &Trial) -> Result<Self, DeviceError> {
        let context = &bench.gpu.context;
        let staged = trial.staged().map(|bytes| {
            let memory = Memory::new(context, bytes.len() + AROUND, "staged rows")?;
            put(&bench.queue, bytes, &memory, 0)?;
            bench.queue.zero(&memory, bytes.len(), AROUND)?;
            Ok(memory)
        });
        let made = trial.program().tensors.iter().map(|tensor| {
            Memory::new(context, trial.rows() * tensor.row_bytes() + 2 * AROUND, "a tensor")
        });
        let set = Self {
            staged: staged.collect::<Result<_, _>>()?,
            made: made.collect::<Result<_, _>>()?,
        };
        bench.queue.synchronize()?;
        Ok(set)
    }

    /// Fills the tensors with bytes that no kernel leaves, and what is around them with others.
    fn poison(&self, queue: &Queue) -> Result<(), DeviceError> {
        for made in &self.made {
            let mut bytes = vec![GUARD; made.bytes()];
            bytes[AROUND..made.bytes() - AROUND].fill(POISON);
            put(queue, &bytes, made, 0)?;
        }
        Ok(())
    }
}

/// Copies `bytes` to the device, and waits for it.
fn put(queue: &Queue, bytes: &[u8], to: &Memory, at: usize) -> Result<(), DeviceError> {
    // SAFETY: `bytes` is borrowed until the copy is done: the next call waits for it.
    let copied = unsafe { queue.upload(bytes, to, at) };
    queue.synchronize()?;
    copied
}
