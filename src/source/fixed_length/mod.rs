//! Datasets whose records all have the same length: MNIST's idx files and CIFAR's binary batches.
//!
//! ```text
//! MNIST      images: header | 28 x 28 bytes | 28 x 28 bytes ...     labels: header | byte | byte ...
//! CIFAR-10   label | 32 x 32 red | 32 x 32 green | 32 x 32 blue | label ...
//! CIFAR-100  coarse label | label | 32 x 32 red | ...
//! ```
//!
//! A value is read at an offset that its sample's number tells. Only a `.gz` file is unpacked into memory as a
//! whole. Images of MNIST are arrays of bytes `[28, 28]`; the planes of CIFAR's images become RGB pixels.

mod find;
mod idx;
#[cfg(test)]
mod tests;

pub(super) use find::{is_file, is_folder};

use super::columnar::{Column, Columnar, RecordFile, RecordFiles, Records, Stored, Values};
use super::file::FileBytes;
use super::file_pool;
use super::{BoxError, ClassNames, Escaped, FieldKind, Fingerprint, NdType};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::Limits;
use find::{FINE_NAMES, Form, Found, IdxName, TRAIN, TRAIN_BATCHES};
use fuseloop_ops::Size;
use idx::IdxFile;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The side of CIFAR's images in pixels, and the bytes of their three planes.
const SIDE: u32 = 32;
const PIXELS: usize = 3 * (SIDE * SIDE) as usize;

/// The number of classes of MNIST and of the datasets with the same files.
const DIGITS: u8 = 10;

/// The names of Fashion-MNIST's classes.
const FASHION: [&str; DIGITS as usize] = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
];

/// Labels of at most this size are held in memory, which saves a system call for each sample.
const MOST_LABELS: u64 = 16 << 20;

/// The most bytes of a file of class names.
const MOST_NAME_BYTES: u64 = 1 << 16;

/// Where the names of the classes are.
enum Classes {
    Unknown,
    Digits,
    Fashion,
    /// One name a line, and the number of lines.
    File(PathBuf, u8),
}

/// Opens a folder as its training split, or one file of a dataset.
///
/// | files      | fields                                                                  |
/// |------------|-------------------------------------------------------------------------|
/// | idx        | `image`: an array of bytes `[height, width]`; `label`                   |
/// | CIFAR-10   | `image`: 32 x 32 pixels RGB; `label`                                    |
/// | CIFAR-100  | `image`: 32 x 32 pixels RGB; `label`: the fine one; `coarse_label`      |
///
/// # Errors
///
/// Fails if a file is missing or damaged, exceeds the limits, or if more than one dataset could be meant.
pub(super) fn open(path: &Path, limits: &Limits) -> Result<Columnar, Error> {
    let text = path.to_string_lossy();
    if text.contains("://") {
        return Err(fail!(
            Unsupported,
            "MNIST and CIFAR are read from local files: download the file, or convert the dataset \
                      to .beton, tar or TFRecord"
        )
        .at(path));
    }
    let mut opened = match find::form_of_file(path).filter(|_| !path.is_dir()) {
        Some(form) => of_file(path, form, limits)?,
        None => {
            let Some(found) = find::find(path) else {
                return Err(fail!(
                    NotFound,
                    "the file is missing: no file of MNIST or CIFAR is in the folder"
                )
                .at(path));
            };
            of_folder(&found, limits)?
        }
    };
    opened.facts.name = Escaped(&text).to_string();
    let (count, max) = (opened.facts.samples, limits.max_samples);
    if count > max {
        return Err(fail!(Memory, "{count} images, the limit is {max}").at(path));
    }
    Ok(opened)
}

fn of_folder(found: &Found, limits: &Limits) -> Result<Columnar, Error> {
    let Found { dir, form, .. } = found;
    if *form == Form::Pickles {
        return Err(fail!(
            Unsupported,
            "these are Python pickles, which are never loaded: download the binary version of the \
                      dataset (cifar-10-binary.tar.gz, cifar-100-binary.tar.gz)"
        )
        .at(dir));
    }
    found.refuse_images()?;
    match form {
        Form::Idx => of_idx(&dir.join(found.training_images()?), limits),
        Form::Cifar10 => of_cifar(TRAIN_BATCHES.map(|name| dir.join(name)).into(), *form),
        Form::Cifar100 | Form::Pickles => of_cifar(vec![dir.join(TRAIN)], *form),
    }
}

fn of_file(path: &Path, form: Form, limits: &Limits) -> Result<Columnar, Error> {
    match form {
        Form::Idx => of_idx(path, limits),
        _ => of_cifar(vec![path.to_owned()], form),
    }
}

