//! What an op takes: names, kinds, defaults and words for people.

use super::{Datum, Value};
use crate::DType;
use std::fmt;

/// A parameter of an op.
#[derive(Clone, Copy, Debug)]
pub struct ParamInfo {
    /// The name a user writes.
    pub name: &'static str,
    /// What may be given.
    pub kind: Kind,
    /// What holds if nothing is given.
    pub need: Need,
    /// What it means, on one line.
    pub doc: &'static str,
}

/// What holds if a parameter is not given.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// It must be given; the example is one that works.
    Required(Preset),
    /// It is this.
    Default(Preset),
    /// The op does without.
    Optional,
}

/// A parameter that must be given, with an example.
#[must_use]
pub const fn required(
    name: &'static str,
    kind: Kind,
    example: Preset,
    doc: &'static str,
) -> ParamInfo {
    ParamInfo { name, kind, need: Need::Required(example), doc }
}

/// A parameter with a default.
#[must_use]
pub const fn optional(
    name: &'static str,
    kind: Kind,
    default: Preset,
    doc: &'static str,
) -> ParamInfo {
    ParamInfo { name, kind, need: Need::Default(default), doc }
}

/// A parameter that the op does without.
#[must_use]
pub const fn maybe(name: &'static str, kind: Kind, doc: &'static str) -> ParamInfo {
    ParamInfo { name, kind, need: Need::Optional, doc }
}

/// What may be given as a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A whole number, not negative.
    Whole,
    /// A whole number of either sign.
    Integer,
    /// One number of pixels, or height and width.
    Size,
    /// One number of pixels, or width and height.
    Kernel,
    /// One number of pixels, or for left and right and top and bottom, or for each side.
    Sides,
    /// Across and down.
    Pair,
    /// Two numbers, the lower first.
    Range,
    /// A number, or two, the lower first.
    NumberOrRange,
    /// A number, or a range for x, or one for x and one for y.
    Shear,
    /// One level of grey, or three of red, green and blue.
    Color,
    /// A number each for red, green and blue.
    Channels,
    /// A number, one each for red, green and blue, or `"random"`.
    Paint,
    /// 0, 1 and 2 in some order.
    Permutation,
    /// Three rows of four numbers, one after another.
    Matrix,
    /// A number for each level, for all channels or for each.
    Levels,
    /// A list of numbers.
    Numbers,
    /// A list of whole numbers, not negative.
    Ids,
    /// A type of elements.
    DType,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any word.
    Text,
    /// A list of words.
    Words,
    /// A list of ops.
    Ops,
    /// Names and values.
    Table,
}

/// What is expected, in words.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Whole => "a whole number, 0 or more",
            Self::Integer => "a whole number",
            Self::Size => "pixels, or [height, width]",
            Self::Kernel => "pixels, or [width, height]",
            Self::Sides => "pixels, [left and right, top and bottom] or [left, top, right, bottom]",
            Self::Pair => "[across, down]",
            Self::Range => "[low, high]",
            Self::NumberOrRange => "a number, or [low, high]",
            Self::Shear => "a number, [low, high] or [x low, x high, y low, y high]",
            Self::Color => "a level 0 to 255, or [red, green, blue]",
            Self::Channels => "[red, green, blue]",
            Self::Paint => "a number, [red, green, blue] or \"random\"",
            Self::Permutation => "[0, 1, 2] in some order",
            Self::Matrix => "a list of 12 numbers",
            Self::Levels => "a list of 256 numbers, or of 768",
            Self::Numbers => "a list of numbers",
            Self::Ids => "a list of whole numbers, 0 or more",
            Self::DType => return one_of(f, &DType::ALL.map(|dtype| dtype.to_string())),
            Self::Word(words) => return one_of(f, words),
            Self::Text => "a word",
            Self::Words => "a list of words",
            Self::Ops => "a list of ops",
            Self::Table => "a table",
        })
    }
}

/// `"f16", "bf16" or "f32"`.
fn one_of(f: &mut fmt::Formatter<'_>, words: &[impl fmt::Display]) -> fmt::Result {
    for (i, word) in words.iter().enumerate() {
        let before = match i {
            0 => "",
            i if i + 1 == words.len() => " or ",
            _ => ", ",
        };
        write!(f, "{before}\"{word}\"")?;
    }
    Ok(())
}

/// A value known when this is compiled: a default, an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// `true`
    Bool(bool),
    /// `224`
    Int(i64),
    /// `0.5`
    Float(f64),
    /// `"f16"`
    Word(&'static str),
    /// `[4, 4]`
    Ints(&'static [i64]),
    /// `[0.08, 1.0]`
    Floats(&'static [f64]),
    /// `["RandomHorizontalFlip"]`
    Words(&'static [&'static str]),
}

impl Preset {
    /// The same as a value.
    #[must_use]
    pub fn value(&self) -> Value {
        fn list<T: Copy>(items: &[T], value: impl Fn(T) -> Value) -> Value {
            Datum::List(items.iter().copied().map(value).collect()).into()
        }
        match *self {
            Self::Bool(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Float(value) => value.into(),
            Self::Word(word) => word.into(),
            Self::Ints(values) => list(values, Value::from),
            Self::Floats(values) => list(values, Value::from),
            Self::Words(words) => list(words, Value::from),
        }
    }
}

/// As in TOML.
impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}
