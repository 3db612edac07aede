//! Datasets in YOLO's format: a folder of images, and a text file with the objects of each.
//!
//! ```text
//! coco128/images/train2017/9.jpg    coco128/labels/train2017/9.txt    coco128/data.yaml
//! roboflow/train/images/a.jpg       roboflow/train/labels/a.txt       roboflow/data.yaml
//! set/1.jpg                         set/1.txt                         set/classes.txt
//! ```

use super::files::{self, TextFiles, by_stem, has_file, has_pair, list, stem};
use super::problems::{Problems, split_damaged};
use super::yolo_data::{DataFile, KeypointShape};
use super::yolo_text::{self, YoloObject};
use super::{Annotated, Parts, floats, ints};
use crate::error::{Error, ErrorKind, fail};
use crate::exif;
use crate::parallel;
use crate::sample::Limits;
use crate::source::columnar::{Texts, Values};
use crate::source::file::FileBytes;
use crate::source::image_header::ImageHeader;
use crate::source::image_names::listed;
use crate::source::image_size;
use crate::source::{ClassNames, KeypointLayout};
use fuseloop_ops::{BoxFormat, Size};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The folders of the images and of their labels.
const FOLDERS: [&str; 2] = ["images", "labels"];

/// The extension of a file of labels.
const TXT: &str = "txt";

/// The files that describe a dataset, or name its classes only.
const DATA: [&str; 2] = ["data.yaml", "data.yml"];
const CLASSES: &str = "classes.txt";

/// The beginnings of the names of the folders of splits.
const SPLITS: [&str; 3] = ["train", "val", "test"];

/// The folders above the images in which a dataset's description may be.
const MOST_ABOVE: usize = 2;

/// Options for opening a dataset in YOLO's format.
///
/// ```no_run
/// use fuseloop::source::{Annotated, YoloOptions};
///
/// let options = YoloOptions::default().class_names(["helmet", "vest"]);
/// let train = Annotated::yolo("images/train", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct YoloOptions {
    class_names: Option<Vec<String>>,
    keypoints: Option<[usize; 2]>,
    is_of_stored: bool,
    limits: Limits,
}

impl YoloOptions {
    /// Sets the names of the classes, in the order of their numbers. By default they are those of `names` in
    /// `data.yaml`, or the lines of `classes.txt`; without either file the classes are numbers only.
    #[must_use]
    pub fn class_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.class_names = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Declares that each object has this number of keypoints, of 2 values each, x and y, or 3: the visibility, too. By
    /// default this is `kpt_shape` of `data.yaml`.
    #[must_use]
    pub fn keypoints(mut self, points: usize, values: usize) -> Self {
        self.keypoints = Some([points, values]);
        self
    }

    /// Takes labels as fractions of the upright picture, if true, as Ultralytics does, or of the pixels as stored. The two
    /// differ for images with an EXIF orientation that exchanges rows and columns. Default true. A loader of such images
    /// needs the same [`exif_orientation`](crate::LoaderBuilder::exif_orientation).
    #[must_use]
    pub fn exif_orientation(mut self, upright: bool) -> Self {
        self.is_of_stored = !upright;
        self
    }

    /// Sets the limits on the files and on their number.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// Returns whether a folder has images and labels in this format. Folders of text beside images are common, so that
/// files beside each other also need a file that names the classes.
pub(super) fn is_folder(dir: &Path) -> bool {
    let (images, labels) = folders(dir);
    if images == labels {
        let described = DATA.iter().chain(&[CLASSES]).any(|name| dir.join(name).is_file());
        return described && (has_pair(dir, TXT) || !splits(dir).is_empty());
    }
    has_file(&labels, TXT)
}

/// Returns the folders of the images and of the labels of a dataset, which may be the same.
fn folders(root: &Path) -> (PathBuf, PathBuf) {
    let [images, labels] = FOLDERS.map(|name| root.join(name));
    if images.is_dir() && labels.is_dir() {
        return (images, labels);
    }
    let parts: Vec<Component<'_>> = root.components().collect();
    let is_images = |part: &Component<'_>| part.as_os_str() == FOLDERS[0];
    if let Some(at) = parts.iter().rposition(is_images) {
        let label = Component::Normal(FOLDERS[1].as_ref());
        let labels: PathBuf =
            parts.iter().enumerate().map(|(k, part)| if k == at { &label } else { part }).collect();
        if labels.is_dir() {
            return (root.to_owned(), labels);
        }
    }
    (root.to_owned(), root.to_owned())
}

/// Returns the folders of splits of which each is to be opened by itself.
fn splits(root: &Path) -> Vec<PathBuf> {
    let named = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let is_split = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            path.is_dir() && SPLITS.iter().any(|split| name.starts_with(split))
        };
        entries.map(|entry| entry.path()).filter(is_split).collect::<Vec<_>>()
    };
    let [images, labels] = FOLDERS;
    let mut found = if root.join(images).is_dir() && root.join(labels).is_dir() {
        named(&root.join(images))
    } else {
        let has_both = |path: &PathBuf| path.join(images).is_dir() && path.join(labels).is_dir();
        named(root).into_iter().filter(has_both).collect()
    };
    found.sort_unstable();
    found
}

