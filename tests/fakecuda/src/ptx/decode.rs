//! Decodes one instruction: `@!%p1 op.modifier.type to, from, from;`

use super::types::{Kind, MemoryOperand, Op, Operand, Register, SPECIAL, Space, Type};
use super::{Instruction, convert, float, integer};
use std::collections::HashMap;

/// The meaning of the names in a body.
#[derive(Debug, Default)]
pub(super) struct Names {
    registers: HashMap<String, Register>,
    /// Addresses of parameters and of local memory.
    constants: HashMap<String, u64>,
    labels: HashMap<String, usize>,
}

impl Names {
    pub(super) fn registers(&self) -> usize {
        self.registers.len()
    }

    pub(super) fn constant(&mut self, name: &str, value: u64) {
        self.constants.insert(name.to_owned(), value);
    }

    pub(super) fn label(&mut self, name: &str, instruction: usize) {
        self.labels.insert(name.to_owned(), instruction);
    }

    /// Declares registers: `%r<12>` are twelve registers, `%SP` is one.
    pub(super) fn declare(&mut self, name: &str) -> Option<()> {
        let Some((prefix, count)) = name.split_once('<') else {
            self.register(name.to_owned());
            return Some(());
        };
        for number in 0..count.strip_suffix('>')?.parse::<usize>().ok()? {
            self.register(format!("{prefix}{number}"));
        }
        Some(())
    }

    fn register(&mut self, name: String) {
        let next = self.registers.len();
        self.registers.entry(name).or_insert(next);
    }
}

type Refused = String;

/// Decodes a statement, or returns the reason for which it is not covered.
pub(super) fn instruction(text: &str, line: usize, names: &Names) -> Result<Instruction, Refused> {
    let decode = || {
        let (guard, rest) = guard(text, names)?;
        let (name, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let parts: Vec<&str> = name.split('.').collect();
        let operands = Operands { list: split(operands), names };
        Ok((guard, operands.op(&parts)?))
    };
    let (guard, op) = decode().map_err(|what: Refused| format!("line {line}: {what}: `{text}`"))?;
    Ok(Instruction { guard, op, line, text: text.to_owned() })
}

type Guard = Option<(Register, bool)>;

/// Returns the guard, and the text after it.
fn guard<'a>(text: &'a str, names: &Names) -> Result<(Guard, &'a str), Refused> {
    let Some(rest) = text.strip_prefix('@') else { return Ok((None, text)) };
    let (name, rest) = rest.split_once(char::is_whitespace).ok_or("a guard alone")?;
    let plain = name.trim_start_matches('!');
    let register = names.registers.get(plain).ok_or_else(|| format!("no register {plain}"))?;
    Ok((Some((*register, plain == name)), rest.trim_start()))
}

/// Splits operands at commas outside brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let apart = |c: char| {
        depth += i32::from(c == '{' || c == '[') - i32::from(c == '}' || c == ']');
        c == ',' && depth == 0
    };
    text.split(apart).map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The operands of one instruction.
struct Operands<'a> {
    list: Vec<&'a str>,
    names: &'a Names,
}

