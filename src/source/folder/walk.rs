//! A walk over a folder's directories: the one order of files that everything goes by.
//!
//! | found                          | is                                                     |
//! |--------------------------------|--------------------------------------------------------|
//! | a name that begins with a dot  | ignored, and counted                                   |
//! | a file, a directory            | taken, by what the directory itself says: no `stat`    |
//! | a link                         | as [`Links`] say: what it leads to, or ignored         |
//! | a directory that holds itself  | ignored: a loop                                        |
//! | a pipe, a socket, a device     | ignored; nothing is opened                             |
//!
//! The files of a directory come sorted by the bytes of their names, the directories below another by
//! the bytes of their paths: torchvision's `sorted(os.walk(dir, followlinks=True))`, which compares the
//! paths as texts, so that `a/b-c` stands before `a/b/d`.
//!
//! A directory that several links lead to is read for each. A loop is a directory whose real path is
//! that of one it was reached through. Links that lead to each other across can make of n directories
//! 2^n paths without a loop: [`MOST_LINKED`] ends such a walk.

use super::error::ListError;
use super::links::{LinkCounts, Links};
use super::list::Ignored;
use std::ffi::OsString;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most directories that one walk reads behind links.
const MOST_LINKED: u64 = 1 << 20;

/// What a walk takes.
#[derive(Clone)]
pub(crate) struct Rules {
    /// Why a regular file is not wanted.
    pub(crate) refuses: fn(&Path) -> Option<&'static str>,
    /// What becomes of links.
    pub(crate) links: Links,
    /// Where links may lead, without links in their paths: for [`Links::Within`].
    pub(super) roots: Vec<PathBuf>,
    /// Most directories behind links.
    pub(super) most_linked: u64,
}

impl Rules {
    /// The rules for the folders `roots`, whose paths have no links in them.
    pub(crate) fn new(
        refuses: fn(&Path) -> Option<&'static str>,
        links: Links,
        roots: Vec<PathBuf>,
    ) -> Self {
        Self { refuses, links, roots, most_linked: MOST_LINKED }
    }
}

/// A walk, and what it has come by.
pub(crate) struct Walk<'r> {
    rules: &'r Rules,
    pub(crate) ignored: Ignored,
    pub(crate) links: LinkCounts,
    /// Directories read behind links.
    linked: u64,
}

/// A directory that is to be read.
#[derive(Clone)]
pub(crate) struct Dir {
    /// From the folder on; empty for the folder itself.
    pub(crate) path: PathBuf,
    way: Arc<Way>,
}

/// The directories that a directory was reached through.
struct Way {
    /// The directory's path without links in it.
    real: PathBuf,
    /// Whether there is a link on the way to it.
    is_linked: bool,
    above: Option<Arc<Way>>,
}

/// What one directory holds, by name.
pub(crate) struct Listing {
    /// The directory, from the folder on.
    pub(crate) path: PathBuf,
    /// The same without links in its path.
    pub(crate) real: PathBuf,
    /// When it was last changed, before it was read: see [`modified`].
    pub(crate) modified: i64,
    pub(crate) files: Vec<OsString>,
    pub(crate) dirs: Vec<Dir>,
}

impl Dir {
    /// The folder that a walk begins at, by its path without links.
    pub(crate) fn root(real: PathBuf) -> Self {
        let way = Way { real, is_linked: false, above: None };
        Self { path: PathBuf::new(), way: Arc::new(way) }
    }

    /// Returns the directory called `name` in this one. `real` is where it lies if it is a link.
    fn below(&self, name: &OsString, real: Option<PathBuf>) -> Self {
        let is_linked = self.way.is_linked || real.is_some();
        let real = real.unwrap_or_else(|| self.way.real.join(name));
        let way = Way { real, is_linked, above: Some(Arc::clone(&self.way)) };
        Self { path: self.path.join(name), way: Arc::new(way) }
    }

    /// Returns whether it is one of the directories that it was reached through.
    fn is_loop(&self) -> bool {
        let above = |way: &Arc<Way>| way.above.clone();
        let mut ways = std::iter::successors(above(&self.way), above);
        self.way.is_linked && ways.any(|way| way.real == self.way.real)
    }
}

impl<'r> Walk<'r> {
    /// A walk by such rules.
    pub(crate) fn new(rules: &'r Rules) -> Self {
        let (ignored, links) = (Ignored::default(), LinkCounts::default());
        Self { rules, ignored, links, linked: 0 }
    }

    /// Lists a directory of the folder `root` and all below it, sorted by their paths.
    pub(crate) fn below(&mut self, root: &Path, dir: Dir) -> Result<Vec<Listing>, ListError> {
        let mut found = Vec::new();
        // A stack of our own: directories may be nested deeper than a thread's.
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            let mut listing = self.list(root, &dir)?;
            open.extend(listing.dirs.drain(..).rev());
            found.push(listing);
        }
        found.sort_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
        Ok(found)
    }

    /// Lists what a directory of the folder `root` holds.
    pub(crate) fn list(&mut self, root: &Path, dir: &Dir) -> Result<Listing, ListError> {
        // Joined to nothing, a path would end in a slash.
        let is_root = dir.path.as_os_str().is_empty();
        let path = if is_root { root.to_owned() } else { root.join(&dir.path) };
        self.linked += u64::from(dir.way.is_linked);
        if self.linked > self.rules.most_linked {
            let (what, max) = ("more directories behind links".into(), self.rules.most_linked);
            return Err(ListError::Limit { path, what, max });
        }
        let mut listing = Listing {
            path: dir.path.clone(),
            real: dir.way.real.clone(),
            modified: modified(&path),
            files: vec![],
            dirs: vec![],
        };
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).map_err(ListError::io(&path))? {
            let entry = entry.map_err(ListError::io(&path))?;
            entries.push((entry.file_name(), entry.file_type().ok()));
        }
        entries.sort_by(|(a, _), (b, _)| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
        for (name, kind) in entries {
            if let Err(reason) = self.take(&path, dir, &name, kind, &mut listing) {
                self.ignored.add(path.join(name), reason);
            }
        }
        Ok(listing)
    }

    /// Puts an entry of the directory at `path` into its listing.
    ///
    /// # Errors
    ///
    /// Why it is left out.
    fn take(
        &mut self,
        path: &Path,
        dir: &Dir,
        name: &OsString,
        kind: Option<FileType>,
        to: &mut Listing,
    ) -> Result<(), &'static str> {
        if name.as_encoded_bytes().starts_with(b".") {
            return Err("its name begins with a dot");
        }
        let kind = kind.ok_or("unreadable")?;
        let (real, kind) = if kind.is_symlink() {
            let followed = self.rules.links.follow(&path.join(name), &self.rules.roots);
            let (real, kind) = followed.map_err(|why| {
                self.links.left_out(why);
                why.reason()
            })?;
            (Some(real), kind)
        } else {
            (None, kind)
        };
        let is_link = real.is_some();
        if kind.is_dir() {
            let below = dir.below(name, real);
            if below.is_loop() {
                self.links.loops += 1;
                return Err("a directory that holds itself: a loop of links");
            }
            to.dirs.push(below);
        } else if !kind.is_file() {
            return Err("not a regular file");
        } else if let Some(reason) = (self.rules.refuses)(Path::new(name)) {
            return Err(reason);
        } else {
            to.files.push(name.clone());
        }
        self.links.followed += u64::from(is_link);
        Ok(())
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
