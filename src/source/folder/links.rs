//! Symbolic links in a folder: how they are treated, and the counts of how they were treated.
//!
//! | link to                                  | [`Links::Follow`]  | [`Links::Within`]      | [`Links::Refuse`] |
//! |------------------------------------------|--------------------|------------------------|-------------------|
//! | a file, a directory                      | followed           | followed in the folder | left out          |
//! | a directory that contains the link itself | left out: a loop   | left out: a loop       | left out          |
//! | nothing                                  | left out           | left out               | left out          |
//! | a pipe, a socket, a device               | left out, unopened | left out, unopened     | left out          |
//!
//! `Follow` does what torchvision's `os.walk(followlinks=True)` does: a directory that two links lead to
//! is read twice. But torchvision walks a loop of links until the system refuses a path of forty links.

use std::fmt;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

/// The treatment of symbolic links below a folder, and of those that the paths of a table lead to or through. The folder itself
/// may always be a link.
///
/// ```no_run
/// use fuseloop::source::{Folder, FolderOptions, Links};
///
/// let folder = Folder::open("uploads", &FolderOptions::default().links(Links::Refuse))?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Links are followed wherever they lead, as torchvision follows them.
    #[default]
    Follow,
    /// Links that stay within the folder are followed; others are ignored, with the reason.
    Within,
    /// Links are ignored, with the reason.
    Refuse,
}

/// The numbers of symbolic links in a folder, by their treatment.
///
/// ```
/// use fuseloop::source::LinkCounts;
///
/// let mut links = LinkCounts::default();
/// (links.followed, links.loops) = (1000, 1);
/// assert_eq!(links.to_string(), "1000 links followed, 1 loop left out");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkCounts {
    /// Links that were followed.
    pub followed: u64,
    /// Directories that were left out because they contain themselves.
    pub loops: u64,
    /// Links that lead to nothing that can be read.
    pub lost: u64,
    /// Links that lead out of the folder, with [`Links::Within`].
    pub outside: u64,
    /// Links that were not followed, with [`Links::Refuse`].
    pub refused: u64,
}

impl LinkCounts {
    /// Adds the counts of another subtree of the folder.
    pub(super) fn add(&mut self, more: Self) {
        self.followed += more.followed;
        self.loops += more.loops;
        self.lost += more.lost;
        self.outside += more.outside;
        self.refused += more.refused;
    }

    /// Counts a link that is left out.
    pub(super) fn left_out(&mut self, why: NotFollowed) {
        match why {
            NotFollowed::Refused => self.refused += 1,
            NotFollowed::Lost => self.lost += 1,
            NotFollowed::Outside => self.outside += 1,
        }
    }

    /// Returns whether there was no link at all.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Shows `1000 links followed, 1 loop left out`; nothing if there was no link.
impl fmt::Display for LinkCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { followed, loops, lost, outside, refused } = *self;
        let counts = [
            (followed, "link", " followed"),
            (loops, "loop", " left out"),
            (lost, "link", " to nothing left out"),
            (outside, "link", " out of the folder left out"),
            (refused, "link", " refused"),
        ];
        let mut separator = "";
        for (count, noun, what) in counts.into_iter().filter(|(count, ..)| *count > 0) {
            let plural = if count == 1 { "" } else { "s" };
            write!(f, "{separator}{count} {noun}{plural}{what}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Why a link is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFollowed {
    Refused,
    Lost,
    Outside,
}

impl NotFollowed {
    /// Returns the reason in words.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Refused => "a link",
            Self::Lost => "unreadable, or a link to nothing",
            Self::Outside => "a link out of the folder",
        }
    }
}

impl Links {
    /// Returns the path that a link leads to, and its file type. `roots` are the directories that
    /// [`Links::Within`] stays in, without links in their paths.
    pub(super) fn follow(
        self,
        link: &Path,
        roots: &[PathBuf],
    ) -> Result<(PathBuf, FileType), NotFollowed> {
        if self == Self::Refuse {
            return Err(NotFollowed::Refused);
        }
        let real = fs::canonicalize(link).map_err(|_| NotFollowed::Lost)?;
        if self == Self::Within && !roots.iter().any(|root| real.starts_with(root)) {
            return Err(NotFollowed::Outside);
        }
        let found = fs::metadata(&real).map_err(|_| NotFollowed::Lost)?;
        Ok((real, found.file_type()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_said_in_words() {
        let mut counts = LinkCounts { followed: 1000, loops: 1, ..LinkCounts::default() };
        assert_eq!(counts.to_string(), "1000 links followed, 1 loop left out");
        let why = [NotFollowed::Lost, NotFollowed::Outside, NotFollowed::Refused];
        why.into_iter().for_each(|why| counts.left_out(why));
        counts.add(LinkCounts { refused: 8, loops: 1, ..LinkCounts::default() });
        assert_eq!(
            counts.to_string(),
            "1000 links followed, 2 loops left out, 1 link to nothing left out, \
             1 link out of the folder left out, 9 links refused"
        );
        assert!(!counts.is_empty() && LinkCounts::default().to_string().is_empty());
    }
}
