//! Writes bit-plane images of JPEGs, and restores the JPEGs.
//!
//! ```text
//! JPEG -> coefficients -> bit-plane image -> coefficients -> coded data = the JPEG's, else an error
//! ```
//!
//! Each image is proved when it is written: the JPEG is restored from it and compared. Only JPEGs that the loader's own
//! decoder decodes are written, so that decoding a bit-plane image needs no other decoder.

use super::check_sampling;
use crate::decode::error::{too_many_bytes, too_many_pixels};
use crate::error::{Error, fail};
use crate::sample::Limits;
use fuseloop_jpeg::{
    BIT_PLANES_MAGIC, BitPlaneLayout, Blocks, FIXED, Grid, Headers, IndexedJpeg, JpegError,
    Markers, ScanCoder, Scans, index, seal_headers, segment_count,
};
use fuseloop_kernels::bit_planes::{BitWriter, encode};
use fuseloop_kernels::{CpuWork, for_cpu};

/// Writes bit-plane images, and restores JPEGs. Each thread has its own, which reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct BitPlaneWriter {
    limits: Limits,
    coder: ScanCoder,
    blocks: Blocks,
    restarts: Vec<usize>,
    streams: [BitWriter; 2],
}

/// Why a JPEG is not stored as bit planes.
#[derive(Debug)]
pub(crate) enum BitPlaneError {
    /// The JPEG is damaged, over the limits, or not supported at all.
    Decode(Error),
    /// The coefficients are in several scans.
    Scans,
    /// A kind of JPEG that is left to zune-jpeg.
    Rare,
    /// A coefficient is larger than any of an 8-bit image.
    Coefficient,
    /// A tile has too many bytes for the index.
    Tile {
        /// MCUs of a tile.
        mcus: u16,
    },
    /// The restored JPEG is another one: its coded data have other padding bits, or codes that they need not have.
    Differs,
}

impl From<Error> for BitPlaneError {
    fn from(error: Error) -> Self {
        Self::Decode(error)
    }
}

impl From<JpegError> for BitPlaneError {
    fn from(error: JpegError) -> Self {
        Self::Decode(error.into())
    }
}

impl BitPlaneWriter {
    /// Creates a writer; images over `limits` are refused.
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the bit-plane image of a JPEG. `tile` returns the MCUs of a tile for the columns of the image and of an
    /// MCU.
    ///
    /// # Errors
    ///
    /// If the JPEG is damaged, or of a kind that is not stored as bit planes.
    pub(crate) fn write(
        &mut self,
        jpeg: &[u8],
        tile: impl Fn(u16, u16) -> u16,
    ) -> Result<Vec<u8>, BitPlaneError> {
        let headers = Headers::parse(jpeg)?;
        self.check(jpeg, &headers)?;
        if headers.progressive || headers.scan.ids.len() < headers.components.len() {
            return Err(BitPlaneError::Scans);
        }
        check_sampling(&headers)?;
        let grid = Grid::of(&headers);
        let Scans::Single(scan) =
            Scans::survey(jpeg, &headers, Markers::FromScan, &mut self.restarts)?
        else {
            return Err(BitPlaneError::Scans);
        };
        if !self.coder.is_known(jpeg, &headers) {
            return Err(BitPlaneError::Rare);
        }
        let source = IndexedJpeg { bytes: jpeg, headers: &headers, scan: &scan };
        let damaged = || fail!(Damaged, "damaged JPEG: its coded data are no coefficients");
        self.coder.read(source, &mut self.blocks).ok_or_else(damaged)?;
        let coded = headers.scan.data..scan.segment(segment_count(&headers) as usize - 1).end;

        let side = |side: u32| u16::try_from(side).expect("a JPEG's side has 16 bits");
        let tile = tile(side(headers.size.width), side(grid.mcu_width));
        let (checksums, index) = self.write_streams(grid, tile)?;
        let mut image = self.assemble(jpeg, coded, tile, &checksums, &index)?;
        for fill in [true, false] {
            image[30] = u8::from(fill);
            seal_headers(&mut image);
            if self.restore(&image)? == jpeg {
                return Ok(image);
            }
        }
        Err(BitPlaneError::Differs)
    }

    /// Refuses an image of more bytes or pixels than the limits allow.
    fn check(&self, bytes: &[u8], headers: &Headers) -> Result<(), Error> {
        let (len, max) = (bytes.len() as u64, self.limits.max_sample_bytes);
        if len > max {
            return Err(too_many_bytes(len, max));
        }
        let (size, max) = (headers.size, self.limits.max_pixels);
        if size.pixels() > max { Err(too_many_pixels(size, max)) } else { Ok(()) }
    }

