//! Names of classes: the meaning of the numbers in a dataset's label.
//!
//! | dataset                    | where the names are                                                |
//! |----------------------------|--------------------------------------------------------------------|
//! | a folder of class folders  | the folders' names, or `classes.json` in the folder                |
//! | a table                    | its column `label`, if that has names, or `classes.json` beside it |
//! | `x.beton`, `x.tar`         | `x.beton.classes.json` beside it                                   |
//! | shards `x-{000}.tar`       | `x-{000}.tar.classes.json` beside them: the braces are in the name |
//!
//! None of the formats can store names, so they are stored in a file of their own: JSON with one line
//! for each class.
//!
//! ```text
//! {"fuseloop":"classes","version":1,"classes":[
//! {"number":600,"name":"ape"},
//! {"number":601,"name":"a/b","folder":"00601"},
//! {"number":602,"folder":"00602"}
//! ]}
//! ```
//!
//! `folder` is the class's folder, if it is not called by the class's name; a class may have no name. A
//! `classes.json` that does not begin like this belongs to another program and is ignored.

use super::beside::{self, BesideFile};
use super::{BoxError, Escaped, Location};
use crate::error::{Error, ErrorKind, fail};
use crate::escape::shown;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
#[cfg(any(test, feature = "write"))]
use std::path::PathBuf;

/// The name of the file in a folder of images.
pub(crate) const FOLDER_FILE_NAME: &str = "classes.json";

const FILE: BesideFile = BesideFile {
    suffix: ".classes.json",
    begin: BEGIN,
    // A million names of 64 bytes.
    most_bytes: 1 << 26,
    content: "class names",
};

/// The bytes that every such file begins with.
const BEGIN: &str = r#"{"fuseloop":"classes","#;

const VERSION: u64 = 1;

/// The names of a dataset's classes, by the class numbers of its samples.
///
/// ```no_run
/// # let loader = fuseloop::Loader::open("photos")?.build()?;
/// let classes = loader.classes()?;
/// println!("class 0 is {}", classes.get(0).unwrap_or("unknown"));
/// for (number, name) in classes.iter() {
///     println!("{number}: {name}");
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassNames(BTreeMap<i64, String>);

impl ClassNames {
    /// Returns the name of the class of this number.
    #[must_use]
    pub fn get(&self, number: i64) -> Option<&str> {
        self.0.get(&number).map(String::as_str)
    }

    /// Reads names from a file: a text with one name per line, in the order of their numbers from 0, or the
    /// `NAME.classes.json` of a dataset.
    ///
    /// # Errors
    ///
    /// If the file can't be read, has no names, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let bad = |reason: String| {
            let file = Escaped(&path.to_string_lossy()).to_string();
            Error::boxed(format!("{file}: {reason}").into(), ErrorKind::Parameter)
        };
        let table = ClassTable::read(path).map_err(|error| bad(error.to_string()))?;
        let names = match table {
            Some(table) => table.names(),
            None => {
                let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
                let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
                let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
                if lines.first().is_some_and(|line| line.starts_with(['{', '['])) {
                    return Err(bad("JSON of another program: write one name per line".into()));
                }
                (0..).zip(lines.into_iter().map(str::to_owned)).collect()
            }
        };
        let mut seen = BTreeSet::new();
        if let Some((_, name)) = names.iter().find(|(_, name)| !seen.insert(*name)) {
            return Err(bad(format!("two classes are called {:?}", Escaped(name).to_string())));
        }
        if seen.is_empty() {
            return Err(bad("no names of classes: write one per line".into()));
        }
        Ok(names)
    }

    /// Returns numbers and names, in the order of the numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (i64, &str)> {
        self.0.iter().map(|(&number, name)| (number, &**name))
    }
}

/// Returns the error of a number that means different classes in datasets that are joined. Both classes have the names of
/// their datasets; `other` is the number of the second class in the dataset that comes first, if it has the class.
fn other_class(
    number: i64,
    (before, first): (&str, &str),
    (here, second): (&str, &str),
    other: Option<i64>,
) -> Error {
    let (before, here) = (Escaped(before).to_string(), Escaped(here).to_string());
    let elsewhere = other
        .map_or_else(String::new, |number| format!(" ({here:?} is class {number} in {first})"));
    fail!(
        Format,
        "class {number} is {before:?} in {first} and {here:?} in {second}{elsewhere}: one number must mean one class in \
         datasets that are joined; open folders and tables with the same `classes`, write files of samples that were numbered \
         so, or change the labels of one by a `map`"
    )
}

