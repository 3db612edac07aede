//! The samples that a loader uses: `indices`, then filters; and the dataset information for orders.

use super::buckets::Buckets;
use super::error::of_sample;
use super::outputs::no_such_field;
use crate::error::{Error, fail};
use crate::order::bucketed::one_bucket;
use crate::order::{DatasetInfo, Subset};
use crate::parallel;
use crate::sample::SampleId;
use crate::source::{BoxError, Buffer, Escaped, Source, Value};
use std::sync::Arc;

/// Returns true to keep a sample, given the value of a field.
pub(super) type KeepFn = Arc<dyn Fn(Value<'_>) -> bool + Send + Sync>;

/// The number of samples that one thread checks at a time.
const AT_ONCE: usize = 1 << 12;

/// Returns the samples in `indices`, or all, without those that a filter refuses.
///
/// # Errors
///
/// If there is no such index or field, or a value can't be read.
pub(super) fn subset(
    source: &dyn Source,
    indices: Option<Vec<u64>>,
    filters: &[(String, KeepFn)],
) -> Result<Subset, Error> {
    let samples = source.len();
    if let Some(&index) = indices.iter().flatten().find(|&&index| index >= samples) {
        return Err(fail!(Parameter, "index {index}: the dataset has {samples} samples"));
    }
    if filters.is_empty() {
        return Ok(indices.map_or(Subset::All(samples), |ids| Subset::Listed(ids.into())));
    }
    let mut ids = indices.unwrap_or_else(|| (0..samples).collect());
    for (field, keep) in filters {
        let index = source.field_index(field).ok_or_else(|| no_such_field(source, field))?;
        let chunks: Vec<&[u64]> = ids.chunks(AT_ONCE).collect();
        let filtered =
            parallel::map(&chunks, |chunk| filtered(source, (field, index), chunk, keep))?;
        ids = filtered.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    }
    Ok(Subset::Listed(ids.into()))
}

fn filtered(
    source: &dyn Source,
    (field, index): (&str, usize),
    ids: &[u64],
    keep: &KeepFn,
) -> Result<Vec<u64>, Error> {
    let mut buffer = Buffer::default();
    let mut accepted = Vec::with_capacity(ids.len());
    for &id in ids {
        buffer.forget();
        let value = source.value(SampleId(id), index, &mut buffer);
        let value = value.map_err(|error| {
            let error = of_sample(source, SampleId(id), (field, index), error.into());
            error.context(format_args!("filter: sample {id}")).of_sample(SampleId(id))
        })?;
        if keep(value) {
            accepted.push(id);
        }
    }
    Ok(accepted)
}

/// The dataset information that orders need, read from a source.
pub(super) struct SourceInfo<'a> {
    pub(super) source: &'a dyn Source,
    /// The outputs that samples are bucketed by, if the order does that.
    pub(super) buckets: Option<&'a Buckets<'a>>,
}

impl DatasetInfo for SourceInfo<'_> {
    fn samples(&self) -> u64 {
        self.source.len()
    }

    fn page(&self, sample: SampleId) -> Option<u64> {
        self.source.locality_group(sample)
    }

    fn class(&self, field: &str, sample: SampleId) -> Result<i64, BoxError> {
        let index = self.source.field_index(field);
        let index = index.ok_or_else(|| format!("no field named {}", Escaped(field)))?;
        match self.source.value(sample, index, &mut Buffer::default())? {
            Value::Int(class) => Ok(class),
            _ => Err(format!("field {} does not hold ints", Escaped(field)).into()),
        }
    }

    fn components(&self) -> usize {
        self.source.components()
    }

    fn component(&self, sample: SampleId) -> Result<usize, BoxError> {
        self.source.component(sample, &mut Buffer::default())
    }

    fn buckets(&self, subset: &Subset) -> Result<Vec<Option<u32>>, Error> {
        match self.buckets.filter(|buckets| !buckets.is_empty()) {
            Some(buckets) => buckets.of_samples(self.source, subset),
            None => one_bucket(subset),
        }
    }
}
