//! Reads coefficients from a JPEG with any arrangement of scans, and writes them as one scan.
//!
//! The coefficient reader gets files that are assembled here, from segments that [`JpegSegments`] found:
//! no metadata, no bytes between segments, nothing after the end. It accepts sequential images of one
//! scan only. So for any other sequential image each scan becomes an image of its own, of the scan's
//! components:
//!
//! ```text
//! width' = ceil(width * h' / h)      h: the largest factor of the frame, h': of the scan
//! ```
//!
//! Such an image has the MCUs of the frame, and its components have the same blocks (T.81, A.2.3).

use super::Unchanged;
use crate::decode::{ByteRange, FrameHeader, JpegSegments, STANDARD_TABLES, ScanSegments};
use libjpeg_turbo_rs::{ComponentCoefficients, JpegCoefficients};
use std::ops::RangeInclusive;

/// An image's coefficients.
pub(super) type Coefficients = Vec<ComponentCoefficients>;

/// The range of transformed 8-bit samples (T.81, F.1.2.1 and F.1.2.2: eleven bits for a DC difference,
/// ten for an AC coefficient).
const DC: RangeInclusive<i16> = -1024..=1023;
const AC: RangeInclusive<i16> = -1023..=1023;

/// Reads the coefficients of `bytes`, whose segments are `parts`.
pub(super) fn read(bytes: &[u8], parts: &JpegSegments) -> Result<Coefficients, Unchanged> {
    let JpegSegments { frame, scans, .. } = parts;
    let blocks =
        if frame.progressive { read_picture(bytes, frame, scans)? } else { gather(bytes, parts)? };
    check_range(&blocks)?;
    Ok(blocks)
}

/// Reads a sequential image, scan by scan.
fn gather(bytes: &[u8], parts: &JpegSegments) -> Result<Coefficients, Unchanged> {
    let mut blocks: Vec<Option<ComponentCoefficients>> = vec![None; parts.frame.components.len()];
    let mut tables: Vec<ByteRange> = vec![];
    for scan in &parts.scans {
        tables.extend(scan.tables.iter().cloned());
        let scan = ScanSegments { tables: tables.clone(), ..scan.clone() };
        let frame = frame_of(&parts.frame, &scan.components);
        let found = read_picture(bytes, &frame, std::slice::from_ref(&scan))?;
        for (&index, component) in scan.components.iter().zip(found) {
            if blocks[index].replace(component).is_some() {
                return Err(Unchanged::damaged(&"a component in two scans"));
            }
        }
    }
    let all: Option<Coefficients> = blocks.into_iter().collect();
    all.ok_or_else(|| Unchanged::damaged(&"a component without a scan"))
}

/// Returns the frame header of the image that a scan of some components becomes.
fn frame_of(frame: &FrameHeader, components: &[usize]) -> FrameHeader {
    let components: Vec<[u8; 3]> = components.iter().map(|&c| frame.components[c]).collect();
    let side = |side: u16, part: u8, whole: u8| {
        let scaled = (u32::from(side) * u32::from(part)).div_ceil(whole.into());
        u16::try_from(scaled).expect("not over the side of the whole")
    };
    let (h, v) = max_factors(&frame.components);
    let (part_h, part_v) = max_factors(&components);
    let (width, height) = (side(frame.width, part_h, h), side(frame.height, part_v, v));
    FrameHeader { width, height, progressive: false, components }
}

/// Returns the largest sampling factors: horizontal, vertical.
pub(super) fn max_factors(components: &[[u8; 3]]) -> (u8, u8) {
    let factors = components.iter().map(|&[_, factors, _]| (factors >> 4, factors & 15));
    factors
        .fold((1, 1), |(h, v), (component_h, component_v)| (h.max(component_h), v.max(component_v)))
}

/// Returns the columns of pixels that an MCU of the re-cut file covers.
pub(super) fn mcu_width(frame: &FrameHeader) -> u16 {
    match &*frame.components {
        [_] => 8, // alone, a component's factors mean nothing (T.81, A.2.2)
        components => 8 * u16::from(max_factors(components).0),
    }
}

