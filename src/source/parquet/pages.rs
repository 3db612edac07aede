//! The pages of a column chunk: where they lie, and their bytes once they are decompressed.
//!
//! ```text
//! chunk:  [header][dictionary]  [header][levels, values]  [header][levels, values]  ...
//! ```
//!
//! A chunk holds the values of one column for the rows of one row group. Pages are compressed each by itself.

use super::thrift::{PageHeader, PageKind, page_header};
use crate::error::{Error, fail};
use crate::panicked::call_decoder;
use crate::sample::Limits;
use crate::source::shards::Shard;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::Result as ParquetResult;
use std::io::Read as _;
use std::sync::OnceLock;

/// The bytes that are read first to find a header, and the most that one may have: it holds the least and the largest
/// value of the page.
const HEADER_BYTES: u64 = 256;
const MOST_HEADER_BYTES: u64 = 16 << 20;

/// The values of a column in a row group.
pub(super) struct Chunk {
    /// The offset of the first page's header in the file.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The number of values, with those that are null and with empty lists.
    pub(super) values: u64,
    pub(super) codec: Codec,
    /// Where the values of the chunk's rows lie, once it was asked for.
    pub(super) directory: OnceLock<Directory>,
}

/// Where the values of a chunk's rows lie.
pub(super) enum Directory {
    /// The offset and the length of each row's value in the file. The length of a null is [`Self::NULL`].
    Extents { offsets: Box<[u64]>, lens: Box<[u32]> },
    /// The pages, each with the first of its rows.
    Pages { dictionary: Option<u64>, pages: Box<[(u64, u32)]> },
}

impl Directory {
    /// The length of a value that is null.
    pub(super) const NULL: u32 = u32::MAX;
}

/// The compression of a chunk's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Snappy,
    Gzip,
    /// The frames of Hadoop, each with its sizes in front.
    Lz4Hadoop,
    Lz4,
    Zstd,
}

impl Codec {
    /// Returns the codec of a column.
    ///
    /// # Errors
    ///
    /// Returns the name of a codec that is not read.
    pub(super) fn new(compression: Compression) -> Result<Self, &'static str> {
        Ok(match compression {
            Compression::UNCOMPRESSED => Self::None,
            Compression::SNAPPY => Self::Snappy,
            Compression::GZIP(_) => Self::Gzip,
            Compression::LZ4 => Self::Lz4Hadoop,
            Compression::LZ4_RAW => Self::Lz4,
            Compression::ZSTD(_) => Self::Zstd,
            Compression::BROTLI(_) => return Err("Brotli"),
            Compression::LZO => return Err("LZO"),
        })
    }
}

/// A page, and where its bytes begin behind its header.
pub(super) struct PageAt {
    pub(super) header_at: u64,
    pub(super) at: u64,
    pub(super) header: PageHeader,
}

impl PageAt {
    /// Reads the header at an offset.
    pub(super) fn read(shard: &Shard, header_at: u64, end: u64) -> Result<Self, Error> {
        let (left, mut buffer) = (end.saturating_sub(header_at), vec![]);
        let mut window = HEADER_BYTES.min(left);
        loop {
            let bytes = shard.bytes.get(header_at, window, &mut buffer)?;
            if let Some((header, len)) = page_header(bytes) {
                let at = header_at + len as u64;
                if u64::from(header.stored) > end - at {
                    return Err(fail!(
                        Damaged,
                        "a page of {} bytes, expected at most the {} that its column has left",
                        header.stored,
                        end - at
                    )
                    .byte(header_at));
                }
                return Ok(Self { header_at, at, header });
            }
            if window == left.min(MOST_HEADER_BYTES) {
                return Err(fail!(Damaged, "no header of a page").byte(header_at));
            }
            window = (window * 32).min(left).min(MOST_HEADER_BYTES);
        }
    }

    fn end(&self) -> u64 {
        self.at + u64::from(self.header.stored)
    }

    pub(super) fn is_data(&self) -> bool {
        matches!(self.header.kind, PageKind::Data { .. } | PageKind::DataV2 { .. })
    }
}

impl Chunk {
    /// Finds all pages of the chunk.
    ///
    /// # Errors
    ///
    /// Fails if a header is damaged, or if the pages do not have the number of values that the chunk has.
    pub(super) fn walk(&self, shard: &Shard) -> Result<Vec<PageAt>, Error> {
        let mut pages = vec![];
        self.each_page(shard, |page| {
            pages.push(page);
            Ok(Some(()))
        })?;
        Ok(pages)
    }