/// Opens the images and the objects of a folder.
pub(super) fn open(root: &Path, options: &YoloOptions) -> Result<Annotated, Error> {
    let limits = &options.limits;
    let (images, labels) = folders(root);
    let splits = splits(root);
    if splits.len() > 1 || (images == labels && !splits.is_empty()) {
        return Err(fail!(
            Parameter,
            "the folder has {} splits: open one by its own path, such as {}",
            splits.len(),
            splits[0].display()
        )
        .at(root));
    }
    let texts = TextFiles::new(limits);
    let Description { names, shape, flip_pairs } = description(root, &labels, options, &texts)?;
    let files = files::images(&images, limits)?;
    if files.is_empty() {
        return Err(fail!(Format, "no {} file is in it", listed()).at(&images));
    }
    let origins = label_files(&files, &images, &labels, limits)?;
    let count = names.as_ref().map(Vec::len);
    let samples: Vec<(&str, Option<&PathBuf>)> =
        files.iter().map(|file| &**file).zip(origins.iter().map(Option::as_ref)).collect();
    let read = |&(file, path): &(&str, Option<&PathBuf>)| {
        let Some(path) = path else { return Ok(Ok(Objects::default())) };
        // What one file has wrong is not wrong with the others.
        let text = match texts.read(path) {
            Err(error) if error.kind() == ErrorKind::Format => {
                return Ok(Err(error.text().to_owned().into()));
            }
            text => text?,
        };
        let objects = match yolo_text::objects(&text, count, shape) {
            Ok(objects) if objects.is_empty() => return Ok(Ok(Objects::default())),
            Ok(objects) => objects,
            Err(problems) => return Ok(Err(problems)),
        };
        Ok(match size(&images.join(file), options) {
            Err(error) if error.kind() == ErrorKind::Format => Err(error.to_string().into()),
            size => Ok(Objects { size: size?, objects }),
        })
    };
    let read: Result<Vec<Result<Objects, Problems>>, Error> =
        parallel::map(&samples, read)?.into_iter().collect();
    let (objects, damaged) = split_damaged(read?, |sample| {
        let path = samples[sample].1;
        path.map_or(root, PathBuf::as_path)
    })?;
    let mut starts = vec![0];
    for of_image in &objects {
        starts.push(starts[starts.len() - 1] + of_image.objects.len());
    }
    let columns = columns(root, &objects, shape);
    let names = names.unwrap_or_default();
    // Fractions of a side are continuous coordinates: 0 is its beginning, and 1 its end.
    let layout = KeypointLayout { flip_pairs, is_continuous: true };
    Ok(Annotated::of(Parts {
        name: root.to_owned(),
        root: images,
        files,
        starts,
        columns,
        category_ids: (0..).take(names.len()).collect(),
        class_names: (0..).zip(names).collect::<ClassNames>(),
        sizes: objects.iter().map(|of_image| of_image.size).collect(),
        damaged,
        origins,
        boxes: Some(BoxFormat::Xyxy),
        keypoints: layout,
        limits: *limits,
        ..Parts::default()
    }))
}

/// The objects of an image, and the size that they are fractions of.
#[derive(Default)]
struct Objects {
    size: Size,
    objects: Vec<YoloObject>,
}

/// Returns the file of labels of each image that has one.
fn label_files(
    files: &[Box<str>],
    images: &Path,
    labels: &Path,
    limits: &Limits,
) -> Result<Vec<Option<PathBuf>>, Error> {
    by_stem(files, images)?;
    let found = list(labels, &[TXT], limits)?;
    let found: BTreeMap<&str, &str> = found.iter().map(|file| (stem(file), &**file)).collect();
    let path = |file: &str| found.get(stem(file)).map(|text| labels.join(text));
    let paths: Vec<Option<PathBuf>> = files.iter().map(|file| path(file)).collect();
    if paths.iter().all(Option::is_none) {
        let expected = labels.join(format!("{}.txt", stem(&files[0])));
        return Err(fail!(
            Format,
            "none of {} images has a file of labels: expected {}, and so on",
            files.len(),
            expected.display()
        )
        .at(images));
    }
    Ok(paths)
}

