//! Reads COCO's JSON value by value, without holding it in memory.
//!
//! ```text
//! {"images":      [{"id", "file_name", "width", "height"}],
//!  "categories":  [{"id", "name"}],
//!  "annotations": [{"id", "image_id", "category_id", "bbox": [x, y, w, h], "area", "iscrowd",
//!                   "segmentation"?, "keypoints"?}]}                     in any order, and with other keys
//! ```
//!
//! Of a `segmentation` only the range of its bytes is kept. It is known exactly, because serde_json reads no byte
//! beyond the end of a list or an object, and none beyond the colon before it.

use super::error::AnnotationError;
use super::{FARTHEST, MOST_POINTS};
use crate::sample::Limits;
use crate::source::ReadAt as _;
use crate::source::refuse_cut;
use fuseloop_ops::Size;
use serde_core::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::cell::Cell;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// The most coordinates of an object's keypoints: x, y and visibility of a thousand.
const MOST_KEYPOINTS: usize = 3000;

/// The bytes that are read from the file at once.
const BLOCK: usize = 1 << 16;

/// The content of a file of annotations.
#[derive(Default)]
pub(super) struct CocoJson {
    pub(super) images: Vec<CocoImage>,
    pub(super) categories: Vec<(i64, String)>,
    pub(super) annotations: Vec<CocoObject>,
    /// The keypoints of all objects that have any, `x, y, visibility` each.
    pub(super) keypoints: Vec<f32>,
    /// The number of values of an object's keypoints; `None` before the first one that has any.
    pub(super) keypoint_values: Option<usize>,
}

pub(super) struct CocoImage {
    pub(super) id: i64,
    pub(super) file_name: Box<str>,
    /// The `width` and `height`; without pixels if the file has none.
    pub(super) size: Size,
}

pub(super) struct CocoObject {
    pub(super) id: i64,
    pub(super) image_id: i64,
    pub(super) category_id: i64,
    pub(super) bbox: [f32; 4],
    pub(super) area: f32,
    pub(super) is_crowd: i64,
    /// The bytes of `segmentation` in the file; empty if there is none.
    pub(super) segmentation: Range<u64>,
    /// The index of the first value among all keypoints.
    pub(super) keypoints: Option<usize>,
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
    id: Option<i64>,
    image_id: Option<i64>,
}

/// Shows what is being read, by the ids that are known already.
impl fmt::Display for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(list) = self.list else { return Ok(()) };
        match self.id {
            Some(id) => write!(f, "{} {id}", list.word())?,
            None => write!(f, "{} number {}", list.word(), self.index + 1)?,
        }
        if let Some(image_id) = self.image_id {
            write!(f, " of image {image_id}")?;
        }
        f.write_str(": ")
    }
}

struct Parser {
    found: CocoJson,
    current: Current,
    position: Rc<Cell<u64>>,
    limits: Limits,
}

/// Reads a file of annotations.
pub(super) fn read(path: &Path, limits: &Limits) -> Result<CocoJson, AnnotationError> {
    let file = open(path).map_err(AnnotationError::io(path))?;
    let before = file.len().map_err(AnnotationError::io(path))?;
    if before > limits.max_table_bytes {
        return Err(AnnotationError::limit(
            path,
            format!("{before} bytes"),
            limits.max_table_bytes,
        ));
    }
    let position = Rc::new(Cell::new(0));
    let reader = Counted::new(&file, Rc::clone(&position));
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
        Some(_) => AnnotationError::io(path)(error.into()),
        None => AnnotationError::damaged(path, format!("{}{error}", parser.current)),
    })?;
    refuse_cut(&file, before, position.get()).map_err(AnnotationError::io(path))?;
    Ok(parser.found)
}

/// Opens a regular file: opening a FIFO would wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}

/// A reader that counts the bytes that were taken from it.
struct Counted<'a> {
    file: &'a File,
    block: Vec<u8>,
    at: usize,
    position: Rc<Cell<u64>>,
}

