//! Images whose location tells their class: folders and patterns.
//!
//! | given                      | samples, in order                                          | class            |
//! |----------------------------|------------------------------------------------------------|------------------|
//! | a folder with sub-folders  | by class; in a class by directory, in byte order of the paths; in a directory in byte order of the names     | the sub-folder |
//! | a folder without them      | by class; in a class in byte order of the names            | the name before the first `_` |
//! | a pattern: `data/**/*.jpg` | in byte order of the paths                                 | the folder that the file is in |
//!
//! A folder with a `metadata.jsonl` or `metadata.csv` of its images is opened as this table (`table.rs`).
//!
//! Classes are numbered from 0 in the byte order of their names. This is what torchvision's
//! `ImageFolder` does, whose order of directories is `sorted(os.walk(class, followlinks=True))`, with
//! two exceptions: names that begin with a dot are ignored here, and a class without images keeps its
//! number here and is refused there.

use super::error::ListError;
use super::links::{LinkCounts, Links, NotFollowed};
use super::list::Ignored;
use super::names::Names;
use super::walk::{FolderWalk, Listing, PendingDir, Rules};
use crate::parallel;
use crate::source::Location;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Files and their classes.
#[derive(Default)]
pub(super) struct ListedFiles {
    pub(super) names: Names,
    pub(super) labels: Vec<i64>,
    /// The names of the classes, not escaped.
    pub(super) classes: Vec<String>,
    pub(super) ignored: Ignored,
    pub(super) links: LinkCounts,
}

impl ListedFiles {
    fn add(&mut self, dir: usize, name: &OsString, label: i64) -> Result<(), ListError> {
        if self.names.push(dir, name).is_none() {
            return Err(ListError::Many { path: self.names.dirs[dir].path.clone() });
        }
        self.labels.push(label);
        Ok(())
    }

    fn refuse_empty(self, path: &Path) -> Result<Self, ListError> {
        if self.labels.is_empty() {
            let (ignored, links) = (self.ignored.count, self.links);
            let mut reasons = self.ignored.first.iter().map(|(_, reason)| *reason);
            let hint = reasons.find(|reason| reason.contains("a build of fuseloop"));
            return Err(ListError::Empty { path: path.to_owned(), ignored, hint, links });
        }
        Ok(self)
    }
}

/// Lists the images of a folder.
pub(super) fn of_folder(root: &Path, rules: &Rules) -> Result<ListedFiles, ListError> {
    let mut walk = FolderWalk::new(rules);
    let real = fs::canonicalize(root).map_err(ListError::io(root))?;
    let mut top = walk.list(root, &PendingDir::root(real))?;
    if top.dirs.is_empty() {
        return by_prefix(root, top, walk)?.refuse_empty(root);
    }
    for image in top.files.drain(..) {
        walk.ignored.add(root.join(image), "beside the class folders, not in one");
    }
    by_folder(root, rules, &top, walk)?.refuse_empty(root)
}

/// Lists one class for each folder; several folders are read at a time.
fn by_folder(
    root: &Path,
    rules: &Rules,
    top: &Listing,
    root_walk: FolderWalk<'_>,
) -> Result<ListedFiles, ListError> {
    let read = |class: &PendingDir| {
        let mut walk = FolderWalk::new(rules);
        Ok((walk.below(root, class.clone())?, walk.ignored, walk.links))
    };
    let read: Result<Vec<_>, ListError> = parallel::map(&top.dirs, read)?.into_iter().collect();
    let FolderWalk { ignored, links, .. } = root_walk;
    let mut list = ListedFiles { ignored, links, ..ListedFiles::default() };
    list.names.add_dir(PathBuf::new(), top.modified);
    for ((label, class), (dirs, ignored, links)) in (0..).zip(&top.dirs).zip(read?) {
        list.classes.push(class.path.to_string_lossy().into_owned());
        for listing in dirs {
            let dir = list.names.add_dir(listing.path, listing.modified);
            listing.files.iter().try_for_each(|name| list.add(dir, name, label))?;
        }
        list.ignored.append(ignored);
        list.links.add(links);
    }
    Ok(list)
}

