//! Some samples of a source, in any order.

use super::{
    BoxError, Buffer, Escaped, Facts, Fingerprint, Record, SampleLocation, Source, StoredValues,
    Value,
};
use crate::error::{Error, fail};
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::path::PathBuf;
use std::sync::Arc;

/// Some samples of a source as a source of their own: to convert a part of a dataset.
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions, Selected};
/// use fuseloop::write::{WriteOptions, convert};
/// use std::sync::Arc;
///
/// let all = Arc::new(Beton::open("train.beton", &OpenOptions::default())?);
/// convert(&Selected::new(all, 0..1000)?, "few.beton", &WriteOptions::default())?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub struct Selected {
    facts: Facts,
    source: Arc<dyn Source>,
    samples: Vec<u64>,
}

impl Selected {
    /// Selects samples by their numbers, in the given order. A sample that is given twice is there twice.
    ///
    /// # Errors
    ///
    /// If the source does not have one of the samples.
    pub fn new(
        source: Arc<dyn Source>,
        samples: impl IntoIterator<Item = u64>,
    ) -> Result<Self, Error> {
        let mut print = Fingerprint::default();
        print.text("selected");
        print.number(source.fingerprint());
        let (mut selected, count) = (vec![], source.len());
        for sample in samples {
            if sample >= count {
                let name = source.name();
                return Err(fail!(
                    Parameter,
                    "{}: sample {sample} does not exist: the dataset has {count} samples",
                    Escaped(name)
                ));
            }
            print.number(sample);
            selected.push(sample);
        }
        let known = source.facts().clone();
        let facts = Facts {
            samples: selected.len() as u64,
            path: None,
            fingerprint: print.value(),
            stored_bytes: None,
            image_stats: None,
            longest: None,
            is_selection: true,
            ..known.clone()
        };
        Ok(Self { facts: facts.with_paths(move || known.paths()), source, samples: selected })
    }

    fn sample(&self, sample: SampleId) -> Result<SampleId, BoxError> {
        let found = usize::try_from(sample.0).ok().and_then(|index| self.samples.get(index));
        let found = found
            .ok_or_else(|| format!("no such sample: there are {} samples", self.samples.len()))?;
        Ok(SampleId(*found))
    }
}

impl Source for Selected {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.source.read(self.sample(sample)?)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.source.value(self.sample(sample)?, field, buffer)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.source.locate(self.sample(sample).ok()?, field)
    }

    fn component(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        self.source.component(self.sample(sample)?, buffer)
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for Selected {
    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        self.source.stored()?.annotated_size(self.sample(sample).ok()?)
    }

    fn value_file(&self, sample: SampleId, field: usize) -> Option<PathBuf> {
        self.source.stored()?.value_file(self.sample(sample).ok()?, field)
    }
}