impl<'a> Counted<'a> {
    fn new(file: &'a File, position: Rc<Cell<u64>>) -> Self {
        Self { file, block: Vec::with_capacity(BLOCK), at: 0, position }
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
            Level::File | Level::Element(_) => from.deserialize_map(self),
        }
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let (parser, Level::List(list)) = (self.parser, self.level) else {
            return Err(A::Error::custom("expected an object"));
        };
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

/// Returns the value of a key, or an error that names the key and what to do.
fn required<T, E: Error>(value: Option<T>, key: &str) -> Result<T, E> {
    let reason =
        "expected annotations of objects, such as those in COCO's instances_train2017.json";
    value.ok_or_else(|| E::custom(format!("`{key}` is missing: {reason}")))
}

/// A side of an image; 0 for what is none, since annotations are read without it.
struct Side(u32);

impl<'de> Deserialize<'de> for Side {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SideVisitor)
    }
}

struct SideVisitor;

impl<'de> Visitor<'de> for SideVisitor {
    type Value = Side;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a side of an image")
    }

    fn visit_u64<E>(self, side: u64) -> Result<Side, E> {
        Ok(Side(u32::try_from(side).unwrap_or_default()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Side, E> {
        Ok(Side(0))
    }

    fn visit_f64<E>(self, side: f64) -> Result<Side, E> {
        // A cast keeps what is in range. A fraction is no side.
        Ok(Side(if side.fract() == 0.0 { side as u32 } else { 0 }))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Side, E> {
        Ok(Side(0))
    }

    fn visit_str<E>(self, _: &str) -> Result<Side, E> {
        Ok(Side(0))
    }

    fn visit_unit<E>(self) -> Result<Side, E> {
        Ok(Side(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Side, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Side(0))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Side, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Side(0))
    }
}

impl Parser {
    fn image<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let (mut file_name, mut size) = (None, Size::default());
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "id" => self.current.id = Some(map.next_value()?),
                "file_name" => file_name = Some(map.next_value::<String>()?.into_boxed_str()),
                "width" => size.width = map.next_value::<Side>()?.0,
                "height" => size.height = map.next_value::<Side>()?.0,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let id = required(self.current.id, "id")?;
        let file_name = required(file_name, "file_name")?;
        if self.found.images.len() as u64 >= self.limits.max_samples {
            let max = self.limits.max_samples;
            return Err(A::Error::custom(format!("more images than the limit of {max}")));
        }
        self.found.images.push(CocoImage { id, file_name, size });
        Ok(())
    }

    fn category<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let mut name = None;
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "id" => self.current.id = Some(map.next_value()?),
                "name" => name = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let id = required(self.current.id, "id")?;
        self.found.categories.push((id, required(name, "name")?));
        Ok(())
    }

    fn annotation<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        let (mut category_id, mut area, mut is_crowd) = (None, None, 0);
        let (mut bbox, mut keypoints) = (vec![], vec![]);
        let mut segmentation = 0..0;
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "id" => self.current.id = Some(map.next_value()?),
                "image_id" => self.current.image_id = Some(map.next_value()?),
                "category_id" => category_id = Some(map.next_value()?),
                "area" => area = map.next_value::<Option<f64>>()?,
                "iscrowd" => is_crowd = map.next_value()?,
                "bbox" => map.next_value_seed(Numbers { values: &mut bbox, most: 4 })?,
                "keypoints" => {
                    map.next_value_seed(Numbers { values: &mut keypoints, most: MOST_KEYPOINTS })?;
                }
                "segmentation" => {
                    let position = &self.position;
                    segmentation = map.next_value_seed(SegmentationRange { position })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let id = required(self.current.id, "id")?;
        let image_id = required(self.current.image_id, "image_id")?;
        let category_id = required(category_id, "category_id")?;
        let bbox = <[f64; 4]>::try_from(bbox).map_err(|found| {
            let found = found.len();
            A::Error::custom(format!("`bbox` has {found} numbers, expected x, y, width and height"))
        })?;
        let keypoints = self.keypoints(&keypoints)?;
        self.found.annotations.push(CocoObject {
            id,
            image_id,
            category_id,
            bbox: bbox.map(|value| value as f32),
            area: area.unwrap_or(bbox[2] * bbox[3]) as f32,
            is_crowd,
            segmentation,
            keypoints,
        });
        Ok(())
    }

    /// Stores the keypoints of an object, and returns where; `None` if it has none.
    fn keypoints<E: Error>(&mut self, values: &[f64]) -> Result<Option<usize>, E> {
        if values.is_empty() {
            return Ok(None);
        }
        let (found, expected) = (values.len(), self.found.keypoint_values.unwrap_or(values.len()));
        if found != expected || found % 3 != 0 {
            let all = expected / 3;
            return Err(E::custom(format!(
                "`keypoints` has {found} numbers, expected x, y and visibility of {all} points, as many as other \
                 objects have"
            )));
        }
        self.found.keypoint_values = Some(found);
        let start = self.found.keypoints.len();
        self.found.keypoints.extend(values.iter().map(|&value| value as f32));
        Ok(Some(start))
    }
}

/// A list of numbers that are no farther than a coordinate may be.
struct Numbers<'a> {
    values: &'a mut Vec<f64>,
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} numbers", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.values.clear();
        while let Some(value) = list.next_element()? {
            if self.values.len() == self.most {
                return Err(A::Error::invalid_length(self.most + 1, &self));
            }
            self.values.push(checked(value)?);
        }
        Ok(())
    }
}

