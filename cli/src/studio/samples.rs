//! The samples that a pipeline has: those of the dataset, or the videos or clips that its `[clips]` make of them. Their
//! labels, their classes, and the pages of the grid.

use super::fault::Fault;
use super::request::{lock, number};
use fuseloop::SampleId;
use fuseloop::source::{Buffer, ClassNames, FieldKind, Source, Value as Stored};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The most samples whose labels are read.
const MOST_LABELS: u64 = 4 << 20;
/// The most samples that a list of one class names.
pub(super) const MOST_CLASSES: usize = 4096;

/// The samples of a source.
pub(super) struct Samples {
    pub(super) source: Arc<dyn Source>,
    pub(super) names: ClassNames,
    /// True if labels are read without reading the samples.
    are_labels_apart: bool,
    labels: Mutex<Option<Arc<Labels>>>,
}

/// The class of every sample.
pub(super) struct Labels {
    of: Vec<Option<i64>>,
    pub(super) counts: BTreeMap<i64, u64>,
}

/// The samples that a call asks for.
pub(super) enum Chosen {
    /// All samples, with their number.
    All(u64),
    Some(Vec<u64>),
}

impl Chosen {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::All(count) => *count,
            Self::Some(samples) => samples.len() as u64,
        }
    }

    /// Returns the sample at a place among them.
    pub(super) fn at(&self, place: u64) -> Option<u64> {
        match self {
            Self::All(count) => (place < *count).then_some(place),
            Self::Some(samples) => samples.get(usize::try_from(place).ok()?).copied(),
        }
    }
}

impl Samples {
    pub(super) fn new(source: Arc<dyn Source>, are_labels_apart: bool) -> Self {
        // Names that can't be read are left out: `fuseloop info` says why.
        let names = source.class_names().ok().flatten().unwrap_or_default();
        Self { source, names, are_labels_apart, labels: Mutex::default() }
    }

    /// Returns the samples of another source, which are these if the source has the same ones.
    pub(super) fn of(self: &Arc<Self>, source: Arc<dyn Source>) -> Arc<Self> {
        match self.source.fingerprint() == source.fingerprint() {
            true => Arc::clone(self),
            false => Arc::new(Self::new(source, self.are_labels_apart)),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.source.len()
    }

    /// Returns a text that identifies the samples.
    pub(super) fn print(&self) -> String {
        format!("{:016x}", self.source.fingerprint())
    }

    /// Returns the numbers stored with a sample, with the names of classes: `cat`, `age 3`.
    pub(super) fn label_words(&self, sample: u64) -> Vec<String> {
        let mut buffer = Buffer::default();
        let mut words = vec![];
        for (index, field) in self.source.fields().iter().enumerate() {
            if !matches!(field.kind, FieldKind::Int | FieldKind::Float) {
                continue;
            }
            match self.source.value(SampleId(sample), index, &mut buffer) {
                Ok(Stored::Int(number)) => words.push(match self.names.get(number) {
                    Some(name) if field.name == "label" => name.to_owned(),
                    _ => format!("{} {number}", field.name),
                }),
                Ok(Stored::Float(number)) => words.push(format!("{} {number}", field.name)),
                _ => {}
            }
        }
        words
    }

    /// Returns the field of the class, if all labels are read without reading the samples.
    pub(super) fn label_field(&self) -> Option<usize> {
        let can_read = self.are_labels_apart && self.len() <= MOST_LABELS;
        self.source.field_index("label").filter(|_| can_read)
    }

    /// Returns the class of every sample: `None` if reading them would read all samples.
    pub(super) fn labels(&self) -> Option<Arc<Labels>> {
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
    pub(super) fn chosen(&self, body: &Value) -> Result<Chosen, Fault> {
        let Some(classes) = body["classes"].as_array().filter(|classes| !classes.is_empty()) else {
            return Ok(Chosen::All(self.len()));
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
}
