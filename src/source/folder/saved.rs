//! A folder's listing as a file, so that a million files need not be searched for again.
//!
//! All numbers are little-endian; a text is its length (4 B) and its bytes.
//!
//! | field   |  size | meaning                                                                       |
//! |---------|------:|-------------------------------------------------------------------------------|
//! | magic   |    16 | `fuseloop list 4\n`; with another number, the folder is searched              |
//! | begun   |     8 | when the folder was searched, in nanoseconds since 1970                       |
//! | labels  |     1 | 0 class folders, 1 names of files, 2 none                                     |
//! | rule    |     1 | links: 0 within, 1 follow, 2 refuse                                           |
//! | root    |  text | the folder, without links in its path                                         |
//! | classes |     4 | how many; then each a text                                                    |
//! | dirs    |     4 | how many; then each a text, relative to the root, and when it was changed (8) |
//! | files   |     8 | how many; then each its directory (4), its class (4), its name (text)         |
//! | ignored | 2 x 8 | how many other files there were, and how many samples beside the class folders |
//! | extensions | 4  | how many the other files have; then each a text, and of how many files (8)    |
//! | links   | 5 x 8 | how many were followed, loops, lost, outside, refused                         |
//! | check   |     4 | CRC-32C of all bytes before it                                                |
//!
//! A listing is valid as long as every directory has the time of change that the listing says, and that
//! time is more than two seconds before `begun`: clocks of file systems are coarse, and a change right
//! after the search must show.

use super::layout::{LabelRule, ListedFiles};
use super::links::{LinkCounts, Links};
use super::list::Ignored;
use super::walk;
use crate::error::{AtPath as _, Error, fail};
use crate::parallel;
use crate::sample::Limits;
use crate::source::file::read_file;
use crate::source::names::{Names, PackedDir, bytes_of, name_of};
use crate::threads::ThreadsError;
use std::io;
use std::path::{Component, Path, PathBuf};

const MAGIC: &[u8; 16] = b"fuseloop list 4\n";

/// The bytes that every version begins with.
const ANY_VERSION: &[u8] = b"fuseloop list ";

/// The nanoseconds within which a change may not show in a directory's time.
const COARSE: i64 = 2_000_000_000;

/// A listing that was saved.
pub(super) struct Saved {
    pub(super) root: PathBuf,
    pub(super) begun: i64,
    pub(super) links: Links,
    pub(super) list: ListedFiles,
}

impl Saved {
    /// Reads a listing; `None` if there is no such file, or if it has another version.
    pub(super) fn read(path: &Path, limits: &Limits) -> Result<Option<Self>, Error> {
        let mut bytes = vec![];
        match read_file(path, limits.max_table_bytes, &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.at(path)?,
        }
        let not_a_listing = || fail!(Format, "not a listing").at(path);
        let (bytes, check) = bytes.split_last_chunk::<4>().ok_or_else(not_a_listing)?;
        if !bytes.starts_with(ANY_VERSION) {
            return Err(not_a_listing());
        }
        if crc32c::crc32c(bytes) != u32::from_le_bytes(*check) {
            return Err(fail!(
                Format,
                "the listing is damaged (wrong checksum): delete it, or save it again"
            )
            .at(path));
        }
        let Some(rest) = bytes.strip_prefix(MAGIC) else { return Ok(None) };
        let saved = Self::parse(rest);
        saved.map(Some).ok_or_else(|| {
            fail!(
                Format,
                "the listing is invalid although its checksum is right: delete it, or save it again"
            )
            .at(path)
        })
    }

