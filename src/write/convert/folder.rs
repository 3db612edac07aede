//! A folder of images, as torchvision's `ImageFolder` or Hugging Face's `imagefolder` reads it.
//!
//! | fields                     | DST                                                             |
//! |----------------------------|-----------------------------------------------------------------|
//! | one image, one int         | `cat/00000123.jpg`: a folder a class (`classes.rs`)             |
//! | any others, with an image  | `00000123.jpg`, and a line of `metadata.jsonl` for each         |
//!
//! Names begin with the sample's number, so that readers, which sort them, keep the order; the
//! source's key follows, if there is one: `00000123_cat.jpg`. They are the writer's own: no key can
//! lead out of DST. A reader numbers classes by the order of their folders: where that is not the
//! source's numbers, or the names are not the folders', `classes.json` says them.
//!
//! Files are staged and renamed one by one (`staging.rs`), and noted 10,000 at a time. What was written
//! and not noted when a conversion was stopped is written again, under the same names.

use super::journal::{Print, Unit, delete};
use super::leaf::{Leaf, Shape};
use super::{Bar, ConvertError, ConvertReport, Job, Journal, Pictures};
use crate::sample::SampleId;
use crate::threads::ThreadsError;
use crate::write::ordered::Crew;
use crate::write::report::Listed;
use crate::write::staging::Staging;
use crate::write::target::{Target, TargetError, sync_dir};
use crate::write::value::SampleError;
use crate::write::{Reencoded, WriteError};
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) const TABLE: &str = "metadata.jsonl";

/// What was written of a sample.
#[derive(Default)]
struct Wrote {
    files: u64,
    bytes: u64,
    /// Its line of the table, or its class's.
    line: String,
    reencoded: Vec<Reencoded>,
}

impl Job<'_> {
    /// Writes a folder of images.
    pub(super) fn folder(&self, print: &Print) -> Result<ConvertReport, ConvertError> {
        let shape = Shape::new(&self.fields, self.names.as_ref())?;
        let taken = || first_in(&self.dst);
        self.noted(print, taken, |journal| self.write_folder(&shape, journal))
    }

    fn write_folder(
        &self,
        shape: &Shape,
        journal: &mut Journal<'_>,
    ) -> Result<ConvertReport, ConvertError> {
        let parts = self.parts_dir();
        if journal.is_new() {
            delete(&parts)?;
        }
        for dir in [&self.dst, &parts] {
            fs::create_dir_all(dir).map_err(ConvertError::io("create it", dir))?;
        }
        let (resumed, mut notes) = (journal.end(), vec![]);
        if !journal.is_done() {
            journal.check(|unit, _| part(&parts, unit).is_file())?;
            self.write_files(shape, journal)?;
            let units = journal.units().len();
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
        let mut report = ConvertReport { notes, ..ConvertReport::of(journal, resumed) };
        if let Ok(table) = fs::metadata(self.dst.join(TABLE)) {
            report.files += 1;
            report.bytes += table.len();
        }
        Ok(report)
    }

    fn write_files(&self, shape: &Shape, journal: &mut Journal<'_>) -> Result<(), ConvertError> {
        let (first, end) = (journal.end(), self.source.len());
        let staging = Staging::create(&self.dst)?;
        let folder = Folder { root: &self.dst, staging: &staging, dirs: Mutex::default() };
        let bar = self.bar(journal);
        let pictures = Pictures::new(&self.options.image);
        let is_table = matches!(shape, Shape::Table { .. });
        let open = Open::at(first);
        let mut notes = Notes { job: self, folder: &folder, journal, bar, open, is_table };
        let threads = self.threads()?;
        Crew { first, end, threads }.run(
            |id| {
                let (leaves, line, reencoded) =
                    shape.leaves(self.source, &self.fields, &pictures, id)?;
                Ok(folder.put(id, leaves).map(|wrote| Wrote { line, reencoded, ..wrote }))
            },
            |wrote| wrote.as_ref().map_or(0, |wrote| wrote.line.len()),
            |id, wrote| notes.take(id, wrote),
            |source| WriteError::from(ThreadsError::Refused { wanted: threads, source }).into(),
        )?;
        notes.finish(end)?;
        Ok(staging.finish([self.dst.as_path()])?)
    }

    /// The classes that have samples, by the parts' lines.
    fn classes(&self, parts: usize) -> Result<BTreeSet<i64>, ConvertError> {
        let mut classes = BTreeSet::new();
        for number in 0..parts {
            let path = part(&self.parts_dir(), number);
            let text = fs::read_to_string(&path).map_err(ConvertError::io("read it", &path))?;
            classes.extend(text.lines().filter_map(|line| line.parse::<i64>().ok()));
        }
        Ok(classes)
    }

    /// Puts the table's parts together.
    fn write_table(&self, parts: usize) -> Result<(), ConvertError> {
        let target = Target::create(&self.dst.join(TABLE))?;
        let at_target = || ConvertError::write(target.partial_path());
        let mut out = io::BufWriter::new(target.file(&self.watch));
        for number in 0..parts {
            let path = part(&self.parts_dir(), number);
            let mut file = File::open(&path).map_err(ConvertError::io("read it", &path))?;
            io::copy(&mut file, &mut out).map_err(at_target())?;
        }
        out.flush().map_err(at_target())?;
        drop(out);
        Ok(target.commit(&self.watch)?)
    }
}

