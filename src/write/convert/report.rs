//! The report of a conversion.

use super::journal::Journal;
use crate::sample::SampleId;
use crate::write::report::{Reencoded, Skipped, SkippedSample};

/// What a conversion has written.
///
/// ```
/// use fuseloop::write::{ConvertOptions, convert};
///
/// # use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue};
/// # let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
/// # let number = |_, sample| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
/// # let source = Generator::new(1, 8).source(fields, 16, number)?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.beton");
/// let report = convert(&source, path, &ConvertOptions::default())?;
/// assert_eq!((report.samples, report.files, report.skipped.count), (16, 1, 0));
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Debug)]
pub struct ConvertReport {
    /// The number of samples written, including those of earlier attempts.
    pub samples: u64,
    /// The number of samples of the source that earlier attempts had processed.
    pub resumed: u64,
    /// The samples that were left out because they are damaged.
    pub skipped: Skipped,
    /// The images that are not stored as in the source, by kind.
    pub reencoded: Vec<Reencoded>,
    /// The fields with another name than in the source: from, to.
    pub renamed: Vec<(String, String)>,
    /// The number of files written: shards, or the files of a folder; a `.beton` is one.
    pub files: u64,
    /// The size of these files in bytes.
    pub bytes: u64,
    /// Notes for readers of the new dataset, a sentence each.
    pub notes: Vec<String>,
}

impl ConvertReport {
    /// Adds up all chunks of the journal. `resumed` samples of the source were processed before.
    pub(super) fn of(journal: &Journal<'_>, resumed: u64) -> Self {
        let mut skipped = Skipped::default();
        for unit in journal.chunks() {
            for (sample, cause_text) in &unit.skipped {
                let cause = cause_text.clone();
                skipped.add(SkippedSample { sample: SampleId(*sample), path: None, cause });
            }
            // The journal lists as many skipped samples for each chunk as the report does for all
            // chunks.
            skipped.count += unit.skipped_count - unit.skipped.len() as u64;
        }
        let mut reencoded = vec![];
        for unit in journal.chunks() {
            Reencoded::count(&mut reencoded, unit.reencoded.iter().copied());
        }
        let sum = |count: fn(&super::journal::OutputChunk) -> u64| {
            journal.chunks().iter().map(count).sum()
        };
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
