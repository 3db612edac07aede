//! Bit-plane images: a JPEG whose coefficients are stored as bit planes ([`fuseloop_kernels::bit_planes`]), with
//! everything else of the file, so that it can be restored byte for byte.
//!
//! | offset | size | field       | meaning                                                              |
//! |-------:|-----:|-------------|----------------------------------------------------------------------|
//! |      0 |    8 | magic       | "FPLANES\x01"; the last byte is the version                          |
//! |      8 |    4 | `checksum`  | CRC-32C of all bytes from offset 12 to the end of the index          |
//! |     12 |    4 | `head`      | bytes of the JPEG before its coded data: headers and tables          |
//! |     16 |    4 | `main`      | bytes of the main stream                                             |
//! |     20 |    4 | `side`      | bytes of the side stream                                             |
//! |     24 |    4 | `tail`      | bytes of the JPEG after its coded data: from the end marker on       |
//! |     28 |    2 | `tile`      | MCUs of a tile; the last tile of a row may have fewer                |
//! |     30 |    1 | `fill`      | the bit that fills up the last byte of a segment of coded data: 0, 1 |
//! |     31 |    1 |             | 0                                                                    |
//! |     32 | `head` |           | the JPEG's first bytes                                               |
//! |        | 4 each | checksums | CRC-32C of each row of MCUs, and of the tail                         |
//! |        | 1 or 3 each | index | for each tile, the lengths of its parts of the main and the side stream |
//! |        | `main` |           | the main stream                                                      |
//! |        | `side` |           | the side stream                                                      |
//! |        | `tail` |           | the JPEG's last bytes                                                |
//!
//! All integers are little-endian. A row's checksum is that of its bytes in the main stream, followed by those in the
//! side stream. A length in the index takes one byte, or `ff` and two bytes from 255 on. A tile's blocks are in the JPEG's order, MCU after MCU. DC differences begin at 0 in
//! each tile. Both streams begin at a byte in each tile.
//!
//! Decoding a window verifies the checksums of what it reads, and no more: the headers with the index, and the rows of
//! MCUs that it touches, over their whole width. The decoder does not rely on it: whatever the bytes are, it stays
//! inside them, and it ends.

use crate::error::{JpegError, fail};
use crate::headers::Headers;
use crate::index;
use crate::scans::Grid;
use fuseloop_kernels::bit_planes::SLACK;
use std::ops::Range;

/// The first bytes of a bit-plane image; the last one is the version.
pub const BIT_PLANES_MAGIC: [u8; 8] = *b"FPLANES\x01";

/// The bytes before the JPEG's own.
pub const FIXED: usize = 32;

/// The offset of the bytes that the first checksum is about.
const CHECKED: usize = 12;

/// Where the parts of a bit-plane image are, read and checked.
#[derive(Clone, Debug)]
pub struct BitPlaneLayout {
    head: Range<usize>,
    checksums: Range<usize>,
    index: Range<usize>,
    main: Range<usize>,
    side: Range<usize>,
    tile: u16,
    #[cfg(feature = "write")]
    fill: bool,
}

/// The parts of a bit-plane image.
#[derive(Clone, Copy, Debug)]
pub struct BitPlaneImage<'a> {
    /// The JPEG's bytes before the coded data.
    pub head: &'a [u8],
    /// Lengths of tiles.
    pub index: &'a [u8],
    pub main: PlaneStream<'a>,
    pub side: PlaneStream<'a>,
    /// The JPEG's bytes after the coded data.
    #[cfg(feature = "write")]
    pub tail: &'a [u8],
    /// MCUs of a tile.
    pub tile: u64,
    /// The bit that fills up the last byte of a segment.
    #[cfg(feature = "write")]
    pub fill: bool,
    checksums: &'a [[u8; 4]],
}

/// A stream of bit planes, and the bytes of the image after it.
#[derive(Clone, Copy, Debug)]
pub struct PlaneStream<'a> {
    /// The image's bytes from the stream's first one on.
    bytes: &'a [u8],
    len: usize,
}

