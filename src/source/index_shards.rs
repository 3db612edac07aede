//! Writes an index file beside each shard of a dataset, or one for the shards in a folder, for `fuseloop index`.

#[cfg(not(all(feature = "tar", feature = "tfrecord")))]
use super::feature::NeedsFeature;
use super::file_format::FileFormat;
use super::index_file::{JoinedWriter, Kind, pack, save, table_of};
#[cfg(feature = "parquet")]
use super::parquet;
use super::shards::{PackedIndex, Shard, ShardIndex, Shards};
#[cfg(feature = "tar")]
use super::tar;
#[cfg(feature = "tfrecord")]
use super::tfrecord;
use super::{BoxError, Location};
use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind, fail};
use crate::parallel;
use crate::sample::Limits;
use std::collections::BTreeMap;
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
        check(cancel)?;
        let (kind, table, samples) = match find(shard)? {
            Found::Samples(kind, index) => (kind, table_of(&index), index.len() as u64),
            #[cfg(feature = "parquet")]
            Found::Table(table, samples) => (Kind::Parquet, table, samples),
        };
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

/// The shards whose indexes are in memory at a time.
const AT_ONCE: usize = 256;

/// Writes the index of all shards that a text names into one file, `joined.fjdx`, in the folder of the shards; of shards in
/// several folders, one in each. Shards that an existing file lists too stay in it, if they are there and as long as they
/// were. Calls `progress` as [`index_shards`] does.
///
/// [`Tar`](super::Tar) and [`TfRecords`](super::TfRecords) look for the file once for each folder. They open the shards that it
/// lists when they read them, and read the positions of samples when they need them: opening 100,000 shards takes as long as
/// reading a few megabytes. A shard that was replaced or has another length is an error when it is read.
///
/// ```no_run
/// use fuseloop::source::join_index;
/// let report = join_index("train-{00000..99999}.tar", &|done, of| println!("{done} of {of}"))?;
/// println!("{} bytes a sample", report.bytes / report.samples);
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// Fails with the name of the first shard that is damaged, compressed or remote, or is a Parquet file, or if a file can't be
/// written. An existing file stays as it was.
pub fn join_index(
    spec: &str,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<IndexReport, Error> {
    join_until(spec, &CancelFlag::default(), progress)
}

/// [`join_index`], which a flag ends before the next shard.
pub fn join_until(
    spec: &str,
    cancel: &CancelFlag,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<IndexReport, Error> {
    let shards = shards(spec)?;
    let mut folders: BTreeMap<&Path, BTreeMap<&str, &Shard>> = BTreeMap::new();
    for shard in shards.all() {
        let Location::Path(path) = &shard.location else {
            return Err(fail!(
                Unsupported,
                "a joined index can only be written next to local files"
            )
            .at(&shard.location));
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        folders.entry(folder).or_default().insert(shard.location.file_name(), shard);
    }
    let (done, of) = (AtomicUsize::new(0), folders.values().map(BTreeMap::len).sum());
    let one = |shard: &&Shard| -> Result<(Kind, PackedIndex, Vec<String>), BoxError> {
        check(cancel)?;
        let found = match find(shard)? {
            Found::Samples(kind, index) => {
                let (index, names) = pack(shard, kind, &index)?;
                Ok((kind, index, names))
            }
            #[cfg(feature = "parquet")]
            Found::Table(..) => Err(fail!(
                Unsupported,
                "each Parquet file has an index of its own: run `fuseloop index` without `--join`"
            )
            .at(&shard.location)
            .into()),
        };
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, of);
        found
    };
    let mut report = IndexReport::default();
    for (folder, shards) in folders {
        let shards: Vec<&Shard> = shards.into_values().collect();
        let mut writer = JoinedWriter::create(folder, &Limits::DEFAULT)?;
        for some in shards.chunks(AT_ONCE) {
            for (found, shard) in parallel::map(some, one)?.into_iter().zip(some) {
                let found = found.map_err(|error| Error::boxed(error, ErrorKind::Format))?;
                let (kind, index, names) = found;
                report.shards += 1;
                report.samples += index.len() as u64;
                writer.add(shard, (kind, index), &names)?;
            }
        }
        report.bytes += writer.finish()?;
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

/// Returns an error if indexing was cancelled.
fn check(cancel: &CancelFlag) -> Result<(), BoxError> {
    if cancel.is_cancelled() {
        return Err(Error::boxed("indexing was cancelled".into(), ErrorKind::Cancelled).into());
    }
    Ok(())
}

/// The samples that were found in a shard.
enum Found {
    /// The positions of the samples.
    Samples(Kind, ShardIndex),
    /// The table of the index of a Parquet file, and its number of samples.
    #[cfg(feature = "parquet")]
    Table(Vec<u8>, u64),
}

/// Finds the samples of a shard. The shard's name tells its format.
fn find(shard: &Shard) -> Result<Found, BoxError> {
    match FileFormat::of_name(shard.location.file_name()) {
        #[cfg(feature = "parquet")]
        FileFormat::Parquet => {
            let (table, samples) = parquet::scan(shard, &Limits::DEFAULT)?;
            Ok(Found::Table(table, samples))
        }
        #[cfg(feature = "tfrecord")]
        FileFormat::TfRecords => {
            let index = tfrecord::scan(shard, &Limits::DEFAULT)?;
            Ok(Found::Samples(Kind::TfRecord, index))
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
            Ok(Found::Samples(Kind::Tar, scanned.index))
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
