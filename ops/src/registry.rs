//! The registry: finds ops by name and builds lists of ops that are written as data.
//!
//! An entry has an op's name, a one-line summary, its parameters, and a function that builds the op
//! from them. Names and checks are those of the Rust constructors: an entry only converts values
//! into their arguments. A new op needs one entry in the file of its family:
//!
//! ```text
//! OpInfo {
//!     name: "RandomHorizontalFlip",                                   as in Rust and torchvision
//!     class: GEOMETRY,                                                the family, for `fuseloop ops`
//!     summary: "mirrors a share p of the images left to right",
//!     params: &[with_default("p", ParamKind::Number, ParamValue::Float(0.5), "share of the images")],
//!     aliases: &[],
//!     build: |args| Ok(built(RandomHorizontalFlip::new(args.float("p")?)?)),
//! }
//! ```
//!
//! Defaults are written in `params` only: `args.float("p")` returns the default if the user gave no
//! value. A parameter without a default is declared by [`required`], with an example value from
//! which the tests and `fuseloop ops` build the op, or by [`optional`] if it can be omitted.
//!
//! A list of ops is a list of names and tables, `"ToChannelsFirst"` or `{ op = "Resize", size = 256 }`,
//! with at most [`MAX_OPS`] ops in total, nested at most [`MAX_DEPTH`] deep:
//!
//! ```
//! use fuseloop_ops::internals::registry::{SpecTable, SpecValue, build_ops};
//!
//! let resize = SpecTable::from_iter([("op", SpecValue::from("Resize")), ("size", SpecValue::from(256))]);
//! let list = SpecValue::from(vec![SpecValue::from(resize), SpecValue::from("ToChannelsFirst")]);
//! let ops = build_ops(&list)?;
//! assert_eq!(ops[1].name(), "ToChannelsFirst");
//!
//! let error = build_ops(&SpecValue::from(vec![SpecValue::from("Resise")])).unwrap_err();
//! assert_eq!(error.to_string(), "no op named `Resise`, did you mean `Resize`?");
//! # Ok::<(), fuseloop_ops::internals::registry::SpecError>(())
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

pub use args::OpArgs;
pub use error::{SpecCause, SpecError};
pub use nearest::nearest;
pub use param::{ParamDefault, ParamInfo, ParamKind, ParamValue, optional, required, with_default};
pub use value::{SpecData, SpecEntry, SpecTable, SpecValue};

use crate::author::Op;
use crate::{Ops, ParamError};
use std::cell::Cell;
use std::sync::LazyLock;

/// The maximum number of ops in one list, including those in nested lists.
pub const MAX_OPS: usize = 256;

/// The maximum nesting depth of lists.
pub const MAX_DEPTH: usize = 8;

/// An op in the form in which a list stores it.
pub type BuiltOp = <Ops as IntoIterator>::Item;

/// The registry entry of an op.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// The name a user writes.
    pub name: &'static str,
    /// The op's family, in one word.
    pub class: &'static str,
    /// What the op does, on one line.
    pub summary: &'static str,
    /// The op's parameters, in display order.
    pub params: &'static [ParamInfo],
    /// Other names of the op.
    pub aliases: &'static [&'static str],
    /// Builds the op from checked parameters.
    pub build: fn(&OpArgs<'_>) -> Result<BuiltOp, SpecError>,
}

/// All ops, family by family. A new family must be added here.
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

/// Returns all ops; the ops of a family are adjacent.
#[must_use]
pub fn registry() -> &'static [OpInfo] {
    &ALL
}

/// Finds an op by its name or an alias.
///
/// # Errors
///
/// If there is no such op: the error suggests the nearest name.
pub fn find(name: &str) -> Result<&'static OpInfo, SpecError> {
    let found = registry().iter().find(|info| info.name == name || info.aliases.contains(&name));
    found.ok_or_else(|| {
        let names = registry().iter().flat_map(|info| info.aliases.iter().chain([&info.name]));
        let nearest = nearest(name, names.copied());
        SpecError::from(SpecCause::UnknownOp { name: error::short(name), nearest })
    })
}

/// Builds the ops of a list of names and tables.
///
/// # Errors
///
/// See [`SpecCause`]. If values have offsets, the error has the offset of the value that caused it.
pub fn build_ops(list: &SpecValue) -> Result<Ops, SpecError> {
    Bounds { depth: 0, left: &Cell::new(MAX_OPS) }.ops(list)
}

/// Converts an op to the form in which a list stores it.
fn built(op: impl Op + 'static) -> BuiltOp {
    std::sync::Arc::new(op)
}

/// The number of ops that a list may still add, and its nesting depth.
#[derive(Clone, Copy, Debug)]
struct Bounds<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Bounds<'_> {
    fn ops(self, list: &SpecValue) -> Result<Ops, SpecError> {
        let SpecData::List(items) = &list.datum else {
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

    fn op(self, item: &SpecValue) -> Result<BuiltOp, SpecError> {
        self.left.set(
            self.left
                .get()
                .checked_sub(1)
                .ok_or(SpecCause::TooMany)
                .map_err(|cause| SpecError::from(cause).at(item.at))?,
        );
        let (name, none) = (name(item)?, SpecTable::default());
        let info = find(name.text).map_err(|error| error.at(name.at))?;
        let table = if let SpecData::Table(table) = &item.datum { table } else { &none };
        let args = OpArgs::of_op(info, table, item.at, self)?;
        (info.build)(&args).map_err(|error| args.place(error))
    }
}

/// A word and its offset in the text.
struct Name<'a> {
    text: &'a str,
    at: Option<usize>,
}

/// Returns the name of an op: the item itself, or the value of its key `op`.
fn name(item: &SpecValue) -> Result<Name<'_>, SpecError> {
    let value = match &item.datum {
        SpecData::Table(table) => table.get("op").unwrap_or(item),
        _ => item,
    };
    match &value.datum {
        SpecData::Text(text) => Ok(Name { text, at: value.at }),
        _ => {
            let found = value.to_string();
            Err(SpecError::from(SpecCause::NotAnOp { found }).at(value.at))
        }
    }
}

/// Converts numbers to `f32`, the type in which ops store them.
///
/// # Errors
///
/// If a number is too large for `f32`. The message shows the given number.
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
