//! Arguments of constructors: values are converted and checked, and defaults are filled in.

use super::{
    Bounds, OpInfo, ParamDefault, ParamInfo, ParamKind, SpecCause, SpecData, SpecEntry, SpecError,
    SpecTable,
};
use super::{MAX_OPS, SpecValue, error, nearest, optional, single};
use crate::shape::DTYPES;
use crate::{
    BoxFormat, DType, Interpolation, NumberOrRange, Ops, ParamError, Sides, Size, WarpInterpolation,
};
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::RangeInclusive;

/// Every interpolation, by the name a user writes.
const INTERPOLATIONS: [(&str, Interpolation); 7] = [
    ("bilinear", Interpolation::Bilinear),
    ("area", Interpolation::Area),
    ("nearest", Interpolation::Nearest),
    ("nearest-exact", Interpolation::NearestExact),
    ("bicubic", Interpolation::Bicubic),
    ("bilinear-aliased", Interpolation::BilinearAliased),
    ("bicubic-aliased", Interpolation::BicubicAliased),
];

/// Words of earlier versions, which are still read.
const EARLIER: [(&str, Interpolation); 2] = [
    ("bilinear-antialias", Interpolation::Bilinear),
    ("bicubic-antialias", Interpolation::Bicubic),
];

/// The numbers of Pillow, which torchvision takes for a resize and for a warp.
const PILLOW: [(i64, &str); 3] = [(0, "nearest"), (2, "bilinear"), (3, "bicubic")];

/// The names of the interpolations of a resize.
pub(crate) const INTERPOLATION_WORDS: ParamKind = ParamKind::Word(&names_of(&INTERPOLATIONS));

/// The parameter for a resize without antialiasing, torchvision's.
pub(crate) const ANTIALIAS: ParamInfo = optional(
    "antialias",
    ParamKind::Bool,
    "torchvision's: false is the interpolation with \"-aliased\"; default: true",
);

/// Every interpolation of a warp, by the name a user writes.
const WARP_INTERPOLATIONS: [(&str, WarpInterpolation); 3] = [
    ("nearest", WarpInterpolation::Nearest),
    ("bilinear", WarpInterpolation::Bilinear),
    ("bicubic", WarpInterpolation::Bicubic),
];

/// The names of the interpolations of a warp.
pub(crate) const WARP_INTERPOLATION_WORDS: ParamKind =
    ParamKind::Word(&names_of(&WARP_INTERPOLATIONS));

/// Every format of bounding boxes, by its name.
const BOX_FORMATS: [(&str, BoxFormat); BoxFormat::ALL.len()] = {
    let mut named = [("", BoxFormat::Xyxy); BoxFormat::ALL.len()];
    let mut index = 0;
    while index < named.len() {
        named[index] = (BoxFormat::ALL[index].name(), BoxFormat::ALL[index]);
        index += 1;
    }
    named
};

/// The kind of a parameter that is a format of bounding boxes.
pub const BOX_FORMAT_WORDS: ParamKind = ParamKind::Word(&names_of(&BOX_FORMATS));

impl Interpolation {
    /// Returns the name that a user writes.
    pub(crate) const fn word(self) -> &'static str {
        let mut index = 0;
        while INTERPOLATIONS[index].1 as u8 != self as u8 {
            index += 1;
        }
        INTERPOLATIONS[index].0
    }
}

impl WarpInterpolation {
    /// Returns the name that a user writes.
    pub(crate) const fn word(self) -> &'static str {
        WARP_INTERPOLATIONS[self as usize].0
    }
}

