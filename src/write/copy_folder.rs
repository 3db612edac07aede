//! Copies a folder and re-cuts its JPEGs: the same names, the same directories.
//!
//! | file of SRC                                   | at the same path in DST             |
//! |-----------------------------------------------|-------------------------------------|
//! | begins like a JPEG, or is named .jpg or .jpeg  | re-cut, or copied if it can't be    |
//! | any other                                     | copied                              |
//! | name begins with a dot, dead link, loop, pipe | nothing; counted                    |
//!
//! Links are followed: what they lead to is copied, once for each link (`walk.rs`). A file appears
//! complete or not at all (`staging.rs`). Where DST has files, they are replaced only on request, and never
//! if SRC itself is made of them. Nothing is written through a link in DST.

use super::ImageError;
use super::atomic_file::{check_local, refuse_existing};
use super::dir_tree::{DirTree, check_outside, has_files, make_dirs};
use super::error::{cancelled, io_error};
use super::options::{OnUnreadable, WriteOptions};
use super::pixels::PixelsError;
use super::progress::ProgressCounter;
use super::report::{
    CountedList, SizeChange, Skipped, SkippedSample, UnchangedCause, UnchangedFile,
};
use super::source_file::SourceFile;
use super::staging::StagingDir;
use crate::error::{Error, fail};
use crate::recut::{Recutter, Unchanged};
use crate::sample::SampleId;
use crate::source::{Ignored, LinkCounts};
use crate::threads::{self, ThreadsError};
use std::io::Write as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

/// The report of a re-cut folder.
///
/// ```no_run
/// use fuseloop::write::{WriteOptions, recut_folder};
///
/// let report = recut_folder("photos", "recut", &WriteOptions::default())?;
/// println!("{} JPEGs: {} bytes became {}", report.recut, report.recut_bytes.before, report.recut_bytes.after);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct RecutFolderReport {
    /// The number of re-cut JPEGs.
    pub recut: u64,
    /// The bytes of the re-cut JPEGs, before and after.
    pub recut_bytes: SizeChange,
    /// The JPEGs that can't be re-cut, and were copied unchanged.
    pub unchanged: CountedList<UnchangedFile>,
    /// The number of other files, copied unchanged.
    pub copied: u64,
    /// The bytes of all files, before and after.
    pub bytes: SizeChange,
    /// The files left out because they can't be read. A sample's number is the file's index in the list
    /// of files.
    pub skipped: Skipped,
    /// The entries that were not copied because they are neither a regular file nor a directory, or
    /// because their name begins with a dot.
    pub ignored: Ignored,
    /// How the links in the folder were treated.
    pub links: LinkCounts,
}

/// Copies a folder and re-cuts its JPEGs, so that windows of them are cheap to decode. No pixel changes.
///
/// A JPEG that can't be re-cut is copied unchanged and listed in [`RecutFolderReport::unchanged`].
///
/// ```no_run
/// use fuseloop::write::{WriteOptions, recut_folder};
///
/// let report = recut_folder("imagenet/train", "tiled/train", &WriteOptions::default())?;
/// println!("{} re-cut, {} other files", report.recut, report.copied);
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// If a file can't be read or written. Files that were finished by then stay; each of them is complete. If `dst` is
/// not empty and [`WriteOptions::overwrite`] is not set, or if a link is where a folder of the copy should be, nothing
/// is written.
pub fn recut_folder(
    src: impl AsRef<Path>,
    dst: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<RecutFolderReport, Error> {
    copy_folder(src.as_ref(), dst.as_ref(), options)
}

fn copy_folder(src: &Path, dst: &Path, options: &WriteOptions) -> Result<RecutFolderReport, Error> {
    options.refuse_shards()?;
    if options.image.bit_planes {
        return Err(fail!(
            Parameter,
            "{src:?} is a folder, whose images other programs read: bit planes are stored in .beton files and shards"
        )
        .named_path(src));
    }
    check_local(dst)?;
    check_outside(src, dst)?;
    refuse_existing(has_files(dst)?.then_some(dst), options.overwrite)?;
    let threads = options.thread_count()?;
    let tree = DirTree::of(src, options.links, &options.cancel)?;
    let dirs = make_dirs(src, dst, &tree)?;
    let staging = StagingDir::create(dst)?;
    let mirror = FolderCopy { dst, files: &tree.files, staging: &staging, options };
    let mut report = mirror.run(threads)?;
    staging.finish(dirs.iter().map(PathBuf::as_path))?;
    (report.ignored, report.links) = (tree.ignored, tree.links);
    Ok(report)
}

/// The copy of a folder.
#[derive(Clone, Copy)]
struct FolderCopy<'a> {
    dst: &'a Path,
    files: &'a [(PathBuf, PathBuf)],
    staging: &'a StagingDir,
    options: &'a WriteOptions,
}

