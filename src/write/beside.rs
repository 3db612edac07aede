//! What is stored beside a dataset because its format can't hold it: the names of classes
//! (`source/classes.rs`), and what the fields of objects are (`source/object_fields.rs`).

use super::atomic_file::AtomicFile;
use super::error::{io_error, write_error};
use super::shards::Template;
use super::step::ObserveStep;
use crate::error::Error;
use crate::source::{
    ClassNames, ClassTable, ObjectFields, Source, classes_beside, classes_of_others, is_class_file,
    is_object_file, objects_beside, objects_of_others,
};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What is known of a dataset and not stored in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Beside {
    pub(super) classes: Option<ClassNames>,
    pub(super) objects: Option<ObjectFields>,
}

impl Beside {
    /// Reads what a source knows.
    ///
    /// # Errors
    ///
    /// If a file beside the source is damaged.
    pub(super) fn of(source: &dyn Source) -> Result<Self, Error> {
        let classes = source.class_names().map_err(Error::from)?;
        Ok(Self { classes, objects: source.object_fields().map_err(Error::from)? })
    }

    /// Writes the files beside a dataset that was just written, and deletes those of the dataset that it
    /// replaced. The path of shards is their template.
    pub(super) fn put(&self, dataset: &Path, watch: &impl ObserveStep) -> Result<(), Error> {
        let dataset = &written_file(dataset);
        put_classes(&classes_beside(dataset), self.table().as_ref(), watch)?;
        let path = objects_beside(dataset);
        let text = self.objects.as_ref().map(|objects| objects.to_json("\n").into_bytes());
        put(&path, text.as_deref(), is_object_file, watch)
    }

    /// Returns a file beside other shards that readers would take for that of these, the first of which
    /// is at `first`.
    pub(super) fn of_others(&self, template: &Template, first: &Path) -> Option<PathBuf> {
        let named = template.named();
        let (dataset, is_shard) = ((&*named, first), |name: &str| template.matches(name));
        // Readers of a single file look for the file of its own name first.
        let is_hidden = |is_written: bool| is_written && !template.has_number();
        let classes = || classes_of_others(dataset, is_shard);
        let objects = || objects_of_others(dataset, is_shard);
        (!is_hidden(self.classes.is_some()))
            .then(classes)
            .flatten()
            .or_else(|| (!is_hidden(self.objects.is_some())).then(objects).flatten())
    }

    /// Returns the table of the classes, without folders.
    pub(super) fn table(&self) -> Option<ClassTable> {
        self.classes.as_ref().map(ClassTable::of)
    }
}

/// Returns the file that is written where `path` is named: that which a link leads to.
pub(super) fn written_file(path: &Path) -> PathBuf {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let real = if is_link { fs::canonicalize(path).ok() } else { None };
    real.unwrap_or_else(|| path.to_owned())
}

/// Writes a table of classes to `path`, complete or not at all. Without a table, deletes a file of class
/// names at `path`, because it belongs to the dataset that was replaced. A file of another program
/// stays.
pub(super) fn put_classes(
    path: &Path,
    table: Option<&ClassTable>,
    watch: &impl ObserveStep,
) -> Result<(), Error> {
    put(path, table.map(ClassTable::to_bytes).as_deref(), is_class_file, watch)
}

fn put(
    path: &Path,
    text: Option<&[u8]>,
    is_ours: impl Fn(&Path) -> bool,
    watch: &impl ObserveStep,
) -> Result<(), Error> {
    let Some(text) = text else {
        if is_ours(path) {
            fs::remove_file(path).map_err(io_error("delete it", path))?;
        }
        return Ok(());
    };
    let target = AtomicFile::create(path)?;
    target.file(watch).write_all(text).map_err(write_error(target.partial_path()))?;
    target.commit(watch)
}
