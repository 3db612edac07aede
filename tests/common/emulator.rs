//! Runs the machine code of loops with AVX2 or AVX-512, instruction by instruction, as another decoder reads it.
//!
//! It tests code of 512 bits on CPUs without it, and every byte that code of any width accesses. It knows the
//! instructions that such loops use. Registers hold garbage at first, so that code which reads one before it
//! writes it gives other bits than the evaluator.

use fuseloop::internals::jit::check::BlockRun;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// The most instructions of a call: a test's images are small.
const MOST: u64 = 50_000_000;

/// Registers hold this byte before the code writes them.
const GARBAGE: u8 = 0xA5;

/// The registers of the CPU, and the memory of a run.
struct Machine<'r> {
    run: &'r mut BlockRun,
    gprs: [u64; 16],
    vectors: [[u8; 64]; 32],
    masks: [u64; 8],
    stack: Vec<u64>,
    is_zero: bool,
    is_less: bool,
}

/// Calls the loop of pass `pass` of a run. Returns the number of instructions, or what was not allowed.
pub fn emulate(run: &mut BlockRun, pass: usize, words: [u64; 6]) -> Result<u64, String> {
    let code = run.row_loops.get(pass).cloned().flatten().ok_or("no such loop")?;
    let mut machine = Machine {
        run,
        gprs: [0xA5A5_A5A5_A5A5_A5A5; 16],
        vectors: [[GARBAGE; 64]; 32],
        masks: [0xA5A5_A5A5_A5A5_A5A5; 8],
        stack: vec![],
        is_zero: false,
        is_less: false,
    };
    let arguments =
        [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
    for (register, word) in arguments.into_iter().zip(words) {
        machine.gprs[register.number()] = word;
    }
    let kept = [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14];
    let before = kept.map(|register| machine.gprs[register.number()]);
    let (mut ip, mut count) = (0, 0);
    loop {
        let rest = code.get(ip as usize..).ok_or("a jump out of the code")?;
        let mut decoder = Decoder::with_ip(64, rest, ip, DecoderOptions::NONE);
        let inst = decoder.decode();
        count += 1;
        if inst.is_invalid() || count > MOST {
            return Err(format!("{ip} bytes into the code: no instruction, or no end"));
        }
        if inst.mnemonic() == Mnemonic::Ret {
            let after = kept.map(|register| machine.gprs[register.number()]);
            let is_kept = machine.stack.is_empty() && before == after;
            return if is_kept { Ok(count) } else { Err("a register is not restored".to_owned()) };
        }
        ip = match machine.step(&inst) {
            Ok(Some(target)) => target,
            Ok(None) => inst.next_ip(),
            Err(wrong) => return Err(format!("{:?}: {wrong}", inst.code())),
        };
    }
}

fn f32_of(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().unwrap())
}

fn i32_of(bytes: &[u8]) -> i32 {
    i32::from_le_bytes(bytes.try_into().unwrap())
}

/// `vcvttps2dq` and, with `round`, `vcvtps2dq`.
fn to_i32(value: f32, round: bool) -> i32 {
    let whole = if round { value.round_ties_even() } else { value.trunc() };
    let is_inside = (-2_147_483_648.0..2_147_483_648.0).contains(&whole);
    if is_inside { whole as i32 } else { i32::MIN }
}

