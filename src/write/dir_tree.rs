//! Lists a folder, and creates the same directories elsewhere.

use super::CancelFlag;
use super::atomic_file::SUFFIX;
use super::error::{INPUTS, io_error, of_system};
use super::staging::PREFIX;
use crate::error::{Error, fail};
use crate::source::{FolderWalk, Ignored, LinkCounts, Links, PendingDir, Rules};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The contents of a folder.
pub(super) struct DirTree {
    /// The directories relative to the folder, parents first; the first is the folder itself.
    pub(super) dirs: Vec<PathBuf>,
    /// The files: their full path, and their path relative to the folder.
    pub(super) files: Vec<(PathBuf, PathBuf)>,
    /// The real paths of all directories.
    real: BTreeSet<PathBuf>,
    pub(super) ignored: Ignored,
    pub(super) links: LinkCounts,
}

impl DirTree {
    pub(super) fn of(src: &Path, links: Links, cancel: &CancelFlag) -> Result<Self, Error> {
        let real = real_folder(src)?;
        let rules = Rules::new(|_| None, links, vec![real.clone()]).cancel(cancel);
        let mut walk = FolderWalk::new(&rules);
        let (mut dirs, mut files, mut reals) = (Vec::new(), Vec::new(), BTreeSet::new());
        for found in walk.below(src, PendingDir::root(real))? {
            let paths = found.files.iter().map(|name| found.path.join(name));
            files.extend(paths.map(|path| (src.join(&path), path)));
            dirs.push(found.path);
            reals.insert(found.real);
        }
        Ok(Self { dirs, files, real: reals, ignored: walk.ignored, links: walk.links })
    }
}

/// Returns the real path of the folder that is copied.
fn real_folder(src: &Path) -> Result<PathBuf, Error> {
    let missing = "check the path: no such file or folder";
    fs::canonicalize(src).map_err(|source| of_system(source, missing).at(src))
}

fn is_inside(src: &Path, dst: &Path) -> Error {
    fail!(Parameter, "{dst:?} is inside the input {src:?}: choose a folder outside")
        .named_path(dst)
        .help(INPUTS)
}

/// Refuses a destination that is a file or inside the source folder, before anything is created there.
pub(super) fn check_outside(src: &Path, dst: &Path) -> Result<(), Error> {
    let real = real_folder(src)?;
    if fs::metadata(dst).is_ok_and(|found| !found.is_dir()) {
        return Err(fail!(Parameter, "{dst:?} is a file, a folder is expected")
            .named_path(dst)
            .help("choose a folder for the copy; a missing folder is created"));
    }
    let absolute = std::path::absolute(dst).map_err(io_error("resolve", dst))?;
    let there = absolute.ancestors().find_map(|path| fs::canonicalize(path).ok());
    if there.is_some_and(|there| there.starts_with(&real)) {
        return Err(is_inside(src, dst));
    }
    Ok(())
}

/// Returns true if a folder has files, other than those that a killed writer left. Folders without files are what a writer
/// leaves that has failed.
pub(super) fn has_files(dst: &Path) -> Result<bool, Error> {
    let mut left = vec![dst.to_owned()];
    while let Some(dir) = left.pop() {
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(io_error("list", &dir))?,
        };
        for entry in entries {
            let entry = entry.map_err(io_error("list", &dir))?;
            let name = entry.file_name();
            let name = name.as_encoded_bytes();
            if name.starts_with(PREFIX.as_bytes()) && name.ends_with(SUFFIX.as_bytes()) {
                continue;
            }
            if !entry.file_type().is_ok_and(|found| found.is_dir()) {
                return Ok(true);
            }
            left.push(entry.path());
        }
    }
    Ok(false)
}

/// Creates the copy's directories. The destination itself may be a link. If a directory in it exists as a link, or is
/// one of the source folder's, this is an error.
pub(super) fn make_dirs(src: &Path, dst: &Path, tree: &DirTree) -> Result<Vec<PathBuf>, Error> {
    let below = tree.dirs.iter().filter(|dir| !dir.as_os_str().is_empty());
    let is_link = |dir: &PathBuf| fs::symlink_metadata(dir).is_ok_and(|found| found.is_symlink());
    if let Some(path) = below.map(|dir| dst.join(dir)).find(is_link) {
        return Err(fail!(
            Parameter,
            "{path:?} is a symbolic link, expected a folder: nothing is written through links in the destination. Remove it, or choose another destination"
        )
        .named_path(path));
    }
    let mut created = Vec::with_capacity(tree.dirs.len());
    for dir in &tree.dirs {
        let is_top = dir.as_os_str().is_empty();
        let dir = if is_top { dst.to_owned() } else { dst.join(dir) };
        fs::create_dir_all(&dir).map_err(io_error("create the directory", &dir))?;
        let real = fs::canonicalize(&dir).map_err(io_error("resolve", &dir))?;
        if real.ancestors().any(|real| tree.real.contains(real)) {
            return Err(is_inside(src, &dir));
        }
        created.push(dir);
    }
    Ok(created)
}
