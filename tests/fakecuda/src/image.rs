//! The format that the fake NVRTC writes and the fake driver loads: a shared object of the host,
//! wrapped.
//!
//! As a CUBIN, little-endian:
//!
//! | offset | size | field | meaning                                         |
//! |-------:|-----:|-------|-------------------------------------------------|
//! |      0 |   16 | magic | begins like an ELF file, as a real CUBIN does   |
//! |     16 |    4 | sm    | the compute capability it was compiled for      |
//! |     20 |    8 | len   | bytes that follow                               |
//! |     28 |  len |       | the shared object                               |
//!
//! As PTX: a heading, and a comment line with the object in hexadecimal digits.

pub(crate) const MAGIC: [u8; 16] = *b"\x7fELF host build\0";

/// Bytes before the object.
pub(crate) const HEADER: usize = 28;

const LINE: &str = "// host build ";

#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) sm: u32,
    pub(crate) len: usize,
}

impl Header {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<16>()?;
        let (sm, rest) = rest.split_first_chunk()?;
        let len = usize::try_from(u64::from_le_bytes(*rest.first_chunk()?)).ok()?;
        (*magic == MAGIC).then_some(Self { sm: u32::from_le_bytes(*sm), len })
    }
}

pub(crate) fn cubin(sm: u32, library: &[u8]) -> Vec<u8> {
    let len = (library.len() as u64).to_le_bytes();
    [&MAGIC[..], &sm.to_le_bytes(), &len, library].concat()
}

pub(crate) fn text((major, minor): (u32, u32), sm: u32, library: &[u8]) -> String {
    let heading = format!(".version {major}.{minor}\n.target sm_{sm}\n.address_size 64\n");
    let digits: String = library.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{heading}{LINE}{digits}\n")
}

/// Returns the object in a text of [`text`].
pub(crate) fn from_text(text: &str) -> Option<Vec<u8>> {
    let digits = text.lines().find_map(|line| line.strip_prefix(LINE))?.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_comes_out_of_both_as_it_went_in() {
        let object = [0, 1, 0x7f, 0xff];
        let packed = cubin(89, &object);
        let header = Header::parse(&packed).unwrap();
        assert_eq!((header.sm, header.len), (89, 4));
        assert_eq!(packed[HEADER..], object);
        assert_eq!(from_text(&text((8, 0), 75, &object)).unwrap(), object);
    }

    #[test]
    fn an_elf_file_is_no_image() {
        assert!(Header::parse(&[b"\x7fELF\x02\x01\x01".as_slice(), &[0; 40]].concat()).is_none());
    }
}
