//! Several sources as one: their samples one after another, in any order of reading.
//!
//! ```text
//! source 0      source 1   source 2
//! 0 1 2 3 4     0 1 2      0 1 2 3
//! 0 1 2 3 4     5 6 7      8 9 10 11     the numbers that a loader shuffles
//! ```

use super::classes;
use super::starts::Starts;
use super::{
    BoxError, Buffer, ClassNames, Escaped, FieldSpec, Fingerprint, ImageExtent, ImageStats,
    ObjectFields, Record, RunPlan, SampleLocation, Source, Upcoming, Value,
};
use crate::error::Error;
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::ops::Range;
use std::path::{Path, PathBuf};
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
        let starts = Arc::new(parts.iter().map(|part| part.len()).collect());
        Self { parts, starts }
    }

    /// Returns the source that holds a sample, and the sample's number there.
    fn source_of(&self, sample: SampleId) -> Option<(&dyn Source, SampleId)> {
        let (part, sample) = self.starts.locate(sample)?;
        Some((&*self.parts[part], sample))
    }

    fn existing(&self, sample: SampleId) -> Result<(&dyn Source, SampleId), BoxError> {
        let found = self.source_of(sample);
        found.ok_or_else(|| {
            format!("no such sample: there are {} samples", Source::len(self)).into()
        })
    }

    /// Combines the answers of all components with `both`; `None` if a component has no answer.
    fn all<T>(&self, of: impl Fn(&dyn Source) -> Option<T>, both: impl Fn(T, T) -> T) -> Option<T> {
        let said = self.parts.iter().map(|part| of(&**part));
        said.reduce(|a, b| a.zip(b).map(|(a, b)| both(a, b))).flatten()
    }
}

/// The low bits hold the locality group within a component; the bits above hold the component.
const PAGE_BITS: u32 = 44;

impl Source for Concat {
    fn fields(&self) -> &[FieldSpec] {
        self.parts[0].fields()
    }

    fn len(&self) -> u64 {
        self.starts.samples()
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let (part, sample) = self.existing(sample)?;
        part.read(sample)
    }

    fn name(&self) -> String {
        match &*self.parts {
            [one] => one.name(),
            parts => format!("{} and {} more", parts[0].name(), parts.len() - 1),
        }
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

    /// Returns the number of sources that were joined; for a single source, the number of its own
    /// components.
    fn components(&self) -> usize {
        if let [one] = &*self.parts { one.components() } else { self.parts.len() }
    }

    fn component(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        if let [one] = &*self.parts {
            return one.component(sample, buffer);
        }
        let found = self.starts.locate(sample).map(|(part, _)| part);
        found.ok_or_else(|| {
            format!("no such sample: there are {} samples", Source::len(self)).into()
        })
    }

    fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.all(|part| part.image_stats(field), |a, b| a.merged(&b))
    }

    /// Returns the path of a single source; `None` for several sources.
    fn path(&self) -> Option<&Path> {
        if let [one] = &*self.parts { one.path() } else { None }
    }

    fn longest(&self, field: usize) -> Option<u64> {
        self.all(|part| part.longest(field), u64::max)
    }

    fn is_cheap_to_read_again(&self) -> bool {
        self.parts.iter().all(|part| part.is_cheap_to_read_again())
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let (part, sample) = self.source_of(sample)?;
        part.locate(sample, field)
    }

    /// Merges the names of all components, if each has names. One number has one name: [`new`](Self::new) checks this.
    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        let named = self.parts.iter().map(|part| Ok((part.name(), part.class_names()?)));
        Ok(classes::joined(named.collect::<Result<Vec<_>, BoxError>>()?)?)
    }

    /// Returns what all components say. That a field is something else in another component is an error.
    fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        let Some(fields) = self.parts[0].object_fields()? else { return Ok(None) };
        for part in &self.parts[1..] {
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

    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        let (part, sample) = self.source_of(sample)?;
        part.annotated_size(sample)
    }

    fn stored_bytes(&self) -> Option<u64> {
        self.all(|part| part.stored_bytes(), u64::saturating_add)
    }

    fn hold_in_memory(&self) -> Result<(), BoxError> {
        self.parts.iter().try_for_each(|part| part.hold_in_memory())
    }

    fn expect_read(&self, sample: SampleId, field: usize) {
        if let Some((part, sample)) = self.source_of(sample) {
            part.expect_read(sample, field);
        }
    }

    fn value_in_memory(&self, sample: SampleId, field: usize) -> Option<Value<'_>> {
        let (part, sample) = self.source_of(sample)?;
        part.value_in_memory(sample, field)
    }

    fn image_extent(&self, sample: SampleId, field: usize) -> Option<ImageExtent> {
        let (part, sample) = self.source_of(sample)?;
        part.image_extent(sample, field)
    }

    fn image_part(
        &self,
        sample: SampleId,
        field: usize,
        to: (u64, &mut [u8]),
        buffer: &mut Buffer,
    ) -> Result<(), BoxError> {
        let (part, sample) = self.existing(sample)?;
        part.image_part(sample, field, to, buffer)
    }

    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        let (part, inner) = self.starts.locate(sample)?;
        let page = self.parts[part].locality_group(inner)?;
        Some((part as u64) << PAGE_BITS | page)
    }

    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        Box::new(self.parts.iter().flat_map(|part| part.paths()))
    }

    fn fingerprint(&self) -> u64 {
        let mut print = Fingerprint::default();
        print.text("concat");
        self.parts.iter().for_each(|part| print.number(part.fingerprint()));
        print.value()
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Arc<dyn Source>>, BoxError> {
        let shares = Arc::new(RunSplit {
            upcoming: Arc::clone(&run.upcoming),
            starts: Arc::clone(&self.starts),
            listed: OnceLock::new(),
        });
        let mut is_same = true;
        let begun = self.parts.iter().enumerate().map(|(part, source)| {
            let upcoming = Arc::new(ComponentRun { of: Arc::clone(&shares), part });
            // A component's batches are pieces of the loader's batches, so one more of them may be in
            // flight.
            let batches_ahead = run.batches_ahead + 1;
            let begun =
                Arc::clone(source).begin(&RunPlan { upcoming, batches_ahead, ..run.clone() })?;
            is_same &= begun.is_none();
            Ok(begun.unwrap_or_else(|| Arc::clone(source)))
        });
        let begun: Result<Vec<Arc<dyn Source>>, BoxError> = begun.collect();
        let begun = begun?;
        Ok((!is_same).then(|| Arc::new(Self::of(begun)) as Arc<dyn Source>))
    }

    fn end(&self) {
        self.parts.iter().for_each(|part| part.end());
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