impl Operands<'_> {
    fn op(&self, parts: &[&str]) -> Result<Op, Refused> {
        match parts {
            ["ret" | "exit"] => Ok(Op::Return),
            ["bra"] | ["bra", "uni"] => self.jump(),
            ["ld", ..] | ["st", ..] => self.access(parts),
            ["atom" | "red", ..] => self.atomic(parts),
            ["mov", t] if self.list.iter().any(|operand| operand.starts_with('{')) => {
                self.vector(t)
            }
            _ => self.compute(parts),
        }
    }

    fn get(&self, at: usize) -> Result<&str, Refused> {
        self.list.get(at).copied().ok_or_else(|| "an operand is missing".to_owned())
    }

    fn jump(&self) -> Result<Op, Refused> {
        let label = self.get(0)?;
        let found = self.names.labels.get(label);
        found.map(|at| Op::Jump(*at)).ok_or_else(|| format!("no label {label}"))
    }

    fn compute(&self, parts: &[&str]) -> Result<Op, Refused> {
        let function = if parts[0] == "cvt" {
            convert::decode(parts)
        } else {
            integer::decode(parts).or_else(|| float::decode(parts))
        };
        let function = function.ok_or_else(|| format!("{} is not covered", parts.join(".")))?;
        let to = self.register(self.get(0)?)?;
        let mut from = [Operand::Constant(0); 4];
        for (index, operand) in self.list[1..].iter().enumerate() {
            *from.get_mut(index).ok_or("too many operands")? = self.operand(operand)?;
        }
        Ok(Op::Compute { to, from, function })
    }

    /// Decodes `mov.b64 %rd1, {%r1, %r2}` and its inverse.
    fn vector(&self, name: &str) -> Result<Op, Refused> {
        let whole = Type::parse(name).ok_or("no such type")?;
        let (to, from) = (self.get(0)?, self.get(1)?);
        if from.starts_with('{') {
            let from = parts(from).map(|part| self.operand(part)).collect::<Result<Vec<_>, _>>()?;
            let bits = whole.bits / from.len() as u32;
            return Ok(Op::Pack { to: self.register(to)?, from, bits });
        }
        let part = |part| if part == "_" { Ok(None) } else { self.register(part).map(Some) };
        let to = parts(to).map(part).collect::<Result<Vec<_>, _>>()?;
        let bits = whole.bits / to.len() as u32;
        Ok(Op::Unpack { to, from: self.operand(from)?, bits })
    }

    /// Decodes `ld.space[.nc][.v2|.v4].type to, [address]` and `st`.
    fn access(&self, parts: &[&str]) -> Result<Op, Refused> {
        let refused = || format!("{} is not covered", parts.join("."));
        let (load, mut rest) = (parts[0] == "ld", &parts[1..]);
        let space = space(&mut rest);
        if load && space == Space::Global && rest.first() == Some(&"nc") {
            rest = &rest[1..];
        }
        let count = match rest.first() {
            Some(&"v2") => 2,
            Some(&"v4") => 4,
            _ => 1,
        };
        rest = if count > 1 { &rest[1..] } else { rest };
        let &[name] = rest else { return Err(refused()) };
        let element = Type::parse(name).filter(|t| t.kind != Kind::Predicate);
        let element = element.ok_or_else(refused)?;
        let (at, values) = if load { (1, 0) } else { (0, 1) };
        let memory = self.memory(space, self.get(at)?)?;
        let values: Vec<&str> = self::parts(self.get(values)?).collect();
        if values.len() != count {
            return Err(format!("{} values for {count}", values.len()));
        }
        if load {
            let to =
                values.into_iter().map(|name| self.register(name)).collect::<Result<_, _>>()?;
            return Ok(Op::Load { to, element, memory });
        }
        let from = values.into_iter().map(|name| self.operand(name)).collect::<Result<_, _>>()?;
        Ok(Op::Store { from, element, memory })
    }

    /// Decodes `atom.global.add.u64 to, [address], from` and `red`, which has no `to`.
    fn atomic(&self, parts: &[&str]) -> Result<Op, Refused> {
        let refused = || format!("{} is not covered", parts.join("."));
        let mut rest = &parts[1..];
        let space = space(&mut rest);
        let &["add", name @ ("u32" | "s32" | "u64")] = rest else { return Err(refused()) };
        let element = Type::parse(name).ok_or_else(refused)?;
        let returns = parts[0] == "atom";
        let to = if returns { Some(self.register(self.get(0)?)?) } else { None };
        let first = usize::from(returns);
        let memory = self.memory(space, self.get(first)?)?;
        Ok(Op::Add { to, element, memory, from: self.operand(self.get(first + 1)?)? })
    }

    fn memory(&self, space: Space, text: &str) -> Result<MemoryOperand, Refused> {
        let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let inside = inside.ok_or_else(|| format!("{text} is no address in memory"))?;
        let (base, offset) = inside.split_once('+').unwrap_or((inside, "0"));
        let offset: i64 = offset.trim().parse().map_err(|_| format!("{offset} is no offset"))?;
        Ok(MemoryOperand { space, base: self.operand(base.trim())?, offset: offset as u64 })
    }

    fn register(&self, name: &str) -> Result<Register, Refused> {
        self.names.registers.get(name).copied().ok_or_else(|| format!("no register {name}"))
    }

    fn operand(&self, text: &str) -> Result<Operand, Refused> {
        if let Some(name) = text.strip_prefix('!') {
            return self.register(name).map(Operand::Not);
        }
        if let Some(index) = SPECIAL.iter().position(|name| *name == text) {
            return Ok(Operand::Special(index));
        }
        if let Some(register) = self.names.registers.get(text) {
            return Ok(Operand::Register(*register));
        }
        let value = self.names.constants.get(text).copied().or_else(|| number(text));
        value.map(Operand::Constant).ok_or_else(|| format!("{text} is not covered"))
    }
}

/// Removes the space of an access from the front, and returns it.
fn space(parts: &mut &[&str]) -> Space {
    let space = match parts.first() {
        Some(&"global") => Space::Global,
        Some(&"param") => Space::Param,
        Some(&"local") => Space::Local,
        _ => return Space::Generic,
    };
    *parts = &parts[1..];
    space
}

/// Splits `{a, b}`, or yields `a` alone.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    inside.unwrap_or(text).split(',').map(str::trim)
}

/// Parses `12`, `-3`, `0x1F`, `12U`, `0f3F800000`, `0d3FF0000000000000`.
fn number(text: &str) -> Option<u64> {
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    if let Some(digits) = text.strip_prefix("0f").filter(|digits| digits.len() == 8) {
        return hex(digits);
    }
    if let Some(digits) = text.strip_prefix("0d").filter(|digits| digits.len() == 16) {
        return hex(digits);
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let digits = digits.trim_end_matches('U');
    let value = digits.strip_prefix("0x").map_or_else(|| digits.parse().ok(), hex)?;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_each_notation() {
        assert_eq!(number("-3"), Some((-3i64) as u64));
        assert_eq!(number("0x1F"), Some(31));
        assert_eq!(number("0f3F800000"), Some(0x3F80_0000));
        assert_eq!(number("0d3FF0000000000000"), Some(1f64.to_bits()));
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        assert_eq!(number("%r1"), None);
    }

    #[test]
    fn operands_are_apart_at_commas_outside_of_brackets() {
        assert_eq!(split("{%r1, %r2}, [%rd1+8]"), ["{%r1, %r2}", "[%rd1+8]"]);
    }
}
