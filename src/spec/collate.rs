//! How samples that differ in size become a batch, as data: see [`Collate`].
//!
//! ```toml
//! [collate]
//! image = "pad"               # the form alone
//! text = { as = "pad", dtype = "i64", to = 512, truncate = true, fill = -100 }
//! boxes = { as = "ragged", dtype = "f32", inner = [4] }
//! ```
//!
//! | name | default | what it is |
//! |---|---|---|
//! | `as` | required | `"pad"`, `"ragged"` or `"list"` |
//! | `dtype`, `inner` | `"u8"`, `[]` | the type and item shape that bytes are read as: [`Collate::of`] |
//! | `to` | the dataset's longest | most items of a sample |
//! | `to_size` | the batch's largest | largest size of an image in pixels: a number, or `[height, width]` |
//! | `to_multiple` | 1 | the pixels that the batch's largest size is rounded up to a multiple of |
//! | `truncate` | false | whether larger samples are cut off |
//! | `fill` | 0 | the padding value |

use crate::loader::Collate;
use fuseloop_ops::DType;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecEntry, SpecError, SpecTable, optional, required,
};

/// Makes a collate form with its default options.
type MakeCollate = fn() -> Collate;

const FORMS: [(&str, MakeCollate); 3] =
    [("pad", Collate::pad), ("ragged", Collate::ragged), ("list", Collate::list)];

const PARAMS: &[ParamInfo] = &[
    required(
        "as",
        ParamKind::Word(&["pad", "ragged", "list"]),
        ParamValue::Word("pad"),
        "how the samples become a batch",
    ),
    optional("dtype", ParamKind::DType, "the elements that bytes are read as"),
    optional("inner", ParamKind::Ids, "the shape of an item: [4] for boxes"),
    optional("to", ParamKind::Whole, "maximum number of items per sample"),
    optional("to_size", ParamKind::Size, "maximum size of an image: [height, width]"),
    optional("to_multiple", ParamKind::Whole, "round padded sizes up to a multiple of this"),
    optional("truncate", ParamKind::Bool, "cut off what is larger"),
    optional("fill", ParamKind::Number, "padding value"),
];

/// Returns how each output of a `[collate]` table is collated.
pub(super) fn of_table(SpecTable(entries): SpecTable) -> Result<Vec<(String, Collate)>, SpecError> {
    entries.into_iter().map(|entry| Ok((entry.name.clone(), of_entry(entry)?))).collect()
}

/// Reads a table, or a single word that stands for `as`.
fn of_entry(SpecEntry { at, value, .. }: SpecEntry) -> Result<Collate, SpecError> {
    let table = value.into_table("as", at);
    OpArgs::with("collate", PARAMS, &table, at, of_args)
}

fn of_args(args: &OpArgs<'_>) -> Result<Collate, SpecError> {
    let mut collate = args.choice("as", &FORMS)?();
    let dtype = args.if_given("dtype", OpArgs::dtype)?;
    let inner = args.if_given("inner", OpArgs::ids)?;
    if dtype.is_some() || inner.is_some() {
        let inner = inner.unwrap_or_default().into_iter();
        let inner: Vec<usize> = inner.map(|n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        collate = collate.of(dtype.unwrap_or(DType::U8), &inner);
    }
    if let Some(most) = args.if_given("to", OpArgs::usize)? {
        collate = collate.to(most);
    }
    if let Some(most) = args.if_given("to_size", OpArgs::size)? {
        collate = collate.to_size(most);
    }
    if let Some(pixels) = args.if_given("to_multiple", OpArgs::usize)? {
        collate = collate.to_multiple(pixels);
    }
    if let Some(value) = args.if_given("fill", OpArgs::float)? {
        collate = collate.fill(value);
    }
    let cut = args.if_given("truncate", OpArgs::bool)?;
    Ok(if cut == Some(true) { collate.truncate() } else { collate })
}
