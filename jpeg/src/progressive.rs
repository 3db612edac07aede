//! Progressive JPEGs: all scans to coefficients, and the window's coefficients to samples (T.81, annex G).
//!
//! ```text
//! tables -> scan -> coefficients | tables -> scan -> coefficients | ... | end        coefficients of the window -> samples
//! ```
//!
//! A scan has some bits of some coefficients, of all blocks in order. It is read down to the window's last row of blocks,
//! and coefficients are stored for the window alone. A scan is left out if the window needs none of its coefficients: at a
//! smaller scale, or of chroma where luma is asked for. A later scan that refines such coefficients with others is needed,
//! and then so are the scans before it.
//!
//! Scripts of scans that libjpeg refuses are errors ([`scans`](crate::scans)); those of which it only warns are
//! decoded as libjpeg does: scans that are missing or repeat, or that refine another bit than the next one. The blocks of
//! a file that ends after a few scans are not smoothed.

use crate::coefficients::CoefficientPlane;
use crate::decoder::McuSource;
use crate::error::{JpegError, fail};
use crate::frame::Tables;
use crate::headers::{DHT, DQT, Headers};
use crate::mcu_row::{DecodeRegion, McuRow};
use crate::progressive_scan::{Band, DcBlock, SegmentRead, mask_of};
use crate::sample_plane::{PlaneLayout, SamplePlane};
use crate::scale::Scale;
use crate::scans::{Grid, ProgressiveScan, not_blocks};
use crate::segments::{SOS, Segments, is_frame};
use fuseloop_kernels::bit_planes::Form;
use fuseloop_kernels::{
    ORDER, POSITIONS, for_cpu_deposit, idct, idct_flat, idct_pair, idct_scaled, store_block,
};
use std::ops::Range;

/// The most bytes of coefficients that a decoder keeps after an image: those of 21 million pixels in 4:2:0. An image of more
/// takes hundreds of milliseconds, next to which its allocation is cheap.
const MOST_KEPT: usize = 64 << 20;

/// The part of an image whose coefficients are stored.
#[derive(Clone, Debug)]
pub(crate) struct CoefficientRegion {
    /// Rows and columns of MCUs.
    pub mcus: [Range<u64>; 2],
    /// The coefficients of each component that are needed, as masks in zigzag order.
    pub needed: [u64; 4],
}

/// Decodes progressive JPEGs. Each worker has its own, which reuses its buffers unless they are large.
#[derive(Debug, Default)]
pub(crate) struct ProgressiveDecoder {
    tables: Tables,
    planes: [CoefficientPlane; 4],
    /// A segment's bytes without stuffing.
    segment: Vec<u8>,
}

