//! Two folders with the same names: images, and a mask for each.

use super::files::{self, by_stem, list, stem};
use super::{Annotated, Parts};
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::Escaped;
use crate::source::columnar::{Files, Values};
use crate::source::image_names::{MASK_EXTENSIONS, listed};
use crate::warnings::warn;
use std::path::Path;

/// Opens each image of a folder with the mask of the same name in another one.
pub(super) fn open(
    name: &Path,
    images: &Path,
    masks: &Path,
    limits: &Limits,
) -> Result<Annotated, Error> {
    let files = files::images(images, limits)?;
    if files.is_empty() {
        return Err(
            fail!(Format, "no {} file found: expected an image for each mask", listed()).at(images)
        );
    }
    // Two images would share a mask.
    by_stem(&files, images)?;
    let found = list(masks, MASK_EXTENSIONS, limits)?;
    let by_stem = by_stem(&found, masks)?;
    let mask = |image: &str| by_stem.get(stem(image)).map(|mask| Box::from(*mask));
    let missing: Vec<&str> =
        files.iter().map(|image| &**image).filter(|image| mask(image).is_none()).collect();
    if let Some(first) = missing.first() {
        let (count, first) = (missing.len(), masks.join(stem(first)));
        return Err(fail!(
            Format,
            "{count} of {} images have no mask: expected {}.png, and so on",
            files.len(),
            first.display()
        )
        .at(images));
    }
    let without = found.len() - files.len();
    if without > 0 {
        let name = Escaped(&name.to_string_lossy()).to_string();
        warn(format_args!(
            "{name}: {without} of {} masks have no image, and are not read",
            found.len()
        ));
    }
    let masks_of_images: Vec<Box<str>> = files.iter().filter_map(|image| mask(image)).collect();
    let mask = Values::Files(Files::new(masks.to_owned(), &masks_of_images));
    Ok(Annotated::of(Parts {
        name: name.to_owned(),
        root: images.to_owned(),
        starts: vec![0; files.len() + 1],
        files,
        columns: vec![("mask", mask)],
        limits: *limits,
        ..Parts::default()
    }))
}
