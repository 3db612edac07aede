//! The stores of a group: planes or pixels of floats, f16, bf16 or bytes, and sums of greys.

use super::encode::{Bits, Memory, Op, R12, R14, R15, RSI, Rm, Scalar, VectorInst, at, condition};
use super::group::{Group, Id};
use super::row::{LANES, LEFT, NOTHING, PLANE, Row, STORED, TO};
use crate::jit::emit::{BodySpec, Constants, PassStore};
use crate::jit::vector_bits::Fallback;

/// Where the constants have the indices that put values in the order in which they are stored.
#[derive(Clone, Copy)]
pub(super) struct Packing {
    /// The indices that pack the low bytes of lanes, and with 256 bits, those of the lanes that are then taken.
    bytes: [Option<i32>; 2],
    /// The pixel of each value, if pixels of floats are stored.
    pixels: i32,
}

impl Packing {
    pub(super) fn new(
        store: PassStore,
        channels: usize,
        bits: Bits,
        constants: &mut Constants,
    ) -> Self {
        let runs = [pack_indices(store, channels, bits), pack_lanes(store, channels, bits)];
        let bytes = runs.map(|run| run.map(|run| constants.run(&run)));
        let pixels = match store {
            PassStore::FloatPixels { .. } => constants.run(&pixels_of_values(channels, bits)),
            _ => 0,
        };
        Self { bytes, pixels }
    }

    /// Returns the indices that a loop holds in registers.
    pub(super) fn held(&self) -> [Option<i32>; 2] {
        self.bytes
    }
}

/// Adds the steps that make what is stored of the pixels, and returns it: a value for each plane, or one.
pub(super) fn finish(group: &mut Group<'_>, spec: BodySpec<'_>, store: PassStore) -> Vec<Id> {
    let bytes = |group: &mut Group<'_>| -> Vec<Id> {
        let pixels = group.pixels.clone();
        let byte = |v| {
            let clamped = group.clamped(v);
            group.one(Op::NearestI32, None, clamped)
        };
        pixels.into_iter().map(byte).collect()
    };
    match store {
        PassStore::Floats { .. }
        | PassStore::FloatPixels { .. }
        | PassStore::Streamed
        | PassStore::Halves => group.pixels.clone(),
        PassStore::BytePlanes => bytes(group),
        PassStore::Bf16Planes => {
            let pixels = group.pixels.clone();
            pixels.into_iter().map(|v| bf16(group, v)).collect()
        }
        PassStore::Bytes => {
            let channels = bytes(group);
            let shifted = channels.iter().enumerate().map(|(c, value)| match c {
                0 => *value,
                _ => group.shift(Op::ShiftLeft, *value, 8 * c as u8),
            });
            let shifted: Vec<Id> = shifted.collect();
            let all = shifted[1..].iter().fold(shifted[0], |all, v| group.two(Op::Or, all, *v));
            vec![all]
        }
        PassStore::Greys => {
            group.lower_own(spec, 0, 0, |e, pixels| {
                let grey = e.grey(pixels);
                pixels.filled(grey)
            });
            let grey = group.pixels[0];
            vec![group.one(Op::ToI32, None, grey)]
        }
    }
}

/// Adds the steps that round a value to the nearest bf16, ties to even, and returns its bits.
fn bf16(group: &mut Group<'_>, v: Id) -> Id {
    let [one, half, quiet] = [1, 0x7FFF, 0x40].map(|number| group.integer(number));
    let high = group.shift(Op::ShiftRight, v, 16);
    let odd = group.two(Op::And, high, one);
    let more = group.two(Op::AddI32, v, half);
    let more = group.two(Op::AddI32, more, odd);
    let rounded = group.shift(Op::ShiftRight, more, 16);
    // A NaN stays one.
    let nan = group.two(Op::Or, high, quiet);
    let is_number = group.compare(Op::Compare, Some(condition::EQUAL), v, v);
    group.select(is_number, rounded, nan)
}

/// Returns the pixel of each value of a group whose channels follow each other, as indices of lanes.
fn pixels_of_values(channels: usize, bits: Bits) -> Vec<[u8; 16]> {
    let bytes =
        (0..bits.lanes() * channels).flat_map(|value| ((value / channels) as i32).to_le_bytes());
    let bytes: Vec<u8> = bytes.collect();
    bytes.as_chunks::<16>().0.to_vec()
}

/// Returns the bytes of a lane that are stored, if they are packed.
fn packed_bytes(store: PassStore, channels: usize) -> Option<usize> {
    match store {
        PassStore::BytePlanes => Some(1),
        PassStore::Bf16Planes => Some(2),
        PassStore::Bytes => Some(channels),
        _ => None,
    }
}

