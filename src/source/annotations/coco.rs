//! Datasets in COCO's format: a folder of images, and one JSON file with the objects of all of them.

use super::coco_json::{self, CocoImage, CocoJson, CocoObject, Id};
use super::problems::Problems;
use super::{Annotated, MOST_OBJECTS, Parts, floats, ints};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::Limits;
use crate::source::columnar::{Texts, Values};
use crate::source::file::FileBytes;
use crate::source::{ClassNames, Escaped};
use crate::warnings::warn;
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

/// The most images by which their folder is looked for.
const MOST_TRIED: usize = 100;

/// Opens the images and the objects of a file. `images` chooses the folder of the images, by the path of one of them.
pub(super) fn open(
    path: &Path,
    images: impl Fn(&str) -> Result<PathBuf, Error>,
    options: &CocoOptions,
) -> Result<Annotated, Error> {
    let mut json = coco_json::read(path, &options.limits)?;
    let classes = Classes::of(path, &mut json, options.keep_category_ids)?;
    let values = keypoint_values(&mut json);
    let mut order = Order::of(path, &mut json, &classes, options)?;
    let mut named = order.images.iter().filter(|image| !image.file_name.is_empty()).peekable();
    let first = named.peek().copied();
    let first = first.ok_or_else(|| fail!(Format, "no image is listed").at(path))?;
    let folder_of = |image: &CocoImage| match images(&image.file_name) {
        // The folder may be the one in the URL.
        Err(_) if image.is_of_url => images(name_in(&image.file_name)),
        found => found,
    };
    // That the file of one image is missing is damage of its sample.
    let mut tried = named.take(MOST_TRIED);
    let found = tried.find_map(|image| Some((image, folder_of(image).ok()?)));
    let (first, root) = match found {
        Some(found) => found,
        None => (first, folder_of(first)?),
    };
    let (first, is_of_url) = (first.file_name.clone(), first.is_of_url);
    if is_of_url && !root.join(&*first).is_file() && root.join(name_in(&first)).is_file() {
        for image in order.images.iter_mut().filter(|image| image.is_of_url) {
            image.file_name = name_in(&image.file_name).into();
        }
    }
    let all = || order.objects.iter().map(|&index| &json.annotations[index]);
    let labels = all().map(|object| classes.numbers[&object.category_id]);
    let has_masks = all().any(|object| !object.segmentation.is_empty());
    let mut columns = vec![
        ("image_id", Values::Ints(order.image_ids())),
        ("bbox", floats(4, all().flat_map(|object| object.bbox))),
        ("category_id", ints(labels)),
        ("area", floats(1, all().map(|object| object.area))),
        ("iscrowd", ints(all().map(|object| object.is_crowd))),
        ("annotation_id", ints(order.annotation_ids(&json.annotations))),
    ];
    if has_masks {
        let bytes = FileBytes::open(path).at(path)?;
        let ranges = all().map(|object| object.segmentation.clone()).collect();
        let texts = Texts { path: path.to_owned(), bytes, ranges };
        columns.push(("segmentation", Values::Lists(texts)));
    }
    if let Some(count) = values {
        let none = vec![0.0; count];
        let keypoints = all().flat_map(|object| match &object.keypoints {
            Some(range) => &json.keypoints[range.clone()],
            None => &none[..],
        });
        columns.push(("keypoints", floats(count, keypoints.copied())));
    }
    let sizes = order.images.iter().map(|image| image.size).collect();
    let files = order.images.into_iter().map(|image| image.file_name).collect();
    Ok(Annotated::of(Parts {
        name: path.to_owned(),
        root,
        files,
        starts: order.starts,
        columns,
        class_names: classes.names,
        category_ids: classes.ids,
        sizes,
        has_own_sizes: true,
        damaged: order.damaged,
        origins: vec![Some(path.to_owned())],
        boxes: Some(BoxFormat::Xywh),
        limits: options.limits,
        ..Parts::default()
    }))
}

