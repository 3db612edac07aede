//! Lists of labelled image files, from a folder or from a table of paths.
//!
//! | what is given             | samples                          | class                           |
//! |---------------------------|----------------------------------|---------------------------------|
//! | a folder with sub-folders | the images below each sub-folder | the sub-folder's name           |
//! | a folder without them     | its images                      | their name before the first `_` |
//! | a `.csv` or `.tsv` file   | its lines `path,label`           | the label                       |
//!
//! Classes are numbered from 0 in the byte order of their names, as torchvision's `ImageFolder` numbers
//! them, unless the folder has a `classes.json` ([`numbers.rs`](super::numbers)). A sub-folder without
//! images keeps its number. Samples are in the order of `ImageFolder` ([`walk.rs`](super::walk)), or of
//! the table's lines. The order does not depend on the file system.
//!
//! An image is a regular file whose extension is one of `image_names.rs` in any case. Everything else is
//! counted in [`ImageList::ignored`], including names that begin with a dot. Links are followed unless
//! [`Links`] says otherwise; a directory that contains itself is left out.

use super::error::ListError;
use super::layout::{self, ListedFiles};
use super::links::{LinkCounts, Links};
use super::numbers::ClassNumbers;
use super::table::{self, InFolder, PathAndLabel, TableColumn};
use super::walk::Rules;
use crate::cancel::CancelFlag;
use crate::source::{ClassNames, image_names};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of ignored paths that are stored. All of them are counted.
const MAX_STORED: usize = 100;

/// An image file and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labelled {
    /// The image file.
    pub path: PathBuf,
    /// The number of its class.
    pub label: i64,
}

/// The samples of a dataset of labelled image files, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ImageList {
    /// The samples.
    pub images: Vec<Labelled>,
    /// Names of the classes in the order of their numbers, escaped where they are not printable.
    /// Empty if a table gave numbers.
    pub classes: Vec<String>,
    /// Names of the classes by their numbers; `None` if a table gave numbers.
    pub class_names: Option<ClassNames>,
    /// Files that are not samples, and why not.
    pub ignored: Ignored,
    /// How the links of a folder were treated.
    pub links: LinkCounts,
}

