//! The loops over rows and groups of pixels: loads, the steps of the fused ops, and stores.
//!
//! ```text
//! fn(parameter block, constants, source, output, first row, number of rows):
//!     for each row:
//!         steps of the row (rectangles, maps of positions)
//!         for each group of 8 or 16 pixels: load, unpack to f32, steps, store
//! ```
//!
//! With 512 bits, a mask leaves out the pixels after the end of a row, which are neither read nor written. With
//! 256 bits, the last group of a row is moved back to end with the row, as in the 128-bit code; rows have at least
//! a group. With 512 bits, other masks leave out the pixels that a shift moves out of view, if the block has such a
//! shift: the parameter block has a mask of the bytes of each group.
//!
//! `source` is the lower of the addresses that a group of eight pixels is loaded from, as
//! [`PassWord::First`] and [`PassWord::Last`] have them. If the image is mirrored, the pixels of a group lie
//! backwards in memory; other permutations of bytes put them in order.

use super::encode::{
    Bits, Condition, Gpr, Inst, Label, Memory, Op, R8, R9, R10, R11, R12, R13, R14, R15, RAX, RBP,
    RBX, RCX, RDI, RDX, RSI, Rm, Scalar, VectorInst, at,
};
use super::group::{Def, Group, Id, Step};
use super::pass_word;
use super::registers::Registers;
use super::stores::{self, Packing};
use crate::jit::emit::{BodySpec, Constants, PassStore};
use crate::jit::param_block::{HeaderWord, PassWord};
use crate::jit::vector_bits::Fallback;
use crate::plan::FusedOp;
use fuseloop_ops::DType;
use fuseloop_ops::internals::channel_of;

/// The number of rows before a row is read that its bytes are asked for: images that lie in memory are not in the
/// caches, and where a window of one ends, its next row begins elsewhere.
const ROWS_AHEAD: u8 = 4;

/// The columns of a row less [`PassWord::LastGroup`].
const LAST_GROUP: i32 = 8;

/// The address of the pixels of a row's next group, and of where they are stored.
const SOURCE: Gpr = RAX;
pub(super) const TO: Gpr = R10;
/// The pixels left in the row, less a group.
pub(super) const LEFT: Gpr = R11;
/// The bytes between planes.
pub(super) const PLANE: Gpr = RBX;
/// The bytes from a group of the source to the next.
const STEP: Gpr = RBP;
/// The address of the permutations of the source's bytes.
const PERMUTATIONS: Gpr = R13;
/// With 512 bits, the address of the next group's mask, once the permutations are in registers.
const MASKS: Gpr = R13;
/// With 256 bits, what is added to the address for each half of a group. With 512 bits, they are free.
const HALVES: [Gpr; 2] = [R15, R12];

/// The registers that the caller keeps.
const SAVED: [Gpr; 6] = [RBX, RBP, R12, R13, R14, R15];

/// The mask of the lanes of a row's last pixels, of the bytes that are loaded, and of the bytes that are stored.
pub(super) const LANES: u8 = 7;
const LOADED: u8 = 6;
pub(super) const STORED: u8 = 5;

/// Where two numbers lie after the ones: 16, and the mask of a byte.
const SIXTEEN: i32 = 64;
const LOW_BYTE: i32 = SIXTEEN + 4;

/// An index that takes no byte.
pub(super) const NOTHING: u8 = 0x80;

/// The steps of a loop, and the places of the constants that its loads and stores need.
pub(super) struct Parts<'g> {
    spec: BodySpec<'g>,
    pass: usize,
    pub(super) store: PassStore,
    values: &'g [Def],
    row: &'g [Step],
    steps: &'g [Step],
    columns: Option<Id>,
    y: Option<Id>,
    loaded: &'g [Id],
    /// The values that are stored: one for each plane, or one.
    stored: &'g [Id],
    /// The channels of the source, and of what is stored.
    pub(super) channels: [usize; 2],
    /// An index of each byte of a vector, for each channel; then the same for mirrored images.
    permutations: i32,
    /// The constants of [`stores`](super::stores).
    pub(super) packing: Packing,
    /// True if the parameter block has masks of the pixels in view.
    has_masks: bool,
    /// The bytes of a group that is not in view, unless they are 0.
    fill: Option<i32>,
    /// The numbers from 0 to 15.
    first_columns: i32,
    /// Eight lanes of zeros, eight of ones, and two numbers.
    ones: i32,
}

