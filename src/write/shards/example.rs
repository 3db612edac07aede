//! Encodes a sample as a `tf.train.Example` (tensorflow/core/example/{example,feature}.proto): one
//! feature per field, with the field's name, and additional features for what the first can't express.
//!
//! | field                                | feature                                             |
//! |--------------------------------------|-----------------------------------------------------|
//! | image                                | `bytes_list`: the JPEG or PNG; raw pixels as PNG    |
//! | int                                  | `int64_list`                                        |
//! | float                                | `float_list`: rounded to 32 bits, the list's type    |
//! | bytes, JSON                          | `bytes_list`; JSON without FFCV's final NUL         |
//! | array, tensor                        | a list that holds every bit, else their bytes       |
//! | user-defined                         | refused                                             |
//! | boxes, and other fields of objects   | also TensorFlow's: `detection.rs`                   |
//!
//! Types, shapes, the exact value of 64-bit floats and the order of fields are stored in additional
//! features, by the convention of `source/tfrecord/marks.rs`: each field reads back the same, to the
//! bit. Features are sorted by name, so that equal samples are equal bytes.

use super::bytes::{file_bytes, word};
use super::column::{custom_field, same_name};
use super::detection::Detection;
use crate::error::Error;
use crate::source::example::{
    BytesList, Example, ExampleFeature, Features, FloatList, Int64List, Kind,
};
use crate::source::marks::{self, NamedFeatures};
use crate::source::{FieldKind, FieldSpec, OwnedImage, OwnedValue, Record, begins_as_image};
use crate::write::beside::Beside;
use crate::write::pixels::PixelsError;
use crate::write::value::WriteSampleError;
use fuseloop_ops::Size;
use prost::Message as _;
use std::collections::{BTreeMap, HashMap};

/// Checks that samples of these fields can be written as examples.
///
/// # Errors
///
/// If the fields can't be written to a TFRecord.
fn check_fields(fields: &[FieldSpec]) -> Result<(), Error> {
    let reserved = "the order of all fields".to_owned();
    let mut taken = HashMap::from([
        (marks::ORDER.to_owned(), &reserved),
        (marks::OBJECTS.to_owned(), &reserved),
    ]);
    for field in fields {
        if let FieldKind::Custom { .. } = field.kind {
            return Err(custom_field(&field.name));
        }
        for name in beside(field).into_iter().chain([field.name.clone()]) {
            if let Some(first) = taken.insert(name.clone(), &field.name) {
                return Err(same_name(first, &field.name, &name));
            }
        }
    }
    Ok(())
}

/// Returns the names of the additional features that a field may have.
fn beside(field: &FieldSpec) -> Vec<String> {
    let mut names = vec![];
    match field.kind {
        FieldKind::Float => names.push(marks::exact_name(&field.name)),
        FieldKind::NdArray { .. } | FieldKind::TorchTensor { .. } => {
            names.push(marks::shape_name(&field.name));
        }
        _ => {}
    }
    names.extend(marks::dtype_of(&field.kind).map(|_| marks::dtype_name(&field.name)));
    names
}

/// How the samples of a dataset become examples.
pub(in crate::write) struct ExampleLayout {
    /// What the fields of objects are, as a text.
    objects: Option<String>,
    detection: Option<Detection>,
}

impl ExampleLayout {
    /// # Errors
    ///
    /// If the fields can't be written to a TFRecord.
    pub(in crate::write) fn new(fields: &[FieldSpec], beside: &Beside) -> Result<Self, Error> {
        check_fields(fields)?;
        let Beside { classes, objects } = beside;
        let detection =
            objects.as_ref().and_then(|objects| Detection::new(fields, objects, classes.as_ref()));
        Ok(Self { objects: objects.as_ref().map(|objects| objects.to_json("")), detection })
    }

