//! Values as the arguments of a constructor: typed, checked, defaults filled in.

use super::{Bounds, Datum, Entry, Kind, Need, OpInfo, ParamInfo, SpecCause, SpecError, Table};
use super::{MAX_OPS, Value, error, nearest};
use crate::{DType, Interpolation, Ops, Sides, Size, WarpInterpolation};
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::RangeInclusive;

/// Every interpolation, by the name a user writes.
const INTERPOLATIONS: [(&str, Interpolation); 7] = [
    ("bilinear-antialias", Interpolation::BilinearAntialias),
    ("area", Interpolation::Area),
    ("nearest", Interpolation::Nearest),
    ("nearest-exact", Interpolation::NearestExact),
    ("bilinear", Interpolation::Bilinear),
    ("bicubic", Interpolation::Bicubic),
    ("bicubic-antialias", Interpolation::BicubicAntialias),
];

/// The names of the interpolations.
pub(super) const INTERPOLATION: Kind = Kind::Word(&names_of(&INTERPOLATIONS));

/// Every way to read a picture between its pixels.
const WARP_INTERPOLATIONS: [(&str, WarpInterpolation); 3] = [
    ("nearest", WarpInterpolation::Nearest),
    ("bilinear", WarpInterpolation::Bilinear),
    ("bicubic", WarpInterpolation::Bicubic),
];

/// The names of those of warps.
pub(super) const WARP_INTERPOLATION: Kind = Kind::Word(&names_of(&WARP_INTERPOLATIONS));

