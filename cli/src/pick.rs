//! Chooses the samples and fields that are shown.

use super::problem::Problem;
use fuseloop::Loader;
use fuseloop::batch::TensorSpec;
use fuseloop::internals::source::Escaped;
use std::path::Path;

/// Returns at most `count` samples, spread over a file of `all` samples, because neighbours are often of
/// the same class.
pub(super) fn spread(count: u64, all: u64) -> Vec<u64> {
    let count = count.min(all);
    (0..count).map(|k| k * (all / count) + k * (all % count) / count).collect()
}

/// Returns the image outputs of the batches, in the file's order; also arrays of bytes with the ops of images.
pub(super) fn image_fields(loader: &Loader, path: &Path) -> Result<Vec<String>, Problem> {
    let tensors = loader.tensors();
    // The frames of clips are a tensor of their own name, and the image of their dataset.
    let loaded = |name: &str| {
        let is_so =
            |tensor: &&TensorSpec| tensor.name == name || tensor.alias.as_deref() == Some(name);
        tensors.iter().find(is_so).map(|tensor| tensor.name.clone())
    };
    let source = loader.source();
    let fields = source.fields().iter().enumerate();
    let names = fields.map(|(index, field)| (source.field_name(index), &field.kind));
    let images = names.filter_map(|(name, kind)| {
        let is_image = kind.is_image() || loader.image_output(Some(name)).is_ok();
        loaded(name).filter(|_| is_image)
    });
    let images: Vec<String> = images.collect();
    if images.is_empty() {
        return Err(Problem::NoImages { path: path.to_owned(), known: known(loader) });
    }
    Ok(images)
}

/// Returns the requested image field, or the first one.
pub(super) fn image_field(
    loader: &Loader,
    path: &Path,
    asked: Option<&str>,
) -> Result<String, Problem> {
    let mut fields = image_fields(loader, path)?;
    let Some(name) = asked else { return Ok(fields.remove(0)) };
    let source = loader.source();
    let asked = source.field_index(name);
    let names = asked.map(|field| [source.field_name(field), &*source.fields()[field].name]);
    let is_asked = |field: &&String| names.is_some_and(|names| names.contains(&field.as_str()));
    if let Some(asked) = fields.iter().find(is_asked) {
        return Ok(asked.clone());
    }
    let message = format!("no field named {name}; available: {}", fields.join(", "));
    Err(Problem::Refused { message, help: "`fuseloop info FILE` shows the file's fields" })
}

fn known(loader: &Loader) -> String {
    let fields = loader.source().fields().iter();
    fields.map(|field| Escaped(&field.name).to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_over_the_file() {
        assert_eq!(spread(3, 9), [0, 3, 6]);
        assert_eq!(spread(4, 10), [0, 2, 5, 7]);
        assert_eq!(spread(5, 2), [0, 1]);
        assert!(spread(5, 0).is_empty());
    }
}