/// Returns the words of a list of choices, for a parameter's kind.
#[must_use]
pub const fn names_of<T, const N: usize>(words: &[(&'static str, T); N]) -> [&'static str; N] {
    let (mut names, mut i) = ([""; N], 0);
    while i < N {
        names[i] = words[i].0;
        i += 1;
    }
    names
}

/// The parameters that a user gave to an op, and the defaults of the others.
///
/// The names were checked when this value was built: every requested parameter has a value, unless
/// it is optional.
#[derive(Debug)]
pub struct OpArgs<'a> {
    owner: &'static str,
    params: &'static [ParamInfo],
    table: &'a SpecTable,
    at: Option<usize>,
    bounds: Bounds<'a>,
}

/// Names of settings in other libraries, and those that they have here. A place without the setting does not suggest it.
const FOREIGN: [(&str, &str); 13] = [
    ("num_workers", "workers"),
    ("num_threads", "workers"),
    ("threads", "workers"),
    ("shuffle", "order"),
    ("sampler", "order"),
    ("prefetch_factor", "batches_ahead"),
    ("prefetch", "batches_ahead"),
    ("drop_remainder", "drop_last"),
    ("rounding", "number_rule"),
    ("value", "fill"),
    ("padding_value", "fill"),
    ("class_names", "expect_classes"),
    ("in_order", "unordered"),
];

impl<'a> OpArgs<'a> {
    /// Checks the parameters of an op.
    pub(super) fn of_op(
        info: &OpInfo,
        table: &'a SpecTable,
        at: Option<usize>,
        bounds: Bounds<'a>,
    ) -> Result<Self, SpecError> {
        let is_name = |entry: &&SpecEntry| entry.name != "op";
        let args = Self { owner: info.name, params: info.params, table, at, bounds };
        args.check(table.0.iter().filter(is_name))?;
        Ok(args)
    }

    /// Checks a table that is not an op in the same way, and calls `read` with its values. `owner`
    /// is the table's name in messages. The limits on lists of ops apply to this table separately.
    ///
    /// # Errors
    ///
    /// If the table has a name that is not in `params`, or lacks a required one, or if `read`
    /// returns an error.
    pub fn with<T>(
        owner: &'static str,
        params: &'static [ParamInfo],
        table: &SpecTable,
        at: Option<usize>,
        read: impl FnOnce(&OpArgs<'_>) -> Result<T, SpecError>,
    ) -> Result<T, SpecError> {
        let left = Cell::new(MAX_OPS);
        let args = OpArgs { owner, params, table, at, bounds: Bounds { depth: 0, left: &left } };
        args.check(table.0.iter())?;
        read(&args).map_err(|error| args.with_offset(error))
    }

    /// Refuses unknown names and missing required parameters.
    fn check<'t>(&self, entries: impl Iterator<Item = &'t SpecEntry>) -> Result<(), SpecError> {
        for entry in entries {
            if self.params.iter().all(|param| param.name != entry.name) {
                return Err(self.unknown(&entry.name).at(entry.at));
            }
        }
        let missing = |param: &&ParamInfo| {
            matches!(param.need, ParamDefault::Required(_)) && self.table.get(param.name).is_none()
        };
        match self.params.iter().find(missing) {
            Some(param) => Err(self.missing(param.name).at(self.at)),
            None => Ok(()),
        }
    }

    fn unknown(&self, name: &str) -> SpecError {
        let known: Vec<&str> = self.params.iter().map(|param| param.name).collect();
        let meant = FOREIGN.iter().find(|(foreign, _)| *foreign == name).map(|(_, ours)| *ours);
        let meant = meant.filter(|ours| known.contains(ours));
        let nearest = meant.or_else(|| nearest(name, known.iter().copied()));
        SpecCause::UnknownParam { owner: self.owner, name: error::short(name), nearest, known }
            .into()
    }

    fn missing(&self, name: &str) -> SpecError {
        let (param, expected) = (name.to_owned(), self.expected(name));
        SpecCause::Missing { owner: self.owner, param, expected }.into()
    }

    fn expected(&self, name: &str) -> String {
        let param = self.params.iter().find(|param| param.name == name);
        param.map_or_else(|| "a value".to_owned(), |param| param.kind.to_string())
    }

    /// Adds an offset to an error of a constructor: of the value of the parameter that the error
    /// names, else of the op.
    pub(super) fn with_offset(&self, error: SpecError) -> SpecError {
        let value = match &error.cause {
            SpecCause::Param(error) => self.table.get(error.param),
            _ => None,
        };
        error.at(value.and_then(|value| value.at)).at(self.at)
    }

    /// Returns true if the user gave a value for this parameter.
    #[must_use]
    pub fn given(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    /// Returns the parameter's value if the user gave one:
    /// `args.if_given("ratio", OpArgs::float)?`.
    ///
    /// # Errors
    ///
    /// The errors of `read`.
    pub fn if_given<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, SpecError>,
    ) -> Result<Option<T>, SpecError> {
        if self.given(name) { read(self, name).map(Some) } else { Ok(None) }
    }

    /// Returns the user's value, or the default.
    fn value(&self, name: &str) -> Result<Cow<'_, SpecValue>, SpecError> {
        if let Some(value) = self.table.get(name) {
            return Ok(Cow::Borrowed(value));
        }
        let param = self.params.iter().find(|param| param.name == name);
        match param.map(|param| param.need) {
            Some(ParamDefault::Default(preset)) => Ok(Cow::Owned(preset.value())),
            _ => Err(self.missing(name)),
        }
    }

    /// Returns the value as converted by `read`.
    fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&SpecValue) -> Option<T>,
    ) -> Result<T, SpecError> {
        let value = self.value(name)?;
        read(&value).ok_or_else(|| {
            let (param, found) = (name.to_owned(), value.to_string());
            let expected = self.expected(name);
            SpecError::from(SpecCause::Kind { owner: self.owner, param, found, expected })
                .at(value.at)
        })
    }
}

