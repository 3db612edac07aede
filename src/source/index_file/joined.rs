//! A joined index: the indexes of the shards in a folder as one file in it, `joined.fjdx`.
//!
//! | offset | size | field     |                                                                |
//! |-------:|-----:|-----------|----------------------------------------------------------------|
//! |      0 |    8 | magic     | `\x89FJDX\r\n\x1a`                                             |
//! |      8 |    4 | version   | 1                                                              |
//! |     12 |      | pages     | of each shard, in the order of the directory: `shards/packed.rs` |
//! |        |      | directory | see below                                                      |
//! |    -24 |    8 | offset    | of the directory                                               |
//! |    -16 |    8 | length    | of the directory                                               |
//! |     -8 |    4 | CRC-32C   | of the directory                                               |
//! |     -4 |    4 | CRC-32C   | of the first 12 bytes and the 20 bytes before                  |
//!
//! | directory | bytes                                                                                      |
//! |-----------|--------------------------------------------------------------------------------------------|
//! | names     | the number of names of members, and each                                                   |
//! | shards    | the number of shards, and each:                                                            |
//! | name      | of its file, in the folder                                                                 |
//! | kind      | 1 B, as in `NAME.fidx`                                                                     |
//! | length    | of the shard, in bytes                                                                     |
//! | ends      | 4 B, as in `NAME.fidx`                                                                     |
//! | samples   | their number                                                                               |
//! | block     | 1 B: the number of samples of a block, as a power of two                                    |
//! | digest    | CRC-32C of the table that `NAME.fidx` would have, 4 B; 0 for TFRecords                      |
//! | pages     | their number of bytes                                                                      |
//! | members   | the number of names in the shard; of each its number in `names`, its first sample and the length of its longest member |
//! | arrays    | the number of members that are arrays and differ in their lengths; of each its name in the shard, offset and length |
//!
//! Numbers are little-endian where they have a size, and varints elsewhere; texts have their length in front. Opening a
//! dataset reads the directory, and one block of samples to know the fields. A block is read and checked when one of its
//! samples is located, and a shard is opened and compared with its length and ends when it is read first.

use super::{Kind, ends};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::Limits;
use crate::source::atomic_file;
use crate::source::file::FileBytes;
use crate::source::shards::bits::{
    put_bytes, put_varint, take_array, take_bytes, take_count, take_varint,
};
use crate::source::shards::{
    IndexFile, IndexPages, MemberNames, NamedMembers, PackedIndex, Shard, ShardMember,
};
use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// The name of the file. `joined.fidx` is the list of a folder `joined`.
const NAME: &str = "joined.fjdx";

const MAGIC: &[u8; 8] = b"\x89FJDX\r\n\x1a";
const VERSION: u32 = 1;
const HEAD: u64 = 12;
const TAIL: u64 = 24;

/// The least bytes of the pages of a block: where it ends, and its checksum.
const LEAST_BLOCK: u64 = 8;

/// The most bytes of a block that is read: samples whose members have names of their own, and keys of many kilobytes.
pub(super) const MOST_BLOCK: u64 = 16 << 20;

/// The indexes of the shards in a folder.
pub(super) struct JoinedIndex {
    pub(super) file: Arc<IndexFile>,
    /// The names of members.
    pub(super) names: Vec<String>,
    /// By the names of their files.
    pub(super) shards: HashMap<String, JoinedShard>,
}

/// A shard of a joined index.
#[derive(Clone)]
pub(super) struct JoinedShard {
    pub(super) kind: Kind,
    pub(super) ends: u32,
    /// The names of its members have their numbers in the file.
    pub(super) index: PackedIndex,
}

