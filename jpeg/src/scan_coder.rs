//! All coefficients of a scan: read from its coded data or from bit planes, and coded again (T.81, F.1.2).
//!
//! ```text
//! coded data  <->  blocks of all MCUs, in the file's order  <-  bit planes
//! ```
//!
//! The same tables give the same coded data, if the encoder of the file did what all known ones do: it codes no run of
//! zeros longer than it must be, and fills up the last byte of each segment with ones or with zeros. Whoever needs
//! the same bytes compares them.

use crate::bit_planes::BitPlaneImage;
use crate::bits::{BitPosition, Bits, unstuff};
use crate::decoder::{IndexedJpeg, Wanted};
use crate::entropy::Codes;
use crate::frame::{FrameComponents, Tables};
use crate::headers::Headers;
use crate::huffman::CodeTable;
use crate::mcu_reader::BLOCKS;
use crate::mcu_row::DecodeRegion;
use crate::scans::Grid;
use crate::tile_reader::{TileBuffers, TileReader};
use fuseloop_kernels::{CpuWork, POSITIONS, for_cpu};

/// Reads and codes scans. Each thread has its own, which reuses its buffers.
#[derive(Debug, Default)]
pub struct ScanCoder {
    tables: Tables,
    segment: Vec<u8>,
    tile: TileBuffers,
}

/// The blocks of an image, in the file's order.
#[derive(Debug, Default)]
pub struct Blocks {
    /// The coefficients of each block, in the order of [`ORDER`](fuseloop_kernels::ORDER), with the DC coefficient
    /// itself.
    pub coefficients: Vec<[i16; 64]>,
    /// The component of each block of an MCU.
    pub channels: Vec<usize>,
}

impl ScanCoder {
    /// Returns whether the image is one of those that [`WindowDecoder`](crate::WindowDecoder) decodes, by its headers.
    pub fn is_known(&mut self, jpeg: &[u8], headers: &Headers) -> bool {
        self.tables.read(jpeg, headers).is_some()
    }

    /// Reads all blocks of a JPEG. Returns `None` if it is not decoded here, or is damaged.
    pub fn read(&mut self, source: IndexedJpeg<'_>, blocks: &mut Blocks) -> Option<()> {
        let frame = self.tables.read(source.bytes, source.headers)?;
        start(blocks, &frame, source.headers)?;
        let Self { tables, segment, .. } = self;
        for_cpu(ScanRead { source, frame: &frame, tables, segment, blocks })
    }

    /// Reads all blocks of a bit-plane image. Returns `None` if it is damaged.
    pub fn read_planes(
        &mut self,
        image: &BitPlaneImage<'_>,
        headers: &Headers,
        blocks: &mut Blocks,
    ) -> Option<()> {
        let frame = self.tables.read_steps(image.head, headers)?;
        start(blocks, &frame, headers)?;
        let part = DecodeRegion::holding(Wanted::whole(headers.size), headers);
        let channels = frame.channels().len();
        let mut reader = TileReader::new(image, (&frame, channels), &part, &mut self.tile)?;
        reader.read_all(&mut blocks.coefficients)
    }

    /// Appends the coded data of all blocks to `coded`, with the tables of the JPEG that begins with `head`. The last
    /// byte of each segment is filled up with the bit `fill`. Returns `None` if the tables have no code for a
    /// coefficient.
    pub fn code(
        &mut self,
        head: &[u8],
        headers: &Headers,
        blocks: &Blocks,
        fill: bool,
        coded: &mut Vec<u8>,
    ) -> Option<()> {
        let frame = self.tables.read(head, headers)?;
        let mut codes = vec![];
        for channel in 0..frame.channels().len() {
            let Codes { dc, ac } = frame.codes(channel, &self.tables)?;
            codes.push([dc, ac].map(CodeTable::codes));
        }
        for_cpu(ScanCode { headers, codes: &codes, blocks, fill, coded })
    }
}

/// Prepares for all blocks of an image.
fn start(blocks: &mut Blocks, frame: &FrameComponents, headers: &Headers) -> Option<()> {
    let Blocks { coefficients, channels } = blocks;
    channels.clear();
    channels.extend(frame.blocks().map(|(channel, ..)| channel));
    coefficients.clear();
    let count = usize::try_from(Grid::of(headers).mcus()).ok()?.checked_mul(channels.len())?;
    coefficients.try_reserve_exact(count).ok()
}

/// The MCUs of each segment.
fn segments(headers: &Headers) -> impl Iterator<Item = u64> {
    let mcus = Grid::of(headers).mcus();
    let interval = match headers.restart_interval {
        0 => mcus,
        interval => interval.into(),
    };
    (0..mcus).step_by(interval as usize).map(move |first| interval.min(mcus - first))
}

/// The reading of all blocks.
struct ScanRead<'a> {
    source: IndexedJpeg<'a>,
    frame: &'a FrameComponents,
    tables: &'a Tables,
    segment: &'a mut Vec<u8>,
    blocks: &'a mut Blocks,
}

