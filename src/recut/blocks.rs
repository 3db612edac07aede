//! Coefficients: read from a JPEG of any arrangement of scans, written as one.
//!
//! The reader sees files put together here, of segments that [`Parts`] found: no metadata, no
//! bytes between segments, nothing behind the end. It takes sequential pictures of one scan only,
//! so of others each scan is a picture of its own, of the scan's components:
//!
//! ```text
//! width' = ceil(width * h' / h)      h: the largest factor of the frame, h': of the scan
//! ```
//!
//! Such a picture has the MCUs of the frame, and its components the same blocks (T.81, A.2.3).

use super::Kept;
use crate::decode::{Frame, Part, Parts, ScanParts};
use libjpeg_turbo_rs::{ComponentCoefficients, JpegCoefficients};
use std::ops::RangeInclusive;

/// A picture's coefficients.
pub(super) type Blocks = Vec<ComponentCoefficients>;

/// What 8-bit samples transform to (T.81, F.1.2.1 and F.1.2.2: eleven bits of a DC difference,
/// ten of an AC coefficient).
const DC: RangeInclusive<i16> = -1024..=1023;
const AC: RangeInclusive<i16> = -1023..=1023;

/// Reads the coefficients of `bytes`, whose parts are `parts`.
pub(super) fn read(bytes: &[u8], parts: &Parts) -> Result<Blocks, Kept> {
    let Parts { frame, scans, .. } = parts;
    let blocks =
        if frame.progressive { read_picture(bytes, frame, scans)? } else { gather(bytes, parts)? };
    check_range(&blocks)?;
    Ok(blocks)
}

/// Reads a sequential picture, scan by scan.
fn gather(bytes: &[u8], parts: &Parts) -> Result<Blocks, Kept> {
    let mut blocks: Vec<Option<ComponentCoefficients>> = vec![None; parts.frame.components.len()];
    let mut tables: Vec<Part> = vec![];
    for scan in &parts.scans {
        tables.extend(scan.tables.iter().cloned());
        let scan = ScanParts { tables: tables.clone(), ..scan.clone() };
        let frame = frame_of(&parts.frame, &scan.components);
        let found = read_picture(bytes, &frame, std::slice::from_ref(&scan))?;
        for (&place, component) in scan.components.iter().zip(found) {
            if blocks[place].replace(component).is_some() {
                return Err(Kept::damaged(&"a component in two scans"));
            }
        }
    }
    let all: Option<Blocks> = blocks.into_iter().collect();
    all.ok_or_else(|| Kept::damaged(&"a component without a scan"))
}

/// The picture that a scan of some components is.
fn frame_of(frame: &Frame, components: &[usize]) -> Frame {
    let components: Vec<[u8; 3]> = components.iter().map(|&c| frame.components[c]).collect();
    let side = |side: u16, part: u8, whole: u8| {
        let scaled = (u32::from(side) * u32::from(part)).div_ceil(whole.into());
        u16::try_from(scaled).expect("not over the side of the whole")
    };
    let (h, v) = finest(&frame.components);
    let (part_h, part_v) = finest(&components);
    let (width, height) = (side(frame.width, part_h, h), side(frame.height, part_v, v));
    Frame { width, height, progressive: false, components }
}

/// The largest factors: horizontal, vertical.
pub(super) fn finest(components: &[[u8; 3]]) -> (u8, u8) {
    let factors = components.iter().map(|&[_, factors, _]| (factors >> 4, factors & 15));
    factors
        .fold((1, 1), |(h, v), (component_h, component_v)| (h.max(component_h), v.max(component_v)))
}

/// Pixels of a row that an MCU of the re-cut file covers.
pub(super) fn mcu_width(frame: &Frame) -> u16 {
    match &*frame.components {
        [_] => 8, // alone, a component's factors mean nothing (T.81, A.2.2)
        components => 8 * u16::from(finest(components).0),
    }
}

/// MCUs of all components together.
pub(super) fn mcus(frame: &Frame) -> u64 {
    let (h, v) = finest(&frame.components);
    let columns = frame.width.div_ceil(8 * u16::from(h));
    u64::from(columns) * u64::from(frame.height.div_ceil(8 * u16::from(v)))
}

