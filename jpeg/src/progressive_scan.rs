//! A scan of a progressive image: the blocks' coefficients from its bits (T.81, G.1.2 and G.2).
//!
//! ```text
//! DC, first      a code and a difference a block, as in a sequential image; the sum is shifted by the low bits left out
//! DC, refined    a bit a block
//! AC, first      codes and values of the band | the end of this block and of as many as the bits after its code count
//! AC, refined    code, sign of a new coefficient +-1, a bit for each coefficient before it that is not 0 | ... | end
//! ```
//!
//! Many bits that refine a block's coefficients are read at once: a mask says which coefficients are not 0. The run of a
//! code counts zeros only. So the new coefficient is at the unset bit of the mask with this number, and the set bits before
//! it are the coefficients that are refined. A few instructions find both, however many coefficients lie between.
//!
//! A coefficient that has the bit already keeps it, as in libjpeg; this matters only where scans repeat. Bits that are no
//! block are an error, as in [`entropy`](crate::entropy): also a new coefficient of more than one bit, or behind the band.

use crate::bits::{BitPosition, Bits, unstuff};
use crate::coefficients::{BlockRow, CoefficientPlane};
use crate::entropy::{add_difference, read_values};
use crate::huffman::{CodeTable, Rare};
use fuseloop_kernels::{Deposit, DepositWork, POSITIONS};
use std::iter;
use std::ops::Range;

/// A block of an MCU of a scan of DC coefficients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DcBlock<'a> {
    pub component: usize,
    /// Columns and rows of the component's blocks in an MCU, and the block's column and row.
    pub side: [u64; 2],
    pub position: [u64; 2],
    /// The codes of differences; `None` if the scan refines.
    pub table: Option<&'a CodeTable>,
}

/// The coefficients that a scan has bits of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Band<'a> {
    Dc(&'a [DcBlock<'a>]),
    /// AC coefficients of a component from the index `first` to `last`.
    Ac {
        component: usize,
        first: usize,
        last: usize,
        table: &'a CodeTable,
        refines: bool,
    },
}

/// The reading of a segment of a scan.
pub(crate) struct SegmentRead<'a> {
    pub coded: &'a [u8],
    pub band: Band<'a>,
    /// The lowest bit of coefficients that the scan has.
    pub low: u32,
    /// Columns of MCUs of the scan.
    pub columns: u64,
    /// The MCUs, from the segment's first one on.
    pub mcus: Range<u64>,
    /// Rows and columns of MCUs of the scan whose coefficients are stored.
    pub stored: [Range<u64>; 2],
    pub segment: &'a mut Vec<u8>,
    pub planes: &'a mut [CoefficientPlane; 4],
}

impl DepositWork for SegmentRead<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<D: Deposit>(self, deposit: D) -> Option<()> {
        let Self { coded, band, low, columns, mcus, stored, segment, planes } = self;
        unstuff(coded, segment)?;
        let mut bits = Bits::new(segment, BitPosition::default());
        let spans = Spans { mcus, columns, stored };
        match band {
            Band::Dc(blocks) => {
                let mut sums = [0; 4];
                for span in spans {
                    read_dc(blocks, low, &span, &mut bits, &mut sums, planes)?;
                }
            }
            Band::Ac { component, first, last, table, refines } => {
                let plane = &mut planes[component & 3];
                let mut ac = AcRead { table, first, last, low, ended: 0, deposit };
                for Span { row, columns, is_stored } in spans {
                    let row = plane.row_mut(row, columns, is_stored)?;
                    match refines {
                        true => ac.refine_row(&mut bits, row)?,
                        false => ac.read_row(&mut bits, row)?,
                    }
                }
            }
        }
        bits.is_inside().then_some(())
    }
}

/// Returns the mask of the coefficients from one index to another one, 63 at most, in zigzag order.
#[inline(always)]
pub(crate) fn mask_of(first: usize, last: usize) -> u64 {
    (!0_u64 << (first & 63)) & (!0_u64 >> (63 - (last & 63)))
}

/// Adjacent MCUs of a row.
struct Span {
    row: u64,
    columns: Range<u64>,
    /// True if the coefficients of all of them are stored; otherwise, none are.
    is_stored: bool,
}

/// Divides MCUs into spans, in order.
struct Spans {
    mcus: Range<u64>,
    columns: u64,
    stored: [Range<u64>; 2],
}

impl Iterator for Spans {
    type Item = Span;

