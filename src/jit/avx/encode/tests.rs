//! Every instruction, as another decoder reads its bytes.

use super::*;
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};

/// Decodes one instruction, which must have all bytes.
fn decoded(inst: Inst) -> Instruction {
    let code = encode(&[inst]);
    let decoded = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).decode();
    assert_eq!(decoded.len(), code.len(), "{inst}: {code:02x?} is {:?}", decoded.code());
    decoded
}

/// Returns the name of a decoded instruction, in lower case.
fn name(inst: &Instruction) -> String {
    format!("{:?}", inst.mnemonic()).to_lowercase()
}

/// The widths that an operation is used with.
fn widths(op: Op) -> &'static [Bits] {
    match op {
        Op::MaskAnd | Op::MaskAndNot | Op::MaskOr | Op::MaskFromGpr | Op::MaskTest => &[Bits::B128],
        Op::FromGpr | Op::StoreEight => &[Bits::B128],
        Op::Blend
        | Op::BlendLanes
        | Op::InsertHalf
        | Op::ExtractHalf
        | Op::BroadcastHalf
        | Op::TestSigns => &[Bits::B256],
        Op::BroadcastEight => &[Bits::B256],
        Op::BlendMask | Op::ExtractQuarter | Op::PermuteBytes | Op::NarrowToBytes => &[Bits::B512],
        Op::LoadBytes | Op::StoreBytes => &[Bits::B128, Bits::B256, Bits::B512],
        Op::LoadWords | Op::StoreWords => &[Bits::B128, Bits::B256],
        _ => &[Bits::B256, Bits::B512],
    }
}

/// True if the last operand may be a register, memory, or four bytes of memory in all lanes.
fn operands(op: Op) -> [bool; 3] {
    match op {
        Op::MaskAnd | Op::MaskAndNot | Op::MaskOr | Op::MaskTest => [true, false, false],
        Op::MaskFromGpr | Op::FromGpr => [false, false, false],
        Op::ShiftLeft | Op::ShiftRight | Op::BroadcastLane | Op::TestSigns => [true, false, false],
        Op::Blend | Op::BlendLanes | Op::ShuffleBytes | Op::PermuteBytes => [true, true, false],
        Op::Load => [true, true, false],
        Op::PermuteLanes => [true, true, true],
        Op::InsertHalf | Op::BroadcastHalf | Op::BroadcastEight | Op::Broadcast => {
            [false, true, false]
        }
        Op::StoreVector
        | Op::StoreStreamed
        | Op::StoreHalves
        | Op::LoadBytes
        | Op::StoreBytes
        | Op::LoadWords
        | Op::StoreWords
        | Op::StoreEight
        | Op::ExtractQuarter
        | Op::NarrowToBytes => [false, true, false],
        Op::ExtractHalf => [true, false, false],
        Op::Gather => [false, false, false],
        _ => [true, true, true],
    }
}

fn has_imm(op: Op) -> bool {
    matches!(
        op,
        Op::Round
            | Op::ShiftLeft
            | Op::ShiftRight
            | Op::Compare
            | Op::Blend
            | Op::BlendLanes
            | Op::InsertHalf
            | Op::ExtractHalf
            | Op::ExtractQuarter
            | Op::StoreHalves
    )
}

/// Addresses of all forms: every base, no index and every index and scale, displacements of every size.
fn addresses() -> Vec<Memory> {
    let registers = || (0..16).map(Gpr);
    let mut all = vec![];
    for base in registers() {
        for disp in [0, 1, -1, 0x7F, -0x80, 0x80, 0x1234, -0x1234, i32::MAX, i32::MIN] {
            all.push(at(base, disp));
        }
        // The stack pointer is no index.
        for index in registers().filter(|index| index.0 != 4) {
            for scale in [1, 2, 4, 8] {
                all.push(at(base, 0).plus(index, scale));
                all.push(at(base, -0x140).plus(index, scale));
            }
        }
    }
    all
}

fn assert_memory(inst: &Instruction, memory: Memory, what: &dyn fmt::Display) {
    assert_eq!(inst.memory_base().number(), usize::from(memory.base.0), "{what}");
    assert_eq!(inst.memory_displacement64() as i64, i64::from(memory.disp), "{what}");
    match memory.index {
        None => assert_eq!(inst.memory_index(), Register::None, "{what}"),
        Some((index, scale)) => {
            let number = match index {
                Index::Gpr(gpr) => gpr.0,
                Index::Vector(vector) => vector,
            };
            assert_eq!(inst.memory_index().number(), usize::from(number), "{what}");
            assert_eq!(inst.memory_index_scale(), u32::from(scale), "{what}");
        }
    }
}

