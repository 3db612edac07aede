//! Writes class names beside a dataset whose format can't store them: see `source/classes.rs`.

use super::WriteCause;
use super::atomic_file::{AtomicFile, TargetError};
use super::step::ObserveStep;
use crate::source::{ClassTable, is_class_file};
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Writes a table of classes to `path`, complete or not at all. Without a table, deletes a file of class
/// names at `path`, because it belongs to the dataset that was replaced. A file of another program
/// stays.
pub(super) fn put(
    path: &Path,
    table: Option<&ClassTable>,
    watch: &impl ObserveStep,
) -> Result<(), WriteCause> {
    let Some(table) = table else {
        if is_class_file(path) {
            fs::remove_file(path).map_err(TargetError::io("delete it", path))?;
        }
        return Ok(());
    };
    let target = AtomicFile::create(path)?;
    let at_target = |source| WriteCause::Write { path: target.partial_path().to_owned(), source };
    target.file(watch).write_all(&table.to_bytes()).map_err(at_target)?;
    Ok(target.commit(watch)?)
}
