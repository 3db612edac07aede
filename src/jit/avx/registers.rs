//! Chooses registers for the steps of a group, in order, and emits their instructions.
//!
//! A value has a register from its step to its last use. Nothing is spilled: where there are too few registers,
//! the 128-bit code runs instead. Numbers in memory are operands of instructions of 512 bits; those of 256 bits
//! load them, except for the most frequent ones, which have a register if some are left.

use super::encode::{
    Bits, Condition, Gpr, Index, Inst, Label, Memory, Op, R14, RDI, Rm, Scalar, VectorInst, at,
};
use super::group::{Def, Id, Step};
use crate::jit::vector_bits::Fallback;
use std::collections::HashMap;

/// The mask registers that steps may use. The others are the row's.
const MASKS: [u8; 4] = [4, 3, 2, 1];

/// The registers of a loop, and the code that uses them.
#[derive(Debug)]
pub(super) struct Registers<'g> {
    values: &'g [Def],
    pub(super) bits: Bits,
    pub(super) code: Vec<Inst>,
    free: Vec<u8>,
    free_masks: Vec<u8>,
    at: HashMap<Id, u8>,
    /// The index of the last step of the section that reads a value.
    last: HashMap<Id, usize>,
    /// Values that keep their register until the loop ends.
    pinned: Vec<Id>,
    now: usize,
    labels: usize,
    open: Vec<Label>,
    /// The fewest registers that were free at once.
    least_free: usize,
}

/// A register that an operand was loaded to for one instruction.
type Temporary = Option<u8>;

