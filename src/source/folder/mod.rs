//! Folders of image files in the layout of torchvision's `ImageFolder`, and tables of images and labels.
//!
//! ```text
//! folder, pattern ─▶ walk ─▶ layout ─┐
//! .csv .tsv .jsonl ────────▶ table ──┴─▶ names (paths) + columns (labels) ─▶ Folder: a Source
//!                      saved listing ───┘
//! ```
//!
//! Opening a dataset lists the files and reads none. A file is opened when its sample is asked for. If
//! something is wrong with the file by then (it is missing, has become a pipe, exceeds the limits), that
//! sample has an error with the path.

mod column;
mod csv_text;
mod layout;
mod links;
mod list;
mod names;
mod numbers;
mod options;
mod saved;
mod table;
#[cfg(test)]
mod tests;
mod walk;

pub(super) use layout::is_annotations;
pub use links::{LinkCounts, Links};
pub use list::Ignored;
#[cfg(feature = "write")]
pub(crate) use list::is_jpeg_name;
pub use options::{FolderOptions, Labels};
pub(crate) use walk::Rules;
#[cfg(feature = "write")]
pub(crate) use walk::{FolderWalk, PendingDir};

use super::file_pool;
use super::{
    BoxError, Buffer, ClassNames, ClassTable, EncodedImage, Escaped, FOLDER_FILE_NAME, Facts,
    FieldSpec, Fingerprint, ImageMode, OwnedImage, OwnedValue, ReadAt, Record, SampleLocation,
    Source, Value, atomic_file, refuse_cut,
};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::{Limits, SampleId};
use crate::warnings::warn;
use column::{Flaw, Flaws, TableColumn, Values};
use layout::{LabelRule, ListedFiles};
use list::other_than_image;
use names::Names;
use numbers::ClassNumbers;
use saved::Saved;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use table::{InFolder, MOST_TRIED, PathTable};

/// A dataset of image files and their labels.
///
/// | opened                                  | fields                                       |
/// |-----------------------------------------|----------------------------------------------|
/// | a folder: `ImageFolder`'s, or a flat one | `image`, `label`: the number of the class   |
/// | a pattern: `data/**/*.jpg`              | `image`, `label`: the folder a file is in    |
/// | one image, or a list `a.jpg::b.jpg` of one folder | `image`                             |
/// | a `.csv`, `.tsv` or `.jsonl` table      | `image`, and one for each column             |
/// | a folder with a `metadata.jsonl` or `metadata.csv` that has the column `file_name`, as Hugging Face's `imagefolder` | those of the table |
///
/// Labels that would be a guess are refused, and [`FolderOptions::label`] says where they come from.
///
/// Images are JPEG and PNG files, recognized by their first bytes. Classes are numbered in the byte order of
/// their names. A file of a folder is a sample if its
/// extension is jpg, jpeg, jpe, jfif or png in any case and its name does not begin with a dot; the order within a
/// class is torchvision's: directory by directory.
///
/// ```no_run
/// use fuseloop::source::{Folder, FolderOptions, Source};
///
/// let folder = Folder::open("imagenet/train", &FolderOptions::default())?;
/// println!("{} images", folder.facts().samples);
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub struct Folder {
    facts: OnceLock<Facts>,
    name: String,
    files: Arc<ImageFiles>,
    fields: Vec<FieldSpec>,
    /// The values of the fields after the image.
    columns: Vec<TableColumn>,
    /// The damaged lines of a table, by their samples.
    flaws: Flaws,
    classes: Vec<String>,
    class_names: Option<ClassNames>,
    ignored: Ignored,
    links: LinkCounts,
    limits: Limits,
    print: u64,
    /// The folder that was searched, or the table.
    origin: Option<PathBuf>,
    /// How the folder was searched; `None` for a table or a pattern, which can't be saved.
    scanned: Option<Scanned>,
    /// The numbers of the classes that were listed, in their order.
    listed_numbers: Vec<Option<i64>>,
}

/// The files of the images.
struct ImageFiles {
    /// The folder that all paths are relative to.
    root: PathBuf,
    names: Names,
}

/// The content of a saved listing besides the files.
struct Scanned {
    begun: i64,
    labelled_by: LabelRule,
    links: Links,
    /// The class folders and their numbers.
    classes: Vec<(String, Option<i64>)>,
}

