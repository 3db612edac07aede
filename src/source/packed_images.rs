//! Lists of images as values of one field of bytes.
//!
//! | bytes | what they are                                       |
//! |------:|-----------------------------------------------------|
//! |     8 | `FIMAGES`, and the version, 1                       |
//! |     8 | n, the number of images                             |
//! |   8 n | the size of each image in bytes                     |
//! |       | the images, whole files of any format, without gaps |
//!
//! Numbers are unsigned and little-endian.

/// The first bytes of a list; the last one is the version.
const MAGIC: [u8; 8] = *b"FIMAGES\x01";

/// The size of a number.
const WORD: usize = 8;

/// A list of images whose sizes add up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedImages<'a> {
    sizes: &'a [[u8; WORD]],
    files: &'a [u8],
}

impl<'a> PackedImages<'a> {
    /// Checks a list.
    ///
    /// # Errors
    ///
    /// Returns the reason why the bytes are no list of images.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or_else(|| {
            format!("{} bytes that are no list of images: name a field of lists", bytes.len())
        })?;
        let damaged =
            || format!("a list of images whose sizes are not those of its {} bytes", bytes.len());
        let (count, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let len = usize::try_from(word(count)).ok().and_then(|count| count.checked_mul(WORD));
        let (sizes, files) = rest.split_at_checked(len.ok_or_else(damaged)?).ok_or_else(damaged)?;
        let (sizes, _) = sizes.as_chunks();
        let all = sizes.iter().try_fold(0_u64, |all, size| all.checked_add(word(size)));
        match all == Some(files.len() as u64) {
            true => Ok(Self { sizes, files }),
            false => Err(damaged()),
        }
    }

    /// Returns the number of images.
    pub(crate) fn count(self) -> usize {
        self.sizes.len()
    }

    /// Returns the file of each image.
    pub(crate) fn files(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.files;
        self.sizes.iter().map_while(move |size| {
            let (file, after) = rest.split_at_checked(usize::try_from(word(size)).ok()?)?;
            rest = after;
            Some(file)
        })
    }
}

fn word(bytes: &[u8; WORD]) -> u64 {
    u64::from_le_bytes(*bytes)
}

/// Returns the size of a list of images in bytes.
#[cfg(feature = "parquet")]
pub(super) fn packed_size(files: &[&[u8]]) -> u64 {
    let bytes = |file: &&[u8]| (WORD + file.len()) as u64;
    let head = (MAGIC.len() + WORD) as u64;
    files.iter().map(bytes).fold(head, u64::saturating_add)
}

/// Appends a list of images.
pub(super) fn pack<F: AsRef<[u8]>>(files: &[F], to: &mut Vec<u8>) {
    to.extend(MAGIC);
    to.extend((files.len() as u64).to_le_bytes());
    for file in files {
        to.extend((file.as_ref().len() as u64).to_le_bytes());
    }
    for file in files {
        to.extend(file.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(files: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![];
        pack(files, &mut bytes);
        bytes
    }

    #[test]
    fn a_list_has_the_files_that_were_packed() {
        let lists: [&[&[u8]]; 3] = [&[], &[b"a"], &[b"ab", b"", b"cde"]];
        for files in lists {
            let bytes = packed(files);
            let list = PackedImages::parse(&bytes).unwrap();
            assert_eq!(
                (list.count(), list.files().collect::<Vec<_>>()),
                (files.len(), files.to_vec())
            );
        }
    }

    #[test]
    fn a_list_that_is_cut_or_has_other_sizes_is_refused() {
        let bytes = packed(&[b"abc", b"de"]);
        for len in 0..bytes.len() {
            assert!(PackedImages::parse(&bytes[..len]).is_err(), "{len}");
        }
        assert!(PackedImages::parse(&[&bytes[..], &[0]].concat()).is_err());
        for (byte, value) in [(0, 0), (8, 3), (8, 1), (15, 255), (16, 4), (23, 255), (31, 255)] {
            let mut other = bytes.clone();
            other[byte] = value;
            assert!(PackedImages::parse(&other).is_err(), "{byte}");
        }
    }
}
