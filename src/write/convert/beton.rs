//! Writes a `.beton` file, so that an interrupted conversion can be resumed.
//!
//! ```text
//! .x.beton.fuseloop-resumed.partial    rows and pages    ->    renamed to x.beton
//! .x.beton.fuseloop-allocations        the allocation table, which comes after the pages of x.beton
//! ```
//!
//! Both files grow by a chunk at a time. When a chunk is durable, the journal records where they end, and a checksum of
//! the chunk's rows and allocations. A conversion that is resumed truncates both files to the end of the last recorded
//! chunk and appends the next one. The last chunk is recorded when the tables are written, so that only the rename is
//! left.
//!
//! If the pages have grown for a large sample, the values may have to be moved at the end (`file.rs`). The journal forgets
//! all chunks before that, because a conversion that is interrupted then can't be resumed.

use super::journal::{ChunkCheckpoint, ConversionId, OutputChunk, delete, folder_of};
use super::layout::read;
use super::pictures::{ImageFiles, to_input};
use super::{DatasetConversion, Journal, ProgressCounter};
use crate::decode::UnreadParts;
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::beton::Allocation;
use crate::source::{
    Escaped, FieldKind, FieldSpec, ImageMode, OwnedImage, OwnedValue, Record, keep_unfinished,
    note_unfinished,
};
use crate::write::atomic_file::{AtomicFile, not_a_file, open_own, resumed_path, sync_dir};
use crate::write::engine::{EncodeEngine, PlacedValue};
use crate::write::error::{cancelled, io_error, refuse_all_damaged, write_error};
use crate::write::file::{BetonBuilder, Checkpoint, Schema};
use crate::write::report::CountedList;
use crate::write::shards::custom_field;
use crate::write::step::{FileStep, ObservedFile, StepFile, StepObserver};
use crate::write::value::{Encoding, WriteSampleError};
use crate::write::{FieldValue, ImageInput, ImageOptions, WriteOptions};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

