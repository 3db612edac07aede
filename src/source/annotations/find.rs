//! Finds the annotations of a folder, and the images of annotations, by their names.
//!
//! ```text
//! coco/annotations/instances_val2017.json    coco/val2017/ or coco/images/val2017/
//! set/annotations.json                       set/images/ or set/
//! train/_annotations.coco.json               train/
//! set/masks/                                 set/images/
//! DAVIS/Annotations/480p/bear/00000.png      DAVIS/JPEGImages/480p/bear/00000.jpg
//! ```
//!
//! `voc.rs` has the folders of Pascal VOC, and `yolo.rs` those of YOLO.

use super::Annotated;
use super::coco::{self, CocoOptions};
use super::voc::{self, VocOptions};
use super::yolo::{self, YoloOptions};
use super::{files, mask_folder};
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::Escaped;
pub(in crate::source) use crate::source::folder::is_annotations as is_file;
use crate::source::image_names::MASK_EXTENSIONS;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of COCO's files of annotations.
const ANNOTATIONS: &str = "annotations";

/// What the names of COCO's files of objects begin with.
const OBJECTS: [&str; 2] = ["instances_", "person_keypoints_"];

/// The name of the file that Roboflow puts beside the images.
const BESIDE: &str = "_annotations.coco.json";

/// The folders of images and of their masks.
const MASK_FOLDERS: [[&str; 2]; 2] = [["images", "masks"], ["JPEGImages", "Annotations"]];

/// The most folders that lie in one another above the masks of `Annotations`: DAVIS has a resolution and a video.
const MASK_DEPTH: usize = 2;

/// The most files of annotations that an error lists.
const MOST_LISTED: usize = 8;

/// Returns whether a folder has files of annotations beside the images that they are of.
pub(in crate::source) fn is_folder(dir: &Path) -> bool {
    mask_folders(dir).is_some()
        || !in_folder(dir).is_empty()
        || voc::is_folder(dir)
        || yolo::is_folder(dir)
}

/// Returns the folders of the images and of their masks of a dataset. Those of Pascal VOC have XML files for masks.
fn mask_folders(dir: &Path) -> Option<[PathBuf; 2]> {
    let [plain, videos] = MASK_FOLDERS.map(|pair| pair.map(|name| dir.join(name)));
    let are_folders = |pair: &[PathBuf; 2]| pair.iter().all(|folder| folder.is_dir());
    if are_folders(&plain) {
        return Some(plain);
    }
    let has_masks = are_folders(&videos)
        && files::has_file_below(&videos[1], MASK_EXTENSIONS, MASK_DEPTH)
        && !voc::is_folder(dir);
    has_masks.then_some(videos)
}

/// Refuses the folders of DAVIS if they have each video in several resolutions, such as `480p` and `1080p`.
fn check_resolutions(images: &Path, masks: &Path) -> Result<(), Error> {
    if !images.ends_with(MASK_FOLDERS[1][0]) {
        return Ok(());
    }
    let mut known = BTreeMap::new();
    for resolution in files::folders(images) {
        for video in files::folders(&images.join(&resolution)) {
            let Some(other) = known.insert(video.clone(), resolution.clone()) else { continue };
            return Err(fail!(
                Parameter,
                "the folders {other} and {resolution} both have {video}, as if they had the same videos in two resolutions: move \
                 one of them out of this folder, and out of {}",
                Escaped(&masks.to_string_lossy())
            )
            .at(images));
        }
    }
    Ok(())
}

/// Returns the files of annotations in a folder whose images seem to be there, too, in the order of their names.
fn in_folder(dir: &Path) -> Vec<PathBuf> {
    if dir.join(BESIDE).is_file() {
        return vec![dir.join(BESIDE)];
    }
    let entries = fs::read_dir(dir.join(ANNOTATIONS)).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| is_file(path));
    let mut files: Vec<PathBuf> = files
        .filter(|path| {
            OBJECTS.iter().any(|prefix| name_of(path).starts_with(prefix))
                && folders(path).iter().take(2).any(|folder| folder.is_dir())
        })
        .collect();
    files.sort_unstable();
    files
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the folders where the images of a file of annotations may be, the most likely first.
fn folders(path: &Path) -> Vec<PathBuf> {
    let own = path.parent().unwrap_or(Path::new("")).to_owned();
    let above = own.join("..");
    let name = name_of(path);
    let split = OBJECTS.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(&name);
    vec![
        above.join(split),
        above.join("images").join(split),
        own.join(split),
        own.join("images").join(split),
        above.join("images"),
        own.join("images"),
        above,
        own,
    ]
}

/// Opens a dataset by the path of its folder or its file of annotations.
pub(super) fn open(path: &Path, limits: &Limits) -> Result<Annotated, Error> {
    if path.is_dir() && in_folder(path).is_empty() {
        if let Some([images, masks]) = mask_folders(path) {
            check_resolutions(&images, &masks)?;
            return mask_folder::open(path, &images, &masks, limits);
        }
        if !voc::is_folder(path) && yolo::is_folder(path) {
            return yolo::open(path, &YoloOptions::default().limits(*limits));
        }
        return voc::open(path, &VocOptions::default().limits(*limits));
    }
    let file = if path.is_dir() { only(path)? } else { path.to_owned() };
    let options = CocoOptions::default().limits(*limits);
    let images = |first: &str| {
        let folders = folders(&file);
        let found = folders.iter().find(|folder| folder.join(first).is_file());
        found.cloned().ok_or_else(|| {
            let tried: Vec<_> =
                folders.iter().map(|folder| folder.join(first).display().to_string()).collect();
            fail!(
                Parameter,
                "the images are not found: expected {}; a program can name their folder in `Annotated::coco`",
                tried.join(" or ")
            )
            .at(&file)
        })
    };
    coco::open(&file, images, &options)
}

/// Returns the only file of annotations of a folder.
fn only(dir: &Path) -> Result<PathBuf, Error> {
    let mut files = in_folder(dir);
    if files.len() == 1 {
        return Ok(files.remove(0));
    }
    let listed: Vec<_> =
        files.iter().take(MOST_LISTED).map(|file| file.display().to_string()).collect();
    Err(fail!(
        Parameter,
        "the folder has {} files of annotations: open one by its own path, such as {}",
        files.len(),
        listed.join(" or ")
    )
    .at(dir))
}
