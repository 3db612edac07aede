//! From MCU to MCU, over restart markers (T.81, F.1.2.3 and E.2.4).
//!
//! ```text
//! MCU      0    1    2  | 3    4    5  | 6 ...        an interval of 3
//! segment  0              1              2            DC values begin anew in each
//! ```
//!
//! A segment without an MCU of the window is not looked at. One that has some is read whole, or
//! down to the window's last row: what lies beside the window is passed over, and damage in it is
//! damage.

use super::Source;
use super::bits::{Bits, Place, unstuff};
use super::entropy::Codes;
use super::frame::{Frame, Tables};
use super::stripe::{Part, Stripe};
use fuseloop_kernels::{idct, idct_flat};

/// A block of an MCU.
#[derive(Clone, Copy, Debug)]
struct Block<'a> {
    channel: usize,
    steps: &'a [i16; 64],
    /// Its column and row.
    place: [usize; 2],
    codes: Codes<'a>,
}

/// Most blocks of an MCU: four of luma and two of chroma.
const BLOCKS: usize = 6;

/// Reads the MCUs of a part in order.
pub(super) struct Reader<'a> {
    source: Source<'a>,
    part: &'a Part,
    /// The blocks of an MCU, in the file's order.
    blocks: [Block<'a>; BLOCKS],
    count: usize,
    segment: &'a mut Vec<u8>,
    /// The present segment, and its bounds in MCUs; empty before the first.
    next: u64,
    end: u64,
    place: Place,
    dc: [i32; 3],
}

impl<'a> Reader<'a> {
    /// A reader at the beginning. `None` if a component has no tables.
    pub(super) fn new(
        source: Source<'a>,
        frame: &'a Frame,
        tables: &'a Tables,
        part: &'a Part,
        segment: &'a mut Vec<u8>,
    ) -> Option<Self> {
        let steps = &frame.channels().first()?.steps;
        let codes = frame.codes(0, tables)?;
        let first = Block { channel: 0, steps, place: [0; 2], codes };
        let (mut blocks, mut count) = ([first; BLOCKS], 0);
        for (channel, factors) in frame.channels().iter().enumerate() {
            let codes = frame.codes(channel, tables)?;
            for at in 0..factors.h * factors.v {
                let place = [at % factors.h, at / factors.h];
                *blocks.get_mut(count)? = Block { channel, steps: &factors.steps, place, codes };
                count += 1;
            }
        }
        let (place, dc) = (Place::default(), [0; 3]);
        Some(Self { source, part, blocks, count, segment, next: 0, end: 0, place, dc })
    }

    /// Reads the part's MCUs of a row into `stripe`.
    #[inline(always)]
    pub(super) fn row(&mut self, row: u64, stripe: &mut Stripe) -> Option<()> {
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

    /// Reads the rest of the present segment.
    #[inline(always)]
    pub(super) fn finish(&mut self) -> Option<()> {
        self.pass(self.end)?;
        self.close()
    }

    /// Checks that the present segment had all that was read.
    fn close(&self) -> Option<()> {
        Bits::new(self.segment, self.place).is_inside().then_some(())
    }

    /// Goes to the beginning of the segment of an MCU.
    fn open(&mut self, mcu: u64) -> Option<()> {
        let Source { bytes, headers, scan } = self.source;
        let last = self.part.rows.end * self.part.grid.columns;
        let interval = match headers.restart_interval {
            0 => last,
            interval => interval.into(),
        };
        let segment = mcu / interval;
        unstuff(&bytes[scan.segment(usize::try_from(segment).ok()?)], self.segment)?;
        self.next = segment * interval;
        self.end = (self.next + interval).min(last);
        self.place = Place::default();
        self.dc = [0; 3];
        Some(())
    }

    /// Passes over the MCUs before `mcu`.
    #[inline(always)]
    fn pass(&mut self, mcu: u64) -> Option<()> {
        let (mut bits, mut dc) = (Bits::new(self.segment, self.place), self.dc);
        let blocks = &self.blocks[..self.count];
        for _ in self.next..mcu {
            for block in blocks {
                block.codes.skip(&mut bits, &mut dc[block.channel])?;
            }
        }
        (self.next, self.place, self.dc) = (mcu, bits.place(), dc);
        Some(())
    }

    /// Reads the MCUs before `mcu`, the first of which is the part's `first` of its row.
    #[inline(always)]
    fn read(&mut self, mcu: u64, first: usize, stripe: &mut Stripe) -> Option<()> {
        let (mut bits, mut dc) = (Bits::new(self.segment, self.place), self.dc);
        let blocks = &self.blocks[..self.count];
        for (nth, _) in (self.next..mcu).enumerate() {
            for &Block { channel, steps, place, codes } in blocks {
                let mut block = [0; 64];
                let length = codes.read(&mut bits, &mut dc[channel], &mut block)?;
                // What no picture has would wrap, and then the short way would not be the long one.
                let flat = i16::checked_mul(block[0], steps[0])?;
                let (out, stride) = stripe.place(channel, first + nth, place);
                match length {
                    1 => idct_flat(flat, out, stride),
                    _ => idct(&block, steps, out, stride),
                }
            }
        }
        (self.next, self.place, self.dc) = (mcu, bits.place(), dc);
        Some(())
    }
}