    fn parse(mut rest: &[u8]) -> Option<Self> {
        let rest = &mut rest;
        let begun = i64::from_le_bytes(take(rest)?);
        let labelled_by = match u8::from_le_bytes(take(rest)?) {
            0 => LabelRule::Folder,
            1 => LabelRule::FileName,
            2 => LabelRule::None,
            _ => return None,
        };
        let links = match u8::from_le_bytes(take(rest)?) {
            0 => Links::Within,
            1 => Links::Follow,
            2 => Links::Refuse,
            _ => return None,
        };
        let root = name_of(text(rest)?)?.to_owned();
        let mut list = ListedFiles { labelled_by, ..ListedFiles::default() };
        for _ in 0..u32::from_le_bytes(take(rest)?) {
            list.classes.push(String::from_utf8(text(rest)?.to_vec()).ok()?);
        }
        for _ in 0..u32::from_le_bytes(take(rest)?) {
            let path = name_of(text(rest)?).filter(|path| is_below(path))?;
            list.names.add_dir(path.to_owned(), i64::from_le_bytes(take(rest)?));
        }
        for _ in 0..u64::from_le_bytes(take(rest)?) {
            let dir = u32::from_le_bytes(take(rest)?) as usize;
            let label = u32::from_le_bytes(take(rest)?);
            let name = name_of(text(rest)?).filter(|name| is_below(name))?;
            let is_class = (label as usize) < list.classes.len() || labelled_by == LabelRule::None;
            if dir >= list.names.dirs.len() || !is_class {
                return None;
            }
            list.names.push(dir, name.file_name().filter(|file| *file == name.as_os_str())?)?;
            if labelled_by != LabelRule::None {
                list.labels.push(label.into());
            }
        }
        list.media = list.one_media(&root).ok()?;
        let ignored = u64::from_le_bytes(take(rest)?);
        let beside = u64::from_le_bytes(take(rest)?);
        list.ignored = Ignored { count: ignored, beside, ..Ignored::default() };
        for _ in 0..u32::from_le_bytes(take(rest)?) {
            let extension = String::from_utf8(text(rest)?.to_vec()).ok()?;
            list.ignored.count_extension(extension, u64::from_le_bytes(take(rest)?));
        }
        let LinkCounts { followed, loops, lost, outside, refused } = &mut list.links;
        for count in [followed, loops, lost, outside, refused] {
            *count = u64::from_le_bytes(take(rest)?);
        }
        rest.is_empty().then_some(Self { root, begun, links, list })
    }

    /// Returns whether no directory has changed since the folder was searched.
    ///
    /// # Errors
    ///
    /// Fails if the system starts no threads for the check.
    pub(super) fn still_holds(&self) -> Result<bool, ThreadsError> {
        let latest = self.begun.saturating_sub(COARSE);
        let holds = |dir: &PackedDir| {
            let is_settled = dir.modified != i64::MIN && dir.modified < latest;
            is_settled && walk::modified(&self.root.join(&dir.path)) == dir.modified
        };
        Ok(parallel::map(&self.list.names.dirs, holds)?.into_iter().all(|holds| holds))
    }
}

/// Returns the bytes of a listing.
pub(super) fn bytes(
    root: &Path,
    (begun, labelled_by, links): (i64, LabelRule, Links),
    names: &Names,
    (labels, classes): (&[u32], &[&str]),
    (ignored, counts): (&Ignored, &LinkCounts),
) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(begun.to_le_bytes());
    out.push(match labelled_by {
        LabelRule::Folder => 0,
        LabelRule::FileName => 1,
        LabelRule::None => 2,
    });
    out.push(match links {
        Links::Within => 0,
        Links::Follow => 1,
        Links::Refuse => 2,
    });
    put(&mut out, bytes_of(root.as_os_str()));
    out.extend((classes.len() as u32).to_le_bytes());
    classes.iter().for_each(|class| put(&mut out, class.as_bytes()));
    out.extend((names.dirs.len() as u32).to_le_bytes());
    for dir in &names.dirs {
        put(&mut out, bytes_of(dir.path.as_os_str()));
        out.extend(dir.modified.to_le_bytes());
    }
    out.extend((names.len() as u64).to_le_bytes());
    for (index, label) in labels.iter().enumerate() {
        let (dir, name) = names.dir_and_name(index).unwrap_or_default();
        out.extend((dir as u32).to_le_bytes());
        out.extend(label.to_le_bytes());
        put(&mut out, name);
    }
    out.extend(ignored.count.to_le_bytes());
    out.extend(ignored.beside.to_le_bytes());
    out.extend((ignored.extensions.len() as u32).to_le_bytes());
    for (extension, files) in &ignored.extensions {
        put(&mut out, extension.as_bytes());
        out.extend(files.to_le_bytes());
    }
    let LinkCounts { followed, loops, lost, outside, refused } = *counts;
    for count in [followed, loops, lost, outside, refused] {
        out.extend(count.to_le_bytes());
    }
    out.extend(crc32c::crc32c(&out).to_le_bytes());
    out
}

/// Returns whether a path stays below the folder that it is relative to.
fn is_below(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn put(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = u32::from_le_bytes(take(rest)?) as usize;
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}