/// Returns the class names of datasets that are joined, each with the name of the dataset; `None` if one of them has no
/// names.
///
/// # Errors
///
/// Fails if one number means different classes in two of them.
pub(super) fn joined(
    datasets: impl IntoIterator<Item = (String, Option<ClassNames>)>,
) -> Result<Option<ClassNames>, Error> {
    let (mut all, mut first) = (BTreeMap::<i64, (String, usize)>::new(), Vec::<String>::new());
    let mut is_named = true;
    for (dataset, names) in datasets {
        let Some(ClassNames(names)) = names else {
            is_named = false;
            continue;
        };
        for (number, class) in names {
            match all.get(&number) {
                Some((known, _)) if *known == class => {}
                Some((known, of)) => {
                    let mut of_same = all.iter().filter(|(_, (_, from))| from == of);
                    let other = of_same.find(|(_, (name, _))| *name == class);
                    let other = other.map(|(number, _)| *number);
                    let (before, here) = ((&**known, &*first[*of]), (&*class, &*dataset));
                    return Err(other_class(number, before, here, other));
                }
                None => {
                    all.insert(number, (class, first.len()));
                }
            }
        }
        first.push(dataset);
    }
    let names = || all.into_iter().map(|(number, (class, _))| (number, class)).collect();
    Ok((is_named && !first.is_empty()).then(names))
}

impl FromIterator<(i64, String)> for ClassNames {
    fn from_iter<I: IntoIterator<Item = (i64, String)>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

/// One class of a file of class names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassEntry {
    pub(crate) number: i64,
    pub(crate) name: Option<String>,
    /// The class's folder, if it is not called by the class's name.
    pub(crate) folder: Option<String>,
}

/// The content of a file of class names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassTable(pub(crate) Vec<ClassEntry>);

impl ClassTable {
    /// Returns a table of names, without folders.
    #[cfg(any(test, feature = "write"))]
    pub(crate) fn of(names: &ClassNames) -> Self {
        let class = |(number, name): (i64, &str)| ClassEntry {
            number,
            name: Some(name.to_owned()),
            folder: None,
        };
        Self(names.iter().map(class).collect())
    }

    /// Returns the names.
    pub(crate) fn names(&self) -> ClassNames {
        self.0.iter().filter_map(|class| Some((class.number, class.name.clone()?))).collect()
    }

    /// Returns the numbers of the classes by their folders.
    pub(crate) fn folders(&self) -> BTreeMap<&str, i64> {
        let folders = self.0.iter().filter_map(|class| {
            let folder = class.folder.as_deref().or(class.name.as_deref());
            Some((folder?, class.number))
        });
        folders.collect()
    }

