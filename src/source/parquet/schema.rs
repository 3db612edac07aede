//! The fields of a Parquet file: what its schema and the features of Hugging Face's `datasets` say of each column.
//!
//! | column                                           | feature          | field                                          |
//! |--------------------------------------------------|------------------|------------------------------------------------|
//! | `struct<bytes, path>`, binary                    | `Image`          | image: the bytes                               |
//! | the same                                         | others, as `Audio` | bytes                                        |
//! | the same                                         |                  | image, if its first value begins as one; or bytes |
//! | integers, booleans, dates and times              | `ClassLabel`, `Value` | int                                       |
//! | floats                                           | `Value`          | float                                          |
//! | text; text of JSON                               | `Value`          | bytes; JSON                                    |
//! | list of `struct<bytes, path>` or of binary         | `List(Image)`, … | bytes: a list of images (`packed_images.rs`)  |
//! | text that is a label (`classes.rs`)              | `Value`          | int: the number of its class                   |
//! | lists of numbers, all of one shape               | `List(length)`, `Array2D`, … | array                              |
//! | lists of numbers of which the first axis differs | `List`           | bytes: as many rows as a sample has            |
//! | a list of structures, a structure of lists       | `List({...})`    | of each number a field, as above               |
//! | everything else with texts and numbers           |                  | JSON                                           |
//!
//! Rows of boxes (a name of [`BOXES`], four numbers a row) and what lies beside them are the targets of the image. Boxes are
//! taken as `xywh`, the format of COCO, unless the metadata `fuseloop` of [`convert`](crate::write) says what they are. Columns that are none of this are left out with a warning: times of 96 bits,
//! decimals of bytes, bytes in lists of lists, lists of audio.

use super::leaf::Leaf;
use crate::source::dtype::NdKind;
use crate::source::{ClassNames, FieldKind, FieldSpec, NdType, ObjectField, ObjectFields};
use fuseloop_ops::BoxFormat;
use parquet::basic::ConvertedType;
use parquet::schema::types::{SchemaDescriptor, Type};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;

/// The names of columns of boxes.
const BOXES: [&str; 4] = ["bbox", "bboxes", "box", "boxes"];

/// The names of columns with the classes of boxes.
const CLASSES: [&str; 7] =
    ["category", "categories", "category_id", "class", "classes", "label", "labels"];

/// How the values of a field are read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum How {
    Int(NdType),
    Float,
    Bytes,
    /// Texts that are those of classes: the texts in the order of their bytes, with the numbers of the classes.
    Classes(Arc<[(String, i64)]>),
    Json,
    Image,
    /// Bytes that may be images: their first value tells.
    Binary,
    /// Numbers in lists, of which the lengths are known or not: their values tell.
    Lists(NdType, Vec<Option<u64>>),
    Array(NdType, Vec<u64>),
    /// Rows of this shape, any number of them.
    Rows(NdType, Vec<u64>),
    /// A value of any form, as JSON: the index of its column in the schema.
    Tree(usize),
    /// Lists of files of images.
    Images,
}

/// A field and the columns that it is read from.
#[derive(Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) how: How,
    /// The leaf; of several, the first.
    pub(super) leaf: Leaf,
    /// The number of leaves, which follow one another.
    pub(super) leaves: usize,
    /// The names of a feature `ClassLabel`.
    pub(super) names: Option<ClassNames>,
    /// The index of its column in the schema.
    pub(super) root: usize,
    /// True if the column has several leaves: the fields of one are those of one object.
    pub(super) is_of_several: bool,
    /// True if it is so, and the column is a list of structures: of objects, of which samples have any number.
    pub(super) is_of_objects: bool,
    pub(super) object: Option<ObjectField>,
    /// True if its bytes are audio files, of the feature `Audio`.
    pub(super) is_audio: bool,
}