    #[inline(always)]
    fn next(&mut self) -> Option<Span> {
        if self.mcus.is_empty() {
            return None;
        }
        let (row, start) = (self.mcus.start / self.columns, self.mcus.start % self.columns);
        let end = self.columns.min(start + self.mcus.end - self.mcus.start);
        let [rows, columns] = &self.stored;
        let (end, is_stored) = match rows.contains(&row) {
            true if start < columns.start => (end.min(columns.start), false),
            true if start < columns.end => (end.min(columns.end), true),
            _ => (end, false),
        };
        self.mcus.start += end - start;
        Some(Span { row, columns: start..end, is_stored })
    }
}

/// Reads the DC coefficients of MCUs.
#[inline(always)]
fn read_dc(
    blocks: &[DcBlock<'_>],
    low: u32,
    Span { row, columns, is_stored }: &Span,
    bits: &mut Bits<'_>,
    sums: &mut [i32; 4],
    planes: &mut [CoefficientPlane; 4],
) -> Option<()> {
    let refines = blocks.first()?.table.is_none();
    if refines && !is_stored {
        return bits.skip((columns.end - columns.start) * blocks.len() as u64);
    }
    for column in columns.clone() {
        for &DcBlock { component, side: [h, v], position: [x, y], table } in blocks {
            let block = match is_stored {
                true => planes[component & 3].block_mut(v * row + y, h * column + x),
                false => None,
            };
            let Some(table) = table else {
                bits.refill()?;
                let bit = (bits.peek() >> 63) as i16;
                bits.consume(1);
                if let Some(block) = block {
                    block[0] |= bit << low;
                }
                continue;
            };
            let sum = &mut sums[component & 3];
            add_difference(table, bits, sum)?;
            if let Some(block) = block {
                block[0] = shifted(*sum, low)?;
            }
        }
    }
    Some(())
}

/// Returns a coefficient without its low bits at its place; `None` for one that no image has.
#[inline(always)]
fn shifted(value: i32, low: u32) -> Option<i16> {
    i16::try_from(value.wrapping_shl(low))
        .ok()
        .filter(|shifted| i32::from(*shifted) >> low == value)
}

/// The coefficients of a block, or nothing where they are not stored.
trait BlockSink {
    /// Sets coefficient `at`, in zigzag order.
    fn set(&mut self, at: usize, value: i16);

    /// Adds a bit to the absolute values of the coefficients of a mask, in zigzag order.
    fn refine(&mut self, mask: u64, low: u32);
}

/// A block whose coefficients are not stored.
struct Skipped;

impl BlockSink for Skipped {
    #[inline(always)]
    fn set(&mut self, _: usize, _: i16) {}

    #[inline(always)]
    fn refine(&mut self, _: u64, _: u32) {}
}

impl BlockSink for &mut [i16; 64] {
    #[inline(always)]
    fn set(&mut self, at: usize, value: i16) {
        self[usize::from(POSITIONS[at & 63] & 63)] = value;
    }

    #[inline(always)]
    fn refine(&mut self, mut mask: u64, low: u32) {
        let bit = 1_i16 << (low & 15);
        while mask != 0 {
            let value = &mut self[usize::from(POSITIONS[mask.trailing_zeros() as usize & 63] & 63)];
            let signed = (bit ^ (*value >> 15)) - (*value >> 15);
            *value = value.wrapping_add(if *value & bit == 0 { signed } else { 0 });
            mask &= mask - 1;
        }
    }
}

/// The reading of the AC coefficients of a scan.
struct AcRead<'a, D> {
    table: &'a CodeTable,
    first: usize,
    last: usize,
    low: u32,
    /// The number of next blocks that have ended already.
    ended: u32,
    deposit: D,
}

