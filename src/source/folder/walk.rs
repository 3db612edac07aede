//! A walk over a folder's directories, which defines the order of files everywhere.
//!
//! | found                            | is                                                |
//! |----------------------------------|---------------------------------------------------|
//! | a name that begins with a dot    | ignored, and counted                              |
//! | a folder of a system or an archiver ([`JUNK`]) | the same                            |
//! | a file, a directory              | accepted, by the type in the directory: no `stat` |
//! | a link                           | followed or ignored, as [`Links`] says            |
//! | a directory that contains itself | ignored: a loop                                   |
//! | a pipe, a socket, a device       | ignored; nothing is opened                        |
//!
//! The files of a directory are sorted by the bytes of their names, the directories below a directory by
//! the bytes of their paths. This is torchvision's `sorted(os.walk(dir, followlinks=True))`, which
//! compares the paths as texts, so that `a/b-c` comes before `a/b/d`.
//!
//! A directory that several links lead to is read once for each. A loop is a directory with the same
//! real path as one that it was reached through. Links that lead to each other can turn n directories
//! into 2^n paths without a loop: [`MOST_LINKED`] ends such a walk.

use super::links::{LinkCounts, Links, NotFollowed};
use super::list::Ignored;
use crate::cancel::CancelFlag;
use crate::error::{AtPath as _, Error, fail};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Folders that systems and programs put among the files of users: what is in them is no data.
pub(super) const JUNK: [&str; 6] =
    ["__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found"];

/// The most tables that a walk remembers.
const MOST_TABLES: usize = 16;

/// The most directories that one walk reads through links.
const MOST_LINKED: u64 = 1 << 20;

/// The rules for what a walk accepts.
#[derive(Clone)]
pub(crate) struct Rules {
    /// Returns why a regular file is not accepted.
    pub(crate) refuses: fn(&Path) -> Option<&'static str>,
    /// The treatment of links.
    pub(crate) links: Links,
    /// The directories that links may lead into with [`Links::Within`], without links in their paths.
    pub(super) roots: Vec<PathBuf>,
    /// The most directories that are read through links.
    pub(super) most_linked: u64,
    /// Ends the walk.
    pub(crate) cancel: CancelFlag,
    /// True if the images of a folder are known to be frames of videos, whose folders are inside of those of the classes.
    pub(super) are_frames: bool,
}

impl Rules {
    /// Returns the rules for the folders `roots`, whose paths have no links in them.
    pub(crate) fn new(
        refuses: fn(&Path) -> Option<&'static str>,
        links: Links,
        roots: Vec<PathBuf>,
    ) -> Self {
        let (most_linked, cancel) = (MOST_LINKED, CancelFlag::default());
        Self { refuses, links, roots, most_linked, cancel, are_frames: false }
    }

    /// Sets the flag that ends the walk.
    pub(crate) fn cancel(self, cancel: &CancelFlag) -> Self {
        Self { cancel: cancel.clone(), ..self }
    }

    /// # Errors
    ///
    /// If the walk was cancelled.
    fn check(&self) -> Result<(), Error> {
        if self.cancel.is_cancelled() {
            Err(fail!(Cancelled, "the listing was cancelled"))
        } else {
            Ok(())
        }
    }
}

/// A walk, with what it has ignored and counted so far.
pub(crate) struct FolderWalk<'r> {
    rules: &'r Rules,
    pub(crate) ignored: Ignored,
    pub(crate) links: LinkCounts,
    /// The first tables that were found among the files, relative to the folder.
    pub(super) tables: Vec<PathBuf>,
    /// The number of directories that were read through links.
    linked: u64,
}

/// A directory that is to be read.
#[derive(Clone)]
pub(crate) struct PendingDir {
    /// The path, relative to the folder; empty for the folder itself.
    pub(crate) path: PathBuf,
    chain: Arc<DirChain>,
}

/// A directory, and the directories that it was reached through.
struct DirChain {
    /// The directory's path without links in it.
    real: PathBuf,
    /// True if the directory was reached through a link.
    is_linked: bool,
    parent: Option<Arc<DirChain>>,
}

/// The content of one directory, in the order of names.
pub(crate) struct Listing {
    /// The path of the directory, relative to the folder.
    pub(crate) path: PathBuf,
    /// The directory's real path, without links.
    #[cfg_attr(
        not(feature = "write"),
        allow(dead_code, reason = "copies of folders alone need it")
    )]
    pub(crate) real: PathBuf,
    /// The time of the directory's last change, taken before it was read: see [`modified`].
    pub(crate) modified: i64,
    pub(crate) files: Vec<OsString>,
    /// Links that are left out because they lead to nothing that can be read.
    pub(crate) lost: Vec<OsString>,
    pub(crate) dirs: Vec<PendingDir>,
}

impl PendingDir {
    /// Returns the folder that a walk begins at, given its path without links.
    pub(crate) fn root(real: PathBuf) -> Self {
        let chain = DirChain { real, is_linked: false, parent: None };
        Self { path: PathBuf::new(), chain: Arc::new(chain) }
    }

