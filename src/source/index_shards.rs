//! Writes an index file beside each shard of a dataset, for `fuseloop index`.

use super::BoxError;
#[cfg(not(all(feature = "tar", feature = "tfrecord")))]
use super::feature::NeedsFeature;
use super::file_format::FileFormat;
use super::index_file::{Kind, save};
use super::shards::{Shard, ShardIndex, Shards};
#[cfg(feature = "tar")]
use super::tar;
#[cfg(feature = "tfrecord")]
use super::tfrecord;
use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind};
use crate::parallel;
use crate::sample::Limits;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The result of indexing.
///
/// ```no_run
/// use fuseloop::source::IndexReport;
///
/// fn print(report: &IndexReport) {
///     println!("{} shards, {} samples, {} bytes of indexes", report.shards, report.samples, report.bytes);
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexReport {
    /// The number of shards that now have an index.
    pub shards: usize,
    /// The number of samples in these shards.
    pub samples: u64,
    /// The size of the index files in bytes.
    pub bytes: u64,
}

/// Writes an index file beside each shard that a text names, over an index that is there. Several shards
/// are read at a time. After each shard, `progress` is called with the number of shards that are done
/// and the number of all shards.
///
/// With an index, opening a shard reads the index and no headers. [`Tar`](super::Tar) and
/// [`TfRecords`](super::TfRecords) find the index by its name.
///
/// ```no_run
/// use fuseloop::source::index_shards;
/// let report = index_shards("train-{000..255}.tar", &|done, of| println!("{done} of {of}"))?;
/// println!("{} samples", report.samples);
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// Fails with the name of the first shard that is damaged, compressed or remote, or beside which no file
/// can be written. The shards before it keep the index that was written.
pub fn index_shards(
    spec: &str,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<IndexReport, Error> {
    index_until(spec, &CancelFlag::default(), progress)
}

/// [`index_shards`], which a flag ends before the next shard.
pub fn index_until(
    spec: &str,
    cancel: &CancelFlag,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<IndexReport, Error> {
    let shards = Shards::open(spec)?;
    let (done, of) = (AtomicUsize::new(0), shards.all().len());
    let one = |shard: &Shard| -> Result<(u64, u64), BoxError> {
        if cancel.is_cancelled() {
            return Err(Error::boxed("indexing was cancelled".into(), ErrorKind::Cancelled).into());
        }
        let (kind, index) = scan(shard)?;
        let bytes = save(shard, kind, &index)?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, of);
        Ok((index.len() as u64, bytes))
    };
    let mut report = IndexReport::default();
    for one in parallel::map(shards.all(), one)? {
        let (samples, bytes) = one.map_err(|error| Error::boxed(error, ErrorKind::Format))?;
        report.shards += 1;
        report.samples += samples;
        report.bytes += bytes;
    }
    Ok(report)
}

/// Finds the samples of a shard. The shard's name tells its format.
fn scan(shard: &Shard) -> Result<(Kind, ShardIndex), BoxError> {
    match FileFormat::of_name(shard.location.file_name()) {
        #[cfg(feature = "tfrecord")]
        FileFormat::TfRecords => Ok((Kind::TfRecord, tfrecord::scan(shard, &Limits::DEFAULT)?)),
        #[cfg(not(feature = "tfrecord"))]
        FileFormat::TfRecords => {
            let reason = NeedsFeature { what: "TFRecord files", feature: "tfrecord" };
            Err(format!("{}: {reason}", shard.location).into())
        }
        #[cfg(feature = "tar")]
        format => {
            let scanned = tar::scan(shard, &Limits::DEFAULT).map_err(|error| match format {
                // Any other name may be that of a tar file.
                FileFormat::Beton | FileFormat::Folder | FileFormat::Parquet => {
                    not_a_shard(shard, &error)
                }
                _ => error.into(),
            })?;
            if scanned.is_open {
                tar::warn_of_open(std::iter::once(&shard.location));
            }
            Ok((Kind::Tar, scanned.index))
        }
        #[cfg(not(feature = "tar"))]
        _ => {
            let reason = NeedsFeature { what: "tar files", feature: "tar" };
            Err(format!("{}: {reason}", shard.location).into())
        }
    }
}

/// Returns the error for a file that is a shard neither by its name nor by its bytes.
#[cfg(feature = "tar")]
fn not_a_shard(shard: &Shard, error: &dyn std::error::Error) -> BoxError {
    let reason = format!(
        "{}: an index is written for tar and TFRecord shards and for folders; a Parquet file, a .beton file and a table need none (read as \
         a tar: {error})",
        shard.location
    );
    Error::boxed(reason.into(), ErrorKind::Unsupported).into()
}