    /// Calls `visit` for each page of the chunk: its dictionary, if it has one, and its pages of data. Ends with `None` at
    /// the first page for which `visit` returns it.
    ///
    /// # Errors
    ///
    /// Fails as [`walk`](Self::walk) and `visit` do.
    pub(super) fn each_page(
        &self,
        shard: &Shard,
        mut visit: impl FnMut(PageAt) -> Result<Option<()>, Error>,
    ) -> Result<Option<()>, Error> {
        let (mut at, mut values, mut is_first) = (self.start, 0, true);
        while at < self.end && values < self.values {
            let page = PageAt::read(shard, at, self.end)?;
            at = page.end();
            match page.header.kind {
                PageKind::Data { .. } | PageKind::DataV2 { .. } => {
                    values += u64::from(page.header.values);
                }
                PageKind::Dictionary if is_first => {}
                PageKind::Dictionary => {
                    return Err(
                        fail!(Damaged, "a dictionary behind other pages").byte(page.header_at)
                    );
                }
                PageKind::Other => continue,
            }
            is_first = false;
            if visit(page)?.is_none() {
                return Ok(None);
            }
        }
        match values == self.values {
            true => Ok(Some(())),
            false => Err(fail!(
                Damaged,
                "the pages of a column have {values} values, expected {}",
                self.values
            )
            .byte(self.start)),
        }
    }

    /// Reads a page and decompresses it.
    ///
    /// # Errors
    ///
    /// Fails if the page can't be read, is damaged, or is larger than the limits allow.
    pub(super) fn load(
        &self,
        shard: &Shard,
        page: &PageAt,
        limits: &Limits,
    ) -> Result<Page, Error> {
        let damaged = |reason: String| fail!(Damaged, "{reason}").byte(page.header_at);
        let PageHeader { ref kind, unpacked, stored, values, encoding, crc } = page.header;
        check_size(u64::from(unpacked), u64::from(values), limits)
            .map_err(|error| error.byte(page.header_at))?;
        let bytes = shard.bytes.copy(page.at, u64::from(stored))?;
        if let Some(crc) = crc {
            let mut found = flate2::Crc::new();
            found.update(&bytes);
            if found.sum() != crc {
                let found = found.sum();
                return Err(damaged(format!(
                    "a page with the CRC {found:08x}, expected {crc:08x}"
                )));
            }
        }
        let bytes = match *kind {
            PageKind::DataV2 { definition, repetition, is_compressed, .. } => {
                let levels = u64::from(definition) + u64::from(repetition);
                if levels > u64::from(stored.min(unpacked)) {
                    return Err(damaged(format!("levels of {levels} bytes in a page of {stored}")));
                }
                match self.codec {
                    codec if is_compressed && codec != Codec::None => {
                        let (levels, packed) = bytes.split_at(levels as usize);
                        let size = unpacked as usize - levels.len();
                        // A page of nulls has no values to compress.
                        let unpacked = match size {
                            0 => vec![],
                            _ => decompress(codec, packed, size).map_err(damaged)?,
                        };
                        [levels, &unpacked].concat()
                    }
                    _ => bytes,
                }
            }
            _ => match self.codec {
                Codec::None => bytes,
                codec => decompress(codec, &bytes, unpacked as usize).map_err(damaged)?,
            },
        };
        let (buf, num_values) = (Bytes::from(bytes), values);
        Ok(match *kind {
            PageKind::Data { definition, repetition } => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: definition,
                rep_level_encoding: repetition,
                statistics: None,
            },
            PageKind::DataV2 { nulls, rows, definition, repetition, .. } => Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: nulls,
                num_rows: rows,
                def_levels_byte_len: definition,
                rep_levels_byte_len: repetition,
                is_compressed: false,
                statistics: None,
            },
            PageKind::Dictionary | PageKind::Other => {
                // Old writers say PLAIN_DICTIONARY for the dictionary itself.
                let encoding = match encoding {
                    Encoding::PLAIN_DICTIONARY => Encoding::PLAIN,
                    encoding => encoding,
                };
                Page::DictionaryPage { buf, num_values, encoding, is_sorted: false }
            }
        })
    }

    /// Reads all pages of the chunk, for values that do not lie in one page.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) does, and if all pages together are larger than the limits allow.
    pub(super) fn load_all(&self, shard: &Shard, limits: &Limits) -> Result<Pages, Error> {
        let pages = self.walk(shard)?;
        let unpacked = pages.iter().map(|page| u64::from(page.header.unpacked)).sum();
        check_size(unpacked, self.values, limits).map_err(|error| error.byte(self.start))?;
        let pages: Result<Vec<Page>, Error> =
            pages.iter().map(|page| self.load(shard, page, limits)).collect();
        Ok(Pages::new(pages?, limits))
    }

    /// Reads one page and the dictionary that it may need.
    ///
    /// # Errors
    ///
    /// Fails as [`load`](Self::load) does.
    pub(super) fn load_one(
        &self,
        shard: &Shard,
        dictionary: Option<u64>,
        page: u64,
        limits: &Limits,
    ) -> Result<Pages, Error> {
        let page = PageAt::read(shard, page, self.end)?;
        let needs_dictionary =
            matches!(page.header.encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        if needs_dictionary && dictionary.is_none() {
            return Err(
                fail!(Damaged, "a page of a dictionary that its column lacks").byte(page.header_at)
            );
        }
        let mut pages = vec![];
        if let Some(at) = dictionary.filter(|_| needs_dictionary) {
            pages.push(self.load(shard, &PageAt::read(shard, at, self.end)?, limits)?);
        }
        pages.push(self.load(shard, &page, limits)?);
        Ok(Pages::new(pages, limits))
    }
}

