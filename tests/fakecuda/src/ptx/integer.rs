//! Integers, bits and predicates.

use super::types::{Kind, Pure, Type, pure};

/// Returns the function of the instruction `parts`, if it is an integer instruction.
pub(super) fn decode(parts: &[&str]) -> Option<Pure> {
    let (&last, front) = parts.split_last()?;
    let t = Type::parse(last)?;
    let (&name, modifiers) = front.split_first()?;
    match (name, modifiers) {
        ("mov", []) => pure(move |[a, ..]| t.mask(a)),
        ("cvta", [] | ["to", "global" | "local" | "param"] | ["global" | "local" | "param"]) => {
            pure(|[a, ..]| a)
        }
        ("selp", []) => pure(move |[a, b, p, _]| t.mask(if p != 0 { a } else { b })),
        ("slct", [of]) if last == "s32" => {
            let of = Type::parse(of)?;
            pure(move |[a, b, c, _]| of.mask(if t.integer(c) >= 0 { a } else { b }))
        }
        ("and" | "or" | "xor" | "not", []) if t.kind != Kind::Float => logic(name, t),
        ("setp", [compare]) if t.is_integer() => {
            let holds = comparison(compare)?;
            pure(move |[a, b, ..]| u64::from(holds(t.integer(a), t.integer(b))))
        }
        ("setp", [compare, combine]) if t.is_integer() => {
            let (holds, combined) = (comparison(compare)?, combination(combine)?);
            pure(move |[a, b, c, _]| u64::from(combined(holds(t.integer(a), t.integer(b)), c != 0)))
        }
        _ if !t.is_integer() => None,
        ("mul" | "mad", [part]) => multiply(part, t),
        ("add" | "sub" | "min" | "max" | "div" | "rem" | "neg" | "abs", []) => arithmetic(name, t),
        _ => bits(name, modifiers, t),
    }
}

fn logic(name: &str, t: Type) -> Option<Pure> {
    match name {
        "and" => pure(move |[a, b, ..]| t.mask(a & b)),
        "or" => pure(move |[a, b, ..]| t.mask(a | b)),
        "xor" => pure(move |[a, b, ..]| t.mask(a ^ b)),
        _ => pure(move |[a, ..]| t.mask(!a)),
    }
}

fn comparison(name: &str) -> Option<fn(i128, i128) -> bool> {
    Some(match name {
        "eq" => |a, b| a == b,
        "ne" => |a, b| a != b,
        "lt" | "lo" => |a, b| a < b,
        "le" | "ls" => |a, b| a <= b,
        "gt" | "hi" => |a, b| a > b,
        "ge" | "hs" => |a, b| a >= b,
        _ => return None,
    })
}

/// Returns the operation that combines a comparison with a predicate.
pub(super) fn combination(name: &str) -> Option<fn(bool, bool) -> bool> {
    Some(match name {
        "and" => |a, b| a & b,
        "or" => |a, b| a | b,
        "xor" => |a, b| a ^ b,
        _ => return None,
    })
}

fn arithmetic(name: &str, t: Type) -> Option<Pure> {
    let of = move |value| t.integer(value);
    let to = move |value: i128| t.mask(value as u64);
    match name {
        "add" => pure(move |[a, b, ..]| to(of(a) + of(b))),
        "sub" => pure(move |[a, b, ..]| to(of(a) - of(b))),
        "min" => pure(move |[a, b, ..]| to(of(a).min(of(b)))),
        "max" => pure(move |[a, b, ..]| to(of(a).max(of(b)))),
        "neg" if t.kind == Kind::Signed => pure(move |[a, ..]| to(-of(a))),
        "abs" if t.kind == Kind::Signed => pure(move |[a, ..]| to(of(a).abs())),
        "div" => Some(Pure(Box::new(move |[a, b, ..]| of(a).checked_div(of(b)).map(to)))),
        "rem" => Some(Pure(Box::new(move |[a, b, ..]| of(a).checked_rem(of(b)).map(to)))),
        _ => None,
    }
}

