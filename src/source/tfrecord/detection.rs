//! The features of annotated objects in TensorFlow's detection datasets, as the fields that targets read.
//!
//! | feature | list | field |
//! |---|---|---|
//! | `image/object/bbox/xmin`, `ymin`, `xmax`, `ymax` | floats, divided by the width and height of the image | `bbox`: f32 `[N, 4]`, left, top, right and bottom edge in pixels |
//! | `image/object/class/label` | ints | `category_id`: i64 `[N]` |
//! | `image/object/is_crowd`, `difficult`, `truncated`, `group_of` | ints | `iscrowd`, `difficult`, `truncated`, `group_of`: i64 `[N]` |
//! | `image/object/area` | floats | `area`: f32 `[N]` |
//! | `image/object/mask` | a PNG for each object | `segmentation`: JSON, the runs of each mask |
//!
//! A dataset whose first record has the four lists of the boxes is one of these. All lists of a record have
//! one length; a list that is missing is empty. The size of an image is in `image/width` and `image/height`,
//! or else in the header of its file, which they may not contradict.

use super::example::{ExampleFeature, Kind};
use super::marks::NamedFeatures;
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::image_format::begins_as_image;
use crate::source::image_header::ImageHeader;
use crate::source::{FieldKind, NdType, ObjectField, OwnedValue, column_runs};
use fuseloop_ops::{BoxFormat, Size};
use std::fmt::Write as _;
use std::io::Cursor;

/// The beginning of the names of all features of objects.
pub(super) const OBJECT: &str = "image/object/";

/// The lists of the boxes, in the order of an edge's index in a box.
pub(crate) const EDGES: [&str; 4] = [
    "image/object/bbox/xmin",
    "image/object/bbox/ymin",
    "image/object/bbox/xmax",
    "image/object/bbox/ymax",
];

pub(crate) const LABEL: &str = "image/object/class/label";
pub(crate) const TEXT: &str = "image/object/class/text";
pub(crate) const MASK: &str = "image/object/mask";
pub(crate) const WIDTH: &str = "image/width";
pub(crate) const HEIGHT: &str = "image/height";

/// The features of other numbers, their fields, and whether they are floats.
pub(crate) const COLUMNS: [(&str, &str, bool); 5] = [
    ("image/object/area", "area", true),
    ("image/object/difficult", "difficult", false),
    ("image/object/group_of", "group_of", false),
    ("image/object/is_crowd", "iscrowd", false),
    ("image/object/truncated", "truncated", false),
];

/// The most objects of one image.
const MOST_OBJECTS: usize = 10_000;

/// How far a box may lie outside its image, as a share of the image's size: more than rounding, so that
/// pixels in place of shares are found.
const OUTSIDE: f32 = 0.01;

/// A field that is made of features of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detected {
    Boxes,
    Classes,
    /// The index in [`COLUMNS`].
    Column(usize),
    Masks,
}

impl Detected {
    /// Returns the name of the field.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Boxes => "bbox",
            Self::Classes => "category_id",
            Self::Column(index) => COLUMNS[index].1,
            Self::Masks => "segmentation",
        }
    }

    pub(super) fn kind(self) -> FieldKind {
        if self == Self::Masks { FieldKind::Json } else { FieldKind::Bytes }
    }

    /// Returns what the field is.
    pub(super) fn field(self) -> ObjectField {
        match self {
            Self::Boxes => ObjectField::Boxes(BoxFormat::Xyxy),
            Self::Classes => ObjectField::Classes,
            Self::Column(index) if COLUMNS[index].2 => ObjectField::Column(NdType::F32),
            Self::Column(_) => ObjectField::Column(NdType::I64),
            Self::Masks => ObjectField::Segmentation,
        }
    }

    /// Returns the features that the field is made of.
    fn features(self) -> &'static [&'static str] {
        match self {
            Self::Boxes => &EDGES,
            Self::Classes => &[LABEL],
            Self::Column(index) => std::slice::from_ref(&COLUMNS[index].0),
            Self::Masks => &[MASK],
        }
    }

    /// Returns the fields of a first record; none if it has no boxes.
    pub(super) fn of(features: &NamedFeatures) -> Vec<Self> {
        let is_there =
            |field: &Self| field.features().iter().all(|name| features.contains_key(*name));
        if !is_there(&Self::Boxes) {
            return vec![];
        }
        Self::all().filter(is_there).collect()
    }

    fn all() -> impl Iterator<Item = Self> {
        let columns = (0..COLUMNS.len()).map(Self::Column);
        [Self::Boxes, Self::Classes, Self::Masks].into_iter().chain(columns)
    }
}

/// Returns true if a field is made of this feature, or names the classes.
pub(super) fn is_used(name: &str) -> bool {
    name == TEXT || Detected::all().any(|field| field.features().contains(&name))
}

