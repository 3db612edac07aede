//! The objects of an image: whether a loader takes them, and which of them train nothing.
//!
//! | damaged, since a loader refuses the sample | degenerate, and only listed |
//! |---|---|
//! | fields with other numbers of objects | a box without an area |
//! | coordinates that are not numbers | a box that reaches more than a pixel out of its image |
//! | boxes whose edges are swapped | a labelled keypoint outside of its image |
//! | classes that the dataset does not list | a mask without a pixel |
//! | masks that can't be drawn, or are of another image | |
//! | masks of the whole image of another size | |
//!
//! Checked are the fields of which the dataset knows what they are: those of annotations, and those that were converted
//! from them.

use super::of_fields;
use super::report::{DegenerateKind, DegenerateObject, ValueError};
use crate::decode::ObjectMask;
use crate::decode::object_rows::{self, integers, other_count, rows_of};
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::{Buffer, ClassNames, FieldSpec, ObjectField, ObjectFields, Source, Value};
use fuseloop_ops::author::BoundingBox;
use fuseloop_ops::{BoxFormat, DType, Size};

/// How far a box may reach out of its image: annotations are often rounded.
const OUTSIDE: f64 = 1.0;

/// The field with the ids that a file of annotations has for its objects.
const ANNOTATION_ID: &str = "annotation_id";

/// What is known of the fields of a dataset's objects.
pub(super) struct ObjectChecker {
    /// The index of the images' field.
    image: usize,
    /// The indices of the objects' fields, and what each is.
    fields: Vec<(usize, ObjectField)>,
    class_names: Option<ClassNames>,
    /// The index of the field with the ids of the objects.
    ids: Option<usize>,
}

/// An object that trains nothing, by its index in its sample.
struct Found {
    object: usize,
    kind: DegenerateKind,
    text: String,
}

impl ObjectChecker {
    /// Asks a dataset what its fields are; returns `None` if it knows of no objects, or not of which image they are.
    pub(super) fn new(source: &dyn Source) -> Result<Option<Self>, Error> {
        let Some(known) = source.object_fields().map_err(of_fields)? else {
            return Ok(None);
        };
        let images = source.fields().iter().enumerate();
        let is_mask = |name: &str| known.get(name) == Some(ObjectField::Mask);
        let mut images = images.filter(|(_, field)| field.kind.is_image() && !is_mask(&field.name));
        let image = match (images.next(), images.next()) {
            (Some((only, _)), None) => Some(only),
            _ => source.field_index("image"),
        };
        let Some(image) = image else { return Ok(None) };
        let class_names = source.class_names().map_err(of_fields)?;
        Ok(Some(Self {
            image,
            fields: indexed(source, &known),
            class_names: class_names.filter(|names| names.iter().len() > 0),
            ids: source.field_index(ANNOTATION_ID),
        }))
    }

    /// Returns the index of the field of the objects' images.
    pub(super) fn image(&self) -> usize {
        self.image
    }

    /// Checks the objects of a sample whose image is of `size`. The error has the index of the field that is damaged.
    pub(super) fn check(
        &self,
        source: &dyn Source,
        (sample, size): (SampleId, Size),
        buffer: &mut Buffer,
    ) -> Result<Vec<DegenerateObject>, (usize, ValueError)> {
        let (mut objects, mut degenerate) = (None, vec![]);
        for &(field, is) in &self.fields {
            let damaged = |error| (field, error);
            let value =
                source.value(sample, field, buffer).map_err(|error| ValueError::of_source(&error));
            let (count, found) = self.field(is, value.map_err(damaged)?, size).map_err(damaged)?;
            let expected = *objects.get_or_insert(count);
            if count != expected {
                return Err(damaged(other_count(count, expected).into()));
            }
            degenerate.extend(found.into_iter().map(|found| (field, found)));
        }
        let ids = self.ids.filter(|_| !degenerate.is_empty());
        let ids = ids.and_then(|field| match source.value(sample, field, buffer).ok()? {
            Value::Bytes(bytes) => Some(rows_of(bytes, DType::I64, 1).ok()?.to_vec()),
            _ => None,
        });
        let id = |object: usize| integers(ids.as_ref()?).nth(object);
        let listed = degenerate.into_iter().map(|(field, Found { object, kind, text })| {
            let (location, annotation) = (source.locate(sample, field), id(object));
            let field = source.fields()[field].name.clone();
            DegenerateObject { sample, field, object, annotation, location, kind, text }
        });
        Ok(listed.collect())
    }