impl<'a> PlaneStream<'a> {
    /// Returns the number of bytes.
    #[cfg(feature = "write")]
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns the bytes of a part; `None` if the stream ends before.
    pub fn part(self, part: Range<usize>) -> Option<&'a [u8]> {
        self.bytes[..self.len].get(part)
    }

    /// Returns the bytes of a part and all bytes of the image after it; `None` if the stream ends before the part does.
    pub fn part_and_rest(self, part: Range<usize>) -> Option<&'a [u8]> {
        if part.end > self.len { None } else { self.bytes.get(part.start..) }
    }
}

/// The first bytes of a bit-plane image, as the table above has them.
struct FixedHeader {
    checksum: u32,
    head: u32,
    main: u32,
    side: u32,
    tail: u32,
    tile: u16,
    fill: u8,
    reserved: u8,
}

impl FixedHeader {
    fn parse(bytes: &[u8]) -> Result<Self, JpegError> {
        let damaged = |what| fail!(Damaged, "damaged bit-plane image: {what}");
        let fixed = bytes
            .first_chunk::<FIXED>()
            .ok_or_else(|| damaged("it ends inside its first 32 bytes"))?;
        if fixed[..8] != BIT_PLANES_MAGIC {
            return Err(damaged("it does not begin with FPLANES and version 1"));
        }
        let word =
            |at: usize| fixed[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let [checksum, head, main, side, tail] = [8, 12, 16, 20, 24].map(word);
        let [tile_low, tile_high, fill, reserved] = word(28).to_le_bytes();
        let tile = u16::from_le_bytes([tile_low, tile_high]);
        Ok(Self { checksum, head, main, side, tail, tile, fill, reserved })
    }

    /// Returns where the JPEG's head ends, and where the index ends, in an image of `len` bytes.
    fn ends(&self, len: usize) -> Result<[usize; 2], JpegError> {
        let Self { head, main, side, tail, .. } = *self;
        let streams = (len as u64).checked_sub(u64::from(main) + u64::from(side) + u64::from(tail));
        let after_head = FIXED as u64 + u64::from(head);
        let streams = streams.filter(|&at| at >= after_head);
        let streams =
            streams.ok_or_else(|| fail!(Damaged, "damaged bit-plane image: it is cut short"))?;
        Ok([after_head as usize, streams as usize])
    }
}

/// Returns the bytes of the headers and the index of an image of `len` bytes, which [`BitPlaneLayout::parse`] looks at.
/// `bytes` begins as the image does.
///
/// # Errors
///
/// If the image is damaged in its first bytes.
pub fn header_bytes(bytes: &[u8], len: usize) -> Result<usize, JpegError> {
    FixedHeader::parse(bytes)?.ends(len).map(|[_, streams]| streams)
}

impl BitPlaneLayout {
    /// Reads an image's headers and those of the JPEG in it, and verifies their checksum.
    ///
    /// # Errors
    ///
    /// If the bytes are no bit-plane image, or a damaged one.
    pub fn parse(bytes: &[u8]) -> Result<(Self, Headers), JpegError> {
        let damaged = |what| fail!(Damaged, "damaged bit-plane image: {what}");
        let fixed = FixedHeader::parse(bytes)?;
        let FixedHeader { checksum, main, side, tile, fill, reserved, .. } = fixed;
        let [after_head, streams] = fixed.ends(bytes.len())?;
        if crc32c::crc32c(&bytes[CHECKED..streams]) != checksum {
            return Err(damaged("the checksum of its headers differs"));
        }
        let head = FIXED..after_head;
        let headers = Headers::parse(&bytes[head.clone()])?;
        if headers.scan.data != head.len() || fill > 1 || reserved != 0 {
            return Err(damaged("a field of its headers has an unknown value"));
        }
        let grid = Grid::of(&headers);
        let index = after_head as u64 + 4 * (grid.rows + 1);
        if index > streams as u64 {
            return Err(damaged("its headers end inside the checksums of rows"));
        }
        if tile == 0 || u64::from(tile) > grid.columns {
            return Err(damaged("a tile has no MCU, or more than a row has"));
        }
        // A block has 6 bits or more in one stream, and 4 or more in the other.
        let blocks = grid.mcus() * grid.blocks;
        if 8 * u64::from(main) < 6 * blocks || 8 * u64::from(side) < 4 * blocks {
            let found = u64::from(main) + u64::from(side);
            let least = (10 * blocks).div_ceil(8);
            return Err(JpegError::TooShort { size: headers.size, found, least });
        }
        let after_main = streams + main as usize;
        let layout = Self {
            head,
            checksums: after_head..index as usize,
            index: index as usize..streams,
            main: streams..after_main,
            side: after_main..after_main + side as usize,
            tile,
            #[cfg(feature = "write")]
            fill: fill == 1,
        };
        Ok((layout, headers))
    }