    /// Reads a file of class names; `None` if there is none at this path.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read or is damaged.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Error> {
        FILE.read(path, Self::parse)
    }

    /// Parses the text of a file of class names.
    ///
    /// # Errors
    ///
    /// Fails if the text is of another form or version; the error says why.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if value["version"] != VERSION {
            let found = value["version"].to_string();
            let found = shown(&found);
            return Err(format!("class names of version {found}, this release reads {VERSION}"));
        }
        let classes = value["classes"].as_array().ok_or("the list of classes is missing")?;
        let class = |class: &Value| {
            let text = |key: &str| match class.get(key) {
                None => Some(None),
                Some(value) => value.as_str().map(|text| Some(text.to_owned())),
            };
            Some(ClassEntry {
                number: class.get("number")?.as_i64()?,
                name: text("name")?,
                folder: text("folder")?,
            })
        };
        let classes = classes.iter().map(|value| {
            class(value).ok_or_else(|| {
                let found = value.to_string();
                format!("{} is not a class: expected a number and a name", shown(&found))
            })
        });
        let table = Self(classes.collect::<Result<_, _>>()?);
        let (mut numbers, mut folders) = (BTreeSet::new(), BTreeSet::new());
        for ClassEntry { number, name, folder } in &table.0 {
            if !numbers.insert(number) {
                return Err(format!("class {number} is listed twice"));
            }
            if let Some(folder) = folder.as_ref().or(name.as_ref()).filter(|f| !folders.insert(*f))
            {
                return Err(format!(
                    "two classes are in the folder {:?}",
                    Escaped(&shown(folder)).to_string()
                ));
            }
        }
        Ok(table)
    }

    /// Returns the file's bytes.
    #[cfg(any(test, feature = "write"))]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{BEGIN}\"version\":{VERSION},\"classes\":[\n");
        for (index, ClassEntry { number, name, folder }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ",\n" };
            text.push_str(&format!("{separator}{{\"number\":{number}"));
            for (key, value) in [("name", name), ("folder", folder)] {
                if let Some(value) = value {
                    text.push_str(&format!(",\"{key}\":{}", serde_json::json!(value)));
                }
            }
            text.push('}');
        }
        text.push_str("\n]}\n");
        text.into_bytes()
    }
}

/// Returns whether there is a file of class names in our own format at this path.
#[cfg(feature = "write")]
pub(crate) fn is_class_file(path: &Path) -> bool {
    FILE.is_at(path)
}

/// Returns the class names of other shards that readers would take for those of these.
#[cfg(feature = "write")]
pub(crate) fn classes_of_others(
    dataset: (&Path, &Path),
    is_shard: impl Fn(&str) -> bool,
) -> Option<PathBuf> {
    FILE.of_others(dataset, is_shard)
}

/// Returns the path of the class names of the dataset at this path: `x.beton.classes.json`. The path of
/// shards is their template, with a number in braces: `x-{000}.tar`.
#[cfg(any(test, feature = "write"))]
pub(crate) fn classes_beside(path: &Path) -> PathBuf {
    FILE.path(path)
}

/// Reads the class names that are stored beside a dataset of a single file.
///
/// # Errors
///
/// Fails if the file of the names can't be read or is damaged.
pub(super) fn names_beside_file(file: Option<&Location>) -> Result<Option<ClassNames>, BoxError> {
    let Some(file) = file else { return Ok(None) };
    Ok(FILE.read_beside(file, ClassTable::parse)?.map(|table| table.names()))
}

/// Reads the class names that are stored beside shards; see [`BesideFile::of_shards`].
///
/// # Errors
///
/// Fails if the file of the names is damaged.
#[cfg_attr(
    not(any(feature = "tar", feature = "tfrecord")),
    allow(dead_code, reason = "no format that this build reads has shards")
)]
pub(super) fn names_beside_shards<'a>(
    shards: impl Iterator<Item = &'a Location>,
) -> Result<Option<ClassNames>, BoxError> {
    Ok(joined(names_beside_each(shards)?)?)
}

/// Returns the names beside each shard, or those that all have in common.
#[cfg_attr(
    not(any(feature = "tar", feature = "tfrecord")),
    allow(dead_code, reason = "no format that this build reads has shards")
)]
fn names_beside_each<'a>(
    shards: impl Iterator<Item = &'a Location>,
) -> Result<Vec<(String, Option<ClassNames>)>, BoxError> {
    let shards: Vec<&Location> = shards.collect();
    let common = FILE.of_shards(shards.iter().copied(), ClassTable::parse)?;
    if common.is_some() || shards.len() < 2 {
        return Ok(vec![(String::new(), common.map(|table| table.names()))]);
    }
    let of_each = FILE.of_each(&shards, ClassTable::parse)?.into_iter();
    Ok(of_each.map(|(shard, table)| (shard, table.map(|table| table.names()))).collect())
}