    /// Returns the features of a sample that are not its fields; `size_of` reads the size of an image.
    ///
    /// # Errors
    ///
    /// If the image or a field of objects is damaged.
    pub(in crate::write) fn others(
        &self,
        record: &[OwnedValue],
        fields: &[FieldSpec],
        size_of: impl FnOnce(&OwnedImage) -> Result<Size, PixelsError>,
    ) -> Result<NamedFeatures, WriteSampleError> {
        let mut features = NamedFeatures::new();
        if let Some(detection) = &self.detection
            && let Some(OwnedValue::Image(image)) = record.get(detection.image)
            && record.len() == fields.len()
        {
            let size = size_of(image).map_err(|error| {
                let name = &fields[detection.image].name;
                WriteSampleError::Source(format!("field {name:?}: {error}").into())
            })?;
            features = detection.features(record, fields, size)?;
        }
        if let Some(objects) = &self.objects {
            let kind = Some(bytes(objects.clone().into_bytes()));
            features.insert(marks::OBJECTS.to_owned(), ExampleFeature { kind });
        }
        Ok(features)
    }
}

/// Returns the bytes of a sample's Example.
///
/// # Errors
///
/// If a value is not of its field's kind, or a raw image has no pixels.
pub(in crate::write) fn encode_record(
    record: Record,
    fields: &[FieldSpec],
    others: NamedFeatures,
) -> Result<Vec<u8>, WriteSampleError> {
    if record.len() != fields.len() {
        return Err(WriteSampleError::Count { found: record.len(), expected: fields.len() });
    }
    let mut feature = BTreeMap::new();
    for (value, field) in record.into_iter().zip(fields) {
        put(value, field, &mut feature)?;
    }
    // A feature that is also a field keeps the field's value.
    others.into_iter().for_each(|(name, value)| {
        feature.entry(name).or_insert(value);
    });
    let is_in_order = fields.is_sorted_by_key(|field| &field.name);
    if !is_in_order || feature.contains_key(marks::OBJECTS) {
        let value = fields.iter().map(|field| field.name.clone().into_bytes()).collect();
        let kind = Some(Kind::Bytes(BytesList { value }));
        feature.insert(marks::ORDER.to_owned(), ExampleFeature { kind });
    }
    Ok(Example { context: Some(Features { feature }), lists: None }.encode_to_vec())
}

fn put(
    value: OwnedValue,
    field: &FieldSpec,
    features: &mut BTreeMap<String, ExampleFeature>,
) -> Result<(), WriteSampleError> {
    if !value.fits(&field.kind) {
        let (expected, found) = (field.kind.word(), word(&value));
        return Err(WriteSampleError::Kind { field: field.name.clone(), expected, found });
    }
    let mut add = |name: &str, list| {
        features.insert(name.to_owned(), ExampleFeature { kind: Some(list) });
    };
    let mut dtype = None;
    let list = match (value, &field.kind) {
        (OwnedValue::Int(value), _) => ints(vec![value]),
        #[expect(clippy::cast_possible_truncation, reason = "the format has 32 bits")]
        (OwnedValue::Float(value), _) => {
            let rounded = value as f32;
            if f64::from(rounded).to_bits() != value.to_bits() {
                add(&marks::exact_name(&field.name), bytes(value.to_le_bytes().to_vec()));
            }
            Kind::Floats(FloatList { value: vec![rounded] })
        }
        (
            OwnedValue::NdArray(elements),
            kind @ (FieldKind::NdArray { dtype: of, shape }
            | FieldKind::TorchTensor { dtype: of, shape }),
        ) => {
            let sides = shape.iter().map(|&side| i64::try_from(side).unwrap_or(i64::MAX));
            add(&marks::shape_name(&field.name), ints(sides.collect()));
            dtype = marks::dtype_of(kind);
            marks::to_list(*of, elements)
        }
        (value, kind) => {
            let value = file_bytes(value, field)?;
            // A reader distinguishes images from bytes by their first bytes.
            let is_picture = begins_as_image(&value);
            let is_told = match kind {
                FieldKind::RgbImage => is_picture,
                FieldKind::Bytes => !is_picture,
                _ => false,
            };
            dtype = marks::dtype_of(kind).filter(|_| !is_told);
            bytes(value)
        }
    };
    if let Some(dtype) = dtype {
        add(&marks::dtype_name(&field.name), bytes(dtype.into_bytes()));
    }
    add(&field.name, list);
    Ok(())
}

