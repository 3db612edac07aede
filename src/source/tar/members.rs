//! The files in an archive, one after another.
//!
//! ```text
//! [header][data, padded to 512] [header][data] ... [zeros: at least a block, at most 16 MiB]
//! ```
//!
//! | found                                   | what is done                                        |
//! |-----------------------------------------|-----------------------------------------------------|
//! | a file                                  | given: name, where its data lies                    |
//! | link, folder, device, FIFO, sparse file | passed over, never followed                         |
//! | GNU long name `L`, PAX header `x`       | kept for the member that follows them               |
//! | PAX global header `g`                   | passed over; refused if it has a path or a size     |
//! | end of the file after a member          | the end: some writers leave the zeros out           |
//!
//! Where readers differ on what an archive holds, it is refused: a link with data, two names for one
//! member, anything after the end. The size of a PAX header counts for its member, not for the headers
//! between the two.

use super::feed::{self, Feed};
use super::header::{BLOCK, Header, Kind, is_zero, text};
use super::pax::{self, Pax};
use super::{Damage, error::Found};
use crate::source::file::LINE;
use crate::source::shards::{Shard, ShardReader};
use std::io::{self, Read};

/// Most bytes of a name.
const MOST_NAME: u64 = 64 << 10;

/// Most bytes after the end: ten times the longest records that tar programs write.
const MOST_TAIL: u64 = 16 << 20;

/// What is made room for before any byte of it is there.
const RESERVED: u64 = 1 << 20;

/// A walk over an archive.
pub(super) struct Members {
    feed: Box<dyn Feed>,
    /// Where the feed stands.
    at: u64,
    /// Bytes of the member given last that nobody has taken, and of its padding.
    left: u64,
    padding: u64,
    /// Bytes of the file, if that is known; and of the longest member, if it is not.
    len: Option<u64>,
    longest: u64,
    ended: bool,
}

/// A file in an archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    /// Its first byte.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) size: u64,
}

/// What was told of the next member.
#[derive(Default)]
struct Told {
    name: Option<Vec<u8>>,
    pax: Option<Pax>,
    is_link: bool,
}

impl Members {
    /// Of a plain shard: data that nobody asks for is not read.
    pub(super) fn plain(shard: &Shard) -> Self {
        let len = Some(shard.bytes.len());
        Self::new(Box::new(ShardReader::new(shard.clone())), len, u64::MAX)
    }

    /// Of what a decoder gives. No member may have more bytes than `longest`: they would all have to
    /// be unpacked to pass over it.
    pub(super) fn unpacked(decoder: Box<dyn Read + Send>, longest: u64) -> Self {
        Self::new(Box::new(feed::unpack(decoder)), None, longest)
    }

    fn new(feed: Box<dyn Feed>, len: Option<u64>, longest: u64) -> Self {
        Self { feed, at: 0, left: 0, padding: 0, len, longest, ended: false }
    }

    /// The next file; `None` at the end, and from then on.
    pub(super) fn next(&mut self) -> Result<Option<Member>, Found> {
        let mut told = Told::default();
        while let Some((at, header)) = self.header(&told)? {
            let found = |kind| Found { at, kind };
            let size = match header.kind {
                Kind::LongName | Kind::LongLink | Kind::Pax | Kind::PaxGlobal => {
                    self.begin(at, header.size)?;
                    self.tell(header.kind, header.size, &mut told).map_err(found)?;
                    continue;
                }
                _ => told.pax.as_ref().and_then(|pax| pax.size).unwrap_or(header.size),
            };
            let is_sparse = told.pax.as_ref().is_some_and(|pax| pax.is_sparse);
            let name = told.name_or(header.name).map_err(found)?;
            match header.kind {
                Kind::Empty if size > 0 => return Err(found(Damage::HasData { size })),
                Kind::Sparse { more } => self.pass_map(more)?,
                _ => {}
            }
            self.begin(at, size)?;
            if header.kind == Kind::File && !is_sparse {
                return Ok(Some(Member { name, offset: self.at, size }));
            }
            told = Told::default();
        }
        Ok(None)
    }

    /// The data of the member given last.
    pub(super) fn data(&mut self) -> Result<Vec<u8>, Found> {
        let (start, size) = (self.at, self.left);
        let mut data = vec![];
        // A header is read along with what is before it.
        let beyond = self.padding + BLOCK as u64;
        // Reserved in full only if the file is known to have that many.
        let room =
            if self.len.is_some() { size + beyond + LINE as u64 } else { size.min(RESERVED) };
        let memory =
            |_| Found { at: start, kind: Damage::Read(format!("no memory for {size} bytes")) };
        data.try_reserve_exact(usize::try_from(room).unwrap_or(usize::MAX)).map_err(memory)?;
        let found = self.feed.append(&mut data, size, beyond).map_err(|e| read(start, &e))?;
        self.at += found;
        self.left -= found;
        if self.left > 0 {
            return Err(Found { at: start, kind: Damage::Short { size, end: self.at } });
        }
        Ok(data)
    }

