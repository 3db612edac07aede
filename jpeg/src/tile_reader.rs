//! Reads the MCUs of a bit-plane image, tile by tile.
//!
//! ```text
//! index -> the row's parts of both streams -> checksum -> a tile's blocks -> DC sums -> samples, two blocks at once
//! ```
//!
//! Only the tiles that hold MCUs of the window are decoded, and of the last one only the MCUs down to the window's last
//! column. Bits that are no blocks are an error, and so is a tile whose blocks end anywhere but at its end.

use crate::bit_planes::{BitPlaneImage, PlaneStream, skip_tiles, take_lengths};
use crate::decoder::McuSource;
use crate::frame::FrameComponents;
use crate::mcu_reader::BLOCKS;
use crate::mcu_row::{DecodeRegion, McuRow};
use fuseloop_kernels::bit_planes::{self, Form};
use fuseloop_kernels::{idct, idct_pair, idct_scaled, store_block};

/// A block of an MCU.
#[derive(Clone, Copy, Debug)]
struct McuBlock<'a> {
    channel: usize,
    steps: &'a [i16; 64],
    /// The block's column and row in the MCU.
    position: [usize; 2],
}

/// The buffers of a reader.
#[derive(Debug, Default)]
pub(crate) struct TileBuffers {
    coefficients: Vec<[i16; 64]>,
    /// Copies of parts of the streams near the end of the image, with the zeros after them that decoding needs.
    padded: [Vec<u8>; 2],
    /// Lengths of the parts of a row's tiles.
    lengths: Vec<[usize; 2]>,
}

/// Reads the tiles of a region in order.
pub(crate) struct TileReader<'a> {
    image: &'a BitPlaneImage<'a>,
    part: &'a DecodeRegion,
    blocks: [McuBlock<'a>; BLOCKS],
    count: usize,
    /// How many of the components are decoded.
    decoded: usize,
    buffers: &'a mut TileBuffers,
    form: Form,
    /// The next row of the image, the rest of the index from there on, and where the row begins in both streams.
    row: u64,
    index: &'a [u8],
    at: [usize; 2],
}