/// The objects of a record.
pub(super) struct Objects<'a> {
    features: &'a NamedFeatures,
    count: usize,
    /// The size of the image, if there are objects.
    size: Option<Size>,
    limits: &'a Limits,
}

impl<'a> Objects<'a> {
    /// Counts the objects of a record, and reads the size of its image.
    pub(super) fn of(features: &'a NamedFeatures, limits: &'a Limits) -> Result<Self, Error> {
        let length = |name: &str| match features.get(name).map(|feature| &feature.kind) {
            Some(Some(Kind::Floats(list))) => list.value.len(),
            _ => 0,
        };
        let count = EDGES.map(length).into_iter().max().unwrap_or_default();
        if count > MOST_OBJECTS {
            let feature = EDGES[0];
            return Err(fail!(
                Damaged,
                "feature {feature} has {count} values, one for each object, and the limit is {MOST_OBJECTS}"
            ));
        }
        let size = if count > 0 { Some(size_of(features)?) } else { None };
        Ok(Self { features, count, size, limits })
    }

    /// Returns the value of a field.
    pub(super) fn value(&self, field: Detected) -> Result<OwnedValue, Error> {
        Ok(match field {
            Detected::Boxes => OwnedValue::Bytes(self.boxes()?),
            Detected::Classes => OwnedValue::Bytes(self.ints(LABEL)?),
            Detected::Column(index) => {
                let (name, _, is_float) = COLUMNS[index];
                OwnedValue::Bytes(if is_float {
                    self.floats(name)?.iter().flat_map(|value| value.to_le_bytes()).collect()
                } else {
                    self.ints(name)?
                })
            }
            Detected::Masks => OwnedValue::Json(self.masks()?),
        })
    }

    fn kind(&self, name: &str) -> Option<&'a Kind> {
        self.features.get(name).and_then(|feature| feature.kind.as_ref())
    }

    fn counted(&self, name: &str, found: usize) -> Result<(), Error> {
        if found == self.count {
            return Ok(());
        }
        let wanted = self.count;
        Err(fail!(Damaged, "feature {name} has {found} values, expected {wanted}"))
    }

    fn floats(&self, name: &str) -> Result<&'a [f32], Error> {
        let values = match self.kind(name) {
            None => &[][..],
            Some(Kind::Floats(list)) => &list.value,
            Some(other) => return Err(other_kind(name, other, "floats")),
        };
        self.counted(name, values.len())?;
        Ok(values)
    }

    fn ints(&self, name: &str) -> Result<Vec<u8>, Error> {
        let values = match self.kind(name) {
            None => &[][..],
            Some(Kind::Ints(list)) => &list.value,
            Some(other) => return Err(other_kind(name, other, "ints")),
        };
        self.counted(name, values.len())?;
        Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// Returns the edges of the boxes in pixels.
    fn boxes(&self) -> Result<Vec<u8>, Error> {
        let mut edges = [&[][..]; 4];
        for (name, values) in EDGES.into_iter().zip(&mut edges) {
            *values = self.floats(name)?;
            let is_inside = |value: &f32| (-OUTSIDE..=1.0 + OUTSIDE).contains(value);
            if let Some(index) = values.iter().position(|value| !is_inside(value)) {
                let found = values[index];
                return Err(fail!(
                    Damaged,
                    "feature {name}: object {index} has the coordinate {found}, expected 0 to 1, divided by the size of the image"
                ));
            }
        }
        let size = self.size.unwrap_or_default();
        let sides = [size.width, size.height, size.width, size.height];
        let mut bytes = Vec::with_capacity(16 * self.count);
        for object in 0..self.count {
            for (values, side) in edges.iter().zip(sides) {
                bytes.extend(pixels(values[object], side).to_le_bytes());
            }
        }
        Ok(bytes)
    }

    /// Returns the masks as runs, in COCO's JSON.
    fn masks(&self) -> Result<Vec<u8>, Error> {
        let files = match self.kind(MASK) {
            None => &[][..],
            Some(Kind::Bytes(list)) => &list.value,
            Some(other) => return Err(other_kind(MASK, other, "bytes")),
        };
        self.counted(MASK, files.len())?;
        let size = self.size.unwrap_or_default();
        let mut text = String::from("[");
        for (index, file) in files.iter().enumerate() {
            let wrong = |reason: String| {
                fail!(Damaged, "feature image/object/mask: object {index}: {reason}")
            };
            let pixels = mask_pixels(file, size, self.limits).map_err(wrong)?;
            let runs = column_runs(&pixels, size);
            let separator = if index == 0 { "" } else { "," };
            // Writing to a text can't fail.
            let _ = write!(text, "{separator}{{\"size\":[{},{}],", size.height, size.width);
            let _ = write!(text, "\"counts\":[");
            for (index, run) in runs.iter().enumerate() {
                let separator = if index == 0 { "" } else { "," };
                let _ = write!(text, "{separator}{run}");
            }
            text.push_str("]}");
            if text.len() as u64 > self.limits.max_sample_bytes {
                let max = self.limits.max_sample_bytes;
                return Err(wrong(format!("the runs need more bytes than the limit of {max}")));
            }
        }
        text.push_str("]\0");
        Ok(text.into_bytes())
    }
}

