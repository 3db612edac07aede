//! Any sequential JPEG: scans of any components in any order, and any sampling.
//!
//! ```text
//! tables -> scan -> samples of its components | tables -> scan -> ... | end        planes of all components -> pixels
//! ```
//!
//! A scan of several components has their blocks MCU by MCU, those that fill up MCUs with them; a scan of one component
//! has its own blocks only, row by row, and a restart interval counts them (T.81, A.2). Each component has one scan, so
//! a block is transformed when it is read, and no coefficients are stored. All columns are decoded, and the rows down to
//! the window's last. The tables of a scan are those defined before it (B.2.4), or the standard's.

use crate::bits::{BitPosition, Bits, unstuff};
use crate::entropy::Codes;
use crate::error::{JpegError, fail};
use crate::frame::Tables;
use crate::headers::{DHT, DQT, DRI, Headers, Scan, cut_short, short};
use crate::sample_plane::{ImagePlanes, PlaneLayout, SamplePlane};
use crate::scans::{
    Grid, Markers, ScanMcus, SingleScan, check_all_seen, end_of_data, not_blocks, scan_components,
};
use crate::segments::{EOI, SOS, Segment, Segments, be16, is_frame};
use fuseloop_kernels::{CpuWork, for_cpu, idct, idct_flat};
use std::ops::Range;

/// Decodes sequential JPEGs of any kind. Each worker has its own, which reuses its buffers.
#[derive(Debug, Default)]
pub(crate) struct SequentialDecoder {
    tables: Tables,
    restarts: Vec<usize>,
    /// A segment's bytes without stuffing.
    segment: Vec<u8>,
}

/// A block of an MCU of a scan.
#[derive(Clone, Copy, Debug)]
struct ScanBlock<'a> {
    component: usize,
    /// Columns and rows of the component's blocks in an MCU, and the block's column and row.
    side: [u64; 2],
    position: [u64; 2],
    codes: Codes<'a>,
    steps: &'a [i16; 64],
}

impl SequentialDecoder {
    /// Reads the samples in some rows of MCUs, of all scans.
    ///
    /// # Errors
    ///
    /// If the image is damaged, or there is no memory.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        rows: &Range<u64>,
        image: &mut ImagePlanes,
    ) -> Result<(), JpegError> {
        self.tables.clear();
        let mut seen = [false; 4];
        let seen = &mut seen[..headers.components.len()];
        let (mut segments, mut interval, mut scans) = (Segments { bytes, at: 2 }, 0, 0);
        while let Some(Segment { marker, at, body }) = next_segment(&mut segments, scans > 0)? {
            let payload = &bytes[body.clone()];
            let table = |what| fail!(Damaged, "damaged JPEG header: {what} at byte {at}");
            match marker {
                DHT => {
                    let defined = self.tables.define_all(payload);
                    defined.ok_or_else(|| table("impossible Huffman tables"))?;
                }
                DQT => {
                    let defined = self.tables.quantise_wide(payload);
                    defined.ok_or_else(|| table("quantization tables of a wrong length"))?;
                }
                DRI => interval = be16(payload, 0).ok_or_else(|| short(at))?,
                SOS => {
                    let scan = Scan::parse(payload, at, body.end)?;
                    let components = scan_components(headers, &scan, at)?;
                    for &component in &components {
                        if std::mem::replace(&mut seen[component], true) {
                            return Err(table("a second scan of a component"));
                        }
                    }
                    let end = end_of_data(bytes, scan.data, &mut self.restarts)?;
                    let data = scan.data..end;
                    self.read_scan(
                        bytes,
                        headers,
                        (&scan, &components, at),
                        data,
                        (interval, rows),
                        &mut image.planes,
                    )?;
                    // A scan of all components ends the image, as in libjpeg.
                    if components.len() == seen.len() {
                        return Ok(());
                    }
                    (segments.at, scans) = (end, scans + 1);
                }
                marker if is_frame(marker) && scans > 0 => return Err(table("a second frame")),
                _ => {}
            }
        }
        check_all_seen(seen)
    }

    /// Reads the samples in some rows of MCUs of a scan.
    fn read_scan(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        (scan, components, at): (&Scan, &[usize], usize),
        data: Range<usize>,
        (interval, rows): (u16, &Range<u64>),
        planes: &mut [SamplePlane; 4],
    ) -> Result<(), JpegError> {
        let Self { tables, restarts, segment } = self;
        let missing = |what| fail!(Damaged, "damaged JPEG header: {what} at byte {at}");
        let numbers = |codes: &u8| [codes >> 4, codes & 15].map(usize::from);
        for codes in scan.tables.iter() {
            let completed = tables.complete(numbers(codes));
            completed.ok_or_else(|| missing("impossible Huffman tables"))?;
        }
        let tables = &*tables;
        let is_alone = components.len() == 1;
        let (mut blocks, mut layouts) = (vec![], vec![]);
        for (&component, codes) in components.iter().zip(scan.tables.iter()) {
            let layout = PlaneLayout::of(headers, &headers.components[component]);
            let codes = tables.codes(numbers(codes));
            let codes = codes.ok_or_else(|| missing("a scan without its Huffman table"))?;
            let steps = tables.steps(layout.table);
            let steps = steps.ok_or_else(|| missing("a scan without its quantization table"))?;
            let [h, v] = if is_alone { [1; 2] } else { [layout.h, layout.v].map(|n| n as u64) };
            blocks.extend((0..h * v).map(|n| {
                let position = [n % h, n / h];
                ScanBlock { component, side: [h, v], position, codes, steps }
            }));
            layouts.push(layout);
        }
        let grid = Grid::of(headers);
        let own = layouts.first().filter(|_| is_alone);
        let (columns, mcu_rows) =
            own.map_or((grid.columns, grid.rows), |own| (own.columns, own.rows));
        // Rows of MCUs of the scan: a component alone has its own blocks for MCUs.
        let needed = own.map_or(rows.clone(), |own| {
            let v = own.v as u64;
            (v * rows.start).min(mcu_rows)..(v * rows.end).min(mcu_rows)
        });
        let mcus = ScanMcus { count: columns * mcu_rows, blocks: blocks.len() as u64, interval };
        let scan = SingleScan::of_mcus(headers.size, mcus, restarts, data, Markers::FromScan)?;
        for (&component, layout) in components.iter().zip(layouts) {
            let v = layout.v as u64;
            planes[component].begin(layout, v * rows.start..v * rows.end)?;
        }
        let all = mcus.count;
        let interval = if interval == 0 { all } else { interval.into() };
        let needed = needed.start * columns..needed.end * columns;
        let mut start = needed.start / interval * interval;
        while start < needed.end {
            let coded = scan.segment((start / interval) as usize);
            let end = (start + interval).min(needed.end);
            let read = ScanRead {
                coded: &bytes[coded.clone()],
                blocks: &blocks,
                columns,
                mcus: start..end,
                first: needed.start,
                segment,
                planes,
            };
            for_cpu(read).ok_or_else(|| not_blocks(&coded))?;
            start = end;
        }
        Ok(())
    }
}