/// Decodes `mul` and `mad`: the addend of a `mul` is 0.
fn multiply(part: &str, t: Type) -> Option<Pure> {
    let product = move |a, b| (t.integer(a)).wrapping_mul(t.integer(b));
    match part {
        "lo" => pure(move |[a, b, c, _]| t.mask((product(a, b) as u64).wrapping_add(c))),
        "hi" => {
            pure(move |[a, b, c, _]| t.mask(((product(a, b) >> t.bits) as u64).wrapping_add(c)))
        }
        "wide" if t.bits <= 32 => {
            let wide = Type { bits: 2 * t.bits, ..t };
            pure(move |[a, b, c, _]| wide.mask((product(a, b) as u64).wrapping_add(c)))
        }
        _ => None,
    }
}

fn bits(name: &str, modifiers: &[&str], t: Type) -> Option<Pure> {
    // Shift amounts and positions are 32-bit registers, for every type.
    let amount = |value: u64| value & 0xffff_ffff;
    match (name, modifiers) {
        ("shl", []) => {
            pure(move |[a, n, ..]| if amount(n) < 64 { t.mask(a << amount(n)) } else { 0 })
        }
        ("shr", []) => pure(move |[a, n, ..]| t.mask((t.integer(a) >> amount(n).min(64)) as u64)),
        ("popc", []) => pure(move |[a, ..]| u64::from(t.mask(a).count_ones())),
        ("clz", []) => pure(move |[a, ..]| u64::from(t.mask(a).leading_zeros() - (64 - t.bits))),
        ("brev", []) => pure(move |[a, ..]| a.reverse_bits() >> (64 - t.bits)),
        ("bfe", []) => pure(move |[a, at, len, _]| extract(t, a, at & 0xff, len & 0xff)),
        ("bfi", []) => pure(move |values| insert(t, values)),
        ("shf", [way @ ("l" | "r"), clamp @ ("wrap" | "clamp")]) if t.bits == 32 => {
            let (left, most) = (*way == "l", if *clamp == "wrap" { None } else { Some(32) });
            pure(move |[low, high, n, _]| {
                let n = most.map_or(n & 31, |most| amount(n).min(most));
                let pair = (high << 32) | (low & 0xffff_ffff);
                let shifted =
                    if left { u128::from(pair) << n >> 32 } else { u128::from(pair) >> n };
                t.mask(shifted as u64)
            })
        }
        ("prmt", []) if t.bits == 32 => pure(|[a, b, s, _]| permute(a, b, s)),
        ("lop3", []) if t.bits == 32 => pure(|[a, b, c, table]| lookup(a, b, c, table)),
        _ => None,
    }
}

/// Extracts `len` bits from bit `at` on; bits beyond the value are its sign.
fn extract(t: Type, a: u64, at: u64, len: u64) -> u64 {
    let value = t.integer(a) >> at.min(64);
    if len == 0 {
        return 0;
    }
    if t.kind == Kind::Signed {
        // The sign of the field is the last of its bits that the value has.
        let len = len.min(u64::from(t.bits).saturating_sub(at)).max(1);
        let up = 128 - len;
        return t.mask(((value << up) >> up) as u64);
    }
    t.mask(if len < 64 { value as u64 & ((1 << len) - 1) } else { value as u64 })
}

/// Replaces `len` bits of `b`, from bit `at` on, by the low bits of `a`.
fn insert(t: Type, [a, b, at, len]: [u64; 4]) -> u64 {
    let (at, len) = (at & 0xff, len & 0xff);
    let field = if len < 64 { (1u128 << len) - 1 } else { u128::from(u64::MAX) };
    let at = at.min(64);
    let kept = u128::from(b) & !(field << at);
    t.mask((kept | ((u128::from(a) & field) << at)) as u64)
}

/// Selects four bytes out of eight by number; bit 3 of a number replicates the byte's sign.
fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = ((b << 32) | (a & 0xffff_ffff)).to_le_bytes();
    let byte = |k: u64| {
        let number = selector >> (4 * k) & 0xf;
        let byte = bytes[(number & 7) as usize];
        let byte = if number & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        u64::from(byte) << (8 * k)
    };
    (0..4).map(byte).sum()
}

