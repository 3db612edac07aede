//! The meaning of the fields of annotated images: boxes and their format, classes, keypoints, masks.
//!
//! A field of bytes does not say what its numbers are, and an image does not say that it is a mask. The
//! dataset that they are from knows it, and `convert` stores it beside the data: in `x.beton.objects.json`,
//! or in a feature of each TFRecord example.
//!
//! ```text
//! {"fuseloop":"objects","version":1,"fields":[
//! {"as":"image_id","name":"image_id"},
//! {"as":"boxes","format":"xywh","name":"bbox"},
//! {"as":"classes","name":"category_id"},
//! {"as":"column","dtype":"<f4","name":"area"},
//! {"as":"segmentation","name":"segmentation"},
//! {"as":"keypoints","each":17,"name":"keypoints","flip_pairs":[[1,2],[3,4]],"continuous":true},
//! {"as":"mask","name":"mask"}
//! ]}
//! ```
//!
//! | `as`           | kind  | a sample                                              |
//! |----------------|-------|-------------------------------------------------------|
//! | `boxes`        | bytes | f32, the numbers of a box for each object, in pixels  |
//! | `classes`      | bytes | i64, the class of each object                         |
//! | `column`       | bytes | a number of `dtype`, which tensors have, for each object |
//! | `keypoints`    | bytes | f32 `[objects, each, 3]`: x, y and visibility. `flip_pairs` change places in a mirror; `continuous` coordinates are no indices of pixels |
//! | `segmentation` | JSON  | a list with COCO's value for each object              |
//! | `image_id`     | int   | the number of the image                               |
//! | `mask`         | image | the number of a class for each pixel of the image     |

use super::beside::BesideFile;
use super::{ClassNames, Location};
use super::{FieldKind, FieldSpec, NdType};
use crate::error::Error;
use crate::escape::shown;
use fuseloop_ops::BoxFormat;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
#[cfg(feature = "write")]
use std::path::{Path, PathBuf};

const FILE: BesideFile = BesideFile {
    suffix: ".objects.json",
    begin: r#"{"fuseloop":"objects","#,
    most_bytes: 1 << 20,
    content: "description of objects",
};

const VERSION: u64 = 1;

/// The key of the fields in the metadata of Parquet files.
#[cfg(feature = "parquet")]
pub(crate) const OBJECTS_KEY: &str = "fuseloop";

/// The most keypoints of an object, as in the declaration of targets.
const MOST_KEYPOINTS: u64 = 1024;

/// The meaning of the fields of a dataset's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectFields {
    fields: Vec<(String, ObjectField)>,
    /// What more is known of the keypoints of a field.
    keypoints: BTreeMap<String, KeypointLayout>,
    /// The names of the objects' classes, if they are not those of the dataset; none if the classes have no names.
    classes: Option<ClassNames>,
}

/// What a dataset knows of its keypoints beside their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeypointLayout {
    /// The keypoints that change places when the image is mirrored.
    pub flip_pairs: Vec<[usize; 2]>,
    /// True if positions are continuous coordinates, in which the middle of the first pixel is (1/2, 1/2).
    pub is_continuous: bool,
}

impl KeypointLayout {
    fn of_json(value: &Value, each: u64) -> Option<Self> {
        let index = |value: &Value| {
            value.as_u64().filter(|&index| index < each).map(|index| index as usize)
        };
        let pair = |pair: &Value| match &pair.as_array()?[..] {
            [one, other] => Some([index(one)?, index(other)?]),
            _ => None,
        };
        let flip_pairs = match value.get("flip_pairs") {
            None => vec![],
            Some(pairs) => pairs.as_array()?.iter().map(pair).collect::<Option<Vec<_>>>()?,
        };
        let is_continuous =
            value.get("continuous").is_some_and(|value| *value == Value::Bool(true));
        Some(Self { flip_pairs, is_continuous })
    }

    fn add_to(&self, json: &mut Value) {
        if !self.flip_pairs.is_empty() {
            json["flip_pairs"] = json!(self.flip_pairs);
        }
        if self.is_continuous {
            json["continuous"] = json!(true);
        }
    }
}

/// The meaning of a field of objects, or of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectField {
    /// Bounding boxes in pixels.
    Boxes(BoxFormat),
    /// The numbers of the objects' classes.
    Classes,
    /// Other numbers, one for each object, of a type that tensors have.
    Column(NdType),
    /// A number of keypoints for each object.
    Keypoints(u64),
    /// The masks of the objects.
    Segmentation,
    /// The number of the image, which is no object's.
    ImageId,
    /// An image whose values are the classes of the pixels of another image.
    Mask,
}

impl ObjectField {
    /// Returns the type and the shape of an object's numbers; `None` for fields that are not bytes.
    pub(crate) fn row(self) -> Option<(NdType, Vec<u64>)> {
        match self {
            Self::Boxes(format) => Some((NdType::F32, vec![format.columns() as u64])),
            Self::Classes => Some((NdType::I64, vec![])),
            Self::Column(dtype) => Some((dtype, vec![])),
            Self::Keypoints(each) => Some((NdType::F32, vec![each, 3])),
            Self::Segmentation | Self::ImageId | Self::Mask => None,
        }
    }

