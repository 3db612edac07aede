//! The code of a pixel op as data: the instructions that its [`emit`](crate::author::PixelOp::emit)
//! recorded.
//!
//! ```text
//! values:        each channel [, row, column], then the results of each instruction in order
//! instruction:   operation, and the indices of its operands among the values
//! program:       instructions, and the values that are the resulting pixel, one for each channel
//! ```
//!
//! No instruction has an address, a store, a call or a backward jump, and a parameter of the sample is named
//! by its index. [`Program::record`] checks the finished list, which the op can no longer reach: every value
//! is defined before it is used, visible where it is used and of the right kind, and every parameter is one
//! that the op declared when the list was planned. So compiling a program can do nothing but what its code
//! does.
//!
//! Two equal programs compile to the same code, so kernels are shared by equal programs.

use crate::NumberRule;
use crate::author::{Emit, Pixels};
use crate::shape::MAX_CHANNELS;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

/// One step of a [`Program`]. Operands are indices of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// The parameter with this index, in all lanes.
    Param(u32),
    /// The bits of the parameter with this index, in all lanes.
    ParamBits(u32),
    /// The `f32` with these bits, in all lanes.
    Splat(u32),
    /// An `i32` in all lanes.
    SplatI32(i32),
    /// An operation on one vector.
    Unary(Unary, u32),
    /// An operation on two vectors.
    Binary(Binary, [u32; 2]),
    /// `a * b + c`, rounded once.
    Fma([u32; 3]),
    /// The second operand where the first, a mask, is true, and the third operand elsewhere.
    Select([u32; 3]),
    /// A shift of `i32` by a number of bits.
    Shift(ShiftDirection, u32, u8),
    /// Begins a branch: the instructions up to the matching `End` run if `mask` is true in any
    /// lane.
    Begin {
        /// The mask.
        mask: u32,
        /// The results of `End` if the instructions did not run.
        otherwise: ChannelValues,
    },
    /// Ends the branch of the last `Begin`. `End` has a result for each channel.
    End {
        /// The results if the instructions ran.
        changed: ChannelValues,
    },
}

/// The indices of values, one for each channel: 1 to 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChannelValues {
    values: [u32; MAX_CHANNELS],
    count: u8,
}

impl ChannelValues {
    /// Holds up to four indices.
    pub(crate) fn new(indices: &[u32]) -> Self {
        let mut values = [0; MAX_CHANNELS];
        values[..indices.len()].copy_from_slice(indices);
        Self { values, count: indices.len() as u8 }
    }
}

impl Deref for ChannelValues {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.values[..usize::from(self.count)]
    }
}

impl fmt::Debug for ChannelValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

/// An operation on one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// The square root.
    Sqrt,
    /// Rounds towards zero to a whole number.
    Trunc,
    /// Rounds down to a whole number.
    Floor,
    /// Rounds to the nearest whole number, ties to even.
    Nearest,
    /// Converts `f32` to `i32`, rounding towards zero.
    ToI32,
    /// Converts `i32` to the nearest `f32`.
    ToF32,
    /// The bits of an `f32`, as an `i32`.
    Bits,
    /// The `f32` with the bits of an `i32`.
    FromBits,
}

/// An operation on two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `a + b` of `f32`.
    Add,
    /// `a - b` of `f32`.
    Sub,
    /// `a * b` of `f32`.
    Mul,
    /// `a / b` of `f32`.
    Div,
    /// `a < b` of `f32`.
    Less,
    /// `a == b` of `f32`.
    Equal,
    /// `a < b` of `i32`.
    LessI32,
    /// `a == b` of `i32`.
    EqualI32,
    /// True where both masks are true.
    Both,
    /// True where at least one mask is true.
    Either,
    /// `a + b` of `i32`, which wraps.
    AddI32,
    /// `a * b` of `i32`, which wraps.
    MulI32,
    /// The bitwise and.
    AndI32,
    /// The bitwise exclusive or.
    XorI32,
}

/// The direction of a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShiftDirection {
    /// `a << bits`.
    Left,
    /// `a >> bits`, with zeros from above.
    Right,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Float,
    Word,
    Mask,
}

