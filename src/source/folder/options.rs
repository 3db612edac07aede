//! How a folder or a table is read: its links, its labels, its columns.

use super::links::Links;
use crate::cancel::CancelFlag;
use crate::sample::Limits;
use crate::source::ClassNames;
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Where the labels of a folder or a table come from.
///
/// ```
/// use fuseloop::source::Labels;
///
/// assert_eq!("none".parse(), Ok(Labels::None));
/// assert_eq!("species".parse(), Ok(Labels::Column("species".into())));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// From the class folders, or the column `label`. What would be a guess is refused or warned of.
    #[default]
    Auto,
    /// From nowhere: the dataset has no field `label`.
    None,
    /// From the folders in a folder, whatever they are called.
    Folder,
    /// From the names of the files: the part before the first `_`.
    FileName,
    /// From this column of a table. It becomes the field `label`, and its texts become numbers of classes.
    Column(String),
}

/// `auto`, `none`, `folder` and `file_name` are those; everything else is a column.
impl FromStr for Labels {
    type Err = Infallible;

    fn from_str(word: &str) -> Result<Self, Infallible> {
        Ok(match word {
            "auto" => Self::Auto,
            "none" => Self::None,
            "folder" => Self::Folder,
            "file_name" => Self::FileName,
            column => Self::Column(column.to_owned()),
        })
    }
}

/// Options for opening a [`Folder`](super::Folder).
///
/// ```no_run
/// use fuseloop::source::{Folder, FolderOptions, Labels, Links};
///
/// // The listing is saved when the folder is opened first, and read afterwards.
/// let options = FolderOptions::default().links(Links::Within).listing("train.listing");
/// let folder = Folder::open("imagenet/train", &options)?;
///
/// // id;breed
/// // 000bec18;boston_bull
/// let options = FolderOptions::default().image("id").label(Labels::Column("breed".into()));
/// let table = Folder::open("dogs/labels.csv", &options.root("dogs/train").suffix(".jpg"))?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FolderOptions {
    pub(super) links: Links,
    pub(super) listing: Option<PathBuf>,
    pub(in crate::source) limits: Limits,
    pub(super) cancel: CancelFlag,
    pub(super) label: Labels,
    pub(super) split: Option<String>,
    pub(super) classes: Option<ClassNames>,
    pub(super) table: TableOptions,
    pub(super) are_frames: bool,
}

/// The options of tables alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TableOptions {
    pub(super) image: Option<String>,
    pub(super) root: Option<PathBuf>,
    pub(super) suffix: Option<String>,
    pub(super) delimiter: Option<char>,
    pub(super) quotes: Option<bool>,
    pub(super) missing_as_nan: bool,
}

impl FolderOptions {
    /// Sets how symbolic links are treated. By default they are followed. A line of a table whose file lies behind one that is
    /// not followed is a damaged sample.
    #[must_use]
    pub fn links(mut self, links: Links) -> Self {
        self.links = links;
        self
    }

    /// Sets the path of a [saved](super::Folder::save_listing) listing. The listing is used instead of a search
    /// if no directory has changed since the folder was searched, nor in the two seconds before.
    /// Otherwise, or if there is no such file, the folder is searched again. Opening a folder never
    /// writes the file. Tables and patterns have no listing.
    #[must_use]
    pub fn listing(mut self, path: impl Into<PathBuf>) -> Self {
        self.listing = Some(path.into());
        self
    }

    /// Sets the path of a saved listing, unless one is set.
    pub(in crate::source) fn listing_or(mut self, path: PathBuf) -> Self {
        self.listing.get_or_insert(path);
        self
    }

    /// Sets a flag that ends the search of a folder.
    #[doc(hidden)]
    pub fn cancel(mut self, cancel: CancelFlag) -> Self {
        self.cancel = cancel;
        self
    }

    /// Sets whether images are frames of videos, whose folders are inside of those of the classes. These are then no reason
    /// for a warning.
    #[doc(hidden)]
    #[must_use]
    pub fn are_frames(mut self, are_frames: bool) -> Self {
        self.are_frames = are_frames;
        self
    }

    /// Sets the limits on the files and on their number.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets where the labels come from. By default, class folders and the column `label` have them.
    #[must_use]
    pub fn label(mut self, label: Labels) -> Self {
        self.label = label;
        self
    }

    /// Opens this folder in the folder: the split `train` of a dataset with `train` and `val`.
    #[must_use]
    pub fn split(mut self, split: impl Into<String>) -> Self {
        self.split = Some(split.into());
        self
    }

    /// Sets the numbers of the classes by their names: of a validation set, those of the training set. A class folder
    /// of another name is an error, and so is a number without a class; in a table, damage of the sample. Of Parquet files
    /// whose label is a column of texts, a text of another name is damage of the sample.
    ///
    /// ```no_run
    /// use fuseloop::Loader;
    /// use fuseloop::source::{Dataset, Folder, FolderOptions};
    ///
    /// let train = Loader::open("photos/train")?.build()?;
    /// let options = FolderOptions::default().classes(train.classes()?);
    /// let val = Folder::open("photos/val", &options)?;
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    #[must_use]
    pub fn classes(mut self, names: ClassNames) -> Self {
        self.classes = Some(names);
        self
    }

    /// Sets the column of a table that has the paths of the images or the audio files.
    #[must_use]
    pub fn image(mut self, column: impl Into<String>) -> Self {
        self.table.image = Some(column.into());
        self
    }

    /// Sets the folder that the paths in a table are relative to. By default it is the folder of the table.
    #[must_use]
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.table.root = Some(folder.into());
        self
    }

    /// Sets the ending that the paths in a table lack, such as `.jpg`. By default it is looked for once, if the first
    /// paths have none and are not the names of files.
    #[must_use]
    pub fn suffix(mut self, suffix: impl Into<String>) -> Self {
        self.table.suffix = Some(suffix.into());
        self
    }

    /// Sets the character between the columns of a table. By default it is a comma, in a `.tsv` a tab, or the only
    /// one of `,`, `;`, `|` and the tab that the first line has instead.
    #[must_use]
    pub fn delimiter(mut self, delimiter: char) -> Self {
        self.table.delimiter = Some(delimiter);
        self
    }

    /// Sets whether values in double quotes are read without them. By default they are, but not in a `.tsv`, where a
    /// quote is a character as any other.
    #[must_use]
    pub fn quotes(mut self, quotes: bool) -> Self {
        self.table.quotes = Some(quotes);
        self
    }

    /// If true, a missing number in a table is NaN, and its column floats. By default it is damage of its sample.
    #[must_use]
    pub fn missing_as_nan(mut self, nan: bool) -> Self {
        self.table.missing_as_nan = nan;
        self
    }

    /// Returns whether there are options that only folders and tables have, the numbers of classes apart.
    pub(in crate::source) fn are_of_folders(&self) -> bool {
        self.label != Labels::Auto || self.table != TableOptions::default()
    }

    /// Returns whether some links are not followed.
    pub(in crate::source) fn links_are_restricted(&self) -> bool {
        self.links != Links::Follow
    }

    /// Returns the numbers of the classes.
    pub(in crate::source) fn class_numbers(&self) -> Option<&ClassNames> {
        self.classes.as_ref()
    }

    /// Returns the name of the split, and the options without it.
    pub(in crate::source) fn take_split(&self) -> (Option<&str>, Self) {
        (self.split.as_deref(), Self { split: None, ..self.clone() })
    }
}