impl<D: Deposit> AcRead<'_, D> {
    /// Reads the first bits of the coefficients of adjacent blocks.
    #[inline(always)]
    fn read_row(&mut self, bits: &mut Bits<'_>, row: BlockRow<'_>) -> Option<()> {
        match row.blocks {
            Some(blocks) => self.read_blocks(bits, row.nonzero, blocks.iter_mut()),
            None => self.read_blocks(bits, row.nonzero, iter::repeat_with(|| Skipped)),
        }
    }

    #[inline(always)]
    fn read_blocks<S: BlockSink>(
        &mut self,
        bits: &mut Bits<'_>,
        nonzero: &mut [u64],
        blocks: impl Iterator<Item = S>,
    ) -> Option<()> {
        for (nonzero, mut block) in nonzero.iter_mut().zip(blocks) {
            if self.ended > 0 {
                self.ended -= 1;
                continue;
            }
            bits.refill()?;
            let (mut found, mut lost, low) = (0_u64, 0, self.low);
            let store = |at: usize, value: i32| {
                let value = value << low;
                // A value that no image has would lose bits.
                lost |= value ^ i32::from(value as i16);
                found |= 1 << (at & 63);
                block.set(at, value as i16);
            };
            let (_, end_bits) = read_values(self.table, bits, (self.first, self.last), store)?;
            if lost != 0 {
                return None;
            }
            *nonzero |= found;
            self.end(bits, end_bits)?;
        }
        Some(())
    }

    /// Reads further bits of the coefficients of adjacent blocks.
    #[inline(always)]
    fn refine_row(&mut self, bits: &mut Bits<'_>, row: BlockRow<'_>) -> Option<()> {
        match row.blocks {
            Some(blocks) => self.refine_blocks(bits, row.nonzero, blocks.iter_mut()),
            None => self.refine_blocks(bits, row.nonzero, iter::repeat_with(|| Skipped)),
        }
    }

    #[inline(always)]
    fn refine_blocks<S: BlockSink>(
        &mut self,
        bits: &mut Bits<'_>,
        nonzero: &mut [u64],
        blocks: impl Iterator<Item = S>,
    ) -> Option<()> {
        let band = mask_of(self.first, self.last);
        for (nonzero, mut block) in nonzero.iter_mut().zip(blocks) {
            let ones = if self.ended > 0 {
                self.ended -= 1;
                bits.refill()?;
                self.corrections(bits, *nonzero & band)?
            } else {
                let (found, ones) = self.refine_block(bits, *nonzero, band, &mut block)?;
                *nonzero |= found;
                ones
            };
            block.refine(ones, self.low);
        }
        Some(())
    }

    /// Reads the bits of a block in which the coefficients of `nonzero` are not 0. Sets new ones, and returns their mask
    /// and that of the coefficients that are refined by a 1.
    #[inline(always)]
    fn refine_block(
        &mut self,
        bits: &mut Bits<'_>,
        nonzero: u64,
        band: u64,
        block: &mut impl BlockSink,
    ) -> Option<(u64, u64)> {
        let (mut rest, mut found, mut ones) = (band, 0_u64, 0_u64);
        while rest != 0 {
            bits.refill()?;
            let mut entry = self.table.look(bits.peek());
            if entry.run() > 15 {
                if !entry.is_end() {
                    match self.table.rare(bits.peek(), entry)? {
                        Rare::Value(value) | Rare::End(value) => entry = value,
                        Rare::Zeros(zeros) => {
                            let last = self.deposit.nth(15, rest & !nonzero);
                            let passed = rest & (last | last.wrapping_sub(1));
                            if last == 0 {
                                return None;
                            }
                            bits.consume(zeros.bits());
                            ones |= self.corrections(bits, passed & nonzero)?;
                            rest &= !passed;
                            continue;
                        }
                    }
                }
                if entry.is_end() {
                    bits.consume(entry.bits());
                    self.end(bits, entry.end_bits())?;
                    ones |= self.corrections(bits, rest & nonzero)?;
                    break;
                }
            }
            let new = self.deposit.nth(entry.run(), rest & !nonzero);
            if new == 0 || entry.size() != 1 {
                return None;
            }
            let passed = rest & (new | (new - 1));
            let value = entry.value(bits.peek());
            bits.consume(entry.bits());
            ones |= self.corrections(bits, passed & nonzero)?;
            block.set(new.trailing_zeros() as usize, (value << self.low) as i16);
            found |= new;
            rest &= !passed;
        }
        Some((found, ones))
    }

    /// Reads how many blocks after the current one have ended, from the bits after the code of its end.
    #[inline(always)]
    fn end(&mut self, bits: &mut Bits<'_>, end_bits: u32) -> Option<()> {
        if end_bits > 0 {
            bits.refill()?;
            self.ended = (1 << end_bits) - 1 + (bits.peek() >> (64 - end_bits)) as u32;
            bits.consume(end_bits);
        }
        Some(())
    }

    /// Reads a bit for each coefficient of a mask, and returns the mask of those whose bit is 1. Needs 26 valid bits.
    #[inline(always)]
    fn corrections(&self, bits: &mut Bits<'_>, mask: u64) -> Option<u64> {
        let count = mask.count_ones();
        if count > 26 {
            bits.refill()?;
        }
        let mut word = bits.peek();
        if count > 56 {
            bits.consume(32);
            bits.refill()?;
            word = word >> 32 << 32 | bits.peek() >> 32;
            bits.consume(count - 32);
        } else {
            bits.consume(count);
        }
        Some(self.deposit.deposit(word.reverse_bits(), mask))
    }
}
