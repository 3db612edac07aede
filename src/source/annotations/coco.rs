//! Datasets in COCO's format: a folder of images, and one JSON file with the objects of all of them.

use super::coco_json::{self, CocoImage, CocoJson, CocoObject};
use super::error::AnnotationError;
use super::{Annotated, Column, MOST_OBJECTS, Parts, Texts, floats, ints};
use crate::sample::Limits;
use crate::source::file::FileBytes;
use crate::source::{ClassNames, FieldKind};
use fuseloop_ops::BoxFormat;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Options for opening a dataset in COCO's format.
///
/// ```no_run
/// use fuseloop::source::{Annotated, CocoOptions};
///
/// let options = CocoOptions::default().skip_crowds(true).without_empty(true);
/// let train = Annotated::coco("train2017", "instances_train2017.json", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CocoOptions {
    skip_crowds: bool,
    without_empty: bool,
    keep_category_ids: bool,
    limits: Limits,
}

impl CocoOptions {
    /// Leaves out the objects with `iscrowd`, which are regions of many, if true. Off by default.
    #[must_use]
    pub fn skip_crowds(mut self, skip: bool) -> Self {
        self.skip_crowds = skip;
        self
    }

    /// Leaves out the images in which no box has both sides longer than 1 pixel, if true, as torchvision's training
    /// references do. Only objects that are not left out count. Off by default: an image without objects has no
    /// rows.
    #[must_use]
    pub fn without_empty(mut self, without: bool) -> Self {
        self.without_empty = without;
        self
    }

    /// Keeps the numbers that the file gives to categories, if true. By default they are numbered from 0 in the order
    /// of their ids, because those have gaps: COCO's 80 categories have ids from 1 to 90.
    #[must_use]
    pub fn keep_category_ids(mut self, keep: bool) -> Self {
        self.keep_category_ids = keep;
        self
    }