    /// Returns true if the field has positions in its image, or a value for each of its pixels.
    pub(crate) fn has_positions(self) -> bool {
        match self {
            Self::Boxes(_) | Self::Keypoints(_) | Self::Segmentation | Self::Mask => true,
            Self::Classes | Self::Column(_) | Self::ImageId => false,
        }
    }

    fn fits(self, kind: &FieldKind) -> bool {
        match self {
            Self::Segmentation => *kind == FieldKind::Json,
            Self::ImageId => *kind == FieldKind::Int,
            Self::Mask => kind.is_image(),
            _ => *kind == FieldKind::Bytes,
        }
    }

    fn to_json(self, name: &str) -> Value {
        match self {
            Self::Boxes(format) => json!({"name": name, "as": "boxes", "format": format.name()}),
            Self::Classes => json!({"name": name, "as": "classes"}),
            Self::Column(dtype) => {
                json!({"name": name, "as": "column", "dtype": dtype.to_string()})
            }
            Self::Keypoints(each) => json!({"name": name, "as": "keypoints", "each": each}),
            Self::Segmentation => json!({"name": name, "as": "segmentation"}),
            Self::ImageId => json!({"name": name, "as": "image_id"}),
            Self::Mask => json!({"name": name, "as": "mask"}),
        }
    }

    fn of_json(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key)?.as_str();
        Some(match text("as")? {
            "boxes" => Self::Boxes(BoxFormat::from_name(text("format")?)?),
            "classes" => Self::Classes,
            "column" => {
                let dtype: NdType = text("dtype")?.parse().ok()?;
                Self::Column(Some(dtype).filter(|dtype| dtype.element_type().is_some())?)
            }
            "keypoints" => {
                let each = value.get("each")?.as_u64()?;
                Self::Keypoints(Some(each).filter(|each| (1..=MOST_KEYPOINTS).contains(each))?)
            }
            "segmentation" => Self::Segmentation,
            "image_id" => Self::ImageId,
            "mask" => Self::Mask,
            _ => return None,
        })
    }
}

/// Describes the field for people.
impl fmt::Display for ObjectField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boxes(format) => write!(f, "boxes, {}, in pixels", format.name()),
            Self::Classes => f.write_str("classes"),
            Self::Column(dtype) => write!(f, "a number per object, {dtype}"),
            Self::Keypoints(1) => f.write_str("1 keypoint per object"),
            Self::Keypoints(each) => write!(f, "{each} keypoints per object"),
            Self::Segmentation => f.write_str("a mask per object"),
            Self::ImageId => f.write_str("the number of the image"),
            Self::Mask => f.write_str("a mask: the class of each pixel"),
        }
    }
}

