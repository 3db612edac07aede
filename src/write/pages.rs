//! The pages of a `.beton` file: the offset of each value.
//!
//! ```text
//! room(sample) = sum of max(1, bytes) over the values of the sample that are stored in pages
//! page size    doubled until it is at least room(sample)
//! page         the current one if it has room(sample) free bytes, else the next
//! values       one after another, without gaps or alignment
//! ```
//!
//! Pages are counted from the start of the first one. When they grow, two neighbouring pages become one, so that the
//! values written so far stay where they are, and each sample stays in one page. Only the start must be a multiple of
//! the new size: `file.rs` moves the pages there at the end.
//!
//! So all values of a sample are in one page, which FFCV's page cache requires. An empty value takes one
//! byte: FFCV looks up a value's size by its pointer, which must therefore be unique. The free bytes at
//! the end of a page are zero.

use fuseloop_ops::internals::memory;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

/// The size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// The pages of a file being written, from [`start`](Self::start) on.
pub(super) struct PageWriter<F: Write> {
    out: BufWriter<F>,
    /// A power of two.
    page_size: u32,
    start: u64,
    /// The offset of the next value.
    at: u64,
}

impl<F: Read + Write + Seek> PageWriter<F> {
    /// Creates pages that begin at `start`, a multiple of `page_size`. The bytes before them are
    /// reserved for the tables.
    pub(super) fn new(file: F, page_size: u32, start: u64) -> io::Result<Self> {
        Self::resume(file, page_size, start, start)
    }

    /// Continues pages that begin at `start` and have values up to `at`.
    pub(super) fn resume(mut file: F, page_size: u32, start: u64, at: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(at))?;
        memory::probe(BUFFER, "pages that are written").map_err(|_| io::ErrorKind::OutOfMemory)?;
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { out, page_size, start, at })
    }

    /// Returns the offset of the first page.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Goes to the next page unless `room` bytes are free in the current one. Pages grow if `room` is more than a page.
    ///
    /// # Errors
    ///
    /// If the system can't write, or no page size in the header's 32 bits is enough.
    pub(super) fn begin_sample(&mut self, room: u64) -> io::Result<()> {
        if room > self.page_size.into() {
            let grown = u32::try_from(room).ok().and_then(u32::checked_next_power_of_two);
            self.page_size =
                grown.ok_or_else(|| io::Error::other("a sample of over 2^31 bytes"))?;
        }
        if room > self.free() { self.fill_page() } else { Ok(()) }
    }

    /// Appends a value and returns its offset.
    pub(super) fn put(&mut self, value: &[u8]) -> io::Result<u64> {
        let ptr = self.at;
        let stored = if value.is_empty() { &[0] } else { value };
        self.out.write_all(stored)?;
        self.at += stored.len() as u64;
        Ok(ptr)
    }

    /// Returns the size of a page, and the offset of the next value.
    pub(super) fn position(&self) -> (u32, u64) {
        (self.page_size, self.at)
    }

    /// Passes everything to the file, and with it bytes at an offset before the pages.
    pub(super) fn put_before(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(bytes)?;
        self.out.seek(SeekFrom::Start(self.at)).map(|_| ())
    }

    /// Ends the last page. Returns the file, the size of a page and the offset of the end of the pages.
    pub(super) fn finish(mut self) -> io::Result<(F, u32, u64)> {
        if self.at > self.start {
            self.fill_page()?;
        }
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((file, self.page_size, self.at))
    }

    /// Returns the number of free bytes in the current page: 0 at its end, and before the first page.
    fn free(&self) -> u64 {
        let used = self.at - self.start;
        used.next_multiple_of(self.page_size.into()) - used
    }

    fn fill_page(&mut self) -> io::Result<()> {
        let free = self.free();
        io::copy(&mut io::repeat(0).take(free), &mut self.out)?;
        self.at += free;
        Ok(())
    }
}

/// Moves the bytes `start..end` of a file to `to`, which is after `start`.
///
/// Needed if there are more samples than announced: their table has outgrown the reserved space.
pub(super) fn move_up<F: Read + Write + Seek>(
    file: &mut F,
    start: u64,
    end: u64,
    to: u64,
) -> io::Result<()> {
    let mut block = vec![0; BUFFER];
    let mut left = end - start;
    // The copy runs from the end, because the ranges overlap.
    while left > 0 {
        let len = left.min(BUFFER as u64);
        left -= len;
        let block = &mut block[..len as usize];
        file.seek(SeekFrom::Start(start + left))?;
        file.read_exact(block)?;
        file.seek(SeekFrom::Start(to + left))?;
        file.write_all(block)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn pages() -> PageWriter<Cursor<Vec<u8>>> {
        PageWriter::new(Cursor::new(Vec::new()), 8, 16).unwrap()
    }

    fn sample(pages: &mut PageWriter<Cursor<Vec<u8>>>, values: &[&[u8]]) -> Vec<u64> {
        pages.begin_sample(values.iter().map(|value| value.len().max(1) as u64).sum()).unwrap();
        values.iter().map(|value| pages.put(value).unwrap()).collect()
    }

    #[test]
    fn a_sample_that_does_not_fit_begins_a_page() {
        let mut pages = pages();
        assert_eq!(sample(&mut pages, &[b"abc", b"de"]), [16, 19]);
        assert_eq!(sample(&mut pages, &[b"fg", b"hi"]), [24, 26]);
        assert_eq!(sample(&mut pages, &[b"jklm"]), [28]);
        assert_eq!(sample(&mut pages, &[b"n"]), [32]);
        let (file, page_size, end) = pages.finish().unwrap();
        assert_eq!((page_size, end), (8, 40));
        assert_eq!(&file.into_inner()[16..], b"abcde\0\0\0fghijklmn\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_value_of_no_bytes_has_its_own_place() {
        let mut pages = pages();
        assert_eq!(sample(&mut pages, &[b"", b"", b"a"]), [16, 17, 18]);
        assert_eq!(sample(&mut pages, &[b"bcde", b""]), [19, 23]);
        assert_eq!(sample(&mut pages, &[b""]), [24]);
        assert_eq!(pages.finish().unwrap().2, 32);
    }

    #[test]
    fn pages_grow_to_the_largest_sample() {
        let mut pages = pages();
        assert_eq!(sample(&mut pages, &[b"abc"]), [16]);
        // 3 bytes of a page of 32 are used, and 29 are free.
        assert_eq!(sample(&mut pages, &[&[1; 17]]), [19]);
        assert_eq!(sample(&mut pages, &[&[2; 13]]), [48]);
        let (_, page_size, end) = pages.finish().unwrap();
        assert_eq!((page_size, end), (32, 80));
    }

    #[test]
    fn without_values_there_are_no_pages() {
        let mut pages = pages();
        pages.begin_sample(0).unwrap();
        let (file, _, end) = pages.finish().unwrap();
        assert_eq!((file.into_inner().len(), end), (0, 16));
    }

    #[test]
    fn moved_bytes_are_the_same() {
        for (len, by) in [(10, 3), (3 * BUFFER + 17, 8), (2 * BUFFER, 2 * BUFFER + 1), (0, 5)] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            let mut file = Cursor::new(bytes.clone());
            move_up(&mut file, 0, len as u64, by as u64).unwrap();
            let moved = file.into_inner();
            assert!(moved.get(by..by + len).unwrap_or_default() == bytes, "{len} by {by}");
        }
    }
}
