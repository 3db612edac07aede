//! The code of one group of pixels as data: what the fused ops compute, before registers are chosen.
//!
//! ```text
//! programs of the fused ops ──▶ Group: steps on numbered values ──▶ registers ──▶ machine code
//! ```
//!
//! A value is a vector with a lane for each pixel, a mask, or a number in memory: a parameter, a constant. Steps
//! have one meaning at every width, which is that of the 128-bit code: each is one instruction of the same
//! rounding. So the bits are the same.

use super::super::emit::{BodySpec, Constants};
use super::encode::{Gpr, Memory, Op, RDI, RSI, at, condition, rounding};
use crate::jit::multiply;
use crate::plan::FusedOp;
use fuseloop_ops::author::{Emit, Pixels};
use fuseloop_ops::internals::channel_of;
use fuseloop_ops::internals::program::{
    Binary, Grant, Instruction, Program, ShiftDirection, Unary,
};
use std::collections::HashMap;

/// The number of a value.
pub(super) type Id = usize;

/// The register that holds the address of the parameter block.
pub(super) const RECORD: Gpr = RDI;

/// The register that holds the address of the constants.
pub(super) const CONSTANTS: Gpr = RSI;

/// The number of parameters of a matrix.
const MATRIX: usize = 12;

/// The kind of a value, and the place of a number in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Def {
    /// A vector that a step computes, or that is there before the first step.
    Vector,
    /// A mask that a step computes.
    Mask,
    /// Four bytes in memory, in all lanes. They do not change while a loop runs.
    Memory(Memory),
}

/// One step of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `to = op(a)`.
    One { op: Op, imm: Option<u8>, a: Id, to: Id },
    /// `to = op(a, b)`, or a mask for a comparison.
    Two { op: Op, imm: Option<u8>, a: Id, b: Id, to: Id },
    /// `to = a * b + c`, rounded once.
    Fma { a: Id, b: Id, c: Id, to: Id },
    /// `to = a` shifted by a number of bits.
    Shift { op: Op, a: Id, bits: u8, to: Id },
    /// `to = mask ? a : b`.
    Select { mask: Id, a: Id, b: Id, to: Id },
    /// A mask of masks: `a and b`, `a or b`, `not a and b`.
    Masks { op: Op, a: Id, b: Id, to: Id },
    /// `to` = the floats at `[address + disp + 4 * index]`. `address` is that of a word of the parameter block that
    /// holds an address.
    Gather { address: i32, disp: i32, index: Id, to: Id },
    /// `to = otherwise`; the steps to the matching `End` run if `mask` is true in any lane.
    Begin { mask: Id, otherwise: [Id; 4], to: [Id; 4], count: usize },
    /// `to = changed`: the end of the last `Begin` that has not ended.
    End { changed: [Id; 4], to: [Id; 4], count: usize },
}

impl Step {
    /// Returns the value that the step computes, if it is one.
    pub(super) fn result(&self) -> Option<Id> {
        match *self {
            Self::One { to, .. }
            | Self::Two { to, .. }
            | Self::Fma { to, .. }
            | Self::Shift { to, .. }
            | Self::Select { to, .. }
            | Self::Masks { to, .. }
            | Self::Gather { to, .. } => Some(to),
            Self::Begin { .. } | Self::End { .. } => None,
        }
    }

    /// Calls `f` with each value that the step reads.
    pub(super) fn reads(&self, mut f: impl FnMut(Id)) {
        match *self {
            Self::One { a, .. } | Self::Shift { a, .. } => f(a),
            Self::Two { a, b, .. } | Self::Masks { a, b, .. } => [a, b].into_iter().for_each(f),
            Self::Fma { a, b, c, .. } => [a, b, c].into_iter().for_each(f),
            Self::Select { mask, a, b, .. } => [mask, a, b].into_iter().for_each(f),
            Self::Gather { index, .. } => f(index),
            Self::Begin { mask, otherwise, count, .. } => {
                f(mask);
                otherwise[..count].iter().copied().for_each(f);
            }
            // The results are written on both ways here, so they must be kept until here.
            Self::End { changed, to, count } => {
                changed[..count].iter().chain(&to[..count]).copied().for_each(f);
            }
        }
    }
}