/// The reading of MCUs of a segment.
struct ScanRead<'a> {
    coded: &'a [u8],
    blocks: &'a [ScanBlock<'a>],
    /// Columns of MCUs of the scan.
    columns: u64,
    /// The MCUs, from the segment's first one on. Those before `first` are skipped.
    mcus: Range<u64>,
    first: u64,
    segment: &'a mut Vec<u8>,
    planes: &'a mut [SamplePlane; 4],
}

impl CpuWork for ScanRead<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(self) -> Option<()> {
        let Self { coded, blocks, columns, mcus, first, segment, planes } = self;
        unstuff(coded, segment)?;
        let mut bits = Bits::new(segment, BitPosition::default());
        let mut dc = [0; 4];
        for mcu in mcus {
            let (row, column) = (mcu / columns, mcu % columns);
            for &ScanBlock { component, side: [h, v], position: [x, y], codes, steps } in blocks {
                if mcu < first {
                    codes.skip(&mut bits, &mut dc[component])?;
                    continue;
                }
                let mut block = [0; 64];
                let length = codes.read(&mut bits, &mut dc[component], &mut block)?;
                let flat = i16::checked_mul(block[0], steps[0])?;
                let (out, stride) = planes[component].block_mut(v * row + y, h * column + x)?;
                match length {
                    1 => idct_flat(flat, out, stride),
                    _ => idct(&block, steps, out, stride),
                }
            }
        }
        bits.is_inside().then_some(())
    }
}

/// Returns the next segment; `None` at the end of the image, which may not come before the first scan.
fn next_segment(
    segments: &mut Segments<'_>,
    is_after_scan: bool,
) -> Result<Option<Segment>, JpegError> {
    if !is_after_scan {
        return Ok(Some(segments.next_segment()?));
    }
    let rest = segments.bytes.get(segments.at..).unwrap_or_default();
    let fill = rest.iter().take_while(|&&byte| byte == 0xff).count();
    if fill > 0 && rest.get(fill) == Some(&EOI) {
        return Ok(None);
    }
    Ok(Some(segments.next_segment().map_err(cut_short)?))
}