/// Returns the indices that pack the low bytes of lanes, if there are any: of all lanes, or of a half's own.
fn pack_indices(store: PassStore, channels: usize, bits: Bits) -> Option<Vec<[u8; 16]>> {
    let channels = packed_bytes(store, channels)?;
    if channels == 4 || channels == 1 && bits == Bits::B512 {
        return None;
    }
    let size = if bits == Bits::B512 { 64 } else { 16 };
    let byte = |i: usize| match i < size / 4 * channels {
        true => (4 * (i / channels) + i % channels) as u8,
        false => NOTHING,
    };
    let indices: Vec<u8> = (0..size).map(byte).collect();
    let each = indices.as_chunks::<16>().0.to_vec();
    Some(if bits == Bits::B512 { each } else { [each.clone(), each].concat() })
}

/// Returns the lanes that follow each other after [`pack_indices`] of 256 bits, if there are any.
fn pack_lanes(store: PassStore, channels: usize, bits: Bits) -> Option<Vec<[u8; 16]>> {
    pack_indices(store, channels, bits)?;
    let lanes: [i32; 8] = match (bits, packed_bytes(store, channels)?) {
        (Bits::B512, _) => return None,
        (_, 1) => [0, 4, 0, 0, 0, 0, 0, 0],
        (_, 2) => [0, 1, 4, 5, 0, 0, 0, 0],
        _ => [0, 1, 2, 4, 5, 6, 0, 0],
    };
    let bytes: Vec<u8> = lanes.into_iter().flat_map(i32::to_le_bytes).collect();
    Some(bytes.as_chunks::<16>().0.to_vec())
}

