//! A GPU that reads PTX: one thread after another, every access checked.
//!
//! ```text
//! text ──parse──▶ Program: entries of decoded instructions ──run(grid, arguments, memory)──▶ bytes
//! ```
//!
//! It covers what NVRTC makes of kernels in the words of `fuseloop.cuh`, and refuses the rest by
//! name when it parses: instructions, roundings, `.ftz`, `.sat`, `.approx`, and arithmetic without
//! a rounding, which an assembler may fuse.
//!
//! | of PTX               | here                                                              |
//! |----------------------|-------------------------------------------------------------------|
//! | `.global`            | memory that was lent: else the access is illegal                  |
//! | `.param`, `.local`   | windows of addresses that nothing else has                        |
//! | registers            | 64 bits each; an instruction looks at as many as its type has     |
//! | `%tid`, `%ctaid`, .. | as on a GPU; blocks and threads come in order                     |
//! | results that are NaN | 0x7fffffff of f32, 0x7fff of f16, as a GPU has it                 |
//! | `atom`, `red`        | plain: there is one thread at a time                              |
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
    /// Bytes of all parameters.
    param_bytes: usize,
    local_bytes: usize,
    registers: usize,
    /// The most threads that it takes in a block.
    most_threads: Option<u32>,
    instructions: Vec<Instruction>,
}

/// A kernel's parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Where it begins among the parameters.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

#[derive(Debug)]
struct Instruction {
    /// Runs only if the register is so.
    guard: Option<(Register, bool)>,
    op: Op,
    line: usize,
    text: String,
}

/// What a kernel must not do, with the instruction and the thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// An access to what it was not lent.
    Illegal(String),
    /// An access to an address that is no multiple of its size.
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
    /// Reads a module.
    ///
    /// # Errors
    ///
    /// If it has anything that is not covered: the line, and what it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (version, target) = heading(text)?;
        Ok(Self { version, target, entries: parse::entries(text)? })
    }

    /// `.version`.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The digits of `.target`.
    #[must_use]
    pub fn target(&self) -> u32 {
        self.target
    }

    /// The kernel of that name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

impl Entry {
    /// Its parameters.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }
}

/// `.version` and `.target` of a module.
///
/// # Errors
///
/// If it has none.
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

/// Addresses of parameters, and of a thread's own memory: no memory of a process is there.
const PARAMS: Range<u64> = 0x6000_0000_0000_0000..0x6000_0001_0000_0000;
const LOCALS: Range<u64> = 0x7000_0000_0000_0000..0x7000_0001_0000_0000;