impl DatasetConversion<'_> {
    /// Writes a `.beton` file. Returns it as one chunk, and the sample behind those that earlier attempts had processed.
    pub(super) fn beton(&self, print: &ConversionId) -> Result<(OutputChunk, u64), Error> {
        let custom = |kind: &FieldKind| matches!(kind, FieldKind::Custom { .. });
        if let Some(field) = self.fields.iter().find(|field| custom(&field.kind)) {
            return Err(custom_field(&field.name));
        }
        let taken = || Ok(fs::symlink_metadata(&self.dst).is_ok().then(|| self.dst.clone()));
        self.with_journal(print, taken, |journal| self.write_beton(journal))
    }

    fn write_beton(&self, journal: &mut Journal<'_>) -> Result<(OutputChunk, u64), Error> {
        let mut resumed = journal.end();
        if !self.is_in_place(journal)? {
            resumed = self.write_file(journal)?;
        }
        if !journal.is_done() {
            self.beside.put(&self.dst, &self.watch)?;
            journal.done()?;
        }
        delete(&self.allocations_path())?;
        Ok((OutputChunk::joined(journal.chunks()), resumed))
    }

    /// Returns the path of the allocations of an unfinished `.beton`.
    pub(super) fn allocations_path(&self) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(self.dst.file_name().unwrap_or_default());
        name.push(".fuseloop-allocations");
        self.dst.with_file_name(name)
    }

    /// Returns true if the finished file has been renamed to its path.
    fn is_in_place(&self, journal: &Journal<'_>) -> Result<bool, Error> {
        let is_waiting = fs::symlink_metadata(resumed_path(&self.dst)?).is_ok();
        let found = fs::metadata(&self.dst).ok().filter(fs::Metadata::is_file);
        Ok(is_finished(journal)
            && !is_waiting
            && found.is_some_and(|found| found.len() == journal.bytes()))
    }

    /// Writes the file, or the rest of it, and renames it to its path. Returns the number of samples that earlier attempts
    /// had written.
    fn write_file(&self, journal: &mut Journal<'_>) -> Result<u64, Error> {
        let options = self.write_options();
        let fields = options.stored_fields(&restored_fields(&self.fields));
        let (page_size, max_page_size) =
            options.checked_page_size(self.source.facts().page_size)?;
        let schema = Schema::new(&fields, page_size)?;
        let samples = self.samples();
        let encoding = Encoding {
            fields: &fields,
            images: options.checked_images(&fields)?,
            limits: options.limits,
            unread: UnreadParts::of(Escaped(&self.dst.to_string_lossy()).to_string()),
            page_size: max_page_size,
        };
        let unfinished =
            [resumed_path(&self.dst)?, self.allocations_path(), journal.path().to_owned()];
        let note = |journal: &Journal<'_>| {
            journal.chunks().is_empty().then(|| Unrecorded::new(unfinished.clone()))
        };
        let mut unrecorded = note(journal);
        let target = AtomicFile::resume(&self.dst)?;
        if is_finished(journal) {
            if length(target.as_file(), target.partial_path())? == journal.bytes() {
                let resumed = journal.end();
                target.commit(&self.watch)?;
                return Ok(resumed);
            }
            journal.check(|_, _| false)?;
        }
        let file = UnfinishedBeton {
            schema: &schema,
            announced: samples.end - samples.start,
            target: &target,
            allocations: &self.allocations_path(),
            watch: self.watch,
        };
        let allocations = file.open_allocations()?;
        let dir = folder_of(&self.dst);
        (self.watch)(FileStep::SyncDir)
            .and_then(|()| sync_dir(dir))
            .map_err(io_error("sync", dir))?;
        let mut builder = file.recover(&allocations, journal)?;
        unrecorded = unrecorded.or_else(|| note(journal));
        let resumed = journal.end();
        let engine = EncodeEngine {
            encoding: &encoding,
            first: resumed,
            threads: self.threads()?,
            on_damaged: options.on_damaged,
            cancel: &options.cancel,
            out: target.partial_path(),
            path_of: &|sample| self.path_of(sample),
        };
        let images = self.image_files();
        let progress = self.progress(journal);
        let at_target = || write_error(target.partial_path());
        loop {
            let first = journal.end();
            let end = first.saturating_add(self.unit()).min(samples.end);
            let row = |id, ()| self.row(id, &images, &progress);
            let jobs = (first..end).map(|_| ());
            let before = builder.samples();
            let engine = EncodeEngine { first, ..engine };
            let placed = match self.videos {
                None => engine.run(jobs, |()| 0, row, &mut builder, || ())?,
                Some(videos) => {
                    let (segments, rows) = self.frames(videos, first..end, (&images, &progress));
                    engine.run_rows(segments, rows, &mut builder)?
                }
            };
            if options.cancel.is_cancelled() {
                return Err(cancelled());
            }
            let mut chunk = chunk(first, end, builder.samples() - before, placed);
            if end < samples.end {
                file.record(&mut builder, &allocations, &mut chunk, journal)?;
                journal.add(chunk)?;
                drop(unrecorded.take());
                continue;
            }
            let all = OutputChunk::joined(journal.chunks().iter().chain([&chunk]));
            if self.part.is_none() {
                let report = all.clone().report();
                refuse_all_damaged(report.samples, &self.with_paths(report.skipped))?;
            }
            if builder.moves_values().map_err(at_target())? {
                journal.check(|_, _| false)?;
                chunk = all;
            }
            let finished = builder.finish().map_err(at_target())?;
            (chunk.files, chunk.pages) = (1, finished.pages);
            chunk.bytes = finished.bytes - journal.bytes();
            target.sync(&self.watch)?;
            journal.add(chunk)?;
            drop(unrecorded.take());
            target.commit(&self.watch)?;
            return Ok(resumed);
        }
    }

    fn row(
        &self,
        id: SampleId,
        images: &ImageFiles<'_>,
        progress: &ProgressCounter<'_>,
    ) -> Result<Vec<FieldValue>, WriteSampleError> {
        match read(self.source, id) {
            Ok(record) => stored_row(self, record, images, progress),
            Err(error) => {
                progress.add(0);
                Err(error)
            }
        }
    }

    fn write_options(&self) -> WriteOptions {
        let images = self.fields.iter().zip(&self.images);
        let images = images.filter(|(field, _)| field.kind.is_image());
        WriteOptions {
            images: images.map(|(field, image)| (field.name.clone(), image.clone())).collect(),
            ..self.options.clone()
        }
    }
}