impl ProgressiveDecoder {
    /// Reads the coefficients of a region, from all scans of an image.
    ///
    /// # Errors
    ///
    /// If the image is damaged, or there is no memory.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        scans: &[ProgressiveScan],
        region: &CoefficientRegion,
    ) -> Result<(), JpegError> {
        self.tables.clear();
        for (index, component) in headers.components.iter().enumerate() {
            let layout = PlaneLayout::of(headers, component);
            let [rows, columns] = region.blocks_of(&layout);
            let columns = if region.needed[index] == 0 { 0..0 } else { columns };
            self.planes[index].begin(layout, [rows, columns])?;
        }
        let needed = needed_scans(scans, region.needed);
        let mut segments = Segments { bytes, at: 2 };
        for (scan, needed) in scans.iter().zip(needed) {
            self.read_tables(&mut segments)?;
            for &component in &scan.components {
                self.latch_steps(component, scan.at)?;
            }
            if needed {
                self.read_scan(bytes, headers, scan, region)?;
            }
            segments.at = scan.end;
        }
        Ok(())
    }

    /// Reads the tables before the next scan.
    fn read_tables(&mut self, segments: &mut Segments<'_>) -> Result<(), JpegError> {
        let is_first = segments.at == 2;
        loop {
            let segment = segments.next_segment()?;
            let payload = &segments.bytes[segment.body];
            let damaged =
                |what| fail!(Damaged, "damaged JPEG header: {what} at byte {}", segment.at);
            match segment.marker {
                SOS => return Ok(()),
                DHT => {
                    let defined = self.tables.define_all(payload);
                    defined.ok_or_else(|| damaged("impossible Huffman tables"))?;
                }
                DQT => {
                    let defined = self.tables.quantise_wide(payload);
                    defined.ok_or_else(|| damaged("quantization tables of a wrong length"))?;
                }
                marker if is_frame(marker) && !is_first => return Err(damaged("a second frame")),
                _ => {}
            }
        }
    }

    /// Notes a component's quantization steps: those defined when its first scan begins.
    fn latch_steps(&mut self, component: usize, at: usize) -> Result<(), JpegError> {
        let Self { tables, planes, .. } = self;
        let plane = &mut planes[component];
        plane.steps = plane.steps.or(tables.steps(plane.layout.table).copied());
        let what = "a scan without its quantization table";
        let missing = || fail!(Damaged, "damaged JPEG header: {what} at byte {at}");
        plane.steps.map(|_| ()).ok_or_else(missing)
    }

    /// Reads the coefficients of a scan.
    fn read_scan(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        scan: &ProgressiveScan,
        region: &CoefficientRegion,
    ) -> Result<(), JpegError> {
        let Self { tables, planes, segment } = self;
        let (header, named, grid) = (&scan.header, &*scan.components, Grid::of(headers));
        let what = "a scan without its Huffman table";
        let missing = || fail!(Damaged, "damaged JPEG header: {what} at byte {}", scan.at);
        let refines = header.approximation >> 4 > 0;
        let low = u32::from(header.approximation & 15);
        let [first, last] = header.coefficients.map(usize::from);
        let (is_alone, layout) = (named.len() == 1, planes[named[0]].layout);
        let mut blocks = vec![];
        let band = if first == 0 {
            for (&component, codes) in named.iter().zip(header.tables.iter()) {
                let table = match refines {
                    true => None,
                    false => Some(tables.dc_table((codes >> 4).into()).ok_or_else(missing)?),
                };
                let PlaneLayout { h, v, .. } = planes[component].layout;
                let [h, v] = if is_alone { [1; 2] } else { [h, v].map(|n| n as u64) };
                blocks.extend((0..h * v).map(|n| DcBlock {
                    component,
                    side: [h, v],
                    position: [n % h, n / h],
                    table,
                }));
            }
            Band::Dc(&blocks)
        } else {
            let table = tables.ac_table((header.tables[0] & 15).into()).ok_or_else(missing)?;
            Band::Ac { component: named[0], first, last, table, refines }
        };
        // A component alone has its own blocks for MCUs.
        let (columns, stored) = match is_alone {
            false => (grid.columns, region.mcus.clone()),
            true => {
                let [rows, columns] = region.blocks_of(&layout);
                let own = [(rows, layout.rows), (columns, layout.columns)];
                let within =
                    |(range, most): (Range<u64>, u64)| range.start.min(most)..range.end.min(most);
                (layout.columns, own.map(within))
            }
        };
        let all = stored[0].end * columns;
        let interval = match scan.interval {
            0 => all,
            interval => interval.into(),
        };
        let mut start = 0;
        while start < all {
            let coded = scan.segment((start / interval) as usize);
            let end = (start + interval).min(all);
            let read = SegmentRead {
                coded: &bytes[coded.clone()],
                band,
                low,
                columns,
                mcus: start..end,
                stored: stored.clone(),
                segment,
                planes,
            };
            for_cpu_deposit(read).ok_or_else(|| not_blocks(&coded))?;
            start = end;
        }
        Ok(())
    }

    /// Releases the coefficients of a large image, which the next ones may not need again. Other buffers are reused.
    pub(crate) fn release_large(&mut self) {
        if self.planes.iter().map(CoefficientPlane::bytes).sum::<usize>() > MOST_KEPT {
            self.planes = Default::default();
        }
    }

    /// Returns a source of the region's MCUs, of its first `decoded` components.
    pub(crate) fn source(&self, decoded: usize) -> CoefficientReader<'_> {
        CoefficientReader { planes: &self.planes[..decoded], form: Form::of_cpu() }
    }

    /// Writes all samples of a component, of the rows of blocks that were read.
    pub(crate) fn transform(
        &self,
        component: usize,
        out: &mut SamplePlane,
    ) -> Result<(), JpegError> {
        let plane = &self.planes[component];
        let [rows, columns] = plane.stored.clone();
        out.begin(plane.layout, rows.clone())?;
        let steps = plane.steps.expect("the survey found a scan of each component");
        for row in rows {
            let Some((blocks, nonzero)) = plane.row(row) else { break };
            for ((column, block), nonzero) in columns.clone().zip(blocks).zip(nonzero) {
                let Some((out, stride)) = out.block_mut(row, column) else { break };
                match flat(block, &steps, *nonzero) {
                    Some(flat) => idct_flat(flat, out, stride),
                    None => idct(block, &steps, out, stride),
                }
            }
        }
        Ok(())
    }
}

