//! The instructions of AVX2 and AVX-512 that pixel loops use, their bytes and their text.
//!
//! An [`Inst`] is one machine instruction with its registers. Vectors of 256 bits are encoded with the VEX
//! prefix, which every CPU with AVX2 runs, and vectors of 512 bits with the EVEX prefix. Displacements have four
//! bytes, unless they are zero. Sources: Intel's manual, volume 2, chapters 2.3 (VEX) and 2.7 (EVEX), and the
//! opcode of each instruction.

use std::fmt;

/// The width of the vectors of an instruction or of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bits {
    /// 128 bits, of instructions that narrow vectors.
    B128,
    /// 256 bits.
    B256,
    /// 512 bits.
    B512,
}

impl Bits {
    /// Returns the number of lanes of four bytes.
    pub(super) const fn lanes(self) -> usize {
        4 << self as usize
    }
}

/// A general-purpose register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gpr(pub(super) u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RCX: Gpr = Gpr(1);
pub(super) const RDX: Gpr = Gpr(2);
pub(super) const RBX: Gpr = Gpr(3);
pub(super) const RBP: Gpr = Gpr(5);
pub(super) const RSI: Gpr = Gpr(6);
pub(super) const RDI: Gpr = Gpr(7);
pub(super) const R8: Gpr = Gpr(8);
pub(super) const R9: Gpr = Gpr(9);
pub(super) const R10: Gpr = Gpr(10);
pub(super) const R11: Gpr = Gpr(11);
pub(super) const R12: Gpr = Gpr(12);
pub(super) const R13: Gpr = Gpr(13);
pub(super) const R14: Gpr = Gpr(14);
pub(super) const R15: Gpr = Gpr(15);

/// The register of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// A general-purpose register.
    Gpr(Gpr),
    /// A vector register: an index for each lane, of a gather.
    Vector(u8),
}

/// An address: `base + index * scale + disp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) base: Gpr,
    /// The index, and its scale: 1, 2, 4 or 8.
    pub(super) index: Option<(Index, u8)>,
    pub(super) disp: i32,
}

/// Returns the address `base + disp`.
pub(super) const fn at(base: Gpr, disp: i32) -> Memory {
    Memory { base, index: None, disp }
}

impl Memory {
    /// Adds an index.
    pub(super) const fn plus(self, index: Gpr, scale: u8) -> Self {
        Self { index: Some((Index::Gpr(index), scale)), ..self }
    }
}

/// The operand of an instruction that may be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rm {
    /// A vector register or a mask register.
    Register(u8),
    /// A general-purpose register.
    Gpr(Gpr),
    /// Memory.
    Memory(Memory),
    /// Four bytes of memory, in all lanes. Only vectors of 512 bits have it.
    Broadcast(Memory),
}

/// How an instruction uses its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `to = op(first, rm)`.
    Two,
    /// `to = op(rm)`.
    One,
    /// `rm = to`: `to` is stored.
    Store,
    /// `first = op(rm, imm)`: a shift. The opcode goes on in the place of `to`.
    Shift(u8),
}

/// The encoding of an operation: opcode and prefixes.
#[derive(Clone, Copy, Debug)]
struct Form {
    name: &'static str,
    shape: Shape,
    /// The mandatory prefix: none, 66, F3 or F2, as 0 to 3.
    prefix: u8,
    /// The opcode map: 0F, 0F38 or 0F3A, as 1 to 3.
    map: u8,
    wide: bool,
    opcode: u8,
}

