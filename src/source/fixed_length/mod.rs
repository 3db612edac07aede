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

use super::file::FileBytes;
use super::file_pool;
use super::starts::Starts;
use super::{
    BoxError, Buffer, ClassNames, EncodedImage, Escaped, Facts, FieldKind, FieldSpec, Fingerprint,
    ImageMode, ImageStats, NdType, OwnedValue, Record, SampleLocation, Source, Value,
};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::{Limits, SampleId};
use crate::source::error::{no_such_field, no_such_sample};
use find::{FINE_NAMES, Form, Found, IdxName, TRAIN, TRAIN_BATCHES};
use fuseloop_ops::Size;
use idx::IdxFile;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The side of CIFAR's images in pixels, and the bytes of one of their planes.
const SIDE: u32 = 32;
const PLANE: usize = (SIDE * SIDE) as usize;
const PIXELS: usize = 3 * PLANE;

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

/// A dataset of MNIST's or CIFAR's files.
///
/// | files      | fields                                                                  |
/// |------------|-------------------------------------------------------------------------|
/// | idx        | `image`: an array of bytes `[height, width]`; `label`                   |
/// | CIFAR-10   | `image`: 32 x 32 pixels RGB; `label`                                    |
/// | CIFAR-100  | `image`: 32 x 32 pixels RGB; `label`: the fine one; `coarse_label`      |
pub(super) struct FixedLength {
    facts: Facts,
    files: Vec<DataFile>,
    /// The samples of each file of CIFAR; of idx files the samples of all.
    starts: Starts,
    columns: Vec<Column>,
}

/// A file with values.
struct DataFile {
    path: PathBuf,
    bytes: FileBytes,
    /// True for a `.gz` file, whose bytes have no offsets that a user could look at.
    is_packed: bool,
}

/// Where the values of a field are stored.
#[derive(Clone, Copy)]
struct Column {
    /// The index of the file; `None` for the file that has the sample.
    file: Option<usize>,
    /// The offset of the first value, the distance of two values, and the size of one.
    start: u64,
    stride: u64,
    size: u64,
    stored: Stored,
}

/// What the bytes of a value are.
#[derive(Clone, Copy)]
enum Stored {
    /// The elements of an array.
    Array,
    /// The planes of an image of CIFAR.
    Planes,
    /// The number of a class, less than `classes` if that is known.
    Label { classes: Option<u8>, cure: &'static str },
}

/// Where the names of the classes are.
enum Classes {
    Unknown,
    Digits,
    Fashion,
    /// One name a line, and the number of lines.
    File(PathBuf, u8),
}

impl FixedLength {
    /// Opens a folder as its training split, or one file of a dataset.
    ///
    /// # Errors
    ///
    /// Fails if a file is missing or damaged, exceeds the limits, or if more than one dataset could be meant.
    pub(super) fn open(path: &Path, limits: &Limits) -> Result<Self, Error> {
        Self::open_any(path, limits)
    }

    fn open_any(path: &Path, limits: &Limits) -> Result<Self, Error> {
        let text = path.to_string_lossy();
        if text.contains("://") {
            return Err(fail!(
                Unsupported,
                "MNIST and CIFAR are read from local files: download the file, or convert the dataset \
                          to .beton, tar or TFRecord"
            )
            .at(path));
        }
        let name = Escaped(&text).to_string();
        let opened = match find::form_of_file(path).filter(|_| !path.is_dir()) {
            Some(form) => Self::of_file(path, form, limits)?,
            None => {
                let Some(found) = find::find(path) else {
                    return Err(fail!(
                        NotFound,
                        "the file is missing: no file of MNIST or CIFAR is in the folder"
                    )
                    .at(path));
                };
                Self::of_folder(&found, limits)?
            }
        };
        let opened = Self { facts: opened.facts.named(name), ..opened };
        let (count, max) = (opened.facts.samples, limits.max_samples);
        if count > max {
            return Err(fail!(Memory, "{count} images, the limit is {max}").at(path));
        }
        Ok(opened)
    }