impl Folder {
    /// Opens a folder, a table, or the files of a pattern.
    ///
    /// # Errors
    ///
    /// Fails if the files can't be listed, if there is no image, or if a table is damaged.
    pub fn open(spec: impl AsRef<Path>, options: &FolderOptions) -> Result<Self, Error> {
        let folder = Self::list(spec.as_ref(), options)?;
        if folder.scanned.is_none() && folder.origin.is_some() {
            folder.check_files(options)?;
        }
        Ok(folder)
    }

    /// Opens a dataset as [`open`](Self::open) does. The files of a table may be missing.
    pub(crate) fn list(path: &Path, options: &FolderOptions) -> Result<Self, Error> {
        if let (Some(split), options) = options.take_split() {
            let whole = path.join(split);
            if path.is_dir() && !whole.is_dir() {
                return Err(fail!(Format, "no folder \"{split}\" for `split`").at(path));
            }
            return Self::list(&whole, &options);
        }
        let folder = match path.to_str() {
            _ if path.is_dir() => match InFolder::find(path, options.links)? {
                Some((table, inside)) => Self::of_table(&table, Some(&inside), options)?,
                None => Self::of_folder(path, options)?,
            },
            _ if table::is_table(path) => Self::of_table(path, None, options)?,
            Some(text)
                if is_pattern(text) || other_than_image(path).is_none() && path.is_file() =>
            {
                let list =
                    layout::of_pattern(text, options.links, other_than_image, &options.label)?;
                Self::of_listed(path, PathBuf::new(), list, options)?
            }
            _ => return Err(no_dataset(path)),
        };
        let (count, max) = (folder.len(), options.limits.max_samples);
        if count > max {
            return Err(fail!(Memory, "{count} images, the limit is {max}").at(path));
        }
        Ok(folder)
    }

    fn of_folder(path: &Path, options: &FolderOptions) -> Result<Self, Error> {
        let begun = walk::nanoseconds(SystemTime::now());
        let real = fs::canonicalize(path).at(path)?;
        let saved = match &options.listing {
            Some(listing) => Saved::read(listing, &options.limits)?,
            None => None,
        };
        // What was saved was no guess.
        let is_asked = |saved: &Saved| match options.label {
            Labels::Auto => saved.list.labelled_by != LabelRule::None,
            Labels::Folder => saved.list.labelled_by == LabelRule::Folder,
            Labels::FileName => saved.list.labelled_by == LabelRule::FileName,
            Labels::None => saved.list.labelled_by == LabelRule::None,
            Labels::Column(_) => false,
        };
        let saved = saved.filter(|saved| saved.root == real && saved.links == options.links);
        let (list, begun) = match saved.filter(is_asked) {
            Some(saved) if saved.still_holds()? => (saved.list, saved.begun),
            _ => {
                let rules = Rules::new(other_than_image, options.links, vec![real]);
                let rules = rules.cancel(&options.cancel);
                (layout::of_folder(path, &rules, &options.label)?, begun)
            }
        };
        let (labelled_by, names) = (list.labelled_by, list.classes.clone());
        let folder = Self::of_listed(path, path.to_owned(), list, options)?;
        let numbers = folder.listed_numbers.iter().copied();
        let classes = names.into_iter().zip(numbers).collect();
        let scanned = Scanned { begun, labelled_by, links: options.links, classes };
        Ok(Self { origin: Some(path.to_owned()), scanned: Some(scanned), ..folder })
    }

    /// Numbers the classes of files, and warns of images that were left out.
    fn of_listed(
        spec: &Path,
        root: PathBuf,
        list: ListedFiles,
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        let ListedFiles { names, mut labels, classes, ignored, links, labelled_by, .. } = list;
        let numbered = match &options.classes {
            _ if labelled_by == LabelRule::None => ClassNumbers::default(),
            Some(given) => ClassNumbers::set(spec, &classes, &labels, given)?,
            None if root.as_os_str().is_empty() => ClassNumbers::by_order(&classes),
            None => ClassNumbers::in_folder(&root, &classes, &labels)?,
        };
        numbered.relabel(&mut labels);
        let name = Escaped(&spec.to_string_lossy()).to_string();
        if let Some(pictures) = ignored.pictures() {
            warn(format_args!("{name}: {pictures}"));
        }
        if ignored.beside > 0 {
            let (noun, verb) =
                if ignored.beside == 1 { ("image lies", "is") } else { ("images lie", "are") };
            warn(format_args!(
                "{name}: {} {noun} next to the class folders and {verb} not read: move them into a class folder, or set `label` to \
                 `none` to open all images without labels",
                ignored.beside
            ));
        }
        let listed_numbers = numbered.numbers.clone();
        let columns = match labelled_by {
            LabelRule::None => vec![],
            _ => vec![("label".to_owned(), TableColumn::ints(labels))],
        };
        let table = PathTable { names, columns, classes: numbered, flaws: Flaws::new() };
        Ok(Self { ignored, links, listed_numbers, ..Self::of(spec, root, table, options) })
    }

