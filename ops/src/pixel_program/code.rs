//! The code of a pixel program: its operations, each computed for one pixel and recorded for several.

use super::floored;
use crate::author::{Emit, Pixels, cos, exp, log, max, min, pow, sin};
use crate::emit::{F32x4, I32x4, Mask};
use std::cell::RefCell;

/// The bit of the sign of an `f32`.
const SIGN: u32 = 1 << 31;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Number,
    Truth,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Neg,
    Abs,
    Sqrt,
    Floor,
    Ceil,
    Trunc,
    Round,
    Exp,
    Log,
    Sin,
    Cos,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Remainder,
    Min,
    Max,
    Pow,
    Fma,
    Less,
    LessEqual,
    Equal,
    And,
    Or,
    Not,
    Where,
}

/// An operation as it is written: its name, the kinds of its operands and of its result, and the maximum number of
/// instructions that it is recorded as.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) operation: Operation,
    pub(super) takes: &'static [Kind],
    pub(super) gives: Kind,
    pub(super) instructions: usize,
}

const ONE: &[Kind] = &[Kind::Number];
const TWO: &[Kind] = &[Kind::Number; 2];
const THREE: &[Kind] = &[Kind::Number; 3];
const TRUTHS: &[Kind] = &[Kind::Truth; 2];
const CHOICE: &[Kind] = &[Kind::Truth, Kind::Number, Kind::Number];

/// All operations.
pub(super) static FORMS: [Form; 28] = {
    use Kind::{Number, Truth};
    use Operation as O;
    const fn form(
        name: &'static str,
        operation: Operation,
        takes: &'static [Kind],
        gives: Kind,
        instructions: usize,
    ) -> Form {
        Form { name, operation, takes, gives, instructions }
    }
    [
        form("neg", O::Neg, ONE, Number, 4),
        form("abs", O::Abs, ONE, Number, 4),
        form("sqrt", O::Sqrt, ONE, Number, 1),
        form("floor", O::Floor, ONE, Number, 1),
        form("ceil", O::Ceil, ONE, Number, 9),
        form("trunc", O::Trunc, ONE, Number, 1),
        form("round", O::Round, ONE, Number, 1),
        form("exp", O::Exp, ONE, Number, 64),
        form("log", O::Log, ONE, Number, 64),
        form("sin", O::Sin, ONE, Number, 80),
        form("cos", O::Cos, ONE, Number, 80),
        form("add", O::Add, TWO, Number, 1),
        form("sub", O::Sub, TWO, Number, 1),
        form("mul", O::Mul, TWO, Number, 1),
        form("div", O::Div, TWO, Number, 1),
        form("floor_div", O::FloorDiv, TWO, Number, 192),
        form("remainder", O::Remainder, TWO, Number, 192),
        form("min", O::Min, TWO, Number, 2),
        form("max", O::Max, TWO, Number, 2),
        form("pow", O::Pow, TWO, Number, 256),
        form("fma", O::Fma, THREE, Number, 1),
        form("less", O::Less, TWO, Truth, 1),
        form("less_equal", O::LessEqual, TWO, Truth, 3),
        form("equal", O::Equal, TWO, Truth, 1),
        form("and", O::And, TRUTHS, Truth, 1),
        form("or", O::Or, TRUTHS, Truth, 1),
        form("not", O::Not, &[Truth], Truth, 4),
        form("where", O::Where, CHOICE, Number, 1),
    ]
};

/// Something that an operation takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operand {
    Channel(u8),
    Row,
    Column,
    Height,
    Width,
    /// The drawn number with this index.
    Drawn(u16),
    /// The number with these bits.
    Number(u32),
    /// The result of the step with this index.
    Result(u16),
}

/// An operation and as many operands as it takes. The others are 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) operation: Operation,
    pub(super) operands: [Operand; 3],
    /// The number of operands that the operation takes.
    pub(super) count: u8,
}

/// The steps for pixels of one number of channels, checked: each operand is defined before it is used, and of the right
/// kind.
#[derive(Debug, PartialEq)]
pub(super) struct Code {
    pub(super) channels: usize,
    pub(super) steps: Vec<Step>,
    /// The numbers of the resulting pixel, 1 to 4.
    pub(super) results: Vec<Operand>,
    /// Two flags for each of them: it is 0 or more, and it is 255 or less, if all channels are in 0..=255.
    pub(super) limits: Vec<[bool; 2]>,
}

