//! Reads COCO's JSON value by value, without holding it in memory.
//!
//! ```text
//! {"images":      [{"id", "file_name", "width", "height"}],
//!  "categories":  [{"id", "name"}],
//!  "annotations": [{"id", "image_id", "category_id", "bbox": [x, y, w, h], "area", "iscrowd",
//!                   "segmentation"?, "keypoints"?}]}                     in any order, and with other keys
//! ```
//!
//! A fault of one annotation or image is noted as damage of its sample, and the rest of the file is read. Text that is not
//! JSON, and faults of categories, concern all samples, and are errors. Ids are whole numbers or texts; an image without a
//! `file_name`, as in LVIS, has the last folder and the name in `coco_url`.
//!
//! Of a `segmentation` only the range of its bytes is kept. It is known exactly, because serde_json reads no byte
//! beyond the end of a list or an object, and none beyond the colon before it.

use super::coco_values::{Numbers, Problem, Scalar, SegmentationRange, shortened, skip_seq};
use super::problems::Problems;
use crate::error::{self, AtPath as _, fail};
use crate::sample::Limits;
use crate::source::ReadAt as _;
use crate::source::file_pool;
use crate::source::refuse_cut;
use fuseloop_ops::Size;
use serde_core::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// The most coordinates of an object's keypoints: x, y and visibility of a thousand.
const MOST_KEYPOINTS: usize = 3000;

/// The most bytes of a path, as on Linux.
const MOST_PATH: usize = 4096;

/// The bytes that are read from the file at once.
const BLOCK: usize = 1 << 16;

/// The content of a file of annotations.
#[derive(Default)]
pub(super) struct CocoJson {
    pub(super) images: Vec<CocoImage>,
    pub(super) categories: Vec<(Id, String)>,
    /// The annotations that can be read.
    pub(super) annotations: Vec<CocoObject>,
    /// The number of all annotations.
    pub(super) annotation_count: u64,
    /// The keypoints of all objects that have any, `x, y, visibility` each.
    pub(super) keypoints: Vec<f32>,
    /// The faults of the annotations of an image.
    pub(super) damaged: HashMap<Id, Problems>,
    /// What annotations have wrong of which no image is known.
    pub(super) of_no_image: Problems,
    pub(super) texts: IdTexts,
}

impl CocoJson {
    /// Notes what an annotation of an image has wrong.
    pub(super) fn damage(&mut self, of_image: Option<Id>, problem: String) {
        match of_image {
            Some(id) => self.damaged.entry(id).or_default().add(problem),
            None => self.of_no_image.add(problem),
        }
    }
}

/// The id of an image, a category or an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Id {
    /// A whole number, also if it is written as `3.0` or `"3"`.
    Number(i64),
    /// Any other text, by its index.
    Text(u32),
}

/// The texts that are ids.
#[derive(Default)]
pub(super) struct IdTexts {
    texts: Vec<Rc<str>>,
    indices: HashMap<Rc<str>, u32>,
}

impl IdTexts {
    /// Returns the id that a text stands for.
    fn id(&mut self, text: &str) -> Id {
        if let Some(number) = text.parse().ok().filter(|number: &i64| number.to_string() == text) {
            return Id::Number(number);
        }
        if let Some(&index) = self.indices.get(text) {
            return Id::Text(index);
        }
        // A file has less than 2^32 texts within the limits on its bytes.
        let index = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let text: Rc<str> = text.into();
        self.texts.push(Rc::clone(&text));
        self.indices.insert(text, index);
        Id::Text(index)
    }

    /// Returns the order of an id: numbers first, then texts by their bytes.
    pub(super) fn order(&self, id: Id) -> (bool, i64, &str) {
        match id {
            Id::Number(number) => (false, number, ""),
            Id::Text(index) => (true, 0, self.texts.get(index as usize).map_or("", |text| &**text)),
        }
    }

    /// Returns the id as an error shows it.
    pub(super) fn shown(&self, id: Id) -> String {
        match id {
            Id::Number(number) => number.to_string(),
            Id::Text(_) => format!("{:?}", shortened(self.order(id).2)),
        }
    }
}