/// The code of a group.
#[derive(Debug)]
pub(super) struct Group<'c> {
    pub(super) values: Vec<Def>,
    /// The steps that run once a row.
    pub(super) row: Vec<Step>,
    /// The steps that run once a group.
    pub(super) steps: Vec<Step>,
    /// The columns of the pixels, if they are used.
    pub(super) columns: Option<Id>,
    /// The row, in all lanes, if it is used.
    pub(super) y: Option<Id>,
    /// The values of each channel: first those that are loaded, in the end those that are stored.
    pub(super) pixels: Vec<Id>,
    pub(super) constants: &'c mut Constants,
    memory: HashMap<(u8, i32), Id>,
    /// True while steps for a row are added.
    in_row: bool,
}

/// A map of a row to an op's coordinates: the row, and where the parameter block has the columns' sign and offset.
#[derive(Clone, Copy)]
struct MapRow {
    row: Id,
    at: i32,
}

/// The columns of a rectangle in one row: `start..end`.
#[derive(Clone, Copy)]
struct Span {
    start: Id,
    end: Id,
}

impl<'c> Group<'c> {
    /// Creates the code of a group of pixels of `channels` channels.
    pub(super) fn new(channels: usize, constants: &'c mut Constants) -> Self {
        let mut group = Self {
            values: vec![],
            row: vec![],
            steps: vec![],
            columns: None,
            y: None,
            pixels: vec![],
            constants,
            memory: HashMap::new(),
            in_row: false,
        };
        group.pixels = (0..channels).map(|_| group.define(Def::Vector)).collect();
        group
    }

    fn define(&mut self, def: Def) -> Id {
        self.values.push(def);
        self.values.len() - 1
    }

    fn push(&mut self, step: Step) {
        if self.in_row { self.row.push(step) } else { self.steps.push(step) }
    }

    fn memory(&mut self, base: Gpr, disp: i32) -> Id {
        if let Some(id) = self.memory.get(&(base.0, disp)) {
            return *id;
        }
        let id = self.define(Def::Memory(at(base, disp)));
        self.memory.insert((base.0, disp), id);
        id
    }

    /// A word of the parameter block.
    fn record(&mut self, disp: i32) -> Id {
        self.memory(RECORD, disp)
    }

    fn word(&mut self, bits: u32) -> Id {
        let bytes = bits.to_le_bytes();
        let offset = self.constants.offset(std::array::from_fn(|i| bytes[i % 4]));
        self.memory(CONSTANTS, offset)
    }

    pub(super) fn float(&mut self, number: f32) -> Id {
        self.word(number.to_bits())
    }

    pub(super) fn integer(&mut self, number: i32) -> Id {
        self.word(number as u32)
    }

    pub(super) fn one(&mut self, op: Op, imm: Option<u8>, a: Id) -> Id {
        let to = self.define(Def::Vector);
        self.push(Step::One { op, imm, a, to });
        to
    }

    pub(super) fn two(&mut self, op: Op, a: Id, b: Id) -> Id {
        let to = self.define(Def::Vector);
        self.push(Step::Two { op, imm: None, a, b, to });
        to
    }

    pub(super) fn shift(&mut self, op: Op, a: Id, bits: u8) -> Id {
        let to = self.define(Def::Vector);
        self.push(Step::Shift { op, a, bits, to });
        to
    }

    pub(super) fn compare(&mut self, op: Op, imm: Option<u8>, a: Id, b: Id) -> Id {
        let to = self.define(Def::Mask);
        self.push(Step::Two { op, imm, a, b, to });
        to
    }

    fn masks(&mut self, op: Op, a: Id, b: Id) -> Id {
        let to = self.define(Def::Mask);
        self.push(Step::Masks { op, a, b, to });
        to
    }

    pub(super) fn select(&mut self, mask: Id, a: Id, b: Id) -> Id {
        let to = self.define(Def::Vector);
        self.push(Step::Select { mask, a, b, to });
        to
    }

