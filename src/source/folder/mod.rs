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

mod error;
mod layout;
mod links;
#[cfg_attr(not(feature = "write"), allow(dead_code, reason = "only a writer needs a whole list"))]
mod list;
mod names;
mod numbers;
mod saved;
mod table;
#[cfg(test)]
mod tests;
mod walk;

pub use error::ListError;
pub use links::{LinkCounts, Links};
pub use list::Ignored;
#[cfg(any(test, feature = "write"))]
pub(crate) use list::ImageList;
#[cfg(feature = "write")]
pub(crate) use list::Labelled;
#[cfg(feature = "write")]
pub(crate) use list::is_jpeg_name;
pub(crate) use walk::Rules;
#[cfg(feature = "write")]
pub(crate) use walk::{FolderWalk, PendingDir};

use super::error::FileError;
use super::{
    BoxError, Buffer, ClassNames, ClassTable, EncodedImage, Escaped, FOLDER_FILE_NAME, FieldKind,
    FieldSpec, Fingerprint, ImageMode, OwnedImage, OwnedValue, ReadAt, Record, SampleLocation,
    Source, Value, atomic_file, refuse_cut,
};
use crate::cancel::CancelFlag;
use crate::error::Error;
use crate::sample::{Limits, SampleId};
use layout::ListedFiles;
use list::other_than_image;
use names::Names;
use numbers::ClassNumbers;
use saved::Saved;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use table::{InFolder, PathTable, TableColumn};

/// Options for opening a [`Folder`].
///
/// ```no_run
/// use fuseloop::source::{Folder, FolderOptions, Links};
///
/// // The listing is saved when the folder is opened first, and read afterwards.
/// let options = FolderOptions::default().links(Links::Within).listing("train.listing");
/// let folder = Folder::open("imagenet/train", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FolderOptions {
    links: Links,
    listing: Option<PathBuf>,
    pub(super) limits: Limits,
    cancel: CancelFlag,
}

impl FolderOptions {
    /// Sets how symbolic links are treated. By default they are followed.
    #[must_use]
    pub fn links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// Sets the path of a [saved](Folder::save_listing) listing. The listing is used instead of a search
    /// if no directory has changed since the folder was searched, nor in the two seconds before.
    /// Otherwise, or if there is no such file, the folder is searched again. Opening a folder never
    /// writes the file. Tables and patterns have no listing.
    #[must_use]
    pub fn listing(mut self, path: impl Into<PathBuf>) -> Self {
        self.listing = Some(path.into());
        self
    }

    /// Sets the path of a saved listing, unless one is set.
    pub(super) fn listing_or(mut self, path: PathBuf) -> Self {
        self.listing.get_or_insert(path);
        self
    }

    /// Sets a flag that ends the search of a folder.
    pub(crate) fn cancel(mut self, cancel: CancelFlag) -> Self {
        self.cancel = cancel;
        self
    }

    /// Sets the limits on the files and on their number.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

/// A dataset of image files and their labels.
///
/// | opened                                  | fields                                       |
/// |-----------------------------------------|----------------------------------------------|
/// | a folder: `ImageFolder`'s, or a flat one | `image`, `label`: the number of the class   |
/// | a pattern: `data/**/*.jpg`              | `image`, `label`: the folder a file is in    |
/// | a `.csv`, `.tsv` or `.jsonl` table      | `image`, and one for each column             |
/// | a folder with a `metadata.jsonl` or `metadata.csv` that has the column `file_name`, as Hugging Face's `imagefolder` | those of the table |
///
/// Images are JPEG and PNG files, recognized by their first bytes. Classes are numbered in the byte order of
/// their names. A file of a folder is a sample if its
/// extension is jpg, jpeg or png in any case and its name does not begin with a dot; the order within a
/// class is torchvision's: directory by directory.
///
/// ```no_run
/// use fuseloop::source::{Folder, FolderOptions, Source};
///
/// let folder = Folder::open("imagenet/train", &FolderOptions::default())?;
/// println!("{} images", folder.len());
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub struct Folder {
    name: String,
    /// The folder that all paths are relative to.
    root: PathBuf,
    names: Names,
    fields: Vec<FieldSpec>,
    /// The values of the fields after the image.
    columns: Vec<TableColumn>,
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
}

/// The content of a saved listing besides the files.
struct Scanned {
    begun: i64,
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
        Ok(Self::list(spec.as_ref(), options)?)
    }

