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
mod image_size;
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

use super::file::FileBytes;
use super::folder::read_file;
use super::image_header::ImageHeader;
use super::{
    BoxError, Buffer, ClassNames, EncodedImage, Escaped, Facts, FieldKind, FieldSpec, Fingerprint,
    ImageMode, KeypointLayout, NdType, ObjectField, ObjectFields, OwnedValue, Record,
    SampleLocation, Source, StoredValues, Value,
};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::{Limits, SampleId};
use crate::source::error::{no_such_field, no_such_sample, too_long};
use fuseloop_ops::{BoxFormat, Size};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

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
    facts: OnceLock<Facts>,
    name: String,
    /// The folder that the paths of the images are relative to.
    root: PathBuf,
    files: Arc<[Box<str>]>,
    /// The index of the first object of each image, and the number of objects.
    starts: Vec<usize>,
    fields: Vec<FieldSpec>,
    columns: Vec<Column>,
    class_names: ClassNames,
    category_ids: Vec<i64>,
    /// The size of the picture that the annotations of each image are of; without pixels if it is not known. Empty if
    /// none is.
    sizes: Vec<Size>,
    /// True if the annotations have these sizes of their own, so that they may contradict their images.
    has_own_sizes: bool,
    /// What the annotations of samples have wrong: these can't be read.
    damaged: BTreeMap<u64, Problems>,
    /// The format of the field `bbox`, if there is one.
    boxes: Option<BoxFormat>,
    /// What is known of the field `keypoints`.
    keypoints: KeypointLayout,
    /// The file of annotations of all images, the one of each image that has one, or none.
    origins: Vec<Option<PathBuf>>,
    limits: Limits,
    print: u64,
}

/// What a dataset is made of.
struct Parts {
    name: PathBuf,
    root: PathBuf,
    files: Vec<Box<str>>,
    starts: Vec<usize>,
    columns: Vec<(&'static str, (FieldKind, Column))>,
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
    limits: Limits,
}

/// The values of a field.
enum Column {
    /// The images themselves.
    Image,
    /// Another file for each image, by its path in a folder.
    Mask { root: PathBuf, files: Arc<[Box<str>]> },
    /// One number for each image.
    Ints(Vec<i64>),
    /// `row` bytes for each object.
    Rows { row: usize, bytes: Vec<u8> },
    /// A list of JSON texts for each image, with one text for each object.
    Json(Texts),
}

/// JSON texts in a file, one for each object.
struct Texts {
    path: PathBuf,
    bytes: FileBytes,
    /// Where the texts are. An empty range stands for `null`.
    ranges: Vec<Range<u64>>,
}

/// Returns a column with `each` numbers for each object.
fn floats(each: usize, values: impl Iterator<Item = f32>) -> (FieldKind, Column) {
    let bytes = values.flat_map(f32::to_le_bytes).collect();
    (FieldKind::Bytes, Column::Rows { row: 4 * each, bytes })
}

/// Returns a column with one number for each object.
fn ints(values: impl IntoIterator<Item = i64>) -> (FieldKind, Column) {
    let bytes = values.into_iter().flat_map(i64::to_le_bytes).collect();
    (FieldKind::Bytes, Column::Rows { row: 8, bytes })
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
        let Parts { name, root, files, starts, columns, .. } = parts;
        let field = |(name, (kind, _)): &(&str, (FieldKind, Column))| FieldSpec {
            name: (*name).to_owned(),
            kind: kind.clone(),
        };
        let fields: Vec<FieldSpec> = columns.iter().map(field).collect();
        let columns: Vec<Column> = columns.into_iter().map(|(_, (_, column))| column).collect();
        let mut print = Fingerprint::default();
        print.text("annotations");
        print.fields(&fields);
        files.iter().for_each(|file| print.text(file));
        starts.iter().for_each(|&start| print.number(start as u64));
        parts.damaged.keys().for_each(|&sample| print.number(sample));
        for column in &columns {
            if let Column::Rows { bytes, .. } = column {
                print.bytes(bytes);
            }
        }
        Self {
            facts: OnceLock::new(),
            name: Escaped(&name.to_string_lossy()).to_string(),
            root,
            files: files.into(),
            starts,
            fields,
            columns,
            class_names: parts.class_names,
            category_ids: parts.category_ids,
            sizes: parts.sizes,
            has_own_sizes: parts.has_own_sizes,
            damaged: parts.damaged,
            boxes: None,
            keypoints: KeypointLayout::default(),
            origins: parts.origins,
            limits: parts.limits,
            print: print.value(),
        }
    }

    /// Sets the format of the boxes in the field `bbox`.
    fn with_boxes(self, format: BoxFormat) -> Self {
        Self { boxes: Some(format), ..self }
    }

