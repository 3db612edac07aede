//! Maps the features of a record to fields.
//!
//! | requested as            | in the record               | field                                    |
//! |-------------------------|-----------------------------|------------------------------------------|
//! | `Image`                 | bytes, one value            | RgbImage: JPEG, PNG, WebP or TIFF, by its first bytes |
//! | `Bytes`                 | bytes, one value            | Bytes                                    |
//! | `Int`, `Float`          | one value                   | Int, Float                               |
//! | `Ints { len }`          | `len` ints                  | NdArray `<i8`, `[len]`                    |
//! | `Floats { len }`        | `len` floats                | NdArray `<f4`, `[len]`                    |
//! | `RaggedInts`, `RaggedFloats` | any number             | Bytes: `i64` or `f32`, little-endian     |
//! | a list with a number of steps | each step as above    | NdArray `[steps]` or `[steps, len]`      |
//! | a list of any length    | each step as above          | Bytes: the steps one after another       |
//!
//! If no features are requested, the first record determines the fields, with the features that it lacks and all of the
//! next ones have. The objects of TensorFlow's
//! detection datasets become the fields that targets read: `detection.rs`. A marked feature (`marks.rs`)
//! becomes the field that it was written from, with its type and shape. Of the others, a single value
//! becomes an `Image` if it begins like an image file, else `Bytes`, `Int` or `Float`; several
//! numbers become `Ints` or `Floats`; a list of numbers becomes a list of any length. Features without
//! values, and features with several values of bytes, are left out. The fields are then in the byte
//! order of their names, unless `fuseloop/fields` lists another order. Requested features keep the order
//! of the requests.

use super::detection::{self, Detected, Objects};
use super::example::{self, Example, Kind};
use super::marks::{self, NamedFeatures};
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::dtype::{ByteOrder, NdKind};
use crate::source::image_format::begins_as_image;
use crate::source::{BoxError, FieldKind, FieldSpec, ImageMode, NdType};
use crate::source::{ObjectFields, OwnedImage, OwnedValue, Record};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The type that a feature is read as; see [`TfOptions`].
///
/// ```no_run
/// use fuseloop::source::{Feature, TfOptions, TfRecords};
///
/// let options = TfOptions::default()
///     .feature("image/encoded", Feature::Image)
///     .feature("image/class/label", Feature::Int);
/// let records = TfRecords::open("train-*.tfrecord", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feature {
    /// An image: one value of bytes, an image file.
    Image,
    /// One value of bytes.
    Bytes,
    /// One int.
    Int,
    /// One float.
    Float,
    /// A fixed number of ints: an array of `i64`.
    Ints {
        /// The number of values, at least 1.
        len: u64,
    },
    /// A fixed number of floats: an array of `f32`.
    Floats {
        /// The number of values, at least 1.
        len: u64,
    },
    /// Any number of ints: bytes, 8 per int, little-endian.
    RaggedInts,
    /// Any number of floats: bytes, 4 per float, little-endian.
    RaggedFloats,
}

