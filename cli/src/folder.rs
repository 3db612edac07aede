//! Shared by the commands that open a folder: the option for links, and the report on them.

use super::print::count;
use super::problem::Problem;
use clap::ValueEnum;
use fuseloop::internals::source::open_dataset;
use fuseloop::source::{Dataset, FolderOptions, LinkCounts, Links};
use std::fmt::Write as _;
use std::path::Path;

/// How a folder is read.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct InFolder {
    /// What becomes of symbolic links in a folder.
    #[arg(long, value_enum, default_value_t = OnLink::Follow)]
    links: OnLink,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnLink {
    /// Follow them, wherever they lead, as torchvision does; loops are left out.
    Follow,
    /// Follow them where they stay within the folder.
    Within,
    /// Leave them out.
    Refuse,
}

impl InFolder {
    pub(super) fn links(self) -> Links {
        match self.links {
            OnLink::Follow => Links::Follow,
            OnLink::Within => Links::Within,
            OnLink::Refuse => Links::Refuse,
        }
    }

    pub(super) fn options(self) -> FolderOptions {
        FolderOptions::default().links(self.links())
    }

    /// Opens a dataset of any kind.
    pub(super) fn open(self, name: impl AsRef<Path>) -> Result<Dataset, Problem> {
        Ok(open_dataset(name.as_ref(), &self.options())?)
    }
}

/// Adds how the links in a folder were treated, if there are any.
pub(super) fn add_links(text: &mut String, links: &LinkCounts) {
    if *links != LinkCounts::default() {
        let _ = writeln!(text, "{links}");
    }
}

/// Adds how links were treated, and the number of files that are no samples.
pub(super) fn add_folder(text: &mut String, links: &LinkCounts, ignored: u64) {
    add_links(text, links);
    if ignored > 0 {
        let noun = if ignored == 1 { "other name" } else { "other names" };
        let _ = writeln!(text, "{} {noun} ignored", count(ignored));
    }
}