    /// Sets what is known of the field `keypoints`.
    fn with_keypoints(self, keypoints: KeypointLayout) -> Self {
        Self { keypoints, ..self }
    }

    /// Returns what a field of objects or masks is; `None` for other fields.
    fn object_field(&self, name: &str, column: &Column) -> Option<ObjectField> {
        Some(match (name, column) {
            ("image_id", Column::Ints(_)) => ObjectField::ImageId,
            (_, Column::Json(_)) => ObjectField::Segmentation,
            (_, Column::Mask { .. }) => ObjectField::Mask,
            ("bbox", Column::Rows { .. }) => ObjectField::Boxes(self.boxes?),
            ("category_id", Column::Rows { .. }) => ObjectField::Classes,
            ("keypoints", Column::Rows { row, .. }) => ObjectField::Keypoints(*row as u64 / 12),
            (_, Column::Rows { row: 4, .. }) => ObjectField::Column(NdType::F32),
            (_, Column::Rows { .. }) => ObjectField::Column(NdType::I64),
            _ => return None,
        })
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
        self.starts.last().copied().unwrap_or_default() as u64
    }

    /// Returns the path of a sample's image in the dataset.
    fn file(&self, sample: SampleId) -> Option<&str> {
        self.files.get(usize::try_from(sample.0).ok()?).map(|file| &**file)
    }

    /// Returns the file of the annotations of a sample.
    fn origin(&self, sample: SampleId) -> Option<&Path> {
        let own = self.origins.get(sample.0 as usize).or(self.origins.first());
        own.and_then(Option::as_deref)
    }

    /// Refuses a sample whose annotations are damaged.
    fn check(&self, sample: SampleId) -> Result<(), Error> {
        let Some(problems) = self.damaged.get(&sample.0) else { return Ok(()) };
        let path = self.origin(sample).unwrap_or(&self.root);
        Err(fail!(Format, "{problems}").at(path))
    }

    /// Refuses an image of another size than its annotations have. A header that can't be read is refused where the image
    /// is decoded.
    fn check_size(&self, sample: SampleId, image: &[u8]) -> Result<(), Error> {
        let Some(annotated) =
            StoredValues::annotated_size(self, sample).filter(|_| self.has_own_sizes)
        else {
            return Ok(());
        };
        let Ok(header) = ImageHeader::parse(image) else { return Ok(()) };
        if header.is_of(annotated) {
            return Ok(());
        }
        let size = header.size;
        let path = self.origin(sample).unwrap_or(&self.root);
        let file = self.file(sample).unwrap_or_default();
        Err(fail!(
            Format,
            "the annotations of {file} are of an image of width {} and height {}, and it has width {} and height {}: correct \
             the size, or annotate this image (boxes that are drawn on another size lie elsewhere)",
            annotated.width,
            annotated.height,
            size.width,
            size.height
        )
        .at(path))
    }

    /// Returns the objects of a sample that exists.
    fn objects_of(&self, sample: SampleId) -> Range<usize> {
        let index = sample.0 as usize;
        self.starts[index]..self.starts[index + 1]
    }
}

impl Texts {
    /// Writes a list of texts to `bytes`, with the final NUL that JSON has in a dataset.
    fn list(&self, objects: Range<usize>, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        bytes.push(b'[');
        for (index, range) in self.ranges[objects].iter().enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            if range.is_empty() {
                bytes.extend(b"null");
                continue;
            }
            let start = bytes.len();
            let read = self.bytes.append(range.start, range.end - range.start, bytes);
            read.at(&self.path)?;
            // The text was read once, so that it can only differ if the file does.
            let text = bytes[start..].trim_ascii();
            if !matches!(text, [b'[', .., b']'] | [b'{', .., b'}']) {
                return Err(fail!(
                    Damaged,
                    "the file has changed since it was opened: open it again"
                )
                .at(&self.path)
                .byte(range.start));
            }
        }
        bytes.extend(b"]\0");
        Ok(())
    }

    /// Returns the size of the list of these objects.
    fn size(&self, objects: Range<usize>) -> u64 {
        let of = |range: &Range<u64>| if range.is_empty() { 4 } else { range.end - range.start };
        let texts: u64 = self.ranges[objects.clone()].iter().map(of).sum();
        texts + 3 + objects.len().saturating_sub(1) as u64
    }
}