/// Lists the features to read and their types, like `features` of `tf.io.parse_example`. Without any,
/// the features of the first record are read, and those that it lacks and the next three have; a file that [`convert`](crate::write::convert()) wrote
/// then has the fields that it was written from, with their types and shapes, and one of TensorFlow's detection
/// models the fields `bbox` (f32 `[N, 4]`: left, top, right and bottom edge in pixels), `category_id`, and others that
/// targets read.
///
/// ```no_run
/// use fuseloop::source::{Feature, TfOptions, TfRecords};
///
/// let options = TfOptions::default()
///     .feature("image/encoded", Feature::Image)
///     .feature("image/class/label", Feature::Int);
/// let records = TfRecords::open("train-{00000..01023}-of-01024", &options)?;
/// # Ok::<(), fuseloop::source::BoxError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TfOptions {
    wanted: Vec<FeatureRequest>,
    pub(super) limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FeatureRequest {
    name: String,
    feature: Feature,
    lookup: FeatureLookup,
    /// The field that was written as this feature, if the record marks its type.
    written: Option<FieldKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeatureLookup {
    /// A feature of an `Example`, or of a `SequenceExample`'s context.
    Feature,
    /// A feature list with this number of steps.
    Steps(u64),
    /// A feature list of any length.
    RaggedSteps,
    /// Features of objects.
    Detected(Detected),
}

impl TfOptions {
    /// Reads a feature of an `Example`, or of a `SequenceExample`'s context, into the field of its name.
    #[must_use]
    pub fn feature(self, name: &str, feature: Feature) -> Self {
        self.with(name, feature, FeatureLookup::Feature)
    }

    /// Reads a feature list of a `SequenceExample` that has `count` steps of numbers into an array:
    /// `[count]`, or `[count, len]` for [`Feature::Ints`] and [`Feature::Floats`].
    #[must_use]
    pub fn steps(self, name: &str, feature: Feature, count: u64) -> Self {
        self.with(name, feature, FeatureLookup::Steps(count))
    }

    /// Reads a feature list of a `SequenceExample` with any number of steps of numbers into bytes: step
    /// by step, 8 per int and 4 per float, little-endian.
    #[must_use]
    pub fn ragged_steps(self, name: &str, feature: Feature) -> Self {
        self.with(name, feature, FeatureLookup::RaggedSteps)
    }

    /// Sets the limits on what files may ask for.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn with(mut self, name: &str, feature: Feature, lookup: FeatureLookup) -> Self {
        let name = name.to_owned();
        self.wanted.push(FeatureRequest { name, feature, lookup, written: None });
        self
    }

    /// Returns true if features are requested.
    pub(super) fn asks(&self) -> bool {
        !self.wanted.is_empty()
    }
}

/// The features that are read of each record, checked.
#[derive(Debug)]
pub(super) struct FeatureColumns {
    wanted: Vec<FeatureRequest>,
    pub(super) fields: Arc<[FieldSpec]>,
    /// What the fields of objects are, if the first record says so.
    pub(super) objects: Option<ObjectFields>,
}

impl FeatureColumns {
    /// The requested features.
    pub(super) fn asked(options: &TfOptions) -> Result<Self, BoxError> {
        let wanted = options.wanted.clone();
        for (index, FeatureRequest { name, .. }) in wanted.iter().enumerate() {
            if wanted[..index].iter().any(|other| other.name == *name) {
                return Err(format!("feature {name:?} is declared twice").into());
            }
        }
        let fields = wanted.iter().map(field).collect::<Result<_, _>>()?;
        Ok(Self { wanted, fields, objects: None })
    }

