//! Writes a folder of images, audio or video files, as torchvision's `ImageFolder` or Hugging Face's `imagefolder`,
//! `audiofolder` and `videofolder` read it.
//!
//! | fields                     | DST                                                             |
//! |----------------------------|-----------------------------------------------------------------|
//! | one image, audio or video, one int | `cat/00000123.jpg`: a folder per class (`classes.rs`)    |
//! | any others, with one of these | `00000123.jpg`, and a line of `metadata.jsonl` for each         |
//!
//! Names begin with the sample's number, so that readers, which sort them, keep the order; the source's
//! key follows, if there is one: `00000123_cat.jpg`. The writer chooses the names, so no key can lead
//! out of DST. A reader numbers classes by the order of their folders. Where these are not the source's
//! numbers, or the class names are not the folders' names, `classes.json` contains them.
//!
//! Files are staged and renamed one by one (`staging.rs`), and recorded 10,000 samples at a time. Files
//! that were written but not recorded when a conversion was interrupted are written again, under the
//! same names.

use super::journal::{ConversionId, OutputChunk, delete};
use super::output_file::{OutputFile, Shape};
use super::{DatasetConversion, Journal, ProgressCounter};
use crate::error::{Error, fail};
use crate::sample::SampleId;
use crate::source::FOLDER_FILE_NAME;
use crate::threads::ThreadsError;
use crate::write::WriteReport;
use crate::write::atomic_file::{AtomicFile, sync_dir};
use crate::write::beside::Beside;
use crate::write::cancel;
use crate::write::dir_tree::has_files;
use crate::write::encode_threads::EncodeThreads;
use crate::write::error::{io_error, write_error};
use crate::write::report::ImageCounts;
use crate::write::staging::{PREFIX, StagingDir};
use crate::write::value::WriteSampleError;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) const TABLE: &str = "metadata.jsonl";

/// The counts of a written sample.
#[derive(Default)]
struct WrittenSample {
    files: u64,
    bytes: u64,
    /// The sample's line of the table, or a line with its class.
    line: String,
    images: ImageCounts,
}

