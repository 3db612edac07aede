//! The samples of one shard in sequence, without an index, plain or unpacked on the fly.
//!
//! The end of a sample is only known when the first member of the next one is found; that member is
//! stored for the next call.

use super::group::{Grouper, MemberRole};
use super::members::{Member, Members};
use super::scan::{GZIP, ZSTD};
use super::zstd::ZstdReader;
use crate::error::{Error, fail};
use crate::source::shards::{Shard, ShardReader};

/// A pass over a shard's samples.
pub(super) struct SampleWalk {
    members: Members,
    grouper: Grouper,
    /// The first member of the next sample.
    ahead: Option<(String, Member)>,
}

/// A sample found in the shard.
pub(super) struct FoundSample {
    pub(super) key: Vec<u8>,
    pub(super) parts: Vec<FoundMember>,
}

/// A member of the sample.
pub(super) struct FoundMember {
    pub(super) ext: String,
    /// The offset of its first byte.
    pub(super) at: u64,
    pub(super) size: u64,
    /// `None` if the member was skipped.
    pub(super) bytes: Option<Vec<u8>>,
}

impl SampleWalk {
    /// Begins at the start of a shard. Compression is detected by the first bytes. An unpacked member
    /// may have at most `longest` bytes.
    pub(super) fn new(shard: &Shard, longest: u64) -> Result<Self, Error> {
        let magic = shard.bytes.copy(0, shard.bytes.len().min(4));
        let magic = magic.map_err(|error| fail!(Format, "{error}").byte(0))?;
        let packed = || ShardReader::new(shard.clone());
        let members = if magic.starts_with(GZIP) {
            Members::unpacked(Box::new(flate2::bufread::MultiGzDecoder::new(packed())), longest)
        } else if magic.starts_with(ZSTD) {
            Members::unpacked(Box::new(ZstdReader::new(packed())), longest)
        } else {
            Members::plain(shard)
        };
        Ok(Self { members, grouper: Grouper::default(), ahead: None })
    }

    /// Returns the next sample, with the bytes of those members that `is_wanted` accepts by extension
    /// and size.
    pub(super) fn sample(
        &mut self,
        is_wanted: impl Fn(&str, u64) -> bool,
    ) -> Result<Option<FoundSample>, Error> {
        let first = match self.ahead.take() {
            Some(first) => first,
            None => match self.advance()? {
                Some((MemberRole::Begins(ext, _) | MemberRole::Here(ext), member)) => (ext, member),
                _ => return Ok(None),
            },
        };
        let key = self.grouper.key().to_vec();
        let (mut parts, mut next) = (vec![], Some(first));
        while let Some((ext, Member { offset: at, size, .. })) = next {
            let bytes = is_wanted(&ext, size).then(|| self.members.data()).transpose()?;
            parts.push(FoundMember { ext, at, size, bytes });
            next = match self.advance()? {
                Some((MemberRole::Here(ext), member)) => Some((ext, member)),
                Some((MemberRole::Begins(ext, _), member)) => {
                    self.ahead = Some((ext, member));
                    None
                }
                _ => None,
            };
        }
        Ok(Some(FoundSample { key, parts }))
    }

    /// Returns true if the shard has ended without the zeros that end an archive.
    pub(super) fn is_open(&self) -> bool {
        self.members.is_open()
    }

    /// Returns the next member that belongs to a sample.
    fn advance(&mut self) -> Result<Option<(MemberRole, Member)>, Error> {
        while let Some(member) = self.members.next()? {
            let at = member.offset;
            match self.grouper.role(&member.name).map_err(|error| error.byte(at))? {
                MemberRole::Outside => {}
                role => return Ok(Some((role, member))),
            }
        }
        Ok(None)
    }
}
