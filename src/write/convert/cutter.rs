//! Shards, one after another: encoded on several threads, laid and cut on one.
//!
//! A shard ends before a sample
//!
//! | if                                           | with                               |
//! |----------------------------------------------|------------------------------------|
//! | it has its share of the samples              | `shards`, `max_samples`            |
//! | the sample would make it longer than it may be | `max_bytes`, if it has one already |
//!
//! Whether a name is free to be a key is asked of the shard alone. So what is in a shard depends on
//! nothing but where it begins.

use super::journal::{Print, Unit};
use super::layout::{Laid, Layout, Made};
use super::{Bar, ConvertError, ConvertOptions, ConvertReport, Form, Job, Journal, Pictures};
use crate::sample::SampleId;
use crate::threads::ThreadsError;
use crate::write::ordered::Crew;
use crate::write::report::Listed;
use crate::write::shards::Template;
use crate::write::step::Watcher;
use crate::write::target::Target;
use crate::write::value::SampleError;
use crate::write::{Reencoded, WriteError};
use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Bytes collected before they are given to the system.
const BUFFER: usize = 1 << 20;

/// What WebDataset's `ShardWriter` takes if nothing is said: samples of a shard,
const MAX_SAMPLES: u64 = 100_000;
/// and bytes.
const MAX_BYTES: u64 = 3_000_000_000;

/// Where shards end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    samples: u64,
    cut: Cut,
    /// How many there are, as far as the names say it.
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// So many, of as many samples each as can be.
    Even(u64),
    Most {
        samples: u64,
        bytes: u64,
    },
}

impl Plan {
    fn new(
        template: &Template,
        samples: u64,
        options: &ConvertOptions,
    ) -> Result<Self, ConvertError> {
        let ConvertOptions { max_samples, max_bytes, shards, .. } = *options;
        let refused = |reason| Err(ConvertError::Options { reason });
        let even = |shards: u64| Cut::Even(shards.clamp(1, samples.max(1)));
        let cut = match (max_samples, max_bytes, shards) {
            (None, None, None) if !template.has_number() => Cut::Even(1),
            (None, None, Some(1)) => Cut::Even(1),
            _ if !template.has_number() => {
                return refused("the name has no number for several shards: train-{000000}.tar");
            }
            (None, None, Some(shards)) => even(shards),
            (_, Some(_), _) if template.has_count() => {
                return refused("names with {N} say how many shards there are: bytes don't");
            }
            (None, None, None) if template.has_count() => {
                return refused("names with {N} want to know how many shards, or samples of one");
            }
            (None, None, None) => Cut::Most { samples: MAX_SAMPLES, bytes: MAX_BYTES },
            (samples, bytes, _) => {
                Cut::Most { samples: samples.unwrap_or(u64::MAX), bytes: bytes.unwrap_or(u64::MAX) }
            }
        };
        let count = match cut {
            Cut::Even(shards) => shards,
            Cut::Most { samples: most, .. } => samples.div_ceil(most).max(1),
        };
        Ok(Self { samples, cut, count })
    }

    /// Where a shard that begins at `first` ends, unless it grows too long before.
    fn end(&self, shard: u64, first: u64) -> u64 {
        match self.cut {
            Cut::Even(shards) => {
                let end = (u128::from(shard) + 1) * u128::from(self.samples) / u128::from(shards);
                // At most `samples`.
                end as u64
            }
            Cut::Most { samples, .. } => first.saturating_add(samples),
        }
    }

    fn max_bytes(&self) -> u64 {
        match self.cut {
            Cut::Even(_) => u64::MAX,
            Cut::Most { bytes, .. } => bytes,
        }
    }
}