macro_rules! operations {
    ($($(#[$doc:meta])* $op:ident = $name:literal $shape:expr, $prefix:literal $map:literal $wide:literal $opcode:literal;)*) => {
        /// An operation on vectors or masks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Op { $($(#[$doc])* $op,)* }

        impl Op {
            /// Every operation, for tests.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$op,)*];

            const fn form(self) -> Form {
                match self { $(Self::$op => Form {
                    name: $name, shape: $shape, prefix: $prefix, map: $map, wide: $wide != 0, opcode: $opcode,
                },)* }
            }
        }
    };
}

use Shape::{One, Shift, Store, Two};

operations! {
    Add = "vaddps" Two, 0 1 0 0x58;
    Sub = "vsubps" Two, 0 1 0 0x5C;
    Mul = "vmulps" Two, 0 1 0 0x59;
    Div = "vdivps" Two, 0 1 0 0x5E;
    Min = "vminps" Two, 0 1 0 0x5D;
    Max = "vmaxps" Two, 0 1 0 0x5F;
    Fma213 = "vfmadd213ps" Two, 1 2 0 0xA8;
    Fma231 = "vfmadd231ps" Two, 1 2 0 0xB8;
    Sqrt = "vsqrtps" One, 0 1 0 0x51;
    /// With an immediate: the rounding. Its name in EVEX is `vrndscaleps`.
    Round = "vroundps" One, 1 3 0 0x08;
    ToF32 = "vcvtdq2ps" One, 0 1 0 0x5B;
    /// Rounds towards zero.
    ToI32 = "vcvttps2dq" One, 2 1 0 0x5B;
    /// Rounds to the nearest integer, ties to even.
    NearestI32 = "vcvtps2dq" One, 1 1 0 0x5B;
    AddI32 = "vpaddd" Two, 1 1 0 0xFE;
    MulI32 = "vpmulld" Two, 1 2 0 0x40;
    And = "vpand" Two, 1 1 0 0xDB;
    AndNot = "vpandn" Two, 1 1 0 0xDF;
    Or = "vpor" Two, 1 1 0 0xEB;
    Xor = "vpxor" Two, 1 1 0 0xEF;
    ShiftLeft = "vpslld" Shift(6), 1 1 0 0x72;
    ShiftRight = "vpsrld" Shift(2), 1 1 0 0x72;
    /// With an immediate: the condition.
    Compare = "vcmpps" Two, 0 1 0 0xC2;
    EqualI32 = "vpcmpeqd" Two, 1 1 0 0x76;
    GreaterI32 = "vpcmpgtd" Two, 1 1 0 0x66;
    /// `rm` where the mask register that the immediate names is true, else `first`. 256 bits.
    Blend = "vblendvps" Two, 1 3 0 0x4A;
    /// `rm` where the mask is true, else `first`. 512 bits.
    BlendMask = "vblendmps" Two, 1 2 0 0x65;
    Load = "vmovups" One, 0 1 0 0x10;
    StoreVector = "vmovups" Store, 0 1 0 0x11;
    /// Stores a vector around the caches, at a multiple of its bytes.
    StoreStreamed = "vmovntps" Store, 0 1 0 0x2B;
    /// Stores lanes as f16, in half of the bytes. With an immediate: the rounding, 0 for to nearest.
    StoreHalves = "vcvtps2ph" Store, 1 3 0 0x1D;
    LoadBytes = "vmovdqu8" One, 3 1 0 0x6F;
    StoreBytes = "vmovdqu8" Store, 3 1 0 0x7F;
    LoadWords = "vmovdqu" One, 2 1 0 0x6F;
    StoreWords = "vmovdqu" Store, 2 1 0 0x7F;
    /// Stores the low eight bytes of a vector.
    StoreEight = "vmovq" Store, 1 1 0 0xD6;
    Broadcast = "vbroadcastss" One, 1 2 0 0x18;
    BroadcastEight = "vpbroadcastq" One, 1 2 0 0x59;
    BroadcastHalf = "vbroadcasti128" One, 1 2 0 0x5A;
    /// Copies four bytes of the lowest lane to all lanes.
    BroadcastLane = "vpbroadcastd" One, 1 2 0 0x58;
    FromGpr = "vmovd" One, 1 1 0 0x6E;
    InsertHalf = "vinserti128" Two, 1 3 0 0x38;
    ExtractHalf = "vextracti128" Store, 1 3 0 0x39;
    /// Stores the quarter of a vector that the immediate names. 512 bits.
    ExtractQuarter = "vextracti32x4" Store, 1 3 0 0x39;
    ShuffleBytes = "vpshufb" Two, 1 2 0 0x00;
    PermuteBytes = "vpermb" Two, 1 2 0 0x8D;
    PermuteLanes = "vpermd" Two, 1 2 0 0x36;
    /// Takes lanes of `rm` by the indices in `first`.
    PermuteFloats = "vpermps" Two, 1 2 0 0x16;
    /// `rm` in the lanes whose bit the immediate has, else `first`. 256 bits.
    BlendLanes = "vblendps" Two, 1 3 0 0x0C;
    /// Loads a lane from each address. In 256 bits, `first` is the mask; both clear the mask.
    Gather = "vgatherdps" One, 1 2 0 0x92;
    /// Stores the low byte of each lane. 512 bits.
    NarrowToBytes = "vpmovdb" Store, 2 2 0 0x31;
    MaskAnd = "kandw" Two, 0 1 0 0x41;
    MaskAndNot = "kandnw" Two, 0 1 0 0x42;
    MaskOr = "korw" Two, 0 1 0 0x45;
    MaskFromGpr = "kmovq" One, 3 1 1 0x92;
    /// Sets the zero flag if all bits of both masks are 0.
    MaskTest = "kortestw" One, 0 1 0 0x98;
    /// Sets the zero flag if the sign bits of all lanes are 0.
    TestSigns = "vtestps" One, 1 2 0 0x0E;
}

/// Roundings of [`Op::Round`].
pub(super) mod rounding {
    pub(in super::super) const NEAREST: u8 = 8;
    pub(in super::super) const FLOOR: u8 = 9;
    pub(in super::super) const TRUNC: u8 = 11;
}

/// Conditions of [`Op::Compare`].
pub(super) mod condition {
    pub(in super::super) const EQUAL: u8 = 0;
    pub(in super::super) const LESS: u8 = 1;
}

/// An operation on vectors, with its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VectorInst {
    pub(super) op: Op,
    pub(super) bits: Bits,
    pub(super) to: u8,
    pub(super) first: u8,
    pub(super) rm: Rm,
    /// The mask register: lanes where it is false are not stored, or are 0 if `zeroes`. 0 is no mask.
    pub(super) mask: u8,
    pub(super) zeroes: bool,
    pub(super) imm: Option<u8>,
}

impl VectorInst {
    /// An instruction without mask and immediate.
    pub(super) const fn new(op: Op, bits: Bits, to: u8, first: u8, rm: Rm) -> Self {
        Self { op, bits, to, first, rm, mask: 0, zeroes: false, imm: None }
    }

    /// Adds an immediate.
    pub(super) const fn imm(self, imm: u8) -> Self {
        Self { imm: Some(imm), ..self }
    }

    /// Adds a mask: lanes outside it are not stored, or keep what they had, or are chosen as the operation says.
    pub(super) const fn masked(self, mask: u8) -> Self {
        Self { mask, ..self }
    }

    /// Adds a mask: lanes outside it become 0.
    pub(super) const fn zeroed(self, mask: u8) -> Self {
        Self { mask, zeroes: true, ..self }
    }

    /// True if the instruction exists with the EVEX prefix only, or with the VEX prefix only; `None` if with both.
    const fn needs_evex(&self) -> Option<bool> {
        match self.op {
            Op::BlendMask
            | Op::LoadBytes
            | Op::StoreBytes
            | Op::ExtractQuarter
            | Op::PermuteBytes
            | Op::NarrowToBytes => Some(true),
            Op::Blend
            | Op::BlendLanes
            | Op::LoadWords
            | Op::StoreWords
            | Op::InsertHalf
            | Op::ExtractHalf
            | Op::BroadcastHalf
            | Op::TestSigns
            | Op::MaskAnd
            | Op::MaskAndNot
            | Op::MaskOr
            | Op::MaskFromGpr
            | Op::MaskTest => Some(false),
            _ => None,
        }
    }

    /// True if the instruction is encoded with the EVEX prefix.
    fn is_evex(&self) -> bool {
        let has_high = |rm: Rm| match rm {
            Rm::Register(register) => register >= 16,
            Rm::Memory(Memory { index: Some((Index::Vector(register), _)), .. }) => register >= 16,
            _ => false,
        };
        let needs = self.bits == Bits::B512
            || self.mask != 0
            || self.to >= 16
            || self.first >= 16
            || has_high(self.rm)
            || matches!(self.rm, Rm::Broadcast(_));
        self.needs_evex().unwrap_or(needs)
    }

    /// Returns the opcode's extension or the register in the place of `to`, and the one in the place of `first`.
    fn fields(&self) -> (u8, u8) {
        match self.op.form().shape {
            Shift(extension) => (extension, self.to),
            _ => (self.to, self.first),
        }
    }

    fn encode(&self, code: &mut Vec<u8>) {
        let form = self.op.form();
        let (reg, second) = self.fields();
        let [x, b, high] = match self.rm {
            Rm::Register(register) => [register >> 4 & 1, register >> 3 & 1, second >> 4],
            Rm::Gpr(register) => [0, register.0 >> 3, second >> 4],
            Rm::Memory(memory) | Rm::Broadcast(memory) => match memory.index {
                None => [0, memory.base.0 >> 3, second >> 4],
                Some((Index::Gpr(index), _)) => [index.0 >> 3, memory.base.0 >> 3, second >> 4],
                Some((Index::Vector(index), _)) => {
                    [index >> 3 & 1, memory.base.0 >> 3, index >> 4 | second >> 4]
                }
            },
        };
        let r = reg >> 3 & 1;
        let wide = u8::from(form.wide);
        if self.is_evex() {
            let not = |bit: u8| bit & 1 ^ 1;
            let broadcast = u8::from(matches!(self.rm, Rm::Broadcast(_)));
            let length = self.bits as u8;
            code.extend([
                0x62,
                not(r) << 7 | not(x) << 6 | not(b) << 5 | not(reg >> 4) << 4 | form.map,
                wide << 7 | (!second & 15) << 3 | 4 | form.prefix,
                u8::from(self.zeroes) << 7
                    | length << 5
                    | broadcast << 4
                    | not(high) << 3
                    | self.mask,
            ]);
        } else {
            let is_masks = matches!(self.op, Op::MaskAnd | Op::MaskAndNot | Op::MaskOr);
            let length = u8::from(self.bits == Bits::B256 || is_masks);
            code.extend([
                0xC4,
                (r ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | form.map,
                wide << 7 | (!second & 15) << 3 | length << 2 | form.prefix,
            ]);
        }
        code.push(form.opcode);
        modrm(code, reg, self.rm);
        code.extend(self.imm);
    }
}

/// An operation on general-purpose registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// `to = from`, eight bytes.
    Move(Gpr, Rm),
    /// `to += from`.
    Add(Gpr, Rm),
    /// `to -= from`.
    Sub(Gpr, Rm),
    /// `to &= from`.
    And(Gpr, Rm),
    /// `to *= from`.
    Multiply(Gpr, Rm),
    /// `to = from * number`.
    MultiplyBy(Gpr, Rm, i32),
    /// `to = number`.
    Set(Gpr, i32),
    /// `to += number`.
    AddNumber(Gpr, i32),
    /// `to &= number`, which is sign-extended.
    AndNumber(Gpr, i32),
    /// Compares with a number, for a jump.
    CompareNumber(Gpr, i32),
    /// Shifts right by a number of bits, copying the sign.
    ShiftRightSigned(Gpr, u8),
    /// `to` = the lowest bits of `from`, as many as `count` says; all if it says 64 or more.
    LowBits {
        to: Gpr,
        from: Gpr,
        count: Gpr,
    },
    /// `to = from << count`.
    ShiftLeft {
        to: Gpr,
        from: Gpr,
        count: Gpr,
    },
    Push(Gpr),
    Pop(Gpr),
    /// Asks for memory that is read later, at any address: it never faults.
    Prefetch(Memory),
}

/// A condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    Equal,
    NotEqual,
    Less,
    NotLess,
}