    /// Returns the ranges of the bytes that decoding rows of MCUs reads, one in each stream; `None` if the streams have no
    /// such rows. `bytes` are those that were parsed, of which those of the streams are not looked at.
    pub fn bytes_of_rows(
        &self,
        bytes: &[u8],
        grid: Grid,
        rows: Range<u64>,
    ) -> Option<[Range<usize>; 2]> {
        let (mut index, mut at, mut starts) = (bytes.get(self.index.clone())?, [0; 2], [0; 2]);
        let tiles = grid.columns.div_ceil(self.tile.into());
        for row in 0..rows.end {
            if row == rows.start {
                starts = at;
            }
            let lengths = skip_tiles(&mut index, tiles)?;
            at = [at[0] + lengths[0], at[1] + lengths[1]];
        }
        let range = |stream: &Range<usize>, start: usize, end: usize| {
            let is_inside = end <= stream.len();
            let end = (stream.start + end).saturating_add(SLACK).min(bytes.len());
            is_inside.then_some(stream.start + start..end)
        };
        Some([range(&self.main, starts[0], at[0])?, range(&self.side, starts[1], at[1])?])
    }

    /// Returns the JPEG's bytes before the coded data; `bytes` are those that were parsed.
    pub fn head<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.head.clone()]
    }

    /// Returns the parts; `bytes` are those that were parsed.
    pub fn image<'a>(&self, bytes: &'a [u8]) -> BitPlaneImage<'a> {
        let stream =
            |range: &Range<usize>| PlaneStream { bytes: &bytes[range.start..], len: range.len() };
        BitPlaneImage {
            head: self.head(bytes),
            index: &bytes[self.index.clone()],
            main: stream(&self.main),
            side: stream(&self.side),
            #[cfg(feature = "write")]
            tail: &bytes[self.side.end..],
            tile: self.tile.into(),
            #[cfg(feature = "write")]
            fill: self.fill,
            checksums: bytes[self.checksums.clone()].as_chunks().0,
        }
    }
}

impl BitPlaneImage<'_> {
    /// Verifies the checksum of a row, of which `main` and `side` are the bytes.
    pub fn is_row(&self, row: usize, main: &[u8], side: &[u8]) -> bool {
        let checksum = crc32c::crc32c_append(crc32c::crc32c(main), side);
        self.checksums.get(row) == Some(&checksum.to_le_bytes())
    }

    /// Verifies the checksum of the tail.
    #[cfg(feature = "write")]
    pub fn has_its_tail(&self) -> bool {
        self.checksums.last() == Some(&crc32c::crc32c(self.tail).to_le_bytes())
    }
}

