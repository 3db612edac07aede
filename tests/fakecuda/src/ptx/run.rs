//! A launch: all blocks and all threads, one after another.

use super::types::{MemoryOperand, Op, Operand, Register, Space, Type};
use super::{Entry, Fault, Instruction, LOCALS, Memory, PARAMS, Program};

/// The number of blocks, and of threads per block, along x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
}

/// The limit of instructions per thread: a thread that exceeds it is assumed not to end.
const MOST: u64 = 20_000_000;

impl Program {
    /// Runs a kernel, and returns the number of instructions executed.
    ///
    /// # Errors
    ///
    /// The first [`Fault`]. Writes before the fault remain.
    pub fn run(
        &self,
        name: &str,
        grid: Grid,
        arguments: &[&[u8]],
        memory: &Memory<'_>,
    ) -> Result<u64, Fault> {
        let entry = self.entry(name).ok_or_else(|| Fault::Other(format!("no entry {name}")))?;
        let threads: u32 = grid.block.iter().product();
        if entry.most_threads.is_some_and(|most| threads > most) {
            return Err(Fault::Other(format!("{threads} threads in a block")));
        }
        let params = entry.lay_out(arguments)?;
        let mut thread = Thread {
            registers: vec![0; entry.registers],
            local: vec![0; entry.local_bytes],
            special: [0; 12],
            params: &params,
            memory,
        };
        let mut steps = 0;
        for block in 0..grid.blocks.iter().product() {
            for number in 0..threads {
                thread.begin(number, block, grid);
                steps += thread.run(&entry.instructions)?;
            }
        }
        Ok(steps)
    }
}

impl Entry {
    /// Returns the arguments, each at its parameter's offset.
    fn lay_out(&self, arguments: &[&[u8]]) -> Result<Vec<u8>, Fault> {
        let fits = |(param, argument): (&super::Param, &&[u8])| param.size == argument.len();
        let count = arguments.len() == self.params.len();
        if !count || !self.params.iter().zip(arguments).all(fits) {
            let given: Vec<usize> = arguments.iter().map(|argument| argument.len()).collect();
            return Err(Fault::Other(format!("arguments of {given:?} bytes: {:?}", self.params)));
        }
        let mut bytes = vec![0; self.param_bytes];
        for (param, argument) in self.params.iter().zip(arguments) {
            bytes[param.offset..][..param.size].copy_from_slice(argument);
        }
        Ok(bytes)
    }
}

/// One thread, and its view of memory.
struct Thread<'a> {
    registers: Vec<u64>,
    local: Vec<u8>,
    special: [u32; 12],
    params: &'a [u8],
    memory: &'a Memory<'a>,
}

/// The reason for which an instruction cannot be executed.
enum Wrong {
    Illegal(&'static str, u64),
    Misaligned(u64),
    Undefined,
}

impl Thread<'_> {
    fn begin(&mut self, number: u32, block: u32, grid: Grid) {
        let at = |n: u32, [x, y, _]: [u32; 3]| [n % x, n / x % y, n / x / y];
        let parts = [at(number, grid.block), grid.block, at(block, grid.blocks), grid.blocks];
        for (to, from) in self.special.iter_mut().zip(parts.into_iter().flatten()) {
            *to = from;
        }
        // A value that is read before it is written becomes visible.
        self.registers.fill(0xCDCD_CDCD_CDCD_CDCD);
        self.local.fill(0xCD);
    }

    fn run(&mut self, instructions: &[Instruction]) -> Result<u64, Fault> {
        let (mut at, mut steps) = (0, 0);
        while let Some(instruction) = instructions.get(at) {
            steps += 1;
            if steps > MOST {
                return Err(Fault::Other(self.describe(instruction, "does not end")));
            }
            at += 1;
            if instruction.guard.is_some_and(|(of, wanted)| (self.registers[of] != 0) != wanted) {
                continue;
            }
            match &instruction.op {
                Op::Return => break,
                Op::Jump(to) => at = *to,
                op => self.step(op).map_err(|wrong| self.fault(instruction, &wrong))?,
            }
        }
        Ok(steps)
    }

    fn describe(&self, instruction: &Instruction, what: &str) -> String {
        let Instruction { line, text, .. } = instruction;
        let (thread, block) = (&self.special[..3], &self.special[6..9]);
        format!("{what}: line {line}: `{text}` of thread {thread:?} in block {block:?}")
    }

    fn fault(&self, instruction: &Instruction, wrong: &Wrong) -> Fault {
        match wrong {
            Wrong::Illegal(what, address) => {
                Fault::Illegal(self.describe(instruction, &format!("{what} at {address:#x}")))
            }
            Wrong::Misaligned(address) => {
                Fault::Misaligned(self.describe(instruction, &format!("access at {address:#x}")))
            }
            Wrong::Undefined => Fault::Other(self.describe(instruction, "undefined result")),
        }
    }

