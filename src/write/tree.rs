//! What a folder holds, and the same directories at another place.

use super::mirror::RecutError;
use super::target::TargetError;
use crate::source::{Dir, Ignored, LinkCounts, Links, ListError, Rules, Walk};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What a folder holds.
pub(super) struct Tree {
    /// Directories from the folder on, each before those in it; the folder itself is the first.
    pub(super) dirs: Vec<PathBuf>,
    /// Files by their whole path, and by that from the folder on.
    pub(super) files: Vec<(PathBuf, PathBuf)>,
    /// All directories without links in their paths.
    real: BTreeSet<PathBuf>,
    pub(super) ignored: Ignored,
    pub(super) links: LinkCounts,
}

impl Tree {
    pub(super) fn of(src: &Path, links: Links) -> Result<Self, ListError> {
        let real = fs::canonicalize(src).map_err(ListError::io(src))?;
        let rules = Rules::new(|_| None, links, vec![real.clone()]);
        let mut walk = Walk::new(&rules);
        let (mut dirs, mut files, mut reals) = (Vec::new(), Vec::new(), BTreeSet::new());
        for found in walk.below(src, Dir::root(real))? {
            let paths = found.files.iter().map(|name| found.path.join(name));
            files.extend(paths.map(|path| (src.join(&path), path)));
            dirs.push(found.path);
            reals.insert(found.real);
        }
        Ok(Self { dirs, files, real: reals, ignored: walk.ignored, links: walk.links })
    }
}

/// Refuses a copy that is a file or lies inside its original, before anything is made there.
pub(super) fn check_outside(src: &Path, dst: &Path) -> Result<(), RecutError> {
    let real = fs::canonicalize(src).map_err(ListError::io(src))?;
    if fs::metadata(dst).is_ok_and(|found| !found.is_dir()) {
        return Err(RecutError::NotAFolder { path: dst.to_owned() });
    }
    let absolute = std::path::absolute(dst).map_err(TargetError::io("resolve", dst))?;
    let there = absolute.ancestors().find_map(|path| fs::canonicalize(path).ok());
    if there.is_some_and(|there| there.starts_with(&real)) {
        return Err(RecutError::Inside { src: src.to_owned(), dst: dst.to_owned() });
    }
    Ok(())
}

/// Makes the copy's directories. One of them may be there as a link to a part of the original:
/// nothing is written into such a one.
pub(super) fn make_dirs(src: &Path, dst: &Path, tree: &Tree) -> Result<Vec<PathBuf>, RecutError> {
    let mut made = Vec::with_capacity(tree.dirs.len());
    for dir in &tree.dirs {
        let is_top = dir.as_os_str().is_empty();
        let dir = if is_top { dst.to_owned() } else { dst.join(dir) };
        fs::create_dir_all(&dir).map_err(TargetError::io("create the directory", &dir))?;
        let real = fs::canonicalize(&dir).map_err(TargetError::io("resolve", &dir))?;
        if real.ancestors().any(|real| tree.real.contains(real)) {
            return Err(RecutError::Inside { src: src.to_owned(), dst: dir });
        }
        made.push(dir);
    }
    Ok(made)
}