    /// The features of a record.
    pub(super) fn of(example: &Example) -> Result<Self, BoxError> {
        let wanted = |name: &String, feature, lookup| FeatureRequest {
            name: name.clone(),
            feature,
            lookup,
            written: None,
        };
        let mut all = vec![];
        let none = NamedFeatures::new();
        let features = example.context.as_ref().map_or(&none, |context| &context.feature);
        let beside = beside(features);
        let objects = FirstObjects::of(features);
        for &field in &objects.detected {
            all.push(wanted(
                &field.name().to_owned(),
                Feature::Bytes,
                FeatureLookup::Detected(field),
            ));
        }
        let is_field = |name: &String| !beside.contains(name) && objects.leaves(name);
        for (name, found) in features.iter().filter(|(name, _)| is_field(name)) {
            let written = match marks::marked(name, features) {
                // The exact value of a float may be stored in `NAME/float64`: `as_written` looks for it.
                None if guess(found) == Some(Feature::Float) => Some(FieldKind::Float),
                marked => marked,
            };
            // A marked feature is read by its field kind, so the requested type is not used.
            let feature = guess(found).or(written.as_ref().map(|_| Feature::Bytes));
            let is_objects = !objects.detected.is_empty() && name.starts_with(detection::OBJECT);
            let feature = if is_objects { ragged(found) } else { feature };
            let found = feature.map(|feature| wanted(name, feature, FeatureLookup::Feature));
            all.extend(found.map(|found| FeatureRequest { written, ..found }));
        }
        for (name, list) in example.lists.iter().flat_map(|lists| &lists.list) {
            let step = list.feature.first().and_then(guess);
            let is_number = |feature: &Feature| !matches!(feature, Feature::Image | Feature::Bytes);
            let step = step.filter(is_number);
            all.extend(step.map(|feature| wanted(name, feature, FeatureLookup::RaggedSteps)));
        }
        if all.is_empty() {
            return Err(
                "no field type can be inferred from the first record: list features in `TfOptions`"
                    .into(),
            );
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        put_in_order(&mut all, features.get(marks::ORDER));
        let columns = Self::asked(&TfOptions { wanted: all, ..TfOptions::default() })?;
        let objects = objects.fields.and_then(|objects| objects.among(&columns.fields));
        Ok(Self { objects, ..columns })
    }

    /// Reads the values of a record.
    pub(super) fn record(&self, mut example: Example, limits: &Limits) -> Result<Record, Error> {
        let mut detected = self.detected(&example, limits)?.into_iter();
        let value = |FeatureRequest { name, feature, lookup, written }: &FeatureRequest| {
            let missing = || fail!(Damaged, "it has no feature {name}");
            if let Some(kind) = written {
                let features = example.context.as_mut().map(|context| &mut context.feature);
                return as_written(name, kind, features.ok_or_else(missing)?);
            }
            if let FeatureLookup::Detected(_) = lookup {
                return detected.next().ok_or_else(missing);
            }
            if *lookup == FeatureLookup::Feature {
                let context = example.context.as_mut();
                let found = context.and_then(|context| context.feature.remove(name));
                return one(name, *feature, found.ok_or_else(missing)?);
            }
            let lists = example.lists.as_mut().and_then(|lists| lists.list.remove(name));
            steps(name, *feature, *lookup, &lists.ok_or_else(missing)?)
        };
        self.wanted.iter().map(value).collect()
    }
}

impl FeatureColumns {
    /// Returns the values of the fields that are made of features of objects, in order.
    fn detected(&self, example: &Example, limits: &Limits) -> Result<Vec<OwnedValue>, Error> {
        let fields = self.wanted.iter().filter_map(|wanted| match wanted.lookup {
            FeatureLookup::Detected(field) => Some(field),
            _ => None,
        });
        let fields: Vec<Detected> = fields.collect();
        if fields.is_empty() {
            return Ok(vec![]);
        }
        let none = NamedFeatures::new();
        let features = example.context.as_ref().map_or(&none, |context| &context.feature);
        let objects = Objects::of(features, limits)?;
        fields.into_iter().map(|field| objects.value(field)).collect()
    }
}

/// The number of records after the first that are compared with it.
pub(super) const OTHERS: usize = 3;

/// Returns the first record with the features that it lacks and all of `others` have with the same type, if these are
/// several: the first record is the damaged one then.
pub(super) fn completed(mut first: Example, others: &[Example]) -> Example {
    let [second, rest @ ..] = others else { return first };
    let Some(features) = second.context.as_ref().filter(|_| !rest.is_empty()) else { return first };
    for (name, found) in &features.feature {
        let kind = guess(found);
        let of = |other: &Example| guess(other.context.as_ref()?.feature.get(name)?);
        if kind.is_none() || rest.iter().any(|other| of(other) != kind) {
            continue;
        }
        let context = first.context.get_or_insert_default();
        if context.feature.get(name).is_none_or(is_empty) {
            context.feature.insert(name.clone(), found.clone());
        }
    }
    first
}

/// Returns whether a feature has no values.
fn is_empty(found: &example::ExampleFeature) -> bool {
    match &found.kind {
        None => true,
        Some(Kind::Bytes(list)) => list.value.is_empty(),
        Some(Kind::Ints(list)) => list.value.is_empty(),
        Some(Kind::Floats(list)) => list.value.is_empty(),
    }
}

/// What the first record says of objects.
struct FirstObjects<'a> {
    fields: Option<ObjectFields>,
    /// The fields that are made of TensorFlow's features.
    detected: Vec<Detected>,
    /// All fields, if the file was written by `convert`. Its other features are for other readers.
    listed: Option<&'a [Vec<u8>]>,
}

impl<'a> FirstObjects<'a> {
    fn of(features: &'a NamedFeatures) -> Self {
        let mark = features.get(marks::OBJECTS).and_then(marks::one_value);
        let fields = mark.and_then(|text| ObjectFields::parse(text).ok());
        let listed = order_of(features.get(marks::ORDER)).filter(|_| fields.is_some());
        if listed.is_some() {
            return Self { fields, detected: vec![], listed };
        }
        let mut detected = Detected::of(features);
        // A feature that has the name of such a field is that field.
        if detected.iter().any(|field| features.contains_key(field.name())) {
            detected.clear();
        }
        let said = detected.iter().map(|field| (field.name(), field.field())).collect();
        Self { fields: Some(said), detected, listed: None }
    }