/// What the code knows of a sample and a pixel besides the channels.
pub(super) struct Sample<'a> {
    pub(super) params: &'a [f32],
    /// The number of draws, which the height and the width follow.
    pub(super) draws: usize,
    pub(super) at: [i32; 2],
}

impl Code {
    /// Returns the number of channels of the result.
    pub(super) fn outputs(&self) -> usize {
        self.results.len()
    }

    fn operands(&self) -> impl Iterator<Item = &Operand> {
        let of_steps = self.steps.iter().flat_map(|step| step.given());
        of_steps.chain(&self.results)
    }

    pub(super) fn uses_position(&self) -> bool {
        self.operands().any(|operand| matches!(operand, Operand::Row | Operand::Column))
    }

    /// Returns true if each channel of the result depends on this channel of the pixel alone.
    pub(super) fn is_per_channel(&self) -> bool {
        // The channels that each result depends on, as bits.
        let mut of_results: Vec<u8> = Vec::with_capacity(self.steps.len());
        let of = |operand: &Operand, of_results: &[u8]| match *operand {
            Operand::Channel(c) => 1 << c,
            Operand::Row | Operand::Column => u8::MAX,
            Operand::Result(index) => of_results[usize::from(index)],
            Operand::Height | Operand::Width | Operand::Drawn(_) | Operand::Number(_) => 0,
        };
        for step in &self.steps {
            let all = step.given().iter().fold(0, |all, operand| all | of(operand, &of_results));
            of_results.push(all);
        }
        let mut results = self.results.iter().enumerate();
        self.outputs() == self.channels
            && results.all(|(c, operand)| of(operand, &of_results) & !(1 << c) == 0)
    }

    /// Computes the result for one pixel: the first [`outputs`](Self::outputs) numbers.
    pub(super) fn eval(&self, sample: &Sample<'_>, pixel: &[f32]) -> [f32; 4] {
        thread_local! {
            static RESULTS: RefCell<Vec<f32>> = const { RefCell::new(vec![]) };
        }
        RESULTS.with_borrow_mut(|results| {
            results.clear();
            for step in &self.steps {
                let operands = step.operands.map(|operand| number(operand, sample, pixel, results));
                results.push(step.operation.eval(operands));
            }
            let mut out = [0.0; 4];
            for (out, operand) in out.iter_mut().zip(&self.results) {
                *out = number(*operand, sample, pixel, results);
            }
            out
        })
    }

    /// Records the same for several pixels. An op has `draws` draws.
    pub(super) fn emit(&self, e: &mut Emit, pixels: Pixels, draws: usize) -> Pixels {
        let mut inputs: Vec<(Operand, u32)> = vec![];
        let mut results: Vec<u32> = Vec::with_capacity(self.steps.len());
        let mut value = |e: &mut Emit, operand: Operand, results: &[u32]| {
            if let Operand::Result(index) = operand {
                return results[usize::from(index)];
            }
            if let Some((_, known)) = inputs.iter().find(|(input, _)| *input == operand) {
                return *known;
            }
            let [row, column] = e.position();
            let F32x4(input) = match operand {
                Operand::Channel(c) => pixels.channels()[usize::from(c)],
                Operand::Row => e.to_f32(row),
                Operand::Column => e.to_f32(column),
                Operand::Height => e.param(draws),
                Operand::Width => e.param(draws + 1),
                Operand::Drawn(index) => e.param(usize::from(index)),
                Operand::Number(bits) => e.splat(f32::from_bits(bits)),
                Operand::Result(index) => F32x4(results[usize::from(index)]),
            };
            inputs.push((operand, input));
            input
        };
        for step in &self.steps {
            let mut operands = [0; 3];
            for (operand, given) in operands.iter_mut().zip(step.given()) {
                *operand = value(e, *given, &results);
            }
            results.push(step.operation.emit(e, operands));
        }
        let outputs: Vec<u32> =
            self.results.iter().map(|operand| value(e, *operand, &results)).collect();
        Pixels::of_values(&outputs)
    }
}

impl Step {
    /// Returns the operands that the operation takes.
    fn given(&self) -> &[Operand] {
        &self.operands[..usize::from(self.count)]
    }
}

/// Returns the number that an operand stands for; 1 for true and 0 for false.
fn number(operand: Operand, sample: &Sample<'_>, pixel: &[f32], results: &[f32]) -> f32 {
    match operand {
        Operand::Channel(c) => pixel[usize::from(c)],
        Operand::Row => sample.at[0] as f32,
        Operand::Column => sample.at[1] as f32,
        Operand::Height => sample.params[sample.draws],
        Operand::Width => sample.params[sample.draws + 1],
        Operand::Drawn(index) => sample.params[usize::from(index)],
        Operand::Number(bits) => f32::from_bits(bits),
        Operand::Result(index) => results[usize::from(index)],
    }
}