    /// Returns the directory called `name` in this one. `real` is its real path if it is a link.
    fn below(&self, name: &OsString, real: Option<PathBuf>) -> Self {
        let is_linked = self.chain.is_linked || real.is_some();
        let real = real.unwrap_or_else(|| self.chain.real.join(name));
        let chain = DirChain { real, is_linked, parent: Some(Arc::clone(&self.chain)) };
        Self { path: self.path.join(name), chain: Arc::new(chain) }
    }

    /// Returns whether the directory is one of those that it was reached through.
    fn is_loop(&self) -> bool {
        let above = |chain: &Arc<DirChain>| chain.parent.clone();
        let mut ancestors = std::iter::successors(above(&self.chain), above);
        self.chain.is_linked && ancestors.any(|chain| chain.real == self.chain.real)
    }
}

impl<'r> FolderWalk<'r> {
    /// Returns a walk with these rules.
    pub(crate) fn new(rules: &'r Rules) -> Self {
        let (ignored, links) = (Ignored::default(), LinkCounts::default());
        Self { rules, ignored, links, tables: vec![], linked: 0 }
    }

    /// Lists a directory of the folder `root` and all directories below it, sorted by their paths.
    pub(crate) fn below(&mut self, root: &Path, dir: PendingDir) -> Result<Vec<Listing>, Error> {
        let mut found = Vec::new();
        // The stack is a list: directories may be nested deeper than a thread's stack allows.
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            let mut listing = self.list(root, &dir)?;
            open.extend(listing.dirs.drain(..).rev());
            found.push(listing);
        }
        found.sort_unstable_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
        Ok(found)
    }

    /// Lists the content of a directory of the folder `root`.
    pub(crate) fn list(&mut self, root: &Path, dir: &PendingDir) -> Result<Listing, Error> {
        // Joined to an empty path, `root` would end in a slash.
        let is_root = dir.path.as_os_str().is_empty();
        let path = if is_root { root.to_owned() } else { root.join(&dir.path) };
        self.linked += u64::from(dir.chain.is_linked);
        if self.linked > self.rules.most_linked {
            let max = self.rules.most_linked;
            return Err(fail!(Memory, "more directories behind links, the limit is {max}").at(path));
        }
        let mut listing = Listing {
            path: dir.path.clone(),
            real: dir.chain.real.clone(),
            modified: modified(&path),
            files: vec![],
            lost: vec![],
            dirs: vec![],
        };
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).at(&path)? {
            self.rules.check()?;
            let entry = entry.at(&path)?;
            entries.push((entry.file_name(), entry.file_type().ok()));
        }
        entries.sort_unstable_by(|(a, _), (b, _)| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
        for (name, kind) in entries {
            self.rules.check()?;
            if let Err(reason) = self.take(&path, dir, &name, kind, &mut listing) {
                self.ignored.add(path.join(name), reason);
            }
        }
        Ok(listing)
    }

    /// Adds an entry of the directory at `path` to its listing.
    ///
    /// # Errors
    ///
    /// Returns the reason why the entry is left out.
    fn take(
        &mut self,
        path: &Path,
        dir: &PendingDir,
        name: &OsString,
        kind: Option<FileType>,
        to: &mut Listing,
    ) -> Result<(), &'static str> {
        if name.as_encoded_bytes().starts_with(b".") {
            return Err("its name begins with a dot");
        }
        if is_junk(name) {
            return Err("a folder of the system or of an archiver, not of data");
        }
        let kind = kind.ok_or("unreadable")?;
        let (real, kind) = if kind.is_symlink() {
            let followed = self.rules.links.follow(&path.join(name), &self.rules.roots);
            let (real, kind) = followed.map_err(|why| {
                self.links.left_out(why);
                if why == NotFollowed::Lost {
                    to.lost.push(name.clone());
                }
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
            if is_table(Path::new(name)) && self.tables.len() < MOST_TABLES {
                self.tables.push(dir.path.join(name));
            }
            return Err(reason);
        } else {
            to.files.push(name.clone());
        }
        self.links.followed += u64::from(is_link);
        Ok(())
    }
}

/// Returns whether a name is one of [`JUNK`].
pub(super) fn is_junk(name: &OsStr) -> bool {
    JUNK.iter().any(|junk| name == *junk)
}

/// Returns whether a file is a table by its name, which this build may read or not.
fn is_table(name: &Path) -> bool {
    let extension = name.extension().unwrap_or_default();
    ["csv", "tsv", "jsonl", "parquet"].iter().any(|table| extension.eq_ignore_ascii_case(table))
}

/// Returns the time of the last change of a file or directory, in nanoseconds since 1970; `i64::MIN` if
/// it is not known.
pub(super) fn modified(path: &Path) -> i64 {
    fs::metadata(path).and_then(|found| found.modified()).map_or(i64::MIN, nanoseconds)
}

/// Returns a time in nanoseconds since 1970.
pub(super) fn nanoseconds(time: SystemTime) -> i64 {
    let since = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok();
    since(time).unwrap_or(i64::MIN)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}