/// Corrects the checksums of an image, as far as its lengths lead.
#[cfg(feature = "write")]
pub fn resealed(image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    seal_headers(&mut image);
    let Ok((layout, headers)) = BitPlaneLayout::parse(&image) else { return image };
    let (parts, grid) = (layout.image(&image), Grid::of(&headers));
    let (mut index, mut at, mut checksums) = (parts.index, [0; 2], vec![]);
    for _ in 0..grid.rows {
        let start = at;
        for _ in 0..grid.columns.div_ceil(parts.tile) {
            let Some([main, side]) = take_lengths(&mut index) else { return image };
            at = [at[0] + main, at[1] + side];
        }
        let row = parts.main.part(start[0]..at[0]).zip(parts.side.part(start[1]..at[1]));
        let Some((main, side)) = row else { return image };
        checksums.push(crc32c::crc32c_append(crc32c::crc32c(main), side).to_le_bytes());
    }
    checksums.push(crc32c::crc32c(parts.tail).to_le_bytes());
    image[layout.checksums].copy_from_slice(checksums.as_flattened());
    seal_headers(&mut image);
    image
}

/// Corrects the checksum of an image's headers, if they are whole.
#[cfg(feature = "write")]
pub fn seal_headers(image: &mut [u8]) {
    let word = |at: usize| image.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let after = [16, 20, 24].map(|at| word(at).map_or(u64::MAX, u64::from));
    let after = after.into_iter().fold(0, u64::saturating_add);
    let streams = (image.len() as u64).checked_sub(after);
    if let Some(streams) = streams.filter(|&streams| streams >= FIXED as u64) {
        let checksum = crc32c::crc32c(&image[CHECKED..streams as usize]);
        image[CHECKED - 4..CHECKED].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Takes the lengths of tiles off the index, and returns their sums: main, side.
pub(crate) fn skip_tiles(index: &mut &[u8], mut tiles: u64) -> Option<[usize; 2]> {
    /// Every other byte, in lanes of 16 bits; a product with `ONES` has their sum in its upper lane.
    const LANES: u64 = 0x00ff_00ff_00ff_00ff;
    const ONES: u64 = 0x0001_0001_0001_0001;
    let mut sums = [0, 0];
    while tiles > 0 {
        // Most lengths take one byte: those of four tiles are added up at once.
        if let Some((eight, rest)) = index.split_first_chunk::<8>()
            && tiles >= 4
            && !eight.contains(&index::LONG)
        {
            let word = u64::from_le_bytes(*eight);
            let sum = |lanes: u64| (lanes.wrapping_mul(ONES) >> 48) as usize;
            sums = [sums[0] + sum(word & LANES), sums[1] + sum((word >> 8) & LANES)];
            (*index, tiles) = (rest, tiles - 4);
        } else {
            let [main, side] = take_lengths(index)?;
            (sums, tiles) = ([sums[0] + main, sums[1] + side], tiles - 1);
        }
    }
    Some(sums)
}

/// Takes the lengths of a tile's parts off the index: main, side.
#[inline(always)]
pub(crate) fn take_lengths(index: &mut &[u8]) -> Option<[usize; 2]> {
    if let [main, side, rest @ ..] = *index
        && *main < index::LONG
        && *side < index::LONG
    {
        let lengths = [usize::from(*main), usize::from(*side)];
        *index = rest;
        return Some(lengths);
    }
    Some([index::take(index)?, index::take(index)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_skipped_as_they_are_taken() {
        for step in [1, 3, 40] {
            let lengths = (0..400_u16).map(|n| n.wrapping_mul(step) % 300);
            let index: Vec<u8> = lengths.flat_map(index::code).flatten().collect();
            for tiles in 0..=201 {
                let (mut one_by_one, mut skipped) = (&index[..], &index[..]);
                let mut sums = Some([0, 0]);
                for _ in 0..tiles {
                    let lengths = take_lengths(&mut one_by_one);
                    sums = sums.zip(lengths).map(|([a, b], [c, d])| [a + c, b + d]);
                }
                assert_eq!(skip_tiles(&mut skipped, tiles), sums, "{tiles} tiles");
                assert!(sums.is_none() || skipped == one_by_one, "{tiles} tiles");
            }
        }
    }
}
