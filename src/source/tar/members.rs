//! The members of an archive in sequence.
//!
//! ```text
//! [header][data, padded to 512] [header][data] ... [zeros: at least a block, at most 16 MiB]
//! ```
//!
//! | found                                   | action                                              |
//! |-----------------------------------------|-----------------------------------------------------|
//! | a file                                  | returned: its name and the offset of its data       |
//! | link, folder, device, FIFO              | skipped, never followed                             |
//! | sparse file                             | refused: its holes are not stored                   |
//! | GNU long name `L`, PAX header `x`       | stored for the member that follows it               |
//! | PAX global header `g`                   | skipped; refused if it has a path or a size         |
//! | end of the file after a member          | the end, with a warning: some writers omit the zeros |
//!
//! If readers differ on the contents of an archive, it is refused: a link with data, two names for one
//! member, anything after the end. The size in a PAX header applies to its member, not to the headers
//! between the two.

use super::feed::{self, Feed};
use super::header::{BLOCK, MemberKind, TarHeader, is_zero, text};
use super::pax::{self, Pax};
use crate::error::{Error, fail};
use crate::source::file::LINE;
use crate::source::shards::{Shard, ShardReader};
use std::io::{self, Read};

/// The longest name in bytes.
const MOST_NAME: u64 = 64 << 10;

/// The largest number of bytes after the end: ten times the longest records that tar programs write.
const MOST_TAIL: u64 = 16 << 20;

/// The largest number of bytes allocated before any of them is read.
const RESERVED: u64 = 1 << 20;

/// A pass over the members of an archive.
pub(super) struct Members {
    feed: Box<dyn Feed>,
    /// The offset of the feed.
    at: u64,
    /// The number of bytes of the last returned member that were not read, and of its padding.
    left: u64,
    padding: u64,
    /// The length of the file, if it is known; and the largest member allowed, if it is not.
    len: Option<u64>,
    longest: u64,
    ended: bool,
    /// True if the archive has ended without zeros.
    is_open: bool,
}

/// A file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    /// The offset of its first byte.
    pub(super) offset: u64,
    /// The size in bytes.
    pub(super) size: u64,
}

/// The headers that precede a member and describe it.
#[derive(Default)]
struct NextMember {
    name: Option<Vec<u8>>,
    pax: Option<Pax>,
    is_link: bool,
}

impl Members {
    /// Reads a plain shard: data that is not asked for is not read.
    pub(super) fn plain(shard: &Shard) -> Self {
        let len = Some(shard.bytes.len());
        Self::new(Box::new(ShardReader::new(shard.clone())), len, u64::MAX)
    }

    /// Reads the output of a decoder. No member may have more bytes than `longest`, because skipping it
    /// means unpacking all of them.
    pub(super) fn unpacked(decoder: Box<dyn Read + Send>, longest: u64) -> Self {
        Self::new(Box::new(feed::unpack(decoder)), None, longest)
    }

    fn new(feed: Box<dyn Feed>, len: Option<u64>, longest: u64) -> Self {
        Self { feed, at: 0, left: 0, padding: 0, len, longest, ended: false, is_open: false }
    }

    /// Returns true if the archive ended behind a member, without the zeros that end an archive.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the next file; `None` at the end and on every later call.
    pub(super) fn next(&mut self) -> Result<Option<Member>, Error> {
        let mut next_member = NextMember::default();
        while let Some((at, header)) = self.header(&next_member)? {
            let found = |error: Error| error.byte(at);
            let size = match header.kind {
                MemberKind::LongName
                | MemberKind::LongLink
                | MemberKind::Pax
                | MemberKind::PaxGlobal => {
                    self.begin(at, header.size)?;
                    self.read_extension(header.kind, header.size, &mut next_member)
                        .map_err(found)?;
                    continue;
                }
                _ => next_member.pax.as_ref().and_then(|pax| pax.size).unwrap_or(header.size),
            };
            let is_sparse = next_member.pax.as_ref().is_some_and(|pax| pax.is_sparse);
            let name = next_member.name_or(header.name).map_err(found)?;
            if header.kind == MemberKind::Empty && size > 0 {
                return Err(fail!(
                    Format,
                    "a link, folder or device of {size} bytes: readers differ on where the next header is"
                )
                .byte(at));
            }
            if header.kind == MemberKind::Sparse || is_sparse {
                let name = String::from_utf8_lossy(&name).into_owned();
                return Err(fail!(
                    Format,
                    "{name} is a sparse file, of which only the parts between its holes are stored: write the archive without `--sparse`"
                )
                .byte(at));
            }
            self.begin(at, size)?;
            if header.kind == MemberKind::File {
                return Ok(Some(Member { name, offset: self.at, size }));
            }
            next_member = NextMember::default();
        }
        Ok(None)
    }

