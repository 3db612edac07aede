//! The EXIF data of an image, of which only the orientation is read (CIPA DC-008, 4.6.4, tag 274).
//!
//! | format | where the data are                                                                  |
//! |--------|-------------------------------------------------------------------------------------|
//! | JPEG   | in the first segment `APP1` that begins with `Exif\0\0`                             |
//! | PNG    | in the first chunk `eXIf`, before or after the pixels                               |
//! | WebP   | in the first chunk `EXIF`, if a chunk `VP8X` says that there is one, as libwebp does |
//! | TIFF   | the file itself: its first directory has the tag                                    |
//!
//! An orientation that is not in 1 to 8, or that can't be read, counts as 1, upright, as in Pillow: the damage does not
//! affect the pixels. The texts in which older tools store EXIF data in PNGs, and XMP, are not read.

use fuseloop_ops::Size;
use std::ops::Range;

/// The tag of the orientation.
const TAG: u16 = 274;
/// The bytes of an entry of an image file directory: tag, type, count and value (TIFF 6.0, section 2).
const ENTRY: usize = 12;

/// The bytes that precede EXIF data in a JPEG. Some tools write them in other files, too.
const PREFIX: &[u8] = b"Exif\0\0";

/// The bytes that the name and the length of a chunk have, in a PNG and in a WebP.
const CHUNK_HEADER: u64 = 8;

/// The flag of a WebP that has EXIF data, in the first byte of its chunk `VP8X` (RFC 9649, section 2.7).
const WEBP_HAS_EXIF: u8 = 0x08;

/// A file format whose files consist of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkFormat {
    Png,
    Webp,
}

/// Finds the EXIF data of a PNG or WebP of `length` bytes. `bytes_at` reads eight bytes at an offset, which are in the
/// file.
///
/// # Errors
///
/// Returns the errors of `bytes_at`.
pub(crate) fn find<E>(
    format: ChunkFormat,
    length: u64,
    mut bytes_at: impl FnMut(u64) -> Result<[u8; 8], E>,
) -> Result<Option<Range<u64>>, E> {
    // The signature of a PNG has 8 bytes; "RIFF", a length and "WEBP" have 12.
    let first = if format == ChunkFormat::Png { 8 } else { 12 };
    let mut at = first;
    while length.saturating_sub(at) >= CHUNK_HEADER {
        let [a, b, c, d, e, f, g, h] = bytes_at(at)?;
        let start = at + CHUNK_HEADER;
        let (name, size, after) = match format {
            // The length comes first; a checksum of four bytes follows the data.
            ChunkFormat::Png => ([e, f, g, h], u32::from_be_bytes([a, b, c, d]), 4),
            // The name comes first; data of an odd length are padded.
            ChunkFormat::Webp => {
                let size = u32::from_le_bytes([e, f, g, h]);
                ([a, b, c, d], size, u64::from(size % 2))
            }
        };
        let end = start + u64::from(size);
        match &name {
            b"eXIf" if format == ChunkFormat::Png => {
                return Ok((end <= length).then_some(start..end));
            }
            b"IEND" if format == ChunkFormat::Png => return Ok(None),
            b"EXIF" if format == ChunkFormat::Webp => {
                return Ok((end <= length).then_some(start..end));
            }
            _ if format == ChunkFormat::Webp && at == first => {
                let has_flags = name == *b"VP8X" && size >= 8 && end <= length;
                if !has_flags || bytes_at(start)?[0] & WEBP_HAS_EXIF == 0 {
                    return Ok(None);
                }
            }
            _ => {}
        }
        at = end + after;
    }
    Ok(None)
}

/// Returns the orientation of a PNG or WebP whose whole bytes are `file`, from 1 to 8. 1 is upright.
pub(crate) fn orientation_in(format: ChunkFormat, file: &[u8]) -> u8 {
    let bytes_at =
        |at: u64| file.get(at as usize..).and_then(<[u8]>::first_chunk).copied().ok_or(());
    match find(format, file.len() as u64, bytes_at) {
        Ok(Some(data)) => value_in(&file[data.start as usize..data.end as usize]),
        Ok(None) | Err(()) => 1,
    }
}

