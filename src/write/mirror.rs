//! A folder's copy with its JPEGs re-cut: the same names, the same directories.
//!
//! | file of SRC                                   | at the same place in DST            |
//! |-----------------------------------------------|-------------------------------------|
//! | begins as a JPEG, or is called .jpg or .jpeg  | re-cut, or copied if it can't be    |
//! | any other                                     | copied                              |
//! | name begins with a dot, dead link, loop, pipe | nothing; they are counted           |
//!
//! Links are followed: what they lead to is copied, in the place of each (`walk.rs`). A file appears whole or not at all:
//! `staging.rs`. What is there already is replaced, but for what SRC itself is made of.

use super::opened::Opened;
use super::options::{Damaged, RecutOptions};
use super::report::{Change, KeptCause, KeptFile, Listed, Skipped, SkippedSample};
use super::staging::Staging;
use super::target::TargetError;
use super::tree::{Tree, check_outside, make_dirs};
use super::value::SampleError;
use super::{ImageError, WriteError, bar};
use crate::recut::Recutter;
use crate::sample::SampleId;
use crate::source::{Ignored, LinkCounts, ListError, SourceError};
use crate::threads::ThreadsError;
use indicatif::ProgressBar;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

/// Why a dataset is not re-cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecutError {
    /// The `.beton` file can't be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The new `.beton` file can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The folder can't be listed.
    #[error(transparent)]
    List(#[from] ListError),
    /// The new file would replace the one it is made of.
    #[error("{path:?} is the file that is to be re-cut: give the new one another name")]
    Same {
        /// The path.
        path: PathBuf,
    },
    /// A folder's copy can't be a file.
    #[error("{path:?} is a file, a folder is expected")]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// The copy would lie in the folder it is made of, or replace parts of it.
    #[error("{dst:?} lies in {src:?}, which is to be re-cut: choose a place outside")]
    Inside {
        /// The folder that is copied.
        src: PathBuf,
        /// A directory of the copy.
        dst: PathBuf,
    },
    /// A file can't be read.
    #[error("{path:?}: {cause}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: ImageError,
    },
    /// A file can't be put at its path.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The threads can't be started, or too many are asked for.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
}

/// What was written of a folder.
#[derive(Debug, Default)]
pub struct MirrorReport {
    /// JPEGs that were re-cut.
    pub recut: u64,
    /// Bytes of those JPEGs, before and after.
    pub recut_bytes: Change,
    /// JPEGs that can't be re-cut, copied as they are.
    pub kept: Listed<KeptFile>,
    /// Other files, copied as they are.
    pub copied: u64,
    /// Bytes of all files, before and after.
    pub bytes: Change,
    /// Files left out because they can't be read. A sample's number is its place among the files.
    pub skipped: Skipped,
    /// What is neither a regular file nor a directory, or begins with a dot, and so was not copied.
    pub ignored: Ignored,
    /// What became of the links in the folder.
    pub links: LinkCounts,
}

/// Copies a folder with its JPEGs re-cut, so that windows of them are cheap to decode. No pixel
/// changes.
///
/// A JPEG that can't be re-cut is copied and listed in [`MirrorReport::kept`].
///
/// ```no_run
/// use fuseloop::write::{RecutOptions, recut_folder};
///
/// let report = recut_folder("imagenet/train", "tiled/train", &RecutOptions::default())?;
/// println!("{} re-cut, {} other files", report.recut, report.copied);
/// # Ok::<(), fuseloop::write::RecutError>(())
/// ```
///
/// # Errors
///
/// See [`RecutError`]. Files that were done by then stay; none is there in part.
pub fn recut_folder(
    src: impl AsRef<Path>,
    dst: impl AsRef<Path>,
    options: &RecutOptions,
) -> Result<MirrorReport, RecutError> {
    let (src, dst) = (src.as_ref(), dst.as_ref());
    check_outside(src, dst)?;
    let threads = options.thread_count()?;
    let tree = Tree::of(src, options.links)?;
    let dirs = make_dirs(src, dst, &tree)?;
    let staging = Staging::create(dst)?;
    let mirror = Mirror { dst, files: &tree.files, staging: &staging, options };
    let mut report = mirror.run(threads)?;
    staging.finish(dirs.iter().map(PathBuf::as_path))?;
    (report.ignored, report.links) = (tree.ignored, tree.links);
    Ok(report)
}

/// Files on their way into a copy.
#[derive(Clone, Copy)]
struct Mirror<'a> {
    dst: &'a Path,
    files: &'a [(PathBuf, PathBuf)],
    staging: &'a Staging,
    options: &'a RecutOptions,
}

/// What became of a file.
enum Done {
    Recut(Change),
    Kept(KeptCause, u64),
    Copied(u64),
    Skipped(ImageError),
}

/// What one thread has done.
#[derive(Default)]
struct Share {
    report: MirrorReport,
    failed: Option<(usize, RecutError)>,
}