    fn get(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Register(index) => self.registers[index],
            Operand::Not(index) => u64::from(self.registers[index] == 0),
            Operand::Constant(value) => value,
            Operand::Special(index) => self.special[index].into(),
        }
    }

    fn step(&mut self, op: &Op) -> Result<(), Wrong> {
        match op {
            Op::Compute { to, from, function } => {
                let values = from.map(|operand| self.get(operand));
                self.registers[*to] = (function.0)(values).ok_or(Wrong::Undefined)?;
            }
            Op::Pack { to, from, bits } => {
                let part = Type { kind: super::types::Kind::Unsigned, bits: *bits };
                let parts = from.iter().enumerate();
                let whole = parts.map(|(k, &from)| part.mask(self.get(from)) << (k as u32 * bits));
                self.registers[*to] = whole.sum();
            }
            Op::Unpack { to, from, bits } => {
                let part = Type { kind: super::types::Kind::Unsigned, bits: *bits };
                let whole = self.get(*from);
                for (k, to) in to.iter().enumerate() {
                    let Some(to) = *to else { continue };
                    self.registers[to] = part.mask(whole >> (k as u32 * bits));
                }
            }
            Op::Load { to, element, memory } => self.load(to, *element, *memory)?,
            Op::Store { from, element, memory } => self.store(from, *element, *memory)?,
            Op::Add { to, element, memory, from } => self.add(*to, *element, *memory, *from)?,
            // The caller handles these.
            Op::Jump(_) | Op::Return => {}
        }
        Ok(())
    }

    /// Returns the address of `count` elements, which must be a multiple of their total size.
    fn address(&self, memory: MemoryOperand, element: Type, count: usize) -> Result<u64, Wrong> {
        let address = self.get(memory.base).wrapping_add(memory.offset);
        let whole = (element.bytes() * count) as u64;
        if address.is_multiple_of(whole) { Ok(address) } else { Err(Wrong::Misaligned(address)) }
    }

    fn load(&mut self, to: &[Register], element: Type, memory: MemoryOperand) -> Result<(), Wrong> {
        let address = self.address(memory, element, to.len())?;
        for (k, to) in to.iter().enumerate() {
            let at = address.wrapping_add((k * element.bytes()) as u64);
            let bits = self.read(memory.space, at, element.bytes());
            let bits = bits.ok_or(Wrong::Illegal("read", at))?;
            self.registers[*to] =
                if element.is_integer() { element.integer(bits) as u64 } else { bits };
        }
        Ok(())
    }

    fn store(
        &mut self,
        from: &[Operand],
        element: Type,
        memory: MemoryOperand,
    ) -> Result<(), Wrong> {
        let address = self.address(memory, element, from.len())?;
        for (k, from) in from.iter().enumerate() {
            let at = address.wrapping_add((k * element.bytes()) as u64);
            let written = self.write(memory.space, at, element.bytes(), self.get(*from));
            written.ok_or(Wrong::Illegal("write", at))?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        to: Option<Register>,
        element: Type,
        memory: MemoryOperand,
        from: Operand,
    ) -> Result<(), Wrong> {
        let at = self.address(memory, element, 1)?;
        let old = self.read(memory.space, at, element.bytes()).ok_or(Wrong::Illegal("read", at))?;
        let new = old.wrapping_add(self.get(from));
        let written = self.write(memory.space, at, element.bytes(), new);
        written.ok_or(Wrong::Illegal("write", at))?;
        if let Some(to) = to {
            self.registers[to] = old;
        }
        Ok(())
    }

    fn read(&self, space: Space, at: u64, len: usize) -> Option<u64> {
        let own = |bytes: &[u8], start: u64| {
            let bytes = bytes.get((at - start) as usize..)?.get(..len)?;
            let mut word = [0; 8];
            word[..len].copy_from_slice(bytes);
            Some(u64::from_le_bytes(word))
        };
        match of(space, at)? {
            Space::Param => own(self.params, PARAMS.start),
            Space::Local => own(&self.local, LOCALS.start),
            _ => self.memory.read(at, len),
        }
    }

    fn write(&mut self, space: Space, at: u64, len: usize, value: u64) -> Option<()> {
        match of(space, at)? {
            Space::Param => None,
            Space::Local => {
                let to = self.local.get_mut((at - LOCALS.start) as usize..)?.get_mut(..len)?;
                to.copy_from_slice(&value.to_le_bytes()[..len]);
                Some(())
            }
            _ => self.memory.write(at, len, value),
        }
    }
}

/// Returns the space of an address, if it matches the space of the instruction.
fn of(space: Space, address: u64) -> Option<Space> {
    let found = if PARAMS.contains(&address) {
        Space::Param
    } else if LOCALS.contains(&address) {
        Space::Local
    } else {
        Space::Global
    };
    (space == found || space == Space::Generic).then_some(found)
}
