//! For the tests of the compiler: the code of a block in a form that other machines can run, and a
//! door for one of them to run it in place of the native code.
//!
//! ```text
//! Kernel::run ─▶ Shot fills the record ─▶ native code
//!                                      └▶ StandIn(Run)      if the worker's memory holds one
//! ```
//!
//! A [`Run`] is all that a block does for one sample: a function, its arguments, and the regions
//! of memory that the host vouches for. Whatever a stand-in does, it reads, writes and calls through
//! the run, which looks every access up in the regions: an access that native code would make
//! without a word is an error here.

#![allow(unsafe_code, reason = "accesses memory by address, after a look at the regions")]

use super::call;
use super::compile::{self, COUNT, MAKE, TABLE};
use super::emit::Spec;
use super::{CompileError, Scratch, spec};
use crate::plan::{Draws, ImagePlan};
use cranelift_codegen::ir::Function;
use fuseloop_kernels::{Numbers, RowFunction};
use fuseloop_ops::DType;
use std::cell::Cell;
use std::fmt;

/// Bytes that the host vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// What they are.
    pub name: &'static str,
    /// Where they begin.
    pub address: u64,
    /// How many they are.
    pub bytes: u64,
    /// Whether they may be written.
    pub writable: bool,
}

impl Region {
    /// The bytes of a slice, to be read.
    pub(super) fn read<T>(name: &'static str, slice: &[T]) -> Self {
        let (address, bytes) = (slice.as_ptr() as u64, size_of_val(slice) as u64);
        Self { name, address, bytes, writable: false }
    }

    /// The bytes of a slice, to be read and written.
    pub(super) fn write<T>(name: &'static str, slice: &mut [T]) -> Self {
        let (address, bytes) = (slice.as_mut_ptr() as u64, size_of_val(slice) as u64);
        Self { name, address, bytes, writable: true }
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some(offset) = address.checked_sub(self.address) else { return false };
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }
}

/// An access that no region allows, or a call of something that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// One block and one sample, ready to run.
#[derive(Debug)]
pub struct Run {
    /// The code, without instructions that only x86-64 has.
    pub function: Function,
    arguments: [u64; 3],
    regions: Vec<Region>,
    states: States,
}

/// The addresses of the states of row functions.
#[derive(Debug)]
pub(super) struct States {
    /// Of what makes rows, and the bytes of a row it makes.
    pub(super) maker: Option<(u64, u64)>,
    /// Of what counts levels.
    pub(super) levels: Option<u64>,
}

impl Run {
    /// # Safety
    ///
    /// The regions must be good for what they say, and the states must be, until the run is
    /// dropped; nothing else may use either meanwhile.
    pub(super) unsafe fn new(
        spec: Spec<'_>,
        arguments: [u64; 3],
        regions: Vec<Region>,
        states: States,
    ) -> Self {
        Self { function: compile::ir(spec, false), arguments, regions, states }
    }

    /// The function's arguments: records, their number, constants.
    #[must_use]
    pub fn arguments(&self) -> [u64; 3] {
        self.arguments
    }

    /// What the host vouches for.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Takes the last byte of a region away.
    pub fn cut(&mut self, region: usize) {
        if let Some(region) = self.regions.get_mut(region) {
            region.bytes = region.bytes.saturating_sub(1);
        }
    }

    fn checked(&self, address: u64, bytes: u64, writes: bool) -> Result<(), Refused> {
        let allows =
            |region: &&Region| region.holds(address, bytes) && (region.writable || !writes);
        if bytes == 0 || self.regions.iter().any(|region| allows(&region)) {
            return Ok(());
        }
        let verb = if writes { "written" } else { "read" };
        Err(Refused(format!("{bytes} bytes {verb} at {address:#x}, of {:x?}", self.regions)))
    }