impl ObjectFields {
    /// Returns the names of the fields and what each is, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, ObjectField)> {
        self.fields.iter().map(|(name, field)| (&**name, *field))
    }

    /// Adds what is known of the keypoints of a field.
    #[must_use]
    pub(crate) fn with_keypoints(mut self, name: &str, layout: KeypointLayout) -> Self {
        if layout != KeypointLayout::default() {
            self.keypoints.insert(name.to_owned(), layout);
        }
        self
    }

    /// Returns what is known of the keypoints of a field.
    pub(crate) fn keypoints(&self, name: &str) -> Option<&KeypointLayout> {
        self.keypoints.get(name)
    }

    /// Sets the names of the objects' classes, which are not those of the dataset: the classes of the images have these.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub(super) fn with_class_names(self, classes: ClassNames) -> Self {
        Self { classes: Some(classes), ..self }
    }

    /// Returns the names of the objects' classes, if they are not those of the dataset.
    #[cfg(all(feature = "parquet", feature = "write"))]
    pub(crate) fn class_names(&self) -> Option<&ClassNames> {
        self.classes.as_ref()
    }

    /// Returns the same fields with all boxes in this format.
    #[cfg(all(feature = "parquet", feature = "write"))]
    #[must_use]
    pub(crate) fn with_boxes(mut self, format: BoxFormat) -> Self {
        for (_, field) in &mut self.fields {
            if let ObjectField::Boxes(of) = field {
                *of = format;
            }
        }
        self
    }

    /// Returns what the field of this name is.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ObjectField> {
        self.iter().find(|(other, _)| *other == name).map(|(_, field)| field)
    }

    /// Returns the only boxes, with the name of their field.
    pub(crate) fn boxes(&self) -> Option<(&str, BoxFormat)> {
        let mut boxes = self.iter().filter_map(|(name, field)| match field {
            ObjectField::Boxes(format) => Some((name, format)),
            _ => None,
        });
        boxes.next().filter(|_| boxes.next().is_none())
    }

    /// Returns those of the fields that a dataset has; `None` if there are none.
    pub(crate) fn among(mut self, fields: &[FieldSpec]) -> Option<Self> {
        let is_among = |(name, field): &(String, ObjectField)| {
            fields.iter().any(|spec| spec.name == *name && field.fits(&spec.kind))
        };
        self.fields.retain(is_among);
        let fields = &self.fields;
        self.keypoints.retain(|name, _| fields.iter().any(|(other, _)| other == name));
        Some(self).filter(|fields| !fields.fields.is_empty())
    }

    /// Returns the same fields under other names.
    pub(crate) fn renamed<'a>(
        &self,
        names: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<Self> {
        let mut fields = Self { classes: self.classes.clone(), ..Self::default() };
        for (from, to) in names {
            let Some(field) = self.get(from) else { continue };
            fields.fields.push((to.to_owned(), field));
            fields = fields.with_keypoints(to, self.keypoints(from).cloned().unwrap_or_default());
        }
        Some(fields).filter(|fields| !fields.fields.is_empty())
    }

    /// Returns the JSON text of the fields: a line for each, or all in one line.
    pub(crate) fn to_json(&self, between: &str) -> String {
        let fields = self.iter().map(|(name, field)| {
            let mut json = field.to_json(name);
            if let Some(layout) = self.keypoints(name) {
                layout.add_to(&mut json);
            }
            json.to_string()
        });
        let fields = fields.collect::<Vec<_>>().join(&format!(",{between}"));
        format!(
            "{}\"version\":{VERSION},\"fields\":[{between}{fields}{between}]}}{between}",
            FILE.begin
        )
    }

    /// Parses the JSON text of fields.
    ///
    /// # Errors
    ///
    /// Fails if the text is of another form or version; the error says why.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        // Each name is compared with all others.
        let (bytes, most) = (text.len() as u64, FILE.most_bytes);
        if bytes > most {
            return Err(format!("{bytes} bytes of descriptions of objects, the limit is {most}"));
        }
        let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if value["version"] != VERSION {
            let found = value["version"].to_string();
            let found = shown(&found);
            return Err(format!("objects of version {found}, this release reads {VERSION}"));
        }
        let mut found = Self::default();
        for value in value["fields"].as_array().ok_or("the list of fields is missing")? {
            let name = value.get("name").and_then(Value::as_str);
            let Some((name, field)) = name.zip(ObjectField::of_json(value)) else {
                let found = value.to_string();
                let found = shown(&found);
                return Err(format!("{found} is no field of objects that this release knows"));
            };
            if found.get(name).is_some() {
                return Err(format!("field {:?} is listed twice", shown(name)));
            }
            found.fields.push((name.to_owned(), field));
            if let ObjectField::Keypoints(each) = field {
                let layout = KeypointLayout::of_json(value, each);
                let layout = layout.ok_or_else(|| {
                    let found = value.to_string();
                    format!("{}: `flip_pairs` is no list of pairs of keypoints", shown(&found))
                })?;
                found = found.with_keypoints(name, layout);
            }
        }
        Ok(found)
    }

    /// Reads what is stored beside a dataset of a single file, for its fields.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read or is damaged.
    pub(super) fn beside_file(
        file: Option<&Location>,
        fields: &[FieldSpec],
    ) -> Result<Option<Self>, Error> {
        let Some(file) = file else { return Ok(None) };
        let found = FILE.read_beside(file, Self::parse)?;
        Ok(found.and_then(|found| found.among(fields)))
    }

    /// Reads what is stored beside shards.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read or is damaged.
    #[cfg(feature = "tar")]
    pub(super) fn beside_shards<'a>(
        shards: impl Iterator<Item = &'a Location>,
    ) -> Result<Option<Self>, Error> {
        FILE.of_shards(shards, Self::parse)
    }
}

#[cfg(feature = "write")]
impl ObjectFields {
    /// Returns the fields and others.
    #[must_use]
    pub(crate) fn with<S: Into<String>>(
        mut self,
        others: impl IntoIterator<Item = (S, ObjectField)>,
    ) -> Self {
        self.fields.extend(others.into_iter().map(|(name, field)| (name.into(), field)));
        self
    }
}

impl<S: Into<String>> FromIterator<(S, ObjectField)> for ObjectFields {
    fn from_iter<I: IntoIterator<Item = (S, ObjectField)>>(fields: I) -> Self {
        let fields = fields.into_iter().map(|(name, field)| (name.into(), field)).collect();
        Self { fields, ..Self::default() }
    }
}

/// Returns the path of the file beside the dataset at this path.
#[cfg(feature = "write")]
pub(crate) fn objects_beside(dataset: &Path) -> PathBuf {
    FILE.path(dataset)
}

/// Returns the file beside other shards that readers would take for that of these.
#[cfg(feature = "write")]
pub(crate) fn objects_of_others(
    dataset: (&Path, &Path),
    is_shard: impl Fn(&str) -> bool,
) -> Option<PathBuf> {
    FILE.of_others(dataset, is_shard)
}

/// Returns whether there is a file of ours at this path.
#[cfg(feature = "write")]
pub(crate) fn is_object_file(path: &Path) -> bool {
    FILE.is_at(path)
}