    /// The next header and where it lies; `None` at the end.
    fn header(&mut self, told: &Told) -> Result<Option<(u64, Header)>, Found> {
        self.pass_rest()?;
        if self.ended {
            return Ok(None);
        }
        let at = self.at;
        let found = |kind| Found { at, kind };
        let (block, filled) = self.block()?;
        if filled == BLOCK && !is_zero(&block) {
            return Header::parse(&block).map(|header| Some((at, header))).map_err(found);
        }
        self.ended = true;
        match filled {
            0 if at == 0 => Err(found(Damage::Empty)),
            _ if !told.is_nothing() => Err(found(Damage::Dangling)),
            0 => Ok(None),
            BLOCK => self.tail(at).map(|()| None),
            _ => Err(found(Damage::HalfHeader { found: filled })),
        }
    }

    /// Nothing but zeros may follow the end, and not many.
    fn tail(&mut self, end: u64) -> Result<(), Found> {
        loop {
            let at = self.at;
            let rest = self.feed.at_hand().map_err(|error| read(at, &error))?;
            if let Some(place) = rest.iter().position(|&byte| byte != 0) {
                return Err(Found { at: at + place as u64, kind: Damage::Trailing { end } });
            }
            let count = rest.len();
            if count == 0 {
                return Ok(());
            }
            self.feed.consume(count);
            self.at += count as u64;
            if self.at - end > MOST_TAIL {
                return Err(Found { at, kind: Damage::LongTail { end, limit: MOST_TAIL } });
            }
        }
    }

    /// Takes what a header's data tells of the next member.
    fn tell(&mut self, kind: Kind, size: u64, told: &mut Told) -> Result<(), Damage> {
        match kind {
            Kind::LongName => {
                // The name has a NUL at its end.
                let name = self.short("a name", size, MOST_NAME + 1)?;
                let known = told.name.replace(text(&name).to_vec());
                known.map_or(Ok(()), |_| Err(Damage::Twice))
            }
            Kind::Pax => {
                let pax = Pax::parse(&self.short("a PAX header", size, pax::MOST)?)?;
                let long = pax.path.as_ref().map_or(0, Vec::len) as u64;
                bounded("a name", long, MOST_NAME)?;
                told.pax.replace(pax).map_or(Ok(()), |_| Err(Damage::Twice))
            }
            Kind::PaxGlobal => {
                let pax = Pax::parse(&self.short("a PAX header", size, pax::MOST)?)?;
                if pax.tells() { Err(Damage::PaxGlobal) } else { Ok(()) }
            }
            // Where a link leads to is nothing to us.
            _ => {
                told.is_link = true;
                Ok(())
            }
        }
    }

    /// The data of a header that may have `limit` bytes.
    fn short(&mut self, what: &'static str, size: u64, limit: u64) -> Result<Vec<u8>, Damage> {
        bounded(what, size, limit)?;
        self.data().map_err(|found| found.kind)
    }

    /// Data of `size` bytes begins, of the header at `at`.
    fn begin(&mut self, at: u64, size: u64) -> Result<(), Found> {
        let short = |end| Found { at, kind: Damage::Short { size, end } };
        let padding = size.wrapping_neg() % BLOCK as u64;
        if let Some(len) = self.len {
            let end = self.at.checked_add(size).and_then(|end| end.checked_add(padding));
            if end.is_none_or(|end| end > len) {
                return Err(short(len));
            }
        } else {
            let (found, limit) = (size, self.longest);
            if found > limit {
                return Err(Found { at, kind: Damage::Unpacked { found, limit } });
            }
        }
        (self.left, self.padding) = (size, padding);
        Ok(())
    }

    /// Passes over what is left of a member.
    fn pass_rest(&mut self) -> Result<(), Found> {
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
        Err(Found { at: start, kind: Damage::Short { size, end: self.at } })
    }

    /// Passes over the rest of an old sparse file's map: a block that says whether one more follows.
    fn pass_map(&mut self, mut more: bool) -> Result<(), Found> {
        while more {
            let at = self.at;
            let (block, filled) = self.block()?;
            if filled < BLOCK {
                return Err(Found { at, kind: Damage::HalfHeader { found: filled } });
            }
            more = block[504] != 0;
        }
        Ok(())
    }

    /// The next block; fewer bytes of it only at the end.
    fn block(&mut self) -> Result<([u8; BLOCK], usize), Found> {
        let block = feed::block(&mut *self.feed).map_err(|error| read(self.at, &error))?;
        self.at += block.1 as u64;
        Ok(block)
    }
}

impl Told {
    fn is_nothing(&self) -> bool {
        self.name.is_none() && self.pax.is_none() && !self.is_link
    }

    /// What the member is called, if its header says `short`.
    fn name_or(&mut self, short: Vec<u8>) -> Result<Vec<u8>, Damage> {
        let path = self.pax.as_mut().and_then(|pax| pax.path.take());
        match (path, self.name.take()) {
            (Some(path), Some(name)) if path != name => Err(Damage::Twice),
            (Some(name), _) | (None, Some(name)) => Ok(name),
            (None, None) => Ok(short),
        }
    }
}

fn bounded(what: &'static str, found: u64, limit: u64) -> Result<(), Damage> {
    if found > limit { Err(Damage::Long { what, found, limit }) } else { Ok(()) }
}

fn read(at: u64, error: &io::Error) -> Found {
    Found { at, kind: Damage::Read(error.to_string()) }
}