    /// Returns true if a feature is still a field of its own.
    fn leaves(&self, name: &str) -> bool {
        match self.listed {
            Some(listed) => listed.iter().any(|other| other == name.as_bytes()),
            None => self.detected.is_empty() || !detection::is_used(name),
        }
    }
}

/// Returns the type of a list with as many numbers as there are objects.
fn ragged(found: &example::ExampleFeature) -> Option<Feature> {
    match found.kind.as_ref()? {
        Kind::Bytes(_) => None,
        Kind::Ints(_) => Some(Feature::RaggedInts),
        Kind::Floats(_) => Some(Feature::RaggedFloats),
    }
}

/// The names of features that only describe other features.
fn beside(features: &NamedFeatures) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, found) in features {
        if let Some(kind) = marks::marked(name, features) {
            names.insert(marks::dtype_name(name));
            if let FieldKind::NdArray { .. } | FieldKind::TorchTensor { .. } = kind {
                names.insert(marks::shape_name(name));
            }
        }
        let exact = features.get(&marks::exact_name(name)).and_then(marks::one_value);
        if guess(found) == Some(Feature::Float) && exact.is_some_and(|value| value.len() == 8) {
            names.insert(marks::exact_name(name));
        }
    }
    if order_of(features.get(marks::ORDER)).is_some() {
        names.insert(marks::ORDER.to_owned());
    }
    if features.get(marks::OBJECTS).and_then(marks::one_value).is_some() {
        names.insert(marks::OBJECTS.to_owned());
    }
    names
}

/// The names that `fuseloop/fields` lists.
fn order_of(feature: Option<&example::ExampleFeature>) -> Option<&[Vec<u8>]> {
    match feature?.kind.as_ref()? {
        Kind::Bytes(list) => Some(&list.value),
        _ => None,
    }
}

/// Sorts fields into the order that they were written in, if it is known for all of them.
fn put_in_order(all: &mut [FeatureRequest], order: Option<&example::ExampleFeature>) {
    let Some(order) = order_of(order) else { return };
    let position =
        |wanted: &FeatureRequest| order.iter().position(|name| name == wanted.name.as_bytes());
    if order.len() == all.len() && all.iter().all(|wanted| position(wanted).is_some()) {
        all.sort_by_key(position);
    }
}

/// The value of a field that was written with features that describe it. Bytes are moved, not copied.
fn as_written(
    name: &str,
    kind: &FieldKind,
    features: &mut NamedFeatures,
) -> Result<OwnedValue, Error> {
    if let FieldKind::NdArray { dtype, .. } | FieldKind::TorchTensor { dtype, .. } = kind {
        if marks::marked(name, features).as_ref() != Some(kind) {
            return Err(unlike_first(name, kind));
        }
        let list = features.remove(name).and_then(|found| found.kind);
        let elements = list.and_then(|list| marks::from_list(*dtype, list));
        return elements.map(OwnedValue::NdArray).ok_or_else(|| unlike_first(name, kind));
    }
    let exact = features.get(&marks::exact_name(name)).and_then(marks::one_value);
    let exact = exact.and_then(|bytes| bytes.try_into().ok()).map(f64::from_le_bytes);
    let missing = || fail!(Damaged, "it has no feature {name}");
    let found = features.remove(name).ok_or_else(missing)?;
    let wanted = match kind {
        FieldKind::Float => Feature::Float,
        FieldKind::RgbImage | FieldKind::BitPlaneImage => Feature::Image,
        _ => Feature::Bytes,
    };
    Ok(match (one(name, wanted, found)?, kind) {
        (OwnedValue::Float(value), _) => OwnedValue::Float(exact.unwrap_or(value)),
        (OwnedValue::Bytes(mut text), FieldKind::Json) => {
            text.push(0);
            OwnedValue::Json(text)
        }
        (value, _) => value,
    })
}