    /// Reads the data of the member returned last.
    pub(super) fn data(&mut self) -> Result<Vec<u8>, Error> {
        let start = self.at;
        self.rest_of_member().map_err(|error| error.byte(start))
    }

    /// Reads the data that follows. An error has no offset.
    fn rest_of_member(&mut self) -> Result<Vec<u8>, Error> {
        let size = self.left;
        let mut data = vec![];
        // The next header is read together with this data.
        let beyond = self.padding + BLOCK as u64;
        // All memory is reserved at once only if the file is known to have that many bytes.
        let room =
            if self.len.is_some() { size + beyond + LINE as u64 } else { size.min(RESERVED) };
        let memory = |_| fail!(Format, "no memory for {size} bytes").out_of_memory();
        data.try_reserve_exact(usize::try_from(room).unwrap_or(usize::MAX)).map_err(memory)?;
        let found =
            self.feed.append(&mut data, size, beyond).map_err(|error| fail!(Format, "{error}"))?;
        self.at += found;
        self.left -= found;
        if self.left > 0 {
            return Err(cut_short(size, self.at));
        }
        Ok(data)
    }

    /// Reads the next header; returns its offset too. `None` at the end.
    fn header(&mut self, next_member: &NextMember) -> Result<Option<(u64, TarHeader)>, Error> {
        self.pass_rest()?;
        if self.ended {
            return Ok(None);
        }
        let at = self.at;
        let found = |error: Error| error.byte(at);
        let (block, filled) = self.block()?;
        if filled == BLOCK && !is_zero(&block) {
            return TarHeader::parse(&block).map(|header| Some((at, header))).map_err(found);
        }
        self.ended = true;
        match filled {
            0 if at == 0 => Err(fail!(Format, "the file is empty").byte(at)),
            _ if !next_member.is_nothing() => {
                Err(fail!(Format, "the archive ends, but a header announced one more member")
                    .byte(at))
            }
            0 => {
                self.is_open = true;
                Ok(None)
            }
            BLOCK => self.tail(at).map(|()| None),
            _ => Err(fail!(Format, "the file ends after {filled} bytes of a header").byte(at)),
        }
    }

    /// Checks the bytes after the end: only zeros, and not too many.
    fn tail(&mut self, end: u64) -> Result<(), Error> {
        loop {
            let at = self.at;
            let rest = self.feed.at_hand().map_err(|error| read(at, &error))?;
            if let Some(offset) = rest.iter().position(|&byte| byte != 0) {
                return Err(fail!(
                    Format,
                    "the archive ended at byte {end}, and something follows: are two archives in one file?"
                )
                .byte(at + offset as u64));
            }
            let count = rest.len();
            if count == 0 {
                return Ok(());
            }
            self.feed.consume(count);
            self.at += count as u64;
            if self.at - end > MOST_TAIL {
                return Err(fail!(
                    Format,
                    "the archive ended at byte {end}, and more than {MOST_TAIL} bytes follow"
                )
                .byte(at));
            }
        }
    }