    /// Checks a field of a sample; returns the number of objects that it has, and those that are degenerate.
    fn field(
        &self,
        is: ObjectField,
        value: Value<'_>,
        size: Size,
    ) -> Result<(usize, Vec<Found>), ValueError> {
        let bytes = match value {
            Value::Bytes(bytes) => bytes,
            Value::Json(text) => text.strip_suffix(&[0]).unwrap_or(text),
            _ => return Ok((0, vec![])),
        };
        match is {
            ObjectField::Boxes(format) => {
                Ok(boxes(object_rows::boxes(bytes, format)?, format, size))
            }
            ObjectField::Keypoints(each) => {
                let each = each as usize;
                let points = object_rows::keypoints(bytes, each, 3)?;
                let count = points.len() / each;
                Ok((count, outside(points, each, size)))
            }
            ObjectField::Classes => {
                let classes = rows_of(bytes, DType::I64, 1)?;
                for (object, class) in integers(classes).enumerate() {
                    if self.class_names.as_ref().is_some_and(|names| names.get(class).is_none()) {
                        return Err(ValueError::of_objects(format!(
                            "object {object} has class {class}, which the names of the classes do not list"
                        )));
                    }
                }
                Ok((classes.len() / 8, vec![]))
            }
            ObjectField::Column(dtype) => {
                let Some(element) = dtype.element_type() else { return Ok((0, vec![])) };
                Ok((rows_of(bytes, element, 1)?.len() / element.bytes(), vec![]))
            }
            ObjectField::Segmentation => masks(bytes, size),
            ObjectField::ImageId | ObjectField::Mask => Ok((0, vec![])),
        }
    }
}

/// Returns which of the fields of a dataset are masks of images.
pub(super) fn mask_fields(source: &dyn Source) -> Result<Vec<bool>, Error> {
    let known = source.object_fields().map_err(of_fields)?.unwrap_or_default();
    let is_mask = |field: &FieldSpec| known.get(&field.name) == Some(ObjectField::Mask);
    Ok(source.fields().iter().map(is_mask).collect())
}

/// Returns the fields of objects by their indices: the boxes first, with which the others are compared.
fn indexed(source: &dyn Source, known: &ObjectFields) -> Vec<(usize, ObjectField)> {
    let is_of_image = |field| matches!(field, ObjectField::ImageId | ObjectField::Mask);
    let of_objects = known.iter().filter(|(_, field)| !is_of_image(*field));
    let index = |(name, field)| Some((source.field_index(name)?, field));
    let mut fields: Vec<_> = of_objects.filter_map(index).collect();
    fields.sort_by_key(|(_, field)| !matches!(field, ObjectField::Boxes(_)));
    fields
}

/// Returns the number of boxes, and those that are empty or reach out of an image of `size`.
fn boxes(
    boxes: impl ExactSizeIterator<Item = [f32; 8]>,
    format: BoxFormat,
    size: Size,
) -> (usize, Vec<Found>) {
    let (count, columns) = (boxes.len(), format.columns());
    let found = boxes.enumerate().filter_map(|(object, values)| {
        let values = &values[..columns];
        let bounds = BoundingBox::read(format, values);
        let mut edges = [0.0; 4];
        bounds.upright().write(BoxFormat::Xyxy, &mut edges);
        let [left, top, right, bottom] = edges.map(f64::from);
        let [width, height] = [size.width, size.height].map(f64::from);
        let farthest = (-left).max(-top).max(right - width).max(bottom - height);
        let (kind, of) = if bounds.width() <= 0.0 || bounds.height() <= 0.0 {
            (DegenerateKind::EmptyBox, "has no area".to_owned())
        } else if farthest > OUTSIDE {
            (
                DegenerateKind::BoxOutside,
                format!("reaches {farthest} pixels out of an image of {size}"),
            )
        } else {
            return None;
        };
        Some(Found { object, kind, text: format!("the box {values:?} ({}) {of}", format.name()) })
    });
    let found = found.collect();
    (count, found)
}

/// Returns the objects with a labelled keypoint outside of an image of `size`.
fn outside(points: impl Iterator<Item = [f32; 3]>, each: usize, size: Size) -> Vec<Found> {
    let mut found: Vec<Found> = vec![];
    for (at, [x, y, visibility]) in points.enumerate() {
        let (object, point) = (at / each, at % each);
        // An edge of the image is inside, for indices of pixels and for continuous positions.
        let is_inside =
            (0.0..=size.width as f32).contains(&x) && (0.0..=size.height as f32).contains(&y);
        if visibility > 0.0 && !is_inside && found.last().is_none_or(|last| last.object != object) {
            let text = format!("keypoint {point} is at ({x}, {y}), outside of an image of {size}");
            found.push(Found { object, kind: DegenerateKind::KeypointOutside, text });
        }
    }
    found
}

/// Returns the number of masks, and those without a pixel in an image of `size`.
fn masks(text: &[u8], size: Size) -> Result<(usize, Vec<Found>), ValueError> {
    let masks = ObjectMask::parse_list(text)
        .map_err(|error| ValueError::of_objects(format!("the masks of the objects: {error}")))?;
    let mut found = vec![];
    for (object, mask) in masks.iter().enumerate() {
        let Some(mask) = mask else { continue };
        let area = mask.area(size).map_err(|error| {
            ValueError::of_objects(format!("the mask of object {object}: {error}"))
        })?;
        if area == 0 {
            let text = format!("the mask has no pixel in an image of {size}");
            found.push(Found { object, kind: DegenerateKind::EmptyMask, text });
        }
    }
    Ok((masks.len(), found))
}
