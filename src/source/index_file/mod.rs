//! Index files: the positions of a shard's samples, stored beside the shard as `NAME.fidx`, of a
//! Parquet file as `.NAME.fidx`, or for all shards in a folder as `joined.fjdx` ([`joined`]).
//!
//! ```text
//! joined.fjdx lists the shard ─────────── its index is read where it lies, the shard when it is read first
//! else NAME.fidx ─ load ─┐
//! else the shard ─ scan ─┴▶ ShardIndex ─▶ PackedIndex
//! ```
//!
//! | offset | size | field   |                                                           |
//! |-------:|-----:|---------|-----------------------------------------------------------|
//! |      0 |    8 | magic   | `\x89FIDX\r\n\x1a`: shows a conversion of line ends       |
//! |      8 |    4 | version | 1                                                         |
//! |     12 |    4 | kind    | 1: tar; 2: TFRecord; 3: Parquet                           |
//! |     16 |    8 | length  | of the shard, in bytes                                    |
//! |     24 |    4 | ends    | CRC-32C of the shard's first 64 KiB, then its last 64 KiB |
//! |     28 |      | table   | see `table.rs`; of Parquet, `parquet/positions.rs`        |
//! |     -4 |    4 | CRC-32C | of all bytes before it                                    |
//!
//! All numbers are little-endian. A shard whose length or ends differ is another shard, and the index is
//! refused. A shard that was changed in its middle only, and has the same length, is not recognized as
//! another shard.
//!
//! An index is read wherever there is one, but only [`index_shards`](fn@super::index_shards) and
//! [`join_index`](fn@super::join_index) write one.
//! The file appears whole or not at all.

mod indexed_shards;
mod joined;
mod listed_file;
mod table;

pub(in crate::source) use indexed_shards::{IndexedShards, Scanned, pack};
pub(in crate::source) use joined::JoinedWriter;
#[cfg(all(test, feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
pub(crate) use joined::examples::joined_of;
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
pub(crate) use joined::read_joined;

use super::file::FileBytes;
use super::shards::{MemberLayout, Shard, ShardIndex};
use super::{BoxError, Location, atomic_file};
use crate::error::Error;
use std::ffi::OsString;
use std::path::PathBuf;

const MAGIC: &[u8; 8] = b"\x89FIDX\r\n\x1a";
const VERSION: u32 = 1;
const HEAD: usize = 28;

/// The number of bytes of either end that the checksum covers.
const END: u64 = 64 << 10;

/// The format of the shard that an index belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum Kind {
    Tar = 1,
    TfRecord = 2,
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "this build reads none"))]
    Parquet = 3,
}

impl Kind {
    /// Returns how members follow each other in a shard; `None` for Parquet files.
    fn layout(self) -> Option<MemberLayout> {
        match self {
            Self::Tar => Some(MemberLayout::Tar),
            Self::TfRecord => Some(MemberLayout::TfRecord),
            Self::Parquet => None,
        }
    }
}

/// Reads the index beside a shard; `None` if there is none.
///
/// # Errors
///
/// Fails if the index is damaged, has another version, or belongs to another shard.
pub(in crate::source) fn load(shard: &Shard, kind: Kind) -> Result<Option<ShardIndex>, BoxError> {
    load_with(shard, kind, table::decode)
}

/// Reads the index beside a shard as [`load`] does; `decode` reads the table of a shard of a number of bytes.
///
/// # Errors
///
/// Fails as [`load`] does, and if `decode` returns `None`.
pub(in crate::source) fn load_with<T>(
    shard: &Shard,
    kind: Kind,
    decode: impl Fn(&[u8], u64) -> Option<T>,
) -> Result<Option<T>, BoxError> {
    let Some(path) = beside(&shard.location) else { return Ok(None) };
    if !path.is_file() {
        return Ok(None);
    }
    let refused = |message: String| -> BoxError {
        format!("{}: {message}", Location::Path(path.clone())).into()
    };
    let found = super::file::FileBytes::open(&path).map_err(|error| refused(error.to_string()))?;
    // A table has a few dozen bytes for a member at most, and each member has a header of its own in the
    // shard. That of a Parquet file is not larger than the columns.
    let most = shard.bytes.len().saturating_mul(4).saturating_add(END);
    if found.len() > most {
        return Err(refused(format!(
            "the index has {} bytes, at most {most} are possible for this shard: run `fuseloop index` again",
            found.len()
        )));
    }
    let bytes = found.copy(0, found.len()).map_err(|error| refused(error.to_string()))?;
    opened(&bytes, shard, kind, decode).map(Some).map_err(refused)
}

