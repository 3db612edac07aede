//! A `.beton` in parts, so that what was stopped need not begin anew.
//!
//! ```text
//! .x.beton.fuseloop-parts/000000.beton ...   written whole, noted   -> units
//! x.beton                                    all parts put together -> the parts are deleted
//! ```
//!
//! A dataset of one unit is written straight to its place. Parts cost their bytes on the disk until all
//! are put together, and one copy of them.

use super::journal::{Print, Unit, delete};
use super::layout::read;
use super::pictures::anew;
use super::{Bar, ConvertError, ConvertReport, Job, Journal};
use crate::sample::SampleId;
use crate::source::{FieldKind, ImageMode, OwnedImage, OwnedValue};
use crate::write::parts::{PARTS, concat};
use crate::write::report::Listed;
use crate::write::shards::ColumnError;
use crate::write::value::SampleError;
use crate::write::{FieldValue, Request, WriteError, WriteOptions, WriteReport, write_jobs};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

impl Job<'_> {
    /// Writes a `.beton` file.
    pub(super) fn beton(&self, print: &Print) -> Result<ConvertReport, ConvertError> {
        let custom = |kind: &FieldKind| matches!(kind, FieldKind::Custom { .. });
        if let Some(field) = self.fields.iter().find(|field| custom(&field.kind)) {
            return Err(ColumnError::Custom { field: field.name.clone() }.into());
        }
        let taken = || Ok(fs::symlink_metadata(&self.dst).is_ok().then(|| self.dst.clone()));
        self.noted(print, taken, |journal| self.write_beton(journal))
    }

    fn write_beton(&self, journal: &mut Journal<'_>) -> Result<ConvertReport, ConvertError> {
        let parts = self.parts_dir();
        if journal.is_new() {
            delete(&parts)?;
        }
        let resumed = journal.end();
        if !journal.is_done() {
            if self.source.len() <= self.unit() {
                journal.check(|_, unit| is_whole(&self.dst, unit))?;
                if journal.units().is_empty() {
                    self.part(&self.dst, journal)?;
                }
            } else {
                self.write_parts(&parts, journal)?;
            }
            self.name_classes(&self.dst)?;
            journal.done()?;
        }
        delete(&parts)?;
        let look = ConvertError::io("look at it", &self.dst);
        let bytes = fs::metadata(&self.dst).map_err(look)?.len();
        Ok(ConvertReport { files: 1, bytes, ..ConvertReport::of(journal, resumed) })
    }

    fn write_parts(&self, parts: &Path, journal: &mut Journal<'_>) -> Result<(), ConvertError> {
        let path = |part: usize| parts.join(format!("{part:06}.beton"));
        journal.check(|part, unit| is_whole(&path(part), unit))?;
        if !parts.is_dir() {
            fs::create_dir(parts).map_err(ConvertError::io("create it", parts))?;
        }
        while journal.end() < self.source.len() {
            self.part(&path(journal.units().len()), journal)?;
        }
        let paths: Vec<PathBuf> = (0..journal.units().len()).map(path).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let options = WriteOptions { limits: PARTS, ..self.write_options() };
        concat(&paths, &self.dst, &options, self.watch)?;
        Ok(())
    }

    /// Writes the next samples as a file of their own, and notes it.
    fn part(&self, out: &Path, journal: &mut Journal<'_>) -> Result<(), ConvertError> {
        let first = journal.end();
        let end = first.saturating_add(self.unit()).min(self.source.len());
        let bar = Mutex::new(self.bar(journal));
        let fields = &self.fields;
        let row = |_, number: u64| self.row(SampleId(number), &bar);
        let options = self.write_options();
        let request = Request { fields, first, out, options: &options };
        let report = write_jobs(first..end, |_| 0, row, Some(end - first), request, &self.watch)
            .map_err(|error| behind(error, first))?;
        journal.add(unit(first, end, &report))
    }

    fn row(&self, id: SampleId, bar: &Mutex<Bar>) -> Result<Vec<FieldValue>, SampleError> {
        let record = read(self.source, id);
        let values = record.map(|record| {
            let pairs = record.into_iter().zip(&self.fields);
            pairs.map(|(value, field)| self.stored(value, &field.kind)).collect()
        });
        let held = |row: &Vec<FieldValue>| row.iter().map(FieldValue::held).sum();
        let bytes: usize = values.as_ref().map_or(0, held);
        bar.lock().unwrap_or_else(PoisonError::into_inner).add(bytes as u64);
        values
    }

    fn write_options(&self) -> WriteOptions {
        let options = self.options;
        WriteOptions {
            page_size: options.page_size,
            threads: options.threads,
            damaged: options.damaged,
            image: options.image.clone(),
            ..WriteOptions::default()
        }
    }

    /// A value as it is stored. A JPEG whose header nobody has looked at is looked at by the writer: the
    /// file has its size.
    fn stored(&self, value: OwnedValue, kind: &FieldKind) -> FieldValue {
        let is_unseen = |image: &OwnedImage| image.mode == ImageMode::Jpeg && image.width == 0;
        match value {
            OwnedValue::Image(image) if is_unseen(&image) || !self.options.image.is_untouched() => {
                FieldValue::Image(anew(image))
            }
            value => FieldValue::again(value, kind),
        }
    }
}

/// Whether a file is there as it was noted.
fn is_whole(path: &Path, unit: &Unit) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == unit.bytes)
}

/// An error of a part that begins with sample `first`: the writer counts from 0.
fn behind(error: WriteError, first: u64) -> WriteError {
    match error {
        WriteError::Sample { sample, path, cause } => {
            WriteError::Sample { sample: SampleId(sample.0 + first), path, cause }
        }
        other => other,
    }
}

fn unit(first: u64, end: u64, report: &WriteReport) -> Unit {
    let mut unit = Unit {
        first,
        end,
        samples: report.samples,
        files: 1,
        bytes: report.bytes,
        reencoded: report.reencoded.clone(),
        ..Unit::default()
    };
    let told = report.skipped.first.iter().map(|one| (one.sample.0 + first, one.cause.to_string()));
    unit.skip(&Listed { count: report.skipped.count, first: told.collect() });
    unit
}
