//! The positions of the samples in one shard in few bytes: about 2 to 4 for each sample, in memory or in a file.
//!
//! ```text
//! ShardIndex ─ pack ─▶ blocks of 1 to 128 samples ─┬─ in memory
//!                                                  └─ in a joined index, read when a sample of the block is located
//! ```
//!
//! | bytes of a shard | size | meaning                                                              |
//! |------------------|-----:|----------------------------------------------------------------------|
//! | ends             |    4 | of each block: where it ends, from the beginning of the first block   |
//! | blocks           |      | each the CRC-32C of what follows (4 B), and its members and keys       |
//!
//! | bytes of a block | meaning                                                                              |
//! |------------------|--------------------------------------------------------------------------------------|
//! | names            | the number of names of members in the block, and each, as a number in the shard       |
//! | lists            | the number of lists of members that samples have: each its length, and indices into `names`; a column has the number of each sample's list. 0: each sample has all names in their order |
//! | start            | the offset behind the member before the first, as far as it matters                   |
//! | unit             | 0 or 9, 1 B                                                                          |
//! | gaps             | a column: of each member its distance from where it was expected, shifted right by `unit` |
//! | lengths          | for each of `names` a column of the lengths of its members                            |
//! | keys             | see `keys.rs`                                                                        |
//!
//! Counts, indices and `start` are varints; numbers and columns are those of `bits.rs`. Members are stored in the order of
//! their samples. A member of a tar file is expected at the next multiple of 512 behind the end of the one before, and the
//! 512 bytes of a header; the data of a TFRecord 16 bytes behind that of the one before.

use super::bits::{Column, put_column, put_varint, take_byte, take_count, take_varint};
use super::index::{ShardIndex, ShardMember};
use super::keys;
use crate::error::{Error, fail};
use crate::source::file::FileBytes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most samples of a block, as a power of two.
const BLOCK_SHIFT: u8 = 7;

/// The most samples of a block.
const BLOCK: usize = 1 << BLOCK_SHIFT;

/// The most members of a block, unless one sample has half of them: to locate a member, those before it in its block are
/// visited.
const FEW_MEMBERS: usize = 1024;

/// The size of a block of a tar file, as a power of two.
const TAR_SHIFT: u8 = 9;

/// The most members of a block: as many as a sample of a tar file can have, for each sample.
const MOST_MEMBERS: usize = BLOCK << 16;

/// The most lengths of arrays that are kept for an extension: eight that differ from that of the dataset's first sample.
const MOST_LENGTHS: usize = 9;

/// The way in which members follow each other in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum MemberLayout {
    Tar,
    TfRecord,
}

impl MemberLayout {
    /// Returns the offset of the member that follows one that ends at `end`.
    fn expected(self, end: u64) -> u64 {
        match self {
            Self::Tar => end.wrapping_add(511 + 512) & !511,
            Self::TfRecord => end.wrapping_add(16),
        }
    }
}

/// The names of members in all shards of a dataset, each with a number.
#[derive(Debug, Default)]
pub(in crate::source) struct MemberNames {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

impl MemberNames {
    /// Returns the number of a name, which is added if it is new; `None` if there are 2^32 names.
    pub(in crate::source) fn add(&mut self, name: &str) -> Option<u32> {
        if let Some(&known) = self.numbers.get(name) {
            return Some(known);
        }
        let number = u32::try_from(self.all.len()).ok()?;
        let name: Arc<str> = name.into();
        self.all.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        Some(number)
    }

    /// Returns the number of a name.
    pub(in crate::source) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Returns the name of a number; an empty one beyond the last.
    pub(in crate::source) fn text(&self, number: u32) -> &str {
        self.all.get(number as usize).map_or("", |name| name)
    }

    /// Returns all names, in the order of their numbers.
    pub(in crate::source) fn all(&self) -> &[Arc<str>] {
        &self.all
    }
}

/// The members of one name in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) struct NamedMembers {
    /// The number of the name in [`MemberNames`].
    pub(in crate::source) name: u32,
    /// The first sample that has such a member.
    pub(in crate::source) first: u32,
    /// The length of the longest such member.
    pub(in crate::source) longest: u64,
}