    /// Reads bytes.
    ///
    /// # Errors
    ///
    /// If they don't lie in one region.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Refused> {
        self.checked(address, to.len() as u64, false)?;
        // SAFETY: the bytes lie in a region, which is good for reading by the contract of `new`;
        // `to` is borrowed alone, so it is apart from it.
        unsafe { std::ptr::copy(address as *const u8, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Errors
    ///
    /// If they don't lie in one region that may be written.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Refused> {
        self.checked(address, from.len() as u64, true)?;
        // SAFETY: as in `read`, of a region that is good for writing.
        unsafe { std::ptr::copy(from.as_ptr(), address as *mut u8, from.len()) };
        Ok(())
    }

    /// Calls a row function.
    ///
    /// # Errors
    ///
    /// If there is none of this name and these words, or it would touch what no region holds.
    pub fn call(&mut self, name: &str, words: &[u64]) -> Result<(), Refused> {
        match (name, words) {
            (MAKE, &[state, row, to]) => self.make_row(state, row, to),
            (COUNT, &[state, row, columns]) => self.count_levels(state, row, columns),
            (TABLE, &[state, table, _]) => self.make_table(state, table),
            (_, &[from, to, count, numbers]) => self.store_row(name, [from, to, count, numbers]),
            _ => Err(Refused(format!("a call of {name} with {} words", words.len()))),
        }
    }

    fn make_row(&mut self, state: u64, row: u64, to: u64) -> Result<(), Refused> {
        let maker = self.states.maker.filter(|(address, _)| *address == state);
        let (_, bytes) = maker.ok_or_else(|| no_state(state))?;
        self.checked(to, bytes, true)?;
        // SAFETY: the state is the host's, by the contract of `new` used by nobody else; the bytes
        // that it makes lie in a region.
        unsafe { call::make_row(state as *mut _, row as i64, to as *mut u8) };
        Ok(())
    }

    fn count_levels(&mut self, state: u64, row: u64, columns: u64) -> Result<(), Refused> {
        self.states.levels.filter(|at| *at == state).ok_or_else(|| no_state(state))?;
        self.checked(row, columns.saturating_mul(3), false)?;
        // SAFETY: as in `make_row`; the row's bytes lie in a region.
        unsafe { call::count_levels(state as *mut _, row as *const u8, columns) };
        Ok(())
    }

    fn make_table(&mut self, state: u64, table: u64) -> Result<(), Refused> {
        self.states.levels.filter(|at| *at == state).ok_or_else(|| no_state(state))?;
        // SAFETY: as in `make_row`.
        unsafe { call::make_table(state as *mut _, table, 0) };
        Ok(())
    }

    fn store_row(&mut self, name: &str, words: [u64; 4]) -> Result<(), Refused> {
        let [from, to, count, numbers] = words;
        let row = RowFunction::named(name).ok_or_else(|| Refused(format!("a call of {name}")))?;
        let mut parts = name.split('_');
        let (source, dtype) = (parts.next(), parts.next());
        let dtype = DType::ALL.into_iter().find(|known| Some(known.to_string().as_str()) == dtype);
        let element = dtype.map_or(16, DType::bytes) as u64;
        let (read, channels) = match source {
            Some("floats") => (4, 0),
            Some("plane") => (1, 1),
            _ => (1, 3),
        };
        let aligned = |address: u64, to: u64| address.is_multiple_of(to);
        if !aligned(from, read) || !aligned(to, element) || channels > 0 && !aligned(numbers, 4) {
            return Err(Refused(format!("{name} with {words:x?}: not aligned")));
        }
        self.checked(from, count.saturating_mul(read), false)?;
        self.checked(to, count.saturating_mul(element), true)?;
        self.checked(numbers, channels * size_of::<Numbers>() as u64, false)?;
        let (from_end, to_end) = (from + count * read, to + count * element);
        if from < to_end && to < from_end {
            return Err(Refused(format!("{name} with {words:x?}: in place")));
        }
        // SAFETY: the source's elements, the output's and the numbers lie in regions, aligned; the
        // output is apart from the source. `entry` is the form for this CPU.
        unsafe { row.entry()(from as *const u8, to as *mut u8, count, numbers as *const Numbers) };
        Ok(())
    }
}

fn no_state(address: u64) -> Refused {
    Refused(format!("no state lies at {address:#x}"))
}

/// What runs in place of native code.
pub type StandIn = Box<dyn FnMut(&mut Run) + Send>;

/// A place for a [`StandIn`].
#[derive(Default)]
pub(super) struct Seat(pub(super) Option<StandIn>);

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "taken" } else { "free" })
    }
}

/// A worker's memory in which `stand_in` runs every block in place of the native code. The steps of
/// ops that mix have memory of their own and run as ever.
#[must_use]
pub fn scratch_with(stand_in: StandIn) -> Scratch {
    let mut scratch = Scratch::default();
    scratch.memory.stand_in = Seat(Some(stand_in));
    scratch
}

/// The functions of the blocks of a plan, as one sample runs them, without instructions that only
/// x86-64 has.
#[must_use]
pub fn functions(plan: &ImagePlan, draws: &Draws) -> Vec<Function> {
    let (mut links, mut leaves) = (vec![], vec![]);
    let blocks = plan.blocks().iter().enumerate().map(|(index, block)| {
        plan.links(block, draws, &mut links, &mut leaves);
        compile::ir(spec(plan, index, &links), false)
    });
    blocks.collect()
}

/// The names of everything that compiled code may call.
#[must_use]
pub fn row_functions() -> Vec<&'static str> {
    compile::row_functions().map(|(name, _)| name).collect()
}

/// Whether code could call a function of this name.
///
/// # Errors
///
/// If it is none of [`row_functions`].
pub fn declare(name: &str) -> Result<(), CompileError> {
    compile::declare(name)
}

/// How code is generated. All settings give the same bits, or no code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whether Cranelift's own optimizations run.
    pub optimized: bool,
    /// Features of the CPU to do without, by Cranelift's names.
    pub without: &'static [&'static str],
}

thread_local! {
    static SETTINGS: Cell<Settings> = Cell::default();
}

/// What this thread generates code with.
pub(super) fn settings() -> Settings {
    SETTINGS.get()
}

/// Runs `work`, whose code is generated with other settings if this thread generates it.
pub fn with_settings<T>(settings: Settings, work: impl FnOnce() -> T) -> T {
    let before = SETTINGS.replace(settings);
    let result = work();
    SETTINGS.set(before);
    result
}