/// A place in the code that jumps lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label(pub(super) usize);

/// One machine instruction, or a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inst {
    Vector(VectorInst),
    Scalar(Scalar),
    Jump(Condition, Label),
    Label(Label),
    /// Clears the upper halves of the registers and returns.
    Return,
}

/// Returns the bytes of instructions.
pub(super) fn encode(insts: &[Inst]) -> Vec<u8> {
    let (mut code, mut jumps) = (vec![], vec![]);
    let mut labels = std::collections::HashMap::new();
    for inst in insts {
        match inst {
            Inst::Vector(vector) => vector.encode(&mut code),
            Inst::Scalar(scalar) => scalar.encode(&mut code),
            Inst::Label(label) => drop(labels.insert(*label, code.len())),
            Inst::Jump(condition, label) => {
                match condition {
                    Condition::Always => code.push(0xE9),
                    Condition::Equal => code.extend([0x0F, 0x84]),
                    Condition::NotEqual => code.extend([0x0F, 0x85]),
                    Condition::Less => code.extend([0x0F, 0x8C]),
                    Condition::NotLess => code.extend([0x0F, 0x8D]),
                }
                jumps.push((code.len(), *label));
                code.extend([0; 4]);
            }
            Inst::Return => code.extend([0xC5, 0xF8, 0x77, 0xC3]),
        }
    }
    for (from, label) in jumps {
        let distance = labels[&label] as i32 - (from as i32 + 4);
        code[from..from + 4].copy_from_slice(&distance.to_le_bytes());
    }
    code
}