impl<'g> Registers<'g> {
    pub(super) fn new(values: &'g [Def], bits: Bits) -> Self {
        let count = if bits == Bits::B512 { 32 } else { 16 };
        let free: Vec<u8> = (0..count).rev().collect();
        Self {
            values,
            bits,
            code: vec![],
            least_free: free.len(),
            free,
            free_masks: MASKS.to_vec(),
            at: HashMap::new(),
            last: HashMap::new(),
            pinned: vec![],
            now: 0,
            labels: 0,
            open: vec![],
        }
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    pub(super) fn scalar(&mut self, scalar: Scalar) {
        self.code.push(Inst::Scalar(scalar));
    }

    pub(super) fn vector(&mut self, inst: VectorInst) {
        self.code.push(Inst::Vector(inst));
    }

    /// Emits an instruction of the loop's width.
    pub(super) fn inst(&mut self, op: Op, to: u8, first: u8, rm: Rm) {
        self.vector(VectorInst::new(op, self.bits, to, first, rm));
    }

    /// Emits `mask = from`.
    pub(super) fn set_mask(&mut self, mask: u8, from: Gpr) {
        self.vector(VectorInst::new(Op::MaskFromGpr, Bits::B128, mask, 0, Rm::Gpr(from)));
    }

    /// Emits `to` = the low four bytes of `from` in all lanes.
    pub(super) fn broadcast(&mut self, to: u8, from: Gpr) {
        self.vector(VectorInst::new(Op::FromGpr, Bits::B128, to, 0, Rm::Gpr(from)));
        self.inst(Op::BroadcastLane, to, 0, Rm::Register(to));
    }

    /// Takes a free vector register.
    pub(super) fn take(&mut self) -> Result<u8, Fallback> {
        let register = self.free.pop().ok_or(Fallback::Registers)?;
        self.least_free = self.least_free.min(self.free.len());
        Ok(register)
    }

    /// Returns the number of registers that no code has used.
    pub(super) fn unused(&self) -> usize {
        self.least_free
    }

    /// Loads a number in memory to a register that it keeps until the loop ends.
    pub(super) fn hold(&mut self, value: Id) -> Result<(), Fallback> {
        if let Def::Memory(memory) = self.values[value] {
            let register = self.pin(value)?;
            self.inst(Op::Broadcast, register, 0, Rm::Memory(memory));
        }
        Ok(())
    }

    /// Returns a mask register that no value is in.
    pub(super) fn spare_mask(&self) -> Result<u8, Fallback> {
        self.free_masks.last().copied().ok_or(Fallback::Registers)
    }

    /// Frees a register that [`take`](Self::take) returned.
    pub(super) fn give(&mut self, register: u8) {
        self.free.push(register);
    }

    /// Takes a register for a value that keeps it until the loop ends.
    pub(super) fn pin(&mut self, value: Id) -> Result<u8, Fallback> {
        let register = self.take()?;
        self.at.insert(value, register);
        self.pinned.push(value);
        Ok(register)
    }

    /// Takes a register for a value, which is free after the last step that reads the value.
    pub(super) fn define(&mut self, value: Id) -> Result<u8, Fallback> {
        let register = if self.is_mask_register(value) {
            self.free_masks.pop().ok_or(Fallback::Registers)?
        } else {
            self.take()?
        };
        self.at.insert(value, register);
        Ok(register)
    }

    /// True if a value is in a mask register, not in a vector.
    fn is_mask_register(&self, value: Id) -> bool {
        self.values[value] == Def::Mask && self.bits == Bits::B512
    }

    /// Sets the steps that follow: values are free after the last of them that reads them. `kept` are read after
    /// the last step.
    pub(super) fn begin(&mut self, steps: &[Step], kept: &[Id]) {
        self.last.clear();
        for (number, step) in steps.iter().enumerate() {
            step.reads(|value| {
                self.last.insert(value, number);
            });
        }
        for value in kept {
            self.last.insert(*value, usize::MAX);
        }
        self.now = 0;
    }

    /// Keeps the registers of values that were kept in the last section until the loop ends.
    pub(super) fn pin_kept(&mut self, kept: &[Id]) {
        self.pinned.extend(kept);
    }

    /// Frees the registers of values after their last use, which was not in a step.
    pub(super) fn release_kept(&mut self, kept: &[Id]) {
        for value in kept {
            self.free_register(*value);
        }
    }

    fn free_register(&mut self, value: Id) {
        if self.pinned.contains(&value) {
            return;
        }
        if let Some(register) = self.at.remove(&value) {
            if self.is_mask_register(value) {
                self.free_masks.push(register);
            } else {
                self.free.push(register);
            }
        }
    }

    /// Frees values that no later step reads.
    fn release(&mut self, values: &[Id]) {
        for value in values {
            if self.is_dead(*value) {
                self.free_register(*value);
            }
        }
    }

    fn is_dead(&self, value: Id) -> bool {
        self.last.get(&value).is_none_or(|last| *last <= self.now)
    }

    /// True if this step may overwrite the value's register.
    fn is_overwritable(&self, value: Id) -> bool {
        self.at.contains_key(&value) && !self.pinned.contains(&value) && self.is_dead(value)
    }

    /// Frees values that nothing reads, such as a loaded channel that no op uses.
    pub(super) fn drop_unread(&mut self, values: &[Id]) {
        for value in values {
            if !self.last.contains_key(value) {
                self.free_register(*value);
            }
        }
    }

    /// Returns the register of a value, loading it if it is in memory.
    pub(super) fn register(&mut self, value: Id) -> Result<(u8, Temporary), Fallback> {
        if let Some(register) = self.at.get(&value) {
            return Ok((*register, None));
        }
        let Def::Memory(memory) = self.values[value] else { return Err(Fallback::Registers) };
        let register = self.take()?;
        self.inst(Op::Broadcast, register, 0, Rm::Memory(memory));
        Ok((register, Some(register)))
    }

    /// Returns a value as the operand that may be in memory.
    fn operand(&mut self, value: Id) -> Result<(Rm, Temporary), Fallback> {
        match self.values[value] {
            Def::Memory(memory) if self.bits == Bits::B512 && !self.at.contains_key(&value) => {
                Ok((Rm::Broadcast(memory), None))
            }
            _ => {
                let (register, temporary) = self.register(value)?;
                Ok((Rm::Register(register), temporary))
            }
        }
    }

    fn is_in_memory(&self, value: Id) -> bool {
        matches!(self.values[value], Def::Memory(_)) && !self.at.contains_key(&value)
    }

    fn end(&mut self, temporaries: [Temporary; 2], read: &[Id]) {
        for register in temporaries.into_iter().flatten() {
            self.give(register);
        }
        self.release(read);
    }

    /// Emits the steps of the section.
    pub(super) fn steps(&mut self, steps: &[Step]) -> Result<(), Fallback> {
        for (number, step) in steps.iter().enumerate() {
            self.now = number;
            self.step(*step)?;
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), Fallback> {
        match step {
            Step::One { op, imm, a, to } => {
                let (rm, temporary) = self.operand(a)?;
                self.end([temporary, None], &[a]);
                let to = self.result(to)?;
                self.vector(VectorInst { imm, ..VectorInst::new(op, self.bits, to, 0, rm) });
            }
            Step::Two { op, imm, a, b, to } => {
                let commutes = matches!(
                    op,
                    Op::Add | Op::Mul | Op::AddI32 | Op::MulI32 | Op::And | Op::Xor | Op::EqualI32
                );
                let swaps = commutes && self.is_in_memory(a) && !self.is_in_memory(b);
                let (a, b) = if swaps { (b, a) } else { (a, b) };
                let (first, one) = self.register(a)?;
                let (rm, other) = self.operand(b)?;
                self.end([one, other], &[a, b]);
                let to = self.result(to)?;
                self.vector(VectorInst { imm, ..VectorInst::new(op, self.bits, to, first, rm) });
            }
            Step::Fma { a, b, c, to } => self.fma([a, b, c], to)?,
            Step::Shift { op, a, bits, to } => {
                let (from, temporary) = self.register(a)?;
                self.end([temporary, None], &[a]);
                let to = self.result(to)?;
                let shift = VectorInst::new(op, self.bits, to, 0, Rm::Register(from));
                self.vector(shift.imm(bits));
            }
            Step::Select { mask, a, b, to } => {
                let (choice, _) = self.register(mask)?;
                let (first, one) = self.register(b)?;
                let (rm, other) = self.operand(a)?;
                self.end([one, other], &[mask, a, b]);
                let to = self.result(to)?;
                self.vector(if self.bits == Bits::B512 {
                    VectorInst::new(Op::BlendMask, self.bits, to, first, rm).masked(choice)
                } else {
                    VectorInst::new(Op::Blend, self.bits, to, first, rm).imm(choice << 4)
                });
            }
            Step::Masks { op, a, b, to } => {
                let ((a_register, _), (b_register, _)) = (self.register(a)?, self.register(b)?);
                self.release(&[a, b]);
                let to = self.result(to)?;
                let op = match (self.bits, op) {
                    (Bits::B512, op) => op,
                    (_, Op::MaskAnd) => Op::And,
                    (_, Op::MaskOr) => Op::Or,
                    (_, _) => Op::AndNot,
                };
                let bits = if self.bits == Bits::B512 { Bits::B128 } else { self.bits };
                self.vector(VectorInst::new(op, bits, to, a_register, Rm::Register(b_register)));
            }
            Step::Gather { address, disp, index, to } => self.gather((address, disp), index, to)?,
            Step::Begin { mask, otherwise, to, count } => {
                for c in 0..count {
                    let result = self.define(to[c])?;
                    self.load(result, otherwise[c])?;
                }
                let (register, _) = self.register(mask)?;
                let (op, bits) = match self.bits {
                    Bits::B512 => (Op::MaskTest, Bits::B128),
                    bits => (Op::TestSigns, bits),
                };
                self.vector(VectorInst::new(op, bits, register, 0, Rm::Register(register)));
                let label = self.label();
                self.open.push(label);
                self.code.push(Inst::Jump(Condition::Equal, label));
                self.release(&otherwise[..count]);
                self.release(&[mask]);
            }
            Step::End { changed, to, count } => {
                for c in 0..count {
                    let result = self.at[&to[c]];
                    self.load(result, changed[c])?;
                }
                self.release(&changed[..count]);
                self.release(&to[..count]);
                let label = self.open.pop().ok_or(Fallback::Registers)?;
                self.code.push(Inst::Label(label));
            }
        }
        Ok(())
    }

    /// Takes a register for the result of this step.
    fn result(&mut self, to: Id) -> Result<u8, Fallback> {
        let register = self.define(to)?;
        self.drop_unread(&[to]);
        Ok(register)
    }

    /// Enters the register that holds the result of this step.
    fn enter(&mut self, to: Id, register: u8) {
        self.at.insert(to, register);
        self.drop_unread(&[to]);
    }

    /// Copies or loads a value to a register.
    fn load(&mut self, to: u8, value: Id) -> Result<(), Fallback> {
        match (self.at.get(&value), self.values[value]) {
            (Some(from), _) => self.inst(Op::Load, to, 0, Rm::Register(*from)),
            (None, Def::Memory(memory)) => self.inst(Op::Broadcast, to, 0, Rm::Memory(memory)),
            (None, _) => return Err(Fallback::Registers),
        }
        Ok(())
    }

    fn fma(&mut self, [a, b, c]: [Id; 3], to: Id) -> Result<(), Fallback> {
        // The instruction overwrites one of its operands.
        let own = |value: Id| [a, b, c].iter().filter(|other| **other == value).count() == 1;
        let may = |value: Id| self.is_overwritable(value) && own(value);
        let (result, read) = if may(c) || !(may(a) || may(b)) {
            let (a, b) = if self.is_in_memory(a) { (b, a) } else { (a, b) };
            let overwrites = may(c);
            let (result, read) = if overwrites {
                (self.at.remove(&c).ok_or(Fallback::Registers)?, vec![a, b])
            } else {
                let result = self.take()?;
                self.load(result, c)?;
                (result, vec![a, b, c])
            };
            let (first, one) = self.register(a)?;
            let (rm, other) = self.operand(b)?;
            self.inst(Op::Fma231, result, first, rm);
            self.end([one, other], &[]);
            (result, read)
        } else {
            let (a, b) = if may(a) { (a, b) } else { (b, a) };
            let result = self.at.remove(&a).ok_or(Fallback::Registers)?;
            let (first, one) = self.register(b)?;
            let (rm, other) = self.operand(c)?;
            self.inst(Op::Fma213, result, first, rm);
            self.end([one, other], &[]);
            (result, vec![b, c])
        };
        self.release(&read);
        self.enter(to, result);
        Ok(())
    }

    fn gather(&mut self, (address, disp): (i32, i32), index: Id, to: Id) -> Result<(), Fallback> {
        let (lanes, temporary) = self.register(index)?;
        let result = self.take()?;
        self.scalar(Scalar::Move(R14, Rm::Memory(at(RDI, address))));
        let memory = Memory { base: R14, index: Some((Index::Vector(lanes), 4)), disp };
        // All lanes are loaded. The old values of the result are no input.
        self.inst(Op::Xor, result, result, Rm::Register(result));
        if self.bits == Bits::B512 {
            let mask = self.spare_mask()?;
            self.inst(Op::EqualI32, mask, lanes, Rm::Register(lanes));
            let gather = VectorInst::new(Op::Gather, self.bits, result, 0, Rm::Memory(memory));
            self.vector(gather.masked(mask));
        } else {
            let mask = self.take()?;
            self.inst(Op::EqualI32, mask, lanes, Rm::Register(lanes));
            self.inst(Op::Gather, result, mask, Rm::Memory(memory));
            self.give(mask);
        }
        self.end([temporary, None], &[index]);
        self.enter(to, result);
        Ok(())
    }
}