    /// Clamps to 0..=255 and rounds half to even, as the 128-bit code does for sources of bytes.
    fn level(&mut self, a: Id) -> Id {
        let clamped = self.clamped(a);
        self.one(Op::Round, Some(rounding::NEAREST), clamped)
    }

    /// Clamps to 0..=255.
    pub(super) fn clamped(&mut self, a: Id) -> Id {
        let (low, high) = (self.float(0.0), self.float(255.0));
        let below = self.two(Op::Min, a, high);
        self.two(Op::Max, below, low)
    }

    /// Adds the steps of the fused ops.
    pub(super) fn apply(&mut self, spec: BodySpec<'_>, pass: usize, links: &[FusedOp]) {
        let (spans, maps) = self.row_state(spec, pass, links);
        for link in links {
            match *link {
                FusedOp::Value { leaf, part, param, map } => {
                    if let Some(kind) = spec.leaves[leaf].kind.pixel(part) {
                        let map = map.and_then(|map| maps[map]);
                        let position = map.map(|map| self.op_coordinates(map));
                        self.lower(&kind.program, spec.param(param), position);
                    }
                }
                FusedOp::Table { table, .. } => self.look_up(spec.layout.table(table)),
                FusedOp::Matrix { param } => {
                    self.lower_own(spec, MATRIX, spec.param(param), multiply);
                }
                FusedOp::Round => {
                    self.pixels = self.pixels.clone().into_iter().map(|v| self.level(v)).collect();
                }
                FusedOp::Paint { region } => {
                    if let Some(span) = spans[region] {
                        self.paint(spec, region, span);
                    }
                }
            }
        }
    }

    /// Adds the steps of code of the block compiler itself.
    pub(super) fn lower_own(
        &mut self,
        spec: BodySpec<'_>,
        param_count: usize,
        params: i32,
        emit: impl FnOnce(&mut Emit, Pixels) -> Pixels,
    ) {
        let channels = self.pixels.len();
        let grant = Grant {
            rule: spec.rule,
            param_count,
            uses_position: false,
            channels,
            outputs: channels,
        };
        let program =
            Program::record(grant, emit).expect("the block compiler reads only its own parameters");
        self.lower(&program, params, None);
    }

    /// Adds what a row needs of the rectangles that `links` paint and of the maps that they use.
    fn row_state(
        &mut self,
        spec: BodySpec<'_>,
        pass: usize,
        links: &[FusedOp],
    ) -> (Vec<Option<Span>>, Vec<Option<MapRow>>) {
        self.in_row = true;
        let spans = (0..spec.block.regions.len()).map(|region| {
            links
                .contains(&FusedOp::Paint { region })
                .then(|| self.span(spec.layout.region(pass, region)))
        });
        let spans = spans.collect();
        let maps = (0..spec.block.position_ops.len()).map(|number| {
            let is_asked = links.iter().any(
                |link| matches!(link, FusedOp::Value { map: Some(map), .. } if *map == number),
            );
            is_asked.then(|| self.map_row(spec.layout.map(pass, number)))
        });
        let maps = maps.collect();
        self.in_row = false;
        (spans, maps)
    }

    fn y(&mut self) -> Id {
        let y = self.y.unwrap_or_else(|| self.define(Def::Vector));
        self.y = Some(y);
        y
    }

    fn columns(&mut self) -> Id {
        let columns = self.columns.unwrap_or_else(|| self.define(Def::Vector));
        self.columns = Some(columns);
        columns
    }

    fn map_row(&mut self, at: i32) -> MapRow {
        let (y, sign, offset) = (self.y(), self.record(at + 8), self.record(at + 12));
        let scaled = self.two(Op::MulI32, y, sign);
        MapRow { row: self.two(Op::AddI32, scaled, offset), at }
    }

    /// The columns of a rectangle in this row: none if the row is above or below it.
    fn span(&mut self, at: i32) -> Span {
        let [start, x1, y0, y1] = [0, 4, 8, 12].map(|offset| self.record(at + offset));
        let y = self.y();
        let is_above = self.compare(Op::GreaterI32, None, y0, y);
        let is_before_end = self.compare(Op::GreaterI32, None, y1, y);
        let inside = self.masks(Op::MaskAndNot, is_above, is_before_end);
        Span { start, end: self.select(inside, x1, start) }
    }