    fn of_folder(found: &Found, limits: &Limits) -> Result<Self, Error> {
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
            Form::Idx => Self::of_idx(&dir.join(found.training_images()?), limits),
            Form::Cifar10 => Self::of_cifar(TRAIN_BATCHES.map(|name| dir.join(name)).into(), *form),
            Form::Cifar100 | Form::Pickles => Self::of_cifar(vec![dir.join(TRAIN)], *form),
        }
    }

    fn of_file(path: &Path, form: Form, limits: &Limits) -> Result<Self, Error> {
        match form {
            Form::Idx => Self::of_idx(path, limits),
            _ => Self::of_cifar(vec![path.to_owned()], form),
        }
    }

    /// Opens the images of an idx file, and the labels beside it.
    fn of_idx(path: &Path, limits: &Limits) -> Result<Self, Error> {
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
            .at(&labels.path).byte(4));
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
        let fields = vec![field("image", kind), field("label", FieldKind::Int)];
        let column = |file, of: &IdxFile, stored| Column {
            file: Some(file),
            start: of.start,
            stride: of.item,
            size: of.item,
            stored,
        };
        let columns = vec![column(0, &images, Stored::Array), column(1, &labels, label)];
        let starts = [images.count()].into_iter().collect();
        let files = vec![DataFile::of(images), DataFile::of(labels).in_memory()?];
        Ok(Self::of(files, starts, fields, columns, classes))
    }

    /// Opens batches of CIFAR.
    fn of_cifar(paths: Vec<PathBuf>, form: Form) -> Result<Self, Error> {
        // The labels: their names, their offsets in a record, and their numbers of classes.
        let labels: &[(&str, u64, u8)] = match form {
            Form::Cifar100 => &[("label", 1, 100), ("coarse_label", 0, 20)],
            _ => &[("label", 0, 10)],
        };
        let (heads, dir) =
            (labels.len() as u64, paths[0].parent().unwrap_or(Path::new("")).to_owned());
        let stride = heads + PIXELS as u64;
        let column = |start, size, stored| Column { file: None, start, stride, size, stored };
        let mut fields = vec![field("image", FieldKind::RgbImage)];
        let mut columns = vec![column(heads, PIXELS as u64, Stored::Planes)];
        for &(name, start, classes) in labels {
            fields.push(field(name, FieldKind::Int));
            let stored = Stored::Label { classes: Some(classes), cure: ": the file is damaged" };
            columns.push(column(start, 1, stored));
        }
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
            Ok(DataFile { path, bytes, is_packed: false })
        };
        let files = paths.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let names = dir.join(names);
        let classes = match fs::metadata(&names) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Classes::Unknown,
            _ => Classes::File(names, count),
        };
        Ok(Self::of(files, counts.into_iter().collect(), fields, columns, classes))
    }

    fn of(
        files: Vec<DataFile>,
        starts: Starts,
        fields: Vec<FieldSpec>,
        columns: Vec<Column>,
        classes: Classes,
    ) -> Self {
        let mut print = Fingerprint::default();
        print.text("fixed length");
        print.number(starts.samples());
        print.fields(&fields);
        // The labels of an idx dataset tell it from others of its size. Images are not read for that.
        for column in &columns {
            if let (Stored::Label { .. }, Some(file)) = (column.stored, column.file)
                && let FileBytes::InMemory(bytes) = &files[file].bytes
            {
                print.bytes(bytes);
            }
        }
        let samples = starts.samples();
        // The files with values, then the file with the names of classes.
        let mut paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
        if let Classes::File(path, _) = &classes {
            paths.push(path.clone());
        }
        let size = Some(Size::new(SIDE, SIDE));
        let max_pixels = PLANE as u64;
        let stats =
            ImageStats { raw: samples, min: size, max: size, max_pixels, ..Default::default() };
        let is_image: Vec<bool> = fields.iter().map(|field| field.kind.is_image()).collect();
        let facts = Facts {
            rereads_cheaply: true,
            fingerprint: print.value(),
            ..Facts::new(fields, samples)
        }
        .with_image_stats(move |field| is_image.get(field)?.then(|| stats.clone()))
        .with_paths(move || Box::new(paths.clone().into_iter()))
        .with_class_names(move || class_names(&classes));
        Self { facts, files, starts, columns }
    }

    /// Reads the images of an idx file from `from` instead.
    #[cfg(all(test, feature = "tar", feature = "tfrecord"))]
    pub(super) fn with_images_from(
        mut self,
        from: std::sync::Arc<dyn super::file::ReadAt>,
    ) -> io::Result<Self> {
        self.files[0].bytes = FileBytes::from_reader(from)?;
        Ok(self)
    }

    /// Returns the file of a value, its offset and its size.
    fn extent(&self, sample: SampleId, field: usize) -> Option<(&DataFile, u64, Column)> {
        let column = *self.columns.get(field)?;
        let (batch, SampleId(index)) = self.starts.locate(sample)?;
        let file = &self.files[column.file.unwrap_or(batch)];
        // The length of the file was checked for all of its values.
        Some((file, column.start + index * column.stride, column))
    }
}

