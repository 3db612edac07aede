//! Several sources as one: their samples one after another, in any order of reading.
//!
//! ```text
//! source 0      source 1   source 2
//! 0 1 2 3 4     0 1 2      0 1 2 3
//! 0 1 2 3 4     5 6 7      8 9 10 11     the numbers that a loader shuffles
//! ```

use super::starts::Starts;
use super::{
    BoxError, Buffer, Escaped, Facts, Fingerprint, ImageExtent, ObjectFields, Record, Run, RunPlan,
    SampleLocation, Source, StoredValues, Upcoming, Value,
};
use crate::error::Error;
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Several sources with the same fields, joined into one.
///
/// ```no_run
/// use fuseloop::source::{Beton, Concat, OpenOptions, Source};
/// use fuseloop::{Loader, Order};
/// use std::sync::Arc;
///
/// let part = |path| Ok::<_, Box<dyn std::error::Error>>(Arc::new(Beton::open(path, &OpenOptions::default())?) as Arc<dyn Source>);
/// let both = Concat::new([part("a.beton")?, part("b.beton")?])?;
/// let loader = Loader::from_source(both).order(Order::Random).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Concat {
    facts: Facts,
    parts: Vec<Arc<dyn Source>>,
    starts: Arc<Starts>,
}

impl Concat {
    /// Joins sources one after another.
    ///
    /// # Errors
    ///
    /// Fails if there is no source, if the sources do not have the same fields, or if one number means different classes
    /// in two of them, by the names of their classes.
    pub fn new(parts: impl IntoIterator<Item = Arc<dyn Source>>) -> Result<Self, Error> {
        let parts: Vec<Arc<dyn Source>> = parts.into_iter().collect();
        let streams: Vec<_> =
            parts.iter().map(|part| super::Stream::of(Arc::clone(part))).collect();
        super::stream::check_equal("concat", &streams)?;
        Ok(Self::of(parts))
    }

    fn of(parts: Vec<Arc<dyn Source>>) -> Self {
        let starts = parts.iter().map(|part| part.len()).collect();
        Self { facts: joined(&parts), parts, starts: Arc::new(starts) }
    }

    /// Returns the source that holds a sample, and the sample's number there.
    fn source_of(&self, sample: SampleId) -> Option<(&dyn Source, SampleId)> {
        let (part, sample) = self.starts.locate(sample)?;
        Some((&*self.parts[part], sample))
    }

    /// Returns what the files of the source that holds a sample can do, and the sample's number there.
    fn stored_of(&self, sample: SampleId) -> Option<(&dyn StoredValues, SampleId)> {
        let (part, sample) = self.source_of(sample)?;
        Some((part.stored()?, sample))
    }

    fn existing(&self, sample: SampleId) -> Result<(&dyn Source, SampleId), BoxError> {
        self.source_of(sample).ok_or_else(|| self.no_such_sample())
    }

    fn no_such_sample(&self) -> BoxError {
        format!("no such sample: there are {} samples", self.facts.samples).into()
    }
}

/// Returns the facts of all parts together.
fn joined(parts: &[Arc<dyn Source>]) -> Facts {
    let all = Facts::joined(parts.iter().map(|part| part.facts()));
    let mut print = Fingerprint::default();
    print.text("concat");
    parts.iter().for_each(|part| print.number(part.fingerprint()));
    let name = match parts {
        [one] => one.name().to_owned(),
        parts => format!("{} and {} more", parts[0].name(), parts.len() - 1),
    };
    let parts: Arc<[Arc<dyn Source>]> = parts.into();
    Facts { name, fingerprint: print.value(), ..all }
        .with_object_fields(move || joined_objects(&parts))
}

/// Returns what all parts say of the fields of objects. That a field is something else in another part is an error.
fn joined_objects(parts: &[Arc<dyn Source>]) -> Result<Option<ObjectFields>, BoxError> {
    let Some(fields) = parts[0].object_fields()? else { return Ok(None) };
    for part in &parts[1..] {
        let Some(others) = part.object_fields()? else { return Ok(None) };
        for (name, field) in others.iter() {
            let known = fields.get(name);
            if let Some(known) = known.filter(|known| *known != field) {
                return Err(format!(
                    "the field {} is {known} in one part of the dataset and {field} in another: convert one of them",
                    Escaped(name)
                )
                .into());
            }
        }
        if others != fields {
            return Ok(None);
        }
    }
    Ok(Some(fields))
}

/// The low bits hold the locality group within a component; the bits above hold the component.
const PAGE_BITS: u32 = 44;