/// A loop while it is emitted.
pub(super) struct Row<'g> {
    pub(super) registers: Registers<'g>,
    pub(super) parts: &'g Parts<'g>,
    /// Registers of the indices of bytes, by channel: with 512 bits.
    unpack: Vec<u8>,
    /// The registers of the indices of [`Packing`].
    pub(super) pack: [Option<u8>; 2],
    pub(super) sums: Option<u8>,
    /// With 256 bits, the lanes that no earlier group of the row has covered.
    pub(super) fresh: Option<u8>,
}

/// Returns the instructions of a loop.
pub(super) fn build(
    spec: BodySpec<'_>,
    pass: usize,
    links: &[FusedOp],
    store: PassStore,
    bits: Bits,
    constants: &mut Constants,
) -> Result<Vec<Inst>, Fallback> {
    if spec.block.source != DType::U8 {
        return Err(Fallback::Source(spec.block.source));
    }
    let source = spec.block.channels;
    let mut group = Group::new(source, constants);
    let loaded = group.pixels.clone();
    group.apply(spec, pass, links);
    let channels = [source, group.pixels.len()];
    let stored = stores::finish(&mut group, spec, store);
    let permutations = group.constants.run(&permutations(source, bits));
    let columns: Vec<u8> = (0..16i32).flat_map(i32::to_le_bytes).collect();
    let first_columns = group.constants.run(columns.as_chunks::<16>().0);
    // Eight lanes of zeros, eight of ones, and two numbers.
    let numbers: [i32; 4] = [16, 255, 0, 0];
    let numbers: Vec<u8> = numbers.into_iter().flat_map(i32::to_le_bytes).collect();
    let ones = [[0; 16], [0; 16], [0xFF; 16], [0xFF; 16], numbers.as_chunks::<16>().0[0]];
    let ones = group.constants.run(&ones);
    let packing = Packing::new(store, channels[1], bits, group.constants);
    let framed = spec.block.padded_copy.filter(|_| bits == Bits::B512);
    let fill = framed.filter(|(_, fill)| *fill != [0; 3]);
    let fill = fill.map(|(_, fill)| group.constants.run(&bytes_of_fill(fill, source)));
    let Group { values, row, steps, columns, y, .. } = group;
    let parts = Parts {
        spec,
        pass,
        store,
        values: &values,
        row: &row,
        steps: &steps,
        columns,
        y,
        loaded: &loaded,
        stored: &stored,
        channels,
        permutations,
        packing,
        has_masks: framed.is_some(),
        fill,
        first_columns,
        ones,
    };
    let (code, unused) = Row::emit(&parts, bits, &[])?;
    if bits == Bits::B512 || unused == 0 {
        return Ok(code);
    }
    // Instructions of 256 bits can't read a number in memory for all lanes: the most frequent ones get the
    // registers that are left.
    let frequent = parts.most_read(unused);
    Ok(Row::emit(&parts, bits, &frequent)?.0)
}

impl Parts<'_> {
    /// Returns the numbers in memory that the steps of a group read most often, at most `most`.
    fn most_read(&self, most: usize) -> Vec<Id> {
        let mut reads = vec![0usize; self.values.len()];
        for step in self.steps {
            step.reads(|value| reads[value] += 1);
        }
        let is_read =
            |value: &Id| matches!(self.values[*value], Def::Memory(_)) && reads[*value] > 0;
        let mut values: Vec<Id> = (0..self.values.len()).filter(is_read).collect();
        values.sort_by_key(|value| std::cmp::Reverse(reads[*value]));
        values.truncate(most);
        values
    }
}

