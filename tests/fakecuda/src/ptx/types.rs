//! Types of PTX, and instructions once they are decoded.

use std::fmt;

/// The index of a register.
pub(super) type Register = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Signed,
    /// `.u` and `.b`.
    Unsigned,
    Float,
    Predicate,
}

/// `.s32`, `.f32`, `.pred`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) kind: Kind,
    pub(super) bits: u32,
}

impl Type {
    pub(super) fn parse(name: &str) -> Option<Self> {
        if name == "pred" {
            return Some(Self { kind: Kind::Predicate, bits: 1 });
        }
        let (kind, bits) = name.split_at_checked(1)?;
        let kind = match kind {
            "s" => Kind::Signed,
            "u" | "b" => Kind::Unsigned,
            "f" => Kind::Float,
            _ => return None,
        };
        let bits = ["8", "16", "32", "64"].contains(&bits).then(|| bits.parse().ok()).flatten()?;
        (kind != Kind::Float || bits > 8).then_some(Self { kind, bits })
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self.kind, Kind::Signed | Kind::Unsigned)
    }

    pub(super) fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    /// Returns the bits of the value, without higher bits.
    pub(super) fn mask(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - self.bits))
    }

    /// Returns the integer, signed if the type is.
    pub(super) fn integer(self, value: u64) -> i128 {
        let value = self.mask(value);
        if self.kind == Kind::Signed {
            let up = 64 - self.bits;
            i128::from(((value << up) as i64) >> up)
        } else {
            i128::from(value)
        }
    }

    /// Returns the smallest and the largest integer.
    pub(super) fn range(self) -> (i128, i128) {
        if self.kind == Kind::Signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }
}

/// An operand that an instruction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operand {
    Register(Register),
    /// `!%p1`.
    Not(Register),
    /// A constant, or the address of a parameter or of local memory.
    Constant(u64),
    /// `%tid.x` and similar registers: the index in [`SPECIAL`].
    Special(usize),
}

/// Names of the special registers of a thread.
pub(super) const SPECIAL: [&str; 12] = [
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Global,
    Param,
    Local,
    /// The space that the address belongs to.
    Generic,
}

/// A memory operand: `[%rd1+8]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemoryOperand {
    pub(super) space: Space,
    pub(super) base: Operand,
    pub(super) offset: u64,
}

/// A function of up to four values; `None` where PTX leaves the result open.
pub(super) struct Pure(pub(super) Box<dyn Fn([u64; 4]) -> Option<u64> + Send + Sync>);

impl fmt::Debug for Pure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pure")
    }
}

/// A function whose result is always defined.
pub(super) fn pure(function: impl Fn([u64; 4]) -> u64 + Send + Sync + 'static) -> Option<Pure> {
    Some(Pure(Box::new(move |values| Some(function(values)))))
}

#[derive(Debug)]
pub(super) enum Op {
    Compute {
        to: Register,
        from: [Operand; 4],
        function: Pure,
    },
    /// Packs values of `bits` each, the first lowest.
    Pack {
        to: Register,
        from: Vec<Operand>,
        bits: u32,
    },
    Unpack {
        to: Vec<Option<Register>>,
        from: Operand,
        bits: u32,
    },
    Load {
        to: Vec<Register>,
        element: Type,
        memory: MemoryOperand,
    },
    Store {
        from: Vec<Operand>,
        element: Type,
        memory: MemoryOperand,
    },
    /// Adds, and returns the previous value.
    Add {
        to: Option<Register>,
        element: Type,
        memory: MemoryOperand,
        from: Operand,
    },
    /// Jumps to the instruction of this index.
    Jump(usize),
    Return,
}