/// What an op may use, as decided when the list was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The rounding of values between ops.
    pub rule: NumberRule,
    /// The number of the op's parameters.
    pub param_count: usize,
    /// Whether the op may use the position of a pixel.
    pub uses_position: bool,
    /// The number of channels of the pixels that it gets: 1 to 4.
    pub channels: usize,
    /// The number of channels of the pixels that it returns: 1 to 4.
    pub outputs: usize,
}

impl Grant {
    /// Returns the number of values that are defined before the first instruction.
    pub(crate) const fn inputs(&self) -> u32 {
        self.channels as u32 + if self.uses_position { 2 } else { 0 }
    }
}

/// The code of a pixel op, checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    instructions: Vec<Instruction>,
    outputs: ChannelValues,
    param_count: usize,
    uses_position: bool,
}

/// The reason why a recording is not a valid program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// A parameter that the op does not have.
    #[error(
        "instruction {at} of its code reads parameter {param}, but the op has {param_count} parameter(s)"
    )]
    Param {
        /// Index of the instruction.
        at: usize,
        /// Index of the parameter.
        param: u32,
        /// The number of the op's parameters.
        param_count: usize,
    },
    /// An operand that is not defined at this point, or is of another kind.
    #[error(
        "instruction {at} of its code takes a value that is not defined there or is of another \
         kind: use only values that this call of `emit` returned, outside of `where_any` none \
         that were returned inside, and `position` only if `uses_position` returns true"
    )]
    Value {
        /// Index of the instruction.
        at: usize,
    },
    /// A `where_any` that did not return.
    #[error("its `emit` begins a `where_any` that does not return")]
    Open,
    /// A result of another number of channels.
    #[error("its `emit` returns {found} channel(s), but its output has {outputs}")]
    Channels {
        /// The channels of the op's output.
        outputs: usize,
        /// The channels of the pixels that it returns.
        found: usize,
    },
}

impl Instruction {
    /// Returns the number of values that the instruction defines.
    #[must_use]
    pub const fn results(&self) -> u32 {
        match self {
            Self::Begin { .. } => 0,
            Self::End { changed } => changed.count as u32,
            _ => 1,
        }
    }
}

impl Instruction {
    /// Returns the values that an instruction computes with, except for those of branches.
    fn operands(&self) -> Vec<u32> {
        match *self {
            Self::Unary(_, a) | Self::Shift(_, a, _) => vec![a],
            Self::Binary(_, operands) => operands.to_vec(),
            Self::Fma(operands) | Self::Select(operands) => operands.to_vec(),
            Self::Param(_)
            | Self::ParamBits(_)
            | Self::Splat(_)
            | Self::SplatI32(_)
            | Self::Begin { .. }
            | Self::End { .. } => vec![],
        }
    }

    /// Returns this instruction with the operands of another one of its kind.
    fn with_operands(&self, other: &Self) -> Option<Self> {
        Some(match (*self, *other) {
            (Self::Unary(operation, _), Self::Unary(_, a)) => Self::Unary(operation, a),
            (Self::Shift(to, _, bits), Self::Shift(_, a, _)) => Self::Shift(to, a, bits),
            (Self::Binary(operation, _), Self::Binary(_, operands)) => {
                Self::Binary(operation, operands)
            }
            (Self::Fma(_), Self::Fma(operands)) => Self::Fma(operands),
            (Self::Select(_), Self::Select(operands)) => Self::Select(operands),
            (one, _) => one,
        })
    }
}

impl Program {
    /// The maximum number of instructions of a program: far more than any op needs.
    pub const MAX_INSTRUCTIONS: usize = 1 << 16;

    /// Records the instructions of `emit` and checks them.
    ///
    /// # Errors
    ///
    /// See [`ProgramError`].
    ///
    /// # Panics
    ///
    /// If `emit` panics or records more than [`MAX_INSTRUCTIONS`](Self::MAX_INSTRUCTIONS).
    pub fn record(
        grant: Grant,
        emit: impl FnOnce(&mut Emit, Pixels) -> Pixels,
    ) -> Result<Self, ProgramError> {
        let Grant { channels, outputs, param_count, uses_position, .. } = grant;
        let inputs: Vec<u32> = (0..).take(channels).collect();
        let mut e = Emit::new(grant);
        let pixels = emit(&mut e, Pixels::of_values(&inputs));
        let instructions = e.into_instructions();
        let program = Self { instructions, outputs: pixels.values(), param_count, uses_position };
        program.check(channels, outputs)?;
        Ok(program)
    }

