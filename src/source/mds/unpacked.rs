//! Compressed shards, unpacked into memory.

use super::index::{ListedFile, Packing};
use super::offsets::Offsets;
use crate::error::{AtPath as _, Error, fail};
use crate::source::shards::{Shard, ShardReader};
use crate::source::tar::ZstdReader;
use flate2::bufread::MultiGzDecoder;
use std::io::Read;

/// A compressed shard.
pub(super) struct PackedShard {
    pub(super) packing: Packing,
    pub(super) raw: ListedFile,
    pub(super) samples: u64,
}

/// An unpacked shard.
pub(super) struct UnpackedShard {
    pub(super) bytes: Vec<u8>,
    pub(super) offsets: Offsets,
}

impl PackedShard {
    /// Unpacks the shard of a file.
    ///
    /// # Errors
    ///
    /// Fails if the file is damaged, or unpacks to another number of bytes than the index lists.
    pub(super) fn unpack(&self, file: &Shard) -> Result<UnpackedShard, Error> {
        let (reader, listed) = (ShardReader::new(file.clone()), self.raw.bytes);
        let bytes = match self.packing {
            Packing::Zstd => read(ZstdReader::new(reader), listed),
            _ => read(MultiGzDecoder::new(reader), listed),
        };
        let bytes = bytes.at(&file.location)?;
        if bytes.len() as u64 != listed {
            let more = if bytes.len() as u64 > listed { "more than " } else { "" };
            let found = listed.min(bytes.len() as u64);
            return Err(fail!(
                Damaged,
                "it unpacks to {more}{found} bytes, and the index lists {listed}: copy the shard again"
            )
            .at(&file.location));
        }
        let offsets = Offsets::parse(&bytes, self.samples, listed).map_err(|error| {
            error.context(format_args!("the unpacked shard")).at(&file.location)
        })?;
        Ok(UnpackedShard { bytes, offsets })
    }
}

/// Reads all bytes, or one more than the index lists.
fn read(from: impl Read, listed: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    // A larger shard grows as it is unpacked: the index may lie.
    let room = usize::try_from(listed.min(64 << 20)).unwrap_or_default();
    bytes
        .try_reserve_exact(room + 1)
        .map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
    from.take(listed.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
