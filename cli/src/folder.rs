//! Shared by the commands that open a folder: the option for links, and the report on them.

use super::problem::Problem;
use clap::ValueEnum;
use fuseloop::internals::source::open_dataset;
use fuseloop::source::{ClassNames, Dataset, FolderOptions, LinkCounts, Links};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The treatment of links in a folder.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct OnLinks {
    /// How to treat symbolic links of folders and tables
    #[arg(long, value_enum, default_value_t = OnLink::Follow)]
    links: OnLink,
}

/// The options for reading a folder or a table.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct InFolder {
    #[command(flatten)]
    links: OnLinks,
    /// Source of the labels: `auto`, `none`, `folder`, `file_name`, or a table column
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    label: String,
    /// Split or subfolder to open, such as `train`
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// File that numbers the classes: one name per line, or a `.classes.json`
    #[arg(long, value_name = "FILE")]
    classes: Option<PathBuf>,
    /// Table column with the paths of the images
    #[arg(long, value_name = "COLUMN")]
    image: Option<String>,
    /// Folder to which the paths in a table are relative [default: the table's folder]
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// Suffix to add to the paths in a table, such as `.jpg`
    #[arg(long)]
    suffix: Option<String>,
    /// Character between the columns of a table, or `tab`
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<char>,
    /// Remove the double quotes around table values [default: true, except in a .tsv]
    #[arg(long, value_name = "BOOL")]
    quotes: Option<bool>,
    /// Read missing numbers in a table as NaN instead of reporting damage
    #[arg(long)]
    missing_as_nan: bool,
    /// True if the images of a folder are frames of videos.
    #[arg(skip)]
    are_frames: bool,
}

/// Parses the character between columns.
fn delimiter(text: &str) -> Result<char, String> {
    match text {
        "tab" | "\\t" => Ok('\t'),
        text => text.parse().map_err(|_| format!("{text:?}: expected one character, or `tab`")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLink {
    /// Follow all links, as torchvision does, and skip loops
    Follow,
    /// Follow only links that stay within the folder
    Within,
    /// Skip all links
    Refuse,
}

impl OnLinks {
    pub(super) fn links(self) -> Links {
        match self.links {
            OnLink::Follow => Links::Follow,
            OnLink::Within => Links::Within,
            OnLink::Refuse => Links::Refuse,
        }
    }
}

impl InFolder {
    pub(super) fn links(&self) -> Links {
        self.links.links()
    }

    /// Returns the options for a folder whose images are frames of videos, or are not.
    pub(super) fn are_frames(&self, are_frames: bool) -> Self {
        Self { are_frames, ..self.clone() }
    }

    /// Returns the name of the split, and the options without it.
    pub(super) fn take_split(&self) -> (Option<&str>, Self) {
        (self.split.as_deref(), Self { split: None, ..self.clone() })
    }

    pub(super) fn options(&self) -> Result<FolderOptions, Problem> {
        let label = self.label.parse().unwrap_or_else(|never: Infallible| match never {});
        let mut options = FolderOptions::default().links(self.links()).label(label);
        options = options.are_frames(self.are_frames);
        if let Some(split) = &self.split {
            options = options.split(split);
        }
        if let Some(file) = &self.classes {
            options = options.classes(ClassNames::open(file)?);
        }
        if let Some(column) = &self.image {
            options = options.image(column);
        }
        if let Some(root) = &self.root {
            options = options.root(root);
        }
        if let Some(suffix) = &self.suffix {
            options = options.suffix(suffix);
        }
        if let Some(delimiter) = self.delimiter {
            options = options.delimiter(delimiter);
        }
        if let Some(quotes) = self.quotes {
            options = options.quotes(quotes);
        }
        Ok(options.missing_as_nan(self.missing_as_nan))
    }

    /// Opens a dataset of any kind.
    pub(super) fn open(&self, name: impl AsRef<Path>) -> Result<Dataset, Problem> {
        Ok(open_dataset(name.as_ref(), &self.options()?)?)
    }
}

/// Adds how the links in a folder were treated, if there are any.
pub(super) fn add_links(text: &mut String, links: &LinkCounts) {
    if *links != LinkCounts::default() {
        let _ = writeln!(text, "{links}");
    }
}