/// Returns the table of an index.
pub(in crate::source) fn table_of(index: &ShardIndex) -> Vec<u8> {
    table::encode(index)
}

/// Writes the index of a local shard beside the shard; returns the size of the index file in bytes.
///
/// # Errors
///
/// Fails if the shard is remote or can't be read, or with the system's error.
pub(in crate::source) fn save(shard: &Shard, kind: Kind, table: &[u8]) -> Result<u64, BoxError> {
    let path = beside(&shard.location).ok_or_else(|| {
        format!("{}: an index can only be written next to a local file", shard.location)
    })?;
    let bytes = encode(shard, kind, table)?;
    let written = atomic_file::write(&path, &bytes);
    written.map_err(|error| format!("{}: {error}", Location::Path(path.clone())))?;
    Ok(bytes.len() as u64)
}

/// Returns a checksum of an index's content: the same for an index that was loaded and for one that a
/// scan built.
fn digest(index: &ShardIndex) -> u32 {
    crc32c::crc32c(&table_of(index))
}

fn beside(location: &Location) -> Option<PathBuf> {
    let Location::Path(path) = location else { return None };
    let mut name = path.file_name()?.to_owned();
    name.push(".fidx");
    // `datasets` reads every file of a folder of Parquet files as such, but those with a dot before their names.
    if path.extension().is_some_and(|extension| extension == "parquet") {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        name = hidden;
    }
    Some(path.with_file_name(name))
}

fn encode(shard: &Shard, kind: Kind, table: &[u8]) -> Result<Vec<u8>, BoxError> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((kind as u32).to_le_bytes());
    bytes.extend(shard.bytes.len().to_le_bytes());
    bytes.extend(shard_ends(shard)?.to_le_bytes());
    bytes.extend(table);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    Ok(bytes)
}

/// Checks the bytes of an index, and decodes its table.
fn opened<T>(
    bytes: &[u8],
    shard: &Shard,
    kind: Kind,
    decode: impl Fn(&[u8], u64) -> Option<T>,
) -> Result<T, String> {
    let damaged = || "the index is damaged: run `fuseloop index` again".to_owned();
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    let head: &[u8; HEAD] = body.first_chunk().ok_or_else(damaged)?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if !head.starts_with(MAGIC) || crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
        return Err(damaged());
    }
    if word(8) != VERSION {
        let found = word(8);
        return Err(format!("an index of version {found}, this build reads {VERSION}"));
    }
    let len = u64::from(word(16)) | u64::from(word(20)) << 32;
    let is_ours = word(12) == kind as u32
        && len == shard.bytes.len()
        && word(24) == shard_ends(shard).map_err(|error| error.to_string())?;
    if !is_ours {
        return Err("the index belongs to another file: run `fuseloop index` again".to_owned());
    }
    decode(&body[HEAD..], len).ok_or_else(damaged)
}

/// Returns the checksum of a shard's two ends.
fn shard_ends(shard: &Shard) -> Result<u32, BoxError> {
    ends(&shard.bytes).map_err(|error| format!("{}: {error}", shard.location).into())
}

