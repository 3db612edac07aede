//! The report of a conversion.

use super::journal::{Journal, OutputChunk};
use crate::sample::SampleId;
use crate::write::report::{Reencoded, Skipped, SkippedSample};

/// What a conversion has written.
///
/// ```
/// use fuseloop::write::{WriteOptions, convert};
///
/// # use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedValue};
/// # let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
/// # let number = |_, sample| Ok::<_, BoxError>(vec![OwnedValue::Int(sample as i64)]);
/// # let source = Generator::new(1, 8).source(fields, 16, number)?;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.beton");
/// let report = convert(&source, path, &WriteOptions::default())?;
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
        let OutputChunk { samples, files, bytes, skipped_count, skipped, reencoded, .. } =
            OutputChunk::joined(journal.chunks());
        Self {
            samples,
            resumed,
            skipped: skipped_samples(skipped_count, skipped),
            reencoded,
            renamed: vec![],
            files,
            bytes,
            notes: vec![],
        }
    }
}

/// Returns the list of `count` samples that were left out, of which the first are known.
pub(super) fn skipped_samples(count: u64, first: Vec<(u64, String)>) -> Skipped {
    let entry = |(sample, cause)| SkippedSample { sample: SampleId(sample), path: None, cause };
    Skipped { count, first: first.into_iter().map(entry).collect() }
}
