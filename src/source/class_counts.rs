//! How many samples, or objects, of each class a dataset has.

use super::{BoxError, Buffer, ObjectField, Source, Value};
use crate::sample::SampleId;
use std::collections::BTreeMap;

/// The number of samples of each class or, if the samples are images with objects, of objects.
#[derive(Debug, Default)]
pub struct ClassCounts {
    counts: BTreeMap<i64, u64>,
    are_objects: bool,
}

impl ClassCounts {
    /// Reads the label of every sample, or the classes of its objects; `None` if the dataset has neither. A value that
    /// can't be read is left out: `verify` finds it.
    ///
    /// # Errors
    ///
    /// If the description of the fields of objects is damaged.
    pub fn new(source: &dyn Source) -> Result<Option<Self>, BoxError> {
        let known = source.object_fields()?.unwrap_or_default();
        let mut classes = known.iter().filter(|(_, field)| *field == ObjectField::Classes);
        let objects = classes.find_map(|(name, _)| source.field_index(name));
        let Some(field) = objects.or_else(|| source.field_index("label")) else { return Ok(None) };
        let mut found = Self { are_objects: objects.is_some(), ..Self::default() };
        let mut buffer = Buffer::default();
        for sample in (0..source.len()).map(SampleId) {
            match source.value(sample, field, &mut buffer) {
                Ok(Value::Int(number)) => found.add(number),
                Ok(Value::Bytes(numbers)) if found.are_objects => {
                    let numbers = numbers.as_chunks().0.iter();
                    numbers.for_each(|number| found.add(i64::from_le_bytes(*number)));
                }
                _ => {}
            }
        }
        Ok(Some(found))
    }

    fn add(&mut self, class: i64) {
        *self.counts.entry(class).or_default() += 1;
    }

    /// Returns the number of samples of a class; `None` if objects were counted.
    #[must_use]
    pub fn samples(&self, class: i64) -> Option<u64> {
        (!self.are_objects).then(|| self.counts.get(&class).copied().unwrap_or(0))
    }

    /// Returns the number of objects of a class; `None` if samples were counted.
    #[must_use]
    pub fn objects(&self, class: i64) -> Option<u64> {
        self.are_objects.then(|| self.counts.get(&class).copied().unwrap_or(0))
    }
}