    fn op_coordinates(&mut self, map: MapRow) -> [Id; 2] {
        let (columns, sign, offset) =
            (self.columns(), self.record(map.at), self.record(map.at + 4));
        let scaled = self.two(Op::MulI32, columns, sign);
        [map.row, self.two(Op::AddI32, scaled, offset)]
    }

    fn paint(&mut self, spec: BodySpec<'_>, region: usize, span: Span) {
        let region = spec.block.regions[region];
        let columns = self.columns();
        let before = self.compare(Op::GreaterI32, None, span.start, columns);
        let ahead = self.compare(Op::GreaterI32, None, span.end, columns);
        let inside = self.masks(Op::MaskAndNot, before, ahead);
        for c in 0..self.pixels.len() {
            let (v, fill) = (self.pixels[c], self.float(channel_of(region.fill, c)));
            let [a, b] = if region.outside { [v, fill] } else { [fill, v] };
            self.pixels[c] = self.select(inside, a, b);
        }
    }

    /// Looks each value, rounded to a level, up in the table whose address is at `address` of the parameter block.
    fn look_up(&mut self, address: i32) {
        for c in 0..self.pixels.len() {
            let clamped = self.clamped(self.pixels[c]);
            let level = self.one(Op::NearestI32, None, clamped);
            // No look-up is outside the table, whatever value an op computed.
            let most = self.integer(255);
            let index = self.two(Op::And, level, most);
            let to = self.define(Def::Vector);
            self.push(Step::Gather { address, disp: 1024 * c as i32, index, to });
            self.pixels[c] = to;
        }
    }

    /// Adds the steps of a program whose first parameter is at `params` of the parameter block.
    fn lower(&mut self, program: &Program, params: i32, position: Option<[Id; 2]>) {
        let mut values = self.pixels.clone();
        if program.uses_position() {
            values.extend(position.expect("a map was planned for an op that uses its position"));
        }
        let inputs = values.len() as u32;
        let is_choice = choices(program, inputs);
        let mut open = vec![];
        for (number, instruction) in program.instructions().iter().enumerate() {
            let value = |index: u32| values[index as usize];
            let result = match *instruction {
                Instruction::Param(index) | Instruction::ParamBits(index) => {
                    self.record(params + 16 * index as i32)
                }
                Instruction::Splat(bits) => self.word(bits),
                Instruction::SplatI32(number) => self.integer(number),
                Instruction::Unary(Unary::Bits | Unary::FromBits, a) => value(a),
                Instruction::Unary(operation, a) => {
                    let (op, imm) = unary(operation);
                    self.one(op, imm, value(a))
                }
                // Made by the selection.
                Instruction::Binary(Binary::Less, _) if is_choice[number] => 0,
                Instruction::Binary(operation, operands) => {
                    self.binary(operation, operands.map(value))
                }
                Instruction::Fma(operands) => {
                    let [a, b, c] = operands.map(value);
                    let to = self.define(Def::Vector);
                    self.push(Step::Fma { a, b, c, to });
                    to
                }
                Instruction::Select([mask, a, b]) => {
                    let compared = mask.checked_sub(inputs).map(|of| of as usize);
                    match chosen(program, (mask, a, b), inputs) {
                        Some(op) if compared.is_some_and(|of| is_choice[of]) => {
                            self.two(op, value(a), value(b))
                        }
                        _ => self.select(value(mask), value(a), value(b)),
                    }
                }
                Instruction::Shift(direction, a, bits) => {
                    let op = match direction {
                        ShiftDirection::Left => Op::ShiftLeft,
                        ShiftDirection::Right => Op::ShiftRight,
                    };
                    self.shift(op, value(a), bits)
                }
                Instruction::Begin { mask, otherwise } => {
                    let (mut before, mut to) = ([0; 4], [0; 4]);
                    for (c, index) in otherwise.iter().enumerate() {
                        (before[c], to[c]) = (value(*index), self.define(Def::Vector));
                    }
                    let count = otherwise.len();
                    self.push(Step::Begin { mask: value(mask), otherwise: before, to, count });
                    open.push(to);
                    continue;
                }
                Instruction::End { changed } => {
                    let to = open.pop().expect("the program was checked");
                    let mut last = [0; 4];
                    for (c, index) in changed.iter().enumerate() {
                        last[c] = value(*index);
                    }
                    self.push(Step::End { changed: last, to, count: changed.len() });
                    values.extend(&to[..changed.len()]);
                    continue;
                }
            };
            values.push(result);
        }
        self.pixels = program.outputs().iter().map(|index| values[*index as usize]).collect();
    }

