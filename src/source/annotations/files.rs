//! The files of a dataset that has a file of annotations or a mask for each image.

use crate::error::{AtPath as _, Error, fail};
use crate::sample::Limits;
use crate::source::file::read_file;
use crate::source::folder::{FolderWalk, LinkCounts, Links, PendingDir, Rules};
use crate::source::image_names::{IMAGE_EXTENSIONS, has_extension};
use crate::source::{Escaped, Ignored};
use crate::warnings::warn;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns a path without its extension.
pub(super) fn stem(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

/// Returns files by their paths without extensions.
///
/// # Errors
///
/// If two files differ in nothing but their extensions.
pub(super) fn by_stem<'a>(
    files: &'a [Box<str>],
    folder: &Path,
) -> Result<BTreeMap<&'a str, &'a str>, Error> {
    let mut stems = BTreeMap::new();
    for file in files {
        if let Some(other) = stems.insert(stem(file), &**file) {
            return Err(fail!(Format, "{other} and {file} have the same name: each needs its own")
                .at(folder));
        }
    }
    Ok(stems)
}

/// Returns whether a folder has a file with this extension, or one of the folders in it has one.
pub(super) fn has_file(dir: &Path, extension: &str) -> bool {
    let named = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
    };
    let is_one = |(_, name): (PathBuf, String)| has_extension(&name, &[extension]);
    named(dir).any(is_one) || named(dir).any(|(path, _)| path.is_dir() && named(&path).any(is_one))
}

/// Returns whether a folder has a file with one of these extensions, or one of the folders in it, of which at most `depth`
/// lie in one another.
pub(super) fn has_file_below(dir: &Path, extensions: &[&str], depth: usize) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((entry, name))
    });
    named.any(|(entry, name)| {
        let path = entry.path();
        if path.is_dir() {
            return depth > 0 && has_file_below(&path, extensions, depth - 1);
        }
        has_extension(&name, extensions)
    })
}

/// Returns the names of the folders in a folder, in their order, without those that begin with a dot.
pub(super) fn folders(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    names
}

/// Returns whether a folder has an image and a file with this extension of the same name.
pub(super) fn has_pair(dir: &Path, extension: &str) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut others = names.filter(|name| has_extension(name, &[extension]));
    others.any(|name| {
        IMAGE_EXTENSIONS.iter().any(|image| {
            let is_file = |image: &str| dir.join(format!("{}.{image}", stem(&name))).is_file();
            is_file(image) || is_file(&image.to_ascii_uppercase())
        })
    })
}

/// Lists the images in a folder and the folders in it, as [`list`] does. Warns of pictures of other formats.
pub(super) fn images(root: &Path, limits: &Limits) -> Result<Vec<Box<str>>, Error> {
    let mut ignored = Ignored::default();
    let files = walk(root, IMAGE_EXTENSIONS, limits, |name| {
        ignored.add(name.into(), "no image by its name");
    })?;
    if let Some(pictures) = ignored.pictures() {
        warn(format_args!("{}: {pictures}", Escaped(&root.to_string_lossy())));
    }
    Ok(files)
}

/// Lists the files with these extensions in a folder and the folders in it, by the bytes of their paths. Links are followed
/// as in any folder. Names that begin with a dot are left out.
pub(super) fn list(
    root: &Path,
    extensions: &[&str],
    limits: &Limits,
) -> Result<Vec<Box<str>>, Error> {
    walk(root, extensions, limits, |_| {})
}

/// Lists files, and gives the names of the others to `other`. Warns of links that are left out: those to a folder that they
/// are in, and those to nothing. A link to nothing that is named as a file is listed, since its sample is damaged.
fn walk(
    root: &Path,
    extensions: &[&str],
    limits: &Limits,
    mut other: impl FnMut(&str),
) -> Result<Vec<Box<str>>, Error> {
    let real = fs::canonicalize(root).at(root)?;
    let rules = Rules::new(|_| None, Links::Follow, vec![]);
    let mut walk = FolderWalk::new(&rules);
    let mut dirs = vec![PendingDir::root(real)];
    let mut files: Vec<Box<str>> = vec![];
    while let Some(dir) = dirs.pop() {
        let listing = walk.list(root, &dir)?;
        let parent = text_of(root, &listing.path)?;
        let name_of = |name: &OsStr| {
            let name = text_of(&root.join(&listing.path), Path::new(name))?;
            Ok::<_, Error>(if parent.is_empty() { name } else { format!("{parent}/{name}") })
        };
        for name in &listing.files {
            let name = name_of(name)?;
            if has_extension(&name, extensions) {
                files.push(name.into_boxed_str());
            } else {
                other(&name);
            }
        }
        for name in &listing.lost {
            let name = name_of(name)?;
            if has_extension(&name, extensions) {
                files.push(name.into_boxed_str());
                walk.links.lost -= 1;
            }
        }
        if files.len() as u64 > limits.max_samples {
            return Err(fail!(
                Memory,
                "more than {max} images, the limit is {max}",
                max = limits.max_samples
            )
            .at(root));
        }
        dirs.extend(listing.dirs);
    }
    let left_out = LinkCounts { followed: 0, ..walk.links };
    if !left_out.is_empty() {
        let name = root.to_string_lossy();
        warn(format_args!("{}: {left_out}: remove these links, or mend them", Escaped(&name)));
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns a path in `folder` as text, with slashes.
///
/// # Errors
///
/// If a name is not UTF-8.
fn text_of(folder: &Path, path: &Path) -> Result<String, Error> {
    let names = path.iter().map(OsStr::to_str).collect::<Option<Vec<&str>>>().ok_or_else(|| {
        fail!(Parameter, "the name is not UTF-8, as it must be in this format")
            .at(folder.join(path))
    })?;
    Ok(names.join("/"))
}

/// Reads files of text, which together may have as many bytes as the tables of a dataset.
pub(super) struct TextFiles<'a> {
    limits: &'a Limits,
    read: AtomicU64,
}

impl<'a> TextFiles<'a> {
    pub(super) fn new(limits: &'a Limits) -> Self {
        Self { limits, read: AtomicU64::new(0) }
    }

    /// Reads a file of UTF-8, without the byte order mark at its beginning.
    pub(super) fn read(&self, path: &Path) -> Result<String, Error> {
        let mut bytes = self.bytes(path)?;
        if bytes.starts_with("\u{feff}".as_bytes()) {
            bytes.drain(..3);
        }
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            fail!(Format, "byte {at}: the text is not UTF-8: save it so").at(path)
        })
    }

    /// Reads the bytes of a file.
    pub(super) fn bytes(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![];
        let read = read_file(path, self.limits.max_sample_bytes, &mut bytes);
        read.at(path)?;
        let (size, max) = (bytes.len() as u64, self.limits.max_table_bytes);
        let all = self.read.fetch_add(size, Ordering::Relaxed).saturating_add(size);
        if all > max {
            return Err(fail!(
                Memory,
                "the annotations up to here have {all} bytes, the limit is {max}"
            )
            .at(path));
        }
        Ok(bytes)
    }
}