    /// Sets the limits on the files and on their number.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// Opens the images and the objects of a file. `images` chooses the folder of the images, by the path of the first.
pub(super) fn open(
    path: &Path,
    images: impl FnOnce(&str) -> Result<PathBuf, AnnotationError>,
    options: &CocoOptions,
) -> Result<Annotated, AnnotationError> {
    let mut json = coco_json::read(path, &options.limits)?;
    let categories = std::mem::take(&mut json.categories);
    let classes = Classes::of(path, categories, options.keep_category_ids)?;
    let order = Order::of(path, &mut json, options)?;
    let first = order.images.first().map(|image| &*image.file_name);
    let first = first.ok_or_else(|| AnnotationError::damaged(path, "no image is listed"))?;
    let root = images(first)?;
    let all = || order.objects.iter().map(|&index| &json.annotations[index]);
    let mut labels = vec![];
    for object in all() {
        let CocoObject { id, image_id, category_id, .. } = object;
        let label = classes.numbers.get(category_id).ok_or_else(|| {
            let reason = format!(
                "annotation {id} of image {image_id}: category {category_id} is not among the {} of `categories`",
                classes.numbers.len()
            );
            AnnotationError::damaged(path, reason)
        })?;
        labels.push(*label);
    }
    let has_masks = all().any(|object| !object.segmentation.is_empty());
    let image_ids = order.images.iter().map(|image| image.id).collect();
    let mut columns = vec![
        ("image", (FieldKind::RgbImage, Column::Image)),
        ("image_id", (FieldKind::Int, Column::Ints(image_ids))),
        ("bbox", floats(4, all().flat_map(|object| object.bbox))),
        ("category_id", ints(labels)),
        ("area", floats(1, all().map(|object| object.area))),
        ("iscrowd", ints(all().map(|object| object.is_crowd))),
        ("annotation_id", ints(all().map(|object| object.id))),
    ];
    if has_masks {
        let bytes = FileBytes::open(path).map_err(AnnotationError::io(path))?;
        let ranges = all().map(|object| object.segmentation.clone()).collect();
        let texts = Texts { path: path.to_owned(), bytes, ranges };
        columns.push(("segmentation", (FieldKind::Json, Column::Json(texts))));
    }
    if let Some(count) = json.keypoint_values {
        let none = vec![0.0; count];
        let keypoints = all().flat_map(|object| match object.keypoints {
            Some(start) => &json.keypoints[start..start + count],
            None => &none[..],
        });
        columns.push(("keypoints", floats(count, keypoints.copied())));
    }
    let sizes = order.images.iter().map(|image| image.size).collect();
    let files = order.images.into_iter().map(|image| image.file_name).collect();
    let parts = Parts {
        name: path.to_owned(),
        root,
        files,
        starts: order.starts,
        columns,
        class_names: classes.names,
        category_ids: classes.ids,
        sizes,
        origins: vec![Some(path.to_owned())],
        limits: options.limits,
    };
    Ok(Annotated::of(parts).with_boxes(BoxFormat::Xywh))
}

/// The categories of a file.
struct Classes {
    /// The number of each category in the dataset, by its id.
    numbers: BTreeMap<i64, i64>,
    names: ClassNames,
    ids: Vec<i64>,
}

impl Classes {
    fn of(
        path: &Path,
        categories: Vec<(i64, String)>,
        keep_ids: bool,
    ) -> Result<Self, AnnotationError> {
        let count = categories.len();
        let by_id: BTreeMap<i64, String> = categories.into_iter().collect();
        if by_id.len() != count {
            let reason = "two categories have the same id: each needs one of its own";
            return Err(AnnotationError::damaged(path, reason));
        }
        let number = |(index, id): (i64, i64)| (id, if keep_ids { id } else { index });
        let numbers: BTreeMap<i64, i64> = (0..).zip(by_id.keys().copied()).map(number).collect();
        let ids = by_id.keys().copied().collect();
        let names = by_id.into_iter().map(|(id, name)| (numbers[&id], name)).collect();
        Ok(Self { numbers, names, ids })
    }
}

/// The images and objects of a dataset, in its order.
struct Order {
    /// The images, by their ids.
    images: Vec<CocoImage>,
    /// The index of the first object of each image, and the number of objects.
    starts: Vec<usize>,
    /// The indices of the objects in the file, image by image.
    objects: Vec<usize>,
}

impl Order {
    fn of(
        path: &Path,
        json: &mut CocoJson,
        options: &CocoOptions,
    ) -> Result<Self, AnnotationError> {
        let mut images = std::mem::take(&mut json.images);
        images.sort_by_key(|image| image.id);
        if let Some([first, second]) = images.array_windows().find(|[a, b]| a.id == b.id) {
            let (id, files) = (first.id, [&first.file_name, &second.file_name]);
            let reason = format!("image {id} is listed twice, as {} and as {}", files[0], files[1]);
            return Err(AnnotationError::damaged(path, reason));
        }
        let mut of_images: HashMap<i64, Vec<usize>> = HashMap::new();
        let mut is_kept: HashMap<i64, bool> =
            images.iter().map(|image| (image.id, !options.without_empty)).collect();
        for (index, object) in json.annotations.iter().enumerate() {
            let CocoObject { id, image_id, bbox: [.., width, height], .. } = object;
            let Some(is_kept) = is_kept.get_mut(image_id) else {
                let reason =
                    format!("annotation {id} is of image {image_id}, which is not in `images`");
                return Err(AnnotationError::damaged(path, reason));
            };
            if options.skip_crowds && object.is_crowd != 0 {
                continue;
            }
            *is_kept |= *width > 1.0 && *height > 1.0;
            let objects = of_images.entry(*image_id).or_default();
            if objects.len() as u64 == MOST_OBJECTS {
                let what = format!("image {image_id} has more than {MOST_OBJECTS} annotations");
                return Err(AnnotationError::limit(path, what, MOST_OBJECTS));
            }
            objects.push(index);
        }
        images.retain(|image| is_kept[&image.id]);
        let (mut starts, mut objects) = (vec![0], vec![]);
        for image in &images {
            objects.extend(of_images.remove(&image.id).unwrap_or_default());
            starts.push(objects.len());
        }
        Ok(Self { images, starts, objects })
    }
}