/// The samples of one shard, in the order in which they are stored in it.
#[derive(Clone, Debug)]
pub(in crate::source) struct PackedIndex {
    pub(in crate::source) layout: MemberLayout,
    /// The length of the shard in bytes.
    pub(in crate::source) shard_len: u64,
    pub(in crate::source) samples: u32,
    /// The number of samples of a block, as a power of two; the last block has the others.
    pub(in crate::source) block_shift: u8,
    /// A checksum of the index: the same wherever the index was read from.
    pub(in crate::source) digest: u32,
    /// By the number of a name in the shard.
    pub(in crate::source) names: Box<[NamedMembers]>,
    /// Members that are arrays: of each name the first ones that differ in their lengths, [`MOST_LENGTHS`] at most.
    pub(in crate::source) arrays: Box<[ShardMember]>,
    pub(in crate::source) pages: IndexPages,
}

/// The bytes of a [`PackedIndex`].
#[derive(Clone, Debug)]
pub(in crate::source) enum IndexPages {
    /// Not packed: some 65 bytes a sample, of which any is found at once.
    Lists(Arc<ShardIndex>),
    Memory(Box<[u8]>),
    File {
        file: Arc<IndexFile>,
        start: u64,
        size: u64,
    },
}

/// An open file of indexes.
pub(in crate::source) struct IndexFile {
    path: PathBuf,
    bytes: FileBytes,
    /// A number that no other such file has.
    number: u64,
    /// The most bytes of a block.
    most: u64,
}

impl std::fmt::Debug for IndexFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IndexFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl IndexFile {
    /// Wraps an open file, whose blocks have at most `most` bytes.
    pub(in crate::source) fn new(path: &Path, bytes: FileBytes, most: u64) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { path: path.to_owned(), bytes, number, most }
    }

    pub(in crate::source) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::source) fn bytes(&self) -> &FileBytes {
        &self.bytes
    }

    fn damaged(&self, at: u64) -> Error {
        fail!(Format, "the index is damaged: run `fuseloop index --join SHARDS` again")
            .at(&self.path)
            .byte(at)
    }

    /// Reads block `number` of a shard whose bytes begin at `start`, and checks it.
    fn read_block(
        &self,
        (start, size): (u64, u64),
        (number, blocks): (u64, u64),
        block: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut ends = [0; 8];
        let first = number.saturating_sub(1);
        let count = if number == 0 { 4 } else { 8 };
        let at = start + 4 * first;
        let failed = |error: Error| error.at(&self.path);
        let read = self.bytes.copy(at, count).map_err(failed)?;
        ends[8 - read.len()..].copy_from_slice(&read);
        let [begin, end] = [0, 4].map(|at| {
            u64::from(u32::from_le_bytes([ends[at], ends[at + 1], ends[at + 2], ends[at + 3]]))
        });
        let length = end.checked_sub(begin).filter(|length| (4..=self.most).contains(length));
        let length = length.filter(|_| 4 * blocks + end <= size).ok_or_else(|| self.damaged(at))?;
        let from = start + 4 * blocks + begin;
        block.clear();
        self.bytes.append(from, length, block).map_err(failed)?;
        match block.split_first_chunk::<4>() {
            Some((sum, rest)) if crc32c::crc32c(rest) == u32::from_le_bytes(*sum) => Ok(()),
            _ => Err(self.damaged(from)),
        }
    }
}

/// The block of a file that a thread read last.
#[derive(Default)]
struct LastBlock {
    /// The number of the file; 0 if there is none.
    file: u64,
    /// Where the bytes of the shard begin in the file, and the number of the block.
    of: (u64, usize),
    bytes: Vec<u8>,
}

thread_local! {
    /// Consecutive fields of a sample, and often consecutive samples, are in one block.
    static LAST: RefCell<LastBlock> = RefCell::default();
}

impl PackedIndex {
    /// The most samples of a block, as a power of two.
    pub(in crate::source) const BLOCK_SHIFT: u8 = BLOCK_SHIFT;