/// The fields of a file.
#[derive(Clone, Default)]
pub(super) struct Plan {
    pub(super) columns: Vec<Column>,
    /// The names of the columns that are left out.
    pub(super) left_out: Vec<String>,
    /// What the fields of objects are, if the file says it.
    pub(super) objects: Option<ObjectFields>,
}

impl How {
    /// Returns whether all rows of a row group are decoded together.
    pub(super) fn is_of_group(&self) -> bool {
        matches!(
            self,
            Self::Lists(..) | Self::Array(..) | Self::Rows(..) | Self::Tree(_) | Self::Images
        )
    }

    /// Returns the kind of the field.
    pub(super) fn kind(&self) -> FieldKind {
        match self {
            Self::Int(_) | Self::Classes(_) => FieldKind::Int,
            Self::Float => FieldKind::Float,
            Self::Image => FieldKind::RgbImage,
            Self::Json | Self::Tree(_) => FieldKind::Json,
            Self::Array(dtype, shape) => FieldKind::NdArray { dtype: *dtype, shape: shape.clone() },
            Self::Bytes | Self::Binary | Self::Lists(..) | Self::Rows(..) | Self::Images => {
                FieldKind::Bytes
            }
        }
    }
}

/// A leaf of a column, as the schema and the features describe it.
struct Found<'a> {
    /// The names of the structures that it is in, and its own.
    names: Vec<&'a str>,
    leaf: Leaf,
    feature: Option<&'a Json>,
    /// The lengths of its lists, as far as the features have them.
    lens: Vec<Option<u64>>,
}

/// Where the walk through the schema is.
#[derive(Clone)]
struct At<'a> {
    nodes: Vec<&'a Type>,
    names: Vec<&'a str>,
    feature: Option<&'a Json>,
    lens: Vec<Option<u64>>,
    /// True below a sequence of structures, which is stored as a structure of sequences.
    is_turned: bool,
}

impl Plan {
    /// Returns the fields of a schema. Those that values must tell are not known yet.
    pub(super) fn new(
        schema: &SchemaDescriptor,
        features: Option<&Json>,
        objects: Option<ObjectFields>,
    ) -> Self {
        let mut plan = Self { objects, ..Self::default() };
        let mut next = 0;
        for (root, column) in schema.root_schema().get_fields().iter().enumerate() {
            let feature = features.and_then(|features| features.get(column.name()));
            let mut found = vec![];
            let at = At {
                nodes: vec![],
                names: vec![column.name()],
                feature,
                lens: vec![],
                is_turned: false,
            };
            walk(column, at, schema, &mut next, &mut found);
            plan.add(root, column, found);
        }
        plan.shorten_names();
        plan.declare_objects();
        plan
    }

    /// Reads the rows of objects as the file says that they are.
    fn declare_objects(&mut self) {
        for column in &mut self.columns {
            let object = self.objects.as_ref().and_then(|objects| objects.get(&column.name));
            let Some((object, (dtype, row))) =
                object.and_then(|object| Some((object, object.row()?)))
            else {
                continue;
            };
            let is_so =
                column.leaf.dtype() == Some(dtype) && column.leaf.axes.len() == row.len() + 1;
            if is_so && matches!(column.how, How::Lists(..)) {
                (column.how, column.object) = (How::Rows(dtype, row), Some(object));
            }
        }
    }