/// Blocks of such an MCU.
pub(super) fn of_mcu(frame: &Frame) -> u64 {
    let blocks = |&[_, factors, _]: &[u8; 3]| u64::from(factors >> 4) * u64::from(factors & 15);
    frame.components.iter().map(blocks).sum()
}

/// Reads a picture of these scans.
fn read_picture(bytes: &[u8], frame: &Frame, scans: &[ScanParts]) -> Result<Blocks, Kept> {
    let mut file = vec![0xff, 0xd8];
    let marker = if frame.progressive { 0xc2 } else { 0xc1 };
    write_frame(&mut file, marker, frame);
    for scan in scans {
        let parts = scan.tables.iter().chain([&scan.header, &scan.data]);
        parts.for_each(|part| file.extend_from_slice(&bytes[part.clone()]));
    }
    file.extend_from_slice(&[0xff, 0xd9]);
    let read = libjpeg_turbo_rs::read_coefficients(&file).map_err(|error| Kept::damaged(&error))?;
    Ok(read.components)
}

/// Writes a frame header.
pub(super) fn write_frame(file: &mut Vec<u8>, marker: u8, frame: &Frame) {
    let [high, low] = frame.height.to_be_bytes();
    let [left, right] = frame.width.to_be_bytes();
    let count = u8::try_from(frame.components.len()).expect("four components at most");
    let length = 8 + 3 * count;
    file.extend_from_slice(&[0xff, marker, 0, length, 8, high, low, left, right, count]);
    file.extend_from_slice(frame.components.as_flattened());
}

fn check_range(blocks: &Blocks) -> Result<(), Kept> {
    // Without an early exit in a block the compiler makes vectors of it.
    let fits = |block: &[i16; 64]| {
        let most = |most: u16, value: &i16| most.max(value.unsigned_abs());
        DC.contains(&block[0]) && block[1..].iter().fold(0, most) <= AC.end().unsigned_abs()
    };
    let mut blocks = blocks.iter().flat_map(|component| &component.blocks);
    if blocks.all(fits) { Ok(()) } else { Err(Kept::Coefficient) }
}

/// Writes one scan of all components, with a restart marker every `interval` MCUs: a file with
/// Huffman tables for this picture, but neither metadata nor quantization tables.
pub(super) fn write(
    frame: &Frame,
    blocks: Blocks,
    interval: u16,
) -> Result<(Vec<u8>, Blocks), Kept> {
    let coefficients = JpegCoefficients {
        width: frame.width,
        height: frame.height,
        data_precision: 8,
        components: blocks,
        quant_tables: vec![],
        restart_interval: interval,
        density_unit: 0,
        x_density: 1,
        y_density: 1,
        saw_jfif_marker: false,
        adobe_transform: None,
    };
    let file = libjpeg_turbo_rs::write_coefficients_optimized(&coefficients)
        .map_err(|error| Kept::damaged(&error))?;
    Ok((file, coefficients.components))
}

/// Whether two pictures of one frame are the same. Blocks beyond a picture's edge, there only to
/// fill its last MCUs, do not count.
pub(super) fn are_same(frame: &Frame, some: &Blocks, others: &Blocks) -> bool {
    let (h, v) = finest(&frame.components);
    let count = |side: u16, factor: u8, finest: u8| {
        (usize::from(side) * usize::from(factor)).div_ceil(8 * usize::from(finest))
    };
    some.len() == others.len()
        && some.iter().zip(others).all(|(one, other)| {
            let columns = count(frame.width, one.h_sampling, h);
            let rows = count(frame.height, one.v_sampling, v);
            (0..rows).all(|row| {
                let (some, others) = (line(one, row, columns), line(other, row, columns));
                some.is_some() && some == others
            })
        })
}

/// The first blocks of a row.
fn line(of: &ComponentCoefficients, row: usize, columns: usize) -> Option<&[[i16; 64]]> {
    let start = row * of.blocks_x;
    of.blocks.get(start..start + columns)
}
