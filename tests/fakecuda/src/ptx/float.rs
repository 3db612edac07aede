//! Arithmetic and comparisons of f32 and f64, rounded to nearest even, with subnormals.
//!
//! A NaN that f32 arithmetic returns is 0x7fffffff, whatever the operands. f64 returns Rust's NaN,
//! which none of our kernels stores.

use super::integer::combination;
use super::types::{Pure, pure};
use std::cmp::Ordering;

/// The only NaN that f32 arithmetic returns.
pub(super) const NAN: u32 = 0x7fff_ffff;

pub(super) fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub(super) fn bits_of(value: f32) -> u64 {
    u64::from(if value.is_nan() { NAN } else { value.to_bits() })
}

/// Returns the function of the instruction `parts`, if it is a float instruction.
pub(super) fn decode(parts: &[&str]) -> Option<Pure> {
    match parts {
        ["setp", compare, width @ ("f32" | "f64")] => {
            let holds = comparison(compare)?;
            let read = reader(width);
            pure(move |[a, b, ..]| u64::from(holds(read(a).partial_cmp(&read(b)))))
        }
        ["setp", compare, combine, width @ ("f32" | "f64")] => {
            let (holds, combined) = (comparison(compare)?, combination(combine)?);
            let read = reader(width);
            pure(move |[a, b, c, _]| {
                u64::from(combined(holds(read(a).partial_cmp(&read(b))), c != 0))
            })
        }
        [name, "rn", "f32"] => rounded_f32(name),
        [name, "rn", "f64"] => rounded_f64(name),
        [name @ ("min" | "max"), width] => extreme(name == &"min", width),
        [name @ ("abs" | "neg" | "copysign"), width] => sign(name, width),
        _ => None,
    }
}

/// Returns the reader of a value as f64, which can represent every f32.
fn reader(width: &str) -> fn(u64) -> f64 {
    if width == "f32" { |bits| f64::from(f32_of(bits)) } else { f64::from_bits }
}

/// Tests the order of two values: `None`, if one is NaN.
type Holds = fn(Option<Ordering>) -> bool;

fn comparison(name: &str) -> Option<Holds> {
    Some(match name {
        "eq" => |order| order.is_some_and(Ordering::is_eq),
        "ne" => |order| order.is_some_and(Ordering::is_ne),
        "lt" => |order| order.is_some_and(Ordering::is_lt),
        "le" => |order| order.is_some_and(Ordering::is_le),
        "gt" => |order| order.is_some_and(Ordering::is_gt),
        "ge" => |order| order.is_some_and(Ordering::is_ge),
        "equ" => |order| order.is_none_or(Ordering::is_eq),
        "neu" => |order| order.is_none_or(Ordering::is_ne),
        "ltu" => |order| order.is_none_or(Ordering::is_lt),
        "leu" => |order| order.is_none_or(Ordering::is_le),
        "gtu" => |order| order.is_none_or(Ordering::is_gt),
        "geu" => |order| order.is_none_or(Ordering::is_ge),
        "num" => |order| order.is_some(),
        "nan" => |order| order.is_none(),
        _ => return None,
    })
}

fn rounded_f32(name: &str) -> Option<Pure> {
    let f = f32_of;
    match name {
        "add" => pure(move |[a, b, ..]| bits_of(f(a) + f(b))),
        "sub" => pure(move |[a, b, ..]| bits_of(f(a) - f(b))),
        "mul" => pure(move |[a, b, ..]| bits_of(f(a) * f(b))),
        "div" => pure(move |[a, b, ..]| bits_of(f(a) / f(b))),
        "fma" | "mad" => pure(move |[a, b, c, _]| bits_of(f(a).mul_add(f(b), f(c)))),
        "sqrt" => pure(move |[a, ..]| bits_of(f(a).sqrt())),
        "rcp" => pure(move |[a, ..]| bits_of(1.0 / f(a))),
        _ => None,
    }
}