/// Lists one class for each prefix of the names.
fn by_prefix(root: &Path, top: Listing, walk: FolderWalk<'_>) -> Result<ListedFiles, ListError> {
    let mut by_class = BTreeMap::<Vec<u8>, Vec<OsString>>::new();
    for name in top.files {
        let bytes = name.as_encoded_bytes();
        let Some(end) = bytes.iter().position(|&byte| byte == b'_') else {
            return Err(ListError::NoClass { path: root.join(name) });
        };
        by_class.entry(bytes[..end].to_vec()).or_default().push(name);
    }
    let FolderWalk { ignored, links, .. } = walk;
    let mut list = ListedFiles { ignored, links, ..ListedFiles::default() };
    let dir = list.names.add_dir(PathBuf::new(), top.modified);
    for (label, (class, names)) in (0..).zip(by_class) {
        // The bytes of a name before an ASCII byte are whole characters.
        list.classes.push(String::from_utf8_lossy(&class).into_owned());
        names.iter().try_for_each(|name| list.add(dir, name, label))?;
    }
    Ok(list)
}

/// Lists the images that a pattern names; their paths are in the form of the pattern.
pub(super) fn of_pattern(
    spec: &str,
    links: Links,
    refuses: fn(&Path) -> Option<&'static str>,
) -> Result<ListedFiles, ListError> {
    let roots = spec.split("::").filter_map(|part| fs::canonicalize(fixed(part)).ok()).collect();
    let rules = Rules::new(refuses, links, roots);
    let (mut list, mut dirs) = (ListedFiles::default(), HashMap::<PathBuf, usize>::new());
    let mut classes = vec![];
    for location in Location::parse(spec)? {
        let Location::Path(path) = location else {
            return Err(ListError::Address { name: location.to_string() });
        };
        if let Some(reason) = why_not(&path, &rules, &mut list.links) {
            list.ignored.add(path, reason);
            continue;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let dir = match dirs.get(parent) {
            Some(&dir) => dir,
            None => {
                let dir = list.names.add_dir(parent.to_owned(), i64::MIN);
                dirs.insert(parent.to_owned(), dir);
                classes.push(class_of(parent));
                dir
            }
        };
        list.add(dir, &name.to_owned(), 0)?;
    }
    let numbers: BTreeMap<OsString, i64> = sorted(&classes).into_iter().zip(0..).collect();
    for (index, label) in list.labels.iter_mut().enumerate() {
        let dir = list.names.dir_and_name(index).map_or(0, |(dir, _)| dir);
        *label = numbers[&classes[dir]];
    }
    list.classes = numbers.keys().map(|name| name.to_string_lossy().into_owned()).collect();
    list.refuse_empty(Path::new(spec))
}

/// Returns each name once, in byte order.
fn sorted(names: &[OsString]) -> Vec<OsString> {
    let mut names = names.to_vec();
    names.sort_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
    names.dedup();
    names
}

/// Returns the folder of a pattern, up to its first special character.
fn fixed(pattern: &str) -> &Path {
    let end = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    match pattern[..end].rfind('/') {
        Some(0) => Path::new("/"),
        Some(end) => Path::new(&pattern[..end]),
        None => Path::new("."),
    }
}

/// Returns the name of the folder that files are in.
fn class_of(dir: &Path) -> OsString {
    let whole = || fs::canonicalize(dir).ok()?.file_name().map(ToOwned::to_owned);
    dir.file_name().map(ToOwned::to_owned).or_else(whole).unwrap_or_default()
}

/// Returns why a file that a pattern names is not a sample, and counts links. With [`Links::Within`],
/// the folders on its path are checked for links too.
fn why_not(path: &Path, rules: &Rules, links: &mut LinkCounts) -> Option<&'static str> {
    if let Some(reason) = (rules.refuses)(path) {
        return Some(reason);
    }
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let outcome = match rules.links {
        Links::Follow => Ok(()),
        Links::Within => rules.links.follow(path, &rules.roots).map(drop),
        Links::Refuse if is_link => Err(NotFollowed::Refused),
        Links::Refuse => Ok(()),
    };
    match outcome {
        Ok(()) => {
            links.followed += u64::from(is_link);
            None
        }
        Err(why) => {
            links.left_out(why);
            Some(why.reason())
        }
    }
}
