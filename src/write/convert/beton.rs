//! Writes a `.beton` in parts, so that an interrupted conversion can be resumed.
//!
//! ```text
//! .x.beton.fuseloop-parts/000000.beton ...   written, recorded    -> chunks
//! x.beton                                    all parts concatenated -> the parts are deleted
//! ```
//!
//! A dataset of one chunk is written directly to its path. Otherwise the parts take disk space until
//! they are concatenated, and are copied once.

use super::journal::{ConversionId, OutputChunk, delete};
use super::layout::read;
use super::pictures::{ImageFiles, to_input};
use super::{ConvertCause, ConvertReport, DatasetConversion, Journal, ProgressCounter};
use crate::sample::SampleId;
use crate::source::{FieldKind, ImageMode, OwnedImage, OwnedValue};
use crate::write::beton::restored_fields;
use crate::write::parts::{PARTS, concat};
use crate::write::report::CountedList;
use crate::write::shards::ShardFieldError;
use crate::write::value::WriteSampleError;
use crate::write::{
    FieldValue, FileRequest, ImageOptions, WriteCause, WriteOptions, WriteReport,
    refuse_all_damaged, write_jobs,
};
use std::fs;
use std::path::{Path, PathBuf};

impl DatasetConversion<'_> {
    /// Writes a `.beton` file.
    pub(super) fn beton(&self, print: &ConversionId) -> Result<ConvertReport, ConvertCause> {
        let custom = |kind: &FieldKind| matches!(kind, FieldKind::Custom { .. });
        if let Some(field) = self.fields.iter().find(|field| custom(&field.kind)) {
            return Err(ShardFieldError::Custom { field: field.name.clone() }.into());
        }
        let taken = || Ok(fs::symlink_metadata(&self.dst).is_ok().then(|| self.dst.clone()));
        self.with_journal(print, taken, |journal| self.write_beton(journal))
    }

    fn write_beton(&self, journal: &mut Journal<'_>) -> Result<ConvertReport, ConvertCause> {
        let parts = self.chunks_dir();
        if journal.is_new() {
            delete(&parts)?;
        }
        let resumed = journal.end();
        if !journal.is_done() {
            if self.source.len() <= self.unit() {
                journal.check(|_, unit| is_whole(&self.dst, unit))?;
                if journal.chunks().is_empty() {
                    self.part(&self.dst, journal, &self.progress(journal))?;
                }
            } else {
                self.write_parts(&parts, journal)?;
            }
            self.beside.put(&self.dst, &self.watch)?;
            journal.done()?;
        }
        delete(&parts)?;
        let look = ConvertCause::io("look at it", &self.dst);
        let bytes = fs::metadata(&self.dst).map_err(look)?.len();
        Ok(ConvertReport { files: 1, bytes, ..ConvertReport::of(journal, resumed) })
    }

    fn write_parts(&self, parts: &Path, journal: &mut Journal<'_>) -> Result<(), ConvertCause> {
        let path = |part: usize| parts.join(format!("{part:06}.beton"));
        journal.check(|part, unit| is_whole(&path(part), unit))?;
        if !parts.is_dir() {
            fs::create_dir(parts).map_err(ConvertCause::io("create it", parts))?;
        }
        let progress = self.progress(journal);
        while journal.end() < self.source.len() {
            self.part(&path(journal.chunks().len()), journal, &progress)?;
        }
        let ConvertReport { samples, skipped, .. } = ConvertReport::of(journal, 0);
        refuse_all_damaged(samples, &skipped)?;
        let paths: Vec<PathBuf> = (0..journal.chunks().len()).map(path).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let options = WriteOptions { limits: PARTS, ..self.write_options() };
        concat(&paths, &self.dst, &options, self.watch)?;
        Ok(())
    }

    /// Writes the next samples as a separate file, and records it.
    fn part(
        &self,
        out: &Path,
        journal: &mut Journal<'_>,
        progress: &ProgressCounter<'_>,
    ) -> Result<(), ConvertCause> {
        let first = journal.end();
        let end = first.saturating_add(self.unit()).min(self.source.len());
        let fields = &restored_fields(&self.fields);
        let images = ImageFiles::new(&self.images, self.has_targets());
        let row = |_, number: u64| self.row(SampleId(number), &images, progress);
        let options = self.write_options();
        let request =
            FileRequest { fields, first, out, options: &options, is_part: out != self.dst };
        let report = write_jobs(first..end, |_| 0, row, Some(end - first), request, &self.watch)
            .map_err(|error| behind(error, first))?;
        journal.add(unit(first, end, &report))
    }

    fn row(
        &self,
        id: SampleId,
        images: &ImageFiles<'_>,
        progress: &ProgressCounter<'_>,
    ) -> Result<Vec<FieldValue>, WriteSampleError> {
        let record = read(self.source, id).and_then(|record| {
            for ((value, field), options) in record.iter().zip(&self.fields).zip(&self.images) {
                if let OwnedValue::Image(image) = value {
                    let refused =
                        |cause| WriteSampleError::Image { field: field.name.clone(), cause };
                    images.check_orientation(image, options).map_err(refused)?;
                }
            }
            Ok(record)
        });
        let values = record.map(|record| {
            let values = record.into_iter().zip(&self.fields).zip(&self.images);
            values.map(|((value, field), image)| stored(value, &field.kind, image)).collect()
        });
        let held = |row: &Vec<FieldValue>| row.iter().map(FieldValue::held).sum();
        let bytes: usize = values.as_ref().map_or(0, held);
        progress.add(bytes as u64);
        values
    }

    fn write_options(&self) -> WriteOptions {
        let options = self.options;
        let fields =
            self.fields.iter().zip(&self.images).filter(|(field, _)| field.kind.is_image());
        WriteOptions {
            page_size: options.page_size,
            threads: options.threads,
            on_damaged: options.on_damaged,
            cancel: options.cancel.clone(),
            image: options.image.clone(),
            images: fields.map(|(field, image)| (field.name.clone(), image.clone())).collect(),
            // The conversion checked for existing outputs before it began.
            overwrite: true,
            ..WriteOptions::default()
        }
    }
}

/// Converts a value for the writer. If the header of a JPEG has not been read yet, the writer reads
/// it, because the file stores the image's size.
fn stored(value: OwnedValue, kind: &FieldKind, options: &ImageOptions) -> FieldValue {
    let is_unseen = |image: &OwnedImage| image.mode != ImageMode::Raw && image.width == 0;
    match value {
        OwnedValue::Image(image) if is_unseen(&image) || !options.is_untouched() => {
            FieldValue::Image(to_input(image))
        }
        value => FieldValue::from_stored(value, kind),
    }
}

/// Returns true if a file exists with the recorded size.
fn is_whole(path: &Path, unit: &OutputChunk) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == unit.bytes)
}

/// Corrects the sample number in an error of a part that begins at sample `first`: the writer counts
/// from 0.
fn behind(error: WriteCause, first: u64) -> WriteCause {
    match error {
        WriteCause::Sample { sample, path, cause } => {
            WriteCause::Sample { sample: SampleId(sample.0 + first), path, cause }
        }
        other => other,
    }
}

fn unit(first: u64, end: u64, report: &WriteReport) -> OutputChunk {
    let mut unit = OutputChunk {
        first,
        end,
        samples: report.samples,
        files: 1,
        bytes: report.bytes,
        reencoded: report.reencoded.clone(),
        ..OutputChunk::default()
    };
    let skipped = report.skipped.first.iter().map(|one| (one.sample.0 + first, one.cause.clone()));
    unit.skip(&CountedList { count: report.skipped.count, first: skipped.collect() });
    unit
}