impl<'g> Row<'g> {
    /// Emits a loop that holds some numbers in registers. Returns the number of registers that were never used.
    fn emit(parts: &'g Parts<'g>, bits: Bits, held: &[Id]) -> Result<(Vec<Inst>, usize), Fallback> {
        let Parts { store, row, steps, .. } = *parts;
        let mut this = Row {
            registers: Registers::new(parts.values, bits),
            parts,
            unpack: vec![],
            pack: [None; 2],
            sums: None,
            fresh: None,
        };
        let (lanes, is_masked) = (bits.lanes() as i32, bits == Bits::B512);

        // Before the rows.
        SAVED.into_iter().for_each(|register| this.registers.scalar(Scalar::Push(register)));
        this.prologue()?;
        held.iter().try_for_each(|value| this.registers.hold(*value))?;
        let columns = parts.columns.map(|value| this.registers.pin(value)).transpose()?;
        if store == PassStore::Greys {
            this.sums = Some(this.registers.take()?);
            if !is_masked {
                this.fresh = Some(this.registers.take()?);
            }
        }

        // A row.
        let next_row = this.registers.label();
        this.registers.code.push(Inst::Label(next_row));
        let kept = kept_of_row(row, steps);
        if let Some(y) = parts.y {
            let r = &mut this.registers;
            r.begin(row, &kept);
            let register = r.define(y)?;
            r.broadcast(register, R8);
            r.steps(row)?;
            r.pin_kept(&kept);
        }
        this.row_start(columns);

        // Its groups.
        let [top, done, end] = [(); 3].map(|()| this.registers.label());
        if is_masked {
            this.registers.code.push(Inst::Jump(Condition::Less, done));
        }
        this.registers.code.push(Inst::Label(top));
        this.group(false)?;
        let pixel = store.pixel_bytes(parts.channels[1]);
        this.registers.scalar(Scalar::Add(SOURCE, Rm::Gpr(STEP)));
        this.registers.scalar(Scalar::AddNumber(TO, lanes * pixel));
        if let Some(columns) = columns {
            this.next_columns(columns)?;
        }
        this.registers.scalar(Scalar::AddNumber(LEFT, -lanes));
        this.registers.code.push(Inst::Jump(Condition::NotLess, top));
        this.registers.code.push(Inst::Label(done));
        this.registers.scalar(Scalar::CompareNumber(LEFT, -lanes));
        this.registers.code.push(Inst::Jump(Condition::Equal, end));
        if is_masked {
            this.set_masks();
            this.group(true)?;
        } else {
            this.move_back(columns, pixel)?;
            this.registers.scalar(Scalar::Set(LEFT, 0));
            this.registers.code.push(Inst::Jump(Condition::Always, top));
        }
        this.registers.code.push(Inst::Label(end));
        this.row_end(next_row);
        let unused = this.registers.unused();
        Ok((this.registers.code, unused))
    }
}

/// Returns the values of the steps of a row that the steps of a group read.
fn kept_of_row(row: &[Step], steps: &[Step]) -> Vec<Id> {
    let (mut made, mut kept) = (vec![], vec![]);
    for step in row {
        made.extend(step.result());
    }
    for step in steps {
        step.reads(|value| {
            if made.contains(&value) && !kept.contains(&value) {
                kept.push(value);
            }
        });
    }
    kept
}

/// Returns the indices of the bytes of each channel, for images in order and then for mirrored ones. With 512 bits,
/// an index that takes no byte is that of the last byte, which is 0 unless there are four channels.
fn permutations(channels: usize, bits: Bits) -> Vec<[u8; 16]> {
    let mut all = vec![];
    for mirrored in [false, true] {
        for c in 0..channels {
            let pixels = bits.lanes();
            for lane in 0..pixels {
                let pixel = if mirrored { pixels - 1 - lane } else { lane };
                if bits == Bits::B512 {
                    all.extend([(channels * pixel + c) as u8, 63, 63, 63]);
                    continue;
                }
                // A shuffle takes bytes of its own half. With one or two channels, both halves have all bytes;
                // otherwise each has the bytes that its pixels are loaded from.
                let begins = match (channels, pixel >= 4) {
                    (3, true) => 8,
                    (4, true) => 16,
                    _ => 0,
                };
                all.extend([(channels * pixel + c - begins) as u8, NOTHING, NOTHING, NOTHING]);
            }
        }
    }
    all.as_chunks::<16>().0.to_vec()
}