impl<'a> TileReader<'a> {
    /// Returns a reader at the beginning.
    pub(crate) fn new(
        image: &'a BitPlaneImage<'a>,
        (frame, decoded): (&'a FrameComponents, usize),
        part: &'a DecodeRegion,
        buffers: &'a mut TileBuffers,
    ) -> Option<Self> {
        let first =
            McuBlock { channel: 0, steps: &frame.channels().first()?.steps, position: [0; 2] };
        let (mut blocks, mut count) = ([first; BLOCKS], 0);
        for (channel, component, position) in frame.blocks() {
            *blocks.get_mut(count)? = McuBlock { channel, steps: &component.steps, position };
            count += 1;
        }
        let (form, index) = (Form::of_cpu(), image.index);
        Some(Self { image, part, blocks, count, decoded, buffers, form, row: 0, index, at: [0; 2] })
    }

    /// Reads the lengths of the tiles of the next row, verifies its checksum, and returns where it begins.
    fn verified_row(&mut self) -> Option<[usize; 2]> {
        let (row, at) = (self.row, self.open_row()?);
        let main = self.image.main.part(at[0]..self.at[0])?;
        let side = self.image.side.part(at[1]..self.at[1])?;
        self.image.is_row(row as usize, main, side).then_some(at)
    }

    /// Reads the lengths of the tiles of the next row, and returns where the row begins.
    fn open_row(&mut self) -> Option<[usize; 2]> {
        let start = self.at;
        self.buffers.lengths.clear();
        for _ in 0..self.part.grid.columns.div_ceil(self.image.tile) {
            let lengths = take_lengths(&mut self.index)?;
            self.at = [self.at[0] + lengths[0], self.at[1] + lengths[1]];
            self.buffers.lengths.push(lengths);
        }
        self.row += 1;
        Some(start)
    }

    /// Decodes the first `mcus` MCUs of a tile, whose parts begin at `at`; `is_whole` says that there are no more.
    #[inline(always)]
    fn decode_tile(
        &mut self,
        at: [usize; 2],
        lengths: [usize; 2],
        mcus: usize,
        is_whole: bool,
    ) -> Option<()> {
        let TileBuffers { coefficients, padded: [main, side], .. } = &mut *self.buffers;
        let blocks = mcus * self.count;
        if coefficients.len() < blocks {
            coefficients.try_reserve(blocks - coefficients.len()).ok()?;
            coefficients.resize(blocks, [0; 64]);
        }
        let blocks = &mut coefficients[..blocks];
        let streams = [
            followed(self.image.main, at[0]..at[0] + lengths[0], main)?,
            followed(self.image.side, at[1]..at[1] + lengths[1], side)?,
        ];
        let ends = bit_planes::decode(self.form, streams, lengths, blocks)?;
        (!is_whole || ends == lengths).then_some(())
    }

    /// Adds up the DC differences of a tile's MCUs. A product with its step that no valid image has is an error.
    #[inline(always)]
    fn sum_dc(&mut self, mcus: usize) -> Option<()> {
        let mut sums = [0_i16; 3];
        let blocks = &self.blocks[..self.count];
        let tile = self.buffers.coefficients.chunks_exact_mut(self.count);
        for mcu in tile.take(mcus) {
            for (coefficients, block) in mcu.iter_mut().zip(blocks) {
                let sum = sums[block.channel].checked_add(coefficients[0])?;
                sum.checked_mul(block.steps[0])?;
                sums[block.channel] = sum;
                coefficients[0] = sum;
            }
        }
        Some(())
    }

    /// Writes the samples of a tile's MCUs from `skipped` on; the first of them is at index `first` of the region's row.
    #[inline(always)]
    fn transform(&mut self, skipped: usize, mcus: usize, first: usize, stripe: &mut McuRow) {
        let blocks = &self.blocks[..self.count];
        let tile = self.buffers.coefficients.chunks_exact(self.count);
        let mut waiting: Option<(&[i16; 64], &McuBlock<'_>, usize)> = None;
        for (mcu, coefficients) in tile.take(mcus).skip(skipped).enumerate() {
            for (coefficients, block) in coefficients.iter().zip(blocks) {
                if block.channel >= self.decoded {
                    continue;
                }
                let mcu = first + mcu;
                let size = stripe.block_size(block.channel);
                if size != [8; 2] {
                    let (out, stride) = stripe.block_mut(block.channel, mcu, block.position);
                    idct_scaled(coefficients, block.steps, size, out, stride);
                    continue;
                }
                let Some((before, its, its_mcu)) = waiting.take() else {
                    waiting = Some((coefficients, block, mcu));
                    continue;
                };
                let rows = idct_pair(self.form, [before, coefficients], [its.steps, block.steps]);
                let (out, stride) = stripe.block_mut(its.channel, its_mcu, its.position);
                store_block(&rows[0], out, stride);
                let (out, stride) = stripe.block_mut(block.channel, mcu, block.position);
                store_block(&rows[1], out, stride);
            }
        }
        if let Some((coefficients, block, mcu)) = waiting {
            let (out, stride) = stripe.block_mut(block.channel, mcu, block.position);
            idct(coefficients, block.steps, out, stride);
        }
    }
}

#[cfg(feature = "write")]
impl TileReader<'_> {
    /// Appends the coefficients of all blocks of the image to `blocks`, in the file's order. Returns `None` if the image
    /// is damaged anywhere, or if it has bytes that are no part of any tile.
    pub(crate) fn read_all(&mut self, blocks: &mut Vec<[i16; 64]>) -> Option<()> {
        let (rows, width) = (self.part.grid.rows, self.part.grid.columns);
        while self.row < rows {
            let mut at = self.verified_row()?;
            for n in 0..self.buffers.lengths.len() {
                let (start, lengths) = (n as u64 * self.image.tile, self.buffers.lengths[n]);
                let mcus = (self.image.tile.min(width - start)) as usize;
                self.decode_tile(at, lengths, mcus, true)?;
                self.sum_dc(mcus)?;
                blocks.extend_from_slice(&self.buffers.coefficients[..mcus * self.count]);
                at = [at[0] + lengths[0], at[1] + lengths[1]];
            }
        }
        let ends = [self.image.main.len(), self.image.side.len()];
        (self.index.is_empty() && self.at == ends).then_some(())
    }
}

impl McuSource for TileReader<'_> {
    #[inline(always)]
    fn row(&mut self, row: u64, stripe: &mut McuRow) -> Option<()> {
        while self.row < row {
            let tiles = self.part.grid.columns.div_ceil(self.image.tile);
            let lengths = skip_tiles(&mut self.index, tiles)?;
            self.at = [self.at[0] + lengths[0], self.at[1] + lengths[1]];
            self.row += 1;
        }
        let mut at = self.verified_row()?;
        let (columns, width) = (self.part.columns.clone(), self.part.grid.columns);
        for n in 0..self.buffers.lengths.len() {
            let (start, lengths) = (n as u64 * self.image.tile, self.buffers.lengths[n]);
            if start >= columns.end {
                break;
            }
            let end = (start + self.image.tile).min(width);
            if end > columns.start {
                let mcus = (end.min(columns.end) - start) as usize;
                self.decode_tile(at, lengths, mcus, end <= columns.end)?;
                self.sum_dc(mcus)?;
                let skipped = columns.start.saturating_sub(start);
                let first = (start + skipped - columns.start) as usize;
                self.transform(skipped as usize, mcus, first, stripe);
            }
            at = [at[0] + lengths[0], at[1] + lengths[1]];
        }
        Some(())
    }

    #[inline(always)]
    fn finish(&mut self) -> Option<()> {
        Some(())
    }
}

/// Returns a part of a stream with the bytes after it that decoding may read: those of the image, or zeros.
#[inline(always)]
fn followed<'a>(
    stream: PlaneStream<'a>,
    part: std::ops::Range<usize>,
    padded: &'a mut Vec<u8>,
) -> Option<&'a [u8]> {
    let len = part.len();
    let rest = stream.part_and_rest(part)?;
    if rest.len() >= len + bit_planes::SLACK {
        return Some(rest);
    }
    padded.clear();
    padded.extend_from_slice(&rest[..len]);
    padded.resize(len + bit_planes::SLACK, 0);
    Some(padded)
}
