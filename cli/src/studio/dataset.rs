//! The contents of the dataset: its fields, classes and sizes, and small pictures of its samples.

use super::super::pick::spread;
use super::connections::Caller;
use super::fault::Fault;
use super::http::Response;
use super::pictures::{Rgba, answered, rgba};
use super::request::{lock, number};
use super::session::{ANY_BATCH, Labels, Prepared, Session, images_of};
use fuseloop::SampleId;
use fuseloop::internals::jit::shown_row;
use fuseloop::internals::loader::Inspected;
use fuseloop::internals::source::has_labels_apart;
use fuseloop::source::{Buffer, ClassNames, Dataset, FieldKind, Source, Value as Stored};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The side of a small picture.
const THUMB: u32 = 112;
/// The most small pictures of one call.
const MOST_THUMBS: u32 = 96;
/// The most samples whose labels are read, and whose sizes are counted.
const MOST_LABELS: u64 = 4 << 20;
const MOST_SIZES: u64 = 400;
/// The most samples that a list of one class names.
const MOST_CLASSES: usize = 4096;

/// The samples that a call asks for.
enum Chosen {
    /// All samples, with their number.
    All(u64),
    Some(Vec<u64>),
}

impl Chosen {
    fn len(&self) -> u64 {
        match self {
            Self::All(count) => *count,
            Self::Some(samples) => samples.len() as u64,
        }
    }

    /// Returns the sample at a place among them.
    fn at(&self, place: u64) -> Option<u64> {
        match self {
            Self::All(count) => (place < *count).then_some(place),
            Self::Some(samples) => samples.get(usize::try_from(place).ok()?).copied(),
        }
    }
}

/// Returns the fields of images, and those of arrays that may be images.
pub(super) fn image_fields(source: &dyn Source) -> Vec<String> {
    let may_be = |kind: &FieldKind| match kind {
        FieldKind::NdArray { shape, .. } | FieldKind::TorchTensor { shape, .. } => {
            matches!(shape.len(), 2 | 3)
        }
        kind => kind.is_image(),
    };
    let images = source.fields().iter().filter(|field| may_be(&field.kind));
    images.map(|field| field.name.clone()).collect()
}

/// Returns the numbers and names of the classes.
pub(super) fn classes(names: &ClassNames) -> Value {
    names.iter().take(MOST_CLASSES).map(|(number, name)| json!([number, name])).collect()
}

/// Returns the numbers stored with a sample: `label 3 (cat)`.
pub(super) fn label_words(source: &dyn Source, names: &ClassNames, sample: u64) -> Vec<String> {
    let mut buffer = Buffer::default();
    let mut words = vec![];
    for (index, field) in source.fields().iter().enumerate() {
        if !matches!(field.kind, FieldKind::Int | FieldKind::Float) {
            continue;
        }
        match source.value(SampleId(sample), index, &mut buffer) {
            Ok(Stored::Int(number)) => words.push(match names.get(number) {
                Some(name) if field.name == "label" => name.to_owned(),
                _ => format!("{} {number}", field.name),
            }),
            Ok(Stored::Float(number)) => words.push(format!("{} {number}", field.name)),
            _ => {}
        }
    }
    words
}

impl Session {
    /// Returns the field of the class, if all labels are read without reading the samples.
    pub(super) fn label_field(&self) -> Option<usize> {
        let is_apart = matches!(self.dataset, Dataset::Beton(_) | Dataset::Folder(_))
            || has_labels_apart(&self.path);
        let is_short = self.source.len() <= MOST_LABELS;
        self.source.field_index("label").filter(|_| is_apart && is_short)
    }

    /// Returns the class of every sample: `None` if reading them would read all samples.
    fn labels(&self) -> Option<Arc<Labels>> {
        let mut held = lock(&self.labels);
        if held.is_none() {
            let source = &*self.source;
            let field = self.label_field()?;
            let mut buffer = Buffer::default();
            let label = |sample| match source.value(SampleId(sample), field, &mut buffer) {
                Ok(Stored::Int(label)) => Some(label),
                _ => None,
            };
            let of: Vec<Option<i64>> = (0..source.len()).map(label).collect();
            let mut counts = BTreeMap::new();
            for label in of.iter().flatten() {
                *counts.entry(*label).or_default() += 1;
            }
            *held = Some(Arc::new(Labels { of, counts }));
        }
        held.clone()
    }

    /// Returns the samples that a call's classes leave.
    fn chosen(&self, body: &Value) -> Result<Chosen, Fault> {
        let Some(classes) = body["classes"].as_array().filter(|classes| !classes.is_empty()) else {
            return Ok(Chosen::All(self.source.len()));
        };
        let wanted: Vec<i64> =
            classes.iter().take(MOST_CLASSES).filter_map(Value::as_i64).collect();
        let labels = self.labels().ok_or_else(|| {
            Fault::plain(
                "the labels of this dataset are stored with its images",
                "`fuseloop convert` writes a .beton file, whose labels are in a table",
            )
        })?;
        let of = labels.of.iter().zip(0..);
        let chosen = of.filter(|(label, _)| label.is_some_and(|label| wanted.contains(&label)));
        Ok(Chosen::Some(chosen.map(|(_, sample)| sample).collect()))
    }

    /// Returns the samples of a page of the grid, spread over the dataset, and how many there are in all.
    pub(super) fn page(&self, body: &Value, rows: u32) -> Result<(Vec<u64>, u64), Fault> {
        let chosen = self.chosen(body)?;
        let all = chosen.len();
        let stride = all.div_ceil(rows.into()).max(1);
        let page = u64::from(number(body, "page", 0, u32::MAX)) % stride;
        let places = (0..u64::from(rows)).map(|row| row * stride + page).filter(|at| *at < all);
        Ok((places.filter_map(|at| chosen.at(at)).collect(), all))
    }