/// Refuses shards beside which one number means different classes. Remote shards of one dataset are asked for nothing.
/// Names that can't be read are an error where they are asked for.
///
/// # Errors
///
/// Fails if one number means different classes in two of them.
#[cfg_attr(
    not(any(feature = "tar", feature = "tfrecord")),
    allow(dead_code, reason = "no format that this build reads has shards")
)]
pub(super) fn check_shards<'a>(
    shards: impl Iterator<Item = &'a Location> + Clone,
) -> Result<(), Error> {
    let is_remote = |shard: &Location| matches!(shard, Location::Url(_));
    if shards.clone().any(is_remote) && beside::have_one_template(shards.clone()) {
        return Ok(());
    }
    names_beside_each(shards).map_or(Ok(()), |named| joined(named).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn class(number: i64, name: Option<&str>, folder: Option<&str>) -> ClassEntry {
        ClassEntry { number, name: name.map(str::to_owned), folder: folder.map(str::to_owned) }
    }

    #[test]
    fn a_table_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.beton.classes.json");
        assert_eq!(ClassTable::read(&path).unwrap(), None);
        let table = ClassTable(vec![
            class(600, Some("ape"), None),
            class(601, Some("a/b\n\"ü"), Some("00601")),
            class(-7, None, Some("x")),
        ]);
        fs::write(&path, table.to_bytes()).unwrap();
        assert_eq!(ClassTable::read(&path).unwrap(), Some(table.clone()));
        let text = String::from_utf8(table.to_bytes()).unwrap();
        assert_eq!(text.lines().nth(1), Some("{\"number\":600,\"name\":\"ape\"},"));
        let names = table.names();
        assert_eq!((names.iter().len(), names.get(600), names.get(-7)), (2, Some("ape"), None));
        assert_eq!(table.folders(), BTreeMap::from([("ape", 600), ("00601", 601), ("x", -7)]));
        let beton = Location::Path(dir.path().join("x.beton"));
        assert_eq!(names_beside_file(Some(&beton)).unwrap(), Some(names));
    }

    #[test]
    fn a_strangers_file_is_passed_over_and_a_damaged_one_of_ours_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FOLDER_FILE_NAME);
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            ClassTable::read(&path).map_err(|error| error.to_string())
        };
        for stranger in ["", "{\"cat\": 0}", "[]", "{ \"fuseloop\":\"classes\"}"] {
            assert_eq!(read(stranger), Ok(None), "{stranger}");
        }
        let ours = |rest: &str| read(&format!("{BEGIN}{rest}")).unwrap_err();
        assert!(ours("\"version\":2}").contains("version 2, this release reads 1"));
        assert!(ours("\"version\":1").contains("EOF"));
        assert!(ours("\"version\":1}").contains("list of classes is missing"));
        let list = |classes: &str| ours(&format!("\"version\":1,\"classes\":[{classes}]}}"));
        assert!(list("{\"name\":\"a\"}").contains("expected a number and a name"));
        assert!(list("{\"number\":1,\"name\":2}").contains("expected a number and a name"));
        assert!(list("{\"number\":1},{\"number\":1}").contains("class 1 is listed twice"));
        let twice = "{\"number\":1,\"name\":\"a\"},{\"number\":2,\"folder\":\"a\"}";
        assert!(list(twice).contains("two classes are in the folder \"a\""));
        assert!(list(twice).contains("classes.json: ") && list(twice).contains("delete it"));
    }

    #[test]
    fn shards_find_the_names_of_their_template_and_of_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| Location::Path(dir.path().join(name));
        let names: ClassNames = [(3, "ape".to_owned())].into_iter().collect();
        for template in [
            "cifar10.tar",
            "a-{000}.tar",
            "b-{0}.tar",
            "c-{00}-v2.tar",
            "d-{00000}-of-{N}.tfrecord",
        ] {
            let path = classes_beside(&dir.path().join(template));
            fs::write(path, ClassTable::of(&names).to_bytes()).unwrap();
        }
        let found = |shards: &[&str]| {
            let shards: Vec<Location> = shards.iter().map(|name| at(name)).collect();
            names_beside_shards(shards.iter()).unwrap().is_some()
        };
        for shards in [
            &["cifar10.tar"][..],
            &["a-000.tar", "a-001.tar"],
            &["a-017.tar"],
            &["a-1017.tar.gz"],
            &["b-7.tar", "b-12.tar"],
            &["c-01-v2.tar"],
            // Both have the same names.
            &["a-000.tar", "b-0.tar"],
            &["d-00003-of-00016.tfrecord"],
        ] {
            assert!(found(shards), "{shards:?}");
        }
        for shards in [
            &["cifar100.tar"][..],
            &["cifar10.tar", "cifar100.tar"],
            &["a-00.tar"],
            &["a-0000.tar"],
            &["c-01-v3.tar"],
            &["x.tar"],
            &[],
        ] {
            assert!(!found(shards), "{shards:?}");
        }
        // The signature of an address holds for no other object, so none is asked for.
        let signed = [Location::Url("https://host/a-000.tar?signature=x".into())];
        assert_eq!(names_beside_shards(signed.iter()).unwrap(), None);
    }

    #[test]
    fn shards_of_two_datasets_must_mean_the_same_by_a_number() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| Location::Path(dir.path().join(name));
        let write = |template: &str, classes: &[&str]| {
            let names = (0..).zip(classes.iter().map(|name| (*name).to_owned())).collect();
            let path = classes_beside(&dir.path().join(template));
            fs::write(path, ClassTable::of(&names).to_bytes()).unwrap();
        };
        write("a.tar", &["cat", "dog"]);
        write("b-{000}.tar", &["dog", "cat"]);
        write("c10.tar", &["cat", "dog"]);
        write("c100.tar", &["cat", "dog", "emu"]);
        let joined = |shards: &[&str]| {
            let shards: Vec<Location> = shards.iter().map(|name| at(name)).collect();
            check_shards(shards.iter()).map_err(|error| error.to_string())?;
            let names = names_beside_shards(shards.iter()).unwrap();
            Ok::<_, String>(names.map(|names| names.iter().len()))
        };
        let error = joined(&["a.tar", "b-000.tar", "b-001.tar"]).unwrap_err();
        assert!(
            error.starts_with("class 0 is \"cat\" in ")
                && error.contains("a.tar and \"dog\" in ")
                && error.contains("b-000.tar (\"dog\" is class 1 in "),
            "{error}"
        );
        assert_eq!(joined(&["a.tar", "c10.tar"]), Ok(Some(2)));
        assert_eq!(joined(&["c10.tar", "c100.tar"]), Ok(Some(3)), "they have a template in common");
        assert_eq!(joined(&["a.tar", "x.tar", "c10.tar"]), Ok(None));
        assert!(joined(&["x.tar", "a.tar", "b-000.tar"]).is_err());
        assert_eq!(joined(&["x.tar", "y.tar"]), Ok(None));
        fs::write(classes_beside(&dir.path().join("a.tar")), BEGIN).unwrap();
        assert!(check_shards([at("a.tar"), at("b-000.tar")].iter()).is_ok());
    }

    #[test]
    fn names_are_put_together_unless_they_differ() {
        let names = |pairs: &[(i64, &str)]| -> ClassNames {
            pairs.iter().map(|&(number, name)| (number, name.to_owned())).collect()
        };
        let (a, b) = (names(&[(0, "ape"), (1, "bee")]), names(&[(1, "bee"), (2, "cow")]));
        let both = names(&[(0, "ape"), (1, "bee"), (2, "cow")]);
        let c = names(&[(0, "cow")]);
        let parts = |parts: [(&str, Option<&ClassNames>); 3]| {
            joined(parts.map(|(dataset, names)| (dataset.to_owned(), names.cloned())))
        };
        assert_eq!(
            parts([("a", Some(&a)), ("b", Some(&b)), ("a", Some(&a))]),
            Ok(Some(both.clone()))
        );
        assert_eq!(parts([("a", Some(&a)), ("x", None), ("b", Some(&b))]), Ok(None));
        let error = parts([("b", Some(&b)), ("a", Some(&a)), ("c", Some(&c))]).unwrap_err();
        assert!(
            error.to_string().starts_with("class 0 is \"ape\" in a and \"cow\" in c: one number")
        );
        assert_eq!(joined([]), Ok(None));
        let error = parts([("a", Some(&a)), ("b", Some(&names(&[(1, "wasp")]))), ("x", Some(&a))]);
        assert!(error.is_err());
    }
}