    fn binary(&mut self, operation: Binary, [a, b]: [Id; 2]) -> Id {
        match operation {
            Binary::Add => self.two(Op::Add, a, b),
            Binary::Sub => self.two(Op::Sub, a, b),
            Binary::Mul => self.two(Op::Mul, a, b),
            Binary::Div => self.two(Op::Div, a, b),
            Binary::Less => self.compare(Op::Compare, Some(condition::LESS), a, b),
            Binary::Equal => self.compare(Op::Compare, Some(condition::EQUAL), a, b),
            Binary::LessI32 => self.compare(Op::GreaterI32, None, b, a),
            Binary::EqualI32 => self.compare(Op::EqualI32, None, a, b),
            Binary::Both => self.masks(Op::MaskAnd, a, b),
            Binary::Either => self.masks(Op::MaskOr, a, b),
            Binary::AddI32 => self.two(Op::AddI32, a, b),
            Binary::MulI32 => self.two(Op::MulI32, a, b),
            Binary::AndI32 => self.two(Op::And, a, b),
            Binary::XorI32 => self.two(Op::Xor, a, b),
        }
    }
}

fn unary(operation: Unary) -> (Op, Option<u8>) {
    match operation {
        Unary::Sqrt => (Op::Sqrt, None),
        Unary::Trunc => (Op::Round, Some(rounding::TRUNC)),
        Unary::Floor => (Op::Round, Some(rounding::FLOOR)),
        Unary::Nearest => (Op::Round, Some(rounding::NEAREST)),
        Unary::ToI32 => (Op::ToI32, None),
        Unary::ToF32 | Unary::Bits | Unary::FromBits => (Op::ToF32, None),
    }
}

/// Returns the minimum or the maximum that a selection is: `a < b ? a : b` or `b < a ? a : b`.
fn chosen(program: &Program, (mask, a, b): (u32, u32, u32), inputs: u32) -> Option<Op> {
    let compare = program.instructions().get(mask.checked_sub(inputs)? as usize)?;
    match *compare {
        Instruction::Binary(Binary::Less, compared) if compared == [a, b] => Some(Op::Min),
        Instruction::Binary(Binary::Less, compared) if compared == [b, a] => Some(Op::Max),
        _ => None,
    }
}

/// Returns for each instruction whether it is a comparison that is used only for minima and maxima. Programs with
/// branches have none, as the numbers of their values are not those of their instructions.
fn choices(program: &Program, inputs: u32) -> Vec<bool> {
    let instructions = program.instructions();
    if !instructions.iter().all(|instruction| instruction.results() == 1) {
        return vec![false; instructions.len()];
    }
    let mut is_choice: Vec<bool> = instructions
        .iter()
        .map(|instruction| matches!(instruction, Instruction::Binary(Binary::Less, _)))
        .collect();
    // A comparison that is used otherwise, too, stays one.
    for user in instructions {
        let others = match *user {
            Instruction::Select([mask, a, b])
                if chosen(program, (mask, a, b), inputs).is_none() =>
            {
                [Some(mask), None]
            }
            Instruction::Binary(Binary::Both | Binary::Either, [a, b]) => [Some(a), Some(b)],
            _ => [None, None],
        };
        for mask in others.into_iter().flatten().filter_map(|mask| mask.checked_sub(inputs)) {
            is_choice[mask as usize] = false;
        }
    }
    is_choice
}