/// Files that are not samples: their number, and the first of them.
///
/// ```
/// use fuseloop::source::Ignored;
///
/// fn print(ignored: &Ignored) {
///     println!("{} files are no samples", ignored.count);
///     for (path, reason) in &ignored.first {
///         println!("{}: {reason}", path.display());
///     }
/// }
/// # print(&Ignored { count: 1, first: vec![("photos/notes.txt".into(), "not an image")] });
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored {
    /// The number of such files.
    pub count: u64,
    /// The first 100: path and reason.
    pub first: Vec<(PathBuf, &'static str)>,
}

impl Ignored {
    pub(crate) fn add(&mut self, path: PathBuf, reason: &'static str) {
        self.count += 1;
        if self.first.len() < MAX_STORED {
            self.first.push((path, reason));
        }
    }

    /// Appends the files of another list.
    pub(super) fn append(&mut self, other: Self) {
        self.count += other.count;
        let room = MAX_STORED - self.first.len();
        self.first.extend(other.first.into_iter().take(room));
    }
}

impl ImageList {
    /// Lists a folder of images, or reads a `.csv` or `.tsv` table of them.
    ///
    /// # Errors
    ///
    /// See [`ListError`].
    pub(crate) fn open(path: &Path, links: Links, cancel: &CancelFlag) -> Result<Self, ListError> {
        let is_dir = fs::metadata(path).map_err(ListError::io(path))?.is_dir();
        match table::kind_of(path) {
            _ if is_dir && InFolder::find(path, links)?.is_some() => Err(not_a_list(
                path,
                "a folder whose metadata.jsonl or metadata.csv lists the images",
            )),
            _ if is_dir => Self::from_folder(path, links, cancel),
            Some("csv" | "tsv") => Self::from_table(path),
            Some(_) => Err(not_a_list(path, "a .jsonl table")),
            None => Err(not_a_list(path, "a file that is no table by its name")),
        }
    }

    /// Lists the images of a folder, in the order of [`Folder`](super::Folder).
    ///
    /// # Errors
    ///
    /// Fails if the folder or one below it can't be listed, if there is no image, or if a name has no
    /// class.
    pub(crate) fn from_folder(
        dir: &Path,
        links: Links,
        cancel: &CancelFlag,
    ) -> Result<Self, ListError> {
        let real = fs::canonicalize(dir).map_err(ListError::io(dir))?;
        let rules = Rules::new(other_than_image, links, vec![real]).cancel(cancel);
        let ListedFiles { names, mut labels, classes, ignored, links } =
            layout::of_folder(dir, &rules)?;
        let numbered = ClassNumbers::in_folder(dir, &classes, &labels)?;
        numbered.relabel(&mut labels);
        let paths = (0..names.len()).filter_map(|index| names.path(index));
        let images = paths
            .zip(labels)
            .map(|(path, label)| Labelled { path: dir.join(path), label })
            .collect();
        let ClassNumbers { names: class_names, shown: classes, .. } = numbered;
        Ok(Self { images, classes, class_names, ignored, links })
    }

    /// Reads a table of images. Each line has a path and a label, separated by a tab if the file is
    /// called `.tsv` and by a comma otherwise.
    ///
    /// The first line is a header if its path has no `.`. Paths are relative to the table's directory.
    /// Labels are numbers if all of them are, and names of classes otherwise, as in [`Folder`](super::Folder). The
    /// existence of the files is not checked.
    ///
    /// # Errors
    ///
    /// Fails if the table can't be read, if a line does not have two columns, if labels are numbers and not whole, if
    /// a label is empty or some are numbers and some names, or if there is no line.
    pub(crate) fn from_table(table: &Path) -> Result<Self, ListError> {
        let rows = table::pairs(table)?;
        let dir = table.parent().unwrap_or(Path::new(""));
        let cells: Vec<(u64, &Json)> = rows.iter().map(|row| (row.line, &row.label)).collect();
        let column = table::label_column(&cells, true);
        let bad = |(line, reason)| ListError::Table { path: table.to_owned(), line, reason };
        let (TableColumn::Int(labels), numbered) = column.map_err(bad)? else {
            return Err(not_whole(table, &rows));
        };
        let images = rows
            .iter()
            .zip(labels)
            .map(|(row, label)| Labelled { path: dir.join(&row.path), label })
            .collect();
        let ClassNumbers { names: class_names, shown: classes, .. } = numbered;
        Ok(Self { images, classes, class_names, ..Self::default() })
    }
}

/// Returns the error for a dataset that is no list of images and labels.
fn not_a_list(path: &Path, found: &'static str) -> ListError {
    ListError::NotAList { path: path.to_owned(), found }
}

/// Returns the error for a table whose labels are numbers that are not whole.
fn not_whole(table: &Path, rows: &[PathAndLabel]) -> ListError {
    let label = |row: &PathAndLabel| row.label.as_str().unwrap_or_default().to_owned();
    let found = rows.iter().find(|row| label(row).parse::<i64>().is_err());
    let (line, label) = found.map(|row| (row.line, label(row))).unwrap_or_default();
    let reason = format!(
        "label {label:?} is not a whole number below 2^63: write whole numbers or names, or use `convert`, which stores \
         such labels as floats"
    );
    ListError::Table { path: table.to_owned(), line, reason }
}

/// Numbers names in byte order. Returns the number of each name, and the classes.
pub(super) fn number_names<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
) -> (Vec<i64>, ClassNumbers) {
    let classes: BTreeSet<&str> = names.clone().collect();
    let number: BTreeMap<&str, i64> = classes.iter().copied().zip(0..).collect();
    let labels = names.map(|name| number[name]).collect();
    let classes: Vec<String> = classes.into_iter().map(str::to_owned).collect();
    (labels, ClassNumbers::by_order(&classes))
}

