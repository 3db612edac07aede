//! Paths of files, stored in few bytes: a million need some 30 MB, not 150.
//!
//! ```text
//! file i:   dirs[dir_of[i]] / names[i]
//! text i:   bytes[ends[i-1] .. ends[i]]
//! ```

use super::audio_format;
use super::media::Media;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Texts, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    ends: Vec<u64>,
    bytes: Vec<u8>,
    longest: u64,
}

impl<B: AsRef<[u8]>> FromIterator<B> for Packed {
    fn from_iter<I: IntoIterator<Item = B>>(texts: I) -> Self {
        let mut packed = Self::default();
        texts.into_iter().for_each(|text| packed.push(text.as_ref()));
        packed
    }
}

impl Packed {
    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.longest = self.longest.max(text.len() as u64);
        self.ends.push(self.bytes.len() as u64);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = usize::try_from(*self.ends.get(index)?).ok()?;
        let before = index.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = usize::try_from(*before.unwrap_or(&0)).ok()?;
        self.bytes.get(start..end)
    }

    /// Returns the size in bytes of the longest text.
    pub(super) fn longest(&self) -> Option<u64> {
        (self.len() > 0).then_some(self.longest)
    }
}

/// A directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackedDir {
    /// The path, relative to the dataset's root.
    pub(super) path: PathBuf,
    /// The time of the last change in nanoseconds since 1970; `i64::MIN` if it is not known.
    pub(super) modified: i64,
}

/// Paths of files, relative to a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) dirs: Vec<PackedDir>,
    dir_of: Vec<u32>,
    names: Packed,
}

impl Names {
    /// Adds a directory for the files that are added next, and returns its number.
    pub(super) fn add_dir(&mut self, path: PathBuf, modified: i64) -> usize {
        self.dirs.push(PackedDir { path, modified });
        self.dirs.len() - 1
    }

    /// Adds a file of directory `dir`. Returns `None` if the number of the directory is 2^32 or more.
    pub(super) fn push(&mut self, dir: usize, name: &OsStr) -> Option<()> {
        self.dir_of.push(u32::try_from(dir).ok()?);
        self.names.push(bytes_of(name));
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the number of a file's directory, and the file's name in it.
    pub(super) fn dir_and_name(&self, index: usize) -> Option<(usize, &[u8])> {
        Some((*self.dir_of.get(index)? as usize, self.names.get(index)?))
    }

    /// Returns what a file is by its name, and the usual extension of such files if it is no image.
    pub(super) fn media(&self, index: usize) -> (Media, &'static str) {
        let name = self.dir_and_name(index).and_then(|(_, name)| name_of(name));
        let extension = name.and_then(|name| name.extension()?.to_str());
        extension.and_then(Media::of_extension).unwrap_or_default()
    }

    /// Returns the extension of the format that a file has by its name; `None` if it is no audio file.
    pub(super) fn audio_extension(&self, index: usize) -> Option<&'static str> {
        let name = name_of(self.dir_and_name(index)?.1)?;
        let format = audio_format::of_extension(name.extension()?.to_str()?)?;
        Some(format.extensions[0])
    }

    /// Returns a file's path, relative to the root.
    pub(super) fn path(&self, index: usize) -> Option<PathBuf> {
        let (dir, name) = self.dir_and_name(index)?;
        Some(self.dirs.get(dir)?.path.join(name_of(name)?))
    }
}

/// Returns the bytes of a path or a name.
pub(super) fn bytes_of(name: &OsStr) -> &[u8] {
    name.as_encoded_bytes()
}

/// Returns the path or name of these bytes.
#[cfg(unix)]
pub(super) fn name_of(bytes: &[u8]) -> Option<&Path> {
    Some(Path::new(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes)))
}

/// Returns the path or name of these bytes; `None` if they are not UTF-8, as all names of this system
/// are.
#[cfg(not(unix))]
pub(super) fn name_of(bytes: &[u8]) -> Option<&Path> {
    std::str::from_utf8(bytes).ok().map(Path::new)
}
