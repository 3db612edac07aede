//! The registry: finds ops by name and builds lists of ops that are written as data.
//!
//! An entry has an op's name, a one-line summary, its parameters, a function that builds the op from
//! them, and recipes that draw random instances for tests. Names and checks are those of the Rust
//! constructors: an entry only converts values into their arguments. The derive macro `Op` writes it, with the
//! constructor and the methods, from the attributes of the op's struct, and `ENTRIES` in `lib.rs` lists it:
//!
//! ```text
//! #[derive(Op, Clone, Copy, Debug, PartialEq)]
//! #[op(GEOMETRY, "cuts a random rectangle and scales it to a fixed size")]   the family and the summary
//! pub struct RandomResizedCrop {
//!     /// The comment of `new`, which takes what has no default.
//!     #[param(size)]                                                          as in all ops: see the macro
//!     size: Size,
//!     /// The comment of the method `scale`.
//!     #[param("share of the area", positive, default = 0.08..=1.0)]           the meaning, the limits, the default
//!     scale: (f64, f64),
//! }
//! ```
//!
//! A parameter has a default, or it has an example from which the tests and `fuseloop ops` build the op, or it is
//! optional. A test of all entries tries the values around the limits. `ops/derive/src/lib.rs` lists all attributes.
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
mod error;
mod given;
mod limits;
mod nearest;
mod param;
pub(crate) mod recipe;
mod value;

pub use args::OpArgs;
pub use error::{SpecCause, SpecError};
pub use limits::ParamLimits;
pub use nearest::nearest;
pub use param::{ParamDefault, ParamInfo, ParamKind, ParamValue, optional, required, with_default};
pub use recipe::{Golden, Recipe, Recipes};
pub use value::{SpecData, SpecEntry, SpecOp, SpecTable, SpecValue};

pub(crate) use args::ANTIALIAS;
pub use args::{BOX_FORMAT_WORDS, names_of};
pub(crate) use given::{Given, step};
pub(crate) use limits::Checked;

use crate::author::Op;
use crate::default_floats::nearest_f32;
use crate::{ENTRIES, Ops, ParamError};
use std::cell::Cell;

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
    /// How tests draw random instances of the op.
    pub recipes: Recipes,
    /// States if a test compares the op with the library that it follows.
    pub golden: Golden,
}

/// The family of ops that move pixels.
pub const GEOMETRY: &str = "geometry";
/// The family of ops on the targets of an image: its bounding boxes and keypoints.
pub const TARGETS: &str = "targets";
/// The family of ops that change colours.
pub const COLOR: &str = "color";
/// The family of ops that compute a pixel from the pixels around it.
pub const NEIGHBOURHOOD: &str = "neighbourhood";
/// The family of ops that overwrite a part of an image, or add noise to it.
pub const OVERWRITE: &str = "overwrite";
/// The family of ops on audio, as waveforms and as spectrograms.
pub const SIGNALS: &str = "signals";
/// The family of ops on point clouds: arrays with a point in each row.
pub const POINTS: &str = "points";
/// The family of ops that consist of other ops.
pub const POLICY: &str = "containers and policies";
/// The family of ops that mix the samples of a batch: they are in the lists of the images, and those that mix labels
/// come last in the lists of the labels, too.
pub const MIXING: &str = "mixing";
/// The family of ops that decide how values are stored: their scale, type, layout and device.
pub const VALUES: &str = "values";
/// The family of ops on labels.
pub const LABELS: &str = "labels";

/// Returns all ops; the ops of a family are adjacent.
#[must_use]
pub fn registry() -> &'static [OpInfo] {
    ENTRIES
}

/// Returns the recipes of all ops.
pub fn recipes() -> impl Iterator<Item = &'static Recipe> {
    registry().iter().flat_map(|info| info.recipes.all())
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
pub(crate) fn built(op: impl Op + 'static) -> BuiltOp {
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
        if let SpecData::Op(SpecOp(op)) = &item.datum {
            return Ok(BuiltOp::clone(op));
        }
        let (name, none) = (name(item)?, SpecTable::default());
        let info = find(name.text).map_err(|error| error.at(name.at))?;
        let table = if let SpecData::Table(table) = &item.datum { table } else { &none };
        let args = OpArgs::of_op(info, table, item.at, self)?;
        (info.build)(&args).map_err(|error| args.with_offset(error))
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
pub(crate) fn single<const N: usize>(
    op: &'static str,
    param: &'static str,
    values: [f64; N],
) -> Result<[f32; N], ParamError> {
    let singles = values.map(nearest_f32);
    match values.iter().zip(&singles).find(|(_, single)| !single.is_finite()) {
        Some((given, _)) => Err(ParamError::new(op, param, given, "numbers that an f32 can hold")),
        None => Ok(singles),
    }
}

#[cfg(test)]
mod tests;
