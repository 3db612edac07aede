//! A whole dataset, checked: every value of every sample read, every picture decoded to its last
//! row.
//!
//! | value         | what is checked                                                          |
//! |---------------|--------------------------------------------------------------------------|
//! | any           | its cell in the sample table; that it lies in the data; that it is read  |
//! | image         | its header agrees with its cell, and all of its pixels are decoded       |
//! | JSON          | it is JSON, as Python reads it, and ends with the NUL that FFCV cuts at  |
//! | bytes, arrays | nothing more: there is no checksum, any bytes are some                   |
//!
//! Samples are checked by several threads, 64 at a time. The report does not depend on how many:
//! parts of it are put together in the order of the samples. It holds the first
//! [`VerifyReport::KEPT`] damaged values and counts the rest, and one bit for each sample.
//!
//! What a `.beton` file's own tables say of each other is checked by [`layout()`].

mod json;
mod layout;
mod report;
mod value;

pub use layout::{Finding, Layout, layout};
pub use report::{Damaged, Trouble, ValueError, VerifyReport};

use crate::parallel;
use crate::sample::{Limits, SampleId};
use crate::source::Source;
use crate::threads::{self, ThreadsError};
use rayon::prelude::*;
use report::{Good, Tally};
use std::num::NonZeroUsize;
use std::thread;
use value::Checker;

/// Samples that a thread checks in a stroke: those of one word of [`Good`].
const GROUP: u64 = Good::BITS;

/// How a dataset is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Threads that check, at most 1024; one a core if not given.
    pub jobs: Option<NonZeroUsize>,
    /// Check only so many samples, from the first on.
    pub limit: Option<u64>,
    /// What a picture may ask for.
    pub limits: Limits,
}

/// Why a dataset could not be checked at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// More threads than may be asked for, or the system starts none.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// There is no memory to note the good samples in.
    #[error("no memory for a bit for each of {samples} samples")]
    Memory {
        /// Samples there are.
        samples: u64,
    },
}

/// Checks every value of every sample. `progress` is told of samples that are done, from several
/// threads.
///
/// ```
/// use fuseloop::source::Beton;
/// use fuseloop::verify::{VerifyOptions, verify};
/// # use fuseloop::source::{FieldKind, FieldSpec};
/// # use fuseloop::write::{FieldValue, WriteOptions, write_iter};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("numbers.beton");
/// # let fields = [FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
/// # write_iter((0..7).map(|n| vec![FieldValue::Int(n)]), &fields, &path, &WriteOptions::default())?;
/// let file = Beton::open(path, &fuseloop::Limits::DEFAULT)?;
/// let report = verify(&file, &VerifyOptions::default(), &|_samples| {})?;
/// assert!(report.is_whole());
/// assert_eq!(report.good().count(), 7);
/// # Ok::<(), fuseloop::source::BoxError>(())
/// ```
///
/// # Errors
///
/// If too many threads are asked for, the system starts none, or there is no memory for a bit for
/// each sample. Damage is not an error, but what is reported.
pub fn verify(
    source: &dyn Source,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<VerifyReport, VerifyError> {
    let samples = source.len().min(options.limit.unwrap_or(u64::MAX));
    let good = Good::new(samples).ok_or(VerifyError::Memory { samples })?;
    let groups = samples.div_ceil(GROUP);
    let pool = parallel::pool(thread_count(options.jobs, groups)?, "fuseloop-verify")?;
    let check = |checker: &mut Checker<'_>, group: u64| {
        let first = group * GROUP;
        let last = samples.min(first + GROUP);
        let mut tally = Tally::default();
        for sample in (first..last).map(SampleId) {
            if checker.sample(sample, &mut tally) {
                good.insert(sample);
            }
        }
        progress(last - first);
        tally
    };
    let tally = pool.install(|| {
        let tallies =
            (0..groups).into_par_iter().map_init(|| Checker::new(source, options.limits), check);
        tallies.reduce(Tally::default, Tally::followed_by)
    });
    Ok(VerifyReport::new(samples, tally, good))
}

/// As many threads as asked for, or one a core; but no more than there is work for.
fn thread_count(asked: Option<NonZeroUsize>, groups: u64) -> Result<usize, ThreadsError> {
    let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let count = asked.unwrap_or_else(cores).get();
    threads::check("threads to verify with", count)?;
    Ok(count.min(usize::try_from(groups).unwrap_or(count)).max(1))
}
