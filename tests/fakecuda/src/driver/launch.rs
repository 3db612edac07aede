//! One launch of a kernel, on a stream's thread.
//!
//! The interpreter checks every access. A host build cannot be checked that way: before it runs,
//! the words of its arguments are compared with the addresses of freed memory and of other devices;
//! after it has run, the ends of all allocations are checked. Guard pages catch accesses in
//! between. Threads run forwards and backwards in turns, so that nothing can depend on their order.

use super::code::Code;
use super::module::{Entry, Function};
use super::{driver, linger};
use crate::host_build::HostEntry;
use crate::ptx::{Fault, Grid, Memory};
use std::sync::Arc;

/// The parameters of a launch.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) function: Arc<Function>,
    pub(crate) grid: Grid,
    pub(crate) arguments: Vec<Vec<u8>>,
    /// The number of this launch, counted from the seed on.
    pub(crate) number: u64,
}

type Outcome = Result<(), (Code, String)>;

impl Launch {
    /// Returns true if a device supports this grid.
    pub(crate) fn fits(grid: &Grid, shared: u32) -> bool {
        let [bx, by, bz] = grid.block;
        let threads = u64::from(bx) * u64::from(by) * u64::from(bz);
        let [gx, gy, gz] = grid.blocks;
        let blocks = (1..=0x7fff_ffff).contains(&gx)
            && (1..=0xffff).contains(&gy)
            && (1..=0xffff).contains(&gz);
        blocks && (1..=1024).contains(&threads) && bz <= 64 && shared <= 48 << 10
    }

    pub(crate) fn run(&self) -> Outcome {
        linger("kernel");
        let device = self.function.module.device;
        let mappings = driver().world().mappings(device);
        match &self.function.entry {
            Entry::Ptx { name, .. } => {
                let mut memory = Memory::default();
                for mapping in &mappings {
                    memory.lend_mapping(mapping);
                }
                self.interpret(name, &memory)?;
            }
            Entry::Host(entry) => {
                self.check_words(device)?;
                self.run_on_host(entry)?;
            }
        }
        if mappings.iter().any(|mapping| mapping.overrun()) {
            return Err((Code::ILLEGAL_ADDRESS, "a kernel wrote behind an allocation".to_owned()));
        }
        Ok(())
    }

    fn interpret(&self, name: &str, memory: &Memory<'_>) -> Outcome {
        let Some(program) = self.function.module.program() else { return Ok(()) };
        let arguments: Vec<&[u8]> = self.arguments.iter().map(Vec::as_slice).collect();
        let outcome = program.run(name, self.grid, &arguments, memory);
        outcome.map(|_| ()).map_err(|fault| {
            let code = match fault {
                Fault::Illegal(_) => Code::ILLEGAL_ADDRESS,
                Fault::Misaligned(_) => Code::MISALIGNED_ADDRESS,
                Fault::Other(_) => Code::LAUNCH_FAILED,
            };
            (code, format!("kernel {name}: {fault}"))
        })
    }

    fn check_words(&self, device: usize) -> Outcome {
        let world = driver().world();
        let words = self.arguments.iter().flat_map(|argument| argument.chunks_exact(8));
        for word in words.filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes) {
            if world.is_out_of_bounds(device, word) {
                let text = format!("a kernel got {word:#x}: freed, or of another device");
                return Err((Code::ILLEGAL_ADDRESS, text));
            }
        }
        Ok(())
    }

    fn run_on_host(&self, entry: &HostEntry) -> Outcome {
        let [rows, parts, _] = self.grid.blocks;
        let arguments = self.arguments.first().map_or(&[][..], Vec::as_slice);
        let backwards = self.number % 2 == 1;
        match entry.run(arguments, [rows, parts], self.grid.block[0], backwards) {
            0 => Ok(()),
            n => Err((Code::MISALIGNED_ADDRESS, format!("{n} accesses of a kernel not aligned"))),
        }
    }
}