impl Operation {
    fn eval(self, [a, b, c]: [f32; 3]) -> f32 {
        let truth = |is_true: bool| f32::from(u8::from(is_true));
        match self {
            Self::Neg => f32::from_bits(a.to_bits() ^ SIGN),
            Self::Abs => f32::from_bits(a.to_bits() & !SIGN),
            Self::Sqrt => a.sqrt(),
            Self::Floor => a.floor(),
            Self::Ceil => a.ceil(),
            Self::Trunc => a.trunc(),
            Self::Round => a.round_ties_even(),
            Self::Exp => exp(a),
            Self::Log => log(a),
            Self::Sin => sin(a),
            Self::Cos => cos(a),
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::FloorDiv => floored::floor_div(a, b),
            Self::Remainder => floored::remainder(a, b),
            Self::Min => min(a, b),
            Self::Max => max(a, b),
            Self::Pow => pow(a, b),
            Self::Fma => a.mul_add(b, c),
            Self::Less => truth(a < b),
            Self::LessEqual => truth(a <= b),
            Self::Equal => truth(a == b),
            Self::And => truth(a == 1.0 && b == 1.0),
            Self::Or => truth(a == 1.0 || b == 1.0),
            Self::Not => truth(a != 1.0),
            Self::Where => {
                if a == 1.0 {
                    b
                } else {
                    c
                }
            }
        }
    }

    /// Records the operation on values, given by their indices, and returns the index of the result.
    fn emit(self, e: &mut Emit, operands: [u32; 3]) -> u32 {
        let ([a, b, c], [p, q, _]) = (operands.map(F32x4), operands.map(Mask));
        let result = match self {
            Self::Neg => negated(e, a),
            Self::Abs => absolute(e, a),
            Self::Sqrt => e.sqrt(a),
            Self::Floor => e.floor(a),
            Self::Ceil => {
                let turned = negated(e, a);
                let floor = e.floor(turned);
                negated(e, floor)
            }
            Self::Trunc => e.trunc(a),
            Self::Round => e.round(a),
            Self::Exp => e.exp(a),
            Self::Log => e.log(a),
            Self::Sin => e.sin(a),
            Self::Cos => e.cos(a),
            Self::Add => e.add(a, b),
            Self::Sub => e.sub(a, b),
            Self::Mul => e.mul(a, b),
            Self::Div => e.div(a, b),
            Self::FloorDiv => floored::emit_floor_div(e, a, b),
            Self::Remainder => floored::emit_remainder(e, a, b),
            Self::Min => e.min(a, b),
            Self::Max => e.max(a, b),
            Self::Pow => e.pow(a, b),
            Self::Fma => e.fma(a, b, c),
            Self::Where => e.select(p, b, c),
            Self::Less => return e.less(a, b).0,
            Self::LessEqual => {
                let (is_less, is_equal) = (e.less(a, b), e.equal(a, b));
                return e.either(is_less, is_equal).0;
            }
            Self::Equal => return e.equal(a, b).0,
            Self::And => return e.both(p, q).0,
            Self::Or => return e.either(p, q).0,
            Self::Not => {
                let (zero, one) = (e.splat(0.0), e.splat(1.0));
                let number = e.select(p, zero, one);
                return e.equal(number, one).0;
            }
        };
        result.0
    }
}

fn negated(e: &mut Emit, a: F32x4) -> F32x4 {
    let sign = e.splat_i32(SIGN.cast_signed());
    with_sign(e, a, sign)
}

/// Returns `a` with its sign turned where `sign` has the bit of one.
pub(super) fn with_sign(e: &mut Emit, a: F32x4, sign: I32x4) -> F32x4 {
    let bits = e.bits(a);
    let bits = e.xor_i32(bits, sign);
    e.from_bits(bits)
}

/// Returns the bit of the sign.
pub(super) fn sign_of(e: &mut Emit, a: F32x4) -> I32x4 {
    let (bits, sign) = (e.bits(a), e.splat_i32(SIGN.cast_signed()));
    e.and_i32(bits, sign)
}

pub(super) fn absolute(e: &mut Emit, a: F32x4) -> F32x4 {
    let (bits, others) = (e.bits(a), e.splat_i32(!SIGN as i32));
    let bits = e.and_i32(bits, others);
    e.from_bits(bits)
}
