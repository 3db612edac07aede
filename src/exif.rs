//! The EXIF segment of an image, of which only the orientation is read (CIPA DC-008, 4.6.4, tag 274).

use fuseloop_ops::Size;

/// The tag of the orientation.
const TAG: u16 = 274;
/// The bytes of an entry of an image file directory: tag, type, count and value (TIFF 6.0, section 2).
const ENTRY: usize = 12;

/// Returns the value of the orientation's tag in the first image file directory of `tiff`. Where the tag is
/// repeated, the last one counts; one that is not a single SHORT or LONG has no value.
pub(crate) fn orientation(tiff: &[u8]) -> Option<u32> {
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