impl CoefficientRegion {
    /// Returns the region that decoding `decoded` components of `part` needs.
    pub(crate) fn of(part: &DecodeRegion, decoded: usize, stripe: &McuRow) -> Self {
        let mut needed = [0; 4];
        for (channel, needed) in needed[..decoded].iter_mut().enumerate() {
            *needed = match part.scale {
                Scale::FULL => !0,
                _ => lowest(stripe.block_size(channel).into_iter().max().unwrap_or(8)),
            };
        }
        Self { mcus: [part.rows.clone(), part.columns.clone()], needed }
    }

    /// Returns the rows and columns of a component's blocks in the region.
    fn blocks_of(&self, layout: &PlaneLayout) -> [Range<u64>; 2] {
        let [rows, columns] = &self.mcus;
        let (h, v) = (layout.h as u64, layout.v as u64);
        [v * rows.start..v * rows.end, h * columns.start..h * columns.end]
    }
}

/// Returns the mask, in zigzag order, of the coefficients that a transform to `side` x `side` samples takes.
fn lowest(side: usize) -> u64 {
    let is_taken =
        |at: &usize| (0..side * side).any(|n| ORDER[8 * (n / side) + n % side] == POSITIONS[*at]);
    (0..64).filter(is_taken).fold(0, |mask, at| mask | 1 << at)
}

/// Returns which scans are needed for the coefficients `needed` of each component.
fn needed_scans(scans: &[ProgressiveScan], mut needed: [u64; 4]) -> Vec<bool> {
    let mut all = vec![false; scans.len()];
    for (scan, is_needed) in scans.iter().zip(&mut all).rev() {
        let named = &scan.components;
        let [first, last] = scan.header.coefficients.map(usize::from);
        let band = mask_of(first, last);
        *is_needed = named.iter().any(|&component| needed[component] & band != 0);
        if *is_needed && first > 0 && scan.header.approximation >> 4 > 0 {
            // Which coefficients it refines depends on all that were read before.
            named.iter().for_each(|&component| needed[component] |= band);
        }
    }
    all
}

/// Returns the DC coefficient times its step of a block without others, if the short transform may take it.
#[inline(always)]
fn flat(block: &[i16; 64], steps: &[i16; 64], nonzero: u64) -> Option<i16> {
    if nonzero == 0 { block[0].checked_mul(steps[0]) } else { None }
}

/// Reads MCUs from coefficients.
pub(crate) struct CoefficientReader<'a> {
    planes: &'a [CoefficientPlane],
    form: Form,
}

