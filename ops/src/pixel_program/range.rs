//! The ranges of the results of a pixel program, for levels of 0 to 255: a result that does not leave them needs no clamp.
//!
//! Rounding keeps the order of numbers, so the ends of a range are computed by the operations themselves.

use super::code::{Operand, Operation, Step};
use super::draw::Draw;
use crate::author::{max, min};

/// The ends of a range, which may be infinite. A number in it is not NaN.
type Range = [f32; 2];

/// The range of any number.
const ANY: Range = [f32::NEG_INFINITY, f32::INFINITY];

/// The last row or column of an image.
const LAST: f32 = 65_534.0;

/// Returns whether each of the results is 0 or more, and whether it is 255 or less.
pub(super) fn limits(steps: &[Step], results: &[Operand], draws: &[Draw]) -> Vec<[bool; 2]> {
    let mut ranges: Vec<Option<Range>> = Vec::with_capacity(steps.len());
    for step in steps {
        let of_operands = step.operands.map(|operand| range(operand, &ranges, draws));
        let is_square = step.operation == Operation::Mul && step.operands[0] == step.operands[1];
        let found = of_step(step.operation, of_operands, is_square);
        ranges.push(found.filter(|[low, high]| low <= high));
    }
    let limits = |[low, high]: Range| [0.0 <= low, high <= 255.0];
    let of = |operand: &Operand| range(*operand, &ranges, draws).map_or([false; 2], limits);
    results.iter().map(of).collect()
}

fn range(operand: Operand, ranges: &[Option<Range>], draws: &[Draw]) -> Option<Range> {
    match operand {
        Operand::Channel(_) => Some([0.0, 255.0]),
        Operand::Row | Operand::Column => Some([0.0, LAST]),
        Operand::Height | Operand::Width => Some([1.0, LAST + 1.0]),
        Operand::Drawn(index) => draws[usize::from(index)].range(),
        Operand::Number(bits) => {
            Some([f32::from_bits(bits); 2]).filter(|[number, _]| !number.is_nan())
        }
        Operand::Result(index) => ranges[usize::from(index)],
    }
}

/// Returns the range of a result; `None` if it may be any number, or NaN.
fn of_step(operation: Operation, [a, b, c]: [Option<Range>; 3], is_square: bool) -> Option<Range> {
    use Operation as O;
    let each = |change: fn(f32) -> f32| Some(a?.map(change));
    match operation {
        O::Neg => Some([-a?[1], -a?[0]]),
        O::Abs => {
            let [low, high] = a?;
            Some([max(max(low, -high), 0.0), max(-low, high)])
        }
        O::Sqrt if a?[0] >= 0.0 => each(f32::sqrt),
        O::Floor => each(f32::floor),
        O::Ceil => each(f32::ceil),
        O::Trunc => each(f32::trunc),
        O::Round => each(f32::round_ties_even),
        O::Add => finite([finite(a?)?[0] + finite(b?)?[0], a?[1] + b?[1]]),
        O::Sub => finite([finite(a?)?[0] - finite(b?)?[1], a?[1] - b?[0]]),
        O::Mul => {
            let [low, high] = corners(a?, b?, |a, b| a * b)?;
            Some([if is_square { 0.0 } else { low }, high])
        }
        O::Div if b?[0] > 0.0 || b?[1] < 0.0 => corners(a?, b?, |a, b| a / b),
        O::Fma => {
            let sum = |c: f32| corners(a?, b?, |a, b| a.mul_add(b, c));
            let [low, high] = finite(c?)?;
            Some([sum(low)?[0], sum(high)?[1]])
        }
        // The second number is the result if either is NaN.
        O::Min => {
            let ([low, high], b) = (a.unwrap_or(ANY), b?);
            Some([min(low, b[0]), min(high, b[1])])
        }
        O::Max => {
            let ([low, high], b) = (a.unwrap_or(ANY), b?);
            Some([max(low, b[0]), max(high, b[1])])
        }
        O::Where => Some([min(b?[0], c?[0]), max(b?[1], c?[1])]),
        _ => None,
    }
}

/// Returns a range whose ends are numbers.
fn finite(range: Range) -> Option<Range> {
    range.iter().all(|end| end.is_finite()).then_some(range)
}

/// Returns the range of an operation that is monotone in each of two numbers.
fn corners(a: Range, b: Range, operation: impl Fn(f32, f32) -> f32) -> Option<Range> {
    let (a, b) = (finite(a)?, finite(b)?);
    let ends =
        [(a[0], b[0]), (a[0], b[1]), (a[1], b[0]), (a[1], b[1])].map(|(a, b)| operation(a, b));
    let is_finite = ends.iter().all(|end| end.is_finite());
    is_finite.then_some([ends.into_iter().fold(ANY[1], min), ends.into_iter().fold(ANY[0], max)])
}
