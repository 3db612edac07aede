//! For tests of the compiler: the code of a block in a form that interpreters can run, and a run of a kernel
//! with a hook in place of the native code.
//!
//! ```text
//! Kernel::run ─▶ Invocation fills a ParamBlocks ─▶ Native: the native code
//! run_with    ─▶ Invocation fills a ParamBlocks ─▶ Hooked: the hook, with a BlockRun
//! ```
//!
//! A [`BlockRun`] is one run of a block for one or several samples: a function, its arguments, and the memory
//! regions that the host vouches for. A hook reads, writes and calls only through the run, which checks
//! every access against the regions: an access that native code would make silently is an error here.

#![allow(unsafe_code, reason = "accesses memory by address, after a look at the regions")]

pub use super::VectorBits;
use super::body::{self, COUNT, MAKE, TABLE};
pub use super::call::MemoryRegion;
use super::call::{self, BodyCall, BodyRunner, States};
use super::compile;
use super::emit::{BodySpec, Constants, Target};
pub use super::settings::{CodegenSettings, with_settings};
use super::{DecodedPixels, Kernel, Scratch, avx, spec, vector_bits};
use crate::error::Error;
use crate::plan::{Draws, ImagePlan};
use cranelift_codegen::ir::Function;
use fuseloop_kernels::{Numbers, RowFunction};
use fuseloop_ops::DType;
use fuseloop_ops::internals::DTYPES;
use std::cell::RefCell;

impl MemoryRegion {
    fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some(offset) = address.checked_sub(self.address) else { return false };
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }
}

/// An access that no region allows, or a call of an unknown function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAccess(pub String);

/// One block and its samples, ready to run.
#[derive(Debug)]
pub struct BlockRun {
    /// The code, without instructions that only x86-64 has.
    pub function: Function,
    /// The machine code of the loop of each pass, if it has wider vectors. The function calls it by the name
    /// `row_loop_` and the number of the pass.
    pub row_loops: Vec<Option<Vec<u8>>>,
    arguments: [u64; 3],
    regions: Vec<MemoryRegion>,
    states: States,
}

impl BlockRun {
    /// # Safety
    ///
    /// Until the run is dropped, the regions must be valid for the accesses they allow and the states
    /// must be valid; nothing else may use either meanwhile.
    unsafe fn new(call: BodyCall<'_>) -> Self {
        let BodyCall { plan, block, links, compiled, records, regions, states } = call;
        let spec = BodySpec::new(plan.flat_ops(), block, links, plan.rule(), compiled.bits);
        let row_loops = avx::row_loops(spec, &mut Constants::default()).into_iter();
        let row_loops = row_loops.map(|row_loop| Some(row_loop.ok()??.code())).collect();
        let (first, count) = (records.as_mut_ptr() as u64, records.count());
        let arguments = [first, count, compiled.constants.as_ptr() as u64];
        let function = compile::ir(spec, Target::PORTABLE);
        Self { function, row_loops, arguments, regions, states }
    }

    /// The function's arguments: parameter blocks, their number, constants.
    #[must_use]
    pub fn arguments(&self) -> [u64; 3] {
        self.arguments
    }

    /// The memory regions that the host vouches for.
    #[must_use]
    pub fn regions(&self) -> &[MemoryRegion] {
        &self.regions
    }

    /// Shrinks a region by its last byte.
    pub fn cut(&mut self, region: usize) {
        if let Some(region) = self.regions.get_mut(region) {
            region.bytes = region.bytes.saturating_sub(1);
        }
    }

