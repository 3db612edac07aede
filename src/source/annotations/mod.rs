//! Images with annotated objects, as the tools that make them store them: boxes, classes, masks and keypoints.
//!
//! ```text
//! coco/annotations/instances_val2017.json ─▶ coco_json ─▶ coco ─▶ columns ─▶ Annotated: a Source
//! coco/val2017/*.jpg  ◀──────────────────────────────────────────────────────┘
//! VOC2012/Annotations/*.xml ─▶ voc_xml ─▶ voc ─▶ columns ─▶ Annotated
//! coco128/data.yaml, labels/**.txt ─▶ yolo_data, yolo_text ─▶ yolo ─▶ columns ─▶ Annotated
//! images/**.jpg, masks/**.png ─▶ mask_folder ─▶ Annotated
//! ```
//!
//! Opening a dataset reads its annotations, and no image but for the sizes that YOLO's fractions need. Columns are held
//! as the bytes that their values have, so that a value is borrowed. Masks are read from the file when they are asked
//! for.

mod coco;
mod coco_json;
mod coco_values;
mod files;
mod find;
mod mask_folder;
mod problems;
#[cfg(test)]
mod tests;
mod voc;
mod voc_xml;
mod xml_text;
mod yolo;
mod yolo_data;
mod yolo_text;

pub use coco::CocoOptions;
pub(super) use find::{is_file, is_folder};
use problems::Problems;
pub use voc::VocOptions;
pub use yolo::YoloOptions;

use super::columnar::{Column, Columnar, Damage, Files, Values};
use super::{
    BoxError, Buffer, ClassNames, Escaped, Facts, Fingerprint, KeypointLayout, NdType, ObjectField,
    ObjectFields, Record, SampleLocation, Source, StoredValues, Value,
};
use crate::error::Error;
use crate::sample::{Limits, SampleId};
use fuseloop_ops::{BoxFormat, Size};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The most objects of one image.
const MOST_OBJECTS: u64 = 10_000;

/// The most points of one object's polygons.
const MOST_POINTS: usize = 1_000_000;

/// The largest absolute value of a coordinate.
const FARTHEST: f64 = (1 << 20) as f64;

/// A dataset of images whose objects are annotated: one row for each object in each field but the image's own.
///
/// [COCO](Self::coco)'s fields are
///
/// | field | kind | value |
/// |---|---|---|
/// | `image` | image | the JPEG or PNG file |
/// | `image_id` | int | the image's id in the file; samples are in the order of these |
/// | `bbox` | bytes | f32 `[N, 4]`: x, y, width and height in pixels, as stored |
/// | `category_id` | bytes | i64 `[N]`: the class, from 0 in the order of the ids in the file |
/// | `area` | bytes | f32 `[N]`: as stored, or width x height of a box that has none |
/// | `iscrowd` | bytes | i64 `[N]`: 1 for a region of many objects |
/// | `annotation_id` | bytes | i64 `[N]`: the object's id in the file |
/// | `segmentation` | JSON | a list with COCO's value for each object, which [`ObjectMask`](crate::ObjectMask) reads; `null` without a mask. Only if an object has one |
/// | `keypoints` | bytes | f32 `[N, K, 3]`: x, y and visibility; zeros for an object without. Only if an object has some |
///
/// [Pascal VOC](Self::voc)'s fields are
///
/// | field | kind | value |
/// |---|---|---|
/// | `image` | image | the JPEG or PNG file; samples are in the order of the bytes of their paths |
/// | `bbox` | bytes | f32 `[N, 4]`: the left, top, right and bottom edge in pixels |
/// | `category_id` | bytes | i64 `[N]`: the class, from 0 in the order of the names |
/// | `difficult`, `truncated` | bytes | i64 `[N]`: as stored, or 0 |
///
/// [YOLO](Self::yolo)'s fields are
///
/// | field | kind | value |
/// |---|---|---|
/// | `image` | image | the JPEG or PNG file; samples are in the order of the bytes of their paths |
/// | `bbox` | bytes | f32 `[N, 4]`: the left, top, right and bottom edge in pixels |
/// | `category_id` | bytes | i64 `[N]`: the class |
/// | `segmentation` | JSON | a list with a polygon in pixels for each object, which [`ObjectMask`](crate::ObjectMask) reads; `null` for a box. Only if an object has one |
/// | `keypoints` | bytes | f32 `[N, K, 3]`: x and y in pixels, as continuous coordinates (`KeyPoints::continuous`), and visibility. Only if the dataset has some |
///
/// Bytes are little-endian. An image without objects has no rows. Boxes are not checked: an empty one is a box, too.
///
/// ```
/// use fuseloop::SampleId;
/// use fuseloop::source::{Annotated, CocoOptions, OwnedValue, Source};
///
/// # let dir = tempfile::tempdir()?;
/// # let (images, json) = (dir.path(), dir.path().join("instances.json"));
/// # std::fs::write(images.join("1.jpg"), [0xff, 0xd8])?;
/// # std::fs::write(&json, r#"{"images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 18, "name": "dog"}],
/// #   "annotations": [{"id": 7, "image_id": 1, "category_id": 18, "bbox": [1, 2, 30, 40]}]}"#)?;
/// let coco = Annotated::coco(images, &json, &CocoOptions::default())?;
/// assert_eq!(coco.facts().class_names()?.and_then(|names| Some(names.get(0)?.to_owned())), Some("dog".to_owned()));
/// assert_eq!(coco.category_ids(), [18]);
/// let record = coco.read(SampleId(0))?;
/// assert_eq!(record[3], OwnedValue::Bytes(0_i64.to_le_bytes().to_vec()));
/// # Ok::<(), fuseloop::source::BoxError>(())
/// ```
pub struct Annotated {
    columns: Columnar,
    category_ids: Vec<i64>,
}

