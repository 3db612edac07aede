//! Tables that decoding reads from a JPEG's headers, and which JPEGs are decoded here.
//!
//! ```text
//! ffc0 or ffc1   8 bits, 1 component, or 3 of luma 1x1, 2x1, 1x2 or 2x2 and chroma 1x1
//! ffc4           (class:4 table:4  count:1 x 16  symbol:1 x sum) x n        Huffman tables
//! ffdb           (0:4 table:4  step:1 x 64) x n                             quantisation
//! ffda           all components, in the frame's order, all 64 coefficients
//! ```
//!
//! Tables that no segment defines are the standard's ([`standard_tables`](crate::standard_tables)). The colours are
//! gray or YCbCr. A damaged file of this kind is left to zune-jpeg, whose verdict counts. Any other sequential file is
//! decoded by [`sequential`](crate::sequential), and progressive ones by [`progressive`](crate::progressive).

use crate::colours::Colours;
use crate::entropy::Codes;
use crate::headers::{DHT, DQT, DRI, Headers};
use crate::huffman::{CodeTable, TableKind};
use crate::segments::{APP1, SOS, Segments};
use crate::standard_tables::standard_table;
use fuseloop_kernels::POSITIONS;

const DAC: u8 = 0xcc;
const DNL: u8 = 0xdc;
const EXTENDED_XMP: &[u8] = b"http://ns.adobe.com/xmp/extension/\0";

/// An image's tables. Huffman tables are cached for the next image, which often has the same ones.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    dc: [Option<Box<CodeTable>>; 4],
    ac: [Option<Box<CodeTable>>; 4],
    /// The segments that `dc` and `ac` were read from, each preceded by its length.
    read_from: Vec<u8>,
    /// The same segments of the current image.
    definitions: Vec<u8>,
    /// Quantization steps, each at its coefficient's index.
    steps: [Option<[i16; 64]>; 4],
}

/// A colour component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreComponent {
    /// Columns of blocks in an MCU.
    pub h: usize,
    /// Rows of blocks in an MCU.
    pub v: usize,
    pub steps: [i16; 64],
    dc: usize,
    ac: usize,
}

/// The components of an image, one or three.
#[derive(Clone, Debug)]
pub(crate) struct FrameComponents {
    channels: [CoreComponent; 3],
    count: usize,
}

impl FrameComponents {
    /// Returns the components in order.
    pub(crate) fn channels(&self) -> &[CoreComponent] {
        &self.channels[..self.count]
    }

    /// Returns the columns and rows of blocks in an MCU, of each component.
    pub(crate) fn factors(&self) -> [[usize; 2]; 3] {
        self.channels.map(|component| [component.h, component.v])
    }

    /// Returns the blocks of an MCU in the file's order: the component's index, the component, and the block's column
    /// and row.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (usize, &CoreComponent, [usize; 2])> {
        self.channels().iter().enumerate().flat_map(|(channel, component)| {
            let count = component.h * component.v;
            (0..count).map(move |at| (channel, component, [at % component.h, at / component.h]))
        })
    }

    /// Returns the codes of a component.
    pub(crate) fn codes<'a>(&self, channel: usize, tables: &'a Tables) -> Option<Codes<'a>> {
        let CoreComponent { dc, ac, .. } = self.channels.get(channel)?;
        tables.codes([*dc, *ac])
    }
}

impl Tables {
    /// Reads the tables that `headers` does not hold. Returns `None` if the image is not decoded here.
    pub(crate) fn read(&mut self, bytes: &[u8], headers: &Headers) -> Option<FrameComponents> {
        let frame = self.read_steps(bytes, headers)?;
        self.define()?;
        for component in frame.channels() {
            self.complete([component.dc, component.ac])?;
        }
        (0..frame.count).try_for_each(|channel| frame.codes(channel, self).map(|_| ()))?;
        Some(frame)
    }

    /// Does the same as [`read`](Self::read), but builds no Huffman tables.
    pub(crate) fn read_steps(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
    ) -> Option<FrameComponents> {
        if headers.progressive || !is_sampled_simply(headers) {
            return None;
        }
        self.steps = [None; 4];
        self.definitions.clear();
        let (mut quantised, mut segments) = ([0; 3], Segments { bytes, at: 2 });
        loop {
            let segment = segments.next_segment().ok()?;
            let body = &bytes[segment.body];
            match segment.marker {
                SOS => return self.frame(headers, body, quantised),
                DHT => {
                    self.definitions.extend_from_slice(&(body.len() as u16).to_be_bytes());
                    self.definitions.extend_from_slice(body);
                }
                DQT => self.quantise(body)?,
                DAC | DNL => return None,
                DRI if body.len() != 2 => return None,
                // Shorter than its identifier requires, which is an error in the other decoder.
                APP1 if body.starts_with(EXTENDED_XMP) && body.len() < EXTENDED_XMP.len() + 40 => {
                    return None;
                }
                0xc0 | 0xc1 => {
                    let components = body.get(6..)?.as_chunks::<3>().0;
                    for (table, [.., number]) in quantised.iter_mut().zip(components) {
                        *table = usize::from(*number);
                    }
                }
                _ => {}
            }
        }
    }

    /// Forgets all tables.
    pub(crate) fn clear(&mut self) {
        self.read_from.clear();
        self.dc = [const { None }; 4];
        self.ac = [const { None }; 4];
        self.steps = [None; 4];
    }

    /// Builds the standard tables for those of a DC and an AC number that are not defined.
    pub(crate) fn complete(&mut self, [dc, ac]: [usize; 2]) -> Option<()> {
        let is_missing =
            |table: Option<&Option<Box<CodeTable>>>| table.is_some_and(Option::is_none);
        for (class, number, is_missing) in
            [(0, dc, is_missing(self.dc.get(dc))), (1, ac, is_missing(self.ac.get(ac)))]
        {
            if let Some(table) = standard_table(class, number).filter(|_| is_missing) {
                self.define_all(table)?;
            }
        }
        Some(())
    }