/// Checks a record, converts its values for the writer, and counts it.
pub(super) fn stored_row(
    conversion: &DatasetConversion<'_>,
    record: Record,
    images: &ImageFiles<'_>,
    progress: &ProgressCounter<'_>,
) -> Result<Vec<FieldValue>, WriteSampleError> {
    let fields = conversion.fields.iter().zip(&conversion.images);
    let check = || {
        images.check_audio(&record, &conversion.fields)?;
        for (value, (field, options)) in record.iter().zip(fields.clone()) {
            if let OwnedValue::Image(image) = value {
                let refused = |cause| WriteSampleError::Image { field: field.name.clone(), cause };
                images.check_orientation(image, options).map_err(refused)?;
            }
        }
        Ok(())
    };
    let checked = check();
    let values = checked.map(|()| {
        let values = record.into_iter().zip(fields);
        values.map(|(value, (field, image))| stored(value, &field.kind, image)).collect()
    });
    let held = |row: &Vec<FieldValue>| row.iter().map(FieldValue::held).sum();
    let bytes: usize = values.as_ref().map_or(0, held);
    progress.add(bytes as u64);
    values
}

/// Converts a value for the writer. If the header of a JPEG has not been read yet, the writer reads
/// it, because the file stores the image's size.
fn stored(value: OwnedValue, kind: &FieldKind, options: &ImageOptions) -> FieldValue {
    let is_unseen = |image: &OwnedImage| image.mode != ImageMode::Raw && image.width == 0;
    match (value, kind) {
        (OwnedValue::Image(image), _) if is_unseen(&image) || !options.keeps_stored() => {
            FieldValue::Image(to_input(image))
        }
        (OwnedValue::Image(image), _) => FieldValue::Image(ImageInput::Stored(image)),
        (OwnedValue::Float(value), _) => FieldValue::Float(value),
        (OwnedValue::Int(value), _) => FieldValue::Int(value),
        (OwnedValue::Json(text), _) => FieldValue::StoredJson(text),
        (OwnedValue::Custom(row), _) => FieldValue::Custom(row),
        (OwnedValue::NdArray(bytes), FieldKind::NdArray { dtype, .. }) => {
            FieldValue::NdArray { dtype: *dtype, bytes }
        }
        (OwnedValue::NdArray(bytes), FieldKind::TorchTensor { dtype, .. }) => {
            FieldValue::TorchTensor { dtype: *dtype, bytes }
        }
        // An array in another kind of field is refused when it is written.
        (OwnedValue::Bytes(bytes) | OwnedValue::NdArray(bytes), _) => FieldValue::Bytes(bytes),
    }
}

/// Returns the fields of a file without bit planes.
fn restored_fields(fields: &[FieldSpec]) -> Vec<FieldSpec> {
    let restored = |field: &FieldSpec| match field.kind {
        FieldKind::BitPlaneImage => FieldSpec { kind: FieldKind::RgbImage, ..field.clone() },
        _ => field.clone(),
    };
    fields.iter().map(restored).collect()
}

/// Returns true if all that is recorded is a finished file.
fn is_finished(journal: &Journal<'_>) -> bool {
    journal.chunks().last().is_some_and(|chunk| chunk.checkpoint.is_none())
}

fn length(file: &File, path: &Path) -> Result<u64, Error> {
    Ok(file.metadata().map_err(io_error("look at it", path))?.len())
}

fn chunk(first: u64, end: u64, samples: u64, placed: PlacedValue) -> OutputChunk {
    let PlacedValue { skipped, images } = placed;
    let damaged = skipped.first.into_iter().map(|one| (one.sample.0, one.cause)).collect();
    let skipped = CountedList { count: skipped.count, first: damaged };
    OutputChunk { first, end, samples, skipped, images, ..OutputChunk::default() }
}

/// The files of a conversion without a recorded chunk, and its journal, which are deleted if a signal ends the process.
struct Unrecorded([PathBuf; 3]);

impl Unrecorded {
    fn new(paths: [PathBuf; 3]) -> Self {
        paths.iter().for_each(|path| note_unfinished(path));
        Self(paths)
    }
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| keep_unfinished(path));
    }
}

/// The files of a `.beton` that is being written.
struct UnfinishedBeton<'a> {
    schema: &'a Schema<'a>,
    /// The number of samples for which the file has space.
    announced: u64,
    target: &'a AtomicFile,
    /// The path of the allocations.
    allocations: &'a Path,
    watch: StepObserver<'a>,
}

impl<'a> UnfinishedBeton<'a> {
    fn open_allocations(&self) -> Result<File, Error> {
        let path = self.allocations;
        let file = open_own(path).map_err(io_error("create it", path))?;
        file.ok_or_else(|| not_a_file(path))
    }

