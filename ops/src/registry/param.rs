//! The parameters of ops: names, kinds, defaults and descriptions.

use super::{ParamLimits, SpecData, SpecValue};
use crate::shape::DTYPES;
use std::fmt;

/// A parameter of an op.
#[derive(Clone, Copy, Debug)]
pub struct ParamInfo {
    /// The name a user writes.
    pub name: &'static str,
    /// The kind of values that the parameter accepts.
    pub kind: ParamKind,
    /// What applies if the user gives no value.
    pub need: ParamDefault,
    /// The meaning of the parameter, on one line.
    pub doc: &'static str,
    /// The numbers that the parameter accepts, if not all are.
    pub limits: Option<ParamLimits>,
}

/// What applies if a parameter is not given.
#[derive(Clone, Copy, Debug)]
pub enum ParamDefault {
    /// An error: the parameter must be given. The example is a valid value.
    Required(ParamValue),
    /// This default value.
    Default(ParamValue),
    /// No value: the op does not need the parameter.
    Optional,
}

/// Returns a parameter that must be given, with an example.
#[must_use]
pub const fn required(
    name: &'static str,
    kind: ParamKind,
    example: ParamValue,
    doc: &'static str,
) -> ParamInfo {
    ParamInfo { name, kind, need: ParamDefault::Required(example), doc, limits: None }
}

/// Returns a parameter with a default.
#[must_use]
pub const fn with_default(
    name: &'static str,
    kind: ParamKind,
    default: ParamValue,
    doc: &'static str,
) -> ParamInfo {
    ParamInfo { name, kind, need: ParamDefault::Default(default), doc, limits: None }
}

/// Returns a parameter that can be omitted and has no default.
#[must_use]
pub const fn optional(name: &'static str, kind: ParamKind, doc: &'static str) -> ParamInfo {
    ParamInfo { name, kind, need: ParamDefault::Optional, doc, limits: None }
}

/// The kind of values that a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A whole number, not negative.
    Whole,
    /// A number of bytes: a whole number, or a text such as `"2GiB"`.
    Bytes,
    /// A whole number of either sign.
    Integer,
    /// One number of pixels for both sides, or height and width.
    Size,
    /// A list of sizes, each as for [`Size`](Self::Size).
    Sizes,
    /// One number of pixels for both sides, or width and height.
    Kernel,
    /// One number of pixels for all sides, two (left and right, top and bottom), or four, one for
    /// each side.
    Sides,
    /// A horizontal and a vertical number.
    Pair,
    /// Two numbers, the lower first.
    Range,
    /// A number, or two numbers, the lower first.
    NumberOrRange,
    /// A number, a range for x, or a range for x and a range for y.
    Shear,
    /// One grey level, or three levels of red, green and blue.
    Color,
    /// One number for each of red, green and blue.
    Channels,
    /// A number, one number for each of red, green and blue, or `"random"`.
    Paint,
    /// A permutation of 0, 1 and 2.
    Permutation,
    /// Three rows of four numbers, one after another.
    Matrix,
    /// A number for each level: one table for all channels, or one for each channel.
    Levels,
    /// A list of numbers.
    Numbers,
    /// A list of whole numbers, not negative.
    Ids,
    /// A list of whole numbers, of which -1 stands for any length.
    Shape,
    /// An element type.
    DType,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any word.
    Text,
    /// A list of words.
    Words,
    /// A list of ops.
    Ops,
    /// A table of names and values.
    Table,
}

/// Describes the expected value in words.
impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Whole => "a whole number, 0 or more",
            Self::Bytes => "a number of bytes, such as \"2GiB\"",
            Self::Integer => "a whole number",
            Self::Size => "pixels, or [height, width]",
            Self::Sizes => "a list of [height, width]",
            Self::Kernel => "pixels, or [width, height]",
            Self::Sides => "pixels, [horizontal, vertical] or [left, top, right, bottom]",
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
            Self::Shape => "a list of whole numbers, such as [-1, 3]",
            Self::DType => return one_of(f, &DTYPES.map(|dtype| dtype.to_string())),
            Self::Word(words) => return one_of(f, words),
            Self::Text => "a word",
            Self::Words => "a list of words",
            Self::Ops => "a list of ops",
            Self::Table => "a table",
        })
    }
}

/// Writes a list of words like `"f16", "bf16" or "f32"`.
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

/// A compile-time value: a default or an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamValue {
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
    /// `[[1024, 1024], [896, 1152]]`
    Pairs(&'static [[i64; 2]]),
}

impl ParamValue {
    /// Converts to a [`SpecValue`].
    #[must_use]
    pub fn value(&self) -> SpecValue {
        fn list<T: Copy>(items: &[T], value: impl Fn(T) -> SpecValue) -> SpecValue {
            SpecData::List(items.iter().copied().map(value).collect()).into()
        }
        match *self {
            Self::Bool(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Float(value) => value.into(),
            Self::Word(word) => word.into(),
            Self::Ints(values) => list(values, SpecValue::from),
            Self::Floats(values) => list(values, SpecValue::from),
            Self::Words(words) => list(words, SpecValue::from),
            Self::Pairs(pairs) => list(pairs, |[first, second]| {
                SpecData::List(vec![first.into(), second.into()]).into()
            }),
        }
    }
}

/// Formats the value as in TOML.
impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}
