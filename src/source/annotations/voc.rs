//! Datasets in Pascal VOC's format: a folder of images, and an XML file with the objects of each.
//!
//! ```text
//! VOC2012/JPEGImages/2007_000027.jpg     VOC2012/Annotations/2007_000027.xml    VOC2012/ImageSets/Main/train.txt
//! set/images/1.png                       set/annotations/1.xml
//! set/1.jpg                              set/1.xml
//! ```

use super::files::{self, TextFiles, by_stem, has_file, has_pair, list, stem};
use super::problems::{Problems, split_damaged};
use super::voc_xml::{self, VocFile, VocObject};
use super::xml_text;
use super::{Annotated, Parts, floats, ints};
use crate::error::{Error, ErrorKind, fail};
use crate::parallel;
use crate::sample::Limits;
use fuseloop_ops::{BoxFormat, Size};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders of images and of their annotations.
const FOLDERS: [[&str; 2]; 2] = [["JPEGImages", "Annotations"], ["images", "annotations"]];

/// The folder of the lists of images.
const IMAGE_SETS: &str = "ImageSets/Main";

/// The extension of a file of annotations.
const XML: &str = "xml";

/// Options for opening a dataset in Pascal VOC's format.
///
/// ```no_run
/// use fuseloop::source::{Annotated, VocOptions};
///
/// let train = Annotated::voc("VOC2012", &VocOptions::default().image_set("train"))?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VocOptions {
    image_set: Option<String>,
    class_names: Option<Vec<String>>,
    keep_coordinates: bool,
    limits: Limits,
}

impl VocOptions {
    /// Opens the images that a file in `ImageSets/Main` lists, in its order: `train` stands for `train.txt`. By default
    /// all images that have annotations are opened, in the order of the bytes of their paths.
    #[must_use]
    pub fn image_set(mut self, name: impl Into<String>) -> Self {
        self.image_set = Some(name.into());
        self
    }

    /// Sets the names of the classes, in the order of their numbers. An object of another class is an error. By default
    /// the classes are those of the objects that are opened, in the order of the bytes of their names: name them if two
    /// splits may have different ones.
    #[must_use]
    pub fn class_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.class_names = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Delivers the numbers of a box as the file has them, if true, as torchvision does. By default 1 is subtracted from
    /// `xmin` and `ymin`, as in Detectron2: the file has the first and the last pixel of a box, counted from 1.
    #[must_use]
    pub fn keep_coordinates(mut self, keep: bool) -> Self {
        self.keep_coordinates = keep;
        self
    }