impl Row<'_> {
    /// Stores a group, under the masks of a row's last pixels if `masked`.
    pub(super) fn store(&mut self, stored: &[Id], masked: bool) -> Result<(), Fallback> {
        match self.parts.store {
            PassStore::Floats { .. } | PassStore::Streamed | PassStore::Halves => {
                let (op, imm) = match self.parts.store {
                    // No row of streamed pixels has a rest, so these stores have no mask.
                    PassStore::Streamed if !masked => (Op::StoreStreamed, None),
                    PassStore::Halves => (Op::StoreHalves, Some(0)),
                    _ => (Op::StoreVector, None),
                };
                for (c, value) in stored.iter().enumerate() {
                    let to = Rm::Memory(self.plane(c));
                    let (register, temporary) = self.registers.register(*value)?;
                    let store =
                        VectorInst { imm, ..VectorInst::new(op, self.bits(), register, 0, to) };
                    self.registers.vector(if masked { store.masked(LANES) } else { store });
                    temporary.into_iter().for_each(|register| self.registers.give(register));
                }
            }
            PassStore::FloatPixels { .. } => self.store_pixels(stored, masked)?,
            PassStore::BytePlanes => {
                for (c, value) in stored.iter().enumerate() {
                    let to = self.plane(c);
                    self.store_bytes(*value, 1, to, masked)?;
                }
            }
            PassStore::Bf16Planes => {
                for (c, value) in stored.iter().enumerate() {
                    let to = self.plane(c);
                    self.store_bytes(*value, 2, to, masked)?;
                }
            }
            PassStore::Bytes => {
                self.store_bytes(stored[0], self.parts.channels[1], at(TO, 0), masked)?;
            }
            PassStore::Greys => {
                let (register, _) = self.registers.register(stored[0])?;
                if let Some(sums) = self.sums {
                    if let Some(fresh) = self.fresh {
                        self.registers.inst(Op::And, register, register, Rm::Register(fresh));
                    }
                    let add = VectorInst::new(
                        Op::AddI32,
                        self.bits(),
                        sums,
                        sums,
                        Rm::Register(register),
                    );
                    self.registers.vector(if masked { add.masked(LANES) } else { add });
                }
            }
        }
        Ok(())
    }

    /// Stores pixels of floats. Vector `k` has the values from `lanes * k` on: lane `j` that of channel
    /// `(lanes * k + j) % channels`.
    fn store_pixels(&mut self, stored: &[Id], masked: bool) -> Result<(), Fallback> {
        let (bits, pixels) = (self.bits(), self.parts.packing.pixels);
        let lanes = bits.lanes();
        let r = &mut self.registers;
        let mut from = vec![];
        for value in stored {
            from.push(r.register(*value)?);
        }
        let [index, to] = [r.take()?, r.take()?];
        if masked {
            // One bit for each value that is left. The sign is not one of them.
            r.scalar(Scalar::MultiplyBy(R12, Rm::Gpr(LEFT), stored.len() as i32));
            r.scalar(Scalar::Set(R15, -1));
            r.scalar(Scalar::LowBits { to: R15, from: R15, count: R12 });
        }
        for k in 0..stored.len() {
            let first = pixels + (4 * lanes * k) as i32;
            r.inst(Op::Load, index, 0, Rm::Memory(at(RSI, first)));
            r.inst(Op::PermuteFloats, to, index, Rm::Register(from[0].0));
            for (c, (register, _)) in from.iter().enumerate().skip(1) {
                let is_of_channel = |lane: &usize| (lanes * k + lane) % stored.len() == c;
                let mask: i32 = (0..lanes).filter(is_of_channel).map(|lane| 1 << lane).sum();
                let rm = Rm::Register(*register);
                if bits == Bits::B512 {
                    let chosen = r.spare_mask()?;
                    r.scalar(Scalar::Set(R14, mask));
                    r.set_mask(chosen, R14);
                    let permuted = VectorInst::new(Op::PermuteFloats, bits, to, index, rm);
                    r.vector(permuted.masked(chosen));
                } else {
                    let permuted = r.take()?;
                    r.inst(Op::PermuteFloats, permuted, index, rm);
                    let rm = Rm::Register(permuted);
                    r.vector(VectorInst::new(Op::BlendLanes, bits, to, to, rm).imm(mask as u8));
                    r.give(permuted);
                }
            }
            let place = Rm::Memory(at(TO, (4 * lanes * k) as i32));
            let store = VectorInst::new(Op::StoreVector, bits, to, 0, place);
            if masked {
                r.set_mask(STORED, R15);
                r.scalar(Scalar::ShiftRightSigned(R15, lanes as u8));
                r.vector(store.masked(STORED));
            } else {
                r.vector(store);
            }
        }
        let loaded = from.iter().filter_map(|(_, temporary)| *temporary);
        [index, to].into_iter().chain(loaded).for_each(|register| r.give(register));
        Ok(())
    }

    /// Returns the address of a group in plane `c`.
    fn plane(&mut self, c: usize) -> Memory {
        match c {
            0 => at(TO, 0),
            1 => at(TO, 0).plus(PLANE, 1),
            2 => at(TO, 0).plus(PLANE, 2),
            _ => {
                self.registers.scalar(Scalar::MultiplyBy(R14, Rm::Gpr(PLANE), 3));
                at(TO, 0).plus(R14, 1)
            }
        }
    }

    /// Stores the low bytes of lanes, as many as there are channels.
    fn store_bytes(
        &mut self,
        value: Id,
        channels: usize,
        to: Memory,
        masked: bool,
    ) -> Result<(), Fallback> {
        let bits = self.bits();
        let (register, temporary) = self.registers.register(value)?;
        let [pack, pack_lanes] = self.pack;
        let r = &mut self.registers;
        let after = |bytes: i32| Rm::Memory(Memory { disp: to.disp + bytes, ..to });
        if bits == Bits::B512 {
            let mask = match (masked, self.parts.store) {
                (false, _) => None,
                (true, PassStore::Bytes | PassStore::Bf16Planes) => Some(STORED),
                (true, _) => Some(LANES),
            };
            if channels == 1 {
                let store = VectorInst::new(Op::NarrowToBytes, bits, register, 0, after(0));
                // A lane for each byte: the mask of bytes is that of lanes.
                r.vector(mask.map_or(store, |mask| store.masked(mask)));
            } else {
                let taken = pack.map(|_| r.take()).transpose()?;
                if let (Some(packed), Some(pack)) = (taken, pack) {
                    r.inst(Op::PermuteBytes, packed, pack, Rm::Register(register));
                }
                let packed = taken.unwrap_or(register);
                let store = |bits| VectorInst::new(Op::StoreBytes, bits, packed, 0, after(0));
                match (mask, channels) {
                    (Some(mask), _) => r.vector(store(Bits::B512).masked(mask)),
                    (None, 2) => r.vector(store(Bits::B256)),
                    (None, 4) => r.vector(store(Bits::B512)),
                    (None, _) => {
                        r.vector(store(Bits::B256));
                        let last = VectorInst::new(Op::ExtractQuarter, bits, packed, 0, after(32));
                        r.vector(last.imm(2));
                    }
                }
                taken.into_iter().for_each(|register| r.give(register));
            }
        } else if let (Some(pack), Some(pack_lanes)) = (pack, pack_lanes) {
            let packed = r.take()?;
            r.inst(Op::ShuffleBytes, packed, register, Rm::Register(pack));
            r.inst(Op::PermuteLanes, packed, pack_lanes, Rm::Register(packed));
            let store = |op, to| VectorInst::new(op, Bits::B128, packed, 0, to);
            match channels {
                1 => r.vector(store(Op::StoreEight, after(0))),
                2 => r.vector(store(Op::StoreWords, after(0))),
                _ => {
                    r.vector(store(Op::StoreWords, after(0)));
                    r.vector(
                        VectorInst::new(Op::ExtractHalf, bits, packed, 0, Rm::Register(packed))
                            .imm(1),
                    );
                    r.vector(store(Op::StoreEight, after(16)));
                }
            }
            r.give(packed);
        } else {
            r.vector(VectorInst::new(Op::StoreWords, bits, register, 0, after(0)));
        }
        temporary.into_iter().for_each(|register| r.give(register));
        Ok(())
    }
}
