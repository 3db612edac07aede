//! Names of classes, written beside a dataset that has no place for them: see `source/classes.rs`.

use super::WriteError;
use super::step::Watch;
use super::target::{Target, TargetError};
use crate::source::{ClassTable, is_ours};
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Puts a table of classes at `path`, whole or not at all. Without one, a file of class names that lies
/// there is deleted: it is of the dataset that was there before. Another program's file stays.
pub(super) fn put(
    path: &Path,
    table: Option<&ClassTable>,
    watch: &impl Watch,
) -> Result<(), WriteError> {
    let Some(table) = table else {
        if is_ours(path) {
            fs::remove_file(path).map_err(TargetError::io("delete it", path))?;
        }
        return Ok(());
    };
    let target = Target::create(path)?;
    let at_target = |source| WriteError::Write { path: target.partial_path().to_owned(), source };
    target.file(watch).write_all(&table.to_bytes()).map_err(at_target)?;
    Ok(target.commit(watch)?)
}