    fn list(path: &Path, options: &FolderOptions) -> Result<Self, ListError> {
        let folder = match path.to_str() {
            _ if path.is_dir() => match InFolder::find(path, options.links)? {
                Some((table, inside)) => Self::of_table(&table, Some(&inside), options)?,
                None => Self::of_folder(path, options)?,
            },
            _ if table::is_table(path) => Self::of_table(path, None, options)?,
            Some(text) if text.contains(['*', '?', '[', '{']) || text.contains("::") => {
                let list = layout::of_pattern(text, options.links, other_than_image)?;
                let numbered = ClassNumbers::by_order(&list.classes);
                Self::of_listed(path, PathBuf::new(), list, numbered, options)
            }
            _ => return Err(no_dataset(path)),
        };
        let (count, max) = (folder.len(), options.limits.max_samples);
        if count > max {
            let what = format!("{count} images");
            return Err(ListError::Limit { path: path.to_owned(), what, max });
        }
        Ok(folder)
    }

    fn of_folder(path: &Path, options: &FolderOptions) -> Result<Self, ListError> {
        let begun = walk::nanoseconds(SystemTime::now());
        let real = fs::canonicalize(path).map_err(ListError::io(path))?;
        let saved = match &options.listing {
            Some(listing) => Saved::read(listing, &options.limits)?,
            None => None,
        };
        let saved = saved.filter(|saved| saved.root == real && saved.links == options.links);
        let (list, begun) = match saved {
            Some(saved) if saved.still_holds()? => (saved.list, saved.begun),
            _ => {
                let rules = Rules::new(other_than_image, options.links, vec![real]);
                let rules = rules.cancel(&options.cancel);
                (layout::of_folder(path, &rules)?, begun)
            }
        };
        let mut list = list;
        let numbered = ClassNumbers::in_folder(path, &list.classes, &list.labels)?;
        numbered.relabel(&mut list.labels);
        let classes = list.classes.iter().cloned().zip(numbered.numbers.iter().copied()).collect();
        let scanned = Scanned { begun, links: options.links, classes };
        let folder = Self::of_listed(path, path.to_owned(), list, numbered, options);
        Ok(Self { origin: Some(path.to_owned()), scanned: Some(scanned), ..folder })
    }

    fn of_listed(
        spec: &Path,
        root: PathBuf,
        list: ListedFiles,
        numbered: ClassNumbers,
        options: &FolderOptions,
    ) -> Self {
        let ListedFiles { names, labels, ignored, links, .. } = list;
        let columns = vec![("label".to_owned(), TableColumn::Int(labels))];
        let table = PathTable { names, columns, classes: numbered };
        Self { ignored, links, ..Self::of(spec, root, table, options) }
    }

    fn of_table(
        path: &Path,
        inside: Option<&InFolder>,
        options: &FolderOptions,
    ) -> Result<Self, ListError> {
        let mut table = PathTable::read(path, inside, &options.limits)?;
        let root = path.parent().unwrap_or(Path::new("")).to_owned();
        if table.classes.names.is_none() {
            let names = ClassTable::read(&root.join(FOLDER_FILE_NAME))?;
            table.classes.names = names.map(|table| table.names());
        }
        Ok(Self { origin: Some(path.to_owned()), ..Self::of(path, root, table, options) })
    }

