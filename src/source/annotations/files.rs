//! The files of a dataset that has a file of annotations or a mask for each image.

use crate::error::{AtPath as _, Error, fail};
use crate::sample::Limits;
use crate::source::file::read_file;
use crate::source::image_names::{IMAGE_EXTENSIONS, has_extension};
use crate::source::{Escaped, Ignored};
use crate::warnings::warn;
use std::collections::BTreeMap;
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
    named.any(|(entry, name)| match entry.file_type() {
        Ok(kind) if kind.is_dir() => {
            depth > 0 && has_file_below(&entry.path(), extensions, depth - 1)
        }
        _ => has_extension(&name, extensions),
    })
}

/// Returns the names of the folders in a folder, in their order, without those that begin with a dot.
pub(super) fn folders(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
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

/// Lists the files with these extensions in a folder and the folders in it, by the bytes of their paths. Links to
/// folders are not followed, and names that begin with a dot are left out.
pub(super) fn list(
    root: &Path,
    extensions: &[&str],
    limits: &Limits,
) -> Result<Vec<Box<str>>, Error> {
    walk(root, extensions, limits, |_| {})
}

/// Lists files, and gives the names of the others to `other`.
fn walk(
    root: &Path,
    extensions: &[&str],
    limits: &Limits,
    mut other: impl FnMut(&str),
) -> Result<Vec<Box<str>>, Error> {
    let mut dirs = vec![String::new()];
    let mut files: Vec<Box<str>> = vec![];
    while let Some(dir) = dirs.pop() {
        let path = root.join(&dir);
        for entry in fs::read_dir(&path).at(&path)? {
            let entry = entry.at(&path)?;
            let kind = entry.file_type().map_err(|error| Error::from(error).at(entry.path()))?;
            let name = entry.file_name().into_string().map_err(|name| {
                fail!(Parameter, "the name is not UTF-8, as it must be in this format")
                    .at(path.join(name))
            })?;
            if name.starts_with('.') {
                continue;
            }
            let name = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            if kind.is_dir() {
                dirs.push(name);
                continue;
            }
            if has_extension(&name, extensions) {
                files.push(name.into_boxed_str());
            } else {
                other(&name);
            }
            if files.len() as u64 > limits.max_samples {
                return Err(fail!(
                    Memory,
                    "more than {max} images, the limit is {max}",
                    max = limits.max_samples
                )
                .at(root));
            }
        }
    }
    files.sort_unstable();
    Ok(files)
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
