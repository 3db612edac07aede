//! A walk over a folder's directories. Each directory is read once, however many links lead to it, so
//! that no loop of links is endless.
//!
//! | found                          | is                                                     |
//! |--------------------------------|--------------------------------------------------------|
//! | a name that begins with a dot  | passed over                                            |
//! | a file, a directory            | taken, by what the directory itself says: no `stat`    |
//! | a link                         | as [`Links`] say: what it leads to, or ignored         |
//! | a pipe, a socket, a device     | ignored; nothing is opened                             |
//!
//! What a directory holds comes sorted by the bytes of the names.

use super::list::{Ignored, ListError};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What becomes of symbolic links below a folder. The folder itself may always be one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Followed where they stay within the folder; others are ignored, with the reason.
    #[default]
    Within,
    /// Followed, wherever they lead.
    Follow,
    /// Ignored, with the reason.
    Refuse,
}

/// What a walk takes.
#[derive(Clone)]
pub(crate) struct Rules {
    /// Why a regular file is not wanted.
    pub(crate) refuses: fn(&Path) -> Option<&'static str>,
    /// What becomes of links.
    pub(crate) links: Links,
    /// Where links may lead, without links in their paths.
    pub(crate) roots: Vec<PathBuf>,
}

impl Rules {
    /// Links are followed, wherever they lead.
    pub(crate) fn anywhere(refuses: fn(&Path) -> Option<&'static str>) -> Self {
        Self { refuses, links: Links::Follow, roots: vec![] }
    }

    /// What a link leads to, or why it is not followed.
    pub(super) fn follow(&self, link: &Path) -> Result<FileType, &'static str> {
        const LOST: &str = "unreadable, or a link to nothing";
        if self.links == Links::Refuse {
            return Err("a link");
        }
        let real = fs::canonicalize(link).map_err(|_| LOST)?;
        if self.links == Links::Within && !self.roots.iter().any(|root| real.starts_with(root)) {
            return Err("a link out of the folder");
        }
        Ok(fs::metadata(&real).map_err(|_| LOST)?.file_type())
    }
}

/// A walk, and what it has come by.
pub(crate) struct Walk<'r> {
    rules: &'r Rules,
    /// The directories that were read, without links in their paths.
    pub(crate) seen: BTreeSet<PathBuf>,
    pub(crate) ignored: Ignored,
}

/// What one directory holds, by name.
#[derive(Default)]
pub(crate) struct Listing {
    /// When it was last changed, before it was read: see [`modified`].
    pub(crate) modified: i64,
    pub(crate) files: Vec<OsString>,
    pub(crate) dirs: Vec<OsString>,
}

impl<'r> Walk<'r> {
    /// A walk by such rules.
    pub(crate) fn new(rules: &'r Rules) -> Self {
        Self { rules, seen: BTreeSet::new(), ignored: Ignored::default() }
    }

    /// A directory and all below it, by their paths from `root` on, sorted by these.
    pub(super) fn below(
        &mut self,
        root: &Path,
        dir: PathBuf,
    ) -> Result<Vec<(PathBuf, Listing)>, ListError> {
        let mut found = Vec::new();
        // A stack of our own: directories may be nested deeper than a thread's.
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            let listing = self.list(&root.join(&dir))?;
            open.extend(listing.dirs.iter().rev().map(|name| dir.join(name)));
            found.push((dir, listing));
        }
        found.sort_by(|(a, _), (b, _)| bytes(a).cmp(bytes(b)));
        Ok(found)
    }

    /// What a directory holds; nothing if it was read before.
    pub(crate) fn list(&mut self, dir: &Path) -> Result<Listing, ListError> {
        let real = fs::canonicalize(dir).map_err(ListError::io(dir))?;
        let mut listing = Listing { modified: modified(dir), ..Listing::default() };
        if !self.seen.insert(real) {
            self.ignored.add(dir.to_owned(), "a directory that was read already, by another path");
            return Ok(listing);
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).map_err(ListError::io(dir))? {
            let entry = entry.map_err(ListError::io(dir))?;
            let name = entry.file_name();
            if !name.as_encoded_bytes().starts_with(b".") {
                entries.push((name, entry.file_type()));
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
        for (name, kind) in entries {
            self.sort_in(dir, name, kind.ok(), &mut listing);
        }
        Ok(listing)
    }

    fn sort_in(&mut self, dir: &Path, name: OsString, kind: Option<FileType>, to: &mut Listing) {
        let kind = match kind {
            Some(kind) if kind.is_symlink() => self.rules.follow(&dir.join(&name)),
            Some(kind) => Ok(kind),
            None => Err("unreadable"),
        };
        let refused = match kind {
            Err(reason) => Some(reason),
            Ok(kind) if kind.is_dir() => return to.dirs.push(name),
            Ok(kind) if !kind.is_file() => Some("not a regular file"),
            Ok(_) => (self.rules.refuses)(Path::new(&name)),
        };
        match refused {
            Some(reason) => self.ignored.add(dir.join(name), reason),
            None => to.files.push(name),
        }
    }
}

/// When a file or directory was last changed, in nanoseconds from 1970 on; `i64::MIN` if that can't be
/// known.
pub(super) fn modified(path: &Path) -> i64 {
    fs::metadata(path).and_then(|found| found.modified()).map_or(i64::MIN, nanoseconds)
}

/// A time in nanoseconds from 1970 on.
pub(super) fn nanoseconds(time: SystemTime) -> i64 {
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok();
    since(time).unwrap_or(i64::MIN)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
