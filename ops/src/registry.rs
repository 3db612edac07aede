//! The ops by name: what a list of ops written as data is made with.
//!
//! An entry says what an op is called, what it does in one line, which parameters it takes and how
//! it is made of them. Names and checks are those of the Rust constructors: an entry only turns
//! values into their arguments. A new op takes one entry in the file of its family:
//!
//! ```text
//! OpInfo {
//!     name: "RandomHorizontalFlip",                                   as in Rust and torchvision
//!     class: GEOMETRY,                                                the family, for `fuseloop ops`
//!     summary: "mirrors a share p of the images left to right",
//!     params: &[optional("p", Kind::Number, Preset::Float(0.5), "share of the images")],
//!     aliases: &[],
//!     build: |args| Ok(built(RandomHorizontalFlip::new(args.float("p")?)?)),
//! }
//! ```
//!
//! A default stands in `params` alone: `args.float("p")` gives it where the user gave nothing. A
//! parameter without one is either [`required`], with an example that the tests and `fuseloop ops`
//! build the op with, or [`maybe`] there.
//!
//! A list of ops is a list of names and tables, `"ToChannelsFirst"` or `{ op = "Resize", size = 256 }`,
//! of at most [`MAX_OPS`] ops in all, nested at most [`MAX_DEPTH`] deep:
//!
//! ```
//! use fuseloop_ops::registry::{Table, Value, build_ops};
//!
//! let resize = Table::from_iter([("op", Value::from("Resize")), ("size", Value::from(256))]);
//! let list = Value::from(vec![Value::from(resize), Value::from("ToChannelsFirst")]);
//! let ops = build_ops(&list)?;
//! assert_eq!(ops[1].name(), "ToChannelsFirst");
//!
//! let error = build_ops(&Value::from(vec![Value::from("Resise")])).unwrap_err();
//! assert_eq!(error.to_string(), "there is no op `Resise`, did you mean `Resize`?");
//! # Ok::<(), fuseloop_ops::registry::SpecError>(())
//! ```

mod args;
mod color;
mod error;
mod geometry;
mod labels;
mod mixing;
mod nearest;
mod neighbourhood;
mod overwrite;
mod param;
mod policy;
mod value;
mod values;
mod warp;

pub use args::Args;
pub use error::{SpecCause, SpecError};
pub use nearest::nearest;
pub use param::{Kind, Need, ParamInfo, Preset, maybe, optional, required};
pub use value::{Datum, Entry, Table, Value};

use crate::{Op, Ops, ParamError};
use std::cell::Cell;
use std::sync::LazyLock;

/// Most ops of one list, those in nested lists included.
pub const MAX_OPS: usize = 256;

/// Most lists inside one another.
pub const MAX_DEPTH: usize = 8;

/// An op as a list holds it.
pub type BuiltOp = <Ops as IntoIterator>::Item;

/// What is known of an op by its name.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The name a user writes.
    pub name: &'static str,
    /// The family, in one word.
    pub class: &'static str,
    /// What it does, on one line.
    pub summary: &'static str,
    /// What it takes, in the order in which it is shown.
    pub params: &'static [ParamInfo],
    /// Other names it goes by.
    pub aliases: &'static [&'static str],
    /// Makes it of checked parameters.
    pub build: fn(&Args<'_>) -> Result<BuiltOp, SpecError>,
}

/// All ops, family by family. A new family is one more name here.
static ALL: LazyLock<Vec<OpInfo>> = LazyLock::new(|| {
    [
        geometry::OPS,
        warp::OPS,
        color::OPS,
        neighbourhood::OPS,
        overwrite::OPS,
        policy::OPS,
        mixing::OPS,
        values::OPS,
        labels::OPS,
    ]
    .concat()
});

/// Every op there is, those of a family side by side.
#[must_use]
pub fn registry() -> &'static [OpInfo] {
    &ALL
}

/// The op of a name or an alias.
///
/// # Errors
///
/// If there is none: the error names the nearest.
pub fn find(name: &str) -> Result<&'static OpInfo, SpecError> {
    let found = registry().iter().find(|info| info.name == name || info.aliases.contains(&name));
    found.ok_or_else(|| {
        let names = registry().iter().flat_map(|info| info.aliases.iter().chain([&info.name]));
        let nearest = nearest(name, names.copied());
        SpecError::from(SpecCause::UnknownOp { name: error::short(name), nearest })
    })
}

/// Makes the ops of a list of names and tables.
///
/// # Errors
///
/// See [`SpecCause`]; the error carries the place of the value it is about, if values have places.
pub fn build_ops(list: &Value) -> Result<Ops, SpecError> {
    Bounds { depth: 0, left: &Cell::new(MAX_OPS) }.ops(list)
}

/// An op in the form in which a list holds it.
fn built(op: impl Op + 'static) -> BuiltOp {
    std::sync::Arc::new(op)
}

/// How many more ops a list may have, and how deep it is.
#[derive(Clone, Copy, Debug)]
struct Bounds<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Bounds<'_> {
    fn ops(self, list: &Value) -> Result<Ops, SpecError> {
        let Datum::List(items) = &list.datum else {
            return Err(
                SpecError::from(SpecCause::NotAList { found: list.to_string() }).at(list.at)
            );
        };
        if self.depth == MAX_DEPTH {
            return Err(SpecError::from(SpecCause::TooDeep).at(list.at));
        }
        let deeper = Self { depth: self.depth + 1, ..self };
        items.iter().map(|item| deeper.op(item)).collect()
    }

    fn op(self, item: &Value) -> Result<BuiltOp, SpecError> {
        self.left.set(
            self.left
                .get()
                .checked_sub(1)
                .ok_or(SpecCause::TooMany)
                .map_err(|cause| SpecError::from(cause).at(item.at))?,
        );
        let (name, none) = (name(item)?, Table::default());
        let info = find(name.text).map_err(|error| error.at(name.at))?;
        let table = if let Datum::Table(table) = &item.datum { table } else { &none };
        let args = Args::of_op(info, table, item.at, self)?;
        (info.build)(&args).map_err(|error| args.place(error))
    }
}

/// A word and where it stands.
struct Name<'a> {
    text: &'a str,
    at: Option<usize>,
}

/// The name of an op: the item itself, or what it calls `op`.
fn name(item: &Value) -> Result<Name<'_>, SpecError> {
    let value = match &item.datum {
        Datum::Table(table) => table.get("op").unwrap_or(item),
        _ => item,
    };
    match &value.datum {
        Datum::Text(text) => Ok(Name { text, at: value.at }),
        _ => {
            let found = value.to_string();
            Err(SpecError::from(SpecCause::NotAnOp { found }).at(value.at))
        }
    }
}

/// Numbers as the `f32` that an op holds them as.
///
/// # Errors
///
/// If one is too large for that. The message shows the number that was given.
fn single<const N: usize>(
    op: &'static str,
    param: &'static str,
    values: [f64; N],
) -> Result<[f32; N], ParamError> {
    #[expect(clippy::cast_possible_truncation, reason = "what is checked is what it becomes")]
    let singles = values.map(|value| value as f32);
    match values.iter().zip(&singles).find(|(_, single)| !single.is_finite()) {
        Some((given, _)) => Err(ParamError::new(op, param, given, "numbers that an f32 can hold")),
        None => Ok(singles),
    }
}

#[cfg(test)]
mod tests;