    fn add(&mut self, root: usize, column: &Type, found: Vec<Found<'_>>) {
        if let Some(file) = file_of(column, &found) {
            let feature = found[file].feature.and_then(|feature| feature["_type"].as_str());
            let how = match feature {
                Some("Image") => How::Image,
                Some("Value") | None => How::Binary,
                Some(_) => How::Bytes,
            };
            self.columns.push(Column {
                name: column.name().to_owned(),
                how,
                leaf: found[file].leaf.clone(),
                leaves: 1,
                names: None,
                root,
                is_of_several: false,
                is_of_objects: false,
                object: None,
                is_audio: feature == Some("Audio"),
            });
            return;
        }
        if let Some(list) = list_of_files(column, &found) {
            self.columns.push(Column {
                name: column.name().to_owned(),
                how: How::Images,
                leaf: found[list].leaf.clone(),
                leaves: 1,
                names: None,
                root,
                is_of_several: false,
                is_of_objects: false,
                object: None,
                is_audio: false,
            });
            return;
        }
        let is_plain = |found: &Found<'_>| found.leaf.dtype().is_some() || found.leaf.is_text();
        let needs_tree = has_map(column)
            || found
                .iter()
                .any(|found| !found.leaf.axes.is_empty() && found.leaf.dtype().is_none());
        let is_of_several = found.len() > 1;
        if needs_tree {
            match found.first() {
                Some(first) if found.iter().all(is_plain) => self.columns.push(Column {
                    name: column.name().to_owned(),
                    how: How::Tree(root),
                    leaf: first.leaf.clone(),
                    leaves: found.len(),
                    names: None,
                    root,
                    is_of_several: false,
                    is_of_objects: false,
                    object: None,
                    is_audio: false,
                }),
                _ => self.left_out.push(column.name().to_owned()),
            }
        }
        for found in found {
            let Found { names, leaf, feature, lens } = found;
            let is_in_lists = !leaf.axes.is_empty();
            if leaf.is_null() {
                self.left_out.push(names.join("."));
                continue;
            }
            let how = match leaf.dtype() {
                _ if has_map(column) => continue,
                Some(dtype) if is_in_lists => How::Lists(dtype, lens),
                None if is_in_lists => continue,
                Some(dtype) if dtype.kind == NdKind::Float => How::Float,
                Some(dtype) => How::Int(dtype),
                None if leaf.is_json() => How::Json,
                None if leaf.is_text() => How::Bytes,
                None if leaf.is_bytes() => match feature.and_then(|it| it["_type"].as_str()) {
                    Some("Image") => How::Image,
                    Some("Audio") => How::Bytes,
                    _ => How::Binary,
                },
                None => {
                    self.left_out.push(names.join("."));
                    continue;
                }
            };
            // A text with this feature is the path of a file.
            let is_audio = leaf.is_bytes()
                && !leaf.is_text()
                && feature.is_some_and(|feature| feature["_type"].as_str() == Some("Audio"));
            let texts = feature.and_then(|feature| feature.get("names")?.as_array());
            let class_names = texts.map(|texts| {
                let names = (0..).zip(texts);
                names
                    .filter_map(|(number, name)| Some((number, name.as_str()?.to_owned())))
                    .collect()
            });
            self.columns.push(Column {
                name: names.join("."),
                how,
                leaf,
                leaves: 1,
                names: class_names,
                root,
                is_of_several,
                is_of_objects: is_of_several && is_of(column, ConvertedType::LIST),
                object: None,
                is_audio,
            });
        }
    }

