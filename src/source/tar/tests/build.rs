//! Archives built header by header, including ones that no writer would write.

use crate::source::tar::header::BLOCK;

/// An archive that is being built.
#[derive(Clone, Default)]
pub(super) struct Archive(pub(super) Vec<u8>);

impl Archive {
    /// Adds a file.
    pub(super) fn file(self, name: &str, data: &[u8]) -> Self {
        self.member(b'0', name.as_bytes(), data)
    }

    /// Adds a header of any kind and its data.
    pub(super) fn member(mut self, kind: u8, name: &[u8], data: &[u8]) -> Self {
        self.0.extend(header(kind, name, format!("{:011o}\0", data.len()).as_bytes()));
        self.data(data)
    }

    /// Adds a header with this size, and no data.
    pub(super) fn claims(mut self, kind: u8, name: &[u8], size: &[u8]) -> Self {
        self.0.extend(header(kind, name, size));
        self
    }

    /// Adds data, padded.
    pub(super) fn data(mut self, data: &[u8]) -> Self {
        self.0.extend(data);
        let len = self.0.len().next_multiple_of(BLOCK);
        self.0.resize(len, 0);
        self
    }

    /// Adds a PAX header for the next member.
    pub(super) fn pax(self, records: &[(&str, &str)]) -> Self {
        self.member(b'x', b"pax", &pax(records))
    }

    /// Adds the zeros of the end.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 2 * BLOCK]);
        self.0
    }
}

/// The records of a PAX header.
pub(super) fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let record = |&(key, value): &(&str, &str)| {
        let rest = format!(" {key}={value}\n");
        let len = (1..9).find(|len| (rest.len() + len).to_string().len() == *len).unwrap();
        format!("{}{rest}", rest.len() + len)
    };
    records.iter().map(record).collect::<String>().into_bytes()
}

/// A header with its checksum.
pub(super) fn header(kind: u8, name: &[u8], size: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    block[100..107].copy_from_slice(b"0000644");
    block[124..124 + size.len()].copy_from_slice(size);
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    summed(block)
}

/// Corrects the checksum of a header.
pub(super) fn summed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Three samples, with every kind of header that a writer may put beside them.
pub(super) fn usual() -> Vec<u8> {
    let long = "n".repeat(120);
    Archive::default()
        .member(b'g', b"global", &pax(&[("comment", "of all")]))
        .member(b'5', b"train/", b"")
        .file("train/1.txt", b"one")
        .file("train/1.cls", b"1")
        .member(b'L', b"././@LongLink", format!("train/{long}.txt\0").as_bytes())
        .file("train/short", b"two")
        .member(b'2', b"train/link.txt", b"")
        .pax(&[("mtime", "1.5"), ("path", &format!("train/{long}.cls")), ("size", "1")])
        .file("train/other", b"2")
        .file("README", b"passed over")
        .file("train/3.txt", &[b'3'; 700])
        .file("train/3.cls", b"3")
        .end()
}