    /// Returns the loader of small pictures of the stored images.
    pub(super) fn thumb_loader(&self) -> Result<Arc<Prepared>, Fault> {
        let mut held = lock(&self.thumbs);
        if let Some(held) = &*held {
            return Ok(Arc::clone(held));
        }
        let mut failed =
            Fault::plain("the dataset has no image field", "`fuseloop info` shows its fields");
        for field in image_fields(&*self.source) {
            match self.thumbs_of(&field) {
                Ok(prepared) => {
                    *held = Some(Arc::clone(&prepared));
                    return Ok(prepared);
                }
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }

    fn thumbs_of(&self, field: &str) -> Result<Arc<Prepared>, Fault> {
        let (field, side) = (Value::from(field), THUMB);
        let text =
            format!("[fields]\n{field} = [{{ op = \"Letterbox\", size = {side}, fill = 0 }}]\n");
        let spec = self.checked(&text)?;
        // Without targets, objects are not read; but a mask can't stay behind.
        let loader = self.loader(&spec, 0, false, ANY_BATCH);
        let loader = loader.or_else(|_| self.loader(&spec, 0, true, ANY_BATCH));
        let loader = loader.map_err(|error| Fault::of(error, &text))?;
        let images = images_of(&loader);
        Ok(Arc::new(Prepared { key: (text, 0, false), spec, loader, images }))
    }
}

/// Answers the call `dataset`.
pub(super) fn describe(session: &Session, caller: &Caller<'_>) -> Result<Value, Fault> {
    let source = &*session.source;
    let field = |(index, field): (usize, &fuseloop::source::FieldSpec)| {
        let stats = source.image_stats(index);
        json!({
            "name": field.name,
            "kind": field.kind.word(),
            "sizes": stats.as_ref().and_then(|stats| Some([stats.min?.width, stats.max?.width, stats.min?.height, stats.max?.height])),
            "jpeg": stats.as_ref().map(|stats| stats.jpeg),
            "raw": stats.as_ref().map(|stats| stats.raw),
        })
    };
    let (names, labels) = (&session.names, session.labels());
    let mut classes: BTreeMap<i64, (Option<&str>, Option<u64>)> =
        names.iter().map(|(number, name)| (number, (Some(name), None))).collect();
    for (number, count) in labels.iter().flat_map(|labels| &labels.counts) {
        classes.entry(*number).or_default().1 = Some(*count);
    }
    let class = |(number, (name, count)): (&i64, &(Option<&str>, Option<u64>))| json!({ "number": number, "name": name, "samples": count });
    let sizes = sizes(session, caller);
    Ok(json!({
        "name": session.path.to_string_lossy(),
        "samples": source.len(),
        "fields": source.fields().iter().enumerate().map(field).collect::<Value>(),
        "classes": classes.iter().take(MOST_CLASSES).map(class).collect::<Value>(),
        "classes_in_all": classes.len(),
        "can_filter": labels.is_some(),
        "sizes": sizes.iter().map(|(h, w)| json!([h, w])).collect::<Value>(),
    }))
}

/// Returns the heights and widths of some samples, spread over the dataset.
fn sizes(session: &Session, caller: &Caller<'_>) -> Vec<(u32, u32)> {
    let Ok(prepared) = session.thumb_loader() else { return vec![] };
    let Some(output) = prepared.images.first() else { return vec![] };
    let Ok(mut inspector) = prepared.inspector(output, 0) else { return vec![] };
    let samples = spread(MOST_SIZES, session.source.len()).into_iter();
    let samples = samples.take_while(|_| !caller.is_gone());
    let size = |sample| inspector.stored_size(sample).ok().map(|size| (size.height, size.width));
    samples.filter_map(size).collect()
}

/// Answers the call `thumbs`: stored images, letterboxed, from `offset` on.
pub(super) fn respond_thumbs(session: &Session, body: &Value, caller: &Caller<'_>) -> Response {
    answered(body, |header| thumbs((session, caller), body, header))
}

fn thumbs(
    (session, caller): (&Session, &Caller<'_>),
    body: &Value,
    header: &mut Value,
) -> Result<Vec<Rgba>, Fault> {
    let chosen = session.chosen(body)?;
    let all = chosen.len();
    let offset = body["offset"].as_u64().unwrap_or(0).min(all);
    let end = offset.saturating_add(number(body, "count", 24, MOST_THUMBS).into()).min(all);
    let prepared = session.thumb_loader()?;
    let mut inspector = prepared.inspector(prepared.output(&Value::Null)?, 0)?;
    let (mut pictures, mut cells) = (vec![], vec![]);
    for at in offset..end {
        if caller.is_gone() {
            return Err(Fault::gone());
        }
        let Some(sample) = chosen.at(at) else { break };
        let mut cell = json!({ "sample": sample, "labels": session.label_words(sample) });
        let picture = inspector.sample(sample).map_err(|error| error.to_string());
        let picture = picture.and_then(|inspected| {
            let Inspected { draws, row, kernel, .. } = inspected;
            cell["size"] = json!([draws.source.height, draws.source.width]);
            let shown = shown_row(kernel.plan(), &draws, &row, &[]);
            shown.and_then(|shown| rgba(&shown, draws.output, THUMB)).map_err(|e| e.to_string())
        });
        match picture {
            Ok(picture) => {
                cell["width"] = json!(picture.size.width);
                cell["height"] = json!(picture.size.height);
                pictures.push(picture);
            }
            Err(error) => cell["damaged"] = json!(error),
        }
        cells.push(cell);
    }
    header["all"] = json!(all);
    header["offset"] = json!(offset);
    header["cells"] = cells.into();
    Ok(pictures)
}