fn field(name: &str, kind: FieldKind) -> FieldSpec {
    FieldSpec { name: name.to_owned(), kind }
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

impl DataFile {
    fn of(file: IdxFile) -> Self {
        Self { path: file.path, bytes: file.bytes, is_packed: file.is_packed }
    }

    /// Reads the file into memory, unless it is large.
    fn in_memory(self) -> Result<Self, Error> {
        let len = self.bytes.len();
        if len > MOST_LABELS || self.bytes.reader().is_none() {
            return Ok(self);
        }
        let bytes = self.bytes.copy(0, len).at(&self.path)?;
        Ok(Self { bytes: FileBytes::InMemory(bytes.into()), ..self })
    }
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

/// Interleaves the planes of an image: red, green and blue.
fn interleave(planes: &[u8], pixels: &mut [u8]) {
    let (red, rest) = planes.split_at(PLANE);
    let (green, blue) = rest.split_at(PLANE);
    let planes = red.iter().zip(green).zip(blue);
    for (pixel, ((red, green), blue)) in pixels.chunks_exact_mut(3).zip(planes) {
        pixel.copy_from_slice(&[*red, *green, *blue]);
    }
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

impl Source for FixedLength {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let mut buffer = Buffer::default();
        let fields = 0..self.columns.len();
        fields.map(|k| Ok(OwnedValue::from(self.value(sample, k, &mut buffer)?))).collect()
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let missing = || match field < self.columns.len() {
            true => no_such_sample(self.starts.samples()),
            false => no_such_field(self.columns.len()),
        };
        let (file, at, column) = self.extent(sample, field).ok_or_else(missing)?;
        let failed = |error: Error| error.at(&file.path);
        let Buffer { bytes, check, .. } = buffer;
        match column.stored {
            Stored::Array => {
                let found = file.bytes.get_with((at, column.size), bytes, check.as_mut());
                Ok(Value::NdArray(found.map_err(failed)?))
            }
            Stored::Planes => {
                let found = file.bytes.load(at, column.size, bytes).map_err(failed)?;
                let end = found.end;
                if bytes.len() < end + PIXELS {
                    bytes.resize(end + PIXELS, 0);
                }
                let (planes, pixels) = bytes.split_at_mut(end);
                interleave(&planes[found], &mut pixels[..PIXELS]);
                let (mode, bytes) = (ImageMode::Raw, &pixels[..PIXELS]);
                Ok(Value::Image(EncodedImage { mode, width: SIDE, height: SIDE, bytes }))
            }
            Stored::Label { classes, cure } => {
                let found = file.bytes.get_with((at, 1), bytes, check.as_mut());
                let label = found.map_err(failed)?[0];
                match classes {
                    Some(classes) if label >= classes => {
                        let last = classes - 1;
                        let error = fail!(Damaged, "label {label}, expected 0 to {last}{cure}");
                        Err(error.at(&file.path).byte(at).into())
                    }
                    _ => Ok(Value::Int(label.into())),
                }
            }
        }
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let (file, at, column) = self.extent(sample, field)?;
        let location = SampleLocation::in_file(file.path.to_string_lossy(), None);
        let bytes = (!file.is_packed).then(|| at..at + column.size);
        Some(SampleLocation { bytes, ..location })
    }
}

/// Shows no files.
impl fmt::Debug for FixedLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FixedLength");
        shown
            .field("name", &self.facts.name)
            .field("len", &self.facts.samples)
            .finish_non_exhaustive()
    }
}
