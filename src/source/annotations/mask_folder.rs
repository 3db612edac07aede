//! Two folders with the same names: images, and a mask for each.

use super::error::AnnotationError;
use super::files::{self, list, stem};
use super::{Annotated, Column, Parts};
use crate::sample::Limits;
use crate::source::image_names::{LISTED, MASK_EXTENSIONS};
use crate::source::{ClassNames, Escaped, FieldKind};
use crate::warnings::warn;
use std::collections::BTreeMap;
use std::path::Path;

/// Opens each image of a folder with the mask of the same name in another one.
pub(super) fn open(
    name: &Path,
    images: &Path,
    masks: &Path,
    limits: &Limits,
) -> Result<Annotated, AnnotationError> {
    let files = files::images(images, limits)?;
    if files.is_empty() {
        let reason = format!("no {LISTED} file found: expected an image for each mask");
        return Err(AnnotationError::damaged(images, reason));
    }
    let found = list(masks, MASK_EXTENSIONS, limits)?;
    let mut by_stem: BTreeMap<&str, &str> = BTreeMap::new();
    for mask in &found {
        if let Some(other) = by_stem.insert(stem(mask), mask) {
            let reason = format!("{other} and {mask} have the same name: each needs its own");
            return Err(AnnotationError::damaged(masks, reason));
        }
    }
    let mask = |image: &str| by_stem.get(stem(image)).map(|mask| Box::from(*mask));
    let missing: Vec<&str> =
        files.iter().map(|image| &**image).filter(|image| mask(image).is_none()).collect();
    if let Some(first) = missing.first() {
        let (count, first) = (missing.len(), masks.join(stem(first)));
        let reason = format!(
            "{count} of {} images have no mask: expected {}.png, and so on",
            files.len(),
            first.display()
        );
        return Err(AnnotationError::damaged(images, reason));
    }
    let without = found.len() - files.len();
    if without > 0 {
        let name = Escaped(&name.to_string_lossy()).to_string();
        warn(format_args!(
            "{name}: {without} of {} masks have no image, and are not read",
            found.len()
        ));
    }
    let masks_of_images = files.iter().filter_map(|image| mask(image)).collect();
    let mask = Column::Mask { root: masks.to_owned(), files: masks_of_images };
    Ok(Annotated::of(Parts {
        name: name.to_owned(),
        root: images.to_owned(),
        starts: vec![0; files.len() + 1],
        files,
        columns: vec![
            ("image", (FieldKind::RgbImage, Column::Image)),
            ("mask", (FieldKind::RgbImage, mask)),
        ],
        class_names: ClassNames::default(),
        category_ids: vec![],
        sizes: vec![],
        has_own_sizes: false,
        damaged: BTreeMap::new(),
        origins: vec![],
        limits: *limits,
    }))
}