impl McuSource for CoefficientReader<'_> {
    #[inline(always)]
    fn row(&mut self, row: u64, stripe: &mut McuRow) -> Option<()> {
        for (channel, plane) in self.planes.iter().enumerate() {
            let (size, steps) = (stripe.block_size(channel), plane.steps.as_ref()?);
            for y in 0..plane.layout.v {
                let (blocks, nonzero) = plane.row(row * plane.layout.v as u64 + y as u64)?;
                let mut waiting: Option<(usize, &[i16; 64])> = None;
                for (x, (block, nonzero)) in blocks.iter().zip(nonzero).enumerate() {
                    let (out, stride) = stripe.block_mut(channel, 0, [x, y]);
                    if size != [8; 2] {
                        idct_scaled(block, steps, size, out, stride);
                        continue;
                    }
                    if let Some(flat) = flat(block, steps, *nonzero) {
                        idct_flat(flat, out, stride);
                        continue;
                    }
                    let Some((before, its)) = waiting.take() else {
                        waiting = Some((x, block));
                        continue;
                    };
                    let rows = idct_pair(self.form, [its, block], [steps; 2]);
                    store_block(&rows[1], out, stride);
                    let (out, stride) = stripe.block_mut(channel, 0, [before, y]);
                    store_block(&rows[0], out, stride);
                }
                if let Some((x, block)) = waiting {
                    let (out, stride) = stripe.block_mut(channel, 0, [x, y]);
                    idct(block, steps, out, stride);
                }
            }
        }
        Some(())
    }

    #[inline(always)]
    fn finish(&mut self) -> Option<()> {
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::{Wanted, WindowDecoder};
    use crate::headers::Scan;
    use crate::scans::{Markers, Scans};

    /// Scans of component 0 or of all three: first and last coefficient, and the low bits left out before and now.
    fn needed(scans: &[(bool, [u8; 2], u8)], needed: [u64; 4]) -> String {
        let scan = |&(is_luma, [first, last], approximation): &(bool, [u8; 2], u8)| {
            let ids: &[u8] = if is_luma { &[1, 1, 0] } else { &[3, 1, 0, 2, 0, 3, 0] };
            let header = [ids, &[first, last, approximation]].concat();
            let header = Scan::parse(&header, 0, 0).unwrap();
            let components = if is_luma { vec![0] } else { vec![0, 1, 2] };
            ProgressiveScan { header, components, at: 0, end: 0, restarts: vec![], interval: 0 }
        };
        let scans: Vec<_> = scans.iter().map(scan).collect();
        let needed = needed_scans(&scans, needed);
        needed.into_iter().map(|is| if is { 'x' } else { '-' }).collect()
    }

    #[test]
    fn a_smaller_transform_takes_the_lowest_coefficients() {
        assert_eq!(lowest(1), 1);
        assert_eq!(lowest(2), 0b1_0111);
        assert_eq!((lowest(4).count_ones(), 63 - lowest(4).leading_zeros()), (16, 24));
        assert_eq!(lowest(8), !0);
    }

    /// A gray progressive file of one value: `side` x `side` pixels, in which the DC coefficient of each block takes a bit.
    /// A scan of AC coefficients follows, whose table is missing, if the file is `damaged`.
    fn flat(side: u16, damaged: bool) -> Vec<u8> {
        let mut file = vec![0xff, 0xd8];
        let mut segment = |marker: u8, body: &[u8]| {
            file.extend([0xff, marker]);
            file.extend((body.len() as u16 + 2).to_be_bytes());
            file.extend(body);
        };
        segment(0xdb, &[&[0][..], &[1; 64]].concat());
        let [high, low] = side.to_be_bytes();
        segment(0xc2, &[8, high, low, high, low, 1, 1, 0x11, 0]);
        segment(0xc4, &[&[0, 1][..], &[0; 15], &[0]].concat());
        segment(0xda, &[1, 1, 0, 0, 0, 0]);
        let blocks = usize::from(side.div_ceil(8)).pow(2);
        file.extend(vec![0; blocks.div_ceil(8)]);
        if damaged {
            file.extend([0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0, 0]);
        }
        file.extend([0xff, 0xd9]);
        file
    }

    #[test]
    fn coefficients_of_large_images_are_released() {
        let mut core = WindowDecoder::default();
        for (side, damaged, is_kept) in
            [(100, false, true), (6000, false, false), (100, true, true), (6000, true, false)]
        {
            let file = flat(side, damaged);
            let headers = Headers::parse(&file).unwrap();
            let (size, mut restarts) = (headers.size, vec![]);
            let scans = Scans::survey(&file, &headers, Markers::FromScan, &mut restarts).unwrap();
            let Scans::Progressive(scans) = scans else { panic!("the file is progressive") };
            let wanted = Wanted { window: size.full(), scale: Scale::FULL, gray: true };
            let mut pixels = vec![0; size.pixels() as usize];
            for is_any in [false, true] {
                pixels.fill(0);
                let done = match is_any {
                    false => core.decode_progressive(&file, &headers, &scans, wanted, &mut pixels),
                    true => {
                        let part = (wanted.window, true);
                        core.decode_any(&file, &headers, &scans, part, &mut pixels)
                    }
                };
                assert_eq!(done.is_err(), damaged);
                assert!(damaged || pixels.iter().all(|&level| level == 128));
                let bytes: usize =
                    core.progressive.planes.iter().map(CoefficientPlane::bytes).sum();
                assert_eq!(bytes > 0, is_kept, "{side}, damaged: {damaged}, {bytes} bytes");
            }
        }
    }

    #[test]
    fn scans_of_unneeded_coefficients_are_left_out() {
        let (all, luma) = (false, true);
        let scans = [
            (all, [0, 0], 0x01),
            (luma, [1, 5], 0x02),
            (luma, [6, 63], 0x02),
            (luma, [1, 63], 0x21),
            (all, [0, 0], 0x10),
        ];
        assert_eq!(needed(&scans, [!0, !0, !0, 0]), "xxxxx");
        assert_eq!(needed(&scans, [1, 1, 1, 0]), "x---x");
        assert_eq!(needed(&scans, [0, !0, !0, 0]), "x---x");
        // The third scan has no needed coefficient, but the fourth one refines its coefficients with needed ones.
        assert_eq!(needed(&scans, [lowest(2), 0, 0, 0]), "xxxxx");
        let apart = [scans[0], scans[1], scans[2], (luma, [1, 5], 0x21), (luma, [6, 63], 0x21)];
        assert_eq!(needed(&apart, [lowest(2), 0, 0, 0]), "xx-x-");
    }
}