/// The types that constructors accept.
///
/// # Errors
///
/// All return [`SpecCause::Kind`] for a value of another kind, and [`SpecCause::Missing`] for a
/// parameter that was not given and has no default.
#[expect(clippy::missing_errors_doc, reason = "they share the errors above")]
impl OpArgs<'_> {
    /// Returns a number, whole or not.
    pub fn float(&self, name: &str) -> Result<f64, SpecError> {
        self.read(name, float)
    }

    /// Returns a number as the nearest `f32`.
    pub(crate) fn f32(&self, name: &str) -> Result<f32, SpecError> {
        let param = self.params.iter().find(|param| param.name == name);
        let param = param.map_or("", |param| param.name);
        let [value] = single(self.owner, param, [self.float(name)?])?;
        Ok(value)
    }

    /// Returns `true` or `false`.
    pub fn bool(&self, name: &str) -> Result<bool, SpecError> {
        self.read(name, |value| match value.datum {
            SpecData::Bool(value) => Some(value),
            _ => None,
        })
    }

    /// Returns a non-negative whole number of 32 bits.
    pub fn u32(&self, name: &str) -> Result<u32, SpecError> {
        self.read(name, u32)
    }

    /// Returns a non-negative whole number.
    pub fn u64(&self, name: &str) -> Result<u64, SpecError> {
        self.read(name, u64)
    }

    /// Returns a non-negative whole number as a `usize`.
    pub fn usize(&self, name: &str) -> Result<usize, SpecError> {
        self.read(name, |value| usize::try_from(int(value)?).ok())
    }

    /// Returns a number of bytes, from a whole number or a text with a unit.
    pub fn bytes(&self, name: &str) -> Result<u64, SpecError> {
        self.read(name, |value| match &value.datum {
            SpecData::Text(text) => bytes_of(text),
            _ => u64(value),
        })
    }

    /// Returns a whole number of either sign.
    pub fn i64(&self, name: &str) -> Result<i64, SpecError> {
        self.read(name, int)
    }

    /// Returns a whole number of 32 bits, of either sign.
    pub fn i32(&self, name: &str) -> Result<i32, SpecError> {
        self.read(name, |value| i32::try_from(int(value)?).ok())
    }

    /// Returns height and width: one number for both, or two.
    pub fn size(&self, name: &str) -> Result<Size, SpecError> {
        self.read(name, size)
    }

    /// Returns a list of sizes.
    pub fn sizes(&self, name: &str) -> Result<Vec<Size>, SpecError> {
        self.read(name, |value| list(value, size))
    }

    /// Returns the width and height of a kernel: one number for both, or two.
    pub fn kernel(&self, name: &str) -> Result<[u32; 2], SpecError> {
        self.read(name, |value| match value.datum {
            SpecData::Int(_) => u32(value).map(|side| [side; 2]),
            _ => array(value, u32),
        })
    }

    /// Returns the pixels on each side, in torchvision's forms: one number, two or four.
    pub fn sides(&self, name: &str) -> Result<Sides, SpecError> {
        self.read(name, |value| match &value.datum {
            SpecData::Int(_) => u32(value).map(Sides::from),
            SpecData::List(sides) if sides.len() == 2 => array::<_, 2>(value, u32).map(Sides::from),
            _ => array::<_, 4>(value, u32).map(Sides::from),
        })
    }

    /// Returns true if the value is a list and not a single value, for parameters where the two
    /// mean different things.
    pub fn is_list(&self, name: &str) -> Result<bool, SpecError> {
        Ok(matches!(self.value(name)?.datum, SpecData::List(_)))
    }

    /// Returns two numbers.
    pub fn pair(&self, name: &str) -> Result<(f64, f64), SpecError> {
        self.read(name, |value| array(value, float).map(|[low, high]| (low, high)))
    }

    /// Returns two non-negative whole numbers of 32 bits.
    pub fn pair_u32(&self, name: &str) -> Result<[u32; 2], SpecError> {
        self.read(name, |value| array(value, u32))
    }

    /// Returns two numbers as a range, from the first to the second.
    pub fn range(&self, name: &str) -> Result<RangeInclusive<f64>, SpecError> {
        self.pair(name).map(|(low, high)| low..=high)
    }

    /// Returns one number, or two as a range from the first to the second.
    pub fn number_or_range(&self, name: &str) -> Result<NumberOrRange, SpecError> {
        Ok(if self.is_list(name)? { self.range(name)?.into() } else { self.float(name)?.into() })
    }

    /// Returns one number for each of red, green and blue.
    pub fn channels(&self, name: &str) -> Result<[f64; 3], SpecError> {
        self.array(name)
    }

    /// Returns a colour: one level for all channels, or three.
    pub fn color(&self, name: &str) -> Result<[u8; 3], SpecError> {
        let level = |value: &SpecValue| u8::try_from(int(value)?).ok();
        self.read(name, |value| match value.datum {
            SpecData::Int(_) => level(value).map(|grey| [grey; 3]),
            _ => array(value, level),
        })
    }

    /// Returns a list of `N` numbers.
    pub fn array<const N: usize>(&self, name: &str) -> Result<[f64; N], SpecError> {
        self.read(name, |value| array(value, float))
    }

    /// Returns a list of numbers.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, SpecError> {
        self.read(name, |value| list(value, float))
    }

    /// Returns a list of non-negative whole numbers.
    pub fn ids(&self, name: &str) -> Result<Vec<u64>, SpecError> {
        self.read(name, |value| list(value, u64))
    }

    /// Returns a list of whole numbers.
    pub fn shape(&self, name: &str) -> Result<Vec<i64>, SpecError> {
        self.read(name, |value| list(value, int))
    }

    /// Returns the indices of three channels.
    pub fn permutation(&self, name: &str) -> Result<[usize; 3], SpecError> {
        self.read(name, |value| array(value, |value| usize::try_from(int(value)?).ok()))
    }

    /// Returns an element type, by its displayed name.
    pub fn dtype(&self, name: &str) -> Result<DType, SpecError> {
        self.read(name, |value| {
            let word = text(value)?;
            DTYPES.into_iter().find(|dtype| dtype.to_string() == word)
        })
    }

    /// Returns the interpolation of a resize, by its word or by Pillow's number, as the parameter `antialias`
    /// changes it where an op has one.
    pub fn interpolation(&self, name: &str) -> Result<Interpolation, SpecError> {
        let interpolation = self.read(name, |value| {
            let word = interpolation_word(value)?;
            find(word, &INTERPOLATIONS).or_else(|| find(word, &EARLIER))
        })?;
        let antialias = self.if_given("antialias", Self::bool)?;
        let antialiased = antialias.map_or(interpolation, |is_so| interpolation.antialias(is_so));
        if antialias == Some(true) && interpolation != antialiased {
            let found = "true, together with an aliased interpolation";
            let expected = "false, or the interpolation without \"-aliased\"";
            return Err(ParamError::new(self.owner, "antialias", found, expected).into());
        }
        Ok(antialiased)
    }

    /// Returns the interpolation of a warp, by its word or by Pillow's number.
    pub fn warp_interpolation(&self, name: &str) -> Result<WarpInterpolation, SpecError> {
        self.read(name, |value| find(interpolation_word(value)?, &WARP_INTERPOLATIONS))
    }

    /// Returns the format of bounding boxes.
    pub fn box_format(&self, name: &str) -> Result<BoxFormat, SpecError> {
        self.choice(name, &BOX_FORMATS)
    }

    /// Returns true if the value is this word, for parameters that accept words and numbers.
    pub fn is_word(&self, name: &str, word: &str) -> Result<bool, SpecError> {
        Ok(text(&*self.value(name)?) == Some(word))
    }

    /// Returns the item of `words` that is paired with the given word.
    pub fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, SpecError> {
        self.read(name, |value| find(text(value)?, words))
    }

    /// Returns a word.
    pub fn text(&self, name: &str) -> Result<String, SpecError> {
        self.read(name, |value| text(value).map(str::to_owned))
    }

    /// Returns a list of words.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, SpecError> {
        self.read(name, |value| list(value, |value| text(value).map(str::to_owned)))
    }

    /// Returns a table of names and values.
    pub fn table(&self, name: &str) -> Result<SpecTable, SpecError> {
        self.read(name, |value| match &value.datum {
            SpecData::Table(table) => Some(table.clone()),
            _ => None,
        })
    }

    /// Builds a nested list of ops.
    pub fn ops(&self, name: &str) -> Result<Ops, SpecError> {
        self.bounds.ops(&*self.value(name)?)
    }
}