/// Returns the path of the joined index of a folder.
pub(super) fn path_in(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

impl JoinedIndex {
    /// Opens the joined index in a folder; `None` if there is none. One of many is opened when it is read.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read, is damaged, or has another version.
    pub(super) fn open(
        folder: &Path,
        is_one_of_many: bool,
        limits: &Limits,
    ) -> Result<Option<Self>, Error> {
        let path = path_in(folder);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = match is_one_of_many {
            true => FileBytes::pooled(&path, false),
            false => FileBytes::open(&path),
        };
        Self::of(&path, bytes.at(&path)?, limits).at(&path)
    }

    /// Reads the directory of an open file; `None` if the file is none of ours.
    pub(super) fn of(
        path: &Path,
        bytes: FileBytes,
        limits: &Limits,
    ) -> Result<Option<Self>, Error> {
        if bytes.len() < HEAD || !bytes.copy(0, 8)?.starts_with(MAGIC) {
            return Ok(None);
        }
        let damaged =
            || fail!(Format, "the index is damaged: run `fuseloop index --join SHARDS` again");
        let head = bytes.copy(0, HEAD)?;
        let version = head.last_chunk().map_or(0, |version| u32::from_le_bytes(*version));
        if version != VERSION {
            return Err(fail!(
                Format,
                "an index of version {version}, this build reads {VERSION}: run `fuseloop index --join SHARDS` again"
            ));
        }
        let start = bytes.len().checked_sub(TAIL).filter(|start| *start >= HEAD);
        let tail = bytes.copy(start.ok_or_else(damaged)?, TAIL)?;
        let (tail, sum) = tail.split_last_chunk::<4>().ok_or_else(damaged)?;
        let at = start.unwrap_or(0);
        if crc32c::crc32c_append(crc32c::crc32c(&head), tail) != u32::from_le_bytes(*sum) {
            return Err(damaged().byte(at));
        }
        let mut rest = tail;
        let mut number = || take_array(&mut rest).map(u64::from_le_bytes);
        let (Some(offset), Some(size)) = (number(), number()) else { return Err(damaged()) };
        let sum = take_array(&mut rest).map(u32::from_le_bytes);
        if offset < HEAD || offset.checked_add(size) != Some(at) {
            return Err(damaged().byte(at));
        }
        let limit = limits.max_table_bytes;
        if size > limit {
            return Err(
                fail!(Memory, "a directory of {size} bytes, the limit is {limit}").byte(offset)
            );
        }
        let directory = bytes.copy(offset, size)?;
        if Some(crc32c::crc32c(&directory)) != sum {
            return Err(damaged().byte(offset));
        }
        let file = Arc::new(IndexFile::new(path, bytes, MOST_BLOCK));
        let parsed = parse(&directory, &file, offset);
        let (names, shards) = parsed.ok_or_else(|| damaged().byte(offset))?;
        Ok(Some(Self { file, names, shards }))
    }
}

/// Parses a directory. The pages end at `end`.
fn parse(
    mut rest: &[u8],
    file: &Arc<IndexFile>,
    end: u64,
) -> Option<(Vec<String>, HashMap<String, JoinedShard>)> {
    let rest = &mut rest;
    let text = |rest: &mut &[u8]| String::from_utf8(take_bytes(rest)?.to_vec()).ok();
    // Each name and each shard takes a byte at least.
    let count = take_count(rest).filter(|count| *count <= rest.len())?;
    let names = (0..count).map(|_| text(rest)).collect::<Option<Vec<_>>>()?;
    let count = take_count(rest).filter(|count| *count <= rest.len())?;
    let mut shards = HashMap::new();
    let mut start = HEAD;
    for _ in 0..count {
        let name = text(rest)?;
        let shard = shard(rest, names.len(), (file, start, end))?;
        let IndexPages::File { size, .. } = shard.index.pages else { return None };
        start += size;
        if shards.insert(name, shard).is_some() {
            return None;
        }
    }
    (rest.is_empty() && start == end).then_some((names, shards))
}

/// Takes a shard from a directory of `names` names. Its pages begin at `start`, and all pages end at `end`.
fn shard(
    rest: &mut &[u8],
    names: usize,
    (file, start, end): (&Arc<IndexFile>, u64, u64),
) -> Option<JoinedShard> {
    let [kind] = take_array(rest)?;
    let kind = [Kind::Tar, Kind::TfRecord].into_iter().find(|known| *known as u8 == kind)?;
    let shard_len = take_varint(rest)?;
    let sums = |rest: &mut &[u8]| take_array(rest).map(u32::from_le_bytes);
    let ends = sums(rest)?;
    let samples = u32::try_from(take_varint(rest)?).ok()?;
    let [block_shift] = take_array(rest)?;
    (block_shift <= PackedIndex::BLOCK_SHIFT).then_some(())?;
    let digest = sums(rest)?;
    let size = take_varint(rest)?;
    start.checked_add(size).filter(|after| *after <= end)?;
    let blocks = u64::from(samples).div_ceil(1 << block_shift);
    (blocks * LEAST_BLOCK <= size).then_some(())?;
    let count = take_count(rest).filter(|count| *count <= rest.len())?;
    let named = |rest: &mut &[u8]| {
        let name =
            u32::try_from(take_varint(rest)?).ok().filter(|name| (*name as usize) < names)?;
        let first = u32::try_from(take_varint(rest)?).ok().filter(|first| *first < samples)?;
        let longest = take_varint(rest).filter(|longest| *longest <= shard_len)?;
        Some(NamedMembers { name, first, longest })
    };
    let named = (0..count).map(|_| named(rest)).collect::<Option<Vec<_>>>()?;
    let arrays = take_count(rest).filter(|count| *count <= rest.len())?;
    let array = |rest: &mut &[u8]| {
        let name = u16::try_from(take_varint(rest)?).ok();
        let name = name.filter(|name| usize::from(*name) < named.len())?;
        let (offset, len) = (take_varint(rest)?, take_varint(rest)?);
        offset.checked_add(len).filter(|end| *end <= shard_len)?;
        Some(ShardMember { name, offset, len })
    };
    let arrays = (0..arrays).map(|_| array(rest)).collect::<Option<Vec<_>>>()?;
    let index = PackedIndex {
        layout: kind.layout()?,
        shard_len,
        samples,
        block_shift,
        digest,
        names: named.into(),
        arrays: arrays.into(),
        pages: IndexPages::File { file: Arc::clone(file), start, size },
    };
    Some(JoinedShard { kind, ends, index })
}

/// Writes a joined index. The file appears at the end.
pub(in crate::source) struct JoinedWriter {
    path: PathBuf,
    to: BufWriter<NamedTempFile>,
    /// The number of bytes so far.
    end: u64,
    names: MemberNames,
    /// The directory without the names.
    shards: Vec<u8>,
    known: HashSet<String>,
    /// The index that is replaced.
    old: Option<JoinedIndex>,
}

impl JoinedWriter {
    /// Begins the index of a folder.
    ///
    /// # Errors
    ///
    /// Fails if no file can be written there, or if another file has the name.
    pub(in crate::source) fn create(folder: &Path, limits: &Limits) -> Result<Self, Error> {
        let path = path_in(folder);
        // A damaged index is replaced as if there were none.
        let old = JoinedIndex::open(folder, false, limits);
        if path.exists() && matches!(old, Ok(None)) {
            return Err(fail!(
                AlreadyExists,
                "a file that is no index of shards has this name: move or delete it"
            )
            .at(&path));
        }
        let file = atomic_file::create(&path).at(&path)?;
        let mut writer = Self {
            to: BufWriter::with_capacity(1 << 20, file),
            path,
            end: 0,
            names: MemberNames::default(),
            shards: vec![],
            known: HashSet::new(),
            old: old.unwrap_or_default(),
        };
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        Ok(writer)
    }

    /// Appends a shard. One whose name was added before is left out.
    ///
    /// # Errors
    ///
    /// Fails if the shard can't be read, or with the system's error.
    pub(in crate::source) fn add(
        &mut self,
        shard: &Shard,
        (kind, mut index): (Kind, PackedIndex),
        names: &[String],
    ) -> Result<(), Error> {
        let name = shard.location.file_name().to_owned();
        if name.is_empty() {
            return Err(fail!(
                Unsupported,
                "a joined index needs names of files in UTF-8: rename the shard"
            )
            .at(&shard.location));
        }
        let numbered = index.rename(|name| self.names.add(names.get(name as usize)?));
        numbered.ok_or_else(|| fail!(Format, "over 2^32 extensions").at(&shard.location))?;
        let ends = ends(&shard.bytes).at(&shard.location)?;
        let listed = JoinedShard { kind, ends, index };
        let IndexPages::Memory(pages) = &listed.index.pages else { return Ok(()) };
        if listed.index.longest_block() > MOST_BLOCK {
            return Err(fail!(
                Unsupported,
                "the keys and names of a few samples take more than {MOST_BLOCK} bytes of a joined index: index the shard \
                 without `--join`"
            )
            .at(&shard.location));
        }
        if self.known.insert(name.clone()) {
            self.list(&name, &listed, pages.len() as u64);
            self.put(pages)?;
        }
        Ok(())
    }

    /// Appends the shards of the old index that were not added and are there as they were, and finishes the file. Returns its
    /// size in bytes.
    ///
    /// # Errors
    ///
    /// Fails with the system's error.
    pub(in crate::source) fn finish(mut self) -> Result<u64, Error> {
        if let Some(old) = self.old.take() {
            self.keep(&old)?;
        }
        let mut directory = vec![];
        put_varint(self.names.all().len() as u64, &mut directory);
        self.names.all().iter().for_each(|name| put_bytes(name.as_bytes(), &mut directory));
        put_varint(self.known.len() as u64, &mut directory);
        directory.append(&mut self.shards);
        let mut tail = self.end.to_le_bytes().to_vec();
        tail.extend((directory.len() as u64).to_le_bytes());
        tail.extend(crc32c::crc32c(&directory).to_le_bytes());
        let head = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
        tail.extend(crc32c::crc32c_append(crc32c::crc32c(&head), &tail).to_le_bytes());
        self.put(&directory)?;
        self.put(&tail)?;
        let file = self.to.into_inner().map_err(io::IntoInnerError::into_error).at(&self.path)?;
        atomic_file::persist(file, &self.path).at(&self.path)?;
        Ok(self.end)
    }

    fn keep(&mut self, old: &JoinedIndex) -> Result<(), Error> {
        let numbers: Vec<u32> = old
            .names
            .iter()
            .map(|name| self.names.add(name))
            .collect::<Option<_>>()
            .unwrap_or_default();
        let folder = self.path.parent().unwrap_or(Path::new("")).to_owned();
        let mut kept: Vec<_> = old.shards.iter().collect();
        kept.sort_by_key(|(_, shard)| match shard.index.pages {
            IndexPages::File { start, .. } => start,
            IndexPages::Lists(_) | IndexPages::Memory(_) => 0,
        });
        for (name, shard) in kept {
            let is_there = || {
                let found = std::fs::metadata(folder.join(name));
                found.is_ok_and(|found| found.is_file() && found.len() == shard.index.shard_len)
            };
            if self.known.contains(name) || !is_there() {
                continue;
            }
            let mut shard = shard.clone();
            let IndexPages::File { start, size, .. } = shard.index.pages else { continue };
            if shard.index.rename(|name| numbers.get(name as usize).copied()).is_none() {
                continue;
            }
            let pages = old.file.bytes().copy(start, size).at(old.file.path())?;
            self.known.insert(name.clone());
            self.list(name, &shard, size);
            self.put(&pages)?;
        }
        Ok(())
    }

    /// Adds a shard to the directory.
    fn list(&mut self, name: &str, shard: &JoinedShard, size: u64) {
        let (index, out) = (&shard.index, &mut self.shards);
        put_bytes(name.as_bytes(), out);
        out.push(shard.kind as u8);
        put_varint(index.shard_len, out);
        out.extend(shard.ends.to_le_bytes());
        put_varint(index.samples.into(), out);
        out.push(index.block_shift);
        out.extend(index.digest.to_le_bytes());
        put_varint(size, out);
        put_varint(index.names.len() as u64, out);
        for named in &index.names {
            [named.name.into(), named.first.into(), named.longest]
                .into_iter()
                .for_each(|number| put_varint(number, out));
        }
        put_varint(index.arrays.len() as u64, out);
        for array in &index.arrays {
            [array.name.into(), array.offset, array.len]
                .into_iter()
                .for_each(|number| put_varint(number, out));
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.end += bytes.len() as u64;
        self.to.write_all(bytes).at(&self.path)
    }
}

/// Reads a joined index of a directory and pages, whose checksums are put right: for fuzz targets. Returns whether it is one;
/// samples then lie within their shards, or are refused.
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
pub(crate) fn read_joined(directory: &[u8], pages: &[u8], limits: &Limits) -> bool {
    let path = Path::new(NAME);
    let head = [&MAGIC[..], &VERSION.to_le_bytes()].concat();
    let whole = |pages: &[u8]| {
        let mut tail = (HEAD + pages.len() as u64).to_le_bytes().to_vec();
        tail.extend((directory.len() as u64).to_le_bytes());
        tail.extend(crc32c::crc32c(directory).to_le_bytes());
        tail.extend(crc32c::crc32c_append(crc32c::crc32c(&head), &tail).to_le_bytes());
        let bytes = [&head, pages, directory, &tail].concat();
        JoinedIndex::of(path, FileBytes::InMemory(bytes.into()), limits)
    };
    let Ok(Some(joined)) = whole(pages) else { return false };
    let mut summed = pages.to_vec();
    for shard in joined.shards.values() {
        let IndexPages::File { start, size, .. } = shard.index.pages else { continue };
        let (start, size) = ((start - HEAD) as usize, size as usize);
        PackedIndex::put_sums(&mut summed[start..start + size], shard.index.blocks());
    }
    let Ok(Some(joined)) = whole(&summed) else { return false };
    for JoinedShard { index, .. } in joined.shards.values() {
        for sample in (0..index.len()).take(300) {
            let _ = index.key(sample);
            for member in index.members(sample).unwrap_or_default() {
                assert!(member.range().end <= index.shard_len, "beyond the shard");
                assert!(usize::from(member.name) < index.names.len(), "no such name");
            }
        }
    }
    true
}

#[cfg(test)]
pub(super) mod examples {
    use super::*;
    use crate::source::shards::ShardIndex;

    /// Returns the length of a directory, the directory and pages of a joined index of one shard, as [`read_joined`] takes them
    /// behind the length. A sample has members of these names and lengths.
    #[cfg_attr(
        not(all(feature = "spec", feature = "tables", feature = "tar", feature = "write")),
        allow(dead_code, reason = "the fuzz checks need all formats")
    )]
    pub(crate) fn joined_of(is_tar: bool, samples: &[(String, Vec<(&str, u16)>)]) -> Vec<u8> {
        let (mut index, mut end) = (ShardIndex::default(), 0_u64);
        for (key, members) in samples {
            for (name, len) in members {
                let start = if is_tar { end.next_multiple_of(512) + 512 } else { end + 16 };
                end = start + u64::from(*len);
                index.add(name, start..end).unwrap();
            }
            index.end(key.as_bytes()).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let shard = Shard::held("a", &vec![0; end as usize]);
        let kind = if is_tar { Kind::Tar } else { Kind::TfRecord };
        let (index, names) = super::super::pack(&shard, kind, &index).unwrap();
        let mut writer = JoinedWriter::create(folder.path(), &Limits::DEFAULT).unwrap();
        writer.add(&shard, (kind, index), &names).unwrap();
        writer.finish().unwrap();
        let bytes = std::fs::read(path_in(folder.path())).unwrap();
        let (bytes, tail) = bytes.split_at(bytes.len() - TAIL as usize);
        let offset = u64::from_le_bytes(*tail.first_chunk().unwrap()) as usize;
        let (pages, directory) = bytes.split_at(offset);
        let size = (directory.len() as u32).to_le_bytes();
        [&size[..], directory, &pages[HEAD as usize..]].concat()
    }
}
