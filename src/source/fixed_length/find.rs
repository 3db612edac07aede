//! Finds the files of MNIST and CIFAR by their names.
//!
//! ```text
//! mnist/  FashionMNIST/raw/         train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-...
//!                                   or train-images.idx3-ubyte; either with .gz
//! gzip/                             emnist-letters-train-images-idx3-ubyte, ...: a name before it
//! cifar-10-batches-bin/             data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt
//! cifar-100-binary/                 train.bin, test.bin, fine_label_names.txt, coarse_label_names.txt
//! ```
//!
//! A folder whose only sub-folder is one of these stands for it: `data/` for `data/MNIST/raw/`.

use crate::error::{Error, fail};
use crate::source::file_pool;
use crate::source::image_names::{IMAGE_EXTENSIONS, has_extension};
use std::fs::{self, DirEntry};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The most entries of a folder that is looked through. Folders of these datasets have fewer: EMNIST's has 60.
const MOST_ENTRIES: usize = 256;

/// The levels of folders around those with the files: `data/MNIST/raw`.
const LEVELS: usize = 2;

/// The form of a dataset's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Idx,
    Cifar10,
    Cifar100,
    /// CIFAR's files for Python.
    Pickles,
}

/// The training batches of CIFAR-10.
pub(super) const TRAIN_BATCHES: [&str; 5] = [
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
];
const TEST_BATCH: &str = "test_batch.bin";
pub(super) const TRAIN: &str = "train.bin";
const TEST: &str = "test.bin";
pub(super) const FINE_NAMES: &str = "fine_label_names.txt";

/// The name of an idx file: `train-images-idx3-ubyte.gz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdxName<'a> {
    /// The name before `idx` and the character before that: `train-images`.
    pub(super) stem: &'a str,
    pub(super) separator: char,
    /// The number of dimensions: 3.
    pub(super) dims: u8,
    pub(super) is_packed: bool,
}

impl<'a> IdxName<'a> {
    /// Parses the name of a file; `None` if it is not that of an idx file.
    pub(super) fn parse(name: &'a str) -> Option<Self> {
        let plain = name.strip_suffix(".gz");
        let (before, after) = plain.unwrap_or(name).rsplit_once("idx")?;
        let (dims, element) = after.split_once('-')?;
        let separator = before.chars().next_back().filter(|c| matches!(c, '-' | '.'))?;
        let stem = &before[..before.len() - 1];
        let is_word = !element.is_empty() && element.bytes().all(|b| b.is_ascii_alphanumeric());
        let dims = dims.parse().ok().filter(|_| dims.len() == 1)?;
        let is_packed = plain.is_some();
        (is_word && !stem.is_empty()).then_some(Self { stem, separator, dims, is_packed })
    }

    /// Returns whether the file has images of the training split.
    fn is_of_training(&self) -> bool {
        self.stem.ends_with("train-images")
    }
}

/// Returns whether this is the name of a file of one of these datasets. `train.bin` and `test.bin` are, if the
/// names of CIFAR-100's classes are beside them.
pub(in crate::source) fn is_file(path: &Path) -> bool {
    form_of_file(path).is_some()
}

/// Returns the form that the name of a file tells.
pub(super) fn form_of_file(path: &Path) -> Option<Form> {
    let name = path.file_name()?.to_str()?;
    if IdxName::parse(name).is_some() {
        return Some(Form::Idx);
    }
    if TRAIN_BATCHES.contains(&name) || name == TEST_BATCH {
        return Some(Form::Cifar10);
    }
    let is_cifar_100 = [TRAIN, TEST].contains(&name) && path.with_file_name(FINE_NAMES).is_file();
    is_cifar_100.then_some(Form::Cifar100)
}

/// Returns whether a folder has the files of one of these datasets, or stands for a folder that has.
pub(in crate::source) fn is_folder(dir: &Path) -> bool {
    find(dir).is_some()
}

/// A folder with the files of a dataset.
pub(super) struct Found {
    pub(super) dir: PathBuf,
    pub(super) form: Form,
    entries: Entries,
}

/// Finds the folder with the files of a dataset: this one, or the only one in it.
pub(super) fn find(dir: &Path) -> Option<Found> {
    let mut dir = dir.to_owned();
    for _ in 0..=LEVELS {
        let entries = Entries::of(&dir)?;
        if let Some(form) = entries.form(&dir) {
            return Some(Found { dir, form, entries });
        }
        let [only] = &entries.dirs[..] else { return None };
        if entries.has_image() {
            return None;
        }
        dir.push(only);
    }
    None
}