/// Infers the type of a feature.
fn guess(found: &example::ExampleFeature) -> Option<Feature> {
    let several = |len: usize| (len > 1).then_some(len as u64);
    match found.kind.as_ref()? {
        Kind::Bytes(list) => match &list.value[..] {
            [one] if begins_as_image(one) => Some(Feature::Image),
            [_] => Some(Feature::Bytes),
            _ => None,
        },
        Kind::Ints(list) if list.value.len() == 1 => Some(Feature::Int),
        Kind::Floats(list) if list.value.len() == 1 => Some(Feature::Float),
        Kind::Ints(list) => several(list.value.len()).map(|len| Feature::Ints { len }),
        Kind::Floats(list) => several(list.value.len()).map(|len| Feature::Floats { len }),
    }
}

/// The field that a feature is read into.
fn field(
    FeatureRequest { name, feature, lookup, written }: &FeatureRequest,
) -> Result<FieldSpec, BoxError> {
    if let Some(kind) = written {
        return Ok(FieldSpec { name: name.clone(), kind: kind.clone() });
    }
    if let FeatureLookup::Detected(detected) = lookup {
        return Ok(FieldSpec { name: name.clone(), kind: detected.kind() });
    }
    let array = |kind, item_size, shape: Vec<u64>| {
        let dtype = NdType::new(kind, item_size, ByteOrder::Little);
        let kind = dtype.map(|dtype| FieldKind::NdArray { dtype, shape });
        let bytes = kind.as_ref().and_then(FieldKind::array_bytes);
        kind.filter(|_| bytes.is_some_and(|bytes| bytes > 0))
            .ok_or_else(|| format!("feature {name:?} is declared with 0 or too many values"))
    };
    let shape = |len: Option<u64>| match lookup {
        FeatureLookup::Steps(count) => [Some(*count), len].into_iter().flatten().collect(),
        _ => len.into_iter().collect(),
    };
    let is_step = *lookup != FeatureLookup::Feature;
    let kind = match (feature, lookup) {
        (Feature::Ints { len: 0 } | Feature::Floats { len: 0 }, _) => {
            return Err(format!("feature {name:?} is declared with 0 values").into());
        }
        (Feature::Image | Feature::Bytes | Feature::RaggedInts | Feature::RaggedFloats, _)
            if is_step =>
        {
            let message = "steps must be ints or floats, one or a fixed number";
            return Err(format!(
                "feature list {name:?} is declared as {}: {message}",
                word(*feature)
            )
            .into());
        }
        (_, FeatureLookup::RaggedSteps) | (Feature::Bytes, _) => FieldKind::Bytes,
        (Feature::RaggedInts | Feature::RaggedFloats, _) => FieldKind::Bytes,
        (Feature::Image, _) => FieldKind::RgbImage,
        (Feature::Int, FeatureLookup::Feature) => FieldKind::Int,
        (Feature::Float, FeatureLookup::Feature) => FieldKind::Float,
        (Feature::Int, _) => array(NdKind::Int, 8, shape(None))?,
        (Feature::Float, _) => array(NdKind::Float, 4, shape(None))?,
        (Feature::Ints { len }, _) => array(NdKind::Int, 8, shape(Some(*len)))?,
        (Feature::Floats { len }, _) => array(NdKind::Float, 4, shape(Some(*len)))?,
    };
    Ok(FieldSpec { name: name.clone(), kind })
}