    fn of(spec: &Path, root: PathBuf, table: PathTable, options: &FolderOptions) -> Self {
        let PathTable { names, columns, classes } = table;
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let mut fields = vec![field("image", FieldKind::RgbImage)];
        fields.extend(columns.iter().map(|(name, column)| field(name, column.kind())));
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
            name: Escaped(&spec.to_string_lossy()).to_string(),
            root,
            names,
            fields,
            columns: columns.into_iter().map(|(_, column)| column).collect(),
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
    /// printable. [`Source::class_names`] has the numbers too. Empty if a table gave numbers.
    pub(crate) fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the files that are not samples, with the reasons. A saved listing has only their number.
    pub(crate) fn ignored(&self) -> &Ignored {
        &self.ignored
    }

    /// Returns how the symbolic links in the folder were treated.
    pub(crate) fn links(&self) -> LinkCounts {
        self.links
    }

    /// Returns the path of a sample's image.
    pub(crate) fn file(&self, sample: SampleId) -> Option<PathBuf> {
        Some(self.root.join(self.names.path(usize::try_from(sample.0).ok()?)?))
    }

    /// Saves the files that were found in the folder, and the time when each directory was last changed,
    /// for [`FolderOptions::listing`]. The file appears whole or not at all.
    ///
    /// # Errors
    ///
    /// Fails with the system's error, and for a table, a folder with a table and a pattern, which have nothing to save.
    pub fn save_listing(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let file = || Escaped(&path.to_string_lossy()).to_string();
        Ok(self.save(path).map_err(|error| FileError { file: file(), error })?)
    }

    fn save(&self, path: &Path) -> io::Result<()> {
        let (Some(scanned), [TableColumn::Int(labels)]) = (&self.scanned, &self.columns[..]) else {
            let reason =
                "only the listing of a folder without a table can be saved, and a table needs none";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        let root = fs::canonicalize(&self.root)?;
        let Scanned { begun, links, classes } = scanned;
        // The labels are numbers from `classes.json`, which may change while no directory does, so the
        // listing stores the indices of classes.
        let indices =
            (0..).zip(classes).filter_map(|(index, (_, number))| Some(((*number)?, index)));
        let indices: HashMap<i64, u32> = indices.collect();
        let labels = labels.iter().map(|label| indices.get(label).copied().unwrap_or_default());
        let names = classes.iter().map(|(name, _)| &**name);
        let bytes = saved::bytes(
            &root,
            (*begun, *links),
            &self.names,
            (&labels.collect::<Vec<u32>>(), &names.collect::<Vec<&str>>()),
            (self.ignored.count, &self.links),
        );
        atomic_file::write(path, &bytes)
    }

    /// Reads a sample's image file.
    fn load(&self, sample: SampleId, bytes: &mut Vec<u8>) -> Result<(), BoxError> {
        let path = self.file(sample).ok_or_else(|| format!("sample {sample} does not exist"))?;
        let read = read_file(&path, self.limits.max_sample_bytes, bytes);
        let file = || Escaped(&path.to_string_lossy()).to_string();
        Ok(read.map_err(|error| Error::from(FileError { file: file(), error }))?)
    }

    /// Returns a value of a field that is not the image.
    fn column(&self, sample: SampleId, field: usize) -> Result<Value<'_>, BoxError> {
        let index = usize::try_from(sample.0).unwrap_or(usize::MAX);
        let column = field.checked_sub(1).and_then(|field| self.columns.get(field));
        let column = column.ok_or_else(|| format!("field {field} does not exist"))?;
        let value = match column {
            TableColumn::Int(values) => values.get(index).copied().map(Value::Int),
            TableColumn::Float(values) => values.get(index).copied().map(Value::Float),
            TableColumn::Bytes(texts) => texts.get(index).map(Value::Bytes),
            TableColumn::Json(texts) => texts.get(index).map(Value::Json),
        };
        value.ok_or_else(|| format!("sample {sample} does not exist").into())
    }
}

impl Source for Folder {
    fn fields(&self) -> &[FieldSpec] {
        &self.fields
    }

    fn len(&self) -> u64 {
        self.names.len() as u64
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

    fn name(&self) -> String {
        self.name.clone()
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

    /// Returns the folder or the table, then every image.
    fn paths(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        let images = (0..self.len()).filter_map(|index| self.file(SampleId(index)));
        Box::new(self.origin.clone().into_iter().chain(images))
    }

    fn longest(&self, field: usize) -> Option<u64> {
        match self.columns.get(field.checked_sub(1)?)? {
            TableColumn::Bytes(texts) | TableColumn::Json(texts) => Some(texts.longest()),
            TableColumn::Int(_) | TableColumn::Float(_) => None,
        }
    }

    fn is_cheap_to_read_again(&self) -> bool {
        true
    }

    fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        Ok(self.class_names.clone())
    }

    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        let key = self.names.path(usize::try_from(sample.0).ok()?)?;
        let file = self.root.join(&key);
        Some(SampleLocation::in_file(file.to_string_lossy(), Some(key.to_string_lossy().into())))
    }

    fn fingerprint(&self) -> u64 {
        self.print
    }
}

/// Shows no files: there may be a million.
impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Folder");
        shown.field("name", &self.name).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Returns the error for a path that is neither a folder nor a table.
fn no_dataset(path: &Path) -> ListError {
    let wanted = "neither a folder nor a .csv, .tsv or .jsonl table";
    let found = fs::metadata(path).err();
    let source = found.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, wanted));
    ListError::Io { path: path.to_owned(), source }
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
    let file = File::open(path)?;
    let before = ReadAt::len(&file)?;
    (&file).take(max.saturating_add(1)).read_to_end(bytes)?;
    if bytes.len() as u64 > max {
        return refused(format!("over {max} bytes, the limit"));
    }
    refuse_cut(&file, before, bytes.len() as u64)
}