impl DatasetConversion<'_> {
    /// Writes a folder of images, audio or video files.
    pub(super) fn folder(&self, print: &ConversionId) -> Result<WriteReport, Error> {
        if self.images.iter().any(|image| image.bit_planes) {
            let reason = "a folder holds images that other programs read: bit planes are stored in .beton files and shards";
            return Err(fail!(Parameter, "{reason}"));
        }
        let Beside { classes, objects } = &self.beside;
        let shape =
            Shape::new(&self.fields, &self.file_fields(), classes.as_ref(), objects.as_ref())?;
        let taken = || Ok(has_files(&self.dst)?.then(|| self.dst.clone()));
        self.with_journal(print, taken, |journal| self.write_folder(&shape, journal))
    }

    fn write_folder(&self, shape: &Shape, journal: &mut Journal<'_>) -> Result<WriteReport, Error> {
        let parts = self.chunks_dir();
        let was_stopped = parts.exists();
        if journal.is_new() {
            delete(&parts)?;
        }
        for dir in [&self.dst, &parts] {
            fs::create_dir_all(dir).map_err(io_error("create it", dir))?;
        }
        if journal.is_new() && self.options.overwrite {
            self.clear(was_stopped)?;
        }
        let (resumed, mut notes) = (journal.end(), vec![]);
        if !journal.is_done() {
            journal.check(|unit, _| part(&parts, unit).is_file())?;
            self.write_files(shape, journal)?;
            let units = journal.chunks().len();
            if let Shape::Table { .. } = shape {
                self.write_table(units)?;
                self.name_table()?;
            }
            if let Shape::Classes { folders, .. } = shape {
                notes = self.name_folders(folders, &self.classes(units)?)?;
            }
            journal.done()?;
        }
        delete(&parts)?;
        let mut report = journal.report(resumed);
        report.notes.splice(0..0, notes);
        if let Ok(table) = fs::metadata(self.dst.join(TABLE)) {
            report.files += 1;
            report.bytes += table.len();
        }
        Ok(report)
    }

    /// Deletes the dataset that an earlier conversion wrote into the folder, or readers would find samples
    /// of both. Files of samples outside class folders are those of a table, which only a conversion that `was_stopped`
    /// has not written.
    ///
    /// # Errors
    ///
    /// If the folder has other files: then nothing is deleted.
    fn clear(&self, was_stopped: bool) -> Result<(), Error> {
        let mut written = entries(&self.dst)?;
        // An earlier conversion that was killed left its unfinished files.
        written.retain(|(path, _)| !name_of(path).starts_with(PREFIX));
        let is_table = was_stopped || written.iter().any(|(path, _)| name_of(path) == TABLE);
        for (path, is_dir) in &written {
            let files = if *is_dir { entries(path)? } else { vec![] };
            let is_own = |(path, is_dir): &&(PathBuf, bool)| !is_dir && is_numbered(path);
            let is_known = *is_dir
                || (is_table && is_numbered(path))
                || [TABLE, FOLDER_FILE_NAME].contains(&&*name_of(path));
            let other = files.iter().find(|file| !is_own(file)).map(|(path, _)| path);
            if let Some(other) = other.or((!is_known).then_some(path)) {
                return Err(super::refused(other, FOREIGN));
            }
        }
        written.iter().try_for_each(|(path, _)| delete(path))
    }

    fn write_files(&self, shape: &Shape, journal: &mut Journal<'_>) -> Result<(), Error> {
        let (first, end) = (journal.end(), self.source.len());
        let staging = StagingDir::create(&self.dst)?;
        let folder = OutputFolder { root: &self.dst, staging: &staging, dirs: Mutex::default() };
        let progress = self.progress(journal);
        let pictures = self.image_files();
        let files = self.file_fields();
        let is_table = matches!(shape, Shape::Table { .. });
        let open = PendingChunk::at(first);
        let mut notes =
            ChunkRecorder { job: self, folder: &folder, journal, progress, open, is_table };
        let threads = self.threads()?;
        EncodeThreads { first, end, threads }.run(
            |id| {
                cancel::check(&self.options.cancel)?;
                let (leaves, line, images) =
                    shape.leaves(self.source, (&self.fields, &files), &pictures, id)?;
                Ok(folder.put(id, leaves).map(|wrote| WrittenSample { line, images, ..wrote }))
            },
            |wrote| wrote.as_ref().map_or(0, |wrote| wrote.line.len()),
            |id, wrote| notes.take(id, wrote),
            |source| ThreadsError::Refused { wanted: threads, source }.into(),
        )?;
        notes.finish(end)?;
        staging.finish([self.dst.as_path()])
    }

    /// Returns the classes that have samples, from the lines of the chunks.
    fn classes(&self, parts: usize) -> Result<BTreeSet<i64>, Error> {
        let mut classes = BTreeSet::new();
        for number in 0..parts {
            let path = part(&self.chunks_dir(), number);
            let text = fs::read_to_string(&path).map_err(io_error("read it", &path))?;
            classes.extend(text.lines().filter_map(|line| line.parse::<i64>().ok()));
        }
        Ok(classes)
    }

    /// Concatenates the chunks of the table.
    fn write_table(&self, parts: usize) -> Result<(), Error> {
        let target = AtomicFile::create(&self.dst.join(TABLE))?;
        let at_target = || write_error(target.partial_path());
        let mut out = io::BufWriter::new(target.file(&self.watch));
        for number in 0..parts {
            let path = part(&self.chunks_dir(), number);
            let mut file = File::open(&path).map_err(io_error("read it", &path))?;
            io::copy(&mut file, &mut out).map_err(at_target())?;
        }
        out.flush().map_err(at_target())?;
        drop(out);
        target.commit(&self.watch)
    }
}

/// Returns the path of a chunk's lines, until all are concatenated.
fn part(parts: &Path, unit: usize) -> PathBuf {
    parts.join(format!("{unit:06}.jsonl"))
}

/// Why a folder is not replaced.
const FOREIGN: &str = "this file is not from a conversion, and only folders that a conversion wrote are replaced: choose another folder, or delete this one first";

/// Lists a folder: each path, and whether it is a folder itself.
fn entries(dir: &Path) -> Result<Vec<(PathBuf, bool)>, Error> {
    let list = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?.is_dir()))
    };
    let listed = fs::read_dir(dir).and_then(|entries| entries.map(list).collect());
    listed.map_err(io_error("list", dir))
}

fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Returns true if a file is named like those of a sample: `00000007.jpg`, `00000007_key.jpg`. Numbers of more than
/// eight digits begin with no zero, unlike those of COCO's images.
fn is_numbered(path: &Path) -> bool {
    let name = name_of(path);
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    let has_zeros = digits > 8 && name.starts_with('0');
    digits >= 8 && !has_zeros && matches!(name.as_bytes().get(digits), Some(b'.' | b'_'))
}

