//! Locates the samples of a plain shard by reading the headers of its members.

use super::error::LocatedDamage;
use super::group::{Grouper, MemberRole};
use super::members::Members;
use super::{TarDamage, TarError};
use crate::sample::Limits;
use crate::source::Location;
use crate::source::shards::{Shard, ShardIndex};
use crate::warnings::warn;

/// The first bytes of compressed files: gzip's, zstd's.
pub(super) const GZIP: &[u8] = b"\x1f\x8b";
pub(super) const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// The size of a member's entry in a table, in bytes.
const PART: u64 = 24;

/// The samples of a shard.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::source) struct Scanned {
    pub(in crate::source) index: ShardIndex,
    /// True if the archive ends without the zeros that end one: it may have been cut short.
    pub(in crate::source) is_open: bool,
}

/// Warns of the shards that may have been cut short.
pub(in crate::source) fn warn_of_open<'a>(mut open: impl Iterator<Item = &'a Location>) {
    let Some(first) = open.next() else { return };
    let more = match open.count() {
        0 => String::new(),
        more => format!(" (and {more} more shards)"),
    };
    warn(format_args!(
        "{first}{more}: the archive ends behind a member, without the blocks of zeros that end one: if it was cut short, \
         samples are missing"
    ));
}

/// Locates the samples of a shard. Only the members' headers are read.
///
/// # Errors
///
/// If the shard is damaged or compressed, or has more samples than the limits allow. The error names the
/// offset of the damage.
pub(in crate::source) fn scan(shard: &Shard, limits: &Limits) -> Result<Scanned, TarError> {
    let name = || shard.location.to_string();
    let magic = shard.bytes.copy(0, shard.bytes.len().min(4)).map_err(|error| {
        LocatedDamage { at: 0, kind: TarDamage::Read(error.to_string()) }.of(&shard.location)
    })?;
    if magic.starts_with(GZIP) || magic.starts_with(ZSTD) {
        return Err(TarError::Compressed { shard: name() });
    }
    let limited = |what, found, limit| Err(TarError::Limit { shards: name(), what, found, limit });
    let (mut index, mut grouper, mut table) = (ShardIndex::default(), Grouper::default(), 0);
    let mut members = Members::plain(shard);
    while let Some(member) = members.next().map_err(|found| found.of(&shard.location))? {
        let found = |kind| LocatedDamage { at: member.offset, kind }.of(&shard.location);
        let ext = match grouper.role(&member.name).map_err(found)? {
            MemberRole::Outside => continue,
            MemberRole::Here(ext) => ext,
            MemberRole::Begins(ext, ended) => {
                end(&mut index, ended).ok_or_else(|| found(TarDamage::Many))?;
                table += member.name.len() as u64 + PART;
                ext
            }
        };
        let bytes = member.offset..member.offset + member.size;
        index.add(&ext, bytes).ok_or_else(|| found(TarDamage::Many))?;
        table += PART;
        if table > limits.max_table_bytes {
            return limited("bytes of tables", table, limits.max_table_bytes);
        }
        if index.len() as u64 >= limits.max_samples {
            return limited("samples", index.len() as u64 + 1, limits.max_samples);
        }
    }
    let many = LocatedDamage { at: shard.bytes.len(), kind: TarDamage::Many };
    end(&mut index, grouper.end()).ok_or_else(|| many.of(&shard.location))?;
    Ok(Scanned { index, is_open: members.is_open() })
}

fn end(index: &mut ShardIndex, key: Option<Vec<u8>>) -> Option<()> {
    key.map_or(Some(()), |key| index.end(&key))
}