    /// Truncates both files to the end of the last chunk that they have as it was recorded, and drops the chunks behind
    /// it from the journal.
    fn recover(
        &self,
        allocations: &File,
        journal: &mut Journal<'_>,
    ) -> Result<BetonBuilder<'_, ObservedFile<'_, StepObserver<'a>>>, Error> {
        let Self { schema, target, .. } = self;
        let (path, table) = (target.partial_path(), self.allocations);
        let start =
            Checkpoint { samples: 0, allocations: 0, page_size: schema.page_size(), len: 0 };
        let (mut found, mut at) = (0, start);
        let (mut rows, mut records) = (vec![], vec![]);
        let mut stored_rows = target.as_file();
        let stored_records = allocations;
        let file_len = length(stored_rows, path)?;
        stored_rows
            .seek(SeekFrom::Start(schema.rows_start()))
            .map_err(io_error("read it", path))?;
        for chunk in journal.chunks() {
            let Some(next) = next_checkpoint(at, chunk) else { break };
            let (row, record) = (rows.len(), records.len());
            let row_bytes = chunk.samples.saturating_mul(schema.row_bytes() as u64);
            let record_bytes = (next.allocations - at.allocations).saturating_mul(RECORD);
            let read = stored_rows.take(row_bytes).read_to_end(&mut rows);
            let row_bytes = row_bytes == read.map_err(io_error("read it", path))? as u64;
            let read = stored_records.take(record_bytes).read_to_end(&mut records);
            let record_bytes = record_bytes == read.map_err(io_error("read it", table))? as u64;
            let crc = checksum(&rows[row..], &records[record..]);
            let is_same = chunk.checkpoint.is_some_and(|state| state.crc == crc);
            if !(row_bytes && record_bytes && is_same && next.len <= file_len) {
                rows.truncate(row);
                records.truncate(record);
                break;
            }
            (found, at) = (found + 1, next);
        }
        journal.check(|index, _| index < found)?;
        for (which, mut file, path, len) in [
            (StepFile::Output, stored_rows, path, at.len),
            (StepFile::Allocations, stored_records, table, records.len() as u64),
        ] {
            (self.watch)(FileStep::Truncate { file: which, len })
                .and_then(|()| file.set_len(len))
                .and_then(|()| file.seek(SeekFrom::Start(len)))
                .map_err(io_error("truncate it", path))?;
        }
        let out = target.rest(at.len, &self.watch);
        let builder = if found == 0 {
            BetonBuilder::new(schema, out, self.announced)
        } else {
            BetonBuilder::resume(schema, out, self.announced, at, (rows, &records))
        };
        builder.map_err(write_error(path))
    }

    /// Makes a chunk durable, and adds to it what is needed to continue behind it.
    fn record(
        &self,
        builder: &mut BetonBuilder<'_, ObservedFile<'_, StepObserver<'_>>>,
        allocations: &File,
        chunk: &mut OutputChunk,
        journal: &Journal<'_>,
    ) -> Result<(), Error> {
        let (at, rows, records) =
            builder.checkpoint().map_err(write_error(self.target.partial_path()))?;
        let before = at.allocations * RECORD - records.len() as u64;
        ObservedFile::new(allocations, StepFile::Allocations, before, &self.watch)
            .write_all(&records)
            .map_err(write_error(self.allocations))?;
        let crc = checksum(rows, &records);
        let Checkpoint { page_size, allocations: count, len, .. } = at;
        chunk.checkpoint = Some(ChunkCheckpoint { page_size, allocations: count, crc });
        chunk.bytes = len - journal.bytes();
        self.target.sync(&self.watch)?;
        (self.watch)(FileStep::Sync(StepFile::Allocations))
            .and_then(|()| allocations.sync_all())
            .map_err(io_error("sync", self.allocations))
    }
}

/// The size of a record of the allocation table.
const RECORD: u64 = Allocation::SIZE as u64;

/// Returns the checkpoint behind a chunk that follows `at`; `None` if the chunk has none that is possible.
fn next_checkpoint(at: Checkpoint, chunk: &OutputChunk) -> Option<Checkpoint> {
    let ChunkCheckpoint { page_size, allocations, .. } = chunk.checkpoint?;
    let is_possible = page_size.is_power_of_two() && page_size >= at.page_size;
    (is_possible && allocations >= at.allocations).then_some(())?;
    let samples = at.samples.checked_add(chunk.samples)?;
    Some(Checkpoint { samples, allocations, page_size, len: at.len.checked_add(chunk.bytes)? })
}

fn checksum(rows: &[u8], allocations: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(rows), allocations)
}