/// Appends the bytes that name a register and an operand.
fn modrm(code: &mut Vec<u8>, reg: u8, rm: Rm) {
    let reg = (reg & 7) << 3;
    let memory = match rm {
        Rm::Register(register) => return code.push(0xC0 | reg | register & 7),
        Rm::Gpr(register) => return code.push(0xC0 | reg | register.0 & 7),
        Rm::Memory(memory) | Rm::Broadcast(memory) => memory,
    };
    let base = memory.base.0 & 7;
    // Without a displacement, this base would mean an address relative to the code.
    let has_disp = memory.disp != 0 || base == 5;
    let mode = if has_disp { 0x80 } else { 0 };
    match memory.index {
        None if base != 4 => code.push(mode | reg | base),
        index => {
            let (index, scale) = match index {
                None => (4, 1), // no index
                Some((Index::Gpr(index), scale)) => (index.0 & 7, scale),
                Some((Index::Vector(index), scale)) => (index & 7, scale),
            };
            code.extend([mode | reg | 4, (scale.trailing_zeros() as u8) << 6 | index << 3 | base]);
        }
    }
    if has_disp {
        code.extend(memory.disp.to_le_bytes());
    }
}

impl Scalar {
    fn encode(self, code: &mut Vec<u8>) {
        let mut with_number = |opcode: u8, reg: u8, rm: Rm, number: i32| {
            plain(code, &[opcode], reg, rm);
            code.extend(number.to_le_bytes());
        };
        match self {
            Self::Move(to, from) => plain(code, &[0x8B], to.0, from),
            Self::Add(to, from) => plain(code, &[0x03], to.0, from),
            Self::Sub(to, from) => plain(code, &[0x2B], to.0, from),
            Self::And(to, from) => plain(code, &[0x23], to.0, from),
            Self::Multiply(to, from) => plain(code, &[0x0F, 0xAF], to.0, from),
            Self::MultiplyBy(to, from, number) => with_number(0x69, to.0, from, number),
            Self::Set(to, number) => with_number(0xC7, 0, Rm::Gpr(to), number),
            Self::AddNumber(to, number) => with_number(0x81, 0, Rm::Gpr(to), number),
            Self::AndNumber(to, number) => with_number(0x81, 4, Rm::Gpr(to), number),
            Self::CompareNumber(to, number) => with_number(0x81, 7, Rm::Gpr(to), number),
            Self::ShiftRightSigned(to, bits) => {
                plain(code, &[0xC1], 7, Rm::Gpr(to));
                code.push(bits);
            }
            Self::LowBits { to, from, count } => counted(code, (0, 0xF5), to, from, count),
            Self::ShiftLeft { to, from, count } => counted(code, (1, 0xF7), to, from, count),
            Self::Push(register) => code.extend([0x40 | register.0 >> 3, 0x50 | register.0 & 7]),
            Self::Pop(register) => code.extend([0x40 | register.0 >> 3, 0x58 | register.0 & 7]),
            Self::Prefetch(memory) => plain(code, &[0x0F, 0x18], 1, Rm::Memory(memory)),
        }
    }
}

