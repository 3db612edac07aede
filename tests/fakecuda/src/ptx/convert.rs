//! Conversions: `cvt[.rounding].to.from`.
//!
//! | from    | to    | rounding         | a value out of range                                   |
//! |---------|-------|------------------|--------------------------------------------------------|
//! | integer | int.  | none             | is truncated                                           |
//! | integer | float | rn               |                                                        |
//! | float   | int.  | rni rzi rmi rpi  | becomes the nearest representable value                |
//! | float   | same  | rni rzi rmi rpi  |                                                        |
//! | f32     | f16   | rn               | becomes infinite                                       |
//! | f64     | f32   | rn               | becomes infinite                                       |
//! | f16     | f32   | none             |                                                        |
//! | f32     | f64   | none             |                                                        |
//!
//! NaN becomes 0; from f64, or to 64 bits, only the highest bit is 1 (PTX ISA, cvt).

use super::float::{bits_of, f32_of};
use super::types::{Kind, Pure, Type, pure};
use half::f16;

/// Returns the function of the conversion `parts`.
pub(super) fn decode(parts: &[&str]) -> Option<Pure> {
    let (["cvt", modifiers @ ..], [to, from]) =
        parts.split_at_checked(parts.len().checked_sub(2)?)?
    else {
        return None;
    };
    let (to, from) = (Type::parse(to)?, Type::parse(from)?);
    let kinds = (from.is_integer(), to.is_integer());
    match (kinds, modifiers) {
        ((true, true), []) => pure(move |[a, ..]| to.mask(from.integer(a) as u64)),
        ((true, false), ["rn"]) => from_integer(to, from),
        ((false, true), [rounding]) => to_integer(to, from, rounding),
        ((false, false), [rounding]) if to == from => to_whole(to, rounding),
        ((false, false), _) => between_floats(to.bits, from.bits, modifiers),
        _ => None,
    }
}

fn from_integer(to: Type, from: Type) -> Option<Pure> {
    let of = move |value| from.integer(value);
    match (to.kind, to.bits) {
        (Kind::Float, 32) => pure(move |[a, ..]| bits_of(of(a) as f32)),
        (Kind::Float, 64) => pure(move |[a, ..]| (of(a) as f64).to_bits()),
        _ => None,
    }
}

fn whole(rounding: &str) -> Option<fn(f64) -> f64> {
    Some(match rounding {
        "rni" => f64::round_ties_even,
        "rzi" => f64::trunc,
        "rmi" => f64::floor,
        "rpi" => f64::ceil,
        _ => return None,
    })
}

fn to_integer(to: Type, from: Type, rounding: &str) -> Option<Pure> {
    let round = whole(rounding)?;
    let read: fn(u64) -> f64 = match (from.kind, from.bits) {
        (Kind::Float, 32) => |bits| f64::from(f32_of(bits)),
        (Kind::Float, 64) => f64::from_bits,
        _ => return None,
    };
    let nan = if from.bits == 64 || to.bits == 64 { 1 << (to.bits - 1) } else { 0 };
    let (least, most) = to.range();
    pure(move |[a, ..]| {
        let value = read(a);
        // A cast saturates at the ends of i128; no f64 between the ends of i64 and of i128 would be
        // clamped to another value.
        let whole = (round(value) as i128).clamp(least, most);
        if value.is_nan() { nan } else { to.mask(whole as u64) }
    })
}

fn to_whole(of: Type, rounding: &str) -> Option<Pure> {
    let round = whole(rounding)?;
    match (of.kind, of.bits) {
        // Every f32 is an f64, and so is its rounded value.
        (Kind::Float, 32) => pure(move |[a, ..]| bits_of(round(f32_of(a).into()) as f32)),
        (Kind::Float, 64) => pure(move |[a, ..]| round(f64::from_bits(a)).to_bits()),
        _ => None,
    }
}

fn between_floats(to: u32, from: u32, modifiers: &[&str]) -> Option<Pure> {
    match (to, from, modifiers) {
        (16, 32, ["rn"]) => pure(|[a, ..]| u64::from(to_f16(f32_of(a)))),
        (32, 16, []) => pure(|[a, ..]| bits_of(f16::from_bits(a as u16).to_f32())),
        (32, 64, ["rn"]) => pure(|[a, ..]| bits_of(f64::from_bits(a) as f32)),
        (64, 32, []) => pure(|[a, ..]| f64::from(f32_of(a)).to_bits()),
        _ => None,
    }
}

fn to_f16(value: f32) -> u16 {
    if value.is_nan() { 0x7fff } else { f16::from_f32(value).to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(op: &str, value: u64) -> u64 {
        decode(&op.split('.').collect::<Vec<_>>()).unwrap().0([value, 0, 0, 0]).unwrap()
    }

    fn of_f32(op: &str, value: f32) -> u64 {
        of(op, u64::from(value.to_bits()))
    }

    #[test]
    fn what_does_not_fit_becomes_the_nearest_that_does() {
        assert_eq!(of_f32("cvt.rzi.s32.f32", 3e9), 0x7fff_ffff);
        assert_eq!(of_f32("cvt.rzi.s32.f32", -3e9), 0x8000_0000);
        assert_eq!(of_f32("cvt.rzi.u32.f32", -1.0), 0);
        assert_eq!(of_f32("cvt.rzi.u64.f32", f32::INFINITY), u64::MAX);
        assert_eq!(of_f32("cvt.rni.u8.f32", 300.0), 255);
        assert_eq!(of_f32("cvt.rn.f16.f32", 65520.0), 0x7c00);
    }

    #[test]
    fn nan_is_what_the_hardware_makes_of_it() {
        assert_eq!(of_f32("cvt.rzi.s32.f32", f32::NAN), 0);
        assert_eq!(of_f32("cvt.rzi.s64.f32", f32::NAN), 1 << 63);
        assert_eq!(of_f32("cvt.rn.f16.f32", -f32::NAN), 0x7fff);
        assert_eq!(of_f32("cvt.rni.f32.f32", f32::NAN), 0x7fff_ffff);
    }

    #[test]
    fn roundings_by_hand() {
        assert_eq!(of_f32("cvt.rni.s32.f32", 2.5), 2);
        assert_eq!(of_f32("cvt.rzi.s32.f32", -2.5), 0xffff_fffe);
        assert_eq!(of_f32("cvt.rmi.f32.f32", -0.5), u64::from((-1f32).to_bits()));
        assert_eq!(of_f32("cvt.rni.f32.f32", -0.5), u64::from((-0f32).to_bits()));
        assert_eq!(of("cvt.rn.f32.u64", u64::MAX), u64::from(18446744073709551616f32.to_bits()));
        assert_eq!(of("cvt.s32.s8", 0x1ff), 0xffff_ffff);
        assert_eq!(of("cvt.u64.u32", u64::MAX), 0xffff_ffff);
        assert_eq!(of("cvt.rn.f32.s32", 0xffff_ffff), u64::from((-1f32).to_bits()));
        assert_eq!(of("cvt.rn.f32.f64", 0.1f64.to_bits()), u64::from(0.1f32.to_bits()));
    }

    #[test]
    fn other_conversions_are_not_covered() {
        for op in ["cvt.rz.f16.f32", "cvt.sat.u8.s32", "cvt.f32.s32", "cvt.rn.ftz.f16.f32"] {
            assert!(decode(&op.split('.').collect::<Vec<_>>()).is_none(), "{op}");
        }
    }
}