/// Returns the bytes of a group of a colour, and zeros after them.
fn bytes_of_fill(fill: [u8; 3], channels: usize) -> Vec<[u8; 16]> {
    let mut bytes = [[0; 16]; 4];
    let values = bytes.as_flattened_mut().iter_mut().take(16 * channels);
    values.enumerate().for_each(|(i, byte)| *byte = channel_of(fill, i % channels));
    bytes.to_vec()
}

/// Emits `to = factor * columns` of a row, of which `last` has the column of the last group of eight.
fn times_columns(r: &mut Registers<'_>, to: Gpr, factor: i32, last: Memory) {
    r.scalar(Scalar::Move(to, Rm::Memory(last)));
    r.scalar(Scalar::AddNumber(to, LAST_GROUP));
    r.scalar(Scalar::MultiplyBy(to, Rm::Gpr(to), factor));
}

impl Row<'_> {
    pub(super) fn bits(&self) -> Bits {
        self.registers.bits
    }

    fn word(&self, word: PassWord) -> Memory {
        at(RDI, pass_word(self.parts.spec, self.parts.pass, word))
    }

    /// Emits what does not change from row to row.
    fn prologue(&mut self) -> Result<(), Fallback> {
        let (step, last) = (self.word(PassWord::PixelStep), self.word(PassWord::LastGroup));
        let Parts { channels, permutations, packing, store, .. } = *self.parts;
        let r = &mut self.registers;
        let lanes = r.bits.lanes() as i32;
        // All ones if the image is mirrored.
        r.scalar(Scalar::Move(STEP, Rm::Memory(step)));
        r.scalar(Scalar::Move(R14, Rm::Gpr(STEP)));
        r.scalar(Scalar::ShiftRightSigned(R14, 63));
        r.scalar(Scalar::MultiplyBy(STEP, Rm::Gpr(STEP), lanes));
        let source = channels[0] as i32;
        r.scalar(Scalar::Move(PERMUTATIONS, Rm::Gpr(R14)));
        r.scalar(Scalar::AndNumber(PERMUTATIONS, 4 * lanes * source));
        r.scalar(Scalar::Add(PERMUTATIONS, Rm::Gpr(RSI)));
        r.scalar(Scalar::AddNumber(PERMUTATIONS, permutations));
        if r.bits == Bits::B512 {
            // The eight other pixels of a mirrored group lie before those of a group of eight.
            r.scalar(Scalar::AndNumber(R14, -8 * source));
            r.scalar(Scalar::Add(RDX, Rm::Gpr(R14)));
            for c in 0..source {
                let register = r.take()?;
                r.inst(Op::Load, register, 0, Rm::Memory(at(PERMUTATIONS, 64 * c)));
                self.unpack.push(register);
            }
        } else {
            let half = if source == 3 { 8 } else { 16 };
            let [first, second] = HALVES;
            r.scalar(Scalar::AndNumber(R14, half));
            r.scalar(Scalar::Move(first, Rm::Gpr(R14)));
            r.scalar(Scalar::Set(second, half));
            r.scalar(Scalar::Sub(second, Rm::Gpr(R14)));
        }
        for (pack, offset) in self.pack.iter_mut().zip(packing.held()) {
            if let Some(offset) = offset {
                let register = r.take()?;
                r.inst(Op::Load, register, 0, Rm::Memory(at(RSI, offset)));
                *pack = Some(register);
            }
        }
        match store {
            PassStore::Floats { by_row: true } => {
                times_columns(r, PLANE, 4, last);
            }
            PassStore::Floats { by_row: false }
            | PassStore::Streamed
            | PassStore::Halves
            | PassStore::Bf16Planes
            | PassStore::BytePlanes => {
                let plane = at(RDI, 8 * HeaderWord::Plane as i32);
                r.scalar(Scalar::Move(PLANE, Rm::Memory(plane)));
            }
            PassStore::FloatPixels { .. } | PassStore::Bytes | PassStore::Greys => {}
        }
        Ok(())
    }

    /// Emits the start of a row. The flags tell whether it has less than a group.
    fn row_start(&mut self, columns: Option<u8>) {
        let last = self.word(PassWord::LastGroup);
        let Parts { first_columns, channels: [source, _], has_masks, .. } = *self.parts;
        let (bits, sums, fresh) = (self.bits(), self.sums, self.fresh);
        if has_masks {
            self.row_masks();
        }
        let r = &mut self.registers;
        if bits == Bits::B512 && source == 3 && !has_masks {
            r.scalar(Scalar::Set(R15, 48));
            r.scalar(Scalar::Set(R14, -1));
            r.scalar(Scalar::LowBits { to: R14, from: R14, count: R15 });
            r.set_mask(LOADED, R14);
        }
        if let Some(columns) = columns {
            r.inst(Op::Load, columns, 0, Rm::Memory(at(RSI, first_columns)));
        }
        if let Some(sums) = sums {
            r.inst(Op::Xor, sums, sums, Rm::Register(sums));
        }
        if let Some(fresh) = fresh {
            r.inst(Op::EqualI32, fresh, fresh, Rm::Register(fresh));
        }
        r.scalar(Scalar::Move(SOURCE, Rm::Gpr(RDX)));
        r.scalar(Scalar::Move(TO, Rm::Gpr(RCX)));
        r.scalar(Scalar::Move(LEFT, Rm::Memory(last)));
        if bits == Bits::B512 {
            r.scalar(Scalar::AddNumber(LEFT, LAST_GROUP - 16));
        }
    }

    /// Sets the address of the masks of a row, which has other masks if it is in view.
    fn row_masks(&mut self) {
        let [first, count, none, to_masks] =
            [PassWord::FirstShown, PassWord::ShownRows, PassWord::NoMasks, PassWord::ToMasks]
                .map(|word| self.word(word));
        let r = &mut self.registers;
        r.scalar(Scalar::Move(R14, Rm::Gpr(R8)));
        r.scalar(Scalar::Sub(R14, Rm::Memory(first)));
        r.scalar(Scalar::Move(R15, Rm::Gpr(R14)));
        r.scalar(Scalar::Sub(R15, Rm::Memory(count)));
        // All ones if the row is above the ones in view; if it is above or among them. So the difference is all
        // ones if it is in view.
        r.scalar(Scalar::ShiftRightSigned(R14, 63));
        r.scalar(Scalar::ShiftRightSigned(R15, 63));
        r.scalar(Scalar::Sub(R15, Rm::Gpr(R14)));
        r.scalar(Scalar::And(R15, Rm::Memory(to_masks)));
        r.scalar(Scalar::Move(MASKS, Rm::Memory(none)));
        r.scalar(Scalar::Add(MASKS, Rm::Gpr(R15)));
    }

    /// Moves the columns on by a group.
    fn next_columns(&mut self, columns: u8) -> Result<(), Fallback> {
        let Parts { first_columns, ones, .. } = *self.parts;
        let r = &mut self.registers;
        if r.bits == Bits::B512 {
            r.inst(Op::AddI32, columns, columns, Rm::Broadcast(at(RSI, ones + SIXTEEN)));
            return Ok(());
        }
        let register = r.take()?;
        // Column eight of the first columns is also the number of lanes.
        r.inst(Op::Broadcast, register, 0, Rm::Memory(at(RSI, first_columns + 4 * 8)));
        r.inst(Op::AddI32, columns, columns, Rm::Register(register));
        r.give(register);
        Ok(())
    }

    /// Sets the masks of a row's last pixels, of which there are `LEFT` and a group.
    fn set_masks(&mut self) {
        let Parts { channels: [source, stored], store, has_masks, .. } = *self.parts;
        let step = self.word(PassWord::PixelStep);
        // The bytes that are stored together of a pixel, if they have a mask of their own.
        let bytes = match store {
            PassStore::Bytes => Some(stored as i32),
            PassStore::Bf16Planes => Some(2),
            _ => None,
        };
        let r = &mut self.registers;
        let (count, ones) = (R12, R15);
        r.scalar(Scalar::AddNumber(LEFT, 16));
        r.scalar(Scalar::Set(ones, -1));
        r.scalar(Scalar::LowBits { to: R14, from: ones, count: LEFT });
        r.set_mask(LANES, R14);
        if let Some(bytes) = bytes {
            r.scalar(Scalar::MultiplyBy(count, Rm::Gpr(LEFT), bytes));
            r.scalar(Scalar::LowBits { to: R14, from: ones, count });
            r.set_mask(STORED, R14);
        }
        if has_masks {
            return;
        }
        // The pixels of a mirrored group are the last ones in memory.
        r.scalar(Scalar::MultiplyBy(count, Rm::Gpr(LEFT), source as i32));
        r.scalar(Scalar::LowBits { to: R14, from: ones, count });
        r.scalar(Scalar::Move(ones, Rm::Memory(step)));
        r.scalar(Scalar::ShiftRightSigned(ones, 63));
        r.scalar(Scalar::MultiplyBy(count, Rm::Gpr(count), -1));
        r.scalar(Scalar::AddNumber(count, 16 * source as i32));
        r.scalar(Scalar::And(count, Rm::Gpr(ones)));
        r.scalar(Scalar::ShiftLeft { to: R14, from: R14, count });
        r.set_mask(LOADED, R14);
    }

    /// Moves the last group of a row back to end with the row: by `-LEFT` pixels.
    fn move_back(&mut self, columns: Option<u8>, pixel: i32) -> Result<(), Fallback> {
        let (step, ones) = (self.word(PassWord::PixelStep), self.parts.ones);
        let fresh = self.fresh;
        let r = &mut self.registers;
        r.scalar(Scalar::Move(R14, Rm::Memory(step)));
        r.scalar(Scalar::Multiply(R14, Rm::Gpr(LEFT)));
        r.scalar(Scalar::Add(SOURCE, Rm::Gpr(R14)));
        r.scalar(Scalar::MultiplyBy(R14, Rm::Gpr(LEFT), pixel));
        r.scalar(Scalar::Add(TO, Rm::Gpr(R14)));
        if let Some(columns) = columns {
            let register = r.take()?;
            r.broadcast(register, LEFT);
            r.inst(Op::AddI32, columns, columns, Rm::Register(register));
            r.give(register);
        }
        if let Some(fresh) = fresh {
            // Zeros for the lanes that an earlier group has covered: after eight zeros come eight ones.
            let from = at(RSI, ones + 32).plus(LEFT, 4);
            r.inst(Op::Load, fresh, 0, Rm::Memory(from));
        }
        Ok(())
    }

    /// Emits a group: loads, steps, stores. With a mask, it has less pixels.
    fn group(&mut self, masked: bool) -> Result<(), Fallback> {
        let Parts { loaded, steps, stored, spec, .. } = *self.parts;
        self.registers.begin(steps, stored);
        // Rows that are produced were just written.
        if !masked && spec.block.rows.is_none() {
            let row_step = self.word(PassWord::RowStep);
            self.registers.scalar(Scalar::Move(R14, Rm::Memory(row_step)));
            let ahead = at(SOURCE, 0).plus(R14, ROWS_AHEAD);
            self.registers.scalar(Scalar::Prefetch(ahead));
        }
        self.load(loaded, masked)?;
        self.registers.drop_unread(loaded);
        self.registers.steps(steps)?;
        self.store(stored, masked)?;
        self.registers.release_kept(stored);
        Ok(())
    }

    fn load(&mut self, loaded: &[Id], masked: bool) -> Result<(), Fallback> {
        let bytes = self.registers.take()?;
        match self.bits() {
            Bits::B512 => self.load_512(bytes, loaded, masked)?,
            _ => self.load_256(bytes, loaded)?,
        }
        self.registers.give(bytes);
        Ok(())
    }

    fn load_512(&mut self, bytes: u8, loaded: &[Id], masked: bool) -> Result<(), Fallback> {
        let from = Rm::Memory(at(SOURCE, 0));
        let Parts { channels: [source, _], ones, has_masks, fill, .. } = *self.parts;
        let bits = [Bits::B128, Bits::B256, Bits::B512, Bits::B512][source - 1];
        let load = VectorInst::new(Op::LoadBytes, bits, bytes, 0, from);
        let all = VectorInst { bits: Bits::B512, ..load };
        if has_masks {
            let r = &mut self.registers;
            r.scalar(Scalar::Move(R14, Rm::Memory(at(MASKS, 0))));
            r.set_mask(LOADED, R14);
            r.scalar(Scalar::AddNumber(MASKS, 8));
            if let Some(fill) = fill {
                r.inst(Op::Load, bytes, 0, Rm::Memory(at(RSI, fill)));
                r.vector(all.masked(LOADED));
            } else {
                r.vector(all.zeroed(LOADED));
            }
        } else {
            let is_masked = masked || source == 3;
            self.registers.vector(if is_masked { all.zeroed(LOADED) } else { load });
        }
        for (c, value) in loaded.iter().enumerate() {
            let register = self.registers.define(*value)?;
            let index = self.unpack[c];
            self.registers.inst(Op::PermuteBytes, register, index, Rm::Register(bytes));
            if source == 4 {
                // All bytes are a pixel's, so no index takes a 0.
                let low = Rm::Broadcast(at(RSI, ones + LOW_BYTE));
                self.registers.inst(Op::And, register, register, low);
            }
            self.registers.inst(Op::ToF32, register, 0, Rm::Register(register));
        }
        Ok(())
    }

    fn load_256(&mut self, bytes: u8, loaded: &[Id]) -> Result<(), Fallback> {
        let r = &mut self.registers;
        let from = Rm::Memory(at(SOURCE, 0));
        match self.parts.channels[0] {
            1 => r.inst(Op::BroadcastEight, bytes, 0, from),
            2 => r.inst(Op::BroadcastHalf, bytes, 0, from),
            _ => {
                let [first, second] = HALVES.map(|half| Rm::Memory(at(SOURCE, 0).plus(half, 1)));
                r.vector(VectorInst::new(Op::LoadWords, Bits::B128, bytes, 0, first));
                r.vector(VectorInst::new(Op::InsertHalf, Bits::B256, bytes, bytes, second).imm(1));
            }
        }
        for (c, value) in loaded.iter().enumerate() {
            let register = r.define(*value)?;
            let indices = Rm::Memory(at(PERMUTATIONS, 32 * c as i32));
            r.inst(Op::ShuffleBytes, register, bytes, indices);
            r.inst(Op::ToF32, register, 0, Rm::Register(register));
        }
        Ok(())
    }

    /// Emits the end of a row, and of the loop.
    fn row_end(&mut self, next_row: Label) {
        let (step, last) = (self.word(PassWord::RowStep), self.word(PassWord::LastGroup));
        let (bits, sums) = (self.bits(), self.sums);
        let pixel = self.parts.store.pixel_bytes(self.parts.channels[1]);
        let r = &mut self.registers;
        if let Some(sums) = sums {
            r.vector(VectorInst::new(Op::StoreVector, bits, sums, 0, Rm::Memory(at(RCX, 0))));
        }
        r.scalar(Scalar::Add(RDX, Rm::Memory(step)));
        times_columns(r, R14, pixel, last);
        r.scalar(Scalar::Add(RCX, Rm::Gpr(R14)));
        r.scalar(Scalar::AddNumber(R8, 1));
        r.scalar(Scalar::AddNumber(R9, -1));
        r.code.push(Inst::Jump(Condition::NotEqual, next_row));
        SAVED.into_iter().rev().for_each(|register| r.scalar(Scalar::Pop(register)));
        r.code.push(Inst::Return);
    }
}