/// Looks up each bit in a table of eight.
fn lookup(a: u64, b: u64, c: u64, table: u64) -> u64 {
    let bit = |k: u64| {
        let index = (a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1);
        (table >> index & 1) << k
    };
    (0..32).map(bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(op: &str, values: [u64; 4]) -> Option<u64> {
        decode(&op.split('.').collect::<Vec<_>>()).unwrap().0(values)
    }

    #[test]
    fn instructions_by_hand() {
        for (op, values, expected) in [
            ("add.s32", [0xffff_ffff, 2, 0, 0], 1),
            ("mul.wide.s32", [0xffff_ffff, 2, 0, 0], (-2i64) as u64),
            ("mul.hi.u32", [0xffff_ffff, 0xffff_ffff, 0, 0], 0xffff_fffe),
            ("mul.hi.u64", [u64::MAX, u64::MAX, 0, 0], u64::MAX - 1),
            ("mul.hi.s64", [u64::MAX, 1, 0, 0], u64::MAX),
            ("mad.lo.s32", [3, 4, 5, 0], 17),
            ("min.s32", [0xffff_ffff, 1, 0, 0], 0xffff_ffff),
            ("min.u32", [0xffff_ffff, 1, 0, 0], 1),
            ("div.s32", [0xffff_fff9, 2, 0, 0], 0xffff_fffd),
            ("rem.s32", [0xffff_fff9, 2, 0, 0], 0xffff_ffff),
            ("shr.s32", [0x8000_0000, 99, 0, 0], 0xffff_ffff),
            ("shr.u32", [0x8000_0000, 32, 0, 0], 0),
            ("shl.b32", [1, 32, 0, 0], 0),
            ("shl.b64", [1, 63, 0, 0], 1 << 63),
            ("bfe.u32", [0xabcd, 4, 8, 0], 0xbc),
            ("bfe.s32", [0xabcd, 4, 8, 0], 0xffff_ffbc),
            ("bfe.s32", [0x8000_0000, 28, 8, 0], 0xffff_fff8),
            ("bfi.b32", [0xff, 0x1234_5678, 8, 4], 0x1234_5f78),
            ("bfi.b64", [1, 2, 32, 32], 0x1_0000_0002),
            ("shf.r.wrap.b32", [0x1111_2222, 0x3333_4444, 16, 0], 0x4444_1111),
            ("shf.r.wrap.b32", [0x1111_2222, 0x3333_4444, 32, 0], 0x1111_2222),
            ("shf.r.clamp.b32", [0x1111_2222, 0x3333_4444, 40, 0], 0x3333_4444),
            ("shf.l.wrap.b32", [0x1111_2222, 0x3333_4444, 16, 0], 0x4444_1111),
            ("prmt.b32", [0x3322_1100, 0x7766_5544, 0x7250, 0], 0x7722_5500),
            ("prmt.b32", [0x80, 0, 0x8888, 0], 0xffff_ffff),
            ("lop3.b32", [0b1100, 0b1010, 0b1111, 0x80], 0b1000),
            ("popc.b32", [0xf0f0_0000_00ff, 0, 0, 0], 8),
            ("clz.b32", [1, 0, 0, 0], 31),
            ("brev.b32", [1, 0, 0, 0], 1 << 31),
            ("setp.lt.s32", [0xffff_ffff, 0, 0, 0], 1),
            ("setp.lt.and.u32", [0, 1, 0, 0], 0),
            ("setp.lt.or.u32", [1, 1, 1, 0], 1),
            ("selp.b32", [1, 2, 0, 0], 2),
            ("slct.u32.s32", [1, 2, 0xffff_ffff, 0], 2),
            ("not.pred", [0, 0, 0, 0], 1),
            ("abs.s32", [0xffff_ffff, 0, 0, 0], 1),
            ("neg.s64", [1, 0, 0, 0], u64::MAX),
        ] {
            assert_eq!(of(op, values), Some(expected), "{op} {values:x?}");
        }
    }

    #[test]
    fn a_division_by_zero_has_no_result() {
        assert_eq!(of("div.u32", [1, 0, 0, 0]), None);
        assert_eq!(of("rem.s64", [1, 0, 0, 0]), None);
    }
}