/// How a file was copied.
enum CopyOutcome {
    Recut(SizeChange),
    Kept(UnchangedCause, u64),
    Copied(u64),
    Skipped(ImageError),
}

/// The work of one thread.
#[derive(Default)]
struct CopyCounts {
    report: RecutFolderReport,
    failed: Option<(usize, Error)>,
}

impl FolderCopy<'_> {
    /// Copies all files.
    ///
    /// # Errors
    ///
    /// The error of the first failing file, in the order of the files: when one fails, all files before
    /// it are in progress or finished.
    fn run(self, threads: usize) -> Result<RecutFolderReport, Error> {
        let progress = ProgressCounter::new(&self.options.progress, Some(self.files.len() as u64));
        let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            let mut share = CopyCounts::default();
            let mut recutter =
                Recutter::new(self.options.image.tile.unwrap_or_default(), self.options.limits);
            while !over.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.files.len() {
                    break;
                }
                let is_cancelled = self.options.cancel.is_cancelled();
                let outcome = if is_cancelled {
                    Err(cancelled())
                } else {
                    self.one(index, &mut recutter, &mut share.report)
                };
                if let Err(error) = outcome {
                    over.store(true, Ordering::Relaxed);
                    share.failed = Some((index, error));
                }
                progress.add(0);
            }
            share
        };
        let shares = on_threads(threads, &work, &over);
        merge(shares?)
    }

    /// Copies a file and counts it.
    fn one(
        &self,
        index: usize,
        recutter: &mut Recutter,
        report: &mut RecutFolderReport,
    ) -> Result<(), Error> {
        let (path, name) = &self.files[index];
        let done = match self.copy(index as u64, path, &self.dst.join(name), recutter)? {
            Err(cause) if self.options.on_damaged == OnUnreadable::Skip && cause.is_damage() => {
                CopyOutcome::Skipped(cause)
            }
            done => done.map_err(|cause| unreadable(path, cause))?,
        };
        report.add(index as u64, path, done);
        Ok(())
    }

    /// Copies a file; a JPEG is re-cut if it can be. Returns why it can't be read.
    fn copy(
        &self,
        index: u64,
        from: &Path,
        to: &Path,
        recutter: &mut Recutter,
    ) -> Result<Result<CopyOutcome, ImageError>, Error> {
        let mut source = match SourceFile::open(from, self.options.limits.max_sample_bytes) {
            Ok(source) => source,
            Err(cause) => return Ok(Err(cause)),
        };
        let cut = source.recut(recutter);
        if let Err(UnchangedCause::Jpeg(Unchanged::Memory(none))) = cut {
            return Ok(Err(PixelsError::from(none).into()));
        }
        let (mut file, staged) = self.staging.file(index)?;
        let bytes = cut.as_ref().ok().and_then(Option::as_deref).unwrap_or(&source.bytes);
        file.write_all(bytes).map_err(io_error("write", &staged))?;
        let mut before = source.bytes.len() as u64;
        let after = bytes.len() as u64;
        if !matches!(cut, Ok(Some(_))) {
            match source.copy_rest(&mut file, &staged)? {
                Ok(copied) => before += copied,
                Err(cause) => return Ok(Err(cause)),
            }
        }
        self.staging.put((file, staged), to)?;
        Ok(Ok(match cut {
            Ok(Some(_)) => CopyOutcome::Recut(SizeChange { before, after }),
            Ok(None) => CopyOutcome::Copied(before),
            Err(cause) => CopyOutcome::Kept(cause, before),
        }))
    }
}