    /// Writes both streams, and returns the checksums of rows and the index.
    fn write_streams(
        &mut self,
        grid: Grid,
        tile: u16,
    ) -> Result<(Vec<u8>, Vec<u8>), BitPlaneError> {
        let Self { blocks, streams, .. } = self;
        streams.iter_mut().for_each(BitWriter::clear);
        let (mut checksums, mut index) = (vec![], vec![]);
        let row = grid.columns as usize * blocks.channels.len();
        for row in blocks.coefficients.chunks_exact(row) {
            let mut ends = [streams[0].align(), streams[1].align()];
            let starts = ends;
            for tile_blocks in row.chunks(usize::from(tile) * blocks.channels.len()) {
                let tile_encode =
                    TileEncode { blocks: tile_blocks, channels: &blocks.channels, streams };
                for_cpu(tile_encode).ok_or(BitPlaneError::Coefficient)?;
                for (stream, end) in streams.iter_mut().zip(&mut ends) {
                    let at = stream.align();
                    let length = at - std::mem::replace(end, at);
                    let length =
                        u16::try_from(length).map_err(|_| BitPlaneError::Tile { mcus: tile })?;
                    index.extend(index::code(length).into_iter().flatten());
                }
            }
            let main = crc32c::crc32c(&streams[0].bytes()[starts[0]..]);
            let checksum = crc32c::crc32c_append(main, &streams[1].bytes()[starts[1]..]);
            checksums.extend_from_slice(&checksum.to_le_bytes());
        }
        Ok((checksums, index))
    }

    /// Assembles the image; see [`BitPlaneImage`] for its layout. The first checksum and the fill bit are left 0.
    fn assemble(
        &self,
        jpeg: &[u8],
        coded: std::ops::Range<usize>,
        tile: u16,
        checksums: &[u8],
        index: &[u8],
    ) -> Result<Vec<u8>, BitPlaneError> {
        let (head, tail) = (&jpeg[..coded.start], &jpeg[coded.end..]);
        let [main, side] = self.streams.each_ref().map(BitWriter::bytes);
        let mut image = Vec::with_capacity(jpeg.len() + jpeg.len() / 4);
        image.extend_from_slice(&BIT_PLANES_MAGIC);
        image.extend_from_slice(&[0; 4]);
        for part in [head, main, side, tail] {
            let len = part.len() as u64;
            let max = u64::from(u32::MAX);
            let len = u32::try_from(len).map_err(|_| too_many_bytes(len, max))?;
            image.extend_from_slice(&len.to_le_bytes());
        }
        image.extend_from_slice(&tile.to_le_bytes());
        image.extend_from_slice(&[0; 2]);
        debug_assert_eq!(image.len(), FIXED);
        image.extend_from_slice(head);
        image.extend_from_slice(checksums);
        image.extend_from_slice(&crc32c::crc32c(tail).to_le_bytes());
        for part in [index, main, side, tail] {
            image.extend_from_slice(part);
        }
        Ok(image)
    }

    /// Returns the JPEG of which `image` is the bit-plane image, byte for byte.
    ///
    /// # Errors
    ///
    /// If the image is damaged anywhere, or over the limits.
    pub(crate) fn restore(&mut self, image: &[u8]) -> Result<Vec<u8>, Error> {
        let (layout, headers) = BitPlaneLayout::parse(image)?;
        self.check(image, &headers)?;
        let planes = layout.image(image);
        let damaged = |what| fail!(Damaged, "damaged bit-plane image: {what}");
        let Self { coder, blocks, .. } = self;
        coder
            .read_planes(&planes, &headers, blocks)
            .ok_or_else(|| damaged("its streams are no coefficients, or a checksum differs"))?;
        if !planes.has_its_tail() {
            return Err(damaged("the checksum of the JPEG's end differs"));
        }
        let mut jpeg = Vec::with_capacity(image.len());
        jpeg.extend_from_slice(planes.head);
        coder
            .code(planes.head, &headers, blocks, planes.fill, &mut jpeg)
            .ok_or_else(|| damaged("the JPEG's tables lack a code"))?;
        jpeg.extend_from_slice(planes.tail);
        Ok(jpeg)
    }
}

/// The encoding of the blocks of a tile. Its result is `None` if a coefficient is out of range.
struct TileEncode<'a> {
    blocks: &'a [[i16; 64]],
    channels: &'a [usize],
    streams: &'a mut [BitWriter; 2],
}

impl CpuWork for TileEncode<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        let Self { blocks, channels, streams: [main, side] } = self;
        let mut before = [0_i16; 3];
        for mcu in blocks.chunks_exact(channels.len()) {
            for (block, &channel) in mcu.iter().zip(channels) {
                let mut differing = *block;
                differing[0] = block[0].checked_sub(before[channel])?;
                before[channel] = block[0];
                encode(&differing, main, side)?;
            }
        }
        Some(())
    }
}