/// Returns the size that the labels of an image are fractions of.
fn size(path: &Path, options: &YoloOptions) -> Result<Size, Error> {
    let ImageHeader { size, orientation } = image_size::read(path, &options.limits)?;
    Ok(if options.is_of_stored { size } else { exif::upright_size(orientation, size) })
}

/// What is known of a dataset beside its labels.
struct Description {
    names: Option<Vec<String>>,
    shape: Option<KeypointShape>,
    flip_pairs: Vec<[usize; 2]>,
}

/// Returns the names of the classes and what the keypoints are, by the options or the files of the dataset.
fn description(
    root: &Path,
    labels: &Path,
    options: &YoloOptions,
    texts: &TextFiles<'_>,
) -> Result<Description, Error> {
    let above = |dir| Path::ancestors(dir).take(1 + MOST_ABOVE);
    let dirs: Vec<&Path> = above(root).chain(above(labels)).collect();
    let data = dirs.iter().flat_map(|dir| DATA.map(|name| dir.join(name)));
    let data_path = data.into_iter().find(|path| path.is_file());
    let data = match &data_path {
        None => DataFile::default(),
        Some(path) => DataFile::parse(&texts.read(path)?)
            .map_err(|reason| fail!(Format, "{reason}").at(path))?,
    };
    let listed =
        [root, labels].map(|dir| dir.join(CLASSES)).into_iter().find(|path| path.is_file());
    let names = match (&options.class_names, data.names, listed) {
        (Some(names), ..) => Some(names.clone()),
        (None, Some(names), _) => {
            if let Some(count) = data.class_count.filter(|count| *count != names.len()) {
                let found = names.len();
                return Err(fail!(
                    Format,
                    "`nc` is {count}, but `names` has {found} classes: correct the one that is wrong"
                )
                .at(data_path.as_deref().unwrap_or(root)));
            }
            Some(names)
        }
        (None, None, Some(path)) => {
            let text = texts.read(&path)?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            Some(lines.map(str::to_owned).collect())
        }
        (None, None, None) => None,
    };
    if let Some(names) = &names {
        let distinct: BTreeSet<&String> = names.iter().collect();
        if distinct.len() < names.len() {
            return Err(fail!(
                Parameter,
                "two classes have the same name: each needs one of its own"
            )
            .at(root));
        }
    }
    let shape = match options.keypoints {
        None => data.keypoints,
        Some([points, values]) => {
            let shape = KeypointShape::new(points, values);
            Some(shape.map_err(|reason| fail!(Parameter, "{reason}").at(root))?)
        }
    };
    let mut flip_pairs = data.flip_pairs;
    // The options may have another number of keypoints.
    flip_pairs
        .retain(|pair| pair.iter().all(|&point| shape.is_some_and(|shape| point < shape.points)));
    Ok(Description { names, shape, flip_pairs })
}

/// Returns the fields, with all coordinates in pixels.
fn columns(
    root: &Path,
    objects: &[Objects],
    shape: Option<KeypointShape>,
) -> Vec<(&'static str, Values)> {
    let all = || {
        objects.iter().flat_map(|Objects { size, objects }| {
            let sides = [size.width, size.height].map(f64::from);
            objects.iter().map(move |object| (sides, object))
        })
    };
    let sides = |([width, height], object): ([f64; 2], &YoloObject)| {
        let [left, top, right, bottom] = object.edges;
        [left * width, top * height, right * width, bottom * height].map(|side| side as f32)
    };
    let mut columns = vec![
        ("bbox", floats(4, all().flat_map(sides))),
        ("category_id", ints(all().map(|(_, object)| object.class))),
    ];
    if all().any(|(_, object)| !object.polygon.is_empty()) {
        let (mut text, mut ranges) = (String::new(), vec![]);
        for (size, object) in all() {
            let start = text.len() as u64;
            for (index, (&value, side)) in
                object.polygon.iter().zip(size.into_iter().cycle()).enumerate()
            {
                text.push_str(if index == 0 { "[[" } else { "," });
                // Writing to a string can't fail.
                let _ = write!(text, "{}", (value * side) as f32);
            }
            text.push_str(if object.polygon.is_empty() { "" } else { "]]" });
            ranges.push(start..text.len() as u64);
        }
        let bytes = FileBytes::InMemory(text.into_bytes().into());
        let texts = Texts { path: root.to_owned(), bytes, ranges };
        columns.push(("segmentation", Values::Lists(texts)));
    }
    if let Some(shape) = shape {
        let points = all().flat_map(|([width, height], object)| {
            object.keypoints.chunks_exact(3).flat_map(move |point| {
                [point[0] * width, point[1] * height, point[2]].map(|value| value as f32)
            })
        });
        columns.push(("keypoints", floats(3 * shape.points, points)));
    }
    columns
}
