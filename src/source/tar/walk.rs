//! The samples of one shard in sequence, without an index, plain or unpacked on the way.
//!
//! The first member of a sample is met at the end of the one before: it is kept for the next call.

use super::Damage;
use super::error::Found;
use super::group::{Grouper, Place};
use super::members::{Member, Members};
use super::scan::{GZIP, ZSTD};
use crate::source::shards::{Shard, ShardReader};

/// Bits of the largest window of zstd: 128 MiB, what its own tool takes unasked.
const WINDOW: u32 = 27;

/// A walk over a shard's samples.
pub(super) struct Walk {
    members: Members,
    grouper: Grouper,
    /// The first member of the next sample.
    ahead: Option<(String, Member)>,
}

/// A sample as it was met.
pub(super) struct Met {
    pub(super) key: Vec<u8>,
    pub(super) parts: Vec<MetPart>,
}

/// A part of it.
pub(super) struct MetPart {
    pub(super) ext: String,
    /// Its first byte.
    pub(super) at: u64,
    pub(super) size: u64,
    /// `None` if it was passed over.
    pub(super) bytes: Option<Vec<u8>>,
}

impl Walk {
    /// From the beginning of a shard on. What is compressed is told by its first bytes. No member that
    /// is unpacked may have more than `longest` bytes.
    pub(super) fn new(shard: &Shard, longest: u64) -> Result<Self, Found> {
        let failed = |error: String| Found { at: 0, kind: Damage::Read(error) };
        let magic = shard.bytes.copy(0, shard.bytes.len().min(4));
        let magic = magic.map_err(|error| failed(error.to_string()))?;
        let packed = || ShardReader::new(shard.clone());
        let members = if magic.starts_with(GZIP) {
            Members::unpacked(Box::new(flate2::bufread::MultiGzDecoder::new(packed())), longest)
        } else if magic.starts_with(ZSTD) {
            let decoder = zstd::stream::read::Decoder::with_buffer(packed());
            let mut decoder = decoder.map_err(|error| failed(error.to_string()))?;
            decoder.window_log_max(WINDOW).map_err(|error| failed(error.to_string()))?;
            Members::unpacked(Box::new(decoder), longest)
        } else {
            Members::plain(shard)
        };
        Ok(Self { members, grouper: Grouper::default(), ahead: None })
    }

    /// The next sample, with the bytes of those parts that are wanted, by extension and size.
    pub(super) fn sample(
        &mut self,
        is_wanted: impl Fn(&str, u64) -> bool,
    ) -> Result<Option<Met>, Found> {
        let first = match self.ahead.take() {
            Some(first) => first,
            None => match self.advance()? {
                Some((Place::Begins(ext, _) | Place::Here(ext), member)) => (ext, member),
                _ => return Ok(None),
            },
        };
        let key = self.grouper.key().to_vec();
        let (mut parts, mut next) = (vec![], Some(first));
        while let Some((ext, Member { offset: at, size, .. })) = next {
            let bytes = is_wanted(&ext, size).then(|| self.members.data()).transpose()?;
            parts.push(MetPart { ext, at, size, bytes });
            next = match self.advance()? {
                Some((Place::Here(ext), member)) => Some((ext, member)),
                Some((Place::Begins(ext, _), member)) => {
                    self.ahead = Some((ext, member));
                    None
                }
                _ => None,
            };
        }
        Ok(Some(Met { key, parts }))
    }

    /// The next member that belongs to a sample.
    fn advance(&mut self) -> Result<Option<(Place, Member)>, Found> {
        while let Some(member) = self.members.next()? {
            let at = member.offset;
            match self.grouper.place(&member.name).map_err(|kind| Found { at, kind })? {
                Place::Outside => {}
                place => return Ok(Some((place, member))),
            }
        }
        Ok(None)
    }
}