/// Opens the images of an idx file, and the labels beside it.
fn of_idx(path: &Path, limits: &Limits) -> Result<Columnar, Error> {
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    let not_images = || {
        fail!(
            Parameter,
            "expected a file of images, such as train-images-idx3-ubyte: its labels are read from \
                      the file next to it"
        )
        .at(path)
    };
    let name = IdxName::parse(&file_name).ok_or_else(not_images)?;
    let prefix = name.stem.strip_suffix("images").ok_or_else(not_images)?;
    let images = IdxFile::open(path.to_owned(), name, limits)?;
    if images.shape.len() < 2 {
        return Err(fail!(Format, "1 dimension, expected 3: count, height and width")
            .at(path)
            .byte(3));
    }
    let labels = labels_beside(path, name, prefix)?;
    let labels_name = labels.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let labels_name = IdxName::parse(&labels_name).ok_or_else(not_images)?;
    let labels = IdxFile::open(labels.clone(), IdxName { dims: 1, ..labels_name }, limits)?;
    if labels.count() != images.count() {
        return Err(fail!(
            Format,
            "{} labels, expected {}, one for each image of {file_name}: download both files again",
            labels.count(),
            images.count()
        )
        .at(&labels.path)
        .byte(4));
    }
    // Names of the four files of MNIST. With a name before them, as EMNIST's, there may be other classes.
    let is_digits = ["train-", "t10k-"].contains(&prefix);
    let label = Stored::Label {
        classes: is_digits.then_some(DIGITS),
        cure: "; for a dataset with more classes, put a name before the names of its files, such as \
               emnist-letters-train-images-idx3-ubyte",
    };
    let classes = match () {
        () if !is_digits => Classes::Unknown,
        () if is_in_fashion(path) => Classes::Fashion,
        () => Classes::Digits,
    };
    let kind = FieldKind::NdArray { dtype: NdType::BYTE, shape: images.shape[1..].to_vec() };
    let [of_images, of_labels] = [&images, &labels].map(|file| (file.start, file.item));
    let starts = [images.count()].into_iter().collect();
    let files = vec![file_of(images), in_memory(file_of(labels))?];
    let files = Arc::new(RecordFiles { files, starts });
    let column = |name, file, (start, item), stored| {
        let files = Arc::clone(&files);
        (name, Records { files, file: Some(file), start, stride: item, size: item, stored })
    };
    let images = column("image", 0, of_images, Stored::Array(kind));
    Ok(records(&files, vec![images, column("label", 1, of_labels, label)], classes))
}

/// Opens batches of CIFAR.
fn of_cifar(paths: Vec<PathBuf>, form: Form) -> Result<Columnar, Error> {
    // The labels: their names, their offsets in a record, and their numbers of classes.
    let labels: &[(&str, u64, u8)] = match form {
        Form::Cifar100 => &[("label", 1, 100), ("coarse_label", 0, 20)],
        _ => &[("label", 0, 10)],
    };
    let (heads, dir) = (labels.len() as u64, paths[0].parent().unwrap_or(Path::new("")).to_owned());
    let stride = heads + PIXELS as u64;
    let (names, count) = match form {
        Form::Cifar100 => (FINE_NAMES, 100),
        _ => ("batches.meta.txt", 10),
    };
    let mut counts = vec![];
    let open = |path: PathBuf| {
        let bytes = FileBytes::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                fail!(
                    NotFound,
                    "the file is missing: a folder is opened as its training split; to read one file, open it by its path"
                )
                .at(&path)
            }
            _ => Error::from(error).at(&path),
        })?;
        let (count, rest) = (bytes.len() / stride, bytes.len() % stride);
        if count == 0 || rest > 0 {
            return Err(fail!(
                Format,
                "{rest} bytes after {count} records of {stride} bytes: the file was cut or is not a file of \
                 {}, so download it again",
                form.word()
            )
            .at(&path).byte(count * stride));
        }
        counts.push(count);
        Ok(RecordFile { path, bytes, is_packed: false })
    };
    let files = paths.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let names = dir.join(names);
    let classes = match fs::metadata(&names) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Classes::Unknown,
        _ => Classes::File(names, count),
    };
    let files = Arc::new(RecordFiles { files, starts: counts.into_iter().collect() });
    let column = |name, start, size, stored| {
        let files = Arc::clone(&files);
        (name, Records { files, file: None, start, stride, size, stored })
    };
    let planes = Stored::Planes(Size::new(SIDE, SIDE));
    let mut columns = vec![column("image", heads, PIXELS as u64, planes)];
    columns.extend(labels.iter().map(|&(name, start, classes)| {
        column(
            name,
            start,
            1,
            Stored::Label { classes: Some(classes), cure: ": the file is damaged" },
        )
    }));
    Ok(records(&files, columns, classes))
}