fn rounded_f64(name: &str) -> Option<Pure> {
    let f = f64::from_bits;
    match name {
        "add" => pure(move |[a, b, ..]| (f(a) + f(b)).to_bits()),
        "sub" => pure(move |[a, b, ..]| (f(a) - f(b)).to_bits()),
        "mul" => pure(move |[a, b, ..]| (f(a) * f(b)).to_bits()),
        "div" => pure(move |[a, b, ..]| (f(a) / f(b)).to_bits()),
        "fma" => pure(move |[a, b, c, _]| f(a).mul_add(f(b), f(c)).to_bits()),
        "sqrt" => pure(move |[a, ..]| f(a).sqrt().to_bits()),
        _ => None,
    }
}

/// The lesser or the greater value; the other operand if one is NaN; -0 is less than +0.
fn extreme(least: bool, width: &str) -> Option<Pure> {
    let first = move |a: f64, b: f64| {
        let less = a < b || (a == b && a.is_sign_negative() && b.is_sign_positive());
        b.is_nan() || (!a.is_nan() && less == least)
    };
    match width {
        "f32" => pure(move |[a, b, ..]| {
            let (x, y) = (f32_of(a), f32_of(b));
            bits_of(if first(x.into(), y.into()) { x } else { y })
        }),
        "f64" => {
            pure(move |[a, b, ..]| if first(f64::from_bits(a), f64::from_bits(b)) { a } else { b })
        }
        _ => None,
    }
}

/// Instructions that change only the sign: `copysign` gives the second operand the sign of the
/// first.
fn sign(name: &str, width: &str) -> Option<Pure> {
    let sign: u64 = match width {
        "f32" => 1 << 31,
        "f64" => 1 << 63,
        _ => return None,
    };
    let rest = sign - 1;
    match name {
        "abs" => pure(move |[a, ..]| a & rest),
        "neg" => pure(move |[a, ..]| (a & (sign | rest)) ^ sign),
        _ => pure(move |[a, b, ..]| (a & sign) | (b & rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(op: &str, values: [f32; 3]) -> u32 {
        let [a, b, c] = values.map(|value| u64::from(value.to_bits()));
        decode(&op.split('.').collect::<Vec<_>>()).unwrap().0([a, b, c, 0]).unwrap() as u32
    }

    #[test]
    fn a_nan_is_the_hardwares() {
        assert_eq!(of("add.rn.f32", [f32::INFINITY, f32::NEG_INFINITY, 0.0]), NAN);
        assert_eq!(of("sqrt.rn.f32", [-1.0, 0.0, 0.0]), NAN);
        assert_eq!(of("min.f32", [f32::NAN, f32::NAN, 0.0]), NAN);
    }

    #[test]
    fn extremes_know_nan_and_the_sign_of_zero() {
        assert_eq!(of("min.f32", [f32::NAN, 255.0, 0.0]), 255.0f32.to_bits());
        assert_eq!(of("max.f32", [1.0, f32::NAN, 0.0]), 1.0f32.to_bits());
        assert_eq!(of("min.f32", [0.0, -0.0, 0.0]), (-0.0f32).to_bits());
        assert_eq!(of("max.f32", [-0.0, 0.0, 0.0]), 0);
    }

    #[test]
    fn an_fma_rounds_once() {
        // (1 + e)^2 is 1 + 2e + e^2, and no f32 near 1 can represent the last term.
        let (x, near) = (1.0 + f32::EPSILON, -1.0 - 2.0 * f32::EPSILON);
        let square = f32::EPSILON * f32::EPSILON;
        assert_eq!(of("fma.rn.f32", [x, x, near]), square.to_bits());
    }

    #[test]
    fn comparisons_without_order_hold_of_nan() {
        for (name, expected) in [("lt", 0), ("ltu", 1), ("ne", 0), ("neu", 1), ("nan", 1)] {
            assert_eq!(of(&format!("setp.{name}.f32"), [f32::NAN, 1.0, 0.0]), expected, "{name}");
        }
    }

    #[test]
    fn other_roundings_are_not_covered() {
        for op in ["add.f32", "add.rz.f32", "add.rn.ftz.f32", "div.approx.f32", "fma.rn.sat.f32"] {
            assert!(decode(&op.split('.').collect::<Vec<_>>()).is_none(), "{op}");
        }
    }
}
