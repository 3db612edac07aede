//! The lists of images that become images, as data: see [`ImageList`].
//!
//! ```toml
//! [image_lists]
//! images = 4                  # the maximum alone
//! views = { max = 8, truncate = true, per_image = true }
//! ```
//!
//! | name | default | what it is |
//! |---|---|---|
//! | `max` | required | the most images of a sample |
//! | `truncate` | false | whether longer lists are truncated |
//! | `per_image` | false | whether ops draw for each image |

use crate::loader::ImageList;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecEntry, SpecError, SpecTable, optional, required,
};

const PARAMS: &[ParamInfo] = &[
    required("max", ParamKind::Whole, ParamValue::Int(4), "the most images of a sample"),
    optional("truncate", ParamKind::Bool, "truncate longer lists"),
    optional("per_image", ParamKind::Bool, "draw for each image"),
];

/// Returns the lists of the fields of an `[image_lists]` table.
pub(super) fn of_table(
    SpecTable(entries): SpecTable,
) -> Result<Vec<(String, ImageList)>, SpecError> {
    entries.into_iter().map(|entry| Ok((entry.name.clone(), of_entry(entry)?))).collect()
}

/// Reads a table, or a single number that stands for `max`.
fn of_entry(SpecEntry { at, value, .. }: SpecEntry) -> Result<ImageList, SpecError> {
    let table = value.into_table("max", at);
    OpArgs::with("image_lists", PARAMS, &table, at, of_args)
}

fn of_args(args: &OpArgs<'_>) -> Result<ImageList, SpecError> {
    let mut list = ImageList::new(args.usize("max")?);
    if args.if_given("truncate", OpArgs::bool)? == Some(true) {
        list = list.truncate();
    }
    Ok(list.per_image(args.if_given("per_image", OpArgs::bool)?.unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    #[test]
    fn an_entry_is_a_number_or_a_table() {
        let text =
            "[image_lists]\nimages = 4\nviews = { max = 8, truncate = true, per_image = true }";
        let spec: Spec = text.parse().unwrap();
        let views = ImageList::new(8).truncate().per_image(true);
        let expected = vec![("images".to_owned(), ImageList::new(4)), ("views".to_owned(), views)];
        assert_eq!(spec.settings().image_lists, Some(expected));
        let refused = |text: &str| text.parse::<Spec>().unwrap_err().to_string();
        assert!(refused("[image_lists]\nimages = { truncate = true }").contains("max"));
        assert!("[image_lists]\nimages = \"many\"".parse::<Spec>().is_err());
    }
}
