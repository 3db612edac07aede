//! Reads the objects of a file in Pascal VOC's format.
//!
//! ```text
//! <annotation>
//!     <size> <width/> <height/> </size>?
//!     <object>
//!         <name>dog</name>  <difficult>0</difficult>?  <truncated>0</truncated>?
//!         <bndbox> <xmin/> <ymin/> <xmax/> <ymax/> </bndbox>
//!     </object>*
//! </annotation>                               in any order, and with other elements, such as an object's `part`s
//! ```
//!
//! A document type is skipped, and the entities that it defines are unknown: only characters by their number and XML's
//! five entities have a value.

use super::{FARTHEST, MOST_OBJECTS};
use fuseloop_ops::Size;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, Event};
use std::fmt;
use std::str::FromStr;

/// The most elements that contain each other.
const MOST_DEPTH: usize = 64;

/// The elements of a box, in the order of its numbers.
const SIDES: [&str; 4] = ["xmin", "ymin", "xmax", "ymax"];

/// An object, with its numbers as stored.
#[derive(Debug, PartialEq)]
pub(super) struct VocObject {
    pub(super) name: String,
    pub(super) bbox: [f64; 4],
    pub(super) difficult: i64,
    pub(super) truncated: i64,
}

/// The content of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct VocFile {
    /// The size of the image; without pixels if the file has none.
    pub(super) size: Size,
    pub(super) objects: Vec<VocObject>,
}

/// An element that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    Annotation,
    /// The size of the image.
    Size,
    Width,
    Height,
    Object,
    Name,
    Difficult,
    Truncated,
    Box,
    /// A side of the box, by its index.
    Side(usize),
    /// Anything else, with all that is in it.
    Other,
}

impl Element {
    fn of(parent: Option<Self>, name: &[u8]) -> Self {
        match (parent, name) {
            (None, b"annotation") => Self::Annotation,
            (Some(Self::Annotation), b"object") => Self::Object,
            (Some(Self::Annotation), b"size") => Self::Size,
            (Some(Self::Size), b"width") => Self::Width,
            (Some(Self::Size), b"height") => Self::Height,
            (Some(Self::Object), b"name") => Self::Name,
            (Some(Self::Object), b"difficult") => Self::Difficult,
            (Some(Self::Object), b"truncated") => Self::Truncated,
            (Some(Self::Object), b"bndbox") => Self::Box,
            (Some(Self::Box), name) => {
                let side = SIDES.iter().position(|side| side.as_bytes() == name);
                side.map_or(Self::Other, Self::Side)
            }
            _ => Self::Other,
        }
    }

    /// Returns whether the element's text is a value.
    fn has_text(self) -> bool {
        let is_size = matches!(self, Self::Width | Self::Height);
        is_size || matches!(self, Self::Name | Self::Difficult | Self::Truncated | Self::Side(_))
    }
}

/// Shows the path of an element in its object.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation => f.write_str("annotation"),
            Self::Size => f.write_str("size"),
            Self::Width => f.write_str("size/width"),
            Self::Height => f.write_str("size/height"),
            Self::Object => f.write_str("object"),
            Self::Name => f.write_str("name"),
            Self::Difficult => f.write_str("difficult"),
            Self::Truncated => f.write_str("truncated"),
            Self::Box => f.write_str("bndbox"),
            Self::Side(side) => write!(f, "bndbox/{}", SIDES[*side]),
            Self::Other => f.write_str("an element"),
        }
    }
}

/// The values of an object that were read so far.
#[derive(Default)]
struct Partial {
    name: Option<String>,
    sides: [Option<f64>; 4],
    difficult: Option<i64>,
    truncated: Option<i64>,
}

/// The elements that are open, and what was read.
#[derive(Default)]
struct Parser {
    open: Vec<Element>,
    has_root: bool,
    /// The text of the innermost element, if that is a value.
    text: String,
    size: Size,
    object: Partial,
    objects: Vec<VocObject>,
}

/// Reads the objects of a file. The error says what is wrong and where.
pub(super) fn parse(text: &str) -> Result<VocFile, String> {
    let mut reader = Reader::from_str(text);
    let mut parser = Parser::default();
    loop {
        let event = reader.read_event();
        let event = event
            .map_err(|error| format!("byte {}: {error}: expected XML", reader.error_position()))?;
        let at = reader.buffer_position();
        match event {
            Event::Start(start) => parser.start(start.name().as_ref(), at)?,
            Event::Empty(start) => {
                parser.start(start.name().as_ref(), at)?;
                parser.end()?;
            }
            Event::End(_) => parser.end()?,
            Event::Text(found) => parser.add(&found.into_inner()),
            Event::CData(found) => parser.add(&found.into_inner()),
            Event::GeneralRef(reference) => parser.reference(&reference)?,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => return parser.finish(text.len()),
        }
    }
}

