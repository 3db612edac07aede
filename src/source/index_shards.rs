//! Writes an index file beside each shard of a dataset, for `fuseloop index`.

use super::BoxError;
#[cfg(feature = "parquet")]
use super::Location;
#[cfg(not(all(feature = "tar", feature = "tfrecord")))]
use super::feature::NeedsFeature;
use super::file_format::FileFormat;
use super::index_file::{Kind, save, table_of};
#[cfg(feature = "parquet")]
use super::parquet;
use super::shards::{Shard, Shards};
#[cfg(feature = "tar")]
use super::tar;
#[cfg(feature = "tfrecord")]
use super::tfrecord;
use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind};
use crate::parallel;
use crate::sample::Limits;
#[cfg(feature = "parquet")]
use std::path::Path;
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
/// [`TfRecords`](super::TfRecords) find the index by its name, and so do Parquet files, in a folder or by their names:
/// otherwise the positions of their images are found when a row group is read first.
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
    let shards = shards(spec)?;
    let (done, of) = (AtomicUsize::new(0), shards.all().len());
    let one = |shard: &Shard| -> Result<(u64, u64), BoxError> {
        if cancel.is_cancelled() {
            return Err(Error::boxed("indexing was cancelled".into(), ErrorKind::Cancelled).into());
        }
        let (kind, table, samples) = scan(shard)?;
        let bytes = save(shard, kind, &table)?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, of);
        Ok((samples, bytes))
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

/// Opens the shards that a text names, or the Parquet files in a folder, of all splits.
fn shards(spec: &str) -> Result<Shards, Error> {
    #[cfg(feature = "parquet")]
    if Path::new(spec).is_dir() && parquet::is_folder(Path::new(spec)) {
        let files = parquet::all_files(Path::new(spec))?;
        return Shards::at(&files.into_iter().map(Location::Path).collect::<Vec<_>>());
    }
    Shards::open(spec)
}

/// Finds the samples of a shard. The shard's name tells its format. Returns the table of its index, and the number of
/// samples.
fn scan(shard: &Shard) -> Result<(Kind, Vec<u8>, u64), BoxError> {
    match FileFormat::of_name(shard.location.file_name()) {
        #[cfg(feature = "parquet")]
        FileFormat::Parquet => {
            let (table, samples) = parquet::scan(shard, &Limits::DEFAULT)?;
            Ok((Kind::Parquet, table, samples))
        }
        #[cfg(feature = "tfrecord")]
        FileFormat::TfRecords => {
            let index = tfrecord::scan(shard, &Limits::DEFAULT)?;
            Ok((Kind::TfRecord, table_of(&index), index.len() as u64))
        }
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
            Ok((Kind::Tar, table_of(&scanned.index), scanned.index.len() as u64))
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
        "{}: an index is written for tar, TFRecord and Parquet files and for folders; a .beton file and a table need none \
         (read as a tar: {error})",
        shard.location
    );
    Error::boxed(reason.into(), ErrorKind::Unsupported).into()
}