/// Returns the error of a file that can't be read.
fn unreadable(path: &Path, cause: ImageError) -> Error {
    let text = format!("{path:?}: {cause}");
    let error = match cause {
        ImageError::Read { source } => {
            Error::from(source).help("`--on-damaged skip` skips and reports such files")
        }
        cause if cause.lacks_memory() => fail!(Memory, "{cause}").out_of_memory(),
        cause => fail!(Damaged, "{cause}"),
    };
    error.reworded(text).named_path(path)
}

/// Runs `work` on several threads. If one can't be started, sets `over`, which ends the threads already
/// running.
fn on_threads(
    count: usize,
    work: &(impl Fn() -> CopyCounts + Sync),
    over: &AtomicBool,
) -> Result<Vec<CopyCounts>, Error> {
    thread::scope(|scope| {
        let spawn = |number| {
            let builder = threads::builder(format!("fuseloop-recut-{number}"));
            builder.and_then(|builder| builder.spawn_scoped(scope, work)).map_err(|source| {
                over.store(true, Ordering::Relaxed);
                Error::from(ThreadsError::Refused { wanted: count, source })
            })
        };
        let handles = (0..count).map(spawn).collect::<Result<Vec<_>, _>>()?;
        let joined = handles.into_iter().map(ScopedJoinHandle::join);
        Ok(joined.map(|share| share.unwrap_or_else(|panic| resume_unwind(panic))).collect())
    })
}

/// Merges the work of all threads.
fn merge(mut shares: Vec<CopyCounts>) -> Result<RecutFolderReport, Error> {
    let failed = shares.iter_mut().filter_map(|share| share.failed.take());
    if let Some((_, error)) = failed.min_by_key(|(index, _)| *index) {
        return Err(error);
    }
    let mut all = RecutFolderReport::default();
    let (mut unchanged, mut skipped) = (Vec::new(), Vec::new());
    for CopyCounts { report, .. } in shares {
        all.recut += report.recut;
        all.copied += report.copied;
        all.recut_bytes.add(report.recut_bytes);
        all.bytes.add(report.bytes);
        unchanged.push(report.unchanged);
        skipped.push(report.skipped);
    }
    all.unchanged = CountedList::merge(unchanged.into_iter(), |file| file.index);
    all.skipped = CountedList::merge(skipped.into_iter(), |file| file.sample);
    Ok(all)
}

impl RecutFolderReport {
    fn add(&mut self, index: u64, path: &Path, done: CopyOutcome) {
        let same = |bytes| SizeChange { before: bytes, after: bytes };
        let path = path.to_owned();
        match done {
            CopyOutcome::Recut(change) => {
                self.recut += 1;
                self.recut_bytes.add(change);
                self.bytes.add(change);
            }
            CopyOutcome::Copied(bytes) => {
                self.copied += 1;
                self.bytes.add(same(bytes));
            }
            CopyOutcome::Kept(cause, bytes) => {
                self.unchanged.add(UnchangedFile { index, path, cause });
                self.bytes.add(same(bytes));
            }
            CopyOutcome::Skipped(cause) => {
                self.skipped.add(SkippedSample {
                    sample: SampleId(index),
                    path: Some(path),
                    cause: cause.to_string(),
                });
            }
        }
    }
}