impl Parser {
    fn start(&mut self, name: &[u8], at: u64) -> Result<(), String> {
        let element = Element::of(self.open.last().copied(), name);
        let is_root = self.open.is_empty();
        if is_root && (element != Element::Annotation || self.has_root) {
            let name = String::from_utf8_lossy(name);
            return Err(format!("byte {at}: <{name}>, expected one <annotation> of Pascal VOC"));
        }
        if self.open.len() == MOST_DEPTH {
            return Err(format!("byte {at}: more than {MOST_DEPTH} nested elements"));
        }
        if element == Element::Object {
            if self.objects.len() as u64 == MOST_OBJECTS {
                return Err(format!("more than {MOST_OBJECTS} objects, the limit"));
            }
            self.object = Partial::default();
        }
        self.has_root = true;
        self.text.clear();
        self.open.push(element);
        Ok(())
    }

    /// Ends the innermost element. quick-xml has checked that one is open.
    fn end(&mut self) -> Result<(), String> {
        let Some(element) = self.open.pop() else { return Ok(()) };
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        let is_new = match element {
            Element::Object => {
                let object = self.complete()?;
                self.objects.push(object);
                true
            }
            Element::Name if text.is_empty() => return Err(self.wrong(element, "is empty")),
            Element::Name => self.object.name.replace(text.to_owned()).is_none(),
            Element::Difficult => {
                let value = self.number(element, text, "0 or 1")?;
                self.object.difficult.replace(value).is_none()
            }
            Element::Truncated => {
                let value = self.number(element, text, "0 or 1")?;
                self.object.truncated.replace(value).is_none()
            }
            Element::Side(side) => {
                let value: f64 = self.number(element, text, "a number")?;
                if value.is_nan() || value.abs() > FARTHEST {
                    let what = format!("is {value}, the limit of a coordinate is {FARTHEST}");
                    return Err(self.wrong(element, &what));
                }
                self.object.sides[side].replace(value).is_none()
            }
            // It is not needed to read the objects: what is no size is none.
            Element::Width | Element::Height => {
                let side = text.parse().unwrap_or_default();
                match element {
                    Element::Width => self.size.width = side,
                    _ => self.size.height = side,
                }
                true
            }
            Element::Annotation | Element::Size | Element::Box | Element::Other => true,
        };
        if is_new { Ok(()) } else { Err(self.wrong(element, "occurs twice, expected once")) }
    }

    fn add(&mut self, text: &[u8]) {
        if self.open.last().is_some_and(|element| element.has_text()) {
            // The whole text is UTF-8, and its parts end at ASCII characters.
            self.text.push_str(&String::from_utf8_lossy(text));
        }
    }

    /// Adds the character that a reference stands for.
    fn reference(&mut self, reference: &BytesRef<'_>) -> Result<(), String> {
        let Some(element) = self.open.last().copied().filter(|element| element.has_text()) else {
            return Ok(());
        };
        let name = String::from_utf8_lossy(reference);
        let text = match reference.resolve_char_ref() {
            Ok(Some(character)) => Some(character.to_string()),
            _ => resolve_predefined_entity(&name).map(ToOwned::to_owned),
        };
        let text = text.ok_or_else(|| {
            self.wrong(element, &format!("has &{name};, which is unknown: write the text itself"))
        })?;
        self.text.push_str(&text);
        Ok(())
    }

    fn number<T: FromStr>(&self, element: Element, text: &str, what: &str) -> Result<T, String> {
        let number = text.parse();
        number.map_err(|_| self.wrong(element, &format!("is {text:?}, expected {what}")))
    }

    /// Returns the object that has ended.
    fn complete(&mut self) -> Result<VocObject, String> {
        let missing = |element| self.wrong(element, "is missing");
        let name = self.object.name.clone().ok_or_else(|| missing(Element::Name))?;
        let mut bbox = [0.0; 4];
        for (side, value) in bbox.iter_mut().enumerate() {
            *value = self.object.sides[side].ok_or_else(|| missing(Element::Side(side)))?;
        }
        let Partial { difficult, truncated, .. } = self.object;
        let [difficult, truncated] = [difficult, truncated].map(Option::unwrap_or_default);
        Ok(VocObject { name, bbox, difficult, truncated })
    }

    /// Returns an error about an element of the current object.
    fn wrong(&self, element: Element, what: &str) -> String {
        let name = self.object.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        format!("object {}{name}: `{element}` {what}", self.objects.len() + 1)
    }

    fn finish(self, size: usize) -> Result<VocFile, String> {
        if !self.open.is_empty() {
            return Err(format!(
                "byte {size}: the file ends within an element: it may be cut short"
            ));
        }
        if !self.has_root {
            return Err("no <annotation>: expected the XML of Pascal VOC".to_owned());
        }
        Ok(VocFile { size: self.size, objects: self.objects })
    }
}