/// What a dataset is made of.
#[derive(Default)]
struct Parts {
    name: PathBuf,
    root: PathBuf,
    files: Vec<Box<str>>,
    /// The index of the first object of each image, and the number of objects.
    starts: Vec<usize>,
    /// The values of the fields after the image.
    columns: Vec<(&'static str, Values)>,
    class_names: ClassNames,
    category_ids: Vec<i64>,
    /// The size of the picture that the annotations of each image are of; without pixels if it is not known. Empty if
    /// none is.
    sizes: Vec<Size>,
    /// True if the annotations have these sizes of their own.
    has_own_sizes: bool,
    /// What the annotations of samples have wrong.
    damaged: BTreeMap<u64, Problems>,
    /// The file of annotations of all images, the one of each image that has one, or none.
    origins: Vec<Option<PathBuf>>,
    /// The format of the field `bbox`, if there is one.
    boxes: Option<BoxFormat>,
    /// What is known of the field `keypoints`.
    keypoints: KeypointLayout,
    limits: Limits,
}

/// Returns a column with `each` numbers for each object.
fn floats(each: usize, values: impl Iterator<Item = f32>) -> Values {
    Values::Rows(4 * each, values.flat_map(f32::to_le_bytes).collect())
}

/// Returns a column with one number for each object.
fn ints(values: impl IntoIterator<Item = i64>) -> Values {
    Values::Rows(8, values.into_iter().flat_map(i64::to_le_bytes).collect())
}

impl Annotated {
    /// Opens images and their annotations in a JSON file of COCO's format. Paths in the file are relative to `images`.
    ///
    /// The file is read value by value, so that its size does not matter: what is held in memory is some 100 bytes for
    /// each object.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read, is not of this format, exceeds the limits, or if none of its annotations can be
    /// used. What one annotation has wrong is damage of its image: reading that sample fails, and the error names the
    /// annotation. So is a `width` or `height` that contradicts the image. Annotations of images that the file does not
    /// list are left out with a warning.
    pub fn coco(
        images: impl AsRef<Path>,
        annotations: impl AsRef<Path>,
        options: &CocoOptions,
    ) -> Result<Self, Error> {
        let images = |_: &str| Ok(images.as_ref().to_owned());
        coco::open(annotations.as_ref(), images, options)
    }