const fn names_of<T, const N: usize>(words: &[(&'static str, T); N]) -> [&'static str; N] {
    let (mut names, mut i) = ([""; N], 0);
    while i < N {
        names[i] = words[i].0;
        i += 1;
    }
    names
}

/// The parameters that a user gave an op, and the defaults of those not given.
///
/// Every name was checked when it was made: what is asked for is there, or the op does without.
#[derive(Debug)]
pub struct Args<'a> {
    owner: &'static str,
    params: &'static [ParamInfo],
    table: &'a Table,
    at: Option<usize>,
    bounds: Bounds<'a>,
}

impl<'a> Args<'a> {
    /// The parameters of an op.
    pub(super) fn of_op(
        info: &OpInfo,
        table: &'a Table,
        at: Option<usize>,
        bounds: Bounds<'a>,
    ) -> Result<Self, SpecError> {
        let is_name = |entry: &&Entry| entry.name != "op";
        let args = Self { owner: info.name, params: info.params, table, at, bounds };
        args.check(table.0.iter().filter(is_name))?;
        Ok(args)
    }

    /// A table that is no op, checked the same way; `owner` is what messages call it. Bounds on
    /// lists of ops begin anew in it.
    ///
    /// # Errors
    ///
    /// If it has a name that is not in `params`, or lacks one without a default.
    pub fn with<T>(
        owner: &'static str,
        params: &'static [ParamInfo],
        table: &Table,
        at: Option<usize>,
        read: impl FnOnce(&Args<'_>) -> Result<T, SpecError>,
    ) -> Result<T, SpecError> {
        let left = Cell::new(MAX_OPS);
        let args = Args { owner, params, table, at, bounds: Bounds { depth: 0, left: &left } };
        args.check(table.0.iter())?;
        read(&args).map_err(|error| args.place(error))
    }

    /// Refuses names that are not known, and the lack of those that must be there.
    fn check<'t>(&self, entries: impl Iterator<Item = &'t Entry>) -> Result<(), SpecError> {
        for entry in entries {
            if self.params.iter().all(|param| param.name != entry.name) {
                return Err(self.unknown(&entry.name).at(entry.at));
            }
        }
        let missing = |param: &&ParamInfo| {
            matches!(param.need, Need::Required(_)) && self.table.get(param.name).is_none()
        };
        match self.params.iter().find(missing) {
            Some(param) => Err(self.missing(param.name).at(self.at)),
            None => Ok(()),
        }
    }

    fn unknown(&self, name: &str) -> SpecError {
        let known: Vec<&str> = self.params.iter().map(|param| param.name).collect();
        let nearest = nearest(name, known.iter().copied());
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

    /// Where an error of the constructor belongs: at the value of the parameter it names, else at
    /// the op.
    pub(super) fn place(&self, error: SpecError) -> SpecError {
        let value = match &error.cause {
            SpecCause::Param(error) => self.table.get(error.param),
            _ => None,
        };
        error.at(value.and_then(|value| value.at)).at(self.at)
    }

    /// Whether the user gave a value for this parameter.
    #[must_use]
    pub fn given(&self, name: &str) -> bool {
        self.table.get(name).is_some()
    }

    /// Its value if the user gave one: `args.if_given("ratio", Args::float)?`.
    ///
    /// # Errors
    ///
    /// As `read`.
    pub fn if_given<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, SpecError>,
    ) -> Result<Option<T>, SpecError> {
        if self.given(name) { read(self, name).map(Some) } else { Ok(None) }
    }

    /// The user's value, or the default.
    fn value(&self, name: &str) -> Result<Cow<'_, Value>, SpecError> {
        if let Some(value) = self.table.get(name) {
            return Ok(Cow::Borrowed(value));
        }
        let param = self.params.iter().find(|param| param.name == name);
        match param.map(|param| param.need) {
            Some(Need::Default(preset)) => Ok(Cow::Owned(preset.value())),
            _ => Err(self.missing(name)),
        }
    }

    /// The value as `read` understands it.
    fn read<T>(&self, name: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<T, SpecError> {
        let value = self.value(name)?;
        read(&value).ok_or_else(|| {
            let (param, found) = (name.to_owned(), value.to_string());
            let expected = self.expected(name);
            SpecError::from(SpecCause::Kind { owner: self.owner, param, found, expected })
                .at(value.at)
        })
    }
}

/// What constructors take.
///
/// # Errors
///
/// All give [`SpecCause::Kind`] for a value of another kind, and [`SpecCause::Missing`] for one
/// that was not given and has no default.
#[expect(clippy::missing_errors_doc, reason = "they share the errors above")]
impl Args<'_> {
    /// A number, whole or not.
    pub fn float(&self, name: &str) -> Result<f64, SpecError> {
        self.read(name, float)
    }

    /// `true` or `false`.
    pub fn bool(&self, name: &str) -> Result<bool, SpecError> {
        self.read(name, |value| match value.datum {
            Datum::Bool(value) => Some(value),
            _ => None,
        })
    }

    /// A whole number of 32 bits, not negative.
    pub fn u32(&self, name: &str) -> Result<u32, SpecError> {
        self.read(name, u32)
    }

    /// A whole number, not negative.
    pub fn u64(&self, name: &str) -> Result<u64, SpecError> {
        self.read(name, u64)
    }

    /// A whole number of things in memory.
    pub fn usize(&self, name: &str) -> Result<usize, SpecError> {
        self.read(name, |value| usize::try_from(int(value)?).ok())
    }

    /// A whole number of either sign.
    pub fn i64(&self, name: &str) -> Result<i64, SpecError> {
        self.read(name, int)
    }

    /// A whole number of 32 bits, of either sign.
    pub fn i32(&self, name: &str) -> Result<i32, SpecError> {
        self.read(name, |value| i32::try_from(int(value)?).ok())
    }

    /// Height and width: one number for both, or two.
    pub fn size(&self, name: &str) -> Result<Size, SpecError> {
        self.read(name, |value| match value.datum {
            Datum::Int(_) => u32(value).map(|side| Size::new(side, side)),
            _ => array(value, u32).map(|[height, width]| Size::new(height, width)),
        })
    }

    /// Width and height, as kernels are given: one number for both, or two.
    pub fn kernel(&self, name: &str) -> Result<[u32; 2], SpecError> {
        self.read(name, |value| match value.datum {
            Datum::Int(_) => u32(value).map(|side| [side; 2]),
            _ => array(value, u32),
        })
    }

    /// Pixels on each side, as torchvision has them: one number, two or four.
    pub fn sides(&self, name: &str) -> Result<Sides, SpecError> {
        self.read(name, |value| match &value.datum {
            Datum::Int(_) => u32(value).map(Sides::from),
            Datum::List(sides) if sides.len() == 2 => array::<_, 2>(value, u32).map(Sides::from),
            _ => array::<_, 4>(value, u32).map(Sides::from),
        })
    }

    /// Whether the value is a list and not a single one: where the two mean different things.
    pub fn is_list(&self, name: &str) -> Result<bool, SpecError> {
        Ok(matches!(self.value(name)?.datum, Datum::List(_)))
    }

    /// Two numbers.
    pub fn pair(&self, name: &str) -> Result<(f64, f64), SpecError> {
        self.read(name, |value| array(value, float).map(|[low, high]| (low, high)))
    }

    /// Two whole numbers of 32 bits, not negative.
    pub fn pair_u32(&self, name: &str) -> Result<[u32; 2], SpecError> {
        self.read(name, |value| array(value, u32))
    }

    /// Two numbers as a range, from the first to the second.
    pub fn range(&self, name: &str) -> Result<RangeInclusive<f64>, SpecError> {
        self.pair(name).map(|(low, high)| low..=high)
    }

    /// A range given as two numbers, or as one: what `of_one` makes of it, as in `|d| -d..=d`.
    pub fn range_or(
        &self,
        name: &str,
        of_one: impl FnOnce(f64) -> RangeInclusive<f64>,
    ) -> Result<RangeInclusive<f64>, SpecError> {
        if self.is_list(name)? { self.range(name) } else { self.float(name).map(of_one) }
    }

    /// A number for each of red, green and blue.
    pub fn channels(&self, name: &str) -> Result<[f64; 3], SpecError> {
        self.array(name)
    }

    /// A colour: one level for all channels, or three.
    pub fn color(&self, name: &str) -> Result<[u8; 3], SpecError> {
        let level = |value: &Value| u8::try_from(int(value)?).ok();
        self.read(name, |value| match value.datum {
            Datum::Int(_) => level(value).map(|grey| [grey; 3]),
            _ => array(value, level),
        })
    }

    /// A list of so many numbers.
    pub fn array<const N: usize>(&self, name: &str) -> Result<[f64; N], SpecError> {
        self.read(name, |value| array(value, float))
    }

    /// A list of numbers.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>, SpecError> {
        self.read(name, |value| list(value, float))
    }

    /// A list of whole numbers, not negative.
    pub fn ids(&self, name: &str) -> Result<Vec<u64>, SpecError> {
        self.read(name, |value| list(value, u64))
    }

    /// The numbers of three channels.
    pub fn permutation(&self, name: &str) -> Result<[usize; 3], SpecError> {
        self.read(name, |value| array(value, |value| usize::try_from(int(value)?).ok()))
    }

    /// A type of elements, by the name it prints.
    pub fn dtype(&self, name: &str) -> Result<DType, SpecError> {
        self.read(name, |value| {
            let word = text(value)?;
            DType::ALL.into_iter().find(|dtype| dtype.to_string() == word)
        })
    }

    /// A way to resize.
    pub fn interpolation(&self, name: &str) -> Result<Interpolation, SpecError> {
        self.choice(name, &INTERPOLATIONS)
    }

    /// A way to read a picture between its pixels.
    pub fn warp_interpolation(&self, name: &str) -> Result<WarpInterpolation, SpecError> {
        self.choice(name, &WARP_INTERPOLATIONS)
    }

    /// Whether the value is this word: where words and numbers may be given.
    pub fn is_word(&self, name: &str, word: &str) -> Result<bool, SpecError> {
        Ok(text(&*self.value(name)?) == Some(word))
    }

    /// What stands beside the word given.
    pub fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, SpecError> {
        self.read(name, |value| {
            let word = text(value)?;
            words.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant)
        })
    }

    /// A word.
    pub fn text(&self, name: &str) -> Result<String, SpecError> {
        self.read(name, |value| text(value).map(str::to_owned))
    }

    /// A list of words.
    pub fn texts(&self, name: &str) -> Result<Vec<String>, SpecError> {
        self.read(name, |value| list(value, |value| text(value).map(str::to_owned)))
    }

    /// Names and values.
    pub fn table(&self, name: &str) -> Result<Table, SpecError> {
        self.read(name, |value| match &value.datum {
            Datum::Table(table) => Some(table.clone()),
            _ => None,
        })
    }

    /// A list of ops, inside this one.
    pub fn ops(&self, name: &str) -> Result<Ops, SpecError> {
        self.bounds.ops(&*self.value(name)?)
    }
}

fn int(value: &Value) -> Option<i64> {
    match value.datum {
        Datum::Int(value) => Some(value),
        _ => None,
    }
}

fn u32(value: &Value) -> Option<u32> {
    u32::try_from(int(value)?).ok()
}

fn u64(value: &Value) -> Option<u64> {
    u64::try_from(int(value)?).ok()
}

#[expect(clippy::cast_precision_loss, reason = "as where a whole number is written for a float")]
fn float(value: &Value) -> Option<f64> {
    match value.datum {
        Datum::Int(value) => Some(value as f64),
        Datum::Float(value) => Some(value),
        _ => None,
    }
}

fn text(value: &Value) -> Option<&str> {
    match &value.datum {
        Datum::Text(text) => Some(text),
        _ => None,
    }
}

fn list<T>(value: &Value, of: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match &value.datum {
        Datum::List(values) => values.iter().map(of).collect(),
        _ => None,
    }
}

fn array<T, const N: usize>(value: &Value, of: impl Fn(&Value) -> Option<T>) -> Option<[T; N]> {
    list(value, of)?.try_into().ok()
}