    /// Calls the fields in lists of structures by their own names alone, where these are unique.
    fn shorten_names(&mut self) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let short = |column: &Column| match column.how {
            How::Lists(..) => column.name.rsplit('.').next().unwrap_or_default().to_owned(),
            _ => column.name.clone(),
        };
        for column in &self.columns {
            *counts.entry(short(column)).or_default() += 1;
        }
        for column in &mut self.columns {
            let short = short(column);
            if counts.get(&short) == Some(&1) {
                column.name = short;
            }
        }
    }

    /// Leaves out the columns whose names `is_read` refuses, and names the fields of the others by their columns.
    pub(super) fn choose(&mut self, schema: &SchemaDescriptor, is_read: &dyn Fn(&str) -> bool) {
        let roots = schema.root_schema().get_fields();
        self.columns.retain_mut(|column| {
            let Some(root) = roots.get(column.root) else { return false };
            if !column.is_of_several {
                root.name().clone_into(&mut column.name);
            }
            is_read(root.name())
        });
        self.left_out.retain(|name| is_read(name));
    }

    /// Says which fields are the objects of the image, once the shapes of lists are known.
    pub(super) fn find_objects(&mut self) {
        if self.objects.is_some() {
            return;
        }
        let own = |column: &Column| {
            column.name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase()
        };
        let is_box = |column: &Column| {
            let is_of_four = matches!(&column.how, How::Rows(_, row) if *row == [4]);
            is_of_four && BOXES.contains(&&*own(column))
        };
        let Some(boxes) = self.columns.iter().position(is_box) else { return };
        let (root, is_of_several) = (self.columns[boxes].root, self.columns[boxes].is_of_several);
        for (index, column) in self.columns.iter_mut().enumerate() {
            let is_named_class = CLASSES.contains(&&*own(column));
            let How::Rows(dtype, row) = &mut column.how else { continue };
            if column.is_of_several != is_of_several || is_of_several && column.root != root {
                continue;
            }
            let is_int = matches!(dtype.kind, NdKind::Int | NdKind::UInt);
            let is_class = column.names.is_some() || is_named_class;
            column.object = match &row[..] {
                [4] if index == boxes
                    && (dtype.kind != NdKind::Float || dtype.item_size() >= 4) =>
                {
                    *dtype = NdType::F32;
                    Some(ObjectField::Boxes(BoxFormat::Xywh))
                }
                [] if is_int && is_class => {
                    *dtype = NdType::I64;
                    Some(ObjectField::Classes)
                }
                [] if is_of_several && dtype.element_type().is_some() => {
                    Some(ObjectField::Column(*dtype))
                }
                _ => None,
            };
        }
    }

    /// Returns the names of the classes: those of the label, or else of the objects.
    pub(super) fn class_names(&self) -> Option<&ClassNames> {
        self.label_names().or_else(|| self.classes_of_objects()?.names.as_ref())
    }

    fn label_names(&self) -> Option<&ClassNames> {
        let named = self.columns.iter().filter(|column| column.names.is_some());
        let is_int = |column: &&Column| matches!(column.how, How::Int(_) | How::Classes(_));
        let labels = || named.clone().filter(is_int);
        labels().find(|column| column.name == "label").or(labels().next())?.names.as_ref()
    }

    fn classes_of_objects(&self) -> Option<&Column> {
        self.columns.iter().find(|column| column.object == Some(ObjectField::Classes))
    }

    /// Returns what the fields of objects are; `None` if there are none.
    pub(super) fn object_fields(&self, fields: &[FieldSpec]) -> Option<ObjectFields> {
        let found = self.columns.iter();
        let found = found.filter_map(|column| Some((column.name.clone(), column.object?)));
        // Rows that are not stored as the file declares them are no objects.
        let is_so = |spec: &&FieldSpec| {
            let declared = self.objects.as_ref().and_then(|objects| objects.get(&spec.name));
            let is_object = |column: &Column| column.name == spec.name && column.object == declared;
            declared.and_then(ObjectField::row).is_none() || self.columns.iter().any(is_object)
        };
        let fields: Vec<_> = fields.iter().filter(is_so).cloned().collect();
        let objects = self.objects.clone().unwrap_or_else(|| found.collect()).among(&fields)?;
        let (label, classes) = (self.label_names(), self.classes_of_objects());
        Some(match classes {
            Some(classes) if classes.names.as_ref() != label => {
                objects.with_class_names(classes.names.clone().unwrap_or_default())
            }
            _ => objects,
        })
    }
}