impl CpuWork for ScanRead<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        let Self { source: IndexedJpeg { bytes, headers, scan }, frame, tables, segment, blocks } =
            self;
        let codes = frame.codes(0, tables)?;
        let (mut places, mut count) = ([(0, codes, 0_i16); BLOCKS], 0);
        for (channel, component, _) in frame.blocks() {
            *places.get_mut(count)? = (channel, frame.codes(channel, tables)?, component.steps[0]);
            count += 1;
        }
        for (n, mcus) in segments(headers).enumerate() {
            unstuff(&bytes[scan.segment(n)], segment)?;
            let mut bits = Bits::new(segment, BitPosition::default());
            let mut dc = [0; 3];
            for _ in 0..mcus {
                for &(channel, codes, step) in &places[..count] {
                    let mut block = [0; 64];
                    codes.read(&mut bits, &mut dc[channel], &mut block)?;
                    block[0].checked_mul(step)?; // as for a window
                    blocks.coefficients.push(block);
                }
            }
            if !bits.is_inside() {
                return None;
            }
        }
        Some(())
    }
}

/// The coding of all blocks.
struct ScanCode<'a> {
    headers: &'a Headers,
    /// Each component's codes: DC, AC.
    codes: &'a [[[(u16, u8); 256]; 2]],
    blocks: &'a Blocks,
    fill: bool,
    coded: &'a mut Vec<u8>,
}

impl CpuWork for ScanCode<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        let Self { headers, codes, blocks, fill, coded } = self;
        let mut mcus = blocks.coefficients.chunks_exact(blocks.channels.len());
        for (n, count) in segments(headers).enumerate() {
            if let Some(before) = n.checked_sub(1) {
                coded.extend_from_slice(&[0xff, 0xd0 + (before % 8) as u8]);
            }
            let mut bits = CodedBits { bytes: coded, word: 0, count: 0 };
            let mut dc = [0; 3];
            for mcu in mcus.by_ref().take(count as usize) {
                for (block, &channel) in mcu.iter().zip(&blocks.channels) {
                    let before = std::mem::replace(&mut dc[channel], i32::from(block[0]));
                    code_block(block, dc[channel] - before, &codes[channel], &mut bits)?;
                }
            }
            bits.fill_up(fill);
        }
        Some(())
    }
}

/// Codes a block whose DC coefficient differs by `difference` from the component's previous one.
#[inline(always)]
fn code_block(
    block: &[i16; 64],
    difference: i32,
    [dc, ac]: &[[(u16, u8); 256]; 2],
    bits: &mut CodedBits<'_>,
) -> Option<()> {
    bits.put_value(dc, 0, difference)?;
    let values = POSITIONS.map(|position| block[usize::from(position & 63)]);
    let mut nonzero = 0_u64;
    for (index, value) in values.iter().enumerate() {
        nonzero |= u64::from(*value != 0) << index;
    }
    nonzero &= !1;
    let mut before = 0;
    while nonzero != 0 {
        let index = nonzero.trailing_zeros();
        let mut zeros = index - before - 1;
        while zeros > 15 {
            bits.put_value(ac, 15, 0)?;
            zeros -= 16;
        }
        bits.put_value(ac, zeros, values[index as usize].into())?;
        before = index;
        nonzero &= nonzero - 1;
    }
    if before < 63 { bits.put_value(ac, 0, 0) } else { Some(()) }
}

/// Writes coded data: bits, most significant bit first, with a stuffed `00` after each `ff`.
struct CodedBits<'a> {
    bytes: &'a mut Vec<u8>,
    /// The bits that are not yet written, at the low end; fewer than 32.
    word: u64,
    count: u32,
}

impl CodedBits<'_> {
    /// Writes the code for a value after a number of zeros, and the value (F.1.2.1 and F.1.2.2).
    #[inline(always)]
    fn put_value(&mut self, codes: &[(u16, u8); 256], zeros: u32, value: i32) -> Option<()> {
        let size = 32 - value.unsigned_abs().leading_zeros();
        if size > 15 {
            return None;
        }
        let (code, length) = codes[(zeros << 4 | size) as usize & 255];
        if length == 0 {
            return None;
        }
        // A negative value is stored with 1 subtracted.
        let low = (value + (value >> 31)) as u32 & ((1 << size) - 1);
        self.put(u64::from(code) << size | u64::from(low), u32::from(length) + size);
        Some(())
    }

    /// Writes the low `count` bits, 32 at most; the others must be 0.
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        self.word = self.word << count | bits;
        self.count += count;
        if self.count < 32 {
            return;
        }
        self.count -= 32;
        let four = ((self.word >> self.count) as u32).to_be_bytes();
        if four.contains(&0xff) {
            four.iter().for_each(|&byte| self.push(byte));
        } else {
            self.bytes.extend_from_slice(&four);
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
        if byte == 0xff {
            self.bytes.push(0);
        }
    }

    /// Fills up the last byte.
    fn fill_up(mut self, fill: bool) {
        let missing = self.count.next_multiple_of(8) - self.count;
        self.put(if fill { (1 << missing) - 1 } else { 0 }, missing);
        while self.count > 0 {
            self.count -= 8;
            self.push((self.word >> self.count) as u8);
        }
    }
}
