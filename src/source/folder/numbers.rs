//! The numbers of a folder's classes.
//!
//! | the folder                   | a class's number                                          |
//! |------------------------------|-----------------------------------------------------------|
//! | has a `classes.json` of ours | the one in the file; a class that it lacks has no samples |
//! | has none                     | its index among the names, in byte order                  |
//!
//! torchvision's `ImageFolder` ignores `classes.json`: there the number is always the index.

use crate::error::{Error, fail};
use crate::source::{ClassNames, ClassTable, Escaped, FOLDER_FILE_NAME};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The classes of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassNumbers {
    /// The numbers of the listed classes, in their order; `None` for a class without samples that has no
    /// number.
    pub(super) numbers: Vec<Option<i64>>,
    /// Names by number, not escaped.
    pub(super) names: Option<ClassNames>,
    /// Names in the order of the numbers, escaped for a terminal.
    pub(super) shown: Vec<String>,
}

impl ClassNumbers {
    /// Numbers classes by the order of their names.
    pub(super) fn by_order(classes: &[String]) -> Self {
        Self {
            numbers: (0..).take(classes.len()).map(Some).collect(),
            names: Some((0..).zip(classes.iter().cloned()).collect()),
            shown: classes.iter().map(|name| Escaped(name).to_string()).collect(),
        }
    }

    /// Returns the numbers that are set, of no listed class.
    pub(super) fn given(classes: &ClassNames) -> Self {
        let shown = classes.iter().map(|(_, name)| Escaped(name).to_string()).collect();
        Self { numbers: vec![], names: Some(classes.clone()), shown }
    }

    /// Numbers listed classes as `given` says. `labels` are the indices of the samples' classes.
    pub(super) fn set(
        root: &Path,
        classes: &[String],
        labels: &[i64],
        given: &ClassNames,
    ) -> Result<Self, Error> {
        let by_name: BTreeMap<&str, i64> =
            given.iter().map(|(number, name)| (name, number)).collect();
        let numbers: Vec<Option<i64>> =
            classes.iter().map(|class| by_name.get(&**class).copied()).collect();
        if let Some(class) = without_number(classes, &numbers, labels) {
            return Err(fail!(
                Format,
                "class \"{class}\" has images, but is not one of the classes that are set"
            )
            .at(root));
        }
        Ok(Self { numbers, ..Self::given(given) })
    }

    /// Numbers the classes listed in the folder `root`. `labels` are the indices of the samples'
    /// classes.
    pub(super) fn in_folder(
        root: &Path,
        classes: &[String],
        labels: &[i64],
    ) -> Result<Self, Error> {
        let path = root.join(FOLDER_FILE_NAME);
        let table = ClassTable::read(&path)?;
        let Some(mut table) = table else { return Ok(Self::by_order(classes)) };
        let folders = table.folders();
        let numbers = classes.iter().map(|class| folders.get(&**class).copied());
        let numbers: Vec<Option<i64>> = numbers.collect();
        if let Some(class) = without_number(classes, &numbers, labels) {
            return Err(fail!(
                Format,
                "no number for the class folder \"{class}\": add it there, or delete the file to number classes by their names"
            )
            .at(path));
        }
        let names = table.names();
        table.0.sort_by_key(|class| class.number);
        let shown =
            table.0.iter().filter_map(|class| class.name.as_ref().or(class.folder.as_ref()));
        let shown = shown.map(|name| Escaped(name).to_string()).collect();
        Ok(Self { numbers, names: Some(names).filter(|names| names.iter().len() > 0), shown })
    }

    /// Replaces indices in the list of classes by the numbers of the classes.
    pub(super) fn relabel(&self, labels: &mut [i64]) {
        for label in labels {
            let index = usize::try_from(*label).ok();
            let number = index.and_then(|index| self.numbers.get(index).copied().flatten());
            *label = number.unwrap_or(*label);
        }
    }
}

/// Returns the first class that has samples but no number.
fn without_number<'c>(
    classes: &'c [String],
    numbers: &[Option<i64>],
    labels: &[i64],
) -> Option<&'c String> {
    let used: BTreeSet<i64> = labels.iter().copied().collect();
    let mut all = (0..).zip(classes).zip(numbers);
    let unknown = all.find(|((index, _), number)| number.is_none() && used.contains(index));
    unknown.map(|((_, class), _)| class)
}