pub(super) struct CocoImage {
    /// The id; `None` if the file has none, so that no annotation can be of the image.
    pub(super) id: Option<Id>,
    pub(super) file_name: Box<str>,
    /// True if the name is the end of `coco_url`.
    pub(super) is_of_url: bool,
    /// The `width` and `height`; without pixels if the file has none.
    pub(super) size: Size,
    /// What the image's own entry has wrong.
    pub(super) problem: Option<String>,
}

pub(super) struct CocoObject {
    pub(super) id: Id,
    pub(super) image_id: Id,
    pub(super) category_id: Id,
    pub(super) bbox: [f32; 4],
    pub(super) area: f32,
    pub(super) is_crowd: i64,
    /// The bytes of `segmentation` in the file; empty if there is none.
    pub(super) segmentation: Range<u64>,
    /// Its values among all keypoints.
    pub(super) keypoints: Option<Range<usize>>,
}

/// The elements of the lists in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Images,
    Categories,
    Annotations,
}

impl List {
    fn word(self) -> &'static str {
        match self {
            Self::Images => "image",
            Self::Categories => "category",
            Self::Annotations => "annotation",
        }
    }
}

/// The part of the file that is being read, for errors.
#[derive(Default)]
struct Current {
    list: Option<List>,
    /// The index of the element in its list.
    index: u64,
    id: Option<Id>,
    image_id: Option<Id>,
}

struct Parser {
    found: CocoJson,
    current: Current,
    position: Rc<Cell<u64>>,
    limits: Limits,
}

/// Reads a file of annotations.
pub(super) fn read(path: &Path, limits: &Limits) -> error::Result<CocoJson> {
    let file = open(path).at(path)?;
    let before = file.len().at(path)?;
    if before > limits.max_table_bytes {
        return Err(fail!(
            Memory,
            "{before} bytes, the limit is {max}",
            max = limits.max_table_bytes
        )
        .at(path));
    }
    let position = Rc::new(Cell::new(0));
    let reader = Counted::new(&file, Rc::clone(&position)).at(path)?;
    let mut parser = Parser {
        found: CocoJson::default(),
        current: Current::default(),
        position: Rc::clone(&position),
        limits: *limits,
    };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let outcome =
        Part { parser: &mut parser, level: Level::File }.deserialize(&mut json).and_then(|()| {
            parser.current = Current::default();
            json.end()
        });
    outcome.map_err(|error| match error.io_error_kind() {
        Some(_) => error::Error::from(io::Error::from(error)).at(path),
        None => fail!(Format, "{}{error}", parser.shown()).at(path),
    })?;
    refuse_cut(&file, before, position.get()).at(path)?;
    Ok(parser.found)
}

/// Opens a regular file: opening a FIFO would wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    file_pool::open(path)
}

/// A reader that counts the bytes that were taken from it.
struct Counted<'a> {
    file: &'a File,
    block: Vec<u8>,
    at: usize,
    position: Rc<Cell<u64>>,
}

impl<'a> Counted<'a> {
    /// Begins after the byte order mark, if the file has one.
    fn new(file: &'a File, position: Rc<Cell<u64>>) -> io::Result<Self> {
        let mut block = Vec::with_capacity(BLOCK);
        file.take(BLOCK as u64).read_to_end(&mut block)?;
        let at = if block.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
        position.set(at as u64);
        Ok(Self { file, block, at, position })
    }
}

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() {
            self.block.clear();
            self.at = 0;
            self.file.take(BLOCK as u64).read_to_end(&mut self.block)?;
        }
        let rest = &self.block[self.at..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        self.position.set(self.position.get() + count as u64);
        Ok(count)
    }
}

/// A value of the file, and what it is.
struct Part<'a> {
    parser: &'a mut Parser,
    level: Level,
}

#[derive(Clone, Copy)]
enum Level {
    File,
    List(List),
    Element(List),
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.level {
            Level::List(_) => from.deserialize_seq(self),
            Level::File => from.deserialize_map(self),
            // What is wrong with one element is not wrong with the others.
            Level::Element(_) => from.deserialize_any(self),
        }
    }
}