/// Checks one instruction: name, registers, memory, mask, immediate, and the width.
fn check(inst: VectorInst) {
    let read = decoded(Inst::Vector(inst));
    assert_eq!(name(&read), inst.name(), "{inst}");
    let mut numbers = vec![];
    let to = (0, inst.to);
    match inst.op.form().shape {
        Two => numbers.extend([to, (1, inst.first)]),
        One | Shift(_) => numbers.push(to),
        Store => numbers.push((1, inst.to)),
    }
    let rm = match inst.op.form().shape {
        Two => 2,
        One | Shift(_) => 1,
        Store => 0,
    };
    match inst.rm {
        Rm::Register(register) => numbers.push((rm, register)),
        Rm::Gpr(gpr) => numbers.push((rm, gpr.0)),
        Rm::Memory(memory) | Rm::Broadcast(memory) => {
            assert_eq!(read.op_kind(rm), OpKind::Memory, "{inst}");
            assert_memory(&read, memory, &inst);
        }
    }
    for (operand, number) in numbers {
        assert_eq!(read.op_kind(operand), OpKind::Register, "{inst}");
        assert_eq!(read.op_register(operand).number(), usize::from(number), "{inst}");
    }
    assert_eq!(read.is_broadcast(), matches!(inst.rm, Rm::Broadcast(_)), "{inst}");
    let mask = match read.op_mask() {
        Register::None => 0,
        mask => mask.number(),
    };
    assert_eq!((mask, read.zeroing_masking()), (usize::from(inst.mask), inst.zeroes), "{inst}");
    if let Some(imm) = inst.imm {
        match inst.op {
            Op::Blend => assert_eq!(read.op_register(3).number(), usize::from(imm >> 4), "{inst}"),
            _ => assert_eq!(read.immediate8(), imm, "{inst}"),
        }
    }
    let bytes = [16, 32, 64][inst.bits as usize];
    let registers =
        (0..read.op_count()).filter(|operand| read.op_kind(*operand) == OpKind::Register);
    let widest =
        registers.map(|operand| read.op_register(operand)).filter(|register| !register.is_gpr());
    let widest = widest.map(Register::size).max().unwrap_or_default();
    let is_mask = widths(inst.op) == [Bits::B128] && inst.op.form().name.starts_with('k');
    assert!(is_mask || widest == bytes, "{inst}: {widest} bytes");
}

/// The instructions with an operand, in the widths of its operation, with and without masks.
fn all_of(op: Op, to: u8, first: u8, rm: Rm) -> Vec<VectorInst> {
    let compares = matches!(op, Op::Compare | Op::EqualI32 | Op::GreaterI32);
    let mut all = vec![];
    for &bits in widths(op) {
        let is_masks = op.form().name.starts_with('k');
        let most = match (bits, is_masks) {
            (_, true) => 8,
            (Bits::B512, _) => 32,
            _ if matches!(op, Op::LoadBytes | Op::StoreBytes) => 32,
            _ => 16,
        };
        let to = if compares && bits == Bits::B512 { to % 8 } else { to % most };
        let rm = match rm {
            Rm::Register(register) => Rm::Register(register % most),
            Rm::Broadcast(_) if bits != Bits::B512 => continue,
            rm => rm,
        };
        // Operations without a second operand leave its place free.
        let first = if op.form().shape == Two { first % most } else { 0 };
        let plain = VectorInst::new(op, bits, to, first, rm);
        let plain = match op {
            Op::Blend => plain.imm(first.wrapping_mul(7) << 4),
            _ if has_imm(op) => plain.imm(1),
            _ => plain,
        };
        if op != Op::BlendMask {
            all.push(plain);
        }
        let can_be_masked =
            bits == Bits::B512 && !is_masks && !matches!(op, Op::Gather | Op::StoreStreamed);
        if can_be_masked {
            for mask in 1..8 {
                all.push(plain.masked(mask));
                let stores = op.form().shape == Store;
                if !stores && !compares {
                    all.push(plain.zeroed(mask));
                }
            }
        }
    }
    all
}

#[test]
fn every_register_is_read_as_it_was_meant() {
    let mut count = 0;
    for &op in Op::ALL {
        let [register, memory, _] = operands(op);
        for number in 0..32 {
            let other = (number * 5 + 3) % 32;
            let rm = if register { Rm::Register(other) } else { Rm::Memory(at(RDI, 64)) };
            let rm = match op {
                Op::MaskFromGpr | Op::FromGpr => Rm::Gpr(Gpr(other % 16)),
                Op::Gather => continue,
                _ => rm,
            };
            assert!(register || memory || matches!(rm, Rm::Gpr(_)));
            for inst in all_of(op, number, (number + 11) % 32, rm) {
                check(inst);
                count += 1;
            }
        }
    }
    assert!(count > 5_000, "{count} instructions");
}

#[test]
fn every_address_is_read_as_it_was_meant() {
    for &op in Op::ALL {
        let [_, memory, broadcast] = operands(op);
        for address in addresses() {
            let rms = [(memory, Rm::Memory(address)), (broadcast, Rm::Broadcast(address))];
            for (_, rm) in rms.into_iter().filter(|(is_allowed, _)| *is_allowed) {
                all_of(op, 9, 6, rm).into_iter().filter(|inst| inst.mask < 2).for_each(check);
            }
        }
    }
}