/// Returns the checksum of the two ends of a file.
fn ends(bytes: &FileBytes) -> Result<u32, Error> {
    let (len, mut buffer) = (bytes.len(), vec![]);
    let head = crc32c::crc32c(bytes.get(0, len.min(END), &mut buffer)?);
    let tail = bytes.get(len.saturating_sub(END), len.min(END), &mut buffer)?;
    Ok(crc32c::crc32c_append(head, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shard(len: usize) -> (tempfile::TempDir, Shard) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        fs::write(&path, vec![7; len]).unwrap();
        (dir, Shard::open(Location::Path(path)).unwrap())
    }

    fn decode(bytes: &[u8], shard: &Shard, kind: Kind) -> Result<ShardIndex, String> {
        opened(bytes, shard, kind, table::decode)
    }

    fn index() -> ShardIndex {
        let mut index = ShardIndex::default();
        for sample in 0..3u64 {
            index.add("jpg", sample * 100..sample * 100 + 40).unwrap();
            index.add("cls", sample * 100 + 50..sample * 100 + 51).unwrap();
            index.end(format!("key/{sample}").as_bytes()).unwrap();
        }
        index
    }

    #[test]
    fn an_index_comes_back_as_it_was_saved() {
        let (dir, shard) = shard(1000);
        assert_eq!(load(&shard, Kind::Tar).unwrap(), None);
        let bytes = save(&shard, Kind::Tar, &table_of(&index())).unwrap();
        assert_eq!(load(&shard, Kind::Tar).unwrap(), Some(index()));
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 2);
        assert_eq!(fs::metadata(dir.path().join("a.tar.fidx")).unwrap().len(), bytes);
        save(&shard, Kind::Tar, &table_of(&ShardIndex::default())).unwrap();
        assert_eq!(load(&shard, Kind::Tar).unwrap(), Some(ShardIndex::default()));
    }

    #[test]
    fn an_index_of_another_file_is_refused() {
        let (dir, shard) = shard(200_000);
        save(&shard, Kind::Tar, &table_of(&index())).unwrap();
        let path = dir.path().join("a.tar");
        let loaded = || {
            let again = Shard::open(Location::Path(path.clone())).unwrap();
            load(&again, Kind::Tar).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(loaded(), Ok(()));
        for at in [0, 199_999] {
            let mut bytes = vec![7; 200_000];
            bytes[at] = 8;
            fs::write(&path, bytes).unwrap();
            assert!(loaded().unwrap_err().ends_with(
                "a.tar.fidx: the index belongs to another file: run `fuseloop index` again"
            ));
        }
        fs::write(&path, vec![7; 200_001]).unwrap();
        assert!(loaded().unwrap_err().contains("belongs to another file"));
    }

    #[test]
    fn an_index_cut_or_changed_anywhere_is_refused() {
        let (dir, shard) = shard(1000);
        save(&shard, Kind::Tar, &table_of(&index())).unwrap();
        let path = dir.path().join("a.tar.fidx");
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            assert!(decode(&whole[..len], &shard, Kind::Tar).is_err(), "{len} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes, &shard, Kind::Tar).is_err(), "bit {bit}");
        }
        fs::write(&path, vec![0; 100_000]).unwrap();
        let message = load(&shard, Kind::Tar).unwrap_err().to_string();
        assert!(message.contains("the index has 100000 bytes, at most "), "{message}");
        assert!(decode(&whole, &shard, Kind::Tar).is_ok());
    }

    /// The checksum is corrected, so that the table itself must be checked.
    #[test]
    fn a_table_changed_anywhere_is_refused_or_lies_within_the_shard() {
        let (_dir, shard) = shard(1000);
        let whole = encode(&shard, Kind::Tar, &table_of(&index())).unwrap();
        for bit in HEAD * 8..(whole.len() - 4) * 8 {
            let mut bytes = whole[..whole.len() - 4].to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let sum = crc32c::crc32c(&bytes);
            bytes.extend(sum.to_le_bytes());
            let Ok(index) = decode(&bytes, &shard, Kind::Tar) else { continue };
            for part in (0..index.len()).flat_map(|sample| index.members(sample)) {
                assert!(part.range().end <= 1000 && usize::from(part.name) < index.names().len());
            }
        }
    }
}
