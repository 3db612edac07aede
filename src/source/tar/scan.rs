//! Locates the samples of a plain shard by reading the headers of its members.

use super::group::{Grouper, MemberRole};
use super::members::Members;
use crate::error::{Error, fail};
use crate::sample::Limits;
use crate::source::Location;
use crate::source::index_file::Scanned;
use crate::source::shards::{Shard, ShardIndex};
use crate::warnings::warn;

/// The first bytes of compressed files: gzip's, zstd's.
pub(super) const GZIP: &[u8] = b"\x1f\x8b";
pub(super) const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// The size of a member's entry in a table, in bytes.
const PART: u64 = 24;

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
pub(in crate::source) fn scan(shard: &Shard, limits: &Limits) -> Result<Scanned, Error> {
    let magic = shard
        .bytes
        .copy(0, shard.bytes.len().min(4))
        .map_err(|error| fail!(Format, "{error}").at(&shard.location).byte(0))?;
    if magic.starts_with(GZIP) || magic.starts_with(ZSTD) {
        return Err(fail!(
            Unsupported,
            "a compressed shard is read from its beginning on: open it as a stream, or unpack it"
        )
        .at(&shard.location));
    }
    let (mut index, mut grouper, mut table) = (ShardIndex::default(), Grouper::default(), 0);
    let mut members = Members::plain(shard);
    while let Some(member) = members.next().map_err(|error| error.at(&shard.location))? {
        let damaged = |error: Error| error.at(&shard.location).byte(member.offset);
        let ext = match grouper.role(&member.name).map_err(damaged)? {
            MemberRole::Outside => continue,
            MemberRole::Here(ext) => ext,
            MemberRole::Begins(ext, ended) => {
                end(&mut index, ended).ok_or_else(|| damaged(too_many()))?;
                table += member.name.len() as u64 + PART;
                ext
            }
        };
        let bytes = member.offset..member.offset + member.size;
        index.add(&ext, bytes).ok_or_else(|| damaged(too_many()))?;
        table += PART;
        let limit = limits.max_table_bytes;
        if table > limit {
            let error = fail!(Memory, "{table} bytes of tables, the limit is {limit}");
            return Err(error.at(&shard.location));
        }
        let (found, limit) = (index.len() as u64 + 1, limits.max_samples);
        if found > limit {
            let error = fail!(Memory, "{found} samples, the limit is {limit}");
            return Err(error.at(&shard.location));
        }
    }
    end(&mut index, grouper.end())
        .ok_or_else(|| too_many().at(&shard.location).byte(shard.bytes.len()))?;
    Ok(Scanned { index, is_open: members.is_open() })
}

fn too_many() -> Error {
    fail!(Format, "more than 65536 extensions, or 2^32 members, in one shard")
}

fn end(index: &mut ShardIndex, key: Option<Vec<u8>>) -> Option<()> {
    key.map_or(Some(()), |key| index.end(&key))
}
