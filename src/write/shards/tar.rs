//! Writes members of a tar archive, POSIX ustar: every header is 512 bytes, a member's bytes are padded
//! with zeros to a multiple of 512, and 1024 zeros end the archive.
//!
//! | offset | size | field      | value                                            |
//! |-------:|-----:|------------|--------------------------------------------------|
//! |      0 |  100 | `name`     | the name; the part of a long one after a slash, at most 100 bytes |
//! |    100 |    8 | `mode`     | 0000644                                          |
//! |    108 |   16 | `uid, gid` | 0                                                |
//! |    124 |   12 | `size`     | octal, 11 digits                                 |
//! |    136 |   12 | `mtime`    | 0: the same samples give the same archive        |
//! |    148 |    8 | `chksum`   | the sum of all bytes, with these eight as spaces |
//! |    156 |    1 | `typeflag` | `0` a file, `x` a PAX header for the next one    |
//! |    257 |    8 | `magic`    | `ustar`, NUL, `00`                               |
//! |    345 |  155 | `prefix`   | the part of a long name before that slash        |
//!
//! A name that does not fit or is not ASCII, and a size of 8 GiB or more, go into a PAX header
//! (`LENGTH path=NAME\n`) before the member's own.

/// The end of an archive.
pub(in crate::write) const END: [u8; 1024] = [0; 1024];

const BLOCK: usize = 512;

/// The first size that 11 octal digits can't express.
const OCTAL_END: u64 = 1 << 33;

/// Returns the header blocks before the bytes of a member.
pub(in crate::write) fn member_header(name: &str, size: u64) -> Vec<u8> {
    let split = split_name(name);
    let mut records = String::new();
    if split.is_none() {
        records.push_str(&pax_record("path", name));
    }
    if size >= OCTAL_END {
        records.push_str(&pax_record("size", &size.to_string()));
    }
    let mut bytes = Vec::with_capacity(3 * BLOCK);
    if !records.is_empty() {
        bytes.extend(block(("", "PaxHeader"), records.len() as u64, b'x'));
        bytes.extend(records.as_bytes());
        bytes.extend(padding(records.len() as u64));
    }
    // If a PAX header precedes, readers ignore the name or size here.
    let short = split.unwrap_or(("", "long name"));
    let octal = if size < OCTAL_END { size } else { 0 };
    bytes.extend(block(short, octal, b'0'));
    bytes
}

/// Returns the zeros that follow `size` bytes.
pub(in crate::write) fn padding(size: u64) -> &'static [u8] {
    const ZEROS: [u8; BLOCK] = [0; BLOCK];
    let used = (size % BLOCK as u64) as usize;
    if used == 0 { &[] } else { &ZEROS[used..] }
}

/// Splits a name into two parts that fit a header: prefix and name.
fn split_name(name: &str) -> Option<(&str, &str)> {
    if !name.is_ascii() {
        return None;
    }
    if name.len() <= 100 {
        return Some(("", name));
    }
    let slashes = name.match_indices('/').map(|(at, _)| at);
    let at = slashes.rev().find(|&at| (1..=155).contains(&at) && name.len() - at - 1 <= 100)?;
    let (prefix, name) = (&name[..at], &name[at + 1..]);
    (!name.is_empty()).then_some((prefix, name))
}

/// Returns `LENGTH KEY=VALUE\n`, whose length counts its own digits.
fn pax_record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len();
    while length != rest.len() + length.to_string().len() {
        length = rest.len() + length.to_string().len();
    }
    format!("{length}{rest}")
}

fn block((prefix, name): (&str, &str), size: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// Returns the members that the `tar` crate reads from an archive of `members`.
    fn read(members: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
        let mut archive = vec![];
        for (name, bytes) in members {
            let size = bytes.len() as u64;
            archive.extend(member_header(name, size));
            archive.extend(bytes);
            archive.extend(padding(size));
        }
        archive.extend(END);
        assert_eq!(archive.len() % BLOCK, 0);
        let mut archive = tar::Archive::new(&archive[..]);
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let header = entry.header();
            assert_eq!((header.mtime().unwrap(), header.mode().unwrap()), (0, 0o644));
            assert_eq!((header.uid().unwrap(), header.entry_type().is_file()), (0, true));
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut bytes = vec![];
            entry.read_to_end(&mut bytes).unwrap();
            (name, bytes)
        });
        entries.collect()
    }

    #[test]
    fn names_of_all_lengths_and_sizes_read_back() {
        let mut members = vec![];
        for len in [1, 99, 100, 101, 154, 155, 156, 255, 256, 257, 300, 1000, 70_000] {
            for slash in [None, Some(0), Some(len / 2), Some(len - 1)] {
                let mut name = "a".repeat(len);
                if let Some(at) = slash {
                    name.replace_range(at..=at, "/");
                }
                members.push((name, vec![len as u8; len % 1025]));
            }
        }
        members.push(("Grüße.jpg".to_owned(), vec![1; 512]));
        members.push(("x".to_owned(), vec![]));
        assert_eq!(read(&members), members);
    }

    #[test]
    fn a_size_beyond_the_octal_field_is_in_a_pax_header() {
        let most = member_header("a", OCTAL_END - 1);
        assert_eq!((most.len(), &most[124..136]), (512, &b"77777777777\0"[..]));
        let size = 12_345_678_901_234;
        let bytes = member_header("a", size);
        assert_eq!(bytes.len(), 1536);
        assert_eq!(&bytes[512..512 + 23], b"23 size=12345678901234\n");
        // No 12 TB are written: the crate only reads the size.
        let mut archive = tar::Archive::new(&bytes[..]);
        assert_eq!(archive.entries().unwrap().next().unwrap().unwrap().size(), size);
    }

    #[test]
    fn a_record_counts_its_own_digits() {
        assert_eq!(pax_record("path", "x"), "9 path=x\n");
        assert_eq!(pax_record("path", "xy"), "11 path=xy\n");
        assert_eq!(pax_record("k", "v"), "6 k=v\n");
        let long = pax_record("path", &"x".repeat(91));
        assert_eq!((long.len(), &long[..4]), (101, "101 "));
    }
}