    /// Sets the limits on the files and on their number.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// Returns whether a folder has images and annotations in this format.
pub(super) fn is_folder(dir: &Path) -> bool {
    let (images, annotations) = folders(dir);
    if images == annotations { has_pair(dir, XML) } else { has_file(&annotations, XML) }
}

/// Returns the folders of the images and of the annotations of a dataset, which may be the same.
fn folders(root: &Path) -> (PathBuf, PathBuf) {
    let pairs = FOLDERS.map(|pair| pair.map(|name| root.join(name)));
    let found = pairs.into_iter().find(|pair| pair.iter().all(|folder| folder.is_dir()));
    found.map_or((root.to_owned(), root.to_owned()), |[images, annotations]| (images, annotations))
}

/// Opens the images and the objects of a folder.
pub(super) fn open(root: &Path, options: &VocOptions) -> Result<Annotated, Error> {
    let limits = &options.limits;
    let (images, annotations) = folders(root);
    let texts = TextFiles::new(limits);
    let samples = Sample::find(root, [&images, &annotations], options, &texts)?;
    let read = |sample: &Sample| {
        if let Some(problem) = &sample.problem {
            return Ok(Err(Problems::from(problem.clone())));
        }
        // What one file has wrong is not wrong with the others.
        let bytes = match texts.bytes(&sample.annotation) {
            Err(error) if error.kind() == ErrorKind::Format => {
                return Ok(Err(error.text().to_owned().into()));
            }
            bytes => bytes?,
        };
        let text = xml_text::decode(bytes);
        Ok(text.and_then(|text| voc_xml::parse(&text)).map_err(Problems::from))
    };
    let files: Result<Vec<Result<VocFile, Problems>>, Error> =
        parallel::map(&samples, read)?.into_iter().collect();
    let (files, mut damaged) = split_damaged(files?, |sample| &samples[sample].annotation)?;
    let (sizes, mut objects): (Vec<Size>, Vec<Vec<VocObject>>) =
        files.into_iter().map(|file| (file.size, file.objects)).unzip();
    let names = match &options.class_names {
        Some(names) => names.clone(),
        None => {
            let mut names: Vec<String> =
                objects.iter().flatten().map(|object| object.name.clone()).collect();
            names.sort_unstable();
            names.dedup();
            names
        }
    };
    let numbers: BTreeMap<&str, i64> = names.iter().map(|name| &**name).zip(0..).collect();
    if numbers.len() < names.len() {
        return Err(
            fail!(Parameter, "two classes have the same name: each needs one of its own").at(root)
        );
    }
    let (mut starts, mut labels) = (vec![0], vec![]);
    for (sample, objects) in (0..).zip(&mut objects) {
        let numbered = |(index, object): (usize, &VocObject)| {
            numbers.get(&*object.name).copied().ok_or_else(|| {
                let (number, name, count) = (index + 1, &object.name, names.len());
                format!(
                    "object {number} ({name}): the class is not among the {count} that were named"
                )
            })
        };
        match objects.iter().enumerate().map(numbered).collect::<Result<Vec<i64>, String>>() {
            Ok(of_image) => labels.extend(of_image),
            Err(problem) => {
                damaged.insert(sample, problem.into());
                objects.clear();
            }
        }
        starts.push(labels.len());
    }
    if let Some((&sample, problems)) = damaged.first_key_value()
        && damaged.len() == samples.len()
    {
        let path = &samples[sample as usize].annotation;
        return Err(fail!(Format, "{problems}").at(path));
    }
    let first = if options.keep_coordinates { 0.0 } else { 1.0 };
    let sides = |object: &VocObject| {
        let [left, top, right, bottom] = object.bbox;
        [left - first, top - first, right, bottom].map(|side| side as f32)
    };
    let all = || objects.iter().flatten();
    Ok(Annotated::of(Parts {
        name: root.to_owned(),
        root: images,
        files: samples.iter().map(|sample| sample.image.clone()).collect(),
        starts,
        columns: vec![
            ("bbox", floats(4, all().flat_map(sides))),
            ("category_id", ints(labels)),
            ("difficult", ints(all().map(|object| object.difficult))),
            ("truncated", ints(all().map(|object| object.truncated))),
        ],
        category_ids: (0..).take(names.len()).collect(),
        class_names: (0..).zip(names).collect(),
        sizes,
        has_own_sizes: true,
        damaged,
        origins: samples.into_iter().map(|sample| Some(sample.annotation)).collect(),
        boxes: Some(BoxFormat::Xyxy),
        limits: *limits,
        ..Parts::default()
    }))
}

/// The files of a sample.
struct Sample {
    /// The image, by its path in its folder.
    image: Box<str>,
    annotation: PathBuf,
    /// The reason if one of them is missing.
    problem: Option<String>,
}

impl Sample {
    /// Finds the files of all samples, in their order.
    fn find(
        root: &Path,
        [images, annotations]: [&Path; 2],
        options: &VocOptions,
        texts: &TextFiles<'_>,
    ) -> Result<Vec<Self>, Error> {
        let limits = &options.limits;
        let found = list(annotations, &[XML], limits)?;
        if found.is_empty() {
            return Err(fail!(
                Format,
                "no .xml file found: expected JPEGImages and Annotations, images and annotations, or both \
                          kinds of files next to each other"
            )
            .at(annotations));
        }
        let files = files::images(images, limits)?;
        let by_stem = by_stem(&files, images)?;
        let found: BTreeMap<&str, &str> = found.iter().map(|file| (stem(file), &**file)).collect();
        let names: Vec<String> = match &options.image_set {
            None => found.keys().map(|name| (*name).to_owned()).collect(),
            Some(set) => listed(&root.join(IMAGE_SETS), set, limits, texts)?,
        };
        let of_name = |name: &String| {
            let annotation = found.get(&**name).map(|file| annotations.join(file));
            let image = by_stem.get(&**name).map(|image| Box::from(*image));
            let problem = match (&annotation, &image) {
                (None, _) => Some(format!("{name}.xml is missing: the list of images has {name}")),
                (_, None) => {
                    let expected = images.join(name);
                    let expected = expected.display();
                    Some(format!("the image is missing: expected {expected}.jpg or .png"))
                }
                _ => None,
            };
            Self {
                image: image.unwrap_or_else(|| format!("{name}.jpg").into()),
                annotation: annotation.unwrap_or_else(|| annotations.join(format!("{name}.{XML}"))),
                problem,
            }
        };
        Ok(names.iter().map(of_name).collect())
    }
}

/// Reads a list of images: a name in each line.
fn listed(
    folder: &Path,
    set: &str,
    limits: &Limits,
    texts: &TextFiles<'_>,
) -> Result<Vec<String>, Error> {
    let path = folder.join(format!("{set}.txt"));
    let mut names = vec![];
    for (number, line) in (1..).zip(texts.read(&path)?.lines()) {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        if words.next().is_some() {
            return Err(fail!(
                Format,
                "line {number}: {line:?}, expected the name of one image: a list with a second column is of one class"
            )
            .at(&path));
        }
        if names.len() as u64 == limits.max_samples {
            return Err(fail!(
                Memory,
                "more than {max} images, the limit is {max}",
                max = limits.max_samples
            )
            .at(&path));
        }
        names.push(name.to_owned());
    }
    if names.is_empty() {
        return Err(fail!(Format, "no image is listed").at(&path));
    }
    Ok(names)
}