/// Returns what a word means.
fn find<T: Copy>(word: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant)
}

/// Returns the word for an interpolation, which may be given as Pillow's number.
fn interpolation_word(value: &SpecValue) -> Option<&str> {
    let number = int(value);
    text(value).or_else(|| PILLOW.iter().find(|(n, _)| Some(*n) == number).map(|(_, word)| *word))
}

fn int(value: &SpecValue) -> Option<i64> {
    match value.datum {
        SpecData::Int(value) => Some(value),
        _ => None,
    }
}

fn u32(value: &SpecValue) -> Option<u32> {
    u32::try_from(int(value)?).ok()
}

fn u64(value: &SpecValue) -> Option<u64> {
    u64::try_from(int(value)?).ok()
}

fn size(value: &SpecValue) -> Option<Size> {
    match value.datum {
        SpecData::Int(_) => u32(value).map(Size::from),
        _ => array(value, u32).map(|[height, width]| Size::new(height, width)),
    }
}

/// The units of numbers of bytes.
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("B", 1),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KIB", 1 << 10),
    ("MIB", 1 << 20),
    ("GIB", 1 << 30),
    ("TIB", 1 << 40),
];

/// Returns the number of bytes of a text such as `2GiB` or `1.5 GB`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size with a fraction is rounded down, and `as` saturates"
)]
fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = find(&unit.trim().to_ascii_uppercase(), &UNITS)?;
    match number.parse::<u64>() {
        Ok(number) => number.checked_mul(unit),
        Err(_) if number.starts_with(|c: char| c.is_ascii_digit()) => {
            number.parse::<f64>().ok().map(|number| (number * unit as f64) as u64)
        }
        Err(_) => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "as where a whole number is written for a float")]
fn float(value: &SpecValue) -> Option<f64> {
    match value.datum {
        SpecData::Int(value) => Some(value as f64),
        SpecData::Float(value) => Some(value),
        _ => None,
    }
}

fn text(value: &SpecValue) -> Option<&str> {
    match &value.datum {
        SpecData::Text(text) => Some(text),
        _ => None,
    }
}

fn list<T>(value: &SpecValue, of: impl Fn(&SpecValue) -> Option<T>) -> Option<Vec<T>> {
    match &value.datum {
        SpecData::List(values) => values.iter().map(of).collect(),
        _ => None,
    }
}

fn array<T, const N: usize>(
    value: &SpecValue,
    of: impl Fn(&SpecValue) -> Option<T>,
) -> Option<[T; N]> {
    list(value, of)?.try_into().ok()
}