    /// Packs the index of a shard of `shard_len` bytes. The names of members get numbers in the order in which the index
    /// has them; [`rename`](Self::rename) replaces these. `is_array` returns whether the lengths of the members of a name are needed.
    ///
    /// Returns `None` if there are more than 2^32 samples, over 4 GiB of blocks, or a block of more than [`MOST_MEMBERS`].
    pub(in crate::source) fn pack(
        index: &ShardIndex,
        (layout, shard_len, digest): (MemberLayout, u64, u32),
        is_array: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let samples = u32::try_from(index.len()).ok()?;
        let block_shift = block_shift(index);
        let (mut ends, mut blocks) = (vec![], vec![]);
        for first in (0..index.len()).step_by(1 << block_shift) {
            let start = blocks.len();
            blocks.extend([0; 4]);
            let last = index.len().min(first + (1 << block_shift)) - 1;
            put_block(index, first..=last, layout, &mut blocks)?;
            let sum = crc32c::crc32c(&blocks[start + 4..]);
            blocks[start..start + 4].copy_from_slice(&sum.to_le_bytes());
            ends.extend(u32::try_from(blocks.len()).ok()?.to_le_bytes());
        }
        ends.extend(blocks);
        let mut names: Vec<Option<NamedMembers>> = vec![None; index.names().len()];
        let is_array: Vec<bool> = index.names().iter().map(|name| is_array(name)).collect();
        let mut arrays: Vec<ShardMember> = vec![];
        let mut lengths = vec![0; names.len()];
        for sample in 0..samples {
            for member in index.members(sample as usize) {
                let name = usize::from(member.name);
                let new = NamedMembers { name: name as u32, first: sample, longest: 0 };
                let named = names[name].get_or_insert(new);
                named.longest = named.longest.max(member.len);
                let is_known =
                    |known: &&ShardMember| (known.name, known.len) == (member.name, member.len);
                if is_array[name]
                    && lengths[name] < MOST_LENGTHS
                    && !arrays.iter().any(|known| is_known(&known))
                {
                    lengths[name] += 1;
                    arrays.push(*member);
                }
            }
        }
        Some(Self {
            layout,
            shard_len,
            samples,
            block_shift,
            digest,
            names: names.into_iter().collect::<Option<Vec<_>>>()?.into(),
            arrays: arrays.into(),
            pages: IndexPages::Memory(ends.into()),
        })
    }

    /// Returns the index with the positions of `index`, which it was packed from, as they are.
    pub(in crate::source) fn unpacked(self, index: ShardIndex) -> Self {
        Self { pages: IndexPages::Lists(Arc::new(index)), ..self }
    }

    /// Replaces the numbers of the names of members by those that they have in a dataset.
    ///
    /// Returns `None` if a name has no number.
    pub(in crate::source) fn rename(
        &mut self,
        mut number: impl FnMut(u32) -> Option<u32>,
    ) -> Option<()> {
        self.names.iter_mut().try_for_each(|named| {
            named.name = number(named.name)?;
            Some(())
        })
    }

    /// Returns the number of samples.
    pub(in crate::source) fn len(&self) -> usize {
        self.samples as usize
    }

    /// Returns the members of one name in the shard.
    pub(in crate::source) fn named(&self, name: u32) -> Option<&NamedMembers> {
        self.names.iter().find(|named| named.name == name)
    }

    /// Returns the number of blocks.
    pub(in crate::source) fn blocks(&self) -> usize {
        self.len().div_ceil(1 << self.block_shift)
    }

    /// Puts the checksums of `blocks` blocks right, as far as blocks lie within the pages.
    #[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
    pub(in crate::source) fn put_sums(pages: &mut [u8], blocks: usize) {
        for number in 0..blocks {
            if let Some(block) = block_in(pages, number, blocks) {
                let sum = crc32c::crc32c(&pages[block.clone()]);
                pages[block.start - 4..block.start].copy_from_slice(&sum.to_le_bytes());
            }
        }
    }