/// Returns the number of MCUs if all components are in one scan.
pub(super) fn mcus(frame: &FrameHeader) -> u64 {
    let (h, v) = max_factors(&frame.components);
    let columns = frame.width.div_ceil(8 * u16::from(h));
    u64::from(columns) * u64::from(frame.height.div_ceil(8 * u16::from(v)))
}

/// Returns the number of blocks in such an MCU.
pub(super) fn blocks_per_mcu(frame: &FrameHeader) -> u64 {
    let blocks = |&[_, factors, _]: &[u8; 3]| u64::from(factors >> 4) * u64::from(factors & 15);
    frame.components.iter().map(blocks).sum()
}

/// Returns the bytes of all coefficients, including padding.
pub(super) fn bytes(frame: &FrameHeader) -> u64 {
    128 * mcus(frame) * blocks_per_mcu(frame)
}

/// Reads an image that consists of these scans.
fn read_picture(
    bytes: &[u8],
    frame: &FrameHeader,
    scans: &[ScanSegments],
) -> Result<Coefficients, Unchanged> {
    let mut file = vec![0xff, 0xd8];
    // A sequential frame may leave them out; those that it defines follow and take their place.
    if !frame.progressive {
        file.extend_from_slice(&STANDARD_TABLES);
    }
    let marker = if frame.progressive { 0xc2 } else { 0xc1 };
    write_frame(&mut file, marker, frame);
    for scan in scans {
        let parts = scan.tables.iter().chain([&scan.header, &scan.data]);
        parts.for_each(|part| file.extend_from_slice(&bytes[part.clone()]));
    }
    file.extend_from_slice(&[0xff, 0xd9]);
    let read =
        libjpeg_turbo_rs::read_coefficients(&file).map_err(|error| Unchanged::damaged(&error))?;
    Ok(read.components)
}

/// Writes a frame header.
pub(super) fn write_frame(file: &mut Vec<u8>, marker: u8, frame: &FrameHeader) {
    let [high, low] = frame.height.to_be_bytes();
    let [left, right] = frame.width.to_be_bytes();
    let count = u8::try_from(frame.components.len()).expect("four components at most");
    let length = 8 + 3 * count;
    file.extend_from_slice(&[0xff, marker, 0, length, 8, high, low, left, right, count]);
    file.extend_from_slice(frame.components.as_flattened());
}

fn check_range(blocks: &Coefficients) -> Result<(), Unchanged> {
    // Without an early exit inside a block the compiler vectorizes the test.
    let fits = |block: &[i16; 64]| {
        let most = |most: u16, value: &i16| most.max(value.unsigned_abs());
        DC.contains(&block[0]) && block[1..].iter().fold(0, most) <= AC.end().unsigned_abs()
    };
    let mut blocks = blocks.iter().flat_map(|component| &component.blocks);
    if blocks.all(fits) { Ok(()) } else { Err(Unchanged::Coefficient) }
}

/// Writes one scan of all components, with a restart marker every `interval` MCUs. The file has Huffman
/// tables for this image, but neither metadata nor quantization tables.
pub(super) fn write(
    frame: &FrameHeader,
    blocks: Coefficients,
    interval: u16,
) -> Result<(Vec<u8>, Coefficients), Unchanged> {
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
        .map_err(|error| Unchanged::damaged(&error))?;
    Ok((file, coefficients.components))
}

/// Returns whether two images of one frame have the same coefficients. Blocks beyond an image's edge,
/// which only fill up its last MCUs, are not compared.
pub(super) fn are_same(frame: &FrameHeader, some: &Coefficients, others: &Coefficients) -> bool {
    let (h, v) = max_factors(&frame.components);
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

/// Returns the first `columns` blocks of a row.
fn line(of: &ComponentCoefficients, row: usize, columns: usize) -> Option<&[[i16; 64]]> {
    let start = row * of.blocks_x;
    of.blocks.get(start..start + columns)
}