/// Returns the name of a file without its folder.
fn name_in(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Returns how many values the keypoints of an object have: as many as most have. An object with another number is
/// damage of its image.
fn keypoint_values(json: &mut CocoJson) -> Option<usize> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for range in json.annotations.iter().filter_map(|object| object.keypoints.as_ref()) {
        *counts.entry(range.len()).or_default() += 1;
    }
    let (&values, _) = counts.iter().max_by_key(|(_, count)| **count)?;
    let wrong = json.annotations.extract_if(.., |object| {
        object.keypoints.as_ref().is_some_and(|range| range.len() != values)
    });
    let wrong: Vec<CocoObject> = wrong.collect();
    for CocoObject { id, image_id, keypoints, .. } in wrong {
        let problem = format!(
            "annotation {} of image {}: `keypoints` has {} numbers, expected x, y and visibility of {} points, like the other objects",
            json.texts.shown(id),
            json.texts.shown(image_id),
            keypoints.map_or(0, |range| range.len()),
            values / 3
        );
        json.damage(Some(image_id), problem);
    }
    Some(values)
}

/// The categories of a file.
struct Classes {
    /// The number of each category in the dataset, by its id.
    numbers: BTreeMap<Id, i64>,
    names: ClassNames,
    /// The ids in the file; the number of the class for an id that is a text.
    ids: Vec<i64>,
}

impl Classes {
    fn of(path: &Path, json: &mut CocoJson, keep_ids: bool) -> Result<Self, Error> {
        let mut categories = std::mem::take(&mut json.categories);
        categories.sort_by(|(a, _), (b, _)| json.texts.order(*a).cmp(&json.texts.order(*b)));
        if categories.array_windows().any(|[(a, _), (b, _)]| a == b) {
            return Err(fail!(
                Format,
                "two categories have the same id: each needs one of its own"
            )
            .at(path));
        }
        let id_of = |index: i64, id: Id| match id {
            Id::Number(number) => number,
            Id::Text(_) => index,
        };
        if keep_ids && categories.iter().any(|(id, _)| matches!(id, Id::Text(_))) {
            return Err(fail!(
                Parameter,
                "ids of categories are texts, which are no numbers to keep: leave out `keep_category_ids`"
            )
            .at(path));
        }
        let number = |index: i64, id: Id| if keep_ids { id_of(index, id) } else { index };
        let numbered = || (0..).zip(&categories);
        let numbers = numbered().map(|(index, (id, _))| (*id, number(index, *id))).collect();
        let ids = numbered().map(|(index, (id, _))| id_of(index, *id)).collect();
        let names = numbered().map(|(index, (id, name))| (number(index, *id), name.clone()));
        let names = names.collect();
        Ok(Self { numbers, names, ids })
    }
}

/// The images and objects of a dataset, in its order.
struct Order {
    /// The images, by their ids; those without one are at the end.
    images: Vec<CocoImage>,
    /// The index of the first object of each image, and the number of objects.
    starts: Vec<usize>,
    /// The indices of the objects in the file, image by image.
    objects: Vec<usize>,
    /// The faults of samples.
    damaged: BTreeMap<u64, Problems>,
}