/// Appends an instruction of eight bytes on general-purpose registers.
fn plain(code: &mut Vec<u8>, opcode: &[u8], reg: u8, rm: Rm) {
    let (x, b) = match rm {
        Rm::Register(register) => (0, register >> 3),
        Rm::Gpr(register) => (0, register.0 >> 3),
        Rm::Memory(memory) | Rm::Broadcast(memory) => match memory.index {
            Some((Index::Gpr(index), _)) => (index.0 >> 3, memory.base.0 >> 3),
            _ => (0, memory.base.0 >> 3),
        },
    };
    code.push(0x48 | (reg >> 3) << 2 | x << 1 | b);
    code.extend(opcode);
    modrm(code, reg, rm);
}

/// Appends an instruction whose count of bits is in a register.
fn counted(code: &mut Vec<u8>, (prefix, opcode): (u8, u8), to: Gpr, from: Gpr, count: Gpr) {
    code.extend([
        0xC4,
        (to.0 >> 3 ^ 1) << 7 | 1 << 6 | (from.0 >> 3 ^ 1) << 5 | 2,
        1 << 7 | (!count.0 & 15) << 3 | prefix,
        opcode,
    ]);
    modrm(code, to.0, Rm::Gpr(from));
}

impl fmt::Display for Gpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
        match NAMES.get(usize::from(self.0)) {
            Some(name) => f.write_str(name),
            None => write!(f, "r{}", self.0),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.base)?;
        match self.index {
            None => {}
            Some((Index::Gpr(index), scale)) => write!(f, "+{index}*{scale}")?,
            Some((Index::Vector(index), scale)) => write!(f, "+v{index}*{scale}")?,
        }
        match self.disp {
            0 => f.write_str("]"),
            disp => write!(f, "{disp:+#x}]"),
        }
    }
}