    /// Returns the size in bytes of the longest block in memory.
    pub(in crate::source) fn longest_block(&self) -> u64 {
        let IndexPages::Memory(pages) = &self.pages else { return 0 };
        let blocks = self.blocks();
        let sizes = (0..blocks).filter_map(|number| block_in(pages, number, blocks));
        sizes.map(|block| block.len() as u64 + 4).max().unwrap_or(0)
    }

    /// Returns a sample's key; empty beyond the last sample.
    ///
    /// # Errors
    ///
    /// Fails if the index can't be read or is damaged.
    pub(in crate::source) fn key(&self, sample: usize) -> Result<Vec<u8>, Error> {
        if sample >= self.len() {
            return Ok(vec![]);
        }
        if let IndexPages::Lists(lists) = &self.pages {
            return Ok(lists.key(sample).to_vec());
        }
        self.block(sample, |block, sample| keys::key(block.keys, sample, block.samples))
    }

    /// Returns a sample's members, in the order in which they are stored; empty beyond the last sample. The name of a
    /// member is an index into [`names`](Self::names).
    ///
    /// # Errors
    ///
    /// Fails as [`key`](Self::key) does.
    pub(in crate::source) fn members(&self, sample: usize) -> Result<Vec<ShardMember>, Error> {
        let mut members = vec![];
        self.visit(sample, |member| members.push(member))?;
        Ok(members)
    }

    /// Returns the member of a sample whose name stands first among `wanted`, and where it stands there.
    ///
    /// # Errors
    ///
    /// Fails as [`key`](Self::key) does.
    pub(in crate::source) fn find(
        &self,
        sample: usize,
        wanted: &[u32],
    ) -> Result<Option<(ShardMember, usize)>, Error> {
        let mut found: Option<(ShardMember, usize)> = None;
        self.visit(sample, |member| {
            let name = self.names.get(usize::from(member.name)).map(|named| named.name);
            let place = wanted.iter().position(|wanted| Some(*wanted) == name);
            if let Some(place) = place
                && found.is_none_or(|(_, best)| place < best)
            {
                found = Some((member, place));
            }
        })?;
        Ok(found)
    }

    /// Calls `found` with each member of a sample.
    fn visit(&self, sample: usize, mut found: impl FnMut(ShardMember)) -> Result<(), Error> {
        if sample >= self.len() {
            return Ok(());
        }
        if let IndexPages::Lists(lists) = &self.pages {
            lists.members(sample).iter().copied().for_each(found);
            return Ok(());
        }
        let of = (self.layout, self.shard_len, self.names.len());
        self.block(sample, |block, sample| block.members(sample, of, &mut found))
    }

