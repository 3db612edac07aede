//! Reads MCU after MCU, over restart markers (T.81, F.1.2.3 and E.2.4).
//!
//! ```text
//! MCU      0    1    2  | 3    4    5  | 6 ...        an interval of 3
//! segment  0              1              2            DC prediction restarts in each
//! ```
//!
//! A segment that contains no MCU of the window is skipped. A segment that contains some is read whole,
//! or down to the window's last row: MCUs beside the window are skipped bit by bit, and damage in them
//! is an error.

use crate::bits::{BitPosition, Bits, unstuff};
use crate::decoder::IndexedJpeg;
use crate::decoder::McuSource;
use crate::entropy::Codes;
use crate::frame::{FrameComponents, Tables};
use crate::mcu_row::{DecodeRegion, McuRow};
use fuseloop_kernels::{idct, idct_flat, idct_scaled};

/// A block of an MCU.
#[derive(Clone, Copy, Debug)]
struct McuBlock<'a> {
    channel: usize,
    steps: &'a [i16; 64],
    /// The block's column and row in the MCU.
    position: [usize; 2],
    codes: Codes<'a>,
}

/// Most blocks of an MCU: four of luma and two of chroma.
pub(crate) const BLOCKS: usize = 6;

/// Reads the MCUs of a region in order.
pub(crate) struct McuReader<'a> {
    source: IndexedJpeg<'a>,
    part: &'a DecodeRegion,
    /// The blocks of an MCU, in the file's order.
    blocks: [McuBlock<'a>; BLOCKS],
    count: usize,
    /// How many of the components are decoded; the blocks of the others are skipped.
    decoded: usize,
    segment: &'a mut Vec<u8>,
    /// The current segment's bounds in MCUs: the next one to read and the end; both 0 before the first
    /// segment.
    next: u64,
    end: u64,
    bit_position: BitPosition,
    dc: [i32; 3],
}

impl<'a> McuReader<'a> {
    /// Returns a reader at the beginning; `None` if a component has no tables.
    pub(crate) fn new(
        source: IndexedJpeg<'a>,
        (frame, decoded): (&'a FrameComponents, usize),
        tables: &'a Tables,
        part: &'a DecodeRegion,
        segment: &'a mut Vec<u8>,
    ) -> Option<Self> {
        let steps = &frame.channels().first()?.steps;
        let codes = frame.codes(0, tables)?;
        let first = McuBlock { channel: 0, steps, position: [0; 2], codes };
        let (mut blocks, mut count) = ([first; BLOCKS], 0);
        for (channel, component, position) in frame.blocks() {
            let codes = frame.codes(channel, tables)?;
            let steps = &component.steps;
            *blocks.get_mut(count)? = McuBlock { channel, steps, position, codes };
            count += 1;
        }
        let (bit_position, dc) = (BitPosition::default(), [0; 3]);
        let (next, end) = (0, 0);
        Some(Self { source, part, blocks, count, decoded, segment, next, end, bit_position, dc })
    }

    /// Checks that the current segment held all bits that were read.
    fn close(&self) -> Option<()> {
        Bits::new(self.segment, self.bit_position).is_inside().then_some(())
    }

    /// Opens the segment that contains an MCU.
    fn open(&mut self, mcu: u64) -> Option<()> {
        let IndexedJpeg { bytes, headers, scan } = self.source;
        let last = self.part.rows.end * self.part.grid.columns;
        let interval = match headers.restart_interval {
            0 => last,
            interval => interval.into(),
        };
        let segment = mcu / interval;
        unstuff(&bytes[scan.segment(usize::try_from(segment).ok()?)], self.segment)?;
        self.next = segment * interval;
        self.end = (self.next + interval).min(last);
        self.bit_position = BitPosition::default();
        self.dc = [0; 3];
        Some(())
    }

    /// Skips the MCUs before `mcu`.
    #[inline(always)]
    fn pass(&mut self, mcu: u64) -> Option<()> {
        let (mut bits, mut dc) = (Bits::new(self.segment, self.bit_position), self.dc);
        let blocks = &self.blocks[..self.count];
        for _ in self.next..mcu {
            for block in blocks {
                block.codes.skip(&mut bits, &mut dc[block.channel])?;
            }
        }
        (self.next, self.bit_position, self.dc) = (mcu, bits.position(), dc);
        Some(())
    }

    /// Reads the MCUs before `mcu`; the first of them is at index `first` of the region's row.
    #[inline(always)]
    fn read(&mut self, mcu: u64, first: usize, stripe: &mut McuRow) -> Option<()> {
        let (mut bits, mut dc) = (Bits::new(self.segment, self.bit_position), self.dc);
        let blocks = &self.blocks[..self.count];
        for (nth, _) in (self.next..mcu).enumerate() {
            for &McuBlock { channel, steps, position, codes } in blocks {
                if channel >= self.decoded {
                    codes.skip(&mut bits, &mut dc[channel])?;
                    continue;
                }
                let mut block = [0; 64];
                let length = codes.read(&mut bits, &mut dc[channel], &mut block)?;
                // A product that no valid image has would wrap, and the short path would then differ
                // from the long one.
                let flat = i16::checked_mul(block[0], steps[0])?;
                let size = stripe.block_size(channel);
                let (out, stride) = stripe.block_mut(channel, first + nth, position);
                match (length, size) {
                    (1, [8, 8]) => idct_flat(flat, out, stride),
                    (_, [8, 8]) => idct(&block, steps, out, stride),
                    _ => idct_scaled(&block, steps, size, out, stride),
                }
            }
        }
        (self.next, self.bit_position, self.dc) = (mcu, bits.position(), dc);
        Some(())
    }
}

impl McuSource for McuReader<'_> {
    #[inline(always)]
    fn row(&mut self, row: u64, stripe: &mut McuRow) -> Option<()> {
        let begin = row * self.part.grid.columns;
        let (mut at, end) = (begin + self.part.columns.start, begin + self.part.columns.end);
        while at < end {
            self.pass(at.min(self.end))?;
            if at >= self.end {
                self.close()?;
                self.open(at)?;
                continue;
            }
            let until = end.min(self.end);
            let first = (at - begin - self.part.columns.start) as usize;
            self.read(until, first, stripe)?;
            at = until;
        }
        Some(())
    }

    #[inline(always)]
    fn finish(&mut self) -> Option<()> {
        self.pass(self.end)?;
        self.close()
    }
}
