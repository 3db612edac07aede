//! A tar header: one block of 512 bytes.
//!
//! | offset | size | field      | meaning                                                         |
//! |-------:|-----:|------------|-----------------------------------------------------------------|
//! |      0 |  100 | `name`     | up to the first NUL                                             |
//! |    124 |   12 | `size`     | octal; or GNU's base 256, if the first bit is set               |
//! |    148 |    8 | `chksum`   | octal: the sum of all bytes, with these eight counted as spaces |
//! |    156 |    1 | `typeflag` | see [`MemberKind`]                                              |
//! |    257 |    6 | `magic`    | `ustar\0`: there is a prefix                                    |
//! |    345 |  155 | `prefix`   | precedes the name, with a `/` between them                      |
//!
//! From POSIX.1-2017 (pax) and GNU tar's manual. The checksum may also be a sum of signed bytes, as old
//! programs wrote it; every other reader accepts that too.

use crate::error::{Error, fail};

/// The size of a header in bytes. Data is padded to a multiple of it.
pub(super) const BLOCK: usize = 512;

/// The contents of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TarHeader {
    /// The name, with the prefix.
    pub(super) name: Vec<u8>,
    /// The number of bytes of data that follow.
    pub(super) size: u64,
    pub(super) kind: MemberKind,
}

/// The kind of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberKind {
    /// `0`, NUL and `7`: a file. A member of kind NUL whose name ends with `/` is a folder.
    File,
    /// `1` to `6`: links, devices, folders, FIFOs. They have no data.
    Empty,
    /// `L`: the data is the name of the next member.
    LongName,
    /// `K`: the data is the target of the next member, a link.
    LongLink,
    /// `x`: the data describes the next member.
    Pax,
    /// `g`: the data describes all later members.
    PaxGlobal,
    /// `S`: a file with holes, in GNU's old form.
    Sparse,
    /// Any other letter: the data is skipped.
    Other,
}

impl TarHeader {
    /// Parses a block.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Self, Error> {
        if number(&block[148..156]).is_none_or(|sum| !is_sum(block, sum)) {
            return Err(fail!(Format, "not a tar header: the checksum is wrong"));
        }
        let name = name(block);
        let kind = kind(block, &name);
        let size = number(&block[124..136])
            .ok_or_else(|| fail!(Format, "the size in a tar header is not a number below 2^64"))?;
        Ok(Self { name, size, kind })
    }
}

/// Returns true if all bytes are zero: such a block ends an archive.
pub(super) fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

fn kind(block: &[u8; BLOCK], name: &[u8]) -> MemberKind {
    match block[156] {
        0 if name.ends_with(b"/") => MemberKind::Empty,
        0 | b'0' | b'7' => MemberKind::File,
        b'1'..=b'6' => MemberKind::Empty,
        b'L' => MemberKind::LongName,
        b'K' => MemberKind::LongLink,
        // Solaris writes X for x.
        b'x' | b'X' => MemberKind::Pax,
        b'g' => MemberKind::PaxGlobal,
        b'S' => MemberKind::Sparse,
        _ => MemberKind::Other,
    }
}

fn name(block: &[u8; BLOCK]) -> Vec<u8> {
    let (name, prefix) = (text(&block[..100]), text(&block[345..500]));
    // GNU's own headers have times in place of the prefix, and another magic.
    if &block[257..263] != b"ustar\0" || prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

/// Returns the bytes before the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or(field)
}

/// Parses a number: octal digits between spaces, none for 0; or GNU's base 256.
fn number(field: &[u8]) -> Option<u64> {
    match field {
        [0x80, rest @ ..] => {
            let (high, low) = rest.split_at(rest.len().saturating_sub(8));
            let value = low.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
            is_zero(high).then_some(value)
        }
        _ => text(field).trim_ascii().iter().try_fold(0u64, |value, &digit| match digit {
            b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
            _ => None,
        }),
    }
}

/// Returns true if `sum` is the sum of a block's bytes, taken as unsigned or as signed bytes.
fn is_sum(block: &[u8; BLOCK], sum: u64) -> bool {
    let of = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    let above = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte >> 7)).sum::<u32>();
    // The sum of the whole block is computed many bytes at a time; the checksum field is then replaced
    // by spaces.
    let (own, spaces) = (&block[148..156], 8 * u32::from(b' '));
    let unsigned = of(block) - of(own) + spaces;
    let signed = || u64::from(unsigned).checked_sub(256 * u64::from(above(block) - above(own)));
    u64::from(unsigned) == sum || signed() == Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    fn block(name: &[u8], size: &[u8], kind: u8) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..name.len()].copy_from_slice(name);
        block[124..124 + size.len()].copy_from_slice(size);
        block[156] = kind;
        summed(block)
    }

    #[test]
    fn sizes_are_octal_or_base_256() {
        let size =
            |text: &[u8]| TarHeader::parse(&block(b"a", text, b'0')).map(|header| header.size);
        assert_eq!(size(b"00000000017\0"), Ok(15));
        assert_eq!(size(b"777777777777"), Ok((1 << 36) - 1));
        assert_eq!((size(b"   17 "), size(b"")), (Ok(15), Ok(0)));
        assert_eq!(size(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), Ok(u64::MAX));
        assert_eq!(
            size(b"\x80\0\0\x01\0\0\0\0\0\0\0\0"),
            Err(fail!(Format, "the size in a tar header is not a number below 2^64"))
        );
        for wrong in
            [&b"18"[..], b"-1", b"1 1", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
        {
            assert_eq!(
                size(wrong),
                Err(fail!(Format, "the size in a tar header is not a number below 2^64")),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_prefix_counts_in_posix_headers_alone() {
        let with = |magic: &[u8]| {
            let mut block = block(b"b.jpg", b"1", b'0');
            block[257..257 + magic.len()].copy_from_slice(magic);
            block[345..348].copy_from_slice(b"dir");
            TarHeader::parse(&summed(block)).unwrap().name
        };
        assert_eq!(with(b"ustar\x0000"), b"dir/b.jpg");
        assert_eq!(with(b"ustar  \0"), b"b.jpg");
        assert_eq!(with(b""), b"b.jpg");
    }

    #[test]
    fn either_sum_is_right_and_no_other() {
        let high = block(b"\xff\xfe", b"1", b'0');
        assert!(TarHeader::parse(&high).is_ok());
        let mut signed = high;
        let sum: i64 = high.iter().map(|&byte| i64::from(byte as i8)).sum::<i64>()
            - high[148..156].iter().map(|&byte| i64::from(byte)).sum::<i64>()
            + 256;
        signed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert!(TarHeader::parse(&signed).is_ok());
        for byte in (0..BLOCK).filter(|byte| !(148..156).contains(byte)) {
            let mut damaged = high;
            damaged[byte] ^= 0x10;
            assert_eq!(
                TarHeader::parse(&damaged),
                Err(fail!(Format, "not a tar header: the checksum is wrong")),
                "byte {byte}"
            );
        }
    }

    #[test]
    fn a_folder_of_an_old_archive_is_known_by_its_slash() {
        let kind = |name: &[u8], flag| TarHeader::parse(&block(name, b"", flag)).unwrap().kind;
        assert_eq!((kind(b"a/", 0), kind(b"a", 0)), (MemberKind::Empty, MemberKind::File));
        assert_eq!((kind(b"a", b'7'), kind(b"a", b'D')), (MemberKind::File, MemberKind::Other));
    }
}