/// Returns the orientation that EXIF data say, from 1 to 8. 1 is upright.
pub(crate) fn value_in(mut data: &[u8]) -> u8 {
    while let Some(tiff) = data.strip_prefix(PREFIX) {
        data = tiff;
    }
    orientation(data).map_or(1, |value| valid(value.into()))
}

/// Returns a value of the tag, or 1 for one that is no orientation.
pub(crate) fn valid(value: u64) -> u8 {
    if (1..=8).contains(&value) { value as u8 } else { 1 }
}

/// Returns the value of the orientation's tag in the first image file directory of `tiff`. Where the tag is
/// repeated, the last one counts; one that is not a single SHORT or LONG has no value.
fn orientation(tiff: &[u8]) -> Option<u32> {
    let is_little = match tiff.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let u16_at = |bytes: &[u8], at: usize| {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let u32_at = |bytes: &[u8], at: usize| {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    let directory = tiff.get(u32_at(tiff, 4)? as usize..)?;
    let count = usize::from(u16_at(directory, 0)?);
    let mut entries = directory[2..].chunks_exact(ENTRY).take(count);
    let entry = entries.rfind(|entry| u16_at(entry, 0) == Some(TAG))?;
    match (u16_at(entry, 2)?, u32_at(entry, 4)?) {
        (3, 1) => u16_at(entry, 8).map(u32::from),
        (4, 1) => u32_at(entry, 8),
        _ => None,
    }
}

/// Returns the size of the upright picture of an image that is stored as `size`: the orientations 5 to 8 exchange rows and
/// columns.
pub(crate) fn upright_size(orientation: u32, size: Size) -> Size {
    if matches!(orientation, 5..=8) { Size::new(size.width, size.height) } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TIFF header and a directory of `entries`, each of them tag, type, count and the value's four bytes.
    fn tiff(is_little: bool, entries: &[(u16, u16, u32, [u8; 4])]) -> Vec<u8> {
        let short = |n: u16| if is_little { n.to_le_bytes() } else { n.to_be_bytes() };
        let long = |n: u32| if is_little { n.to_le_bytes() } else { n.to_be_bytes() };
        let mut bytes = if is_little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        bytes.extend(long(8));
        bytes.extend(short(entries.len() as u16));
        for (tag, kind, count, value) in entries {
            bytes.extend(short(*tag));
            bytes.extend(short(*kind));
            bytes.extend(long(*count));
            bytes.extend(value);
        }
        bytes
    }

    #[test]
    fn the_tag_is_read_in_both_byte_orders() {
        let make = (0x010f, 2, 9, [0, 1, 0, 0]);
        let files = [
            (tiff(true, &[make, (TAG, 3, 1, [6, 0, 0, 0])]), 6),
            (tiff(false, &[make, (TAG, 3, 1, [0, 6, 0, 0])]), 6),
            (tiff(true, &[(TAG, 4, 1, [8, 0, 0, 0])]), 8),
            (tiff(false, &[(TAG, 4, 1, [0, 0, 0, 8])]), 8),
            (tiff(true, &[(TAG, 3, 1, [6, 0, 0, 0]), (TAG, 3, 1, [3, 0, 0, 0])]), 3),
        ];
        for (bytes, expected) in &files {
            assert_eq!(orientation(bytes), Some(*expected), "{bytes:?}");
        }
    }

    fn png(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        for (name, data) in chunks {
            file.extend((data.len() as u32).to_be_bytes());
            file.extend(*name);
            file.extend(*data);
            file.extend([0; 4]);
        }
        file
    }

    fn webp(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut file = b"RIFF\0\0\0\0WEBP".to_vec();
        for (name, data) in chunks {
            file.extend(*name);
            file.extend((data.len() as u32).to_le_bytes());
            file.extend(*data);
            file.extend(vec![0; data.len() % 2]);
        }
        file
    }

    #[test]
    fn the_chunks_of_pngs_and_webps_have_an_orientation() {
        let six = tiff(false, &[(TAG, 3, 1, [0, 6, 0, 0])]);
        let prefixed = [PREFIX, &six].concat();
        let (header, flags, none) = (&[0; 13][..], [8, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0; 10]);
        for (file, expected) in [
            (png(&[(b"IHDR", header), (b"eXIf", &six), (b"IDAT", b"x"), (b"IEND", b"")]), 6),
            (png(&[(b"IHDR", header), (b"IDAT", b"x"), (b"eXIf", &prefixed), (b"IEND", b"")]), 6),
            (png(&[(b"IHDR", header), (b"IDAT", b"x"), (b"IEND", b""), (b"eXIf", &six)]), 1),
            (png(&[(b"IHDR", header), (b"IDAT", &six)]), 1),
        ] {
            assert_eq!(orientation_in(ChunkFormat::Png, &file), expected, "{file:?}");
        }
        for (file, expected) in [
            (webp(&[(b"VP8X", &flags), (b"VP8L", b"x"), (b"EXIF", &six)]), 6),
            (webp(&[(b"VP8X", &flags), (b"VP8 ", b"xy"), (b"EXIF", &prefixed)]), 6),
            (webp(&[(b"VP8X", &none), (b"VP8L", b"x"), (b"EXIF", &six)]), 1),
            (webp(&[(b"VP8L", b"x"), (b"EXIF", &six)]), 1),
        ] {
            assert_eq!(orientation_in(ChunkFormat::Webp, &file), expected, "{file:?}");
        }
    }

    #[test]
    fn files_of_chunks_that_are_cut_or_lie_are_upright() {
        let six = tiff(false, &[(TAG, 3, 1, [0, 6, 0, 0])]);
        let flags = [8, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let files = [
            (ChunkFormat::Png, png(&[(b"IHDR", &[0; 13]), (b"eXIf", &six)]), 4),
            (ChunkFormat::Webp, webp(&[(b"VP8X", &flags), (b"VP8L", b"x"), (b"EXIF", &six)]), 0),
        ];
        for (format, file, checksum) in files {
            assert_eq!(orientation_in(format, &file), 6);
            for end in 0..file.len() - checksum {
                assert_eq!(orientation_in(format, &file[..end]), 1, "{format:?} cut at {end}");
            }
            let mut lies = file;
            lies[8..].fill(0xff);
            assert_eq!(orientation_in(format, &lies), 1);
        }
    }

    #[test]
    fn data_without_a_readable_orientation_are_upright() {
        for data in [&b""[..], b"II", b"Exif\0\0", b"MM\0*\0\0\0\x08\xff\xff", &[0xff; 64]] {
            assert_eq!(value_in(data), 1, "{data:?}");
        }
        for value in [0, 9, 0xffff] {
            assert_eq!(
                value_in(&tiff(true, &[(TAG, 4, 1, [value as u8, (value >> 8) as u8, 0, 0])])),
                1
            );
        }
    }

    #[test]
    fn a_segment_that_ends_early_or_has_another_type_has_no_value() {
        let whole = tiff(true, &[(TAG, 3, 1, [6, 0, 0, 0])]);
        for end in 0..whole.len() {
            assert_eq!(orientation(&whole[..end]), None, "cut at {end}");
        }
        // An entry for each type but SHORT and LONG, and several values.
        for kind in [0, 1, 2, 5, 6, 7, 9, 0xffff] {
            assert_eq!(
                orientation(&tiff(true, &[(TAG, kind, 1, [6, 0, 0, 0])])),
                None,
                "type {kind}"
            );
        }
        assert_eq!(orientation(&tiff(true, &[(TAG, 3, 2, [6, 0, 6, 0])])), None);
        let mut beyond = whole;
        beyond[4..8].fill(0xff);
        assert_eq!(orientation(&beyond), None, "the directory begins after the end");
    }
}
