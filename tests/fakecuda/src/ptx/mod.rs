//! A GPU that interprets PTX: one thread after another, every access checked.
//!
//! ```text
//! text ──parse──▶ Program: entries of decoded instructions ──run(grid, arguments, memory)──▶ bytes
//! ```
//!
//! It covers the PTX that NVRTC generates for kernels that use the helpers of `fuseloop.cuh`, and
//! refuses the rest by name when it parses: instructions, roundings, `.ftz`, `.sat`, `.approx`, and
//! arithmetic without a rounding, which an assembler may fuse.
//!
//! | PTX                  | interpreter                                                       |
//! |----------------------|-------------------------------------------------------------------|
//! | `.global`            | memory granted to the kernel: other accesses are illegal          |
//! | `.param`, `.local`   | ranges of addresses that nothing else uses                        |
//! | registers            | 64 bits each; an instruction reads as many as its type has        |
//! | `%tid`, `%ctaid`, .. | as on a GPU; blocks and threads run in order                      |
//! | results that are NaN | 0x7fffffff for f32, 0x7fff for f16, as on a GPU                   |
//! | `atom`, `red`        | not atomic: only one thread runs at a time                        |
//! | barriers, `.shared`  | refused                                                           |

mod convert;
mod decode;
mod float;
mod integer;
mod memory;
mod parse;
mod run;
mod types;

pub use memory::Memory;
pub use run::Grid;
use std::fmt;
use std::ops::Range;
use types::{Op, Register};

/// A module in PTX.
#[derive(Debug)]
pub struct Program {
    version: (u32, u32),
    target: u32,
    entries: Vec<Entry>,
}

/// One kernel of a module.
#[derive(Debug)]
pub struct Entry {
    name: String,
    params: Vec<Param>,
    /// The size of all parameters in bytes.
    param_bytes: usize,
    local_bytes: usize,
    registers: usize,
    /// The largest number of threads per block.
    most_threads: Option<u32>,
    instructions: Vec<Instruction>,
}

/// A kernel's parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// The parameter's name.
    pub name: String,
    /// The offset among the parameters.
    pub offset: usize,
    /// The size in bytes.
    pub size: usize,
}

#[derive(Debug)]
struct Instruction {
    /// The instruction runs only if this register has this value.
    guard: Option<(Register, bool)>,
    op: Op,
    line: usize,
    text: String,
}

/// A forbidden action of a kernel, with the instruction and the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An access to memory that was not granted to the kernel.
    Illegal(String),
    /// An access to an address that is not a multiple of the access size.
    Misaligned(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Illegal(text) => write!(f, "illegal {text}"),
            Self::Misaligned(text) => write!(f, "misaligned {text}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl Program {
    /// Parses a module.
    ///
    /// # Errors
    ///
    /// If the module contains anything that is not covered: the line, and what it contains.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (version, target) = heading(text)?;
        Ok(Self { version, target, entries: parse::entries(text)? })
    }

    /// Returns the numbers of `.version`.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the digits of `.target`.
    #[must_use]
    pub fn target(&self) -> u32 {
        self.target
    }

    /// Returns the kernel of that name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

impl Entry {
    /// Returns the kernel's parameters.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }
}

/// Returns `.version` and `.target` of a module.
///
/// # Errors
///
/// If one of them is missing.
pub fn heading(text: &str) -> Result<((u32, u32), u32), String> {
    let word = |name: &str| {
        let found = text.lines().find_map(|line| line.trim().strip_prefix(name));
        found.map(str::trim).ok_or_else(|| format!("line 1; missing {name} directive"))
    };
    let version = word(".version")?.split_once('.');
    let numbers = version.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let target = word(".target")?.trim_start_matches("sm_");
    let digits = target.chars().take_while(char::is_ascii_digit).collect::<String>().parse();
    Ok((numbers.ok_or("a .version that is none")?, digits.map_err(|_| "a .target that is none")?))
}

/// Addresses of parameters, and of a thread's local memory: no process has memory there.
const PARAMS: Range<u64> = 0x6000_0000_0000_0000..0x6000_0001_0000_0000;
const LOCALS: Range<u64> = 0x7000_0000_0000_0000..0x7000_0001_0000_0000;