/// Returns why a file is not a sample; `None` if it has the name of an image.
pub(super) fn other_than_image(path: &Path) -> Option<&'static str> {
    image_names::why_not(path.extension().and_then(OsStr::to_str))
}

#[cfg(feature = "write")]
pub(crate) fn is_jpeg_name(path: &Path) -> bool {
    let is = |ext: &OsStr| ext.eq_ignore_ascii_case("jpg") || ext.eq_ignore_ascii_case("jpeg");
    path.extension().is_some_and(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        dir
    }

    fn rows(list: &ImageList, dir: &Path) -> Vec<(String, i64)> {
        let relative = |path: &Path| path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        list.images.iter().map(|image| (relative(&image.path), image.label)).collect()
    }

    fn row(path: &str, label: i64) -> (String, i64) {
        (path.to_owned(), label)
    }

    #[test]
    fn sub_folders_are_classes_in_byte_order() {
        let dir = tree(&[
            "b/2.jpg",
            "b/10.JPEG",
            "B/x.Jpg",
            "a/deep/er/1.jpeg",
            "a/0.jpg",
            "a/notes.txt",
            "b/.hidden.jpg",
            "stray.jpg",
        ]);
        fs::create_dir(dir.path().join("aa")).unwrap();
        let list =
            ImageList::from_folder(dir.path(), Links::Follow, &CancelFlag::default()).unwrap();
        assert_eq!(list.classes, ["B", "a", "aa", "b"]);
        let want = [
            row("B/x.Jpg", 0),
            row("a/0.jpg", 1),
            row("a/deep/er/1.jpeg", 1),
            row("b/10.JPEG", 3),
            row("b/2.jpg", 3),
        ];
        assert_eq!(rows(&list, dir.path()), want);
        let reasons: Vec<_> = list.ignored.first.iter().map(|(_, reason)| *reason).collect();
        assert_eq!(
            reasons,
            [
                "beside the class folders, not in one",
                image_names::why_not(None).unwrap(),
                "its name begins with a dot"
            ]
        );
    }

    #[test]
    fn a_flat_folder_takes_the_class_before_the_first_underscore() {
        let dir = tree(&["n02_b_c.JPEG", "n01_z.jpg", "n01_a.jpg", "n010_a.jpg"]);
        let list =
            ImageList::from_folder(dir.path(), Links::Follow, &CancelFlag::default()).unwrap();
        assert_eq!(list.classes, ["n01", "n010", "n02"]);
        let want = [
            row("n01_a.jpg", 0),
            row("n01_z.jpg", 0),
            row("n010_a.jpg", 1),
            row("n02_b_c.JPEG", 2),
        ];
        assert_eq!(rows(&list, dir.path()), want);

        let dir = tree(&["nothing.jpg"]);
        let error = ImageList::from_folder(dir.path(), Links::Follow, &CancelFlag::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("nothing.jpg\": no class"), "{error}");
    }

    #[test]
    fn a_folder_without_images_is_refused() {
        let dir = tree(&["a/1.gif", "a/2.txt"]);
        let error = ImageList::from_folder(dir.path(), Links::Follow, &CancelFlag::default())
            .unwrap_err()
            .to_string();
        let names = image_names::LISTED;
        assert!(error.ends_with(&format!("no {names} file found (2 other names)")), "{error}");
        assert!(matches!(
            ImageList::open(&dir.path().join("no"), Links::Follow, &CancelFlag::default()),
            Err(ListError::Io { .. })
        ));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_loops_of_them_end() {
        use std::os::unix::fs::symlink;
        let dir = tree(&["a/1.jpg"]);
        let at = |name: &str| dir.path().join(name);
        symlink(at("a/1.jpg"), at("a/2.jpg")).unwrap();
        symlink(dir.path(), at("a/loop")).unwrap();
        symlink(at("nowhere"), at("a/3.jpg")).unwrap();
        let other = tree(&["x.jpg"]);
        symlink(other.path(), at("b")).unwrap();
        let list =
            ImageList::from_folder(dir.path(), Links::Follow, &CancelFlag::default()).unwrap();
        assert_eq!(
            rows(&list, dir.path()),
            [row("a/1.jpg", 0), row("a/2.jpg", 0), row("b/x.jpg", 1)]
        );
        assert_eq!(list.ignored.count, 2);
    }

    /// The fields of the table would be left out.
    #[test]
    fn a_folder_with_a_table_is_no_list() {
        let dir = tree(&["n01_a.jpg", "n02_b.jpg"]);
        let open = || ImageList::open(dir.path(), Links::Follow, &CancelFlag::default());
        assert_eq!(open().unwrap().classes, ["n01", "n02"]);
        fs::write(dir.path().join("metadata.jsonl"), "{\"file_name\": \"n01_a.jpg\"}\n").unwrap();
        assert!(matches!(open(), Err(ListError::NotAList { .. })));
    }

    #[test]
    fn a_file_that_is_no_list_by_its_name_is_refused() {
        let dir = tree(&["x.tar", "x.tfrecord", "x.beton", "x", "x.jsonl"]);
        for name in ["x.tar", "x.tfrecord", "x.beton", "x", "x.jsonl"] {
            let path = dir.path().join(name);
            let error = ImageList::open(&path, Links::Follow, &CancelFlag::default()).unwrap_err();
            assert!(matches!(error, ListError::NotAList { .. }), "{error}");
            let error = error.to_string();
            assert!(error.contains(name) && error.contains("`convert` writes"), "{error}");
        }
    }

    #[cfg(feature = "tables")]
    #[test]
    fn a_table_gives_numbers_or_names() {
        let dir = tree(&[]);
        let read = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            ImageList::open(&path, Links::Follow, &CancelFlag::default())
        };
        let list = read("t.csv", "path,label\na.jpg,7\n\"b,c.jpg\", -1\n").unwrap();
        assert_eq!(rows(&list, dir.path()), [row("a.jpg", 7), row("b,c.jpg", -1)]);
        assert!(list.classes.is_empty());

        let list = read("t.tsv", "a.jpg\tdog\nb.jpg\tcat\nc.jpg\tdog\n").unwrap();
        assert_eq!(rows(&list, dir.path()), [row("a.jpg", 1), row("b.jpg", 0), row("c.jpg", 1)]);
        assert_eq!(list.classes, ["cat", "dog"]);

        let error = read("t.csv", "path,label\na.jpg,1\nb.jpg,3.0\n").unwrap_err().to_string();
        assert!(error.contains("line 3: label \"3.0\" is not a whole number"), "{error}");
        let error = read("t.csv", "a.jpg,2\nb.jpg,\n").unwrap_err().to_string();
        assert!(error.contains("line 2: the label is empty"), "{error}");
        let error = read("t.csv", "a.jpg,2\nb.jpg,1O\n").unwrap_err().to_string();
        assert!(error.contains("line 2: label \"1O\" is a name"), "{error}");

        let error = read("t.csv", "a.jpg,1\nb.jpg\n").unwrap_err().to_string();
        assert!(
            error.ends_with(
                "line 2: 1 columns, expected path and label: quote a value that has a comma"
            ),
            "{error}"
        );
        assert!(matches!(read("t.csv", "path,label\n"), Err(ListError::EmptyTable { .. })));
        fs::write(dir.path().join("bad.csv"), b"\xff.jpg,1\n").unwrap();
        assert!(matches!(
            ImageList::open(&dir.path().join("bad.csv"), Links::Follow, &CancelFlag::default()),
            Err(ListError::Csv { .. })
        ));
    }
}