impl Job<'_> {
    /// Writes tar or TFRecord shards.
    pub(super) fn shards(&self, form: Form, print: &Print) -> Result<ConvertReport, ConvertError> {
        let template = Template::parse(&self.dst)?;
        let layout = Layout::new(form, &self.fields)?;
        let plan = Plan::new(&template, self.source.len(), self.options)?;
        let taken = || Ok(other_shards(&template, &[])?.pop());
        self.noted(print, taken, |journal| self.write_shards(&template, &layout, plan, journal))
    }

    fn write_shards(
        &self,
        template: &Template,
        layout: &Layout,
        plan: Plan,
        journal: &mut Journal<'_>,
    ) -> Result<ConvertReport, ConvertError> {
        let path = |shard: usize| template.path(shard as u64, plan.count);
        journal.check(|shard, unit| {
            fs::symlink_metadata(path(shard)).is_ok_and(|f| f.is_file() && f.len() == unit.bytes)
        })?;
        let (first, end) = (journal.end(), self.source.len());
        let bar = self.bar(journal);
        let pictures = Pictures::new(&self.options.image);
        let mut cutter = Cutter { job: self, layout, plan, template, journal, bar, open: None };
        let threads = self.threads()?;
        Crew { first, end, threads }.run(
            |id| layout.make(self.source, &self.fields, &pictures, id),
            Made::held,
            |id, made| cutter.take(id, made),
            |source| WriteError::from(ThreadsError::Refused { wanted: threads, source }).into(),
        )?;
        cutter.finish_all(end)?;
        let journal = cutter.journal;
        self.name_classes(&template.named())?;
        if self.options.overwrite {
            let written: Vec<PathBuf> = (0..journal.units().len()).map(path).collect();
            for stale in other_shards(template, &written)? {
                super::journal::delete(&stale)?;
            }
        }
        Ok(ConvertReport::of(journal, first))
    }
}

/// Files that are named as shards of the template are, but for those of `known`.
pub(super) fn other_shards(
    template: &Template,
    known: &[PathBuf],
) -> Result<Vec<PathBuf>, ConvertError> {
    let known: HashSet<&Path> = known.iter().map(PathBuf::as_path).collect();
    let list = ConvertError::io("list", template.folder());
    let listing = fs::read_dir(template.folder()).map_err(list)?;
    let named = listing
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| template.matches(name)));
    let paths = named.map(|entry| template.folder().join(entry.file_name()));
    Ok(paths.filter(|path| !known.contains(&**path)).collect())
}

/// Lays samples into shards, in their order.
struct Cutter<'a, 'j> {
    job: &'a Job<'a>,
    layout: &'a Layout,
    plan: Plan,
    template: &'a Template,
    journal: &'a mut Journal<'j>,
    bar: Bar,
    open: Option<Shard<'a>>,
}

/// A shard that is being written.
struct Shard<'a> {
    target: Target,
    watch: Watcher<'a>,
    buffer: Vec<u8>,
    /// Bytes given to the system.
    written: u64,
    /// Where it ends at the latest.
    end: u64,
    unit: Unit,
    keys: HashSet<String>,
    skipped: Listed<(u64, String)>,
}

impl<'a> Cutter<'a, '_> {
    /// Takes the next sample.
    fn take(&mut self, id: SampleId, made: Result<Made, SampleError>) -> Result<(), ConvertError> {
        if self.open.as_ref().is_some_and(|shard| shard.end <= id.0) {
            self.finish(id.0)?;
        }
        match made {
            Ok(made) => self.put(id, &made),
            Err(cause) => {
                let told = self.job.left_out(id, cause)?;
                self.open(id.0)?.skipped.add(told);
                self.bar.add(0);
                Ok(())
            }
        }
    }

    fn put(&mut self, id: SampleId, made: &Made) -> Result<(), ConvertError> {
        let (layout, most) = (self.layout, self.plan.max_bytes());
        let shard = self.open(id.0)?;
        let mut laid = layout.lay(made, id, &shard.keys);
        let grown = shard.len() + laid.size() + layout.end().len() as u64;
        if grown > most && shard.unit.samples > 0 {
            self.finish(id.0)?;
            laid = layout.lay(made, id, &HashSet::new());
        }
        self.bar.add(laid.size());
        let shard = self.open(id.0)?;
        Reencoded::count(&mut shard.unit.reencoded, made.reencoded.iter().copied());
        shard.add(laid)
    }

    /// The shard that the next sample, `first` if it is begun here, goes into.
    fn open(&mut self, first: u64) -> Result<&mut Shard<'a>, ConvertError> {
        let shard = match self.open.take() {
            Some(shard) => shard,
            None => {
                let number = self.journal.units().len() as u64;
                let target = Target::create(&self.template.path(number, self.plan.count))?;
                let end = self.plan.end(number, first);
                Shard::new(target, self.job.watch, first, end)
            }
        };
        Ok(self.open.insert(shard))
    }

    /// Ends the open shard, which has the samples up to `end`.
    fn finish(&mut self, end: u64) -> Result<(), ConvertError> {
        let Some(shard) = self.open.take() else { return Ok(()) };
        let unit = shard.finish(self.layout.end(), end)?;
        self.journal.add(unit)
    }

    /// Ends the last shard. A dataset without samples has one as well.
    fn finish_all(&mut self, end: u64) -> Result<(), ConvertError> {
        if self.journal.units().is_empty() {
            self.open(0)?;
        }
        self.finish(end)
    }
}