    fn of_table(
        path: &Path,
        inside: Option<&InFolder>,
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        let mut table = PathTable::read(path, inside, options)?;
        let root = table::root_of(path, options);
        if table.classes.names.is_none() {
            let beside = path.parent().unwrap_or(Path::new("")).join(FOLDER_FILE_NAME);
            let names = ClassTable::read(&beside)?;
            table.classes.names = names.map(|table| table.names());
        }
        Ok(Self { origin: Some(path.to_owned()), ..Self::of(path, root, table, options) })
    }

    /// Opens the columns of a table that is no file, such as a data frame: their names, and their values as the text of a
    /// JSON list. Errors call it `name`.
    ///
    /// # Errors
    ///
    /// As for the table of a file.
    pub(crate) fn of_columns(
        name: &str,
        columns: Vec<(String, String)>,
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        let path = Path::new(name);
        let (mut names, mut lists) = (vec![], vec![]);
        for (column, values) in columns {
            let values: Vec<serde_json::Value> = serde_json::from_str(&values)
                .map_err(|error| fail!(Format, "line 0: column {column:?}: {error}").at(path))?;
            names.push(column);
            lists.push(values);
        }
        let columns = lists;
        let rows = columns.iter().map(Vec::len).max().unwrap_or_default();
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let row = |row: usize| {
            let cells: Option<Vec<_>> = columns.iter_mut().map(Iterator::next).collect();
            (row as u64, cells.ok_or_else(|| "the columns have different lengths".to_owned()))
        };
        let lines = (0..rows).map(row).collect();
        let cells = table::Cells { names, is_text: false, lines };
        let table = PathTable::of(path, None, cells, options)?;
        let root = options.table.root.clone().unwrap_or_default();
        let folder = Self::of(path, root, table, options);
        folder.check_files(options)?;
        Ok(folder)
    }

    /// Refuses a table none of whose first files exists: its paths are relative to another folder, or are no paths. A file
    /// that is missing among others is damage of its sample.
    fn check_files(&self, options: &FolderOptions) -> Result<(), Error> {
        let is_good = |sample: &SampleId| {
            usize::try_from(sample.0).is_ok_and(|index| !self.flaws.contains_key(&index))
        };
        let files = (0..self.len()).map(SampleId).filter(is_good).filter_map(|id| self.file(id));
        let first: Vec<PathBuf> = files.take(MOST_TRIED).collect();
        let is_missing = |path: &PathBuf| match fs::metadata(path) {
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
            Ok(_) => false,
        };
        match first.first() {
            Some(tried) if first.iter().all(is_missing) => {
                let (table, advice) =
                    (&self.name, table::root_advice(&self.files.root, tried, options));
                Err(fail!(
                    NotFound,
                    "{table}: the files that it lists do not exist, such as {tried:?}: {advice}"
                )
                .named_path(tried))
            }
            _ => Ok(()),
        }
    }

    fn of(spec: &Path, root: PathBuf, table: PathTable, options: &FolderOptions) -> Self {
        let fields = table.fields();
        let PathTable { names, columns, classes, flaws } = table;
        let mut print = Fingerprint::default();
        print.text("folder");
        print.fields(&fields);
        for index in 0..names.len() {
            if let Some((dir, name)) = names.dir_and_name(index) {
                print.number(dir as u64);
                print.bytes(name);
            }
        }
        names.dirs.iter().for_each(|dir| print.text(&dir.path.to_string_lossy()));
        Self {
            facts: OnceLock::new(),
            name: Escaped(&spec.to_string_lossy()).to_string(),
            files: Arc::new(ImageFiles { root, names }),
            fields,
            columns: columns.into_iter().map(|(_, column)| column).collect(),
            flaws,
            listed_numbers: vec![],
            classes: classes.shown,
            class_names: classes.names,
            ignored: Ignored::default(),
            links: LinkCounts::default(),
            limits: options.limits,
            print: print.value(),
            origin: None,
            scanned: None,
        }
    }