    /// Opens a folder in Pascal VOC's format: images in `JPEGImages`, and an XML file of the same name for each in
    /// `Annotations`. The folders may also be `images` and `annotations`, or the files be beside each other in `root`, as
    /// labelImg writes them. An image without an XML file is left out.
    ///
    /// ```
    /// use fuseloop::SampleId;
    /// use fuseloop::source::{Annotated, OwnedValue, Source, VocOptions};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let root = dir.path();
    /// # std::fs::write(root.join("1.jpg"), [0xff, 0xd8])?;
    /// # std::fs::write(root.join("1.xml"), "<annotation><object><name>dog</name><bndbox><xmin>48</xmin><ymin>240</ymin>
    /// #   <xmax>195</xmax><ymax>371</ymax></bndbox></object></annotation>")?;
    /// let voc = Annotated::voc(root, &VocOptions::default().class_names(["cat", "dog"]))?;
    /// let record = voc.read(SampleId(0))?;
    /// // The file has the pixels from 48 to 195, counted from 1: the edges are 47 and 195.
    /// let edges = [47.0_f32, 239.0, 195.0, 371.0].map(f32::to_le_bytes).concat();
    /// assert_eq!(record[1..3], [OwnedValue::Bytes(edges), OwnedValue::Bytes(1_i64.to_le_bytes().to_vec())]);
    /// # Ok::<(), fuseloop::source::BoxError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if a file can't be read or exceeds the limits, or if no XML file can be used. An XML file that is not of this
    /// format, that has no image or a size that contradicts it, or whose class is not one of those that `options` name, is
    /// damage of its sample: reading that fails, and the error names the file, the object and the element.
    pub fn voc(root: impl AsRef<Path>, options: &VocOptions) -> Result<Self, Error> {
        voc::open(root.as_ref(), options)
    }

    /// Opens a folder in YOLO's format, as Ultralytics and Roboflow write it: images in `images`, and a text file of the
    /// same name for each in `labels`. `root` has these two folders, or is a folder of images below `images`
    /// (`coco128/images/train2017`), or the files are beside each other in it. An image without a text file has no
    /// objects.
    ///
    /// A line is a box, `class cx cy w h`, or a class and the points of a polygon. Where `data.yaml` has a `kpt_shape`,
    /// the keypoints follow the box. A line of five numbers is a box even if others are polygons. Numbers are fractions
    /// of the image's size, which is read from its header, so that opening a dataset reads the beginning of each image.
    ///
    /// ```
    /// use fuseloop::SampleId;
    /// use fuseloop::source::{Annotated, OwnedValue, Source, YoloOptions};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let root = dir.path();
    /// # for folder in ["images", "labels"] { std::fs::create_dir(root.join(folder))?; }
    /// # let mut png = png::Encoder::new(std::fs::File::create(root.join("images/1.png"))?, 20, 10);
    /// # png.set_color(png::ColorType::Rgb);
    /// # png.write_header()?.write_image_data(&[0; 600])?;
    /// # std::fs::write(root.join("labels/1.txt"), "1 0.5 0.5 0.5 0.8")?;
    /// let yolo = Annotated::yolo(root, &YoloOptions::default().class_names(["cat", "dog"]))?;
    /// let record = yolo.read(SampleId(0))?;
    /// // The file has `1 0.5 0.5 0.5 0.8`, and the image is 20 pixels wide and 10 high.
    /// let edges = [5.0_f32, 1.0, 15.0, 9.0].map(f32::to_le_bytes).concat();
    /// assert_eq!(record[1..3], [OwnedValue::Bytes(edges), OwnedValue::Bytes(1_i64.to_le_bytes().to_vec())]);
    /// # Ok::<(), fuseloop::source::BoxError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if a file can't be read or exceeds the limits, or if no image has a text file that can be used. A line that is
    /// not of this format, and an image without a size in its header, are damage of their sample: reading that fails, and
    /// the error names the file and the lines. A folder of several splits is refused: each is opened by its own path.
    pub fn yolo(root: impl AsRef<Path>, options: &YoloOptions) -> Result<Self, Error> {
        yolo::open(root.as_ref(), options)
    }

    /// Opens the images in a folder, and for each a PNG of the same name in another folder: `images/a/1.jpg` and
    /// `masks/a/1.png`. The fields are `image` and `mask`; samples are in the order of the bytes of their paths. The
    /// values of a mask are numbers of classes: indices into the palette, or gray levels as stored.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, loader::Targets, ops::*, source::Annotated};
    ///
    /// let loader = Loader::from_source(Annotated::masks("train/images", "train/masks")?)
    ///     .targets("image", Targets::new().mask("mask", 255))
    ///     .batch_size(8)
    ///     .pipeline("image", ops![RandomResizedCrop::new(224)?])
    ///     .build()?;
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if a folder can't be listed, there is no image, or an image has no mask.
    pub fn masks(images: impl AsRef<Path>, masks: impl AsRef<Path>) -> Result<Self, Error> {
        let (images, masks) = (images.as_ref(), masks.as_ref());
        mask_folder::open(images, images, masks, &Limits::DEFAULT)
    }