/// Where the lines of a unit lie until all are put together.
fn part(parts: &Path, unit: usize) -> PathBuf {
    parts.join(format!("{unit:06}.jsonl"))
}

/// Something in a folder; `None` if it is empty, or not there.
fn first_in(dir: &Path) -> Result<Option<PathBuf>, ConvertError> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConvertError::io("list", dir)(error)),
        Ok(mut entries) => Ok(entries.next().and_then(Result::ok).map(|entry| entry.path())),
    }
}

/// The folder that files are put into, by several threads.
struct Folder<'a> {
    root: &'a Path,
    staging: &'a Staging,
    /// Folders of classes that are there, and those of them with new names since the last note.
    dirs: Mutex<(HashSet<PathBuf>, BTreeSet<PathBuf>)>,
}

impl Folder<'_> {
    /// Puts a sample's files at their places.
    fn put(&self, id: SampleId, leaves: Vec<Leaf>) -> Result<Wrote, ConvertError> {
        let mut wrote = Wrote { files: leaves.len() as u64, ..Wrote::default() };
        for (number, Leaf { path, bytes }) in leaves.into_iter().enumerate() {
            let path = self.root.join(path);
            if let Some(dir) = path.parent() {
                self.make_dir(dir)?;
            }
            let mut staged = self.staging.file_of(id.0, number)?;
            staged.0.write_all(&bytes).map_err(ConvertError::write(&staged.1))?;
            self.staging.put(staged, &path)?;
            wrote.bytes += bytes.len() as u64;
        }
        Ok(wrote)
    }

    /// Makes a class's folder. What is there under its name is not followed out of the root.
    fn make_dir(&self, dir: &Path) -> Result<(), ConvertError> {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, touched) = &mut *dirs;
        if dir != self.root && !known.contains(dir) {
            match fs::create_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(ConvertError::io("create it", dir)(error));
                }
                _ => {}
            }
            if !fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir()) {
                let reason = "a folder is expected, not a link or a file".to_owned();
                return Err(ConvertError::Pick { path: dir.to_owned(), reason });
            }
            known.insert(dir.to_owned());
            touched.insert(self.root.to_owned());
        }
        touched.insert(dir.to_owned());
        Ok(())
    }

    /// Makes the names of all files put so far durable.
    fn sync(&self) -> Result<(), ConvertError> {
        let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
        let touched = std::mem::take(&mut dirs.1);
        drop(dirs);
        let sync = |dir: &PathBuf| sync_dir(dir).map_err(TargetError::io("sync", dir));
        Ok(touched.iter().try_for_each(sync)?)
    }
}

/// What is noted of the samples taken since the last unit.
struct Open {
    unit: Unit,
    skipped: Listed<(u64, String)>,
    lines: String,
    /// Lines of classes, each once.
    classes: BTreeSet<String>,
}

impl Open {
    fn at(first: u64) -> Self {
        let unit = Unit { first, ..Unit::default() };
        let (lines, classes) = (String::new(), BTreeSet::new());
        Self { unit, skipped: Listed::default(), lines, classes }
    }
}

/// Notes what is written, unit by unit.
struct Notes<'a, 'j> {
    job: &'a Job<'a>,
    folder: &'a Folder<'a>,
    journal: &'a mut Journal<'j>,
    bar: Bar,
    open: Open,
    /// Whether lines are the table's, or classes'.
    is_table: bool,
}

impl Notes<'_, '_> {
    fn take(
        &mut self,
        id: SampleId,
        wrote: Result<Result<Wrote, ConvertError>, SampleError>,
    ) -> Result<(), ConvertError> {
        if id.0 - self.open.unit.first >= self.job.unit() {
            self.finish(id.0)?;
        }
        match wrote {
            Ok(wrote) => {
                let Wrote { files, bytes, line, reencoded } = wrote?;
                let Open { unit, lines, classes, .. } = &mut self.open;
                unit.samples += 1;
                unit.files += files;
                unit.bytes += bytes;
                Reencoded::count(&mut unit.reencoded, reencoded);
                match self.is_table {
                    true => lines.push_str(&line),
                    false => drop(classes.insert(line)),
                }
                self.bar.add(bytes);
            }
            Err(cause) => {
                let told = self.job.left_out(id, cause)?;
                self.open.skipped.add(told);
                self.bar.add(0);
            }
        }
        Ok(())
    }

    /// Notes the samples up to `end`.
    fn finish(&mut self, end: u64) -> Result<(), ConvertError> {
        let open = std::mem::replace(&mut self.open, Open::at(end));
        let Open { mut unit, skipped, mut lines, classes } = open;
        lines.extend(classes);
        if unit.first == end {
            return Ok(());
        }
        self.folder.sync()?;
        let watch = &self.job.watch;
        let target = Target::create(&part(&self.job.parts_dir(), self.journal.units().len()))?;
        let at_target = ConvertError::write(target.partial_path());
        target.file(watch).write_all(lines.as_bytes()).map_err(at_target)?;
        target.commit(watch)?;
        unit.end = end;
        unit.skip(&skipped);
        self.journal.add(unit)
    }
}