impl Found {
    /// Returns the name of the only file with the images of the training split. Where it is there in several
    /// forms, the plain one is taken, and the one with a `-`.
    ///
    /// # Errors
    ///
    /// Fails if there are none, or those of several datasets.
    pub(super) fn training_images(&self) -> Result<&str, Error> {
        let files = self.entries.files.iter();
        let names = files.filter_map(|file| Some((IdxName::parse(file)?, file)));
        let mut found: Vec<(IdxName<'_>, &String)> =
            names.filter(|(name, _)| name.is_of_training()).collect();
        found.sort_by_key(|(name, _)| (name.stem, name.is_packed, name.separator == '.'));
        let Some((first, file)) = found.first() else {
            let files = self.entries.files.iter();
            let other = files.filter(|file| {
                IdxName::parse(file).is_some_and(|name| name.stem.ends_with("images"))
            });
            let cure = other.min().map_or_else(String::new, |other| {
                format!("; to read the test split, open {}", self.dir.join(other).display())
            });
            return Err(fail!(
                NotFound,
                "the file is missing: a folder is opened as its training split{cure}"
            )
            .at(self.dir.join("train-images-idx3-ubyte")));
        };
        let mut stems: Vec<&str> = found.iter().map(|(name, _)| name.stem).collect();
        stems.dedup();
        if stems.len() > 1 {
            let stems = stems.join(", ");
            return Err(fail!(
                Parameter,
                "the folder has several datasets ({stems}): open the file of one, such as {}",
                self.dir.join(file).display()
            )
            .at(&self.dir));
        }
        debug_assert_eq!(stems, [first.stem]);
        Ok(file)
    }

    /// Refuses a folder that has images beside the files of the dataset, because it could be meant as a folder
    /// of images too.
    pub(super) fn refuse_images(&self) -> Result<(), Error> {
        let mut dirs = self.entries.dirs.iter();
        let has_image = |dir: &String| {
            let files = fs::read_dir(self.dir.join(dir));
            let mut files = files.into_iter().flatten().flatten().take(MOST_ENTRIES);
            files.any(|entry| is_image(&entry.file_name().to_string_lossy()))
        };
        if !self.entries.has_image() && !dirs.any(has_image) {
            return Ok(());
        }
        let one = match self.form {
            Form::Idx => "train-images-idx3-ubyte",
            Form::Cifar10 => TRAIN_BATCHES[0],
            Form::Cifar100 | Form::Pickles => TRAIN,
        };
        let pattern = self.dir.join("**/*.png");
        Err(fail!(
            Parameter,
            "the folder has both files of {} and images: open a file by its own path ({}), or the images by a \
             pattern ({})",
            self.form.word(),
            self.dir.join(one).display(),
            pattern.display()
        )
        .at(&self.dir))
    }
}

impl Form {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Idx => "MNIST",
            Self::Cifar10 => "CIFAR-10",
            Self::Cifar100 => "CIFAR-100",
            Self::Pickles => "CIFAR for Python",
        }
    }
}

/// The names in a folder, without those that begin with a dot and those that are not UTF-8.
struct Entries {
    files: Vec<String>,
    dirs: Vec<String>,
}

impl Entries {
    /// Lists a folder; `None` if it can't be listed or has too many entries.
    fn of(dir: &Path) -> Option<Self> {
        let mut found = Self { files: vec![], dirs: vec![] };
        for (index, entry) in fs::read_dir(dir).ok()?.enumerate() {
            let entry = entry.ok().filter(|_| index < MOST_ENTRIES)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.starts_with('.') {
                continue;
            }
            match kind(&entry) {
                Some(Kind::File) => found.files.push(name),
                Some(Kind::Dir) => found.dirs.push(name),
                None => {}
            }
        }
        Some(found)
    }

    fn has(&self, name: &str) -> bool {
        self.files.iter().any(|file| file == name)
    }

    fn has_image(&self) -> bool {
        self.files.iter().any(|file| is_image(file))
    }

    /// Returns the form of the dataset whose files are here.
    fn form(&self, dir: &Path) -> Option<Form> {
        let is_images =
            |file: &String| IdxName::parse(file).is_some_and(|name| name.stem.ends_with("images"));
        if self.files.iter().any(is_images) {
            Some(Form::Idx)
        } else if TRAIN_BATCHES.iter().any(|name| self.has(name)) || self.has(TEST_BATCH) {
            Some(Form::Cifar10)
        } else if self.has(FINE_NAMES) && (self.has(TRAIN) || self.has(TEST)) {
            Some(Form::Cifar100)
        } else {
            let is_python = |files: [&str; 2]| {
                files.iter().all(|file| self.has(file)) && is_pickle(&dir.join(files[0]))
            };
            (is_python(["data_batch_1", "batches.meta"]) || is_python(["train", "meta"]))
                .then_some(Form::Pickles)
        }
    }
}

enum Kind {
    File,
    Dir,
}

/// Returns what an entry is, or the target of a link.
fn kind(entry: &DirEntry) -> Option<Kind> {
    let mut kind = entry.file_type().ok()?;
    if kind.is_symlink() {
        kind = fs::metadata(entry.path()).ok()?.file_type();
    }
    if kind.is_dir() { Some(Kind::Dir) } else { kind.is_file().then_some(Kind::File) }
}

fn is_image(name: &str) -> bool {
    has_extension(name, IMAGE_EXTENSIONS)
}

/// Returns whether a file begins like a pickle of protocol 2 or later.
fn is_pickle(path: &Path) -> bool {
    let mut first = [0; 2];
    let read = file_pool::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first[0] == 0x80 && first[1] >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_idx_files_are_parsed() {
        let parsed = |name| {
            let IdxName { stem, separator, dims, is_packed } = IdxName::parse(name)?;
            Some((stem, separator, dims, is_packed))
        };
        let images = "train-images";
        assert_eq!(parsed("train-images-idx3-ubyte"), Some((images, '-', 3, false)));
        assert_eq!(parsed("train-images.idx3-ubyte.gz"), Some((images, '.', 3, true)));
        assert_eq!(
            parsed("qmnist-test-labels-idx2-int"),
            Some(("qmnist-test-labels", '-', 2, false))
        );
        for name in [
            "idx3-ubyte",
            "-idx3-ubyte",
            "train-images-idx3-",
            "train-images-idx-ubyte",
            "train-images-idx33-ubyte",
            "train-images_idx3-ubyte",
            "train-images-idx3-ubyte.zip",
            "train-images-idx3-ubyte.gz.gz",
            "s-000.tar",
            "übidx3-ubyte",
            "",
        ] {
            assert_eq!(parsed(name), None, "{name}");
        }
    }
}
