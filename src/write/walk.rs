//! A walk over a folder's directories: links are followed, and each directory is read once, however
//! many links lead to it, so that no loop of links is endless.
//!
//! What a directory holds comes sorted by the bytes of the names. Names that begin with a dot are
//! passed over.

use super::list::{Ignored, ListError};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A walk, and what it has come by.
pub(super) struct Walk {
    /// Why a regular file is not wanted.
    refuses: fn(&Path) -> Option<&'static str>,
    /// The directories that were read, without links in their paths.
    pub(super) seen: BTreeSet<PathBuf>,
    pub(super) ignored: Ignored,
}

/// What one directory holds.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) files: Vec<PathBuf>,
    pub(super) dirs: Vec<PathBuf>,
}

impl Walk {
    /// A walk that ignores the files that `refuses` gives a reason against.
    pub(super) fn new(refuses: fn(&Path) -> Option<&'static str>) -> Self {
        Self { refuses, seen: BTreeSet::new(), ignored: Ignored::default() }
    }

    /// The files of a directory and of all below it, sorted by path.
    pub(super) fn below(&mut self, dir: PathBuf) -> Result<Vec<PathBuf>, ListError> {
        let mut files = Vec::new();
        // A stack of our own: directories may be nested deeper than a thread's.
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            let listing = self.list(&dir)?;
            files.extend(listing.files);
            open.extend(listing.dirs);
        }
        files.sort_by(|a, b| bytes(a).cmp(bytes(b)));
        Ok(files)
    }

    /// What a directory holds; nothing if it was read before.
    pub(super) fn list(&mut self, dir: &Path) -> Result<Listing, ListError> {
        let mut listing = Listing::default();
        let real = fs::canonicalize(dir).map_err(ListError::io(dir))?;
        if !self.seen.insert(real) {
            self.ignored.add(dir.to_owned(), "a directory that was read already, by another path");
            return Ok(listing);
        }
        let mut paths = Vec::new();
        for entry in fs::read_dir(dir).map_err(ListError::io(dir))? {
            let entry = entry.map_err(ListError::io(dir))?;
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                paths.push(entry.path());
            }
        }
        paths.sort_by(|a, b| bytes(a).cmp(bytes(b)));
        for path in paths {
            self.sort_in(path, &mut listing);
        }
        Ok(listing)
    }

    fn sort_in(&mut self, path: PathBuf, listing: &mut Listing) {
        // Follows links, opens nothing: a pipe would block.
        match fs::metadata(&path) {
            Err(_) => self.ignored.add(path, "unreadable, or a link to nothing"),
            Ok(found) if found.is_dir() => listing.dirs.push(path),
            Ok(found) if !found.is_file() => self.ignored.add(path, "not a regular file"),
            Ok(_) => match (self.refuses)(&path) {
                Some(reason) => self.ignored.add(path, reason),
                None => listing.files.push(path),
            },
        }
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