impl Source for Concat {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let (part, sample) = self.existing(sample)?;
        part.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let (part, sample) = self.existing(sample)?;
        part.value(sample, field, buffer)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let (part, sample) = self.source_of(sample)?;
        part.locate(sample, field)
    }

    /// Returns the number of the source; of a single source, the number of its own component.
    fn component(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        if let [one] = &*self.parts {
            return one.component(sample, buffer);
        }
        let found = self.starts.locate(sample).map(|(part, _)| part);
        found.ok_or_else(|| self.no_such_sample())
    }

    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        let (part, inner) = self.starts.locate(sample)?;
        let page = self.parts[part].locality_group(inner)?;
        Some((part as u64) << PAGE_BITS | page)
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let shares = Arc::new(RunSplit {
            upcoming: Arc::clone(&run.upcoming),
            starts: Arc::clone(&self.starts),
            listed: OnceLock::new(),
        });
        let begun = self.parts.iter().enumerate().map(|(part, source)| {
            let upcoming = Arc::new(ComponentRun { of: Arc::clone(&shares), part });
            // A component's batches are pieces of the loader's batches, so one more of them may be in
            // flight.
            let batches_ahead = run.batches_ahead + 1;
            Arc::clone(source).begin(&RunPlan { upcoming, batches_ahead, ..run.clone() })
        });
        let runs = begun.collect::<Result<Vec<Option<Run>>, BoxError>>()?;
        if runs.iter().all(Option::is_none) {
            return Ok(None);
        }
        let read = |(run, source): (&Option<Run>, &Arc<dyn Source>)| {
            Arc::clone(run.as_deref().unwrap_or(source))
        };
        let view = Self::of(runs.iter().zip(&self.parts).map(read).collect());
        Ok(Some(Run::new(Arc::new(view)).on_end(move || drop(runs))))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for Concat {
    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        let (part, sample) = self.stored_of(sample)?;
        part.annotated_size(sample)
    }

    fn hold_in_memory(&self) -> Result<(), BoxError> {
        self.parts
            .iter()
            .filter_map(|part| part.stored())
            .try_for_each(|part| part.hold_in_memory())
    }

    fn expect_read(&self, sample: SampleId, field: usize) {
        if let Some((part, sample)) = self.stored_of(sample) {
            part.expect_read(sample, field);
        }
    }

    fn value_in_memory(&self, sample: SampleId, field: usize) -> Option<Value<'_>> {
        let (part, sample) = self.stored_of(sample)?;
        part.value_in_memory(sample, field)
    }

    fn value_file(&self, sample: SampleId, field: usize) -> Option<PathBuf> {
        let (part, sample) = self.stored_of(sample)?;
        part.value_file(sample, field)
    }

    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        let (part, sample) = self.stored_of(sample)?;
        part.image_extent(sample, field)
    }

    fn image_part(
        &self,
        sample: SampleId,
        field: usize,
        to: (u64, &mut [u8]),
        buffer: &mut Buffer,
    ) -> Result<(), BoxError> {
        let (part, sample) = self.stored_of(sample).ok_or_else(|| self.no_such_sample())?;
        part.image_part(sample, field, to, buffer)
    }
}

/// The samples of a run by component. They are listed when the first component asks for its own.
struct RunSplit {
    upcoming: Arc<dyn Upcoming>,
    starts: Arc<Starts>,
    listed: OnceLock<Vec<Vec<SampleId>>>,
}

/// The number of samples of a run that are listed in one call.
const LISTED_AT_ONCE: u64 = 1 << 12;

impl RunSplit {
    fn of(&self, part: usize) -> &[SampleId] {
        let listed = self.listed.get_or_init(|| {
            let mut parts = vec![vec![]; self.starts.parts()];
            let (mut samples, mut at) = (vec![], 0);
            while at < self.upcoming.samples() {
                let end = at.saturating_add(LISTED_AT_ONCE).min(self.upcoming.samples());
                self.upcoming.at(at..end, &mut samples);
                for (part, sample) in samples.drain(..).filter_map(|id| self.starts.locate(id)) {
                    parts[part].push(sample);
                }
                at = end;
            }
            parts
        });
        &listed[part]
    }
}

/// The samples of a run that belong to one component.
struct ComponentRun {
    of: Arc<RunSplit>,
    part: usize,
}

impl Upcoming for ComponentRun {
    fn samples(&self) -> u64 {
        self.of.of(self.part).len() as u64
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        let all = self.of.of(self.part);
        let positions = positions.start as usize..(positions.end as usize).min(all.len());
        samples.extend(all.get(positions).into_iter().flatten());
    }
}