impl<'a> Shard<'a> {
    fn new(target: Target, watch: Watcher<'a>, first: u64, end: u64) -> Self {
        let unit = Unit { first, files: 1, ..Unit::default() };
        let (keys, skipped) = (HashSet::new(), Listed::default());
        let buffer = Vec::with_capacity(BUFFER);
        Self { target, watch, buffer, written: 0, end, unit, keys, skipped }
    }

    /// Bytes it has so far.
    fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn add(&mut self, laid: Laid<'_>) -> Result<(), ConvertError> {
        for (before, bytes, after) in &laid.pieces {
            [before, *bytes, after].into_iter().try_for_each(|piece| self.write(piece))?;
        }
        if !laid.key.is_empty() {
            self.keys.insert(laid.key);
        }
        self.unit.samples += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ConvertError> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() > BUFFER {
            return self.give(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ConvertError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.give(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn give(&mut self, bytes: &[u8]) -> Result<(), ConvertError> {
        self.target
            .rest(self.written, &self.watch)
            .write_all(bytes)
            .map_err(ConvertError::write(self.target.partial_path()))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Puts it at its path, with the samples up to `end`.
    fn finish(mut self, ending: &[u8], end: u64) -> Result<Unit, ConvertError> {
        self.write(ending)?;
        self.flush()?;
        self.target.commit(&self.watch)?;
        let mut unit = Unit { end, bytes: self.written, ..self.unit };
        unit.skip(&self.skipped);
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, samples: u64, options: &ConvertOptions) -> Result<Plan, ConvertError> {
        Plan::new(&Template::parse(Path::new(name)).unwrap(), samples, options)
    }

    fn limits(samples: u64, bytes: u64, shards: u64) -> ConvertOptions {
        let some = |n| (n > 0).then_some(n);
        ConvertOptions {
            max_samples: some(samples),
            max_bytes: some(bytes),
            shards: some(shards),
            ..ConvertOptions::default()
        }
    }

    #[test]
    fn even_shards_share_all_samples() {
        for (samples, shards) in [(10, 3), (9, 3), (2, 5), (0, 4), (u64::MAX, 7)] {
            let plan = plan("x-{0}-of-{N}.tar", samples, &limits(0, 0, shards)).unwrap();
            let ends: Vec<u64> = (0..plan.count).map(|k| plan.end(k, 0)).collect();
            assert_eq!(*ends.last().unwrap(), samples);
            let sizes: Vec<u64> =
                ends.iter().scan(0, |at, end| Some(end - std::mem::replace(at, *end))).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1 && (samples == 0 || *least > 0), "{sizes:?}");
        }
    }

    #[test]
    fn names_and_limits_go_together() {
        assert!(plan("x.tar", 9, &limits(0, 0, 0)).is_ok());
        assert!(plan("x.tar", 9, &limits(5, 0, 0)).is_err());
        assert!(plan("x.tar", 9, &limits(0, 0, 2)).is_err());
        assert!(plan("x-{0}-of-{N}.tar", 9, &limits(0, 5, 0)).is_err());
        assert!(plan("x-{0}-of-{N}.tar", 9, &limits(0, 0, 0)).is_err());
        assert_eq!(plan("x-{0}-of-{N}.tar", 9, &limits(4, 0, 0)).unwrap().count, 3);
        assert_eq!(plan("x-{0}.tar", 9, &limits(4, 0, 0)).unwrap().end(2, 8), 12);
    }
}
