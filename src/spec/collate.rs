//! How samples that differ in size become a batch, as data: see [`Collate`].
//!
//! ```toml
//! [collate]
//! image = "pad"               # the form alone
//! text = { as = "pad", dtype = "i64", to = 512, truncate = true, with = -100 }
//! boxes = { as = "ragged", dtype = "f32", inner = [4] }
//! ```
//!
//! | name | default | what it is |
//! |---|---|---|
//! | `as` | required | `"pad"`, `"ragged"` or `"list"` |
//! | `dtype`, `inner` | `"u8"`, `[]` | what bytes are read as: [`Collate::of`] |
//! | `to` | the dataset's longest | most items of a sample |
//! | `to_size` | the batch's largest | most pixels of a picture: a number, or `[height, width]` |
//! | `truncate` | false | whether what is larger is cut off |
//! | `with` | 0 | what is padded with |

use crate::loader::Collate;
use fuseloop_ops::DType;
use fuseloop_ops::registry::{
    Args, Datum, Entry, Kind, ParamInfo, Preset, SpecError, Table, maybe, required,
};

/// A way to collate, as it comes.
type MakeCollate = fn() -> Collate;

const FORMS: [(&str, MakeCollate); 3] =
    [("pad", Collate::pad), ("ragged", Collate::ragged), ("list", Collate::list)];

const PARAMS: &[ParamInfo] = &[
    required(
        "as",
        Kind::Word(&["pad", "ragged", "list"]),
        Preset::Word("pad"),
        "how the samples become a batch",
    ),
    maybe("dtype", Kind::DType, "the elements that bytes are read as"),
    maybe("inner", Kind::Ids, "the shape of an item: [4] for boxes"),
    maybe("to", Kind::Whole, "most items of a sample"),
    maybe("to_size", Kind::Size, "most pixels of a picture"),
    maybe("truncate", Kind::Bool, "whether what is larger is cut off"),
    maybe("with", Kind::Number, "what is padded with"),
];

/// How each output of a `[collate]` table is collated.
pub(super) fn of_table(Table(entries): Table) -> Result<Vec<(String, Collate)>, SpecError> {
    entries.into_iter().map(|entry| Ok((entry.name.clone(), of_entry(entry)?))).collect()
}

/// A table, or what stands for its `as`.
fn of_entry(Entry { at, value, .. }: Entry) -> Result<Collate, SpecError> {
    let table = match value.datum {
        Datum::Table(table) => table,
        _ => Table(vec![Entry { name: "as".to_owned(), at, value }]),
    };
    Args::with("collate", PARAMS, &table, at, of_args)
}

fn of_args(args: &Args<'_>) -> Result<Collate, SpecError> {
    let mut collate = args.choice("as", &FORMS)?();
    let dtype = args.if_given("dtype", Args::dtype)?;
    let inner = args.if_given("inner", Args::ids)?;
    if dtype.is_some() || inner.is_some() {
        let inner = inner.unwrap_or_default().into_iter();
        let inner: Vec<usize> = inner.map(|n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        collate = collate.of(dtype.unwrap_or(DType::U8), &inner);
    }
    if let Some(most) = args.if_given("to", Args::usize)? {
        collate = collate.to(most);
    }
    if let Some(most) = args.if_given("to_size", Args::size)? {
        collate = collate.to_size(most.height, most.width);
    }
    if let Some(value) = args.if_given("with", Args::float)? {
        collate = collate.with(value);
    }
    let cut = args.if_given("truncate", Args::bool)?;
    Ok(if cut == Some(true) { collate.truncate() } else { collate })
}