impl Mirror<'_> {
    /// Copies all files.
    ///
    /// # Errors
    ///
    /// The first in the order of the files: when one fails, those before it are in work or done.
    fn run(self, threads: usize) -> Result<MirrorReport, RecutError> {
        let bar = self.options.progress.then(|| bar(Some(self.files.len() as u64), "files"));
        let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let work = || {
            let mut share = Share::default();
            let mut recutter = Recutter::new(self.options.tile, self.options.limits);
            while !over.load(Ordering::Relaxed) {
                let place = next.fetch_add(1, Ordering::Relaxed);
                if place >= self.files.len() {
                    break;
                }
                if let Err(error) = self.one(place, &mut recutter, &mut share.report) {
                    over.store(true, Ordering::Relaxed);
                    share.failed = Some((place, error));
                }
                bar.iter().for_each(|bar| bar.inc(1));
            }
            share
        };
        let shares = on_threads(threads, &work, &over);
        bar.iter().for_each(ProgressBar::finish_and_clear);
        together(shares?)
    }

    /// Copies a file and counts it.
    fn one(
        &self,
        place: usize,
        recutter: &mut Recutter,
        report: &mut MirrorReport,
    ) -> Result<(), RecutError> {
        let (path, name) = &self.files[place];
        let done = match self.copy(place as u64, path, &self.dst.join(name), recutter) {
            Err(RecutError::File { cause, .. }) if self.options.damaged == Damaged::Skip => {
                Done::Skipped(cause)
            }
            done => done?,
        };
        report.add(place as u64, path, done);
        Ok(())
    }

    /// Copies a file, re-cut if it is a JPEG that can be.
    fn copy(
        &self,
        place: u64,
        from: &Path,
        to: &Path,
        recutter: &mut Recutter,
    ) -> Result<Done, RecutError> {
        let unreadable = |cause| RecutError::File { path: from.to_owned(), cause };
        let mut source =
            Opened::open(from, self.options.limits.max_sample_bytes).map_err(unreadable)?;
        let cut = source.recut(recutter);
        let (mut file, staged) = self.staging.file(place)?;
        let bytes = cut.as_ref().ok().and_then(Option::as_deref).unwrap_or(&source.bytes);
        file.write_all(bytes).map_err(TargetError::io("write", &staged))?;
        let mut before = source.bytes.len() as u64;
        let after = bytes.len() as u64;
        if !matches!(cut, Ok(Some(_))) {
            before += source.copy_rest(&mut file, &staged)?.map_err(unreadable)?;
        }
        self.staging.put((file, staged), to)?;
        Ok(match cut {
            Ok(Some(_)) => Done::Recut(Change { before, after }),
            Ok(None) => Done::Copied(before),
            Err(cause) => Done::Kept(cause, before),
        })
    }
}

/// Does `work` on several threads, or says `over` to those there are.
fn on_threads(
    count: usize,
    work: &(impl Fn() -> Share + Sync),
    over: &AtomicBool,
) -> Result<Vec<Share>, RecutError> {
    thread::scope(|scope| {
        let spawn = |number| {
            let builder = thread::Builder::new().name(format!("fuseloop-recut-{number}"));
            builder.spawn_scoped(scope, work).map_err(|source| {
                over.store(true, Ordering::Relaxed);
                RecutError::from(ThreadsError::Refused { wanted: count, source })
            })
        };
        let handles = (0..count).map(spawn).collect::<Result<Vec<_>, _>>()?;
        let joined = handles.into_iter().map(ScopedJoinHandle::join);
        Ok(joined.map(|share| share.unwrap_or_else(|panic| resume_unwind(panic))).collect())
    })
}

/// What all threads have done.
fn together(mut shares: Vec<Share>) -> Result<MirrorReport, RecutError> {
    let failed = shares.iter_mut().filter_map(|share| share.failed.take());
    if let Some((_, error)) = failed.min_by_key(|(place, _)| *place) {
        return Err(error);
    }
    let mut all = MirrorReport::default();
    let (mut kept, mut skipped) = (Vec::new(), Vec::new());
    for Share { report, .. } in shares {
        all.recut += report.recut;
        all.copied += report.copied;
        all.recut_bytes.add(report.recut_bytes);
        all.bytes.add(report.bytes);
        kept.push(report.kept);
        skipped.push(report.skipped);
    }
    all.kept = Listed::merge(kept.into_iter(), |file| file.place);
    all.skipped = Listed::merge(skipped.into_iter(), |file| file.sample);
    Ok(all)
}

impl MirrorReport {
    fn add(&mut self, place: u64, path: &Path, done: Done) {
        let same = |bytes| Change { before: bytes, after: bytes };
        let path = path.to_owned();
        match done {
            Done::Recut(change) => {
                self.recut += 1;
                self.recut_bytes.add(change);
                self.bytes.add(change);
            }
            Done::Copied(bytes) => {
                self.copied += 1;
                self.bytes.add(same(bytes));
            }
            Done::Kept(cause, bytes) => {
                self.kept.add(KeptFile { place, path, cause });
                self.bytes.add(same(bytes));
            }
            Done::Skipped(cause) => {
                let cause = SampleError::Source(cause.into());
                self.skipped.add(SkippedSample {
                    sample: SampleId(place),
                    path: Some(path),
                    cause,
                });
            }
        }
    }
}