/// The output folder, which several threads write into.
struct OutputFolder<'a> {
    root: &'a Path,
    staging: &'a StagingDir,
    /// The class folders that exist, and the directories with new names in them since the last sync.
    dirs: Mutex<(HashSet<PathBuf>, BTreeSet<PathBuf>)>,
}

impl OutputFolder<'_> {
    /// Writes a sample's files to their paths.
    fn put(&self, id: SampleId, leaves: Vec<OutputFile>) -> Result<WrittenSample, Error> {
        let mut wrote = WrittenSample { files: leaves.len() as u64, ..WrittenSample::default() };
        for (number, OutputFile { path, bytes }) in leaves.into_iter().enumerate() {
            let path = self.root.join(path);
            if let Some(dir) = path.parent() {
                self.make_dir(dir)?;
            }
            let mut staged = self.staging.file_of(id.0, number)?;
            staged.0.write_all(&bytes).map_err(write_error(&staged.1))?;
            self.staging.put(staged, &path)?;
            wrote.bytes += bytes.len() as u64;
        }
        Ok(wrote)
    }

    /// Creates a class's folder. A link under its name is refused, because it may lead out of the root.
    fn make_dir(&self, dir: &Path) -> Result<(), Error> {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, touched) = &mut *dirs;
        if dir != self.root && !known.contains(dir) {
            match fs::create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(io_error("create it", dir)(error));
                }
                _ => {}
            }
            if !fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir()) {
                let reason = "a folder is expected, not a link or a file".to_owned();
                return Err(super::refused(dir, &reason));
            }
            known.insert(dir.to_owned());
            touched.insert(self.root.to_owned());
        }
        touched.insert(dir.to_owned());
        Ok(())
    }

    /// Makes the names of all files written so far durable.
    fn sync(&self) -> Result<(), Error> {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = std::mem::take(&mut dirs.1);
        drop(dirs);
        let sync = |dir: &PathBuf| sync_dir(dir).map_err(io_error("sync", dir));
        touched.iter().try_for_each(sync)
    }
}

/// The chunk in progress: the samples since the last recorded one.
struct PendingChunk {
    unit: OutputChunk,
    lines: String,
    /// The lines of the classes, each once.
    classes: BTreeSet<String>,
}

impl PendingChunk {
    fn at(first: u64) -> Self {
        let unit = OutputChunk { first, ..OutputChunk::default() };
        let (lines, classes) = (String::new(), BTreeSet::new());
        Self { unit, lines, classes }
    }
}

/// Records what is written, chunk by chunk.
struct ChunkRecorder<'a, 'j> {
    job: &'a DatasetConversion<'a>,
    folder: &'a OutputFolder<'a>,
    journal: &'a mut Journal<'j>,
    progress: ProgressCounter<'a>,
    open: PendingChunk,
    /// True if the lines are those of the table, false if they are classes.
    is_table: bool,
}

impl ChunkRecorder<'_, '_> {
    fn take(
        &mut self,
        id: SampleId,
        wrote: Result<Result<WrittenSample, Error>, WriteSampleError>,
    ) -> Result<(), Error> {
        if id.0 - self.open.unit.first >= self.job.unit() {
            self.finish(id.0)?;
        }
        match wrote {
            Ok(wrote) => {
                let WrittenSample { files, bytes, line, images } = wrote?;
                let PendingChunk { unit, lines, classes, .. } = &mut self.open;
                unit.samples += 1;
                unit.files += files;
                unit.bytes += bytes;
                unit.images.add(&images);
                match self.is_table {
                    true => lines.push_str(&line),
                    false => drop(classes.insert(line)),
                }
                self.progress.add(bytes);
            }
            Err(cause) => {
                let entry = self.job.skipped_entry(id, cause)?;
                self.open.unit.skipped.add(entry);
                self.progress.add(0);
            }
        }
        Ok(())
    }

    /// Records the samples up to `end`.
    fn finish(&mut self, end: u64) -> Result<(), Error> {
        let open = std::mem::replace(&mut self.open, PendingChunk::at(end));
        let PendingChunk { mut unit, mut lines, classes } = open;
        lines.extend(classes);
        if unit.first == end {
            return Ok(());
        }
        self.folder.sync()?;
        let watch = &self.job.watch;
        let target =
            AtomicFile::create(&part(&self.job.chunks_dir(), self.journal.chunks().len()))?;
        let at_target = write_error(target.partial_path());
        target.file(watch).write_all(lines.as_bytes()).map_err(at_target)?;
        target.commit(watch)?;
        unit.end = end;
        self.journal.add(unit)
    }
}