impl Part<'_> {
    /// Notes an annotation that is no object. An image or a category must be one.
    fn scalar<E: Error>(self, found: &Scalar) -> Result<(), E> {
        let problem = format!("{found}, expected an object");
        if !matches!(self.level, Level::Element(List::Annotations)) {
            return Err(E::custom(problem));
        }
        let problem = format!("{}{problem}", self.parser.shown());
        self.parser.found.annotation_count += 1;
        self.parser.found.damage(None, problem);
        Ok(())
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::File => {
                f.write_str("COCO's object with `images`, `annotations` and `categories`")
            }
            Level::List(list) => write!(f, "a list with an object for each {}", list.word()),
            Level::Element(list) => write!(f, "an object that is an {}", list.word()),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(&Scalar::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(&Scalar::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(&Scalar::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(&Scalar::Float(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(&Scalar::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(&Scalar::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Level::List(list) = self.level else {
            skip_seq(&mut elements)?;
            return self.scalar(&Scalar::Other("a list"));
        };
        let parser = self.parser;
        for index in 0.. {
            parser.current = Current { list: Some(list), index, ..Current::default() };
            let element = Part { parser: &mut *parser, level: Level::Element(list) };
            if elements.next_element_seed(element)?.is_none() {
                break;
            }
        }
        parser.current = Current::default();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let parser = self.parser;
        match self.level {
            Level::Element(List::Images) => parser.image(map),
            Level::Element(List::Categories) => parser.category(map),
            Level::Element(List::Annotations) => parser.annotation(map),
            Level::File | Level::List(_) => {
                while let Some(key) = map.next_key::<String>()? {
                    let list = match &*key {
                        "images" => List::Images,
                        "categories" => List::Categories,
                        "annotations" => List::Annotations,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    map.next_value_seed(Part { parser: &mut *parser, level: Level::List(list) })?;
                }
                Ok(())
            }
        }
    }
}

impl Parser {
    /// Reads the id that the next value stands for. Texts that are no whole numbers are ids by themselves.
    fn next_id<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        key: &str,
        problem: &mut Problem,
    ) -> Result<Option<Id>, A::Error> {
        let value: Scalar = map.next_value()?;
        if let Some(number) = value.whole() {
            return Ok(Some(Id::Number(number)));
        }
        if let Scalar::Text(text) = &value {
            return Ok(Some(self.found.texts.id(text)));
        }
        problem.note(|| format!("`{key}` is {value}, expected a whole number or a text"));
        Ok(None)
    }

    fn image<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let (mut file_name, mut url, mut size) = (None, None, Size::default());
        let mut problem = Problem::default();
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "id" => self.current.id = self.next_id(&mut map, "id", &mut problem)?,
                "file_name" => match map.next_value()? {
                    Scalar::Text(name) => file_name = Some(name),
                    Scalar::Null => {}
                    value => {
                        problem.note(|| format!("`file_name` is {value}, expected a text"));
                    }
                },
                "coco_url" => {
                    if let Scalar::Text(text) = map.next_value()? {
                        url = Some(text);
                    }
                }
                "width" => size.width = map.next_value::<Scalar>()?.side(),
                "height" => size.height = map.next_value::<Scalar>()?.side(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if self.current.id.is_none() {
            problem.missing("id");
        }
        let is_of_url = file_name.is_none();
        let mut file_name = file_name.or_else(|| url.as_deref().and_then(file_of_url));
        if file_name.is_none() {
            problem.missing("file_name");
        }
        if let Some(name) = file_name.as_mut().filter(|name| name.len() > MOST_PATH) {
            let bytes = name.len();
            problem
                .note(|| format!("`file_name` has {bytes} bytes, a path has at most {MOST_PATH}"));
            *name = shortened(name).into();
        }
        if self.found.images.len() as u64 >= self.limits.max_samples {
            let max = self.limits.max_samples;
            return Err(A::Error::custom(format!("more images than the limit of {max}")));
        }
        let problem = problem.0.map(|problem| format!("{}{problem}", self.shown()));
        let (id, file_name) = (self.current.id, file_name.unwrap_or_default());
        self.found.images.push(CocoImage { id, file_name, is_of_url, size, problem });
        Ok(())
    }

    fn category<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let (mut name, mut problem) = (None, Problem::default());
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "id" => self.current.id = self.next_id(&mut map, "id", &mut problem)?,
                "name" => match map.next_value()? {
                    Scalar::Text(text) => name = Some(text),
                    value => problem.note(|| format!("`name` is {value}, expected a text")),
                },
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if self.current.id.is_none() {
            problem.missing("id");
        }
        if name.is_none() {
            problem.missing("name");
        }
        // The classes are the dataset's.
        match (self.current.id, name, problem.0) {
            (Some(id), Some(name), None) => self.found.categories.push((id, name.into())),
            (_, _, problem) => return Err(A::Error::custom(problem.unwrap_or_default())),
        }
        Ok(())
    }

    fn annotation<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let (mut category_id, mut area, mut is_crowd) = (None, None, 0);
        let (mut bbox, mut keypoints) = (vec![], vec![]);
        let (mut segmentation, mut problem) = (0..0, Problem::default());
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "id" => self.current.id = self.next_id(&mut map, "id", &mut problem)?,
                "image_id" => {
                    self.current.image_id = self.next_id(&mut map, "image_id", &mut problem)?;
                }
                "category_id" => {
                    category_id = self.next_id(&mut map, "category_id", &mut problem)?;
                }
                "area" => match map.next_value()? {
                    Scalar::Null => {}
                    value => match value.number() {
                        Some(number) => area = Some(number),
                        None => problem.note(|| format!("`area` is {value}, expected a number")),
                    },
                },
                "iscrowd" => match map.next_value()? {
                    Scalar::Null => {}
                    Scalar::Bool(value) => is_crowd = value.into(),
                    value => match value.whole() {
                        Some(number) => is_crowd = number,
                        None => problem.note(|| format!("`iscrowd` is {value}, expected 0 or 1")),
                    },
                },
                "bbox" => {
                    let (problem, values) = (&mut problem, &mut bbox);
                    map.next_value_seed(Numbers { key: "bbox", values, most: 4, problem })?;
                }
                "keypoints" => {
                    let (problem, values, most) = (&mut problem, &mut keypoints, MOST_KEYPOINTS);
                    map.next_value_seed(Numbers { key: "keypoints", values, most, problem })?;
                }
                "segmentation" => {
                    let position = &self.position;
                    let problem = &mut problem;
                    segmentation = map.next_value_seed(SegmentationRange { position, problem })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if bbox.len() != 4 {
            let found = bbox.len();
            problem.note(|| format!("`bbox` has {found} numbers, expected x, y, width and height"));
        }
        for (key, value) in [
            ("id", self.current.id),
            ("image_id", self.current.image_id),
            ("category_id", category_id),
        ] {
            if value.is_none() {
                problem.missing(key);
            }
        }
        let count = keypoints.len();
        if !count.is_multiple_of(3) {
            problem.note(|| {
                format!(
                    "`keypoints` has {count} numbers, expected x, y and visibility of each point"
                )
            });
        }
        self.found.annotation_count += 1;
        let of_image = self.current.image_id;
        let (Some(id), Some(image_id), Some(category_id), None, &[x, y, width, height]) =
            (self.current.id, of_image, category_id, &problem.0, &bbox[..])
        else {
            let text = format!("{}{}", self.shown(), problem.0.unwrap_or_default());
            self.found.damage(of_image, text);
            return Ok(());
        };
        let start = self.found.keypoints.len();
        self.found.keypoints.extend(keypoints.iter().map(|&value| value as f32));
        self.found.annotations.push(CocoObject {
            id,
            image_id,
            category_id,
            bbox: [x, y, width, height].map(|value| value as f32),
            area: area.unwrap_or(width * height) as f32,
            is_crowd,
            segmentation,
            keypoints: (count > 0).then_some(start..start + count),
        });
        Ok(())
    }

    /// Returns the words for what is being read, by the ids that are known already.
    fn shown(&self) -> String {
        let Current { list, index, id, image_id } = self.current;
        let Some(list) = list else { return String::new() };
        let texts = &self.found.texts;
        let of_image = image_id.map(|id| format!(" of image {}", texts.shown(id)));
        let number = match id {
            Some(id) => texts.shown(id),
            None => format!("number {}", index + 1),
        };
        format!("{} {number}{}: ", list.word(), of_image.unwrap_or_default())
    }
}

/// Returns the folder and the name of a file in a URL, as in `http://images.cocodataset.org/train2017/9.jpg`.
fn file_of_url(url: &str) -> Option<Box<str>> {
    let path = url.split_once("://").map_or(url, |(_, path)| path);
    let mut parts = path.rsplit('/').filter(|part| !part.is_empty() && !part.contains(".."));
    let (name, folder) = (parts.next()?, parts.next()?);
    Some(format!("{folder}/{name}").into())
}