#[test]
fn gathers_have_an_index_for_each_lane() {
    for register in 0..32 {
        for disp in [0, 1024, -1024] {
            let (to, index) = ((register + 1) % 32, Index::Vector(register));
            let memory = Memory { base: R14, index: Some((index, 4)), disp };
            let wide = VectorInst::new(Op::Gather, Bits::B512, to, 0, Rm::Memory(memory)).masked(4);
            let read = decoded(Inst::Vector(wide));
            assert_eq!((name(&read).as_str(), read.op_mask()), ("vgatherdps", Register::K4));
            assert_eq!(read.op_register(0).number(), usize::from(to));
            assert_memory(&read, memory, &wide);
            if register < 15 {
                let mask = (register + 2) % 16;
                let narrow = VectorInst::new(Op::Gather, Bits::B256, to, mask, Rm::Memory(memory));
                let read = decoded(Inst::Vector(narrow));
                assert_eq!(read.op_register(2).number(), usize::from(mask));
                assert_eq!(read.op_register(0).number(), usize::from(to));
                assert_memory(&read, memory, &narrow);
            }
        }
    }
}

#[test]
fn general_purpose_registers_are_read_as_they_were_meant() {
    let registers: Vec<Gpr> = (0..16).map(Gpr).collect();
    let check = |scalar: Scalar, want: &str, numbers: &[u8], number: Option<i32>| {
        let read = decoded(Inst::Scalar(scalar));
        assert_eq!(name(&read), want, "{scalar}");
        for (operand, number) in (0..).zip(numbers) {
            let register = read.op_register(operand);
            assert!(register.is_gpr64(), "{scalar}");
            assert_eq!(register.number(), usize::from(*number), "{scalar}");
        }
        if let Some(number) = number {
            let last = read.op_count() - 1;
            assert_eq!(read.immediate(last) as i64, i64::from(number), "{scalar}");
        }
        assert!(scalar.to_string().starts_with(want), "{scalar}");
    };
    for &to in &registers {
        for &from in &registers {
            let (rm, both) = (Rm::Gpr(from), [to.0, from.0]);
            check(Scalar::Move(to, rm), "mov", &both, None);
            check(Scalar::Add(to, rm), "add", &both, None);
            check(Scalar::Sub(to, rm), "sub", &both, None);
            check(Scalar::And(to, rm), "and", &both, None);
            check(Scalar::Multiply(to, rm), "imul", &both, None);
            check(Scalar::MultiplyBy(to, rm, -48), "imul", &both, Some(-48));
            let count = Gpr((to.0 + from.0) % 16);
            let three = [to.0, from.0, count.0];
            check(Scalar::LowBits { to, from, count }, "bzhi", &three, None);
            check(Scalar::ShiftLeft { to, from, count }, "shlx", &three, None);
        }
        for number in [0, 1, -1, 127, -128, 1 << 20, i32::MIN, i32::MAX] {
            check(Scalar::Set(to, number), "mov", &[to.0], Some(number));
            check(Scalar::AddNumber(to, number), "add", &[to.0], Some(number));
            check(Scalar::AndNumber(to, number), "and", &[to.0], Some(number));
            check(Scalar::CompareNumber(to, number), "cmp", &[to.0], Some(number));
        }
        check(Scalar::ShiftRightSigned(to, 63), "sar", &[to.0], None);
        check(Scalar::Push(to), "push", &[to.0], None);
        check(Scalar::Pop(to), "pop", &[to.0], None);
        for address in addresses() {
            let scalar = Scalar::Move(to, Rm::Memory(address));
            let read = decoded(Inst::Scalar(scalar));
            assert_eq!(read.op_register(0).number(), usize::from(to.0), "{scalar}");
            assert_memory(&read, address, &scalar);
        }
    }
    for address in addresses() {
        let prefetch = Scalar::Prefetch(address);
        let read = decoded(Inst::Scalar(prefetch));
        assert_eq!((name(&read).as_str(), read.op_count()), ("prefetcht0", 1));
        assert_memory(&read, address, &prefetch);
    }
}

#[test]
fn jumps_lead_to_their_labels() {
    let (back, ahead) = (Label(1), Label(2));
    let add = Inst::Scalar(Scalar::AddNumber(RAX, 1));
    for (condition, want) in [
        (Condition::Always, "jmp"),
        (Condition::Equal, "je"),
        (Condition::NotEqual, "jne"),
        (Condition::Less, "jl"),
        (Condition::NotLess, "jge"),
    ] {
        let jumps = [Inst::Jump(condition, ahead), Inst::Jump(condition, back)];
        let insts = [
            add,
            Inst::Label(back),
            add,
            jumps[0],
            jumps[1],
            add,
            Inst::Label(ahead),
            Inst::Return,
        ];
        let code = encode(&insts);
        let all: Vec<_> = Decoder::with_ip(64, &code, 0, DecoderOptions::NONE).iter().collect();
        assert_eq!(all.iter().map(name).collect::<Vec<_>>()[2..4], [want, want]);
        assert_eq!(all[2].near_branch64(), all[5].ip(), "ahead");
        assert_eq!(all[3].near_branch64(), all[1].ip(), "back");
        assert_eq!((name(&all[5]).as_str(), name(&all[6]).as_str()), ("vzeroupper", "ret"));
    }
}