    /// Returns the instructions, in order.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Returns the index of the value that is the result for each channel.
    #[must_use]
    pub fn outputs(&self) -> &[u32] {
        &self.outputs
    }

    /// Returns the number of parameters that the program may read.
    #[must_use]
    pub fn param_count(&self) -> usize {
        self.param_count
    }

    /// Returns true if the program's inputs include the row and the column of a pixel, after its
    /// channels.
    #[must_use]
    pub fn uses_position(&self) -> bool {
        self.uses_position
    }

    /// Returns true if the program, of pixels of `channels` channels, computes each from that channel alone, and not from
    /// the pixel's position.
    #[must_use]
    pub fn is_per_channel(&self, channels: usize) -> bool {
        if self.uses_position || self.outputs.len() != channels {
            return false;
        }
        // The channels that each value depends on, as bits.
        let mut of_values: Vec<u8> = (0..channels).map(|c| 1 << c).collect();
        let mut open: Vec<(u32, ChannelValues)> = vec![];
        for instruction in &self.instructions {
            let of = |value: u32| of_values.get(value as usize).copied().unwrap_or(u8::MAX);
            match *instruction {
                Instruction::Begin { mask, otherwise } => open.push((mask, otherwise)),
                Instruction::End { changed } => {
                    let Some((mask, otherwise)) = open.pop() else { return false };
                    let both = changed.iter().zip(&*otherwise);
                    let results: Vec<u8> =
                        both.map(|(one, other)| of(mask) | of(*one) | of(*other)).collect();
                    of_values.extend(results);
                }
                _ => {
                    let all = instruction.operands().into_iter().fold(0, |all, v| all | of(v));
                    of_values.push(all);
                }
            }
        }
        (0..).zip(self.outputs.iter()).all(|(c, value)| {
            of_values.get(*value as usize).is_some_and(|channels| channels & !(1 << c) == 0)
        })
    }

    /// Returns true if a program of two channels computes each from that channel alone, and both in the same
    /// way: then it does so for any number of channels.
    #[must_use]
    pub fn treats_channels_alike(&self) -> bool {
        let &[first, second] = self.outputs() else { return false };
        let inputs = if self.uses_position { 4 } else { 2 };
        // The instruction of each value, and the branch that it ends.
        let (mut defined_by, mut open) = (vec![], vec![]);
        for instruction in &self.instructions {
            match *instruction {
                Instruction::Begin { mask, otherwise } => open.push((mask, otherwise)),
                Instruction::End { .. } => defined_by.push((instruction, open.pop())),
                _ => defined_by.push((instruction, None)),
            }
            if instruction.results() > 1 {
                return false; // the branch is taken for all channels together
            }
        }
        let (mut pairs, mut seen) = (vec![(first, second)], HashSet::new());
        while let Some((a, b)) = pairs.pop() {
            if !seen.insert((a, b)) {
                continue;
            }
            let defined = |value: u32| defined_by.get(value.checked_sub(inputs)? as usize);
            match (defined(a), defined(b)) {
                (None, None) if (a, b) == (0, 1) || (a == b && a >= 2) => {}
                (
                    Some((Instruction::End { changed: one }, Some((mask, otherwise)))),
                    Some((Instruction::End { changed: other }, Some((of_other, elsewhere)))),
                ) => {
                    pairs.push((*mask, *of_other));
                    pairs.extend(one.iter().copied().zip(other.iter().copied()));
                    pairs.extend(otherwise.iter().copied().zip(elsewhere.iter().copied()));
                }
                (Some((one, _)), Some((other, _))) if one.with_operands(other) == Some(**other) => {
                    pairs.extend(one.operands().into_iter().zip(other.operands()));
                }
                _ => return false,
            }
        }
        true
    }