fn ints(value: Vec<i64>) -> Kind {
    Kind::Ints(Int64List { value })
}

fn bytes(value: Vec<u8>) -> Kind {
    Kind::Bytes(BytesList { value: vec![value] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(dtype: &str, shape: Vec<u64>, elements: &[u8]) -> BTreeMap<String, ExampleFeature> {
        let kind = FieldKind::NdArray { dtype: dtype.parse().unwrap(), shape };
        let fields = [FieldSpec { name: "a".to_owned(), kind }];
        check_fields(&fields).unwrap();
        let record = vec![OwnedValue::NdArray(elements.to_vec())];
        let bytes = encode_record(record, &fields, NamedFeatures::new()).unwrap();
        Example::decode(&bytes[..]).unwrap().context.unwrap().feature
    }

    fn list(features: &BTreeMap<String, ExampleFeature>, name: &str) -> Kind {
        features[name].kind.clone().unwrap()
    }

    #[test]
    fn arrays_of_small_numbers_are_lists() {
        let of = |dtype: &str, elements: &[u8]| list(&encoded(dtype, vec![2], elements), "a");
        assert_eq!(of("|i1", &[0xff, 2]), ints(vec![-1, 2]));
        assert_eq!(of("|u1", &[0xff, 2]), ints(vec![255, 2]));
        assert_eq!(of("|b1", &[0, 1]), ints(vec![0, 1]));
        assert_eq!(of(">i2", &[0xff, 0xfe, 1, 0]), ints(vec![-2, 256]));
        assert_eq!(of("<u4", &[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]), ints(vec![4_294_967_295, 1]));
        let longs = [i64::MIN.to_le_bytes(), 5_i64.to_le_bytes()].concat();
        assert_eq!(of("<i8", &longs), ints(vec![i64::MIN, 5]));
        let floats = [1.5_f32.to_be_bytes(), (-0.25_f32).to_be_bytes()].concat();
        let want = Kind::Floats(FloatList { value: vec![1.5, -0.25] });
        assert_eq!(of(">f4", &floats), want);
        let halves = [half::f16::from_f32(1.5), half::f16::from_f32(-0.25)];
        let halves = halves.map(half::f16::to_le_bytes).concat();
        assert_eq!(of("<f2", &halves), want);
    }

    #[test]
    fn arrays_that_no_list_holds_are_bytes_with_their_type() {
        let doubles = [1.1_f64.to_be_bytes(), 2.2_f64.to_be_bytes()].concat();
        let features = encoded(">f8", vec![2, 1], &doubles);
        assert_eq!(list(&features, "a"), bytes(doubles));
        assert_eq!(list(&features, "a/dtype"), bytes(b">f8".to_vec()));
        assert_eq!(list(&features, "a/shape"), ints(vec![2, 1]));
        let pair = [1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat();
        assert_eq!(list(&encoded("<c8", vec![1], &pair), "a"), bytes(pair));
    }

    #[test]
    fn features_that_would_share_a_name_are_refused() {
        let array = FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: vec![1, 1] };
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let fields = [field("a", array), field("a/shape", FieldKind::Int)];
        let said = |fields: &[FieldSpec]| check_fields(fields).unwrap_err().to_string();
        assert!(said(&fields).contains("would both be called"));
        let custom = [field("c", FieldKind::Custom { row_size: 1, align: 1 })];
        assert!(said(&custom).contains("is user-defined"));
    }
}
