//! A tar header: one block of 512 bytes.
//!
//! | offset | size | field      | what is read of it                                              |
//! |-------:|-----:|------------|-----------------------------------------------------------------|
//! |      0 |  100 | `name`     | up to its first NUL                                             |
//! |    124 |   12 | `size`     | octal; or GNU's base 256, if the first bit is set               |
//! |    148 |    8 | `chksum`   | octal: the sum of all bytes, these eight taken as spaces        |
//! |    156 |    1 | `typeflag` | see [`Kind`]                                                    |
//! |    257 |    6 | `magic`    | `ustar\0`: there is a prefix                                    |
//! |    345 |  155 | `prefix`   | stands before the name, with a `/` between                      |
//! |    482 |    1 |            | of GNU's sparse files: whether a block of their map follows     |
//!
//! From POSIX.1-2017 (pax) and GNU tar's manual. The checksum may be of signed bytes, as old programs
//! wrote it; every other reader takes that too.

use super::Damage;

/// Bytes of a header, and what data is padded to.
pub(super) const BLOCK: usize = 512;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// With the prefix.
    pub(super) name: Vec<u8>,
    /// Bytes of data that follow.
    pub(super) size: u64,
    pub(super) kind: Kind,
}

/// What kind of member it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `0`, NUL and `7`: a file. Those of NUL with a name that ends with `/` are folders.
    File,
    /// `1` to `6`: links, devices, folders, FIFOs. They have no data.
    Empty,
    /// `L`: the data is the next member's name.
    LongName,
    /// `K`: the data is where the next member, a link, leads to.
    LongLink,
    /// `x`: the data is about the next member.
    Pax,
    /// `g`: the data is about all that follow.
    PaxGlobal,
    /// `S`: a file with holes, in GNU's old form; whether more of its map follows.
    Sparse { more: bool },
    /// Any other letter: its data is passed over.
    Other,
}

impl Header {
    /// What a block says.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Self, Damage> {
        if number(&block[148..156]).is_none_or(|sum| !is_sum(block, sum)) {
            return Err(Damage::Checksum);
        }
        let name = name(block);
        let kind = kind(block, &name);
        let size = number(&block[124..136]).ok_or(Damage::Size)?;
        Ok(Self { name, size, kind })
    }
}

/// Whether a block is of zeros alone: the end of an archive.
pub(super) fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|&byte| byte == 0)
}

fn kind(block: &[u8; BLOCK], name: &[u8]) -> Kind {
    match block[156] {
        0 if name.ends_with(b"/") => Kind::Empty,
        0 | b'0' | b'7' => Kind::File,
        b'1'..=b'6' => Kind::Empty,
        b'L' => Kind::LongName,
        b'K' => Kind::LongLink,
        // X is what Solaris writes for x.
        b'x' | b'X' => Kind::Pax,
        b'g' => Kind::PaxGlobal,
        b'S' => Kind::Sparse { more: block[482] != 0 },
        _ => Kind::Other,
    }
}

fn name(block: &[u8; BLOCK]) -> Vec<u8> {
    let (name, prefix) = (text(&block[..100]), text(&block[345..500]));
    // GNU's own headers have times where POSIX has the prefix, and another magic.
    if &block[257..263] != b"ustar\0" || prefix.is_empty() {
        return name.to_vec();
    }
    [prefix, b"/", name].concat()
}

/// Up to the first NUL.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or(field)
}

/// A number: octal digits between spaces, none for 0; or GNU's base 256.
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

/// Whether it is the sum of a block's bytes, taken as unsigned or as signed ones.
fn is_sum(block: &[u8; BLOCK], sum: u64) -> bool {
    let of = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    let above = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte >> 7)).sum::<u32>();
    // Of the whole block, which goes many bytes at a time; the sum's own place counts as spaces.
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
        let size = |text: &[u8]| Header::parse(&block(b"a", text, b'0')).map(|header| header.size);
        assert_eq!(size(b"00000000017\0"), Ok(15));
        assert_eq!(size(b"777777777777"), Ok((1 << 36) - 1));
        assert_eq!((size(b"   17 "), size(b"")), (Ok(15), Ok(0)));
        assert_eq!(size(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), Ok(u64::MAX));
        assert_eq!(size(b"\x80\0\0\x01\0\0\0\0\0\0\0\0"), Err(Damage::Size));
        for wrong in
            [&b"18"[..], b"-1", b"1 1", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
        {
            assert_eq!(size(wrong), Err(Damage::Size), "{wrong:?}");
        }
    }

    #[test]
    fn a_prefix_counts_in_posix_headers_alone() {
        let with = |magic: &[u8]| {
            let mut block = block(b"b.jpg", b"1", b'0');
            block[257..257 + magic.len()].copy_from_slice(magic);
            block[345..348].copy_from_slice(b"dir");
            Header::parse(&summed(block)).unwrap().name
        };
        assert_eq!(with(b"ustar\x0000"), b"dir/b.jpg");
        assert_eq!(with(b"ustar  \0"), b"b.jpg");
        assert_eq!(with(b""), b"b.jpg");
    }

    #[test]
    fn either_sum_is_right_and_no_other() {
        let high = block(b"\xff\xfe", b"1", b'0');
        assert!(Header::parse(&high).is_ok());
        let mut signed = high;
        let sum: i64 = high.iter().map(|&byte| i64::from(byte as i8)).sum::<i64>()
            - high[148..156].iter().map(|&byte| i64::from(byte)).sum::<i64>()
            + 256;
        signed[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert!(Header::parse(&signed).is_ok());
        for byte in (0..BLOCK).filter(|byte| !(148..156).contains(byte)) {
            let mut damaged = high;
            damaged[byte] ^= 0x10;
            assert_eq!(Header::parse(&damaged), Err(Damage::Checksum), "byte {byte}");
        }
    }

    #[test]
    fn a_folder_of_an_old_archive_is_known_by_its_slash() {
        let kind = |name: &[u8], flag| Header::parse(&block(name, b"", flag)).unwrap().kind;
        assert_eq!((kind(b"a/", 0), kind(b"a", 0)), (Kind::Empty, Kind::File));
        assert_eq!((kind(b"a", b'7'), kind(b"a", b'D')), (Kind::File, Kind::Other));
    }
}