impl Order {
    fn of(
        path: &Path,
        json: &mut CocoJson,
        classes: &Classes,
        options: &CocoOptions,
    ) -> Result<Self, Error> {
        let mut images = std::mem::take(&mut json.images);
        let texts = std::mem::take(&mut json.texts);
        images.sort_by_cached_key(|image| {
            image.id.map(|id| {
                let (is_text, number, text) = texts.order(id);
                (is_text, number, text.to_owned())
            })
        });
        // `None` comes first in the order of options.
        let nameless = images.iter().take_while(|image| image.id.is_none()).count();
        images.rotate_left(nameless);
        for [first, second] in images.array_windows() {
            if first.id.is_some() && first.id == second.id {
                let files = [&first.file_name, &second.file_name];
                return Err(fail!(
                    Format,
                    "image {} is listed twice, as {} and as {}",
                    first.id.map_or(String::new(), |id| texts.shown(id)),
                    files[0],
                    files[1]
                )
                .at(path));
            }
        }
        let mut of_images: HashMap<Id, Vec<usize>> = HashMap::new();
        let mut is_kept: HashMap<Id, bool> =
            images.iter().filter_map(|image| Some((image.id?, !options.without_empty))).collect();
        let mut unknown = std::mem::take(&mut json.of_no_image);
        let mut damaged = std::mem::take(&mut json.damaged);
        for (index, object) in json.annotations.iter().enumerate() {
            let CocoObject { id, image_id, category_id, bbox: [.., width, height], .. } = object;
            let shown =
                || format!("annotation {} of image {}", texts.shown(*id), texts.shown(*image_id));
            let Some(is_kept) = is_kept.get_mut(image_id) else {
                let [id, image_id] = [*id, *image_id].map(|id| texts.shown(id));
                unknown.add(format!(
                    "annotation {id} is of image {image_id}, which is not in `images`"
                ));
                continue;
            };
            if options.skip_crowds && object.is_crowd != 0 {
                continue;
            }
            *is_kept |= *width > 1.0 && *height > 1.0;
            if !classes.numbers.contains_key(category_id) {
                let problem = format!(
                    "{}: category {} is not among the {} of `categories`",
                    shown(),
                    texts.shown(*category_id),
                    classes.numbers.len()
                );
                damaged.entry(*image_id).or_default().add(problem);
                continue;
            }
            let objects = of_images.entry(*image_id).or_default();
            if objects.len() as u64 == MOST_OBJECTS {
                let id = texts.shown(*image_id);
                return Err(fail!(
                    Memory,
                    "image {id} has more than {MOST_OBJECTS} annotations, the limit is {MOST_OBJECTS}"
                )
                .at(path));
            }
            objects.push(index);
        }
        for (id, problems) in damaged.extract_if(|id, _| !is_kept.contains_key(id)) {
            let first = problems.first().unwrap_or_default();
            unknown.add(format!("{first} (image {} is not in `images`)", texts.shown(id)));
        }
        let bad = damaged.values().map(Problems::count).sum::<u64>() + unknown.count();
        let first = damaged.values().find_map(Problems::first).or(unknown.first());
        if let Some(first) = first
            && bad >= json.annotation_count
        {
            let problem = match json.annotation_count {
                1 => first.to_owned(),
                count => format!("{first}: none of {count} annotations can be used"),
            };
            return Err(fail!(Format, "{problem}").at(path));
        }
        if let Some(first) = unknown.first() {
            warn(format_args!(
                "{}: {} of {} annotations belong to no listed image and are skipped: {first}",
                Escaped(&path.to_string_lossy()),
                unknown.count(),
                json.annotation_count,
            ));
        }
        images.retain(|image| {
            image.id.is_none_or(|id| is_kept[&id] || damaged.contains_key(&id))
                || image.problem.is_some()
        });
        let (mut starts, mut objects, mut wrong) = (vec![0], vec![], BTreeMap::new());
        for (sample, image) in (0..).zip(&mut images) {
            let own = image.problem.take().map(Problems::from);
            let of_annotations = image.id.and_then(|id| damaged.remove(&id));
            if let Some(problems) = own.or(of_annotations) {
                wrong.insert(sample, problems);
            } else if let Some(id) = image.id {
                objects.extend(of_images.remove(&id).unwrap_or_default());
            }
            starts.push(objects.len());
        }
        if wrong.len() == images.len()
            && let Some(first) = wrong.values().find_map(Problems::first)
        {
            return Err(fail!(Format, "{first}").at(path));
        }
        Ok(Self { images, starts, objects, damaged: wrong })
    }

    /// Returns the ids of the images. If one is a text or missing, these are their numbers in the dataset.
    fn image_ids(&self) -> Vec<i64> {
        let ids = self.images.iter().map(|image| match image.id {
            Some(Id::Number(number)) => Some(number),
            Some(Id::Text(_)) => None,
            // A damaged sample, whose id no one gets.
            None => Some(-1),
        });
        let ids: Option<Vec<i64>> = ids.collect();
        ids.unwrap_or_else(|| (0..).take(self.images.len()).collect())
    }

    /// Returns the ids of the objects. If one is a text, these are their places in the file.
    fn annotation_ids(&self, all: &[CocoObject]) -> Vec<i64> {
        let ids = self.objects.iter().map(|&index| match all[index].id {
            Id::Number(number) => Some(number),
            Id::Text(_) => None,
        });
        let ids: Option<Vec<i64>> = ids.collect();
        ids.unwrap_or_else(|| self.objects.iter().map(|&index| index as i64).collect())
    }
}