    fn checked(&self, address: u64, bytes: u64, writes: bool) -> Result<(), RefusedAccess> {
        let allows =
            |region: &&MemoryRegion| region.holds(address, bytes) && (region.writable || !writes);
        if bytes == 0 || self.regions.iter().any(|region| allows(&region)) {
            return Ok(());
        }
        let verb = if writes { "written" } else { "read" };
        Err(RefusedAccess(format!("{bytes} bytes {verb} at {address:#x}, of {:x?}", self.regions)))
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// If the bytes are not all inside one region.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), RefusedAccess> {
        self.checked(address, to.len() as u64, false)?;
        // SAFETY: the bytes are inside a region, which is valid for reading by the contract of `new`;
        // `to` is borrowed exclusively, so it does not overlap the region.
        unsafe { std::ptr::copy(address as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Errors
    ///
    /// If the bytes are not all inside one writable region.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), RefusedAccess> {
        self.checked(address, from.len() as u64, true)?;
        // SAFETY: as in `read`, for a region that is valid for writing.
        unsafe { std::ptr::copy(from.as_ptr(), address as *mut u8, from.len()) };
        Ok(())
    }

    /// Calls a row function.
    ///
    /// # Errors
    ///
    /// If no row function has this name and this number of arguments, or the call would access memory
    /// outside the regions.
    pub fn call(&mut self, name: &str, words: &[u64]) -> Result<(), RefusedAccess> {
        match (name, words) {
            (MAKE, &[state, row, to]) => self.make_row(state, row, to),
            (COUNT, &[state, row, columns]) => self.count_levels(state, row, columns),
            (TABLE, &[state, table, _]) => self.make_table(state, table),
            (_, &[from, to, count, numbers]) => self.store_row(name, [from, to, count, numbers]),
            _ => Err(RefusedAccess(format!("a call of {name} with {} words", words.len()))),
        }
    }

    fn make_row(&mut self, state: u64, row: u64, to: u64) -> Result<(), RefusedAccess> {
        let maker = self.states.maker.filter(|(address, _)| *address == state);
        let (_, bytes) = maker.ok_or_else(|| no_state(state))?;
        self.checked(to, bytes, true)?;
        // SAFETY: by the contract of `new` the state is the host's and nothing else uses it; the bytes
        // that the function writes are inside a region.
        unsafe { call::make_row(state as *mut _, row as i64, to as *mut u8) };
        Ok(())
    }

    fn count_levels(&mut self, state: u64, row: u64, columns: u64) -> Result<(), RefusedAccess> {
        self.states.levels.filter(|at| *at == state).ok_or_else(|| no_state(state))?;
        // SAFETY: by the contract of `new` the state is the host's and nothing else uses it.
        let channels = unsafe { (*(state as *const call::LevelsState<'_>)).channels() };
        self.checked(row, columns.saturating_mul(channels as u64), false)?;
        // SAFETY: as in `make_row`; the row's bytes are inside a region.
        unsafe { call::count_levels(state as *mut _, row as *const u8, columns) };
        Ok(())
    }

    fn make_table(&mut self, state: u64, table: u64) -> Result<(), RefusedAccess> {
        self.states.levels.filter(|at| *at == state).ok_or_else(|| no_state(state))?;
        // SAFETY: as in `make_row`.
        unsafe { call::make_table(state as *mut _, table, 0) };
        Ok(())
    }

    fn store_row(&mut self, name: &str, words: [u64; 4]) -> Result<(), RefusedAccess> {
        let [from, to, count, numbers] = words;
        let row =
            RowFunction::named(name).ok_or_else(|| RefusedAccess(format!("a call of {name}")))?;
        let mut parts = name.split('_');
        let (source, dtype) = (parts.next(), parts.next());
        let dtype = DTYPES.into_iter().find(|known| Some(known.to_string().as_str()) == dtype);
        let element = dtype.map_or(16, DType::bytes) as u64;
        let (read, channels) = match source {
            Some("floats") => (4, 0),
            Some("plane") => (1, 1),
            _ => (1, 3),
        };
        let aligned = |address: u64, to: u64| address.is_multiple_of(to);
        if !aligned(from, read) || !aligned(to, element) || channels > 0 && !aligned(numbers, 4) {
            return Err(RefusedAccess(format!("{name} with {words:x?}: not aligned")));
        }
        self.checked(from, count.saturating_mul(read), false)?;
        self.checked(to, count.saturating_mul(element), true)?;
        self.checked(numbers, channels * size_of::<Numbers>() as u64, false)?;
        let (from_end, to_end) = (from + count * read, to + count * element);
        if from < to_end && to < from_end {
            return Err(RefusedAccess(format!("{name} with {words:x?}: in place")));
        }
        // SAFETY: the source's elements, the output's and the numbers are inside regions and aligned;
        // the output does not overlap the source. `entry` is the function for this CPU.
        unsafe { row.entry()(from as *const u8, to as *mut u8, count, numbers as *const Numbers) };
        Ok(())
    }
}

fn no_state(address: u64) -> RefusedAccess {
    RefusedAccess(format!("no state lies at {address:#x}"))
}

/// Runs a hook in place of native code.
struct Hooked<'h>(RefCell<&'h mut dyn FnMut(&mut BlockRun)>);

impl BodyRunner for Hooked<'_> {
    const NEEDS_REGIONS: bool = true;

    unsafe fn run(&self, call: BodyCall<'_>) {
        // SAFETY: the caller's promise; the run is dropped before the call returns.
        let mut run = unsafe { BlockRun::new(call) };
        (self.0.borrow_mut())(&mut run);
    }
}

/// Computes one sample's output like [`Kernel::run`], but `hook` runs every block in place of the native
/// code, those of the chains of mixing ops included.
///
/// # Errors
///
/// If an op returns an error, or the system has no memory for the images between the ops.
///
/// # Panics
///
/// See [`Kernel::run`].
pub fn run_with(
    kernel: &Kernel,
    source: DecodedPixels<'_>,
    draws: &Draws,
    out: &mut [u8],
    hook: &mut dyn FnMut(&mut BlockRun),
) -> Result<(), Error> {
    kernel.run_by(&Hooked(RefCell::new(hook)), &mut Scratch::default(), source, draws, out.into())
}

/// Like [`run_with`], for the samples of a chunk, whose loops run by as few calls as they can. Each sample has its
/// draws, its pixels and its row.
///
/// # Errors
///
/// See [`run_with`].
///
/// # Panics
///
/// See [`run_with`].
pub fn run_chunk_with<'a>(
    kernel: &Kernel,
    samples: impl Iterator<Item = (&'a Draws, DecodedPixels<'a>, &'a mut [u8])>,
    hook: &mut dyn FnMut(&mut BlockRun),
) -> Result<(), Error> {
    let (hooked, mut scratch) = (Hooked(RefCell::new(hook)), Scratch::default());
    let mut run = kernel.run_chunk(&mut scratch);
    for (draws, source, out) in samples {
        run.add_by(&hooked, source, draws, out)?;
    }
    run.end_by(&hooked);
    Ok(())
}

/// Returns the functions of a plan's blocks, as one sample runs them, without instructions that only
/// x86-64 has.
#[must_use]
pub fn functions(plan: &ImagePlan, draws: &Draws) -> Vec<Function> {
    let (mut links, mut leaves) = (vec![], vec![]);
    let blocks = plan.blocks().iter().enumerate().map(|(index, block)| {
        plan.fused_ops(block, draws, &mut links, &mut leaves);
        compile::ir(spec(plan, index, &links, VectorBits::V128), Target::PORTABLE)
    });
    blocks.collect()
}

/// Returns the names of all functions that compiled code may call.
#[must_use]
pub fn row_functions() -> Vec<&'static str> {
    body::row_functions().map(|(name, _)| name).collect()
}

/// Checks that compiled code may call a function of this name.
///
/// # Errors
///
/// If `name` is not one of [`row_functions`].
pub fn declare(name: &str) -> Result<(), Error> {
    compile::declare(name)
}

/// Returns the widest vectors of this CPU.
#[must_use]
pub fn widest_vectors() -> VectorBits {
    vector_bits::widest()
}
