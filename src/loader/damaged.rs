//! Damaged samples: what happens to their rows, and the list of them.

use crate::sample::{Epoch, SampleId};
use crate::source::Escaped;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Determines what happens to the row of a sample that can't be read or decoded. An error of a user's function,
/// or too little memory, always ends the epoch.
///
/// ```no_run
/// use fuseloop::{Loader, OnDamaged};
///
/// let loader = Loader::open("train.beton")?.on_damaged(OnDamaged::Substitute).build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnDamaged {
    /// The epoch ends with the error, after the batches before it.
    #[default]
    Fail,
    /// The row is left out: its batch is shorter, and all other rows are unchanged. An epoch of which all rows are left
    /// out is an error. Not available with several ranks, whose batches would have different lengths.
    Skip,
    /// Another sample of the epoch replaces it, drawn by the seed, the epoch and the damaged sample: the
    /// same one for any number of workers. Batches keep their lengths.
    Substitute,
}

/// The maximum number of substitutes tried for one row: if that many are damaged in succession,
/// something else is wrong.
pub(super) const MAX_SUBSTITUTES: u32 = 16;

/// The maximum number of samples listed. Rows of other samples are only counted.
const LISTED: usize = 1000;

/// A sample that could not be read or decoded.
///
/// ```no_run
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// for damaged in loader.quarantine().samples {
///     println!("sample {} in epoch {}: {}", damaged.sample.0, damaged.epoch.index(), damaged.error);
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The sample.
    pub sample: SampleId,
    /// The epoch in which the sample was first found.
    pub epoch: Epoch,
    /// The description of the damage, with the path of the sample's file, its key there, the field and,
    /// if known, the offset.
    pub error: String,
}

/// The damaged samples that a loader has found, in order of their numbers.
///
/// Work ahead of the batches taken is included.
///
/// ```no_run
/// use fuseloop::{Loader, OnDamaged};
///
/// let loader = Loader::open("train.beton")?.on_damaged(OnDamaged::Skip).build()?;
/// loader.epoch(0)?.try_for_each(|batch| batch.map(drop))?;
/// let quarantine = loader.quarantine();
/// println!("{} damaged samples, {} rows", quarantine.samples.len(), quarantine.rows);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    /// The first thousand samples found.
    pub samples: Vec<Quarantined>,
    /// The number of rows lost, over all epochs: a sample is found again in each. A row whose
    /// substitutes are damaged too counts once.
    pub rows: u64,
    /// True if more samples were found than are listed.
    pub is_cut: bool,
}

/// One line per sample.
impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.samples.is_empty() {
            return writeln!(f, "no damaged sample");
        }
        let (found, more) = (self.samples.len(), if self.is_cut { " or more" } else { "" });
        writeln!(f, "{found}{more} damaged samples, {} rows lost", self.rows)?;
        for Quarantined { sample, epoch, error } in &self.samples {
            writeln!(f, "sample {sample} (epoch {}): {}", epoch.0, Escaped(error))?;
        }
        Ok(())
    }
}

/// The growing list, which workers add to.
#[derive(Debug, Default)]
pub(super) struct DamageLog(Mutex<ListedSample>);

#[derive(Debug, Default)]
struct ListedSample {
    known: HashSet<SampleId>,
    quarantine: Quarantine,
}

impl DamageLog {
    /// Records a damaged sample: the row's own, at attempt 0, or a damaged substitute.
    pub(super) fn note(
        &self,
        sample: SampleId,
        epoch: Epoch,
        attempt: u32,
        error: &dyn fmt::Display,
    ) {
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ListedSample { known, quarantine } = &mut *listed;
        quarantine.rows += u64::from(attempt == 0);
        if known.contains(&sample) {
            return;
        }
        if known.len() == LISTED {
            quarantine.is_cut = true;
            return;
        }
        known.insert(sample);
        quarantine.samples.push(Quarantined { sample, epoch, error: error.to_string() });
    }

    /// Returns the error of the first damaged sample.
    pub(super) fn first_error(&self) -> String {
        let first = self.report().samples.into_iter().next();
        first.map_or_else(String::new, |first| first.error)
    }

    /// Returns the number of rows lost.
    pub(super) fn rows(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).quarantine.rows
    }

    pub(super) fn report(&self) -> Quarantine {
        let listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = listed.quarantine.clone();
        report.samples.sort_by_key(|quarantined| quarantined.sample);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_listed_once_and_its_rows_are_counted() {
        let log = DamageLog::default();
        assert_eq!(log.report().to_string(), "no damaged sample\n");
        log.note(SampleId(9), Epoch(0), 0, &"a.beton (image): cut");
        log.note(SampleId(4), Epoch(0), 1, &"a.beton (image): gone");
        log.note(SampleId(9), Epoch(1), 0, &"a.beton (image): cut");
        assert_eq!(
            log.report().to_string(),
            "2 damaged samples, 2 rows lost\n\
             sample 4 (epoch 0): a.beton (image): gone\n\
             sample 9 (epoch 0): a.beton (image): cut\n"
        );
    }

    #[test]
    fn the_list_is_bounded() {
        let log = DamageLog::default();
        (0..2000).for_each(|id| log.note(SampleId(id), Epoch(0), 0, &"gone"));
        let report = log.report();
        assert!(report.samples.len() == LISTED && report.is_cut && report.rows == 2000);
    }
}