    /// Opens a dataset by the path of its folder or its file of annotations.
    pub(super) fn open(path: &Path, limits: &Limits) -> Result<Self, Error> {
        find::open(path, limits)
    }

    fn of(parts: Parts) -> Self {
        let Parts { root, files, starts, origins, boxes, keypoints, class_names, .. } = parts;
        let objects = |(name, values): &(&'static str, Values)| {
            Some((*name, object_field(name, values, boxes)?))
        };
        let mut objects: ObjectFields = parts.columns.iter().filter_map(objects).collect();
        if objects.get("keypoints").is_some() {
            objects = objects.with_keypoints("keypoints", keypoints);
        }
        let objects = Some(objects).filter(|fields| fields.iter().len() > 0);
        let class_names = Some(class_names).filter(|names| names.iter().len() > 0);
        let images = Values::Files(Files::new(root.clone(), &files));
        let columns = [("image", images)].into_iter().chain(parts.columns);
        let columns = columns.map(|(name, values)| (name, Column::from(values))).collect();
        let columns = Columnar::new(columns, files.len() as u64, starts);
        let mut print = Fingerprint::default();
        print.text("annotations");
        print.fields(&columns.facts.fields);
        files.iter().for_each(|file| print.text(file));
        columns.starts.iter().for_each(|&start| print.number(start as u64));
        parts.damaged.keys().for_each(|&sample| print.number(sample));
        columns.hash_values(&mut print);
        // The files of annotations, then every image, then every mask.
        let mut columns = columns.with_paths(origins.iter().flatten().cloned().collect());
        columns.facts.name = Escaped(&parts.name.to_string_lossy()).to_string();
        columns.facts.fingerprint = print.value();
        columns.facts = columns
            .facts
            .with_class_names(move || Ok(class_names.clone()))
            .with_object_fields(move || Ok(objects.clone()));
        columns.origins = origins;
        let damage = |(sample, problems): (u64, Problems)| {
            let file = columns.origin(sample as usize).unwrap_or(&root).to_owned();
            (sample as usize, Damage { file, reason: problems.to_string(), key: None })
        };
        columns.damaged = parts.damaged.into_iter().map(damage).collect();
        columns.sizes = parts.sizes;
        columns.has_own_sizes = parts.has_own_sizes;
        columns.most_bytes = parts.limits.max_sample_bytes;
        Self { columns, category_ids: parts.category_ids }
    }

    /// Returns the ids that a COCO file has for the categories, by the number of their class. In other formats they are
    /// these numbers.
    #[must_use]
    pub fn category_ids(&self) -> &[i64] {
        &self.category_ids
    }

    /// Returns the number of annotated objects of all images.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.columns.starts.last().copied().unwrap_or_default() as u64
    }
}

/// Returns what a field of objects or masks is; `None` for other fields.
fn object_field(name: &str, values: &Values, boxes: Option<BoxFormat>) -> Option<ObjectField> {
    Some(match (name, values) {
        ("image_id", Values::Ints(_)) => ObjectField::ImageId,
        (_, Values::Lists(_)) => ObjectField::Segmentation,
        (_, Values::Files(_)) => ObjectField::Mask,
        ("bbox", Values::Rows(..)) => ObjectField::Boxes(boxes?),
        ("category_id", Values::Rows(..)) => ObjectField::Classes,
        ("keypoints", Values::Rows(row, _)) => ObjectField::Keypoints(*row as u64 / 12),
        (_, Values::Rows(4, _)) => ObjectField::Column(NdType::F32),
        (_, Values::Rows(..)) => ObjectField::Column(NdType::I64),
        _ => return None,
    })
}

impl Source for Annotated {
    fn facts(&self) -> &Facts {
        &self.columns.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.columns.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.columns.value(sample, field, buffer)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.columns.locate(sample, field)
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        self.columns.stored()
    }
}

/// Shows no files: there may be a million.
impl fmt::Debug for Annotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Annotated").field("facts", self.facts()).finish_non_exhaustive()
    }
}