impl Source for Annotated {
    fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| self.found_facts())
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let mut buffer = Buffer::default();
        let fields = 0..self.columns.len();
        fields.map(|k| Ok(OwnedValue::from(self.value(sample, k, &mut buffer)?))).collect()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let no_sample = || no_such_sample(self.files.len() as u64);
        let no_field = || no_such_field(self.columns.len());
        let file = self.file(sample).ok_or_else(no_sample)?;
        let objects = self.objects_of(sample);
        let bytes = &mut buffer.bytes;
        self.check(sample)?;
        let image = |path: PathBuf, bytes: &'a mut Vec<u8>, is_annotated: bool| {
            let read = read_file(&path, self.limits.max_sample_bytes, bytes);
            read.at(&path)?;
            if is_annotated {
                self.check_size(sample, bytes)?;
            }
            let (mode, bytes) = (ImageMode::of_file(bytes), &bytes[..]);
            Ok(Value::Image(EncodedImage { mode, width: 0, height: 0, bytes }))
        };
        match self.columns.get(field).ok_or_else(no_field)? {
            Column::Image => image(self.root.join(file), bytes, true),
            Column::Mask { root, files } => {
                image(root.join(&*files[sample.0 as usize]), bytes, false)
            }
            Column::Ints(values) => Ok(Value::Int(values[sample.0 as usize])),
            Column::Rows { row, bytes } => {
                Ok(Value::Bytes(&bytes[objects.start * row..objects.end * row]))
            }
            Column::Json(texts) => {
                let (size, max) = (texts.size(objects.clone()), self.limits.max_sample_bytes);
                if size > max {
                    return Err(too_long(size, max).into());
                }
                texts.list(objects, bytes)?;
                Ok(Value::Json(bytes))
            }
        }
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let key = self.file(sample)?;
        let image = self.root.join(key);
        let masked;
        let file = match self.columns.get(field)? {
            Column::Image => image.as_path(),
            Column::Mask { root, files } => {
                masked = root.join(&*files[sample.0 as usize]);
                masked.as_path()
            }
            Column::Ints(_) | Column::Rows { .. } | Column::Json(_) => {
                self.origin(sample).unwrap_or(&image)
            }
        };
        let damaged = self.damaged.contains_key(&sample.0);
        let file = self.origin(sample).filter(|_| damaged).unwrap_or(file);
        Some(SampleLocation::in_file(file.to_string_lossy(), Some(key.into())))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for Annotated {
    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        let size = self.sizes.get(usize::try_from(sample.0).ok()?).copied();
        size.filter(|size| size.pixels() > 0)
    }
}

impl Annotated {
    fn found_facts(&self) -> Facts {
        let longest: Vec<Option<u64>> =
            self.columns.iter().map(|column| self.longest_of(column)).collect();
        let names = Some(&self.class_names).filter(|names| names.iter().len() > 0).cloned();
        let fields = self.fields.iter().zip(&self.columns).filter_map(|(spec, column)| {
            Some((&*spec.name, self.object_field(&spec.name, column)?))
        });
        let mut objects: ObjectFields = fields.collect();
        if objects.get("keypoints").is_some() {
            objects = objects.with_keypoints("keypoints", self.keypoints.clone());
        }
        let objects = Some(objects).filter(|fields| fields.iter().len() > 0);
        let masks = self.columns.iter().filter_map(|column| match column {
            Column::Mask { root, files } => Some((root.clone(), Arc::clone(files))),
            _ => None,
        });
        let pictures = (self.root.clone(), Arc::clone(&self.files));
        let files: Vec<(PathBuf, Arc<[Box<str>]>)> = [pictures].into_iter().chain(masks).collect();
        let origins = self.origins.clone();
        Facts {
            name: self.name.clone(),
            rereads_cheaply: true,
            fingerprint: self.print,
            ..Facts::new(self.fields.clone(), self.files.len() as u64)
        }
        .with_longest(move |field| *longest.get(field)?)
        .with_class_names(move || Ok(names.clone()))
        .with_object_fields(move || Ok(objects.clone()))
        // The files of annotations, then every image, then every mask.
        .with_paths(move || {
            let files = files.clone().into_iter().flat_map(|(root, files)| {
                (0..files.len()).map(move |index| root.join(&*files[index]))
            });
            let origins: Vec<PathBuf> = origins.iter().flatten().cloned().collect();
            Box::new(origins.into_iter().chain(files))
        })
    }

    /// Returns the size of a column's longest value.
    fn longest_of(&self, column: &Column) -> Option<u64> {
        let samples = (0..self.files.len() as u64).map(|sample| self.objects_of(SampleId(sample)));
        match column {
            Column::Image | Column::Mask { .. } | Column::Ints(_) => None,
            Column::Rows { row, .. } => samples.map(|objects| (objects.len() * row) as u64).max(),
            Column::Json(texts) => samples.map(|objects| texts.size(objects)).max(),
        }
    }
}

/// Shows no files: there may be a million.
impl fmt::Debug for Annotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Annotated");
        shown.field("name", &self.name).field("len", &self.files.len()).finish_non_exhaustive()
    }
}
