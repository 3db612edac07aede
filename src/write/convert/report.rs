//! What a conversion has done.

use super::journal::Journal;
use crate::sample::SampleId;
use crate::write::report::{Reencoded, Skipped, SkippedSample};
use crate::write::value::SampleError;

/// What was converted.
#[derive(Debug)]
pub struct ConvertReport {
    /// Samples written, those of earlier attempts among them.
    pub samples: u64,
    /// Samples of the source that earlier attempts had dealt with.
    pub resumed: u64,
    /// Samples left out because they are damaged.
    pub skipped: Skipped,
    /// Images that are not as they were in the source, by kind.
    pub reencoded: Vec<Reencoded>,
    /// Fields that are called otherwise than in the source: from, to.
    pub renamed: Vec<(String, String)>,
    /// Files written: shards, or a folder's; a `.beton` is one.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// What who reads the new dataset should know, a sentence each.
    pub notes: Vec<String>,
}

impl ConvertReport {
    /// What all units have come to. `resumed` samples of the source were dealt with before.
    pub(super) fn of(journal: &Journal<'_>, resumed: u64) -> Self {
        let mut skipped = Skipped::default();
        for unit in journal.units() {
            for (sample, told) in &unit.skipped {
                let cause = SampleError::Source(told.clone().into());
                skipped.add(SkippedSample { sample: SampleId(*sample), path: None, cause });
            }
            // The notes have as many words of each unit as the report has of all.
            skipped.count += unit.skipped_count - unit.skipped.len() as u64;
        }
        let mut reencoded = vec![];
        for unit in journal.units() {
            Reencoded::count(&mut reencoded, unit.reencoded.iter().copied());
        }
        let sum = |count: fn(&super::journal::Unit) -> u64| journal.units().iter().map(count).sum();
        Self {
            samples: sum(|unit| unit.samples),
            resumed,
            skipped,
            reencoded,
            renamed: vec![],
            files: sum(|unit| unit.files),
            bytes: sum(|unit| unit.bytes),
            notes: vec![],
        }
    }
}