impl VectorInst {
    /// Returns the name of the instruction.
    pub(super) fn name(&self) -> &'static str {
        match (self.op, self.is_evex()) {
            (Op::Round, true) => "vrndscaleps",
            (Op::And, true) => "vpandd",
            (Op::AndNot, true) => "vpandnd",
            (Op::Or, true) => "vpord",
            (Op::Xor, true) => "vpxord",
            _ => self.op.form().name,
        }
    }
}

impl fmt::Display for VectorInst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vector = match self.bits {
            Bits::B128 => "xmm",
            Bits::B256 => "ymm",
            Bits::B512 => "zmm",
        };
        let is_mask = matches!(
            self.op,
            Op::MaskAnd | Op::MaskAndNot | Op::MaskOr | Op::MaskFromGpr | Op::MaskTest
        );
        let compares = matches!(self.op, Op::Compare | Op::EqualI32 | Op::GreaterI32);
        let register = |number: u8, is_mask: bool| match is_mask {
            true => format!("k{number}"),
            false => format!("{vector}{number}"),
        };
        let to = register(self.to, is_mask || compares && self.is_evex());
        let rm = match self.rm {
            Rm::Register(number) => register(number, is_mask),
            Rm::Gpr(gpr) => gpr.to_string(),
            Rm::Memory(memory) => memory.to_string(),
            Rm::Broadcast(memory) => format!("{memory}{{1to16}}"),
        };
        let mask = match (self.mask, self.zeroes) {
            (0, _) => String::new(),
            (mask, false) => format!("{{k{mask}}}"),
            (mask, true) => format!("{{k{mask}}}{{z}}"),
        };
        write!(f, "{} ", self.name())?;
        match self.op.form().shape {
            Two => write!(f, "{to}{mask}, {}, {rm}", register(self.first, is_mask))?,
            One | Shift(_) => write!(f, "{to}{mask}, {rm}")?,
            Store => write!(f, "{rm}{mask}, {to}")?,
        }
        match self.imm {
            None => Ok(()),
            Some(mask) if self.op == Op::Blend => write!(f, ", ymm{}", mask >> 4),
            Some(imm) => write!(f, ", {imm}"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rm = |rm: &Rm| match rm {
            Rm::Gpr(gpr) => gpr.to_string(),
            Rm::Memory(memory) | Rm::Broadcast(memory) => memory.to_string(),
            Rm::Register(number) => number.to_string(),
        };
        match self {
            Self::Move(to, from) => write!(f, "mov {to}, {}", rm(from)),
            Self::Add(to, from) => write!(f, "add {to}, {}", rm(from)),
            Self::Sub(to, from) => write!(f, "sub {to}, {}", rm(from)),
            Self::And(to, from) => write!(f, "and {to}, {}", rm(from)),
            Self::Multiply(to, from) => write!(f, "imul {to}, {}", rm(from)),
            Self::MultiplyBy(to, from, number) => write!(f, "imul {to}, {}, {number}", rm(from)),
            Self::Set(to, number) => write!(f, "mov {to}, {number}"),
            Self::AddNumber(to, number) => write!(f, "add {to}, {number}"),
            Self::AndNumber(to, number) => write!(f, "and {to}, {number}"),
            Self::CompareNumber(to, number) => write!(f, "cmp {to}, {number}"),
            Self::ShiftRightSigned(to, bits) => write!(f, "sar {to}, {bits}"),
            Self::LowBits { to, from, count } => write!(f, "bzhi {to}, {from}, {count}"),
            Self::ShiftLeft { to, from, count } => write!(f, "shlx {to}, {from}, {count}"),
            Self::Push(register) => write!(f, "push {register}"),
            Self::Pop(register) => write!(f, "pop {register}"),
            Self::Prefetch(memory) => write!(f, "prefetcht0 {memory}"),
        }
    }
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vector(vector) => write!(f, "  {vector}"),
            Self::Scalar(scalar) => write!(f, "  {scalar}"),
            Self::Jump(condition, label) => {
                let name = match condition {
                    Condition::Always => "jmp",
                    Condition::Equal => "je",
                    Condition::NotEqual => "jne",
                    Condition::Less => "jl",
                    Condition::NotLess => "jge",
                };
                write!(f, "  {name} label{}", label.0)
            }
            Self::Label(label) => write!(f, "label{}:", label.0),
            Self::Return => f.write_str("  vzeroupper\n  ret"),
        }
    }
}

#[cfg(test)]
mod tests;