/// The value of a feature. Bytes are moved, not copied.
fn one(name: &str, wanted: Feature, found: example::ExampleFeature) -> Result<OwnedValue, Error> {
    let counted = |found: usize, wanted: u64| match found as u64 {
        found if found == wanted => Ok(()),
        found => Err(fail!(Damaged, "feature {name} has {found} values, expected {wanted}")),
    };
    match (wanted, found.kind) {
        (Feature::Image | Feature::Bytes, Some(Kind::Bytes(mut list))) => {
            counted(list.value.len(), 1)?;
            let bytes = list.value.pop().unwrap_or_default();
            if wanted == Feature::Bytes {
                return Ok(OwnedValue::Bytes(bytes));
            }
            let mode = ImageMode::of_file(&bytes);
            Ok(OwnedValue::Image(OwnedImage { mode, width: 0, height: 0, bytes }))
        }
        (Feature::Int, Some(Kind::Ints(list))) => {
            counted(list.value.len(), 1)?;
            Ok(OwnedValue::Int(list.value[0]))
        }
        (Feature::Float, Some(Kind::Floats(list))) => {
            counted(list.value.len(), 1)?;
            Ok(OwnedValue::Float(list.value[0].into()))
        }
        // An empty list may be stored as no list at all.
        (Feature::RaggedInts | Feature::RaggedFloats, None) => Ok(OwnedValue::Bytes(vec![])),
        (Feature::RaggedInts, Some(kind @ Kind::Ints(_)))
        | (Feature::RaggedFloats, Some(kind @ Kind::Floats(_))) => {
            let mut bytes = vec![];
            put(&kind, &mut bytes);
            Ok(OwnedValue::Bytes(bytes))
        }
        (Feature::Ints { len }, Some(kind @ Kind::Ints(_)))
        | (Feature::Floats { len }, Some(kind @ Kind::Floats(_))) => {
            let mut bytes = vec![];
            counted(put(&kind, &mut bytes), len)?;
            Ok(OwnedValue::NdArray(bytes))
        }
        (_, kind) => Err(mismatch(name, wanted, kind.as_ref())),
    }
}

/// The value of a feature list.
fn steps(
    name: &str,
    wanted: Feature,
    lookup: FeatureLookup,
    list: &example::FeatureList,
) -> Result<OwnedValue, Error> {
    let found = list.feature.len() as u64;
    if let FeatureLookup::Steps(wanted) = lookup
        && found != wanted
    {
        return Err(fail!(Damaged, "feature list {name} has {found} steps, expected {wanted}"));
    }
    let mut bytes = vec![];
    for step in &list.feature {
        let len = match (wanted, &step.kind) {
            (Feature::Int, Some(Kind::Ints(_))) | (Feature::Float, Some(Kind::Floats(_))) => 1,
            (Feature::Ints { len }, Some(Kind::Ints(_)))
            | (Feature::Floats { len }, Some(Kind::Floats(_))) => len,
            (_, kind) => return Err(mismatch(name, wanted, kind.as_ref())),
        };
        let found = step.kind.as_ref().map_or(0, |kind| put(kind, &mut bytes)) as u64;
        if found != len {
            return Err(fail!(Damaged, "feature {name} has {found} values, expected {len}"));
        }
    }
    match lookup {
        FeatureLookup::RaggedSteps => Ok(OwnedValue::Bytes(bytes)),
        _ => Ok(OwnedValue::NdArray(bytes)),
    }
}

/// Appends numbers; returns how many.
fn put(kind: &Kind, bytes: &mut Vec<u8>) -> usize {
    match kind {
        Kind::Ints(list) => {
            bytes.extend(list.value.iter().flat_map(|value| value.to_le_bytes()));
            list.value.len()
        }
        Kind::Floats(list) => {
            bytes.extend(list.value.iter().flat_map(|value| value.to_le_bytes()));
            list.value.len()
        }
        Kind::Bytes(_) => 0,
    }
}

/// Returns the name of a type that a feature list can't have.
fn word(feature: Feature) -> &'static str {
    match feature {
        Feature::Image => "an image",
        Feature::Bytes => "bytes",
        Feature::RaggedInts => "ragged ints",
        Feature::RaggedFloats => "ragged floats",
        Feature::Int | Feature::Ints { .. } => "ints",
        Feature::Float | Feature::Floats { .. } => "floats",
    }
}

fn unlike_first(name: &str, wanted: &FieldKind) -> Error {
    fail!(Damaged, "feature {name} is no {}, as in the first record", wanted.described())
}

fn mismatch(name: &str, wanted: Feature, found: Option<&Kind>) -> Error {
    let wanted = match wanted {
        Feature::Image | Feature::Bytes => "bytes",
        Feature::Int | Feature::Ints { .. } | Feature::RaggedInts => "ints",
        Feature::Float | Feature::Floats { .. } | Feature::RaggedFloats => "floats",
    };
    let found = match found {
        None => "empty",
        Some(Kind::Bytes(_)) => "bytes",
        Some(Kind::Ints(_)) => "ints",
        Some(Kind::Floats(_)) => "floats",
    };
    fail!(Damaged, "feature {name} is {found}, expected {wanted}")
}
