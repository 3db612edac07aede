//! The positions of the samples in one shard: for each sample its key and its members.
//!
//! ```text
//! sample i:  key            keys[key_ends[i-1] .. key_ends[i]]
//!            members        members[member_ends[i-1] .. member_ends[i]]  = (name, offset, length)
//! name:      ext of a tar member ("jpg"), "" for the only member of a TFRecord: names[member.name]
//! ```
//!
//! The index needs about 20 bytes for each member, and 8 bytes and the key for each sample: it is built when a shard is
//! scanned or its index file is read, and packed ([`PackedIndex`](super::PackedIndex)) for the dataset.

use std::collections::HashMap;
use std::ops::Range;

/// The samples of one shard, in the order in which they are stored in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::source) struct ShardIndex {
    names: Vec<String>,
    by_name: HashMap<String, u16>,
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    members: Vec<ShardMember>,
    member_ends: Vec<u32>,
}

/// One member of a sample: a member of a tar file, or the only value of a TFRecord.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) struct ShardMember {
    /// An index into [`ShardIndex::names`].
    pub(in crate::source) name: u16,
    /// The offset of the first byte in the shard.
    pub(in crate::source) offset: u64,
    /// The length in bytes.
    pub(in crate::source) len: u64,
}

impl ShardMember {
    /// Returns the range of the member's bytes in the shard.
    pub(in crate::source) fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.len)
    }
}

impl ShardIndex {
    /// Adds a member to the sample that is being built.
    ///
    /// Returns `None` if there are 65,536 names already, or 2^32 members.
    pub(in crate::source) fn add(&mut self, name: &str, bytes: Range<u64>) -> Option<()> {
        let name = match self.by_name.get(name) {
            Some(&known) => known,
            None => {
                let number = u16::try_from(self.names.len()).ok()?;
                self.names.push(name.to_owned());
                self.by_name.insert(name.to_owned(), number);
                number
            }
        };
        u32::try_from(self.members.len()).ok()?;
        let len = bytes.end.saturating_sub(bytes.start);
        self.members.push(ShardMember { name, offset: bytes.start, len });
        Some(())
    }

    /// Ends the sample that is being built: its members are those added since the last call.
    ///
    /// Returns `None` if the keys are over 4 GiB.
    pub(in crate::source) fn end(&mut self, key: &[u8]) -> Option<()> {
        let key_end = u32::try_from(self.keys.len() + key.len()).ok()?;
        let part_end = u32::try_from(self.members.len()).ok()?;
        self.keys.extend_from_slice(key);
        self.key_ends.push(key_end);
        self.member_ends.push(part_end);
        Some(())
    }

    /// Returns the number of samples.
    pub(in crate::source) fn len(&self) -> usize {
        self.member_ends.len()
    }

    /// Returns the names of members, each once.
    pub(in crate::source) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns a sample's key; empty beyond the last sample.
    pub(in crate::source) fn key(&self, sample: usize) -> &[u8] {
        self.keys.get(span(&self.key_ends, sample)).unwrap_or_default()
    }

    /// Returns a sample's members, in the order in which they are stored; empty beyond the last sample.
    pub(in crate::source) fn members(&self, sample: usize) -> &[ShardMember] {
        self.members.get(span(&self.member_ends, sample)).unwrap_or_default()
    }
}

/// Returns the range of element `index`, from the ends of all elements.
fn span(ends: &[u32], index: usize) -> Range<usize> {
    let end = ends.get(index).map_or(0, |&end| end as usize);
    let start =
        index.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |&end| end as usize);
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_their_keys_and_parts() {
        let mut index = ShardIndex::default();
        index.add("jpg", 512..600).unwrap();
        index.add("cls", 1536..1537).unwrap();
        index.end(b"a/1").unwrap();
        index.end(b"").unwrap();
        index.add("jpg", 3072..3080).unwrap();
        index.end(b"a/2").unwrap();
        assert_eq!((index.len(), index.names().len()), (3, 2));
        assert_eq!(
            (index.key(0), index.key(1), index.key(2), index.key(3)),
            (&b"a/1"[..], &b""[..], &b"a/2"[..], &b""[..])
        );
        let parts =
            |sample| index.members(sample).iter().map(|p| (p.name, p.range())).collect::<Vec<_>>();
        assert_eq!(parts(0), [(0, 512..600), (1, 1536..1537)]);
        assert_eq!((parts(1), parts(3)), (vec![], vec![]));
        assert_eq!(parts(2), [(0, 3072..3080)]);
        assert_eq!(index.names(), ["jpg", "cls"]);
    }
}
