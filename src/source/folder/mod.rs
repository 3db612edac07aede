//! Folders of image, audio or video files in the layout of torchvision's `ImageFolder`, and tables of files and labels.
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
pub(crate) use walk::{FolderWalk, PendingDir, Rules};

use super::columnar::{self, Columnar, Damage, Files, Values};
use super::media::{self, Media};
use super::names::Names;
use super::{
    BoxError, Buffer, ClassTable, Escaped, FOLDER_FILE_NAME, Facts, Fingerprint, Record,
    SampleLocation, Source, StoredValues, Value, atomic_file,
};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::SampleId;
use crate::warnings::warn;
use column::{Flaw, Flaws, TableColumn};
use layout::{LabelRule, ListedFiles};
use numbers::ClassNumbers;
use saved::Saved;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use table::{InFolder, MOST_TRIED, PathTable};

/// A dataset of image, audio or video files, and their labels.
///
/// | opened                                  | fields                                       |
/// |-----------------------------------------|----------------------------------------------|
/// | a folder: `ImageFolder`'s, or a flat one | `image`, `label`: the number of the class   |
/// | a pattern: `data/**/*.jpg`              | `image`, `label`: the folder a file is in    |
/// | one image, or a list `a.jpg::b.jpg` of one folder | `image`                             |
/// | a `.csv`, `.tsv` or `.jsonl` table      | `image`, and one for each column             |
/// | a folder with a `metadata.jsonl` or `metadata.csv` that has the column `file_name`, as Hugging Face's `imagefolder` | those of the table |
///
/// Audio files (wav, flac, ogg, mp3) have `audio` as their first field: the bytes of a file, which
/// [`LoaderBuilder::audio`](crate::LoaderBuilder::audio) decodes. Video files (avi, mp4, m4v, mov, mkv, webm) have `video`, of
/// which [`LoaderBuilder::clips`](crate::LoaderBuilder::clips) loads frames. A dataset has files of one kind.
///
/// Labels that would be a guess are refused, and [`FolderOptions::label`] says where they come from.
///
/// Images are JPEG and PNG files, recognized by their first bytes. Classes are numbered in the byte order of
/// their names. A file of a folder is a sample if its
/// extension is one of a format that is read, in any case, and its name does not begin with a dot; the order within a
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
    columns: Columnar,
    classes: Vec<String>,
    ignored: Ignored,
    links: LinkCounts,
    /// True for a table, and for a folder with one.
    is_table: bool,
    /// How the folder was searched; `None` for a table or a pattern, which can't be saved.
    scanned: Option<Scanned>,
    /// The numbers of the classes that were listed, in their order.
    listed_numbers: Vec<Option<i64>>,
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
        if folder.is_table {
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
            Some(text) if is_pattern(text) || media::why_not(path).is_none() && path.is_file() => {
                let list = layout::of_pattern(text, options.links, media::why_not, &options.label)?;
                Self::of_listed(path, None, list, options)?
            }
            _ => return Err(no_dataset(path)),
        };
        let (count, max) = (folder.len(), options.limits.max_samples);
        if count > max {
            let files = folder.files().media.nouns();
            return Err(fail!(Memory, "{count} {files}, the limit is {max}").at(path));
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
                let rules = Rules::new(media::why_not, options.links, vec![real]);
                let rules =
                    Rules { are_frames: options.are_frames, ..rules.cancel(&options.cancel) };
                (layout::of_folder(path, &rules, &options.label)?, begun)
            }
        };
        let (labelled_by, names) = (list.labelled_by, list.classes.clone());
        let folder = Self::of_listed(path, Some(path), list, options)?;
        let numbers = folder.listed_numbers.iter().copied();
        let classes = names.into_iter().zip(numbers).collect();
        let scanned = Scanned { begun, labelled_by, links: options.links, classes };
        Ok(Self { scanned: Some(scanned), ..folder })
    }

    /// Numbers the classes of files, and warns of files that were left out. `root` is the folder that was searched.
    fn of_listed(
        spec: &Path,
        root: Option<&Path>,
        list: ListedFiles,
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        let ListedFiles { names, media, mut labels, classes, ignored, links, labelled_by, .. } =
            list;
        let numbered = match &options.classes {
            _ if labelled_by == LabelRule::None => ClassNumbers::default(),
            Some(given) => ClassNumbers::set(spec, &classes, &labels, given)?,
            None => match root {
                Some(root) => ClassNumbers::in_folder(root, &classes, &labels)?,
                None => ClassNumbers::by_order(&classes),
            },
        };
        numbered.relabel(&mut labels);
        let name = Escaped(&spec.to_string_lossy()).to_string();
        let unread = match media {
            Media::Image => ignored.pictures(),
            Media::Audio => ignored.unread_audio(),
            Media::Video => ignored.unread_videos(),
        };
        if let Some(unread) = unread {
            warn(format_args!("{name}: {unread}"));
        }
        if ignored.beside > 0 {
            let (lies, are) = if ignored.beside == 1 { ("lies", "is") } else { ("lie", "are") };
            let (noun, nouns) = (media.noun(ignored.beside), media.nouns());
            warn(format_args!(
                "{name}: {} {noun} {lies} next to the class folders and {are} not read: move them into a class folder, or set \
                 `label` to `none` to open all {nouns} without labels",
                ignored.beside
            ));
        }
        let listed_numbers = numbered.numbers.clone();
        let columns = match labelled_by {
            LabelRule::None => vec![],
            _ => vec![("label".to_owned(), TableColumn::ints(labels))],
        };
        let table = PathTable { media, names, columns, classes: numbered, flaws: Flaws::new() };
        let folder = Self::of(spec, root.unwrap_or(Path::new("")).to_owned(), root, table, options);
        Ok(Self { ignored, links, listed_numbers, ..folder })
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
        Ok(Self { is_table: true, ..Self::of(path, root, Some(path), table, options) })
    }

    /// Opens the columns of a table that is no file, such as a data frame: their names, and their values as the text of a
    /// JSON list. Errors call it `name`.
    ///
    /// # Errors
    ///
    /// As for the table of a file.
    #[doc(hidden)]
    pub fn of_columns(
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
        let folder = Self::of(path, root, None, table, options);
        folder.check_files(options)?;
        Ok(folder)
    }

    /// Refuses a table none of whose first files exists: its paths are relative to another folder, or are no paths. A file
    /// that is missing among others is damage of its sample.
    fn check_files(&self, options: &FolderOptions) -> Result<(), Error> {
        let is_good = |sample: &SampleId| !self.columns.damaged.contains_key(&(sample.0 as usize));
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
                    (&self.facts().name, table::root_advice(&self.files().root, tried, options));
                Err(fail!(
                    NotFound,
                    "{table}: the files that it lists do not exist, such as {tried:?}: {advice}"
                )
                .named_path(tried))
            }
            _ => Ok(()),
        }
    }

    /// Returns the dataset of a table. `origin` is the folder that was searched, or the file of the table.
    fn of(
        spec: &Path,
        root: PathBuf,
        origin: Option<&Path>,
        table: PathTable,
        options: &FolderOptions,
    ) -> Self {
        let PathTable { media, names, mut columns, classes, flaws } = table;
        let file = origin.unwrap_or(spec);
        let damaged = |flaws: Flaws, is_of_line: bool| {
            let damage = |(sample, Flaw { line, reason })| {
                let (file, reason) = (file.to_owned(), format!("line {line}: {reason}"));
                (sample, Damage { file, reason, key: is_of_line.then(|| format!("line {line}")) })
            };
            flaws.into_iter().map(damage).collect()
        };
        let files = Files { media, root, names: Arc::new(names) };
        let names = Arc::clone(&files.names);
        let mut all = vec![(media.field(), Values::Files(files).into())];
        all.extend(columns.iter_mut().map(|(name, TableColumn { values, flaws })| {
            let (values, damaged) = (mem::take(values), damaged(mem::take(flaws), false));
            (&**name, columnar::Column { values, damaged })
        }));
        let columns = Columnar::new(all, names.len() as u64, vec![]);
        // The folder or the table, then every file.
        let mut columns = columns.with_paths(origin.into_iter().map(Path::to_owned).collect());
        let mut print = Fingerprint::default();
        print.text("folder");
        print.fields(&columns.facts.fields);
        for index in 0..names.len() {
            if let Some((dir, name)) = names.dir_and_name(index) {
                print.number(dir as u64);
                print.bytes(name);
            }
        }
        names.dirs.iter().for_each(|dir| print.text(&dir.path.to_string_lossy()));
        // The classes, and the values of a table.
        columns.hash_values(&mut print);
        columns.facts.name = Escaped(&spec.to_string_lossy()).to_string();
        columns.facts.fingerprint = print.value();
        let class_names = classes.names;
        columns.facts = columns.facts.with_class_names(move || Ok(class_names.clone()));
        if media == Media::Audio {
            columns.facts = columns.facts.with_audio([(0, one_extension(&names))]);
        }
        if media == Media::Video {
            columns.facts = columns.facts.with_videos([0]);
        }
        columns.damaged = damaged(flaws, true);
        columns.most_bytes = options.limits.max_sample_bytes;
        Self {
            columns,
            classes: classes.shown,
            ignored: Ignored::default(),
            links: LinkCounts::default(),
            is_table: false,
            scanned: None,
            listed_numbers: vec![],
        }
    }

    /// Returns the files of the samples.
    fn files(&self) -> &Files {
        self.columns.files(0).expect("the first column has the files")
    }

    /// Returns the names of the classes in the order of their numbers, escaped where they are not
    /// printable. [`Facts::class_names`] has the numbers too. Empty if a table gave numbers.
    #[doc(hidden)]
    pub fn classes(&self) -> &[String] {
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
    #[doc(hidden)]
    pub fn links(&self) -> LinkCounts {
        self.links
    }

    /// Returns the number of files.
    pub(crate) fn len(&self) -> u64 {
        self.columns.facts.samples
    }

    /// Returns the path of a sample's file; `None` for a line of a table without one.
    pub(crate) fn file(&self, sample: SampleId) -> Option<PathBuf> {
        self.files().path(usize::try_from(sample.0).ok()?)
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
        let files = self.files();
        let none = vec![0; files.names.len()];
        let (Some(scanned), [_, columns @ ..]) = (&self.scanned, &self.columns.columns[..]) else {
            let reason =
                "only the listing of a folder without a table can be saved, and a table needs none";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        };
        let labels = match columns.first().map(|column| &column.values) {
            Some(Values::Ints(labels)) => labels,
            _ => &none,
        };
        let root = fs::canonicalize(&files.root)?;
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
            &files.names,
            (&labels.collect::<Vec<u32>>(), &names.collect::<Vec<&str>>()),
            (&self.ignored, &self.links),
        );
        atomic_file::write(path, &bytes)
    }
}

impl Source for Folder {
    fn facts(&self) -> &Facts {
        &self.columns.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.columns.read(sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.columns.value(sample, field, buffer)
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.columns.locate(sample, field)
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        self.columns.stored()
    }
}

/// Shows no files: there may be a million.
impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder").field("facts", self.facts()).finish_non_exhaustive()
    }
}

/// Returns the extension of the format that all audio files have by their names; `None` if they differ.
fn one_extension(names: &Names) -> Option<&'static str> {
    let mut all = (0..names.len()).map(|index| names.audio_extension(index));
    let first = all.next().flatten()?;
    all.all(|one| one == Some(first)).then_some(first)
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
