//! The declarations of a pipeline file about arrays: see [`LoaderBuilder::axes`](crate::LoaderBuilder::axes) and
//! [`LoaderBuilder::arrays`](crate::LoaderBuilder::arrays).
//!
//! ```toml
//! [axes]
//! scan = "DHW"                                # slices, rows, columns
//!
//! [arrays]
//! points = { dtype = "f32", shape = [-1, 3] }    # bytes that are rows of three
//! ```

use super::settings::each;
use fuseloop_ops::DType;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecEntry, SpecError, SpecTable, required,
};

const AXES: &[ParamInfo] = &[required(
    "axes",
    ParamKind::Text,
    ParamValue::Word("HWC"),
    "one letter for each axis of a sample",
)];

const ARRAY: &[ParamInfo] = &[
    required("dtype", ParamKind::DType, ParamValue::Word("f32"), "the type of an element"),
    required(
        "shape",
        ParamKind::Shape,
        ParamValue::Ints(&[16, 3]),
        "the lengths of the axes; -1 is one that differs from sample to sample",
    ),
];

/// Returns the letters that each field of an `[axes]` table has.
pub(super) fn axes_of(table: SpecTable) -> Result<Vec<(String, String)>, SpecError> {
    each("axes", AXES, table, |args| args.text("axes"))
}

/// The type and the shape of the arrays that the bytes of a field are.
pub(super) type DeclaredArray = (DType, Vec<i64>);

/// Returns the arrays of each field of an `[arrays]` table.
pub(super) fn of_table(
    SpecTable(entries): SpecTable,
) -> Result<Vec<(String, DeclaredArray)>, SpecError> {
    let array = |SpecEntry { name, at, value }: SpecEntry| {
        let table = value.into_table("dtype", at);
        let read = |args: &OpArgs<'_>| Ok((args.dtype("dtype")?, args.shape("shape")?));
        Ok((name, OpArgs::with("arrays", ARRAY, &table, at, read)?))
    };
    entries.into_iter().map(array).collect()
}