impl Machine<'_> {
    fn gpr(&self, register: Register) -> u64 {
        self.gprs[register.number()]
    }

    /// The address of an instruction's memory operand, without the index of a gather.
    fn address(&self, inst: &Instruction) -> u64 {
        let mut address = self.gpr(inst.memory_base());
        let index = inst.memory_index();
        if index.is_gpr64() {
            address = address
                .wrapping_add(self.gpr(index).wrapping_mul(inst.memory_index_scale().into()));
        }
        address.wrapping_add(inst.memory_displacement64())
    }

    fn read(&self, address: u64, to: &mut [u8]) -> Result<(), String> {
        self.run.read(address, to).map_err(|refused| format!("load: {}", refused.0))
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), String> {
        self.run.write(address, from).map_err(|refused| format!("store: {}", refused.0))
    }

    fn word(&self, inst: &Instruction, operand: u32) -> Result<u64, String> {
        match inst.op_kind(operand) {
            OpKind::Register => Ok(self.gpr(inst.op_register(operand))),
            OpKind::Memory => {
                let mut bytes = [0; 8];
                self.read(self.address(inst), &mut bytes)?;
                Ok(u64::from_le_bytes(bytes))
            }
            _ => Ok(inst.immediate(operand)),
        }
    }

    /// The mask of an instruction's lanes, or all.
    fn lanes(&self, inst: &Instruction) -> u64 {
        match inst.op_mask() {
            Register::None => u64::MAX,
            mask => self.masks[mask.number()],
        }
    }

    /// Reads `bytes` bytes of a vector operand.
    fn vector(&self, inst: &Instruction, operand: u32, bytes: usize) -> Result<[u8; 64], String> {
        let mut vector = [0; 64];
        if inst.op_kind(operand) == OpKind::Register {
            vector[..bytes]
                .copy_from_slice(&self.vectors[inst.op_register(operand).number()][..bytes]);
        } else if inst.is_broadcast() {
            let mut lane = [0; 4];
            self.read(self.address(inst), &mut lane)?;
            vector[..bytes].chunks_exact_mut(4).for_each(|to| to.copy_from_slice(&lane));
        } else {
            self.read(self.address(inst), &mut vector[..bytes])?;
        }
        Ok(vector)
    }

    /// Sets a vector register to `bytes` bytes, in lanes of `lane` bytes under the instruction's mask, and zeros.
    fn set(&mut self, inst: &Instruction, value: &[u8], lane: usize) {
        let lanes = self.lanes(inst);
        let register = &mut self.vectors[inst.op_register(0).number()];
        let before = *register;
        *register = [0; 64];
        for (number, (to, from)) in
            register.chunks_exact_mut(lane).zip(value.chunks_exact(lane)).enumerate()
        {
            if lanes >> number & 1 == 1 {
                to.copy_from_slice(from);
            } else if !inst.zeroing_masking() {
                to.copy_from_slice(&before[number * lane..][..lane]);
            }
        }
    }

    /// Applies `f` to lanes of four bytes of the last one or two operands.
    fn each(
        &mut self,
        inst: &Instruction,
        f: impl Fn([u8; 4], [u8; 4]) -> [u8; 4],
    ) -> Result<(), String> {
        let bytes = inst.op_register(0).size();
        let is_imm = inst.op_kind(inst.op_count() - 1) == OpKind::Immediate8;
        let last = inst.op_count() - 1 - u32::from(is_imm);
        let second = self.vector(inst, last, bytes)?;
        let first = if last >= 2 { self.vector(inst, 1, bytes)? } else { second };
        let mut out = [0; 64];
        for lane in (0..bytes).step_by(4) {
            let four = |vector: &[u8; 64]| vector[lane..lane + 4].try_into().unwrap();
            out[lane..lane + 4].copy_from_slice(&f(four(&first), four(&second)));
        }
        self.set(inst, &out[..bytes], 4);
        Ok(())
    }

    fn floats(&mut self, inst: &Instruction, f: impl Fn(f32, f32) -> f32) -> Result<(), String> {
        self.each(inst, |a, b| f(f32_of(&a), f32_of(&b)).to_le_bytes())
    }

    fn integers(&mut self, inst: &Instruction, f: impl Fn(i32, i32) -> i32) -> Result<(), String> {
        self.each(inst, |a, b| f(i32_of(&a), i32_of(&b)).to_le_bytes())
    }

    /// Compares lanes: to a mask register, or to lanes of ones and zeros.
    fn compare(
        &mut self,
        inst: &Instruction,
        f: impl Fn([u8; 4], [u8; 4]) -> bool,
    ) -> Result<(), String> {
        let to = inst.op_register(0);
        if !to.is_k() {
            return self.each(inst, |a, b| [if f(a, b) { 0xFF } else { 0 }; 4]);
        }
        let bytes = inst.op_register(1).size();
        let (first, second) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
        let four = |vector: &[u8; 64], lane| vector[4 * lane..][..4].try_into().unwrap();
        let bits = (0..bytes / 4)
            .map(|lane| u64::from(f(four(&first, lane), four(&second, lane))) << lane);
        self.masks[to.number()] = bits.sum::<u64>() & self.lanes(inst);
        Ok(())
    }

    /// Loads or stores a vector, in elements of `lane` bytes under the instruction's mask.
    fn move_vector(&mut self, inst: &Instruction, lane: usize) -> Result<(), String> {
        let lanes = self.lanes(inst);
        let stores = inst.op_kind(0) == OpKind::Memory;
        let register = inst.op_register(if stores { 1 } else { 0 });
        let (bytes, address) = (register.size(), self.address(inst));
        if !stores && inst.op_kind(1) == OpKind::Register {
            let from = self.vectors[inst.op_register(1).number()];
            self.set(inst, &from[..bytes], lane);
            return Ok(());
        }
        let mut value = self.vectors[register.number()];
        if inst.op_mask() == Register::None {
            if stores {
                return self.write(address, &value[..bytes]);
            }
            self.read(address, &mut value[..bytes])?;
        } else {
            for number in (0..bytes / lane).filter(|number| lanes >> number & 1 == 1) {
                let at = address.wrapping_add((number * lane) as u64);
                if stores {
                    self.write(at, &value[number * lane..][..lane])?;
                } else {
                    self.read(at, &mut value[number * lane..][..lane])?;
                }
            }
        }
        if !stores {
            self.set(inst, &value[..bytes], lane);
        }
        Ok(())
    }

    fn flags(&mut self, value: i64) {
        (self.is_zero, self.is_less) = (value == 0, value < 0);
    }

    fn scalar(&mut self, inst: &Instruction) -> Result<(), String> {
        let to = inst.op_register(0).number();
        let last = inst.op_count() - 1;
        let mut from = self.word(inst, last)?;
        let a = self.gprs[to];
        let value = match inst.mnemonic() {
            Mnemonic::Mov => {
                self.gprs[to] = from;
                return Ok(());
            }
            Mnemonic::Add => a.wrapping_add(from),
            Mnemonic::Sub => a.wrapping_sub(from),
            Mnemonic::And => a & from,
            Mnemonic::Sar => (a as i64 >> from) as u64,
            Mnemonic::Cmp => {
                self.flags((a as i64).wrapping_sub(from as i64));
                return Ok(());
            }
            Mnemonic::Imul => {
                let with = if last == 2 { self.word(inst, 1)? } else { a };
                with.wrapping_mul(from)
            }
            Mnemonic::Bzhi => {
                from &= 0xFF;
                let value = self.word(inst, 1)?;
                if from >= 64 { value } else { value & ((1 << from) - 1) }
            }
            Mnemonic::Shlx => self.word(inst, 1)? << (from & 63),
            _ => return Err("an unknown instruction".to_owned()),
        };
        self.gprs[to] = value;
        if inst.mnemonic() != Mnemonic::Shlx {
            self.flags(value as i64);
        }
        Ok(())
    }

    fn mask(&mut self, inst: &Instruction) {
        let k = |operand| self.masks[inst.op_register(operand).number()];
        let value = match inst.mnemonic() {
            Mnemonic::Kandw => k(1) & k(2) & 0xFFFF,
            Mnemonic::Kandnw => !k(1) & k(2) & 0xFFFF,
            Mnemonic::Korw => (k(1) | k(2)) & 0xFFFF,
            Mnemonic::Kmovq => self.gpr(inst.op_register(1)),
            _ => {
                self.is_zero = (k(0) | k(1)) & 0xFFFF == 0;
                return;
            }
        };
        self.masks[inst.op_register(0).number()] = value;
    }

    /// Runs one instruction. Returns where it jumps to, if it does.
    fn step(&mut self, inst: &Instruction) -> Result<Option<u64>, String> {
        let imm = || inst.immediate8();
        let bytes = inst.op_register(0).size();
        match inst.mnemonic() {
            Mnemonic::Push => self.stack.push(self.gpr(inst.op_register(0))),
            Mnemonic::Pop => {
                let value = self.stack.pop().ok_or("an empty stack")?;
                self.gprs[inst.op_register(0).number()] = value;
            }
            // The first stands for an instruction that a test took out, the second reads nothing.
            Mnemonic::Nop | Mnemonic::Prefetcht0 => {}
            Mnemonic::Jmp => return Ok(Some(inst.near_branch64())),
            Mnemonic::Je => return Ok(self.is_zero.then(|| inst.near_branch64())),
            Mnemonic::Jne => return Ok((!self.is_zero).then(|| inst.near_branch64())),
            Mnemonic::Jl => return Ok(self.is_less.then(|| inst.near_branch64())),
            Mnemonic::Jge => return Ok((!self.is_less).then(|| inst.near_branch64())),
            Mnemonic::Vzeroupper => {
                self.vectors[..16].iter_mut().for_each(|vector| vector[16..].fill(0));
            }
            Mnemonic::Kandw
            | Mnemonic::Kandnw
            | Mnemonic::Korw
            | Mnemonic::Kmovq
            | Mnemonic::Kortestw => self.mask(inst),
            Mnemonic::Vtestps => {
                let (a, b) = (self.vector(inst, 0, bytes)?, self.vector(inst, 1, bytes)?);
                self.is_zero = (3..bytes).step_by(4).all(|sign| a[sign] & b[sign] & 0x80 == 0);
            }
            Mnemonic::Vaddps => self.floats(inst, |a, b| a + b)?,
            Mnemonic::Vsubps => self.floats(inst, |a, b| a - b)?,
            Mnemonic::Vmulps => self.floats(inst, |a, b| a * b)?,
            Mnemonic::Vdivps => self.floats(inst, |a, b| a / b)?,
            Mnemonic::Vminps => self.floats(inst, |a, b| if a < b { a } else { b })?,
            Mnemonic::Vmaxps => self.floats(inst, |a, b| if a > b { a } else { b })?,
            Mnemonic::Vsqrtps => self.floats(inst, |_, b| b.sqrt())?,
            Mnemonic::Vfmadd213ps | Mnemonic::Vfmadd231ps => {
                let (to, is_213) =
                    (self.vector(inst, 0, bytes)?, inst.mnemonic() == Mnemonic::Vfmadd213ps);
                let (first, last) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
                let mut out = [0; 64];
                for lane in (0..bytes).step_by(4) {
                    let [to, first, last] =
                        [to, first, last].map(|vector| f32_of(&vector[lane..lane + 4]));
                    let value =
                        if is_213 { first.mul_add(to, last) } else { first.mul_add(last, to) };
                    out[lane..lane + 4].copy_from_slice(&value.to_le_bytes());
                }
                self.set(inst, &out[..bytes], 4);
            }
            Mnemonic::Vroundps | Mnemonic::Vrndscaleps => {
                let rounding = imm();
                self.floats(inst, |_, b| match rounding {
                    8 => b.round_ties_even(),
                    9 => b.floor(),
                    _ => b.trunc(),
                })?;
            }
            Mnemonic::Vcvtdq2ps => self.each(inst, |_, b| (i32_of(&b) as f32).to_le_bytes())?,
            Mnemonic::Vcvttps2dq => {
                self.each(inst, |_, b| to_i32(f32_of(&b), false).to_le_bytes())?;
            }
            Mnemonic::Vcvtps2dq => {
                self.each(inst, |_, b| to_i32(f32_of(&b), true).to_le_bytes())?;
            }
            Mnemonic::Vpaddd => self.integers(inst, i32::wrapping_add)?,
            Mnemonic::Vpmulld => self.integers(inst, i32::wrapping_mul)?,
            Mnemonic::Vpand | Mnemonic::Vpandd => self.integers(inst, |a, b| a & b)?,
            Mnemonic::Vpandn => self.integers(inst, |a, b| !a & b)?,
            Mnemonic::Vpor | Mnemonic::Vpord => self.integers(inst, |a, b| a | b)?,
            Mnemonic::Vpxor | Mnemonic::Vpxord => self.integers(inst, |a, b| a ^ b)?,
            Mnemonic::Vpslld => {
                let bits = imm();
                self.integers(inst, |_, a| if bits > 31 { 0 } else { a << bits })?;
            }
            Mnemonic::Vpsrld => {
                let bits = imm();
                self.integers(inst, |_, a| if bits > 31 { 0 } else { (a as u32 >> bits) as i32 })?;
            }
            Mnemonic::Vcmpps => {
                let is_less = imm() == 1;
                self.compare(inst, |a, b| {
                    let (a, b) = (f32_of(&a), f32_of(&b));
                    if is_less { a < b } else { a == b }
                })?;
            }
            Mnemonic::Vpcmpeqd => self.compare(inst, |a, b| a == b)?,
            Mnemonic::Vpcmpgtd => self.compare(inst, |a, b| i32_of(&a) > i32_of(&b))?,
            Mnemonic::Vblendvps => {
                let (no, yes) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
                let mask = self.vector(inst, 3, bytes)?;
                let pick = |i: usize| if mask[i | 3] & 0x80 == 0 { no[i] } else { yes[i] };
                let out: [u8; 64] = std::array::from_fn(pick);
                self.set(inst, &out[..bytes], 4);
            }
            Mnemonic::Vblendmps => {
                let lanes = self.lanes(inst);
                let (no, yes) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
                let pick = |i: usize| if lanes >> (i / 4) & 1 == 0 { no[i] } else { yes[i] };
                self.vectors[inst.op_register(0).number()] = std::array::from_fn(pick);
            }
            Mnemonic::Vmovups => self.move_vector(inst, 4)?,
            Mnemonic::Vmovntps => {
                if !self.address(inst).is_multiple_of(inst.op_register(1).size() as u64) {
                    return Err("an address that is not aligned".to_owned());
                }
                self.move_vector(inst, 4)?;
            }
            Mnemonic::Vcvtps2ph => {
                let (lanes, from) = (self.lanes(inst), self.vectors[inst.op_register(1).number()]);
                let address = self.address(inst);
                let count = inst.op_register(1).size() / 4;
                for lane in (0..count).filter(|lane| lanes >> lane & 1 == 1) {
                    let value = half::f16::from_f32(f32_of(&from[4 * lane..4 * lane + 4]));
                    self.write(address + 2 * lane as u64, &value.to_le_bytes())?;
                }
            }
            Mnemonic::Vmovdqu8 | Mnemonic::Vmovdqu => self.move_vector(inst, 1)?,
            Mnemonic::Vmovq => {
                let low = self.vectors[inst.op_register(1).number()];
                self.write(self.address(inst), &low[..8])?;
            }
            Mnemonic::Vbroadcastss => {
                let mut lane = [0; 4];
                self.read(self.address(inst), &mut lane)?;
                self.set(inst, &lane.repeat(bytes / 4), 4);
            }
            Mnemonic::Vpbroadcastq => {
                let mut lane = [0; 8];
                self.read(self.address(inst), &mut lane)?;
                self.set(inst, &lane.repeat(bytes / 8), 8);
            }
            Mnemonic::Vbroadcasti128 => {
                let mut half = [0; 16];
                self.read(self.address(inst), &mut half)?;
                self.set(inst, &half.repeat(2), 4);
            }
            Mnemonic::Vpbroadcastd => {
                let lane = self.vectors[inst.op_register(1).number()][..4].to_vec();
                self.set(inst, &lane.repeat(bytes / 4), 4);
            }
            Mnemonic::Vmovd => {
                let low = self.gpr_of_32(inst.op_register(1)).to_le_bytes();
                self.vectors[inst.op_register(0).number()] = [0; 64];
                self.vectors[inst.op_register(0).number()][..4].copy_from_slice(&low);
            }
            Mnemonic::Vinserti128 => {
                let (mut out, half) = (self.vector(inst, 1, 32)?, self.vector(inst, 2, 16)?);
                out[16..32].copy_from_slice(&half[..16]);
                self.set(inst, &out[..32], 4);
            }
            Mnemonic::Vextracti128 => {
                let from = self.vectors[inst.op_register(1).number()];
                self.set(inst, &from[16..32], 4);
            }
            Mnemonic::Vextracti32x4 => {
                let from = self.vectors[inst.op_register(1).number()];
                let quarter = 16 * usize::from(imm());
                self.write(self.address(inst), &from[quarter..quarter + 16])?;
            }
            Mnemonic::Vpshufb => {
                let (from, index) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
                let pick = |i: usize| match index[i] {
                    nothing if nothing & 0x80 != 0 => 0,
                    index => from[i / 16 * 16 + usize::from(index & 15)],
                };
                let out: [u8; 64] = std::array::from_fn(pick);
                self.set(inst, &out[..bytes], 1);
            }
            Mnemonic::Vpermb => {
                let (index, from) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
                let out: [u8; 64] = std::array::from_fn(|i| from[usize::from(index[i] & 63)]);
                self.set(inst, &out[..bytes], 1);
            }
            Mnemonic::Vblendps => {
                let (no, yes) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
                let lanes = imm();
                let pick = |i: usize| if lanes >> (i / 4 % 8) & 1 == 0 { no[i] } else { yes[i] };
                let out: [u8; 64] = std::array::from_fn(pick);
                self.set(inst, &out[..bytes], 4);
            }
            Mnemonic::Vpermd | Mnemonic::Vpermps => {
                let (index, from) = (self.vector(inst, 1, bytes)?, self.vector(inst, 2, bytes)?);
                let most = bytes / 4 - 1;
                let lane = |i: usize| i32_of(&index[4 * (i / 4)..][..4]) as usize & most;
                let out: [u8; 64] = std::array::from_fn(|i| from[4 * lane(i) + i % 4]);
                self.set(inst, &out[..bytes], 4);
            }
            Mnemonic::Vpmovdb => {
                let (lanes, from) = (self.lanes(inst), self.vectors[inst.op_register(1).number()]);
                let address = self.address(inst);
                for lane in (0..16).filter(|lane| lanes >> lane & 1 == 1) {
                    self.write(address + lane as u64, &from[4 * lane..=4 * lane])?;
                }
            }
            Mnemonic::Vgatherdps => self.gather(inst)?,
            _ => self.scalar(inst)?,
        }
        Ok(None)
    }

    fn gpr_of_32(&self, register: Register) -> u32 {
        self.gprs[register.number()] as u32
    }

    fn gather(&mut self, inst: &Instruction) -> Result<(), String> {
        let to = inst.op_register(0);
        let index = self.vectors[inst.memory_index().number()];
        let is_evex = inst.code() == Code::EVEX_Vgatherdps_zmm_k1_vm32z;
        let lanes = self.lanes(inst);
        let signs = if is_evex { [0; 64] } else { self.vectors[inst.op_register(2).number()] };
        let mut out = self.vectors[to.number()];
        for lane in 0..to.size() / 4 {
            let is_on =
                if is_evex { lanes >> lane & 1 == 1 } else { signs[4 * lane + 3] & 0x80 != 0 };
            if is_on {
                let offset = i64::from(i32_of(&index[4 * lane..][..4]))
                    * i64::from(inst.memory_index_scale());
                let address = self.address(inst).wrapping_add_signed(offset);
                self.read(address, &mut out[4 * lane..4 * lane + 4])?;
            }
        }
        out[to.size()..].fill(0);
        self.vectors[to.number()] = out;
        if is_evex {
            self.masks[inst.op_mask().number()] = 0;
        } else {
            self.vectors[inst.op_register(2).number()] = [0; 64];
        }
        Ok(())
    }
}
