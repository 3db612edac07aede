//! The table of a shard as bytes, column by column.
//!
//! | section | bytes                                        |
//! |---------|----------------------------------------------|
//! | counts  | names, samples, members, key bytes: 8 B each |
//! | names   | each 4 B of length, and its text             |
//! | keys    | the length of each, 4 B                      |
//! | members | the number of each sample's, 4 B             |
//! | members | of each: name 2 B, offset 8 B, length 8 B    |
//! | keys    | their bytes                                  |
//!
//! The counts are compared with the number of bytes before any memory is allocated.

use super::ShardIndex;

/// Encodes the table.
pub(super) fn encode(index: &ShardIndex) -> Vec<u8> {
    let samples = || 0..index.len();
    let parts: usize = samples().map(|sample| index.members(sample).len()).sum();
    let keys: usize = samples().map(|sample| index.key(sample).len()).sum();
    let mut bytes = Vec::with_capacity(32 + 8 * index.len() + 18 * parts + keys);
    for count in [index.names().len(), index.len(), parts, keys] {
        bytes.extend((count as u64).to_le_bytes());
    }
    for name in index.names() {
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(name.as_bytes());
    }
    samples().for_each(|sample| bytes.extend((index.key(sample).len() as u32).to_le_bytes()));
    samples().for_each(|sample| bytes.extend((index.members(sample).len() as u32).to_le_bytes()));
    for part in samples().flat_map(|sample| index.members(sample)) {
        bytes.extend(part.name.to_le_bytes());
        bytes.extend(part.offset.to_le_bytes());
        bytes.extend(part.len.to_le_bytes());
    }
    samples().for_each(|sample| bytes.extend(index.key(sample)));
    bytes
}

/// Decodes the table of a shard of `len` bytes; `None` if the bytes are not a table.
pub(super) fn decode(bytes: &[u8], len: u64) -> Option<ShardIndex> {
    let mut rest = bytes;
    let mut counts = [0; 4];
    for count in &mut counts {
        *count = usize::try_from(u64::from_le_bytes(*take(&mut rest)?)).ok()?;
    }
    let [names, samples, parts, keys] = counts;
    let names = (0..names.min(1 << 16)).map(|_| name(&mut rest)).collect::<Option<Vec<_>>>()?;
    let mut key_lens = column::<4>(&mut rest, samples)?;
    let mut part_counts = column::<4>(&mut rest, samples)?;
    let mut parts = column::<18>(&mut rest, parts)?;
    let mut keys = rest.get(..keys).filter(|_| keys == rest.len())?;
    let mut index = ShardIndex::default();
    for _ in 0..samples {
        for _ in 0..number(&mut part_counts)? {
            let [a, b, row @ ..] = take::<18>(&mut parts)?;
            let (offset, size) = row.split_first_chunk::<8>()?;
            let offset = u64::from_le_bytes(*offset);
            let end = offset.checked_add(u64::from_le_bytes(*size.first_chunk()?))?;
            let name = names.get(usize::from(u16::from_le_bytes([*a, *b])))?;
            index.add(name, offset..(end <= len).then_some(end)?)?;
        }
        let key = cut(&mut keys, number(&mut key_lens)? as usize)?;
        index.end(key)?;
    }
    (parts.is_empty() && keys.is_empty()).then_some(index)
}

/// Takes the next `count` rows of `N` bytes.
fn column<'a, const N: usize>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    cut(rest, count.checked_mul(N)?)
}

fn number(column: &mut &[u8]) -> Option<u32> {
    take(column).map(|bytes| u32::from_le_bytes(*bytes))
}

fn name(rest: &mut &[u8]) -> Option<String> {
    let len = number(rest)?;
    String::from_utf8(cut(rest, len as usize)?.to_vec()).ok()
}

/// Takes the next `count` bytes.
fn cut<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

/// Takes the next `N` bytes.
fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(head)
}