/// Returns the directory of pages: each has whole rows, as a column without lists has.
pub(super) fn directory_of(pages: &[PageAt]) -> Directory {
    let dictionary = pages.first().filter(|page| !page.is_data()).map(|page| page.header_at);
    let mut row = 0;
    let starts = pages.iter().filter(|page| page.is_data()).map(|page| {
        let first = row;
        row += page.header.values;
        (page.header_at, first)
    });
    Directory::Pages { dictionary, pages: starts.collect() }
}

/// Refuses pages that would need too much memory.
fn check_size(unpacked: u64, values: u64, limits: &Limits) -> Result<(), Error> {
    let most = limits.max_unpacked_bytes;
    if unpacked > most {
        return Err(fail!(Damaged, "{unpacked} bytes once decompressed, the limit is {most}"));
    }
    // A value has levels of 4 bytes, and up to 32 bytes of its own.
    if values > most / 8 {
        return Err(fail!(
            Damaged,
            "{values} values in one page or column, the limit is {}",
            most / 8
        ));
    }
    Ok(())
}

/// Decompresses a page of `size` bytes.
fn decompress(codec: Codec, packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    call_decoder("the codec", || unpack(codec, packed, size))
}

fn unpack(codec: Codec, packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    unpacked.try_reserve_exact(size + 1).map_err(|error| error.to_string())?;
    let found = match codec {
        Codec::None => return Ok(packed.to_vec()),
        Codec::Gzip => {
            let mut reader = flate2::read::MultiGzDecoder::new(packed).take(size as u64 + 1);
            reader.read_to_end(&mut unpacked).map_err(|error| format!("gzip: {error}"))?
        }
        _ => {
            unpacked.resize(size, 0);
            match codec {
                Codec::Snappy => {
                    let found = snap::raw::decompress_len(packed);
                    let found = found.map_err(|error| format!("snappy: {error}"))?;
                    if found <= size {
                        let decoded = snap::raw::Decoder::new().decompress(packed, &mut unpacked);
                        decoded.map_err(|error| format!("snappy: {error}"))?
                    } else {
                        found
                    }
                }
                Codec::Zstd => {
                    let mut decoder = ruzstd::decoding::FrameDecoder::new();
                    decoder.set_max_window_size((size as u64).max(8 << 20));
                    let decoded = decoder.decode_all(packed, &mut unpacked);
                    decoded.map_err(|error| format!("zstd: {error}"))?
                }
                Codec::Lz4Hadoop => hadoop_lz4(packed, &mut unpacked)
                    .ok_or("LZ4: the frames of a page are damaged")?,
                _ => lz4_flex::block::decompress_into(packed, &mut unpacked)
                    .map_err(|error| format!("LZ4: {error}"))?,
            }
        }
    };
    unpacked.truncate(size);
    match found == size {
        true => Ok(unpacked),
        false => Err(format!("a page of {found} bytes once decompressed, its header has {size}")),
    }
}

/// Decompresses the frames of Hadoop: the sizes of the data and of its compressed block, big-endian, then the block.
fn hadoop_lz4(mut packed: &[u8], unpacked: &mut [u8]) -> Option<usize> {
    let mut done = 0_usize;
    while !packed.is_empty() {
        let (sizes, rest) = packed.split_first_chunk::<8>()?;
        let [a, b, c, d, e, f, g, h] = *sizes;
        let size = u32::from_be_bytes([a, b, c, d]) as usize;
        let (block, rest) = rest.split_at_checked(u32::from_be_bytes([e, f, g, h]) as usize)?;
        let to = unpacked.get_mut(done..done.checked_add(size)?)?;
        done += lz4_flex::block::decompress_into(block, to).ok().filter(|found| *found == size)?;
        packed = rest;
    }
    Some(done)
}

/// Pages in memory, as the crate's decoders take them.
pub(super) struct Pages {
    left: std::vec::IntoIter<Page>,
    /// The most bytes of the values.
    pub(super) most_bytes: u64,
}

impl Pages {
    fn new(pages: Vec<Page>, limits: &Limits) -> Self {
        Self { left: pages.into_iter(), most_bytes: limits.max_unpacked_bytes }
    }

    /// Returns true if a value may repeat the begin of the one before: a few bytes then become many.
    pub(super) fn has_prefixes(&self) -> bool {
        self.left.as_slice().iter().any(|page| page.encoding() == Encoding::DELTA_BYTE_ARRAY)
    }

    /// Returns the number of bytes of the pages.
    pub(super) fn bytes(&self) -> usize {
        self.left.as_slice().iter().map(|page| page.buffer().len()).sum()
    }
}

impl Iterator for Pages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left.next().map(Ok)
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        Ok(self.left.next())
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        Ok(self.left.as_slice().first().map(|page| PageMetadata {
            num_rows: match page {
                Page::DataPageV2 { num_rows, .. } => Some(*num_rows as usize),
                _ => None,
            },
            num_levels: page.is_data_page().then_some(page.num_values() as usize),
            is_dict: page.is_dictionary_page(),
        }))
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.left.next();
        Ok(())
    }
}
