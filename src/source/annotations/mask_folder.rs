//! Two folders with the same names: images, and a mask for each.

use super::error::AnnotationError;
use super::{Annotated, Column, Parts};
use crate::sample::Limits;
use crate::source::{ClassNames, FieldKind};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Extensions of images.
const IMAGES: [&str; 3] = ["jpg", "jpeg", "png"];

/// Opens each image of a folder with the mask of the same name in another one.
pub(super) fn open(
    name: &Path,
    images: &Path,
    masks: &Path,
    limits: &Limits,
) -> Result<Annotated, AnnotationError> {
    let files = list(images, &IMAGES, limits)?;
    if files.is_empty() {
        let reason = "no .jpg, .jpeg or .png file found: expected an image for each mask";
        return Err(AnnotationError::damaged(images, reason));
    }
    let found = list(masks, &["png"], limits)?;
    let by_stem: BTreeMap<&str, &str> = found.iter().map(|mask| (stem(mask), &**mask)).collect();
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
        origins: vec![],
        limits: *limits,
    }))
}

/// Returns a path without its extension.
fn stem(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

/// Lists the files with these extensions in a folder and the folders in it, by the bytes of their paths. Links to
/// folders are not followed, and names that begin with a dot are left out.
fn list(
    root: &Path,
    extensions: &[&str],
    limits: &Limits,
) -> Result<Vec<Box<str>>, AnnotationError> {
    let mut dirs = vec![String::new()];
    let mut files: Vec<Box<str>> = vec![];
    while let Some(dir) = dirs.pop() {
        let path = root.join(&dir);
        for entry in fs::read_dir(&path).map_err(AnnotationError::io(&path))? {
            let entry = entry.map_err(AnnotationError::io(&path))?;
            let kind = entry.file_type().map_err(AnnotationError::io(&entry.path()))?;
            let name = entry.file_name().into_string().map_err(|name| {
                let reason = "the name is not UTF-8, as it must be in this format";
                AnnotationError::named(&path.join(name), reason)
            })?;
            if name.starts_with('.') {
                continue;
            }
            let name = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            if kind.is_dir() {
                dirs.push(name);
                continue;
            }
            let extension = name.rsplit_once('.').map(|(_, extension)| extension);
            let is_one =
                |extension: &str| extensions.iter().any(|e| extension.eq_ignore_ascii_case(e));
            if extension.is_some_and(is_one) {
                files.push(name.into_boxed_str());
            }
            if files.len() as u64 > limits.max_samples {
                let what = format!("more than {} images", limits.max_samples);
                return Err(AnnotationError::limit(root, what, limits.max_samples));
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}