    /// Returns the codes of a DC and an AC table.
    pub(crate) fn codes(&self, [dc, ac]: [usize; 2]) -> Option<Codes<'_>> {
        Some(Codes { dc: self.dc_table(dc)?, ac: self.ac_table(ac)? })
    }

    /// Returns a table of the codes of DC differences.
    pub(crate) fn dc_table(&self, number: usize) -> Option<&CodeTable> {
        self.dc.get(number)?.as_deref()
    }

    /// Returns a table of the codes of AC coefficients.
    pub(crate) fn ac_table(&self, number: usize) -> Option<&CodeTable> {
        self.ac.get(number)?.as_deref()
    }

    /// Returns the quantization steps of a table.
    pub(crate) fn steps(&self, table: usize) -> Option<&[i16; 64]> {
        self.steps.get(table)?.as_ref()
    }

    /// Reads a segment of quantization tables, whose steps may have 16 bits. Coefficients of an 8-bit image are 0 for
    /// steps that do not fit.
    pub(crate) fn quantise_wide(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((&number, rest)) = body.split_first() {
            let table = self.steps.get_mut(usize::from(number & 15))?.insert([0; 64]);
            let bytes = match number >> 4 {
                0 => 1,
                1 => 2,
                _ => return None,
            };
            let (steps, rest) = rest.split_at_checked(64 * bytes)?;
            for (position, step) in POSITIONS.iter().zip(steps.chunks_exact(bytes)) {
                let step = step.iter().fold(0, |value, &byte| value << 8 | i32::from(byte));
                table[usize::from(*position)] = i16::try_from(step).unwrap_or(i16::MAX);
            }
            body = rest;
        }
        Some(())
    }

    /// Reads a segment of quantisation tables.
    fn quantise(&mut self, body: &[u8]) -> Option<()> {
        let (tables, []) = body.as_chunks::<65>() else { return None };
        for [number, steps @ ..] in tables {
            let table = self.steps.get_mut(usize::from(*number))?.insert([0; 64]);
            for (position, step) in POSITIONS.iter().zip(steps) {
                table[usize::from(*position)] = i16::from(*step);
            }
        }
        Some(())
    }

    /// Builds the Huffman tables, unless they equal the previous image's.
    fn define(&mut self) -> Option<()> {
        if self.definitions == self.read_from {
            return Some(());
        }
        self.read_from.clear(); // until all of the definitions were read
        self.dc = [const { None }; 4];
        self.ac = [const { None }; 4];
        let definitions = std::mem::take(&mut self.definitions);
        let mut rest = &definitions[..];
        while let Some((length, after)) = rest.split_first_chunk() {
            let (body, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
            self.define_all(body)?;
            rest = after;
        }
        self.definitions = std::mem::replace(&mut self.read_from, definitions);
        Some(())
    }

    /// Builds the tables of one segment.
    pub(crate) fn define_all(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((&id, rest)) = body.split_first() {
            let (counts, rest) = rest.split_first_chunk()?;
            let symbols = counts.iter().map(|&count| usize::from(count)).sum();
            let (symbols, rest) = rest.split_at_checked(symbols)?;
            let (tables, kind) = match id >> 4 {
                0 => (&mut self.dc, TableKind::Dc),
                1 => (&mut self.ac, TableKind::Ac),
                _ => return None,
            };
            *tables.get_mut(usize::from(id & 15))? =
                Some(Box::new(CodeTable::new(kind, counts, symbols)?));
            body = rest;
        }
        Some(())
    }

    /// Collects the tables that the scan's header, `body`, names.
    fn frame(
        &self,
        headers: &Headers,
        body: &[u8],
        quantised: [usize; 3],
    ) -> Option<FrameComponents> {
        let count = headers.components.len();
        let (named, parameters) = body.get(1..)?.split_at_checked(2 * count)?;
        if parameters != [0, 63, 0] {
            return None;
        }
        let empty = CoreComponent { h: 1, v: 1, steps: [0; 64], dc: 0, ac: 0 };
        let mut frame = FrameComponents { channels: [empty; 3], count };
        for (i, [id, codes]) in named.as_chunks::<2>().0.iter().enumerate() {
            let component = headers.components.get(i).filter(|component| component.id == *id)?;
            let (h, v) = if count == 1 { (1, 1) } else { (component.h, component.v) };
            *frame.channels.get_mut(i)? = CoreComponent {
                h: h.into(),
                v: v.into(),
                steps: (*self.steps.get(quantised[i])?)?,
                dc: (codes >> 4).into(),
                ac: (codes & 15).into(),
            };
        }
        Some(frame)
    }
}

/// Returns whether the components and their factors are among those in the module's documentation, in
/// one scan if the image is sequential.
pub fn is_sampled_simply(headers: &Headers) -> bool {
    if !headers.progressive && headers.scan.ids.len() != headers.components.len() {
        return false;
    }
    match &*headers.components {
        [only] => only.h <= 2 && only.v <= 2,
        [y, cb, cr] => {
            let distinct = y.id != cb.id && cb.id != cr.id && y.id != cr.id;
            let chroma = [cb, cr].iter().all(|component| (component.h, component.v) == (1, 1));
            let is_in_order = headers.progressive || *headers.scan.ids == [y.id, cb.id, cr.id];
            let is_ycbcr = headers.colours == Colours::YCbCr;
            distinct && is_in_order && is_ycbcr && chroma && y.h <= 2 && y.v <= 2
        }
        _ => false,
    }
}