    /// Returns the names of the classes in the order of their numbers, escaped where they are not
    /// printable. [`Facts::class_names`] has the numbers too. Empty if a table gave numbers.
    pub(crate) fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the files that are not samples: their number, by their extensions, and the reasons for the first. A saved
    /// listing has no reasons.
    ///
    /// ```no_run
    /// # use fuseloop::source::{Folder, FolderOptions};
    /// let folder = Folder::open("photos", &FolderOptions::default())?;
    /// for (extension, files) in &folder.ignored().extensions {
    ///     println!("{files} files .{extension} are no images");
    /// }
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    #[must_use]
    pub fn ignored(&self) -> &Ignored {
        &self.ignored
    }

    /// Returns how the symbolic links in the folder were treated.
    pub(crate) fn links(&self) -> LinkCounts {
        self.links
    }

    /// Returns the number of images.
    pub(crate) fn len(&self) -> u64 {
        self.files.names.len() as u64
    }

    /// Returns the path of a sample's image; `None` for a line of a table without one.
    pub(crate) fn file(&self, sample: SampleId) -> Option<PathBuf> {
        self.files.path(usize::try_from(sample.0).ok()?)
    }

    /// Returns the error of a flaw in a table.
    fn flawed(&self, flaw: &Flaw) -> BoxError {
        let path = self.origin.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        fail!(Format, "line {}: {}", flaw.line, flaw.reason).at(path).into()
    }

    /// # Errors
    ///
    /// If the sample's line of a table is damaged.
    fn check(&self, sample: SampleId) -> Result<usize, BoxError> {
        let index = usize::try_from(sample.0).unwrap_or(usize::MAX);
        self.flaws.get(&index).map_or(Ok(index), |flaw| Err(self.flawed(flaw)))
    }

    /// Saves the files that were found in the folder, and the time when each directory was last changed,
    /// for [`FolderOptions::listing`]. The file appears whole or not at all.
    ///
    /// # Errors
    ///
    /// Fails with the system's error, and for a table, a folder with a table and a pattern, which have nothing to save.
    pub fn save_listing(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        self.save(path).at(path)
    }

    fn save(&self, path: &Path) -> io::Result<()> {
        let columns: Vec<&Values> = self.columns.iter().map(|column| &column.values).collect();
        let none = vec![0; self.files.names.len()];
        let (Some(scanned), [] | [Values::Int(_)]) = (&self.scanned, &columns[..]) else {
            let reason =
                "only the listing of a folder without a table can be saved, and a table needs none";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        let labels = match columns[..] {
            [Values::Int(labels)] => labels,
            _ => &none,
        };
        let root = fs::canonicalize(&self.files.root)?;
        let Scanned { begun, labelled_by, links, classes } = scanned;
        // The labels are numbers from `classes.json`, which may change while no directory does, so the
        // listing stores the indices of classes.
        let indices =
            (0..).zip(classes).filter_map(|(index, (_, number))| Some(((*number)?, index)));
        let indices: HashMap<i64, u32> = indices.collect();
        let labels = labels.iter().map(|label| indices.get(label).copied().unwrap_or_default());
        let names = classes.iter().map(|(name, _)| &**name);
        let bytes = saved::bytes(
            &root,
            (*begun, *labelled_by, *links),
            &self.files.names,
            (&labels.collect::<Vec<u32>>(), &names.collect::<Vec<&str>>()),
            (&self.ignored, &self.links),
        );
        atomic_file::write(path, &bytes)
    }

    /// Reads a sample's image file.
    fn load(&self, sample: SampleId, bytes: &mut Vec<u8>) -> Result<(), BoxError> {
        self.check(sample)?;
        let path = self.file(sample).ok_or_else(|| format!("sample {sample} does not exist"))?;
        let read = read_file(&path, self.limits.max_sample_bytes, bytes);
        Ok(read.at(&path)?)
    }

    /// Returns a value of a field that is not the image.
    fn column(&self, sample: SampleId, field: usize) -> Result<Value<'_>, BoxError> {
        let index = self.check(sample)?;
        let column = field.checked_sub(1).and_then(|field| self.columns.get(field));
        let column = column.ok_or_else(|| format!("field {field} does not exist"))?;
        if let Some(flaw) = column.flaws.get(&index) {
            return Err(self.flawed(flaw));
        }
        let value = match &column.values {
            Values::Int(values) => values.get(index).copied().map(Value::Int),
            Values::Float(values) => values.get(index).copied().map(Value::Float),
            Values::Bytes(texts) => texts.get(index).map(Value::Bytes),
            Values::Json(texts) => texts.get(index).map(Value::Json),
        };
        value.ok_or_else(|| format!("sample {sample} does not exist").into())
    }
}