/// Returns the pixel coordinate of a share of a side, with one rounding.
#[expect(clippy::cast_possible_truncation, reason = "boxes are stored in f32")]
fn pixels(share: f32, side: u32) -> f32 {
    (f64::from(share) * f64::from(side)) as f32
}

/// Returns the share of a side that a pixel coordinate is, with one rounding.
#[cfg(feature = "write")]
#[expect(clippy::cast_possible_truncation, reason = "the format has 32 bits")]
pub(crate) fn share(pixels: f64, side: u32) -> f32 {
    (pixels / f64::from(side)) as f32
}

/// Returns the size of a record's image: that of its features, or else of the header of its file.
fn size_of(features: &NamedFeatures) -> Result<Size, Error> {
    let side = |name: &str| match features.get(name).map(|feature| &feature.kind) {
        Some(Some(Kind::Ints(list))) if list.value.len() == 1 => {
            let side = u32::try_from(list.value[0]).ok().filter(|&side| side > 0);
            let found = list.value[0];
            side.map(Some).ok_or_else(|| {
                fail!(Damaged, "feature {name} is {found}, expected the number of pixels")
            })
        }
        _ => Ok(None),
    };
    let images = features.iter().filter(|(name, _)| !name.starts_with(OBJECT));
    let mut images = images.filter_map(|(_, feature)| image(feature)).map(ImageHeader::parse);
    let (first, several) = (images.next(), images.next().is_some());
    if let (Some(height), Some(width)) = (side(HEIGHT)?, side(WIDTH)?) {
        let annotated = Size { height, width };
        return match first {
            // A header that can't be read is refused where the image is decoded.
            Some(Ok(header)) if !several && !header.is_of(annotated) => Err(fail!(
                Damaged,
                "image/width is {} and image/height is {}, but the image has width {} and height {}: correct the features (boxes that are drawn on another size lie elsewhere)",
                annotated.width,
                annotated.height,
                header.size.width,
                header.size.height
            )),
            _ => Ok(annotated),
        };
    }
    match first {
        Some(Ok(header)) if !several => Ok(header.size),
        Some(Err(reason)) if !several => Err(no_size(&reason)),
        Some(_) => Err(no_size("it has several images")),
        None => Err(no_size("it has no image")),
    }
}

fn no_size(reason: &str) -> Error {
    fail!(
        Damaged,
        "it has boxes but no image/width and image/height, and the size of its image can't be read: {reason}"
    )
}

/// Returns the bytes of a feature that is one image.
fn image(feature: &ExampleFeature) -> Option<&[u8]> {
    match feature.kind.as_ref()? {
        Kind::Bytes(list) => match &list.value[..] {
            [one] if begins_as_image(one) => Some(one),
            _ => None,
        },
        _ => None,
    }
}

/// Decodes the mask of an object: a byte for each pixel, 0 outside. Colours are inside if a channel is not 0.
fn mask_pixels(file: &[u8], size: Size, limits: &Limits) -> Result<Vec<u8>, String> {
    if size.pixels() > limits.max_pixels {
        let (found, max) = (size.pixels(), limits.max_pixels);
        return Err(format!("the image has {found} pixels, the limit is {max}"));
    }
    let damaged = |error: png::DecodingError| format!("a damaged PNG: {error}");
    let mut decoder = png::Decoder::new(Cursor::new(file));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = reader.info().size();
    let found = Size { height, width };
    if found != size {
        return Err(format!("a mask of {found} for an image of {size}: both must have one size"));
    }
    let (color, depth) = reader.output_color_type();
    let (channels, sample) = (color.samples(), depth as usize / 8);
    let bytes = reader.output_buffer_size().ok_or("a PNG of too many bytes")?;
    let mut pixels = vec![];
    pixels.try_reserve_exact(bytes).map_err(|_| format!("no memory for {bytes} bytes"))?;
    pixels.resize(bytes, 0);
    reader.next_frame(&mut pixels).map_err(damaged)?;
    if channels * sample == 1 {
        return Ok(pixels);
    }
    // The last of two or four channels is alpha.
    let colours = sample * (channels - usize::from(channels % 2 == 0));
    let is_inside = |pixel: &[u8]| u8::from(pixel[..colours].iter().any(|&value| value != 0));
    Ok(pixels.chunks_exact(sample * channels).map(is_inside).collect())
}

fn other_kind(name: &str, found: &Kind, wanted: &'static str) -> Error {
    let found = match found {
        Kind::Bytes(_) => "bytes",
        Kind::Ints(_) => "ints",
        Kind::Floats(_) => "floats",
    };
    fail!(Damaged, "feature {name} is {found}, expected {wanted}")
}