    fn check(&self, channels: usize, outputs: usize) -> Result<(), ProgramError> {
        let mut values = Values { kinds: vec![Some(Kind::Float); channels], open: vec![] };
        if self.uses_position {
            values.kinds.extend([Some(Kind::Word); 2]);
        }
        for (at, instruction) in self.instructions.iter().enumerate() {
            if let Instruction::Param(param) | Instruction::ParamBits(param) = *instruction
                && param as usize >= self.param_count
            {
                return Err(ProgramError::Param { at, param, param_count: self.param_count });
            }
            values.take(*instruction).ok_or(ProgramError::Value { at })?;
        }
        let at = self.instructions.len();
        values.all(&self.outputs, Kind::Float).ok_or(ProgramError::Value { at })?;
        if !values.open.is_empty() {
            return Err(ProgramError::Open);
        }
        let found = self.outputs.len();
        if found == outputs { Ok(()) } else { Err(ProgramError::Channels { outputs, found }) }
    }
}

/// The values that are defined so far.
struct Values {
    /// The kind of each value; `None` if the value is no longer visible.
    kinds: Vec<Option<Kind>>,
    /// For each `Begin` without an `End` so far, the number of values that were defined before it, and the
    /// number of its channels.
    open: Vec<(usize, usize)>,
}

impl Values {
    /// Checks one instruction and defines its results; `None` if its operands are not of the kinds
    /// that it needs.
    fn take(&mut self, instruction: Instruction) -> Option<()> {
        match instruction {
            Instruction::Param(_) | Instruction::Splat(_) => self.define(Kind::Float),
            Instruction::ParamBits(_) | Instruction::SplatI32(_) => self.define(Kind::Word),
            Instruction::Unary(operation, a) => {
                let [takes, gives] = operation.kinds();
                self.all(&[a], takes)?;
                self.define(gives);
            }
            Instruction::Binary(operation, operands) => {
                let [takes, gives] = operation.kinds();
                self.all(&operands, takes)?;
                self.define(gives);
            }
            Instruction::Fma(operands) => {
                self.all(&operands, Kind::Float)?;
                self.define(Kind::Float);
            }
            Instruction::Select([mask, a, b]) => {
                self.all(&[mask], Kind::Mask)?;
                self.all(&[a, b], Kind::Float)?;
                self.define(Kind::Float);
            }
            Instruction::Shift(_, a, _) => {
                self.all(&[a], Kind::Word)?;
                self.define(Kind::Word);
            }
            Instruction::Begin { mask, otherwise } => {
                self.all(&[mask], Kind::Mask)?;
                self.all(&otherwise, Kind::Float)?;
                self.open.push((self.kinds.len(), otherwise.len()));
            }
            Instruction::End { changed } => {
                self.all(&changed, Kind::Float)?;
                let (before, _) = self.open.pop().filter(|(_, count)| *count == changed.len())?;
                self.kinds[before..].fill(None);
                self.kinds.extend(changed.iter().map(|_| Some(Kind::Float)));
            }
        }
        Some(())
    }

    fn define(&mut self, kind: Kind) {
        self.kinds.push(Some(kind));
    }

    /// Returns `Some` if all of `values` are visible and of kind `kind`.
    fn all(&self, values: &[u32], kind: Kind) -> Option<()> {
        let is = |value: &u32| self.kinds.get(*value as usize) == Some(&Some(kind));
        values.iter().all(is).then_some(())
    }
}

impl Unary {
    /// Returns the kind of the operands and the kind of the result.
    const fn kinds(self) -> [Kind; 2] {
        match self {
            Self::Sqrt | Self::Trunc | Self::Floor | Self::Nearest => [Kind::Float, Kind::Float],
            Self::ToI32 | Self::Bits => [Kind::Float, Kind::Word],
            Self::ToF32 | Self::FromBits => [Kind::Word, Kind::Float],
        }
    }
}