fn checked<E: Error>(value: f64) -> Result<f64, E> {
    if value.abs() > FARTHEST {
        return Err(E::custom(format!("coordinate {value}, the limit is {FARTHEST}")));
    }
    Ok(value)
}

/// The range of the bytes of a value of `segmentation`; empty if there is no mask.
struct SegmentationRange<'a> {
    position: &'a Cell<u64>,
}

impl<'de> DeserializeSeed<'de> for SegmentationRange<'_> {
    type Value = Range<u64>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Range<u64>, D::Error> {
        let start = self.position.get();
        let is_there = from.deserialize_any(Segmentation)?;
        Ok(if is_there { start..self.position.get() } else { 0..0 })
    }
}

/// A value of `segmentation`, which is checked and not stored. Its value is whether there is a mask.
struct Segmentation;

impl<'de> Visitor<'de> for Segmentation {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of polygons or an object with `size` and `counts`")
    }

    /// `null` is an object without a mask.
    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    /// A list without polygons is, too.
    fn visit_seq<A: SeqAccess<'de>>(self, mut polygons: A) -> Result<bool, A::Error> {
        let (mut is_there, mut points) = (false, 0);
        while let Some(coordinates) = polygons.next_element_seed(Polygon)? {
            is_there = true;
            points += coordinates.div_ceil(2);
            if points > MOST_POINTS {
                return Err(A::Error::custom(format!(
                    "the polygons have more than {MOST_POINTS} points, the limit"
                )));
            }
        }
        Ok(is_there)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let (mut size, mut has_counts) = (None, false);
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "size" => size = Some(map.next_value::<[u32; 2]>()?),
                key => {
                    has_counts |= key == "counts";
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        size.ok_or_else(|| A::Error::missing_field("size"))?;
        if has_counts { Ok(true) } else { Err(A::Error::missing_field("counts")) }
    }
}

/// A polygon, of which only the number of coordinates is returned.
struct Polygon;

impl<'de> DeserializeSeed<'de> for Polygon {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Polygon {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of coordinates")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(value) = list.next_element()? {
            checked::<A::Error>(value)?;
            count += 1;
            if count > 2 * MOST_POINTS {
                return Err(A::Error::custom(format!(
                    "a polygon of more than {MOST_POINTS} points, the limit"
                )));
            }
        }
        Ok(count)
    }
}