impl Source for Folder {
    fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| self.found_facts())
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let mut bytes = vec![];
        self.load(sample, &mut bytes)?;
        let mode = ImageMode::of_file(&bytes);
        let mut record = vec![OwnedValue::Image(OwnedImage { mode, width: 0, height: 0, bytes })];
        for field in 1..self.fields.len() {
            record.push(self.column(sample, field)?.into());
        }
        Ok(record)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        if field > 0 {
            return self.column(sample, field);
        }
        self.load(sample, &mut buffer.bytes)?;
        let (mode, bytes) = (ImageMode::of_file(&buffer.bytes), &buffer.bytes[..]);
        Ok(Value::Image(EncodedImage { mode, width: 0, height: 0, bytes }))
    }

    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        let index = usize::try_from(sample.0).ok()?;
        let key = self.files.names.path(index)?;
        let damaged = self.flaws.get(&index).filter(|_| key.file_name().is_none());
        if let (Some(flaw), Some(table)) = (damaged, &self.origin) {
            let key = format!("line {}", flaw.line);
            return Some(SampleLocation::in_file(table.to_string_lossy(), Some(key.into())));
        }
        let file = self.files.root.join(&key);
        Some(SampleLocation::in_file(file.to_string_lossy(), Some(key.to_string_lossy().into())))
    }
}

impl Folder {
    fn found_facts(&self) -> Facts {
        let longest = |column: &TableColumn| match &column.values {
            Values::Bytes(texts) | Values::Json(texts) => Some(texts.longest()),
            Values::Int(_) | Values::Float(_) => None,
        };
        let longest: Vec<Option<u64>> = self.columns.iter().map(longest).collect();
        let (files, origin) = (Arc::clone(&self.files), self.origin.clone());
        let class_names = self.class_names.clone();
        Facts {
            name: self.name.clone(),
            rereads_cheaply: true,
            fingerprint: self.print,
            ..Facts::of(self.fields.clone().into(), self.files.names.len() as u64)
        }
        .with_longest(move |field| *longest.get(field.checked_sub(1)?)?)
        .with_class_names(move || Ok(class_names.clone()))
        // The folder or the table, then every image.
        .with_paths(move || {
            let files = Arc::clone(&files);
            let images = (0..files.names.len()).filter_map(move |index| files.path(index));
            Box::new(origin.clone().into_iter().chain(images))
        })
    }
}

impl ImageFiles {
    /// Returns the path of an image; `None` for a line of a table without one.
    fn path(&self, index: usize) -> Option<PathBuf> {
        let path = self.names.path(index)?;
        path.file_name().is_some().then(|| self.root.join(path))
    }
}

/// Shows no files: there may be a million.
impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Folder");
        shown.field("name", &self.name).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Returns whether a name stands for the files that it matches or lists.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{']) || text.contains("::")
}

/// Returns the error for a path that is neither a folder nor a table.
fn no_dataset(path: &Path) -> Error {
    let wanted = "neither a folder nor a .csv, .tsv or .jsonl table";
    let found = fs::metadata(path).err();
    let source = found.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, wanted));
    Error::from(source).at(path)
}

/// Reads a regular file of at most `max` bytes into `bytes`, replacing their content.
pub(super) fn read_file(path: &Path, max: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let refused = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    // The kind is checked before the file is opened: opening a pipe would wait for its other end.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return refused("not a regular file".to_owned());
    }
    if found.len() > max {
        return refused(format!("{} bytes, the limit is {max}", found.len()));
    }
    bytes.clear();
    // One byte more than the file has, so that its end is found without growing the buffer.
    let room = usize::try_from(found.len()).unwrap_or(usize::MAX).saturating_add(1);
    bytes.try_reserve(room).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // The file may grow while it is read: a byte beyond the limit shows that it is too large.
    let file = file_pool::open(path)?;
    let before = ReadAt::len(&file)?;
    (&file).take(max.saturating_add(1)).read_to_end(bytes)?;
    if bytes.len() as u64 > max {
        return refused(format!("over {max} bytes, the limit"));
    }
    refuse_cut(&file, before, bytes.len() as u64)
}