    /// Calls `read` with the block of a sample and the sample's number in it.
    fn block<T>(
        &self,
        sample: usize,
        read: impl FnOnce(&Block<'_>, usize) -> Option<T>,
    ) -> Result<T, Error> {
        let most = 1 << self.block_shift;
        let (number, within) = (sample / most, sample % most);
        let (blocks, samples) = (self.blocks(), most.min(self.len() - sample + within));
        let read = |bytes: &[u8]| read(&Block::parse(bytes, samples)?, within);
        match &self.pages {
            IndexPages::Lists(_) => Err(fail!(Format, "the index of the shard has no blocks")),
            IndexPages::Memory(pages) => block_in(pages, number, blocks)
                .and_then(|block| read(pages.get(block)?))
                .ok_or_else(|| fail!(Format, "the index of the shard is damaged")),
            IndexPages::File { file, start, size } => LAST.with_borrow_mut(|last| {
                let of = (*start, number);
                if (last.file, last.of) != (file.number, of) {
                    last.file = 0;
                    let numbers = (number as u64, blocks as u64);
                    file.read_block((*start, *size), numbers, &mut last.bytes)?;
                    (last.file, last.of) = (file.number, of);
                }
                let bytes = last.bytes.get(4..).unwrap_or_default();
                read(bytes).ok_or_else(|| {
                    let at = start + 4 * number as u64;
                    fail!(
                        Format,
                        "the index is damaged: block {number} of a shard has keys or members that the shard can't have: run \
                         `fuseloop index --join SHARDS` again"
                    )
                    .at(&file.path)
                    .byte(at)
                })
            }),
        }
    }
}

/// Returns where a block is in the pages of a shard, without its checksum.
fn block_in(pages: &[u8], number: usize, blocks: usize) -> Option<Range<usize>> {
    let end = |number: usize| {
        let bytes = pages.get(4 * number..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    let start = number.checked_sub(1).map_or(Some(0), end)?;
    let block = 4 * blocks + start + 4..4 * blocks + end(number)?;
    pages.get(block.clone()).map(|_| block)
}

/// A block of samples.
struct Block<'a> {
    samples: usize,
    /// The number of each name in the shard, and the lengths of its members.
    columns: Vec<(u16, Column<'a>)>,
    /// The lists of members, and the number of each sample's; `None` if each sample has all names.
    lists: Option<(Vec<Vec<usize>>, Column<'a>)>,
    start: u64,
    shift: u32,
    gaps: Column<'a>,
    keys: &'a [u8],
}

impl<'a> Block<'a> {
    /// Parses a block. Each name and each element of a list takes a byte at least, so that the number of members is at most
    /// that of the bytes for each sample.
    fn parse(mut rest: &'a [u8], samples: usize) -> Option<Self> {
        let rest = &mut rest;
        let count = take_count(rest).filter(|count| *count <= rest.len())?;
        let names: Vec<u16> = (0..count)
            .map(|_| u16::try_from(take_varint(rest)?).ok())
            .collect::<Option<Vec<_>>>()?;
        let lists = match take_count(rest).filter(|lists| *lists <= samples)? {
            0 => None,
            lists => {
                let lists = (0..lists).map(|_| list(rest, count)).collect::<Option<Vec<_>>>()?;
                Some((lists, Column::take(rest, samples)?))
            }
        };
        let mut counts = vec![0_usize; count];
        let mut members = 0_usize;
        match &lists {
            None => {
                counts.fill(samples);
                members = samples.checked_mul(count)?;
            }
            Some((lists, column)) => {
                for sample in 0..samples {
                    let list = lists.get(usize::try_from(column.get(sample)).ok()?)?;
                    (members <= MOST_MEMBERS).then_some(())?;
                    list.iter().for_each(|name| counts[*name] += 1);
                    members += list.len();
                }
            }
        }
        (members <= MOST_MEMBERS).then_some(())?;
        let start = take_varint(rest)?;
        let shift = u32::from(take_byte(rest).filter(|shift| [0, TAR_SHIFT].contains(shift))?);
        let gaps = Column::take(rest, members)?;
        let column = |(name, count): (u16, usize)| Some((name, Column::take(rest, count)?));
        let columns = names.into_iter().zip(counts).map(column).collect::<Option<Vec<_>>>()?;
        Some(Self { samples, columns, lists, start, shift, gaps, keys: rest })
    }

    /// Calls `found` with the members of a sample, which must lie within a shard of `shard_len` bytes with `names` names.
    fn members(
        &self,
        sample: usize,
        (layout, shard_len, names): (MemberLayout, u64, usize),
        found: &mut impl FnMut(ShardMember),
    ) -> Option<()> {
        let mut end = self.start;
        let mut member = 0;
        let mut next = |(name, column): &(u16, Column<'_>), nth: usize, is_wanted: bool| {
            let gap = self.gaps.get(member) << self.shift;
            member += 1;
            let offset = layout.expected(end).wrapping_add(gap);
            let len = column.get(nth);
            end = offset.checked_add(len).filter(|end| *end <= shard_len)?;
            if is_wanted {
                (usize::from(*name) < names).then_some(())?;
                found(ShardMember { name: *name, offset, len });
            }
            Some(())
        };
        let Some((lists, numbers)) = &self.lists else {
            for at in 0..=sample {
                self.columns.iter().try_for_each(|column| next(column, at, at == sample))?;
            }
            return Some(());
        };
        let mut counts = vec![0; self.columns.len()];
        for at in 0..=sample {
            for &name in lists.get(usize::try_from(numbers.get(at)).ok()?)? {
                next(self.columns.get(name)?, counts[name], at == sample)?;
                counts[name] += 1;
            }
        }
        Some(())
    }
}

/// Returns the number of samples of a block, as a power of two: as many as possible, unless their members are many.
fn block_shift(index: &ShardIndex) -> u8 {
    let members: Vec<usize> = (0..index.len()).map(|sample| index.members(sample).len()).collect();
    let is_short = |shift: &u8| {
        members.chunks(1 << shift).all(|block| {
            let (all, most) = (block.iter().sum::<usize>(), block.iter().max().copied());
            all <= FEW_MEMBERS || all <= 2 * most.unwrap_or(0)
        })
    };
    (0..=BLOCK_SHIFT).rev().find(is_short).unwrap_or(0)
}

/// Takes a list of members: indices into `names` names.
fn list(rest: &mut &[u8], names: usize) -> Option<Vec<usize>> {
    let count = take_count(rest).filter(|count| *count <= rest.len())?;
    (0..count).map(|_| take_count(rest).filter(|name| *name < names)).collect()
}

/// Appends a block without its checksum; `None` if it has too many members.
fn put_block(
    index: &ShardIndex,
    samples: RangeInclusive<usize>,
    layout: MemberLayout,
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut names = vec![];
    // The column of each name of the shard.
    let mut columns = vec![usize::MAX; index.names().len()];
    let (mut lists, mut known) = (Vec::<Vec<usize>>::new(), HashMap::new());
    let (mut numbers, mut lengths, mut list) = (Vec::<u64>::new(), Vec::<Vec<u64>>::new(), vec![]);
    for sample in samples.clone() {
        list.clear();
        for member in index.members(sample) {
            let column = &mut columns[usize::from(member.name)];
            if *column == usize::MAX {
                *column = names.len();
                names.push(member.name);
                lengths.push(vec![]);
            }
            lengths[*column].push(member.len);
            list.push(*column);
        }
        // Most samples have the list of the one before.
        let last = numbers.last().copied().filter(|last| lists[*last as usize] == list);
        numbers.push(last.unwrap_or_else(|| {
            *known.entry(list.clone()).or_insert_with(|| {
                lists.push(list.clone());
                lists.len() as u64 - 1
            })
        }));
    }
    put_varint(names.len() as u64, out);
    names.iter().for_each(|name| put_varint((*name).into(), out));
    let is_same = lists.len() == 1 && lists[0].iter().copied().eq(0..names.len());
    put_varint(if is_same { 0 } else { lists.len() as u64 }, out);
    if !is_same {
        for list in &lists {
            put_varint(list.len() as u64, out);
            list.iter().for_each(|column| put_varint(*column as u64, out));
        }
        put_column(&numbers, out);
    }
    let members: Vec<ShardMember> =
        samples.clone().flat_map(|sample| index.members(sample)).copied().collect();
    (members.len() <= MOST_MEMBERS).then_some(())?;
    let gap = |end: u64, member: &ShardMember| member.offset.wrapping_sub(layout.expected(end));
    let end = |member: &ShardMember| member.range().end;
    let mut gaps: Vec<u64> = members.windows(2).map(|pair| gap(end(&pair[0]), &pair[1])).collect();
    // The first gap is that of the second member, which is often that of all.
    let first = members.first().map_or(0, |member| member.offset);
    let usual = gaps.first().copied().unwrap_or(0);
    let start = first.wrapping_sub(layout.expected(0)).wrapping_sub(usual);
    if let Some(member) = members.first() {
        gaps.insert(0, gap(start, member));
    }
    let shift = if gaps.iter().all(|gap| gap % (1 << TAR_SHIFT) == 0) { TAR_SHIFT } else { 0 };
    // The sign of a gap is kept.
    let units: Vec<u64> =
        gaps.iter().map(|gap| (gap.cast_signed() >> shift).cast_unsigned()).collect();
    put_varint(start, out);
    out.push(shift);
    put_column(&units, out);
    lengths.iter().for_each(|lengths| put_column(lengths, out));
    let keys: Vec<&[u8]> = samples.map(|sample| index.key(sample)).collect();
    keys::put_keys(&keys, out);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(index: &ShardIndex, layout: MemberLayout) -> PackedIndex {
        let packed = PackedIndex::pack(index, (layout, u64::MAX, 0), |name| name == "npy").unwrap();
        assert_eq!(packed.len(), index.len());
        for sample in 0..index.len() + 2 {
            assert_eq!(packed.members(sample).unwrap(), index.members(sample), "{sample}");
            assert_eq!(packed.key(sample).unwrap(), index.key(sample), "{sample}");
        }
        packed
    }

    fn bytes(packed: &PackedIndex) -> &[u8] {
        let IndexPages::Memory(pages) = &packed.pages else { panic!("in memory") };
        pages
    }

    /// Returns the index of a tar file, or of TFRecords, of samples of these members.
    fn index(
        layout: MemberLayout,
        samples: impl Iterator<Item = (String, Vec<(&'static str, u64)>)>,
    ) -> ShardIndex {
        let (mut index, mut end) = (ShardIndex::default(), 0);
        for (key, members) in samples {
            for (name, len) in members {
                let offset = if end == 0 && layout == MemberLayout::TfRecord {
                    12
                } else {
                    layout.expected(end)
                };
                index.add(name, offset..offset + len).unwrap();
                end = offset + len;
            }
            index.end(key.as_bytes()).unwrap();
        }
        index
    }

    fn random(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) >> 16
    }

    #[test]
    fn images_with_labels_and_texts_take_four_bytes_a_sample() {
        // Images of 10 to 210 KB, labels of 1 to 3 digits, and texts of 300 to 500 bytes.
        let members = |n: u64, count: usize| {
            let lengths =
                [10_000 + random(n) % 200_000, 1 + random(3 * n) % 3, 300 + random(7 * n) % 200];
            ["jpg", "cls", "json"].into_iter().zip(lengths).take(count).collect()
        };
        let samples = |count| (0..10_000).map(move |n| (format!("{n:09}"), members(n, count)));
        let [two, three] = [2, 3].map(|count| index(MemberLayout::Tar, samples(count)));
        let records = index(
            MemberLayout::TfRecord,
            (0..10_000).map(|n| (String::new(), vec![("", 10_000 + random(n) % 200_000)])),
        );
        let sizes = [
            (&three, MemberLayout::Tar),
            (&two, MemberLayout::Tar),
            (&records, MemberLayout::TfRecord),
        ]
        .map(|(index, layout)| bytes(&packed(index, layout)).len());
        assert!(sizes[0] < 40_000 && sizes[1] < 30_000 && sizes[2] < 26_000, "{sizes:?}");
    }

    #[test]
    fn any_members_read_back() {
        for layout in [MemberLayout::Tar, MemberLayout::TfRecord] {
            for count in [0, 1, 2, 65, 127, 128, 129, 300] {
                let names = ["jpg", "cls", "npy", "seg.png", ""];
                let samples = (0..count).map(|n| {
                    let members = names
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| !random(n * 5 + *at as u64).is_multiple_of(3));
                    (
                        format!("{:x}", random(n)),
                        members.map(|(at, name)| (*name, random(n + at as u64) % 3000)).collect(),
                    )
                });
                packed(&index(layout, samples.collect::<Vec<_>>().into_iter()), layout);
            }
            // Members in any order, over each other, of any length, and the same name twice.
            let mut any = ShardIndex::default();
            for n in 0..200 {
                for name in ["a", "b", "a"] {
                    let offset = random(n * 3) << (random(n) % 16);
                    any.add(name, offset..offset + random(n + 1)).unwrap();
                }
                any.end(&[n as u8; 3]).unwrap();
            }
            any.end(b"").unwrap();
            packed(&any, layout);
        }
    }

    /// To locate a member takes time by the members before it in its block.
    #[test]
    fn samples_of_many_members_are_in_small_blocks() {
        let names: Vec<&'static str> =
            (0..300).map(|n| &*Box::leak(format!("f{n}").into_boxed_str())).collect();
        let shift_of = |counts: &[usize]| {
            let samples = counts.iter().enumerate().map(|(n, count)| {
                (
                    n.to_string(),
                    names[..*count].iter().map(|name| (*name, random(n as u64) % 9)).collect(),
                )
            });
            packed(
                &index(MemberLayout::Tar, samples.collect::<Vec<_>>().into_iter()),
                MemberLayout::Tar,
            )
            .block_shift
        };
        assert_eq!(shift_of(&[3; 300]), 7);
        assert_eq!(shift_of(&[65; 140]), 3);
        assert_eq!(shift_of(&[300; 40]), 1);
        let mut one_long = [2; 300];
        one_long[77] = 300;
        assert_eq!(shift_of(&one_long), 7, "the others of its block are short");
    }

    #[test]
    fn headers_of_several_blocks_cost_little() {
        // PAX headers of 1024 bytes in front of each member, and a folder in front of some.
        let (mut index, mut end) = (ShardIndex::default(), 0_u64);
        for n in 0..1000_u64 {
            end = end.next_multiple_of(512) + if n % 50 == 0 { 512 } else { 0 };
            for name in ["jpg", "cls"] {
                let offset = end.next_multiple_of(512) + 1024 + 512;
                end = offset + if name == "jpg" { 5000 + random(n) % 1000 } else { 1 };
                index.add(name, offset..end).unwrap();
            }
            index.end(format!("x/{n}").as_bytes()).unwrap();
        }
        let size = bytes(&packed(&index, MemberLayout::Tar)).len();
        assert!(size < 2100, "{size}");
    }

    #[test]
    fn names_and_lengths_of_arrays_are_known_without_a_block() {
        let lengths = [7, 9, 7, 8, 9];
        let samples = (0..40).map(|n| {
            let members = if n == 0 {
                vec![("cls", 3)]
            } else {
                vec![("npy", lengths[n % 5]), ("cls", n as u64)]
            };
            (n.to_string(), members)
        });
        let mut packed = packed(&index(MemberLayout::Tar, samples), MemberLayout::Tar);
        let found: Vec<u64> = packed.arrays.iter().map(|member| member.len).collect();
        assert_eq!(found, [9, 7, 8]);
        assert_eq!(packed.named(1), Some(&NamedMembers { name: 1, first: 1, longest: 9 }));
        assert_eq!(packed.named(0), Some(&NamedMembers { name: 0, first: 0, longest: 39 }));
        assert_eq!(packed.named(2), None);
        packed.rename(|name| Some(name + 5)).unwrap();
        assert_eq!(
            packed.find(3, &[5, 6]).unwrap().map(|(member, at)| (member.len, at)),
            Some((3, 0))
        );
        assert_eq!(
            packed.find(3, &[9, 6, 5]).unwrap().map(|(member, at)| (member.len, at)),
            Some((8, 1))
        );
        assert_eq!(packed.find(0, &[6]).unwrap(), None);
    }

    #[test]
    fn a_changed_block_is_refused_or_lies_within_the_shard() {
        let samples = (0..3).map(|n| (format!("a/{n}"), vec![("jpg", 40 + n), ("cls", 1)]));
        let mut mixed: Vec<_> = samples.collect();
        mixed.push(("b".to_owned(), vec![("cls", 1)]));
        let mut packed = packed(&index(MemberLayout::Tar, mixed.into_iter()), MemberLayout::Tar);
        packed.shard_len = 5000;
        let whole = bytes(&packed).to_vec();
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            packed.pages = IndexPages::Memory(changed.into());
            for sample in 0..4 {
                let _ = packed.key(sample);
                let Ok(members) = packed.members(sample) else { continue };
                let is_within =
                    |member: &ShardMember| member.range().end <= 5000 && member.name < 2;
                assert!(members.iter().all(is_within), "bit {bit}");
            }
        }
    }
}
