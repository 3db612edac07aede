//! The class folders of a conversion, and the file `classes.json` for what their names can't express.
//!
//! | class                                             | folder name            |
//! |---------------------------------------------------|------------------------|
//! | has a unique name that is valid for a folder      | the name               |
//! | has another name, or none                         | the number, `00005`    |
//!
//! A reader without `classes.json` numbers classes by the order of their folders. The file is written if
//! these numbers, or the folders' names, differ from the source's.

use super::DatasetConversion;
use crate::error::Error;
use crate::source::{ClassEntry, ClassNames, ClassTable, FOLDER_FILE_NAME};
use crate::write::beside::put_classes;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum length of a folder's name in bytes.
const MOST: usize = 200;

/// The names of the class folders.
pub(super) struct ClassFolders {
    names: Option<ClassNames>,
    /// The folders that are named after their class.
    named: BTreeMap<i64, String>,
    taken: BTreeSet<String>,
}

impl ClassFolders {
    pub(super) fn new(names: Option<&ClassNames>) -> Self {
        let (mut named, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for (number, name) in names.iter().flat_map(|names| names.iter()) {
            if is_folder_name(name) && taken.insert(key(name)) {
                named.insert(number, name.to_owned());
            }
        }
        Self { names: names.cloned(), named, taken }
    }

    /// Returns the folder of a class.
    pub(super) fn folder(&self, class: i64) -> String {
        if let Some(name) = self.named.get(&class) {
            return name.clone();
        }
        let mut folder = format!("{class:05}");
        while self.taken.contains(&key(&folder)) {
            folder.push('_');
        }
        folder
    }

    /// Returns the content of `classes.json` if the classes `present` have samples; `None` if the file
    /// is not needed.
    fn table(&self, present: &BTreeSet<i64>) -> Option<ClassTable> {
        let named = self.names.iter().flat_map(|names| names.iter().map(|(number, _)| number));
        let all: BTreeSet<i64> = present.iter().copied().chain(named).collect();
        let class = |number: i64| {
            let name = self.names.as_ref().and_then(|names| names.get(number));
            let folder = self.folder(number);
            let is_called_so = name == Some(&*folder);
            let folder = (!is_called_so).then_some(folder);
            ClassEntry { number, name: name.map(str::to_owned), folder }
        };
        let table = ClassTable(all.iter().map(|&number| class(number)).collect());
        let mut folders: Vec<(String, i64)> =
            present.iter().map(|&number| (self.folder(number), number)).collect();
        folders.sort_unstable();
        let is_in_order = (0..).zip(&folders).all(|(index, (_, number))| index == *number);
        let is_named = self.names.is_none() || table.0.iter().all(|class| class.folder.is_none());
        (!is_in_order || !is_named || all.len() > present.len()).then_some(table)
    }
}

/// Returns a key that is equal for names of the same folder.
fn key(name: &str) -> String {
    let ignores_case = cfg!(any(windows, target_os = "macos"));
    if ignores_case { name.to_lowercase() } else { name.to_owned() }
}

/// Returns true if a class's folder can have this name on any system, and readers do not skip it.
fn is_folder_name(name: &str) -> bool {
    let is_bad = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
    let is_bounded = !name.is_empty() && name.len() <= MOST;
    let is_file = name == FOLDER_FILE_NAME || name == super::folder::TABLE;
    is_bounded && !is_file && !name.starts_with('.') && !name.contains(is_bad)
}

impl DatasetConversion<'_> {
    /// Writes `classes.json` into a folder where the classes `present` have samples, if the file is
    /// needed. Returns the notes for readers of the folder.
    pub(super) fn name_folders(
        &self,
        folders: &ClassFolders,
        present: &BTreeSet<i64>,
    ) -> Result<Vec<String>, Error> {
        let table = folders.table(present);
        put_classes(&self.dst.join(FOLDER_FILE_NAME), table.as_ref(), &self.watch)?;
        let note = "the numbers and names of the classes are in classes.json: fuseloop reads it, \
                    torchvision's ImageFolder numbers the folders by the order of their names";
        Ok(table.iter().map(|_| note.to_owned()).collect())
    }

    /// Writes `classes.json` beside a folder's table, which has only class numbers.
    pub(super) fn name_table(&self) -> Result<(), Error> {
        let table = self.beside.table();
        put_classes(&self.dst.join(FOLDER_FILE_NAME), table.as_ref(), &self.watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(names: &[(i64, &str)]) -> ClassFolders {
        let names: ClassNames = names.iter().map(|&(n, name)| (n, name.to_owned())).collect();
        ClassFolders::new(Some(&names).filter(|names| names.iter().len() > 0))
    }

    #[test]
    fn a_name_that_would_lead_a_reader_astray_is_no_folder() {
        let long = "x".repeat(201);
        let odd = ["", ".", "..", ".git", "a/b", "../a", "/a", "a\\b", "c:", "a\nb", "a\0", &long];
        let odd = odd.into_iter().chain(["classes.json", "metadata.jsonl"]);
        let names: Vec<(i64, &str)> = (0..).zip(odd).collect();
        let folders = folders(&names);
        for (number, name) in names {
            assert_eq!(folders.folder(number), format!("{number:05}"), "{name:?}");
        }
    }

    #[test]
    fn two_classes_never_share_a_folder() {
        let folders = folders(&[(0, "cat"), (1, "cat"), (2, "00001"), (3, "00001_")]);
        let called: Vec<String> = (0..5).map(|n| folders.folder(n)).collect();
        assert_eq!(called, ["cat", "00001__", "00001", "00001_", "00004"]);
    }

    #[test]
    fn the_file_is_written_where_folders_do_not_say_it() {
        let is_said = |names: &[(i64, &str)], present: &[i64]| {
            folders(names).table(&present.iter().copied().collect()).is_none()
        };
        let ab = [(0, "a"), (1, "b")];
        assert!(is_said(&ab, &[0, 1]) && is_said(&[], &[0, 1, 2]) && is_said(&[], &[]));
        assert!(!is_said(&[], &[600, 601]), "other numbers");
        assert!(!is_said(&[(0, "b"), (1, "a")], &[0, 1]), "another order");
        assert!(!is_said(&ab, &[1]) && !is_said(&ab, &[0]), "a class without samples");
        assert!(!is_said(&ab, &[0, 1, 2]), "a class without a name");
        assert!(!is_said(&[(0, "a/b")], &[0]), "a name that is no folder's");
        let table = folders(&[(0, "b"), (1, "a/b")]).table(&[0, 1, 7].into()).unwrap();
        let said = table.0.iter().map(|class| (class.number, class.folder.as_deref()));
        assert!(said.eq([(0, None), (1, Some("00001")), (7, Some("00007"))]));
    }
}