    /// Stores the data of a header that describes the next member.
    fn read_extension(
        &mut self,
        kind: MemberKind,
        size: u64,
        next_member: &mut NextMember,
    ) -> Result<(), Error> {
        match kind {
            MemberKind::LongName => {
                // The name ends with a NUL.
                let name = self.short("a name", size, MOST_NAME + 1)?;
                let known = next_member.name.replace(text(&name).to_vec());
                known
                    .map_or(Ok(()), |_| Err(fail!(Format, "two headers that name the same member")))
            }
            MemberKind::Pax => {
                let pax = Pax::parse(&self.short("a PAX header", size, pax::MOST)?)?;
                let long = pax.path.as_ref().map_or(0, Vec::len) as u64;
                bounded("a name", long, MOST_NAME)?;
                next_member
                    .pax
                    .replace(pax)
                    .map_or(Ok(()), |_| Err(fail!(Format, "two headers that name the same member")))
            }
            MemberKind::PaxGlobal => {
                let pax = Pax::parse(&self.short("a PAX header", size, pax::MOST)?)?;
                if pax.tells() {
                    Err(fail!(Format, "a global PAX header with a path or a size"))
                } else {
                    Ok(())
                }
            }
            // The target of a link is not needed.
            _ => {
                next_member.is_link = true;
                Ok(())
            }
        }
    }

    /// Reads the data of a header, which may have at most `limit` bytes.
    fn short(&mut self, what: &'static str, size: u64, limit: u64) -> Result<Vec<u8>, Error> {
        bounded(what, size, limit)?;
        self.rest_of_member()
    }

    /// Checks that `size` bytes of data can follow the header at `at`, and records them as unread.
    fn begin(&mut self, at: u64, size: u64) -> Result<(), Error> {
        let short = |end| cut_short(size, end).byte(at);
        let padding = size.wrapping_neg() % BLOCK as u64;
        if let Some(len) = self.len {
            let end = self.at.checked_add(size).and_then(|end| end.checked_add(padding));
            if end.is_none_or(|end| end > len) {
                return Err(short(len));
            }
        } else {
            let (found, limit) = (size, self.longest);
            if found > limit {
                return Err(fail!(
                    Format,
                    "a member that unpacks to {found} bytes, and the limit is {limit} (`Limits::max_unpacked_bytes`): unpack the shard, or raise the limit"
                )
                .byte(at));
            }
        }
        (self.left, self.padding) = (size, padding);
        Ok(())
    }

    /// Skips the rest of a member.
    fn pass_rest(&mut self) -> Result<(), Error> {
        let (start, size) = (self.at, self.left + self.padding);
        (self.left, self.padding) = (0, 0);
        if size == 0 {
            return Ok(());
        }
        let passed = self.feed.pass(size).map_err(|error| read(start, &error))?;
        self.at += passed;
        if passed == size {
            return Ok(());
        }
        Err(cut_short(size, self.at).byte(start))
    }

    /// Reads the next block; fewer bytes only at the end.
    fn block(&mut self) -> Result<([u8; BLOCK], usize), Error> {
        let block = feed::block(&mut *self.feed).map_err(|error| read(self.at, &error))?;
        self.at += block.1 as u64;
        Ok(block)
    }
}

impl NextMember {
    fn is_nothing(&self) -> bool {
        self.name.is_none() && self.pax.is_none() && !self.is_link
    }

    /// The full name of a member whose header has the name `short`.
    fn name_or(&mut self, short: Vec<u8>) -> Result<Vec<u8>, Error> {
        let path = self.pax.as_mut().and_then(|pax| pax.path.take());
        match (path, self.name.take()) {
            (Some(path), Some(name)) if path != name => {
                Err(fail!(Format, "two headers that name the same member"))
            }
            (Some(name), _) | (None, Some(name)) => Ok(name),
            (None, None) => Ok(short),
        }
    }
}

/// Returns the error for a member of `size` bytes whose end is missing.
fn cut_short(size: u64, end: u64) -> Error {
    fail!(Format, "a member of {size} bytes, and the file ends at byte {end}")
        .help("the file is incomplete: copy it again")
}

fn bounded(what: &'static str, found: u64, limit: u64) -> Result<(), Error> {
    if found > limit {
        Err(fail!(Format, "{what} of {found} bytes, the limit is {limit}"))
    } else {
        Ok(())
    }
}

fn read(at: u64, error: &io::Error) -> Error {
    fail!(Format, "{error}").byte(at)
}