impl Binary {
    /// Returns the kind of the operands and the kind of the result.
    const fn kinds(self) -> [Kind; 2] {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div => [Kind::Float, Kind::Float],
            Self::Less | Self::Equal => [Kind::Float, Kind::Mask],
            Self::LessI32 | Self::EqualI32 => [Kind::Word, Kind::Mask],
            Self::Both | Self::Either => [Kind::Mask, Kind::Mask],
            Self::AddI32 | Self::MulI32 | Self::AndI32 | Self::XorI32 => [Kind::Word, Kind::Word],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn record(
        param_count: usize,
        emit: impl FnOnce(&mut Emit, Pixels) -> Pixels,
    ) -> Result<Program, ProgramError> {
        let rule = NumberRule::Fused;
        let grant = Grant { rule, param_count, uses_position: false, channels: 3, outputs: 3 };
        Program::record(grant, emit)
    }

    #[test]
    fn a_program_is_what_was_said_in_order() {
        let program = record(1, |e, pixels| {
            let factor = e.param(0);
            let two = e.splat(2.0);
            let factor = e.mul(factor, two);
            e.each(pixels, |e, _, v| e.add(v, factor))
        });
        let program = program.unwrap();
        let add = |channel| Instruction::Binary(Binary::Add, [channel, 5]);
        let said = [
            Instruction::Param(0),
            Instruction::Splat(2f32.to_bits()),
            Instruction::Binary(Binary::Mul, [3, 4]),
            add(0),
            add(1),
            add(2),
        ];
        assert_eq!(program.instructions(), said);
        assert_eq!((program.outputs(), program.param_count()), (&[6, 7, 8][..], 1));
    }

    #[test]
    fn a_parameter_that_was_not_granted_is_refused() {
        for param in [1, 1 << 23, usize::MAX] {
            let error = record(1, |e, pixels| {
                e.param(param);
                pixels
            });
            assert!(
                matches!(error, Err(ProgramError::Param { at: 0, param_count: 1, .. })),
                "{param}"
            );
            let error = record(1, |e, pixels| {
                e.param_bits(param);
                pixels
            });
            assert!(matches!(error, Err(ProgramError::Param { .. })), "{param}");
        }
    }

    #[test]
    fn a_place_that_was_not_granted_is_refused() {
        let error = record(0, |e, pixels| {
            let [row, column] = e.position();
            e.add_i32(row, column);
            pixels
        });
        assert_eq!(error, Err(ProgramError::Value { at: 0 }));
    }

    #[test]
    fn a_value_of_another_op_is_refused() {
        let mut smuggled = None;
        record(0, |e, pixels| {
            e.splat(0.0);
            smuggled = Some(e.splat(1.0));
            pixels
        })
        .unwrap();
        let error = record(0, |_, _| Pixels::from([smuggled.unwrap(); 3]));
        assert_eq!(error, Err(ProgramError::Value { at: 0 }));
        // A value with the same index is refused too if it is of another kind.
        let error = record(0, |e, pixels| {
            e.splat(0.0);
            e.splat_i32(1);
            e.sqrt(smuggled.unwrap());
            pixels
        });
        assert_eq!(error, Err(ProgramError::Value { at: 2 }));
    }

    #[test]
    fn a_value_made_inside_of_where_any_is_not_seen_outside() {
        let leaks = |at_end: bool| {
            record(0, |e, pixels| {
                let zero = e.splat(0.0);
                let mask = e.less(pixels.channels()[0], zero);
                let mut inside = zero;
                let changed = e.where_any(mask, pixels, |e, pixels| {
                    inside = e.splat(7.0);
                    e.each(pixels, |e, _, v| e.add(v, inside))
                });
                if at_end { pixels.filled(inside) } else { changed }
            })
        };
        assert!(leaks(false).is_ok());
        assert!(matches!(leaks(true), Err(ProgramError::Value { .. })));
    }

    #[test]
    fn a_where_any_that_panics_is_refused() {
        let error = record(0, |e, pixels| {
            let zero = e.splat(0.0);
            let mask = e.less(pixels.channels()[0], zero);
            let panics = || e.where_any(mask, pixels, |_, _| panic!("inside"));
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            pixels
        });
        assert_eq!(error, Err(ProgramError::Open));
    }

    /// A recorder that is swapped for another one does not bring its permissions along.
    #[test]
    fn a_recorder_that_is_exchanged_grants_nothing() {
        let rule = NumberRule::Fused;
        let (param_count, uses_position) = (1 << 24, true);
        let grant = Grant { rule, param_count, uses_position, channels: 3, outputs: 3 };
        let error = record(1, |outer, pixels| {
            let inner = Program::record(grant, |inner, pixels| {
                inner.param(1 << 23);
                std::mem::swap(outer, inner);
                pixels
            });
            assert!(inner.is_ok());
            pixels
        });
        assert!(matches!(error, Err(ProgramError::Param { param_count: 1, .. })));
    }

    #[test]
    #[should_panic(expected = "more than 65536 instructions")]
    fn a_program_without_end_is_refused() {
        let _ = record(0, |e, _| {
            loop {
                e.splat(0.0);
            }
        });
    }
}