/// Returns the index of the leaf with the bytes of a file, of a structure of bytes and a path.
fn file_of(column: &Type, found: &[Found<'_>]) -> Option<usize> {
    let is_file = column.is_group() && found.len() == 2;
    let has = |name: &str| {
        let is_it = |found: &Found<'_>| found.names.len() == 2 && found.names[1] == name;
        found.iter().position(|found| is_it(found) && found.leaf.axes.is_empty())
    };
    let (bytes, path) = (has("bytes")?, has("path")?);
    let is_path = |leaf: &Leaf| leaf.is_text() || leaf.is_null();
    (is_file && found[bytes].leaf.is_bytes() && is_path(&found[path].leaf)).then_some(bytes)
}

/// Returns the index of the leaf with the files of lists of images, or of binary that may be images.
fn list_of_files(column: &Type, found: &[Found<'_>]) -> Option<usize> {
    let has = |name: &str| found.iter().position(|found| found.names[1..] == [name]);
    let file = match found {
        [_] if found[0].names.len() == 1 => 0,
        [_, _] => {
            let (bytes, path) = (has("bytes")?, has("path")?);
            let is_path = found[path].leaf.is_text() || found[path].leaf.is_null();
            if !is_path {
                return None;
            }
            bytes
        }
        _ => return None,
    };
    let Found { leaf, feature, .. } = &found[file];
    let feature = feature.and_then(|feature| feature["_type"].as_str());
    let is_file = leaf.has_lengths() && leaf.is_bytes() && !leaf.is_text();
    let is_image = matches!(feature, None | Some("Image" | "Value"));
    let is_list = is_of(column, ConvertedType::LIST) && leaf.axes.len() == 1;
    (is_file && is_image && is_list).then_some(file)
}

/// Returns whether a node is a group of this kind.
fn is_of(node: &Type, converted: ConvertedType) -> bool {
    node.is_group() && node.get_basic_info().converted_type() == converted
}

fn has_map(node: &Type) -> bool {
    is_of(node, ConvertedType::MAP)
        || is_of(node, ConvertedType::MAP_KEY_VALUE)
        || node.is_group() && node.get_fields().iter().any(|child| has_map(child))
}

/// Finds the leaves below a node.
fn walk<'a>(
    node: &'a Type,
    mut at: At<'a>,
    schema: &SchemaDescriptor,
    next: &mut usize,
    found: &mut Vec<Found<'a>>,
) {
    at.nodes.push(node);
    if !node.is_group() {
        let leaf = Leaf::new(*next, schema.column(*next), &at.nodes);
        *next += 1;
        at.lens.resize(leaf.axes.len(), None);
        found.push(Found { names: at.names, leaf, feature: at.feature, lens: at.lens });
        return;
    }
    if let (true, [repeated]) = (is_of(node, ConvertedType::LIST), node.get_fields()) {
        at.enter_list();
        let is_wrapped = repeated.is_group()
            && repeated.get_fields().len() == 1
            && repeated.name() != "array"
            && !repeated.name().ends_with("_tuple");
        if is_wrapped {
            at.nodes.push(repeated);
            return walk(&repeated.get_fields()[0], at, schema, next, found);
        }
        return walk(repeated, at, schema, next, found);
    }
    for child in node.get_fields() {
        let mut inner = at.clone();
        inner.names.push(child.name());
        (inner.feature, inner.is_turned) = match at.feature {
            Some(Json::Object(of)) if of.contains_key("_type") => match of.get("feature") {
                Some(of) => (of.get(child.name()), true),
                // The parts of a file have no features of their own.
                None => (at.feature, false),
            },
            Some(of) => (of.get(child.name()), false),
            None => (None, false),
        };
        walk(child, inner, schema, next, found);
    }
}

impl At<'_> {
    /// Goes on with the elements of a list.
    fn enter_list(&mut self) {
        let depth = self.lens.len();
        if std::mem::take(&mut self.is_turned) {
            self.lens.push(None);
            return;
        }
        let len = match self.feature {
            Some(Json::Object(of)) if of.contains_key("shape") => of["shape"].get(depth),
            Some(Json::Object(of)) => of.get("length"),
            _ => None,
        };
        // -1 is a list of any length.
        self.lens.push(len.and_then(Json::as_u64));
        self.feature = match self.feature {
            Some(Json::Array(list)) => list.first(),
            Some(Json::Object(of)) if of.contains_key("feature") => of.get("feature"),
            other => other.filter(|of| of.get("shape").is_some()),
        };
    }
}