/// Returns the dataset of these columns.
fn records(files: &RecordFiles, columns: Vec<(&str, Records)>, classes: Classes) -> Columnar {
    let samples = files.starts.samples();
    let column = |(name, records)| (name, Column::from(Values::Records(records)));
    let columns = columns.into_iter().map(column).collect();
    // The files with values, then the file with the names of classes.
    let mut paths: Vec<PathBuf> = files.files.iter().map(|file| file.path.clone()).collect();
    if let Classes::File(path, _) = &classes {
        paths.push(path.clone());
    }
    let mut columns = Columnar::new(columns, samples, vec![]).with_paths(paths);
    let mut print = Fingerprint::default();
    print.text("fixed length");
    print.number(samples);
    print.fields(&columns.facts.fields);
    // The labels of an idx dataset tell it from others of its size. Images are not read for that.
    for column in &columns.columns {
        if let Values::Records(Records { stored: Stored::Label { .. }, file: Some(file), .. }) =
            &column.values
            && let FileBytes::InMemory(bytes) = &files.files[*file].bytes
        {
            print.bytes(bytes);
        }
    }
    columns.facts.fingerprint = print.value();
    columns.facts = columns.facts.with_class_names(move || class_names(&classes));
    columns
}

/// Returns the path of the labels beside a file of images.
fn labels_beside(images: &Path, name: IdxName<'_>, prefix: &str) -> Result<PathBuf, Error> {
    let IdxName { separator, is_packed, .. } = name;
    let other = if separator == '-' { '.' } else { '-' };
    let path = |separator: char, end: &str, is_packed: bool| {
        let gz = if is_packed { ".gz" } else { "" };
        images.with_file_name(format!("{prefix}labels{separator}{end}{gz}"))
    };
    let ends = ["idx1-ubyte", "idx2-int"].into_iter();
    let names = ends.flat_map(|end| {
        let forms = [separator, other].into_iter().flat_map(|c| [(c, is_packed), (c, !is_packed)]);
        forms.map(move |(separator, is_packed)| (separator, end, is_packed))
    });
    let mut paths = names.map(|(separator, end, is_packed)| path(separator, end, is_packed));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        let file = images.file_name().unwrap_or_default().to_string_lossy();
        fail!(NotFound, "the file is missing: it has the labels of {file}, and belongs next to it")
            .at(path(separator, "idx1-ubyte", is_packed))
    })
}

/// Returns whether a file is in a folder that is named for Fashion-MNIST: one of the three around the file.
fn is_in_fashion(path: &Path) -> bool {
    let is_named = |path: &Path| {
        path.ancestors().skip(1).take(3).filter_map(Path::file_name).any(|name| {
            let name = name.to_string_lossy().to_lowercase();
            name.replace(|c: char| !c.is_alphanumeric(), "").contains("fashionmnist")
        })
    };
    // The folder may be the working directory, or a link.
    is_named(path) || fs::canonicalize(path).is_ok_and(|real| is_named(&real))
}

fn file_of(IdxFile { path, bytes, is_packed, .. }: IdxFile) -> RecordFile {
    RecordFile { path, bytes, is_packed }
}

/// Reads a file into memory, unless it is large.
fn in_memory(file: RecordFile) -> Result<RecordFile, Error> {
    let len = file.bytes.len();
    if len > MOST_LABELS || file.bytes.reader().is_none() {
        return Ok(file);
    }
    let bytes = file.bytes.copy(0, len).at(&file.path)?;
    Ok(RecordFile { bytes: FileBytes::InMemory(bytes.into()), ..file })
}

/// Reads a file with the name of a class on each line.
fn names_of(path: &Path, count: u8) -> Result<ClassNames, Error> {
    let read = || -> io::Result<Vec<u8>> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let mut bytes = vec![];
        file_pool::open(path)?.take(MOST_NAME_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().at(path)?;
    if bytes.len() as u64 > MOST_NAME_BYTES {
        return Err(fail!(
            Format,
            "more than {MOST_NAME_BYTES} bytes, expected {count} names of classes"
        )
        .at(path)
        .byte(MOST_NAME_BYTES));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        fail!(Format, "the text is not UTF-8").at(path).byte(error.valid_up_to() as u64)
    })?;
    let names: Vec<&str> = text.trim_end().lines().map(str::trim).collect();
    if names.len() != usize::from(count) || names.contains(&"") {
        let found = names.iter().filter(|name| !name.is_empty()).count();
        return Err(fail!(Format, "{found} names of classes, expected {count}, one on each line")
            .at(path)
            .byte(0));
    }
    Ok((0..).zip(names).map(|(number, name)| (number, name.to_owned())).collect())
}

/// Reads the names of the classes.
fn class_names(classes: &Classes) -> Result<Option<ClassNames>, BoxError> {
    let numbered = |names: [String; 10]| Some((0..).zip(names).collect());
    Ok(match classes {
        Classes::Unknown => None,
        Classes::Digits => numbered(std::array::from_fn(|digit| digit.to_string())),
        Classes::Fashion => numbered(FASHION.map(str::to_owned)),
        Classes::File(path, count) => Some(names_of(path, *count)?),
    })
}
